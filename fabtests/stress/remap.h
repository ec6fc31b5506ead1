/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of tagrv_remap and tagrv_remap_devices: messages from and to
 * memory that is freed, unmapped, moved and emptied between them, so that a kept
 * registration, or anything else that the provider remembers of an address, is wrong
 * as soon as it is used once too often.
 *
 *   tagrv_remap.c           two processes, over any transport of the plug-in
 *   tagrv_remap_devices.c   two endpoints in one process, over RDMA devices in memory
 *                           whose regions keep their pages
 *   remap_flow.c            the messages of one endpoint, each checked
 *   remap_area.c            memory, and what becomes of it
 */
#ifndef STRESS_REMAP_H
#define STRESS_REMAP_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/runner.h"

/* ---- remap_area.c ---- */

enum change {
	CHANGE_FREE,		/* free and malloc */
	CHANGE_TRIM,		/* the same, and malloc_trim: heap pages are given back */
	CHANGE_UNMAP,		/* munmap, and mmap at the same address */
	CHANGE_UNMAP_PART,	/* the same with one page */
	CHANGE_REPLACE,		/* mmap over it */
	CHANGE_EMPTY,		/* MADV_DONTNEED */
	CHANGE_EMPTY_PART,
	CHANGE_FREE_LATER,	/* MADV_FREE */
	CHANGE_MOVE,		/* mremap to another place, and mmap at the old one */
	CHANGE_MOVE_OVER,	/* other memory is moved to its address by mremap */
	CHANGE_RESIZE,		/* mremap to half its size, and back */
	CHANGE_PROTECT,		/* mprotect, and back: nothing changes */
	CHANGE_RACE,		/* mmap by one thread while another one's munmap goes on */
	CHANGES
};

extern const char *const change_names[CHANGES];

enum area_state {
	AREA_OURS,		/* free, or in use by an operation */
	AREA_GIVEN,		/* to the thread that changes memory */
	AREA_VANISHES,		/* that thread unmaps it: whoever can map it, has it */
};

struct area {
	uint8_t	*at;
	size_t	len;
	bool	heap;			/* by malloc */
	bool	busy;			/* an operation uses it */
	_Atomic int state;
	enum change change;		/* wanted of the thread */
	uint64_t random;
};

/* What was done, in memory that all processes of the program share. */
struct remap_tally {
	_Atomic uint64_t cnt[CHANGES];
	_Atomic uint64_t refused;	/* mremap of memory that is several mappings */
	_Atomic uint64_t missed;	/* addresses that somebody else got first */
	_Atomic uint64_t transfers, bytes, forks;
};

extern struct remap_tally *tally;

enum { AREAS = 48, AREA_MAX = 320 << 10 };

/* A thread of its own changes what it is given. There is one for all areas. */
void areas_open(struct area areas[AREAS], uint64_t *random);
void areas_close(struct area areas[AREAS]);
/* One that is free and ready, for the caller's use, or NULL. */
struct area *areas_take(struct area areas[AREAS], uint64_t *random);
/*
 * Unmaps one that was taken, by the thread, and maps it again at once: its use can begin
 * before munmap() has ended. False: the thread is slow, and has it now.
 */
bool areas_race(struct area *area);
/* Nothing uses it any more: something may happen to it, now or by the thread. */
void areas_give_back(struct area *area, uint64_t *random);
void changer_begin(struct area *const sets[], int cnt);
void changer_end(void);

/* ---- remap_flow.c ---- */

enum { FLOW_WINDOW = 12 };

struct flow_op {
	struct fi_context2 ctx;
	bool	busy, ready;		/* accepted; prepared, but not accepted yet */
	uint64_t number;
	size_t	len;
	struct area *area;
	uint8_t	*buf;
};

/* What one endpoint sends and receives. */
struct flow {
	struct fid_ep *ep;
	struct fid_cq *cq;		/* of both directions; tagged format */
	fi_addr_t peer;
	uint64_t count;			/* messages in each direction */
	uint64_t out_seed, in_seed;	/* contents */
	uint64_t random;
	uint64_t sent, done, posted, got, forks;
	struct flow_op tx[FLOW_WINDOW], rx[FLOW_WINDOW];
	struct area areas[AREAS];
};

/* The caller sets what is above 'sent', and zeroes the rest. */
void flow_open(struct flow *f);
/* Posts and completes some; returns whether anything was completed. */
bool flow_turn(struct flow *f);
bool flow_is_done(const struct flow *f);
void flow_close(struct flow *f);
/* Waits for children that were forked. */
void flow_reap(void);

void remap_report(void);

/* ---- the program ---- */

extern uint64_t remap_transfers;	/* messages, both directions together */

/* Takes the options and runs the case; returns the program's status. */
int remap_main(const struct test_case *one, int argc, char **argv);

#endif
