/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The lock of the layer, and its table: which object of the layer stands behind
 * an object of libibverbs.
 *
 * One lock for all is enough, because a test needs no speed. It is recursive: a
 * program may hold the poll of one completion queue while it polls another.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tmsim/tmsim.h"

#define BUCKETS	1024

static struct tmsim_node *buckets[BUCKETS];
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void tmsim_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void tmsim_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

/* Objects are allocated, so the lowest bits of their addresses are all alike. */
static struct tmsim_node **bucket_of(const void *key)
{
	return &buckets[((uintptr_t) key >> 4) * 0x9e3779b97f4a7c15ull >> 54];
}

void tmsim_put(struct tmsim_node *node, enum tmsim_kind kind, const void *key)
{
	struct tmsim_node **bucket = bucket_of(key);

	*node = (struct tmsim_node) { .next = *bucket, .kind = kind, .key = key };
	*bucket = node;
}

void tmsim_drop(struct tmsim_node *node)
{
	struct tmsim_node **at = bucket_of(node->key);

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
}

void *tmsim_find(enum tmsim_kind kind, const void *key)
{
	struct tmsim_node *node = *bucket_of(key);

	while (node && (node->key != key || node->kind != kind))
		node = node->next;
	return node;
}

void *tmsim_real(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found) {
		fprintf(stderr, "tmsim: libibverbs has no %s\n", name);
		abort();
	}
	return found;
}
