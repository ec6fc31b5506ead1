/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libtagrv-hooks.so, for LD_PRELOAD: stands in front of the calls of libc that take memory
 * away, and tells the monitor of reg/monitor_hooks.c.
 *
 *   munmap(p, n)   forget what is known of it
 *                  changing++ --> the call itself --> changed(p, p + n) --> changing--
 *
 * libc takes memory away by itself, too: free() and the end of a thread unmap by calls
 * inside of libc, which nobody can stand in front of. So only such memory is known of which
 * libc has no idea, or which it is told to leave alone:
 *
 *   mmap     private memory without a file that came by a call to mmap here. What libc
 *            maps for itself (arenas, stacks) does not come here, and is never known
 *   heap     what lies between the break of now and that of the beginning. malloc is told
 *            never to give any of it back, and to map no blocks of their own
 *
 * Nothing here allocates: the callers may be allocators.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/interval.h"
#include "reg/hooks.h"

#define EXPORT		__attribute__((visibility("default")))
#define RANGES		8192	/* mappings that can be known */

/* glibc's own names of these two. */
void *__sbrk(intptr_t by);
int __libc_mallopt(int what, int value);

/* ---- system calls ---- */

/* syscall(2) stands in front of itself here, so these are made without it. */
static long system_call(long nr, const long a[6])
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a[0];
	register long x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2];
	register long x3 __asm__("x3") = a[3];
	register long x4 __asm__("x4") = a[4];
	register long x5 __asm__("x5") = a[5];

	__asm__ volatile("svc 0" : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "configure builds this library for x86_64 and aarch64 only"
#endif
}

static long checked(long ret)
{
	if (ret >= -4095 && ret < 0) {
		errno = (int) -ret;
		return -1;
	}
	return ret;
}

#define CALL(nr, ...)	checked(system_call(nr, (const long[6]) { __VA_ARGS__ }))
#define L(x)		((long) (x))

static uintptr_t page_end(uintptr_t to)
{
	uintptr_t in_page = (uintptr_t) getpagesize() - 1;

	return (to + in_page) & ~in_page;
}

/* The end of a range in whole pages; what no process can have is taken for empty. */
static uintptr_t end_of(uintptr_t from, size_t len)
{
	return len < UINTPTR_MAX / 4 && from < UINTPTR_MAX / 2 ? page_end(from + len) : from;
}

/* ---- what is known ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;	/* of what follows */
static struct tagrv_intervals known;
static struct tagrv_interval nodes[RANGES], *free_nodes[RANGES];
static size_t nodes_used, free_cnt;
static _Atomic uintptr_t heap_from = UINTPTR_MAX;	/* UINTPTR_MAX: not known */

static struct tagrv_interval *take_node(void)
{
	if (free_cnt)
		return free_nodes[--free_cnt];
	return nodes_used < RANGES ? &nodes[nodes_used++] : NULL;
}

/* Mutex held. Without a node the range stays unknown, and is not kept registered. */
static void add(uintptr_t from, uintptr_t to)
{
	struct tagrv_interval *node = from < to ? take_node() : NULL;

	if (!node)
		return;
	*node = (struct tagrv_interval) { .from = from, .to = to };
	tagrv_interval_insert(&known, node);
}

/* Ranges never overlap; what is left of them on both sides stays known. Mutex held. */
static void forget_locked(uintptr_t from, uintptr_t to)
{
	struct tagrv_interval *node;

	while ((node = tagrv_interval_overlap(&known, from, to))) {
		uintptr_t first = node->from, last = node->to;

		tagrv_interval_remove(&known, node);
		free_nodes[free_cnt++] = node;
		add(first, from);
		add(to, last);
	}
}

/* Whoever makes a hole into the heap may fill it with anything: it is given up. */
static void forget(uintptr_t from, uintptr_t to)
{
	if (to > atomic_load(&heap_from) && from < (uintptr_t) __sbrk(0))
		atomic_store(&heap_from, UINTPTR_MAX);
	pthread_mutex_lock(&mutex);
	forget_locked(from, to);
	pthread_mutex_unlock(&mutex);
}

/* Together with known neighbours, since what is registered may span two mappings. */
static void remember(uintptr_t from, uintptr_t to)
{
	struct tagrv_interval *node;

	pthread_mutex_lock(&mutex);
	forget_locked(from, to);
	while ((node = tagrv_interval_overlap(&known, from - 1, to + 1))) {
		from = node->from < from ? node->from : from;
		to = node->to > to ? node->to : to;
		tagrv_interval_remove(&known, node);
		free_nodes[free_cnt++] = node;
	}
	add(from, to);
	pthread_mutex_unlock(&mutex);
}

static bool is_mapped_here(uintptr_t from, uintptr_t to)
{
	bool yes;

	pthread_mutex_lock(&mutex);
	yes = tagrv_interval_cover(&known, from, to) != NULL;
	pthread_mutex_unlock(&mutex);
	return yes;
}

static bool is_known(uintptr_t from, uintptr_t to)
{
	return (from >= atomic_load(&heap_from) && to <= (uintptr_t) __sbrk(0)) ||
	       is_mapped_here(from, to);
}

EXPORT struct tagrv_hooks tagrv_hooks_1 = { .is_known = is_known };

/* ---- telling ---- */

static void begin(void)
{
	atomic_fetch_add(&tagrv_hooks_1.changing, 1);
}

static void tell(uintptr_t from, uintptr_t to)
{
	void (*changed)(uintptr_t from, uintptr_t to) = atomic_load(&tagrv_hooks_1.changed);

	if (changed)
		changed(from, to);
}

static void end(void)
{
	atomic_fetch_sub(&tagrv_hooks_1.changing, 1);
}

/* ---- calls ---- */

EXPORT int munmap(void *addr, size_t len)
{
	uintptr_t from = (uintptr_t) addr, to = end_of(from, len);
	int ret;

	begin();
	forget(from, to);
	ret = (int) CALL(SYS_munmap, L(addr), L(len));
	tell(from, to);
	end();
	return ret;
}

/*
 * MAP_FIXED takes away what is there. Huge pages are not known, because other calls change
 * more of them than they say.
 */
EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	const int plain = MAP_PRIVATE | MAP_ANONYMOUS;
	/* Old kernels take MAP_FIXED_NOREPLACE for MAP_FIXED, if both are given. */
	bool fixed = flags & MAP_FIXED;
	uintptr_t from = (uintptr_t) addr, to = end_of(from, len);
	void *p;

	if (fixed) {
		begin();
		forget(from, to);
	}
	p = (void *) CALL(SYS_mmap, L(addr), L(len), prot, flags, fd, L(off));
	if (p != MAP_FAILED && (flags & (MAP_TYPE | MAP_ANONYMOUS)) == plain &&
	    !(flags & (MAP_GROWSDOWN | MAP_HUGETLB)))
		remember((uintptr_t) p, end_of((uintptr_t) p, len));
	if (fixed) {
		tell(from, to);
		end();
	}
	return p;
}

EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t off)
	__attribute__((alias("mmap")));

EXPORT void *mremap(void *addr, size_t len, size_t new_len, int flags, ...)
{
	uintptr_t from = (uintptr_t) addr, to = end_of(from, len);
	bool was_known = len && is_mapped_here(from, to);
	uintptr_t at = 0, at_end;
	va_list args;
	void *p;

	if (flags & MREMAP_FIXED) {
		va_start(args, flags);
		at = (uintptr_t) va_arg(args, void *);
		va_end(args);
	}
	at_end = end_of(at, new_len);
	begin();
	forget(from, to);
	if (at)
		forget(at, at_end);
	p = (void *) CALL(SYS_mremap, L(addr), L(len), L(new_len), flags, L(at));
	if (p != MAP_FAILED && was_known)
		remember((uintptr_t) p, end_of((uintptr_t) p, new_len));
	tell(from, to);
	if (at)
		tell(at, at_end);
	end();
	return p;
}

/* Whether the pages stay as they are. An advice of the future may do anything. */
static bool is_harmless(int advice)
{
	switch (advice) {
	case MADV_NORMAL: case MADV_RANDOM: case MADV_SEQUENTIAL: case MADV_WILLNEED:
	case MADV_DONTFORK: case MADV_DOFORK: case MADV_HUGEPAGE: case MADV_NOHUGEPAGE:
	case MADV_DONTDUMP: case MADV_DODUMP: case MADV_COLD: case MADV_PAGEOUT:
	case MADV_WIPEONFORK: case MADV_KEEPONFORK:
		return true;
	default:
		return false;
	}
}

EXPORT int madvise(void *addr, size_t len, int advice)
{
	uintptr_t from = (uintptr_t) addr;
	int ret;

	if (is_harmless(advice))
		return (int) CALL(SYS_madvise, L(addr), L(len), advice);
	begin();
	ret = (int) CALL(SYS_madvise, L(addr), L(len), advice);
	tell(from, end_of(from, len));
	end();
	return ret;
}

/* The break can only be trusted as long as it goes up. */
EXPORT void *sbrk(intptr_t by)
{
	void *p;

	if (by >= 0)
		return __sbrk(by);
	begin();
	p = __sbrk(by);
	tell((uintptr_t) __sbrk(0), UINTPTR_MAX);
	end();
	return p;
}

EXPORT int brk(void *to)
{
	return sbrk((intptr_t) to - (intptr_t) __sbrk(0)) == (void *) -1 ? -1 : 0;
}

/* A call that may take away anything, in the form of syscall(2). */
static long call_any(long nr, const long a[6])
{
	long ret;

	begin();
	ret = checked(system_call(nr, a));
	tell(0, UINTPTR_MAX);
	end();
	return ret;
}

EXPORT void *shmat(int id, const void *addr, int flags)
{
	const long a[6] = { id, L(addr), flags };

	if (!(flags & SHM_REMAP))
		return (void *) checked(system_call(SYS_shmat, a));
	/* Its length is not known here. */
	forget(0, UINTPTR_MAX);
	return (void *) call_any(SYS_shmat, a);
}

EXPORT long syscall(long nr, ...)
{
	long a[6];
	va_list args;

	va_start(args, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	switch (nr) {
	case SYS_munmap:
		return munmap((void *) a[0], (size_t) a[1]);
	case SYS_mmap:
		return (long) mmap((void *) a[0], (size_t) a[1], (int) a[2], (int) a[3],
				   (int) a[4], a[5]);
	case SYS_mremap:
		return (long) mremap((void *) a[0], (size_t) a[1], (size_t) a[2], (int) a[3],
				     (void *) a[4]);
	case SYS_madvise:
		return madvise((void *) a[0], (size_t) a[1], (int) a[2]);
	case SYS_shmat:
		return (long) shmat((int) a[0], (void *) a[1], (int) a[2]);
	case SYS_brk:
#ifdef SYS_process_madvise
	case SYS_process_madvise:
#endif
		return call_any(nr, a);
	default:
		return checked(system_call(nr, a));
	}
}

#ifdef SYS_process_madvise
EXPORT ssize_t process_madvise(int pidfd, const struct iovec *iov, size_t cnt, int advice,
			       unsigned flags)
{
	const long a[6] = { pidfd, L(iov), L(cnt), advice, flags };

	return call_any(SYS_process_madvise, a);
}
#endif

/* ---- malloc ---- */

/* Never gives heap back, and maps no blocks: those would be unmapped inside of libc. */
static void tame_malloc(void)
{
	__libc_mallopt(M_TRIM_THRESHOLD, -1);
	__libc_mallopt(M_MMAP_MAX, 0);
}

EXPORT int mallopt(int what, int value)
{
	return what == M_TRIM_THRESHOLD ? 1 : __libc_mallopt(what, value);
}

EXPORT int malloc_trim(size_t pad)
{
	int (*next)(size_t pad) = (int (*)(size_t)) (uintptr_t) dlsym(RTLD_NEXT, "malloc_trim");
	int ret;

	if (!next)
		return 0;
	begin();
	ret = next(pad);
	tell(0, UINTPTR_MAX);
	end();
	return ret;
}

/* ---- begin, fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

/* Calls of other threads that were under way do not exist in the child. */
static void after_fork_child(void)
{
	pthread_mutex_unlock(&mutex);
	atomic_store(&tagrv_hooks_1.changed, NULL);
	atomic_store(&tagrv_hooks_1.changing, 0);
}

__attribute__((constructor)) static void start(void)
{
	tame_malloc();
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	atomic_store(&heap_from, page_end((uintptr_t) __sbrk(0)));
}
