/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kinds of memory: see monitor_vma.h. Linux 6.11 and later answer for one address
 * (PROCMAP_QUERY); before, the text of /proc/self/maps is read from its start.
 */
#include "reg/monitor_vma.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/compiler.h"

struct vma {
	uintptr_t from, to;
	bool plain;
};

/* ---- by ioctl ---- */

/* PROCMAP_QUERY of linux/fs.h, which older headers lack. */
struct procmap_query {
	uint64_t size;
	uint64_t flags;
	uint64_t addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};

#define QUERY		_IOWR('f', 17, struct procmap_query)
#define QUERY_WRITABLE	0x02u
#define QUERY_SHARED	0x08u

/* 0; -ENOENT: nothing is mapped at addr; other errors: no such ioctl. */
static int query_vma(int maps, uintptr_t addr, struct vma *vma)
{
	struct procmap_query query = { .size = sizeof(query), .addr = addr };

	if (ioctl(maps, QUERY, &query))
		return -errno;
	vma->from = query.vma_start;
	vma->to = query.vma_end;
	vma->plain = !query.inode && query.vma_flags & QUERY_WRITABLE &&
		     !(query.vma_flags & QUERY_SHARED);
	return 0;
}

/* ---- by text ---- */

struct maps_text {
	int	fd;
	size_t	at, len;
	char	buf[4096];
};

static int next_char(struct maps_text *text)
{
	ssize_t got;

	if (text->at == text->len) {
		got = read(text->fd, text->buf, sizeof(text->buf));
		if (got <= 0)
			return -1;
		text->at = 0;
		text->len = (size_t) got;
	}
	return (unsigned char) text->buf[text->at++];
}

/* Reads a hexadecimal number and the character that ends it. */
static uintptr_t next_hex(struct maps_text *text, int *end)
{
	uintptr_t value = 0;

	for (;;) {
		int c = next_char(text);

		if (c >= '0' && c <= '9')
			value = value << 4 | (uintptr_t) (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uintptr_t) (c - 'a' + 10);
		else {
			*end = c;
			return value;
		}
	}
}

/* Reads a line such as "7f00-7f01 rw-p 00000000 00:00 0    [name]". */
static bool next_vma(struct maps_text *text, struct vma *vma)
{
	char mode[5] = "";
	int end;

	vma->from = next_hex(text, &end);
	vma->to = next_hex(text, &end);
	for (size_t i = 0; i < sizeof(mode); i++)
		mode[i] = (char) next_char(text);
	next_hex(text, &end);	/* offset */
	next_hex(text, &end);	/* device */
	next_hex(text, &end);
	/* The inode is decimal, but only compared with 0. */
	vma->plain = !next_hex(text, &end) && mode[1] == 'w' && mode[3] == 'p';
	while (end != '\n' && end != -1)
		end = next_char(text);
	return end != -1;
}

static bool read_text(int maps, uintptr_t from, uintptr_t to)
{
	struct maps_text text = { .fd = maps };
	struct vma vma = { 0 };

	if (lseek(maps, 0, SEEK_SET))
		return false;
	while (next_vma(&text, &vma)) {
		if (vma.to <= from)
			continue;
		if (vma.from > from || !vma.plain)
			return false;
		if (vma.to >= to)
			return true;
		from = vma.to;
	}
	return false;
}

bool tagrv_vma_is_plain(int maps, uintptr_t from, uintptr_t to, bool by_text)
{
	struct vma vma = { 0 };

	while (!by_text) {
		int ret = query_vma(maps, from, &vma);

		if (ret && ret != -ENOENT)
			break;
		if (ret || !vma.plain)
			return false;
		if (vma.to >= to)
			return true;
		from = vma.to;
	}
	return read_text(maps, from, to);
}
