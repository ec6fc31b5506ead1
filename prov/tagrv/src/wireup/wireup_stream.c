/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bytes of a socket: records in and out.
 *
 * Output never fails for its caller: what the kernel does not take is stored, and if too
 * much is stored or the socket is broken, the socket is shut down, and its end is handled
 * like that of a peer that is gone.
 *
 * Input is cut into records. Those before the HELLOs are done go to wireup_greet.c, the
 * others, once their seal is checked, to the peer that they are for.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "wireup/wireup_priv.h"

#define READS_MAX	4	/* per event, so that other sockets have their turn */
#define TX_MAX		(16 * TAGRV_WIREUP_REC_MAX)	/* bytes stored to send */

/* -- output -------------------------------------------------------------- */

/* The next epoll event of the socket reports its end, and on_end() handles it. */
static void shut_down(struct tagrv_wireup_sock *sock)
{
	sock->tx_len = 0;
	tagrv_wireup_sock_poll(sock, EPOLLIN);
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
	tagrv_wireup_sock_poll(sock, EPOLLIN | EPOLLOUT);
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

void tagrv_wireup_sock_flush(struct tagrv_wireup_sock *sock)
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
	tagrv_wireup_sock_poll(sock, EPOLLIN);
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
	if (tagrv_wireup_run_stalls_end(sock) || tagrv_wireup_admit_ended(sock))
		return;
	if (tagrv_wireup_sock_is_half_open(sock) && sock->rx_len) {
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
	tagrv_wireup_sock_end_half_open(sock);
	/* WAIT too: the peer is there, and may have us wait as long as it likes. */
	tagrv_wireup_sock_free_slot(sock);
	tagrv_wireup_peer_record(sock, &rec, ret);
}

/* Handles every whole record in the buffer. */
static void handle_records(struct tagrv_wireup_sock *sock)
{
	ssize_t len;

	while (sock->state == TAGRV_WIREUP_OPEN && sock->rx_len && !sock->stalled) {
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

void tagrv_wireup_sock_receive(struct tagrv_wireup_sock *sock)
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
		if (sock->state != TAGRV_WIREUP_OPEN || sock->stalled)
			return;
	}
}

void tagrv_wireup_sock_go_on(struct tagrv_wireup_sock *sock)
{
	handle_records(sock);
}

void tagrv_wireup_sock_drain(struct tagrv_wireup_sock *sock)
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
