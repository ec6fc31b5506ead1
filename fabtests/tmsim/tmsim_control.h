/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a test can do with a list beyond verbs, once the layer is loaded: it finds
 * these functions by dlsym(RTLD_DEFAULT, name). They return false for a receive
 * queue that has no list of the layer.
 */
#ifndef TMSIM_TMSIM_CONTROL_H
#define TMSIM_TMSIM_CONTROL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a command: until it takes effect, or a call of tmsim_control_apply. */
#define TMSIM_HOLD	UINT32_MAX

/*
 * Changes the delays of what is posted or matched from now on, in polls of the
 * completion queue: until a command takes effect, from there to its completion,
 * and from the first to the second completion of a long eager message.
 */
bool tmsim_control_delays(struct ibv_srq *srq, uint32_t apply, uint32_t report, uint32_t data);

/* Lets the oldest command take effect now. Also false if there is none. */
bool tmsim_control_apply(struct ibv_srq *srq);

#endif
