/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An environment without any job, also where the tests run under a launcher.
 */
#ifndef FABTESTS_UNIT_AUTH_AUTH_ENVIRONMENT_H
#define FABTESTS_UNIT_AUTH_AUTH_ENVIRONMENT_H

#include <stdlib.h>

static inline void forget_jobs(void)
{
	unsetenv("FI_TAGRV_JOB_KEY");
	unsetenv("OMPI_MCA_orte_precondition_transports");
	unsetenv("PMIX_NAMESPACE");
	unsetenv("SLURM_HET_JOB_ID");
	unsetenv("SLURM_PACK_JOB_ID");
	unsetenv("SLURM_JOB_ID");
}

#endif
