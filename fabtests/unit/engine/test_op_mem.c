/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations and the cache of registrations: what is registered, and when.
 *
 * Where the process may not watch memory there is no cache: then the tests make
 * sure that each operation registers for itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "object/mrtab.h"
#include "object/view.h"
#include "reg/regcache.h"
#include "wire/rma_packet.h"
#include "common/apart.h"
#include "common/engine_fixture.h"

#define BIG	((size_t) 1 << 20)

static char ctx[4];
static char *buf;

static void start(double overhead, const char *how)
{
	tagrv_param_define();
	setenv("FI_TAGRV_REGCACHE", how, 1);
	fake_reg_overhead = overhead;
	engine_setup();
	peer_up(true);
	buf = map_apart(BIG);
	cr_assert_not_null(buf);
}

static void setup(void)
{
	start(20e-6, "auto");
}

static void teardown(void)
{
	tagrv_dom_close_caches(fx.dom);
	engine_teardown();
	munmap(buf, BIG);
}

TestSuite(regcache_op, .init = setup, .fini = teardown, .timeout = 20);

/* What watches memory in this process, if that is permitted. */
static bool can_watch(void)
{
	struct tagrv_monitor *monitor;
	char why[96];

	if (tagrv_monitor_uffd_get(&monitor, why, sizeof(why)))
		return false;
	tagrv_monitor_uffd_put(monitor);
	return true;
}

/* Registrations of 'with' where there is a cache, else of 'without'. */
static void expect_made(size_t with, size_t without)
{
	bool on = tagrv_dom_cache(fx.dom, fx.dom->dev) != NULL;

	cr_assert_eq(on, can_watch());
	cr_assert_eq(fake.regs_made, on ? with : without, "%zu registrations",
		     fake.regs_made);
}

static uint32_t last_rts(void)
{
	struct tagrv_hdr hdr = packet_header(fake.log_cnt - 1);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_RTS);
	return hdr.op;
}

static void send_whole(char *from, size_t len)
{
	cr_assert_eq(submit_send(from, len, 4, ctx, 0), 0);
	arrive_fin(last_rts(), 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(regcache_op, buffer_is_registered_once)
{
	for (int i = 0; i < 5; i++)
		send_whole(buf, BIG);
	send_whole(buf + 70000, BIG / 2);
	expect_made(1, 6);
}

Test(regcache_op, receives_use_what_sends_registered)
{
	static char src[20000];

	send_whole(buf, BIG);
	cr_assert_eq(submit_recv(buf, BIG, 4, ctx), 0);
	arrive_rts(src, sizeof(src), 4, 99);
	fake_complete_all(0);
	tagrv_engine_progress(fx.engine);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.rx).err, 0);
	expect_made(1, 2);
}

static uint8_t proposal(void)
{
	last_rts();
	return fake.log[fake.log_cnt - 1].data[32 + 10];
}

/* It pays to register all of a buffer that is used again. */
Test(regcache_op, pipeline_is_for_the_first_use)
{
	bool kept = can_watch();

	fake.base.attr.latency = 1e-6;
	fake.base.attr.bandwidth = 12e9;
	fake.base.attr.copy_bandwidth = 2e9;
	fake.base.attr.reg_growth = 0.1e-9;
	fake.base.attr.reg_piece = 65536;
	fake.base.attr.reg_overhead = 0;
	engine_set_rndv(TAGRV_PROTO_EAGER);
	send_whole(buf, BIG);
	cr_assert_eq(proposal(), TAGRV_PROTO_RNDV_PIPE);
	cr_assert_eq(fake.regs_made, 0);
	engine_set_rndv(TAGRV_PROTO_RNDV_READ);
	send_whole(buf, 65536);
	engine_set_rndv(TAGRV_PROTO_EAGER);
	send_whole(buf, BIG);
	cr_assert_eq(proposal(), kept ? TAGRV_PROTO_RNDV_READ :
					TAGRV_PROTO_RNDV_PIPE);
	send_whole(buf + BIG / 2, BIG / 2);
	cr_assert_eq(fake.regs_made, kept ? 2 : 1);
}

Test(regcache_op, memory_of_the_application_comes_first)
{
	struct tagrv_mem mem = {
		.dev = &fake.dev, .addr = buf, .len = BIG,
		.access = TAGRV_MEM_READ,
	};
	struct tagrv_mem *desc[] = { &mem };
	struct tagrv_send_req req = send_req(buf, BIG, 4, ctx);

	req.mem = desc;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	arrive_fin(last_rts(), 0);
	cr_assert_eq(fake.regs_made, 0);
	cr_assert_null(mem.owner);
}

Test(regcache_op, other_memory_at_the_same_address)
{
	send_whole(buf, BIG);
	munmap(buf, BIG);
	cr_assert_eq(mmap(buf, BIG, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			  0), buf);
	send_whole(buf, BIG);
	expect_made(2, 2);
	cr_assert_leq(fake.regs, 1);
}

/* Nobody but the progress of the application ends the registration. */
Test(regcache_op, progress_gives_lost_memory_back)
{
	send_whole(buf, BIG);
	madvise(buf, BIG, MADV_DONTNEED);
	/* The thread may still be about to say so: madvise waits for no more
	 * than that it has read of it. Never: the time limit ends the test. */
	while (fake.regs)
		tagrv_dom_progress(fx.dom);
}

Test(regcache_op, no_memory_evicts_and_tries_again)
{
	fake.regs_max = 2;
	for (size_t i = 0; i < 5; i++)
		send_whole(buf + i * 65536, 65536);
	cr_assert_leq(fake.regs, 2);
	/* All are in use: the second one is copied. */
	fake.regs_max = 1;
	tagrv_dom_evict(fx.dom, &fake.dev);
	cr_assert_eq(submit_send(buf, 65536, 4, ctx, 0), 0);
	cr_assert_eq(submit_send(buf + 65536, 65536, 4, ctx + 1, 0), 0);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32 + 16, "no keys");
	arrive_fin(last_rts(), 0);
	cr_assert_eq(take(&fx.tx).context, ctx + 1);
	arrive_fin(packet_header(fake.log_cnt - 2).op, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
}

Test(regcache_op, no_memory_for_a_window_evicts_too)
{
	struct tagrv_window window = { .iov = { { buf + BIG / 2, 4096 } }, .iov_cnt = 1 };

	if (!can_watch())
		cr_skip_test("memory cannot be watched here");
	send_whole(buf, 65536);
	cr_assert_eq(fake.regs, 1, "kept");
	fake.regs_max = 1;
	cr_assert_not_null(tagrv_window_register(fx.dom, &window, &fake.dev, TAGRV_MEM_READ));
	cr_assert_eq(fake.regs, 1);
	tagrv_window_deregister(fx.dom, &window);
	cr_assert_eq(fake.regs, 0);
}

/* A peer that once was told where to write to could go on for ever. */
Test(regcache_op, what_a_peer_may_write_to_ends_with_the_receive)
{
	uint32_t taker;

	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(submit_recv(buf, BIG, 4, ctx), 0);
		arrive_rts(buf, BIG, 4, 99);
		cr_assert_eq(packet_header(fake.log_cnt - 1).opcode,
			     TAGRV_PKT_CTS);
		cr_assert_eq(fake.regs, 1);
		memcpy(&taker, fake.log[fake.log_cnt - 1].data + 32 + 8,
		       sizeof(taker));
		arrive_control(TAGRV_PKT_DONE, le32toh(taker), 0);
		cr_assert_eq(take(&fx.rx).err, 0);
		cr_assert_eq(fake.regs, 0);
	}
	cr_assert_eq(fake.regs_made, 2);
}

/* By what a peer has read a region it could read on, once the region is closed. */
Test(regcache_op, what_was_lent_of_a_region_ends_with_the_region)
{
	struct tagrv_window window = {
		.key = 5, .len = BIG, .access = FI_REMOTE_READ, .enabled = true,
		.iov_cnt = 1, .iov = { { buf, BIG } },
	};
	const struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_range range;
	} get = {
		.hdr = { .opcode = TAGRV_PKT_GET, .op = htole32(1),
			 .flags = htole16(TAGRV_RMA_KEYS) },
		.range = { 0, htole64(BIG), htole64(5) },
	};
	uint32_t lender;

	fx.engine->attr.serves = FI_REMOTE_READ;
	cr_assert_eq(tagrv_window_add(fx.dom, &window), 0);
	for (int i = 0; i < 2; i++) {
		fake_deliver(fx.link, &get, sizeof(get));
		cr_assert_eq(packet_header(fake.log_cnt - 1).opcode,
			     TAGRV_PKT_KEYS);
		memcpy(&lender, fake.log[fake.log_cnt - 1].data + 32 + 8,
		       sizeof(lender));
		arrive_fin(le32toh(lender), 0);
	}
	expect_made(1, 2);
	cr_assert_eq(fake.regs, can_watch() ? 1 : 0);
	tagrv_dom_close_window(fx.dom, &window);
	cr_assert_eq(fake.regs, 0);
}

/* The cache is out of memory, for mappings of the kernel's, say: not we. */
Test(regcache_op, no_memory_to_keep_it_is_no_failure)
{
	fake.reg_error_once = -FI_ENOMEM;
	if (!can_watch())
		fake.reg_error_once = 0;
	send_whole(buf, BIG);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(fake.regs_made, 1);
}

/* ---- how much is kept ---- */

static void drop_privilege(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	cr_assert_eq(syscall(SYS_capget, &head, caps), 0);
	caps[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &=
		~CAP_TO_MASK(CAP_IPC_LOCK);
	cr_assert_eq(syscall(SYS_capset, &head, caps), 0);
}

static bool is_privileged(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	cr_assert_eq(syscall(SYS_capget, &head, caps), 0);
	return caps[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &
	       CAP_TO_MASK(CAP_IPC_LOCK);
}

static void limit_locked(rlim_t bytes)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = TAGRV_MIN(bytes, limit.rlim_max);
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

Test(regcache_op, half_of_what_may_be_locked_is_kept)
{
	drop_privilege();
	limit_locked(BIG);
	for (int i = 0; i < 3; i++)
		send_whole(buf, BIG / 2);
	expect_made(1, 3);
	for (int i = 0; i < 3; i++)
		send_whole(buf, BIG);
	expect_made(4, 6);
}

Test(regcache_op, limit_of_locked_memory_is_not_for_the_privileged)
{
	bool all = is_privileged();

	limit_locked(BIG);
	for (int i = 0; i < 3; i++)
		send_whole(buf, BIG);
	expect_made(all ? 1 : 3, 3);
}

TestSuite(regcache_off, .fini = teardown, .timeout = 20);

Test(regcache_off, by_parameter)
{
	start(20e-6, "no");
	send_whole(buf, BIG);
	send_whole(buf, BIG);
	cr_assert_eq(fake.regs_made, 2);
	cr_assert_eq(fake.regs, 0);
	cr_assert_null(tagrv_dom_cache(fx.dom, fx.dom->dev));
}

/* Shared memory: a registration costs less than to look for one. */
Test(regcache_off, for_devices_that_register_cheaply)
{
	start(0.05e-6, "yes");
	send_whole(buf, BIG);
	send_whole(buf, BIG);
	cr_assert_eq(fake.regs_made, 2);
	cr_assert_eq(fake.regs, 0);
	cr_assert_null(tagrv_dom_cache(fx.dom, fx.dom->dev));
}

/* It was measured with the cache, and so has what finding one costs. */
Test(regcache_off, by_no_profile)
{
	char path[] = "/tmp/tagrv-test-XXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");

	cr_assert_not_null(f);
	fputs("tagrv-profile 1\ndevice fake fake\nreg_overhead 0\n", f);
	fclose(f);
	setenv("FI_TAGRV_PROFILE", path, 1);
	start(20e-6, "auto");
	unlink(path);
	for (size_t i = 0; i < fx.dom->dev_cnt; i++)
		cr_assert(fx.dom->caches[i].wanted);
	for (size_t i = 0; i < fx.engine->rails.xport_cnt; i++)
		if (fx.engine->rails.xports[i]->dev == &fake.dev)
			cr_assert_eq(fx.engine->rails.xports[i]->attr
				     .reg_overhead, 0);
}

Test(regcache_off, until_something_is_registered)
{
	start(20e-6, "auto");
	cr_assert_eq(submit_send(buf, 100, 4, ctx, 0), 0);
	cr_assert(fx.dom->caches[0].wanted && fx.dom->caches[1].wanted);
	cr_assert_null(fx.dom->caches[1].monitor);
	fake_complete_all(0);
}
