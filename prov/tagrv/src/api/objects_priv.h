/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The structs behind the fids, and which object holds which:
 *
 *   fabric <-- domain <-- mr, av, cq, cntr
 *     ^          ^              ^
 *     |          |--- srx ------|    (an srx holds what was bound to it)
 *     |          |     ^        |
 *     '-- eq     '---- ep ------|    (an ep holds what was bound to it, eq too)
 *                       ^       |
 *                       '-- mr -'    (an mr holds what was bound to it)
 *
 * Each arrow is one count in 'refs' of the object that it points to. fi_close of
 * an object with a count returns -FI_EBUSY.
 */
#ifndef TAGRV_API_OBJECTS_PRIV_H
#define TAGRV_API_OBJECTS_PRIV_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/nosys/nosys.h"
#include "api/wait_priv.h"
#include "auth/auth_key.h"
#include "core/addr.h"
#include "core/compiler.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/avtab.h"
#include "object/comp.h"
#include "object/dom.h"

typedef _Atomic unsigned int tagrv_refs;

struct tagrv_fabric {
	struct fid_fabric fabric;
	tagrv_refs refs;
};

struct tagrv_domain {
	struct fid_domain domain;
	struct tagrv_fabric *fabric;
	struct tagrv_dom *dom;
	tagrv_refs refs;
	uint32_t api_version;
	uint32_t addr_format;		/* FI_SOCKADDR, _IN or _IN6 */
	int	mr_mode;		/* without the old modes, which stand for others */
	char	name[TAGRV_DEVNAME_MAX];
	struct tagrv_auth_key key;	/* of endpoints that have none of their own */
};

struct tagrv_mr {
	struct fid_mr mr;
	struct tagrv_domain *domain;
	struct tagrv_mem *mem;		/* NULL: nothing was registered */
	struct tagrv_window window;	/* in the domain's table if it has an 'access' */
	bool	must_enable;		/* peers wait for fi_mr_enable */
	bool	enabled;		/* it was called */
	struct tagrv_ep *ep;		/* peers come through this one; NULL: any */
	struct tagrv_list ep_node;	/* ep->regions */
	struct tagrv_cntr *read_cntr, *write_cntr;	/* or NULL */
};

struct tagrv_av {
	struct fid_av av;
	struct tagrv_domain *domain;
	tagrv_refs refs;
	struct tagrv_avtab tab;
};

struct tagrv_cq {
	struct fid_cq cq;
	struct tagrv_domain *domain;
	struct tagrv_dom *dom;
	tagrv_refs refs;
	struct tagrv_compq queue;
	size_t	entry_size;		/* of the format chosen at open */
	bool	direct;			/* reads may call tagrv_dom_take() */
	size_t	window_mask;	/* of the entries of a read that are written at once */
	bool	has_threshold;		/* FI_CQ_COND_THRESHOLD */
	unsigned int reads;		/* since the last progress */
	atomic_bool signaled;		/* by fi_cq_signal; a waiter clears it */
	struct tagrv_addr err_data;	/* fi_cq_readerr gives pointers to it */
	struct tagrv_wait wait;
};

struct tagrv_cntr {
	struct fid_cntr cntr;
	struct tagrv_domain *domain;
	struct tagrv_dom *dom;
	tagrv_refs refs;
	struct tagrv_counter counter;
	uint64_t seen, seen_err;	/* values the application read last */
	struct tagrv_wait wait;
};

/*
 * An endpoint, an alias of one, or a shared receive context.
 *
 * An alias is a copy of the endpoint 'base' with default flags of its own; 'base'
 * of an endpoint or shared context points to itself. A shared context has an rx
 * and no engine; an endpoint that uses one has an engine and no rx.
 */
struct tagrv_ep {
	struct fid_ep ep;
	/* read by sends and receives; constant once the endpoint is enabled */
	struct tagrv_dom *dom;
	struct tagrv_engine *engine;	/* NULL: not enabled, or an srx */
	struct tagrv_rx *rx;		/* NULL: not enabled, or uses an srx */
	/* For the short ways, else NULL: 'engine', if nothing is awaited for sends or
	 * for injects, and no counter counts them; 'rx'. */
	struct tagrv_engine *plain_send, *plain_inject;
	struct tagrv_rx *plain_rx;
	/* For one-sided operations: 'engine', if caps have FI_READ, FI_WRITE. */
	struct tagrv_engine *reader, *writer;
	struct tagrv_engine *plain_writer;	/* for the short way: writer, or NULL */
	uint64_t tx_flags, rx_flags;	/* for calls without a flags argument */
	uint64_t inject_flags;		/* for the inject calls */
	uint64_t rma_flags, rma_inject_flags;	/* the same for writes and atomics */
	uint64_t fetch_flags;		/* the same for atomics that fetch */
	uint64_t tx_force, rx_force;	/* FI_COMPLETION unless selective */
	/* set-up only */
	struct tagrv_ep *base;
	struct tagrv_domain *domain;
	struct tagrv_av *av;
	struct tagrv_cq *tx_cq, *rx_cq;
	struct tagrv_cntr *tx_cntr, *rx_cntr;
	struct tagrv_cntr *read_cntr, *write_cntr, *remote_read_cntr,
			  *remote_write_cntr;
	struct tagrv_eq *eq;
	struct tagrv_ep *srx;		/* the shared context bound, or NULL */
	bool	shares_rx;		/* rx_ctx_cnt is FI_SHARED_CONTEXT */
	tagrv_refs refs;		/* by aliases, regions; on an srx, by endpoints */
	struct tagrv_list regions;	/* of 'base': struct tagrv_mr::ep_node */
	uint64_t caps;
	uint64_t rx_caps;		/* those of caps that rx_attr has */
	uint64_t tx_op_flags, rx_op_flags;	/* as asked for */
	uint64_t msg_order;		/* of tx_attr, as asked for */
	size_t	min_multi_recv;
	struct tagrv_addr src;
	/* The domain's, or the endpoint's own, allocated; no alias uses it. */
	struct tagrv_auth_key *key;
};

struct tagrv_event {
	struct tagrv_event *next;
	uint32_t type;
	size_t	len;
	unsigned char data[];
};

/* Not under the domain lock, because it belongs to the fabric. */
struct tagrv_eq {
	struct fid_eq eq;
	struct tagrv_fabric *fabric;
	tagrv_refs refs;
	pthread_mutex_t lock;
	struct tagrv_event *first, *last;
	size_t	cnt, max;
	bool	writable;		/* FI_WRITE was asked for */
	int	fd;			/* readable while events wait; or -1 */
};

/*
 * Makes a key of what an application gives as auth_key. 0, or -FI_EINVAL after a log
 * line that names the call.
 */
int tagrv_key_take(struct tagrv_auth_key *key, const uint8_t *bytes, size_t len,
		   const char *call) TAGRV_WARN_UNUSED;

/* The calls behind fi_getinfo and fi_fabric. */
int tagrv_getinfo(uint32_t version, const char *node, const char *service,
		  uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info);
int tagrv_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		      void *context);

/*
 * One constructor per object type, for ops tables. 0 and the object, which
 * fi_close() frees; -FI_ENOMEM, or the error of an argument.
 */
int tagrv_domain_open(struct fid_fabric *fabric, struct fi_info *info,
		      struct fid_domain **domain, void *context);
int tagrv_av_open(struct fid_domain *domain, struct fi_av_attr *attr,
		  struct fid_av **av, void *context);
int tagrv_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		  struct fid_cq **cq, void *context);
int tagrv_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
		    struct fid_cntr **cntr, void *context);
int tagrv_ep_open(struct fid_domain *domain, struct fi_info *info,
		  struct fid_ep **ep, void *context);
int tagrv_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr,
		   struct fid_ep **srx, void *context);
int tagrv_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
		  struct fid_eq **eq, void *context);

/* Hints may name an object of another provider, which is not in our structs. */
bool tagrv_fabric_is_ours(const struct fid_fabric *fabric);
bool tagrv_domain_is_ours(const struct fid_domain *domain);

/*
 * fi_trywait of one object. 0: the caller may sleep until the object's descriptor
 * is readable; -FI_EAGAIN: read the object first; -FI_EINVAL: no descriptor.
 */
int tagrv_cq_trywait(struct tagrv_cq *cq);

#define TAGRV_CQ_NO_WAIT \
	"%s: the completion queue was opened with FI_WAIT_NONE"

/* Whether fi_cq_signal was called since a waiter asked last. Any thread. */
static inline bool tagrv_cq_take_signal(struct tagrv_cq *cq)
{
	return atomic_load_explicit(&cq->signaled, memory_order_relaxed) &&
	       atomic_exchange(&cq->signaled, false);
}

/* cq_read.c; of struct fi_ops_cq, see fi_cq(3). */
ssize_t tagrv_cq_read(struct fid_cq *cq, void *buf, size_t count);
ssize_t tagrv_cq_readfrom(struct fid_cq *cq, void *buf, size_t count,
			  fi_addr_t *src_addr);
ssize_t tagrv_cq_sread(struct fid_cq *cq, void *buf, size_t count,
		       const void *cond, int timeout);
ssize_t tagrv_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count,
			   fi_addr_t *src_addr, const void *cond, int timeout);
int tagrv_cntr_trywait(struct tagrv_cntr *cntr);
int tagrv_eq_trywait(struct tagrv_eq *eq);

/* fi_query_atomic */
int tagrv_query_atomic(struct fid_domain *domain, enum fi_datatype datatype,
		       enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags);

/*
 * Computes the flags of calls without a flags argument, and which calls may take which
 * way, from op flags, capabilities and bindings.
 */
void tagrv_ep_resolve_flags(struct tagrv_ep *ep);
/* fi_control of an endpoint. */
int tagrv_ep_control(struct fid *fid, int command, void *arg);
/* fi_enable: opens the engine with the objects that were bound. */
int tagrv_ep_enable(struct tagrv_ep *ep);
/* Sets class, context and ops tables; transfers that caps lack are refused. */
void tagrv_ep_init_fid(struct tagrv_ep *ep, size_t fclass, struct fi_ops *ops,
		       struct fi_ops_cm *cm, void *context);

/* Access to a region that makes a window of it. */
#define TAGRV_MR_REMOTE_ACCESS	(FI_REMOTE_READ | FI_REMOTE_WRITE)

/* mr_bind.c; fi_mr_bind and fi_control of a region. */
int tagrv_mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int tagrv_mr_control(struct fid *fid, int command, void *arg);
/* Makes the window agree with what is bound to the region. The domain lock is held, unless
 * the window is not in the table yet. */
void tagrv_mr_update_window(struct tagrv_mr *mr);
/* Gives back the references to what is bound. The domain lock is held. */
void tagrv_mr_put_bindings(struct tagrv_mr *mr);
/* Opens the regions that were bound to the endpoint, because it is enabled now. */
void tagrv_mr_ep_enabled(struct tagrv_ep *ep);

/* Binds the shared context srx to an endpoint that is not enabled yet. */
int tagrv_srx_share(struct tagrv_ep *ep, struct tagrv_ep *srx, uint64_t flags);
/* fi_open_ops of an endpoint or shared context: see rdma/fi_ext_tagrv.h. */
int tagrv_ep_ops_open(struct fid *fid, const char *name, uint64_t flags,
		      void **ops, void *context);

extern struct fi_ops_ep tagrv_ep_ops;
extern struct fi_ops_cm tagrv_ep_cm_ops;
extern struct fi_ops_msg tagrv_msg_ops;
extern struct fi_ops_tagged tagrv_tagged_ops, tagrv_tagged_locked_ops;
extern struct fi_ops_rma tagrv_rma_ops;
extern struct fi_ops_atomic tagrv_atomic_ops;
extern struct fi_ops_mr tagrv_mr_ops;

static inline void tagrv_ref_get(tagrv_refs *refs)
{
	atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

static inline void tagrv_ref_put(tagrv_refs *refs)
{
	atomic_fetch_sub_explicit(refs, 1, memory_order_release);
}

/* 0, or -FI_EBUSY and a warning that names the objects to close first. */
int tagrv_ref_check(tagrv_refs *refs, const char *object, const char *users);
/* fi_cq_strerror, fi_eq_strerror: returns the text; copies it to buf, if any. */
const char *tagrv_strerror(int prov_errno, char *buf, size_t len);

#endif
