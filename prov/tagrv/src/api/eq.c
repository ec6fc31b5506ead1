/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_eq: event queues. The provider does nothing asynchronously, so the
 * only events are those that the application writes.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/objects_priv.h"
#include "core/log.h"

#define SIZE_DEFAULT	256
#define NO_WAIT		"%s: the event queue was opened with FI_WAIT_NONE"
#define EVENT_MAX	((size_t) 4096)		/* bytes of one event */

static struct tagrv_eq *eq_of(struct fid_eq *eq)
{
	return tagrv_container_of(eq, struct tagrv_eq, eq);
}

/* mark_readable() and mark_empty(): fd is readable while events wait. */
static void mark_readable(struct tagrv_eq *eq)
{
	const uint64_t one = 1;

	if (eq->fd >= 0 && write(eq->fd, &one, sizeof(one)) < 0)
		tagrv_warn("event queue: %s\n", strerror(errno));
}

static void mark_empty(struct tagrv_eq *eq)
{
	uint64_t value;

	if (eq->fd >= 0 && read(eq->fd, &value, sizeof(value)) < 0)
		tagrv_warn("event queue: %s\n", strerror(errno));
}

static void pop(struct tagrv_eq *eq)
{
	struct tagrv_event *event = eq->first;

	eq->first = event->next;
	eq->cnt--;
	if (!eq->first) {
		eq->last = NULL;
		mark_empty(eq);
	}
	free(event);
}

static void push(struct tagrv_eq *eq, struct tagrv_event *event)
{
	if (eq->last)
		eq->last->next = event;
	else
		eq->first = event;
	eq->last = event;
	if (!eq->cnt++)
		mark_readable(eq);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf,
		       size_t len, uint64_t flags)
{
	struct tagrv_eq *eq = eq_of(fid);
	struct tagrv_event *first;
	ssize_t ret = -FI_EAGAIN;

	pthread_mutex_lock(&eq->lock);
	first = eq->first;
	if (first && len < first->len) {
		ret = -FI_ETOOSMALL;
	} else if (first) {
		*event = first->type;
		if (first->len)
			memcpy(buf, first->data, first->len);
		ret = (ssize_t) first->len;
		if (!(flags & FI_PEEK))
			pop(eq);
	}
	pthread_mutex_unlock(&eq->lock);
	return ret;
}

/* No event is an error. */
static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf,
			  uint64_t flags)
{
	(void) eq;
	(void) buf;
	(void) flags;
	return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf,
			size_t len, uint64_t flags)
{
	struct tagrv_eq *eq = eq_of(fid);
	struct tagrv_event *added;
	bool full;

	if (!eq->writable || flags || len > EVENT_MAX)
		return tagrv_refuse(-FI_EINVAL, "fi_eq_write: the queue was "
				    "opened without FI_WRITE, or the call has "
				    "flags or more than %zu bytes", EVENT_MAX);
	added = malloc(sizeof(*added) + len);
	if (!added)
		return -FI_ENOMEM;
	added->next = NULL;
	added->type = event;
	added->len = len;
	if (len)
		memcpy(added->data, buf, len);
	pthread_mutex_lock(&eq->lock);
	full = eq->cnt >= eq->max;
	if (!full)
		push(eq, added);
	pthread_mutex_unlock(&eq->lock);
	if (!full)
		return (ssize_t) len;
	free(added);
	return -FI_EAGAIN;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf,
			size_t len, int timeout, uint64_t flags)
{
	int64_t deadline = tagrv_deadline(timeout);
	struct tagrv_eq *eq = eq_of(fid);
	struct pollfd pfd = { .fd = eq->fd, .events = POLLIN };
	ssize_t ret;
	int left;

	if (eq->fd < 0)
		return tagrv_refuse(-FI_EINVAL, NO_WAIT, "fi_eq_sread");
	for (;;) {
		ret = eq_read(fid, event, buf, len, flags);
		if (ret != -FI_EAGAIN)
			return ret;
		left = tagrv_time_left(deadline);
		if (!left)
			return ret;
		/* fi_eq(3): a signal ends the wait as the timeout does. */
		if (poll(&pfd, 1, left) < 0)
			return errno == EINTR ? -FI_EAGAIN : -errno;
	}
}

static const char *eq_strerror(struct fid_eq *eq, int prov_errno,
			       const void *err_data, char *buf, size_t len)
{
	(void) eq;
	(void) err_data;
	return tagrv_strerror(prov_errno, buf, len);
}

int tagrv_eq_trywait(struct tagrv_eq *eq)
{
	bool empty;

	if (eq->fd < 0)
		return tagrv_refuse(-FI_EINVAL, NO_WAIT, "fi_trywait");
	pthread_mutex_lock(&eq->lock);
	empty = !eq->cnt;
	pthread_mutex_unlock(&eq->lock);
	return empty ? 0 : -FI_EAGAIN;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

static void destroy(struct tagrv_eq *eq)
{
	struct tagrv_event *event;

	while ((event = eq->first)) {
		eq->first = event->next;
		free(event);
	}
	if (eq->fd >= 0)
		close(eq->fd);
	pthread_mutex_destroy(&eq->lock);
	free(eq);
}

static int eq_close(struct fid *fid)
{
	struct tagrv_eq *eq = tagrv_container_of(fid, struct tagrv_eq, eq.fid);
	int ret;

	ret = tagrv_ref_check(&eq->refs, "event queue", "endpoints");
	if (ret)
		return ret;
	tagrv_ref_put(&eq->fabric->refs);
	destroy(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct tagrv_eq *eq = tagrv_container_of(fid, struct tagrv_eq, eq.fid);

	switch (command) {
	case FI_GETWAIT:
		if (eq->fd < 0)
			return -FI_ENODATA;
		*(int *) arg = eq->fd;
		return 0;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *) arg = eq->fd < 0 ? FI_WAIT_NONE :
							 FI_WAIT_FD;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = tagrv_nosys_bind,
	.control = eq_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static int open_fd(enum fi_wait_obj wait_obj, int *fd)
{
	*fd = -1;
	switch (wait_obj) {
	case FI_WAIT_NONE:
		return 0;
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
		*fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		return *fd < 0 ? -errno : 0;
	default:
		return tagrv_refuse(-FI_ENOSYS, "fi_eq_open: wait object %d "
				    "is not supported", (int) wait_obj);
	}
}

int tagrv_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		  struct fid_eq **eq, void *context)
{
	const struct fi_eq_attr defaults = { .wait_obj = FI_WAIT_UNSPEC };
	const struct fi_eq_attr *wanted = attr ? attr : &defaults;
	struct tagrv_eq *self;
	int ret;

	if (wanted->flags & ~(FI_WRITE | FI_AFFINITY))
		return tagrv_refuse(-FI_EBADFLAGS, "fi_eq_open: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) wanted->flags);
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	ret = open_fd(wanted->wait_obj, &self->fd);
	if (ret) {
		free(self);
		return ret;
	}
	pthread_mutex_init(&self->lock, NULL);
	self->max = wanted->size ? wanted->size : SIZE_DEFAULT;
	self->writable = wanted->flags & FI_WRITE;
	self->fabric = tagrv_container_of(fabric, struct tagrv_fabric, fabric);
	self->eq.fid.fclass = FI_CLASS_EQ;
	self->eq.fid.context = context;
	self->eq.fid.ops = &fid_ops;
	self->eq.ops = &eq_ops;
	tagrv_ref_get(&self->fabric->refs);
	*eq = &self->eq;
	return 0;
}
