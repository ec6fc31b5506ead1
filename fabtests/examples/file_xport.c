/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A toy transport: packets between processes of one host travel as files. It is the example of
 * prov/tagrv/docs/new_transport.md. It keeps what xport.h promises, but is slow and does not
 * notice that a peer was killed.
 *
 * The inbox of a link is a folder /tmp/tagrv-file-XXXXXX; its last six letters are the blob. The
 * peer writes a packet to a file of its own and renames that into our inbox, to the packet's
 * number, so a packet is there as a whole or not at all. We deliver 0, 1, ... in order and remove
 * each one after its callback. All that one side knows of the other is which files exist:
 *
 *   packet i - FILE_WINDOW is still there	the inbox has no room for packet i
 *   the folder is gone				the peer has closed the link
 *
 * inotify wakes a sleeping thread when a packet comes to its inbox, or leaves the peer's.
 */
#include "examples/file_xport.h"

#include <ctype.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/iov.h"
#include "xport/stubs.h"

/* ---- device ---- */

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

static void dev_close(struct tagrv_device *dev)
{
	(void) dev;		/* dev_open has made nothing */
}

/* ---- xport ---- */

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
	xp->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (xp->watch < 0) {
		free(xp);
		return -FI_EMFILE;
	}
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

/* ---- inboxes ---- */

#define PATH(inbox, nr)	path_of((char[64]) { "" }, inbox, nr)

static const char *path_of(char path[64], const char *inbox, uint64_t nr)
{
	snprintf(path, 64, "%s/%llu", inbox, (unsigned long long) nr);
	return path;
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

/* 0, or -FI_E*: the packet is not in the peer's inbox, and the link has failed. */
static int put_packet(struct file_link *l, const struct iovec *iov, size_t cnt, size_t len)
{
	int fd = open(PATH(l->in, FILE_UNSENT), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t written = writev(fd, iov, (int) cnt);

	close(fd);
	if (written != (ssize_t) len)
		return -FI_EIO;
	return rename(PATH(l->in, FILE_UNSENT), PATH(l->out, l->sent)) ? -FI_ECONNRESET : 0;
}

/* Returns the bytes of the next packet; negative: the file cannot be read. */
static ssize_t get_packet(const struct file_link *l, char *to, size_t size)
{
	int fd = open(PATH(l->in, l->taken), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = read(fd, to, size);

	close(fd);
	return len;
}

/* Wakes our own sleeping threads: a call of ours has made work that no peer announces. */
static void ring(const struct file_link *l)
{
	utimensat(AT_FDCWD, l->in, NULL, 0);
}

/* ---- links ---- */

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
	char out[sizeof(to_link(link)->out)] = FILE_FOLDER;

	if (len != FILE_ID_LEN)
		return -FI_EINVAL;
	memcpy(out + strlen(FILE_FOLDER), blob, len);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char) out[strlen(FILE_FOLDER) + i]))
			return -FI_EINVAL;
	if (inotify_add_watch(to_xport(link->xport)->watch, out, IN_DELETE | IN_MASK_ADD) < 0)
		return -FI_EHOSTUNREACH;
	strcpy(to_link(link)->out, out);
	return 0;
}

static int link_attach(struct tagrv_link *link, void *ctx)
{
	if (!to_link(link)->out[0])
		return -FI_ENOTCONN;
	link->ctx = ctx;
	tagrv_list_push_tail(&to_xport(link->xport)->links, &to_link(link)->node);
	return 0;
}

/* No callback may run in here, so the link is only marked: progress does the rest. */
static void link_close(struct tagrv_link *link)
{
	to_link(link)->closing = true;
	ring(to_link(link));
}

/* ---- sends ---- */

/* When the peer is gone, the packet counts as sent: progress calls link_error, then done. */
static int send_packet(struct tagrv_link *link, const struct iovec *iov, size_t cnt, unsigned flags,
		       struct tagrv_done *done)
{
	struct file_link *l = to_link(link);
	size_t len = tagrv_iov_len(iov, cnt);

	if (l->status || l->closing)
		return -FI_ENOTCONN;
	if (len > link->xport->attr.max_packet)
		return -FI_EMSGSIZE;
	if (is_full(l, FILE_WINDOW - (flags & TAGRV_SEND_CTRL ? 0 : FILE_CTRL))) {
		l->starved = true;
		return -FI_EAGAIN;
	}
	l->status = put_packet(l, iov, cnt, len);
	l->done[l->sent++ % FILE_WINDOW] = done;
	to_xport(link->xport)->outstanding++;
	ring(l);
	return 0;
}

/* Packets that these callbacks send end in the next pass. */
static int end_sends(struct file_link *l, int status)
{
	uint64_t last = l->sent;
	int events = 0;

	for (; l->ended != last; events++) {
		struct tagrv_done *done = l->done[l->ended++ % FILE_WINDOW];

		to_xport(l->base.xport)->outstanding--;
		if (done)
			done->fn(done, status);
	}
	return events;
}

/* ---- progress ---- */

/* Delivers a window at most: a peer that never stops sending must not keep us here. */
static int deliver(struct file_link *l)
{
	struct file_xport *xp = to_xport(l->base.xport);
	int events = 0;

	while (events < (int) FILE_WINDOW && !l->closing && has_packet(l)) {
		ssize_t len = get_packet(l, xp->packet, sizeof(xp->packet));

		if (len < 0 || (size_t) len > xp->base.attr.max_packet) {
			l->status = -FI_EREMOTEIO;
			break;
		}
		xp->base.sink->packet(xp->base.sink, l->base.ctx, xp->packet, (size_t) len);
		unlink(PATH(l->in, l->taken++));
		events++;
	}
	return events;
}

/* Reports a failure, after every packet that the peer had sent before was delivered. */
static int report(struct file_link *l)
{
	struct tagrv_sink *sink = l->base.xport->sink;

	if (!l->status || l->reported || l->closing || has_packet(l))
		return 0;
	l->reported = true;
	sink->link_error(sink, l->base.ctx, l->status);
	return 1 + end_sends(l, l->status);
}

static int bury(struct file_link *l)
{
	struct tagrv_sink *sink = l->base.xport->sink;
	void *ctx = l->base.ctx;

	end_sends(l, -FI_ECANCELED);
	tagrv_list_remove(&l->node);
	link_discard(&l->base);
	sink->link_closed(sink, ctx);
	return 1;
}

static bool has_room(struct file_link *l)
{
	return l->starved && !l->status && !is_full(l, FILE_WINDOW - FILE_CTRL);
}

/* Callbacks may close any link, but bury() alone frees one, and only the loop's current one. */
static int pass(struct tagrv_xport *xport, bool all)
{
	struct file_xport *xp = to_xport(xport);
	struct tagrv_list *pos, *tmp;
	bool room = false;
	int events = 0;

	if (xp->busy)
		return 0;
	xp->busy = true;
	tagrv_list_for_each_safe(&xp->links, pos, tmp) {
		struct file_link *l = tagrv_container_of(pos, struct file_link, node);

		if (!l->status && !l->closing)
			events += end_sends(l, 0);
		if (has_room(l)) {
			l->starved = false;
			room = true;
		}
		if (all)
			events += deliver(l);
		events += report(l);
		if (all && l->closing)
			events += bury(l);
	}
	if (room)
		xport->sink->room(xport->sink);
	xp->busy = false;
	return events + room;
}

static int progress(struct tagrv_xport *xport)
{
	return pass(xport, true);
}

static int reap(struct tagrv_xport *xport)
{
	return pass(xport, false);
}

static size_t outstanding(struct tagrv_xport *xport)
{
	return to_xport(xport)->outstanding;
}

/* ---- sleeping ---- */

static int wait_fd(struct tagrv_xport *xport)
{
	return to_xport(xport)->watch;
}

static struct file_link *find_work(struct file_xport *xp)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&xp->links, pos) {
		struct file_link *l = tagrv_container_of(pos, struct file_link, node);

		if (l->closing || l->ended != l->sent || has_packet(l) || has_room(l))
			return l;
	}
	return NULL;
}

/* Where there is work the descriptor stays readable, for other threads may sleep on it. */
static int arm(struct tagrv_xport *xport)
{
	struct file_link *l = find_work(to_xport(xport));
	char events[4096];

	if (l)
		return -FI_EAGAIN;
	while (read(to_xport(xport)->watch, events, sizeof(events)) > 0)
		;
	l = find_work(to_xport(xport));	/* it may have come between the two calls */
	if (l)
		ring(l);
	return l ? -FI_EAGAIN : 0;
}

const struct tagrv_xport_ops tagrv_file_ops = {
	.name = FILE_NAME, .wire_id = 200,
	.discover = discover, .dev_open = dev_open, .dev_close = dev_close,
	.dev_event_fd = tagrv_stub_dev_event_fd, .dev_event = tagrv_stub_dev_event,
	.mem_reg = tagrv_stub_mem_reg, .mem_dereg = tagrv_stub_mem_dereg,
	.mem_key = tagrv_stub_mem_key, .xport_open = xport_open, .xport_close = xport_close,
	.link_create = link_create, .link_bind = link_bind, .link_discard = link_discard,
	.link_attach = link_attach, .link_close = link_close, .send = send_packet,
	.send_short = tagrv_stub_send_short, .send_prepared = tagrv_stub_send_prepared,
	.get = tagrv_stub_get, .put = tagrv_stub_put, .progress = progress, .reap = reap,
	.flush = tagrv_stub_flush, .outstanding = outstanding, .wait_fd = wait_fd, .arm = arm,
};
