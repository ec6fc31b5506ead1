/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of verbs calls. Every call into libibverbs goes through it, so that a
 * test can replace the table by a device of its own: one with faults, odd limits,
 * or without features that real devices have.
 *
 * A device keeps the table that it was opened with. Entries behave as the verbs of
 * the same name: on failure pointers are NULL with errno set, ints are an errno
 * value (poll_cq, get_cq_event and get_async_event: negative).
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_OPS_H
#define TAGRV_XPORT_VERBS_VERBS_OPS_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>

/* Where an address of this host is. */
struct verbs_subnet {
	uint8_t	prefix;		/* bits of the subnet in the address; 0: not known */
	uint16_t vlan;		/* id, 0: none */
	bool	idle;		/* its interface is down, or part of a bond */
	bool	unknown;	/* the addresses of this host could not be read */
	char	iface[IF_NAMESIZE];
};

struct tagrv_verbs_calls {
	/* Directories checked for devices before any call; NULL: no check. */
	const char *class_dir;		/* "/sys/class/infiniband" */
	const char *uverbs_dir;		/* "/dev/infiniband" */
	size_t (*memlock_limit)(void);	/* as tagrv_memlock_limit() */

	/* ns, to measure registrations by when a device is opened; NULL: not measured */
	uint64_t (*clock_ns)(void);

	/* as tagrv_verbs_subnets_get() */
	void (*subnets_get)(const struct ibv_gid_entry *gids, size_t cnt,
			    struct verbs_subnet *subnets);
	/* as tagrv_verbs_ipoib_get() */
	void (*ipoib_get)(const union ibv_gid *gid, char iface[IF_NAMESIZE]);

	enum ibv_fork_status (*is_fork_initialized)(void);
	int (*fork_init)(void);
	struct ibv_device **(*get_device_list)(int *cnt);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *dev);
	int (*close_device)(struct ibv_context *ctx);
	int (*query_device)(struct ibv_context *ctx,
			    struct ibv_device_attr *attr);
	/* Without it or its answer a device has none of what 'attr' adds: all is 0. */
	int (*query_device_ex)(struct ibv_context *ctx,
			       struct ibv_device_attr_ex *attr);
	int (*query_port)(struct ibv_context *ctx, uint8_t port,
			  struct ibv_port_attr *attr);
	ssize_t (*query_gid_table)(struct ibv_context *ctx,
				   struct ibv_gid_entry *entries, size_t max);
	int (*query_pkey)(struct ibv_context *ctx, uint8_t port, int index,
			  __be16 *pkey);
	int (*get_async_event)(struct ibv_context *ctx,
			       struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);

	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	int (*dealloc_pd)(struct ibv_pd *pd);
	/* Few devices have thread domains: EOPNOTSUPP. */
	struct ibv_td *(*alloc_td)(struct ibv_context *ctx);
	int (*dealloc_td)(struct ibv_td *td);
	/* To be freed by dealloc_pd. */
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_pd *pd,
					      struct ibv_td *td);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	int (*destroy_ah)(struct ibv_ah *ah);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len,
				 int access);
	int (*dereg_mr)(struct ibv_mr *mr);

	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe,
				    void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	/*
	 * A queue that is polled by its own pointers (ibv_start_poll and others), destroyed
	 * by destroy_cq. Not all devices have them: EOPNOTSUPP.
	 */
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *ctx,
					  struct ibv_cq_init_attr_ex *attr);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*get_cq_event)(struct ibv_comp_channel *channel,
			    struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned cnt);
	int (*poll_cq)(struct ibv_cq *cq, int cnt, struct ibv_wc *wc);

	struct ibv_srq *(*create_srq)(struct ibv_pd *pd,
				      struct ibv_srq_init_attr *attr);
	/* Of all types; for a list of tagged receives with post_srq_ops: EOPNOTSUPP. */
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *ctx,
					 struct ibv_srq_init_attr_ex *attr);
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *wr,
			    struct ibv_ops_wr **bad);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad);

	struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr);
	/* Not all devices let the caller choose the operations: EOPNOTSUPP and others. */
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *ctx,
				       struct ibv_qp_init_attr_ex *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad);
};

/* The table that devices opened from now on use; static, never NULL. */
const struct tagrv_verbs_calls *tagrv_verbs_calls_get(void);

/*
 * Replaces the table, which the caller keeps alive; NULL: libibverbs again. For
 * tests only, before any other thread runs.
 */
void tagrv_verbs_calls_set(const struct tagrv_verbs_calls *calls);

#endif
