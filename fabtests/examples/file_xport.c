/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The toy transport of prov/tagrv/docs/new_transport.md: packets travel as files. All that one
 * side knows of the other is which files are in the inboxes:
 *
 *   packet i - FILE_WINDOW is still there	the inbox has no room for packet i
 *   the folder is gone				the peer has closed the link
 */
#include "examples/file_xport.h"

#include <ctype.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/iov.h"
#include "xport/stubs.h"

static int discover(const struct tagrv_params *params, struct tagrv_device_desc **descs,
		    size_t *cnt, char *why, size_t why_len)
{
	(void) params;
	return tagrv_stub_discover(FILE_NAME, descs, cnt, why, why_len);
}

static int dev_open(const char *name, const struct tagrv_params *params, struct tagrv_device **dev)
{
	static struct tagrv_device device = {
		.ops = &tagrv_file_ops, .name = FILE_NAME, .max_msg = SIZE_MAX >> 1, .software = true,
	};

	(void) params;
	if (strcmp(name, FILE_NAME))
		return -FI_ENODEV;
	*dev = &device;
	return 0;
}

static int xport_open(struct tagrv_device *dev, const struct tagrv_params *params,
		      struct tagrv_sink *sink, struct tagrv_xport **xport)
{
	size_t max = TAGRV_MIN(params->eager_max + TAGRV_HDR_ROOM, (size_t) FILE_PACKET_MAX);
	struct file_xport *xp = calloc(1, sizeof(*xp));

	if (!xp)
		return -FI_ENOMEM;
	xp->base = (struct tagrv_xport) { .ops = dev->ops, .dev = dev, .sink = sink, .attr = {
		.max_inline = max, .max_packet = max, .latency = 20e-6, .bandwidth = 1e9,
		.overhead = 10e-6, .source = "declared",	/* no caps: neither get nor put */
	} };
	tagrv_list_init(&xp->links);
	xp->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);	/* if -1, link_create fails */
	*xport = &xp->base;
	return 0;
}

static void xport_close(struct tagrv_xport *xport)
{
	while (!tagrv_list_empty(&to_xport(xport)->links))
		tagrv_file_ops.progress(xport);
	close(to_xport(xport)->watch);
	free(to_xport(xport));
}

/* True while 'window' packets are on their way: the first of them is still in the peer's inbox. */
static bool is_full(const struct file_link *l, uint64_t window)
{
	return l->sent - l->ended >= window ||
	       (l->sent >= window && !access(PATH(l->out, l->sent - window), F_OK));
}

static bool has_packet(const struct file_link *l)
{
	return l->status != -FI_EREMOTEIO && !l->reported && !access(PATH(l->in, l->taken), F_OK);
}

/* Makes wait_fd readable: there may be work that no peer announces. */
static void ring(const struct file_link *l)
{
	utimensat(AT_FDCWD, l->in, NULL, 0);
}

/* Ends a link in any state: half created, not bound, never attached, or closed. */
static void link_discard(struct tagrv_link *link)
{
	struct file_link *l = to_link(link);

	unlink(PATH(l->in, FILE_UNSENT));
	for (unsigned i = 0; rmdir(l->in) && i < 2 * FILE_WINDOW; i++)
		unlink(PATH(l->in, l->taken++));
	free(l);
}

static int link_create(struct tagrv_xport *xport, void *blob, size_t *len, struct tagrv_link **link)
{
	struct file_link *l = calloc(1, sizeof(*l));

	if (!l)
		return -FI_ENOMEM;
	l->base.xport = xport;
	strcpy(l->in, FILE_FOLDER "XXXXXX");
	if (!mkdtemp(l->in) || inotify_add_watch(to_xport(xport)->watch, l->in,
						 IN_MOVED_TO | IN_ATTRIB | IN_MASK_ADD) < 0) {
		link_discard(&l->base);
		return -FI_ENOSPC;
	}
	memcpy(blob, l->in + strlen(FILE_FOLDER), FILE_ID_LEN);
	*len = FILE_ID_LEN;
	*link = &l->base;
	return 0;
}

/* The blob comes from a stranger: it must not lead to a folder that is no inbox. */
static int link_bind(struct tagrv_link *link, const void *blob, size_t len)
{
	const char *id = blob;

	for (size_t i = 0; i < FILE_ID_LEN; i++)
		if (len != FILE_ID_LEN || !isalnum((unsigned char) id[i]))
			return -FI_EINVAL;
	snprintf(to_link(link)->out, sizeof(to_link(link)->out), FILE_FOLDER "%.6s", id);
	return inotify_add_watch(to_xport(link->xport)->watch, to_link(link)->out,
				 IN_DELETE | IN_MASK_ADD) < 0 ? -FI_EHOSTUNREACH : 0;
}

static int link_attach(struct tagrv_link *link, void *ctx)
{
	if (!to_link(link)->out[0])
		return -FI_ENOTCONN;
	link->ctx = ctx;
	tagrv_list_push_tail(&to_xport(link->xport)->links, &to_link(link)->node);
	ring(to_link(link));
	return 0;
}

/* No callback may run in here, so the link is only marked: progress does the rest. */
static void link_close(struct tagrv_link *link)
{
	to_link(link)->closing = true;
	ring(to_link(link));
}

/* When the peer is gone, the packet counts as sent: link_error follows, then done. */
static int send_packet(struct tagrv_link *link, const struct iovec *iov, size_t cnt, unsigned flags,
		       struct tagrv_done *done)
{
	struct file_link *l = to_link(link);
	size_t len = tagrv_iov_len(iov, cnt);
	int fd;

	if (l->status || l->closing)
		return -FI_ENOTCONN;
	if (len > link->xport->attr.max_packet)
		return -FI_EMSGSIZE;
	if (is_full(l, FILE_WINDOW - (flags & TAGRV_SEND_CTRL ? 0 : FILE_CTRL))) {
		l->starved = true;
		return -FI_EAGAIN;
	}
	fd = open(PATH(l->in, FILE_UNSENT), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (writev(fd, iov, (int) cnt) != (ssize_t) len)
		l->status = -FI_EIO;
	else if (rename(PATH(l->in, FILE_UNSENT), PATH(l->out, l->sent)))
		l->status = -FI_ECONNRESET;
	close(fd);
	l->done[l->sent++ % FILE_WINDOW] = done;
	to_xport(link->xport)->outstanding++;
	ring(l);
	return 0;
}

/* A packet that one of these callbacks sends ends in the next pass. */
static int end_sends(struct file_link *l)
{
	int events = 0;

	for (uint64_t last = l->sent; l->ended != last; events++) {
		struct tagrv_done *done = l->done[l->ended++ % FILE_WINDOW];

		to_xport(l->base.xport)->outstanding--;
		if (done)
			done->fn(done, l->status);
	}
	return events;
}

static void deliver(struct file_link *l)
{
	struct file_xport *xp = to_xport(l->base.xport);
	int fd = open(PATH(l->in, l->taken), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = read(fd, xp->packet, sizeof(xp->packet));

	close(fd);
	unlink(PATH(l->in, l->taken++));
	if (len < 0 || (size_t) len > xp->base.attr.max_packet)
		l->status = -FI_EREMOTEIO;
	else
		xp->base.sink->packet(xp->base.sink, l->base.ctx, xp->packet, (size_t) len);
}

/* A failure is reported behind the last packet that arrived; done callbacks follow it. */
static int drive_link(struct file_link *l, bool all)
{
	struct tagrv_sink *sink = l->base.xport->sink;
	void *ctx = l->base.ctx;
	int events = 0;

	if (!l->status || l->reported || l->closing)
		events += end_sends(l);
	if (l->starved && !l->status && !is_full(l, FILE_WINDOW - FILE_CTRL)) {
		l->starved = false;
		sink->room(sink);
		events++;
	}
	if (all && !l->closing && has_packet(l)) {	/* one packet: a pass is bounded */
		deliver(l);
		events++;
	}
	if (l->status && !l->reported && !l->closing && !has_packet(l)) {
		l->reported = true;
		sink->link_error(sink, ctx, l->status);
		events++;
	}
	if (events)
		ring(l);
	if (all && l->closing && l->ended == l->sent) {
		tagrv_list_remove(&l->node);
		link_discard(&l->base);
		sink->link_closed(sink, ctx);
		events++;
	}
	return events;
}

/* Callbacks may close any link, but only drive_link frees one: the loop's current link. */
static int drive(struct tagrv_xport *xport, bool all)
{
	struct file_xport *xp = to_xport(xport);
	struct tagrv_list *pos, *tmp;
	int events = 0;

	if (xp->busy)
		return 0;
	while (all && read(xp->watch, xp->packet, sizeof(xp->packet)) > 0)
		;
	xp->busy = true;
	tagrv_list_for_each_safe(&xp->links, pos, tmp)
		events += drive_link(tagrv_container_of(pos, struct file_link, node), all);
	xp->busy = false;
	return events;
}

static int progress(struct tagrv_xport *xport)
{
	return drive(xport, true);
}

static int reap(struct tagrv_xport *xport)
{
	return drive(xport, false);
}

static size_t outstanding(struct tagrv_xport *xport)
{
	return to_xport(xport)->outstanding;
}

static int wait_fd(struct tagrv_xport *xport)
{
	return to_xport(xport)->watch;
}

/* progress empties the descriptor before it looks for work, and rings if it found some. */
static int arm(struct tagrv_xport *xport)
{
	int unread = 0;

	ioctl(to_xport(xport)->watch, FIONREAD, &unread);
	return unread ? -FI_EAGAIN : 0;
}

const struct tagrv_xport_ops tagrv_file_ops = {
	.name = FILE_NAME, .wire_id = 200, .discover = discover, .dev_open = dev_open,
	.dev_close = tagrv_stub_dev_event,	/* does nothing: dev_open has made nothing */
	.dev_event_fd = tagrv_stub_dev_event_fd, .dev_event = tagrv_stub_dev_event,
	.mem_reg = tagrv_stub_mem_reg, .mem_dereg = tagrv_stub_mem_dereg,
	.mem_key = tagrv_stub_mem_key, .xport_open = xport_open, .xport_close = xport_close,
	.link_create = link_create, .link_bind = link_bind, .link_discard = link_discard,
	.side_create = tagrv_stub_side_create,
	.link_attach = link_attach, .link_close = link_close,
	.link_resume = tagrv_stub_link_resume, .link_unrenewed = tagrv_stub_link_unrenewed,
	.blobs_near = tagrv_stub_blobs_near, .send = send_packet,
	.send_short = tagrv_stub_send_short, .send_tagged = tagrv_stub_send_tagged,
	.drain = tagrv_stub_drain,
	.publish = tagrv_stub_publish,
	.send_prepared = tagrv_stub_send_prepared,
	.get = tagrv_stub_get, .put = tagrv_stub_put, .atomic = tagrv_stub_atomic, .progress = progress, .reap = reap,
	.flush = tagrv_stub_flush, .check = tagrv_stub_check, .outstanding = outstanding,
	.wait_fd = wait_fd, .arm = arm,
};
