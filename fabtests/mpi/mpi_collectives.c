/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How long collective operations take: Barrier, Allreduce (sum of ints), Alltoall and
 * an exchange with both neighbours (two MPI_Sendrecv). Prints a line for each
 * operation and size: name, bytes, microseconds. Bytes are those that a rank has for
 * Allreduce, for each other rank in Alltoall, and for each neighbour.
 *
 * A block is as many operations as take SECONDS / BLOCKS; its time is that of the rank
 * that took longest, and the median of the blocks is printed.
 *
 * usage: mpi_collectives [SECONDS [SIZE...]]     default: 0.2 s, 8 B to 1 MiB
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 11, SIZES_MAX = 16 };

static int rank, ranks;
static char *out, *in;

static void barrier(int bytes)
{
	(void) bytes;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes)
{
	MPI_Allreduce(out, in, bytes / (int) sizeof(int), MPI_INT, MPI_SUM,
		      MPI_COMM_WORLD);
}

static void alltoall(int bytes)
{
	MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void exchange(int bytes)
{
	int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;

	MPI_Sendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, prev, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(out, bytes, MPI_BYTE, prev, 2, in, bytes, MPI_BYTE, next, 2,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Returns the seconds of one operation, on the rank that was slowest. */
static double block(void (*operation)(int), int bytes, int count)
{
	double start, took, longest;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < count; i++)
		operation(bytes);
	took = (MPI_Wtime() - start) / count;
	MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return longest;
}

static void measure(const char *name, void (*operation)(int), int bytes,
		    double seconds)
{
	double values[BLOCKS];
	int count = 1;

	/* Doubled until a block is long enough to say how long they take. */
	while (block(operation, bytes, count) * count < seconds / BLOCKS / 4)
		count *= 2;
	count *= 2;
	for (int i = 0; i < BLOCKS; i++)
		values[i] = block(operation, bytes, count);
	qsort(values, BLOCKS, sizeof(*values), compare);
	if (rank == 0)
		printf("%s %d %.2f\n", name, bytes, values[BLOCKS / 2] * 1e6);
}

static void *room(size_t bytes)
{
	void *got = malloc(bytes);

	if (!got) {
		fprintf(stderr, "mpi_collectives: no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	memset(got, 1, bytes);
	return got;
}

int main(int argc, char **argv)
{
	int sizes[SIZES_MAX] = { 8, 1024, 8192, 65536, 1 << 20 }, cnt = 5, most = 8;
	double seconds;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	seconds = argc > 1 ? atof(argv[1]) : 0.2;
	if (argc > 2)
		cnt = 0;
	for (int i = 2; i < argc && cnt < SIZES_MAX; i++)
		sizes[cnt++] = atoi(argv[i]);
	for (int i = 0; i < cnt; i++) {
		if (seconds <= 0 || sizes[i] < 0) {
			fprintf(stderr, "usage: mpi_collectives [SECONDS "
				"[SIZE...]]\n");
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		most = sizes[i] > most ? sizes[i] : most;
	}
	out = room((size_t) most * (size_t) ranks);
	in = room((size_t) most * (size_t) ranks);
	measure("barrier", barrier, 0, seconds);
	for (int i = 0; i < cnt; i++) {
		measure("allreduce", allreduce, sizes[i], seconds);
		measure("alltoall", alltoall, sizes[i], seconds);
		measure("exchange", exchange, sizes[i], seconds);
	}
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
