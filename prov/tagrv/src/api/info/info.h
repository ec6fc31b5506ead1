/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: one fi_info for each device that meets the hints.
 *
 *   info.c        the call
 *   info_order.c  puts the best device first
 *   info_match.c  compares the hints with the provider's capabilities
 *   info_addr.c   node, service and hints become source and destination
 *   info_dev.c    asks transports for devices, keeps the answer for a second
 *   info_build.c  allocates and fills one fi_info
 *   nic.c         struct fid_nic
 */
#ifndef TAGRV_API_INFO_INFO_H
#define TAGRV_API_INFO_INFO_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "core/launcher.h"
#include "core/param.h"
#include "xport/xport.h"

#define TAGRV_FABRIC_NAME	"tagrv"
#define TAGRV_LOOP_NAME		"loop"	/* domain of endpoints that reach only
					   themselves, for tests */
#define TAGRV_SHM_NAME		"shm"	/* domain of this host's processes */

/* Capabilities offered. TX and RX: those allowed in tx_attr and rx_attr. */
#define TAGRV_CAPS_TX	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | \
			 FI_READ | FI_WRITE | FI_FENCE)
#define TAGRV_CAPS_RX	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | \
			 FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | \
			 FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | \
			 FI_SOURCE_ERR)
#define TAGRV_CAPS_DOMAIN (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define TAGRV_CAPS	(TAGRV_CAPS_TX | TAGRV_CAPS_RX | TAGRV_CAPS_DOMAIN)

/* Of these, the kinds of transfers: messages, and one-sided operations. */
#define TAGRV_CAPS_MESSAGES	(FI_MSG | FI_TAGGED)
#define TAGRV_CAPS_ONE_SIDED	(FI_RMA | FI_ATOMIC)

/* Operation flags that an endpoint may have by default. */
#define TAGRV_LEVEL_FLAGS (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | \
			   FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define TAGRV_TX_OP_FLAGS (FI_COMPLETION | FI_INJECT | TAGRV_LEVEL_FLAGS)
#define TAGRV_RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV)

/*
 * Orders that hold for every endpoint, and those for which the engine holds operations back:
 * they are returned only to hints that name them. Reads and writes may overtake sends.
 */
#define TAGRV_MSG_ORDERS_FREE	((uint64_t) FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | \
				 FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | \
				 FI_ORDER_ATOMIC_WAW)
#define TAGRV_MSG_ORDERS	(TAGRV_MSG_ORDERS_FREE | FI_ORDER_RAR | \
				 FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | \
				 FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_RMA_RAR | \
				 FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | \
				 FI_ORDER_RMA_WAW)

/* FI_MR_BASIC and FI_MR_SCALABLE, which are deprecated in newer headers. */
#define TAGRV_MR_BASIC		(1 << 0)
#define TAGRV_MR_SCALABLE	(1 << 1)

/* The bits that an old mode stands for, which is never combined with others. */
static inline int tagrv_info_full_mr_mode(int mode)
{
	switch (mode) {
	case TAGRV_MR_BASIC:
		return FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	case TAGRV_MR_SCALABLE:
		return 0;
	default:
		return mode;
	}
}

/* The open objects that hints name; all zero when they name none. */
struct tagrv_info_objects {
	bool	foreign_fabric;		/* another provider's fabric */
	bool	foreign_domain;		/* another provider's domain */
	const char *domain_name;	/* of our domain, or NULL */
};

/*
 * fi_getinfo without a look at open objects, which the caller has looked up.
 * 0: *info is a list for fi_freeinfo(); -FI_ENODATA: no device meets the hints;
 * -FI_ENOMEM.
 */
int tagrv_info_get(uint32_t version, const char *node, const char *service,
		   uint64_t flags, const struct fi_info *hints,
		   const struct tagrv_info_objects *objects,
		   struct fi_info **info);

/* The capabilities that the given ones stand for; 0 stands for the default. */
uint64_t tagrv_info_fill_caps(uint64_t caps);

/*
 * The address that fi_getinfo would give an endpoint of this domain as source.
 * 0 or -FI_ENODATA.
 */
int tagrv_info_default_source(const char *domain, uint32_t addr_format,
			      struct tagrv_addr *src);

/*
 * Usable devices; the caller frees *descs. -FI_ENODATA: there are none, and,
 * unless 'quiet', a warning gives the reason of each, once. -FI_ENOMEM, -FI_EMFILE.
 * *lack: 0, or one of these, because of which there may be more devices.
 */
int tagrv_info_devices(const struct tagrv_params *params, bool quiet,
		       struct tagrv_device_desc **descs, size_t *cnt, int *lack);

/*
 * Puts devices into the order of fi_getinfo. alike: NULL, or for each device in the new
 * order how many are as good, itself included. 0 or -FI_ENOMEM: nothing has changed.
 */
int tagrv_info_sort(const struct tagrv_params *params,
		    struct tagrv_device_desc *descs, size_t cnt, unsigned *alike)
	TAGRV_WARN_UNUSED;
/* Writes why the device has its place in that order; returns text. */
const char *tagrv_info_why(const struct tagrv_params *params,
			   const struct tagrv_device_desc *desc, unsigned alike,
			   char *text, size_t len);
/* That of FI_TAGRV_LOCAL_RANK, else what the launcher says. */
struct tagrv_local_rank tagrv_info_local_rank(const struct tagrv_params *params);

/* Does this domain reach at most processes of this host? It has no NIC then. */
bool tagrv_info_is_local(const char *name);

/* Frees the list of devices that is kept between calls. */
void tagrv_info_cleanup(void);

#endif
