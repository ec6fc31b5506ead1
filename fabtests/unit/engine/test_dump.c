/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Dumps name each operation that has not ended, its peer, its age and what it
 * waits for; and are written when they should be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/engine_fixture.h"
#include "core/clock.h"
#include "engine/dump.h"

static char text[65536];
static char buf[64];
static int ctx[4];

static void dump(void)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	tagrv_engine_dump(fx.engine, out);
	fclose(out);
}

/* The line of the dump that has this text; NULL: none. */
static const char *line_with(const char *what)
{
	static char line[1024];
	const char *pos = strstr(text, what), *begin = pos, *end;

	if (!pos)
		return NULL;
	while (begin > text && begin[-1] != '\n')
		begin--;
	end = strchr(pos, '\n');
	snprintf(line, sizeof(line), "%.*s", (int) (end - begin), begin);
	return line;
}

static void expect_line(const char *op, const char *part)
{
	const char *line = line_with(op);

	cr_assert_not_null(line, "no line with %s in:\n%s", op, text);
	cr_expect_not_null(strstr(line, part), "no %s in: %s", part, line);
}

static const char *peer_name(void)
{
	static char addr[TAGRV_ADDR_STRLEN];

	return tagrv_addr_str(&fx.addr, addr, sizeof(addr));
}

/* Makes every operation so far at least so old. */
static void grow_older(unsigned seconds)
{
	struct tagrv_dom_clock *clock = &fx.dom->clock;

	clock->tick++;
	clock->begin[clock->tick % TAGRV_DOM_TICKS] =
		tagrv_clock_ms() - (uint64_t) seconds * 1000;
}

TestSuite(dump, .init = engine_setup, .fini = engine_teardown);

/* The scripted transport takes the packet, and no FIN ever comes. */
Test(dump, lost_fin_of_an_eager_message)
{
	peer_up(true);
	cr_assert_eq(submit_send(buf, 8, 0x2a, ctx, FI_DELIVERY_COMPLETE |
						   FI_COMPLETION), 0);
	grow_older(12);
	dump();
	expect_line("send ", "FIN_WAIT: eager");
	expect_line("send ", peer_name());
	expect_line("send ", "tag 0x2a, 8 bytes");
	expect_line("send ", "for 12 s or more");
	expect_line("send ", "waits for a FIN of the peer: the message is not "
			     "received");
	expect_line("  sends: ", "1 (1 FIN_WAIT)");
}

Test(dump, lost_fin_of_a_message_that_was_read)
{
	static char large[20000];

	peer_up(true);
	cr_assert_eq(submit_send(large, sizeof(large), 7, ctx,
				 FI_COMPLETION), 0);
	dump();
	expect_line("send ", "ANNOUNCED: rendezvous");
	expect_line("send ", "20000 bytes");
	expect_line("send ", "waits for a FIN or CTS of the peer");
}

Test(dump, send_without_a_connection)
{
	cr_assert_eq(submit_send(buf, 8, 1, ctx, FI_COMPLETION), 0);
	dump();
	expect_line("send ", "QUEUED");
	expect_line("send ", "waits for a connection, the peer is CONNECTING");
	expect_line("  peer ", "no connection");
	expect_line("  peer ", "1 queued");
}

Test(dump, receive_that_nothing_matches)
{
	cr_assert_eq(submit_recv(buf, sizeof(buf), 0x99, ctx), 0);
	dump();
	expect_line("receive ", "POSTED: tag 0x99, 64 bytes");
	expect_line("receive ", "waits for a message that matches");
}

/* The reason of a receive that waits for ever. */
Test(dump, receive_from_a_peer_that_is_lost)
{
	struct tagrv_recv_req req = recv_req(buf, sizeof(buf), 0x99, ctx);

	peer_up(true);
	req.src = fx.peer_addr;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	dump();
	expect_line("receive ", "a message that matches, from 127.0.0.1:9");
	cr_expect_null(strstr(text, "lost"));
	fake_break_link(fx.link, -FI_ECONNRESET);
	dump();
	expect_line("receive ", "from 127.0.0.1:9, which is lost: Connection reset");
	expect_line("  peer ", "no connection, lost: Connection reset by peer");
	peer_up(true);
	dump();
	expect_line("receive ", "a message that matches, from 127.0.0.1:9");
	cr_expect_null(strstr(text, "lost"));
}

Test(dump, receive_whose_fragments_do_not_come)
{
	static char large[5000];

	peer_up(true);
	cr_assert_eq(submit_recv(large, sizeof(large), 3, ctx), 0);
	arrive_rts_bare(sizeof(large), 3, 17);
	dump();
	expect_line("receive ", "CTS: copy from ");
	expect_line("receive ", "0 of 5000 moved");
	expect_line("receive ", "fragments that the peer was granted");
}

/* A buffer may be posted for ever; a message in it is as old as its match. */
Test(dump, message_in_a_multi_receive_buffer_is_younger_than_the_buffer)
{
	static char large[5000];
	struct tagrv_recv_req req = recv_req(large, sizeof(large), 3, ctx);

	peer_up(true);
	req.flags |= FI_MULTI_RECV;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	grow_older(1000);
	arrive_rts_bare(3000, 3, 17);
	dump();
	expect_line("receive ", "for 1000 s or more, waits for messages that "
				"match: 3000 bytes have been used");
	expect_line(" CTS: copy", "for 0 s or more");
	fx.dom->params.dump_after = 10;
	strcpy(fx.dom->params.dump, "/nowhere/at/all");
	tagrv_dom_check_age(fx.dom);
	cr_expect_eq(log_count("/nowhere/at/all"), 0);
	/* Nothing is left for another message. */
	arrive_rts_bare(2000, 3, 18);
	dump();
	expect_line("receive ", "waits for the end of the last 2 messages in the "
				"buffer");
}

Test(dump, idle_endpoint_has_nothing_to_tell)
{
	peer_up(true);
	dump();
	expect_line("  peer ", "READY by ");
	expect_line("  peer ", "idle");
	expect_line("  sends: ", "0");
	cr_expect_null(line_with("waits for"));
}

/* ---- by age ---- */

static size_t file_size(const char *path)
{
	FILE *file = fopen(path, "r");
	long size;

	if (!file)
		return 0;
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	fclose(file);
	return (size_t) size;
}

Test(dump, old_operation_is_dumped_once_in_a_while)
{
	char path[] = "/tmp/tagrv-test-dump-XXXXXX";
	int fd = mkstemp(path);
	size_t size;

	cr_assert_geq(fd, 0);
	close(fd);
	strcpy(fx.dom->params.dump, path);
	fx.dom->params.dump_after = 10;
	cr_assert_eq(submit_recv(buf, sizeof(buf), 5, ctx), 0);
	grow_older(9);
	tagrv_dom_check_age(fx.dom);
	cr_expect_eq(file_size(path), 0);
	grow_older(11);
	fx.dom->clock.tick--;
	fx.dom->clock.begin[fx.dom->clock.tick % TAGRV_DOM_TICKS] -= 2000;
	tagrv_dom_check_age(fx.dom);
	size = file_size(path);
	cr_expect_gt(size, 0);
	/* Not again before as much time has passed. */
	tagrv_dom_check_age(fx.dom);
	cr_expect_eq(file_size(path), size);
	unlink(path);
}

/* Each endpoint's dump shows the receive, but it is one operation. */
Test(dump, old_receive_of_a_shared_context_counts_once)
{
	struct tagrv_engine_attr attr = { .src = fx.engine->attr.src };
	char path[] = "/tmp/tagrv-test-dump-XXXXXX";
	struct tagrv_recv_req req = recv_req(buf, sizeof(buf), 5, ctx);
	struct tagrv_engine *users[2];
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(tagrv_rx_open(fx.dom, false, &attr.rx), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &users[i]), 0);
		cr_assert_eq(tagrv_engine_set_av(users[i], &fx.av), 0);
	}
	cr_assert_eq(tagrv_rx_recv(attr.rx, &req), 0);
	strcpy(fx.dom->params.dump, path);
	fx.dom->params.dump_after = 1;
	grow_older(2);
	tagrv_dom_check_age(fx.dom);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
	expect_line("tagrv: ", "tagrv: 1 operations of process");
	for (int i = 0; i < 2; i++)
		tagrv_engine_close(users[i]);
	tagrv_rx_close(attr.rx);
	close(fd);
	unlink(path);
}

Test(dump, progress_looks_at_ages_with_each_tick)
{
	char path[] = "/tmp/tagrv-test-dump-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	strcpy(fx.dom->params.dump, path);
	fx.dom->params.dump_after = 1;
	cr_assert_eq(submit_recv(buf, sizeof(buf), 5, ctx), 0);
	tagrv_dom_progress(fx.dom);
	cr_expect_eq(file_size(path), 0);
	grow_older(2);
	tagrv_dom_progress(fx.dom);
	cr_expect_gt(file_size(path), 0);
	unlink(path);
}

Test(dump, file_that_cannot_be_written_is_one_warning)
{
	strcpy(fx.dom->params.dump, "/nowhere/at/all");
	fx.dom->params.dump_after = 1;
	cr_assert_eq(submit_recv(buf, sizeof(buf), 5, ctx), 0);
	grow_older(2);
	tagrv_dom_check_age(fx.dom);
	tagrv_dom_check_age(fx.dom);
	cr_expect_eq(log_count("FI_TAGRV_DUMP: /nowhere/at/all cannot be "
			       "written"), 1);
}

Test(dump, full_disk_is_a_warning)
{
	strcpy(fx.dom->params.dump, "/dev/full");
	fx.dom->params.dump_after = 1;
	cr_assert_eq(submit_recv(buf, sizeof(buf), 5, ctx), 0);
	grow_older(2);
	tagrv_dom_check_age(fx.dom);
	cr_expect_eq(log_count("FI_TAGRV_DUMP: /dev/full cannot be written: "
			       "No space left"), 1);
}

/* A blocked fi_cq_sread makes a pass or two for each time it wakes up. */
Test(dump, clock_goes_on_while_a_caller_sleeps, .timeout = 20)
{
	uint32_t tick;

	while (tagrv_dom_arm(fx.dom))
		tagrv_dom_progress(fx.dom);
	tick = fx.dom->clock.tick;
	fx.dom->clock.begin[tick % TAGRV_DOM_TICKS] -= 1000;
	while (tagrv_dom_arm(fx.dom))
		tagrv_dom_progress(fx.dom);
	cr_expect_gt(fx.dom->clock.tick, tick);
}

Test(dump, sleeping_caller_looks_at_ages_once_a_second, .timeout = 20)
{
	uint64_t begin;

	while (tagrv_dom_arm(fx.dom))
		tagrv_dom_progress(fx.dom);
	begin = tagrv_clock_ms();
	fx.dom->params.dump_after = 5;
	/* Without a file nobody is interested. */
	cr_expect_eq(tagrv_dom_sleep(fx.dom, -1, 1200), 0);
	cr_expect_geq(tagrv_clock_ms() - begin, 1200);
	strcpy(fx.dom->params.dump, "stderr");
	cr_expect_eq(tagrv_dom_sleep(fx.dom, -1, -1), 0);
}

Test(dump, fi_close_that_gives_up_says_why)
{
	fx.dom->params.close_timeout = 0;
	peer_up(true);
	fake.refuse_all = true;
	cr_assert_eq(submit_send(buf, 8, 0x77, ctx, FI_COMPLETION), 0);
	engine_close();
	cr_expect_geq(log_count("no peer took within FI_TAGRV_CLOSE_TIMEOUT"),
		      1);
	cr_expect_geq(log_count("tag 0x77, 8 bytes"), 1);
	cr_expect_geq(log_count("waits for room in the transport"), 1);
}
