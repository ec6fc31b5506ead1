/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes of this host that measure together.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

/*
 * Calls be() in this process with who = 0, and with who = 1 in a child, which is
 * killed when this process ends. Each gets its end of an out-of-band channel (oob.h)
 * and must close it. Returns the exit status for main.
 */
int pair_run(void (*be)(const void *arg, int who, int oob), const void *arg);

/* Pins this process to processor number 'who' of those it may use. */
void pair_pin(int who);

#endif
