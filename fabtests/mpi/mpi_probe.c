/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Probes and matched probes, cancelled receives, and receives that are too short.
 * Every rank sends to the next rank and receives from the previous one, at each
 * distance in turn.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 11, NOBODY = 12, LATER = 13, MAX_LEN = 300000, MANY = 8 };

static const int sizes[] = { 0, 1, 100, 5000, 20000, MAX_LEN };
static char *sbuf, *rbuf;
static int next, prev;
static uint32_t state;
static MPI_Comm comm;	/* with MPI_ERRORS_RETURN */

static uint32_t key_in(int number)
{
	return check_key(prev, check.rank, TAG, number);
}

static void post_send(char *buf, int len, int tag, int number, MPI_Request *req)
{
	check_fill(buf, (size_t) len,
		   check_key(check.rank, next, TAG, number));
	MPI_Isend(buf, len, MPI_BYTE, next, tag, comm, req);
}

/* A waiting message is found by every matching probe, and by no other. */
static void probes(int len)
{
	MPI_Request req;
	MPI_Status status;
	int found;

	check_phase("probes");
	post_send(sbuf, len, TAG, len, &req);
	MPI_Probe(MPI_ANY_SOURCE, TAG, comm, &status);
	check_status(&status, prev, TAG, len);
	for (int i = 0; i < 3; i++) {
		MPI_Iprobe(prev, NOBODY, comm, &found, &status);
		CHECK(!found, "found what nobody sent");
		MPI_Iprobe(prev, MPI_ANY_TAG, comm, &found, &status);
		CHECK(found, "not found again");
		if (found)
			check_status(&status, prev, TAG, len);
	}
	MPI_Recv(rbuf, len, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm,
		 &status);
	check_status(&status, prev, TAG, len);
	check_bytes(rbuf, (size_t) len, key_in(len), "message");
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	MPI_Barrier(comm);
}

/* Matched probes in order, receives in reverse order; other messages are received between. */
static void matched_probes(int len)
{
	MPI_Request req[MANY];
	MPI_Message msg[MANY - 1], none;
	MPI_Status status;
	char *out[MANY];
	int found;

	check_phase("matched probes");
	for (int i = 0; i < MANY; i++) {
		out[i] = check_alloc((size_t) len + MANY);
		post_send(out[i], len + i, TAG, len + i, &req[i]);
	}
	for (int i = 0; i < MANY - 1; i++) {
		if (i % 2) {
			MPI_Mprobe(prev, TAG, comm, &msg[i], &status);
		} else {
			do {
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
					    &found, &msg[i], &status);
			} while (!found);
		}
		check_status(&status, prev, TAG, len + i);
	}
	MPI_Improbe(prev, NOBODY, comm, &found, &none, MPI_STATUS_IGNORE);
	CHECK(!found, "found what nobody sent");
	MPI_Recv(rbuf, MAX_LEN + MANY, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm,
		 &status);
	check_status(&status, prev, TAG, len + MANY - 1);
	for (int i = MANY - 2; i >= 0; i--) {
		size_t bytes = (size_t) (len + i);

		check_poison(rbuf, bytes);
		if (i % 2) {
			MPI_Mrecv(rbuf, len + i, MPI_BYTE, &msg[i], &status);
		} else {
			MPI_Request in;

			MPI_Imrecv(rbuf, len + i, MPI_BYTE, &msg[i], &in);
			MPI_Wait(&in, &status);
		}
		check_status(&status, prev, TAG, len + i);
		check_bytes(rbuf, bytes, key_in(len + i), "message");
		CHECK(msg[i] == MPI_MESSAGE_NULL, "still a message");
	}
	MPI_Waitall(MANY, req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < MANY; i++)
		free(out[i]);
	MPI_Barrier(comm);
}

/* Messages from all ranks at once: the message that a matched probe found is received. */
static void matched_from_all(void)
{
	MPI_Request *req = check_alloc(sizeof(*req) * (size_t) check.ranks);
	MPI_Message *msg = check_alloc(sizeof(*msg) * (size_t) check.ranks);
	int *from = check_alloc(sizeof(*from) * (size_t) check.ranks);

	check_phase("matched probes of any source");
	for (int i = 0; i < check.ranks; i++)
		MPI_Isend(&check.rank, 1, MPI_INT, i, TAG, comm, &req[i]);
	for (int i = 0; i < check.ranks; i++) {
		MPI_Status status;

		MPI_Mprobe(MPI_ANY_SOURCE, TAG, comm, &msg[i], &status);
		from[i] = status.MPI_SOURCE;
	}
	for (int i = check.ranks - 1; i >= 0; i--) {
		MPI_Status status;
		int in = -1;

		MPI_Mrecv(&in, 1, MPI_INT, &msg[i], &status);
		check_status(&status, -1, TAG, sizeof(in));
		CHECK(in == from[i], "message of rank %d is of %d", from[i], in);
	}
	MPI_Waitall(check.ranks, req, MPI_STATUSES_IGNORE);
	free(from);
	free(msg);
	free(req);
	MPI_Barrier(comm);
}

/* Receives without messages are cancelled; a message matches the one that is left. */
static void cancelled(int len)
{
	MPI_Request in[MANY], out;
	MPI_Status status;
	int gone, left = (int) (check_random(&state) % MANY);

	check_phase("cancelled receives");
	check_poison(rbuf, MAX_LEN);
	for (int i = 0; i < MANY; i++)
		MPI_Irecv(rbuf, MAX_LEN, MPI_BYTE,
			  i % 2 ? prev : MPI_ANY_SOURCE, TAG, comm, &in[i]);
	for (int i = MANY - 1; i >= 0; i--) {
		if (i == left)
			continue;
		MPI_Cancel(&in[i]);
		MPI_Wait(&in[i], &status);
		MPI_Test_cancelled(&status, &gone);
		CHECK(gone, "receive %d is not cancelled", i);
	}
	MPI_Barrier(comm);
	post_send(sbuf, len, TAG, len, &out);
	MPI_Wait(&in[left], &status);
	MPI_Test_cancelled(&status, &gone);
	CHECK(!gone, "the receive that was left is cancelled");
	check_status(&status, prev, TAG, len);
	check_bytes(rbuf, (size_t) len, key_in(len), "message");
	MPI_Wait(&out, MPI_STATUS_IGNORE);
	MPI_Barrier(comm);
}

/* Cancelled while the message is moving: the message is received now or by the next receive. */
static void cancel_race(int len, int number)
{
	MPI_Request in, out;
	MPI_Status status;
	int gone, spin = (int) (check_random(&state) % 3);

	check_phase("receives cancelled while their message comes");
	check_poison(rbuf, MAX_LEN);
	MPI_Irecv(rbuf, MAX_LEN, MPI_BYTE, prev, LATER, comm, &in);
	post_send(sbuf, len, LATER, number, &out);
	while (spin--)
		MPI_Iprobe(prev, NOBODY, comm, &gone, MPI_STATUS_IGNORE);
	MPI_Cancel(&in);
	MPI_Wait(&in, &status);
	MPI_Test_cancelled(&status, &gone);
	if (gone)
		MPI_Recv(rbuf, MAX_LEN, MPI_BYTE, prev, LATER, comm, &status);
	check_status(&status, prev, LATER, len);
	check_bytes(rbuf, (size_t) len, key_in(number), "message");
	MPI_Wait(&out, MPI_STATUS_IGNORE);
}

static void expect_truncate(int error)
{
	int class = error;

	if (error != MPI_SUCCESS)
		MPI_Error_class(error, &class);
	CHECK(class == MPI_ERR_TRUNCATE, "error class %d, not of truncation",
	      class);
}

/* No byte beyond the buffer is written, and later messages arrive complete. */
static void truncated(int len, bool waiting, bool nonblocking)
{
	int room = len / 2;
	MPI_Request in, out[2];
	MPI_Status status;

	check_phase("receives that are too short");
	check_poison(rbuf, MAX_LEN);
	if (!waiting)
		MPI_Irecv(rbuf, room, MPI_BYTE, prev, TAG, comm, &in);
	MPI_Barrier(comm);
	post_send(sbuf, len, TAG, len, &out[0]);
	MPI_Isend(sbuf, len, MPI_BYTE, next, LATER, comm, &out[1]);
	if (waiting)
		MPI_Probe(prev, LATER, comm, MPI_STATUS_IGNORE);
	if (waiting && !nonblocking) {
		expect_truncate(MPI_Recv(rbuf, room, MPI_BYTE, MPI_ANY_SOURCE,
					 TAG, comm, &status));
	} else {
		if (waiting)
			MPI_Irecv(rbuf, room, MPI_BYTE, prev, TAG, comm, &in);
		expect_truncate(MPI_Wait(&in, &status));
	}
	for (int i = room; i < len; i++)
		if ((unsigned char) rbuf[i] != 0xa5) {
			check_fail("byte %d behind %d of the buffer", i, room);
			break;
		}
	MPI_Recv(rbuf, len, MPI_BYTE, prev, LATER, comm, &status);
	check_status(&status, prev, LATER, len);
	check_bytes(rbuf, (size_t) len, key_in(len), "message that follows");
	MPI_Waitall(2, out, MPI_STATUSES_IGNORE);
	MPI_Barrier(comm);
}

int main(int argc, char **argv)
{
	check_start(argc, argv, "Probes, cancelled and truncated receives.",
		    "rounds", 1);
	state = check_mix(check.seed + (uint32_t) check.rank);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	sbuf = check_alloc(MAX_LEN + MANY);
	rbuf = check_alloc(MAX_LEN + MANY);
	for (int i = 0; i < check.count * check.ranks; i++) {
		next = (check.rank + i) % check.ranks;
		prev = (check.rank + check.ranks - i % check.ranks) %
		       check.ranks;
		for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
			probes(sizes[s]);
			matched_probes(sizes[s]);
			cancelled(sizes[s]);
			for (int n = 0; n < 20; n++)
				cancel_race(sizes[s], n);
			for (int k = 0; sizes[s] > 0 && k < 4; k++)
				truncated(sizes[s], k & 1, k & 2);
		}
		matched_from_all();
	}
	free(sbuf);
	free(rbuf);
	MPI_Comm_free(&comm);
	return check_finish();
}
