/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads of the provider.
 */
#ifndef TAGRV_CORE_THREAD_H
#define TAGRV_CORE_THREAD_H

#include <pthread.h>
#include <signal.h>

/*
 * Starts a thread with a name of at most 15 characters. Signals are the
 * application's: none is delivered to it. 0 or -errno.
 */
static inline int tagrv_thread_start(pthread_t *thread, const char *name,
				     void *(*fn)(void *arg), void *arg)
{
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!ret)
		pthread_setname_np(*thread, name);
	return -ret;
}

#endif
