/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The modes of sending: a synchronous send completes when it is matched and not
 * before; buffered and ready sends; all modes keep the order. Every rank sends to
 * every rank, itself included.
 */
#include "check.h"

#include <stdlib.h>

enum { TAG = 1, CHAT = 2, CHATS = 20, MAX_LEN = 300000, ORDERED = 12 };

static const int sizes[] = { 0, 8, 200, 5000, 20000, MAX_LEN };
static char *sbuf, *rbuf;
static int next, prev;	/* ranks at the distance of this round */
static uint32_t state;

/*
 * Some round trips, which make progress on both sides. The receiver of 'req' posts
 * its receive after the last round trip, which needs a message of this rank.
 */
static void chat(MPI_Request *req)
{
	for (int i = 0; i < CHATS; i++) {
		int in, done = 0;

		if (*req != MPI_REQUEST_NULL)
			MPI_Test(req, &done, MPI_STATUS_IGNORE);
		CHECK(!done, "complete after %d round trips, not received", i);
		MPI_Sendrecv(&i, 1, MPI_INT, prev, CHAT, &in, 1, MPI_INT, next,
			     CHAT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(in == i, "chat %d is %d", i, in);
		MPI_Sendrecv(&i, 1, MPI_INT, next, CHAT, &in, 1, MPI_INT, prev,
			     CHAT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void receive(int len, int number)
{
	MPI_Status status;

	check_poison(rbuf, MAX_LEN);
	MPI_Recv(rbuf, MAX_LEN, MPI_BYTE, prev, TAG, MPI_COMM_WORLD, &status);
	check_status(&status, prev, TAG, len);
	check_bytes(rbuf, (size_t) len,
		    check_key(prev, check.rank, TAG, number), "message");
}

static void fill(int len, int number)
{
	check_fill(sbuf, (size_t) len,
		   check_key(check.rank, next, TAG, number));
}

static void not_before_match(int len)
{
	MPI_Request req;

	check_phase("a synchronous send nobody received yet");
	fill(len, len);
	MPI_Issend(sbuf, len, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &req);
	chat(&req);
	receive(len, len);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* The receive is posted before the message; from any source. */
static void matched_at_once(int len)
{
	MPI_Request in, out;
	MPI_Status status;

	check_phase("a synchronous send to a posted receive");
	fill(len, len);
	MPI_Irecv(rbuf, MAX_LEN, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD,
		  &in);
	MPI_Barrier(MPI_COMM_WORLD);
	if (next == check.rank) {
		MPI_Issend(sbuf, len, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &out);
		MPI_Wait(&out, MPI_STATUS_IGNORE);
	} else {
		MPI_Ssend(sbuf, len, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
	}
	MPI_Wait(&in, &status);
	check_status(&status, prev, TAG, len);
	check_bytes(rbuf, (size_t) len, check_key(prev, check.rank, TAG, len),
		    "message");
	MPI_Barrier(MPI_COMM_WORLD);
}

/* MPI_Rsend needs a posted receive: hence the barrier. */
static void ready(int len)
{
	MPI_Request in;

	check_phase("a ready send");
	fill(len, len);
	check_poison(rbuf, MAX_LEN);
	MPI_Irecv(rbuf, MAX_LEN, MPI_BYTE, prev, TAG, MPI_COMM_WORLD, &in);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Rsend(sbuf, len, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
	MPI_Wait(&in, MPI_STATUS_IGNORE);
	check_bytes(rbuf, (size_t) len, check_key(prev, check.rank, TAG, len),
		    "message");
}

/* The buffer may be used again at once, before the message is received. */
static void buffered(int len)
{
	int room = len + MPI_BSEND_OVERHEAD;
	MPI_Request none = MPI_REQUEST_NULL;
	void *space = check_alloc((size_t) room);

	check_phase("a buffered send");
	fill(len, len);
	MPI_Buffer_attach(space, room);
	MPI_Bsend(sbuf, len, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
	check_poison(sbuf, (size_t) len);
	chat(&none);
	receive(len, len);
	MPI_Buffer_detach(&space, &room);
	free(space);
}

/* One tag, all modes in turn: received in the order of sending. */
static void one_order(void)
{
	static char *bufs[ORDERED];
	MPI_Request req[ORDERED], none = MPI_REQUEST_NULL;
	int len[ORDERED];

	check_phase("synchronous and other sends in order");
	for (int i = 0; i < ORDERED; i++) {
		/* Lengths do not depend on the rank, so the receiver knows them. */
		len[i] = check_random_len(&state, MAX_LEN);
		bufs[i] = check_alloc((size_t) len[i]);
		check_fill(bufs[i], (size_t) len[i],
			   check_key(check.rank, next, TAG, i));
		if (i % 2)
			MPI_Isend(bufs[i], len[i], MPI_BYTE, next, TAG,
				  MPI_COMM_WORLD, &req[i]);
		else
			MPI_Issend(bufs[i], len[i], MPI_BYTE, next, TAG,
				   MPI_COMM_WORLD, &req[i]);
	}
	chat(&none);
	for (int i = 0; i < ORDERED; i++)
		receive(len[i], i);
	MPI_Waitall(ORDERED, req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < ORDERED; i++)
		free(bufs[i]);
}

int main(int argc, char **argv)
{
	check_start(argc, argv, "Synchronous, ready and buffered sends.",
		    "rounds", 1);
	state = check_mix(check.seed);
	sbuf = check_alloc(MAX_LEN);
	rbuf = check_alloc(MAX_LEN);
	for (int i = 0; i < check.count * check.ranks; i++) {
		next = (check.rank + i) % check.ranks;
		prev = (check.rank + check.ranks - i % check.ranks) %
		       check.ranks;
		for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
			not_before_match(sizes[s]);
			matched_at_once(sizes[s]);
			ready(sizes[s]);
			buffered(sizes[s]);
		}
		one_order();
	}
	free(sbuf);
	free(rbuf);
	return check_finish();
}
