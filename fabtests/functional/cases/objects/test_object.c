/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fabric objects: open, bind, enable, options, registration, close.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct fx_attr plain;

static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	CHECK(dir, "cannot read %s", path);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A thread that was joined is still listed until the kernel has put it away. */
static int count_threads(int expected)
{
	int n = count_entries("/proc/self/task");

	for (int i = 0; i < 1000 && n > expected; i++) {
		usleep(10000);
		n = count_entries("/proc/self/task");
	}
	return n;
}

static void open_close(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	CHECK_ERR(fi_close(&fx.domain->fid), -FI_EBUSY);
	CHECK_ERR(fi_close(&fx.fabric->fid), -FI_EBUSY);
	CHECK_ERR(fi_close(&fx.cq[FX_RX]->fid), -FI_EBUSY);
	CHECK_ERR(fi_close(&fx.av->fid), -FI_EBUSY);
	fx_close(&fx);
}

/* A second fixture keeps the provider open, so that only the objects themselves are counted. */
static void open_close_often(struct test *t)
{
	struct fx keep, fx;
	int fds = 0, threads = 0;

	fx_open(t, &keep, &plain);
	for (int i = 0; i < 50; i++) {
		run_step("round %d of 50", i);
		fx_open(t, &fx, &plain);
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC);
		fx_close(&fx);
		if (i == 1) {
			fds = count_entries("/proc/self/fd");
			threads = count_entries("/proc/self/task");
		}
	}
	CHECK(count_entries("/proc/self/fd") <= fds, "descriptors are left: %d, were %d",
	      count_entries("/proc/self/fd"), fds);
	CHECK(count_threads(threads) <= threads, "threads are left: %d, were %d",
	      count_entries("/proc/self/task"), threads);
	fx_close(&keep);
}

static void never_enabled(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .disabled = true });
	fx_close_now(&fx);
	fx_open_domain(t, &fx, &plain);
	fx_open_endpoint(&fx);
	fx_close_now(&fx);
}

static void close_av_before_cq(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	CHECK_OK(fi_close(&fx.ep->fid));
	fx.ep = NULL;
	CHECK_OK(fi_close(&fx.av->fid));
	fx.av = NULL;
	fx_close_now(&fx);
}

static void enable_without_cq(struct test *t)
{
	struct fx fx;

	fx_open_domain(t, &fx, &plain);
	fx_open_endpoint(&fx);
	CHECK_OK(fi_ep_bind(fx.ep, &fx.av->fid, 0));
	CHECK_ERR(fi_enable(fx.ep), -FI_ENOCQ);
	CHECK_OK(fi_ep_bind(fx.ep, &fx.cq[FX_TX]->fid, FI_TRANSMIT));
	CHECK_ERR(fi_enable(fx.ep), -FI_ENOCQ);
	CHECK_OK(fi_ep_bind(fx.ep, &fx.cq[FX_RX]->fid, FI_RECV));
	CHECK_OK(fi_enable(fx.ep));
	fx_close_now(&fx);
}

static void enable_without_av(struct test *t)
{
	struct fx fx;
	int ret;

	fx_open_domain(t, &fx, &plain);
	fx_open_endpoint(&fx);
	CHECK_OK(fi_ep_bind(fx.ep, &fx.cq[FX_TX]->fid, FI_TRANSMIT));
	CHECK_OK(fi_ep_bind(fx.ep, &fx.cq[FX_RX]->fid, FI_RECV));
	ret = fi_enable(fx.ep);
	CHECK(ret == -FI_ENOAV || ret == -FI_EOPBADSTATE, "fi_enable without AV: %d", ret);
	CHECK_OK(fi_ep_bind(fx.ep, &fx.av->fid, 0));
	CHECK_OK(fi_enable(fx.ep));
	fx_close_now(&fx);
}

static void bad_bind(struct test *t)
{
	struct fx fx;
	int ret;

	fx_open_domain(t, &fx, &plain);
	fx_open_endpoint(&fx);
	ret = fi_ep_bind(fx.ep, &fx.cq[FX_TX]->fid, FI_TRANSMIT | 1ULL << 40);
	CHECK(ret == -FI_EBADFLAGS || ret == -FI_EINVAL, "bind with unknown flags: %d", ret);
	CHECK_OK(fi_ep_bind(fx.ep, &fx.cq[FX_TX]->fid, FI_TRANSMIT));
	ret = fi_ep_bind(fx.ep, &fx.cq[FX_RX]->fid, FI_TRANSMIT);
	CHECK(ret == -FI_EINVAL || ret == -FI_EBUSY, "second transmit CQ: %d", ret);
	CHECK(fi_ep_bind(fx.ep, &fx.domain->fid, 0) < 0, "an endpoint took a domain");
	fx_close_now(&fx);
}

static void before_enable(struct test *t)
{
	char byte = 0;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .disabled = true });
	CHECK(fi_trecv(fx.ep, &byte, 1, NULL, 0, 1, 0, NULL) < 0, "a disabled endpoint receives");
	CHECK(fi_tsend(fx.ep, &byte, 1, NULL, 0, 1, NULL) < 0, "a disabled endpoint sends");
	fx_close_now(&fx);
}

static void posted_receives(struct test *t)
{
	struct fi_context2 ctx[100];
	struct guard g = guard_alloc(4096);
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 100; i++)
		RECV(&fx, .tagged = i & 1, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC,
		     .tag = (uint64_t)i, .ctx = &ctx[i]);
	fx_close(&fx);
	CHECK(!guard_damage(&g, 0), "a closed endpoint wrote to its buffers");
	guard_free(&g);
}

static void options(struct test *t)
{
	size_t value = 0, len = sizeof(value);
	struct fx fx;
	int ret;

	fx_open(t, &fx, &plain);
	CHECK_ERR(fi_getopt(&fx.ep->fid, FI_OPT_ENDPOINT, 4711, &value, &len), -FI_ENOPROTOOPT);
	CHECK_ERR(fi_setopt(&fx.ep->fid, FI_OPT_ENDPOINT, 4711, &value, len), -FI_ENOPROTOOPT);
	CHECK_ERR(fi_getopt(&fx.ep->fid, 4711, FI_OPT_MIN_MULTI_RECV, &value, &len),
		  -FI_ENOPROTOOPT);
	value = 2048;
	ret = fi_setopt(&fx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof(value));
	if (ret == -FI_ENOPROTOOPT)
		run_skip("no multi-receive option");
	CHECK(!ret, "fi_setopt: %d", ret);
	value = 0;
	CHECK_OK(fi_getopt(&fx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	CHECK(value == 2048 && len == sizeof(value), "the option came back as %zu (%zu bytes)",
	      value, len);
	len = 1;
	CHECK(fi_getopt(&fx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len) < 0,
	      "an option was written into one byte");
	fx_close(&fx);
}

static void open_ops(struct test *t)
{
	struct fx fx;
	void *ops;

	fx_open(t, &fx, &plain);
	CHECK_ERR(fi_open_ops(&fx.domain->fid, "no such operations", 0, &ops, NULL), -FI_ENOSYS);
	fx_close(&fx);
}

static void register_one(struct fx *fx, size_t len, uint64_t access)
{
	void *buf = calloc(1, len);
	struct fid_mr *mr;

	CHECK(buf, "no memory");
	CHECK_OK(fi_mr_reg(fx->domain, buf, len, access, 0, 0, 0, &mr, NULL));
	(void)fi_mr_desc(mr);
	(void)fi_mr_key(mr);
	CHECK_OK(fi_close(&mr->fid));
	free(buf);
}

static void registration(struct test *t)
{
	static const uint64_t access[] = { FI_SEND, FI_RECV, FI_SEND | FI_RECV };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (size_t len = 1; len <= 8UL << 20; len *= 8) {
		run_step("%zu bytes", len);
		for (int i = 0; i < 3; i++)
			register_one(&fx, len, access[i]);
	}
	fx_close(&fx);
}

static void registration_vectors(struct test *t)
{
	struct iovec iov[2];
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = 1, .access = FI_SEND };
	static char mem[2][4096];
	struct fid_mr *mr;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 2; i++)
		iov[i] = (struct iovec){ .iov_base = mem[i], .iov_len = sizeof(mem[i]) };
	CHECK_OK(fi_mr_regv(fx.domain, iov, 1, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
	CHECK_OK(fi_close(&mr->fid));
	CHECK_OK(fi_mr_regattr(fx.domain, &attr, 0, &mr));
	CHECK_OK(fi_close(&mr->fid));
	if (fx.info->domain_attr->mr_iov_limit >= 2) {
		CHECK_OK(fi_mr_regv(fx.domain, iov, 2, FI_SEND, 0, 0, 0, &mr, NULL));
		CHECK_OK(fi_close(&mr->fid));
	}
	fx_close(&fx);
}

/* The buffer is freed and allocated again, probably at the same address. */
static void registered_transfer(struct fx *fx, int round)
{
	size_t len = 1UL << 20;
	char *buf = aligned_alloc(4096, 2 * len);
	struct fi_context2 ctx[2];
	struct fid_mr *mr;
	ssize_t ret;
	void *desc;

	CHECK(buf, "no memory");
	CHECK_OK(fi_mr_reg(fx->domain, buf, 2 * len, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
	desc = fi_mr_desc(mr);
	pattern_fill(buf, len, (uint64_t)round);
	CHECK_OK(fi_trecv(fx->ep, buf + len, len, desc, FI_ADDR_UNSPEC, 1, 0, &ctx[0]));
	while ((ret = fi_tsend(fx->ep, buf, len, desc, fx->addr[0], 1, &ctx[1])) == -FI_EAGAIN)
		fx_progress(fx);
	CHECK(!ret, "fi_tsend: %zd", ret);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = len, .tag = 1);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
	CHECK(pattern_check(buf + len, len, (uint64_t)round) == len, "stale content");
	CHECK_OK(fi_close(&mr->fid));
	free(buf);
}

/* Sends from memory that can only be read to memory that no peer may read. */
static void one_way(struct fx *fx, char *src, char *dst, size_t len, void *desc[2])
{
	struct fi_context2 ctx[2];
	ssize_t ret;

	run_step("%zu bytes", len);
	memset(dst, 0, len);
	CHECK_OK(fi_trecv(fx->ep, dst, len, desc[1], FI_ADDR_UNSPEC, 1, 0, &ctx[0]));
	while ((ret = fi_tsend(fx->ep, src, len, desc[0], fx->addr[0], 1, &ctx[1])) == -FI_EAGAIN)
		fx_progress(fx);
	CHECK(!ret, "fi_tsend: %zd", ret);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = len, .tag = 1);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
	CHECK(pattern_check(dst, len, 1) == len, "wrong content");
}

static void registration_access(struct test *t)
{
	const size_t most = 4UL << 20;
	char *src = mmap(NULL, 2 * most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *dst = src + most;
	struct fid_mr *mr[2];
	void *desc[2];
	struct fx fx;

	CHECK(src != MAP_FAILED, "no memory");
	fx_open(t, &fx, &plain);
	pattern_fill(src, most, 1);
	CHECK(!mprotect(src, most, PROT_READ), "mprotect");
	CHECK_OK(fi_mr_reg(fx.domain, src, most, FI_SEND, 0, 0, 0, &mr[0], NULL));
	CHECK_OK(fi_mr_reg(fx.domain, dst, most, FI_RECV, 0, 1, 0, &mr[1], NULL));
	for (int i = 0; i < 2; i++)
		desc[i] = fi_mr_desc(mr[i]);
	for (size_t len = 16; len <= most; len *= 16)
		one_way(&fx, src, dst, len, desc);
	one_way(&fx, src, dst, most, desc);
	for (int i = 0; i < 2; i++)
		CHECK_OK(fi_close(&mr[i]->fid));
	fx_close(&fx);
	munmap(src, 2 * most);
}

static void registration_reuse(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 10; i++) {
		run_step("round %d", i);
		registered_transfer(&fx, i);
	}
	fx_close(&fx);
}

/* Both endpoints belong to this process, which makes progress for both. */
static void await_entry(struct fx *at, enum fx_side side, struct fx *other, struct comp *c)
{
	while (!comp_poll(at, side, c)) {
		fx_progress(other);
		FX_CHECK_MOVES(at, "no completion");
	}
}

static void send_beside(struct fx *from, struct fx *to, const struct msg *m)
{
	ssize_t ret;

	while ((ret = msg_try_send(from->ep, m)) == -FI_EAGAIN) {
		fx_progress(from);
		fx_progress(to);
		FX_CHECK_MOVES(from, "-FI_EAGAIN without end");
	}
	CHECK(!ret, "send: %zd", ret);
}

static void exchange_between(struct fx *from, struct fx *to, fi_addr_t dest, uint64_t seed)
{
	struct guard out = guard_alloc(100000), in = guard_alloc(100000);
	struct fi_context2 ctx[2];
	struct msg m = {
		.tagged = true, .buf = out.data, .len = out.len, .addr = dest, .tag = seed,
		.ctx = &ctx[1],
	};
	struct comp c;

	pattern_fill(out.data, out.len, seed);
	RECV(to, .tagged = true, .buf = in.data, .len = in.len, .addr = FI_ADDR_UNSPEC, .tag = seed,
	     .ctx = &ctx[0]);
	send_beside(from, to, &m);
	await_entry(to, FX_RX, from, &c);
	COMP_SAME(to, &c, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = in.len, .tag = seed);
	await_entry(from, FX_TX, to, &c);
	COMP_SAME(from, &c, .ctx = &ctx[1], .flags = SENT_TAGGED);
	GUARD_HOLDS(&in, in.len, seed);
	guard_free(&out);
	guard_free(&in);
}

static fi_addr_t insert_other(struct fx *at, const struct fx *other)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	CHECK(fi_av_insert(at->av, other->name[0], 1, &addr, 0, NULL) == 1, "insert failed");
	return addr;
}

static void talk(struct fx *a, struct fx *b)
{
	fi_addr_t a_to_b = insert_other(a, b), b_to_a = insert_other(b, a);

	for (uint64_t i = 1; i <= 3; i++) {
		exchange_between(a, b, a_to_b, i);
		exchange_between(b, a, b_to_a, i + 10);
	}
}

/* With --self the transport may reach no other endpoint. */
static void skip_if_self(const struct test *t)
{
	if (t->opt->self)
		run_skip("needs endpoints that reach each other");
}

static void two_endpoints(struct test *t)
{
	struct fx a, b;

	skip_if_self(t);
	fx_open(t, &a, &plain);
	fx_open(t, &b, &(struct fx_attr){ .share = &a });
	CHECK(memcmp(a.name[0], b.name[0], a.namelen), "two endpoints have the same name");
	talk(&a, &b);
	fx_close(&b);
	fx_close(&a);
}

static void two_domains(struct test *t)
{
	struct fx a, b;

	skip_if_self(t);
	fx_open(t, &a, &plain);
	fx_open(t, &b, &plain);
	talk(&a, &b);
	fx_close(&a);
	fx_close(&b);
}

const struct test_case object_cases[] = {
	{ "object_open_close", "all objects close; objects in use answer -FI_EBUSY", open_close, .ranks = 1 },
	{ "object_open_close_often", "50 rounds leave no file descriptor and no thread", open_close_often, .ranks = 1 },
	{ "object_never_enabled", "an endpoint that was never enabled closes", never_enabled, .ranks = 1 },
	{ "object_close_av_before_cq", "the AV may go before the CQs", close_av_before_cq, .ranks = 1 },
	{ "object_enable_without_cq", "fi_enable needs CQs for both directions", enable_without_cq, .ranks = 1 },
	{ "object_enable_without_av", "fi_enable needs an AV", enable_without_av, .ranks = 1 },
	{ "object_bad_bind", "wrong flags, second CQ, foreign object", bad_bind, .ranks = 1 },
	{ "object_before_enable", "no transfer before fi_enable", before_enable, .ranks = 1 },
	{ "object_posted_receives", "an endpoint closes with receives posted", posted_receives, .ranks = 1 },
	{ "object_options", "fi_getopt and fi_setopt, known and unknown", options, .ranks = 1 },
	{ "object_open_ops", "unknown operations give -FI_ENOSYS", open_ops, .ranks = 1 },
	{ "object_registration", "memory registers for send and receive", registration, .ranks = 1 },
	{ "object_registration_vectors", "fi_mr_regv and fi_mr_regattr", registration_vectors, .ranks = 1 },
	{ "object_registration_access", "read-only memory is sent, by FI_SEND; FI_RECV receives", registration_access, .ranks = 1 },
	{ "object_registration_reuse", "memory freed and allocated again is read afresh", registration_reuse, .ranks = 1 },
	{ "object_two_endpoints", "two endpoints of one domain talk", two_endpoints, .ranks = 1 },
	{ "object_two_domains", "two domains of one process talk", two_domains, .ranks = 1 },
	{ 0 },
};
