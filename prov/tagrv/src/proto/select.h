/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Choice of the protocol of one send, and of who moves a rendezvous: pure
 * functions of facts.
 */
#ifndef TAGRV_PROTO_SELECT_H
#define TAGRV_PROTO_SELECT_H

#include <stddef.h>

#include "proto/credit.h"

/* What comes after eager is a kind of rendezvous; the numbers are on the wire. */
enum tagrv_proto {
	TAGRV_PROTO_EAGER,	/* envelope and payload in one packet */
	TAGRV_PROTO_RNDV_READ,	/* RTS, the receiver reads, FIN */
	TAGRV_PROTO_RNDV_WRITE,	/* RTS, CTS, the sender writes, DONE */
	TAGRV_PROTO_RNDV_COPY,	/* RTS, CTS, fragments, FIN */
	TAGRV_PROTO_CNT,
};

struct tagrv_select_in {
	size_t	len;		/* payload bytes */
	size_t	eager_limit;	/* of this link: both sides' packet sizes */
	uint32_t credit;	/* units the peer takes */
};

static inline enum tagrv_proto tagrv_select(const struct tagrv_select_in *in)
{
	return in->len <= in->eager_limit &&
	       tagrv_credit_units(in->len) <= in->credit ?
	       TAGRV_PROTO_EAGER : TAGRV_PROTO_RNDV_READ;
}

#endif
