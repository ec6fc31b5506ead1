/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * verify.c of tagrv_perf: a message is right as it was filled, and no other one is. The slots of
 * the endpoint are here.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"
#include "side.h"

TestSuite(verify, .timeout = 10);

enum { SIZE = 1000, WRONG = 7 };

static char sent[SIZE], taken[SIZE];

char *endpoint_wait_slot(struct endpoint *e)
{
	(void)e;
	return sent;
}

char *endpoint_taken_slot(const struct endpoint *e)
{
	(void)e;
	return taken;
}

static _Noreturn void tell(const char *text)
{
	_exit(strstr(text, "wrong byte at 999") ? WRONG : EXIT_FAILURE);
}

/* The number of a message is that of those sent before. */
static void carry(struct side *from, struct side *to)
{
	side_fill(from, SIZE);
	from->e.sent++;
	memcpy(taken, sent, SIZE);
	side_verify(to, SIZE);
}

static struct side *new_side(void)
{
	struct side *s = calloc(1, sizeof(*s));

	cr_assert_not_null(s);
	return s;
}

Test(verify, a_message_is_right_as_it_was_filled)
{
	struct side *a = new_side(), *b = new_side();

	bench_on_die(tell);
	for (int i = 0; i < 300; i++)
		carry(a, b);
	cr_assert_eq(b->taken, 300);
	free(a);
	free(b);
}

Test(verify, a_wrong_byte_ends_the_program, .exit_code = WRONG)
{
	struct side *a = new_side(), *b = new_side();

	bench_on_die(tell);
	carry(a, b);
	side_fill(a, SIZE);
	memcpy(taken, sent, SIZE);
	taken[SIZE - 1] ^= 1;
	side_verify(b, SIZE);
}

/* Bytes repeat after 256 messages: what is left of one is not right for a later one. */
Test(verify, a_slot_that_was_not_written_is_wrong, .exit_code = EXIT_FAILURE)
{
	struct side *a = new_side(), *b = new_side();

	bench_on_die(tell);
	carry(a, b);
	b->taken = 256;
	side_verify(b, SIZE);
}
