/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping on a completion queue or counter: see wait_priv.h.
 */
#include "api/wait_priv.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "engine/drive.h"

int tagrv_wait_init(struct tagrv_wait *wait, enum fi_wait_obj obj)
{
	wait->obj = obj;
	wait->epoll_fd = -1;
	switch (obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_POLLFD:
	case FI_WAIT_YIELD:
		return 0;
	default:
		tagrv_warn("wait object %d is not supported, only "
			   "FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, "
			   "FI_WAIT_POLLFD and FI_WAIT_YIELD\n", (int) obj);
		return -FI_ENOSYS;
	}
}

void tagrv_wait_fini(struct tagrv_wait *wait)
{
	if (wait->epoll_fd >= 0)
		close(wait->epoll_fd);
	wait->epoll_fd = -1;
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int get_fd(struct tagrv_wait *wait, const struct tagrv_dom *dom,
		  const struct tagrv_waker *waker, int *fd)
{
	int ret;

	if (!tagrv_wait_has_fd(wait))
		return -FI_ENODATA;
	if (wait->epoll_fd < 0) {
		wait->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (wait->epoll_fd < 0)
			return -errno;
		ret = watch(wait->epoll_fd, dom->wait_fd);
		if (!ret)
			ret = watch(wait->epoll_fd, waker->fd);
		if (ret) {
			tagrv_wait_fini(wait);
			return ret;
		}
	}
	*fd = wait->epoll_fd;
	return 0;
}

/* Always the same single descriptor. */
static int get_pollfd(struct tagrv_wait *wait, const struct tagrv_dom *dom,
		      const struct tagrv_waker *waker,
		      struct fi_wait_pollfd *out)
{
	size_t room = out->fd ? out->nfds : 0;
	int ret, fd;

	out->change_index = 0;
	out->nfds = 1;
	if (!room)
		return -FI_ETOOSMALL;
	ret = get_fd(wait, dom, waker, &fd);
	if (!ret)
		*out->fd = (struct pollfd) { .fd = fd, .events = POLLIN };
	return ret;
}

int tagrv_wait_control(struct tagrv_wait *wait, const struct tagrv_dom *dom,
		       const struct tagrv_waker *waker, int command, void *arg)
{
	switch (command) {
	case FI_GETWAIT:
		return wait->obj == FI_WAIT_POLLFD ?
		       get_pollfd(wait, dom, waker, arg) :
		       get_fd(wait, dom, waker, arg);
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *) arg = wait->obj == FI_WAIT_UNSPEC ?
					    FI_WAIT_FD : wait->obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

int tagrv_wait_prepare(struct tagrv_dom *dom, struct tagrv_waker *waker)
{
	/* Other threads were signaled and are not awake yet: keep waker->fd. */
	if (TAGRV_UNLIKELY(waker->owed)) {
		dom->give_way = true;
		return -FI_EAGAIN;
	}
	tagrv_waker_clear(waker);
	waker->armed = true;
	return tagrv_dom_arm(dom);
}

int tagrv_wait_enter(struct tagrv_dom *dom, struct tagrv_waker *waker)
{
	int ret = tagrv_wait_prepare(dom, waker);

	if (!ret)
		waker->sleepers++;
	return ret;
}

int tagrv_wait_sleep(struct tagrv_dom *dom, struct tagrv_waker *waker,
		     int timeout)
{
	int ret = timeout ? tagrv_dom_sleep(dom, waker->fd, timeout) : 0;

	tagrv_dom_lock(dom);
	waker->sleepers--;
	if (waker->owed)
		waker->owed--;
	tagrv_lock_release(&dom->lock);
	return ret;
}

int64_t tagrv_deadline(int timeout)
{
	return timeout < 0 ? INT64_MAX : (int64_t) tagrv_clock_ms() + timeout;
}

int tagrv_time_left(int64_t deadline)
{
	int64_t left;

	if (deadline == INT64_MAX)
		return -1;
	left = deadline - (int64_t) tagrv_clock_ms();
	return left <= 0 ? 0 : (int) TAGRV_MIN(left, (int64_t) INT_MAX);
}
