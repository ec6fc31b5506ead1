/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Encoding and decoding of the wireup record.
 *
 * The decoder reads through a cursor that cannot leave the record: a read past
 * the end yields zeros and marks the cursor bad, checked once at the end.
 */
#include "wireup/wireup_rec.h"

#include "auth/auth_mac.h"

#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <string.h>

/* Address families in a record; the value of AF_INET6 differs between systems. */
#define FAMILY_NONE	0
#define FAMILY_IN	4
#define FAMILY_IN6	6

#define LINK_HEAD	4	/* bytes before a link's blob */
#define LINK_TAIL	4	/* bytes per link behind all links: max packet */
#define IP_LEN		16

static_assert(sizeof(TAGRV_WIREUP_MAGIC) - 1 == TAGRV_WIREUP_MAGIC_LEN,
	      "magic is eight bytes");
static_assert(TAGRV_WIREUP_REC_FIXED + TAGRV_WIREUP_LINKS_MAX *
	      (LINK_HEAD + TAGRV_BLOB_MAX + LINK_TAIL) + TAGRV_MAC_LEN <=
	      TAGRV_WIREUP_REC_MAX, "the longest record fits, with its seal");
static_assert(TAGRV_BLOB_MAX <= UINT8_MAX, "one byte holds a blob's length");

struct writer {
	uint8_t *pos;
};

static void put_bytes(struct writer *w, const void *data, size_t len)
{
	memcpy(w->pos, data, len);
	w->pos += len;
}

static void put_uint(struct writer *w, uint64_t val, unsigned bytes)
{
	for (unsigned i = bytes; i-- > 0; val >>= 8)
		w->pos[i] = (uint8_t) val;
	w->pos += bytes;
}

struct reader {
	const uint8_t *pos;
	size_t	left;
	bool	bad;
};

static void get_bytes(struct reader *r, void *data, size_t len)
{
	if (r->left < len) {
		memset(data, 0, len);
		r->bad = true;
		r->left = 0;
		return;
	}
	memcpy(data, r->pos, len);
	r->pos += len;
	r->left -= len;
}

static uint64_t get_uint(struct reader *r, unsigned bytes)
{
	uint8_t buf[8];
	uint64_t val = 0;

	get_bytes(r, buf, bytes);
	for (unsigned i = 0; i < bytes; i++)
		val = val << 8 | buf[i];
	return val;
}

static void put_addr(struct writer *w, const struct tagrv_addr *addr)
{
	uint8_t ip[IP_LEN] = { 0 }, family = FAMILY_NONE;
	uint32_t scope = 0;
	uint16_t port = 0;

	switch (addr->sa.sa_family) {
	case AF_INET:
		family = FAMILY_IN;
		port = tagrv_addr_port(addr);
		memcpy(ip, &addr->in.sin_addr, sizeof(addr->in.sin_addr));
		break;
	case AF_INET6:
		family = FAMILY_IN6;
		port = tagrv_addr_port(addr);
		scope = addr->in6.sin6_scope_id;
		memcpy(ip, &addr->in6.sin6_addr, sizeof(addr->in6.sin6_addr));
		break;
	}
	put_uint(w, family, 1);
	put_uint(w, 0, 1);
	put_uint(w, port, 2);
	put_uint(w, scope, 4);
	put_bytes(w, ip, sizeof(ip));
}

static int get_addr(struct reader *r, struct tagrv_addr *addr)
{
	uint8_t family = (uint8_t) get_uint(r, 1);
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	uint8_t ip[IP_LEN];

	get_uint(r, 1);
	in.sin_port = htons((uint16_t) get_uint(r, 2));
	in6.sin6_port = in.sin_port;
	in6.sin6_scope_id = (uint32_t) get_uint(r, 4);
	get_bytes(r, ip, sizeof(ip));
	memcpy(&in.sin_addr, ip, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, ip, sizeof(in6.sin6_addr));
	switch (family) {
	case FAMILY_NONE:
		memset(addr, 0, sizeof(*addr));
		return 0;
	case FAMILY_IN:
		return tagrv_addr_from(addr, &in, sizeof(in));
	case FAMILY_IN6:
		return tagrv_addr_from(addr, &in6, sizeof(in6));
	default:
		return -FI_EINVAL;
	}
}

static void put_links(struct writer *w, const struct tagrv_wireup_rec *rec)
{
	for (size_t i = 0; i < rec->link_cnt; i++) {
		const struct tagrv_wireup_blob *blob = &rec->links[i];

		assert(blob->len <= TAGRV_BLOB_MAX);
		put_uint(w, blob->wire_id, 1);
		put_uint(w, blob->rail, 1);
		put_uint(w, blob->len, 1);
		put_uint(w, 0, 1);
		put_bytes(w, blob->data, blob->len);
	}
	for (size_t i = 0; i < rec->link_cnt; i++)
		put_uint(w, rec->links[i].max_packet, LINK_TAIL);
}

size_t tagrv_wireup_rec_encode(const struct tagrv_wireup_rec *rec, void *buf)
{
	struct writer w = { buf };
	uint8_t *start = buf;
	size_t len;

	assert(rec->link_cnt <= TAGRV_WIREUP_LINKS_MAX);
	put_bytes(&w, TAGRV_WIREUP_MAGIC, TAGRV_WIREUP_MAGIC_LEN);
	put_uint(&w, 0, 2);
	put_uint(&w, rec->type, 1);
	put_uint(&w, rec->reason, 1);
	put_uint(&w, rec->version_min, 2);
	put_uint(&w, rec->version_max, 2);
	assert(w.pos == start + TAGRV_WIREUP_REC_HEAD);
	put_uint(&w, rec->features, 8);
	put_bytes(&w, rec->src_uuid, TAGRV_UUID_LEN);
	put_bytes(&w, rec->dst_uuid, TAGRV_UUID_LEN);
	put_uint(&w, rec->src_epoch, 4);
	put_uint(&w, rec->dst_epoch, 4);
	put_uint(&w, rec->max_packet, 4);
	put_uint(&w, rec->link_cnt, 1);
	put_uint(&w, 0, 3);
	put_addr(&w, &rec->addr);
	put_bytes(&w, rec->src_nonce, TAGRV_NONCE_LEN);
	put_bytes(&w, rec->dst_nonce, TAGRV_NONCE_LEN);
	assert(w.pos == start + TAGRV_WIREUP_REC_FIXED);
	put_links(&w, rec);
	len = (size_t) (w.pos - start);
	start[TAGRV_WIREUP_MAGIC_LEN] = (uint8_t) (len >> 8);
	start[TAGRV_WIREUP_MAGIC_LEN + 1] = (uint8_t) len;
	return len;
}

ssize_t tagrv_wireup_rec_length(const void *buf, size_t len)
{
	const uint8_t *pos = buf;
	ssize_t total;

	if (memcmp(pos, TAGRV_WIREUP_MAGIC,
		   TAGRV_MIN(len, (size_t) TAGRV_WIREUP_MAGIC_LEN)))
		return -FI_EINVAL;
	if (len < TAGRV_WIREUP_MAGIC_LEN + 2)
		return 0;
	total = pos[TAGRV_WIREUP_MAGIC_LEN] << 8 |
		pos[TAGRV_WIREUP_MAGIC_LEN + 1];
	if (total < TAGRV_WIREUP_REC_HEAD || total > TAGRV_WIREUP_REC_MAX)
		return -FI_EINVAL;
	return total;
}

/* Optional; if absent, every link has the record's max_packet. */
static void get_max_packets(struct reader *r, struct tagrv_wireup_rec *rec)
{
	bool given = r->left > 0;

	for (size_t i = 0; i < rec->link_cnt; i++)
		rec->links[i].max_packet = given ?
			(uint32_t) get_uint(r, LINK_TAIL) : rec->max_packet;
}

static int get_links(struct reader *r, struct tagrv_wireup_rec *rec)
{
	if (rec->link_cnt > TAGRV_WIREUP_LINKS_MAX)
		return -FI_EINVAL;
	for (size_t i = 0; i < rec->link_cnt; i++) {
		struct tagrv_wireup_blob *blob = &rec->links[i];

		blob->wire_id = (uint8_t) get_uint(r, 1);
		blob->rail = (uint8_t) get_uint(r, 1);
		blob->len = (uint8_t) get_uint(r, 1);
		get_uint(r, 1);
		if (blob->len > TAGRV_BLOB_MAX)
			return -FI_EINVAL;
		get_bytes(r, blob->data, blob->len);
	}
	get_max_packets(r, rec);
	return r->bad ? -FI_EINVAL : 0;
}

static int get_body(struct reader *r, struct tagrv_wireup_rec *rec)
{
	int ret;

	rec->features = get_uint(r, 8);
	get_bytes(r, rec->src_uuid, TAGRV_UUID_LEN);
	get_bytes(r, rec->dst_uuid, TAGRV_UUID_LEN);
	rec->src_epoch = (uint32_t) get_uint(r, 4);
	rec->dst_epoch = (uint32_t) get_uint(r, 4);
	rec->max_packet = (uint32_t) get_uint(r, 4);
	rec->link_cnt = (size_t) get_uint(r, 1);
	get_uint(r, 3);
	ret = get_addr(r, &rec->addr);
	if (ret)
		return ret;
	get_bytes(r, rec->src_nonce, TAGRV_NONCE_LEN);
	get_bytes(r, rec->dst_nonce, TAGRV_NONCE_LEN);
	return get_links(r, rec);
}

/* True: a REQ or REP has all fields without which there is no connection. */
static bool is_complete(const struct tagrv_wireup_rec *rec)
{
	if (rec->type != TAGRV_WIREUP_REQ && rec->type != TAGRV_WIREUP_REP)
		return true;
	for (size_t i = 0; i < rec->link_cnt; i++)
		if (rec->links[i].max_packet < TAGRV_WIREUP_PACKET_MIN)
			return false;
	return !tagrv_uuid_is_zero(rec->src_uuid) && rec->src_epoch &&
	       rec->max_packet >= TAGRV_WIREUP_PACKET_MIN &&
	       rec->addr.sa.sa_family && tagrv_addr_port(&rec->addr);
}

int tagrv_wireup_rec_decode(const void *buf, size_t len,
			    struct tagrv_wireup_rec *rec)
{
	struct reader r;
	uint8_t type;
	int ret;

	if (len < TAGRV_WIREUP_REC_HEAD ||
	    tagrv_wireup_rec_length(buf, len) != (ssize_t) len)
		return -FI_EINVAL;
	r = (struct reader) { (const uint8_t *) buf + TAGRV_WIREUP_MAGIC_LEN + 2,
			      len - TAGRV_WIREUP_MAGIC_LEN - 2, false };
	memset(rec, 0, sizeof(*rec));
	type = (uint8_t) get_uint(&r, 1);
	rec->reason = (uint8_t) get_uint(&r, 1);
	rec->version_min = (uint16_t) get_uint(&r, 2);
	rec->version_max = (uint16_t) get_uint(&r, 2);
	if (type < TAGRV_WIREUP_REQ ||
	    (type > TAGRV_WIREUP_ANSWER && type != TAGRV_WIREUP_WAIT) ||
	    rec->version_min > rec->version_max)
		return -FI_EINVAL;
	rec->type = (enum tagrv_wireup_rec_type) type;
	if (rec->version_min > TAGRV_WIRE_VERSION ||
	    rec->version_max < TAGRV_WIRE_VERSION_MIN)
		return -FI_ENOPROTOOPT;
	ret = get_body(&r, rec);
	if (ret)
		return ret;
	return is_complete(rec) ? 0 : -FI_EINVAL;
}
