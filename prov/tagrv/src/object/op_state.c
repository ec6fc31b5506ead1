/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * States of operations: names, and the moves that are legal. op.h draws them.
 */
#include "object/op.h"

static const char *const names[TAGRV_OP_STATES] = {
	[TAGRV_OP_FREE]		= "FREE",
	[TAGRV_OP_QUEUED]	= "QUEUED",
	[TAGRV_OP_WIRE]		= "WIRE",
	[TAGRV_OP_FIN_WAIT]	= "FIN_WAIT",
	[TAGRV_OP_ANNOUNCED]	= "ANNOUNCED",
	[TAGRV_OP_COPYING]	= "COPYING",
	[TAGRV_OP_WRITING]	= "WRITING",
	[TAGRV_OP_OFFERING]	= "OFFERING",
	[TAGRV_OP_PIECE_READY]	= "PIECE_READY",
	[TAGRV_OP_PIECE]	= "PIECE",
	[TAGRV_OP_ASKED]	= "ASKED",
	[TAGRV_OP_FETCHING]	= "FETCHING",
	[TAGRV_OP_LENT]		= "LENT",
	[TAGRV_OP_POSTED]	= "POSTED",
	[TAGRV_OP_READING]	= "READING",
	[TAGRV_OP_CTS]		= "CTS",
};

#define TO(state)	(1u << TAGRV_OP_##state)

/* Bit n: the op may move to state n. Any op may end. */
static const uint16_t moves[TAGRV_OP_STATES] = {
	[TAGRV_OP_FREE]		= TO(QUEUED) | TO(PIECE_READY) | TO(POSTED) |
				  TO(READING) | TO(LENT),
	[TAGRV_OP_QUEUED]	= TO(FREE) | TO(WIRE) | TO(FIN_WAIT) |
				  TO(ANNOUNCED) | TO(ASKED) | TO(FETCHING) | TO(WRITING),
	[TAGRV_OP_WIRE]		= TO(FREE) | TO(FIN_WAIT) | TO(QUEUED),
	[TAGRV_OP_FIN_WAIT]	= TO(FREE),
	[TAGRV_OP_ANNOUNCED]	= TO(FREE) | TO(COPYING) | TO(WRITING) |
				  TO(OFFERING),
	[TAGRV_OP_COPYING]	= TO(FREE) | TO(FIN_WAIT),
	[TAGRV_OP_WRITING]	= TO(FREE) | TO(FIN_WAIT) | TO(QUEUED),
	[TAGRV_OP_OFFERING]	= TO(FREE) | TO(FIN_WAIT) | TO(COPYING),
	[TAGRV_OP_PIECE_READY]	= TO(FREE) | TO(PIECE),
	[TAGRV_OP_PIECE]	= TO(FREE),
	[TAGRV_OP_ASKED]	= TO(FREE) | TO(QUEUED) | TO(FETCHING),
	[TAGRV_OP_FETCHING]	= TO(FREE) | TO(QUEUED),
	[TAGRV_OP_LENT]		= TO(FREE),
	[TAGRV_OP_POSTED]	= TO(FREE) | TO(READING) | TO(CTS),
	[TAGRV_OP_READING]	= TO(FREE),
	[TAGRV_OP_CTS]		= TO(FREE),
};

const char *tagrv_op_state_name(unsigned state)
{
	return state < TAGRV_OP_STATES ? names[state] : "?";
}

bool tagrv_op_may_move(unsigned from, unsigned to)
{
	return from < TAGRV_OP_STATES && to < TAGRV_OP_STATES &&
	       moves[from] & 1u << to;
}
