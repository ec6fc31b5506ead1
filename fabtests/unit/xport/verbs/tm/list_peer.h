/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer that sends to a device's list of tagged receives, by verbs calls of the fake devices:
 * its queue pair on device 1, and the one of device 0 whose receives are from the list.
 */
#ifndef FABTESTS_UNIT_XPORT_VERBS_LIST_PEER_H
#define FABTESTS_UNIT_XPORT_VERBS_LIST_PEER_H

#include "common/fake_verbs.h"
#include "xport/verbs/verbs_ops.h"

#define PEER_MEM	65536u
#define PEER_HEADERS	32u	/* TMH and RVH */

struct list_peer {
	const struct tagrv_verbs_calls *calls;
	struct ibv_context *ctx;
	struct ibv_pd	*pd;
	struct ibv_cq	*cq;
	struct ibv_qp	*qp;
	struct ibv_mr	*mr;
	char	*mem;		/* PEER_MEM bytes; what is sent is at its start, FINs come to its
				   end, a rendezvous is read from its middle */
};

/* Two devices with a list of 8 entries and 4 commands, which take messages by one buffer. */
struct fake_verbs_config list_devices(void);

/* Opens the peer; the devices run. */
void list_peer_open(struct list_peer *peer);
/* A context of device number dev. */
struct ibv_context *list_open_device(unsigned dev);
/* Connects it with a queue pair of device 0. */
void list_peer_connect(struct list_peer *peer, struct ibv_qp *to);
void list_peer_close(struct list_peer *peer);

/* Sends a message: the header, then len bytes of 'fill'. */
void list_peer_eager(struct list_peer *peer, uint64_t tag, uint32_t app, char fill, size_t len);
void list_peer_no_tag(struct list_peer *peer, char fill, size_t len, uint32_t imm);
/* Announces len bytes of 'fill' with private bytes "private". rkey 0: the right one. */
void list_peer_rndv(struct list_peer *peer, uint64_t tag, char fill, uint32_t len, uint32_t rkey);
/* The FIN that has come, PEER_HEADERS bytes, or NULL. */
const uint8_t *list_peer_fin(struct list_peer *peer);
/* How many sends ended, the last one with *status. */
int list_peer_poll(struct list_peer *peer, enum ibv_wc_status *status);

/* To INIT, RTR and RTS, connected with the other one. */
void list_qp_connect(const struct tagrv_verbs_calls *calls, struct ibv_qp *qp, unsigned dev,
		     uint32_t other);

#endif
