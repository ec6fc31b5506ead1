/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The transports of this build: the only file that names back ends.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "xport/xport.h"

const struct tagrv_xport_ops *const tagrv_xports[] = {
#ifdef HAVE_VERBS
	&tagrv_verbs_ops,
#endif
	NULL,
};
