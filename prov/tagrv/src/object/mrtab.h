/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows: memory that peers may access by its key (FI_RMA, FI_ATOMIC), as the application
 * has registered it with a right for peers.
 *
 * What is here says what a peer may do; it is asked with every access, by the processor of
 * the memory's owner. So a wrong key, address or length never reaches a device, and a
 * window that is closed is closed at once. Registration with a device is another matter:
 * operations that need one make it, or find it in the cache.
 *
 * A window has up to TAGRV_IOV_MAX segments, which peers see as one range of bytes from
 * 'base' on: 0, or with FI_MR_VIRT_ADDR the address of the first segment.
 *
 * owner: api/mr.c, which adds and removes it. lock: the domain's.
 */
#ifndef TAGRV_OBJECT_MRTAB_H
#define TAGRV_OBJECT_MRTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/compiler.h"
#include "core/list.h"
#include "core/pool.h"
#include "xport/xport.h"

struct tagrv_counter;
struct tagrv_dom;
struct tagrv_engine;
struct tagrv_lane;
struct tagrv_peer;

/*
 * Registrations of a window: by shared memory and a NIC, each with all rights of the region
 * and with those that are left where another endpoint counts accesses.
 */
#define TAGRV_WINDOW_REGS	4u

/* A window registered with a device, so that peers may read it by themselves: view.h. */
struct tagrv_window_reg {
	struct tagrv_device *dev;	/* NULL: not tried */
	bool	usable;			/* the device could */
	unsigned rights;		/* enum tagrv_mem_access */
	size_t	counted;		/* bytes of dom->shown */
	struct tagrv_mem *mem[TAGRV_IOV_MAX];	/* of each segment with bytes */
};

struct tagrv_window {
	uint64_t key;
	uint64_t base;		/* what peers call its first byte */
	size_t	len;		/* bytes of all segments */
	uint64_t access;	/* FI_REMOTE_READ, FI_REMOTE_WRITE; other bits mean nothing */
	bool	enabled;	/* FI_MR_ENDPOINT and FI_MR_RMA_EVENT: by fi_mr_enable */
	const struct tagrv_engine *engine;	/* access through this endpoint only;
						   NULL: through any of the domain */
	struct tagrv_counter *read_cntr, *write_cntr;	/* count accesses; or NULL */
	size_t	iov_cnt;
	struct iovec iov[TAGRV_IOV_MAX];
	uint64_t serial;	/* the table's 'newest' when it was added */
	struct tagrv_window *next;	/* in its bucket of dom->windows */
	struct tagrv_list uses;	/* tagrv_use::link */
	struct tagrv_list showings;	/* tagrv_showing::of_window */
	struct tagrv_window_reg regs[TAGRV_WINDOW_REGS];
};

/*
 * A transport is moving bytes from or to a window: an operation that nothing can stop but
 * the end of its connection. Others look for the window again with each packet.
 */
struct tagrv_use {
	struct tagrv_pool_node node;
	struct tagrv_list link;
	struct tagrv_window *window;	/* NULL: it was closed by force */
	struct tagrv_lane *lane;	/* if it is that of the peer */
	struct tagrv_peer *peer;
};

/* The windows of a domain by key: a hash with chains. All zero: there is none. */
struct tagrv_mrtab {
	struct tagrv_window **buckets;
	unsigned bits;		/* there are 2^bits buckets */
	size_t	cnt;		/* windows */
	uint64_t newest;	/* windows that were added so far: an operation goes on in none
				   that was added behind its begin, whatever key that has */
};

/* -FI_ENOKEY: the domain has a window with this key; -FI_ENOMEM. */
int tagrv_window_add(struct tagrv_dom *dom, struct tagrv_window *window)
	TAGRV_WARN_UNUSED;
void tagrv_window_remove(struct tagrv_dom *dom, struct tagrv_window *window);

/*
 * The window with this key, if [addr, addr + len) is within it and all rights in 'access'
 * (FI_REMOTE_READ, FI_REMOTE_WRITE) are given to peers of this engine; else NULL. addr and
 * len may be anything. *offset: bytes from the window's first byte.
 */
struct tagrv_window *tagrv_window_find(struct tagrv_dom *dom,
				       const struct tagrv_engine *engine,
				       uint64_t key, uint64_t addr, uint64_t len,
				       uint64_t access, size_t *offset);

/* Begins a use by a peer, which is connected. NULL: no memory. */
struct tagrv_use *tagrv_use_begin(struct tagrv_peer *peer, struct tagrv_window *window)
	TAGRV_WARN_UNUSED;
void tagrv_use_end(struct tagrv_use *use);

/*
 * The pieces of memory behind len bytes from 'offset' on, which are within the window.
 * Returns how many; more than 'max' are not written.
 */
size_t tagrv_window_slice(const struct tagrv_window *window, size_t offset,
			  size_t len, struct iovec *iov, size_t max);

#endif
