/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lets threads sleep until an endpoint has work: wait_fd is an epoll descriptor of
 *
 *   channel   events of both completion queues, and of the list's, requested by arm
 *   wake_fd   signalled by other threads that set an alarm
 *
 * arm clears both, requests events and then polls both queues once more. If it
 * finds completions, it holds them for the next progress and returns -FI_EAGAIN.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/eventfd.h"
#include "xport/verbs/verbs_poll.h"

int tagrv_verbs_channel_open(struct verbs_xport *xp)
{
	struct epoll_event event = { .events = EPOLLIN };
	int flags;

	errno = 0;
	xp->channel = xp->calls->create_comp_channel(xp->dev->ctx);
	if (!xp->channel)
		return verbs_status_of_errno();
	flags = fcntl(xp->channel->fd, F_GETFL);
	xp->wake_fd = tagrv_eventfd_open();
	xp->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (flags < 0 || xp->wake_fd < 0 || xp->wait_fd < 0 ||
	    fcntl(xp->channel->fd, F_SETFL, flags | O_NONBLOCK) ||
	    epoll_ctl(xp->wait_fd, EPOLL_CTL_ADD, xp->channel->fd, &event) ||
	    epoll_ctl(xp->wait_fd, EPOLL_CTL_ADD, xp->wake_fd, &event))
		return verbs_status_of_errno();
	return 0;
}

void tagrv_verbs_channel_empty(struct verbs_xport *xp)
{
	struct ibv_cq *cq;
	void *ctx;

	if (!xp->channel)
		return;
	while (!xp->calls->get_cq_event(xp->channel, &cq, &ctx))
		xp->calls->ack_cq_events(cq, 1);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void tagrv_verbs_channel_close(struct verbs_xport *xp)
{
	if (xp->channel)
		xp->calls->destroy_comp_channel(xp->channel);
	close_fd(xp->wake_fd);
	close_fd(xp->wait_fd);
}

int tagrv_verbs_wait_fd(struct tagrv_xport *xport)
{
	return verbs_xport_of(xport)->wait_fd;
}

static void drain_events(struct verbs_xport *xp)
{
	struct ibv_cq *cq;
	void *ctx;

	while (!xp->calls->get_cq_event(xp->channel, &cq, &ctx))
		if (!xp->list.taglist || !tagrv_verbs_list_event(xp, cq))
			verbs_note_event(xp->calls, cq, cq == xp->rx.cq ? &xp->rx.unacked :
									  &xp->tx.unacked);
	tagrv_eventfd_clear(xp->wake_fd);
}

/*
 * Whether completions are held, after polling for some. A completion that came
 * between the last poll and the request for events is found here.
 */
static bool has_held(struct verbs_xport *xp, struct verbs_cq *cq)
{
	if (!cq->held_cnt)
		cq->held_cnt = (uint32_t) verbs_poll_cq(xp, cq, cq->held);
	return cq->held_cnt != 0;
}

/*
 * Whether progress must run because of an alarm. A flush that waits for room is
 * continued after the next signaled completion, which wakes the sleeper anyway.
 */
static bool has_alarm(struct verbs_xport *xp)
{
	uint32_t bits = atomic_load(&xp->alarm);

	return xp->signaled ? bits & ~(uint32_t) VERBS_ALARM_FLUSH : bits;
}

int tagrv_verbs_arm(struct tagrv_xport *xport)
{
	struct verbs_xport *xp = verbs_xport_of(xport);

	drain_events(xp);
	if (xp->calls->req_notify_cq(xp->rx.cq, 0) ||
	    xp->calls->req_notify_cq(xp->tx.cq, 0))
		tagrv_verbs_queue_failed(xp);
	tagrv_verbs_refill_idle(xp);
	if (xp->list.taglist && tagrv_verbs_list_arm(xp))
		return -FI_EAGAIN;
	if (has_held(xp, &xp->rx) || has_held(xp, &xp->tx) ||
	    has_alarm(xp) || !tagrv_list_empty(&xp->closing) ||
	    (xp->starved && (xp->freed || xp->want_tx_bufs)))
		return -FI_EAGAIN;
	return 0;
}
