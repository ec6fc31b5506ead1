/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * RDMA devices that exist in memory only: a complete set of verbs calls with
 * reliable connections between any two of the devices, for tests of the verbs
 * transport without hardware.
 *
 * Packets move inside post and poll calls. What real devices do, or leave to
 * chance, happens here always:
 *   - a queue pair in error completes every outstanding work request,
 *   - receives posted to one in error never complete,
 *   - send queue slots come back only when a completion is polled,
 *   - completions of a destroyed queue pair stay in the completion queue,
 *   - a completion queue that overflows loses completions (and is counted).
 *
 * One instance per process; every call is thread-safe.
 *
 * Each file calls only files below it:
 *
 *   fake_verbs.c        table of calls, control by tests
 *   fake_verbs_post.c   posting, polling: the calls in which packets move
 *   fake_verbs_wire.c   carries out work requests between queue pairs
 *   fake_verbs_qp.c     queue pairs and their states
 *   fake_verbs_cq.c     completion channels, completion queues, receive queues
 *   fake_verbs_dev.c    the state of all; devices, events, memory
 */
#ifndef FABTESTS_COMMON_FAKE_VERBS_H
#define FABTESTS_COMMON_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

struct fake_verbs_config {
	unsigned devices;	/* "fake0", "fake1", ...; at most 8 */
	unsigned ports;		/* of each device */
	int	max_cqe, max_qp_wr, max_sge;
	int	max_srq, max_srq_wr;	/* max_srq 0: none */
	unsigned max_inline;
	int	rd_atom;
	uint32_t max_msg;
	bool	infiniband;	/* LIDs and one IB GID instead of RoCE */
	bool	grh_required;	/* and with infiniband: no LIDs either */
	size_t	memlock;	/* bytes that may be registered; 0: any number */
	bool	no_resize;	/* of completion queues */
	bool	no_write;	/* queue pairs refuse remote writes */
	bool	rnr_fails;	/* who finds no receive buffer does not wait */
	enum ibv_port_state port_state;
	enum ibv_node_type node_type;
	int	open_errno;	/* open_device fails with it */
	bool	open_fails;	/* the same, without setting errno */
	int	list_errno, query_errno, port_errno;	/* others, in turn */
	const char *class_dir;	/* looked at before any call; NULL: nothing */
	const char *uverbs_dir;
	const struct ibv_gid_entry *gids;	/* NULL: 2 of RoCE v2 */
	size_t	gid_cnt;
};

/* Two devices like common hardware. */
struct fake_verbs_config fake_verbs_defaults(void);

/* Puts the devices behind the verbs transport; stop takes them away. */
void fake_verbs_start(const struct fake_verbs_config *config);
void fake_verbs_stop(void);

/* Counts since start. */
struct fake_verbs_counts {
	unsigned objects;	/* contexts, queues, regions, ... alive */
	unsigned cq_overflows;
	unsigned sq_overflows;
	unsigned rnr;		/* sends that found no receive buffer */
	unsigned lost_events;	/* object destroyed with unacked events */
	unsigned device_lists;	/* calls of get_device_list */
	unsigned executed;	/* work requests carried out */
	unsigned completions;	/* put into send completion queues */
	unsigned post_calls;	/* of receives */
	unsigned inlined;	/* sends that were posted inline */
	size_t	registered;	/* bytes */
};

struct fake_verbs_counts fake_verbs_count(void);

/* While held, work requests are accepted but not carried out. */
void fake_verbs_hold(bool on);

/* The nth (1: next) work request carried out ends with this status. */
void fake_verbs_fail_wr(unsigned nth, enum ibv_wc_status status);
/* The nth call from now on fails with this error; 0: not any more. */
void fake_verbs_fail_post(unsigned nth, int err);
/* The same, after the request was queued: it is carried out nevertheless. */
void fake_verbs_fail_doorbell(unsigned nth, int err);
void fake_verbs_fail_reg(unsigned nth, int err);
void fake_verbs_fail_create_qp(unsigned nth, int err);
void fake_verbs_fail_modify_qp(unsigned nth, int err);

/* Changes the gids of all devices, as config.gids did. */
void fake_verbs_set_gids(const struct ibv_gid_entry *gids, size_t cnt);
/*
 * Raises an asynchronous event of a device (index) or of an object on it; for
 * those of ports, element points to the number.
 */
void fake_verbs_event(unsigned dev, enum ibv_event_type type, void *element);
/* Pulls a device out: there is no event but that nothing can be read. */
void fake_verbs_unplug(unsigned dev);
/* The youngest living object of each kind on a device, NULL if none. */
struct ibv_qp *fake_verbs_last_qp(unsigned dev);
struct ibv_cq *fake_verbs_last_cq(unsigned dev);
struct ibv_srq *fake_verbs_last_srq(unsigned dev);
/* Puts a completion of our making into a queue pair's receive queue's CQ. */
void fake_verbs_inject_rx(struct ibv_qp *qp, const struct ibv_wc *wc);
/* Breaks a queue pair as the device would. */
void fake_verbs_break_qp(struct ibv_qp *qp);

#endif
