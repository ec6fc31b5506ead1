/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes exchange messages, while a third one, which has no business with
 * them, talks to the ports of both.
 *
 *   hijack_traffic   requests in the name of one to the other, under traffic
 *   hijack_dialing   the same, while one dials and the other is stopped
 *   hijack_bound     the same, while the answer to a request is on its way
 *   flood            requests in all names, faster than sockets go away, and few
 *                    descriptors: the application gets its own all the same
 *   idle             thousands of sockets that say nothing: a peer connects soon
 *   cut              nobody else is there, but the sockets that the two keep as a
 *                    sign of life break again and again
 *
 * No message may be lost, doubled or damaged, and no operation may fail.
 */
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/options.h"
#include "framework/pattern.h"
#include "strangers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WINDOW = 8, LEN_MAX = 3000, FILES = 256, OWN_FILES = 100, DELAY_MAX = 2000, PEERS = 20,
       SOON_MS = 2000 };

struct board *board;

static uint64_t records = 1000, rounds = 200, flood = 20000, sockets = 5000, cuts = 500, harsh;

/* ---- messages ---- */

struct op {
	struct fi_context2 ctx;
	bool busy;
	uint64_t number;
	uint8_t buf[LEN_MAX];
};

/* Numbered messages to and from the other one, WINDOW at a time each way. */
struct talk {
	struct fx fx;
	int other;
	uint64_t sent, done, posted, got;
	uint64_t before;	/* received from earlier endpoints of the other one */
	struct op tx[WINDOW], rx[WINDOW];
};

static size_t len_of(uint64_t number)
{
	return 1 + number * 37 % LEN_MAX;
}

static uint64_t seed_of(int from, uint64_t number)
{
	return (uint64_t)from << 48 | number;
}

static void open_talk(struct test *t, struct talk *k)
{
	size_t len = sizeof(board->name[0]);
	int life = atomic_load(&board->opened[t->rank]);

	memset(k, 0, sizeof(*k));
	k->other = !t->rank;
	fx_open(t, &k->fx, &(struct fx_attr){ .disabled = true });
	CHECK_OK(fi_enable(k->fx.ep));
	CHECK_OK(fi_getname(&k->fx.ep->fid, &board->name[t->rank], &len));
	run_phase("open");
	atomic_store(&board->opened[t->rank], life + 1);
}

/* Waits for the endpoint of the other one that was opened in this round. */
static void meet(struct talk *k, int round)
{
	while (atomic_load(&board->opened[k->other]) <= round) {
		FX_CHECK_MOVES(&k->fx, "the other one does not come");
		fx_progress(&k->fx);
		sched_yield();
	}
	memcpy(k->fx.name[k->other], &board->name[k->other], sizeof(board->name[0]));
	fx_insert(&k->fx, k->other);
}

static void post_send(struct talk *k)
{
	struct op *op = &k->tx[k->sent % WINDOW];
	size_t len = len_of(k->sent);
	ssize_t ret;

	if (op->busy)
		return;
	pattern_fill(op->buf, len, seed_of(k->fx.t->rank, k->sent));
	ret = TRY_SEND(&k->fx, .tagged = true, .buf = op->buf, .len = len,
		       .addr = k->fx.addr[k->other], .tag = k->sent, .ctx = op);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "send %" PRIu64 ": %s", k->sent, fi_strerror((int)-ret));
	op->busy = true;
	k->sent++;
}

/* Receives take any message: they must match in order. */
static void post_receive(struct talk *k)
{
	struct op *op = &k->rx[k->posted % WINDOW];
	ssize_t ret;

	if (op->busy)
		return;
	ret = TRY_RECV(&k->fx, .tagged = true, .buf = op->buf, .len = LEN_MAX,
		       .addr = FI_ADDR_UNSPEC, .tag = 0, .ignore = UINT64_MAX, .ctx = op);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "receive: %s", fi_strerror((int)-ret));
	op->busy = true;
	op->number = k->posted++;
}

static void take(struct talk *k, const struct comp *c)
{
	struct op *op = c->ctx;
	uint64_t number = op->number - k->before;
	size_t len = len_of(number);

	CHECK(!c->err, "receive %" PRIu64 " fails: %s", number, fi_strerror(c->err));
	CHECK(op->busy && c->tag == number, "receive %" PRIu64 " got message %" PRIu64 ", after %"
	      PRIu64 " in all", number, c->tag, k->got);
	CHECK(c->len == len && pattern_check(op->buf, len, seed_of(k->other, number)) == len,
	      "message %" PRIu64 " is damaged", number);
	op->busy = false;
	k->got++;
}

static void turn(struct talk *k, bool send)
{
	struct comp c;
	bool idle = true;

	if (send)
		post_send(k);
	post_receive(k);
	while (comp_poll(&k->fx, FX_TX, &c)) {
		CHECK(!c.err, "send %" PRIu64 " fails: %s", k->done, fi_strerror(c.err));
		((struct op *)c.ctx)->busy = false;
		k->done++;
		idle = false;
	}
	while (comp_poll(&k->fx, FX_RX, &c)) {
		take(k, &c);
		idle = false;
	}
	if (idle)
		sched_yield();
	FX_CHECK_MOVES(&k->fx, "%" PRIu64 " sent, %" PRIu64 " received: nothing moves", k->done,
		       k->got);
}

/* Sends no more, and receives what the other one has sent. */
static void finish(struct talk *k)
{
	int rank = k->fx.t->rank;

	while (k->done < k->sent)
		turn(k, false);
	atomic_store(&board->posted[rank], k->sent);
	atomic_store(&board->ended[rank], true);
	while (!atomic_load(&board->ended[k->other]) ||
	       k->got < atomic_load(&board->posted[k->other]))
		turn(k, false);
}

/* Waits for the other one of the two, with progress. */
static void join(struct talk *k)
{
	int meetings = atomic_fetch_add(&board->arrived, 1) / 2 + 1;

	while (atomic_load(&board->arrived) < 2 * meetings) {
		FX_CHECK_MOVES(&k->fx, "the other one does not get here");
		fx_progress(&k->fx);
		sched_yield();
	}
}

static void close_talk(struct talk *k)
{
	join(k);
	fx_close_now(&k->fx);
}

/* ---- under traffic ---- */

static struct talk talk;

static void tell(const struct talk *k, const char *what)
{
	printf("%s: %" PRIu64 " records: %" PRIu64 " refused, %" PRIu64 " told to come later, %" PRIu64
	       " sockets closed, %" PRIu64 " accepted; %" PRIu64 " messages sent, %" PRIu64
	       " received, none lost\n", what, atomic_load(&board->records),
	       atomic_load(&board->refused), atomic_load(&board->busy),
	       atomic_load(&board->resets), atomic_load(&board->accepted), k->done, k->got);
}

static void traffic(struct test *t)
{
	if (t->rank == STRANGER) {
		stranger_hijack(t, records);
		return;
	}
	open_talk(t, &talk);
	meet(&talk, 0);
	while (talk.got < 100)
		turn(&talk, true);
	atomic_store(&board->asked, 1);
	while (!atomic_load(&board->attacked))
		turn(&talk, true);
	finish(&talk);
	if (t->rank == LEFT)
		tell(&talk, "under traffic");
	close_talk(&talk);
}

/* ---- while a connection is made ---- */

static bool left_sends;

/*
 * Rank 0 stops rank 1 for the time of the attack: as soon as it has sent (it dials,
 * and gets no answer), or some time after rank 1 has begun to send.
 */
static void attack_stopped(struct test *t, struct talk *k, int round, uint64_t *random)
{
	pid_t pid = atomic_load(&t->shared->rank[RIGHT].pid);

	while (!atomic_load(&board->ready) ||
	       (!left_sends && atomic_load(&board->sending) <= round))
		turn(k, false);
	if (!left_sends)
		usleep((useconds_t)(pattern_next(random) % DELAY_MAX));
	CHECK(!kill(pid, SIGSTOP), "cannot stop rank 1");
	if (left_sends)
		while (k->sent < WINDOW)
			post_send(k);
	atomic_store(&board->asked, round + 1);
	while (atomic_load(&board->attacked) <= round)
		turn(k, false);
	CHECK(!kill(pid, SIGCONT), "cannot continue rank 1");
}

static void one_round(struct test *t, struct talk *k, int round, uint64_t *random)
{
	bool sends = left_sends == (t->rank == LEFT);

	open_talk(t, k);
	meet(k, round);
	run_step("round %d", round);
	join(k);
	if (t->rank == LEFT) {
		attack_stopped(t, k, round, random);
	} else if (sends) {
		while (k->sent < WINDOW)
			post_send(k);
		atomic_store(&board->sending, round + 1);
	}
	while (sends ? k->done < WINDOW : k->got < WINDOW)
		turn(k, false);
	close_talk(k);
}

static void making(struct test *t)
{
	uint64_t random = t->seed;

	if (t->rank == STRANGER) {
		stranger_rounds(t);
		return;
	}
	for (int round = 0; round < (int)rounds; round++)
		one_round(t, &talk, round, &random);
	if (t->rank == LEFT)
		printf("%s: %" PRIu64 " rounds, %" PRIu64 " records; all messages arrived\n",
		       left_sends ? "while dialing" : "while bound", rounds,
		       atomic_load(&board->records));
	atomic_store(&board->over, true);
}

/* ---- descriptors ---- */

/* The application opens some files of its own and closes them again. */
static void open_files(void)
{
	int fd[OWN_FILES];

	for (int i = 0; i < OWN_FILES; i++) {
		fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		CHECK(fd[i] >= 0, "the application gets no descriptor");
	}
	for (int i = 0; i < OWN_FILES; i++)
		close(fd[i]);
}

static void flooded(struct test *t)
{
	struct rlimit limit = { FILES, FILES };
	int64_t start;

	if (t->rank == STRANGER) {
		stranger_flood(t, flood);
		return;
	}
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit), "cannot lower the limit of descriptors");
	open_talk(t, &talk);
	meet(&talk, 0);
	while (talk.got < 100)
		turn(&talk, true);
	atomic_store(&board->asked, 1);
	start = run_now();
	while (!atomic_load(&board->attacked)) {
		turn(&talk, true);
		open_files();
	}
	if (t->rank == LEFT)
		printf("flood: %.0f records a second, limit of %d descriptors, own ones always open\n",
		       (double)flood * 1000 / (double)(run_now() - start + 1), FILES);
	finish(&talk);
	if (t->rank == LEFT)
		tell(&talk, "flood");
	close_talk(&talk);
}

/* ---- silence ---- */

static void ignored(struct test *t)
{
	int64_t worst = 0, start;

	if (t->rank == STRANGER) {
		stranger_idle(t, sockets);
		return;
	}
	open_talk(t, &talk);
	while (!atomic_load(&board->attacked))
		turn(&talk, false);
	for (int peer = 0; peer < PEERS; peer++) {
		if (t->rank == RIGHT && peer) {
			fx_close_now(&talk.fx);
			open_talk(t, &talk);
		}
		join(&talk);
		if (t->rank == LEFT)
			talk.before = talk.got;
		meet(&talk, t->rank == LEFT ? peer : 0);
		start = run_now();
		while (t->rank == RIGHT ? talk.done < WINDOW :
						   talk.got < talk.before + WINDOW)
			turn(&talk, t->rank == RIGHT && talk.sent < WINDOW);
		if (run_now() - start > worst)
			worst = run_now() - start;
		join(&talk);
	}
	atomic_store(&board->over, true);
	CHECK(worst < run_slow_ms(SOON_MS), "a peer connects only after %" PRId64 " ms", worst);
	if (t->rank == RIGHT)
		printf("silence: %" PRIu64 " sockets; %d peers connected, the last to do so within %"
		       PRId64 " ms\n", sockets, PEERS, worst);
	fx_close_now(&talk.fx);
}

/* ---- cuts ---- */

/* Sockets that the kernel has destroyed; the others were shut down. */
static uint64_t destroyed;

/* As 'ss -K' does: the kernel ends the connection. It may refuse, or be built without. */
static bool destroy(int fd, const struct sockaddr_in *own, const struct sockaddr_in *peer)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);
	/* Without it, the listener is found, and destroyed, if the connection has just ended. */
	bool known = !getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size);
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} msg = {
		.head = { sizeof(msg), SOCK_DESTROY, NLM_F_REQUEST | NLM_F_ACK, 0, 0 },
		.req = {
			.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u,
			.id = {
				.idiag_sport = own->sin_port, .idiag_dport = peer->sin_port,
				.idiag_src = { own->sin_addr.s_addr }, .idiag_dst = { peer->sin_addr.s_addr },
				.idiag_cookie = { (uint32_t)cookie, (uint32_t)(cookie >> 32) },
			},
		},
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		char	rest[512];
	} answer;
	int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	bool done = known && nl >= 0 && send(nl, &msg, sizeof(msg), 0) == (ssize_t)sizeof(msg) &&
		    recv(nl, &answer, sizeof(answer), 0) >= (ssize_t)NLMSG_LENGTH(sizeof(answer.err)) &&
		    answer.head.nlmsg_type == NLMSG_ERROR && !answer.err.error;

	if (nl >= 0)
		close(nl);
	destroyed += done;
	return done;
}

/* Ends the TCP connections of this process. Returns how many there were. */
static unsigned cut_sockets(void)
{
	struct sockaddr_in sa, own;
	unsigned cnt = 0;

	for (int fd = 3; fd < FILES; fd++) {
		socklen_t len = sizeof(sa);

		if (getpeername(fd, (struct sockaddr *)&sa, &len) || sa.sin_family != AF_INET)
			continue;
		len = sizeof(own);
		if (!getsockname(fd, (struct sockaddr *)&own, &len) &&
		    ((harsh && destroy(fd, &own, &sa)) || !shutdown(fd, SHUT_RDWR)))
			cnt++;
	}
	return cnt;
}

static void cut(struct test *t)
{
	uint64_t done = 0;

	if (t->rank == STRANGER)
		return;
	open_talk(t, &talk);
	meet(&talk, 0);
	while (talk.got < 100)
		turn(&talk, true);
	while (t->rank == LEFT && done < cuts) {
		done += cut_sockets();
		for (int i = 0; i < 20; i++)
			turn(&talk, true);
	}
	if (t->rank == LEFT)
		atomic_store(&board->attacked, 1);
	while (!atomic_load(&board->attacked))
		turn(&talk, true);
	finish(&talk);
	if (t->rank == LEFT)
		printf("cut: %" PRIu64 " sockets, %" PRIu64 " of them as 'ss -K' does; %" PRIu64
		       " messages sent, %" PRIu64 " received, none lost\n", done, destroyed, talk.done,
		       talk.got);
	close_talk(&talk);
}

/* ---- all ---- */

static void dialing(struct test *t)
{
	left_sends = true;
	making(t);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "hijack_traffic", "", traffic, .ranks = RANKS },
		{ "hijack_dialing", "", dialing, .ranks = RANKS },
		{ "hijack_bound", "", making, .ranks = RANKS },
		{ "flood", "", flooded, .ranks = RANKS },
		{ "idle", "", ignored, .ranks = RANKS },
		{ "cut", "", cut, .ranks = RANKS },
	};
	struct option_number own[] = {
		{ "records", "lies under traffic", &records },
		{ "rounds", "connections that are made under attack, each way", &rounds },
		{ "flood", "records of the flood", &flood },
		{ "sockets", "that say nothing", &sockets },
		{ "cuts", "of the sockets that are kept", &cuts },
		{ "harsh", "1: the kernel destroys them, as ss -K does", &harsh },
	};
	struct run_tally tally = { 0 };
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, sizeof(own) / sizeof(own[0]));
	options_default_timeout(&opt, 300);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED || opt.run.self)
		return 2;
	printf("seed %" PRIu64 "\n", opt.run.seed);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (opt.pattern && !strstr(cases[i].name, opt.pattern))
			continue;
		memset(board, 0, sizeof(*board));
		run_counted(&cases[i], &opt.run, &tally);
	}
	run_print_tally(&tally);
	return tally.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
