/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads the memory of the host and the limits of control groups.
 *
 *   /proc/self/cgroup   0::/a/b        --> /sys/fs/cgroup/a/b/memory.max, and of /a
 *                       9:memory:/a/b  --> /sys/fs/cgroup/memory/a/b/
 *                                          memory.limit_in_bytes, and of /a
 *
 * In a container the path may be one that exists outside only; the directories above
 * it, up to the root of what is mounted, are looked at in any case.
 */
#include "core/hostmem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/compiler.h"

#define PATH_LEN	1024
#define MIB		((size_t) 1 << 20)

/* The number in a file; SIZE_MAX: there is none, or it says "max". */
static size_t number_in(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long value;
	int cnt = 0;

	if (!file)
		return SIZE_MAX;
	cnt = fscanf(file, "%llu", &value);
	fclose(file);
	return cnt == 1 && value < SIZE_MAX ? (size_t) value : SIZE_MAX;
}

/* The lowest limit of a group and of those that it is part of. */
static size_t lowest(const char *mount, char *group, const char *file)
{
	size_t least = SIZE_MAX, value;
	char path[2 * PATH_LEN];
	char *slash;

	do {
		slash = strrchr(group, '/');
		snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
		value = number_in(path);
		least = TAGRV_MIN(least, value);
		if (slash)
			*slash = '\0';
	} while (slash);
	return least;
}

/* The limit that a line of /proc/self/cgroup leads to. */
static size_t limit_of_line(const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *group;
	char mount[PATH_LEN];

	line[strcspn(line, "\n")] = '\0';
	group = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!group)
		return SIZE_MAX;
	*group++ = '\0';
	/* The root itself is "": each step takes off what is behind a slash. */
	if (!strcmp(group, "/"))
		*group = '\0';
	if (!controllers[1]) {
		snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
		return lowest(mount, group, "memory.max");
	}
	if (strcmp(controllers + 1, "memory"))
		return SIZE_MAX;
	snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/memory", root);
	return lowest(mount, group, "memory.limit_in_bytes");
}

static size_t host_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (size_t) pages * (size_t) size : SIZE_MAX;
}

size_t tagrv_hostmem_limit(const char *root)
{
	size_t least = host_memory(), value;
	char path[PATH_LEN], line[PATH_LEN];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	if (!file)
		return least;
	while (fgets(line, sizeof(line), file)) {
		value = limit_of_line(root, line);
		least = TAGRV_MIN(least, value);
	}
	fclose(file);
	return least;
}

size_t tagrv_hostmem_share(size_t bytes, size_t processors)
{
	size_t share = bytes / 16 / TAGRV_MAX(processors, (size_t) 1);

	share = TAGRV_MAX(share, 72 * MIB);
	share = TAGRV_MIN(share, bytes / 8);
	return TAGRV_MIN(share, 512 * MIB);
}
