/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Waiting: the processor time of waiting, and how long it takes to wake up.
 *
 *   sender                          sleeper
 *                 <--- ready ---    receive posted; goes to sleep
 *   sleeps a moment
 *   time, message ------------->    completion, time
 *
 * The sleeper has an endpoint for each way of waiting: blocking reads of the
 * completion queue, its descriptor in poll(2), and blocking reads while a thread of
 * the provider makes progress. In turn with them the same is measured with only an
 * eventfd: the part of the machine and its scheduler. Then the sleeper does nothing
 * for two seconds while the provider's thread waits for messages: its processor time
 * is the cost of waiting.
 */
#include "clock.h"
#include "endpoint.h"
#include "measure.h"
#include "oob.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAYS = 4, ROUNDS = 20, PAUSE_US = 500, IDLE_MS = 2000, SAMPLES_MAX = 10000 };

enum way { WAY_EVENTFD, WAY_SREAD, WAY_FD, WAY_AUTO };

static const char *const names[WAYS] = {
	"eventfd", "fi_cq_sread", "FI_WAIT_FD", "FI_PROGRESS_AUTO",
};

static unsigned samples = 50;		/* of each way of waiting, per round */
static const char *provider = "tagrv", *device = "shm";

/* Shared by both processes. */
static struct page {
	uint64_t sent_at;		/* ns */
} *page;

struct side {
	struct endpoint e[WAYS];	/* not for WAY_EVENTFD */
	int	oob, event_fd;
	bool	sleeps;
};

static void open_all(struct side *s)
{
	for (int w = WAY_SREAD; w < WAYS; w++) {
		struct endpoint_conf conf = {
			.provider = provider, .slot_size = 8, .slots = 4, .timeout = 60,
			.wait = !s->sleeps ? FI_WAIT_NONE :
				w == WAY_FD ? FI_WAIT_FD : FI_WAIT_UNSPEC,
			.auto_progress = s->sleeps && w == WAY_AUTO,
		};

		endpoint_open(&s->e[w], &conf, s->oob);
	}
}

/* ---- sender ---- */

static void wake(struct side *s, enum way way)
{
	struct endpoint *e = &s->e[way];
	uint64_t one = 1;
	char ready;

	oob_recv(s->oob, &ready, 1, NULL, NULL);
	usleep(PAUSE_US);
	page->sent_at = clock_monotonic_ns();
	if (way == WAY_EVENTFD) {
		if (write(s->event_fd, &one, sizeof(one)) != sizeof(one))
			bench_die("eventfd");
		return;
	}
	endpoint_post_send(e, 8);
	/* So that no message waits for progress of the sender, not even the first. */
	endpoint_wait_sends(e, e->sent);
}

/* ---- sleeper ---- */

static void sleep_on_eventfd(struct side *s)
{
	struct pollfd pfd = { .fd = s->event_fd, .events = POLLIN };
	uint64_t count;

	if (poll(&pfd, 1, -1) != 1 || read(s->event_fd, &count, sizeof(count)) < 0)
		bench_die("eventfd");
}

/* Seconds from the sender's call to the end of the wait. */
static double be_woken(struct side *s, enum way way)
{
	struct endpoint *e = &s->e[way];
	char ready = 0;

	if (way != WAY_EVENTFD)
		endpoint_post_recv(e, 8);
	oob_send(s->oob, &ready, 1);
	if (way == WAY_EVENTFD)
		sleep_on_eventfd(s);
	while (way != WAY_EVENTFD && e->recvs_done < e->received)
		endpoint_sleep(e);
	return (double)(clock_monotonic_ns() - page->sent_at) * 1e-9;
}

static double cpu_seconds(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void report_idle(void)
{
	double before = cpu_seconds();

	usleep(IDLE_MS * 1000);
	printf("idle for %.0f s with FI_PROGRESS_AUTO: %.3f ms of processor time, %.3f %%\n",
	       IDLE_MS * 1e-3, (cpu_seconds() - before) * 1e3,
	       (cpu_seconds() - before) * 1e5 / IDLE_MS);
}

static void report(double values[WAYS][SAMPLES_MAX], size_t cnt)
{
	double limit = measure_median(values[WAY_EVENTFD], cnt);

	printf("# us from the send to the end of the wait: median (best, 99 %%) of %zu\n", cnt);
	for (int w = 0; w < WAYS; w++) {
		double median = measure_median(values[w], cnt);

		printf("%s: %.1f (%.1f, %.1f), %.2f times eventfd\n", names[w], median * 1e6,
		       values[w][0] * 1e6, values[w][cnt * 99 / 100] * 1e6, median / limit);
	}
}

/* ---- both ---- */

/* The first message of each endpoint connects. */
static void measure(struct side *s)
{
	static double values[WAYS][SAMPLES_MAX];
	size_t cnt = 0;

	for (int w = 0; w < WAYS; w++)
		s->sleeps ? (void)be_woken(s, w) : wake(s, w);
	for (unsigned i = 0; i < ROUNDS * samples; i++, cnt += s->sleeps)
		for (int w = 0; w < WAYS; w++) {
			if (s->sleeps)
				values[w][cnt] = be_woken(s, w);
			else
				wake(s, w);
		}
	if (s->sleeps) {
		report(values, cnt);
		report_idle();
	}
}

static int run(void)
{
	struct side s = { .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .sleeps = true };
	int pair[2], status;
	char done = 0;
	pid_t child;

	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s.event_fd < 0 || page == MAP_FAILED)
		bench_die("no memory, no descriptors");
	oob_pair(pair);
	child = fork();
	if (child < 0)
		bench_die("cannot fork");
	s.sleeps = child != 0;
	s.oob = pair[!child];
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all(&s);
	measure(&s);
	/* The sender waits until the sleeper has measured two idle seconds. */
	if (s.sleeps)
		oob_send(s.oob, &done, 1);
	else
		oob_recv(s.oob, &done, 1, NULL, NULL);
	for (int w = WAY_SREAD; w < WAYS; w++)
		endpoint_close(&s.e[w]);
	if (!child)
		return EXIT_SUCCESS;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static void print_help(void)
{
	printf("usage: tagrv_wake [options]\n"
	       "\n"
	       "How long a process of this host sleeps on after it was sent a message, and what the\n"
	       "wait costs.\n"
	       "\n"
	       "  -n, --samples N       of each way of waiting, times %d (default %u)\n"
	       "  -p, --provider NAME   provider (default %s)\n"
	       "      --dev NAME        FI_TAGRV_DEVICES (default %s)\n"
	       "  -h, --help            this text\n", ROUNDS, samples, provider, device);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "samples", required_argument, NULL, 'n' },
		{ "provider", required_argument, NULL, 'p' },
		{ "dev", required_argument, NULL, 'D' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int key;

	while ((key = getopt_long(argc, argv, "n:p:h", options, NULL)) != -1) {
		switch (key) {
		case 'n': samples = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'p': provider = optarg; break;
		case 'D': device = optarg; break;
		case 'h': print_help(); return EXIT_SUCCESS;
		default: return 2;
		}
	}
	if (!samples || samples > SAMPLES_MAX / ROUNDS)
		bench_die("--samples wants 1 to %d", SAMPLES_MAX / ROUNDS);
	setenv("FI_TAGRV_DEVICES", device, 1);
	return run();
}
