/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A process that has no business with the other two, but reaches their ports.
 */
#include "strangers.h"

#include "framework/pattern.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes of records: prov/tagrv/docs/wire_protocol.md, sections 2.1 and 2.7. */
enum {
	LENGTH = 8, TYPE = 10, REASON = 11, VERSION_MIN = 12, VERSION_MAX = 14,
	HELLO_NONCE = 28, HELLO_LEN = 48,
	SRC_UUID = 24, DST_UUID = 40, SRC_EPOCH = 56, DST_EPOCH = 60, MAX_PACKET = 64,
	LINKS = 68, FAMILY = 72, PORT = 74, IP = 80, SRC_NONCE = 96, LINK = 128,
	UUID_LEN = 16, BLOB = 64, LINK_LEN = 4 + BLOB, REQ_LEN = LINK + LINK_LEN + 4,
	SHM = 3, IPV4 = 4, VERSION = 2, REC_MAX = 1024,
};
enum { REQ = 1, REJ = 4, HELLO = 8, BUSY = 3 };
enum { NOBODY = 65534, AT_ONCE = 4000, PER_ROUND = 4 };

struct stranger {
	struct test *t;
	uint64_t random;
	uint8_t uuid[2][UUID_LEN];	/* as the endpoints told us */
};

struct record {
	size_t len;
	uint8_t byte[REC_MAX];
};

static void put16(struct record *r, size_t at, unsigned value)
{
	r->byte[at] = (uint8_t)(value >> 8);
	r->byte[at + 1] = (uint8_t)value;
}

static void put32(struct record *r, size_t at, uint32_t value)
{
	put16(r, at, value >> 16);
	put16(r, at + 2, value);
}

static void put_random(struct stranger *s, struct record *r, size_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		r->byte[at + i] = (uint8_t)(1 + pattern_next(&s->random) % 255);
}

static void begin_record(struct record *r, unsigned type, size_t len)
{
	memset(r, 0, sizeof(*r));
	r->len = len;
	memcpy(r->byte, "tagrvwir", LENGTH);
	put16(r, LENGTH, (unsigned)len);
	r->byte[TYPE] = (uint8_t)type;
	put16(r, VERSION_MIN, VERSION);
	put16(r, VERSION_MAX, VERSION);
}

static void be_nobody(void)
{
	/* Without root's rights all processes have the same user. */
	if (!getuid() && setuid(NOBODY))
		run_step("still root");
}

/* Returns a connected socket, or -1: the port is busy. */
static int dial(int rank)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0, "the stranger has no descriptor left");
	if (!connect(fd, (const struct sockaddr *)&board->name[rank], sizeof(board->name[rank])))
		return fd;
	close(fd);
	return -1;
}

/* A REQ in the name of 'as', with a link over which nothing can be sent. */
static void make_req(struct stranger *s, struct record *r, int as)
{
	begin_record(r, REQ, REQ_LEN);
	put_random(s, r, SRC_UUID, UUID_LEN);
	put32(r, SRC_EPOCH, 1 + (uint32_t)(pattern_next(&s->random) % 5));
	put32(r, MAX_PACKET, 8192);
	r->byte[LINKS] = 1;
	r->byte[FAMILY] = IPV4;
	memcpy(&r->byte[PORT], &board->name[as].sin_port, 2);
	memcpy(&r->byte[IP], &board->name[as].sin_addr, 4);
	put_random(s, r, SRC_NONCE, UUID_LEN);
	r->byte[LINK] = SHM;
	r->byte[LINK + 2] = BLOB;
	put_random(s, r, LINK + 4, BLOB);
	put32(r, LINK + LINK_LEN, 8192);
}

/* Makes a lie of one of several kinds out of the REQ. */
static void make_lie(struct stranger *s, struct record *r, int to)
{
	unsigned kind = (unsigned)(pattern_next(&s->random) % 5);

	/* 0: a restarted process; else the same one, with another link, */
	if (kind == 4)
		r->byte[LINKS] = 0;
	else if (kind)
		memcpy(&r->byte[SRC_UUID], s->uuid[!to], UUID_LEN);
	/* which knows the receiver, */
	if (kind == 2 || kind == 3)
		memcpy(&r->byte[DST_UUID], s->uuid[to], UUID_LEN);
	/* and resumes a connection. */
	if (kind == 3)
		put32(r, DST_EPOCH, 1 + (uint32_t)(pattern_next(&s->random) % 3));
}

/* False: the other end has closed the socket. */
static bool put(int fd, const struct record *r)
{
	atomic_fetch_add(&board->records, 1);
	return send(fd, r->byte, r->len, MSG_NOSIGNAL) == (ssize_t)r->len;
}

/* A HELLO and the REQ at once: nobody has to wait for the answer to a HELLO. */
static bool put_both(struct stranger *s, int fd, const struct record *req)
{
	struct record hello;

	begin_record(&hello, HELLO, HELLO_LEN);
	put_random(s, &hello, HELLO_NONCE, UUID_LEN);
	memcpy(&hello.byte[HELLO_LEN], req->byte, req->len);
	hello.len += req->len;
	return put(fd, &hello);
}

static void count(const struct record *r)
{
	if (r->byte[TYPE] != REJ)
		atomic_fetch_add(&board->accepted, 1);
	else if (r->byte[REASON] == BUSY)
		atomic_fetch_add(&board->busy, 1);
	else
		atomic_fetch_add(&board->refused, 1);
}

static bool get_bytes(int fd, uint8_t *at, size_t len)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	while (len) {
		ssize_t got;

		while (!poll(&pfd, 1, 100))
			CHECK_MOVES("no answer to a record");
		got = recv(fd, at, len, 0);
		if (got <= 0)
			return false;
		at += got;
		len -= (size_t)got;
	}
	return true;
}

/* Waits for a record. False: the socket was closed. */
static bool get_record(int fd, struct record *r)
{
	if (!get_bytes(fd, r->byte, LENGTH + 2))
		return false;
	r->len = (size_t)r->byte[LENGTH] << 8 | r->byte[LENGTH + 1];
	CHECK(r->len > LENGTH + 2 && r->len <= REC_MAX, "a record of %zu bytes", r->len);
	return get_bytes(fd, &r->byte[LENGTH + 2], r->len - LENGTH - 2);
}

/* Waits for the answers to a HELLO and a REQ. False: there was none to the REQ. */
static bool get(int fd, struct record *r)
{
	if (!get_record(fd, r) || !get_record(fd, r)) {
		atomic_fetch_add(&board->resets, 1);
		return false;
	}
	count(r);
	return true;
}

/* Asks for the uuid of an endpoint, as anybody may. */
static void learn(struct stranger *s, int rank)
{
	int fd = dial(rank);
	struct record r;

	make_req(s, &r, rank);
	CHECK(fd >= 0 && put_both(s, fd, &r) && get(fd, &r), "rank %d does not answer", rank);
	memcpy(s->uuid[rank], &r.byte[SRC_UUID], UUID_LEN);
	close(fd);
}

static void begin(struct test *t, struct stranger *s)
{
	*s = (struct stranger){ .t = t, .random = t->seed + 1 };
	for (int rank = LEFT; rank <= RIGHT; rank++) {
		while (!atomic_load(&board->opened[rank])) {
			CHECK_MOVES("rank %d does not come", rank);
			usleep(1000);
		}
		learn(s, rank);
	}
	atomic_store(&board->ready, true);
}

/* Sends a REQ in the name of the other end to one end, and waits for the answer. */
static void hijack(struct stranger *s, int to)
{
	int fd = dial(to);
	struct record r;

	if (fd < 0)
		return;
	make_req(s, &r, !to);
	make_lie(s, &r, to);
	if (put_both(s, fd, &r))
		get(fd, &r);
	close(fd);
	run_moved();
}

void stranger_hijack(struct test *t, uint64_t records)
{
	struct stranger s;

	begin(t, &s);
	while (!atomic_load(&board->asked))
		usleep(1000);
	for (uint64_t i = 0; i < records; i++)
		hijack(&s, (int)(i & 1));
	atomic_store(&board->attacked, 1);
}

/* ---- while a connection is made ---- */

/* Some REQs at once to each end. An answer may have to wait for the other end. */
static void attack_round(struct stranger *s)
{
	int fd[2 * PER_ROUND], n = 0;
	struct record r;

	for (int i = 0; i < 2 * PER_ROUND; i++) {
		fd[n] = dial(i & 1);
		if (fd[n] < 0)
			continue;
		make_req(s, &r, !(i & 1));
		make_lie(s, &r, i & 1);
		put_both(s, fd[n++], &r);
	}
	/* Some of the answers have to wait for the end that is stopped. */
	usleep(1000);
	while (n > 0)
		close(fd[--n]);
	run_moved();
}

void stranger_rounds(struct test *t)
{
	struct stranger s;

	begin(t, &s);
	for (int round = 0; !atomic_load(&board->over); round++) {
		while (atomic_load(&board->asked) <= round && !atomic_load(&board->over))
			usleep(100);
		if (atomic_load(&board->over))
			break;
		attack_round(&s);
		atomic_store(&board->attacked, round + 1);
	}
}

/* ---- many sockets ---- */

static void need_files(uint64_t files)
{
	struct rlimit limit = { files + 100, files + 100 };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		run_skip("%d descriptors are not allowed", (int)files + 100);
}

void stranger_flood(struct test *t, uint64_t records)
{
	static int fds[AT_ONCE];
	struct stranger s;

	need_files(AT_ONCE);
	begin(t, &s);
	for (int i = 0; i < AT_ONCE; i++)
		fds[i] = -1;
	while (!atomic_load(&board->asked))
		usleep(1000);
	/* Nobody waits for an answer, and sockets stay open until their turn comes. */
	for (uint64_t i = 0; i < records; i++) {
		int *fd = &fds[i % AT_ONCE];
		struct record r;

		if (*fd >= 0)
			close(*fd);
		*fd = dial(LEFT);
		make_req(&s, &r, RIGHT);
		if (i % 3 == 0)
			put16(&r, PORT, 1 + (unsigned)(i % 65535));
		else
			make_lie(&s, &r, LEFT);
		if (*fd >= 0)
			put_both(&s, *fd, &r);
		run_moved();
	}
	atomic_store(&board->attacked, 1);
}

void stranger_idle(struct test *t, uint64_t sockets)
{
	struct stranger s;
	int *fds = calloc(sockets, sizeof(*fds));

	CHECK(fds, "no memory");
	need_files(sockets);
	begin(t, &s);
	be_nobody();
	for (uint64_t i = 0; i < sockets; i++) {
		fds[i] = dial(LEFT);
		run_moved();
	}
	atomic_store(&board->attacked, 1);
	while (!atomic_load(&board->over)) {
		CHECK_MOVES("the others do not come to an end");
		usleep(1000);
	}
	for (uint64_t i = 0; i < sockets; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(fds);
}
