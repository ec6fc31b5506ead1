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

/*
 * The slot of the receive that takes the message with this head word; -1: none, or
 * the message goes the general way.
 */
static inline int find_receive(const struct tagrv_peer *peer,
			       const struct tagrv_posted_block *block,
			       uint64_t word, uint64_t tag, uint64_t *more)
{
	uint32_t len = TAGRV_META_LEN(word);
	int slot;

	if (TAGRV_UNLIKELY(len > TAGRV_INTAKE_BYTES))
		return -1;
	slot = tagrv_match_quick_find(block, peer->match_id, tag, more);
	return TAGRV_LIKELY(slot >= 0) &&
	       TAGRV_LIKELY(len < tagrv_recv_of(tagrv_match_quick_record(block,
					slot))->plain_end) ? slot : -1;
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

/* What the messages of one call add up to. */
struct sums {
	uint32_t cnt;
	uint32_t units;		/* of the peer's credit that they used */
	uint32_t credit;	/* that they returned to us */
	uint64_t more;		/* slots compared beyond the first */
};

/* Whatever a batch of messages uses and returns, credit stays within its limits. */
static inline bool has_credit(const struct tagrv_peer *peer)
{
	const uint32_t used = TAGRV_INTAKE_BATCH *
			      tagrv_credit_units(TAGRV_INTAKE_BYTES);
	const uint32_t returned = TAGRV_INTAKE_BATCH * UINT16_MAX;

	return TAGRV_LIKELY(peer->credit.promised >= used) &&
	       TAGRV_LIKELY(peer->credit.left <= UINT32_MAX - returned);
}

static inline void account(struct tagrv_intake *in, struct tagrv_peer *peer,
			   const struct sums *sums)
{
	in->cnt += sums->cnt;
	peer->rx_seq += sums->cnt;
	peer->credit.left += sums->credit;
	tagrv_peer_pass_credit(peer, sums->units);
	peer->engine->stats.eager_rx += sums->cnt;
	tagrv_match_quick_count(peer->engine->match, sums->cnt, sums->more);
}

static inline void trace(const struct tagrv_peer *peer, const struct sums *sums,
			 uint64_t word, uint64_t tag,
			 const struct tagrv_match_recv *record)
{
	(void) peer, (void) sums, (void) word, (void) tag, (void) record;
	tagrv_trace_tagged_in(peer, peer->rx_seq + sums->cnt,
			      word & TAGRV_META_SHARED, tag, 0);
	tagrv_trace_match(tagrv_recv_of_const(record), peer, NULL, 0, tag,
			  TAGRV_META_LEN(word));
}

/*
 * Takes at most TAGRV_INTAKE_BATCH messages from peer, which is_plain() and
 * has_credit(); returns how many. *at: where the next one is or comes.
 */
static inline __attribute__((always_inline)) uint32_t
take(struct tagrv_intake *in, struct tagrv_peer *peer,
     struct tagrv_compq_window *window, struct place *at)
{
	struct tagrv_match *match = peer->engine->match;
	struct tagrv_posted_block *block = tagrv_match_quick_posted(match);
	size_t most = TAGRV_MIN(window->left, (size_t) TAGRV_INTAKE_BATCH);
	struct sums sums = { 0 };

	while (sums.cnt < most) {
		const char *line = at->slot;
		struct tagrv_match_recv *record;
		uint64_t tag, more = sums.more;
		int slot;

		load(at);
		if ((uint16_t) at->word != at->mark)
			break;
		tag = tagrv_word_load(line + sizeof(at->word));
		slot = find_receive(peer, block, at->word, tag, &more);
		if (TAGRV_UNLIKELY(slot < 0))
			break;
		step(at, in);
		record = tagrv_match_quick_record(block, slot);
		trace(peer, &sums, at->word, tag, record);
		tagrv_match_quick_remove(match, block, slot);
		deliver(tagrv_recv_of(record), peer, window, line,
			TAGRV_META_LEN(at->word), tag);
		sums.more = more;
		sums.units += tagrv_credit_units(TAGRV_META_LEN(at->word));
		sums.credit += TAGRV_META_CREDIT(at->word);
		sums.cnt++;
	}
	if (TAGRV_LIKELY(sums.cnt))
		account(in, peer, &sums);
	return sums.cnt;
}

/* Watches the place of the next message; what is there already counts as a change. */
static inline void watch_next(const struct tagrv_link *link, const struct place *at)
{
	bool is_new = !((at->word ^ at->mark) & 1);

	tagrv_watch_move(link->xport->sink->watch, link->watch_at,
			 head_of(at->slot), is_new ? ~at->word : at->word);
}

size_t tagrv_intake_read(void *owner, const struct tagrv_compq *q,
			 struct fi_cq_tagged_entry *out, size_t count)
{
	/* Constants of the format, so that no entry looks at them. */
	struct tagrv_compq_window window = {
		.at = (char *) out, .left = count, .entry_size = sizeof(*out),
	};
	struct tagrv_link *link = owner;
	const struct tagrv_lane *lane = link->ctx;
	struct tagrv_intake *in = link->intake;
	struct place at;
	uint32_t cnt;

	if (TAGRV_UNLIKELY(!is_plain(lane)) ||
	    TAGRV_UNLIKELY(!has_credit(lane->peer)) ||
	    TAGRV_UNLIKELY(lane->peer->engine->sinks.rx_cq != q))
		return 0;
	at = place_of(in);
	cnt = take(in, lane->peer, &window, &at);
	if (TAGRV_UNLIKELY(!cnt))
		return 0;
	if (TAGRV_UNLIKELY(in->cnt >= in->due))
		link->xport->ops->publish(link);
	/* Not the next one, but the last one was loaded. */
	if (TAGRV_UNLIKELY(cnt == TAGRV_INTAKE_BATCH || !window.left))
		load(&at);
	watch_next(link, &at);
	return cnt;
}

int tagrv_intake_drain(void *owner)
{
	struct tagrv_link *link = owner;
	const struct tagrv_lane *lane = link->ctx;
	struct tagrv_intake *in = link->intake;
	struct tagrv_compq_window *window;
	struct place at;
	uint32_t cnt, sum = 0;

	if (TAGRV_UNLIKELY(!is_plain(lane)))
		return link->xport->ops->drain(link);
	window = &lane->peer->engine->sinks.rx_cq->window;
	at = place_of(in);
	do {
		cnt = has_credit(lane->peer) ? take(in, lane->peer, window, &at) :
					       0;
		sum += cnt;
	} while (TAGRV_UNLIKELY(cnt == TAGRV_INTAKE_BATCH));
	if (TAGRV_UNLIKELY(in->cnt >= in->due))
		link->xport->ops->publish(link);
	load(&at);
	if (TAGRV_UNLIKELY(!window->left)) {
		if (!sum)
			return link->xport->ops->drain(link);
		link->xport->sink->watch->enough = true;
	} else if (TAGRV_UNLIKELY(!((at.word ^ at.mark) & 1))) {
		return (int) sum + link->xport->ops->drain(link);
	}
	watch_next(link, &at);
	return (int) sum;
}
