/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many processes that connect at once: state machines, the queue of their threads' work,
 * and a network and a clock that are simulated. A command of a device takes COMMAND ms in
 * the one thread of its process. The threads do what wireup_admit.c and wireup_peer.c do
 * without workers.
 *
 * So that millions of connections fit into memory, the machine of a peer that is wanted is made
 * when it may dial, or when the peer asks; before, nothing could happen to it. Once both
 * sides are READY and nothing is under way, the machines and their sockets are freed.
 *
 * The processes of a whole node may be simulated, and of the others only what they do with
 * that node ("stubs"). Commands of those take as many times longer as they have more peers.
 */
#ifndef FABTESTS_UNIT_WIREUP_STORM_WORLD_H
#define FABTESTS_UNIT_WIREUP_STORM_WORLD_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "unit/wireup/conn_driver.h"
#include "wireup/wireup_queue.h"

#define COMMAND		50	/* ms */
#define TIMEOUT		30000	/* ms to connect */
#define TELL		2000	/* ms between two WAITs */
#define FIRST_HELLO	5000	/* ms */
#define FIRST_REQ	60000
#define HALF_OPEN	256	/* that have not sent their HELLO */
#define DIALS		64
#define WORK_SHARE	16

enum storm_kind { WAKE, CONNECTED, ARRIVED, GREETING, RECORD, END };

struct storm_proc;

struct storm_sock {
	struct tagrv_chan chan;
	struct tagrv_wireup_job job;
	struct tagrv_wireup_rec *held;
	struct tagrv_list node;		/* on proc->backlog, silents or greeters */
	struct storm_proc *proc;
	struct storm_sock *far, *next, **prev;	/* the latter two: of all sockets */
	uint64_t half_until, tell_at;
	unsigned flying;		/* events that will come */
	bool	open, greeted;
	bool	ended;			/* behind the ANSWER that waits */
};

struct storm_peer {
	struct tagrv_conn conn;
	struct tagrv_list dial_node;
	struct tagrv_list node;		/* on proc->active or ready */
	struct storm_sock *dialing;
	uint64_t timer_at;
	bool	hastened;
};

/* In the table of peers: READY at both sides, and nothing will happen any more. */
static struct storm_peer storm_done;

struct storm_proc {
	struct tagrv_conn_host host;
	struct fake_xport fake;
	struct tagrv_xport *xports[1];
	struct tagrv_wireup_queue queue;
	struct storm_peer **peers;	/* by the other process */
	unsigned reach;			/* processes that it has to do with: the first ones */
	unsigned next;			/* those before are wanted, if they have to be */
	bool	wants;			/* all that it has to do with */
	unsigned dials_max;
	uint64_t command;		/* ms */
	struct tagrv_list active, ready;	/* peers with machines; the latter: READY */
	uint64_t timer_min;		/* no timer is due before; 0: none is set */
	struct tagrv_list dead;		/* closed sockets */
	struct tagrv_list dials, backlog, silents, greeters;
	unsigned dialing, opening, silent, full;
	uint64_t work;			/* ms of this step */
	uint64_t free_at, wake_at, patient;
	struct storm_event *inbox, **inbox_end;
	int	ups, sendables;
};

struct storm_event {
	uint64_t at, seq;
	enum storm_kind kind;
	struct storm_proc *proc;
	struct storm_sock *sock;
	struct tagrv_wireup_rec *rec;
	struct storm_event *next;
};

static struct storm {
	struct storm_proc *procs;
	unsigned cnt;
	uint64_t now, seq;
	struct storm_event **heap;
	size_t heap_cnt, heap_cap;
	struct storm_sock *socks;
	unsigned resets, given_up, rejected, told, claims, most_half_open;
	size_t	machines, most_machines;
} storm;

/* -- time ---------------------------------------------------------------------- */

static inline bool storm_before(const struct storm_event *a, const struct storm_event *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static inline void storm_post(uint64_t at, enum storm_kind kind, struct storm_proc *proc,
			      struct storm_sock *sock, const struct tagrv_wireup_rec *rec)
{
	struct storm_event *ev = calloc(1, sizeof(*ev));
	size_t i = storm.heap_cnt++;

	*ev = (struct storm_event) { at, storm.seq++, kind, proc, sock, NULL, NULL };
	if (rec) {
		ev->rec = malloc(sizeof(*rec));
		*ev->rec = *rec;
	}
	if (storm.heap_cnt > storm.heap_cap) {
		storm.heap_cap = storm.heap_cap ? storm.heap_cap * 2 : 1024;
		storm.heap = realloc(storm.heap, storm.heap_cap * sizeof(ev));
	}
	for (; i && storm_before(ev, storm.heap[(i - 1) / 2]); i = (i - 1) / 2)
		storm.heap[i] = storm.heap[(i - 1) / 2];
	storm.heap[i] = ev;
}

static inline struct storm_event *storm_next(void)
{
	struct storm_event *first = storm.heap[0], *last = storm.heap[--storm.heap_cnt];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < storm.heap_cnt; i = child) {
		if (child + 1 < storm.heap_cnt &&
		    storm_before(storm.heap[child + 1], storm.heap[child]))
			child++;
		if (!storm_before(storm.heap[child], last))
			break;
		storm.heap[i] = storm.heap[child];
	}
	storm.heap[i] = last;
	return first;
}

static inline void storm_wake(struct storm_proc *proc, uint64_t at)
{
	at = TAGRV_MAX(at, proc->free_at);
	if (proc->wake_at && proc->wake_at <= at)
		return;
	proc->wake_at = at;
	storm_post(at, WAKE, proc, NULL, NULL);
}

/* To the other end of a socket, a millisecond from now. */
static inline void storm_send(struct storm_sock *sock, enum storm_kind kind,
			      const struct tagrv_wireup_rec *rec)
{
	if (!sock->far)
		return;		/* it is freed */
	sock->far->flying++;
	storm_post(storm.now + sock->proc->work + 1, kind, sock->far->proc, sock->far, rec);
}

/* -- sockets -------------------------------------------------------------------- */

static inline struct storm_sock *storm_sock_of(struct tagrv_chan *chan)
{
	return tagrv_container_of(chan, struct storm_sock, chan);
}

static inline struct storm_peer *storm_peer_of(struct tagrv_conn *conn)
{
	return tagrv_container_of(conn, struct storm_peer, conn);
}

static inline struct storm_proc *storm_proc_of(struct tagrv_conn_host *host)
{
	return tagrv_container_of(host, struct storm_proc, host);
}

static inline struct storm_sock *storm_sock_new(struct storm_proc *proc, bool dialed)
{
	struct storm_sock *sock = calloc(1, sizeof(*sock));

	tagrv_wireup_job_init(&sock->job);
	tagrv_list_init(&sock->node);
	sock->proc = proc;
	sock->open = true;
	sock->chan.dialed = dialed;
	sock->chan.near = !dialed;
	sock->next = storm.socks;
	sock->prev = &storm.socks;
	if (sock->next)
		sock->next->prev = &sock->next;
	storm.socks = sock;
	return sock;
}

static inline void storm_sock_free(struct storm_sock *sock)
{
	tagrv_list_remove(&sock->node);
	*sock->prev = sock->next;
	if (sock->next)
		sock->next->prev = sock->prev;
	if (sock->far)
		sock->far->far = NULL;
	free(sock->held);
	free(sock);
}

/* A socket that is closed, and to which nothing comes any more. */
static inline void storm_sock_reap(struct storm_sock *sock)
{
	if (!sock->open && !sock->flying)
		storm_sock_free(sock);
}

static inline void storm_void_job(struct storm_sock *sock)
{
	tagrv_wireup_queue_remove(&sock->proc->queue, &sock->job);
	free(sock->held);
	sock->held = NULL;
}

static inline void storm_end_half_open(struct storm_sock *sock)
{
	if (tagrv_list_linked(&sock->node) && sock->half_until && !sock->greeted)
		sock->proc->silent--;
	tagrv_list_remove(&sock->node);
}

static inline void storm_close(struct storm_sock *sock)
{
	if (!sock->open)
		return;
	storm_end_half_open(sock);
	storm_void_job(sock);
	sock->open = false;
	sock->chan.conn = NULL;
	tagrv_list_push_tail(&sock->proc->dead, &sock->node);
	storm_send(sock, END, NULL);
}

/* -- what the machines decide --------------------------------------------------- */

static inline int storm_prepare(struct tagrv_conn *conn)
{
	(void) conn;
	return 0;
}

static inline void storm_emit(struct tagrv_conn *conn, const struct tagrv_wireup_event *event)
{
	struct storm_proc *proc = storm_proc_of(conn->host);

	if (event->sendable || event->type == TAGRV_WIREUP_SENDABLE) {
		tagrv_list_remove(&storm_peer_of(conn)->node);
		tagrv_list_push_tail(&proc->ready, &storm_peer_of(conn)->node);
	}
	if (event->type == TAGRV_WIREUP_UP) {
		proc->ups++;
		proc->sendables += event->sendable;
		fake_free(event->link);
	} else if (event->type == TAGRV_WIREUP_SENDABLE) {
		proc->sendables++;
	} else {
		storm.given_up++;
	}
}

static inline void storm_dial(struct tagrv_conn *conn)
{
	tagrv_list_push_tail(&storm_proc_of(conn->host)->dials,
			     &storm_peer_of(conn)->dial_node);
}

static inline void storm_hasten(struct tagrv_conn *conn)
{
	struct storm_peer *peer = storm_peer_of(conn);

	if (!tagrv_list_linked(&peer->dial_node))
		return;
	tagrv_list_remove(&peer->dial_node);
	tagrv_list_push_head(&storm_proc_of(conn->host)->dials, &peer->dial_node);
	peer->hastened = true;
}

static inline void storm_end_dialing(struct storm_proc *proc, struct storm_peer *peer)
{
	peer->dialing = NULL;
	proc->opening--;
}

static inline void storm_free_slot(struct storm_sock *sock)
{
	if (sock->half_until == 1 && sock->chan.dialed)
		sock->proc->dialing--;
	if (sock->chan.dialed)
		sock->half_until = 0;
}

static inline void storm_undial(struct tagrv_conn *conn)
{
	struct storm_peer *peer = storm_peer_of(conn);
	struct storm_sock *sock = peer->dialing;

	tagrv_list_remove(&peer->dial_node);
	if (!sock)
		return;
	storm_end_dialing(sock->proc, peer);
	storm_free_slot(sock);
	storm_close(sock);
}

static inline void storm_put(struct tagrv_chan *chan, const struct tagrv_wireup_rec *rec)
{
	if (storm_sock_of(chan)->open)
		storm_send(storm_sock_of(chan), RECORD, rec);
}

static inline void storm_hangup(struct tagrv_chan *chan)
{
	storm_free_slot(storm_sock_of(chan));
	storm_close(storm_sock_of(chan));
}

static inline int storm_draw(struct tagrv_conn *conn, uint8_t *nonce)
{
	driver_nonce(nonce, 1, conn->host->epoch + 1);
	memcpy(&nonce[8], conn->host->uuid, 8);
	return 0;
}

static inline bool storm_may_ask(struct tagrv_conn *conn, const struct tagrv_chan *claimer)
{
	(void) conn, (void) claimer;
	storm.claims++;
	return true;
}

static inline void storm_asked_well(struct tagrv_conn *conn, const struct tagrv_chan *claimer)
{
	(void) conn, (void) claimer;
}

static inline void storm_timer(struct tagrv_conn *conn, uint64_t at)
{
	struct storm_proc *proc = storm_proc_of(conn->host);

	storm_peer_of(conn)->timer_at = at;
	if (at && (!proc->timer_min || at < proc->timer_min))
		proc->timer_min = at;
}

static const struct tagrv_conn_ops storm_ops = {
	.prepare = storm_prepare, .emit = storm_emit, .dial = storm_dial,
	.hasten = storm_hasten, .undial = storm_undial, .send = storm_put,
	.hangup = storm_hangup, .draw = storm_draw, .may_ask = storm_may_ask,
	.asked_well = storm_asked_well, .timer = storm_timer,
};

static inline int storm_create_link(struct tagrv_xport *xport, void *blob, size_t *len,
				    struct tagrv_link **link)
{
	struct storm_proc *proc = tagrv_container_of(fake_of(xport), struct storm_proc, fake);

	proc->work += proc->command;
	return fake_create(xport, blob, len, link);
}

static inline int storm_bind_link(struct tagrv_link *link, const void *blob, size_t len)
{
	struct storm_proc *proc = tagrv_container_of(fake_of(link->xport), struct storm_proc, fake);

	proc->work += proc->command;
	return fake_bind(link, blob, len);
}

/* -- a thread ------------------------------------------------------------------- */

static inline struct storm_peer *storm_peer(struct storm_proc *proc, unsigned who)
{
	struct tagrv_addr addr = driver_addr((uint16_t) (1000 + who));
	struct storm_peer *peer = proc->peers[who];

	cr_assert_neq(peer, &storm_done, "something has come after the end");
	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer));
	tagrv_list_init(&peer->dial_node);
	tagrv_list_push_tail(&proc->active, &peer->node);
	tagrv_conn_init(&peer->conn, &proc->host, &addr);
	proc->peers[who] = peer;
	storm.machines++;
	storm.most_machines = TAGRV_MAX(storm.most_machines, storm.machines);
	if (proc->wants)
		tagrv_conn_want(&peer->conn);
	return peer;
}

static inline void storm_handle(struct storm_sock *sock, const struct tagrv_wireup_rec *rec)
{
	struct storm_proc *proc = sock->proc;
	uint64_t work = proc->work;
	struct tagrv_conn *conn = sock->chan.conn;

	if (!rec) {
		storm_end_dialing(proc, storm_peer_of(conn));
		tagrv_conn_dialed(conn, &sock->chan);
	} else {
		if (!conn)
			conn = &storm_peer(proc, tagrv_addr_port(&rec->addr) - 1000u)->conn;
		tagrv_conn_record(conn, &sock->chan, rec);
	}
	tagrv_wireup_queue_ran(&proc->queue, (proc->work - work) * 1000000);
}

static inline void storm_ended(struct storm_sock *sock);

static inline void storm_run_job(struct storm_sock *sock)
{
	struct tagrv_wireup_rec *rec = sock->held;

	tagrv_wireup_queue_remove(&sock->proc->queue, &sock->job);
	sock->held = NULL;
	storm_handle(sock, rec);
	free(rec);
	if (sock->open && sock->ended)
		storm_ended(sock);
}

/* The sender of what waits; of an ANSWER, the one whose claim it settles. */
static inline void storm_tell_one(struct storm_sock *sock)
{
	const struct tagrv_wireup_rec *rec = sock->held;
	struct tagrv_chan *chan = &sock->chan;

	if (rec->type == TAGRV_WIREUP_ANSWER)
		chan = tagrv_conn_claim_waits(sock->chan.conn, sock->held, &rec);
	if (chan)
		tagrv_conn_tell_wait(&sock->proc->host, chan, rec);
}

/* Of a pair whose machines have ended: they would hang up. */
static inline bool storm_is_late(struct storm_sock *sock, const struct tagrv_wireup_rec *rec)
{
	unsigned who = tagrv_addr_port(&rec->addr) - 1000u;

	return !sock->chan.conn && sock->proc->peers[who] == &storm_done;
}

static inline void storm_admit(struct storm_sock *sock, const struct tagrv_wireup_rec *rec)
{
	struct storm_proc *proc = sock->proc;
	struct tagrv_conn *conn = sock->chan.conn;
	enum tagrv_conn_work what;

	if (!conn && rec)
		conn = &storm_peer(proc, tagrv_addr_port(&rec->addr) - 1000u)->conn;
	what = tagrv_conn_work_of(conn, &sock->chan, rec);
	if (what == TAGRV_CONN_NO_WORK || tagrv_wireup_queue_is_free(&proc->queue)) {
		storm_handle(sock, rec);
		return;
	}
	if (rec && !sock->chan.conn && proc->queue.cnt >= proc->full) {
		storm.rejected++;
		tagrv_conn_tell_wait(&proc->host, &sock->chan, rec);
		tagrv_conn_reject(&proc->host, &sock->chan, rec, TAGRV_WIREUP_BUSY);
		storm_close(sock);
		return;
	}
	if (rec) {
		sock->held = malloc(sizeof(*rec));
		*sock->held = *rec;
		if (rec->type == TAGRV_WIREUP_ANSWER)
			storm_tell_one(sock);
	}
	sock->tell_at = storm.now + TELL;
	tagrv_wireup_queue_push(&proc->queue, &sock->job, what);
}

static inline void storm_record(struct storm_sock *sock, const struct tagrv_wireup_rec *rec)
{
	struct storm_proc *proc = sock->proc;
	struct storm_peer *peer;

	storm_end_half_open(sock);
	if (storm_is_late(sock, rec)) {
		storm_close(sock);
		return;
	}
	if (rec->type == TAGRV_WIREUP_ASK) {
		peer = storm_peer(proc, tagrv_addr_port(&rec->addr) - 1000u);
		tagrv_conn_answer(&proc->host, &sock->chan, rec,
				  tagrv_conn_sent_req(&peer->conn, rec));
		if (!sock->chan.conn && !tagrv_wireup_job_waits(&sock->job))
			storm_close(sock);
		return;
	}
	storm_free_slot(sock);
	storm.told += rec->type == TAGRV_WIREUP_WAIT;
	if (tagrv_wireup_job_waits(&sock->job)) {
		if (sock->held && rec->type == TAGRV_WIREUP_CLOSE)
			storm_void_job(sock);
		else
			storm_run_job(sock);
	}
	if (sock->open && (sock->chan.conn || rec->type == TAGRV_WIREUP_REQ))
		storm_admit(sock, rec);
	else
		storm_close(sock);
}

static inline void storm_ended(struct storm_sock *sock)
{
	struct tagrv_conn *conn = sock->chan.conn;
	struct storm_peer *peer = conn ? storm_peer_of(conn) : NULL;

	storm_free_slot(sock);
	sock->ended = sock->held && sock->held->type == TAGRV_WIREUP_ANSWER;
	if (sock->ended)
		return;
	if (peer && peer->dialing == sock) {
		storm_end_dialing(sock->proc, peer);
		storm_close(sock);
		tagrv_conn_dial_failed(conn, -FI_ECONNRESET);
		return;
	}
	if (conn)
		tagrv_conn_closed(conn, &sock->chan);
	storm_close(sock);
}

static inline void storm_greeting(struct storm_sock *sock)
{
	if (sock->chan.dialed) {
		storm_admit(sock, NULL);
		return;
	}
	storm_end_half_open(sock);
	sock->greeted = true;
	sock->half_until = storm.now + FIRST_REQ;
	tagrv_list_push_tail(&sock->proc->greeters, &sock->node);
	storm_send(sock, GREETING, NULL);
}

static inline void storm_input(struct storm_event *ev)
{
	struct storm_sock *sock = ev->sock;

	if (!sock->open)
		return;
	switch (ev->kind) {
	case ARRIVED:
		tagrv_list_push_tail(&ev->proc->backlog, &sock->node);
		break;
	case CONNECTED:
		storm_send(sock, GREETING, NULL);
		break;
	case GREETING:
		storm_greeting(sock);
		break;
	case RECORD:
		storm_record(sock, ev->rec);
		break;
	case END:
		storm_ended(sock);
		break;
	case WAKE:
		break;
	}
}

static inline void storm_accept(struct storm_proc *proc)
{
	struct tagrv_list *node;

	while (proc->silent < HALF_OPEN && (node = tagrv_list_pop(&proc->backlog))) {
		struct storm_sock *sock = tagrv_container_of(node, struct storm_sock, node);

		sock->half_until = storm.now + FIRST_HELLO;
		tagrv_list_push_tail(&proc->silents, node);
		proc->silent++;
		storm.most_half_open = TAGRV_MAX(storm.most_half_open, proc->silent);
	}
}

/* Sockets whose time is over although everything that has come was read. */
static inline void storm_reset_late(struct tagrv_list *half_open)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(half_open)) != NULL) {
		struct storm_sock *sock = tagrv_container_of(node, struct storm_sock, node);

		if (storm.now < sock->half_until)
			return;
		if (getenv("TAGRV_STORM"))
			fprintf(stderr, "reset: %s, %s job\n", sock->greeted ? "greeted" : "silent",
				sock->far && tagrv_wireup_job_waits(&sock->far->job) ?
				"waiting" : "no");
		storm.resets++;
		storm_close(sock);
	}
}

/* One that a claim waits for, or the next one that is wanted, or one that is tried again. */
static inline struct storm_peer *storm_next_dial(struct storm_proc *proc)
{
	struct tagrv_list *node = tagrv_list_first(&proc->dials);
	struct storm_peer *peer;

	peer = node ? tagrv_container_of(node, struct storm_peer, dial_node) : NULL;
	while (proc->wants && proc->next < proc->reach && !(peer && peer->hastened)) {
		unsigned who = proc->next++;

		if (proc->peers[who] || &storm.procs[who] == proc)
			continue;
		peer = storm_peer(proc, who);
		break;
	}
	if (!peer)
		return NULL;
	tagrv_list_remove(&peer->dial_node);
	peer->hastened = false;
	return peer;
}

static inline void storm_dial_more(struct storm_proc *proc)
{
	struct storm_peer *peer;

	while (proc->dialing < proc->dials_max &&
	       tagrv_wireup_queue_may_dial(&proc->queue, proc->opening) &&
	       (peer = storm_next_dial(proc)) != NULL) {
		unsigned who = tagrv_addr_port(&peer->conn.addr) - 1000u;
		struct storm_sock *sock = storm_sock_new(proc, true);

		sock->far = storm_sock_new(&storm.procs[who], false);
		sock->far->far = sock;
		sock->half_until = 1;	/* it has a slot */
		sock->chan.conn = &peer->conn;
		peer->dialing = sock;
		proc->dialing++;
		proc->opening++;
		tagrv_conn_dialing(&peer->conn);
		storm_send(sock, ARRIVED, NULL);
		sock->flying++;
		storm_post(storm.now + proc->work + 2, CONNECTED, proc, sock, NULL);
	}
}

static inline void storm_tell(struct storm_proc *proc)
{
	struct tagrv_list *node;

	for (int i = TAGRV_CONN_FINISH; i <= TAGRV_CONN_RESPOND; i++)
		tagrv_list_for_each(&proc->queue.jobs[i], node) {
			struct tagrv_wireup_job *job =
				tagrv_container_of(node, struct tagrv_wireup_job, node);
			struct storm_sock *sock =
				tagrv_container_of(job, struct storm_sock, job);

			if (!sock->held || storm.now < sock->tell_at)
				continue;
			sock->tell_at = storm.now + TELL;
			storm_tell_one(sock);
		}
}

/* Calls those of a list that are due, and finds the next one that will be. */
static inline void storm_timers_of(struct storm_proc *proc, struct tagrv_list *peers)
{
	struct tagrv_list *node, *tmp;

	tagrv_list_for_each_safe(peers, node, tmp) {
		struct storm_peer *peer = tagrv_container_of(node, struct storm_peer, node);
		uint64_t at = peer->timer_at;

		if (at && at <= proc->patient) {
			peer->timer_at = 0;
			tagrv_conn_timer(&peer->conn);
		} else if (at) {
			storm_timer(&peer->conn, at);
		}
	}
}

static inline void storm_timers(struct storm_proc *proc)
{
	if (!proc->timer_min || proc->patient < proc->timer_min)
		return;
	proc->timer_min = 0;
	storm_timers_of(proc, &proc->active);
	storm_timers_of(proc, &proc->ready);
}

/* -- the end of machines ---------------------------------------------------------- */

/* Nothing is under way for it, or from it. */
static inline bool storm_is_at_rest(const struct storm_peer *peer)
{
	const struct tagrv_conn *conn = &peer->conn;

	if (conn->state != TAGRV_CONN_READY || conn->dial != TAGRV_CONN_OFF || conn->claim ||
	    peer->dialing || peer->timer_at)
		return false;
	for (int i = 0; i < 2; i++) {
		const struct storm_sock *sock;

		if (!conn->chan[i])
			continue;
		sock = tagrv_container_of(conn->chan[i], struct storm_sock, chan);
		if (sock->flying || !sock->far || sock->far->flying ||
		    tagrv_wireup_job_waits(&sock->job))
			return false;
	}
	return true;
}

static inline void storm_retire(struct storm_proc *proc, unsigned who)
{
	struct storm_peer *peer = proc->peers[who];

	for (int i = 0; i < 2; i++)
		if (peer->conn.chan[i])
			storm_sock_of(peer->conn.chan[i])->open = false;
	for (int i = 0; i < 2; i++) {
		struct tagrv_chan *chan = peer->conn.chan[i];

		peer->conn.chan[i] = NULL;
		if (chan)
			storm_sock_free(storm_sock_of(chan));
	}
	tagrv_conn_close(&peer->conn);
	tagrv_list_remove(&peer->node);
	free(peer);
	proc->peers[who] = &storm_done;
	storm.machines--;
}

/* Frees closed sockets, and the pairs of machines that have come to rest. */
static inline void storm_reap(struct storm_proc *proc)
{
	unsigned self = (unsigned) (proc - storm.procs);
	struct tagrv_list *node, *tmp;

	tagrv_list_for_each_safe(&proc->ready, node, tmp) {
		struct storm_peer *peer = tagrv_container_of(node, struct storm_peer, node);
		unsigned who = tagrv_addr_port(&peer->conn.addr) - 1000u;
		struct storm_peer *other = storm.procs[who].peers[self];

		if (!other || other == &storm_done || !storm_is_at_rest(peer) ||
		    !storm_is_at_rest(other))
			continue;
		storm_retire(proc, who);
		storm_retire(&storm.procs[who], self);
	}
	tagrv_list_for_each_safe(&proc->dead, node, tmp)
		storm_sock_reap(tagrv_container_of(node, struct storm_sock, node));
}

static inline void storm_read(struct storm_proc *proc)
{
	struct storm_event *ev;

	while ((ev = proc->inbox) != NULL) {
		proc->inbox = ev->next;
		if (!proc->inbox)
			proc->inbox_end = &proc->inbox;
		storm_input(ev);
		ev->sock->flying--;
		storm_sock_reap(ev->sock);
		free(ev->rec);
		free(ev);
		storm_accept(proc);
	}
}

/* One round of the thread's loop. */
static inline void storm_round(struct storm_proc *proc)
{
	struct tagrv_wireup_job *job;
	uint64_t next;

	proc->patient += storm.now - proc->free_at;
	proc->work = 0;
	tagrv_wireup_queue_begin(&proc->queue);
	storm_read(proc);
	storm_reset_late(&proc->silents);
	storm_reset_late(&proc->greeters);
	storm_timers(proc);
	storm_tell(proc);
	tagrv_wireup_queue_begin(&proc->queue);
	while ((job = tagrv_wireup_queue_pop(&proc->queue)) != NULL)
		storm_run_job(tagrv_container_of(job, struct storm_sock, job));
	storm_dial_more(proc);
	storm_reap(proc);
	proc->free_at = storm.now + proc->work;
	proc->patient += proc->work / WORK_SHARE;
	proc->wake_at = 0;
	next = proc->timer_min;
	if (proc->queue.cnt || proc->inbox)
		storm_wake(proc, proc->free_at);
	else if (next)
		storm_wake(proc, proc->free_at +
			   (next > proc->patient ? next - proc->patient : 0));
}

/* -- all ------------------------------------------------------------------------- */

static inline void storm_init_proc(unsigned i, unsigned reach, unsigned full)
{
	struct storm_proc *proc = &storm.procs[i];

	fake_init(&proc->fake);
	proc->fake.ops.link_create = storm_create_link;
	proc->fake.ops.link_bind = storm_bind_link;
	proc->xports[0] = &proc->fake.base;
	proc->host = (struct tagrv_conn_host) {
		.ops = &storm_ops, .xports = proc->xports, .xport_cnt = 1,
		.addr = driver_addr((uint16_t) (1000 + i)),
		.seed = i + 1, .timeout = TIMEOUT, .claims_max = 256,
		.now = &proc->patient,
	};
	memcpy(proc->host.uuid, &proc->host.seed, sizeof(proc->host.seed));
	tagrv_wireup_queue_init(&proc->queue);
	tagrv_list_init(&proc->active);
	tagrv_list_init(&proc->ready);
	tagrv_list_init(&proc->dead);
	tagrv_list_init(&proc->dials);
	tagrv_list_init(&proc->backlog);
	tagrv_list_init(&proc->silents);
	tagrv_list_init(&proc->greeters);
	proc->inbox_end = &proc->inbox;
	proc->full = full;
	proc->free_at = proc->patient = storm.now;
	proc->command = COMMAND;
	proc->dials_max = DIALS;
	proc->reach = reach;
	proc->peers = calloc(reach, sizeof(*proc->peers));
}

static inline void storm_begin(unsigned cnt, unsigned full)
{
	memset(&storm, 0, sizeof(storm));
	storm.now = 1000;
	storm.cnt = cnt;
	storm.procs = calloc(cnt, sizeof(*storm.procs));
	for (unsigned i = 0; i < cnt; i++)
		storm_init_proc(i, cnt, full);
}

/* The processes of the first node have to do with all, and the others with those. */
static inline void storm_begin_nodes(unsigned nodes, unsigned each, unsigned full,
				     uint64_t command)
{
	memset(&storm, 0, sizeof(storm));
	storm.now = 1000;
	storm.cnt = nodes * each;
	storm.procs = calloc(storm.cnt, sizeof(*storm.procs));
	for (unsigned i = 0; i < storm.cnt; i++) {
		storm_init_proc(i, i < each ? storm.cnt : each, full);
		storm.procs[i].command = i < each ? command : command * nodes;
		storm.procs[i].dials_max = i < each ? DIALS : TAGRV_MAX(DIALS / nodes, 1u);
	}
}

static inline void storm_want(unsigned from, unsigned to)
{
	tagrv_conn_want(&storm_peer(&storm.procs[from], to)->conn);
	storm_wake(&storm.procs[from], storm.now);
}

/* Each process wants all that it has to do with. */
static inline void storm_want_all(void)
{
	for (unsigned i = 0; i < storm.cnt; i++) {
		storm.procs[i].wants = true;
		storm_wake(&storm.procs[i], storm.now);
	}
}

/* Runs until nothing happens any more, or something has gone wrong. */
static inline void storm_run(uint64_t until)
{
	while (storm.heap_cnt && !storm.given_up && !storm.resets) {
		struct storm_event *ev = storm_next();

		storm.now = ev->at;
		cr_assert_lt(storm.now, until, "it never ends");
		if (ev->kind != WAKE) {
			*ev->proc->inbox_end = ev;
			ev->proc->inbox_end = &ev->next;
			storm_wake(ev->proc, storm.now);
			continue;
		}
		if (ev->at == ev->proc->wake_at)
			storm_round(ev->proc);
		free(ev);
	}
}

static inline void storm_end(void)
{
	struct tagrv_list *node;

	for (unsigned i = 0; i < storm.cnt; i++) {
		struct storm_proc *proc = &storm.procs[i];

		tagrv_list_splice_tail(&proc->active, &proc->ready);
		while ((node = tagrv_list_pop(&proc->active)) != NULL) {
			struct storm_peer *peer = tagrv_container_of(node, struct storm_peer, node);

			tagrv_conn_close(&peer->conn);
			free(peer);
		}
		free(proc->peers);
	}
	while (storm.socks)
		storm_sock_free(storm.socks);
	while (storm.heap_cnt) {
		struct storm_event *ev = storm_next();

		free(ev->rec);
		free(ev);
	}
	free(storm.heap);
	free(storm.procs);
}

#endif
