/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Environment variables that look like parameters, and are none: a letter is missing or too
 * much, and the setting has no effect.
 */
#ifndef TAGRV_CORE_MISNAMED_H
#define TAGRV_CORE_MISNAMED_H

/*
 * Warns of each variable FI_TAGRV_* of env (strings NAME=VALUE, the last one NULL) that is no
 * parameter, and names the nearest one. Called once per load.
 */
void tagrv_misnamed_warn(const char *const *env);

/*
 * The parameter (without FI_TAGRV_, a static string) with the fewest letters to insert, delete
 * or replace to come from name, upper and lower case alike. NULL: it would have to
 * change in more than a third of its letters, so something else was meant.
 */
const char *tagrv_misnamed_nearest(const char *name);

#endif
