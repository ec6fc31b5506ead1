/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads, on the side that issues them (a get). shm_serve.c is the other side.
 *
 *   FREE --> CMA --(copied)------------------------------> FREE    shm_cma.c
 *    |        '--(not allowed)--.
 *    '---------------------> QUEUED --(request sent)-->
 *                            REQUESTED --(all pieces)----> FREE    through the rings
 *
 * Pieces come in order. Each has the slot and its generation, so that a piece for an
 * earlier get in the same slot is never taken for one of the current get.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "xport/shm/shm_priv.h"

static struct shm_get *free_slot(struct shm_link *link)
{
	struct shm_get *get = link->gets;

	while (get->state != SHM_GET_FREE)
		get++;
	return get;
}

static void enqueue(struct shm_xport *xp, struct shm_get *get)
{
	bool cma = get->link->cma;

	tagrv_shm_get_set_state(get, cma ? SHM_GET_CMA : SHM_GET_QUEUED);
	tagrv_list_push_tail(cma ? &xp->cma_gets : &xp->queued_gets,
			     &get->node);
	tagrv_shm_set_slow(xp);
	tagrv_shm_wake_if_armed(xp);
}

/* Sends the request of a queued get. False: no room. */
static bool send_request(struct shm_get *get)
{
	struct shm_link *link = get->link;
	struct shm_get_req req = {
		.slot = (uint32_t) (get - link->gets), .gen = get->gen,
		.raddr = get->raddr, .len = get->len,
		.secret = get->secret, .index = get->index,
	};

	if (!link->tx_open ||
	    !tagrv_shm_tx_room(link, sizeof(req), SHM_LEAVE_RESERVE))
		return false;
	memcpy(shm_tx_body(&link->tx, sizeof(req)), &req, sizeof(req));
	tagrv_list_remove(&get->node);
	tagrv_shm_get_set_state(get, SHM_GET_REQUESTED);
	if (!link->requested_cnt++)
		tagrv_list_push_tail(&shm_xport_of_link(link)->waiting,
				     &link->wait_node);
	tagrv_shm_tx_finish(link, SHM_GET_REQ, sizeof(req));
	return true;
}

unsigned tagrv_shm_request_pass(struct shm_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	unsigned events = 0;

	tagrv_list_for_each_safe(&xp->queued_gets, pos, tmp)
		events += send_request(tagrv_container_of(pos, struct shm_get,
							  node));
	return events;
}

/* Returns 0 if a get can be issued now, else its error. */
static int check_get(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (link->closing || link->status || !link->bound)
		return -FI_ENOTCONN;
	if (!link->tx_open && !tagrv_shm_tx_open(link)) {
		tagrv_shm_starve_send(link, SHM_LEAVE_RESERVE, 0);
		return -FI_EAGAIN;
	}
	if (link->get_cnt >= xp->base.attr.get_depth) {
		xp->gets_full = true;
		return -FI_EAGAIN;
	}
	return 0;
}

int tagrv_shm_get(struct tagrv_link *base, void *addr, struct tagrv_mem *mem,
		  uint64_t raddr, const void *key, size_t key_len, size_t len,
		  struct tagrv_done *done)
{
	struct shm_link *link = shm_link_of(base);
	struct shm_xport *xp = shm_xport_of_link(link);
	struct shm_get *get;
	uint64_t secret;
	uint32_t index;
	int ret;

	if (link->closing || link->status)
		return -FI_ENOTCONN;
	if (!tagrv_shm_key_unpack(key, key_len, &index, &secret) ||
	    len > base->get_max ||
	    !tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				mem->len))
		return -FI_EINVAL;
	ret = check_get(link);
	if (ret)
		return ret;
	get = free_slot(link);
	get->link = link;
	get->done = done;
	get->addr = addr;
	get->raddr = raddr;
	get->len = len;
	get->copied = 0;
	get->asked = false;
	get->help = NULL;
	get->secret = secret;
	get->index = index;
	link->get_cnt++;
	xp->get_cnt++;
	enqueue(xp, get);
	if (get->state == SHM_GET_QUEUED)
		send_request(get);
	return 0;
}

void tagrv_shm_get_finish(struct shm_get *get, int status)
{
	struct shm_link *link = get->link;
	struct shm_xport *xp = shm_xport_of_link(link);
	struct tagrv_done *done = get->done;

	tagrv_shm_help_end(get);
	tagrv_list_remove(&get->node);
	if (get->state == SHM_GET_REQUESTED && !--link->requested_cnt)
		tagrv_list_remove(&link->wait_node);
	tagrv_shm_get_set_state(get, SHM_GET_FREE);
	get->gen++;
	link->get_cnt--;
	xp->get_cnt--;
	if (xp->gets_full) {
		xp->gets_full = false;
		xp->room_due = true;
		tagrv_watch_attend(xp->base.sink->watch);
	}
	if (done)
		done->fn(done, status);
}

/* Of a link that its owner closes, memory is deregistered behind that: see lane.c. */
void tagrv_shm_get_refuse(struct shm_get *get)
{
	struct shm_link *link = get->link;
	int status = -FI_EACCES;

	if (atomic_load_explicit(&link->tx_ready, memory_order_acquire) &&
	    atomic_load(&link->tx.hdr->cons.state) & SHM_CLOSED)
		status = -FI_ECONNRESET;
	tagrv_shm_get_finish(get, status);
}

unsigned tagrv_shm_gets_end(struct shm_link *link, int status)
{
	unsigned events = 0;

	for (unsigned i = 0; i < SHM_GETS && link->get_cnt; i++) {
		if (link->gets[i].state == SHM_GET_FREE)
			continue;
		tagrv_shm_get_finish(&link->gets[i], status);
		events++;
	}
	return events;
}

/* ---- answers, in which any field may be wrong ---- */

static struct shm_get *find(struct shm_link *link, uint32_t slot, uint32_t gen)
{
	struct shm_get *get = &link->gets[slot % SHM_GETS];

	return slot < SHM_GETS && get->state == SHM_GET_REQUESTED &&
	       get->gen == gen ? get : NULL;
}

bool tagrv_shm_on_get_data(struct shm_link *link, const char *body, size_t len)
{
	struct shm_get_data data;
	struct shm_get *get;
	size_t bytes;

	if (len < sizeof(data))
		return false;
	memcpy(&data, body, sizeof(data));
	bytes = len - sizeof(data);
	get = find(link, data.slot, data.gen);
	if (!get || data.offset != get->copied ||
	    bytes > get->len - get->copied || (!bytes && get->len))
		return false;
	memcpy(get->addr + get->copied, body + sizeof(data), bytes);
	get->copied += bytes;
	if (get->copied == get->len)
		tagrv_shm_get_finish(get, 0);
	return true;
}

bool tagrv_shm_on_get_fail(struct shm_link *link, const char *body, size_t len)
{
	struct shm_get_fail fail;
	struct shm_get *get;

	if (len != sizeof(fail))
		return false;
	memcpy(&fail, body, sizeof(fail));
	get = find(link, fail.slot, fail.gen);
	if (!get)
		return false;
	tagrv_shm_get_refuse(get);
	return true;
}
