/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The device of the verbs transport, registered buffers, and receive queues. The
 * objects of an endpoint (verbs_priv.h) are built on these.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_DEV_H
#define TAGRV_XPORT_VERBS_VERBS_DEV_H

#include <pthread.h>
#include <stdatomic.h>

#include "xport/quota.h"
#include "xport/verbs/verbs_ops.h"
#include "xport/xport.h"

/* ---- device ---- */

/* Kind of network; both peers must have the same. Part of the blob. */
enum verbs_net {
	VERBS_NET_IB,
	VERBS_NET_ROCE_V1,
	VERBS_NET_ROCE_V2,
};

/* Properties of a port that may change while it is used. A link has a copy. */
struct verbs_port {
	struct ibv_port_attr attr;
	union ibv_gid gid;
	int	gid_index;
	uint16_t pkey_index;
	uint8_t	net;			/* enum verbs_net */
	uint8_t	prefix;			/* as in struct verbs_blob */
	uint16_t part;
};

struct ifaddrs;

/* What an endpoint has found out of the device's queue pairs, and for which ones. */
struct verbs_probed {
	bool	known;
	bool	td;			/* they may be in a thread domain */
	bool	use_srq;
	uint32_t inline_max, sq_depth, rq_depth;	/* wanted */
	uint32_t max_inline;		/* found out */
};

struct verbs_dev {
	struct tagrv_device base;
	const struct tagrv_verbs_calls *calls;
	struct ibv_context *ctx;
	struct ibv_pd	*pd;
	struct ibv_device_attr attr;
	uint8_t	port_num;
	int	gid_wanted;		/* index, -1: the best */
	int	pkey_wanted;		/* 0: any */
	struct tagrv_addr local;	/* of FI_TAGRV_IFACE; family 0: none */
	uint8_t	traffic_class;
	atomic_bool relaxed;		/* payload memory has relaxed ordering */
	pthread_mutex_t mutex;		/* protects xports, port of each and ours, and probed */
	struct verbs_port port;
	struct verbs_probed probed;
	double	reg_overhead, reg_growth;	/* as in struct tagrv_xport_attr */
	const char *cost_source;	/* of both */
	struct tagrv_list xports;	/* all xports of the device */
	atomic_bool fatal;		/* failed or removed */
	atomic_bool memlock_warned;	/* of the limit of locked memory */
	atomic_bool reach_warned;	/* of a peer that cannot be reached */
	atomic_bool plain_qps;		/* it does not let us choose a queue pair's operations */
	struct tagrv_quota quota;	/* queue pairs */
	atomic_bool quota_warned;	/* that there are no more */
};

struct verbs_mem {
	struct tagrv_mem base;
	struct ibv_mr	*mr;
};

struct verbs_gid {
	union ibv_gid gid;
	int	index;
	uint8_t	net;			/* enum verbs_net */
	struct verbs_subnet subnet;	/* RoCE only */
};

struct verbs_gid_wish {
	int	index;			/* the only one that will do; -1: any */
	struct tagrv_addr local;	/* where the endpoint listens; family 0: not known */
	const struct verbs_port *used;	/* the address in use so far, or NULL */
};

/*
 * Chooses the GID of a port: the one with the wished index, else the best by the order in
 * verbs_gid.c. 0, -FI_ENOMEM, or -FI_ENODATA: no such GID.
 */
int tagrv_verbs_gid_choose(const struct tagrv_verbs_calls *calls,
			   struct ibv_context *ctx, uint8_t port,
			   uint8_t port_cnt, const struct ibv_port_attr *attr,
			   const struct verbs_gid_wish *wish, struct verbs_gid *gid)
	TAGRV_WARN_UNUSED;
/* The IP address of a GID that peers can be told; false: it has none. */
bool tagrv_verbs_gid_addr(const struct verbs_gid *gid, struct tagrv_addr *addr);
/* The address that FI_TAGRV_IFACE names, by itself or by an interface; or family 0. */
struct tagrv_addr tagrv_verbs_local_of(const struct tagrv_params *params);
/* Whether the first 'bits' bits are the same. */
bool tagrv_verbs_is_same_start(const uint8_t *a, const uint8_t *b, unsigned bits);

#define VERBS_PKEY_FULL	0x8000u		/* full member of a partition */
/*
 * Chooses the partition key of a port: the wished partition (0: any), in which it is a
 * full member if possible; Ethernet: any. -FI_ENODATA: it is not in the partition.
 */
int tagrv_verbs_pkey_choose(const struct tagrv_verbs_calls *calls,
			    struct ibv_context *ctx, uint8_t port,
			    const struct ibv_port_attr *attr, int wanted,
			    uint16_t *index) TAGRV_WARN_UNUSED;
/* The traffic class of RoCE packets: as the parameter says, else as sysfs does, else 0. */
uint8_t tagrv_verbs_traffic_class(const struct ibv_device *dev, uint8_t port,
				  const struct tagrv_params *params);

struct verbs_xport;
/* Chooses xp->port for an endpoint that listens on 'local' (NULL: not known). */
void tagrv_verbs_port_init(struct verbs_xport *xp, const struct tagrv_addr *local);
/* A copy of xp->port. */
struct verbs_port tagrv_verbs_port_now(struct verbs_xport *xp);
/* Queries the port again, for all xports; if that fails it stays as it is. */
void tagrv_verbs_port_refresh(struct verbs_dev *dev);

/* The subnet of a GID's address, by the list of getifaddrs(); without its VLAN. */
void tagrv_verbs_subnet_find(const struct ifaddrs *list, const union ibv_gid *gid,
			     struct verbs_subnet *subnet);
/* The same of each of cnt GIDs with its VLAN, by one look at the addresses of this host. */
void tagrv_verbs_subnets_get(const struct ibv_gid_entry *gids, size_t cnt,
			     struct verbs_subnet *subnets);

/*
 * The network interface (IPoIB) of the InfiniBand port with this GID, by the list of
 * getifaddrs(), or "": its hardware address contains the GID.
 */
void tagrv_verbs_ipoib_find(const struct ifaddrs *list, const union ibv_gid *gid,
			    char iface[IF_NAMESIZE]);
/* The same, of this host. */
void tagrv_verbs_ipoib_get(const union ibv_gid *gid, char iface[IF_NAMESIZE]);

/* Splits "name:2" into name and port (1 if none). -FI_EINVAL: malformed. */
int tagrv_verbs_name_split(const char *full, char *name, size_t name_len,
			   uint8_t *port) TAGRV_WARN_UNUSED;

/* The errno to report for open_device() that failed; err: errno after it. */
int tagrv_verbs_open_errno(const struct tagrv_verbs_calls *calls,
			   const struct ibv_device *dev, int err);

/* Fills in bus, driver and distance. */
void tagrv_verbs_describe_bus(const struct ibv_device *dev,
			      struct tagrv_device_desc *desc);
/* Whether a device is on a bus; rxe and siw are not. */
bool tagrv_verbs_is_hardware(const struct ibv_device *dev);

/* Whether a device has RDMA reads, which large messages need. */
static inline bool verbs_has_reads(const struct ibv_device_attr *attr)
{
	return attr->max_qp_rd_atom > 0 && attr->max_qp_init_rd_atom > 0;
}

/* Whether a device can change memory for peers by itself. */
static inline bool verbs_has_atomics(const struct ibv_device_attr *attr)
{
	return attr->atomic_cap != IBV_ATOMIC_NONE && verbs_has_reads(attr);
}

/* Whether a device has receive queues that queue pairs share. */
static inline bool verbs_has_srq(const struct ibv_device_attr *attr)
{
	return attr->max_srq > 0 && attr->max_srq_wr > 1;
}

/*
 * Whether the library of a device may report a packet with immediate data as a remote write
 * with it: that of Intel's devices does so before rdma-core 44.
 */
static inline bool verbs_misnames(const struct ibv_device_attr *attr)
{
	return attr->vendor_id == 0x8086;
}

/* Whether its side links carry atomics, because they share receive queues. */
static inline bool verbs_offers_atomics(const struct ibv_device_attr *attr,
					const struct tagrv_params *params)
{
	return params->srq && verbs_has_srq(attr) && verbs_has_atomics(attr);
}

/* Bytes of an MTU, 0: no such value. */
size_t tagrv_verbs_mtu_bytes(enum ibv_mtu mtu);
/* Bits per second. */
uint64_t tagrv_verbs_port_speed(const struct ibv_port_attr *attr);

/* Entries of the transport's table, as in xport.h. */
int tagrv_verbs_discover(const struct tagrv_params *params,
			 struct tagrv_device_desc **descs, size_t *cnt,
			 char *why, size_t why_len);
int tagrv_verbs_dev_open(const char *name, const struct tagrv_params *params,
			 struct tagrv_device **dev);
/* Fills what the attributes say of registrations, measured if the table has a clock. */
void tagrv_verbs_cost_measure(struct verbs_dev *dev);
uint64_t tagrv_verbs_cost_clock(void);
void tagrv_verbs_dev_close(struct tagrv_device *dev);
int tagrv_verbs_dev_event_fd(struct tagrv_device *dev);
void tagrv_verbs_dev_event(struct tagrv_device *dev);
int tagrv_verbs_mem_reg(struct tagrv_device *dev, void *addr, size_t len,
			unsigned access, struct tagrv_mem **mem);
/* Registers packet buffers: as mem_reg, for local use and in strict order. */
int tagrv_verbs_mem_reg_packets(struct verbs_dev *dev, void *addr, size_t len,
				struct tagrv_mem **mem) TAGRV_WARN_UNUSED;
void tagrv_verbs_mem_dereg(struct tagrv_mem *mem);
size_t tagrv_verbs_mem_key(const struct tagrv_mem *mem, void *key);

/* ---- buffers: verbs_buf.c ---- */

/*
 * Registered buffers of one size, numbered from 0. They are allocated in slabs,
 * never moved, and freed together.
 */
struct verbs_bufs {
	struct verbs_dev *dev;
	struct tagrv_mem **slabs;
	unsigned slab_shift;		/* 2^slab_shift buffers in a slab */
	uint32_t slab_mask;		/* 2^slab_shift - 1 */
	uint32_t max;			/* limit of 'total' */
	uint32_t total;			/* buffers that exist */
	uint32_t idle_cnt;
	uint32_t *idle;			/* stack of buffers not in use */
	size_t	size;			/* bytes of a buffer */
};

/*
 * Initializes a set without buffers. size: bytes of a buffer; max: most buffers;
 * slab: buffers per slab. 0 or -FI_ENOMEM; then call fini all the same.
 */
int tagrv_verbs_bufs_init(struct verbs_bufs *bufs, struct verbs_dev *dev,
			  size_t size, uint32_t max, uint32_t slab)
	TAGRV_WARN_UNUSED;
/* Deregisters and frees all buffers; none may be posted to a device. */
void tagrv_verbs_bufs_fini(struct verbs_bufs *bufs);
/*
 * Adds a slab. 0, -FI_ENOMEM, or the error of the registration. On failure 'max'
 * becomes 'total', so that later calls do not try again.
 */
int tagrv_verbs_bufs_grow(struct verbs_bufs *bufs) TAGRV_WARN_UNUSED;

static inline void *verbs_buf_addr(const struct verbs_bufs *bufs, uint32_t i)
{
	return (char *) bufs->slabs[i >> bufs->slab_shift]->addr +
	       (i & bufs->slab_mask) * bufs->size;
}

static inline uint32_t verbs_buf_lkey(const struct verbs_bufs *bufs, uint32_t i)
{
	const struct tagrv_mem *mem = bufs->slabs[i >> bufs->slab_shift];

	return ((const struct verbs_mem *) mem)->mr->lkey;
}

/*
 * A receive queue and its buffers: of an xport (srq) or of one link (qp). The wr_id of a
 * receive is the number of the buffer and, in the bits above slot_mask, the number of its
 * posting. So a completion of an earlier posting is never taken for one of this.
 */
struct verbs_rxq {
	struct verbs_bufs bufs;
	uint64_t *wr_ids;		/* of each buffer; verbs_not_posted() */
	uint64_t slot_mask;
	uint64_t next;			/* the next posting, as in a wr_id */
	struct ibv_srq	*srq;		/* either this one is set */
	struct ibv_qp	*qp;		/* or this one */
	uint32_t posted;		/* buffers posted to the device */
	uint32_t refill_at;		/* idle buffers that are posted at once */
};

/* In place of the wr_id of a buffer that is not posted: above all, and none of its own. */
static inline uint64_t verbs_not_posted(uint32_t i)
{
	return ~(uint64_t) i;
}

/* As tagrv_verbs_bufs_init() and tagrv_verbs_bufs_fini(). */
int tagrv_verbs_rxq_init(struct verbs_rxq *rxq, struct verbs_dev *dev, size_t size,
			 uint32_t max, uint32_t slab) TAGRV_WARN_UNUSED;
void tagrv_verbs_rxq_fini(struct verbs_rxq *rxq);
/*
 * Adds a slab to a link's own queue, to be posted by refill. Where a library takes remote
 * writes for packets, its buffers have nothing but zeros. Returns as tagrv_verbs_bufs_grow().
 */
int tagrv_verbs_rxq_grow(struct verbs_rxq *rxq) TAGRV_WARN_UNUSED;
/* Posts all idle buffers. Buffers that the device refuses stay idle. */
void tagrv_verbs_rxq_refill(const struct tagrv_verbs_calls *calls,
			    struct verbs_rxq *rxq);

static inline struct verbs_dev *verbs_dev_of(struct tagrv_device *dev)
{
	return tagrv_container_of(dev, struct verbs_dev, base);
}

/* ---- completion queues ---- */

#define VERBS_ACK_EVENTS	64u	/* events acknowledged at once: it takes a mutex */

/* The queue has had an event. */
static inline void verbs_note_event(const struct tagrv_verbs_calls *calls, struct ibv_cq *cq,
				    unsigned *unacked)
{
	if (++*unacked < VERBS_ACK_EVENTS)
		return;
	calls->ack_cq_events(cq, *unacked);
	*unacked = 0;
}

/*
 * Makes room for 'more' completions behind cnt that are held, from number 'pos' on, and moves these
 * to the beginning. *cap: how many there is room for. Returns where they are; NULL: no memory,
 * they are moved, but not elsewhere. verbs_reap.c
 */
void *tagrv_verbs_held_fit(void *held, size_t size, uint32_t pos, uint32_t cnt, uint32_t more,
			   uint32_t *cap) TAGRV_WARN_UNUSED;

#endif
