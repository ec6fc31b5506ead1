/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Both ends of a connection, the queues between them, and registered memory.
 */
#include "sim_xport.h"

#include <stdlib.h>
#include <string.h>

struct sim_mem {
	struct tagrv_mem base;
	uint32_t key;
	struct sim_mem *next;
};

static struct sim_mem *mems;
static uint32_t last_key;

/* --- queues --- */

static void queue_init(struct queue *q)
{
	*q = (struct queue){ .tail = &q->head };
}

void sim_queue_push(struct queue *q, struct item *item)
{
	item->next = NULL;
	*q->tail = item;
	q->tail = &item->next;
	q->cnt++;
}

struct item *sim_queue_take(struct queue *q, size_t place)
{
	struct item **pos = &q->head, *item;

	if (!q->cnt)
		return NULL;
	while (place--)
		pos = &(*pos)->next;
	item = *pos;
	*pos = item->next;
	if (!*pos)
		q->tail = pos;
	q->cnt--;
	return item;
}

struct item *sim_item_new(enum item_kind kind, struct tagrv_done *done, size_t len)
{
	struct item *item = sim_alloc(sizeof(*item));

	item->kind = kind;
	item->done = done;
	item->len = len;
	return item;
}

void sim_item_free(struct item *item)
{
	free(item->data);
	free(item);
}

/* --- memory --- */

struct tagrv_mem *sim_mem_own(struct tagrv_device *dev, void *addr, size_t len, unsigned access)
{
	struct sim_mem *mem = sim_alloc(sizeof(*mem));

	SIM_CHECK(len, "a registration of no bytes");
	mem->base = (struct tagrv_mem){ .dev = dev, .addr = addr, .len = len, .access = access };
	mem->key = ++last_key;
	mem->next = mems;
	mems = mem;
	sim.regs++;
	return &mem->base;
}

void sim_mem_dereg(struct tagrv_mem *base)
{
	struct sim_mem **pos = &mems, *mem;

	while (*pos && &(*pos)->base != base)
		pos = &(*pos)->next;
	mem = *pos;
	SIM_CHECK(mem, "deregisters what is not registered");
	*pos = mem->next;
	free(mem);
	sim.regs--;
}

size_t sim_mem_key(const struct tagrv_mem *base, void *key)
{
	memcpy(key, &((const struct sim_mem *)base)->key, SIM_KEY_LEN);
	return SIM_KEY_LEN;
}

bool sim_mem_allows(const struct item *item)
{
	unsigned access = item->kind == ITEM_GET ? TAGRV_MEM_READ : TAGRV_MEM_WRITE;

	for (struct sim_mem *mem = mems; mem; mem = mem->next)
		if (mem->key == item->key)
			return mem->base.access & access &&
			       tagrv_range_within(item->raddr, item->len,
						  (uintptr_t)mem->base.addr, mem->base.len);
	return false;
}

/* --- links --- */

void sim_link_pair(struct sim_link *link[2], const int side[2], const uint32_t epoch[2])
{
	for (int i = 0; i < 2; i++) {
		struct sim_link *l = sim_alloc(sizeof(*l));

		l->base.xport = sim.side[side[i]].engine->rails.xports[0];
		l->base.get_max = (size_t)4096 << sim_below(9);
		l->base.put_max = (size_t)4096 << sim_below(9);
		l->side = side[i];
		l->other = side[!i];
		l->epoch = epoch[i];
		queue_init(&l->out);
		queue_init(&l->in);
		queue_init(&l->rdma);
		queue_init(&l->dones);
		link[i] = l;
		sim.links++;
	}
	link[0]->peer = link[1];
	link[1]->peer = link[0];
	sim_list_bind(link);
}

struct tagrv_link *sim_link_base(struct sim_link *link)
{
	return &link->base;
}

void sim_link_discard(struct tagrv_link *link)
{
	sim_list_discard_link(sim_link_of(link));
	free(link);
	sim.links--;
}

void sim_link_discard_peer(struct sim_link *link)
{
	sim_link_discard(&link->peer->base);
	link->peer = NULL;
}

void sim_link_break(struct sim_link *link)
{
	link->broken = true;
	if (link->peer)
		link->peer->broken = true;
}

void sim_link_break_one(int side)
{
	struct sim_link *link = sim_xport_of(sim.side[side].engine->rails.xports[0])->links;

	for (size_t n = sim_below(3); n && link && link->next; n--)
		link = link->next;
	if (!link || link->broken || link->closing)
		return;
	SIM_TRACE("connection %d-%d breaks", side, link->other);
	sim.broken = true;
	sim_link_break(link);
}

uint32_t sim_link_take_gone(int side, int *other)
{
	struct sim_link *link = sim_xport_of(sim.side[side].engine->rails.xports[0])->links;

	while (link && (!link->gone || link->closing))
		link = link->next;
	if (!link)
		return 0;
	link->gone = false;
	*other = link->other;
	return link->epoch;
}
