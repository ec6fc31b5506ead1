/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who is at the other end of a socket: the first records on it, and the seal of all
 * others. Pure functions over bytes; one struct tagrv_hello per socket.
 *
 *      dialer                                          acceptor
 *      START    -- HELLO(level, id, nonce d) --------->  START
 *                                                        keys from both HELLOs
 *      OPEN     <- HELLO(level, id, nonce a) + seal ---  OPEN: knows nothing yet
 *      the seal proves the acceptor
 *               -- REQ + seal ------------------------>  the seal proves the dialer;
 *                                                        only now a link is bound
 *               <- REP + seal -------------------------
 *      binds    -- RTU + seal ------------------------>
 *
 *      START --> REFUSED   another job: the acceptor answers its HELLO, so that the
 *                          dialer can tell its user what is wrong, and closes
 *      OPEN  --> REFUSED   a seal is wrong; the socket is closed
 *
 * A HELLO is a record: its first 16 bytes are the frozen ones.
 *
 *    0    16    17   18   20                  28              44     48         80
 *   | head|level|kind|zero| id of key or name | nonce         |knows | seal      |
 *                                                                    '- acceptor's
 *
 * "Knows" are bits for what both sides must know to use it; unknown ones are ignored.
 * Later versions may have more before the seal; it counts for the keys like the rest.
 *
 * The level is that of struct tagrv_auth_key. Below AUTHENTICATION there are no
 * seals, and what follows is as it would be without this file. With it, each
 * direction of the socket has a key of its own:
 *
 *   key  = HMAC(secret of the job, "tagrv 2 dialer\0\0" or "tagrv 2 acceptor",
 *               the acceptor's address as it was dialed: family, port, IP,
 *               HELLO of the dialer, HELLO of the acceptor without its seal)
 *   seal = HMAC(key, number of the record in its direction, the whole record with the
 *               length that it has with its seal)
 *
 * So a record is accepted once, in its place, on the socket that it was made for:
 *   replayed      the receiver's nonce is new, or the number is
 *   reflected     the key of the other direction is another one
 *   changed       every byte counts: types, reasons, uuids, epochs, addresses, links
 *   downgraded    the versions in both HELLOs and in the record count
 *   led astray    a relay that leads a dialer to another process of the job does not
 *                 have the address that was dialed
 * Nobody who reads all this learns the secret, except by trying guesses.
 */
#ifndef TAGRV_WIREUP_WIREUP_HELLO_H
#define TAGRV_WIREUP_WIREUP_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "auth/auth_key.h"
#include "auth/auth_mac.h"
#include "core/addr.h"
#include "core/compiler.h"

#define TAGRV_HELLO_TYPE	8	/* continues enum tagrv_wireup_rec_type */
#define TAGRV_HELLO_LEN		48	/* bytes without a seal */
#define TAGRV_HELLO_MAX		(TAGRV_HELLO_LEN + TAGRV_MAC_LEN)
/* What a record may grow by. */
#define TAGRV_SEAL_LEN		TAGRV_MAC_LEN

/* The endpoint has shared memory, and answers REQ(LOCAL) (wireup/conn.h). */
#define TAGRV_HELLO_LOCAL	1u
/* The endpoint understands WAIT (wireup/conn_wait.c). */
#define TAGRV_HELLO_WAIT	2u

enum tagrv_hello_state {
	TAGRV_HELLO_START,	/* the peer's HELLO has not come */
	TAGRV_HELLO_OPEN,	/* records may be sent, and are accepted */
	TAGRV_HELLO_REFUSED,	/* to be closed; nothing is accepted */
};

/*
 * owner: the socket that embeds it. lock: none. lifetime: from tagrv_hello_init() to
 * tagrv_hello_fini(). Allocates nothing.
 */
struct tagrv_hello {
	enum tagrv_hello_state state;
	const struct tagrv_auth_key *key;	/* of the endpoint, outlives this */
	bool	dialed;				/* by us */
	bool	sealed;				/* all but the dialer's HELLO */
	bool	proven;				/* a seal of the peer was right */
	uint8_t	ours[TAGRV_HELLO_LEN];		/* our HELLO */
	uint8_t	send_key[TAGRV_MAC_LEN];
	uint8_t	recv_key[TAGRV_MAC_LEN];
	uint64_t sent, received;		/* records with a seal */
	uint32_t peer_knows;			/* TAGRV_HELLO_*, once its HELLO has come */
	/* Of the peer's HELLO, for the log, once it has come. */
	uint8_t	peer_level;
	uint8_t	peer_kind;
};

/*
 * key NULL: everybody is accepted. 0, or -FI_E*: there are no random bytes, so there
 * is no connection.
 */
int tagrv_hello_init(struct tagrv_hello *hello,
		     const struct tagrv_auth_key *key,
		     bool dialed) TAGRV_WARN_UNUSED;
/* Says in our HELLO, which has not been sent yet, what we know. */
void tagrv_hello_tell(struct tagrv_hello *hello, uint32_t knows);
/* Wipes the keys. */
void tagrv_hello_fini(struct tagrv_hello *hello);

/* The dialer's first record; returns its length, TAGRV_HELLO_LEN. */
size_t tagrv_hello_first(const struct tagrv_hello *hello,
			 uint8_t buf[TAGRV_HELLO_MAX]);

/*
 * The acceptor got the first record of the socket; addr: the socket's own address.
 *   0               OPEN; *answer_len bytes of answer are to be sent
 *   -FI_EACCES      another job: likewise, and then the socket is to be closed
 *   -FI_ENOPROTOOPT no version in common: REJ(VERSION) is to be sent
 *   -FI_EINVAL      this is no HELLO
 * After the last two *answer_len is 0. All but 0 leave REFUSED.
 */
int tagrv_hello_answer(struct tagrv_hello *hello, const void *rec, size_t len,
		       const struct tagrv_addr *addr,
		       uint8_t answer[TAGRV_HELLO_MAX],
		       size_t *answer_len) TAGRV_WARN_UNUSED;

/*
 * The dialer got the answer to its HELLO; addr: what it has dialed. 0: OPEN, and the
 * acceptor is proven if there is a key; else REFUSED and an error as above. A record
 * that is no HELLO (a REJ) is -FI_EINVAL.
 */
int tagrv_hello_answered(struct tagrv_hello *hello, const void *rec, size_t len,
			 const struct tagrv_addr *addr) TAGRV_WARN_UNUSED;

/*
 * OPEN: seals a record of len bytes in place, if records are sealed; there is room
 * for TAGRV_SEAL_LEN bytes more. Returns the length to send. Each record is to be
 * sealed once, in the order in which the records are sent.
 */
size_t tagrv_hello_seal(struct tagrv_hello *hello, void *rec, size_t len);

/*
 * OPEN: checks the seal of one whole record and takes it off, in place. Returns the
 * record's length without it, or -FI_EACCES: REFUSED, the peer did not send this
 * record, or not now. hello->proven tells whether the peer has the secret.
 */
ssize_t tagrv_hello_unseal(struct tagrv_hello *hello, void *rec,
			   size_t len) TAGRV_WARN_UNUSED;

#endif
