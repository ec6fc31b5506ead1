/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping on a completion queue or counter.
 *
 *   epoll_fd (given to the application)
 *    |- dom.wait_fd   something can be moved forward
 *    '- waker.fd      another thread has moved it already
 *
 * Before any sleep, under the domain lock and with nothing to report, the waker
 * is cleared and armed and the domain armed, in this order: whatever is pushed
 * from then on makes one of the descriptors readable.
 */
#ifndef TAGRV_API_WAIT_PRIV_H
#define TAGRV_API_WAIT_PRIV_H

#include <rdma/fi_eq.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/compiler.h"
#include "object/comp.h"
#include "object/dom.h"

struct tagrv_wait {
	enum fi_wait_obj obj;
	int	epoll_fd;		/* -1 until the application asks */
};

/* -FI_ENOSYS for wait objects other than none, unspec, fd, pollfd and yield. */
int tagrv_wait_init(struct tagrv_wait *wait, enum fi_wait_obj obj)
	TAGRV_WARN_UNUSED;
void tagrv_wait_fini(struct tagrv_wait *wait);

static inline bool tagrv_wait_possible(const struct tagrv_wait *wait)
{
	return wait->obj != FI_WAIT_NONE;
}

/* Who yields never sleeps: there is nothing to be woken by. */
static inline bool tagrv_wait_has_fd(const struct tagrv_wait *wait)
{
	return tagrv_wait_possible(wait) && wait->obj != FI_WAIT_YIELD;
}

/*
 * FI_GETWAIT: an int or, for FI_WAIT_POLLFD, a struct fi_wait_pollfd; -FI_ENODATA
 * where there is no descriptor, -FI_ETOOSMALL. FI_GETWAITOBJ. -FI_ENOSYS for
 * other commands.
 */
int tagrv_wait_control(struct tagrv_wait *wait, const struct tagrv_dom *dom,
		       const struct tagrv_waker *waker, int command, void *arg);

/* Domain lock held, nothing to report. 0: sleep; -FI_EAGAIN: progress first. */
int tagrv_wait_prepare(struct tagrv_dom *dom, struct tagrv_waker *waker);
/* The same for who sleeps here: 0 is to be followed by tagrv_wait_sleep(). */
int tagrv_wait_enter(struct tagrv_dom *dom, struct tagrv_waker *waker);
/* Lock not held. Returns as tagrv_dom_sleep(). */
int tagrv_wait_sleep(struct tagrv_dom *dom, struct tagrv_waker *waker,
		     int timeout);

/* A timeout in ms, negative for ever, as a point in time (INT64_MAX: never). */
int64_t tagrv_deadline(int timeout);
/* ms left for poll(2): -1 for ever, 0 when the deadline has passed. */
int tagrv_time_left(int64_t deadline);

#endif
