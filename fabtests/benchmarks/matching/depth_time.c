/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Measures one point of match_depth: a queue of a given length, warmed up, then
 *
 *   warm       blocks of requests one after the other, as in a loop that does
 *              nothing else
 *   disturbed  single requests; before each a buffer larger than the second-level
 *              cache is read, as an application would do; several make a sample
 *
 * The result is the median, because other programs may use the processor. A sample
 * has several requests, because some classes may cost more than others. The cost of
 * the clock is subtracted. The queue keeps its length: removed entries are put back.
 */
#include "depth.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "benchmarks/clock.h"
#include "core/compiler.h"

enum { BLOCK = 256, BLOCK_MIN = 8, SAMPLES = 1000, SAMPLES_MIN = 5, WARM_MIN = 64 };

struct run {
	const struct depth_point *point;
	void	*self;
	uint64_t random;
	struct depth_request reqs[BLOCK];
};

static struct depth_conf conf;
static double seconds_per_tick;
static uint64_t clock_cost;		/* ticks of reading it twice */
static char *trash;
static int counters[2] = { -1, -1 };	/* instructions, lines */

/* ---- clock ---- */

/* Reads the clock when all earlier instructions have ended and no later one has begun. */
static uint64_t ticks(void)
{
	uint64_t now;

#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_lfence();
#endif
	now = clock_ticks();
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_lfence();
#endif
	return now;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t cnt)
{
	qsort(values, cnt, sizeof(*values), compare);
	return cnt % 2 ? values[cnt / 2] :
			 (values[cnt / 2 - 1] + values[cnt / 2]) / 2;
}

static uint64_t measure_clock(void)
{
	double values[SAMPLES];

	for (int i = 0; i < SAMPLES; i++) {
		uint64_t start = ticks();

		values[i] = (double) (ticks() - start);
	}
	return (uint64_t) median(values, SAMPLES);
}

static double seconds_since(uint64_t start)
{
	uint64_t past = ticks() - start;

	return (double) (past > clock_cost ? past - clock_cost : 0) *
	       seconds_per_tick;
}

/* ---- counters of the processor ---- */

static int open_counter(uint32_t type, uint64_t config, int group)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.disabled = group < 0,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int) syscall(SYS_perf_event_open, &attr, 0, -1, group, 0);
}

static void close_counters(void)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(counters); i++) {
		if (counters[i] >= 0)
			close(counters[i]);
		counters[i] = -1;
	}
}

static void open_counters(void)
{
	counters[0] = open_counter(PERF_TYPE_HARDWARE,
				   PERF_COUNT_HW_INSTRUCTIONS, -1);
	if (counters[0] >= 0)
		counters[1] = open_counter(PERF_TYPE_HW_CACHE,
			PERF_COUNT_HW_CACHE_L1D |
			PERF_COUNT_HW_CACHE_OP_READ << 8 |
			PERF_COUNT_HW_CACHE_RESULT_MISS << 16, counters[0]);
	if (counters[1] < 0)
		close_counters();
}

bool depth_counters_work(void)
{
	return counters[1] >= 0;
}

static double read_counter(int fd, unsigned ops)
{
	uint64_t value;

	if (read(fd, &value, sizeof(value)) != sizeof(value))
		return -1;
	return (double) value / ops;
}

/* ---- requests ---- */

static void next_request(struct run *run, struct depth_request *req)
{
	const struct depth_point *p = run->point;
	uint32_t number = 1 + (uint32_t) (depth_random(&run->random) >> 32) %
			      p->length;

	depth_request_make(req, p->side, p->classes, number,
			   depth_random(&run->random));
}

/* Returns the number of wrong answers. */
static __attribute__((noinline)) unsigned
do_requests(const struct depth_point *p, void *self,
	    const struct depth_request *reqs, unsigned cnt)
{
	const struct depth_subject *subject = p->subject;
	unsigned wrong = 0;

	if (p->side == DEPTH_POSTED) {
		for (unsigned i = 0; i < cnt; i++) {
			const struct depth_request *r = &reqs[i];

			wrong += subject->match(self, r->peer, r->tag) !=
				 r->number;
			subject->post(self, &r->want, r->number);
		}
	} else {
		for (unsigned i = 0; i < cnt; i++) {
			const struct depth_request *r = &reqs[i];

			wrong += subject->claim(self, &r->want) != r->number;
			subject->arrive(self, r->peer, r->tag, r->number);
		}
	}
	return wrong;
}

/* Seconds for all of them. */
static double time_requests(struct run *run, unsigned cnt)
{
	const struct depth_point *p = run->point;
	uint64_t start = ticks();
	unsigned wrong = do_requests(p, run->self, run->reqs, cnt);
	double seconds = seconds_since(start);

	if (wrong)
		depth_die("%s, %s, %u classes, %u queued: %u of %u answers are "
			  "wrong", p->subject->name, depth_side_names[p->side],
			  p->classes, p->length, wrong, cnt);
	return seconds;
}

static double block(struct run *run, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		next_request(run, &run->reqs[i]);
	return time_requests(run, cnt);
}

static void fill(struct run *run)
{
	const struct depth_point *p = run->point;
	struct depth_request r;

	run->self = p->subject->open(p->length);
	if (!run->self)
		depth_die("out of memory for %u entries", p->length);
	for (uint32_t number = 1; number <= p->length; number++) {
		depth_request_make(&r, p->side, p->classes, number,
				   depth_random(&run->random));
		if (p->side == DEPTH_POSTED)
			p->subject->post(run->self, &r.want, number);
		else
			p->subject->arrive(run->self, r.peer, r.tag, number);
	}
}

/*
 * How many requests warm a structure up. A structure that learns must have got many
 * requests of every class and sender, and have found most entries.
 */
static unsigned warm_requests(const struct depth_point *p)
{
	return WARM_MIN + (p->subject->learns ? 2 * p->length +
			   16 * DEPTH_PEERS * p->classes : 0);
}

/* Warms up as far as time allows. Returns the seconds of one request. */
static double warm_up(struct run *run)
{
	bool learns = run->point->subject->learns;
	unsigned wanted = warm_requests(run->point), done = 0;
	double limit = (learns ? 100 : 1) * conf.seconds, all = 0, last = 0;

	while (done < wanted && (done < 2 || all < limit)) {
		last = block(run, 1);
		all += last;
		done++;
	}
	return last;
}

/* ---- results ---- */

static double measure_warm(struct run *run, double once)
{
	double values[SAMPLES], spent = 0;
	double fits = conf.seconds / 20 / (once + 1e-9);
	unsigned cnt = fits > BLOCK ? BLOCK :
		       fits < BLOCK_MIN ? BLOCK_MIN : (unsigned) fits;
	size_t samples = 0;

	while (samples < SAMPLES &&
	       (samples < SAMPLES_MIN || spent < conf.seconds)) {
		double seconds = block(run, cnt);

		spent += seconds;
		values[samples++] = seconds / cnt;
	}
	return median(values, samples) * 1e9;
}

static void disturb(void)
{
	for (size_t i = 0; i < conf.evict; i += TAGRV_CACHE_LINE)
		((volatile char *) trash)[i]++;
}

static double measure_cold(struct run *run)
{
	double values[SAMPLES];
	uint64_t start = ticks();
	size_t samples = 0;

	while (samples < SAMPLES && (samples < SAMPLES_MIN ||
				     seconds_since(start) < conf.seconds)) {
		double sum = 0;

		for (int i = 0; i < BLOCK_MIN; i++) {
			disturb();
			sum += block(run, 1);
		}
		values[samples++] = sum / BLOCK_MIN;
	}
	return median(values, samples) * 1e9;
}

/* Switching the counters on and off costs few instructions compared with a block. */
static void count(struct run *run, struct depth_cost *cost, unsigned blocks,
		  unsigned cnt, bool cold)
{
	if (!depth_counters_work())
		return;
	ioctl(counters[0], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
	for (unsigned i = 0; i < blocks; i++) {
		for (unsigned j = 0; j < cnt; j++)
			next_request(run, &run->reqs[j]);
		if (cold)
			disturb();
		ioctl(counters[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
		do_requests(run->point, run->self, run->reqs, cnt);
		ioctl(counters[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	}
	cost->instructions = read_counter(counters[0], blocks * cnt);
	cost->lines = read_counter(counters[1], blocks * cnt);
}

void depth_measure(const struct depth_point *point, bool wanted[DEPTH_CACHES],
		   struct depth_cost cost[DEPTH_CACHES])
{
	struct run run = { .point = point, .random = conf.seed };
	double once;

	for (int i = 0; i < DEPTH_CACHES; i++)
		cost[i] = (struct depth_cost) { -1, -1, -1 };
	fill(&run);
	once = warm_up(&run);
	if (wanted[DEPTH_WARM]) {
		cost[DEPTH_WARM].ns = measure_warm(&run, once);
		count(&run, &cost[DEPTH_WARM], 1,
		      once * BLOCK < conf.seconds ? BLOCK : SAMPLES_MIN, false);
	}
	if (wanted[DEPTH_COLD]) {
		cost[DEPTH_COLD].ns = measure_cold(&run);
		count(&run, &cost[DEPTH_COLD], SAMPLES_MIN, 1, true);
	}
	point->subject->close(run.self);
}

/* Exported by name: valgrind is told to count inside it. */
unsigned match_depth_counted(struct depth_point *point, void *self,
			     const struct depth_request *reqs, unsigned cnt);

__attribute__((noinline)) unsigned
match_depth_counted(struct depth_point *point, void *self,
		    const struct depth_request *reqs, unsigned cnt)
{
	return do_requests(point, self, reqs, cnt);
}

void depth_count_only(const struct depth_point *point, uint32_t ops, bool cold)
{
	struct depth_point copy = *point;
	struct run run = { .point = &copy, .random = conf.seed };
	unsigned wrong = 0, cnt;

	fill(&run);
	for (unsigned i = warm_requests(point); i; i--)
		(void) block(&run, 1);
	for (; ops; ops -= cnt) {
		cnt = cold ? 1 : TAGRV_MIN(ops, BLOCK);
		for (unsigned i = 0; i < cnt; i++)
			next_request(&run, &run.reqs[i]);
		if (cold)
			disturb();
		wrong += match_depth_counted(&copy, run.self, run.reqs, cnt);
	}
	if (wrong)
		depth_die("%u answers are wrong", wrong);
	copy.subject->close(run.self);
}

void depth_time_init(const struct depth_conf *wanted)
{
	conf = *wanted;
	trash = malloc(conf.evict + 1);
	if (!trash)
		depth_die("no memory to disturb the caches with");
	memset(trash, 1, conf.evict + 1);
	seconds_per_tick = clock_seconds_per_tick();
	clock_cost = measure_clock();
	open_counters();
}

void depth_time_fini(void)
{
	close_counters();
	free(trash);
}
