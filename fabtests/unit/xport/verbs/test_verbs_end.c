/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queue pairs of many links that end at once, on a device that destroys them slowly.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "unit/xport/verbs/verbs_fixture.h"

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

TestSuite(verbs_end, .init = verbs_prepare, .timeout = 30);

/* Destroys queue pairs slowly, and counts those that this thread had to destroy. */
static struct {
	struct tagrv_verbs_calls calls;
	int	(*destroy_qp)(struct ibv_qp *qp);
	pthread_t thread;
	unsigned here;
	atomic_uint all;
} slow;

static int destroy_slowly(struct ibv_qp *qp)
{
	usleep(5000);
	slow.here += pthread_equal(pthread_self(), slow.thread) != 0;
	slow.all++;
	return slow.destroy_qp(qp);
}

static void make_slow(struct end *end)
{
	struct verbs_xport *xp = verbs_xport_of(end->xport);

	memset(&slow, 0, sizeof(slow));
	slow.calls = *xp->calls;
	slow.destroy_qp = slow.calls.destroy_qp;
	slow.calls.destroy_qp = destroy_slowly;
	slow.thread = pthread_self();
	xp->calls = &slow.calls;
}

enum { STORM = 12 };

/* That many links of end a are made, and closed. */
static void begin_storm(void)
{
	struct tagrv_link *a[STORM], *b[STORM];

	for (unsigned i = 0; i < STORM; i++) {
		pair_link(&pair, &a[i], &b[i]);
		cr_assert_eq(ops->link_attach(a[i], NULL), 0);
	}
	for (unsigned i = 0; i < STORM; i++) {
		ops->link_close(a[i]);
		ops->link_discard(b[i]);
	}
}

/* Whoever is in a call of the endpoint, and all who wait for its lock, would wait for each. */
Test(verbs_end, a_storm_is_not_destroyed_under_the_lock)
{
	verbs_open();
	make_slow(pair.a);
	for (unsigned times = 1; times <= 2; times++) {
		begin_storm();
		PAIR_UNTIL(&pair, pair.a->closed == times * STORM);
		cr_assert_eq(slow.all, times * STORM);
		cr_assert_leq(slow.here, 2 * times);
	}
	cr_assert_eq(verbs_xport_of(pair.a->xport)->map.cnt, 0);
	pair_close(&pair);
}

/* The thread may be amid it. */
Test(verbs_end, xport_close_waits_for_a_storm)
{
	verbs_open();
	make_slow(pair.a);
	begin_storm();
	while (!slow.all)
		ops->progress(pair.a->xport);
	end_close(pair.a);
	cr_assert_eq(pair.a->closed, STORM);
	end_close(pair.b);
	cr_assert_eq(fake_verbs_count().objects, 0);
}
