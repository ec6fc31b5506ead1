/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The tables of the back ends, for xport.c, the back ends themselves and their
 * tests. The layers above include xport.h only, so they name no back end.
 */
#ifndef TAGRV_XPORT_BACKENDS_H
#define TAGRV_XPORT_BACKENDS_H

#include "xport/xport.h"

extern const struct tagrv_xport_ops tagrv_loop_ops;
extern const struct tagrv_xport_ops tagrv_shm_ops;
extern const struct tagrv_xport_ops tagrv_verbs_ops;
extern const struct tagrv_xport_ops tagrv_multi_ops;

/* tagrv_xport_join() */
int tagrv_multi_join(struct tagrv_device *const *devs, size_t cnt,
		     struct tagrv_device **dev) TAGRV_WARN_UNUSED;

#endif
