/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of the layer share; README.md says what the layer is.
 *
 *   tmsim_open.c   the device and its capabilities: where all begins
 *   tmsim_cq.c     completion queues that report matching
 *   tmsim_srq.c    receive queues with a list
 *   tmsim_qp.c     queue pairs whose send queue belongs to the list
 *   tmsim_match.c  what a message or a command of the list does
 *   tmsim_rndv.c   reads of the rendezvous, and their FINs
 *   tmsim_table.c  the lock, and how an object of libibverbs leads to the layer's
 *
 * A function that stands in for a verb takes the lock; all others want it held.
 */
#ifndef TMSIM_TMSIM_H
#define TMSIM_TMSIM_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/tag_list.h"

/* The function of libibverbs that the layer's own of the same name hides. */
#define TMSIM_REAL(verb) ((__typeof__(&verb)) tmsim_real(#verb))
#define TMSIM_EXPORT	__attribute__((visibility("default")))

/* The type of a verb's pointer in the tables of a context. */
#define TMSIM_EX_OP(verb) __typeof__(((struct verbs_context *) NULL)->verb)

enum tmsim_kind {
	TMSIM_CTX,
	TMSIM_CQ,
	TMSIM_SRQ,
	TMSIM_QP,
};

/* First member of each object of the layer: its place in the table. */
struct tmsim_node {
	struct tmsim_node *next;
	enum tmsim_kind kind;
	const void *key;	/* the object of libibverbs */
};

/* A device that was opened: the verbs of its library, which the layer calls. */
struct tmsim_ctx {
	struct tmsim_node node;
	struct ibv_context_ops ops;
	TMSIM_EX_OP(query_device_ex) query_device_ex;
	TMSIM_EX_OP(create_cq_ex) create_cq_ex;
	TMSIM_EX_OP(create_srq_ex) create_srq_ex;
	TMSIM_EX_OP(create_qp_ex) create_qp_ex;
};

/* What the environment says; see README.md. */
struct tmsim_limits {
	uint32_t max_tags;
	uint32_t max_ops;
	uint32_t mtu;
	uint32_t least;		/* receive buffers that must be posted, or nothing is received */
	struct tag_list_delays delays;	/* in polls */
};

/* A completion as the application reads it; or, if 'from' is set, the place of the list's next one. */
struct tmsim_wc {
	struct ibv_wc base;
	struct ibv_wc_tm_info tm;
	struct tmsim_srq *from;
};

struct tmsim_cq {
	struct tmsim_node node;
	struct ibv_cq_ex *cq;
	struct tmsim_ctx *ctx;
	unsigned srqs;		/* that report here */
	struct tmsim_srq *first_srq;
	struct tmsim_qp *first_qp;
	struct tmsim_wc *ring;	/* completions that wait for a poll; 'size' is a power of two */
	size_t head, tail, size;
	struct tmsim_wc now;	/* the one that is being read */
};

/* A receive buffer that the application has posted without a tag. */
struct tmsim_slot {
	uint64_t wr_id;
	struct ibv_sge sge;
	uint32_t next;		/* free slots, and those that are kept */
};

struct tmsim_srq {
	struct tmsim_node node;
	struct tmsim_srq *next;	/* of the same completion queue */
	struct ibv_srq *srq;
	struct tmsim_ctx *ctx;
	struct tmsim_cq *cq;
	struct tag_list *list;
	struct tag_list_delays delays;
	uint32_t placed;	/* completions of the list that have a place in the ring */
	uint32_t *lkeys;	/* by handle: of the entry's memory */
	struct tmsim_slot *slots;
	uint32_t free_slot;
	uint32_t first_kept, last_kept, kept;	/* slots that are not in the queue below */
};

#define TMSIM_NO_SLOT	UINT32_MAX

struct tmsim_qp {
	struct tmsim_node node;
	struct tmsim_qp *next;	/* of the same completion queue */
	struct ibv_qp *qp;
	uint32_t num;
	bool	gone;		/* 'qp' is destroyed, or is about to be */
	struct tmsim_srq *srq;
	unsigned posted;	/* work requests in the send queue */
	struct tmsim_rndv *first;	/* all rendezvous of the queue pair, oldest first */
};

#define TMSIM_SEND_DEPTH	256

/* ---- tmsim_table.c ---- */

void tmsim_lock(void);
void tmsim_unlock(void);
void tmsim_put(struct tmsim_node *node, enum tmsim_kind kind, const void *key);
void tmsim_drop(struct tmsim_node *node);
/* The layer's object for one of libibverbs, or NULL if the layer has none. */
void *tmsim_find(enum tmsim_kind kind, const void *key);
/* Never NULL: a function that is missing ends the process. */
void *tmsim_real(const char *name);

/* ---- tmsim_open.c ---- */

const struct tmsim_limits *tmsim_limits(void);
/* For a context that tmsim has opened. */
struct tmsim_ctx *tmsim_ctx_of(struct ibv_context *ctx);

/* ---- tmsim_cq.c ---- */

struct ibv_cq_ex *tmsim_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
int tmsim_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc);
int tmsim_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Adds a completion for the next polls. */
void tmsim_cq_add(struct tmsim_cq *cq, const struct tmsim_wc *wc);
/* Takes all that the device has completed so far. */
void tmsim_cq_pump(struct tmsim_cq *cq);
/* Forgets what was not polled of a receive queue that goes. */
void tmsim_cq_forget(struct tmsim_cq *cq, const struct tmsim_srq *srq);

/* ---- tmsim_srq.c ---- */

struct ibv_srq *tmsim_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int tmsim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int tmsim_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
/* Posts the buffer again, as a device leaves one in place that it does not need for the message. */
void tmsim_slot_repost(struct tmsim_srq *srq, uint32_t slot);
void tmsim_slot_free(struct tmsim_srq *srq, uint32_t slot);

/* ---- tmsim_qp.c ---- */

struct ibv_qp *tmsim_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
int tmsim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* The queue pair with a list that the completion belongs to, or NULL. */
struct tmsim_qp *tmsim_qp_of(struct tmsim_cq *cq, uint32_t qp_num);

/* ---- tmsim_match.c ---- */

/* 'srq' has its limits and its completion queue. 0 or an errno. */
int tmsim_list_open(struct tmsim_srq *srq, const struct ibv_tm_cap *cap);
void tmsim_list_close(struct tmsim_srq *srq);
/* Enters one command. 0 or an errno. */
int tmsim_list_post(struct tmsim_srq *srq, struct ibv_ops_wr *wr);
/* One poll more has passed. */
void tmsim_list_step(struct tmsim_srq *srq);
/* All that is delayed happens now. */
void tmsim_list_settle(struct tmsim_srq *srq);
/* A completion of a receive buffer: a message, or an error. */
void tmsim_list_arrive(struct tmsim_qp *qp, const struct ibv_wc *wc);
/* The bytes of a rendezvous are there, or will never be. */
void tmsim_list_data(struct tmsim_qp *qp, uint32_t handle, bool ok);
/* Fills in the completion that has its place in the ring. */
void tmsim_list_take(struct tmsim_srq *srq, struct tmsim_wc *wc);

/* ---- tmsim_rndv.c ---- */

/* Whether a work request is one of the layer. */
bool tmsim_rndv_owns(uint64_t wr_id);
/* Reads the bytes that the headers of a message announce, then sends the headers back as FIN. */
void tmsim_rndv_start(struct tmsim_qp *qp, const struct tag_list_read *what, uint32_t lkey, const void *headers);
void tmsim_rndv_done(struct tmsim_qp *qp, const struct ibv_wc *wc);
/* The queue pair is gone: its rendezvous end without their bytes. */
void tmsim_rndv_end(struct tmsim_qp *qp);

#endif
