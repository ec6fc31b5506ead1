/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over userfaultfd and the cache over it: no registration is handed
 * out again for memory that was unmapped, moved or emptied.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/reg/monitor_fixture.h"

TestSuite(monitor, .timeout = 60);

/* ---- pages change behind their addresses ---- */

Test(monitor, unmapped_and_mapped_at_the_same_address)
{
	struct tagrv_regcache_stats stats;
	char *p = map_pages();

	if (!watch_start())
		return;
	cr_assert_eq(watch_use(p, BYTES), 0);
	cr_assert_eq(watch_use(p, BYTES), 1);
	munmap(p, BYTES);
	map_pages_at(p, BYTES, MAP_FIXED_NOREPLACE);
	cr_assert_eq(watch_use(p, BYTES), 0);
	/* A part is mapped anew by a single call. */
	map_pages_at(p + 3 * PAGE, PAGE, MAP_FIXED);
	cr_assert_eq(watch_use(p + PAGE, 4 * PAGE), 0);
	cr_assert_eq(watch_use(p + PAGE, PAGE), 1);
	tagrv_regcache_get_stats(watch.cache, &stats);
	cr_assert_eq(stats.invalidations, 2);
	watch_end();
	munmap(p, BYTES);
}

Test(monitor, moved_and_moved_back)
{
	char *p = map_pages(), *q = map_pages(), *r;

	if (!watch_start())
		return;
	cr_assert_eq(watch_use(p, BYTES), 0);
	cr_assert_eq(watch_use(q, BYTES), 0);
	r = mremap(p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	cr_assert_eq(r, q);
	map_pages_at(p, BYTES, MAP_FIXED_NOREPLACE);
	cr_assert_eq(watch_use(p, BYTES), 0);
	cr_assert_eq(watch_use(q, BYTES), 0);
	/* The moved pages are watched at their new address; watch_end() must end that. */
	watch_end();
	munmap(p, BYTES);
	munmap(q, BYTES);
}

Test(monitor, shrunk_and_grown)
{
	char *p = map_pages();

	if (!watch_start())
		return;
	cr_assert_eq(watch_use(p, BYTES), 0);
	cr_assert_eq(mremap(p, BYTES, BYTES / 2, 0), p);
	p = mremap(p, BYTES / 2, BYTES, MREMAP_MAYMOVE);
	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(watch_use(p, BYTES), 0);
	watch_end();
	munmap(p, BYTES);
}

Test(monitor, emptied)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE };
	char *p = map_pages();

	if (!watch_start())
		return;
	cr_assert_eq(watch_use(p, BYTES), 0);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(advice); i++) {
		cr_assert_eq(madvise(p + PAGE, PAGE, advice[i]), 0);
		cr_assert_eq(watch_use(p, BYTES), 0);
		cr_assert_eq(watch_use(p, BYTES), 1);
	}
	watch_end();
	munmap(p, BYTES);
}

Test(monitor, heap_given_back)
{
	char *p, *end;
	size_t len = (size_t) 1 << 20;

	if (!watch_start())
		return;
	/* sbrk itself: a sanitizer's allocator does not use the heap. */
	p = sbrk((intptr_t) (len + PAGE));
	cr_assert_neq(p, (void *) -1);
	end = p + len + PAGE;
	p = (char *) (((uintptr_t) p + PAGE - 1) & ~(PAGE - 1));
	cr_assert_eq(watch_use(p, len), 0);
	cr_assert_eq(watch_use(p, len), 1);
	if (sbrk(0) == end) {
		cr_assert_neq(sbrk(-(intptr_t) len), (void *) -1);
		cr_assert_neq(sbrk((intptr_t) len), (void *) -1);
	}
	cr_assert_eq(watch_use(p, len), 0);
	watch_end();
}

Test(monitor, malloc_trim_and_large_blocks)
{
	size_t len = (size_t) 8 << 20;
	int bypassed = 0;

	if (!watch_start())
		return;
	for (int i = 0; i < 50; i++) {
		/* malloc maps and unmaps these, often at the same address. */
		char *p = aligned_alloc(PAGE, len);
		char *q = aligned_alloc(PAGE, BYTES);

		if (watch_use(p, len) < 0 || watch_use(q, BYTES) < 0)
			bypassed++;
		free(q);
		free(p);
		malloc_trim(0);
	}
	cr_assert_eq(bypassed, 0);
	watch_end();
}

/* malloc gives blocks of this size back by calls inside of libc. */
Test(monitor, largest_blocks)
{
	size_t len = (size_t) 40 << 20;

	if (!watch_start())
		return;
	for (int i = 0; i < 8; i++) {
		char *p = aligned_alloc(PAGE, len);

		cr_assert_not_null(p);
		cr_assert_geq(watch_use(p, BYTES), 0);
		free(p);
	}
	watch_end();
}

/* A watched part splits the mapping of the block; mremap refuses such mappings. */
Test(monitor, realloc_of_a_block_with_a_cached_part)
{
	size_t len = (size_t) 1 << 20;
	char *p = malloc(len);

	if (!watch_start())
		return;
	for (size_t more = 2 * len; more <= 8 * len; more += len) {
		memset(p, (int) (more / len), more - len);
		cr_assert_eq(watch_use(p + len / 4, len / 4), 0);
		p = realloc(p, more);
		cr_assert_not_null(p);
		cr_assert_eq(p[0], (char) (more / len));
		cr_assert_eq(p[more - len - 1], (char) (more / len));
	}
	free(p);
	watch_end();
}

/*
 * Of pages of 64 KiB, which the kernel of this machine may not have: what is watched and
 * what is registered are whole ones, so that a part of a page is found with the page.
 */
Test(monitor, pages_of_64_kib)
{
	struct tagrv_mem *mem;
	char *p, *part;

	tagrv_page_size_pretend(65536);
	p = map_pages();
	part = p + PAGE + 5000;
	cr_assert_eq((uintptr_t) p % PAGE, 0);
	if (!watch_start())
		return;
	cr_assert_eq(tagrv_regcache_get(watch.cache, part, 100, 0, &mem), 0);
	cr_expect_eq(mem->addr, p + PAGE);
	cr_expect_eq(mem->len, PAGE);
	tagrv_regcache_put(mem);
	cr_assert_eq(watch_use(p + PAGE, PAGE), 1);
	cr_assert_eq(madvise(p + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
	cr_assert_eq(watch_use(part, 100), 1, "the next page has changed, not this one");
	cr_assert_eq(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
	cr_assert_eq(watch_use(part, 100), 0);
	/* A readable region is watched beyond its end, to the end of the page. */
	cr_assert_eq(tagrv_regcache_get(watch.cache, part, 100, TAGRV_MEM_READ, &mem), 0);
	cr_expect_eq(mem->addr, part);
	tagrv_regcache_put(mem);
	watch_end();
	munmap(p, BYTES);
}

/* ---- threads ---- */

static void *unmap_it(void *arg)
{
	munmap(arg, BYTES);
	return NULL;
}

/*
 * Another thread unmaps; before munmap returns, this thread maps the same address.
 * The monitor's lock is held meanwhile, so that this always happens.
 */
Test(monitor, address_reused_before_munmap_returns)
{
	char *p = map_pages(), *q = MAP_FAILED;
	struct tagrv_mem *mem;
	pthread_t thread;
	int ret;

	if (!watch_start())
		return;
	cr_assert_eq(watch_use(p, BYTES), 0);
	/* From here on the cache finds it without the monitor's lock. */
	cr_assert_eq(watch_use(p, BYTES), 1);
	tagrv_monitor_lock(watch.monitor);
	cr_assert_eq(pthread_create(&thread, NULL, unmap_it, p), 0);
	while (q == MAP_FAILED) {
		q = mmap(p, BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			 0);
		sched_yield();
	}
	ret = tagrv_regcache_get(watch.cache, p, BYTES, 0, &mem);
	tagrv_monitor_unlock(watch.monitor);
	pthread_join(thread, NULL);
	cr_assert_eq(q, p);
	cr_assert_eq(ret, -FI_EOPNOTSUPP, "the old one was handed out");
	cr_assert_eq(watch_use(p, BYTES), 0);
	watch_end();
	munmap(p, BYTES);
}

static _Atomic bool stop_churn;

/* Maps, fills, unmaps: addresses are reused by all threads. */
static void *churn(void *arg)
{
	while (!stop_churn) {
		char *p = map_pages_at(NULL, BYTES, 0);

		memset(p, 0, BYTES);
		munmap(p, BYTES);
		free(malloc((size_t) 1 << 18));
	}
	return arg;
}

Test(monitor, others_map_and_unmap_all_the_time)
{
	pthread_t thread[3];
	int kept = 0;

	if (!watch_start())
		return;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, churn, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		char *p = map_pages_at(NULL, BYTES, 0);

		watch_use(p, BYTES);
		kept += watch_use(p + PAGE, PAGE) == 1;
		munmap(p, BYTES);
	}
	stop_churn = true;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	cr_assert_gt(kept, 0);
	watch_end();
}

/* ---- fork ---- */

/* What the child does now; in memory that the parent shares. */
static _Atomic(const char *) *doing;

/* The child must neither use nor end what the parent registered. */
static bool child(char *p)
{
	struct tagrv_monitor *own;
	struct tagrv_mem *mem;

	*doing = "uses the parent's cache";
	if (tagrv_regcache_get(watch.cache, p, BYTES, 0, &mem) != -FI_EOPNOTSUPP)
		return false;
	*doing = "frees regions of the parent's cache";
	tagrv_regcache_free_invalidated(watch.cache);
	if (tagrv_regcache_evict(watch.cache) || reg_device.alive != 1)
		return false;
	*doing = "ends the parent's cache and monitor";
	tagrv_regcache_destroy(watch.cache);
	tagrv_monitor_uffd_put(watch.monitor);
	if (reg_device.alive != 1)
		return false;
	munmap(p, BYTES);
	*doing = "opens a monitor of its own";
	if (tagrv_monitor_uffd_get(&own, watch.why, sizeof(watch.why)) || own == watch.monitor)
		return false;
	*doing = "ends its own monitor";
	tagrv_monitor_uffd_put(own);
	return true;
}

/* A child that hangs dies of SIGALRM well before the test's own limit. */
static void run_child(char *p)
{
	alarm(slow_ms(40000) / 1000);
	_exit(!child(p));
}

static void wait_for_child(pid_t pid)
{
	int status;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(!WIFSIGNALED(status), "the child %s while it %s: signal %d",
		  WTERMSIG(status) == SIGALRM ? "hung" : "died", *doing, WTERMSIG(status));
	cr_assert(!WEXITSTATUS(status), "the child failed while it %s", *doing);
}

Test(monitor, child_of_fork)
{
	char *p = map_pages();
	pid_t pid;

	doing = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(doing, MAP_FAILED);
	if (!watch_start())
		return;
	cr_assert_eq(watch_use(p, BYTES), 0);
	watch_settle();
	pid = fork();
	if (!pid)
		run_child(p);
	cr_assert_geq(pid, 0);
	wait_for_child(pid);
	cr_assert_eq(watch_use(p, BYTES), 0, "registered anew after a fork");
	cr_assert_eq(watch_use(p, BYTES), 1);
	munmap(p, BYTES);
	map_pages_at(p, BYTES, MAP_FIXED_NOREPLACE);
	cr_assert_eq(watch_use(p, BYTES), 0);
	watch_end();
	munmap(p, BYTES);
}

/* A living child must not block the parent's calls. */
Test(monitor, parent_ends_while_a_child_lives)
{
	char *p = map_pages();
	int fds[2];
	pid_t pid;

	if (!watch_start())
		return;
	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(watch_use(p, BYTES), 0);
	watch_settle();
	pid = fork();
	if (!pid) {
		char c;

		close(fds[1]);
		_exit(read(fds[0], &c, 1) != 0);
	}
	watch_end();
	munmap(p, BYTES);
	close(fds[1]);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(monitor, started_again)
{
	char *p = map_pages();

	for (int i = 0; i < 3; i++) {
		if (!watch_start())
			return;
		cr_assert_eq(watch_use(p, BYTES), 0);
		watch_end();
	}
	munmap(p, BYTES);
}
