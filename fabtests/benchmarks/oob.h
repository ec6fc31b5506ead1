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

/*
 * Tries for so many seconds, and returns a connected socket or ends the program with a message;
 * what: what to do, for the message.
 */
int oob_connect_for(const char *host, const char *port, double seconds, const char *what);

/* Returns a socket that listens, on IPv6 and IPv4 where the host has both, or ends the program with a message. */
int oob_listen(const char *port, int backlog);
void oob_pair(int fd[2]);

/* Transfer the whole buffer or end the program. */
void oob_send(int fd, const void *buf, size_t len);
void oob_recv(int fd, void *buf, size_t len, oob_idle_fn idle, void *arg);

/* Prints "program: message" on standard error and exits with status 1. */
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* From now on bench_die() calls this instead of printing; it must not return. */
void bench_on_die(void (*die)(const char *text));

/* Returns the value of an option; bench_die() if it is no number from min to max. */
double bench_number(const char *text, const char *what, double min, double max);

#endif
