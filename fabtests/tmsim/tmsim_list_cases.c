/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a device with a list does with each kind of message, and what it refuses.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "tmsim/tmsim_pair.h"

#define ALL		UINT64_MAX
#define DONE		(IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID)

/* Lets an entry be active that was added at the count of unexpected messages. */
static bool add(struct pair *pair, uint64_t wr_id, uint64_t tag, uint64_t mask, uint32_t buf, uint32_t len)
{
	CHECK(!pair_add(pair, wr_id, tag, mask, buf, len, 0, NULL));
	return pair_expect(pair, IBV_WC_TM_ADD, IBV_WC_SUCCESS, 0, wr_id + COMMAND);
}

/* No part of the area is like another, so that bytes of a wrong place show. */
static void fill(uint8_t *area)
{
	uint64_t random = 1;
	uint32_t i;

	for (i = 0; i < AREA; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		area[i] = (uint8_t) (random >> 56);
	}
}

static bool caps(struct pair *pair)
{
	struct ibv_device_attr_ex attr;

	CHECK(!ibv_query_device_ex(pair->b.ctx, NULL, &attr));
	CHECK(attr.tm_caps.flags & IBV_TM_CAP_RC);
	CHECK(attr.tm_caps.max_num_tags >= TAGS && attr.tm_caps.max_ops >= OPS);
	CHECK(attr.tm_caps.max_rndv_hdr_size == 64 && attr.tm_caps.max_sge == 1);
	return true;
}

static bool refuses_wrong_queues(struct pair *pair)
{
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = RX_BUFS, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pair->b.pd,
		.cq = ibv_cq_ex_to_cq(pair->cq_ex),
		.tm_cap = { .max_num_tags = 1 << 20, .max_ops = 1 },
	};
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.srq = pair->srq,
		.send_cq = srq.cq,
		.recv_cq = srq.cq,
		.cap = { .max_send_wr = 1 },
	};
	struct ibv_send_wr *bad = NULL, wr = { .opcode = IBV_WR_SEND };

	CHECK(!ibv_create_srq_ex(pair->b.ctx, &srq) && errno == EINVAL);
	srq.tm_cap.max_num_tags = 1;
	srq.comp_mask &= ~(uint32_t) IBV_SRQ_INIT_ATTR_CQ;
	CHECK(!ibv_create_srq_ex(pair->b.ctx, &srq) && errno == EINVAL);
	CHECK(!ibv_create_qp(pair->b.pd, &qp) && errno == EINVAL);
	CHECK(ibv_post_send(pair->b.qp[0], &wr, &bad) == ENOMEM && bad == &wr);
	CHECK(ibv_destroy_cq(srq.cq) == EBUSY);
	CHECK(ibv_destroy_srq(pair->srq));
	return pair_quiet(pair);
}

static bool refuses_more_than_fit(struct pair *pair)
{
	uint64_t i;

	CHECK(pair_delays(pair, 1, 0, 0));
	for (i = 0; i < OPS; i++)
		CHECK(!pair_add(pair, i, i, ALL, 0, 8, 0, NULL));
	CHECK(pair_add(pair, i, i, ALL, 0, 8, 0, NULL) == ENOMEM);
	for (i = 0; i < OPS; i++)
		CHECK(pair_expect(pair, IBV_WC_TM_ADD, IBV_WC_SUCCESS, 0, i + COMMAND));
	CHECK(pair_delays(pair, 0, 0, 0));
	for (; i < TAGS; i++)
		CHECK(add(pair, i, i, ALL, 0, 8));
	CHECK(pair_add(pair, i, i, ALL, 0, 8, 0, NULL) == ENOMEM);
	CHECK(pair_del(pair, i, TAGS) == EINVAL);
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 0, 0, "x", 1));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 0));
	return add(pair, i, i, ALL, 0, 8);
}

/* More of them than there are receive buffers, of which they take none. */
static bool expected(struct pair *pair)
{
	struct got got;
	uint64_t i;

	for (i = 0; i < 3 * RX_BUFS; i++) {
		CHECK(add(pair, i, 0xabc000 + i, ALL, 0, 64));
		memset(pair->b.area, 0, 64);
		CHECK(pair_send(pair, i % LINKS, IBV_TMH_EAGER, 0xabc000 + i, (uint32_t) i + 7, &i, sizeof(i)));
		CHECK(pair_next(pair, &got));
		CHECK(got.opcode == IBV_WC_TM_RECV && !got.status && got.flags == DONE);
		CHECK(got.wr_id == i && got.tag == 0xabc000 + i && got.priv == i + 7 && got.len == sizeof(i));
		CHECK(got.qp_num == pair->b.qp[i % LINKS]->qp_num);
		CHECK(!memcmp(pair->b.area, &i, sizeof(i)) && !pair->b.area[sizeof(i)]);
	}
	return pair_quiet(pair);
}

static bool unexpected(struct pair *pair)
{
	struct ibv_tmh tmh;
	struct got got;

	CHECK(add(pair, 1, 1, ALL, 0, 64));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 2, 33, "hello", 5));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_RECV && !got.status && !got.flags && got.wr_id < RX_BUFS);
	CHECK(got.len == sizeof(tmh) + 5 && got.tag == 2 && got.priv == 33);
	memcpy(&tmh, pair_buf(pair, got.wr_id), sizeof(tmh));
	CHECK(tmh.opcode == IBV_TMH_EAGER && tmh.tag == htobe64(2) && tmh.app_ctx == htobe32(33));
	CHECK(!memcmp(pair_buf(pair, got.wr_id) + sizeof(tmh), "hello", 5));
	CHECK(pair_send_rndv(pair, 0, 3, 0, 100));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_RECV && !got.status && !got.flags && got.len == HEADERS && got.tag == 3);
	CHECK(pair_buf(pair, got.wr_id)[0] == IBV_TMH_RNDV);
	/* The entry was active before, and still is. */
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 1, 0, "", 0));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 1));
	return true;
}

static bool no_tag(struct pair *pair)
{
	struct got got;

	CHECK(add(pair, 1, 0, 0, 0, 64));
	CHECK(pair_send(pair, 1, IBV_TMH_NO_TAG, 5, 6, "plain", 5));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_NO_TAG && !got.status && !got.flags && got.len == 16 + 5);
	CHECK(got.qp_num == pair->b.qp[1]->qp_num);
	CHECK(!memcmp(pair_buf(pair, got.wr_id) + 16, "plain", 5));
	/* It did not count as unexpected: an entry that is added now is active. */
	CHECK(add(pair, 2, 9, ALL, 0, 64));
	CHECK(pair_send(pair, 1, IBV_TMH_EAGER, 9, 0, "", 0));
	return pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 1);
}

/* The last buffers are for nobody, as with mlx5. */
static bool few_buffers(struct pair *pair)
{
	uint64_t bufs[RX_BUFS];
	struct got got;
	unsigned i;

	for (i = 0; i < RX_BUFS - RX_LEAST + 1; i++) {
		CHECK(pair_send(pair, 0, IBV_TMH_NO_TAG, 0, 0, "", 0));
		CHECK(pair_next(pair, &got));
		CHECK(got.opcode == IBV_WC_TM_NO_TAG && !got.status && got.wr_id < RX_BUFS);
		bufs[i] = got.wr_id;
	}
	CHECK(pair_send(pair, 0, IBV_TMH_NO_TAG, 0, 0, "", 0));
	for (i = 0; i < 1000; i++)
		CHECK(!pair_poll(pair, &got));
	CHECK(pair_repost(pair, bufs[0]));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_NO_TAG && !got.status);
	return true;
}

static bool oldest_that_matches(struct pair *pair)
{
	CHECK(add(pair, 1, 0x10, 0xf0, 0, 64));
	CHECK(add(pair, 2, 0x12, ALL, 0, 64));
	CHECK(add(pair, 3, 0, 0, 0, 64));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 0x12, 0, "", 0));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 1));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 0x22, 0, "", 0));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 3));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 0x12, 0, "", 0));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 2));
	return pair_quiet(pair);
}

static bool long_eager_completes_twice(struct pair *pair)
{
	static uint8_t bytes[8000];
	struct got got;
	uint32_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t) (i * 7);
	CHECK(add(pair, 1, 1, ALL, 0, sizeof(bytes)));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 1, 2, bytes, sizeof(bytes)));
	CHECK(pair_next(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_RECV && !got.status && got.flags == IBV_WC_TM_MATCH && got.wr_id == 1);
	CHECK(!got.qp_num && got.tag == 1 && got.priv == 2);
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_DATA_VALID, 1));
	CHECK(!memcmp(pair->b.area, bytes, sizeof(bytes)));
	return pair_quiet(pair);
}

static bool too_long_eager(struct pair *pair)
{
	CHECK(add(pair, 1, 1, ALL, 0, 4));
	memset(pair->b.area, 'o', 8);
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 1, 0, "12345", 5));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_LOC_LEN_ERR, DONE, 1));
	CHECK(pair->b.area[4] == 'o');
	return pair_quiet(pair);
}

/* One of several segments, one of none, and many at once. */
static bool rendezvous(struct pair *pair)
{
	static const uint32_t lens[] = { AREA - 2000, 0, 1 };
	unsigned i;

	fill(pair->a.area);
	for (i = 0; i < 3; i++) {
		memset(pair->b.area, 0, AREA);
		CHECK(add(pair, i, 5 + i, ALL, 100, lens[i]));
		CHECK(pair_send_rndv(pair, i % LINKS, 5 + i, 1000, lens[i]));
		CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH, i));
		CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_DATA_VALID, i));
		CHECK(!memcmp(pair->b.area + 100, pair->a.area + 1000, lens[i]));
		CHECK(!pair->b.area[100 + lens[i]] && !pair->b.area[99]);
		CHECK(pair_fins(pair, i + 1));
		CHECK(pair->last_fin[0] == IBV_TMH_FIN);
		CHECK(!memcmp(pair->last_fin + 1, pair->a.bufs + i * RX_SIZE + 1, HEADERS - 1));
	}
	return pair_quiet(pair);
}

static bool many_rendezvous(struct pair *pair)
{
	const uint32_t len = AREA / TAGS;
	uint64_t i, matched = 0, data = 0;
	struct got got;

	fill(pair->a.area);
	for (i = 0; i < TAGS; i++)
		CHECK(add(pair, i, i, ALL, (uint32_t) i * len, len));
	for (i = 0; i < TAGS; i++)
		CHECK(pair_send_rndv(pair, i % LINKS, i, (uint32_t) i * len, len));
	while (data < TAGS) {
		CHECK(pair_next(pair, &got));
		CHECK(got.opcode == IBV_WC_TM_RECV && !got.status);
		matched += got.flags == IBV_WC_TM_MATCH;
		data += got.flags == IBV_WC_TM_DATA_VALID;
	}
	CHECK(matched == TAGS);
	CHECK(pair_fins(pair, TAGS));
	CHECK(!memcmp(pair->b.area, pair->a.area, AREA));
	return pair_quiet(pair);
}

/* The entry gets the headers, and software reads by itself. */
static bool rendezvous_too_long(struct pair *pair)
{
	CHECK(add(pair, 1, 1, ALL, 0, 100));
	CHECK(pair_send_rndv(pair, 0, 1, 0, 101));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_TM_RNDV_INCOMPLETE, DONE, 1));
	CHECK(!memcmp(pair->b.area, pair->a.bufs, HEADERS));
	CHECK(pair_quiet(pair));
	CHECK(!pair->fins);
	return true;
}

/* The sender's memory is not there to be read. */
static bool rendezvous_lost(struct pair *pair)
{
	struct got got;

	CHECK(add(pair, 1, 1, ALL, 0, 4096));
	CHECK(pair_send_rndv(pair, 0, 1, AREA, 4096));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH, 1));
	CHECK(pair_expect(pair, IBV_WC_RECV, IBV_WC_TM_RNDV_INCOMPLETE, DONE, 1));
	/* The other queue pair works. */
	CHECK(add(pair, 2, 2, ALL, 0, 8));
	CHECK(pair_send(pair, 1, IBV_TMH_EAGER, 2, 0, "", 0));
	CHECK(pair_next(pair, &got));
	CHECK(got.wr_id == 2 && !got.status && got.flags == DONE && got.qp_num == pair->b.qp[1]->qp_num);
	return true;
}

/* Each match has exactly one end, with or without its bytes. */
static bool destroyed_amid_rendezvous(struct pair *pair)
{
	const uint32_t len = AREA / 4;
	unsigned i, matched = 0, ended = 0;
	struct got got;

	for (i = 0; i < 4; i++)
		CHECK(add(pair, i, i, ALL, i * len, len));
	for (i = 0; i < 4; i++)
		CHECK(pair_send_rndv(pair, 0, i, i * len, len));
	CHECK(pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, IBV_WC_TM_MATCH, 0));
	CHECK(!ibv_destroy_qp(pair->b.qp[0]));
	pair->b.qp[0] = NULL;
	for (matched = 1; pair_poll(pair, &got);) {
		CHECK(got.opcode == (got.status ? IBV_WC_RECV : IBV_WC_TM_RECV) && got.wr_id < 4);
		if (got.flags == IBV_WC_TM_MATCH)
			matched++;
		else
			ended++;
	}
	CHECK(ended == matched);
	return true;
}

/* A program that sleeps is woken by a message; a delayed command is found by the poll after it has armed. */
static bool sleeps(struct pair *pair)
{
	struct pollfd fd = { .fd = pair->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct got got;
	void *context;

	CHECK(pair_delays(pair, 1000, 1000, 0));
	CHECK(!pair_add(pair, 1, 1, ALL, 0, 8, 0, NULL));
	CHECK(!pair_poll(pair, &got));
	CHECK(!ibv_req_notify_cq(ibv_cq_ex_to_cq(pair->cq_ex), 0));
	CHECK(pair_poll(pair, &got));
	CHECK(got.opcode == IBV_WC_TM_ADD);
	CHECK(!pair_poll(pair, &got));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 1, 0, "", 0));
	CHECK(poll(&fd, 1, 60000) == 1);
	CHECK(!ibv_get_cq_event(pair->channel, &cq, &context) && cq == ibv_cq_ex_to_cq(pair->cq_ex));
	ibv_ack_cq_events(cq, 1);
	return pair_expect(pair, IBV_WC_TM_RECV, IBV_WC_SUCCESS, DONE, 1);
}

/*
 * Reads and FINs of the list complete in the queue, too: it has room for them where the program
 * has none to spare, so that none is lost.
 */
static bool resized(struct pair *pair)
{
	const unsigned count = 8;
	struct got got;
	uint64_t i;

	CHECK(!ibv_resize_cq(ibv_cq_ex_to_cq(pair->cq_ex), 1));
	for (i = 0; i < TAGS; i++)
		CHECK(add(pair, i, i, ALL, 0, 8));
	for (i = 0; i < count; i++)
		CHECK(pair_send_rndv(pair, 0, i, 0, 8));
	CHECK(pair_sent(pair));
	for (i = 0; i < 2 * count; i++) {
		CHECK(pair_next(pair, &got));
		CHECK(got.opcode == IBV_WC_TM_RECV && !got.status);
	}
	return pair_fins(pair, count);
}

/* The call for ordinary completion queues works, too. */
static bool polled_plainly(struct pair *pair)
{
	struct ibv_wc wc[4];
	int n = 0;

	CHECK(!pair_add(pair, 1, 1, ALL, 0, 8, 0, NULL));
	CHECK(pair_send(pair, 0, IBV_TMH_EAGER, 1, 0, "abc", 3) && pair_sent(pair));
	while (n < 2)
		n += ibv_poll_cq(ibv_cq_ex_to_cq(pair->cq_ex), 4, wc + n);
	CHECK(n == 2 && wc[0].opcode == IBV_WC_TM_ADD && wc[1].opcode == IBV_WC_TM_RECV);
	CHECK(wc[1].wr_id == 1 && wc[1].byte_len == 3 && (wc[1].wc_flags & TM_FLAGS) == DONE);
	return true;
}

const struct tmsim_case list_cases[] = {
	{ "caps", caps },
	{ "refuses_wrong_queues", refuses_wrong_queues },
	{ "refuses_more_than_fit", refuses_more_than_fit },
	{ "expected", expected },
	{ "unexpected", unexpected },
	{ "no_tag", no_tag },
	{ "few_buffers", few_buffers },
	{ "oldest_that_matches", oldest_that_matches },
	{ "long_eager_completes_twice", long_eager_completes_twice },
	{ "too_long_eager", too_long_eager },
	{ "rendezvous", rendezvous },
	{ "many_rendezvous", many_rendezvous },
	{ "rendezvous_too_long", rendezvous_too_long },
	{ "rendezvous_lost", rendezvous_lost },
	{ "destroyed_amid_rendezvous", destroyed_amid_rendezvous },
	{ "sleeps", sleeps },
	{ "resized", resized },
	{ "polled_plainly", polled_plainly },
	{ NULL, NULL },
};
