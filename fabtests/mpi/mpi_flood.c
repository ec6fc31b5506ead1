/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Floods: all ranks send to one rank, as fast as they can; each rank has its turn. It
 * receives the last message of each sender first, so that all others are unexpected,
 * and then the rest in another order. No message is lost, and messages of one source
 * and tag are received in the order of sending.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { TAGS = 5, LAST = TAGS, MAX_LEN = 1 << 17, BIG = 100 };

struct flood {
	MPI_Request *req;
	char **buf;
};

static uint32_t state;
static char *rbuf;

/* Most messages are short, because their number matters. */
static int length(int from, int to, int number)
{
	uint32_t row = check_key(from, to, (int) check.seed, number);

	if (number % BIG == BIG - 1)
		return (int) (check_random(&row) % MAX_LEN);
	return (int) (check_random(&row) % (number % 10 ? 100 : 5000)) +
	       (int) sizeof(int);
}

static int tag_of(int from, int to, int number)
{
	if (number == check.count - 1)
		return LAST;
	return (int) (check_key(from, to, 1, number) % TAGS);
}

/* The first word of a message is its number, if there is room. */
static void send_all(struct flood *flood, int to)
{
	for (int i = 0; i < check.count; i++) {
		int len = length(check.rank, to, i);
		int tag = tag_of(check.rank, to, i);
		char *buf = check_alloc((size_t) len + sizeof(i));

		memcpy(buf, &i, sizeof(i));
		check_fill(buf + sizeof(i), (size_t) len,
			   check_key(check.rank, to, tag, i));
		flood->buf[i] = buf;
		MPI_Isend(buf, len + (int) sizeof(i), MPI_BYTE, to, tag,
			  MPI_COMM_WORLD, &flood->req[i]);
	}
}

static void wait_all(struct flood *flood)
{
	MPI_Waitall(check.count, flood->req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < check.count; i++)
		free(flood->buf[i]);
}

static void receive(int source, int tag, int *last)
{
	MPI_Status status;
	int number, from;

	MPI_Recv(rbuf, MAX_LEN + (int) sizeof(number), MPI_BYTE, source, tag,
		 MPI_COMM_WORLD, &status);
	memcpy(&number, rbuf, sizeof(number));
	from = status.MPI_SOURCE;
	tag = status.MPI_TAG;
	if (number < 0 || number >= check.count ||
	    tag != tag_of(from, check.rank, number)) {
		check_fail("number %d of rank %d with tag %d", number, from, tag);
		return;
	}
	check_status(&status, source, tag,
		     length(from, check.rank, number) + (int) sizeof(number));
	check_bytes(rbuf + sizeof(number),
		    (size_t) length(from, check.rank, number),
		    check_key(from, check.rank, tag, number), "message");
	CHECK(number > last[from * (TAGS + 1) + tag],
	      "number %d of rank %d, tag %d after %d", number, from, tag,
	      last[from * (TAGS + 1) + tag]);
	last[from * (TAGS + 1) + tag] = number;
}

/* The number of messages of each tag is known; wildcards take any of them. */
static void receive_all(void)
{
	int cells = check.ranks * (TAGS + 1), left = 0;
	int *last = check_alloc(sizeof(*last) * (size_t) cells);

	for (int i = 0; i < cells; i++)
		last[i] = -1;
	check_phase("the last message of a flood");
	for (int from = 0; from < check.ranks; from++) {
		if (from == check.rank)
			continue;
		receive(from, LAST, last);
		left += check.count - 1;
	}
	check_phase("what a flood left behind");
	while (left) {
		int source = (int) (check_random(&state) %
				    (uint32_t) (check.ranks + 1));
		int tag = (int) (check_random(&state) % (TAGS + 1)), found;

		MPI_Iprobe(source == check.ranks ? MPI_ANY_SOURCE : source,
			   tag == TAGS ? MPI_ANY_TAG : tag, MPI_COMM_WORLD,
			   &found, MPI_STATUS_IGNORE);
		if (!found)
			continue;
		receive(source == check.ranks ? MPI_ANY_SOURCE : source,
			tag == TAGS ? MPI_ANY_TAG : tag, last);
		left--;
	}
	free(last);
}

int main(int argc, char **argv)
{
	struct flood flood;

	check_start(argc, argv, "Many messages before anyone receives.",
		    "messages per sender", 2000);
	state = check_mix(check.seed + (uint32_t) check.rank);
	flood.req = check_alloc(sizeof(*flood.req) * (size_t) check.count);
	flood.buf = check_alloc(sizeof(*flood.buf) * (size_t) check.count);
	rbuf = check_alloc(MAX_LEN + sizeof(int));
	for (int to = 0; to < check.ranks; to++) {
		if (to == check.rank) {
			receive_all();
		} else {
			check_phase("sends of a flood");
			send_all(&flood, to);
			wait_all(&flood);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	free(flood.req);
	free(flood.buf);
	free(rbuf);
	return check_finish();
}
