/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The key of a job: who may talk to whom.
 *
 * There are three levels, by what is known about the job:
 *
 *   NONE            nothing: everybody is accepted
 *   SEPARATION      a name that the launcher gave the job. It is no secret, so it keeps
 *                   out nobody who wants to come in. It keeps apart jobs that meet by
 *                   accident, as on a port that was used before by another job.
 *   AUTHENTICATION  a secret that only the job's processes have. A peer has to prove
 *                   that it has it, before anything of this endpoint is connected.
 */
#ifndef TAGRV_AUTH_AUTH_KEY_H
#define TAGRV_AUTH_AUTH_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/auth_mac.h"
#include "core/compiler.h"

/* Fewer bytes could be found by trying all of them on a recorded handshake. */
#define TAGRV_AUTH_SECRET_MIN	16
#define TAGRV_AUTH_SECRET_MAX	4096
#define TAGRV_AUTH_ID_LEN	8

/* The values are sent in records. */
enum tagrv_auth_level {
	TAGRV_AUTH_NONE,
	TAGRV_AUTH_SEPARATION,
	TAGRV_AUTH_AUTHENTICATION,
};

/* Where a name comes from; the values are sent in records. 0: there is no name. */
enum tagrv_auth_kind {
	TAGRV_AUTH_OPEN_MPI = 1,
	TAGRV_AUTH_PMIX,
	TAGRV_AUTH_SLURM,
};

/*
 * owner: the domain or endpoint that embeds it; constant after it was made. Zeroed
 * memory is a key of level NONE. Ends with tagrv_auth_key_wipe().
 */
struct tagrv_auth_key {
	enum tagrv_auth_level level;
	uint8_t	kind;			/* SEPARATION: enum tagrv_auth_kind */
	uint8_t	id[TAGRV_AUTH_ID_LEN];	/* tells keys and names apart; no secret */
	uint8_t	secret[TAGRV_MAC_LEN];	/* AUTHENTICATION */
};

/*
 * Makes a key of level AUTHENTICATION from a secret. 0; -FI_EINVAL: the length is
 * not TAGRV_AUTH_SECRET_MIN to _MAX.
 */
int tagrv_auth_key_make(struct tagrv_auth_key *key, const void *secret,
			size_t len) TAGRV_WARN_UNUSED;

/*
 * The key that the environment of this process gives: FI_TAGRV_JOB_KEY, else the
 * name of the launcher's job (auth_job.h), else none. Returns 0, or -FI_E* after a
 * log line: a secret was asked for and cannot be had, so nothing may be opened.
 */
int tagrv_auth_key_find(struct tagrv_auth_key *key) TAGRV_WARN_UNUSED;

/* A key of level NONE again; nothing of the secret is left. */
void tagrv_auth_key_wipe(struct tagrv_auth_key *key);

/*
 * False: the peer whose record carries this level, kind and id need not be asked for
 * a proof, it is of another job. Only keys of level AUTHENTICATION refuse what they
 * know nothing of: a process that was started by hand has no name.
 */
bool tagrv_auth_key_fits(const struct tagrv_auth_key *key, uint8_t level,
			 uint8_t kind, const uint8_t id[TAGRV_AUTH_ID_LEN]);

#endif
