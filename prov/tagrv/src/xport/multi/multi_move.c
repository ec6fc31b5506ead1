/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Gets and puts: each goes by the path on which it will probably end first, given the
 * bytes under way there and the rail's speed. So long messages, which come in many of
 * them, are spread over rails in proportion to their speeds, and a rail that gets slow
 * gets less.
 *
 *   speed    the device's at first, then measured: bytes that ended while two or more
 *            requests were under way, per time (a single one shows the latency)
 *   skipped  a rail of less than a quarter of the fastest one's speed, whose last piece
 *            would hold up the message. What is skipped is not measured, so its speed
 *            is raised a little each time, until it is tried again.
 *
 * One that its path has not ended goes by another. A get is repeated at once; a put
 * only when the peer has closed its end of the path, as late writes could otherwise
 * arrive after the memory has got another use. For simplicity both wait for that.
 */
#include <string.h>

#include "core/clock.h"
#include "xport/multi/multi_priv.h"

#define RATE_SAMPLE	(512u << 10)	/* bytes of one measurement */
#define RATE_WEIGHT	0.25		/* of a new one */
#define RATE_HEAL	(1 + 1.0 / 256)	/* for each time that a rail is skipped */
#define SKIP_BELOW	0.25		/* of the fastest rail's speed */

/* ---- speed ---- */

static void rate_begin(struct multi_rate *rate, size_t len)
{
	rate->queued += len;
	if (++rate->cnt == 2) {
		rate->since = tagrv_clock_ns();
		rate->bytes = 0;
	}
}

static void rate_end(struct multi_rate *rate, size_t len, bool well)
{
	rate->queued -= len;
	rate->cnt--;
	if (!rate->since)
		return;
	if (well)
		rate->bytes += len;
	if (rate->bytes >= RATE_SAMPLE) {
		uint64_t now = tagrv_clock_ns(), ns = now - rate->since;

		rate->bytes_s += RATE_WEIGHT *
			((double) rate->bytes * 1e9 / (double) TAGRV_MAX(ns, 1u) -
			 rate->bytes_s);
		rate->bytes = 0;
		rate->since = now;
	}
	if (rate->cnt < 2)
		rate->since = 0;
}

/* ---- choice ---- */

/*
 * Whether the memory of both sides is registered with the rails of a path: what a device
 * could not register has a key of zeros.
 */
static bool is_registered(const struct multi_path *path, const struct multi_move *move)
{
	static const char none[MULTI_KEY_LEN];

	return multi_mem_of(move->mem)->mem[path->rail] &&
	       memcmp(move->key + path->peer_rail * MULTI_KEY_LEN, none,
		      MULTI_KEY_LEN) != 0;
}

/* The path by which the move may go, or NULL. */
static struct multi_path *usable(const struct multi_link *link, unsigned rail,
				 const struct multi_move *move)
{
	struct multi_path *path = multi_path_up(link, rail);

	if (!path || !is_registered(path, move) ||
	    move->len > (move->put ? path->link->put_max : path->link->get_max))
		return NULL;
	return path->proven || link->env == (int) rail ? path : NULL;
}

static double fastest(const struct multi_link *link, const struct multi_move *move)
{
	const struct multi_xport *xp = multi_xport_of_link(link);
	double most = 0;

	for (unsigned i = 0; i < xp->cnt; i++)
		if (usable(link, i, move))
			most = TAGRV_MAX(most, xp->rails[i].rate.bytes_s);
	return most;
}

/* The best path whose bit in 'tried' is not set, or NULL. */
static struct multi_path *choose(const struct multi_move *move, unsigned tried)
{
	struct multi_link *link = move->link;
	struct multi_xport *xp = multi_xport_of_link(link);
	double least = fastest(link, move) * SKIP_BELOW, soonest = 0;
	struct multi_path *best = NULL;

	for (unsigned n = 0; n < xp->cnt; n++) {
		unsigned i = (link->order + n) % xp->cnt;
		struct multi_rate *rate = &xp->rails[i].rate;
		struct multi_path *path = usable(link, i, move);
		double end;

		if (!path || tried & 1u << i)
			continue;
		if (rate->bytes_s < least) {
			rate->bytes_s *= RATE_HEAL;
			continue;
		}
		end = (double) (rate->queued + move->len) / rate->bytes_s;
		if (!best || end < soonest) {
			best = path;
			soonest = end;
		}
	}
	return best;
}

/* ---- posting ---- */

static void on_done(struct tagrv_done *done, int status);

static int post(struct multi_path *path, struct multi_move *move)
{
	const struct tagrv_xport_ops *ops = path->link->xport->ops;
	struct tagrv_mem *mem = multi_mem_of(move->mem)->mem[path->rail];
	const char *key = move->key + path->peer_rail * MULTI_KEY_LEN;
	int ret;

	move->done.fn = on_done;
	ret = move->put ? ops->put(path->link, move->addr, mem, move->raddr, key,
				   MULTI_KEY_LEN, move->len, &move->done) :
			  ops->get(path->link, move->addr, mem, move->raddr, key,
				   MULTI_KEY_LEN, move->len, &move->done);
	if (ret)
		return ret;
	/* Not before: one that waits for room is fenced by the path that it had. */
	move->rail = (uint8_t) path->rail;
	move->gen = path->gen;
	rate_begin(&multi_xport_of_link(move->link)->rails[path->rail].rate, move->len);
	return 0;
}

/*
 * No path took the move. If all that are up lack its memory, the one that has it may come
 * back, but not for ever: -FI_EHOSTUNREACH, after as long as a link may be down.
 */
static int await_path(struct multi_link *link, const struct multi_move *move)
{
	uint64_t now;
	bool any = false;

	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		const struct multi_path *path = multi_path_up(link, i);

		if (path && is_registered(path, move))
			return -FI_EAGAIN;
		any |= path != NULL;
	}
	if (!any)
		return -FI_EAGAIN;
	now = tagrv_clock_ms();
	if (!link->unserved_at)
		link->unserved_at = now;
	return now - link->unserved_at < multi_xport_of_link(link)->patience ?
	       -FI_EAGAIN : -FI_EHOSTUNREACH;
}

/* 0, -FI_EAGAIN: no path has room or is up, or the error of the call. */
static int post_any(struct multi_move *move)
{
	unsigned tried = 0;
	struct multi_path *path;

	while ((path = choose(move, tried))) {
		int ret = post(path, move);

		if (ret != -FI_EAGAIN && ret != -FI_ENOTCONN)
			return ret;
		tried |= 1u << path->rail;
	}
	return tried ? -FI_EAGAIN : await_path(move->link, move);
}

static void end_move(struct multi_move *move, int status)
{
	struct multi_xport *xp = multi_xport_of_link(move->link);
	struct tagrv_done *user = move->user;

	tagrv_pool_put(&xp->moves, move);
	xp->freed = true;
	user->fn(user, status);
}

static void on_done(struct tagrv_done *done, int status)
{
	struct multi_move *move = tagrv_container_of(done, struct multi_move, done);
	struct multi_link *link = move->link;
	struct multi_xport *xp = multi_xport_of_link(link);

	rate_end(&xp->rails[move->rail].rate, move->len, !status);
	if (!status || link->error || link->closing || !multi_is_path_error(status) ||
	    ++move->tries >= MULTI_TRIES) {
		end_move(move, status);
		return;
	}
	tagrv_list_init(&move->list);
	tagrv_list_push_tail(&link->again, &move->list);
	multi_link_set_busy(link);
}

static int submit(struct tagrv_link *base, const struct multi_move *args,
		  const void *key, size_t key_len)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_xport *xp = multi_xport_of_link(link);
	struct multi_move *move;
	uint32_t handle;
	int ret;

	if (link->error || link->closing || !link->attached)
		return -FI_ENOTCONN;
	if (key_len != link->peer_rails * MULTI_KEY_LEN || args->len > (args->put ? base->put_max : base->get_max) ||
	    args->mem->dev != &xp->dev->base)
		return -FI_EINVAL;
	move = tagrv_pool_get(&xp->moves);
	if (!move)
		return multi_no_record(xp, &xp->moves);
	handle = move->node.handle;
	*move = *args;
	move->node = (struct tagrv_pool_node) { .handle = handle, .used = 1 };
	move->link = link;
	memcpy(move->key, key, key_len);
	ret = post_any(move);
	if (!ret || ret == -FI_EAGAIN)
		tagrv_multi_probe(link);
	if (ret) {
		tagrv_pool_put(&xp->moves, move);
		return ret == -FI_EAGAIN ? multi_try_again(xp) : ret;
	}
	return 0;
}

int tagrv_multi_get(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		    uint64_t raddr, const void *key, size_t key_len, size_t len,
		    struct tagrv_done *done)
{
	struct multi_move args = {
		.addr = addr, .mem = mem, .raddr = raddr, .len = len, .user = done,
	};

	return submit(link, &args, key, key_len);
}

int tagrv_multi_put(struct tagrv_link *link, const void *addr,
		    struct tagrv_mem *mem, uint64_t raddr, const void *key,
		    size_t key_len, size_t len, struct tagrv_done *done)
{
	struct multi_move args = {
		.put = true, .addr = (void *) (uintptr_t) addr, .mem = mem,
		.raddr = raddr, .len = len, .user = done,
	};

	return submit(link, &args, key, key_len);
}

/* ---- again ---- */

/* Whether neither side has the move's old path any more. */
static bool is_fenced(const struct multi_link *link, const struct multi_move *move)
{
	unsigned bit = 1u << move->rail;

	if (move->gen != link->gen)
		return !link->syncing;
	return !link->paths[move->rail] && link->heard & bit;
}

void tagrv_multi_moves_again(struct multi_link *link)
{
	struct tagrv_list *pos, *tmp;

	tagrv_list_for_each_safe(&link->again, pos, tmp) {
		struct multi_move *move =
			tagrv_container_of(pos, struct multi_move, list);
		int ret;

		if (!is_fenced(link, move))
			continue;
		ret = post_any(move);
		if (ret == -FI_EAGAIN)
			return;
		tagrv_list_remove(&move->list);
		if (ret)
			end_move(move, ret);
		else
			multi_xport_of_link(link)->stats.moved++;
	}
}

void tagrv_multi_moves_end(struct multi_link *link, int status)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&link->again)))
		end_move(tagrv_container_of(node, struct multi_move, list), status);
}
