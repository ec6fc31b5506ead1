/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The device of the verbs transport and registered buffers on it: what the
 * objects of an endpoint (verbs_priv.h) are built on.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_DEV_H
#define TAGRV_XPORT_VERBS_VERBS_DEV_H

#include <pthread.h>
#include <stdatomic.h>

#include "xport/verbs/verbs_ops.h"
#include "xport/xport.h"

/* ---- device ---- */

/* What carries the packets; peers must agree. Travels in blobs. */
enum verbs_net {
	VERBS_NET_IB,
	VERBS_NET_ROCE_V1,
	VERBS_NET_ROCE_V2,
};

/* What may change while a port is in use: links are made with a copy. */
struct verbs_port {
	struct ibv_port_attr attr;
	union ibv_gid gid;
	int	gid_index;
	uint16_t pkey_index;
	uint8_t	net;			/* enum verbs_net */
};

struct verbs_dev {
	struct tagrv_device base;
	const struct tagrv_verbs_calls *calls;
	struct ibv_context *ctx;
	struct ibv_pd	*pd;
	struct ibv_device_attr attr;
	uint8_t	port_num;
	int	gid_wanted;		/* index, -1: the best */
	pthread_mutex_t mutex;		/* guards xports and port */
	struct verbs_port port;
	struct tagrv_list xports;	/* told when the device dies */
	atomic_bool fatal;
	atomic_bool memlock_told;	/* the hint about ulimit was given */
};

struct verbs_mem {
	struct tagrv_mem base;
	struct ibv_mr	*mr;
};

/* The GID of a port that suits us best, by 'wanted' index if that is >= 0. */
struct verbs_gid {
	union ibv_gid gid;
	int	index;
	uint8_t	net;			/* enum verbs_net */
};

int tagrv_verbs_gid_choose(const struct tagrv_verbs_calls *calls,
			   struct ibv_context *ctx, uint8_t port,
			   uint8_t port_cnt, const struct ibv_port_attr *attr,
			   int wanted, struct verbs_gid *gid)
	TAGRV_WARN_UNUSED;

struct verbs_port tagrv_verbs_port_now(struct verbs_dev *dev);
/* Looks at the port again. What cannot be had any more stays as it was. */
void tagrv_verbs_port_refresh(struct verbs_dev *dev);

/* Splits "name:2" into name and port (1 if none). -FI_EINVAL: malformed. */
int tagrv_verbs_name_split(const char *full, char *name, size_t name_len,
			   uint8_t *port) TAGRV_WARN_UNUSED;

/* Why a device could not be opened, given what errno was after it. */
int tagrv_verbs_open_errno(const struct tagrv_verbs_calls *calls,
			   const struct ibv_device *dev, int err);

/* True for a device behind a bus; rxe and siw have none. */
bool tagrv_verbs_is_hardware(const struct ibv_device *dev);

/* Large messages are read: without that a device is of no use. */
static inline bool verbs_has_reads(const struct ibv_device_attr *attr)
{
	return attr->max_qp_rd_atom > 0 && attr->max_qp_init_rd_atom > 0;
}

size_t tagrv_verbs_mtu_bytes(enum ibv_mtu mtu);
uint64_t tagrv_verbs_port_speed(const struct ibv_port_attr *attr);

/* Operations on the device, entries of the transport's table. */
int tagrv_verbs_discover(const struct tagrv_params *params,
			 struct tagrv_device_desc **descs, size_t *cnt,
			 char *why, size_t why_len);
int tagrv_verbs_dev_open(const char *name, const struct tagrv_params *params,
			 struct tagrv_device **dev);
void tagrv_verbs_dev_close(struct tagrv_device *dev);
int tagrv_verbs_dev_event_fd(struct tagrv_device *dev);
void tagrv_verbs_dev_event(struct tagrv_device *dev);
int tagrv_verbs_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
			unsigned access, struct tagrv_mem **mem);
void tagrv_verbs_mem_dereg(struct tagrv_mem *mem);
size_t tagrv_verbs_mem_key(const struct tagrv_mem *mem, void *key);

/* ---- buffers: verbs_buf.c ---- */

/*
 * Registered buffers of one size, numbered from 0. They come in slabs, are
 * never moved, and go away together. 'idle' is the stack of those in nobody's
 * hands.
 */
struct verbs_bufs {
	struct verbs_dev *dev;
	struct tagrv_mem **slabs;
	unsigned slab_shift;		/* 2^n buffers in a slab */
	uint32_t max;			/* most buffers ever */
	uint32_t total;
	uint32_t idle_cnt;
	uint32_t *idle;
	size_t	size;
};

int tagrv_verbs_bufs_init(struct verbs_bufs *bufs, struct verbs_dev *dev,
			  size_t size, uint32_t max, uint32_t slab)
	TAGRV_WARN_UNUSED;
void tagrv_verbs_bufs_fini(struct verbs_bufs *bufs);
/*
 * Adds a slab. -FI_ENOMEM: registration failed, and 'max' is lowered to what
 * there is, so that nobody tries again.
 */
int tagrv_verbs_bufs_grow(struct verbs_bufs *bufs) TAGRV_WARN_UNUSED;

static inline void *verbs_buf_addr(const struct verbs_bufs *bufs, uint32_t i)
{
	uint32_t in_slab = i & ((1u << bufs->slab_shift) - 1);

	return (char *) bufs->slabs[i >> bufs->slab_shift]->addr +
	       in_slab * bufs->size;
}

static inline uint32_t verbs_buf_lkey(const struct verbs_bufs *bufs, uint32_t i)
{
	const struct tagrv_mem *mem = bufs->slabs[i >> bufs->slab_shift];

	return ((const struct verbs_mem *) mem)->mr->lkey;
}

/* Buffers under a receive queue, shared (xport) or of one queue pair. */
struct verbs_rxq {
	struct verbs_bufs bufs;
	struct ibv_srq	*srq;		/* one of these two */
	struct ibv_qp	*qp;
	uint32_t posted;
	uint32_t refill_at;		/* idle buffers worth a post */
};

/* Posts all idle buffers. What the device refuses stays idle. */
void tagrv_verbs_rxq_refill(const struct tagrv_verbs_calls *calls,
			    struct verbs_rxq *rxq);

static inline struct verbs_dev *verbs_dev_of(struct tagrv_device *dev)
{
	return tagrv_container_of(dev, struct verbs_dev, base);
}

#endif
