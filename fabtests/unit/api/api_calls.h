/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The endpoint of a test file, opened and closed for each of its tests.
 */
#ifndef FABTESTS_UNIT_API_API_CALLS_H
#define FABTESTS_UNIT_API_API_CALLS_H

#include "unit/api/api_fixture.h"

static struct api api;

/* .init of suites that need a domain. */
static inline void api_set_up(void)
{
	api_init();
	api_open_domain(&api, NULL);
}

/* .fini: closes what is open. */
static inline void api_tear_down(void)
{
	api_close(&api);
}

#endif
