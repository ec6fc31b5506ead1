/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Views: an initiator reads and writes a window of a peer by itself, without the peer's help,
 * because the peer has told it once where the window is and by which keys.
 *
 *   initiator                                     target
 *   GET: "and show me the window", or SHOW ---->  registers the whole window, once
 *             <-- VIEW(keys, rights) -----------  struct tagrv_showing
 *   struct tagrv_view
 *             === remote reads, writes =======>
 *             <-- RECALL ----------------------   the window is closed
 *   view is gone
 *
 * An initiator keeps views in a table with one place for each number that key and peer are
 * hashed to: a newer one takes the place of an older one, so the table is bounded and each
 * look costs the same. A view that is gone, or was never there, costs a GET.
 *
 * A RECALL travels before all messages that the target sends over RDMA after fi_close of the
 * region; through a full ring of shared memory a message may overtake it. An
 * operation by a view that is not valid any more fails alone, and goes by packets then, which
 * say what is wrong: a transport checks keys for each operation (shm), or it has side links
 * (verbs; object/side.h). Only by the latter views are written to.
 *
 * What somebody counts is not shown: windows with a counter of reads, or of writes, or an
 * endpoint with one, lack that right.
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_OBJECT_VIEW_H
#define TAGRV_OBJECT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"
#include "core/list.h"
#include "core/pool.h"
#include "wire/packet.h"
#include "xport/xport.h"

struct tagrv_dom;
struct tagrv_engine;
struct tagrv_peer;
struct tagrv_window;

/* ---- initiator ---- */

/* Places of the table: a power of two. */
#define TAGRV_VIEWS		1024u

/* One window of one peer, valid as long as the connection. */
struct tagrv_view {
	const struct tagrv_peer *peer;	/* NULL: the place is free */
	uint32_t id;		/* names it in a RECALL; its low bits are the place */
	uint64_t key;
	uint64_t base, len;	/* as of a window */
	uint8_t	seg_cnt, key_len;
	uint8_t	rights;		/* TAGRV_MEM_READ, TAGRV_MEM_WRITE, TAGRV_MEM_ATOMIC */
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];	/* host byte order */
};

/* All zero: no view. */
struct tagrv_views {
	struct tagrv_view *places;	/* TAGRV_VIEWS; NULL before the first one */
	uint32_t last_id;		/* upper bits of the last id */
	uint32_t misses;		/* looks that found another view in the place */
};

/* The view of the window with this key, if it covers [addr, addr + len); else NULL. */
const struct tagrv_view *tagrv_view_find(const struct tagrv_peer *peer, uint64_t key,
					 uint64_t addr, uint64_t len);
/*
 * The id of a view that the peer may be asked for; 0: not now. Windows that share a place
 * do not drive each other out by every read.
 */
uint32_t tagrv_view_ask(const struct tagrv_peer *peer, uint64_t key) TAGRV_WARN_UNUSED;
/* The id of a view that the peer is asked for although another may be in its place. */
uint32_t tagrv_view_new_id(const struct tagrv_peer *peer, uint64_t key) TAGRV_WARN_UNUSED;
/*
 * Keeps what a connected peer has sent: 'view' without the peer. False: no view of this key
 * has such an id. Without memory for the table nothing is kept.
 */
bool tagrv_view_keep(const struct tagrv_peer *peer, const struct tagrv_view *view)
	TAGRV_WARN_UNUSED;
/* Forgets a view of this peer, if it has this id. */
void tagrv_view_drop(const struct tagrv_peer *peer, uint32_t id);
/* Forgets all views of this peer: its connection has ended. */
void tagrv_views_forget(const struct tagrv_peer *peer);
/* Writes where [addr, addr + len), which the view covers, is; returns the segments. */
size_t tagrv_view_slice(const struct tagrv_view *view, uint64_t addr, uint64_t len,
			struct tagrv_rts_seg *seg);
void tagrv_views_fini(struct tagrv_engine *engine);

/* ---- target ---- */

/* Windows that are shown to one peer at most. */
#define TAGRV_SHOWINGS_MAX	TAGRV_VIEWS

/* A window is shown to a peer by its lane: RECALL has to be sent. */
struct tagrv_showing {
	struct tagrv_pool_node node;
	struct tagrv_list of_window;	/* window->showings */
	struct tagrv_list of_peer;	/* peer->rma.views->showings */
	struct tagrv_window *window;
	struct tagrv_peer *peer;
	uint32_t id;			/* the peer's */
};

/*
 * What peers may do to the window by themselves, because nobody has to notice it:
 * TAGRV_MEM_READ, TAGRV_MEM_WRITE, and by FI_TAGRV_ATOMICS=device TAGRV_MEM_ATOMIC; 0: it is
 * not shown.
 */
unsigned tagrv_window_rights(const struct tagrv_engine *engine,
			     const struct tagrv_window *window);
/*
 * Registers the window with these rights for peers of this device, at the first call.
 * Returns the registrations of its segments; NULL: the device could not when this was tried,
 * it needs dom->allocated, the windows of the domain have too many bytes together
 * (tagrv_dom_count_shown()), or there are TAGRV_WINDOW_REGS with other rights.
 */
struct tagrv_mem **tagrv_window_register(struct tagrv_dom *dom, struct tagrv_window *window,
					 struct tagrv_device *dev, unsigned rights);
/*
 * What the device could not register is tried again by the next call: memory that was missing
 * may be there now. For those who cannot do without; others would try with each access.
 */
void tagrv_window_forget_failures(struct tagrv_window *window);
/*
 * Ends the registrations: what peers still do by them fails. A later call makes new ones. No
 * lock is needed for a window that was removed.
 */
void tagrv_window_deregister(struct tagrv_dom *dom, struct tagrv_window *window);

/*
 * Notes that the window is going to be shown to a connected peer. NULL: not so many, or no
 * memory. It is ended if the VIEW cannot be sent, else settled.
 */
struct tagrv_showing *tagrv_showing_begin(struct tagrv_window *window,
					  struct tagrv_peer *peer, uint32_t id)
	TAGRV_WARN_UNUSED;
void tagrv_showing_end(struct tagrv_showing *showing);
/* The VIEW was sent: it takes the place of an older view of the peer's, which is forgotten. */
void tagrv_showing_settle(const struct tagrv_showing *showing);
/* The peer's connection has ended, and all its views with it. */
void tagrv_showings_forget(struct tagrv_peer *peer);

#endif
