/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of all kinds in both directions between two endpoints of this process, while
 * calls fail.
 *
 *   post receives -> send all -> some passes -> post the late receives
 *     -> every send whose receive was accepted ends, still without memory
 *     -> memory is there again: receives that were refused are posted again
 *     -> every send ends; receives whose messages were lost are cancelled, and end
 *
 * The loops wait for completions, as an application does. One that never comes is a
 * hang, which the process that waits for this one ends.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "scarce_run.h"

enum { LONGEST = 300000, PASSES = 200, QUIET_PASSES = 2000, QUIET_MS = 300, PARTS = 2 };

/* A kind of message. By FI_TAGRV_PROTO, its length decides by which protocol it goes. */
struct kind {
	const char *name;
	size_t len;
	bool untagged, inject, data, vector, late;
	uint64_t flags;
};

static const struct kind kinds[] = {
	{ .name = "eager", .len = 64 },
	{ .name = "inject", .len = 32, .inject = true },
	{ .name = "data", .len = 100, .data = true },
	{ .name = "delivered", .len = 64, .flags = FI_DELIVERY_COMPLETE },
	{ .name = "matched", .len = 64, .flags = FI_MATCH_COMPLETE },
	{ .name = "long eager", .len = 8000 },
	{ .name = "get", .len = 20000 },
	{ .name = "put", .len = 60000 },
	{ .name = "copy", .len = 120000 },
	{ .name = "pipeline", .len = LONGEST },
	{ .name = "vector", .len = 500, .vector = true },
	{ .name = "get of a vector", .len = 30000, .vector = true },
	{ .name = "late eager", .len = 700, .late = true },
	{ .name = "late inject", .len = 300, .inject = true, .late = true },
	{ .name = "late get", .len = 20000, .late = true },
	{ .name = "late copy", .len = 110000, .late = true },
	{ .name = "multi eager", .len = 100, .untagged = true },
	{ .name = "multi inject", .len = 50, .untagged = true, .inject = true },
	{ .name = "multi get", .len = 20000, .untagged = true },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MULTI_ROOM = 60000 };

struct op {
	struct fi_context2 context;	/* first, so that it leads to the op */
	const char *name;
	bool	multi;		/* a buffer for several messages */
	bool	accepted;
	bool	ended;
	int	err;
	size_t	len;		/* that was received */
	unsigned messages;	/* in a buffer for several, lost ones included */
};

static struct op out[2][KINDS];		/* by the side that sends */
static struct op in[2][KINDS + 1];	/* by the side that receives; last: for several */
static uint8_t from[2][KINDS][LONGEST], to[2][KINDS][LONGEST];
static uint8_t multi[2][MULTI_ROOM];
static struct side *sides[2];
static bool tries_again, nothing_fails;
static unsigned round_number, errors;
static uint64_t moves;			/* completions so far */

/* ---- completions ---- */

static void end(struct op *op, uint64_t flags, size_t len, int err)
{
	bool ends = !op->multi || flags & FI_MULTI_RECV;

	moves++;
	if (!op->accepted)
		run_fails("%s completes, but was refused", op->name);
	if (op->ended)
		run_fails("%s completes twice", op->name);
	if (err) {
		run_count("completion", err);
		errors += err != FI_ECANCELED;
		if (nothing_fails && err != FI_ECANCELED)
			run_fails("%s fails with memory: %s", op->name, fi_strerror(err));
	}
	if (op->multi && (len || (err && !ends)))
		op->messages++;
	if (!ends)
		return;
	op->ended = true;
	op->err = err;
	op->len = len;
}

static void read_error(struct fid_cq *cq)
{
	struct fi_cq_err_entry entry = { 0 };
	ssize_t ret = fi_cq_readerr(cq, &entry, 0);

	if (ret == 1)
		end(entry.op_context, entry.flags, 0, entry.err);
	else if (ret != -FI_EAGAIN)
		run_fails("fi_cq_readerr: %s", fi_strerror((int)-ret));
}

static void read_queue(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry[8];
	ssize_t ret = fi_cq_read(cq, entry, 8);

	for (ssize_t i = 0; i < ret; i++)
		end(entry[i].op_context, entry[i].flags, entry[i].len, 0);
	if (ret == -FI_EAVAIL)
		read_error(cq);
	else if (ret < 0 && ret != -FI_EAGAIN)
		run_fails("fi_cq_read: %s", fi_strerror((int)-ret));
}

static void pass(void)
{
	for (int s = 0; s < 2; s++)
		for (int q = 0; q < 2; q++)
			read_queue(sides[s]->cq[q]);
}

/* ---- posting ---- */

struct vector {
	struct iovec part[PARTS];
	size_t cnt;
};

static struct vector vector_of(const struct kind *kind, uint8_t *buf)
{
	size_t half = kind->vector ? kind->len / 3 : kind->len;

	return (struct vector){
		.part = { { buf, half }, { buf + half, kind->len - half } },
		.cnt = kind->vector ? 2 : 1,
	};
}

static uint64_t tag_of(size_t k)
{
	return round_number * 1000 + k;
}

static ssize_t send_tagged(int s, size_t k, struct op *op, struct vector *v)
{
	const struct kind *kind = &kinds[k];
	struct fi_msg_tagged msg = {
		.msg_iov = v->part, .iov_count = v->cnt, .addr = sides[s]->peer, .tag = tag_of(k),
		.context = op, .data = k,
	};

	if (kind->inject)
		return fi_tinject(sides[s]->ep, from[s][k], kind->len, sides[s]->peer, tag_of(k));
	return fi_tsendmsg(sides[s]->ep, &msg,
			   FI_COMPLETION | kind->flags | (kind->data ? FI_REMOTE_CQ_DATA : 0));
}

static ssize_t try_send(int s, size_t k)
{
	struct vector v = vector_of(&kinds[k], from[s][k]);

	if (!kinds[k].untagged)
		return send_tagged(s, k, &out[s][k], &v);
	if (kinds[k].inject)
		return fi_inject(sides[s]->ep, from[s][k], kinds[k].len, sides[s]->peer);
	return fi_send(sides[s]->ep, from[s][k], kinds[k].len, NULL, sides[s]->peer, &out[s][k]);
}

static ssize_t try_recv(int s, size_t k)
{
	struct vector v = vector_of(&kinds[k], to[s][k]);
	/* Half of them take a message of any source. */
	fi_addr_t src = k & 1 ? sides[s]->peer : FI_ADDR_UNSPEC;

	return fi_trecvv(sides[s]->ep, v.part, NULL, v.cnt, src, tag_of(k), 0, &in[s][k]);
}

static ssize_t try_multi(int s, size_t k)
{
	struct iovec part = { multi[s], MULTI_ROOM };
	struct fi_msg msg = {
		.msg_iov = &part, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &in[s][k],
	};

	return fi_recvmsg(sides[s]->ep, &msg, FI_MULTI_RECV | FI_COMPLETION);
}

/* -FI_EAGAIN: the call is repeated after a pass. Another error has changed nothing. */
static ssize_t insist(ssize_t (*call)(int s, size_t k), int s, size_t k)
{
	ssize_t ret;

	while ((ret = call(s, k)) == -FI_EAGAIN)
		pass();
	return ret;
}

static void post(const char *what, ssize_t (*call)(int s, size_t k), int s, size_t k, struct op *op)
{
	ssize_t ret;

	run_step("%s of side %d, %s", what, s, op->name);
	/* It may complete within the call of another thread's progress. */
	op->accepted = true;
	ret = insist(call, s, k);
	if (ret) {
		run_count(what, (int)-ret);
		errors++;
		if (nothing_fails)
			run_fails("%s of '%s' fails with memory: %s", what, op->name, fi_strerror((int)-ret));
		if (tries_again)
			ret = insist(call, s, k);
		if (ret && tries_again)
			run_fails("%s of '%s' fails again: %s", what, op->name, fi_strerror((int)-ret));
	}
	op->accepted = !ret;
}

static void post_send(int s, size_t k)
{
	struct op *op = &out[s][k];

	memset(op, 0, sizeof(*op));
	op->name = kinds[k].name;
	for (size_t i = 0; i < kinds[k].len; i++)
		from[s][k][i] = (uint8_t)(i * 7 + k + round_number + (size_t)s * 31);
	post("send", try_send, s, k, op);
	sides[s]->counted[0] += op->accepted;
	op->ended = op->accepted && kinds[k].inject;
}

static void post_recv(int s, size_t k)
{
	struct op *op = &in[s][k];

	if (k < KINDS && kinds[k].untagged)
		return;
	memset(op, 0, sizeof(*op));
	op->multi = k == KINDS;
	op->name = op->multi ? "a buffer for several" : kinds[k].name;
	if (!op->multi)
		memset(to[s][k], 0, kinds[k].len);
	post("receive", op->multi ? try_multi : try_recv, s, k, op);
}

static void post_receives(bool late)
{
	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k <= KINDS; k++)
			if (late == (k < KINDS && kinds[k].late))
				post_recv(s, k);
}

/* ---- waiting ---- */

/* The receive that a message goes to. */
static struct op *receive_of(int s, size_t k)
{
	return &in[1 - s][kinds[k].untagged ? KINDS : k];
}

static void wait_for_sends(const char *when)
{
	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k < KINDS; k++) {
			run_step("send of side %d, %s: waits %s", s, kinds[k].name, when);
			while (out[s][k].accepted && !out[s][k].ended && receive_of(s, k)->accepted)
				pass();
		}
}

/* Without memory a receive may be refused. The message may be at its sender, and waits for one. */
static void post_refused(void)
{
	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k <= KINDS; k++)
			if (!in[s][k].accepted)
				post_recv(s, k);
}

static unsigned messages_left(void)
{
	unsigned left = 0, several[2] = { 0, 0 };

	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k < KINDS; k++) {
			const struct op *op = &out[s][k];

			if (!op->accepted || op->err)
				continue;
			if (kinds[k].untagged)
				several[1 - s]++;
			else
				left += !in[1 - s][k].ended;
		}
	for (int s = 0; s < 2; s++)
		if (several[s] > in[s][KINDS].messages)
			left += several[s] - in[s][KINDS].messages;
	return left;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * Messages whose sends succeeded arrive. Those that were eager, and whose connection
 * ended, were lost without a word: nothing says when to stop waiting for them.
 */
static void wait_for_messages(void)
{
	uint64_t seen = moves;
	int64_t since = now_ms();

	run_step("messages arrive");
	for (unsigned quiet = 0; messages_left(); quiet++) {
		pass();
		if (moves != seen) {
			seen = moves;
			quiet = 0;
			since = now_ms();
		}
		if (!nothing_fails && quiet > QUIET_PASSES && now_ms() - since > QUIET_MS)
			break;
	}
	result->lost += messages_left();
}

static void cancel_rest(void)
{
	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k <= KINDS; k++) {
			struct op *op = &in[s][k];

			if (!op->accepted || op->ended)
				continue;
			run_step("cancel of side %d, %s", s, op->name);
			(void)fi_cancel(&sides[s]->ep->fid, op);
			while (!op->ended)
				pass();
		}
}

static void check_bytes(void)
{
	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k < KINDS; k++) {
			const struct op *op = &in[1 - s][k];

			if (kinds[k].untagged || !op->accepted || op->err)
				continue;
			if (op->len != kinds[k].len || memcmp(to[1 - s][k], from[s][k], op->len) != 0)
				run_fails("%s: wrong bytes, or %zu of %zu", op->name, op->len, kinds[k].len);
		}
}

static void check_counters(void)
{
	for (int s = 0; s < 2; s++) {
		run_step("the counter of side %d", s);
		for (;;) {
			uint64_t cnt = fi_cntr_read(sides[s]->cntr[0]) + fi_cntr_readerr(sides[s]->cntr[0]);

			if (cnt == sides[s]->counted[0])
				break;
			if (cnt > sides[s]->counted[0])
				run_fails("%lu sends were accepted, but %lu counted", (unsigned long)sides[s]->counted[0],
					  (unsigned long)cnt);
			pass();
		}
	}
}

unsigned traffic(struct side *a, struct side *b, bool again, bool strict)
{
	sides[0] = a;
	sides[1] = b;
	tries_again = again;
	nothing_fails = strict;
	errors = 0;
	round_number++;
	post_receives(false);
	for (int s = 0; s < 2; s++)
		for (size_t k = 0; k < KINDS; k++)
			post_send(s, k);
	for (int i = 0; i < PASSES; i++)
		pass();
	post_receives(true);
	wait_for_sends("without memory");
	scarce_disarm();
	post_refused();
	wait_for_sends("with memory");
	wait_for_messages();
	cancel_rest();
	check_bytes();
	check_counters();
	return errors;
}
