/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends packets, runs done callbacks, and announces room.
 *
 * A send writes its packet into the peer's ring and is complete with that. Its done
 * record is queued only because a callback must not run inside the call.
 *
 *   send: -FI_EAGAIN --> link is in xp->starved, prod.starved is set
 *   consumer publishes its head, sees prod.starved --> rings our bell
 *   progress, reap: the link has room --> sink->room
 *
 *   send_tagged: -FI_EAGAIN --> link is in xp->refused; the caller repeats its call
 *   arm: all of xp->refused go to xp->starved, so that a caller that sleeps is woken
 *
 * send_short and send_tagged do the easy cases only: the link is open, there is room, and
 * nothing has to be called back. All others are send's.
 *
 * The producer sets prod.starved and then reads head once more; the consumer
 * publishes head and then reads prod.starved. With a full barrier in between on
 * both sides, one of the two sees the other.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "xport/shm/shm_priv.h"

/* ---- room ---- */

/* Whether an entry with so many bytes in the arena fits by what is known. */
static inline bool fits(const struct shm_tx *tx, uint32_t bytes,
			enum shm_leave leave)
{
	uint32_t slots = 0, reserve = 0;

	if (leave != SHM_LEAVE_NOTHING) {
		slots = SHM_RESERVE;
		reserve = SHM_RESERVE_BYTES;
	}
	if (leave == SHM_LEAVE_QUARTER) {
		slots += (tx->mask + 1) / 4;
		reserve += tx->arena_size / 4;
	}
	return shm_tx_fits(tx, bytes, slots, reserve);
}

static TAGRV_COLD bool refresh_and_look(struct shm_link *link, uint32_t bytes,
					enum shm_leave leave)
{
	struct shm_tx *tx = &link->tx;

	if (!shm_tx_refresh(tx)) {
		tagrv_shm_link_corrupt(link, "head");
		return false;
	}
	if (link->tx_open)
		shm_tx_open(tx);
	return fits(tx, bytes, leave);
}

static inline bool has_room(struct shm_link *link, uint32_t bytes,
			    enum shm_leave leave)
{
	return TAGRV_LIKELY(fits(&link->tx, bytes, leave)) ||
	       refresh_and_look(link, bytes, leave);
}

/* Bytes of the arena that an entry with shm_tx_body() takes. */
static inline uint32_t bytes_of(const struct shm_tx *tx, uint32_t len)
{
	return len <= SHM_INLINE ? 0 : shm_tx_arena_cost(tx, len);
}

bool tagrv_shm_tx_room(struct shm_link *link, uint32_t len,
		       enum shm_leave leave)
{
	return has_room(link, bytes_of(&link->tx, len), leave);
}

/* A call has returned -FI_EAGAIN: the least that any of them needs is announced. */
static void start_waiting(struct shm_link *link, enum shm_leave leave,
			  uint32_t len)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (!tagrv_list_linked(&link->starved_node)) {
		tagrv_list_push_tail(&xp->starved, &link->starved_node);
		for (int i = 0; i < SHM_LEAVES; i++)
			link->need[i] = SHM_NEEDS_NONE;
	}
	link->need[leave] = TAGRV_MIN(link->need[leave], len);
	tagrv_shm_set_slow(xp);
	/* Progress reads head again. */
	tagrv_shm_wake_if_armed(xp);
}

void tagrv_shm_starve(struct shm_link *link, enum shm_wait why)
{
	if (link->waits & why ||
	    !atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		return;
	link->waits |= why;
	atomic_store(&link->tx.hdr->prod.starved, 1);
	shm_fence();
	/* The consumer may have an unpublished head, and find no more entries. */
	tagrv_shm_ring_bell(link);
}

void tagrv_shm_starve_send(struct shm_link *link, enum shm_leave leave,
			   uint32_t len)
{
	start_waiting(link, leave, len);
	tagrv_shm_starve(link, SHM_WAIT_SEND);
}

void tagrv_shm_starve_refused(struct shm_xport *xp)
{
	struct tagrv_list *node;

	while (TAGRV_UNLIKELY((node = tagrv_list_pop(&xp->refused)) != NULL)) {
		struct shm_link *link =
			tagrv_container_of(node, struct shm_link, refused_node);

		tagrv_shm_starve_send(link, SHM_LEAVE_RESERVE, link->refused_len);
	}
}

void tagrv_shm_unstarve(struct shm_link *link, enum shm_wait why)
{
	link->waits &= ~(unsigned) why;
	if (!link->waits && atomic_load_explicit(&link->tx_ready,
						 memory_order_acquire))
		atomic_store_explicit(&link->tx.hdr->prod.starved, 0,
				      memory_order_relaxed);
}

bool tagrv_shm_has_room(struct shm_link *link)
{
	if (!link->tx_open && !tagrv_shm_tx_open(link))
		return link->status != 0;
	for (int i = 0; i < SHM_LEAVES; i++)
		if (link->need[i] != SHM_NEEDS_NONE &&
		    tagrv_shm_tx_room(link, link->need[i], (enum shm_leave) i))
			return true;
	return link->status != 0;
}

void tagrv_shm_look_for_room(struct shm_xport *xp)
{
	struct tagrv_list *pos, *tmp;

	tagrv_list_for_each_safe(&xp->starved, pos, tmp) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, starved_node);

		if (!tagrv_shm_check_peer(link) && !tagrv_shm_has_room(link))
			continue;
		tagrv_list_remove(&link->starved_node);
		tagrv_shm_unstarve(link, SHM_WAIT_SEND);
		xp->room_due |= !link->status && !link->closing;
	}
}

/* ---- send ---- */

bool tagrv_shm_tx_open(struct shm_link *link)
{
	if (link->status || link->closing || !link->bound)
		return false;
	if (!atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		tagrv_shm_pull(shm_device_of(link->base.xport->dev));
	link->tx_open = atomic_load_explicit(&link->tx_ready,
					     memory_order_acquire);
	if (link->tx_open)
		shm_tx_open(&link->tx);
	return link->tx_open;
}

void tagrv_shm_tx_shut(struct shm_link *link)
{
	link->tx_open = false;
	shm_tx_shut(&link->tx);
}

/* Why a send must fail now: -FI_ENOTCONN, or -FI_EAGAIN and the link starves. */
static TAGRV_COLD int no_room(struct shm_link *link, enum shm_leave leave,
			      size_t len)
{
	if (link->status || link->closing || !link->bound ||
	    tagrv_shm_check_peer(link))
		return -FI_ENOTCONN;
	tagrv_shm_starve_send(link, leave, (uint32_t) len);
	return -FI_EAGAIN;
}

TAGRV_COLD void tagrv_shm_tx_check_state(struct shm_link *link, uint32_t state)
{
	if (state & SHM_CLOSED)
		tagrv_shm_link_fail(link, -FI_ECONNRESET);
	if (!(state & (SHM_POLLED | SHM_CLOSED)))
		tagrv_shm_ring_bell(link);
}

static inline bool dones_full(struct shm_xport *xp)
{
	if (TAGRV_LIKELY(xp->done_tail - xp->done_head < SHM_DONES))
		return false;
	xp->dones_full = true;
	return true;
}

static inline void push_done(struct shm_xport *xp, struct shm_link *link,
			     struct tagrv_done *done)
{
	xp->dones[xp->done_tail++ % SHM_DONES] = (struct shm_done) {
		.done = done, .link = link, .status = link->status,
	};
	link->queued++;
	tagrv_watch_attend(xp->base.sink->watch);
	tagrv_shm_wake_if_armed(xp);
}

/* Behind every entry. */
static inline void after_publish(struct shm_link *link)
{
	uint32_t state = shm_tx_state(&link->tx);

	if (TAGRV_UNLIKELY(state != SHM_POLLED))
		tagrv_shm_tx_check_state(link, state);
}

void tagrv_shm_tx_finish(struct shm_link *link, enum shm_kind kind, uint32_t len)
{
	bool answer = kind == SHM_GET_DATA || kind == SHM_GET_FAIL;
	uint32_t state;

	shm_tx_publish_body(&link->tx, kind, len);
	state = shm_tx_state(&link->tx);
	/* A peer that has closed wants no answer any more: that is no error. */
	if (TAGRV_UNLIKELY(state != SHM_POLLED) &&
	    !(answer && state & SHM_CLOSED))
		tagrv_shm_tx_check_state(link, state);
}

int tagrv_shm_send(struct tagrv_link *base, const struct iovec *iov, size_t cnt,
		   unsigned flags, struct tagrv_done *done)
{
	enum shm_leave leave = flags & TAGRV_SEND_CTRL ? SHM_LEAVE_NOTHING :
							 SHM_LEAVE_RESERVE;
	struct shm_link *link = shm_link_of(base);
	struct shm_xport *xp = shm_xport_of_link(link);
	size_t len = tagrv_iov_len(iov, cnt);
	char *body;

	if (TAGRV_UNLIKELY(!link->tx_open) && !tagrv_shm_tx_open(link))
		return no_room(link, leave, 0);
	if (TAGRV_UNLIKELY(len > link->tx.max_packet))
		return -FI_EMSGSIZE;
	if (TAGRV_UNLIKELY(!tagrv_shm_tx_room(link, (uint32_t) len, leave)))
		return no_room(link, leave, len);
	if (TAGRV_UNLIKELY(done && dones_full(xp)))
		return -FI_EAGAIN;
	body = shm_tx_body(&link->tx, (uint32_t) len);
	for (size_t i = 0; i < cnt; i++) {
		tagrv_copy(body, iov[i].iov_base, iov[i].iov_len);
		body += iov[i].iov_len;
	}
	tagrv_shm_tx_finish(link, SHM_PACKET, (uint32_t) len);
	if (done)
		push_done(xp, link, done);
	return 0;
}

static inline bool is_roomy(const struct shm_tx *tx, uint32_t bytes)
{
	return tx->gate.cnt < tx->gate.end &&
	       (!bytes || tx->arena_tail + bytes + SHM_RESERVE_BYTES <=
			  tx->arena_limit);
}

static TAGRV_COLD bool refresh_and_look_again(struct shm_link *link,
					      uint32_t bytes)
{
	return refresh_and_look(link, bytes, SHM_LEAVE_RESERVE) &&
	       is_roomy(&link->tx, bytes);
}

/* Whether the short forms can be used now on an open link: bytes of the arena. */
static inline bool is_easy(struct shm_link *link, uint32_t bytes)
{
	return TAGRV_LIKELY(is_roomy(&link->tx, bytes)) ||
	       refresh_and_look_again(link, bytes);
}

int tagrv_shm_send_short(struct tagrv_link *base,
			 const uint64_t hdr[TAGRV_SHORT_WORDS],
			 const void *payload, size_t len)
{
	struct shm_link *link = shm_link_of(base);
	uint32_t total = (uint32_t) (TAGRV_SHORT_HDR + len);
	struct shm_tx *tx = &link->tx;
	char *body;

	/* Until it is open, another thread may be writing to tx. */
	if (TAGRV_UNLIKELY(!link->tx_open || total > tx->max_packet ||
			   !is_easy(link, bytes_of(tx, total))))
		return -FI_EAGAIN;
	body = shm_tx_body(tx, total);
#pragma GCC unroll 4
	for (int i = 0; i < TAGRV_SHORT_WORDS; i++)
		tagrv_word_copy(body + (size_t) i * sizeof(*hdr), &hdr[i]);
	tagrv_copy(body + TAGRV_SHORT_HDR, payload, len);
	shm_tx_publish_body(tx, SHM_PACKET, total);
	after_publish(link);
	return 0;
}

/*
 * The caller repeats its call, and learns of room that way; so nothing is asked of the
 * peer until the caller goes to sleep. It must find out that the peer has gone.
 * len: bytes of the body.
 */
static TAGRV_COLD int no_room_for_tagged(struct shm_link *link, uint32_t len)
{
	if (!tagrv_list_linked(&link->refused_node)) {
		tagrv_list_push_tail(&shm_xport_of_link(link)->refused,
				     &link->refused_node);
		link->refused_len = len;
	}
	link->refused_len = TAGRV_MIN(link->refused_len, len);
	if (shm_tx_state(&link->tx) & SHM_CLOSED)
		tagrv_shm_link_fail(link, -FI_ECONNRESET);
	else
		tagrv_shm_check_peer(link);
	return -FI_EAGAIN;
}

/* A tagged message whose payload goes to the arena. */
static __attribute__((noinline)) ssize_t
send_tagged_long(struct shm_link *link, uint64_t word, uint64_t tag,
		 uint64_t data, const void *payload)
{
	uint32_t len = shm_word_len(word);
	struct shm_tx *tx = &link->tx;
	char *slot = shm_tx_slot(tx);

	/* The peer may take less than this side's attr.tagged_end. */
	if (len + TAGRV_SHORT_HDR > tx->max_packet)
		return -FI_EAGAIN;
	if (!is_easy(link, shm_tx_arena_cost(tx, len)))
		return no_room_for_tagged(link, TAGRV_MAX(len, SHM_INLINE + 1));
	tagrv_copy(shm_tx_arena(tx, len), payload, len);
	memcpy(slot + SHM_HEAD_WORD, &tag, sizeof(tag));
	/* Ignored in an entry without data. */
	memcpy(slot + SHM_HEAD_WORD + sizeof(tag), &data, sizeof(data));
	shm_tx_use_arena(tx, len);
	shm_tx_publish(tx, word);
	after_publish(link);
	return 0;
}

/* Long, or where the gate is not open. */
static __attribute__((noinline)) ssize_t
send_tagged_other(struct tagrv_link *base, uint64_t meta, uint64_t tag,
		  uint64_t data, const void *payload)
{
	bool has_data = meta & TAGRV_META_DATA;
	uint64_t word = (meta & TAGRV_META_SHARED) |
			shm_word(has_data ? SHM_TAGGED_DATA : SHM_TAGGED, 0, 0);
	uint32_t len = TAGRV_META_LEN(meta);
	struct shm_link *link = shm_link_of(base);
	struct shm_tx *tx = &link->tx;
	char *to;

	/* Until it is open, another thread may be writing to tx. */
	if (TAGRV_UNLIKELY(!link->tx_open))
		return -FI_EAGAIN;
	if (len > (has_data ? SHM_DATA_INLINE : SHM_TAGGED_INLINE))
		return send_tagged_long(link, word, tag, data, payload);
	if (TAGRV_UNLIKELY(!is_easy(link, 0)))
		return no_room_for_tagged(link, 0);
	to = shm_tx_slot(tx) + SHM_HEAD_WORD;
	memcpy(to, &tag, sizeof(tag));
	to += sizeof(tag);
	if (has_data) {
		memcpy(to, &data, sizeof(data));
		to += sizeof(data);
	}
	tagrv_copy(to, payload, len);
	shm_tx_publish(tx, word);
	after_publish(link);
	return 0;
}

/* The peer does not poll, or has closed. Returns 0: the message was sent. */
static TAGRV_COLD ssize_t check_state(struct shm_link *link, uint32_t state)
{
	tagrv_shm_tx_check_state(link, state);
	return 0;
}

/* All that is rare leaves by tail calls, so that nothing has to be saved here. */
static inline __attribute__((always_inline)) ssize_t
send_tagged_short(struct tagrv_link *base, uint64_t meta, uint64_t tag,
		  uint64_t data, const void *payload, const bool has_data)
{
	const size_t data_len = has_data ? sizeof(data) : 0;
	struct shm_link *link = shm_link_of(base);
	size_t len = TAGRV_META_LEN(meta);
	struct shm_tx *tx = &link->tx;
	uint64_t nr = tx->gate.cnt;
	uint32_t state;
	char *slot;

	if (TAGRV_UNLIKELY(len > SHM_TAGGED_INLINE - data_len ||
			   nr >= tx->gate.end))
		return send_tagged_other(base, meta, tag, data, payload);
	slot = shm_slot_at(tx->data, tx->mask, nr);
	memcpy(slot + SHM_HEAD_WORD, &tag, sizeof(tag));
	memcpy(slot + SHM_HEAD_WORD + sizeof(tag), &data, data_len);
	tagrv_copy(slot + SHM_HEAD_WORD + sizeof(tag) + data_len, payload, len);
	tx->gate.cnt = nr + 1;
	atomic_store_explicit(shm_head_of(slot), (meta & TAGRV_META_SHARED) |
			      shm_word(has_data ? SHM_TAGGED_DATA : SHM_TAGGED,
				       0, 0) |
			      shm_lap(nr, tx->shift), memory_order_release);
	/* A few slots further; behind the last one, memory of the arena. */
	shm_prefetch_write(slot + (1 + SHM_FETCH_AHEAD) * SHM_STRIDE);
	atomic_signal_fence(memory_order_seq_cst);
	state = atomic_load_explicit(&tx->hdr->cons.state, memory_order_relaxed);
	if (TAGRV_UNLIKELY(state != SHM_POLLED))
		return check_state(link, state);
	return 0;
}

static __attribute__((noinline)) ssize_t
send_tagged_data(struct tagrv_link *base, uint64_t meta, uint64_t tag,
		 uint64_t data, const void *payload)
{
	return send_tagged_short(base, meta, tag, data, payload, true);
}

ssize_t tagrv_shm_send_tagged(struct tagrv_link *base, uint64_t meta, uint64_t tag,
			  uint64_t data, const void *payload)
{
	if (TAGRV_UNLIKELY(meta & TAGRV_META_DATA))
		return send_tagged_data(base, meta, tag, data, payload);
	return send_tagged_short(base, meta, tag, data, payload, false);
}

/* ---- done ---- */

/* A failed record runs after link_error, which may have to wait for progress. */
static bool must_wait(const struct shm_done *d)
{
	return d->status && !d->link->reported && !d->link->closing;
}

/* Records that a callback adds wait for the next call. */
unsigned tagrv_shm_run_dones(struct shm_xport *xp)
{
	uint32_t end = xp->done_tail;
	unsigned events = 0;

	if (xp->running_dones)
		return 0;
	xp->running_dones = true;
	while (xp->done_head != end) {
		struct shm_done d = xp->dones[xp->done_head % SHM_DONES];

		if (must_wait(&d))
			break;
		xp->done_head++;
		d.link->queued--;
		d.done->fn(d.done, d.status);
		events++;
	}
	xp->running_dones = false;
	if (TAGRV_UNLIKELY(xp->dones_full && events)) {
		xp->dones_full = false;
		xp->room_due = true;
	}
	return events;
}

int tagrv_shm_reap(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);
	unsigned events = 0;

	if (TAGRV_UNLIKELY(!tagrv_list_empty(&xp->failed)))
		events += tagrv_shm_report(xp, false);
	events += tagrv_shm_run_dones(xp);
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&xp->starved)))
		tagrv_shm_look_for_room(xp);
	if (TAGRV_UNLIKELY(xp->room_due)) {
		xp->room_due = false;
		xport->sink->room(xport->sink);
		events++;
	}
	return (int) events;
}
