/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parameters of the choice of protocols. Their grammar:
 *
 *   RNDV          = "auto" | protocol, which is not eager
 *   RNDV_THRESH   = "auto" | size          RNDV_THRESH_FALLBACK = "inf" | size
 *   PROTO         = item { "," item }
 *   item          = protocol ":" [size] "-" [size]      the second one excluded
 *   size          = number ["k" | "m" | "g"]
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/limits.h"
#include "core/log.h"
#include "core/param.h"
#include "select/select.h"

/* Sizes above TAGRV_MAX_MSG are read as TAGRV_MAX_MSG. False: this is no size. */
static bool parse_size(const char *text, const char **end, size_t *size)
{
	static const char units[] = "kmg";
	unsigned long long value;
	const char *unit;
	char *stop;

	if (*text < '0' || *text > '9')
		return false;
	value = strtoull(text, &stop, 10);
	value = TAGRV_MIN(value, (unsigned long long) TAGRV_MAX_MSG);
	unit = *stop ? strchr(units, *stop | 0x20) : NULL;
	if (unit) {
		int shift = 10 * (int) (unit - units + 1);

		/* The shift must not overflow; 2^33 k exceeds the limit anyway. */
		value = value >> 33 ? TAGRV_MAX_MSG : value << shift;
		stop++;
	}
	*size = (size_t) TAGRV_MIN(value, (unsigned long long) TAGRV_MAX_MSG);
	*end = stop;
	return true;
}

/* ---- one size, or a word that stands for none ---- */

/* Returns the size, or 0 for 'word' and for invalid text, which is logged. */
static size_t read_size(const char *name, const char *text, const char *word,
			atomic_flag *logged)
{
	const char *end;
	size_t size;

	if (!*text || !strcasecmp(text, word))
		return 0;
	/* An empty message is always eager: a threshold of 0 means 1. */
	if (parse_size(text, &end, &size) && !*end)
		return TAGRV_MAX(size, (size_t) 1);
	if (!atomic_flag_test_and_set(logged))
		tagrv_warn("FI_TAGRV_%s is '%s', but must be bytes (such as "
			   "4096 or 4k) or %s: %s is used\n", name, text, word,
			   word);
	return 0;
}

/* ---- one kind of rendezvous ---- */

static enum tagrv_proto read_rndv(const char *text)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;

	for (int p = TAGRV_PROTO_EAGER + 1; p < TAGRV_PROTO_RNDV_END; p++)
		if (!strcasecmp(text, tagrv_proto_name(p)))
			return p;
	if (*text && strcasecmp(text, "auto") &&
	    !atomic_flag_test_and_set(&logged))
		tagrv_warn("FI_TAGRV_RNDV is '%s', but must be auto, get, "
			   "put, copy or pipeline: auto is used\n", text);
	return TAGRV_PROTO_EAGER;
}

/* ---- forced ranges ---- */

static bool parse_name(const char **pos, enum tagrv_proto *proto)
{
	size_t len = strcspn(*pos, ":,");

	for (int p = 0; p < TAGRV_PROTO_CNT; p++) {
		const char *name = tagrv_proto_name(p);

		if (strlen(name) == len && !strncasecmp(*pos, name, len)) {
			*pos += len;
			*proto = p;
			return true;
		}
	}
	return false;
}

/* Adds the range at *pos to conf. Returns NULL, or the error at *pos. */
static const char *parse_item(const char **pos, struct tagrv_select_conf *conf)
{
	size_t i = conf->force_cnt, from = 0, to = SIZE_MAX;
	enum tagrv_proto proto;

	if (i == TAGRV_SELECT_FORCED_MAX)
		return "too many ranges";
	if (!parse_name(pos, &proto))
		return "no such protocol";
	if (**pos != ':')
		return "':' and a range are missing";
	++*pos;
	parse_size(*pos, pos, &from);
	if (**pos != '-')
		return "a range is written as 4k-64k, 0-4k or 4k-";
	++*pos;
	parse_size(*pos, pos, &to);
	if (**pos && **pos != ',')
		return "this is no size";
	if (from >= to)
		return "the range is empty";
	for (size_t k = 0; k < i; k++)
		if (from < conf->force[k].to && conf->force[k].from < to)
			return "the range overlaps one before";
	conf->force[i].proto = proto;
	conf->force[i].from = from;
	conf->force[i].to = to;
	conf->force_cnt++;
	return NULL;
}

/* Writes the names of all protocols, "eager, get, ...". */
static const char *list_names(char *text, size_t size)
{
	size_t used = 0;

	for (int p = 0; p < TAGRV_PROTO_CNT && used < size; p++)
		used += (size_t) snprintf(text + used, size - used, "%s%s",
					  p ? ", " : "", tagrv_proto_name(p));
	return text;
}

static void read_force(struct tagrv_select_conf *conf, const char *text)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	const char *pos = text, *error = NULL;
	char names[128];

	while (*pos && !error) {
		const char *start = pos;

		error = parse_item(&pos, conf);
		if (error)
			pos = start;
		else if (*pos == ',' && !*++pos)
			error = "a range is missing";
	}
	if (!error)
		return;
	conf->force_cnt = 0;
	if (!atomic_flag_test_and_set(&logged))
		tagrv_warn("FI_TAGRV_PROTO is '%s': %s at '%s' (protocols: "
			   "%s): it is not used\n", text, error, pos,
			   list_names(names, sizeof(names)));
}

void tagrv_select_conf_read(struct tagrv_select_conf *conf,
			    const struct tagrv_params *params)
{
	static atomic_flag logged[2] = { ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT };

	memset(conf, 0, sizeof(*conf));
	conf->thresh = read_size("RNDV_THRESH", params->rndv_thresh, "auto",
				 &logged[0]);
	conf->fallback = read_size("RNDV_THRESH_FALLBACK",
				   params->rndv_fallback, "inf", &logged[1]);
	conf->perf_diff = params->rndv_perf_diff;
	conf->rndv = read_rndv(params->rndv);
	read_force(conf, params->proto);
}
