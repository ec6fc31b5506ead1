/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Credit: how much a peer may send us before we have to keep it, and we to it.
 *
 *   sender                                   receiver
 *   left    --- EAGER, costs units ------->  promised -= units
 *   no more: header-only RTS, the data       matched, or delivered later:
 *   stays where it is                        owed += units
 *   left += n  <-- any packet, credit n ---  promised += n, owed -= n
 *              <-- CREDIT, when a quarter of the window is owed
 *
 * Only eager messages cost credit. The window of each peer bounds what a receiver
 * keeps of that peer's messages, and envelopes keep flowing in order. A sender
 * without credit sends an RTS instead of waiting, so that nothing can deadlock for
 * want of credit. While the endpoint's budget (FI_TAGRV_EAGER_BUDGET) lasts, it
 * pays for kept messages of all peers, and the peers have their credit back at
 * once.
 *
 * Both sides of a connection begin with TAGRV_CREDIT_FIRST without a packet that
 * says so. A receiver that wants another window (FI_TAGRV_EAGER_CREDIT) returns
 * more, or less, than it took until the window has the wanted size. A peer that
 * sends more than it was promised breaks the rules: the connection is given up.
 *
 * Units are 64 bytes; docs/wire_protocol.md section 1.5. lock: the domain's.
 */
#ifndef TAGRV_OBJECT_CREDIT_H
#define TAGRV_OBJECT_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_CREDIT_UNIT	64u	/* bytes */
#define TAGRV_CREDIT_FIRST	6144u	/* units: 384 KiB, 1228 small messages */
#define TAGRV_CREDIT_ENVELOPE	4u	/* units, of any kept message's record */

struct tagrv_credit {
	uint32_t left;		/* units the peer takes from us */
	uint32_t promised;	/* units we take from the peer */
	uint32_t owed;		/* units to be given back */
	uint32_t window;	/* promised + owed + in flight + kept */
	uint32_t due;		/* owed at which a packet should return it; 0: a
				   release changes the window, too */
	uint32_t life;		/* number of the connection, from 1 on */
};

/* Units that an eager message of len bytes costs. */
static inline uint32_t tagrv_credit_units(size_t len)
{
	return TAGRV_CREDIT_ENVELOPE +
	       (uint32_t) ((len + TAGRV_CREDIT_UNIT - 1) / TAGRV_CREDIT_UNIT);
}

/* For a new connection. Messages kept of the one before hold none of it. */
static inline void tagrv_credit_reset(struct tagrv_credit *credit)
{
	*credit = (struct tagrv_credit) {
		.left = TAGRV_CREDIT_FIRST,
		.promised = TAGRV_CREDIT_FIRST,
		.window = TAGRV_CREDIT_FIRST,
		.life = credit->life + 1 ? credit->life + 1 : 1,
	};
}

/* Units that the next packet can return, for its header. */
static inline uint16_t tagrv_credit_to_return(const struct tagrv_credit *credit)
{
	return (uint16_t) TAGRV_MIN(credit->owed, (uint32_t) UINT16_MAX);
}

/* A packet that returns these units was sent. */
static inline void tagrv_credit_returned(struct tagrv_credit *credit, uint16_t units)
{
	credit->owed -= units;
	credit->promised += units;
}

/* A packet returned credit to us. False: more than there can be. */
static inline bool tagrv_credit_received(struct tagrv_credit *credit, uint16_t units)
{
	credit->left += units;
	return credit->left >= units;
}

/* An eager message has come and uses credit. False: the peer had too little. */
static inline bool tagrv_credit_use(struct tagrv_credit *credit,
					uint32_t units)
{
	if (units > credit->promised)
		return false;
	credit->promised -= units;
	return true;
}

/*
 * A message that the peer has credit for has come, and is gone again at once: its
 * units are owed. False: the caller takes them off 'owed' again and releases them.
 */
static inline bool tagrv_credit_pass(struct tagrv_credit *credit, uint32_t units)
{
	credit->promised -= units;
	credit->owed += units;
	return credit->owed < credit->due;
}

/* Whether so much is owed that a packet should return it by itself. */
static inline bool tagrv_credit_is_due(const struct tagrv_credit *credit)
{
	return credit->owed && credit->owed >= credit->window / 4;
}

/*
 * Units that a message used are free again. target: the window that is wanted,
 * in units. Returns tagrv_credit_is_due().
 */
static inline bool tagrv_credit_release(struct tagrv_credit *credit,
				     uint32_t units, uint32_t target)
{
	if (TAGRV_UNLIKELY(credit->window > target)) {
		uint32_t less = TAGRV_MIN(units, credit->window - target);

		credit->window -= less;
		units -= less;
	} else if (TAGRV_UNLIKELY(credit->window < target)) {
		uint32_t more = TAGRV_MIN(units, target - credit->window);

		credit->window += more;
		units += more;
	}
	credit->owed += units;
	credit->due = credit->window == target ? target / 4 : 0;
	return tagrv_credit_is_due(credit);
}

#endif
