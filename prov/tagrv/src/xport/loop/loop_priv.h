/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Between the files of the loop transport.
 */
#ifndef TAGRV_XPORT_LOOP_LOOP_PRIV_H
#define TAGRV_XPORT_LOOP_LOOP_PRIV_H

#include "xport/backends.h"

#define TAGRV_LOOP_NAME	"loop"

/* Threads that wait for work sleep on fd. The domain lock guards the rest. */
struct loop_bell {
	int	fd;		/* an eventfd */
	bool	armed;		/* a thread may sleep */
	bool	rung;		/* the eventfd is readable */
};

int tagrv_loop_bell_open(struct loop_bell *bell);
void tagrv_loop_bell_close(struct loop_bell *bell);
void tagrv_loop_bell_wake(struct loop_bell *bell);
void tagrv_loop_bell_arm(struct loop_bell *bell);

/* Wakes the threads that sleep: there is work. */
static inline void tagrv_loop_bell_ring(struct loop_bell *bell)
{
	if (TAGRV_UNLIKELY(bell->armed))
		tagrv_loop_bell_wake(bell);
}

int tagrv_loop_discover(const struct tagrv_params *params,
			struct tagrv_device_desc **descs, size_t *cnt,
			char *why, size_t why_len);
int tagrv_loop_dev_open(const char *name, const struct tagrv_params *params,
			struct tagrv_device **dev);
void tagrv_loop_dev_close(struct tagrv_device *dev);
int tagrv_loop_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem);
void tagrv_loop_mem_dereg(struct tagrv_mem *mem);
size_t tagrv_loop_mem_key(const struct tagrv_mem *mem, void *key);
/*
 * Copies between 'local' and the registered memory of 'key' at 'addr', with
 * 'put' into that memory. -FI_EACCES: the key covers no such range, or does not
 * allow this access.
 */
int tagrv_loop_copy(struct tagrv_device *dev, bool put, void *local,
		    uint64_t key, uint64_t addr, size_t len);

#endif
