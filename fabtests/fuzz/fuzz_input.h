/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bytes that a fuzzer gives, read one by one.
 */
#ifndef FABTESTS_FUZZ_INPUT_H
#define FABTESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *pos;
	size_t	left;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next byte; 0 once there is none left. */
static inline uint8_t next(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->pos++;
}

#endif
