/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whole endpoints over (fake) RDMA devices with fewer queue pairs than there are peers:
 * messages come in order and once, and nothing hangs.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_VERBS
#include <stdlib.h>
#include <string.h>

#include "unit/engine/ends_calls.h"

#define ENDS		33
#define POSTED		8
#define LARGE		20000

struct note {
	uint32_t from, nr;
};

static struct end ends[ENDS];
static fi_addr_t names[ENDS][ENDS];
static char in[ENDS][POSTED][LARGE], out[ENDS][LARGE];
static uint32_t sent[ENDS][ENDS], got[ENDS][ENDS];
static unsigned cnt, sends, receives, in_flight[ENDS];
static uint32_t seed;

static void start(void)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	tagrv_param_define();
	fake_verbs_start(&config);
	memset(sent, 0, sizeof(sent));
	memset(got, 0, sizeof(got));
	memset(in_flight, 0, sizeof(in_flight));
	sends = receives = 0;
	seed = 1;
}

static void stop(void)
{
	unsetenv("FI_TAGRV_MAX_QPS");
	fake_verbs_stop();
}

TestSuite(room, .init = start, .fini = stop, .timeout = 120);

static unsigned draw(unsigned below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static void post_any(unsigned i, char *buf)
{
	struct tagrv_recv_req req = recv_req(buf, LARGE, 0, buf);

	req.ignore = UINT64_MAX;
	tagrv_lock_acquire(&ends[i].dom->lock);
	cr_assert_eq(tagrv_rx_recv(ends[i].engine->rx, &req), 0);
	tagrv_lock_release(&ends[i].dom->lock);
}

/*
 * Caps: queue pairs of the first one, and of each of the others; "0": no cap. apart: each
 * has a device of its own.
 */
static void open_all(unsigned n, const char *hub_cap, const char *cap, bool apart)
{
	char device[] = "fake0";

	cnt = n;
	for (unsigned i = 0; i < cnt; i++) {
		setenv("FI_TAGRV_MAX_QPS", i ? cap : hub_cap, 1);
		device[4] = (char) ('0' + (apart ? i : 0));
		open_end_on(&ends[i], "verbs", device);
		for (unsigned k = 0; k < POSTED; k++)
			post_any(i, in[i][k]);
	}
	for (unsigned i = 0; i < cnt; i++)
		for (unsigned k = 0; k < cnt; k++)
			if (i != k)
				names[i][k] = know(&ends[i], &ends[k]);
}

static void close_all(void)
{
	for (unsigned i = 0; i < cnt; i++)
		close_end(&ends[i]);
}

static const struct tagrv_quota *quota_of(unsigned i)
{
	return ends[i].engine->rails.xports[0]->quotas[0];
}

static void take_message(unsigned i, char *buf)
{
	struct note note;

	memcpy(&note, buf, sizeof(note));
	cr_assert_lt(note.from, cnt);
	cr_assert_eq(note.nr, got[i][note.from], "%u to %u: message %u instead of %u",
		     note.from, i, note.nr, got[i][note.from]);
	got[i][note.from]++;
	receives++;
	post_any(i, buf);
}

static void reap(unsigned i)
{
	while (!tagrv_compq_empty(&ends[i].cq)) {
		struct tagrv_comp comp = *tagrv_compq_peek(&ends[i].cq);

		tagrv_compq_pop(&ends[i].cq, 1);
		cr_assert_eq(comp.err, 0, "%u: %s", i, fi_strerror((int) comp.err));
		if (comp.flags & FI_RECV)
			take_message(i, comp.context);
		else
			in_flight[i]--;
	}
}

static void move_end(unsigned i)
{
	progress(&ends[i]);
	reap(i);
	if (quota_of(i)->most)
		cr_assert_leq(quota_of(i)->used, quota_of(i)->most);
}

static void move(void)
{
	for (unsigned i = 0; i < cnt; i++)
		move_end(i);
}

/* One send at a time and end, whose buffer it owns. */
static bool send_to(unsigned i, unsigned to, size_t len)
{
	struct note note = { i, sent[i][to] };

	if (in_flight[i])
		return false;
	memcpy(out[i], &note, sizeof(note));
	in_flight[i]++;
	sent[i][to]++;
	sends++;
	submit(&ends[i], names[i][to], out[i], len, note.nr);
	return true;
}

static void settle(void)
{
	time_t limit = time(NULL) + PATIENCE_S;
	unsigned busy = 1;

	while (busy || receives < sends) {
		cr_assert_lt(time(NULL), limit, "%u of %u messages have come", receives,
			     sends);
		move();
		busy = 0;
		for (unsigned i = 0; i < cnt; i++)
			busy += in_flight[i];
	}
}

static void hop(const char *cap, unsigned n, bool apart, unsigned messages)
{
	time_t limit = time(NULL) + PATIENCE_S;
	uint64_t parted = 0;

	open_all(n, cap, cap, apart);
	while (sends < messages) {
		unsigned i = draw(n), to = (i + 1 + draw(n - 1)) % n;

		cr_assert_lt(time(NULL), limit, "%u of %u messages were sent", sends,
			     messages);
		send_to(i, to, draw(8) ? sizeof(struct note) + draw(64) : LARGE);
		/* Each end falls behind now and then. */
		for (unsigned k = 0; k < 3; k++)
			move_end(draw(n));
	}
	settle();
	for (unsigned i = 0; i < n; i++)
		parted += ends[i].engine->stats.parted;
	cr_assert_gt(parted, 0);
	cr_log_info("cap %s: %u messages, %llu ends of connections closed", cap, sends,
		    (unsigned long long) parted);
	close_all();
}

Test(room, messages_hop_over_two_queue_pairs)
{
	hop("2", 5, false, 100);
}

Test(room, messages_hop_over_four_queue_pairs)
{
	hop("4", 8, false, 300);
}

/* The device has fewer than it says; nobody has set a limit. */
Test(room, messages_hop_over_what_the_device_has)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	config.devices = 6;
	config.max_qp = 3;
	fake_verbs_stop();
	fake_verbs_start(&config);
	hop("0", 6, true, 150);
}

/* Few peers are active, many are reached now and then. */
Test(room, active_peers_stay_connected)
{
	unsigned active = 4;

	open_all(ENDS, "16", "0", false);
	for (unsigned k = 1; k < cnt; k++) {
		for (unsigned a = 1; a <= active; a++)
			for (unsigned i = 0; i < 2; i++) {
				send_to(a, 0, sizeof(struct note));
				settle();
			}
		send_to(0, k, sizeof(struct note));
		settle();
	}
	for (unsigned a = 1; a <= active; a++)
		cr_assert_eq(ends[a].engine->table.peers[0]->life, 1,
			     "an active peer was connected again");
	cr_assert_gt(ends[0].engine->stats.parted, 10);
	cr_assert_leq(quota_of(0)->used, 16);
	close_all();
}

#endif
