/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A token travels round the ring of ranks in messages of growing size. Each rank adds
 * its number to every word, so that the sum at the end is known.
 */
#include "check.h"

#include <stdlib.h>

static const int sizes[] = { 0, 1, 2, 100, 1000, 2048, 10000, 262144 };

static void verify(const uint32_t *buf, int count, uint32_t expect)
{
	for (int i = 0; i < count; i++)
		if (buf[i] != expect) {
			check_fail("word %d is %u, not %u", i, buf[i], expect);
			return;
		}
}

static void one_round(uint32_t *buf, int count)
{
	int rank = check.rank, ranks = check.ranks;
	int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;

	if (rank == 0) {
		for (int i = 0; i < count; i++)
			buf[i] = 0;
		MPI_Send(buf, count, MPI_UINT32_T, next, 7, MPI_COMM_WORLD);
		MPI_Recv(buf, count, MPI_UINT32_T, prev, 7, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		verify(buf, count, (uint32_t) (ranks * (ranks - 1) / 2));
		return;
	}
	MPI_Recv(buf, count, MPI_UINT32_T, prev, 7, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	for (int i = 0; i < count; i++)
		buf[i] += (uint32_t) rank;
	MPI_Send(buf, count, MPI_UINT32_T, next, 7, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	uint32_t *buf;

	check_start(argc, argv, "Passes a token round a ring of ranks.",
		    "rounds", 10);
	check_phase("the ring");
	buf = check_alloc(sizeof(*buf) * 262144);
	for (int r = 0; r < check.count; r++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
			one_round(buf, sizes[s]);
	free(buf);
	return check_finish();
}
