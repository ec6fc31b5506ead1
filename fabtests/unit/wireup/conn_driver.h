/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A driver for one connection state machine: records its actions, and aborts when the
 * state machine does something that its state does not allow. For unit tests and
 * fuzzing.
 */
#ifndef FABTESTS_UNIT_CONN_DRIVER_H
#define FABTESTS_UNIT_CONN_DRIVER_H

#include <stdio.h>

#include "wireup/conn.h"
#include "unit/wireup/wireup_fake.h"

#define DRIVER_CHANS	8
#define DRIVER_SENT	32

#define driver_require(cond) \
	((cond) ? (void) 0 : driver_die(#cond, __LINE__))

static inline void driver_die(const char *cond, int line)
{
	fprintf(stderr, "conn_driver.h:%d: not so: %s\n", line, cond);
	abort();
}

struct driver_chan {
	struct tagrv_chan chan;
	bool	open;			/* the state machine may use it */
	bool	hung_up;		/* closed by the state machine */
	bool	fresh;			/* the state machine has not got it yet */
	struct tagrv_wireup_rec sent[DRIVER_SENT];
	size_t	sent_cnt;
	void	*wire;			/* for use by the test */
};

struct driver {
	struct fake_xport fake;
	struct fake_xport local;		/* with driver_add_local */
	struct tagrv_xport *xports[2];
	struct tagrv_conn_host host;
	struct tagrv_conn conn;
	struct driver_chan chans[DRIVER_CHANS];
	uint64_t now;
	uint64_t timer_at;
	bool	dial;			/* requested, not answered yet */
	bool	far;			/* REQs come from other hosts than they name */
	bool	no_asks;		/* no listener may be asked */
	bool	here;			/* the listener dialed is on this host, and
					   knows REQ(LOCAL) */
	int	asks, asked_well;	/* counted; confirmed */
	int	hastened;
	int	crowded;
	int	draw_status;
	int	prepare_status;
	int	prepared;		/* events that may still be emitted */
	/* emitted events */
	bool	up, sendable;
	int	ups, sendables, faileds, gones;
	int	agains;		/* GONE with -FI_EAGAIN, not among gones */
	bool	renewing, down;	/* a renewal was asked for */
	int	renewals, unrenewed;
	struct tagrv_wireup_event event;	/* the latest */
	struct tagrv_link *link;		/* of the latest UP */
	/* called with each record sent, if set */
	void	(*on_send)(struct driver *d, struct driver_chan *chan,
			   const struct tagrv_wireup_rec *rec);
	void	(*on_hangup)(struct driver *d, struct driver_chan *chan);
	void	*arg;
};

static inline struct driver *driver_of(struct tagrv_conn_host *host)
{
	return tagrv_container_of(host, struct driver, host);
}

static inline struct driver_chan *driver_chan_of(struct tagrv_chan *chan)
{
	return tagrv_container_of(chan, struct driver_chan, chan);
}

static inline int driver_prepare(struct tagrv_conn *conn)
{
	struct driver *d = driver_of(conn->host);

	if (!d->prepare_status)
		d->prepared = TAGRV_MAX(d->prepared, TAGRV_CONN_EVENTS_PER_EPOCH);
	return d->prepare_status;
}

static inline void driver_free_link(struct driver *d)
{
	if (d->link)
		fake_free(d->link);
	d->link = NULL;
}

/* A new link takes the place of the present one, which is READY. */
static inline void driver_renewed(struct driver *d,
				  const struct tagrv_wireup_event *event)
{
	driver_require(d->up && d->sendable && event->sendable && event->link);
	driver_require(event->resumes == d->event.epoch);
	driver_require((int32_t) (event->epoch - event->resumes) > 0);
	driver_require(fake_link_of(event->link)->peer_id);
	driver_free_link(d);
	d->link = event->link;
	d->renewing = false;
	d->renewals++;
}

static inline void driver_emit(struct tagrv_conn *conn,
			       const struct tagrv_wireup_event *event)
{
	struct driver *d = driver_of(conn->host);

	driver_require(d->prepared-- > 0);
	driver_require(tagrv_addr_equal(&event->addr, &conn->addr));
	switch (event->type) {
	case TAGRV_WIREUP_UP:
		if (event->resumes) {
			driver_renewed(d, event);
			break;
		}
		driver_require(!d->up && event->link && event->epoch);
		driver_require(fake_link_of(event->link)->peer_id);
		d->up = true;
		d->renewing = false;
		d->sendable = event->sendable;
		d->ups++;
		d->link = event->link;
		break;
	case TAGRV_WIREUP_SENDABLE:
		driver_require(d->up && !d->sendable);
		driver_require(event->epoch == d->event.epoch);
		d->sendable = true;
		d->sendables++;
		break;
	case TAGRV_WIREUP_FAILED:
		driver_require(!d->up && event->status < 0);
		d->faileds++;
		break;
	case TAGRV_WIREUP_GONE:
		driver_require(d->up && event->epoch == d->event.epoch);
		/* A link is taken back only when no packet can have been sent. */
		driver_require(event->status != -FI_EAGAIN || !d->sendable);
		d->up = false;
		d->renewing = false;
		d->sendable = false;
		d->gones += event->status != -FI_EAGAIN;
		d->agains += event->status == -FI_EAGAIN;
		driver_free_link(d);
		break;
	case TAGRV_WIREUP_RENEW_FAILED:
		driver_require(d->renewing && !d->down);
		driver_require(event->epoch == d->event.epoch);
		d->renewing = false;
		d->unrenewed++;
		break;
	case TAGRV_WIREUP_TICK:
	case TAGRV_WIREUP_CROWDED:
		driver_require(false);	/* a connection has no such event */
		break;
	}
	d->event = *event;
}

static inline void driver_dial(struct tagrv_conn *conn)
{
	struct driver *d = driver_of(conn->host);

	driver_require(!d->dial);
	d->dial = true;
}

static inline void driver_undial(struct tagrv_conn *conn)
{
	struct driver *d = driver_of(conn->host);

	driver_require(d->dial);
	d->dial = false;
}

static inline void driver_send(struct tagrv_chan *chan,
			       const struct tagrv_wireup_rec *rec)
{
	struct driver_chan *dchan = driver_chan_of(chan);

	driver_require(dchan->open && !dchan->hung_up);
	driver_require(rec->type != TAGRV_WIREUP_REQ || rec->src_epoch);
	if (dchan->sent_cnt < DRIVER_SENT)
		dchan->sent[dchan->sent_cnt++] = *rec;
	if (chan->conn) {
		struct driver *d = driver_of(chan->conn->host);

		if (d->on_send)
			d->on_send(d, dchan, rec);
	}
}

static inline void driver_hangup(struct tagrv_chan *chan)
{
	struct driver_chan *dchan = driver_chan_of(chan);

	driver_require(dchan->open && !dchan->hung_up);
	dchan->hung_up = true;
	dchan->open = false;
}

/* Numbers that a test can guess. */
static inline void driver_nonce(uint8_t *nonce, uint8_t who, uint32_t epoch)
{
	memset(nonce, 0, TAGRV_NONCE_LEN);
	nonce[0] = who;
	memcpy(&nonce[1], &epoch, sizeof(epoch));
}

static inline int driver_draw(struct tagrv_conn *conn, uint8_t *nonce)
{
	struct driver *d = driver_of(conn->host);

	driver_nonce(nonce, d->host.uuid[0], d->host.epoch + 1);
	nonce[15] = d->host.uuid[1];
	return d->draw_status;
}

static inline bool driver_may_ask(struct tagrv_conn *conn,
				  const struct tagrv_chan *claimer)
{
	struct driver *d = driver_of(conn->host);

	(void) claimer;
	d->asks += !d->no_asks;
	return !d->no_asks;
}

static inline void driver_asked_well(struct tagrv_conn *conn,
				     const struct tagrv_chan *claimer)
{
	struct driver *d = driver_of(conn->host);

	driver_require(claimer == conn->claim->claimer);
	driver_require(++d->asked_well <= d->asks);
}

static inline void driver_hasten(struct tagrv_conn *conn)
{
	driver_require(driver_of(conn->host)->dial);
	driver_of(conn->host)->hastened++;
}

static inline void driver_crowded(struct tagrv_conn *conn)
{
	driver_of(conn->host)->crowded++;
}

static inline void driver_timer(struct tagrv_conn *conn, uint64_t at)
{
	driver_of(conn->host)->timer_at = at;
}

static const struct tagrv_conn_ops driver_ops = {
	.prepare = driver_prepare,
	.emit = driver_emit,
	.dial = driver_dial,
	.hasten = driver_hasten,
	.undial = driver_undial,
	.send = driver_send,
	.hangup = driver_hangup,
	.draw = driver_draw,
	.may_ask = driver_may_ask,
	.asked_well = driver_asked_well,
	.crowded = driver_crowded,
	.timer = driver_timer,
};

static inline struct tagrv_addr driver_addr(uint16_t port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct tagrv_addr addr;

	driver_require(!tagrv_addr_from(&addr, &in, sizeof(in)));
	return addr;
}

/* 'who' is the first byte of the uuid; the listener is at port 1000 + who. */
static inline void driver_init(struct driver *d, uint8_t who, uint8_t peer)
{
	struct tagrv_addr addr = driver_addr((uint16_t) (1000 + peer));

	memset(d, 0, sizeof(*d));
	fake_init(&d->fake);
	d->now = 1000;
	d->prepared = 1;	/* the connect command */
	d->host.ops = &driver_ops;
	d->xports[0] = &d->fake.base;
	d->host.xports = d->xports;
	d->host.xport_cnt = 1;
	d->host.addr = driver_addr((uint16_t) (1000 + who));
	d->host.features = TAGRV_WIRE_FEATURES;
	d->host.uuid[0] = who;
	d->host.seed = who;
	d->host.timeout = 30000;
	d->host.claims_max = 2;
	d->host.now = &d->now;
	tagrv_conn_init(&d->conn, &d->host, &addr);
}

/* Adds a second transport, preferred to the first one. */
static inline void driver_add_local(struct driver *d)
{
	fake_init(&d->local);
	d->local.ops.wire_id = FAKE_LOCAL_ID;
	d->local.base.attr.max_packet = 2048;
	d->local.base.attr.caps = TAGRV_XPORT_LOCAL;
	d->xports[0] = &d->local.base;
	d->xports[1] = &d->fake.base;
	d->host.xport_cnt = 2;
}

static inline bool driver_is_local(const struct driver *d)
{
	driver_require(d->link);
	return d->link->xport == &d->local.base;
}

static inline bool driver_keeps(const struct driver *d,
				const struct tagrv_chan *chan)
{
	const struct tagrv_conn *conn = &d->conn;

	return conn->chan[chan->dialed] == chan ||
	       (conn->claim && (conn->claim->claimer == chan || conn->claim->ask_chan == chan));
}

/* A claim has a channel, an end, and something that leads to its answer. */
static inline void driver_check_claim(const struct driver *d)
{
	const struct tagrv_conn *conn = &d->conn;

	driver_require(d->host.claims == (conn->claim != NULL));
	driver_require(!conn->claim || d->timer_at);
	driver_require(!conn->claim || conn->claim->claimer->conn == conn);
}

/* Checks what must hold between any two events. Messages that are not needed are freed. */
static inline void driver_check(struct driver *d)
{
	int links = d->link != NULL;

	d->prepared = TAGRV_MIN(d->prepared, tagrv_conn_events_left(&d->conn));

	for (size_t i = 0; d->conn.offer && i < d->host.xport_cnt; i++)
		links += d->conn.offer->links[i] != NULL;
	links += d->conn.renew->link != NULL;
	driver_require(!d->conn.offer == (!d->conn.epoch || tagrv_conn_is_bound(&d->conn)));
	driver_require(!d->conn.blob == !tagrv_conn_is_bound(&d->conn));
	driver_require((d->conn.renew == &tagrv_conn_at_rest) ==
		       !(d->conn.renew->wanted || d->conn.renew->state));
	driver_require(d->fake.alive + d->local.alive == links);
	driver_require(!d->up || d->link);
	driver_require(d->dial == (d->conn.dial == TAGRV_CONN_DIALING));
	for (int i = 0; i < DRIVER_CHANS; i++) {
		const struct driver_chan *chan = &d->chans[i];

		/* The state machine keeps each open channel, or it would never be closed. */
		driver_require(!chan->open || chan->fresh ||
			       driver_keeps(d, &chan->chan));
		driver_require(chan->open || !chan->chan.conn);
	}
	driver_check_claim(d);
	switch (d->conn.state) {
	case TAGRV_CONN_IDLE:
		driver_require(d->conn.claim || (!d->timer_at && !d->dial));
		driver_require(!d->conn.avoid);
		driver_require(links == (d->link != NULL));
		driver_require(!d->conn.chan[0] && !d->conn.chan[1]);
		break;
	case TAGRV_CONN_WANTED:
		/* Something will happen: a dial, a record or a timer. */
		driver_require(d->dial || d->timer_at);
		driver_require(!d->up);
		break;
	case TAGRV_CONN_BOUND:
		driver_require(d->up && !d->sendable && (d->dial || d->timer_at));
		break;
	case TAGRV_CONN_READY:
		driver_require(d->up && d->sendable);
		driver_require(d->conn.sockets_closed || d->conn.chan[0] ||
			       d->conn.chan[1] || d->dial || d->timer_at);
		break;
	}
}

/* Opens a channel, dialed by this end or by the peer. NULL: too many. */
static inline struct driver_chan *driver_open(struct driver *d, bool dialed)
{
	for (int i = 0; i < DRIVER_CHANS; i++) {
		struct driver_chan *chan = &d->chans[i];

		if (chan->open || chan->wire)
			continue;
		memset(chan, 0, sizeof(*chan));
		chan->open = true;
		chan->fresh = true;
		chan->chan.dialed = dialed;
		return chan;
	}
	return NULL;
}

/* A dial that waits for its turn has it; nobody answers yet. */
static inline void driver_begin_dial(struct driver *d)
{
	if (d->dial && d->conn.queued)
		tagrv_conn_dialing(&d->conn);
	driver_check(d);
}

/* The requested dial succeeds. */
static inline struct driver_chan *driver_answer_dial(struct driver *d)
{
	struct driver_chan *chan = driver_open(d, true);

	driver_require(d->dial && chan);
	tagrv_conn_dialing(&d->conn);
	d->dial = false;
	chan->fresh = false;
	chan->chan.local = d->here;
	tagrv_conn_dialed(&d->conn, &chan->chan);
	driver_check(d);
	return chan;
}

static inline void driver_fail_dial(struct driver *d, int status)
{
	driver_require(d->dial);
	tagrv_conn_dialing(&d->conn);
	d->dial = false;
	tagrv_conn_dial_failed(&d->conn, status);
	driver_check(d);
}

/* Gives a record to the state machine as wireup_dispatch.c does. */
static inline void driver_record(struct driver *d, struct driver_chan *chan,
				 const struct tagrv_wireup_rec *rec)
{
	int reason = tagrv_conn_screen(&d->host, rec);
	bool first = !chan->chan.conn;

	chan->fresh = false;
	if (rec->type == TAGRV_WIREUP_ASK) {
		tagrv_conn_answer(&d->host, &chan->chan, rec,
				  tagrv_conn_sent_req(&d->conn, rec));
		if (first)
			driver_hangup(&chan->chan);
		driver_check(d);
		return;
	}
	if (first)
		chan->chan.near = !d->far;
	if (first && reason == TAGRV_WIREUP_OK &&
	    rec->type == TAGRV_WIREUP_REQ && rec->dst_epoch &&
	    !tagrv_conn_has_epoch(&d->conn, rec->dst_epoch))
		reason = TAGRV_WIREUP_STALE;
	if (reason == TAGRV_WIREUP_OK &&
	    (!first || rec->type == TAGRV_WIREUP_REQ)) {
		tagrv_conn_record(&d->conn, &chan->chan, rec);
	} else if (first) {
		if (reason > 0)
			tagrv_conn_reject(&d->host, &chan->chan, rec,
					  (enum tagrv_wireup_reason) reason);
		driver_hangup(&chan->chan);
	}
	driver_check(d);
}

static inline void driver_close(struct driver *d, struct driver_chan *chan)
{
	chan->open = false;
	chan->fresh = false;
	if (chan->chan.conn)
		tagrv_conn_closed(&d->conn, &chan->chan);
	driver_check(d);
}

static inline void driver_run_timer(struct driver *d)
{
	driver_require(d->timer_at);
	d->now = TAGRV_MAX(d->now, d->timer_at);
	d->timer_at = 0;
	tagrv_conn_timer(&d->conn);
	driver_check(d);
}

/* The channel on which the latest ASK was sent, NULL: none yet. */
static inline struct driver_chan *driver_asked(struct driver *d)
{
	struct driver_chan *chan;

	for (int i = 0; i < DRIVER_CHANS; i++) {
		chan = &d->chans[i];
		if (!chan->open)
			continue;
		for (size_t n = chan->sent_cnt; n-- > 0;)
			if (chan->sent[n].type == TAGRV_WIREUP_ASK)
				return chan;
	}
	return NULL;
}

/* The listener that a claim names says whether it sent the REQ. */
static inline void driver_answer(struct driver *d, bool yes)
{
	struct driver_chan *chan = driver_asked(d);
	struct tagrv_wireup_rec rec = {
		.type = TAGRV_WIREUP_ANSWER,
		.reason = yes ? TAGRV_WIREUP_OK : TAGRV_WIREUP_STALE,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
	};

	driver_require(d->conn.claim);
	if (!chan)
		driver_answer_dial(d);
	chan = driver_asked(d);
	driver_require(chan);
	memcpy(rec.src_uuid, d->conn.claim->rec.src_uuid, TAGRV_UUID_LEN);
	memcpy(rec.src_nonce, d->conn.claim->rec.src_nonce, TAGRV_NONCE_LEN);
	memcpy(rec.dst_uuid, d->host.uuid, TAGRV_UUID_LEN);
	driver_record(d, chan, &rec);
}

static inline void driver_want(struct driver *d)
{
	d->prepared = TAGRV_MAX(d->prepared, 1);
	tagrv_conn_want(&d->conn);
	driver_check(d);
}

static inline void driver_renew(struct driver *d, bool down, unsigned patience)
{
	if (!d->up || d->renewing || d->conn.epoch != d->event.epoch)
		return;
	d->renewing = true;
	d->down = down;
	d->prepared++;
	tagrv_conn_renew(&d->conn, d->event.epoch, down, patience);
	driver_check(d);
}

/* The driver finds too many sockets, if it may close this connection's. */
static inline void driver_save_socket(struct driver *d)
{
	if (tagrv_conn_has_spare_socket(&d->conn)) {
		tagrv_conn_close_sockets(&d->conn);
		driver_require(!d->conn.chan[0] && !d->conn.chan[1]);
	}
	driver_check(d);
}

static inline void driver_drop(struct driver *d)
{
	uint32_t epoch = d->event.epoch;

	if (!d->up)
		return;
	d->up = false;
	d->renewing = false;
	driver_free_link(d);
	tagrv_conn_drop(&d->conn, epoch);
	driver_require(d->conn.epoch != epoch);
	driver_check(d);
}

/* Ends the state machine: whatever its state, no object may be left. */
static inline void driver_fini(struct driver *d)
{
	tagrv_conn_close(&d->conn);
	d->up = false;
	driver_free_link(d);
	driver_check(d);
	driver_require(d->fake.alive + d->local.alive == 0);
}

/* A record from peer 'who', about the connection as it is now. */
static inline struct tagrv_wireup_rec
driver_rec(const struct driver *d, enum tagrv_wireup_rec_type type,
	   uint8_t who, uint32_t epoch)
{
	struct tagrv_wireup_rec rec = {
		.type = type,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
		.features = TAGRV_WIRE_FEATURES,
		.src_uuid = { who },
		.src_epoch = epoch,
		.max_packet = 2048,
		.addr = d->conn.addr,
		.link_cnt = 1,
		.links[0] = {
			.wire_id = FAKE_WIRE_ID,
			.len = 8,
			.max_packet = 2048,
			.data = { who, (uint8_t) epoch },
		},
	};

	driver_nonce(rec.src_nonce, who, epoch);
	if (type != TAGRV_WIREUP_REQ) {
		memcpy(rec.dst_uuid, d->host.uuid, TAGRV_UUID_LEN);
		memcpy(rec.dst_nonce, d->conn.nonce, TAGRV_NONCE_LEN);
		rec.dst_epoch = d->conn.epoch;
	}
	return rec;
}

/* The latest record sent, questions about claims apart. */
static inline const struct tagrv_wireup_rec *
driver_last(const struct driver_chan *chan)
{
	size_t n = chan->sent_cnt;

	while (n && chan->sent[n - 1].type == TAGRV_WIREUP_ASK)
		n--;
	driver_require(n);
	return &chan->sent[n - 1];
}

#endif
