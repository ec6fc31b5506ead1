/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which processors this process may use, and how far a device is from them.
 */
#ifndef TAGRV_CORE_CPUS_H
#define TAGRV_CORE_CPUS_H

#include <stddef.h>

#define TAGRV_CPUS_NEAR	10u	/* the distance of a node from itself, by ACPI */
#define TAGRV_CPUS_FAR	20u	/* that of another node if the firmware does not say */

/*
 * The distance of a device from the nearest processor that this process may use. A
 * process that may use all is near to all devices.
 *
 * numa_node: of the device, -1: not known; cpulist: the file in sysfs that names the
 * processors near to it, which need not exist. 0: the distance is not known.
 */
unsigned tagrv_cpus_distance(int numa_node, const char *cpulist);

struct tagrv_cpus_source {
	const char *node_dir;		/* "/sys/devices/system/node" */
	/* As sched_getaffinity() of this process; mask is cleared. */
	int	(*affinity)(unsigned long *mask, size_t bytes);
};

/* For tests only, before any other thread runs. The caller keeps the struct. */
void tagrv_cpus_source_set(const struct tagrv_cpus_source *source);

#endif
