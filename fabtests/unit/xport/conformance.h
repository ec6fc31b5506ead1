/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The contract of xport.h, checked on every transport and on fake devices with few
 * abilities.
 *
 *   test_conformance.c       packets, room, callbacks, sleeping
 *   test_conformance_get.c   reads of a peer's memory
 *   test_conformance_put.c   writes to a peer's memory
 *   test_conformance_prepared.c  packets that the device gathers
 *   test_conformance_short.c packets by send_short
 *   test_conformance_link.c  links begin, end and fail
 *
 * Of devices with lists of receives, tagged messages that no entry takes are packets here.
 *
 * TAGRV_TEST_DEVICES="rxa0,rxb0" runs it on two real devices that reach each other.
 */
#ifndef FABTESTS_UNIT_XPORT_CONFORMANCE_H
#define FABTESTS_UNIT_XPORT_CONFORMANCE_H

#include <criterion/criterion.h>

#include "unit/xport/pair.h"

/*
 * A test that runs on an unconnected pair of every kind, one after the other in one
 * process, which is faster. --verbose prints the kinds.
 */
#define ON_ALL(name) ON_ALL_WITH(0, name)
/* The same, but only on transports with these enum tagrv_xport_caps. */
#define ON_ALL_WITH(caps, name) \
	static void name(struct pair *p); \
	Test(conformance, name, .timeout = 120) \
	{ \
		run_on_all(caps, name); \
	} \
	static void name(struct pair *p)

void run_on_all(uint32_t caps, void (*test)(struct pair *p));

/* Of end a. End b may have other ones: progress of an end is called by its own. */
static inline const struct tagrv_xport_ops *ops_of(const struct pair *p)
{
	return p->a->xport->ops;
}

static inline bool has_caps(const struct pair *p, uint32_t caps)
{
	return (p->a->xport->attr.caps & caps) == caps;
}

/* Of links that lead to a list or from one, all packets are shorter by the words. */
static inline size_t max_packet(const struct pair *p)
{
	size_t words = TAGRV_TAGLIST_WORDS * sizeof(uint64_t);

	return p->a->xport->attr.max_packet - (pair_has_list(p->kind, 1) ? words : 0);
}

/* Registered memory of one end; access: enum tagrv_mem_access. */
struct region {
	unsigned char *data;
	size_t	len;
	struct tagrv_mem *mem;
	char	key[TAGRV_KEY_MAX];
	size_t	key_len;
};

void region_open(struct region *r, struct end *end, size_t len,
		 unsigned access);
void region_close(struct region *r);
/* Reads 'len' bytes of 'from' into 'to', both at the same offset. */
int get(struct end *end, struct region *to, struct region *from,
	size_t offset, size_t len, struct op *op);
/* Writes 'len' bytes of 'from' to 'to', which belongs to the other end. */
int put(struct end *end, struct region *to, struct region *from,
	size_t offset, size_t len, struct op *op);

#endif
