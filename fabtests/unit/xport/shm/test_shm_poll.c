/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hot rings, bells and sleeping: the cost of idle links, and no lost wake-up.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/xport/pair.h"
#include "xport/shm/shm_priv.h"

static struct pair pair;
static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

static struct shm_xport *rx(void)
{
	return shm_xport_of(pair.b->xport);
}

/* ---- idle links ---- */

enum { LINKS = 128 };

static struct tagrv_link *from[LINKS], *to[LINKS];

static void open_links(void)
{
	pair_open(&pair, PAIR_SHM);
	pair.a->forget = pair.b->forget = true;
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &from[i], &to[i]);
		cr_assert_eq(ops->link_attach(from[i], &from[i]), 0);
		cr_assert_eq(ops->link_attach(to[i], &to[i]), 0);
	}
}

static void close_links(void)
{
	pair.a->link = pair.b->link = NULL;
	for (int i = 0; i < LINKS; i++) {
		ops->link_close(from[i]);
		ops->link_close(to[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	pair_close(&pair);
}

static void send_on(int i)
{
	size_t had = pair.b->packet_cnt;

	pair.a->link = from[i];
	pair_send(&pair, pair.a, 1, 40, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == had + 1);
}

/* Returns the rings polled per pass while only one link is in use. */
static double polls_per_pass(int active)
{
	uint64_t polls = rx()->polls, pass = rx()->pass;

	for (int i = 0; i < 2000; i++)
		send_on(active);
	return (double) (rx()->polls - polls) / (double) (rx()->pass - pass);
}

Test(shm_poll, idle_links_cost_nothing, .timeout = 60)
{
	open_links();
	/* Links never used: the first pass serves their bells. */
	pair_progress(&pair);
	send_on(0);
	cr_assert_leq(polls_per_pass(0), 1.01);
	for (int i = 0; i < LINKS; i++)
		send_on(i);
	cr_assert_eq(rx()->hot_cnt, SHM_HOT);
	cr_assert_leq(polls_per_pass(LINKS - 1), SHM_HOT + 2.01);
	for (int i = 0; i < SHM_HOT_IDLE; i++)
		pair_progress(&pair);
	send_on(LINKS - 1);
	cr_assert_geq(shm_link_of(to[LINKS - 1])->hot_at, 0,
		      "takes the place of an idle one");
	cr_assert_leq(polls_per_pass(LINKS - 1), SHM_HOT + 0.01);
	close_links();
}

/* Rings without packets are polled no more after a while, and again once there is one. */
Test(shm_poll, idle_links_go_cold, .timeout = 60)
{
	open_links();
	for (int i = 0; i < LINKS; i++)
		send_on(i);
	cr_assert_eq(rx()->hot_cnt, SHM_HOT);
	for (int i = 0; i < SHM_COOL + (SHM_HOT + 1) * SHM_RARE_PASSES; i++) {
		if (i % SHM_RARE_PASSES == 0)
			send_on(0);
		ops->progress(pair.b->xport);
	}
	cr_assert_eq(rx()->hot_cnt, SHM_HOT_KEEP);
	cr_assert_geq(shm_link_of(to[0])->hot_at, 0, "is in use");
	cr_assert_leq(polls_per_pass(0), SHM_HOT_KEEP + 0.01);
	for (int i = 0; i < LINKS; i++)
		send_on(i);
	cr_assert_eq(rx()->hot_cnt, SHM_HOT);
	close_links();
}

/* More links are in use than can be hot. */
Test(shm_poll, cold_rings_are_served, .timeout = 60)
{
	open_links();
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < LINKS; i++) {
			pair.a->link = from[i];
			pair_send(&pair, pair.a, 1, 300, NULL);
		}
		if (round % 7 == 0)
			pair_progress(&pair);
	}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 300 * LINKS);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	close_links();
}

/* ---- sleeping ---- */

/* ---- messages that have to be kept ---- */

static void keep(struct end *end, const void *data, size_t len)
{
	(void) data, (void) len;
	end->sink.kept++;
}

/* A pass leaves the rest of them where they are, and the next one goes on. */
Test(shm_poll, few_messages_of_a_pass_are_kept, .timeout = 20)
{
	enum { ALL = 3 * SHM_KEPT + 5 };
	size_t passes = 0;

	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	pair_send(&pair, pair.a, 1, 40, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair.b->on_packet = keep;
	for (int i = 0; i < ALL; i++)
		pair_send(&pair, pair.a, 1, 40, NULL);
	for (size_t had = 1; had < 1 + ALL; had = pair.b->packet_cnt) {
		ops->progress(pair.b->xport);
		cr_assert_leq(pair.b->packet_cnt - had, SHM_KEPT);
		cr_assert_lt(passes++, 100);
	}
	cr_assert_geq(passes, 4);
	/* Others are taken in larger portions. */
	pair.b->on_packet = NULL;
	for (int i = 0; i < SHM_BATCH; i++)
		pair_send(&pair, pair.a, 1, 40, NULL);
	ops->progress(pair.b->xport);
	cr_assert_eq(pair.b->packet_cnt, 1 + ALL + SHM_BATCH);
	pair_close(&pair);
}

Test(shm_poll, starved_sender_is_woken, .timeout = 20)
{
	unsigned sent = 0, had;
	int fd;

	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	fd = ops->wait_fd(pair.a->xport);
	for (int round = 0; round < 50; round++) {
		had = pair.a->rooms;
		while (!end_send(pair.a, sent, 2000, 0, NULL))
			sent++;
		end_settle(pair.a);
		cr_assert(!is_readable(fd, 0));
		cr_assert_eq(pair.a->rooms, had);
		if (round & 1)	/* the receiver slept, too */
			end_settle(pair.b);
		while (pair.b->packet_cnt < sent)
			ops->progress(pair.b->xport);
		ops->progress(pair.b->xport);
		cr_assert(is_readable(fd, 5000), "round %d", round);
		while (pair.a->rooms == had)
			ops->progress(pair.a->xport);
	}
	pair_close(&pair);
}

/* A consumed wake-up does not make the descriptor readable again. */
Test(shm_poll, wait_fd_is_emptied, .timeout = 20)
{
	int fd;

	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	fd = ops->wait_fd(pair.b->xport);
	end_settle(pair.b);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	cr_assert(is_readable(fd, 1000));
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 2);
	end_settle(pair.b);
	cr_assert(!is_readable(fd, 20));
	pair_close(&pair);
}

/*
 * Both sides have the file open that wakes a sleeper: whatever one does to it, the other
 * does not block, and still gets awake.
 */
Test(shm_poll, file_that_wakes_never_blocks, .timeout = 20)
{
	static char bytes[4096];
	int shared, fd;

	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	shared = shm_xport_of(pair.b->xport)->wake_fd;
	fd = ops->wait_fd(pair.b->xport);
	for (unsigned round = 0; round < 3; round++) {
		end_settle(pair.b);
		cr_assert_eq(fcntl(shared, F_SETFL, 0), 0, "blocking");
		/* full for the next one who writes */
		while (send(shared, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			continue;
		cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
		cr_assert(is_readable(fd, 1000));
		PAIR_UNTIL(&pair, pair.b->packet_cnt == round + 1);
		/* empty for the next one who reads */
		while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			continue;
		end_settle(pair.b);
		cr_assert(!is_readable(fd, 20));
	}
	cr_assert_eq(shutdown(shared, SHUT_RDWR), 0);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	cr_assert(is_readable(fd, 1000));
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 4);
	pair_close(&pair);
}

/* Work of another thread of this process wakes the sleeping one. */
Test(shm_poll, own_work_wakes, .timeout = 20)
{
	char buf[8] = "";
	struct tagrv_mem *mem;
	char key[TAGRV_KEY_MAX];
	size_t key_len;
	struct op op;
	int fd;

	pair_open(&pair, PAIR_SHM_CMA);
	pair_connect(&pair);
	fd = ops->wait_fd(pair.a->xport);
	cr_assert_eq(ops->mem_reg(pair.a->dev, buf, 8, true, &mem), 0);
	key_len = ops->mem_key(mem, key);
	for (int what = 0; what < 3; what++) {
		end_settle(pair.a);
		cr_assert_eq(ops->progress(pair.a->xport), 0);
		cr_assert(!is_readable(fd, 0));
		op_init(&op);
		if (what == 0)
			cr_assert_eq(end_send(pair.a, 1, 8, 0, &op), 0);
		else if (what == 1)
			cr_assert_eq(ops->get(pair.a->link, buf, mem,
					      (uintptr_t) buf, key, key_len, 8,
					      &op.done), 0);
		else
			ops->link_close(pair.a->link);
		cr_assert(is_readable(fd, 0), "case %d", what);
		PAIR_UNTIL(&pair, op.calls || pair.a->closed);
	}
	pair.a->link = NULL;
	ops->mem_dereg(mem);
	pair_close(&pair);
}

/*
 * Several threads may sleep on the descriptor. A thread that is awake and polls must
 * not consume the wake-up of the others.
 */
Test(shm_poll, no_thread_consumes_the_wakeup_of_others, .timeout = 20)
{
	char byte;
	uint32_t nr;
	int fd;

	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	fd = ops->wait_fd(pair.b->xport);
	end_settle(pair.b);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert(is_readable(fd, 0));
	cr_assert_eq(end_send(pair.a, 2, 8, 0, NULL), 0);
	cr_assert_eq(ops->arm(pair.b->xport), -FI_EAGAIN);
	cr_expect(is_readable(fd, 0), "emptied for nothing");
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 2);
	end_settle(pair.b);
	cr_assert(!is_readable(fd, 0));
	nr = atomic_load(&rx()->bell->armed);
	cr_assert_eq(end_send(pair.a, 3, 8, 0, NULL), 0);
	/* As before the sender has rung. */
	cr_assert_eq(read(fd, &byte, 1), 1);
	atomic_store(&rx()->bell->armed, nr);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 3);
	cr_expect(is_readable(fd, 0), "disarmed without a word");
	pair_close(&pair);
}

/* A peer that was killed or is slow while it wakes this process does not block other wake-ups. */
Test(shm_poll, half_a_wakeup_does_no_harm, .timeout = 20)
{
	struct shm_bell *bell;
	uint32_t nr;
	int fd;

	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	fd = ops->wait_fd(pair.b->xport);
	bell = rx()->bell;
	end_settle(pair.b);
	nr = atomic_load(&bell->armed);
	cr_assert_eq(write(rx()->wake_fd, "", 1), 1);	/* then it was killed */
	cr_assert_eq(ops->progress(pair.b->xport), 0);
	end_settle(pair.b);
	cr_assert(!is_readable(fd, 0));
	cr_assert(!atomic_compare_exchange_strong(&bell->armed, &nr, 0));
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	cr_assert(is_readable(fd, 1000));
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/*
 * Two threads sleep until a packet of the other one comes; each sends after a random
 * pause. A lost wake-up would stop both.
 */
enum { ROUNDS = 20000 };

struct sleeper {
	struct end *end;
	bool	first;
	unsigned lost;
};

static void nap(struct sleeper *s)
{
	if (!ops->arm(s->end->xport) &&
	    !is_readable(ops->wait_fd(s->end->xport), 3000))
		s->lost++;
	ops->progress(s->end->xport);
}

static void *play(void *arg)
{
	struct sleeper *s = arg;
	unsigned random = s->first ? 1 : 77;

	for (size_t i = 0; i < ROUNDS && !s->lost; i++) {
		if (s->first && end_send(s->end, 1, 8, 0, NULL))
			break;
		while (s->end->packet_cnt <= i && !s->lost)
			nap(s);
		random = random * 1103515245 + 12345;
		for (volatile unsigned spin = random >> 16 & 1023; spin; spin--)
			;
		if (!s->first && end_send(s->end, 1, 8, 0, NULL))
			break;
	}
	return NULL;
}

/* A thread for each end of a pair; it stays open. */
static void run_two(enum pair_kind kind, void *(*a)(void *), void *(*b)(void *))
{
	struct sleeper s[2];
	pthread_t threads[2];

	pair_open(&pair, kind);
	pair_connect(&pair);
	pair.a->forget = pair.b->forget = true;
	for (int i = 0; i < 2; i++) {
		s[i] = (struct sleeper) { &pair.ends[i], i == 0, 0 };
		pthread_create(&threads[i], NULL, i ? b : a, &s[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(s[0].lost + s[1].lost, 0, "wake-up lost");
	cr_assert_eq(pair.b->packet_cnt, ROUNDS);
}

static void run_sleepers(enum pair_kind kind)
{
	run_two(kind, play, play);
	cr_assert_eq(pair.a->packet_cnt, ROUNDS);
	pair_close(&pair);
}

Test(shm_poll, no_wakeup_is_lost_with_membarrier, .timeout = 120)
{
	run_sleepers(PAIR_SHM);
}

Test(shm_poll, no_wakeup_is_lost_with_fences, .timeout = 120)
{
	run_sleepers(PAIR_SHM_TINY);
}

/* The same for room: a flood to a receiver that sleeps whenever it can. */
static void *flood(void *arg)
{
	struct sleeper *s = arg;
	unsigned sent = 0;

	while (sent < ROUNDS && !s->lost)
		if (!end_send(s->end, 1, sent % 3000, 0, NULL))
			sent++;
		else
			nap(s);
	return NULL;
}

static void *drink(void *arg)
{
	struct sleeper *s = arg;

	while (s->end->packet_cnt < ROUNDS && !s->lost)
		nap(s);
	return NULL;
}

static void run_flood(enum pair_kind kind)
{
	run_two(kind, flood, drink);
	pair_close(&pair);
}

Test(shm_poll, no_room_is_lost_with_membarrier, .timeout = 120)
{
	run_flood(PAIR_SHM);
}

Test(shm_poll, no_room_is_lost_with_fences, .timeout = 120)
{
	run_flood(PAIR_SHM_TINY);
}

/* ---- looks ---- */

/* Where no pidfd tells: the end of the peer's process closes the socket that wakes it. */
Test(shm_poll, a_process_that_cannot_be_watched_is_looked_at, .timeout = 60)
{
	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	pair_send(&pair, pair.a, 2, 100, NULL);
	pair_send(&pair, pair.b, 3, 100, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1 && pair.a->packet_cnt == 1);
	shm_link_of(pair.a->link)->unwatched = true;
	ops->check(pair.a->link, true);
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	cr_assert_eq(pair.a->errors, 0, "it lives");
	pair_send(&pair, pair.b, 4, 100, NULL);
	cr_assert_eq(shutdown(rx()->wait_fd, SHUT_RDWR), 0);
	ops->check(pair.a->link, true);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_ECONNRESET);
	cr_assert_eq(pair.a->packet_cnt, 2, "its last packet is lost");
	pair_close(&pair);
}

/* What waits above the link, for an answer in a packet, is unknown to it. */
Test(shm_poll, a_peer_that_closed_is_noticed_by_a_look_if_it_is_awaited, .timeout = 60)
{
	pair_open(&pair, PAIR_SHM);
	pair_connect(&pair);
	pair_send(&pair, pair.a, 2, 100, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_send(&pair, pair.b, 3, 100, NULL);
	end_close_link(pair.b);
	ops->check(pair.a->link, false);
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	cr_assert_eq(pair.a->errors, 0);
	ops->check(pair.a->link, true);
	cr_assert_eq(pair.a->errors, 0, "a callback inside");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_ECONNRESET);
	cr_assert_eq(pair.a->packet_cnt, 1, "its last packet is lost");
	pair_close(&pair);
}
