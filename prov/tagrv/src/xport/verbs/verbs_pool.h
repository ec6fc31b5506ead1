/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pools: receive buffers that links share, and the packets that their peers are permitted to
 * send to them. Without SRQ the buffers are the links' own, and a pool has only the windows.
 * All is protected by the domain lock, but what the wireup thread reads, too.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_POOL_H
#define TAGRV_XPORT_VERBS_VERBS_POOL_H

#include <stdatomic.h>

#include "xport/verbs/verbs_dev.h"

struct verbs_link;
struct verbs_xport;

/* Shared receive buffers whose completions never come: verbs_lost.c. */
struct verbs_lost {
	uint64_t before;	/* postings below it are searched, as in a wr_id; 0: none */
	uint64_t taken;		/* those below it were taken back, if they were outstanding */
	uint64_t looked;	/* rxq.next at the last look */
	uint32_t pause;		/* buffers to be posted from there to the next one, at least */
	uint32_t links;		/* that failed: each may have lost a buffer, or more */
	uint32_t links_later;	/* the same of the next search */
	bool	again;		/* a queue pair was destroyed since the search began */
	bool	passed;		/* the SRQ has none of the old buffers any more */
	bool	off;		/* nothing is taken back: it would not be safe */
};

/* A round of recalls: verbs_recall.c. */
struct verbs_recall {
	uint32_t left;		/* slots of the map to be looked at */
	uint32_t next;		/* the next one */
	bool	again;		/* there was no room to send one */
	bool	takes;		/* permits; else only windows are looked at */
	uint64_t began;		/* rxq.next when the last round began */
};

struct verbs_pool {
	struct verbs_xport *xp;
	bool	want_rx_bufs;		/* register more, to permit them */
	bool	searching;		/* for lost buffers: lost.before is set */
	bool	thin_due;		/* buffers lack; some peers, at least, believe so */
	bool	thin_all;		/* for all that can be registered: all peers are told */
	bool	warned_over;
	bool	lacking;		/* links are owed more than there are buffers for */
	bool	cramped;		/* a link has used all of its share, which is not the most */
	struct verbs_rxq rxq;		/* with SRQ */
	_Atomic uint32_t rx_permits;	/* with SRQ: sum over links in the map */
	_Atomic uint32_t rx_kept;	/* least, and verbs_kept() of the same links */
	uint32_t rx_window;		/* most packets permitted to any link */
	uint32_t links;			/* of the map, without side links */
	uint32_t grown;			/* links with a window beyond VERBS_PERMIT_MIN */
	uint32_t least;			/* buffers that nobody may fill: the device wants them */
	struct verbs_recall recall;
	struct verbs_lost lost;
	_Atomic uint64_t permits_over;	/* packets permitted beyond the buffers posted */
	/* for links that the wireup thread makes */
	uint32_t rx_total;		/* rxq.bufs.total; under inbox.mutex */
	_Atomic uint32_t fresh_permits;	/* packets permitted to fresh links */
};

/* verbs_pool.c. least: as in struct verbs_pool. */
void tagrv_verbs_pool_init(struct verbs_pool *pool, struct verbs_xport *xp, uint32_t least);
/* With rxq.srq: registers and posts the first slab. On failure close the queue all the same. */
int tagrv_verbs_pool_fill(struct verbs_pool *pool, size_t size, uint32_t max, uint32_t slab)
	TAGRV_WARN_UNUSED;
/* Registers and posts another slab, if there may be one. */
void tagrv_verbs_pool_grow(struct verbs_pool *pool) TAGRV_COLD;
/* What is due before packets are permitted: more buffers, lost ones, word to peers. */
void tagrv_verbs_pool_serve(struct verbs_pool *pool);

/*
 * verbs_permit.c: permits.
 * first: sets link->rx_permits of a new link, for its blob; needs inbox.mutex.
 * adopt: the link enters the map; needs inbox.mutex and the domain lock.
 * forget: the link leaves the map; needs the domain lock.
 */
void tagrv_verbs_permit_first(struct verbs_link *link);
void tagrv_verbs_permit_adopt(struct verbs_link *link);
void tagrv_verbs_permit_forget(struct verbs_link *link);
/* The link's packets come to the buffers of another pool than was thought. */
void tagrv_verbs_permit_move(struct verbs_link *link, struct verbs_pool *pool);
/*
 * The number of packets that are owed to the link and can be permitted now, with
 * VERBS_PERMIT_THIN if there is no buffer for each. The link's window may grow.
 */
uint32_t tagrv_verbs_permit_offer(struct verbs_link *link);
/* Accounts for a packet that was posted and permits cnt packets, or some with _THIN. */
void tagrv_verbs_permit_sent(struct verbs_link *link, uint32_t cnt);
/* A permit as immediate data. permit_only: the packet is empty otherwise. */
uint32_t tagrv_verbs_permit_imm(uint32_t cnt, bool permit_only);
/* Sends permit-only packets to the links in xport->owed. */
void tagrv_verbs_permit_send_owed(struct verbs_xport *xp);
/* Whether peers were told that buffers lack, and more can be registered. */
bool tagrv_verbs_permit_lacks_bufs(const struct verbs_pool *pool);
/* While buffers lack: peers are to be told that there are enough again, or never will be. */
void tagrv_verbs_permit_thin_look(struct verbs_pool *pool);
/* The link was attached. */
void tagrv_verbs_permit_attach(struct verbs_link *link);
/* Accounts for a packet that has come. False: it was not permitted. */
bool tagrv_verbs_permit_used(struct verbs_link *link) TAGRV_WARN_UNUSED;
/* Takes back cnt packets of those that the peer may send. */
void tagrv_verbs_permit_take(struct verbs_link *link, uint32_t cnt);
/*
 * Polls the receive CQ for permits and holds all other completions for the next
 * progress. For reap, which must not deliver packets.
 */
void tagrv_verbs_permit_poll(struct verbs_xport *xp);
/* Adds the permit in a packet that waits. True: nothing was added, the packet is permit-only. */
bool tagrv_verbs_permit_read(struct verbs_xport *xp, struct verbs_link *link, uint32_t imm);
/* Adds the permit in a packet's immediate data. True: the packet is permit-only. */
bool tagrv_verbs_permit_received(struct verbs_xport *xp,
				 struct verbs_link *link, uint32_t imm);

/*
 * verbs_window.c: the windows of links; the endpoint's thread.
 * share: sets pool->rx_window; to be called when links come or go.
 * set: what may be permitted to the link at a time.
 */
void tagrv_verbs_window_share(struct verbs_pool *pool);
void tagrv_verbs_window_set(struct verbs_link *link, uint32_t window);
/* The peer has used half of it: the window grows if that was quick, and if there may be a
 * larger one. */
void tagrv_verbs_window_look(struct verbs_link *link);
/* The same without SRQ: registers and posts the buffers of the larger window. */
void tagrv_verbs_window_own(struct verbs_link *link);

/* verbs_recall.c: taking back permits; the endpoint's thread */
/* Links lack a larger share; takes: other links lack permits, and all buffers are registered. */
void tagrv_verbs_recall_surplus(struct verbs_pool *pool, bool takes);
/* Asks the peer for a packet, by a recall of none. 0, -FI_EAGAIN, -FI_ENOTCONN. */
int tagrv_verbs_recall_none(struct verbs_link *link) TAGRV_WARN_UNUSED;
/* Handles a permit-only packet with VERBS_PERMIT_RECALL or _RETURN. */
void tagrv_verbs_recall_received(struct verbs_xport *xp, struct verbs_link *link,
				 uint32_t bits) TAGRV_COLD;
/* Answers a recall, if there is one. 0, -FI_EAGAIN, -FI_ENOTCONN. */
int tagrv_verbs_recall_answer(struct verbs_link *link) TAGRV_WARN_UNUSED;

/*
 * verbs_lost.c: shared receive buffers that are lost.
 * suspect: the link's queue pair was destroyed, and may have lost some.
 */
void tagrv_verbs_lost_suspect(const struct verbs_link *link);
/* Takes lost buffers back, once it is certain which are; cheap if none may be. */
void tagrv_verbs_lost_search(struct verbs_pool *pool);
/* A receive has completed of which nothing is known. link: NULL if it is gone. */
void tagrv_verbs_lost_came(struct verbs_pool *pool, struct verbs_link *link,
			   const struct ibv_wc *wc) TAGRV_COLD;
/* Posted buffers that may be lost. */
static inline uint32_t verbs_lost_maybe(const struct verbs_pool *pool)
{
	return pool->lost.links + pool->lost.links_later;
}

#endif
