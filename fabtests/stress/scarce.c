/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls that fail on purpose, see scarce.h. The linker lets __wrap_f take the calls of
 * f, and __real_f is f.
 */
#include "scarce.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_bool armed;
static atomic_size_t count;
static size_t first, last;	/* numbers of the calls that fail */
static unsigned kinds;		/* that are counted */
static atomic_flag told = ATOMIC_FLAG_INIT;
static char *tell;
static size_t tell_size;
static _Thread_local bool paused;

void scarce_arm(unsigned which, size_t nth, bool for_good)
{
	kinds = which;
	first = nth ? nth : SIZE_MAX;
	last = for_good ? SIZE_MAX - 1 : nth;
	atomic_store(&count, 0);
	atomic_store(&armed, true);
}

size_t scarce_disarm(void)
{
	atomic_store(&armed, false);
	return atomic_load(&count);
}

void scarce_tell(char *text, size_t size)
{
	tell = text;
	tell_size = size;
}

void scarce_pause(bool on)
{
	paused = on;
}

bool scarce_fails(unsigned kind, const char *name, int err)
{
	size_t number;

	if (!atomic_load(&armed) || !(kinds & kind) || paused)
		return false;
	number = atomic_fetch_add(&count, 1) + 1;
	if (number < first || number > last)
		return false;
	if (tell && !atomic_flag_test_and_set(&told))
		snprintf(tell, tell_size, "%s", name);
	errno = err;
	return true;
}

#define NO_MEMORY()	scarce_fails(SCARCE_MEMORY, __func__ + strlen("__wrap_"), ENOMEM)
#define NO_DESCRIPTOR()	scarce_fails(SCARCE_DESCRIPTOR, __func__ + strlen("__wrap_"), EMFILE)

/*
 * WRAP(result, name, (parameters), (arguments), whether it fails, its result then): the
 * function that takes the calls of 'name'.
 */
#define WRAP(type, name, params, args, lacks, none)				\
	type __real_##name params;						\
	type __wrap_##name params;						\
	type __wrap_##name params						\
	{									\
		return (lacks) ? (none) : __real_##name args;			\
	}

/* ---- memory ---- */

WRAP(void *, malloc, (size_t size), (size), NO_MEMORY(), NULL)
WRAP(void *, calloc, (size_t cnt, size_t size), (cnt, size), NO_MEMORY(), NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), NO_MEMORY(), NULL)
WRAP(void *, aligned_alloc, (size_t align, size_t size), (align, size), NO_MEMORY(), NULL)
WRAP(char *, strdup, (const char *text), (text), NO_MEMORY(), NULL)
WRAP(int, getifaddrs, (struct ifaddrs **list), (list), NO_MEMORY(), -1)
WRAP(int, getaddrinfo,
     (const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list),
     (node, service, hints, list), NO_MEMORY(), EAI_MEMORY)

/* ---- mappings and threads ---- */

WRAP(void *, mmap, (void *at, size_t len, int prot, int flags, int fd, off_t offset),
     (at, len, prot, flags, fd, offset), scarce_fails(SCARCE_MAPPING, "mmap", ENOMEM), MAP_FAILED)
WRAP(int, pthread_create,
     (pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg), scarce_fails(SCARCE_THREAD, "pthread_create", EAGAIN), EAGAIN)

/* ---- descriptors ---- */

WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), NO_DESCRIPTOR(), -1)
WRAP(int, accept4, (int sock, struct sockaddr *addr, socklen_t *len, int flags),
     (sock, addr, len, flags), NO_DESCRIPTOR(), -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds),
     NO_DESCRIPTOR(), -1)
WRAP(int, eventfd, (unsigned value, int flags), (value, flags), NO_DESCRIPTOR(), -1)
WRAP(int, epoll_create1, (int flags), (flags), NO_DESCRIPTOR(), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), NO_DESCRIPTOR(), -1)
WRAP(int, timerfd_create, (int clock, int flags), (clock, flags), NO_DESCRIPTOR(), -1)
WRAP(int, pipe2, (int *fds, int flags), (fds, flags), NO_DESCRIPTOR(), -1)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NO_DESCRIPTOR(), NULL)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	unsigned mode = 0;
	va_list args;

	va_start(args, flags);
	if (flags & O_CREAT)
		mode = va_arg(args, unsigned);
	va_end(args);
	return NO_DESCRIPTOR() ? -1 : __real_open(path, flags, mode);
}

/* Descriptors that a message brings, and that find no number, are left out of it. */
static void lose_descriptors(struct msghdr *msg)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
				close(fd);
			}
	msg->msg_controllen = 0;
	msg->msg_flags |= MSG_CTRUNC;
}

ssize_t __real_recvmsg(int sock, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int sock, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int sock, struct msghdr *msg, int flags)
{
	ssize_t ret = __real_recvmsg(sock, msg, flags);

	if (ret >= 0 && msg->msg_controllen && NO_DESCRIPTOR())
		lose_descriptors(msg);
	return ret;
}
