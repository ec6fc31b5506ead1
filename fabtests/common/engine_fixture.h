/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine over the scripted transport, with one peer at address number 0.
 */
#ifndef FABTESTS_COMMON_ENGINE_FIXTURE_H
#define FABTESTS_COMMON_ENGINE_FIXTURE_H

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "common/caught_log.h"
#include "common/fake_xport.h"
#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/peer.h"

struct engine_fixture {
	struct tagrv_dom *dom;
	struct tagrv_engine *engine;
	struct tagrv_avtab av;
	struct tagrv_compq tx, rx;
	struct tagrv_counter tx_cntr, rx_cntr;
	fi_addr_t peer_addr;
	struct tagrv_addr addr;		/* of the peer */
	struct tagrv_link *link;	/* once peer_up() was called */
	uint32_t rx_seq;		/* next envelope the peer sends */
	size_t	max_packet;		/* what the peer says it takes */
	bool	later;			/* eager packets wait for progress */
};

extern struct engine_fixture fx;

void engine_setup(void);
/* Before the teardown, to look at what is left in the queues. */
void engine_close(void);
void engine_teardown(void);
/* Fails all connections: the transport of the fixture cannot close very many at once. */
void engine_end_lanes(void);

/* Reports the connection: UP, sendable or not. */
void peer_up(bool sendable);
void peer_sendable(void);
void peer_event(enum tagrv_wireup_event_type type, int status);

/* Before anything is queued: how much can be, at most; 0: no such limit. */
void engine_limit_queues(size_t posted, size_t unexpected);

/* FI_TAGRV_RNDV from now on, of senders and receivers. */
void engine_set_rndv(enum tagrv_proto proto);

/* A tagged request with the defaults of most tests; edit, then submit. */
struct tagrv_send_req send_req(const void *buf, size_t len, uint64_t tag,
			       void *context);
struct tagrv_recv_req recv_req(void *buf, size_t len, uint64_t tag,
			       void *context);
int submit_send(const void *buf, size_t len, uint64_t tag, void *context,
		uint64_t flags);
int submit_recv(void *buf, size_t len, uint64_t tag, void *context);

/* Packets as the peer would send them. */
void arrive_eager(const void *buf, size_t len, uint64_t tag, uint16_t flags,
		  uint32_t handle);
void arrive_rts(const void *buf, size_t len, uint64_t tag, uint32_t handle);
/* The same without keys: it can only be copied. */
void arrive_rts_bare(size_t len, uint64_t tag, uint32_t handle);
/* A pipeline's: the first 'head' bytes come with it. */
void arrive_rts_head(const void *buf, size_t head, size_t len, uint64_t tag,
		     uint32_t handle);
/* A piece, 'handle', of the message that begins at buf. */
void arrive_piece(uint32_t taker, size_t offset, size_t len, const void *buf,
		  uint32_t handle);
/* A CTS, or a PIECE, that names no memory. */
void arrive_wish(uint8_t opcode, uint32_t op, size_t data,
		 const struct tagrv_cts *cts);
void arrive_cts(uint32_t handle, uint32_t taker, size_t want, size_t granted);
void arrive_frag(uint32_t taker, size_t offset, const void *buf, size_t len);
/* A packet that is nothing but a header: FIN, GRANT, DONE. */
void arrive_control(uint8_t opcode, uint32_t handle, uint64_t data);
void arrive_fin(uint32_t handle, uint32_t status);

/* Takes the oldest record of a queue; fails the test when there is none. */
struct tagrv_comp take(struct tagrv_compq *q);
void expect_empty(struct tagrv_compq *q);

/* Header of recorded packet i, in host order. */
struct tagrv_hdr packet_header(size_t i);

/* Message k of recorded packet i, which carries several. */
struct sent_item {
	struct tagrv_item item;		/* host order */
	const uint8_t *payload;
};
struct sent_item sent_item(size_t i, size_t k);
/* How many there are in it. */
size_t sent_items(size_t i);
/* How many FINs stand in front of them. */
size_t sent_fins(size_t i);

#endif
