/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Total length of an iovec array, copies into and out of it; tests of ranges;
 * copies of few bytes, of words, and of memory that a peer may change.
 */
#ifndef TAGRV_CORE_IOV_H
#define TAGRV_CORE_IOV_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "core/compiler.h"
#include "core/bulk.h"

/*
 * Returns the bytes of all iovecs together; SIZE_MAX if they are more than a size_t
 * can hold, so that a sum that is checked against a limit has not wrapped.
 */
static inline size_t tagrv_iov_len(const struct iovec *iov, size_t cnt)
{
	size_t len = 0;

	if (TAGRV_LIKELY(cnt == 1))
		return iov[0].iov_len;
	for (size_t i = 0; i < cnt; i++)
		if (__builtin_add_overflow(len, iov[i].iov_len, &len))
			return SIZE_MAX;
	return len;
}

/* Whether a segment has a length but no address, or the segments are missing. */
static inline bool tagrv_iov_lacks_buffer(const struct iovec *iov, size_t cnt)
{
	if (TAGRV_UNLIKELY(cnt && !iov))
		return true;
	for (size_t i = 0; i < cnt; i++)
		if (TAGRV_UNLIKELY(!iov[i].iov_base && iov[i].iov_len))
			return true;
	return false;
}

/*
 * Whether [addr, addr + len) lies within the 'size' bytes at 'base'. No sum is
 * formed that could wrap.
 */
static inline bool tagrv_range_within(uint64_t addr, uint64_t len,
				      uint64_t base, uint64_t size)
{
	return addr >= base && addr - base <= size &&
	       len <= size - (addr - base);
}

/*
 * memcpy, without a function call for up to 64 bytes: two moves of a fixed size,
 * which overlap in the middle. 8 to 16 bytes are looked for first.
 */
static inline void tagrv_copy(void *restrict to, const void *restrict from,
			      size_t len)
{
	const char *src = from;
	char *dst = to;

	/* Hides the arrays' sizes: else gcc warns of branches never taken. */
	__asm__("" : "+r" (dst), "+r" (src));
	if (len >= 8 && len <= 16) {
		memcpy(dst, src, 8);
		memcpy(dst + len - 8, src + len - 8, 8);
	} else if (len > 64) {
		tagrv_copy_long(dst, src, len);
	} else if (len >= 32) {
		memcpy(dst, src, 32);
		memcpy(dst + len - 32, src + len - 32, 32);
	} else if (len >= 16) {
		memcpy(dst, src, 16);
		memcpy(dst + len - 16, src + len - 16, 16);
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
 * Writes iovecs for the len bytes that follow the first 'skip' bytes of iov, which
 * must have skip + len bytes. out has room for cnt entries; returns the entries
 * used.
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

/* Copies all bytes of the iovecs into buf, which has room. Returns the bytes. */
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
 * Loads one word by one 8-byte load. Compilers like to copy structures by 16-byte
 * loads; such a load of bytes that two 8-byte stores have just written cannot be
 * forwarded from the store buffer and waits until both are in the cache.
 */
static inline uint64_t tagrv_word_load(const void *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	__asm__ volatile("" : "+r" (word) : : "memory");
	return word;
}

/* Copies one word by one 8-byte load and store. */
static inline void tagrv_word_copy(void *to, const void *from)
{
	uint64_t word = tagrv_word_load(from);

	memcpy(to, &word, sizeof(word));
}

/*
 * Copies memory that another process may change at any time. The barrier keeps
 * the compiler from reading the original again later, so that the bytes that are
 * checked are the bytes that are used.
 */
static inline void tagrv_copy_once(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" : : : "memory");
}

#endif
