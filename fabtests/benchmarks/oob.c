/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Out-of-band channel: a TCP connection, or a socket pair after fork.
 */
#include "oob.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_PAUSE_MS = 200 };

static void (*on_die)(const char *text);

void bench_on_die(void (*die)(const char *text))
{
	on_die = die;
}

void bench_die(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (on_die)
		on_die(text);
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
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

/* By IPv6, IPv4 is served as well. */
static int listen_on(const struct addrinfo *ai, int backlog)
{
	const int on = 1, off = 0;
	int fd = socket(ai->ai_family, SOCK_STREAM, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if ((ai->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off))) ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, backlog)) {
		close(fd);
		return -1;
	}
	return fd;
}

int oob_listen(const char *port, int backlog)
{
	struct addrinfo *res = resolve(NULL, port);
	int listener = -1;

	for (const struct addrinfo *ai = res; ai && listener < 0; ai = ai->ai_next)
		if (ai->ai_family == AF_INET6)
			listener = listen_on(ai, backlog);
	/* A host may have no IPv6. */
	for (const struct addrinfo *ai = res; ai && listener < 0; ai = ai->ai_next)
		if (ai->ai_family != AF_INET6)
			listener = listen_on(ai, backlog);
	freeaddrinfo(res);
	if (listener < 0)
		bench_die("cannot listen on port %s: %s", port, strerror(errno));
	return listener;
}

/* A firewall may swallow the request; the time limit of sends holds for connect(), too. */
static int connect_once(const struct addrinfo *res, double seconds)
{
	const struct timeval limit = { .tv_sec = (time_t)seconds + 1 };

	for (const struct addrinfo *ai = res; ai; ai = ai->ai_next) {
		int fd = socket(ai->ai_family, SOCK_STREAM, 0);

		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
			return fd;
		if (errno == EINPROGRESS)
			errno = ETIMEDOUT;
		close(fd);
	}
	return -1;
}

static double monotonic_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Retries: the server may start a little later. */
int oob_connect_for(const char *host, const char *port, double seconds, const char *what)
{
	const struct timespec pause = { .tv_nsec = CONNECT_PAUSE_MS * 1000000L };
	const double end = monotonic_seconds() + seconds;
	const struct timeval none = { 0 };
	struct addrinfo *res = resolve(host, port);
	int fd;

	while ((fd = connect_once(res, seconds)) < 0 && monotonic_seconds() < end)
		nanosleep(&pause, NULL);
	freeaddrinfo(res);
	if (fd < 0)
		bench_die("no server at %s port %s: %s%s", host, port, strerror(errno), what);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
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
