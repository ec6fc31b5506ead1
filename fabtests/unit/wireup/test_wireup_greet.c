/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Job keys over real sockets: who is let in, and who is not.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/wait.h>

#include "auth/auth_key.h"
#include "auth/auth_owner.h"
#include "unit/wireup/wireup_fixture.h"
#include "wireup/wireup_net.h"

enum { TRIES = 100, NOBODY = 65534 };

static struct tagrv_auth_key ours, other, name, other_name;

static void make_keys(void)
{
	cr_assert_eq(tagrv_auth_key_make(&ours, "sixteen bytes, or more", 22), 0);
	cr_assert_eq(tagrv_auth_key_make(&other, "sixteen bytes, or less", 22), 0);
	name.level = other_name.level = TAGRV_AUTH_SEPARATION;
	name.kind = other_name.kind = TAGRV_AUTH_SLURM;
	name.id[0] = 1;
	other_name.id[0] = 2;
}

static void open_keyed(struct ep *ep, struct tagrv_wireup *wireup,
		       const struct tagrv_auth_key *key)
{
	open_key = key;
	open_ep(ep, wireup, 10);
	open_key = NULL;
}

Test(wireup_greet, processes_of_a_job_connect, .timeout = 60, .init = make_keys)
{
	static const struct tagrv_auth_key *const pairs[][2] = {
		{ &ours, &ours }, { &name, &name }, { &name, NULL },
		{ NULL, &name }, { NULL, NULL },
	};
	struct tagrv_wireup *wireup = create();

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct ep a, b;

		open_keyed(&a, wireup, pairs[i][0]);
		open_keyed(&b, wireup, pairs[i][1]);
		connect_ep(&a, &b);
		connect_ep(&b, &a);
		await(&a, &a.sendables, 1);
		await(&b, &b.sendables, 1);
		check_pair(&a, &b);
		free_pair(&a, &b);
	}
	cr_assert_eq(log_count("of another job"), 0);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_greet, other_jobs_are_told_so, .timeout = 60, .init = make_keys)
{
	static const struct {
		const struct tagrv_auth_key *from, *to;
		const char *why;
	} cases[] = {
		{ &ours, NULL, "and this process has none" },
		{ NULL, &ours, "it has no FI_TAGRV_JOB_KEY" },
		{ &name, &ours, "it has no FI_TAGRV_JOB_KEY" },
		{ &ours, &other, "it has another FI_TAGRV_JOB_KEY" },
		{ &name, &other_name, "of another job of the launcher" },
	};
	struct tagrv_wireup *wireup = create();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ep from, to;

		open_keyed(&from, wireup, cases[i].from);
		open_keyed(&to, wireup, cases[i].to);
		for (int try = 1; try <= 3; try++) {
			connect_ep(&from, &to);
			await(&from, &from.faileds, try);
			cr_assert_eq(from.failed.status, -FI_EACCES);
		}
		cr_assert_geq(log_count(cases[i].why), 1, "case %zu", i);
		close_ep(&from);
		collect(&to);
		cr_assert_eq(to.ups, 0);
		close_ep(&to);
		cr_assert_eq(from.fake.created + to.fake.created, 0,
			     "no queue pair before the proof");
	}
	tagrv_wireup_destroy(wireup);
}

/* A stranger without the secret, who says HELLO as a job member would. */
Test(wireup_greet, nobody_without_the_secret_gets_in, .timeout = 120,
     .init = make_keys)
{
	static const struct tagrv_auth_key none;
	static const struct tagrv_auth_key *const keys[] = { &none, &other };
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct raw raw;
	struct ep a;

	open_keyed(&a, wireup, &ours);
	for (int i = 0; i < 2 * TRIES; i++) {
		raw_dial(&raw, &a, 1);
		cr_assert_eq(raw_hello(&raw, &a, keys[i % 2]), -FI_EACCES);
		cr_assert_eq(raw_recv(&raw, &rec), 0);
		close(raw.fd);
	}
	/* It has seen the id of the secret, but does not have the secret. */
	for (int i = 0; i < TRIES; i++) {
		struct tagrv_auth_key forged = ours;

		memset(forged.secret, i, sizeof(forged.secret));
		raw_dial(&raw, &a, 1);
		cr_assert_eq(raw_hello(&raw, &a, &forged), -FI_EACCES);
		/* The answer does not convince it; it goes on all the same. */
		raw.hello.state = TAGRV_HELLO_OPEN;
		raw_send(&raw);
		cr_assert_eq(raw_recv(&raw, &rec), 0);
		close(raw.fd);
	}
	collect(&a);
	cr_assert_eq(a.ups, 0);
	cr_assert_eq(a.fake.created, 0);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* All that a member of the job has sent is sent once more, on another socket. */
Test(wireup_greet, recorded_handshakes_are_worth_nothing, .timeout = 120,
     .init = make_keys)
{
	struct tagrv_wireup *wireup = create();
	uint8_t req[TAGRV_WIREUP_REC_MAX], hello[TAGRV_HELLO_LEN];
	struct tagrv_wireup_rec rec;
	struct raw raw;
	size_t len;
	struct ep a;

	open_keyed(&a, wireup, &ours);
	open_key = &ours;
	raw_open(&raw, &a, 1);
	memcpy(hello, raw.hello.ours, sizeof(hello));
	len = tagrv_hello_seal(&raw.hello, req,
			       tagrv_wireup_rec_encode(&raw.mine, req));
	cr_assert_eq(send(raw.fd, req, len, MSG_NOSIGNAL), (ssize_t) len);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
	await(&a, &a.ups, 1);
	fake_free(a.up.link);
	close(raw.fd);
	for (int i = 0; i < TRIES; i++) {
		uint8_t junk[TAGRV_WIREUP_REC_MAX];

		raw_dial(&raw, &a, 1);
		cr_assert_eq(send(raw.fd, hello, sizeof(hello), MSG_NOSIGNAL),
			     sizeof(hello));
		cr_assert_gt(raw_read(&raw, junk), 0);
		cr_assert_eq(send(raw.fd, req, len, MSG_NOSIGNAL), (ssize_t) len);
		cr_assert_eq(raw_read(&raw, junk), 0);
		close(raw.fd);
	}
	collect(&a);
	cr_assert_eq(a.ups, 1);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* A peer behind NAT: nobody could ask its listener. */
Test(wireup_greet, members_of_the_job_may_come_from_anywhere, .timeout = 60,
     .init = make_keys)
{
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(1) };
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct raw raw;
	struct ep a;

	open_keyed(&a, wireup, &ours);
	open_key = &ours;
	raw_open(&raw, &a, 1);
	inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);	/* of no host */
	cr_assert_eq(tagrv_addr_from(&raw.mine.addr, &far, sizeof(far)), 0);
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
	await(&a, &a.ups, 1);
	fake_free(a.up.link);
	close(raw.fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_greet, changed_records_end_the_socket, .timeout = 60,
     .init = make_keys)
{
	struct tagrv_wireup *wireup = create();
	struct ep a;

	open_keyed(&a, wireup, &ours);
	open_key = &ours;
	for (size_t at = TAGRV_WIREUP_REC_TYPE; at < 150; at += 7) {
		uint8_t buf[TAGRV_WIREUP_REC_MAX];
		struct raw raw;
		size_t len;

		raw_open(&raw, &a, 1);
		len = tagrv_hello_seal(&raw.hello, buf,
				       tagrv_wireup_rec_encode(&raw.mine, buf));
		buf[at] ^= 1;
		cr_assert_eq(send(raw.fd, buf, len, MSG_NOSIGNAL), (ssize_t) len);
		cr_assert_eq(raw_read(&raw, buf), 0, "byte %zu", at);
		close(raw.fd);
	}
	collect(&a);
	cr_assert_eq(a.ups, 0);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* Skips the test if this process cannot be another user, or the kernel does not tell. */
static void need_users(void)
{
	struct tagrv_addr addr, here;
	int home, dialed, accepted;
	uid_t uid;

	if (geteuid())
		cr_skip("only root can be another user");
	home = home_open(&addr);
	dialed = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(dialed, &addr.sa, sizeof(addr.in)), 0);
	accepted = accept(home, NULL, NULL);
	cr_assert_eq(tagrv_wireup_net_local(dialed, &here), 0);
	if (tagrv_auth_owner(&addr, &here, &uid))
		cr_skip("the kernel does not tell whose a socket is");
	close(accepted);
	close(dialed);
	close(home);
}

/* Without a secret, the kernel knows the users of this host. */
Test(wireup_greet, other_users_are_refused, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	int status;
	struct ep a;
	pid_t child;

	need_users();
	open_ep(&a, wireup, 10);
	child = fork();
	if (!child) {
		struct raw raw;

		if (setuid(NOBODY))
			_exit(1);
		raw_dial(&raw, &a, 1);
		if (raw_hello(&raw, &a, NULL))
			_exit(2);
		raw_send(&raw);
		_exit(raw_recv(&raw, &rec) ? 3 : 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "status %x", status);
	cr_assert_eq(log_count("of another user of this host"), 1);
	collect(&a);
	cr_assert_eq(a.ups, 0);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* Keeps the thread busy while strangers come and go. */
static int bind_slowly(struct tagrv_link *link, const void *blob, size_t len)
{
	nanosleep(&(struct timespec) { .tv_sec = 1 }, NULL);
	return fake_bind(link, blob, len);
}

/* A closed socket has no user, but what it has sent is still there to be read. */
Test(wireup_greet, other_users_that_leave_are_refused, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct linger reset = { .l_onoff = 1 };
	struct raw busy, raw;
	int status;
	struct ep a;
	pid_t child;

	need_users();
	open_ep(&a, wireup, 10);
	a.fake.ops.link_bind = bind_slowly;
	raw_open(&busy, &a, 1);
	raw_send(&busy);
	child = fork();
	if (!child) {
		uint8_t hello[TAGRV_HELLO_MAX];

		if (setuid(NOBODY))
			_exit(1);
		for (int i = 0; i < 2; i++) {
			raw_dial(&raw, &a, (uint8_t) (2 + i));
			raw.mine.addr = loopback((uint16_t) (2 + i));
			if (tagrv_hello_init(&raw.hello, NULL, true) ||
			    send(raw.fd, hello,
				 tagrv_hello_first(&raw.hello, hello), 0) < 0)
				_exit(2);
			raw_send(&raw);
			if (i)
				setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &reset,
					   sizeof(reset));
			close(raw.fd);
		}
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "status %x", status);
	await(&a, &a.ups, 1);
	fake_free(a.up.link);
	/* When this one is greeted, those before it have been looked at. */
	raw_open(&raw, &a, 4);
	close(raw.fd);
	collect(&a);
	cr_assert_eq(a.ups, 1, "%d links", a.ups);
	close(busy.fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_greet, other_users_are_not_dialed, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct tagrv_addr addr;
	int status, fds[2];
	struct ep a;
	pid_t child;

	need_users();
	cr_assert_eq(pipe(fds), 0);
	child = fork();
	if (!child) {
		struct raw raw = { .home = -1 };
		int home;

		if (setuid(NOBODY))
			_exit(1);
		home = home_open(&addr);
		if (write(fds[1], &addr, sizeof(addr)) != sizeof(addr))
			_exit(2);
		home_accept(home, &raw);
		_exit(raw_recv(&raw, &rec) ? 3 : 0);
	}
	cr_assert_eq(read(fds[0], &addr, sizeof(addr)), sizeof(addr));
	open_ep(&a, wireup, 10);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_EACCES);
	cr_assert_eq(a.fake.created, 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "status %x", status);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* The process at the dialed address says nothing, or ends. */
Test(wireup_greet, dialing_goes_on_when_nobody_greets, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_addr addr;
	int home = home_open(&addr), fd;
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 30);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	for (int i = 0; i < 3; i++) {
		fd = accept(home, NULL, NULL);
		cr_assert_geq(fd, 0);
		if (i == 1)
			cr_assert_eq(send(fd, "220 smtp ready\r\n", 16,
					  MSG_NOSIGNAL), 16);
		close(fd);
	}
	home_accept(home, &raw);
	close(raw.fd);
	collect(&a);
	cr_assert_eq(a.faileds, 0);
	close(home);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
}
