/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The wireup record: what two endpoints tell each other to connect.
 *
 *    0        8      10    11     12       14       16
 *   | magic  | length|type |reason| ver min| ver max| body of the version ...
 *   '------------- frozen: every version ----------'
 *
 * Big-endian, at most 1 KiB, independent of what carries it. The first 16
 * bytes never change, so that peers without a version in common can still tell
 * each other why. A body may be followed by fields of later versions; they are
 * skipped. Layout: docs/wire_protocol.md section 2.
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
#define TAGRV_WIREUP_REC_HEAD	16	/* bytes every version shares */
#define TAGRV_WIREUP_REC_FIXED	96	/* bytes before the links */
#define TAGRV_WIREUP_REC_MAX	1024	/* bytes of the longest record */
#define TAGRV_WIREUP_LINKS_MAX	8
#define TAGRV_WIREUP_PACKET_MIN	192	/* the longest request fits */

enum tagrv_wireup_rec_type {
	TAGRV_WIREUP_REQ = 1,	/* here is my link, tell me yours */
	TAGRV_WIREUP_REP,	/* here is mine, it is bound to yours */
	TAGRV_WIREUP_RTU,	/* mine is bound, too: ready to use */
	TAGRV_WIREUP_REJ,	/* no, and here is the reason */
	TAGRV_WIREUP_CLOSE,	/* the connection (or just this socket) ends */
};

enum tagrv_wireup_reason {
	TAGRV_WIREUP_OK,
	TAGRV_WIREUP_VERSION,	/* REJ: no version in common */
	TAGRV_WIREUP_TRANSPORT,	/* REJ: no transport or no path in common */
	TAGRV_WIREUP_BUSY,	/* REJ: out of resources, try again */
	TAGRV_WIREUP_STALE,	/* REJ: who or what you mean is gone */
	TAGRV_WIREUP_SELF,	/* REJ: you called yourself */
	TAGRV_WIREUP_UNKEPT,	/* CLOSE: of the socket only, to save it */
};

/* One way to reach the sender, as its transport describes it. */
struct tagrv_wireup_blob {
	uint8_t	wire_id;	/* struct tagrv_xport_ops::wire_id */
	uint8_t	rail;
	uint8_t	len;
	uint32_t max_packet;	/* bytes of one packet it takes */
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
	uint32_t max_packet;		/* that every link below takes */
	struct tagrv_addr addr;		/* listener; family 0: none given */
	size_t	link_cnt;
	struct tagrv_wireup_blob links[TAGRV_WIREUP_LINKS_MAX];
};

/* Whether a record names nobody. */
static inline bool tagrv_uuid_is_zero(const uint8_t *uuid)
{
	static const uint8_t nobody[TAGRV_UUID_LEN];

	return !memcmp(uuid, nobody, TAGRV_UUID_LEN);
}

/* Fills buf (TAGRV_WIREUP_REC_MAX bytes); returns the record's length. */
size_t tagrv_wireup_rec_encode(const struct tagrv_wireup_rec *rec, void *buf);

/*
 * How long is the record that starts at buf? 0: too few bytes to tell;
 * -FI_EINVAL: this is no record.
 */
ssize_t tagrv_wireup_rec_length(const void *buf, size_t len);

/*
 * Reads one complete record. -FI_EINVAL: malformed, *rec undefined.
 * -FI_ENOPROTOOPT: a version we do not speak; type, reason and versions are
 * set, everything else is zero.
 */
int tagrv_wireup_rec_decode(const void *buf, size_t len,
			    struct tagrv_wireup_rec *rec) TAGRV_WARN_UNUSED;

#endif
