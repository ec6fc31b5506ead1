/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening and closing what endpoints of a domain share: see dom.h.
 */
#include "object/dom.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "board/board.h"
#include "core/clock.h"
#include "core/hostmem.h"
#include "core/log.h"
#include "object/dom_rails.h"
#include "select/profile.h"
#include "wireup/wireup.h"

struct tagrv_list tagrv_doms = { &tagrv_doms, &tagrv_doms };
static pthread_mutex_t doms_mutex = PTHREAD_MUTEX_INITIALIZER;

static void add_to_all(struct tagrv_dom *dom)
{
	pthread_mutex_lock(&doms_mutex);
	tagrv_list_push_tail(&tagrv_doms, &dom->all_node);
	pthread_mutex_unlock(&doms_mutex);
}

static void remove_from_all(struct tagrv_dom *dom)
{
	pthread_mutex_lock(&doms_mutex);
	tagrv_list_remove(&dom->all_node);
	pthread_mutex_unlock(&doms_mutex);
}

/* Shared memory reaches peers on this host; without it the device does. */
static void open_local(struct tagrv_dom *dom)
{
	const struct tagrv_xport_ops *ops = tagrv_xport_local();
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

/* Whether more than one rail is possible: only then devices have to be listed. */
static bool may_join(const struct tagrv_params *params, unsigned procs)
{
	bool is_auto = !*params->rails || !strcasecmp(params->rails, "auto");

	return is_auto ? procs > 0 : strcmp(params->rails, "1") != 0;
}

/* 0: the rails are chosen, or -FI_E*: there is no list of devices. */
static int choose_rails(const struct tagrv_dom *dom,
			const struct tagrv_xport_ops *ops, const char *name,
			struct tagrv_dom_rails *rails)
{
	struct tagrv_device_desc *descs;
	const char *launcher = "";
	unsigned procs = tagrv_dom_rails_procs(getenv, &launcher);
	char why[192];
	size_t cnt;
	int ret;

	rails->cnt = 1;
	if (!may_join(&dom->params, procs))
		return 0;
	ret = ops->discover(&dom->params, &descs, &cnt, why, sizeof(why));
	if (ret)
		return ret;
	tagrv_dom_rails_choose(dom->params.rails, procs, descs, cnt, name, rails);
	if (rails->wrong)
		tagrv_dom_rails_warn(dom->params.rails, rails, descs, cnt);
	free(descs);
	return 0;
}

/* Opens those that can be opened; returns their number. */
static size_t open_rails(const struct tagrv_dom *dom,
			 const struct tagrv_xport_ops *ops,
			 const struct tagrv_dom_rails *rails,
			 struct tagrv_device *devs[TAGRV_DOM_RAILS_MAX])
{
	size_t cnt = 0;

	for (unsigned i = 0; i < rails->cnt; i++) {
		int ret = ops->dev_open(rails->names[i], &dom->params, &devs[cnt]);

		if (!ret)
			cnt++;
		else
			tagrv_warn("rail %s of domain %s cannot be opened, the "
				   "others are used: %s\n", rails->names[i],
				   rails->names[0], fi_strerror(-ret));
	}
	return cnt;
}

/*
 * Joins the rails if there are several. The plain device stays for peers that have one;
 * without enough memory it is all there is. Returns the joined device, or NULL.
 */
static struct tagrv_device *open_joined(struct tagrv_dom *dom, const char *name)
{
	const struct tagrv_xport_ops *ops = dom->dev->ops;
	struct tagrv_device *devs[TAGRV_DOM_RAILS_MAX], *joined;
	struct tagrv_dom_rails rails;
	size_t cnt;
	int ret;

	if (choose_rails(dom, ops, name, &rails) || rails.cnt < 2)
		return NULL;
	cnt = open_rails(dom, ops, &rails, devs);
	ret = cnt < 2 ? -FI_ENODEV : tagrv_xport_join(devs, cnt, &joined);
	if (ret) {
		tagrv_warn("domain %s has one rail, because others cannot be "
			   "joined: %s\n", name, fi_strerror(-ret));
		while (cnt)
			ops->dev_close(devs[--cnt]);
		return NULL;
	}
	tagrv_info("rails of domain %s: %s (FI_TAGRV_RAILS=%s: %s)\n", name,
		   joined->name, *dom->params.rails ? dom->params.rails : "auto",
		   rails.why);
	dom->devs[dom->dev_cnt++] = joined;
	return joined;
}

static int open_device(struct tagrv_dom *dom, const char *name)
{
	struct tagrv_device *joined = NULL;
	int ret = -FI_ENODEV;

	if (!strcmp(name, tagrv_xport_self()->name))
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
	/* With atomics by the device, processes of this host have to use it, too. */
	if (dom->dev->ops != tagrv_xport_local() &&
	    !(dom->by_device && tagrv_dom_has_device_atomics(dom))) {
		open_local(dom);
		joined = open_joined(dom, name);
	}
	dom->devs[dom->dev_cnt++] = dom->dev;
	/* The application registers memory for the way that most peers take. */
	dom->joined = joined;
	if (joined)
		dom->dev = joined;
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

/* FI_TAGRV_EXPOSE. */
static unsigned read_lasting(const char *how)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;

	if (!strcasecmp(how, "message"))
		return TAGRV_MEM_STORE;
	if (*how && strcasecmp(how, "cache") && !atomic_flag_test_and_set(&logged))
		tagrv_warn("FI_TAGRV_EXPOSE is '%s', but must be cache or message: "
			   "cache is used\n", how);
	return TAGRV_MEM_STORE | TAGRV_MEM_READ;
}

/* FI_TAGRV_ATOMICS. A device that lacks atomics leaves all as it is, without them. */
static bool read_by_device(const struct tagrv_params *params)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	const char *who = params->atomics;
	bool by_device = tagrv_param_atomics_by_device(params);

	if (*who && strcasecmp(who, "cpu") && !by_device &&
	    !atomic_flag_test_and_set(&logged))
		tagrv_warn("FI_TAGRV_ATOMICS is '%s', but must be cpu or device: "
			   "cpu is used\n", who);
	return by_device;
}

/* Memory for kept messages, unless the user has said how much. */
static void choose_budget(struct tagrv_params *params)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (!params->eager_budget)
		params->eager_budget = tagrv_hostmem_share(
			tagrv_hostmem_limit(""), (size_t) TAGRV_MAX(processors,
								    1l));
}

/* Without a board, viewers see nothing, and all else works. */
static void open_board(struct tagrv_dom *dom)
{
	if (!dom->params.top)
		return;
	dom->show.board = tagrv_board_join();
	if (!dom->show.board)
		tagrv_info("tagrv_top cannot show this process: no memory for its "
			   "counters: %s\n", strerror(errno));
	else
		dom->show.asked = tagrv_board_asked(dom->show.board);
}

int tagrv_dom_open(const struct tagrv_dom_attr *attr, struct tagrv_dom **dom)
{
	struct tagrv_dom *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -FI_ENOMEM;
	tagrv_param_read(&d->params);
	choose_budget(&d->params);
	tagrv_list_init(&d->engines);
	tagrv_watch_init(&d->watch);
	tagrv_patience_init(&d->patience);
	if (!d->params.fast)
		tagrv_watch_add_unlisted(&d->watch);
	d->auto_progress = attr->auto_progress;
	d->allocated = attr->allocated;
	d->lasting = read_lasting(d->params.expose);
	d->by_device = read_by_device(&d->params);
	tagrv_select_conf_read(&d->select, &d->params);
	d->profile = tagrv_profile_load(&d->params);
	ret = tagrv_lock_init(&d->lock, !attr->serialized || attr->auto_progress);
	if (ret)
		goto free_dom;
	ret = tagrv_xport_self()->dev_open(tagrv_xport_self()->name,
					   &d->params, &d->loop);
	if (ret)
		goto fini_lock;
	ret = open_device(d, attr->name);
	if (ret)
		goto close_loop;
	ret = open_waiting(d);
	if (ret)
		goto close_devices;
	open_board(d);
	add_to_all(d);
	*dom = d;
	return 0;

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

static void unwatch_device(struct tagrv_dom *dom, struct tagrv_device *dev)
{
	int fd = dev->ops->dev_event_fd(dev);

	if (fd >= 0)
		tagrv_wireup_unwatch(dom->wireup, fd);
}

void tagrv_dom_close(struct tagrv_dom *dom)
{
	assert(tagrv_list_empty(&dom->engines));
	remove_from_all(dom);
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
	tagrv_board_leave(dom->show.board);
	tagrv_lock_fini(&dom->lock);
	tagrv_profile_free(dom->profile);
	free(dom);
}

void tagrv_dom_kick(struct tagrv_dom *dom)
{
	uint64_t one = 1;

	tagrv_watch_call(&dom->watch);
	/* A full counter is readable as well, so a failure does no harm. */
	if (write(dom->kick_fd, &one, sizeof(one)) < 0)
		return;
}

void tagrv_dom_no_memory(struct tagrv_dom *dom, const char *call)
{
	tagrv_assert_locked(dom);
	if (!dom->told_memory)
		tagrv_warn("no memory for another %s: it is refused with "
			   "-FI_ENOMEM; see the memory of the host, and "
			   "ulimit -v (logged once)\n", call);
	dom->told_memory = true;
}

/* Whether a viewer wants to see what endpoints do. */
static bool is_asked(const struct tagrv_dom_show *show)
{
	return show->board && tagrv_board_asked(show->board) != show->asked;
}

void tagrv_dom_tick(struct tagrv_dom *dom)
{
	uint64_t now = tagrv_clock_ms(), *begin = dom->clock.begin;
	uint32_t tick = dom->clock.tick;

	tagrv_assert_locked(dom);
	if (TAGRV_UNLIKELY(is_asked(&dom->show)))
		dom->clock.checked = tick - 1;
	if (now - begin[tick % TAGRV_DOM_TICKS] < 1000)
		return;
	dom->clock.tick = tick + 1;
	begin[(tick + 1) % TAGRV_DOM_TICKS] = now;
}

uint64_t tagrv_dom_age(const struct tagrv_dom *dom, uint32_t born)
{
	uint32_t ticks = dom->clock.tick - born;

	tagrv_assert_locked(dom);
	if (!ticks)
		return 0;
	/* The next tick may be forgotten: then the oldest that is known counts. */
	ticks = TAGRV_MIN(ticks, TAGRV_DOM_TICKS);
	return tagrv_clock_ms() -
	       dom->clock.begin[(dom->clock.tick - ticks + 1) % TAGRV_DOM_TICKS];
}
