/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows: memory of a rank that other ranks may access by one-sided operations.
 *
 * There are two ways to name such memory, which a case asks for by fx_attr.mr_mode:
 * the application chooses keys, and the first byte has the address 0; or the provider
 * makes the keys, and addresses are those of the owner.
 */
#ifndef FUNCTIONAL_WINDOW_H
#define FUNCTIONAL_WINDOW_H

#include "fixture.h"
#include "pattern.h"

enum window_keys {
	KEYS_OFFSET,		/* keys of the application, addresses from 0 on */
	KEYS_ADDRESS,		/* keys of the provider, addresses of the owner */
	KEYS_ANY,		/* whichever the provider has, the first if both */
};

enum { WINDOW_SEGMENTS_MAX = 8 };

/* What is registered. All zero but 'iov': everything is allowed. */
struct region {
	const struct iovec *iov;
	size_t iov_count;
	uint64_t access;	/* 0: FI_REMOTE_READ | FI_REMOTE_WRITE */
	uint64_t key;		/* 0: one that no other region of this process has */
	struct fid_cntr *cntr;	/* counts accesses, with ... */
	uint64_t events;	/* FI_REMOTE_WRITE, FI_REMOTE_READ */
};

struct window {
	struct fx *fx;
	struct guard g;
	struct fid_mr *mr;
	uint64_t key[RUN_RANKS_MAX];
	uint64_t base[RUN_RANKS_MAX];	/* what peers call the first byte */
};

/*
 * Opens an endpoint for one-sided operations as fx_open_or_skip() does. The case is
 * skipped if the provider has no such keys, or lacks capabilities or an order. What
 * attr->mr_mode has besides, as FI_MR_ENDPOINT, is asked for, too; regions are then bound
 * and enabled, whether or not the provider needs it. FI_MR_ALLOCATED always is.
 */
void window_open_ep(struct test *t, struct fx *fx, const struct fx_attr *attr,
		    enum window_keys keys);

/* Registers; an error fails the case. */
struct fid_mr *region_open(struct fx *fx, const struct region *r);
/* One attempt: 0 or a negative fabric error. */
int region_try(struct fx *fx, const struct region *r, struct fid_mr **mr);
/* What peers call the first byte of the region. */
uint64_t region_base(const struct fx *fx, const struct iovec *iov);

/*
 * Collective: each rank registers 'len' bytes with this access (0: all rights), and all
 * learn each other's keys.
 */
void window_open(struct fx *fx, struct window *w, size_t len, uint64_t access);
/* The same with a region of one's own, or without one (mr NULL); w->g is the case's. */
void window_publish(struct fx *fx, struct window *w, struct fid_mr *mr, uint64_t base);
/* At once, without the other ranks. */
void window_close(struct window *w);

/*
 * Fails the case unless the owner's bytes from 'at' on hold the pattern, and all others
 * are as guard_alloc() has left them.
 */
#define WINDOW_HOLDS(w, at, len, seed) window_holds(__FILE__, __LINE__, (w), (at), (len), (seed))
void window_holds(const char *file, int line, const struct window *w, size_t at, size_t len,
		  uint64_t seed);
/* Makes progress until the owner's bytes hold the pattern. */
void window_await(struct window *w, size_t at, size_t len, uint64_t seed);

/* The address of a byte of a rank's window. */
static inline uint64_t window_at(const struct window *w, int rank, size_t offset)
{
	return w->base[rank] + offset;
}

/* The rank that 'fx->peer' is. */
static inline int window_peer(const struct fx *fx)
{
	return fx->t->ranks == 1 ? 0 : fx->t->rank == 0;
}

#endif
