/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoint addresses, FI_SOCKADDR_IN and FI_SOCKADDR_IN6. Two addresses are equal
 * if family, port and IP address are, and for link-local addresses the scope.
 */
#ifndef TAGRV_CORE_ADDR_H
#define TAGRV_CORE_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/compiler.h"

/* Bytes for the longest text of tagrv_addr_str: "[ipv6%scope]:port" and NUL. */
#define TAGRV_ADDR_STRLEN	80

/*
 * A normalized address: every byte that equality ignores (padding, flow label) is
 * zero, so that memcmp and a hash over all bytes are exact.
 */
struct tagrv_addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
};

/* Bytes of the sockaddr in use: 16, 28, or 0 for an unset address. */
size_t tagrv_addr_len(const struct tagrv_addr *addr);

/*
 * Normalizes the sockaddr 'sa' of 'len' bytes; len 0: as long as its family says.
 * Returns 0, or -FI_EINVAL: another family, or too short; *addr is unchanged.
 */
int tagrv_addr_from(struct tagrv_addr *addr, const void *sa, size_t len)
	TAGRV_WARN_UNUSED;

bool tagrv_addr_equal(const struct tagrv_addr *a, const struct tagrv_addr *b);
bool tagrv_addr_is_any(const struct tagrv_addr *addr);	/* 0.0.0.0 or :: */
/* Ports are in host byte order; the address must have a family. */
uint16_t tagrv_addr_port(const struct tagrv_addr *addr);
void tagrv_addr_set_port(struct tagrv_addr *addr, uint16_t port);
/*
 * The IP address, in network order: *len becomes 4 or 16. An IPv4 address that is
 * mapped into IPv6, as a listener of IPv6 sees it, is IPv4.
 */
const void *tagrv_addr_ip(const struct tagrv_addr *addr, size_t *len);

/*
 * Writes "10.1.0.1:5000" or "[fe80::1]:5000" into buf of len bytes (see
 * TAGRV_ADDR_STRLEN); returns buf.
 */
const char *tagrv_addr_str(const struct tagrv_addr *addr, char *buf, size_t len);

#endif
