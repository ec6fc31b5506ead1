/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Answers of a transport that lacks a feature: see stubs.h.
 */
#include "xport/stubs.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>

int tagrv_stub_discover(const char *name, struct tagrv_device_desc **descs,
			size_t *cnt, char *why, size_t why_len)
{
	*descs = calloc(1, sizeof(**descs));
	if (!*descs) {
		snprintf(why, why_len, "out of memory");
		return -FI_ENOMEM;
	}
	**descs = (struct tagrv_device_desc) {
		.usable = true, .up = true, .max_msg = SIZE_MAX >> 1,
		.pci_domain = -1, .pci_bus = -1, .pci_dev = -1, .pci_func = -1,
		.numa_node = -1,
	};
	snprintf((*descs)->name, sizeof((*descs)->name), "%s", name);
	*cnt = 1;
	return 0;
}

int tagrv_stub_dev_event_fd(struct tagrv_device *dev)
{
	(void) dev;
	return -1;
}

void tagrv_stub_dev_event(struct tagrv_device *dev)
{
	(void) dev;
}

int tagrv_stub_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem)
{
	if (!len || (uintptr_t) addr > UINTPTR_MAX - len)
		return -FI_EINVAL;
	*mem = malloc(sizeof(**mem));
	if (!*mem)
		return -FI_ENOMEM;
	**mem = (struct tagrv_mem) {
		.dev = dev, .addr = addr, .len = len, .access = access,
	};
	return 0;
}

void tagrv_stub_mem_dereg(struct tagrv_mem *mem)
{
	free(mem);
}

size_t tagrv_stub_mem_key(const struct tagrv_mem *mem, void *key)
{
	(void) mem;
	(void) key;
	return 0;
}

int tagrv_stub_send_short(struct tagrv_link *link,
			  const uint64_t hdr[TAGRV_SHORT_WORDS],
			  const void *payload, size_t len)
{
	(void) link;
	(void) hdr;
	(void) payload;
	(void) len;
	return -FI_EAGAIN;
}

ssize_t tagrv_stub_send_tagged(struct tagrv_link *link, uint64_t meta, uint64_t tag,
			   uint64_t data, const void *payload)
{
	(void) link;
	(void) meta;
	(void) tag;
	(void) data;
	(void) payload;
	return -FI_EAGAIN;
}

int tagrv_stub_drain(void *link)
{
	(void) link;
	return 0;
}

void tagrv_stub_publish(struct tagrv_link *link)
{
	(void) link;
}

int tagrv_stub_send_prepared(struct tagrv_link *link, const void *hdr,
			     size_t hdr_len, const struct iovec *iov,
			     struct tagrv_mem *const *mem, size_t cnt,
			     struct tagrv_done *done)
{
	(void) link;
	(void) hdr;
	(void) hdr_len;
	(void) iov;
	(void) mem;
	(void) cnt;
	(void) done;
	return -FI_EOPNOTSUPP;
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
	return -FI_EOPNOTSUPP;
}

int tagrv_stub_put(struct tagrv_link *link, const void *addr,
		   struct tagrv_mem *mem, uint64_t raddr, const void *key,
		   size_t key_len, size_t len, struct tagrv_done *done)
{
	return tagrv_stub_get(link, (void *) (uintptr_t) addr, mem, raddr, key,
			      key_len, len, done);
}

int tagrv_stub_atomic(struct tagrv_link *link, const struct tagrv_xport_change *change,
		      uint64_t raddr, const void *key, size_t key_len,
		      uint64_t *former, struct tagrv_done *done)
{
	(void) change;
	(void) former;
	return tagrv_stub_get(link, NULL, NULL, raddr, key, key_len, 0, done);
}

int tagrv_stub_side_create(struct tagrv_xport *xport, void *blob, size_t *len,
			   struct tagrv_link **link)
{
	(void) xport;
	(void) blob;
	(void) len;
	(void) link;
	return -FI_EOPNOTSUPP;
}

int tagrv_stub_link_resume(struct tagrv_link *link, struct tagrv_link *fresh)
{
	(void) link;
	(void) fresh;
	return -FI_EOPNOTSUPP;
}

void tagrv_stub_link_unrenewed(struct tagrv_link *link)
{
	(void) link;
}

unsigned tagrv_stub_blobs_near(const void *a, size_t a_len, const void *b,
			       size_t b_len)
{
	(void) a;
	(void) a_len;
	(void) b;
	(void) b_len;
	return 1;
}

void tagrv_stub_flush(struct tagrv_xport *xport)
{
	(void) xport;
}

void tagrv_stub_check(struct tagrv_link *link, bool awaited)
{
	(void) link;
	(void) awaited;
}
