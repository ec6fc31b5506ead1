/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Starts the provider's own threads.
 */
#ifndef TAGRV_CORE_THREAD_H
#define TAGRV_CORE_THREAD_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/*
 * Starts a thread that runs fn(arg), with all signals blocked: signals belong to
 * the application's threads. name: at most 15 characters. Returns 0 or -errno;
 * -ENOMEM: there is no memory for a thread, or a limit of threads is reached. The
 * caller joins the thread.
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
	/* As the result of a call, EAGAIN would mean: repeat it. */
	return ret == EAGAIN ? -ENOMEM : -ret;
}

#endif
