/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that the monitor over userfaultfd cannot watch is not kept in the cache;
 * and systems where userfaultfd is forbidden.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "reg/monitor_vma.h"
#include "unit/reg/monitor_fixture.h"

/* Constants that older headers lack. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB	(21 << 26)
#endif
#define NEW_UFFD	_IO(0xAA, 0x00)	/* ioctl of /dev/userfaultfd */

TestSuite(monitor_vma, .timeout = 60);

Test(monitor_vma, memory_of_files_and_segments_is_not_kept)
{
	int fd = memfd_create("tagrv", 0);
	char *shared, *private, *segment;
	int id;

	if (!watch_start())
		return;
	cr_assert_eq(ftruncate(fd, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	cr_assert_eq(watch_use(shared, BYTES), -1);
	cr_assert_eq(watch_use(private, BYTES), -1);
	id = shmget(IPC_PRIVATE, BYTES, 0600);
	cr_assert_geq(id, 0);
	segment = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	cr_assert_eq(watch_use(segment, BYTES), -1);
	shmdt(segment);
	cr_assert_eq(reg_device.made, 0);
	munmap(shared, BYTES);
	munmap(private, BYTES);
	close(fd);
	watch_end();
}

Test(monitor_vma, holes_and_read_only_memory_are_not_kept)
{
	char *p = map_pages();

	if (!watch_start())
		return;
	mprotect(p + 4 * PAGE, PAGE, PROT_READ);
	munmap(p + 8 * PAGE, PAGE);
	cr_assert_eq(watch_use(p, 5 * PAGE), -1);
	cr_assert_eq(watch_use(p + 6 * PAGE, 4 * PAGE), -1);
	cr_assert_eq(watch_use(p, 4 * PAGE), 0);
	cr_assert_eq(watch_use(p + 9 * PAGE, 2 * PAGE), 0);
	watch_end();
	munmap(p, BYTES);
}

/* Whether /proc/self/maps, as it was opened then, tells of memory that was mapped since. */
static bool tells_of(int maps, const char *p)
{
	static char text[1 << 17] = "\n";
	char begin[32];
	size_t len = 1;
	ssize_t got;

	cr_assert_eq(lseek(maps, 0, SEEK_SET), 0);
	while ((got = read(maps, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t) got;
	text[len] = '\0';
	snprintf(begin, sizeof(begin), "\n%lx-", (long) p);
	return strstr(text, begin) != NULL;
}

/* Huge pages are only mapped, not used: a host may have none that are free. */
#define HUGE	((size_t) 2 << 20)

static char *map_huge_at(void *addr, size_t len)
{
	return mmap(addr, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB |
		    MAP_NORESERVE | (addr ? MAP_FIXED : 0), -1, 0);
}

/* As watch_use(), but touches nothing. */
static int watch_use_huge(void *addr, size_t len)
{
	size_t made = reg_device.made;
	struct tagrv_mem *mem;
	int ret;

	reg_device.identity = NULL;
	ret = tagrv_regcache_get(watch.cache, addr, len, 0, &mem);
	if (ret)
		return -1;
	tagrv_regcache_put(mem);
	return reg_device.made == made;
}

/* Linux 5.19 and later watch huge pages; this asks the kernel, not the monitor. */
static bool kernel_watches_huge(char *p)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t) p, HUGE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	bool watches = !ioctl(fd, UFFDIO_API, &api) &&
		       !ioctl(fd, UFFDIO_REGISTER, &range);

	close(fd);
	return watches;
}

/* Parts of huge pages are kept, until their pages are unmapped, emptied or mapped anew. */
Test(monitor_vma, huge_pages_are_kept)
{
	char *p = map_huge_at(NULL, 4 * HUGE);
	bool watched;

	if (p == MAP_FAILED || !watch_start())
		return;
	watched = kernel_watches_huge(p);
	cr_assert_eq(watch_use_huge(p + PAGE, PAGE), watched ? 0 : -1);
	if (!watched)
		return;
	cr_assert_eq(watch_use_huge(p + PAGE, PAGE), 1);
	cr_assert_eq(watch_use_huge(p + HUGE - PAGE, HUGE + 2 * PAGE), 0);
	cr_assert_eq(watch_use_huge(p + 3 * HUGE, HUGE), 0);
	/* What no region has a byte of may be unwatched; the rest stays watched. */
	cr_assert_eq(madvise(p + 3 * HUGE, HUGE, MADV_DONTNEED), 0);
	cr_assert_eq(watch_use_huge(p + 3 * HUGE, HUGE), 0);
	cr_assert_eq(watch_use_huge(p + HUGE, PAGE), 1);
	munmap(p + 2 * HUGE, HUGE);
	cr_assert_eq(watch_use_huge(p + PAGE, PAGE), 1);
	cr_assert_eq(watch_use_huge(p + HUGE, PAGE), 0, "it had a page of what is gone");
	cr_assert_neq(map_huge_at(p + 2 * HUGE, HUGE), MAP_FAILED);
	cr_assert_eq(watch_use_huge(p + 2 * HUGE, PAGE), 0);
	cr_assert_eq(mmap(p, HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
	cr_assert_eq(watch_use_huge(p + PAGE, PAGE), 0);
	cr_assert_eq(watch_use_huge(p + HUGE - PAGE, 2 * PAGE), -1, "of two kinds");
	watch_end();
}

/* Other processes can punch holes into what is shared, or into a file, unseen. */
Test(monitor_vma, huge_pages_of_files_and_shared_ones_are_not_kept)
{
	int fd = memfd_create("anon_hugepage", MFD_HUGETLB);
	char *p = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);

	if (!watch_start())
		return;
	if (p != MAP_FAILED)
		cr_assert_eq(watch_use_huge(p, PAGE), -1);
	p = fd < 0 ? MAP_FAILED : mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	if (p != MAP_FAILED)
		cr_assert_eq(watch_use_huge(p, PAGE), -1);
	cr_assert_eq(reg_device.made, 0);
	watch_end();
}

/* Whole mappings are told, so that huge pages can be watched. */
static void check_huge(int maps, char *p, bool by_text)
{
	struct tagrv_vma_range range = { (uintptr_t) p + PAGE, (uintptr_t) p + 2 * PAGE };

	cr_assert_eq(tagrv_vma_kind(maps, &range, by_text), TAGRV_VMA_HUGE);
	cr_assert_leq(range.from, (uintptr_t) p);
	cr_assert_geq(range.to, (uintptr_t) p + 2 * HUGE);
	cr_assert_eq(range.from % HUGE, 0);
	cr_assert_eq(range.to % HUGE, 0);
}

Test(monitor_vma, kinds_of_huge_pages)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char *p = map_huge_at(NULL, 2 * HUGE);

	cr_assert_geq(maps, 0);
	if (p == MAP_FAILED)
		return;
	check_huge(maps, p, false);
	check_huge(maps, p, true);
	mprotect(p, HUGE, PROT_READ);
	for (int by_text = 0; by_text < 2; by_text++) {
		struct tagrv_vma_range range = { (uintptr_t) p, (uintptr_t) p + PAGE };

		cr_assert_eq(tagrv_vma_kind(maps, &range, by_text), TAGRV_VMA_OTHER);
		cr_assert_eq(range.to, (uintptr_t) p + PAGE, "unchanged");
	}
	close(maps);
}

static bool is_plain(int maps, uintptr_t from, uintptr_t to, bool by_text)
{
	struct tagrv_vma_range range = { from, to };

	return tagrv_vma_kind(maps, &range, by_text) == TAGRV_VMA_PLAIN;
}

/* Both ways of asking the kernel give the same answers. */
Test(monitor_vma, kinds_of_memory)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int fd = memfd_create("tagrv", 0);
	char *p = map_pages(), *shared;
	static char bss[3 << 16];	/* two whole pages of up to 64 KiB */

	cr_assert_geq(maps, 0);
	if (!tells_of(maps, p))
		cr_skip_test("/proc/self/maps stays as it was when it was opened");
	cr_assert_eq(ftruncate(fd, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mprotect(p + 4 * PAGE, PAGE, PROT_READ);
	munmap(p + 8 * PAGE, PAGE);
	/* Splits the mapping: another one of the same kind follows directly. */
	madvise(p + 2 * PAGE, PAGE, MADV_DONTFORK);
	memset(bss, 1, sizeof(bss));
	for (int by_text = 0; by_text < 2; by_text++) {
		uintptr_t a = (uintptr_t) p;

		cr_assert(is_plain(maps, a, a + 4 * PAGE, by_text));
		cr_assert(is_plain(maps, a + PAGE, a + 2 * PAGE,
					     by_text));
		cr_assert_not(is_plain(maps, a, a + 5 * PAGE,
						 by_text));
		cr_assert_not(is_plain(maps, a + 8 * PAGE,
						 a + 9 * PAGE, by_text));
		cr_assert_not(is_plain(maps, a + 7 * PAGE,
						 a + 10 * PAGE, by_text));
		cr_assert(is_plain(maps, a + 9 * PAGE,
					     a + PAGES * PAGE, by_text));
		a = (uintptr_t) shared;
		cr_assert_not(is_plain(maps, a, a + PAGE, by_text));
		a = ((uintptr_t) bss + PAGE - 1) & ~(PAGE - 1);
		cr_assert(is_plain(maps, a, a + PAGE, by_text));
		a = (uintptr_t) "read only" & ~(PAGE - 1);
		cr_assert_not(is_plain(maps, a, a + PAGE, by_text));
	}
	munmap(p, BYTES);
	munmap(shared, BYTES);
	close(fd);
	close(maps);
}

/* A range can have one userfaultfd: that of the application stays. */
Test(monitor_vma, memory_that_others_watch_is_not_kept)
{
	struct uffdio_api api = { .api = UFFD_API };
	char *p = map_pages();
	struct uffdio_register range = {
		.range = { (uintptr_t) p + PAGE, PAGE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd;

	if (!watch_start())
		return;
	fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	cr_assert_eq(ioctl(fd, UFFDIO_API, &api), 0);
	cr_assert_eq(ioctl(fd, UFFDIO_REGISTER, &range), 0);
	cr_assert_eq(watch_use(p, BYTES), -1);
	cr_assert_eq(watch_use(p + 4 * PAGE, PAGE), 0);
	cr_assert_eq(ioctl(fd, UFFDIO_UNREGISTER, &range.range), 0,
		     "the application's userfaultfd is still registered");
	cr_assert_eq(watch_use(p, BYTES), 0);
	close(fd);
	watch_end();
	munmap(p, BYTES);
}

/* ---- choice ---- */

/* scripts/hooks has the library; this program has not. */
Test(monitor_vma, monitors_by_name)
{
	struct tagrv_monitor *none = NULL;

	cr_assert_eq(tagrv_monitor_get("patch", &none, watch.why, sizeof(watch.why)),
		     -FI_EINVAL);
	cr_assert(strstr(watch.why, "'patch'"), "%s", watch.why);
	cr_assert_eq(tagrv_monitor_get("hooks", &none, watch.why, sizeof(watch.why)),
		     -FI_ENOSYS);
	cr_assert(strstr(watch.why, "LD_PRELOAD"), "%s", watch.why);
	cr_assert_null(none);
}

/* ---- where it is forbidden ---- */

/* As the filters of containers do. Also forbids /dev/userfaultfd, which root could use. */
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

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		cr_skip_test("the kernel takes no filter of system calls");
}

/* The count of changes under way, without which no kept registration may be used. */
Test(monitor_vma, kernels_that_count_changes)
{
	cr_expect(tagrv_monitor_release_is("5.15.0-91-generic", 5, 15));
	cr_expect(tagrv_monitor_release_is("6.1.0-18-amd64", 5, 15));
	cr_expect_not(tagrv_monitor_release_is("5.14.0-362.el9.x86_64", 5, 15));
	cr_expect_not(tagrv_monitor_release_is("4.18.0-513.el8.x86_64", 5, 15));
	cr_expect_not(tagrv_monitor_release_is("linux", 5, 15));
}

Test(monitor_vma, forbidden)
{
	struct tagrv_monitor *none = NULL;

	forbid_userfaultfd();
	cr_assert_eq(tagrv_monitor_uffd_get(&none, watch.why, sizeof(watch.why)),
		     -FI_EPERM);
	cr_assert_null(none);
	cr_assert(strstr(watch.why, strerror(EPERM)), "%s", watch.why);
	/* The reason of userfaultfd, though there are no hooks either. */
	cr_assert_eq(tagrv_monitor_get("auto", &none, watch.why, sizeof(watch.why)),
		     -FI_EPERM);
	cr_assert_null(none);
	cr_assert(strstr(watch.why, strerror(EPERM)), "%s", watch.why);
}
