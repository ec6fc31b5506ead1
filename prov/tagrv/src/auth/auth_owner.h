/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which user of this host is at the other end of a TCP connection within this host.
 */
#ifndef TAGRV_AUTH_AUTH_OWNER_H
#define TAGRV_AUTH_AUTH_OWNER_H

#include <sys/types.h>

#include "core/addr.h"
#include "core/compiler.h"

/*
 * Asks the kernel for the socket at the other end of a connection: 'local' and
 * 'remote' are the addresses of our socket. The kernel keeps the user that opened a
 * socket, so nobody can claim to be another one.
 *   0           *uid is set
 *   -FI_ENOENT  there is no such socket here: the peer is on another host, or in
 *               another network namespace, or has closed it, or (we dialed) has
 *               not accepted it yet. With an address of this host, it is to be
 *               taken for a stranger
 *   -FI_E*      the kernel does not answer (a sandbox), so nothing is known
 * Takes a descriptor for a moment.
 */
int tagrv_auth_owner(const struct tagrv_addr *local,
		     const struct tagrv_addr *remote,
		     uid_t *uid) TAGRV_WARN_UNUSED;

#endif
