/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Progress: polls the hot rings, then rings whose bit is set in the bell, then
 * continues operations that wait.
 *
 * A pass without work reads one line per hot ring and one of the bell; all of them
 * stay in this processor's cache until a peer writes to them.
 */
#include <poll.h>
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "xport/shm/shm_priv.h"

/* ---- one ring ---- */

/* Maps the peer's bell if nothing was sent so far, and rings it. */
static TAGRV_COLD void notify_starved(struct shm_link *link)
{
	if (!atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		tagrv_shm_pull(shm_device_of(link->base.xport->dev));
	tagrv_shm_notify(link);
}

void tagrv_shm_publish_head(struct shm_link *link)
{
	shm_rx_publish(&link->rx);
	shm_fence();
	if (TAGRV_UNLIKELY(atomic_load_explicit(&link->rx.hdr->prod.starved,
						memory_order_relaxed)))
		notify_starved(link);
}

static bool on_control(struct shm_link *link, uint64_t word)
{
	uint32_t len = shm_word_len(word);
	const char *body = shm_rx_body(&link->rx, len, SHM_INLINE);

	if (!body)
		return false;
	switch (shm_word_kind(word)) {
	case SHM_GET_REQ:
		return tagrv_shm_on_get_req(link, body, len);
	case SHM_GET_DATA:
		return tagrv_shm_on_get_data(link, body, len);
	case SHM_GET_FAIL:
		return tagrv_shm_on_get_fail(link, body, len);
	case SHM_PUT:
		return tagrv_shm_on_put(link, body, len);
	case SHM_HELP:
		return tagrv_shm_on_help(link, body, len);
	default:
		return false;
	}
}

/*
 * Announces the message behind the next entry, if it has come. Reading its head word
 * also starts the transfer of that line from the peer's cache. Whatever length the peer
 * claims, a body in the slot holds a header.
 */
static inline void announce_next(const struct shm_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;
	const struct shm_rx *rx = &link->rx;
	uint64_t nr = rx->in.cnt + 1, word = shm_rx_load(rx, nr), tag;
	char *slot = shm_slot_at(rx->in.slots, rx->in.mask, nr);

	if (TAGRV_LIKELY(!shm_rx_is_new(rx, word, nr)) || !sink->next_tagged)
		return;
	tag = tagrv_word_load(slot + SHM_HEAD_WORD);
	if (shm_word_kind(word) == SHM_TAGGED ||
	    shm_word_kind(word) == SHM_TAGGED_DATA)
		sink->next_tagged(link->base.ctx, tag);
	else if (shm_word_kind(word) == SHM_PACKET && sink->next_packet &&
		 shm_word_len(word) <= SHM_INLINE)
		sink->next_packet(sink, link->base.ctx, slot + SHM_HEAD_WORD,
				  shm_word_len(word));
}

/* False: the entry is invalid. */
static inline bool take_packet(struct shm_link *link, uint64_t word)
{
	struct tagrv_xport *xport = link->base.xport;
	uint32_t len = shm_word_len(word);
	const char *body = shm_rx_body(&link->rx, len, SHM_INLINE);

	if (TAGRV_UNLIKELY(!body || len > xport->attr.max_packet))
		return false;
	if (TAGRV_UNLIKELY(xport->sink->deep))
		announce_next(link);
	xport->sink->packet(xport->sink, link->base.ctx, body, len);
	shm_rx_advance(&link->rx, len, SHM_INLINE);
	return true;
}

/* room: bytes of the slot behind tag and data. */
static inline bool take_tagged(struct shm_link *link, uint64_t word,
			       uint32_t room)
{
	struct tagrv_xport *xport = link->base.xport;
	const char *slot = shm_rx_slot(&link->rx);
	uint32_t len = shm_word_len(word);
	const char *body = shm_rx_body(&link->rx, len, room);
	uint64_t meta = (word & TAGRV_META_SHARED) |
			(room == SHM_DATA_INLINE ? TAGRV_META_DATA : 0);
	uint64_t tag = tagrv_word_load(slot + SHM_HEAD_WORD), data = 0;

	/* As long as a packet could be: tagged_end is only what this side sends. */
	if (TAGRV_UNLIKELY(!body ||
			   len > xport->attr.max_packet - TAGRV_SHORT_HDR))
		return false;
	if (room == SHM_DATA_INLINE)
		data = tagrv_word_load(slot + SHM_HEAD_WORD + sizeof(tag));
	if (TAGRV_UNLIKELY(xport->sink->deep))
		announce_next(link);
	xport->sink->tagged(link->base.ctx, meta, tag, data, body);
	shm_rx_advance(&link->rx, len, room);
	return true;
}

static bool take_other(struct shm_link *link, uint64_t word)
{
	if (!on_control(link, word))
		return false;
	shm_rx_advance(&link->rx, shm_word_len(word), SHM_INLINE);
	return true;
}

static inline bool consume(struct shm_link *link, uint64_t word)
{
	unsigned kind = shm_word_kind(word);
	bool good;

	if (TAGRV_LIKELY(kind == SHM_TAGGED))
		good = take_tagged(link, word, SHM_TAGGED_INLINE);
	else if (kind == SHM_TAGGED_DATA)
		good = take_tagged(link, word, SHM_DATA_INLINE);
	else if (kind == SHM_PACKET)
		good = take_packet(link, word);
	else
		good = take_other(link, word);
	if (TAGRV_UNLIKELY(!good)) {
		tagrv_shm_link_corrupt(link, "entry");
		return false;
	}
	if (TAGRV_UNLIKELY(tagrv_intake_is_due(&link->rx.in)))
		tagrv_shm_publish_head(link);
	return true;
}

void tagrv_shm_watch_next(struct shm_link *link)
{
	struct shm_rx *rx = &link->rx;
	uint64_t word = shm_rx_load(rx, rx->in.cnt);

	/* An entry that is there already differs from what is called idle. */
	if (shm_rx_is_new(rx, word, rx->in.cnt))
		word = ~word;
	tagrv_watch_move(link->base.xport->sink->watch, link->base.watch_at,
			 shm_head_of(shm_rx_slot(rx)), word);
}

/* Entries of any kind, at most so many, and fewer if many are to be kept: sink->kept. */
static __attribute__((noinline)) unsigned drain_all(struct shm_link *link,
						    unsigned most)
{
	const struct tagrv_sink *sink = link->base.xport->sink;
	uint32_t kept = sink->kept;
	unsigned cnt = 0;
	uint64_t word;

	while (cnt < most && sink->kept - kept < SHM_KEPT && link->rx_open &&
	       shm_rx_peek(&link->rx, &word)) {
		if (!consume(link, word))
			break;
		cnt++;
	}
	if (TAGRV_LIKELY(link->base.watch_at >= 0))
		tagrv_shm_watch_next(link);
	return cnt;
}

unsigned tagrv_shm_drain(struct shm_link *link)
{
	return drain_all(link, SHM_BATCH);
}

int tagrv_shm_drain_hot(void *owner)
{
	struct shm_link *link = owner;
	unsigned cnt = drain_all(link, SHM_BATCH);

	if (!shm_rx_is_published(&link->rx))
		tagrv_shm_publish_wanted(link);
	return (int) cnt;
}

void tagrv_shm_publish(struct tagrv_link *link)
{
	tagrv_shm_publish_head(shm_link_of(link));
}

/* ---- the peer ---- */

/* awaited: something that the link does not know of waits for the peer. */
static bool check_peer(struct shm_link *link, bool awaited)
{
	bool ready = atomic_load_explicit(&link->tx_ready,
					  memory_order_acquire);
	bool closed = ready && atomic_load(&link->tx.hdr->cons.state) &
		SHM_CLOSED;
	bool waits = awaited || link->waits & SHM_WAIT_SEND || link->get_cnt ||
		link->put_cnt;

	if (link->status || link->closing)
		return link->status != 0;
	/* If nothing waits for the peer, the next send finds that it closed. */
	if ((closed && waits) || (!closed && atomic_load(&link->peer_dead)))
		tagrv_shm_link_fail(link, -FI_ECONNRESET);
	return link->status != 0;
}

bool tagrv_shm_check_peer(struct shm_link *link)
{
	return check_peer(link, false);
}

/*
 * The peer's end of the socket that wakes it is handed to nobody, so it is closed with the
 * peer's process.
 */
static bool has_ended(const struct shm_link *link)
{
	struct pollfd pfd = { .fd = link->peer_wake_fd };

	return poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP;
}

/* A peer without a kept socket tells nobody else that it closes. */
void tagrv_shm_check(struct tagrv_link *base, bool awaited)
{
	struct shm_link *link = shm_link_of(base);

	if (awaited && atomic_load_explicit(&link->tx_ready, memory_order_acquire) &&
	    link->unwatched && has_ended(link))
		atomic_store(&link->peer_dead, 1);
	(void) check_peer(link, awaited);
}

/* ---- a pass ---- */

static unsigned poll_hot(struct shm_xport *xp)
{
	unsigned events = 0;

	for (unsigned i = 0; i < xp->hot_cnt; i++) {
		struct shm_link *link = xp->hot[i];

		if (shm_rx_has(&link->rx)) {
			link->last_pass = xp->pass;
			link->seen = link->rx.in.cnt;
			events += tagrv_shm_drain(link);
		} else if (!shm_rx_is_published(&link->rx)) {
			tagrv_shm_publish_wanted(link);
		}
	}
	xp->polls += xp->hot_cnt;
	return events;
}

static void check_waiting(struct shm_xport *xp)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&xp->waiting, pos)
		tagrv_shm_check_peer(tagrv_container_of(pos, struct shm_link,
							wait_node));
}

/* Work on the lists of links and gets. */
static TAGRV_COLD unsigned work_on_lists(struct shm_xport *xp)
{
	unsigned events = 0;

	events += tagrv_shm_cma_pass(xp);
	events += tagrv_shm_request_pass(xp);
	events += tagrv_shm_serve_pass(xp);
	events += tagrv_shm_put_pass(xp);
	events += tagrv_shm_assist_pass(xp);
	check_waiting(xp);
	tagrv_shm_look_for_room(xp);
	events += tagrv_shm_report(xp, true);
	events += tagrv_shm_links_finish(xp);
	xp->slow = !tagrv_list_empty(&xp->cma_gets) ||
		!tagrv_list_empty(&xp->queued_gets) ||
		!tagrv_list_empty(&xp->serving) ||
		!tagrv_list_empty(&xp->putting) ||
		!tagrv_list_empty(&xp->helping) ||
		!tagrv_list_empty(&xp->waiting) ||
		!tagrv_list_empty(&xp->starved) ||
		!tagrv_list_empty(&xp->failed) ||
		!tagrv_list_empty(&xp->closing);
	return events;
}

/* Work that need not be done in every pass. */
static TAGRV_COLD void rare_work(struct shm_xport *xp)
{
	struct shm_device *dev = shm_device_of(xp->base.dev);

	if (atomic_load(&dev->unpushed_cnt))
		tagrv_shm_pull(dev);
	tagrv_shm_cool_idle(xp);
}

/* Whether the next pass has something to do that no watched word tells of. */
static inline bool has_more(const struct shm_xport *xp)
{
	return xp->slow || xp->room_due || xp->armed ||
	       xp->done_head != xp->done_tail;
}

int tagrv_shm_progress(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);
	unsigned events = 0;

	if (TAGRV_UNLIKELY(xp->armed)) {
		if (!tagrv_shm_disarm_if_work(xp)) {
			tagrv_watch_attend(xport->sink->watch);
			return 0;
		}
		events++;	/* else the caller would sleep again */
	}
	xp->pass++;
	if (xp->done_head != xp->done_tail)
		events += tagrv_shm_run_dones(xp);
	events += poll_hot(xp);
	if (TAGRV_UNLIKELY(atomic_load_explicit(&xp->bell->summary,
						memory_order_relaxed)))
		events += tagrv_shm_visit_bits(xp);
	if (TAGRV_UNLIKELY(xp->slow))
		events += work_on_lists(xp);
	if (TAGRV_UNLIKELY(xp->room_due)) {
		xp->room_due = false;
		xport->sink->room(xport->sink);
		events++;
	}
	if (TAGRV_UNLIKELY(xp->pass % SHM_RARE_PASSES == 0))
		rare_work(xp);
	if (TAGRV_UNLIKELY(has_more(xp)))
		tagrv_watch_attend(xport->sink->watch);
	return (int) events;
}
