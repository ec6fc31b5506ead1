/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads the board of another process: see top_page.h.
 */
#include "util/top/top_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_TEXT	"/memfd:" TAGRV_BOARD_NAME " (deleted)"
#define READ_TRIES	16
/* Lengths that no release will have. */
#define LEN_MAX		(1u << 20)

/* ---- opening ---- */

static bool is_board_link(const char *link)
{
	char text[sizeof(LINK_TEXT) + 1];
	ssize_t len = readlink(link, text, sizeof(text));

	return len == (ssize_t) strlen(LINK_TEXT) && !memcmp(text, LINK_TEXT, (size_t) len);
}

/* Without opening the file, which may have become something whose opening has effects. */
static int check_file(int path_fd, uid_t user, ino_t *inode)
{
	struct stat st;

	if (fstat(path_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink)
		return -ENOENT;
	*inode = st.st_ino;
	return st.st_uid == user ? 0 : -EPERM;
}

int top_page_open(const char *link, uid_t user, ino_t *inode)
{
	char again[64];
	int path_fd, fd, ret;

	if (!is_board_link(link))
		return -ENOENT;
	path_fd = open(link, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	ret = check_file(path_fd, user, inode);
	if (ret) {
		close(path_fd);
		return ret;
	}
	snprintf(again, sizeof(again), "/proc/self/fd/%d", path_fd);
	fd = open(again, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ret = fd < 0 ? -errno : fd;
	close(path_fd);
	return ret;
}

/* ---- reading ---- */

static bool read_at(int fd, void *to, size_t len, uint64_t at)
{
	return pread(fd, to, len, (off_t) at) == (ssize_t) len;
}

void top_page_clean(char *text, size_t size)
{
	size_t i;

	text[size - 1] = '\0';
	for (i = 0; text[i]; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	memset(text + i, 0, size - i);
}

static bool is_sane(const struct tagrv_board_head *head)
{
	return head->head_len >= sizeof(*head) && head->head_len <= LEN_MAX &&
	       head->slot_len >= sizeof(struct tagrv_board_slot) &&
	       head->slot_len <= LEN_MAX && head->slot_cnt <= LEN_MAX;
}

enum top_state top_page_head(int fd, struct tagrv_board_head *head)
{
	if (!read_at(fd, head, sizeof(*head), 0) ||
	    memcmp(head->magic, TAGRV_BOARD_MAGIC, sizeof(head->magic)))
		return TOP_BROKEN;
	top_page_clean(head->release, sizeof(head->release));
	if (head->version != TAGRV_BOARD_VERSION)
		return TOP_OTHER_VERSION;
	return is_sane(head) ? TOP_FINE : TOP_BROKEN;
}

int top_page_ask(int fd, uint64_t value)
{
	const off_t at = offsetof(struct tagrv_board_head, asked);

	return pwrite(fd, &value, sizeof(value), at) == (ssize_t) sizeof(value) ? 0 : -errno;
}

static void clean_record(struct tagrv_board_record *record)
{
	if (record->rail_cnt > TAGRV_BOARD_RAILS)
		record->rail_cnt = TAGRV_BOARD_RAILS;
	top_page_clean(record->name, sizeof(record->name));
	top_page_clean(record->device, sizeof(record->device));
	for (unsigned i = 0; i < TAGRV_BOARD_RAILS; i++) {
		top_page_clean(record->rails[i].xport, sizeof(record->rails[i].xport));
		top_page_clean(record->rails[i].device, sizeof(record->rails[i].device));
	}
}

bool top_page_record(int fd, const struct tagrv_board_head *head, unsigned slot,
		     struct tagrv_board_record *record)
{
	uint64_t at = head->head_len + (uint64_t) slot * head->slot_len;
	uint64_t before, after;

	if (slot >= head->slot_cnt || slot >= TAGRV_BOARD_SLOTS || !(head->live >> slot & 1))
		return false;
	for (int i = 0; i < READ_TRIES; i++) {
		if (!read_at(fd, &before, sizeof(before), at) || !before)
			return false;
		atomic_thread_fence(memory_order_seq_cst);
		if (!read_at(fd, record, sizeof(*record),
			     at + offsetof(struct tagrv_board_slot, record)))
			return false;
		atomic_thread_fence(memory_order_seq_cst);
		if (!read_at(fd, &after, sizeof(after), at))
			return false;
		if (before == after && !(before & 1)) {
			clean_record(record);
			return true;
		}
	}
	return false;
}
