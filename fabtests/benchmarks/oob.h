/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Out-of-band channel between the two processes of a benchmark: addresses and
 * orders travel here, measured data never does.
 */
#ifndef BENCH_OOB_H
#define BENCH_OOB_H

#include <stddef.h>

/* Called over and over while the other side is late. */
typedef void (*oob_idle_fn)(void *arg);

/* Each returns a connected socket or ends the program with a message. */
int oob_accept(const char *port);
int oob_connect(const char *host, const char *port);
void oob_pair(int fd[2]);

/* Whole buffers or the end of the program. */
void oob_send(int fd, const void *buf, size_t len);
void oob_recv(int fd, void *buf, size_t len, oob_idle_fn idle, void *arg);

/* "name of the program: message" on standard error, then exit status 1. */
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The value of an option, or bench_die() if that is no number from min to max. */
double bench_number(const char *text, const char *what, double min, double max);

#endif
