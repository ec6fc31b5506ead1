/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * HMAC-SHA256 by nettle: see auth_mac.h.
 */
#include "auth/auth_mac.h"

#include <assert.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/version.h>
#include <string.h>

static_assert(TAGRV_MAC_LEN == SHA256_DIGEST_SIZE, "length of a SHA-256");

void tagrv_mac_compute(const void *key, size_t key_len,
		       const struct tagrv_mac_part *parts, size_t cnt,
		       uint8_t mac[TAGRV_MAC_LEN])
{
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, key_len, key);
	for (size_t i = 0; i < cnt; i++)
		hmac_sha256_update(&ctx, parts[i].len, parts[i].data);
#if NETTLE_VERSION_MAJOR >= 4
	hmac_sha256_digest(&ctx, mac);
#else
	hmac_sha256_digest(&ctx, TAGRV_MAC_LEN, mac);
#endif
	tagrv_mac_wipe(&ctx, sizeof(ctx));
}

bool tagrv_mac_equal(const void *a, const void *b, size_t len)
{
	return memeql_sec(a, b, len);
}

void tagrv_mac_wipe(void *data, size_t len)
{
	explicit_bzero(data, len);
}
