/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One of the two processes of tagrv_faults. It sends the messages of the session's plan
 * and always has receives of each class. What completes is compared with the message's
 * own number and recorded; the controller judges the records.
 */
#include "faults.h"
#include "framework/pattern.h"
#include "numbered.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT = 24, IN_EXACT = 6, IN_ANY = 6, IN = CLASSES * IN_EXACT + IN_ANY };
enum { ANY_TAG = -1, BURST = 8 };

struct op {
	struct fi_context2 ctx;
	bool busy, withdrawn;
	uint8_t *buf;
	size_t room;
	/* of a send */
	struct stream *stream;
	uint32_t number;
	bool delivered;		/* success means that the receiver has it */
	/* of a receive */
	int class;		/* or ANY_TAG: of any tag */
	bool directed;
	uint32_t post;		/* counts receives */
};

/* A message that is sent next, until the provider takes it. */
struct message {
	bool ready;
	int class;
	uint32_t number;
	uint64_t id, flags;
	size_t len;
	bool inject, data;
};

struct me {
	int rank, peer;
	struct end end;
	struct side *own;
	struct session *session;
	uint32_t number;		/* of the session */
	uint32_t peer_life;
	uint64_t plan, mood;		/* random: of messages; of everything else */
	unsigned lazy;			/* turns without receives */
	int dumped;
	uint32_t posts;
	struct message next;
	struct op out[OUT], in[IN];
};

static uint64_t make_id(uint32_t session, int sender, int class, uint32_t number)
{
	return (uint64_t)session << 32 | (uint64_t)sender << 31 | (uint64_t)class << 28 | number;
}

/* ---- sends ---- */

static size_t draw_len(uint64_t *random)
{
	uint64_t r = pattern_next(random) % 10000;
	size_t most = r < 9000 ? 256 : r < 9700 ? 8192 : r < 9940 ? 65536 : r < 9994 ? 262144 :
		      LEN_MAX;

	return pattern_next(random) % (most + 1);
}

static void draw_message(struct me *m)
{
	static const uint64_t levels[] = { FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
					   FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE };
	struct message *n = &m->next;
	uint64_t r = pattern_next(&m->plan);

	*n = (struct message){ .class = r % CLASSES, .len = draw_len(&m->plan) };
	n->number = atomic_load(&m->session->stream[m->rank][n->class].sent);
	if (n->number == STREAM_MAX) {
		atomic_store(&m->own->full, true);
		return;
	}
	n->ready = true;
	n->id = make_id(m->number, m->rank, n->class, n->number);
	n->data = n->len < NUMBERED_HEAD || (r >> 8 & 7) == 0;
	n->inject = (r >> 11 & 3) == 0 && n->len <= m->end.info->tx_attr->inject_size;
	if (r >> 13 & 1)
		n->flags = levels[r >> 16 & 3];
}

static void fill(struct op *op, const struct message *n)
{
	if (n->len > op->room) {
		free(op->buf);
		op->buf = malloc(n->len);
		MUST(op->buf, "no memory");
		op->room = n->len;
	}
	numbered_fill(op->buf, n->len, n->id);
}

static ssize_t inject(struct me *m, struct op *op, const struct message *n)
{
	struct fid_ep *ep = m->end.ep;

	if (n->class == UNTAGGED)
		return n->data ? fi_injectdata(ep, op->buf, n->len, n->id, m->end.peer) :
				 fi_inject(ep, op->buf, n->len, m->end.peer);
	return n->data ? fi_tinjectdata(ep, op->buf, n->len, n->id, m->end.peer, n->class) :
			 fi_tinject(ep, op->buf, n->len, m->end.peer, n->class);
}

static ssize_t send_level(struct me *m, struct op *op, const struct message *n)
{
	uint64_t flags = FI_COMPLETION | n->flags | (n->data ? FI_REMOTE_CQ_DATA : 0);
	struct iovec iov = { op->buf, n->len };
	struct fi_msg_tagged tagged = { .msg_iov = &iov, .iov_count = 1, .addr = m->end.peer,
					.tag = n->class, .data = n->id, .context = &op->ctx };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = m->end.peer,
			      .data = n->id, .context = &op->ctx };

	return n->class == UNTAGGED ? fi_sendmsg(m->end.ep, &msg, flags) :
				      fi_tsendmsg(m->end.ep, &tagged, flags);
}

static ssize_t send_plain(struct me *m, struct op *op, const struct message *n)
{
	struct fid_ep *ep = m->end.ep;
	fi_addr_t to = m->end.peer;

	if (n->class == UNTAGGED)
		return n->data ? fi_senddata(ep, op->buf, n->len, NULL, n->id, to, &op->ctx) :
				 fi_send(ep, op->buf, n->len, NULL, to, &op->ctx);
	return n->data ?
	       fi_tsenddata(ep, op->buf, n->len, NULL, n->id, to, n->class, &op->ctx) :
	       fi_tsend(ep, op->buf, n->len, NULL, to, n->class, &op->ctx);
}

/* The record says "posted" before the call: it can be received before the call returns. */
static bool try_send(struct me *m, struct op *op)
{
	struct message *n = &m->next;
	struct stream *s = &m->session->stream[m->rank][n->class];
	ssize_t ret;

	atomic_store(&s->state[n->number], SENT_POSTED);
	ret = n->inject ? inject(m, op, n) : n->flags ? send_level(m, op, n) :
						       send_plain(m, op, n);
	MUST(!ret || ret == -FI_EAGAIN, "a send is refused: %s", fi_strerror((int)-ret));
	if (ret) {
		atomic_store(&s->state[n->number], SENT_NOT);
		return false;
	}
	n->ready = false;
	op->stream = s;
	op->number = n->number;
	op->delivered = n->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
	op->busy = !n->inject;
	if (n->inject)
		atomic_store(&s->state[n->number], SENT_OK);
	atomic_store(&s->sent, n->number + 1);
	return true;
}

static struct op *find_free(struct op *op, int n)
{
	for (int i = 0; i < n; i++)
		if (!op[i].busy)
			return &op[i];
	return NULL;
}

static void send_some(struct me *m)
{
	for (int i = 0; i < BURST; i++) {
		struct op *op = find_free(m->out, OUT);

		/* A send to a dead peer, after the error that says so, waits for long. */
		if (!op || atomic_load(&board->drain) == m->number ||
		    atomic_load(&board->life[m->peer]) != m->peer_life)
			return;
		if (!m->next.ready) {
			draw_message(m);
			if (!m->next.ready)
				return;
		}
		fill(op, &m->next);
		if (!try_send(m, op))
			return;
	}
}

static unsigned busy(const struct op *op, int n)
{
	unsigned cnt = 0;

	for (int i = 0; i < n; i++)
		cnt += op[i].busy;
	return cnt;
}

/* ---- receives ---- */

static void post_receive(struct me *m, struct op *op, int class)
{
	fi_addr_t from = FI_ADDR_UNSPEC;
	ssize_t ret;

	op->class = class;
	op->directed = m->end.peer != FI_ADDR_NOTAVAIL && pattern_next(&m->mood) & 1;
	if (op->directed)
		from = m->end.peer;
	if (class == UNTAGGED)
		ret = fi_recv(m->end.ep, op->buf, LEN_MAX, NULL, from, &op->ctx);
	else
		ret = fi_trecv(m->end.ep, op->buf, LEN_MAX, NULL, from,
			       class == ANY_TAG ? 0 : (uint64_t)class,
			       class == ANY_TAG ? UINT64_MAX : 0, &op->ctx);
	MUST(!ret || ret == -FI_EAGAIN, "a receive is refused: %s", fi_strerror((int)-ret));
	op->busy = !ret;
	op->withdrawn = false;
	op->post = ++m->posts;
}

/* Slots belong to classes, so that each class always has receives. */
static void post_receives(struct me *m)
{
	for (int i = 0; i < IN; i++)
		if (!m->in[i].busy)
			post_receive(m, &m->in[i], i < IN_ANY ? ANY_TAG : i % CLASSES);
}

/* Judges a message by its own number, which it writes to *id. */
static bool is_right(struct me *m, const struct op *op, const struct fi_cq_tagged_entry *c,
		     uint64_t *id)
{
	*id = c->data;
	if (c->len >= NUMBERED_HEAD ? !numbered_check(op->buf, c->len, id) :
				      !(c->flags & FI_REMOTE_CQ_DATA))
		return false;
	if (c->flags & FI_REMOTE_CQ_DATA && c->data != *id)
		return false;
	if ((int)(*id >> 31 & 1) != m->peer || (*id & 0xfffffff) >= STREAM_MAX)
		return false;
	return op->class == UNTAGGED ? (*id >> 28 & 7) == UNTAGGED :
	       (*id >> 28 & 7) == c->tag && c->tag < UNTAGGED &&
	       (op->class == ANY_TAG || c->tag == (uint64_t)op->class);
}

static void take_message(struct me *m, struct op *op, const struct fi_cq_tagged_entry *c)
{
	struct session *session;
	struct stream *s;
	uint64_t id = 0;

	if (!is_right(m, op, c, &id)) {
		fprintf(stderr, "side %d: a message of %zu bytes, tag %" PRIu64 ", data 0x%" PRIx64
			", number 0x%" PRIx64 ", is not what was sent\n", m->rank, c->len, c->tag,
			c->data, id);
		atomic_fetch_add(&m->own->wrong, 1);
		return;
	}
	session = session_at((uint32_t)(id >> 32));
	if (atomic_load(&session->number) != id >> 32) {
		atomic_fetch_add(&m->own->stale, 1);
		return;
	}
	s = &session->stream[m->peer][id >> 28 & 7];
	if (atomic_exchange(&s->got[id & 0xfffffff], op->post)) {
		fprintf(stderr, "side %d: message 0x%" PRIx64 " came twice\n", m->rank, id);
		atomic_fetch_add(&m->own->doubled, 1);
		return;
	}
	atomic_fetch_add(&s->received, 1);
	atomic_fetch_add(&m->own->received, 1);
	atomic_fetch_add(&m->own->bytes, c->len);
}

/* ---- completions ---- */

static int code_index(int err)
{
	for (int i = 0; i < CODES && fault_codes[i]; i++)
		if (err == fault_codes[i])
			return i;
	return CODES;
}

static void take_error(struct me *m, struct op *op, bool out, int err)
{
	if (op->withdrawn && err == FI_ECANCELED)
		return;
	if (code_index(err) == CODES)
		fprintf(stderr, "side %d: a %s ends with %s\n", m->rank, out ? "send" : "receive",
			fi_strerror(err));
	atomic_fetch_add(out ? &m->own->failed_out[code_index(err)] :
			       &m->own->failed_in[code_index(err)], 1);
	if (out)
		atomic_store(&op->stream->state[op->number], SENT_FAILED);
}

static void take(struct me *m, const struct fi_cq_tagged_entry *c, int err)
{
	struct op *op = c->op_context;
	bool out = op >= m->out && op < m->out + OUT;

	MUST(out || (op >= m->in && op < m->in + IN), "a completion of no operation: %p, err %d",
	     (void *)op, err);
	MUST(op->busy, "a %s ends twice", out ? "send" : "receive");
	op->busy = false;
	atomic_fetch_add(&m->own->moved, 1);
	if (err)
		take_error(m, op, out, err);
	else if (out)
		atomic_store(&op->stream->state[op->number],
			     op->delivered ? SENT_DELIVERED : SENT_OK);
	else
		take_message(m, op, c);
}

static bool poll_once(struct me *m)
{
	struct fi_cq_tagged_entry c[8];
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret = fi_cq_read(m->end.cq, c, 8);

	if (ret == -FI_EAGAIN)
		return false;
	if (ret == -FI_EAVAIL) {
		ret = fi_cq_readerr(m->end.cq, &error, 0);
		MUST(ret == 1, "fi_cq_readerr: %zd", ret);
		c[0].op_context = error.op_context;
		take(m, c, error.err);
		return true;
	}
	MUST(ret > 0, "fi_cq_read: %zd", ret);
	for (ssize_t i = 0; i < ret; i++)
		take(m, &c[i], 0);
	return true;
}

static void dump(struct me *m)
{
	m->dumped = atomic_load(&board->dump);
	fprintf(stderr, "side %d: session %u, sends %u, receives %u, next message %s\n", m->rank,
		m->number, busy(m->out, OUT), busy(m->in, IN), m->next.ready ? "not taken" : "none");
	end_dump(&m->end, STDERR_FILENO);
}

static void poll_all(struct me *m)
{
	bool any = false;

	while (poll_once(m))
		any = true;
	if (!any)
		sched_yield();
	if (atomic_load(&board->dump) != m->dumped)
		dump(m);
	if (getppid() == 1)
		_exit(1);
}

/* ---- sessions ---- */

static void withdraw_receives(struct me *m)
{
	for (int i = 0; i < IN; i++)
		if (m->in[i].busy)
			m->in[i].withdrawn = !fi_cancel(&m->end.ep->fid, &m->in[i].ctx);
	while (busy(m->in, IN))
		poll_all(m);
}

static void meet_peer(struct me *m, uint32_t life)
{
	const struct side *peer = &board->side[m->peer];

	while (atomic_load(&peer->opened) != life) {
		poll_all(m);
		life = atomic_load(&board->life[m->peer]);
	}
	end_set_peer(&m->end, peer->name);
	m->peer_life = life;
}

/* The sends of the session before end by themselves. */
static void enter_session(struct me *m, uint32_t number)
{
	uint32_t life = atomic_load(&board->life[m->peer]);

	while (busy(m->out, OUT)) {
		post_receives(m);
		poll_all(m);
	}
	if (life != m->peer_life) {
		withdraw_receives(m);
		meet_peer(m, life);
	}
	m->number = number;
	m->session = session_at(number);
	m->next.ready = false;
	m->plan = settings.seed * 1000003 + number * 2 + (uint64_t)m->rank;
	atomic_store(&m->own->full, false);
}

/* A receiver that is away for some turns finds messages that have come before its receives. */
static void turn(struct me *m)
{
	uint64_t r = pattern_next(&m->mood);

	if (m->lazy)
		m->lazy--;
	else if (r % 512 == 0)
		m->lazy = (unsigned)(r >> 16) % 64;
	if (!m->lazy)
		post_receives(m);
	if (atomic_load(&board->drain) != m->number)
		send_some(m);
	else if (!busy(m->out, OUT))
		atomic_store(&m->own->quiet, m->number);
	poll_all(m);
}

static void open_end(struct me *m, int rank)
{
	const struct end_attr attr = {
		.address = settings.address[rank], .cq_data_size = sizeof(uint64_t),
	};

	if (settings.device[rank])
		setenv("FI_TAGRV_DEVICES", settings.device[rank], 1);
	end_open(&m->end, &attr, m->own->name, &m->own->len);
}

static void open_side(struct me *m, int rank, uint32_t life)
{
	m->rank = rank;
	m->peer = !rank;
	m->own = &board->side[rank];
	m->mood = settings.seed + 77 * life + (uint64_t)rank;
	open_end(m, rank);
	for (int i = 0; i < IN; i++) {
		m->in[i].buf = malloc(LEN_MAX);
		MUST(m->in[i].buf, "no memory");
	}
	for (int i = 0; i < OUT; i++) {
		m->out[i].room = 8192;
		m->out[i].buf = malloc(m->out[i].room);
		MUST(m->out[i].buf, "no memory");
	}
	atomic_store(&m->own->opened, life);
}

void side_run(int rank, uint32_t life)
{
	struct me *m = calloc(1, sizeof(*m));

	MUST(m, "no memory");
	open_side(m, rank, life);
	while (!atomic_load(&board->over)) {
		uint32_t current = atomic_load(&board->current);

		if (current != m->number)
			enter_session(m, current);
		turn(m);
	}
	withdraw_receives(m);
	end_close(&m->end);
	_exit(0);
}
