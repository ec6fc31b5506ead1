/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keeps the measured rates in a file, for later processes on this host:
 *
 *   $XDG_RUNTIME_DIR/tagrv-shm-rates     "3 <host> <ring> <copy> <cma> <call>\n"
 *
 * That folder belongs to the user and is removed with the user's last session.
 * Without it, or with an invalid file, every process measures. Wrong contents can do
 * no more harm than choose the slower kind of read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "xport/shm/shm_priv.h"

#define FILE_NAME	"tagrv-shm-rates"
#define FORMAT		"3 %016llx%016llx "
#define MAX_AGE		3600	/* s; the host may have been busy then */
#define RATE_MAX	1e13	/* bytes/s; higher values are invalid */
#define CALL_MAX	1.0	/* s; higher values are invalid */

/* Opens the file; -1: no folder, or not a regular file of this user. */
static int open_file(int flags)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[256];
	struct stat st;
	int len, fd;

	if (!dir || *dir != '/')
		return -1;
	len = snprintf(path, sizeof(path), "%s/" FILE_NAME, dir);
	if (len < 0 || (size_t) len >= sizeof(path))
		return -1;
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
			st.st_uid != geteuid())) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int put_host(char *text, size_t size)
{
	uint64_t host[2];

	tagrv_shm_host_id((uint8_t *) host);
	return snprintf(text, size, FORMAT, (unsigned long long) host[0],
			(unsigned long long) host[1]);
}

/*
 * Linux 6.13 and later stamp a file by the precise clock when somebody asked for its
 * time before. time() reads a clock that is late by up to one tick, so such a file
 * could seem to come from the next second: compare by the precise clock, too.
 */
static bool is_fresh(int fd)
{
	struct timespec now;
	struct stat st;

	clock_gettime(CLOCK_REALTIME, &now);
	return !fstat(fd, &st) && st.st_mtime <= now.tv_sec &&
	       now.tv_sec - st.st_mtime < MAX_AGE;
}

static bool is_rate(double value)
{
	return value > 0 && value < RATE_MAX;
}

static bool parse(const char *text, struct shm_rates *got)
{
	char host[48];
	int len = put_host(host, sizeof(host));
	struct shm_rates r;
	char end;

	if (strncmp(text, host, (size_t) len) ||
	    sscanf(text + len, "%lf %lf %lf %lf%c", &r.ring, &r.copy, &r.cma,
		   &r.call, &end) != 5 || end != '\n')
		return false;
	if (!is_rate(r.ring) || !is_rate(r.copy) || !is_rate(r.cma) ||
	    !(r.call > 0 && r.call < CALL_MAX))
		return false;
	*got = r;
	return true;
}

bool tagrv_shm_rates_load(struct shm_rates *got)
{
	char text[128] = "";
	int fd = open_file(O_RDONLY);
	bool good;

	if (fd < 0)
		return false;
	good = is_fresh(fd) && read(fd, text, sizeof(text) - 1) > 0 &&
	       parse(text, got);
	close(fd);
	return good;
}

/* A reader ignores a partly written file, which has no end of line yet. */
void tagrv_shm_rates_store(const struct shm_rates *got)
{
	char text[128];
	int fd, len;

	/* process_vm_readv may be allowed to other processes: do not store 0. */
	if (got->cma <= 0 || got->ring <= 0 || got->copy <= 0 || got->call <= 0)
		return;
	fd = open_file(O_WRONLY | O_CREAT);
	if (fd < 0)
		return;
	len = put_host(text, sizeof(text));
	len += snprintf(text + len, sizeof(text) - (size_t) len, "%.4g %.4g %.4g %.4g\n",
			got->ring, got->copy, got->cma, got->call);
	if (ftruncate(fd, 0) || write(fd, text, (size_t) len) != len)
		(void) !ftruncate(fd, 0);
	close(fd);
}
