/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls between av.c and av_name.c, which inserts addresses by name.
 */
#ifndef TAGRV_API_AV_PRIV_H
#define TAGRV_API_AV_PRIV_H

#include "api/objects_priv.h"

/* Inserts one sockaddr; 0 or a positive FI_E* code. Takes the domain lock. */
int tagrv_av_insert_one(struct tagrv_av *av, const void *raw, size_t len,
			fi_addr_t *fi_addr);
/* Flags of an insert: 0, -FI_EBADFLAGS or -FI_EINVAL. */
int tagrv_av_check_flags(uint64_t flags, const void *context);

/* fi_av_insertsvc and fi_av_insertsym. */
int tagrv_av_insertsvc(struct fid_av *av, const char *node, const char *service,
		       fi_addr_t *fi_addr, uint64_t flags, void *context);
int tagrv_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt,
		       const char *service, size_t svccnt, fi_addr_t *fi_addr,
		       uint64_t flags, void *context);

#endif
