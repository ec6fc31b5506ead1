/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Names of jobs: see auth_job.h.
 */
#include "auth/auth_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS	"0123456789"

static const struct variable {
	const char *name;
	enum tagrv_auth_kind kind;
} variables[] = {
	{ "OMPI_MCA_orte_precondition_transports", TAGRV_AUTH_OPEN_MPI },
	{ "PMIX_NAMESPACE", TAGRV_AUTH_PMIX },
	/* Parts of a heterogeneous job have numbers of their own, and this one. */
	{ "SLURM_HET_JOB_ID", TAGRV_AUTH_SLURM },
	{ "SLURM_PACK_JOB_ID", TAGRV_AUTH_SLURM },
	{ "SLURM_JOB_ID", TAGRV_AUTH_SLURM },
};

/*
 * Processes that a job spawns get a namespace of their own. PRRTE appends @2, @3,
 * ...; Open MPI 4 counts in the lower 16 bits of a number.
 */
static void cut_spawn_number(char *name)
{
	char *at = strrchr(name, '@');
	unsigned long number;

	if (at && at[1] && !at[1 + strspn(at + 1, DIGITS)]) {
		*at = '\0';
		return;
	}
	if (strlen(name) > 10 || name[strspn(name, DIGITS)])
		return;
	number = strtoul(name, NULL, 10);
	if (number > 0xffff)
		snprintf(name, TAGRV_AUTH_NAME_MAX, "%lu", number >> 16);
}

bool tagrv_auth_job_name(char name[TAGRV_AUTH_NAME_MAX],
			 enum tagrv_auth_kind *kind)
{
	const struct variable *var = variables;
	const char *text = NULL;

	for (; var < variables + TAGRV_ARRAY_SIZE(variables); var++) {
		text = getenv(var->name);
		if (text && *text)
			break;
	}
	if (!text || !*text)
		return false;
	snprintf(name, TAGRV_AUTH_NAME_MAX, "%s", text);
	if (var->kind == TAGRV_AUTH_PMIX)
		cut_spawn_number(name);
	*kind = var->kind;
	return true;
}
