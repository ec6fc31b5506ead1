/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the endpoints of one fi_domain share: the devices, the lock, the wireup
 * thread, and the means to sleep until something happens.
 *
 *              dom.wait_fd (epoll)
 *               |- completion channels of every engine's transports
 *               '- kick_fd: tagrv_dom_kick, mostly by the wireup thread
 *
 * Sleep rule: under the lock, progress until idle, tagrv_dom_arm(); when that
 * returns 0, poll wait_fd without the lock, then progress again.
 */
#ifndef TAGRV_PROTO_DOM_H
#define TAGRV_PROTO_DOM_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "core/compiler.h"
#include "core/list.h"
#include "core/lock.h"
#include "core/param.h"
#include "select/select.h"
#include "xport/xport.h"

#define TAGRV_DOM_DEVS_MAX	2	/* this host's, and a NIC */

struct tagrv_monitor;
struct tagrv_profile;
struct tagrv_regcache;
struct tagrv_regcache_stats;
struct tagrv_wireup;

struct tagrv_dom_attr {
	const char *name;	/* device name as fi_getinfo gave it */
	bool	serialized;	/* FI_THREAD_DOMAIN and weaker: no lock */
	bool	auto_progress;	/* a thread moves things (implies the lock) */
};

/* Cache of registrations of one device. */
struct tagrv_dom_cache {
	struct tagrv_regcache *cache;	/* NULL: none */
	struct tagrv_monitor *monitor;	/* what it relies on */
	bool	wanted;			/* to be opened with the first use */
};

struct tagrv_dom {
	struct tagrv_params params;
	struct tagrv_select_conf select;	/* of params */
	struct tagrv_profile *profile;	/* NULL: none */
	struct tagrv_lock lock;
	struct tagrv_device *dev;	/* of that name; NULL: "loop" */
	/* What connections may use, best first; dev is among them. */
	struct tagrv_device *devs[TAGRV_DOM_DEVS_MAX];
	size_t	dev_cnt;
	struct tagrv_dom_cache caches[TAGRV_DOM_DEVS_MAX];	/* of devs */
	struct tagrv_device *loop;	/* messages to self */
	struct tagrv_wireup *wireup;	/* created with the first endpoint */
	struct tagrv_list engines;	/* struct tagrv_engine::dom_node */
	int	wait_fd;
	int	kick_fd;
	uint32_t idle_passes;		/* of every endpoint, in a row */
	bool	give_way;		/* to the device, once unlocked */
	bool	auto_progress;
	bool	stop;			/* the progress thread shall end */
	pthread_t thread;
};

/*
 * Opens the devices and starts no thread yet (except for auto_progress).
 * -FI_ENODEV: no such device, -FI_ENOMEM, -FI_EACCES, -FI_EIO.
 */
int tagrv_dom_open(const struct tagrv_dom_attr *attr, struct tagrv_dom **dom)
	TAGRV_WARN_UNUSED;
/* Every endpoint was closed before. */
void tagrv_dom_close(struct tagrv_dom *dom);

/*
 * regcache_dom.c; lock held, except for the last one.
 *
 * Registrations of the transport's device are kept if they are dear.
 */
void tagrv_dom_want_cache(struct tagrv_dom *dom,
			  const struct tagrv_xport *xport);
/* NULL: registrations of this device are not kept. */
struct tagrv_regcache *tagrv_dom_cache(struct tagrv_dom *dom,
				       const struct tagrv_device *dev);
/* Deregisters what is kept and not in use; returns how many there were. */
size_t tagrv_dom_evict(struct tagrv_dom *dom, const struct tagrv_device *dev);
/* Deregisters what is kept of memory that is gone. */
void tagrv_dom_reap(struct tagrv_dom *dom);
/* Of all devices together; zeros when nothing is kept. */
void tagrv_dom_cache_stats(const struct tagrv_dom *dom,
			   struct tagrv_regcache_stats *sum);
/* No operation is left. */
void tagrv_dom_close_caches(struct tagrv_dom *dom);

/* Moves every endpoint once; lock held. Returns events handled. */
int tagrv_dom_progress(struct tagrv_dom *dom);

/*
 * Releases the lock after progress, and gives up the processor when a device
 * that needs it has had nothing for us for a while: never under the lock, for
 * which others may wait.
 */
static inline void tagrv_dom_unlock(struct tagrv_dom *dom)
{
	bool give_way = dom->give_way;

	dom->give_way = false;
	tagrv_lock_release(&dom->lock);
	if (TAGRV_UNLIKELY(give_way))
		sched_yield();
}

/* 0: wait_fd will become readable on the next event. -FI_EAGAIN: progress
 * first. Lock held. */
int tagrv_dom_arm(struct tagrv_dom *dom);

/* Makes wait_fd readable; any thread. */
void tagrv_dom_kick(struct tagrv_dom *dom);

/*
 * Sleeps until something happened, extra_fd (-1: none) is readable or timeout
 * ms passed (-1: for ever). Lock not held. Returns like poll(2), -FI_E* on
 * error; -FI_EINTR for a signal.
 */
int tagrv_dom_sleep(struct tagrv_dom *dom, int extra_fd, int timeout);

#endif
