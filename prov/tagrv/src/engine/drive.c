/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Driving a domain: see drive.h.
 */
#include "engine/drive.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/thread.h"
#include "engine/dump.h"
#include "engine/endpoint.h"
#include "engine/show.h"
#include "object/engine.h"
#include "object/tags.h"

/* Longest sleep of the progress thread: bounds the delay of what no event
 * announces. */
#define THREAD_SLEEP_MS	100

/* Longest sleep where old operations are to be dumped: a tick. */
#define DUMP_SLEEP_MS	1000

static struct tagrv_engine *engine_of(struct tagrv_list *dom_node)
{
	return tagrv_container_of(dom_node, struct tagrv_engine, dom_node);
}

/* Adapters need no processor, and a short wait is not worth a system call. */
static bool needs_cpu(struct tagrv_dom *dom)
{
	struct tagrv_list *node;

	tagrv_list_for_each(&dom->engines, node)
		if (tagrv_rails_need_cpu(&engine_of(node)->rails))
			return true;
	return false;
}

/*
 * Nothing has come for long. Where processors are scarce, passes are few from here on: a
 * viewer that has asked shall not wait for many of them.
 */
static TAGRV_COLD void run_out_of_patience(struct tagrv_dom *dom)
{
	tagrv_dom_tick(dom);
	if (tagrv_patience_may_yield(&dom->patience, tagrv_clock_ns()) && needs_cpu(dom))
		dom->give_way = true;
}

/* looks: those of which this pass is one. */
static void count_looks(struct tagrv_dom *dom, uint32_t looks, int events)
{
	tagrv_patience_pass(&dom->patience);
	if (events)
		dom->patience.looks = 0;
	else if (TAGRV_UNLIKELY(tagrv_patience_is_out(&dom->patience, looks)))
		run_out_of_patience(dom);
}

static int make_pass(struct tagrv_dom *dom, uint32_t looks)
{
	struct tagrv_list *node;
	int events = 0;

	tagrv_assert_locked(dom);
	tagrv_watch_begin_pass(&dom->watch);
	tagrv_list_for_each(&dom->engines, node)
		events += tagrv_engine_progress(engine_of(node));
	count_looks(dom, looks, events);
	if (TAGRV_UNLIKELY(dom->clock.tick != dom->clock.checked)) {
		dom->clock.checked = dom->clock.tick;
		tagrv_dom_check_age(dom);
		tagrv_dom_show(dom);
	}
	tagrv_dom_free_invalidated(dom);
	return events;
}

int tagrv_dom_progress(struct tagrv_dom *dom)
{
	return make_pass(dom, 1);
}

int tagrv_dom_pass_for_look(struct tagrv_dom *dom)
{
	/* Mostly the last one of so many. */
	return make_pass(dom, dom->watch.unlisted ? 1 : TAGRV_WATCH_LOOKS);
}

int tagrv_dom_serve(struct tagrv_dom *dom)
{
	struct tagrv_list *node;
	int more = 0;

	tagrv_assert_locked(dom);
	dom->to_serve = false;
	tagrv_list_for_each(&dom->engines, node)
		more += tagrv_engine_serve(engine_of(node));
	return more;
}

static int arm_engine(struct tagrv_engine *engine)
{
	/* Peers need not return credit: the application repeats, and is not refused. */
	if (TAGRV_UNLIKELY(engine->tx.no_credit)) {
		engine->tx.no_credit = false;
		engine->tx.arms++;
		return -FI_EAGAIN;
	}
	/* Events are requested first and looked for second, so that none which
	 * comes in between is missed. */
	if (tagrv_rails_arm(&engine->rails))
		return -FI_EAGAIN;
	if (engine->conn.due & TAGRV_DUE_ENDS)
		return -FI_EAGAIN;
	/* Rails without connections, too. */
	if (tagrv_rails_poll_all(&engine->rails))
		return -FI_EAGAIN;
	if (tagrv_engine_progress(engine))
		return -FI_EAGAIN;
	return engine->tags && tagrv_tags_is_busy(engine->tags) ? -FI_EAGAIN : 0;
}

int tagrv_dom_arm(struct tagrv_dom *dom)
{
	struct tagrv_list *node;
	uint64_t count;

	tagrv_assert_locked(dom);
	/* A caller that sleeps makes too few passes for the tick of a pass. */
	tagrv_dom_tick(dom);
	/* Emptied before the queues are looked at, so no kick is missed. */
	if (read(dom->kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return -FI_EAGAIN;
	tagrv_list_for_each(&dom->engines, node) {
		int ret = arm_engine(engine_of(node));

		if (ret)
			return ret;
	}
	tagrv_dom_show_before_sleep(dom);
	return 0;
}

int tagrv_dom_sleep(struct tagrv_dom *dom, int extra_fd, int timeout)
{
	struct pollfd fds[2] = {
		{ .fd = dom->wait_fd, .events = POLLIN },
		{ .fd = extra_fd, .events = POLLIN },
	};
	int ret;

	assert(!tagrv_lock_is_mine(&dom->lock));
	if (tagrv_dom_dumps(dom) &&
	    (timeout < 0 || timeout > DUMP_SLEEP_MS))
		timeout = DUMP_SLEEP_MS;
	ret = poll(fds, 2, timeout);
	return ret < 0 ? -errno : ret;
}

#define REFUSALS_LOOK	64u

void tagrv_engine_note_refusal(struct tagrv_engine *engine)
{
	tagrv_assert_locked(engine->dom);
	if (!(++engine->tx.refusals % REFUSALS_LOOK))
		tagrv_dom_look(engine->dom);
}

bool tagrv_dom_progress_until(struct tagrv_dom *dom, bool (*holds)(void *arg),
			      void *arg, uint64_t ms)
{
	uint64_t end = tagrv_clock_ms() + ms;
	bool ok;

	do {
		int events;

		tagrv_dom_lock(dom);
		/* All endpoints: a wake-up taken here may be for another one. */
		events = tagrv_dom_progress(dom);
		ok = holds(arg);
		if (!ok && !events)
			events = tagrv_dom_arm(dom);
		tagrv_dom_unlock(dom);
		if (!ok && !events)
			tagrv_dom_sleep(dom, -1, 10);
	} while (!ok && tagrv_clock_ms() < end);
	return ok;
}

/* ---- the progress thread ---- */

static void *progress_thread(void *arg)
{
	struct tagrv_dom *dom = arg;
	bool stop, idle;

	do {
		tagrv_dom_lock(dom);
		idle = !tagrv_dom_progress(dom) && !tagrv_dom_arm(dom);
		stop = dom->stop;
		tagrv_dom_unlock(dom);
		if (idle && !stop)
			tagrv_dom_sleep(dom, -1, THREAD_SLEEP_MS);
	} while (!stop);
	return NULL;
}

int tagrv_dom_start(struct tagrv_dom *dom)
{
	if (!dom->auto_progress)
		return 0;
	return tagrv_thread_start(&dom->thread, "tagrv-progress",
				  progress_thread, dom);
}

void tagrv_dom_stop(struct tagrv_dom *dom)
{
	if (!dom->auto_progress)
		return;
	tagrv_dom_lock(dom);
	dom->stop = true;
	tagrv_lock_release(&dom->lock);
	tagrv_dom_kick(dom);
	pthread_join(dom->thread, NULL);
}
