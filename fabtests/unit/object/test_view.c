/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of views: ids, places that windows share, segments; and what an owner registers
 * of the windows that it shows.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "common/caught_log.h"
#include "object/engine.h"
#include "object/peer.h"
#include "object/view.h"

static struct tagrv_dom dom;
static struct tagrv_engine *engine;
static struct tagrv_peer peers[2];

static void set_up(void)
{
	cr_assert_eq(tagrv_lock_init(&dom.lock, true), 0);
	tagrv_lock_acquire(&dom.lock);
	engine = calloc(1, sizeof(*engine));
	engine->dom = &dom;
	for (uint32_t i = 0; i < 2; i++) {
		peers[i].engine = engine;
		peers[i].id = i;
	}
}

static void tear_down(void)
{
	tagrv_views_fini(engine);
	free(engine);
	tagrv_lock_release(&dom.lock);
	tagrv_lock_fini(&dom.lock);
}

TestSuite(view, .init = set_up, .fini = tear_down, .timeout = 20);

static struct tagrv_view view_of(uint64_t key, uint32_t id)
{
	return (struct tagrv_view) {
		.key = key, .id = id, .base = 1000, .len = 300, .seg_cnt = 3, .key_len = 4,
		.seg = {
			{ .addr = 10000, .len = 100 }, { .addr = 5000, .len = 50 },
			{ .addr = 20000, .len = 150 },
		},
	};
}

static uint32_t keep(struct tagrv_peer *peer, uint64_t key)
{
	struct tagrv_view view = view_of(key, tagrv_view_ask(peer, key));

	cr_assert_neq(view.id, 0);
	cr_assert(tagrv_view_keep(peer, &view));
	return view.id;
}

Test(view, covers_its_window_and_no_more)
{
	cr_expect_null(tagrv_view_find(&peers[0], 7, 1000, 1));
	keep(&peers[0], 7);
	cr_expect_not_null(tagrv_view_find(&peers[0], 7, 1000, 300));
	cr_expect_not_null(tagrv_view_find(&peers[0], 7, 1299, 1));
	cr_expect_null(tagrv_view_find(&peers[0], 7, 999, 2));
	cr_expect_null(tagrv_view_find(&peers[0], 7, 1299, 2));
	cr_expect_null(tagrv_view_find(&peers[0], 7, UINT64_MAX, 2));
	cr_expect_null(tagrv_view_find(&peers[0], 8, 1000, 1));
	cr_expect_null(tagrv_view_find(&peers[1], 7, 1000, 1));
}

Test(view, is_forgotten_by_its_id_or_with_its_peer)
{
	uint32_t id = keep(&peers[0], 7);

	keep(&peers[1], 9);
	tagrv_view_drop(&peers[1], id);
	tagrv_view_drop(&peers[0], id + TAGRV_VIEWS);
	cr_expect_not_null(tagrv_view_find(&peers[0], 7, 1000, 1));
	tagrv_view_drop(&peers[0], id);
	cr_expect_null(tagrv_view_find(&peers[0], 7, 1000, 1));
	keep(&peers[0], 7);
	tagrv_views_forget(&peers[0]);
	cr_expect_null(tagrv_view_find(&peers[0], 7, 1000, 1));
	cr_expect_not_null(tagrv_view_find(&peers[1], 9, 1000, 1));
}

Test(view, id_of_another_window_is_refused)
{
	uint32_t id = tagrv_view_ask(&peers[0], 7);
	struct tagrv_view views[] = {
		view_of(7, 0), view_of(7, id + 1), view_of(8, id),
		view_of(7, id % TAGRV_VIEWS),
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(views); i++)
		cr_expect_not(tagrv_view_keep(&peers[0], &views[i]), "view %zu", i);
	cr_expect_null(tagrv_view_find(&peers[0], 7, 1000, 1));
}

/* Windows that share a place take turns, not each time. */
Test(view, windows_of_one_place_do_not_drive_each_other_out)
{
	uint32_t id = keep(&peers[0], 7), asked = 0;
	uint64_t other = 8;

	while (tagrv_view_ask(&peers[1], other) % TAGRV_VIEWS != id % TAGRV_VIEWS)
		other++;
	engine->views.misses = 0;
	for (int i = 0; i < 6400; i++)
		asked += tagrv_view_ask(&peers[1], other) != 0;
	cr_expect_gt(asked, 0);
	cr_expect_lt(asked, 200);
	cr_expect_not_null(tagrv_view_find(&peers[0], 7, 1000, 1));
}

Test(view, ids_begin_again_and_are_never_0)
{
	engine->views.last_id = UINT32_MAX / TAGRV_VIEWS - 1;
	for (uint64_t key = 7; key < 10; key++)
		cr_expect_neq(keep(&peers[0], key), 0);
	cr_expect_lt(engine->views.last_id, 3);
}

Test(view, segments_of_a_part)
{
	const struct tagrv_view view = view_of(7, 1);
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];

	cr_expect_eq(tagrv_view_slice(&view, 1000, 300, seg), 3);
	cr_expect_eq(seg[2].addr, 20000);
	cr_expect_eq(seg[2].len, 150);
	cr_expect_eq(tagrv_view_slice(&view, 1120, 80, seg), 2);
	cr_expect_eq(seg[0].addr, 5020);
	cr_expect_eq(seg[0].len, 30);
	cr_expect_eq(seg[1].addr, 20000);
	cr_expect_eq(seg[1].len, 50);
	cr_expect_eq(tagrv_view_slice(&view, 1299, 1, seg), 1);
	cr_expect_eq(seg[0].addr, 20149);
}

/* ---- registrations of windows ---- */

static struct {
	size_t	alive, tried;
	size_t	fail_at;	/* this try fails, the first is 1; 0: none */
} regs;

static int reg(struct tagrv_device *dev, void *addr, size_t len, unsigned access,
	       struct tagrv_mem **mem)
{
	if (++regs.tried == regs.fail_at)
		return -FI_EFAULT;
	*mem = calloc(1, sizeof(**mem));
	**mem = (struct tagrv_mem) { .dev = dev, .addr = addr, .len = len, .access = access };
	regs.alive++;
	return 0;
}

static void dereg(struct tagrv_mem *mem)
{
	regs.alive--;
	free(mem);
}

static const struct tagrv_xport_ops reg_ops = { .name = "nic", .mem_reg = reg, .mem_dereg = dereg };
static struct tagrv_device nic = { .ops = &reg_ops };

#define MAX	1000u

static void set_up_regs(void)
{
	set_up();
	dom.params.regcache_max = MAX;
	dom.allocated = true;
	dom.shown.told = false;
}

static void tear_down_regs(void)
{
	cr_expect_eq(regs.alive, 0);
	cr_expect_eq(atomic_load(&dom.shown.bytes), 0);
	tear_down();
}

TestSuite(view_regs, .init = set_up_regs, .fini = tear_down_regs, .timeout = 20);

static char memory[4 * MAX];

static struct tagrv_window window_of(size_t len)
{
	return (struct tagrv_window) {
		.len = len, .iov_cnt = 2,
		.iov = { { memory, len / 2 }, { memory + len, len - len / 2 } },
	};
}

static bool shows(struct tagrv_window *window, unsigned rights)
{
	return tagrv_window_register(&dom, window, &nic, rights);
}

/* A device locks their pages, also those that do not exist yet. */
Test(view_regs, windows_that_are_shown_have_a_limit_together)
{
	struct tagrv_window first = window_of(600), second = window_of(600),
			    third = window_of(400), all = window_of(SIZE_MAX);
	const int told = log_count("raise FI_TAGRV_REGCACHE_MAX");

	cr_expect(shows(&first, TAGRV_MEM_READ));
	cr_expect_not(shows(&second, TAGRV_MEM_READ));
	cr_expect_not(shows(&all, TAGRV_MEM_READ));
	cr_expect_eq(regs.tried, 2, "the device was not asked");
	cr_expect_eq(log_count("raise FI_TAGRV_REGCACHE_MAX"), told + 1, "once for all");
	cr_expect_not(shows(&first, TAGRV_MEM_WRITE), "other rights need another one");
	cr_expect(shows(&first, TAGRV_MEM_READ));
	cr_expect(shows(&third, TAGRV_MEM_READ), "as much as the limit");
	tagrv_window_deregister(&dom, &first);
	cr_expect(shows(&second, TAGRV_MEM_READ), "there is room now");
	tagrv_window_deregister(&dom, &second);
	tagrv_window_deregister(&dom, &third);
}

Test(view_regs, what_cannot_be_registered_does_not_count)
{
	struct tagrv_window window = window_of(MAX), other = window_of(MAX);

	regs.fail_at = 2;
	cr_expect_not(shows(&window, TAGRV_MEM_READ));
	cr_expect_eq(regs.alive, 0);
	cr_expect(shows(&other, TAGRV_MEM_READ));
	tagrv_window_deregister(&dom, &window);
	cr_expect_eq(regs.alive, 2);
	tagrv_window_deregister(&dom, &other);
}

/* Each access would try again otherwise. */
Test(view_regs, a_failure_is_remembered_until_it_is_forgotten)
{
	struct tagrv_window window = window_of(100);

	regs.fail_at = 1;
	cr_expect_not(shows(&window, TAGRV_MEM_READ));
	cr_expect_not(shows(&window, TAGRV_MEM_READ));
	cr_expect_eq(regs.tried, 1);
	cr_expect(shows(&window, TAGRV_MEM_WRITE));
	tagrv_window_forget_failures(&window);
	cr_expect(shows(&window, TAGRV_MEM_WRITE));
	cr_expect_eq(regs.tried, 3, "the one behind the forgotten is found");
	cr_expect(shows(&window, TAGRV_MEM_READ));
	cr_expect_eq(regs.tried, 5);
	tagrv_window_deregister(&dom, &window);
}

/* The owner may put other pages there, and the device would go on with the old ones. */
Test(view_regs, memory_that_may_be_remapped_is_not_shown)
{
	struct tagrv_window window = window_of(100);

	dom.allocated = false;
	cr_expect_not(shows(&window, TAGRV_MEM_READ));
	cr_expect_eq(regs.tried, 0);
}

/* It locks nothing: who reads finds the pages by their addresses. */
Test(view_regs, shared_memory_may_be_remapped_and_has_no_limit)
{
	const struct tagrv_xport_ops *ops = tagrv_xport_local();
	struct tagrv_window window = window_of(3 * MAX);
	struct tagrv_device *dev;

	tagrv_param_read(&dom.params);
	dom.params.regcache_max = MAX;
	dom.allocated = false;
	cr_assert_eq(ops->dev_open(ops->name, &dom.params, &dev), 0);
	cr_expect_not_null(tagrv_window_register(&dom, &window, dev, TAGRV_MEM_READ));
	cr_expect_not(shows(&window, TAGRV_MEM_READ));
	tagrv_window_deregister(&dom, &window);
	ops->dev_close(dev);
}
