/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One endpoint with what belongs to it, for programs whose processes come and go: tagrv_fault,
 * tagrv_faults, tagrv_liar. It has one peer at a time. Whatever fails here ends the process by
 * fault_fail(), which each program defines.
 */
#ifndef STRESS_END_H
#define STRESS_END_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the process, and with it the program, with a reason. */
_Noreturn void fault_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define MUST(cond, ...)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fault_fail(__VA_ARGS__);                                                   \
	} while (0)

enum { NAME_MAX_LEN = 128 };

/* What is 0 or NULL is left to the provider. */
struct end_attr {
	const char *domain;	/* name of the domain */
	const char *address;	/* of this side */
	enum fi_progress progress;
	enum fi_wait_obj wait_obj;	/* of the completion queue */
	size_t	cq_data_size;
	uint64_t caps;		/* besides messages */
};

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;		/* FI_ADDR_NOTAVAIL: none yet */
	bool	sleeps;		/* the queue has a wait object */
};

/* Writes the address to name, which has NAME_MAX_LEN bytes, and its length to *len. */
void end_open(struct end *e, const struct end_attr *attr, uint8_t *name, size_t *len);
/* This peer takes the place of the one before, the address of which is removed. */
void end_set_peer(struct end *e, const uint8_t *name);
/* Writes what the provider knows of the endpoint. 0 or -FI_E*. */
int end_dump(const struct end *e, int fd);
/* Closes the endpoint alone; end_close() closes the rest. */
void end_close_ep(struct end *e);
void end_close(struct end *e);

#endif
