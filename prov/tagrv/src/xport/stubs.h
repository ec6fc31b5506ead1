/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Entries of struct tagrv_xport_ops for features that a transport does not have.
 * Each returns the value by which the contract says that the feature is absent,
 * so every entry is set and no caller tests for a NULL pointer.
 */
#ifndef TAGRV_XPORT_STUBS_H
#define TAGRV_XPORT_STUBS_H

#include "xport/xport.h"

/*
 * For ops->discover of a transport with one device that is always there: lists
 * it under 'name' (less than TAGRV_DEVNAME_MAX bytes). Otherwise as discover.
 */
int tagrv_stub_discover(const char *name, struct tagrv_device_desc **descs,
			size_t *cnt, char *why, size_t why_len);

/* The device has no asynchronous events. */
int tagrv_stub_dev_event_fd(struct tagrv_device *dev);
void tagrv_stub_dev_event(struct tagrv_device *dev);

/*
 * Peers cannot reach memory: a registration is a record of the arguments, and
 * its key has 0 bytes. fi_mr_reg() works with it.
 */
int tagrv_stub_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem);
void tagrv_stub_mem_dereg(struct tagrv_mem *mem);
size_t tagrv_stub_mem_key(const struct tagrv_mem *mem, void *key);

/* There is no faster way than send; attr.max_short must be 0. */
int tagrv_stub_send_short(struct tagrv_link *link,
			  const uint64_t hdr[TAGRV_SHORT_WORDS],
			  const void *payload, size_t len);

/* There is no short form; attr.tagged_end must be 0. */
ssize_t tagrv_stub_send_tagged(struct tagrv_link *link, uint64_t meta, uint64_t tag,
			   uint64_t data, const void *payload);

/* Links have no intake. drain returns 0. */
int tagrv_stub_drain(void *link);
void tagrv_stub_publish(struct tagrv_link *link);

/* The device gathers nothing; attr.caps is without TAGRV_XPORT_PREPARED. */
int tagrv_stub_send_prepared(struct tagrv_link *link, const void *hdr,
			     size_t hdr_len, const struct iovec *iov,
			     struct tagrv_mem *const *mem, size_t cnt,
			     struct tagrv_done *done);

/* attr.caps is without TAGRV_XPORT_GET, or without TAGRV_XPORT_PUT. */
int tagrv_stub_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		   uint64_t raddr, const void *key, size_t key_len, size_t len,
		   struct tagrv_done *done);
int tagrv_stub_put(struct tagrv_link *link, const void *addr,
		   struct tagrv_mem *mem, uint64_t raddr, const void *key,
		   size_t key_len, size_t len, struct tagrv_done *done);

/* attr.caps is without TAGRV_XPORT_ATOMIC. */
int tagrv_stub_atomic(struct tagrv_link *link, const struct tagrv_xport_change *change,
		      uint64_t raddr, const void *key, size_t key_len,
		      uint64_t *former, struct tagrv_done *done);

/* attr.caps is without TAGRV_XPORT_SIDE. */
int tagrv_stub_side_create(struct tagrv_xport *xport, void *blob, size_t *len,
			   struct tagrv_link **link);

/* A link is not continued by another one; nothing is known of reachability. */
int tagrv_stub_link_resume(struct tagrv_link *link, struct tagrv_link *fresh);
void tagrv_stub_link_unrenewed(struct tagrv_link *link);
unsigned tagrv_stub_blobs_near(const void *a, size_t a_len, const void *b,
			       size_t b_len);

/* Sends are confirmed soon without being asked for. */
void tagrv_stub_flush(struct tagrv_xport *xport);
/* The end of a peer is noticed without a look. */
void tagrv_stub_check(struct tagrv_link *link, bool awaited);

#endif
