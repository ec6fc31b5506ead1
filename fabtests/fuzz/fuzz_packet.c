/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes the packets of a connected peer: an engine over the scripted transport, with
 * posted receives and sends to this peer.
 *
 *   input: one byte for the engine's rendezvous protocol, one for its orders, then steps
 *   of one byte each, most with bytes that follow
 *     0 a packet: two bytes of length, then its bytes
 *     1 a packet with a valid header: opcode, flags, op, tag, and two bytes of data;
 *       op 128 and more: a handle that the engine has sent to the peer
 *     2 post a receive         3 post a send of some level  4 progress
 *     5 end transfers          6 no room, or room again     7 peek, claim, discard
 *     8 a CTS or PIECE whose numbers are often valid
 *     9 registrations fail, or succeed again
 *    10 a one-sided operation of ours        11 a request of the peer
 *    12 an answer of the peer to one of the last requests
 *    13 close a window, or open it again     14 the peer hangs up, or comes anew
 *    15 the queue of receives is not read, or is again
 *    16 a pool has no memory, or has again
 *
 * Nothing may crash, hang or be read out of bounds, every accepted operation ends exactly
 * once, and peers change nothing but what they may write to.
 */
#include <arpa/inet.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "fuzz/packet.h"
#include "object/op.h"
#include "proto/peek.h"
#include "proto/unexp.h"

enum { STEPS_MAX = 400, HEARD = 8 };

struct fuzz fz;

static struct tagrv_avtab av;
static struct tagrv_addr addr;
static char out[BUF_LEN];
static char contexts[4];	/* of receives */
static uint32_t heard[HEARD];	/* the last handles that the engine sent to the peer */
static size_t heard_cnt, heard_log;
static bool deaf;		/* nobody reads the queue of receives */

static void set_up(void)
{
	struct tagrv_dom_attr dom_attr = { .name = "loop", .serialized = true, .allocated = true };
	struct tagrv_engine_attr attr = {
		.directed_recv = true, .source = true,
	};
	struct tagrv_engine_sinks sinks = { .tx_cq = &fz.tx, .rx_cq = &fz.rx };
	struct sockaddr_in sin = { .sin_family = AF_INET };

	inet_pton(AF_INET, "127.0.0.1", &sin.sin_addr);
	require(!tagrv_addr_from(&attr.src, &sin, sizeof(sin)));
	sin.sin_port = htons(9);
	require(!tagrv_addr_from(&addr, &sin, sizeof(sin)));
	require(!tagrv_dom_open(&dom_attr, &fz.dom));
	fz.dom->dev = fake_device();
	/* Addresses in fuzzed packets are invalid: gets and puts must not use them. */
	fake.still = true;
	fz.dom->devs[0] = fz.dom->dev;
	fz.dom->dev_cnt = 1;
	fz.dom->params.eager_max = EAGER;
	fz.dom->params.read_segment = PIECE;
	fz.dom->params.copy_depth = 1;
	require(!tagrv_engine_open(fz.dom, &attr, &fz.engine));
	require(!tagrv_avtab_init(&av, 1));
	fz.engine->attr.serves = FI_REMOTE_READ | FI_REMOTE_WRITE;
	onesided_set_up(&sinks);
	require(!tagrv_compq_init(&fz.tx, 64, false));
	/* A few writes with data fill it. */
	require(!tagrv_compq_init(&fz.rx, 4, false));
	fz.engine->credit.unread = 0;
	require(!tagrv_engine_set_av(fz.engine, &av));
	tagrv_engine_set_sinks(fz.engine, &sinks);
	require(!tagrv_engine_enable(fz.engine));
	require(!tagrv_avtab_insert(&av, &addr, &fz.dest));
}

static void connect_peer(void)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = addr, .epoch = 1,
		.sendable = true, .max_packet = FAKE_PACKET_MAX,
	};

	fz.link = event.link = fake_link();
	tagrv_engine_wireup_event(fz.engine, &event);
}

static void count_ends(void)
{
	for (; !tagrv_compq_empty(&fz.tx); tagrv_compq_pop(&fz.tx, 1), fz.sends--)
		require(tagrv_compq_peek(&fz.tx) && fz.sends);
	for (; !deaf && !tagrv_compq_empty(&fz.rx); tagrv_compq_pop(&fz.rx, 1)) {
		if (tagrv_compq_peek(&fz.rx)->flags & FI_REMOTE_WRITE)
			continue;	/* data of a write of the peer */
		require(fz.recvs);
		fz.recvs--;
	}
}

/* Collects handles from sent packets: of operations, and of receives from a CTS. */
void hear(void)
{
	for (; heard_log < fake.log_cnt; heard_log++) {
		const struct fake_record *r = &fake.log[heard_log];
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;

		onesided_hear(r);
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
	give(&pkt, sizeof(pkt.hdr) + sizeof(pkt.cts) + segs * sizeof(pkt.seg[0]));
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
	give(packet, head + len);
}

static void give_recv(uint8_t what, uint64_t flags)
{
	const struct iovec iov = { fz.in, what & 4 ? 100 : BUF_LEN };
	const struct tagrv_recv_req req = {
		.iov = &iov, .iov_cnt = 1,
		.src = what & 8 ? fz.dest : FI_ADDR_UNSPEC,
		.tag = what & 3, .ignore = what & 16 ? UINT64_MAX : 0,
		.context = &contexts[what & 3],
		.flags = FI_COMPLETION | flags,
		.space = what & 32 ? TAGRV_SPACE_MSG : TAGRV_SPACE_TAGGED,
	};

	fz.recvs += !tagrv_rx_recv(fz.engine->rx, &req);
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
		.iov = &iov, .iov_cnt = 1, .dest = fz.dest, .tag = what,
		.flags = FI_COMPLETION | levels[what & 3] |
			 (what & 4 ? FI_MORE : 0),
		.space = TAGRV_SPACE_TAGGED,
	};

	if (is_up())
		fz.sends += !tagrv_engine_send(fz.engine, &req);
}

static void hang_up(void)
{
	const struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE, .addr = addr, .epoch = 1,
	};

	tagrv_engine_wireup_event(fz.engine, &event);
}

/* The peer hangs up, is lost and comes anew, or comes anew at once. */
static void change_peer(uint8_t how)
{
	if (how % 3 == 0) {
		hang_up();
		return;
	}
	if (how % 3 == 1 && is_up())
		fake_break_link(fz.link, -FI_ECONNRESET);
	connect_peer();
	fake_end_closed();
}

/* ---- pools without memory ---- */

enum { POOLS = 8 };

static struct hungry {
	struct tagrv_pool_free *free;	/* what is free in it */
	size_t	max;			/* its own; 0: it has memory */
} hungry[POOLS];

static struct tagrv_pool *pool_of(unsigned i)
{
	struct tagrv_pool *const pools[POOLS] = {
		&fz.engine->pools.tx_ops, &fz.engine->pools.rndvs,
		&fz.engine->pools.pieces, &fz.engine->pools.acks,
		&fz.engine->pools.rmas, &fz.engine->pools.answers,
		&fz.engine->pools.uses, &fz.engine->pools.bufs[TAGRV_BUF_INJECT],
	};

	return pools[i];
}

static void starve(unsigned i)
{
	struct tagrv_pool *pool = pool_of(i);

	hungry[i] = (struct hungry) { pool->free_head, pool->max };
	pool->free_head = NULL;
	pool->max = pool->chunk_cnt * pool->chunk_objs;
}

static void feed(unsigned i)
{
	struct tagrv_pool *pool = pool_of(i);
	struct tagrv_pool_free **end = &pool->free_head;

	while (*end)
		end = &(*end)->next;
	*end = hungry[i].free;
	pool->max = hungry[i].max;
	hungry[i].max = 0;
}

static void give_hunger(uint8_t what)
{
	if (hungry[what % POOLS].max)
		feed(what % POOLS);
	else
		starve(what % POOLS);
}

static void feed_all(void)
{
	for (unsigned i = 0; i < POOLS; i++)
		if (hungry[i].max)
			feed(i);
}

/* ---- steps ---- */

static void step(struct input *in)
{
	switch (next(in) % 17) {
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
		tagrv_engine_progress(fz.engine);
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
	case 9:
		fake.reg_error = next(in) & 1 ? -FI_ENOMEM : 0;
		break;
	case 10:
		give_op(in);
		break;
	case 11:
		give_request(in);
		break;
	case 12:
		give_answer(in);
		break;
	case 13:
		give_close(in);
		break;
	case 14:
		change_peer(next(in));
		break;
	case 15:
		deaf = next(in) & 1;
		break;
	default:
		give_hunger(next(in));
	}
	count_ends();
	hear();
	onesided_check();
	if (fake.log_cnt < FAKE_LOG_MAX / 2)
		return;
	fake_complete_all(-FI_EIO);
	fake_forget();
	heard_log = 0;
}

static void cancel_all(void)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(contexts); i++)
		while (!tagrv_rx_cancel(fz.engine->rx, &contexts[i]))
			;
	count_ends();
	require(!fz.recvs);
}

/* Receives all messages that are left. */
static void empty_queue(uint8_t any)
{
	do {
		count_ends();
		give_recv(any, 0);
	} while (!tagrv_compq_empty(&fz.rx));
	cancel_all();
}

/* Ends what is left: the connection, receives, claims and messages. */
static void clean_up(void)
{
	fake.refuse_all = false;
	fake.reg_error = 0;
	deaf = false;
	feed_all();
	if (is_up())
		fake_break_link(fz.link, -FI_ECONNRESET);
	fake_end_closed();
	count_ends();
	require(!fz.sends && !fz.engine->pools.tx_ops.used);
	onesided_end();
	cancel_all();
	tagrv_peek_drop_claims(fz.engine);
	empty_queue(16);
	empty_queue(16 | 32);
	require(!fz.engine->rx->ops.used && !fz.engine->pools.umsgs.used);
	/* A device keeps what reads are thrown into. */
	require(fake.regs == (fz.engine->rails.all[0].dump_mem != NULL));
	require(!fz.engine->rx->slices.used && !fz.engine->pools.pieces.used &&
		!fz.engine->pools.rndvs.used &&
		!fz.engine->pools.xfers.used && !fz.engine->credit.frags);
	fake_forget();
	heard_log = heard_cnt = 0;
	memset(heard, 0, sizeof(heard));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (!fz.engine)
		set_up();
	fz.dom->select.rndv = next(&in) % TAGRV_PROTO_RNDV_END;
	fz.engine->rails.all[0].select.cnt = 0;
	onesided_begin(next(&in));
	connect_peer();
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&in);
	clean_up();
	return 0;
}
