/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which atomics there are: fi_atomicvalid and its relatives, and fi_query_atomic.
 */
#include <limits.h>

#include "api/onesided_priv.h"
#include "atomic/atomic.h"
#include "core/log.h"

/*
 * No line in the log: programs ask for all, and do without what is missing. The count is
 * one that they can keep in an int, as OpenSHMEM does, though more elements are possible.
 */
static int valid(const struct tagrv_dom *dom, enum tagrv_atomic_kind kind,
		 enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	if (dom->by_device ? !tagrv_atomic_is_valid_by_device(kind, op, datatype) ||
			     !dom->allocated || !tagrv_dom_has_device_atomics(dom) :
			     !tagrv_atomic_is_valid(kind, op, datatype))
		return -FI_EOPNOTSUPP;
	*count = dom->by_device ? 1 : TAGRV_MIN(TAGRV_MAX_MSG / tagrv_atomic_size(datatype),
						(size_t) INT_MAX);
	return 0;
}

int tagrv_atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype,
			     enum fi_op op, size_t *count)
{
	return valid(tagrv_ep_of(ep)->domain->dom, TAGRV_ATOMIC_BASE, datatype, op, count);
}

int tagrv_atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	return valid(tagrv_ep_of(ep)->domain->dom, TAGRV_ATOMIC_FETCH, datatype, op, count);
}

int tagrv_atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	return valid(tagrv_ep_of(ep)->domain->dom, TAGRV_ATOMIC_COMPARE, datatype, op, count);
}

int tagrv_query_atomic(struct fid_domain *domain, enum fi_datatype datatype,
		       enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
{
	enum tagrv_atomic_kind kind = flags & FI_FETCH_ATOMIC ? TAGRV_ATOMIC_FETCH :
				      flags & FI_COMPARE_ATOMIC ?
				      TAGRV_ATOMIC_COMPARE : TAGRV_ATOMIC_BASE;
	size_t count;
	int ret;

	if (flags & FI_TAGGED)		/* no atomics on tagged receives */
		return -FI_EOPNOTSUPP;
	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return tagrv_refuse(-FI_EBADFLAGS, "fi_query_atomic: flags 0x%llx are "
				    "not supported", (unsigned long long) flags);
	if ((flags & FI_FETCH_ATOMIC) && (flags & FI_COMPARE_ATOMIC))
		return tagrv_refuse(-FI_EINVAL, "fi_query_atomic: an operation "
				    "fetches or compares, not both");
	ret = valid(tagrv_container_of(domain, struct tagrv_domain, domain)->dom, kind,
		    datatype, op, &count);
	if (ret)
		return ret;
	attr->count = count;
	attr->size = tagrv_atomic_size(datatype);
	return 0;
}
