/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: contents, echoes, refusals, memory.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/old_names.h"
#include "common/slowness.h"
#include "api/info/info_priv.h"
#ifdef HAVE_VERBS
#include "common/fake_verbs.h"
#endif
#include "unit/api/api_fixture.h"

TestSuite(info, .init = api_init, .timeout = 30);

#define ONE_SIDED_WAYS	(FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define FREE_ORDERS	((uint64_t) FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | \
			 FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | \
			 FI_ORDER_ATOMIC_WAW)

Test(info, without_hints_all_harmless_capabilities_are_offered)
{
	struct fi_info *info = api_must_getinfo(NULL);

	cr_expect_eq(info->caps, FI_MSG | FI_TAGGED | FI_SEND | FI_RECV |
		     FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |
		     FI_RMA | FI_ATOMIC | ONE_SIDED_WAYS | FI_RMA_EVENT |
		     FI_FENCE | FI_LOCAL_COMM);
	cr_expect_eq(info->mode, 0);
	cr_expect_eq(info->ep_attr->type, FI_EP_RDM);
	cr_expect_eq(info->ep_attr->mem_tag_format >> 63, 1);
	cr_expect_eq(info->domain_attr->threading, FI_THREAD_SAFE);
	cr_expect_eq(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	cr_expect_eq(info->domain_attr->control_progress, FI_PROGRESS_MANUAL);
	cr_expect_eq(info->domain_attr->av_type, FI_AV_UNSPEC);
	cr_expect_eq(info->domain_attr->mr_mode, 0);
	cr_expect_eq(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
	cr_expect_eq(info->domain_attr->mr_iov_limit, TAGRV_IOV_MAX);
	cr_expect_eq(info->domain_attr->mr_key_size, 8);
	cr_expect_eq(info->tx_attr->rma_iov_limit, TAGRV_IOV_MAX);
	cr_expect_eq(info->ep_attr->max_order_raw_size, SIZE_MAX);
	cr_expect_eq(info->ep_attr->max_order_war_size, SIZE_MAX);
	cr_expect_eq(info->ep_attr->max_order_waw_size, SIZE_MAX);
	cr_expect_eq(info->tx_attr->op_flags, 0);
	cr_expect_eq(info->tx_attr->msg_order, FREE_ORDERS);
	cr_expect_eq(info->rx_attr->msg_order, FREE_ORDERS);
	cr_expect_str_eq(info->domain_attr->name, "loop");
	cr_expect_str_eq(info->fabric_attr->name, "tagrv");
	cr_expect_null(info->fabric_attr->prov_name, "libfabric sets it");
	cr_expect_eq(info->fabric_attr->api_version, API_VERSION);
	cr_expect_null(info->next, "there is one device");
	fi_freeinfo(info);
}

/* A newer libfabric copies and reads more than our headers know. */
Test(info, every_struct_has_room_at_its_end)
{
	struct fi_info *info = api_must_getinfo(NULL);

	cr_expect_geq(malloc_usable_size(info), sizeof(*info) + 128);
	cr_expect_geq(malloc_usable_size(info->tx_attr),
		      sizeof(*info->tx_attr) + 128);
	cr_expect_geq(malloc_usable_size(info->rx_attr),
		      sizeof(*info->rx_attr) + 128);
	cr_expect_geq(malloc_usable_size(info->ep_attr),
		      sizeof(*info->ep_attr) + 128);
	cr_expect_geq(malloc_usable_size(info->domain_attr),
		      sizeof(*info->domain_attr) + 128);
	cr_expect_geq(malloc_usable_size(info->fabric_attr),
		      sizeof(*info->fabric_attr) + 128);
	fi_freeinfo(info);
}

Test(info, an_unknown_transport_is_logged_once_and_offers_nothing)
{
	struct fi_info *info;
	const char *text;

	api_log_start("warn");
	setenv("FI_TAGRV_TRANSPORTS", "shm,tcp", 1);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(api_getinfo(NULL, &info), -FI_ENODATA);
	cr_expect_eq(api_log_lines(&text), 1);
	cr_expect(strstr(text, "FI_TAGRV_TRANSPORTS is 'shm,tcp', but 'tcp'"),
		  "%s", text);
	setenv("FI_TAGRV_TRANSPORTS", "shm,verbs", 1);
	info = api_must_getinfo(NULL);
	fi_freeinfo(info);
}

Test(info, only_rdm_endpoints)
{
	struct fi_info *hints = api_hints(), *info;

	for (int type = FI_EP_UNSPEC; type <= FI_EP_RDM + 2; type++) {
		hints->ep_attr->type = (enum fi_ep_type) type;
		cr_expect_eq(api_getinfo(hints, &info),
			     type == FI_EP_UNSPEC || type == FI_EP_RDM ?
			     0 : -FI_ENODATA, "type %d", type);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

/* ---- capabilities ---- */

static void check_caps(const struct fi_info *info, uint64_t asked)
{
	cr_expect_eq(info->caps & asked, asked);
	cr_expect_eq(info->tx_attr->caps & ~TAGRV_CAPS_TX, 0);
	cr_expect_eq(info->rx_attr->caps & ~TAGRV_CAPS_RX, 0);
	cr_expect_eq(info->tx_attr->caps & ~info->caps, 0);
	cr_expect_eq(info->rx_attr->caps & ~info->caps, 0);
	cr_expect_eq(info->rx_attr->caps & asked, asked & TAGRV_CAPS_RX);
	cr_expect_eq(info->domain_attr->caps, FI_LOCAL_COMM);
}

Test(info, every_set_of_capabilities_is_met_or_refused)
{
	static const uint64_t bits[] = {
		FI_MSG, FI_TAGGED, FI_DIRECTED_RECV, FI_MULTI_RECV, FI_SOURCE,
		FI_SOURCE_ERR, FI_FENCE, FI_RMA, FI_ATOMIC, FI_RMA_EVENT, FI_MULTICAST,
		FI_NAMED_RX_CTX, FI_HMEM, FI_COLLECTIVE,
	};
	struct fi_info *hints = api_hints(), *info;

	for (unsigned int set = 0; set < 1u << TAGRV_ARRAY_SIZE(bits); set++) {
		/*
		 * FI_MULTI_RECV asks for FI_MSG, which alone is assumed where there
		 * is none of FI_TAGGED, FI_RMA and FI_ATOMIC; FI_SOURCE_ERR asks
		 * for FI_SOURCE, FI_RMA_EVENT for FI_RMA or FI_ATOMIC.
		 */
		bool possible = set < 1024 &&
				!(set & 8 && !(set & 1) && set & (2 | 128 | 256)) &&
				!(set & 32 && !(set & 16)) &&
				!(set & 512 && !(set & (128 | 256)));
		int ret;

		hints->caps = 0;
		for (size_t i = 0; i < TAGRV_ARRAY_SIZE(bits); i++)
			hints->caps |= set >> i & 1 ? bits[i] : 0;
		ret = api_getinfo(hints, &info);
		cr_expect_eq(ret, possible ? 0 : -FI_ENODATA, "set 0x%x", set);
		if (info)
			check_caps(info, hints->caps);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

Test(info, only_capabilities_asked_for_are_given)
{
	struct fi_info *hints = api_hints(), *info;

	hints->caps = FI_TAGGED;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->caps, FI_TAGGED | FI_SEND | FI_RECV | FI_LOCAL_COMM);
	fi_freeinfo(info);
	hints->caps = FI_MSG | FI_SEND;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->caps, FI_MSG | FI_SEND | FI_LOCAL_COMM);
	fi_freeinfo(info);
	hints->caps = FI_RMA;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->caps, FI_RMA | ONE_SIDED_WAYS | FI_LOCAL_COMM);
	cr_expect_eq(info->tx_attr->caps, FI_RMA | FI_READ | FI_WRITE);
	cr_expect_eq(info->rx_attr->caps, FI_RMA | FI_REMOTE_READ |
		     FI_REMOTE_WRITE);
	fi_freeinfo(info);
	hints->caps = FI_ATOMIC | FI_TAGGED | FI_REMOTE_WRITE;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->caps, FI_ATOMIC | FI_TAGGED | FI_REMOTE_WRITE | FI_SEND |
		     FI_RECV | FI_LOCAL_COMM);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

Test(info, capabilities_of_one_side_are_a_subset)
{
	struct fi_info *hints = api_hints(), *info;

	hints->caps = FI_MSG | FI_TAGGED;
	hints->tx_attr->caps = FI_TAGGED;
	hints->rx_attr->caps = FI_TAGGED | FI_RECV;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->tx_attr->caps, FI_TAGGED);
	cr_expect_eq(info->rx_attr->caps, FI_TAGGED | FI_RECV);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* ---- one hint at a time ---- */

#define HINT(member, value, want) { #member " " #value, \
	offsetof(struct fi_info, member), 0, 0, value, want }
#define SUB(attr, type, member, value, want) { #attr "->" #member " " #value, \
	offsetof(struct fi_info, attr), offsetof(struct type, member), \
	sizeof(((struct type *) 0)->member), value, want }
#define TX(member, value, want) SUB(tx_attr, fi_tx_attr, member, value, want)
#define RX(member, value, want) SUB(rx_attr, fi_rx_attr, member, value, want)
#define EP(member, value, want) SUB(ep_attr, fi_ep_attr, member, value, want)
#define DOM(member, value, want) \
	SUB(domain_attr, fi_domain_attr, member, value, want)

static const struct hint {
	const char *what;
	size_t	attr, member, size;
	uint64_t value;
	int	want;
} table[] = {
	TX(caps, FI_RMA, -FI_ENODATA),
	TX(op_flags, FI_INJECT | FI_DELIVERY_COMPLETE, 0),
	TX(op_flags, FI_MATCH_COMPLETE, 0),
	TX(op_flags, FI_COMMIT_COMPLETE, -FI_ENODATA),
	TX(op_flags, FI_MULTI_RECV, -FI_ENODATA),
	TX(msg_order, FI_ORDER_SAS, 0),
	TX(msg_order, FI_ORDER_RAW | FI_ORDER_SAW | FI_ORDER_RMA_WAW, 0),
	TX(msg_order, FI_ORDER_RAS, -FI_ENODATA),
	TX(msg_order, FI_ORDER_WAS, -FI_ENODATA),
	TX(comp_order, OLD_ORDER_DATA, -FI_ENODATA),
	TX(inject_size, TAGRV_INJECT_MAX, 0),
	TX(inject_size, TAGRV_INJECT_MAX + 1, -FI_ENODATA),
	TX(size, 4096, 0),
	TX(size, 1 << 30, -FI_ENODATA),
	TX(iov_limit, TAGRV_IOV_MAX, 0),
	TX(iov_limit, TAGRV_IOV_MAX + 1, -FI_ENODATA),
	TX(rma_iov_limit, 1, -FI_ENODATA),
	TX(tclass, FI_TC_BULK_DATA, 0),
	RX(caps, FI_REMOTE_READ, -FI_ENODATA),
	RX(op_flags, FI_COMPLETION | FI_MULTI_RECV, 0),
	RX(op_flags, FI_DELIVERY_COMPLETE, -FI_ENODATA),
	RX(msg_order, FI_ORDER_SAS, 0),
	RX(msg_order, OLD_ORDER_STRICT, -FI_ENODATA),
	RX(comp_order, OLD_ORDER_STRICT, -FI_ENODATA),
	RX(size, 1048575, 0),
	RX(size, 1048576, -FI_ENODATA),
	RX(iov_limit, 100, -FI_ENODATA),
	EP(protocol, TAGRV_PROTO, 0),
	EP(protocol, FI_PROTO_RXM, -FI_ENODATA),
	EP(protocol_version, 2, -FI_ENODATA),
	EP(max_msg_size, 1024, 0),
	EP(max_msg_size, TAGRV_MAX_MSG + 1, -FI_ENODATA),
	EP(max_order_raw_size, 1, -FI_ENODATA),
	EP(max_order_war_size, 1, -FI_ENODATA),
	EP(max_order_waw_size, 1, -FI_ENODATA),
	EP(mem_tag_format, 0xff00ff00, 0),
	EP(tx_ctx_cnt, 1, 0),
	EP(tx_ctx_cnt, FI_SHARED_CONTEXT, -FI_ENODATA),
	EP(rx_ctx_cnt, 2, -FI_ENODATA),
	EP(rx_ctx_cnt, FI_SHARED_CONTEXT, 0),
	DOM(threading, FI_THREAD_ENDPOINT, 0),
	DOM(threading, 77, -FI_ENODATA),
	DOM(data_progress, 77, -FI_ENODATA),
	DOM(resource_mgmt, FI_RM_DISABLED, 0),
	DOM(av_type, 77, -FI_ENODATA),
	DOM(mr_mode, OLD_MR_BASIC, 0),
	DOM(mr_mode, FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY, 0),
	DOM(mr_key_size, 8, 0),
	DOM(mr_key_size, 16, -FI_ENODATA),
	DOM(cq_data_size, 8, 0),
	DOM(cq_data_size, 9, -FI_ENODATA),
	DOM(caps, FI_LOCAL_COMM, 0),
	DOM(caps, FI_SHARED_AV, -FI_ENODATA),
	DOM(caps, FI_REMOTE_COMM, -FI_ENODATA),
	DOM(cq_cnt, 100000, 0),
	DOM(mr_iov_limit, 4, 0),
	DOM(mr_iov_limit, 5, -FI_ENODATA),
	DOM(max_ep_tx_ctx, 1, 0),
	DOM(max_ep_tx_ctx, 2, -FI_ENODATA),
	DOM(max_ep_rx_ctx, 1, 0),
	DOM(max_ep_rx_ctx, 2, -FI_ENODATA),
	DOM(max_ep_stx_ctx, 1, -FI_ENODATA),
	DOM(max_ep_srx_ctx, 100000, 0),
	DOM(max_err_data, 8, -FI_ENODATA),
	HINT(caps, FI_MSG | FI_SOURCE_ERR, -FI_ENODATA),
	HINT(caps, FI_MSG | FI_READ, -FI_ENODATA),
	HINT(caps, FI_MSG | FI_REMOTE_WRITE, -FI_ENODATA),
	HINT(caps, FI_RMA | FI_READ | FI_RMA_EVENT, -FI_ENODATA),
	HINT(caps, FI_RMA | FI_REMOTE_READ | FI_RMA_EVENT, 0),
	HINT(mode, FI_CONTEXT | FI_MSG_PREFIX, 0),
	HINT(caps, FI_MSG | FI_REMOTE_COMM, -FI_ENODATA),
};

static void apply(struct fi_info *hints, const struct hint *hint)
{
	char *base = (char *) hints + hint->attr;
	uint32_t narrow = (uint32_t) hint->value;

	if (hint->size)
		base = *(char **) (void *) base + hint->member;
	if (hint->size == sizeof(narrow))
		memcpy(base, &narrow, sizeof(narrow));
	else
		memcpy(base, &hint->value, sizeof(hint->value));
}

Test(info, each_hint_alone_is_met_or_refused)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(table); i++) {
		struct fi_info *hints = api_hints(), *info;

		apply(hints, &table[i]);
		cr_expect_eq(api_getinfo(hints, &info), table[i].want, "%s",
			     table[i].what);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

Test(info, hints_may_lack_every_part)
{
	struct fi_info hints = { .caps = FI_TAGGED };

	fi_freeinfo(api_must_getinfo(&hints));
}

/* ---- echoes ---- */

Test(info, operation_flags_come_back_as_asked)
{
	struct fi_info *hints = api_hints(), *info;

	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	hints->rx_attr->op_flags = FI_MULTI_RECV;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->tx_attr->op_flags, hints->tx_attr->op_flags);
	cr_expect_eq(info->rx_attr->op_flags, hints->rx_attr->op_flags);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

Test(info, models_come_back_as_asked)
{
	struct fi_info *hints = api_hints(), *info;

	for (int i = FI_THREAD_SAFE; i <= FI_THREAD_ENDPOINT; i++) {
		hints->domain_attr->threading = (enum fi_threading) i;
		hints->domain_attr->data_progress = (enum fi_progress) (i & 1) + 1;
		hints->domain_attr->control_progress =
			(enum fi_progress) (i >> 1 & 1) + 1;
		hints->domain_attr->av_type = (enum fi_av_type) (i % 3);
		info = api_must_getinfo(hints);
		cr_expect_eq(info->domain_attr->threading,
			     hints->domain_attr->threading);
		cr_expect_eq(info->domain_attr->data_progress,
			     hints->domain_attr->data_progress);
		cr_expect_eq(info->domain_attr->control_progress,
			     hints->domain_attr->control_progress);
		cr_expect_eq(info->domain_attr->av_type,
			     hints->domain_attr->av_type);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

/* Of the bits about keys and addresses those that were asked for; no others. */
static void expect_modes(uint64_t caps, int echoed)
{
	struct fi_info *hints = api_hints(), *info;

	hints->caps = caps;
	for (int mode = 0; mode < 1 << 12; mode += 3) {
		hints->domain_attr->mr_mode = mode;
		info = api_must_getinfo(hints);
		cr_expect_eq(info->domain_attr->mr_mode,
			     mode == OLD_MR_BASIC || mode == OLD_MR_SCALABLE ?
			     mode : mode & echoed, "mode %d", mode);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

Test(info, registration_modes_are_not_demanded)
{
	expect_modes(FI_MSG | FI_TAGGED, 0);
	expect_modes(FI_MSG | FI_RMA, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY);
	expect_modes(FI_ATOMIC, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

/* Before API 1.5 there are only two modes, and who names none gets one of them. */
Test(info, callers_of_old_versions_get_an_old_registration_mode)
{
	struct fi_info *hints = api_hints(), *info = NULL;

	for (int mode = 0; mode <= TAGRV_MR_SCALABLE; mode++) {
		hints->caps = FI_MSG | FI_RMA;
		hints->domain_attr->mr_mode = mode;
		cr_assert_eq(tagrv_getinfo(FI_VERSION(1, 4), NULL, NULL, 0,
					   hints, &info), 0);
		cr_expect_eq(info->domain_attr->mr_mode,
			     mode ? mode : TAGRV_MR_SCALABLE);
		fi_freeinfo(info);
	}
	hints->domain_attr->mr_mode = 0;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->domain_attr->mr_mode, 0, "since API 1.5");
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void expect_order(uint64_t caps, uint64_t asked, uint64_t want)
{
	struct fi_info *hints = api_hints(), *info;

	hints->caps = caps;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = asked;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->tx_attr->msg_order, want);
	cr_expect_eq(info->rx_attr->msg_order, want);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Orders for which operations are held back are given to those who ask for them. */
Test(info, costly_orders_are_those_asked_for)
{
	const uint64_t costly = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR |
		FI_ORDER_WAW | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_RMA_RAR |
		FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW;

	expect_order(FI_MSG, 0, FI_ORDER_SAS);
	expect_order(FI_RMA, 0, FI_ORDER_SAS);
	expect_order(FI_ATOMIC, 0, FREE_ORDERS);
	expect_order(FI_RMA, FI_ORDER_RAW, FI_ORDER_SAS | FI_ORDER_RAW);
	expect_order(FI_RMA | FI_ATOMIC, costly, FREE_ORDERS | costly);
}

Test(info, data_of_any_size_are_in_order)
{
	struct fi_info *hints = api_hints(), *info;

	hints->caps = FI_RMA;
	hints->tx_attr->msg_order = FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW;
	hints->tx_attr->rma_iov_limit = TAGRV_IOV_MAX;
	hints->ep_attr->max_order_raw_size = SIZE_MAX;
	hints->ep_attr->max_order_war_size = SIZE_MAX;
	hints->ep_attr->max_order_waw_size = 1;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->ep_attr->max_order_raw_size, SIZE_MAX);
	cr_expect_eq(info->ep_attr->max_order_waw_size, SIZE_MAX);
	fi_freeinfo(info);
	hints->tx_attr->rma_iov_limit = TAGRV_IOV_MAX + 1;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

Test(info, larger_sizes_are_granted_smaller_ones_ignored)
{
	struct fi_info *hints = api_hints(), *info;

	hints->tx_attr->size = 5000;
	hints->rx_attr->size = 10;
	hints->tx_attr->inject_size = 10;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->tx_attr->size, 5000);
	cr_expect_eq(info->rx_attr->size, 1024);
	cr_expect_eq(info->tx_attr->inject_size, TAGRV_INJECT_MAX);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

Test(info, no_more_receives_are_promised_than_are_taken)
{
	struct fi_info *hints = api_hints(), *info;

	setenv("FI_TAGRV_MAX_RECVS", "100", 1);
	info = api_must_getinfo(hints);
	cr_expect_eq(info->rx_attr->size, 100);
	fi_freeinfo(info);
	hints->rx_attr->size = 101;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

Test(info, own_info_is_accepted_as_hints)
{
	struct fi_info *first = api_must_getinfo(NULL), *hints, *again;

	hints = fi_dupinfo(first);
	again = api_must_getinfo(hints);
	cr_expect_eq(again->caps, first->caps);
	cr_expect_str_eq(again->domain_attr->name, first->domain_attr->name);
	cr_expect_eq(again->src_addrlen, first->src_addrlen);
	cr_expect_arr_eq(again->src_addr, first->src_addr, first->src_addrlen);
	fi_freeinfo(again);
	fi_freeinfo(hints);
	fi_freeinfo(first);
}

/* ---- names and objects ---- */

Test(info, names_must_be_ours)
{
	struct fi_info *hints = api_hints(), *info;

	hints->domain_attr->name = strdup("loop");
	hints->fabric_attr->name = strdup("tagrv");
	fi_freeinfo(api_must_getinfo(hints));
	hints->domain_attr->name[0] = 'x';
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	hints->domain_attr->name[0] = 'l';
	hints->fabric_attr->name[0] = 'x';
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

Test(info, a_mistyped_name_is_logged)
{
	struct fi_info *hints = api_hints(), *info;
	const char *text;

	api_log_start("info");
	hints->domain_attr->name = strdup("lop");
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	/* libfabric adds a line for each parameter that is set. */
	api_log_lines(&text);
	text = strstr(text, "domain_attr->name lop");
	cr_assert_not_null(text);
	cr_expect_null(strstr(text + 1, "domain_attr->name"), "%s", text);
	fi_freeinfo(hints);
}

Test(info, objects_must_be_ours)
{
	struct fid_domain stranger = { .fid.fclass = FI_CLASS_DOMAIN };
	struct fi_info *hints = api_hints(), *info;
	struct api api;

	api_open_domain(&api, NULL);
	hints->domain_attr->domain = api.domain;
	hints->fabric_attr->fabric = api.fabric;
	info = api_must_getinfo(hints);
	cr_expect_eq(info->domain_attr->domain, api.domain);
	cr_expect_eq(info->fabric_attr->fabric, api.fabric);
	fi_freeinfo(info);
	hints->domain_attr->domain = &stranger;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
	api_close(&api);
}

Test(info, unknown_flags_are_tolerated)
{
	struct fi_info *info = NULL;

	cr_expect_eq(tagrv_getinfo(API_VERSION, NULL, NULL, 1ULL << 59 |
				   1ULL << 60 | 1ULL << 35, NULL, &info), 0);
	fi_freeinfo(info);
}

Test(info, an_unknown_device_is_no_device)
{
	struct fi_info *info;

	setenv("FI_TAGRV_DEVICES", "no-such-device", 1);
	cr_expect_eq(api_getinfo(NULL, &info), -FI_ENODATA);
	setenv("FI_TAGRV_DEVICES", "loop", 1);
	fi_freeinfo(api_must_getinfo(NULL));
	tagrv_info_cleanup();
	fi_freeinfo(api_must_getinfo(NULL));
	tagrv_info_cleanup();
}

#ifdef HAVE_VERBS
Test(info, each_unusable_device_has_its_line)
{
	struct fake_verbs_config config = fake_verbs_defaults();
	struct fi_info *hints = api_hints(), *info;
	const char *text;
	char name[8];

	api_log_start("warn");
	config.devices = 8;
	config.port_state = IBV_PORT_DOWN;
	fake_verbs_start(&config);
	unsetenv("FI_TAGRV_DEVICES");
	fi_freeinfo(api_must_getinfo(NULL));
	cr_expect_eq(api_log_lines(&text), 0, "shm is there: %s", text);
	hints->caps = FI_TAGGED | FI_REMOTE_COMM;
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	cr_expect_eq(api_log_lines(&text), 8, "%s", text);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "fake%d:", i);
		cr_expect_not_null(strstr(text, name), "%s: %s", name, text);
	}
	cr_expect_eq(api_getinfo(hints, &info), -FI_ENODATA);
	cr_expect_eq(api_log_lines(&text), 0, "once is enough: %s", text);
	fi_freeinfo(hints);
	tagrv_info_cleanup();
	fake_verbs_stop();
}
#endif

Test(info, thousand_calls_take_no_time)
{
	uint64_t start = tagrv_clock_ms();

	for (int i = 0; i < 1000; i++)
		fi_freeinfo(api_must_getinfo(NULL));
	cr_expect_lt(tagrv_clock_ms() - start, slow_ms(5000));
}
