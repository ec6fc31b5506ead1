/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How long threads take that all use MPI: two ranks, thread number i of one with
 * thread number i of the other. Prints a line for each way: name, seconds.
 *
 *   comms    windows of MPI_Isend and MPI_Irecv, a communicator for each thread
 *   tags     the same on one communicator, a tag for each thread
 *   probe    MPI_Mprobe and MPI_Mrecv, then the answer; a tag for each thread
 *   pingpong MPI_Send and MPI_Recv of one message, a tag for each thread
 *
 * usage: mpi_thread_times [THREADS [MESSAGES [BYTES [WAY]]]]
 *                                          default: 4, 20000 a thread, 8, all
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, WINDOW = 16 };

struct worker {
	pthread_t thread;
	MPI_Comm comm;
	int tag;
	char *out, *in;
};

static int rank, threads = 4, messages = 20000, bytes = 8;
static struct worker workers[THREADS_MAX];
static MPI_Comm comms[THREADS_MAX];

/* Both ranks send and receive a window of messages at the same time. */
static void *windows(void *arg)
{
	struct worker *w = arg;
	MPI_Request req[2 * WINDOW];

	for (int n = 0; n < messages; n += WINDOW) {
		for (int i = 0; i < WINDOW; i++)
			MPI_Irecv(w->in, bytes, MPI_BYTE, !rank, w->tag, w->comm,
				  &req[i]);
		for (int i = 0; i < WINDOW; i++)
			MPI_Isend(w->out, bytes, MPI_BYTE, !rank, w->tag,
				  w->comm, &req[WINDOW + i]);
		MPI_Waitall(2 * WINDOW, req, MPI_STATUSES_IGNORE);
	}
	return NULL;
}

static void take(struct worker *w)
{
	MPI_Message message;

	MPI_Mprobe(!rank, w->tag, w->comm, &message, MPI_STATUS_IGNORE);
	MPI_Mrecv(w->in, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
}

static void *probes(void *arg)
{
	struct worker *w = arg;

	for (int n = 0; n < messages; n++) {
		if (rank == 1)
			take(w);
		MPI_Send(w->out, bytes, MPI_BYTE, !rank, w->tag, w->comm);
		if (rank == 0)
			take(w);
	}
	return NULL;
}

static void *pingpongs(void *arg)
{
	struct worker *w = arg;

	for (int n = 0; n < messages; n++) {
		if (rank == 0)
			MPI_Send(w->out, bytes, MPI_BYTE, 1, w->tag, w->comm);
		MPI_Recv(w->in, bytes, MPI_BYTE, !rank, w->tag, w->comm,
			 MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(w->out, bytes, MPI_BYTE, 0, w->tag, w->comm);
	}
	return NULL;
}

/* own: a communicator for each thread. */
static void run(const char *name, void *(*work)(void *), bool own)
{
	double start;

	for (int i = 0; i < threads; i++) {
		workers[i].comm = comms[own ? i : 0];
		workers[i].tag = 7 + i;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			MPI_Abort(MPI_COMM_WORLD, 4);
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		printf("%s %.3f\n", name, MPI_Wtime() - start);
		fflush(stdout);
	}
}

static void usage(void)
{
	fprintf(stderr, "usage: mpi_thread_times [THREADS [MESSAGES [BYTES "
		"[WAY]]]], 2 ranks, MPI_THREAD_MULTIPLE\n");
	MPI_Abort(MPI_COMM_WORLD, 2);
}

static void start_workers(void)
{
	for (int i = 0; i < threads; i++) {
		workers[i].out = calloc(1, (size_t) bytes + 1);
		workers[i].in = calloc(1, (size_t) bytes + 1);
		if (!workers[i].out || !workers[i].in)
			MPI_Abort(MPI_COMM_WORLD, 3);
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	}
}

static void stop_workers(void)
{
	for (int i = 0; i < threads; i++) {
		MPI_Comm_free(&comms[i]);
		free(workers[i].out);
		free(workers[i].in);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void	*(*work)(void *);
		bool	own;
	} ways[] = {
		{ "comms", windows, true },
		{ "tags", windows, false },
		{ "probe", probes, false },
		{ "pingpong", pingpongs, false },
	};
	int level, ranks;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	threads = argc > 1 ? atoi(argv[1]) : threads;
	messages = argc > 2 ? atoi(argv[2]) : messages;
	bytes = argc > 3 ? atoi(argv[3]) : bytes;
	if (ranks != 2 || level < MPI_THREAD_MULTIPLE || threads < 1 ||
	    threads > THREADS_MAX || messages < 1 || bytes < 0)
		usage();
	start_workers();
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (argc <= 4 || !strcmp(argv[4], ways[i].name))
			run(ways[i].name, ways[i].work, ways[i].own);
	stop_workers();
	MPI_Finalize();
	return 0;
}
