/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint with all objects that it needs, opened from a few attributes, and
 * the addresses of the same endpoint in the other ranks.
 */
#ifndef FUNCTIONAL_FIXTURE_H
#define FUNCTIONAL_FIXTURE_H

#include "runner.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum { FX_NAME_MAX = 128 };

enum fx_side { FX_TX, FX_RX };

/* Counters of one-sided operations: own ones, and those of peers. */
enum fx_onesided { FX_READ, FX_WRITE, FX_REMOTE_READ, FX_REMOTE_WRITE, FX_ONESIDED };

/* All zero gives a usable endpoint: tagged CQ format, FI_MSG | FI_TAGGED, separate CQs. */
struct fx_attr {
	uint64_t caps;		/* 0: FI_MSG | FI_TAGGED */
	uint64_t order;		/* msg_order of both directions; 0: FI_ORDER_SAS */
	int mr_mode;		/* what this side can do for registration (window.h) */
	int mr_insist;		/* of these, the domain is opened with, asked for or not */
	uint64_t tx_flags;	/* default operation flags */
	uint64_t rx_flags;
	uint64_t tx_bind;	/* FI_SELECTIVE_COMPLETION or 0 */
	uint64_t rx_bind;
	enum fi_cq_format format;	/* FI_CQ_FORMAT_UNSPEC: tagged */
	enum fi_wait_obj cq_wait;	/* 0: FI_WAIT_NONE */
	size_t cq_size;
	size_t rx_size;		/* receives that may be posted at once; 0: the provider's choice */
	enum fi_av_type av_type;
	enum fi_threading threading;	/* 0: FI_THREAD_DOMAIN */
	enum fi_progress progress;	/* 0: manual */
	const char *service;
	size_t min_multi_recv;
	bool counters;		/* bind a send and a receive counter */
	bool onesided_counters;	/* bind those of enum fx_onesided */
	bool one_cq;		/* both directions on one CQ */
	bool stranger;		/* exchange names, but insert none into the AV */
	bool disabled;		/* stop before fi_enable */
	bool srx;		/* shared receive context: share's, with its AV, or a new one */
	bool srx_queue;		/* open one more CQ for entries of the context itself */
	const struct fx *share;	/* use the fabric and domain of this fixture */
};

struct fx {
	struct test *t;
	struct fx_attr attr;
	struct fi_info *info;
	uint64_t tag_bits;	/* that mem_tag_format has: others are lost */
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq[2];	/* indexed by fx_side; equal with one_cq */
	struct fid_cntr *cntr[2];
	struct fid_cntr *onesided[FX_ONESIDED];
	struct fid_ep *ep;
	struct fid_ep *srx;	/* shared receive context or NULL */
	struct fid_cq *srx_cq;
	size_t namelen;
	uint8_t name[RUN_RANKS_MAX][FX_NAME_MAX];
	fi_addr_t addr[RUN_RANKS_MAX];
	fi_addr_t peer;		/* the other rank of two; with --self the own rank */
	_Atomic unsigned looked;	/* run_shared.looks when fx_look() asked the provider */
	_Atomic uint64_t seen;	/* sum of the provider's statistics then */
};

/* Returns the hints that fx_open() uses; the caller frees them. */
struct fi_info *fx_hints(const struct test *t, const struct fx_attr *attr);

/* fi_getinfo for these attributes: 0 and a list to free, or a negative fabric error. */
int fx_try_info(const struct test *t, const struct fx_attr *attr, struct fi_info **info);

/* Collective over all living ranks unless attr->disabled. Any error fails the case. */
void fx_open(struct test *t, struct fx *fx, const struct fx_attr *attr);

/* FI_TAGRV_HW_TAGS: devices may match tagged messages; tags have 48 bits, and none share packets. */
bool fx_devices_match(void);
/* As fx_open(), but the case is skipped when fi_getinfo offers nothing like it. */
void fx_open_or_skip(struct test *t, struct fx *fx, const struct fx_attr *attr, const char *what);

/* Collective: waits for the other ranks, fails the case if a completion is left, closes. */
void fx_close(struct fx *fx);

/* Closes at once, without the other ranks; completions may be left. */
void fx_close_now(struct fx *fx);

/* Parts of fx_open(), for cases that open step by step. */
void fx_open_domain(struct test *t, struct fx *fx, const struct fx_attr *attr);
void fx_open_endpoint(struct fx *fx);
void fx_bind_all(struct fx *fx);
void fx_exchange_names(struct fx *fx);
void fx_insert(struct fx *fx, int rank);

/* The endpoint or shared context that receives are posted to. */
static inline struct fid_ep *fx_rx_ep(const struct fx *fx)
{
	return fx->srx ? fx->srx : fx->ep;
}

/*
 * Publishes the provider's statistics of this endpoint for the report, once after
 * each look of the runner; when they changed, that is a move. May be called
 * whenever fi_cq_read may.
 */
void fx_look(struct fx *fx);

/* CHECK_MOVES() for loops that wait for something of this endpoint. */
#define FX_CHECK_MOVES(fx, ...)                                                                    \
	do {                                                                                       \
		fx_look(fx);                                                                       \
		CHECK_MOVES(__VA_ARGS__);                                                          \
	} while (0)

/* Makes progress without consuming completions. */
void fx_progress(struct fx *fx);

/* Makes progress for ms milliseconds; completions stay in the CQs. */
void fx_idle(struct fx *fx, int ms);

/* Waits for the other ranks and makes progress meanwhile. */
void fx_barrier(struct fx *fx);

/* run_exchange() with progress meanwhile. */
void fx_exchange(struct fx *fx, const void *mine, size_t len, struct run_gathered *all);

/* Whether addresses are struct sockaddr_in. */
bool fx_is_inet(const struct fx *fx);

#endif
