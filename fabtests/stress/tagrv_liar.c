/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two honest processes exchange numbered messages with each other, write to and read from each
 * other's memory, and do any of this with a third one, which lies: it writes what it likes into
 * the rings and bells that it shares with them, spoils the descriptors that both have open,
 * hands over what is wrong, and forges packets of one-sided operations.
 *
 *	tagrv_liar [--lies N] [--life N] [--seed N]
 *
 * Nothing of the honest ones may be lost, doubled or damaged, or fail, or hang; each of
 * their operations with the liar ends, somehow; no memory changes but that which it may
 * write to; afterwards they have as many descriptors and mapped rings as before. The liar
 * only ends its own connections.
 */
#include "liar.h"
#include "resident.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/options.h"
#include "framework/pattern.h"

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOW = 8, LEN_MAX = 200000, LIAR_OPS = 3, LIAR_LEN = 300000, SLEEP_MS = 5 };
enum { GROWTH_KIB = 8192, PEER_KIB = 4, LOOK_TURNS = 1000 };

struct scene *scene;

static uint64_t lies = 1000, per_life = 200;

static const char *const lie_names[LIES] = {
	[LIE_WORD] = "any word of a ring", [LIE_HEAD] = "head words of entries",
	[LIE_COUNTER] = "counters", [LIE_BELL] = "bells", [LIE_CONSTANT] = "constants of a ring",
	[LIE_REPLAY] = "entries sent again", [LIE_BODY] = "words that change while they are read",
	[LIE_TRUNCATE] = "truncations", [LIE_WAKE] = "wake-up descriptors that were spoiled",
	[LIE_HAND] = "false handovers", [LIE_PID] = "handovers from other process ids",
	[LIE_FORGE] = "forged packets of one-sided operations",
};

struct op {
	struct fi_context2 ctx;
	bool busy, liar;
	uint64_t number;
	uint8_t *buf;
};

struct honest {
	struct fx fx;
	int	other, wait_fd, life;
	bool	sleeps;
	fi_addr_t liar;
	uint64_t sent, done, posted, got, random, turns;
	struct op tx[WINDOW], rx[WINDOW];
	struct op liar_tx[LIAR_OPS], liar_rx[LIAR_OPS];
};

static struct honest me;

static size_t len_of(uint64_t number)
{
	static const size_t most[] = { 48, 48, 48, 48, 3000, 3000, 20000, LEN_MAX };
	size_t end = most[number % 8];

	return number * 2654435761u % (end + 1);
}

static uint64_t seed_of(int from, uint64_t number)
{
	return (uint64_t)from << 48 | number;
}

/* ---- opening ---- */

static void alloc_ops(struct op *ops, int cnt, size_t len, bool liar)
{
	for (int i = 0; i < cnt; i++) {
		ops[i].buf = calloc(1, len);
		ops[i].liar = liar;
		CHECK(ops[i].buf, "no memory");
	}
}

static void open_honest(struct test *t, struct honest *h)
{
	size_t len = LIAR_NAME_MAX;

	h->other = !t->rank;
	h->sleeps = t->rank == RIGHT;
	h->liar = FI_ADDR_NOTAVAIL;
	h->random = t->seed + (uint64_t)t->rank;
	fx_open(t, &h->fx, &(struct fx_attr){
		.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_RMA | FI_ATOMIC, .disabled = true,
		.one_cq = true, .mr_mode = FI_MR_PROV_KEY | FI_MR_ALLOCATED, .tx_flags = FI_DELIVERY_COMPLETE,
		.cq_wait = h->sleeps ? FI_WAIT_FD : FI_WAIT_NONE,
	});
	CHECK_OK(fi_enable(h->fx.ep));
	if (h->sleeps)
		CHECK_OK(fi_control(&h->fx.cq[0]->fid, FI_GETWAIT, &h->wait_fd));
	CHECK_OK(fi_getname(&h->fx.ep->fid, scene->name[t->rank], &len));
	windows_open(&h->fx);
	atomic_fetch_add(&scene->opened, 1);
	while (atomic_load(&scene->opened) < 2) {
		FX_CHECK_MOVES(&h->fx, "the other one does not come");
		sched_yield();
	}
	memcpy(h->fx.name[h->other], scene->name[h->other], LIAR_NAME_MAX);
	fx_insert(&h->fx, h->other);
	alloc_ops(h->tx, WINDOW, LEN_MAX, false);
	alloc_ops(h->rx, WINDOW, LEN_MAX, false);
	alloc_ops(h->liar_tx, LIAR_OPS, LIAR_LEN, true);
	alloc_ops(h->liar_rx, LIAR_OPS, LIAR_LEN, true);
}

/* ---- messages among the honest ---- */

static void post_send(struct honest *h)
{
	struct op *op = &h->tx[h->sent % WINDOW];
	size_t len = len_of(h->sent);
	ssize_t ret;

	if (op->busy)
		return;
	pattern_fill(op->buf, len, seed_of(h->fx.t->rank, h->sent));
	ret = TRY_SEND(&h->fx, .tagged = true, .buf = op->buf, .len = len,
		       .addr = h->fx.addr[h->other], .tag = h->sent, .ctx = op);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "send %" PRIu64 ": %s", h->sent, fi_strerror((int)-ret));
	op->busy = true;
	h->sent++;
}

static void post_receive(struct honest *h)
{
	struct op *op = &h->rx[h->posted % WINDOW];
	ssize_t ret;

	if (op->busy)
		return;
	ret = TRY_RECV(&h->fx, .tagged = true, .buf = op->buf, .len = LEN_MAX,
		       .addr = h->fx.addr[h->other], .ignore = UINT64_MAX, .ctx = op);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "receive: %s", fi_strerror((int)-ret));
	op->busy = true;
	op->number = h->posted++;
}

static void take(struct honest *h, struct op *op, const struct comp *c)
{
	size_t len = len_of(op->number);

	CHECK(c->tag == op->number, "receive %" PRIu64 " got message %" PRIu64, op->number, c->tag);
	CHECK(c->len == len && pattern_check(op->buf, len, seed_of(h->other, op->number)) == len,
	      "message %" PRIu64 " is damaged", op->number);
	h->got++;
}

/* ---- messages with the liar ---- */

/* A new liar has a new address. Receives from the old one are taken back. */
static void meet_liar(struct honest *h)
{
	int life = atomic_load(&scene->life);

	if (life == h->life)
		return;
	h->life = life;
	for (int i = 0; i < LIAR_OPS; i++)
		if (h->liar_rx[i].busy)
			(void)fi_cancel(&fx_rx_ep(&h->fx)->fid, &h->liar_rx[i]);
	CHECK(fi_av_insert(h->fx.av, scene->liar[h->fx.t->rank], 1, &h->liar, 0, NULL) == 1,
	      "a liar's address is refused");
}

static void talk_to_liar(struct honest *h)
{
	static const size_t lens[] = { 0, 8, 48, 60, 2000, 20000, 150000, LIAR_LEN };
	uint64_t r = pattern_next(&h->random);
	struct op *tx = &h->liar_tx[r % LIAR_OPS], *rx = &h->liar_rx[(r >> 8) % LIAR_OPS];

	if (h->liar == FI_ADDR_NOTAVAIL)
		return;
	if (!tx->busy)
		tx->busy = !TRY_SEND(&h->fx, .tagged = true, .buf = tx->buf,
				     .len = lens[(r >> 16) % 8], .addr = h->liar, .ctx = tx);
	if (!rx->busy)
		rx->busy = !TRY_RECV(&h->fx, .tagged = true, .buf = rx->buf, .len = LIAR_LEN,
				     .addr = h->liar, .ignore = UINT64_MAX, .ctx = rx);
}

/* ---- a turn ---- */

static void complete(struct honest *h, const struct comp *c)
{
	struct op *op = c->ctx;
	int rank = h->fx.t->rank;

	if (windows_complete(c, rank))
		return;
	CHECK(op->busy, "an operation has ended twice");
	op->busy = false;
	if (op->liar) {
		atomic_fetch_add(c->err ? &scene->failed[rank] : &scene->done[rank], 1);
		return;
	}
	CHECK(!c->err, "an operation with an honest peer fails: %s", fi_strerror(c->err));
	if (op >= h->rx && op < h->rx + WINDOW)
		take(h, op, c);
	else
		h->done++;
}

static void rest(struct honest *h)
{
	struct fid *fids[] = { &h->fx.cq[0]->fid };
	struct pollfd pfd = { .fd = h->wait_fd, .events = POLLIN };

	if (h->sleeps && !fi_trywait(h->fx.fabric, fids, 1))
		(void)poll(&pfd, 1, SLEEP_MS);
	else
		sched_yield();
}

static void turn(struct honest *h, bool send)
{
	bool idle = true;
	struct comp c;

	if (send) {
		post_send(h);
		meet_liar(h);
		talk_to_liar(h);
		windows_post(&h->fx, h->other, h->liar, &h->random);
	}
	if (h->turns++ % LOOK_TURNS == 0)
		windows_check();
	post_receive(h);
	while (comp_poll(&h->fx, FX_TX, &c)) {
		complete(h, &c);
		idle = false;
	}
	if (idle)
		rest(h);
	FX_CHECK_MOVES(&h->fx, "%" PRIu64 " sent, %" PRIu64 " received: nothing moves", h->done, h->got);
}

/* ---- what is left ---- */

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int cnt = 0;

	CHECK(dir, "no /proc/self/fd");
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

static int count_rings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int cnt = 0;

	CHECK(maps, "no /proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "memfd:tagrv") || strstr(line, "memfd:liar"))
			cnt++;
	fclose(maps);
	return cnt;
}

static bool has_liar_ops(const struct honest *h)
{
	for (int i = 0; i < LIAR_OPS; i++)
		if (h->liar_tx[i].busy || h->liar_rx[i].busy)
			return true;
	return windows_busy(true);
}

static void finish(struct honest *h)
{
	int rank = h->fx.t->rank;

	while (h->done < h->sent || windows_busy(false))
		turn(h, false);
	atomic_store(&scene->posted[rank], h->sent);
	atomic_store(&scene->ended[rank], true);
	while (!atomic_load(&scene->ended[h->other]) ||
	       h->got < atomic_load(&scene->posted[h->other]))
		turn(h, false);
	for (int i = 0; i < LIAR_OPS; i++)
		if (h->liar_rx[i].busy)
			(void)fi_cancel(&fx_rx_ep(&h->fx)->fid, &h->liar_rx[i]);
	while (has_liar_ops(h))
		turn(h, false);
}

/* Waits for the other honest one, with progress. */
static void join(struct honest *h)
{
	int meetings = atomic_fetch_add(&scene->arrived, 1) / 2 + 1;

	while (atomic_load(&scene->arrived) < 2 * meetings)
		turn(h, false);
}

static void tell(const struct test *t)
{
	printf("seed %" PRIu64 ": %" PRIu64 " lies by %d liars over %" PRIu64 " rings; %" PRIu64
	       " liars hung themselves\n", t->seed, atomic_load(&scene->told),
	       atomic_load(&scene->life), atomic_load(&scene->links), atomic_load(&scene->stuck));
	for (int i = 0; i < LIES; i++)
		printf("%10" PRIu64 " %s\n", atomic_load(&scene->lies[i]), lie_names[i]);
	printf("operations of the honest ones with liars: %" PRIu64 " succeeded, %" PRIu64 " failed\n",
	       atomic_load(&scene->done[0]) + atomic_load(&scene->done[1]),
	       atomic_load(&scene->failed[0]) + atomic_load(&scene->failed[1]));
	printf("messages among the honest ones: %" PRIu64 " and %" PRIu64 ", lost 0, doubled 0, out of "
	       "order 0, damaged 0, hung 0\n", atomic_load(&scene->posted[0]),
	       atomic_load(&scene->posted[1]));
	printf("rounds of write, read and atomic among them: %" PRIu64 " and %" PRIu64
	       ", each byte as it was written, no memory beside the windows changed\n",
	       atomic_load(&scene->rounds[0]), atomic_load(&scene->rounds[1]));
	printf("memory of the honest ones: %ld and %ld KiB more\n", atomic_load(&scene->grown[0]),
	       atomic_load(&scene->grown[1]));
}

/* The address of each liar is in the address vector, with what belongs to a peer. */
static void check_memory(long before, int rank)
{
	long grown = resident() - before;

	atomic_store(&scene->grown[rank], grown);
	CHECK(!JUDGED || grown < GROWTH_KIB + PEER_KIB * atomic_load(&scene->life),
	      "%ld KiB more are in use after %d liars", grown, atomic_load(&scene->life));
}

static void among_honest(struct test *t)
{
	struct honest *h = &me;
	int fds, rings;
	long kib;

	open_honest(t, h);
	while (h->got < 100 || h->done < 100 || atomic_load(&scene->rounds[t->rank]) < 10)
		turn(h, true);
	join(h);
	fds = count_fds();
	rings = count_rings();
	kib = resident();
	atomic_store(&scene->begin, true);
	while (!atomic_load(&scene->over))
		turn(h, true);
	CHECK(!atomic_load(&scene->truncated), "a memory file could be truncated");
	finish(h);
	while (count_fds() > fds || count_rings() > rings) {
		run_step("%d descriptors and %d rings, %d and %d before", count_fds(), count_rings(), fds,
			 rings);
		turn(h, false);
	}
	check_memory(kib, t->rank);
	join(h);
	windows_close();
	if (t->rank == LEFT)
		tell(t);
	fx_close_now(&h->fx);
}

static void liar(struct test *t)
{
	if (t->rank != LIAR) {
		among_honest(t);
		return;
	}
	while (!atomic_load(&scene->begin)) {
		CHECK_MOVES("the honest ones do not begin");
		sched_yield();
	}
	liar_live(lies, per_life, t->seed);
	atomic_store(&scene->over, true);
}

int main(int argc, char **argv)
{
	static const struct test_case one = { "liar", "", liar, .ranks = RANKS };
	struct option_number own[] = {
		{ "lies", "in all", &lies },
		{ "life", "lies of one process", &per_life },
	};
	struct run_tally tally = { 0 };
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, sizeof(own) / sizeof(own[0]));
	/* A liar that hung itself costs a second, and there is one for some 400 lies. */
	options_default_timeout(&opt, 60 + (int)(lies / 25));
	scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (scene == MAP_FAILED || opt.run.self)
		return 2;
	run_counted(&one, &opt.run, &tally);
	run_print_tally(&tally);
	return tally.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
