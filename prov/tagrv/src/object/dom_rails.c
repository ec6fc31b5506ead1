/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Chooses the devices that a domain joins: see dom_rails.h.
 *
 * A library above may open a domain for each adapter and spread its data itself, so
 * only processes that have two adapters or more each get them without being asked.
 */
#include "object/dom_rails.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"

/* ---- processes of this host ---- */

/* A number from 1 on, and nothing behind it; else 0. */
static unsigned read_count(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	return end == text || *end || value < 1 || value > INT_MAX ?
	       0 : (unsigned) value;
}

/*
 * Slurm's "4(x2),3": two hosts of 4 tasks, one of 3. node: of this host, -1 if it is not
 * known: then the most that any host has. 0: malformed.
 */
static unsigned read_slurm(const char *text, long node)
{
	unsigned most = 0;

	for (;;) {
		char *end;
		long tasks = strtol(text, &end, 10), times = 1;

		if (end == text || tasks < 1 || tasks > INT_MAX)
			return 0;
		text = end;
		if (!strncmp(text, "(x", 2)) {
			times = strtol(text + 2, &end, 10);
			if (end == text + 2 || *end != ')' || times < 1)
				return 0;
			text = end + 1;
		}
		if (node >= 0 && node < times)
			return (unsigned) tasks;
		if (node >= 0)
			node -= times;
		most = TAGRV_MAX(most, (unsigned) tasks);
		if (*text != ',')
			return *text || node >= 0 ? 0 : most;
		text++;
	}
}

static long slurm_node(char *(*get)(const char *name))
{
	const char *text = get("SLURM_NODEID");
	char *end;
	long node = text ? strtol(text, &end, 10) : -1;

	return text && (end == text || *end) ? -1 : node;
}

unsigned tagrv_dom_rails_procs(char *(*get)(const char *name), const char **name)
{
	static const struct {
		const char *name;
		bool slurm;
	} table[] = {
		{ "OMPI_COMM_WORLD_LOCAL_SIZE", false },
		{ "MPI_LOCALNRANKS", false },		/* hydra */
		{ "PMI_LOCAL_SIZE", false },
		{ "PALS_LOCAL_SIZE", false },
		{ "MV2_COMM_WORLD_LOCAL_SIZE", false },
		{ "SLURM_STEP_TASKS_PER_NODE", true },
		{ "SLURM_TASKS_PER_NODE", true },
		{ "SLURM_NTASKS_PER_NODE", false },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(table); i++) {
		const char *text = get(table[i].name);
		unsigned cnt;

		if (!text)
			continue;
		cnt = table[i].slurm ? read_slurm(text, slurm_node(get)) :
				       read_count(text);
		if (!cnt)
			continue;
		*name = table[i].name;
		return cnt;
	}
	return 0;
}

/* ---- devices ---- */

static const struct tagrv_device_desc *
find_desc(const struct tagrv_device_desc *descs, size_t cnt, const char *name)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(descs[i].name, name))
			return &descs[i];
	return NULL;
}

static bool has(const struct tagrv_dom_rails *rails, const char *name)
{
	for (unsigned i = 0; i < rails->cnt; i++)
		if (!strcmp(rails->names[i], name))
			return true;
	return false;
}

static void add(struct tagrv_dom_rails *rails, const char *name)
{
	if (rails->cnt < TAGRV_DOM_RAILS_MAX && !has(rails, name))
		snprintf(rails->names[rails->cnt++], TAGRV_DEVNAME_MAX, "%s", name);
}

static bool is_alike(const struct tagrv_device_desc *a,
		     const struct tagrv_device_desc *b)
{
	return a->usable && !strcmp(a->link_type, b->link_type);
}

/* Adds devices of the same kind of network in their order, from the own one on. */
static void add_next(struct tagrv_dom_rails *rails, unsigned wanted,
		     const struct tagrv_device_desc *descs, size_t cnt,
		     const struct tagrv_device_desc *own)
{
	size_t at = (size_t) (own - descs);

	for (size_t i = 1; i < cnt && rails->cnt < wanted; i++) {
		const struct tagrv_device_desc *desc = &descs[(at + i) % cnt];

		if (is_alike(desc, own))
			add(rails, desc->name);
	}
}

static unsigned count_alike(const struct tagrv_device_desc *descs, size_t cnt,
			    const struct tagrv_device_desc *own)
{
	unsigned alike = 0;

	for (size_t i = 0; i < cnt; i++)
		alike += is_alike(&descs[i], own);
	return alike;
}

/* The list is "a,b" or "a+b"; names that are no usable device are left out. */
static void add_names(struct tagrv_dom_rails *rails, const char *list,
		      const struct tagrv_device_desc *descs, size_t cnt,
		      const struct tagrv_device_desc *own)
{
	char copy[256], *save = NULL;
	bool own_named = false;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *name = strtok_r(copy, ",+ ", &save); name;
	     name = strtok_r(NULL, ",+ ", &save)) {
		const struct tagrv_device_desc *desc = find_desc(descs, cnt, name);

		own_named |= !strcmp(name, own->name);
		if (desc && is_alike(desc, own))
			add(rails, name);
		else if (!desc || desc != own)
			rails->wrong = true;
	}
	snprintf(rails->why, sizeof(rails->why), "%s", rails->wrong ?
		 "some of the names are no usable devices of this network" :
		 "by their names");
	if (own_named)
		return;
	rails->cnt = 1;
	rails->wrong = true;
	snprintf(rails->why, sizeof(rails->why),
		 "the names are without the domain's own device");
}

static void choose_auto(struct tagrv_dom_rails *rails, unsigned procs,
			const struct tagrv_device_desc *descs, size_t cnt,
			const struct tagrv_device_desc *own)
{
	unsigned alike = count_alike(descs, cnt, own);

	if (!procs) {
		snprintf(rails->why, sizeof(rails->why),
			 "no launcher says how many processes this host has");
		return;
	}
	add_next(rails, alike / procs, descs, cnt, own);
	snprintf(rails->why, sizeof(rails->why),
		 "adapters: %u, processes on this host: %u", alike, procs);
}

void tagrv_dom_rails_choose(const char *value, unsigned procs,
			    const struct tagrv_device_desc *descs, size_t cnt,
			    const char *name, struct tagrv_dom_rails *rails)
{
	const struct tagrv_device_desc *own = find_desc(descs, cnt, name);
	unsigned wanted = read_count(value);

	*rails = (struct tagrv_dom_rails) { .cnt = 0 };
	add(rails, name);
	if (!own) {
		snprintf(rails->why, sizeof(rails->why),
			 "the device is not listed");
	} else if (!*value || !strcasecmp(value, "auto")) {
		choose_auto(rails, procs, descs, cnt, own);
	} else if (wanted) {
		add_next(rails, wanted, descs, cnt, own);
		snprintf(rails->why, sizeof(rails->why), "adapters wanted: %u",
			 wanted);
	} else {
		add_names(rails, value, descs, cnt, own);
	}
}

void tagrv_dom_rails_warn(const char *value, const struct tagrv_dom_rails *rails,
			  const struct tagrv_device_desc *descs, size_t cnt)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	char names[256] = "";
	size_t used = 0;

	if (atomic_flag_test_and_set(&warned))
		return;
	for (size_t i = 0; i < cnt && used < sizeof(names); i++)
		if (descs[i].usable)
			used += (size_t) snprintf(names + used,
						  sizeof(names) - used, " %s",
						  descs[i].name);
	tagrv_warn("FI_TAGRV_RAILS is '%s': %s; adapters used by domain %s: %u; "
		   "there are:%s\n", value, rails->why, rails->names[0],
		   rails->cnt, names);
}
