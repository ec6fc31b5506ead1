/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The parts of fi_getinfo among themselves; map of the files in info.h.
 */
#ifndef TAGRV_API_INFO_INFO_PRIV_H
#define TAGRV_API_INFO_INFO_PRIV_H

#include <rdma/fabric.h>
#include <stdbool.h>

#include "api/objects_priv.h"
#include "core/addr.h"
#include "core/limits.h"
#include "core/param.h"
#include "xport/xport.h"

/* What there is. TX and RX: the bits that may appear in tx_attr and rx_attr. */
#define TAGRV_CAPS_TX	(FI_MSG | FI_TAGGED | FI_SEND | FI_FENCE)
#define TAGRV_CAPS_RX	(FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | \
			 FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR)
#define TAGRV_CAPS_DOMAIN (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define TAGRV_CAPS	(TAGRV_CAPS_TX | TAGRV_CAPS_RX | TAGRV_CAPS_DOMAIN)
/* Whoever asks for nothing in particular does not want errors for messages. */
#define TAGRV_CAPS_DEFAULT (TAGRV_CAPS & ~FI_SOURCE_ERR)

/* Bit 31, FI_PROV_SPECIFIC while headers had it: no number of libfabric's. */
#define TAGRV_PROTO		(1u << 31 | 0x7467u)
#define TAGRV_PROTO_VERSION	1
#define TAGRV_MSG_ORDERS	((uint64_t) FI_ORDER_SAS)
#define TAGRV_CQ_DATA_SIZE	8
#define TAGRV_MR_KEY_SIZE	8
#define TAGRV_SIZE_DEFAULT	1024	/* of tx_attr and rx_attr */
/* FI_MR_BASIC and FI_MR_SCALABLE, which newer headers warn of. */
#define TAGRV_MR_BASIC		(1 << 0)
#define TAGRV_MR_SCALABLE	(1 << 1)

/* libfabric's own question on behalf of providers that layer above others. */
#define TAGRV_FLAG_INTERNAL	(1ULL << 59)
#define TAGRV_FLAG_RESCAN	(1ULL << 35)	/* FI_RESCAN of newer headers */

/* One call of fi_getinfo. */
struct tagrv_ask {
	uint32_t version;
	uint64_t flags;
	const struct fi_info *hints;	/* or NULL */
	struct tagrv_params params;
	uint64_t caps;			/* granted, whatever the device */
	/* addresses; family 0 where there is none */
	int	family;
	struct tagrv_addr src, dest;
	uint16_t src_port;		/* when only a service was given */
};

/* The one endpoint type there is, or none named. */
bool tagrv_info_match_type(const struct fi_info *hints);
/* Hints against what we can do; sets ask->caps. 0 or -FI_ENODATA. */
int tagrv_info_match(struct tagrv_ask *ask);
/* Do the hints name this device, or none? Does it reach what they ask for? */
bool tagrv_info_match_name(const struct fi_info *hints, const char *name);
bool tagrv_info_match_reach(const struct tagrv_ask *ask, const char *name);
/* Does it reach this host, or even only its own endpoint? No NIC, then. */
bool tagrv_info_is_local(const char *name);
/* Do the hints ask for other hosts? */
bool tagrv_info_wants_remote(const struct fi_info *hints);
/* When no device has the name they ask for: says so, and is -FI_ENODATA. */
int tagrv_info_refuse_name(const struct fi_info *hints);
/* Most bytes of error data that an endpoint with these capabilities gives. */
size_t tagrv_info_err_data(uint64_t caps);
/* Capabilities with everything that the ones named imply. */
uint64_t tagrv_info_fill_caps(uint64_t caps);

/* Sets the address members of the ask. 0 or -FI_ENODATA. */
int tagrv_info_resolve(struct tagrv_ask *ask, const char *node,
		       const char *service);
/* The source of one device for this ask. */
void tagrv_info_source(const struct tagrv_ask *ask,
		       const struct tagrv_device_desc *desc,
		       struct tagrv_addr *src);
/* For an endpoint whose info names none. 0 or -FI_ENODATA. */
int tagrv_info_default_source(const char *domain, uint32_t addr_format,
			      struct tagrv_addr *src);

/*
 * Devices that can be used. *descs is the caller's to free. -FI_ENODATA: none;
 * unless 'quiet' a warning says why, once for each reason.
 */
int tagrv_info_devices(const struct tagrv_params *params, bool quiet,
		       struct tagrv_device_desc **descs, size_t *cnt);
/* The next call looks for them, however short the last one is ago. */
void tagrv_info_rescan(void);
/* Warns, once for each reason, why devices found last are of no use. */
void tagrv_info_tell_why(void);

/* NULL when memory is out. Frees like libfabric does: tagrv_info_free(). */
struct fi_info *tagrv_info_build(const struct tagrv_ask *ask,
				 const struct tagrv_device_desc *desc,
				 const struct tagrv_addr *src);
void tagrv_info_free(struct fi_info *info);

/* NULL when memory is out. */
struct fid_nic *tagrv_nic_create(const struct tagrv_device_desc *desc);

#endif
