/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The socket calls of wireup. All sockets are TCP, nonblocking, close-on-exec;
 * the caller closes them.
 */
#ifndef TAGRV_WIREUP_WIREUP_NET_H
#define TAGRV_WIREUP_WIREUP_NET_H

#include <stdbool.h>

#include "core/addr.h"
#include "core/compiler.h"

/*
 * Returns a listening socket and, in *name, the address under which peers reach
 * it. -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_EMFILE, ...; failures are logged.
 */
int tagrv_wireup_net_listen(const struct tagrv_addr *addr,
			    struct tagrv_addr *name) TAGRV_WARN_UNUSED;
/* Returns a socket from the backlog, *peer: its other end; -FI_EAGAIN: none. */
int tagrv_wireup_net_accept(int listener, struct tagrv_addr *peer)
	TAGRV_WARN_UNUSED;
/* Starts a TCP connect to addr. Returns the socket or -FI_E*. */
int tagrv_wireup_net_dial(const struct tagrv_addr *addr) TAGRV_WARN_UNUSED;
/* The result of that connect, once the socket is writable: 0 or -FI_E*. */
int tagrv_wireup_net_dialed(int fd) TAGRV_WARN_UNUSED;
/* The address of this end of a connected socket. 0 or -FI_E*. */
int tagrv_wireup_net_local(int fd, struct tagrv_addr *addr) TAGRV_WARN_UNUSED;
/* False: the other end has reset the connection. */
bool tagrv_wireup_net_is_connected(int fd);
/* Has close() reset the TCP connection instead of ending it in order. */
void tagrv_wireup_net_abort(int fd);

/* Maps an errno of a socket call to -FI_E*. */
int tagrv_wireup_net_error(int err);

#endif
