/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * select.c: the table of protocols by size, compared with a scan of every size.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "select/select.h"

#define LIMIT	((size_t) 65536)

static const struct tagrv_xport_attr shm_like = {
	.caps = TAGRV_XPORT_GET,
	.latency = 0.1e-6,
	.bandwidth = 11e9,
	.copy_bandwidth = 4.5e9,
	.overhead = 0.03e-6,
	.get_overhead = 0.6e-6,
	.reg_overhead = 0.05e-6,
};

static const struct tagrv_select_conf automatic;
static struct tagrv_select table;

static void build(const struct tagrv_select_conf *conf,
		  const struct tagrv_xport_attr *attr, size_t limit)
{
	tagrv_select_build(&table, conf, attr, limit);
}

/* Checks what holds for every table. */
static void check_shape(size_t limit)
{
	size_t last = 0;

	cr_assert(table.cnt >= 2 && table.cnt <= TAGRV_SELECT_RANGES);
	cr_assert_eq(table.range[0].proto, TAGRV_PROTO_EAGER);
	cr_assert_neq(table.range[table.cnt - 1].proto, TAGRV_PROTO_EAGER);
	cr_assert_eq(table.range[table.cnt - 1].last, TAGRV_MAX_MSG);
	for (size_t i = 0; i < table.cnt; i++) {
		cr_assert(!i || table.range[i].last > last,
			  "range %zu is empty", i);
		last = table.range[i].last;
		if (table.range[i].proto == TAGRV_PROTO_EAGER)
			cr_assert_leq(last, limit);
	}
}

static enum tagrv_proto proto_of(size_t len)
{
	return tagrv_select_find(&table, len)->proto;
}

static bool rndv_wins(const struct tagrv_xport_attr *attr, double percent,
		      size_t len)
{
	double best = INFINITY;

	for (int p = TAGRV_PROTO_RNDV_READ; p < TAGRV_PROTO_RNDV_END; p++)
		if (p != TAGRV_PROTO_RNDV_WRITE)
			best = TAGRV_MIN(best, tagrv_select_estimate(p, attr,
								     len));
	return best <= (1 + percent / 100) *
	       tagrv_select_estimate(TAGRV_PROTO_EAGER, attr, len);
}

/* Returns the first size at which a rendezvous is faster, by trying all; limit + 1: none. */
static size_t scan(const struct tagrv_xport_attr *attr, double percent,
		   size_t limit)
{
	size_t len = 1;

	while (len <= limit && !rndv_wins(attr, percent, len))
		len++;
	return len;
}

Test(select, estimates_are_those_of_the_header)
{
	const struct tagrv_xport_attr a = {
		.latency = 1, .bandwidth = 4, .copy_bandwidth = 2,
		.overhead = 0.5, .get_overhead = 3, .reg_overhead = 0.25,
		.reg_growth = 0.125, .max_packet = 16,
	};

	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_EAGER, &a, 8), 5.5);
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_READ, &a, 8),
		     2 * (0.25 + 8 * 0.125) + 4 + 1.5 + 3 + 2);
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_WRITE, &a, 8),
		     2 * (0.25 + 8 * 0.125) + 5 + 1.5 + 3 + 2);
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_COPY, &a, 8),
		     4 + 2 + 8 * (0.5 / 16 + 0.5));
}

/* A put may be faster than a get, and is chosen then; it takes no less than nothing. */
Test(select, a_measured_put_may_be_faster)
{
	struct tagrv_xport_attr a = shm_like;
	double get = tagrv_select_estimate(TAGRV_PROTO_RNDV_READ, &a, 50000);

	a.caps |= TAGRV_XPORT_PUT;
	build(&automatic, &a, LIMIT);
	cr_expect_eq(proto_of(50000), TAGRV_PROTO_RNDV_READ);
	a.put_more = -0.2e-6;
	cr_expect_float_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_WRITE, &a, 50000),
			   get - 0.1e-6, 1e-15);
	build(&automatic, &a, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(50000), TAGRV_PROTO_RNDV_WRITE);
	a.put_more = -10;
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_WRITE, &a, 0), 0);
	a.put_more = NAN;
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_WRITE, &a, 0), -1);
}

/* Not before and not behind the size that was measured, whatever that is. */
Test(select, a_measured_pipeline_begins_where_it_was_measured)
{
	static const double from[] = { 20000, 100000, 1e6, 3e9 };
	struct tagrv_xport_attr a = shm_like;
	struct tagrv_select_conf conf = { .thresh = 1 };

	a.reg_piece = 524288;
	for (size_t i = 0; i < sizeof(from) / sizeof(*from); i++) {
		size_t first = (size_t) from[i];

		a.pipe_from = from[i];
		build(&conf, &a, LIMIT);
		check_shape(LIMIT);
		cr_expect_eq(proto_of(first - 2), TAGRV_PROTO_RNDV_READ, "%zu", first);
		cr_expect_eq(proto_of(first + 2), TAGRV_PROTO_RNDV_PIPE, "%zu", first);
		cr_expect_eq(proto_of(TAGRV_MAX_MSG), TAGRV_PROTO_RNDV_PIPE, "%zu", first);
	}
	/* Where copies are faster than both, the two meet all the same. */
	a.pipe_from = 50;
	cr_expect_float_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_PIPE, &a, 50),
			   tagrv_select_estimate(TAGRV_PROTO_RNDV_READ, &a, 50), 1e-15);
	a.pipe_from = 1e18;
	build(&conf, &a, LIMIT);
	cr_expect_eq(proto_of(TAGRV_MAX_MSG), TAGRV_PROTO_RNDV_READ);
}

/* The first piece has 4 bytes; then either moving or registering takes longer. */
Test(select, pipeline_hides_registrations)
{
	struct tagrv_xport_attr a = {
		.latency = 1, .bandwidth = 4, .copy_bandwidth = 2,
		.overhead = 0.5, .get_overhead = 3, .reg_overhead = 0.25,
		.reg_growth = 0.125, .reg_piece = 4,
	};
	double first = 2 * (0.25 + 4 * 0.125) + 6 + 2 + 3;

	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_PIPE, &a, 8),
		     first + 8 * (0.125 + (0.25 + 1 + 3) / 4));
	a.reg_overhead = a.overhead = a.get_overhead = 0;
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_PIPE, &a, 8),
		     2 * 4 * 0.125 + 6 + 8 * 0.25);
	a.reg_piece = 0;
	cr_expect_eq(tagrv_select_estimate(TAGRV_PROTO_RNDV_PIPE, &a, 8),
		     tagrv_select_estimate(TAGRV_PROTO_RNDV_READ, &a, 8) + 2);
}

/* Like an adapter: registering a byte takes longer than moving it. */
Test(select, pipeline_is_for_what_is_long_and_dear_to_register)
{
	struct tagrv_xport_attr a = {
		.caps = TAGRV_XPORT_GET | TAGRV_XPORT_PUT,
		.latency = 1e-6, .bandwidth = 12.5e9, .copy_bandwidth = 4e9,
		.overhead = 0.1e-6, .get_overhead = 0.3e-6,
		.reg_overhead = 2e-6, .reg_growth = 0.06e-9,
		.reg_piece = 524288, .max_packet = 8384,
	};

	build(&automatic, &a, 8192);
	check_shape(8192);
	/* Starts 65.01456 us later and takes 0.12 ns less per byte: equal at this size. */
	cr_expect_eq(proto_of(541780), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(proto_of(541796), TAGRV_PROTO_RNDV_PIPE);
	cr_expect_eq(proto_of(1 << 20), TAGRV_PROTO_RNDV_PIPE);
	cr_expect_eq(proto_of(1 << 30), TAGRV_PROTO_RNDV_PIPE);
	cr_expect_eq(tagrv_select_find(&table, 1 << 20)->reason,
		     TAGRV_SELECT_LIMIT);
	/* Without gets there is no pipeline. */
	a.caps = TAGRV_XPORT_PUT;
	build(&automatic, &a, 8192);
	cr_expect_eq(proto_of(1 << 30), TAGRV_PROTO_RNDV_WRITE);
	/* Registrations without cost need no pipeline. */
	a.caps = TAGRV_XPORT_GET;
	a.reg_overhead = a.reg_growth = 0;
	build(&automatic, &a, 8192);
	cr_expect_eq(proto_of(1 << 30), TAGRV_PROTO_RNDV_READ);
}

Test(select, the_threshold_is_where_the_curves_cross)
{
	size_t first = scan(&shm_like, 0, LIMIT);

	build(&automatic, &shm_like, LIMIT);
	check_shape(LIMIT);
	cr_assert(first > 1000 && first < 20000, "%zu", first);
	cr_expect_eq(proto_of(first - 1), TAGRV_PROTO_EAGER);
	cr_expect_eq(proto_of(first), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(tagrv_select_find(&table, first)->reason,
		     TAGRV_SELECT_FASTER);
}

Test(select, a_percentage_moves_it_down_and_says_so)
{
	struct tagrv_select_conf conf = { .perf_diff = 10 };
	size_t ten = scan(&shm_like, 10, LIMIT);
	size_t even = scan(&shm_like, 0, LIMIT);

	build(&conf, &shm_like, LIMIT);
	check_shape(LIMIT);
	cr_assert_lt(ten, even);
	cr_expect_eq(proto_of(ten - 1), TAGRV_PROTO_EAGER);
	cr_expect_eq(tagrv_select_find(&table, ten)->reason,
		     TAGRV_SELECT_NEAR);
	cr_expect_eq(tagrv_select_find(&table, even - 1)->reason,
		     TAGRV_SELECT_NEAR);
	cr_expect_eq(tagrv_select_find(&table, even)->reason,
		     TAGRV_SELECT_FASTER);
}

/* Attributes as measured on a busy machine. */
Test(select, auto_announces_nothing_that_can_be_injected)
{
	struct tagrv_select_conf conf = { .thresh = 100 };
	struct tagrv_xport_attr slow = shm_like;
	char text[160];

	slow.copy_bandwidth = 2e7;
	build(&automatic, &slow, LIMIT);
	check_shape(LIMIT);
	cr_assert(rndv_wins(&slow, 0, 100));
	cr_expect_eq(proto_of(TAGRV_INJECT_MAX), TAGRV_PROTO_EAGER);
	cr_expect_neq(proto_of(TAGRV_INJECT_MAX + 1), TAGRV_PROTO_EAGER);
	for (size_t i = 0; i < table.cnt; i++)
		if (table.range[i].last == TAGRV_INJECT_MAX)
			tagrv_select_describe(&table, i, &slow, text,
					      sizeof(text));
	cr_expect_not_null(strstr(text, "short enough"), "%s", text);
	cr_expect_eq(tagrv_select_all_eager(&table), TAGRV_INJECT_MAX);
	build(&automatic, &slow, 512);
	cr_expect_eq(proto_of(512), TAGRV_PROTO_EAGER);
	build(&conf, &slow, LIMIT);
	cr_expect_neq(proto_of(100), TAGRV_PROTO_EAGER, "asked for by name");
}

Test(select, the_limit_of_a_packet_holds_always)
{
	struct tagrv_select_conf conf = { .thresh = 50000 };

	build(&automatic, &shm_like, 1000);
	check_shape(1000);
	cr_expect_eq(proto_of(1000), TAGRV_PROTO_EAGER);
	cr_expect_eq(proto_of(1001), TAGRV_PROTO_RNDV_COPY);
	cr_expect_eq(proto_of(10000), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(tagrv_select_find(&table, 1001)->reason,
		     TAGRV_SELECT_LIMIT);
	build(&conf, &shm_like, 1000);
	check_shape(1000);
	cr_expect_eq(proto_of(1001), TAGRV_PROTO_RNDV_COPY);
}

Test(select, thresholds_in_bytes_are_used_unchanged)
{
	struct tagrv_select_conf conf = { .thresh = 777 };

	build(&conf, &shm_like, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(776), TAGRV_PROTO_EAGER);
	cr_expect_eq(proto_of(777), TAGRV_PROTO_RNDV_COPY);
	cr_expect_eq(tagrv_select_find(&table, 777)->reason,
		     TAGRV_SELECT_THRESH);
}

Test(select, curves_that_never_cross_use_the_fallback)
{
	struct tagrv_select_conf conf = { .fallback = 3000 };
	struct tagrv_xport_attr attr = shm_like;

	attr.copy_bandwidth = attr.bandwidth;
	build(&automatic, &attr, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(LIMIT), TAGRV_PROTO_EAGER);
	cr_expect_eq(table.range[0].reason, TAGRV_SELECT_FALLBACK);
	build(&conf, &attr, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(2999), TAGRV_PROTO_EAGER);
	cr_expect_neq(proto_of(3000), TAGRV_PROTO_EAGER);
	/* The fallback has no effect where the curves cross. */
	build(&conf, &shm_like, LIMIT);
	cr_expect_eq(proto_of(3000), TAGRV_PROTO_EAGER);
}

/* ---- which rendezvous ---- */

/* The rendezvous used without credit must have the least time of those possible. */
static void check_instead(const struct tagrv_xport_attr *attr, size_t limit)
{
	for (size_t len = 1; len <= limit; len++) {
		enum tagrv_proto proto = tagrv_select_no_credit(&table, len);
		double time = tagrv_select_estimate(proto, attr, len);

		cr_assert_neq(proto, TAGRV_PROTO_EAGER);
		for (int p = TAGRV_PROTO_RNDV_READ; p < TAGRV_PROTO_RNDV_END; p++)
			if (p != TAGRV_PROTO_RNDV_WRITE)
				cr_assert_leq(time, (1 + 1e-9) *
					tagrv_select_estimate(p, attr, len),
					"%zu", len);
	}
}

Test(select, without_credit_the_fastest_rendezvous_is_taken)
{
	char text[160];

	build(&automatic, &shm_like, 8192);
	check_instead(&shm_like, 8192);
	cr_expect_eq(tagrv_select_no_credit(&table, 0), TAGRV_PROTO_RNDV_COPY);
	cr_expect_eq(tagrv_select_no_credit(&table, 8), TAGRV_PROTO_RNDV_COPY);
	cr_expect_eq(tagrv_select_no_credit(&table, 8192), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(table.no_credit_cnt, 2);
	tagrv_select_describe_credit(&table, 1, &shm_like, text, sizeof(text));
	cr_expect_not_null(strstr(text, "without credit"), "%s", text);
	cr_expect_not_null(strstr(text, "get"), "%s", text);
	cr_expect_not_null(strstr(text, "to 8192"), "%s", text);
}

Test(select, the_parameter_leaves_one_rendezvous)
{
	struct tagrv_select_conf conf = { .rndv = TAGRV_PROTO_RNDV_WRITE };
	struct tagrv_xport_attr attr = shm_like;

	attr.caps |= TAGRV_XPORT_PUT;
	build(&conf, &attr, 8192);
	check_shape(8192);
	cr_expect_eq(proto_of(8193), TAGRV_PROTO_RNDV_WRITE);
	cr_expect_eq(tagrv_select_no_credit(&table, 8), TAGRV_PROTO_RNDV_WRITE);
	build(&automatic, &attr, 8192);
	cr_expect_eq(proto_of(100000), TAGRV_PROTO_RNDV_READ);
	/* The named rendezvous is not possible: ignored. */
	build(&conf, &shm_like, 8192);
	check_shape(8192);
	cr_expect_eq(proto_of(8193), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(tagrv_select_no_credit(&table, 8), TAGRV_PROTO_RNDV_COPY);
}

Test(select, every_protocol_can_be_forced)
{
	struct tagrv_xport_attr attr = shm_like;

	attr.caps |= TAGRV_XPORT_PUT;
	for (int i = TAGRV_PROTO_RNDV_READ; i < TAGRV_PROTO_RNDV_END; i++) {
		enum tagrv_proto p = (enum tagrv_proto) i;
		struct tagrv_select_conf conf = {
			.rndv = TAGRV_PROTO_RNDV_READ,
			.force = { { 0, SIZE_MAX, p } }, .force_cnt = 1,
		};

		build(&conf, &attr, LIMIT);
		cr_expect_eq(proto_of(1), p);
		cr_expect_eq(proto_of(LIMIT + 1), p);
	}
	attr.caps = 0;
	build(&automatic, &attr, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(LIMIT + 1), TAGRV_PROTO_RNDV_COPY);
}

Test(select, an_empty_message_is_eager_whatever_is_wanted)
{
	struct tagrv_select_conf conf = {
		.thresh = 1,
		.force = { { 0, SIZE_MAX, TAGRV_PROTO_RNDV_READ } },
		.force_cnt = 1,
	};

	build(&conf, &shm_like, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(0), TAGRV_PROTO_EAGER);
	cr_expect_eq(table.range[0].reason, TAGRV_SELECT_EMPTY);
	cr_expect_eq(proto_of(1), TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(table.cnt, 2);
}

Test(select, forced_ranges_are_obeyed_and_others_chosen)
{
	struct tagrv_select_conf conf = {
		.thresh = 100,
		.force = { { 10, 20, TAGRV_PROTO_RNDV_READ },
			   { 200, 300, TAGRV_PROTO_EAGER } },
		.force_cnt = 2,
	};

	build(&conf, &shm_like, LIMIT);
	check_shape(LIMIT);
	for (size_t len = 0; len < 1000; len++) {
		bool eager = len < 10 || (len >= 20 && len < 100) ||
			     (len >= 200 && len < 300);

		cr_assert_eq(proto_of(len) == TAGRV_PROTO_EAGER, eager,
			     "%zu", len);
	}
	cr_expect_eq(tagrv_select_find(&table, 15)->reason,
		     TAGRV_SELECT_FORCED);
}

Test(select, what_cannot_be_forced_is_chosen_and_told)
{
	struct tagrv_select_conf conf = {
		.force = { { 0, SIZE_MAX, TAGRV_PROTO_EAGER } },
		.force_cnt = 1,
	};

	build(&conf, &shm_like, LIMIT);
	check_shape(LIMIT);
	cr_expect_eq(proto_of(LIMIT), TAGRV_PROTO_EAGER);
	cr_expect_eq(tagrv_select_find(&table, LIMIT + 1)->reason,
		     TAGRV_SELECT_UNABLE);
}

Test(select, senseless_attributes_leave_limits_and_parameters)
{
	static const double odd[] = { 0, -1, NAN, INFINITY, -INFINITY };
	struct tagrv_select_conf conf = { .fallback = 500 };

	for (size_t field = 0; field < 8; field++) {
		for (size_t i = 0; i < TAGRV_ARRAY_SIZE(odd); i++) {
			struct tagrv_xport_attr a = shm_like;
			double *at[] = {
				&a.latency, &a.bandwidth, &a.copy_bandwidth,
				&a.overhead, &a.get_overhead, &a.reg_overhead,
				&a.reg_growth, &a.prep_overhead,
			};
			bool known;

			*at[field] = odd[i];
			build(&conf, &a, LIMIT);
			check_shape(LIMIT);
			known = tagrv_select_estimate(TAGRV_PROTO_EAGER, &a,
						      1) >= 0;
			if (!known)
				cr_expect_eq(table.range[0].last, 499);
		}
	}
	build(&automatic, &(struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET }, 8192);
	check_shape(8192);
	cr_expect_eq(table.range[0].last, 8192);
	cr_expect_eq(table.range[0].reason, TAGRV_SELECT_UNKNOWN);
}

Test(select, a_line_tells_sizes_times_and_reason)
{
	char text[160];

	build(&automatic, &shm_like, LIMIT);
	tagrv_select_describe(&table, 0, &shm_like, text, sizeof(text));
	cr_expect_not_null(strstr(text, "0 to "), "%s", text);
	cr_expect_not_null(strstr(text, "eager"), "%s", text);
	cr_expect_not_null(strstr(text, "0.13 us"), "%s", text);
	cr_expect_not_null(strstr(text, "the faster one"), "%s", text);
	tagrv_select_describe(&table, table.cnt - 1, &shm_like, text,
			      sizeof(text));
	cr_expect_not_null(strstr(text, "and more"), "%s", text);
	cr_expect_not_null(strstr(text, "longer than one packet"), "%s", text);
}

/* ---- any attributes ---- */

static unsigned seed;

/* Returns a random value from low to high, uniform by logarithm. */
static double spread(double low, double high)
{
	double part = (double) rand_r(&seed) / RAND_MAX;
	int doublings = 0;

	for (double value = low; value * 2 < high; value *= 2)
		doublings++;
	return ldexp(low * (1 + part), rand_r(&seed) % doublings);
}

static struct tagrv_xport_attr any_attr_of(unsigned run)
{
	seed = run;
	return (struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET,
		.latency = spread(1e-8, 1e-4),
		.bandwidth = spread(1e7, 1e11),
		.copy_bandwidth = spread(1e7, 1e11),
		.overhead = spread(1e-9, 1e-5),
		.get_overhead = rand_r(&seed) % 2 ? 0 : spread(1e-8, 1e-5),
		.reg_overhead = rand_r(&seed) % 2 ? 0 : spread(1e-8, 1e-4),
		.reg_growth = rand_r(&seed) % 2 ? 0 : spread(1e-12, 1e-9),
	};
}

Test(select, any_attributes_give_what_a_scan_gives, .timeout = 60)
{
	for (unsigned run = 1; run < 200; run++) {
		struct tagrv_xport_attr attr = any_attr_of(run);
		struct tagrv_select_conf conf = { .perf_diff = rand_r(&seed) % 20 };
		size_t limit = (size_t) spread(64, 65536);
		size_t first = scan(&attr, conf.perf_diff, limit);

		/* Messages that can be injected are never announced. */
		if (first <= TAGRV_INJECT_MAX)
			first = TAGRV_MIN(TAGRV_INJECT_MAX, limit) + 1;
		build(&conf, &attr, limit);
		check_shape(limit);
		check_instead(&attr, limit);
		/* Eager up to one size, and not beyond. */
		for (size_t len = 0; len <= limit + 100; len++)
			cr_assert_eq(proto_of(len) == TAGRV_PROTO_EAGER,
				     len < first, "run %u: %zu of %zu", run,
				     len, first);
	}
}

Test(select, a_worse_get_never_begins_earlier)
{
	for (unsigned run = 1; run < 2000; run++) {
		struct tagrv_xport_attr attr = any_attr_of(run), worse;
		size_t first;

		build(&automatic, &attr, LIMIT);
		first = tagrv_select_all_eager(&table);
		worse = attr;
		worse.get_overhead += spread(1e-8, 1e-5);
		build(&automatic, &worse, LIMIT);
		cr_assert_geq(tagrv_select_all_eager(&table), first, "run %u", run);
		worse = attr;
		worse.copy_bandwidth *= 2;
		build(&automatic, &worse, LIMIT);
		cr_assert_geq(tagrv_select_all_eager(&table), first, "run %u", run);
	}
}
