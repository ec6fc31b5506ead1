/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Board: the memory in which a process shows what its endpoints do, to viewers that run
 * as the same user (tagrv_top). A memfd, so that it is gone when the process is, however
 * that ended.
 *
 *   head | slot 0 | slot 1 | ...       one slot for each endpoint
 *
 * The process writes a slot when a viewer has changed head.asked, and reads nothing else
 * of the board. A viewer that finds another version, or lengths that are too small, says
 * so; what is behind the lengths that it knows, a later release has added.
 *
 * The version changes with the meaning or the place of a member: so it does with a new
 * counter, behind which the levels are. A new level goes to the end of their list.
 */
#ifndef TAGRV_BOARD_LAYOUT_H
#define TAGRV_BOARD_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The name of the memfd, which /proc/PID/fd shows. */
#define TAGRV_BOARD_NAME	"tagrv-board"
#define TAGRV_BOARD_MAGIC	"TAGRVBRD"
#define TAGRV_BOARD_VERSION	2u
#define TAGRV_BOARD_SLOTS	64u	/* bits of tagrv_board_head::live */
#define TAGRV_BOARD_SLOT_LEN	2048u
#define TAGRV_BOARD_RAILS	4u
#define TAGRV_BOARD_TEXT	64u	/* bytes of a text, with its zero */

struct tagrv_board_head {
	char	magic[8];
	uint32_t version;
	uint32_t head_len;		/* where slot 0 begins */
	uint32_t slot_len, slot_cnt;
	uint32_t pid;			/* in the process's own name space */
	_Atomic uint32_t endpoints;	/* open, with a slot or without */
	_Atomic uint64_t live;		/* slots in use; bit i: slot i */
	char	release[16];
	/* Written by viewers; apart from what the process writes. */
	uint64_t before[9];
	_Atomic uint64_t asked;		/* any change asks for all slots to be written */
	uint64_t behind[7];
};

static_assert(sizeof(struct tagrv_board_head) == 192 &&
	      offsetof(struct tagrv_board_head, asked) == 128, "shared layout");

/*
 * What only grows while the endpoint is open: X(name, meaning). tx: of this endpoint;
 * rx: of its peers, in as far as this process took part. Bytes of one-sided operations are
 * those of the target's memory.
 */
#define TAGRV_BOARD_COUNTERS(X) \
	X(eager_tx, "messages sent in one packet") \
	X(eager_rx, "such messages that came") \
	X(announced_tx, "rendezvous messages announced") \
	X(announced_rx, "announcements that came") \
	X(batched_tx, "of eager_tx: several to a packet") \
	X(batched_rx, "of eager_rx: several to a packet") \
	X(prepared_tx, "of eager_tx: gathered by the device") \
	X(no_credit_tx, "of announced_tx: short, for want of credit") \
	X(buffered_tx, "of announced_tx: from a copy") \
	X(read_tx, "rendezvous messages that the peer read") \
	X(read_rx, "that this endpoint read") \
	X(write_tx, "that this endpoint wrote") \
	X(write_rx, "that the peer wrote") \
	X(copy_tx, "copied through packets, out") \
	X(copy_rx, "copied through packets, in") \
	X(pipeline_tx, "read by the peer in pieces") \
	X(pipeline_rx, "read in pieces") \
	X(onesided_tx, "one-sided operations begun") \
	X(onesided_rx, "one-sided operations served for peers") \
	X(onesided_views, "of onesided_tx: without the peer's processor") \
	X(onesided_refused, "operations of peers that were refused") \
	X(onesided_writes_tx, "of onesided_tx: writes") \
	X(onesided_writes_rx, "of onesided_rx: writes") \
	X(onesided_write_bytes_tx, "bytes of onesided_writes_tx") \
	X(onesided_write_bytes_rx, "bytes of onesided_writes_rx") \
	X(onesided_reads_tx, "of onesided_tx: reads") \
	X(onesided_reads_rx, "of onesided_rx: reads") \
	X(onesided_read_bytes_tx, "bytes of onesided_reads_tx") \
	X(onesided_read_bytes_rx, "bytes of onesided_reads_rx") \
	X(onesided_atomics_tx, "of onesided_tx: atomics") \
	X(onesided_atomics_rx, "of onesided_rx: atomics") \
	X(onesided_atomic_bytes_tx, "bytes of onesided_atomics_tx") \
	X(onesided_atomic_bytes_rx, "bytes of onesided_atomics_rx") \
	X(long_bytes_tx, "bytes of rendezvous messages sent") \
	X(long_bytes_rx, "bytes of rendezvous messages received") \
	X(acks, "acknowledgements sent") \
	X(ack_packets, "packets of nothing else") \
	X(parted, "idle connections closed to make room") \
	X(rejoined, "connections made again") \
	X(bad_packets, "packets refused") \
	X(lost_injects, "injected messages that were lost") \
	X(searches, "searches of the matching engine") \
	X(probes, "entries compared in them") \
	X(listed_matched, "messages matched by the adapter's list") \
	X(listed_unexpected, "messages that the list did not match")

/* What goes up and down. Bytes, where the name says so. */
#define TAGRV_BOARD_LEVELS(X) \
	X(posted, "receives posted") \
	X(posted_peak, "most receives posted at a time") \
	X(posted_from_one, "of posted: from one source, tagged") \
	X(posted_from_any, "of posted: from any source, tagged") \
	X(posted_untagged, "of posted: untagged") \
	X(posted_classes, "kinds of receives that have a hash") \
	X(unexpected, "messages kept that no receive matches") \
	X(unexpected_peak, "most of them at a time") \
	X(unexpected_bytes, "memory of kept messages") \
	X(budget_bytes, "memory left for those that cost no credit") \
	X(credit_bytes, "small messages that peers still take") \
	X(promised_bytes, "small messages still taken of peers") \
	X(owed_bytes, "credit to be given back") \
	X(granted_fragments, "fragments granted to peers and not here") \
	X(sends_queued, "sends of which nothing has left") \
	X(sends_under_way, "sends that have left and not ended") \
	X(sends_awaiting_peer, "of these: wait for the peer") \
	X(sends_awaiting_room, "of these: wait for room") \
	X(receives_reading, "receives with reads to post") \
	X(receives_to_grant, "receives with a grant to send") \
	X(receives_awaiting_peer, "receives that wait for the peer's bytes") \
	X(acks_queued, "acknowledgements to send") \
	X(peers, "peers known") \
	X(up, "connections that carry messages") \
	X(waiting, "connections that are being made") \
	X(parting, "connections that are being closed") \
	X(waiting_for_paths, "of up: paths are being renewed") \
	X(listed, "receives in the adapter's list") \
	X(list_size, "what the list has room for") \
	X(listed_soft, "receives that only software has")

#define TAGRV_BOARD_MEMBER(name, meaning) uint64_t name;
#define TAGRV_BOARD_COUNT(name, meaning) + 1u

struct tagrv_board_counters {
	TAGRV_BOARD_COUNTERS(TAGRV_BOARD_MEMBER)
};

struct tagrv_board_levels {
	TAGRV_BOARD_LEVELS(TAGRV_BOARD_MEMBER)
};

struct tagrv_board_rail {
	char	xport[16];
	char	device[TAGRV_BOARD_TEXT];
	uint64_t links;		/* now */
	uint64_t connections;	/* so far */
	uint32_t lost;		/* FI_E*: why the device is lost; 0: it is not */
	uint32_t unused;
};

enum tagrv_board_flags {
	TAGRV_BOARD_ENABLED	= 1 << 0,
	TAGRV_BOARD_SHARED_RX	= 1 << 1,	/* receives are shared with other endpoints */
	TAGRV_BOARD_CUT		= 1 << 2,	/* queues are longer than was counted */
	TAGRV_BOARD_LISTED	= 1 << 3,	/* an adapter matches */
};

struct tagrv_board_record {
	uint64_t ns;		/* CLOCK_MONOTONIC, when this was written */
	uint64_t answers;	/* the value of head.asked that this answers */
	uint32_t number;	/* of the endpoint in the process, from 1 on */
	uint32_t flags;		/* enum tagrv_board_flags */
	uint32_t rail_cnt;
	uint32_t unused;
	char	name[TAGRV_BOARD_TEXT];		/* its address */
	char	device[TAGRV_BOARD_TEXT];
	struct tagrv_board_rail rails[TAGRV_BOARD_RAILS];
	struct tagrv_board_counters counters;
	struct tagrv_board_levels levels;
};

struct tagrv_board_slot {
	_Atomic uint64_t turn;	/* odd while the record is being written; 0: never was */
	struct tagrv_board_record record;
};

static_assert(sizeof(struct tagrv_board_rail) == 104 &&
	      offsetof(struct tagrv_board_record, counters) == 576 &&
	      sizeof(struct tagrv_board_record) % sizeof(uint64_t) == 0 &&
	      sizeof(struct tagrv_board_slot) <= TAGRV_BOARD_SLOT_LEN, "shared layout");

#define TAGRV_BOARD_BYTES \
	(sizeof(struct tagrv_board_head) + TAGRV_BOARD_SLOTS * TAGRV_BOARD_SLOT_LEN)

#endif
