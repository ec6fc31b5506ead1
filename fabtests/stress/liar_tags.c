/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lies about tagged messages: packets of one device are changed on their way to a list.
 *
 * Numbers of senders are learnt from the packets of the honest ones, so that the liar can
 * write the number that a receiver has given to the other one.
 */
#include "liar_tags.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "common/fake_verbs.h"
#include "framework/pattern.h"
#include "match/offload/offload.h"
#include "xport/taglist.h"

enum { WORDS = 16, HEADER = 16, DEVICES = 4, KEPT = 16, KEPT_LEN = 256 };

const char *const tag_lie_names[TAG_LIES] = {
	[TAG_LIE_NUMBER] = "any number of a sender", [TAG_LIE_NO_NUMBER] = "no number of a sender",
	[TAG_LIE_OTHER] = "the number of the honest sender", [TAG_LIE_TAG] = "tags of other receives",
	[TAG_LIE_REPLAY] = "messages sent again", [TAG_LIE_HEADER] = "header forms without a header",
	[TAG_LIE_FLAGS] = "undefined flags", [TAG_LIE_BOTH] = "both forms at once",
	[TAG_LIE_SHORT] = "messages cut off", [TAG_LIE_OPCODE] = "other opcodes for the device",
	[TAG_LIE_BODY] = "any bytes behind the words",
};
uint64_t tag_lies[TAG_LIES], tag_lies_told;

static struct {
	unsigned liar, percent;
	uint64_t most, random;
	uint64_t number[DEVICES];	/* by receiver: of the other honest one, as in a tag */
	struct {
		size_t	len;
		uint8_t	bytes[KEPT_LEN];
	} kept[KEPT];
	unsigned kept_cnt;
	uint64_t arrived[DEVICES];	/* tagged messages at each */
} own;

/* ---- words ---- */

static uint64_t get_tag(const uint8_t *bytes)
{
	uint64_t tag;

	memcpy(&tag, bytes + 8, sizeof(tag));
	return be64toh(tag);
}

static void set_tag(uint8_t *bytes, uint64_t tag)
{
	tag = htobe64(tag);
	memcpy(bytes + 8, &tag, sizeof(tag));
}

static const uint64_t number_bits = (uint64_t)TAGRV_OFFLOAD_SOURCES << TAGRV_OFFLOAD_TAG_BITS;

static void set_number(uint8_t *bytes, uint64_t number)
{
	set_tag(bytes, (get_tag(bytes) & ~number_bits) | (number & number_bits));
}

static bool is_tagged(const uint8_t *bytes, size_t len)
{
	return len >= WORDS && bytes[0] == TAGRV_TAGLIST_EAGER;
}

static void keep(const uint8_t *bytes, size_t len)
{
	unsigned at = own.kept_cnt++ % KEPT;

	if (len > KEPT_LEN)
		len = KEPT_LEN;
	memcpy(own.kept[at].bytes, bytes, len);
	own.kept[at].len = len;
}

/* ---- lies ---- */

static void fill(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(pattern_next(&own.random) >> 16);
}

static size_t replay(uint8_t *bytes, size_t len)
{
	unsigned at = (unsigned)(pattern_next(&own.random) >> 8) % KEPT;

	if (!own.kept[at].len || own.kept[at].len > len)
		return len;
	memcpy(bytes, own.kept[at].bytes, own.kept[at].len);
	return own.kept[at].len;
}

/* The header form, with a header if there was one: flags are its first two bytes. */
static void break_flags(uint8_t *bytes, size_t len)
{
	uint64_t r = pattern_next(&own.random);
	uint16_t flags;

	set_tag(bytes, (get_tag(bytes) | TAGRV_OFFLOAD_HAS_HEADER) & ~TAGRV_OFFLOAD_HAS_DATA);
	if (len < WORDS + HEADER)
		return;
	memcpy(&flags, bytes + WORDS, sizeof(flags));
	flags |= htole16((uint16_t)(1u << (5 + r % 11)));
	memcpy(bytes + WORDS, &flags, sizeof(flags));
}

/* Returns the length that is sent. */
static size_t lie(enum tag_lie what, unsigned to, uint8_t *bytes, size_t len)
{
	uint64_t r = pattern_next(&own.random), tag = get_tag(bytes);

	switch (what) {
	case TAG_LIE_NUMBER: set_number(bytes, r); break;
	case TAG_LIE_NO_NUMBER: set_number(bytes, 0); break;
	case TAG_LIE_OTHER: set_number(bytes, own.number[to]); break;
	case TAG_LIE_TAG: set_tag(bytes, tag ^ (r & 1 ? r >> 8 & 0xff : r >> 16)); break;
	case TAG_LIE_REPLAY: return replay(bytes, len);
	case TAG_LIE_HEADER: set_tag(bytes, tag ^ TAGRV_OFFLOAD_HAS_HEADER); break;
	case TAG_LIE_FLAGS: break_flags(bytes, len); break;
	case TAG_LIE_BOTH:
		set_tag(bytes, tag | TAGRV_OFFLOAD_HAS_HEADER | TAGRV_OFFLOAD_HAS_DATA);
		break;
	case TAG_LIE_SHORT: return r % (r & 1 << 20 && len > 40 ? 40 : len);
	case TAG_LIE_OPCODE: bytes[0] = (uint8_t)(r & 1 << 20 ? r % 3 : r % 256); break;
	default: fill(bytes + 4 + (r & 4), len - 4 - (r & 4));
	}
	return len;
}

static size_t maybe_lie(unsigned from, unsigned to, uint8_t *bytes, size_t len)
{
	uint64_t r = pattern_next(&own.random);
	enum tag_lie what;

	if (!is_tagged(bytes, len))
		return len;
	if (from != own.liar && to != own.liar)
		own.number[to] = get_tag(bytes) & number_bits;
	if (from != own.liar || tag_lies_told >= own.most)
		return len;
	keep(bytes, len);
	if (r % 100 >= own.percent)
		return len;
	what = (enum tag_lie)((r >> 16) % TAG_LIES);
	tag_lies[what]++;
	tag_lies_told++;
	return lie(what, to, bytes, len);
}

static size_t change(unsigned from, unsigned to, void *packet, size_t len)
{
	const uint8_t *bytes = packet;

	if (to >= DEVICES)
		return len;
	len = maybe_lie(from, to, packet, len);
	/* A device takes a rendezvous of its own for one, too, if it is whole. */
	own.arrived[to] += is_tagged(bytes, len) || (len >= 2 * WORDS && bytes[0] == 1);
	return len;
}

uint64_t tag_lies_arrived(unsigned to)
{
	return own.arrived[to];
}

void tag_lies_begin(unsigned liar, unsigned percent, uint64_t most, uint64_t seed)
{
	own.liar = liar;
	own.percent = percent;
	own.most = most;
	own.random = seed;
	fake_verbs_on_tagged(change);
}
