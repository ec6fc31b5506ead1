/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows of each kind (of memory of the program, allocated by MPI, and dynamic), with
 * all three ways to open an epoch: fences, post-start-complete-wait, and locks. Puts
 * and gets of random lengths are checked byte by byte; sums, tickets and locks made of
 * atomic operations by what must be there in the end.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A window has words for atomics, and then room for one message of each rank. */
enum { ROOM = 1 << 18, WORDS = 64, HEAD = WORDS * 8 };

enum kind { CREATED, ALLOCATED, DYNAMIC };

static const char *const kinds[] = { "created", "allocated", "dynamic" };

/*
 * Two defects of Open MPI, in what lies between its windows and a network: before 5, a
 * maximum or bits of 32- or 64-bit words are passed on to btl/ofi, which knows sums only
 * and ends the program; before 4.1.5, compare-and-swap on memory that the rank reaches
 * itself is passed on, too, without the key that it would need, and crashes.
 */
#ifdef OMPI_MAJOR_VERSION
enum {
	MPI_IS = OMPI_MAJOR_VERSION * 10000 + OMPI_MINOR_VERSION * 100 +
		 OMPI_RELEASE_VERSION,
	ALL_OPS = MPI_IS >= 50000,
	NEAR_SWAPS = MPI_IS >= 40105,
};
#else
enum { ALL_OPS = 1, NEAR_SWAPS = 1 };
#endif

static MPI_Win win;
static char *base;		/* this rank's part of the window */
static MPI_Aint *starts;	/* displacement of each rank's part */
static char *out, *in;
static char phase[80];
static const char *kind_name;

static void begin(const char *what)
{
	MPI_Barrier(MPI_COMM_WORLD);
	snprintf(phase, sizeof(phase), "%s, window %s", what, kind_name);
	check_phase(phase);
}

static size_t window_len(void)
{
	return HEAD + (size_t) check.ranks * ROOM;
}

static void window_open(enum kind kind)
{
	MPI_Aint len = (MPI_Aint) window_len(), mine = 0;

	kind_name = kinds[kind];
	if (kind == ALLOCATED) {
		MPI_Win_allocate(len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
				 &win);
	} else {
		base = check_alloc((size_t) len);
		if (kind == CREATED)
			MPI_Win_create(base, len, 1, MPI_INFO_NULL,
				       MPI_COMM_WORLD, &win);
	}
	if (kind == DYNAMIC) {
		MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		MPI_Win_attach(win, base, len);
		MPI_Get_address(base, &mine);
	}
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check.rank, 0, win);
	memset(base, 0, (size_t) len);
	MPI_Win_unlock(check.rank, win);
	MPI_Allgather(&mine, 1, MPI_AINT, starts, 1, MPI_AINT, MPI_COMM_WORLD);
}

static void window_close(enum kind kind)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (kind == DYNAMIC)
		MPI_Win_detach(win, base);
	MPI_Win_free(&win);
	if (kind != ALLOCATED)
		free(base);
}

/* Displacement of a word, and of the room of rank 'from', at rank 'at'. */
static MPI_Aint word_at(int at, int word)
{
	return starts[at] + word * 8;
}

static MPI_Aint room_at(int at, int from)
{
	return starts[at] + HEAD + (MPI_Aint) from * ROOM;
}

static char *my_room(int from)
{
	return base + HEAD + (size_t) from * ROOM;
}

static int length(int from, int to, int number)
{
	uint32_t row = check_key(from, to, (int) check.seed, number);

	return check_random_len(&row, ROOM);
}

static void put(int from, int to, int number)
{
	int len = length(from, to, number);

	check_fill(out, (size_t) len, check_key(from, to, 1, number));
	MPI_Put(out, len, MPI_BYTE, to, room_at(to, from), len, MPI_BYTE, win);
}

static void check_room(const char *room, int from, int to, int number)
{
	check_bytes(room, (size_t) length(from, to, number),
		    check_key(from, to, 1, number), "room");
}

/* Every rank puts to the next one, and gets from there what it has put itself. */
static void fences(void)
{
	int me = check.rank, next = (me + 1) % check.ranks;
	int prev = (me + check.ranks - 1) % check.ranks;

	begin("fences");
	MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
	for (int i = 0; i < check.count; i++) {
		put(me, next, i);
		MPI_Win_fence(0, win);
		check_room(my_room(prev), prev, me, i);
		check_poison(in, ROOM);
		MPI_Get(in, ROOM, MPI_BYTE, next, room_at(next, me), ROOM,
			MPI_BYTE, win);
		MPI_Win_fence(0, win);
		check_room(in, me, next, i);
	}
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

/* The same, where each rank only waits for its two neighbours. */
static void neighbours(void)
{
	int me = check.rank, next = (me + 1) % check.ranks;
	int prev = (me + check.ranks - 1) % check.ranks;
	MPI_Group all, after, before;

	begin("post, start, complete, wait");
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &next, &after);
	MPI_Group_incl(all, 1, &prev, &before);
	for (int i = 0; i < check.count; i++) {
		MPI_Win_post(before, 0, win);
		MPI_Win_start(after, 0, win);
		put(me, next, i);
		MPI_Win_complete(win);
		MPI_Win_wait(win);
		check_room(my_room(prev), prev, me, i);
	}
	MPI_Group_free(&all);
	MPI_Group_free(&after);
	MPI_Group_free(&before);
}

/* Requests, and flushes within one epoch, to each rank in turn. */
static void flushes(void)
{
	begin("flushes");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < check.count; i++) {
		int to = (check.rank + i) % check.ranks;
		int len = length(check.rank, to, i);
		MPI_Request req;

		put(check.rank, to, i);
		MPI_Win_flush(to, win);
		check_poison(in, (size_t) len);
		MPI_Rget(in, len, MPI_BYTE, to, room_at(to, check.rank), len,
			 MPI_BYTE, win, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		check_room(in, check.rank, to, i);
	}
	MPI_Win_unlock_all(win);
}

/* Every second word of a row comes and goes; the others stay. */
static void strided(void)
{
	int to = (check.rank + 1) % check.ranks;
	uint32_t *words = (uint32_t *) out, *back = (uint32_t *) in;
	MPI_Datatype every_second;

	begin("rows with gaps");
	MPI_Type_vector(500, 1, 2, MPI_UINT32_T, &every_second);
	MPI_Type_commit(&every_second);
	memset(in, 0, 4000);
	for (int i = 0; i < 1000; i++)
		words[i] = (uint32_t) (check.rank * 1000 + i);
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	MPI_Put(in, 4000, MPI_BYTE, to, room_at(to, check.rank), 4000, MPI_BYTE,
		win);
	MPI_Win_flush(to, win);
	MPI_Put(words, 1, every_second, to, room_at(to, check.rank), 1,
		every_second, win);
	MPI_Win_flush(to, win);
	MPI_Get(in, 4000, MPI_BYTE, to, room_at(to, check.rank), 4000, MPI_BYTE,
		win);
	MPI_Win_unlock(to, win);
	for (int i = 0; i < 1000; i++)
		CHECK(back[i] == (i % 2 ? 0 : words[i]), "word %d is %u", i,
		      back[i]);
	MPI_Type_free(&every_second);
}

/* A word of rank 0, after all ranks have done their part. */
static int64_t word_of_root(int word)
{
	int64_t value = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	MPI_Get(&value, 8, MPI_BYTE, 0, word_at(0, word), 8, MPI_BYTE, win);
	MPI_Win_unlock(0, win);
	return value;
}

/* Reads and writes between an exclusive lock and its end: none may be lost. */
static void exclusive(void)
{
	int64_t want = (int64_t) check.count * check.ranks, value;

	begin("exclusive locks");
	for (int i = 0; i < check.count; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&value, 1, MPI_INT64_T, 0, word_at(0, 0), 1,
			MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, 0, word_at(0, 0), 1,
			MPI_INT64_T, win);
		MPI_Win_unlock(0, win);
		check_phase(phase);
	}
	value = word_of_root(0);
	CHECK(value == want, "counter is %lld, not %lld", (long long) value,
	      (long long) want);
}

/* What each rank accumulates in each round. */
static void accumulate_round(int i)
{
	static int64_t two[2] = { 1, 2 }, highest, bits;
	static int32_t narrow = 3;
	static double half = 0.5;

	highest = (int64_t) i * check.ranks + check.rank;
	bits = (int64_t) 1 << check.rank % 62;
	MPI_Accumulate(two, 2, MPI_INT64_T, 0, word_at(0, 8), 2, MPI_INT64_T,
		       MPI_SUM, win);
	MPI_Accumulate(&narrow, 1, MPI_INT32_T, 0, word_at(0, 10), 1,
		       MPI_INT32_T, MPI_SUM, win);
	MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, word_at(0, 11), 1, MPI_DOUBLE,
		       MPI_SUM, win);
	if (ALL_OPS) {
		MPI_Accumulate(&highest, 1, MPI_INT64_T, 0, word_at(0, 12), 1,
			       MPI_INT64_T, MPI_MAX, win);
		MPI_Accumulate(&bits, 1, MPI_INT64_T, 0, word_at(0, 13), 1,
			       MPI_INT64_T, MPI_BOR, win);
	}
	MPI_Win_flush(0, win);	/* the numbers change */
}

/* Sums of integers of both widths and of doubles, a maximum, and bits. */
static void accumulates(void)
{
	int64_t want = (int64_t) check.count * check.ranks, bits = 0, as_bits;
	double sum;

	begin("accumulates");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < check.count; i++) {
		accumulate_round(i);
		check_phase(phase);
	}
	MPI_Win_unlock_all(win);
	CHECK(word_of_root(8) == want, "first sum");
	CHECK(word_of_root(9) == 2 * want, "second sum");
	CHECK((int32_t) word_of_root(10) == (int32_t) (3 * want), "32-bit sum");
	as_bits = word_of_root(11);
	memcpy(&sum, &as_bits, 8);
	CHECK(sum == 0.5 * (double) want, "sum of halves is %f", sum);
	if (!ALL_OPS)
		return;
	for (int i = 0; i < check.ranks; i++)
		bits |= (int64_t) 1 << i % 62;
	CHECK(word_of_root(12) == want - 1, "maximum");
	CHECK(word_of_root(13) == bits, "bits");
}

/* All ranks draw numbers from one counter: each number comes once. */
static void tickets(void)
{
	int n = check.count * check.ranks;
	int *drawn = calloc((size_t) n, sizeof(*drawn)), before = -1;
	int64_t one = 1, got;

	begin("tickets");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < check.count; i++) {
		MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, word_at(0, 16),
				 MPI_SUM, win);
		MPI_Win_flush(0, win);
		if (got <= before || got >= n)
			check_fail("ticket %lld after %d", (long long) got,
				   before);
		else
			drawn[before = (int) got] = 1;
		check_phase(phase);
	}
	MPI_Win_unlock_all(win);
	MPI_Allreduce(MPI_IN_PLACE, drawn, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		CHECK(drawn[i] == 1, "ticket %d came %d times", i, drawn[i]);
	free(drawn);
}

/* Takes the lock in word 24, adds one to word 25, and gives the lock back. */
static void swap_once(void)
{
	int64_t none = 0, me = check.rank + 1, got, value;

	do {
		MPI_Compare_and_swap(&me, &none, &got, MPI_INT64_T, 0,
				     word_at(0, 24), win);
		MPI_Win_flush(0, win);
	} while (got != 0);
	MPI_Get(&value, 1, MPI_INT64_T, 0, word_at(0, 25), 1, MPI_INT64_T, win);
	MPI_Win_flush(0, win);
	value++;
	MPI_Put(&value, 1, MPI_INT64_T, 0, word_at(0, 25), 1, MPI_INT64_T, win);
	MPI_Win_flush(0, win);
	MPI_Fetch_and_op(&none, &got, MPI_INT64_T, 0, word_at(0, 24),
			 MPI_REPLACE, win);
	MPI_Win_flush(0, win);
	CHECK(got == me, "the lock was held by %lld", (long long) got);
}

/* A lock of compare-and-swap guards a counter that is read and then written. */
static void swaps(enum kind kind)
{
	int64_t want = (int64_t) check.count * check.ranks, value;

	if (!NEAR_SWAPS && (kind == ALLOCATED || check.ranks < 2))
		return;
	if (!NEAR_SWAPS)
		want -= check.count;
	begin("a lock made of swaps");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < check.count && (NEAR_SWAPS || check.rank); i++) {
		swap_once();
		check_phase(phase);
	}
	MPI_Win_unlock_all(win);
	value = word_of_root(25);
	CHECK(value == want, "counter is %lld, not %lld", (long long) value,
	      (long long) want);
}

/* Sums of more words than one operation of a network takes; the old ones come back. */
static void many_words(void)
{
	enum { MANY = 3000 };
	int to = (check.rank + 1) % check.ranks;
	int64_t *words = (int64_t *) out, *old = (int64_t *) in;

	begin("accumulates of many words");
	memset(out, 0, MANY * 8);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
	MPI_Put(out, MANY * 8, MPI_BYTE, to, room_at(to, check.rank), MANY * 8,
		MPI_BYTE, win);
	MPI_Win_unlock(to, win);
	for (int i = 0; i < MANY; i++)
		words[i] = check.rank * MANY + i;
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	for (int64_t round = 0; round < 4; round++) {
		MPI_Get_accumulate(words, MANY, MPI_INT64_T, old, MANY,
				   MPI_INT64_T, to, room_at(to, check.rank),
				   MANY, MPI_INT64_T, MPI_SUM, win);
		MPI_Win_flush(to, win);
		for (int i = 0; i < MANY; i++)
			CHECK(old[i] == round * words[i], "word %d is %lld", i,
			      (long long) old[i]);
	}
	MPI_Win_unlock(to, win);
}

int main(int argc, char **argv)
{
	check_start(argc, argv, "Windows of each kind, and their epochs.",
		    "rounds", 50);
	starts = check_alloc(sizeof(*starts) * (size_t) check.ranks);
	out = check_alloc(ROOM);
	in = check_alloc(ROOM);
	for (enum kind kind = CREATED; kind <= DYNAMIC; kind++) {
		window_open(kind);
		fences();
		neighbours();
		flushes();
		strided();
		exclusive();
		accumulates();
		tickets();
		swaps(kind);
		many_words();
		window_close(kind);
	}
	free(starts);
	free(out);
	free(in);
	return check_finish();
}
