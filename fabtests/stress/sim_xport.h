/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The random transport's inside: sim_xport.c takes what is posted, sim_move.c moves it.
 */
#ifndef STRESS_SIM_XPORT_H
#define STRESS_SIM_XPORT_H

#include "sim.h"

enum item_kind { ITEM_SEND, ITEM_PREPARED, ITEM_GET, ITEM_PUT };

struct item {
	struct item *next;
	enum item_kind kind;
	struct tagrv_done *done;
	int	status;
	char	*data;			/* packet, or its header */
	size_t	len;
	struct iovec iov[TAGRV_IOV_MAX];	/* prepared: the rest of it */
	size_t	iov_cnt;
	void	*addr;			/* get, put */
	uint64_t raddr;
	uint32_t key;
};

struct queue {
	struct item *head, **tail;
	size_t	cnt;
};

struct sim_link {
	struct tagrv_link base;
	struct sim_link *peer, *next;
	struct queue out, in, rdma, dones;
	size_t	gets, puts;		/* in flight */
	int	side, other;
	uint32_t epoch;
	bool	broken, reported, closing;
	bool	gone;			/* for the wireup to tell */
};

struct sim_xport {
	struct tagrv_xport base;
	struct sim_link *links;
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

/* Takes the item at a place. */
struct item *sim_queue_take(struct queue *q, size_t place);
void sim_queue_push(struct queue *q, struct item *item);
struct item *sim_item_new(enum item_kind kind, struct tagrv_done *done, size_t len);
void sim_item_free(struct item *item);
/* Whether a peer may reach what a get or put names. */
bool sim_mem_allows(const struct item *item);
void sim_link_break(struct sim_link *link);
void sim_link_discard(struct tagrv_link *base);

int sim_move_progress(struct tagrv_xport *xport);
int sim_move_reap(struct tagrv_xport *xport);

#endif
