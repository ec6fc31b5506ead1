/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which variable of the environment is a misspelt parameter.
 */
#include "core/misnamed.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "core/compiler.h"
#include "core/log.h"
#include "core/param.h"

#define PREFIX		"FI_TAGRV_"
#define NAME_MAX_LEN	40u	/* longer ones are no misspelt parameters */

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	return TAGRV_MIN(TAGRV_MIN(a, b), c);
}

/*
 * Levenshtein's distance. row[j] is that of the letters of a so far from the first j letters
 * of b (Wagner and Fischer, "The string-to-string correction problem", 1974).
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_LEN + 1];
	size_t len = strlen(b);

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (; *a; a++) {
		unsigned before = row[0]++;

		for (size_t j = 1; j <= len; j++) {
			bool same = toupper((unsigned char) *a) == b[j - 1];
			unsigned cost = least(row[j] + 1, row[j - 1] + 1, before + !same);

			before = row[j];
			row[j] = cost;
		}
	}
	return row[len];
}

const char *tagrv_misnamed_nearest(const char *name)
{
	unsigned best = UINT_MAX;
	const char *nearest = NULL, *other;

	if (strlen(name) > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; (other = tagrv_param_name(i)) != NULL; i++) {
		unsigned cost = strlen(other) <= NAME_MAX_LEN ? distance(name, other) : UINT_MAX;

		if (cost < best) {
			best = cost;
			nearest = other;
		}
	}
	return best <= strlen(name) / 3 ? nearest : NULL;
}

static bool is_param(const char *name)
{
	const char *other;

	for (size_t i = 0; (other = tagrv_param_name(i)) != NULL; i++)
		if (!strcmp(name, other))
			return true;
	return false;
}

static void check(const char *name)
{
	const char *nearest;

	if (is_param(name))
		return;
	nearest = tagrv_misnamed_nearest(name);
	if (nearest)
		tagrv_warn("%s%s is no parameter and has no effect; is %s%s meant?\n", PREFIX, name,
			   PREFIX, nearest);
	else
		tagrv_warn("%s%s is no parameter and has no effect; tagrv_info lists those that "
			   "there are\n", PREFIX, name);
}

void tagrv_misnamed_warn(const char *const *env)
{
	const size_t prefix = strlen(PREFIX);

	for (; env && *env; env++) {
		const char *end = strchr(*env, '=');
		char name[128];
		size_t len;

		if (strncmp(*env, PREFIX, prefix) || !end)
			continue;
		len = (size_t) (end - *env) - prefix;
		if (len >= sizeof(name))
			continue;
		memcpy(name, *env + prefix, len);
		name[len] = '\0';
		check(name);
	}
}
