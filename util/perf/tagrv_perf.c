/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * tagrv_perf: latency, bandwidth and message rate, over any provider of libfabric (perf.h has
 * the drawing). Called by its other name, tagrv_pingpong, it takes other options and prints other
 * lines (pingpong/).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oob.h"
#include "options.h"
#include "run.h"
#include "serve.h"
#include "show/results.h"

/* Nothing measured is a failure; a test that a provider cannot run is none. */
static int status_of(const struct perf_results *res)
{
	if (!res->row_cnt)
		fprintf(stderr, "%s: nothing was measured (fi_info -l lists the providers; "
			"FI_PROVIDER_PATH is where those are that are not installed)\n",
			program_invocation_short_name);
	return res->row_cnt && !res->failures ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static struct perf_results res;
	struct perf_options opt;
	uint64_t session = 0;
	int status;

	if (!strcmp(program_invocation_short_name, "tagrv_pingpong"))
		pingpong_parse(&opt, argc, argv);
	else
		options_parse(&opt, argc, argv);
	if (opt.server)
		return serve(&opt);
	if (opt.plot)
		plot_check(opt.plot);
	res.opt = &opt;
	if (gethostname(res.here, sizeof(res.here) - 1))
		strcpy(res.here, "?");
	memcpy(res.there, res.here, sizeof(res.there));
	if (opt.host)
		session = serve_session(&opt, res.there);
	run_all(&res, session);
	status = status_of(&res);
	results_print(&res);
	if (opt.plot && res.row_cnt && plot_draw(&res))
		status = EXIT_FAILURE;
	results_end(&res);
	return status;
}
