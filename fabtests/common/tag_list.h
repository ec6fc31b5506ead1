/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of tags of an adapter (a shared receive queue of type IBV_SRQT_TM), as a
 * pure object: commands of the software and messages of the network go in, completions
 * come out. It knows no verbs types, sends nothing and has a clock that the test moves.
 *
 *   tag_list_post()    ADD, DEL, SYNC --> wait for 'apply' ticks, one after the other
 *                                           --> applied --> wait for 'report' ticks --+
 *   tag_list_arrive()  a message      --> matched at once, in the order of the list ----+
 *                                           --> data of a long one: 'data' ticks -------+
 *                                                                                     v
 *   tag_list_poll()  <--------------------------------------------------- completions
 *
 * What it does is what rdma-core documents (Documentation/tag_matching.md,
 * ibv_post_srq_ops(3)), and where that is silent what its library for mlx5 does:
 *
 * - An entry matches when (message's tag & mask) == entry's tag. The oldest active entry
 *   that matches takes the message.
 * - A tagged message that matches none is unexpected; the device counts it. From then on
 *   entries that are added stay inactive, until a command tells a count of unexpected
 *   messages that equals the device's own in 16 bits. That command makes all of them active.
 *   Entries that were active before stay active.
 * - A DEL of an entry that a message has taken completes with TAG_LIST_GONE, before or after
 *   the completion of the message.
 * - A handle is free again only when each completion that concerns it was polled, and
 *   a command counts against max_ops until a signaled one that is not older was polled.
 * - TAG_LIST_SYNC_REQ is a hint that may be wrong. The library compares 16 bits of
 *   the device with the 32 bits of the software when an ADD or DEL completes; and it
 *   raises it with each unexpected message once 2^14 more have come than the last ADD
 *   told, whatever a SYNC has told since.
 */
#ifndef FABTESTS_COMMON_TAG_LIST_H
#define FABTESTS_COMMON_TAG_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Header of tagged messages (TMH), and what follows it in a rendezvous (RVH). */
#define TAG_LIST_TMH	16
#define TAG_LIST_RVH	16

/* First byte of a message. A FIN is reported as a message without tag. */
enum tag_list_opcode {
	TAG_LIST_OP_NO_TAG, TAG_LIST_OP_RNDV, TAG_LIST_OP_FIN, TAG_LIST_OP_EAGER,
};

enum tag_list_code {
	TAG_LIST_ADD, TAG_LIST_DEL, TAG_LIST_SYNC,	/* commands and their completions */
	TAG_LIST_RECV,		/* a tagged message, matched or unexpected */
	TAG_LIST_NO_TAG,	/* a message without tag */
};

/* Flags of completions. A RECV with neither MATCH nor DATA is an unexpected message. */
enum {
	TAG_LIST_MATCH		= 1 << 0,
	TAG_LIST_DATA		= 1 << 1,	/* all bytes are in the buffer */
	TAG_LIST_SYNC_REQ	= 1 << 2,
};

enum tag_list_status {
	TAG_LIST_OK,
	TAG_LIST_GONE,		/* DEL: a message has taken the entry (IBV_WC_TM_ERR) */
	TAG_LIST_INCOMPLETE,	/* rendezvous: the buffer has the headers only
				   (IBV_WC_TM_RNDV_INCOMPLETE) */
	TAG_LIST_TOO_LONG,	/* the buffer is too short (IBV_WC_LOC_LEN_ERR) */
	TAG_LIST_LOST,		/* the read of a rendezvous failed */
};

struct tag_list;

struct tag_list_config {
	uint32_t max_tags, max_ops;
	size_t	mtu;		/* an eager payload that is longer completes twice; 0: none does */
	bool	no_read;	/* a rendezvous is always INCOMPLETE */
};

/* Ticks. Commands keep their order, and so do their completions. */
#define TAG_LIST_HOLD	UINT32_MAX	/* until tag_list_apply() */

struct tag_list_delays {
	uint32_t apply;		/* from post to the device's list */
	uint32_t report;	/* from there to the completion of the command */
	uint32_t data;		/* from MATCH to DATA of an eager message */
};

struct tag_list_cmd {
	enum tag_list_code code;	/* ADD, DEL or SYNC */
	bool	signaled;	/* a completion with wr_id; a DEL must be */
	bool	sync;		/* 'count' is told */
	uint64_t wr_id;
	uint32_t count;		/* unexpected messages that software has handled */
	uint32_t handle;	/* DEL: of the entry; ADD: output */
	uint64_t recv_wr_id;	/* ADD: wr_id of the entry's RECV */
	uint64_t tag, mask;
	void	*buf;		/* may be NULL: nothing is copied */
	size_t	len;
};

struct tag_list_record {
	enum tag_list_code code;
	enum tag_list_status status;
	unsigned flags;
	uint64_t wr_id;		/* of the command, entry or receive buffer */
	uint64_t tag;		/* of the message; host order; not with DATA alone */
	uint32_t app_ctx;	/* likewise */
	uint32_t length;	/* bytes of payload; not with MATCH alone. INCOMPLETE: of the
				   headers; unexpected, without tag: of the message */
	uint32_t count;		/* unexpected messages of the device at that event */
};

/* What became of a message. */
enum tag_list_fate {
	TAG_LIST_MATCHED,	/* it is in the buffer of an entry, or going there */
	TAG_LIST_READ,		/* rendezvous: see struct tag_list_read */
	TAG_LIST_UNMATCHED,	/* the receive buffer of the caller has it */
};

/* The caller reads these bytes, sends a FIN with the message's headers, and calls
 * tag_list_read_done(). */
struct tag_list_read {
	uint32_t handle;
	void	*buf;
	uint64_t va;
	uint32_t rkey, len;
};

/* Returns NULL without memory. All delays are 0. */
struct tag_list *tag_list_create(const struct tag_list_config *config);
void tag_list_destroy(struct tag_list *list);

/* Changes the delays of what is posted, applied or matched from now on. */
void tag_list_set_delays(struct tag_list *list, const struct tag_list_delays *delays);

/*
 * Posts a command. Returns 0, -ENOMEM: no free entry, or max_ops commands outstanding;
 * or -EINVAL: a DEL without signal or of a handle that is not in use.
 */
int tag_list_post(struct tag_list *list, struct tag_list_cmd *cmd);

/* Moves the clock by one tick. */
void tag_list_tick(struct tag_list *list);

/* Applies the oldest command now, whatever its delay; false: there is none. */
bool tag_list_apply(struct tag_list *list);

/* Whether an active entry would take the message. */
bool tag_list_would_match(const struct tag_list *list, const void *bytes, size_t len);

/*
 * A message arrives, headers first. recv_wr_id names the buffer in which the caller
 * puts it if it is TAG_LIST_UNMATCHED. Sets *read with TAG_LIST_READ only.
 */
enum tag_list_fate tag_list_arrive(struct tag_list *list, const void *bytes, size_t len,
				   uint64_t recv_wr_id, struct tag_list_read *read);

/* The bytes of a rendezvous are in the entry's buffer; or not: TAG_LIST_LOST. */
void tag_list_read_done(struct tag_list *list, uint32_t handle, bool ok);

/* Takes the oldest completion; false: there is none. */
bool tag_list_poll(struct tag_list *list, struct tag_list_record *record);

/* For tests: unexpected messages of the device; entries that can match, and that cannot yet. */
uint32_t tag_list_unexpected(const struct tag_list *list);
uint32_t tag_list_active(const struct tag_list *list);
uint32_t tag_list_inactive(const struct tag_list *list);
/* Commands that are not applied yet, handles in use, completions not yet polled. */
uint32_t tag_list_waiting(const struct tag_list *list);
uint32_t tag_list_used(const struct tag_list *list);
uint32_t tag_list_ready(const struct tag_list *list);

#endif
