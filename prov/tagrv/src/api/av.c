/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_av: address vectors, on top of struct tagrv_avtab.
 *
 * An insert never connects, and never blocks unless it resolves names, so there
 * is no asynchronous mode. FI_AV_MAP and FI_AV_TABLE behave alike: an fi_addr_t
 * is the number of a row.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/av_priv.h"
#include "api/objects_priv.h"
#include "core/log.h"

#define AV_FLAGS	(FI_SYMMETRIC | FI_UNIVERSE | FI_READ | FI_EVENT)

static struct tagrv_av *av_of(struct fid_av *av)
{
	return tagrv_container_of(av, struct tagrv_av, av);
}

/* Size of the address at addr, one of the application's packed array. */
static size_t stride(const struct tagrv_av *av, const void *addr)
{
	sa_family_t family;

	switch (av->domain->addr_format) {
	case FI_SOCKADDR_IN:
		return sizeof(struct sockaddr_in);
	case FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	default:
		memcpy(&family, addr, sizeof(family));
		return family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					    sizeof(struct sockaddr_in);
	}
}

static bool format_fits(const struct tagrv_av *av, const struct tagrv_addr *addr)
{
	switch (av->domain->addr_format) {
	case FI_SOCKADDR_IN:
		return addr->sa.sa_family == AF_INET;
	case FI_SOCKADDR_IN6:
		return addr->sa.sa_family == AF_INET6;
	default:
		return true;
	}
}

/* Copies the address. -FI_EINVAL: no peer can be reached at it. */
static int parse(const struct tagrv_av *av, const void *raw, size_t len,
		 struct tagrv_addr *addr)
{
	int ret;

	ret = tagrv_addr_from(addr, raw, len);
	if (ret)
		return ret;
	if (!format_fits(av, addr) || tagrv_addr_is_any(addr) ||
	    !tagrv_addr_port(addr))
		return -FI_EINVAL;
	return 0;
}

static void log_refused(const struct tagrv_addr *addr, int err)
{
	char text[TAGRV_ADDR_STRLEN];

	tagrv_info("fi_av_insert: %s refused: %s\n",
		   tagrv_addr_str(addr, text, sizeof(text)), fi_strerror(err));
}

/* Domain lock held. 0 or a positive FI_E* code, as FI_SYNC_ERR reports it. */
static int insert_one(struct tagrv_av *av, const void *raw, size_t len,
		      fi_addr_t *fi_addr)
{
	struct tagrv_addr addr = { 0 };
	fi_addr_t row;
	int ret;

	ret = parse(av, raw, len, &addr);
	if (!ret)
		ret = tagrv_avtab_insert(&av->tab, &addr, &row);
	if (ret)
		log_refused(&addr, -ret);
	if (fi_addr)
		*fi_addr = ret ? FI_ADDR_NOTAVAIL : row;
	return -ret;
}

int tagrv_av_insert_one(struct tagrv_av *av, const void *raw, size_t len,
			fi_addr_t *fi_addr)
{
	int err;

	tagrv_dom_lock(av->domain->dom);
	err = insert_one(av, raw, len, fi_addr);
	tagrv_lock_release(&av->domain->dom->lock);
	return err;
}

int tagrv_av_check_flags(uint64_t flags, const void *context)
{
	if (flags & ~(FI_MORE | FI_SYNC_ERR))
		return tagrv_refuse(-FI_EBADFLAGS, "fi_av_insert: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) flags);
	if (flags & FI_SYNC_ERR && !context)
		return tagrv_refuse(-FI_EINVAL, "fi_av_insert: FI_SYNC_ERR "
				    "needs an array of int as context");
	return 0;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count,
		     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	int *errs = flags & FI_SYNC_ERR ? context : NULL;
	struct tagrv_av *av = av_of(fid);
	const char *raw = addr;
	int err, done = 0;

	err = tagrv_av_check_flags(flags, context);
	if (err)
		return err;
	/* Perhaps the dest_addr of an fi_getinfo without a node. */
	if (!raw && count)
		return tagrv_refuse(-FI_EINVAL, "fi_av_insert: addr is NULL");
	tagrv_dom_lock(av->domain->dom);
	for (size_t i = 0; i < count; i++) {
		size_t len = stride(av, raw);

		err = insert_one(av, raw, len, fi_addr ? fi_addr + i : NULL);
		if (errs)
			errs[i] = err;
		done += !err;
		raw += len;
	}
	tagrv_lock_release(&av->domain->dom->lock);
	return done;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count,
		     uint64_t flags)
{
	struct tagrv_av *av = av_of(fid);
	int ret = 0;

	if (flags)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_av_remove: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) flags);
	tagrv_dom_lock(av->domain->dom);
	for (size_t i = 0; i < count; i++) {
		int err = tagrv_avtab_remove(&av->tab, fi_addr[i]);

		ret = ret ? ret : err;
	}
	tagrv_lock_release(&av->domain->dom->lock);
	return ret;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr,
		     size_t *addrlen)
{
	struct tagrv_av *av = av_of(fid);
	const struct tagrv_addr *found;
	int ret = -FI_EINVAL;

	tagrv_dom_lock(av->domain->dom);
	found = tagrv_avtab_lookup(&av->tab, fi_addr);
	if (found) {
		size_t len = tagrv_addr_len(found);

		memcpy(addr, found, TAGRV_MIN(len, *addrlen));
		*addrlen = len;
		ret = 0;
	}
	tagrv_lock_release(&av->domain->dom->lock);
	return ret;
}

/* The same format as libfabric's own providers print. */
static const char *av_straddr(struct fid_av *av, const void *addr, char *buf,
			      size_t *len)
{
	char text[TAGRV_ADDR_STRLEN];
	struct tagrv_addr copy;
	int n;

	(void) av;
	if (tagrv_addr_from(&copy, addr, 0))
		return NULL;
	n = snprintf(buf, *len, "%s://%s", copy.sa.sa_family == AF_INET6 ?
		     "fi_sockaddr_in6" : "fi_sockaddr_in",
		     tagrv_addr_str(&copy, text, sizeof(text)));
	*len = (size_t) n + 1;
	return buf;
}

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = tagrv_av_insertsvc,
	.insertsym = tagrv_av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = tagrv_nosys_av_set,
};

static int av_close(struct fid *fid)
{
	struct tagrv_av *av = tagrv_container_of(fid, struct tagrv_av, av.fid);
	int ret;

	ret = tagrv_ref_check(&av->refs, "address vector", "endpoints");
	if (ret)
		return ret;
	tagrv_avtab_fini(&av->tab);
	tagrv_ref_put(&av->domain->refs);
	free(av);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = tagrv_nosys_bind,
	.control = tagrv_nosys_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static int check_attr(const struct fi_av_attr *attr)
{
	if (attr->flags & ~AV_FLAGS)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_av_open: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) attr->flags);
	/* MPI libraries try a named vector first: not worth a warning. */
	if (attr->name || attr->flags & (FI_READ | FI_EVENT)) {
		tagrv_info("fi_av_open: named, read-only and asynchronous "
			   "address vectors are not supported\n");
		return -FI_ENOSYS;
	}
	if (attr->type > FI_AV_TABLE || attr->rx_ctx_bits) {
		tagrv_warn("fi_av_open: type %d with %d receive context bits "
			   "is not supported\n", (int) attr->type,
			   attr->rx_ctx_bits);
		return -FI_EINVAL;
	}
	return 0;
}

int tagrv_av_open(struct fid_domain *domain, struct fi_av_attr *attr,
		  struct fid_av **av, void *context)
{
	struct tagrv_av *self;
	int ret;

	ret = attr ? check_attr(attr) : 0;
	if (ret)
		return ret;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	ret = tagrv_avtab_init(&self->tab, attr ? attr->count : 0);
	if (ret) {
		free(self);
		return ret;
	}
	self->domain = tagrv_container_of(domain, struct tagrv_domain, domain);
	self->av.fid.fclass = FI_CLASS_AV;
	self->av.fid.context = context;
	self->av.fid.ops = &fid_ops;
	self->av.ops = &av_ops;
	tagrv_ref_get(&self->domain->refs);
	if (attr && attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	*av = &self->av;
	return 0;
}
