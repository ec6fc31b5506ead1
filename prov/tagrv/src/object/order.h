/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which orders an application has asked for (tx_attr->msg_order) that do not come by
 * themselves: an operation of a certain kind then holds back all later ones to the same peer
 * until it has ended. proto/rma/rma.h says which orders packets have anyway.
 */
#ifndef TAGRV_OBJECT_ORDER_H
#define TAGRV_OBJECT_ORDER_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stdint.h>

/* Later operations must find the bytes of a write in place. */
#define TAGRV_ORDER_AFTER_WRITE	(FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW | \
				 FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW)
/*
 * Later operations must not be seen by an earlier read. A fetching atomic is a read that
 * changes the target, so RAR is among them.
 */
#define TAGRV_ORDER_AFTER_READ	(FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RAR | \
				 FI_ORDER_RMA_WAR | FI_ORDER_RMA_RAR)

/* A write whose bytes the target reads by itself. */
static inline bool tagrv_order_holds_pull(uint64_t order)
{
	return order & TAGRV_ORDER_AFTER_WRITE;
}

/* A read. One that holds back others goes by packets: see tagrv_rma_get(). */
static inline bool tagrv_order_holds_read(uint64_t order)
{
	return order & TAGRV_ORDER_AFTER_READ;
}

#endif
