/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows: keys, bounds, rights, segments.
 */
#include <criterion/criterion.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "object/dom.h"

static struct tagrv_dom dom;
static char memory[100];

/* Engines are compared, and never looked into. */
#define ENGINE(n)	((const struct tagrv_engine *) &memory[n])

static void set_up(void)
{
	cr_assert_eq(tagrv_lock_init(&dom.lock, true), 0);
	tagrv_lock_acquire(&dom.lock);
}

static void tear_down(void)
{
	cr_expect_eq(dom.windows.cnt, 0);
	cr_expect_null(dom.windows.buckets, "an empty table holds no memory");
	tagrv_lock_release(&dom.lock);
	tagrv_lock_fini(&dom.lock);
}

TestSuite(mrtab, .init = set_up, .fini = tear_down, .timeout = 20);

static struct tagrv_window window_of(uint64_t key, uint64_t base)
{
	return (struct tagrv_window) {
		.key = key, .base = base, .len = sizeof(memory), .enabled = true,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE, .iov_cnt = 1,
		.iov = { { memory, sizeof(memory) } },
	};
}

static struct tagrv_window *find(uint64_t key, uint64_t addr, uint64_t len)
{
	size_t offset = 77;
	struct tagrv_window *window =
		tagrv_window_find(&dom, ENGINE(0), key, addr, len, 0, &offset);

	cr_expect_eq(offset, window ? addr - window->base : 77);
	return window;
}

Test(mrtab, a_window_is_found_by_its_key_until_it_is_removed)
{
	static const uint64_t keys[] = { 0, 1, UINT64_C(1) << 63, UINT64_MAX };
	struct tagrv_window windows[TAGRV_ARRAY_SIZE(keys)];

	cr_expect_null(find(0, 0, 0));
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(keys); i++) {
		windows[i] = window_of(keys[i], 0);
		cr_assert_eq(tagrv_window_add(&dom, &windows[i]), 0);
	}
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(keys); i++)
		cr_expect_eq(find(keys[i], 3, 5), &windows[i]);
	cr_expect_null(find(2, 3, 5));
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(keys); i++) {
		tagrv_window_remove(&dom, &windows[i]);
		cr_expect_null(find(keys[i], 3, 5));
	}
}

Test(mrtab, a_key_names_one_window)
{
	struct tagrv_window first = window_of(5, 0), second = window_of(5, 0);

	cr_assert_eq(tagrv_window_add(&dom, &first), 0);
	cr_expect_eq(tagrv_window_add(&dom, &second), -FI_ENOKEY);
	cr_expect_eq(find(5, 0, 1), &first);
	tagrv_window_remove(&dom, &first);
	cr_expect_eq(tagrv_window_add(&dom, &second), 0);
	tagrv_window_remove(&dom, &second);
}

Test(mrtab, no_access_leaves_the_bounds)
{
	struct tagrv_window low = window_of(1, 0), high = window_of(2, 5000),
			    top = window_of(3, UINT64_MAX - 99);

	cr_assert_eq(tagrv_window_add(&dom, &low), 0);
	cr_assert_eq(tagrv_window_add(&dom, &high), 0);
	cr_assert_eq(tagrv_window_add(&dom, &top), 0);
	cr_expect_eq(find(1, 0, 100), &low);
	cr_expect_eq(find(1, 100, 0), &low);
	cr_expect_null(find(1, 0, 101));
	cr_expect_null(find(1, 101, 0));
	cr_expect_null(find(1, 1, UINT64_MAX), "the sum wraps to the base");
	cr_expect_null(find(1, UINT64_MAX, 1));
	cr_expect_null(find(1, UINT64_MAX, 2));
	cr_expect_eq(find(2, 5099, 1), &high);
	cr_expect_null(find(2, 4999, 1));
	cr_expect_null(find(2, 0, 1));
	cr_expect_null(find(2, 5100, 1));
	cr_expect_null(find(2, 5001, UINT64_MAX - 4950));
	cr_expect_eq(find(3, UINT64_MAX - 99, 100), &top);
	cr_expect_null(find(3, UINT64_MAX - 99, 101));
	cr_expect_null(find(3, 0, 1));
	tagrv_window_remove(&dom, &low);
	tagrv_window_remove(&dom, &high);
	tagrv_window_remove(&dom, &top);
}

/* FI_MR_VIRT_ADDR or a base of NULL: a window of all addresses. */
Test(mrtab, a_window_may_be_all_memory)
{
	struct tagrv_window all = window_of(1, 0);
	struct iovec iov;

	all.len = SIZE_MAX;
	all.iov[0] = (struct iovec) { NULL, SIZE_MAX };
	cr_assert_eq(tagrv_window_add(&dom, &all), 0);
	cr_expect_eq(find(1, (uintptr_t) memory, 10), &all);
	cr_expect_eq(find(1, UINT64_MAX - 1, 1), &all);
	cr_expect_null(find(1, UINT64_MAX - 1, 2));
	cr_expect_eq(tagrv_window_slice(&all, (uintptr_t) memory, 10, &iov, 1), 1);
	cr_expect_eq(iov.iov_base, memory);
	cr_expect_eq(iov.iov_len, 10);
	tagrv_window_remove(&dom, &all);
}

static bool allowed(const struct tagrv_engine *engine, uint64_t access)
{
	size_t offset;

	return tagrv_window_find(&dom, engine, 1, 0, 1, access, &offset);
}

Test(mrtab, every_right_that_is_asked_for_must_be_given)
{
	struct tagrv_window window = window_of(1, 0);

	window.access = FI_REMOTE_READ | FI_SEND;
	cr_assert_eq(tagrv_window_add(&dom, &window), 0);
	cr_expect(allowed(ENGINE(0), 0));
	cr_expect(allowed(ENGINE(0), FI_REMOTE_READ));
	cr_expect_not(allowed(ENGINE(0), FI_REMOTE_WRITE));
	cr_expect_not(allowed(ENGINE(0), FI_REMOTE_READ | FI_REMOTE_WRITE));
	window.enabled = false;
	cr_expect_not(allowed(ENGINE(0), FI_REMOTE_READ));
	cr_expect_not(allowed(ENGINE(0), 0));
	tagrv_window_remove(&dom, &window);
}

Test(mrtab, a_window_of_an_endpoint_is_closed_to_others)
{
	struct tagrv_window window = window_of(1, 0);

	window.engine = ENGINE(1);
	cr_assert_eq(tagrv_window_add(&dom, &window), 0);
	cr_expect(allowed(ENGINE(1), FI_REMOTE_READ));
	cr_expect_not(allowed(ENGINE(0), FI_REMOTE_READ));
	tagrv_window_remove(&dom, &window);
}

#define SEGMENTS	{ memory, 10 }, { memory + 20, 0 }, { memory + 30, 5 }, \
			{ memory + 50, 15 }

/* Every range of a window of four segments, one of them empty. */
Test(mrtab, slices_are_the_bytes_of_the_segments)
{
	const struct tagrv_window window = {
		.len = 30, .iov_cnt = 4, .iov = { SEGMENTS },
	};
	struct iovec iov[4];

	for (size_t offset = 0; offset <= 30; offset++) {
		for (size_t len = 0; len <= 30 - offset; len++) {
			size_t cnt = tagrv_window_slice(&window, offset, len, iov, 4);
			size_t at = 0;

			for (size_t i = 0; i < cnt; i++) {
				cr_assert_gt(iov[i].iov_len, 0);
				for (size_t j = 0; j < iov[i].iov_len; j++) {
					size_t n = offset + at++;
					char *want = n < 10 ? memory + n :
						     n < 15 ? memory + 20 + n :
						     memory + 35 + n;

					cr_assert_eq((char *) iov[i].iov_base + j,
						     want, "byte %zu", n);
				}
			}
			cr_assert_eq(at, len);
		}
	}
}

Test(mrtab, pieces_beyond_the_room_are_counted_but_not_written)
{
	const struct tagrv_window window = {
		.len = 30, .iov_cnt = 4, .iov = { SEGMENTS },
	};
	struct iovec iov[2] = { { NULL, 0 }, { NULL, 99 } };

	cr_expect_eq(tagrv_window_slice(&window, 0, 30, iov, 1), 3);
	cr_expect_eq(iov[0].iov_len, 10);
	cr_expect_eq(iov[1].iov_len, 99);
	cr_expect_eq(tagrv_window_slice(&window, 5, 20, NULL, 0), 3);
}

#define MANY	3000

/* Numbers, as applications choose them, and numbers that differ in high bits only. */
Test(mrtab, many_windows_are_found)
{
	struct tagrv_window *windows = calloc(MANY, sizeof(*windows));

	cr_assert_not_null(windows);
	for (uint64_t i = 0; i < MANY; i++) {
		windows[i] = window_of(i & 1 ? i : i << 48, 0);
		cr_assert_eq(tagrv_window_add(&dom, &windows[i]), 0);
	}
	cr_expect_geq((size_t) 1 << dom.windows.bits, MANY / 2);
	for (uint64_t i = 0; i < MANY; i += 3)
		tagrv_window_remove(&dom, &windows[i]);
	for (uint64_t i = 0; i < MANY; i++)
		cr_expect_eq(find(windows[i].key, 0, 1),
			     i % 3 ? &windows[i] : NULL);
	for (uint64_t i = 0; i < MANY; i++)
		if (i % 3)
			tagrv_window_remove(&dom, &windows[i]);
	free(windows);
}
