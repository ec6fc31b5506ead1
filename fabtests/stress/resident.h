/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory that this process uses, for programs that judge how much it grows.
 */
#ifndef STRESS_RESIDENT_H
#define STRESS_RESIDENT_H

#include "framework/runner.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* With a sanitizer most of the growth is not the provider's. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { JUDGED = 0 };
#else
enum { JUDGED = 1 };
#endif

/*
 * Returns the KiB of memory in use. Allocates nothing: memory that was freed stays in use
 * for long under the address sanitizer, so the memory would grow with every call.
 */
static inline long resident(void)
{
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[100] = "";
	long pages = 0;

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
	      sscanf(text, "%*d %ld", &pages) == 1, "no /proc/self/statm");
	close(fd);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

#endif
