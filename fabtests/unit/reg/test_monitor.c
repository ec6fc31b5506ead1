/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over userfaultfd, with real memory, and the cache over it: what
 * is unmapped, moved or emptied is never handed out again.
 *
 * A registration stands for pages, not for addresses. So when something is
 * registered, a number that occurs only once is written into each of its pages
 * that has none: a page that comes to lie there later does not have it, for the
 * kernel gives out pages empty.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reg/monitor_vma.h"
#include "unit/reg/regcache_fake.h"

/* What older headers lack. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#define NEW_UFFD	_IO(0xAA, 0x00)	/* of /dev/userfaultfd */

#define PAGE	((size_t) 4096)
#define PAGES	16u
#define BYTES	(PAGES * PAGE)

static struct tagrv_monitor *monitor;
static struct tagrv_regcache *cache;
static struct tagrv_regcache_stats stats;
static char why[96];

/* Not where sanitizers keep their own; nobody else maps there. */
#define OURS	((uintptr_t) 0x200000000000)

static uint64_t mark_of(uintptr_t page)
{
	uint64_t *mark = (uint64_t *) page + 1;
	static uint64_t last;

	if (!*mark)
		*mark = ++last;
	return *mark;
}

/*
 * Where userfaultfd is not permitted there is nothing to watch with: then the
 * monitor must say so, and give a reason. Each test begins with this.
 */
static bool permitted(void)
{
	struct tagrv_regcache_limits limits = { 1 << 30, 64 };
	int ret = tagrv_monitor_uffd_get(&monitor, why, sizeof(why));

	if (ret) {
		cr_assert(ret == -FI_EPERM || ret == -FI_ENOSYS, "%d", ret);
		cr_assert_gt(strlen(why), 10);
		cr_log_warn("memory cannot be watched here: %s", why);
		return false;
	}
	cr_assert_eq(tagrv_regcache_create(reg_device_start(), monitor,
					   &limits, &cache), 0);
	reg_device.identity = mark_of;
	return true;
}

static void finish(void)
{
	tagrv_regcache_destroy(cache);
	cr_assert_eq(reg_device.alive, 0);
	tagrv_monitor_uffd_put(monitor);
}

TestSuite(monitor, .timeout = 60);

/*
 * Uses memory as an operation does: what is handed out must stand for the pages
 * that are there. Returns whether it came from the cache, -1 when it was not
 * kept.
 */
static int use(void *addr, size_t len)
{
	size_t made = reg_device.made;
	struct tagrv_mem *mem;
	int ret = tagrv_regcache_get(cache, addr, len, &mem);

	if (ret) {
		cr_assert_eq(ret, -FI_EOPNOTSUPP);
		return -1;
	}
	cr_assert(reg_device_is_true(mem), "other pages were registered");
	tagrv_regcache_put(mem);
	return reg_device.made == made;
}

static char *map_at(void *addr, size_t len, int flags)
{
	char *p = mmap(addr, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

/* Where the address is free again once it was unmapped. */
static char *map(void)
{
	static uintptr_t at = OURS;

	at += 4 * BYTES;
	return map_at((void *) at, BYTES, 0);
}

/* ---- what makes pages others ---- */

Test(monitor, unmapped_and_mapped_at_the_same_address)
{
	char *p = map();

	if (!permitted())
		return;
	cr_assert_eq(use(p, BYTES), 0);
	cr_assert_eq(use(p, BYTES), 1);
	munmap(p, BYTES);
	map_at(p, BYTES, MAP_FIXED_NOREPLACE);
	cr_assert_eq(use(p, BYTES), 0);
	/* In part, and by one call. */
	map_at(p + 3 * PAGE, PAGE, MAP_FIXED);
	cr_assert_eq(use(p + PAGE, 4 * PAGE), 0);
	cr_assert_eq(use(p + PAGE, PAGE), 1);
	tagrv_regcache_get_stats(cache, &stats);
	cr_assert_eq(stats.invalidations, 2);
	finish();
	munmap(p, BYTES);
}

Test(monitor, moved_and_moved_back)
{
	char *p = map(), *q = map(), *r;

	if (!permitted())
		return;
	cr_assert_eq(use(p, BYTES), 0);
	cr_assert_eq(use(q, BYTES), 0);
	r = mremap(p, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	cr_assert_eq(r, q);
	map_at(p, BYTES, MAP_FIXED_NOREPLACE);
	cr_assert_eq(use(p, BYTES), 0);
	cr_assert_eq(use(q, BYTES), 0);
	/* Watched where it went, although not asked for: that must end. */
	finish();
	munmap(p, BYTES);
	munmap(q, BYTES);
}

Test(monitor, shrunk_and_grown)
{
	char *p = map();

	if (!permitted())
		return;
	cr_assert_eq(use(p, BYTES), 0);
	cr_assert_eq(mremap(p, BYTES, BYTES / 2, 0), p);
	p = mremap(p, BYTES / 2, BYTES, MREMAP_MAYMOVE);
	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(use(p, BYTES), 0);
	finish();
	munmap(p, BYTES);
}

Test(monitor, emptied)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE };
	char *p = map();

	if (!permitted())
		return;
	cr_assert_eq(use(p, BYTES), 0);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(advice); i++) {
		cr_assert_eq(madvise(p + PAGE, PAGE, advice[i]), 0);
		cr_assert_eq(use(p, BYTES), 0);
		cr_assert_eq(use(p, BYTES), 1);
	}
	finish();
	munmap(p, BYTES);
}

Test(monitor, heap_given_back)
{
	char *p, *end;
	size_t len = (size_t) 1 << 20;

	if (!permitted())
		return;
	/* No allocator of a sanitizer's may do otherwise. */
	p = sbrk((intptr_t) (len + PAGE));
	cr_assert_neq(p, (void *) -1);
	end = p + len + PAGE;
	p = (char *) (((uintptr_t) p + PAGE - 1) & ~(PAGE - 1));
	cr_assert_eq(use(p, len), 0);
	cr_assert_eq(use(p, len), 1);
	if (sbrk(0) == end) {
		cr_assert_neq(sbrk(-(intptr_t) len), (void *) -1);
		cr_assert_neq(sbrk((intptr_t) len), (void *) -1);
	}
	cr_assert_eq(use(p, len), 0);
	finish();
}

Test(monitor, malloc_trim_and_large_blocks)
{
	size_t len = (size_t) 8 << 20;
	int bypassed = 0;

	if (!permitted())
		return;
	for (int i = 0; i < 50; i++) {
		/* Mapped and unmapped by malloc itself, often in one place. */
		char *p = aligned_alloc(PAGE, len);
		char *q = aligned_alloc(PAGE, BYTES);

		if (use(p, len) < 0 || use(q, BYTES) < 0)
			bypassed++;
		free(q);
		free(p);
		malloc_trim(0);
	}
	cr_assert_eq(bypassed, 0);
	finish();
}

/* What is kept of a block splits its mapping, which mremap refuses then. */
Test(monitor, realloc_of_a_block_of_which_a_part_is_kept)
{
	size_t len = (size_t) 1 << 20;
	char *p = malloc(len);

	if (!permitted())
		return;
	for (size_t more = 2 * len; more <= 8 * len; more += len) {
		memset(p, (int) (more / len), more - len);
		cr_assert_eq(use(p + len / 4, len / 4), 0);
		p = realloc(p, more);
		cr_assert_not_null(p);
		cr_assert_eq(p[0], (char) (more / len));
		cr_assert_eq(p[more - len - 1], (char) (more / len));
	}
	free(p);
	finish();
}

/* ---- threads ---- */

static void *unmap_it(void *arg)
{
	munmap(arg, BYTES);
	return NULL;
}

/*
 * Another thread unmaps; before it returns, its address is ours already. The
 * monitor is held off meanwhile, so that this always happens.
 */
Test(monitor, address_reused_before_munmap_returns)
{
	char *p = map(), *q = MAP_FAILED;
	struct tagrv_mem *mem;
	pthread_t thread;
	int ret;

	if (!permitted())
		return;
	cr_assert_eq(use(p, BYTES), 0);
	/* From here on it is found without the lock that we hold. */
	cr_assert_eq(use(p, BYTES), 1);
	tagrv_monitor_lock(monitor);
	cr_assert_eq(pthread_create(&thread, NULL, unmap_it, p), 0);
	while (q == MAP_FAILED) {
		q = mmap(p, BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			 0);
		sched_yield();
	}
	ret = tagrv_regcache_get(cache, p, BYTES, &mem);
	tagrv_monitor_unlock(monitor);
	pthread_join(thread, NULL);
	cr_assert_eq(q, p);
	cr_assert_eq(ret, -FI_EOPNOTSUPP, "the old one was handed out");
	cr_assert_eq(use(p, BYTES), 0);
	finish();
	munmap(p, BYTES);
}

static _Atomic bool stop_churn;

/* Maps, fills, unmaps: takes and gives addresses that others have had. */
static void *churn(void *arg)
{
	while (!stop_churn) {
		char *p = map_at(NULL, BYTES, 0);

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

	if (!permitted())
		return;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, churn, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		char *p = map_at(NULL, BYTES, 0);

		use(p, BYTES);
		kept += use(p + PAGE, PAGE) == 1;
		munmap(p, BYTES);
	}
	stop_churn = true;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	cr_assert_gt(kept, 0);
	finish();
}

/* ---- fork ---- */

/* The child must neither use nor end what the parent registered. */
static int child(char *p)
{
	struct tagrv_monitor *own;
	struct tagrv_mem *mem;

	if (tagrv_regcache_get(cache, p, BYTES, &mem) != -FI_EOPNOTSUPP)
		return 1;
	tagrv_regcache_reap(cache);
	if (tagrv_regcache_evict(cache) || reg_device.alive != 1)
		return 2;
	tagrv_regcache_destroy(cache);
	tagrv_monitor_uffd_put(monitor);
	if (reg_device.alive != 1)
		return 3;
	munmap(p, BYTES);
	/* It can have one for itself. */
	if (tagrv_monitor_uffd_get(&own, why, sizeof(why)) || own == monitor)
		return 4;
	tagrv_monitor_uffd_put(own);
	return 0;
}

Test(monitor, child_of_fork)
{
	char *p = map();
	int status;
	pid_t pid;

	if (!permitted())
		return;
	cr_assert_eq(use(p, BYTES), 0);
	pid = fork();
	if (!pid)
		_exit(child(p));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
	cr_assert_eq(use(p, BYTES), 0, "registered anew after a fork");
	cr_assert_eq(use(p, BYTES), 1);
	munmap(p, BYTES);
	map_at(p, BYTES, MAP_FIXED_NOREPLACE);
	cr_assert_eq(use(p, BYTES), 0);
	finish();
	munmap(p, BYTES);
}

/* A child that lives on must not keep the parent's calls waiting. */
Test(monitor, parent_ends_while_a_child_lives)
{
	char *p = map();
	int fds[2];
	pid_t pid;

	if (!permitted())
		return;
	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(use(p, BYTES), 0);
	pid = fork();
	if (!pid) {
		char c;

		close(fds[1]);
		_exit(read(fds[0], &c, 1) != 0);
	}
	finish();
	munmap(p, BYTES);
	close(fds[1]);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* ---- what cannot be watched ---- */

Test(monitor, memory_of_files_and_segments_is_not_kept)
{
	int fd = memfd_create("tagrv", 0);
	char *shared, *private, *segment;
	int id;

	if (!permitted())
		return;
	cr_assert_eq(ftruncate(fd, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	cr_assert_eq(use(shared, BYTES), -1);
	cr_assert_eq(use(private, BYTES), -1);
	id = shmget(IPC_PRIVATE, BYTES, 0600);
	cr_assert_geq(id, 0);
	segment = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	cr_assert_eq(use(segment, BYTES), -1);
	shmdt(segment);
	cr_assert_eq(reg_device.made, 0);
	munmap(shared, BYTES);
	munmap(private, BYTES);
	close(fd);
	finish();
}

Test(monitor, holes_and_read_only_memory_are_not_kept)
{
	char *p = map();

	if (!permitted())
		return;
	mprotect(p + 4 * PAGE, PAGE, PROT_READ);
	munmap(p + 8 * PAGE, PAGE);
	cr_assert_eq(use(p, 5 * PAGE), -1);
	cr_assert_eq(use(p + 6 * PAGE, 4 * PAGE), -1);
	cr_assert_eq(use(p, 4 * PAGE), 0);
	cr_assert_eq(use(p + 9 * PAGE, 2 * PAGE), 0);
	finish();
	munmap(p, BYTES);
}

/* Both ways to ask the kernel give the same answers. */
Test(monitor, kinds_of_memory)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int fd = memfd_create("tagrv", 0);
	char *p = map(), *shared;
	static char bss[3 * 4096];

	cr_assert_geq(maps, 0);
	cr_assert_eq(ftruncate(fd, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mprotect(p + 4 * PAGE, PAGE, PROT_READ);
	munmap(p + 8 * PAGE, PAGE);
	/* Another mapping of the same kind right behind. */
	madvise(p + 2 * PAGE, PAGE, MADV_DONTFORK);
	memset(bss, 1, sizeof(bss));
	for (int by_text = 0; by_text < 2; by_text++) {
		uintptr_t a = (uintptr_t) p;

		cr_assert(tagrv_vma_is_plain(maps, a, a + 4 * PAGE, by_text));
		cr_assert(tagrv_vma_is_plain(maps, a + PAGE, a + 2 * PAGE,
					     by_text));
		cr_assert_not(tagrv_vma_is_plain(maps, a, a + 5 * PAGE,
						 by_text));
		cr_assert_not(tagrv_vma_is_plain(maps, a + 8 * PAGE,
						 a + 9 * PAGE, by_text));
		cr_assert_not(tagrv_vma_is_plain(maps, a + 7 * PAGE,
						 a + 10 * PAGE, by_text));
		cr_assert(tagrv_vma_is_plain(maps, a + 9 * PAGE,
					     a + PAGES * PAGE, by_text));
		a = (uintptr_t) shared;
		cr_assert_not(tagrv_vma_is_plain(maps, a, a + PAGE, by_text));
		a = ((uintptr_t) bss + PAGE - 1) & ~(PAGE - 1);
		cr_assert(tagrv_vma_is_plain(maps, a, a + PAGE, by_text));
		a = (uintptr_t) "read only" & ~(PAGE - 1);
		cr_assert_not(tagrv_vma_is_plain(maps, a, a + PAGE, by_text));
	}
	munmap(p, BYTES);
	munmap(shared, BYTES);
	close(fd);
	close(maps);
}

/* A range has one userfaultfd: that of the application stays. */
Test(monitor, memory_that_others_watch_is_not_kept)
{
	struct uffdio_api api = { .api = UFFD_API };
	char *p = map();
	struct uffdio_register range = {
		.range = { (uintptr_t) p + PAGE, PAGE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd;

	if (!permitted())
		return;
	fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	cr_assert_eq(ioctl(fd, UFFDIO_API, &api), 0);
	cr_assert_eq(ioctl(fd, UFFDIO_REGISTER, &range), 0);
	cr_assert_eq(use(p, BYTES), -1);
	cr_assert_eq(use(p + 4 * PAGE, PAGE), 0);
	cr_assert_eq(ioctl(fd, UFFDIO_UNREGISTER, &range.range), 0,
		     "it still has it");
	cr_assert_eq(use(p, BYTES), 0);
	close(fd);
	finish();
	munmap(p, BYTES);
}

Test(monitor, started_again)
{
	char *p = map();

	for (int i = 0; i < 3; i++) {
		if (!permitted())
			return;
		cr_assert_eq(use(p, BYTES), 0);
		finish();
	}
	munmap(p, BYTES);
}

/* ---- where it is forbidden ---- */

/* As filters of containers do it; the device, of use to root, is none here. */
static void forbid_userfaultfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NEW_UFFD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { TAGRV_ARRAY_SIZE(code), code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

Test(monitor, forbidden)
{
	struct tagrv_monitor *none = NULL;

	forbid_userfaultfd();
	cr_assert_eq(tagrv_monitor_uffd_get(&none, why, sizeof(why)),
		     -FI_EPERM);
	cr_assert_null(none);
	cr_assert(strstr(why, strerror(EPERM)), "%s", why);
}
