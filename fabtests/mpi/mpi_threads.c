/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that all use MPI: each with a communicator of its own; all with one
 * communicator and tags of their own; a thread of one rank with another thread of the
 * other; several that receive any message by matched probes.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 41, WINDOW = 8, MAX_LEN = 1 << 17 };

struct worker {
	pthread_t thread;
	int index;
	MPI_Comm comm;
	char *sbuf, *rbuf[WINDOW];
};

static MPI_Comm shared;
static atomic_int left;		/* messages not received yet */

static int length(int from, int to, int tag, int number)
{
	uint32_t row = check_key(from, to + tag * 100, (int) check.seed, number);

	return check_random_len(&row, MAX_LEN);
}

/* Posts a window of receives from the previous rank, then sends a window to the next. */
static void window(struct worker *w, MPI_Comm comm, int rtag, int stag,
		   bool any, int number)
{
	int next = (check.rank + 1) % check.ranks;
	int prev = (check.rank + check.ranks - 1) % check.ranks;
	MPI_Request req[WINDOW];
	MPI_Status status[WINDOW];

	for (int i = 0; i < WINDOW; i++)
		MPI_Irecv(w->rbuf[i], MAX_LEN, MPI_BYTE,
			  any ? MPI_ANY_SOURCE : prev, any ? MPI_ANY_TAG : rtag,
			  comm, &req[i]);
	for (int i = 0; i < WINDOW; i++) {
		int n = number * WINDOW + i;
		int len = length(check.rank, next, stag, n);

		check_fill(w->sbuf, (size_t) len,
			   check_key(check.rank, next, stag, n));
		MPI_Send(w->sbuf, len, MPI_BYTE, next, stag, comm);
	}
	MPI_Waitall(WINDOW, req, status);
	for (int i = 0; i < WINDOW; i++) {
		int n = number * WINDOW + i;
		int len = length(prev, check.rank, rtag, n);

		check_status(&status[i], prev, rtag, len);
		check_bytes(w->rbuf[i], (size_t) len,
			    check_key(prev, check.rank, rtag, n), "message");
	}
}

/* With collectives, because the communicator belongs to the thread. */
static void *own_comm(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < check.count; i++) {
		int sum = 0;

		window(w, w->comm, TAG, TAG, true, i);
		MPI_Allreduce(&check.rank, &sum, 1, MPI_INT, MPI_SUM, w->comm);
		CHECK(sum == check.ranks * (check.ranks - 1) / 2,
		      "sum of ranks is %d", sum);
	}
	return NULL;
}

static void *own_tags(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < check.count; i++)
		window(w, shared, TAG + w->index, TAG + w->index, false, i);
	return NULL;
}

/* The message of a thread is received by the next thread; the tag identifies it. */
static void *across(void *arg)
{
	struct worker *w = arg;
	int to = (w->index + 1) % check.threads;

	for (int i = 0; i < check.count; i++)
		window(w, shared, TAG + w->index, TAG + to, false, i);
	return NULL;
}

static void take(struct worker *w, MPI_Message *msg, MPI_Status *status)
{
	int head[2], len;

	MPI_Get_count(status, MPI_BYTE, &len);
	MPI_Mrecv(w->rbuf[0], len, MPI_BYTE, msg, status);
	if (len < (int) sizeof(head) || len > MAX_LEN) {
		check_fail("a message of %d bytes", len);
		return;
	}
	memcpy(head, w->rbuf[0], sizeof(head));
	check_status(status, head[0], -1, -1);
	check_bytes(w->rbuf[0] + sizeof(head), (size_t) len - sizeof(head),
		    check_key(head[0], check.rank, status->MPI_TAG, head[1]),
		    "message");
}

/* Each thread sends to all ranks; any thread may receive a message. */
static void *takers(void *arg)
{
	struct worker *w = arg;
	int sent = 0, total = check.count * check.ranks;
	MPI_Request req = MPI_REQUEST_NULL;

	while (sent < total || atomic_load(&left) > 0) {
		int found = 0, done = 0, to = sent % check.ranks;
		int tag = TAG + w->index, head[2] = { check.rank, sent };
		MPI_Message msg;
		MPI_Status status;

		MPI_Test(&req, &done, MPI_STATUS_IGNORE);
		if (done && sent < total) {
			int len = length(check.rank, to, tag, sent) / 2;

			memcpy(w->sbuf, head, sizeof(head));
			check_fill(w->sbuf + sizeof(head), (size_t) len,
				   check_key(check.rank, to, tag, sent));
			MPI_Isend(w->sbuf, len + (int) sizeof(head), MPI_BYTE,
				  to, tag, shared, &req);
			sent++;
		}
		MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, shared, &found, &msg,
			    &status);
		if (found) {
			take(w, &msg, &status);
			atomic_fetch_sub(&left, 1);
		}
	}
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	return NULL;
}

static void run_all(struct worker *workers, void *(*work)(void *),
		    const char *what)
{
	check_phase(what);
	for (int i = 0; i < check.threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work,
				   &workers[i])) {
			check_fail("cannot start thread %d", i);
			MPI_Abort(MPI_COMM_WORLD, 4);
		}
	for (int i = 0; i < check.threads; i++)
		pthread_join(workers[i].thread, NULL);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	struct worker *workers;

	check_start_threads(argc, argv, "Threads that all use MPI.", "rounds",
			    20);
	if (!check.multiple)
		return check_finish();
	workers = check_alloc(sizeof(*workers) * (size_t) check.threads);
	MPI_Comm_dup(MPI_COMM_WORLD, &shared);
	for (int i = 0; i < check.threads; i++) {
		workers[i].index = i;
		MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
		workers[i].sbuf = check_alloc(MAX_LEN);
		for (int k = 0; k < WINDOW; k++)
			workers[i].rbuf[k] = check_alloc(MAX_LEN);
	}
	left = check.count * check.ranks * check.threads;
	run_all(workers, own_comm, "threads with communicators of their own");
	run_all(workers, own_tags, "threads with tags of their own");
	run_all(workers, across, "threads with other threads");
	run_all(workers, takers, "threads that take what comes");
	for (int i = 0; i < check.threads; i++) {
		MPI_Comm_free(&workers[i].comm);
		free(workers[i].sbuf);
		for (int k = 0; k < WINDOW; k++)
			free(workers[i].rbuf[k]);
	}
	MPI_Comm_free(&shared);
	free(workers);
	return check_finish();
}
