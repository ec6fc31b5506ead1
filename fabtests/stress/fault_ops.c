/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random operations of one process. Messages carry their number, by which their length
 * and content are judged. Every accepted operation must end once, with a code that the
 * manual page has for what happened.
 */
#include "fault.h"
#include "framework/pattern.h"
#include "numbered.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEN_MAX = 300000, TAGS = 3 };

const int op_codes[OP_CODES] = {
	FI_ECONNRESET, FI_ECONNREFUSED, FI_EHOSTUNREACH, FI_ETIMEDOUT,
};

static const char *const kind_names[OP_KINDS] = {
	"send", "send with a level", "untagged send", "receive", "directed receive",
	"untagged receive",
};

void ops_open(struct ops *o, struct end *end, uint64_t seed)
{
	memset(o, 0, sizeof(*o));
	o->end = end;
	o->random = seed;
	for (int i = 0; i < OPS_OUT; i++)
		o->out[i].buf = malloc(LEN_MAX);
	for (int i = 0; i < OPS_IN; i++)
		o->in[i].buf = malloc(LEN_MAX);
	MUST(o->in[OPS_IN - 1].buf, "no memory");
}

void ops_close(struct ops *o)
{
	for (int i = 0; i < OPS_OUT; i++)
		free(o->out[i].buf);
	for (int i = 0; i < OPS_IN; i++)
		free(o->in[i].buf);
}

static uint64_t choose(struct ops *o, uint64_t n)
{
	return pattern_next(&o->random) % n;
}

/* ---- messages ---- */

static size_t choose_len(struct ops *o)
{
	static const size_t most[] = { 1, 64, 200, 8192, 20000, LEN_MAX };

	return choose(o, most[choose(o, sizeof(most) / sizeof(most[0]))]);
}

static void judge(const struct op *op, size_t len)
{
	uint64_t number;

	if (len < NUMBERED_HEAD)
		return;
	MUST(numbered_check(op->buf, len, &number),
	     "message %" PRIu64 " of %zu bytes has another length or content than it was sent with",
	     number, len);
}

/* ---- posting ---- */

static ssize_t post_level(struct ops *o, struct op *op)
{
	static const uint64_t levels[] = { FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
					   FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE };
	struct iovec iov = { op->buf, op->len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = o->end->peer, .tag = op->tag,
		.context = &op->ctx,
	};

	return fi_tsendmsg(o->end->ep, &msg, FI_COMPLETION | levels[choose(o, 4)]);
}

static ssize_t post(struct ops *o, struct op *op)
{
	struct fid_ep *ep = o->end->ep;
	fi_addr_t peer = o->end->peer;

	switch (op->kind) {
	case OP_SEND:
		return fi_tsend(ep, op->buf, op->len, NULL, peer, op->tag, &op->ctx);
	case OP_LEVEL:
		return post_level(o, op);
	case OP_UNTAGGED:
		return fi_send(ep, op->buf, op->len, NULL, peer, &op->ctx);
	case OP_RECV:
		return fi_trecv(ep, op->buf, LEN_MAX, NULL, FI_ADDR_UNSPEC, op->tag,
				op->tag == TAGS ? UINT64_MAX : 0, &op->ctx);
	case OP_RECV_FROM:
		return fi_trecv(ep, op->buf, LEN_MAX, NULL, peer, op->tag,
				op->tag == TAGS ? UINT64_MAX : 0, &op->ctx);
	default:
		return fi_recv(ep, op->buf, LEN_MAX, NULL,
			       op->tag == TAGS ? FI_ADDR_UNSPEC : peer, &op->ctx);
	}
}

/* Refused for now: nothing has happened. */
static void try_post(struct ops *o, struct op *op)
{
	ssize_t ret = post(o, op);

	MUST(!ret || ret == -FI_EAGAIN, "%s refused: %s", kind_names[op->kind],
	     fi_strerror((int)-ret));
	if (ret)
		return;
	op->busy = true;
	op->withdrawn = false;
	o->counts.posted++;
}

static struct op *find_free(struct op *op, int n)
{
	for (int i = 0; i < n; i++)
		if (!op[i].busy)
			return &op[i];
	return NULL;
}

/* An inject has no completion. */
static void inject(struct ops *o, struct op *op)
{
	ssize_t ret;

	op->len = choose(o, 200);
	numbered_fill(op->buf, op->len, o->seq++);
	ret = fi_tinject(o->end->ep, op->buf, op->len, o->end->peer, op->tag);
	MUST(!ret || ret == -FI_EAGAIN, "fi_tinject refused: %s", fi_strerror((int)-ret));
	o->counts.injected += !ret;
}

static void post_send(struct ops *o)
{
	struct op *op = find_free(o->out, OPS_OUT);

	if (!op)
		return;
	op->tag = choose(o, TAGS);
	op->kind = (enum op_kind)choose(o, OP_RECV + 1);
	if (op->kind == OP_RECV) {
		inject(o, op);
		return;
	}
	op->len = choose_len(o);
	numbered_fill(op->buf, op->len, o->seq++);
	try_post(o, op);
}

static void post_receive(struct ops *o)
{
	struct op *op = find_free(o->in, OPS_IN);

	if (!op)
		return;
	op->kind = OP_RECV + (enum op_kind)choose(o, OP_KINDS - OP_RECV);
	op->tag = choose(o, TAGS + 1);
	try_post(o, op);
}

void ops_post(struct ops *o, bool sends, bool receives)
{
	if (sends)
		post_send(o);
	if (receives)
		post_receive(o);
}

void ops_receive_any(struct ops *o)
{
	struct op *op = find_free(o->in, OPS_IN);

	if (!op)
		return;
	/* Of both kinds some are always there. */
	op->kind = (op - o->in) & 1 ? OP_RECV : OP_RECV_UNTAGGED;
	op->tag = TAGS;
	try_post(o, op);
}

/* ---- ends ---- */

static bool is_documented(int err)
{
	for (int i = 0; i < OP_CODES && op_codes[i]; i++)
		if (err == op_codes[i])
			return true;
	return false;
}

static void take_error(struct ops *o, struct op *op, int err)
{
	if (op->withdrawn && err == FI_ECANCELED) {
		o->counts.cancelled++;
		return;
	}
	MUST(o->mortal, "a %s to or from a living peer ends with %s", kind_names[op->kind],
	     fi_strerror(err));
	MUST(is_documented(err), "a %s ends with %s, which is not documented",
	     kind_names[op->kind], fi_strerror(err));
	o->counts.failed++;
	o->counts.kinds[op->kind]++;
	for (int i = 0; i < OP_CODES; i++)
		o->counts.codes[i] += op_codes[i] == err;
}

static void take(struct ops *o, void *context, size_t len, int err)
{
	struct op *op = context;
	bool known = (op >= o->out && op < o->out + OPS_OUT) ||
		     (op >= o->in && op < o->in + OPS_IN);

	MUST(known, "a completion without an operation: context %p, err %d", context, err);
	MUST(op->busy, "a %s ends twice, now with err %d", kind_names[op->kind], err);
	op->busy = false;
	if (err) {
		take_error(o, op, err);
		return;
	}
	o->counts.ok++;
	if (op->kind < OP_RECV)
		return;
	o->received++;
	judge(op, len);
}

bool ops_poll(struct ops *o)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	ret = o->end->sleeps ? fi_cq_sread(o->end->cq, &entry, 1, NULL, 5) :
			       fi_cq_read(o->end->cq, &entry, 1);
	if (ret == -FI_EAGAIN)
		return false;
	if (ret == 1) {
		take(o, entry.op_context, entry.len, 0);
		return true;
	}
	MUST(ret == -FI_EAVAIL, "fi_cq_read: %zd", ret);
	ret = fi_cq_readerr(o->end->cq, &error, 0);
	MUST(ret == 1, "fi_cq_readerr: %zd", ret);
	take(o, error.op_context, 0, error.err);
	return true;
}

unsigned ops_busy_out(const struct ops *o)
{
	unsigned cnt = 0;

	for (int i = 0; i < OPS_OUT; i++)
		cnt += o->out[i].busy;
	return cnt;
}

/* A receive names the peer, or any source. */
static bool is_directed(const struct op *op)
{
	return op->kind == OP_RECV_FROM || (op->kind == OP_RECV_UNTAGGED && op->tag != TAGS);
}

unsigned ops_busy_in(const struct ops *o, bool all)
{
	unsigned cnt = 0;

	for (int i = 0; i < OPS_IN; i++)
		cnt += o->in[i].busy && (all || (o->errors && is_directed(&o->in[i])));
	return cnt;
}

/* What a message has matched is not found any more, and ends by itself. */
void ops_cancel(struct ops *o)
{
	for (int i = 0; i < OPS_IN; i++) {
		struct op *op = &o->in[i];

		if (op->busy && !op->withdrawn)
			op->withdrawn = !fi_cancel(&o->end->ep->fid, &op->ctx);
	}
}

static void list(const struct op *op, int n)
{
	for (int i = 0; i < n; i++)
		if (op[i].busy)
			fprintf(stderr, "    %s, tag %" PRIu64 ", %zu bytes, context %p%s\n",
				kind_names[op[i].kind], op[i].tag, op[i].len,
				(const void *)&op[i].ctx,
				op[i].withdrawn ? ", cancelled" : "");
}

void ops_list(const struct ops *o)
{
	list(o->out, OPS_OUT);
	list(o->in, OPS_IN);
}
