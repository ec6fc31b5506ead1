/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Counts what a process holds: descriptors, mappings, sockets.
 */
#include "kill.h"
#include "resident.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char prefix[] = "\0tagrv-";

enum { PREFIX_LEN = sizeof(prefix) - 1 };

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	CHECK(dir, "/proc is needed");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3;	/* the directory itself, "." and ".." */
}

static void count_maps(struct left *left)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	CHECK(f, "/proc is needed");
	left->maps = left->rings = 0;
	while (fgets(line, sizeof(line), f)) {
		left->maps++;
		left->rings += strstr(line, "memfd:tagrv") != NULL;
	}
	fclose(f);
}

bool left_sock_name(uint8_t *name, size_t *len)
{
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_un sun;
		socklen_t size = sizeof(sun);

		if (getsockname(fd, (struct sockaddr *)&sun, &size) || sun.sun_family != AF_UNIX)
			continue;
		if (size <= offsetof(struct sockaddr_un, sun_path) + PREFIX_LEN ||
		    memcmp(sun.sun_path, prefix, PREFIX_LEN) != 0)
			continue;
		*len = size - offsetof(struct sockaddr_un, sun_path);
		memcpy(name, sun.sun_path, *len);
		return true;
	}
	return false;
}

static char *read_all(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	size_t room = 1 << 16;
	char *text = malloc(room);

	CHECK(f && text, "%s is needed", path);
	for (*len = 0;; room *= 2) {
		*len += fread(text + *len, 1, room - *len, f);
		if (*len < room)
			break;
		text = realloc(text, room * 2);
		CHECK(text, "no memory");
	}
	fclose(f);
	return text;
}

/* The file shows zero bytes of an abstract name as '@', other bytes unchanged. */
unsigned left_sockets(const uint8_t *name, size_t len)
{
	uint8_t shown[SOCK_NAME_MAX];
	unsigned n = 0;
	size_t size;
	char *text = read_all("/proc/net/unix", &size), *at = text;

	for (size_t i = 0; i < len; i++)
		shown[i] = name[i] ? name[i] : '@';
	while ((at = memmem(at, size - (size_t)(at - text), shown, len)) != NULL) {
		n++;
		at += len;
	}
	free(text);
	return n;
}

void left_look(struct left *left)
{
	uint8_t name[SOCK_NAME_MAX];
	size_t len;

	memset(left, 0, sizeof(*left));
	left->fds = count_fds();
	count_maps(left);
	if (left_sock_name(name, &len))
		left->sockets = left_sockets(name, len);
	left->rss = (size_t)resident();
}

bool left_same(const struct left *a, const struct left *b)
{
	return a->fds == b->fds && a->rings == b->rings && a->sockets == b->sockets;
}

void left_list(void)
{
	char path[64], to[256];

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		if (n > 0)
			printf("    descriptor %d: %.*s\n", fd, (int)n, to);
	}
}
