/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The random transport's inside: sim_xport.c accepts operations and queues them
 * as items, sim_move.c carries items out, sim_link.c has the links and queues.
 *
 * What comes by a link with a 'given' number comes through the list, packets that are no
 * tagged messages too: one queue of completions keeps the order of all.
 */
#ifndef STRESS_SIM_XPORT_H
#define STRESS_SIM_XPORT_H

#include "common/fake_list.h"
#include "sim.h"

enum { SIM_KEY_LEN = 4 };	/* bytes of a registration's key */

enum item_kind { ITEM_SEND, ITEM_PREPARED, ITEM_TAGGED, ITEM_GET, ITEM_PUT };

struct item {
	struct item *next;
	enum item_kind kind;
	struct tagrv_done *done;
	int	status;
	bool	listed;			/* a tagged message for a list */
	char	*data;			/* packet, or its header; tagged: payload */
	size_t	len;
	struct iovec iov[TAGRV_IOV_MAX];	/* prepared: the packet's rest */
	size_t	iov_cnt;
	void	*addr;			/* local end of a get or put */
	uint64_t raddr;
	uint32_t key;
	uint64_t meta, tag, tag_data;	/* tagged */
};

struct queue {
	struct item *head, **tail;
	size_t	cnt;
};

struct sim_link {
	struct tagrv_link base;
	struct sim_link *peer, *next;
	struct queue out;		/* in order: packets, fenced puts */
	struct queue rdma;		/* in any order: gets, other puts */
	struct queue in;		/* packets that have arrived here */
	struct queue dones;		/* carried out, callback not called yet */
	size_t	gets, puts;		/* in flight */
	int	side, other;		/* owner of this end, of the other end */
	uint32_t epoch;
	bool	attached;
	bool	broken;			/* no more items are carried out */
	bool	reported;		/* link_error was called, or gone set */
	bool	closing;		/* link_close was called */
	bool	gone;			/* the wireup has to report the end */
};

struct sim_xport {
	struct tagrv_xport base;
	struct sim_link *links;
	struct fake_list *list;		/* NULL: none */
	uint64_t numbers;		/* bits of those given to links */
	bool	in_progress;
};

static inline struct sim_link *sim_link_of(struct tagrv_link *base)
{
	return (struct sim_link *)base;
}

static inline struct sim_xport *sim_xport_of(struct tagrv_xport *base)
{
	return (struct sim_xport *)base;
}

/* --- sim_link.c --- */

/* Takes the item at an index out of the queue; NULL if the queue is empty. */
struct item *sim_queue_take(struct queue *q, size_t place);
void sim_queue_push(struct queue *q, struct item *item);
struct item *sim_item_new(enum item_kind kind, struct tagrv_done *done, size_t len);
void sim_item_free(struct item *item);
void sim_mem_dereg(struct tagrv_mem *base);
size_t sim_mem_key(const struct tagrv_mem *base, void *key);
/* Whether memory is registered for the get or put. */
bool sim_mem_allows(const struct item *item);
void sim_link_break(struct sim_link *link);
void sim_link_discard(struct tagrv_link *base);

/* --- sim_list.c --- */

/* The device may have a list, if its owner wants one. */
void sim_list_open(struct sim_xport *x);
void sim_list_close(struct sim_xport *x);
/* Both ends know of each other: which tagged messages have a number. */
void sim_list_bind(struct sim_link *link[2]);
/* A closed link ends: what has come by it is told. */
void sim_list_end_link(struct sim_link *link);
/* The link is gone. */
void sim_list_discard_link(struct sim_link *link);
/* Fails if the peer's list would not understand the packet. */
void sim_list_check(const struct sim_link *link, const struct item *item);
/* A packet comes by a link with a number. */
void sim_list_arrive(struct sim_link *link, const struct item *packet);
int sim_list_progress(struct sim_xport *x);

/* --- sim_move.c --- */

int sim_move_progress(struct tagrv_xport *xport);
int sim_move_reap(struct tagrv_xport *xport);

#endif
