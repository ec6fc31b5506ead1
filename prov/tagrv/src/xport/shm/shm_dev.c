/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens and closes the device "shm" and its endpoints; the transport's table.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/lack.h"
#include "core/log.h"
#include "xport/shm/shm_priv.h"
#include "xport/stubs.h"

#define WIRE_ID		3

/*
 * s per fragment of a message that is copied through the ring: where processes share a
 * processor, or its caches are far apart, fragments wait for each other. A read waits for
 * nobody.
 */
#define SHM_FRAG_TIME	2e-6

/* ---- device ---- */

static int discover(const struct tagrv_params *params,
		    struct tagrv_device_desc **descs, size_t *cnt, char *why,
		    size_t why_len)
{
	struct tagrv_device_desc *desc = calloc(1, sizeof(*desc));
	int fd;

	(void) params;
	if (!desc) {
		snprintf(why, why_len, "out of memory");
		return -FI_ENOMEM;
	}
	fd = memfd_create("tagrv-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	desc->usable = fd >= 0;
	if (fd < 0)
		desc->lack = tagrv_lack_or(errno, 0);
	if (fd < 0)
		snprintf(desc->why_not, sizeof(desc->why_not),
			 "no shared memory: memfd_create: %s",
			 strerror(errno));
	else
		close(fd);
	snprintf(desc->name, sizeof(desc->name), SHM_NAME);
	desc->up = true;
	desc->max_msg = SIZE_MAX >> 1;
	desc->pci_domain = desc->pci_bus = -1;
	desc->pci_dev = desc->pci_func = -1;
	desc->numa_node = -1;
	*descs = desc;
	*cnt = 1;
	return 0;
}

static void dev_close(struct tagrv_device *base)
{
	struct shm_device *dev = shm_device_of(base);

	tagrv_shm_unlisten(dev);
	tagrv_shm_mem_close(dev);
	pthread_mutex_destroy(&dev->mutex);
	pthread_mutex_destroy(&dev->mem_mutex);
	free(dev);
}

static void init_device(struct shm_device *dev,
			const struct tagrv_params *params)
{
	dev->base.ops = &tagrv_shm_ops;
	dev->base.max_msg = SIZE_MAX >> 1;
	/* Processes copy the bytes, and may compete for our processor. */
	dev->base.software = true;
	snprintf(dev->base.name, sizeof(dev->base.name), SHM_NAME);
	dev->listen_fd = dev->epoll_fd = dev->resume_fd = -1;
	for (size_t i = 0; i < SHM_PENDING; i++)
		dev->pending[i].fd = -1;
	pthread_mutex_init(&dev->mutex, NULL);
	pthread_mutex_init(&dev->mem_mutex, NULL);
	tagrv_list_init(&dev->links);
	tagrv_list_init(&dev->unpushed);
	dev->cma = tagrv_shm_cma_wanted(params);
	dev->force_fence = !tagrv_shm_barrier_available();
}

static int dev_open(const char *name, const struct tagrv_params *params,
		    struct tagrv_device **dev)
{
	struct shm_device *shm;
	int ret;

	if (strcmp(name, SHM_NAME))
		return -FI_ENODEV;
	shm = calloc(1, sizeof(*shm));
	if (!shm)
		return -FI_ENOMEM;
	init_device(shm, params);
	ret = tagrv_shm_mem_open(shm);
	if (!ret)
		ret = tagrv_shm_listen(shm);
	if (ret) {
		dev_close(&shm->base);
		return ret;
	}
	*dev = &shm->base;
	return 0;
}

/* ---- endpoint ---- */

/* The parameter, rounded down to a power of two. */
static size_t ring_size(const struct tagrv_params *params)
{
	size_t size = SHM_RING_MIN;

	while (size < SHM_RING_MAX && size * 2 <= params->shm_ring)
		size *= 2;
	return size;
}

static struct tagrv_xport_attr attr_of(const struct tagrv_params *params,
				       size_t ring, bool cma)
{
	size_t max_packet = TAGRV_MIN(params->eager_max + TAGRV_HDR_ROOM,
				      shm_body_max(shm_arena_of(ring)));

	return (struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET | TAGRV_XPORT_PUT | TAGRV_XPORT_CHECKED |
			TAGRV_XPORT_WATCHED | TAGRV_XPORT_LOCAL,
		.admits = TAGRV_MEM_REMOTE,
		.max_inline = max_packet,
		.max_short = max_packet - TAGRV_SHORT_HDR,
		.tagged_end = max_packet - TAGRV_HDR_ROOM + 1,
		.tagged_short = SHM_DATA_INLINE + 1,
		.max_packet = max_packet,
		.get_max = 1 << 30,
		.get_depth = TAGRV_MIN(params->read_depth, (size_t) SHM_GETS),
		/* Through the rings a get is two packets, and more work. */
		.get_least = cma ? SHM_CMA_LEAST : SIZE_MAX,
		.put_max = 1 << 30,
		.put_depth = TAGRV_MIN(params->read_depth, (size_t) SHM_GETS),
		.latency = 0.1e-6,
		.bandwidth = tagrv_shm_bandwidth(cma),
		/* The two copies of one packet do not overlap. */
		.copy_bandwidth = tagrv_shm_rates()->copy,
		.overhead = 0.03e-6,
		.frag_overhead = SHM_FRAG_TIME,
		.get_overhead = cma ? tagrv_shm_rates()->call : 0.5e-6,
		.reg_overhead = 0.05e-6,
		.reg_growth = 0,
		.reg_piece = params->read_segment,
		.source = "measured",
	};
}

static int open_bell(struct shm_xport *xp)
{
	void *bell;
	int ret;

	ret = tagrv_shm_wake_open(xp);
	if (ret)
		return ret;
	ret = tagrv_shm_region_create("tagrv-bell", SHM_BELL_SIZE,
				      &xp->bell_fd, &bell);
	if (!ret)
		xp->bell = bell;
	return ret;
}

static void init_lists(struct shm_xport *xp)
{
	tagrv_list_init(&xp->starved);
	tagrv_list_init(&xp->refused);
	tagrv_list_init(&xp->failed);
	tagrv_list_init(&xp->closing);
	tagrv_list_init(&xp->serving);
	tagrv_list_init(&xp->waiting);
	tagrv_list_init(&xp->putting);
	tagrv_list_init(&xp->helping);
	tagrv_list_init(&xp->cma_gets);
	tagrv_list_init(&xp->queued_gets);
}

static void xport_close(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);

	while (!tagrv_list_empty(&xp->closing))
		tagrv_shm_progress(xport);
	tagrv_watch_remove(xport->sink->watch, &xp->watch_at);
	tagrv_shm_region_unmap(xp->bell, SHM_BELL_SIZE);
	if (xp->bell_fd >= 0)
		close(xp->bell_fd);
	if (xp->wait_fd >= 0) {
		close(xp->wait_fd);
		close(xp->wake_fd);
	}
	free(xp);
}

static int xport_open(struct tagrv_device *dev,
		      const struct tagrv_params *params,
		      struct tagrv_sink *sink, struct tagrv_xport **xport)
{
	struct shm_xport *xp = calloc(1, sizeof(*xp));
	int ret;

	if (!xp)
		return -FI_ENOMEM;
	xp->base.ops = &tagrv_shm_ops;
	xp->base.dev = dev;
	xp->base.sink = sink;
	xp->ring_size = ring_size(params);
	xp->help_min = params->shm_help ? params->shm_help : SIZE_MAX;
	xp->help_wait_ms = SHM_HELP_WAIT_MS;
	xp->base.attr = attr_of(params, xp->ring_size,
				shm_device_of(dev)->cma);
	xp->bell_fd = xp->wait_fd = xp->wake_fd = -1;
	xp->watch_at = TAGRV_WATCH_OFF;
	init_lists(xp);
	ret = open_bell(xp);
	if (ret) {
		tagrv_warn("shm: cannot open an endpoint: %s\n",
			   strerror(-ret));
		xport_close(&xp->base);
		return ret;
	}
	*xport = &xp->base;
	return 0;
}

static size_t outstanding(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);

	return xp->done_tail - xp->done_head + xp->get_cnt + xp->put_cnt;
}

static int wait_fd(struct tagrv_xport *xport)
{
	return shm_xport_of(xport)->wait_fd;
}

const struct tagrv_xport_ops tagrv_shm_ops = {
	.name = SHM_NAME,
	.wire_id = WIRE_ID,
	.discover = discover,
	.dev_open = dev_open,
	.dev_close = dev_close,
	.dev_event_fd = tagrv_shm_dev_event_fd,
	.dev_event = tagrv_shm_dev_event,
	.mem_reg = tagrv_shm_mem_reg,
	.mem_dereg = tagrv_shm_mem_dereg,
	.mem_key = tagrv_shm_mem_key,
	.xport_open = xport_open,
	.xport_close = xport_close,
	.link_create = tagrv_shm_link_create,
	.link_bind = tagrv_shm_link_bind,
	.link_discard = tagrv_shm_link_discard,
	.side_create = tagrv_stub_side_create,
	.link_attach = tagrv_shm_link_attach,
	.link_close = tagrv_shm_link_close,
	.link_resume = tagrv_stub_link_resume,
	.link_unrenewed = tagrv_stub_link_unrenewed,
	.blobs_near = tagrv_stub_blobs_near,
	.send = tagrv_shm_send,
	.send_short = tagrv_shm_send_short,
	.send_tagged = tagrv_shm_send_tagged,
	.drain = tagrv_shm_drain_hot,
	.publish = tagrv_shm_publish,
	.send_prepared = tagrv_stub_send_prepared,
	.get = tagrv_shm_get,
	.put = tagrv_shm_put,
	.atomic = tagrv_stub_atomic,
	.progress = tagrv_shm_progress,
	.reap = tagrv_shm_reap,
	.flush = tagrv_stub_flush,
	.check = tagrv_shm_check,
	.outstanding = outstanding,
	.wait_fd = wait_fd,
	.arm = tagrv_shm_arm,
};
