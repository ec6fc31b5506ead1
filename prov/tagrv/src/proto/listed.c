/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged messages that come through a device's list of receives: see listed.h.
 *
 *   arrived, plain form    credit is used and free again, copied, end
 *   arrived, header form   the same, with a FIN; or the rendezvous begins
 *   arrived, with status   end with that status
 *   unexpected, any form   matched in software
 *
 * The device tells of a match first and of the bytes later, and the connection may have
 * ended in between. A message that is complete ends its receive well in any case, because its
 * sender may have been told that it has arrived; it has no part in the credit of another
 * connection. One that was announced is lost.
 *
 * A message that breaks the rules has taken its receive out of the list, so the receive ends
 * with -FI_EREMOTEIO.
 */
#include "proto/listed.h"

#include <assert.h>
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "core/trace.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/recv.h"
#include "object/tags.h"
#include "proto/arrive.h"
#include "proto/deliver.h"

static_assert(TAGRV_LISTED_HAS_DATA == TAGRV_OFFLOAD_HAS_DATA &&
	      TAGRV_LISTED_HAS_HEADER == TAGRV_OFFLOAD_HAS_HEADER &&
	      TAGRV_LISTED_TAG_BITS == TAGRV_OFFLOAD_TAG_BITS &&
	      TAGRV_LISTED_NUMBERS == TAGRV_OFFLOAD_SOURCES,
	      "tags on the wire are what receives in the list are compared with");

/* As a packet with the header that says the same in its usual form. */
static void trace_in(const struct tagrv_peer *peer, const struct tagrv_hdr *hdr, size_t len)
{
	uint64_t words[TAGRV_SHORT_WORDS];

	tagrv_hdr_pack(words, hdr);
	tagrv_trace_packet_in(peer, words, len);
}

/* ---- messages that an entry took ---- */

/* Whether the connection that brought the message is the peer's still. */
static bool is_live(const struct tagrv_listed *listed)
{
	const struct tagrv_peer *peer = listed->from;

	return listed->current && peer->lane && peer->life == listed->life;
}

static int refuse(const struct tagrv_listed *listed, const char *why)
{
	if (is_live(listed))
		tagrv_peer_bad_packet(listed->from, why);
	else
		tagrv_peer_count_bad(listed->from, why);
	return -FI_EREMOTEIO;
}

/* What the header says of the connection. 0, or -FI_EREMOTEIO. */
static int check(const struct tagrv_listed *listed, const struct tagrv_hdr *hdr)
{
	if (!is_live(listed))
		return 0;
	if (hdr->seq != listed->seq)
		return refuse(listed, "out of sequence");
	if (!tagrv_credit_received(&listed->from->credit, hdr->credit))
		return refuse(listed, "too much credit");
	return 0;
}

/* 0: the op has its message, or is on its way; -FI_E*: it is to end with that. */
static int deliver(const struct tagrv_listed *listed, struct tagrv_op *op,
		   const void *bytes, size_t len)
{
	struct tagrv_peer *peer = listed->from;
	struct tagrv_hdr hdr = { .seq = listed->seq };
	size_t head;
	int ret;

	if (!tagrv_hdr_unpack_listed(&hdr, &head, listed->tag, listed->app, bytes, len))
		return refuse(listed, "malformed header");
	ret = check(listed, &hdr);
	if (ret)
		return ret;
	bytes = (const char *) bytes + head;
	len -= head;
	trace_in(peer, &hdr, len);
	if (hdr.opcode == TAGRV_PKT_RTS) {
		if (!is_live(listed))
			return -FI_ECONNRESET;
		return tagrv_arrive_matched_rts(peer, &hdr, bytes, len, op) ? 0 :
		       -FI_EREMOTEIO;
	}
	if (is_live(listed)) {
		tagrv_arrive_matched(peer, &hdr, bytes, len, op);
		return 0;
	}
	hdr.op = 0;	/* whoever waited for a FIN has given up */
	tagrv_trace_match(op, peer, NULL, hdr.op, hdr.tag, len);
	tagrv_deliver_matched(op, peer, &hdr, bytes, len);
	return 0;
}

/* The message is lost: the end has what is known of it. */
static void lose(const struct tagrv_listed *listed, struct tagrv_op *op, int status)
{
	const struct tagrv_hdr hdr = { .tag = listed->tag & TAGRV_LISTED_TAG };

	tagrv_deliver_matched_lost(op, listed->from, &hdr, status);
}

void tagrv_listed_arrived(struct tagrv_tags *tags, const struct tagrv_listed *listed,
			  struct tagrv_op *op, const void *bytes, size_t len, int status)
{
	(void) tags;
	tagrv_assert_locked(op->rx.rx->dom);
	if (!listed->from) {
		tagrv_op_recv_end_unknown(op, status ? status : -FI_EREMOTEIO);
		return;
	}
	if (!status)
		status = deliver(listed, op, bytes, len);
	if (status)
		lose(listed, op, status);
}

/* ---- messages that none took ---- */

/* The words of the packet. False: no sender writes this. */
static bool unpack(struct tagrv_peer *peer, struct tagrv_hdr *hdr, size_t *head,
		   const char *data, size_t len)
{
	uint64_t words[TAGRV_TAGLIST_WORDS];
	uint64_t tag;
	uint32_t app;

	if (len < sizeof(words))
		return false;
	words[0] = tagrv_word_load(data);
	words[1] = tagrv_word_load(data + sizeof(*words));
	if (!tagrv_listed_words(words, &tag, &app) ||
	    tagrv_listed_number(tag) != peer->lane->link->given ||
	    !tagrv_hdr_unpack_listed(hdr, head, tag, app, data + sizeof(words),
				     len - sizeof(words)))
		return false;
	*head += sizeof(words);
	return true;
}

void tagrv_listed_packet(struct tagrv_peer *peer, const void *data, size_t len)
{
	struct tagrv_hdr hdr = { .seq = peer->rx_seq };
	size_t head;

	tagrv_assert_locked(peer->engine->dom);
	if (!unpack(peer, &hdr, &head, data, len)) {
		tagrv_peer_bad_packet(peer, "malformed header");
		return;
	}
	data = (const char *) data + head;
	len -= head;
	trace_in(peer, &hdr, len);
	if (hdr.seq != peer->rx_seq) {
		tagrv_peer_bad_packet(peer, "out of sequence");
		return;
	}
	peer->rx_seq++;
	if (!tagrv_credit_received(&peer->credit, hdr.credit))
		tagrv_peer_bad_packet(peer, "too much credit");
	else if (hdr.opcode == TAGRV_PKT_RTS)
		tagrv_arrive_rts(peer, &hdr, data, len);
	else
		tagrv_arrive_eager(peer, &hdr, data, len);
}
