/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Regions: keys, several segments, life.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

enum { LEN = 10000, MANY = 200, PIECES = 4, REMAPS = 12 };

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA, .tx_flags = FI_DELIVERY_COMPLETE };

static void write_at(struct fx *fx, uint64_t at, uint64_t key, size_t len, uint64_t seed)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	pattern_fill(g.data, len, seed);
	ONESIDED(fx, .kind = DO_PUT, .buf = g.data, .len = len, .addr = fx->peer, .at = at, .key = key,
		 .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_PUT);
	guard_free(&g);
}

static void read_at(struct fx *fx, uint64_t at, uint64_t key, size_t len, uint64_t seed)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	ONESIDED(fx, .kind = DO_GET, .buf = g.data, .len = len, .addr = fx->peer, .at = at, .key = key,
		 .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_GET);
	GUARD_HOLDS(&g, len, seed);
	guard_free(&g);
}

/* ---- keys ---- */

/* All 64 bits of a key are the application's. */
static void keys(struct test *t)
{
	static const uint64_t wanted[] = { 0, 7, UINT32_MAX, 1ULL << 63 | 5, UINT64_MAX - 1 };
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_OFFSET);
	CHECK(fx.info->domain_attr->mr_key_size == 8, "keys of %zu bytes",
	      fx.info->domain_attr->mr_key_size);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct guard g = guard_alloc(LEN);
		struct fid_mr *mr;

		run_step("key 0x%" PRIx64, wanted[i]);
		CHECK_OK(fi_mr_reg(fx.domain, g.data, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, wanted[i],
				   0, &mr, NULL));
		CHECK(fi_mr_key(mr) == wanted[i], "the key is 0x%" PRIx64, fi_mr_key(mr));
		fx_barrier(&fx);
		if (run_sends(t)) {
			write_at(&fx, 100, wanted[i], 1000, i);
			read_at(&fx, 100, wanted[i], 1000, i);
		}
		fx_barrier(&fx);
		CHECK(!run_receives(t) || pattern_check(g.data + 100, 1000, i) == 1000,
		      "the bytes are not there");
		CHECK_OK(fi_close(&mr->fid));
		guard_free(&g);
		fx_barrier(&fx);
	}
	fx_close(&fx);
}

/* A key that is in use is refused, and is free again when its region is closed. */
static void key_in_use(struct test *t)
{
	struct guard g = guard_alloc(LEN);
	struct fid_mr *first, *second;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_OFFSET);
	CHECK_OK(fi_mr_reg(fx.domain, g.data, LEN, FI_REMOTE_READ, 0, 77, 0, &first, NULL));
	CHECK_ERR(fi_mr_reg(fx.domain, g.data, LEN, FI_REMOTE_READ, 0, 77, 0, &second, NULL),
		  -FI_ENOKEY);
	CHECK_OK(fi_close(&first->fid));
	CHECK_OK(fi_mr_reg(fx.domain, g.data, LEN, FI_REMOTE_READ, 0, 77, 0, &second, NULL));
	CHECK_OK(fi_close(&second->fid));
	guard_free(&g);
	fx_close(&fx);
}

static void many_of(struct test *t, enum window_keys which)
{
	static struct window w[MANY];
	struct fx fx;

	window_open_ep(t, &fx, &plain, which);
	for (int i = 0; i < MANY; i++)
		window_open(&fx, &w[i], 64, 0);
	for (int i = 0; run_sends(t) && i < MANY; i++)
		write_at(&fx, window_at(&w[i], window_peer(&fx), (size_t)i % 32),
			 w[i].key[window_peer(&fx)], 32, (uint64_t)i);
	fx_barrier(&fx);
	for (int i = 0; i < MANY; i++) {
		if (run_receives(t))
			WINDOW_HOLDS(&w[i], (size_t)i % 32, 32, (uint64_t)i);
		window_close(&w[i]);
	}
	fx_close(&fx);
}

static void many_offset(struct test *t)
{
	many_of(t, KEYS_OFFSET);
}

static void many_address(struct test *t)
{
	many_of(t, KEYS_ADDRESS);
}

/* ---- segments ---- */

/* Pieces of different lengths, in the reverse order of their addresses, with gaps. */
static size_t cut(struct iovec *iov, size_t n, uint8_t *base)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++) {
		iov[i] = (struct iovec){
			.iov_base = base + (n - 1 - i) * 2 * LEN, .iov_len = 1000 + 1777 * i,
		};
		all += iov[i].iov_len;
	}
	return all;
}

static void check_pieces(const struct iovec *iov, size_t n, size_t all, uint64_t seed)
{
	struct guard flat = guard_alloc(all);

	for (size_t i = 0, at = 0; i < n; at += iov[i++].iov_len)
		memcpy(flat.data + at, iov[i].iov_base, iov[i].iov_len);
	GUARD_HOLDS(&flat, all, seed);
	guard_free(&flat);
}

static void check_gaps(const struct window *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = 1000 + 1777 * i;

		CHECK(!guard_changed(&w->g, (n - 1 - i) * 2 * LEN + len, 2 * LEN - len),
		      "bytes between segments have changed");
	}
}

/* Peers see one range of bytes, from the begin of the first segment on. */
static void segments_of(struct test *t, enum window_keys which)
{
	size_t n = PIECES, all = 0, at = 0;
	struct iovec iov[PIECES];
	struct window w;
	struct fx fx;
	int peer;

	window_open_ep(t, &fx, &plain, which);
	if (fx.info->domain_attr->mr_iov_limit < n)
		run_skip("regions have %zu segments at most", fx.info->domain_attr->mr_iov_limit);
	w.g = guard_alloc(n * 2 * LEN);
	all = cut(iov, n, w.g.data);
	window_publish(&fx, &w, region_open(&fx, &(struct region){ .iov = iov, .iov_count = n }),
		       region_base(&fx, iov));
	peer = window_peer(&fx);
	if (run_sends(t))
		write_at(&fx, window_at(&w, peer, 0), w.key[peer], all, 5);
	fx_barrier(&fx);
	if (run_receives(t))
		check_pieces(iov, n, all, 5);
	fx_barrier(&fx);
	for (size_t i = 0; run_sends(t) && i + 1 < n; i++) {
		at += iov[i].iov_len;
		run_step("across the end of segment %zu", i);
		write_at(&fx, window_at(&w, peer, at - 3), w.key[peer], 8, i);
		read_at(&fx, window_at(&w, peer, at - 3), w.key[peer], 8, i);
	}
	if (run_sends(t)) {
		write_at(&fx, window_at(&w, peer, 0), w.key[peer], all, 6);
		read_at(&fx, window_at(&w, peer, 0), w.key[peer], all, 6);
	}
	fx_barrier(&fx);
	if (run_receives(t)) {
		check_pieces(iov, n, all, 6);
		check_gaps(&w, n);
	}
	window_close(&w);
	fx_close(&fx);
}

static void segments_offset(struct test *t)
{
	segments_of(t, KEYS_OFFSET);
}

static void segments_address(struct test *t)
{
	segments_of(t, KEYS_ADDRESS);
}

/* ---- life ---- */

/* The same key, again and again for other memory. */
static void reopened(struct test *t)
{
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_OFFSET);
	for (uint64_t i = 0; i < 20; i++) {
		size_t len = i & 1 ? LEN : 1 << 18;
		struct guard g = guard_alloc(len);
		struct fid_mr *mr;

		CHECK_OK(fi_mr_reg(fx.domain, g.data, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 99, 0, &mr,
				   NULL));
		fx_barrier(&fx);
		if (run_sends(t))
			write_at(&fx, 0, 99, len, i);
		fx_barrier(&fx);
		if (run_receives(t))
			GUARD_HOLDS(&g, len, i);
		CHECK_OK(fi_close(&mr->fid));
		guard_free(&g);
		fx_barrier(&fx);
	}
	fx_close(&fx);
}

/* Two regions on the same memory, one to be read and one to be written. */
static void overlapping(struct test *t)
{
	struct window reads, writes;
	struct iovec iov;
	struct fx fx;
	int peer;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	peer = window_peer(&fx);
	window_open(&fx, &writes, LEN, FI_REMOTE_WRITE);
	reads.g = guard_alloc(1);
	iov = (struct iovec){ .iov_base = writes.g.data + 50, .iov_len = LEN - 50 };
	window_publish(&fx, &reads, region_open(&fx, &(struct region){ .iov = &iov,
		       .access = FI_REMOTE_READ }), region_base(&fx, &iov));
	if (run_sends(t)) {
		write_at(&fx, window_at(&writes, peer, 50), writes.key[peer], 1000, 1);
		read_at(&fx, window_at(&reads, peer, 0), reads.key[peer], 1000, 1);
	}
	fx_barrier(&fx);
	window_close(&reads);
	if (run_sends(t))
		write_at(&fx, window_at(&writes, peer, 50), writes.key[peer], 1000, 2);
	fx_barrier(&fx);
	if (run_receives(t))
		WINDOW_HOLDS(&writes, 50, 1000, 2);
	window_close(&writes);
	fx_close(&fx);
}

/* Other pages, empty ones, at the same address. */
static void remap(char *mem, int round)
{
	if (round % 2)
		CHECK(!madvise(mem, LEN, MADV_DONTNEED), "madvise fails");
	else
		CHECK(mmap(mem, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			   -1, 0) == mem, "mmap fails");
}

/*
 * Without FI_MR_ALLOCATED the owner may remap its memory, and tells nobody but the peers that
 * access it: what they write and read is what is mapped at that time.
 */
static void remapped(struct test *t)
{
	char *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct iovec iov = { .iov_base = mem, .iov_len = LEN };
	struct window w;
	struct fx fx;
	int peer;

	CHECK(mem != MAP_FAILED, "mmap fails");
	fx_open_or_skip(t, &fx, &plain, "such endpoint whose regions may be remapped");
	peer = window_peer(&fx);
	w.g = guard_alloc(1);
	window_publish(&fx, &w, region_open(&fx, &(struct region){ .iov = &iov }),
		       region_base(&fx, &iov));
	for (int round = 0; round < REMAPS; round++) {
		uint64_t seed = 2 * (uint64_t)round + 1;

		if (run_sends(t))
			write_at(&fx, window_at(&w, peer, 0), w.key[peer], LEN, seed);
		fx_barrier(&fx);
		if (run_receives(t)) {
			CHECK(pattern_check(mem, LEN, seed) == LEN, "round %d: not written", round);
			remap(mem, round);
			pattern_fill(mem, LEN, seed + 1);
		}
		fx_barrier(&fx);
		if (run_sends(t))
			read_at(&fx, window_at(&w, peer, 0), w.key[peer], LEN, seed + 1);
		fx_barrier(&fx);
	}
	window_close(&w);
	munmap(mem, LEN);
	fx_close(&fx);
}

/* Who offers FI_MR_ENDPOINT may bind and enable regions, whether or not that is needed. */
static void bound(struct test *t)
{
	struct fx_attr attr = plain;
	struct window w;
	struct fx fx;
	int peer;

	attr.mr_mode = FI_MR_ENDPOINT;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	peer = window_peer(&fx);
	window_open(&fx, &w, LEN, 0);
	if (run_sends(t)) {
		write_at(&fx, window_at(&w, peer, 10), w.key[peer], 1000, 1);
		read_at(&fx, window_at(&w, peer, 10), w.key[peer], 1000, 1);
	}
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

const struct test_case rma_region_cases[] = {
	{ "region_keys", "keys of the application use all 64 bits", keys, .self = true },
	{ "region_key_in_use", "a key has one region at a time", key_in_use, .ranks = 1 },
	{ "region_many_offset", "200 regions, the application's keys", many_offset, .self = true },
	{ "region_many_address", "200 regions, the provider's keys", many_address, .self = true },
	{ "region_segments_offset", "a region of four segments, from 0 on", segments_offset, .self = true },
	{ "region_segments_address", "a region of four segments, by address", segments_address, .self = true },
	{ "region_reopened", "a key names other memory after a close", reopened, .self = true },
	{ "region_overlapping", "two regions on the same memory", overlapping, .self = true },
	{ "region_remapped", "memory that is remapped without a word is read and written where it is", remapped, .self = true },
	{ "region_bound", "FI_MR_ENDPOINT: regions are bound and enabled", bound, .self = true },
	{ 0 },
};
