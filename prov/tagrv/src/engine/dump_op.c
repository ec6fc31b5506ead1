/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One operation in a dump: see dump_op.h. The reasons follow the states that
 * object/op.h draws. util/tagrv-gdb.py prints the same text: change both.
 */
#include "engine/dump_op.h"

#include <inttypes.h>
#include <rdma/fi_errno.h>

#include "object/lane.h"
#include "object/peer.h"
#include "object/tags.h"

static bool is_posted(const struct tagrv_op *op)
{
	return op->state == TAGRV_OP_POSTED;
}

static bool is_receive(const struct tagrv_op *op)
{
	return op->state >= TAGRV_OP_POSTED;
}

/* ---- what it waits for ---- */

static void wait_queued(const struct tagrv_op *op, FILE *out)
{
	const struct tagrv_peer *peer = op->peer;

	if (peer->state != TAGRV_PEER_READY)
		fprintf(out, "a connection, the peer is %s",
			tagrv_peer_state_name(peer->state));
	else if (op->flags & FI_FENCE && peer->sent)
		fprintf(out, "the end of %zu earlier sends (FI_FENCE)",
			peer->sent);
	else if (op->tx.rma && peer->rma.views->asked.id)
		fputs("a VIEW of the target's window, for its device", out);
	else if (op->tx.rma && peer->sent)
		fprintf(out, "room in the transport, or the end of %zu earlier operations",
			peer->sent);
	else
		fputs("room in the transport, behind earlier sends", out);
}

static void wait_fin(const struct tagrv_op *op, FILE *out)
{
	if (op->ops == &tagrv_eager_ops)
		fprintf(out, "a FIN of the peer: the message %s",
			op->flags & FI_MATCH_COMPLETE ? "is not matched" :
							"is not received");
	else
		fputs("a FIN of the peer: all bytes are sent", out);
}

static void wait_offering(const struct tagrv_op *op, FILE *out)
{
	const struct tagrv_rndv *r = op->rndv;

	if (r->pieces)
		fprintf(out, "the FINs of %u pieces that the peer reads",
			r->pieces);
	else
		fputs("room in the transport for pieces", out);
}

static void wait_copying(const struct tagrv_op *op, FILE *out)
{
	const struct tagrv_rndv *r = op->rndv;

	if (r->ask_grant || r->next < r->granted)
		fputs("room in the transport for fragments", out);
	else
		fputs("a GRANT of the peer", out);
}

static void wait_moving(const struct tagrv_op *op, const char *what, FILE *out)
{
	if (op->rndv->inflight)
		fprintf(out, "the end of %u %s in the device",
			op->rndv->inflight, what);
	else
		fprintf(out, "room in the transport for %s", what);
}

/* Bytes that come by pieces and are not announced by a PIECE so far. */
static bool lacks_pieces(const struct tagrv_rndv *r)
{
	return r->by_pieces && r->offered < r->middle;
}

static void wait_cts(const struct tagrv_op *op, FILE *out)
{
	const struct tagrv_rndv *r = op->rndv;

	if (op->peer->lane != op->lane)
		fputs("the end of the connection that failed", out);
	else if (!r->cts_sent)
		fputs("room, or a grant, to send a CTS", out);
	else if (r->by_write)
		fputs("writes and the DONE of the peer", out);
	else if (r->pieces)
		fprintf(out, "the reads of %u pieces", r->pieces);
	else if (lacks_pieces(r))
		fputs("pieces of the peer", out);
	else if (r->inflight)
		fprintf(out, "%u fragments that the peer was granted",
			r->inflight);
	else
		fputs("fragments to be granted to the peer", out);
}

static const char posted_wait[] = "a message that matches";

static void wait_single(const struct tagrv_listed *listed, FILE *out)
{
	if (listed && listed->recv.cancelled) {
		fputs("the adapter to give it back: it is cancelled", out);
		return;
	}
	fputs(posted_wait, out);
	if (listed && listed->recv.slot != TAGRV_OFFLOAD_NONE)
		fputs(", in the adapter's list", out);
}

static void wait_posted(const struct tagrv_op *op, FILE *out)
{
	if (!op->rx.multi)
		wait_single(op->rx.listed, out);
	else if (!op->rx.retired)
		fprintf(out, "messages that match: %zu bytes have been used",
			op->rx.used);
	else
		fprintf(out, "the end of the last %u messages in the buffer",
			op->rx.slices);
}

static void wait_for(const struct tagrv_op *op, FILE *out)
{
	switch (op->state) {
	case TAGRV_OP_QUEUED:
		wait_queued(op, out);
		break;
	case TAGRV_OP_WIRE:
		fprintf(out, "the device's completion of the %s",
			op->tx.rma ? "operation" : "packet");
		break;
	case TAGRV_OP_FIN_WAIT:
		wait_fin(op, out);
		break;
	case TAGRV_OP_ANNOUNCED:
		fputs("a FIN or CTS of the peer: the RTS is not matched, or the "
		      "peer reads", out);
		break;
	case TAGRV_OP_COPYING:
		wait_copying(op, out);
		break;
	case TAGRV_OP_WRITING:
		wait_moving(op, "writes", out);
		break;
	case TAGRV_OP_OFFERING:
		wait_offering(op, out);
		break;
	case TAGRV_OP_PIECE_READY:
		fputs("room in the transport to be offered", out);
		break;
	case TAGRV_OP_PIECE:
		fputs("a FIN of the peer, which reads the piece", out);
		break;
	case TAGRV_OP_POSTED:
		wait_posted(op, out);
		break;
	case TAGRV_OP_READING:
		wait_moving(op, "reads", out);
		break;
	case TAGRV_OP_CTS:
		wait_cts(op, out);
		break;
	case TAGRV_OP_ASKED:
		fputs("the target's answer: its process has to make progress", out);
		break;
	case TAGRV_OP_FETCHING:
		wait_moving(op, "reads", out);
		break;
	case TAGRV_OP_LENT:
		fputs("a FIN of the peer, which reads from a window", out);
		break;
	default:
		fputs("nothing: its state is not known", out);
	}
}

/* ---- the line ---- */

static void dump_peer(const struct tagrv_op *op, FILE *out)
{
	char addr[TAGRV_ADDR_STRLEN];

	if (is_posted(op))
		return;
	fprintf(out, "%s %s, ", is_receive(op) ? "from" : "to",
		tagrv_addr_str(&op->peer->addr, addr, sizeof(addr)));
}

/*
 * Bytes whose read, write or packet has begun. By pieces, the message grows from
 * both ends of the middle: offered counts up to it, next from there on.
 */
static size_t moved(const struct tagrv_op *op)
{
	const struct tagrv_rndv *r = op->rndv;

	if (op->state == TAGRV_OP_OFFERING || (r->by_pieces && r->cts_sent))
		return r->offered + r->next - r->middle;
	return r->by_pieces ? r->offered : r->next;
}

static void dump_moved(const struct tagrv_op *op, FILE *out)
{
	switch (op->state) {
	case TAGRV_OP_COPYING:
	case TAGRV_OP_WRITING:
	case TAGRV_OP_OFFERING:
	case TAGRV_OP_FETCHING:
	case TAGRV_OP_READING:
	case TAGRV_OP_CTS:
		fprintf(out, ", %zu of %zu moved", moved(op), op->rndv->want);
		break;
	default:
		break;
	}
}

static void dump_tag(uint8_t space, uint64_t tag, FILE *out)
{
	if (space == TAGRV_SPACE_TAGGED)
		fprintf(out, "tag %#" PRIx64 ", ", tag);
}

static void dump_age(const void *context, uint32_t born,
		     const struct tagrv_dom *dom, FILE *out)
{
	fprintf(out, ", context %p, for %" PRIu64 " s or more, waits for ",
		context, tagrv_dom_age(dom, born) / 1000);
}

void tagrv_op_dump(const struct tagrv_op *op, const struct tagrv_dom *dom,
		   FILE *out)
{
	fprintf(out, "    %s %08x %s: ", is_receive(op) ? "receive" : "send",
		op->node.handle, tagrv_op_state_name(op->state));
	if (!is_posted(op))
		fprintf(out, "%s ", op->ops->name);
	dump_peer(op, out);
	dump_tag(op->space, op->tag, out);
	fprintf(out, "%zu bytes", is_posted(op) ? op->rx.room : op->len);
	dump_moved(op, out);
	dump_age(op->context, op->born, dom, out);
	wait_for(op, out);
	fputc('\n', out);
}

static const struct tagrv_peer *peer_of_id(const struct tagrv_engine *engine,
					   uint32_t match_id)
{
	if (!engine->rx->shared)
		return match_id < engine->table.cnt ?
		       engine->table.peers[match_id] : NULL;
	for (size_t i = 0; i < engine->table.cnt; i++)
		if (engine->table.peers[i]->match_id == match_id)
			return engine->table.peers[i];
	return NULL;
}

/* From whom, if the receive says so; and whether that one is lost. */
static void dump_source(const struct tagrv_recv *recv,
			const struct tagrv_engine *engine, FILE *out)
{
	const struct tagrv_peer *peer = peer_of_id(engine, tagrv_match_source(
		(const struct tagrv_match_recv *) (const void *) recv));
	char addr[TAGRV_ADDR_STRLEN];

	if (!peer)
		return;
	fprintf(out, ", from %s", tagrv_addr_str(&peer->addr, addr, sizeof(addr)));
	if (peer->lost)
		fprintf(out, ", which is lost: %s", fi_strerror(-peer->lost));
}

void tagrv_recv_dump(const struct tagrv_recv *recv, uint32_t handle,
		     const struct tagrv_engine *engine, FILE *out)
{
	fprintf(out, "    receive %08x %s: ", handle,
		tagrv_op_state_name(TAGRV_OP_POSTED));
	dump_tag(recv->space, recv->tag, out);
	fprintf(out, "%zu bytes", recv->len);
	dump_age(recv->context, recv->born, engine->dom, out);
	fputs(posted_wait, out);
	dump_source(recv, engine, out);
	fputc('\n', out);
}
