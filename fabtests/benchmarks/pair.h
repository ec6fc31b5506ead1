/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes of this host that measure together.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

/*
 * Calls be() in this process with who = 0, and in a child, which ends with this
 * one, with who = 1; each has its end of an out-of-band channel (oob.h) and
 * closes it. Returns the exit status for main.
 */
int pair_run(void (*be)(const void *arg, int who, int oob), const void *arg);

/* To the first or second of the processors we may use, by 'who'. */
void pair_pin(int who);

#endif
