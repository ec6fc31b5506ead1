/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Defines the provider object, to which log lines and parameters belong.
 */
#include "core/log.h"

struct fi_provider tagrv_prov = {
	.version = FI_VERSION(0, 1),
	.name = "tagrv",
};
