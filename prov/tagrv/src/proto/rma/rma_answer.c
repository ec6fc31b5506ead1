/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads of a peer, and former values of atomics: ANSWERs, at once or when there is room.
 *
 *   GET, ATOMIC --> ANSWER            nothing waits, and there is room
 *              '--> peer->rma.answers, in the order of the requests --> ANSWER ...
 *
 * A window is looked up for each packet, so that one that was closed meanwhile is not read, nor
 * another one that has its key now: the operation then ends by a FIN with FI_EACCES.
 *
 * A request may cross our question whether the connection may be closed (engine/part.h), behind
 * which nothing is sent: its answer waits until the peer has refused.
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "core/limits.h"
#include "proto/packet/ack.h"
#include "proto/packet/packet_send.h"
#include "proto/rma/rma_priv.h"

/* ---- one packet ---- */

static int send_answer(struct tagrv_peer *peer, uint32_t op, struct iovec *iov,
		       size_t cnt, size_t len)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_ANSWER, .op = op };
	uint64_t words[TAGRV_SHORT_WORDS];

	if (TAGRV_LIKELY(cnt <= 2) &&
	    TAGRV_LIKELY(!tagrv_packet_send_short(peer, &hdr, cnt == 2 ?
						  iov[1].iov_base : NULL, len)))
		return 0;
	iov[0] = (struct iovec) { words, sizeof(words) };
	return tagrv_packet_send(peer, &hdr, iov, cnt, len, 0, NULL);
}

/* -FI_EACCES: the window is closed. *window: where the bytes are. */
static int send_from_window(struct tagrv_peer *peer, struct tagrv_answer *answer,
			    const struct tagrv_window **window)
{
	struct iovec iov[TAGRV_IOV_MAX + 1];
	size_t skip = answer->sent, offset, len, cnt;
	const struct fi_rma_iov *range = tagrv_rma_find_range(
		answer->ranges, answer->range_cnt, &skip);
	int ret;

	*window = tagrv_rma_window(peer, range->key, range->addr, range->len,
				   FI_REMOTE_READ, &offset);
	if (!*window || (*window)->serial > answer->newest)
		return -FI_EACCES;
	len = TAGRV_MIN(range->len - skip, peer->frag_max);
	cnt = tagrv_window_slice(*window, offset + skip, len, iov + 1, TAGRV_IOV_MAX);
	ret = send_answer(peer, answer->op, iov, cnt + 1, len);
	if (!ret)
		answer->sent += len;
	return ret;
}

/*
 * 0: all is sent, or the peer knows that it will not be; 1: the quantum is used up;
 * -FI_EAGAIN. *bytes: adds what was sent.
 */
static int send_all(struct tagrv_peer *peer, struct tagrv_answer *answer, size_t *bytes)
{
	const struct tagrv_window *window = NULL;
	struct iovec iov[2];
	int ret;

	if (!answer->range_cnt) {
		iov[1] = (struct iovec) { answer->values, answer->len };
		ret = send_answer(peer, answer->op, iov, answer->len ? 2 : 1,
				  answer->len);
		return ret == -FI_ENOTCONN ? -FI_EAGAIN : ret;
	}
	do {
		size_t before = answer->sent;

		if (*bytes >= TAGRV_PEER_QUANTUM)
			return 1;
		ret = send_from_window(peer, answer, &window);
		if (!ret)
			*bytes += answer->sent - before;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		if (ret) {
			tagrv_rma_refuse(peer, answer->op);
			return 0;
		}
	} while (answer->sent < answer->len);
	tagrv_rma_was_read(peer, window, answer->len);
	return 0;
}

/* ---- what waits ---- */

int tagrv_rma_serve_answers(struct tagrv_peer *peer)
{
	struct tagrv_list *node;
	size_t bytes = 0;

	tagrv_assert_locked(peer->engine->dom);
	while ((node = tagrv_list_first(&peer->rma.answers))) {
		struct tagrv_answer *answer =
			tagrv_container_of(node, struct tagrv_answer, link);
		int ret = send_all(peer, answer, &bytes);

		if (ret)
			return ret;
		/* A FIN without memory fails the lane, which drops all answers. */
		if (tagrv_list_first(&peer->rma.answers) != node)
			return -FI_EAGAIN;
		tagrv_list_remove(node);
		tagrv_answer_free(peer, answer);
		tagrv_rma_served(peer);
	}
	return 0;
}

/* Whether the peer takes answers, now or later: not when it has hung up. */
static bool takes_answers(const struct tagrv_peer *peer)
{
	return peer->state == TAGRV_PEER_READY || peer->state == TAGRV_PEER_PARTING;
}

static bool may_send(const struct tagrv_peer *peer)
{
	return peer->state == TAGRV_PEER_READY && tagrv_list_empty(&peer->rma.answers);
}

static struct tagrv_answer *enqueue(struct tagrv_peer *peer,
				    const struct tagrv_answer *from)
{
	struct tagrv_answer *answer = tagrv_pool_get(&peer->engine->pools.answers);
	struct tagrv_pool_node node;

	if (!answer)
		return NULL;
	node = answer->node;
	*answer = *from;
	answer->node = node;
	tagrv_list_init(&answer->link);
	tagrv_list_push_tail(&peer->rma.answers, &answer->link);
	if (peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
	return answer;
}

/* As tagrv_rma_answer_values(), for what the transport's faster call did not take. */
static int answer_values_closely(struct tagrv_peer *peer, uint32_t op, const void *values,
				 size_t len)
{
	struct tagrv_answer answer = { .op = op, .len = len };
	struct iovec iov[2] = { { 0 }, { (void *) (uintptr_t) values, len } };
	struct tagrv_buf *buf;

	if (!takes_answers(peer))
		return 0;
	if (may_send(peer) &&
	    !send_answer(peer, op, iov, len ? 2 : 1, len))
		return 0;
	/* The send may have found that the connection has failed. */
	if (!peer->lane || !tagrv_rma_serve(peer))
		return 0;
	buf = len ? tagrv_engine_buf_get(peer->engine, len, &answer.class) : NULL;
	if (buf) {
		tagrv_iov_gather(buf->bytes, iov + 1, 1);
		answer.values = buf->bytes;
	}
	if ((buf || !len) && enqueue(peer, &answer))
		return 0;
	if (buf)
		tagrv_engine_buf_put(peer->engine, buf->bytes, answer.class);
	tagrv_rma_served(peer);
	return -FI_ENOMEM;
}

int tagrv_rma_answer_values(struct tagrv_peer *peer, uint32_t op, const void *values,
			    size_t len)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_ANSWER, .op = op };

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_LIKELY(may_send(peer)) &&
	    TAGRV_LIKELY(!tagrv_packet_send_short(peer, &hdr, values, len)))
		return 0;
	return answer_values_closely(peer, op, values, len);
}

void tagrv_rma_drop_values(struct tagrv_peer *peer, uint32_t op)
{
	struct tagrv_list *node, *tmp;

	tagrv_assert_locked(peer->engine->dom);
	tagrv_list_for_each_safe(&peer->rma.answers, node, tmp) {
		struct tagrv_answer *answer =
			tagrv_container_of(node, struct tagrv_answer, link);

		if (answer->op != op)
			continue;
		tagrv_list_remove(node);
		tagrv_answer_free(peer, answer);
		tagrv_rma_served(peer);
	}
}

/* ---- requests ---- */

static bool parse_get(struct tagrv_answer *answer, const struct tagrv_hdr *hdr,
		      const void *body, size_t len)
{
	struct tagrv_rma_range ranges[TAGRV_IOV_MAX];
	size_t cnt = len / sizeof(*ranges);

	if (len % sizeof(*ranges) || !cnt || cnt > TAGRV_IOV_MAX ||
	    !hdr->op || hdr->flags & ~(TAGRV_RMA_KEYS | TAGRV_RMA_VIEW) ||
	    (hdr->flags & TAGRV_RMA_VIEW && (cnt > 1 || !hdr->seq)))
		return false;
	*answer = (struct tagrv_answer) {
		.op = hdr->op, .range_cnt = (uint32_t) cnt,
	};
	tagrv_copy_once(ranges, body, len);
	for (size_t i = 0; i < cnt; i++) {
		answer->ranges[i] = (struct fi_rma_iov) {
			.addr = le64toh(ranges[i].addr),
			.len = le64toh(ranges[i].len),
			.key = le64toh(ranges[i].key),
		};
		if (answer->ranges[i].len > TAGRV_MAX_MSG)
			return false;
		answer->len += answer->ranges[i].len;
	}
	return true;
}

static bool is_allowed(struct tagrv_peer *peer, const struct tagrv_answer *answer)
{
	size_t offset;

	for (unsigned i = 0; i < answer->range_cnt; i++)
		if (!tagrv_rma_window(peer, answer->ranges[i].key,
				      answer->ranges[i].addr, answer->ranges[i].len,
				      FI_REMOTE_READ, &offset))
			return false;
	return true;
}

/* Answers at once as far as there is room. False: no memory for the rest. */
static bool answer_get(struct tagrv_peer *peer, struct tagrv_answer *answer)
{
	const struct tagrv_lane *lane = peer->lane;
	size_t bytes = 0;

	if (may_send(peer) && !send_all(peer, answer, &bytes)) {
		tagrv_rma_served(peer);
		return true;
	}
	/* What is queued now would go to the peer's next connection. */
	return peer->lane != lane || enqueue(peer, answer);
}

/* A GET that windows allow. */
static void serve_get(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      struct tagrv_answer *answer)
{
	struct tagrv_lane *lane = peer->lane;

	if (hdr->flags & TAGRV_RMA_KEYS && peer->state == TAGRV_PEER_READY &&
	    !tagrv_rma_lend(peer, hdr->op, answer->ranges, answer->range_cnt))
		return;
	/* A send may have found that the connection has failed. */
	if (peer->lane != lane)
		return;
	if (!answer_get(peer, answer) && peer->lane == lane) {
		tagrv_rma_served(peer);
		/* Some of the answer may be on its way: a FIN ends it. */
		tagrv_ack_fin(peer, hdr->op, -FI_ENOMEM);
	}
}

/*
 * The usual GET: of one range in one segment, whose bytes fit one packet that has room, and
 * nothing waits. False: nothing has happened.
 */
static bool answer_short(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			 const void *body, size_t len)
{
	struct tagrv_hdr answer = { .opcode = TAGRV_PKT_ANSWER, .op = hdr->op };
	struct tagrv_rma_range range;
	struct tagrv_window *window;
	size_t offset;

	if (len != sizeof(range) || hdr->flags || !hdr->op ||
	    peer->state != TAGRV_PEER_READY || !tagrv_list_empty(&peer->rma.answers))
		return false;
	tagrv_copy_once(&range, body, sizeof(range));
	if (le64toh(range.len) > peer->frag_max)
		return false;
	window = tagrv_rma_window(peer, le64toh(range.key), le64toh(range.addr),
				  le64toh(range.len), FI_REMOTE_READ, &offset);
	if (!window || window->iov_cnt != 1 ||
	    tagrv_packet_send_short(peer, &answer, (char *) window->iov[0].iov_base + offset,
				    le64toh(range.len)))
		return false;
	tagrv_rma_was_read(peer, window, le64toh(range.len));
	return true;
}

void tagrv_rma_get_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *body, size_t len)
{
	const struct tagrv_lane *lane = peer->lane;
	struct tagrv_answer answer;

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_LIKELY(answer_short(peer, hdr, body, len)))
		return;
	if (!parse_get(&answer, hdr, body, len)) {
		tagrv_peer_bad_packet(peer, "malformed GET");
		return;
	}
	answer.newest = peer->engine->dom->windows.newest;
	if (!is_allowed(peer, &answer)) {
		tagrv_rma_refuse(peer, hdr->op);
		return;
	}
	if (!takes_answers(peer) || !tagrv_rma_serve(peer))
		return;
	serve_get(peer, hdr, &answer);
	if (hdr->flags & TAGRV_RMA_VIEW && peer->lane == lane)
		tagrv_rma_show(peer, answer.ranges[0].key, answer.ranges[0].addr, hdr->seq);
}
