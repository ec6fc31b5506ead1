/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections to the socket of a shared-memory device made by hand, and handover
 * messages as a peer would send them, for tests to spoil.
 */
#ifndef FABTESTS_UNIT_XPORT_SHM_FORGE_H
#define FABTESTS_UNIT_XPORT_SHM_FORGE_H

#include "xport/shm/shm_priv.h"

/* Connects to the device's socket; -1: refused. */
int shm_dial(const struct shm_device *to);
/* Sends data with cnt descriptors, at most 8; ends the process on failure. */
void shm_say(int sock, const void *data, size_t len, const int *fds,
	     size_t cnt);

/* A correct handover for a link that waits for one. */
struct forged {
	struct tagrv_link *link;
	struct shm_device *dev;
	struct shm_hand hand;
	int	fds[SHM_HAND_FDS];
};

/* Creates the link and the regions; forged_close() ends both. */
void forged_open(struct forged *f, struct tagrv_xport *xport);
void forged_close(struct forged *f);
/* Sends the handover over a connection of its own, and has it read. */
void forged_deliver(struct forged *f);
/* Whether the link has taken a handover. */
bool forged_is_taken(const struct forged *f);

#endif
