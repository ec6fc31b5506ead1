/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many connections at once over devices whose commands take 50 ms, simulated. The number of
 * processes is that of the environment variable TAGRV_STORM, times what is usual, and
 * TAGRV_STORM_NODES is a number of nodes of 256 processes.
 */
#include "unit/wireup/storm_world.h"

TestSuite(conn_storm, .timeout = 600);

static unsigned scale(unsigned usual, unsigned most)
{
	const char *text = getenv("TAGRV_STORM");
	unsigned factor = text ? (unsigned) atoi(text) : 1;

	return TAGRV_MIN(usual * TAGRV_MAX(factor, 1u), most);
}

static void report(const char *what, uint64_t begin)
{
	if (getenv("TAGRV_STORM"))
		fprintf(stderr, "%s: %u processes, %.1f s, told to wait %u times, rejected %u, "
			"claims %u, silent at once %u, machines at once %zu\n", what, storm.cnt,
			(double) (storm.now - begin) / 1000, storm.told, storm.rejected,
			storm.claims, storm.most_half_open, storm.most_machines);
}

static void check(void)
{
	cr_assert_eq(storm.resets, 0, "a socket that waits was reset at %lu ms",
		     (unsigned long) storm.now);
	cr_assert_eq(storm.given_up, 0, "given up at %lu ms", (unsigned long) storm.now);
}

/* Every endpoint connects to the first one, which needs longer than its peers' deadline. */
static void all_to_one(unsigned peers, unsigned full)
{
	uint64_t begin;

	storm_begin(peers + 1, full);
	begin = storm.now;
	for (unsigned i = 1; i <= peers; i++)
		storm_want(i, 0);
	storm_run(begin + UINT64_C(3000) * COMMAND * peers);
	check();
	cr_assert_eq(storm.procs[0].sendables, (int) peers);
	for (unsigned i = 1; i <= peers; i++)
		cr_assert_eq(storm.procs[i].sendables, 1, "endpoint %u", i);
	cr_assert_gt(storm.now - begin, UINT64_C(2) * COMMAND * peers);
	report("all to one", begin);
	storm_end();
}

Test(conn_storm, endpoints_beyond_the_deadline_are_told_to_wait)
{
	all_to_one(scale(400, 10000), UINT32_MAX);
}

/* More than may wait: the others come again, and nobody starves. */
Test(conn_storm, endpoints_beyond_the_queue_come_again)
{
	all_to_one(scale(400, 10000), 100);
}

Test(conn_storm, every_process_connects_to_every_other)
{
	unsigned procs = scale(32, 1024);
	uint64_t begin;

	storm_begin(procs, 256);
	begin = storm.now;
	storm_want_all();
	storm_run(begin + UINT64_C(3000) * COMMAND * procs);
	check();
	for (unsigned i = 0; i < procs; i++)
		cr_assert_eq(storm.procs[i].sendables, (int) procs - 1, "process %u", i);
	report("all to all", begin);
	storm_end();
}

/*
 * The start of a job over several nodes, as one of them sees it: every process of it connects
 * to every other one of the job, and is wanted by it.
 */
Test(conn_storm, node_connects_to_every_process_of_the_job, .timeout = 36000)
{
	const char *text = getenv("TAGRV_STORM_NODES");
	unsigned nodes = text ? (unsigned) atoi(text) : 4, each = text ? 256 : 8;
	uint64_t begin, command = text ? 1 : COMMAND;

	cr_assert(nodes && nodes * each < 60000);
	storm_begin_nodes(nodes, each, 256, command);
	begin = storm.now;
	storm_want_all();
	storm_run(begin + UINT64_C(3000) * command * storm.cnt);
	check();
	for (unsigned i = 0; i < storm.cnt; i++)
		cr_assert_eq(storm.procs[i].sendables, (int) (i < each ? storm.cnt - 1 : each),
			     "process %u: %d", i, storm.procs[i].sendables);
	report("a node to all", begin);
	storm_end();
}
