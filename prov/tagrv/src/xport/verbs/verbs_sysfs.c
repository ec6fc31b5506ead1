/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What sysfs says of a device: its bus, its place, its traffic class.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/cpus.h"
#include "xport/verbs/verbs_priv.h"

static int read_int(const struct ibv_device *dev, const char *file, int def)
{
	char path[IBV_SYSFS_PATH_MAX + 64];
	int value = def;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dev->ibdev_path, file);
	f = fopen(path, "re");
	if (!f)
		return def;
	if (fscanf(f, "%d", &value) != 1)
		value = def;
	fclose(f);
	return value;
}

/* Writes the last component of a symbolic link's target, "" if there is none. */
static void read_link(const struct ibv_device *dev, const char *file, char *to,
		      size_t len)
{
	char path[IBV_SYSFS_PATH_MAX + 64], target[512];
	const char *base;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dev->ibdev_path, file);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	base = strrchr(target, '/');
	snprintf(to, len, "%.*s", (int) len - 1, base ? base + 1 : target);
}

static bool exists(const struct ibv_device *dev, const char *file)
{
	char path[IBV_SYSFS_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dev->ibdev_path, file);
	return !access(path, F_OK);
}

/* rxe has a file 'parent' that names its network interface. */
bool tagrv_verbs_is_hardware(const struct ibv_device *dev)
{
	return exists(dev, "device") && !exists(dev, "parent");
}

void tagrv_verbs_describe_bus(const struct ibv_device *dev,
			      struct tagrv_device_desc *desc)
{
	char bus[32] = "", path[IBV_SYSFS_PATH_MAX + 64];

	desc->pci_domain = desc->pci_bus = -1;
	desc->pci_dev = desc->pci_func = -1;
	desc->numa_node = -1;
	if (!tagrv_verbs_is_hardware(dev)) {
		if (exists(dev, "parent"))
			snprintf(desc->driver, sizeof(desc->driver), "rdma_rxe");
		return;
	}
	read_link(dev, "device", bus, sizeof(bus));
	if (sscanf(bus, "%x:%x:%x.%x", (unsigned *) &desc->pci_domain,
		   (unsigned *) &desc->pci_bus, (unsigned *) &desc->pci_dev,
		   (unsigned *) &desc->pci_func) != 4)
		desc->pci_domain = desc->pci_bus = desc->pci_dev =
			desc->pci_func = -1;
	read_link(dev, "device/driver", desc->driver, sizeof(desc->driver));
	desc->numa_node = read_int(dev, "device/numa_node", -1);
	snprintf(path, sizeof(path), "%s/device/local_cpulist", dev->ibdev_path);
	desc->distance = tagrv_cpus_distance(desc->numa_node, path);
}

/* The file has the number, or "Global tclass=" before it; nothing if it is not set. */
uint8_t tagrv_verbs_traffic_class(const struct ibv_device *dev, uint8_t port,
				  const struct tagrv_params *params)
{
	char path[IBV_SYSFS_PATH_MAX + 64], line[64] = "";
	const char *number;
	unsigned value = 0;
	FILE *f;

	if (params->traffic_class >= 0)
		return (uint8_t) params->traffic_class;
	snprintf(path, sizeof(path), "%s/tc/%u/traffic_class", dev->ibdev_path, port);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	number = strstr(line, "Global tclass=");
	if (sscanf(number ? number + strlen("Global tclass=") : line, "%u", &value) != 1 ||
	    value > UINT8_MAX)
		return 0;
	return (uint8_t) value;
}
