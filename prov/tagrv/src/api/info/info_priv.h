/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls between the files of fi_getinfo; info.h says which file does what.
 */
#ifndef TAGRV_API_INFO_INFO_PRIV_H
#define TAGRV_API_INFO_INFO_PRIV_H

#include "api/info/info.h"
#include "core/limits.h"

/* For hints without caps: no FI_SOURCE_ERR, which turns messages into errors. */
#define TAGRV_CAPS_DEFAULT (TAGRV_CAPS & ~FI_SOURCE_ERR)

/* Bit 31 was FI_PROV_SPECIFIC: libfabric assigns no such number. */
#define TAGRV_PROTO		(1u << 31 | 0x7467u)
#define TAGRV_PROTO_VERSION	1
#define TAGRV_CQ_DATA_SIZE	8	/* bytes */
#define TAGRV_MR_KEY_SIZE	8	/* bytes */
#define TAGRV_SIZE_DEFAULT	1024	/* tx_attr->size, rx_attr->size */

/* libfabric itself asks, on behalf of a provider layered above others. */
#define TAGRV_FLAG_INTERNAL	(1ULL << 59)
#define TAGRV_FLAG_RESCAN	(1ULL << 35)	/* FI_RESCAN of newer headers */

/* One call of fi_getinfo. */
struct tagrv_ask {
	uint32_t version;
	uint64_t flags;
	const struct fi_info *hints;	/* or NULL */
	struct tagrv_info_objects objects;
	struct tagrv_params params;
	uint64_t caps;			/* granted, whatever the device */
	int	family;			/* AF_INET, AF_INET6; 0: not decided */
	struct tagrv_addr src, dest;	/* family 0: none given */
	uint16_t src_port;		/* when only a service was given */
};

/* True for hints that name FI_EP_RDM, or no endpoint type. */
bool tagrv_info_match_type(const struct fi_info *hints);
/* Checks the hints, whatever the device; sets ask->caps. 0 or -FI_ENODATA. */
int tagrv_info_match(struct tagrv_ask *ask);
/* True unless the hints name another device. */
bool tagrv_info_match_name(const struct tagrv_ask *ask, const char *name);
/* True unless the hints ask for other hosts and the device reaches only this. */
bool tagrv_info_match_reach(const struct tagrv_ask *ask, const char *name);
/* True unless the hints ask for atomics and the device lacks those of FI_TAGRV_ATOMICS. */
bool tagrv_info_match_atomics(const struct tagrv_ask *ask,
			      const struct tagrv_device_desc *desc);
/* Whether the device has them. */
bool tagrv_info_has_atomics(const struct tagrv_ask *ask,
			    const struct tagrv_device_desc *desc);
/*
 * True unless the hints ask for tags of more bits than the device's endpoints have. Every
 * endpoint with FI_TAGRV_HW_TAGS sends to peers whose adapter matches, so its tags are
 * short whether its own adapter matches or not.
 */
bool tagrv_info_match_tags(const struct tagrv_ask *ask, const struct tagrv_device_desc *desc);
/* Whether they have TAGRV_DEVICE_TAG_MASK only. */
bool tagrv_info_has_short_tags(const struct tagrv_ask *ask,
			       const struct tagrv_device_desc *desc);
#define TAGRV_DEVICE_TAG_MASK	((UINT64_C(1) << 48) - 1)
/* Do the hints ask for FI_REMOTE_COMM? */
bool tagrv_info_wants_remote(const struct fi_info *hints);
/* Logs that no device has the name in the hints. Returns -FI_ENODATA. */
int tagrv_info_refuse_name(const struct fi_info *hints);
/*
 * For these capabilities: bytes of domain_attr->max_err_data; tx_attr->rma_iov_limit; bytes
 * of ep_attr->max_order_*_size, which have no limit where there is an order.
 */
size_t tagrv_info_err_data(uint64_t caps);
size_t tagrv_info_rma_iov_limit(uint64_t caps);
size_t tagrv_info_max_order(uint64_t caps);

/* Sets the address members of the ask. 0 or -FI_ENODATA. */
int tagrv_info_resolve(struct tagrv_ask *ask, const char *node,
		       const char *service);
/* The source address for one device, or for none (NULL). */
int tagrv_info_source(const struct tagrv_ask *ask,
		      const struct tagrv_device_desc *desc,
		      struct tagrv_addr *src) TAGRV_WARN_UNUSED;

/* The next tagrv_info_devices() asks the transports again. */
void tagrv_info_rescan(void);
/*
 * Warns, once for each reason, why devices found last cannot be used. remote: the hints ask
 * for other hosts.
 */
void tagrv_info_warn_why(bool remote);

/* One fi_info for tagrv_info_free(), which frees lists as libfabric does. */
struct fi_info *tagrv_info_build(const struct tagrv_ask *ask,
				 const struct tagrv_device_desc *desc,
				 const struct tagrv_addr *src);
void tagrv_info_free(struct fi_info *info);

/* fi_close() frees it. NULL: no memory. */
struct fid_nic *tagrv_nic_create(const struct tagrv_device_desc *desc);

#endif
