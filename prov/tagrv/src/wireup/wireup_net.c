/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The socket calls of wireup: see wireup_net.h.
 */
#include "wireup/wireup_net.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/netif.h"

#define BACKLOG		4096
/* A dead host is noticed after about 20 s; a dead process by its kernel, at once. */
#define KEEP_IDLE	10	/* s */
#define KEEP_INTERVAL	3	/* s */
#define KEEP_COUNT	3
#define USER_TIMEOUT	20000	/* ms */

int tagrv_wireup_net_error(int err)
{
	switch (err) {
	case ECONNREFUSED:
	case ECONNRESET:
		return -err;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case EACCES:
	case EPERM:
		return -FI_EHOSTUNREACH;
	case ENOBUFS:
		return -FI_ENOMEM;
	case ENFILE:
		return -FI_EMFILE;
	case EMFILE:
	case ENOMEM:
	case EADDRINUSE:
	case EADDRNOTAVAIL:
	case EAGAIN:
	case EINVAL:
		return -err;
	default:
		return -FI_ETIMEDOUT;
	}
}

static void set_option(int fd, int level, int name, int value)
{
	/* A connection works without any of these options. */
	(void) setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_options(int fd)
{
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT);
}

/* Replaces a wildcard by the address that other hosts know, or by loopback. */
static void choose_name(struct tagrv_addr *name)
{
	uint16_t port = tagrv_addr_port(name);
	int family = name->sa.sa_family;

	if (tagrv_netif_addr(NULL, family, name)) {
		if (family == AF_INET)
			name->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		else
			name->in6.sin6_addr = in6addr_loopback;
	}
	tagrv_addr_set_port(name, port);
}

static int get_name(int fd, struct tagrv_addr *name)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int ret;

	if (getsockname(fd, (struct sockaddr *) &sa, &len))
		return -errno;
	ret = tagrv_addr_from(name, &sa, len);
	if (!ret && tagrv_addr_is_any(name))
		choose_name(name);
	return ret;
}

static TAGRV_COLD void log_listen(const struct tagrv_addr *addr, int status)
{
	char text[TAGRV_ADDR_STRLEN];
	const char *help;

	switch (status) {
	case -FI_EADDRINUSE:
		help = "another process or endpoint listens there; choose "
		       "another port";
		break;
	case -FI_EADDRNOTAVAIL:
		help = "no interface of this host has that address; see "
		       "FI_TAGRV_IFACE";
		break;
	case -FI_EMFILE:
		help = "too many open files; see ulimit -n";
		break;
	default:
		help = fi_strerror(-status);
	}
	tagrv_warn("cannot listen on %s: %s\n",
		   tagrv_addr_str(addr, text, sizeof(text)), help);
}

int tagrv_wireup_net_listen(const struct tagrv_addr *addr,
			    struct tagrv_addr *name)
{
	int fd, ret;

	fd = socket(addr->sa.sa_family,
		    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		ret = tagrv_wireup_net_error(errno);
		log_listen(addr, ret);
		return ret;
	}
	/*
	 * A restarted process can bind its port again while connections of its
	 * predecessor are in TIME_WAIT; two listeners on a port still conflict.
	 */
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (addr->sa.sa_family == AF_INET6)
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (bind(fd, &addr->sa, (socklen_t) tagrv_addr_len(addr)) ||
	    listen(fd, BACKLOG)) {
		ret = tagrv_wireup_net_error(errno);
		goto close_fd;
	}
	ret = get_name(fd, name);
	if (ret)
		goto close_fd;
	return fd;

close_fd:
	close(fd);
	log_listen(addr, ret);
	return ret;
}

int tagrv_wireup_net_accept(int listener, struct tagrv_addr *peer)
{
	struct sockaddr_storage sa;
	socklen_t len;
	int fd;

	/* Skip connections that were reset while they waited in the backlog. */
	do {
		len = sizeof(sa);
		fd = accept4(listener, (struct sockaddr *) &sa, &len,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (fd < 0 && (errno == ECONNABORTED || errno == EINTR));
	if (fd < 0)
		return tagrv_wireup_net_error(errno);
	if (tagrv_addr_from(peer, &sa, len)) {
		close(fd);
		return -FI_EAGAIN;
	}
	set_options(fd);
	return fd;
}

int tagrv_wireup_net_dial(const struct tagrv_addr *addr)
{
	int fd, ret;

	fd = socket(addr->sa.sa_family,
		    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return tagrv_wireup_net_error(errno);
	set_options(fd);
	if (connect(fd, &addr->sa, (socklen_t) tagrv_addr_len(addr)) &&
	    errno != EINPROGRESS && errno != EINTR) {
		/* EINVAL: a link-local address without a scope. */
		ret = errno == EINVAL ? -FI_EHOSTUNREACH :
					tagrv_wireup_net_error(errno);
		close(fd);
		return ret;
	}
	return fd;
}

/*
 * If nobody listens on a local port, the kernel may choose this very port as the
 * source of a connect to it; TCP then connects the socket to itself.
 */
static bool is_self_connected(int fd)
{
	struct sockaddr_storage here, there;
	socklen_t here_len = sizeof(here), there_len = sizeof(there);
	struct tagrv_addr a, b;

	if (getsockname(fd, (struct sockaddr *) &here, &here_len) ||
	    getpeername(fd, (struct sockaddr *) &there, &there_len))
		return false;
	return !tagrv_addr_from(&a, &here, here_len) &&
	       !tagrv_addr_from(&b, &there, there_len) &&
	       tagrv_addr_equal(&a, &b);
}

int tagrv_wireup_net_dialed(int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (err)
		return tagrv_wireup_net_error(err);
	if (is_self_connected(fd)) {
		tagrv_wireup_net_abort(fd);
		return -FI_ECONNREFUSED;
	}
	return 0;
}

int tagrv_wireup_net_local(int fd, struct tagrv_addr *addr)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *) &sa, &len))
		return -errno;
	return tagrv_addr_from(addr, &sa, len);
}

bool tagrv_wireup_net_is_connected(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	return !getpeername(fd, (struct sockaddr *) &sa, &len);
}

void tagrv_wireup_net_abort(int fd)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };

	(void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}
