/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Refusals, and calls of objects that are not supported. nosys_ops.c has those
 * of transfers.
 */
#include "api/nosys/nosys.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/log.h"

#define UNUSED __attribute__((unused))

int tagrv_refuse(int err, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	tagrv_warn("%s\n", text);
	return err;
}

int tagrv_nosys(const char *call)
{
	tagrv_info("%s: not offered by this provider, or not by this object "
		   "as it was opened (fi_tagrv(7) lists supported features)\n",
		   call);
	return -FI_ENOSYS;
}

int tagrv_nosys_bind(UNUSED struct fid *fid, UNUSED struct fid *bfid,
		     UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_bind");
}

int tagrv_nosys_control(UNUSED struct fid *fid, UNUSED int command,
			UNUSED void *arg)
{
	return tagrv_nosys("fi_control");
}

int tagrv_nosys_ops_open(UNUSED struct fid *fid, UNUSED const char *name,
			 UNUSED uint64_t flags, UNUSED void **ops,
			 UNUSED void *context)
{
	return tagrv_nosys("fi_open_ops");
}

int tagrv_nosys_tostr(UNUSED const struct fid *fid, UNUSED char *buf,
		      UNUSED size_t len)
{
	return tagrv_nosys("fi_tostr");
}

int tagrv_nosys_ops_set(UNUSED struct fid *fid, UNUSED const char *name,
			UNUSED uint64_t flags, UNUSED void *ops,
			UNUSED void *context)
{
	return tagrv_nosys("fi_set_ops");
}

int tagrv_nosys_passive_ep(UNUSED struct fid_fabric *fabric,
			   UNUSED struct fi_info *info,
			   UNUSED struct fid_pep **pep, UNUSED void *context)
{
	return tagrv_nosys("fi_passive_ep");
}

int tagrv_nosys_wait_open(UNUSED struct fid_fabric *fabric,
			  UNUSED struct fi_wait_attr *attr,
			  UNUSED struct fid_wait **waitset)
{
	return tagrv_nosys("fi_wait_open");
}

int tagrv_nosys_domain2(UNUSED struct fid_fabric *fabric,
			UNUSED struct fi_info *info,
			UNUSED struct fid_domain **dom, UNUSED uint64_t flags,
			UNUSED void *context)
{
	return tagrv_nosys("fi_domain2");
}

int tagrv_nosys_scalable_ep(UNUSED struct fid_domain *domain,
			    UNUSED struct fi_info *info,
			    UNUSED struct fid_ep **sep, UNUSED void *context)
{
	return tagrv_nosys("fi_scalable_ep");
}

int tagrv_nosys_poll_open(UNUSED struct fid_domain *domain,
			  UNUSED struct fi_poll_attr *attr,
			  UNUSED struct fid_poll **pollset)
{
	return tagrv_nosys("fi_poll_open");
}

int tagrv_nosys_stx_ctx(UNUSED struct fid_domain *domain,
			UNUSED struct fi_tx_attr *attr,
			UNUSED struct fid_stx **stx, UNUSED void *context)
{
	return tagrv_nosys("fi_stx_context");
}

int tagrv_nosys_query_collective(UNUSED struct fid_domain *domain,
				 UNUSED enum fi_collective_op coll,
				 UNUSED struct fi_collective_attr *attr,
				 UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_query_collective");
}

int tagrv_nosys_endpoint2(UNUSED struct fid_domain *domain,
			  UNUSED struct fi_info *info,
			  UNUSED struct fid_ep **ep, UNUSED uint64_t flags,
			  UNUSED void *context)
{
	return tagrv_nosys("fi_endpoint2");
}

int tagrv_nosys_av_set(UNUSED struct fid_av *av,
		       UNUSED struct fi_av_set_attr *attr,
		       UNUSED struct fid_av_set **av_set, UNUSED void *context)
{
	return tagrv_nosys("fi_av_set");
}

int tagrv_nosys_tx_ctx(UNUSED struct fid_ep *sep, UNUSED int index,
		       UNUSED struct fi_tx_attr *attr,
		       UNUSED struct fid_ep **tx_ep, UNUSED void *context)
{
	return tagrv_nosys("fi_tx_context");
}

int tagrv_nosys_rx_ctx(UNUSED struct fid_ep *sep, UNUSED int index,
		       UNUSED struct fi_rx_attr *attr,
		       UNUSED struct fid_ep **rx_ep, UNUSED void *context)
{
	return tagrv_nosys("fi_rx_context");
}

ssize_t tagrv_nosys_size_left(UNUSED struct fid_ep *ep)
{
	return tagrv_nosys("fi_rx_size_left, fi_tx_size_left");
}

int tagrv_nosys_getpeer(UNUSED struct fid_ep *ep, UNUSED void *addr,
			UNUSED size_t *addrlen)
{
	return tagrv_nosys("fi_getpeer");
}

int tagrv_nosys_connect(UNUSED struct fid_ep *ep, UNUSED const void *addr,
			UNUSED const void *param, UNUSED size_t paramlen)
{
	return tagrv_nosys("fi_connect");
}

int tagrv_nosys_listen(UNUSED struct fid_pep *pep)
{
	return tagrv_nosys("fi_listen");
}

int tagrv_nosys_accept(UNUSED struct fid_ep *ep, UNUSED const void *param,
		       UNUSED size_t paramlen)
{
	return tagrv_nosys("fi_accept");
}

int tagrv_nosys_reject(UNUSED struct fid_pep *pep, UNUSED fid_t handle,
		       UNUSED const void *param, UNUSED size_t paramlen)
{
	return tagrv_nosys("fi_reject");
}

int tagrv_nosys_shutdown(UNUSED struct fid_ep *ep, UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_shutdown");
}

int tagrv_nosys_join(UNUSED struct fid_ep *ep, UNUSED const void *addr,
		     UNUSED uint64_t flags, UNUSED struct fid_mc **mc,
		     UNUSED void *context)
{
	return tagrv_nosys("fi_join");
}

static int setname(UNUSED struct fid *fid, UNUSED void *addr,
		   UNUSED size_t addrlen)
{
	return tagrv_nosys("fi_setname");
}

static int getname(UNUSED struct fid *fid, UNUSED void *addr,
		   UNUSED size_t *addrlen)
{
	return tagrv_nosys("fi_getname");
}

struct fi_ops_cm tagrv_nosys_cm = {
	.size = sizeof(struct fi_ops_cm),
	.setname = setname,
	.getname = getname,
	.getpeer = tagrv_nosys_getpeer,
	.connect = tagrv_nosys_connect,
	.listen = tagrv_nosys_listen,
	.accept = tagrv_nosys_accept,
	.reject = tagrv_nosys_reject,
	.shutdown = tagrv_nosys_shutdown,
	.join = tagrv_nosys_join,
};
