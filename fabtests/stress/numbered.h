/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that carry their own number, for programs in which a receive does not know what it
 * gets: the number and the length come first, then a pattern that depends on the number.
 */
#ifndef STRESS_NUMBERED_H
#define STRESS_NUMBERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBERED_HEAD = 16 };	/* bytes; a shorter message cannot be checked */

/* Of a message that is shorter than the head, the beginning of the head is written. */
void numbered_fill(void *buf, size_t len, uint64_t number);
/*
 * Writes the number of a received message of at least NUMBERED_HEAD bytes to *number. False: it
 * was not sent with this length, or its content differs.
 */
bool numbered_check(const void *buf, size_t len, uint64_t *number);

#endif
