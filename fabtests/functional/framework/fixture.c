/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens and closes the objects of one endpoint in the order that libfabric demands.
 */
#include "fixture.h"
#include "completion.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void hint_domain(struct fi_domain_attr *domain, const struct fx_attr *attr)
{
	domain->threading = attr->threading ? attr->threading : FI_THREAD_DOMAIN;
	domain->data_progress = attr->progress ? attr->progress : FI_PROGRESS_MANUAL;
	domain->resource_mgmt = FI_RM_ENABLED;
	domain->av_type = attr->av_type;
	domain->mr_mode = attr->mr_mode;
}

struct fi_info *fx_hints(const struct test *t, const struct fx_attr *attr)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints, "fi_allocinfo: no memory");
	hints->caps = attr->caps ? attr->caps : FI_MSG | FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->op_flags = attr->tx_flags;
	hints->rx_attr->op_flags = attr->rx_flags;
	hints->rx_attr->size = attr->rx_size;
	hints->tx_attr->msg_order = attr->order ? attr->order : FI_ORDER_SAS;
	hints->rx_attr->msg_order = hints->tx_attr->msg_order;
	hint_domain(hints->domain_attr, attr);
	if (attr->srx)
		hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->fabric_attr->prov_name = strdup(t->opt->provider);
	return hints;
}

bool fx_devices_match(void)
{
	const char *value = getenv("FI_TAGRV_HW_TAGS");

	return value && !strcmp(value, "1");
}

int fx_try_info(const struct test *t, const struct fx_attr *attr, struct fi_info **info)
{
	const char *node = t->opt->address[t->rank % 2];
	struct fi_info *hints = fx_hints(t, attr);
	uint64_t flags = node || attr->service ? FI_SOURCE : 0;
	int ret;

	*info = NULL;
	ret = fi_getinfo(FI_VERSION(1, 17), node, attr->service, flags, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static void open_eq(struct fx *fx)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };

	CHECK_OK(fi_eq_open(fx->fabric, &eq, &fx->eq, NULL));
}

static void open_fabric(struct fx *fx)
{
	if (fx->attr.share) {
		fx->fabric = fx->attr.share->fabric;
		fx->domain = fx->attr.share->domain;
		return;
	}
	fx->tag_bits = ~0ULL >> __builtin_clzll(fx->info->ep_attr->mem_tag_format | 1);
	CHECK_OK(fi_fabric(fx->info->fabric_attr, &fx->fabric, NULL));
	open_eq(fx);
	fx->info->domain_attr->mr_mode |= fx->attr.mr_insist;
	CHECK_OK(fi_domain(fx->fabric, fx->info, &fx->domain, NULL));
}

void fx_open_domain(struct test *t, struct fx *fx, const struct fx_attr *attr)
{
	int ret;

	memset(fx, 0, sizeof(*fx));
	fx->t = t;
	fx->attr = *attr;
	ret = fx_try_info(t, attr, &fx->info);
	CHECK(!ret, "provider %s offers no such endpoint: fi_getinfo: %d (%s)", t->opt->provider,
	      ret, fi_strerror(-ret));
	open_fabric(fx);
}

static void open_cqs(struct fx *fx)
{
	struct fi_cq_attr cq = {
		.size = fx->attr.cq_size,
		.format = fx->attr.format ? fx->attr.format : FI_CQ_FORMAT_TAGGED,
		.wait_obj = fx->attr.cq_wait ? fx->attr.cq_wait : FI_WAIT_NONE,
	};

	CHECK_OK(fi_cq_open(fx->domain, &cq, &fx->cq[FX_TX], NULL));
	if (fx->attr.one_cq)
		fx->cq[FX_RX] = fx->cq[FX_TX];
	else
		CHECK_OK(fi_cq_open(fx->domain, &cq, &fx->cq[FX_RX], NULL));
}

static void open_counters(struct fx *fx)
{
	struct fi_cntr_attr cntr = {
		.events = FI_CNTR_EVENTS_COMP,
		.wait_obj = FI_WAIT_UNSPEC,
	};

	for (int i = 0; fx->attr.onesided_counters && i < FX_ONESIDED; i++)
		CHECK_OK(fi_cntr_open(fx->domain, &cntr, &fx->onesided[i], NULL));
	if (!fx->attr.counters)
		return;
	CHECK_OK(fi_cntr_open(fx->domain, &cntr, &fx->cntr[FX_TX], NULL));
	CHECK_OK(fi_cntr_open(fx->domain, &cntr, &fx->cntr[FX_RX], NULL));
}

static bool shares_srx(const struct fx *fx)
{
	return fx->attr.srx && fx->attr.share;
}

static void open_av(struct fx *fx)
{
	struct fi_av_attr av = { .type = fx->attr.av_type, .count = 1 };

	if (shares_srx(fx))
		fx->av = fx->attr.share->av;
	else
		CHECK_OK(fi_av_open(fx->domain, &av, &fx->av, NULL));
}

static void open_srx(struct fx *fx)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };

	if (shares_srx(fx)) {
		fx->srx = fx->attr.share->srx;
		return;
	}
	CHECK_OK(fi_srx_context(fx->domain, fx->info->rx_attr, &fx->srx, NULL));
	if (!fx->attr.srx_queue)
		return;
	CHECK_OK(fi_cq_open(fx->domain, &cq, &fx->srx_cq, NULL));
	CHECK_OK(fi_ep_bind(fx->srx, &fx->srx_cq->fid, FI_RECV));
}

void fx_open_endpoint(struct fx *fx)
{
	size_t min = fx->attr.min_multi_recv;

	open_av(fx);
	open_cqs(fx);
	open_counters(fx);
	if (fx->attr.srx)
		open_srx(fx);
	CHECK_OK(fi_endpoint(fx->domain, fx->info, &fx->ep, NULL));
	if (min)
		CHECK_OK(fi_setopt(&fx_rx_ep(fx)->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
				   &min, sizeof(min)));
}

static void bind_counters(struct fx *fx)
{
	static const uint64_t flags[FX_ONESIDED] = {
		FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
	};

	if (fx->attr.counters) {
		CHECK_OK(fi_ep_bind(fx->ep, &fx->cntr[FX_TX]->fid, FI_SEND));
		CHECK_OK(fi_ep_bind(fx->ep, &fx->cntr[FX_RX]->fid, FI_RECV));
	}
	for (int i = 0; fx->attr.onesided_counters && i < FX_ONESIDED; i++)
		CHECK_OK(fi_ep_bind(fx->ep, &fx->onesided[i]->fid, flags[i]));
}

void fx_bind_all(struct fx *fx)
{
	CHECK_OK(fi_ep_bind(fx->ep, &fx->av->fid, 0));
	if (fx->srx)
		CHECK_OK(fi_ep_bind(fx->ep, &fx->srx->fid, 0));
	if (fx->eq)
		CHECK_OK(fi_ep_bind(fx->ep, &fx->eq->fid, 0));
	if (fx->attr.one_cq) {
		CHECK_OK(fi_ep_bind(fx->ep, &fx->cq[FX_TX]->fid,
				    FI_TRANSMIT | FI_RECV | fx->attr.tx_bind));
	} else {
		CHECK_OK(fi_ep_bind(fx->ep, &fx->cq[FX_TX]->fid, FI_TRANSMIT | fx->attr.tx_bind));
		CHECK_OK(fi_ep_bind(fx->ep, &fx->cq[FX_RX]->fid, FI_RECV | fx->attr.rx_bind));
	}
	bind_counters(fx);
}

void fx_insert(struct fx *fx, int rank)
{
	fx->addr[rank] = FI_ADDR_NOTAVAIL;
	CHECK(fi_av_insert(fx->av, fx->name[rank], 1, &fx->addr[rank], 0, NULL) == 1,
	      "the address of rank %d cannot be inserted", rank);
	CHECK(fx->addr[rank] != FI_ADDR_NOTAVAIL, "insert gave no fi_addr");
}

void fx_exchange_names(struct fx *fx)
{
	struct run_gathered all;
	size_t len = FX_NAME_MAX;

	CHECK_OK(fi_getname(&fx->ep->fid, fx->name[fx->t->rank], &len));
	CHECK(len > 0 && len <= FX_NAME_MAX, "fi_getname: length %zu", len);
	fx->namelen = len;
	fx_exchange(fx, fx->name[fx->t->rank], len, &all);
	for (int i = 0; i < fx->t->ranks; i++) {
		fx->addr[i] = FI_ADDR_NOTAVAIL;
		memcpy(fx->name[i], all.data[i], all.len[i] < FX_NAME_MAX ? all.len[i] : 0);
		if (all.len[i] && !fx->attr.stranger)
			fx_insert(fx, i);
	}
	fx->peer = fx->addr[fx->t->ranks == 1 ? 0 : fx->t->rank == 0];
}

void fx_open(struct test *t, struct fx *fx, const struct fx_attr *attr)
{
	run_phase("opening");
	fx_open_domain(t, fx, attr);
	fx_open_endpoint(fx);
	fx_bind_all(fx);
	if (attr->disabled)
		return;
	CHECK_OK(fi_enable(fx->ep));
	fx_exchange_names(fx);
	run_phase("open");
}

void fx_open_or_skip(struct test *t, struct fx *fx, const struct fx_attr *attr, const char *what)
{
	struct fi_info *info;
	int ret = fx_try_info(t, attr, &info);

	if (ret == -FI_ENODATA)
		run_skip("the provider offers no %s", what);
	fi_freeinfo(info);
	fx_open(t, fx, attr);
}

static void close_fid(struct fid *fid, const char *what)
{
	int ret = fi_close(fid);

	CHECK(!ret, "closing the %s: %d (%s)", what, ret, fi_strerror(-ret));
}

static void close_queues(struct fx *fx)
{
	if (fx->cq[FX_RX] && fx->cq[FX_RX] != fx->cq[FX_TX])
		close_fid(&fx->cq[FX_RX]->fid, "receive CQ");
	if (fx->cq[FX_TX])
		close_fid(&fx->cq[FX_TX]->fid, "transmit CQ");
	for (int side = 0; side < 2; side++)
		if (fx->cntr[side])
			close_fid(&fx->cntr[side]->fid, "counter");
	for (int i = 0; i < FX_ONESIDED; i++)
		if (fx->onesided[i])
			close_fid(&fx->onesided[i]->fid, "counter");
}

static void close_domain(struct fx *fx)
{
	if (fx->attr.share)
		return;
	close_fid(&fx->domain->fid, "domain");
	if (fx->eq)
		close_fid(&fx->eq->fid, "EQ");
	close_fid(&fx->fabric->fid, "fabric");
}

void fx_close_now(struct fx *fx)
{
	run_phase("closing");
	if (fx->ep)
		close_fid(&fx->ep->fid, "endpoint");
	close_queues(fx);
	if (fx->av && !shares_srx(fx))
		close_fid(&fx->av->fid, "AV");
	if (fx->srx && !shares_srx(fx))
		close_fid(&fx->srx->fid, "shared receive context");
	if (fx->srx_cq)
		close_fid(&fx->srx_cq->fid, "shared receive context's CQ");
	close_domain(fx);
	fi_freeinfo(fx->info);
	memset(fx, 0, sizeof(*fx));
	run_phase("closed");
}

void fx_close(struct fx *fx)
{
	fx_barrier(fx);
	COMP_NONE(fx, 0);
	fx_close_now(fx);
}

void fx_progress(struct fx *fx)
{
	fi_cq_read(fx->cq[FX_TX], NULL, 0);
	if (fx->cq[FX_RX] != fx->cq[FX_TX])
		fi_cq_read(fx->cq[FX_RX], NULL, 0);
}

static void idle_once(void *arg)
{
	fx_progress(arg);
	fx_look(arg);
	sched_yield();
}

void fx_idle(struct fx *fx, int ms)
{
	int64_t end = run_now() + ms;

	do {
		idle_once(fx);
	} while (run_now() < end);
}

void fx_exchange(struct fx *fx, const void *mine, size_t len, struct run_gathered *all)
{
	run_exchange(fx->t, mine, len, all, idle_once, fx);
}

void fx_barrier(struct fx *fx)
{
	fx_exchange(fx, NULL, 0, NULL);
}

bool fx_is_inet(const struct fx *fx)
{
	return fx->info->addr_format == FI_SOCKADDR_IN ||
	       (fx->info->addr_format == FI_SOCKADDR &&
		fx->namelen == sizeof(struct sockaddr_in));
}
