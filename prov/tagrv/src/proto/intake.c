/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages out of the intake of a link: see intake.h.
 *
 * What belongs to the peer and its engine is read once for all messages, and what is
 * only counted is added up behind them.
 */
#include "proto/intake.h"

#include <stdatomic.h>

#include "core/iov.h"
#include "core/trace.h"
#include "match/quick.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/peer.h"
#include "object/recv.h"
#include "xport/xport.h"

/* Whether messages may be taken this way, as long as nothing else is called. */
static inline bool is_plain(const struct tagrv_lane *lane)
{
	const struct tagrv_peer *peer = lane->peer;

	return TAGRV_LIKELY(peer != NULL) && TAGRV_LIKELY(peer->lane == lane) &&
	       TAGRV_LIKELY(peer->state == TAGRV_PEER_READY) &&
	       TAGRV_LIKELY(peer->engine->plain_ends) &&
	       TAGRV_LIKELY(tagrv_match_quick_posted(peer->engine->match) !=
			    NULL);
}

/* Where the next message is, or comes. */
struct place {
	const char *slot;
	uint16_t mark;
	uint64_t word;		/* its head word, as it was loaded last */
};

static inline const _Atomic uint64_t *head_of(const char *slot)
{
	return (const _Atomic uint64_t *) (const void *) slot;
}

static inline void load(struct place *at)
{
	at->word = atomic_load_explicit(head_of(at->slot), memory_order_acquire);
}

static inline struct place place_of(const struct tagrv_intake *in)
{
	return (struct place) {
		.slot = in->slots + (in->cnt & in->mask) * TAGRV_INTAKE_STRIDE,
		.mark = (uint16_t) (TAGRV_INTAKE_MARK |
				    (~(in->cnt >> in->shift) & 1)),
	};
}

/* Goes on to the slot behind. */
static inline void step(struct place *at, const struct tagrv_intake *in)
{
	at->slot += TAGRV_INTAKE_STRIDE;
	if (TAGRV_UNLIKELY(at->slot == in->end)) {
		at->slot = in->slots;
		at->mark ^= 1;
	}
	__builtin_prefetch(at->slot);
}

/* Whether the message with this head word is taken; the record of its receive. */
static inline struct tagrv_match_recv *
find_receive(const struct tagrv_peer *peer, const struct tagrv_posted_block *block,
	     uint64_t word, uint64_t tag, uint64_t *probes)
{
	uint32_t len = TAGRV_META_LEN(word);
	struct tagrv_match_recv *record;

	if (TAGRV_UNLIKELY(len > TAGRV_INTAKE_BYTES ||
			   tagrv_credit_units(len) > peer->credit.promised ||
			   peer->credit.left > UINT32_MAX - UINT16_MAX))
		return NULL;
	record = tagrv_match_quick_find(block, peer->match_id, tag, probes);
	return TAGRV_LIKELY(record) &&
	       TAGRV_LIKELY(len < tagrv_recv_of(record)->plain_end) ? record : NULL;
}

static fi_addr_t source_of(const struct tagrv_peer *peer)
{
	return peer->engine->attr.source ? peer->fi_addr : FI_ADDR_NOTAVAIL;
}

/* Writes payload and end of a message into the receive's buffer and the window. */
static inline void deliver(const struct tagrv_recv *recv,
			   const struct tagrv_peer *peer,
			   struct tagrv_compq_window *window, const char *slot,
			   uint32_t len, uint64_t tag)
{
	tagrv_trace_recv_complete(recv, peer, recv->context, tag, len, 0);
	tagrv_compq_write(window, &(struct tagrv_comp) {
		.context = recv->context,
		.flags = FI_RECV | FI_TAGGED,
		.len = len,
		.buf = recv->buf,
		.tag = tag,
		.src = TAGRV_UNLIKELY(window->src != NULL) ?
		       source_of(peer) : FI_ADDR_NOTAVAIL,
	});
	tagrv_copy(recv->buf, slot + 2 * sizeof(uint64_t), len);
}

/* A message is taken: all but its delivery. */
static inline void account(struct tagrv_peer *peer, uint64_t word, uint64_t tag,
			   const struct tagrv_match_recv *record)
{
	tagrv_trace_tagged_in(peer, peer->rx_seq, word & TAGRV_META_SHARED, tag,
			      0);
	tagrv_trace_match(tagrv_recv_of_const(record), peer, NULL, 0, tag,
			  TAGRV_META_LEN(word));
	peer->rx_seq++;
	peer->credit.left += TAGRV_META_CREDIT(word);
	tagrv_peer_pass_credit(peer, tagrv_credit_units(TAGRV_META_LEN(word)));
}

/*
 * Takes messages from peer, which is_plain(); returns how many. *at: where the next
 * one is or comes.
 */
static inline uint32_t take(struct tagrv_intake *in, struct tagrv_peer *peer,
			    struct tagrv_compq_window *window, struct place *at)
{
	struct tagrv_match *match = peer->engine->match;
	struct tagrv_posted_block *block = tagrv_match_quick_posted(match);
	struct tagrv_match_recv *record;
	uint64_t probes = 0;
	uint32_t cnt = 0;

	for (; window->left; cnt++) {
		const char *slot = at->slot;
		uint64_t tag, tried = probes;

		load(at);
		if ((uint16_t) at->word != at->mark)
			break;
		tag = tagrv_word_load(slot + sizeof(at->word));
		record = find_receive(peer, block, at->word, tag, &probes);
		if (TAGRV_UNLIKELY(!record)) {
			probes = tried;
			break;
		}
		step(at, in);
		account(peer, at->word, tag, record);
		tagrv_match_quick_remove(match, block, record);
		deliver(tagrv_recv_of(record), peer, window, slot,
			TAGRV_META_LEN(at->word), tag);
	}
	in->cnt += cnt;
	peer->engine->stats.eager_rx += cnt;
	tagrv_match_quick_count(match, cnt, probes);
	return cnt;
}

int tagrv_intake_drain(void *owner)
{
	struct tagrv_link *link = owner;
	const struct tagrv_lane *lane = link->ctx;
	struct tagrv_intake *in = link->intake;
	struct tagrv_watch *watch = link->xport->sink->watch;
	struct tagrv_compq_window *window;
	struct place at;
	uint32_t cnt;

	if (TAGRV_UNLIKELY(!is_plain(lane)))
		return link->xport->ops->drain(link);
	window = &lane->peer->engine->sinks.rx_cq->window;
	at = place_of(in);
	cnt = take(in, lane->peer, window, &at);
	if (TAGRV_UNLIKELY(in->cnt >= in->due))
		link->xport->ops->publish(link);
	if (TAGRV_UNLIKELY(!window->left)) {
		if (!cnt)
			return link->xport->ops->drain(link);
		watch->enough = true;
		load(&at);
		/* What is there already counts as a change. */
		if (!((at.word ^ at.mark) & 1))
			at.word = ~at.word;
	} else if (TAGRV_UNLIKELY(!((at.word ^ at.mark) & 1))) {
		return (int) cnt + link->xport->ops->drain(link);
	}
	tagrv_watch_move(watch, link->watch_at, head_of(at.slot), at.word);
	return (int) cnt;
}
