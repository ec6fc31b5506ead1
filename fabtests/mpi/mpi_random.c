/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random all-to-all: every rank sends every rank (itself included) messages of
 * random sizes and tags. The first words of a message are its sender, number and
 * length, and all other bytes are derived from them, so that each message can be
 * checked by any receive.
 *
 * First the receiver probes, for one source or any, one tag or any. Then it posts
 * its receives ahead. Each of the four combinations of named or wildcard source and
 * tag has a communicator of its own, so that all its receives match in whatever
 * order the messages arrive.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { TAGS = 4, MAX_LEN = 1 << 20, WINDOW = 32, WAYS = 4 };
/* What a receive names; the rest is a wildcard. */
enum { WAY_BOTH, WAY_SOURCE, WAY_TAG, WAY_ANY };

struct head {
	int32_t from, to, number, len, tag, way;
};

struct post {
	int source, tag, way;
};

static MPI_Comm comms[WAYS];
static uint32_t state;
static char *sbuf[WINDOW];
static MPI_Request sreq[WINDOW];
static int sent, total;
static int *last;	/* number per way, source, and tag */

static uint32_t head_key(const struct head *head)
{
	return check_key(head->from, head->to, head->tag, head->number);
}

static void verify(const char *buf, const MPI_Status *status, int way)
{
	struct head head;
	int *prev;

	memcpy(&head, buf, sizeof(head));
	if (head.len < 0 || head.len > MAX_LEN || head.way != way ||
	    head.to != check.rank) {
		check_fail("a message for rank %d, way %d, length %d came here",
			   head.to, head.way, head.len);
		return;
	}
	if (!check_status(status, head.from, head.tag,
			  head.len + (int) sizeof(head)))
		return;
	check_bytes(buf + sizeof(head), (size_t) head.len, head_key(&head),
		    "payload");
	prev = &last[(way * check.ranks + head.from) * TAGS + head.tag];
	CHECK(head.number > *prev, "number %d of rank %d, tag %d after %d",
	      head.number, head.from, head.tag, *prev);
	*prev = head.number;
}

/* All ranks can compute the tag and the kind of receive of each message. */
static uint32_t choice(int from, int to, int number)
{
	return check_mix(check_key(from, to, 0, number) + check.seed);
}

static void send_one(bool ways)
{
	int slot = sent % WINDOW, done = 0;
	struct head head = {
		.from = check.rank,
		.to = sent % check.ranks,
		.number = sent / check.ranks,
	};
	uint32_t r = choice(head.from, head.to, head.number);

	MPI_Test(&sreq[slot], &done, MPI_STATUS_IGNORE);
	if (!done)
		return;
	head.tag = (int) (r % TAGS);
	head.way = ways ? (int) (r / TAGS % WAYS) : 0;
	head.len = check_random_len(&state, MAX_LEN - (int) sizeof(head));
	memcpy(sbuf[slot], &head, sizeof(head));
	check_fill(sbuf[slot] + sizeof(head), (size_t) head.len,
		   head_key(&head));
	MPI_Isend(sbuf[slot], head.len + (int) sizeof(head), MPI_BYTE, head.to,
		  head.tag, comms[head.way], &sreq[slot]);
	sent++;
}

static void probed(char *buf)
{
	int received = 0;

	check_phase("receives after probes");
	while (sent < total || received < total) {
		uint32_t r = check_random(&state);
		MPI_Status status;
		int found = 0;

		if (sent < total)
			send_one(false);
		MPI_Iprobe(r & 64 ? MPI_ANY_SOURCE
				  : (int) (r / 128) % check.ranks,
			   r & 32 ? MPI_ANY_TAG : (int) (r / 8) % TAGS,
			   comms[0], &found, &status);
		if (!found)
			continue;
		MPI_Recv(buf, MAX_LEN, MPI_BYTE, status.MPI_SOURCE,
			 status.MPI_TAG, comms[0], &status);
		verify(buf, &status, 0);
		received++;
	}
}

/* Lists the receives for messages of a few numbers, in random order. */
static int plan(struct post *posts, int first, int numbers)
{
	int n = 0;

	for (int i = 0; i < numbers * check.ranks; i++) {
		int from = i % check.ranks;
		uint32_t r = choice(from, check.rank, first + i / check.ranks);
		int way = (int) (r / TAGS % WAYS);
		bool source = way == WAY_BOTH || way == WAY_SOURCE;
		bool tag = way == WAY_BOTH || way == WAY_TAG;
		int at = (int) (check_random(&state) % (uint32_t) (n + 1));

		posts[n++] = posts[at];
		posts[at] = (struct post) {
			.way = way,
			.source = source ? from : MPI_ANY_SOURCE,
			.tag = tag ? (int) (r % TAGS) : MPI_ANY_TAG,
		};
	}
	return n;
}

/* Posts sends and receives for messages of a few numbers, in random order. */
static void posted_round(char **rbuf, int first, int numbers)
{
	struct post posts[WINDOW];
	MPI_Request rreq[WINDOW];
	MPI_Status status[WINDOW];
	int n = plan(posts, first, numbers), next = 0, end = sent + n;

	while (next < n || sent < end) {
		struct post *post = &posts[next];

		if (sent < end && check_random(&state) % 2)
			send_one(true);
		if (next == n || check_random(&state) % 2)
			continue;
		MPI_Irecv(rbuf[next], MAX_LEN, MPI_BYTE, post->source,
			  post->tag, comms[post->way], &rreq[next]);
		next++;
	}
	MPI_Waitall(n, rreq, status);
	for (int i = 0; i < n; i++)
		verify(rbuf[i], &status[i], posts[i].way);
	MPI_Waitall(WINDOW, sreq, MPI_STATUSES_IGNORE);
}

/*
 * All ranks do the same round: a message of a later round might match the receive of
 * another message, whose sender would then wait for a receive of a later round.
 */
static void posted(char **rbuf)
{
	int numbers = check.ranks < WINDOW ? WINDOW / check.ranks : 1;

	check_phase("receives posted before");
	for (int first = 0; first < check.count; first += numbers) {
		int left = check.count - first;

		MPI_Barrier(MPI_COMM_WORLD);
		posted_round(rbuf, first, left < numbers ? left : numbers);
	}
}

static void restart(void)
{
	MPI_Waitall(WINDOW, sreq, MPI_STATUSES_IGNORE);
	sent = 0;
	for (int i = 0; i < WAYS * check.ranks * TAGS; i++)
		last[i] = -1;
}

int main(int argc, char **argv)
{
	char *rbuf[WINDOW];

	check_start(argc, argv, "Random messages of all ranks to all ranks, at most 32.",
		    "messages per pair", 150);
	if (check.ranks > WINDOW) {
		check_fail("more than %d ranks", WINDOW);
		return check_finish();
	}
	state = check_mix(check.seed + (uint32_t) check.rank);
	total = check.count * check.ranks;
	last = check_alloc(sizeof(*last) * (size_t) (WAYS * check.ranks * TAGS));
	for (int i = 0; i < WAYS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < WINDOW; i++) {
		sbuf[i] = check_alloc(MAX_LEN);
		rbuf[i] = check_alloc(MAX_LEN);
		sreq[i] = MPI_REQUEST_NULL;
	}
	restart();
	probed(rbuf[0]);
	restart();
	posted(rbuf);
	for (int i = 0; i < WINDOW; i++) {
		free(sbuf[i]);
		free(rbuf[i]);
	}
	for (int i = 0; i < WAYS; i++)
		MPI_Comm_free(&comms[i]);
	free(last);
	return check_finish();
}
