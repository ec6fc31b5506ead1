/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a link sends whose peer says that it has a list of receives: two words in front of every
 * packet. The peer here has none, so that it shows what came.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/verbs/verbs_fixture.h"
#include "xport/verbs/verbs_in.h"

enum { NUMBER = 77, WORDS = 16 };

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

static void prepare(void)
{
	verbs_prepare();
	verbs_need_srq();
	params.hw_tags = true;
}

TestSuite(verbs_words, .init = prepare, .timeout = 30);

static void claim_list(char *blob, size_t *len)
{
	struct verbs_blob peer;

	cr_assert_eq(tagrv_verbs_blob_unpack(&peer, blob, *len), 0);
	peer.list = true;
	peer.number = NUMBER;
	*len = tagrv_verbs_blob_pack(&peer, blob);
}

/* A believes that B has a list. */
static struct verbs_link *begin(void)
{
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	size_t len_a, len_b;

	verbs_open();
	cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a, &pair.a->link), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b, &pair.b->link), 0);
	claim_list(blob_b, &len_b);
	cr_assert_eq(ops->link_bind(pair.a->link, blob_b, len_b), 0);
	cr_assert_eq(ops->link_bind(pair.b->link, blob_a, len_a), 0);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	return verbs_link_of(pair.a->link);
}

/* The next packet that B has: its first word, and the pattern behind. */
static void expect(unsigned nth, uint64_t first, uint8_t seed, size_t len)
{
	static const char zeros[WORDS];
	const struct packet_record *packet;

	PAIR_UNTIL(&pair, pair.b->packet_cnt > nth);
	packet = &pair.b->packets[nth];
	cr_assert_eq(packet->len, WORDS + len);
	if (first)
		cr_assert_eq(memcmp(packet->data, &first, sizeof(first)), 0);
	else
		cr_assert_eq(memcmp(packet->data, zeros, WORDS), 0);
	cr_assert(is_pattern((const char *) packet->data + WORDS, seed, len));
}

Test(verbs_words, zeros_are_in_front_of_each_packet)
{
	const struct verbs_link *link = begin();
	const uint64_t hdr[TAGRV_SHORT_WORDS] = { 1, 2, 3, 4 };

	cr_assert_eq(link->base.number, NUMBER);
	cr_assert_eq(link->base.given, 0);
	pair_send(&pair, pair.a, 1, 100, NULL);
	expect(0, 0, 1, 100);
	pair_send(&pair, pair.a, 2, 3000, NULL);	/* not inline */
	expect(1, 0, 2, 3000);
	cr_assert_eq(ops->send_short(pair.a->link, hdr, "x", 1), -FI_EAGAIN);
	pair_send(&pair, pair.b, 3, 100, NULL);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1);
	cr_assert(is_pattern(pair.a->packets[0].data, 3, 100), "A has no list");
	pair_close(&pair);
}

Test(verbs_words, tagged_messages_bring_their_own)
{
	uint64_t words[2] = { TAGRV_TAGLIST_EAGER, 0x1122 };
	char payload[50];
	struct iovec iov[2] = { { words, sizeof(words) }, { payload, sizeof(payload) } };

	(void) begin();
	fill_pattern(payload, 9, sizeof(payload));
	cr_assert_eq(ops->send(pair.a->link, iov, 2, TAGRV_SEND_TAGGED, NULL), 0);
	expect(0, TAGRV_TAGLIST_EAGER, 9, sizeof(payload));
	pair_close(&pair);
}

/* Both ends bound their packets alike, and no packet is longer than a buffer. */
Test(verbs_words, longest_packet)
{
	const struct verbs_link *link = begin();
	size_t max = pair.a->xport->attr.max_packet - WORDS;
	struct iovec iov = { calloc(1, max + 1), max };

	cr_assert_eq(link->base.max_packet, max);
	cr_assert_eq(ops->send(pair.a->link, &iov, 1, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(pair.b->packets[0].len, max + WORDS);
	iov.iov_len++;
	cr_assert_eq(ops->send(pair.a->link, &iov, 1, 0, NULL), -FI_EMSGSIZE);
	free(iov.iov_base);
	pair_close(&pair);
}

/* Permits go by other packets, and so do those that are due when only tagged ones are sent. */
Test(verbs_words, one_way_traffic_in_each_direction_does_not_stop)
{
	uint64_t words[2] = { TAGRV_TAGLIST_EAGER, 5 };
	struct iovec iov = { words, sizeof(words) };
	struct iovec back = { (char [20]) { 0 }, 20 };
	unsigned sent = 0, answers = 0;

	(void) begin();
	for (int turns = 0; sent < 600; turns++) {
		int ret = ops->send(pair.a->link, &iov, 1, TAGRV_SEND_TAGGED, NULL);

		cr_assert_lt(turns, 100000);
		cr_assert(!ret || ret == -FI_EAGAIN);
		sent += !ret;
		if (answers < 600)
			answers += !ops->send(pair.b->link, &back, 1, 0, NULL);
		pair_progress(&pair);
	}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 600 && pair.a->packet_cnt == answers);
	pair_close(&pair);
}

/* ---- numbers ---- */

/* Any pointer: the transport looks whether there is a list, and no more. */
static struct tagrv_taglist no_list;

Test(verbs_words, numbers_are_taken_and_given_back)
{
	struct verbs_link links[3] = { 0 };
	struct verbs_xport *xp;

	verbs_open();
	xp = verbs_xport_of(pair.a->xport);
	for (int i = 0; i < 3; i++)
		links[i].base.xport = pair.a->xport;
	cr_assert(tagrv_verbs_number_take(&links[0], NULL));
	cr_assert_eq(links[0].in_number, 0, "there is no list");
	xp->base.list = &no_list;
	xp->list.numbers = tagrv_numbers_create();
	for (int i = 0; i < 3; i++)
		cr_assert(tagrv_verbs_number_take(&links[i], NULL) && links[i].in_number);
	cr_assert(links[0].in_number != links[1].in_number &&
		  links[1].in_number != links[2].in_number &&
		  links[0].in_number != links[2].in_number);
	while (tagrv_numbers_take(xp->list.numbers, NULL))
		;
	tagrv_verbs_number_give(&links[1]);
	cr_assert(tagrv_verbs_number_take(&links[1], NULL), "the one that is free");
	links[0].in_number = 0;
	cr_assert_not(tagrv_verbs_number_take(&links[0], NULL), "none is free");
	xp->base.list = NULL;
	pair_close(&pair);
}
