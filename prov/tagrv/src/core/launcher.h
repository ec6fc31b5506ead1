/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the launcher of a job says, in the environment, of this process and its host.
 */
#ifndef TAGRV_CORE_LAUNCHER_H
#define TAGRV_CORE_LAUNCHER_H

#include <stdbool.h>

struct tagrv_local_rank {
	unsigned rank;		/* among the processes of this host, from 0 on */
	unsigned procs;		/* processes of this host, 0: not known */
	const char *name;	/* the variable that says the rank, NULL: none does */
	bool	spreads;	/* the library above takes another entry of a list for each
				   process by itself: lists must be the same for all */
};

/* get: as getenv(). Knows Open MPI, MPICH, Intel MPI, MVAPICH, PALS, Flux, JSM, Slurm. */
struct tagrv_local_rank tagrv_launcher_rank(char *(*get)(const char *name));

#endif
