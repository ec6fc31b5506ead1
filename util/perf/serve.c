/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two hosts: see serve.h.
 */
#include "serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "oob.h"
#include "side.h"
#include "talk.h"

enum { HELLO_SECONDS = 3, END_MS = 5000, BACKLOG = PERF_PAIRS_MAX };

/* What a receive takes in a process and its provider, and in its completion queue. */
enum { RECV_BYTES = 256 };

struct server {
	const struct perf_options *opt;
	int	listener;
	int	control;		/* of the session; -1: none yet */
	uint64_t session;
	struct {
		pid_t	pid;		/* 0: none */
		uint64_t bytes;		/* of its buffers and receives */
	} followers[PERF_PAIRS_MAX];
	uint64_t bytes_left;		/* that further ones may have */
};

static uint64_t bytes_of(const struct perf_hello *hello)
{
	return hello->memory + hello->recvs * RECV_BYTES + (hello->need >= PERF_REMOTE ? 2 * hello->size : 0);
}

/* The place of a follower; pid 0: a free one. -1: there is none. */
static int place_of(const struct server *server, pid_t pid)
{
	for (int i = 0; i < PERF_PAIRS_MAX; i++)
		if (server->followers[i].pid == pid)
			return i;
	return -1;
}

static void reap(struct server *server)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		int i = place_of(server, pid);

		if (i < 0)
			continue;
		server->bytes_left += server->followers[i].bytes;
		server->followers[i].pid = 0;
	}
}

/* --- strangers ---------------------------------------------------------------------- */

static void say(int fd, uint32_t kind, const char *text)
{
	struct perf_reply reply = { .kind = kind };

	snprintf(reply.text, sizeof(reply.text), "%s", text);
	if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
		return;
}

/* Returns why not, or NULL. Anybody may have sent it. */
static const char *refuse(const struct server *server, struct perf_hello *hello)
{
	hello->provider[sizeof(hello->provider) - 1] = 0;
	hello->domain[sizeof(hello->domain) - 1] = 0;
	hello->address[sizeof(hello->address) - 1] = 0;
	hello->devices[sizeof(hello->devices) - 1] = 0;
	if (hello->magic != PERF_MAGIC || hello->version != PERF_VERSION)
		return "the server is another version of tagrv_perf: install the same on both hosts";
	if (hello->kind == PERF_HELLO_SESSION)
		return server->control >= 0 ? "the server measures with another client: try later" : NULL;
	if (hello->kind != PERF_HELLO_FOLLOW || server->control < 0 || hello->session != server->session)
		return "the server has no such session";
	if (!hello->slots || hello->slots > PERF_WINDOW_MAX || hello->size > PERF_SIZE_MAX ||
	    !hello->memory || hello->recvs > 2 * PERF_DEPTH_MAX || hello->need > PERF_ATOMIC ||
	    hello->member >= PERF_PAIRS_MAX || !hello->timeout || hello->timeout > 86400 ||
	    hello->flags & ~(uint64_t)PERF_FLAGS)
		return "the server does not serve so much";
	if (place_of(server, 0) < 0 || hello->memory > server->bytes_left ||
	    bytes_of(hello) > server->bytes_left)
		return "the server's processes would take more than half of its memory, or are too many: "
			"smaller --sizes, --window, --depths or --pairs";
	return NULL;
}

/* A stranger that says nothing is sent away. */
static bool read_hello(int fd, struct perf_hello *hello)
{
	const struct timeval limit = { .tv_sec = HELLO_SECONDS }, none = { 0 };
	bool whole;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	whole = recv(fd, hello, sizeof(*hello), MSG_WAITALL) == (ssize_t)sizeof(*hello);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	return whole;
}

/* --- server ---------------------------------------------------------------------------- */

static void override(char *place, size_t len, const char *own)
{
	if (own)
		snprintf(place, len, "%s", own);
}

static void fork_follower(struct server *server, struct perf_hello *hello, int fd)
{
	pid_t child = fork();

	if (child < 0)
		say(fd, PERF_FAILED, "the server cannot start a process (ulimit -u?)");
	if (child > 0) {
		int i = place_of(server, 0);

		server->followers[i].pid = child;
		server->followers[i].bytes = bytes_of(hello);
		server->bytes_left -= bytes_of(hello);
	}
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(server->listener);
	close(server->control);
	side_report_to(fd);
	override(hello->domain, sizeof(hello->domain), server->opt->device[0]);
	override(hello->address, sizeof(hello->address), server->opt->address[0]);
	override(hello->devices, sizeof(hello->devices), server->opt->devices[1]);
	hello->yield |= server->opt->yield;
	hello->pin |= server->opt->pin;
	side_follow(hello, fd);
	exit(EXIT_SUCCESS);
}

static void begin_session(struct server *server, const struct perf_hello *hello, int fd)
{
	char name[65] = "?";

	gethostname(name, sizeof(name) - 1);
	server->session = hello->session;
	server->control = fd;
	say(fd, PERF_OPENED, name);
}

/* A host that has vanished is noticed after half a minute. */
static void keep_alive(int fd)
{
	const int on = 1, idle = 15, interval = 5, count = 3;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static void take_connection(struct server *server)
{
	int fd = accept(server->listener, NULL, NULL);
	struct perf_hello hello;
	const char *why;

	if (fd < 0)
		return;
	keep_alive(fd);
	if (!read_hello(fd, &hello)) {
		close(fd);
		return;
	}
	why = refuse(server, &hello);
	if (!why && hello.kind == PERF_HELLO_SESSION) {
		begin_session(server, &hello, fd);
		return;
	}
	if (why)
		say(fd, PERF_FAILED, why);
	else
		fork_follower(server, &hello, fd);
	close(fd);
}

/* The followers end by themselves, when their leads have closed their sockets. */
static void wait_children(void)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	for (int ms = 0; ms < END_MS; ms += 5) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			return;
		if (!pid)
			nanosleep(&pause, NULL);
	}
	/* PR_SET_PDEATHSIG kills those that hang. */
}

/* All followers together may have half of this host's memory. */
static uint64_t memory_to_give(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

int serve(const struct perf_options *opt)
{
	struct server server = { .opt = opt, .control = -1, .bytes_left = memory_to_give() };
	struct pollfd pfd[2];

	server.listener = oob_listen(opt->port, BACKLOG);
	if (!opt->quiet)
		fprintf(stderr, "%s: waiting for a client on port %s\n", program_invocation_short_name,
			opt->port);
	do {
		pfd[0] = (struct pollfd){ .fd = server.listener, .events = POLLIN };
		pfd[1] = (struct pollfd){ .fd = server.control, .events = POLLIN | POLLRDHUP };
		if (poll(pfd, 2, -1) < 0 && errno != EINTR)
			bench_die("poll: %s", strerror(errno));
		reap(&server);
		if (pfd[0].revents)
			take_connection(&server);
	} while (!pfd[1].revents);
	wait_children();
	return EXIT_SUCCESS;
}

/* --- client ----------------------------------------------------------------------------- */

uint64_t serve_session(const struct perf_options *opt, char name[65])
{
	struct perf_hello hello = {
		.magic = PERF_MAGIC, .version = PERF_VERSION, .kind = PERF_HELLO_SESSION,
	};
	const struct timeval limit = { .tv_sec = opt->timeout };
	struct perf_reply reply;
	char advice[160];
	int fd;

	snprintf(advice, sizeof(advice), " (start '%.64s --server' there; does a firewall close the port?)",
		 program_invocation_short_name);
	fd = oob_connect_for(opt->host, opt->port, opt->timeout < 10 ? opt->timeout : 10, advice);
	if (getrandom(&hello.session, sizeof(hello.session), 0) != (ssize_t)sizeof(hello.session))
		bench_die("getrandom: %s", strerror(errno));
	oob_send(fd, &hello, sizeof(hello));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (recv(fd, &reply, sizeof(reply), MSG_WAITALL) != (ssize_t)sizeof(reply))
		bench_die("%s port %s does not answer as %s --server would", opt->host, opt->port,
			  program_invocation_short_name);
	if (reply.kind != PERF_OPENED)
		bench_die("%.*s", (int)sizeof(reply.text), reply.text);
	snprintf(name, 65, "%.64s", reply.text);
	return hello.session;
}
