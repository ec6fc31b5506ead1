/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Checks a handover, maps its memory and watches the peer's process.
 *
 * The sender of the message is a process of our user (checked in shm_hand.c) that
 * knows the link's nonce. All else is checked here: each memfd must be sealed
 * against shrinking and have the size that the message says, and the third
 * descriptor must be a socket, because a write to another kind of file could block.
 *
 * The kernel tells the peer's process id as seen from our PID namespace; 0 means
 * that it is not visible there. A pidfd in the device's epoll set reports the end of
 * the process: without any traffic, and even if a child has inherited its
 * descriptors. The process may have ended before its message is read.
 *
 * A link gets one handover only. If it names the link and its nonce but cannot be
 * used, the link fails.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/log.h"
#include "xport/shm/shm_priv.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD	77	/* Linux 6.5 */
#endif

static struct shm_link *find_locked(struct shm_device *dev, uint64_t id)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&dev->links, pos) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, dev_node);

		if (link->id == id)
			return link;
	}
	return NULL;
}

static int peer_pid(int sock)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return 0;
	return cred.pid;
}

/* Returns a pidfd, or -errno; -ESRCH: the process has ended. */
static int peer_pidfd(int sock, int pid)
{
	socklen_t len = sizeof(int);
	int fd = -1;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	if (errno == EINVAL || errno == ESRCH)
		return -ESRCH;	/* kernels with the option differ in errno */
	if (pid <= 0)
		return -EOPNOTSUPP;
	fd = (int) syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? -errno : fd;
}

/* The end of a process that cannot be watched is found by tagrv_shm_check() only. */
static void watch_process(struct shm_device *dev, struct shm_link *link,
			  int sock)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	int fd, ret;

	if (link->peer_pid == getpid())
		return;
	ret = fd = peer_pidfd(sock, link->peer_pid);
	if (fd >= 0)
		ret = tagrv_shm_watch(dev, fd, link->id);
	if (!ret) {
		link->peer_pidfd = fd;
		return;
	}
	if (fd >= 0)
		close(fd);
	if (ret == -ESRCH) {
		atomic_store(&link->peer_dead, 1);
		return;
	}
	link->unwatched = true;
	if (!atomic_flag_test_and_set(&warned))
		tagrv_warn("shm: cannot watch for the end of a process: %s; "
			   "raise ulimit -n or use a newer kernel\n",
			   strerror(-ret));
}

static bool is_valid(const struct shm_hand *hand)
{
	return hand->magic == SHM_MAGIC && hand->version == SHM_VERSION &&
	       hand->bell_index < SHM_BELL_LINKS && hand->fence <= 1 &&
	       hand->slots >= shm_slots_of(SHM_RING_MIN) &&
	       hand->slots <= shm_slots_of(SHM_RING_MAX) &&
	       !(hand->slots & (hand->slots - 1)) &&
	       hand->arena == shm_arena_of(shm_region_of(hand->slots)) &&
	       hand->max_packet &&
	       hand->max_packet <= shm_body_max(hand->arena);
}

static bool map_all(struct shm_link *link, const struct shm_hand *hand,
		    const int fds[SHM_HAND_FDS])
{
	size_t size = shm_region_of(hand->slots);
	struct shm_header *hdr;
	void *ring, *bell;

	if (!tagrv_shm_is_wake_fd(fds[2]) || tagrv_shm_region_map(fds[0], size, &ring))
		return false;
	hdr = ring;
	if (hdr->constants.magic != SHM_MAGIC ||
	    hdr->constants.version != SHM_VERSION ||
	    hdr->constants.slots != hand->slots ||
	    hdr->constants.arena != hand->arena ||
	    tagrv_shm_region_map(fds[1], SHM_BELL_SIZE, &bell)) {
		tagrv_shm_region_unmap(ring, size);
		return false;
	}
	link->tx.hdr = hdr;
	link->tx.data = (char *) ring + sizeof(*hdr);
	link->tx.arena = link->tx.data + (size_t) hand->slots * SHM_STRIDE;
	link->peer_bell = bell;
	return true;
}

/* Sets tx and peer_* of the link from a handover that is mapped. */
static void set_peer(struct shm_device *dev, struct shm_link *link, int sock,
		     const struct shm_hand *hand)
{
	size_t own = link->base.xport->attr.max_packet;

	link->tx.mask = hand->slots - 1;
	link->tx.shift = (uint32_t) __builtin_ctz(hand->slots);
	link->tx.limit = hand->slots;
	link->tx.arena_size = hand->arena;
	link->tx.arena_limit = hand->arena;
	link->tx.max_packet = (uint32_t) TAGRV_MIN(hand->max_packet, own);
	link->tx.fence = hand->fence || dev->force_fence;
	link->peer_bit = hand->bell_index;
	link->peer_table = hand->table;
	link->peer_pid = peer_pid(sock);
	link->cma = dev->cma && link->peer_pid > 0 &&
		tagrv_shm_cma_probe(link->peer_pid, hand->table, hand->token);
	watch_process(dev, link, sock);
	atomic_store_explicit(&link->tx_ready, 1, memory_order_release);
	tagrv_shm_ring_own_bell(link);	/* a send may be waiting for tx */
}

/* Makes progress fail the link. */
static void mark_dead_locked(struct shm_link *link)
{
	atomic_store(&link->peer_dead, 1);
	tagrv_shm_ring_own_bell(link);
}

void tagrv_shm_map_locked(struct shm_device *dev, int sock,
			  const struct shm_hand *hand, int fds[SHM_HAND_FDS])
{
	struct shm_link *link = find_locked(dev, hand->id);
	bool expected = link && link->nonce == hand->nonce &&
		!atomic_load(&link->tx_ready);

	if (expected && is_valid(hand) && map_all(link, hand, fds)) {
		link->peer_wake_fd = fds[2];
		fds[2] = -1;
		set_peer(dev, link, sock, hand);
	} else if (link || !is_valid(hand)) {
		tagrv_shm_refuse(dev, "it is invalid, or there are too many "
				 "open files");
		if (expected)
			mark_dead_locked(link);
	}	/* else: the link was closed meanwhile */
}

void tagrv_shm_peer_died_locked(struct shm_device *dev, uint64_t id)
{
	struct shm_link *link = find_locked(dev, id);

	if (!link || link->peer_pidfd < 0)
		return;
	tagrv_shm_unwatch(dev, link->peer_pidfd);
	link->peer_pidfd = -1;
	mark_dead_locked(link);
}
