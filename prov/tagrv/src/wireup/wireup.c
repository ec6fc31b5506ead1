/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The wireup thread: its loop, commands to it, watched descriptors.
 *
 *   caller                          thread
 *     connect, drop --cmds------->    epoll: commands, listeners, sockets,
 *     listen, unlisten,               watched descriptors, nearest timer
 *     watch, unwatch --cmds------>
 *       (wait until done)             conn.c decides, per peer
 *     poll <----- events (per endpoint), kick -----'
 *
 * Each round of the loop handles epoll events, then what workers have done (wireup_run.h),
 * then timers, then commands, then what has waited for devices (wireup_queue.h), then starts
 * to dial, and frees closed sockets last (wireup_priv.h). A timer runs only when all input that had come by its
 * time has been handled: a record that waits for this thread is not late.
 */
#include "wireup/wireup.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/log.h"
#include "core/thread.h"
#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

#define BATCH		64	/* epoll events per round */
#define STOP_WAIT	500	/* ms that closing sockets get at the end */
#define FILES_MIN	64	/* caps are not made for fewer descriptors */
#define WORKERS		4u	/* commands of devices at a time */

struct watch {
	enum tagrv_wireup_source source;
	struct tagrv_list node;
	int	fd;
	void	(*fn)(void *arg);
	void	*arg;
};

/* A command whose caller waits, on the caller's stack. */
struct sync {
	struct tagrv_wireup_msg msg;
	struct watch *watch;
	int	fd;
	int	ret;
	bool	done;		/* wireup->mutex */
};

/* -- commands in --------------------------------------------------------- */

/* Any thread. */
static void wake(void *arg)
{
	struct tagrv_wireup *wireup = arg;
	uint64_t one = 1;

	while (write(wireup->cmd_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void tagrv_wireup_push(struct tagrv_wireup *wireup,
		       struct tagrv_wireup_msg *msg)
{
	bool first;

	pthread_mutex_lock(&wireup->mutex);
	first = tagrv_list_empty(&wireup->cmds);
	tagrv_list_push_tail(&wireup->cmds, &msg->node);
	pthread_mutex_unlock(&wireup->mutex);
	/* The first command of a list wakes the thread, which takes the whole list. */
	if (first)
		wake(wireup);
}

static int run_sync(struct tagrv_wireup *wireup, struct sync *sync)
{
	tagrv_wireup_push(wireup, &sync->msg);
	pthread_mutex_lock(&wireup->mutex);
	while (!sync->done)
		pthread_cond_wait(&wireup->done, &wireup->mutex);
	pthread_mutex_unlock(&wireup->mutex);
	return sync->ret;
}

int tagrv_wireup_call(struct tagrv_wireup *wireup, enum tagrv_wireup_cmd cmd,
		      struct tagrv_wireup_ep *wep)
{
	struct sync sync = { .msg = { .cmd = cmd, .wep = wep } };

	return run_sync(wireup, &sync);
}

static void finish_sync(struct tagrv_wireup *wireup, struct sync *sync, int ret)
{
	pthread_mutex_lock(&wireup->mutex);
	sync->ret = ret;
	sync->done = true;
	pthread_cond_broadcast(&wireup->done);
	pthread_mutex_unlock(&wireup->mutex);
}

static int start_watch(struct tagrv_wireup *wireup, struct watch *watch)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = watch };

	if (epoll_ctl(wireup->epfd, EPOLL_CTL_ADD, watch->fd, &ev))
		return errno == ENOMEM || errno == ENOSPC ? -FI_ENOMEM :
							    -FI_EINVAL;
	tagrv_list_push_tail(&wireup->watches, &watch->node);
	return 0;
}

static void stop_watch(struct tagrv_wireup *wireup, int fd)
{
	struct tagrv_list *node, *tmp;

	tagrv_list_for_each_safe(&wireup->watches, node, tmp) {
		struct watch *watch =
			tagrv_container_of(node, struct watch, node);

		if (watch->fd != fd)
			continue;
		(void) epoll_ctl(wireup->epfd, EPOLL_CTL_DEL, fd, NULL);
		tagrv_list_remove(node);
		free(watch);
	}
}

static void run_cmd(struct tagrv_wireup *wireup, struct tagrv_wireup_msg *msg)
{
	struct sync *sync = tagrv_container_of(msg, struct sync, msg);
	int ret = 0;

	switch ((enum tagrv_wireup_cmd) msg->cmd) {
	case TAGRV_WIREUP_CONNECT:
		tagrv_wireup_peer_connect(msg);
		return;
	case TAGRV_WIREUP_DROP:
		tagrv_wireup_peer_drop(msg);
		return;
	case TAGRV_WIREUP_RENEW:
		tagrv_wireup_peer_renew(msg);
		return;
	case TAGRV_WIREUP_LISTEN:
		ret = tagrv_wireup_ep_start(msg->wep);
		break;
	case TAGRV_WIREUP_UNLISTEN:
		msg->wep->stop = msg;
		if (msg->wep->running)
			return;		/* it is run again when they are finished */
		tagrv_wireup_ep_stop(msg->wep);
		break;
	case TAGRV_WIREUP_WATCH_FD:
		ret = start_watch(wireup, sync->watch);
		break;
	case TAGRV_WIREUP_UNWATCH_FD:
		stop_watch(wireup, sync->fd);
		break;
	case TAGRV_WIREUP_STOP:
		wireup->stop_by = wireup->now + STOP_WAIT;
		break;
	}
	finish_sync(wireup, sync, ret);
}

void tagrv_wireup_run_msg(struct tagrv_wireup_msg *msg)
{
	run_cmd(msg->wep->wireup, msg);
}

static void run_cmds(struct tagrv_wireup *wireup)
{
	struct tagrv_list cmds, *node;

	tagrv_list_init(&cmds);
	pthread_mutex_lock(&wireup->mutex);
	tagrv_list_splice_tail(&cmds, &wireup->cmds);
	pthread_mutex_unlock(&wireup->mutex);
	while ((node = tagrv_list_pop(&cmds)) != NULL)
		run_cmd(wireup, tagrv_container_of(node,
						   struct tagrv_wireup_msg,
						   node));
}

/* -- the thread ---------------------------------------------------------- */

static int wait_ms(struct tagrv_wireup *wireup)
{
	int wait = tagrv_wireup_timer_wait(&wireup->timers, wireup->now);
	int work = tagrv_wireup_admit_wait(wireup);

	if (!tagrv_list_empty(&wireup->dead))
		return 0;
	if (work >= 0 && (wait < 0 || wait > work))
		wait = work;
	if (wireup->stop_by && (wait < 0 || wait > STOP_WAIT))
		return STOP_WAIT;
	return wait;
}

/* Handles one epoll event. True: the event says that there are commands. */
static bool dispatch(struct tagrv_wireup *wireup, const struct epoll_event *ev)
{
	void *ptr = ev->data.ptr;

	switch (*(enum tagrv_wireup_source *) ptr) {
	case TAGRV_WIREUP_COMMANDS:
		return true;
	case TAGRV_WIREUP_LISTENER:
		tagrv_wireup_sock_accept(ptr);
		break;
	case TAGRV_WIREUP_SOCK:
		tagrv_wireup_sock_event(ptr, ev->events);
		break;
	case TAGRV_WIREUP_WATCH: {
		const struct watch *watch = ptr;

		watch->fn(watch->arg);
		/* epoll would report a broken descriptor in every round. */
		if (ev->events & (EPOLLERR | EPOLLHUP))
			(void) epoll_ctl(wireup->epfd, EPOLL_CTL_DEL, watch->fd,
					 NULL);
		break;
	}
	}
	return false;
}

static bool is_finished(const struct tagrv_wireup *wireup)
{
	return wireup->stop_by && (tagrv_list_empty(&wireup->lingers) ||
				   wireup->now >= wireup->stop_by);
}

/*
 * Waits for epoll events and handles them, until there are no more; each socket has had
 * its turn then. Returns the time (ms) by which all that is handled had come.
 */
static uint64_t handle_events(struct tagrv_wireup *wireup, bool *cmds)
{
	size_t rounds = wireup->socks / BATCH + 2;
	int cnt, wait = wait_ms(wireup);
	struct epoll_event evs[BATCH];
	uint64_t seen;

	tagrv_wireup_queue_begin(&wireup->queue);
	do {
		cnt = epoll_wait(wireup->epfd, evs, BATCH, wait);
		tagrv_wireup_clock_waited(wireup, wait);
		seen = wireup->now;
		for (int i = 0; i < cnt; i++) {
			*cmds |= dispatch(wireup, &evs[i]);
			tagrv_wireup_clock_worked(wireup);
		}
		wait = 0;
	} while (cnt == BATCH && --rounds);
	return seen;
}

static void *thread_main(void *arg)
{
	struct tagrv_wireup *wireup = arg;

	while (!is_finished(wireup)) {
		bool cmds = false;
		uint64_t seen = handle_events(wireup, &cmds), count;

		/* First: what comes from now on, of either kind, wakes this thread again. */
		if (cmds)
			(void) !read(wireup->cmd_fd, &count, sizeof(count));
		tagrv_wireup_run_resume(wireup);
		tagrv_wireup_timer_run(&wireup->timers, seen);
		if (cmds)
			run_cmds(wireup);
		tagrv_wireup_admit_run(wireup);
		tagrv_wireup_peer_expire(wireup);
		tagrv_wireup_peer_dial_more(wireup);
		tagrv_wireup_sock_free_dead(wireup);
		tagrv_wireup_clock_worked(wireup);
	}
	while (!tagrv_list_empty(&wireup->lingers))
		tagrv_wireup_sock_close(
			tagrv_container_of(tagrv_list_first(&wireup->lingers),
					   struct tagrv_wireup_sock, node));
	tagrv_wireup_sock_free_dead(wireup);
	return NULL;
}

/* -- public --------------------------------------------------------------- */

/* Shares of the file descriptors that the process may open (RLIMIT_NOFILE). */
static void set_caps(struct tagrv_wireup_caps *caps)
{
	struct rlimit limit;
	size_t files = 1 << 20;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < files)
		files = TAGRV_MAX((size_t) limit.rlim_cur, (size_t) FILES_MIN);
	caps->socks = files / 2;
	caps->accepts = files / 2 + files / 8;
	caps->strangers = (unsigned) TAGRV_MIN(files / 16, (size_t) 256);
	caps->dials = (unsigned) TAGRV_MIN(files / 16, (size_t) 64);
}

static int open_fds(struct tagrv_wireup *wireup)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = wireup };
	int ret;

	wireup->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (wireup->epfd < 0)
		return tagrv_wireup_net_error(errno);
	wireup->cmd_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wireup->cmd_fd < 0) {
		ret = tagrv_wireup_net_error(errno);
		goto close_epfd;
	}
	if (epoll_ctl(wireup->epfd, EPOLL_CTL_ADD, wireup->cmd_fd, &ev)) {
		ret = -FI_ENOMEM;
		goto close_cmd_fd;
	}
	return 0;

close_cmd_fd:
	close(wireup->cmd_fd);
close_epfd:
	close(wireup->epfd);
	return ret;
}

static void close_fds(struct tagrv_wireup *wireup)
{
	close(wireup->cmd_fd);
	close(wireup->epfd);
}

int tagrv_wireup_create(struct tagrv_wireup **wireup)
{
	struct tagrv_wireup *out = calloc(1, sizeof(*out));
	int ret;

	if (!out)
		return -FI_ENOMEM;
	ret = open_fds(out);
	if (ret)
		goto free_out;
	out->commands = TAGRV_WIREUP_COMMANDS;
	tagrv_wireup_clock_init(out);
	set_caps(&out->caps);
	pthread_mutex_init(&out->mutex, NULL);
	pthread_cond_init(&out->done, NULL);
	tagrv_list_init(&out->cmds);
	tagrv_list_init(&out->dials);
	tagrv_list_init(&out->urgent);
	tagrv_list_init(&out->lingers);
	tagrv_list_init(&out->silents);
	tagrv_list_init(&out->greeters);
	tagrv_list_init(&out->bounds);
	tagrv_list_init(&out->dead);
	tagrv_list_init(&out->watches);
	tagrv_list_init(&out->tells);
	tagrv_list_init(&out->ended);
	tagrv_wireup_queue_init(&out->queue);
	tagrv_wireup_crew_init(&out->crew, WORKERS, wake, out);
	if (tagrv_thread_start(&out->thread, "tagrv-wireup", thread_main, out)) {
		ret = -FI_ENOMEM;
		goto close_out;
	}
	*wireup = out;
	return 0;

close_out:
	tagrv_wireup_crew_fini(&out->crew);
	pthread_cond_destroy(&out->done);
	pthread_mutex_destroy(&out->mutex);
	close_fds(out);
free_out:
	free(out);
	return ret;
}

void tagrv_wireup_destroy(struct tagrv_wireup *wireup)
{
	struct tagrv_list *node;

	if (!wireup)
		return;
	tagrv_wireup_call(wireup, TAGRV_WIREUP_STOP, NULL);
	pthread_join(wireup->thread, NULL);
	tagrv_wireup_crew_fini(&wireup->crew);
	while ((node = tagrv_list_pop(&wireup->watches)) != NULL)
		free(tagrv_container_of(node, struct watch, node));
	tagrv_wireup_timer_fini(&wireup->timers);
	pthread_cond_destroy(&wireup->done);
	pthread_mutex_destroy(&wireup->mutex);
	close_fds(wireup);
	tagrv_wireup_free_own(wireup);
	free(wireup);
}

int tagrv_wireup_watch(struct tagrv_wireup *wireup, int fd,
		       void (*fn)(void *arg), void *arg)
{
	struct sync sync = { .msg.cmd = TAGRV_WIREUP_WATCH_FD };
	int ret;

	sync.watch = calloc(1, sizeof(*sync.watch));
	if (!sync.watch)
		return -FI_ENOMEM;
	*sync.watch = (struct watch) {
		.source = TAGRV_WIREUP_WATCH,
		.fd = fd,
		.fn = fn,
		.arg = arg,
	};
	ret = run_sync(wireup, &sync);
	if (ret)
		free(sync.watch);
	return ret;
}

void tagrv_wireup_unwatch(struct tagrv_wireup *wireup, int fd)
{
	struct sync sync = { .msg.cmd = TAGRV_WIREUP_UNWATCH_FD, .fd = fd };

	run_sync(wireup, &sync);
}
