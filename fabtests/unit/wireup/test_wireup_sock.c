/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Foreign connections, slow peers, peers of later releases, and lack of sockets.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "unit/wireup/wireup_fixture.h"

Test(wireup_sock, garbage_is_refused_and_logged_once, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	static uint8_t junk[65536];
	struct tagrv_wireup_rec rec;
	struct raw raw;
	struct ep a, b;

	open_ep(&a, wireup, 10);
	cr_assert_eq(getrandom(junk, sizeof(junk), 0), sizeof(junk));
	junk[0] = 'x';
	for (int i = 0; i < 5; i++) {
		raw_dial(&raw, &a, 1);
		(void) !send(raw.fd, junk, sizeof(junk), MSG_NOSIGNAL);
		cr_assert_eq(raw_recv(&raw, &rec), 0);
		close(raw.fd);
	}
	/* Right magic, wrong length. */
	memcpy(junk, TAGRV_WIREUP_MAGIC "\xff\xff", 10);
	raw_open(&raw, &a, 1);
	cr_assert_eq(send(raw.fd, junk, 16, MSG_NOSIGNAL), 16);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	close(raw.fd);
	/* Half a record and nothing else. */
	raw_open(&raw, &a, 1);
	cr_assert_eq(send(raw.fd, TAGRV_WIREUP_MAGIC, 8, MSG_NOSIGNAL), 8);
	shutdown(raw.fd, SHUT_WR);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	close(raw.fd);
	/* A record that must not be the first one. */
	raw_open(&raw, &a, 1);
	raw.mine.type = TAGRV_WIREUP_RTU;
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	close(raw.fd);
	/* A port scan is not logged. */
	raw_open(&raw, &a, 1);
	close(raw.fd);
	cr_assert_eq(log_count("not a peer of ours"), 1);
	open_ep(&b, wireup, 10);
	connect_ep(&b, &a);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	cr_assert_eq(a.gones, 0);
	free_pair(&a, &b);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_sock, ends_are_seen_although_a_forked_process_has_copies,
     .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	struct raw raw;
	struct ep a;
	pid_t child;

	open_ep(&a, wireup, 10);
	raw_connect(&raw, &a, 1, 1);
	child = fork();
	if (!child) {
		close(raw.fd);
		alarm(PATIENCE / 1000 + 5);	/* ends the test if it hangs */
		pause();
		_exit(0);
	}
	cr_assert_gt(child, 0);
	/* After garbage the connection is closed at once. */
	memset(&rec, 'x', sizeof(rec));
	cr_assert_eq(send(raw.fd, &rec, 64, MSG_NOSIGNAL), 64);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	await(&a, &a.gones, 1);
	close(raw.fd);
	fake_free(a.up.link);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(wireup_sock, slow_connection_is_closed, .timeout = 60)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	uint64_t start = now_ms();
	struct raw slow, silent;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_dial(&silent, &a, 1);
	raw_dial(&slow, &a, 1);
	for (int i = 0; i < 8; i++) {
		struct pollfd pfd = { .fd = slow.fd, .events = POLLIN };

		cr_assert_eq(send(slow.fd, &TAGRV_WIREUP_MAGIC[i], 1,
				  MSG_NOSIGNAL), 1);
		poll(&pfd, 1, 100);
	}
	cr_assert_eq(raw_recv(&slow, &rec), 0);
	cr_assert_eq(raw_recv(&silent, &rec), 0);
	cr_assert_geq(now_ms() - start, 4000);
	cr_assert_lt(now_ms() - start, slow_ms(15000));
	close(slow.fd);
	close(silent.fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_sock, bytes_one_by_one_are_a_record, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	uint8_t buf[2 * TAGRV_WIREUP_REC_MAX];
	struct tagrv_wireup_rec rec;
	struct raw raw;
	struct ep a;
	size_t len;

	open_ep(&a, wireup, 10);
	raw_open(&raw, &a, 1);
	len = tagrv_wireup_rec_encode(&raw.mine, buf);
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(send(raw.fd, buf + i, 1, MSG_NOSIGNAL), 1);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	/* Several records in one segment are several records. */
	raw.mine.type = TAGRV_WIREUP_RTU;
	raw_name_link(&raw, &rec);
	raw.mine.link_cnt = 0;
	len = tagrv_wireup_rec_encode(&raw.mine, buf);
	raw.mine.type = TAGRV_WIREUP_CLOSE;
	len += tagrv_wireup_rec_encode(&raw.mine, buf + len);
	cr_assert_eq(send(raw.fd, buf, len, MSG_NOSIGNAL), (ssize_t) len);
	await(&a, &a.gones, 1);
	cr_assert_eq(a.sendables, 1);
	cr_assert_eq(a.gone.status, 0);
	cr_assert_eq(a.up.max_packet, 1000);
	fake_free(a.up.link);
	close(raw.fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_sock, future_version_is_refused_politely, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec;
	uint8_t buf[300];
	struct raw raw;
	struct ep a;

	open_ep(&a, wireup, 10);
	raw_dial(&raw, &a, 1);
	raw.mine.version_min = TAGRV_WIRE_VERSION + 1;
	raw.mine.version_max = TAGRV_WIRE_VERSION + 9;
	tagrv_wireup_rec_encode(&raw.mine, memset(buf, 0xee, sizeof(buf)));
	/* The body is of an unknown version. */
	memset(buf + TAGRV_WIREUP_REC_HEAD, 0xa5,
	       sizeof(buf) - TAGRV_WIREUP_REC_HEAD);
	buf[8] = sizeof(buf) >> 8;
	buf[9] = sizeof(buf) & 0xff;
	cr_assert_eq(send(raw.fd, buf, sizeof(buf), MSG_NOSIGNAL),
		     sizeof(buf));
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REJ);
	cr_assert_eq(rec.reason, TAGRV_WIREUP_VERSION);
	cr_assert_eq(rec.version_max, TAGRV_WIRE_VERSION);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	close(raw.fd);
	cr_assert_eq(log_count("its tagrv is newer than this one"), 1);
	cr_assert_eq(log_count("not a peer of ours"), 0);
	close_ep(&a);
	cr_assert_eq(a.fake.created, 0);
	tagrv_wireup_destroy(wireup);
}

/* A listener that answers every REQ with these bytes. */
struct answerer {
	int	fd;
	uint8_t	buf[TAGRV_WIREUP_REC_MAX];
	size_t	len;
};

static void *answer_once(void *arg)
{
	struct answerer *ans = arg;
	uint8_t junk[TAGRV_WIREUP_REC_MAX];
	int fd = accept(ans->fd, NULL, NULL);

	cr_assert_geq(fd, 0);
	cr_assert_gt(recv(fd, junk, sizeof(junk), 0), 0);
	cr_assert_eq(send(fd, ans->buf, ans->len, MSG_NOSIGNAL),
		     (ssize_t) ans->len);
	while (recv(fd, junk, sizeof(junk), 0) > 0)
		;
	close(fd);
	return NULL;
}

static void start_answerer(struct answerer *ans, struct tagrv_addr *addr,
			   pthread_t *thread)
{
	struct tagrv_addr any = loopback(0);
	socklen_t len = sizeof(any.in);

	ans->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(ans->fd, &any.sa, len), 0);
	cr_assert_eq(listen(ans->fd, 5), 0);
	cr_assert_eq(getsockname(ans->fd, &any.sa, &len), 0);
	*addr = loopback(tagrv_addr_port(&any));
	cr_assert_eq(pthread_create(thread, NULL, answer_once, ans), 0);
}

Test(wireup_sock, refusal_from_the_future_is_understood, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct tagrv_wireup_rec rec = {
		.type = TAGRV_WIREUP_REJ,
		.reason = TAGRV_WIREUP_VERSION,
		.version_min = TAGRV_WIRE_VERSION + 3,
		.version_max = TAGRV_WIRE_VERSION + 4,
	};
	struct answerer ans;
	struct tagrv_addr addr;
	pthread_t thread;
	struct ep a;

	tagrv_wireup_rec_encode(&rec, ans.buf);
	ans.len = 20;		/* a body of four bytes */
	ans.buf[8] = 0;
	ans.buf[9] = 20;
	start_answerer(&ans, &addr, &thread);
	open_ep(&a, wireup, 10);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	await(&a, &a.faileds, 1);
	cr_assert_eq(a.failed.status, -FI_ENOPROTOOPT);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	pthread_join(thread, NULL);
	close(ans.fd);
	tagrv_wireup_destroy(wireup);
}

Test(wireup_sock, another_service_at_the_port_is_not_a_peer, .timeout = 30)
{
	struct tagrv_wireup *wireup = create();
	struct answerer ans = { .buf = "HTTP/1.1 400 Bad Request\r\n\r\n" };
	struct tagrv_addr addr;
	pthread_t thread;
	struct ep a;

	ans.len = strlen((char *) ans.buf);
	start_answerer(&ans, &addr, &thread);
	open_ep(&a, wireup, 1);
	cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	await(&a, &a.faileds, 1);
	close_ep(&a);
	cr_assert_eq(a.fake.alive, 0);
	pthread_join(thread, NULL);
	close(ans.fd);
	tagrv_wireup_destroy(wireup);
}

/* A domain that was created with these limits of descriptors. */
static struct tagrv_wireup *create_limited(rlim_t files)
{
	struct tagrv_wireup *wireup;
	struct rlimit limit, old;

	getrlimit(RLIMIT_NOFILE, &old);
	limit = old;
	limit.rlim_cur = files;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	wireup = create();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	return wireup;
}

static int count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int cnt = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

/* Silent strangers are reset one by one, and peers connect at once. */
Test(wireup_sock, silent_strangers_keep_no_peer_out, .timeout = 60)
{
	enum { STRANGERS = 400, ROUNDS = 10 };
	struct tagrv_wireup *left = create_limited(256), *right = create();
	static struct raw raws[STRANGERS];
	struct tagrv_wireup_rec rec;
	int left_open = 0;
	struct ep a, b;

	open_ep(&a, left, 30);
	/* Some say HELLO, and then nothing. */
	for (int i = 0; i < STRANGERS; i++) {
		raw_dial(&raws[i], &a, 1);
		if (i % 2)
			cr_assert_eq(raw_hello(&raws[i], &a, NULL), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		open_ep(&b, right, 30);
		connect_ep(&b, &a);
		await(&a, &a.sendables, i + 1);
		await(&b, &b.sendables, 1);
		fake_free(a.up.link);
		fake_free(b.up.link);
		close_ep(&b);
	}
	/*
	 * The silent ones that have waited longest are gone; the latest ones may stay.
	 * Those that said HELLO have few sockets more than half of what there is.
	 */
	for (int i = 0; i < STRANGERS; i++) {
		struct pollfd pfd = { .fd = raws[i].fd, .events = POLLIN };

		if (poll(&pfd, 1, 0)) {
			cr_assert_eq(raw_recv(&raws[i], &rec), 0);
			continue;
		}
		cr_assert(i % 2 || i >= STRANGERS - 34, "%d waits", i);
		left_open++;
	}
	cr_assert_leq(left_open, 128 + 16);
	for (int i = 0; i < STRANGERS; i++)
		close(raws[i].fd);
	cr_assert_eq(log_count("not a peer of ours"), 1);
	close_ep(&a);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

/* Many peers come at once, and each takes its time from the HELLO to the REQ. */
Test(wireup_sock, peers_that_are_slow_to_go_on_are_not_strangers, .timeout = 60)
{
	enum { PEERS = 100 };
	struct tagrv_wireup *wireup = create_limited(256);
	static struct raw raws[PEERS];
	struct tagrv_wireup_event event;
	struct tagrv_wireup_rec rec;
	struct ep a;

	open_ep(&a, wireup, 30);
	for (int i = 0; i < PEERS; i++)
		raw_open(&raws[i], &a, (uint8_t) (i + 1));
	for (int i = 0; i < PEERS; i++) {
		raws[i].mine.addr = loopback((uint16_t) (i + 1));
		raw_send(&raws[i]);
		cr_assert_eq(raw_recv(&raws[i], &rec), 1, "peer %d was reset", i);
		cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
	}
	cr_assert_eq(log_count("not a peer of ours"), 0);
	for (int i = 0; i < PEERS; i++)
		close(raws[i].fd);
	while (tagrv_wireup_poll(a.wep, &event))
		if (event.type == TAGRV_WIREUP_UP)
			fake_free(event.link);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/* Peers that are refused, and do not close their sockets, use up few descriptors. */
Test(wireup_sock, refused_strangers_take_few_descriptors, .timeout = 60)
{
	enum { STRANGERS = 500 };
	struct tagrv_wireup *wireup = create_limited(256);
	static struct raw raws[STRANGERS];
	struct tagrv_wireup_rec rec;
	int before, most = 0;
	struct ep a;

	open_ep(&a, wireup, 30);
	before = count_files();
	for (int i = 0; i < STRANGERS; i++) {
		raw_open(&raws[i], &a, 1);
		memset(raws[i].mine.dst_uuid, 0x77, TAGRV_UUID_LEN);
		raw_send(&raws[i]);
		cr_assert_eq(raw_recv(&raws[i], &rec), 1);
		cr_assert_eq(rec.reason, TAGRV_WIREUP_STALE);
		most = TAGRV_MAX(most, count_files() - before - i - 1);
	}
	cr_assert_leq(most, 18, "%d", most);
	for (int i = 0; i < STRANGERS; i++)
		close(raws[i].fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}

/*
 * Requests that nobody confirms take sockets and links for a while only, and no
 * more than the domain may have.
 */
Test(wireup_sock, unconfirmed_requests_take_few_descriptors, .timeout = 60)
{
	enum { STRANGERS = 300 };
	struct tagrv_wireup *left = create_limited(128), *right = create();
	static struct raw raws[STRANGERS];
	struct tagrv_wireup_event event;
	int before, most = 0;
	struct ep a, b;

	open_ep(&a, left, 30);
	open_ep(&b, right, 30);
	before = count_files();
	for (int i = 0; i < STRANGERS; i++) {
		raw_open(&raws[i], &a, 1);
		raws[i].mine.addr = loopback((uint16_t) (i + 1));
		raw_send(&raws[i]);
		most = TAGRV_MAX(most, count_files() - before - i - 1);
	}
	connect_ep(&b, &a);
	await(&b, &b.sendables, 1);
	most = TAGRV_MAX(most, count_files() - before - STRANGERS);
	/* Of 128: 80 at most are accepted; the other two are of the peer itself. */
	cr_assert_leq(most, 82, "%d", most);
	for (int i = 0; i < STRANGERS; i++)
		close(raws[i].fd);
	close_ep(&b);
	fake_free(b.up.link);
	while (tagrv_wireup_poll(a.wep, &event))
		if (event.type == TAGRV_WIREUP_UP)
			fake_free(event.link);
	close_ep(&a);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

Test(wireup_sock, sockets_beyond_the_cap_are_given_up, .timeout = 60)
{
	enum { PEERS = 40 };
	struct tagrv_wireup *left = create_limited(40), *right = create();
	static struct ep peers[PEERS];
	struct ep hub;

	open_ep(&hub, left, 30);
	for (int i = 0; i < PEERS; i++) {
		open_ep(&peers[i], right, 30);
		connect_ep(&peers[i], &hub);
		await(&peers[i], &peers[i].sendables, 1);
		await(&hub, &hub.sendables, i + 1);
		fake_free(hub.up.link);
	}
	cr_assert_eq(hub.gones, 0);
	/* One of the last, so its socket was not kept: the peer does not notice the end. */
	fake_free(peers[PEERS - 1].up.link);
	close_ep(&peers[PEERS - 1]);
	fake_free(peers[0].up.link);
	close_ep(&peers[0]);
	await(&hub, &hub.gones, 1);
	cr_assert(tagrv_addr_equal(&hub.gone.addr, &peers[0].name));
	for (int i = 1; i < PEERS - 1; i++) {
		collect(&peers[i]);
		cr_assert_eq(peers[i].gones, 0);
		fake_free(peers[i].up.link);
		close_ep(&peers[i]);
	}
	close_ep(&hub);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

/* A peer with a listener of its own asks, and gets a REP. */
static void ask_from(struct raw *raw, struct ep *to, uint8_t who)
{
	struct tagrv_wireup_rec rec;

	raw_open(raw, to, who);
	raw->mine.addr = loopback(who);
	raw_send(raw);
	cr_assert_eq(raw_recv(raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REP);
	raw->mine.type = TAGRV_WIREUP_RTU;
	raw_name_link(raw, &rec);
}

/* Peers that are connected have all the sockets, and the next one is slow. */
Test(wireup_sock, slow_peer_is_not_given_up_for_its_socket, .timeout = 60)
{
	enum { PEERS = 36 };
	struct tagrv_wireup *wireup = create_limited(64);
	struct timespec late = { .tv_sec = 1, .tv_nsec = 500000000 };
	static struct raw raws[PEERS];
	struct raw *slow = &raws[PEERS - 1], other;
	struct ep a;

	open_ep(&a, wireup, 30);
	for (int i = 0; i < PEERS; i++) {
		ask_from(&raws[i], &a, (uint8_t) (i + 1));
		if (i == PEERS - 1)
			nanosleep(&late, NULL);
		else
			raw_send(&raws[i]);
		await(&a, &a.sendables, TAGRV_MIN(i + 1, PEERS - 1));
		fake_free(a.up.link);
	}
	/* The thread greets twice, and counts its sockets in between. */
	for (int i = 0; i < 2; i++) {
		raw_open(&other, &a, 1);
		close(other.fd);
	}
	raw_send(slow);
	await(&a, &a.sendables, PEERS);
	cr_assert_eq(a.gones, 0);
	for (int i = 0; i < PEERS; i++)
		close(raws[i].fd);
	close_ep(&a);
	tagrv_wireup_destroy(wireup);
}
