/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two hosts: the server, and the client's session with it.
 *
 *   client                     server
 *     | hello SESSION ---------->|  waits for one; strangers and other versions are sent away
 *     |<-- OPENED, host's name --|
 *     | hello FOLLOW ----------->|  each further connection with the number of the session gets a
 *     |   ...                    |  follower of its own, and is its out-of-band socket
 *     | closes ----------------->|  waits for the followers, and ends
 */
#ifndef PERF_SERVE_H
#define PERF_SERVE_H

#include <stdint.h>

#include "perf.h"

/* Serves one client; returns the exit status. */
int serve(const struct perf_options *opt);

/*
 * Connects to the server of the options and keeps the connection until the program ends.
 * Returns the number of the session; name: gets the server's host name, of at most 64 bytes.
 */
uint64_t serve_session(const struct perf_options *opt, char name[65]);

#endif
