/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine over the scripted transport: see engine_fixture.h.
 */
#include "common/engine_fixture.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

struct engine_fixture fx;

static struct tagrv_addr ipv4(const char *ip, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(port) };
	struct tagrv_addr addr;

	inet_pton(AF_INET, ip, &sin.sin_addr);
	cr_assert_eq(tagrv_addr_from(&addr, &sin, sizeof(sin)), 0);
	return addr;
}

void engine_setup(void)
{
	struct tagrv_dom_attr dom_attr = { .name = "loop", .serialized = true, .allocated = true };
	struct tagrv_engine_attr attr = {
		.src = ipv4("127.0.0.1", 0),
		.directed_recv = true,
		.source = true,
	};
	struct tagrv_engine_sinks sinks = {
		.tx_cq = &fx.tx,
		.rx_cq = &fx.rx,
		.tx_cntr = &fx.tx_cntr,
		.rx_cntr = &fx.rx_cntr,
	};

	memset(&fx, 0, sizeof(fx));
	fx.max_packet = FAKE_PACKET_MAX;
	setenv("FI_TAGRV_CLOSE_TIMEOUT", "0", 1);
	cr_assert_eq(tagrv_dom_open(&dom_attr, &fx.dom), 0);
	fx.dom->dev = fake_device();
	fx.dom->devs[0] = fake_local_device();
	fx.dom->devs[1] = fx.dom->dev;
	fx.dom->dev_cnt = 2;
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &fx.engine), 0);
	/* Tests change what the transport can and which protocol is wanted. */
	for (size_t i = 0; i < fx.engine->rails.cnt; i++)
		fx.engine->rails.all[i].xport->attr.admits = TAGRV_MEM_REMOTE;
	cr_assert_eq(tagrv_avtab_init(&fx.av, 1), 0);
	cr_assert_eq(tagrv_compq_init(&fx.tx, 16, false), 0);
	cr_assert_eq(tagrv_compq_init(&fx.rx, 16, false), 0);
	cr_assert_eq(tagrv_counter_init(&fx.tx_cntr, false), 0);
	cr_assert_eq(tagrv_counter_init(&fx.rx_cntr, false), 0);
	cr_assert_eq(tagrv_engine_set_av(fx.engine, &fx.av), 0);
	tagrv_engine_set_sinks(fx.engine, &sinks);
	cr_assert_eq(tagrv_engine_enable(fx.engine), 0);
	/* Nobody listens there: connections come from peer_up() only. */
	fx.addr = ipv4("127.0.0.1", 9);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &fx.peer_addr), 0);
}

void engine_limit_queues(size_t posted, size_t unexpected)
{
	struct tagrv_rx *rx = fx.engine->rx;

	tagrv_match_destroy(rx->match);
	cr_assert_eq(tagrv_match_create(posted, unexpected, &rx->match), 0);
	fx.engine->match = rx->match;
}

void engine_set_rndv(enum tagrv_proto proto)
{
	struct tagrv_rails *rails = &fx.engine->rails;

	fx.dom->select.rndv = proto;
	for (size_t i = 0; i < rails->cnt; i++) {
		rails->all[i].select.cnt = 0;
		tagrv_rail_select(&rails->all[i]);
	}
}

void engine_close(void)
{
	if (fx.engine)
		tagrv_engine_close(fx.engine);
	fx.engine = NULL;
}

void engine_end_lanes(void)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&fx.engine->conn.lanes))) {
		tagrv_lane_fail(tagrv_container_of(node, struct tagrv_lane, node),
				-FI_ECONNRESET, false);
		fake_end_closed();
	}
}

void engine_teardown(void)
{
	engine_close();
	cr_assert_eq(fake.regs, 0, "%zu registrations left", fake.regs);
	cr_assert_eq(fake.links, 0, "%zu links left", fake.links);
	tagrv_avtab_fini(&fx.av);
	tagrv_compq_fini(&fx.tx);
	tagrv_compq_fini(&fx.rx);
	tagrv_counter_fini(&fx.tx_cntr);
	tagrv_counter_fini(&fx.rx_cntr);
	fx.dom->dev_cnt = 0;
	tagrv_dom_close(fx.dom);
	fake_forget();
}

void peer_up(bool sendable)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = fx.addr,
		.epoch = 1,
		.sendable = sendable,
		.max_packet = fx.max_packet,
	};

	fx.link = event.link = fake_link();
	fx.rx_seq = 0;
	tagrv_engine_wireup_event(fx.engine, &event);
	fake_end_closed();
}

void peer_event(enum tagrv_wireup_event_type type, int status)
{
	struct tagrv_wireup_event event = {
		.type = type,
		.addr = fx.addr,
		.epoch = 1,
		.status = status,
	};

	tagrv_engine_wireup_event(fx.engine, &event);
	fake_end_closed();
}

void peer_sendable(void)
{
	peer_event(TAGRV_WIREUP_SENDABLE, 0);
}

static struct iovec one_iov;

struct tagrv_send_req send_req(const void *buf, size_t len, uint64_t tag,
			       void *context)
{
	one_iov = (struct iovec) { (void *) (uintptr_t) buf, len };
	return (struct tagrv_send_req) {
		.iov = &one_iov,
		.iov_cnt = 1,
		.dest = fx.peer_addr,
		.tag = tag,
		.context = context,
		.flags = FI_COMPLETION,
		.space = TAGRV_SPACE_TAGGED,
	};
}

struct tagrv_recv_req recv_req(void *buf, size_t len, uint64_t tag,
			       void *context)
{
	one_iov = (struct iovec) { buf, len };
	return (struct tagrv_recv_req) {
		.iov = &one_iov,
		.iov_cnt = 1,
		.src = FI_ADDR_UNSPEC,
		.tag = tag,
		.context = context,
		.flags = FI_COMPLETION,
		.space = TAGRV_SPACE_TAGGED,
	};
}

int submit_send(const void *buf, size_t len, uint64_t tag, void *context,
		uint64_t flags)
{
	struct tagrv_send_req req = send_req(buf, len, tag, context);

	req.flags |= flags;
	return (int) tagrv_engine_send(fx.engine, &req);
}

int submit_recv(void *buf, size_t len, uint64_t tag, void *context)
{
	struct tagrv_recv_req req = recv_req(buf, len, tag, context);

	return (int) tagrv_rx_recv(fx.engine->rx, &req);
}

void arrive_eager(const void *buf, size_t len, uint64_t tag, uint16_t flags,
		  uint32_t handle)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_EAGER,
		.op = htole32(handle),
		.tag = htobe64(tag),
		.flags = htole16(flags | TAGRV_PKT_TAGGED),
		.seq = htole32(fx.rx_seq++),
		.data = htole64(0x1122334455667788),
	};
	/* Not allocated: allocations may fail on purpose. */
	static char packet[1 << 17];

	cr_assert_leq(sizeof(hdr) + len, sizeof(packet));
	memcpy(packet, &hdr, sizeof(hdr));
	memcpy(packet + sizeof(hdr), buf, len);
	if (fx.later)
		fake_queue(fx.link, packet, sizeof(hdr) + len);
	else
		fake_deliver(fx.link, packet, sizeof(hdr) + len);
}

/* Takes the next number of a packet. */
static struct tagrv_hdr rts_hdr(uint64_t tag, uint32_t handle)
{
	return (struct tagrv_hdr) {
		.opcode = TAGRV_PKT_RTS,
		.op = htole32(handle),
		.tag = htobe64(tag),
		.flags = htole16(TAGRV_PKT_TAGGED),
		.seq = htole32(fx.rx_seq++),
	};
}

void arrive_rts(const void *buf, size_t len, uint64_t tag, uint32_t handle)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rts rts;
		struct tagrv_rts_seg seg[2];
	} pkt = {
		.hdr = rts_hdr(tag, handle),
		.rts.len = htole64(len),
		.rts.seg_cnt = 2,
		.rts.key_len = 4,
	};
	size_t half = len / 2;

	pkt.seg[0].addr = htole64((uintptr_t) buf);
	pkt.seg[0].len = htole64(half);
	pkt.seg[1].addr = htole64((uintptr_t) buf + half);
	pkt.seg[1].len = htole64(len - half);
	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

void arrive_rts_bare(size_t len, uint64_t tag, uint32_t handle)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rts rts;
	} pkt = {
		.hdr = rts_hdr(tag, handle),
		.rts.len = htole64(len),
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

void arrive_rts_head(const void *buf, size_t head, size_t len, uint64_t tag,
		     uint32_t handle)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rts rts;
		char bytes[FAKE_PACKET_MAX];
	} pkt = {
		.hdr = rts_hdr(tag, handle),
		.rts.len = htole64(len),
		.rts.proto = TAGRV_PROTO_RNDV_PIPE,
	};

	memcpy(pkt.bytes, buf, head);
	fake_deliver(fx.link, &pkt, sizeof(pkt.hdr) + sizeof(pkt.rts) + head);
}

void arrive_piece(uint32_t taker, size_t offset, size_t len, const void *buf,
		  uint32_t handle)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;
		struct tagrv_rts_seg seg;
	} pkt = {
		.hdr.opcode = TAGRV_PKT_PIECE,
		.hdr.op = htole32(taker),
		.hdr.data = htole64(offset),
		.cts.want = htole64(len),
		.cts.op = htole32(handle),
		.cts.seg_cnt = 1,
		.cts.key_len = 4,
		.seg.addr = htole64((uintptr_t) buf + offset),
		.seg.len = htole64(len),
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

void arrive_wish(uint8_t opcode, uint32_t op, size_t data,
		 const struct tagrv_cts *cts)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;
	} pkt = {
		.hdr.opcode = opcode,
		.hdr.op = htole32(op),
		.hdr.data = htole64(data),
		.cts = *cts,
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

void arrive_cts(uint32_t handle, uint32_t taker, size_t want, size_t granted)
{
	const struct tagrv_cts cts = {
		.want = htole64(want), .op = htole32(taker),
	};

	arrive_wish(TAGRV_PKT_CTS, handle, granted, &cts);
}

void arrive_frag(uint32_t taker, size_t offset, const void *buf, size_t len)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_FRAG,
		.op = htole32(taker),
		.data = htole64(offset),
	};
	char *packet = malloc(sizeof(hdr) + len);

	memcpy(packet, &hdr, sizeof(hdr));
	memcpy(packet + sizeof(hdr), buf, len);
	fake_deliver(fx.link, packet, sizeof(hdr) + len);
	free(packet);
}

void arrive_control(uint8_t opcode, uint32_t handle, uint64_t data)
{
	struct tagrv_hdr hdr = {
		.opcode = opcode,
		.op = htole32(handle),
		.data = htole64(data),
	};

	fake_deliver(fx.link, &hdr, sizeof(hdr));
}

void arrive_fin(uint32_t handle, uint32_t status)
{
	arrive_control(TAGRV_PKT_FIN, handle, status);
}

struct tagrv_comp take(struct tagrv_compq *q)
{
	const struct tagrv_comp *first = tagrv_compq_peek(q);
	struct tagrv_comp comp;

	cr_assert(first, "a completion is due");
	comp = *first;
	tagrv_compq_pop(q, 1);
	return comp;
}

void expect_empty(struct tagrv_compq *q)
{
	cr_assert(tagrv_compq_empty(q), "no completion is due");
}

struct tagrv_hdr packet_header(size_t i)
{
	struct tagrv_hdr hdr;

	cr_assert_lt(i, fake.log_cnt, "packet %zu was sent", i);
	cr_assert_leq(fake.log[i].kind, FAKE_PREPARED, "a packet");
	memcpy(&hdr, fake.log[i].data, sizeof(hdr));
	hdr.op = le32toh(hdr.op);
	hdr.tag = be64toh(hdr.tag);
	hdr.flags = le16toh(hdr.flags);
	hdr.credit = le16toh(hdr.credit);
	hdr.seq = le32toh(hdr.seq);
	hdr.data = le64toh(hdr.data);
	return hdr;
}

/* Where the messages of recorded packet i begin; *fins stand before them. */
static const uint8_t *skip_fins(size_t i, size_t *fins)
{
	const uint8_t *pos = fake.log[i].data + sizeof(struct tagrv_hdr);
	const uint8_t *end = fake.log[i].data + fake.log[i].len;
	struct tagrv_item item;

	cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_BATCH);
	for (*fins = 0; tagrv_item_peek(&item, pos, (size_t) (end - pos)) &&
			item.flags == TAGRV_ITEM_FIN; ++*fins)
		pos += TAGRV_ITEM_WORD;
	return pos;
}

/* Finds message k; false: there are not so many. */
static bool find_item(size_t i, size_t k, struct sent_item *sent)
{
	const uint8_t *pos, *end;
	size_t fins;

	pos = skip_fins(i, &fins);
	end = fake.log[i].data + fake.log[i].len;
	for (; pos < end; k--) {
		size_t left = (size_t) (end - pos);

		cr_assert(tagrv_item_peek(&sent->item, pos, left) &&
			  tagrv_item_unpack(&sent->item, pos, left));
		sent->payload = pos + tagrv_item_head(sent->item.flags);
		if (!k)
			return true;
		pos += tagrv_item_size(sent->item.flags, sent->item.len);
	}
	return false;
}

size_t sent_fins(size_t i)
{
	size_t fins;

	skip_fins(i, &fins);
	return fins;
}

struct sent_item sent_item(size_t i, size_t k)
{
	struct sent_item sent;

	cr_assert(find_item(i, k, &sent), "packet %zu has message %zu", i, k);
	return sent;
}

size_t sent_items(size_t i)
{
	struct sent_item sent;
	size_t cnt = 0;

	while (find_item(i, cnt, &sent))
		cnt++;
	return cnt;
}
