/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of state machines in workers: see wireup_run.h.
 */
#include "wireup/wireup_run.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "wireup/wireup_peer.h"

/* -- commands --------------------------------------------------------------------- */

static struct tagrv_wireup_ep *wep_of(const struct tagrv_conn *conn)
{
	return tagrv_container_of(conn->host, struct tagrv_wireup_ep, host);
}

/* Links to processes of this host are made in no time. */
static bool is_fast(const struct tagrv_xport *xport)
{
	return xport->attr.caps & TAGRV_XPORT_LOCAL;
}

void tagrv_wireup_run_leave(struct tagrv_conn *conn, const struct tagrv_xport *xport)
{
	struct tagrv_wireup *wireup = wep_of(conn)->wireup;
	struct tagrv_wireup_run *run = wireup->run;

	if (!run || is_fast(xport))
		return;
	tagrv_wireup_peer_set_busy(conn, run);
	wireup->run = NULL;
	tagrv_wireup_crew_leave(run->worker);
}

void tagrv_wireup_run_enter(struct tagrv_conn *conn, const struct tagrv_xport *xport)
{
	struct tagrv_wireup_run *run = tagrv_wireup_peer_run(conn);

	if (!run || is_fast(xport))
		return;
	tagrv_wireup_crew_enter(run->worker);
	run->wep->wireup->run = run;
}

/* -- begin and end ---------------------------------------------------------------- */

static void run_main(struct tagrv_wireup_worker *worker, void *arg)
{
	struct tagrv_wireup_run *run = arg;
	struct tagrv_wireup *wireup = run->wep->wireup;

	run->worker = worker;
	wireup->run = run;
	if (!run->sock)
		tagrv_wireup_peer_offer(run->wep, &run->addr);
	else if (run->rec)
		tagrv_wireup_peer_handle(run->sock, run->rec);
	else
		tagrv_wireup_peer_use(run->sock);
	wireup->run = NULL;
	tagrv_list_push_tail(&wireup->ended, &run->node);
}

static struct tagrv_wireup_run *new_run(struct tagrv_wireup_ep *wep)
{
	struct tagrv_wireup_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->wep = wep;
	run->begin = tagrv_clock_ns();
	tagrv_list_init(&run->node);
	tagrv_list_init(&run->msgs);
	tagrv_list_init(&run->socks);
	return run;
}

static bool start(struct tagrv_wireup_run *run)
{
	if (tagrv_wireup_crew_run(&run->wep->wireup->crew, run_main, run)) {
		run->wep->running++;
		return true;
	}
	if (run->sock)
		run->sock->run = NULL;
	free(run);
	return false;
}

bool tagrv_wireup_run_start(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup_run *run = new_run(sock->wep);

	if (!run)
		return false;
	run->sock = sock;
	run->rec = rec;
	sock->run = run;
	return start(run);
}

bool tagrv_wireup_run_offer(struct tagrv_wireup_ep *wep, const struct tagrv_addr *addr)
{
	struct tagrv_wireup_run *run = new_run(wep);

	if (!run)
		return false;
	run->addr = *addr;
	return start(run);
}

/* The mean time of a job, as long as so many are at work. */
static void count(struct tagrv_wireup *wireup, const struct tagrv_wireup_run *run)
{
	unsigned busy = tagrv_wireup_crew_busy(&wireup->crew) + 1;

	tagrv_wireup_queue_cost(&wireup->queue, (tagrv_clock_ns() - run->begin) / busy);
}

/* The endpoint is to be closed: nothing that waits is of use. */
static void drop_kept(struct tagrv_wireup_run *run)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&run->msgs)) != NULL)
		free(tagrv_container_of(node, struct tagrv_wireup_msg, node));
	while (tagrv_list_pop(&run->socks) != NULL)
		;
}

static void handle_kept(struct tagrv_wireup_run *run)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&run->msgs)) != NULL)
		tagrv_wireup_run_msg(tagrv_container_of(node, struct tagrv_wireup_msg,
							node));
	while ((node = tagrv_list_pop(&run->socks)) != NULL)
		tagrv_wireup_run_unstall(tagrv_container_of(node, struct tagrv_wireup_sock,
							    stall_node));
}

static void finish(struct tagrv_wireup *wireup, struct tagrv_wireup_run *run)
{
	struct tagrv_wireup_ep *wep = run->wep;
	struct tagrv_wireup_sock *sock = run->sock;

	count(wireup, run);
	if (sock) {
		sock->run = NULL;
		tagrv_list_remove(&sock->tell_node);
		if (sock->stalled && !tagrv_list_linked(&sock->stall_node))
			tagrv_list_push_head(&run->socks, &sock->stall_node);
	}
	if (wep->stop)
		drop_kept(run);
	else
		handle_kept(run);
	free(run->rec);
	free(run);
	wep->running--;
	if (wep->stop && !wep->running)
		tagrv_wireup_run_msg(wep->stop);
}

void tagrv_wireup_run_resume(struct tagrv_wireup *wireup)
{
	struct tagrv_list *node;

	tagrv_wireup_crew_resume(&wireup->crew);
	while ((node = tagrv_list_pop(&wireup->ended)) != NULL)
		finish(wireup, tagrv_container_of(node, struct tagrv_wireup_run, node));
}

/* -- what is kept ----------------------------------------------------------------- */

struct tagrv_wireup_run *tagrv_wireup_run_of(const struct tagrv_wireup_sock *sock)
{
	if (sock->run)
		return sock->run;
	return sock->chan.conn ? tagrv_wireup_peer_run(sock->chan.conn) : NULL;
}

static void keep_sock(struct tagrv_wireup_run *run, struct tagrv_wireup_sock *sock)
{
	if (!tagrv_list_linked(&sock->stall_node))
		tagrv_list_push_tail(&run->socks, &sock->stall_node);
}

void tagrv_wireup_run_park(struct tagrv_wireup_run *run, struct tagrv_wireup_sock *sock)
{
	sock->parked = true;
	keep_sock(run, sock);
}

void tagrv_wireup_run_stall(struct tagrv_wireup_run *run, struct tagrv_wireup_sock *sock,
			    const struct tagrv_wireup_rec *rec, int status)
{
	assert(!sock->behind);
	if (run)
		keep_sock(run, sock);
	sock->stalled = true;
	tagrv_wireup_sock_poll(sock, sock->tx_len ? EPOLLOUT : 0);
	if (!rec)
		return;
	sock->behind_status = status;
	sock->behind = malloc(sizeof(*sock->behind));
	if (sock->behind)
		*sock->behind = *rec;
	else
		shutdown(sock->fd, SHUT_RDWR);	/* a record is lost, so the socket must end */
}

bool tagrv_wireup_run_stalls_end(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_run *run = tagrv_wireup_run_of(sock);

	if (run)
		tagrv_wireup_run_stall(run, sock, NULL, 0);
	return run != NULL;
}

/* The record that came last before the socket was not read any more. */
static void handle_behind(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_rec *rec = sock->behind;

	sock->behind = NULL;
	if (!rec)
		return;
	tagrv_wireup_peer_record(sock, rec, sock->behind_status);
	free(rec);
}

void tagrv_wireup_run_unstall(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_run *run;
	int failed = sock->failed;

	if (sock->parked)
		tagrv_wireup_admit_parked(sock);
	run = tagrv_wireup_run_of(sock);
	if (run && sock->stalled)
		keep_sock(run, sock);
	if (run || !sock->stalled || tagrv_wireup_job_waits(&sock->job))
		return;
	sock->stalled = false;
	sock->failed = 0;
	if (failed) {
		tagrv_wireup_peer_dialed(sock, failed);
		return;
	}
	tagrv_wireup_sock_poll(sock, EPOLLIN | (sock->tx_len ? EPOLLOUT : 0));
	handle_behind(sock);
	tagrv_wireup_sock_go_on(sock);
}

void tagrv_wireup_run_forget(struct tagrv_wireup_sock *sock)
{
	if (sock->run)
		sock->run->sock = NULL;
	sock->run = NULL;
	tagrv_list_remove(&sock->stall_node);
	free(sock->behind);
	sock->behind = NULL;
	sock->parked = false;
	if (!sock->stalled)
		return;
	sock->stalled = false;
	tagrv_wireup_sock_poll(sock, EPOLLIN | (sock->tx_len ? EPOLLOUT : 0));
}

bool tagrv_wireup_run_keeps(struct tagrv_conn *conn, struct tagrv_wireup_msg *msg)
{
	struct tagrv_wireup_run *run = conn ? tagrv_wireup_peer_run(conn) : NULL;

	if (run)
		tagrv_list_push_tail(&run->msgs, &msg->node);
	return run != NULL;
}
