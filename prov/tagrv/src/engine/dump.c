/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Dumps: see dump.h.
 *
 *   endpoint ADDRESS ...
 *     list: ...                           of receives in an adapter, if there is one
 *     peer ADDRESS STATE ...              peers with something under way first
 *     sends: N (n QUEUED, n FIN_WAIT ...)
 *       send HANDLE STATE ...             oldest first
 *     receives: N (...)
 *
 * Operations are found in their pools, whatever list or callback has them, and posted
 * receives in the matching engine.
 * util/tagrv-gdb.py prints the same text from a core: change both.
 */
#include "engine/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "engine/dump_op.h"
#include "object/lane.h"
#include "object/tags.h"

#define OPS_MAX		64	/* printed of sends, and of receives */
#define PEERS_MAX	64
#define LOG_LINES	60	/* of a dump that goes to the log */

/* ---- operations ---- */

/* An operation; or a posted receive that has none. */
struct item {
	const struct tagrv_op *op;	/* or NULL */
	const struct tagrv_recv *recv;
	uint32_t born, handle;
};

/* Counted by state, and remembered as far as there is memory. */
struct op_set {
	const struct tagrv_dom *dom;
	const struct tagrv_engine *engine;	/* to be dumped */
	struct item *items;	/* NULL: out of memory */
	size_t	cnt, cap;
	size_t	states[TAGRV_OP_STATES];
	uint64_t least_age;	/* ms, of posted receives that are wanted */
};

typedef bool (*op_filter_fn)(const struct tagrv_op *op, const void *arg);

static void add(struct op_set *set, unsigned state, struct item item)
{
	set->states[state]++;
	if (set->items && set->cnt < set->cap)
		set->items[set->cnt++] = item;
}

static void collect(struct op_set *set, const struct tagrv_pool *pool,
		    op_filter_fn wanted, const void *arg)
{
	for (uint32_t i = 0; i < tagrv_pool_capacity(pool); i++) {
		const struct tagrv_op *op = tagrv_pool_at(pool, i);

		if (op->node.used && op->state < TAGRV_OP_STATES &&
		    wanted(op, arg))
			add(set, op->state, (struct item) {
				.op = op, .born = op->born,
				.handle = op->node.handle,
			});
	}
}

/* For tagrv_match_find(): false, which goes on. */
static bool add_posted(const struct tagrv_match_recv *record, tagrv_match_id id,
		       void *arg)
{
	const struct tagrv_recv *recv = tagrv_recv_of_const(record);
	struct op_set *set = arg;

	if (!recv->op && tagrv_dom_age(set->dom, recv->born) >= set->least_age)
		add(set, TAGRV_OP_POSTED, (struct item) {
			.recv = recv, .born = recv->born,
			.handle = (uint32_t) id,
		});
	return false;
}

/* The posted receives that have no op. */
static void collect_posted(struct op_set *set, const struct tagrv_rx *rx)
{
	(void) tagrv_match_find(rx->match, add_posted, set);
}

/* Oldest first; of the same tick by handle, those with an op first. Ages would grow
 * between calls. */
static int compare_age(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->born != y->born)
		return x->born < y->born ? -1 : 1;
	if (x->handle != y->handle)
		return x->handle < y->handle ? -1 : 1;
	return !x->op - !y->op;
}

static void dump_item(const struct op_set *set, const struct item *item,
		      FILE *out)
{
	if (item->op)
		tagrv_op_dump(item->op, set->dom, out);
	else
		tagrv_recv_dump(item->recv, item->handle, set->engine, out);
}

static void dump_set(struct op_set *set, const char *what, FILE *out)
{
	size_t shown = TAGRV_MIN(set->cnt, (size_t) OPS_MAX);
	const char *before = " (";
	size_t all = 0;

	for (size_t i = 0; i < TAGRV_OP_STATES; i++)
		all += set->states[i];
	fprintf(out, "  %s: %zu", what, all);
	for (unsigned i = 0; i < TAGRV_OP_STATES; i++) {
		if (!set->states[i])
			continue;
		fprintf(out, "%s%zu %s", before, set->states[i],
			tagrv_op_state_name(i));
		before = ", ";
	}
	fputs(all ? ")\n" : "\n", out);
	if (set->cnt)
		qsort(set->items, set->cnt, sizeof(*set->items), compare_age);
	for (size_t i = 0; i < shown; i++)
		dump_item(set, &set->items[i], out);
	if (all > shown)
		fprintf(out, "    and %zu more\n", all - shown);
}

static void init_set(struct op_set *set, const struct tagrv_engine *engine,
		     size_t cap)
{
	memset(set, 0, sizeof(*set));
	set->dom = engine->dom;
	set->engine = engine;
	set->items = calloc(cap ? cap : 1, sizeof(*set->items));
	set->cap = cap;
}

static bool is_any(const struct tagrv_op *op, const void *arg)
{
	(void) arg;
	return op != NULL;
}

/* Receives of a shared context belong to the engine whose message they have. */
static bool is_of_engine(const struct tagrv_op *op, const void *arg)
{
	return op->state == TAGRV_OP_POSTED || op->engine == arg;
}

static void dump_sends(const struct tagrv_engine *engine, FILE *out)
{
	struct op_set set;

	init_set(&set, engine, engine->pools.tx_ops.used);
	collect(&set, &engine->pools.tx_ops, is_any, NULL);
	dump_set(&set, "sends", out);
	free(set.items);
}

static size_t posted_cnt(const struct tagrv_rx *rx)
{
	struct tagrv_match_stats stats;

	tagrv_match_get_stats(rx->match, &stats);
	return stats.posted;
}

static void dump_receives(const struct tagrv_engine *engine, FILE *out)
{
	const struct tagrv_rx *rx = engine->rx;
	struct op_set set;

	init_set(&set, engine, posted_cnt(rx) + rx->ops.used +
				    rx->slices.used +
				    engine->pools.pieces.used);
	collect_posted(&set, rx);
	collect(&set, &rx->ops, is_of_engine, engine);
	collect(&set, &rx->slices, is_of_engine, engine);
	collect(&set, &engine->pools.pieces, is_any, NULL);
	dump_set(&set, rx->shared ? "receives (posted ones are shared)" : "receives",
		 out);
	free(set.items);
}

/* ---- peers ---- */

static size_t length(const struct tagrv_list *list)
{
	const struct tagrv_list *node;
	size_t cnt = 0;

	tagrv_list_for_each(list, node)
		cnt++;
	return cnt;
}

static size_t bytes_of(uint32_t units)
{
	return (size_t) units * TAGRV_CREDIT_UNIT;
}

static void dump_lane(const struct tagrv_peer *peer, FILE *out)
{
	const struct tagrv_lane *lane = peer->lane;

	if (!lane) {
		fputs(", no connection", out);
		if (peer->lost)
			fprintf(out, ", lost: %s", fi_strerror(-peer->lost));
		return;
	}
	fprintf(out, " by %s, connection %u, sent %u, received %u envelopes, "
		"credit for %zu bytes left, %zu promised, %zu owed",
		lane->link->xport->ops->name, lane->epoch, peer->tx_seq,
		peer->rx_seq, bytes_of(peer->credit.left),
		bytes_of(peer->credit.promised), bytes_of(peer->credit.owed));
	if (lane->renew_since)
		fprintf(out, ", waits for new paths since %" PRIu64 " ms%s",
			tagrv_clock_ms() - lane->renew_since,
			lane->down ? " (none works)" : "");
}

static void dump_peer(const struct tagrv_peer *peer, FILE *out)
{
	char addr[TAGRV_ADDR_STRLEN];

	fprintf(out, "  peer %s",
		tagrv_addr_str(&peer->addr, addr, sizeof(addr)));
	if (peer->fi_addr != FI_ADDR_NOTAVAIL)
		fprintf(out, ", fi_addr %" PRIu64, peer->fi_addr);
	fprintf(out, ": %s", tagrv_peer_state_name(peer->state));
	dump_lane(peer, out);
	if (tagrv_peer_is_idle(peer)) {
		fputs("; idle\n", out);
		return;
	}
	fprintf(out, "; sends: %zu queued, %zu under way, of these %zu wait for "
		"the peer and %zu for room; receives: %zu with reads to post, "
		"%zu with a grant to send, %zu wait for the peer, which owes %u "
		"fragments; %zu acks to send%s\n",
		length(&peer->pending), peer->sent,
		length(&peer->waiting) + peer->rma.counted,
		length(&peer->writers), length(&peer->readers),
		length(&peer->to_grant), length(&peer->granted), peer->frags,
		length(&peer->acks),
		tagrv_list_linked(&peer->busy_node) ? "; to be served" : "");
}

static void dump_peers(const struct tagrv_engine *engine, FILE *out)
{
	size_t printed = 0;

	for (int idle = 0; idle < 2; idle++)
		for (size_t i = 0; i < engine->table.cnt; i++) {
			const struct tagrv_peer *peer = engine->table.peers[i];

			if (tagrv_peer_is_idle(peer) == idle && printed < PEERS_MAX) {
				dump_peer(peer, out);
				printed++;
			}
		}
	if (printed < engine->table.cnt)
		fprintf(out, "  and %zu more peers\n",
			engine->table.cnt - printed);
}

/* ---- endpoints ---- */

static void dump_tags(const struct tagrv_engine *engine, FILE *out)
{
	struct tagrv_tags_counts counts;

	if (!engine->tags)
		return;
	tagrv_tags_get_counts(engine->tags, &counts);
	fprintf(out, "  list: %u of %u entries, %u receives in software; %" PRIu64
		" messages unexpected, %" PRIu64 " handled; %u peers outside\n",
		counts.listed, counts.entries, counts.soft, counts.unexpected,
		counts.handled, counts.outside);
}

void tagrv_engine_dump(const struct tagrv_engine *engine, FILE *out)
{
	char addr[TAGRV_ADDR_STRLEN], rails[128];
	struct tagrv_match_stats match;

	tagrv_assert_locked(engine->dom);
	tagrv_match_get_stats(engine->match, &match);
	tagrv_rails_describe(&engine->rails, rails, sizeof(rails));
	fprintf(out, "endpoint %s of process %d%s: connections so far: %s; %zu "
		"receives posted, %zu messages unexpected, budget for %zu "
		"bytes of them left; %u fragments granted and not here; %" PRIu64
		" packets refused\n",
		tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		(int) getpid(), engine->enabled ? "" : ", not enabled", rails,
		match.posted, match.unexpected,
		bytes_of(engine->credit.budget), engine->credit.frags,
		engine->stats.bad_packets);
	dump_tags(engine, out);
	dump_peers(engine, out);
	dump_sends(engine, out);
	dump_receives(engine, out);
}

static void dump_one(const void *engine, FILE *out)
{
	tagrv_engine_dump(engine, out);
}

/* What 'dump' writes, to be freed; NULL: out of memory. */
static char *text_of(void (*dump)(const void *what, FILE *out),
		     const void *what)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	dump(what, out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

void tagrv_engine_dump_log(const struct tagrv_engine *engine)
{
	char *text = text_of(dump_one, engine), *line, *rest = text;
	int lines = 0;

	tagrv_assert_locked(engine->dom);
	while (rest && (line = strsep(&rest, "\n")) && *line) {
		if (++lines > LOG_LINES) {
			tagrv_warn("the rest of the dump is left out: set "
				   "FI_TAGRV_DUMP to a file\n");
			break;
		}
		tagrv_warn("%s\n", line);
	}
	free(text);
}

/* In one piece, where the file takes it: processes may share a file. */
static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			text += n;
			left -= (size_t) n;
		}
	}
	return 0;
}

int tagrv_engine_dump_fd(struct tagrv_engine *engine, int fd)
{
	char *text;
	int ret;

	tagrv_dom_lock(engine->dom);
	text = text_of(dump_one, engine);
	tagrv_lock_release(&engine->dom->lock);
	if (!text)
		return -FI_ENOMEM;
	ret = write_all(fd, text);
	free(text);
	return ret;
}

/* ---- operations that are too old ---- */

struct limit {
	const struct tagrv_dom *dom;
	uint64_t ms;
};

static bool is_old(const struct tagrv_op *op, const void *arg)
{
	const struct limit *limit = arg;

	/* A multi-receive buffer may be posted for as long as the program runs. */
	return tagrv_dom_age(limit->dom, op->born) >= limit->ms &&
	       !(op->state == TAGRV_OP_POSTED && op->rx.multi);
}

/* The receives of a shared context count once, for its first engine. */
static size_t count_old(const struct tagrv_engine *engine,
			const struct limit *limit)
{
	const struct tagrv_rx *rx = engine->rx;
	struct op_set set = { .dom = limit->dom, .least_age = limit->ms };
	size_t cnt = 0;

	collect(&set, &engine->pools.tx_ops, is_old, limit);
	if (!rx->shared || rx->first == engine) {
		collect_posted(&set, rx);
		collect(&set, &rx->ops, is_old, limit);
		collect(&set, &rx->slices, is_old, limit);
	}
	for (size_t i = 0; i < TAGRV_OP_STATES; i++)
		cnt += set.states[i];
	return cnt;
}

static size_t count_all_old(const struct tagrv_dom *dom)
{
	const struct limit limit = {
		.dom = dom, .ms = (uint64_t) dom->params.dump_after * 1000,
	};
	const struct tagrv_list *node;
	size_t old = 0;

	tagrv_list_for_each(&dom->engines, node)
		old += count_old(tagrv_container_of(node, struct tagrv_engine,
						    dom_node), &limit);
	return old;
}

static void dump_all(const void *arg, FILE *out)
{
	const struct tagrv_dom *dom = arg;
	const struct tagrv_list *node;

	fprintf(out, "tagrv: %zu operations of process %d are older than %d s "
		"(FI_TAGRV_DUMP_AFTER)\n", count_all_old(dom), (int) getpid(),
		dom->params.dump_after);
	tagrv_list_for_each(&dom->engines, node)
		tagrv_engine_dump(tagrv_container_of(node, struct tagrv_engine,
						     dom_node), out);
}

/* To the file that FI_TAGRV_DUMP names. 0 or -FI_E*. */
static int append(const char *path, const char *text)
{
	bool to_stderr = !strcmp(path, "stderr");
	int fd, ret;

	if (!text)
		return -FI_ENOMEM;
	fd = to_stderr ? STDERR_FILENO :
			 open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			      0666);
	if (fd < 0)
		return -errno;
	ret = write_all(fd, text);
	if (!to_stderr)
		close(fd);
	return ret;
}

void tagrv_dom_check_age(struct tagrv_dom *dom)
{
	uint64_t now = tagrv_clock_ms();
	uint64_t ms = (uint64_t) dom->params.dump_after * 1000;
	char *text;
	int ret;

	tagrv_assert_locked(dom);
	if (!tagrv_dom_dumps(dom) || now < dom->clock.next_dump ||
	    !count_all_old(dom))
		return;
	dom->clock.next_dump = now + ms;
	text = text_of(dump_all, dom);
	ret = append(dom->params.dump, text);
	free(text);
	if (ret)
		tagrv_warn("FI_TAGRV_DUMP: %s cannot be written: %s\n",
			   dom->params.dump, fi_strerror(-ret));
}
