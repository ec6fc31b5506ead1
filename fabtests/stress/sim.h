/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Protocol engines in one process, over a transport that behaves at random.
 *
 *   traffic --> engine 0 --> sim_link ==== sim_link --> engine 1 --> expect
 *                  |       queues of packets, gets and     |
 *                  '------ puts, and of their ends --------'     (and engine 2)
 *
 * Each file calls only files below it:
 *
 *   sim_main     options; one process per seed: set up, steps, the end
 *   sim_expect   checks completions: each byte, flag, number and error
 *   sim_side     two or three engines with random parameters; checks that they
 *                hold nothing when all operations have ended
 *   sim_conn     brings up connections in place of the wireup thread
 *   sim_traffic  posts random sends, receives, peeks, claims and cancels
 *   sim_xport    the random transport: accepts operations, is full, refuses
 *                registrations
 *   sim_move     carries out a random part of what was accepted, loses gets and
 *                puts, reports broken connections
 *   sim_list     the devices' lists of posted receives, which are late, full or lost
 *   sim_link     both ends of a connection, their queues, registered memory
 *   sim_base     state, random numbers, sim_fail
 *
 * One stream of random numbers decides everything, so a seed gives the same run
 * each time, to the last packet. No clock is read. The engines' wireup threads
 * try to connect to a port where nobody listens, and so report nothing.
 *
 * What must hold, whatever the transport does:
 *   - each accepted operation ends exactly once, and without an error unless a
 *     connection broke or the receive was too short or cancelled
 *   - a received message equals the sent one: bytes, length, tag, source, data,
 *     flags; no byte beyond it is written, and no message is received twice
 *   - of messages that the same receives could match, the one sent first matches the
 *     receive posted first
 *   - peers reach memory only while it is registered for their kind of access
 *   - when all operations have ended, engines hold nothing: operations, messages,
 *     credit, registrations, links; counters equal the number of completions
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
#include "match/offload/offload.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/op.h"
#include "object/peer.h"
#include "wire/packet.h"
#include "xport/stubs.h"

enum { SIM_SIDES = 3 };

/* Of messages: what receives select by. */
enum { SIM_TAGS = 4 };

/* Limits and chances that a seed draws at its start. Chances are in percent. */
struct sim_mix {
	uint32_t caps;		/* of the transport */
	size_t	tagged_end;	/* shorter tagged messages need no header */
	size_t	depth;		/* most gets, and most puts, in flight per link */
	unsigned full;		/* chance that a post is refused with FI_EAGAIN */
	unsigned no_reg;	/* chance that a registration fails */
	unsigned lossy;		/* chance that a get or put fails */
	bool	breaks;		/* connections break, or are replaced */
	bool	abrupt;		/* everything is closed amid traffic */
	size_t	sends, recvs;	/* most operations outstanding at a time */
	size_t	pause;		/* mean number of steps between pauses, 0: none */
	size_t	max_len;	/* bytes of a message */
	unsigned multi;		/* chance that a receive takes several messages */
	unsigned peek, cancel;	/* chance of a peek, of a cancel, in each step */
	unsigned directed;	/* chance that a receive names its source */
	unsigned own_mem;	/* chance that the application registered a buffer */
	unsigned lists;		/* chance that a side uses its device's list of receives */
	unsigned late;		/* most calls of progress that such a list waits for anything */
};

/* One endpoint with the objects that an application opens for it. */
struct sim_side {
	struct tagrv_device dev;
	struct tagrv_dom *dom;		/* side 2 shares side 1's, if sim.shared */
	struct tagrv_avtab own_av, *av;	/* 'av' of side 2 is side 1's, if sim.shared */
	struct tagrv_engine *engine;
	struct tagrv_rx *rx;
	struct tagrv_compq tx_cq, rx_cq;
	struct tagrv_counter tx_cntr, rx_cntr;
	struct tagrv_addr addr;		/* in the address tables of all sides */
	fi_addr_t self;			/* row of this side in its own table */
	uint64_t accepted;		/* sends that the engine has taken */
	bool	hw_tags;		/* it sends to lists, and may have one */
};

/* An accepted message; its id is its index in sim.msgs. */
struct sim_msg {
	int	src, dst;
	size_t	len;
	uint64_t tag, flags;
	uint8_t	space;
	bool	data;		/* carries its id as remote CQ data */
	bool	got;		/* received, discarded or lost: it has ended */
	unsigned recv;		/* number of the receive that matched it; 0: none, or a claim */
};

enum sim_kind { SIM_SEND, SIM_RECV, SIM_MULTI, SIM_PEEK, SIM_CLAIM };

/* An operation that has not ended; its address is the operation's context. */
struct sim_op {
	struct tagrv_list node;		/* sim.live */
	enum sim_kind kind;
	int	side;
	uint64_t flags;
	unsigned number;		/* counts operations, for the trace */
	unsigned id;			/* of the message that is sent or claimed */
	char	*buf;
	size_t	len;
	struct iovec iov[TAGRV_IOV_MAX];
	size_t	iov_cnt;
	struct tagrv_mem *mem;		/* registered by the application, or NULL */
	bool	cancelled;
	bool	claiming;		/* the receive with FI_CLAIM was posted */
};

struct sim {
	uint64_t steps;
	bool	trace, lists;		/* -v, --lists */
	struct sim_mix mix;
	struct sim_side side[SIM_SIDES];
	int	side_cnt;
	struct tagrv_rx *shared;	/* of sides 1 and 2, or NULL */
	struct sim_msg *msgs;
	unsigned msg_cnt, got_cnt;
	struct tagrv_list live;		/* of sim_op */
	unsigned op_cnt;
	size_t	sends, recvs;		/* operations that have not ended */
	bool	broken;			/* a connection broke: operations may fail */
	uint64_t rx_ok, rx_err;		/* expected sums of the receive counters */
	size_t	regs, links;		/* registrations and links that exist */
};

extern struct sim sim;

/* --- sim_base.c --- */

#define SIM_CHECK(cond, ...) do { \
	if (!(cond)) \
		sim_fail(__VA_ARGS__); \
} while (0)

#define SIM_TRACE(...) do { \
	if (sim.trace) \
		sim_trace(__VA_ARGS__); \
} while (0)

/* Prints what is wrong and ends the seed's process with a failure. */
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Zeroed memory; fails the seed when there is none. */
void *sim_alloc(size_t len);

/* Starts the stream of random numbers. */
void sim_seed(uint64_t seed);
/* A random number below n; 0 for n 0. */
size_t sim_below(size_t n);
bool sim_chance(unsigned percent);

/* --- sim_link.c --- */

/* One end of a connection. */
struct sim_link;

/* Makes both ends of a connection; side[i] and epoch[i] belong to link[i]. */
void sim_link_pair(struct sim_link *link[2], const int side[2], const uint32_t epoch[2]);
struct tagrv_link *sim_link_base(struct sim_link *link);
/* Frees the other end, as if it had never come up. */
void sim_link_discard_peer(struct sim_link *link);
/* Breaks one of a side's connections, if it has any. */
void sim_link_break_one(int side);
/*
 * Returns the epoch of a broken link of 'side' whose end the wireup has to
 * report, and the link's other side; 0 if there is none. Each link comes once.
 */
uint32_t sim_link_take_gone(int side, int *other);
/* Registers memory for the application; never fails. */
struct tagrv_mem *sim_mem_own(struct tagrv_device *dev, void *addr, size_t len, unsigned access);

/* --- sim_xport.c --- */

extern const struct tagrv_xport_ops sim_xport_ops;

/* --- sim_conn.c --- */

/* What engine 'side' knows of engine 'other'; NULL: nothing. */
struct tagrv_peer *sim_conn_peer(int side, int other);
/* Reports some of the wireup events that are due. */
void sim_conn_step(void);
/* Reports those with a link, which belongs to its engine then. */
void sim_conn_finish(void);

/* --- sim_side.c --- */

void sim_side_open_all(void);
/* Checks, after all operations have ended, that nothing is left. */
void sim_side_judge(void);
/* Closes the engines, 'first' before the others, and with them their links. */
void sim_side_close_all(int first);
/* Closes queues, counters, address tables and domains. */
void sim_side_free_all(void);

/* --- sim_traffic.c --- */

/* Byte i of message id. */
unsigned char sim_pattern(unsigned id, size_t i);
/* Frees the operation with its buffer and its registration. */
void sim_op_free(struct sim_op *op);

void sim_traffic_send(void);
void sim_traffic_recv(void);
void sim_traffic_peek(void);
void sim_traffic_cancel(void);
/* Posts the receive of a claimed message: at random, or certainly with sure. */
void sim_traffic_claim(bool sure);
/* How many receives may still be cancelled. */
size_t sim_traffic_posted(void);
/* Frees the operations that never ended because everything was closed. */
void sim_traffic_drop_all(void);

/* --- sim_expect.c --- */

enum { SIM_FILL = 0xee };	/* content of receive buffers before a receive */

/* Takes and checks all completions of a side's queue. */
void sim_expect_rx(int side);
void sim_expect_tx(int side);
/* Checks that no message has overtaken another one. */
void sim_expect_order(void);

#endif
