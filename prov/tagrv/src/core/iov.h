/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Arrays of struct iovec: total length, copies into and out of them; ranges.
 */
#ifndef TAGRV_CORE_IOV_H
#define TAGRV_CORE_IOV_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "core/compiler.h"

static inline size_t tagrv_iov_len(const struct iovec *iov, size_t cnt)
{
	size_t len = 0;

	if (TAGRV_LIKELY(cnt == 1))
		return iov[0].iov_len;
	for (size_t i = 0; i < cnt; i++)
		len += iov[i].iov_len;
	return len;
}

/* Does a range lie within memory of 'size' bytes at 'base'? Nothing wraps. */
static inline bool tagrv_range_within(uint64_t addr, uint64_t len,
				      uint64_t base, uint64_t size)
{
	return addr >= base && addr - base <= size &&
	       len <= size - (addr - base);
}

/*
 * memcpy that calls nobody for few bytes: two moves, which may cover the same
 * bytes of 'to'.
 */
static inline void tagrv_copy(void *restrict to, const void *restrict from,
			      size_t len)
{
	const char *src = from;
	char *dst = to;

	/* Or branches that a short array never takes would draw warnings. */
	__asm__("" : "+r" (dst), "+r" (src));
	if (len > 64) {
		memcpy(dst, src, len);
	} else if (len >= 32) {
		memcpy(dst, src, 32);
		memcpy(dst + len - 32, src + len - 32, 32);
	} else if (len >= 16) {
		memcpy(dst, src, 16);
		memcpy(dst + len - 16, src + len - 16, 16);
	} else if (len >= 8) {
		memcpy(dst, src, 8);
		memcpy(dst + len - 8, src + len - 8, 8);
	} else if (len >= 4) {
		memcpy(dst, src, 4);
		memcpy(dst + len - 4, src + len - 4, 4);
	} else {
		for (size_t i = 0; i < len; i++)
			dst[i] = src[i];
	}
}

/*
 * Copies up to 'len' bytes of buf into the iovecs. Returns the bytes copied,
 * which is less than 'len' where the iovecs are shorter.
 */
static inline size_t tagrv_iov_scatter(const struct iovec *iov, size_t cnt,
				       const void *buf, size_t len)
{
	size_t done = 0;

	for (size_t i = 0; i < cnt && done < len; i++) {
		size_t n = TAGRV_MIN(iov[i].iov_len, len - done);

		if (n)
			tagrv_copy(iov[i].iov_base, (const char *) buf + done,
				   n);
		done += n;
	}
	return done;
}

/*
 * The part of len bytes behind the first 'skip' as iovecs of its own; all of it
 * must be there. out has room for cnt. Returns how many are used.
 */
static inline size_t tagrv_iov_slice(struct iovec *out, const struct iovec *iov,
				     size_t cnt, size_t skip, size_t len)
{
	size_t used = 0;

	for (size_t i = 0; i < cnt && len; i++) {
		size_t n = iov[i].iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = TAGRV_MIN(n - skip, len);
		out[used++] = (struct iovec) {
			(char *) iov[i].iov_base + skip, n,
		};
		skip = 0;
		len -= n;
	}
	return used;
}

/* Copies the iovecs into buf, which has room for all of them. */
static inline size_t tagrv_iov_gather(void *buf, const struct iovec *iov,
				      size_t cnt)
{
	size_t done = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (iov[i].iov_len)
			tagrv_copy((char *) buf + done, iov[i].iov_base,
				   iov[i].iov_len);
		done += iov[i].iov_len;
	}
	return done;
}

/*
 * One word that is moved as such. What was written word by word a moment ago
 * and is read back in pairs, as compilers like to copy structures, has to wait
 * until the processor has it in its cache.
 */
static inline uint64_t tagrv_word_load(const void *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	__asm__ volatile("" : "+r" (word) : : "memory");
	return word;
}

static inline void tagrv_word_copy(void *to, const void *from)
{
	uint64_t word = tagrv_word_load(from);

	memcpy(to, &word, sizeof(word));
}

/*
 * Copies what somebody else can change at any time, for once and for all: what is
 * checked and what is used afterwards is the copy, even if the compiler would
 * rather read the original again.
 */
static inline void tagrv_copy_once(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" : : : "memory");
}

#endif
