/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMA devices that exist in memory only: a complete set of verbs calls with
 * reliable connections between any two of the devices, for tests of the verbs
 * transport without hardware.
 *
 * Packets move inside post and poll calls. Where real devices may choose, these
 * do what is hardest for the transport, unless a vendor's profile says otherwise:
 *   - a queue pair in error completes every outstanding work request,
 *   - receives posted to a queue pair in error never complete,
 *   - send queue slots come back only when a completion is polled,
 *   - completions of a destroyed queue pair stay in the completion queue,
 *   - a completion queue that overflows loses completions (and is counted).
 *
 * The devices exist once per process. Every call is thread-safe.
 *
 * Each file calls only files below it:
 *
 *   fake_verbs.c        table of calls, control by tests
 *   fake_verbs_profile.c  what the adapters of each vendor do in another way
 *   fake_verbs_size.c   and how much memory their queue pairs take
 *   fake_verbs_post.c   posting, polling: the calls in which packets move
 *   fake_verbs_wire.c   carries out work requests between queue pairs
 *   fake_verbs_qp.c     queue pairs and their states
 *   fake_verbs_tm.c     lists of tagged receives: shared receive queues with tag_list.c
 *   fake_verbs_cq.c     completion channels, completion queues, receive queues
 *   fake_verbs_dev.c    the state of all; devices, events, memory
 *   fake_verbs_pin.c    regions that keep their pages
 */
#ifndef FABTESTS_COMMON_FAKE_VERBS_H
#define FABTESTS_COMMON_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/* Completion vectors of each device. */
#define FAKE_VERBS_VECTORS	3

/* Memory that a queue pair takes. */
struct fake_verbs_bytes {
	size_t	pinned;		/* pages and lines that the device reads */
	size_t	library;	/* of the process, by the library */
};

struct verbs_subnet;
struct tag_list;

struct fake_verbs_config {
	unsigned devices;	/* "fake0", "fake1", ...; at most 8 */
	unsigned ports;		/* of each device */
	int	max_cqe, max_qp_wr, max_sge;
	int	max_srq, max_srq_wr;	/* max_srq 0: none */
	unsigned max_inline;
	int	rd_atom;
	uint32_t max_msg;
	bool	infiniband;	/* LIDs and one IB GID instead of RoCE */
	bool	grh_required;	/* ports demand GRHs; with infiniband: no LIDs */
	size_t	memlock;	/* bytes that may be registered; 0: any number */
	/* ns of a registration and of each KiB of it, by a clock that does not move
	 * otherwise, which measurements follow; 0: there is no clock */
	unsigned reg_ns, reg_ns_per_kib;
	unsigned reg_first_ns;	/* more of the first one */
	bool	pinned;		/* regions keep their pages; see can_pin */
	bool	no_resize;	/* completion queues cannot be resized */
	bool	no_write;	/* queue pairs refuse remote writes */
	bool	no_atomics;	/* and the device has no atomics */
	bool	rnr_fails;	/* a send that finds no receive buffer fails */
	uint32_t vendor_id;
	unsigned max_qp;	/* queue pairs of a device at a time; 0: any number */
	unsigned inline_step;	/* max_inline_data of a queue pair is rounded up to a multiple */
	bool	one_inline;	/* of inline data the first segment is sent only */
	bool	imm_as_write;	/* a SEND with immediate data is received as a write */
	bool	purges_cq;	/* destroy_qp removes the completions of the queue pair */
	bool	names_oldest;	/* a failed request is reported as the oldest one that no
				   completion has retired, and all behind it as flushed */
	/* What a queue pair takes. ops: IBV_QP_EX_WITH_*; srq: it has no receive queue of
	 * its own. NULL: not known. */
	struct fake_verbs_bytes (*qp_bytes)(const struct ibv_qp_cap *cap, uint64_t ops, bool srq);
	unsigned cqe_bytes, srqe_bytes;	/* of an entry of completion and shared receive queues */
	/* create_qp_ex fails with it; 0: a queue pair refuses operations not chosen */
	int	ops_errno;
	bool	refuses_in_err;	/* a queue pair in error refuses requests: EINVAL */
	/* When a queue pair breaks, it has taken a shared receive buffer, which is
	 * lost, or comes back with a flush. */
	bool	loses_buffers, flushes_buffers;
	unsigned flush_delay;	/* polls of its queues after which a queue pair that is
				   put into error has flushed its requests */
	/* Lists of tagged receives; flags 0: it has none. */
	struct ibv_tm_caps tm;
	unsigned tm_least;	/* receives nothing for them with fewer buffers posted */
	size_t	tm_mtu;		/* longer messages give two completions; 0: none does */
	bool	tm_no_read;	/* it reads no rendezvous by itself */
	enum ibv_port_state port_state;
	enum ibv_node_type node_type;
	int	open_errno;	/* open_device fails with it */
	bool	open_fails;	/* open_device fails without setting errno */
	int	list_errno;	/* get_device_list fails with it */
	enum ibv_fork_status fork;	/* before fork_init */
	int	fork_errno;	/* fork_init fails with it */
	int	td_errno, parent_errno;	/* so do alloc_td, alloc_parent_domain, */
	int	parent_qp_errno;	/* and create_qp in a parent domain */
	int	query_errno, port_errno;	/* so do query_device, query_port */
	const char *sysfs;	/* directory of all devices; one with a file 'device' is of
				   hardware. NULL: none, and devices in software */
	const char *class_dir;	/* as in struct tagrv_verbs_calls */
	const char *uverbs_dir;
	unsigned prefix;	/* bits of the subnet in IPv4 addresses; 0: unknown */
	const char *ipoib;	/* network interface of all InfiniBand ports; NULL: none */
	unsigned vlan[8];	/* VLAN id by device, 0: none */
	unsigned pkey[8];	/* full partition key by device, 0: 0xffff */
	const struct ibv_gid_entry *gids;	/* NULL: 2 of RoCE v2 */
	size_t	gid_cnt;
	uint64_t dead_gids;	/* bit mask of indexes that create_ah refuses */
	/* Replaces the subnets that follow from prefix and vlan. */
	void (*subnet_get)(const union ibv_gid *gid, struct verbs_subnet *subnet);
};

/* Returns two devices with the limits of common hardware, or of the profile FAKE_VERBS. */
struct fake_verbs_config fake_verbs_defaults(void);
/*
 * Changes what the adapters of a vendor do in another way: mlx5, bnxt_re, irdma, irdma_old,
 * qedr, hns or rxe. With FAKE_VERBS=profile in the environment fake_verbs_defaults() does it.
 */
void fake_verbs_be(struct fake_verbs_config *config, const char *profile);
/* The name of profile number i, NULL: there are no more. */
const char *fake_verbs_profile(unsigned i);
/* The devices of a profile, whatever FAKE_VERBS says; NULL: of common hardware. */
struct fake_verbs_config fake_verbs_as(const char *profile);

/* Makes the verbs transport call the fake devices; stop undoes it. */
void fake_verbs_start(const struct fake_verbs_config *config);
void fake_verbs_stop(void);

/* Whether the kernel has what config.pinned needs, and this process may use it. */
bool fake_verbs_can_pin(void);

/* Counts since start. */
struct fake_verbs_counts {
	unsigned objects;	/* contexts, queues, regions, ... alive */
	unsigned cq_overflows;
	unsigned sq_overflows;
	unsigned rnr;		/* sends that found no receive buffer */
	unsigned lost_events;	/* unacked events of destroyed objects */
	unsigned lost_buffers;	/* see config.loses_buffers, purges_cq */
	unsigned fork_inits, late_fork_inits;	/* calls of fork_init; behind others */
	unsigned device_lists;	/* calls of get_device_list */
	unsigned executed;	/* work requests carried out */
	unsigned completions;	/* put into send completion queues */
	unsigned atomics;	/* of them, changes of memory by the device */
	unsigned post_calls;	/* calls that post receives */
	unsigned inlined;	/* sends that were posted inline */
	unsigned inline_pieces;	/* most segments of one of them; see config.one_inline */
	unsigned cqs_by_vector[FAKE_VERBS_VECTORS];	/* completion queues created */
	unsigned created_qps;	/* queue pairs created */
	unsigned unlocked_qps;	/* queue pairs created in a thread domain */
	struct fake_verbs_bytes qps;	/* of all queue pairs alive */
	unsigned chosen_qps;	/* queue pairs created for chosen operations */
	unsigned refused_qps;	/* queue pairs that were not created */
	size_t	registered;	/* bytes */
	unsigned exposed;	/* regions alive that peers may read or write */
	unsigned qp_access;	/* IBV_ACCESS_* that any queue pair admitted */
};

struct fake_verbs_counts fake_verbs_count(void);

/* While held, work requests are accepted but not carried out. */
void fake_verbs_hold(bool on);

/* The nth (1: next) work request that is carried out ends with the status. */
void fake_verbs_fail_wr(unsigned nth, enum ibv_wc_status status);
/* The nth call of ibv_post_send from now on fails with this error; nth 0: none. */
void fake_verbs_fail_post(unsigned nth, int err);
/* As fail_post, but the request was queued and is carried out nevertheless. */
void fake_verbs_fail_doorbell(unsigned nth, int err);
/* As fail_post, for other calls. */
void fake_verbs_fail_reg(unsigned nth, int err);
void fake_verbs_fail_create_qp(unsigned nth, int err);
void fake_verbs_fail_modify_qp(unsigned nth, int err);
void fake_verbs_fail_srq_ops(unsigned nth, int err);

/* Replaces config.gids. */
void fake_verbs_set_gids(const struct ibv_gid_entry *gids, size_t cnt);
/*
 * Raises an asynchronous event of device number dev. element is the queue pair,
 * queue or port number (int *) that the event is about.
 */
void fake_verbs_event(unsigned dev, enum ibv_event_type type, void *element);
/* Pulls a device out: its descriptors become readable and all reads fail. */
void fake_verbs_unplug(unsigned dev);
/* The youngest living object of each kind on a device, NULL if none. */
struct ibv_qp *fake_verbs_last_qp(unsigned dev);
struct ibv_cq *fake_verbs_last_cq(unsigned dev);
struct ibv_srq *fake_verbs_last_srq(unsigned dev);
/* The list of a shared receive queue, or NULL, to look at it or to set its delays, whose ticks
 * are calls of start_poll. */
struct tag_list *fake_verbs_list(struct ibv_srq *srq);
/* Adds a completion to the CQ of a queue pair's receives. */
void fake_verbs_inject_rx(struct ibv_qp *qp, const struct ibv_wc *wc);
/* Removes the receive completions of a queue pair, as config.purges_cq does if they are late. */
void fake_verbs_lose_rx(struct ibv_qp *qp);
/* Takes the next buffer of a shared receive queue, as for half a packet; returns its wr_id. */
uint64_t fake_verbs_take_buffer(struct ibv_srq *srq);
/* Called for each region that is registered, or NULL. It must not call verbs. */
void fake_verbs_on_reg(void (*fn)(const void *addr, size_t len, int access));
/*
 * Called for each packet to a list of tagged receives, or NULL: it may change the bytes, and
 * returns how many arrive, which are not more. from, to: numbers of the devices. It must not call
 * verbs.
 */
void fake_verbs_on_tagged(size_t (*fn)(unsigned from, unsigned to, void *bytes, size_t len));
/* The access flags that the memory was registered with. */
int fake_verbs_access(const struct ibv_mr *mr);
/* Moves a queue pair to the error state, as a device does. */
void fake_verbs_break_qp(struct ibv_qp *qp);

#endif
