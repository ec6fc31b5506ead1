/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the C library that fail on purpose: no memory, no descriptor, no mapping,
 * no thread. Only calls of this program's own objects count, which are the provider
 * and the devices in memory: the linker turns them to scarce.c (-Wl,--wrap). Calls of
 * libfabric and of the C library itself are left alone.
 */
#ifndef STRESS_SCARCE_H
#define STRESS_SCARCE_H

#include <stdbool.h>
#include <stddef.h>

enum {
	SCARCE_MEMORY = 1,	/* malloc and the like: ENOMEM */
	SCARCE_DESCRIPTOR = 2,	/* socket, accept, open, eventfd, ...: EMFILE */
	SCARCE_MAPPING = 4,	/* mmap: ENOMEM */
	SCARCE_THREAD = 8,	/* pthread_create: EAGAIN */
	SCARCE_LOCKED = 16,	/* a device registers memory: ENOMEM */
	SCARCE_DEVICE = 32,	/* it makes objects: ENOMEM */
	SCARCE_ALL = 63,
	SCARCE_REQUEST = 64,	/* a device takes no requests, which is no lack: EIO */
};

/*
 * From here on call number 'nth' of these kinds, counted from 1, fails; with for_good
 * all later ones, too. 0: none fails, all are counted.
 */
void scarce_arm(unsigned kinds, size_t nth, bool for_good);

/* No further call fails. Returns how many were counted since arm. */
size_t scarce_disarm(void);

/* Where to write the name of the function whose call is the first to fail. */
void scarce_tell(char *text, size_t size);

/* For scarce_*.c: whether this call shall fail; sets errno to err then. */
bool scarce_fails(unsigned kind, const char *name, int err);

/* The calls of this thread are not counted until it is called with false. */
void scarce_pause(bool on);

#endif
