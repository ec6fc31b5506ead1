/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The name of the job, as its launcher tells it to every process.
 *
 *   kind      variable                              what is taken of it
 *   OPEN_MPI  OMPI_MCA_orte_precondition_transports all
 *   PMIX      PMIX_NAMESPACE                        without the number of a spawn
 *   SLURM     SLURM_HET_JOB_ID, SLURM_PACK_JOB_ID,  all: not the step, whose processes
 *             SLURM_JOB_ID                          may connect to another step's
 *
 * The first one that is set counts. Each is the same in all processes of a job, also in
 * those that it starts by MPI_Comm_spawn. None is a secret: mpirun's value for Open MPI
 * is random, but under srun Open MPI makes it of the job's number. MPICH's mpirun sets
 * no such variable.
 */
#ifndef TAGRV_AUTH_AUTH_JOB_H
#define TAGRV_AUTH_AUTH_JOB_H

#include <stdbool.h>

#include "auth/auth_key.h"

#define TAGRV_AUTH_NAME_MAX	256	/* bytes, the rest of a name does not count */

/* False: no launcher has named the job. */
bool tagrv_auth_job_name(char name[TAGRV_AUTH_NAME_MAX],
			 enum tagrv_auth_kind *kind);

#endif
