/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of the wireup thread.
 *
 *   wireup.c        the thread's loop, commands, watched descriptors
 *   wireup_ep.c     endpoints: listener, queue of events
 *   wireup_peer.c   table of peers; drives their state machines (conn.c)
 *   wireup_act.c    does what such a machine decides; wireup_peer.h: what a peer is
 *   wireup_cmd.c    commands of the engine about peers
 *   wireup_kept.c   closes sockets that connections can do without
 *   wireup_dispatch.c finds the connection that a record is for
 *   wireup_admit.c  what waits until devices have time; wireup_queue.c: in which order
 *   wireup_run.c      state machines in workers, while devices are slow; wireup_crew.c: those
 *   wireup_sock.c   sockets: their states, dialing, orderly close
 *   wireup_accept.c the listener; accepted sockets until they have shown to be peers
 *   wireup_stream.c the bytes of a socket: records in and out
 *   wireup_greet.c  HELLOs: of which job and user the other end is
 *   wireup_near.c   which host a REQ comes from; limits what it can cause
 *   wireup_net.c    socket calls      wireup_timer.c  heap of timers
 *   wireup_clock.c  the time, and how long peers have had us wait
 *
 * Only the thread touches a field, unless the field's comment says otherwise; or a worker
 * that has the floor, while the thread sleeps (wireup_crew.h).
 * Nothing that an epoll event may point to is freed while a batch of epoll events
 * is being handled: closed sockets wait on 'dead' until the batch is done, and
 * commands, which free endpoints and watches, run after the batch.
 */
#ifndef TAGRV_WIREUP_WIREUP_PRIV_H
#define TAGRV_WIREUP_WIREUP_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/addrmap.h"
#include "core/list.h"
#include "wireup/conn.h"
#include "wireup/wireup.h"
#include "wireup/wireup_hello.h"
#include "wireup/wireup_queue.h"
#include "wireup/wireup_rec.h"
#include "wireup/wireup_timer.h"
#include "wireup/wireup_crew.h"
#include "wireup/wireup_run.h"

struct ifaddrs;
struct tagrv_wireup_peer;

/* Type of the object that an epoll event points to; the object's first member. */
enum tagrv_wireup_source {
	TAGRV_WIREUP_COMMANDS,	/* struct tagrv_wireup::commands */
	TAGRV_WIREUP_LISTENER,	/* struct tagrv_wireup_ep::listener */
	TAGRV_WIREUP_SOCK,	/* struct tagrv_wireup_sock::source */
	TAGRV_WIREUP_WATCH,	/* struct watch::source in wireup.c */
};

enum tagrv_wireup_cmd {
	TAGRV_WIREUP_CONNECT,	/* addr */
	TAGRV_WIREUP_DROP,	/* addr, epoch */
	TAGRV_WIREUP_RENEW,	/* the same, down, patience */
	/* The caller of the following ones waits: struct sync in wireup.c. */
	TAGRV_WIREUP_LISTEN,
	TAGRV_WIREUP_UNLISTEN,
	TAGRV_WIREUP_WATCH_FD,
	TAGRV_WIREUP_UNWATCH_FD,
	TAGRV_WIREUP_STOP,
};

/*
 * One command or event. A CONNECT's or RENEW's message is used again for its event, unless
 * that is UP. Short, since two of them are kept for each connection: for its GONE and its DROP.
 */
struct tagrv_wireup_msg {
	struct tagrv_list node;
	struct tagrv_wireup_ep *wep;
	unsigned patience;		/* ms */
	uint8_t	cmd;			/* enum tagrv_wireup_cmd */
	bool	down;
	uint8_t	type;			/* enum tagrv_wireup_event_type */
	int	status;
	uint32_t epoch;
	struct tagrv_addr addr;
};

/* The event UP, with what only it has: see struct tagrv_wireup_event. */
struct tagrv_wireup_up {
	struct tagrv_wireup_msg msg;	/* type: TAGRV_WIREUP_UP */
	uint32_t resumes;
	uint8_t	uuid[TAGRV_UUID_LEN];
	bool	sendable;
	struct tagrv_link *link;
	size_t	max_packet;
	uint64_t features;
};

/*
 * How many descriptors of the process are used, at most: the application needs some,
 * too, whatever strangers do.
 */
struct tagrv_wireup_caps {
	size_t	socks;		/* beyond it, READY connections give up theirs */
	size_t	accepts;	/* beyond it, no connection is accepted */
	unsigned strangers;	/* silent ones; lingering ones; claims */
	unsigned dials;		/* handshakes we started, at a time */
};

struct tagrv_wireup {
	enum tagrv_wireup_source commands;
	int	epfd;
	int	cmd_fd;			/* eventfd: 'cmds' is not empty */
	pthread_t thread;

	pthread_mutex_t mutex;		/* protects cmds and sync.done */
	pthread_cond_t done;		/* some sync.done was set */
	struct tagrv_list cmds;		/* any thread */

	uint64_t now;			/* ms, when the latest event was looked at */
	/*
	 * ms: a clock that runs at a sixteenth of its speed while this thread is busy. By
	 * it peers are judged, which cannot know why we do not answer (wireup_clock.c).
	 */
	uint64_t patient;
	uint64_t clock_ns;		/* what 'now' was made of */
	uint64_t patient_ns;		/* likewise */
	struct tagrv_wireup_timers timers;
	struct tagrv_list dials;	/* peers waiting for a dial slot */
	struct tagrv_list urgent;	/* the same, ahead of those: a claim waits */
	unsigned dialing;		/* slots in use */
	unsigned opening;		/* sockets with this mark */
	struct tagrv_wireup_queue queue;	/* of sockets that have devices work */
	struct tagrv_list tells;	/* those whose peers are told to wait, by time */
	struct tagrv_wireup_crew crew;
	struct tagrv_wireup_run *run;	/* of the worker that has the floor, or NULL */
	struct tagrv_list ended;	/* runs that are to be finished */
	struct tagrv_list lingers;	/* sockets in state LINGER, oldest first */
	unsigned lingering;		/* length of lingers */
	struct tagrv_list silents;	/* accepted, no record yet; oldest first */
	unsigned silent;		/* length of silents */
	struct tagrv_list greeters;	/* accepted, HELLO but no REQ yet; likewise */
	unsigned greeting;		/* length of greeters */
	struct tagrv_list bounds;	/* peers that owe us the RTU, oldest first */
	unsigned bound;			/* length of bounds */
	struct tagrv_list dead;		/* sockets to be freed after the batch */
	struct tagrv_list watches;
	struct ifaddrs *own;		/* this host's addresses; NULL: not read yet */
	uint64_t own_until;		/* ms, read again from then on */
	size_t	socks;			/* open sockets of all endpoints */
	struct tagrv_wireup_caps caps;
	uint64_t stop_by;		/* ms, the thread ends by then; 0: runs on */
};

struct tagrv_wireup_ep {
	enum tagrv_wireup_source listener;
	int	fd;
	struct tagrv_wireup *wireup;
	struct tagrv_wireup_attr attr;
	struct tagrv_addr name;		/* constant; any thread */
	struct tagrv_conn_host host;
	struct tagrv_addrmap peers;
	struct tagrv_list socks;	/* CONNECTING or OPEN */
	struct tagrv_list kept;		/* peers with a spare socket, wireup_kept.c */
	unsigned kept_cnt;		/* length of kept */
	struct tagrv_wireup_timer resume;	/* to accept again */
	struct tagrv_wireup_timer ticker;
	unsigned running;		/* runs that are not finished */
	struct tagrv_wireup_msg *stop;	/* UNLISTEN, which waits for those; or NULL */
	bool	paused;			/* the listener is not polled */
	bool	logged_stranger;	/* each of these lines is logged once */
	bool	logged_version;
	bool	logged_job;
	bool	logged_sockets_closed;
	bool	logged_files;
	unsigned long strangers;	/* sockets closed as strangers */
	uint64_t asked_until;		/* ms, used up by questions (wireup_near.c) */

	pthread_mutex_t mutex;		/* protects what follows; any thread */
	struct tagrv_list events;
	struct tagrv_list spares;	/* a message per UP, for its drop */
	struct tagrv_wireup_msg *tick;	/* for the next TICK; NULL: queued */
	struct tagrv_wireup_msg *crowded;	/* likewise */
	_Atomic uint64_t event_cnt;	/* length of events; read without mutex */
};

enum tagrv_wireup_sock_state {
	TAGRV_WIREUP_CONNECTING,	/* dialed, not writable yet */
	TAGRV_WIREUP_OPEN,
	TAGRV_WIREUP_LINGER,	/* sends stored bytes, waits for the peer's end */
	TAGRV_WIREUP_DEAD,	/* closed, awaits the end of the batch */
};

/*
 * One TCP socket. owner: the list of its endpoint; wireup->lingers from LINGER
 * on. size: 1 KiB of receive buffer, which holds the longest record.
 */
struct tagrv_wireup_sock {
	enum tagrv_wireup_source source;
	enum tagrv_wireup_sock_state state;
	struct tagrv_chan chan;
	struct tagrv_wireup *wireup;
	struct tagrv_wireup_ep *wep;	/* NULL from LINGER on */
	struct tagrv_list node;
	struct tagrv_list wait_node;	/* on wireup->silents or greeters */
	bool	greeted;		/* half-open: on greeters */
	struct tagrv_wireup_timer timer;	/* half-open: first record; LINGER: end;
						   CONNECTING: end of 'opening' */
	struct tagrv_addr addr;		/* of the other end of the socket */
	struct tagrv_hello hello;
	int	fd;
	bool	slot;			/* counted in wireup->dialing */
	bool	opening;		/* dialed, and not handed to a connection yet; but not
					   if it takes long to connect */
	struct tagrv_wireup_job job;	/* on wireup->queue */
	struct tagrv_wireup_rec *held;	/* its record; NULL: the socket is dialed */
	struct tagrv_list tell_node;	/* on wireup->tells */
	uint64_t tell_at;		/* ms */
	struct tagrv_wireup_run *run;	/* that handles what has come here; NULL: none */
	struct tagrv_list stall_node;	/* on run->socks, if its peer is busy */
	bool	parked;			/* its job has its turn, but its peer is busy */
	bool	stalled;		/* it is not read for now */
	int	failed;			/* stalled: it could not be dialed, -FI_E* */
	struct tagrv_wireup_rec *behind;	/* stalled: its next record, or NULL */
	int	behind_status;		/* of it */
	uint8_t	*tx;			/* bytes that the kernel did not take yet */
	size_t	tx_len;
	size_t	rx_len;			/* bytes in rx */
	uint8_t	rx[TAGRV_WIREUP_REC_MAX];
};

/* -- wireup.c ------------------------------------------------------------ */

/* Queues a command for the thread, which owns msg from here on. Any thread. */
void tagrv_wireup_push(struct tagrv_wireup *wireup,
		       struct tagrv_wireup_msg *msg);
/*
 * Queues a command and waits until the thread has run it. Returns its result.
 * Must not be called by the wireup thread.
 */
int tagrv_wireup_call(struct tagrv_wireup *wireup, enum tagrv_wireup_cmd cmd,
		      struct tagrv_wireup_ep *wep);
/* In the thread: runs a command. */
void tagrv_wireup_run_msg(struct tagrv_wireup_msg *msg);

/* -- wireup_clock.c ------------------------------------------------------ */

/* Sets the clocks; the patient one starts with 'now'. */
void tagrv_wireup_clock_init(struct tagrv_wireup *wireup);
/* Reads the clock after the thread has waited, at most 'wait' ms (-1: any time). */
void tagrv_wireup_clock_waited(struct tagrv_wireup *wireup, int wait);
/* Reads the clock after the thread has worked. */
void tagrv_wireup_clock_worked(struct tagrv_wireup *wireup);

/* -- wireup_ep.c --------------------------------------------------------- */

/* In the thread: starts accepting and ticking. 0 or -FI_ENOMEM. */
int tagrv_wireup_ep_start(struct tagrv_wireup_ep *wep);
/* In the thread: closes the listener, all connections and all sockets. */
void tagrv_wireup_ep_stop(struct tagrv_wireup_ep *wep);
/*
 * Queues the event in msg for the engine, which frees msg, and calls attr.kick. spare: of an UP
 * that resumes none: a message for the drop of this connection; else NULL.
 */
void tagrv_wireup_emit(struct tagrv_wireup_ep *wep,
		       struct tagrv_wireup_msg *msg, struct tagrv_wireup_msg *spare);

/* Set what engines see of the message. */
void tagrv_wireup_msg_fill(struct tagrv_wireup_msg *msg,
			   const struct tagrv_wireup_event *event);
void tagrv_wireup_up_fill(struct tagrv_wireup_up *up,
			  const struct tagrv_wireup_event *event);

/* In the thread: reports that a device has no room for a link that is wanted. */
void tagrv_wireup_crowded(struct tagrv_wireup_ep *wep);

/*
 * In the thread: the UP of a renewal takes the place of the one that it goes on from, if
 * the engine has not polled that yet: an engine that does not run, while its peer renews
 * again and again, would have them all. Returns whether it did.
 */
bool tagrv_wireup_replace(struct tagrv_wireup_ep *wep,
			  const struct tagrv_wireup_event *event);

/* -- wireup_sock.c ------------------------------------------------------- */

/*
 * Makes a socket object of the descriptor, which becomes the object's, and polls it
 * for these events. The caller sets its state. NULL: memory or another resource ran
 * out, and fd is still the caller's.
 */
struct tagrv_wireup_sock *tagrv_wireup_sock_create(struct tagrv_wireup_ep *wep,
						   int fd,
						   const struct tagrv_addr *addr,
						   bool dialed, uint32_t events);
/* Creates a socket that is CONNECTING. NULL: failed, *status is -FI_E*. */
struct tagrv_wireup_sock *tagrv_wireup_sock_dial(struct tagrv_wireup_ep *wep,
						 const struct tagrv_addr *addr,
						 int *status);
/* Handles the epoll events of a socket. */
void tagrv_wireup_sock_event(struct tagrv_wireup_sock *sock, uint32_t events);
/* Chooses the epoll events that are reported from now on. */
void tagrv_wireup_sock_poll(struct tagrv_wireup_sock *sock, uint32_t events);
/* Orderly close: LINGER until the peer has read and closed, at most a second. */
void tagrv_wireup_sock_hangup(struct tagrv_wireup_sock *sock);
/* Closes the socket now; it is freed after the batch of epoll events. */
void tagrv_wireup_sock_close(struct tagrv_wireup_sock *sock);
/* The handshake that this socket dialed for is over: another peer may dial. */
void tagrv_wireup_sock_free_slot(struct tagrv_wireup_sock *sock);
/* A dialed socket is handed to its connection, or closed. */
void tagrv_wireup_sock_opened(struct tagrv_wireup_sock *sock);
/* Frees the sockets on wireup->dead. */
void tagrv_wireup_sock_free_dead(struct tagrv_wireup *wireup);

/* -- wireup_accept.c ----------------------------------------------------- */

/* Accepts some connections, and reads what they have sent already. */
void tagrv_wireup_sock_accept(struct tagrv_wireup_ep *wep);
/* Polls the listener again. */
void tagrv_wireup_sock_resume_accept(struct tagrv_wireup_ep *wep);
/* True: an accepted socket that has not sent a REQ yet. */
bool tagrv_wireup_sock_is_half_open(const struct tagrv_wireup_sock *sock);
/* The REQ has come, or the socket is closed. Does nothing if it is not half-open. */
void tagrv_wireup_sock_end_half_open(struct tagrv_wireup_sock *sock);
/* The HELLO on an accepted socket fits: it is silent no more. */
void tagrv_wireup_sock_greeted(struct tagrv_wireup_sock *sock);
/* The time of a half-open socket is over: unless it has sent something, it is reset. */
void tagrv_wireup_sock_late(struct tagrv_wireup_sock *sock);
/* The other end does not speak our protocol: counts it and closes the socket. */
void tagrv_wireup_sock_close_stranger(struct tagrv_wireup_sock *sock);

/* -- wireup_stream.c ----------------------------------------------------- */

/* Sends these bytes, or stores them until the kernel takes them. Cannot fail. */
void tagrv_wireup_sock_put(struct tagrv_wireup_sock *sock, const void *data,
			   size_t len);
/* Seals and sends a record. Cannot fail. */
void tagrv_wireup_sock_send(struct tagrv_wireup_sock *sock,
			    const struct tagrv_wireup_rec *rec);
/* Sends what was stored, as far as the kernel takes it. */
void tagrv_wireup_sock_flush(struct tagrv_wireup_sock *sock);
/* Reads, and handles every whole record; or the socket's end, which closes it. */
void tagrv_wireup_sock_receive(struct tagrv_wireup_sock *sock);
/* Handles the records that were read before the socket was stalled. */
void tagrv_wireup_sock_go_on(struct tagrv_wireup_sock *sock);
/* LINGER: discards input until the other end closes the socket. */
void tagrv_wireup_sock_drain(struct tagrv_wireup_sock *sock);
/* Takes so many bytes out of the receive buffer. */
void tagrv_wireup_sock_take(struct tagrv_wireup_sock *sock, size_t len);

/* -- wireup_greet.c ------------------------------------------------------ */

/* Begins the HELLOs of a new socket; chan.dialed is set. 0 or -FI_E*. */
int tagrv_wireup_greet_init(struct tagrv_wireup_sock *sock) TAGRV_WARN_UNUSED;
/* The dialed socket is connected: sends the HELLO. */
void tagrv_wireup_greet_first(struct tagrv_wireup_sock *sock);
/* The first record has come; its len bytes are at the front of the buffer. */
void tagrv_wireup_greet(struct tagrv_wireup_sock *sock, size_t len);

/* -- wireup_near.c ------------------------------------------------------- */

/*
 * True: the listener's address and the source of a socket are of one host. An address
 * that this host has got or lost within a second may be taken for another host's, or
 * for ours still.
 */
bool tagrv_wireup_is_near(struct tagrv_wireup *wireup,
			  const struct tagrv_addr *listener,
			  const struct tagrv_addr *source);
/* Frees what is_near() has kept. */
void tagrv_wireup_free_own(struct tagrv_wireup *wireup);
/* True: a listener may be dialed to ask it for a REQ; counts the attempt. */
bool tagrv_wireup_may_ask(struct tagrv_wireup_ep *wep, bool near);
/* The listener confirmed the REQ: undoes the counting. */
void tagrv_wireup_asked_well(struct tagrv_wireup_ep *wep, bool near);

/* -- wireup_act.c -------------------------------------------------------- */

extern const struct tagrv_conn_ops tagrv_wireup_conn_ops;

/* Dials for the peers on wireup->dials while there are slots. */
void tagrv_wireup_peer_dial_more(struct tagrv_wireup *wireup);
/*
 * A dialed socket is connected and the peer is of our job (status 0), or not
 * (-FI_E*; closes the socket).
 */
void tagrv_wireup_peer_dialed(struct tagrv_wireup_sock *sock, int status);

/* -- wireup_peer.c ------------------------------------------------------- */

/* Too many sockets: ends connections if many peers owe us the RTU for long. */
void tagrv_wireup_peer_expire(struct tagrv_wireup *wireup);
/* Ends and frees every connection of the endpoint. */
void tagrv_wireup_peer_close_all(struct tagrv_wireup_ep *wep);

/* Begins the endpoint's table of peers. */
void tagrv_wireup_peers_init(struct tagrv_wireup_ep *wep);
/* The connection with the peer that listens there. NULL: there is none. */
struct tagrv_conn *tagrv_wireup_peer_find(struct tagrv_wireup_ep *wep,
					  const struct tagrv_addr *addr);
/*
 * The connection of a REQ that resumes one (dst_epoch is set), by our epoch.
 * NULL: no connection has this epoch, or it is bound to another uuid.
 */
struct tagrv_conn *tagrv_wireup_peer_find_epoch(struct tagrv_wireup_ep *wep,
						const struct tagrv_wireup_rec *rec);
/* Adds a peer, whose connection is IDLE. NULL: no memory. */
struct tagrv_conn *tagrv_wireup_peer_create(struct tagrv_wireup_ep *wep,
					    const struct tagrv_addr *addr);
/*
 * Must follow every call of the state machine. May free the connection, or close
 * its sockets because too many are open.
 */
void tagrv_wireup_peer_settle(struct tagrv_conn *conn);

/* The socket of a connection broke; the caller closes it. */
void tagrv_wireup_peer_lost(struct tagrv_wireup_sock *sock);

/* The connection of the peer whose node on wep->kept this is. */
struct tagrv_conn *tagrv_wireup_peer_of_kept(struct tagrv_list *node);

/* -- wireup_cmd.c -------------------------------------------------------- */

/* Run the commands CONNECT, DROP and RENEW; they own msg from here on. */
void tagrv_wireup_peer_connect(struct tagrv_wireup_msg *msg);
void tagrv_wireup_peer_drop(struct tagrv_wireup_msg *msg);
void tagrv_wireup_peer_renew(struct tagrv_wireup_msg *msg);
/* The turn of a renewal's offer has come. The peer may be gone. */
void tagrv_wireup_peer_offer(struct tagrv_wireup_ep *wep, const struct tagrv_addr *addr);

/* -- wireup_kept.c ------------------------------------------------------- */

/*
 * Something has happened to the connection: puts the node of its peer on wep->kept or
 * takes it off. May close sockets of this connection or of others.
 */
void tagrv_wireup_kept_note(struct tagrv_wireup_ep *wep, struct tagrv_list *node,
			    const struct tagrv_conn *conn);
/* The peer ends. Does nothing if the node is on no list. */
void tagrv_wireup_kept_remove(struct tagrv_wireup_ep *wep, struct tagrv_list *node);

/* A dialed socket is handed to its connection. */
void tagrv_wireup_peer_use(struct tagrv_wireup_sock *sock);

/* -- wireup_admit.c ------------------------------------------------------ */

/* Begins the life of a socket without a job. */
void tagrv_wireup_admit_init(struct tagrv_wireup_sock *sock);
/* True: something of the socket waits, or is being handled. */
bool tagrv_wireup_admit_waits(const struct tagrv_wireup_sock *sock);
/* The peer is not busy any more for which the socket was parked. */
void tagrv_wireup_admit_parked(struct tagrv_wireup_sock *sock);
/* The offer of a renewal waits for its turn. False: there is no memory. */
bool tagrv_wireup_admit_offer(struct tagrv_wireup_ep *wep, const struct tagrv_addr *addr);
/* The endpoint ends: its offers wait no more. */
void tagrv_wireup_admit_stop(struct tagrv_wireup_ep *wep);
/* ms until somebody has to be told to wait, or work can go on; -1: nobody, nothing. */
int tagrv_wireup_admit_wait(struct tagrv_wireup *wireup);
/*
 * Handles a record that was screened, or (rec NULL) the dialed socket, at once or when
 * there is time for what it has devices do. May close the socket.
 */
void tagrv_wireup_admit(struct tagrv_wireup_sock *sock,
			struct tagrv_wireup_rec *rec);
/*
 * Before the next record: what waits comes first. False: the record is done with, since it
 * is a repetition of what waits, or the socket has ended; or it has to wait, too.
 */
bool tagrv_wireup_admit_next(struct tagrv_wireup_sock *sock,
			     const struct tagrv_wireup_rec *rec, int status);
/*
 * The socket broke: what waits is void. True: it was dialed, and is closed now, or it will end
 * when the ANSWER that came by it has been handled.
 */
bool tagrv_wireup_admit_ended(struct tagrv_wireup_sock *sock);
/* What waits for its turn, if anything, is void. */
void tagrv_wireup_admit_void(struct tagrv_wireup_sock *sock);
/* Handles what waits, as much as this round has time for; tells others to wait. */
void tagrv_wireup_admit_run(struct tagrv_wireup *wireup);

/* -- wireup_dispatch.c --------------------------------------------------- */

/* The REQ or HELLO is of another version: answers it by REJ. */
void tagrv_wireup_peer_reject_version(struct tagrv_wireup_sock *sock,
				      const struct tagrv_wireup_rec *rec);
/* A record arrived; status: of tagrv_wireup_rec_decode(), 0 or -FI_ENOPROTOOPT. */
void tagrv_wireup_peer_record(struct tagrv_wireup_sock *sock,
			      struct tagrv_wireup_rec *rec, int status);
/* What devices have to do for a record that was screened, or for a dialed socket. */
enum tagrv_conn_work tagrv_wireup_peer_work(struct tagrv_wireup_sock *sock,
					    struct tagrv_wireup_rec *rec);
/* The run that the record of this socket may not overtake, since its peer is busy, or NULL. */
struct tagrv_wireup_run *tagrv_wireup_peer_busy(struct tagrv_wireup_sock *sock,
						struct tagrv_wireup_rec *rec);
/* True: that work needs another transport than local ones. */
bool tagrv_wireup_peer_needs_device(struct tagrv_wireup_sock *sock,
				    struct tagrv_wireup_rec *rec);
/* Hands a record that was screened to its connection. */
void tagrv_wireup_peer_handle(struct tagrv_wireup_sock *sock,
			      struct tagrv_wireup_rec *rec);

#endif
