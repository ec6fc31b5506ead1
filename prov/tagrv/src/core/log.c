/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The provider object that log lines and parameters are bound to.
 */
#include "core/log.h"

struct fi_provider tagrv_prov = {
	.version = FI_VERSION(0, 1),
	.name = "tagrv",
};
