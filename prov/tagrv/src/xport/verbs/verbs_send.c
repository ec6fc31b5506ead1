/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends packets: inline, copied, or gathered by the device from registered memory.
 *
 * On a software device each packet costs processor time that the application needs,
 * too. So only attr.burst packets of a link are in flight at a time: messages sent
 * in a burst wait and are combined into fewer packets, while a single packet never
 * waits. Hardware devices have no such bound.
 *
 * A peer with a list of receives wants two words in front of every packet (verbs_list.h). Its
 * link has no bound for the usual ways, so that they refuse before they look further; send
 * and send_prepared go on then, with a copy of the packet that is longer.
 *
 * An inline packet is gathered into one segment first: a device's library has a loop
 * over segments, which costs it more than a second copy of few bytes, and devices
 * have different limits for segments.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "xport/verbs/verbs_post.h"

/* Whether the peer has not permitted another packet of this kind. */
static bool lacks_permit(struct verbs_xport *xp, const struct verbs_link *link,
			 bool ctrl)
{
	if (TAGRV_LIKELY(link->tx_permits > (ctrl ? VERBS_PERMIT_LAST :
						 VERBS_PERMIT_CTRL)))
		return false;
	xp->stats.sends_refused++;
	xp->lacks_permit = true;
	return true;
}

/* Whether the next message should wait, to share a packet with later ones. */
static bool is_burst(const struct verbs_xport *xp,
		     const struct verbs_link *link)
{
	return link->head - link->tail - link->gets.cnt - link->puts.cnt >=
	       xp->base.attr.burst;
}

/*
 * Posts a packet, which uses one permit of the peer and may permit others. wr: its
 * segments are set. Frees the copy buffer of a packet that could not be posted.
 */
static inline __attribute__((always_inline))
int post_packet(struct verbs_xport *xp, struct verbs_link *link,
		struct ibv_send_wr *wr, struct verbs_tx *tx)
{
	uint32_t permit = 0;
	int ret;

	wr->opcode = IBV_WR_SEND;
	if (TAGRV_UNLIKELY(link->rx_permits <= link->offer_at))
		permit = tagrv_verbs_permit_offer(link);
	if (permit) {
		wr->opcode = IBV_WR_SEND_WITH_IMM;
		wr->imm_data = tagrv_verbs_permit_imm(permit, false);
	}
	ret = verbs_post(xp, link, wr, tx);
	if (TAGRV_UNLIKELY(ret)) {
		if (tx->buf != VERBS_NO_BUF)
			verbs_free_buf(xp, tx->buf);
		return ret;
	}
	link->tx_permits--;
	xp->stats.packets_sent++;
	if (permit)
		tagrv_verbs_permit_sent(link, permit);
	return 0;
}

/* ---- packets in one segment ---- */

/* Whether all packets of this length are inline. Empty ones have no segment. */
static bool is_inline(const struct verbs_xport *xp, size_t len)
{
	return len <= xp->base.attr.max_inline;
}

/* Sets the packet's request, but for what post_packet() does; returns its bytes. */
static inline char *use_bytes(struct verbs_packet *packet, size_t len)
{
	packet->sge.addr = (uintptr_t) packet->bytes;
	packet->sge.length = (uint32_t) len;
	packet->wr.num_sge = len != 0;
	packet->wr.send_flags = len ? IBV_SEND_INLINE : 0;
	return packet->bytes;
}

static inline char *use_buf(struct verbs_xport *xp, size_t len, bool ctrl,
			    struct verbs_tx *tx)
{
	struct verbs_packet *packet = &xp->packet;

	packet->sge.length = (uint32_t) len;
	packet->wr.num_sge = 1;
	packet->wr.send_flags = 0;
	return verbs_take_buf(xp, &packet->sge, ctrl, tx);
}

static inline int check_room(struct verbs_xport *xp, struct verbs_link *link, bool ctrl)
{
	if (TAGRV_UNLIKELY(!verbs_has_room(xp, link, ctrl) ||
			   (!ctrl && is_burst(xp, link)) ||
			   lacks_permit(xp, link, ctrl)))
		return verbs_try_again(xp);
	return 0;
}

/*
 * Returns 0 if a packet of len bytes can be posted now, else send's error. The caller has seen
 * that open_max is not 0.
 */
static int check_packet(struct verbs_xport *xp, struct verbs_link *link,
			size_t len, bool ctrl)
{
	if (TAGRV_UNLIKELY(len > link->open_max))
		return -FI_EMSGSIZE;
	return check_room(xp, link, ctrl);
}

/* ---- packets to a list ---- */

/* As check_packet(), of a link whose open_max is 0. len: without what is added here. */
static int check_list_packet(struct verbs_xport *xp, struct verbs_link *link, size_t len,
			     bool ctrl)
{
	if (!link->base.number || link->state != VERBS_LINK_OPEN || link->error ||
	    atomic_load(&link->async_error))
		return -FI_ENOTCONN;
	if (len > link->max_packet)
		return -FI_EMSGSIZE;
	return check_room(xp, link, ctrl);
}

/*
 * A tagged message has no immediate data: what the device reports of a match does not tell it
 * in every case. Permits go by other packets, or by themselves when half of them are used.
 */
static int post_tagged(struct verbs_xport *xp, struct verbs_link *link,
		       struct ibv_send_wr *wr, struct verbs_tx *tx)
{
	int ret;

	wr->opcode = IBV_WR_SEND;
	ret = tagrv_verbs_post(xp, link, wr, tx);
	if (ret) {
		if (tx->buf != VERBS_NO_BUF)
			verbs_free_buf(xp, tx->buf);
		return ret;
	}
	link->tx_permits--;
	xp->stats.packets_sent++;
	return 0;
}

/* What the two entries of the table do if open_max is 0, with their arguments. */
static TAGRV_COLD int send_to_list(struct tagrv_link *base, const struct iovec *iov,
				   size_t cnt, unsigned flags, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	bool ctrl = flags & TAGRV_SEND_CTRL, tagged = flags & TAGRV_SEND_TAGGED;
	struct verbs_tx tx = { .done = done, .buf = VERBS_NO_BUF };
	size_t len = tagrv_iov_len(iov, cnt), words = tagged ? 0 : VERBS_LIST_WORDS;
	int ret = check_list_packet(xp, link, len, ctrl);
	char *to;

	if (ret)
		return ret;
	len += words;
	to = is_inline(xp, len) ? use_bytes(&xp->packet, len) :
				  use_buf(xp, len, ctrl, &tx);
	if (!to)
		return verbs_try_again(xp);
	memset(to, 0, words);
	tagrv_iov_gather(to + words, iov, cnt);
	return tagged ? post_tagged(xp, link, &xp->packet.wr, &tx) :
			post_packet(xp, link, &xp->packet.wr, &tx);
}

/* ---- packets in one segment, again ---- */

int tagrv_verbs_send(struct tagrv_link *base, const struct iovec *iov,
		     size_t cnt, unsigned flags, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	bool ctrl = flags & TAGRV_SEND_CTRL;
	struct verbs_tx tx = { .done = done, .buf = VERBS_NO_BUF };
	size_t len;
	char *to;
	int ret;

	if (TAGRV_UNLIKELY(!link->open_max))
		return send_to_list(base, iov, cnt, flags, done);
	len = tagrv_iov_len(iov, cnt);
	ret = check_packet(xp, link, len, ctrl);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	to = is_inline(xp, len) ? use_bytes(&xp->packet, len) :
				  use_buf(xp, len, ctrl, &tx);
	if (TAGRV_UNLIKELY(!to))
		return verbs_try_again(xp);
	tagrv_iov_gather(to, iov, cnt);
	return post_packet(xp, link, &xp->packet.wr, &tx);
}

/* Returns as send_short. 'to' is where the packet is to be gathered. */
static inline __attribute__((always_inline))
int post_short(struct verbs_xport *xp, struct verbs_link *link, char *to,
	       const uint64_t *hdr, const void *payload, size_t len,
	       struct verbs_tx *tx)
{
#pragma GCC unroll 4
	for (int i = 0; i < TAGRV_SHORT_WORDS; i++)
		tagrv_word_copy(to + (size_t) i * sizeof(*hdr), &hdr[i]);
	tagrv_copy(to + TAGRV_SHORT_HDR, payload, len);
	/* After -FI_ENOTCONN send returns it, too. */
	return TAGRV_LIKELY(!post_packet(xp, link, &xp->packet.wr, tx)) ?
	       0 : -FI_EAGAIN;
}

static __attribute__((noinline))
int send_copied(struct verbs_xport *xp, struct verbs_link *link,
		const uint64_t *hdr, const void *payload, size_t len)
{
	struct verbs_tx tx = { .buf = VERBS_NO_BUF };
	char *to = use_buf(xp, TAGRV_SHORT_HDR + len, false, &tx);

	return to ? post_short(xp, link, to, hdr, payload, len, &tx) : -FI_EAGAIN;
}

/* The same with a longer ring: a call of its own, so that a send without it costs no more. */
static TAGRV_COLD int send_short_grown(struct tagrv_link *base,
				       const uint64_t hdr[TAGRV_SHORT_WORDS],
				       const void *payload, size_t len)
{
	return tagrv_verbs_ring_grow(verbs_xport_of(base->xport), verbs_link_of(base), false) ?
	       tagrv_verbs_send_short(base, hdr, payload, len) : -FI_EAGAIN;
}

/*
 * What is refused here is not counted, and needs no call of room: send follows, and
 * does both.
 */
int tagrv_verbs_send_short(struct tagrv_link *base,
			   const uint64_t hdr[TAGRV_SHORT_WORDS],
			   const void *payload, size_t len)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	struct verbs_tx tx = { .buf = VERBS_NO_BUF };
	size_t bytes = TAGRV_SHORT_HDR + len;

	if (TAGRV_UNLIKELY(!verbs_fits(xp, link, false)))
		return send_short_grown(base, hdr, payload, len);
	if (TAGRV_UNLIKELY(bytes > link->open_max || is_burst(xp, link) ||
			   link->tx_permits <= VERBS_PERMIT_CTRL))
		return -FI_EAGAIN;
	if (TAGRV_UNLIKELY(!is_inline(xp, bytes)))
		return send_copied(xp, link, hdr, payload, len);
	return post_short(xp, link, use_bytes(&xp->packet, bytes), hdr, payload,
			  len, &tx);
}

/* ---- prepared packets, permits ---- */

/* Adds sges for the segments; -FI_EINVAL: one is not within its memory. */
static inline __attribute__((always_inline))
int fill_prepared(const struct verbs_xport *xp, struct ibv_sge *sge,
		  int *used, const struct iovec *iov,
		  struct tagrv_mem *const *mem, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		const struct tagrv_mem *m = mem[i];

		if (!iov[i].iov_len)
			continue;
		if (!m || !verbs_is_within(xp, iov[i].iov_base, iov[i].iov_len, m))
			return -FI_EINVAL;
		sge[(*used)++] = (struct ibv_sge) {
			.addr = (uintptr_t) iov[i].iov_base,
			.length = (uint32_t) iov[i].iov_len,
			.lkey = ((const struct verbs_mem *) m)->mr->lkey,
		};
	}
	return 0;
}

/* The same to a list, with the words that the header begins with: a tagged message. */
static TAGRV_COLD int send_prepared_to_list(struct tagrv_link *base, const void *hdr,
					    size_t hdr_len, const struct iovec *iov,
					    struct tagrv_mem *const *mem, size_t cnt,
					    struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	struct ibv_sge sge[VERBS_SGE_MAX];
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 1 };
	struct verbs_tx tx = { .done = done, .buf = VERBS_NO_BUF };
	void *to;
	int ret = check_list_packet(xp, link, hdr_len + tagrv_iov_len(iov, cnt), false);

	if (!ret)
		ret = fill_prepared(xp, sge, &wr.num_sge, iov, mem, cnt);
	if (ret)
		return ret;
	to = verbs_take_buf(xp, sge, false, &tx);
	if (!to)
		return verbs_try_again(xp);
	memcpy(to, hdr, hdr_len);
	sge->length = (uint32_t) hdr_len;
	return post_tagged(xp, link, &wr, &tx);
}

/* The header is copied, because the device reads it from registered memory. */
int tagrv_verbs_send_prepared(struct tagrv_link *base, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	struct ibv_sge sge[VERBS_SGE_MAX];
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 1 };
	struct verbs_tx tx = { .done = done, .buf = VERBS_NO_BUF };
	void *to;
	int ret;

	if (!(xp->base.attr.caps & TAGRV_XPORT_PREPARED))
		return -FI_EOPNOTSUPP;
	if (TAGRV_UNLIKELY(!link->open_max))
		return send_prepared_to_list(base, hdr, hdr_len, iov, mem, cnt, done);
	ret = check_packet(xp, link, hdr_len + tagrv_iov_len(iov, cnt), false);
	if (!ret)
		ret = fill_prepared(xp, sge, &wr.num_sge, iov, mem, cnt);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	to = verbs_take_buf(xp, sge, false, &tx);
	if (!to)
		return verbs_try_again(xp);
	memcpy(to, hdr, hdr_len);
	sge->length = (uint32_t) hdr_len;
	return post_packet(xp, link, &wr, &tx);
}

/* Zeros before nothing, for a list. False: no buffer is idle. */
static bool add_words(struct verbs_xport *xp, struct ibv_send_wr *wr, struct ibv_sge *sge,
		      struct verbs_tx *tx)
{
	static const char zeros[VERBS_LIST_WORDS];
	void *to;

	wr->sg_list = sge;
	wr->num_sge = 1;
	sge->length = VERBS_LIST_WORDS;
	if (is_inline(xp, VERBS_LIST_WORDS)) {
		sge->addr = (uintptr_t) zeros;
		wr->send_flags = IBV_SEND_INLINE;
		return true;
	}
	to = verbs_take_buf(xp, sge, true, tx);
	if (!to)
		return false;
	memset(to, 0, VERBS_LIST_WORDS);
	return true;
}

/* bits: a number of packets, and VERBS_PERMIT_*. */
static int post_empty(struct verbs_link *link, uint32_t bits, bool signaled)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = tagrv_verbs_permit_imm(bits, true),
	};
	struct verbs_tx tx = { .buf = VERBS_NO_BUF, .signaled = signaled };
	struct ibv_sge sge;
	int ret;

	if (!verbs_has_room(xp, link, true))
		return -FI_EAGAIN;
	if (link->base.number && !add_words(xp, &wr, &sge, &tx))
		return -FI_EAGAIN;
	ret = tagrv_verbs_post(xp, link, &wr, &tx);
	if (ret && tx.buf != VERBS_NO_BUF)
		verbs_free_buf(xp, tx.buf);
	if (ret)
		return ret;
	link->tx_permits--;
	xp->stats.packets_sent++;
	xp->stats.permit_only_sent++;
	return 0;
}

static int post_permit(struct verbs_link *link, uint32_t cnt, bool signaled)
{
	int ret = post_empty(link, cnt, signaled);

	if (!ret)
		tagrv_verbs_permit_sent(link, cnt);
	return ret;
}

int tagrv_verbs_send_permit(struct verbs_link *link, uint32_t cnt)
{
	return link->tx_permits ? post_permit(link, cnt, false) : -FI_EAGAIN;
}

int tagrv_verbs_send_recall(struct verbs_link *link, uint32_t bit, uint32_t cnt)
{
	return link->tx_permits > VERBS_PERMIT_LAST ?
	       post_empty(link, bit | cnt, false) : -FI_EAGAIN;
}

/* May permit nothing, so it does not take the packet that is kept for permits. */
int tagrv_verbs_send_flush(struct verbs_link *link)
{
	return link->tx_permits > VERBS_PERMIT_LAST ?
	       post_permit(link, tagrv_verbs_permit_offer(link), true) : -FI_EAGAIN;
}
