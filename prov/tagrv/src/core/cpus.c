/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Processors and their distance from devices: see cpus.h.
 */
#include "core/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/compiler.h"

#define CPUS_MAX	8192u
#define WORD_BITS	(sizeof(unsigned long) * CHAR_BIT)
#define NODES_MAX	1024u

struct cpus {
	unsigned long words[CPUS_MAX / WORD_BITS];
};

static int own_affinity(unsigned long *mask, size_t bytes)
{
	return sched_getaffinity(0, bytes, (cpu_set_t *) mask);
}

static const struct tagrv_cpus_source host = {
	.node_dir = "/sys/devices/system/node", .affinity = own_affinity,
};
static const struct tagrv_cpus_source *source = &host;

void tagrv_cpus_source_set(const struct tagrv_cpus_source *other)
{
	source = other;
}

static bool has_any(const struct cpus *cpus, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last && i < CPUS_MAX; i++)
		if (cpus->words[i / WORD_BITS] >> i % WORD_BITS & 1)
			return true;
	return false;
}

/* Whether the file, such as "0-3,8", names any of the processors. -1: no such file. */
static int meets_list(const struct cpus *cpus, const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned first, last;
	int meets = 0;

	if (!f)
		return -1;
	while (!meets && fscanf(f, "%u", &first) == 1) {
		int next = fgetc(f);

		last = first;
		if (next == '-' && fscanf(f, "%u", &last) == 1)
			next = fgetc(f);
		meets = has_any(cpus, first, last);
		if (next != ',')
			break;
	}
	fclose(f);
	return meets;
}

/* As meets_list() of the next node that exists from *node on, which is advanced behind it. */
static int meets_next_node(const struct cpus *cpus, unsigned *node)
{
	char path[128];
	int meets = -1;

	while (meets < 0 && *node < NODES_MAX) {
		snprintf(path, sizeof(path), "%s/node%u/cpulist", source->node_dir,
			 (*node)++);
		meets = meets_list(cpus, path);
	}
	return meets;
}

/* The row of a node has a distance for each node that exists, in their order. */
static unsigned node_distance(const struct cpus *cpus, int node)
{
	unsigned best = 0, distance, next = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/node%d/distance", source->node_dir, node);
	f = fopen(path, "re");
	while (f && fscanf(f, "%u", &distance) == 1) {
		int meets = meets_next_node(cpus, &next);

		if (meets < 0)
			break;
		if (meets && (!best || distance < best))
			best = distance;
	}
	if (f)
		fclose(f);
	return best;
}

unsigned tagrv_cpus_distance(int numa_node, const char *cpulist)
{
	struct cpus cpus = { .words = { 0 } };
	unsigned distance = 0;
	int meets;

	if (source->affinity(cpus.words, sizeof(cpus.words)) < 0)
		return 0;
	meets = meets_list(&cpus, cpulist);
	if (meets > 0)
		return TAGRV_CPUS_NEAR;
	if (numa_node >= 0)
		distance = node_distance(&cpus, numa_node);
	if (!distance && !meets)
		return TAGRV_CPUS_FAR;
	/* Some firmware has the same distance for all nodes. */
	return distance == TAGRV_CPUS_NEAR && !meets ? TAGRV_CPUS_NEAR + 1 : distance;
}
