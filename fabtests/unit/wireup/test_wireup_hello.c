/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wireup_hello.c: the first records of a socket, seals, and those who want to get in
 * without the secret.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "wireup/wireup_hello.h"
#include "wireup/wireup_rec.h"

#define SECRET	"a secret of the job"

/* The bytes of one record on the wire. */
struct bytes {
	uint8_t	data[TAGRV_WIREUP_REC_MAX];
	size_t	len;
};

/* Both ends of a socket; the HELLOs that went over it. */
struct ends {
	struct tagrv_hello dialer, acceptor;
	struct bytes first, answer;
	int	acceptor_says, dialer_says;
};

static struct tagrv_auth_key secret, other, none, name;
static struct tagrv_addr where;

static struct tagrv_addr make_addr(const char *ip, uint16_t port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = inet_addr(ip),
	};
	struct tagrv_addr addr;

	cr_assert_eq(tagrv_addr_from(&addr, &in, sizeof(in)), 0);
	return addr;
}

static void make_keys(void)
{
	cr_assert_eq(tagrv_auth_key_make(&secret, SECRET, strlen(SECRET)), 0);
	cr_assert_eq(tagrv_auth_key_make(&other, SECRET "!", strlen(SECRET) + 1), 0);
	name.level = TAGRV_AUTH_SEPARATION;
	name.kind = TAGRV_AUTH_SLURM;
	name.id[0] = 17;
	where = make_addr("10.1.2.3", 5000);
}

TestSuite(wireup_hello, .init = make_keys);

static void begin(struct ends *e, const struct tagrv_auth_key *dialer,
		  const struct tagrv_auth_key *acceptor)
{
	memset(e, 0, sizeof(*e));
	cr_assert_eq(tagrv_hello_init(&e->dialer, dialer, true), 0);
	cr_assert_eq(tagrv_hello_init(&e->acceptor, acceptor, false), 0);
	e->first.len = tagrv_hello_first(&e->dialer, e->first.data);
	cr_assert_eq(e->first.len, TAGRV_HELLO_LEN);
}

static int answer(struct ends *e)
{
	e->acceptor_says = tagrv_hello_answer(&e->acceptor, e->first.data,
					      e->first.len, &where,
					      e->answer.data, &e->answer.len);
	return e->acceptor_says;
}

static int answered(struct ends *e)
{
	e->dialer_says = tagrv_hello_answered(&e->dialer, e->answer.data,
					      e->answer.len, &where);
	return e->dialer_says;
}

static void meet(struct ends *e, const struct tagrv_auth_key *dialer,
		 const struct tagrv_auth_key *acceptor)
{
	begin(e, dialer, acceptor);
	answer(e);
	answered(e);
}

static struct ends opened(const struct tagrv_auth_key *dialer,
			  const struct tagrv_auth_key *acceptor)
{
	struct ends e;

	meet(&e, dialer, acceptor);
	cr_assert_eq(e.acceptor_says, 0);
	cr_assert_eq(e.dialer_says, 0);
	return e;
}

/* A record with everything in it. */
static struct bytes make_rec(enum tagrv_wireup_rec_type type)
{
	struct tagrv_wireup_rec rec = {
		.type = type,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
		.src_uuid = { 1 }, .dst_uuid = { 2 },
		.src_epoch = 3, .dst_epoch = 4,
		.max_packet = 4096,
		.addr = where,
		.link_cnt = 2,
		.links = {
			{ .wire_id = 3, .len = 8, .max_packet = 4096 },
			{ .wire_id = 1, .len = TAGRV_BLOB_MAX, .max_packet = 8192 },
		},
	};
	struct bytes out;

	out.len = tagrv_wireup_rec_encode(&rec, out.data);
	return out;
}

static struct bytes sealed(struct tagrv_hello *from, enum tagrv_wireup_rec_type type)
{
	struct bytes rec = make_rec(type);

	rec.len = tagrv_hello_seal(from, rec.data, rec.len);
	return rec;
}

static ssize_t unseal(struct tagrv_hello *to, struct bytes rec)
{
	return tagrv_hello_unseal(to, rec.data, rec.len);
}

static void expect_arrives(struct tagrv_hello *from, struct tagrv_hello *to,
			   enum tagrv_wireup_rec_type type)
{
	struct bytes plain = make_rec(type), rec = sealed(from, type);
	ssize_t len = tagrv_hello_unseal(to, rec.data, rec.len);

	cr_assert_eq(len, (ssize_t) plain.len);
	cr_expect_arr_eq(rec.data, plain.data, plain.len);
}

static void expect_refused(struct tagrv_hello *to, struct bytes rec)
{
	struct tagrv_hello copy = *to;

	cr_expect_eq(unseal(&copy, rec), -FI_EACCES);
	cr_expect_eq(copy.state, TAGRV_HELLO_REFUSED);
	cr_expect_eq(unseal(&copy, rec), -FI_EACCES, "refused for good");
}

Test(wireup_hello, both_prove_that_they_have_the_secret)
{
	struct ends e = opened(&secret, &secret);

	cr_expect(e.dialer.proven, "by the acceptor's HELLO");
	cr_expect_not(e.acceptor.proven, "a first HELLO proves nothing");
	expect_arrives(&e.dialer, &e.acceptor, TAGRV_WIREUP_REQ);
	cr_expect(e.acceptor.proven);
	expect_arrives(&e.acceptor, &e.dialer, TAGRV_WIREUP_REP);
	expect_arrives(&e.dialer, &e.acceptor, TAGRV_WIREUP_RTU);
	expect_arrives(&e.acceptor, &e.dialer, TAGRV_WIREUP_CLOSE);
}

Test(wireup_hello, without_a_secret_records_stay_as_they_are)
{
	const struct tagrv_auth_key *keys[] = { &none, &name };

	for (int i = 0; i < 4; i++) {
		struct ends e = opened(keys[i & 1], keys[i >> 1]);
		struct bytes plain = make_rec(TAGRV_WIREUP_REQ);
		struct bytes rec = sealed(&e.dialer, TAGRV_WIREUP_REQ);

		cr_expect_eq(e.answer.len, TAGRV_HELLO_LEN);
		cr_assert_eq(rec.len, plain.len);
		cr_expect_arr_eq(rec.data, plain.data, plain.len);
		cr_expect_eq(unseal(&e.acceptor, rec), (ssize_t) plain.len);
		cr_expect_not(e.acceptor.proven);
	}
}

static void expect_strangers(const struct tagrv_auth_key *dialer,
			     const struct tagrv_auth_key *acceptor)
{
	struct ends e;

	meet(&e, dialer, acceptor);
	cr_expect_eq(e.acceptor_says, -FI_EACCES);
	cr_expect_eq(e.answer.len, TAGRV_HELLO_LEN, "the dialer learns why");
	cr_expect_eq(e.dialer_says, -FI_EACCES);
	cr_expect_eq(e.acceptor.state, TAGRV_HELLO_REFUSED);
	cr_expect_eq(e.dialer.state, TAGRV_HELLO_REFUSED);
	cr_expect_eq(e.acceptor.peer_level, dialer->level);
	cr_expect_eq(e.dialer.peer_level, acceptor->level);
	cr_expect_eq(unseal(&e.acceptor, make_rec(TAGRV_WIREUP_REQ)), -FI_EACCES);
}

Test(wireup_hello, other_jobs_are_refused_on_both_sides)
{
	struct tagrv_auth_key second = name;

	second.id[0]++;
	expect_strangers(&secret, &other);
	expect_strangers(&secret, &none);
	expect_strangers(&none, &secret);
	expect_strangers(&secret, &name);
	expect_strangers(&name, &secret);
	expect_strangers(&name, &second);
}

/* The id is no secret: whoever has seen it can send it. */
Test(wireup_hello, the_id_alone_opens_nothing)
{
	struct tagrv_auth_key thief = other;
	struct ends e;

	memcpy(thief.id, secret.id, sizeof(thief.id));
	begin(&e, &thief, &secret);
	cr_assert_eq(answer(&e), 0);
	cr_expect_eq(answered(&e), -FI_EACCES);
	e.dialer.state = TAGRV_HELLO_OPEN;	/* it does not care */
	expect_refused(&e.acceptor, sealed(&e.dialer, TAGRV_WIREUP_REQ));
	expect_refused(&e.acceptor, make_rec(TAGRV_WIREUP_REQ));

	meet(&e, &secret, &thief);
	cr_expect_eq(e.acceptor_says, 0);
	cr_expect_eq(e.dialer_says, -FI_EACCES);
}

Test(wireup_hello, every_bit_of_a_record_counts)
{
	struct ends e = opened(&secret, &secret);
	struct bytes rec = sealed(&e.dialer, TAGRV_WIREUP_REQ);

	for (size_t bit = 0; bit < rec.len * 8; bit++) {
		rec.data[bit / 8] ^= (uint8_t) (1u << bit % 8);
		expect_refused(&e.acceptor, rec);
		rec.data[bit / 8] ^= (uint8_t) (1u << bit % 8);
	}
	for (size_t len = 0; len < rec.len; len++) {
		struct bytes part = rec;

		part.len = len;
		expect_refused(&e.acceptor, part);
	}
	cr_expect_gt(unseal(&e.acceptor, rec), 0, "unchanged, it is right");
}

Test(wireup_hello, every_bit_of_both_hellos_counts)
{
	struct ends e;

	for (size_t bit = 0; bit < TAGRV_HELLO_LEN * 8; bit++) {
		begin(&e, &secret, &secret);
		e.first.data[bit / 8] ^= (uint8_t) (1u << bit % 8);
		if (!answer(&e))
			cr_expect_neq(answered(&e), 0, "bit %zu", bit);
	}
	for (size_t bit = 0; bit < TAGRV_HELLO_MAX * 8; bit++) {
		begin(&e, &secret, &secret);
		cr_assert_eq(answer(&e), 0);
		e.answer.data[bit / 8] ^= (uint8_t) (1u << bit % 8);
		cr_expect_neq(answered(&e), 0, "bit %zu", bit);
	}
}

Test(wireup_hello, an_answer_without_its_seal_is_refused)
{
	struct ends e;

	begin(&e, &secret, &secret);
	cr_assert_eq(answer(&e), 0);
	e.answer.len = TAGRV_HELLO_LEN;
	e.answer.data[9] = TAGRV_HELLO_LEN;
	cr_expect_eq(answered(&e), -FI_EACCES);
}

Test(wireup_hello, versions_cannot_be_lowered)
{
	struct ends e;

	begin(&e, &secret, &secret);
	e.first.data[15]++;	/* as if the dialer spoke a newer version, too */
	cr_assert_eq(answer(&e), 0);
	cr_expect_eq(answered(&e), -FI_EACCES);
}

Test(wireup_hello, no_version_in_common)
{
	struct ends e;

	begin(&e, &secret, &secret);
	e.first.data[13] = e.first.data[15] = TAGRV_WIRE_VERSION + 1;
	cr_expect_eq(answer(&e), -FI_ENOPROTOOPT);
	cr_expect_eq(e.answer.len, 0);
	begin(&e, &none, &none);
	cr_assert_eq(answer(&e), 0);
	e.answer.data[13] = e.answer.data[15] = TAGRV_WIRE_VERSION + 1;
	cr_expect_eq(answered(&e), -FI_ENOPROTOOPT);
}

Test(wireup_hello, a_recorded_dialer_is_refused)
{
	struct ends e = opened(&secret, &secret), again;
	struct bytes req = sealed(&e.dialer, TAGRV_WIREUP_REQ);

	begin(&again, &secret, &secret);
	again.first = e.first;
	cr_assert_eq(answer(&again), 0);
	expect_refused(&again.acceptor, req);
}

Test(wireup_hello, a_recorded_acceptor_is_refused)
{
	struct ends e = opened(&secret, &secret), again;

	begin(&again, &secret, &secret);
	again.answer = e.answer;
	cr_expect_eq(answered(&again), -FI_EACCES);
}

Test(wireup_hello, records_are_taken_once_and_in_order)
{
	struct ends e = opened(&secret, &secret);
	struct bytes first = sealed(&e.dialer, TAGRV_WIREUP_REQ);
	struct bytes second = sealed(&e.dialer, TAGRV_WIREUP_RTU);

	expect_refused(&e.acceptor, second);
	cr_expect_gt(unseal(&e.acceptor, first), 0);
	expect_refused(&e.acceptor, first);
	cr_expect_gt(unseal(&e.acceptor, second), 0);
}

Test(wireup_hello, what_we_sent_is_not_taken_back)
{
	struct ends e = opened(&secret, &secret);
	struct ends mirror;

	/* The acceptor's HELLO was number 0: one of these has the right number. */
	for (int i = 0; i < 3; i++) {
		expect_refused(&e.dialer, sealed(&e.dialer, TAGRV_WIREUP_REQ));
		expect_refused(&e.acceptor,
			       sealed(&e.acceptor, TAGRV_WIREUP_REP));
	}
	e = opened(&secret, &secret);
	e.acceptor.sent = 0;
	expect_refused(&e.acceptor, sealed(&e.acceptor, TAGRV_WIREUP_REP));
	begin(&mirror, &secret, &secret);
	mirror.answer = mirror.first;
	cr_expect_eq(answered(&mirror), -FI_EACCES);
}

/* Another endpoint of the job, to which somebody leads the dialer's bytes. */
Test(wireup_hello, a_relay_to_another_address_is_refused)
{
	static const struct { const char *ip; uint16_t port; } others[] = {
		{ "10.1.2.4", 5000 }, { "10.1.2.3", 5001 },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(others); i++) {
		struct tagrv_addr there = make_addr(others[i].ip, others[i].port);
		struct ends e;

		begin(&e, &secret, &secret);
		cr_assert_eq(tagrv_hello_answer(&e.acceptor, e.first.data,
						e.first.len, &there,
						e.answer.data, &e.answer.len), 0);
		cr_expect_eq(answered(&e), -FI_EACCES);
	}
}

/* A listener of :: sees IPv4 addresses mapped, and has its own scopes. */
Test(wireup_hello, one_address_in_two_forms)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(5000),
		.sin6_addr.s6_addr = {
			[10] = 0xff, [11] = 0xff, 10, 1, 2, 3,
		},
	};
	struct tagrv_addr mapped, dialed = where;
	struct ends e;

	for (int i = 0; i < 2; i++) {
		cr_assert_eq(tagrv_addr_from(&mapped, &in6, sizeof(in6)), 0);
		begin(&e, &secret, &secret);
		cr_assert_eq(tagrv_hello_answer(&e.acceptor, e.first.data,
						e.first.len, &mapped,
						e.answer.data, &e.answer.len), 0);
		cr_expect_eq(tagrv_hello_answered(&e.dialer, e.answer.data,
						  e.answer.len, &dialed), 0);
		in6.sin6_addr = (struct in6_addr) { { { 0xfe, 0x80, [15] = 1 } } };
		in6.sin6_scope_id = 3;
		cr_assert_eq(tagrv_addr_from(&dialed, &in6, sizeof(in6)), 0);
		in6.sin6_scope_id = 4;
	}
}

/* What an older release sends there is zero, and ignored by it. */
Test(wireup_hello, each_side_learns_what_the_other_knows)
{
	const struct tagrv_auth_key *keys[] = { &none, &secret };
	struct ends e;

	for (int i = 0; i < 2; i++) {
		begin(&e, keys[i], keys[i]);
		tagrv_hello_tell(&e.acceptor, TAGRV_HELLO_LOCAL);
		tagrv_hello_tell(&e.dialer, 0xfedc0000);
		e.first.len = tagrv_hello_first(&e.dialer, e.first.data);
		cr_assert_eq(answer(&e), 0);
		cr_assert_eq(answered(&e), 0);
		cr_expect_eq(e.dialer.peer_knows, TAGRV_HELLO_LOCAL);
		cr_expect_eq(e.acceptor.peer_knows, 0xfedc0000);
		cr_expect_eq(e.answer.data[47], TAGRV_HELLO_LOCAL);
		e = opened(keys[i], keys[i]);
		cr_expect_eq(e.dialer.peer_knows | e.acceptor.peer_knows, 0);
	}
}

Test(wireup_hello, a_longer_hello_of_a_later_version)
{
	struct ends e;

	begin(&e, &secret, &secret);
	memset(e.first.data + e.first.len, 7, 20);
	e.first.len += 20;
	e.first.data[9] += 20;
	cr_expect_eq(answer(&e), 0);
	/* Its dialer would compute the keys with these bytes; ours has not sent them. */
	cr_expect_eq(answered(&e), -FI_EACCES);
	begin(&e, &none, &none);
	e.first.len += 20;
	e.first.data[9] += 20;
	cr_expect_eq(answer(&e), 0);
}

Test(wireup_hello, what_is_no_hello)
{
	struct bytes req = make_rec(TAGRV_WIREUP_REQ);
	struct ends e;

	begin(&e, &none, &none);
	e.first = req;
	cr_expect_eq(answer(&e), -FI_EINVAL);
	cr_expect_eq(e.answer.len, 0);
	for (size_t len = 0; len < TAGRV_HELLO_LEN; len++) {
		begin(&e, &none, &none);
		e.first.len = len;
		cr_expect_eq(answer(&e), -FI_EINVAL);
		e.first.data[9] = (uint8_t) len;
		cr_expect_eq(answer(&e), -FI_EINVAL);
	}
	begin(&e, &none, &none);
	e.answer = make_rec(TAGRV_WIREUP_REJ);
	cr_expect_eq(answered(&e), -FI_EINVAL);
	cr_expect_eq(e.dialer.state, TAGRV_HELLO_REFUSED);
}

Test(wireup_hello, a_second_hello_is_refused)
{
	struct ends e = opened(&secret, &secret);

	cr_expect_eq(answered(&e), -FI_EINVAL);
	cr_expect_eq(answer(&e), -FI_EINVAL);
	cr_expect_eq(unseal(&e.acceptor, make_rec(TAGRV_WIREUP_REQ)), -FI_EACCES);
}

Test(wireup_hello, nothing_is_accepted_before_the_hello)
{
	struct ends e;

	begin(&e, &none, &none);
	expect_refused(&e.acceptor, make_rec(TAGRV_WIREUP_REQ));
	expect_refused(&e.dialer, make_rec(TAGRV_WIREUP_REP));
}

Test(wireup_hello, keys_are_wiped)
{
	struct ends e = opened(&secret, &secret);
	static const uint8_t zeros[TAGRV_MAC_LEN];

	tagrv_hello_fini(&e.dialer);
	cr_expect_arr_eq(e.dialer.send_key, zeros, sizeof(zeros));
	cr_expect_arr_eq(e.dialer.recv_key, zeros, sizeof(zeros));
	cr_expect_eq(unseal(&e.dialer, make_rec(TAGRV_WIREUP_REP)), -FI_EACCES);
}

/* The bytes of wire_protocol.md section 2.7, computed by another program. */
Test(wireup_hello, seals_are_as_documented)
{
	static const uint8_t id[] = {
		0x80, 0xa2, 0xe5, 0xfa, 0x4c, 0x1b, 0x1f, 0x57,
	}, first_seal[] = {
		0xa4, 0xbb, 0x9d, 0x12, 0x28, 0x14, 0x7a, 0x80,
		0x3f, 0xea, 0x89, 0x4a, 0xe8, 0x68, 0x74, 0x9e,
		0x78, 0x65, 0xc2, 0xf9, 0xbb, 0xbb, 0x83, 0x6a,
		0xbd, 0x82, 0x4d, 0x54, 0x7a, 0x9b, 0x99, 0x33,
	}, close_seal[] = {
		0x3a, 0x1d, 0x88, 0x66, 0xbb, 0x8e, 0x24, 0x1b,
		0xdb, 0xbb, 0x1e, 0x29, 0x39, 0x74, 0x4a, 0x17,
		0x8b, 0x17, 0x24, 0xa6, 0xe1, 0x18, 0x83, 0x1c,
		0x15, 0x6a, 0xd9, 0x76, 0xc5, 0xb9, 0x89, 0xbc,
	}, versions[] = { 0, 1, 0, 2 };
	uint8_t close[TAGRV_WIREUP_REC_HEAD + TAGRV_SEAL_LEN] =
		"tagrvwir\0\x10\5\0\0\1\0\2";
	struct ends e;

	begin(&e, &secret, &secret);
	cr_expect_arr_eq(secret.id, id, sizeof(id));
	memcpy(e.dialer.ours + 12, versions, sizeof(versions));
	memcpy(e.acceptor.ours + 12, versions, sizeof(versions));
	memset(e.dialer.ours + 28, 0xd1, 16);
	memset(e.acceptor.ours + 28, 0xa1, 16);
	e.first.len = tagrv_hello_first(&e.dialer, e.first.data);
	cr_assert_eq(answer(&e), 0);
	cr_expect_arr_eq(e.answer.data + TAGRV_HELLO_LEN, first_seal, 32);
	cr_assert_eq(answered(&e), 0);
	cr_expect_eq(tagrv_hello_seal(&e.dialer, close, 16), 48);
	cr_expect_arr_eq(close + 16, close_seal, 32);
}

/* Longest record and seal. */
Test(wireup_hello, the_longest_record_has_room_for_its_seal)
{
	cr_expect_leq(TAGRV_WIREUP_REC_FIXED + TAGRV_WIREUP_LINKS_MAX *
		      (TAGRV_BLOB_MAX + 8) + TAGRV_SEAL_LEN, TAGRV_WIREUP_REC_MAX);
}
