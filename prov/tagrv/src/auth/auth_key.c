/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys from secrets and from names: see auth_key.h.
 */
#include "auth/auth_key.h"

#include <rdma/fi_errno.h>
#include <string.h>

#include "auth/auth_file.h"
#include "auth/auth_job.h"
#include "core/log.h"
#include "core/param.h"

#define FILE_WORD	"file:"

/*
 * What a MAC is computed for. Different uses have different labels, so that no MAC
 * of one use can serve another.
 */
#define LABEL_KEY	"tagrv 2 job key"
#define LABEL_ID	"tagrv 2 key id"
#define LABEL_NAME	"tagrv 2 job name"

static void derive(const void *key, size_t len, const char *label,
		   const void *data, size_t data_len,
		   uint8_t mac[TAGRV_MAC_LEN])
{
	const struct tagrv_mac_part parts[] = {
		{ label, strlen(label) }, { data, data_len },
	};

	tagrv_mac_compute(key, len, parts, TAGRV_ARRAY_SIZE(parts), mac);
}

int tagrv_auth_key_make(struct tagrv_auth_key *key, const void *secret,
			size_t len)
{
	uint8_t id[TAGRV_MAC_LEN];

	if (len < TAGRV_AUTH_SECRET_MIN || len > TAGRV_AUTH_SECRET_MAX)
		return -FI_EINVAL;
	memset(key, 0, sizeof(*key));
	key->level = TAGRV_AUTH_AUTHENTICATION;
	derive(secret, len, LABEL_KEY, NULL, 0, key->secret);
	derive(key->secret, sizeof(key->secret), LABEL_ID, NULL, 0, id);
	memcpy(key->id, id, sizeof(key->id));
	return 0;
}

static void name_job(struct tagrv_auth_key *key)
{
	char name[TAGRV_AUTH_NAME_MAX];
	enum tagrv_auth_kind kind;
	uint8_t id[TAGRV_MAC_LEN];

	memset(key, 0, sizeof(*key));
	if (!tagrv_auth_job_name(name, &kind))
		return;
	key->level = TAGRV_AUTH_SEPARATION;
	key->kind = (uint8_t) kind;
	derive(LABEL_NAME, strlen(LABEL_NAME), "", name, strlen(name), id);
	memcpy(key->id, id, sizeof(key->id));
}

/* A secret of the right length, or one log line about the source it is from. */
static int make_from(struct tagrv_auth_key *key, const void *secret, size_t len,
		     const char *source)
{
	int ret = tagrv_auth_key_make(key, secret, len);

	if (ret)
		tagrv_warn("%s has %zu bytes, but a job key has %d to %d; "
			   "'openssl rand -hex 32' or 'uuidgen -r' makes one\n",
			   source, len, TAGRV_AUTH_SECRET_MIN,
			   TAGRV_AUTH_SECRET_MAX);
	return ret;
}

static int make_from_file(struct tagrv_auth_key *key, const char *path)
{
	uint8_t secret[TAGRV_AUTH_SECRET_MAX];
	size_t len = 0;
	int ret;

	ret = tagrv_auth_file_read(path, secret, sizeof(secret), &len);
	if (!ret)
		ret = make_from(key, secret, len,
				"the file that FI_TAGRV_JOB_KEY names");
	tagrv_mac_wipe(secret, sizeof(secret));
	return ret;
}

int tagrv_auth_key_find(struct tagrv_auth_key *key)
{
	const char *text = tagrv_param_job_key();

	if (!text) {
		name_job(key);
		return 0;
	}
	if (!strcmp(text, "none")) {
		memset(key, 0, sizeof(*key));
		return 0;
	}
	if (!strncmp(text, FILE_WORD, strlen(FILE_WORD)))
		return make_from_file(key, text + strlen(FILE_WORD));
	return make_from(key, text, strlen(text), "FI_TAGRV_JOB_KEY");
}

void tagrv_auth_key_wipe(struct tagrv_auth_key *key)
{
	tagrv_mac_wipe(key, sizeof(*key));
}

bool tagrv_auth_key_fits(const struct tagrv_auth_key *key, uint8_t level,
			 uint8_t kind, const uint8_t id[TAGRV_AUTH_ID_LEN])
{
	if (key->level == TAGRV_AUTH_AUTHENTICATION ||
	    level >= TAGRV_AUTH_AUTHENTICATION)
		return level == key->level && !kind &&
		       tagrv_mac_equal(id, key->id, TAGRV_AUTH_ID_LEN);
	return key->level == TAGRV_AUTH_NONE || level == TAGRV_AUTH_NONE ||
	       kind != key->kind || !memcmp(id, key->id, TAGRV_AUTH_ID_LEN);
}
