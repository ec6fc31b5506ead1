/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens a device and chooses its port, GID and partition key. Several domains may
 * open one device; each has a context of its own.
 *
 * GIDs of an Ethernet port, best first: RoCE v2 with an IPv4 address, v2 with
 * a global IPv6 address, v2 link-local, v1. Lower index first among equals.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lack.h"
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

static bool is_v4_mapped(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *) gid->raw);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *) gid->raw);
}

/* Higher is better; 0: not usable. */
static int gid_rank(const struct ibv_gid_entry *entry)
{
	switch (entry->gid_type) {
	case IBV_GID_TYPE_IB:
	case IBV_GID_TYPE_ROCE_V1:
		return 1;
	case IBV_GID_TYPE_ROCE_V2:
		return is_v4_mapped(&entry->gid) ? 4 :
		       is_link_local(&entry->gid) ? 2 : 3;
	default:
		return 0;
	}
}

static uint8_t net_of(const struct ibv_gid_entry *entry)
{
	return entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? VERBS_NET_ROCE_V2 :
	       entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? VERBS_NET_ROCE_V1 :
	       VERBS_NET_IB;
}

int tagrv_verbs_gid_choose(const struct tagrv_verbs_calls *calls,
			   struct ibv_context *ctx, uint8_t port,
			   uint8_t port_cnt, const struct ibv_port_attr *attr,
			   int wanted, struct verbs_gid *gid)
{
	/* The table holds the GIDs of all ports, one after the other. */
	size_t max = (size_t) TAGRV_MAX(attr->gid_tbl_len, 1) * port_cnt;
	struct ibv_gid_entry *table = calloc(max, sizeof(*table));
	int best = 0;
	ssize_t cnt;

	if (!table)
		return -FI_ENOMEM;
	cnt = calls->query_gid_table(ctx, table, max);
	for (ssize_t i = 0; i < cnt; i++) {
		struct ibv_gid_entry *entry = &table[i];
		int rank = gid_rank(entry);

		/* sgid_index of a queue pair's address has 8 bits. */
		if (entry->port_num != port || rank <= best ||
		    entry->gid_index > UINT8_MAX ||
		    (wanted >= 0 && entry->gid_index != (uint32_t) wanted))
			continue;
		best = rank;
		gid->gid = entry->gid;
		gid->index = (int) entry->gid_index;
		gid->net = net_of(entry);
	}
	free(table);
	return best ? 0 : -FI_ENODATA;
}

/* Index of the first partition in which the port is a full member, else 0. */
static uint16_t choose_pkey(struct verbs_dev *dev,
			    const struct ibv_port_attr *attr)
{
	__be16 pkey;

	for (int i = 0; i < attr->pkey_tbl_len; i++)
		if (!dev->calls->query_pkey(dev->ctx, dev->port_num, i,
					    &pkey) && (ntohs(pkey) & 0x8000))
			return (uint16_t) i;
	return 0;
}

int tagrv_verbs_name_split(const char *full, char *name, size_t name_len,
			   uint8_t *port)
{
	const char *colon = strchr(full, ':');
	size_t len = colon ? (size_t) (colon - full) : strlen(full);
	char *end;
	long nr = 1;

	if (!len || len >= name_len)
		return -FI_EINVAL;
	if (colon) {
		nr = strtol(colon + 1, &end, 10);
		if (end == colon + 1 || *end || nr < 1 || nr > 255)
			return -FI_EINVAL;
	}
	memcpy(name, full, len);
	name[len] = '\0';
	*port = (uint8_t) nr;
	return 0;
}

/*
 * libibverbs tries several ways to open a device, and errno is that of the last; so
 * this checks access to the device file itself.
 */
int tagrv_verbs_open_errno(const struct tagrv_verbs_calls *calls,
			   const struct ibv_device *dev, int err)
{
	char path[IBV_SYSFS_NAME_MAX + 64];

	snprintf(path, sizeof(path), "%.60s/%s",
		 calls->uverbs_dir ? calls->uverbs_dir : "", dev->dev_name);
	if (access(path, R_OK | W_OK) && errno == EACCES)
		return EACCES;
	return err == EPERM ? EACCES : err ? err : EIO;
}

static int open_context(struct verbs_dev *dev, const char *name)
{
	struct ibv_device **list;
	int cnt = 0, ret = -FI_ENODEV;

	errno = 0;
	list = dev->calls->get_device_list(&cnt);
	if (!list)
		return tagrv_lack_or(errno, -FI_ENODEV);
	for (int i = 0; i < cnt; i++) {
		if (strcmp(list[i]->name, name))
			continue;
		dev->base.software = !tagrv_verbs_is_hardware(list[i]);
		errno = 0;
		dev->ctx = dev->calls->open_device(list[i]);
		ret = dev->ctx ? 0 : -tagrv_verbs_open_errno(dev->calls,
							     list[i], errno);
		break;
	}
	dev->calls->free_device_list(list);
	return ret;
}

/* Completes the port's address by what tells where it can be reached from. */
static void locate(struct verbs_dev *dev, struct verbs_port *port)
{
	struct verbs_subnet subnet = { .prefix = 0 };
	__be16 pkey;

	if (port->net != VERBS_NET_IB) {
		dev->calls->subnet_get(&port->gid, &subnet);
		port->prefix = subnet.prefix;
		port->part = subnet.vlan;
	} else if (!dev->calls->query_pkey(dev->ctx, dev->port_num,
					   port->pkey_index, &pkey)) {
		port->part = ntohs(pkey);
	}
}

/* Fills *port. 0, -FI_ENODEV, -FI_ENOMEM, or -FI_ENODATA: it has no gid. */
static int query_port(struct verbs_dev *dev, struct verbs_port *port)
{
	struct verbs_gid gid = { .index = 0 };
	int ret;

	*port = (struct verbs_port) { .gid_index = 0 };
	ret = dev->calls->query_port(dev->ctx, dev->port_num, &port->attr);
	if (ret)
		return tagrv_lack_or(ret, -FI_ENODEV);
	ret = tagrv_verbs_gid_choose(dev->calls, dev->ctx, dev->port_num,
				     dev->attr.phys_port_cnt, &port->attr,
				     dev->gid_wanted, &gid);
	if (ret)
		return ret;
	port->gid = gid.gid;
	port->gid_index = gid.index;
	port->net = gid.net;
	port->pkey_index = choose_pkey(dev, &port->attr);
	locate(dev, port);
	return 0;
}

static int query_device(struct verbs_dev *dev)
{
	int ret = dev->calls->query_device(dev->ctx, &dev->attr);

	if (ret)
		return tagrv_lack_or(ret, -FI_ENODEV);
	if (dev->port_num > dev->attr.phys_port_cnt)
		return -FI_ENODEV;
	if (!verbs_has_reads(&dev->attr)) {
		tagrv_warn("verbs: %s has no RDMA reads\n", dev->base.name);
		return -FI_ENODEV;
	}
	ret = query_port(dev, &dev->port);
	if (ret != -FI_ENODATA)
		return ret;
	tagrv_warn("verbs: %s has no %s\n", dev->base.name,
		   dev->gid_wanted >= 0 ?
		   "gid at the index in FI_TAGRV_GID_INDEX" :
		   "gid: give its network interface an address");
	return -FI_ENODEV;
}

struct verbs_port tagrv_verbs_port_now(struct verbs_dev *dev)
{
	struct verbs_port port;

	pthread_mutex_lock(&dev->mutex);
	port = dev->port;
	pthread_mutex_unlock(&dev->mutex);
	return port;
}

void tagrv_verbs_port_refresh(struct verbs_dev *dev)
{
	struct verbs_port port;
	int ret = query_port(dev, &port);

	if (ret) {
		tagrv_info("verbs: %s: the port has changed, but cannot be "
			   "queried: %s\n", dev->base.name,
			   ret == -FI_ENODATA ? "no gid" : strerror(-ret));
		return;
	}
	pthread_mutex_lock(&dev->mutex);
	dev->port = port;
	pthread_mutex_unlock(&dev->mutex);
	tagrv_info("verbs: %s: the port has changed: gid index %d, lid %d, "
		   "mtu %zu\n", dev->base.name, port.gid_index, port.attr.lid,
		   tagrv_verbs_mtu_bytes(port.attr.active_mtu));
}

static int set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ?
	       -errno : 0;
}

static int open_all(struct verbs_dev *dev, const char *name)
{
	int ret = open_context(dev, name);

	if (!ret)
		ret = query_device(dev);
	if (!ret)
		ret = set_nonblock(dev->ctx->async_fd);
	if (ret)
		return ret;
	dev->base.max_msg = TAGRV_MIN(dev->port.attr.max_msg_sz, 1u << 30);
	errno = 0;
	dev->pd = dev->calls->alloc_pd(dev->ctx);
	return dev->pd ? 0 : errno ? -errno : -FI_EIO;
}

int tagrv_verbs_dev_open(const char *full, const struct tagrv_params *params,
			 struct tagrv_device **out)
{
	char name[TAGRV_DEVNAME_MAX];
	struct verbs_dev *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return -FI_ENOMEM;
	dev->calls = tagrv_verbs_calls_get();
	dev->base.ops = &tagrv_verbs_ops;
	dev->gid_wanted = params->gid_index;
	atomic_store(&dev->relaxed, params->relaxed_ordering);
	pthread_mutex_init(&dev->mutex, NULL);
	tagrv_list_init(&dev->xports);
	snprintf(dev->base.name, sizeof(dev->base.name), "%s", full);
	ret = tagrv_verbs_name_split(full, name, sizeof(name), &dev->port_num);
	if (ret)
		ret = -FI_ENODEV;
	else
		ret = open_all(dev, name);
	if (ret) {
		tagrv_verbs_dev_close(&dev->base);
		return ret;
	}
	dev->base.atomics = verbs_offers_atomics(&dev->attr, params);
	tagrv_info("verbs: %s: port %d, gid index %d, mtu %zu\n", full,
		   dev->port_num, dev->port.gid_index,
		   tagrv_verbs_mtu_bytes(dev->port.attr.active_mtu));
	*out = &dev->base;
	return 0;
}

/* Closes a half-built device, too. */
void tagrv_verbs_dev_close(struct tagrv_device *base)
{
	struct verbs_dev *dev = verbs_dev_of(base);

	if (dev->pd && dev->calls->dealloc_pd(dev->pd))
		tagrv_warn("verbs: %s: the protection domain is still in use\n",
			   base->name);
	if (dev->ctx)
		dev->calls->close_device(dev->ctx);
	pthread_mutex_destroy(&dev->mutex);
	free(dev);
}
