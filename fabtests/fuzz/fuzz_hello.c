/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes what arrives on a socket before and after the peer has proven that it has
 * the job's key.
 *
 *   byte 0 bits 0-1: the key of the endpoint: none, a name, a secret
 *          bit 2:    the endpoint dials, or else accepts
 *          bit 3:    the peer is of the job, or else knows nothing but the key's id
 *   a peer of the job: its records are made of the input and sealed; some are changed
 *          on the way, by one byte. The changed ones must be refused, the others not.
 *   a stranger: records are the input. With a secret, none must be taken for a proof.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *     -Iprov/tagrv/src -Ifabtests fabtests/fuzz/fuzz_hello.c \
 *     prov/tagrv/src/wireup/wireup_hello.c prov/tagrv/src/wireup/wireup_rec.c \
 *     prov/tagrv/src/auth/auth_*.c prov/tagrv/src/core/addr.c \
 *     prov/tagrv/src/core/param.c prov/tagrv/src/core/log.c -lnettle -lfabric
 */
#include <rdma/fi_errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_input.h"
#include "wireup/wireup_hello.h"
#include "wireup/wireup_rec.h"

#define require(x)	do { if (!(x)) abort(); } while (0)

/* A record of the input in memory of its own size, so that overruns are found. */
static uint8_t *take(struct input *in, size_t *len, size_t room)
{
	size_t want = (size_t) next(in) * 4;
	uint8_t *rec;

	*len = TAGRV_MIN(TAGRV_MIN(want, in->left), room);
	rec = malloc(*len + TAGRV_SEAL_LEN + 1);
	require(rec);
	memcpy(rec, in->pos, *len);
	in->pos += *len;
	in->left -= *len;
	return rec;
}

static struct tagrv_auth_key make_key(unsigned which)
{
	struct tagrv_auth_key key = { .level = TAGRV_AUTH_NONE };

	if (which == 1) {
		key.level = TAGRV_AUTH_SEPARATION;
		key.kind = TAGRV_AUTH_PMIX;
		key.id[0] = 17;
	} else if (which > 1) {
		require(!tagrv_auth_key_make(&key, "the secret of a job", 19));
	}
	return key;
}

static struct tagrv_addr make_addr(void)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(5000),
		.sin_addr.s_addr = htonl(0x0a010203),
	};
	struct tagrv_addr addr;

	require(!tagrv_addr_from(&addr, &in, sizeof(in)));
	return addr;
}

/* Some bytes that lead into the checks: a frozen head, level and id. */
static void dress(struct input *in, uint8_t *rec, size_t len,
		  const struct tagrv_auth_key *key)
{
	uint8_t how = next(in);

	if (len < TAGRV_HELLO_LEN || !(how & 1))
		return;
	memcpy(rec, TAGRV_WIREUP_MAGIC, TAGRV_WIREUP_MAGIC_LEN);
	rec[8] = (uint8_t) (len >> 8);
	rec[9] = (uint8_t) len;
	rec[10] = TAGRV_HELLO_TYPE;
	memset(rec + 11, 0, 5);
	rec[13] = TAGRV_WIRE_VERSION_MIN;
	rec[15] = TAGRV_WIRE_VERSION;
	if (how & 2) {
		rec[16] = (uint8_t) key->level;
		rec[17] = key->kind;
		memcpy(rec + 20, key->id, sizeof(key->id));
	}
}

/* A stranger: everything is what the input says. */
static void play_stranger(struct tagrv_hello *us, struct input *in,
			  const struct tagrv_addr *addr)
{
	uint8_t answer[TAGRV_HELLO_MAX], *rec;
	size_t len, answer_len;
	ssize_t ret;

	while (in->left) {
		rec = take(in, &len, TAGRV_WIREUP_REC_MAX);
		dress(in, rec, len, us->key);
		if (us->state == TAGRV_HELLO_START && us->dialed)
			ret = tagrv_hello_answered(us, rec, len, addr);
		else if (us->state == TAGRV_HELLO_START)
			ret = tagrv_hello_answer(us, rec, len, addr, answer,
						 &answer_len);
		else
			ret = tagrv_hello_unseal(us, rec, len);
		free(rec);
		require(ret >= 0 || us->state == TAGRV_HELLO_REFUSED);
		require(!us->proven);
		require(ret < 0 || !us->sealed || !us->dialed);
	}
}

/* One record of a peer of the job, perhaps changed on its way. */
static void send_record(struct tagrv_hello *peer, struct tagrv_hello *us,
			struct input *in)
{
	struct tagrv_wireup_rec decoded;
	size_t len, sealed_len, at;
	uint8_t *rec = take(in, &len, TAGRV_WIREUP_REC_MAX - TAGRV_SEAL_LEN);
	uint8_t change = next(in);
	ssize_t ret;

	if (len < TAGRV_WIREUP_REC_HEAD) {
		free(rec);
		return;
	}
	sealed_len = tagrv_hello_seal(peer, rec, len);
	at = ((size_t) next(in) << 8 | next(in)) % sealed_len;
	rec[at] ^= change;
	ret = tagrv_hello_unseal(us, rec, sealed_len);
	if (us->sealed)
		require(change ? ret == -FI_EACCES : ret == (ssize_t) len);
	else
		require(ret == (ssize_t) len);
	if (ret > 0 && !tagrv_wireup_rec_decode(rec, (size_t) ret, &decoded))
		require(decoded.link_cnt <= TAGRV_WIREUP_LINKS_MAX);
	free(rec);
}

static void play_peer(struct tagrv_hello *us, struct input *in,
		      const struct tagrv_addr *addr)
{
	struct tagrv_hello peer;
	struct tagrv_hello *dialer = us->dialed ? us : &peer;
	struct tagrv_hello *acceptor = us->dialed ? &peer : us;
	uint8_t first[TAGRV_HELLO_MAX], answer[TAGRV_HELLO_MAX];
	size_t len, answer_len;

	require(!tagrv_hello_init(&peer, us->key, !us->dialed));
	len = tagrv_hello_first(dialer, first);
	require(!tagrv_hello_answer(acceptor, first, len, addr, answer,
				    &answer_len));
	require(!tagrv_hello_answered(dialer, answer, answer_len, addr));
	while (in->left && us->state == TAGRV_HELLO_OPEN)
		send_record(&peer, us, in);
	tagrv_hello_fini(&peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t what = next(&in);
	struct tagrv_auth_key key = make_key(what & 3);
	struct tagrv_addr addr = make_addr();
	struct tagrv_hello us;

	require(!tagrv_hello_init(&us, &key, what & 4));
	if (what & 8)
		play_peer(&us, &in, &addr);
	else
		play_stranger(&us, &in, &addr);
	tagrv_hello_fini(&us);
	return 0;
}
