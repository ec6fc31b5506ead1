/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * param.c: defaults, ranges, and warnings about values that are not used.
 *
 * The parameters are read from the environment of the test's own process.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <rdma/fabric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/param.h"
#include "unit/core/core_log.h"

static struct tagrv_params params;

static void set_up(void)
{
	char name[64];

	for (size_t i = 0; tagrv_param_name(i); i++) {
		snprintf(name, sizeof(name), "FI_TAGRV_%s",
			 tagrv_param_name(i));
		unsetenv(name);
	}
	core_log_warnings();
	tagrv_param_define();
	cr_redirect_stderr();
}

static void read_with(const char *name, const char *value)
{
	setenv(name, value, 1);
	tagrv_param_read(&params);
}

/* Counts the lines logged since the test began. */
static unsigned warnings(char *text, size_t len)
{
	FILE *file = cr_get_redirected_stderr();
	unsigned lines = 0;
	size_t got;

	fflush(stderr);
	got = fread(text, 1, len - 1, file);
	text[got] = '\0';
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	return lines;
}

TestSuite(param, .init = set_up, .timeout = 20);

Test(param, defaults_are_those_of_the_help_texts)
{
	static const struct {
		const char *name;
		long long value;
	} known[] = {
		{ "EAGER_MAX", offsetof(struct tagrv_params, eager_max) },
		{ "MAX_OPS", offsetof(struct tagrv_params, max_ops) },
		{ "MAX_RECVS", offsetof(struct tagrv_params, max_recvs) },
		{ "READ_SEGMENT", offsetof(struct tagrv_params, read_segment) },
		{ "READ_DEPTH", offsetof(struct tagrv_params, read_depth) },
		{ "RX_BUFS", offsetof(struct tagrv_params, rx_bufs) },
		{ "TX_BUFS", offsetof(struct tagrv_params, tx_bufs) },
		{ "SQ_DEPTH", offsetof(struct tagrv_params, sq_depth) },
		{ "INLINE", offsetof(struct tagrv_params, inline_max) },
		{ "SIGNAL_EVERY", offsetof(struct tagrv_params, signal_every) },
	};

	tagrv_param_read(&params);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(known); i++) {
		size_t value, at = 0;
		const char *def;

		while (strcmp(tagrv_param_name(at), known[i].name))
			at++;
		def = strstr(tagrv_param_help(at), "(default: ");
		cr_assert_not_null(def, "%s", known[i].name);
		memcpy(&value, (char *) &params + known[i].value,
		       sizeof(value));
		cr_expect_eq(strtoull(def + 10, NULL, 10), value, "%s",
			     known[i].name);
	}
}

Test(param, other_defaults)
{
	tagrv_param_read(&params);
	cr_expect_str_empty(params.devices);
	cr_expect_str_empty(params.iface);
	cr_expect(params.srq);
	cr_expect_str_empty(params.transports);
	cr_expect_eq(params.gid_index, -1);
	cr_expect_eq(params.qp_timeout, 17);
	cr_expect_eq(params.qp_retry, 6);
	cr_expect_eq(params.connect_timeout, 30);
	cr_expect_eq(params.close_timeout, 5);
}

Test(param, every_parameter_has_a_help_text_with_its_default)
{
	size_t cnt = 0;

	for (; tagrv_param_name(cnt); cnt++) {
		cr_assert_not_null(tagrv_param_help(cnt));
		cr_expect_not_null(strstr(tagrv_param_help(cnt), "(default: "),
				   "%s", tagrv_param_name(cnt));
	}
	cr_expect_gt(cnt, 0);
	cr_expect_null(tagrv_param_help(cnt));
}

Test(param, legal_values_are_used_without_warning)
{
	char text[4096];

	setenv("FI_TAGRV_EAGER_MAX", "64", 1);
	setenv("FI_TAGRV_INLINE", "0", 1);
	setenv("FI_TAGRV_READ_SEGMENT", "0x40000000", 1);
	setenv("FI_TAGRV_GID_INDEX", "3", 1);
	setenv("FI_TAGRV_SRQ", "no", 1);
	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	setenv("FI_TAGRV_DEVICES", "mlx5_0,mlx5_1:2", 1);
	tagrv_param_read(&params);
	cr_expect_eq(params.eager_max, 64);
	cr_expect_eq(params.inline_max, 0);
	cr_expect_eq(params.read_segment, 1 << 30);
	cr_expect_eq(params.gid_index, 3);
	cr_expect_not(params.srq);
	cr_expect_str_eq(params.transports, "verbs");
	cr_expect_str_eq(params.devices, "mlx5_0,mlx5_1:2");
	cr_expect_eq(warnings(text, sizeof(text)), 0, "%s", text);
}

Test(param, too_large_becomes_the_maximum_with_one_warning)
{
	char text[4096];

	read_with("FI_TAGRV_EAGER_MAX", "65537");
	cr_expect_eq(params.eager_max, 65536);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_EAGER_MAX is 65537"));
	cr_expect_not_null(strstr(text, "64 to 65536"));
}

Test(param, too_small_becomes_the_minimum_with_one_warning)
{
	char text[4096];

	read_with("FI_TAGRV_QP_TIMEOUT", "0");
	cr_expect_eq(params.qp_timeout, 1);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_QP_TIMEOUT"));
}

Test(param, negative_sizes_are_small_not_huge)
{
	char text[4096];

	read_with("FI_TAGRV_EAGER_MAX", "-5");
	cr_expect_eq(params.eager_max, 64);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "is -5"));
}

Test(param, huge_sizes_are_the_maximum)
{
	read_with("FI_TAGRV_MAX_OPS", "99999999999999999999999");
	cr_expect_eq(params.max_ops, 1048575);
	read_with("FI_TAGRV_MAX_OPS", "4294967360");
	cr_expect_eq(params.max_ops, 1048575);
}

Test(param, infinite_retry_is_not_possible)
{
	char text[4096];

	read_with("FI_TAGRV_QP_RETRY", "7");
	cr_expect_eq(params.qp_retry, 6);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_QP_RETRY is 7"), "%s", text);
}

Test(param, values_too_large_for_an_int_are_not_truncated)
{
	char text[4096];

	read_with("FI_TAGRV_CONNECT_TIMEOUT", "4294967326");
	cr_expect_eq(params.connect_timeout, 3600);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "is 4294967326,"), "%s", text);
}

Test(param, no_number_leaves_the_default_with_one_warning)
{
	static const char *const wrong[] = { "abc", "16K", "", "1 2", "0x" };
	char text[4096];

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(wrong); i++) {
		read_with("FI_TAGRV_EAGER_MAX", wrong[i]);
		cr_expect_eq(params.eager_max, 8192, "'%s'", wrong[i]);
		read_with("FI_TAGRV_QP_RETRY", wrong[i]);
		cr_expect_eq(params.qp_retry, 6, "'%s'", wrong[i]);
	}
	cr_expect_eq(warnings(text, sizeof(text)), 2, "%s", text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_QP_RETRY is 'abc', which is "
				  "no number: 6 is used"), "%s", text);
}

Test(param, a_wrong_boolean_leaves_the_default_with_one_warning)
{
	char text[4096];

	read_with("FI_TAGRV_SRQ", "perhaps");
	cr_expect(params.srq);
	read_with("FI_TAGRV_SRQ", "never");
	cr_expect(params.srq);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_SRQ is 'perhaps'"), "%s",
			   text);
	read_with("FI_TAGRV_SRQ", "off");
	cr_expect_not(params.srq);
}

Test(param, long_text_is_cut_with_one_warning)
{
	char value[300], text[4096];

	memset(value, 'x', sizeof(value));
	value[299] = '\0';
	read_with("FI_TAGRV_IFACE", value);
	cr_expect_eq(strlen(params.iface), sizeof(params.iface) - 1);
	cr_expect_eq(warnings(text, sizeof(text)), 1, "%s", text);
	cr_expect_not_null(strstr(text, "FI_TAGRV_IFACE"));
	value[sizeof(params.iface) - 1] = '\0';
	read_with("FI_TAGRV_IFACE", value);
	cr_expect_str_eq(params.iface, value);
}

Test(param, each_read_uses_the_current_environment)
{
	read_with("FI_TAGRV_READ_DEPTH", "9");
	cr_expect_eq(params.read_depth, 9);
	unsetenv("FI_TAGRV_READ_DEPTH");
	tagrv_param_read(&params);
	cr_expect_eq(params.read_depth, 4);
}

Test(param, values_and_where_they_come_from)
{
	char text[64];
	size_t at = 0;

	setenv("FI_TAGRV_READ_DEPTH", "9", 1);
	setenv("FI_TAGRV_SRQ", "off", 1);
	setenv("FI_TAGRV_GID_INDEX", "-1", 1);
	setenv("FI_TAGRV_IFACE", "eth7", 1);
	tagrv_param_read(&params);
	for (; tagrv_param_name(at); at++) {
		const char *name = tagrv_param_name(at), *want = NULL;

		tagrv_param_value(at, &params, text, sizeof(text));
		if (!strcmp(name, "READ_DEPTH"))
			want = "9";
		else if (!strcmp(name, "SRQ"))
			want = "no";
		else if (!strcmp(name, "GID_INDEX"))
			want = "-1";
		else if (!strcmp(name, "IFACE"))
			want = "eth7";
		cr_expect_str_eq(tagrv_param_source(at),
				 want ? "environment" : "default", "%s", name);
		if (want)
			cr_expect_str_eq(text, want, "%s", name);
	}
}

Test(param, a_secret_is_not_shown)
{
	char text[64];
	size_t at = 0;

	unsetenv("FI_TAGRV_JOB_KEY");
	cr_expect_null(tagrv_param_job_key());
	read_with("FI_TAGRV_JOB_KEY", "a secret of some length");
	cr_expect_str_eq(tagrv_param_job_key(), "a secret of some length");
	while (strcmp(tagrv_param_name(at), "JOB_KEY"))
		at++;
	tagrv_param_value(at, &params, text, sizeof(text));
	cr_expect_str_eq(text, "not shown");
	cr_expect_str_eq(tagrv_param_source(at), "environment");
	cr_expect_null(memmem(&params, sizeof(params), "a secret", 8));
}
