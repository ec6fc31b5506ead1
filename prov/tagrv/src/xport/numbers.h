/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Numbers of links whose tagged messages a device matches with a list (xport/taglist.h): the
 * 'given' of struct tagrv_link.
 *
 *    13             2 1    0
 *   +----------------+------+
 *   | peer, not 0    | life |
 *   +----------------+------+
 *
 * A message tells by its number which link it has come by, so that no two links have the same
 * one. But entries of the list compare the peer's part only: a peer that comes back, by another
 * link, is the source that it was, even if its messages come before anybody here knows
 * that its former link is of no use. So the peer's part is the peer's as long as it has a link, or
 * as an entry may name it.
 *
 *   take()   a link of this peer        hold()     entries of the list may name the peer
 *   give()   no message can come        leave()    they come back
 *            by it any more             settled()  all that had to come back have
 *
 * Any thread.
 */
#ifndef TAGRV_XPORT_NUMBERS_H
#define TAGRV_XPORT_NUMBERS_H

#include <stdint.h>

#include "core/addr.h"

#define TAGRV_NUMBERS_MAX	0x3fffu
#define TAGRV_NUMBERS_LIFE	3u	/* the bits of a number that are not the peer's */

struct tagrv_numbers;

/* NULL: no memory. */
struct tagrv_numbers *tagrv_numbers_create(void);
/* NULL: nothing to do. */
void tagrv_numbers_destroy(struct tagrv_numbers *numbers);

/*
 * Sets *number to that of a new link to the peer with this address; NULL: to one that has no
 * other link. Sets it to 0 if there are too many peers, or there is no memory. -FI_ENOSPC: as many
 * links to the peer as there are lives have not ended yet; one will, since a peer uses one only.
 */
int tagrv_numbers_take(struct tagrv_numbers *numbers, const struct tagrv_addr *peer,
		       uint16_t *number) TAGRV_WARN_UNUSED;
void tagrv_numbers_give(struct tagrv_numbers *numbers, uint16_t number);

/* number: of any link of the peer, and not given back. */
void tagrv_numbers_hold(struct tagrv_numbers *numbers, uint16_t number);
void tagrv_numbers_leave(struct tagrv_numbers *numbers, uint16_t number);
void tagrv_numbers_settled(struct tagrv_numbers *numbers);

/* Numbers of links, and peers that have one or are held. */
void tagrv_numbers_count(struct tagrv_numbers *numbers, unsigned *links, unsigned *peers);

#endif
