/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The order of the work for devices when many connections are made at once.
 *
 *                                 .--> at once, while the round has time for it
 *     socket: REP, REQ, dialed ---|
 *                                 '--> queue --> a later round
 *
 *     round:  all sockets | timers | work of the queue for SLICE | dial, if the queue
 *                                                                  is short enough
 *
 * Commands of a device are made in workers (wireup_run.h), and without those in the thread that
 * serves all sockets, as links to processes of this host are always. There a round makes
 * no more of them than a SLICE at once, and a SLICE of the queue, at least one: where
 * they take microseconds nothing ever waits; where one takes 50 ms, all sockets are
 * served between any two jobs. With workers a job waits until one of them is free.
 *
 * What ends a handshake goes first, since it frees what both sides hold; then REQs of
 * peers, which hold resources while they wait, the oldest first; then our own offers. Each
 * OFFER_TURN-th job is an offer, so that endless answers do not starve them. A peer is
 * dialed only if its socket will not wait for us longer than AHEAD: the other side is a
 * stranger to its peer until the REQ comes.
 *
 * Pure data structure: no sockets, no clock. One thread.
 */
#ifndef TAGRV_WIREUP_WIREUP_QUEUE_H
#define TAGRV_WIREUP_WIREUP_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "wireup/conn.h"

/* One piece of work. owner: the caller, which embeds it. */
struct tagrv_wireup_job {
	struct tagrv_list node;
	enum tagrv_conn_work work;
	bool	of_sock;		/* for the caller */
};

struct tagrv_wireup_queue {
	struct tagrv_list jobs[TAGRV_CONN_WORKS];	/* by work, oldest first */
	unsigned cnt;			/* jobs that wait */
	unsigned turn;			/* jobs taken out */
	uint64_t cost;			/* ns of a job, mean of the latest */
	uint64_t spent;			/* ns in this round */
};

void tagrv_wireup_queue_init(struct tagrv_wireup_queue *queue);
void tagrv_wireup_job_init(struct tagrv_wireup_job *job);

static inline bool tagrv_wireup_job_waits(const struct tagrv_wireup_job *job)
{
	return tagrv_list_linked(&job->node);
}

/* The job waits for its turn. work is not NO_WORK. */
void tagrv_wireup_queue_push(struct tagrv_wireup_queue *queue,
			     struct tagrv_wireup_job *job,
			     enum tagrv_conn_work work);
/* The job waits no more. Does nothing if it does not wait. */
void tagrv_wireup_queue_remove(struct tagrv_wireup_queue *queue,
			       struct tagrv_wireup_job *job);
/* Removes and returns the job whose turn it is. NULL: this round has no time for it. */
struct tagrv_wireup_job *tagrv_wireup_queue_pop(struct tagrv_wireup_queue *queue);

/* A round, or its work of the queue, begins: it has its whole time. */
void tagrv_wireup_queue_begin(struct tagrv_wireup_queue *queue);
/* True: new work need not wait. */
bool tagrv_wireup_queue_is_free(const struct tagrv_wireup_queue *queue);
/* A job has taken so long, in the thread that serves the sockets. */
void tagrv_wireup_queue_ran(struct tagrv_wireup_queue *queue, uint64_t ns);
/* A job has taken so long elsewhere: the round has as much time as before. */
void tagrv_wireup_queue_cost(struct tagrv_wireup_queue *queue, uint64_t ns);
/* True: one more peer may be dialed. opening: those dialed that wait for their REQ. */
bool tagrv_wireup_queue_may_dial(const struct tagrv_wireup_queue *queue,
				 unsigned opening);

#endif
