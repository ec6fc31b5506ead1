/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets: each is copied to a record before it is sent, and kept there until the
 * peer's device has confirmed it, so that it can be sent again by another path.
 *
 *   sent:  tx_base ............................ tx_cnt
 *            |  oldest without an outcome         |  next
 *            confirmed by: the callback of it or of a later one by the same path,
 *                          or the peer's count after a failure
 *
 * The copy costs a packet of 8 KiB about as much time as the bytes need on a fast
 * wire. That is why endpoints with one rail do not use this transport.
 */
#include <string.h>

#include "core/iov.h"
#include "xport/multi/multi_priv.h"

/* ---- records ---- */

static struct tagrv_pool *pool_of(struct multi_xport *xp, size_t len)
{
	return len > MULTI_SMALL ? &xp->large : &xp->small;
}

static void on_done(struct tagrv_done *done, int status);

/* Any packet may have to be confirmed, even if only when it is sent again. */
static struct multi_packet *take_record(struct multi_link *link, size_t len)
{
	struct multi_xport *xp = multi_xport_of_link(link);
	struct multi_packet *packet = tagrv_pool_get(pool_of(xp, len));

	if (TAGRV_LIKELY(packet != NULL)) {
		packet->done.fn = on_done;
		packet->link = link;
		packet->large = len > MULTI_SMALL;
		packet->len = (uint32_t) len;
		packet->cnt = 0;
	}
	return packet;
}

/* Of a packet that was not sent: this makes no room for another one. */
static void drop_record(struct multi_xport *xp, struct multi_packet *packet)
{
	tagrv_pool_put(packet->large ? &xp->large : &xp->small, packet);
}

static void free_record(struct multi_xport *xp, struct multi_packet *packet)
{
	drop_record(xp, packet);
	xp->freed = true;
}

void tagrv_multi_packets_end(struct multi_link *link, uint64_t end, int status)
{
	struct multi_xport *xp = multi_xport_of_link(link);

	while (link->tx_base != end) {
		struct multi_packet *packet =
			tagrv_container_of(tagrv_list_pop(&link->sent),
					   struct multi_packet, list);
		struct tagrv_done *user = packet->user;

		link->tx_base++;
		free_record(xp, packet);
		if (user)
			user->fn(user, status);
	}
}

/*
 * The path has confirmed this packet, hence all before it. Without success the packet
 * waits for the peer's count.
 */
static void on_done(struct tagrv_done *done, int status)
{
	struct multi_packet *packet =
		tagrv_container_of(done, struct multi_packet, done);
	struct multi_link *link = packet->link;
	struct tagrv_list *pos;
	uint64_t end = link->tx_base;

	if (status)
		return;
	tagrv_list_for_each(&link->sent, pos) {
		end++;
		if (pos == &packet->list)
			break;
	}
	tagrv_multi_packets_end(link, end, 0);
}

/*
 * A packet that begins like our own ones gets a header before it, so that the other side
 * can tell. No packet of the protocols does, but a transport carries any bytes.
 */
static void mark_alien(struct multi_packet *packet)
{
	if (TAGRV_LIKELY(!packet->len || (uint8_t) packet->data[0] != MULTI_MARK))
		return;
	memmove(packet->data + MULTI_HEAD, packet->data, packet->len);
	tagrv_multi_own_head(packet->data);
	packet->len += MULTI_HEAD;
}

/* ---- sending ---- */

/* The application's memory is sent from where it is, or copied. */
static int post_prepared(struct multi_path *path, struct multi_packet *packet,
			 struct tagrv_done *done)
{
	const struct tagrv_xport_ops *ops = path->link->xport->ops;
	struct iovec iov[TAGRV_IOV_MAX + 1] = { { packet->data, packet->len } };
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	bool lacks = false;

	for (unsigned i = 0; i < packet->cnt; i++) {
		mem[i] = packet->mem[i] ?
			 multi_mem_of(packet->mem[i])->mem[path->rail] : NULL;
		lacks |= packet->iov[i].iov_len && !mem[i];
		iov[i + 1] = packet->iov[i];
	}
	/* The memory could not be registered with this rail. */
	if (lacks)
		return ops->send(path->link, iov, packet->cnt + 1u, 0, done);
	return ops->send_prepared(path->link, packet->data, packet->len,
				  packet->iov, mem, packet->cnt, done);
}

/* Gives a packet to the path; its record stays where it is. */
static int post(struct multi_path *path, struct multi_packet *packet,
		struct tagrv_done *done)
{
	struct iovec iov = { packet->data, packet->len };

	if (TAGRV_UNLIKELY(packet->cnt))
		return post_prepared(path, packet, done);
	return path->link->xport->ops->send(path->link, &iov, 1,
					    packet->ctrl ? TAGRV_SEND_CTRL : 0,
					    done);
}

/* A packet was sent for the first time. */
static void keep(struct multi_link *link, struct multi_packet *packet, bool signaled)
{
	tagrv_list_init(&packet->list);
	tagrv_list_push_tail(&link->sent, &packet->list);
	link->tx_cnt++;
	link->unsignaled = signaled ? 0 : link->unsignaled + 1;
}

/* Whether the packet has to be confirmed by itself. A prepared one always has to be. */
static bool must_signal(const struct multi_link *link,
			const struct multi_packet *packet)
{
	return packet->user || packet->cnt || link->unsignaled + 1 >= MULTI_SIGNAL;
}

static int submit(struct multi_link *link, struct multi_packet *packet)
{
	struct multi_xport *xp = multi_xport_of_link(link);
	bool signal = must_signal(link, packet);
	int ret;

	ret = post(link->paths[link->env], packet, signal ? &packet->done : NULL);
	if (TAGRV_LIKELY(!ret)) {
		keep(link, packet, signal);
		return 0;
	}
	drop_record(xp, packet);
	/* The path has failed, and the link will hear of it. */
	return ret == -FI_EAGAIN || ret == -FI_ENOTCONN ? multi_try_again(xp) : ret;
}

/* 0 if a packet may be sent now. */
static inline int check(struct multi_link *link)
{
	if (TAGRV_UNLIKELY(link->error || link->closing || !link->attached))
		return -FI_ENOTCONN;
	if (TAGRV_UNLIKELY(link->env < 0 || link->resend ||
			   link->paths[link->env]->closing))
		return multi_try_again(multi_xport_of_link(link));
	return 0;
}

int tagrv_multi_send(struct tagrv_link *base, const struct iovec *iov, size_t cnt,
		     unsigned flags, struct tagrv_done *done)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_xport *xp = multi_xport_of_link(link);
	size_t len = tagrv_iov_len(iov, cnt);
	struct multi_packet *packet;
	int ret = check(link);

	if (TAGRV_UNLIKELY(ret))
		return ret;
	if (TAGRV_UNLIKELY(len > xp->base.attr.max_packet))
		return -FI_EMSGSIZE;
	packet = take_record(link, len);
	if (TAGRV_UNLIKELY(!packet))
		return multi_no_record(xp, pool_of(xp, len));
	packet->user = done;
	packet->ctrl = flags & TAGRV_SEND_CTRL;
	tagrv_iov_gather(packet->data, iov, cnt);
	mark_alien(packet);
	return submit(link, packet);
}

/* What is refused here goes by send, which says why. */
int tagrv_multi_send_short(struct tagrv_link *base,
			   const uint64_t hdr[TAGRV_SHORT_WORDS],
			   const void *payload, size_t len)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_xport *xp = multi_xport_of_link(link);
	struct multi_packet *packet;
	struct multi_path *path;
	int ret;

	if (TAGRV_UNLIKELY(check(link) || *(const uint8_t *) hdr == MULTI_MARK))
		return -FI_EAGAIN;
	packet = take_record(link, TAGRV_SHORT_HDR + len);
	if (TAGRV_UNLIKELY(!packet))
		return -FI_EAGAIN;
	packet->user = NULL;
	packet->ctrl = false;
	memcpy(packet->data, hdr, TAGRV_SHORT_HDR);
	memcpy(packet->data + TAGRV_SHORT_HDR, payload, len);
	if (link->unsignaled + 1 >= MULTI_SIGNAL)
		return submit(link, packet) ? -FI_EAGAIN : 0;
	path = link->paths[link->env];
	ret = path->link->xport->ops->send_short(path->link, hdr, payload, len);
	if (TAGRV_LIKELY(!ret))
		keep(link, packet, false);
	else
		drop_record(xp, packet);
	return ret;
}

int tagrv_multi_send_prepared(struct tagrv_link *base, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_xport *xp = multi_xport_of_link(link);
	struct multi_packet *packet;
	int ret;

	if (!(xp->base.attr.caps & TAGRV_XPORT_PREPARED))
		return -FI_EOPNOTSUPP;
	ret = check(link);
	if (ret)
		return ret;
	if (hdr_len + tagrv_iov_len(iov, cnt) > xp->base.attr.max_packet)
		return -FI_EMSGSIZE;
	packet = take_record(link, hdr_len);
	if (!packet)
		return multi_no_record(xp, pool_of(xp, hdr_len));
	packet->user = done;
	packet->ctrl = false;
	packet->cnt = (uint8_t) cnt;
	memcpy(packet->data, hdr, hdr_len);
	mark_alien(packet);
	for (size_t i = 0; i < cnt; i++) {
		packet->iov[i] = iov[i];
		packet->mem[i] = mem[i];
	}
	return submit(link, packet);
}

/* ---- again ---- */

/*
 * Packets that had no callback get none now, either, but for the last one, which
 * confirms them all.
 */
bool tagrv_multi_resend(struct multi_link *link)
{
	struct multi_xport *xp = multi_xport_of_link(link);

	while (link->resend) {
		struct multi_packet *packet = link->resend;
		struct tagrv_list *next = packet->list.next;
		bool last = next == &link->sent;
		struct multi_path *path = multi_path_up(link, (unsigned) link->env);
		int ret;

		if (!path)
			return false;
		ret = post(path, packet, last || packet->user || packet->cnt ?
				       &packet->done : NULL);
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return false;
		if (ret) {
			tagrv_multi_link_fail(link, ret);
			return false;
		}
		xp->stats.resent++;
		link->resend = last ? NULL :
			tagrv_container_of(next, struct multi_packet, list);
	}
	link->unsignaled = 0;
	return true;
}
