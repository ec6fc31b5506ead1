/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A process that has no business with the other two, but reaches their ports.
 */
#include "strangers.h"

#include "framework/pattern.h"
#include "wireup/wireup_rec.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NOBODY = 65534, AT_ONCE = 4000, PER_ROUND = 4 };

struct stranger {
	struct test *t;
	uint64_t random;
	uint8_t uuid[2][TAGRV_UUID_LEN];	/* as the endpoints told us */
};

static struct tagrv_addr addr_of(int rank)
{
	struct tagrv_addr addr;

	CHECK(!tagrv_addr_from(&addr, &board->name[rank], sizeof(board->name[rank])),
	      "rank %d has no IPv4 address", rank);
	return addr;
}

static void be_nobody(void)
{
	/* Without root's rights all processes have the same user, which is worse. */
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
static struct tagrv_wireup_rec make_req(struct stranger *s, int as)
{
	struct tagrv_wireup_rec rec = {
		.type = TAGRV_WIREUP_REQ,
		.version_min = TAGRV_WIRE_VERSION_MIN,
		.version_max = TAGRV_WIRE_VERSION,
		.src_epoch = 1 + (uint32_t)(pattern_next(&s->random) % 5),
		.max_packet = 8192,
		.addr = addr_of(as),
		.link_cnt = 1,
		.links[0] = { .wire_id = 3, .len = TAGRV_BLOB_MAX, .max_packet = 8192 },
	};

	for (size_t i = 0; i < TAGRV_UUID_LEN; i++)
		rec.src_uuid[i] = (uint8_t)(1 + pattern_next(&s->random) % 255);
	for (size_t i = 0; i < TAGRV_NONCE_LEN; i++)
		rec.src_nonce[i] = (uint8_t)pattern_next(&s->random);
	for (size_t i = 0; i < TAGRV_BLOB_MAX; i++)
		rec.links[0].data[i] = (uint8_t)pattern_next(&s->random);
	return rec;
}

/* Makes a lie of one of several kinds out of the REQ. */
static void make_lie(struct stranger *s, struct tagrv_wireup_rec *rec, int to)
{
	switch (pattern_next(&s->random) % 5) {
	case 0:			/* a restarted process */
		break;
	case 1:			/* the same process, another link */
		memcpy(rec->src_uuid, s->uuid[!to], TAGRV_UUID_LEN);
		break;
	case 2:			/* the same, which knows the receiver */
		memcpy(rec->src_uuid, s->uuid[!to], TAGRV_UUID_LEN);
		memcpy(rec->dst_uuid, s->uuid[to], TAGRV_UUID_LEN);
		break;
	case 3:			/* resumes a connection */
		memcpy(rec->src_uuid, s->uuid[!to], TAGRV_UUID_LEN);
		memcpy(rec->dst_uuid, s->uuid[to], TAGRV_UUID_LEN);
		rec->dst_epoch = 1 + (uint32_t)(pattern_next(&s->random) % 3);
		break;
	default:		/* no link at all */
		rec->link_cnt = 0;
	}
}

/* False: the other end has closed the socket. */
static bool put(int fd, const struct tagrv_wireup_rec *rec)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	size_t len = tagrv_wireup_rec_encode(rec, buf);

	atomic_fetch_add(&board->records, 1);
	return send(fd, buf, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static void count(const struct tagrv_wireup_rec *rec)
{
	if (rec->type != TAGRV_WIREUP_REJ)
		atomic_fetch_add(&board->accepted, 1);
	else if (rec->reason == TAGRV_WIREUP_BUSY)
		atomic_fetch_add(&board->busy, 1);
	else
		atomic_fetch_add(&board->refused, 1);
}

/* Waits for an answer. False: the socket was closed without one. */
static bool get(int fd, struct tagrv_wireup_rec *rec)
{
	uint8_t buf[TAGRV_WIREUP_REC_MAX];
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t len;

	while (!poll(&pfd, 1, 100))
		CHECK_MOVES("no answer to a record");
	len = recv(fd, buf, sizeof(buf), 0);
	if (len <= 0) {
		atomic_fetch_add(&board->resets, 1);
		return false;
	}
	/* A short record is in one segment, and only its end may be cut off. */
	CHECK(!tagrv_wireup_rec_decode(buf, (size_t)tagrv_wireup_rec_length(buf, (size_t)len), rec),
	      "a malformed answer");
	count(rec);
	return true;
}

/* Asks for the uuid of an endpoint, as anybody may. */
static void learn(struct stranger *s, int rank)
{
	struct tagrv_wireup_rec rec = make_req(s, rank);
	int fd = dial(rank);

	CHECK(fd >= 0 && put(fd, &rec) && get(fd, &rec), "rank %d does not answer", rank);
	memcpy(s->uuid[rank], rec.src_uuid, TAGRV_UUID_LEN);
	close(fd);
}

static void begin(struct test *t, struct stranger *s)
{
	*s = (struct stranger){ .t = t, .random = t->seed + 1 };
	be_nobody();
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
	struct tagrv_wireup_rec rec = make_req(s, !to);
	int fd = dial(to);

	if (fd < 0)
		return;
	make_lie(s, &rec, to);
	if (put(fd, &rec))
		get(fd, &rec);
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
	struct tagrv_wireup_rec rec;

	for (int i = 0; i < 2 * PER_ROUND; i++) {
		fd[n] = dial(i & 1);
		if (fd[n] < 0)
			continue;
		rec = make_req(s, !(i & 1));
		make_lie(s, &rec, i & 1);
		put(fd[n++], &rec);
	}
	/* The second claim of one peer is answered at once: so all have arrived. */
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
		struct tagrv_wireup_rec rec = make_req(&s, RIGHT);
		int *fd = &fds[i % AT_ONCE];

		if (*fd >= 0)
			close(*fd);
		*fd = dial(LEFT);
		if (i % 3 == 0)
			rec.addr.in.sin_port = htons((uint16_t)(1 + i % 65535));
		else
			make_lie(&s, &rec, LEFT);
		if (*fd >= 0)
			put(*fd, &rec);
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
