/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Discovery: lists devices and their properties, or the reason why there are none.
 *
 * Checks a directory of sysfs for devices before it calls libibverbs, whose first
 * call loads a driver library for every device family.
 *
 * Names: "mlx5_0" is port 1, "mlx5_0:2" port 2. An entry of FI_TAGRV_DEVICES without
 * port names all ports of the device.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lack.h"
#include "core/log.h"
#include "core/netif.h"
#include "xport/verbs/verbs_priv.h"

struct listing {
	const struct tagrv_verbs_calls *calls;
	const struct tagrv_params *params;
	struct tagrv_device_desc *descs;
	size_t	cnt, cap;
};

/* ---- sysfs ---- */

static bool dir_has_entries(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	bool found = false;

	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)))
		found = entry->d_name[0] != '.';
	closedir(dir);
	return found;
}

/* ---- ports ---- */

size_t tagrv_verbs_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ?
	       (size_t) 128 << mtu : 0;
}

/* active_speed and active_width have one bit set; 0 counts as the slowest. */
uint64_t tagrv_verbs_port_speed(const struct ibv_port_attr *attr)
{
	static const uint32_t lane_mbit[] = {
		2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000,
	};
	static const uint8_t lanes[] = { 1, 4, 8, 12, 2 };
	unsigned speed = 0, width = 0;

	while (speed + 1 < TAGRV_ARRAY_SIZE(lane_mbit) &&
	       attr->active_speed >> (speed + 1))
		speed++;
	while (width + 1 < TAGRV_ARRAY_SIZE(lanes) &&
	       attr->active_width >> (width + 1))
		width++;
	return (uint64_t) lane_mbit[speed] * lanes[width] * 1000000;
}

/* The address of the port's network interface here, IPv4 first. */
static void describe_ipoib(const struct tagrv_verbs_calls *calls,
			   const union ibv_gid *gid, struct tagrv_device_desc *desc)
{
	struct tagrv_addr addr;

	calls->ipoib_get(gid, desc->iface);
	if (desc->iface[0] && !tagrv_netif_addr(desc->iface, AF_UNSPEC, &addr) &&
	    !tagrv_netif_is_link_local(&addr))
		desc->addr = addr;
}

static void describe_address(const struct tagrv_verbs_calls *calls,
			     const struct verbs_gid *gid,
			     struct tagrv_device_desc *desc)
{
	struct tagrv_addr addr;

	if (gid->net == VERBS_NET_IB) {
		describe_ipoib(calls, &gid->gid, desc);
		return;
	}
	memcpy(desc->iface, gid->subnet.iface, sizeof(desc->iface));
	if (tagrv_verbs_gid_addr(gid, &addr))
		desc->addr = addr;
}

/*
 * The network in which the port reaches all others: an InfiniBand subnet, for which also
 * its manager stands, since many have the default prefix; or a subnet of IP and its VLAN.
 */
static void describe_network(const struct ibv_port_attr *port,
			     const struct verbs_gid *gid, struct tagrv_device_desc *desc)
{
	char ip[INET6_ADDRSTRLEN] = "?";
	union ibv_gid net = gid->gid;
	struct tagrv_addr addr;
	bool is_v4;

	if (gid->net == VERBS_NET_IB) {
		snprintf(desc->network, sizeof(desc->network), "%016llx of sm %u",
			 (unsigned long long) be64toh(net.global.subnet_prefix),
			 port->sm_lid);
		return;
	}
	if (!gid->subnet.prefix || !tagrv_verbs_gid_addr(gid, &addr))
		return;
	is_v4 = addr.sa.sa_family == AF_INET;
	for (unsigned bit = gid->subnet.prefix + (is_v4 ? 96 : 0); bit < 128; bit++)
		net.raw[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
	inet_ntop(addr.sa.sa_family, net.raw + (is_v4 ? 12 : 0), ip, sizeof(ip));
	snprintf(desc->network, sizeof(desc->network), "%.45s/%u", ip,
		 gid->subnet.prefix);
	if (gid->subnet.vlan)
		snprintf(desc->network + strlen(desc->network),
			 sizeof(desc->network) - strlen(desc->network), " vlan %u",
			 gid->subnet.vlan);
}

static void describe_port(struct listing *list, struct ibv_context *ctx,
			  const struct ibv_device_attr *attr, uint8_t nr,
			  struct tagrv_device_desc *desc)
{
	struct ibv_port_attr port = { 0 };
	struct verbs_gid_wish wish = {
		.index = list->params->gid_index,
		.local = tagrv_verbs_local_of(list->params),
	};
	struct verbs_gid gid = { .index = 0 };
	uint16_t pkey;
	int ret, err = list->calls->query_port(ctx, nr, &port);

	if (err) {
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "port %d cannot be queried: %s", nr, strerror(err));
		desc->lack = tagrv_lack_or(err, 0);
		return;
	}
	ret = tagrv_verbs_gid_choose(list->calls, ctx, nr, attr->phys_port_cnt,
				     &port, &wish, &gid);
	desc->lack = tagrv_lack_or(-ret, 0);
	desc->up = port.state == IBV_PORT_ACTIVE;
	desc->mtu = tagrv_verbs_mtu_bytes(port.active_mtu);
	desc->speed = tagrv_verbs_port_speed(&port);
	desc->model = tagrv_model_of(attr->vendor_id, attr->vendor_part_id, desc->speed);
	desc->max_msg = TAGRV_MIN(port.max_msg_sz, 1u << 30);
	snprintf(desc->link_type, sizeof(desc->link_type), "%s",
		 port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" :
		 "InfiniBand");
	if (!desc->up)
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "port %d is down: check cable, switch and 'ip link'",
			 nr);
	else if (!verbs_has_reads(attr))
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "device has no RDMA reads");
	else if (desc->lack)
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "port %d: %s", nr, strerror(-desc->lack));
	else if (ret)
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "port %d has no %sgid: give its interface an address",
			 nr, list->params->gid_index >= 0 ? "such " : "");
	else if (tagrv_verbs_pkey_choose(list->calls, ctx, nr, &port,
					 list->params->pkey, &pkey))
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "port %d is not in partition 0x%x (FI_TAGRV_PKEY)", nr,
			 list->params->pkey);
	else
		desc->usable = true;
	if (ret)
		return;
	describe_address(list->calls, &gid, desc);
	describe_network(&port, &gid, desc);
}

/* ---- list and filter ---- */

/* Whether an entry of the filter names this port (0: any) of the device. */
static bool entry_matches(const char *entry, const char *dev, int port)
{
	char name[TAGRV_DEVNAME_MAX];
	uint8_t nr;

	if (tagrv_verbs_name_split(entry, name, sizeof(name), &nr) ||
	    strcmp(name, dev))
		return false;
	return !port || !strchr(entry, ':') || nr == port;
}

/*
 * Whether fn returns true for any entry of the filter FI_TAGRV_DEVICES, or the
 * filter is empty.
 */
static bool any_entry(const struct tagrv_params *params,
		      bool (*fn)(const char *entry, const void *arg),
		      const void *arg)
{
	char copy[sizeof(params->devices)], *save = NULL;
	bool empty = true;

	memcpy(copy, params->devices, sizeof(copy));
	for (char *entry = strtok_r(copy, ", ", &save); entry;
	     entry = strtok_r(NULL, ", ", &save)) {
		empty = false;
		if (fn(entry, arg))
			return true;
	}
	return empty;
}

struct port_id {
	const char *dev;
	int	port;
};

static bool names_port(const char *entry, const void *arg)
{
	const struct port_id *id = arg;

	return entry_matches(entry, id->dev, id->port);
}

static bool is_wanted(const struct listing *list, const char *dev, int port)
{
	struct port_id id = { .dev = dev, .port = port };

	return any_entry(list->params, names_port, &id);
}

static struct tagrv_device_desc *add_desc(struct listing *list)
{
	struct tagrv_device_desc *descs;
	size_t cap = list->cap ? list->cap * 2 : 8;

	if (list->cnt == list->cap) {
		descs = realloc(list->descs, cap * sizeof(*descs));
		if (!descs)
			return NULL;
		list->descs = descs;
		list->cap = cap;
	}
	list->descs[list->cnt] = (struct tagrv_device_desc) { 0 };
	return &list->descs[list->cnt++];
}

static int add_port(struct listing *list, struct ibv_device *dev,
		    struct ibv_context *ctx, const struct ibv_device_attr *attr,
		    uint8_t nr)
{
	struct tagrv_device_desc *desc = add_desc(list);

	if (!desc)
		return -FI_ENOMEM;
	snprintf(desc->name, sizeof(desc->name), nr > 1 ? "%.50s:%d" : "%.50s",
		 dev->name, nr);
	snprintf(desc->vendor_id, sizeof(desc->vendor_id), "0x%x",
		 attr->vendor_id);
	snprintf(desc->device_id, sizeof(desc->device_id), "0x%x",
		 attr->vendor_part_id);
	snprintf(desc->firmware, sizeof(desc->firmware), "%.*s",
		 (int) sizeof(desc->firmware) - 1, attr->fw_ver);
	tagrv_verbs_describe_bus(dev, desc);
	desc->atomics = verbs_offers_atomics(attr, list->params);
	describe_port(list, ctx, attr, nr, desc);
	return 0;
}

/* Adds a device that cannot be used. err: errno value of the reason, or 0. */
static int add_unusable(struct listing *list, struct ibv_device *dev,
			const char *why, int err)
{
	struct tagrv_device_desc *desc = add_desc(list);

	if (!desc)
		return -FI_ENOMEM;
	snprintf(desc->name, sizeof(desc->name), "%.50s", dev->name);
	tagrv_verbs_describe_bus(dev, desc);
	desc->lack = tagrv_lack_or(err, 0);
	snprintf(desc->why_not, sizeof(desc->why_not), "%s%s%s", why,
		 err ? ": " : "", err ? strerror(err) : "");
	return 0;
}

static int add_ports(struct listing *list, struct ibv_device *dev,
		     struct ibv_context *ctx)
{
	struct ibv_device_attr attr;
	int ret = 0, err = list->calls->query_device(ctx, &attr);

	if (err)
		return add_unusable(list, dev, "cannot be queried", err);
	for (int nr = 1; nr <= attr.phys_port_cnt && !ret; nr++)
		if (is_wanted(list, dev->name, nr))
			ret = add_port(list, dev, ctx, &attr, (uint8_t) nr);
	return ret;
}

static int add_device(struct listing *list, struct ibv_device *dev)
{
	struct ibv_context *ctx;
	char why[64];
	int ret;

	if (!is_wanted(list, dev->name, 0))
		return 0;
	if (dev->node_type == IBV_NODE_RNIC)
		return add_unusable(list, dev, "iWARP is not supported", 0);
	if (dev->node_type != IBV_NODE_CA)
		return add_unusable(list, dev,
				    "neither InfiniBand nor RoCE", 0);
	errno = 0;
	ctx = list->calls->open_device(dev);
	if (!ctx) {
		int err = errno;

		snprintf(why, sizeof(why), "cannot open %.20s/%.20s",
			 list->calls->uverbs_dir ? list->calls->uverbs_dir : "",
			 dev->dev_name);
		return add_unusable(list, dev, why,
				    tagrv_verbs_open_errno(list->calls, dev,
							   err));
	}
	ret = add_ports(list, dev, ctx);
	list->calls->close_device(ctx);
	return ret;
}

/* ---- reasons ---- */

static bool rdma_present(const struct tagrv_verbs_calls *calls, char *why,
			 size_t len)
{
	if (calls->class_dir && !dir_has_entries(calls->class_dir)) {
		snprintf(why, len, "no RDMA device: %s is empty; is the "
			 "adapter's driver loaded?", calls->class_dir);
		return false;
	}
	if (calls->uverbs_dir && access(calls->uverbs_dir, F_OK)) {
		snprintf(why, len, "RDMA devices, but no %s: load ib_uverbs, "
			 "or give the container --device=%s",
			 calls->uverbs_dir, calls->uverbs_dir);
		return false;
	}
	return true;
}

struct all_devices {
	struct ibv_device **devs;
	int	cnt;
};

static bool is_unknown(const char *entry, const void *arg)
{
	const struct all_devices *all = arg;

	for (int i = 0; i < all->cnt; i++)
		if (entry_matches(entry, all->devs[i]->name, 0))
			return false;
	return true;
}

static void join_names(const struct all_devices *all, char *text, size_t len)
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < all->cnt && used < len; i++)
		used += (size_t) snprintf(text + used, len - used, " %s",
					  all->devs[i]->name);
}

/* Warns once per process, because programs call fi_getinfo several times. */
static void check_filter(const struct tagrv_params *params,
			 const struct all_devices *all)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	char names[256];

	if (!params->devices[0] || !any_entry(params, is_unknown, all) ||
	    atomic_flag_test_and_set(&warned))
		return;
	join_names(all, names, sizeof(names));
	tagrv_warn("FI_TAGRV_DEVICES is '%s', which names an unknown device, "
		   "too; there are:%s\n", params->devices, names);
}

/* Every device was excluded by the filter. */
static void explain_none(const struct all_devices *all, char *why, size_t len)
{
	char names[128];

	join_names(all, names, sizeof(names));
	snprintf(why, len, "it names none of the RDMA devices here, which are:%s", names);
}

static int get_devices(const struct tagrv_verbs_calls *calls,
		       struct all_devices *all, char *why, size_t why_len)
{
	tagrv_verbs_fork_prepare(calls);
	errno = 0;
	all->devs = calls->get_device_list(&all->cnt);
	if (!all->devs) {
		int err = errno;

		snprintf(why, why_len, "libibverbs cannot list devices: %s",
			 strerror(err));
		return tagrv_lack_or(err, -FI_ENODATA);
	}
	if (!all->cnt) {
		snprintf(why, why_len, "libibverbs knows no driver for the "
			 "RDMA devices here: install ibverbs-providers");
		calls->free_device_list(all->devs);
		return -FI_ENODATA;
	}
	return 0;
}

static int list_devices(struct listing *list, char *why, size_t why_len)
{
	struct all_devices all = { 0 };
	int ret;

	ret = get_devices(list->calls, &all, why, why_len);
	if (ret)
		return ret;
	for (int i = 0; i < all.cnt && !ret; i++)
		ret = add_device(list, all.devs[i]);
	if (ret) {
		snprintf(why, why_len, "verbs: %s", strerror(-ret));
	} else if (!list->cnt) {
		explain_none(&all, why, why_len);
		ret = -FI_ENODATA;
	} else {
		check_filter(list->params, &all);
	}
	list->calls->free_device_list(all.devs);
	return ret;
}

int tagrv_verbs_discover(const struct tagrv_params *params,
			 struct tagrv_device_desc **descs, size_t *cnt,
			 char *why, size_t why_len)
{
	struct listing list = {
		.calls = tagrv_verbs_calls_get(), .params = params,
	};
	int ret;

	if (!rdma_present(list.calls, why, why_len))
		return -FI_ENODATA;
	ret = list_devices(&list, why, why_len);
	if (ret) {
		free(list.descs);
		return ret;
	}
	*descs = list.descs;
	*cnt = list.cnt;
	return 0;
}
