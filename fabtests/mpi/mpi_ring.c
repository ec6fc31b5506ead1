/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A token travels round the ring of ranks in messages of growing size; each
 * rank adds its number to every word, so the sum at the end is known.
 *
 * usage: mpi_ring [rounds]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const int sizes[] = { 0, 1, 2, 100, 1000, 2048, 10000, 262144 };

static int check(const uint32_t *buf, int count, uint32_t expect)
{
	for (int i = 0; i < count; i++)
		if (buf[i] != expect) {
			fprintf(stderr, "word %d is %u, not %u\n", i, buf[i],
				expect);
			return 1;
		}
	return 0;
}

static int one_round(uint32_t *buf, int count, int rank, int ranks)
{
	int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
	uint32_t sum = (uint32_t) (ranks * (ranks - 1) / 2);

	if (rank == 0) {
		for (int i = 0; i < count; i++)
			buf[i] = 0;
		MPI_Send(buf, count, MPI_UINT32_T, next, 7, MPI_COMM_WORLD);
		MPI_Recv(buf, count, MPI_UINT32_T, prev, 7, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		return check(buf, count, sum);
	}
	MPI_Recv(buf, count, MPI_UINT32_T, prev, 7, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	for (int i = 0; i < count; i++)
		buf[i] += (uint32_t) rank;
	MPI_Send(buf, count, MPI_UINT32_T, next, 7, MPI_COMM_WORLD);
	return 0;
}

int main(int argc, char **argv)
{
	int rank, ranks, bad = 0, all_bad, rounds;
	uint32_t *buf;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	rounds = argc > 1 ? atoi(argv[1]) : 10;
	buf = malloc(sizeof(*buf) * 262144);
	for (int r = 0; r < rounds && !bad; r++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
			bad |= one_round(buf, sizes[s], rank, ranks);
	MPI_Allreduce(&bad, &all_bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (!rank)
		printf("ring of %d ranks, %d rounds: %s\n", ranks, rounds,
		       all_bad ? "WRONG" : "correct");
	free(buf);
	MPI_Finalize();
	return all_bad;
}
