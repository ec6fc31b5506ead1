/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * HELLO records and seals: see wireup_hello.h.
 */
#include "wireup/wireup_hello.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/random.h"
#include "wireup/wireup_rec.h"

/* Offsets in a HELLO. */
#define LENGTH		TAGRV_WIREUP_MAGIC_LEN
#define TYPE		10
#define REASON		11
#define VERSION_MIN	12
#define VERSION_MAX	14
#define LEVEL		16
#define KIND		17
#define ID		20
#define NONCE		28
#define NONCE_LEN	16
#define KNOWS		44

/* Family (1), zero (1), port (2), IP (16). */
#define ADDR_LEN	20

/* Both have the same length, as the parts of a MAC must. */
#define LABEL_LEN	16
static const char dialer_label[LABEL_LEN + 1] = "tagrv 2 dialer\0\0";
static const char acceptor_label[LABEL_LEN + 1] = "tagrv 2 acceptor";

static_assert(TAGRV_HELLO_MAX <= TAGRV_WIREUP_REC_MAX, "a HELLO is a record");

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t) (value >> 8);
	at[1] = (uint8_t) value;
}

static unsigned get16(const uint8_t *at)
{
	return (unsigned) at[0] << 8 | at[1];
}

static int fill_hello(struct tagrv_hello *hello)
{
	const struct tagrv_auth_key *key = hello->key;
	uint8_t *rec = hello->ours;

	memcpy(rec, TAGRV_WIREUP_MAGIC, TAGRV_WIREUP_MAGIC_LEN);
	put16(rec + LENGTH, TAGRV_HELLO_LEN);
	rec[TYPE] = TAGRV_HELLO_TYPE;
	put16(rec + VERSION_MIN, TAGRV_WIRE_VERSION_MIN);
	put16(rec + VERSION_MAX, TAGRV_WIRE_VERSION);
	rec[LEVEL] = (uint8_t) key->level;
	rec[KIND] = key->kind;
	memcpy(rec + ID, key->id, sizeof(key->id));
	return tagrv_random_fill(rec + NONCE, NONCE_LEN);
}

int tagrv_hello_init(struct tagrv_hello *hello,
		     const struct tagrv_auth_key *key, bool dialed)
{
	static const struct tagrv_auth_key nobodys;

	memset(hello, 0, sizeof(*hello));
	hello->key = key ? key : &nobodys;
	hello->dialed = dialed;
	return fill_hello(hello);
}

void tagrv_hello_tell(struct tagrv_hello *hello, uint32_t knows)
{
	put16(hello->ours + KNOWS, knows >> 16);
	put16(hello->ours + KNOWS + 2, knows & 0xffff);
}

void tagrv_hello_fini(struct tagrv_hello *hello)
{
	tagrv_mac_wipe(hello, sizeof(*hello));
	hello->state = TAGRV_HELLO_REFUSED;
}

size_t tagrv_hello_first(const struct tagrv_hello *hello,
			 uint8_t buf[TAGRV_HELLO_MAX])
{
	assert(hello->dialed && hello->state == TAGRV_HELLO_START);
	memcpy(buf, hello->ours, TAGRV_HELLO_LEN);
	return TAGRV_HELLO_LEN;
}

/* ---- keys ---- */

/* Scopes are left out: each host numbers its interfaces by itself. */
static void pack_addr(uint8_t buf[ADDR_LEN], const struct tagrv_addr *addr)
{
	size_t len;
	const void *ip = tagrv_addr_ip(addr, &len);

	memset(buf, 0, ADDR_LEN);
	buf[0] = len == sizeof(struct in_addr) ? 4 : 6;
	put16(buf + 2, tagrv_addr_port(addr));
	memcpy(buf + 4, ip, len);
}

/* A HELLO tells its own length, so two of them in a row mean one thing only. */
static void make_keys(struct tagrv_hello *hello, const uint8_t *peers,
		      size_t len, const struct tagrv_addr *addr)
{
	uint8_t where[ADDR_LEN];
	const struct tagrv_mac_part our = { hello->ours, TAGRV_HELLO_LEN };
	const struct tagrv_mac_part their = { peers, len };
	struct tagrv_mac_part parts[] = {
		{ dialer_label, LABEL_LEN },
		{ where, sizeof(where) },
		hello->dialed ? our : their,
		hello->dialed ? their : our,
	};
	uint8_t *dialer = hello->dialed ? hello->send_key : hello->recv_key;
	uint8_t *acceptor = hello->dialed ? hello->recv_key : hello->send_key;
	const uint8_t *secret = hello->key->secret;

	pack_addr(where, addr);
	tagrv_mac_compute(secret, TAGRV_MAC_LEN, parts,
			  TAGRV_ARRAY_SIZE(parts), dialer);
	parts[0].data = acceptor_label;
	tagrv_mac_compute(secret, TAGRV_MAC_LEN, parts,
			  TAGRV_ARRAY_SIZE(parts), acceptor);
}

/* ---- seals ---- */

static void compute_seal(const uint8_t key[TAGRV_MAC_LEN], uint64_t number,
			 const void *rec, size_t len,
			 uint8_t seal[TAGRV_MAC_LEN])
{
	uint8_t count[8];
	const struct tagrv_mac_part parts[] = {
		{ count, sizeof(count) }, { rec, len },
	};

	for (int i = 7; i >= 0; i--, number >>= 8)
		count[i] = (uint8_t) number;
	tagrv_mac_compute(key, TAGRV_MAC_LEN, parts, TAGRV_ARRAY_SIZE(parts),
			  seal);
}

size_t tagrv_hello_seal(struct tagrv_hello *hello, void *rec, size_t len)
{
	uint8_t *bytes = rec;

	assert(hello->state == TAGRV_HELLO_OPEN);
	if (!hello->sealed)
		return len;
	assert(len >= TAGRV_WIREUP_REC_HEAD &&
	       len + TAGRV_SEAL_LEN <= TAGRV_WIREUP_REC_MAX);
	put16(bytes + LENGTH, (unsigned) (len + TAGRV_SEAL_LEN));
	compute_seal(hello->send_key, hello->sent++, bytes, len, bytes + len);
	return len + TAGRV_SEAL_LEN;
}

static ssize_t refuse(struct tagrv_hello *hello, int ret)
{
	hello->state = TAGRV_HELLO_REFUSED;
	return ret;
}

ssize_t tagrv_hello_unseal(struct tagrv_hello *hello, void *rec, size_t len)
{
	uint8_t seal[TAGRV_MAC_LEN], *bytes = rec;
	size_t body = len - TAGRV_SEAL_LEN;
	bool right;

	if (hello->state != TAGRV_HELLO_OPEN)
		return refuse(hello, -FI_EACCES);
	if (!hello->sealed)
		return (ssize_t) len;
	if (len < TAGRV_WIREUP_REC_HEAD + TAGRV_SEAL_LEN)
		return refuse(hello, -FI_EACCES);
	compute_seal(hello->recv_key, hello->received, bytes, body, seal);
	right = tagrv_mac_equal(seal, bytes + body, sizeof(seal));
	/* The right seal of a forged record must not stay in memory. */
	tagrv_mac_wipe(seal, sizeof(seal));
	if (!right)
		return refuse(hello, -FI_EACCES);
	hello->received++;
	hello->proven = true;
	put16(bytes + LENGTH, (unsigned) body);
	return (ssize_t) body;
}

/* ---- the peer's HELLO ---- */

/* Looks at the frozen bytes first: later versions have what they like behind them. */
static int check_hello(const uint8_t *rec, size_t len)
{
	if (len < TAGRV_WIREUP_REC_HEAD ||
	    tagrv_wireup_rec_length(rec, len) != (ssize_t) len ||
	    rec[TYPE] != TAGRV_HELLO_TYPE ||
	    get16(rec + VERSION_MIN) > get16(rec + VERSION_MAX))
		return -FI_EINVAL;
	if (get16(rec + VERSION_MIN) > TAGRV_WIRE_VERSION ||
	    get16(rec + VERSION_MAX) < TAGRV_WIRE_VERSION_MIN)
		return -FI_ENOPROTOOPT;
	return len >= TAGRV_HELLO_LEN ? 0 : -FI_EINVAL;
}

/* Takes note of the peer's HELLO. 0 or -FI_EACCES: it is of another job. */
static int meet(struct tagrv_hello *hello, const uint8_t *rec)
{
	hello->peer_level = rec[LEVEL];
	hello->peer_kind = rec[KIND];
	hello->peer_knows = get16(rec + KNOWS) << 16 | get16(rec + KNOWS + 2);
	if (!tagrv_auth_key_fits(hello->key, rec[LEVEL], rec[KIND], rec + ID))
		return -FI_EACCES;
	hello->sealed = hello->key->level == TAGRV_AUTH_AUTHENTICATION;
	return 0;
}

int tagrv_hello_answer(struct tagrv_hello *hello, const void *rec, size_t len,
		       const struct tagrv_addr *addr,
		       uint8_t answer[TAGRV_HELLO_MAX], size_t *answer_len)
{
	int ret = check_hello(rec, len);

	assert(!hello->dialed);
	*answer_len = 0;
	if (!ret && hello->state != TAGRV_HELLO_START)
		ret = -FI_EINVAL;
	if (ret)
		return (int) refuse(hello, ret);
	memcpy(answer, hello->ours, TAGRV_HELLO_LEN);
	*answer_len = TAGRV_HELLO_LEN;
	ret = meet(hello, rec);
	if (ret)
		return (int) refuse(hello, ret);
	hello->state = TAGRV_HELLO_OPEN;
	if (hello->sealed) {
		make_keys(hello, rec, len, addr);
		*answer_len = tagrv_hello_seal(hello, answer, TAGRV_HELLO_LEN);
	}
	return 0;
}

/* The acceptor computed the keys before it added the seal. */
static int check_answer(struct tagrv_hello *hello, const uint8_t *rec, size_t len,
			const struct tagrv_addr *addr)
{
	uint8_t copy[TAGRV_WIREUP_REC_MAX];
	size_t body = len - TAGRV_SEAL_LEN;

	if (!hello->sealed)
		return 0;
	if (len < TAGRV_HELLO_MAX)
		return -FI_EACCES;
	memcpy(copy, rec, len);
	put16(copy + LENGTH, (unsigned) body);
	make_keys(hello, copy, body, addr);
	put16(copy + LENGTH, (unsigned) len);
	hello->state = TAGRV_HELLO_OPEN;
	return tagrv_hello_unseal(hello, copy, len) < 0 ? -FI_EACCES : 0;
}

int tagrv_hello_answered(struct tagrv_hello *hello, const void *rec, size_t len,
			 const struct tagrv_addr *addr)
{
	int ret = check_hello(rec, len);

	assert(hello->dialed);
	if (!ret && hello->state != TAGRV_HELLO_START)
		ret = -FI_EINVAL;
	if (!ret)
		ret = meet(hello, rec);
	if (!ret)
		ret = check_answer(hello, rec, len, addr);
	if (ret)
		return (int) refuse(hello, ret);
	hello->state = TAGRV_HELLO_OPEN;
	return 0;
}
