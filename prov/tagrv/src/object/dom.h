/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the endpoints of one fi_domain share: the devices, the lock, the wireup
 * thread, caches of registrations, and descriptors to sleep on.
 *
 *              dom.wait_fd (epoll)
 *               |- completion channels of every engine's transports
 *               '- kick_fd: tagrv_dom_kick, mostly by the wireup thread
 *
 * engine/drive.h moves the endpoints, and says how a caller may sleep.
 */
#ifndef TAGRV_OBJECT_DOM_H
#define TAGRV_OBJECT_DOM_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/compiler.h"
#include "core/list.h"
#include "core/lock.h"
#include "core/param.h"
#include "object/mrtab.h"
#include "object/patience.h"
#include "select/select.h"
#include "xport/xport.h"

#define TAGRV_DOM_DEVS_MAX	3	/* shared memory, joined NICs, and a NIC */
#define TAGRV_DOM_TICKS		1024	/* a power of two; ticks whose begin is known */

struct tagrv_board;
struct tagrv_monitor;
struct tagrv_profile;
struct tagrv_regcache;
struct tagrv_regcache_stats;
struct tagrv_wireup;

struct tagrv_dom_attr {
	const char *name;	/* device name as fi_getinfo gave it */
	bool	serialized;	/* FI_THREAD_DOMAIN and weaker: no lock */
	bool	auto_progress;	/* a thread makes progress (implies the lock) */
	bool	allocated;	/* FI_MR_ALLOCATED: regions keep their pages, but for fi_mr_refresh */
};

/* Cache of registrations of one device. */
struct tagrv_dom_cache {
	struct tagrv_regcache *cache;	/* NULL: none */
	struct tagrv_monitor *monitor;	/* what it relies on */
	bool	wanted;			/* to be opened with the first use */
};

/* Windows that are registered for peers: view.h. */
struct tagrv_dom_shown {
	atomic_size_t bytes;		/* of all; also changed without the lock */
	size_t	max;			/* as many as caches may keep; lock */
	bool	max_known;
	bool	told;			/* the log has a line about too many */
};

/*
 * Age of operations without a clock on the data path: an operation keeps the
 * tick of its submit. tick begins when a progress pass finds that a second has
 * passed since the last one began, so an operation with an older tick was there
 * when the tick after its own began: it is at least that old.
 */
struct tagrv_dom_clock {
	uint32_t tick;
	uint32_t checked;			/* last tick of engine/dump.c; another
						   one: engine/show.c is due, too */
	uint64_t next_dump;			/* ms; not before */
	uint64_t begin[TAGRV_DOM_TICKS];	/* ms; of tick n: [n mod TICKS] */
};

/* What the domain shows on the board of the process: engine/show.h. */
struct tagrv_dom_show {
	struct tagrv_board *board;	/* NULL: none */
	uint64_t asked;		/* what was answered last: tagrv_board_asked() */
	uint64_t until;		/* ms by the clock; a viewer has asked lately before */
	uint64_t pause;		/* ns; no more often before going to sleep */
};

struct tagrv_dom {
	struct tagrv_params params;
	struct tagrv_select_conf select;	/* of params */
	struct tagrv_profile *profile;	/* NULL: none */
	struct tagrv_lock lock;
	/* of that name, or joined with others; NULL: "loop" */
	struct tagrv_device *dev;
	/* What connections may use, best first; dev is among them. */
	struct tagrv_device *devs[TAGRV_DOM_DEVS_MAX];
	size_t	dev_cnt;
	struct tagrv_dom_cache caches[TAGRV_DOM_DEVS_MAX];	/* of devs */
	/* FI_TAGRV_EXPOSE: rights (enum tagrv_mem_access) of registrations that may
	 * outlive the operation they were made for. Never TAGRV_MEM_WRITE: a peer
	 * that was once told where to write could go on for ever. */
	unsigned lasting;
	bool	joined;			/* dev joins devices */
	bool	allocated;		/* of attr: devices may have windows registered */
	bool	by_device;		/* FI_TAGRV_ATOMICS: devices carry out atomics; then
					   one device reaches all peers */
	struct tagrv_device *loop;	/* messages to self */
	struct tagrv_wireup *wireup;	/* created with the first endpoint */
	struct tagrv_list engines;	/* struct tagrv_engine::dom_node */
	struct tagrv_mrtab windows;	/* what peers may access */
	struct tagrv_dom_shown shown;	/* those that devices may access for them */
	int	wait_fd;
	int	kick_fd;
	struct tagrv_watch watch;	/* tells when a pass is due */
	bool	in_pass;		/* transports are being polled; busy peers
					   are served before the pass ends */
	bool	in_look;		/* words of 'watch' are being handled; busy
					   peers are served behind them */
	bool	to_serve;		/* in_look: some peer is busy */
	struct tagrv_patience patience;
	bool	give_way;		/* tagrv_dom_unlock() shall yield the
					   processor */
	bool	auto_progress;
	bool	stop;			/* the progress thread shall end */
	bool	told_memory;		/* tagrv_dom_no_memory() has logged */
	uint32_t part_looks;		/* engine/part.c: looks for idle connections */
	pthread_t thread;		/* of engine/drive.c, if auto_progress */
	struct tagrv_dom_clock clock;
	struct tagrv_dom_show show;
	struct tagrv_list all_node;	/* tagrv_doms */
};

/*
 * In each function that needs the domain lock; nothing in release builds. See
 * tagrv_lock_held() for domains without a lock.
 */
#define tagrv_assert_locked(dom)	assert(tagrv_lock_held(&(dom)->lock))

/* All domains of the process, for debuggers: nothing else reads the list. */
extern struct tagrv_list tagrv_doms;

/*
 * Opens the devices and starts no thread. -FI_ENODEV: no such device,
 * -FI_ENOMEM, -FI_EACCES, -FI_EIO.
 */
int tagrv_dom_open(const struct tagrv_dom_attr *attr, struct tagrv_dom **dom)
	TAGRV_WARN_UNUSED;
/* Every endpoint was closed before, and the progress thread has ended. */
void tagrv_dom_close(struct tagrv_dom *dom);

/*
 * dom_cache.c; lock held, except in tagrv_dom_close_caches().
 *
 * Registrations of the transport's device will be kept if they cost enough.
 */
void tagrv_dom_want_cache(struct tagrv_dom *dom,
			  const struct tagrv_xport *xport);
/* NULL: registrations of this device are not kept. */
struct tagrv_regcache *tagrv_dom_cache(struct tagrv_dom *dom,
				       const struct tagrv_device *dev);
/* Deregisters all cached memory that is not in use; returns the registrations. */
size_t tagrv_dom_evict(struct tagrv_dom *dom, const struct tagrv_device *dev);
/* The device's mem_reg(), with what cached memory that is not in use holds, if it needs that. */
int tagrv_dom_mem_reg(struct tagrv_dom *dom, struct tagrv_device *dev, void *addr, size_t len,
		      unsigned access, struct tagrv_mem **mem) TAGRV_WARN_UNUSED;
/*
 * Counts bytes of a window that is going to be registered for peers. False: with them it
 * were more than FI_TAGRV_REGCACHE_MAX, or the default of that; nothing was counted.
 */
bool tagrv_dom_count_shown(struct tagrv_dom *dom, size_t bytes) TAGRV_WARN_UNUSED;
/* They are not registered any more; no lock is needed. */
void tagrv_dom_uncount_shown(struct tagrv_dom *dom, size_t bytes);
/* Deregisters cached memory that was unmapped or replaced, unless in use. */
void tagrv_dom_free_invalidated(struct tagrv_dom *dom);
/* Peers shall not read this memory any more by keys that were kept. */
void tagrv_dom_withdraw(struct tagrv_dom *dom, const struct iovec *iov, size_t cnt);
/* Of all devices together; zeros when nothing is kept. */
void tagrv_dom_cache_stats(const struct tagrv_dom *dom,
			   struct tagrv_regcache_stats *sum);
/* Deregisters all cached memory; no operation uses any. */
void tagrv_dom_close_caches(struct tagrv_dom *dom);

/*
 * Releases the lock after progress. Then yields the processor if that is due
 * (patience.h): not under the lock, for which other threads may wait.
 */
static inline void tagrv_dom_unlock(struct tagrv_dom *dom)
{
	bool give_way = dom->give_way;

	dom->give_way = false;
	tagrv_lock_release(&dom->lock);
	if (TAGRV_UNLIKELY(give_way))
		tagrv_patience_yield(&dom->patience);
}

/*
 * Takes the lock for a call that may leave work for the next pass. Calls on the data
 * path take it by tagrv_lock_acquire() and ask for a pass only if they leave work.
 */
static inline void tagrv_dom_lock(struct tagrv_dom *dom)
{
	tagrv_lock_acquire(&dom->lock);
	tagrv_watch_attend(&dom->watch);
}

/* Whether the domain's device carries out atomics, as FI_TAGRV_ATOMICS=device wants. */
static inline bool tagrv_dom_has_device_atomics(const struct tagrv_dom *dom)
{
	return dom->dev && dom->dev->atomics;
}

/* Makes wait_fd readable; any thread. */
void tagrv_dom_kick(struct tagrv_dom *dom);

/* Logs, once, that a call ("send", "receive") found no memory; lock held. */
void tagrv_dom_no_memory(struct tagrv_dom *dom, const char *call);

/* Begins a new tick if a second has passed since the last one; lock held. */
void tagrv_dom_tick(struct tagrv_dom *dom);
/* Milliseconds, at least, since an operation was submitted in this tick. */
uint64_t tagrv_dom_age(const struct tagrv_dom *dom, uint32_t born);

#endif
