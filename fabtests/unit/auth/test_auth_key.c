/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * auth_key.c: keys by the environment, and who fits to whom.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth_key.h"
#include "common/caught_log.h"
#include "unit/auth/auth_environment.h"

#define SECRET	"sixteen or more bytes"

TestSuite(auth_key, .init = forget_jobs);

static struct tagrv_auth_key find(const char *value)
{
	struct tagrv_auth_key key;

	if (value)
		setenv("FI_TAGRV_JOB_KEY", value, 1);
	else
		unsetenv("FI_TAGRV_JOB_KEY");
	cr_assert_eq(tagrv_auth_key_find(&key), 0);
	return key;
}

static struct tagrv_auth_key name_of_slurm(const char *job)
{
	setenv("SLURM_JOB_ID", job, 1);
	return find(NULL);
}

static bool fit(const struct tagrv_auth_key *a, const struct tagrv_auth_key *b)
{
	bool ab = tagrv_auth_key_fits(a, (uint8_t) b->level, b->kind, b->id);
	bool ba = tagrv_auth_key_fits(b, (uint8_t) a->level, a->kind, a->id);

	cr_expect_eq(ab, ba);
	return ab;
}

Test(auth_key, the_same_secret_makes_the_same_key)
{
	struct tagrv_auth_key a, b;

	cr_assert_eq(tagrv_auth_key_make(&a, SECRET, strlen(SECRET)), 0);
	cr_assert_eq(tagrv_auth_key_make(&b, SECRET, strlen(SECRET)), 0);
	cr_expect_arr_eq(&a, &b, sizeof(a));
	cr_assert_eq(tagrv_auth_key_make(&b, SECRET, strlen(SECRET) - 1), 0);
	cr_expect_neq(memcmp(a.id, b.id, sizeof(a.id)), 0);
	cr_expect_neq(memcmp(a.secret, b.secret, sizeof(a.secret)), 0);
	cr_expect_neq(memcmp(a.id, a.secret, sizeof(a.id)), 0);
}

Test(auth_key, a_secret_has_a_length)
{
	static const uint8_t bytes[TAGRV_AUTH_SECRET_MAX + 1];
	struct tagrv_auth_key key = { .kind = 77 };

	cr_expect_eq(tagrv_auth_key_make(&key, bytes, 0), -FI_EINVAL);
	cr_expect_eq(tagrv_auth_key_make(&key, bytes, 15), -FI_EINVAL);
	cr_expect_eq(tagrv_auth_key_make(&key, bytes, sizeof(bytes)), -FI_EINVAL);
	cr_expect_eq(key.kind, 77, "unchanged");
	cr_expect_eq(tagrv_auth_key_make(&key, bytes, 16), 0);
	cr_expect_eq(tagrv_auth_key_make(&key, bytes, sizeof(bytes) - 1), 0);
}

Test(auth_key, the_environment_gives_it)
{
	struct tagrv_auth_key made, key;

	cr_expect_eq(find(NULL).level, TAGRV_AUTH_NONE);
	key = name_of_slurm("17");
	cr_expect_eq(key.level, TAGRV_AUTH_SEPARATION);
	cr_expect_eq(key.kind, TAGRV_AUTH_SLURM);
	cr_expect_arr_eq(key.id, "\x27\x89\x4a\x0c\xf7\xda\xfe\x8f", 8,
			 "as documented in wire_protocol.md, by another program");
	key = find(SECRET);
	cr_assert_eq(tagrv_auth_key_make(&made, SECRET, strlen(SECRET)), 0);
	cr_expect_arr_eq(&key, &made, sizeof(key));
	cr_expect_eq(find("none").level, TAGRV_AUTH_NONE);
}

Test(auth_key, a_file_gives_it)
{
	char path[] = "/tmp/tagrv-test-XXXXXX", value[64];
	struct tagrv_auth_key key, made;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, SECRET "\n", strlen(SECRET) + 1),
		     (ssize_t) strlen(SECRET) + 1);
	snprintf(value, sizeof(value), "file:%s", path);
	key = find(value);
	cr_assert_eq(tagrv_auth_key_make(&made, SECRET, strlen(SECRET)), 0);
	cr_expect_arr_eq(&key, &made, sizeof(key));
	cr_assert_eq(ftruncate(fd, 15), 0);
	cr_expect_eq(tagrv_auth_key_find(&key), -FI_EINVAL);
	cr_expect_eq(log_count("the file that FI_TAGRV_JOB_KEY names has 15 bytes"), 1);
	unlink(path);
	cr_expect_eq(tagrv_auth_key_find(&key), -FI_ENOENT);
	close(fd);
}

/* Somebody who asked for a secret does not get an open endpoint. */
Test(auth_key, a_wrong_value_is_an_error)
{
	static const char *const values[] = {
		"", "short", "None", "fifteen bytes..",
	};
	struct tagrv_auth_key key;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(values); i++) {
		setenv("FI_TAGRV_JOB_KEY", values[i], 1);
		cr_expect_eq(tagrv_auth_key_find(&key), -FI_EINVAL);
	}
	cr_expect_eq(log_count("FI_TAGRV_JOB_KEY has"), 4);
	cr_expect_eq(log_count("fifteen"), 0, "the value is not logged");
	setenv("FI_TAGRV_JOB_KEY", "file:", 1);
	cr_expect_eq(tagrv_auth_key_find(&key), -FI_ENOENT);
}

Test(auth_key, wiping_leaves_nothing)
{
	struct tagrv_auth_key key = find(SECRET);
	static const struct tagrv_auth_key none;

	tagrv_auth_key_wipe(&key);
	cr_expect_arr_eq(&key, &none, sizeof(key));
}

Test(auth_key, a_secret_fits_only_to_itself)
{
	struct tagrv_auth_key none = find(NULL), name = name_of_slurm("17");
	struct tagrv_auth_key key = find(SECRET), other = find(SECRET "!");

	cr_expect(fit(&key, &key));
	cr_expect_not(fit(&key, &other));
	cr_expect_not(fit(&key, &name));
	cr_expect_not(fit(&key, &none));
	name.kind = 0;
	memcpy(name.id, key.id, sizeof(key.id));
	cr_expect_not(fit(&key, &name), "the id is no secret");
}

Test(auth_key, names_keep_apart_what_has_a_name)
{
	struct tagrv_auth_key none = find(NULL), a = name_of_slurm("17");
	struct tagrv_auth_key b = name_of_slurm("18"), c;

	setenv("PMIX_NAMESPACE", "another", 1);
	c = find(NULL);
	cr_expect_eq(c.kind, TAGRV_AUTH_PMIX);
	cr_expect(fit(&a, &a));
	cr_expect_not(fit(&a, &b));
	cr_expect(fit(&none, &a), "started by hand");
	cr_expect(fit(&none, &none));
	cr_expect(fit(&a, &c), "another launcher's name says nothing");
}

/* A level of a later version is at least as demanding as ours. */
Test(auth_key, unknown_levels_fit_to_nothing)
{
	struct tagrv_auth_key none = find(NULL), name = name_of_slurm("17");
	struct tagrv_auth_key key = find(SECRET);

	for (uint8_t level = TAGRV_AUTH_AUTHENTICATION + 1; level; level++) {
		cr_expect_not(tagrv_auth_key_fits(&none, level, 0, none.id));
		cr_expect_not(tagrv_auth_key_fits(&name, level, name.kind, name.id));
		cr_expect_not(tagrv_auth_key_fits(&key, level, 0, key.id));
	}
}
