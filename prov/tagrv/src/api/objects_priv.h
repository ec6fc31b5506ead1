/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The structs behind the fids, and who holds whom:
 *
 *   fabric <-- domain <-- mr, av, cq, cntr
 *     ^          ^              ^
 *     |          |--- srx ------|    (once bound)
 *     |          |     ^        |
 *     '-- eq     '---- ep ------'    (and the eq, once bound)
 *
 * Each arrow is one count in 'refs' of the object it points to; an object that
 * is still referred to answers fi_close with -FI_EBUSY.
 */
#ifndef TAGRV_API_OBJECTS_PRIV_H
#define TAGRV_API_OBJECTS_PRIV_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/wait_priv.h"
#include "core/addr.h"
#include "core/compiler.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/avtab.h"
#include "object/comp.h"
#include "object/dom.h"

/* Operation flags an endpoint can have by default, and single calls can give. */
#define TAGRV_LEVEL_FLAGS (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | \
			   FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define TAGRV_TX_OP_FLAGS (FI_COMPLETION | FI_INJECT | TAGRV_LEVEL_FLAGS)
#define TAGRV_RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV)

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
	char	name[TAGRV_DEVNAME_MAX];
};

struct tagrv_mr {
	struct fid_mr mr;
	struct tagrv_domain *domain;
	struct tagrv_mem *mem;		/* NULL: nothing had to be registered */
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
	bool	has_threshold;		/* FI_CQ_COND_THRESHOLD */
	unsigned int reads;		/* since the last progress */
	atomic_bool signaled;		/* by fi_cq_signal, until somebody saw it */
	struct tagrv_addr err_data;	/* what fi_cq_readerr gave out last */
	struct tagrv_wait wait;
};

struct tagrv_cntr {
	struct fid_cntr cntr;
	struct tagrv_domain *domain;
	struct tagrv_dom *dom;
	tagrv_refs refs;
	struct tagrv_counter counter;
	uint64_t seen, seen_err;	/* what the application was told last */
	struct tagrv_wait wait;
};

/*
 * An endpoint, an alias of one, or a shared receive context. An alias shares
 * everything but its default flags with 'base'; the base of others is itself. A
 * shared context has an rx and no engine, an endpoint that uses it the reverse.
 */
struct tagrv_ep {
	struct fid_ep ep;
	/* constant once enabled, all that sends and receives look at */
	struct tagrv_dom *dom;
	struct tagrv_engine *engine;	/* NULL: not enabled, nothing is sent */
	struct tagrv_rx *rx;		/* NULL: nothing is received by calls */
	uint64_t tx_flags, rx_flags;	/* of calls that carry none */
	uint64_t inject_flags;		/* of the inject calls */
	uint64_t tx_force, rx_force;	/* FI_COMPLETION unless selective */
	/* the rest is for set-up */
	struct tagrv_ep *base;
	struct tagrv_domain *domain;
	struct tagrv_av *av;
	struct tagrv_cq *tx_cq, *rx_cq;
	struct tagrv_cntr *tx_cntr, *rx_cntr;
	struct tagrv_eq *eq;
	struct tagrv_ep *srx;		/* shared context, if it shares_rx */
	bool	shares_rx;
	tagrv_refs refs;		/* aliases; of an srx: endpoints */
	uint64_t caps;
	uint64_t rx_caps;		/* those that its receives have */
	uint64_t tx_op_flags, rx_op_flags;
	size_t	min_multi_recv;
	struct tagrv_addr src;
};

struct tagrv_event {
	struct tagrv_event *next;
	uint32_t type;
	size_t	len;
	unsigned char data[];
};

/* Belongs to the fabric, so it has a lock of its own. */
struct tagrv_eq {
	struct fid_eq eq;
	struct tagrv_fabric *fabric;
	tagrv_refs refs;
	pthread_mutex_t lock;
	struct tagrv_event *first, *last;
	size_t	cnt, max;
	bool	writable;		/* FI_WRITE was asked for */
	int	fd;			/* readable while events wait, or -1 */
};

/* One per object type; the inline functions below rely on the member order. */
int tagrv_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		      void *context);
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

/* Is this fid one of ours, of the right class? For fids found in hints. */
bool tagrv_fabric_is_ours(const struct fid_fabric *fabric);
bool tagrv_domain_is_ours(const struct fid_domain *domain);

/* 0: sleeping is safe until the object's descriptor is readable. */
int tagrv_cq_trywait(struct tagrv_cq *cq);
int tagrv_cntr_trywait(struct tagrv_cntr *cntr);
int tagrv_eq_trywait(struct tagrv_eq *eq);

/* ep.c and ep_opt.c */
void tagrv_ep_resolve_flags(struct tagrv_ep *ep);
int tagrv_ep_control(struct fid *fid, int command, void *arg);
int tagrv_ep_enable(struct tagrv_ep *ep);
/* The calls of an endpoint or shared context, by its caps. */
void tagrv_ep_init_fid(struct tagrv_ep *ep, size_t fclass, struct fi_ops *ops,
		       struct fi_ops_cm *cm, void *context);
int tagrv_ep_alias(struct tagrv_ep *ep, const struct fi_alias *alias);
/* srx.c: binds the context to an endpoint that is not enabled yet. */
int tagrv_srx_share(struct tagrv_ep *ep, struct tagrv_ep *srx, uint64_t flags);
/* ep_ext.c: fi_open_ops, see rdma/fi_ext_tagrv.h. */
int tagrv_ep_ops_open(struct fid *fid, const char *name, uint64_t flags,
		      void **ops, void *context);

extern struct fi_ops tagrv_ep_fid_ops;
extern struct fi_ops_ep tagrv_ep_ops;
extern struct fi_ops_cm tagrv_ep_cm_ops;
extern struct fi_ops_msg tagrv_msg_ops;
extern struct fi_ops_tagged tagrv_tagged_ops;
extern struct fi_ops_mr tagrv_mr_ops;

static inline void tagrv_ref_get(tagrv_refs *refs)
{
	atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

static inline void tagrv_ref_put(tagrv_refs *refs)
{
	atomic_fetch_sub_explicit(refs, 1, memory_order_release);
}

/* 0, or -FI_EBUSY with a log line that says what is still open. */
int tagrv_ref_check(tagrv_refs *refs, const char *object, const char *users);
/* One log line for a call that can never work; returns the error. */
int tagrv_refuse(int err, const char *fmt, ...) TAGRV_PRINTF(2, 3) TAGRV_COLD;
/* What fi_cq_strerror and fi_eq_strerror answer; also copied to buf, if any. */
const char *tagrv_strerror(int prov_errno, char *buf, size_t len);

#endif
