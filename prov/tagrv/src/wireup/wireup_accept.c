/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The listener of an endpoint, and accepted sockets until they have shown to be peers.
 *
 *   accept --> silent --HELLO--> greeted --REQ--> open, and no longer half-open
 *                 '5 s            '60 s
 *                 '--- garbage, too many --------'--> reset, counted as a stranger
 *
 * An accepted socket is half-open until it has sent HELLO and one whole REQ. Anything
 * else, or silence for FIRST_HELLO ms, is taken for a stranger and the socket is reset. A
 * peer may make its links between HELLO and REQ, so it has FIRST_REQ ms for that. This
 * thread may be late itself, so it reads a socket once more before it resets it.
 * If too many are silent (caps.strangers), the oldest one is reset for each new one, but not
 * in its first moments, in which others wait for being accepted: a
 * peer sends its HELLO at once, so that it is not among the old ones. Its REQ has to
 * wait for our answer and for its thread, so those that have greeted are reset only
 * if there are too many sockets at all.
 */
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/log.h"
#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

#define FIRST_HELLO	5000	/* ms from the accept */
#define FIRST_REQ	60000	/* ms from the HELLO */
#define SILENT_MIN	100	/* ms that the oldest silent one has, whatever others do */
#define ACCEPT_PAUSE	100	/* ms, when out of files or memory */
#define CROWD_PAUSE	10	/* ms, when too many have just come */
#define ACCEPTS_MAX	64	/* per event, so that other sockets have their turn */

/* -- half-open sockets ----------------------------------------------------- */

bool tagrv_wireup_sock_is_half_open(const struct tagrv_wireup_sock *sock)
{
	return tagrv_list_linked(&sock->wait_node);
}

static void begin_half_open(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	tagrv_list_push_tail(&wireup->silents, &sock->wait_node);
	wireup->silent++;
	tagrv_wireup_timer_set(&wireup->timers, &sock->timer,
			       wireup->now + FIRST_HELLO);
}

void tagrv_wireup_sock_end_half_open(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup *wireup = sock->wireup;

	if (!tagrv_wireup_sock_is_half_open(sock))
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

	if (!tagrv_wireup_sock_is_half_open(sock))
		return;
	tagrv_list_remove(&sock->wait_node);
	wireup->silent--;
	tagrv_list_push_tail(&wireup->greeters, &sock->wait_node);
	wireup->greeting++;
	sock->greeted = true;
	tagrv_wireup_timer_set(&wireup->timers, &sock->timer,
			       wireup->now + FIRST_REQ);
}

/* -- strangers -------------------------------------------------------------- */

static void count_stranger(struct tagrv_wireup_sock *sock)
{
	struct tagrv_wireup_ep *wep = sock->wep;
	char text[TAGRV_ADDR_STRLEN];

	wep->strangers++;
	if (!wep->logged_stranger)
		tagrv_warn("closed a connection from %s, which is not "
			   "a peer of ours: a port scanner, or a program with a "
			   "wrong port number? Further ones are only counted\n",
			   tagrv_addr_str(&sock->addr, text, sizeof(text)));
	wep->logged_stranger = true;
}

void tagrv_wireup_sock_close_stranger(struct tagrv_wireup_sock *sock)
{
	if (tagrv_wireup_run_stalls_end(sock) || tagrv_wireup_admit_ended(sock))
		return;
	/* On a socket that we dialed, the failure to connect is logged instead. */
	if (!sock->chan.dialed)
		count_stranger(sock);
	if (sock->chan.conn)
		tagrv_wireup_peer_lost(sock);
	tagrv_wireup_net_abort(sock->fd);
	tagrv_wireup_sock_close(sock);
}

void tagrv_wireup_sock_late(struct tagrv_wireup_sock *sock)
{
	bool greeted = sock->greeted;

	tagrv_wireup_sock_receive(sock);
	if (sock->state == TAGRV_WIREUP_OPEN && sock->greeted == greeted &&
	    tagrv_wireup_sock_is_half_open(sock))
		tagrv_wireup_sock_close_stranger(sock);
}

/* -- the listener ---------------------------------------------------------- */

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

static void pause_for(struct tagrv_wireup_ep *wep, unsigned ms)
{
	poll_listener(wep, 0);
	tagrv_wireup_timer_set(&wep->wireup->timers, &wep->resume,
			       wep->wireup->now + ms);
}

static void pause_accept(struct tagrv_wireup_ep *wep, int status)
{
	pause_for(wep, ACCEPT_PAUSE);
	if (!wep->logged_files)
		tagrv_warn("cannot accept connections for now: %s; "
			   "see ulimit -n\n", fi_strerror(-status));
	wep->logged_files = true;
}

static void reset_oldest(struct tagrv_list *half_opens)
{
	tagrv_wireup_sock_late(tagrv_container_of(tagrv_list_first(half_opens),
						  struct tagrv_wireup_sock,
						  wait_node));
}

/*
 * Many sockets have come at once, the oldest so lately that its peer may not have been able
 * to say anything: others wait in the kernel.
 */
static bool is_crowded(struct tagrv_wireup *wireup)
{
	struct tagrv_wireup_sock *oldest;

	if (wireup->silent < wireup->caps.strangers)
		return false;
	oldest = tagrv_container_of(tagrv_list_first(&wireup->silents),
				    struct tagrv_wireup_sock, wait_node);
	if (oldest->timer.at <= wireup->now + FIRST_HELLO - SILENT_MIN)
		return false;
	tagrv_wireup_sock_receive(oldest);
	return wireup->silent >= wireup->caps.strangers;
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
	sock = tagrv_wireup_sock_create(wep, fd, &peer, false, EPOLLIN);
	if (!sock) {
		close(fd);
		return -FI_ENOMEM;
	}
	sock->state = TAGRV_WIREUP_OPEN;
	begin_half_open(sock);
	tagrv_wireup_sock_receive(sock);
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

	for (int i = 0; i < ACCEPTS_MAX && !wep->paused && !ret; i++) {
		if (is_crowded(wep->wireup))
			pause_for(wep, CROWD_PAUSE);
		else
			ret = accept_one(wep);
	}
	if (ret && ret != -FI_EAGAIN)
		pause_accept(wep, ret);
}
