/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The order of the work for devices: see wireup_queue.h.
 */
#include "wireup/wireup_queue.h"

#define SLICE		UINT64_C(10000000)	/* ns of work per round */
#define AHEAD		UINT64_C(1000000000)	/* ns of work that a new offer may wait for */
#define OFFER_TURN	4u
#define COST_FIRST	UINT64_C(30000000)	/* ns of a job, before any was measured */

void tagrv_wireup_queue_init(struct tagrv_wireup_queue *queue)
{
	*queue = (struct tagrv_wireup_queue) { .cost = COST_FIRST };
	for (int i = 0; i < TAGRV_CONN_WORKS; i++)
		tagrv_list_init(&queue->jobs[i]);
}

void tagrv_wireup_job_init(struct tagrv_wireup_job *job)
{
	tagrv_list_init(&job->node);
	job->work = TAGRV_CONN_NO_WORK;
}

void tagrv_wireup_queue_push(struct tagrv_wireup_queue *queue,
			     struct tagrv_wireup_job *job,
			     enum tagrv_conn_work work)
{
	assert(work != TAGRV_CONN_NO_WORK && !tagrv_wireup_job_waits(job));
	job->work = work;
	tagrv_list_push_tail(&queue->jobs[work], &job->node);
	queue->cnt++;
}

void tagrv_wireup_queue_remove(struct tagrv_wireup_queue *queue,
			       struct tagrv_wireup_job *job)
{
	if (!tagrv_wireup_job_waits(job))
		return;
	tagrv_list_remove(&job->node);
	queue->cnt--;
}

static struct tagrv_list *next_of(const struct tagrv_wireup_queue *queue)
{
	struct tagrv_list *offer = tagrv_list_first(&queue->jobs[TAGRV_CONN_OFFER]);
	struct tagrv_list *node;

	if (offer && queue->turn % OFFER_TURN == OFFER_TURN - 1)
		return offer;
	node = tagrv_list_first(&queue->jobs[TAGRV_CONN_FINISH]);
	if (!node)
		node = tagrv_list_first(&queue->jobs[TAGRV_CONN_RESPOND]);
	return node ? node : offer;
}

struct tagrv_wireup_job *tagrv_wireup_queue_pop(struct tagrv_wireup_queue *queue)
{
	struct tagrv_wireup_job *job;

	if (!queue->cnt || queue->spent >= SLICE)
		return NULL;
	job = tagrv_container_of(next_of(queue), struct tagrv_wireup_job, node);
	queue->turn++;
	tagrv_wireup_queue_remove(queue, job);
	return job;
}

void tagrv_wireup_queue_begin(struct tagrv_wireup_queue *queue)
{
	queue->spent = 0;
}

bool tagrv_wireup_queue_is_free(const struct tagrv_wireup_queue *queue)
{
	return !queue->cnt && queue->spent < SLICE;
}

void tagrv_wireup_queue_cost(struct tagrv_wireup_queue *queue, uint64_t ns)
{
	queue->cost = queue->cost - queue->cost / 8 + ns / 8;
}

void tagrv_wireup_queue_ran(struct tagrv_wireup_queue *queue, uint64_t ns)
{
	queue->spent += ns;
	tagrv_wireup_queue_cost(queue, ns);
}

bool tagrv_wireup_queue_may_dial(const struct tagrv_wireup_queue *queue,
				 unsigned opening)
{
	return !opening || (queue->cnt + opening) * queue->cost < AHEAD;
}
