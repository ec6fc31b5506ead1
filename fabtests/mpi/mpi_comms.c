/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Communicators keep their messages apart: the same ranks and tags in several
 * communicators, with wildcard receives; parts of the world with ranks in another
 * order; intercommunicators; collectives of several communicators at a time; many
 * communicators created and freed.
 */
#include "check.h"

#include <stdlib.h>

enum { COMMS = 5, TAG = 3, MAX_LEN = 100000, PER_COMM = 4 };

static uint32_t state;

static int length(int from, int to, int number)
{
	uint32_t row = check_key(from, to, (int) check.seed, number);

	return check_random_len(&row, MAX_LEN);
}

static void receive_any(MPI_Comm comm, int in_comm, int from, int number,
			char *buf)
{
	MPI_Status status;
	int len = length(from, check.rank, number);

	MPI_Recv(buf, MAX_LEN, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
		 &status);
	check_status(&status, in_comm, TAG, len);
	check_bytes(buf, (size_t) len,
		    check_key(from, check.rank, TAG, number), "message");
}

/* All ranks send in all communicators; then they receive in another order of communicators. */
static void apart(void)
{
	int next = (check.rank + 1) % check.ranks;
	int prev = (check.rank + check.ranks - 1) % check.ranks;
	char *buf[COMMS * PER_COMM], *in = check_alloc(MAX_LEN);
	MPI_Request req[COMMS * PER_COMM];
	MPI_Comm comms[COMMS] = { MPI_COMM_WORLD };

	check_phase("several communicators of all ranks");
	for (int c = 1; c < COMMS; c++)
		MPI_Comm_dup(comms[c / 2], &comms[c]);
	for (int i = 0; i < COMMS * PER_COMM; i++) {
		int len = length(check.rank, next, i);

		buf[i] = check_alloc((size_t) len);
		check_fill(buf[i], (size_t) len,
			   check_key(check.rank, next, TAG, i));
		MPI_Isend(buf[i], len, MPI_BYTE, next, TAG, comms[i % COMMS],
			  &req[i]);
	}
	for (int c = COMMS - 1; c >= 0; c--)
		for (int i = 0; i < PER_COMM; i++)
			receive_any(comms[c], prev, prev, i * COMMS + c, in);
	MPI_Waitall(COMMS * PER_COMM, req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < COMMS * PER_COMM; i++)
		free(buf[i]);
	for (int c = 1; c < COMMS; c++)
		MPI_Comm_free(&comms[c]);
	free(in);
}

/* Returns the rank in MPI_COMM_WORLD of a rank of the communicator. */
static int in_world(MPI_Comm comm, int rank)
{
	MPI_Group part, world;
	int there;

	MPI_Comm_group(comm, &part);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_translate_ranks(part, 1, &rank, world, &there);
	MPI_Group_free(&part);
	MPI_Group_free(&world);
	return there;
}

/* Every rank of the communicator sends to every other; wildcard receives. */
static void talk(MPI_Comm comm, int number)
{
	char *out = check_alloc(MAX_LEN), *in = check_alloc(MAX_LEN);
	int rank, ranks, sum = 0;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	for (int d = 0; d < ranks; d++) {
		int to = (rank + d) % ranks, from = (rank + ranks - d) % ranks;
		int world = in_world(comm, to);
		int len = length(check.rank, world, number);
		MPI_Request req;

		check_fill(out, (size_t) len,
			   check_key(check.rank, world, TAG, number));
		MPI_Isend(out, len, MPI_BYTE, to, TAG, comm, &req);
		receive_any(comm, from, in_world(comm, from), number, in);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		MPI_Barrier(comm);
	}
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	CHECK(sum == ranks * (ranks - 1) / 2, "sum of ranks is %d", sum);
	free(out);
	free(in);
}

static void parts(void)
{
	MPI_Comm half, back, one = MPI_COMM_NULL, random;
	int rank, color = check.rank % 2;

	check_phase("split communicators");
	MPI_Comm_split(MPI_COMM_WORLD, color, check.rank, &half);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -check.rank, &back);
	MPI_Comm_split(half, check.rank < 2 ? 0 : MPI_UNDEFINED, 0, &one);
	MPI_Comm_split(back, (int) (check_random(&state) % 3), 0, &random);
	MPI_Comm_rank(back, &rank);
	CHECK(rank == check.ranks - 1 - check.rank, "rank %d in reverse", rank);
	CHECK((one == MPI_COMM_NULL) == (check.rank >= 2),
	      "a communicator of rank %d", check.rank);
	talk(half, 1);
	talk(back, 2);
	if (one != MPI_COMM_NULL) {
		talk(one, 3);
		MPI_Comm_free(&one);
	}
	talk(random, 4);
	MPI_Comm_free(&half);
	MPI_Comm_free(&back);
	MPI_Comm_free(&random);
}

/* An intercommunicator of rank 0 and all others. */
static void across(void)
{
	MPI_Comm local, inter, merged;
	int low = check.rank == 0, other, mine = check.rank, sum = 0, want;
	int in = -1;

	if (check.ranks < 2)
		return;
	check_phase("two groups");
	MPI_Comm_split(MPI_COMM_WORLD, low, check.rank, &local);
	MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? 1 : 0, TAG, &inter);
	MPI_Comm_remote_size(inter, &other);
	CHECK(other == (low ? check.ranks - 1 : 1), "%d ranks there", other);
	for (int i = 0; i < other; i++) {
		MPI_Request req;

		MPI_Isend(&mine, 1, MPI_INT, i, TAG, inter, &req);
		MPI_Recv(&in, 1, MPI_INT, i, MPI_ANY_TAG, inter,
			 MPI_STATUS_IGNORE);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		CHECK(in == (low ? i + 1 : 0), "rank %d there says %d", i, in);
	}
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
	want = low ? check.ranks * (check.ranks - 1) / 2 : 0;
	CHECK(sum == want, "sum over there is %d, not %d", sum, want);
	MPI_Intercomm_merge(inter, low, &merged);
	talk(merged, 5);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&local);
}

/* Collectives of several communicators at the same time, and messages meanwhile. */
static void at_a_time(void)
{
	MPI_Comm comms[COMMS];
	MPI_Request req[COMMS * 3];
	int in[COMMS], out[COMMS], *all[COMMS], big = 2000;

	check_phase("collectives of several communicators");
	for (int c = 0; c < COMMS; c++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]);
		all[c] = check_alloc(sizeof(int) * (size_t) big);
		for (int i = 0; i < big; i++)
			all[c][i] = check.rank == c % check.ranks ? i * c : -1;
		out[c] = check.rank + c;
		MPI_Iallreduce(&out[c], &in[c], 1, MPI_INT, MPI_SUM, comms[c],
			       &req[c * 3]);
		MPI_Ibcast(all[c], big, MPI_INT, c % check.ranks, comms[c],
			   &req[c * 3 + 1]);
		MPI_Ibarrier(comms[c], &req[c * 3 + 2]);
	}
	talk(MPI_COMM_WORLD, 6);
	MPI_Waitall(COMMS * 3, req, MPI_STATUSES_IGNORE);
	for (int c = 0; c < COMMS; c++) {
		int want = check.ranks * (check.ranks - 1) / 2 +
			   c * check.ranks;

		CHECK(in[c] == want, "sum %d is %d, not %d", c, in[c], want);
		for (int i = 0; i < big; i++)
			if (all[c][i] != i * c) {
				check_fail("word %d is %d", i, all[c][i]);
				break;
			}
		free(all[c]);
		MPI_Comm_free(&comms[c]);
	}
}

static void come_and_go(void)
{
	check_phase("communicators that come and go");
	for (int i = 0; i < check.count; i++) {
		MPI_Comm comm;

		if (i % 2)
			MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		else
			MPI_Comm_split(MPI_COMM_WORLD, check.rank % (i % 3 + 1),
				       i % 4 ? check.rank : -check.rank, &comm);
		talk(comm, 10 + i);
		MPI_Comm_free(&comm);
	}
}

int main(int argc, char **argv)
{
	check_start(argc, argv, "Traffic on several communicators.",
		    "communicators that come and go", 20);
	state = check_mix(check.seed + (uint32_t) check.rank);
	apart();
	parts();
	across();
	at_a_time();
	come_and_go();
	return check_finish();
}
