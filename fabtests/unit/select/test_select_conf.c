/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * select_conf.c: thresholds and forced ranges, from text.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/caught_log.h"
#include "core/limits.h"
#include "core/param.h"
#include "select/select.h"

static struct tagrv_select_conf conf;

static void read_thresh(const char *text)
{
	struct tagrv_params params = { .rndv_perf_diff = 1 };

	snprintf(params.rndv_thresh, sizeof(params.rndv_thresh), "%s", text);
	tagrv_select_conf_read(&conf, &params);
}

static void read_proto(const char *text)
{
	struct tagrv_params params = { .rndv_perf_diff = 1 };

	snprintf(params.proto, sizeof(params.proto), "%s", text);
	tagrv_select_conf_read(&conf, &params);
}

TestSuite(select_conf, .timeout = 20);

Test(select_conf, thresholds)
{
	static const struct {
		const char *text;
		size_t bytes;
	} known[] = {
		{ "", 0 }, { "auto", 0 }, { "AUTO", 0 }, { "0", 1 },
		{ "1", 1 }, { "4096", 4096 }, { "4k", 4096 }, { "4K", 4096 },
		{ "1m", 1 << 20 }, { "1g", 1 << 30 },
		{ "99999999999999999999g", TAGRV_MAX_MSG },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(known); i++) {
		read_thresh(known[i].text);
		cr_expect_eq(conf.thresh, known[i].bytes, "%s", known[i].text);
	}
	cr_expect_eq(conf.perf_diff, 1);
	cr_expect_eq(log_count("\n"), 0);
}

Test(select_conf, thresholds_that_are_none_are_told_once)
{
	static const char *const wrong[] = { "4x", "-5", "k", "4 k", "inf" };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(wrong); i++) {
		read_thresh(wrong[i]);
		cr_expect_eq(conf.thresh, 0, "%s", wrong[i]);
	}
	cr_expect_eq(log_count("FI_TAGRV_RNDV_THRESH is '4x', but"), 1);
	cr_expect_eq(log_count("\n"), 1);
}

Test(select_conf, ranges_are_taken)
{
	read_proto("eager:0-4k,get:4k-");
	cr_assert_eq(conf.force_cnt, 2);
	cr_expect_eq(conf.force[0].proto, TAGRV_PROTO_EAGER);
	cr_expect_eq(conf.force[0].from, 0);
	cr_expect_eq(conf.force[0].to, 4096);
	cr_expect_eq(conf.force[1].proto, TAGRV_PROTO_RNDV_READ);
	cr_expect_eq(conf.force[1].from, 4096);
	cr_expect_eq(conf.force[1].to, SIZE_MAX);
	read_proto("GET:-10");
	cr_assert_eq(conf.force_cnt, 1);
	cr_expect_eq(conf.force[0].from, 0);
	cr_expect_eq(conf.force[0].to, 10);
	cr_expect_eq(log_count("\n"), 0);
}

static const struct {
	const char *text, *said;
} mistakes[] = {
	{ "eagre:0-4k", "no such protocol at 'eagre:0-4k'" },
	{ "eager", "':' and a range are missing" },
	{ "eager:4k", "a range is written as" },
	{ "eager:0-4q", "this is no size" },
	{ "eager:4k-4k", "the range is empty" },
	{ "eager:0-4k,get:2k-", "overlaps one before at 'get:2k-'" },
	{ "eager:0-4k,", "a range is missing" },
	{ ",", "no such protocol" },
	{ "get:0-1,get:1-2,get:2-3,get:3-4,get:4-5,get:5-6,get:6-7,get:7-8,"
	  "get:8-9", "too many ranges at 'get:8-9'" },
};

/* A process logs the warning once, so each mistake has a process of its own. */
#define MISTAKE(n) \
	Test(select_conf, mistake_ ## n) \
	{ \
		read_proto(mistakes[n].text); \
		read_proto(mistakes[n].text); \
		cr_expect_eq(conf.force_cnt, 0); \
		cr_expect_eq(log_count(mistakes[n].said), 1); \
		cr_expect_eq(log_count("it is not used\n"), 1); \
	}

MISTAKE(0)
MISTAKE(1)
MISTAKE(2)
MISTAKE(3)
MISTAKE(4)
MISTAKE(5)
MISTAKE(6)
MISTAKE(7)
MISTAKE(8)

/* ---- rights of peers ---- */

static unsigned rights(uint32_t caps, const char *rndv, const char *proto)
{
	const struct tagrv_xport_attr attr = {
		.caps = caps,
		.latency = 1e-6,
		.bandwidth = 12e9,
		.copy_bandwidth = 4e9,
		.overhead = 0.1e-6,
		.reg_overhead = 2e-6,
	};
	struct tagrv_params params = { .rndv_perf_diff = 1 };
	struct tagrv_select_conf read;

	snprintf(params.rndv, sizeof(params.rndv), "%s", rndv);
	snprintf(params.proto, sizeof(params.proto), "%s", proto);
	tagrv_select_conf_read(&read, &params);
	return tagrv_select_rights(&read, &attr, 8192);
}

Test(select_conf, rights_follow_from_the_protocols)
{
	const uint32_t both = TAGRV_XPORT_GET | TAGRV_XPORT_PUT;

	cr_expect_eq(rights(both, "auto", ""), TAGRV_MEM_READ);
	cr_expect_eq(rights(both, "get", ""), TAGRV_MEM_READ);
	cr_expect_eq(rights(both, "pipeline", ""), TAGRV_MEM_READ);
	cr_expect_eq(rights(both, "put", ""), TAGRV_MEM_WRITE);
	cr_expect_eq(rights(both, "copy", ""), 0);
	cr_expect_eq(rights(both, "copy", "put:1g-"), TAGRV_MEM_WRITE);
	cr_expect_eq(rights(both, "put", "pipeline:1m-2m"),
		     TAGRV_MEM_WRITE | TAGRV_MEM_READ);
	/* Where no one can read, receivers ask for writes. */
	cr_expect_eq(rights(TAGRV_XPORT_PUT, "auto", ""), TAGRV_MEM_WRITE);
	cr_expect(rights(TAGRV_XPORT_GET, "put", "") & TAGRV_MEM_READ);
}
