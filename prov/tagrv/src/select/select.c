/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of protocols by size: see select.h.
 */
#include "select/select.h"

#include <math.h>
#include <stdlib.h>

#include "core/limits.h"
#include "wire/packet.h"

/* A straight line: seconds = fixed + len * per_byte. */
struct cost {
	double	fixed, per_byte;
};

/* ---- the protocols ---- */

static struct cost cost_eager(const struct tagrv_xport_attr *a)
{
	double copy = a->copy_bandwidth > 0 ? 1 / a->copy_bandwidth : 0;

	return (struct cost) {
		.fixed = a->latency + a->overhead,
		.per_byte = TAGRV_MAX(1 / a->bandwidth, copy),
	};
}

static struct cost cost_get(const struct tagrv_xport_attr *a)
{
	return (struct cost) {
		.fixed = 2 * a->reg_overhead + 4 * a->latency +
			 3 * a->overhead + a->get_overhead,
		.per_byte = 2 * a->reg_growth + 1 / a->bandwidth,
	};
}

/* One packet more than a get: the receiver's CTS comes before the bytes. */
static struct cost cost_put(const struct tagrv_xport_attr *a)
{
	struct cost cost = cost_get(a);

	cost.fixed = TAGRV_MAX(cost.fixed + a->latency + a->put_more, 0.0);
	return cost;
}

static struct cost cost_copy(const struct tagrv_xport_attr *a)
{
	struct cost cost = cost_eager(a);

	cost.fixed = 4 * a->latency + 4 * a->overhead;
	if (a->max_packet)
		cost.per_byte += (a->overhead + a->frag_overhead) /
				 (double) a->max_packet;
	return cost;
}

/* Begins later than a get and grows less, so that both meet at pipe_from. */
static struct cost cost_pipe_measured(const struct tagrv_xport_attr *a)
{
	struct cost cost = cost_get(a);
	double lead = TAGRV_MIN(2 * a->latency + a->overhead,
				a->pipe_from * cost.per_byte / 2);

	cost.fixed += lead;
	cost.per_byte -= lead / a->pipe_from;
	return cost;
}

/* The next piece is registered while pieces before it are moved. */
static struct cost cost_pipe(const struct tagrv_xport_attr *a)
{
	double piece = (double) a->reg_piece, other;
	struct cost cost = cost_get(a);

	if (a->pipe_from > 0)
		return cost_pipe_measured(a);
	cost.fixed += 2 * a->latency + a->overhead;
	if (!a->reg_piece)
		return cost;
	other = a->reg_growth + (a->reg_overhead + 2 * a->overhead +
				 a->get_overhead) / piece;
	cost.fixed += 2 * piece * a->reg_growth;
	cost.per_byte = TAGRV_MAX(1 / a->bandwidth, other);
	return cost;
}

/* The receiver's copy remains, the sender's does not. */
static struct cost cost_prepared(const struct tagrv_xport_attr *a)
{
	struct cost cost = cost_eager(a);

	cost.fixed += a->prep_overhead;
	cost.per_byte = (cost.per_byte + 1 / a->bandwidth) / 2;
	return cost;
}

static const struct proto {
	const char *name;
	uint32_t caps;		/* TAGRV_XPORT_* that the transport must have */
	struct cost (*cost)(const struct tagrv_xport_attr *attr);
} protos[TAGRV_PROTO_CNT] = {
	[TAGRV_PROTO_EAGER] = { "eager", 0, cost_eager },
	[TAGRV_PROTO_RNDV_READ] = { "get", TAGRV_XPORT_GET, cost_get },
	[TAGRV_PROTO_RNDV_WRITE] = { "put", TAGRV_XPORT_PUT, cost_put },
	[TAGRV_PROTO_RNDV_COPY] = { "copy", 0, cost_copy },
	[TAGRV_PROTO_RNDV_PIPE] = { "pipeline", TAGRV_XPORT_GET, cost_pipe },
	[TAGRV_PROTO_EAGER_PREP] = { "prepared", TAGRV_XPORT_PREPARED,
				     cost_prepared },
};

const char *tagrv_proto_name(enum tagrv_proto proto)
{
	return protos[proto].name;
}

/* ---- estimates ---- */

static bool is_time(double value)
{
	return isfinite(value) && value >= 0;
}

static bool attr_is_valid(const struct tagrv_xport_attr *a)
{
	return a->bandwidth > 0 && a->copy_bandwidth >= 0 &&
	       is_time(a->latency) && is_time(a->overhead) &&
	       is_time(a->frag_overhead) &&
	       is_time(a->get_overhead) && is_time(a->prep_overhead) &&
	       is_time(a->reg_overhead) &&
	       is_time(a->reg_growth) && isfinite(a->put_more) && is_time(a->pipe_from);
}

static double time_of(struct cost cost, size_t len)
{
	return cost.fixed + (double) len * cost.per_byte;
}

double tagrv_select_estimate(enum tagrv_proto proto,
			     const struct tagrv_xport_attr *attr, size_t len)
{
	return attr_is_valid(attr) ? time_of(protos[proto].cost(attr), len) : -1;
}

/* Beyond that two lines are so close that either size is right. */
#define ROUNDING_STEPS	16

/*
 * The first size >= low at which b takes at most 'allow' times the time of a;
 * SIZE_MAX: there is none. The loops correct rounding errors of the division.
 */
static size_t first_size_within(struct cost a, struct cost b, double allow,
				size_t low)
{
	double gain = allow * a.per_byte - b.per_byte;
	double lead = b.fixed - allow * a.fixed;
	size_t len;

	if (time_of(b, low) <= allow * time_of(a, low))
		return low;
	if (!(gain > 0) || !(lead / gain < (double) TAGRV_MAX_MSG))
		return SIZE_MAX;
	len = (size_t) (lead / gain) + 1;
	for (int i = 0; i < ROUNDING_STEPS && len > low + 1; i++, len--)
		if (time_of(b, len - 1) > allow * time_of(a, len - 1))
			break;
	for (int i = 0; i < ROUNDING_STEPS; i++, len++)
		if (time_of(b, len) <= allow * time_of(a, len))
			break;
	return len;
}

/* ---- one size ---- */

struct facts {
	const struct tagrv_select_conf *conf;
	const struct tagrv_xport_attr *attr;
	size_t	eager_limit;
	bool	has_estimates;	/* the attributes are valid */
	size_t	crossover;	/* where rendezvous overtakes eager; SIZE_MAX:
				   nowhere, or not computed */
	size_t	thresh;		/* first size of rendezvous; SIZE_MAX: none */
	enum tagrv_select_reason below, above;	/* reasons on its two sides */
};

static bool is_possible(const struct facts *f, enum tagrv_proto proto, size_t len)
{
	if (proto == TAGRV_PROTO_EAGER)
		return len <= f->eager_limit;
	if (proto == TAGRV_PROTO_EAGER_PREP && len > f->eager_limit)
		return false;
	return len && (f->attr->caps & protos[proto].caps) == protos[proto].caps;
}

/* If FI_TAGRV_RNDV names a possible rendezvous, it is the only candidate. */
static bool is_candidate(const struct facts *f, enum tagrv_proto proto)
{
	enum tagrv_proto rndv = f->conf->rndv;

	if (rndv && is_possible(f, rndv, 1))
		return proto == rndv;
	return is_possible(f, proto, 1);
}

/* At a tie, a is faster if it grows less: its range begins at this size. */
static bool is_faster(const struct facts *f, enum tagrv_proto a,
		      enum tagrv_proto b, size_t len)
{
	double time_a = tagrv_select_estimate(a, f->attr, len);
	double time_b = tagrv_select_estimate(b, f->attr, len);

	if (time_a != time_b || !f->has_estimates)
		return time_a < time_b;
	return protos[a].cost(f->attr).per_byte < protos[b].cost(f->attr).per_byte;
}

/* Always finds one: copies are always possible. Without estimates, the first one. */
static enum tagrv_proto best_rndv(const struct facts *f, size_t len)
{
	enum tagrv_proto best = TAGRV_PROTO_EAGER;

	for (int p = TAGRV_PROTO_EAGER + 1; p < TAGRV_PROTO_RNDV_END; p++)
		if (is_candidate(f, p) && (best == TAGRV_PROTO_EAGER ||
					   is_faster(f, p, best, len)))
			best = p;
	return best;
}

static void find_thresh(struct facts *f)
{
	double allow = 1 + f->conf->perf_diff / 100;
	size_t first = SIZE_MAX;

	f->below = f->above = TAGRV_SELECT_THRESH;
	f->thresh = f->conf->thresh;
	if (f->thresh)
		return;
	for (int p = TAGRV_PROTO_EAGER + 1;
	     f->has_estimates && p < TAGRV_PROTO_RNDV_END; p++)
		if (is_candidate(f, p))
			first = TAGRV_MIN(first, first_size_within(
				cost_eager(f->attr), protos[p].cost(f->attr),
				allow, 1));
	f->crossover = first;
	f->thresh = TAGRV_MAX(first, TAGRV_INJECT_MAX + 1);
	f->below = TAGRV_SELECT_FASTER;
	f->above = TAGRV_SELECT_NEAR;
	if (first != SIZE_MAX)
		return;
	f->thresh = f->conf->fallback ? f->conf->fallback : SIZE_MAX;
	f->below = f->above = f->has_estimates ? TAGRV_SELECT_FALLBACK :
					 TAGRV_SELECT_UNKNOWN;
}

static enum tagrv_select_reason rndv_reason(const struct facts *f, size_t len,
					    enum tagrv_proto proto)
{
	if (f->above == TAGRV_SELECT_NEAR &&
	    tagrv_select_estimate(proto, f->attr, len) <=
	    tagrv_select_estimate(TAGRV_PROTO_EAGER, f->attr, len))
		return TAGRV_SELECT_FASTER;
	return f->above;
}

static struct tagrv_select_range decide(const struct facts *f, size_t len)
{
	struct tagrv_select_range range = { .proto = TAGRV_PROTO_EAGER,
					    .reason = TAGRV_SELECT_EMPTY };
	bool impossible = false;

	if (!len)
		return range;
	for (size_t i = 0; i < f->conf->force_cnt; i++) {
		if (len < f->conf->force[i].from || len >= f->conf->force[i].to)
			continue;
		range.proto = f->conf->force[i].proto;
		range.reason = TAGRV_SELECT_FORCED;
		if (is_possible(f, range.proto, len))
			return range;
		impossible = true;
	}
	if (len <= f->eager_limit && len < f->thresh) {
		range.proto = TAGRV_PROTO_EAGER;
		range.reason = len < f->crossover ? f->below : TAGRV_SELECT_SHORT;
	} else {
		range.proto = best_rndv(f, len);
		range.reason = len > f->eager_limit ? TAGRV_SELECT_LIMIT :
				rndv_reason(f, len, range.proto);
	}
	if (impossible)
		range.reason = TAGRV_SELECT_UNABLE;
	return range;
}

/* Messages that can be injected are copied, never prepared. */
static size_t find_prepared(const struct facts *f)
{
	size_t len;

	if (!f->has_estimates || !is_possible(f, TAGRV_PROTO_EAGER_PREP, 1))
		return SIZE_MAX;
	len = first_size_within(cost_eager(f->attr), cost_prepared(f->attr), 1, 1);
	len = TAGRV_MAX(len, TAGRV_INJECT_MAX + 1);
	return len <= f->eager_limit ? len : SIZE_MAX;
}

size_t tagrv_select_eager_limit(const struct tagrv_params *params,
				size_t max_packet)
{
	return TAGRV_MIN(params->eager_max,
			 max_packet - sizeof(struct tagrv_hdr));
}

/* ---- the table ---- */

/* Sizes at which the choice may change: a range begins at each of them. */
struct points {
	size_t	at[TAGRV_SELECT_RANGES];
	size_t	cnt;
};

static void add_point(struct points *points, size_t at)
{
	if (at <= TAGRV_MAX_MSG)
		points->at[points->cnt++] = at;
}

static int compare(const void *a, const void *b)
{
	size_t x = *(const size_t *) a, y = *(const size_t *) b;

	return (x > y) - (x < y);
}

/* Sizes at which one protocol overtakes another. */
static void add_crossovers(struct points *points, const struct facts *f)
{
	for (int p = 0; f->has_estimates && p < TAGRV_PROTO_RNDV_END; p++)
		for (int q = 0; q < TAGRV_PROTO_RNDV_END; q++)
			if (p != q)
				add_point(points, first_size_within(
					protos[p].cost(f->attr),
					protos[q].cost(f->attr), 1, 1));
}

static void collect_points(struct points *points, const struct facts *f)
{
	points->cnt = 0;
	add_point(points, 0);
	add_point(points, 1);
	add_point(points, f->eager_limit + 1);
	add_point(points, f->crossover);
	add_point(points, f->thresh);
	add_crossovers(points, f);
	for (size_t i = 0; i < f->conf->force_cnt; i++) {
		add_point(points, f->conf->force[i].from);
		add_point(points, f->conf->force[i].to);
	}
	qsort(points->at, points->cnt, sizeof(*points->at), compare);
}

/*
 * True: b continues range a. The empty message alone joins the range behind it,
 * whatever its reason, if that is eager, too.
 */
static bool extends(const struct tagrv_select_range *a,
		    const struct tagrv_select_range *b)
{
	return a->proto == b->proto && (a->reason == b->reason ||
					a->reason == TAGRV_SELECT_EMPTY);
}

static void add_range(struct tagrv_select_range *list, size_t *cnt,
		      size_t first, struct tagrv_select_range range)
{
	struct tagrv_select_range *prev = *cnt ? &list[*cnt - 1] : NULL;

	if (prev && extends(prev, &range)) {
		prev->reason = range.reason;
		prev->last = range.last;
		return;
	}
	if (prev)
		prev->last = first - 1;
	list[(*cnt)++] = range;
}

void tagrv_select_build(struct tagrv_select *table,
			const struct tagrv_select_conf *conf,
			const struct tagrv_xport_attr *attr, size_t eager_limit)
{
	struct facts f = {
		.conf = conf,
		.attr = attr,
		.eager_limit = TAGRV_MIN(eager_limit, TAGRV_MAX_MSG - 1),
		.has_estimates = attr_is_valid(attr),
		.crossover = SIZE_MAX,
	};
	struct points points;

	find_thresh(&f);
	collect_points(&points, &f);
	table->prepared = find_prepared(&f);
	table->cnt = table->no_credit_cnt = 0;
	for (size_t i = 0; i < points.cnt; i++) {
		size_t first = points.at[i];
		struct tagrv_select_range range = decide(&f, first);

		range.last = TAGRV_MAX_MSG;
		add_range(table->range, &table->cnt, first, range);
		if (first > f.eager_limit)
			continue;
		range = (struct tagrv_select_range) {
			.last = f.eager_limit,
			.proto = best_rndv(&f, first),
			.reason = TAGRV_SELECT_FASTER,
		};
		add_range(table->no_credit, &table->no_credit_cnt, first, range);
	}
}

/* Rights that a protocol needs at the one side or the other. */
static unsigned rights_of(enum tagrv_proto proto)
{
	uint32_t caps = protos[proto].caps;

	return (caps & TAGRV_XPORT_GET ? TAGRV_MEM_READ : 0u) |
	       (caps & TAGRV_XPORT_PUT ? TAGRV_MEM_WRITE : 0u);
}

unsigned tagrv_select_rights(const struct tagrv_select_conf *conf,
			     const struct tagrv_xport_attr *attr,
			     size_t eager_limit)
{
	unsigned rights = rights_of(conf->rndv);
	struct tagrv_select table;

	tagrv_select_build(&table, conf, attr, eager_limit);
	for (size_t i = 0; i < table.cnt; i++)
		rights |= rights_of(table.range[i].proto);
	for (size_t i = 0; i < table.no_credit_cnt; i++)
		rights |= rights_of(table.no_credit[i].proto);
	/* Where nobody can read, receivers ask for writes: proto/rndv/begin.c. */
	if (!(attr->caps & TAGRV_XPORT_GET))
		rights |= TAGRV_MEM_WRITE;
	return rights;
}

static const struct tagrv_select_range *
find_range(const struct tagrv_select_range *range, size_t cnt, size_t len)
{
	const struct tagrv_select_range *last = &range[cnt - 1];

	while (len > range->last && range < last)
		range++;
	return range;
}

const struct tagrv_select_range *
tagrv_select_find(const struct tagrv_select *table, size_t len)
{
	return find_range(table->range, table->cnt, len);
}

enum tagrv_proto tagrv_select_no_credit(const struct tagrv_select *table,
					size_t len)
{
	return find_range(table->no_credit, table->no_credit_cnt, len)->proto;
}

size_t tagrv_select_all_eager(const struct tagrv_select *table)
{
	size_t last = 0;

	for (size_t i = 0; i < table->cnt &&
			   table->range[i].proto == TAGRV_PROTO_EAGER; i++)
		last = table->range[i].last;
	return TAGRV_MIN(last, table->prepared - 1);
}
