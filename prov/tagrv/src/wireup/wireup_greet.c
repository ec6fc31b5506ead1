/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The HELLOs of a socket (wireup_hello.h), and what becomes of the socket then.
 *
 *   accepted:  HELLO comes --> fits: answer; records follow
 *                         '--> another job, or another user: answer, hang up
 *                         '--> another version: REJ, hang up
 *   dialed:    HELLO sent, answer comes --> fits: the connection gets the socket
 *                                      '--> else: dialing has failed
 *
 * Without a secret a process of another user of this host is refused all the same:
 * the kernel tells whose socket it is. That is no protection against other hosts.
 */
#include <rdma/fi_errno.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth_owner.h"
#include "core/log.h"
#include "wireup/wireup_net.h"
#include "wireup/wireup_priv.h"

/* What our HELLO tells; LOCAL: a peer of this host may ask for local links alone. */
static uint32_t what_we_know(const struct tagrv_wireup_ep *wep)
{
	for (size_t i = 0; i < wep->attr.xport_cnt; i++)
		if (wep->attr.xports[i]->attr.caps & TAGRV_XPORT_LOCAL)
			return TAGRV_HELLO_LOCAL | TAGRV_HELLO_WAIT;
	return TAGRV_HELLO_WAIT;
}

int tagrv_wireup_greet_init(struct tagrv_wireup_sock *sock)
{
	int ret = tagrv_hello_init(&sock->hello, sock->wep->attr.key,
				   sock->chan.dialed);

	if (!ret)
		tagrv_hello_tell(&sock->hello, what_we_know(sock->wep));
	return ret;
}

void tagrv_wireup_greet_first(struct tagrv_wireup_sock *sock)
{
	uint8_t buf[TAGRV_HELLO_MAX];

	tagrv_wireup_sock_put(sock, buf, tagrv_hello_first(&sock->hello, buf));
}

/* -- users of this host ----------------------------------------------------- */

/*
 * The other end's socket is not there any more. If the kernel knows not even ours, it
 * does not tell: it is a container's business.
 */
static int check_closed(const struct tagrv_wireup_sock *sock,
			const struct tagrv_addr *local)
{
	uid_t uid = 0;

	if (!tagrv_auth_owner(&sock->addr, local, &uid) ||
	    !tagrv_wireup_net_is_connected(sock->fd))
		return -FI_ECONNRESET;
	return 0;
}

/*
 * 0; -FI_EACCES: the other end is a socket of another user of this host;
 * -FI_ECONNRESET: it was on this host and is closed, so nobody can tell whose it was.
 */
static int check_user(const struct tagrv_wireup_sock *sock,
		      const struct tagrv_addr *local)
{
	uid_t uid = 0;
	int ret;

	if (sock->hello.key->level == TAGRV_AUTH_AUTHENTICATION ||
	    !tagrv_wireup_is_near(sock->wireup, local, &sock->addr))
		return 0;
	ret = tagrv_auth_owner(local, &sock->addr, &uid);
	if (ret == -FI_ENOENT)
		return check_closed(sock, local);
	return !ret && uid != geteuid() ? -FI_EACCES : 0;
}

/* -- dialed ---------------------------------------------------------------- */

/* A peer of another version answers with a REJ whose body we cannot read. */
static bool is_version_reject(const struct tagrv_wireup_sock *sock, size_t len)
{
	struct tagrv_wireup_rec rec;
	int ret = tagrv_wireup_rec_decode(sock->rx, len, &rec);

	return (!ret || ret == -FI_ENOPROTOOPT) &&
	       rec.type == TAGRV_WIREUP_REJ &&
	       rec.reason == TAGRV_WIREUP_VERSION;
}

static void on_answer(struct tagrv_wireup_sock *sock, size_t len)
{
	int ret = tagrv_hello_answered(&sock->hello, sock->rx, len, &sock->addr);
	struct tagrv_addr local;

	if (!ret)
		ret = tagrv_wireup_net_local(sock->fd, &local);
	if (!ret)
		ret = check_user(sock, &local);
	sock->chan.local = !ret && sock->hello.peer_knows & TAGRV_HELLO_LOCAL &&
			   tagrv_wireup_is_near(sock->wireup, &local, &sock->addr);
	if (ret == -FI_EINVAL)
		ret = is_version_reject(sock, len) ? -FI_ENOPROTOOPT :
						     -FI_ECONNRESET;
	tagrv_wireup_sock_take(sock, len);
	tagrv_wireup_peer_dialed(sock, ret);
}

/* -- accepted -------------------------------------------------------------- */

static TAGRV_COLD void log_refused(struct tagrv_wireup_sock *sock,
				   const char *what)
{
	struct tagrv_wireup_ep *wep = sock->wep;
	char text[TAGRV_ADDR_STRLEN];

	wep->strangers++;
	if (!wep->logged_job)
		tagrv_warn("refused %s: it is %s; further ones are only "
			   "counted\n",
			   tagrv_addr_str(&sock->addr, text, sizeof(text)), what);
	wep->logged_job = true;
}

static const char *why(const struct tagrv_hello *hello)
{
	bool secret = hello->key->level == TAGRV_AUTH_AUTHENTICATION;

	if (secret != (hello->peer_level == TAGRV_AUTH_AUTHENTICATION))
		return secret ? "of another job: it has no FI_TAGRV_JOB_KEY, which all "
				"processes of a job need" :
				"of another job: it has an FI_TAGRV_JOB_KEY, and "
				"this process has none; give all processes the same";
	return secret ? "of another job: it has another FI_TAGRV_JOB_KEY; give all "
			"processes of a job the same" :
			"of another job of the launcher";
}

/*
 * If this is a HELLO of another version, or a REQ of a version that has no HELLOs or of
 * a later one: answers it by REJ. Else false.
 */
static bool reject_version(struct tagrv_wireup_sock *sock, size_t len)
{
	struct tagrv_wireup_rec rec;

	/* Only the head is needed, and of a HELLO only the head is a record's. */
	if (sock->rx[TAGRV_WIREUP_REC_TYPE] == TAGRV_HELLO_TYPE)
		sock->rx[TAGRV_WIREUP_REC_TYPE] = TAGRV_WIREUP_REQ;
	if (tagrv_wireup_rec_decode(sock->rx, len, &rec) != -FI_ENOPROTOOPT ||
	    rec.type != TAGRV_WIREUP_REQ)
		return false;
	tagrv_wireup_peer_reject_version(sock, &rec);
	return true;
}

static void on_hello(struct tagrv_wireup_sock *sock, size_t len)
{
	uint8_t answer[TAGRV_HELLO_MAX];
	struct tagrv_addr local;
	size_t answer_len = 0;
	const char *what = NULL;
	int ret = tagrv_wireup_net_local(sock->fd, &local);

	if (!ret)
		ret = tagrv_hello_answer(&sock->hello, sock->rx, len, &local,
					 answer, &answer_len);
	if (ret && ret != -FI_EACCES) {
		if (!reject_version(sock, len))
			tagrv_wireup_sock_close_stranger(sock);
		return;
	}
	if (ret) {
		what = why(&sock->hello);
	} else {
		ret = check_user(sock, &local);
		if (ret == -FI_EACCES)
			what = "of another user of this host, whom only a common "
			       "FI_TAGRV_JOB_KEY lets in";
	}
	if (ret == -FI_ECONNRESET) {
		/* A peer closes its socket if another one has come first. */
		tagrv_wireup_sock_close(sock);
		return;
	}
	tagrv_wireup_sock_take(sock, len);
	tagrv_wireup_sock_put(sock, answer, answer_len);
	if (what) {
		log_refused(sock, what);
		tagrv_wireup_sock_hangup(sock);
	} else {
		tagrv_wireup_sock_greeted(sock);
	}
}

void tagrv_wireup_greet(struct tagrv_wireup_sock *sock, size_t len)
{
	if (sock->chan.dialed)
		on_answer(sock, len);
	else
		on_hello(sock, len);
}
