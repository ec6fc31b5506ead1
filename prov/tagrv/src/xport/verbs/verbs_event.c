/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Handles asynchronous events of a device, in the wireup thread.
 *
 * An event that concerns a link or an xport only sets its async_error or
 * async_fatal and an alarm; progress of the endpoint, which owns the object,
 * handles it. The object cannot be freed meanwhile, because its destruction waits
 * until the event is acknowledged. Events of the port refresh dev->port here.
 */
#include <errno.h>
#include <rdma/fi_errno.h>

#include "core/eventfd.h"
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

void tagrv_verbs_alarm_wake(struct verbs_xport *xp, uint32_t bits)
{
	verbs_alarm_set(xp, bits);
	tagrv_eventfd_signal(xp->wake_fd);
}

static void queue_died(struct verbs_dev *dev, struct verbs_xport *xp,
		       const char *what)
{
	tagrv_warn("verbs: %s: the device reports an error of a %s queue\n",
		   dev->base.name, what);
	atomic_store(&xp->async_fatal, -FI_EIO);
	tagrv_verbs_alarm_wake(xp, VERBS_ALARM_DEVICE);
}

static void link_died(struct verbs_dev *dev, struct verbs_link *link, int status,
		      const char *what)
{
	struct verbs_xport *xp;

	if (!link)	/* the queue pair of probe_qp() */
		return;
	xp = verbs_xport_of(link->base.xport);
	tagrv_info("verbs: %s: qp 0x%x: %s\n", dev->base.name, link->qpn, what);
	atomic_store(&link->async_error, status);
	tagrv_verbs_alarm_wake(xp, VERBS_ALARM_LINK);
}

/* Side links are there for keys that may not be valid. */
static void key_refused(struct verbs_dev *dev, struct verbs_link *link)
{
	link_died(dev, link, link && link->side ? -FI_EACCES : -FI_EIO,
		  "access violation by the peer");
}

/* dev->mutex held. */
static void tell_xports(struct verbs_dev *dev, uint32_t bits)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&dev->xports, pos) {
		struct verbs_xport *xp =
			tagrv_container_of(pos, struct verbs_xport, dev_node);

		if (bits & VERBS_ALARM_DEVICE)
			atomic_store(&xp->async_fatal, -FI_ENODEV);
		tagrv_verbs_alarm_wake(xp, bits);
	}
}

static void device_died(struct verbs_dev *dev)
{
	if (atomic_load(&dev->fatal))
		return;
	tagrv_warn("verbs: %s has failed or was removed\n", dev->base.name);
	pthread_mutex_lock(&dev->mutex);
	atomic_store(&dev->fatal, true);
	tell_xports(dev, VERBS_ALARM_DEVICE);
	pthread_mutex_unlock(&dev->mutex);
}

/*
 * Queue pairs survive a short loss of the port, so links do not fail here: if the
 * loss lasts, their requests do. Links created from now on need the new address, and
 * may be created now that the port is back: the owner is told.
 */
static void port_changed(struct verbs_dev *dev,
			 const struct ibv_async_event *event)
{
	if (event->element.port_num != dev->port_num)
		return;
	if (event->event_type == IBV_EVENT_PORT_ERR) {
		tagrv_info("verbs: %s: the port is down\n", dev->base.name);
		return;
	}
	if (event->event_type == IBV_EVENT_PORT_ACTIVE)
		tagrv_info("verbs: %s: the port is active\n", dev->base.name);
	tagrv_verbs_port_refresh(dev);
	pthread_mutex_lock(&dev->mutex);
	if (dev->port.attr.state == IBV_PORT_ACTIVE)
		tell_xports(dev, VERBS_ALARM_PORT);
	pthread_mutex_unlock(&dev->mutex);
}

static void handle(struct verbs_dev *dev, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		queue_died(dev, event->element.cq->cq_context, "completion");
		break;
	case IBV_EVENT_SRQ_ERR:
		queue_died(dev, event->element.srq->srq_context, "receive");
		break;
	case IBV_EVENT_QP_FATAL:
		link_died(dev, event->element.qp->qp_context, -FI_EIO, "fatal error");
		break;
	case IBV_EVENT_QP_REQ_ERR:
		link_died(dev, event->element.qp->qp_context, -FI_EIO,
			  "invalid request from the peer");
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
		key_refused(dev, event->element.qp->qp_context);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		device_died(dev);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		port_changed(dev, event);
		break;
	default:
		tagrv_trace("verbs: %s: event %d ignored\n", dev->base.name,
			    (int) event->event_type);
	}
}

int tagrv_verbs_dev_event_fd(struct tagrv_device *dev)
{
	return verbs_dev_of(dev)->ctx->async_fd;
}

void tagrv_verbs_dev_event(struct tagrv_device *base)
{
	struct verbs_dev *dev = verbs_dev_of(base);
	struct ibv_async_event event;

	while (!dev->calls->get_async_event(dev->ctx, &event)) {
		handle(dev, &event);
		dev->calls->ack_async_event(&event);
	}
	/* After a removal without event every read of an event fails. */
	if (errno != EAGAIN && errno != EINTR)
		device_died(dev);
}
