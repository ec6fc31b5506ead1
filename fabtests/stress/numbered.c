/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that carry their own number: see numbered.h.
 */
#include "numbered.h"

#include <string.h>

#include "framework/pattern.h"

void numbered_fill(void *buf, size_t len, uint64_t number)
{
	uint64_t head[2] = { number, len };

	memcpy(buf, head, len < NUMBERED_HEAD ? len : NUMBERED_HEAD);
	if (len > NUMBERED_HEAD)
		pattern_fill((uint8_t *)buf + NUMBERED_HEAD, len - NUMBERED_HEAD, number);
}

bool numbered_check(const void *buf, size_t len, uint64_t *number)
{
	uint64_t head[2];

	memcpy(head, buf, sizeof(head));
	*number = head[0];
	len -= NUMBERED_HEAD;
	return head[1] == len + NUMBERED_HEAD &&
	       pattern_check((const uint8_t *)buf + NUMBERED_HEAD, len, head[0]) == len;
}
