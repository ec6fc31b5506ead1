/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints with wireup over loopback for tests, and raw sockets that act as peers.
 */
#ifndef FABTESTS_UNIT_WIREUP_FIXTURE_H
#define FABTESTS_UNIT_WIREUP_FIXTURE_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/caught_log.h"
#include "common/slowness.h"
#include "wireup/wireup.h"
#include "wireup/wireup_hello.h"
#include "wireup/wireup_rec.h"
#include "unit/wireup/wireup_fake.h"

/* ms until a test gives up on an event */
#define PATIENCE	slow_ms(20000)

/* -- endpoints ----------------------------------------------------------- */

struct ep {
	struct fake_xport fake;
	struct tagrv_xport *xports[1];
	struct tagrv_wireup *wireup;
	struct tagrv_wireup_ep *wep;
	struct tagrv_addr name;
	int	kick_fd;
	/* events that poll_all() has counted */
	int	ups, sendables, faileds, gones, ticks;
	bool	one_peer;		/* a second UP replaces the first one, whose link is freed */
	struct tagrv_wireup_event up, failed, gone;	/* the latest */
};

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static inline void kick(void *arg)
{
	struct ep *ep = arg;
	uint64_t one = 1;

	cr_assert_eq(write(ep->kick_fd, &one, sizeof(one)), sizeof(one));
}

static inline struct tagrv_addr loopback(uint16_t port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct tagrv_addr addr;

	cr_assert_eq(tagrv_addr_from(&addr, &in, sizeof(in)), 0);
	return addr;
}

/* Of the endpoints that are opened next; NULL, 0: none. */
static const struct tagrv_auth_key *open_key;

static unsigned open_sockets;

static inline int try_open(struct ep *ep, struct tagrv_wireup *wireup,
		    struct tagrv_addr addr, int timeout)
{
	struct tagrv_wireup_attr attr = {
		.addr = addr,
		.xports = ep->xports,
		.xport_cnt = 1,
		.connect_timeout = timeout,
		.key = open_key,
		.max_sockets = open_sockets,
		.kick = kick,
		.kick_arg = ep,
	};
	int ret;

	memset(ep, 0, sizeof(*ep));
	fake_init(&ep->fake);
	ep->xports[0] = &ep->fake.base;
	ep->wireup = wireup;
	ep->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ret = tagrv_wireup_listen(wireup, &attr, &ep->wep);
	if (ret) {
		close(ep->kick_fd);
		return ret;
	}
	tagrv_wireup_name(ep->wep, &ep->name);
	return 0;
}

static inline void open_ep(struct ep *ep, struct tagrv_wireup *wireup, int timeout)
{
	cr_assert_eq(try_open(ep, wireup, loopback(0), timeout), 0);
}

static inline void close_ep(struct ep *ep)
{
	tagrv_wireup_unlisten(ep->wep);
	close(ep->kick_fd);
}

static inline void collect(struct ep *ep)
{
	struct tagrv_wireup_event event;

	while (tagrv_wireup_poll(ep->wep, &event)) {
		switch (event.type) {
		case TAGRV_WIREUP_UP:
			cr_assert_neq(fake_link_of(event.link)->peer_id, 0);
			ep->ups++;
			ep->sendables += event.sendable;
			if (ep->one_peer && ep->up.link)
				fake_free(ep->up.link);
			ep->up = event;
			break;
		case TAGRV_WIREUP_SENDABLE:
			ep->sendables++;
			break;
		case TAGRV_WIREUP_FAILED:
			ep->faileds++;
			ep->failed = event;
			break;
		case TAGRV_WIREUP_GONE:
			ep->gones++;
			ep->gone = event;
			break;
		case TAGRV_WIREUP_RENEW_FAILED:
		case TAGRV_WIREUP_TICK:
		case TAGRV_WIREUP_CROWDED:
			ep->ticks++;
			break;
		}
	}
}

/* Polls until *what is at least 'least'. */
static inline void await(struct ep *ep, const int *what, int least)
{
	uint64_t end = now_ms() + PATIENCE;
	struct pollfd pfd = { .fd = ep->kick_fd, .events = POLLIN };
	uint64_t count;

	collect(ep);
	while (*what < least) {
		cr_assert_lt(now_ms(), end, "waited for %d, got %d", least,
			     *what);
		poll(&pfd, 1, 100);
		(void) !read(ep->kick_fd, &count, sizeof(count));
		collect(ep);
	}
}

static inline void connect_ep(struct ep *from, const struct ep *to)
{
	cr_assert_eq(tagrv_wireup_connect(from->wep, &to->name), 0);
}

static inline struct tagrv_wireup *create(void)
{
	struct tagrv_wireup *wireup;

	cr_assert_eq(tagrv_wireup_create(&wireup), 0);
	return wireup;
}

/* The links of both latest UPs point to each other. */
static inline void check_pair(const struct ep *a, const struct ep *b)
{
	cr_assert_eq(fake_link_of(a->up.link)->peer_id,
		     fake_link_of(b->up.link)->id);
	cr_assert_eq(fake_link_of(b->up.link)->peer_id,
		     fake_link_of(a->up.link)->id);
}

static inline void free_pair(struct ep *a, struct ep *b)
{
	fake_free(a->up.link);
	fake_free(b->up.link);
	close_ep(a);
	close_ep(b);
}

/* -- raw sockets that act as peers ---------------------------------------- */

struct raw {
	int	fd;
	int	home;			/* its listener, -1: none */
	struct tagrv_hello hello;
	struct tagrv_wireup_rec mine;	/* identity that the raw peer claims */
};

/* A listener for raw peers. */
static inline int home_open(struct tagrv_addr *addr)
{
	struct tagrv_addr any = loopback(0);
	socklen_t len = sizeof(any.in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, &any.sa, len), 0);
	cr_assert_eq(listen(fd, 64), 0);
	cr_assert_eq(getsockname(fd, &any.sa, &len), 0);
	*addr = loopback(tagrv_addr_port(&any));
	return fd;
}

/* Reads one whole record. Returns its length, 0: the connection has ended. */
static inline size_t raw_read(struct raw *raw, uint8_t buf[TAGRV_WIREUP_REC_MAX])
{
	ssize_t len = TAGRV_WIREUP_REC_HEAD;
	ssize_t got = recv(raw->fd, buf, (size_t) len, MSG_WAITALL);

	if (got <= 0) {
		cr_assert(got == 0 || errno == ECONNRESET || errno == EPIPE,
			  "nothing came in time");
		return 0;
	}
	cr_assert_eq(got, len);
	len = tagrv_wireup_rec_length(buf, (size_t) got);
	cr_assert_gt(len, 0);
	if (len > got)
		cr_assert_eq(recv(raw->fd, buf + got, (size_t) (len - got),
				  MSG_WAITALL), len - got);
	return (size_t) len;
}

/* Connects to an endpoint, and says nothing yet. */
static inline void raw_dial(struct raw *raw, const struct ep *to, uint8_t who)
{
	struct timeval limit = { .tv_sec = PATIENCE / 1000 };

	memset(raw, 0, sizeof(*raw));
	raw->home = -1;
	raw->mine.type = TAGRV_WIREUP_REQ;
	raw->mine.version_min = TAGRV_WIRE_VERSION_MIN;
	raw->mine.version_max = TAGRV_WIRE_VERSION;
	memset(raw->mine.src_uuid, who, TAGRV_UUID_LEN);
	memset(raw->mine.src_nonce, who + 100, TAGRV_NONCE_LEN);
	raw->mine.src_epoch = 1;
	raw->mine.max_packet = 1000;
	raw->mine.addr = loopback(1);
	raw->mine.link_cnt = 1;
	raw->mine.links[0].wire_id = FAKE_WIRE_ID;
	raw->mine.links[0].len = 8;
	raw->mine.links[0].max_packet = 1000;
	raw->mine.links[0].data[0] = who;
	raw->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(raw->fd, 0);
	cr_assert_eq(connect(raw->fd, &to->name.sa, sizeof(to->name.in)), 0);
	setsockopt(raw->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

/* Exchanges HELLOs as the dialer; returns what tagrv_hello_answered() says. */
static inline int raw_hello(struct raw *raw, const struct ep *to,
			    const struct tagrv_auth_key *key)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len;

	cr_assert_eq(tagrv_hello_init(&raw->hello, key, true), 0);
	len = tagrv_hello_first(&raw->hello, buf);
	cr_assert_eq(send(raw->fd, buf, len, MSG_NOSIGNAL), (ssize_t) len);
	len = raw_read(raw, buf);
	return len ? tagrv_hello_answered(&raw->hello, buf, len, &to->name) :
		     -FI_ECONNRESET;
}

static inline void raw_open(struct raw *raw, const struct ep *to, uint8_t who)
{
	raw_dial(raw, to, who);
	cr_assert_eq(raw_hello(raw, to, open_key), 0);
}

/* Accepts a socket at a raw peer's listener, and exchanges HELLOs. */
static inline void home_accept(int home, struct raw *raw)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX], answer[TAGRV_HELLO_MAX];
	struct tagrv_addr addr = loopback(1);
	size_t len, answer_len;

	raw->fd = accept(home, NULL, NULL);
	cr_assert_geq(raw->fd, 0);
	cr_assert_eq(tagrv_hello_init(&raw->hello, NULL, false), 0);
	len = raw_read(raw, buf);
	cr_assert_eq(tagrv_hello_answer(&raw->hello, buf, len, &addr, answer,
					&answer_len), 0);
	cr_assert_eq(send(raw->fd, answer, answer_len, MSG_NOSIGNAL),
		     (ssize_t) answer_len);
}

static inline void raw_send(struct raw *raw)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len = tagrv_wireup_rec_encode(&raw->mine, buf);

	if (raw->hello.state == TAGRV_HELLO_OPEN)
		len = tagrv_hello_seal(&raw->hello, buf, len);
	cr_assert_eq(send(raw->fd, buf, len, MSG_NOSIGNAL), (ssize_t) len);
}

/* Returns 1 for a record, 0 at the end of the connection. */
static inline int raw_recv(struct raw *raw, struct tagrv_wireup_rec *rec)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	ssize_t len = (ssize_t) raw_read(raw, buf);

	if (!len)
		return 0;
	if (raw->hello.state == TAGRV_HELLO_OPEN)
		len = tagrv_hello_unseal(&raw->hello, buf, (size_t) len);
	cr_assert_gt(len, 0);
	cr_assert_eq(tagrv_wireup_rec_decode(buf, (size_t) len, rec), 0);
	return 1;
}

/* From here on, the records of the raw peer name the link in this record. */
static inline void raw_name_link(struct raw *raw,
				 const struct tagrv_wireup_rec *rec)
{
	memcpy(raw->mine.dst_uuid, rec->src_uuid, TAGRV_UUID_LEN);
	memcpy(raw->mine.dst_nonce, rec->src_nonce, TAGRV_NONCE_LEN);
	raw->mine.dst_epoch = rec->src_epoch;
}

/*
 * Answers one question at the listener: yes, if it is about the REQ with this
 * nonce. Returns the answer.
 */
static inline bool home_answer(int home, const uint8_t *nonce)
{
	struct tagrv_wireup_rec rec;
	struct raw asker;
	bool yes;

	home_accept(home, &asker);
	cr_assert_eq(raw_recv(&asker, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_ASK);
	yes = nonce && !memcmp(rec.dst_nonce, nonce, TAGRV_NONCE_LEN);
	asker.mine = (struct tagrv_wireup_rec) {
		.type = TAGRV_WIREUP_ANSWER,
		.reason = yes ? TAGRV_WIREUP_OK : TAGRV_WIREUP_STALE,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
		.src_epoch = rec.dst_epoch,
		.dst_epoch = rec.src_epoch,
	};
	memcpy(asker.mine.src_uuid, rec.dst_uuid, TAGRV_UUID_LEN);
	memcpy(asker.mine.dst_uuid, rec.src_uuid, TAGRV_UUID_LEN);
	memcpy(asker.mine.src_nonce, rec.dst_nonce, TAGRV_NONCE_LEN);
	raw_send(&asker);
	close(asker.fd);
	return yes;
}

/* Waits for a record; answers at the peer's listener meanwhile. */
static inline int raw_recv_answering(struct raw *raw, struct tagrv_wireup_rec *rec)
{
	struct pollfd pfds[2] = {
		{ .fd = raw->fd, .events = POLLIN },
		{ .fd = raw->home, .events = POLLIN },
	};

	for (;;) {
		cr_assert_gt(poll(pfds, 2, (int) PATIENCE), 0);
		if (pfds[0].revents)
			return raw_recv(raw, rec);
		home_answer(raw->home, raw->mine.src_nonce);
	}
}

/* Does a whole handshake as the active side whose listener is 'home' (-1: none). */
static inline void raw_connect_from(struct raw *raw, struct ep *to, uint8_t who,
				    uint32_t epoch, int home,
				    const struct tagrv_addr *addr)
{
	struct tagrv_wireup_rec rec;
	int sendables;

	collect(to);
	sendables = to->sendables;
	raw_open(raw, to, who);
	raw->home = home;
	if (home >= 0)
		raw->mine.addr = *addr;
	raw->mine.src_epoch = epoch;
	raw->mine.src_nonce[0] = (uint8_t) epoch;
	raw_send(raw);
	cr_assert_eq(raw_recv_answering(raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
	cr_assert_eq(rec.dst_epoch, epoch);
	raw->mine.type = TAGRV_WIREUP_RTU;
	raw_name_link(raw, &rec);
	raw_send(raw);
	await(to, &to->sendables, sendables + 1);
}

static inline void raw_connect(struct raw *raw, struct ep *to, uint8_t who,
			       uint32_t epoch)
{
	raw_connect_from(raw, to, who, epoch, -1, NULL);
}

#endif
