/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the transport that joins several devices: each device is a rail.
 *
 *   device    the devices of all rails (multi_dev.c)
 *     xport     one instance of each rail's transport (multi_xport.c)
 *       link      up to one path per rail of ours (multi_link.c)
 *         path      a link of the rail's transport to one device of the peer
 *
 * Packets travel by one path at a time, which keeps their order; gets and puts go by
 * all paths. Everything that has no outcome yet is a record, so that it can go by another
 * path when its own fails (multi_fail.c draws that).
 *
 * A path needs no numbers in its packets: RC transports deliver in order, so both
 * sides count. A packet whose first byte is MULTI_MARK is from the other side's
 * transport, not from its owner, and is not counted.
 *
 * All fields of an attached link are protected by the domain lock.
 */
#ifndef TAGRV_XPORT_MULTI_MULTI_PRIV_H
#define TAGRV_XPORT_MULTI_MULTI_PRIV_H

#include <rdma/fi_errno.h>

#include <stdint.h>

#include "core/list.h"
#include "core/pool.h"
#include "xport/backends.h"

#define MULTI_WIRE_ID	4
#define MULTI_RAILS	4u	/* rails at most: the keys of all fill TAGRV_KEY_MAX */
#define MULTI_KEY_LEN	(TAGRV_KEY_MAX / MULTI_RAILS)	/* bytes of a rail's key */
#define MULTI_MARK	0xf1u	/* first byte of our own packets */
#define MULTI_HEAD	8u	/* bytes before an owner's packet that begins so, too */

/* ---- device: multi_dev.c ---- */

struct multi_dev {
	struct tagrv_device base;
	struct tagrv_device *rails[MULTI_RAILS];
	unsigned cnt;
	int	event_fd;	/* epoll of the devices' event descriptors, or -1 */
};

/* mem[i] is registered with rail i. */
struct multi_mem {
	struct tagrv_mem base;
	struct tagrv_mem *mem[MULTI_RAILS];
};

static inline struct multi_dev *multi_dev_of(struct tagrv_device *dev)
{
	return tagrv_container_of(dev, struct multi_dev, base);
}

static inline const struct multi_mem *multi_mem_of(const struct tagrv_mem *mem)
{
	return (const struct multi_mem *) mem;
}

void tagrv_multi_dev_close(struct tagrv_device *dev);
int tagrv_multi_dev_event_fd(struct tagrv_device *dev);
void tagrv_multi_dev_event(struct tagrv_device *dev);
int tagrv_multi_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
			unsigned access, struct tagrv_mem **mem);
void tagrv_multi_mem_dereg(struct tagrv_mem *mem);
/* The keys of all rails in their order, MULTI_KEY_LEN bytes each. */
size_t tagrv_multi_mem_key(const struct tagrv_mem *mem, void *key);

/* ---- blobs and pairs: multi_blob.c ---- */

/*
 * What a link's blob says: the blobs of the paths that could be made, by rail. It is
 * packed into at most TAGRV_BLOB_MAX bytes: version, number of rails, then the length
 * and the bytes of each rail's blob; length 0: this rail has no path.
 */
struct multi_blob {
	unsigned cnt;
	struct {
		uint8_t	len;
		uint8_t	data[TAGRV_BLOB_MAX];
	} rails[MULTI_RAILS];
};

size_t tagrv_multi_blob_pack(const struct multi_blob *blob, void *to);
/* Nothing of 'from' is believed. -FI_EINVAL: no peer would send this. */
int tagrv_multi_blob_unpack(struct multi_blob *blob, const void *from,
			    size_t len) TAGRV_WARN_UNUSED;

/*
 * Decides which rail of ours is joined to which rail of the peer: both sides compute
 * the same from the same two blobs. near(): how well two paths' blobs can reach each
 * other, 0: not at all; symmetric. peer_of[i] becomes the peer's rail for our rail i,
 * or -1. Returns the number of pairs.
 *
 * Each rail has one pair at most. The best pairs come first; among equals the pair of
 * lowest sum of ranks, counted from the side whose blob is lower in memory order, so
 * that both sides begin with the same one.
 */
unsigned tagrv_multi_pair(const struct multi_blob *own,
			  const struct multi_blob *peer,
			  unsigned (*near)(const void *a, size_t a_len,
					   const void *b, size_t b_len),
			  int peer_of[MULTI_RAILS]);

/* ---- paths ---- */

/*
 *   UP --own failure, the peer's word, a new link--> CLOSING --link_closed--> gone
 *
 * A closing path still delivers what its device has taken in, so that once it is gone
 * 'taken' of the link has all that the peer's device believes to have arrived.
 */
struct multi_path {
	struct multi_link *owner;
	struct tagrv_link *link;
	unsigned rail, peer_rail;
	unsigned gen;		/* number of the renewal that it came with, or 0 */
	bool	retired;	/* of an earlier gen than the link's, or given up for it */
	bool	closing;
	bool	proven;		/* the peer's device has answered, or something came */
	bool	probed;		/* a packet was sent to prove it */
};

/* Speed of a rail, measured while two or more requests are under way: multi_move.c. */
struct multi_rate {
	double	bytes_s;	/* bytes/s */
	uint64_t queued;	/* bytes of gets and puts under way */
	unsigned cnt;		/* gets and puts under way */
	uint64_t since;		/* ns: when the measurement began; 0: none runs */
	uint64_t bytes;		/* moved since */
};

struct multi_rail {
	struct tagrv_sink sink;		/* given to the rail's transport */
	struct multi_xport *xp;
	struct tagrv_xport *xport;
	int	fatal;			/* -FI_E* once its device is lost */
	struct multi_rate rate;
};

/* ---- records of what has no outcome yet ---- */

/* A packet that the peer may not have: on link->sent, in order. */
struct multi_packet {
	struct tagrv_pool_node node;
	struct tagrv_done done;		/* of the path, when it was posted with it */
	struct tagrv_list list;
	struct multi_link *link;
	struct tagrv_done *user;	/* or NULL */
	uint32_t len;			/* bytes of data */
	bool	large;			/* of xp->large */
	bool	ctrl;
	uint8_t	cnt;			/* prepared: segments; else 0 */
	struct iovec iov[TAGRV_IOV_MAX];	/* prepared */
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	char	data[];
};

/* A get or put: at a path, or on link->again. */
struct multi_move {
	struct tagrv_pool_node node;
	struct tagrv_done done;
	struct tagrv_list list;
	struct multi_link *link;
	struct tagrv_done *user;
	bool	put;
	uint8_t	rail;
	uint8_t	tries;
	unsigned gen;
	void	*addr;
	struct tagrv_mem *mem;
	uint64_t raddr;
	size_t	len;
	char	key[TAGRV_KEY_MAX];
};

/* A packet of our own: see multi_own.c. */
struct multi_own {
	struct tagrv_pool_node node;
	struct tagrv_done done;
	struct multi_path *path;
	uint8_t	type;
	uint8_t	rail;
};

/* ---- links ---- */

struct multi_link {
	struct tagrv_link base;
	struct tagrv_list node;		/* xp->links, once attached */
	struct tagrv_list busy_node;	/* xp->busy */
	struct multi_path *paths[MULTI_RAILS];	/* by our rail; NULL: none */
	unsigned peer_rails;		/* rails in the peer's blob */
	int	pair_of[MULTI_RAILS];	/* the peer's rail for each of ours; -1: none */
	unsigned order;			/* rail with which to begin to look for a path */
	unsigned pairs;			/* paths that were agreed for this generation */
	size_t	own_blob_len;
	uint8_t	own_blob[TAGRV_BLOB_MAX];
	bool	attached;
	bool	closing;		/* link_close was called */
	bool	reported;		/* link_error was called */
	int	error;			/* -FI_E*; 0: alive */
	int	last_error;		/* why the last path failed */

	/* packets */
	int	env;			/* rail of the path that packets take; -1: none */
	struct tagrv_list sent;		/* packets without an outcome, in order */
	struct multi_packet *resend;	/* the next one to be sent again; NULL: none */
	unsigned unsignaled;		/* sent since the last one with a callback */
	uint64_t tx_base;		/* number of the first packet in 'sent' */
	uint64_t tx_cnt;		/* packets sent */
	uint64_t taken;			/* packets that came */

	/* failures: multi_fail.c */
	unsigned gen;
	unsigned open;			/* path objects that are not gone yet */
	unsigned old_open;		/* of these, retired ones */
	int	env_lost;		/* rail of the last path of packets; -1: none lost */
	unsigned to_say, saying, said;	/* DOWN packets, bit i: about our rail i */
	unsigned heard;			/* bit i: the peer's DOWN about our rail i came */
	bool	syncing;		/* went over to new paths: the old ones are not settled */
	bool	sync_heard;
	unsigned sync_sent;		/* bit i: SYNC was sent by the path of rail i */
	uint64_t heard_taken;		/* what the peer has taken in, by its last word */
	struct tagrv_list again;	/* gets and puts to be posted again */

	/* new paths that are not in use yet: multi_renew.c */
	struct multi_path *next[MULTI_RAILS];
	int	next_pair[MULTI_RAILS];
	unsigned next_gen;		/* 0: there are none */
	unsigned last_gen;		/* of all renewals so far */
	bool	next_heard;		/* the peer has them, too: something came by one */

	/* asking for new ones */
	uint64_t unserved_at;		/* ms: since when a get or put has waited for a path
					   of rails that have its memory; 0: none has */
	uint64_t dark_since;		/* ms: when the last path failed by which the peer
					   was heard; 0: it was heard since */
	bool	down;			/* no path is up */
	bool	renewing;		/* link_renew was called */
	uint64_t renew_at;		/* ms: when to ask for lost paths again; 0: not yet */
	uint32_t renew_pause;		/* ms */
};

struct multi_xport {
	struct tagrv_xport base;
	struct multi_dev *dev;
	struct multi_rail rails[MULTI_RAILS];
	unsigned cnt;
	struct tagrv_pool small, large;	/* packets of up to MULTI_SMALL bytes, others */
	struct tagrv_pool moves, owns;
	struct tagrv_list links;	/* attached ones */
	struct tagrv_list busy;		/* links with something to settle */
	uint64_t patience;		/* ms that a link may be down */
	bool	starved;		/* a call returned -FI_EAGAIN: room is due */
	bool	freed;			/* something was freed since */
	int	wait_fd;		/* epoll of the rails' descriptors */
	struct {
		uint64_t failed;	/* paths */
		uint64_t resent;	/* packets */
		uint64_t moved;		/* gets and puts that took another path */
		uint64_t resumed;	/* links that went on by new paths */
	} stats;
};

#define MULTI_SMALL	256u
#define MULTI_SIGNAL	8u	/* every so many packets are confirmed */
#define MULTI_CHUNK	65536u	/* bytes of a get or put, at most */
#define MULTI_TRIES	8u	/* paths that a get or put may break */

static inline struct multi_xport *multi_xport_of(struct tagrv_xport *xport)
{
	return tagrv_container_of(xport, struct multi_xport, base);
}

static inline struct multi_link *multi_link_of(struct tagrv_link *link)
{
	return tagrv_container_of(link, struct multi_link, base);
}

static inline struct multi_xport *multi_xport_of_link(const struct multi_link *link)
{
	return multi_xport_of(link->base.xport);
}

/* The path of a rail that may be used, or NULL. */
static inline struct multi_path *multi_path_up(const struct multi_link *link,
					       unsigned rail)
{
	struct multi_path *path = link->paths[rail];

	return path && !path->closing ? path : NULL;
}

static inline unsigned multi_up_cnt(const struct multi_link *link)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < MULTI_RAILS; i++)
		cnt += multi_path_up(link, i) != NULL;
	return cnt;
}

/* Returns -FI_EAGAIN; sink->room is called once there may be room. */
static inline int multi_try_again(struct multi_xport *xp)
{
	xp->starved = true;
	return -FI_EAGAIN;
}

/* The same where a pool has no record: without memory no end of another one helps. */
static inline int multi_no_record(struct multi_xport *xp, const struct tagrv_pool *pool)
{
	xp->freed |= tagrv_pool_why(pool) == -FI_ENOMEM;
	return multi_try_again(xp);
}

/*
 * Whether a path with this error may be replaced by another one. All other errors are
 * about the operation, and would break each path in turn.
 */
static inline bool multi_is_path_error(int status)
{
	return status == -FI_EHOSTUNREACH || status == -FI_ECONNRESET ||
	       status == -FI_ENETDOWN || status == -FI_ETIMEDOUT ||
	       status == -FI_ENODEV || status == -FI_EIO ||
	       status == -FI_EREMOTEIO || status == -FI_ECANCELED;
}

/* multi_link.c: see xport.h */
int tagrv_multi_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **link);
int tagrv_multi_link_bind(struct tagrv_link *link, const void *blob, size_t len);
void tagrv_multi_link_discard(struct tagrv_link *link);
int tagrv_multi_link_attach(struct tagrv_link *link, void *ctx);
void tagrv_multi_link_close(struct tagrv_link *link);
/* Attaches the paths. Returns bits of the rails whose paths failed, and are gone. */
unsigned tagrv_multi_attach_paths(struct multi_link *link,
				  struct multi_path *paths[MULTI_RAILS]);
/* All paths of a closed link are gone: ends what it had under way, and the link. */
void tagrv_multi_link_end(struct multi_link *link);

/* multi_send.c */
int tagrv_multi_send(struct tagrv_link *link, const struct iovec *iov, size_t cnt,
		     unsigned flags, struct tagrv_done *done);
int tagrv_multi_send_short(struct tagrv_link *link,
			   const uint64_t hdr[TAGRV_SHORT_WORDS],
			   const void *payload, size_t len);
int tagrv_multi_send_prepared(struct tagrv_link *link, const void *hdr,
			      size_t hdr_len, const struct iovec *iov,
			      struct tagrv_mem *const *mem, size_t cnt,
			      struct tagrv_done *done);
/* Ends the oldest packets, until 'end' is the number of the oldest one left. */
void tagrv_multi_packets_end(struct multi_link *link, uint64_t end, int status);
/*
 * Sends packets again by link->env. True: all are sent; false: there is no room now, or
 * the path has failed.
 */
bool tagrv_multi_resend(struct multi_link *link);

/* multi_move.c */
int tagrv_multi_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len, size_t len,
		    struct tagrv_done *done);
int tagrv_multi_put(struct tagrv_link *link, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done);
/*
 * Posts the gets and puts of link->again whose old paths are fenced: no write of
 * theirs can arrive any more.
 */
void tagrv_multi_moves_again(struct multi_link *link);
/* Ends those of link->again. */
void tagrv_multi_moves_end(struct multi_link *link, int status);

/* multi_own.c: packets between the two transports */
/* The header of a packet of the owner that begins as ours do: MULTI_HEAD bytes. */
void tagrv_multi_own_head(void *head);
/* Whether a packet that begins with MULTI_MARK is the owner's, behind such a header. */
bool tagrv_multi_is_alien(const void *data, size_t len);
/* One came by the path: takes it, whatever is in it. */
void tagrv_multi_own_packet(struct multi_path *path, const void *data, size_t len);
/* Sends what is to be said: DOWN, SYNC. */
void tagrv_multi_say(struct multi_link *link);
/* Whether a path in use has not taken its SYNC yet. */
bool tagrv_multi_owes_sync(const struct multi_link *link);
/* Sends an empty packet by each path that is not proven. */
void tagrv_multi_probe(struct multi_link *link);
/* The same by each new path, proven or not. False: one has no room now. */
bool tagrv_multi_probe_next(struct multi_link *link);

/* multi_fail.c */
/* A path is of no use any more. May be called in callbacks of its transport. */
void tagrv_multi_path_fail(struct multi_path *path, int status);
/* Closes our end; what its device has taken in still comes. */
void tagrv_multi_path_close(struct multi_path *path);
/* The link as a whole fails. */
void tagrv_multi_link_fail(struct multi_link *link, int status);
void tagrv_multi_path_gone(struct multi_path *path);
/* The peer has closed its side of the path of our rail. */
void tagrv_multi_heard_down(struct multi_link *link, unsigned rail, uint64_t taken);
void tagrv_multi_heard_sync(struct multi_link *link, uint64_t taken);
/* There is something to settle in the next progress. */
static inline void multi_link_set_busy(struct multi_link *link)
{
	if (!tagrv_list_linked(&link->busy_node))
		tagrv_list_push_tail(&multi_xport_of_link(link)->busy,
				     &link->busy_node);
}
/* Settles what can be settled now; returns events. */
int tagrv_multi_settle(struct multi_link *link);

/* multi_renew.c */
int tagrv_multi_link_resume(struct tagrv_link *link, struct tagrv_link *fresh);
void tagrv_multi_link_unrenewed(struct tagrv_link *link);
/* Whether it is time to give up the paths in use for the new ones, if there are any. */
bool tagrv_multi_wants_next(const struct multi_link *link);
/* The new paths take over. May be called in callbacks of their transport. */
void tagrv_multi_go_over(struct multi_link *link);
/* Asks for lost paths, because a port of ours is back. */
void tagrv_multi_hope(struct multi_link *link);
/* Asks for lost paths again, now and then. */
void tagrv_multi_check(struct tagrv_link *link, bool awaited);

#endif
