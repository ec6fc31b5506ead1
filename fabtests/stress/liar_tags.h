/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lies about tagged messages, told to an adapter's list: for tagrv_liar_devices.
 */
#ifndef STRESS_LIAR_TAGS_H
#define STRESS_LIAR_TAGS_H

#include <stddef.h>
#include <stdint.h>

enum tag_lie {
	TAG_LIE_NUMBER,		/* any number of a sender */
	TAG_LIE_NO_NUMBER,
	TAG_LIE_OTHER,		/* the number that the receiver has given to the honest one */
	TAG_LIE_TAG,		/* the tag of a receive that may be there, or be gone */
	TAG_LIE_REPLAY,		/* a message that was sent before */
	TAG_LIE_HEADER,		/* the header form where none is */
	TAG_LIE_FLAGS,		/* flags of the header form that are not defined */
	TAG_LIE_BOTH,		/* both forms at once */
	TAG_LIE_SHORT,		/* less than the words or the header */
	TAG_LIE_OPCODE,		/* for the device: a rendezvous, the end of one, none that there is */
	TAG_LIE_BODY,		/* any bytes behind the words */
	TAG_LIES
};

extern const char *const tag_lie_names[TAG_LIES];
extern uint64_t tag_lies[TAG_LIES], tag_lies_told;

/* Devices up to 'liar' belong to honest ones; from here on that one's packets to lists are
 * changed, of which 'percent' are lies, until so many were told. */
void tag_lies_begin(unsigned liar, unsigned percent, uint64_t most, uint64_t seed);
/* Tagged messages that have come to the list of the device, since then. */
uint64_t tag_lies_arrived(unsigned to);

#endif
