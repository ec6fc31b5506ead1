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

void tagrv_stub_flush(struct tagrv_xport *xport)
{
	(void) xport;
}
