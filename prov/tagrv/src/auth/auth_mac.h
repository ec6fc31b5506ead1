/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * HMAC-SHA256 (RFC 2104, FIPS 180-4), and what goes with it: comparison in constant
 * time, wiping of secrets. The only files that know which library computes it;
 * README.md tells why it is nettle.
 */
#ifndef TAGRV_AUTH_AUTH_MAC_H
#define TAGRV_AUTH_AUTH_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_MAC_LEN	32

struct tagrv_mac_part {
	const void *data;
	size_t	len;
};

/*
 * Computes the MAC of the parts, as if they were one run of bytes: so that two
 * different lists never mean the same run, all parts but the last have a fixed
 * length. Cannot fail, allocates nothing, and leaves nothing of the key behind.
 */
void tagrv_mac_compute(const void *key, size_t key_len,
		       const struct tagrv_mac_part *parts, size_t cnt,
		       uint8_t mac[TAGRV_MAC_LEN]);

/* The time depends on len only, not on where the bytes differ. */
bool tagrv_mac_equal(const void *a, const void *b, size_t len) TAGRV_WARN_UNUSED;

/* Overwrites a secret; the compiler cannot leave it out. */
void tagrv_mac_wipe(void *data, size_t len);

#endif
