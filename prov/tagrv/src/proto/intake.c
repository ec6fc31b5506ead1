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

/*
 * The same from what is watched: the word is in that slot, and the lap bit of its idle
 * value is that of the lap before.
 */
static inline struct place place_of_watched(const struct tagrv_watch *watch,
					    uint32_t index)
{
	return (struct place) {
		.slot = (const char *) watch->word[index],
		.mark = (uint16_t) (TAGRV_INTAKE_MARK | (~watch->idle[index] & 1)),
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
 * The slot of the receive that takes the message of len bytes; -1: none, or the message
 * goes the general way. Receives that stay queued ('keep') have plain_end 0.
 */
static inline int find_receive(const struct tagrv_peer *peer,
			       const struct tagrv_posted_block *block,
			       uint32_t len, uint64_t tag, uint64_t *more)
{
	int slot = tagrv_match_quick_find(block, peer->match_id, tag, more);

	return TAGRV_LIKELY(slot >= 0) &&
	       TAGRV_LIKELY(len < tagrv_recv_of(tagrv_match_quick_record(block,
					slot))->plain_end) ? slot : -1;
}

static fi_addr_t source_of(const struct tagrv_peer *peer)
{
	return peer->engine->attr.source ? peer->fi_addr : FI_ADDR_NOTAVAIL;
}

/* Copies the next payload in the arena, and steps past it. */
static __attribute__((noinline)) void copy_long(struct tagrv_intake *in, void *to,
						uint32_t len)
{
	tagrv_copy(to, tagrv_intake_at(in, len), len);
	tagrv_intake_pass(in, len);
}

/* Writes the end of a message into the window. */
static inline void report(const struct tagrv_recv *recv,
			  const struct tagrv_peer *peer,
			  struct tagrv_compq_window *window, uint32_t len,
			  uint64_t flags, uint64_t tag, uint64_t data)
{
	tagrv_trace_recv_complete(recv, peer, recv->context, tag, len, 0);
	tagrv_compq_write(window, &(struct tagrv_comp) {
		.context = recv->context,
		.flags = FI_RECV | FI_TAGGED | flags,
		.len = len,
		.buf = recv->buf,
		.data = data,
		.tag = tag,
		.src = TAGRV_UNLIKELY(window->src != NULL) ?
		       source_of(peer) : FI_ADDR_NOTAVAIL,
	});
}

/* What the messages of one call add up to. */
struct sums {
	uint32_t cnt;
	uint32_t units;		/* of the peer's credit that they used */
	uint32_t credit;	/* that they returned to us */
	uint64_t more;		/* slots compared beyond the first */
};

/* Whatever credit two batches of messages return, there is no more than fits. */
static inline bool has_credit(const struct tagrv_peer *peer)
{
	return TAGRV_LIKELY(peer->credit.left <=
			    UINT32_MAX - 2 * TAGRV_INTAKE_BATCH * UINT16_MAX);
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
			 uint64_t meta, uint64_t tag, uint64_t data,
			 const struct tagrv_match_recv *record)
{
	(void) peer, (void) sums, (void) meta, (void) tag, (void) record;
	(void) data;
	tagrv_trace_tagged_in(peer, peer->rx_seq + sums->cnt, meta, tag, data);
	tagrv_trace_match(tagrv_recv_of_const(record), peer, NULL, 0, tag,
			  TAGRV_META_LEN(meta));
}

/* Whether the message that comes next is there, and may go this way. */
static inline bool is_there(const struct place *at, bool has_data)
{
	return (uint16_t) at->word ==
	       (has_data ? at->mark | TAGRV_INTAKE_DATA : at->mark);
}

/* As take_one(), of a message with or without data: a constant. */
static inline __attribute__((always_inline)) bool
take_kind(struct tagrv_intake *in, const struct tagrv_peer *peer,
	  struct tagrv_posted_block *block, struct tagrv_compq_window *window,
	  struct place *at, struct sums *sums, const bool has_data)
{
	struct tagrv_match *match = peer->engine->match;
	uint64_t tag = tagrv_word_load(at->slot + sizeof(at->word));
	uint64_t more = sums->more, word = at->word;
	uint32_t len = TAGRV_META_LEN(word);
	uint32_t units = sums->units + tagrv_credit_units(len);
	const char *body = at->slot + 2 * sizeof(uint64_t);
	uint64_t data = has_data ? tagrv_word_load(body) : 0;
	const uint32_t data_len = has_data ? sizeof(data) : 0;
	const struct tagrv_recv *recv;
	int slot;

	/* Both break the rules. */
	if (TAGRV_UNLIKELY(len > in->longest) ||
	    TAGRV_UNLIKELY(units > peer->credit.promised))
		return false;
	slot = find_receive(peer, block, len, tag, &more);
	if (TAGRV_UNLIKELY(slot < 0))
		return false;
	step(at, in);
	recv = tagrv_recv_of(tagrv_match_quick_record(block, slot));
	trace(peer, sums, (word & TAGRV_META_SHARED) |
	      (has_data ? TAGRV_META_DATA : 0), tag, data,
	      tagrv_match_quick_record(block, slot));
	tagrv_match_quick_remove(match, block, slot);
	report(recv, peer, window, len, has_data ? FI_REMOTE_CQ_DATA : 0, tag,
	       data);
	if (TAGRV_LIKELY(len <= TAGRV_INTAKE_BYTES - data_len))
		tagrv_copy(recv->buf, body + data_len, len);
	else
		copy_long(in, recv->buf, len);
	sums->more = more;
	sums->units = units;
	sums->credit += TAGRV_META_CREDIT(word);
	sums->cnt++;
	return true;
}

/*
 * Takes the message at *at, where the word was loaded, from peer, which is_plain() and
 * has_credit(), and steps past it. False: nothing has happened.
 */
static inline __attribute__((always_inline)) bool
take_one(struct tagrv_intake *in, const struct tagrv_peer *peer,
	 struct tagrv_posted_block *block, struct tagrv_compq_window *window,
	 struct place *at, struct sums *sums)
{
	if (is_there(at, false))
		return take_kind(in, peer, block, window, at, sums, false);
	return is_there(at, true) &&
	       take_kind(in, peer, block, window, at, sums, true);
}

/*
 * Takes at most TAGRV_INTAKE_BATCH messages of such a peer with or without data (a
 * constant), from the place *at on, where the word was not loaded yet. Returns how many;
 * *at: where the next one is or comes, its word loaded.
 */
static inline __attribute__((always_inline)) uint32_t
take_batch(struct tagrv_intake *in, struct tagrv_peer *peer,
	   struct tagrv_compq_window *window, struct place *at,
	   const bool has_data)
{
	struct tagrv_posted_block *block =
		tagrv_match_quick_posted(peer->engine->match);
	size_t most = TAGRV_MIN(window->left, (size_t) TAGRV_INTAKE_BATCH);
	struct sums sums = { 0 };

	while (sums.cnt < most) {
		load(at);
		if (!is_there(at, has_data) ||
		    TAGRV_UNLIKELY(!take_kind(in, peer, block, window, at, &sums,
					      has_data)))
			break;
	}
	if (TAGRV_UNLIKELY(sums.cnt == most))
		load(at);
	if (TAGRV_LIKELY(sums.cnt))
		account(in, peer, &sums);
	return sums.cnt;
}

/* Watches the place of the next message; what is there already counts as a change. */
static inline void watch_next(struct tagrv_watch *watch, uint32_t index,
			      const struct place *at)
{
	bool is_new = !((at->word ^ at->mark) & 1);

	watch->word[index] = head_of(at->slot);
	watch->idle[index] = is_new ? ~at->word : at->word;
}

/* Lets the peer use what was taken, if that is due, and watches the next message. */
static inline void
end_read(struct tagrv_link *link, struct tagrv_watch *watch, uint32_t index,
	 const struct place *at)
{
	if (tagrv_intake_is_due(link->intake))
		link->xport->ops->publish(link);
	watch_next(watch, index, at);
}

static size_t read_with_data(struct tagrv_watch *watch, uint32_t index,
			     struct tagrv_peer *peer,
			     struct fi_cq_tagged_entry *out, size_t count);

/*
 * Goes on with a read that has taken a message, by a batch of messages without data and
 * one of those with data behind. Returns how many. No local variable is handed to a
 * function that is not inlined: all of them stay in registers.
 */
static inline __attribute__((always_inline)) size_t
read_batch(struct tagrv_watch *watch, uint32_t index, struct tagrv_peer *peer,
	   struct fi_cq_tagged_entry *out, size_t count, const bool has_data)
{
	/* Constants of the format, so that no entry looks at them. */
	struct tagrv_compq_window window = {
		.at = (char *) out, .left = count, .entry_size = sizeof(*out),
	};
	struct tagrv_link *link = watch->what[index].owner;
	struct place at = place_of(link->intake);
	uint32_t cnt = 0;

	/* The messages before have changed both. */
	if (TAGRV_LIKELY(has_credit(peer)) &&
	    TAGRV_LIKELY(tagrv_match_quick_posted(peer->engine->match) != NULL))
		cnt = take_batch(link->intake, peer, &window, &at, has_data);
	else
		load(&at);
	if (!has_data && TAGRV_UNLIKELY(is_there(&at, true)) && cnt < count)
		return cnt + read_with_data(watch, index, peer, out + cnt,
					    count - cnt);
	end_read(link, watch, index, &at);
	return cnt;
}

static __attribute__((noinline)) size_t
read_with_data(struct tagrv_watch *watch, uint32_t index, struct tagrv_peer *peer,
	       struct fi_cq_tagged_entry *out, size_t count)
{
	return read_batch(watch, index, peer, out, count, true);
}

/* Apart, so that a read of one message needs few registers. */
static __attribute__((noinline)) size_t
read_more(struct tagrv_watch *watch, uint32_t index, struct tagrv_peer *peer,
	  struct fi_cq_tagged_entry *out, size_t count)
{
	return read_batch(watch, index, peer, out, count, false);
}

size_t tagrv_intake_read(struct tagrv_watch *watch, uint32_t index,
			 const struct tagrv_compq *q,
			 struct fi_cq_tagged_entry *out, size_t count)
{
	struct tagrv_compq_window window = {
		.at = (char *) out, .left = count, .entry_size = sizeof(*out),
	};
	struct tagrv_link *link = watch->what[index].owner;
	const struct tagrv_lane *lane = link->ctx;
	struct tagrv_intake *in = link->intake;
	struct tagrv_peer *peer = lane->peer;
	struct sums sums = { 0 };
	struct place at;

	if (TAGRV_UNLIKELY(!is_plain(lane)) || TAGRV_UNLIKELY(!has_credit(peer)) ||
	    TAGRV_UNLIKELY(peer->engine->sinks.rx_cq != q) ||
	    TAGRV_UNLIKELY(!count))
		return 0;
	at = place_of_watched(watch, index);
	load(&at);
	if (TAGRV_UNLIKELY(!take_one(in, peer, tagrv_match_quick_posted(
				     peer->engine->match), &window, &at, &sums)))
		return 0;
	account(in, peer, &sums);
	load(&at);
	if ((is_there(&at, false) || is_there(&at, true)) && count > 1)
		return 1 + read_more(watch, index, peer, out + 1, count - 1);
	end_read(link, watch, index, &at);
	return 1;
}

/* At most a batch of messages with data, as take_batch(). */
static __attribute__((noinline)) uint32_t
drain_with_data(struct tagrv_intake *in, struct tagrv_peer *peer,
		struct tagrv_compq_window *window)
{
	struct place at = place_of(in);

	return has_credit(peer) ? take_batch(in, peer, window, &at, true) : 0;
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
	load(&at);
	/* A packet, most probably. */
	if (!is_there(&at, false) && !is_there(&at, true))
		return link->xport->ops->drain(link);
	do {
		cnt = 0;
		if (has_credit(lane->peer))
			cnt = take_batch(in, lane->peer, window, &at, false);
		if (is_there(&at, true)) {
			cnt += drain_with_data(in, lane->peer, window);
			at = place_of(in);
		}
		sum += cnt;
	} while (TAGRV_UNLIKELY(cnt >= TAGRV_INTAKE_BATCH));
	if (tagrv_intake_is_due(in))
		link->xport->ops->publish(link);
	load(&at);
	if (TAGRV_UNLIKELY(!window->left)) {
		if (!sum)
			return link->xport->ops->drain(link);
		link->xport->sink->watch->enough = true;
	} else if (TAGRV_UNLIKELY(!((at.word ^ at.mark) & 1))) {
		return (int) sum + link->xport->ops->drain(link);
	}
	if (TAGRV_LIKELY(link->watch_at >= 0))
		watch_next(link->xport->sink->watch, (uint32_t) link->watch_at,
			   &at);
	return (int) sum;
}
