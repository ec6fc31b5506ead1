/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects of the domain "loop": see api_fixture.h.
 */
#include "unit/api/api_fixture.h"

#include <criterion/redirect.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "common/slowness.h"
#include "core/param.h"

void api_init(void)
{
	setenv("FI_TAGRV_DEVICES", "loop", 1);
	tagrv_param_define();
}

/* Calls fi_getinfo so that libfabric sets its log level, and drops parameters. */
void api_log_start(const char *level)
{
	struct fi_info *info = NULL;

	setenv("FI_LOG_LEVEL", level, 1);
	setenv("FI_LOG_PROV", "tagrv", 1);
	setenv("FI_PROVIDER", "tcp", 1);
	fi_getinfo(API_VERSION, NULL, NULL, 0, NULL, &info);
	fi_freeinfo(info);
	tagrv_param_define();
	cr_redirect_stderr();
}

unsigned api_log_lines(const char **text)
{
	static char buf[16384];
	FILE *file = cr_get_redirected_stderr();
	unsigned lines = 0;
	size_t got;

	fflush(stderr);
	clearerr(file);
	got = fread(buf, 1, sizeof(buf) - 1, file);
	buf[got] = '\0';
	for (const char *at = buf; (at = strchr(at, '\n')); at++)
		lines += 1;
	if (text)
		*text = buf;
	return lines;
}

struct fi_info *api_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	cr_assert_not_null(hints);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE |
		      FI_MULTI_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	return hints;
}

int api_getinfo(const struct fi_info *hints, struct fi_info **info)
{
	*info = NULL;
	return tagrv_getinfo(API_VERSION, NULL, NULL, 0, hints, info);
}

struct fi_info *api_must_getinfo(const struct fi_info *hints)
{
	struct fi_info *info;
	int ret = api_getinfo(hints, &info);

	cr_assert_eq(ret, 0, "fi_getinfo: %s", fi_strerror(-ret));
	cr_assert_not_null(info);
	return info;
}

void api_open_domain(struct api *api, const struct fi_info *hints)
{
	struct fi_info *usual = api_hints();

	*api = (struct api) { .self = FI_ADDR_NOTAVAIL };
	api->info = api_must_getinfo(hints ? hints : usual);
	fi_freeinfo(usual);
	cr_assert_eq(tagrv_fabric_open(api->info->fabric_attr, &api->fabric,
				       NULL), 0);
	cr_assert_eq(fi_domain(api->fabric, api->info, &api->domain, NULL), 0);
}

struct fid_cq *api_open_cq(struct api *api, enum fi_cq_format format,
			   enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr attr = {
		.size = 16, .format = format, .wait_obj = wait_obj,
	};
	struct fid_cq *cq;

	cr_assert_eq(fi_cq_open(api->domain, &attr, &cq, NULL), 0);
	return cq;
}

struct fid_av *api_open_av(struct api *api)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .count = 4 };
	struct fid_av *av;

	cr_assert_eq(fi_av_open(api->domain, &attr, &av, NULL), 0);
	return av;
}

static void insert_self(struct api *api)
{
	char name[64];
	size_t len = sizeof(name);

	cr_assert_eq(fi_getname(&api->ep->fid, name, &len), 0);
	cr_assert_eq(fi_av_insert(api->av, name, 1, &api->self, 0, NULL), 1);
}

static void open_ep(struct api *api, const struct fi_info *hints,
		    uint64_t flags, bool counted)
{
	api_open_domain(api, hints);
	api->av = api_open_av(api);
	api->cq = api_open_cq(api, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	cr_assert_eq(fi_endpoint(api->domain, api->info, &api->ep, NULL), 0);
	cr_assert_eq(fi_ep_bind(api->ep, &api->av->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(api->ep, &api->cq->fid,
				FI_TRANSMIT | FI_RECV | flags), 0);
	if (counted) {
		cr_assert_eq(fi_cntr_open(api->domain, NULL, &api->cntr, NULL),
			     0);
		cr_assert_eq(fi_ep_bind(api->ep, &api->cntr->fid, FI_SEND), 0);
	}
	cr_assert_eq(fi_enable(api->ep), 0);
	insert_self(api);
}

void api_open_ep(struct api *api, const struct fi_info *hints, uint64_t flags)
{
	open_ep(api, hints, flags, false);
}

void api_open_counted_ep(struct api *api, const struct fi_info *hints)
{
	open_ep(api, hints, 0, true);
}

void api_must_close(struct fid *fid)
{
	int ret = fi_close(fid);

	cr_expect_eq(ret, 0, "fi_close of class %zu: %s", fid->fclass,
		     fi_strerror(-ret));
}

void api_close(struct api *api)
{
	if (api->ep)
		api_must_close(&api->ep->fid);
	if (api->cntr)
		api_must_close(&api->cntr->fid);
	if (api->cq)
		api_must_close(&api->cq->fid);
	if (api->av)
		api_must_close(&api->av->fid);
	if (api->domain)
		api_must_close(&api->domain->fid);
	if (api->fabric)
		api_must_close(&api->fabric->fid);
	fi_freeinfo(api->info);
	*api = (struct api) { 0 };
}

void api_push(struct fid_cq *fid, uintptr_t number, int err)
{
	struct tagrv_cq *cq = tagrv_container_of(fid, struct tagrv_cq, cq);
	const struct tagrv_comp comp = {
		.context = (void *) number, .flags = FI_RECV | FI_TAGGED,
		.len = 10 * number, .buf = (void *) (number + 1),
		.data = number + 2, .tag = number + 3, .src = number + 4,
		.olen = number + 5, .err = err,
	};

	tagrv_lock_acquire(&cq->dom->lock);
	tagrv_compq_push(&cq->queue, &comp);
	tagrv_lock_release(&cq->dom->lock);
}

bool api_wait(struct api *api, struct fi_cq_tagged_entry *entry, ssize_t *ret)
{
	int64_t end = tagrv_deadline(slow_ms(1000));

	do {
		*ret = fi_cq_read(api->cq, entry, 1);
	} while (*ret == -FI_EAGAIN && tagrv_time_left(end));
	return *ret != -FI_EAGAIN;
}

bool api_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static void on_alarm(int number)
{
	(void) number;
}

void api_alarm(unsigned ms)
{
	const struct sigaction action = { .sa_handler = on_alarm };
	const struct itimerval once = { .it_value.tv_usec = ms * 1000 };

	cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
	cr_assert_eq(setitimer(ITIMER_REAL, &once, NULL), 0);
}

void api_expect_refused(ssize_t ret, int err, const char *word, int line)
{
	const char *text;
	unsigned lines = api_log_lines(&text);

	cr_expect_eq(ret, err, "line %d: %zd", line, ret);
	cr_expect_eq(lines, 1, "line %d: %u lines: %s", line, lines, text);
	cr_expect_not_null(strstr(text, word), "line %d: %s", line, text);
}
