/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hostmem.c: limits of control groups, and what an endpoint gets of them.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hostmem.h"

static const size_t MIB = (size_t) 1 << 20, GIB = (size_t) 1 << 30;

static char root[] = "/tmp/tagrv_hostmem_XXXXXX";

/* Creates a file and the directories above it. */
static void put(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	for (const char *at = name + 1; *at; at++) {
		if (*at != '/')
			continue;
		snprintf(path, sizeof(path), "%s%.*s", root, (int) (at - name),
			 name);
		mkdir(path, 0700);
	}
	snprintf(path, sizeof(path), "%s%s", root, name);
	file = fopen(path, "we");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(root));
}

static void teardown(void)
{
	char command[600];

	snprintf(command, sizeof(command), "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(hostmem, .init = setup, .fini = teardown, .timeout = 10);

Test(hostmem, without_groups_it_is_the_memory_of_the_host)
{
	size_t host = (size_t) sysconf(_SC_PHYS_PAGES) *
		      (size_t) sysconf(_SC_PAGESIZE);

	cr_expect_eq(tagrv_hostmem_limit(root), host);
	cr_expect_leq(tagrv_hostmem_limit(""), host);
	put("/proc/self/cgroup", "0::/job/step\n");
	cr_expect_eq(tagrv_hostmem_limit(root), host);
	put("/sys/fs/cgroup/job/memory.max", "max\n");
	cr_expect_eq(tagrv_hostmem_limit(root), host);
}

Test(hostmem, the_lowest_limit_on_the_way_up_counts)
{
	put("/proc/self/cgroup", "0::/job/step\n");
	put("/sys/fs/cgroup/job/step/memory.max", "9000000\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 9000000);
	put("/sys/fs/cgroup/job/memory.max", "8000000\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 8000000);
	put("/sys/fs/cgroup/memory.max", "7000000\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 7000000);
}

Test(hostmem, a_container_has_its_limit_at_the_root)
{
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "7000000\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 7000000);
	put("/proc/self/cgroup", "0::/not/here\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 7000000);
}

Test(hostmem, version_1_has_a_tree_for_memory)
{
	put("/proc/self/cgroup", "12:cpu:/a\n9:memory:/a\n0::/\nnonsense\n:\n");
	put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "6000000\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 6000000);
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
	cr_expect_eq(tagrv_hostmem_limit(root), 5000000);
}

Test(hostmem, shares)
{
	cr_expect_eq(tagrv_hostmem_share(512 * GIB, 128), 256 * MIB);
	cr_expect_eq(tagrv_hostmem_share(512 * GIB, 4), 512 * MIB);
	cr_expect_eq(tagrv_hostmem_share(24 * GIB, 64), 72 * MIB);
	cr_expect_eq(tagrv_hostmem_share(256 * MIB, 2), 32 * MIB);
	cr_expect_eq(tagrv_hostmem_share(16 * GIB, 0), 512 * MIB);
	/* Eight ninths of 72 MiB, 128 bytes each. */
	cr_expect_geq(72 * MIB / 9 * 8 / 128, 500000);
}
