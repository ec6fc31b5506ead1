/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bell: tells a receiver that a ring which it does not poll has an entry, and
 * wakes the receiver if it sleeps.
 *
 *   sender                             receiver
 *   bits[i] |= bit of the link         armed = n (it is about to sleep)
 *   summary |= bit of word i           summary is 0?
 *   armed is n, not 0?                    sleeps on wait_fd
 *      sends a byte by wake_fd
 *      if armed is still n: armed = 0
 *
 * All accesses are sequentially consistent, so either the sender sees 'armed' or the receiver
 * sees the summary. A sender sets both bits even if they are set already: it cannot
 * know whether the receiver has read them since, nor whether the sender that set
 * them was killed before it sent the byte. For the same reason the byte is sent
 * before 'armed' is cleared. A sleep has a number, so that a slow sender
 * does not clear the 'armed' of a later sleep.
 *
 * Bits are hints: a wrong one makes the receiver read an empty ring.
 *
 * wait_fd and wake_fd are the ends of a pair of sockets; peers get a copy of wake_fd. An
 * eventfd would be faster, but it is one open file for all: a peer that takes O_NONBLOCK
 * away and fills or empties it could make every other process block in its write or read,
 * under the lock. A call with MSG_DONTWAIT never blocks, whatever the flags of the file.
 */
#include <errno.h>
#include <sys/socket.h>

#include "xport/shm/shm_priv.h"

int tagrv_shm_wake_open(struct shm_xport *xp)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	xp->wait_fd = fds[0];
	xp->wake_fd = fds[1];
	return 0;
}

bool tagrv_shm_is_wake_fd(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int), type_len = sizeof(int);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) &&
	       domain == AF_UNIX && type == SOCK_STREAM;
}

/* EAGAIN: there is no room for one more byte, so the other end is readable. */
static bool send_byte(int wake_fd)
{
	return send(wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ||
	       errno == EAGAIN;
}

/* More bytes than senders leave behind: one call is enough, but for a peer that floods. */
void tagrv_shm_wake_clear(struct shm_xport *xp)
{
	char bytes[256];

	if (recv(xp->wait_fd, bytes, sizeof(bytes), MSG_DONTWAIT) < 0)
		return;		/* EAGAIN: it was not readable */
}

static void wake(struct shm_bell *bell, int wake_fd)
{
	uint32_t armed = atomic_load(&bell->armed);

	if (armed && send_byte(wake_fd))
		atomic_compare_exchange_strong(&bell->armed, &armed, 0);
}

static void ring(struct shm_bell *bell, uint32_t bit, int wake_fd)
{
	atomic_fetch_or(&bell->bits[bit / 64], 1ull << bit % 64);
	atomic_fetch_or(&bell->summary, 1ull << bit / 64);
	wake(bell, wake_fd);
}

void tagrv_shm_ring_bell(struct shm_link *link)
{
	ring(link->peer_bell, link->peer_bit, link->peer_wake_fd);
}

void tagrv_shm_ring_own_bell(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	ring(xp->bell, link->own_bit, xp->wake_fd);
}

TAGRV_COLD void tagrv_shm_wake_own(struct shm_xport *xp)
{
	wake(xp->bell, xp->wake_fd);
}

void tagrv_shm_notify(struct shm_link *link)
{
	if (!atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		return;
	shm_fence();
	if (!(atomic_load(&link->tx.hdr->cons.state) & SHM_POLLED))
		tagrv_shm_ring_bell(link);
}
