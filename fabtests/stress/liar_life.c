/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 2 of tagrv_liar: forks one liar after the other. A liar opens an endpoint for each
 * of the honest ones, sends and receives whatever it likes, and tells lies meanwhile. It
 * connects again when its connection has ended. Its own provider may fail or hang by what
 * it has done: then it is killed, and the next one is born.
 */
#include "fault.h"
#include "framework/pattern.h"
#include "framework/runner.h"
#include "liar.h"

#include <inttypes.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 4, LEN_MOST = 300000, STUCK_MS = 1000, TURNS_MOST = 40 };

struct chat {
	struct end end;
	struct {
		struct fi_context2 ctx;
		bool busy;
	} tx[SLOTS], rx[SLOTS], rma[SLOTS];
};

static uint8_t out[LEN_MOST], in[2][SLOTS][LEN_MOST], window[2][LIAR_WINDOW_LEN];

/* For end.c: a liar that cannot go on ends, and is no failure. */
void fault_fail(const char *fmt, ...)
{
	(void)fmt;
	_exit(0);
}

static void chat_post(struct chat *k, int with, uint64_t *random)
{
	static const size_t lens[] = { 0, 8, 40, 49, 60, 1000, 4000, 20000, 150000, LEN_MOST };
	uint64_t r = pattern_next(random);
	size_t i = r % SLOTS;

	if (!k->tx[i].busy && !fi_tsend(k->end.ep, out, lens[(r >> 8) % 10], NULL, k->end.peer, r,
					&k->tx[i].ctx))
		k->tx[i].busy = true;
	if (!k->rx[i].busy && !fi_trecv(k->end.ep, in[with][i], LEN_MOST, NULL, k->end.peer, 0,
					UINT64_MAX, &k->rx[i].ctx))
		k->rx[i].busy = true;
}

/* Peers of a liar may do what they like to its window. */
static void open_window(struct chat *k, int with)
{
	struct fid_mr *mr;

	if (fi_mr_reg(k->end.domain, window[with], LIAR_WINDOW_LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		      LIAR_KEY, 0, &mr, NULL))
		fault_fail("no window");
}

/* Any one-sided operation on memory of an honest one that it may use, or on other memory. */
static void chat_rma(struct chat *k, int with, uint64_t *random)
{
	static const size_t lens[] = { 0, 1, 8, 64, 1000, 5000, 60000, 65536, 65537, LEN_MOST };
	uint64_t r = pattern_next(random), key = scene->key[with][r >> 40 & 1];
	uint64_t at = r & 1 << 8 ? 0 : r & 1 << 9 ? pattern_next(random) : (r >> 12) % 66000;
	size_t i = r % SLOTS, len = lens[(r >> 32) % 10];
	ssize_t ret;

	if (k->rma[i].busy)
		return;
	if (r & 1 << 10)
		key ^= r >> 44;
	switch (r >> 52 & 3) {
	case 0:
		ret = fi_write(k->end.ep, out, len, NULL, k->end.peer, at, key, &k->rma[i].ctx);
		break;
	case 1:
		ret = fi_read(k->end.ep, in[with][i], len, NULL, k->end.peer, at, key, &k->rma[i].ctx);
		break;
	case 2:
		ret = fi_writedata(k->end.ep, out, len % 5000, NULL, r, k->end.peer, at, key, &k->rma[i].ctx);
		break;
	default:
		ret = fi_fetch_atomic(k->end.ep, out, len % 4000 / 8, NULL, in[with][i], NULL, k->end.peer, at,
				      key, FI_UINT64, FI_SUM, &k->rma[i].ctx);
	}
	k->rma[i].busy = !ret;
}

static void chat_poll(struct chat *k)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	ssize_t ret = fi_cq_read(k->end.cq, &entry, 1);
	void *ctx = entry.op_context;

	if (ret == -FI_EAVAIL && fi_cq_readerr(k->end.cq, &err, 0) == 1)
		ctx = err.op_context;
	else if (ret != 1)
		return;
	for (int i = 0; i < SLOTS; i++) {
		if (ctx == &k->tx[i].ctx)
			k->tx[i].busy = false;
		if (ctx == &k->rx[i].ctx)
			k->rx[i].busy = false;
		if (ctx == &k->rma[i].ctx)
			k->rma[i].busy = false;
	}
}

static void lie_once(uint64_t *random)
{
	struct catch catches[CATCHES];
	int cnt = hook_catches(catches);
	uint64_t r = pattern_next(random);
	const struct catch *c = &catches[(r >> 8) % (unsigned)(cnt ? cnt : 1)];

	for (int i = 0; i < cnt; i++)
		if (catches[i].own)
			forge_learn(&catches[i]);
	if (!cnt)
		return;
	/* Forged packets for the honest ones are many kinds of lies. */
	if (!c->own && r & 1 << 20)
		lie_tell(LIE_FORGE, c, random);
	else
		lie_tell((enum lie)(r % LIE_FORGE), c, random);
}

static _Noreturn void be_liar(uint64_t most, uint64_t seed)
{
	static const char *const rndv[] = { "auto", "get", "put", "copy", "pipeline" };
	struct plan plan = {
		.errors = true, .rndv = rndv[seed % 5], .cma = seed >> 8 & 1 ? "yes" : "no",
		.automatic = (seed >> 9 & 3) == 0, .sleeps = seed >> 11 & 1, .onesided = true,
	};
	static struct chat chats[2];
	uint64_t random = seed, told = atomic_load(&scene->told) + most;
	size_t len;

	hook_begin(seed ^ 0x9e3779b97f4a7c15);
	for (int i = 0; i < 2; i++) {
		fault_open(&chats[i].end, &plan, scene->liar[i], &len);
		end_set_peer(&chats[i].end, scene->name[i]);
		open_window(&chats[i], i);
	}
	atomic_fetch_add(&scene->life, 1);
	while (atomic_load(&scene->told) < told && !atomic_load(&scene->over)) {
		unsigned turns = 1 + (unsigned)pattern_next(&random) % TURNS_MOST;

		for (; turns; turns--) {
			for (int i = 0; i < 2; i++) {
				chat_post(&chats[i], i, &random);
				chat_rma(&chats[i], i, &random);
				chat_poll(&chats[i]);
			}
			if (turns % 8 == 0)
				sched_yield();
		}
		lie_once(&random);
	}
	_exit(0);
}

/* Lets a liar live until it ends, or tells no lie any more. */
static void watch(pid_t pid)
{
	uint64_t told = atomic_load(&scene->told);
	int64_t since = run_now();
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		uint64_t now = atomic_load(&scene->told);

		CHECK_MOVES("a liar lives on");
		usleep(500);
		if (now != told) {
			told = now;
			since = run_now();
			run_moved();
		} else if (run_now() - since > run_slow_ms(STUCK_MS)) {
			atomic_fetch_add(&scene->stuck, 1);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return;
		}
	}
}

/* What grows with the number of the dead is seen here: each tenth would take longer. */
static void report_tenth(uint64_t lies, int64_t begin)
{
	static uint64_t tenths;
	uint64_t told = atomic_load(&scene->told);

	if (told * 10 / lies <= tenths)
		return;
	tenths = told * 10 / lies;
	printf("%" PRIu64 " lies by %d liars in %.0f s; %" PRIu64 " liars hung themselves\n",
	       told, atomic_load(&scene->life), (double)(run_now() - begin) / 1000,
	       atomic_load(&scene->stuck));
}

void liar_live(uint64_t lies, uint64_t per_life, uint64_t seed)
{
	int64_t begin = run_now();
	uint64_t random = seed;

	memset(out, 'x', sizeof(out));
	while (atomic_load(&scene->told) < lies) {
		uint64_t left = lies - atomic_load(&scene->told), life = pattern_next(&random);
		pid_t pid = fork();

		CHECK(pid >= 0, "fork");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_liar(left < per_life ? left : per_life, life);
		}
		watch(pid);
		report_tenth(lies, begin);
	}
}
