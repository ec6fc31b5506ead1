/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Latency, bandwidth and message rate between two ranks, in the format of
 * tagrv_pingpong: size, half round trip (us), bandwidth (10^6 bytes/s), messages
 * per second. Medians over blocks; all messages use one buffer on each side.
 *
 * usage: mpi_pingpong SIZE [WINDOW [SECONDS]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 11, WARM_UP = 100, WINDOW_MAX = 1024 };

static int size, window = 16, rank;
static char *out, *in;

static int compare(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Returns the seconds of half a round trip. */
static double latency(long count)
{
	double start = MPI_Wtime();

	for (long i = 0; i < count; i++) {
		if (rank == 0)
			MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(in, size, MPI_BYTE, !rank, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / (double) count / 2;
}

/* Returns the seconds per message; an empty message answers each window. */
static double stream(long count)
{
	static MPI_Request req[WINDOW_MAX];
	double start = MPI_Wtime();

	for (long i = 0; i < count; i++) {
		for (int w = 0; w < window; w++) {
			if (rank == 0)
				MPI_Isend(out, size, MPI_BYTE, 1, 2,
					  MPI_COMM_WORLD, &req[w]);
			else
				MPI_Irecv(in, size, MPI_BYTE, 0, 2,
					  MPI_COMM_WORLD, &req[w]);
		}
		MPI_Waitall(window, req, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(in, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		else
			MPI_Send(out, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / (double) (count * window);
}

/* 'per': operations of fn for one unit of its count. */
static double measure(double (*fn)(long), double per, double seconds)
{
	double values[BLOCKS], once;
	long count;

	fn(WARM_UP);
	once = fn(WARM_UP) * per;
	count = (long) (seconds / BLOCKS / once) + 1;
	MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	for (int i = 0; i < BLOCKS; i++)
		values[i] = fn(count);
	qsort(values, BLOCKS, sizeof(*values), compare);
	return values[BLOCKS / 2];
}

int main(int argc, char **argv)
{
	double seconds = argc > 3 ? atof(argv[3]) : 0.5, half, one;
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	size = argc > 1 ? atoi(argv[1]) : 8;
	window = argc > 2 ? atoi(argv[2]) : window;
	if (ranks != 2 || size < 0 || window < 1 || window > WINDOW_MAX) {
		fprintf(stderr, "usage: mpi_pingpong SIZE [WINDOW [SECONDS]], "
			"2 ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	out = malloc((size_t) size + 1);
	in = malloc((size_t) size + 1);
	/* Pages never written would all be the same page of zeros. */
	memset(out, 1, (size_t) size + 1);
	memset(in, 2, (size_t) size + 1);
	half = measure(latency, 2, seconds);
	one = measure(stream, window, seconds);
	if (rank == 0)
		printf("%d %.3f %.2f %.0f\n", size, half * 1e6,
		       size / one / 1e6, 1 / one);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
