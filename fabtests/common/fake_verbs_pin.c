/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: regions that keep their pages, as those of real devices do.
 *
 * What is registered is given to io_uring as a fixed buffer: the kernel pins the
 * pages. Data moves between the pinned pages, whatever is at their addresses by
 * then. So an operation over a registration that outlived its memory has the old
 * contents, or its data is not where the application looks.
 *
 *   source's pages -- WRITE_FIXED --> memory file -- READ_FIXED --> target's pages
 */
#include "common/fake_verbs_priv.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { REGIONS = 8192, ENTRIES = 4 };

static struct {
	int	ring, file;
	char	*memory;	/* of both queues */
	size_t	size;
	struct io_uring_sqe *sqes;
	struct io_uring_params params;
	bool	used[REGIONS];
	unsigned next;
} pins = { .ring = -1, .file = -1 };

static _Noreturn void broken(const char *what)
{
	perror(what);
	abort();
}

static _Atomic unsigned *word_at(unsigned offset)
{
	return (_Atomic unsigned *) (void *) (pins.memory + offset);
}

static int reserve_regions(void)
{
	struct io_uring_rsrc_register all = {
		.nr = REGIONS, .flags = IORING_RSRC_REGISTER_SPARSE,
	};

	return (int) syscall(SYS_io_uring_register, pins.ring,
			     IORING_REGISTER_BUFFERS2, &all, sizeof(all));
}

static bool map_queues(void)
{
	struct io_uring_params *p = &pins.params;
	const int prot = PROT_READ | PROT_WRITE;
	size_t sq = p->sq_off.array + p->sq_entries * sizeof(unsigned);
	size_t cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	void *memory, *sqes;

	if (!(p->features & IORING_FEAT_SINGLE_MMAP))
		return false;
	pins.size = sq > cq ? sq : cq;
	memory = mmap(NULL, pins.size, prot, MAP_SHARED, pins.ring,
		      IORING_OFF_SQ_RING);
	sqes = mmap(NULL, p->sq_entries * sizeof(*pins.sqes), prot, MAP_SHARED,
		    pins.ring, IORING_OFF_SQES);
	if (memory == MAP_FAILED || sqes == MAP_FAILED)
		return false;
	pins.memory = memory;
	pins.sqes = sqes;
	return true;
}

bool fv_pins_open(void)
{
	pins.params = (struct io_uring_params) { 0 };
	pins.ring = (int) syscall(SYS_io_uring_setup, ENTRIES, &pins.params);
	if (pins.ring < 0)
		return false;
	pins.file = memfd_create("device", MFD_CLOEXEC);
	if (pins.file >= 0 && !reserve_regions() && map_queues())
		return true;
	fv_pins_close();
	return false;
}

void fv_pins_close(void)
{
	if (pins.sqes)
		munmap(pins.sqes, pins.params.sq_entries * sizeof(*pins.sqes));
	if (pins.memory)
		munmap(pins.memory, pins.size);
	close(pins.file);
	close(pins.ring);
	pins.sqes = NULL;
	pins.memory = NULL;
	pins.file = pins.ring = -1;
}

/* ---- regions ---- */

static int update(unsigned at, struct iovec *iov)
{
	struct io_uring_rsrc_update2 change = {
		.offset = at, .data = (uintptr_t) iov, .nr = 1,
	};

	return (int) syscall(SYS_io_uring_register, pins.ring,
			     IORING_REGISTER_BUFFERS_UPDATE, &change,
			     sizeof(change));
}

/* -1 and errno: it has not pinned the pages. */
int fv_pin(void *addr, size_t len)
{
	struct iovec iov = { addr, len };
	unsigned at = pins.next;

	for (unsigned i = 0; pins.used[at]; i++, at = (at + 1) % REGIONS)
		if (i == REGIONS) {
			errno = ENOMEM;
			return -1;
		}
	if (update(at, &iov) < 0)
		return -1;
	pins.used[at] = true;
	pins.next = (at + 1) % REGIONS;
	return (int) at;
}

void fv_unpin(int at)
{
	struct iovec none = { NULL, 0 };

	if (update((unsigned) at, &none) < 0)
		broken("the fake devices cannot free a region");
	pins.used[at] = false;
}

/* ---- data ---- */

/* By the pages of the region; without one (-1), by the address. */
static void add_request(unsigned nr, bool read, int at, const void *addr, size_t len)
{
	unsigned tail = atomic_load(word_at(pins.params.sq_off.tail));
	unsigned slot = (tail + nr) & *word_at(pins.params.sq_off.ring_mask);
	uint8_t by_pages = read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
	uint8_t by_address = read ? IORING_OP_READ : IORING_OP_WRITE;

	pins.sqes[slot] = (struct io_uring_sqe) {
		.opcode = at < 0 ? by_address : by_pages, .fd = pins.file,
		.addr = (uintptr_t) addr, .len = (uint32_t) len,
		.buf_index = (uint16_t) (at < 0 ? 0 : at),
		.flags = read ? 0 : IOSQE_IO_LINK,
	};
	word_at(pins.params.sq_off.array)[slot] = slot;
}

static void take_ends(size_t len)
{
	const struct io_uring_cqe *cqes = (const void *)
		(pins.memory + pins.params.cq_off.cqes);
	unsigned head = *word_at(pins.params.cq_off.head);
	unsigned mask = *word_at(pins.params.cq_off.ring_mask);

	for (unsigned i = 0; i < 2; i++) {
		int res = cqes[(head + i) & mask].res;

		if (res != (int) len) {
			errno = res < 0 ? -res : EIO;
			broken("the fake devices cannot move data");
		}
	}
	atomic_store(word_at(pins.params.cq_off.head), head + 2);
}

void fv_pins_copy(int to, void *dst, int from, const void *src, size_t len)
{
	_Atomic unsigned *tail = word_at(pins.params.sq_off.tail);

	if (!len)
		return;
	add_request(0, false, from, src, len);
	add_request(1, true, to, dst, len);
	atomic_store(tail, *tail + 2);
	while (syscall(SYS_io_uring_enter, pins.ring, 2, 2,
		       IORING_ENTER_GETEVENTS, NULL, 0) != 2)
		if (errno != EINTR)
			broken("io_uring_enter");
	take_ends(len);
}
