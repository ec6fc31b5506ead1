/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Normalizes, compares and prints endpoint addresses, see addr.h.
 */
#include "core/addr.h"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

size_t tagrv_addr_len(const struct tagrv_addr *addr)
{
	switch (addr->sa.sa_family) {
	case AF_INET:
		return sizeof(addr->in);
	case AF_INET6:
		return sizeof(addr->in6);
	default:
		return 0;
	}
}

int tagrv_addr_from(struct tagrv_addr *addr, const void *sa, size_t len)
{
	const struct sockaddr_in6 *in6 = sa;
	const struct sockaddr_in *in = sa;
	struct tagrv_addr out;

	if (len && len < sizeof(*in))
		return -FI_EINVAL;
	memset(&out, 0, sizeof(out));
	switch (in->sin_family) {
	case AF_INET:
		out.in.sin_family = AF_INET;
		out.in.sin_port = in->sin_port;
		out.in.sin_addr = in->sin_addr;
		break;
	case AF_INET6:
		if (len && len < sizeof(*in6))
			return -FI_EINVAL;
		out.in6.sin6_family = AF_INET6;
		out.in6.sin6_port = in6->sin6_port;
		out.in6.sin6_addr = in6->sin6_addr;
		/* Only link-local addresses have a scope. */
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			out.in6.sin6_scope_id = in6->sin6_scope_id;
		break;
	default:
		return -FI_EINVAL;
	}
	*addr = out;
	return 0;
}

bool tagrv_addr_equal(const struct tagrv_addr *a, const struct tagrv_addr *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool tagrv_addr_is_any(const struct tagrv_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return addr->sa.sa_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

uint16_t tagrv_addr_port(const struct tagrv_addr *addr)
{
	return ntohs(addr->sa.sa_family == AF_INET ? addr->in.sin_port :
						     addr->in6.sin6_port);
}

void tagrv_addr_set_port(struct tagrv_addr *addr, uint16_t port)
{
	if (addr->sa.sa_family == AF_INET)
		addr->in.sin_port = htons(port);
	else
		addr->in6.sin6_port = htons(port);
}

const void *tagrv_addr_ip(const struct tagrv_addr *addr, size_t *len)
{
	const struct in6_addr *in6 = &addr->in6.sin6_addr;

	*len = sizeof(addr->in.sin_addr);
	if (addr->sa.sa_family == AF_INET)
		return &addr->in.sin_addr;
	if (IN6_IS_ADDR_V4MAPPED(in6))
		return &in6->s6_addr[12];
	*len = sizeof(*in6);
	return in6;
}

/* Writes "[ip]:port", with "%scope" if the scope is set. */
static void in6_str(const struct sockaddr_in6 *in6, char *buf, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?";
	uint16_t port = ntohs(in6->sin6_port);

	inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
	if (in6->sin6_scope_id)
		snprintf(buf, len, "[%s%%%u]:%u", ip, in6->sin6_scope_id, port);
	else
		snprintf(buf, len, "[%s]:%u", ip, port);
}

const char *tagrv_addr_str(const struct tagrv_addr *addr, char *buf, size_t len)
{
	char ip[INET_ADDRSTRLEN] = "?";

	switch (addr->sa.sa_family) {
	case AF_INET:
		inet_ntop(AF_INET, &addr->in.sin_addr, ip, sizeof(ip));
		snprintf(buf, len, "%s:%u", ip, tagrv_addr_port(addr));
		break;
	case AF_INET6:
		in6_str(&addr->in6, buf, len);
		break;
	default:
		snprintf(buf, len, "(no address)");
	}
	return buf;
}
