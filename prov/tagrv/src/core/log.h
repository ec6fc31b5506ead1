/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Log lines bound to the provider object.
 *
 * warn: the user must act; info: once per object; trace: per event, never on
 * the data path. Lower case, no '=', one line per cause, where it is understood.
 */
#ifndef TAGRV_CORE_LOG_H
#define TAGRV_CORE_LOG_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

/* Defined in core/log.c; getinfo, fabric and cleanup are set by fi_prov_ini. */
extern struct fi_provider tagrv_prov;

#define tagrv_warn(...)	FI_WARN(&tagrv_prov, FI_LOG_CORE, __VA_ARGS__)
#define tagrv_info(...)	FI_INFO(&tagrv_prov, FI_LOG_CORE, __VA_ARGS__)
#define tagrv_trace(...) FI_TRACE(&tagrv_prov, FI_LOG_CORE, __VA_ARGS__)

#endif
