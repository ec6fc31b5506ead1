/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens a device and chooses its port and partition key; verbs_gid.c chooses the GID.
 * Several domains may open one device; each has a context of its own.
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

int tagrv_verbs_pkey_choose(const struct tagrv_verbs_calls *calls,
			    struct ibv_context *ctx, uint8_t port,
			    const struct ibv_port_attr *attr, int wanted,
			    uint16_t *index)
{
	bool any = !wanted || attr->link_layer == IBV_LINK_LAYER_ETHERNET;
	int ret = any ? 0 : -FI_ENODATA;
	__be16 raw;

	*index = 0;
	for (int i = 0; i < attr->pkey_tbl_len; i++) {
		uint16_t pkey;

		if (calls->query_pkey(ctx, port, i, &raw))
			continue;
		pkey = ntohs(raw);
		if (!any && ((pkey ^ wanted) & ~VERBS_PKEY_FULL))
			continue;
		if (pkey & VERBS_PKEY_FULL || ret)
			*index = (uint16_t) i;
		ret = 0;
		if (pkey & VERBS_PKEY_FULL)
			break;
	}
	return ret;
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
static void locate(struct verbs_dev *dev, const struct verbs_subnet *subnet,
		   struct verbs_port *port)
{
	__be16 pkey;

	if (port->net != VERBS_NET_IB) {
		port->prefix = subnet->prefix;
		port->part = subnet->vlan;
	} else if (!dev->calls->query_pkey(dev->ctx, dev->port_num,
					   port->pkey_index, &pkey)) {
		port->part = ntohs(pkey);
	}
}

/*
 * Fills *port for an endpoint that listens on 'local'; used: its address so far, or
 * NULL. 0, -FI_ENODEV, -FI_ENOMEM, -FI_ENODATA: it has no gid, or -FI_ENOKEY: it is not
 * in the partition that is wanted.
 */
static int query_port(struct verbs_dev *dev, const struct tagrv_addr *local,
		      const struct verbs_port *used, struct verbs_port *port)
{
	struct verbs_gid_wish wish = {
		.index = dev->gid_wanted, .local = *local, .used = used,
	};
	struct verbs_port new = { .gid_index = 0 };
	struct verbs_gid gid = { .index = 0 };
	int ret;

	ret = dev->calls->query_port(dev->ctx, dev->port_num, &new.attr);
	if (ret)
		return tagrv_lack_or(ret, -FI_ENODEV);
	ret = tagrv_verbs_gid_choose(dev->calls, dev->ctx, dev->port_num,
				     dev->attr.phys_port_cnt, &new.attr, &wish,
				     &gid);
	if (ret)
		return ret;
	new.gid = gid.gid;
	new.gid_index = gid.index;
	new.net = gid.net;
	if (tagrv_verbs_pkey_choose(dev->calls, dev->ctx, dev->port_num, &new.attr,
				    dev->pkey_wanted, &new.pkey_index))
		return -FI_ENOKEY;
	locate(dev, &gid.subnet, &new);
	*port = new;
	return 0;
}

/* most: queue pairs that the user wants at most. */
static int query_device(struct verbs_dev *dev, size_t most)
{
	int ret = dev->calls->query_device(dev->ctx, &dev->attr);

	if (ret)
		return tagrv_lack_or(ret, -FI_ENODEV);
	tagrv_quota_init(&dev->quota, (unsigned) TAGRV_MAX(dev->attr.max_qp, 0), most);
	if (dev->port_num > dev->attr.phys_port_cnt)
		return -FI_ENODEV;
	if (!verbs_has_reads(&dev->attr)) {
		tagrv_warn("verbs: %s has no RDMA reads\n", dev->base.name);
		return -FI_ENODEV;
	}
	ret = query_port(dev, &dev->local, NULL, &dev->port);
	if (ret == -FI_ENOKEY) {
		tagrv_warn("verbs: %s is not in the partition 0x%x of FI_TAGRV_PKEY\n",
			   dev->base.name, dev->pkey_wanted);
		return -FI_ENODEV;
	}
	if (ret != -FI_ENODATA)
		return ret;
	tagrv_warn("verbs: %s has no %s\n", dev->base.name,
		   dev->gid_wanted >= 0 ?
		   "gid at the index in FI_TAGRV_GID_INDEX" :
		   "gid here: give its network interface an address");
	return -FI_ENODEV;
}

struct verbs_port tagrv_verbs_port_now(struct verbs_xport *xp)
{
	struct verbs_port port;

	pthread_mutex_lock(&xp->dev->mutex);
	port = xp->port;
	pthread_mutex_unlock(&xp->dev->mutex);
	return port;
}

void tagrv_verbs_port_init(struct verbs_xport *xp, const struct tagrv_addr *local)
{
	struct verbs_dev *dev = xp->dev;

	xp->local = local && tagrv_addr_len(local) ? *local : dev->local;
	pthread_mutex_lock(&dev->mutex);
	if (tagrv_addr_equal(&xp->local, &dev->local) ||
	    query_port(dev, &xp->local, NULL, &xp->port))
		xp->port = dev->port;
	pthread_mutex_unlock(&dev->mutex);
}

/* dev->mutex held. */
static int refresh(struct verbs_dev *dev, const struct tagrv_addr *local,
		   struct verbs_port *port)
{
	struct verbs_port used = *port;

	return query_port(dev, local, &used, port);
}

void tagrv_verbs_port_refresh(struct verbs_dev *dev)
{
	struct tagrv_list *pos;
	struct verbs_port port;
	int ret;

	pthread_mutex_lock(&dev->mutex);
	ret = refresh(dev, &dev->local, &dev->port);
	tagrv_list_for_each(&dev->xports, pos) {
		struct verbs_xport *xp =
			tagrv_container_of(pos, struct verbs_xport, dev_node);

		if (!ret)
			(void) refresh(dev, &xp->local, &xp->port);
	}
	port = dev->port;
	pthread_mutex_unlock(&dev->mutex);
	if (ret)
		tagrv_info("verbs: %s: the port has changed, but cannot be "
			   "queried: %s\n", dev->base.name,
			   ret == -FI_ENODATA ? "no gid" : strerror(-ret));
	else
		tagrv_info("verbs: %s: the port has changed: gid index %d, lid %d, "
			   "mtu %zu\n", dev->base.name, port.gid_index,
			   port.attr.lid,
			   tagrv_verbs_mtu_bytes(port.attr.active_mtu));
}

static int set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ?
	       -errno : 0;
}

static int open_all(struct verbs_dev *dev, const char *name, size_t most)
{
	int ret = open_context(dev, name);

	if (!ret)
		ret = query_device(dev, most);
	if (!ret)
		ret = set_nonblock(dev->ctx->async_fd);
	if (ret)
		return ret;
	dev->base.max_msg = TAGRV_MIN(dev->port.attr.max_msg_sz, 1u << 30);
	dev->base.model = tagrv_model_of(dev->attr.vendor_id, dev->attr.vendor_part_id,
					 tagrv_verbs_port_speed(&dev->port.attr));
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
	dev->pkey_wanted = params->pkey;
	dev->local = tagrv_verbs_local_of(params);
	atomic_store(&dev->relaxed, params->relaxed_ordering);
	pthread_mutex_init(&dev->mutex, NULL);
	tagrv_list_init(&dev->xports);
	snprintf(dev->base.name, sizeof(dev->base.name), "%s", full);
	ret = tagrv_verbs_name_split(full, name, sizeof(name), &dev->port_num);
	if (ret)
		ret = -FI_ENODEV;
	else
		ret = open_all(dev, name, params->max_qps);
	if (ret) {
		tagrv_verbs_dev_close(&dev->base);
		return ret;
	}
	tagrv_verbs_cost_measure(dev);
	dev->base.atomics = verbs_offers_atomics(&dev->attr, params);
	dev->traffic_class = tagrv_verbs_traffic_class(dev->ctx->device, dev->port_num,
						       params);
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
