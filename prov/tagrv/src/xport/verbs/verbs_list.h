/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives in the device (xport/taglist.h), as a part of an xport.
 *
 *   xport --> verbs_list.c --table--> tm/: the list itself
 *
 * The folder tm/ uses receive queues and devices of this one, which therefore must not call it:
 * what the list does for the xport goes by a table of functions, of which verbs_list.c
 * alone has the address (util/layers.py).
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_LIST_H
#define TAGRV_XPORT_VERBS_VERBS_LIST_H

#include "xport/numbers.h"
#include "xport/taglist.h"
#include "xport/verbs/verbs_blob.h"
#include "xport/verbs/verbs_dev.h"
#include "xport/verbs/verbs_pool.h"

/* A progress of the list that handles fewer completions has found no more. */
#define VERBS_LIST_PASS		256u
/* Bytes in front of each packet to a list: zeros, or the words of a tagged message */
#define VERBS_LIST_WORDS	(TAGRV_TAGLIST_WORDS * sizeof(uint64_t))
#define VERBS_LIST_ENTRIES	1024u	/* most in the list of an xport */
#define VERBS_LIST_OPS		256u	/* most commands in flight */
/* mlx5 receives nothing with 32 posted buffers or less. */
#define VERBS_LIST_BUFS_LEAST	64u
#define VERBS_LIST_BUFS_IDLE	32u

/* A packet that no entry took, or that failed. */
struct verbs_list_packet {
	uint32_t qpn;		/* where it came */
	int	status;		/* 0 or -FI_E*: there is no packet */
	bool	lost;		/* nor was its buffer posted, as far as we know */
	uint64_t wr_id;		/* of the buffer */
	const void *data;	/* valid during the call only */
	size_t	len;
	bool	tagged;		/* unexpected: it has to be counted */
	bool	has_imm;
	uint32_t imm;		/* big-endian */
};

/* False: a tagged packet is neither delivered nor dropped, but kept; sink->handled() follows
 * when it is. Of others the result says nothing. */
typedef bool (*verbs_list_receive_fn)(void *owner, const struct verbs_list_packet *packet);
/*
 * Of a packet that is not tagged and waits: takes the permit in its immediate data, which it
 * has no more when it is received. True: nothing was taken, because the packet is a permit
 * alone, and is to be received at once.
 */
typedef bool (*verbs_list_permit_fn)(void *owner, const struct verbs_list_packet *packet);

/*
 * An entry has taken a message: sets the link that has the number in its tag. qpn: where it
 * came, 0: not known. 0, or -FI_E*: it is no message of a link; or, if *link is set, the link is
 * of no use any more.
 */
typedef int (*verbs_list_match_fn)(void *owner, uint32_t qpn, uint64_t tag,
				   struct tagrv_link **link);
/* The message waits until its link is attached: deliver() is due in its turn then. */
typedef void (*verbs_list_keep_fn)(void *owner, struct tagrv_link *link, uint64_t key);

struct verbs_list_attr {
	uint32_t max_entries;		/* wanted: it may become less */
	struct verbs_rxq *rxq;		/* the owner's; zero. Opened and closed with the list */
	uint32_t bufs;			/* of it; VERBS_LIST_BUFS_LEAST to 2^15: it is made fit */
	uint32_t first_bufs;		/* of them, registered at once; 0: all */
	size_t	buf_size;		/* of packets that no entry takes */
	verbs_list_receive_fn receive;
	verbs_list_permit_fn permit;
	verbs_list_match_fn match;
	verbs_list_keep_fn keep;
	void	*owner;			/* for all, and what events of the queues name */
	struct ibv_comp_channel *channel;	/* NULL: no events */
	int	vector;
};

struct verbs_list_ops {
	/* 0; -FI_EOPNOTSUPP: the device has no lists; or another -FI_E*. */
	int (*open)(struct verbs_dev *dev, const struct verbs_list_attr *attr,
		    struct tagrv_taglist **list);
	/* A queue pair whose packets come by the list, in RESET. 0 or -errno. */
	int (*qp_create)(struct tagrv_taglist *list, void *ctx, struct ibv_qp **qp);
	/* The link of a message that was kept is attached, and the message is next. */
	void (*deliver)(struct tagrv_taglist *list, uint64_t key);
	/* The queue pairs of a link are destroyed: what entries have not got yet never comes. */
	void (*end)(struct tagrv_taglist *list, const struct tagrv_link *link);
	/* Whether completions were read that progress has yet to handle. */
	bool (*holds)(struct tagrv_taglist *list);
	/* The list has failed: the next progress says so. */
	void (*fail)(struct tagrv_taglist *list, int status);
	/* Takes the permits that have come; all other completions are held. */
	void (*reap)(struct tagrv_taglist *list);
	/* The channel had an event of this queue. False: it is not the list's. */
	bool (*event)(struct tagrv_taglist *list, const struct ibv_cq *cq);
	/* Requests an event. -FI_EAGAIN: progress has something to do. */
	int (*arm)(struct tagrv_taglist *list);
};

extern const struct verbs_list_ops tagrv_verbs_tm_ops;

/* Part of an xport. */
struct verbs_list {
	struct tagrv_taglist *taglist;	/* NULL: there is none. The owner of the xport may
					   forget it earlier (xport->list) */
	struct verbs_pool pool;		/* whose packets the list looks at first */
	struct verbs_link **links;	/* by number, 0 to VERBS_NUMBER_MAX; of those in the map */
	struct tagrv_numbers *numbers;	/* of links and peers; freed with the xport */
	uint64_t empty_pass;		/* xport->pass when the last progress found no more */
	uint64_t polled;		/* completions */
	uint64_t stray;			/* packets of no link */
	struct tagrv_xport_ops ops;	/* of an xport with a list */
};

struct verbs_link;
struct verbs_xport;

/* Opens a list if one is wanted and the device has them; else, or if that fails, there is none. */
void tagrv_verbs_list_open(struct verbs_xport *xp);
/* All queue pairs are destroyed. */
void tagrv_verbs_list_close(struct verbs_xport *xp);
/* The rest is of xports that have a list. qp_create: in RESET; 0 or -errno. */
int tagrv_verbs_list_qp_create(struct verbs_xport *xp, void *ctx, struct ibv_qp **qp)
	TAGRV_WARN_UNUSED;
/* A link enters the map; it has a number, or not. */
void tagrv_verbs_list_adopt(struct verbs_link *link);
/* Its queue pairs are destroyed. */
void tagrv_verbs_list_end(struct verbs_link *link);
/* A message that an entry took was kept, and is next. */
void tagrv_verbs_list_deliver(struct verbs_xport *xp, uint64_t key);
/* An unexpected message that was kept was delivered, or dropped. */
void tagrv_verbs_list_handled(struct verbs_xport *xp);
/* Whether completions are hidden, which would tell of lost buffers. */
bool tagrv_verbs_list_holds(struct verbs_xport *xp);
/* Most completions that there are at a time. */
uint64_t tagrv_verbs_list_depth(const struct verbs_xport *xp);
void tagrv_verbs_list_fail(struct verbs_xport *xp, int status);
void tagrv_verbs_list_reap(struct verbs_xport *xp);
bool tagrv_verbs_list_event(struct verbs_xport *xp, const struct ibv_cq *cq);
int tagrv_verbs_list_arm(struct verbs_xport *xp) TAGRV_WARN_UNUSED;

#endif
