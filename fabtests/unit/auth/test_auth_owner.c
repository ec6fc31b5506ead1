/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * auth_owner.c: owners of connections within this host.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "auth/auth_owner.h"

#define STRANGER	12345

static struct tagrv_addr addr_of(int fd, bool peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct tagrv_addr addr;

	cr_assert_eq(peer ? getpeername(fd, (struct sockaddr *) &ss, &len) :
			    getsockname(fd, (struct sockaddr *) &ss, &len), 0);
	cr_assert_eq(tagrv_addr_from(&addr, &ss, len), 0);
	return addr;
}

static int owner(int fd, uid_t *uid)
{
	struct tagrv_addr local = addr_of(fd, false), remote = addr_of(fd, true);

	return tagrv_auth_owner(&local, &remote, uid);
}

/* Some kernels, and emulators of one, have no such sockets. */
static void need_answers(int ret)
{
	if (ret == -FI_EPERM || ret == -FI_EACCES || ret == -EPROTONOSUPPORT)
		cr_skip_test("the kernel does not answer here");
}

static int listen_on(int family)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	int fd = socket(family, SOCK_STREAM, 0);

	in6.sin6_addr = in6addr_loopback;
	if (fd < 0 || (family == AF_INET ?
		       bind(fd, (struct sockaddr *) &in, sizeof(in)) :
		       bind(fd, (struct sockaddr *) &in6, sizeof(in6))))
		cr_skip_test("no such addresses here");
	cr_assert_eq(listen(fd, 1), 0);
	return fd;
}

static int dial(int listener)
{
	struct tagrv_addr to = addr_of(listener, false);
	int fd = socket(to.sa.sa_family, SOCK_STREAM, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, &to.sa, (socklen_t) tagrv_addr_len(&to)), 0);
	return fd;
}

static void expect_us(int family)
{
	int listener = listen_on(family), dialed = dial(listener);
	int accepted = accept(listener, NULL, NULL);
	uid_t uid = STRANGER;
	int ret;

	cr_assert_geq(accepted, 0);
	ret = owner(accepted, &uid);
	need_answers(ret);
	cr_assert_eq(ret, 0, "%d", ret);
	cr_expect_eq(uid, getuid());
	cr_assert_eq(owner(dialed, &uid), 0);
	cr_expect_eq(uid, getuid());
	close(dialed);
	close(accepted);
	close(listener);
}

Test(auth_owner, of_a_connection_by_ipv4) { expect_us(AF_INET); }
Test(auth_owner, of_a_connection_by_ipv6) { expect_us(AF_INET6); }

Test(auth_owner, another_user)
{
	int listener = listen_on(AF_INET), accepted, status;
	uid_t uid = 0;
	pid_t pid;

	if (getuid())
		cr_skip_test("only root can be somebody else");
	pid = fork();
	if (!pid) {
		char end;
		int fd;

		if (setuid(STRANGER))
			_exit(1);
		fd = dial(listener);
		_exit(read(fd, &end, 1) ? 1 : 0);
	}
	accepted = accept(listener, NULL, NULL);
	cr_assert_geq(accepted, 0);
	need_answers(owner(accepted, &uid));
	cr_expect_eq(owner(accepted, &uid), 0);
	cr_expect_eq(uid, STRANGER);
	close(accepted);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	close(listener);
}

/* The kernel would call root the owner. */
Test(auth_owner, of_a_socket_without_a_process)
{
	int listener = listen_on(AF_INET), dialed = dial(listener), accepted;
	struct tagrv_addr local, remote;
	uid_t uid = 77;

	need_answers(owner(dialed, &uid));
	cr_expect_eq(owner(dialed, &uid), -FI_ENOENT, "not accepted yet");
	accepted = accept(listener, NULL, NULL);
	cr_assert_geq(accepted, 0);
	local = addr_of(accepted, false);
	remote = addr_of(accepted, true);
	cr_expect_eq(tagrv_auth_owner(&local, &remote, &uid), 0);
	uid = 77;
	close(dialed);
	cr_expect_eq(tagrv_auth_owner(&local, &remote, &uid), -FI_ENOENT, "closed");
	cr_expect_eq(uid, 77);
	close(accepted);
	close(listener);
}

/* There is only a listener at the address, which is not the other end. */
Test(auth_owner, of_no_connection)
{
	int listener = listen_on(AF_INET);
	struct tagrv_addr there = addr_of(listener, false), here = there;
	uid_t uid = 77;

	tagrv_addr_set_port(&here, 1);
	need_answers(tagrv_auth_owner(&here, &there, &uid));
	cr_expect_eq(tagrv_auth_owner(&here, &there, &uid), -FI_ENOENT);
	cr_expect_eq(uid, 77);
	close(listener);
	cr_expect_eq(tagrv_auth_owner(&here, &there, &uid), -FI_ENOENT);
	cr_expect_eq(uid, 77);
}
