/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hands over rings through an abstract Unix socket (type SOCK_SEQPACKET).
 *
 *   link_bind (push)                       peer (pull)
 *   connect to the name in the blob
 *   is the listener's user our own?
 *   send one message, three descriptors    accept, recvmsg, shm_map.c
 *   close
 *
 * Neither side waits: the message stays in the socket until the peer's wireup thread
 * (dev_event) or the peer's first send reads it. If the socket's queue is full, the
 * link is put on dev->unpushed and tagrv_shm_pull() tries again.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/random.h"
#include "xport/shm/shm_priv.h"

/* data.u64 of events in the epoll set; lower values are ids of links (pidfds). */
#define EVENT_LISTEN	UINT64_MAX
#define EVENT_RESUME	(UINT64_MAX - 1)
#define EVENT_PENDING	(EVENT_RESUME - SHM_PENDING)

/* An abstract name: begins with a NUL and is in no file system. */
static socklen_t sock_addr(struct sockaddr_un *sun,
			   const uint8_t name[SHM_SOCK_NAME])
{
	static const char prefix[] = "\0tagrv-";
	size_t len = sizeof(prefix) - 1;

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, prefix, len);
	memcpy(sun->sun_path + len, name, SHM_SOCK_NAME);
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len +
			    SHM_SOCK_NAME);
}

int tagrv_shm_watch(struct shm_device *dev, int fd, uint64_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = what };

	return epoll_ctl(dev->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void tagrv_shm_unwatch(struct shm_device *dev, int fd)
{
	epoll_ctl(dev->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

int tagrv_shm_listen(struct shm_device *dev)
{
	struct sockaddr_un sun;
	socklen_t len;
	int ret = tagrv_random_fill(dev->name, sizeof(dev->name));

	if (ret)
		return ret;
	len = sock_addr(&sun, dev->name);
	dev->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	dev->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
				SOCK_NONBLOCK, 0);
	/* Opened now, because it is needed when no descriptors are left. */
	dev->resume_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC |
					TFD_NONBLOCK);
	if (dev->epoll_fd < 0 || dev->listen_fd < 0 || dev->resume_fd < 0 ||
	    bind(dev->listen_fd, (struct sockaddr *) &sun, len) ||
	    listen(dev->listen_fd, 4096) ||
	    tagrv_shm_watch(dev, dev->resume_fd, EVENT_RESUME) ||
	    tagrv_shm_watch(dev, dev->listen_fd, EVENT_LISTEN)) {
		int err = errno;

		tagrv_warn("shm: cannot listen on a Unix socket: %s\n",
			   strerror(err));
		return -err;
	}
	return 0;
}

void tagrv_shm_unlisten(struct shm_device *dev)
{
	for (size_t i = 0; i < SHM_PENDING; i++)
		if (dev->pending[i].fd >= 0)
			close(dev->pending[i].fd);
	if (dev->listen_fd >= 0)
		close(dev->listen_fd);
	if (dev->resume_fd >= 0)
		close(dev->resume_fd);
	if (dev->epoll_fd >= 0)
		close(dev->epoll_fd);
}

/* ---- push ---- */

static struct shm_hand hand_of(const struct shm_device *dev,
			       const struct shm_link *link)
{
	return (struct shm_hand) {
		.magic = SHM_MAGIC,
		.version = SHM_VERSION,
		.fence = dev->force_fence,
		.id = link->peer.id,
		.nonce = link->peer.nonce,
		.bell_index = link->own_bit,
		.slots = link->rx.in.mask + 1, .arena = link->rx.in.arena_size,
		.max_packet = (uint32_t) link->base.xport->attr.max_packet,
		.table = (uintptr_t) dev->table,
		.token = atomic_load(&dev->table[0].secret),
	};
}

static int send_hand(int sock, const struct shm_hand *hand,
		     const int fds[SHM_HAND_FDS])
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * SHM_HAND_FDS)];
	} control = { .space = "" };
	struct iovec iov = { (void *) (uintptr_t) hand, sizeof(*hand) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int) * SHM_HAND_FDS);
	memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * SHM_HAND_FDS);
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static bool is_own_user(int sock, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, cred, &len) &&
	       cred->uid == geteuid();
}

/* Checks the user: another user may have taken the name since the peer ended. */
static int push(struct shm_device *dev, struct shm_link *link)
{
	const int fds[SHM_HAND_FDS] = {
		link->ring_fd, shm_xport_of_link(link)->bell_fd,
		shm_xport_of_link(link)->wake_fd,
	};
	struct shm_hand hand = hand_of(dev, link);
	struct sockaddr_un sun;
	socklen_t len = sock_addr(&sun, link->peer.name);
	struct ucred cred;
	int sock, ret;

	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		      0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *) &sun, len))
		ret = -errno;
	else if (!is_own_user(sock, &cred))
		ret = -FI_EHOSTUNREACH;
	else
		ret = send_hand(sock, &hand, fds);
	close(sock);
	return ret;
}

int tagrv_shm_push_locked(struct shm_device *dev, struct shm_link *link)
{
	int ret = push(dev, link);

	if (ret == -EAGAIN || ret == -ETOOMANYREFS || ret == -ENOBUFS) {
		if (!tagrv_list_linked(&link->push_node)) {
			tagrv_list_push_tail(&dev->unpushed, &link->push_node);
			atomic_fetch_add(&dev->unpushed_cnt, 1);
		}
		return 0;
	}
	if (tagrv_list_linked(&link->push_node)) {
		tagrv_list_remove(&link->push_node);
		atomic_fetch_sub(&dev->unpushed_cnt, 1);
	}
	close(link->ring_fd);
	link->ring_fd = -1;
	return ret;
}

/* A peer to which the handover cannot be sent is gone. */
static void push_again_locked(struct shm_device *dev)
{
	struct tagrv_list *pos, *tmp;

	tagrv_list_for_each_safe(&dev->unpushed, pos, tmp) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, push_node);

		if (tagrv_shm_push_locked(dev, link)) {
			atomic_store(&link->peer_dead, 1);
			tagrv_shm_ring_own_bell(link);
		}
	}
}

/* ---- pull ---- */

/* Extracts the descriptors; returns their number, closing those beyond fds. */
static unsigned extract_fds(struct msghdr *msg, int fds[SHM_HAND_FDS])
{
	unsigned cnt = 0;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t all = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < all; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (cnt < SHM_HAND_FDS)
				fds[cnt] = fd;
			else
				close(fd);
			cnt++;
		}
	}
	return cnt;
}

void tagrv_shm_refuse(struct shm_device *dev, const char *why)
{
	if (!atomic_fetch_add(&dev->refused, 1))
		tagrv_warn("shm: a peer's handover of its ring was refused: %s\n", why);
}

/* Receives and handles a message. False: it has not come yet. */
static bool receive_locked(struct shm_device *dev, int sock)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * 2 * SHM_HAND_FDS)];
	} control;
	struct shm_hand hand;
	struct iovec iov = { &hand, sizeof(hand) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	int fds[SHM_HAND_FDS] = { -1, -1, -1 };
	ssize_t len = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	unsigned cnt;

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	cnt = len < 0 ? 0 : extract_fds(&msg, fds);
	/* Too few descriptors: this process has too many open. map() checks. */
	if (len == sizeof(hand) && cnt <= SHM_HAND_FDS &&
	    !(msg.msg_flags & MSG_TRUNC))
		tagrv_shm_map_locked(dev, sock, &hand, fds);
	else
		tagrv_shm_refuse(dev, "not the message of a peer");
	for (size_t i = 0; i < SHM_HAND_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return true;
}

/* Keeps a connection until its message comes; may close the oldest one kept. */
static void keep_locked(struct shm_device *dev, int sock)
{
	struct shm_pending *oldest = &dev->pending[0];

	for (size_t i = 0; i < SHM_PENDING; i++) {
		struct shm_pending *p = &dev->pending[i];

		if (p->fd < 0) {
			oldest = p;
			break;
		}
		if (p->since < oldest->since)
			oldest = p;
	}
	if (oldest->fd >= 0)
		tagrv_shm_unwatch(dev, oldest->fd);
	*oldest = (struct shm_pending) {
		.fd = sock, .since = tagrv_clock_ms(),
	};
	if (tagrv_shm_watch(dev, sock, EVENT_PENDING +
			    (uint64_t) (oldest - dev->pending))) {
		close(sock);
		oldest->fd = -1;
	}
}

static void poll_listener(struct shm_device *dev, uint32_t events)
{
	struct epoll_event event = {
		.events = events, .data.u64 = EVENT_LISTEN,
	};

	(void) epoll_ctl(dev->epoll_fd, EPOLL_CTL_MOD, dev->listen_fd, &event);
}

/* Stops polling the listener for a while, which would stay readable. */
static void pause_locked(struct shm_device *dev, int err)
{
	struct itimerspec after = {
		.it_value.tv_nsec = SHM_ACCEPT_PAUSE_MS * 1000000L,
	};

	if (!dev->warned_files)
		tagrv_warn("shm: cannot accept connections for now: %s; see "
			   "ulimit -n\n", strerror(err));
	dev->warned_files = true;
	poll_listener(dev, 0);
	(void) timerfd_settime(dev->resume_fd, 0, &after, NULL);
}

static void resume_locked(struct shm_device *dev)
{
	uint64_t count;

	if (read(dev->resume_fd, &count, sizeof(count)) == sizeof(count))
		poll_listener(dev, EPOLLIN);
}

/* Whatever strangers do, others must have the mutex soon. The listener stays readable. */
static void accept_locked(struct shm_device *dev)
{
	struct ucred cred;
	int sock;

	for (int i = 0; i < SHM_ACCEPTS; i++) {
		sock = accept4(dev->listen_fd, NULL, NULL,
			       SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (sock < 0) {
			if (errno != EAGAIN && errno != EINTR &&
			    errno != ECONNABORTED)
				pause_locked(dev, errno);
			return;
		}
		if (!is_own_user(sock, &cred)) {
			tagrv_shm_refuse(dev, "it comes from another user");
			close(sock);
		} else if (receive_locked(dev, sock)) {
			close(sock);
		} else {
			keep_locked(dev, sock);
		}
	}
}

static void pending_locked(struct shm_device *dev)
{
	uint64_t now = tagrv_clock_ms();

	for (size_t i = 0; i < SHM_PENDING; i++) {
		struct shm_pending *p = &dev->pending[i];

		if (p->fd < 0 ||
		    (!receive_locked(dev, p->fd) &&
		     now - p->since < SHM_PENDING_MS))
			continue;
		tagrv_shm_unwatch(dev, p->fd);
		p->fd = -1;
	}
}

static void events_locked(struct shm_device *dev)
{
	struct epoll_event events[SHM_HOT];
	int cnt = epoll_wait(dev->epoll_fd, events, SHM_HOT, 0);

	for (int i = 0; i < cnt; i++)
		if (events[i].data.u64 < EVENT_PENDING)
			tagrv_shm_peer_died_locked(dev, events[i].data.u64);
		else if (events[i].data.u64 == EVENT_RESUME)
			resume_locked(dev);
}

void tagrv_shm_pull(struct shm_device *dev)
{
	pthread_mutex_lock(&dev->mutex);
	pending_locked(dev);
	accept_locked(dev);
	push_again_locked(dev);
	pthread_mutex_unlock(&dev->mutex);
}

int tagrv_shm_dev_event_fd(struct tagrv_device *dev)
{
	return shm_device_of(dev)->epoll_fd;
}

void tagrv_shm_dev_event(struct tagrv_device *base)
{
	struct shm_device *dev = shm_device_of(base);

	tagrv_shm_pull(dev);
	pthread_mutex_lock(&dev->mutex);
	events_locked(dev);
	pthread_mutex_unlock(&dev->mutex);
}
