/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inside of the wireup thread.
 *
 *   wireup.c        the thread's loop, commands, watched descriptors
 *   wireup_ep.c     endpoints: listener, queue of events
 *   wireup_peer.c   table of peers; joins their conn.c machines to sockets
 *   wireup_sock.c   sockets: records in and out, strangers, closing in order
 *   wireup_net.c    socket calls      wireup_timer.c  heap of timers
 *
 * Only the thread touches what is not marked otherwise. Nothing is freed while
 * a batch of epoll events is being handled, because one that comes later may
 * still point to it: closed sockets wait on 'dead' until the batch is done, and
 * commands, which free the rest, run after it.
 */
#ifndef TAGRV_WIREUP_WIREUP_PRIV_H
#define TAGRV_WIREUP_WIREUP_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "wireup/conn.h"
#include "wireup/wireup.h"
#include "wireup/wireup_rec.h"
#include "wireup/wireup_timer.h"

struct tagrv_wireup_peer;

/* What an epoll event points to; first member of its owner. */
enum tagrv_wireup_source {
	TAGRV_WIREUP_COMMANDS,	/* struct tagrv_wireup::commands */
	TAGRV_WIREUP_LISTENER,	/* struct tagrv_wireup_ep::listener */
	TAGRV_WIREUP_SOCK,	/* struct tagrv_wireup_sock::source */
	TAGRV_WIREUP_WATCH,	/* struct watch::source in wireup.c */
};

enum tagrv_wireup_cmd {
	TAGRV_WIREUP_CONNECT,	/* event.addr */
	TAGRV_WIREUP_DROP,	/* event.addr, event.epoch */
	TAGRV_WIREUP_LISTEN,	/* the rest: struct sync in wireup.c */
	TAGRV_WIREUP_UNLISTEN,
	TAGRV_WIREUP_WATCH_FD,
	TAGRV_WIREUP_UNWATCH_FD,
	TAGRV_WIREUP_STOP,
};

/* One command or event; a command may travel back as the event it led to. */
struct tagrv_wireup_msg {
	struct tagrv_list node;
	enum tagrv_wireup_cmd cmd;
	struct tagrv_wireup_ep *wep;
	struct tagrv_wireup_event event;
};

struct tagrv_wireup {
	enum tagrv_wireup_source commands;
	int	epfd;
	int	cmd_fd;			/* eventfd: the command list has some */
	pthread_t thread;

	pthread_mutex_t mutex;		/* of the two below */
	pthread_cond_t done;		/* a synchronous command is */
	struct tagrv_list cmds;

	uint64_t now;			/* ms, when epoll_wait returned */
	struct tagrv_wireup_timers timers;
	struct tagrv_list dials;	/* peers waiting for a dial slot */
	unsigned dialing;		/* slots in use */
	struct tagrv_list lingers;	/* sockets that only flush and close */
	struct tagrv_list dead;		/* sockets to be freed after the batch */
	struct tagrv_list watches;
	size_t	socks;			/* open sockets of all endpoints */
	size_t	sock_cap;		/* beyond it none is kept for long */
	uint64_t stop_by;		/* end at the latest; 0: go on */
};

struct tagrv_wireup_ep {
	enum tagrv_wireup_source listener;
	int	fd;
	struct tagrv_wireup *wireup;
	struct tagrv_wireup_attr attr;
	struct tagrv_addr name;		/* constant; any thread */
	struct tagrv_conn_host host;
	struct tagrv_wireup_peer *peers;	/* hash by address */
	struct tagrv_list socks;
	unsigned half_open;		/* sockets without a first record */
	struct tagrv_wireup_timer resume;	/* of accepting */
	struct tagrv_wireup_timer ticker;
	bool	paused;			/* listener not polled */
	bool	told_stranger;		/* each is logged once */
	bool	told_version;
	bool	told_unkept;
	bool	told_files;
	unsigned long strangers;

	pthread_mutex_t mutex;		/* of the lists below; any thread */
	struct tagrv_list events;
	struct tagrv_list spares;	/* one per UP polled, for its drop */
	struct tagrv_wireup_msg *tick;	/* for the next TICK; NULL: queued */
	atomic_size_t event_cnt;
};

enum tagrv_wireup_sock_state {
	TAGRV_WIREUP_CONNECTING,	/* dialed, not writable yet */
	TAGRV_WIREUP_OPEN,
	TAGRV_WIREUP_LINGER,	/* sends what is left, waits for the peer's end */
	TAGRV_WIREUP_DEAD,	/* closed, awaits the end of the batch */
};

/*
 * owner: its endpoint's list, from LINGER on the thread. size: the receive
 * buffer, so that a record is read only when all of it is there.
 */
struct tagrv_wireup_sock {
	enum tagrv_wireup_source source;
	enum tagrv_wireup_sock_state state;
	struct tagrv_chan chan;
	struct tagrv_wireup *wireup;
	struct tagrv_wireup_ep *wep;	/* NULL from LINGER on */
	struct tagrv_list node;
	struct tagrv_wireup_timer timer;	/* first record; linger */
	struct tagrv_addr addr;		/* of the other end of the socket */
	int	fd;
	bool	half_open;		/* counted in wep->half_open */
	bool	slot;			/* counted in wireup->dialing */
	uint8_t	*tx;			/* what the kernel would not take */
	size_t	tx_len;
	size_t	rx_len;
	uint8_t	rx[TAGRV_WIREUP_REC_MAX];
};

/* -- wireup.c ------------------------------------------------------------ */

/* Hands a command to the thread; any other thread. */
void tagrv_wireup_push(struct tagrv_wireup *wireup,
		       struct tagrv_wireup_msg *msg);
/* Has the thread run one of the synchronous commands; not from within it. */
int tagrv_wireup_call(struct tagrv_wireup *wireup, enum tagrv_wireup_cmd cmd,
		      struct tagrv_wireup_ep *wep);

/* -- wireup_ep.c --------------------------------------------------------- */

int tagrv_wireup_ep_start(struct tagrv_wireup_ep *wep);
void tagrv_wireup_ep_stop(struct tagrv_wireup_ep *wep);
/* Gives the message to the engine. */
void tagrv_wireup_emit(struct tagrv_wireup_ep *wep,
		       struct tagrv_wireup_msg *msg);

/* -- wireup_sock.c ------------------------------------------------------- */

void tagrv_wireup_sock_accept(struct tagrv_wireup_ep *wep);
/* NULL: status tells why (-FI_E*). */
struct tagrv_wireup_sock *tagrv_wireup_sock_dial(struct tagrv_wireup_ep *wep,
						 const struct tagrv_addr *addr,
						 int *status);
void tagrv_wireup_sock_event(struct tagrv_wireup_sock *sock, uint32_t events);
void tagrv_wireup_sock_send(struct tagrv_wireup_sock *sock,
			    const struct tagrv_wireup_rec *rec);
/* Closes once everything sent has been taken, or after a second. */
void tagrv_wireup_sock_hangup(struct tagrv_wireup_sock *sock);
void tagrv_wireup_sock_close(struct tagrv_wireup_sock *sock);
/* Its handshake is over, or failed: others may dial. */
void tagrv_wireup_sock_free_slot(struct tagrv_wireup_sock *sock);
/* It sent what no peer of ours sends. Hangs up. */
void tagrv_wireup_sock_stranger(struct tagrv_wireup_sock *sock);
void tagrv_wireup_sock_resume_accept(struct tagrv_wireup_ep *wep);
/* Frees the dead. */
void tagrv_wireup_sock_bury(struct tagrv_wireup *wireup);

/* -- wireup_peer.c ------------------------------------------------------- */

extern const struct tagrv_conn_ops tagrv_wireup_conn_ops;

/* Both take the message over. */
void tagrv_wireup_peer_connect(struct tagrv_wireup_msg *msg);
void tagrv_wireup_peer_drop(struct tagrv_wireup_msg *msg);
/* Starts waiting dials while there are slots. */
void tagrv_wireup_peer_dial_more(struct tagrv_wireup *wireup);
/* Every connection of the endpoint ends. */
void tagrv_wireup_peer_close_all(struct tagrv_wireup_ep *wep);

/* From a socket: it connected (0) or not, got a record, was lost. */
void tagrv_wireup_peer_dialed(struct tagrv_wireup_sock *sock, int status);
void tagrv_wireup_peer_record(struct tagrv_wireup_sock *sock,
			      struct tagrv_wireup_rec *rec, int status);
void tagrv_wireup_peer_lost(struct tagrv_wireup_sock *sock);

#endif
