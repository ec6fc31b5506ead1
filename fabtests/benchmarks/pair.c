/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes of this host: see pair.h.
 */
#include "pair.h"
#include "measure.h"
#include "oob.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void pair_pin(int who)
{
	if (!measure_pin(who))
		bench_die("--pin wants two processors");
}

int pair_run(void (*be)(const void *arg, int who, int oob), const void *arg)
{
	int fd[2], status;
	pid_t child;

	oob_pair(fd);
	fflush(stdout);
	child = fork();
	if (child < 0)
		bench_die("cannot fork");
	if (child == 0) {
		/* The child must not outlive this process. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		be(arg, 1, fd[1]);
		exit(EXIT_SUCCESS);
	}
	close(fd[1]);
	be(arg, 0, fd[0]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? EXIT_SUCCESS : EXIT_FAILURE;
}
