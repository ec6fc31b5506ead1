/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Prints all that a provider offers, one line each, such as 'caps FI_TAGGED'. The
 * program asks for each bit and each value there can be, because fi_info without
 * hints shows only the defaults.
 */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/old_names.h"

#define VERSION		FI_VERSION(1, 17)
#define BASE_CAPS	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE)
#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))

enum { VALUES = 64 };	/* more than any enumeration has */

struct word {
	uint64_t value;
	const char *name;
};

#define WORD(name) { name, #name }
#define OLD(name) { OLD_##name, "FI_" #name }

static const struct word caps[] = {
	WORD(FI_MSG), WORD(FI_RMA), WORD(FI_TAGGED), WORD(FI_ATOMIC), WORD(FI_MULTICAST),
	WORD(FI_COLLECTIVE), WORD(FI_READ), WORD(FI_WRITE), WORD(FI_RECV), WORD(FI_SEND),
	WORD(FI_REMOTE_READ), WORD(FI_REMOTE_WRITE), WORD(FI_MULTI_RECV), WORD(FI_TRIGGER),
	WORD(FI_FENCE), WORD(FI_HMEM), WORD(FI_VARIABLE_MSG), WORD(FI_RMA_PMEM),
	WORD(FI_SOURCE_ERR), WORD(FI_LOCAL_COMM), WORD(FI_REMOTE_COMM), WORD(FI_SHARED_AV),
	WORD(FI_RMA_EVENT), WORD(FI_SOURCE), WORD(FI_NAMED_RX_CTX), WORD(FI_DIRECTED_RECV),
};
static const struct word flags[] = {
	WORD(FI_MULTI_RECV), WORD(FI_REMOTE_CQ_DATA), WORD(FI_MORE), WORD(FI_PEEK), WORD(FI_TRIGGER),
	WORD(FI_FENCE), WORD(FI_COMPLETION), WORD(FI_INJECT), WORD(FI_INJECT_COMPLETE),
	WORD(FI_TRANSMIT_COMPLETE), WORD(FI_DELIVERY_COMPLETE), WORD(FI_MATCH_COMPLETE),
	WORD(FI_COMMIT_COMPLETE), WORD(FI_CLAIM), WORD(FI_DISCARD),
};
static const struct word modes[] = {
	WORD(FI_CONTEXT), WORD(FI_MSG_PREFIX), WORD(FI_ASYNC_IOV), WORD(FI_RX_CQ_DATA),
	OLD(LOCAL_MR), WORD(FI_CONTEXT2),
};
static const struct word orders[] = {
	WORD(FI_ORDER_RAR), WORD(FI_ORDER_RAW), WORD(FI_ORDER_RAS), WORD(FI_ORDER_WAR),
	WORD(FI_ORDER_WAW), WORD(FI_ORDER_WAS), WORD(FI_ORDER_SAR), WORD(FI_ORDER_SAW),
	WORD(FI_ORDER_SAS), OLD(ORDER_DATA), WORD(FI_ORDER_RMA_RAR), WORD(FI_ORDER_RMA_RAW),
	WORD(FI_ORDER_RMA_WAR), WORD(FI_ORDER_RMA_WAW), WORD(FI_ORDER_ATOMIC_RAR),
	WORD(FI_ORDER_ATOMIC_RAW), WORD(FI_ORDER_ATOMIC_WAR), WORD(FI_ORDER_ATOMIC_WAW),
};
static const struct word threadings[] = {
	WORD(FI_THREAD_SAFE), WORD(FI_THREAD_FID), WORD(FI_THREAD_DOMAIN),
	WORD(FI_THREAD_COMPLETION), WORD(FI_THREAD_ENDPOINT),
};
static const struct word progresses[] = {
	WORD(FI_PROGRESS_AUTO), WORD(FI_PROGRESS_MANUAL), { 3, "FI_PROGRESS_CONTROL_UNIFIED" },
};
static const struct word av_types[] = { WORD(FI_AV_MAP), WORD(FI_AV_TABLE) };
static const struct word mr_modes[] = {
	OLD(MR_BASIC), OLD(MR_SCALABLE), WORD(FI_MR_LOCAL), WORD(FI_MR_RAW),
	WORD(FI_MR_VIRT_ADDR), WORD(FI_MR_ALLOCATED), WORD(FI_MR_PROV_KEY),
	WORD(FI_MR_MMU_NOTIFY), WORD(FI_MR_RMA_EVENT), WORD(FI_MR_ENDPOINT), WORD(FI_MR_HMEM),
	WORD(FI_MR_COLLECTIVE),
};
static const struct word ep_types[] = {
	WORD(FI_EP_MSG), WORD(FI_EP_DGRAM), WORD(FI_EP_RDM), { 4, "FI_EP_SOCK_STREAM" },
	{ 5, "FI_EP_SOCK_DGRAM" },
};
static const struct word addr_formats[] = {
	WORD(FI_SOCKADDR), WORD(FI_SOCKADDR_IN), WORD(FI_SOCKADDR_IN6), WORD(FI_SOCKADDR_IB),
	WORD(FI_ADDR_STR),
};
static const struct word cq_formats[] = {
	WORD(FI_CQ_FORMAT_CONTEXT), WORD(FI_CQ_FORMAT_MSG), WORD(FI_CQ_FORMAT_DATA),
	WORD(FI_CQ_FORMAT_TAGGED),
};
static const struct word wait_objs[] = {
	WORD(FI_WAIT_NONE), WORD(FI_WAIT_UNSPEC), WORD(FI_WAIT_SET), WORD(FI_WAIT_FD),
	WORD(FI_WAIT_MUTEX_COND), WORD(FI_WAIT_YIELD), WORD(FI_WAIT_POLLFD),
};

static const struct word wait_conds[] = {
	WORD(FI_CQ_COND_NONE), WORD(FI_CQ_COND_THRESHOLD),
};

static const char *provider = "tagrv";

static void die(const char *call, long ret)
{
	fprintf(stderr, "tagrv_offers: %s: %ld (%s)\n", call, ret, fi_strerror((int)-ret));
	exit(EXIT_FAILURE);
}

static void must(long ret, const char *call)
{
	if (ret)
		die(call, ret);
}

/* Prints a value, also one that the headers of this version do not name. */
static void print(const char *what, const struct word *words, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		if (words[i].value == value) {
			printf("%s %s\n", what, words[i].name);
			return;
		}
	printf("%s 0x%llx\n", what, (unsigned long long)value);
}

#define PRINT(what, words, value) print(what, words, COUNT(words), value)

static struct fi_info *hints_new(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		die("fi_allocinfo", -FI_ENOMEM);
	hints->caps = BASE_CAPS;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(provider);
	return hints;
}

/* Returns what fi_getinfo gives for the hints; NULL: refused. drop() frees both. */
static struct fi_info *ask(const struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int ret = fi_getinfo(VERSION, NULL, NULL, 0, hints, &info);

	if (ret && ret != -FI_ENODATA)
		die("fi_getinfo", ret);
	return info;
}

static void drop(struct fi_info *hints, struct fi_info *info)
{
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* ---- fi_getinfo ---- */

enum mask { CAPS, TX_OP_FLAGS, RX_OP_FLAGS, TX_ORDER, COMP_ORDER };

static uint64_t *mask_of(struct fi_info *info, enum mask mask)
{
	switch (mask) {
	case CAPS:
		return &info->caps;
	case TX_OP_FLAGS:
		return &info->tx_attr->op_flags;
	case RX_OP_FLAGS:
		return &info->rx_attr->op_flags;
	case TX_ORDER:
		return &info->tx_attr->msg_order;
	default:
		return &info->tx_attr->comp_order;
	}
}

static void try_mask(enum mask mask, const char *what, const struct word *words, size_t n)
{
	for (int i = 0; i < 64; i++) {
		uint64_t bit = 1ULL << i;
		struct fi_info *hints = hints_new(), *info;

		*mask_of(hints, mask) |= bit;
		info = ask(hints);
		if (info && *mask_of(info, mask) & bit)
			print(what, words, n, bit);
		drop(hints, info);
	}
}

enum value { TYPE, THREADING, CONTROL_PROGRESS, DATA_PROGRESS, AV_TYPE, ADDR_FORMAT };

/* All these fields are enumerations or integers of that size. */
static void *value_of(struct fi_info *info, enum value value)
{
	switch (value) {
	case TYPE:
		return &info->ep_attr->type;
	case THREADING:
		return &info->domain_attr->threading;
	case CONTROL_PROGRESS:
		return &info->domain_attr->control_progress;
	case DATA_PROGRESS:
		return &info->domain_attr->data_progress;
	case AV_TYPE:
		return &info->domain_attr->av_type;
	default:
		return &info->addr_format;
	}
}

static void try_value(enum value value, const char *what, const struct word *words, size_t n)
{
	for (uint32_t i = 1; i < VALUES; i++) {
		struct fi_info *hints = hints_new(), *info;

		memcpy(value_of(hints, value), &i, sizeof(i));
		info = ask(hints);
		/* FI_SOCKADDR is answered by one of the formats that it stands for. */
		if (info && (value == ADDR_FORMAT || !memcmp(value_of(info, value), &i, sizeof(i))))
			print(what, words, n, i);
		drop(hints, info);
	}
}

/* FI_SHARED_CONTEXT as the number of contexts. */
static void try_shared(bool rx)
{
	struct fi_info *hints = hints_new(), *info;

	if (rx)
		hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	else
		hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	info = ask(hints);
	if (info)
		printf("%cx_ctx_cnt FI_SHARED_CONTEXT\n", rx ? 'r' : 't');
	drop(hints, info);
}

/* Bits of mr_mode that come back to an application which knows them. */
static void try_mr_modes(void)
{
	for (int i = 0; i < 31; i++) {
		struct fi_info *hints = hints_new(), *info;

		hints->domain_attr->mr_mode = 1 << i;
		info = ask(hints);
		if (info && info->domain_attr->mr_mode == 1 << i)
			print("mr_mode", mr_modes, COUNT(mr_modes), 1ULL << i);
		drop(hints, info);
	}
}

/* Prints the modes that the provider demands of an application which offers all. */
static void print_demands(void)
{
	struct fi_info *hints = hints_new(), *info;

	hints->mode = ~0ULL;
	info = ask(hints);
	for (int i = 0; info && i < 64; i++)
		if (info->mode >> i & 1)
			PRINT("mode", modes, 1ULL << i);
	drop(hints, info);
}

/* ---- attributes of objects ---- */

struct objects {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	fi_addr_t self;
};

static void must_close(struct fid *fid)
{
	must(fi_close(fid), "fi_close");
}

static void try_cqs(struct objects *o)
{
	for (int i = 1; i < VALUES; i++) {
		struct fi_cq_attr attr = { .format = (enum fi_cq_format)i };

		if (fi_cq_open(o->domain, &attr, &o->cq, NULL))
			continue;
		PRINT("cq_format", cq_formats, (uint64_t)i);
		must_close(&o->cq->fid);
	}
	for (int i = 0; i < VALUES; i++) {
		struct fi_cq_attr attr = { .wait_obj = (enum fi_wait_obj)i };

		if (fi_cq_open(o->domain, &attr, &o->cq, NULL))
			continue;
		PRINT("cq_wait_obj", wait_objs, (uint64_t)i);
		must_close(&o->cq->fid);
	}
	for (int i = 0; i < VALUES; i++) {
		struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC,
					   .wait_cond = (enum fi_cq_wait_cond)i };

		if (fi_cq_open(o->domain, &attr, &o->cq, NULL))
			continue;
		PRINT("cq_wait_cond", wait_conds, (uint64_t)i);
		must_close(&o->cq->fid);
	}
}

static void try_waits(struct objects *o)
{
	struct fid_cntr *cntr;
	struct fid_eq *eq;

	for (int i = 0; i < VALUES; i++) {
		struct fi_cntr_attr cntr_attr = { .wait_obj = (enum fi_wait_obj)i };
		struct fi_eq_attr eq_attr = { .wait_obj = (enum fi_wait_obj)i };

		if (!fi_cntr_open(o->domain, &cntr_attr, &cntr, NULL)) {
			PRINT("cntr_wait_obj", wait_objs, (uint64_t)i);
			must_close(&cntr->fid);
		}
		if (!fi_eq_open(o->fabric, &eq_attr, &eq, NULL)) {
			PRINT("eq_wait_obj", wait_objs, (uint64_t)i);
			must_close(&eq->fid);
		}
	}
}

static void open_ep(struct objects *o)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_UNSPEC };
	char name[128];
	size_t len = sizeof(name);

	must(fi_cq_open(o->domain, &cq, &o->cq, NULL), "fi_cq_open");
	must(fi_av_open(o->domain, &av, &o->av, NULL), "fi_av_open");
	must(fi_endpoint(o->domain, o->info, &o->ep, NULL), "fi_endpoint");
	must(fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	must(fi_ep_bind(o->ep, &o->av->fid, 0), "fi_ep_bind");
	must(fi_enable(o->ep), "fi_enable");
	must(fi_getname(&o->ep->fid, name, &len), "fi_getname");
	must(fi_av_insert(o->av, name, 1, &o->self, 0, NULL) - 1, "fi_av_insert");
}

/* Tries flags of calls, on an endpoint connected to itself; completions are ignored. */
static void try_call_flags(struct objects *o)
{
	static struct fi_context2 ctx[64];
	static char room[64];

	for (int i = 0; i < 64; i++) {
		struct iovec iov = { room, sizeof(room) };
		struct fi_msg_tagged msg = { .addr = o->self, .tag = 1, .context = &ctx[i] };
		struct fi_msg_tagged in = { .addr = FI_ADDR_UNSPEC, .tag = 2, .context = &ctx[i] };
		struct fi_msg multi = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
					.context = &ctx[i] };
		uint64_t bit = 1ULL << i;

		if (!fi_tsendmsg(o->ep, &msg, bit))
			PRINT("send_flags", flags, bit);
		if (!fi_trecvmsg(o->ep, &in, bit) || !fi_trecvmsg(o->ep, &in, bit | FI_PEEK))
			PRINT("trecv_flags", flags, bit);
		if (!fi_recvmsg(o->ep, &multi, bit))
			PRINT("recv_flags", flags, bit);
	}
}

/* The same of one-sided calls, on a region of this process. */
static void try_rma_flags(struct objects *o)
{
	static struct fi_context2 ctx[64];
	static uint64_t word, value, result;
	struct fi_ioc ioc = { &value, 1 }, to = { &result, 1 };
	struct fid_mr *mr;

	must(fi_mr_reg(o->domain, &word, sizeof(word), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0,
		       &mr, NULL), "fi_mr_reg");
	for (int i = 0; i < 64; i++) {
		struct fi_rma_iov at = { 0, 0, fi_mr_key(mr) };
		struct fi_rma_ioc one = { 0, 1, fi_mr_key(mr) };
		struct fi_msg_rma rma = { .addr = o->self, .rma_iov = &at, .rma_iov_count = 1,
					  .context = &ctx[i] };
		struct fi_msg_atomic atomic = { .msg_iov = &ioc, .iov_count = 1, .addr = o->self,
						.rma_iov = &one, .rma_iov_count = 1,
						.datatype = FI_UINT64, .op = FI_SUM,
						.context = &ctx[i] };
		uint64_t bit = 1ULL << i;

		if (!fi_readmsg(o->ep, &rma, bit))
			PRINT("read_flags", flags, bit);
		if (!fi_writemsg(o->ep, &rma, bit))
			PRINT("write_flags", flags, bit);
		if (!fi_atomicmsg(o->ep, &atomic, bit))
			PRINT("atomic_flags", flags, bit);
		if (!fi_fetch_atomicmsg(o->ep, &atomic, &to, NULL, 1, bit))
			PRINT("fetch_flags", flags, bit);
	}
	must_close(&mr->fid);
}

static void try_objects(void)
{
	struct fi_info *hints = hints_new();
	struct objects o = { .info = ask(hints) };

	if (!o.info)
		die("fi_getinfo", -FI_ENODATA);
	must(fi_fabric(o.info->fabric_attr, &o.fabric, NULL), "fi_fabric");
	must(fi_domain(o.fabric, o.info, &o.domain, NULL), "fi_domain");
	try_cqs(&o);
	try_waits(&o);
	open_ep(&o);
	try_call_flags(&o);
	try_rma_flags(&o);
	must_close(&o.ep->fid);
	must_close(&o.cq->fid);
	must_close(&o.av->fid);
	must_close(&o.domain->fid);
	must_close(&o.fabric->fid);
	drop(hints, o.info);
}

/* Prints an info as fi_info -v does. */
static void print_info(uint64_t wanted)
{
	struct fi_info *hints = hints_new(), *info;

	hints->caps = wanted;
	info = ask(hints);
	for (const struct fi_info *i = info; i; i = i->next)
		printf("%s\n", fi_tostr(i, FI_TYPE_INFO));
	drop(hints, info);
}

#define TRY_MASK(mask, what, words) try_mask(mask, what, words, COUNT(words))
#define TRY_VALUE(value, what, words) try_value(value, what, words, COUNT(words))

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--info")) {
		print_info(0);
		/* Adds what only infos with FI_SOURCE_ERR have. */
		print_info(BASE_CAPS | FI_SOURCE_ERR);
		return EXIT_SUCCESS;
	}
	if (argc > 1) {
		puts("usage: tagrv_offers [--info]\n\n"
		     "Print everything that the provider offers, one line each; with --info print its\n"
		     "infos as fi_info -v does.");
		return strcmp(argv[1], "--help") ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	TRY_MASK(CAPS, "caps", caps);
	TRY_MASK(TX_OP_FLAGS, "tx_op_flags", flags);
	TRY_MASK(RX_OP_FLAGS, "rx_op_flags", flags);
	TRY_MASK(TX_ORDER, "msg_order", orders);
	TRY_MASK(COMP_ORDER, "comp_order", orders);
	TRY_VALUE(TYPE, "type", ep_types);
	TRY_VALUE(THREADING, "threading", threadings);
	TRY_VALUE(CONTROL_PROGRESS, "control_progress", progresses);
	TRY_VALUE(DATA_PROGRESS, "data_progress", progresses);
	TRY_VALUE(AV_TYPE, "av_type", av_types);
	TRY_VALUE(ADDR_FORMAT, "addr_format", addr_formats);
	try_mr_modes();
	try_shared(false);
	try_shared(true);
	print_demands();
	try_objects();
	return EXIT_SUCCESS;
}
