/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two honest endpoints and one that lies, in one process, over RDMA devices in memory that
 * match tagged messages with a list of receives (FI_TAGRV_HW_TAGS). The liar's packets are
 * changed on their way (liar_tags.c): forged numbers of senders, forms and flags that are not
 * allowed, tags of receives that are gone. The honest ones take receives back all the time.
 *
 *	tagrv_liar_devices [--lies N] [--percent N] [--seed N]
 *
 * No message among the honest ones is lost, doubled, damaged or out of order, no send of theirs
 * fails, and each of their operations with the liar ends once. A forged number of the honest
 * sender takes a receive, which is as it must be: it ends with -FI_EREMOTEIO and is posted
 * again. The devices tell of a message and its bytes at once, so that the liar is known by its
 * connection; with others a forged number is believed (SECURITY.md).
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include "common/fake_verbs.h"
#include "common/tag_list.h"
#include "framework/options.h"
#include "framework/pattern.h"
#include "liar_tags.h"

enum { LEFT, RIGHT, LIAR, ENDS };
/* More receives than sends, so that most messages find one in the list. */
enum { WINDOW = 6, RECVS = 16, CHATS = 4, LEN_MAX = 20000, CHAT_LEN = 30000, LIST_DELAY = 6, PHASE = 200, TALK = 8 };

/* The provider's own, in this program. */
struct fi_provider *fi_prov_ini(void);

static uint64_t lies = 200, percent = 10;

struct op {
	struct fi_context2 ctx;
	bool	busy, ok;		/* ok: a receive that has a message */
	uint64_t number;		/* a send's, or that of the message that a receive got */
	uint8_t	*buf;
};

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint8_t	name[128];
	fi_addr_t addr[ENDS];
	/* Among the honest: numbers of the next send and the next receive, sends that have ended,
	 * receives whose end was looked at in order, the number that the next of these has. */
	uint64_t sent, posted, done, seen, got;
	struct op tx[WINDOW], rx[RECVS];
	struct op chat_tx[ENDS][CHATS], chat_rx[ENDS][CHATS];	/* with and of the liar */
};

static struct end ends[ENDS];
static uint64_t rnd, turns;
static bool talks;
static uint64_t taken, chats_ok, chats_failed, cancels, matched, unexpected;

/* ---- opening ---- */

static void alloc_ops(struct op *ops, int cnt, size_t len)
{
	for (int i = 0; i < cnt; i++) {
		ops[i].buf = calloc(1, len);
		CHECK(ops[i].buf, "no memory");
	}
}

static void get_info(struct end *e, const struct fi_provider *provider, int nr)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints, "no memory");
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	CHECK(asprintf(&hints->domain_attr->name, "fake%d", nr) > 0, "no memory");
	CHECK_OK(provider->getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &e->info));
	fi_freeinfo(hints);
}

static void open_end(struct end *e, const struct fi_provider *provider, int nr)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	size_t len = sizeof(e->name);

	get_info(e, provider, nr);
	CHECK_OK(provider->fabric(e->info->fabric_attr, &e->fabric, NULL));
	CHECK_OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	CHECK_OK(fi_av_open(e->domain, &av, &e->av, NULL));
	CHECK_OK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	CHECK_OK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	CHECK_OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	CHECK_OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_enable(e->ep));
	CHECK_OK(fi_getname(&e->ep->fid, e->name, &len));
	alloc_ops(e->tx, WINDOW, LEN_MAX);
	alloc_ops(e->rx, RECVS, LEN_MAX);
	for (int i = 0; i < ENDS; i++) {
		alloc_ops(e->chat_tx[i], CHATS, CHAT_LEN);
		alloc_ops(e->chat_rx[i], CHATS, CHAT_LEN);
	}
}

static void meet(void)
{
	for (int i = 0; i < ENDS; i++)
		for (int k = 0; k < ENDS; k++)
			CHECK(fi_av_insert(ends[i].av, ends[k].name, 1, &ends[i].addr[k], 0, NULL) == 1,
			      "fi_av_insert");
}

static void free_ops(struct op *ops, int cnt)
{
	for (int i = 0; i < cnt; i++)
		free(ops[i].buf);
}

static void close_end(struct end *e)
{
	CHECK_OK(fi_close(&e->cq->fid));
	CHECK_OK(fi_close(&e->av->fid));
	CHECK_OK(fi_close(&e->domain->fid));
	CHECK_OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
	free_ops(e->tx, WINDOW);
	free_ops(e->rx, RECVS);
	for (int i = 0; i < ENDS; i++) {
		free_ops(e->chat_tx[i], CHATS);
		free_ops(e->chat_rx[i], CHATS);
	}
}

/* ---- messages among the honest ---- */

static size_t len_of(uint64_t number)
{
	static const size_t most[] = { 48, 48, 200, 48, 3000, 3000, 8000, LEN_MAX };
	size_t last = most[number % 8];

	return number * 2654435761u % (last + 1);
}

static uint64_t seed_of(int from, uint64_t number)
{
	return (uint64_t)from << 48 | number;
}

static void post_send(int nr)
{
	struct end *e = &ends[nr];
	struct op *op = &e->tx[e->sent % WINDOW];
	size_t len = len_of(e->sent);
	struct iovec iov = { op->buf, len };
	/* A wish for an end, or more than 32 bits of data, needs the form with a header. */
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = e->addr[!nr], .tag = e->sent, .context = op,
		.data = e->sent % 3 ? 7 : UINT64_MAX,
	};
	uint64_t flags = (e->sent % 5 ? 0 : FI_DELIVERY_COMPLETE) | (e->sent % 2 ? 0 : FI_REMOTE_CQ_DATA);
	ssize_t ret;

	if (op->busy)
		return;
	pattern_fill(op->buf, len, seed_of(nr, e->sent));
	ret = fi_tsendmsg(e->ep, &msg, flags | FI_COMPLETION);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "send %" PRIu64 ": %s", e->sent, fi_strerror((int)-ret));
	op->busy = true;
	e->sent++;
}

static void post_receives(int nr)
{
	struct end *e = &ends[nr];

	while (e->posted < e->seen + RECVS) {
		struct op *op = &e->rx[e->posted % RECVS];
		ssize_t ret = fi_trecv(e->ep, op->buf, LEN_MAX, NULL, e->addr[!nr], 0, UINT64_MAX, op);

		if (ret == -FI_EAGAIN)
			return;
		CHECK(!ret, "receive: %s", fi_strerror((int)-ret));
		op->busy = true;
		op->ok = false;
		e->posted++;
	}
}

/* Receives get messages in the order of both, apart from those that a forged one has taken. */
static void look_in_order(struct end *e)
{
	while (e->seen < e->posted && !e->rx[e->seen % RECVS].busy) {
		const struct op *op = &e->rx[e->seen++ % RECVS];

		if (!op->ok)
			continue;
		CHECK(op->number == e->got, "message %" PRIu64 " comes for %" PRIu64, op->number, e->got);
		e->got++;
	}
}

static void end_receive(int nr, struct op *op, uint64_t tag, size_t len, int err)
{
	op->ok = !err;
	op->number = tag;
	if (op->ok) {
		CHECK(len == len_of(tag) && pattern_check(op->buf, len, seed_of(!nr, tag)) == len,
		      "message %" PRIu64 " is damaged", tag);
	} else {
		CHECK(err == FI_EREMOTEIO, "a receive fails: %s", fi_strerror(err));
		taken++;
	}
	look_in_order(&ends[nr]);
}

/* ---- messages with the liar ---- */

static void chat(int nr, int with)
{
	static const size_t lens[] = { 0, 8, 40, 100, 3000, 8000, 20000, CHAT_LEN };
	uint64_t r = pattern_next(&rnd);
	struct end *e = &ends[nr];
	struct op *tx = &e->chat_tx[with][r % CHATS], *rx = &e->chat_rx[with][(r >> 8) % CHATS];
	bool any = r & 1 << 20;

	if (!tx->busy)
		tx->busy = !fi_tsend(e->ep, tx->buf, lens[(r >> 24) % 8], NULL, e->addr[with], r >> 32 & 3, tx);
	if (!rx->busy)
		rx->busy = !fi_trecv(e->ep, rx->buf, CHAT_LEN, NULL, e->addr[with], r >> 40 & 3,
				     any ? UINT64_MAX : 0, rx);
	else if (nr != LIAR && !(r >> 44 & 7))
		cancels += !fi_cancel(&e->ep->fid, rx);
}

/* ---- completions ---- */

static bool is_of(const struct op *op, const struct op *ops, size_t cnt)
{
	return op >= ops && op < ops + cnt;
}

static void complete(int nr, struct op *op, uint64_t tag, size_t len, int err)
{
	struct end *e = &ends[nr];

	CHECK(op->busy, "an operation has ended twice");
	op->busy = false;
	/* What the liar has with the others may go on although these hang. */
	if (is_of(op, e->rx, RECVS) || is_of(op, e->tx, WINDOW) || !talks)
		run_moved();
	if (is_of(op, e->rx, RECVS)) {
		end_receive(nr, op, tag, len, err);
	} else if (is_of(op, e->tx, WINDOW)) {
		CHECK(!err, "a send to an honest peer fails: %s", fi_strerror(err));
		e->done++;
	} else if (nr != LIAR) {
		chats_failed += !!err;
		chats_ok += !err;
	}
}

static bool poll_one(int nr)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(ends[nr].cq, &entry, 1);

	if (ret == 1)
		complete(nr, entry.op_context, entry.tag, entry.len, 0);
	else if (ret == -FI_EAVAIL && fi_cq_readerr(ends[nr].cq, &err, 0) == 1)
		complete(nr, err.op_context, err.tag, err.len, err.err);
	else
		return false;
	return true;
}

/* ---- turns ---- */

static struct tag_list *list_of(unsigned nr)
{
	struct ibv_srq *srq = fake_verbs_last_srq(nr);
	struct tag_list *list = srq ? fake_verbs_list(srq) : NULL;

	CHECK(list, "device %u has no list of receives", nr);
	return list;
}

/* Commands of the lists wait at times, so that messages cross them. */
static void delay_lists(void)
{
	uint32_t most = turns++ / PHASE % 4 ? 1 : LIST_DELAY;

	for (unsigned i = LEFT; i <= RIGHT; i++) {
		struct tag_list_delays delays = {
			.apply = (uint32_t)(pattern_next(&rnd) % most),
			.report = (uint32_t)(pattern_next(&rnd) % most),
		};

		tag_list_set_delays(list_of(i), &delays);
	}
}

static void turn(bool talk, int ends_open)
{
	bool idle = true;

	talks = talk;
	for (int nr = 0; nr < ends_open; nr++) {
		if (talk && nr != LIAR)
			post_send(nr);
		/* What no receive matches keeps entries of the list from becoming active. */
		if (talk && nr != LIAR && turns % TALK == 0) {
			chat(nr, LIAR);
			chat(LIAR, nr);
		}
		if (nr != LIAR)
			post_receives(nr);
		while (poll_one(nr))
			idle = false;
	}
	delay_lists();
	if (idle)
		sched_yield();
	CHECK_MOVES("%" PRIu64 " lies told, %" PRIu64 " and %" PRIu64 " sent, %" PRIu64 " and %" PRIu64
		    " received: nothing moves", tag_lies_told, ends[0].done, ends[1].done, ends[1].got,
		    ends[0].got);
}

static bool is_busy(const struct op *ops, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (ops[i].busy)
			return true;
	return false;
}

/* The liar has gone: what the honest ones have with it ends, and what they have among them. */
static void finish(void)
{
	bool busy = true;

	CHECK_OK(fi_close(&ends[LIAR].ep->fid));
	for (int nr = LEFT; nr <= RIGHT; nr++)
		for (int i = 0; i < CHATS; i++)
			if (ends[nr].chat_rx[LIAR][i].busy)
				(void)fi_cancel(&ends[nr].ep->fid, &ends[nr].chat_rx[LIAR][i]);
	while (busy) {
		turn(false, LIAR);
		busy = ends[LEFT].got < ends[RIGHT].sent || ends[RIGHT].got < ends[LEFT].sent;
		for (int nr = LEFT; nr <= RIGHT; nr++)
			busy = busy || ends[nr].done < ends[nr].sent ||
			       is_busy(ends[nr].chat_tx[LIAR], CHATS) ||
			       is_busy(ends[nr].chat_rx[LIAR], CHATS);
	}
	CHECK(taken <= tag_lies[TAG_LIE_NUMBER] + tag_lies[TAG_LIE_OTHER] + tag_lies[TAG_LIE_BODY] +
	      tag_lies[TAG_LIE_REPLAY], "%" PRIu64 " receives were taken", taken);
	for (unsigned i = LEFT; i <= RIGHT; i++) {
		unexpected += tag_list_unexpected(list_of(i));
		matched += tag_lies_arrived(i) - tag_list_unexpected(list_of(i));
	}
	CHECK(matched, "no receive of a list got a message");
	CHECK_OK(fi_close(&ends[LEFT].ep->fid));
	CHECK_OK(fi_close(&ends[RIGHT].ep->fid));
}

static void tell(const struct test *t)
{
	printf("seed %" PRIu64 ": %" PRIu64 " lies to lists of receives\n", t->seed, tag_lies_told);
	for (int i = 0; i < TAG_LIES; i++)
		printf("%10" PRIu64 " %s\n", tag_lies[i], tag_lie_names[i]);
	printf("operations of the honest ones with the liar: %" PRIu64 " succeeded, %" PRIu64 " failed; %"
	       PRIu64 " receives were taken back\n", chats_ok, chats_failed, cancels);
	printf("messages to the honest ones: %" PRIu64 " matched by their devices, %" PRIu64 " by software\n",
	       matched, unexpected);
	printf("messages among the honest ones: %" PRIu64 " and %" PRIu64 ", lost 0, doubled 0, out of "
	       "order 0, damaged 0; %" PRIu64 " receives were taken by a forged number\n", ends[0].sent,
	       ends[1].sent, taken);
}

static void liar_devices(struct test *t)
{
	struct fake_verbs_config config = fake_verbs_as("mlx5");
	struct fi_provider *provider = fi_prov_ini();

	/* Libraries that libfabric loads print and exit. */
	for (const int *sig = (const int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, 0 }; *sig; sig++)
		signal(*sig, SIG_DFL);
	rnd = t->seed;
	config.devices = ENDS;
	config.tm_mtu = 0;
	config.tm_no_read = true;
	fake_verbs_start(&config);
	for (int i = 0; i < ENDS; i++)
		open_end(&ends[i], provider, i);
	meet();
	tag_lies_begin(LIAR, (unsigned)percent, lies, t->seed + 1);
	while (tag_lies_told < lies)
		turn(true, ENDS);
	finish();
	for (int i = 0; i < ENDS; i++)
		close_end(&ends[i]);
	provider->cleanup();
	CHECK(!fake_verbs_count().objects, "%u objects of the devices are left", fake_verbs_count().objects);
	CHECK(!fake_verbs_count().cq_overflows, "completions were lost");
	fake_verbs_stop();
	tell(t);
}

int main(int argc, char **argv)
{
	static const struct test_case one = { "liar_devices", "", liar_devices, .ranks = 1, .self = true };
	struct option_number own[] = {
		{ "lies", "lies to tell", &lies },
		{ "percent", "of the liar's tagged messages that are lies", &percent },
	};
	struct run_tally tally = { 0 };
	struct options opt;

	setenv("FI_TAGRV_TRANSPORTS", "verbs", 1);
	setenv("FI_TAGRV_HW_TAGS", "yes", 1);
	setenv("FI_TAGRV_PROFILE", "none", 0);
	setenv("FI_TAGRV_CLOSE_TIMEOUT", "0", 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, 2);
	options_default_timeout(&opt, 60 + (int)(lies / 50));
	opt.run.self |= one.self;
	run_counted(&one, &opt.run, &tally);
	run_print_tally(&tally);
	return tally.failed || !tally.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
