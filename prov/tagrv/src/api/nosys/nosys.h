/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Refusals.
 *
 * Calls that this provider does not support have a function here, so that every
 * slot of every ops table is set and callers need no test for NULL. Each returns
 * -FI_ENOSYS and logs its name at level info only, because some programs call
 * them to find out what a provider supports.
 */
#ifndef TAGRV_API_NOSYS_NOSYS_H
#define TAGRV_API_NOSYS_NOSYS_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "core/compiler.h"

/*
 * For a call whose arguments or whose object's state can never work: warns with
 * the given line (without '\n'), returns err.
 */
int tagrv_refuse(int err, const char *fmt, ...) TAGRV_PRINTF(2, 3) TAGRV_COLD;

/* Logs that the named call is not supported; returns -FI_ENOSYS. */
int tagrv_nosys(const char *call);

/* Tables for endpoints that lack the capability. */
extern struct fi_ops_msg tagrv_nosys_msg;
extern struct fi_ops_tagged tagrv_nosys_tagged;
extern struct fi_ops_rma tagrv_nosys_rma;
extern struct fi_ops_atomic tagrv_nosys_atomic;
extern struct fi_ops_collective tagrv_nosys_collective;
/* For objects without address and connections. */
extern struct fi_ops_cm tagrv_nosys_cm;

/* struct fi_ops */
int tagrv_nosys_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int tagrv_nosys_control(struct fid *fid, int command, void *arg);
int tagrv_nosys_ops_open(struct fid *fid, const char *name, uint64_t flags,
			 void **ops, void *context);
int tagrv_nosys_tostr(const struct fid *fid, char *buf, size_t len);
int tagrv_nosys_ops_set(struct fid *fid, const char *name, uint64_t flags,
			void *ops, void *context);

/* struct fi_ops_fabric */
int tagrv_nosys_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
			   struct fid_pep **pep, void *context);
int tagrv_nosys_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			  struct fid_wait **waitset);
int tagrv_nosys_domain2(struct fid_fabric *fabric, struct fi_info *info,
			struct fid_domain **dom, uint64_t flags, void *context);

/* struct fi_ops_domain */
int tagrv_nosys_scalable_ep(struct fid_domain *domain, struct fi_info *info,
			    struct fid_ep **sep, void *context);
int tagrv_nosys_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
			  struct fid_poll **pollset);
int tagrv_nosys_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr,
			struct fid_stx **stx, void *context);
int tagrv_nosys_query_collective(struct fid_domain *domain,
				 enum fi_collective_op coll,
				 struct fi_collective_attr *attr,
				 uint64_t flags);
int tagrv_nosys_endpoint2(struct fid_domain *domain, struct fi_info *info,
			  struct fid_ep **ep, uint64_t flags, void *context);

/* struct fi_ops_av */
int tagrv_nosys_av_set(struct fid_av *av, struct fi_av_set_attr *attr,
		       struct fid_av_set **av_set, void *context);

/* struct fi_ops_ep */
int tagrv_nosys_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
		       struct fid_ep **tx_ep, void *context);
int tagrv_nosys_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
		       struct fid_ep **rx_ep, void *context);
ssize_t tagrv_nosys_size_left(struct fid_ep *ep);

/* struct fi_ops_cm */
int tagrv_nosys_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int tagrv_nosys_connect(struct fid_ep *ep, const void *addr, const void *param,
			size_t paramlen);
int tagrv_nosys_listen(struct fid_pep *pep);
int tagrv_nosys_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int tagrv_nosys_reject(struct fid_pep *pep, fid_t handle, const void *param,
		       size_t paramlen);
int tagrv_nosys_shutdown(struct fid_ep *ep, uint64_t flags);
int tagrv_nosys_join(struct fid_ep *ep, const void *addr, uint64_t flags,
		     struct fid_mc **mc, void *context);

#endif
