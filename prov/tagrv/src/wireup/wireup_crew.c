/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that wait for slow commands in the place of the wireup thread: see wireup_crew.h.
 */
#include "wireup/wireup_crew.h"

#include <stdlib.h>

#include "core/log.h"
#include "core/thread.h"

struct tagrv_wireup_worker {
	struct tagrv_list node;		/* on crew->idle or ready */
	struct tagrv_wireup_crew *crew;
	pthread_t thread;
	pthread_cond_t turn;		/* 'floor' was set, or crew->stop */
	bool	floor;
	void	(*fn)(struct tagrv_wireup_worker *worker, void *arg);
	void	*arg;
};

/* -- the worker; crew->mutex is held unless a comment says otherwise ----------- */

static void await_floor(struct tagrv_wireup_worker *worker)
{
	while (!worker->floor && !worker->crew->stop)
		pthread_cond_wait(&worker->turn, &worker->crew->mutex);
}

static void give_floor(struct tagrv_wireup_worker *worker)
{
	worker->floor = false;
	pthread_cond_signal(&worker->crew->back);
}

static void *worker_main(void *arg)
{
	struct tagrv_wireup_worker *worker = arg;
	struct tagrv_wireup_crew *crew = worker->crew;

	pthread_mutex_lock(&crew->mutex);
	for (;;) {
		await_floor(worker);
		if (!worker->floor)
			break;
		pthread_mutex_unlock(&crew->mutex);
		worker->fn(worker, worker->arg);
		pthread_mutex_lock(&crew->mutex);
		tagrv_list_push_head(&crew->idle, &worker->node);
		crew->busy--;
		give_floor(worker);
	}
	pthread_mutex_unlock(&crew->mutex);
	return NULL;
}

/* The mutex is not held. */
void tagrv_wireup_crew_leave(struct tagrv_wireup_worker *worker)
{
	pthread_mutex_lock(&worker->crew->mutex);
	give_floor(worker);
	pthread_mutex_unlock(&worker->crew->mutex);
}

/* The mutex is not held. */
void tagrv_wireup_crew_enter(struct tagrv_wireup_worker *worker)
{
	struct tagrv_wireup_crew *crew = worker->crew;
	bool first;

	pthread_mutex_lock(&crew->mutex);
	first = tagrv_list_empty(&crew->ready);
	tagrv_list_push_tail(&crew->ready, &worker->node);
	/* The owner sees all that are ready when it looks. */
	if (first)
		crew->kick(crew->arg);
	await_floor(worker);
	pthread_mutex_unlock(&crew->mutex);
}

/* -- the owner ----------------------------------------------------------------- */

static void let_run(struct tagrv_wireup_crew *crew, struct tagrv_wireup_worker *worker)
{
	worker->floor = true;
	pthread_cond_signal(&worker->turn);
	while (worker->floor)
		pthread_cond_wait(&crew->back, &crew->mutex);
}

/* NULL: there is no memory, or a limit of threads is reached. */
static struct tagrv_wireup_worker *start(struct tagrv_wireup_crew *crew)
{
	struct tagrv_wireup_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	worker->crew = crew;
	tagrv_list_init(&worker->node);
	pthread_cond_init(&worker->turn, NULL);
	if (tagrv_thread_start(&worker->thread, "tagrv-command", worker_main, worker)) {
		pthread_cond_destroy(&worker->turn);
		free(worker);
		return NULL;
	}
	crew->cnt++;
	return worker;
}

static struct tagrv_wireup_worker *find(struct tagrv_wireup_crew *crew)
{
	struct tagrv_list *node = tagrv_list_pop(&crew->idle);
	struct tagrv_wireup_worker *worker;

	if (node)
		return tagrv_container_of(node, struct tagrv_wireup_worker, node);
	if (crew->cnt >= crew->max)
		return NULL;
	worker = start(crew);
	if (!worker) {
		tagrv_info("wireup: no further thread can be started; %u wait for "
			   "commands of devices\n", crew->cnt);
		crew->max = crew->cnt;
	}
	return worker;
}

void tagrv_wireup_crew_limit(struct tagrv_wireup_crew *crew, unsigned max)
{
	pthread_mutex_lock(&crew->mutex);
	crew->max = max;
	pthread_mutex_unlock(&crew->mutex);
}

bool tagrv_wireup_crew_exists(struct tagrv_wireup_crew *crew)
{
	bool exists;

	pthread_mutex_lock(&crew->mutex);
	exists = crew->max > 0;
	pthread_mutex_unlock(&crew->mutex);
	return exists;
}

bool tagrv_wireup_crew_has_room(struct tagrv_wireup_crew *crew)
{
	bool has_room;

	pthread_mutex_lock(&crew->mutex);
	has_room = crew->busy < crew->max;
	pthread_mutex_unlock(&crew->mutex);
	return has_room;
}

unsigned tagrv_wireup_crew_busy(struct tagrv_wireup_crew *crew)
{
	unsigned busy;

	pthread_mutex_lock(&crew->mutex);
	busy = crew->busy;
	pthread_mutex_unlock(&crew->mutex);
	return busy;
}

bool tagrv_wireup_crew_run(struct tagrv_wireup_crew *crew,
			   void (*fn)(struct tagrv_wireup_worker *worker, void *arg),
			   void *arg)
{
	struct tagrv_wireup_worker *worker;

	pthread_mutex_lock(&crew->mutex);
	worker = find(crew);
	if (worker) {
		crew->busy++;
		worker->fn = fn;
		worker->arg = arg;
		let_run(crew, worker);
	}
	pthread_mutex_unlock(&crew->mutex);
	return worker != NULL;
}

void tagrv_wireup_crew_resume(struct tagrv_wireup_crew *crew)
{
	struct tagrv_list ready, *node;

	tagrv_list_init(&ready);
	pthread_mutex_lock(&crew->mutex);
	tagrv_list_splice_tail(&ready, &crew->ready);
	while ((node = tagrv_list_pop(&ready)) != NULL)
		let_run(crew, tagrv_container_of(node, struct tagrv_wireup_worker, node));
	pthread_mutex_unlock(&crew->mutex);
}

void tagrv_wireup_crew_init(struct tagrv_wireup_crew *crew, unsigned max,
			    void (*kick)(void *arg), void *arg)
{
	*crew = (struct tagrv_wireup_crew) { .max = max, .kick = kick, .arg = arg };
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_cond_init(&crew->back, NULL);
	tagrv_list_init(&crew->idle);
	tagrv_list_init(&crew->ready);
}

void tagrv_wireup_crew_fini(struct tagrv_wireup_crew *crew)
{
	struct tagrv_wireup_worker *worker;
	struct tagrv_list *node;

	assert(!crew->busy);
	pthread_mutex_lock(&crew->mutex);
	crew->stop = true;
	tagrv_list_for_each(&crew->idle, node) {
		worker = tagrv_container_of(node, struct tagrv_wireup_worker, node);
		pthread_cond_signal(&worker->turn);
	}
	pthread_mutex_unlock(&crew->mutex);
	while ((node = tagrv_list_pop(&crew->idle)) != NULL) {
		worker = tagrv_container_of(node, struct tagrv_wireup_worker, node);
		pthread_join(worker->thread, NULL);
		pthread_cond_destroy(&worker->turn);
		free(worker);
	}
	pthread_cond_destroy(&crew->back);
	pthread_mutex_destroy(&crew->mutex);
}
