/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The parts of tagrv_top behind the reader: looks, rows, texts and JSON, also of boards with
 * random bytes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board/board.h"
#include "core/clock.h"
#include "util/top/top_json.h"
#include "util/top/top_text.h"

TestSuite(top, .timeout = 30);

static struct top_source source(void)
{
	return (struct top_source) {
		.proc = "/proc", .sys = "/nowhere", .user = geteuid(), .pid = getpid(),
	};
}

static struct tagrv_board *board;
static int slot;

static void show(uint64_t ns, uint64_t eager, uint64_t posted)
{
	struct tagrv_board_record record = {
		.ns = ns, .number = 1, .rail_cnt = 2, .flags = TAGRV_BOARD_ENABLED,
		.name = "127.0.0.1:77", .device = "shm",
		.rails = { { "shm", "shm" }, { "verbs", "rxa0" } },
		.counters = { .eager_tx = eager, .long_bytes_rx = 1000 * eager },
		.levels = { .posted = posted, .up = 3 },
	};

	if (!board) {
		uint32_t number;

		board = tagrv_board_join();
		slot = tagrv_board_add(board, &number);
	}
	tagrv_board_write(board, slot, &record);
}

static void take(struct top_look *look)
{
	struct top_source from = source();

	cr_assert_eq(top_look_take(&from, look), 0);
}

/* Two looks, a second apart. */
static void look_twice(struct top_look *before, struct top_look *now, struct top_rows *rows)
{
	show(1000000000, 100, 8);
	take(before);
	show(2000000000, 600, 9);
	take(now);
	cr_assert_eq(top_rows_make(now, before, rows), 0);
}

Test(top, rates_are_growth_by_time)
{
	struct top_look before, now;
	struct top_rows rows;

	look_twice(&before, &now, &rows);
	cr_assert_eq(rows.cnt, 1);
	cr_expect_float_eq(rows.rows[0].seconds, 1, 1e-9);
	cr_expect_float_eq(rows.rows[0].out, 500, 1e-6);
	cr_expect_float_eq(rows.rows[0].in, 0, 1e-6);
	cr_expect_float_eq(rows.rows[0].bytes_in, 500000, 1e-3);
	cr_expect_not(rows.rows[0].endpoint->answered);
	top_rows_free(&rows);
	top_look_free(&before);
	/* The process has shown nothing new: no rates. */
	take(&before);
	cr_assert_eq(top_rows_make(&before, &now, &rows), 0);
	cr_expect_float_eq(rows.rows[0].seconds, 0, 1e-9);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
}

/* Another viewer has asked right behind this one: the process has answered it alone. */
Test(top, an_answer_to_a_later_viewer_is_one)
{
	struct top_look look;

	show(tagrv_clock_ns() + 60000000000, 1, 1);
	take(&look);
	cr_expect(look.processes[0].endpoints[0].answered);
	top_look_free(&look);
	show(1, 1, 1);
	take(&look);
	cr_expect_not(look.processes[0].endpoints[0].answered);
	top_look_free(&look);
}

Test(top, texts_have_what_is_shown)
{
	struct top_look before, now;
	struct top_text text = { 0 };
	struct top_rows rows;

	look_twice(&before, &now, &rows);
	top_text_heading(&text, &(struct top_table) { .key = TOP_BY_OUT });
	top_text_row(&text, &(struct top_table) { .key = TOP_BY_OUT }, &rows.rows[0]);
	top_text_details(&text, &rows.rows[0]);
	cr_expect_not_null(strstr(text.text, "*OUT/s"));
	cr_expect_not_null(strstr(text.text, "127.0.0.1:77"));
	cr_expect_not_null(strstr(text.text, " 500 "));
	cr_expect_not_null(strstr(text.text, "9 posted"));
	cr_expect_not_null(strstr(text.text, "3 up, 0 waiting"));
	cr_expect_not_null(strstr(text.text, "rail         verbs rxa0"));
	top_text_free(&text);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
}

/* ---- one-sided operations ---- */

/* Each counter is another number, so that one in the wrong place is seen. */
static void show_onesided(uint64_t ns, uint64_t k)
{
	struct tagrv_board_record record = {
		.ns = ns, .number = 1, .name = "127.0.0.1:77", .device = "shm",
		.counters = {
			.onesided_tx = 13 * k, .onesided_rx = 27 * k, .onesided_views = 6 * k,
			.onesided_writes_tx = 4 * k, .onesided_write_bytes_tx = 10 * k,
			.onesided_writes_rx = 8 * k, .onesided_write_bytes_rx = 20 * k,
			.onesided_reads_tx = 3 * k, .onesided_read_bytes_tx = 30 * k,
			.onesided_reads_rx = 9 * k, .onesided_read_bytes_rx = 40 * k,
			.onesided_atomics_tx = 6 * k, .onesided_atomic_bytes_tx = 50 * k,
			.onesided_atomics_rx = 0, .onesided_atomic_bytes_rx = 0,
			.long_bytes_tx = 1000 * k, .long_bytes_rx = 2000 * k,
		},
	};

	show(1, 1, 1);
	tagrv_board_write(board, slot, &record);
}

static void look_twice_at_onesided(struct top_look *before, struct top_look *now,
				   struct top_rows *rows)
{
	show_onesided(1000000000, 1);
	take(before);
	show_onesided(2000000000, 3);
	take(now);
	cr_assert_eq(top_rows_make(now, before, rows), 0);
}

/* What is read moves towards the reader. */
Test(top, bytes_of_onesided_operations_count_by_their_way)
{
	struct top_look before, now;
	struct top_rows rows;

	look_twice_at_onesided(&before, &now, &rows);
	cr_expect_float_eq(rows.rows[0].out, 2 * 13, 1e-6);
	cr_expect_float_eq(rows.rows[0].in, 2 * 27, 1e-6);
	cr_expect_float_eq(rows.rows[0].bytes_out, 2 * (1000 + 10 + 50 + 40), 1e-6);
	cr_expect_float_eq(rows.rows[0].bytes_in, 2 * (2000 + 20 + 30), 1e-6);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
}

static size_t longest_line(const char *text)
{
	size_t most = 0;

	while (*text) {
		size_t len = strcspn(text, "\n");

		most = TAGRV_MAX(most, len);
		text += len + (text[len] != '\0');
	}
	return most;
}

Test(top, details_have_onesided_operations_and_bytes)
{
	static const char *const lines[] = {
		"\n  one-sided       out  per s   bytes     B/s     in  per s   bytes     B/s\n",
		"\n    writes         12      8      30      20     24     16      60      40\n",
		"\n    reads           9      6      90      60     27     18     120      80\n",
		"\n    atomics        18     12     150     100      0      0       0       0\n",
		"\n    of these   18 out, which the peer cannot count; besides, 0 of peers refused\n",
	};
	struct top_look before, now;
	struct top_text text = { 0 };
	struct top_rows rows;

	look_twice_at_onesided(&before, &now, &rows);
	top_text_details(&text, &rows.rows[0]);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(lines); i++) {
		cr_expect_not_null(strstr(text.text, lines[i]), "%s", text.text);
		cr_expect_leq(longest_line(lines[i]), 80);
	}
	cr_expect_null(strstr(text.text, "  eager"), "what was not used has no line");
	top_text_free(&text);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
}

/* ---- width ---- */

/* Heading and row of an endpoint, by this key, of a terminal with so many columns. */
static void print_table(struct top_text *text, const struct top_row *row, enum top_key key,
			int width)
{
	const struct top_table table = { .key = key, .width = width };

	top_text_free(text);
	top_text_heading(text, &table);
	top_text_row(text, &table, row);
}

static void expect_columns(const struct top_text *text, const char *there, const char *gone)
{
	cr_expect_not_null(strstr(text->text, there), "%s", text->text);
	cr_expect_null(strstr(text->text, gone), "%s", text->text);
}

Test(top, what_is_least_useful_is_left_out_first)
{
	struct top_look before, now;
	struct top_text text = { 0 };
	struct top_rows rows;

	look_twice(&before, &now, &rows);
	print_table(&text, &rows.rows[0], TOP_BY_PID, 0);
	cr_expect_gt(longest_line(text.text), 150, "all columns");
	for (int width = 8; width < 200; width++) {
		print_table(&text, &rows.rows[0], TOP_BY_PID, width);
		cr_expect_leq(longest_line(text.text), width);
	}
	print_table(&text, &rows.rows[0], TOP_BY_PID, 160);
	expect_columns(&text, "PART", "*OUT/s");
	print_table(&text, &rows.rows[0], TOP_BY_PID, 158);
	expect_columns(&text, "RETR", "PART");
	print_table(&text, &rows.rows[0], TOP_BY_PID, 80);
	expect_columns(&text, "  OUT/s   IN/s  B/s OUT   B/s IN  UNEXP  SENDS    AGE\n",
		       "ENDPOINT");
	/* What it is sorted by, stays. */
	print_table(&text, &rows.rows[0], TOP_BY_POSTED, 80);
	expect_columns(&text, "*POSTED", "SENDS");
	cr_expect_leq(longest_line(text.text), 80);
	print_table(&text, &rows.rows[0], TOP_BY_POSTED, 1);
	expect_columns(&text, "*POSTED\n", "PID");
	top_text_free(&text);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
}

static char *json_of(const struct top_look *look, const struct top_rows *rows)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	cr_assert_eq(top_json_write(look, rows, 1.5, out), 0);
	fclose(out);
	return text;
}

Test(top, json_has_each_counter_and_level)
{
	struct top_look before, now;
	struct top_rows rows;
	json_t *root, *endpoint;
	double rate;
	char *text;

	look_twice(&before, &now, &rows);
	text = json_of(&now, &rows);
	root = json_loads(text, 0, NULL);
	cr_assert_not_null(root, "%s", text);
	endpoint = json_array_get(json_object_get(json_array_get(
		json_object_get(root, "processes"), 0), "endpoints"), 0);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(
		endpoint, "counters"), "eager_tx")), 600);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(
		endpoint, "levels"), "posted")), 9);
	rate = json_real_value(json_object_get(json_object_get(
		endpoint, "per_second"), "eager_tx"));
	cr_expect_float_eq(rate, 500, 1e-6);
	cr_expect_eq(json_object_size(json_object_get(endpoint, "counters")),
		     sizeof(struct tagrv_board_counters) / sizeof(uint64_t));
	cr_expect_eq(json_object_size(json_object_get(endpoint, "levels")),
		     sizeof(struct tagrv_board_levels) / sizeof(uint64_t));
	json_decref(root);
	free(text);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
}

Test(top, nobody_there_is_said)
{
	struct top_source from = source();
	struct top_text text = { 0 };
	struct top_rows rows;
	struct top_look look;
	char *json;

	cr_assert_eq(top_look_take(&from, &look), 0);
	cr_assert_eq(top_rows_make(&look, NULL, &rows), 0);
	cr_expect_eq(rows.cnt, 0);
	top_text_nothing(&text, 0);
	cr_expect_not_null(strstr(text.text, "FI_TAGRV_TOP"));
	json = json_of(&look, &rows);
	cr_expect_not_null(strstr(json, "\"processes\":[]"), "%s", json);
	free(json);
	top_text_free(&text);
	top_rows_free(&rows);
	top_look_free(&look);
	from.proc = "/nowhere";
	from.pid = 0;
	cr_expect_eq(top_look_take(&from, &look), -ENOENT);
}

/* ---- many boards ---- */

#define CHILDREN	24

/* A process that shows a board until it is killed; returns when it is there. */
static pid_t start_child(void)
{
	int ready[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		uint32_t number;

		if (tagrv_board_add(tagrv_board_join(), &number) != TAGRV_BOARD_NO_SLOT)
			(void) !write(ready[1], "", 1);
		pause();
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static bool has_process(const struct top_look *look, pid_t pid)
{
	for (size_t i = 0; i < look->cnt; i++)
		if (look->processes[i].pid == pid)
			return look->processes[i].state == TOP_FINE;
	return false;
}

Test(top, there_may_be_more_boards_than_descriptors)
{
	struct top_source from = source();
	struct rlimit few, limit;
	pid_t pids[CHILDREN];
	struct top_look look;
	int next;

	from.pid = 0;
	for (int i = 0; i < CHILDREN; i++)
		pids[i] = start_child();
	next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(next);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = (rlim_t) next + 6;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_expect_eq(top_look_take(&from, &look), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < CHILDREN; i++)
		cr_expect(has_process(&look, pids[i]), "process %d of %d", i, CHILDREN);
	top_look_free(&look);
	for (int i = 0; i < CHILDREN; i++)
		end_child(pids[i]);
}

Test(top, a_board_with_two_descriptors_is_shown_once)
{
	struct top_look look;
	int fd;

	show(1, 1, 1);
	fd = dup(tagrv_board_fd(board));
	take(&look);
	cr_expect_eq(look.cnt, 1);
	top_look_free(&look);
	close(fd);
}

Test(top, a_board_that_has_gone_is_not_opened_again)
{
	struct top_found *found;
	pid_t pid = start_child();
	int fd;

	cr_assert_eq(top_find("/proc", geteuid(), pid, &found), 1);
	fd = top_find_open("/proc", geteuid(), found);
	cr_expect_geq(fd, 0);
	close(fd);
	found->inode++;
	cr_expect_eq(top_find_open("/proc", geteuid(), found), -ENOENT, "another file");
	found->inode--;
	end_child(pid);
	cr_expect_lt(top_find_open("/proc", geteuid(), found), 0);
	free(found);
}

/* ---- order ---- */

Test(top, rows_are_sorted_by_each_key)
{
	struct top_process processes[3] = { { .pid = 30, .command = "b" },
					    { .pid = 20, .command = "c" },
					    { .pid = 10, .command = "a" } };
	struct top_endpoint endpoints[2] = { 0 };
	struct top_row all[3] = {
		{ .process = &processes[0], .endpoint = &endpoints[0], .out = 1 },
		{ .process = &processes[1], .endpoint = &endpoints[1], .out = 2 },
		{ .process = &processes[2] },
	};
	struct top_rows rows = { .rows = all, .cnt = 3 };

	top_rows_sort(&rows, TOP_BY_PID, false);
	cr_expect_eq(all[0].process->pid, 10);
	top_rows_sort(&rows, TOP_BY_PID, true);
	cr_expect_eq(all[0].process->pid, 30);
	top_rows_sort(&rows, TOP_BY_COMMAND, false);
	cr_expect_eq(all[2].process->pid, 20);
	top_rows_sort(&rows, TOP_BY_OUT, false);
	cr_expect_eq(all[0].process->pid, 20);
	cr_expect_eq(all[2].process->pid, 10, "one that shows nothing comes last");
	endpoints[0].record.levels.unexpected_bytes = UINT64_MAX;
	top_rows_sort(&rows, TOP_BY_MEMORY, false);
	cr_expect_eq(all[0].process->pid, 30);
	for (int key = 0; key < TOP_KEYS; key++) {
		top_rows_sort(&rows, (enum top_key) key, key & 1);
		cr_expect_eq(top_key_find(top_key_name((enum top_key) key)), (enum top_key) key);
	}
	cr_expect_eq(top_key_find("size"), TOP_KEYS);
}

/* ---- ports of devices ---- */

static void make_counter(const char *root, const char *port, const char *name, const char *value)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "d=%s/class/infiniband/dev_0/ports/%s/hw_counters; mkdir -p $d; echo %s >$d/%s",
		 root, port, value, name);
	cr_assert_eq(system(command), 0);
}

Test(top, retransmits_are_those_of_the_ports)
{
	char root[] = "/tmp/top_XXXXXX", command[64];
	uint64_t sum;

	cr_assert_not_null(mkdtemp(root));
	make_counter(root, "1", "packet_seq_err", "3");
	make_counter(root, "1", "rx_bytes", "1000");
	make_counter(root, "2", "rcvd_seq_err", "5");
	make_counter(root, "2", "send_rnr_err", "nonsense");
	cr_expect(top_retransmits(root, "dev_0", &sum));
	cr_expect_eq(sum, 8);
	cr_expect(top_retransmits(root, "dev_0:2+dev_1", &sum));
	cr_expect_eq(sum, 5);
	cr_expect_not(top_retransmits(root, "dev_1", &sum));
	cr_expect_not(top_retransmits(root, "../infiniband/dev_0", &sum));
	cr_expect_not(top_retransmits(root, "dev_0:1/../1", &sum));
	cr_expect_not(top_retransmits(root, "", &sum));
	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

static void show_rail(const char *device)
{
	struct tagrv_board_record record = {
		.ns = tagrv_clock_ns(), .number = 1, .rail_cnt = 2,
		.rails = { { "shm", "dev_0" }, { "verbs", "" } },
	};

	snprintf(record.rails[1].device, sizeof(record.rails[1].device), "%s", device);
	show(1, 1, 1);
	tagrv_board_write(board, slot, &record);
}

Test(top, an_endpoint_has_the_retransmits_of_its_devices)
{
	char root[] = "/tmp/top_XXXXXX", command[64];
	struct top_source from = source();
	struct top_look before, now, other;
	struct top_text text = { 0 };
	struct top_rows rows;

	cr_assert_not_null(mkdtemp(root));
	from.sys = root;
	make_counter(root, "1", "packet_seq_err", "3");
	show_rail("dev_0:1");
	cr_assert_eq(top_look_take(&from, &before), 0);
	make_counter(root, "1", "packet_seq_err", "1234");
	show_rail("dev_0:1");
	cr_assert_eq(top_look_take(&from, &now), 0);
	cr_expect_eq(before.processes[0].endpoints[0].retransmits, 3);
	cr_expect_eq(now.processes[0].endpoints[0].retransmits, 1234, "shm has none");
	cr_assert_eq(top_rows_make(&now, &before, &rows), 0);
	cr_expect_gt(rows.rows[0].retransmits, 0);
	top_text_details(&text, &rows.rows[0]);
	cr_expect_not_null(strstr(text.text, "retransmits  1234 of the ports"), "%s", text.text);
	show_rail("dev_1");
	cr_assert_eq(top_look_take(&from, &other), 0);
	cr_expect_not(other.processes[0].endpoints[0].has_retransmits, "no such device");
	top_text_free(&text);
	top_rows_free(&rows);
	top_look_free(&before);
	top_look_free(&now);
	top_look_free(&other);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

/* ---- random bytes ---- */

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A head that is mostly fine, so that what is behind it is read. */
static void draw_head(struct tagrv_board_head *head)
{
	if (draw() % 8)
		memcpy(head->magic, TAGRV_BOARD_MAGIC, sizeof(head->magic));
	if (draw() % 8)
		head->version = TAGRV_BOARD_VERSION;
	if (draw() % 4)
		head->head_len = (uint32_t) (draw() % 512);
	if (draw() % 4)
		head->slot_len = (uint32_t) (draw() % 8192);
	if (draw() % 4)
		head->slot_cnt = (uint32_t) (draw() % 128);
	if (draw() % 8)
		head->pid = (uint32_t) getpid();
}

static void draw_board(char *bytes, size_t len)
{
	struct tagrv_board_head head;

	for (size_t i = 0; i + sizeof(uint64_t) <= len; i += sizeof(uint64_t)) {
		uint64_t word = draw() % 4 ? draw() : 2 * (draw() % 3);

		memcpy(bytes + i, &word, sizeof(word));
	}
	memcpy(&head, bytes, sizeof(head));
	draw_head(&head);
	memcpy(bytes, &head, sizeof(head));
}

/* Everything that a view does with a look. Returns how many endpoints there were. */
static size_t use(const struct top_look *look, const struct top_look *before)
{
	struct top_text text = { 0 };
	struct top_rows rows;
	size_t shown = 0;
	json_t *root;
	char *json;

	cr_assert_eq(top_rows_make(look, before, &rows), 0);
	for (int key = 0; key < TOP_KEYS; key++)
		top_rows_sort(&rows, (enum top_key) key, false);
	for (size_t i = 0; i < rows.cnt; i++) {
		top_text_row(&text, &(struct top_table) { .width = (int) (draw() % 200) },
			     &rows.rows[i]);
		top_text_details(&text, &rows.rows[i]);
		shown += rows.rows[i].endpoint != NULL;
	}
	json = json_of(look, &rows);
	root = json_loads(json, 0, NULL);
	cr_assert_not_null(root, "%s", json);
	json_decref(root);
	for (size_t i = 0; i < text.len; i++)
		cr_assert(text.text[i] == '\n' || (text.text[i] >= ' ' && text.text[i] <= '~'));
	free(json);
	top_text_free(&text);
	top_rows_free(&rows);
	return shown;
}

Test(top, random_bytes_are_read_without_harm)
{
	static char bytes[65536];
	struct top_look before = { 0 }, now;
	size_t shown = 0, refused = 0;
	int fd = memfd_create(TAGRV_BOARD_NAME, MFD_CLOEXEC);

	for (int i = 0; i < 150; i++) {
		/* Some of it is no board at all. */
		size_t len = draw() % 4 ? sizeof(bytes) : draw() % sizeof(bytes);
		size_t cnt;

		draw_board(bytes, sizeof(bytes));
		cr_assert_eq(ftruncate(fd, 0), 0);
		cr_assert_eq(pwrite(fd, bytes, len, 0), (ssize_t) len);
		take(&now);
		cnt = use(&now, &before);
		shown += cnt;
		refused += !cnt;
		top_look_free(&before);
		before = now;
	}
	top_look_free(&before);
	cr_expect_gt(shown, 0);
	cr_expect_gt(refused, 0);
}
