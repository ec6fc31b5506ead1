/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inserting addresses by name: fi_av_insertsvc and fi_av_insertsym.
 */
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/av_priv.h"
#include "core/log.h"

#define NAME_LEN	256

static int family_of(const struct tagrv_av *av)
{
	switch (av->domain->addr_format) {
	case FI_SOCKADDR_IN:
		return AF_INET;
	case FI_SOCKADDR_IN6:
		return AF_INET6;
	default:
		return AF_UNSPEC;
	}
}

/* 0 or a positive FI_E* code. */
static int insert_name(struct tagrv_av *av, const char *node,
		       const char *service, fi_addr_t *fi_addr)
{
	const struct addrinfo hints = {
		.ai_family = family_of(av), .ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	int ret;

	if (fi_addr)
		*fi_addr = FI_ADDR_NOTAVAIL;
	ret = getaddrinfo(node, service, &hints, &found);
	if (ret) {
		tagrv_info("fi_av_insertsvc: %s, service %s: %s\n", node,
			   service, gai_strerror(ret));
		return FI_EINVAL;
	}
	ret = tagrv_av_insert_one(av, found->ai_addr, found->ai_addrlen,
				  fi_addr);
	freeaddrinfo(found);
	return ret;
}

int tagrv_av_insertsvc(struct fid_av *av, const char *node, const char *service,
		       fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return tagrv_av_insertsym(av, node, 1, service, 1, fi_addr, flags,
				  context);
}

/*
 * Writes the name with n added to its last number, keeping leading zeros: node09
 * becomes node10, 10.1.0.9 becomes 10.1.0.10. False: the name does not end in a
 * number, or out is too short.
 */
static bool count_up(char *out, size_t len, const char *name, size_t n)
{
	size_t end = strlen(name), at = end;
	unsigned long long number;
	int written;

	while (at && isdigit((unsigned char) name[at - 1]))
		at--;
	if (!n) {
		written = snprintf(out, len, "%s", name);
	} else {
		if (at == end || end - at > 18)
			return false;
		number = strtoull(name + at, NULL, 10) + n;
		written = snprintf(out, len, "%.*s%0*llu", (int) at, name,
				   (int) (name[at] == '0' ? end - at : 1),
				   number);
	}
	return written >= 0 && (size_t) written < len;
}

int tagrv_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt,
		       const char *service, size_t svccnt, fi_addr_t *fi_addr,
		       uint64_t flags, void *context)
{
	struct tagrv_av *av = tagrv_container_of(fid, struct tagrv_av, av);
	char name[NAME_LEN], svc[NAME_LEN];
	int err, done = 0;

	err = tagrv_av_check_flags(flags, context);
	if (err)
		return err;
	if (!node || !service)
		return -FI_EINVAL;
	for (size_t i = 0; i < nodecnt * svccnt; i++) {
		fi_addr_t *out = fi_addr ? fi_addr + i : NULL;

		if (count_up(name, sizeof(name), node, i / svccnt) &&
		    count_up(svc, sizeof(svc), service, i % svccnt)) {
			err = insert_name(av, name, svc, out);
		} else {
			err = FI_EINVAL;
			if (out)
				*out = FI_ADDR_NOTAVAIL;
		}
		if (flags & FI_SYNC_ERR)
			((int *) context)[i] = err;
		done += !err;
	}
	return done;
}
