/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random all-to-all: every rank sends every rank (itself included) messages of
 * random sizes and tags. Receives name source and tag, or leave one or both
 * open. Each message tells in its first words who sent it, its number and its
 * length, and every further byte follows from them, so each can be checked
 * whoever received it; numbers of one sender and tag must come in order.
 *
 * usage: mpi_random [messages per pair] [seed]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAGS		4
#define MAX_LEN		(1 << 20)
#define WINDOW		32

struct head {
	uint32_t from, to, number, len, tag, check;
};

static int rank, ranks, errors;
static uint32_t *next_number;	/* per source and tag */

static uint32_t mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352d;
	x ^= x >> 15;
	x *= 0x846ca68b;
	return x ^ x >> 16;
}

/* Mostly small, some beyond every protocol switch point. */
static uint32_t random_len(uint32_t *state)
{
	uint32_t r = *state = mix(*state + 0x9e3779b9);

	if (r % 10 < 6)
		return r / 16 % 256;
	if (r % 10 < 9)
		return r / 16 % 16384;
	return r / 16 % (MAX_LEN - sizeof(struct head));
}

static void fill(char *buf, const struct head *head)
{
	uint32_t seed = mix(head->from * 65537 + head->number);
	char *body = buf + sizeof(*head);

	memcpy(buf, head, sizeof(*head));
	for (uint32_t i = 0; i < head->len; i++)
		body[i] = (char) (seed + i * 31 + (i >> 8));
}

static void fail(const char *what, const struct head *head, int source)
{
	if (errors++ < 10)
		fprintf(stderr, "rank %d: %s: from %u (status %d) number %u "
			"tag %u len %u\n", rank, what, head->from, source,
			head->number, head->tag, head->len);
}

static void verify(const char *buf, const MPI_Status *status)
{
	const char *body = buf + sizeof(struct head);
	struct head head;
	uint32_t seed;
	int count;

	memcpy(&head, buf, sizeof(head));
	MPI_Get_count(status, MPI_BYTE, &count);
	if (head.from != (uint32_t) status->MPI_SOURCE ||
	    head.to != (uint32_t) rank ||
	    head.tag != (uint32_t) status->MPI_TAG ||
	    (size_t) count != head.len + sizeof(head)) {
		fail("envelope differs", &head, status->MPI_SOURCE);
		return;
	}
	seed = mix(head.from * 65537 + head.number);
	for (uint32_t i = 0; i < head.len; i++)
		if (body[i] != (char) (seed + i * 31 + (i >> 8))) {
			fail("payload differs", &head, status->MPI_SOURCE);
			return;
		}
	if (head.number < next_number[head.from * TAGS + head.tag])
		fail("overtaken", &head, status->MPI_SOURCE);
	next_number[head.from * TAGS + head.tag] = head.number + 1;
}

int main(int argc, char **argv)
{
	uint32_t per_pair, total, sent = 0, received = 0, len_state;
	char *sbuf[WINDOW], *rbuf;
	MPI_Request sreq[WINDOW];
	int all_errors;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	per_pair = argc > 1 ? (uint32_t) atoi(argv[1]) : 200;
	len_state = mix((argc > 2 ? (uint32_t) atoi(argv[2]) : 1) + (uint32_t) rank);
	total = per_pair * (uint32_t) ranks;
	next_number = calloc((size_t) ranks * TAGS, sizeof(*next_number));
	rbuf = malloc(MAX_LEN);
	for (int i = 0; i < WINDOW; i++) {
		sbuf[i] = malloc(MAX_LEN);
		sreq[i] = MPI_REQUEST_NULL;
	}
	while (sent < total || received < total) {
		uint32_t r = len_state = mix(len_state + 1);
		MPI_Status status;
		int slot, flag = 0;

		if (sent < total) {
			struct head head = {
				.from = (uint32_t) rank,
				.to = sent % (uint32_t) ranks,
				.number = sent / (uint32_t) ranks,
				.tag = r % TAGS,
			};

			slot = (int) (sent % WINDOW);
			MPI_Test(&sreq[slot], &flag, MPI_STATUS_IGNORE);
			if (flag) {
				head.len = random_len(&len_state);
				fill(sbuf[slot], &head);
				MPI_Isend(sbuf[slot],
					  (int) (head.len + sizeof(head)),
					  MPI_BYTE, (int) head.to,
					  (int) head.tag, MPI_COMM_WORLD,
					  &sreq[slot]);
				sent++;
			}
		}
		MPI_Iprobe(r & 64 ? MPI_ANY_SOURCE : (int) (r / 128) % ranks,
			   r & 32 ? MPI_ANY_TAG : (int) (r / 8) % TAGS,
			   MPI_COMM_WORLD, &flag, &status);
		if (flag) {
			MPI_Recv(rbuf, MAX_LEN, MPI_BYTE, status.MPI_SOURCE,
				 status.MPI_TAG, MPI_COMM_WORLD, &status);
			verify(rbuf, &status);
			received++;
		}
	}
	MPI_Waitall(WINDOW, sreq, MPI_STATUSES_IGNORE);
	MPI_Allreduce(&errors, &all_errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("random all-to-all of %d ranks, %u messages per pair: "
		       "%s\n", ranks, per_pair, all_errors ? "WRONG" : "correct");
	for (int i = 0; i < WINDOW; i++)
		free(sbuf[i]);
	free(rbuf);
	free(next_number);
	MPI_Finalize();
	return all_errors != 0;
}
