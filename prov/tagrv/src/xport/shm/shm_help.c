/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Gets that both sides copy: the issuer from the front with process_vm_readv, the
 * owner of the memory from the back with process_vm_writev.
 *
 *   issuer                                  owner
 *   record: claim = ack = (seq, 0, 0)
 *   SHM_HELP entry ---------------------->  may ignore it
 *   claims chunks from the front            claims a chunk from the back
 *   copies them                             copies it; ack = number of chunks copied
 *   ...                                     ...
 *   nothing left to claim, and
 *   ack == chunks claimed from the back:
 *   the get is complete
 *
 *   chunk    0     1     2     3     4     5     6     7
 *            |---- front ---->                 <--- back |
 *
 * The record is a line in the header of the issuer's ring (struct shm_help_line). A
 * claim is one compare-and-swap of a word with the number of the get and both counts,
 * so no chunk is claimed twice, and a claim for an earlier get fails. Nothing waits for
 * the owner: an owner that does something else claims nothing. A chunk that it has
 * claimed must be waited for, because it may still be written to.
 *
 *   end of a helped get             what happens
 *   complete                        record is free
 *   owner cannot copy (ack: FAILED) record is free; the issuer copies everything
 *   error, close                    the claim word is closed, so that the owner can
 *                                   claim nothing more; then its last chunk is waited
 *                                   for, until it is copied, or the owner has closed
 *                                   its link or died. A living owner needs
 *                                   microseconds; one that was stopped in between
 *                                   delays the end by SHM_HELP_WAIT_MS
 *
 * In a crowd (sink->crowded) nobody asks for help and nobody helps: the processor has
 * other things to do.
 */
#include <rdma/fi_errno.h>
#include <sched.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/shm/shm_priv.h"

#define CHUNK_MIN	4096u		/* bytes; a peer must not ask for less */
#define CLAIM_MAX	UINT16_MAX	/* chunks of a get */
#define OFFERS		4u		/* gets at the head of the list, looked at */

/* ---- words of a record ---- */

#define ACK_FAILED	(UINT64_C(1) << 16)

static uint64_t word_of(uint32_t seq, uint32_t front, uint32_t back)
{
	return (uint64_t) seq << 32 | front << 16 | back;
}

static uint32_t seq_of(uint64_t word)
{
	return (uint32_t) (word >> 32);
}

static uint32_t front_of(uint64_t word)
{
	return (uint16_t) (word >> 16);
}

static uint32_t back_of(uint64_t word)
{
	return (uint16_t) word;
}

static uint32_t chunks_of(uint64_t len, uint32_t chunk)
{
	uint64_t cnt = len / chunk + !!(len % chunk);

	return (uint32_t) TAGRV_MIN(cnt, (uint64_t) CLAIM_MAX + 1);
}

/* ---- the issuer: asking ---- */

static struct shm_help_line *own_line(const struct shm_link *link,
				      const struct shm_help *help)
{
	return &link->rx.hdr->helps[help - link->helps];
}

/* Many chunks let both sides end at the same time, few cost less. */
static uint32_t choose_chunk(uint64_t len)
{
	if (len < 128u << 10)
		return 32u << 10;
	return len < 512u << 10 ? 64u << 10 : 128u << 10;
}

static struct shm_help *free_record(struct shm_link *link)
{
	for (unsigned i = 0; i < SHM_HELPS; i++)
		if (!link->helps[i].get)
			return &link->helps[i];
	return NULL;
}

/* Whether the owner will see the entry soon, without being woken. */
static bool is_awake(struct shm_link *link, uint32_t len)
{
	return link->tx_open && shm_tx_state(&link->tx) == SHM_POLLED &&
	       tagrv_shm_tx_room(link, len, SHM_LEAVE_QUARTER);
}

static void ask(struct shm_get *get, struct shm_help *help)
{
	struct shm_link *link = get->link;
	struct shm_help_line *line = own_line(link, help);
	struct shm_help_req req = {
		.record = (uint32_t) (help - link->helps),
		.seq = ++link->help_seq,
		.raddr = get->raddr, .addr = (uintptr_t) get->addr,
		.len = get->len, .secret = get->secret, .index = get->index,
		.chunk = choose_chunk(get->len),
	};

	*help = (struct shm_help) {
		.get = get, .seq = req.seq, .chunk = req.chunk,
		.chunks = chunks_of(req.len, req.chunk),
	};
	get->help = help;
	atomic_store(&line->ack, word_of(req.seq, 0, 0));
	atomic_store(&line->claim, word_of(req.seq, 0, 0));
	memcpy(shm_tx_body(&link->tx, sizeof(req)), &req, sizeof(req));
	tagrv_shm_tx_finish(link, SHM_HELP, sizeof(req));
}

/* Asks once per get at most. */
static void consider(struct shm_get *get)
{
	struct shm_link *link = get->link;
	struct shm_help *help = free_record(link);

	if (get->asked || get->copied || !link->cma || !help ||
	    get->len < shm_xport_of_link(link)->help_min ||
	    !get->index || get->index >= SHM_TABLE)
		return;
	get->asked = true;
	if (is_awake(link, sizeof(struct shm_help_req)))
		ask(get, help);
}

void tagrv_shm_help_ask(struct shm_xport *xp)
{
	unsigned left = OFFERS;
	struct tagrv_list *pos;

	if (xp->base.sink->crowded)
		return;
	tagrv_list_for_each(&xp->cma_gets, pos) {
		if (!left--)
			break;
		consider(tagrv_container_of(pos, struct shm_get, node));
	}
}

/* ---- the issuer: copying ---- */

/* Chunks for one call: no more than half of what is left, so that both end together. */
static uint32_t share_of(const struct shm_help *help, uint32_t left)
{
	uint32_t most = TAGRV_MAX(SHM_CMA_PIECE / help->chunk, 1u);

	return TAGRV_MIN(most, (left + 1) / 2);
}

/*
 * Claims chunks from the front, *cnt of them (0: none is left), and learns how many the
 * owner has claimed. False: the word is invalid.
 */
static bool claim_front(const struct shm_link *link, struct shm_help *help,
			uint32_t *cnt)
{
	struct shm_help_line *line = own_line(link, help);
	uint64_t word = atomic_load(&line->claim);
	uint32_t got;

	do {
		if (seq_of(word) != help->seq || front_of(word) != help->front ||
		    back_of(word) < help->back ||
		    back_of(word) > help->chunks - help->front)
			return false;
		help->back = back_of(word);
		got = share_of(help, help->chunks - help->front - help->back);
	} while (got && !atomic_compare_exchange_weak(&line->claim, &word,
						      word + (got << 16)));
	*cnt = got;
	return true;
}

/* How many chunks the owner has copied; false: the word is invalid. */
static bool read_ack(const struct shm_link *link, const struct shm_help *help,
		     uint32_t *acked, bool *failed)
{
	uint64_t word = atomic_load(&own_line(link, help)->ack);

	*acked = back_of(word);
	*failed = word & ACK_FAILED;
	return seq_of(word) == help->seq && *acked <= help->chunks;
}

static bool is_outstanding(const struct shm_link *link,
			   const struct shm_help *help)
{
	uint32_t acked;
	bool failed;

	return read_ack(link, help, &acked, &failed) && !failed &&
	       acked < help->back;
}

/* A peer that has closed its link has finished what it claimed. */
static bool has_ended(const struct shm_link *link)
{
	return atomic_load(&link->peer_dead) ||
	       atomic_load(&link->tx.hdr->cons.state) & SHM_CLOSED;
}

/* The owner may still write the last chunk that it has claimed. */
static TAGRV_COLD void wait_for_owner(const struct shm_link *link,
				      const struct shm_help *help)
{
	uint64_t end = tagrv_clock_ms() + shm_xport_of_link(link)->help_wait_ms;

	while (is_outstanding(link, help) && !has_ended(link)) {
		if (tagrv_clock_ms() >= end) {
			tagrv_warn("shm: process %d claimed a part of a message "
				   "and does not go on: if it was stopped, it may "
				   "write to the receive's buffer when it is "
				   "continued\n", link->peer_pid);
			return;
		}
		sched_yield();
	}
}

void tagrv_shm_help_end(struct shm_get *get)
{
	struct shm_link *link = get->link;
	struct shm_help *help = get->help;
	uint64_t word;

	if (!help)
		return;
	word = atomic_exchange(&own_line(link, help)->claim,
			       word_of(help->seq, CLAIM_MAX, CLAIM_MAX));
	/* A peer that wrote another number has to live with what follows. */
	if (seq_of(word) == help->seq && back_of(word) <= help->chunks)
		help->back = back_of(word);
	/* What a peer does that wrote invalid data cannot be known anyway. */
	if (TAGRV_UNLIKELY(!link->corrupt && is_outstanding(link, help)))
		wait_for_owner(link, help);
	help->get = NULL;
	get->help = NULL;
}

static uint64_t begin_of(const struct shm_help *help, uint32_t chunk, uint64_t len)
{
	return TAGRV_MIN((uint64_t) chunk * help->chunk, len);
}

/* Copies the chunks that were claimed last. */
static void copy_front(struct shm_get *get, uint32_t cnt)
{
	struct shm_help *help = get->help;
	uint64_t from = begin_of(help, help->front, get->len);
	uint64_t to = begin_of(help, help->front + cnt, get->len);
	int err = tagrv_shm_cma_read(get, from, (size_t) (to - from));

	help->front += cnt;
	if (err)
		tagrv_shm_cma_error(get, err);
}

/* Nothing is left to claim. Returns the events. */
static unsigned finish_if_complete(struct shm_get *get)
{
	struct shm_help *help = get->help;
	uint32_t acked;
	bool failed;

	if (!read_ack(get->link, help, &acked, &failed) || acked > help->back) {
		tagrv_shm_link_corrupt(get->link, "count of copied chunks");
		return 1;
	}
	if (!failed && acked < help->back) {
		tagrv_shm_check_peer(get->link);
		return 0;
	}
	tagrv_shm_help_end(get);
	if (!failed)
		tagrv_shm_get_finish(get, 0);
	/* else the next pass copies everything without help */
	return 1;
}

unsigned tagrv_shm_help_pass(struct shm_get *get)
{
	struct shm_link *link = get->link;
	uint32_t cnt;

	if (link->status)	/* reported soon: its gets end then */
		return 0;
	if (!link->cma) {
		tagrv_shm_help_end(get);
		return 1;
	}
	if (!claim_front(link, get->help, &cnt)) {
		tagrv_shm_link_corrupt(link, "claim of chunks");
		return 1;
	}
	if (!cnt)
		return finish_if_complete(get);
	copy_front(get, cnt);
	return 1;
}

/* ---- the owner ---- */

bool tagrv_shm_on_help(struct shm_link *link, const char *body, size_t len)
{
	struct shm_xport *xp = shm_xport_of_link(link);
	struct shm_help_req req;

	if (len != sizeof(req))
		return false;
	memcpy(&req, body, sizeof(req));
	if (req.record >= SHM_HELPS || req.chunk < CHUNK_MIN || !req.len ||
	    chunks_of(req.len, req.chunk) > CLAIM_MAX)
		return false;
	/* tx_ready: the record can be written to. */
	if (!link->cma || !atomic_load(&link->tx_ready) ||
	    xp->base.sink->crowded || link->status || link->closing)
		return true;
	link->assists[req.record] = (struct shm_assist) {
		.req = req, .active = true,
	};
	if (!tagrv_list_linked(&link->help_node))
		tagrv_list_push_tail(&xp->helping, &link->help_node);
	tagrv_shm_set_slow(xp);
	return true;
}

/* Claims the chunk that is next from the back. False: there is none. */
static bool claim_back(struct shm_help_line *line, const struct shm_assist *assist)
{
	uint32_t chunks = chunks_of(assist->req.len, assist->req.chunk);
	uint64_t word = atomic_load(&line->claim);

	do {
		if (seq_of(word) != assist->req.seq ||
		    back_of(word) != assist->done ||
		    front_of(word) + back_of(word) >= chunks)
			return false;
	} while (!atomic_compare_exchange_weak(&line->claim, &word, word + 1));
	return true;
}

/* Copies the chunk that was claimed, and says so. */
static void copy_back(struct shm_link *link, struct shm_help_line *line,
		      struct shm_assist *assist)
{
	const struct shm_help_req *req = &assist->req;
	uint64_t last = chunks_of(req->len, req->chunk) - 1;
	uint64_t at = (last - assist->done) * req->chunk;
	size_t len = (size_t) TAGRV_MIN((uint64_t) req->chunk, req->len - at);
	bool good = tagrv_shm_mem_give(shm_device_of(link->base.xport->dev),
				       req->index, req->secret, req->raddr + at,
				       link->peer_pid, req->addr + at, len);

	assist->active = good;
	assist->done += good;
	atomic_store(&line->ack, word_of(req->seq, 0, assist->done) |
				 (good ? 0 : ACK_FAILED));
	shm_xport_of_link(link)->helped += good;
}

/* The older one of the link's requests, with which the issuer is busy, too. */
static struct shm_assist *oldest(struct shm_link *link)
{
	struct shm_assist *found = NULL;

	for (unsigned i = 0; i < SHM_HELPS; i++) {
		struct shm_assist *assist = &link->assists[i];

		if (assist->active &&
		    (!found || (int32_t) (assist->req.seq - found->req.seq) < 0))
			found = assist;
	}
	return found;
}

/* Copies one chunk for the link. False: nothing is left to copy. */
static bool assist_link(struct shm_link *link)
{
	struct shm_assist *assist;

	while ((assist = oldest(link))) {
		struct shm_help_line *line =
			&link->tx.hdr->helps[assist->req.record];

		if (claim_back(line, assist)) {
			copy_back(link, line, assist);
			return true;
		}
		assist->active = false;
	}
	return false;
}

unsigned tagrv_shm_assist_pass(struct shm_xport *xp)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&xp->helping))) {
		struct shm_link *link =
			tagrv_container_of(node, struct shm_link, help_node);

		if (!assist_link(link))
			continue;
		/* One chunk per pass: messages wait for no more than that. */
		tagrv_list_push_tail(&xp->helping, node);
		return 1;
	}
	return 0;
}
