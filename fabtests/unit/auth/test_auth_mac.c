/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * auth_mac.c: the vectors of RFC 4231 for HMAC-SHA256, comparison.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth_mac.h"

struct vector {
	const char *key, *data, *mac;	/* in hexadecimal digits */
};

#define TIMES5(x)	x x x x x
#define TIMES10(x)	TIMES5(x) TIMES5(x)
#define TIMES131(x)	TIMES10(TIMES10(x)) TIMES10(x) TIMES10(x) TIMES10(x) x

/* Test cases 1 to 4, 6 and 7; case 5 is of a truncated MAC. */
static const struct vector vectors[] = {
	{ TIMES10("0b") TIMES10("0b"), "4869205468657265",
	  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
	{ "4a656665",
	  "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
	  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
	{ TIMES10("aa") TIMES10("aa"), TIMES10(TIMES5("dd")),
	  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
	{ "0102030405060708090a0b0c0d0e0f10111213141516171819",
	  TIMES10(TIMES5("cd")),
	  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
	{ TIMES131("aa"),
	  "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a"
	  "65204b6579202d2048617368204b6579204669727374",
	  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	{ TIMES131("aa"),
	  "5468697320697320612074657374207573696e672061206c6172676572207468"
	  "616e20626c6f636b2d73697a65206b657920616e642061206c61726765722074"
	  "68616e20626c6f636b2d73697a6520646174612e20546865206b6579206e6565"
	  "647320746f20626520686173686564206265666f7265206265696e6720757365"
	  "642062792074686520484d414320616c676f726974686d2e",
	  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t len = strlen(hex) / 2;
	unsigned value;

	for (size_t i = 0; i < len; i++) {
		cr_assert_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
		bytes[i] = (uint8_t) value;
	}
	return len;
}

Test(auth_mac, computes_the_vectors_of_rfc_4231)
{
	uint8_t key[256], data[256], want[TAGRV_MAC_LEN], mac[TAGRV_MAC_LEN];

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(vectors); i++) {
		size_t key_len = from_hex(vectors[i].key, key);
		size_t len = from_hex(vectors[i].data, data);
		struct tagrv_mac_part part = { data, len };

		from_hex(vectors[i].mac, want);
		tagrv_mac_compute(key, key_len, &part, 1, mac);
		cr_expect_arr_eq(mac, want, TAGRV_MAC_LEN, "case %zu", i);
	}
}

Test(auth_mac, parts_are_one_run_of_bytes)
{
	const struct tagrv_mac_part whole = { "abcdef", 6 };
	const struct tagrv_mac_part parts[] = {
		{ "abc", 3 }, { "", 0 }, { NULL, 0 }, { "d", 1 }, { "ef", 2 },
	};
	uint8_t a[TAGRV_MAC_LEN], b[TAGRV_MAC_LEN];

	tagrv_mac_compute("key", 3, &whole, 1, a);
	tagrv_mac_compute("key", 3, parts, TAGRV_ARRAY_SIZE(parts), b);
	cr_expect_arr_eq(a, b, TAGRV_MAC_LEN);
}

Test(auth_mac, comparison_finds_every_bit)
{
	uint8_t a[TAGRV_MAC_LEN] = { 1, 2, 3 }, b[TAGRV_MAC_LEN];

	memcpy(b, a, sizeof(b));
	cr_expect(tagrv_mac_equal(a, b, sizeof(a)));
	for (size_t bit = 0; bit < sizeof(a) * 8; bit++) {
		b[bit / 8] ^= (uint8_t) (1u << bit % 8);
		cr_expect_not(tagrv_mac_equal(a, b, sizeof(a)), "bit %zu", bit);
		b[bit / 8] = a[bit / 8];
	}
}

Test(auth_mac, wiping_leaves_zeros)
{
	uint8_t secret[64];
	static const uint8_t zeros[64];

	memset(secret, 0x5a, sizeof(secret));
	tagrv_mac_wipe(secret, sizeof(secret));
	cr_expect_arr_eq(secret, zeros, sizeof(secret));
}
