/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * list.h: order, removal at any place, nodes that are on no list.
 */
#include <criterion/criterion.h>

#include "core/list.h"

struct item {
	int	value;
	struct tagrv_list link;
};

static struct item items[6];
static struct tagrv_list head;

static struct item *item_of(struct tagrv_list *node)
{
	return tagrv_container_of(node, struct item, link);
}

static void set_up(void)
{
	tagrv_list_init(&head);
	for (int i = 0; i < 6; i++) {
		items[i].value = i;
		tagrv_list_init(&items[i].link);
	}
}

static void push(int from, int to)
{
	for (int i = from; i <= to; i++)
		tagrv_list_push_tail(&head, &items[i].link);
}

/* Returns the list as a number, one digit per item; both directions must agree. */
static int digits(const struct tagrv_list *list)
{
	struct tagrv_list *pos;
	int forth = 0, back = 0, unit = 1;

	tagrv_list_for_each(list, pos)
		forth = forth * 10 + item_of(pos)->value;
	for (pos = list->prev; pos != list; pos = pos->prev) {
		back += item_of(pos)->value * unit;
		unit *= 10;
	}
	cr_expect_eq(forth, back);
	return forth;
}

TestSuite(list, .init = set_up, .timeout = 10);

Test(list, new_list_is_empty)
{
	cr_expect(tagrv_list_empty(&head));
	cr_expect_null(tagrv_list_first(&head));
	cr_expect_null(tagrv_list_pop(&head));
}

Test(list, tail_keeps_order)
{
	push(1, 4);
	cr_expect_eq(digits(&head), 1234);
	cr_expect_eq(item_of(tagrv_list_first(&head))->value, 1);
}

Test(list, insert_after_goes_between)
{
	push(1, 2);
	tagrv_list_insert_after(&items[1].link, &items[5].link);
	tagrv_list_insert_after(&items[2].link, &items[4].link);
	cr_expect_eq(digits(&head), 1524);
}

Test(list, remove_works_at_head_middle_and_tail)
{
	push(1, 5);
	tagrv_list_remove(&items[1].link);
	tagrv_list_remove(&items[3].link);
	tagrv_list_remove(&items[5].link);
	cr_expect_eq(digits(&head), 24);
}

Test(list, removed_node_knows_it_and_can_be_removed_again)
{
	push(1, 2);
	cr_expect(tagrv_list_linked(&items[1].link));
	tagrv_list_remove(&items[1].link);
	cr_expect_not(tagrv_list_linked(&items[1].link));
	tagrv_list_remove(&items[1].link);
	cr_expect_eq(digits(&head), 2);
	push(1, 1);
	cr_expect_eq(digits(&head), 21);
}

Test(list, pop_takes_the_first_until_none_is_left)
{
	push(1, 3);
	for (int i = 1; i <= 3; i++)
		cr_expect_eq(item_of(tagrv_list_pop(&head))->value, i);
	cr_expect_null(tagrv_list_pop(&head));
	cr_expect_not(tagrv_list_linked(&items[2].link));
}

Test(list, splice_appends_in_order_and_empties_the_source)
{
	struct tagrv_list from;

	tagrv_list_init(&from);
	tagrv_list_splice_tail(&head, &from);
	cr_expect(tagrv_list_empty(&head));
	tagrv_list_push_tail(&from, &items[3].link);
	tagrv_list_push_tail(&from, &items[4].link);
	push(1, 2);
	tagrv_list_splice_tail(&head, &from);
	cr_expect_eq(digits(&head), 1234);
	cr_expect(tagrv_list_empty(&from));
	tagrv_list_splice_tail(&from, &head);
	cr_expect_eq(digits(&from), 1234);
	cr_expect(tagrv_list_empty(&head));
}

Test(list, loop_may_remove_what_it_looks_at)
{
	struct tagrv_list *pos, *tmp;
	int seen = 0;

	push(1, 5);
	tagrv_list_for_each_safe(&head, pos, tmp) {
		seen++;
		if (item_of(pos)->value & 1)
			tagrv_list_remove(pos);
	}
	cr_expect_eq(seen, 5);
	cr_expect_eq(digits(&head), 24);
}
