/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The socket calls of wireup: nonblocking, close-on-exec TCP with options set.
 */
#ifndef TAGRV_WIREUP_WIREUP_NET_H
#define TAGRV_WIREUP_WIREUP_NET_H

#include <stdbool.h>

#include "core/addr.h"
#include "core/compiler.h"

/*
 * Returns a listening socket and the address peers can use. -FI_EADDRINUSE,
 * -FI_EADDRNOTAVAIL, -FI_EMFILE, ...; logged.
 */
int tagrv_wireup_net_listen(const struct tagrv_addr *addr,
			    struct tagrv_addr *name) TAGRV_WARN_UNUSED;
/* The next waiting connection and whose it is; -FI_EAGAIN: none. */
int tagrv_wireup_net_accept(int listener, struct tagrv_addr *peer)
	TAGRV_WARN_UNUSED;
/* A socket that is connecting (or connected already). */
int tagrv_wireup_net_dial(const struct tagrv_addr *addr) TAGRV_WARN_UNUSED;
/* How that went, once writable: 0 or -FI_E*. */
int tagrv_wireup_net_dialed(int fd) TAGRV_WARN_UNUSED;
/* The next close resets the connection at once. */
void tagrv_wireup_net_abort(int fd);

/* What an errno of a socket call means to the caller: -FI_E*. */
int tagrv_wireup_net_error(int err);

#endif
