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

/* The kernel calls huge pages that belong to no file of a user like this. */
#define HUGE_NAME	"/anon_hugepage (deleted)"

struct vma {
	uintptr_t from, to;
	enum tagrv_vma_kind kind;
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

/*
 * Writable and private, but of a file. Asks for the name apart, because the kernel
 * answers ENAMETOOLONG, and nothing else, where the name is too long.
 */
static enum tagrv_vma_kind query_file(int maps, uintptr_t addr)
{
	char name[sizeof(HUGE_NAME)];
	struct procmap_query query = {
		.size = sizeof(query), .addr = addr,
		.name_addr = (uintptr_t) name, .name_size = sizeof(name),
	};

	return !ioctl(maps, QUERY, &query) &&
	       query.name_size == sizeof(name) &&
	       !memcmp(name, HUGE_NAME, sizeof(name)) ?
	       TAGRV_VMA_HUGE : TAGRV_VMA_OTHER;
}

/* 0; -ENOENT: nothing is mapped at addr; other errors: no such ioctl. */
static int query_vma(int maps, uintptr_t addr, struct vma *vma)
{
	struct procmap_query query = { .size = sizeof(query), .addr = addr };

	if (ioctl(maps, QUERY, &query))
		return -errno;
	vma->from = query.vma_start;
	vma->to = query.vma_end;
	if (!(query.vma_flags & QUERY_WRITABLE) || query.vma_flags & QUERY_SHARED)
		vma->kind = TAGRV_VMA_OTHER;
	else
		vma->kind = query.inode ? query_file(maps, addr) : TAGRV_VMA_PLAIN;
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

/* Reads the rest of a line. True: it is HUGE_NAME, behind spaces. */
static bool next_is_huge(struct maps_text *text, int c)
{
	size_t at = 0;
	bool same = true;

	while (c == ' ')
		c = next_char(text);
	for (; c != '\n' && c != -1; c = next_char(text), at++)
		same = same && at < sizeof(HUGE_NAME) - 1 && c == HUGE_NAME[at];
	return same && at == sizeof(HUGE_NAME) - 1 && c == '\n';
}

/* Reads a line such as "7f00-7f01 rw-p 00000000 00:00 0    [name]". */
static bool next_vma(struct maps_text *text, struct vma *vma)
{
	char mode[5] = "";
	bool file, huge;
	int end;

	vma->from = next_hex(text, &end);
	vma->to = next_hex(text, &end);
	for (size_t i = 0; i < sizeof(mode); i++)
		mode[i] = (char) next_char(text);
	next_hex(text, &end);	/* offset */
	next_hex(text, &end);	/* device, "major:minor" */
	next_hex(text, &end);
	/* The inode is decimal, but only compared with 0. */
	file = next_hex(text, &end);
	huge = next_is_huge(text, end);
	if (mode[1] != 'w' || mode[3] != 'p' || (file && !huge))
		vma->kind = TAGRV_VMA_OTHER;
	else
		vma->kind = file ? TAGRV_VMA_HUGE : TAGRV_VMA_PLAIN;
	return vma->to > vma->from;
}

/* The mapping of addr, or the one behind it. False: there is none. */
static bool read_vma(struct maps_text *text, uintptr_t addr, struct vma *vma)
{
	while (next_vma(text, vma))
		if (vma->to > addr)
			return true;
	return false;
}

/* ---- both ---- */

enum tagrv_vma_kind tagrv_vma_kind(int maps, struct tagrv_vma_range *range, bool by_text)
{
	struct maps_text text = { .fd = maps };
	struct tagrv_vma_range all = *range;
	enum tagrv_vma_kind kind = TAGRV_VMA_OTHER;
	uintptr_t at = range->from;
	struct vma vma = { 0 };

	/* The first mapping tells whether the kernel answers for an address. */
	if (!by_text) {
		int ret = query_vma(maps, at, &vma);

		by_text = ret && ret != -ENOENT;
	}
	if (by_text && lseek(maps, 0, SEEK_SET))
		return TAGRV_VMA_OTHER;
	for (; at < range->to; at = vma.to) {
		if (by_text ? !read_vma(&text, at, &vma) : query_vma(maps, at, &vma) != 0)
			return TAGRV_VMA_OTHER;
		if (at == range->from) {
			kind = vma.kind;
			all.from = vma.from;
		}
		if (vma.from > at || vma.kind == TAGRV_VMA_OTHER || vma.kind != kind)
			return TAGRV_VMA_OTHER;
	}
	all.to = vma.to;
	*range = all;
	return kind;
}
