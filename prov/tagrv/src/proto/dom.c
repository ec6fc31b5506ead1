/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What endpoints of a domain share: see dom.h.
 */
#include "proto/dom.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/log.h"
#include "core/thread.h"
#include "proto/engine_priv.h"
#include "select/profile.h"

/* Longest sleep of the progress thread: bounds what no event announces. */
#define THREAD_SLEEP_MS	100

#define IDLE_YIELD	256	/* passes without an event */

/* Peers on this host are reached by it; without it, by the device. */
static void open_local(struct tagrv_dom *dom)
{
	const struct tagrv_xport_ops *ops = &tagrv_shm_ops;
	int ret;

	if (!tagrv_xport_is_wanted(&dom->params, ops))
		return;
	ret = ops->dev_open(ops->name, &dom->params, &dom->devs[dom->dev_cnt]);
	if (!ret)
		dom->dev_cnt++;
	else
		tagrv_warn("no shared memory, processes of this host are "
			   "reached by the device: %s\n", fi_strerror(-ret));
}

static int open_device(struct tagrv_dom *dom, const char *name)
{
	int ret = -FI_ENODEV;

	if (!strcmp(name, "loop"))
		return 0;
	for (size_t i = 0; tagrv_xports[i] && ret == -FI_ENODEV; i++)
		if (tagrv_xport_is_wanted(&dom->params, tagrv_xports[i]))
			ret = tagrv_xports[i]->dev_open(name, &dom->params,
							&dom->dev);
	if (ret) {
		tagrv_warn("device %s cannot be opened: %s\n", name,
			   fi_strerror(-ret));
		return ret;
	}
	if (dom->dev->ops != &tagrv_shm_ops)
		open_local(dom);
	dom->devs[dom->dev_cnt++] = dom->dev;
	return 0;
}

static void close_devices(struct tagrv_dom *dom)
{
	while (dom->dev_cnt) {
		struct tagrv_device *dev = dom->devs[--dom->dev_cnt];

		dev->ops->dev_close(dev);
	}
}

static int open_waiting(struct tagrv_dom *dom)
{
	struct epoll_event event = { .events = EPOLLIN };
	int ret;

	dom->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (dom->wait_fd < 0)
		return -errno;
	dom->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (dom->kick_fd < 0 ||
	    epoll_ctl(dom->wait_fd, EPOLL_CTL_ADD, dom->kick_fd, &event)) {
		ret = -errno;
		if (dom->kick_fd >= 0)
			close(dom->kick_fd);
		close(dom->wait_fd);
		return ret;
	}
	return 0;
}

static void *progress_thread(void *arg)
{
	struct tagrv_dom *dom = arg;
	bool stop, idle;

	do {
		tagrv_lock_acquire(&dom->lock);
		idle = !tagrv_dom_progress(dom) && !tagrv_dom_arm(dom);
		stop = dom->stop;
		tagrv_dom_unlock(dom);
		if (idle && !stop)
			tagrv_dom_sleep(dom, -1, THREAD_SLEEP_MS);
	} while (!stop);
	return NULL;
}

int tagrv_dom_open(const struct tagrv_dom_attr *attr, struct tagrv_dom **dom)
{
	struct tagrv_dom *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -FI_ENOMEM;
	tagrv_param_read(&d->params);
	tagrv_list_init(&d->engines);
	d->auto_progress = attr->auto_progress;
	tagrv_select_conf_read(&d->select, &d->params);
	d->profile = tagrv_profile_load(&d->params);
	ret = tagrv_lock_init(&d->lock, !attr->serialized || attr->auto_progress);
	if (ret)
		goto free_dom;
	ret = tagrv_loop_ops.dev_open("loop", &d->params, &d->loop);
	if (ret)
		goto fini_lock;
	ret = open_device(d, attr->name);
	if (ret)
		goto close_loop;
	ret = open_waiting(d);
	if (ret)
		goto close_devices;
	if (attr->auto_progress) {
		ret = tagrv_thread_start(&d->thread, "tagrv-progress",
					 progress_thread, d);
		if (ret)
			goto close_waiting;
	}
	*dom = d;
	return 0;

close_waiting:
	close(d->kick_fd);
	close(d->wait_fd);
close_devices:
	close_devices(d);
close_loop:
	d->loop->ops->dev_close(d->loop);
fini_lock:
	tagrv_lock_fini(&d->lock);
free_dom:
	tagrv_profile_free(d->profile);
	free(d);
	return ret;
}

static void stop_thread(struct tagrv_dom *dom)
{
	tagrv_lock_acquire(&dom->lock);
	dom->stop = true;
	tagrv_lock_release(&dom->lock);
	tagrv_dom_kick(dom);
	pthread_join(dom->thread, NULL);
}

static void unwatch_device(struct tagrv_dom *dom, struct tagrv_device *dev)
{
	int fd = dev->ops->dev_event_fd(dev);

	if (fd >= 0)
		tagrv_wireup_unwatch(dom->wireup, fd);
}

void tagrv_dom_close(struct tagrv_dom *dom)
{
	assert(tagrv_list_empty(&dom->engines));
	if (dom->auto_progress)
		stop_thread(dom);
	if (dom->wireup) {
		for (size_t i = 0; i < dom->dev_cnt; i++)
			unwatch_device(dom, dom->devs[i]);
		tagrv_wireup_destroy(dom->wireup);
	}
	close(dom->kick_fd);
	close(dom->wait_fd);
	tagrv_dom_close_caches(dom);
	close_devices(dom);
	dom->loop->ops->dev_close(dom->loop);
	tagrv_lock_fini(&dom->lock);
	tagrv_profile_free(dom->profile);
	free(dom);
}

/*
 * A device in software moves bytes on this very processor, in a kernel thread
 * or a peer's process that a polling loop would starve of half its time.
 * Adapters are not waited for in this way, and a short wait is not worth a
 * system call.
 */
static void count_pass(struct tagrv_dom *dom, int events)
{
	struct tagrv_list *node;

	if (events)
		dom->idle_passes = 0;
	else if (++dom->idle_passes >= IDLE_YIELD)
		tagrv_list_for_each(&dom->engines, node)
			dom->give_way |= tagrv_rails_soft(
				&tagrv_container_of(node, struct tagrv_engine,
						    dom_node)->rails);
}

int tagrv_dom_progress(struct tagrv_dom *dom)
{
	struct tagrv_list *node;
	int events = 0;

	tagrv_list_for_each(&dom->engines, node)
		events += tagrv_engine_progress(
			tagrv_container_of(node, struct tagrv_engine, dom_node));
	count_pass(dom, events);
	tagrv_dom_reap(dom);
	return events;
}

static int arm_engine(struct tagrv_engine *engine)
{
	/* Requested first, looked second: what came between is found. */
	if (tagrv_rails_arm(&engine->rails))
		return -FI_EAGAIN;
	if (!tagrv_list_empty(&engine->gone))
		return -FI_EAGAIN;
	/* Those at rest too. */
	if (tagrv_rails_poll_all(&engine->rails))
		return -FI_EAGAIN;
	return tagrv_engine_progress(engine) ? -FI_EAGAIN : 0;
}

int tagrv_dom_arm(struct tagrv_dom *dom)
{
	struct tagrv_list *node;
	uint64_t count;

	/* Emptied before the queues are looked at, so no kick is missed. */
	if (read(dom->kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return -FI_EAGAIN;
	tagrv_list_for_each(&dom->engines, node) {
		int ret = arm_engine(tagrv_container_of(
			node, struct tagrv_engine, dom_node));

		if (ret)
			return ret;
	}
	return 0;
}

void tagrv_dom_kick(struct tagrv_dom *dom)
{
	uint64_t one = 1;

	/* A full counter is readable as well, so a failure does no harm. */
	if (write(dom->kick_fd, &one, sizeof(one)) < 0)
		return;
}

int tagrv_dom_sleep(struct tagrv_dom *dom, int extra_fd, int timeout)
{
	struct pollfd fds[2] = {
		{ .fd = dom->wait_fd, .events = POLLIN },
		{ .fd = extra_fd, .events = POLLIN },
	};
	int ret = poll(fds, 2, timeout);

	return ret < 0 ? -errno : ret;
}
