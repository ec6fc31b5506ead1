/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory, descriptors, mappings and threads run out: the Nth call that asks for one fails,
 * once or for good, for each N that there is.
 *
 * Each N has a process of its own, with two endpoints that are opened, exchange messages
 * of all kinds, and are closed, through shared memory or over RDMA devices in memory.
 * No run may crash, hang, or tell an operation's end twice or never; every error must be
 * one that says what is missing, or that the manual page has for the case. When calls
 * succeed again, the same endpoints (or new ones, if they could not be opened) must
 * exchange everything without an error.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/fake_verbs.h"
#include "common/slowness.h"
#include "scarce_run.h"

enum { HANG_S = 30, CLEAN_ROUNDS = 5 };

/* The provider's own, in this program. */
struct fi_provider *fi_prov_ini(void);

struct result *result;

static bool over_verbs, verbose, again, for_good;
static unsigned which = SCARCE_ALL;
static size_t from_n = 1, to_n = 500, stride = 1;

/* ---- in the process of a run ---- */

void run_step(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(result->step, sizeof(result->step), format, args);
	va_end(args);
}

_Noreturn void run_fails(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(result->reason, sizeof(result->reason), format, args);
	va_end(args);
	result->failed = true;
	_exit(1);
}

/*
 * Calls say what is missing. So do completions, or they say what became of the connection
 * because the other side lacks something: it was closed, or is not answered. Never is it
 * -FI_EAGAIN, after which a caller would repeat the call for ever.
 */
static bool is_true(const char *call, int err)
{
	bool completion = !strcmp(call, "completion");

	switch (err) {
	case FI_ENOMEM:
	case FI_EMFILE:
		return true;
	case FI_ECONNRESET:
	case FI_ETIMEDOUT:
	case FI_ECANCELED:
		return completion;
	case FI_EIO:
		return completion && which & SCARCE_REQUEST;
	case FI_EHOSTUNREACH:
		/* The devices in memory take no time to find that a queue pair is gone: real
		 * ones learn before that, from the sign-of-life socket, that it was closed. */
		return completion && over_verbs;
	default:
		return false;
	}
}

void run_count(const char *call, int err)
{
	struct code *code = result->codes;

	while (code < result->codes + CODES - 1 && code->cnt && (strcmp(code->call, call) != 0 || code->err != err))
		code++;
	snprintf(code->call, sizeof(code->call), "%s", call);
	code->err = err;
	code->cnt++;
	if (!is_true(call, err))
		run_fails("%s: the error is %s", call, fi_strerror(err));
}

static void close_both(struct side side[2])
{
	side_close(&side[0]);
	side_close(&side[1]);
}

static int open_both(struct side side[2], const struct fi_provider *provider, bool repeat)
{
	const char *const name[2] = { over_verbs ? "fake0" : "shm", over_verbs ? "fake1" : "shm" };
	int ret = side_open(&side[0], provider, name[0], FI_PROGRESS_MANUAL, repeat);

	if (ret)
		return ret;
	ret = side_open(&side[1], provider, name[1], FI_PROGRESS_AUTO, repeat);
	if (!ret)
		ret = side_meet(&side[0], &side[1], repeat);
	if (!ret)
		ret = side_meet(&side[1], &side[0], repeat);
	if (ret)
		close_both(side);
	return ret;
}

/* A connection that has just ended may take messages along: a later round is clean. */
static void exchange_cleanly(struct side side[2])
{
	while (traffic(&side[0], &side[1], false, result->rounds == CLEAN_ROUNDS - 1))
		result->rounds++;
}

static void run_one(const struct fi_provider *provider, size_t n)
{
	struct side side[2];
	int ret;

	scarce_tell(result->lacking, sizeof(result->lacking));
	scarce_arm(which, n, for_good);
	ret = open_both(side, provider, again);
	if (!ret)
		traffic(&side[0], &side[1], again, false);
	result->calls += scarce_disarm();
	/* An endpoint over a device that is broken stays so. */
	if (!ret && which & SCARCE_REQUEST) {
		close_both(side);
		ret = -FI_EIO;
	}
	if (ret && open_both(side, provider, false))
		run_fails("endpoints cannot be opened with memory");
	exchange_cleanly(side);
	close_both(side);
}

static unsigned open_descriptors(void)
{
	unsigned cnt = 0;

	for (int fd = 0; fd < 256; fd++)
		cnt += fcntl(fd, F_GETFD) >= 0;
	return cnt;
}

/* Returns the exit status; main() returns it, so that leaks are looked for. */
static int run(size_t n)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_provider *provider = fi_prov_ini();
	unsigned before;

	/* Libraries that libfabric loads print and exit. */
	for (const int *sig = (const int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, 0 }; *sig; sig++)
		signal(*sig, SIG_DFL);
	if (over_verbs)
		fake_verbs_start(&config);
	before = open_descriptors();
	run_one(provider, n);
	run_step("the end");
	if (open_descriptors() != before)
		run_fails("%u descriptors are open, %u were", open_descriptors(), before);
	provider->cleanup();
	if (over_verbs) {
		if (fake_verbs_count().objects)
			run_fails("%u objects of the device are left", fake_verbs_count().objects);
		fake_verbs_stop();
	}
	result->done = true;
	return 0;
}

/* ---- in the process that waits ---- */

static struct code all[CODES];
static unsigned runs, bad, lost, most_rounds;

static void add_codes(void)
{
	for (const struct code *c = result->codes; c < result->codes + CODES && c->cnt; c++) {
		struct code *sum = all;

		while (sum < all + CODES - 1 && sum->cnt && (strcmp(sum->call, c->call) != 0 || sum->err != c->err))
			sum++;
		memcpy(sum->call, c->call, sizeof(sum->call));
		sum->err = c->err;
		sum->cnt += c->cnt;
	}
	lost += result->lost;
	if (result->rounds > most_rounds)
		most_rounds = result->rounds;
}

static void tell(size_t n, const char *how)
{
	bad++;
	printf("N %zu %s, %s: %s%s%s (%s)\n", n, for_good ? "for good" : "once", result->lacking[0] ? result->lacking : "?",
	       how, result->reason[0] ? ": " : "", result->reason, result->step);
	fflush(stdout);
}

/* False: it hangs, and was killed. */
static bool wait_for(pid_t pid, int *status)
{
	int64_t limit = (int64_t)(HANG_S * slowness()) * 1000;

	for (int64_t ms = 0; ms < limit; ms++) {
		const struct timespec pause = { .tv_nsec = 1000000 };

		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGABRT);
	waitpid(pid, status, 0);
	return false;
}

/* The run's process returns its exit status, the other one -1. */
static int run_apart(size_t n)
{
	int status = 0;
	pid_t pid;

	memset(result, 0, sizeof(*result));
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (!pid)
		return run(n);
	runs++;
	if (!wait_for(pid, &status))
		tell(n, "hangs");
	else if (result->failed)
		tell(n, "is wrong");
	else if (status || !result->done)
		tell(n, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ends with an error");
	else if (verbose)
		printf("N %zu: %s, %zu calls, %u rounds, %u lost\n", n, result->lacking, result->calls, result->rounds, result->lost);
	add_codes();
	return -1;
}

static int run_all(void)
{
	static const char *const when[2] = { "once", "for good" };
	size_t n;
	int ret;

	for (int mode = 0; mode < 2; mode++) {
		for_good = mode;
		again = !for_good;
		for (n = from_n; n <= to_n; n += stride) {
			ret = run_apart(n);
			if (ret >= 0)
				return ret;
			if (!result->failed && result->done && !result->lacking[0])
				break;		/* there is no such call */
		}
		printf("%s, %s: N up to %zu\n", over_verbs ? "verbs" : "shm", when[mode], n - stride);
	}
	for (const struct code *c = all; c < all + CODES && c->cnt; c++)
		printf("%u x %s: %s\n", c->cnt, c->call, fi_strerror(c->err));
	printf("%u runs, %u wrong; %u messages lost without a word; at most %u rounds until one was clean\n",
	       runs, bad, lost, most_rounds + 1);
	return bad != 0;
}

static void set_parameters(void)
{
	setenv("FI_TAGRV_TRANSPORTS", over_verbs ? "verbs" : "shm", 1);
	setenv("FI_TAGRV_PROTO", "get:8k-50k,put:50k-100k,copy:100k-200k,pipeline:200k-", 1);
	setenv("FI_TAGRV_READ_SEGMENT", "65536", 1);
	setenv("FI_TAGRV_PROFILE", "none", 1);
	setenv("FI_TAGRV_CONNECT_TIMEOUT", "2", 1);
	setenv("FI_TAGRV_CLOSE_TIMEOUT", "1", 1);
}

static unsigned kinds_of(const char *text)
{
	return (strstr(text, "memory") ? SCARCE_MEMORY : 0) | (strstr(text, "descriptor") ? SCARCE_DESCRIPTOR : 0) |
	       (strstr(text, "mapping") ? SCARCE_MAPPING : 0) | (strstr(text, "thread") ? SCARCE_THREAD : 0) |
	       (strstr(text, "locked") ? SCARCE_LOCKED : 0) | (strstr(text, "device") ? SCARCE_DEVICE : 0) |
	       (strstr(text, "request") ? SCARCE_REQUEST : 0);
}

static void help(void)
{
	printf("usage: tagrv_no_memory [options]\n"
	       "  --verbs         over RDMA devices in memory (default: through shared memory)\n"
	       "  --from N        first call that fails (default 1)\n"
	       "  --to N          last one (default 500, or as many as there are)\n"
	       "  --stride N      only each Nth\n"
	       "  --kinds LIST    memory,descriptor,mapping,thread,locked,device, or request: a\n"
	       "                  device that refuses requests, though nothing lacks (default: all but that)\n"
	       "  -v              a line for each run\n");
}

static const struct option options[] = {
	{ "verbs", no_argument, NULL, 'b' },	    { "from", required_argument, NULL, 'f' },
	{ "to", required_argument, NULL, 't' },	    { "stride", required_argument, NULL, 's' },
	{ "kinds", required_argument, NULL, 'k' },  { "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int parse(int argc, char **argv)
{
	int key;

	while ((key = getopt_long(argc, argv, "vh", options, NULL)) != -1)
		switch (key) {
		case 'b':
			over_verbs = true;
			break;
		case 'f':
			from_n = strtoul(optarg, NULL, 0);
			break;
		case 't':
			to_n = strtoul(optarg, NULL, 0);
			break;
		case 's':
			stride = strtoul(optarg, NULL, 0);
			break;
		case 'k':
			which = kinds_of(optarg);
			break;
		case 'v':
			verbose = true;
			break;
		case 'h':
			help();
			exit(0);
		default:
			return 2;
		}
	return 0;
}

int main(int argc, char **argv)
{
	const struct rlimit no_core = { 0, 0 };

	if (parse(argc, argv))
		return 2;
	setrlimit(RLIMIT_CORE, &no_core);
	set_parameters();
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED)
		return 1;
	return run_all();
}
