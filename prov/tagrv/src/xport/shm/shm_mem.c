/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registers memory: a table of address, length and a random secret.
 *
 * No memory is pinned. A key is the index of a table entry and the entry's secret,
 * which is new for every registration; an entry with secret 0 is free. The table
 * never moves, because peers read it when they use process_vm_readv.
 *
 *   packed key, offset and bytes:  0 index (4)   4 zero (4)   8 secret (8)
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "core/iov.h"
#include "core/log.h"
#include "core/random.h"
#include "xport/shm/shm_priv.h"

#define TABLE_BYTES	(SHM_TABLE * sizeof(struct shm_entry))

struct key {
	uint32_t index;
	uint32_t zero;
	uint64_t secret;
};

static_assert(sizeof(struct key) <= TAGRV_KEY_MAX, "key must fit");

/*
 * Sets *secret, never to 0. Reads many random numbers at once, because each read is a
 * system call. Returns 0 or the error of tagrv_random_fill().
 */
static int draw_secret_locked(struct shm_device *dev, uint64_t *secret)
{
	uint64_t drawn = 0;
	int ret;

	while (!drawn) {
		if (!dev->random_left) {
			ret = tagrv_random_fill(dev->random, sizeof(dev->random));
			if (ret)
				return ret;
			dev->random_left = TAGRV_ARRAY_SIZE(dev->random);
		}
		drawn = dev->random[--dev->random_left];
	}
	*secret = drawn;
	return 0;
}

int tagrv_shm_mem_open(struct shm_device *dev)
{
	uint64_t secret;
	int ret = draw_secret_locked(dev, &secret);

	if (ret) {
		tagrv_warn("shm: no random bytes: %s; does a sandbox forbid "
			   "getrandom()?\n", strerror(-ret));
		return ret;
	}
	dev->table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (dev->table == MAP_FAILED) {
		dev->table = NULL;
		return -FI_ENOMEM;
	}
	atomic_store(&dev->table[0].secret, secret);
	dev->table_used = 1;
	return 0;
}

void tagrv_shm_mem_close(struct shm_device *dev)
{
	if (dev->table)
		munmap(dev->table, TABLE_BYTES);
}

/* Returns the index of an unused entry; 0: the table is full. */
static uint32_t alloc_entry_locked(struct shm_device *dev)
{
	uint32_t index = dev->table_free;

	if (index)
		dev->table_free = (uint32_t) dev->table[index].next_free;
	else if (dev->table_used < SHM_TABLE)
		index = dev->table_used++;
	return index;
}

/* Makes the memory accessible to peers. */
static int publish(struct shm_device *dev, struct shm_mem *m)
{
	struct shm_entry *entry;
	uint64_t secret;
	int ret;

	pthread_mutex_lock(&dev->mem_mutex);
	ret = draw_secret_locked(dev, &secret);
	if (!ret) {
		m->index = alloc_entry_locked(dev);
		ret = m->index ? 0 : -FI_ENOMEM;
	}
	if (!ret) {
		entry = &dev->table[m->index];
		entry->addr = (uintptr_t) m->base.addr;
		entry->len = m->base.len;
		entry->next_free = m->base.access & TAGRV_MEM_REMOTE;
		atomic_store_explicit(&entry->secret, secret,
				      memory_order_release);
	}
	pthread_mutex_unlock(&dev->mem_mutex);
	return ret;
}

int tagrv_shm_mem_reg(struct tagrv_device *base, void *addr, size_t len,
		      unsigned access, struct tagrv_mem **mem)
{
	struct shm_mem *m;
	int ret = 0;

	if (!len || (uintptr_t) addr > UINTPTR_MAX - len)
		return -FI_EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->base = (struct tagrv_mem) {
		.dev = base, .addr = addr, .len = len, .access = access,
	};
	if (access & TAGRV_MEM_REMOTE)
		ret = publish(shm_device_of(base), m);
	if (ret) {
		free(m);
		return ret;
	}
	*mem = &m->base;
	return 0;
}

void tagrv_shm_mem_dereg(struct tagrv_mem *mem)
{
	struct shm_mem *m = tagrv_container_of(mem, struct shm_mem, base);
	struct shm_device *dev = shm_device_of(mem->dev);

	if (m->index) {
		pthread_mutex_lock(&dev->mem_mutex);
		atomic_store(&dev->table[m->index].secret, 0);
		/* The entry and the memory itself get other contents from here on. */
		shm_fence_stores();
		dev->table[m->index].next_free = dev->table_free;
		dev->table_free = m->index;
		pthread_mutex_unlock(&dev->mem_mutex);
	}
	free(m);
}

size_t tagrv_shm_mem_key(const struct tagrv_mem *mem, void *to)
{
	const struct shm_mem *m = (const struct shm_mem *) mem;
	struct key key = { .index = m->index };

	if (m->index)
		key.secret = atomic_load(
			&shm_device_of(mem->dev)->table[m->index].secret);
	memcpy(to, &key, sizeof(key));
	return sizeof(key);
}

bool tagrv_shm_key_unpack(const void *from, size_t len, uint32_t *index,
			  uint64_t *secret)
{
	struct key key;

	if (len != sizeof(key))
		return false;
	memcpy(&key, from, sizeof(key));
	*index = key.index;
	*secret = key.secret;
	return true;
}

bool tagrv_shm_entry_covers(uint64_t secret, uint64_t addr, uint64_t len,
			    uint64_t wanted, uint64_t from, uint64_t bytes)
{
	return secret && secret == wanted &&
	       tagrv_range_within(from, bytes, addr, len);
}

/* Whether a peer's key allows this access to the range. Needs mem_mutex. */
static bool allows_locked(struct shm_device *dev, uint32_t index,
			  uint64_t secret, unsigned access, uint64_t addr,
			  size_t len)
{
	struct shm_entry *entry = &dev->table[index < SHM_TABLE ? index : 0];

	return index && index < dev->table_used &&
	       tagrv_shm_entry_covers(atomic_load(&entry->secret), entry->addr,
				      entry->len, secret, addr, len) &&
	       entry->next_free & access;
}

/* Copies with the mutex held, so that mem_dereg in another thread waits. */
int tagrv_shm_mem_read(struct shm_device *dev, uint32_t index, uint64_t secret,
		       uint64_t from, void *to, size_t len)
{
	int ret = -FI_EACCES;

	pthread_mutex_lock(&dev->mem_mutex);
	if (allows_locked(dev, index, secret, TAGRV_MEM_READ, from, len)) {
		tagrv_copy(to, (const char *) (uintptr_t) from, len);
		ret = 0;
	}
	pthread_mutex_unlock(&dev->mem_mutex);
	return ret;
}

bool tagrv_shm_mem_give(struct shm_device *dev, uint32_t index, uint64_t secret,
			uint64_t from, int pid, uint64_t to, size_t len)
{
	struct iovec local = { (void *) (uintptr_t) from, len };
	struct iovec remote = { (void *) (uintptr_t) to, len };
	bool good;

	pthread_mutex_lock(&dev->mem_mutex);
	good = allows_locked(dev, index, secret, TAGRV_MEM_READ, from, len) &&
	       process_vm_writev(pid, &local, 1, &remote, 1, 0) ==
	       (ssize_t) len;
	pthread_mutex_unlock(&dev->mem_mutex);
	return good;
}

int tagrv_shm_mem_write(struct shm_device *dev, uint32_t index, uint64_t secret,
			uint64_t to, const void *from, size_t len)
{
	int ret = -FI_EACCES;

	pthread_mutex_lock(&dev->mem_mutex);
	if (allows_locked(dev, index, secret, TAGRV_MEM_WRITE, to, len)) {
		tagrv_copy((char *) (uintptr_t) to, from, len);
		ret = 0;
	}
	pthread_mutex_unlock(&dev->mem_mutex);
	return ret;
}
