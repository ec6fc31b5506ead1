/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the domain "loop", which needs no device, opened by the provider's
 * own functions instead of libfabric's.
 */
#ifndef UNIT_API_FIXTURE_H
#define UNIT_API_FIXTURE_H

#include <criterion/criterion.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/clock.h"

#define API_VERSION	FI_VERSION(1, 17)

/* One endpoint and its objects; NULL: not opened. */
struct api {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t self;
	struct fid_cntr *cntr;	/* of sends */
};

/* Sets the environment, registers parameters; .init of every suite calls it. */
void api_init(void);

/*
 * api_log_start(), once per process, collects lines of this level ("warn", "info").
 * api_log_lines() returns the number of lines since its last call, and their text.
 */
void api_log_start(const char *level);
unsigned api_log_lines(const char **text);

/* Hints of a usual application; the caller frees them by fi_freeinfo(). */
struct fi_info *api_hints(void);
int api_getinfo(const struct fi_info *hints, struct fi_info **info);
struct fi_info *api_must_getinfo(const struct fi_info *hints);

/* Each opens what it is named for; hints may be NULL for those of api_hints(). */
void api_open_domain(struct api *api, const struct fi_info *hints);
struct fid_cq *api_open_cq(struct api *api, enum fi_cq_format format,
			   enum fi_wait_obj wait_obj);
struct fid_av *api_open_av(struct api *api);
/* Binds one queue to both directions; flags are added to the bind flags. */
void api_open_ep(struct api *api, const struct fi_info *hints, uint64_t flags);
/* The same with a counter of sends. */
void api_open_counted_ep(struct api *api, const struct fi_info *hints);
/* Each object must close without error. */
void api_close(struct api *api);
void api_must_close(struct fid *fid);

/*
 * Writes a completion, or with err a failure, whose members all follow from
 * 'number'; api_fixture.c says how.
 */
void api_push(struct fid_cq *fid, uintptr_t number, int err);
/* Reads until there is a completion or an error; false after a second. */
bool api_wait(struct api *api, struct fi_cq_tagged_entry *entry, ssize_t *ret);
bool api_readable(int fd);
/* A signal interrupts system calls after ms milliseconds. */
void api_alarm(unsigned ms);

/* Expects the call to return err and to log one line that contains the word. */
#define REFUSED(call, err, word) \
	api_expect_refused((ssize_t) (call), err, word, __LINE__)
void api_expect_refused(ssize_t ret, int err, const char *word, int line);

#endif
