/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows of fuzz_packet. Peers may read and write to one, only read from the second, only
 * write to the third, and not use two others at all. All lie in one area of memory, with
 * guards between them, of which a copy tells what has changed.
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "engine/endpoint.h"
#include "fuzz/packet.h"

enum { SPOTS = 6, GUARD = 64 };
enum { RW, READ, WRITE, OTHER_EP, DISABLED };

/* Of the window RW an element may lie in both segments. */
static const struct spot {
	unsigned window;
	size_t	at, len;	/* in the area */
} spots[SPOTS] = {
	{ RW, GUARD, 299 },
	{ RW, 427, 301 },
	{ READ, 792, 300 },
	{ WRITE, 1156, 500 },
	{ OTHER_EP, 1720, 300 },
	{ DISABLED, 2084, 300 },
};

static char area[2384 + GUARD], before[sizeof(area)];
static struct tagrv_window windows[WINDOWS];
static bool opened[WINDOWS];

static void fill(struct tagrv_window *w, unsigned i)
{
	static const uint64_t access[WINDOWS] = {
		[RW] = FI_REMOTE_READ | FI_REMOTE_WRITE,
		[READ] = FI_REMOTE_READ,
		[WRITE] = FI_REMOTE_WRITE,
		[OTHER_EP] = FI_REMOTE_READ | FI_REMOTE_WRITE,
		[DISABLED] = FI_REMOTE_READ | FI_REMOTE_WRITE,
	};

	*w = (struct tagrv_window) {
		.key = WINDOW_KEY + i, .access = access[i], .enabled = i != DISABLED,
		.engine = i == OTHER_EP ? (const void *) area : NULL,
	};
	for (size_t k = 0; k < SPOTS; k++) {
		if (spots[k].window != i)
			continue;
		w->iov[w->iov_cnt++] = (struct iovec) {
			area + spots[k].at, spots[k].len,
		};
		w->len += spots[k].len;
	}
	if (i == WRITE)
		w->base = (uintptr_t) w->iov[0].iov_base;
}

static void open_window(unsigned i)
{
	fill(&windows[i], i);
	require(!tagrv_window_add(fz.dom, &windows[i]));
	opened[i] = true;
}

uint64_t windows_base(unsigned i)
{
	return i < WINDOWS ? windows[i].base : 0;
}

bool windows_admit(const void *addr, size_t len, uint64_t access)
{
	for (size_t k = 0; k < SPOTS; k++) {
		unsigned i = spots[k].window;

		if (tagrv_range_within((uintptr_t) addr, len,
				       (uintptr_t) area + spots[k].at, spots[k].len))
			return opened[i] && i != OTHER_EP && i != DISABLED &&
			       windows[i].access & access;
	}
	return false;
}

/* Nobody reads into it any more. */
static void expect_unused(const struct tagrv_window *w)
{
	require(tagrv_list_empty(&w->uses));
	for (size_t i = 0; i < fake.log_cnt; i++) {
		const struct fake_record *r = &fake.log[i];

		for (size_t k = 0; k < w->iov_cnt; k++)
			require(r->kind != FAKE_GET || r->ended ||
				!tagrv_range_within((uintptr_t) r->addr, r->len,
						    (uintptr_t) w->iov[k].iov_base,
						    w->iov[k].iov_len));
	}
}

void give_close(struct input *in)
{
	uint8_t what = next(in);
	unsigned i = what % WINDOWS;

	if (!opened[i]) {
		open_window(i);
		return;
	}
	if (what & 128)
		fake_complete_all(what & 64 ? -FI_EIO : 0);
	tagrv_dom_close_window(fz.dom, &windows[i]);
	/* Reads that had begun may have gone on until now. */
	hear();
	opened[i] = false;
	expect_unused(&windows[i]);
	memcpy(before, area, sizeof(area));
}

void windows_check(void)
{
	size_t at = 0;

	for (size_t k = 0; k < SPOTS; k++) {
		const struct spot *spot = &spots[k];

		require(!memcmp(area + at, before + at, spot->at - at));
		at = spot->at + spot->len;
		if (!windows_admit(area + spot->at, spot->len, FI_REMOTE_WRITE))
			require(!memcmp(area + spot->at, before + spot->at, spot->len));
	}
	require(!memcmp(area + at, before + at, sizeof(area) - at));
	memcpy(before, area, sizeof(area));
}

void windows_begin(void)
{
	for (size_t i = 0; i < sizeof(area); i++)
		area[i] = (char) i;
	memcpy(before, area, sizeof(area));
	for (unsigned i = 0; i < WINDOWS; i++)
		if (!opened[i])
			open_window(i);
}

/* Nobody is connected, so nobody has a view. */
void windows_end(void)
{
	for (unsigned i = 0; i < WINDOWS; i++) {
		require(!opened[i] || (tagrv_list_empty(&windows[i].uses) &&
				       tagrv_list_empty(&windows[i].showings)));
		tagrv_window_deregister(fz.dom, &windows[i]);
	}
}
