/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * auth_job.c: names of jobs in variables as launchers set them.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "auth/auth_job.h"
#include "unit/auth/auth_environment.h"

static char name[TAGRV_AUTH_NAME_MAX];
static enum tagrv_auth_kind kind;

TestSuite(auth_job, .init = forget_jobs);

static const char *name_of(const char *variable, const char *value)
{
	setenv(variable, value, 1);
	return tagrv_auth_job_name(name, &kind) ? name : NULL;
}

Test(auth_job, without_a_launcher_there_is_no_name)
{
	cr_expect_not(tagrv_auth_job_name(name, &kind));
	cr_expect_null(name_of("PMIX_NAMESPACE", ""));
	cr_expect_null(name_of("SLURM_JOB_ID", ""));
}

Test(auth_job, the_first_variable_counts)
{
	cr_expect_str_eq(name_of("SLURM_JOB_ID", "17"), "17");
	cr_expect_eq(kind, TAGRV_AUTH_SLURM);
	cr_expect_str_eq(name_of("SLURM_PACK_JOB_ID", "16"), "16");
	cr_expect_str_eq(name_of("SLURM_HET_JOB_ID", "15"), "15");
	cr_expect_eq(kind, TAGRV_AUTH_SLURM);
	cr_expect_str_eq(name_of("PMIX_NAMESPACE", "slurm.pmix.17.0"),
			 "slurm.pmix.17.0");
	cr_expect_eq(kind, TAGRV_AUTH_PMIX);
	cr_expect_str_eq(name_of("OMPI_MCA_orte_precondition_transports",
				 "4400f8e4914a0fba-69b61001687bea84"),
			 "4400f8e4914a0fba-69b61001687bea84");
	cr_expect_eq(kind, TAGRV_AUTH_OPEN_MPI);
	cr_expect_str_eq(name_of("OMPI_MCA_orte_precondition_transports", ""),
			 "slurm.pmix.17.0", "an empty variable is none");
}

/* As Open MPI 4.1.4 named a job and the processes that it spawned. */
Test(auth_job, spawned_processes_are_of_the_same_job)
{
	char first[TAGRV_AUTH_NAME_MAX];

	strcpy(first, name_of("PMIX_NAMESPACE", "1402077185"));
	cr_expect_str_eq(name_of("PMIX_NAMESPACE", "1402077186"), first);
	cr_expect_str_neq(name_of("PMIX_NAMESPACE", "518848513"), first);

	strcpy(first, name_of("PMIX_NAMESPACE", "prterun-host@7-1234@1"));
	cr_expect_str_eq(name_of("PMIX_NAMESPACE", "prterun-host@7-1234@12"), first);
	cr_expect_str_neq(name_of("PMIX_NAMESPACE", "prterun-host@7-1235@1"), first);
	cr_expect_str_eq(first, "prterun-host@7-1234");
}

Test(auth_job, other_names_are_taken_as_they_are)
{
	static const char *const same[] = {
		"1", "65535", "12345678901", "host@", "host@1a", "@x", "a",
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(same); i++)
		cr_expect_str_eq(name_of("PMIX_NAMESPACE", same[i]), same[i]);
}

Test(auth_job, a_long_name_is_cut)
{
	char value[2 * TAGRV_AUTH_NAME_MAX];

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	cr_assert_not_null(name_of("PMIX_NAMESPACE", value));
	cr_expect_eq(strlen(name), TAGRV_AUTH_NAME_MAX - 1);
}
