/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The sockets of the wireup thread: their states, from accept or dial to the end.
 *
 *   accept --> half-open --first REQ--> OPEN --hangup--> LINGER --> DEAD
 *   dial ----> CONNECTING ------------> OPEN                         ^
 *                   '---- error, garbage, silence: close ------------'
 *
 * LINGER makes sure that the last record arrives: to close a socket with unread
 * input resets the TCP connection, and the peer might lose the record. The oldest one
 * ends early if there are too many.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

#define LINGER		1000	/* ms */
/* ms that a socket may take to connect before others need not wait for it: its host does not
 * answer, perhaps never. */
#define CONNECT_SOON	1000

void tagrv_wireup_sock_poll(struct tagrv_wireup_sock *sock, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = sock };

	/* Its end would be reported without end. */
	if (sock->stalled)
		ev.events = (events & EPOLLOUT) | EPOLLONESHOT;
	(void) epoll_ctl(sock->wireup->epfd, EPOLL_CTL_MOD, sock->fd, &ev);
}

/* Counts the dialed socket as one that will soon have devices work, or no longer. */
static void count_opening(struct tagrv_wireup_sock *sock, bool opening)
{
	if (sock->opening == opening)
		return;
	sock->opening = opening;
	if (opening)
		sock->wireup->opening++;
	else
		sock->wireup->opening--;
}

void tagrv_wireup_sock_opened(struct tagrv_wireup_sock *sock)
{
	count_opening(sock, false);
	if (sock->state == TAGRV_WIREUP_CONNECTING)
		tagrv_wireup_timer_set(&sock->wireup->timers, &sock->timer, 0);
}

static void on_timer(struct tagrv_wireup_timer *timer)
{
	struct tagrv_wireup_sock *sock =
		tagrv_container_of(timer, struct tagrv_wireup_sock, timer);

	if (sock->state == TAGRV_WIREUP_LINGER)
		tagrv_wireup_sock_close(sock);
	else if (sock->state == TAGRV_WIREUP_CONNECTING)
		count_opening(sock, false);
	else
		tagrv_wireup_sock_late(sock);
}

struct tagrv_wireup_sock *tagrv_wireup_sock_create(struct tagrv_wireup_ep *wep,
						   int fd,
						   const struct tagrv_addr *addr,
						   bool dialed, uint32_t events)
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
	tagrv_wireup_admit_init(sock);
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

void tagrv_wireup_sock_close(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (sock->state == TAGRV_WIREUP_DEAD)
		return;
	tagrv_wireup_sock_end_half_open(sock);
	tagrv_wireup_admit_void(sock);
	tagrv_wireup_run_forget(sock);
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
	tagrv_wireup_sock_end_half_open(sock);
	tagrv_wireup_admit_void(sock);
	tagrv_wireup_run_forget(sock);
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

/* -- dialing and events --------------------------------------------------- */

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
	sock = tagrv_wireup_sock_create(wep, fd, addr, true, EPOLLOUT);
	if (!sock) {
		close(fd);
		*status = -FI_ENOMEM;
		return NULL;
	}
	sock->state = TAGRV_WIREUP_CONNECTING;
	sock->slot = true;
	wep->wireup->dialing++;
	count_opening(sock, true);
	tagrv_wireup_timer_set(&wep->wireup->timers, &sock->timer,
			       wep->wireup->now + CONNECT_SOON);
	return sock;
}

static void finish_dial(struct tagrv_wireup_sock *sock)
{
	int ret = tagrv_wireup_net_dialed(sock->fd);

	if (ret) {
		tagrv_wireup_peer_dialed(sock, ret);
		return;
	}
	count_opening(sock, true);
	tagrv_wireup_timer_set(&sock->wireup->timers, &sock->timer, 0);
	sock->state = TAGRV_WIREUP_OPEN;
	tagrv_wireup_sock_poll(sock, EPOLLIN);
	tagrv_wireup_greet_first(sock);
}

void tagrv_wireup_sock_event(struct tagrv_wireup_sock *sock, uint32_t events)
{
	switch (sock->state) {
	case TAGRV_WIREUP_CONNECTING:
		if (!sock->stalled)
			finish_dial(sock);
		break;
	case TAGRV_WIREUP_OPEN:
		if (events & EPOLLOUT)
			tagrv_wireup_sock_flush(sock);
		if (!sock->stalled)
			tagrv_wireup_sock_receive(sock);
		break;
	case TAGRV_WIREUP_LINGER:
		if (events & EPOLLOUT)
			tagrv_wireup_sock_flush(sock);
		tagrv_wireup_sock_drain(sock);
		break;
	case TAGRV_WIREUP_DEAD:
		break;
	}
}
