/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every FI_TAGRV_* parameter: one table (param.c), one struct.
 *
 * A copy is read from the environment for each getinfo call and each domain, so
 * that two domains of one process may differ and nothing is global.
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
	/* protocol */
	size_t	eager_max;		/* payload bytes sent with the envelope */
	size_t	eager_credit;		/* bytes of them kept for one peer */
	size_t	eager_budget;		/* and for all together beyond that */
	char	rndv_thresh[24];	/* bytes or auto; empty: auto */
	char	rndv_fallback[24];	/* bytes or inf; empty: inf */
	int	rndv_perf_diff;		/* percent */
	char	proto[256];		/* "eager:0-4k,get:4k-"; empty: choose */
	char	profile[512];		/* path or none; empty: the default */
	size_t	max_ops;		/* operations outstanding per endpoint */
	size_t	read_segment;		/* bytes per rendezvous read or write */
	size_t	read_depth;		/* of these in flight per peer */
	char	rndv[16];		/* auto, get, put, copy; empty: auto */
	size_t	copy_depth;		/* fragments in flight per message */
	char	regcache[8];		/* auto, yes, no; empty: auto */
	size_t	regcache_max;		/* bytes; 0: from the limits */
	/* verbs */
	size_t	rx_bufs;		/* most receive buffers per endpoint */
	size_t	tx_bufs;		/* most copy buffers per endpoint */
	size_t	sq_depth;		/* work requests per queue pair */
	size_t	inline_max;		/* bytes asked for inline */
	size_t	signal_every;		/* work requests per completion */
	size_t	burst;			/* packets in flight per peer, 0: auto */
	bool	srq;			/* share one receive queue if possible */
	int	gid_index;		/* -1: choose */
	int	traffic_class;
	int	service_level;
	int	qp_timeout;		/* 4.096 us * 2^n */
	int	qp_retry;		/* 0..6 */
	/* shared memory */
	size_t	shm_ring;		/* bytes per direction of a pair */
	char	shm_cma[8];		/* auto, yes, no; empty: auto */
	/* wireup */
	int	connect_timeout;	/* seconds until a peer is unreachable */
	int	close_timeout;		/* seconds fi_close waits for its acks */
	/* introspection */
	int	match_stats;		/* seconds between log lines; 0: none */
	char	dump[512];		/* path or stderr; empty: none */
	int	dump_after;		/* seconds; 0: never */
};

/* Registers names and help texts with libfabric; called once per load. */
void tagrv_param_define(void);

/*
 * Reads the environment. A value out of range is replaced by the nearest legal
 * one, one that is no value by the default; a warning says so once a process.
 */
void tagrv_param_read(struct tagrv_params *params);

/* Table access for utilities and checks: name without prefix, or NULL. */
const char *tagrv_param_name(size_t i);
const char *tagrv_param_help(size_t i);
/* The value in params as text; returns text. */
const char *tagrv_param_value(size_t i, const struct tagrv_params *params,
			      char *text, size_t size);
/* Where it comes from: "environment", "libfabric" (its files) or "default". */
const char *tagrv_param_source(size_t i);

#endif
