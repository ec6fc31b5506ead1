/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Bytes of messages, which differ from message to message and from place to place: see side.h.
 */
#include "side.h"

#include <string.h>

#include "oob.h"

static uint8_t pattern(uint64_t message, size_t i)
{
	return (uint8_t)(message * 31 + i * 7 + (i >> 8));
}

void side_fill(struct side *s, size_t size)
{
	char *buf = endpoint_wait_slot(&s->e);

	for (size_t i = 0; i < size; i++)
		buf[i] = (char)pattern(s->e.sent, i);
}

/* Clears the slot, so that what was right once is not taken for the next message. */
void side_verify(struct side *s, size_t size)
{
	char *buf = endpoint_taken_slot(&s->e);

	for (size_t i = 0; i < size; i++)
		if ((uint8_t)buf[i] != pattern(s->taken, i))
			bench_die("message %llu of %zu bytes: wrong byte at %zu",
				  (unsigned long long)s->taken, size, i);
	memset(buf, 0, size);
	s->taken++;
}
