/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cases of the functional tests as a module. tagrv_functional_devices loads a copy of
 * it for each rank, so that each has variables of its own in one process.
 */
#include "cases/cases.h"
#include "framework/runner_priv.h"
#include "rank_module.h"

#include <string.h>

static const struct test_case *const tables[] = { RANK_MODULE_CASES };

__attribute__((visibility("default")))
const struct test_case *const *rank_module_tables(size_t *cnt)
{
	*cnt = sizeof(tables) / sizeof(tables[0]);
	return tables;
}

__attribute__((visibility("default")))
void rank_module_run(const char *name, struct test *t)
{
	rank_enter(t);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct test_case *c = tables[i]; c->name; c++)
			if (!strcmp(c->name, name))
				c->run(t);
	run_phase("exiting");
}
