/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The blob of a verbs link: layout, and refusal of wrong values.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "xport/verbs/verbs_priv.h"

static struct verbs_blob sample(void)
{
	return (struct verbs_blob) {
		.qpn = 0x012345, .psn = 0xabcdef, .max_packet = 8384,
		.lid = 0x1234, .mtu = IBV_MTU_4096, .rd_in = 16, .rd_out = 8, .admits = 3,
		.net = VERBS_NET_ROCE_V2, .permits = 0x0123, .part = 4000, .prefix = 24, .thin = true,
		.gid = { .raw = { [10] = 0xff, [11] = 0xff, [15] = 1 } },
	};
}

/* The same of a side with a list of receives. */
static struct verbs_blob sample_two(void)
{
	struct verbs_blob blob = sample();

	blob.two = blob.list = true;
	blob.number = 0x1234;
	blob.in_qpn = 0x056789;
	blob.in_psn = 0xfedcba;
	return blob;
}

static int repack(const struct verbs_blob *blob)
{
	char buf[TAGRV_BLOB_MAX];
	struct verbs_blob out;

	return tagrv_verbs_blob_unpack(&out, buf,
				       tagrv_verbs_blob_pack(blob, buf));
}

Test(verbs_blob, survives_the_wire, .timeout = 5)
{
	struct verbs_blob in = sample(), out;
	unsigned char buf[TAGRV_BLOB_MAX];
	size_t len = tagrv_verbs_blob_pack(&in, buf);

	cr_assert_eq(len, 44);
	cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len), 0);
	cr_assert(out.qpn == in.qpn && out.psn == in.psn &&
		  out.max_packet == in.max_packet && out.lid == in.lid &&
		  out.mtu == in.mtu && out.rd_in == in.rd_in &&
		  out.rd_out == in.rd_out && out.net == in.net &&
		  out.admits == in.admits &&
		  out.permits == in.permits && out.thin == in.thin && out.part == in.part &&
		  out.prefix == in.prefix &&
		  !memcmp(&out.gid, &in.gid, sizeof(in.gid)));
}

Test(verbs_blob, layout_is_fixed, .timeout = 5)
{
	static const unsigned char expected[24] = {
		2, 2, 5, 16, 8, 3, 0x0f, 0xa0,
		0x00, 0x01, 0x23, 0x45, 0x00, 0xab, 0xcd, 0xef,
		0x00, 0x00, 0x20, 0xc0, 0x12, 0x34, 0x01, 0x23,
	};
	struct verbs_blob in = sample();
	unsigned char buf[TAGRV_BLOB_MAX];

	tagrv_verbs_blob_pack(&in, buf);
	cr_assert_arr_eq(buf, expected, sizeof(expected));
	cr_assert_arr_eq(buf + 24, in.gid.raw, 16);
	cr_assert_eq(memcmp(buf + 40, "\x18\x01\0", 4), 0);
}

Test(verbs_blob, second_queue_pair_survives_the_wire, .timeout = 5)
{
	struct verbs_blob in = sample_two(), out;
	unsigned char buf[TAGRV_BLOB_MAX];
	size_t len = tagrv_verbs_blob_pack(&in, buf);

	cr_assert_eq(len, 52);
	cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len), 0);
	cr_assert(out.two && out.list && out.thin && out.number == 0x1234 &&
		  out.in_qpn == in.in_qpn && out.in_psn == in.in_psn && out.qpn == in.qpn);
	in.list = in.thin = false;
	in.number = 0;
	len = tagrv_verbs_blob_pack(&in, buf);
	cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len), 0);
	cr_assert(out.two && !out.list && !out.thin && !out.number && out.in_qpn == in.in_qpn);
}

Test(verbs_blob, layout_of_a_second_queue_pair_is_fixed, .timeout = 5)
{
	static const unsigned char expected[12] = {
		24, 7, 0x12, 0x34, 0x00, 0x05, 0x67, 0x89, 0x00, 0xfe, 0xdc, 0xba,
	};
	struct verbs_blob in = sample_two(), plain = sample();
	unsigned char buf[TAGRV_BLOB_MAX], other[TAGRV_BLOB_MAX];

	tagrv_verbs_blob_pack(&in, buf);
	tagrv_verbs_blob_pack(&plain, other);
	cr_assert_arr_eq(buf, other, 40);
	cr_assert_arr_eq(buf + 40, expected, sizeof(expected));
}

/* Bytes behind what is known come from a later release. */
static void check_lengths(const struct verbs_blob *in)
{
	unsigned char buf[TAGRV_BLOB_MAX];
	struct verbs_blob out;
	size_t len = tagrv_verbs_blob_pack(in, buf);

	memset(buf + len, 0xff, sizeof(buf) - len);
	for (size_t i = 0; i <= TAGRV_BLOB_MAX; i++)
		cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, i),
			     i >= len ? 0 : -FI_EINVAL, "%zu", i);
}

Test(verbs_blob, short_ones_are_refused_and_long_ones_are_not, .timeout = 5)
{
	struct verbs_blob plain = sample(), two = sample_two();

	check_lengths(&plain);
	check_lengths(&two);
}

/* Behind all else, so that a release that does not know of it skips it. */
Test(verbs_blob, a_model_comes_last, .timeout = 5)
{
	struct verbs_blob kinds[] = { sample(), sample_two() }, out;
	unsigned char buf[TAGRV_BLOB_MAX];

	for (size_t i = 0; i < 2; i++) {
		size_t plain = tagrv_verbs_blob_pack(&kinds[i], buf), len;

		kinds[i].model = 0x0102030405060708;
		len = tagrv_verbs_blob_pack(&kinds[i], buf);
		cr_assert_eq(len, plain + 8);
		cr_assert_arr_eq(buf + plain, "\1\2\3\4\5\6\7\10", 8);
		cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len), 0);
		cr_assert_eq(out.model, kinds[i].model);
		cr_assert(out.two == kinds[i].two && out.number == kinds[i].number);
		check_lengths(&kinds[i]);
		/* Without its bit these bytes are a later release's. */
		buf[41] &= (unsigned char) ~8u;
		cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len), 0);
		cr_assert_eq(out.model, 0);
		buf[41] |= 8;
		cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len + 5), 0);
		cr_assert_eq(out.model, kinds[i].model);
	}
}

Test(verbs_blob, wrong_version_is_refused, .timeout = 5)
{
	struct verbs_blob in = sample(), out;
	unsigned char buf[TAGRV_BLOB_MAX];
	size_t len = tagrv_verbs_blob_pack(&in, buf);

	buf[0]++;
	cr_assert_eq(tagrv_verbs_blob_unpack(&out, buf, len), -FI_EINVAL);
}

#define REFUSED_OF(from, field, value) \
	do { \
		struct verbs_blob bad = from; \
		bad.field = (value); \
		cr_assert_eq(repack(&bad), -FI_EINVAL, #field " " #value); \
	} while (0)
#define REFUSED(field, value) REFUSED_OF(sample(), field, value)
#define REFUSED_TWO(field, value) REFUSED_OF(sample_two(), field, value)

Test(verbs_blob, values_out_of_range_are_refused, .timeout = 5)
{
	struct verbs_blob good = sample();

	cr_assert_eq(repack(&good), 0);
	REFUSED(qpn, 0);
	REFUSED(qpn, 1);
	REFUSED(qpn, 0x1000000);
	REFUSED(psn, 0x1000000);
	REFUSED(mtu, 0);
	REFUSED(mtu, 6);
	REFUSED(net, 3);
	REFUSED(prefix, 129);
	REFUSED(rd_in, 0);
	REFUSED(rd_out, 0);
	REFUSED(max_packet, 0);
	REFUSED(max_packet, 191);
	REFUSED(gid, (union ibv_gid) { .raw = { 0 } });
}

Test(verbs_blob, second_queue_pair_out_of_range_is_refused, .timeout = 5)
{
	struct verbs_blob good = sample_two();

	cr_assert_eq(repack(&good), 0);
	REFUSED_TWO(in_qpn, 1);
	REFUSED_TWO(in_qpn, 0x1000000);
	REFUSED_TWO(in_qpn, good.qpn);
	REFUSED_TWO(in_psn, 0x1000000);
	good.number = 0x3fff;
	cr_assert_eq(repack(&good), 0);
	REFUSED_TWO(number, 0x4000);
	REFUSED_TWO(number, 0xffff);
	REFUSED_TWO(qpn, 0);
}

Test(verbs_blob, list_needs_two_queue_pairs_and_a_number_needs_a_list, .timeout = 5)
{
	REFUSED(list, true);
	REFUSED(number, 1);
	REFUSED_TWO(list, false);
	REFUSED_TWO(two, false);
	REFUSED_TWO(number, 0);
}

Test(verbs_blob, infiniband_needs_a_unicast_lid_or_a_gid, .timeout = 5)
{
	struct verbs_blob blob = sample();

	blob.net = VERBS_NET_IB;
	cr_assert_eq(repack(&blob), 0);
	blob.lid = 0;
	cr_assert_eq(repack(&blob), 0, "the gid will do");
	blob.gid = (union ibv_gid) { .raw = { 0 } };
	cr_assert_eq(repack(&blob), -FI_EINVAL);
	blob = sample();
	blob.net = VERBS_NET_IB;
	blob.lid = 0xc000;
	cr_assert_eq(repack(&blob), -FI_EINVAL);
}

/* Random bytes cause no crash, and accepted values are in range. */
Test(verbs_blob, random_bytes_do_no_harm, .timeout = 10)
{
	uint64_t state = 88172645463325252ull;
	unsigned char buf[TAGRV_BLOB_MAX];
	struct verbs_blob out;
	unsigned kinds = 0;

	for (int round = 0; round < 200000; round++) {
		for (size_t i = 0; i < 52; i++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			buf[i] = (unsigned char) state;
		}
		buf[0] = 2;
		buf[1] %= 4;
		buf[2] %= 8;
		buf[8] = buf[12] = round & 1;
		buf[44] = buf[48] = round >> 1 & 1;
		if (round & 16)
			buf[42] = buf[43] = 0;
		if (tagrv_verbs_blob_unpack(&out, buf, 44 + round % 9))
			continue;
		kinds |= 1u << (out.two + out.list);
		cr_assert(out.two ? round % 9 == 8 && out.in_qpn > 1 && out.in_qpn <= 0xffffff &&
				    out.in_psn <= 0xffffff :
				    !out.list);
		cr_assert(out.number <= (out.list ? 0x3fff : 0));
		cr_assert(out.qpn <= 0xffffff && out.psn <= 0xffffff &&
			  out.mtu >= 1 && out.mtu <= 5 && out.net <= 2 &&
			  out.max_packet >= 192);
	}
	cr_assert_eq(kinds, 7, "plain ones, with two queue pairs, and with a list");
}
