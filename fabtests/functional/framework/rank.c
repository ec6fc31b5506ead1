/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The part of the runner inside a rank: reports to the runner, meets other ranks.
 */
#include "runner.h"
#include "runner_priv.h"
#include "common/slowness.h"

#include <poll.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Set once, by rank_enter(). */
static struct test *current;

/* Several threads of a rank may report. */
static pthread_mutex_t reporting = PTHREAD_MUTEX_INITIALIZER;

void rank_enter(struct test *t)
{
	current = t;
	run_phase("started");
}

int64_t run_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t run_slow_ms(int ms)
{
	return slow_ms((unsigned)ms);
}

static struct run_rank *me(void)
{
	return &current->shared->rank[current->rank];
}

void run_step(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	pthread_mutex_lock(&reporting);
	vsnprintf(me()->step, sizeof(me()->step), fmt, ap);
	pthread_mutex_unlock(&reporting);
	va_end(ap);
	run_moved();
}

void run_phase(const char *phase)
{
	pthread_mutex_lock(&reporting);
	snprintf(me()->phase, sizeof(me()->phase), "%s", phase);
	pthread_mutex_unlock(&reporting);
	run_moved();
}

void run_moved(void)
{
	atomic_fetch_add_explicit(&me()->moves, 1, memory_order_relaxed);
}

void run_tell(const char *stats, bool moved)
{
	pthread_mutex_lock(&reporting);
	snprintf(me()->stats, sizeof(me()->stats), "%s", stats);
	pthread_mutex_unlock(&reporting);
	if (moved)
		run_moved();
}

static _Noreturn void fail(const char *file, int line, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static _Noreturn void fail(const char *file, int line, const char *fmt, va_list ap)
{
	const char *slash = strrchr(file, '/');
	char text[RUN_TEXT_MAX - 80];

	vsnprintf(text, sizeof(text), fmt, ap);
	/* Stays locked: the first failure ends the process. */
	pthread_mutex_lock(&reporting);
	snprintf(me()->why, sizeof(me()->why), "%s (%.60s:%d)", text, slash ? slash + 1 : file,
		 line);
	atomic_store(&me()->failed_at, run_now());
	_exit(RUN_EXIT_FAILED);
}

void run_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(file, line, fmt, ap);
}

bool run_is_given_up(void)
{
	return atomic_load_explicit(&current->shared->given_up, memory_order_relaxed);
}

void run_check_moves(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	if (!run_is_given_up())
		return;
	va_start(ap, fmt);
	fail(file, line, fmt, ap);
}

void run_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	pthread_mutex_lock(&reporting);
	vsnprintf(me()->why, sizeof(me()->why), fmt, ap);
	va_end(ap);
	_exit(RUN_EXIT_SKIPPED);
}

void run_need_processes(const struct test *t)
{
	if (t->opt->together)
		run_skip("needs more than one process");
}

void run_ok(const char *file, int line, const char *call, long ret)
{
	if (ret)
		run_fail(file, line, "%s: %ld (%s)", call, ret, fi_strerror((int)-ret));
}

void run_error(const char *file, int line, const char *call, long ret, long want)
{
	if (ret != want)
		run_fail(file, line, "%s: %ld (%s), want %ld (%s)", call, ret,
			 ret < 0 ? fi_strerror((int)-ret) : "success", want,
			 fi_strerror((int)-want));
}

static bool readable(int fd, int timeout)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, timeout) > 0;
}

static void await_others(struct test *t, run_idle_fn idle, void *arg)
{
	while (!readable(t->hub, idle ? 0 : 100)) {
		if (idle)
			idle(arg);
		CHECK_MOVES("the other ranks do not come");
	}
}

void run_exchange(struct test *t, const void *mine, size_t len, struct run_gathered *all,
		  run_idle_fn idle, void *arg)
{
	struct run_gathered unused;
	struct run_blob blob = { .len = (uint32_t)len };

	CHECK(len <= sizeof(blob.data), "a blob of %zu bytes is too large to exchange", len);
	if (len)
		memcpy(blob.data, mine, len);
	CHECK(send(t->hub, &blob, sizeof(blob), MSG_NOSIGNAL) == sizeof(blob), "the runner is gone");
	run_moved();
	await_others(t, idle, arg);
	if (!all)
		all = &unused;
	CHECK(recv(t->hub, all, sizeof(*all), 0) == sizeof(*all), "the runner is gone");
}

void run_barrier(struct test *t)
{
	run_exchange(t, NULL, 0, NULL, NULL, NULL);
}

void run_kill(struct test *t, int rank, enum run_death death)
{
	struct run_rank *victim = &t->shared->rank[rank];

	run_need_processes(t);
	atomic_store(&victim->death, death);
	kill(atomic_load(&victim->pid), SIGKILL);
	while (rank == t->rank)
		pause();
}
