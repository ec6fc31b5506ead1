/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Answers of a transport that lacks something: see stubs.h.
 */
#include "xport/stubs.h"

#include <rdma/fi_errno.h>

int tagrv_stub_dev_event_fd(struct tagrv_device *dev)
{
	(void) dev;
	return -1;
}

void tagrv_stub_dev_event(struct tagrv_device *dev)
{
	(void) dev;
}

size_t tagrv_stub_mem_key(const struct tagrv_mem *mem, void *key)
{
	(void) mem;
	(void) key;
	return 0;
}

int tagrv_stub_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		   uint64_t raddr, const void *key, size_t key_len, size_t len,
		   struct tagrv_done *done)
{
	(void) link;
	(void) addr;
	(void) mem;
	(void) raddr;
	(void) key;
	(void) key_len;
	(void) len;
	(void) done;
	return -FI_ENOSYS;
}

void tagrv_stub_flush(struct tagrv_xport *xport)
{
	(void) xport;
}

int tagrv_stub_wait_fd(struct tagrv_xport *xport)
{
	(void) xport;
	return -1;
}
