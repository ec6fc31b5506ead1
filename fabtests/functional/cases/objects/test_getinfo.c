/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: what it offers, returns unchanged and refuses for given hints.
 */
#include "cases/cases.h"
#include "framework/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TX_CAPS_ALLOWED                                                                            \
	(uint64_t)                                                                                 \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTICAST | FI_NAMED_RX_CTX | FI_HMEM |      \
	 FI_COLLECTIVE | FI_SEND | FI_READ | FI_WRITE | FI_TRIGGER | FI_FENCE | FI_RMA_PMEM)
#define RX_CAPS_ALLOWED                                                                            \
	(uint64_t)                                                                                 \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_DIRECTED_RECV | FI_HMEM | FI_COLLECTIVE |    \
	 FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT |   \
	 FI_MULTI_RECV | FI_TRIGGER | FI_RMA_PMEM)

static const struct fx_attr plain;

static int ask(const struct fi_info *hints, struct fi_info **info)
{
	*info = NULL;
	return fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
}

static struct fi_info *must_ask(const struct fi_info *hints)
{
	struct fi_info *info;

	CHECK_OK(ask(hints, &info));
	CHECK(info, "fi_getinfo succeeded without info");
	return info;
}

static void must_refuse(const struct fi_info *hints, const char *what)
{
	struct fi_info *info;
	int ret = ask(hints, &info);

	CHECK(ret == -FI_ENODATA, "%s: fi_getinfo gave %d, want -FI_ENODATA", what, ret);
}

static bool is_provider(const char *name, const char *want)
{
	size_t len = strlen(want);

	return name && !strncmp(name, want, len) && (name[len] == '\0' || name[len] == ';');
}

static void check_names(const struct test *t, const struct fi_info *info)
{
	const char *name = info->fabric_attr->prov_name;

	CHECK(is_provider(name, t->opt->provider), "prov_name is %s", name ? name : "NULL");
	CHECK(info->fabric_attr->name && info->fabric_attr->name[0], "the fabric has no name");
	CHECK(info->domain_attr->name && info->domain_attr->name[0], "the domain has no name");
	CHECK(info->fabric_attr->api_version == FI_VERSION(1, 17), "api_version 0x%x",
	      info->fabric_attr->api_version);
}

static void check_limits(const struct fi_info *info)
{
	CHECK(info->domain_attr->cq_data_size >= 4, "cq_data_size %zu",
	      info->domain_attr->cq_data_size);
	CHECK(info->tx_attr->inject_size >= 256, "inject_size %zu", info->tx_attr->inject_size);
	CHECK(info->tx_attr->iov_limit >= 4, "tx iov_limit %zu", info->tx_attr->iov_limit);
	CHECK(info->rx_attr->iov_limit >= 4, "rx iov_limit %zu", info->rx_attr->iov_limit);
	CHECK(info->ep_attr->max_msg_size >= 1UL << 30, "max_msg_size %zu",
	      info->ep_attr->max_msg_size);
	CHECK(info->ep_attr->mem_tag_format >> (fx_devices_match() ? 47 : 63), "mem_tag_format 0x%" PRIx64,
	      info->ep_attr->mem_tag_format);
	CHECK(info->tx_attr->size >= 64 && info->rx_attr->size >= 64, "queue sizes %zu, %zu",
	      info->tx_attr->size, info->rx_attr->size);
}

static void check_info(const struct test *t, const struct fi_info *info)
{
	check_names(t, info);
	check_limits(info);
	CHECK(info->ep_attr->type == FI_EP_RDM, "endpoint type %d", info->ep_attr->type);
	CHECK(!info->mode, "mode 0x%" PRIx64 " demanded, none offered", info->mode);
	CHECK(!info->domain_attr->mr_mode, "mr_mode 0x%x demanded, none offered",
	      info->domain_attr->mr_mode);
	CHECK(info->domain_attr->resource_mgmt == FI_RM_ENABLED, "no resource management");
	CHECK(info->tx_attr->msg_order & FI_ORDER_SAS, "no send-after-send order");
	CHECK(info->src_addr && info->src_addrlen, "no source address");
}

static void basics(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *info = must_ask(hints);

	for (const struct fi_info *i = info; i; i = i->next)
		check_info(t, i);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void no_hints(struct test *t)
{
	struct fi_info *info = must_ask(NULL);
	bool rdm = false;

	for (const struct fi_info *i = info; i; i = i->next) {
		CHECK(is_provider(i->fabric_attr->prov_name, t->opt->provider),
		      "FI_PROVIDER is ignored: %s", i->fabric_attr->prov_name);
		CHECK(i->src_addr, "info without source address");
		rdm = rdm || (i->ep_attr->type == FI_EP_RDM && i->caps & FI_TAGGED);
	}
	CHECK(rdm, "no reliable datagram endpoint without hints");
	fi_freeinfo(info);
}

static void round_trip_one(struct fi_info *own, bool with_address)
{
	struct fi_info *hints = fi_dupinfo(own);
	struct fi_info *info;

	if (!with_address) {
		free(hints->src_addr);
		hints->src_addr = NULL;
		hints->src_addrlen = 0;
	}
	info = must_ask(hints);
	CHECK(!strcmp(info->domain_attr->name, own->domain_attr->name), "domain %s became %s",
	      own->domain_attr->name, info->domain_attr->name);
	CHECK(!strcmp(info->fabric_attr->name, own->fabric_attr->name), "fabric %s became %s",
	      own->fabric_attr->name, info->fabric_attr->name);
	CHECK((info->caps & own->caps) == own->caps, "caps 0x%" PRIx64 " became 0x%" PRIx64,
	      own->caps, info->caps);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void round_trip(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *list = must_ask(hints);

	for (struct fi_info *i = list; i; i = i->next) {
		run_step("domain %s", i->domain_attr->name);
		round_trip_one(i, false);
		round_trip_one(i, true);
	}
	fi_freeinfo(list);
	fi_freeinfo(hints);
}

static void endpoint_types(struct test *t)
{
	/* The last two are the socket types, which newer headers do not define. */
	static const int types[] = { FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM + 1, FI_EP_RDM + 2 };
	struct fi_info *hints = fx_hints(t, &plain);

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		char what[32];

		snprintf(what, sizeof(what), "endpoint type %d", types[i]);
		hints->ep_attr->type = (enum fi_ep_type)types[i];
		must_refuse(hints, what);
	}
	hints->ep_attr->type = FI_EP_UNSPEC;
	fi_freeinfo(must_ask(hints));
	fi_freeinfo(hints);
}

static void refused(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);

	hints->caps = FI_TAGGED | 1ULL << 40;
	must_refuse(hints, "an undefined capability");
	hints->caps = FI_TAGGED;
	hints->tx_attr->caps = FI_TAGGED | 1ULL << 40;
	must_refuse(hints, "an undefined tx capability");
	hints->tx_attr->caps = 0;
	hints->tx_attr->inject_size = 1UL << 40;
	must_refuse(hints, "a huge inject_size");
	hints->tx_attr->inject_size = 0;
	hints->tx_attr->iov_limit = 1UL << 20;
	must_refuse(hints, "a huge iov_limit");
	hints->tx_attr->iov_limit = 0;
	hints->domain_attr->cq_data_size = 64;
	must_refuse(hints, "64 bytes of CQ data");
	hints->domain_attr->cq_data_size = 0;
	hints->tx_attr->op_flags = FI_COMMIT_COMPLETE;
	must_refuse(hints, "FI_COMMIT_COMPLETE");
	hints->tx_attr->op_flags = 0;
	hints->addr_format = FI_ADDR_PSMX;
	must_refuse(hints, "a foreign address format");
	hints->addr_format = FI_ADDR_STR;
	must_refuse(hints, "addresses as text");
	hints->addr_format = FI_FORMAT_UNSPEC;
	fi_freeinfo(must_ask(hints));
	fi_freeinfo(hints);
}

static void unknown_names(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);

	hints->domain_attr->name = strdup("no-such-domain");
	must_refuse(hints, "an unknown domain");
	free(hints->domain_attr->name);
	hints->domain_attr->name = NULL;
	hints->fabric_attr->name = strdup("no-such-fabric");
	must_refuse(hints, "an unknown fabric");
	fi_freeinfo(hints);
}

static void check_caps(const struct fi_info *info, uint64_t want)
{
	uint64_t tx = info->tx_attr->caps, rx = info->rx_attr->caps;

	CHECK((info->caps & want) == want, "caps 0x%" PRIx64 " lack some of 0x%" PRIx64,
	      info->caps, want);
	CHECK(!(tx & ~TX_CAPS_ALLOWED), "tx caps 0x%" PRIx64 " hold 0x%" PRIx64, tx,
	      tx & ~TX_CAPS_ALLOWED);
	CHECK(!(rx & ~RX_CAPS_ALLOWED), "rx caps 0x%" PRIx64 " hold 0x%" PRIx64, rx,
	      rx & ~RX_CAPS_ALLOWED);
	CHECK(!(tx & ~info->caps), "tx caps 0x%" PRIx64 " beyond caps", tx);
	CHECK(!(rx & ~info->caps), "rx caps 0x%" PRIx64 " beyond caps", rx);
	CHECK((rx & want & RX_CAPS_ALLOWED) == (want & RX_CAPS_ALLOWED),
	      "rx caps 0x%" PRIx64 " lack some of 0x%" PRIx64, rx, want & RX_CAPS_ALLOWED);
}

static void caps_sets(struct test *t)
{
	static const uint64_t bits[] = {
		FI_MSG,	     FI_TAGGED,	   FI_RMA,  FI_ATOMIC,	   FI_DIRECTED_RECV,
		FI_MULTICAST, FI_NAMED_RX_CTX, FI_HMEM, FI_COLLECTIVE,
	};
	struct fi_info *hints = fx_hints(t, &plain);

	for (unsigned int set = 1; set < 1U << 9; set++) {
		struct fi_info *info;

		hints->caps = 0;
		for (int i = 0; i < 9; i++)
			hints->caps |= set >> i & 1 ? bits[i] : 0;
		run_step("caps 0x%" PRIx64, hints->caps);
		if (ask(hints, &info))
			CHECK(set & ~0x13U || !(set & 0x3U), "a messaging endpoint is refused");
		else
			check_caps(info, hints->caps);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void caps_needed(struct test *t)
{
	static const uint64_t sets[] = {
		FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV,
		FI_TAGGED | FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM,
		FI_MSG | FI_TAGGED | FI_SEND | FI_RECV,
		FI_MSG | FI_TAGGED | FI_SOURCE,
		FI_MSG | FI_TAGGED | FI_SEND,
		FI_TAGGED | FI_RECV,
	};
	struct fi_info *hints = fx_hints(t, &plain);

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		struct fi_info *info;

		run_step("caps 0x%" PRIx64, sets[i]);
		hints->caps = sets[i];
		if (t->opt->self)
			hints->caps &= ~FI_REMOTE_COMM;
		info = must_ask(hints);
		CHECK((info->caps & hints->caps) == hints->caps, "caps 0x%" PRIx64, info->caps);
		CHECK(!(info->tx_attr->caps & ~TX_CAPS_ALLOWED), "tx caps 0x%" PRIx64,
		      info->tx_attr->caps);
		CHECK(!(info->rx_attr->caps & ~RX_CAPS_ALLOWED), "rx caps 0x%" PRIx64,
		      info->rx_attr->caps);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void op_flags(struct test *t)
{
	static const uint64_t flags[] = {
		0,
		FI_COMPLETION,
		FI_INJECT,
		FI_INJECT_COMPLETE,
		FI_TRANSMIT_COMPLETE,
		FI_DELIVERY_COMPLETE,
		FI_COMPLETION | FI_DELIVERY_COMPLETE,
	};
	struct fi_info *hints = fx_hints(t, &plain);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct fi_info *info;

		run_step("op_flags 0x%" PRIx64, flags[i]);
		hints->tx_attr->op_flags = flags[i];
		hints->rx_attr->op_flags = flags[i] & FI_COMPLETION;
		info = must_ask(hints);
		CHECK(info->tx_attr->op_flags == flags[i], "tx op_flags came back as 0x%" PRIx64,
		      info->tx_attr->op_flags);
		CHECK(info->rx_attr->op_flags == (flags[i] & FI_COMPLETION),
		      "rx op_flags came back as 0x%" PRIx64, info->rx_attr->op_flags);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void threading(struct test *t)
{
	static const enum fi_threading models[] = {
		FI_THREAD_SAFE, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_UNSPEC,
	};
	struct fi_info *hints = fx_hints(t, &plain);

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		struct fi_info *info;
		enum fi_threading want = models[i] ? models[i] : FI_THREAD_SAFE;

		hints->domain_attr->threading = models[i];
		info = must_ask(hints);
		CHECK(info->domain_attr->threading == want, "threading %d came back as %d", models[i],
		      info->domain_attr->threading);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void progress(struct test *t)
{
	static const enum fi_progress models[] = { FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO };
	struct fi_info *hints = fx_hints(t, &plain);

	for (int i = 0; i < 4; i++) {
		enum fi_progress data = models[i & 1], control = models[i >> 1];
		struct fi_info *info;

		run_step("data progress %d, control progress %d", data, control);
		hints->domain_attr->data_progress = data;
		hints->domain_attr->control_progress = control;
		if (ask(hints, &info)) {
			CHECK(i, "manual progress is refused");
			continue;
		}
		CHECK(info->domain_attr->data_progress == data, "data progress came back as %d",
		      info->domain_attr->data_progress);
		CHECK(info->domain_attr->control_progress == control,
		      "control progress came back as %d", info->domain_attr->control_progress);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void av_types(struct test *t)
{
	static const enum fi_av_type types[] = { FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE };
	struct fi_info *hints = fx_hints(t, &plain);

	for (int i = 0; i < 3; i++) {
		struct fi_info *info;

		hints->domain_attr->av_type = types[i];
		info = must_ask(hints);
		CHECK(info->domain_attr->av_type == types[i], "av_type %d came back as %d", types[i],
		      info->domain_attr->av_type);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void mr_modes(struct test *t)
{
	static const int bits[] = {
		FI_MR_LOCAL,	FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY,
		FI_MR_ENDPOINT, FI_MR_RAW,	 FI_MR_HMEM,
	};
	struct fi_info *hints = fx_hints(t, &plain);

	for (unsigned int set = 0; set < 1U << 7; set++) {
		struct fi_info *info;
		int mode = 0;

		for (int i = 0; i < 7; i++)
			mode |= set >> i & 1 ? bits[i] : 0;
		run_step("mr_mode 0x%x", (unsigned int)mode);
		hints->domain_attr->mr_mode = mode;
		info = must_ask(hints);
		CHECK(!(info->domain_attr->mr_mode & ~mode), "mr_mode came back as 0x%x",
		      (unsigned int)info->domain_attr->mr_mode);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void modes(struct test *t)
{
	uint64_t offered = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *info;

	hints->mode = offered;
	hints->domain_attr->mode = offered;
	info = must_ask(hints);
	CHECK(!(info->mode & ~offered), "mode came back as 0x%" PRIx64, info->mode);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* A size in the hints is a minimum; the result has the provider's real size. */
static void sizes(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *info;

	hints->ep_attr->max_msg_size = 1024;
	hints->domain_attr->cq_data_size = 4;
	hints->tx_attr->inject_size = 16;
	hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
	info = must_ask(hints);
	CHECK(info->ep_attr->max_msg_size > 1024, "max_msg_size shrank to the hint");
	CHECK(info->tx_attr->inject_size >= 16, "inject_size %zu", info->tx_attr->inject_size);
	fi_freeinfo(info);
	hints->tx_attr->tclass = FI_TC_BULK_DATA;
	fi_freeinfo(must_ask(hints));
	fi_freeinfo(hints);
}

static void versions(struct test *t)
{
	static const uint32_t minors[] = { 5, 9, 11, 17 };
	struct fi_info *hints = fx_hints(t, &plain);

	for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++) {
		uint32_t version = FI_VERSION(1, minors[i]);
		struct fi_info *info = NULL;

		CHECK_OK(fi_getinfo((int)version, NULL, NULL, 0, hints, &info));
		CHECK(info->fabric_attr->api_version == version, "asked 0x%x, got 0x%x", version,
		      info->fabric_attr->api_version);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

static void repeated(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);

	for (int i = 0; i < 300; i++)
		fi_freeinfo(must_ask(hints));
	fi_freeinfo(hints);
}

const struct test_case getinfo_cases[] = {
	{ "getinfo_basics", "names, limits and modes of the endpoint", basics, .ranks = 1 },
	{ "getinfo_no_hints", "without hints an endpoint with address is offered", no_hints, .ranks = 1 },
	{ "getinfo_round_trip", "own info is accepted as hints", round_trip, .ranks = 1 },
	{ "getinfo_endpoint_types", "only FI_EP_RDM is offered", endpoint_types, .ranks = 1 },
	{ "getinfo_refused", "what cannot be had gives -FI_ENODATA", refused, .ranks = 1 },
	{ "getinfo_unknown_names", "unknown fabric or domain gives -FI_ENODATA", unknown_names, .ranks = 1 },
	{ "getinfo_caps_sets", "512 sets of caps: refused, or contained in caps, tx and rx caps", caps_sets, .ranks = 1 },
	{ "getinfo_caps_needed", "sets of caps that MPI and fabtests ask for are offered", caps_needed, .ranks = 1 },
	{ "getinfo_op_flags", "operation flags come back as asked", op_flags, .ranks = 1 },
	{ "getinfo_threading", "the threading model comes back as asked", threading, .ranks = 1 },
	{ "getinfo_progress", "the progress models come back as asked", progress, .ranks = 1 },
	{ "getinfo_av_types", "the AV type comes back as asked", av_types, .ranks = 1 },
	{ "getinfo_mr_modes", "no registration mode is demanded beyond the hint", mr_modes, .ranks = 1 },
	{ "getinfo_modes", "no mode is demanded beyond the hint", modes, .ranks = 1 },
	{ "getinfo_sizes", "sizes are minima, traffic classes only advice", sizes, .ranks = 1 },
	{ "getinfo_versions", "older API versions are served", versions, .ranks = 1 },
	{ "getinfo_repeated", "300 calls in a row", repeated, .ranks = 1 },
	{ 0 },
};
