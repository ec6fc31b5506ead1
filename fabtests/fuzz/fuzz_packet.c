/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes the packets of a connected peer: an engine over the scripted transport, with
 * posted receives and sends to this peer.
 *
 *   input: one byte for the engine's rendezvous protocol, then steps of one byte
 *   each, most with bytes that follow
 *     0 a packet: two bytes of length, then its bytes
 *     1 a packet with a valid header: opcode, flags, op, tag, and two bytes of data;
 *       op 128 and more: a handle that the engine has sent to the peer
 *     2 post a receive         3 post a send of some level  4 progress
 *     5 end transfers          6 no room, or room again     7 peek, claim, discard
 *     8 a CTS or PIECE whose numbers are often valid
 *     9 registrations fail, or succeed again
 *
 * Nothing may crash, hang or be read out of bounds, and every accepted operation
 * ends exactly once.
 */
#include <arpa/inet.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/fake_xport.h"
#include "fuzz/fuzz_input.h"
#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/peer.h"
#include "proto/peek.h"
#include "proto/unexp.h"

/* Lengths that make head, pieces and tail of a message shorter than a packet. */
enum { BUF_LEN = 600, STEPS_MAX = 400, EAGER = 64, PIECE = 50, HEARD = 8 };

static struct tagrv_dom *dom;
static struct tagrv_engine *engine;
static struct tagrv_avtab av;
static struct tagrv_compq tx, rx;
static struct tagrv_addr addr;
static fi_addr_t dest;
static struct tagrv_link *fz_link;
static char out[BUF_LEN], in_buf[BUF_LEN];
static char contexts[4];	/* of receives */
static size_t sends, recvs;	/* accepted, not ended */
static uint32_t heard[HEARD];	/* the last handles that the engine sent to the peer */
static size_t heard_cnt, heard_log;

static void require(bool good)
{
	if (!good)
		abort();
}

static void set_up(void)
{
	struct tagrv_dom_attr dom_attr = { .name = "loop", .serialized = true };
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
	/* Addresses in fuzzed packets are invalid: gets and puts must not use them. */
	fake.still = true;
	dom->devs[0] = dom->dev;
	dom->dev_cnt = 1;
	dom->params.eager_max = EAGER;
	dom->params.read_segment = PIECE;
	dom->params.copy_depth = 1;
	require(!tagrv_engine_open(dom, &attr, &engine));
	require(!tagrv_avtab_init(&av, 1));
	require(!tagrv_compq_init(&tx, 64, false));
	require(!tagrv_compq_init(&rx, 64, false));
	require(!tagrv_engine_set_av(engine, &av));
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
	return engine->table.peers[0];
}

static bool is_up(void)
{
	return peer()->lane && peer()->lane->link == fz_link;
}

static void count_ends(void)
{
	for (; !tagrv_compq_empty(&tx); tagrv_compq_pop(&tx, 1), sends--)
		require(tagrv_compq_peek(&tx) && sends);
	for (; !tagrv_compq_empty(&rx); tagrv_compq_pop(&rx, 1), recvs--)
		require(tagrv_compq_peek(&rx) && recvs);
}

/* Collects handles from sent packets: of operations, and of receives from a CTS. */
static void hear(void)
{
	for (; heard_log < fake.log_cnt; heard_log++) {
		const struct fake_record *r = &fake.log[heard_log];
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;

		if (r->kind != FAKE_SEND || r->len < sizeof(hdr))
			continue;
		memcpy(&hdr, r->data, sizeof(hdr));
		if (hdr.opcode == TAGRV_PKT_CTS || hdr.opcode == TAGRV_PKT_PIECE) {
			memcpy(&cts, r->data + sizeof(hdr), sizeof(cts));
			hdr.op = cts.op;
		} else if (hdr.opcode != TAGRV_PKT_RTS &&
			   hdr.opcode != TAGRV_PKT_EAGER) {
			continue;
		}
		heard[heard_cnt++ % HEARD] = le32toh(hdr.op);
	}
}

static uint32_t name(uint8_t what)
{
	return what & 128 ? heard[what % HEARD] : what;
}

static uint16_t two(struct input *in)
{
	uint16_t low = next(in);

	return (uint16_t) (low | next(in) << 8);
}

static void give_offer(struct input *in)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;
		struct tagrv_rts_seg seg[2];
	} pkt = {
		.hdr.opcode = next(in) & 1 ? TAGRV_PKT_CTS : TAGRV_PKT_PIECE,
		.hdr.op = htole32(name(next(in))),
		.hdr.data = htole64(two(in) % (BUF_LEN + 8)),
	};
	uint16_t want = two(in) % (BUF_LEN + 8);
	uint8_t segs = next(in) % 3;

	pkt.cts.want = htole64(want);
	pkt.cts.op = htole32(next(in));
	pkt.cts.pieces = next(in) & 3;
	pkt.cts.seg_cnt = segs;
	pkt.cts.key_len = 4;
	pkt.seg[0].len = htole64(segs == 2 ? want / 2 : want);
	pkt.seg[1].len = htole64(want - want / 2);
	if (is_up())
		fake_deliver(fz_link, &pkt,
			     sizeof(pkt.hdr) + sizeof(pkt.cts) +
			     segs * sizeof(pkt.seg[0]));
}

static void give_packet(struct input *in, bool helped)
{
	size_t len = two(in);
	uint8_t packet[FAKE_PACKET_MAX];
	struct tagrv_hdr hdr = { .seq = peer()->rx_seq };
	uint64_t words[TAGRV_SHORT_WORDS];
	size_t head = 0;

	if (helped) {
		hdr.opcode = next(in);
		hdr.flags = next(in);
		hdr.op = name(next(in));
		hdr.tag = next(in) & 3;
		hdr.data = two(in);
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

	recvs += !tagrv_rx_recv(engine->rx, &req);
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
	switch (next(in) % 10) {
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
		fake_complete_all(next(in) & 1 ? -FI_EIO : 0);
		break;
	case 6:
		fake.refuse_all = next(in) & 1;
		break;
	case 7:
		give_search(next(in));
		break;
	case 8:
		give_offer(in);
		break;
	default:
		fake.reg_error = next(in) & 1 ? -FI_ENOMEM : 0;
	}
	count_ends();
	hear();
	if (fake.log_cnt < FAKE_LOG_MAX / 2)
		return;
	fake_complete_all(-FI_EIO);
	fake_forget();
	heard_log = 0;
}

static void cancel_all(void)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(contexts); i++)
		while (!tagrv_rx_cancel(engine->rx, &contexts[i]))
			;
	count_ends();
	require(!recvs);
}

/* Receives all messages that are left. */
static void empty_queue(uint8_t any)
{
	do {
		count_ends();
		give_recv(any, 0);
	} while (!tagrv_compq_empty(&rx));
	cancel_all();
}

/* Ends what is left: the connection, receives, claims and messages. */
static void clean_up(void)
{
	fake.refuse_all = false;
	fake.reg_error = 0;
	if (is_up())
		fake_break_link(fz_link, -FI_ECONNRESET);
	count_ends();
	require(!sends && !engine->pools.tx_ops.used);
	cancel_all();
	tagrv_peek_drop_claims(engine);
	empty_queue(16);
	empty_queue(16 | 32);
	require(!engine->rx->ops.used && !engine->pools.umsgs.used && !fake.regs);
	require(!engine->rx->slices.used && !engine->pools.pieces.used &&
		!engine->pools.rndvs.used &&
		!engine->pools.xfers.used && !engine->credit.frags);
	fake_forget();
	heard_log = heard_cnt = 0;
	memset(heard, 0, sizeof(heard));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (!engine)
		set_up();
	dom->select.rndv = next(&in) % TAGRV_PROTO_RNDV_END;
	engine->rails.all[0].select.cnt = 0;
	connect_peer();
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&in);
	clean_up();
	return 0;
}
