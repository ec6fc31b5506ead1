/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * board.c, the writer, and util/top/top_page.c, the reader, of the same memory.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board/board.h"
#include "util/top/top_find.h"

TestSuite(board, .timeout = 20);

static void link_of(int fd, char link[64])
{
	snprintf(link, 64, "/proc/%d/fd/%d", (int) getpid(), fd);
}

static ino_t inode;

static int open_board(const struct tagrv_board *board, uid_t user)
{
	char link[64];

	link_of(tagrv_board_fd(board), link);
	return top_page_open(link, user, &inode);
}

/* A record all of whose words are the same. */
static struct tagrv_board_record record_of(uint64_t word)
{
	struct tagrv_board_record record;
	uint64_t words[sizeof(record) / sizeof(uint64_t)];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = word;
	memcpy(&record, words, sizeof(record));
	return record;
}

static bool is_whole(const struct tagrv_board_record *record)
{
	const uint64_t *c = (const uint64_t *) (const void *) &record->counters;
	const uint64_t *end = (const uint64_t *) (const void *) (record + 1);

	for (const uint64_t *at = c; at < end; at++)
		if (*at != *c)
			return false;
	return true;
}

Test(board, is_one_per_process_and_gone_with_its_last_user)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board *again = tagrv_board_join();
	struct stat st;
	int fd;

	cr_assert_not_null(board);
	cr_expect_eq(board, again);
	fd = tagrv_board_fd(board);
	tagrv_board_leave(again);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600, "%o", st.st_mode);
	cr_expect_eq(st.st_nlink, 0);
	cr_expect_eq(st.st_size, TAGRV_BOARD_BYTES);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	tagrv_board_leave(board);
	cr_expect_eq(fstat(fd, &st), -1);
	tagrv_board_leave(NULL);
}

Test(board, takes_one_page_until_something_is_shown)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record record = record_of(1);
	struct stat st;
	uint32_t number;
	int slot[3];

	for (int i = 0; i < 3; i++)
		slot[i] = tagrv_board_add(board, &number);
	tagrv_board_remove(board, slot[2]);
	fstat(tagrv_board_fd(board), &st);
	cr_expect_leq(st.st_blocks * 512, sysconf(_SC_PAGESIZE));
	tagrv_board_write(board, 60, &record);
	fstat(tagrv_board_fd(board), &st);
	cr_expect_gt(st.st_blocks * 512, sysconf(_SC_PAGESIZE));
	tagrv_board_leave(board);
}

/* The process goes on without, and is not ended by SIGXFSZ. */
Test(board, is_not_there_where_files_may_not_be_so_large)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = TAGRV_BOARD_BYTES - 1;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_null(tagrv_board_join());
	cr_expect_eq(errno, EFBIG);
}

/* A viewer must not be able to have the process die of SIGBUS. */
Test(board, has_a_size_that_nobody_can_change)
{
	struct tagrv_board *board = tagrv_board_join();
	int fd = open_board(board, geteuid());

	cr_assert_geq(fd, 0);
	cr_expect_eq(ftruncate(fd, 0), -1);
	cr_expect_eq(ftruncate(fd, 1 << 24), -1);
	cr_expect_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(fd);
	tagrv_board_leave(board);
}

Test(board, shows_records_to_viewers)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record out = { .number = 7, .rail_cnt = 1 }, in;
	struct tagrv_board_head head;
	uint32_t number = 0;
	int slot = tagrv_board_add(board, &number), fd = open_board(board, geteuid());

	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_expect_eq(head.pid, (uint32_t) getpid());
	cr_expect_eq(head.endpoints, 1);
	cr_expect_eq(number, 1);
	cr_expect_not(top_page_record(fd, &head, (unsigned) slot, &in), "nothing is shown yet");
	tagrv_board_text(out.name, sizeof(out.name), "127.0.0.1:1");
	out.counters.eager_tx = 5;
	out.levels.listed_soft = 6;
	tagrv_board_write(board, slot, &out);
	cr_assert(top_page_record(fd, &head, (unsigned) slot, &in));
	cr_expect_eq(memcmp(&in, &out, sizeof(in)), 0);
	tagrv_board_remove(board, slot);
	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_expect_eq(head.endpoints, 0);
	cr_expect_not(top_page_record(fd, &head, (unsigned) slot, &in));
	close(fd);
	tagrv_board_leave(board);
}

Test(board, a_slot_that_is_used_again_shows_nothing_of_the_former)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record record = record_of(1);
	struct tagrv_board_head head;
	uint32_t number[2];
	int slot = tagrv_board_add(board, &number[0]), fd = open_board(board, geteuid());

	tagrv_board_write(board, slot, &record);
	tagrv_board_remove(board, slot);
	cr_assert_eq(tagrv_board_add(board, &number[1]), slot);
	cr_expect_neq(number[0], number[1]);
	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_expect_not(top_page_record(fd, &head, (unsigned) slot, &record));
	close(fd);
	tagrv_board_leave(board);
}

/* A viewer may write what it likes. */
Test(board, what_viewers_write_moves_no_slot)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record record = record_of(1);
	struct tagrv_board_head *head;
	struct tagrv_board_head seen;
	int fd = open_board(board, geteuid());
	uint32_t number;

	cr_assert_eq(tagrv_board_add(board, &number), 0);
	head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_SHARED, tagrv_board_fd(board), 0);
	cr_assert_neq(head, MAP_FAILED);
	atomic_store(&head->live, 0);
	cr_assert_eq(tagrv_board_add(board, &number), 1, "two endpoints have one slot");
	atomic_store(&head->live, UINT64_MAX);
	cr_assert_eq(tagrv_board_add(board, &number), 2, "no endpoint is shown any more");
	atomic_store(&head->endpoints, 77);
	tagrv_board_remove(board, 1);
	tagrv_board_write(board, 0, &record);
	cr_assert_eq(top_page_head(fd, &seen), TOP_FINE);
	cr_expect_eq(atomic_load(&seen.live), 5);
	cr_expect_eq(atomic_load(&seen.endpoints), 2);
	cr_expect(top_page_record(fd, &seen, 0, &record));
	munmap(head, sizeof(*head));
	close(fd);
	tagrv_board_leave(board);
}

Test(board, endpoints_beyond_its_slots_are_counted)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record record = record_of(1);
	struct tagrv_board_head head;
	int fd = open_board(board, geteuid());
	uint32_t number;

	for (unsigned i = 0; i < TAGRV_BOARD_SLOTS; i++)
		cr_assert_eq(tagrv_board_add(board, &number), (int) i);
	cr_assert_eq(tagrv_board_add(board, &number), TAGRV_BOARD_NO_SLOT);
	tagrv_board_write(board, TAGRV_BOARD_NO_SLOT, &record);
	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_expect_eq(head.endpoints, TAGRV_BOARD_SLOTS + 1);
	tagrv_board_remove(board, TAGRV_BOARD_NO_SLOT);
	tagrv_board_remove(board, 63);
	cr_expect_eq(tagrv_board_add(board, &number), 63);
	close(fd);
	tagrv_board_leave(board);
}

Test(board, hears_of_viewers_that_ask)
{
	struct tagrv_board *board = tagrv_board_join();
	int fd = open_board(board, geteuid());

	cr_expect_eq(tagrv_board_asked(board), 0);
	cr_assert_eq(top_page_ask(fd, 0x1234567890abcdef), 0);
	cr_expect_eq(tagrv_board_asked(board), 0x1234567890abcdef);
	close(fd);
	tagrv_board_leave(board);
}

/* ---- a record that changes while it is read ---- */

static struct tagrv_board *written;
static _Atomic bool stop;

static void *write_records(void *arg)
{
	for (uint64_t i = 1; !stop; i++) {
		struct tagrv_board_record record = record_of(i);

		tagrv_board_write(written, *(int *) arg, &record);
	}
	return NULL;
}

Test(board, a_viewer_gets_whole_records_while_they_change)
{
	struct tagrv_board_record record;
	struct tagrv_board_head head;
	unsigned whole = 0;
	uint32_t number;
	pthread_t thread;
	int slot, fd;

	written = tagrv_board_join();
	slot = tagrv_board_add(written, &number);
	fd = open_board(written, geteuid());
	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_assert_eq(pthread_create(&thread, NULL, write_records, &slot), 0);
	for (int i = 0; i < 20000 && whole < 500; i++) {
		if (!top_page_record(fd, &head, (unsigned) slot, &record))
			continue;
		cr_assert(is_whole(&record));
		whole++;
	}
	stop = true;
	pthread_join(thread, NULL);
	cr_expect_gt(whole, 0);
	close(fd);
	tagrv_board_leave(written);
}

/* The process was killed amid a write. */
Test(board, a_record_that_is_never_whole_is_left_out)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record record = record_of(1);
	const uint64_t odd = 3;
	struct tagrv_board_head head;
	uint32_t number;
	int slot = tagrv_board_add(board, &number), fd = open_board(board, geteuid());

	tagrv_board_write(board, slot, &record);
	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_assert_eq(pwrite(fd, &odd, sizeof(odd), sizeof(head)), sizeof(odd));
	cr_expect_not(top_page_record(fd, &head, (unsigned) slot, &record));
	/* The next write mends it. */
	tagrv_board_write(board, slot, &record);
	cr_expect(top_page_record(fd, &head, (unsigned) slot, &record));
	close(fd);
	tagrv_board_leave(board);
}

/* ---- what a viewer refuses ---- */

Test(board, of_another_user_is_refused)
{
	struct tagrv_board *board = tagrv_board_join();
	struct top_found *found;

	cr_expect_eq(open_board(board, geteuid() + 1), -EPERM);
	cr_expect_eq(top_find("/proc", geteuid() + 1, getpid(), &found), 0);
	free(found);
	tagrv_board_leave(board);
}

static int open_link(int fd)
{
	char link[64];

	link_of(fd, link);
	return top_page_open(link, geteuid(), &inode);
}

Test(board, other_files_are_no_boards)
{
	char path[] = "/tmp/board_XXXXXX";
	int file = mkstemp(path), fds[2];
	int other = memfd_create("tagrv-other", MFD_CLOEXEC);

	cr_expect_eq(open_link(file), -ENOENT);
	cr_expect_eq(open_link(other), -ENOENT);
	cr_assert_eq(pipe(fds), 0);
	cr_expect_eq(open_link(fds[0]), -ENOENT);
	cr_expect_eq(top_page_open("/proc/self/fd/999999", geteuid(), &inode), -ENOENT);
	/* A link that only looks like one. */
	unlink(path);
	cr_assert_eq(symlink("/memfd:" TAGRV_BOARD_NAME " (deleted)", path), 0);
	cr_expect_lt(top_page_open(path, geteuid(), &inode), 0);
	unlink(path);
}

/* A board with these bytes at its beginning. */
static int forge(const void *bytes, size_t len)
{
	int fd = memfd_create(TAGRV_BOARD_NAME, MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, bytes, len, 0), (ssize_t) len);
	return fd;
}

static enum top_state state_of(const struct tagrv_board_head *head)
{
	struct tagrv_board_head in;
	int fd = forge(head, sizeof(*head));
	enum top_state state = top_page_head(fd, &in);

	close(fd);
	return state;
}

Test(board, of_another_layout_is_named_and_not_read)
{
	struct tagrv_board_head head = {
		.magic = TAGRV_BOARD_MAGIC, .version = TAGRV_BOARD_VERSION,
		.head_len = sizeof(head), .slot_len = TAGRV_BOARD_SLOT_LEN,
		.slot_cnt = TAGRV_BOARD_SLOTS,
	};

	cr_expect_eq(state_of(&head), TOP_FINE);
	head.head_len += 64;
	head.slot_len += 4096;
	cr_expect_eq(state_of(&head), TOP_FINE, "a later release may add members");
	head.version++;
	cr_expect_eq(state_of(&head), TOP_OTHER_VERSION);
	/* Before the bytes of one-sided operations, levels were in another place. */
	head.version = 1;
	cr_expect_eq(state_of(&head), TOP_OTHER_VERSION);
	head.version = TAGRV_BOARD_VERSION;
	head.slot_len = sizeof(struct tagrv_board_slot) - 1;
	cr_expect_eq(state_of(&head), TOP_BROKEN);
	head.slot_len = UINT32_MAX;
	cr_expect_eq(state_of(&head), TOP_BROKEN);
	head.slot_len = TAGRV_BOARD_SLOT_LEN;
	head.head_len = sizeof(head) - 1;
	cr_expect_eq(state_of(&head), TOP_BROKEN);
	head.head_len = sizeof(head);
	head.magic[0] = 't';
	cr_expect_eq(state_of(&head), TOP_BROKEN);
}

Test(board, that_is_cut_off_is_broken)
{
	struct tagrv_board_head head = {
		.magic = TAGRV_BOARD_MAGIC, .version = TAGRV_BOARD_VERSION,
		.head_len = sizeof(head), .slot_len = TAGRV_BOARD_SLOT_LEN,
		.slot_cnt = TAGRV_BOARD_SLOTS, .live = UINT64_MAX,
	};
	struct tagrv_board_record record;
	int fd = forge(&head, sizeof(head));

	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	for (unsigned i = 0; i < 100; i++)
		cr_expect_not(top_page_record(fd, &head, i, &record));
	cr_assert_eq(ftruncate(fd, sizeof(head) - 1), 0);
	cr_expect_eq(top_page_head(fd, &head), TOP_BROKEN);
	close(fd);
}

/* ---- forks ---- */

static int count_boards(pid_t pid)
{
	struct top_found *found;
	int cnt = top_find("/proc", geteuid(), pid, &found);

	free(found);
	return cnt;
}

/* What it has inherited it may close, which is nothing of the parent's. */
Test(board, a_child_that_closes_leaves_its_parents_alone)
{
	struct tagrv_board *board = tagrv_board_join();
	struct tagrv_board_record record = record_of(1), other = record_of(2), got;
	struct tagrv_board_head head;
	int fd = open_board(board, geteuid()), status, slot;
	uint32_t number;
	pid_t child;

	slot = tagrv_board_add(board, &number);
	tagrv_board_write(board, slot, &record);
	child = fork();
	if (!child) {
		tagrv_board_write(board, slot, &other);
		tagrv_board_remove(board, slot);
		_exit(tagrv_board_add(board, &number) != TAGRV_BOARD_NO_SLOT);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "%x", status);
	cr_assert_eq(top_page_head(fd, &head), TOP_FINE);
	cr_expect_eq(atomic_load(&head.endpoints), 1);
	cr_assert(top_page_record(fd, &head, (unsigned) slot, &got));
	cr_expect_eq(got.counters.eager_tx, record.counters.eager_tx);
	cr_expect_neq(got.counters.eager_tx, other.counters.eager_tx);
	close(fd);
	tagrv_board_leave(board);
}

Test(board, a_child_has_its_own_and_is_not_shown_with_its_parents)
{
	struct tagrv_board *board = tagrv_board_join();
	pid_t child;
	int status;

	cr_assert_eq(count_boards(getpid()), 1);
	child = fork();
	if (!child) {
		int before = count_boards(getpid());
		struct tagrv_board *own = tagrv_board_join();
		int with = count_boards(getpid());

		tagrv_board_leave(own);
		tagrv_board_leave(board);
		_exit(before != 0 || own == board || with != 1 || count_boards(getpid()));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "%x", status);
	cr_expect_eq(count_boards(getpid()), 1);
	tagrv_board_leave(board);
}
