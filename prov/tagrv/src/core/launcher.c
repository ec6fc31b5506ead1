/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Local ranks: see launcher.h.
 */
#include "core/launcher.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/compiler.h"

/*
 * A launcher may itself have been started by a batch system, whose variables all
 * processes then have alike: those of batch systems come last. PMIX_RANK and PMI_RANK
 * are ranks within the job.
 */
static const struct {
	const char *rank, *procs;
} names[] = {
	{ "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },	/* hydra: MPICH, Intel MPI */
	{ "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE" },
	{ "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE" },
	{ "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE" },
	{ "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE" },
	{ "FLUX_TASK_LOCAL_ID", "" },
	{ "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE" },
};

/*
 * Open MPI takes of n adapters that are alike the one at the place (rank modulo n) in the
 * list that it gets. Where each process got another order, two processes with two adapters
 * would take the same one. It is there if its own launcher or PMIx is: other libraries for
 * which PMIx is common sort adapters by name, and do not mind the order.
 */
static bool is_open_mpi(char *(*get)(const char *name))
{
	return get("OMPI_COMM_WORLD_LOCAL_RANK") || get("PMIX_RANK");
}

/* A number and nothing behind it; else -1. */
static long read_number(const char *text)
{
	char *end;
	long value;

	if (!text)
		return -1;
	value = strtol(text, &end, 10);
	return end == text || *end || value < 0 || value > INT_MAX ? -1 : value;
}

struct tagrv_local_rank tagrv_launcher_rank(char *(*get)(const char *name))
{
	struct tagrv_local_rank local = { .spreads = is_open_mpi(get) };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(names); i++) {
		long rank = read_number(get(names[i].rank));
		long procs = read_number(get(names[i].procs));

		if (rank < 0)
			continue;
		local.rank = (unsigned) rank;
		local.procs = procs > rank ? (unsigned) procs : 0;
		local.name = names[i].rank;
		break;
	}
	return local;
}
