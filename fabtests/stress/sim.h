/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Protocol engines in one process, over a transport that does what it likes.
 *
 *   sim_main      options; one process per seed: set up, steps, the end
 *   sim_traffic   posts random sends, receives, peeks, claims, cancels
 *   sim_expect    takes completions: each byte, flag, number and error
 *   sim_side      two or three engines of random parameters; what they hold when
 *                 all has ended
 *   sim_conn      brings up connections in place of the wireup thread
 *   sim_xport     the transport: moves what it has when it wants, is full when it
 *                 wants, refuses registrations, loses gets and puts, breaks
 *
 *   traffic --> engine 0 --> sim_link ==== sim_link --> engine 1 --> expect
 *                  |          queues of packets, puts,     |
 *                  '--------- gets, ends of them ----------'   (and engine 2)
 *
 * One stream of random numbers decides everything: a seed stands for one run, to
 * the last packet. No clock is read, and the engines' wireup threads, which try in
 * vain to reach a port where nobody listens, have nothing to say.
 *
 * What must hold, whatever the transport does:
 *   - each accepted operation ends exactly once, and without an error unless
 *     something broke or the receive was too short or cancelled
 *   - what arrives is what was sent: bytes, length, tag, source, data, flags;
 *     nothing is written beyond it, and no message is received twice
 *   - memory is reached by peers only while it is registered for that
 *   - when all has ended, engines hold nothing: operations, messages, credit,
 *     registrations, links; counters count what completions told
 *
 * With three engines, two of them may share a receive context.
 */
#ifndef STRESS_SIM_H
#define STRESS_SIM_H

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/peer.h"
#include "xport/stubs.h"

enum { SIM_SIDES = 3 };

/* What a seed is made of. Chances are in percent. */
struct sim_mix {
	uint32_t caps;		/* of the transport */
	size_t	depth;		/* its gets, and its puts, in flight */
	unsigned full;		/* chance that it has no room */
	unsigned no_reg;	/* that a registration fails */
	unsigned lossy;		/* that a get or put fails */
	bool	breaks;		/* connections break, or are replaced */
	bool	abrupt;		/* everything is closed amid traffic */
	size_t	sends, recvs;	/* most at a time */
	size_t	pause;		/* one in so many steps, 0: none */
	size_t	max_len;	/* bytes of a message */
	unsigned multi;		/* chance that a receive takes several messages */
	unsigned peek, cancel;	/* of one in a step */
	unsigned directed;	/* that a receive names its source */
	unsigned own_mem;	/* that a buffer was registered by the application */
};

/* One endpoint and what an application has for it. */
struct sim_side {
	struct tagrv_device dev;
	struct tagrv_dom *dom;		/* the third may use the second's */
	struct tagrv_avtab own_av, *av;	/* so with this one */
	struct tagrv_engine *engine;
	struct tagrv_rx *rx;
	struct tagrv_compq tx_cq, rx_cq;
	struct tagrv_counter tx_cntr, rx_cntr;
	struct tagrv_addr addr;		/* by which others know it */
	fi_addr_t self;			/* by which it sends to itself */
	uint64_t accepted;		/* sends */
};

/* A message that was accepted; its number is its place. */
struct sim_msg {
	int	src, dst;
	size_t	len;
	uint64_t tag, flags;
	uint8_t	space;
	bool	data;		/* carries its number as remote data */
	bool	got;
};

enum sim_kind { SIM_SEND, SIM_RECV, SIM_MULTI, SIM_PEEK, SIM_CLAIM };

/* An operation that has not ended: its address is the context. */
struct sim_op {
	struct tagrv_list node;		/* sim.live */
	enum sim_kind kind;
	int	side;
	uint64_t flags;
	unsigned number;		/* of operations, for the trace */
	unsigned id;			/* message: of a send, or claimed */
	char	*buf;
	size_t	len;
	struct iovec iov[TAGRV_IOV_MAX];
	size_t	iov_cnt;
	struct tagrv_mem *mem;		/* the application's own, or NULL */
	bool	cancelled;
	bool	claiming;		/* the claim was posted */
};

struct sim {
	uint64_t steps;
	bool	trace;
	struct sim_mix mix;
	struct sim_side side[SIM_SIDES];
	int	side_cnt;
	struct tagrv_rx *shared;	/* of sides 1 and 2, or NULL */
	struct sim_msg *msgs;
	unsigned msg_cnt, got_cnt;
	struct tagrv_list live;
	unsigned op_cnt;
	size_t	sends, recvs;		/* that have not ended */
	bool	broken;			/* so that operations may fail */
	uint64_t rx_ok, rx_err;		/* what the counters shall say */
	size_t	regs, links;		/* that exist */
};

extern struct sim sim;

/* --- sim_main.c --- */

#define SIM_CHECK(cond, ...) do { \
	if (!(cond)) \
		sim_fail(__VA_ARGS__); \
} while (0)

#define SIM_TRACE(...) do { \
	if (sim.trace) \
		sim_trace(__VA_ARGS__); \
} while (0)

/* Says what is wrong, and ends the seed. */
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *sim_alloc(size_t len);

/* A random number below n; 0 for n 0. */
size_t sim_below(size_t n);
bool sim_chance(unsigned percent);

/* --- sim_xport.c --- */

/* One end of a connection. */
struct sim_link;

extern const struct tagrv_xport_ops sim_xport_ops;

/* A pair that is connected: of these sides, with these epochs. */
void sim_link_pair(struct sim_link *link[2], const int side[2], const uint32_t epoch[2]);
struct tagrv_link *sim_link_base(struct sim_link *link);
/* The other end never comes up. */
void sim_link_bereave(struct sim_link *link);
/* Breaks one of a side's connections, if it has any. */
void sim_link_break_one(int side);
/* The epoch of a link whose end is to be told by the wireup, or 0; once. */
uint32_t sim_link_take_gone(int side, int *other);
/* What an application registers; never fails. */
struct tagrv_mem *sim_mem_own(struct tagrv_device *dev, void *addr, size_t len, unsigned access);

/* --- sim_conn.c --- */

struct tagrv_peer *sim_conn_peer(int side, int other);
void sim_conn_step(void);

/* --- sim_side.c --- */

void sim_side_open_all(void);
/* All has ended: nothing may be left. */
void sim_side_judge(void);
/* Closes the engines, 'first' before the others; links end with them. */
void sim_side_close_all(int first);
/* Frees the rest. */
void sim_side_free_all(void);

/* --- sim_traffic.c --- */

/* Byte i of a message. */
unsigned char sim_pattern(unsigned id, size_t i);
void sim_op_free(struct sim_op *op);

void sim_traffic_send(void);
void sim_traffic_recv(void);
void sim_traffic_peek(void);
void sim_traffic_cancel(void);
/* Receives what was claimed: some, or the next one for sure. */
void sim_traffic_claim(bool sure);
/* Receives that may still be cancelled. */
size_t sim_traffic_posted(void);
void sim_traffic_drop_all(void);

/* --- sim_expect.c --- */

enum { SIM_FILL = 0xee };	/* what receive buffers hold before */

void sim_expect_rx(int side);
void sim_expect_tx(int side);

#endif
