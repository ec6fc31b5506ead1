/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Models of devices as numbers and as text: see model.h.
 */
#include "xport/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/compiler.h"

#define VENDOR_MAX	0xffffffu
#define PRODUCT_MAX	0xffffu
#define MBITS_MAX	0xffffffu

uint64_t tagrv_model_of(uint32_t vendor, uint32_t product, uint64_t speed)
{
	uint64_t mbits = TAGRV_MIN(speed / 1000000, (uint64_t) MBITS_MAX);

	if (!vendor && !product)
		return 0;
	return (uint64_t) (vendor & VENDOR_MAX) << 40 |
	       (uint64_t) (product & PRODUCT_MAX) << 24 | mbits;
}

const char *tagrv_model_text(uint64_t model, char *text, size_t size)
{
	if (!model)
		snprintf(text, size, "?");
	else
		snprintf(text, size, "%" PRIx64 ":%" PRIx64 "@%" PRIu64, model >> 40,
			 model >> 24 & PRODUCT_MAX, model & MBITS_MAX);
	return text;
}

static int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int) (found - digits) : -1;
}

/* Reads a number of at most 'max' at *pos, and 'behind' after it. */
static bool parse_number(const char **pos, unsigned base, uint64_t max, char behind,
			 uint64_t *value)
{
	const char *start = *pos;

	*value = 0;
	for (int digit; (digit = digit_of(**pos)) >= 0 && (unsigned) digit < base; ++*pos) {
		*value = *value * base + (unsigned) digit;
		if (*value > max)
			return false;
	}
	return *pos > start && *(*pos)++ == behind;
}

bool tagrv_model_parse(const char *text, uint64_t *model)
{
	uint64_t vendor, product, mbits;

	if (!parse_number(&text, 16, VENDOR_MAX, ':', &vendor) ||
	    !parse_number(&text, 16, PRODUCT_MAX, '@', &product) ||
	    !parse_number(&text, 10, MBITS_MAX, '\0', &mbits))
		return false;
	*model = tagrv_model_of((uint32_t) vendor, (uint32_t) product, mbits * 1000000);
	return *model != 0;
}
