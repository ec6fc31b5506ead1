/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Local ranks by the variables of launchers.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/launcher.h"

static const char *const *environment;	/* name, value, ..., NULL */

static char *get(const char *name)
{
	for (const char *const *at = environment; *at; at += 2)
		if (!strcmp(*at, name))
			return (char *) at[1];
	return NULL;
}

static const struct {
	const char *environment[9];
	unsigned rank, procs;
	const char *name;
	bool	spreads;
} cases[] = {
	{ { NULL }, 0, 0, NULL, false },
	{ { "OMPI_COMM_WORLD_LOCAL_RANK", "3", "OMPI_COMM_WORLD_LOCAL_SIZE", "4" }, 3, 4,
	  "OMPI_COMM_WORLD_LOCAL_RANK", true },
	{ { "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2", "PMI_RANK", "9" }, 1, 2,
	  "MPI_LOCALRANKID", false },
	{ { "SLURM_LOCALID", "5", "SLURM_PROCID", "17" }, 5, 0, "SLURM_LOCALID", false },
	{ { "SLURM_LOCALID", "0", "OMPI_COMM_WORLD_LOCAL_RANK", "2" }, 2, 0,
	  "OMPI_COMM_WORLD_LOCAL_RANK", true },	/* mpirun in a batch script */
	{ { "PMIX_RANK", "3", "PMI_RANK", "3" }, 0, 0, NULL, true },	/* not local */
	{ { "PMIX_RANK", "9", "SLURM_LOCALID", "1" }, 1, 0, "SLURM_LOCALID", true },
	{ { "MPI_LOCALRANKID", "x", "SLURM_LOCALID", "1" }, 1, 0, "SLURM_LOCALID", false },
	{ { "SLURM_LOCALID", "-1" }, 0, 0, NULL, false },
	{ { "SLURM_LOCALID", "" }, 0, 0, NULL, false },
	{ { "PMI_LOCAL_RANK", "2", "PMI_LOCAL_SIZE", "2" }, 2, 0, "PMI_LOCAL_RANK", false },
	{ { "FLUX_TASK_LOCAL_ID", "6" }, 6, 0, "FLUX_TASK_LOCAL_ID", false },
};

Test(launcher, local_rank_by_the_first_variable_that_says_it, .timeout = 5)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tagrv_local_rank local;

		environment = cases[i].environment;
		local = tagrv_launcher_rank(get);
		cr_expect_eq(local.rank, cases[i].rank, "case %zu", i);
		cr_expect_eq(local.procs, cases[i].procs, "case %zu", i);
		cr_expect_eq(local.spreads, cases[i].spreads, "case %zu", i);
		if (cases[i].name)
			cr_expect_str_eq(local.name, cases[i].name, "case %zu", i);
		else
			cr_expect_null(local.name, "case %zu", i);
	}
}
