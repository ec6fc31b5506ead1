/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The loop device, which is always there, and the table of the memory that is
 * registered with it. Only this file takes the table's mutex.
 */
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/iov.h"
#include "xport/loop/loop_priv.h"
#include "xport/stubs.h"

#define KEY_BUCKETS	64u

struct loop_device {
	struct tagrv_device base;
	pthread_mutex_t mutex;		/* guards keys and next_key */
	struct tagrv_list keys[KEY_BUCKETS];	/* of memory that peers may use */
	uint64_t next_key;
};

struct loop_mem {
	struct tagrv_mem base;
	struct tagrv_list node;		/* in keys[]; on no list if access is 0 */
	uint64_t key;			/* never reused */
};

/* ---- device ---- */

int tagrv_loop_discover(const struct tagrv_params *params,
			struct tagrv_device_desc **descs, size_t *cnt,
			char *why, size_t why_len)
{
	(void) params;
	return tagrv_stub_discover(TAGRV_LOOP_NAME, descs, cnt, why, why_len);
}

int tagrv_loop_dev_open(const char *name, const struct tagrv_params *params,
			struct tagrv_device **dev)
{
	struct loop_device *loop;

	(void) params;
	if (strcmp(name, TAGRV_LOOP_NAME))
		return -FI_ENODEV;
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return -FI_ENOMEM;
	loop->base.ops = &tagrv_loop_ops;
	loop->base.max_msg = SIZE_MAX >> 1;
	snprintf(loop->base.name, sizeof(loop->base.name), TAGRV_LOOP_NAME);
	pthread_mutex_init(&loop->mutex, NULL);
	for (size_t i = 0; i < KEY_BUCKETS; i++)
		tagrv_list_init(&loop->keys[i]);
	*dev = &loop->base;
	return 0;
}

void tagrv_loop_dev_close(struct tagrv_device *dev)
{
	struct loop_device *loop =
		tagrv_container_of(dev, struct loop_device, base);

	pthread_mutex_destroy(&loop->mutex);
	free(loop);
}

/* ---- memory ---- */

int tagrv_loop_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem)
{
	struct loop_device *loop =
		tagrv_container_of(dev, struct loop_device, base);
	struct loop_mem *m;

	if (!len || (uintptr_t) addr > UINTPTR_MAX - len)
		return -FI_EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->base = (struct tagrv_mem) {
		.dev = dev, .addr = addr, .len = len, .access = access,
	};
	tagrv_list_init(&m->node);
	if (access & TAGRV_MEM_REMOTE) {
		pthread_mutex_lock(&loop->mutex);
		m->key = ++loop->next_key;
		tagrv_list_push_tail(&loop->keys[m->key % KEY_BUCKETS],
				     &m->node);
		pthread_mutex_unlock(&loop->mutex);
	}
	*mem = &m->base;
	return 0;
}

void tagrv_loop_mem_dereg(struct tagrv_mem *mem)
{
	struct loop_mem *m = tagrv_container_of(mem, struct loop_mem, base);
	struct loop_device *loop =
		tagrv_container_of(mem->dev, struct loop_device, base);

	pthread_mutex_lock(&loop->mutex);
	tagrv_list_remove(&m->node);
	pthread_mutex_unlock(&loop->mutex);
	free(m);
}

size_t tagrv_loop_mem_key(const struct tagrv_mem *mem, void *key)
{
	const struct loop_mem *m =
		(const struct loop_mem *) mem;	/* first member */

	memcpy(key, &m->key, sizeof(m->key));
	return sizeof(m->key);
}

/* True if 'key' allows this access to the whole range. The mutex is held. */
static bool key_covers(struct loop_device *loop, uint64_t key, unsigned access,
		       uint64_t addr, size_t len)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&loop->keys[key % KEY_BUCKETS], pos) {
		struct loop_mem *m =
			tagrv_container_of(pos, struct loop_mem, node);

		if (m->key == key)
			return m->base.access & access &&
			       tagrv_range_within(addr, len,
						  (uintptr_t) m->base.addr,
						  m->base.len);
	}
	return false;
}

/* Copies under the mutex, so that mem_dereg in another thread waits. */
int tagrv_loop_copy(struct tagrv_device *dev, bool put, void *local,
		    uint64_t key, uint64_t addr, size_t len)
{
	struct loop_device *loop =
		tagrv_container_of(dev, struct loop_device, base);
	void *remote = (void *) (uintptr_t) addr;
	int ret = -FI_EACCES;

	pthread_mutex_lock(&loop->mutex);
	if (key_covers(loop, key, put ? TAGRV_MEM_WRITE : TAGRV_MEM_READ, addr,
		       len)) {
		memmove(put ? remote : local, put ? local : remote, len);
		ret = 0;
	}
	pthread_mutex_unlock(&loop->mutex);
	return ret;
}
