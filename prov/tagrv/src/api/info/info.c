/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: one fi_info per device, in the order of info_order.c, but a device whose
 * address the hints ask for comes first.
 */
#include "api/info/info.h"

#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "core/log.h"

struct offer {
	const struct tagrv_device_desc *desc;
	struct tagrv_addr src;
	bool	owns_src;	/* the hints ask for this device's address */
	bool	local;		/* reaches only this host */
};

static bool same_host(const struct tagrv_addr *a, const struct tagrv_addr *b)
{
	struct tagrv_addr x = *a, y = *b;

	if (!x.sa.sa_family || !y.sa.sa_family)
		return false;
	tagrv_addr_set_port(&x, 0);
	tagrv_addr_set_port(&y, 0);
	return tagrv_addr_equal(&x, &y);
}

/* Positive: a is the better offer; negative: b is; 0: they are equal. */
static int compare(const struct offer *a, const struct offer *b)
{
	if (a->local != b->local)
		return a->local ? -1 : 1;
	if (a->owns_src != b->owns_src)
		return a->owns_src ? 1 : -1;
	if (a->desc->up != b->desc->up)
		return a->desc->up ? 1 : -1;
	return 0;
}

/* Insertion sort: equal offers keep the order of tagrv_info_sort(). */
static void insert(struct offer *offers, size_t cnt, const struct offer *offer)
{
	while (cnt && compare(offer, &offers[cnt - 1]) > 0) {
		offers[cnt] = offers[cnt - 1];
		cnt--;
	}
	offers[cnt] = *offer;
}

/* Whether the hints allow this device. A refusal is logged as the flags of 'ask' say. */
static bool matches(const struct tagrv_ask *ask, const struct tagrv_device_desc *desc)
{
	return tagrv_info_match_reach(ask, desc->name) && tagrv_info_match_atomics(ask, desc) &&
	       tagrv_info_match_tags(ask, desc);
}

/* No device that the hints name is allowed. */
static TAGRV_COLD void say_why_none(const struct tagrv_ask *ask,
				    const struct tagrv_device_desc *descs, size_t cnt)
{
	struct tagrv_ask quiet = *ask;
	bool reached = false;

	if (ask->flags & TAGRV_FLAG_INTERNAL)
		return;
	quiet.flags |= TAGRV_FLAG_INTERNAL;
	for (size_t i = 0; i < cnt; i++) {
		reached |= tagrv_info_match_reach(&quiet, descs[i].name);
		if (tagrv_info_match_name(ask, descs[i].name))
			(void) matches(ask, &descs[i]);
	}
	/* The hints want other hosts, and no device for that is usable. */
	if (!reached)
		tagrv_info_warn_why(true);
}

/* Fills offers, best first. Returns their number, -FI_ENODATA, or that memory or
 * descriptors are missing. */
static int choose(const struct tagrv_ask *ask,
		  const struct tagrv_device_desc *descs, size_t cnt,
		  struct offer *offers)
{
	struct tagrv_ask quiet = *ask;
	bool named = false;
	int n = 0, ret;

	/* One device that is refused is no news where another is offered. */
	quiet.flags |= TAGRV_FLAG_INTERNAL;
	for (size_t i = 0; i < cnt; i++) {
		struct offer offer = { .desc = &descs[i] };

		if (!tagrv_info_match_name(ask, descs[i].name))
			continue;
		named = true;
		if (!matches(&quiet, &descs[i]))
			continue;
		ret = tagrv_info_source(ask, &descs[i], &offer.src);
		if (ret)
			return ret;
		offer.owns_src = same_host(&ask->src, &descs[i].addr);
		offer.local = tagrv_info_is_local(descs[i].name);
		insert(offers, (size_t) n++, &offer);
	}
	if (!named)
		return tagrv_info_refuse_name(ask->hints);
	if (!n)
		say_why_none(ask, descs, cnt);
	return n ? n : -FI_ENODATA;
}

static int build_list(const struct tagrv_ask *ask, const struct offer *offers,
		      int cnt, struct fi_info **info)
{
	struct fi_info *first = NULL, **tail = &first;

	for (int i = 0; i < cnt; i++) {
		*tail = tagrv_info_build(ask, offers[i].desc, &offers[i].src);
		if (!*tail) {
			tagrv_info_free(first);
			return -FI_ENOMEM;
		}
		tail = &(*tail)->next;
	}
	*info = first;
	return 0;
}

static int offer_devices(const struct tagrv_ask *ask, struct fi_info **info)
{
	struct tagrv_device_desc *descs;
	struct offer *offers;
	size_t cnt;
	int ret, lack;

	/* libfabric repeats the flag in its internal calls: scan only once. */
	if (ask->flags & TAGRV_FLAG_RESCAN &&
	    !(ask->flags & TAGRV_FLAG_INTERNAL))
		tagrv_info_rescan();
	ret = tagrv_info_devices(&ask->params, true, &descs, &cnt, &lack);
	if (ret && !(ask->flags & TAGRV_FLAG_INTERNAL))
		tagrv_info_warn_why(tagrv_info_wants_remote(ask->hints));
	if (ret)
		return ret;
	offers = calloc(cnt, sizeof(*offers));
	ret = offers ? tagrv_info_sort(&ask->params, descs, cnt, NULL) : -FI_ENOMEM;
	if (!ret)
		ret = choose(ask, descs, cnt, offers);
	/* What was asked for may be among what could not be looked at. */
	if (ret == -FI_ENODATA && lack)
		ret = lack;
	if (ret > 0)
		ret = build_list(ask, offers, ret, info);
	free(offers);
	free(descs);
	return ret;
}

/* Warns once, because programs call fi_getinfo again and again. */
static int check_transports(const struct tagrv_params *params)
{
	static atomic_bool warned;
	const char *name;
	size_t len;

	if (!tagrv_xport_find_unknown(params, &name, &len))
		return 0;
	if (!atomic_exchange(&warned, true))
		tagrv_warn("FI_TAGRV_TRANSPORTS is '%s', but '%.*s' is no "
			   "transport: there are shm and verbs\n",
			   params->transports, (int) len, name);
	return -FI_ENODATA;
}

int tagrv_info_get(uint32_t version, const char *node, const char *service,
		   uint64_t flags, const struct fi_info *hints,
		   const struct tagrv_info_objects *objects,
		   struct fi_info **info)
{
	struct tagrv_ask ask = {
		.version = version, .flags = flags, .hints = hints,
		.objects = *objects,
	};
	int ret;

	/*
	 * libfabric asks every provider for other endpoint types, too, on
	 * behalf of providers layered above: nothing to log.
	 */
	if (!tagrv_info_match_type(hints))
		return -FI_ENODATA;
	tagrv_param_read(&ask.params);
	ret = check_transports(&ask.params);
	if (!ret)
		ret = tagrv_info_match(&ask);
	if (!ret)
		ret = tagrv_info_resolve(&ask, node, service);
	if (!ret)
		ret = offer_devices(&ask, info);
	return ret;
}
