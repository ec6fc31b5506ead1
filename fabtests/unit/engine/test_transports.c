/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whole endpoints, each with shared memory and a (fake) RDMA device: which of the
 * two a connection takes, and that messages match whichever way they come.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_VERBS
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/engine/ends_calls.h"

#define LARGE		(1 << 20)

static void start(void)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	tagrv_param_define();
	fake_verbs_start(&config);
}

TestSuite(transports, .init = start, .fini = fake_verbs_stop, .timeout = 60);

static char out[2][LARGE], in[2][LARGE];

static void fill(char *buf, char what)
{
	for (size_t i = 0; i < LARGE; i++)
		buf[i] = (char) (what + i % 101);
}

/* A small and a large message each way, both sides beginning at once. */
static void talk(struct end ends[2])
{
	static const size_t sizes[] = { 8, LARGE };
	fi_addr_t addr[2] = { know(&ends[0], &ends[1]), know(&ends[1], &ends[0]) };

	for (size_t s = 0; s < 2; s++) {
		for (int i = 0; i < 2; i++) {
			fill(out[i], (char) (i + (int) s));
			memset(in[i], 0, LARGE);
			post(&ends[i], in[i], LARGE, s);
			submit(&ends[i], addr[i], out[i], sizes[s], s);
		}
		for (int i = 0; i < 4; i++)
			await(&ends[i % 2], ends, 2);
		cr_assert(!memcmp(in[0], out[1], sizes[s]));
		cr_assert(!memcmp(in[1], out[0], sizes[s]));
	}
}

static void expect_way(const char *a, const char *b, const char *want)
{
	struct end ends[2];

	open_end(&ends[0], a);
	open_end(&ends[1], b);
	talk(ends);
	cr_assert_str_eq(way(&ends[0]), want);
	cr_assert_str_eq(way(&ends[1]), want);
	close_end(&ends[0]);
	close_end(&ends[1]);
}

Test(transports, shared_memory_is_preferred)
{
	expect_way("shm,verbs", "", "shm");
	expect_way("verbs,shm", "shm,verbs", "shm");
}

Test(transports, who_lacks_shared_memory_is_reached_by_the_device)
{
	expect_way("shm,verbs", "verbs", "verbs");
	expect_way("verbs", "shm,verbs", "verbs");
	expect_way("verbs", "verbs", "verbs");
}

/* Two endpoints share what is hardly enough for one. */
Test(transports, little_memory_that_may_be_locked_is_enough)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	config.memlock = 65536;
	for (int srq = 0; srq < 2; srq++) {
		config.max_srq = srq;
		fake_verbs_stop();
		fake_verbs_start(&config);
		expect_way("verbs", "verbs", "verbs");
	}
}

/* Nobody listens any more at names that processes of this host were told. */
static void be_elsewhere(void)
{
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_un sun;
		socklen_t len = sizeof(sun);
		int other;

		if (getsockname(fd, (struct sockaddr *) &sun, &len) ||
		    sun.sun_family != AF_UNIX ||
		    memcmp(sun.sun_path, "\0tagrv-", 7))
			continue;
		other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_eq(dup3(other, fd, O_CLOEXEC), fd);
		close(other);
	}
}

/* A copied machine has the same identity, but other sockets. */
Test(transports, copies_of_a_host_meet_by_the_device)
{
	struct end ends[2];

	open_end(&ends[0], "");
	open_end(&ends[1], "");
	be_elsewhere();
	talk(ends);
	cr_assert_str_eq(way(&ends[0]), "verbs");
	cr_assert_str_eq(way(&ends[1]), "verbs");
	close_end(&ends[0]);
	close_end(&ends[1]);
}

/* Each with all others; both sides of a pair begin at once. */
Test(transports, peers_of_one_host_need_no_queue_pairs)
{
	enum { ENDS = 8, PEERS = ENDS - 1 };
	static uint64_t texts[ENDS], got[ENDS][PEERS];
	struct end ends[ENDS];
	unsigned before;

	for (int i = 0; i < ENDS; i++)
		open_end(&ends[i], "");
	before = fake_verbs_count().created_qps;
	for (int i = 0; i < ENDS; i++) {
		texts[i] = (uint64_t) i;
		for (int n = 0; n < PEERS; n++)
			post(&ends[i], &got[i][n], sizeof(got[i][n]), 5);
		for (int n = 1; n < ENDS; n++)
			submit(&ends[i], know(&ends[i], &ends[(i + n) % ENDS]),
			       &texts[i], sizeof(texts[i]), 5);
	}
	for (int i = 0; i < ENDS; i++) {
		uint64_t sum = 0;

		for (int n = 0; n < 2 * PEERS; n++)
			await(&ends[i], ends, ENDS);
		for (int n = 0; n < PEERS; n++)
			sum += got[i][n];
		cr_expect_eq(sum, ENDS * PEERS / 2 - texts[i], "one of each");
		cr_expect_str_eq(way(&ends[i]), "shm");
	}
	cr_expect_eq(fake_verbs_count().created_qps - before, 0, "%u for %d pairs",
		     fake_verbs_count().created_qps - before, ENDS * PEERS / 2);
	for (int i = 0; i < ENDS; i++)
		close_end(&ends[i]);
}

/* Messages of two peers that come two ways meet the same receives. */
Test(transports, one_matcher_for_all_ways)
{
	struct end ends[3];
	unsigned got[2] = { 0 };
	char buf[64][8];
	fi_addr_t addr;

	open_end(&ends[0], "");
	open_end(&ends[1], "");
	open_end(&ends[2], "verbs");
	for (int i = 0; i < 64; i++)
		post(&ends[0], buf[i], 8, 5);
	for (int i = 1; i < 3; i++) {
		addr = know(&ends[i], &ends[0]);
		for (uint64_t n = 0; n < 32; n++) {
			uint64_t text = n << 8 | (uint64_t) i;

			submit(&ends[i], addr, memcpy(&out[i - 1][n * 8], &text,
						      8), 8, 5);
		}
	}
	for (int i = 0; i < 64; i++) {
		struct tagrv_comp comp = await(&ends[0], ends, 3);
		uint64_t text;

		memcpy(&text, comp.context, 8);
		cr_assert_eq(text >> 8, got[(text & 0xff) - 1]++,
			     "in order of each sender");
	}
	cr_assert_eq(got[0] + got[1], 64);
	cr_assert_str_eq(way(&ends[1]), "shm");
	cr_assert_str_eq(way(&ends[2]), "verbs");
	for (int i = 0; i < 3; i++)
		close_end(&ends[i]);
}
#endif
