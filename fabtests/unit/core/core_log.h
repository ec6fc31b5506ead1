/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Has the provider's warnings written to standard error.
 */
#ifndef FABTESTS_UNIT_CORE_CORE_LOG_H
#define FABTESTS_UNIT_CORE_CORE_LOG_H

#include <rdma/fabric.h>
#include <stdlib.h>

/* fi_getinfo sets libfabric's log level; that of another provider, which reads no parameter of ours. */
static inline void core_log_warnings(void)
{
	struct fi_info *info = NULL;

	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_PROV", "tagrv", 1);
	setenv("FI_PROVIDER", "tcp", 1);
	fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info);
	fi_freeinfo(info);
}

#endif
