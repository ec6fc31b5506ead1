/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many processes that connect at once: state machines, the queue of their threads' work,
 * and a network and a clock that are simulated. A command of a device takes COMMAND ms in
 * the one thread of its process. The threads do what wireup_admit.c and wireup_peer.c do.
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
	struct storm_sock *far, *next;
	uint64_t half_until, tell_at;
	bool	open, greeted;
};

struct storm_peer {
	struct tagrv_conn conn;
	struct tagrv_list dial_node;
	struct storm_sock *dialing;
	uint64_t timer_at;
};

struct storm_proc {
	struct tagrv_conn_host host;
	struct fake_xport fake;
	struct tagrv_xport *xports[1];
	struct tagrv_wireup_queue queue;
	struct storm_peer **peers;	/* by the other process */
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
	storm.socks = sock;
	return sock;
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
	storm_peer_of(conn)->timer_at = at;
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
	tagrv_container_of(fake_of(xport), struct storm_proc, fake)->work += COMMAND;
	return fake_create(xport, blob, len, link);
}

static inline int storm_bind_link(struct tagrv_link *link, const void *blob, size_t len)
{
	tagrv_container_of(fake_of(link->xport), struct storm_proc, fake)->work += COMMAND;
	return fake_bind(link, blob, len);
}

/* -- a thread ------------------------------------------------------------------- */

static inline struct storm_peer *storm_peer(struct storm_proc *proc, unsigned who)
{
	struct tagrv_addr addr = driver_addr((uint16_t) (1000 + who));
	struct storm_peer *peer = proc->peers[who];

	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer));
	tagrv_list_init(&peer->dial_node);
	tagrv_conn_init(&peer->conn, &proc->host, &addr);
	proc->peers[who] = peer;
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

static inline void storm_run_job(struct storm_sock *sock)
{
	struct tagrv_wireup_rec *rec = sock->held;

	tagrv_wireup_queue_remove(&sock->proc->queue, &sock->job);
	sock->held = NULL;
	storm_handle(sock, rec);
	free(rec);
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
	}
	sock->tell_at = storm.now + TELL;
	tagrv_wireup_queue_push(&proc->queue, &sock->job, what);
}

static inline void storm_record(struct storm_sock *sock, const struct tagrv_wireup_rec *rec)
{
	struct storm_proc *proc = sock->proc;
	struct storm_peer *peer;

	storm_end_half_open(sock);
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
				tagrv_wireup_job_waits(&sock->far->job) ? "waiting" : "no");
		storm.resets++;
		storm_close(sock);
	}
}

static inline void storm_dial_more(struct storm_proc *proc)
{
	struct tagrv_list *node;

	while (proc->dialing < DIALS &&
	       tagrv_wireup_queue_may_dial(&proc->queue, proc->opening) &&
	       (node = tagrv_list_pop(&proc->dials)) != NULL) {
		struct storm_peer *peer = tagrv_container_of(node, struct storm_peer,
							     dial_node);
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

			if (!sock->held || storm.now < sock->tell_at ||
			    sock->held->type == TAGRV_WIREUP_ANSWER)
				continue;
			sock->tell_at = storm.now + TELL;
			tagrv_conn_tell_wait(&proc->host, &sock->chan, sock->held);
		}
}

/* Timers. Returns when the next one is due, 0: none is set. */
static inline uint64_t storm_timers(struct storm_proc *proc, bool run)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < storm.cnt; i++) {
		struct storm_peer *peer = proc->peers[i];

		if (run && peer && peer->timer_at && peer->timer_at <= proc->patient) {
			peer->timer_at = 0;
			tagrv_conn_timer(&peer->conn);
		}
		if (peer && peer->timer_at && (!next || peer->timer_at < next))
			next = peer->timer_at;
	}
	return next;
}

static inline void storm_read(struct storm_proc *proc)
{
	struct storm_event *ev;

	while ((ev = proc->inbox) != NULL) {
		proc->inbox = ev->next;
		if (!proc->inbox)
			proc->inbox_end = &proc->inbox;
		storm_input(ev);
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
	storm_timers(proc, true);
	storm_tell(proc);
	tagrv_wireup_queue_begin(&proc->queue);
	while ((job = tagrv_wireup_queue_pop(&proc->queue)) != NULL)
		storm_run_job(tagrv_container_of(job, struct storm_sock, job));
	storm_dial_more(proc);
	proc->free_at = storm.now + proc->work;
	proc->patient += proc->work / WORK_SHARE;
	proc->wake_at = 0;
	next = storm_timers(proc, false);
	if (proc->queue.cnt || proc->inbox)
		storm_wake(proc, proc->free_at);
	else if (next)
		storm_wake(proc, proc->free_at +
			   (next > proc->patient ? next - proc->patient : 0));
}

/* -- all ------------------------------------------------------------------------- */

static inline void storm_begin(unsigned cnt, unsigned full)
{
	memset(&storm, 0, sizeof(storm));
	storm.now = 1000;
	storm.cnt = cnt;
	storm.procs = calloc(cnt, sizeof(*storm.procs));
	for (unsigned i = 0; i < cnt; i++) {
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
		tagrv_list_init(&proc->dials);
		tagrv_list_init(&proc->backlog);
		tagrv_list_init(&proc->silents);
		tagrv_list_init(&proc->greeters);
		proc->inbox_end = &proc->inbox;
		proc->full = full;
		proc->free_at = proc->patient = storm.now;
		proc->peers = calloc(cnt, sizeof(*proc->peers));
	}
}

static inline void storm_want(unsigned from, unsigned to)
{
	tagrv_conn_want(&storm_peer(&storm.procs[from], to)->conn);
	storm_wake(&storm.procs[from], storm.now);
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
	struct storm_sock *sock;

	for (unsigned i = 0; i < storm.cnt; i++) {
		for (unsigned j = 0; j < storm.cnt; j++) {
			if (storm.procs[i].peers[j])
				tagrv_conn_close(&storm.procs[i].peers[j]->conn);
			free(storm.procs[i].peers[j]);
		}
		free(storm.procs[i].peers);
	}
	while ((sock = storm.socks) != NULL) {
		storm.socks = sock->next;
		free(sock->held);
		free(sock);
	}
	while (storm.heap_cnt) {
		struct storm_event *ev = storm_next();

		free(ev->rec);
		free(ev);
	}
	free(storm.heap);
	free(storm.procs);
}

#endif
