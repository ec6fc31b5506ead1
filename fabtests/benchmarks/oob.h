/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Out-of-band channel between the two processes of a benchmark, for addresses and
 * orders; measured data does not use it.
 */
#ifndef BENCH_OOB_H
#define BENCH_OOB_H

#include <stddef.h>

/* Called repeatedly while the other side is late. */
typedef void (*oob_idle_fn)(void *arg);

/* Each returns a connected socket or ends the program with a message. */
int oob_accept(const char *port);
int oob_connect(const char *host, const char *port);
void oob_pair(int fd[2]);

/* Transfer the whole buffer or end the program. */
void oob_send(int fd, const void *buf, size_t len);
void oob_recv(int fd, void *buf, size_t len, oob_idle_fn idle, void *arg);

/* Prints "program: message" on standard error and exits with status 1. */
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns the value of an option; bench_die() if it is no number from min to max. */
double bench_number(const char *text, const char *what, double min, double max);

#endif
