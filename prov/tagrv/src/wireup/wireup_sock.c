/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sockets of the wireup thread.
 *
 *   accept --> half-open --first record--> OPEN --hangup--> LINGER --> DEAD
 *   dial ----> CONNECTING ---------------> OPEN                         ^
 *                   '---- error, garbage, silence: close --------------'
 *
 * An accepted socket is half-open until it has sent HELLO and one whole REQ. Anything
 * else, or silence for FIRST_RECORD ms, is taken for a stranger and the socket is reset.
 * If too many are silent (caps.strangers), the oldest one is reset for each new one: a
 * peer sends its HELLO at once, so that it is not among the old ones. Its REQ has to
 * wait for our answer and for its thread, so those that have greeted are reset only
 * if there are too many sockets at all.
 *
 * LINGER makes sure that the last record arrives: to close a socket with unread
 * input resets the TCP connection, and the peer might lose the record. Here, too,
 * the oldest one ends early if there are too many.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

#define FIRST_RECORD	5000	/* ms */
#define LINGER		1000	/* ms */
#define ACCEPT_PAUSE	100	/* ms, when out of files or memory */
#define ACCEPTS_MAX	64	/* per event, so that other sockets have their turn */
#define READS_MAX	4	/* per event, so that other sockets have their turn */
#define TX_MAX		(16 * TAGRV_WIREUP_REC_MAX)	/* bytes stored to send */

static void set_events(struct tagrv_wireup_sock *sock, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = sock };

	(void) epoll_ctl(sock->wireup->epfd, EPOLL_CTL_MOD, sock->fd, &ev);
}

static void on_timer(struct tagrv_wireup_timer *timer)
{
	struct tagrv_wireup_sock *sock =
		tagrv_container_of(timer, struct tagrv_wireup_sock, timer);

	if (sock->state == TAGRV_WIREUP_LINGER)
		tagrv_wireup_sock_close(sock);
	else
		tagrv_wireup_sock_close_stranger(sock);
}

static struct tagrv_wireup_sock *create(struct tagrv_wireup_ep *wep, int fd,
					const struct tagrv_addr *addr, bool dialed,
					uint32_t events)
{
	struct tagrv_wireup *wireup = wep->wireup;
	struct tagrv_wireup_sock *sock = calloc(1, sizeof(*sock));
	struct epoll_event ev = { .events = events, .data.ptr = sock };

	if (!sock)
		return NULL;
	sock->source = TAGRV_WIREUP_SOCK;
	sock->wireup = wireup;
	sock->wep = wep;
	sock->chan.dialed = dialed;
	if (tagrv_wireup_greet_init(sock) ||
	    tagrv_wireup_timer_reserve(&wireup->timers))
		goto free_sock;
	if (epoll_ctl(wireup->epfd, EPOLL_CTL_ADD, fd, &ev))
		goto release_timer;
	sock->fd = fd;
	sock->addr = *addr;
	sock->timer.fn = on_timer;
	tagrv_list_init(&sock->wait_node);
	tagrv_list_push_tail(&wep->socks, &sock->node);
	wireup->socks++;
	return sock;

release_timer:
	tagrv_wireup_timer_release(&wireup->timers, &sock->timer);
free_sock:
	free(sock);
	return NULL;
}

/* -- closing --------------------------------------------------------------- */

void tagrv_wireup_sock_free_slot(struct tagrv_wireup_sock *sock)
{
	if (sock->slot)
		sock->wireup->dialing--;
	sock->slot = false;
}

static bool is_half_open(const struct tagrv_wireup_sock *sock)
{
	return tagrv_list_linked(&sock->wait_node);
}

static void begin_half_open(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	tagrv_list_push_tail(&wireup->silents, &sock->wait_node);
	wireup->silent++;
	tagrv_wireup_timer_set(&wireup->timers, &sock->timer,
			       wireup->now + FIRST_RECORD);
}

static void end_half_open(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (!is_half_open(sock))
		return;
	tagrv_list_remove(&sock->wait_node);
	if (sock->greeted)
		wireup->greeting--;
	else
		wireup->silent--;
	tagrv_wireup_timer_set(&wireup->timers, &sock->timer, 0);
}

void tagrv_wireup_sock_greeted(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (!is_half_open(sock))
		return;
	tagrv_list_remove(&sock->wait_node);
	wireup->silent--;
	tagrv_list_push_tail(&wireup->greeters, &sock->wait_node);
	wireup->greeting++;
	sock->greeted = true;
}

void tagrv_wireup_sock_close(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (sock->state == TAGRV_WIREUP_DEAD)
		return;
	end_half_open(sock);
	if (sock->state == TAGRV_WIREUP_LINGER)
		wireup->lingering--;
	tagrv_wireup_sock_free_slot(sock);
	tagrv_wireup_timer_release(&wireup->timers, &sock->timer);
	/*
	 * If a forked process has a copy of the descriptor, close() alone would
	 * end neither the TCP connection nor the epoll events.
	 */
	(void) epoll_ctl(wireup->epfd, EPOLL_CTL_DEL, sock->fd, NULL);
	shutdown(sock->fd, SHUT_RDWR);
	close(sock->fd);
	free(sock->tx);
	sock->tx = NULL;
	tagrv_hello_fini(&sock->hello);
	sock->state = TAGRV_WIREUP_DEAD;
	sock->chan.conn = NULL;
	sock->wep = NULL;
	wireup->socks--;
	tagrv_list_remove(&sock->node);
	tagrv_list_push_tail(&wireup->dead, &sock->node);
}

void tagrv_wireup_sock_free_dead(struct tagrv_wireup *wireup)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&wireup->dead)) != NULL)
		free(tagrv_container_of(node, struct tagrv_wireup_sock, node));
}

static void close_oldest_linger(struct tagrv_wireup *wireup)
{
	tagrv_wireup_sock_close(
		tagrv_container_of(tagrv_list_first(&wireup->lingers),
				   struct tagrv_wireup_sock, node));
}

void tagrv_wireup_sock_hangup(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (sock->state != TAGRV_WIREUP_OPEN) {
		tagrv_wireup_sock_close(sock);
		return;
	}
	end_half_open(sock);
	tagrv_wireup_sock_free_slot(sock);
	sock->state = TAGRV_WIREUP_LINGER;
	sock->chan.conn = NULL;
	sock->wep = NULL;
	sock->rx_len = 0;
	tagrv_list_remove(&sock->node);
	tagrv_list_push_tail(&wireup->lingers, &sock->node);
	wireup->lingering++;
	tagrv_wireup_timer_set(&wireup->timers, &sock->timer,
			       wireup->now + LINGER);
	if (!sock->tx_len)
		shutdown(sock->fd, SHUT_WR);
	if (wireup->lingering > wireup->caps.strangers)
		close_oldest_linger(wireup);
}

static void count_stranger(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_ep *wep = sock->wep;
	char text[TAGRV_ADDR_STRLEN];

	wep->strangers++;
	if (!wep->logged_stranger)
		tagrv_warn("wireup: closed a connection from %s, which is not "
			   "a peer of ours: a port scanner, or a program with a "
			   "wrong port number? Further ones are only counted\n",
			   tagrv_addr_str(&sock->addr, text, sizeof(text)));
	wep->logged_stranger = true;
}

void tagrv_wireup_sock_close_stranger(struct tagrv_wireup_sock *sock)
{
	/* On a socket that we dialed, the failure to connect is logged instead. */
	if (!sock->chan.dialed)
		count_stranger(sock);
	if (sock->chan.conn)
		tagrv_wireup_peer_lost(sock);
	tagrv_wireup_net_abort(sock->fd);
	tagrv_wireup_sock_close(sock);
}

/* -- accept and dial ----------------------------------------------------- */

static void receive(struct tagrv_wireup_sock *sock);

static void poll_listener(struct tagrv_wireup_ep *wep, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = wep };

	(void) epoll_ctl(wep->wireup->epfd, EPOLL_CTL_MOD, wep->fd, &ev);
	wep->paused = !events;
}

void tagrv_wireup_sock_resume_accept(struct tagrv_wireup_ep *wep)
{
	poll_listener(wep, EPOLLIN);
}

static void pause_accept(struct tagrv_wireup_ep *wep, int status)
{
	poll_listener(wep, 0);
	tagrv_wireup_timer_set(&wep->wireup->timers, &wep->resume,
			       wep->wireup->now + ACCEPT_PAUSE);
	if (!wep->logged_files)
		tagrv_warn("wireup: cannot accept connections for now: %s; "
			   "see ulimit -n\n", fi_strerror(-status));
	wep->logged_files = true;
}

static void reset_oldest(struct tagrv_list *half_opens)
{
	tagrv_wireup_sock_close_stranger(
		tagrv_container_of(tagrv_list_first(half_opens),
				   struct tagrv_wireup_sock, wait_node));
}

static int accept_one(struct tagrv_wireup_ep *wep)
{
	struct tagrv_wireup *wireup = wep->wireup;
	struct tagrv_wireup_sock *sock;
	struct tagrv_addr peer;
	int fd;

	if (wireup->socks >= wireup->caps.accepts)
		return -FI_EMFILE;
	fd = tagrv_wireup_net_accept(wep->fd, &peer);
	if (fd < 0)
		return fd;
	sock = create(wep, fd, &peer, false, EPOLLIN);
	if (!sock) {
		close(fd);
		return -FI_ENOMEM;
	}
	sock->state = TAGRV_WIREUP_OPEN;
	begin_half_open(sock);
	receive(sock);
	if (wireup->silent > wireup->caps.strangers)
		reset_oldest(&wireup->silents);
	if (wireup->greeting > wireup->caps.strangers &&
	    wireup->socks > wireup->caps.socks)
		reset_oldest(&wireup->greeters);
	return 0;
}

void tagrv_wireup_sock_accept(struct tagrv_wireup_ep *wep)
{
	int ret = 0;

	for (int i = 0; i < ACCEPTS_MAX && !wep->paused && !ret; i++)
		ret = accept_one(wep);
	if (ret && ret != -FI_EAGAIN)
		pause_accept(wep, ret);
}

struct tagrv_wireup_sock *tagrv_wireup_sock_dial(struct tagrv_wireup_ep *wep,
						 const struct tagrv_addr *addr,
						 int *status)
{
	struct tagrv_wireup_sock *sock;
	int fd = tagrv_wireup_net_dial(addr);

	if (fd < 0) {
		*status = fd;
		return NULL;
	}
	sock = create(wep, fd, addr, true, EPOLLOUT);
	if (!sock) {
		close(fd);
		*status = -FI_ENOMEM;
		return NULL;
	}
	sock->state = TAGRV_WIREUP_CONNECTING;
	sock->slot = true;
	wep->wireup->dialing++;
	return sock;
}

/* -- output -------------------------------------------------------------- */

/* The next epoll event of the socket reports its end, and on_end() handles it. */
static void shut_down(struct tagrv_wireup_sock *sock)
{
	sock->tx_len = 0;
	set_events(sock, EPOLLIN);
	shutdown(sock->fd, SHUT_RDWR);
}

static void queue_tx(struct tagrv_wireup_sock *sock, const uint8_t *data,
		     size_t len)
{
	if (!sock->tx)
		sock->tx = malloc(TX_MAX);
	/* A peer that does not read TX_MAX bytes is given up. */
	if (!sock->tx || len > TX_MAX - sock->tx_len) {
		shut_down(sock);
		return;
	}
	memcpy(sock->tx + sock->tx_len, data, len);
	sock->tx_len += len;
	set_events(sock, EPOLLIN | EPOLLOUT);
}

/* Returns the bytes that the kernel took, or -1 when the socket is broken. */
static ssize_t try_send(struct tagrv_wireup_sock *sock, const uint8_t *data,
			size_t len)
{
	ssize_t ret = send(sock->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (ret < 0 && (errno == EAGAIN || errno == EWOULDBLOCK ||
			errno == EINTR || errno == ENOBUFS))
		return 0;
	return ret;
}

void tagrv_wireup_sock_put(struct tagrv_wireup_sock *sock, const void *data,
			   size_t len)
{
	const uint8_t *bytes = data;
	ssize_t sent = 0;

	if (sock->state != TAGRV_WIREUP_OPEN)
		return;
	if (!sock->tx_len)
		sent = try_send(sock, bytes, len);
	if (sent < 0)
		shut_down(sock);
	else if ((size_t) sent < len)
		queue_tx(sock, bytes + sent, len - (size_t) sent);
}

void tagrv_wireup_sock_send(struct tagrv_wireup_sock *sock,
			    const struct tagrv_wireup_rec *rec)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len = tagrv_wireup_rec_encode(rec, buf);

	if (sock->state != TAGRV_WIREUP_OPEN)
		return;
	/* Before the HELLOs there is only a REJ for another version. */
	if (sock->hello.state == TAGRV_HELLO_OPEN)
		len = tagrv_hello_seal(&sock->hello, buf, len);
	tagrv_wireup_sock_put(sock, buf, len);
}

static void flush(struct tagrv_wireup_sock *sock)
{
	ssize_t sent;

	if (!sock->tx_len)
		return;
	sent = try_send(sock, sock->tx, sock->tx_len);
	if (sent < 0) {
		shut_down(sock);
		return;
	}
	sock->tx_len -= (size_t) sent;
	memmove(sock->tx, sock->tx + sent, sock->tx_len);
	if (sock->tx_len)
		return;
	set_events(sock, EPOLLIN);
	if (sock->state == TAGRV_WIREUP_LINGER)
		shutdown(sock->fd, SHUT_WR);
}

/* -- input --------------------------------------------------------------- */

void tagrv_wireup_sock_take(struct tagrv_wireup_sock *sock, size_t len)
{
	sock->rx_len -= len;
	memmove(sock->rx, sock->rx + len, sock->rx_len);
}

/* True: the socket was dialed, and the connection has not got it yet. */
static bool is_greeting(const struct tagrv_wireup_sock *sock)
{
	return sock->chan.dialed && sock->hello.state == TAGRV_HELLO_START;
}

/* The other end does not behave like a peer. */
static void give_up(struct tagrv_wireup_sock *sock)
{
	if (is_greeting(sock))
		tagrv_wireup_peer_dialed(sock, -FI_ECONNRESET);
	else
		tagrv_wireup_sock_close_stranger(sock);
}

/* The other end closed the socket, or it broke. */
static void on_end(struct tagrv_wireup_sock *sock)
{
	if (is_greeting(sock)) {
		tagrv_wireup_peer_dialed(sock, -FI_ECONNRESET);
		return;
	}
	if (is_half_open(sock) && sock->rx_len) {
		tagrv_wireup_sock_close_stranger(sock);
		return;
	}
	if (sock->chan.conn)
		tagrv_wireup_peer_lost(sock);
	tagrv_wireup_sock_close(sock);
}

/* A record after the HELLOs; its len bytes are at the front of the buffer. */
static void handle_record(struct tagrv_wireup_sock *sock, size_t len)
{
	ssize_t body = tagrv_hello_unseal(&sock->hello, sock->rx, len);
	struct tagrv_wireup_rec rec;
	int ret = -FI_EINVAL;

	if (body > 0)
		ret = tagrv_wireup_rec_decode(sock->rx, (size_t) body, &rec);
	if (ret && ret != -FI_ENOPROTOOPT) {
		tagrv_wireup_sock_close_stranger(sock);
		return;
	}
	tagrv_wireup_sock_take(sock, len);
	end_half_open(sock);
	tagrv_wireup_sock_free_slot(sock);
	tagrv_wireup_peer_record(sock, &rec, ret);
}

/* Handles every whole record in the buffer. */
static void handle_records(struct tagrv_wireup_sock *sock)
{
	ssize_t len;

	while (sock->state == TAGRV_WIREUP_OPEN && sock->rx_len) {
		len = tagrv_wireup_rec_length(sock->rx, sock->rx_len);
		if (!len || (len > 0 && (size_t) len > sock->rx_len))
			return;
		if (len < 0)
			give_up(sock);
		else if (sock->hello.state == TAGRV_HELLO_START)
			tagrv_wireup_greet(sock, (size_t) len);
		else
			handle_record(sock, (size_t) len);
	}
}

static void receive(struct tagrv_wireup_sock *sock)
{
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t got = recv(sock->fd, sock->rx + sock->rx_len,
				   sizeof(sock->rx) - sock->rx_len, 0);

		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			on_end(sock);
			return;
		}
		sock->rx_len += (size_t) got;
		handle_records(sock);
		if (sock->state != TAGRV_WIREUP_OPEN)
			return;
	}
}

/* LINGER: discards input until the other end closes the socket. */
static void drain(struct tagrv_wireup_sock *sock)
{
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t got = recv(sock->fd, sock->rx, sizeof(sock->rx), 0);

		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK ||
				errno == EINTR))
			return;
		if (got <= 0) {
			tagrv_wireup_sock_close(sock);
			return;
		}
	}
}

static void finish_dial(struct tagrv_wireup_sock *sock)
{
	int ret = tagrv_wireup_net_dialed(sock->fd);

	if (ret) {
		tagrv_wireup_peer_dialed(sock, ret);
		return;
	}
	sock->state = TAGRV_WIREUP_OPEN;
	set_events(sock, EPOLLIN);
	tagrv_wireup_greet_first(sock);
}

void tagrv_wireup_sock_event(struct tagrv_wireup_sock *sock, uint32_t events)
{
	switch (sock->state) {
	case TAGRV_WIREUP_CONNECTING:
		finish_dial(sock);
		break;
	case TAGRV_WIREUP_OPEN:
		if (events & EPOLLOUT)
			flush(sock);
		receive(sock);
		break;
	case TAGRV_WIREUP_LINGER:
		if (events & EPOLLOUT)
			flush(sock);
		drain(sock);
		break;
	case TAGRV_WIREUP_DEAD:
		break;
	}
}
