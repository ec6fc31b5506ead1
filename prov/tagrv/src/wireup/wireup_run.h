/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A call of a peer's state machine in a worker (wireup_crew.h), since it has devices work.
 *
 *   start --> machine --leave--> command --enter--> machine --> ... --> end --> finish
 *                 '                  '                                            '
 *             the worker has     the wireup thread goes on: for all other     what came
 *             the floor          peers as ever, for this peer it keeps what   meanwhile
 *                                comes: the peer is busy                      is handled
 *
 * What is kept while a peer is busy:
 *
 *   commands of the engine   run->msgs
 *   the peer's timer         run->due
 *   a socket's event         the socket is "parked", if it has a job whose turn has come, or
 *                            "stalled": it is not read, after at most one record more
 *
 * So to the machine events come one after the other, as always; no command of a connection is
 * overtaken by another one of it, and nothing that its machine holds on its stack ends.
 * Questions (ASK) and WAIT need no machine, and are answered and sent all the while, but
 * stalled sockets are not read.
 *
 * Only the wireup thread, or who has the floor in its place, touches a field.
 */
#ifndef TAGRV_WIREUP_WIREUP_RUN_H
#define TAGRV_WIREUP_WIREUP_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/list.h"
#include "wireup/conn.h"
#include "wireup/wireup_rec.h"

struct tagrv_wireup;
struct tagrv_wireup_ep;
struct tagrv_wireup_msg;
struct tagrv_wireup_sock;
struct tagrv_wireup_worker;
struct tagrv_xport;

struct tagrv_wireup_run {
	struct tagrv_list node;		/* on wireup->ended */
	struct tagrv_wireup_ep *wep;
	struct tagrv_wireup_worker *worker;
	struct tagrv_wireup_sock *sock;	/* whose event it is; NULL: closed, or no socket's */
	struct tagrv_wireup_rec *rec;	/* NULL: the socket is dialed, or a renewal is due */
	struct tagrv_addr addr;		/* no socket: the peer */
	struct tagrv_list msgs;
	struct tagrv_list socks;	/* parked or stalled */
	bool	due;
	uint64_t begin;			/* ns */
};

/*
 * Runs what the socket has waited with; rec is malloc'ed, or NULL, and belongs to the run from
 * here on. False: there is no worker, and rec is the caller's.
 */
bool tagrv_wireup_run_start(struct tagrv_wireup_sock *sock,
			    struct tagrv_wireup_rec *rec) TAGRV_WARN_UNUSED;
/* Likewise makes the offer of a renewal that is due. */
bool tagrv_wireup_run_offer(struct tagrv_wireup_ep *wep,
			    const struct tagrv_addr *addr) TAGRV_WARN_UNUSED;
/* Those go on whose commands have ended; what has waited for those that end is handled. */
void tagrv_wireup_run_resume(struct tagrv_wireup *wireup);

/* struct tagrv_conn_ops: before and after a command. */
void tagrv_wireup_run_leave(struct tagrv_conn *conn, const struct tagrv_xport *xport);
void tagrv_wireup_run_enter(struct tagrv_conn *conn, const struct tagrv_xport *xport);

/* The run that nothing of this socket may overtake; NULL: there is none. */
struct tagrv_wireup_run *tagrv_wireup_run_of(const struct tagrv_wireup_sock *sock);
/* The socket's job has its turn, but its peer is busy. */
void tagrv_wireup_run_park(struct tagrv_wireup_run *run, struct tagrv_wireup_sock *sock);
/*
 * The socket is not read until its connection can go on, when this record, if any, comes first.
 * run NULL: when its job has run.
 */
void tagrv_wireup_run_stall(struct tagrv_wireup_run *run, struct tagrv_wireup_sock *sock,
			    const struct tagrv_wireup_rec *rec, int status);
/* The socket has ended. True: its peer is busy, so that it has to end later. */
bool tagrv_wireup_run_stalls_end(struct tagrv_wireup_sock *sock);
/* The socket goes on, if nothing is in its way. */
void tagrv_wireup_run_unstall(struct tagrv_wireup_sock *sock);
/* The socket is closed: nothing of it waits or runs. */
void tagrv_wireup_run_forget(struct tagrv_wireup_sock *sock);

/* True: the peer is busy, so that the command is kept. */
bool tagrv_wireup_run_keeps(struct tagrv_conn *conn, struct tagrv_wireup_msg *msg);

#endif
