/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The transports of this build. No other file above the back ends names one.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "xport/xport.h"

#include <string.h>

#include "xport/backends.h"

const struct tagrv_xport_ops *const tagrv_xports[] = {
	&tagrv_shm_ops,
#ifdef HAVE_VERBS
	&tagrv_verbs_ops,
#endif
	NULL,
};

const struct tagrv_xport_ops *tagrv_xport_self(void)
{
	return &tagrv_loop_ops;
}

const struct tagrv_xport_ops *tagrv_xport_local(void)
{
	return &tagrv_shm_ops;
}

int tagrv_xport_join(struct tagrv_device *const *devs, size_t cnt,
		     struct tagrv_device **dev)
{
	return tagrv_multi_join(devs, cnt, dev);
}

/* Names that FI_TAGRV_TRANSPORTS may have, whether or not they are built in. */
static const char *const names[] = { "shm", "verbs" };

static const char *skip(const char *text, const char *set)
{
	return text + strspn(text, set);
}

/* Returns the next name of the list and sets its length; NULL at the end. */
static const char *next_name(const char *list, size_t *len)
{
	list = skip(list, ", ");
	*len = strcspn(list, ", ");
	return *len ? list : NULL;
}

static bool is_same(const char *name, size_t len, const char *other)
{
	return strlen(other) == len && !strncmp(name, other, len);
}

bool tagrv_xport_is_wanted(const struct tagrv_params *params,
			   const struct tagrv_xport_ops *ops)
{
	const char *pos = params->transports;
	bool any = false;
	size_t len;

	for (; (pos = next_name(pos, &len)); pos += len) {
		if (is_same(pos, len, ops->name))
			return true;
		any = true;
	}
	return !any;
}

bool tagrv_xport_find_unknown(const struct tagrv_params *params,
			      const char **name, size_t *len)
{
	const char *pos = params->transports;

	for (; (pos = next_name(pos, len)); pos += *len) {
		bool known = false;

		for (size_t i = 0; i < TAGRV_ARRAY_SIZE(names); i++)
			known |= is_same(pos, *len, names[i]);
		if (!known) {
			*name = pos;
			return true;
		}
	}
	return false;
}
