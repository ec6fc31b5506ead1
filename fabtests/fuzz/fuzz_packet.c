/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes what a connected peer can send: packets for an engine over the scripted
 * transport, with receives posted and sends that wait for it.
 *
 *   input: steps of one byte each, most with bytes that follow
 *     0 a packet: two bytes of length, then its bytes
 *     1 the same behind a header with the right number: opcode, flags, op
 *     2 a receive is posted    3 a send of some level    4 progress
 *     5 transfers end          6 no room, or room again  7 peek, claim, discard
 *
 * Nothing may crash, hang or be read out of bounds, and every operation that was
 * accepted ends exactly once.
 */
#include <arpa/inet.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/fake_xport.h"
#include "proto/engine_priv.h"

enum { BUF_LEN = 600, STEPS_MAX = 400 };

struct input {
	const uint8_t *pos;
	size_t	left;
};

static struct tagrv_dom *dom;
static struct tagrv_engine *engine;
static struct tagrv_avtab av;
static struct tagrv_compq tx, rx;
static struct tagrv_addr addr;
static fi_addr_t dest;
static struct tagrv_link *fz_link;
static char out[BUF_LEN], in_buf[BUF_LEN];
static char contexts[4];	/* of receives */
static size_t sends, recvs;	/* accepted and not ended */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

static uint8_t next(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->pos++;
}

static void set_up(void)
{
	struct tagrv_dom_attr dom_attr = { .name = "loop" };
	struct tagrv_engine_attr attr = {
		.directed_recv = true, .source = true,
	};
	struct tagrv_engine_sinks sinks = { .tx_cq = &tx, .rx_cq = &rx };
	struct sockaddr_in sin = { .sin_family = AF_INET };

	inet_pton(AF_INET, "127.0.0.1", &sin.sin_addr);
	require(!tagrv_addr_from(&attr.src, &sin, sizeof(sin)));
	sin.sin_port = htons(9);
	require(!tagrv_addr_from(&addr, &sin, sizeof(sin)));
	require(!tagrv_dom_open(&dom_attr, &dom));
	dom->dev = fake_device();
	dom->devs[0] = dom->dev;
	dom->dev_cnt = 1;
	require(!tagrv_engine_open(dom, &attr, &engine));
	require(!tagrv_avtab_init(&av, 1));
	require(!tagrv_compq_init(&tx, 64, false));
	require(!tagrv_compq_init(&rx, 64, false));
	tagrv_engine_set_av(engine, &av);
	tagrv_engine_set_sinks(engine, &sinks);
	require(!tagrv_engine_enable(engine));
	require(!tagrv_avtab_insert(&av, &addr, &dest));
}

static void connect_peer(void)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = addr, .epoch = 1,
		.sendable = true, .max_packet = FAKE_PACKET_MAX,
	};

	fz_link = event.link = fake_link();
	tagrv_engine_wireup_event(engine, &event);
}

static struct tagrv_peer *peer(void)
{
	return engine->peers[0];
}

static bool is_up(void)
{
	return peer()->lane && peer()->lane->link == fz_link;
}

static void count_ends(void)
{
	for (; !tagrv_compq_empty(&tx); tagrv_compq_pop(&tx), sends--)
		require(tagrv_compq_peek(&tx) && sends);
	for (; !tagrv_compq_empty(&rx); tagrv_compq_pop(&rx), recvs--)
		require(tagrv_compq_peek(&rx) && recvs);
}

static void give_packet(struct input *in, bool helped)
{
	size_t len = next(in) | (size_t) next(in) << 8;
	uint8_t packet[FAKE_PACKET_MAX];
	struct tagrv_hdr hdr = { .seq = peer()->rx_seq };
	uint64_t words[TAGRV_SHORT_WORDS];
	size_t head = 0;

	if (helped) {
		hdr.opcode = next(in);
		hdr.flags = next(in);
		hdr.op = next(in);
		hdr.tag = next(in) & 3;
		tagrv_hdr_pack(words, &hdr);
		memcpy(packet, words, sizeof(words));
		head = sizeof(words);
	}
	len = TAGRV_MIN(len, TAGRV_MIN(in->left, sizeof(packet) - head));
	memcpy(packet + head, in->pos, len);
	in->pos += len;
	in->left -= len;
	if (is_up())
		fake_deliver(fz_link, packet, head + len);
}

static void give_recv(uint8_t what, uint64_t flags)
{
	const struct iovec iov = { in_buf, what & 4 ? 100 : BUF_LEN };
	const struct tagrv_recv_req req = {
		.iov = &iov, .iov_cnt = 1,
		.src = what & 8 ? dest : FI_ADDR_UNSPEC,
		.tag = what & 3, .ignore = what & 16 ? UINT64_MAX : 0,
		.context = &contexts[what & 3],
		.flags = FI_COMPLETION | flags,
		.space = what & 32 ? TAGRV_SPACE_MSG : TAGRV_SPACE_TAGGED,
	};

	recvs += !tagrv_engine_recv(engine, &req);
}

static void give_search(uint8_t what)
{
	static const uint64_t flags[] = {
		FI_PEEK, FI_PEEK | FI_DISCARD, FI_PEEK | FI_CLAIM, FI_CLAIM,
		FI_CLAIM | FI_DISCARD,
	};

	give_recv(what & 31, flags[(what >> 5) % 5]);
}

static void give_send(uint8_t what)
{
	static const uint64_t levels[] = {
		0, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
		FI_MATCH_COMPLETE,
	};
	const struct iovec iov = { out, what & 8 ? BUF_LEN : 8 };
	const struct tagrv_send_req req = {
		.iov = &iov, .iov_cnt = 1, .dest = dest, .tag = what,
		.flags = FI_COMPLETION | levels[what & 3] |
			 (what & 4 ? FI_MORE : 0),
		.space = TAGRV_SPACE_TAGGED,
	};

	if (is_up())
		sends += !tagrv_engine_send(engine, &req);
}

static void step(struct input *in)
{
	switch (next(in) % 8) {
	case 0:
		give_packet(in, false);
		break;
	case 1:
		give_packet(in, true);
		break;
	case 2:
		give_recv(next(in), 0);
		break;
	case 3:
		give_send(next(in));
		break;
	case 4:
		tagrv_engine_progress(engine);
		break;
	case 5:
		/* What a packet says about addresses is not true. */
		fake_complete_all(-FI_EIO);
		break;
	case 6:
		fake.refuse_all = next(in) & 1;
		break;
	default:
		give_search(next(in));
	}
	count_ends();
	if (fake.log_cnt < FAKE_LOG_MAX / 2)
		return;
	fake_complete_all(-FI_EIO);
	fake_forget();
}

static void cancel_all(void)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(contexts); i++)
		while (!tagrv_engine_cancel(engine, &contexts[i]))
			;
	count_ends();
	require(!recvs);
}

/* Receives whatever message is left. */
static void empty_queue(uint8_t any)
{
	do {
		count_ends();
		give_recv(any, 0);
	} while (!tagrv_compq_empty(&rx));
	cancel_all();
}

/* All that is left: the connection, receives, claims and messages. */
static void clean_up(void)
{
	fake.refuse_all = false;
	if (is_up())
		fake_break_link(fz_link, -FI_ECONNRESET);
	count_ends();
	require(!sends && !engine->tx_ops.used);
	cancel_all();
	tagrv_unexp_free_claims(engine);
	empty_queue(16);
	empty_queue(16 | 32);
	require(!engine->rx_ops.used && !engine->umsgs.used && !fake.regs);
	fake_forget();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (!engine)
		set_up();
	connect_peer();
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&in);
	clean_up();
	return 0;
}
