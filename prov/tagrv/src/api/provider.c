/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Entry of the plug-in, the one symbol it exports.
 *
 * Runs in every process that uses libfabric at all, wanted or not: it names
 * functions and parameters and touches nothing else.
 */
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/compiler.h"
#include "core/log.h"
#include "core/param.h"

struct fi_provider *fi_prov_ini(void);

FI_EXT_INI
{
	const uint32_t compiled = FI_VERSION(FI_MAJOR_VERSION,
					     FI_MINOR_VERSION);

	/*
	 * libfabric passes over providers older than what the application asks
	 * for, so a plug-in built on old headers takes the running version.
	 */
	tagrv_prov.fi_version = TAGRV_MAX(compiled, fi_version());
	tagrv_prov.getinfo = tagrv_getinfo;
	tagrv_prov.fabric = tagrv_fabric_open;
	tagrv_prov.cleanup = tagrv_info_cleanup;
	tagrv_param_define();
	return &tagrv_prov;
}
