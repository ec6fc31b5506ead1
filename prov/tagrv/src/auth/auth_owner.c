/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Owners of sockets, by the kernel's sock_diag: see auth_owner.h.
 */
#include "auth/auth_owner.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <unistd.h>

struct request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 ask;
};

struct answer {
	struct nlmsghdr head;
	union {
		struct inet_diag_msg msg;
		struct nlmsgerr error;
	};
};

static void put_ip(__be32 to[4], const struct tagrv_addr *addr)
{
	memset(to, 0, 16);
	if (addr->sa.sa_family == AF_INET)
		memcpy(to, &addr->in.sin_addr, sizeof(addr->in.sin_addr));
	else
		memcpy(to, &addr->in6.sin6_addr, sizeof(addr->in6.sin6_addr));
}

/* The other end's source is our remote address. */
static void fill_request(struct request *req, const struct tagrv_addr *local,
			 const struct tagrv_addr *remote)
{
	struct inet_diag_sockid *id = &req->ask.id;

	memset(req, 0, sizeof(*req));
	req->head.nlmsg_len = sizeof(*req);
	req->head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	req->head.nlmsg_flags = NLM_F_REQUEST;
	req->ask.sdiag_family = (uint8_t) local->sa.sa_family;
	req->ask.sdiag_protocol = IPPROTO_TCP;
	id->idiag_sport = htons(tagrv_addr_port(remote));
	id->idiag_dport = htons(tagrv_addr_port(local));
	put_ip(id->idiag_src, remote);
	put_ip(id->idiag_dst, local);
	if (remote->sa.sa_family == AF_INET6)
		id->idiag_if = remote->in6.sin6_scope_id;
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

/*
 * The kernel finds a listener where there is no connection: it is not meant. And it
 * calls root the owner of a socket that was closed, or not accepted yet; such a one
 * has no inode.
 */
static int read_answer(const struct answer *ans, ssize_t len, uid_t *uid)
{
	if (len < (ssize_t) NLMSG_LENGTH(sizeof(ans->error.error)))
		return -FI_EIO;
	if (ans->head.nlmsg_type == NLMSG_ERROR)
		return ans->error.error ? ans->error.error : -FI_EIO;
	if (ans->head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    len < (ssize_t) sizeof(*ans))
		return -FI_EIO;
	if (!ans->msg.id.idiag_dport || !ans->msg.idiag_inode)
		return -FI_ENOENT;
	*uid = ans->msg.idiag_uid;
	return 0;
}

int tagrv_auth_owner(const struct tagrv_addr *local,
		     const struct tagrv_addr *remote, uid_t *uid)
{
	struct request req;
	struct answer ans;
	ssize_t len;
	int fd, ret;

	if (local->sa.sa_family != remote->sa.sa_family)
		return -FI_EINVAL;
	fill_request(&req, local, remote);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -errno;
	/* The kernel answers within send(), so that recv() need not wait. */
	len = send(fd, &req, sizeof(req), 0);
	if (len == (ssize_t) sizeof(req))
		len = recv(fd, &ans, sizeof(ans), 0);
	ret = len < 0 ? -errno : read_answer(&ans, len, uid);
	close(fd);
	return ret;
}
