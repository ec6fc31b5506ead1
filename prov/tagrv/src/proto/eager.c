/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager: envelope and payload in one packet.
 *
 *   sender                                    receiver (arrive.c)
 *   one packet: header, payload     ------->  matched: copy out, end
 *   end when the packet is accepted           else: compact copy is kept
 *   (INJECT), at the CQE (TRANSMIT)
 *   or at the FIN (DELIVERY, MATCH) <-------  FIN when kept or matched
 *
 * A message in one packet takes one of three ways to the wire, which the
 * receiver cannot tell apart:
 *
 *   immediate  the processor writes the packet into the device's queue:
 *              send_short, and send up to attr.max_inline
 *   allocated  the packet is copied into a buffer of the transport: send
 *   prepared   the device gathers the payload from the application's registered
 *              memory, and the send ends when it has: send_prepared, from the
 *              size on that select.h tells
 *
 * Tagged messages to a peer whose device matches them (peer->number) take the two last
 * ways, with another header: section 1.12.
 *
 * Layouts: docs/wire_protocol.md section 1.
 */
#include "proto/eager.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/clock.h"
#include "core/trace.h"
#include "object/lane.h"
#include "proto/packet/packet_flags.h"

static inline int send_pieces(struct tagrv_link *link, struct iovec header,
			      const struct tagrv_send_req *req, unsigned flags,
			      struct tagrv_done *done)
{
	struct iovec iov[TAGRV_IOV_MAX + 1];

	iov[0] = header;
	for (size_t i = 0; i < req->iov_cnt; i++)
		iov[i + 1] = req->iov[i];
	return link->xport->ops->send(link, iov, req->iov_cnt + 1, flags, done);
}

static inline struct tagrv_hdr make_header(struct tagrv_peer *peer,
					   const struct tagrv_send_req *req,
					   uint32_t handle)
{
	return (struct tagrv_hdr) {
		.opcode = TAGRV_PKT_EAGER,
		.op = handle,
		.tag = req->tag,
		.flags = tagrv_packet_space_flags(req->space, req->flags) |
			 (handle ? tagrv_packet_ack_flags(req->flags) : 0),
		.credit = tagrv_credit_to_return(&peer->credit),
		.seq = peer->tx_seq,
		.data = req->data,
	};
}

/* A queued send in the shortest form. False: it takes another one. */
static inline bool send_tagged(struct tagrv_peer *peer,
			       const struct tagrv_send_req *req, size_t len)
{
	struct tagrv_link *link = peer->lane->link;
	uint16_t credit = tagrv_credit_to_return(&peer->credit);
	uint64_t meta = TAGRV_META(len, credit);

	if (req->flags & FI_REMOTE_CQ_DATA)
		meta |= TAGRV_META_DATA;
	if (link->xport->ops->send_tagged(link, meta, req->tag, req->data,
					  req->iov->iov_base))
		return false;
	tagrv_trace_tagged_out(peer, peer->tx_seq, meta, req->tag, req->data);
	tagrv_eager_count(peer, credit, tagrv_credit_units(len));
	return true;
}

/*
 * The header of a tagged message to a peer whose device matches it. Returns its bytes; hdr is
 * what it says, in the usual form.
 */
static size_t pack_listed(uint64_t words[TAGRV_SHORT_WORDS], struct tagrv_hdr *hdr,
			  const struct tagrv_peer *peer)
{
	if (tagrv_hdr_is_plain(hdr))
		hdr->credit = 0;	/* a CREDIT packet returns it */
	return tagrv_hdr_pack_listed(words, hdr, peer->number);
}

/* The message has left. */
static void count_sent(struct tagrv_peer *peer, const struct tagrv_hdr *hdr, size_t len)
{
	uint64_t usual[TAGRV_SHORT_WORDS];

	tagrv_hdr_pack(usual, hdr);
	tagrv_trace_packet_out(peer, usual, len);
	tagrv_eager_count(peer, hdr->credit, tagrv_credit_units(len));
}

/* Not inlined, so that the path of other peers saves no registers for it. */
static __attribute__((noinline))
int send_listed(struct tagrv_peer *peer, const struct tagrv_send_req *req, size_t len,
		uint32_t handle, struct tagrv_done *done)
{
	struct tagrv_hdr hdr = make_header(peer, req, handle);
	uint64_t words[TAGRV_SHORT_WORDS];
	size_t head = pack_listed(words, &hdr, peer);
	int ret = send_pieces(peer->lane->link, (struct iovec) { words, head }, req,
			      TAGRV_SEND_TAGGED, done);

	if (!ret)
		count_sent(peer, &hdr, len);
	return ret;
}

static int send_packet(struct tagrv_peer *peer,
		       const struct tagrv_send_req *req, size_t len,
		       uint32_t handle, struct tagrv_done *done)
{
	const struct tagrv_hdr hdr = make_header(peer, req, handle);
	struct tagrv_link *link = peer->lane->link;
	uint64_t words[TAGRV_SHORT_WORDS];
	int ret = -FI_EAGAIN;

	tagrv_hdr_pack(words, &hdr);
	if (req->iov_cnt == 1 && !done && len <= link->xport->attr.max_short)
		ret = link->xport->ops->send_short(link, words,
						   req->iov->iov_base, len);
	if (ret)
		ret = send_pieces(link, (struct iovec) { words, sizeof(words) }, req, 0,
				  done);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	tagrv_trace_packet_out(peer, words, len);
	tagrv_eager_count(peer, hdr.credit, tagrv_credit_units(len));
	return 0;
}

int tagrv_eager_send(struct tagrv_peer *peer, const struct tagrv_send_req *req,
		     size_t len, uint32_t handle, struct tagrv_done *done)
{
	const struct tagrv_link *link = peer->lane->link;

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_LIKELY(req->space == TAGRV_SPACE_TAGGED)) {
		if (len < link->xport->attr.tagged_end) {
			if (TAGRV_LIKELY(!handle && !done && req->iov_cnt == 1) &&
			    TAGRV_LIKELY(send_tagged(peer, req, len)))
				return 0;
		} else if (TAGRV_UNLIKELY(peer->number)) {
			/* No transport has both: this costs the others nothing. */
			return send_listed(peer, req, len, handle, done);
		}
	}
	return send_packet(peer, req, len, handle, done);
}

/*
 * A peer that has not returned any credit for so many repetitions of an inject, about
 * 0.1 ms of an application that does nothing else, or for TAGRV_REFUSE_NS, is taken for one
 * that does not receive; at once, if the application wanted to sleep meanwhile, because the
 * peer need not wake it.
 */
#define REPEATS_MAX	1000u

/* An inject lacks credit. -FI_EAGAIN: its caller is to repeat it; -FI_ENOSPC: see above. */
static TAGRV_COLD int refuse(struct tagrv_peer *peer)
{
	struct tagrv_engine *engine = peer->engine;
	uint64_t now = tagrv_clock_ns();

	if (!peer->refused.cnt || peer->refused.credit != peer->credit.left) {
		peer->refused.cnt = 0;
		peer->refused.credit = peer->credit.left;
		peer->refused.arms = engine->tx.arms;
		peer->refused.since = now;
	}
	if (peer->refused.cnt == REPEATS_MAX ||
	    peer->refused.arms != engine->tx.arms ||
	    now - peer->refused.since > engine->tx.refuse_ns)
		return -FI_ENOSPC;
	peer->refused.cnt++;
	engine->tx.no_credit = true;
	return -FI_EAGAIN;
}

int tagrv_eager_repeat(struct tagrv_peer *peer, const struct tagrv_send_req *req,
		       size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	if (tagrv_credit_units(len) > peer->credit.left)
		return refuse(peer);
	if (!send_tagged(peer, req, len))
		return -FI_EAGAIN;
	peer->refused.cnt = 0;
	return 0;
}

int tagrv_eager_send_prepared(struct tagrv_peer *peer,
			      const struct tagrv_send_req *req, size_t len,
			      uint32_t handle, struct tagrv_done *done)
{
	struct tagrv_hdr hdr = make_header(peer, req, handle);
	struct tagrv_link *link = peer->lane->link;
	uint64_t words[TAGRV_SHORT_WORDS];
	size_t head = sizeof(words);
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	assert(!peer->number || req->space == TAGRV_SPACE_TAGGED);
	if (TAGRV_UNLIKELY(peer->number))
		head = pack_listed(words, &hdr, peer);
	else
		tagrv_hdr_pack(words, &hdr);
	ret = link->xport->ops->send_prepared(link, words, head, req->iov, req->mem,
					      req->iov_cnt, done);
	if (ret)
		return ret;
	count_sent(peer, &hdr, len);
	peer->engine->stats.prepared_tx++;
	return 0;
}
