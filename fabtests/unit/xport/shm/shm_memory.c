/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory to read and to read into: see shm_memory.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "unit/xport/shm/shm_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "xport/backends.h"

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

void shm_memory_open(struct shm_memory *m, const struct pair *pair, size_t len,
		     unsigned seed)
{
	m->source = malloc(len);
	m->target = calloc(1, len);
	cr_assert(m->source && m->target);
	fill_pattern(m->source, seed, len);
	cr_assert_eq(ops->mem_reg(pair->b->dev, m->source, len, TAGRV_MEM_READ,
				  &m->source_mem), 0);
	cr_assert_eq(ops->mem_reg(pair->a->dev, m->target, len, 0,
				  &m->target_mem), 0);
	m->key_len = ops->mem_key(m->source_mem, m->key);
}

void shm_memory_close(struct shm_memory *m)
{
	if (m->source_mem)
		ops->mem_dereg(m->source_mem);
	ops->mem_dereg(m->target_mem);
	free(m->source);
	free(m->target);
}

void need_single_copies(void)
{
	char from = 1, to = 0;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1)
		cr_skip_test("process_vm_readv: %s", strerror(errno));
}
