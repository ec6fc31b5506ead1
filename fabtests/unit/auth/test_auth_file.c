/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * auth_file.c: files with secrets, and files that are refused.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth_file.h"
#include "common/caught_log.h"

static char dir[] = "/tmp/tagrv-test-XXXXXX", path[64];
static char secret[32];
static size_t len;

static void make_dir(void)
{
	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/key", dir);
}

static void remove_dir(void)
{
	unlink(path);	/* always a file of our directory */
	rmdir(dir);
}

TestSuite(auth_file, .init = make_dir, .fini = remove_dir);

static void write_file(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t) strlen(text));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static int read_secret(void)
{
	len = 99;
	return tagrv_auth_file_read(path, secret, sizeof(secret), &len);
}

static void expect_secret(const char *text, const char *want)
{
	write_file(text, 0600);
	cr_assert_eq(read_secret(), 0);
	cr_assert_eq(len, strlen(want), "%zu bytes of '%s'", len, text);
	cr_expect_arr_eq(secret, want, len);
}

static void expect_refused(int ret, const char *why)
{
	int before = log_count(why);

	cr_expect_eq(read_secret(), ret, "%s", why);
	cr_expect_eq(log_count(why), before + 1, "%s", why);
	cr_expect_eq(len, 99);
}

Test(auth_file, the_end_of_line_does_not_count)
{
	expect_secret("a secret", "a secret");
	expect_secret("a secret\n", "a secret");
	expect_secret("a secret\r\n", "a secret");
	expect_secret("a secret\n\n", "a secret\n");
	expect_secret("a secret\r", "a secret\r");
	expect_secret("", "");
	expect_secret("\n", "");
	expect_secret("\r\n", "");
	expect_secret("exactly thirty-two bytes, filled", "exactly thirty-two bytes, filled");
}

Test(auth_file, others_must_not_be_able_to_use_it)
{
	static const mode_t modes[] = {
		0640, 0620, 0610, 0604, 0602, 0601, 0666, 0444,
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(modes); i++) {
		write_file("a secret", modes[i]);
		expect_refused(-FI_EACCES, "others than its owner");
	}
	write_file("a secret", 0400);
	cr_expect_eq(read_secret(), 0);
}

Test(auth_file, another_users_file_is_refused)
{
	write_file("a secret", 0600);
	if (chown(path, 12345, (gid_t) -1))
		cr_skip_test("only root can give files away");
	expect_refused(-FI_EACCES, "another user");
}

Test(auth_file, what_is_no_file_is_refused)
{
	expect_refused(-FI_ENOENT, "No such file");
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_refused(-FI_EINVAL, "no regular file");
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(tagrv_auth_file_read(dir, secret, sizeof(secret), &len),
		     -FI_EINVAL);
	cr_expect_eq(log_count("no regular file"), 2);
}

Test(auth_file, a_longer_file_is_refused)
{
	write_file("more than the thirty-two bytes...", 0600);
	expect_refused(-FI_EINVAL, "too long");
}
