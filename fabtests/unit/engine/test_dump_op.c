/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A dump has the reason of every operation, in each state; util/tagrv-gdb.py prints
 * the same.
 *
 * The operations are made by hand, on no list, and no packet is ever sent for them.
 * With TAGRV_TEST_DUMP=DIRECTORY the process writes its dump to DIRECTORY/text and
 * its process id to DIRECTORY/pid, and waits until DIRECTORY/go exists:
 * scripts/gdb_dump compares the text with that of the debugger.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/engine_fixture.h"
#include "engine/dump.h"
#include "object/tags.h"

#define MANY	70	/* more than a dump shows */
#define LEN	((size_t) 100000)

static const struct tagrv_proto_ops copy_ops = { .name = "copy" };

struct row {
	enum tagrv_op_state state;
	bool	proto;		/* not eager */
	bool	lost;		/* its connection failed */
	bool	onesided;	/* by the device */
	bool	multi, retired;
	uint64_t flags;
	struct tagrv_rndv rndv;
	struct tagrv_listed *listed;
	const char *want;
};

static struct tagrv_listed in_software = { .recv.slot = TAGRV_OFFLOAD_NONE };
static struct tagrv_listed in_list = { .recv.slot = 0 };
static struct tagrv_listed cancelled = { .recv = { .slot = 5, .cancelled = true } };

static const struct row rows[] = {
	{ TAGRV_OP_QUEUED, .want = "room in the transport, behind earlier sends" },
	{ TAGRV_OP_QUEUED, .flags = FI_FENCE,
	  .want = "the end of 2 earlier sends (FI_FENCE)" },
	{ TAGRV_OP_QUEUED, .onesided = true,
	  .want = "a VIEW of the target's window, for its device" },
	{ TAGRV_OP_WIRE, .want = "the device's completion of the packet" },
	{ TAGRV_OP_WIRE, .onesided = true,
	  .want = "the device's completion of the operation" },
	{ TAGRV_OP_FIN_WAIT, .flags = FI_DELIVERY_COMPLETE,
	  .want = "a FIN of the peer: the message is not received" },
	{ TAGRV_OP_FIN_WAIT, .flags = FI_MATCH_COMPLETE,
	  .want = "a FIN of the peer: the message is not matched" },
	{ TAGRV_OP_FIN_WAIT, .proto = true,
	  .want = "a FIN of the peer: all bytes are sent" },
	{ TAGRV_OP_ANNOUNCED, .want = "a FIN or CTS of the peer: the RTS is not "
				      "matched, or the peer reads" },
	{ TAGRV_OP_COPYING, .rndv.next = 500, .rndv.granted = 500,
	  .want = "500 of 100000 moved|a GRANT of the peer" },
	{ TAGRV_OP_COPYING, .rndv.next = 500, .rndv.granted = 600,
	  .want = "room in the transport for fragments" },
	{ TAGRV_OP_COPYING, .rndv.ask_grant = true,
	  .want = "room in the transport for fragments" },
	{ TAGRV_OP_WRITING, .rndv.inflight = 3, .rndv.next = 70,
	  .want = "70 of 100000 moved|the end of 3 writes in the device" },
	{ TAGRV_OP_WRITING, .want = "room in the transport for writes" },
	{ TAGRV_OP_OFFERING, .rndv = { .pieces = 2, .offered = 4000,
				       .middle = 80000, .next = 80100 },
	  .want = "4100 of 100000 moved|the FINs of 2 pieces that the peer reads" },
	{ TAGRV_OP_OFFERING, .want = "room in the transport for pieces" },
	{ TAGRV_OP_PIECE_READY, .want = "room in the transport to be offered" },
	{ TAGRV_OP_PIECE, .want = "a FIN of the peer, which reads the piece" },
	{ TAGRV_OP_POSTED, .want = "a message that matches" },
	{ TAGRV_OP_POSTED, .listed = &in_software, .want = "a message that matches" },
	{ TAGRV_OP_POSTED, .listed = &in_list,
	  .want = "a message that matches, in the adapter's list" },
	{ TAGRV_OP_POSTED, .listed = &cancelled,
	  .want = "the adapter to give it back: it is cancelled" },
	{ TAGRV_OP_POSTED, .multi = true,
	  .want = "messages that match: 30 bytes have been used" },
	{ TAGRV_OP_POSTED, .multi = true, .retired = true,
	  .want = "the end of the last 4 messages in the buffer" },
	{ TAGRV_OP_READING, .rndv.inflight = 5,
	  .want = "the end of 5 reads in the device" },
	{ TAGRV_OP_READING, .want = "room in the transport for reads" },
	{ TAGRV_OP_CTS, .lost = true,
	  .want = "the end of the connection that failed" },
	{ TAGRV_OP_CTS, .want = "room, or a grant, to send a CTS" },
	{ TAGRV_OP_CTS, .rndv = { .by_pieces = true, .offered = 900, .middle = LEN },
	  .want = "900 of 100000 moved|room, or a grant, to send a CTS" },
	{ TAGRV_OP_CTS, .rndv = { .cts_sent = true, .by_write = true },
	  .want = "writes and the DONE of the peer" },
	{ TAGRV_OP_CTS, .rndv = { .cts_sent = true, .by_pieces = true, .pieces = 6,
				  .offered = 1000, .middle = 90000, .next = 90001 },
	  .want = "1001 of 100000 moved|the reads of 6 pieces" },
	{ TAGRV_OP_CTS, .rndv = { .cts_sent = true, .by_pieces = true,
				  .middle = 1, .next = 1 },
	  .want = "pieces of the peer" },
	{ TAGRV_OP_CTS, .rndv = { .cts_sent = true, .inflight = 7 },
	  .want = "7 fragments that the peer was granted" },
	/* The pieces are there, and the tail is not. */
	{ TAGRV_OP_CTS, .rndv = { .cts_sent = true, .by_pieces = true, .inflight = 8,
				  .offered = 9, .middle = 9, .next = 9 },
	  .want = "8 fragments that the peer was granted" },
	{ TAGRV_OP_CTS, .rndv = { .cts_sent = true },
	  .want = "fragments to be granted to the peer" },
};

static struct tagrv_rma onesided;

#define ROWS	(sizeof(rows) / sizeof(rows[0]))

static char text[1 << 18];
static struct tagrv_engine *sharing;
static struct tagrv_rx *shared;

static void open_sharing(void)
{
	struct tagrv_engine_attr attr = { .src = fx.engine->attr.src };

	cr_assert_eq(tagrv_rx_open(fx.dom, false, &shared), 0);
	attr.rx = shared;
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &sharing), 0);
	cr_assert_eq(tagrv_engine_set_av(sharing, &fx.av), 0);
}

static void setup(void)
{
	engine_setup();
	peer_up(true);
	open_sharing();
	/* 20 ticks, a second apart, long ago. */
	fx.dom->clock.tick = 20;
	for (size_t i = 0; i <= 20; i++)
		fx.dom->clock.begin[i] = 1000 * i;
}

static void teardown(void)
{
	tagrv_engine_close(sharing);
	tagrv_rx_close(shared);
	engine_teardown();
}

TestSuite(dump_op, .init = setup, .fini = teardown);

static struct tagrv_peer *peer_of(struct tagrv_engine *engine)
{
	struct tagrv_peer *peer = tagrv_peer_get(engine, &fx.addr);

	cr_assert_not_null(peer);
	return peer;
}

static struct tagrv_pool *pool_of(struct tagrv_engine *engine,
				  const struct row *row)
{
	return row->state >= TAGRV_OP_POSTED ? &engine->rx->ops :
					       &engine->pools.tx_ops;
}

static struct tagrv_op *make_op(struct tagrv_engine *engine,
				const struct row *row)
{
	const size_t first = sizeof(struct tagrv_pool_node);
	struct tagrv_op *op = tagrv_pool_get(pool_of(engine, row));

	cr_assert_not_null(op);
	/* A posted receive has none of what its message brings. */
	memset((char *) op + first, 0xee, sizeof(*op) - first);
	op->state = (uint8_t) row->state;
	op->space = TAGRV_SPACE_TAGGED;
	op->born = 1;
	op->context = NULL;
	op->flags = row->flags;
	op->tag = 0x1000 + (uint64_t) (row - rows);
	if (row->state != TAGRV_OP_POSTED) {
		op->ops = row->proto ? &copy_ops : &tagrv_eager_ops;
		op->engine = engine;
		op->peer = peer_of(engine);
		op->lane = row->lost ? NULL : op->peer->lane;
		op->len = LEN;
	}
	if (row->state < TAGRV_OP_POSTED)
		op->tx.rma = row->onesided ? &onesided : NULL;
	if (row->onesided)
		tagrv_peer_begin_views(op->peer)->asked.id = 1;
	return op;
}

static void add_rndv(struct tagrv_op *op, const struct row *row)
{
	const size_t first = sizeof(struct tagrv_pool_node);

	op->rndv = tagrv_pool_get(&op->engine->pools.rndvs);
	memcpy((char *) op->rndv + first, (const char *) &row->rndv + first,
	       sizeof(*op->rndv) - first);
	op->rndv->want = LEN;
}

static void add_receive(struct tagrv_op *op, const struct row *row)
{
	op->rx.rx = fx.engine->rx;
	op->rx.room = 64;
	op->rx.multi = row->multi;
	op->rx.listed = row->listed;
	op->rx.retired = row->retired;
	op->rx.used = 30;
	op->rx.slices = 4;
}

static void make(struct tagrv_engine *engine)
{
	for (size_t i = 0; i < ROWS; i++) {
		struct tagrv_op *op = make_op(engine, &rows[i]);

		if (rows[i].state == TAGRV_OP_POSTED)
			add_receive(op, &rows[i]);
		else
			add_rndv(op, &rows[i]);
	}
	peer_of(engine)->sent = 2;
}

static void dump_all(void)
{
	FILE *out = fmemopen(text, sizeof(text), "w");
	const struct tagrv_list *node;

	tagrv_list_for_each(&fx.dom->engines, node)
		tagrv_engine_dump(tagrv_container_of(node, struct tagrv_engine,
						     dom_node), out);
	fclose(out);
}

/* The line has each of the parts, separated by '|', the last one at its end. */
static void expect_line(const char *line, size_t len, const char *parts)
{
	const char *bar;

	for (; (bar = strchr(parts, '|')); parts = bar + 1)
		cr_expect_not_null(memmem(line, len, parts, (size_t) (bar - parts)),
				   "no %s in %.*s", parts, (int) len, line);
	cr_expect(len >= strlen(parts) &&
		  !strncmp(line + len - strlen(parts), parts, strlen(parts)),
		  "no %s in %.*s", parts, (int) len, line);
}

/* A debugger looks at the process now. */
static void wait_for_debugger(const char *dir)
{
	char path[512];
	FILE *file;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	snprintf(path, sizeof(path), "%s/text", dir);
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
	snprintf(path, sizeof(path), "%s/pid", dir);
	file = fopen(path, "w");
	fprintf(file, "%d\n", (int) getpid());
	fclose(file);
	snprintf(path, sizeof(path), "%s/go", dir);
	while (access(path, F_OK))
		usleep(10000);
}

static void maybe_wait(void)
{
	const char *dir = getenv("TAGRV_TEST_DUMP");

	if (dir)
		wait_for_debugger(dir);
}

Test(dump_op, every_state_has_its_reason)
{
	char tag[32];

	make(fx.engine);
	dump_all();
	for (size_t i = 0; i < ROWS; i++) {
		const char *line;

		snprintf(tag, sizeof(tag), "tag %#zx,", 0x1000 + i);
		line = strstr(text, tag);
		cr_assert_not_null(line, "no %s in %s", tag, text);
		expect_line(line, strcspn(line, "\n"), rows[i].want);
	}
}

Test(dump_op, what_has_its_view_waits_for_room_or_answers)
{
	static const struct row row = { TAGRV_OP_QUEUED, .onesided = true };
	struct tagrv_op *op = make_op(fx.engine, &row);

	op->tag = 1;
	add_rndv(op, &row);
	op->peer->rma.views->asked.id = 0;
	op->peer->sent = 2;
	dump_all();
	cr_expect_not_null(strstr(text, "room in the transport, or the end of 2 earlier operations"));
}

static void add_peers(struct tagrv_engine *engine)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(7), .sin6_scope_id = 3,
	};
	struct tagrv_addr addr;

	inet_pton(AF_INET6, "fe80::a", &in6.sin6_addr);
	for (int i = 0; i < MANY; i++) {
		in6.sin6_addr.s6_addr[14] = (uint8_t) i;
		cr_assert_eq(tagrv_addr_from(&addr, &in6, sizeof(in6)), 0);
		cr_assert_not_null(tagrv_peer_get(engine, &addr));
	}
}

/* Of different ages; every third one untagged and with a context. */
static void add_sends(struct tagrv_engine *engine)
{
	for (uint32_t i = 0; i < MANY; i++) {
		struct tagrv_op *op = make_op(engine, &rows[0]);

		op->born = 20 - (i * 7) % 20;
		op->tag = i % 2 ? UINT64_MAX : 0;
		if (i % 3)
			continue;
		op->space = TAGRV_SPACE_MSG;
		op->context = text;
	}
}

/* Operations of one tick are in the order of their handles. */
static void expect_order(void)
{
	const struct tagrv_op *op, *last = NULL;
	const char *line = text;
	size_t cnt = 0;

	for (; (line = strstr(line, "    send ")); cnt++, last = op) {
		line += strlen("    send ");
		op = tagrv_pool_find(&fx.engine->pools.tx_ops,
				     (uint32_t) strtoul(line, NULL, 16));
		cr_assert_not_null(op);
		cr_expect(!last || op->born > last->born ||
			  (op->born == last->born &&
			   op->node.handle > last->node.handle));
	}
	cr_expect_eq(cnt, 64);
}

Test(dump_op, many_are_shown_oldest_first)
{
	add_sends(fx.engine);
	dump_all();
	expect_order();
	cr_expect_not_null(strstr(text, "    and 6 more\n"));
}

/* Posted, without an operation: tagged and untagged, of a source and of any. */
static void add_posted(struct tagrv_rx *rx)
{
	static char buf[77];

	for (int i = 0; i < 8; i++) {
		struct tagrv_recv_req req = recv_req(buf, sizeof(buf), 0x9000, NULL);

		req.context = i % 2 ? text : NULL;
		req.space = i & 2 ? TAGRV_SPACE_TAGGED : TAGRV_SPACE_MSG;
		req.src = i & 4 ? fx.peer_addr : FI_ADDR_UNSPEC;
		cr_assert_eq(tagrv_rx_recv(rx, &req), 0);
	}
}

/* Lists of adapters that take all receives and never answer: one of each endpoint. */
static int take_entry(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry,
		      uint32_t count)
{
	(void) list;
	(void) entry;
	(void) count;
	return 0;
}

static const struct tagrv_taglist_ops list_ops = { .add = take_entry };
static const struct tagrv_tags_ops tags_ops = { .arrived = NULL };
static struct tagrv_taglist lists[2];
static struct tagrv_xport list_xports[2];

static void open_list(struct tagrv_engine *engine, int i)
{
	lists[i] = (struct tagrv_taglist) { .ops = &list_ops, .max_entries = 63 };
	list_xports[i] = *fx.engine->rails.all[0].xport;
	list_xports[i].list = &lists[i];
	cr_assert_eq(tagrv_tags_open(engine, &list_xports[i], 1000, &tags_ops, &engine->tags), 0);
	lists[i].sink->unexpected(lists[i].sink);
}

/* A tagged receive of any source. A multi-receive is left to software. */
static void add_listed(struct tagrv_engine *engine, bool multi)
{
	const struct row row = { TAGRV_OP_POSTED, .multi = multi };
	struct tagrv_op *op = make_op(engine, &row);

	add_receive(op, &row);
	op->tag = 0x7;
	tagrv_tags_post(engine->tags, op, NULL, 0);
}

static void add_lists(void)
{
	open_list(fx.engine, 0);
	lists[0].sink->handled(lists[0].sink);
	add_listed(fx.engine, false);
	add_listed(fx.engine, false);
	add_listed(fx.engine, true);
	lists[0].sink->unexpected(lists[0].sink);
	open_list(sharing, 1);
	for (int i = 0; i < 3; i++)
		tagrv_tags_outside(sharing->tags, true);
	tagrv_tags_lose(sharing->tags, -FI_EIO);
}

static void close_lists(void)
{
	tagrv_tags_close(fx.engine->tags);
	tagrv_tags_close(sharing->tags);
	fx.engine->tags = sharing->tags = NULL;
}

/* Two endpoints, one with a shared context, with all that a dump can have. */
Test(dump_op, text_for_a_debugger)
{
	struct tagrv_op *other;


	make(sharing);
	make(fx.engine);
	add_peers(sharing);
	sharing->table.peers[2]->lost = -FI_EHOSTUNREACH;
	add_sends(fx.engine);
	add_posted(fx.engine->rx);
	fx.engine->credit.budget = 1 << 30;	/* units of 64 bytes */
	peer_of(fx.engine)->credit.left = UINT32_MAX;
	peer_of(fx.engine)->lost = -FI_ECONNRESET;
	/* A receive of the context that another endpoint has a message for. */
	other = make_op(sharing, &rows[ROWS - 1]);
	other->engine = fx.engine;
	other->tag = 0xabcdef;
	add_lists();
	dump_all();
	cr_expect_not_null(strstr(text, "receives (posted ones are shared): "));
	cr_expect_not_null(strstr(text, "  and 7 more peers\n"));
	cr_expect_not_null(strstr(text, "peer [fe80::a%3]:7: IDLE, no connection"));
	cr_expect_not_null(strstr(text, "budget for 68719476736 bytes"));
	cr_expect_not_null(strstr(text, "credit for 274877906880 bytes left"));
	cr_expect_not_null(strstr(text, ", not enabled"));
	cr_expect_null(strstr(text, "0xabcdef"));
	cr_expect_not_null(strstr(text, "POSTED: tag 0x9000, 77 bytes"));
	cr_expect_not_null(strstr(text, "POSTED: 77 bytes"));
	cr_expect_not_null(strstr(text, ", which is lost: Connection reset"));
	cr_expect_not_null(strstr(text, "no connection, lost: No route to host"));
	cr_expect_not_null(strstr(text, "  list: 2 of 63 entries, 1 receives in software; 2 "
				  "messages unexpected, 1 handled; 0 peers outside\n"));
	cr_expect_not_null(strstr(text, "  list: 0 of 0 entries, 0 receives in software; 1 "
				  "messages unexpected, 0 handled; 3 peers outside\n"));
	maybe_wait();
	close_lists();
}
