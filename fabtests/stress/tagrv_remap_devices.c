/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * As tagrv_remap, with two endpoints of one process over RDMA devices in memory. A region
 * of these devices keeps its pages, as with a real device, so that data that moves by a
 * stale registration comes from, or goes to, pages that the application has no more.
 *
 *	tagrv_remap_devices [--transfers N] [--seed N]
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "common/fake_verbs.h"
#include "remap.h"

/* The provider's own, in this program. */
struct fi_provider *fi_prov_ini(void);

static uint64_t registered;

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct flow flow;
	uint8_t name[128];
};

/* Under the devices' mutex. */
static void count_region(const void *addr, size_t len, int access)
{
	(void)addr;
	(void)len;
	(void)access;
	registered++;
}

static void get_info(struct end *e, const struct fi_provider *provider, int nr)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints, "no memory");
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->data_progress = nr ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	hints->domain_attr->name = strdup(nr ? "fake1" : "fake0");
	CHECK_OK(provider->getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &e->info));
	fi_freeinfo(hints);
}

static void open_end(struct end *e, const struct fi_provider *provider, int nr)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	size_t len = sizeof(e->name);

	get_info(e, provider, nr);
	CHECK_OK(provider->fabric(e->info->fabric_attr, &e->fabric, NULL));
	CHECK_OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	CHECK_OK(fi_av_open(e->domain, &av, &e->av, NULL));
	CHECK_OK(fi_cq_open(e->domain, &cq, &e->flow.cq, NULL));
	CHECK_OK(fi_endpoint(e->domain, e->info, &e->flow.ep, NULL));
	CHECK_OK(fi_ep_bind(e->flow.ep, &e->av->fid, 0));
	CHECK_OK(fi_ep_bind(e->flow.ep, &e->flow.cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_enable(e->flow.ep));
	CHECK_OK(fi_getname(&e->flow.ep->fid, e->name, &len));
}

static void close_end(struct end *e)
{
	CHECK_OK(fi_close(&e->flow.ep->fid));
	CHECK_OK(fi_close(&e->flow.cq->fid));
	CHECK_OK(fi_close(&e->av->fid));
	CHECK_OK(fi_close(&e->domain->fid));
	CHECK_OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
	flow_close(&e->flow);
}

static void begin_flow(struct end *e, const struct end *other, const struct test *t, uint64_t nr)
{
	struct flow *f = &e->flow;

	CHECK(fi_av_insert(e->av, other->name, 1, &f->peer, 0, NULL) == 1, "fi_av_insert");
	f->count = (remap_transfers + 1) / 2;
	f->out_seed = t->seed * 2 + nr;
	f->in_seed = t->seed * 2 + !nr;
	f->random = t->seed + 77 * nr;
	flow_open(f);
}

static void move_all(struct end ends[2])
{
	struct area *const sets[] = { ends[0].flow.areas, ends[1].flow.areas };

	changer_begin(sets, 2);
	while (!flow_is_done(&ends[0].flow) || !flow_is_done(&ends[1].flow)) {
		bool moved = flow_turn(&ends[0].flow);

		moved = flow_turn(&ends[1].flow) || moved;
		if (!moved)
			sched_yield();
		CHECK_MOVES("%llu and %llu received of %llu each", (unsigned long long)ends[0].flow.got,
			    (unsigned long long)ends[1].flow.got, (unsigned long long)ends[0].flow.count);
	}
	changer_end();
	flow_reap();
}

static void remap_devices(struct test *t)
{
	static struct end ends[2];
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_provider *provider;

	if (!fake_verbs_can_pin())
		run_skip("io_uring with registered buffers is missing or forbidden");
	provider = fi_prov_ini();
	/* Libraries that libfabric loads print and exit. */
	for (const int *sig = (const int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, 0 }; *sig; sig++)
		signal(*sig, SIG_DFL);
	config.pinned = true;
	fake_verbs_start(&config);
	fake_verbs_on_reg(count_region);
	open_end(&ends[0], provider, 0);
	open_end(&ends[1], provider, 1);
	begin_flow(&ends[0], &ends[1], t, 0);
	begin_flow(&ends[1], &ends[0], t, 1);
	move_all(ends);
	close_end(&ends[0]);
	close_end(&ends[1]);
	provider->cleanup();
	CHECK(!fake_verbs_count().objects, "%u objects of the devices are left",
	      fake_verbs_count().objects);
	fake_verbs_stop();
	remap_report();
	printf("%llu registrations\n", (unsigned long long)registered);
}

static void set_parameters(void)
{
	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	setenv("FI_TAGRV_PROTO", "get:8k-60k,put:60k-120k,copy:120k-180k,pipeline:180k-", 0);
	setenv("FI_TAGRV_READ_SEGMENT", "65536", 0);
	setenv("FI_TAGRV_PROFILE", "none", 0);
}

int main(int argc, char **argv)
{
	static const struct test_case one = { "remap_devices", "", remap_devices, .ranks = 1, .self = true };

	set_parameters();
	return remap_main(&one, argc, argv);
}
