/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The runner's process: forks the ranks of a case, serves their exchanges, judges
 * how they end.
 */
#include "patience.h"
#include "runner.h"
#include "runner_priv.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHERE_MAX = 200 };

struct rank_process {
	pid_t pid;
	int hub;		/* the runner's end of the control socket */
	int life;
	bool running;
	bool waiting;		/* has contributed to the current exchange */
	struct run_blob blob;
};

struct run {
	const struct test_case *test_case;
	const struct run_options *opt;
	struct run_shared *shared;
	struct run_result *result;
	struct rank_process proc[RUN_RANKS_MAX];
	struct patience patience;
	int ranks;
	bool over;
};

static void set_environment(const struct run_options *opt, int rank)
{
	setenv("FI_PROVIDER", opt->provider, 1);
	if (opt->device[rank % 2])
		setenv("FI_TAGRV_DEVICES", opt->device[rank % 2], 1);
}

/* Runs the case in the rank's process. Ends with exit(), so that unloading is tested too. */
static _Noreturn void be_rank(struct run *run, int rank, int hub)
{
	struct test t = {
		.opt = run->opt,
		.rank = rank,
		.ranks = run->ranks,
		.life = run->proc[rank].life,
		.seed = run->opt->seed,
		.hub = hub,
		.shared = run->shared,
	};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < run->ranks; i++)
		if (run->proc[i].running)
			close(run->proc[i].hub);
	atomic_store(&run->shared->rank[rank].pid, getpid());
	set_environment(run->opt, rank);
	rank_enter(&t);
	run->test_case->run(&t);
	run_phase("exiting");
	exit(RUN_EXIT_PASSED);
}

static void finish(struct run *run, enum run_outcome outcome, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Sets the result of the case; later calls change nothing. */
static void finish(struct run *run, enum run_outcome outcome, const char *fmt, ...)
{
	va_list ap;

	if (run->over)
		return;
	run->over = true;
	run->result->outcome = outcome;
	va_start(ap, fmt);
	vsnprintf(run->result->why, sizeof(run->result->why), fmt, ap);
	va_end(ap);
}

static void start_rank(struct run *run, int rank)
{
	struct rank_process *proc = &run->proc[rank];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) {
		finish(run, RUN_FAILED, "no control socket");
		return;
	}
	atomic_store(&run->shared->rank[rank].death, RUN_MUST_LIVE);
	fflush(NULL);
	proc->pid = fork();
	if (proc->pid == 0) {
		close(pair[0]);
		be_rank(run, rank, pair[1]);
	}
	close(pair[1]);
	proc->hub = pair[0];
	proc->running = proc->pid > 0;
	proc->waiting = false;
	if (!proc->running) {
		close(proc->hub);
		finish(run, RUN_FAILED, "cannot fork");
	}
}

/* ---- ranks that are threads of one process ---- */

struct rank_thread {
	pthread_t thread;
	const char *name;
	struct test t;
};

static void *run_thread(void *arg)
{
	struct rank_thread *own = arg;

	own->t.opt->together->rank(own->name, &own->t);
	close(own->t.hub);
	return NULL;
}

static _Noreturn void end_together(struct run *run)
{
	const char *wrong = run->opt->together->end();

	if (!wrong)
		exit(RUN_EXIT_PASSED);
	snprintf(run->shared->rank[0].why, RUN_TEXT_MAX, "%s", wrong);
	atomic_store(&run->shared->rank[0].failed_at, 1);
	_exit(RUN_EXIT_FAILED);
}

static _Noreturn void be_ranks(struct run *run, const int *hubs)
{
	static struct rank_thread threads[RUN_RANKS_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_environment(run->opt, 0);
	run->opt->together->begin(run->ranks);
	for (int i = 0; i < run->ranks; i++) {
		close(run->proc[i].hub);
		atomic_store(&run->shared->rank[i].pid, getpid());
		threads[i].name = run->test_case->name;
		threads[i].t = (struct test) {
			.opt = run->opt, .rank = i, .ranks = run->ranks, .seed = run->opt->seed,
			.hub = hubs[i], .shared = run->shared,
		};
	}
	for (int i = 0; i < run->ranks; i++)
		if (pthread_create(&threads[i].thread, NULL, run_thread, &threads[i]))
			abort();
	for (int i = 0; i < run->ranks; i++)
		pthread_join(threads[i].thread, NULL);
	end_together(run);
}

static void start_together(struct run *run)
{
	int hubs[RUN_RANKS_MAX], pair[2];
	pid_t pid;

	for (int i = 0; i < run->ranks; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) {
			perror("no control socket");
			exit(EXIT_FAILURE);
		}
		run->proc[i].hub = pair[0];
		hubs[i] = pair[1];
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		be_ranks(run, hubs);
	for (int i = 0; i < run->ranks; i++) {
		close(hubs[i]);
		run->proc[i].pid = pid;
		run->proc[i].running = pid > 0;
	}
	if (pid < 0)
		finish(run, RUN_FAILED, "cannot fork");
}

static void start_ranks(struct run *run)
{
	if (run->opt->together)
		start_together(run);
	else
		for (int i = 0; i < run->ranks && !run->over; i++)
			start_rank(run, i);
}

/* ---- how they end ---- */

/* Describes where a rank was: its phase, and its step if it noted one. */
static const char *where(const struct run *run, int rank, char *text, size_t size)
{
	const struct run_rank *left = &run->shared->rank[rank];

	snprintf(text, size, "rank %d, %s%s%.100s%s", rank, left->phase, left->step[0] ? ", \"" : "",
		 left->step, left->step[0] ? "\"" : "");
	return text;
}

static void judge_signal(struct run *run, int rank, int sig)
{
	int death = atomic_load(&run->shared->rank[rank].death);
	char text[WHERE_MAX];

	if (sig != SIGKILL || death == RUN_MUST_LIVE) {
		finish(run, RUN_FAILED, "died of signal %d (%s) [%s]", sig, strsignal(sig),
		       where(run, rank, text, sizeof(text)));
		return;
	}
	if (death == RUN_COMES_BACK && !run->patience.given_up_at) {
		run->proc[rank].life++;
		start_rank(run, rank);
	}
}

/* A failure often causes others: the rank that failed first is reported. */
static int first_to_fail(const struct run *run, int rank)
{
	for (int i = 0; i < run->ranks; i++) {
		int64_t at = atomic_load(&run->shared->rank[i].failed_at);

		int64_t best = atomic_load(&run->shared->rank[rank].failed_at);

		if (at && (!best || at < best))
			rank = i;
	}
	return rank;
}

static void judge_failure(struct run *run, int rank)
{
	char text[WHERE_MAX];

	/* Its reason is in the report of all ranks. */
	if (run->patience.given_up_at)
		return;
	rank = first_to_fail(run, rank);
	finish(run, RUN_FAILED, "%s [%s]", run->shared->rank[rank].why,
	       where(run, rank, text, sizeof(text)));
}

static void judge(struct run *run, int rank, int status)
{
	struct run_rank *left = &run->shared->rank[rank];
	char text[WHERE_MAX];

	if (WIFSIGNALED(status)) {
		judge_signal(run, rank, WTERMSIG(status));
		return;
	}
	switch (WEXITSTATUS(status)) {
	case RUN_EXIT_PASSED:
		break;
	case RUN_EXIT_SKIPPED:
		for (int i = 0; run->opt->together && i < run->ranks && !left->why[0]; i++)
			left = &run->shared->rank[i];
		finish(run, RUN_SKIPPED, "%s", left->why);
		break;
	case RUN_EXIT_FAILED:
		judge_failure(run, rank);
		break;
	default:
		finish(run, RUN_FAILED, "exit status %d [%s]", WEXITSTATUS(status),
		       where(run, rank, text, sizeof(text)));
	}
}

static bool any_running(const struct run *run)
{
	for (int i = 0; i < run->ranks; i++)
		if (run->proc[i].running)
			return true;
	return false;
}

static void reap(struct run *run, int rank)
{
	struct rank_process *proc = &run->proc[rank];
	int status = 0;

	close(proc->hub);
	proc->running = false;
	proc->waiting = false;
	if (run->opt->together && any_running(run))
		return;
	waitpid(proc->pid, &status, 0);
	judge(run, rank, status);
}

static void serve(struct run *run, int rank)
{
	struct rank_process *proc = &run->proc[rank];
	ssize_t n = recv(proc->hub, &proc->blob, sizeof(proc->blob), 0);

	if (n <= 0)
		reap(run, rank);
	else
		proc->waiting = true;
}

static bool all_wait(const struct run *run)
{
	bool any = false;

	for (int i = 0; i < run->ranks; i++) {
		if (run->proc[i].running && !run->proc[i].waiting)
			return false;
		any = any || run->proc[i].running;
	}
	return any;
}

/* An exchange ends when every living rank has contributed. */
static void release(struct run *run)
{
	struct run_gathered all;

	memset(&all, 0, sizeof(all));
	for (int i = 0; i < run->ranks; i++) {
		struct rank_process *proc = &run->proc[i];

		if (!proc->running)
			continue;
		all.len[i] = proc->blob.len;
		memcpy(all.data[i], proc->blob.data, proc->blob.len);
	}
	for (int i = 0; i < run->ranks; i++) {
		if (!run->proc[i].running)
			continue;
		run->proc[i].waiting = false;
		(void)!send(run->proc[i].hub, &all, sizeof(all), MSG_NOSIGNAL);
	}
}

static void watch(struct run *run)
{
	struct pollfd fds[RUN_RANKS_MAX];

	for (int i = 0; i < run->ranks; i++) {
		fds[i].fd = run->proc[i].running ? run->proc[i].hub : -1;
		fds[i].events = POLLIN;
		fds[i].revents = 0;
	}
	poll(fds, (nfds_t)run->ranks, PATIENCE_LOOK_MS);
	for (int i = 0; i < run->ranks && !run->over; i++)
		if (fds[i].revents)
			serve(run, i);
	if (!run->patience.given_up_at && all_wait(run))
		release(run);
}

static void give_up(struct run *run)
{
	char report[RUN_REPORT_MAX];

	patience_report(&run->patience, report, sizeof(report));
	finish(run, RUN_FAILED, "%s", report);
}

static void kill_all(struct run *run)
{
	for (int i = 0; i < run->ranks; i++) {
		if (!run->proc[i].running)
			continue;
		kill(run->proc[i].pid, SIGKILL);
		waitpid(run->proc[i].pid, NULL, 0);
		close(run->proc[i].hub);
	}
}

static int count_ranks(const struct test_case *test_case, const struct run_options *opt)
{
	if (opt->self)
		return 1;
	return test_case->ranks ? test_case->ranks : 2;
}

void run_case(const struct test_case *test_case, const struct run_options *opt,
	      struct run_result *result)
{
	struct run run = { .test_case = test_case, .opt = opt, .result = result };

	result->outcome = RUN_PASSED;
	result->why[0] = '\0';
	if (opt->self && !test_case->self && test_case->ranks != 1) {
		finish(&run, RUN_SKIPPED, "needs more than one process");
		return;
	}
	run.shared = mmap(NULL, sizeof(*run.shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.shared == MAP_FAILED) {
		finish(&run, RUN_FAILED, "no shared memory");
		return;
	}
	run.ranks = count_ranks(test_case, opt);
	patience_start(&run.patience, test_case->name, run.shared, run.ranks, 1000LL * opt->stall_s,
		       1000LL * opt->timeout_s * (test_case->slow ? test_case->slow : 1));
	start_ranks(&run);
	while (!run.over && any_running(&run) && !patience_is_over(&run.patience))
		watch(&run);
	if (run.patience.given_up_at)
		give_up(&run);
	kill_all(&run);
	munmap(run.shared, sizeof(*run.shared));
}

/* ---- reports ---- */

void run_counted(const struct test_case *test_case, const struct run_options *opt,
		 struct run_tally *tally)
{
	struct run_result result;

	run_case(test_case, opt, &result);
	switch (result.outcome) {
	case RUN_PASSED:
		printf("ok %s\n", test_case->name);
		tally->passed++;
		break;
	case RUN_FAILED:
		printf("FAIL %s: %s\n", test_case->name, result.why);
		tally->failed++;
		break;
	case RUN_SKIPPED:
		printf("skip %s: %s\n", test_case->name, result.why);
		tally->skipped++;
		break;
	}
}

void run_print_tally(const struct run_tally *tally)
{
	printf("%d passed, %d failed", tally->passed, tally->failed);
	if (tally->skipped)
		printf(", %d skipped", tally->skipped);
	printf("\n");
}
