/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: what can be offered for given hints.
 *
 *   info.c        the call, one fi_info per device
 *   info_match.c  hints against what we can do
 *   info_addr.c   node, service and hints to source and destination
 *   info_dev.c    devices found, kept for a second
 *   info_build.c  memory of an fi_info
 *   nic.c         struct fid_nic
 */
#ifndef TAGRV_API_INFO_INFO_H
#define TAGRV_API_INFO_INFO_H

#include <rdma/fabric.h>

#include "core/compiler.h"

#define TAGRV_FABRIC_NAME	"tagrv"
#define TAGRV_LOOP_NAME		"loop"	/* the domain without a device */
#define TAGRV_SHM_NAME		"shm"	/* that of this host's processes */

int tagrv_getinfo(uint32_t version, const char *node, const char *service,
		  uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info);

/* Frees what was kept between calls. */
void tagrv_info_cleanup(void);

#endif
