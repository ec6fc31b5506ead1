/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: in which order devices are listed. Applications take the first.
 *
 *   those that reach other hosts, whose port is active
 *   those of the same kind of network (InfiniBand or Ethernet) as the fastest, because all
 *   processes of a job must take the same kind
 *   the nearest to the processors that this process may use
 *   the fastest
 *
 * Devices that are alike in all this and of one network are shared out among the
 * processes of this host: the list of each begins with another one, by its local rank
 * (but see core/launcher.c for Open MPI, which does that by itself).
 * Devices of different networks are not, since a peer whose first device is of another one
 * might not be reached.
 */
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "core/cpus.h"
#include "core/launcher.h"

struct key {
	const struct tagrv_device_desc *desc;
	bool	local;		/* reaches only this host */
	bool	other_kind;
	unsigned distance;
	size_t	network;	/* the first device of the same one */
	unsigned alike;		/* devices that are as good, itself included */
};

static bool is_same_network(const struct tagrv_device_desc *a,
			    const struct tagrv_device_desc *b)
{
	return a->network[0] && !strcmp(a->network, b->network) &&
	       !strcmp(a->link_type, b->link_type);
}

static const struct tagrv_device_desc *find_fastest(const struct tagrv_device_desc *descs,
						    size_t cnt)
{
	const struct tagrv_device_desc *best = NULL;

	for (size_t i = 0; i < cnt; i++)
		if (!tagrv_info_is_local(descs[i].name) && descs[i].up &&
		    (!best || descs[i].speed > best->speed))
			best = &descs[i];
	return best;
}

static void fill_keys(struct key *keys, const struct tagrv_device_desc *descs,
		      size_t cnt)
{
	const struct tagrv_device_desc *fastest = find_fastest(descs, cnt);

	for (size_t i = 0; i < cnt; i++) {
		struct key *key = &keys[i];

		key->desc = &descs[i];
		key->local = tagrv_info_is_local(descs[i].name);
		key->other_kind = fastest &&
				  strcmp(fastest->link_type, descs[i].link_type) != 0;
		key->distance = descs[i].distance ? descs[i].distance : TAGRV_CPUS_NEAR;
		while (key->network < i &&
		       !is_same_network(&descs[key->network], &descs[i]))
			key->network++;
	}
}

/* Positive: a is better; negative: b is; 0: they are shared out. */
static int compare(const struct key *a, const struct key *b)
{
	if (a->local != b->local)
		return a->local ? -1 : 1;
	if (a->desc->up != b->desc->up)
		return a->desc->up ? 1 : -1;
	if (a->other_kind != b->other_kind)
		return a->other_kind ? -1 : 1;
	if (a->distance != b->distance)
		return a->distance < b->distance ? 1 : -1;
	if (a->desc->speed != b->desc->speed)
		return a->desc->speed > b->desc->speed ? 1 : -1;
	if (a->network != b->network)
		return a->network < b->network ? 1 : -1;
	return 0;
}

/* Insertion sort: equal ones keep the order in which they were found. */
static void sort(struct key *keys, size_t cnt)
{
	for (size_t i = 1; i < cnt; i++) {
		struct key key = keys[i];
		size_t at = i;

		for (; at && compare(&key, &keys[at - 1]) > 0; at--)
			keys[at] = keys[at - 1];
		keys[at] = key;
	}
}

/*
 * Which of cnt devices comes first. With fewer processes than devices, each process has
 * its share of them (its rails begin with the first). Else any cnt consecutive ranks have
 * different ones; the sum of quotients also spreads ranks that are bound to processors in
 * turn, of which this choice sees every second one, or every fourth.
 */
static size_t choose_first(const struct tagrv_local_rank *local, size_t cnt)
{
	size_t first = 0;

	if (local->spreads)
		return 0;
	if (local->procs && local->procs < cnt)
		return local->rank * cnt / local->procs;
	for (size_t rest = local->rank; rest; rest /= cnt)
		first += rest;
	return first % cnt;
}

static void share_out(struct key *keys, size_t cnt, const struct tagrv_local_rank *local,
		      struct key *out)
{
	size_t end;

	for (size_t i = 0; i < cnt; i = end) {
		size_t first = 0;

		for (end = i + 1; end < cnt && !compare(&keys[i], &keys[end]);)
			end++;
		if (end - i > 1 && !keys[i].local)
			first = choose_first(local, end - i);
		for (size_t k = i; k < end; k++) {
			out[k] = keys[i + (k - i + first) % (end - i)];
			out[k].alike = (unsigned) (end - i);
		}
	}
}

struct tagrv_local_rank tagrv_info_local_rank(const struct tagrv_params *params)
{
	struct tagrv_local_rank local = tagrv_launcher_rank(getenv);

	if (params->local_rank >= 0)
		local = (struct tagrv_local_rank) {
			.rank = (unsigned) params->local_rank,
			.procs = local.procs > (unsigned) params->local_rank ?
				 local.procs : 0,
			.name = "FI_TAGRV_LOCAL_RANK",
		};
	return local;
}

int tagrv_info_sort(const struct tagrv_params *params,
		    struct tagrv_device_desc *descs, size_t cnt, unsigned *alike)
{
	struct tagrv_local_rank local = tagrv_info_local_rank(params);
	struct tagrv_device_desc *copy = malloc(cnt * sizeof(*copy));
	struct key *keys = calloc(2 * cnt, sizeof(*keys));

	if (!copy || !keys) {
		free(copy);
		free(keys);
		return -FI_ENOMEM;
	}
	memcpy(copy, descs, cnt * sizeof(*copy));
	fill_keys(keys, copy, cnt);
	sort(keys, cnt);
	share_out(keys, cnt, &local, keys + cnt);
	for (size_t i = 0; i < cnt; i++) {
		descs[i] = *keys[cnt + i].desc;
		if (alike)
			alike[i] = keys[cnt + i].alike;
	}
	free(copy);
	free(keys);
	return 0;
}

const char *tagrv_info_why(const struct tagrv_params *params,
			   const struct tagrv_device_desc *desc, unsigned alike,
			   char *text, size_t len)
{
	struct tagrv_local_rank local = tagrv_info_local_rank(params);
	int used;

	used = desc->numa_node >= 0 ?
	       snprintf(text, len, "node %d, ", desc->numa_node) : 0;
	used += desc->distance ?
		snprintf(text + used, len - (size_t) used,
			 "distance %u from this process%s", desc->distance,
			 desc->distance == TAGRV_CPUS_NEAR ? " (near)" : "") :
		snprintf(text + used, len - (size_t) used, "distance not known");
	if (desc->network[0])
		used += snprintf(text + used, len - (size_t) used, "; network %s",
				 desc->network);
	if (alike > 1 && local.spreads)
		snprintf(text + used, len - (size_t) used,
			 "; one of %u alike, which Open MPI shares out by itself", alike);
	else if (alike > 1 && local.name)
		snprintf(text + used, len - (size_t) used,
			 "; one of %u alike, shared out by local rank %u (%s)", alike,
			 local.rank, local.name);
	else if (alike > 1)
		snprintf(text + used, len - (size_t) used,
			 "; one of %u alike, but no launcher says a local rank", alike);
	return text;
}
