/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes what comes through a device's list of posted receives: an engine over the scripted
 * transport, whose device has a list of a few entries, and a peer whose tags have a number.
 *
 *   input: steps of one byte each, most with bytes that follow
 *     0 a tagged message of any bytes behind the two words
 *     1 one with a valid header, of an eager message or with an RTS inside
 *     2 a plain one              3 as 0, past the list, and maybe shorter than the words
 *     4 a packet without tag     5 post a receive      6 cancel receives
 *     7 progress                 8 post a send         9 end transfers
 *    10 how late the device is   11 commands have no room
 *    12 the peer is lost, and comes anew with a number or without one
 *    13 data is held, or comes   14 a peek, discard or claim
 *
 * Nothing may crash, hang or be read out of bounds, every accepted operation ends exactly
 * once, and at the end the list is empty.
 */
#include <arpa/inet.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fake_xport.h"
#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "fuzz/fuzz_input.h"
#include "object/dom.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/peer.h"
#include "object/tags.h"
#include "proto/listed.h"
#include "proto/peek.h"
#include "wire/packet.h"

enum { BUF_LEN = 600, EAGER = 64, STEPS_MAX = 400, ENTRIES = 4, PACKET_MAX = EAGER + 192 - 16 };
/* A device without connections is looked at in one of 64, and is up to 7 looks late, twice. */
enum { PASSES = 2000 };

#define require(good)	require_at((good), __LINE__)

static struct tagrv_dom *dom;
static struct tagrv_engine *engine;
static struct tagrv_compq tx, rx;
static struct tagrv_avtab av;
static struct tagrv_addr addr;
static fi_addr_t dest;
static struct tagrv_link *to_us;	/* it may be gone: is_up() */
static uint16_t given;		/* its number in the peer's tags */
static size_t sends, recvs;	/* accepted, not reported */
static uint32_t seq;		/* of the peer's next message */
static char bufs[2][BUF_LEN], contexts[4];

static void require_at(bool good, int line)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: what is required does not hold\n", __FILE__, line);
	abort();
}

/* ---- the engine and its peer ---- */

static void set_up(void)
{
	struct tagrv_dom_attr dom_attr = { .name = "loop", .serialized = true, .allocated = true };
	struct tagrv_engine_attr attr = { .directed_recv = true, .source = true };
	struct tagrv_engine_sinks sinks = { .tx_cq = &tx, .rx_cq = &rx };
	struct sockaddr_in sin = { .sin_family = AF_INET };

	inet_pton(AF_INET, "127.0.0.1", &sin.sin_addr);
	require(!tagrv_addr_from(&attr.src, &sin, sizeof(sin)));
	sin.sin_port = htons(9);
	require(!tagrv_addr_from(&addr, &sin, sizeof(sin)));
	require(!tagrv_dom_open(&dom_attr, &dom));
	dom->devs[0] = dom->dev = fake_device();
	dom->dev_cnt = 1;
	dom->params.eager_max = EAGER;
	dom->params.hw_tags = true;
	/* Addresses in fuzzed packets are invalid: gets and puts must not use them. */
	fake.still = true;
	fake_list_max = ENTRIES;
	require(!tagrv_engine_open(dom, &attr, &engine));
	require(engine->tags && fake.list);
	require(!tagrv_avtab_init(&av, 1));
	require(!tagrv_compq_init(&tx, 64, false) && !tagrv_compq_init(&rx, 64, false));
	require(!tagrv_engine_set_av(engine, &av));
	tagrv_engine_set_sinks(engine, &sinks);
	require(!tagrv_engine_enable(engine));
	require(!tagrv_avtab_insert(&av, &addr, &dest));
}

static struct tagrv_peer *peer(void)
{
	return engine->table.peers[0];
}

static bool is_up(void)
{
	return peer()->lane && peer()->lane->link == to_us;
}

static void connect_peer(uint8_t number)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = addr, .epoch = 1,
		.sendable = true, .max_packet = EAGER + 192,
	};

	/* All its links have the peer's part of the number: xport/numbers.h. */
	given = number & 3;
	if (given)
		given |= TAGRV_OFFLOAD_LIFE + 1;
	fake.given = given;
	fake.number = number >> 2 & 3;
	to_us = event.link = fake_link();
	to_us->max_packet = PACKET_MAX;
	seq = 0;
	tagrv_engine_wireup_event(engine, &event);
}

static void count_ends(void)
{
	for (; !tagrv_compq_empty(&tx); tagrv_compq_pop(&tx, 1), sends--)
		require(tagrv_compq_peek(&tx) && sends);
	for (; !tagrv_compq_empty(&rx); tagrv_compq_pop(&rx, 1), recvs--)
		require(tagrv_compq_peek(&rx) && recvs);
}

/* ---- messages of the peer ---- */

static uint16_t two(struct input *in)
{
	uint16_t low = next(in);

	return (uint16_t) (low | next(in) << 8);
}

/* The words: the number is the right one unless a bit says otherwise. */
static uint64_t tag_of(struct input *in, uint64_t form)
{
	uint8_t what = next(in);
	uint64_t number = given ^ (what & 0xf0 ? 0u : (what >> 2 & 3u) * 5);

	return form | number << TAGRV_OFFLOAD_TAG_BITS | (what & 3);
}

static size_t take_bytes(struct input *in, uint8_t *to, size_t most)
{
	size_t len = two(in) % (most + 1);

	if (len > in->left)
		len = in->left;
	memcpy(to, in->pos, len);
	in->pos += len;
	in->left -= len;
	return len;
}

static void give(uint64_t tag, uint32_t app, const uint8_t *bytes, size_t len)
{
	if (is_up() && given)
		fake_list_message(fake.list, to_us, tag, app, bytes, len);
}

static void give_any(struct input *in)
{
	uint64_t tag = tag_of(in, (uint64_t) next(in) << 56 & (3ull << 62));
	uint32_t app = next(in);
	uint8_t bytes[PACKET_MAX];

	give(tag, app, bytes, take_bytes(in, bytes, sizeof(bytes)));
}

static size_t write_rts(struct input *in, uint8_t *to)
{
	struct {
		struct tagrv_rts rts;
		struct tagrv_rts_seg seg[2];
	} body = { .rts.seg_cnt = next(in) & 3, .rts.key_len = 4 };
	uint16_t len = two(in) % (2 * BUF_LEN);

	body.rts.len = htole64(len);
	body.rts.proto = next(in) % TAGRV_PROTO_RNDV_END;
	body.seg[0].len = htole64(body.rts.seg_cnt == 2 ? len / 2 : len);
	body.seg[1].len = htole64(len - len / 2);
	memcpy(to, &body, sizeof(body));
	return sizeof(body.rts) + TAGRV_MIN(body.rts.seg_cnt, 2) * sizeof(body.seg[0]);
}

static void give_header(struct input *in)
{
	uint8_t what = next(in), bytes[PACKET_MAX + 64];
	uint64_t tag = tag_of(in, 1ull << 62);
	uint16_t flags = what & 1 ? next(in) : TAGRV_PKT_TAGGED | (what & 14);
	uint64_t third, data = two(in);
	size_t len = 16;

	flags |= what & 16 ? 1 << 4 : 0;
	third = htole64(flags | (uint64_t) (what & 128 ? next(in) : 0) << 16 |
			(uint64_t) (what & 32 ? next(in) : seq++) << 32);
	data = htole64(data);
	memcpy(bytes, &third, sizeof(third));
	memcpy(bytes + 8, &data, sizeof(data));
	if (flags & 1 << 4)
		len += write_rts(in, bytes + len);
	len += take_bytes(in, bytes + len, PACKET_MAX - 16 - len);
	give(tag, next(in), bytes, what & 64 ? next(in) % (len + 1) : len);
}

static void give_plain(struct input *in)
{
	uint8_t what = next(in), bytes[PACKET_MAX];

	seq++;
	give(tag_of(in, what & 1 ? 1ull << 63 : 0), what & 3 ? what : 0, bytes,
	     take_bytes(in, bytes, EAGER));
}

/* In memory of its size. */
static void give_past(struct input *in)
{
	uint8_t words[16] = { 3 }, *packet;
	uint64_t tag = htobe64(tag_of(in, (uint64_t) next(in) << 56 & (3ull << 62)));
	size_t len, head;

	memcpy(words + 8, &tag, sizeof(tag));
	words[7] = next(in);
	len = next(in);
	if (len > in->left)
		len = in->left;
	head = TAGRV_MIN(len, sizeof(words));
	packet = malloc(len ? len : 1);
	require(packet);
	memcpy(packet, in->pos, len);
	memcpy(packet, words, head);
	in->pos += len;
	in->left -= len;
	if (is_up() && given)
		tagrv_listed_packet(peer(), packet, len);
	free(packet);
}

static void give_untagged(struct input *in)
{
	struct tagrv_hdr hdr = {
		.opcode = next(in), .flags = next(in), .op = next(in), .tag = next(in) & 3,
		.seq = seq++, .data = two(in),
	};
	uint64_t words[TAGRV_SHORT_WORDS];
	uint8_t bytes[PACKET_MAX];

	tagrv_hdr_pack(words, &hdr);
	memcpy(bytes, words, sizeof(words));
	if (is_up() && given)
		fake_list_packet(fake.list, to_us, bytes, sizeof(words) +
				 take_bytes(in, bytes + sizeof(words), 100));
	else if (is_up())
		fake_deliver(to_us, bytes, sizeof(words));
}

/* ---- operations of ours ---- */

static void give_recv(uint8_t what, uint64_t flags)
{
	const struct iovec iov = { bufs[0], what & 4 ? 20 : BUF_LEN };
	const struct tagrv_recv_req req = {
		.iov = &iov, .iov_cnt = 1, .src = what & 8 ? dest : FI_ADDR_UNSPEC,
		.tag = what & 3, .ignore = what & 16 ? UINT64_MAX : 0,
		.context = &contexts[what & 3], .flags = FI_COMPLETION | flags,
		.space = what & 32 ? TAGRV_SPACE_MSG : TAGRV_SPACE_TAGGED,
	};

	recvs += !tagrv_rx_recv(engine->rx, &req);
}

static void give_send(uint8_t what)
{
	static const uint64_t levels[] = {
		0, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE,
	};
	const struct iovec iov = { bufs[1], what & 8 ? BUF_LEN : 8 };
	const struct tagrv_send_req req = {
		.iov = &iov, .iov_cnt = 1, .dest = dest, .tag = what,
		.data = what & 16 ? UINT64_MAX : 1,
		.flags = FI_COMPLETION | levels[what & 3] | (what & 4 ? FI_MORE : 0) |
			 (what & 32 ? FI_REMOTE_CQ_DATA : 0),
		.space = TAGRV_SPACE_TAGGED,
	};

	if (is_up())
		sends += !tagrv_engine_send(engine, &req);
}

static void cancel(uint8_t which)
{
	while (!tagrv_rx_cancel(engine->rx, &contexts[which & 3]))
		;
}

static void change_peer(uint8_t number)
{
	if (is_up())
		fake_break_link(to_us, -FI_ECONNRESET);
	connect_peer(number);
}

/* ---- steps ---- */

static void search(uint8_t what)
{
	static const uint64_t flags[] = {
		FI_PEEK, FI_PEEK | FI_DISCARD, FI_PEEK | FI_CLAIM, FI_CLAIM,
		FI_CLAIM | FI_DISCARD,
	};

	give_recv(what & 31, flags[(what >> 5) % 5]);
}

static void step(struct input *in)
{
	switch (next(in) % 15) {
	case 0: give_any(in); break;
	case 1: give_header(in); break;
	case 2: give_plain(in); break;
	case 3: give_past(in); break;
	case 4: give_untagged(in); break;
	case 5: give_recv(next(in), 0); break;
	case 6: cancel(next(in)); break;
	case 7: tagrv_engine_progress(engine); break;
	case 8: give_send(next(in)); break;
	case 9: fake_complete_all(next(in) & 1 ? -FI_EIO : 0); break;
	case 10: fake_list_delay(fake.list, next(in) & 7, next(in) & 7); break;
	case 11: fake.list->refuse = next(in) & 3; break;
	case 12: change_peer(next(in)); break;
	case 13: fake.list->hold_data = !fake.list->hold_data; fake_list_data(fake.list); break;
	default: search(next(in));
	}
	fake_end_closed();
	count_ends();
	if (fake.log_cnt < FAKE_LOG_MAX / 2)
		return;
	fake_complete_all(-FI_EIO);
	fake_forget();
}

/* Whether operations have ended, and the list has nothing. */
static bool is_quiet(void)
{
	struct tagrv_tags_counts counts;

	tagrv_tags_get_counts(engine->tags, &counts);
	return !sends && !recvs && !fake.links && !counts.listed && !counts.soft &&
	       !counts.outside && counts.unexpected == counts.handled;
}

static void pass_until_quiet(void)
{
	for (int i = 0; i < PASSES && !is_quiet(); i++) {
		tagrv_engine_progress(engine);
		count_ends();
	}
}

/* Receives the messages that are left, of all kinds. */
static void empty_queue(uint8_t any)
{
	size_t before;

	do {
		give_recv(any, 0);
		before = recvs;
		count_ends();
	} while (recvs < before);
}

static void clean_up(void)
{
	fake_list_delay(fake.list, 0, 0);
	fake.list->refuse = 0;
	fake.list->hold_data = false;
	while (fake_list_apply(fake.list) || fake_list_data(fake.list))
		;
	if (is_up())
		fake_break_link(to_us, -FI_ECONNRESET);
	fake_end_closed();
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(engine);
	count_ends();
	require(!sends && !engine->pools.tx_ops.used);
	tagrv_peek_drop_claims(engine);
	empty_queue(16);
	empty_queue(16 | 32);
	for (uint8_t i = 0; i < 4; i++)
		cancel(i);
	pass_until_quiet();
	require(is_quiet());
	require(fake.list->unexpected == fake.list->handled);
	require(!engine->rx->ops.used && !engine->pools.umsgs.used && !fake.links);
	fake_forget();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (!engine)
		set_up();
	connect_peer(next(&in));
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&in);
	clean_up();
	return 0;
}
