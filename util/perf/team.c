/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The coordinator's side of a team: see team.h.
 */
#include "team.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "oob.h"
#include "side.h"

/*
 * A round may take this many times what was expected, and --timeout, before it counts as hung.
 * A process that finds out itself after --timeout knows more of it: it has the time to say so.
 */
enum { PATIENCE = 20, GRACE = 2 };

static int fail(struct team *team, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns -1. The first cause stays. */
static int fail(struct team *team, const char *fmt, ...)
{
	va_list ap;

	if (!team->why[0]) {
		va_start(ap, fmt);
		vsnprintf(team->why, sizeof(team->why), fmt, ap);
		va_end(ap);
	}
	return -1;
}

/* --- processes -------------------------------------------------------------------- */

/*
 * In a child. Copies of other sockets would keep them open after their owners died, and
 * nobody would notice; the coordinator's end is this process's end.
 */
static void become_child(int keep_a, int keep_b)
{
	const int most = (int)sysconf(_SC_OPEN_MAX);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = STDERR_FILENO + 1; fd < (most > 4096 ? 4096 : most); fd++)
		if (fd != keep_a && fd != keep_b)
			close(fd);
}

static pid_t fork_follower(int oob)
{
	pid_t child = fork();
	struct perf_hello hello;

	if (child)
		return child;
	become_child(oob, -1);
	side_report_to(oob);
	oob_recv(oob, &hello, sizeof(hello), NULL, NULL);
	side_follow(&hello, oob);
	exit(EXIT_SUCCESS);
}

/* oob -1: the follower is on the server's host. */
static pid_t fork_lead(const struct perf_options *opt, const struct perf_hello *mine,
		       const struct perf_hello *theirs, int oob, int up)
{
	pid_t child = fork();

	if (child)
		return child;
	become_child(oob, up);
	side_report_to(up);
	if (oob < 0)
		oob = oob_connect_for(opt->host, opt->port, opt->timeout, "");
	side_lead(mine, theirs, oob, up);
	exit(EXIT_SUCCESS);
}

/* The lead's part of what both sides are told. */
static struct perf_hello hello_of_lead(const struct perf_options *opt, const struct perf_hello *theirs)
{
	struct perf_hello mine = *theirs;

	snprintf(mine.domain, sizeof(mine.domain), "%s", opt->device[0] ? opt->device[0] : "");
	snprintf(mine.address, sizeof(mine.address), "%s", opt->address[0] ? opt->address[0] : "");
	snprintf(mine.devices, sizeof(mine.devices), "%s", opt->devices[0] ? opt->devices[0] : "");
	return mine;
}

static int start_pair(struct team *team, const struct perf_options *opt, size_t member)
{
	struct perf_hello theirs = team->hello, mine;
	int up[2], oob[2] = { -1, -1 };

	theirs.member = (uint32_t)member;
	mine = hello_of_lead(opt, &theirs);
	oob_pair(up);
	if (!opt->host)
		oob_pair(oob);
	fflush(NULL);
	team->members[member].fd = up[0];
	team->members[member].follower = opt->host ? 0 : fork_follower(oob[1]);
	if (team->members[member].follower >= 0)
		team->members[member].lead = fork_lead(opt, &mine, &theirs, oob[0], up[1]);
	close(up[1]);
	if (!opt->host) {
		close(oob[0]);
		close(oob[1]);
	}
	if (team->members[member].follower < 0 || team->members[member].lead < 0)
		return fail(team, "cannot start a process: %s (ulimit -u?)", strerror(errno));
	return 0;
}

/* Returns whether it has ended by itself before the deadline; ends it otherwise. */
static void reap(pid_t pid, unsigned *patience_ms)
{
	const struct timespec pause = { .tv_nsec = 2000000 };

	if (pid <= 0)
		return;
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (*patience_ms < 2) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
			return;
		}
		nanosleep(&pause, NULL);
		*patience_ms -= 2;
	}
}

void team_close(struct team *team)
{
	unsigned patience_ms = 3000;

	if (!team->open)
		return;
	for (size_t i = 0; i < team->pairs; i++)
		if (team->members[i].fd >= 0)
			close(team->members[i].fd);
	for (size_t i = 0; i < team->pairs; i++) {
		reap(team->members[i].lead, &patience_ms);
		reap(team->members[i].follower, &patience_ms);
	}
	team->open = false;
}

/* --- answers -------------------------------------------------------------------------- */

static double monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool read_whole(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

static int died(struct team *team, size_t member)
{
	pid_t pid = team->members[member].lead;
	int status = 0;

	if (waitpid(pid, &status, 0) == pid)
		team->members[member].lead = 0;
	if (WIFSIGNALED(status))
		return fail(team, "a measuring process died: %s", strsignal(WTERMSIG(status)));
	return fail(team, "a measuring process ended with status %d", WEXITSTATUS(status));
}

static int take_histogram(struct team *team, size_t member, const struct perf_reply *reply, struct hist *hist)
{
	static struct hist_entry entries[HIST_BUCKETS];

	if (reply->entries > HIST_BUCKETS ||
	    !read_whole(team->members[member].fd, entries, reply->entries * sizeof(*entries)))
		return died(team, member);
	hist_merge_head(hist, reply->sum, reply->min, reply->max);
	hist_merge(hist, entries, reply->entries);
	return 0;
}

static int take_reply(struct team *team, size_t member, uint32_t kind, struct perf_reply *reply, struct hist *hist)
{
	if (!read_whole(team->members[member].fd, reply, sizeof(*reply)))
		return died(team, member);
	if (reply->kind == PERF_FAILED)
		return fail(team, "%.*s", (int)sizeof(reply->text), reply->text);
	if (reply->kind != kind)
		return fail(team, "a measuring process says what it should not");
	return reply->entries ? take_histogram(team, member, reply, hist) : 0;
}

/* Waits for an answer of each pair, which come in any order. */
static int gather(struct team *team, uint32_t kind, double seconds, struct perf_reply *replies, struct hist *hist)
{
	const double end = monotonic() + seconds;
	struct pollfd pfd[PERF_PAIRS_MAX];
	size_t left = team->pairs;

	for (size_t i = 0; i < team->pairs; i++)
		pfd[i] = (struct pollfd){ .fd = team->members[i].fd, .events = POLLIN };
	while (left) {
		double wait = end - monotonic();

		if (wait <= 0)
			return fail(team, "no answer for %.0f s: the provider hangs (--timeout waits longer)",
				    seconds);
		if (poll(pfd, team->pairs, wait > 1000 ? 1000000 : (int)(wait * 1000) + 1) < 0 &&
		    errno != EINTR)
			return fail(team, "poll: %s", strerror(errno));
		for (size_t i = 0; i < team->pairs; i++) {
			if (pfd[i].fd < 0 || !pfd[i].revents)
				continue;
			if (take_reply(team, i, kind, &replies[i], hist))
				return -1;
			pfd[i].fd = -1;
			left--;
		}
	}
	return 0;
}

int team_open(struct team *team, const struct perf_options *opt, const struct perf_hello *hello,
	      size_t pairs)
{
	static struct perf_reply replies[PERF_PAIRS_MAX];
	int ret = 0;

	*team = (struct team){ .hello = *hello, .pairs = pairs, .timeout = opt->timeout, .open = true };
	for (size_t i = 0; i < pairs; i++)
		team->members[i].fd = -1;
	for (size_t i = 0; i < pairs && !ret; i++)
		ret = start_pair(team, opt, i);
	if (!ret)
		ret = gather(team, PERF_OPENED, opt->timeout, replies, NULL);
	if (ret)
		team_close(team);
	else
		team->about = replies[0].about;
	return ret;
}

/* --- rounds --------------------------------------------------------------------------- */

static void tell_all(const struct team *team, const void *what, size_t len)
{
	/* What a dead process does not read is noticed when it does not answer. */
	for (size_t i = 0; i < team->pairs; i++)
		if (send(team->members[i].fd, what, len, MSG_NOSIGNAL) < 0)
			continue;
}

static void add_up(const struct team *team, const struct perf_reply *replies, struct team_result *result)
{
	const double pairs = (double)team->pairs;

	*result = (struct team_result){ 0 };
	for (size_t i = 0; i < team->pairs; i++) {
		const struct perf_reply *r = &replies[i];

		if (r->seconds > result->seconds)
			result->seconds = r->seconds;
		result->per_second += r->unit > 0 ? 1 / r->unit : 0;
		result->unit += r->unit / pairs;
		if (r->pause > result->pause)
			result->pause = r->pause;
		result->shares[0] += r->shares[0] / pairs;
		result->shares[1] += r->shares[1] / pairs;
	}
}

int team_round(struct team *team, const struct perf_order *order, double expected,
	       struct team_result *result, struct hist *hist)
{
	static struct perf_reply replies[PERF_PAIRS_MAX];
	const double patience = team->timeout + PATIENCE * expected + GRACE;
	int ret;

	tell_all(team, order, sizeof(*order));
	ret = gather(team, PERF_READY, patience, replies, hist);
	if (!ret) {
		tell_all(team, "", 1);
		ret = gather(team, PERF_RESULT, patience, replies, hist);
	}
	if (ret)
		team_close(team);
	else
		add_up(team, replies, result);
	return ret;
}
