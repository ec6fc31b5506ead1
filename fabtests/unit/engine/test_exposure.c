/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What each protocol lets peers do, as a (fake) RDMA device is told: the rights of
 * registered buffers, and of queue pairs.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_VERBS
#include <string.h>

#include "unit/engine/ends_calls.h"

#define LONG	((size_t) 2 << 20)
#define READ	IBV_ACCESS_REMOTE_READ
#define WRITE	IBV_ACCESS_REMOTE_WRITE
#define LOCAL	IBV_ACCESS_LOCAL_WRITE

/* A buffer within pages of its own, and what was registered of it. */
static struct buffer {
	char	before[4096 + 24], bytes[LONG], behind[4096];
	int	access;			/* of all registrations together */
	unsigned cnt;			/* registrations */
	bool	beyond;			/* peers had rights beyond the bytes */
	size_t	longest;		/* bytes that peers had rights to at once */
} from, to;

static void note(struct buffer *buf, const void *addr, size_t len, int access)
{
	const char *first = addr, *end = first + len;

	if (end <= buf->before || first >= buf->behind + sizeof(buf->behind))
		return;
	buf->access |= access & (READ | WRITE | LOCAL);
	buf->cnt++;
	if (!(access & (READ | WRITE)))
		return;
	buf->beyond |= first < buf->bytes || end > buf->bytes + LONG;
	buf->longest = TAGRV_MAX(buf->longest, len);
}

static void on_reg(const void *addr, size_t len, int access)
{
	note(&from, addr, len, access);
	note(&to, addr, len, access);
}

static void start(void)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	tagrv_param_define();
	/* Probes are empty writes. */
	setenv("FI_TAGRV_PROBE", "0", 1);
	fake_verbs_start(&config);
	fake_verbs_on_reg(on_reg);
}

TestSuite(exposure, .init = start, .fini = fake_verbs_stop, .timeout = 60);

static struct end ends[2];
static fi_addr_t there;

static void open_ends(void)
{
	open_end(&ends[0], "verbs");
	open_end(&ends[1], "verbs");
	there = know(&ends[0], &ends[1]);
}

static void close_ends(void)
{
	close_end(&ends[0]);
	close_end(&ends[1]);
}

static void transfer(struct buffer *a, struct buffer *b, size_t len)
{
	memset(b->bytes, 0, len);
	post(&ends[1], b->bytes, len, 1);
	submit(&ends[0], there, a->bytes, len, 1);
	await(&ends[0], ends, 2);
	await(&ends[1], ends, 2);
	cr_assert(!memcmp(a->bytes, b->bytes, len));
}

struct rights {
	const char *rndv, *proto;	/* parameters */
	size_t	len;
	enum tagrv_proto moves;		/* what it is to be moved by */
	int	sent, received, qp;	/* rights that are due */
};

static void check(const struct rights *r)
{
	memset(from.bytes, 'x', r->len);
	setenv("FI_TAGRV_RNDV", r->rndv, 1);
	setenv("FI_TAGRV_PROTO", r->proto, 1);
	open_ends();
	transfer(&from, &to, r->len);
	transfer(&from, &to, r->len);
	cr_expect_eq(ends[1].engine->stats.moved_rx[r->moves],
		     r->moves < TAGRV_PROTO_RNDV_END ? 2 : 0);
	cr_expect_eq(ends[0].engine->stats.prepared_tx,
		     r->moves == TAGRV_PROTO_EAGER_PREP ? 2 : 0);
	close_ends();
	cr_expect_eq(from.access, r->sent, "sent with %#x", from.access);
	cr_expect_eq(to.access, r->received, "received with %#x", to.access);
	cr_expect_eq((int) fake_verbs_count().qp_access, r->qp, "queue pairs admit %#x",
		     fake_verbs_count().qp_access);
	cr_expect_not(from.beyond || to.beyond);
}

/* The receiver reads what was sent, and nobody writes anywhere. */
Test(exposure, get)
{
	check(&(struct rights) { "get", "", LONG, TAGRV_PROTO_RNDV_READ,
				 READ | LOCAL, LOCAL, READ });
}

Test(exposure, put)
{
	check(&(struct rights) { "put", "", LONG, TAGRV_PROTO_RNDV_WRITE,
				 LOCAL, WRITE | LOCAL, WRITE });
}

Test(exposure, pipeline)
{
	check(&(struct rights) { "pipeline", "", LONG, TAGRV_PROTO_RNDV_PIPE,
				 READ | LOCAL, LOCAL, READ });
}

Test(exposure, copy)
{
	check(&(struct rights) { "copy", "", LONG, TAGRV_PROTO_RNDV_COPY, 0, 0, 0 });
}

/* The device reads the sender's buffer; the queue pairs are for longer messages. */
Test(exposure, prepared)
{
	check(&(struct rights) { "get", "prepared:2k-8k", 4096,
				 TAGRV_PROTO_EAGER_PREP, LOCAL, 0, READ });
}

/* Some sizes by put: both rights, because both are in use. */
Test(exposure, get_and_put)
{
	check(&(struct rights) { "auto", "get:64k-1m,put:1m-", LONG,
				 TAGRV_PROTO_RNDV_WRITE, LOCAL, WRITE | LOCAL,
				 READ | WRITE });
}

Test(exposure, of_itself_nobody_may_write)
{
	check(&(struct rights) { "auto", "get:64k-", LONG, TAGRV_PROTO_RNDV_READ,
				 READ | LOCAL, LOCAL, READ });
}

/* Both protocols that the provider chooses by itself only read. */
Test(exposure, by_default_nobody_may_write)
{
	memset(from.bytes, 'x', LONG);
	open_ends();
	for (int i = 0; i < 3; i++)
		transfer(&from, &to, LONG >> i);
	close_ends();
	cr_expect_eq(from.access, READ | LOCAL);
	cr_expect_eq(to.access, LOCAL);
	cr_expect_eq(fake_verbs_count().qp_access, READ);
	cr_expect_not(from.beyond);
}

/* They need the right of a queue pair, but no memory. */
Test(exposure, probes_are_admitted)
{
	memset(from.bytes, 'x', LONG);
	setenv("FI_TAGRV_PROBE", "1", 1);
	open_end(&ends[0], "verbs");
	setenv("FI_TAGRV_PROBE", "0", 1);
	open_end(&ends[1], "verbs");
	there = know(&ends[0], &ends[1]);
	transfer(&from, &to, LONG);
	for (int i = 0; i < 2; i++) {
		struct tagrv_link *link = ends[i].engine->table.peers[0]->lane->link;

		tagrv_lock_acquire(&ends[i].dom->lock);
		for (int k = 0; k < 3; k++)
			link->xport->ops->check(link, true);
		tagrv_lock_release(&ends[i].dom->lock);
	}
	transfer(&from, &to, 1000);
	close_ends();
	cr_expect_eq(fake_verbs_count().qp_access, READ | WRITE);
	cr_expect_eq(to.access, LOCAL, "nobody may write to memory");
}

/* A peer that proposes what this endpoint does not admit: it is copied, or read. */
static void propose(const char *theirs, const char *ours)
{
	memset(from.bytes, 'x', LONG);
	setenv("FI_TAGRV_RNDV", theirs, 1);
	open_end(&ends[0], "verbs");
	setenv("FI_TAGRV_RNDV", ours, 1);
	open_end(&ends[1], "verbs");
	there = know(&ends[0], &ends[1]);
	transfer(&from, &to, LONG);
	transfer(&from, &to, 100000);
	close_ends();
}

Test(exposure, proposals_that_are_not_admitted)
{
	static const char *const all[] = { "get", "put", "copy", "pipeline" };

	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 4; k++)
			propose(all[i], all[k]);
	propose("put", "auto");
	propose("auto", "put");
}

/* ---- FI_TAGRV_EXPOSE ---- */

/* Regions of the buffers that peers may use, when all messages have ended. */
static unsigned left(const char *expose, const char *rndv, size_t longest)
{
	unsigned cnt;

	setenv("FI_TAGRV_EXPOSE", expose, 1);
	setenv("FI_TAGRV_RNDV", rndv, 1);
	memset(from.bytes, 'x', LONG);
	from.longest = 0;
	open_ends();
	transfer(&from, &to, LONG);
	transfer(&from, &to, 100000);
	cr_expect_eq(from.longest, longest, "%zu bytes", from.longest);
	cnt = fake_verbs_count().exposed;
	close_ends();
	return cnt;
}

Test(exposure, keys_end_with_their_messages)
{
	size_t piece = 524288;

	cr_expect_eq(left("message", "get", LONG), 0);
	cr_expect_eq(left("message", "pipeline", piece), 0);
	cr_expect_eq(left("message", "put", 0), 0);
	cr_expect_not(from.beyond || to.beyond);
	/* Of a short message, only its bytes; not those sent before. */
	setenv("FI_TAGRV_RNDV", "get", 1);
	open_ends();
	transfer(&from, &to, LONG);
	from.longest = 0;
	transfer(&from, &to, 100000);
	cr_expect_eq(from.longest, 100000);
	close_ends();
}

/* Where the kernel lets memory be watched; else no registration is kept. */
Test(exposure, kept_keys_are_of_what_was_sent)
{
	cr_expect_leq(left("cache", "get", LONG), 1);
	cr_expect_not(from.beyond);
	cr_expect_eq(to.access, LOCAL);
	cr_expect_eq(left("cache", "put", 0), 0, "to write to: never");
}

Test(exposure, wrong_words_are_cache)
{
	struct tagrv_dom *dom;
	const struct tagrv_dom_attr attr = { .name = "loop" };

	setenv("FI_TAGRV_EXPOSE", "nobody", 1);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(tagrv_dom_open(&attr, &dom), 0);
		cr_expect_eq(dom->lasting, TAGRV_MEM_READ | TAGRV_MEM_STORE);
		tagrv_dom_close(dom);
	}
	setenv("FI_TAGRV_EXPOSE", "MESSAGE", 1);
	cr_assert_eq(tagrv_dom_open(&attr, &dom), 0);
	cr_expect_eq(dom->lasting, TAGRV_MEM_STORE);
	tagrv_dom_close(dom);
}
#endif
