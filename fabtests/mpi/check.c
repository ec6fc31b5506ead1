/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the MPI programs share: see check.h. Messages that concern all ranks are
 * printed by rank 0, failures by the rank where they happen.
 */
#include "check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 10, LIMIT = 300 };

struct check check = { .threads = 4, .seed = 1 };

static const char *name = "mpi", *unit;
static _Atomic(const char *) phase = "start";
static atomic_int failures;
static atomic_uint moves;	/* messages made, messages checked, phases */
static int limit = LIMIT;

/* Ends the program on all ranks; rank 0 prints the help. */
static void leave(int status, const char *help, int count)
{
	if (check.rank == 0)
		fprintf(status ? stderr : stdout,
			"usage: %s [-n COUNT] [-s SEED] [-j THREADS] [-t SECONDS] "
			"[-m] [-h]\n\n%s\n\n"
			"  -n COUNT    %s (default %d)\n"
			"  -s SEED     of random sizes, tags and order (default 1)\n"
			"  -j THREADS  of each rank, where there are some (default 4)\n"
			"  -t SECONDS  gives up when nothing moves for so long, 0: "
			"never (default %d)\n"
			"  -m          initializes MPI for MPI_THREAD_MULTIPLE\n",
			name, help, unit, count, LIMIT);
	MPI_Finalize();
	exit(status);
}

static void moved(void)
{
	atomic_fetch_add_explicit(&moves, 1, memory_order_relaxed);
}

/*
 * Ends the program unless it moved since the last alarm. Only async-signal-safe
 * calls: the program may hang at an unknown place.
 */
static void on_alarm(int signo)
{
	static unsigned before = UINT32_MAX;
	char text[256], digits[] = "00";
	const char *what = atomic_load(&phase);
	unsigned now = atomic_load(&moves);

	(void) signo;
	if (now != before) {
		before = now;
		alarm((unsigned int) limit);
		return;
	}
	digits[0] = (char) ('0' + check.rank / 10 % 10);
	digits[1] = (char) ('0' + check.rank % 10);
	text[0] = 0;
	strncat(text, name, 60);
	strcat(text, ": rank ");
	strcat(text, digits);
	strcat(text, ": nothing moves any more, in ");
	strncat(text, what, 120);
	strcat(text, "\n");
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(4);
	_exit(3);
}

static void start(int argc, char **argv, const char *help, int count,
		  bool threads)
{
	int option, level, wrong = 0, asked;

	name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	check.count = count;
	check.multiple = threads;
	for (int i = 1; i < argc; i++)	/* before MPI_Init_thread, which needs it */
		check.multiple |= !strcmp(argv[i], "-m");
	asked = check.multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
	MPI_Init_thread(&argc, &argv, asked, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &check.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &check.ranks);
	opterr = check.rank == 0;
	while ((option = getopt(argc, argv, "n:s:j:t:mh")) != -1)
		switch (option) {
		case 'n': check.count = atoi(optarg); break;
		case 's': check.seed = (uint32_t) strtoul(optarg, NULL, 0); break;
		case 'j': check.threads = atoi(optarg); break;
		case 't': limit = atoi(optarg); break;
		case 'm': break;
		case 'h': leave(0, help, count); break;
		default: wrong = 1;
		}
	if (wrong || optind < argc || check.count < 1 || check.threads < 1 ||
	    limit < 0)
		leave(2, help, count);
	if (level < asked)
		check_fail("this MPI offers thread level %d, not %d", level,
			   asked);
	signal(SIGALRM, on_alarm);
	alarm((unsigned int) limit);
}

void check_start(int argc, char **argv, const char *help, const char *of,
		 int count)
{
	unit = of;
	start(argc, argv, help, count, false);
}

void check_start_threads(int argc, char **argv, const char *help,
			 const char *of, int count)
{
	unit = of;
	start(argc, argv, help, count, true);
}

void check_phase(const char *what)
{
	atomic_store(&phase, what);
	moved();
}

void check_fail(const char *format, ...)
{
	char text[400];
	va_list args;

	if (atomic_fetch_add(&failures, 1) >= SHOWN)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s: rank %d: %s: %s\n", name, check.rank,
		atomic_load(&phase), text);
}

int check_finish(void)
{
	int mine = atomic_load(&failures), all = 0;

	check_phase("the end");
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (check.rank == 0)
		printf("%s: %d ranks, %s, %d %s, seed %u: %s\n", name,
		       check.ranks, check.multiple ? "threads" : "single",
		       check.count, unit, check.seed, all ? "WRONG" : "correct");
	fflush(stdout);
	MPI_Finalize();
	return all != 0;
}

uint32_t check_mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352d;
	x ^= x >> 15;
	x *= 0x846ca68b;
	return x ^ x >> 16;
}

uint32_t check_random(uint32_t *state)
{
	return check_mix(*state += 0x9e3779b9);
}

uint32_t check_key(int from, int to, int tag, int number)
{
	uint32_t key = check_mix((uint32_t) from + 1);

	key = check_mix(key + (uint32_t) to);
	key = check_mix(key + (uint32_t) tag);
	return check_mix(key + (uint32_t) number);
}

int check_random_len(uint32_t *state, int max)
{
	uint32_t r = check_random(state), below = (uint32_t) max;

	if (r % 10 < 6)
		below = below < 256 ? below : 256;
	else if (r % 10 < 9)
		below = below < 16384 ? below : 16384;
	return (int) (r / 16 % below);
}

void check_fill(void *buf, size_t len, uint32_t key)
{
	unsigned char *p = buf;

	moved();
	for (size_t i = 0; i < len; i++)
		p[i] = (unsigned char) (key + i * 31 + (i >> 8));
}

void check_poison(void *buf, size_t len)
{
	memset(buf, 0xa5, len);
}

bool check_bytes(const void *buf, size_t len, uint32_t key, const char *what)
{
	const unsigned char *p = buf;

	moved();
	for (size_t i = 0; i < len; i++) {
		unsigned char want = (unsigned char) (key + i * 31 + (i >> 8));

		if (p[i] == want)
			continue;
		check_fail("%s: byte %zu of %zu is %#x, not %#x", what, i, len,
			   p[i], want);
		return false;
	}
	return true;
}

bool check_status(const MPI_Status *status, int source, int tag, int bytes)
{
	int count;

	moved();
	MPI_Get_count(status, MPI_BYTE, &count);
	if ((source < 0 || status->MPI_SOURCE == source) &&
	    (tag < 0 || status->MPI_TAG == tag) &&
	    (bytes < 0 || count == bytes))
		return true;
	check_fail("status of source %d tag %d, %d bytes; not %d, %d, %d",
		   status->MPI_SOURCE, status->MPI_TAG, count, source, tag,
		   bytes);
	return false;
}

void *check_alloc(size_t len)
{
	void *p = malloc(len ? len : 1);

	if (!p) {
		fprintf(stderr, "%s: no memory for %zu bytes\n", name, len);
		MPI_Abort(MPI_COMM_WORLD, 4);
	}
	return p;
}
