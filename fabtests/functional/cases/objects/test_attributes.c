/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Attributes that fi_getinfo returns: complete, stable, and as generous as MPI
 * libraries and libfabric's own tests take for granted.
 */
#include "cases/cases.h"
#include "framework/fixture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST_DEFINED	4	/* FI_PROGRESS_CONTROL_UNIFIED is 3 in newer headers */

static const struct fx_attr plain;

static struct fi_info *must_ask(const struct fi_info *hints)
{
	struct fi_info *info = NULL;

	CHECK_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	CHECK(info, "fi_getinfo succeeded without info");
	return info;
}

/* fi_getinfo with its own result as hints changes no attribute, nor does a second turn. */
static void check_same(const struct fi_info *a, const struct fi_info *b)
{
	const struct fi_domain_attr *da = a->domain_attr, *db = b->domain_attr;
	const struct fi_tx_attr *ta = a->tx_attr, *tb = b->tx_attr;
	const struct fi_rx_attr *ra = a->rx_attr, *rb = b->rx_attr;

	CHECK(a->caps == b->caps && a->mode == b->mode && a->addr_format == b->addr_format,
	      "caps 0x%" PRIx64 ", mode 0x%" PRIx64 ", format %u became 0x%" PRIx64 ", 0x%" PRIx64
	      ", %u", a->caps, a->mode, a->addr_format, b->caps, b->mode, b->addr_format);
	CHECK(!memcmp(ta, tb, sizeof(*ta)), "tx_attr: caps 0x%" PRIx64 " became 0x%" PRIx64
	      ", size %zu became %zu", ta->caps, tb->caps, ta->size, tb->size);
	CHECK(!memcmp(ra, rb, sizeof(*ra)), "rx_attr: caps 0x%" PRIx64 " became 0x%" PRIx64
	      ", size %zu became %zu", ra->caps, rb->caps, ra->size, rb->size);
	CHECK(!memcmp(a->ep_attr, b->ep_attr, sizeof(*a->ep_attr)), "ep_attr changed");
	CHECK(!strcmp(da->name, db->name), "domain %s became %s", da->name, db->name);
	CHECK(da->threading == db->threading && da->control_progress == db->control_progress &&
	      da->data_progress == db->data_progress && da->av_type == db->av_type &&
	      da->resource_mgmt == db->resource_mgmt && da->mr_mode == db->mr_mode,
	      "the models of domain %s changed", da->name);
	CHECK(da->caps == db->caps && da->mode == db->mode && da->cq_cnt == db->cq_cnt &&
	      da->ep_cnt == db->ep_cnt && da->cntr_cnt == db->cntr_cnt &&
	      da->tx_ctx_cnt == db->tx_ctx_cnt && da->rx_ctx_cnt == db->rx_ctx_cnt &&
	      da->mr_cnt == db->mr_cnt, "caps or numbers of domain %s changed", da->name);
	CHECK(a->src_addrlen == b->src_addrlen && !memcmp(a->src_addr, b->src_addr, a->src_addrlen),
	      "the source address of domain %s changed", da->name);
}

static void stable(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *list = must_ask(hints);

	for (struct fi_info *i = list; i; i = i->next) {
		struct fi_info *once, *twice;

		run_step("domain %s", i->domain_attr->name);
		once = must_ask(i);
		check_same(i, once);
		twice = must_ask(once);
		check_same(once, twice);
		CHECK(!twice->next || strcmp(twice->next->domain_attr->name, i->domain_attr->name),
		      "domain %s is offered twice", i->domain_attr->name);
		fi_freeinfo(twice);
		fi_freeinfo(once);
	}
	fi_freeinfo(list);
	fi_freeinfo(hints);
}

static void generous_one(const struct fi_info *info)
{
	const struct fi_domain_attr *domain = info->domain_attr;

	CHECK(domain->cq_data_size == 8, "cq_data_size %zu", domain->cq_data_size);
	CHECK(info->tx_attr->inject_size >= 256, "inject_size %zu", info->tx_attr->inject_size);
	CHECK(info->tx_attr->iov_limit >= 4 && info->rx_attr->iov_limit >= 4,
	      "iov_limit %zu and %zu", info->tx_attr->iov_limit, info->rx_attr->iov_limit);
	/* One tag field of all 64 bits. */
	CHECK(info->ep_attr->mem_tag_format ==
	      (fx_devices_match() ? 0xaaaaaaaaaaaaULL : 0xaaaaaaaaaaaaaaaaULL),
	      "mem_tag_format 0x%" PRIx64, info->ep_attr->mem_tag_format);
	CHECK(info->tx_attr->comp_order == info->rx_attr->comp_order, "comp_order differs");
	CHECK(info->tx_attr->msg_order == info->rx_attr->msg_order, "msg_order differs");
	CHECK(!info->ep_attr->max_order_raw_size && !info->ep_attr->max_order_war_size &&
	      !info->ep_attr->max_order_waw_size, "an order of RMA without RMA");
	CHECK(domain->cq_cnt && domain->ep_cnt && domain->cntr_cnt && domain->mr_cnt,
	      "no object of a kind: cq %zu, ep %zu, cntr %zu, mr %zu", domain->cq_cnt,
	      domain->ep_cnt, domain->cntr_cnt, domain->mr_cnt);
	CHECK(!(domain->caps & ~info->caps), "domain caps 0x%" PRIx64 " beyond caps",
	      domain->caps);
	CHECK(info->caps & FI_LOCAL_COMM, "this host is not reached");
}

static void generous(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *list = must_ask(hints);

	for (const struct fi_info *i = list; i; i = i->next) {
		run_step("domain %s", i->domain_attr->name);
		generous_one(i);
	}
	fi_freeinfo(list);
	fi_freeinfo(hints);
}

/* MPI libraries read every part of a nic without checking for NULL. */
static void check_nic(const struct fi_info *info)
{
	const struct fid_nic *nic = info->nic;

	CHECK(nic->device_attr && nic->bus_attr && nic->link_attr, "nic lacks a part");
	CHECK(nic->device_attr->name && nic->device_attr->name[0], "the device has no name");
	CHECK(nic->link_attr->network_type, "the link is of no type");
	CHECK(nic->link_attr->mtu && nic->link_attr->speed, "mtu %zu, speed %zu",
	      nic->link_attr->mtu, nic->link_attr->speed);
	CHECK(nic->link_attr->state == FI_LINK_UP, "link state %d", nic->link_attr->state);
	CHECK(strstr(info->domain_attr->name, nic->device_attr->name) == info->domain_attr->name,
	      "domain %s, device %s", info->domain_attr->name, nic->device_attr->name);
}

static void nic(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *list = must_ask(hints);

	for (const struct fi_info *i = list; i; i = i->next) {
		struct fi_info *copy = fi_dupinfo(i);

		run_step("domain %s", i->domain_attr->name);
		CHECK(copy && !copy->nic == !i->nic, "the copy differs in having a nic");
		if (i->nic) {
			check_nic(i);
			check_nic(copy);
		}
		fi_freeinfo(copy);
	}
	fi_freeinfo(list);
	fi_freeinfo(hints);
}

/* A tag format is a mask or, below 65536, a named format; the answer has it or is an error. */
static void tag_formats(struct test *t)
{
	static const uint64_t formats[] = {
		1, 2, 0xff, 0xffffffffULL, ~0ULL, 0xaaaaaaaaaaaaaaaaULL, 0x8000000000000000ULL,
	};
	struct fi_info *hints = fx_hints(t, &plain);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct fi_info *info;

		run_step("mem_tag_format 0x%" PRIx64, formats[i]);
		/* Refused then. */
		if (fx_devices_match() && formats[i] >> 48)
			continue;
		hints->ep_attr->mem_tag_format = formats[i];
		info = must_ask(hints);
		CHECK(info->ep_attr->mem_tag_format == formats[i], "it became 0x%" PRIx64,
		      info->ep_attr->mem_tag_format);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

/* The progress model that newer headers add is accepted; undefined ones are refused. */
static void new_values(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *info;

	for (int value = 0; value < NEWEST_DEFINED; value++) {
		run_step("control progress %d", value);
		hints->domain_attr->control_progress = (enum fi_progress)value;
		fi_freeinfo(must_ask(hints));
	}
	hints->domain_attr->control_progress = (enum fi_progress)NEWEST_DEFINED;
	info = NULL;
	CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == -FI_ENODATA,
	      "an undefined progress model is offered");
	fi_freeinfo(hints);
}

const struct test_case attribute_cases[] = {
	{ "attributes_stable", "own info as hints comes back with every attribute unchanged", stable,
	  .ranks = 1 },
	{ "attributes_generous", "limits, orders and counts that clients take for granted", generous,
	  .ranks = 1 },
	{ "attributes_nic", "a nic has all its parts, also in a copy, or there is no nic", nic, .ranks = 1 },
	{ "attributes_tag_formats", "any format of tags is supported", tag_formats, .ranks = 1 },
	{ "attributes_new_values", "values of newer headers are accepted or refused", new_values,
	  .ranks = 1 },
	{ 0 },
};
