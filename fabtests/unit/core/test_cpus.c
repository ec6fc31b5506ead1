/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The distance of devices from the processors of this process.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpus.h"

/* Four nodes, of which the third has no processor; the numbers of two alternate. */
static const struct {
	const char *cpus, *distance;
	unsigned nr;
} nodes[] = {
	{ "0,2,4-6", "10 12 32 40", 0 }, { "1,3,7", "12 10 32 21", 1 },
	{ "", "32 32 10 32", 2 }, { "100-2000", "40 21 32 10", 5 },
};

static char dir[] = "/tmp/tagrv-cpus-XXXXXX";
static struct tagrv_cpus_source source;
static unsigned allowed[4];
static int result;

static int affinity(unsigned long *mask, size_t bytes)
{
	for (unsigned i = 0; i < 4; i++)
		if (allowed[i] < bytes * 8)
			mask[allowed[i] / 64] |= 1ul << allowed[i] % 64;
	return result;
}

static void write_file(const char *text, const char *format, ...)
{
	char name[64], path[128];
	va_list args;
	FILE *f;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	cr_assert_not_null(f, "%s", path);
	cr_assert_geq(fprintf(f, "%s\n", text), 0);
	fclose(f);
}

static void start(void)
{
	char command[128];

	cr_assert_not_null(mkdtemp(dir));
	source = (struct tagrv_cpus_source) { .node_dir = dir, .affinity = affinity };
	tagrv_cpus_source_set(&source);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		snprintf(command, sizeof(command), "mkdir %s/node%u", dir, nodes[i].nr);
		cr_assert_eq(system(command), 0);
		write_file(nodes[i].cpus, "node%u/cpulist", nodes[i].nr);
		write_file(nodes[i].distance, "node%u/distance", nodes[i].nr);
	}
}

static void clean(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", dir);
	cr_assert_eq(system(command), 0);
}

TestSuite(cpus, .init = start, .fini = clean, .timeout = 10);

static void allow(unsigned a, unsigned b)
{
	allowed[0] = allowed[1] = a;
	allowed[2] = allowed[3] = b;
}

/* Of a device on this node, with processors near to it as sysfs lists them. */
static unsigned distance(int node, const char *list)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/list", dir);
	remove(path);
	if (list)
		write_file(list, "list");
	return tagrv_cpus_distance(node, path);
}

Test(cpus, a_device_with_one_of_our_processors_is_near)
{
	allow(5, 5);
	cr_expect_eq(distance(0, "0,2,4-6"), 10);
	cr_expect_eq(distance(-1, "0-7"), 10);
	cr_expect_eq(distance(0, NULL), 10);
	allow(3, 1024);
	cr_expect_eq(distance(1, "3"), 10);
	cr_expect_eq(distance(5, "100-2000"), 10);
}

Test(cpus, others_have_the_distance_of_the_nearest_node)
{
	allow(5, 5);
	cr_expect_eq(distance(1, "1,3,7"), 12);
	cr_expect_eq(distance(5, "100-2000"), 40);
	cr_expect_eq(distance(2, NULL), 32);
	allow(5, 7);
	cr_expect_eq(distance(5, "100-2000"), 21, "from node 1");
	write_file("10 10 10 10", "node5/distance");
	cr_expect_eq(distance(5, "100-2000"), 11, "never near");
}

Test(cpus, what_is_not_known_is_said)
{
	allow(5, 5);
	cr_expect_eq(distance(-1, NULL), 0);
	cr_expect_eq(distance(7, NULL), 0);
	cr_expect_eq(distance(7, "8-9"), 20, "not here, and no row");
	cr_expect_eq(distance(-1, "8-9"), 20);
	write_file("", "node1/distance");
	cr_expect_eq(distance(1, "1"), 20);
	result = -1;
	cr_expect_eq(distance(0, "0-7"), 0);
}
