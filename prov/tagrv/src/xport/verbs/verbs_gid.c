/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Chooses the GID of a port. Of a RoCE port, the properties that decide, the weightiest
 * first:
 *
 *   its network interface is in the network namespace of this process
 *   RoCE v2 before v1
 *   it is the GID in use: peers know it, and a link that is renewed stays in its subnet
 *   its address is the one that the endpoint listens on: peers reach that
 *   it is of the subnet of the GID that was in use
 *   its interface is up, and no part of a bond, which has the addresses instead
 *   IPv4, then global IPv6, then addresses of one link (fe80::, 169.254/16)
 *   no VLAN
 *   the lower index
 *
 * The table holds GIDs of other namespaces, too, and those of interfaces that have just
 * gone. So the device has to accept the choice: it creates an address handle for the port
 * itself, which resolves the way and sends nothing. If it refuses, the next best is tried.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lack.h"
#include "core/log.h"
#include "core/netif.h"
#include "xport/verbs/verbs_priv.h"

#define ELSEWHERE_BIT	(1u << 9)	/* of a score: not set, if it is elsewhere */

static const struct in6_addr *addr_of(const union ibv_gid *gid)
{
	return (const struct in6_addr *) gid->raw;
}

static uint8_t net_of(const struct ibv_gid_entry *entry)
{
	return entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? VERBS_NET_ROCE_V2 :
	       entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? VERBS_NET_ROCE_V1 :
	       VERBS_NET_IB;
}

/* Fills *addr; false: it is no IP address. */
static bool ip_of(const union ibv_gid *gid, struct tagrv_addr *addr)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	memcpy(&in.sin_addr, gid->raw + 12, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, gid->raw, sizeof(in6.sin6_addr));
	return !(IN6_IS_ADDR_V4MAPPED(addr_of(gid)) ?
		 tagrv_addr_from(addr, &in, sizeof(in)) :
		 tagrv_addr_from(addr, &in6, sizeof(in6)));
}

bool tagrv_verbs_gid_addr(const struct verbs_gid *gid, struct tagrv_addr *addr)
{
	return gid->net != VERBS_NET_IB && ip_of(&gid->gid, addr) &&
	       !tagrv_netif_is_link_local(addr);
}

struct tagrv_addr tagrv_verbs_local_of(const struct tagrv_params *params)
{
	struct tagrv_addr addr = { 0 };

	if (inet_pton(AF_INET, params->iface, &addr.in.sin_addr) == 1)
		addr.sa.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, params->iface, &addr.in6.sin6_addr) == 1)
		addr.sa.sa_family = AF_INET6;
	else if (params->iface[0] &&
		 tagrv_netif_addr(params->iface, AF_UNSPEC, &addr))
		addr = (struct tagrv_addr) { 0 };
	return addr;
}

/* ---- properties ---- */

struct search {
	const struct tagrv_verbs_calls *calls;
	struct ibv_context *ctx;
	const struct verbs_gid_wish *wish;
	struct ibv_pd *pd;		/* for the proof */
};

/*
 * Whether the GID is of another network namespace: its address is not here, though it
 * has an interface; an address that follows from the hardware's need not be here.
 */
static bool is_elsewhere(const struct search *search,
			 const struct ibv_gid_entry *entry,
			 const struct verbs_subnet *subnet)
{
	char path[IBV_SYSFS_PATH_MAX + 64], name[IF_NAMESIZE] = "";
	FILE *f;

	if (subnet->prefix || subnet->unknown)
		return false;
	snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/ndevs/%u",
		 search->ctx->device->ibdev_path, entry->port_num, entry->gid_index);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%15s", name) != 1)
		name[0] = '\0';
	fclose(f);
	return name[0] && (!IN6_IS_ADDR_LINKLOCAL(addr_of(&entry->gid)) ||
			   !if_nametoindex(name));
}

static bool is_local(const struct search *search, const struct tagrv_addr *ip)
{
	const struct tagrv_addr *local = &search->wish->local;
	size_t len, local_len;
	const void *a = tagrv_addr_ip(ip, &len);
	const void *b = tagrv_addr_ip(local, &local_len);

	return tagrv_addr_len(local) && len == local_len && !memcmp(a, b, len);
}

static bool shares_subnet(const struct verbs_port *used, const union ibv_gid *gid)
{
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(addr_of(gid));

	return used && used->prefix &&
	       is_v4 == IN6_IS_ADDR_V4MAPPED(addr_of(&used->gid)) &&
	       tagrv_verbs_is_same_start(gid->raw + (is_v4 ? 12 : 0),
					 used->gid.raw + (is_v4 ? 12 : 0),
					 used->prefix);
}

/* Higher is better; 0: not usable. */
static unsigned score_roce(const struct search *search,
			   const struct ibv_gid_entry *entry,
			   const struct verbs_subnet *subnet)
{
	const struct verbs_port *used = search->wish->used;
	struct tagrv_addr ip;
	unsigned score, kind;

	if (!ip_of(&entry->gid, &ip))
		return 0;
	kind = entry->gid_type != IBV_GID_TYPE_ROCE_V2 ? 0 :
	       tagrv_netif_is_link_local(&ip) ? 1 : ip.sa.sa_family == AF_INET6 ? 2 : 3;
	score = !is_elsewhere(search, entry, subnet);
	score = score << 1 | (kind > 0);
	score = score << 1 | (used && used->net == net_of(entry) &&
			      !memcmp(&used->gid, &entry->gid, sizeof(used->gid)));
	score = score << 1 | is_local(search, &ip);
	score = score << 1 | shares_subnet(used, &entry->gid);
	score = score << 1 | !subnet->idle;
	score = score << 2 | kind;
	score = score << 1 | !subnet->vlan;
	return score << 1 | 1;
}

static unsigned score_of(const struct search *search,
			 const struct ibv_gid_entry *entry,
			 const struct verbs_subnet *subnet, uint8_t port)
{
	int index = search->wish->index;

	/* sgid_index of a queue pair's address has 8 bits. */
	if (entry->port_num != port || entry->gid_index > UINT8_MAX ||
	    (index >= 0 && entry->gid_index != (uint32_t) index))
		return 0;
	switch (entry->gid_type) {
	case IBV_GID_TYPE_IB:
		return ELSEWHERE_BIT;
	case IBV_GID_TYPE_ROCE_V1:
	case IBV_GID_TYPE_ROCE_V2:
		return score_roce(search, entry, subnet) | (index >= 0 ? ELSEWHERE_BIT : 0);
	default:
		return 0;
	}
}

/* ---- proof ---- */

/* Whether the device takes the GID, or cannot say. */
static bool is_proven(struct search *search, const struct ibv_gid_entry *entry)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = (uint8_t) entry->port_num,
		.grh = { .dgid = entry->gid, .sgid_index = (uint8_t) entry->gid_index,
			 .hop_limit = 1 },
	};
	struct ibv_ah *ah;

	if (entry->gid_type == IBV_GID_TYPE_IB || search->wish->index >= 0)
		return true;
	if (!search->pd)
		search->pd = search->calls->alloc_pd(search->ctx);
	if (!search->pd)
		return true;
	errno = 0;
	ah = search->calls->create_ah(search->pd, &attr);
	if (ah)
		search->calls->destroy_ah(ah);
	return ah || !errno || errno == EOPNOTSUPP || errno == ENOSYS ||
	       errno == EPERM || tagrv_is_lack(errno);
}

/* The best of the table that is proven, else the best that is here, else NULL. */
static const struct ibv_gid_entry *search_table(struct search *search,
						const struct ibv_gid_entry *table,
						unsigned *scores, size_t cnt)
{
	const struct ibv_gid_entry *unproven = NULL;

	for (;;) {
		size_t best = 0;

		for (size_t i = 1; i < cnt; i++)
			if (scores[i] > scores[best])
				best = i;
		if (!cnt || !scores[best])
			return unproven;
		if (is_proven(search, &table[best]))
			return &table[best];
		tagrv_info("verbs: %s does not take gid index %u: %s\n",
			   search->ctx->device->name, table[best].gid_index,
			   strerror(errno));
		if (!unproven && scores[best] & ELSEWHERE_BIT)
			unproven = &table[best];
		scores[best] = 0;
	}
}

int tagrv_verbs_gid_choose(const struct tagrv_verbs_calls *calls,
			   struct ibv_context *ctx, uint8_t port,
			   uint8_t port_cnt, const struct ibv_port_attr *attr,
			   const struct verbs_gid_wish *wish, struct verbs_gid *gid)
{
	struct search search = { .calls = calls, .ctx = ctx, .wish = wish };
	/* The table holds the GIDs of all ports, one after the other. */
	size_t max = (size_t) TAGRV_MAX(attr->gid_tbl_len, 1) * port_cnt;
	struct ibv_gid_entry *table = calloc(max, sizeof(*table));
	struct verbs_subnet *subnets = calloc(max, sizeof(*subnets));
	unsigned *scores = calloc(max, sizeof(*scores));
	const struct ibv_gid_entry *best = NULL;
	int ret = -FI_ENOMEM;

	if (table && subnets && scores) {
		ssize_t got = calls->query_gid_table(ctx, table, max);
		size_t cnt = (size_t) TAGRV_MAX(got, 0);

		calls->subnets_get(table, cnt, subnets);
		for (size_t i = 0; i < cnt; i++)
			scores[i] = score_of(&search, &table[i], &subnets[i], port);
		best = search_table(&search, table, scores, cnt);
		ret = best ? 0 : -FI_ENODATA;
	}
	if (best) {
		*gid = (struct verbs_gid) {
			.gid = best->gid, .index = (int) best->gid_index,
			.net = net_of(best),
		};
		if (gid->net != VERBS_NET_IB)
			gid->subnet = subnets[best - table];
	}
	if (search.pd)
		calls->dealloc_pd(search.pd);
	free(scores);
	free(subnets);
	free(table);
	return ret;
}
