/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sockets whose record, or whose connected end, makes devices work: at once or later.
 *
 * A socket has at most one job (wireup_queue.h). Its record is kept outside of the receive
 * buffer, so that questions behind it (ASK) are answered meanwhile. Its repetitions are
 * dropped. Any other record that comes has the job run first, but a CLOSE and the end of the
 * socket void it. The peer is told every TELL ms that its record waits.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "wireup/wireup_priv.h"

#define TELL	2000u	/* ms */

static struct tagrv_wireup_sock *sock_of(struct tagrv_wireup_job *job)
{
	return tagrv_container_of(job, struct tagrv_wireup_sock, job);
}

void tagrv_wireup_admit_init(struct tagrv_wireup_sock *sock)
{
	tagrv_wireup_job_init(&sock->job);
	tagrv_list_init(&sock->tell_node);
}

/* Ends the wait of the job. Returns its record, which the caller frees. */
static struct tagrv_wireup_rec *take(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_rec *rec = sock->held;

	tagrv_wireup_queue_remove(&sock->wireup->queue, &sock->job);
	tagrv_list_remove(&sock->tell_node);
	sock->held = NULL;
	return rec;
}

void tagrv_wireup_admit_void(struct tagrv_wireup_sock *sock)
{
	free(take(sock));
}

/* -- now ------------------------------------------------------------------- */

static void handle(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	if (rec)
		tagrv_wireup_peer_handle(sock, rec);
	else
		tagrv_wireup_peer_use(sock);
}

static void work(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup *wireup = sock->wireup;
	uint64_t begin = tagrv_clock_ns();

	handle(sock, rec);
	tagrv_wireup_queue_ran(&wireup->queue, tagrv_clock_ns() - begin);
	tagrv_wireup_clock_worked(wireup);
}

static void run(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_rec *rec = take(sock);

	work(sock, rec);
	free(rec);
}

/* -- later ----------------------------------------------------------------- */

static void tell(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec)
{
	if (sock->hello.peer_knows & TAGRV_HELLO_WAIT)
		tagrv_conn_tell_wait(&sock->wep->host, &sock->chan, rec);
}

static void tell_later(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	sock->tell_at = wireup->now + TELL;
	tagrv_list_push_tail(&wireup->tells, &sock->tell_node);
}

/* False: there is no memory for the record. */
static bool enqueue(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec,
		    enum tagrv_conn_work what)
{
	if (rec) {
		sock->held = malloc(sizeof(*rec));
		if (!sock->held)
			return false;
		*sock->held = *rec;
		if (rec->type != TAGRV_WIREUP_ANSWER)
			tell_later(sock);
	}
	tagrv_wireup_queue_push(&sock->wireup->queue, &sock->job, what);
	return true;
}

/* Sockets that wait must leave some for those that are at work. */
static bool is_full(const struct tagrv_wireup_sock *sock,
		    const struct tagrv_wireup_rec *rec)
{
	const struct tagrv_wireup *wireup = sock->wireup;

	return rec && !sock->chan.conn &&
	       wireup->queue.cnt >= wireup->caps.socks / 2;
}

void tagrv_wireup_admit(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	enum tagrv_conn_work what = tagrv_wireup_peer_work(sock, rec);

	if (what == TAGRV_CONN_NO_WORK) {
		handle(sock, rec);
	} else if (tagrv_wireup_queue_is_free(&sock->wireup->queue)) {
		work(sock, rec);
	} else if (is_full(sock, rec)) {
		tell(sock, rec);
		tagrv_conn_reject(&sock->wep->host, &sock->chan, rec,
				  TAGRV_WIREUP_BUSY);
		tagrv_wireup_sock_hangup(sock);
	} else if (!enqueue(sock, rec, what)) {
		work(sock, rec);
	}
}

/* The peer says again what waits: to do that before its turn would defeat the queue. */
static bool is_repeated(const struct tagrv_wireup_rec *held,
			const struct tagrv_wireup_rec *rec)
{
	return held && held->type != TAGRV_WIREUP_ANSWER &&
	       held->type == rec->type && held->reason == rec->reason &&
	       held->src_epoch == rec->src_epoch &&
	       held->dst_epoch == rec->dst_epoch &&
	       !memcmp(held->src_nonce, rec->src_nonce, TAGRV_NONCE_LEN) &&
	       !memcmp(held->dst_nonce, rec->dst_nonce, TAGRV_NONCE_LEN);
}

bool tagrv_wireup_admit_next(struct tagrv_wireup_sock *sock,
			     const struct tagrv_wireup_rec *rec)
{
	if (!tagrv_wireup_job_waits(&sock->job))
		return true;
	if (is_repeated(sock->held, rec))
		return false;
	if (!sock->held || rec->type != TAGRV_WIREUP_CLOSE) {
		run(sock);
		return sock->state == TAGRV_WIREUP_OPEN;
	}
	tagrv_wireup_admit_void(sock);
	if (sock->chan.conn)
		return true;
	/* The first request of a peer, which has given it up. */
	tagrv_wireup_sock_close(sock);
	return false;
}

bool tagrv_wireup_admit_ended(struct tagrv_wireup_sock *sock)
{
	bool dialed = tagrv_wireup_job_waits(&sock->job) && !sock->held;

	tagrv_wireup_admit_void(sock);
	if (dialed)
		tagrv_wireup_peer_dialed(sock, -FI_ECONNRESET);
	return dialed;
}

static void tell_all(struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_sock *sock;
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&wireup->tells)) != NULL) {
		sock = tagrv_container_of(node, struct tagrv_wireup_sock, tell_node);
		if (wireup->now < sock->tell_at)
			return;
		tagrv_list_remove(node);
		tell_later(sock);
		tell(sock, sock->held);
	}
}

void tagrv_wireup_admit_run(struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_job *job;

	tell_all(wireup);
	/* One at least: sockets that go on sending may have used up the time before. */
	tagrv_wireup_queue_begin(&wireup->queue);
	while ((job = tagrv_wireup_queue_pop(&wireup->queue)) != NULL)
		run(sock_of(job));
}
