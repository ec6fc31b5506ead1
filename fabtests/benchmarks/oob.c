/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Out-of-band channel: a TCP connection, or a socket pair after fork.
 */
#include "oob.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_TRIES = 50, CONNECT_PAUSE_MS = 200 };

void bench_die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

static struct addrinfo *resolve(const char *host, const char *port)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = host ? 0 : AI_PASSIVE,
	};
	struct addrinfo *res;
	int ret = getaddrinfo(host, port, &hints, &res);

	if (ret)
		bench_die("%s port %s: %s", host ? host : "any address", port, gai_strerror(ret));
	return res;
}

static int listen_on(const struct addrinfo *ai)
{
	const int on = 1;
	int fd = socket(ai->ai_family, SOCK_STREAM, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 1)) {
		close(fd);
		return -1;
	}
	return fd;
}

int oob_accept(const char *port)
{
	struct addrinfo *res = resolve(NULL, port);
	int listener = -1, fd;

	for (const struct addrinfo *ai = res; ai && listener < 0; ai = ai->ai_next)
		listener = listen_on(ai);
	freeaddrinfo(res);
	if (listener < 0)
		bench_die("cannot listen on port %s: %s", port, strerror(errno));
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		bench_die("accept: %s", strerror(errno));
	close(listener);
	return fd;
}

static int connect_once(const struct addrinfo *res)
{
	for (const struct addrinfo *ai = res; ai; ai = ai->ai_next) {
		int fd = socket(ai->ai_family, SOCK_STREAM, 0);

		if (fd < 0)
			continue;
		if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
			return fd;
		close(fd);
	}
	return -1;
}

/* Retries: the server may start a little later. */
int oob_connect(const char *host, const char *port)
{
	const struct timespec pause = { .tv_nsec = CONNECT_PAUSE_MS * 1000000L };
	struct addrinfo *res = resolve(host, port);
	int fd = -1;

	for (int i = 0; i < CONNECT_TRIES && fd < 0; i++) {
		fd = connect_once(res);
		if (fd < 0)
			nanosleep(&pause, NULL);
	}
	freeaddrinfo(res);
	if (fd < 0)
		bench_die("no server at %s port %s: %s", host, port, strerror(errno));
	return fd;
}

void oob_pair(int fd[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		bench_die("socketpair: %s", strerror(errno));
}

void oob_send(int fd, const void *buf, size_t len)
{
	const char *at = buf;

	while (len) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n < 0)
			bench_die("the other process is gone");
		at += n;
		len -= (size_t)n;
	}
}

/*
 * Calls of 'idle' between two looks at the socket: a look is a system call, and a process that
 * serves the other one's measurement meanwhile would be late by it.
 */
enum { IDLE_CALLS = 64 };

void oob_recv(int fd, void *buf, size_t len, oob_idle_fn idle, void *arg)
{
	char *at = buf;

	while (len) {
		ssize_t n = recv(fd, at, len, idle ? MSG_DONTWAIT : 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			for (int i = 0; idle && i < IDLE_CALLS; i++)
				idle(arg);
			continue;
		}
		if (n <= 0)
			bench_die("the other process is gone");
		at += n;
		len -= (size_t)n;
	}
}

double bench_number(const char *text, const char *what, double min, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max))
		bench_die("%s wants a number from %g to %g, not '%s'", what, min, max, text);
	return value;
}
