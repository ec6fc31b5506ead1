/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of end b of a pair, and memory of end a to read it into, both registered.
 */
#ifndef FABTESTS_UNIT_XPORT_SHM_MEMORY_H
#define FABTESTS_UNIT_XPORT_SHM_MEMORY_H

#include "unit/xport/pair.h"

struct shm_memory {
	unsigned char *source, *target;	/* of b; of a, zeroed */
	struct tagrv_mem *source_mem;	/* NULL: the test has deregistered it */
	struct tagrv_mem *target_mem;
	char	key[TAGRV_KEY_MAX];	/* of source_mem */
	size_t	key_len;
};

/* The source has the pattern of this seed. */
void shm_memory_open(struct shm_memory *m, const struct pair *pair, size_t len,
		     unsigned seed);
void shm_memory_close(struct shm_memory *m);

/* Skips the test where process_vm_readv does not read even the caller's own memory. */
void need_single_copies(void);

#endif
