/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What tagrv_no_memory's files share.
 *
 *   tagrv_no_memory.c   a process for each run; options, report
 *   scarce_traffic.c    messages of all protocols between two endpoints
 *   scarce_side.c       opening and closing an endpoint
 *   scarce.c            calls of the C library that fail
 *   scarce_device.c     calls of RDMA devices that fail
 */
#ifndef STRESS_SCARCE_RUN_H
#define STRESS_SCARCE_RUN_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scarce.h"

enum { CODES = 64, NAME_MAX_BYTES = 128, REASON = 200 };

/* How often a call, or a completion, had an error. */
struct code {
	char	call[24];
	int	err;		/* FI_E* */
	unsigned cnt;
};

/* What a run tells the process that waits for it, in memory they share. */
struct result {
	bool	done;
	bool	failed;		/* reason says why */
	char	reason[REASON];
	char	step[64];	/* what it was doing last */
	char	lacking[24];	/* the first function that failed */
	size_t	calls;		/* that were counted */
	unsigned rounds;	/* of traffic until one was without an error */
	unsigned lost;		/* messages lost without a word to either side */
	struct code codes[CODES];
};

extern struct result *result;

/* Ends the run. */
_Noreturn void run_fails(const char *format, ...) __attribute__((format(printf, 1, 2)));
void run_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts an error of a call, which must be one that the call may have. */
void run_count(const char *call, int err);

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq[2];	/* of sends, of receives */
	struct fid_cntr *cntr[2];
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t name[NAME_MAX_BYTES];
	fi_addr_t peer;
	uint64_t counted[2];	/* operations that the counters must have */
};

/*
 * Opens all that an endpoint needs. What fails is tried again if 'again', and must
 * work then. Otherwise returns the error, and closes what is open.
 */
int side_open(struct side *side, const struct fi_provider *provider, const char *device,
	      enum fi_progress progress, bool again);
int side_meet(struct side *side, const struct side *other, bool again);
void side_close(struct side *side);

/*
 * Messages of all kinds in both directions. Every operation that is accepted must
 * complete once, and what is received must be right. strict: nothing may fail.
 * Returns how many operations failed or were refused.
 */
unsigned traffic(struct side *a, struct side *b, bool again, bool strict);

#endif
