/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of the wireup thread: listener, commands about peers, queue of
 * events.
 *
 * Events are never lost for want of memory: their messages are allocated before
 * a connection is tried (wireup_act.c), and with them one for the DROP command of this
 * connection, which is kept from its UP on.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/log.h"
#include "core/random.h"
#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

/* -- in the thread -------------------------------------------------------- */

int tagrv_wireup_ep_start(struct tagrv_wireup_ep *wep)
{
	struct tagrv_wireup *wireup = wep->wireup;
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = wep };

	if (tagrv_wireup_timer_reserve(&wireup->timers))
		return -FI_ENOMEM;
	if (tagrv_wireup_timer_reserve(&wireup->timers))
		goto release_resume;
	if (epoll_ctl(wireup->epfd, EPOLL_CTL_ADD, wep->fd, &ev))
		goto release_ticker;
	if (wep->attr.tick)
		tagrv_wireup_timer_set(&wireup->timers, &wep->ticker,
				       wireup->now + wep->attr.tick);
	return 0;

release_ticker:
	tagrv_wireup_timer_release(&wireup->timers, &wep->ticker);
release_resume:
	tagrv_wireup_timer_release(&wireup->timers, &wep->resume);
	return -FI_ENOMEM;
}

/* Closes half-open sockets; sockets of connections are in state LINGER by now. */
static void close_socks(struct tagrv_wireup_ep *wep)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&wep->socks)) != NULL)
		tagrv_wireup_sock_close(
			tagrv_container_of(node, struct tagrv_wireup_sock,
					   node));
}

void tagrv_wireup_ep_stop(struct tagrv_wireup_ep *wep)
{
	/*
	 * If a forked process has a copy of the listener, close() alone would
	 * leave it in our epoll set.
	 */
	(void) epoll_ctl(wep->wireup->epfd, EPOLL_CTL_DEL, wep->fd, NULL);
	close(wep->fd);
	wep->paused = false;		/* nothing to resume */
	tagrv_wireup_admit_stop(wep);
	tagrv_wireup_peer_close_all(wep);
	close_socks(wep);
	tagrv_wireup_timer_release(&wep->wireup->timers, &wep->ticker);
	tagrv_wireup_timer_release(&wep->wireup->timers, &wep->resume);
	if (wep->strangers > 1)
		tagrv_info("wireup: %lu connections were closed, because they "
			   "did not come from peers\n", wep->strangers);
}

/* -- events out ---------------------------------------------------------- */

void tagrv_wireup_emit(struct tagrv_wireup_ep *wep,
		       struct tagrv_wireup_msg *msg, struct tagrv_wireup_msg *spare)
{
	pthread_mutex_lock(&wep->mutex);
	if (spare)
		tagrv_list_push_tail(&wep->spares, &spare->node);
	tagrv_list_push_tail(&wep->events, &msg->node);
	atomic_fetch_add_explicit(&wep->event_cnt, 1, memory_order_release);
	pthread_mutex_unlock(&wep->mutex);
	if (wep->attr.kick)
		wep->attr.kick(wep->attr.kick_arg);
}

void tagrv_wireup_msg_fill(struct tagrv_wireup_msg *msg,
			   const struct tagrv_wireup_event *event)
{
	msg->type = (uint8_t) event->type;
	msg->status = event->status;
	msg->epoch = event->epoch;
	msg->addr = event->addr;
}

void tagrv_wireup_up_fill(struct tagrv_wireup_up *up,
			  const struct tagrv_wireup_event *event)
{
	tagrv_wireup_msg_fill(&up->msg, event);
	up->resumes = event->resumes;
	up->sendable = event->sendable;
	up->link = event->link;
	up->max_packet = event->max_packet;
	up->features = event->features;
	memcpy(up->uuid, event->uuid, TAGRV_UUID_LEN);
}

/* NULL: the event is another one. */
static struct tagrv_wireup_up *up_of(struct tagrv_wireup_msg *msg)
{
	return msg->type == TAGRV_WIREUP_UP ?
	       tagrv_container_of(msg, struct tagrv_wireup_up, msg) : NULL;
}

/* The reverse. */
static void read_msg(struct tagrv_wireup_msg *msg, struct tagrv_wireup_event *event)
{
	const struct tagrv_wireup_up *up = up_of(msg);

	*event = (struct tagrv_wireup_event) {
		.type = (enum tagrv_wireup_event_type) msg->type,
		.status = msg->status,
		.epoch = msg->epoch,
		.addr = msg->addr,
	};
	if (!up)
		return;
	event->resumes = up->resumes;
	event->sendable = up->sendable;
	event->link = up->link;
	event->max_packet = up->max_packet;
	event->features = up->features;
	memcpy(event->uuid, up->uuid, TAGRV_UUID_LEN);
}

/* The UP of a renewal that this one follows and that was not polled yet, or NULL. */
static struct tagrv_wireup_up *find_renewal(struct tagrv_wireup_ep *wep,
					     const struct tagrv_wireup_event *next)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&wep->events, pos) {
		struct tagrv_wireup_up *up =
			up_of(tagrv_container_of(pos, struct tagrv_wireup_msg, node));

		if (up && up->resumes && up->msg.epoch == next->resumes &&
		    tagrv_addr_equal(&up->msg.addr, &next->addr))
			return up;
	}
	return NULL;
}

bool tagrv_wireup_replace(struct tagrv_wireup_ep *wep,
			  const struct tagrv_wireup_event *event)
{
	struct tagrv_link *old = NULL;
	struct tagrv_wireup_up *up;
	uint32_t resumes;

	pthread_mutex_lock(&wep->mutex);
	up = find_renewal(wep, event);
	if (up) {
		old = up->link;
		resumes = up->resumes;
		tagrv_wireup_up_fill(up, event);
		up->resumes = resumes;
	}
	pthread_mutex_unlock(&wep->mutex);
	if (old)
		old->xport->ops->link_discard(old);
	return old != NULL;
}

/*
 * Keeps the message of a TICK or CROWDED for the next one. GONE frees a spare: no drop
 * follows. Returns the message if the caller must free it. wep->mutex held.
 */
static struct tagrv_wireup_msg *recycle_msg(struct tagrv_wireup_ep *wep,
					   struct tagrv_wireup_msg *msg)
{
	struct tagrv_list *node;

	if (msg->type == TAGRV_WIREUP_TICK) {
		wep->tick = msg;
		return NULL;
	}
	if (msg->type == TAGRV_WIREUP_CROWDED) {
		wep->crowded = msg;
		return NULL;
	}
	if (msg->type == TAGRV_WIREUP_GONE &&
	    (node = tagrv_list_pop(&wep->spares)) != NULL)
		free(tagrv_container_of(node, struct tagrv_wireup_msg, node));
	return msg;
}

const _Atomic uint64_t *
tagrv_wireup_event_cnt(const struct tagrv_wireup_ep *wep)
{
	return &wep->event_cnt;
}

bool tagrv_wireup_poll(struct tagrv_wireup_ep *wep,
		       struct tagrv_wireup_event *event)
{
	struct tagrv_wireup_msg *msg = NULL;
	struct tagrv_list *node;

	if (!atomic_load_explicit(&wep->event_cnt, memory_order_acquire))
		return false;
	pthread_mutex_lock(&wep->mutex);
	node = tagrv_list_pop(&wep->events);
	if (node) {
		atomic_fetch_sub_explicit(&wep->event_cnt, 1,
					  memory_order_relaxed);
		msg = tagrv_container_of(node, struct tagrv_wireup_msg, node);
		read_msg(msg, event);
		msg = recycle_msg(wep, msg);
	}
	pthread_mutex_unlock(&wep->mutex);
	free(msg);
	return node != NULL;
}

/* -- public --------------------------------------------------------------- */

static void resume_accept(struct tagrv_wireup_timer *timer)
{
	tagrv_wireup_sock_resume_accept(
		tagrv_container_of(timer, struct tagrv_wireup_ep, resume));
}

/* Emits an event that has one message, unless it is queued already. */
static void emit_only(struct tagrv_wireup_ep *wep, struct tagrv_wireup_msg **only)
{
	struct tagrv_wireup_msg *msg;

	pthread_mutex_lock(&wep->mutex);
	msg = *only;
	*only = NULL;
	pthread_mutex_unlock(&wep->mutex);
	if (msg)
		tagrv_wireup_emit(wep, msg, NULL);
}

void tagrv_wireup_crowded(struct tagrv_wireup_ep *wep)
{
	emit_only(wep, &wep->crowded);
}

static void tick(struct tagrv_wireup_timer *timer)
{
	struct tagrv_wireup_ep *wep =
		tagrv_container_of(timer, struct tagrv_wireup_ep, ticker);
	struct tagrv_wireup *wireup = wep->wireup;

	emit_only(wep, &wep->tick);
	tagrv_wireup_timer_set(&wireup->timers, timer,
			       wireup->now + wep->attr.tick);
}

static struct tagrv_wireup_msg *new_only(struct tagrv_wireup_ep *wep,
					 enum tagrv_wireup_event_type type)
{
	struct tagrv_wireup_msg *msg = calloc(1, sizeof(*msg));

	if (!msg)
		return NULL;
	msg->wep = wep;
	msg->type = (uint8_t) type;
	return msg;
}

static int init_only(struct tagrv_wireup_ep *wep)
{
	wep->ticker.fn = tick;
	wep->crowded = new_only(wep, TAGRV_WIREUP_CROWDED);
	if (!wep->crowded)
		return -FI_ENOMEM;
	if (!wep->attr.tick)
		return 0;
	wep->tick = new_only(wep, TAGRV_WIREUP_TICK);
	return wep->tick ? 0 : -FI_ENOMEM;
}

static int init_host(struct tagrv_wireup_ep *wep)
{
	struct tagrv_conn_host *host = &wep->host;

	*host = (struct tagrv_conn_host) {
		.ops = &tagrv_wireup_conn_ops,
		.xports = wep->attr.xports,
		.xport_cnt = wep->attr.xport_cnt,
		.addr = wep->name,
		.features = TAGRV_WIRE_PART |
			    (wep->attr.max_sockets ? TAGRV_WIRE_SOCKETLESS : 0),
		.timeout = (uint64_t) wep->attr.connect_timeout * 1000,
		.now = &wep->wireup->patient,
		.claims_max = wep->wireup->caps.strangers,
	};
	if (tagrv_random_fill(host->uuid, sizeof(host->uuid)) ||
	    tagrv_random_fill(&host->seed, sizeof(host->seed)))
		return -FI_EIO;
	host->seed |= 1;
	return 0;
}

static void free_msgs(struct tagrv_list *msgs)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(msgs)) != NULL) {
		struct tagrv_wireup_msg *msg = tagrv_container_of(
			node, struct tagrv_wireup_msg, node);
		struct tagrv_wireup_up *up = up_of(msg);

		if (up)
			up->link->xport->ops->link_discard(up->link);
		free(msg);
	}
}

int tagrv_wireup_listen(struct tagrv_wireup *wireup,
			const struct tagrv_wireup_attr *attr,
			struct tagrv_wireup_ep **wep)
{
	struct tagrv_wireup_ep *out = calloc(1, sizeof(*out));
	int ret;

	if (!out)
		return -FI_ENOMEM;
	out->listener = TAGRV_WIREUP_LISTENER;
	out->wireup = wireup;
	out->attr = *attr;
	out->resume.fn = resume_accept;
	tagrv_wireup_peers_init(out);
	tagrv_list_init(&out->socks);
	tagrv_list_init(&out->kept);
	tagrv_list_init(&out->events);
	tagrv_list_init(&out->spares);
	ret = init_only(out);
	if (ret)
		goto free_out;
	ret = tagrv_wireup_net_listen(&attr->addr, &out->name);
	if (ret < 0)
		goto free_out;
	out->fd = ret;
	ret = init_host(out);
	if (ret)
		goto close_fd;
	pthread_mutex_init(&out->mutex, NULL);
	ret = tagrv_wireup_call(wireup, TAGRV_WIREUP_LISTEN, out);
	if (ret)
		goto destroy_mutex;
	*wep = out;
	return 0;

destroy_mutex:
	pthread_mutex_destroy(&out->mutex);
close_fd:
	close(out->fd);
free_out:
	free(out->tick);
	free(out->crowded);
	free(out);
	return ret;
}

void tagrv_wireup_unlisten(struct tagrv_wireup_ep *wep)
{
	if (!wep)
		return;
	tagrv_wireup_call(wep->wireup, TAGRV_WIREUP_UNLISTEN, wep);
	free_msgs(&wep->events);
	free(wep->tick);
	free(wep->crowded);
	while (!tagrv_list_empty(&wep->spares))
		free(tagrv_container_of(tagrv_list_pop(&wep->spares),
					struct tagrv_wireup_msg, node));
	pthread_mutex_destroy(&wep->mutex);
	free(wep);
}

void tagrv_wireup_name(const struct tagrv_wireup_ep *wep,
		       struct tagrv_addr *addr)
{
	*addr = wep->name;
}

int tagrv_wireup_connect(struct tagrv_wireup_ep *wep,
			 const struct tagrv_addr *addr)
{
	struct tagrv_wireup_msg *msg = calloc(1, sizeof(*msg));

	if (!msg)
		return -FI_ENOMEM;
	msg->cmd = TAGRV_WIREUP_CONNECT;
	msg->wep = wep;
	msg->addr = *addr;
	tagrv_wireup_push(wep->wireup, msg);
	return 0;
}

/* Uses the message that came with the UP, so that it does not depend on memory. */
static void push_about(struct tagrv_wireup_ep *wep, struct tagrv_wireup_msg cmd)
{
	struct tagrv_wireup_msg *msg = NULL;
	struct tagrv_list *node = NULL;

	/* A link that is renewed will be dropped, too. */
	if (cmd.cmd == TAGRV_WIREUP_RENEW)
		msg = malloc(sizeof(*msg));
	if (!msg) {
		pthread_mutex_lock(&wep->mutex);
		node = tagrv_list_pop(&wep->spares);
		pthread_mutex_unlock(&wep->mutex);
	}
	if (node)
		msg = tagrv_container_of(node, struct tagrv_wireup_msg, node);
	else if (!msg)
		msg = malloc(sizeof(*msg));
	if (!msg)
		return;
	*msg = cmd;
	msg->wep = wep;
	tagrv_wireup_push(wep->wireup, msg);
}

void tagrv_wireup_drop(struct tagrv_wireup_ep *wep,
		       const struct tagrv_addr *addr, uint32_t epoch)
{
	push_about(wep, (struct tagrv_wireup_msg) {
		.cmd = TAGRV_WIREUP_DROP,
		.addr = *addr,
		.epoch = epoch,
	});
}

void tagrv_wireup_renew(struct tagrv_wireup_ep *wep,
			const struct tagrv_addr *addr, uint32_t epoch,
			bool down, unsigned patience)
{
	push_about(wep, (struct tagrv_wireup_msg) {
		.cmd = TAGRV_WIREUP_RENEW,
		.down = down,
		.patience = patience,
		.addr = *addr,
		.epoch = epoch,
	});
}
