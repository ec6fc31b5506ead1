/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Several engines that share a receive context, each connected to the peer of the
 * engine fixture.
 */
#ifndef FABTESTS_UNIT_ENGINE_RX_FIXTURE_H
#define FABTESTS_UNIT_ENGINE_RX_FIXTURE_H

#include "common/engine_fixture.h"

#define ENGINES	3
#define LONG	100000		/* bytes of a message that goes by rendezvous */

/* An engine that shares the receive context. */
struct user {
	struct tagrv_engine *engine;	/* NULL: closed */
	bool opened;			/* once, and it has what follows */
	struct tagrv_compq rx;
	struct tagrv_counter cntr;	/* of receives */
	struct tagrv_link *link;	/* to the peer */
	uint32_t seq;			/* of the next message that the peer sends */
};

extern struct user users[ENGINES];
extern struct tagrv_rx *rx;		/* the receive context */
extern struct tagrv_compq own;		/* a queue that rx can be given */
extern struct tagrv_counter own_cntr;	/* a counter that rx can be given */
extern char ctx[8];			/* contexts of operations */
extern char src[LONG], dst[LONG];

/* .init and .fini of the suite. */
void rx_setup(void);
void rx_teardown(void);

void open_user(struct user *user);
/* Connects it to the peer at this address. */
void connect_user(struct user *user, const struct tagrv_addr *addr);
/* Does nothing if it is closed. */
void close_user(struct user *user);
/* Packets that arrive come by the connection of users[i] from now on. */
void use(int i);

/* An address of this host. */
struct tagrv_addr local(uint16_t port);

/* Posts a receive to the context; the first returns what tagrv_rx_recv() does. */
ssize_t post_flags(void *buf, size_t len, uint64_t tag, void *context,
		   fi_addr_t from, uint64_t flags);
void post(void *buf, size_t len, uint64_t tag, void *context);
/* flags: FI_PEEK, FI_CLAIM, FI_DISCARD. */
int peek(uint64_t tag, void *context, uint64_t flags);

/* The oldest record of the queue is a success from the peer of the fixture. */
void expect(struct tagrv_compq *q, void *context, uint64_t tag);
/* Nothing is left in any queue. */
void expect_all_empty(void);

#endif
