/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The wireup record, by which two endpoints exchange their links to connect.
 *
 *    0        8      10    11     12       14       16
 *   | magic  | length|type |reason| ver min| ver max| body of the version ...
 *   '------------- frozen: every version ----------'
 *
 * Big-endian, at most 2 KiB, pure bytes without sockets. The first 16 bytes never
 * change, so that an endpoint can reject a peer with which it has no version in
 * common. Fields of later versions behind the body are skipped. Layout:
 * docs/wire_protocol.md section 2.
 */
#ifndef TAGRV_WIREUP_WIREUP_REC_H
#define TAGRV_WIREUP_WIREUP_REC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "wireup/wireup.h"

#define TAGRV_WIREUP_MAGIC	"tagrvwir"
#define TAGRV_WIREUP_MAGIC_LEN	8
#define TAGRV_WIREUP_REC_TYPE	10	/* offset of the type */
#define TAGRV_WIREUP_REC_HEAD	16	/* bytes every version shares */
#define TAGRV_WIREUP_REC_FIXED	128	/* bytes before the links */
#define TAGRV_WIREUP_REC_MAX	2048	/* bytes of the longest record */
#define TAGRV_WIREUP_LINKS_MAX	8
#define TAGRV_WIREUP_PACKET_MIN	192	/* bytes; fits the longest RTS packet */

enum tagrv_wireup_rec_type {
	TAGRV_WIREUP_REQ = 1,	/* offers the sender's links, asks for a link */
	TAGRV_WIREUP_REP,	/* the sender's link is bound to the receiver's */
	TAGRV_WIREUP_RTU,	/* ready to use: both links are bound */
	TAGRV_WIREUP_REJ,	/* rejects a REQ for a reason */
	TAGRV_WIREUP_CLOSE,	/* the connection, or only this socket, ends */
	TAGRV_WIREUP_ASK,	/* did the receiver send the REQ with this nonce? */
	TAGRV_WIREUP_ANSWER,	/* to ASK: OK yes, STALE no */
	TAGRV_WIREUP_WAIT = 9,	/* a REQ or REP has arrived and waits for its turn */
};

enum tagrv_wireup_reason {
	TAGRV_WIREUP_OK,
	TAGRV_WIREUP_VERSION,	/* REJ: no version in common */
	TAGRV_WIREUP_TRANSPORT,	/* REJ: no transport or no path in common */
	TAGRV_WIREUP_BUSY,	/* REJ: out of resources, try again */
	TAGRV_WIREUP_STALE,	/* REJ, ANSWER: the destination link is gone */
	TAGRV_WIREUP_SELF,	/* REJ: the endpoint connected to itself */
	TAGRV_WIREUP_SOCKET_CLOSED, /* CLOSE: ends this socket, not the connection */
	TAGRV_WIREUP_RENEWAL,	/* REQ, REP: of a link that replaces the one in use */
	TAGRV_WIREUP_LOCAL,	/* REQ: other transports than local ones are held back */
};

/* One link of the sender, as its transport describes it. */
struct tagrv_wireup_blob {
	uint8_t	wire_id;	/* struct tagrv_xport_ops::wire_id */
	uint8_t	rail;		/* 0 */
	uint8_t	len;		/* bytes of data */
	uint32_t max_packet;	/* bytes of the longest packet it receives */
	uint8_t	data[TAGRV_BLOB_MAX];
};

struct tagrv_wireup_rec {
	enum tagrv_wireup_rec_type type;
	uint8_t	reason;			/* enum tagrv_wireup_reason, or newer */
	uint16_t version_min, version_max;
	uint64_t features;
	uint8_t	src_uuid[TAGRV_UUID_LEN];
	uint8_t	dst_uuid[TAGRV_UUID_LEN];	/* zero: not known */
	uint32_t src_epoch;
	uint32_t dst_epoch;		/* zero: not known */
	uint32_t max_packet;		/* bytes; the smallest of all links */
	struct tagrv_addr addr;		/* listener; family 0: none given */
	/*
	 * A random number of each side's link. Who does not know it has not got
	 * a record of that side. Zero: not known.
	 */
	uint8_t	src_nonce[TAGRV_NONCE_LEN];
	uint8_t	dst_nonce[TAGRV_NONCE_LEN];
	size_t	link_cnt;
	struct tagrv_wireup_blob links[TAGRV_WIREUP_LINKS_MAX];
};

/* True: the field is not set. */
static inline bool tagrv_uuid_is_zero(const uint8_t *uuid)
{
	static const uint8_t nobody[TAGRV_UUID_LEN];

	return !memcmp(uuid, nobody, TAGRV_UUID_LEN);
}

/* Fills buf (TAGRV_WIREUP_REC_MAX bytes); returns the record's length. */
size_t tagrv_wireup_rec_encode(const struct tagrv_wireup_rec *rec, void *buf);

/*
 * Returns the length of the record that starts at buf, which may be more than
 * len; 0: len is too short to tell; -FI_EINVAL: this is no record.
 */
ssize_t tagrv_wireup_rec_length(const void *buf, size_t len);

/*
 * Reads one complete record of len bytes. 0; -FI_EINVAL: malformed, *rec is
 * undefined; -FI_ENOPROTOOPT: no version in common; type, reason and versions of
 * *rec are set, all else is zero.
 */
int tagrv_wireup_rec_decode(const void *buf, size_t len,
			    struct tagrv_wireup_rec *rec) TAGRV_WARN_UNUSED;

#endif
