/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What makes devices work, at once or later: sockets' records, their connected ends, and
 * offers of renewals.
 *
 * A socket has at most one job (wireup_queue.h). Its record is kept outside of the receive
 * buffer, so that questions behind it (ASK) are answered meanwhile. Its repetitions are
 * dropped. Any other record that comes waits behind it, or without workers has the job run
 * first; but a CLOSE and the end of the socket void the job, except for an ANSWER. The peer is told every TELL ms that
 * its record waits, or that it is being handled; of an ANSWER, the peer whose claim it settles.
 * Of a dialed socket that waits, our own connection is told: nobody else is to blame for the time.
 *
 * A job whose turn has come runs in a worker (wireup_run.h), or in this thread, if it needs no
 * device or there is no worker.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "wireup/wireup_peer.h"

#define TELL	2000u	/* ms */

/* An offer that waits. owner: the queue. */
struct offer {
	struct tagrv_wireup_job job;
	struct tagrv_wireup_ep *wep;
	struct tagrv_addr addr;		/* of the peer, which may be gone */
};

static struct tagrv_wireup_sock *sock_of(struct tagrv_wireup_job *job)
{
	return tagrv_container_of(job, struct tagrv_wireup_sock, job);
}

static struct offer *offer_of(struct tagrv_wireup_job *job)
{
	return tagrv_container_of(job, struct offer, job);
}

void tagrv_wireup_admit_init(struct tagrv_wireup_sock *sock)
{
	tagrv_wireup_job_init(&sock->job);
	sock->job.of_sock = true;
	tagrv_list_init(&sock->tell_node);
	tagrv_list_init(&sock->stall_node);
}

/* A job waits for its turn, or for its peer. */
static bool has_job(const struct tagrv_wireup_sock *sock)
{
	return sock->parked || tagrv_wireup_job_waits(&sock->job);
}

bool tagrv_wireup_admit_waits(const struct tagrv_wireup_sock *sock)
{
	return sock->run || has_job(sock);
}

/* Ends the wait of the job. Returns its record, which the caller frees. */
static struct tagrv_wireup_rec *take(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_rec *rec = sock->held;

	tagrv_wireup_queue_remove(&sock->wireup->queue, &sock->job);
	tagrv_list_remove(&sock->tell_node);
	if (sock->parked && !sock->stalled)
		tagrv_list_remove(&sock->stall_node);
	sock->parked = false;
	sock->held = NULL;
	return rec;
}

void tagrv_wireup_admit_void(struct tagrv_wireup_sock *sock)
{
	free(take(sock));
}

/* -- WAIT ------------------------------------------------------------------ */

/* What waits here, or is being handled. */
static const struct tagrv_wireup_rec *rec_of(const struct tagrv_wireup_sock *sock)
{
	return sock->held || !sock->run ? sock->held : sock->run->rec;
}

static void tell_on(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec)
{
	if (sock->hello.peer_knows & TAGRV_HELLO_WAIT)
		tagrv_conn_tell_wait(&sock->wep->host, &sock->chan, rec);
}

static void tell(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn *conn = sock->chan.conn;
	const struct tagrv_wireup_rec *claim;
	struct tagrv_chan *claimer;

	if (!rec) {
		if (!tagrv_wireup_peer_run(conn))
			tagrv_conn_excuse(conn, TELL);
		return;
	}
	if (rec->type != TAGRV_WIREUP_ANSWER) {
		tell_on(sock, rec);
		return;
	}
	/* While its machine is called, it has no claim any more. */
	claimer = conn ? tagrv_conn_claim_waits(conn, rec, &claim) : NULL;
	if (claimer)
		tell_on(tagrv_container_of(claimer, struct tagrv_wireup_sock, chan), claim);
}

static void tell_later(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	sock->tell_at = wireup->now + TELL;
	tagrv_list_remove(&sock->tell_node);
	tagrv_list_push_tail(&wireup->tells, &sock->tell_node);
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
		tell(sock, rec_of(sock));
	}
}

/* -- now ------------------------------------------------------------------- */

static void handle(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	if (rec)
		tagrv_wireup_peer_handle(sock, rec);
	else
		tagrv_wireup_peer_use(sock);
}

static void ran(struct tagrv_wireup *wireup, uint64_t begin)
{
	tagrv_wireup_queue_ran(&wireup->queue, tagrv_clock_ns() - begin);
	tagrv_wireup_clock_worked(wireup);
}

static void work(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup *wireup = sock->wireup;
	uint64_t begin = tagrv_clock_ns();

	handle(sock, rec);
	ran(wireup, begin);
}

/* True: rec, which is malloc'ed or NULL, was given to a worker. */
static bool start(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	if (!tagrv_wireup_crew_exists(&sock->wireup->crew) ||
	    !tagrv_wireup_peer_needs_device(sock, rec))
		return false;
	if (rec)
		tell_later(sock);
	if (tagrv_wireup_run_start(sock, rec))
		return true;
	tagrv_list_remove(&sock->tell_node);
	return false;
}

static void run(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_rec *rec = take(sock);

	if (start(sock, rec))
		return;
	work(sock, rec);
	free(rec);
	if (sock->stalled)
		tagrv_wireup_run_unstall(sock);
}

/* -- later ----------------------------------------------------------------- */

/* False: there is no memory for the record. */
static bool hold(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec)
{
	if (!rec) {
		tell_later(sock);
		return true;
	}
	sock->held = malloc(sizeof(*rec));
	if (!sock->held)
		return false;
	*sock->held = *rec;
	tell_later(sock);
	/* The claim must not end while its ANSWER waits. */
	if (rec->type == TAGRV_WIREUP_ANSWER)
		tell(sock, rec);
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

static void refuse(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec)
{
	tell(sock, rec);
	tagrv_conn_reject(&sock->wep->host, &sock->chan, rec, TAGRV_WIREUP_BUSY);
	tagrv_wireup_sock_hangup(sock);
}

/* Nobody waits, and there is a worker or, without workers, time. */
static bool is_free(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (!tagrv_wireup_crew_exists(&wireup->crew) ||
	    !tagrv_wireup_peer_needs_device(sock, rec))
		return tagrv_wireup_queue_is_free(&wireup->queue);
	return !wireup->queue.cnt && tagrv_wireup_crew_has_room(&wireup->crew);
}

/*
 * Its peer is busy. Without memory the socket ends; one of the peer's not now, since it may be
 * what its machine, in the worker, is about to answer on.
 */
static void park(struct tagrv_wireup_sock *sock, struct tagrv_wireup_run *busy,
		 const struct tagrv_wireup_rec *rec)
{
	if (hold(sock, rec))
		tagrv_wireup_run_park(busy, sock);
	else if (sock->chan.conn)
		tagrv_wireup_run_stall(busy, sock, rec, 0);
	else
		refuse(sock, rec);
}

void tagrv_wireup_admit(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup *wireup = sock->wireup;
	struct tagrv_wireup_run *busy;
	enum tagrv_conn_work what;

	if (sock->wep->stop)
		return;		/* it will be closed, and all its sockets */
	busy = tagrv_wireup_peer_busy(sock, rec);
	if (busy) {
		park(sock, busy, rec);
		return;
	}
	what = tagrv_wireup_peer_work(sock, rec);
	if (what == TAGRV_CONN_NO_WORK) {
		handle(sock, rec);
		return;
	}
	if (is_full(sock, rec)) {
		refuse(sock, rec);
		return;
	}
	if (!is_free(sock, rec) && hold(sock, rec)) {
		tagrv_wireup_queue_push(&wireup->queue, &sock->job, what);
	} else if (!tagrv_wireup_crew_exists(&wireup->crew) || !hold(sock, rec)) {
		work(sock, rec);
	} else {
		run(sock);
	}
}

void tagrv_wireup_admit_parked(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_rec *rec = take(sock);

	tagrv_wireup_admit(sock, rec);
	free(rec);
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

/* A CLOSE voids what waits. */
static bool is_void(struct tagrv_wireup_sock *sock, const struct tagrv_wireup_rec *rec)
{
	return sock->held && rec->type == TAGRV_WIREUP_CLOSE && !tagrv_wireup_run_of(sock);
}

bool tagrv_wireup_admit_next(struct tagrv_wireup_sock *sock,
			     const struct tagrv_wireup_rec *rec, int status)
{
	if (is_repeated(rec_of(sock), rec))
		return false;
	if (!has_job(sock))
		return true;
	if (is_void(sock, rec)) {
		tagrv_wireup_admit_void(sock);
		if (sock->chan.conn)
			return true;
		/* The first request of a peer, which has given it up. */
		tagrv_wireup_sock_close(sock);
		return false;
	}
	if (sock->parked || tagrv_wireup_crew_exists(&sock->wireup->crew)) {
		tagrv_wireup_run_stall(tagrv_wireup_run_of(sock), sock, rec, status);
		return false;
	}
	run(sock);
	return sock->state == TAGRV_WIREUP_OPEN;
}

bool tagrv_wireup_admit_ended(struct tagrv_wireup_sock *sock)
{
	bool dialed = has_job(sock) && !sock->held;

	/* A listener that was only asked hangs up behind its ANSWER, which counts nevertheless. */
	if (sock->held && sock->held->type == TAGRV_WIREUP_ANSWER) {
		tagrv_wireup_run_stall(NULL, sock, NULL, 0);
		return true;
	}
	tagrv_wireup_admit_void(sock);
	if (dialed)
		tagrv_wireup_peer_dialed(sock, -FI_ECONNRESET);
	return dialed;
}

/* -- offers of renewals ------------------------------------------------------ */

bool tagrv_wireup_admit_offer(struct tagrv_wireup_ep *wep, const struct tagrv_addr *addr)
{
	struct offer *offer = malloc(sizeof(*offer));

	if (!offer)
		return false;
	tagrv_wireup_job_init(&offer->job);
	offer->job.of_sock = false;
	offer->wep = wep;
	offer->addr = *addr;
	tagrv_wireup_queue_push(&wep->wireup->queue, &offer->job, TAGRV_CONN_OFFER);
	return true;
}

void tagrv_wireup_admit_stop(struct tagrv_wireup_ep *wep)
{
	struct tagrv_wireup_queue *queue = &wep->wireup->queue;
	struct tagrv_list *node, *tmp;

	tagrv_list_for_each_safe(&queue->jobs[TAGRV_CONN_OFFER], node, tmp) {
		struct tagrv_wireup_job *job =
			tagrv_container_of(node, struct tagrv_wireup_job, node);

		if (job->of_sock || offer_of(job)->wep != wep)
			continue;
		tagrv_wireup_queue_remove(queue, job);
		free(offer_of(job));
	}
}

static void run_offer(struct tagrv_wireup *wireup, struct offer *offer)
{
	struct tagrv_conn *conn = tagrv_wireup_peer_find(offer->wep, &offer->addr);
	uint64_t begin = tagrv_clock_ns();

	if (conn && tagrv_wireup_peer_run(conn)) {
		tagrv_conn_miss_turn(conn);
	} else if (conn && !offer->wep->stop &&
		   (!tagrv_wireup_crew_exists(&wireup->crew) ||
		    !tagrv_wireup_run_offer(offer->wep, &offer->addr))) {
		tagrv_wireup_peer_offer(offer->wep, &offer->addr);
		ran(wireup, begin);
	}
	free(offer);
}

/* -- the round --------------------------------------------------------------- */

static void run_sock(struct tagrv_wireup_sock *sock)
{
	struct tagrv_conn *conn = sock->chan.conn;
	struct tagrv_wireup_run *busy;

	if (sock->wep->stop)
		return;
	busy = conn || sock->held ? tagrv_wireup_peer_busy(sock, sock->held) : NULL;
	if (busy)
		tagrv_wireup_run_park(busy, sock);
	else
		run(sock);
}

/* Workers that are all at work, or the time of the round, may stop it. */
static bool may_run(struct tagrv_wireup *wireup)
{
	return !tagrv_wireup_crew_exists(&wireup->crew) ||
	       tagrv_wireup_crew_has_room(&wireup->crew);
}

int tagrv_wireup_admit_wait(struct tagrv_wireup *wireup)
{
	struct tagrv_list *node = tagrv_list_first(&wireup->tells);
	struct tagrv_wireup_sock *sock;

	if (!tagrv_list_empty(&wireup->ended) || (wireup->queue.cnt && may_run(wireup)))
		return 0;
	if (!node)
		return -1;
	sock = tagrv_container_of(node, struct tagrv_wireup_sock, tell_node);
	return sock->tell_at > wireup->now ? (int) (sock->tell_at - wireup->now) : 0;
}

void tagrv_wireup_admit_run(struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_job *job;

	tell_all(wireup);
	/* One at least: sockets that go on sending may have used up the time before. */
	tagrv_wireup_queue_begin(&wireup->queue);
	while (may_run(wireup) &&
	       (job = tagrv_wireup_queue_pop(&wireup->queue)) != NULL) {
		if (job->of_sock)
			run_sock(sock_of(job));
		else
			run_offer(wireup, offer_of(job));
	}
}
