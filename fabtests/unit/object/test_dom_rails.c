/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which devices a domain joins, by tables of parameters and of launchers' variables.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "object/dom_rails.h"

static const char *env[8];	/* name, value, ... */

static char *get(const char *name)
{
	for (size_t i = 0; i + 1 < TAGRV_ARRAY_SIZE(env) && env[i]; i += 2)
		if (!strcmp(env[i], name))
			return (char *) env[i + 1];
	return NULL;
}

static const struct {
	const char *env[6];
	unsigned procs;
	const char *name;
} launchers[] = {
	{ { NULL }, 0, NULL },
	{ { "OMPI_COMM_WORLD_LOCAL_SIZE", "3" }, 3, "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ { "MPI_LOCALNRANKS", "2" }, 2, "MPI_LOCALNRANKS" },
	{ { "MPI_LOCALNRANKS", "2x" }, 0, NULL },
	{ { "MPI_LOCALNRANKS", "0" }, 0, NULL },
	{ { "MPI_LOCALNRANKS", "-1" }, 0, NULL },
	{ { "MPI_LOCALNRANKS", "" }, 0, NULL },
	{ { "MPI_LOCALNRANKS", "99999999999999999999" }, 0, NULL },
	/* mpirun within an allocation of Slurm: its own number counts */
	{ { "SLURM_TASKS_PER_NODE", "8", "OMPI_COMM_WORLD_LOCAL_SIZE", "1" }, 1,
	  "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ { "SLURM_NTASKS_PER_NODE", "5" }, 5, "SLURM_NTASKS_PER_NODE" },
	{ { "SLURM_TASKS_PER_NODE", "4(x2),3" }, 4, "SLURM_TASKS_PER_NODE" },
	{ { "SLURM_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "1" }, 4,
	  "SLURM_TASKS_PER_NODE" },
	{ { "SLURM_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "2" }, 3,
	  "SLURM_TASKS_PER_NODE" },
	{ { "SLURM_TASKS_PER_NODE", "4(x2),3", "SLURM_NODEID", "3" }, 0, NULL },
	{ { "SLURM_TASKS_PER_NODE", "2,4(x2),3", "SLURM_NODEID", "x" }, 4,
	  "SLURM_TASKS_PER_NODE" },
	{ { "SLURM_TASKS_PER_NODE", "4(x2" }, 0, NULL },
	{ { "SLURM_TASKS_PER_NODE", "4(y2)" }, 0, NULL },
	{ { "SLURM_TASKS_PER_NODE", "4(x0)" }, 0, NULL },
	{ { "SLURM_TASKS_PER_NODE", "4," }, 0, NULL },
	{ { "SLURM_STEP_TASKS_PER_NODE", "1", "SLURM_TASKS_PER_NODE", "16" }, 1,
	  "SLURM_STEP_TASKS_PER_NODE" },
};

Test(dom_rails, launchers_say_how_many_processes_there_are, .timeout = 5)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(launchers); i++) {
		const char *name = NULL;

		memset(env, 0, sizeof(env));
		memcpy(env, launchers[i].env, sizeof(launchers[i].env));
		cr_expect_eq(tagrv_dom_rails_procs(get, &name), launchers[i].procs,
			     "row %zu", i);
		cr_expect(launchers[i].name ? name &&
			  !strcmp(name, launchers[i].name) : !name, "row %zu", i);
	}
}

/* a, b, d, f are alike; c is InfiniBand, e is down. */
static const struct tagrv_device_desc descs[] = {
	{ .name = "a", .usable = true, .link_type = "Ethernet" },
	{ .name = "b", .usable = true, .link_type = "Ethernet" },
	{ .name = "c", .usable = true, .link_type = "InfiniBand" },
	{ .name = "d", .usable = true, .link_type = "Ethernet" },
	{ .name = "e", .usable = false, .link_type = "Ethernet" },
	{ .name = "f", .usable = true, .link_type = "Ethernet" },
	{ .name = "g", .usable = true, .link_type = "Ethernet" },
};

static const struct {
	const char *value;
	unsigned procs;
	const char *own, *rails;
	bool wrong;
} choices[] = {
	{ "1", 1, "a", "a", false },
	{ "2", 0, "a", "a+b", false },
	{ "3", 0, "a", "a+b+d", false },
	{ "3", 0, "f", "f+g+a", false },
	{ "4", 0, "b", "b+d+f+g", false },
	{ "9", 0, "a", "a+b+d+f", false },
	{ "2", 0, "c", "c", false },
	{ "2", 0, "zz", "zz", false },
	{ "auto", 0, "a", "a", false },
	{ "", 0, "a", "a", false },
	{ "", 1, "a", "a+b+d+f", false },
	{ "AUTO", 2, "d", "d+f", false },
	{ "", 3, "a", "a", false },
	{ "", 4, "a", "a", false },
	{ "", 9, "a", "a", false },
	{ "", 1, "c", "c", false },
	{ "a,b", 0, "a", "a+b", false },
	{ "a+b", 0, "b", "b+a", false },
	{ "g, f,d+b", 0, "b", "b+g+f+d", false },
	{ "a,a,b,b", 0, "a", "a+b", false },
	{ "a", 0, "a", "a", false },
	{ "b,d", 0, "a", "a", true },
	{ "a,zz,b", 0, "a", "a+b", true },
	{ "a,c", 0, "a", "a", true },
	{ "a,e", 0, "a", "a", true },
	{ "0", 0, "a", "a", true },
	{ "-1", 0, "a", "a", true },
	{ ",", 0, "a", "a", true },
};

Test(dom_rails, are_chosen_as_listed, .timeout = 5)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(choices); i++) {
		struct tagrv_dom_rails rails;
		char text[512] = "";

		tagrv_dom_rails_choose(choices[i].value, choices[i].procs, descs,
				       TAGRV_ARRAY_SIZE(descs), choices[i].own,
				       &rails);
		for (unsigned k = 0; k < rails.cnt; k++) {
			strcat(text, k ? "+" : "");
			strcat(text, rails.names[k]);
		}
		cr_expect_str_eq(text, choices[i].rails, "row %zu: %s, not %s", i,
				 text, choices[i].rails);
		cr_expect_eq(rails.wrong, choices[i].wrong, "row %zu", i);
		cr_expect(rails.why[0], "row %zu", i);
	}
}
