/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A device that is slow, for tests of the wireup thread: its links take as long to be bound
 * as a test says, by a clock that jumps meanwhile.
 */
#ifndef FABTESTS_UNIT_WIREUP_SLOW_H
#define FABTESTS_UNIT_WIREUP_SLOW_H

#include <linux/sockios.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "unit/wireup/wireup_fixture.h"
#include "wireup/wireup_priv.h"

/* -- a clock that can jump, for all of this program --------------------------- */

extern atomic_ullong jumped_ms;

#ifdef SLOW_CLOCK	/* in one file of the program */
atomic_ullong jumped_ms;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = (int) syscall(SYS_clock_gettime, clock, ts);

	if (clock == CLOCK_MONOTONIC) {
		unsigned long long ms = atomic_load(&jumped_ms);

		ts->tv_sec += (time_t) (ms / 1000);
		ts->tv_nsec += (long) (ms % 1000) * 1000000;
		ts->tv_sec += ts->tv_nsec / 1000000000;
		ts->tv_nsec %= 1000000000;
	}
	return ret;
}
#endif

static inline void jump(unsigned ms)
{
	atomic_fetch_add(&jumped_ms, ms);
}

/* -- a device that is slow ----------------------------------------------------- */

static sem_t begun, may_end;
static atomic_int slow_binds;	/* so many of the next ones wait for the test */

static inline int bind_slowly(struct tagrv_link *link, const void *blob, size_t len)
{
	if (atomic_load(&slow_binds) > 0) {
		atomic_fetch_sub(&slow_binds, 1);
		sem_post(&begun);
		sem_wait(&may_end);
	}
	return fake_bind(link, blob, len);
}

/* Its commands keep so many workers busy; 0: the wireup thread itself. */
static inline void open_slow_with(struct ep *ep, struct tagrv_wireup *wireup, int timeout,
				  unsigned workers)
{
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	tagrv_wireup_crew_limit(&wireup->crew, workers);
	open_ep(ep, wireup, timeout);
	ep->fake.ops.link_bind = bind_slowly;
}

static inline void open_slow(struct ep *ep, struct tagrv_wireup *wireup, int timeout)
{
	open_slow_with(ep, wireup, timeout, 0);
}

static inline void await_begin(void)
{
	while (sem_wait(&begun))
		;
}

/* The command has taken so long. */
static inline void end_bind(unsigned ms)
{
	jump(ms);
	sem_post(&may_end);
}

/* Sends the record, and waits until it has arrived, read or not. */
static inline void deliver(struct raw *raw)
{
	uint64_t end = now_ms() + PATIENCE;
	int left = 1;

	raw_send(raw);
	while (!ioctl(raw->fd, SIOCOUTQ, &left) && left && now_ms() < end)
		poll(NULL, 0, 1);
	cr_assert_eq(left, 0);
}

static inline void ask(struct raw *raw, uint16_t port)
{
	raw->mine.addr = loopback(port);
	deliver(raw);
}

static inline void await_rep(struct raw *raw)
{
	struct tagrv_wireup_rec rec;

	cr_assert_eq(raw_recv(raw, &rec), 1, "the socket was reset");
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
}

static inline void close_slow(struct ep *ep, struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_event event;

	while (tagrv_wireup_poll(ep->wep, &event))
		if (event.type == TAGRV_WIREUP_UP)
			fake_free(event.link);
	close_ep(ep);
	tagrv_wireup_destroy(wireup);
}

#endif
