/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Files with secrets: see auth_file.h.
 */
#include "auth/auth_file.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"

static int refuse(const char *path, int ret, const char *why)
{
	tagrv_warn("FI_TAGRV_JOB_KEY: %s is not used: %s\n", path, why);
	return ret;
}

static int check(const char *path, const struct stat *st, size_t size)
{
	if (!S_ISREG(st->st_mode))
		return refuse(path, -FI_EINVAL, "it is no regular file");
	if (st->st_uid && st->st_uid != geteuid())
		return refuse(path, -FI_EACCES, "it belongs to another user");
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return refuse(path, -FI_EACCES, "others than its owner may use "
			      "it, so its key is no secret: chmod 600, and make "
			      "a new key");
	if (st->st_size > (off_t) size)
		return refuse(path, -FI_EINVAL, "it is too long for a job key");
	return 0;
}

/* Reads until the end, or one byte more than fits, so that a longer file shows. */
static ssize_t read_all(int fd, uint8_t *data, size_t size)
{
	size_t len = 0;
	ssize_t got;
	uint8_t more;

	do {
		got = len < size ? read(fd, data + len, size - len) :
				   read(fd, &more, 1);
		if (got > 0 && len == size)
			return -FI_EINVAL;
		if (got > 0)
			len += (size_t) got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	return got < 0 ? -errno : (ssize_t) len;
}

static size_t without_line_end(const uint8_t *data, size_t len)
{
	if (!len || data[len - 1] != '\n')
		return len;
	len--;
	return len && data[len - 1] == '\r' ? len - 1 : len;
}

int tagrv_auth_file_read(const char *path, void *secret, size_t size,
			 size_t *len)
{
	struct stat st;
	ssize_t got;
	int fd, ret;

	/* Its caller could have it prove the content of a file of another user. */
	if (getauxval(AT_SECURE))
		return refuse(path, -FI_EACCES, "a set-user-ID program reads no "
			      "file that its environment names");
	/* O_NONBLOCK: open() of a FIFO must not wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return refuse(path, -errno, strerror(errno));
	ret = fstat(fd, &st) ? refuse(path, -errno, strerror(errno)) :
			       check(path, &st, size);
	if (ret)
		goto out;
	got = read_all(fd, secret, size);
	if (got < 0)
		ret = refuse(path, (int) got, strerror((int) -got));
	else
		*len = without_line_end(secret, (size_t) got);
out:
	close(fd);
	return ret;
}
