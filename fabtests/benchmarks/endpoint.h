/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint with one peer, for benchmarks: numbered tagged messages from and to
 * slots of memory of equal size.
 */
#ifndef BENCH_ENDPOINT_H
#define BENCH_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct endpoint_conf {
	const char *provider;
	const char *domain;	/* NULL: the provider's first */
	const char *address;	/* source address, NULL: the provider's choice */
	size_t slot_size;	/* largest message */
	size_t slots;		/* most messages in flight */
	uint64_t caps;		/* besides FI_TAGGED */
	size_t recvs;		/* most receives, and unexpected messages; 0: provider's choice */
	unsigned timeout;	/* seconds without any completion */
	bool one_buffer;	/* one slot for all sends, one for all receives */
	bool use_mr;		/* register the slots, pass their descriptor */
	bool use_inject;	/* inject messages up to the provider's limit */
	bool yield;		/* sched_yield() after empty polls */
	bool thread_safe;	/* FI_THREAD_SAFE: any thread may call */
	bool auto_progress;	/* FI_PROGRESS_AUTO, and any thread may call */
	enum fi_wait_obj wait;	/* other than FI_WAIT_NONE: endpoint_sleep() is allowed */
	uint64_t op_flags;	/* of every operation that is not a receive, e.g. FI_DELIVERY_COMPLETE */
	size_t memory;		/* bytes of all slots; 0: 2 * slots * slot_size */
	void (*watch)(void *arg);	/* called now and then while nothing completes; may end the program */
	void *watch_arg;
};

struct endpoint_op {
	struct fi_context2 context;	/* first member: the provider returns its address */
	bool	is_recv;
	bool	busy;		/* from the post to the completion */
};

struct endpoint {
	struct endpoint_conf conf;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	int	wait_fd;	/* with FI_WAIT_FD */
	struct fid_ep *ep;
	struct fid_mr *mr;
	void	*desc;
	size_t	inject_size;
	fi_addr_t peer;
	char	*memory;	/* slots for sends, then slots for receives */
	struct endpoint_op *ops;
	uint64_t sent, received;		/* posted so far */
	size_t	send_at, recv_at;		/* the next message's slot: sent and received mod slots */
	size_t	take_at;			/* slot of the receive that is taken next */
	uint64_t sends_done, recvs_done;	/* completed so far */
	size_t	expect;		/* bytes of every posted receive */
	size_t	memory_bytes, op_cnt;	/* what was allocated */
	unsigned idle;		/* polls without a completion, for conf.watch */
};

/* Any failure ends the program with a message. oob: see oob.h. */
void endpoint_open(struct endpoint *e, const struct endpoint_conf *conf, int oob);
void endpoint_close(struct endpoint *e);

/* The same without a peer: endpoint_meet() finds it. */
void endpoint_start(struct endpoint *e, const struct endpoint_conf *conf);

/*
 * Divides the memory anew while nothing is in flight: at most conf.slots of endpoint_start(),
 * and no more than conf.memory bytes for both directions.
 */
void endpoint_reshape(struct endpoint *e, size_t slots, size_t slot_size);

/* Exchanges names with a further peer and inserts its name; both sides call it. */
fi_addr_t endpoint_meet(struct endpoint *e, int oob);

/*
 * Slots are used in turn; the pointer is valid until the next slot of its kind is used.
 * These two divide: not for what is timed.
 */
char *endpoint_send_slot(const struct endpoint *e, uint64_t message);
char *endpoint_recv_slot(const struct endpoint *e, uint64_t message);

/* Wait for the last operation in the slot, too. */
void endpoint_post_recv(struct endpoint *e, size_t len);
/* Returns false, and has posted nothing, if the provider holds no more receives now. */
bool endpoint_try_recv(struct endpoint *e, size_t len);
void endpoint_post_send(struct endpoint *e, size_t len);

/* Injects with data; len: within the provider's limit. */
void endpoint_inject_data(struct endpoint *e, size_t len, uint64_t data);

/* Waits until the last operation with this context has completed, if there was one. */
void endpoint_wait_op(struct endpoint *e, const struct endpoint_op *op);

/* Waits until the slot of the next send may be written to, and returns it. */
char *endpoint_wait_slot(struct endpoint *e);

/*
 * Waits for the receive that was posted first of those not taken yet, although later ones
 * may have completed before. For programs that take all their receives so.
 */
void endpoint_take_recv(struct endpoint *e);

/* The slot of the receive that was taken last. */
char *endpoint_taken_slot(const struct endpoint *e);

/* Wait until so many have completed since endpoint_open(). */
void endpoint_wait_recvs(struct endpoint *e, uint64_t count);
void endpoint_wait_sends(struct endpoint *e, uint64_t count);

/* Sleeps until there may be a completion, and reads it. */
void endpoint_sleep(struct endpoint *e);

/* Reads the completion queue once; usable as oob_idle_fn. */
void endpoint_progress(void *endpoint);

#endif
