/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which connection a record is for, and which records are for none.
 *
 * A socket belongs to a connection from its first REQ on, and its later records go there.
 * The first REQ names its sender's listener, or an epoch of ours that it resumes: that
 * finds the peer, or makes a new one. An ASK is for no connection: it is answered from
 * what the peer that it names has sent. Whoever sends something else is a stranger, or
 * gets a REJ that says why.
 */
#include "core/log.h"
#include "wireup/wireup_peer.h"

/* Makes the address that a peer reported usable here: wildcard, IPv6 scope. */
static void repair_addr(const struct tagrv_wireup_sock *sock,
			struct tagrv_addr *addr)
{
	uint16_t port = tagrv_addr_port(addr);

	if (tagrv_addr_is_any(addr)) {
		*addr = sock->addr;
		tagrv_addr_set_port(addr, port);
	}
	/* A scope is a host's own number of an interface. */
	if (addr->sa.sa_family == AF_INET6 &&
	    IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr))
		addr->in6.sin6_scope_id =
			sock->addr.sa.sa_family == AF_INET6 ?
			sock->addr.in6.sin6_scope_id : 0;
}

TAGRV_COLD void
tagrv_wireup_peer_reject_version(struct tagrv_wireup_sock *sock,
				 const struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup_ep *wep = sock->wep;
	char text[TAGRV_ADDR_STRLEN];

	if (!wep->logged_version)
		tagrv_warn("refused %s: its tagrv is %s than this one (wire versions %u to "
			   "%u, here %u to %u); install the same release of tagrv on both "
			   "hosts\n",
			   tagrv_addr_str(&sock->addr, text, sizeof(text)),
			   rec->version_min > TAGRV_WIRE_VERSION ? "newer" : "older",
			   rec->version_min, rec->version_max,
			   TAGRV_WIRE_VERSION_MIN, TAGRV_WIRE_VERSION);
	wep->logged_version = true;
	tagrv_conn_reject(&wep->host, &sock->chan, rec, TAGRV_WIREUP_VERSION);
	tagrv_wireup_sock_hangup(sock);
}

static void reject(struct tagrv_wireup_sock *sock,
		   const struct tagrv_wireup_rec *rec,
		   enum tagrv_wireup_reason reason)
{
	tagrv_conn_reject(&sock->wep->host, &sock->chan, rec, reason);
	tagrv_wireup_sock_hangup(sock);
}

/* The connection of the first REQ on an accepted socket. NULL: there is none. */
static struct tagrv_conn *find_conn(struct tagrv_wireup_sock *sock,
				    struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup_ep *wep = sock->wep;

	repair_addr(sock, &rec->addr);
	return rec->dst_epoch ? tagrv_wireup_peer_find_epoch(wep, rec) :
				tagrv_wireup_peer_find(wep, &rec->addr);
}

/* Who has the job's key says the truth, wherever it comes from (NAT). */
static bool is_near(struct tagrv_wireup_sock *sock, const struct tagrv_addr *addr)
{
	return sock->hello.proven ||
	       tagrv_wireup_is_near(sock->wireup, addr, &sock->addr);
}

/* The first REQ on an accepted socket. */
static void on_first_req(struct tagrv_wireup_sock *sock,
			 struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup_ep *wep = sock->wep;
	struct tagrv_conn *conn = find_conn(sock, rec);

	/* Another host has our (private) address: our REQs would reach ourselves. */
	if (tagrv_addr_equal(&rec->addr, &wep->name)) {
		reject(sock, rec, TAGRV_WIREUP_SELF);
		return;
	}
	if (!conn && rec->dst_epoch) {
		reject(sock, rec, TAGRV_WIREUP_STALE);
		return;
	}
	if (!conn)
		conn = tagrv_wireup_peer_create(wep, &rec->addr);
	if (!conn) {
		reject(sock, rec, TAGRV_WIREUP_BUSY);
		return;
	}
	sock->chan.near = is_near(sock, &conn->addr);
	tagrv_conn_record(conn, &sock->chan, rec);
	tagrv_wireup_peer_settle(conn);
}

/* Somebody asks whether we sent the REQ that it got in our name. */
static void on_ask(struct tagrv_wireup_sock *sock, struct tagrv_wireup_rec *rec)
{
	struct tagrv_wireup_ep *wep = sock->wep;
	struct tagrv_conn *conn;

	repair_addr(sock, &rec->addr);
	conn = tagrv_wireup_peer_find(wep, &rec->addr);
	/* We may know the asker by another address than it has for itself. */
	if (!conn || !tagrv_conn_sent_req(conn, rec))
		conn = tagrv_wireup_peer_find_epoch(wep, rec);
	tagrv_conn_answer(&wep->host, &sock->chan, rec,
			  conn && tagrv_conn_sent_req(conn, rec));
	if (!sock->chan.conn && !tagrv_wireup_admit_waits(sock))
		tagrv_wireup_sock_hangup(sock);
}

enum tagrv_conn_work tagrv_wireup_peer_work(struct tagrv_wireup_sock *sock,
					    struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn *conn = sock->chan.conn;

	if (conn || !rec)
		return tagrv_conn_work_of(conn, &sock->chan, rec);
	conn = find_conn(sock, rec);
	if (tagrv_addr_equal(&rec->addr, &sock->wep->name) ||
	    (!conn && rec->dst_epoch))
		return TAGRV_CONN_NO_WORK;	/* it will be rejected */
	sock->chan.near = is_near(sock, conn ? &conn->addr : &rec->addr);
	return tagrv_conn_work_of(conn, &sock->chan, rec);
}

struct tagrv_wireup_run *tagrv_wireup_peer_busy(struct tagrv_wireup_sock *sock,
						struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn *conn = sock->chan.conn;

	if (!conn)
		conn = find_conn(sock, rec);
	return conn ? tagrv_wireup_peer_run(conn) : NULL;
}

bool tagrv_wireup_peer_needs_device(struct tagrv_wireup_sock *sock,
				    struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn *conn = sock->chan.conn;

	if (!conn)
		conn = find_conn(sock, rec);
	return tagrv_conn_needs_device(&sock->wep->host, conn, &sock->chan, rec);
}

void tagrv_wireup_peer_handle(struct tagrv_wireup_sock *sock,
			      struct tagrv_wireup_rec *rec)
{
	struct tagrv_conn *conn = sock->chan.conn;

	if (!conn) {
		on_first_req(sock, rec);
		return;
	}
	tagrv_conn_record(conn, &sock->chan, rec);
	tagrv_wireup_peer_settle(conn);
}

void tagrv_wireup_peer_record(struct tagrv_wireup_sock *sock,
			      struct tagrv_wireup_rec *rec, int status)
{
	struct tagrv_conn *conn;
	int reason;

	/* An ASK never waits. */
	if ((status || rec->type != TAGRV_WIREUP_ASK) &&
	    !tagrv_wireup_admit_next(sock, rec, status))
		return;
	conn = sock->chan.conn;
	/* Of a record in another version only the head is known: enough for REJ. */
	if (status && rec->type != TAGRV_WIREUP_REJ) {
		if (rec->type == TAGRV_WIREUP_REQ && !conn)
			tagrv_wireup_peer_reject_version(sock, rec);
		else
			tagrv_wireup_sock_close_stranger(sock);
		return;
	}
	if (rec->type == TAGRV_WIREUP_ASK) {
		on_ask(sock, rec);
		return;
	}
	reason = tagrv_conn_screen(&sock->wep->host, rec);
	if (reason < 0 || (!conn && rec->type != TAGRV_WIREUP_REQ)) {
		tagrv_wireup_sock_close_stranger(sock);
	} else if (reason != TAGRV_WIREUP_OK && !conn) {
		reject(sock, rec, (enum tagrv_wireup_reason) reason);
	} else if (reason == TAGRV_WIREUP_OK) {
		tagrv_wireup_admit(sock, rec);
	}
}
