/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The board of this process: see board.h.
 *
 * Its size is sealed: a viewer cannot cut it off under the process, nor the process under a
 * viewer. A forked child that opens domains gets a board of its own; the parent's stays
 * mapped there, because the child may still close what it has inherited.
 */
#include "board/board.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL	8u
#endif

struct tagrv_board {
	struct tagrv_board_head *head;
	int	fd;
	pid_t	pid;
	unsigned users;
	uint32_t last_number;
	/* What the process knows of its slots by itself: viewers may write to the board. */
	uint32_t endpoints;
	uint64_t live;
	_Atomic uint64_t written;	/* bit i: slot i has memory; to look would give it some */
	uint64_t turns[TAGRV_BOARD_SLOTS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct tagrv_board *current;	/* NULL: none */

/* ---- making and freeing ---- */

/* Kernels before 6.3 do not know the flag, later ones may insist on it. */
static int make_memfd(void)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(TAGRV_BOARD_NAME, flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(TAGRV_BOARD_NAME, flags) : fd;
}

/* Beyond the limit of file sizes, ftruncate() would end the process by a signal. */
static bool may_have_file(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= TAGRV_BOARD_BYTES)
		return true;
	errno = EFBIG;
	return false;
}

/*
 * Gives a part its memory. Where there is none (vm.overcommit_memory = 2), the first access
 * would end the process by a signal.
 */
static bool reserve(int fd, size_t from, size_t bytes)
{
	return !fallocate(fd, 0, (off_t) from, (off_t) bytes);
}

static int open_memory(void)
{
	int fd = may_have_file() ? make_memfd() : -1;

	if (fd < 0)
		return -1;
	if (!fchmod(fd, 0600) && !ftruncate(fd, (off_t) TAGRV_BOARD_BYTES) &&
	    reserve(fd, 0, sizeof(struct tagrv_board_head)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	close(fd);
	return -1;
}

static void write_head(struct tagrv_board_head *head, pid_t pid)
{
	head->head_len = sizeof(*head);
	head->slot_len = TAGRV_BOARD_SLOT_LEN;
	head->slot_cnt = TAGRV_BOARD_SLOTS;
	head->pid = (uint32_t) pid;
	tagrv_board_text(head->release, sizeof(head->release), PACKAGE_VERSION);
	head->version = TAGRV_BOARD_VERSION;
	atomic_thread_fence(memory_order_release);
	memcpy(head->magic, TAGRV_BOARD_MAGIC, sizeof(head->magic));
}

static struct tagrv_board *create(void)
{
	struct tagrv_board *board = calloc(1, sizeof(*board));
	void *memory;

	if (!board)
		return NULL;
	board->fd = open_memory();
	if (board->fd < 0)
		goto free_board;
	memory = mmap(NULL, TAGRV_BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      board->fd, 0);
	if (memory == MAP_FAILED)
		goto close_fd;
	board->head = memory;
	board->pid = getpid();
	write_head(board->head, board->pid);
	return board;

close_fd:
	close(board->fd);
free_board:
	free(board);
	return NULL;
}

struct tagrv_board *tagrv_board_join(void)
{
	struct tagrv_board *board;

	pthread_mutex_lock(&mutex);
	if (current && current->pid != getpid())
		current = NULL;
	if (!current)
		current = create();
	board = current;
	if (board)
		board->users++;
	pthread_mutex_unlock(&mutex);
	return board;
}

void tagrv_board_leave(struct tagrv_board *board)
{
	if (!board)
		return;
	pthread_mutex_lock(&mutex);
	if (!--board->users) {
		if (board == current)
			current = NULL;
		munmap(board->head, TAGRV_BOARD_BYTES);
		close(board->fd);
		free(board);
	}
	pthread_mutex_unlock(&mutex);
}

int tagrv_board_fd(const struct tagrv_board *board)
{
	return board->fd;
}

/* ---- slots ---- */

/* A child that a fork has made closes what it has inherited; the board is the parent's. */
static bool is_own(const struct tagrv_board *board)
{
	return board && board->pid == getpid();
}

static size_t offset_of(int slot)
{
	return sizeof(struct tagrv_board_head) + (size_t) slot * TAGRV_BOARD_SLOT_LEN;
}

static struct tagrv_board_slot *slot_at(struct tagrv_board *board, int slot)
{
	char *at = (char *) board->head + offset_of(slot);

	return (struct tagrv_board_slot *) (void *) at;
}

int tagrv_board_add(struct tagrv_board *board, uint32_t *number)
{
	int slot = TAGRV_BOARD_NO_SLOT;

	if (!is_own(board))
		return TAGRV_BOARD_NO_SLOT;
	pthread_mutex_lock(&mutex);
	*number = ++board->last_number;
	atomic_store(&board->head->endpoints, ++board->endpoints);
	if (~board->live) {
		slot = __builtin_ctzll(~board->live);
		board->live |= 1ull << slot;
		atomic_store(&board->head->live, board->live);
	}
	pthread_mutex_unlock(&mutex);
	return slot;
}

void tagrv_board_remove(struct tagrv_board *board, int slot)
{
	if (!is_own(board))
		return;
	pthread_mutex_lock(&mutex);
	atomic_store(&board->head->endpoints, --board->endpoints);
	if (slot != TAGRV_BOARD_NO_SLOT) {
		board->live &= ~(1ull << slot);
		atomic_store(&board->head->live, board->live);
		if (atomic_load(&board->written) >> slot & 1)
			atomic_store(&slot_at(board, slot)->turn, 0);
	}
	pthread_mutex_unlock(&mutex);
}

uint64_t tagrv_board_asked(const struct tagrv_board *board)
{
	return atomic_load_explicit(&board->head->asked, memory_order_relaxed);
}

static bool has_memory(struct tagrv_board *board, int slot)
{
	if (atomic_load_explicit(&board->written, memory_order_relaxed) >> slot & 1)
		return true;
	if (!reserve(board->fd, offset_of(slot), TAGRV_BOARD_SLOT_LEN))
		return false;
	atomic_fetch_or(&board->written, 1ull << slot);
	return true;
}

/* A viewer that reads 'turn', the record and 'turn' again knows whether it has all of one
 * record. */
void tagrv_board_write(struct tagrv_board *board, int slot,
		       const struct tagrv_board_record *record)
{
	const uint64_t *from = (const uint64_t *) (const void *) record;
	struct tagrv_board_slot *at;
	_Atomic uint64_t *to;
	uint64_t turn;

	if (slot == TAGRV_BOARD_NO_SLOT || !is_own(board) || !has_memory(board, slot))
		return;
	at = slot_at(board, slot);
	to = (_Atomic uint64_t *) (void *) &at->record;
	turn = board->turns[slot] + 1;
	board->turns[slot] = turn + 1;
	atomic_store_explicit(&at->turn, turn, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < sizeof(*record) / sizeof(*from); i++)
		atomic_store_explicit(&to[i], from[i], memory_order_relaxed);
	atomic_store_explicit(&at->turn, turn + 1, memory_order_release);
}

void tagrv_board_text(char *to, size_t size, const char *text)
{
	size_t len = strnlen(text, size - 1);

	memcpy(to, text, len);
	memset(to + len, 0, size - len);
}
