/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The contract of a list of posted receives in a device, which matches tagged messages with
 * them and puts the bytes where they belong.
 *
 *   add -----> added
 *      \-----> consumed --> data       a message has matched; its bytes are there
 *   del -----> deleted, 'gone' false   no message will take the entry
 *      \-----> deleted, 'gone' true    one has taken it: consumed and data come, or came
 *   sync ----> synced
 *
 * The device tries its entries from the oldest on: the first takes the message of which
 * (tag & mask) == the entry's tag. A tagged message that none takes is unexpected: it comes
 * by 'packet' with all its headers, and from then on the device lets entries that are added
 * wait, until a call tells it a count of handled unexpected messages that equals its own.
 * Only then does it use them, so that no message overtakes one that software has yet to match.
 * 'consumed' and 'packet' come in the order in which the device matched the messages, of one
 * sender in the order in which it sent them; 'data' may be late.
 *
 * What a peer with a list expects in front of a tagged message, and what 'consumed' tells,
 * is two words (Linux: Documentation/infiniband/tag_matching.rst; IBTA's names in brackets):
 *
 *   byte 0        3 (EAGER)
 *   bytes 4-7     app (app_ctx), big-endian
 *   bytes 8-15    tag, big-endian
 *
 * owner: who opened the list. It sets 'sink' before the first link of the transport is made.
 * lock: the domain lock. All callbacks run within progress, which callbacks may not call,
 * nor close; they may call add, del and sync.
 */
#ifndef TAGRV_XPORT_TAGLIST_H
#define TAGRV_XPORT_TAGLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

struct tagrv_addr;
struct tagrv_link;
struct tagrv_mem;
struct tagrv_numbers;
struct tagrv_taglist;
struct tagrv_xport;

#define TAGRV_TAGLIST_WORDS	2u	/* words in front of a tagged message */
#define TAGRV_TAGLIST_EAGER	3u	/* the first byte */

/* What is still to come of an entry. */
enum tagrv_taglist_due {
	TAGRV_TAGLIST_ADDED	= 1 << 0,
	TAGRV_TAGLIST_CONSUMED	= 1 << 1,
	TAGRV_TAGLIST_DATA	= 1 << 2,	/* with consumed, unless it is deleted before */
	TAGRV_TAGLIST_DELETED	= 1 << 3,
};

/*
 * A receive. The caller fills in the first fields; the entry and its memory are the list's
 * from add until 'due' is 0, of which a callback may be the first to see, or until close.
 */
struct tagrv_taglist_entry {
	uint64_t tag, mask;		/* tag & ~mask == 0 */
	void	*addr;			/* 'len' bytes of 'mem', which admits stores */
	size_t	len;
	struct tagrv_mem *mem;		/* NULL: no bytes, len is 0 */
	/* of the list */
	uint32_t handle, slot;
	uint8_t	due;			/* enum tagrv_taglist_due */
	bool	headers;		/* of a rendezvous: what 'data' will tell */
};

/* status of 'data': the device did not read the bytes of the rendezvous. Its headers, with
 * all that the sender put behind them, are in the entry's memory. */
#define TAGRV_TAGLIST_HEADERS	1

struct tagrv_taglist_sink {
	/* sync_req: the device would like to be told the count of unexpected messages: a hint. */
	void (*added)(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		      bool sync_req);
	void (*deleted)(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			bool gone);
	/*
	 * tag, app: of the message, as the sender wrote them. link: by which it came; it may be
	 * one that was not attached yet, or whose owner has closed it. status: 0; or -FI_E*: the
	 * device or the transport does not know the message: tag and app say nothing, and 'data'
	 * comes with that status, as soon as the device writes to the memory no more.
	 *
	 * Called at once, in the order of the device. If link->ctx is NULL then, because the
	 * link is not attached, it is called again for that entry when the link is, in the
	 * message's turn among the others that have come by the link; only the first call counts
	 * as a match. 'data' comes behind the second one, or, if the link is discarded,
	 * with a status and without it.
	 */
	void (*consumed)(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			 struct tagrv_link *link, uint64_t tag, uint32_t app, int status);
	/* status: 0: len bytes have come, and are in the entry's memory from its beginning on;
	   TAGRV_TAGLIST_HEADERS; or -FI_E*: they never will. If the message stopped amid its
	   bytes 'due' stays TAGRV_TAGLIST_DATA until close: the device may still write some. */
	void (*data)(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     size_t len, int status);
	void (*synced)(struct tagrv_taglist_sink *sink);
	/* The device has reported an unexpected tagged message: it has counted it. */
	void (*unexpected)(struct tagrv_taglist_sink *sink);
	/* One of these was handed to its link's owner, or dropped. */
	void (*handled)(struct tagrv_taglist_sink *sink);
	/* A call that returned -FI_EAGAIN may succeed now. */
	void (*room)(struct tagrv_taglist_sink *sink);
	/* The list is lost (-FI_E*): calls return that, and no callback of an entry follows. */
	void (*fatal)(struct tagrv_taglist_sink *sink, int status);
};

/*
 * count: unexpected messages that were handled, of which the device knows 16 bits. del must not
 * tell one: an entry that waits behind the one to be deleted could become active by it.
 * Errors of add, del and sync: -FI_EAGAIN: nothing has happened, and 'room' follows; or
 * that of the device, which the list does not survive.
 */
struct tagrv_taglist_ops {
	/* -FI_EINVAL: the memory is not the entry's, or tag has bits outside of mask. */
	int (*add)(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry,
		   uint32_t count);
	/* -FI_EALREADY: it was called before; or a message has taken the entry, and 'consumed'
	   tells of it, or will. No error: the list goes on. */
	int (*del)(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry);
	int (*sync)(struct tagrv_taglist *list, uint32_t count);
	/* Calls the callbacks that are due; returns the number of events. */
	int (*progress)(struct tagrv_taglist *list);
	/* The device has no entry any more, whatever was due. */
	void (*close)(struct tagrv_taglist *list);
};

struct tagrv_taglist {
	const struct tagrv_taglist_ops *ops;
	struct tagrv_taglist_sink *sink;
	uint32_t max_entries;		/* at a time */
	/*
	 * Set by the transport when the list is opened. link_create: makes a link as that of
	 * xport.h does, to this peer: all links to a peer differ in TAGRV_NUMBERS_LIFE of
	 * 'given' only (xport/numbers.h), or have no number. NULL: that of xport.h does.
	 */
	int	(*link_create)(struct tagrv_xport *xport, const struct tagrv_addr *peer, void *blob,
			       size_t *len, struct tagrv_link **link);
	struct tagrv_numbers *numbers;	/* which peers have one; NULL: nobody else gets them */
};

#endif
