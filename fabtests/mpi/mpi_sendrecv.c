/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Exchanges of all ranks at the same time: by MPI_Sendrecv with partners at random
 * distance, in place, by persistent requests, and of all ranks with all ranks,
 * completed in any order.
 */
#include "check.h"

#include <stdlib.h>

enum { TAG = 31, PER_PEER = 4, MAX_LEN = 1 << 18, HUGE_LEN = 4 << 20 };

static char *sbuf, *rbuf;
static uint32_t together;	/* state of random numbers that are equal on all ranks */

static int length(int from, int to, int number)
{
	uint32_t row = check_key(from, to, (int) check.seed, number);

	if (number % 50 == 49)
		return HUGE_LEN - number;
	return check_random_len(&row, MAX_LEN);
}

static void partners(int *next, int *prev)
{
	int d = (int) (check_random(&together) % (uint32_t) check.ranks);

	*next = (check.rank + d) % check.ranks;
	*prev = (check.rank + check.ranks - d) % check.ranks;
}

static void exchange(int number)
{
	MPI_Status status;
	int next, prev, len, want;

	partners(&next, &prev);
	len = length(check.rank, next, number);
	want = length(prev, check.rank, number);
	check_fill(sbuf, (size_t) len,
		   check_key(check.rank, next, TAG, number));
	MPI_Sendrecv(sbuf, len, MPI_BYTE, next, TAG, rbuf, HUGE_LEN, MPI_BYTE,
		     number % 3 ? prev : MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD,
		     &status);
	check_status(&status, prev, TAG, want);
	check_bytes(rbuf, (size_t) want,
		    check_key(prev, check.rank, TAG, number), "message");
	/* The receive is from any source: no rank may be ahead. */
	MPI_Barrier(MPI_COMM_WORLD);
}

static void in_place(int number)
{
	MPI_Status status;
	int next, prev, len;

	partners(&next, &prev);
	len = length(0, 0, number);	/* one length for both directions */
	check_fill(sbuf, (size_t) len,
		   check_key(check.rank, next, TAG, number));
	MPI_Sendrecv_replace(sbuf, len, MPI_BYTE, next, TAG, prev, TAG,
			     MPI_COMM_WORLD, &status);
	check_status(&status, prev, TAG, len);
	check_bytes(sbuf, (size_t) len,
		    check_key(prev, check.rank, TAG, number), "message");
}


static char *room(char *base, int at)
{
	return base + (size_t) at * MAX_LEN;
}

/* Receives and sends of all ranks, completed by MPI_Testsome. */
static void everyone(int number, char *out, char *in, MPI_Request *req)
{
	int n = check.ranks * PER_PEER, left = 2 * n, some;
	int *index = check_alloc(sizeof(*index) * (size_t) left);

	for (int at = 0; at < n; at++) {
		int peer = at / PER_PEER, i = number * PER_PEER + at % PER_PEER;
		int len = length(check.rank, peer, 50 * i);

		check_fill(room(out, at), (size_t) len,
			   check_key(check.rank, peer, TAG, i));
		MPI_Isend(room(out, at), len, MPI_BYTE, peer, TAG,
			  MPI_COMM_WORLD, &req[2 * at]);
		MPI_Irecv(room(in, at), MAX_LEN, MPI_BYTE, peer, TAG,
			  MPI_COMM_WORLD, &req[2 * at + 1]);
	}
	while (left) {
		MPI_Testsome(2 * n, req, &some, index, MPI_STATUSES_IGNORE);
		left -= some;
		for (int k = 0; k < some; k++) {
			int at = index[k] / 2, peer = at / PER_PEER;
			int i = number * PER_PEER + at % PER_PEER;

			if (index[k] % 2)
				check_bytes(room(in, at), (size_t)
					    length(peer, check.rank, 50 * i),
					    check_key(peer, check.rank, TAG, i),
					    "message");
		}
	}
	free(index);
}

/* Persistent requests are started and completed repeatedly, with new contents. */
static void persistent(char *out, char *in, MPI_Request *req)
{
	int n = check.ranks;

	check_phase("persistent requests");
	for (int peer = 0; peer < n; peer++) {
		MPI_Send_init(room(out, peer), length(check.rank, peer, 1),
			      MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
			      &req[2 * peer]);
		MPI_Recv_init(room(in, peer), MAX_LEN, MPI_BYTE, peer, TAG,
			      MPI_COMM_WORLD, &req[2 * peer + 1]);
	}
	for (int i = 0; i < check.count; i++) {
		for (int peer = 0; peer < n; peer++)
			check_fill(room(out, peer), (size_t)
				   length(check.rank, peer, 1),
				   check_key(check.rank, peer, TAG, i));
		MPI_Startall(2 * n, req);
		MPI_Waitall(2 * n, req, MPI_STATUSES_IGNORE);
		for (int peer = 0; peer < n; peer++)
			check_bytes(room(in, peer), (size_t)
				    length(peer, check.rank, 1),
				    check_key(peer, check.rank, TAG, i),
				    "message");
	}
	for (int i = 0; i < 2 * n; i++)
		MPI_Request_free(&req[i]);
}

static void storm(void)
{
	size_t n = (size_t) (check.ranks * PER_PEER);
	MPI_Request *req = check_alloc(sizeof(*req) * 2 * n);
	char *out = check_alloc(n * MAX_LEN), *in = check_alloc(n * MAX_LEN);

	check_phase("everyone with everyone");
	for (int i = 0; i < check.count; i += PER_PEER)
		everyone(i, out, in, req);
	persistent(out, in, req);
	free(out);
	free(in);
	free(req);
}

int main(int argc, char **argv)
{
	check_start(argc, argv, "Exchanges of all ranks at the same time.",
		    "exchanges", 100);
	together = check_mix(check.seed);
	sbuf = check_alloc(HUGE_LEN);
	rbuf = check_alloc(HUGE_LEN);
	check_phase("exchanges");
	for (int i = 0; i < check.count; i++)
		exchange(i);
	check_phase("exchanges in place");
	for (int i = 0; i < check.count; i++)
		in_place(i);
	storm();
	free(sbuf);
	free(rbuf);
	return check_finish();
}
