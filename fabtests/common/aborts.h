/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a call fails an assertion of the provider: tried in a child process.
 * Criterion's own .signal = SIGABRT reports an assertion as a failed test.
 */
#ifndef FABTESTS_COMMON_ABORTS_H
#define FABTESTS_COMMON_ABORTS_H

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool aborts(void (*fn)(void))
{
	int status = 0;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		fn();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
