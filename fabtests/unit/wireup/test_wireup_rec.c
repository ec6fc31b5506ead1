/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The wireup record: round trips, the documented bytes, and records that are
 * truncated, corrupted or of a later version.
 */
#include <criterion/criterion.h>
#include <net/if.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "wireup/wireup_rec.h"

static struct tagrv_addr make_addr(int family)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(5000),
		.sin6_addr.s6_addr = { 0xfe, 0x80, [15] = 1 },
		.sin6_scope_id = 3,
	};
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(5000),
		.sin_addr.s_addr = htonl(0x0a010203),
	};
	struct tagrv_addr addr;

	memset(&addr, 0, sizeof(addr));
	if (family == AF_INET)
		cr_assert_eq(tagrv_addr_from(&addr, &in, sizeof(in)), 0);
	else if (family == AF_INET6)
		cr_assert_eq(tagrv_addr_from(&addr, &in6, sizeof(in6)), 0);
	return addr;
}

static void fill(struct tagrv_wireup_rec *rec, enum tagrv_wireup_rec_type type,
		 int family, size_t links)
{
	/* Compared as bytes, so padding counts. */
	memset(rec, 0, sizeof(*rec));
	rec->type = type;
	rec->reason = TAGRV_WIREUP_BUSY;
	rec->version_min = 1;
	rec->version_max = 3;
	rec->features = 0x0102030405060708;
	memset(rec->src_uuid, 0x5a, TAGRV_UUID_LEN);
	memset(rec->dst_uuid, 0xa5, TAGRV_UUID_LEN);
	rec->src_epoch = 0x11223344;
	rec->dst_epoch = 0x55667788;
	rec->max_packet = 8192;
	rec->addr = make_addr(family);
	memset(rec->src_nonce, 0x3c, TAGRV_NONCE_LEN);
	memset(rec->dst_nonce, 0xc3, TAGRV_NONCE_LEN);
	rec->link_cnt = links;
	for (size_t i = 0; i < links; i++) {
		rec->links[i].wire_id = (uint8_t) (i + 1);
		rec->links[i].rail = (uint8_t) i;
		rec->links[i].len = (uint8_t) (i * 9 + 1);
		rec->links[i].max_packet = (uint32_t) (8192 + i);
		memset(rec->links[i].data, (int) i + 1, rec->links[i].len);
	}
}

Test(wireup_rec, encoded_records_are_decoded, .timeout = 10)
{
	static const int families[] = { AF_INET, AF_INET6, 0 };
	struct tagrv_wireup_rec rec, out;
	uint8_t buf[TAGRV_WIREUP_REC_MAX];

	for (int type = TAGRV_WIREUP_REQ; type <= TAGRV_WIREUP_ANSWER; type++) {
		for (size_t i = 0; i < 3; i++) {
			bool needed = type <= TAGRV_WIREUP_REP;
			size_t len, links = (type + i) % 9;
			int ret;

			fill(&rec, (enum tagrv_wireup_rec_type) type,
			     families[i], links);
			len = tagrv_wireup_rec_encode(&rec, buf);
			cr_assert_leq(len, TAGRV_WIREUP_REC_MAX);
			cr_assert_eq(tagrv_wireup_rec_length(buf, len),
				     (ssize_t) len);
			ret = tagrv_wireup_rec_decode(buf, len, &out);
			if (needed && !families[i]) {
				cr_assert_eq(ret, -FI_EINVAL);
				continue;
			}
			cr_assert_eq(ret, 0);
			cr_assert(!memcmp(&rec, &out, sizeof(rec)));
		}
	}
}

Test(wireup_rec, longest_record_fits, .timeout = 10)
{
	struct tagrv_wireup_rec rec, out;
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len;

	fill(&rec, TAGRV_WIREUP_REQ, AF_INET6, TAGRV_WIREUP_LINKS_MAX);
	for (size_t i = 0; i < TAGRV_WIREUP_LINKS_MAX; i++) {
		rec.links[i].len = TAGRV_BLOB_MAX;
		memset(rec.links[i].data, 0xee, TAGRV_BLOB_MAX);
	}
	len = tagrv_wireup_rec_encode(&rec, buf);
	cr_assert_leq(len, TAGRV_WIREUP_REC_MAX);
	cr_assert_eq(tagrv_wireup_rec_decode(buf, len, &out), 0);
	cr_assert(!memcmp(&rec, &out, sizeof(rec)));
}

/* All releases must use these bytes: docs/wire_protocol.md. */
Test(wireup_rec, bytes_are_as_documented, .timeout = 10)
{
	static const uint8_t want[] = {
		't', 'a', 'g', 'r', 'v', 'w', 'i', 'r',
		0, 137, 1, 3, 0, 1, 0, 3,
		1, 2, 3, 4, 5, 6, 7, 8,
		0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
		0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
		0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5,
		0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5,
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
		0, 0, 0x20, 0, 1, 0, 0, 0,
		4, 0, 0x13, 0x88, 0, 0, 0, 0,
		10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c,
		0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c,
		0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
		0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
		1, 0, 1, 0, 1,
		0, 0, 0x20, 0,
	};
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec;

	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 1);
	cr_assert_eq(tagrv_wireup_rec_encode(&rec, buf), sizeof(want));
	cr_assert_arr_eq(buf, want, sizeof(want));
}

/* Decodes a copy of exactly this length, so that a sanitizer finds reads beyond its end. */
static int decode_copy(const uint8_t *buf, size_t len,
		       struct tagrv_wireup_rec *out)
{
	uint8_t *copy = malloc(len ? len : 1);
	int ret;

	memcpy(copy, buf, len);
	ret = tagrv_wireup_rec_decode(copy, len, out);
	free(copy);
	return ret;
}

Test(wireup_rec, truncated_records_are_refused, .timeout = 10)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;
	size_t len;

	fill(&rec, TAGRV_WIREUP_REP, AF_INET6, 3);
	len = tagrv_wireup_rec_encode(&rec, buf);
	for (size_t cut = 0; cut < len; cut++) {
		/* The length field is still that of the whole record ... */
		cr_assert_eq(decode_copy(buf, cut, &out), -FI_EINVAL);
		if (cut >= 10)
			cr_assert_eq(tagrv_wireup_rec_length(buf, cut),
				     (ssize_t) len);
		else
			cr_assert_eq(tagrv_wireup_rec_length(buf, cut), 0);
	}
	for (size_t cut = 10; cut < len; cut++) {
		/* ... or that of the truncated one; for missing sizes see below. */
		buf[8] = (uint8_t) (cut >> 8);
		buf[9] = (uint8_t) cut;
		if (cut == len - 3 * 4)
			continue;
		cr_assert_eq(decode_copy(buf, cut, &out), -FI_EINVAL);
	}
}

/* A decoded record can be encoded and decoded again with the same result. */
static void check_consistent(const struct tagrv_wireup_rec *rec)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec out;
	size_t len = tagrv_wireup_rec_encode(rec, buf);

	cr_assert_leq(len, TAGRV_WIREUP_REC_MAX);
	cr_assert_eq(tagrv_wireup_rec_decode(buf, len, &out), 0);
	cr_assert(!memcmp(rec, &out, sizeof(out)));
}

Test(wireup_rec, corrupted_bits_do_no_harm, .timeout = 20)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;
	size_t len, refused = 0;

	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 3);
	len = tagrv_wireup_rec_encode(&rec, buf);
	for (size_t bit = 0; bit < len * 8; bit++) {
		int ret;

		buf[bit / 8] ^= (uint8_t) (1 << bit % 8);
		ret = decode_copy(buf, len, &out);
		buf[bit / 8] ^= (uint8_t) (1 << bit % 8);
		if (!ret)
			check_consistent(&out);
		else
			refused++;
		if (bit < 80)
			cr_assert_eq(ret, -FI_EINVAL, "magic or length");
	}
	cr_assert_gt(refused, 100);
}

Test(wireup_rec, random_bytes_are_no_record, .timeout = 20)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec out;

	srand(1);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t) rand() % sizeof(buf) + 1;

		for (size_t n = 0; n < len; n++)
			buf[n] = (uint8_t) rand();
		cr_assert_neq(decode_copy(buf, len, &out), 0);
		/* Past the magic, into the body. */
		if (len < 32)
			continue;
		memcpy(buf, TAGRV_WIREUP_MAGIC, 8);
		buf[8] = (uint8_t) (len >> 8);
		buf[9] = (uint8_t) len;
		buf[10] = (uint8_t) (rand() % 7);
		memcpy(buf + 12, "\0\1\0\1", 4);
		if (len > 100) {
			buf[68] = (uint8_t) (rand() % 10);
			buf[72] = (uint8_t) (rand() % 8);
		}
		if (!decode_copy(buf, len, &out))
			check_consistent(&out);
	}
}

Test(wireup_rec, lengths_are_told_early, .timeout = 10)
{
	uint8_t buf[16] = TAGRV_WIREUP_MAGIC;

	cr_assert_eq(tagrv_wireup_rec_length("x", 1), -FI_EINVAL);
	cr_assert_eq(tagrv_wireup_rec_length("tagrvwix", 8), -FI_EINVAL);
	cr_assert_eq(tagrv_wireup_rec_length("tagrvwir", 8), 0);
	buf[8] = 0;
	buf[9] = TAGRV_WIREUP_REC_HEAD - 1;
	cr_assert_eq(tagrv_wireup_rec_length(buf, 16), -FI_EINVAL);
	buf[9] = TAGRV_WIREUP_REC_HEAD;
	cr_assert_eq(tagrv_wireup_rec_length(buf, 16), TAGRV_WIREUP_REC_HEAD);
	buf[8] = TAGRV_WIREUP_REC_MAX >> 8;
	buf[9] = 0;
	cr_assert_eq(tagrv_wireup_rec_length(buf, 16), TAGRV_WIREUP_REC_MAX);
	buf[9] = 1;
	cr_assert_eq(tagrv_wireup_rec_length(buf, 16), -FI_EINVAL);
}

Test(wireup_rec, future_version_is_understood_as_far_as_its_head, .timeout = 10)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;

	fill(&rec, TAGRV_WIREUP_REJ, AF_INET, 0);
	rec.reason = TAGRV_WIREUP_VERSION;
	rec.version_min = TAGRV_WIRE_VERSION + 1;
	rec.version_max = TAGRV_WIRE_VERSION + 5;
	tagrv_wireup_rec_encode(&rec, buf);
	/* The body may have any bytes, or be missing. */
	memset(buf + TAGRV_WIREUP_REC_HEAD, 0xff, 200);
	for (size_t len = TAGRV_WIREUP_REC_HEAD; len < 200; len++) {
		buf[8] = (uint8_t) (len >> 8);
		buf[9] = (uint8_t) len;
		cr_assert_eq(decode_copy(buf, len, &out), -FI_ENOPROTOOPT);
		cr_assert_eq(out.type, TAGRV_WIREUP_REJ);
		cr_assert_eq(out.reason, TAGRV_WIREUP_VERSION);
		cr_assert_eq(out.version_min, TAGRV_WIRE_VERSION + 1);
		cr_assert_eq(out.version_max, TAGRV_WIRE_VERSION + 5);
		cr_assert_eq(out.link_cnt, 0);
	}
	/* The same for an earlier version. */
	memset(buf + 12, 0, 4);
	cr_assert_eq(decode_copy(buf, 199, &out), -FI_ENOPROTOOPT);
	/* A record without any version is invalid. */
	buf[13] = 2;
	cr_assert_eq(decode_copy(buf, 199, &out), -FI_EINVAL);
}

Test(wireup_rec, later_fields_are_skipped, .timeout = 10)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;
	size_t len;

	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 2);
	len = tagrv_wireup_rec_encode(&rec, buf);
	memset(buf + len, 0xcc, 40);
	len += 40;
	buf[8] = (uint8_t) (len >> 8);
	buf[9] = (uint8_t) len;
	cr_assert_eq(decode_copy(buf, len, &out), 0);
	cr_assert(!memcmp(&rec, &out, sizeof(rec)));
}

Test(wireup_rec, links_without_a_size_have_the_one_of_all, .timeout = 10)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;
	size_t len;

	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 2);
	rec.max_packet = 300;
	len = tagrv_wireup_rec_encode(&rec, buf) - 2 * 4;
	buf[9] = (uint8_t) len;
	cr_assert_lt(len, 256);
	cr_assert_eq(decode_copy(buf, len, &out), 0);
	cr_assert_eq(out.links[0].max_packet, 300);
	cr_assert_eq(out.links[1].max_packet, 300);
}

static void refuse_changed(size_t pos, uint8_t value)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;
	size_t len;

	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 2);
	len = tagrv_wireup_rec_encode(&rec, buf);
	buf[pos] = value;
	cr_assert_eq(decode_copy(buf, len, &out), -FI_EINVAL,
		     "byte %zu as %u", pos, value);
}

Test(wireup_rec, senseless_values_are_refused, .timeout = 10)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec, out;
	size_t len;

	refuse_changed(10, 0);		/* types */
	refuse_changed(10, 8);
	refuse_changed(68, TAGRV_WIREUP_LINKS_MAX + 1);
	refuse_changed(68, 3);		/* more links than there are */
	refuse_changed(72, 5);		/* family */
	refuse_changed(72, 0);
	refuse_changed(130, TAGRV_BLOB_MAX + 1);
	refuse_changed(130, 200);
	/* Values with which no connection can be made. */
	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 1);
	memset(rec.src_uuid, 0, TAGRV_UUID_LEN);
	len = tagrv_wireup_rec_encode(&rec, buf);
	cr_assert_eq(decode_copy(buf, len, &out), -FI_EINVAL);
	fill(&rec, TAGRV_WIREUP_REQ, AF_INET, 1);
	rec.src_epoch = 0;
	len = tagrv_wireup_rec_encode(&rec, buf);
	cr_assert_eq(decode_copy(buf, len, &out), -FI_EINVAL);
	fill(&rec, TAGRV_WIREUP_REP, AF_INET, 1);
	rec.max_packet = TAGRV_WIREUP_PACKET_MIN - 1;
	len = tagrv_wireup_rec_encode(&rec, buf);
	cr_assert_eq(decode_copy(buf, len, &out), -FI_EINVAL);
	fill(&rec, TAGRV_WIREUP_REP, AF_INET, 2);
	rec.links[1].max_packet = TAGRV_WIREUP_PACKET_MIN - 1;
	len = tagrv_wireup_rec_encode(&rec, buf);
	cr_assert_eq(decode_copy(buf, len, &out), -FI_EINVAL);
	fill(&rec, TAGRV_WIREUP_REP, AF_INET6, 1);
	tagrv_addr_set_port(&rec.addr, 0);
	len = tagrv_wireup_rec_encode(&rec, buf);
	cr_assert_eq(decode_copy(buf, len, &out), -FI_EINVAL);
}
