/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Faults of the network and of processes amid traffic of all kinds: nothing is lost,
 * doubled, reordered or hung. See faults.h for the parts.
 *
 *	tagrv_faults [--faults N] [--messages N] [--seconds N] [--seed N]
 *		[--dev-a D --dev-b D --addr-a A --addr-b A] [--rails N] [--inject COMMAND [--down]]
 *
 * The seed determines the messages and the faults; the moments differ.
 *
 * A session is a stretch of traffic that ends in one of three ways: nothing more is sent
 * and everything must come; a fault has broken the connection; a side was killed. Faults
 * that must be survived follow each other within a session.
 *
 * Waiting is given up when nothing completes on either side for long; both then write
 * the provider's state to standard error.
 */
#include "common/slowness.h"
#include "faults.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STALL_MS = 30000, TICK_US = 1000, FAULTS_OF_SESSION = 12, SETTLED = 40 };

struct board *board;
struct settings settings = { .faults = 60, .messages = 60000, .rails = 1 };

static pid_t controller, pid[SIDES];
static struct verdict verdict;
static uint64_t done[KINDS];
static int64_t longest[KINDS];	/* us until traffic went on */
static uint64_t faults, faults_of_session;
static int64_t moved_at, began;
static uint64_t moved;
static struct fault current;
static bool fault_is_on;

int64_t faults_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void end_sides(void)
{
	for (int i = 0; i < SIDES; i++)
		if (pid[i] > 0)
			kill(pid[i], SIGKILL);
}

void fault_fail(const char *fmt, ...)
{
	char why[WHY_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	if (getpid() != controller) {
		memcpy(board->why, why, sizeof(why));
		atomic_store(&board->failed, true);
		for (;;)
			pause();
	}
	printf("FAIL faults: seed %" PRIu64 ", fault %" PRIu64 " (%s), session %u: %s\n",
	       settings.seed, faults, kind_names[current.kind], atomic_load(&board->current), why);
	fflush(stdout);
	end_sides();
	if (fault_is_on) {
		fault_is_on = false;
		fault_inject(&current, false);
	}
	_exit(EXIT_FAILURE);
}

/* ---- sides ---- */

static void start_side(int rank)
{
	uint32_t life = atomic_load(&board->life[rank]) + 1;
	pid_t parent = getpid();

	fflush(stdout);
	atomic_store(&board->side[rank].full, false);
	atomic_store(&board->life[rank], life);
	pid[rank] = fork();
	if (pid[rank])
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	signal(SIGTERM, SIG_IGN);	/* the controller ends the sides */
	signal(SIGINT, SIG_IGN);
	fault_injector_leave();
	side_run(rank, life);
}

static void check_sides(void)
{
	int status;

	MUST(!atomic_load(&board->failed), "%s", board->why);
	for (int i = 0; i < SIDES; i++) {
		if (waitpid(pid[i], &status, WNOHANG) != pid[i])
			continue;
		pid[i] = 0;
		fault_fail("side %d died of signal %d", i, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	}
}

static uint64_t sum_moved(void)
{
	return atomic_load(&board->side[0].moved) + atomic_load(&board->side[1].moved);
}

static _Noreturn void stall(const char *what)
{
	struct verdict v = { 0 };

	atomic_store(&board->dump, atomic_load(&board->dump) + 1);
	usleep(3000000);
	session_judge(session_at(atomic_load(&board->current)), &v);
	fault_fail("hung: %s", what);
}

/* Lets the sides run for a moment. 'what' is waited for. */
static void tick(const char *what)
{
	int64_t now;

	usleep(TICK_US);
	check_sides();
	now = faults_now();
	if (sum_moved() != moved) {
		moved = sum_moved();
		moved_at = now;
	}
	if (now - moved_at > (int64_t)slow_ms(STALL_MS) * 1000)
		stall(what);
}

static void hold(int64_t us)
{
	int64_t end = faults_now() + us;

	while (faults_now() < end)
		tick("traffic amid a fault");
}

/* ---- sessions ---- */

static void next_session(void)
{
	uint32_t number = atomic_load(&board->current) + 1;

	session_judge(session_at(number), &verdict);
	session_begin(number);
	faults_of_session = 0;
	atomic_store(&board->current, number);
}

/* Nothing more is sent; everything that was sent comes. */
static void finish_session(void)
{
	uint32_t number = atomic_load(&board->current);

	atomic_store(&board->drain, number);
	while (atomic_load(&board->side[0].quiet) != number ||
	       atomic_load(&board->side[1].quiet) != number ||
	       !session_complete(session_at(number)))
		tick("the end of a session");
}

static bool is_full(void)
{
	return atomic_load(&board->side[0].full) || atomic_load(&board->side[1].full);
}

/* Each side receives so many messages more. */
static void await_messages(uint64_t n, const char *what)
{
	uint64_t goal[SIDES];

	for (int i = 0; i < SIDES; i++)
		goal[i] = atomic_load(&board->side[i].received) + n;
	while (atomic_load(&board->side[0].received) < goal[0] ||
	       atomic_load(&board->side[1].received) < goal[1]) {
		if (is_full() && session_at(atomic_load(&board->current))->bound == SURVIVED) {
			finish_session();
			next_session();
		}
		if (is_full() && session_at(atomic_load(&board->current))->bound != SURVIVED)
			return;
		tick(what);
	}
}

/* ---- faults ---- */

static void replace_side(const struct fault *f)
{
	struct session *s = session_at(atomic_load(&board->current));
	int status;

	s->bound = RESTARTED;
	s->dead = f->side;
	kill(pid[f->side], SIGKILL);
	MUST(waitpid(pid[f->side], &status, 0) == pid[f->side], "waitpid: %s", strerror(errno));
	pid[f->side] = 0;
	MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "side %d ended by itself", f->side);
	MUST(!atomic_load(&board->failed), "%s", board->why);
	start_side(f->side);
	next_session();
}

static void stop_side(const struct fault *f)
{
	kill(pid[f->side], SIGSTOP);
	hold(f->us);
	kill(pid[f->side], SIGCONT);
}

static void disturb(const struct fault *f)
{
	struct session *s = session_at(atomic_load(&board->current));

	if (fault_bound(f) == BROKEN)
		s->bound = BROKEN;
	fault_is_on = true;
	fault_inject(f, true);
	hold(f->us);
	fault_inject(f, false);
	fault_is_on = false;
}

/* Traffic goes on after each fault; what a fault has broken is left behind with its session. */
static void one_fault(uint64_t pace)
{
	int64_t started = faults_now();

	fault_draw(&current, faults);
	if (current.kind == KILL)
		replace_side(&current);
	else if (current.kind == STOP)
		stop_side(&current);
	else
		disturb(&current);
	await_messages(fault_bound(&current) == BROKEN ? SETTLED : 0, "traffic after a broken link");
	if (fault_bound(&current) == BROKEN)
		next_session();
	await_messages(1, "traffic after a fault");
	if (faults_now() - started > longest[current.kind])
		longest[current.kind] = faults_now() - started;
	await_messages(pace, "traffic after a fault");
	done[current.kind]++;
	faults++;
	if (++faults_of_session < FAULTS_OF_SESSION)
		return;
	finish_session();
	next_session();
}

/* ---- */

/* SIGTERM and SIGINT end the run as the end of its time does: with a report. */
static volatile sig_atomic_t asked_to_end;

static void ask_to_end(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

static uint64_t all_received(void)
{
	return atomic_load(&board->side[0].received) + atomic_load(&board->side[1].received);
}

static bool is_enough(void)
{
	if (asked_to_end)
		return true;
	if (settings.seconds)
		return faults_now() - began > (int64_t)settings.seconds * 1000000;
	return faults >= settings.faults && all_received() >= settings.messages;
}

static void progress_report(void)
{
	static int64_t reported;
	int64_t now = faults_now();

	if (now - reported < 5000000)
		return;
	reported = now;
	printf("%4d s: %" PRIu64 " faults, %" PRIu64 " messages\n", (int)((now - began) / 1000000),
	       faults, all_received());
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*text && !*end)
		return value;
	fprintf(stderr, "tagrv_faults: %s is no number\n", text);
	exit(2);
}

static void take_option(int c, const char *text)
{
	switch (c) {
	case 'f': settings.faults = number(text); break;
	case 'm': settings.messages = number(text); break;
	case 't': settings.seconds = number(text); break;
	case 's': settings.seed = number(text); break;
	case 'r': settings.rails = (unsigned)number(text); break;
	case 'a': settings.device[0] = text; break;
	case 'b': settings.device[1] = text; break;
	case 'A': settings.address[0] = text; break;
	case 'B': settings.address[1] = text; break;
	case 'i': settings.inject = text; break;
	case 'd': settings.down = true; break;
	default: exit(2);
	}
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "faults", 1, NULL, 'f' }, { "messages", 1, NULL, 'm' }, { "seconds", 1, NULL, 't' },
		{ "seed", 1, NULL, 's' }, { "rails", 1, NULL, 'r' }, { "dev-a", 1, NULL, 'a' },
		{ "dev-b", 1, NULL, 'b' }, { "addr-a", 1, NULL, 'A' }, { "addr-b", 1, NULL, 'B' },
		{ "inject", 1, NULL, 'i' }, { "down", 0, NULL, 'd' }, { 0 },
	};
	int c;

	settings.seed = (uint64_t)time(NULL);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		take_option(c, optarg);
	if (optind < argc || !settings.rails || !settings.faults) {
		fprintf(stderr, "tagrv_faults: see the head of tagrv_faults.c for the options\n");
		exit(2);
	}
}

/* A send that is posted to a dead side, before its successor is known, waits for so long. */
static void limit_connects(void)
{
	char seconds[12];

	snprintf(seconds, sizeof(seconds), "%u", slow_ms(2000) / 1000);
	setenv("FI_TAGRV_CONNECT_TIMEOUT", seconds, 0);
}

static void begin(void)
{
	controller = getpid();
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED) {
		perror("tagrv_faults: mmap");
		exit(EXIT_FAILURE);
	}
	setenv("FI_PROVIDER", "tagrv", 0);
	limit_connects();
	fault_injector_start();
	began = moved_at = faults_now();
	session_begin(1);
	atomic_store(&board->current, 1);
	for (int i = 0; i < SIDES; i++)
		start_side(i);
}

static void end(void)
{
	int status;

	finish_session();
	atomic_store(&board->over, true);
	for (int i = 0; i < SIDES; i++) {
		MUST(waitpid(pid[i], &status, 0) == pid[i], "waitpid: %s", strerror(errno));
		MUST(WIFEXITED(status) && !WEXITSTATUS(status), "side %d ends badly", i);
		pid[i] = 0;
	}
	for (int i = 0; i < SESSIONS_KEPT; i++)
		session_judge(&board->session[i], &verdict);
}

static void report_faults(void)
{
	printf("%d s, %" PRIu64 " faults\n", (int)((faults_now() - began) / 1000000), faults);
	for (int i = 0; i < KINDS; i++)
		if (done[i])
			printf("%10" PRIu64 " %-9s traffic went on %.1f s after it began, at the latest\n",
			       done[i], kind_names[i], (double)longest[i] / 1000000);
}

int main(int argc, char **argv)
{
	uint64_t pace;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse(argc, argv);
	pace = settings.messages / settings.faults / 2 + 1;
	printf("seed %" PRIu64 ", %" PRIu64 " faults, %" PRIu64 " messages\n", settings.seed,
	       settings.faults, settings.messages);
	begin();
	signal(SIGTERM, ask_to_end);
	signal(SIGINT, ask_to_end);
	await_messages(pace, "the first traffic");
	while (!is_enough()) {
		one_fault(pace);
		progress_report();
	}
	end();
	report_faults();
	if (!verdict_report(&verdict)) {
		printf("FAIL faults: seed %" PRIu64 "\n", settings.seed);
		return EXIT_FAILURE;
	}
	printf("ok faults\n");
	return EXIT_SUCCESS;
}
