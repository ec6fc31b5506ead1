/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * States of operations and peers: every state has a name of its own, can be
 * reached and left, and no move is legal that the pictures do not have.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "object/op.h"
#include "object/peer.h"

typedef bool (*may_move_fn)(unsigned from, unsigned to);

/* Bit n: state n can be reached from this one in any number of moves. */
static unsigned reachable(may_move_fn may_move, unsigned from, unsigned states)
{
	unsigned seen = 1u << from, before;

	do {
		before = seen;
		for (unsigned a = 0; a < states; a++)
			for (unsigned b = 0; b < states; b++)
				if (seen & 1u << a && may_move(a, b))
					seen |= 1u << b;
	} while (seen != before);
	return seen;
}

static void check_names(const char *(*name)(unsigned state), unsigned states)
{
	for (unsigned a = 0; a < states; a++) {
		cr_assert_not_null(name(a));
		cr_expect_neq(strcmp(name(a), "?"), 0);
		for (unsigned b = 0; b < a; b++)
			cr_expect_neq(strcmp(name(a), name(b)), 0);
	}
	cr_expect_str_eq(name(states), "?");
}

static void check_moves(may_move_fn may_move, unsigned start, unsigned states)
{
	unsigned all = (1u << states) - 1;

	for (unsigned state = 0; state < states; state++) {
		cr_expect_eq(reachable(may_move, start, states), all);
		cr_expect(reachable(may_move, state, states) & 1u << start,
			  "state %u leads nowhere", state);
		cr_expect_not(may_move(state, states));
		cr_expect_not(may_move(states, state));
	}
}

Test(op_state, names_are_distinct)
{
	check_names(tagrv_op_state_name, TAGRV_OP_STATES);
}

Test(op_state, every_state_is_reached_and_ends)
{
	check_moves(tagrv_op_may_move, TAGRV_OP_FREE, TAGRV_OP_STATES);
	for (unsigned state = TAGRV_OP_QUEUED; state < TAGRV_OP_STATES; state++)
		cr_expect(tagrv_op_may_move(state, TAGRV_OP_FREE));
}

Test(op_state, sends_and_receives_never_mix)
{
	for (unsigned from = TAGRV_OP_QUEUED; from < TAGRV_OP_POSTED; from++)
		for (unsigned to = TAGRV_OP_POSTED; to < TAGRV_OP_STATES; to++) {
			cr_expect_not(tagrv_op_may_move(from, to));
			cr_expect_not(tagrv_op_may_move(to, from));
		}
}

Test(op_state, moves_are_those_of_the_picture)
{
	cr_expect(tagrv_op_may_move(TAGRV_OP_ANNOUNCED, TAGRV_OP_OFFERING));
	cr_expect(tagrv_op_may_move(TAGRV_OP_OFFERING, TAGRV_OP_COPYING));
	cr_expect_not(tagrv_op_may_move(TAGRV_OP_COPYING, TAGRV_OP_WRITING));
	cr_expect_not(tagrv_op_may_move(TAGRV_OP_FIN_WAIT, TAGRV_OP_WIRE));
	cr_expect_not(tagrv_op_may_move(TAGRV_OP_READING, TAGRV_OP_CTS));
	cr_expect_not(tagrv_op_may_move(TAGRV_OP_QUEUED, TAGRV_OP_QUEUED));
}

Test(peer_state, names_are_distinct)
{
	check_names(tagrv_peer_state_name, TAGRV_PEER_STATES);
}

Test(peer_state, every_state_is_reached_and_left)
{
	check_moves(tagrv_peer_may_move, TAGRV_PEER_IDLE, TAGRV_PEER_STATES);
}

/* Or one that did not want to part. */
Test(peer_state, only_a_bound_peer_becomes_ready)
{
	for (unsigned from = 0; from < TAGRV_PEER_STATES; from++)
		cr_expect_eq(tagrv_peer_may_move(from, TAGRV_PEER_READY),
			     from == TAGRV_PEER_BOUND || from == TAGRV_PEER_PARTING);
}
