/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies of many bytes: see bulk.h. On processors other than x86 it is memcpy.
 *
 *   to    |----|----------------------- ... -----|----|
 *          head  whole lines, aligned in 'to'      tail
 *
 * Head and tail are moves of 16 and 64 bytes that overlap with the lines. The tail is
 * loaded first, so that no byte is loaded twice with a store in between.
 */
#include "core/bulk.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

/* 16 bytes at any place, of any type. */
typedef uint64_t vec __attribute__((vector_size(16), aligned(1), may_alias));
/* The same at a multiple of 16. */
typedef uint64_t aligned_vec __attribute__((vector_size(16), may_alias));

#define VEC	sizeof(vec)
#define LINE	(4 * VEC)

void tagrv_copy_long(void *restrict to, const void *restrict from, size_t len)
{
	const char *src = from, *src_end = src + len;
	char *dst = to, *dst_end = dst + len;
	size_t head = VEC - ((uintptr_t) dst & (VEC - 1));
	const vec *tail = (const vec *) (const void *) (src_end - LINE);
	vec a = tail[0], b = tail[1], c = tail[2], d = tail[3];

	assert(len >= LINE);
	*(vec *) (void *) dst = *(const vec *) (const void *) src;
	for (dst += head, src += head; dst + LINE < dst_end;
	     dst += LINE, src += LINE) {
		const vec *in = (const vec *) (const void *) src;
		aligned_vec *out = (aligned_vec *) (void *) dst;
		vec p = in[0], q = in[1], r = in[2], s = in[3];

		/* Keeps the compiler from calling memcpy for the loop. */
		__asm__("" : "+x" (p), "+x" (q));
		out[0] = p;
		out[1] = q;
		out[2] = r;
		out[3] = s;
	}
	((vec *) (void *) (dst_end - LINE))[0] = a;
	((vec *) (void *) (dst_end - LINE))[1] = b;
	((vec *) (void *) (dst_end - LINE))[2] = c;
	((vec *) (void *) (dst_end - LINE))[3] = d;
}

#else

void tagrv_copy_long(void *restrict to, const void *restrict from, size_t len)
{
	memcpy(to, from, len);
}

#endif
