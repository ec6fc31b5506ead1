/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory for messages, and all that can happen to it while no operation uses it, by the
 * thread that uses it or by another one.
 *
 *   OURS --given to the thread--> GIVEN --changed--------------------> OURS
 *                                   '---> VANISHES --mapped again by us--'
 *
 * The last way is the hardest for who watches memory: the kernel frees the addresses
 * before munmap() has told anybody and has returned, so the memory that we map there is
 * used while the other thread is still in its call.
 */
#include "framework/pattern.h"
#include "framework/runner.h"
#include "remap.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROT = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS };
enum { TRIES = 2000, SETS = 2, SPARES_MOST = 100 };

const char *const change_names[CHANGES] = {
	[CHANGE_FREE] = "free and malloc", [CHANGE_TRIM] = "free, malloc_trim and malloc",
	[CHANGE_UNMAP] = "munmap and mmap", [CHANGE_UNMAP_PART] = "munmap and mmap of a page",
	[CHANGE_REPLACE] = "mmap over it", [CHANGE_EMPTY] = "MADV_DONTNEED",
	[CHANGE_EMPTY_PART] = "MADV_DONTNEED of a page", [CHANGE_FREE_LATER] = "MADV_FREE",
	[CHANGE_MOVE] = "mremap to elsewhere", [CHANGE_MOVE_OVER] = "mremap over it",
	[CHANGE_RESIZE] = "mremap to half of it", [CHANGE_PROTECT] = "mprotect",
	[CHANGE_RACE] = "mmap during another thread's munmap",
};

struct remap_tally *tally;

static struct {
	pthread_t thread;
	_Atomic bool over;
	struct area *sets[SETS];
	int	cnt;
} changer;

/* ---- mapping ---- */

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *map_anywhere(size_t len)
{
	void *at = mmap(NULL, len, PROT, FLAGS, -1, 0);

	CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
	return at;
}

static bool map_at(uint8_t *at, size_t len)
{
	return mmap(at, len, PROT, FLAGS | MAP_FIXED_NOREPLACE, -1, 0) == at;
}

/* Somebody else has a page of it: all that is left of it is given up, and not used again. */
static void renew_place(struct area *a)
{
	atomic_fetch_add(&tally->missed, 1);
	a->at = map_anywhere(a->len);
}

/* Somebody may have got the addresses meanwhile: other threads map memory, too. */
static void map_again(struct area *a)
{
	if (!map_at(a->at, a->len))
		renew_place(a);
}

static void replace(uint8_t *at, size_t len)
{
	CHECK(mmap(at, len, PROT, FLAGS | MAP_FIXED, -1, 0) == at, "mmap over: %s", strerror(errno));
}

/* ---- heap ---- */

static void renew(struct area *a, bool trim)
{
	free(a->at);
	if (trim)
		malloc_trim(0);
	a->at = malloc(a->len);
	CHECK(a->at, "malloc");
}

/* ---- mremap ---- */

/* Fails for memory that the kernel has in several mappings: docs/registration.md. */
static bool refused(const void *at)
{
	if (at != MAP_FAILED)
		return false;
	CHECK(errno == EFAULT || errno == EINVAL, "mremap: %s", strerror(errno));
	atomic_fetch_add(&tally->refused, 1);
	return true;
}

/* The pages go elsewhere, and the old place stays mapped, or is mapped again. */
static void move_away(struct area *a)
{
	static _Atomic unsigned left_behind;
	uint8_t *spare;
	void *at;

	if (a->random & 1 || atomic_load(&left_behind) > SPARES_MOST) {
		at = mremap(a->at, a->len, a->len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
		if (!refused(at))
			munmap(at, a->len);
		return;
	}
	spare = map_anywhere(a->len);
	if (refused(mremap(a->at, a->len, a->len, MREMAP_MAYMOVE | MREMAP_FIXED, spare))) {
		/* Some of the mappings may have moved, and nobody knows what is ours still. */
		atomic_fetch_add(&left_behind, 1);
		a->at = map_anywhere(a->len);
		return;
	}
	map_again(a);
	munmap(spare, a->len);
}

static void move_over(struct area *a)
{
	uint8_t *spare = map_anywhere(a->len);

	memset(spare, 0x5a, a->len);
	if (refused(mremap(spare, a->len, a->len, MREMAP_MAYMOVE | MREMAP_FIXED, a->at))) {
		munmap(spare, a->len);
		map_again(a);
	}
}

static void resize(struct area *a)
{
	size_t half = a->len / 2 & ~(page_size() - 1);
	void *at = mremap(a->at, a->len, half, 0);

	if (refused(at))
		return;
	at = mremap(a->at, half, a->len, MREMAP_MAYMOVE);
	if (refused(at)) {
		munmap(a->at, half);
		at = map_anywhere(a->len);
	}
	a->at = at;
}

/* ---- one change ---- */

/* A page that is wholly within the area. */
static uint8_t *a_page(const struct area *a, uint64_t r)
{
	size_t page = page_size();
	uintptr_t first = ((uintptr_t)a->at + page - 1) & ~(page - 1);
	size_t cnt = ((uintptr_t)a->at + a->len - first) / page;

	return (uint8_t *)first + r % cnt * page;
}

static void advise(uint8_t *at, size_t len, int what)
{
	CHECK(!madvise(at, len, what), "madvise: %s", strerror(errno));
}

static void advise_all(const struct area *a, int what)
{
	size_t page = page_size();
	uintptr_t from = ((uintptr_t)a->at + page - 1) & ~(page - 1);
	uintptr_t to = ((uintptr_t)a->at + a->len) & ~(page - 1);

	advise((uint8_t *)from, to - from, what);
}

static void protect(const struct area *a)
{
	uint8_t *page = a_page(a, 0);

	CHECK(!mprotect(page, page_size(), PROT_NONE) && !mprotect(page, page_size(), PROT),
	      "mprotect: %s", strerror(errno));
}

static void do_change(struct area *a)
{
	uint8_t *page = a_page(a, a->random);

	switch (a->change) {
	case CHANGE_FREE:
	case CHANGE_TRIM:
		renew(a, a->change == CHANGE_TRIM);
		break;
	case CHANGE_UNMAP:
		munmap(a->at, a->len);
		map_again(a);
		break;
	case CHANGE_UNMAP_PART:
		munmap(page, page_size());
		if (!map_at(page, page_size()))
			renew_place(a);
		break;
	case CHANGE_REPLACE: replace(a->at, a->len); break;
	case CHANGE_EMPTY: advise_all(a, MADV_DONTNEED); break;
	case CHANGE_EMPTY_PART: advise(page, page_size(), MADV_DONTNEED); break;
	case CHANGE_FREE_LATER: advise_all(a, MADV_FREE); break;
	case CHANGE_MOVE: move_away(a); break;
	case CHANGE_MOVE_OVER: move_over(a); break;
	case CHANGE_RESIZE: resize(a); break;
	default: protect(a);
	}
}

static enum change draw(const struct area *a, uint64_t r)
{
	static const enum change of_heap[] = {
		CHANGE_FREE, CHANGE_FREE, CHANGE_FREE, CHANGE_FREE, CHANGE_TRIM, CHANGE_EMPTY,
		CHANGE_EMPTY_PART, CHANGE_FREE_LATER,
	};

	return a->heap ? of_heap[r % 8] : CHANGE_UNMAP + (enum change)(r % (CHANGES - CHANGE_UNMAP));
}

/* ---- the thread ---- */

static void change_given(struct area *a)
{
	atomic_fetch_add(&tally->cnt[a->change], 1);
	if (a->change == CHANGE_RACE) {
		/* Read before: the area is another's once its addresses are free. */
		uint8_t *at = a->at;
		size_t len = a->len;

		atomic_store(&a->state, AREA_VANISHES);
		munmap(at, len);
		return;
	}
	do_change(a);
	atomic_store(&a->state, AREA_OURS);
}

static void *change_all(void *arg)
{
	(void)arg;
	while (!atomic_load(&changer.over)) {
		bool any = false;

		for (int i = 0; i < changer.cnt * AREAS; i++) {
			struct area *a = &changer.sets[i / AREAS][i % AREAS];

			if (atomic_load(&a->state) == AREA_GIVEN) {
				change_given(a);
				any = true;
			}
		}
		if (!any)
			usleep(50);
	}
	return NULL;
}

void changer_begin(struct area *const sets[], int cnt)
{
	changer.cnt = cnt;
	memcpy(changer.sets, sets, (size_t)cnt * sizeof(sets[0]));
	CHECK(!pthread_create(&changer.thread, NULL, change_all, NULL), "pthread_create");
}

void changer_end(void)
{
	atomic_store(&changer.over, true);
	pthread_join(changer.thread, NULL);
}

/* ---- areas ---- */

/* Maps what another thread unmaps. Not for ever: somebody else may have got it. */
static void map_vanishing(struct area *a)
{
	for (int i = 0; i < TRIES; i++) {
		if (map_at(a->at, a->len)) {
			atomic_store(&a->state, AREA_OURS);
			return;
		}
		if (i % 16 == 15)
			sched_yield();
	}
	renew_place(a);
	atomic_store(&a->state, AREA_OURS);
}

struct area *areas_take(struct area areas[AREAS], uint64_t *random)
{
	uint64_t first = pattern_next(random);

	for (unsigned i = 0; i < AREAS; i++) {
		struct area *a = &areas[(first + i) % AREAS];

		if (a->busy || atomic_load(&a->state) == AREA_GIVEN)
			continue;
		if (atomic_load(&a->state) == AREA_VANISHES)
			map_vanishing(a);
		a->busy = true;
		return a;
	}
	return NULL;
}

bool areas_race(struct area *a)
{
	if (a->heap)
		return true;
	a->change = CHANGE_RACE;
	atomic_store(&a->state, AREA_GIVEN);
	for (int i = 0; i < TRIES && atomic_load(&a->state) == AREA_GIVEN; i++)
		if (i > TRIES / 2)
			usleep(1);
	if (atomic_load(&a->state) == AREA_GIVEN) {
		a->busy = false;
		return false;
	}
	map_vanishing(a);
	return true;
}

void areas_give_back(struct area *a, uint64_t *random)
{
	uint64_t r = pattern_next(random);

	a->busy = false;
	a->random = r >> 32;
	a->change = draw(a, r >> 8);
	switch (r % 4) {
	case 0:			/* it is used again as it is */
		break;
	case 1:
		if (a->change != CHANGE_RACE) {
			atomic_fetch_add(&tally->cnt[a->change], 1);
			do_change(a);
			break;
		}
		/* fall through */
	default:
		atomic_store(&a->state, AREA_GIVEN);
	}
}

void areas_open(struct area areas[AREAS], uint64_t *random)
{
	for (int i = 0; i < AREAS; i++) {
		struct area *a = &areas[i];
		size_t pages = AREA_MAX / page_size();

		/* A third comes from malloc, of any size; most are as long as a message can be. */
		a->heap = i % 3 == 0;
		a->len = i % 2 ? AREA_MAX : (3 + pattern_next(random) % (pages - 3)) * page_size();
		a->at = a->heap ? malloc(a->len) : map_anywhere(a->len);
		CHECK(a->at, "no memory");
		atomic_store(&a->state, AREA_OURS);
	}
}

void areas_close(struct area areas[AREAS])
{
	for (int i = 0; i < AREAS; i++) {
		struct area *a = &areas[i];

		if (atomic_load(&a->state) == AREA_VANISHES)
			map_vanishing(a);
		if (a->heap)
			free(a->at);
		else
			munmap(a->at, a->len);
	}
}
