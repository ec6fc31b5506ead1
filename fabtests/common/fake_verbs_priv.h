/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * State and functions that the files of the fake devices share; fake_verbs.h
 * says in which order these files call each other.
 *
 * A function named after a verb (fv_create_cq for ibv_create_cq) does what the
 * verb does and takes the mutex; all other functions want the mutex held.
 */
#ifndef FABTESTS_COMMON_FAKE_VERBS_PRIV_H
#define FABTESTS_COMMON_FAKE_VERBS_PRIV_H

#include <pthread.h>

#include "common/fake_verbs.h"
#include "core/compiler.h"
#include "core/list.h"
#include "xport/verbs/verbs_ops.h"

#define MAX_DEVICES	8
#define MAX_SGE		32
#define MAX_EVENTS	64

struct event_queue {
	int	fd;		/* eventfd, readable while not empty */
	unsigned head, tail;
};

struct fake_ctx {
	struct ibv_context base;
	struct tagrv_list node;
	unsigned dev;
	bool	gone;		/* unplugged: every read fails */
	struct event_queue queue;
	struct ibv_async_event events[MAX_EVENTS];
};

struct fake_channel {
	struct ibv_comp_channel base;
	struct tagrv_list node;
	struct event_queue queue;
	struct ibv_cq *cqs[MAX_EVENTS];
};

/* A protection domain; with a thread domain, if 'td' is set, above another one. */
struct fake_pd {
	struct ibv_pd base;
	struct ibv_pd *under;
	struct fake_td *td;
	unsigned users;		/* queue pairs, parent domains */
};

struct fake_td {
	struct ibv_td base;
	unsigned users;
};

struct fake_mr {
	struct ibv_mr base;
	struct tagrv_list node;
	int	access;
	int	pin;		/* its pages, or -1: see fv_pin() */
};

struct fake_srq;

struct cq_entry {
	struct ibv_wc wc;
	uint32_t slot;			/* value for fake_qp.freed once polled */
	struct ibv_wc_tm_info tm;
	struct fake_srq *srq;		/* the rest is the next completion of its list */
};

struct fake_cq {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;	/* begins alike */
	};
	struct tagrv_list node;
	unsigned dev;
	struct cq_entry *ring;
	unsigned cap, head, cnt;
	bool	extended;		/* made by create_cq_ex: poll_cq may not be used */
	bool	has_tm;			/* with IBV_WC_EX_WITH_TM_INFO */
	bool	polling;		/* between start_poll and end_poll */
	struct cq_entry now;		/* the completion that start_poll or next_poll took */
	unsigned users;
	unsigned unacked;
	bool	armed;
};

struct recv_wr {
	uint64_t wr_id;
	struct ibv_sge sge;
};

struct recv_queue {
	struct recv_wr *ring;
	unsigned cap, head, cnt;
};

struct fake_srq {
	struct ibv_srq base;
	struct tagrv_list node;
	unsigned dev;
	struct recv_queue rq;
	unsigned unacked;
	/* fake_verbs_tm.c; list NULL: it has none */
	struct tag_list *list;
	struct ibv_cq *cq;
	uint32_t *lkeys;	/* of the memory of each entry, by handle */
	uint32_t announced;	/* completions of the list that the CQ has an entry for */
};

struct send_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	uint8_t	*inlined;	/* copy of inline data, in the queue pair's memory */
	size_t	len;
	bool	blocked;	/* found no receive buffer */
	uint32_t handle;	/* a read by the device: of the list's entry */
};

struct fake_qp {
	struct ibv_qp base;
	struct tagrv_list node;
	unsigned dev;
	struct ibv_qp_attr attr;
	struct ibv_qp_cap cap;
	struct fake_verbs_bytes bytes;
	uint64_t ops;			/* IBV_QP_EX_WITH_* that it accepts */
	struct fake_pd *domain;		/* base.pd, or the parent domain above it */
	struct send_wr *sq;
	uint8_t	*inline_mem;	/* max_inline_data + 1 bytes for each of sq */
	uint32_t posted, executed, freed;	/* sequence numbers */
	uint32_t reported;	/* the one behind the last that gave a completion */
	unsigned flush_polls;	/* until the requests are flushed; 0: they are, or it is not
				   in error */
	struct recv_queue rq;
	unsigned unacked;
	bool	device_sends;	/* its receives are from a list: nobody posts to it */
};

struct fault {
	unsigned nth;
	int	value;
};

/* All devices and their objects, under one mutex. */
struct fake_verbs_state {
	pthread_mutex_t mutex;
	struct fake_verbs_config config;
	struct ibv_device devs[MAX_DEVICES];
	struct tagrv_list ctxs, mrs, channels, cqs, srqs, qps;
	void	(*on_reg)(const void *addr, size_t len, int access);
	size_t	(*on_tagged)(unsigned from, unsigned to, void *bytes, size_t len);
	struct fake_verbs_counts counts;
	uint32_t next_qpn, next_key;
	uint64_t clock;		/* see config.reg_ns */
	bool	registered;	/* something was, since start */
	bool	held;
	struct fault wr, post, doorbell, reg, create_qp, modify_qp, srq_ops;
};

extern struct fake_verbs_state fv;

#define LOCK()		pthread_mutex_lock(&fv.mutex)
#define UNLOCK()	pthread_mutex_unlock(&fv.mutex)

/* Returns the value of a fault that is due now, otherwise 0. */
static inline int fires(struct fault *fault)
{
	return fault->nth && !--fault->nth ? fault->value : 0;
}

static inline struct send_wr *fv_sq_at(struct fake_qp *qp, uint32_t seq)
{
	return &qp->sq[seq % qp->cap.max_send_wr];
}

/* fake_verbs_size.c: fake_verbs_config.qp_bytes */
struct fake_verbs_bytes fv_bytes_mlx5(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);
struct fake_verbs_bytes fv_bytes_bnxt_re(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);
struct fake_verbs_bytes fv_bytes_irdma(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);
struct fake_verbs_bytes fv_bytes_qedr(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);
struct fake_verbs_bytes fv_bytes_hns(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);
struct fake_verbs_bytes fv_bytes_rxe(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);

/* fake_verbs_pin.c: pages of regions; they are kept until they are unpinned. -1: no region */
bool fv_pins_open(void);
void fv_pins_close(void);
int fv_pin(void *addr, size_t len);
void fv_unpin(int at);
void fv_pins_copy(int to, void *dst, int from, const void *src, size_t len);

/* fake_verbs_dev.c: event queues, devices, memory */
bool fv_queue_open(struct event_queue *queue);
unsigned fv_queue_push(struct event_queue *queue);
int fv_queue_pop(struct event_queue *queue);
bool fv_is_gone(struct ibv_context *ctx);
void fv_raise_event(unsigned dev, const struct ibv_async_event *event);
union ibv_gid fv_make_gid(unsigned dev, unsigned port, int kind);
bool fv_covered(const struct ibv_pd *pd, uint32_t key, bool remote,
		uint64_t addr, uint64_t len, int access);
/* The pages of a region, or -1. */
int fv_pin_of(const struct ibv_pd *pd, uint32_t key, bool remote);
enum ibv_fork_status fv_is_fork_initialized(void);
int fv_fork_init(void);
struct ibv_device **fv_get_device_list(int *cnt);
void fv_free_device_list(struct ibv_device **list);
struct ibv_context *fv_open_device(struct ibv_device *dev);
int fv_close_device(struct ibv_context *base);
int fv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);
int fv_query_port(struct ibv_context *ctx, uint8_t port,
		  struct ibv_port_attr *attr);
ssize_t fv_query_gid_table(struct ibv_context *ctx,
			   struct ibv_gid_entry *entries, size_t max);
void fv_subnets_get(const struct ibv_gid_entry *gids, size_t cnt,
		    struct verbs_subnet *subnets);
void fv_ipoib_get(const union ibv_gid *gid, char iface[IF_NAMESIZE]);
int fv_query_pkey(struct ibv_context *ctx, uint8_t port, int index,
		  __be16 *pkey);
int fv_get_async_event(struct ibv_context *base,
		       struct ibv_async_event *event);
void fv_ack_async_event(struct ibv_async_event *event);
struct ibv_pd *fv_alloc_pd(struct ibv_context *ctx);
int fv_dealloc_pd(struct ibv_pd *pd);
struct ibv_td *fv_alloc_td(struct ibv_context *ctx);
int fv_dealloc_td(struct ibv_td *base);
struct ibv_pd *fv_alloc_parent_domain(struct ibv_pd *pd, struct ibv_td *td);
struct ibv_ah *fv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int fv_destroy_ah(struct ibv_ah *ah);
struct ibv_mr *fv_reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			 int access);
int fv_dereg_mr(struct ibv_mr *base);

/* fake_verbs_cq.c: completion and receive queues */
void fv_push_wc(struct ibv_cq *base, const struct ibv_wc *wc, uint32_t slot);
void fv_push_entry(struct ibv_cq *base, const struct cq_entry *entry);
/* Removes the completions of a queue pair. */
void fv_cq_purge(struct ibv_cq *base, uint32_t qpn);
int fv_rq_push(struct recv_queue *rq, const struct ibv_recv_wr *wr);
struct recv_wr fv_rq_pop(struct recv_queue *rq);
struct ibv_comp_channel *fv_create_comp_channel(struct ibv_context *ctx);
int fv_destroy_comp_channel(struct ibv_comp_channel *base);
struct ibv_cq *fv_create_cq(struct ibv_context *ctx, int cqe,
			    void *cq_context,
			    struct ibv_comp_channel *channel, int vector);
int fv_resize_cq(struct ibv_cq *base, int cqe);
int fv_destroy_cq(struct ibv_cq *base);
int fv_req_notify_cq(struct ibv_cq *base, int solicited_only);
int fv_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq,
		    void **cq_context);
void fv_ack_cq_events(struct ibv_cq *base, unsigned cnt);
struct ibv_srq *fv_create_srq(struct ibv_pd *pd,
			      struct ibv_srq_init_attr *attr);
int fv_destroy_srq(struct ibv_srq *base);

/* fake_verbs_qp.c: queue pairs */
struct fake_qp *fv_find_qp(uint32_t qpn);
void fv_complete(struct fake_qp *qp, enum ibv_wc_status status);
void fv_to_error(struct fake_qp *qp, bool breaks);
/* This queue was polled: queue pairs that were put into error may be flushed. */
void fv_flush_late(const struct ibv_cq *cq);
struct ibv_qp *fv_create_qp(struct ibv_pd *pd,
			    struct ibv_qp_init_attr *attr);
struct ibv_qp *fv_create_qp_ex(struct ibv_context *ctx,
			       struct ibv_qp_init_attr_ex *attr);
int fv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask);
int fv_destroy_qp(struct ibv_qp *base);

/* fake_verbs_wire.c: what moves between queue pairs */
void fv_move(void);

/*
 * fake_verbs_tm.c: lists of tagged receives.
 * blocks: a message has to wait. arrive: true: it needs no receive buffer; its completion is
 * else wc. sent: a request of the device has ended.
 */
int fv_query_device_ex(struct ibv_context *ctx, struct ibv_device_attr_ex *attr);
struct ibv_cq_ex *fv_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
struct ibv_srq *fv_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int fv_post_srq_ops(struct ibv_srq *base, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
void fv_tm_close(struct fake_srq *srq);
bool fv_tm_fits(const struct ibv_qp_init_attr *attr);
void fv_tm_own(struct fake_qp *qp, struct ibv_srq *srq);
bool fv_tm_blocks(const struct fake_qp *qp);
bool fv_tm_matches(const struct fake_qp *qp, const void *bytes, size_t len);
bool fv_tm_arrive(struct fake_qp *qp, const void *bytes, size_t len, const struct ibv_wc *wc);
void fv_tm_sent(struct fake_qp *qp, uint32_t seq, enum ibv_wc_status status);

/* fake_verbs_post.c: posting and polling */
int fv_post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
		 struct ibv_send_wr **bad);
int fv_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad);
int fv_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr,
		 struct ibv_recv_wr **bad);
int fv_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *wc);
/* Moves packets, before completions of the queue are taken. */
void fv_before_poll(struct fake_cq *cq);
/* False: the queue is empty. */
bool fv_take_entry(struct fake_cq *cq, struct cq_entry *entry);

#endif
