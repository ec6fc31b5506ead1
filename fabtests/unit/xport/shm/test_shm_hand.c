/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Handover: blobs, messages that the socket refuses, other users, descriptors.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/core/core_seccomp.h"
#include "unit/xport/pair.h"
#include "unit/xport/shm/shm_child.h"
#include "unit/xport/shm/shm_forge.h"
#include "xport/shm/shm_priv.h"

static struct pair pair;
static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

static struct shm_device *dev(void)
{
	return shm_device_of(pair.a->dev);
}

/* A sandbox that forbids getrandom(2): the device is refused, and nobody waits. */
Test(shm_hand, device_without_random_bytes_is_refused, .timeout = 10)
{
	struct tagrv_params params = { 0 };
	struct tagrv_device *opened;

	if (seccomp_forbid(SYS_getrandom, EPERM))
		cr_skip_test("the kernel takes no filter of system calls");
	cr_expect_eq(ops->dev_open("shm", &params, &opened), -FI_EPERM);
}

/* ---- blob ---- */

static struct shm_blob sample(void)
{
	struct shm_blob blob = { .uid = geteuid(), .id = 7, .nonce = 9 };

	tagrv_shm_host_id(blob.host);
	return blob;
}

Test(shm_hand, blob_survives_the_wire, .timeout = 10)
{
	struct shm_blob in = sample(), out;
	char buf[TAGRV_BLOB_MAX];
	size_t len = tagrv_shm_blob_pack(&in, buf);

	cr_assert_eq(len, SHM_BLOB_LEN);
	memset(&out, 0, sizeof(out));
	cr_assert_eq(tagrv_shm_blob_unpack(&out, buf, len), 0);
	cr_assert(out.uid == in.uid && out.id == 7 && out.nonce == 9);
	cr_assert_arr_eq(out.host, in.host, sizeof(in.host));
	for (size_t cut = 0; cut < len; cut++)
		cr_assert_eq(tagrv_shm_blob_unpack(&out, buf, cut),
			     -FI_EINVAL);
	buf[2]++;
	cr_assert_eq(tagrv_shm_blob_unpack(&out, buf, len), -FI_EHOSTUNREACH);
}

static int bind_to(struct shm_blob *blob)
{
	char own[TAGRV_BLOB_MAX], buf[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	size_t len;
	int ret;

	cr_assert_eq(ops->link_create(pair.a->xport, own, &len, &link), 0);
	ret = ops->link_bind(link, buf, tagrv_shm_blob_pack(blob, buf));
	ops->link_discard(link);
	return ret;
}

Test(shm_hand, peers_elsewhere_are_unreachable, .timeout = 10)
{
	struct shm_blob blob = sample();

	pair_open(&pair, PAIR_SHM);
	blob.host[3]++;
	cr_assert_eq(bind_to(&blob), -FI_EHOSTUNREACH);
	blob = sample();
	blob.uid++;
	cr_assert_eq(bind_to(&blob), -FI_EHOSTUNREACH);
	blob = sample();
	cr_assert_eq(bind_to(&blob), -FI_ECONNREFUSED, "nobody listens");
	blob.id = 0;
	cr_assert_eq(bind_to(&blob), -FI_EINVAL);
	pair_close(&pair);
}

/* ---- strangers ---- */

/* Connections of which nothing comes are taken some at a time. */
Test(shm_hand, crowd_of_strangers_is_taken_in_parts, .timeout = 30)
{
	enum { CROWD = 3 * SHM_ACCEPTS };
	struct sockaddr_un name;
	socklen_t len = sizeof(name);
	int socks[CROWD];
	char byte;

	pair_open(&pair, PAIR_SHM);
	cr_assert_eq(getsockname(dev()->listen_fd, (struct sockaddr *) &name,
				 &len), 0);
	for (int i = 0; i < CROWD; i++) {
		socks[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(socks[i], (struct sockaddr *) &name, len), 0);
	}
	tagrv_shm_pull(dev());
	cr_expect_eq(recv(socks[0], &byte, 1, MSG_DONTWAIT), -1,
		     "there is no newer one yet in its place");
	cr_expect(is_readable(dev()->listen_fd, 0), "the next pull goes on");
	tagrv_shm_pull(dev());
	tagrv_shm_pull(dev());
	cr_expect_not(is_readable(dev()->listen_fd, 0));
	cr_expect_eq(recv(socks[0], &byte, 1, MSG_DONTWAIT), 0, "it is closed");
	pair_connect(&pair);
	for (int i = 0; i < CROWD; i++)
		close(socks[i]);
	pair_close(&pair);
}

/* ---- wrong messages at the socket ---- */

static int replace(struct forged *f, int i, int fd)
{
	close(f->fds[i]);
	return f->fds[i] = fd;
}

static void spoil(struct forged *f, int how)
{
	int ends[2];

	switch (how) {
	case 0: f->hand.nonce++; break;
	case 1: f->hand.magic++; break;
	case 2: f->hand.version++; break;
	case 3: f->hand.slots++; break;
	case 4: f->hand.slots *= 1u << 20; break;
	case 5: f->hand.slots = 1; break;
	case 6: f->hand.max_packet = 1 << 20; break;
	case 7: f->hand.max_packet = 0; break;
	case 8: f->hand.bell_index = SHM_BELL_LINKS; break;
	case 9: f->hand.fence = 2; break;
	case 10:	/* the ring's file could shrink */
		replace(f, 0, memfd_create("x", MFD_CLOEXEC));
		cr_assert_eq(ftruncate(f->fds[0], 32768), 0);
		break;
	case 11:
		replace(f, 1, memfd_create("x", MFD_CLOEXEC));
		cr_assert_eq(ftruncate(f->fds[1], SHM_BELL_SIZE), 0);
		break;
	case 12: replace(f, 0, open("/dev/zero", O_RDWR | O_CLOEXEC)); break;
	case 13:	/* writing to it could block, or kill */
		cr_assert_eq(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
		close(ends[0]);
		replace(f, 2, ends[1]);
		break;
	case 14: replace(f, 2, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); break;
	default: replace(f, 2, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); break;
	}
}

Test(shm_hand, forged_handovers_are_refused, .timeout = 20)
{
	struct forged f;
	unsigned had;

	pair_open(&pair, PAIR_SHM);
	forged_open(&f, pair.a->xport);
	forged_deliver(&f);
	cr_assert(forged_is_taken(&f), "a good one is taken");
	forged_deliver(&f);
	cr_assert_eq(dev()->refused, 1, "but once only");
	forged_close(&f);
	had = count_fds();
	for (int how = 0; how < 16; how++) {
		forged_open(&f, pair.a->xport);
		spoil(&f, how);
		forged_deliver(&f);
		cr_assert(!forged_is_taken(&f), "case %d", how);
		cr_assert_eq(dev()->refused, (unsigned) how + 2, "case %d",
			     how);
		forged_close(&f);
	}
	cr_assert_eq(count_fds(), had);
	pair_close(&pair);
}

/* No descriptor is free for those of the handover, which is not repeated. */
Test(shm_hand, handover_that_cannot_be_taken_ends_the_link, .timeout = 20)
{
	struct rlimit old, few;
	struct forged f;
	unsigned had;
	int sock;

	pair_open(&pair, PAIR_SHM);
	forged_open(&f, pair.a->xport);
	sock = shm_dial(dev());
	shm_say(sock, &f.hand, sizeof(f.hand), f.fds, SHM_HAND_FDS);
	had = count_fds();
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t) sock + 3;	/* connection, one descriptor */
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	tagrv_shm_pull(dev());
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_assert_eq(dev()->refused, 1);
	cr_assert(!forged_is_taken(&f));
	cr_assert(atomic_load(&shm_link_of(f.link)->peer_dead));
	cr_assert_eq(count_fds(), had);
	close(sock);
	forged_close(&f);
	pair_close(&pair);
}

static bool has_event(int ms)
{
	return is_readable(ops->dev_event_fd(pair.a->dev), ms);
}

/* Without a free descriptor the thread must not spin over a pending connection. */
Test(shm_hand, without_descriptors_accepting_pauses, .timeout = 60)
{
	struct rlimit old, few;
	struct forged f;
	int sock;

	pair_open(&pair, PAIR_SHM);
	forged_open(&f, pair.a->xport);
	sock = shm_dial(dev());
	shm_say(sock, &f.hand, sizeof(f.hand), f.fds, SHM_HAND_FDS);
	cr_assert(has_event(0));
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t) sock + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (int i = 0; i < 3; i++) {
		ops->dev_event(pair.a->dev);
		cr_assert(dev()->warned_files);
		if (has_event(0))
			cr_assert(is_readable(dev()->resume_fd, 0),
				  "by nothing but the timer");
		cr_assert(has_event(10000), "it is tried again");
	}
	cr_assert(!forged_is_taken(&f));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	ops->dev_event(pair.a->dev);
	cr_assert(forged_is_taken(&f));
	cr_assert_eq(dev()->refused, 0);
	close(sock);
	forged_close(&f);
	pair_close(&pair);
}

/*
 * Whether descriptors for which the receiver of a message has no room stay open, without
 * a number that anybody knows. An emulator does that (qemu 7.2 for another processor).
 */
static bool leaves_descriptors(void)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control.space,
			      .msg_controllen = CMSG_LEN(sizeof(int)) };
	int ends[2], two[2] = { 0, 0 }, got;
	unsigned had;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	shm_say(ends[0], "2", 1, two, 2);
	had = count_fds();
	cr_assert_eq(recvmsg(ends[1], &msg, 0), 1);
	for (size_t i = CMSG_LEN(sizeof(got)); i <= control.align.cmsg_len; i += sizeof(got)) {
		memcpy(&got, control.space + i - sizeof(got), sizeof(got));
		close(got);
	}
	close(ends[0]);
	close(ends[1]);
	return count_fds() + 2 > had;
}

Test(shm_hand, wrong_messages_are_refused, .timeout = 20)
{
	int fds[7] = { 0, 0, 0, 0, 0, 0, 0 }, sock;
	char junk[200] = "junk";
	size_t most = 7;
	unsigned had;

	if (leaves_descriptors()) {
		cr_log_warn("descriptors are left here: only as many as there is room for");
		most = 6;
	}
	pair_open(&pair, PAIR_SHM);
	had = count_fds();
	for (size_t cnt = 0; cnt <= most; cnt++) {
		sock = shm_dial(dev());
		shm_say(sock, junk, 1 + cnt * 20, fds, cnt);
		close(sock);
		close(shm_dial(dev()));	/* sends nothing */
		tagrv_shm_pull(dev());
	}
	cr_assert_eq(dev()->refused, 2 * (most + 1));
	cr_assert_eq(count_fds(), had);
	pair_connect(&pair);
	pair_send(&pair, pair.a, 1, 100, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

Test(shm_hand, silent_connections_are_few, .timeout = 20)
{
	int socks[200];
	unsigned had;

	pair_open(&pair, PAIR_SHM);
	had = count_fds();
	for (int i = 0; i < 200; i++)
		socks[i] = shm_dial(dev());
	tagrv_shm_pull(dev());
	cr_assert_eq(count_fds(), had + 200 + SHM_PENDING);
	pair_connect(&pair);
	pair_send(&pair, pair.a, 1, 100, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	for (int i = 0; i < SHM_PENDING; i++)
		dev()->pending[i].since -= SHM_PENDING_MS + 1;
	tagrv_shm_pull(dev());
	for (int i = 0; i < SHM_PENDING; i++)
		cr_assert_lt(dev()->pending[i].fd, 0);
	for (int i = 0; i < 200; i++)
		close(socks[i]);
	pair_close(&pair);
}

/* ---- the wireup thread ---- */

static _Atomic bool stop_wireup;

static void *wireup(void *arg)
{
	(void) arg;
	while (!atomic_load(&stop_wireup))
		for (int i = 0; i < 2; i++)
			ops->dev_event(pair.ends[i].dev);
	return NULL;
}

/* Links are made and closed while another thread reads handovers. */
Test(shm_hand, wireup_thread_reads_handovers_meanwhile, .timeout = 60)
{
	pthread_t thread;

	pair_open(&pair, PAIR_SHM_CMA);
	pair.a->forget = pair.b->forget = true;
	cr_assert_eq(pthread_create(&thread, NULL, wireup, NULL), 0);
	for (size_t i = 0; i < 300; i++) {
		size_t had = pair.b->packet_cnt;

		pair_connect(&pair);
		if (i % 3)
			pair_send(&pair, pair.a, 1, 100, NULL);
		if (i % 3 == 1)
			PAIR_UNTIL(&pair, pair.b->packet_cnt > had);
		end_close_link(i & 1 ? pair.a : pair.b);
		end_close_link(i & 1 ? pair.b : pair.a);
	}
	atomic_store(&stop_wireup, true);
	pthread_join(thread, NULL);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	pair_close(&pair);
}

/* ---- another user ---- */

static void try_to_open(pid_t pid, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	if (open(path, O_RDONLY) >= 0)
		_exit(4);
}

/* Refused although the process knows nonce, name and descriptors of the peer. */
Test(shm_hand, other_users_are_refused, .timeout = 20)
{
	struct forged f;
	int status, sock;
	pid_t child;

	if (geteuid())
		cr_skip_test("needs root");
	pair_open(&pair, PAIR_SHM);
	forged_open(&f, pair.a->xport);
	child = fork();
	if (!child) {
		pid_t parent = getppid();

		if (setgid(65534) || setuid(65534))
			_exit(2);
		sock = shm_dial(dev());
		shm_say(sock, &f.hand, sizeof(f.hand), f.fds, SHM_HAND_FDS);
		try_to_open(parent, f.fds[0]);
		try_to_open(parent, shm_xport_of(pair.a->xport)->bell_fd);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
	tagrv_shm_pull(dev());
	cr_assert(!forged_is_taken(&f));
	cr_assert_eq(dev()->refused, 1);
	forged_close(&f);
	pair_close(&pair);
}

/* No handover is sent to a socket name that another user has taken over. */
Test(shm_hand, other_users_are_sent_nothing, .timeout = 20)
{
	struct shm_blob blob = sample();
	int socks[2], status;
	char c = 0;
	pid_t child;

	if (geteuid())
		cr_skip_test("needs root");
	pair_open(&pair, PAIR_SHM);
	memcpy(blob.name, "0123456789abcdef", SHM_SOCK_NAME);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	child = fork();
	if (!child) {
		struct sockaddr_un sun = { .sun_family = AF_UNIX };
		int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		memcpy(sun.sun_path, "\0tagrv-0123456789abcdef", 23);
		if (setuid(65534) || bind(sock, (struct sockaddr *) &sun,
			offsetof(struct sockaddr_un, sun_path) + 23) ||
		    listen(sock, 5) || write(socks[1], &c, 1) != 1)
			_exit(2);
		sock = accept(sock, NULL, NULL);
		_exit(recv(sock, &c, 1, 0) == 0 ? 0 : 5);
	}
	cr_assert_eq(read(socks[0], &c, 1), 1);
	cr_assert_eq(bind_to(&blob), -FI_EHOSTUNREACH);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
	close(socks[0]);
	close(socks[1]);
	pair_close(&pair);
}

/* ---- descriptors ---- */

Test(shm_hand, no_descriptor_is_left, .timeout = 20)
{
	unsigned had = count_fds(), open_links;

	for (int i = 0; i < 3; i++) {
		pair_open(&pair, PAIR_SHM);
		open_links = count_fds();
		pair_connect(&pair);
		pair_send(&pair, pair.a, 1, 100, NULL);
		pair_send(&pair, pair.b, 1, 100, NULL);
		cr_assert_leq(count_fds(), open_links + 4);
		end_close_link(pair.a);
		end_close_link(pair.b);
		cr_assert_eq(count_fds(), open_links);
		pair_close(&pair);
	}
	cr_assert_eq(count_fds(), had);
}

Test(shm_hand, too_many_links_are_refused, .timeout = 60)
{
	static struct tagrv_link *links[SHM_BELL_LINKS + 1];
	char blob[TAGRV_BLOB_MAX];
	size_t len;

	pair_open(&pair, PAIR_SHM);
	for (size_t i = 0; i < SHM_BELL_LINKS; i++)
		cr_assert_eq(ops->link_create(pair.a->xport, blob, &len,
					      &links[i]), 0);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len,
				      &links[SHM_BELL_LINKS]), -FI_ENOSPC);
	for (size_t i = 0; i < SHM_BELL_LINKS; i++)
		ops->link_discard(links[i]);
	pair_close(&pair);
}
