/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every FI_TAGRV_* parameter: one table (param.c), one struct.
 *
 * Each fi_getinfo call and each domain reads a copy from the environment, so that
 * two domains of one process may differ and no value is global.
 */
#ifndef TAGRV_CORE_PARAM_H
#define TAGRV_CORE_PARAM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/compiler.h"

struct tagrv_params {
	/* finding devices and addresses */
	char	devices[256];		/* "a,b": filter; empty: all */
	char	iface[64];		/* interface or address to listen on */
	char	transports[64];		/* "shm,verbs"; empty: all */
	char	rails[256];		/* auto, number or names; empty: auto */
	/* protocol */
	size_t	eager_max;		/* payload bytes sent with the envelope */
	size_t	eager_credit;		/* bytes of unexpected messages per peer */
	size_t	eager_budget;		/* bytes not counted as eager_credit; 0:
					   hostmem.h */
	char	rndv_thresh[24];	/* bytes or auto; empty: auto */
	char	rndv_fallback[24];	/* bytes or inf; empty: inf */
	int	rndv_perf_diff;		/* percent */
	char	proto[256];		/* "eager:0-4k,get:4k-"; empty: choose */
	char	profile[512];		/* path or none; empty: the default */
	size_t	max_ops;		/* sends outstanding per endpoint */
	size_t	max_recvs;		/* receives posted; 0: as many as possible */
	size_t	read_segment;		/* bytes per rendezvous read or write */
	size_t	read_depth;		/* reads or writes in flight per peer */
	char	rndv[16];		/* auto, get, put, copy; empty: auto */
	size_t	copy_depth;		/* fragments in flight per message */
	bool	fast;			/* short ways for the commonest calls */
	char	regcache[8];		/* auto, yes, no; empty: auto */
	char	regcache_monitor[16];	/* auto, userfaultfd, hooks; empty: auto */
	size_t	regcache_max;		/* bytes; 0: from the limits */
	char	expose[12];		/* cache, message; empty: cache */
	char	atomics[8];		/* cpu, device; empty: cpu */
	/* verbs */
	size_t	rx_bufs;		/* most receive buffers per endpoint */
	size_t	tx_bufs;		/* most copy buffers per endpoint */
	size_t	max_qps;		/* queue pairs per device; 0: the device's */
	size_t	sq_depth;		/* work requests per queue pair */
	size_t	inline_max;		/* inline bytes asked of the device */
	size_t	signal_every;		/* work requests per completion */
	size_t	burst;			/* packets in flight per peer, 0: auto */
	bool	srq;			/* share one receive queue if possible */
	bool	hw_tags;		/* devices match tagged messages if they can */
	bool	relaxed_ordering;	/* of what a device writes to messages */
	int	gid_index;		/* -1: choose */
	int	traffic_class;
	int	service_level;
	int	pkey;			/* partition, 0: any */
	int	local_rank;		/* -1: as the launcher says */
	int	qp_timeout;		/* 4.096 us * 2^n */
	int	qp_retry;		/* 0..6 */
	int	request_timeout;	/* seconds; 0: from the two; -1: none */
	int	probe;			/* seconds between probes; 0: none */
	size_t	max_sockets;		/* kept per endpoint; 0: all */
	/* shared memory */
	size_t	shm_ring;		/* bytes per direction of a pair */
	char	shm_cma[8];		/* auto, yes, no; empty: auto */
	size_t	shm_help;		/* bytes of a get; 0: never */
	/* wireup */
	int	connect_timeout;	/* seconds until a peer is unreachable */
	int	peer_timeout;		/* seconds a joined link stays down */
	int	close_timeout;		/* seconds fi_close waits for its acks */
	bool	peer_errors;		/* receives from lost peers end */
	/* introspection */
	int	match_stats;		/* seconds between log lines; 0: none */
	char	dump[512];		/* path or stderr; empty: none */
	int	dump_after;		/* seconds; 0: never */
	bool	top;			/* viewers may look */
};

/* Registers names and help texts with libfabric. Called once per load. */
void tagrv_param_define(void);

/*
 * Fills *params from the environment, else from libfabric's other sources, else
 * with defaults. A number out of range becomes the nearest legal one, and text
 * that is no number becomes the default; a warning says so, once per process and
 * parameter. Never fails.
 */
void tagrv_param_read(struct tagrv_params *params);

/* How many receives may be posted to an endpoint or shared context. */
size_t tagrv_param_max_recvs(const struct tagrv_params *params);

/* Whether devices are to carry out atomics: FI_TAGRV_ATOMICS. */
bool tagrv_param_atomics_by_device(const struct tagrv_params *params);

/*
 * FI_TAGRV_JOB_KEY as it is set now, NULL: it is not. No struct tagrv_params has it,
 * so that the secret is not copied around or printed.
 */
const char *tagrv_param_job_key(void);

/*
 * Access to row i of the table, for utilities and checks. name (without
 * FI_TAGRV_) and help are static strings, NULL when the table has no row i; the
 * other two functions need a row that exists.
 */
const char *tagrv_param_name(size_t i);
const char *tagrv_param_help(size_t i);
/*
 * Writes the value in params as text, at most 'size' bytes; returns text. Of a
 * secret it tells only that there is one.
 */
const char *tagrv_param_value(size_t i, const struct tagrv_params *params,
			      char *text, size_t size);
/*
 * Where the value comes from: "environment", "libfabric" (libfabric's own
 * sources, such as a configuration file) or "default".
 */
const char *tagrv_param_source(size_t i);

#endif
