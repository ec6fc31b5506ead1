/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which devices a domain joins, by FI_TAGRV_RAILS.
 */
#ifndef TAGRV_OBJECT_DOM_RAILS_H
#define TAGRV_OBJECT_DOM_RAILS_H

#include <stddef.h>

#include "core/param.h"
#include "xport/xport.h"

#define TAGRV_DOM_RAILS_MAX	4u	/* as many as tagrv_xport_join() joins */

struct tagrv_dom_rails {
	unsigned cnt;		/* at least 1; the first is the domain's own device */
	char	names[TAGRV_DOM_RAILS_MAX][TAGRV_DEVNAME_MAX];
	char	why[128];	/* of the number, in a few words */
	bool	wrong;		/* the parameter names no device, or no number */
};

/*
 * Processes of the job on this host, as its launcher says in environment variables;
 * 0: none does. get: getenv(). *name: the variable.
 */
unsigned tagrv_dom_rails_procs(char *(*get)(const char *name), const char **name);

/*
 * Chooses the rails of a domain of the device 'own'. value: FI_TAGRV_RAILS; procs: of
 * tagrv_dom_rails_procs(); descs: all devices of the transport.
 */
void tagrv_dom_rails_choose(const char *value, unsigned procs,
			    const struct tagrv_device_desc *descs, size_t cnt,
			    const char *own, struct tagrv_dom_rails *rails);

/* Warns, once per process, of a wrong value, and lists what there is. */
void tagrv_dom_rails_warn(const char *value, const struct tagrv_dom_rails *rails,
			  const struct tagrv_device_desc *descs, size_t cnt);

#endif
