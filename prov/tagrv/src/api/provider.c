/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_prov_ini, the only symbol that the plug-in exports.
 *
 * libfabric calls it in every process that uses libfabric at all, even with
 * another provider. So it only sets functions and registers parameters.
 */
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>
#include <unistd.h>

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/compiler.h"
#include "core/log.h"
#include "core/misnamed.h"
#include "core/param.h"

struct fi_provider *fi_prov_ini(void);

FI_EXT_INI
{
	const uint32_t compiled = FI_VERSION(FI_MAJOR_VERSION,
					     FI_MINOR_VERSION);

	/*
	 * libfabric skips a provider whose fi_version is older than the version
	 * the application asks for. A plug-in built with old headers therefore
	 * reports the version of the library that loads it.
	 */
	tagrv_prov.fi_version = TAGRV_MAX(compiled, fi_version());
	tagrv_prov.getinfo = tagrv_getinfo;
	tagrv_prov.fabric = tagrv_fabric_open;
	tagrv_prov.cleanup = tagrv_info_cleanup;
	tagrv_param_define();
	tagrv_misnamed_warn((const char *const *) environ);
	return &tagrv_prov;
}
