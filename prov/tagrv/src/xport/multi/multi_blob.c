/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the two sides of a link tell each other of their rails, and which rails they
 * join. By byte offset:
 *
 *   0 version   1 number of rails   2 length of the first rail's blob, and its bytes;
 *   the same for each further rail. Length 0: the rail has no path.
 */
#include "xport/multi/multi_priv.h"

#include <string.h>

#define VERSION		1u
#define HEAD		2u	/* bytes before the first rail */

size_t tagrv_multi_blob_pack(const struct multi_blob *blob, void *to)
{
	uint8_t *out = to;
	size_t at = HEAD;

	out[0] = VERSION;
	out[1] = (uint8_t) blob->cnt;
	for (unsigned i = 0; i < blob->cnt; i++) {
		/* The rails behind this one need a byte each for their length. */
		size_t room = TAGRV_BLOB_MAX - at - (blob->cnt - i);
		size_t len = blob->rails[i].len <= room ? blob->rails[i].len : 0;

		out[at++] = (uint8_t) len;
		memcpy(out + at, blob->rails[i].data, len);
		at += len;
	}
	return at;
}

int tagrv_multi_blob_unpack(struct multi_blob *blob, const void *from, size_t len)
{
	const uint8_t *in = from;
	size_t at = HEAD;

	*blob = (struct multi_blob) { .cnt = 0 };
	if (len < HEAD || len > TAGRV_BLOB_MAX || in[0] != VERSION || !in[1] ||
	    in[1] > MULTI_RAILS)
		return -FI_EINVAL;
	for (unsigned i = 0; i < in[1]; i++) {
		size_t part;

		if (at == len)
			return -FI_EINVAL;
		part = in[at++];
		if (part > len - at)
			return -FI_EINVAL;
		blob->rails[i].len = (uint8_t) part;
		memcpy(blob->rails[i].data, in + at, part);
		at += part;
	}
	if (at != len)
		return -FI_EINVAL;
	blob->cnt = in[1];
	return 0;
}

/* near() of our rail i and the peer's rail j; 0: one of them has no path. */
static unsigned near_of(const struct multi_blob *own, const struct multi_blob *peer,
			unsigned i, unsigned j,
			unsigned (*near)(const void *a, size_t a_len,
					 const void *b, size_t b_len))
{
	if (!own->rails[i].len || !peer->rails[j].len)
		return 0;
	return near(own->rails[i].data, own->rails[i].len, peer->rails[j].data,
		    peer->rails[j].len);
}

struct pair {
	unsigned own, peer, near;
};

/*
 * Whether a is joined before b. Two pairs that are equal here share no rail, because the
 * sum of their ranks is the same: so it does not matter which of them is first, and the
 * two sides, which list the pairs in different orders, come to the same result.
 */
static bool is_better(const struct pair *a, const struct pair *b)
{
	if (a->near != b->near)
		return a->near > b->near;
	return a->own + a->peer < b->own + b->peer;
}

/* The best pair of two free rails; near is 0 if there is none. */
static struct pair find_best(unsigned near[MULTI_RAILS][MULTI_RAILS],
			     const int peer_of[MULTI_RAILS], unsigned taken)
{
	struct pair best = { .near = 0 };

	for (unsigned i = 0; i < MULTI_RAILS; i++)
		for (unsigned j = 0; j < MULTI_RAILS; j++) {
			struct pair next = { i, j, near[i][j] };

			if (peer_of[i] < 0 && !(taken & 1u << j) &&
			    next.near && is_better(&next, &best))
				best = next;
		}
	return best;
}

unsigned tagrv_multi_pair(const struct multi_blob *own, const struct multi_blob *peer,
			  unsigned (*near)(const void *a, size_t a_len,
					   const void *b, size_t b_len),
			  int peer_of[MULTI_RAILS])
{
	unsigned table[MULTI_RAILS][MULTI_RAILS] = { 0 }, taken = 0, cnt = 0;
	struct pair best;

	for (unsigned i = 0; i < MULTI_RAILS; i++)
		peer_of[i] = -1;
	for (unsigned i = 0; i < own->cnt; i++)
		for (unsigned j = 0; j < peer->cnt; j++)
			table[i][j] = near_of(own, peer, i, j, near);
	while ((best = find_best(table, peer_of, taken)).near) {
		peer_of[best.own] = (int) best.peer;
		taken |= 1u << best.peer;
		cnt++;
	}
	return cnt;
}
