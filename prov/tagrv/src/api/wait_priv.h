/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping on a completion queue or counter.
 *
 *   epoll_fd (given to the application)
 *    |- dom.wait_fd   a device or connection has work for progress
 *    '- waker.fd      another thread made progress and pushed a completion
 *
 * Before any sleep, under the domain lock and with no completion to report: clear
 * and arm the waker, then arm the domain. From then on every completion makes one
 * of the two descriptors readable.
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
	int	epoll_fd;		/* -1 until FI_GETWAIT */
};

/* -FI_ENOSYS for wait objects other than none, unspec, fd, pollfd and yield. */
int tagrv_wait_init(struct tagrv_wait *wait, enum fi_wait_obj obj)
	TAGRV_WARN_UNUSED;
void tagrv_wait_fini(struct tagrv_wait *wait);

static inline bool tagrv_wait_possible(const struct tagrv_wait *wait)
{
	return wait->obj != FI_WAIT_NONE;
}

/* FI_WAIT_YIELD never sleeps, so that it needs no descriptor. */
static inline bool tagrv_wait_has_fd(const struct tagrv_wait *wait)
{
	return tagrv_wait_possible(wait) && wait->obj != FI_WAIT_YIELD;
}

/*
 * fi_control. FI_GETWAIT fills an int or, for FI_WAIT_POLLFD, a struct
 * fi_wait_pollfd (-FI_ETOOSMALL without room); -FI_ENODATA: there is no
 * descriptor. FI_GETWAITOBJ fills an enum. Other commands: -FI_ENOSYS.
 */
int tagrv_wait_control(struct tagrv_wait *wait, const struct tagrv_dom *dom,
		       const struct tagrv_waker *waker, int command, void *arg);

/*
 * Prepares a sleep; domain lock held, no completion to report. 0: the caller may
 * sleep; -FI_EAGAIN: it must make progress first.
 */
int tagrv_wait_prepare(struct tagrv_dom *dom, struct tagrv_waker *waker);
/* Also counts the caller as a sleeper: after 0 it must tagrv_wait_sleep(). */
int tagrv_wait_enter(struct tagrv_dom *dom, struct tagrv_waker *waker);
/* Sleeps up to timeout ms; lock not held. Returns as tagrv_dom_sleep(). */
int tagrv_wait_sleep(struct tagrv_dom *dom, struct tagrv_waker *waker,
		     int timeout);

/* Now plus timeout ms; INT64_MAX, never, for a negative timeout. */
int64_t tagrv_deadline(int timeout);
/* ms left, for poll(2): -1 for ever, 0 when the deadline has passed. */
int tagrv_time_left(int64_t deadline);

#endif
