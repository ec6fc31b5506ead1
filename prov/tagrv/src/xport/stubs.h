/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Entries of struct tagrv_xport_ops for what a transport does not have. Each
 * gives the answer that the contract reserves for "there is no such thing", so
 * that no caller tests for a NULL pointer.
 */
#ifndef TAGRV_XPORT_STUBS_H
#define TAGRV_XPORT_STUBS_H

#include "xport/xport.h"

/* No asynchronous events. */
int tagrv_stub_dev_event_fd(struct tagrv_device *dev);
void tagrv_stub_dev_event(struct tagrv_device *dev);

/* Nothing faster than send: attr.max_short is 0. */
int tagrv_stub_send_short(struct tagrv_link *link,
			  const uint64_t hdr[TAGRV_SHORT_WORDS],
			  const void *payload, size_t len);

/* Nothing is gathered: no TAGRV_XPORT_PREPARED. */
int tagrv_stub_send_prepared(struct tagrv_link *link, const void *hdr,
			     size_t hdr_len, const struct iovec *iov,
			     struct tagrv_mem *const *mem, size_t cnt,
			     struct tagrv_done *done);

/* Sends confirm themselves without being asked. */
void tagrv_stub_flush(struct tagrv_xport *xport);

#endif
