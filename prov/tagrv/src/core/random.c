/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random bytes: see random.h.
 */
#include "core/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

int tagrv_random_fill(void *data, size_t len)
{
	uint8_t *at = data;

	while (len) {
		ssize_t got = getrandom(at, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		at += got;
		len -= (size_t) got;
	}
	return 0;
}
