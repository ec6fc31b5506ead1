/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The messages of one endpoint: numbered, of all lengths, each of random bytes that
 * depend on its number alone. A buffer that is received into has other bytes before, if
 * it has any memory at all. Now and then the process forks, and the child writes over all
 * that it has of the parent's buffers.
 */
#include "framework/options.h"
#include "framework/pattern.h"
#include "remap.h"

#include <inttypes.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORK_EVERY = 1500, CHILDREN = 3 };

uint64_t remap_transfers = 20000;

static int children;

static size_t len_of(uint64_t seed, uint64_t number)
{
	static const size_t most[] = { 100, 2000, 8000, 20000, 40000, 80000, 160000, AREA_MAX };
	uint64_t state = seed ^ number * 0x9e3779b97f4a7c15, r = pattern_next(&state);

	return (r >> 8) % (most[r % 8] + 1);
}

static uint64_t content_of(uint64_t seed, uint64_t number)
{
	return seed << 40 ^ number;
}

/* ---- buffers ---- */

/* Where the buffer begins in its area: at its beginning, at its end, or anywhere. */
static bool place(struct flow *f, struct flow_op *op)
{
	struct area *a;
	uint64_t r;

	for (int i = 0; i < AREAS; i++) {
		a = areas_take(f->areas, &f->random);
		if (!a)
			return false;
		if (a->len >= op->len)
			break;
		a->busy = false;
		a = NULL;
	}
	if (!a)
		return false;
	r = pattern_next(&f->random);
	op->area = a;
	op->buf = a->at;
	if (r % 4 == 0)
		op->buf += a->len - op->len;
	else if (r % 4 == 1)
		op->buf += (r >> 8) % (a->len - op->len + 1);
	return true;
}

static void leave(struct flow *f, struct flow_op *op)
{
	op->busy = op->ready = false;
	areas_give_back(op->area, &f->random);
}

/* ---- posting ---- */

static bool accepted(struct flow_op *op, ssize_t ret, const char *call)
{
	CHECK(!ret || ret == -FI_EAGAIN, "%s of message %" PRIu64 ": %s", call, op->number,
	      fi_strerror((int)-ret));
	op->busy = !ret;
	return op->busy;
}

static void post_send(struct flow *f)
{
	struct flow_op *op = &f->tx[f->sent % FLOW_WINDOW];

	if (op->busy || f->sent == f->count)
		return;
	if (!op->ready) {
		op->number = f->sent;
		op->len = len_of(f->out_seed, op->number);
		op->ready = place(f, op);
		if (!op->ready)
			return;
		pattern_fill(op->buf, op->len, content_of(f->out_seed, op->number));
	}
	if (accepted(op, fi_tsend(f->ep, op->buf, op->len, NULL, f->peer, op->number, &op->ctx),
		     "send"))
		f->sent++;
}

/* Half of the buffers have no pages yet, and some not even a mapping that lasts. */
static bool prepare_receive(struct flow_op *op, uint64_t r)
{
	uint8_t *at = op->area->at;

	if (r % 2)
		memset(op->buf, 0xa5, op->len);
	if (r % 16 == 0) {
		op->ready = areas_race(op->area);
		op->buf = op->area->at + (op->buf - at);
	}
	return op->ready;
}

static void post_receive(struct flow *f)
{
	struct flow_op *op = &f->rx[f->posted % FLOW_WINDOW];

	if (op->busy || f->posted == f->count)
		return;
	if (!op->ready) {
		op->number = f->posted;
		op->len = len_of(f->in_seed, op->number);
		op->ready = place(f, op);
		if (!op->ready)
			return;
		if (!prepare_receive(op, pattern_next(&f->random)))
			return;
	}
	if (accepted(op, fi_trecv(f->ep, op->buf, op->len, NULL, f->peer, op->number, 0, &op->ctx),
		     "receive"))
		f->posted++;
}

/* ---- completions ---- */

static void received(struct flow *f, struct flow_op *op, size_t len)
{
	size_t good = pattern_check(op->buf, op->len, content_of(f->in_seed, op->number));

	CHECK(len == op->len, "message %" PRIu64 " has %zu bytes, not %zu", op->number, len, op->len);
	CHECK(good == len, "message %" PRIu64 " of %zu bytes is wrong from byte %zu on", op->number,
	      len, good);
	atomic_fetch_add(&tally->transfers, 1);
	atomic_fetch_add(&tally->bytes, len);
	f->got++;
}

static _Noreturn void lost(struct flow *f)
{
	struct fi_cq_err_entry err = { 0 };

	(void)fi_cq_readerr(f->cq, &err, 0);
	run_fail(__FILE__, __LINE__, "an operation fails: %s", fi_strerror(err.err));
}

static bool complete(struct flow *f)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(f->cq, &entry, 1);
	struct flow_op *op;

	if (ret == -FI_EAGAIN)
		return false;
	if (ret != 1)
		lost(f);
	op = entry.op_context;
	CHECK(op->busy, "an operation has ended twice");
	if (op >= f->rx && op < f->rx + FLOW_WINDOW)
		received(f, op, entry.len);
	else
		f->done++;
	leave(f, op);
	run_moved();
	return true;
}

/* ---- children ---- */

static void spoil(const struct flow_op *op)
{
	if (op->busy)
		memset(op->buf, 0xee, op->len);
}

/* The child uses nothing of the provider. */
static _Noreturn void be_child(struct flow *f)
{
	usleep(pattern_next(&f->random) % 2000);
	for (int i = 0; i < FLOW_WINDOW; i++) {
		spoil(&f->tx[i]);
		spoil(&f->rx[i]);
	}
	_exit(0);
}

static void bury(int flags)
{
	int status;

	while (children > 0 && waitpid(-1, &status, flags) > 0) {
		children--;
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "a child died of signal %d",
		      WTERMSIG(status));
	}
}

void flow_reap(void)
{
	bury(0);
}

static void maybe_fork(struct flow *f)
{
	pid_t pid;

	if ((f->got + f->done) / FORK_EVERY <= f->forks)
		return;
	f->forks++;
	bury(WNOHANG);
	if (children == CHILDREN)
		return;
	pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid)
		be_child(f);
	children++;
	atomic_fetch_add(&tally->forks, 1);
}

/* ---- */

bool flow_turn(struct flow *f)
{
	uint64_t r = pattern_next(&f->random);
	bool any = false;

	for (unsigned i = r & 3; i; i--)
		post_send(f);
	for (unsigned i = r >> 2 & 3; i; i--)
		post_receive(f);
	while (complete(f))
		any = true;
	maybe_fork(f);
	return any;
}

bool flow_is_done(const struct flow *f)
{
	return f->done == f->count && f->got == f->count;
}

void flow_open(struct flow *f)
{
	areas_open(f->areas, &f->random);
}

void flow_close(struct flow *f)
{
	areas_close(f->areas);
}

void remap_report(void)
{
	printf("%" PRIu64 " transfers, %" PRIu64 " MiB, every byte right; %" PRIu64 " forks\n",
	       atomic_load(&tally->transfers), atomic_load(&tally->bytes) >> 20,
	       atomic_load(&tally->forks));
	for (int i = 0; i < CHANGES; i++)
		printf("%10" PRIu64 " %s\n", atomic_load(&tally->cnt[i]), change_names[i]);
	printf("mremap was refused %" PRIu64 " times (several mappings); %" PRIu64
	       " addresses went to others\n", atomic_load(&tally->refused),
	       atomic_load(&tally->missed));
}

/* Before any process is forked. */
static void share_tally(void)
{
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally != MAP_FAILED)
		return;
	perror("mmap");
	exit(2);
}

int remap_main(const struct test_case *one, int argc, char **argv)
{
	struct option_number own[] = {
		{ "transfers", "messages, both directions together", &remap_transfers },
	};
	struct run_tally result = { 0 };
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, 1);
	options_default_timeout(&opt, 60 + (int)(remap_transfers / 200));
	opt.run.self |= one->self;
	printf("seed %llu\n", (unsigned long long)opt.run.seed);
	share_tally();
	run_counted(one, &opt.run, &result);
	run_print_tally(&result);
	return result.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
