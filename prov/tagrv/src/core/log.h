/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Log lines of the provider.
 *
 *   tagrv_warn   something failed and the user must act; once per cause
 *   tagrv_info   at most once per object: what was opened, what was chosen
 *   tagrv_trace  per event, but never on the data path
 *
 * Lines begin in lower case, end with \n, have no "name=value" pairs, and are
 * written by the function that knows the cause.
 */
#ifndef TAGRV_CORE_LOG_H
#define TAGRV_CORE_LOG_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

/* The provider object; fi_prov_ini sets getinfo, fabric and cleanup. */
extern struct fi_provider tagrv_prov;

#define tagrv_warn(...)	FI_WARN(&tagrv_prov, FI_LOG_CORE, __VA_ARGS__)
#define tagrv_info(...)	FI_INFO(&tagrv_prov, FI_LOG_CORE, __VA_ARGS__)
#define tagrv_trace(...) FI_TRACE(&tagrv_prov, FI_LOG_CORE, __VA_ARGS__)

#endif
