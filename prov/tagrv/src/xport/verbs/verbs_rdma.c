/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads and writes of a peer's memory by the device.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "xport/verbs/verbs_post.h"

/* Posts a read (tx->get) or write (tx->put) of the peer's memory. */
static int post_rdma(struct verbs_link *link, struct verbs_tx *tx, void *addr,
		     struct tagrv_mem *mem, uint64_t raddr, const void *key,
		     size_t len)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_sge sge = {
		.addr = (uintptr_t) addr, .length = (uint32_t) len,
		.lkey = ((struct verbs_mem *) mem)->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = tx->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.sg_list = &sge, .num_sge = len != 0,
	};
	uint32_t rkey;

	if (!verbs_has_room(xp, link, false))
		return verbs_try_again(xp);
	memcpy(&rkey, key, sizeof(rkey));
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = be32toh(rkey);
	return tagrv_verbs_post(xp, link, &wr, tx);
}

/* Returns 0 if a get or put may be posted, else its error. */
static int check_rdma(const struct verbs_link *link, const void *addr,
		      const struct tagrv_mem *mem, size_t key_len, size_t len,
		      size_t max)
{
	if (TAGRV_UNLIKELY(link->error || link->state != VERBS_LINK_OPEN))
		return -FI_ENOTCONN;
	if (key_len != sizeof(uint32_t) || len > max ||
	    !verbs_is_within(verbs_xport_of(link->base.xport), addr, len, mem))
		return -FI_EINVAL;
	return 0;
}

int tagrv_verbs_get(struct tagrv_link *base, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len,
		    size_t len, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_tx tx = {
		.done = done, .buf = VERBS_NO_BUF, .get = true,
		.signaled = true,
	};
	int ret = check_rdma(link, addr, mem, key_len, len, base->get_max);

	if (ret)
		return ret;
	if (link->gets >= link->max_gets)
		return verbs_try_again(verbs_xport_of(base->xport));
	return post_rdma(link, &tx, addr, mem, raddr, key, len);
}

int tagrv_verbs_put(struct tagrv_link *base, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_tx tx = {
		.done = done, .buf = VERBS_NO_BUF, .put = true,
		.signaled = true,
	};
	int ret = check_rdma(link, addr, mem, key_len, len, base->put_max);

	if (ret)
		return ret;
	if (link->puts >= base->xport->attr.put_depth)
		return verbs_try_again(verbs_xport_of(base->xport));
	return post_rdma(link, &tx, (void *) (uintptr_t) addr, mem, raddr, key,
			 len);
}
