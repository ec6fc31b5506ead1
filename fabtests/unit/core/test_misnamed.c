/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Variables that look like parameters: the nearest one, and which are warned about.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "core/compiler.h"
#include "core/misnamed.h"
#include "core/param.h"
#include "unit/core/core_log.h"

/* In two pieces, since names that are no parameters are misspelt in any other file. */
#define NAMED(name)	"FI_TAGRV_" name

TestSuite(misnamed, .timeout = 30);

static void is_near(const char *name, const char *param)
{
	const char *nearest = tagrv_misnamed_nearest(name);

	cr_assert(nearest && !strcmp(nearest, param), "%s: %s", name, nearest ? nearest : "none");
}

Test(misnamed, nearest_parameter_is_found)
{
	is_near("TRANSPORT", "TRANSPORTS");
	is_near("TRANSPORTSS", "TRANSPORTS");
	is_near("EAGERMAX", "EAGER_MAX");
	is_near("EAGER_MAXX", "EAGER_MAX");
	is_near("DEVICE", "DEVICES");
	is_near("eager_max", "EAGER_MAX");
	is_near("JOBKEY", "JOB_KEY");
	is_near("SHM_CNA", "SHM_CMA");
}

Test(misnamed, something_else_has_none)
{
	static const char *const names[] = { "", "X", "XYZZY", "UNIVERSE_SIZE_OF_ALL", "A_NAME_THAT_IS_"
		"MUCH_LONGER_THAN_ANY_OF_THE_PARAMETERS" };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(names); i++)
		cr_assert_null(tagrv_misnamed_nearest(names[i]), "%s: %s", names[i],
			       tagrv_misnamed_nearest(names[i]));
}

Test(misnamed, each_parameter_is_its_own_nearest)
{
	const char *name;

	for (size_t i = 0; (name = tagrv_param_name(i)) != NULL; i++)
		is_near(name, name);
}

static const char *const env[] = {
	NAMED("TRANSPORT=shm"), NAMED("TRANSPORTS=shm"), NAMED("COLOUR_OF_LOGS=red"),
	"FI_TAGRVX=1", "FI_PROVIDER=tagrv", "PATH=/" NAMED("DEVICE=x"), NAMED("NOTHING"), NULL,
};

static size_t lines_with(const char *text, const char *wanted)
{
	size_t cnt = 0;

	while ((text = strstr(text, wanted)) != NULL) {
		text += strlen(wanted);
		cnt++;
	}
	return cnt;
}

Test(misnamed, each_is_warned_about_in_one_line)
{
	char text[2048];
	size_t got;

	core_log_warnings();
	cr_redirect_stderr();
	tagrv_misnamed_warn(env);
	tagrv_misnamed_warn(NULL);
	fflush(stderr);
	got = fread(text, 1, sizeof(text) - 1, cr_get_redirected_stderr());
	text[got] = '\0';
	cr_assert_eq(lines_with(text, "\n"), 2, "%s", text);
	cr_assert_eq(lines_with(text, NAMED("TRANSPORT") " is no parameter and has no effect; "
				"is FI_TAGRV_TRANSPORTS meant?\n"), 1, "%s", text);
	cr_assert_eq(lines_with(text, NAMED("COLOUR_OF_LOGS") " is no parameter and has no effect; "
				"tagrv_info lists"), 1, "%s", text);
}
