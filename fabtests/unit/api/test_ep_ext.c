/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of rdma/fi_ext_tagrv.h, and log lines with the same numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_ext_tagrv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/api/api_calls.h"

#define PATIENCE_MS	slow_ms(20000)

static struct fi_context2 ctx[4];

TestSuite(ext, .init = api_init, .fini = api_tear_down, .timeout = 30);

static struct fi_tagrv_ops_match *open_ops(struct fid_ep *ep)
{
	void *ops = NULL;

	cr_assert_eq(fi_open_ops(&ep->fid, TAGRV_EP_MATCH_OPS, 0, &ops, NULL),
		     0);
	cr_assert_not_null(ops);
	return ops;
}

static struct fi_tagrv_match_stats stats(struct fid_ep *ep)
{
	struct fi_tagrv_match_stats now;
	size_t len = sizeof(now);

	memset(&now, 0xff, sizeof(now));
	cr_assert_eq(open_ops(ep)->get_stats(ep, &now, &len), 0);
	cr_assert_eq(len, sizeof(now));
	return now;
}

static void post(uint64_t tag, int i)
{
	cr_assert_eq(fi_trecv(api.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, tag, 0,
			      &ctx[i]), 0);
}

static void progress(void)
{
	struct fi_cq_tagged_entry entry;

	(void) fi_cq_read(api.cq, &entry, 1);
}

/* Sends to ourselves and waits until 'n' messages are unexpected. */
static void send_unexpected(uint64_t tag, uint64_t n)
{
	uint64_t end = tagrv_clock_ms() + PATIENCE_MS;

	while (fi_tinject(api.ep, NULL, 0, api.self, tag) == -FI_EAGAIN)
		progress();
	while (stats(api.ep).unexpected < n) {
		cr_assert_lt(tagrv_clock_ms(), end);
		progress();
	}
}

Test(ext, unknown_names_are_refused)
{
	void *ops = &api;

	api_open_ep(&api, NULL, 0);
	cr_expect_eq(fi_open_ops(&api.ep->fid, "tagrv_ep_other", 0, &ops,
				 NULL), -FI_ENOSYS);
	cr_expect_eq(fi_open_ops(&api.ep->fid, TAGRV_EP_MATCH_OPS, 1, &ops,
				 NULL), -FI_EBADFLAGS);
	cr_expect_eq(fi_open_ops(&api.ep->fid, NULL, 0, &ops, NULL),
		     -FI_EINVAL);
	cr_expect_eq(fi_open_ops(&api.ep->fid, TAGRV_EP_MATCH_OPS, 0, NULL,
				 NULL), -FI_EINVAL);
	cr_expect_eq(ops, &api, "an output on error");
	cr_expect_eq(fi_open_ops(&api.cq->fid, TAGRV_EP_MATCH_OPS, 0, &ops,
				 NULL), -FI_ENOSYS);
}

Test(ext, checks_arguments_and_room)
{
	struct fi_tagrv_match_stats now[2];
	struct fi_tagrv_ops_match *ops;
	size_t len = sizeof(now);

	api_open_ep(&api, NULL, 0);
	ops = open_ops(api.ep);
	cr_expect_eq(ops->size, sizeof(*ops));
	cr_expect_eq(ops->get_stats(NULL, now, &len), -FI_EINVAL);
	cr_expect_eq(ops->get_stats(api.ep, NULL, &len), -FI_EINVAL);
	cr_expect_eq(ops->get_stats(api.ep, now, NULL), -FI_EINVAL);
	memset(now, 0xee, sizeof(now));
	len = sizeof(now[0]) - 1;
	cr_expect_eq(ops->get_stats(api.ep, now, &len), -FI_ETOOSMALL);
	cr_expect_eq(len, sizeof(now[0]));
	cr_expect_eq(now[0].posted, UINT64_C(0xeeeeeeeeeeeeeeee));
	/* A newer application has room for more members. */
	len = sizeof(now);
	cr_expect_eq(ops->get_stats(api.ep, now, &len), 0);
	cr_expect_eq(len, sizeof(now[0]));
	cr_expect_eq(now[0].posted, 0);
	cr_expect_eq(now[1].posted, UINT64_C(0xeeeeeeeeeeeeeeee));
}

Test(ext, needs_an_enabled_endpoint)
{
	struct fi_tagrv_match_stats now;
	size_t len = sizeof(now);

	api_open_domain(&api, NULL);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	cr_expect_eq(open_ops(api.ep)->get_stats(api.ep, &now, &len),
		     -FI_EOPBADSTATE);
}

Test(ext, counts_queued_receives_and_messages)
{
	struct fi_tagrv_match_stats now;
	uint64_t searches, probes;

	api_open_ep(&api, NULL, 0);
	for (int i = 0; i < 3; i++)
		post(100 + (uint64_t) i, i);
	now = stats(api.ep);
	cr_expect_eq(now.posted, 3);
	cr_expect_eq(now.posted_peak, 3);
	cr_expect_eq(now.posted_oldest, 2);
	cr_expect_eq(now.unexpected, 0);
	searches = now.searches;
	probes = now.probes;
	send_unexpected(7, 1);
	send_unexpected(8, 2);
	now = stats(api.ep);
	cr_expect_eq(now.unexpected, 2);
	cr_expect_eq(now.unexpected_peak, 2);
	cr_expect_eq(now.unexpected_oldest, 1);
	cr_expect_eq(now.searches, searches + 2);
	cr_expect_gt(now.probes, probes);
	post(7, 3);
	cr_assert_eq(fi_cancel(&api.ep->fid, &ctx[0]), 0);
	now = stats(api.ep);
	cr_expect_eq(now.posted, 2);
	cr_expect_eq(now.posted_peak, 3);
	cr_expect_eq(now.unexpected, 1);
	cr_expect_eq(now.unexpected_peak, 2);
}

Test(ext, an_alias_has_the_statistics_of_its_endpoint)
{
	struct fid_ep *alias = NULL;

	api_open_ep(&api, NULL, 0);
	cr_assert_eq(fi_ep_alias(api.ep, &alias, 0), 0);
	post(1, 0);
	cr_expect_eq(stats(alias).posted, 1);
	api_must_close(&alias->fid);
}

/* Bytes of the first versions, which applications built with them pass for ever. */
enum { MATCH_FIRST = 80, PROTO_FIRST = 152 };

static struct fi_tagrv_proto_stats protocols(void)
{
	struct fi_tagrv_proto_stats now[2];
	struct fi_tagrv_ops_proto *ops;
	size_t len = PROTO_FIRST - 1;
	void *found = NULL;

	memset(now, 0xee, sizeof(now));
	cr_assert_eq(fi_open_ops(&api.ep->fid, TAGRV_EP_PROTO_OPS, 0, &found,
				 NULL), 0);
	ops = found;
	cr_assert_eq(ops->size, sizeof(*ops));
	cr_assert_eq(ops->get_stats(NULL, now, &len), -FI_EINVAL);
	cr_assert_eq(ops->get_stats(api.ep, now, &len), -FI_ETOOSMALL);
	cr_assert_eq(len, PROTO_FIRST);
	len = sizeof(now);
	cr_assert_eq(ops->get_stats(api.ep, now, &len), 0);
	cr_assert_eq(len, sizeof(now[0]));
	cr_assert_eq(now[1].eager_tx, UINT64_C(0xeeeeeeeeeeeeeeee));
	return now[0];
}

/* ---- the caller's room ---- */

static int get_match(void *stats, size_t *len)
{
	return open_ops(api.ep)->get_stats(api.ep, stats, len);
}

static int get_proto(void *stats, size_t *len)
{
	struct fi_tagrv_ops_proto *ops;
	void *found = NULL;

	cr_assert_eq(fi_open_ops(&api.ep->fid, TAGRV_EP_PROTO_OPS, 0, &found,
				 NULL), 0);
	ops = found;
	return ops->get_stats(api.ep, stats, len);
}

/* 'get', whose struct has 'size' bytes, fills the room it has and no byte more. */
static void expect_filled(int (*get)(void *stats, size_t *len), size_t room,
			  size_t size)
{
	uint64_t words[64];
	const unsigned char *bytes = (const unsigned char *) words;
	size_t len = room, want = room < size ? room : size;

	memset(words, 0xee, sizeof(words));
	cr_expect_eq(get(words, &len), 0);
	cr_expect_eq(len, want);
	for (size_t i = 0; i < sizeof(words); i++)
		cr_expect_eq(bytes[i] == 0xee, i >= want,
			     "byte %zu with room for %zu", i, room);
}

static void expect_refused(int (*get)(void *stats, size_t *len), size_t first)
{
	uint64_t words[64], untouched[64];
	size_t len = first - 1;

	memset(words, 0xee, sizeof(words));
	memset(untouched, 0xee, sizeof(untouched));
	cr_expect_eq(get(words, &len), -FI_ETOOSMALL);
	cr_expect_eq(len, first);
	cr_expect(!memcmp(words, untouched, sizeof(words)));
}

Test(ext, nothing_is_written_behind_the_callers_room)
{
	const size_t match = sizeof(struct fi_tagrv_match_stats);
	const size_t proto = sizeof(struct fi_tagrv_proto_stats);

	api_open_ep(&api, NULL, 0);
	expect_refused(get_match, MATCH_FIRST);
	expect_refused(get_proto, PROTO_FIRST);
	for (size_t more = 0; more <= 32; more += 4) {
		expect_filled(get_match, MATCH_FIRST + more, match);
		expect_filled(get_proto, PROTO_FIRST + more, proto);
	}
}

/* ---- messages by protocol ---- */

/* One message to ourselves, by call with flags, and both its completions. */
static void send_to_self(const char *from, char *to, size_t len, uint64_t flags)
{
	struct iovec iov = { (void *) (uintptr_t) from, len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = api.self, .tag = 1,
		.context = &ctx[1],
	};
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	cr_assert_eq(fi_trecv(api.ep, to, len, NULL, FI_ADDR_UNSPEC, 1, 0,
			      &ctx[0]), 0);
	cr_assert_eq(fi_tsendmsg(api.ep, &msg, flags), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert(api_wait(&api, &entry, &ret));
		cr_assert_eq(ret, 1);
	}
}

Test(ext, counts_messages_by_protocol)
{
	static char from[100000], to[100000];
	static const char *const rndv[] = { "get", "put", "copy" };
	const struct fi_tagrv_proto_stats none = { 0 };

	for (int i = 0; i < 3; i++) {
		struct fi_tagrv_proto_stats want = {
			.eager_tx = 2, .eager_rx = 2,
			.announced_tx = 1, .announced_rx = 1,
			.acks_tx = i == 1 ? 1 : 2,
			.ack_packets_tx = i == 1 ? 1 : 2,
		}, now;

		if (i == 0)
			want.get_tx = want.get_rx = 1;
		if (i == 1)
			want.put_tx = want.put_rx = 1;
		if (i == 2)
			want.copy_tx = want.copy_rx = 1;
		setenv("FI_TAGRV_RNDV", rndv[i], 1);
		api_open_ep(&api, NULL, 0);
		now = protocols();
		cr_expect(!memcmp(&now, &none, sizeof(now)));
		send_to_self(from, to, 8, 0);
		send_to_self(from, to, 8, FI_MATCH_COMPLETE);
		send_to_self(from, to, sizeof(from), 0);
		now = protocols();
		cr_expect(!memcmp(&now, &want, sizeof(now)), "%s", rndv[i]);
		api_close(&api);
	}
}

static void expect_line(const char *all, const char *what)
{
	cr_expect_not_null(strstr(all, what), "no '%s' in: %s", what, all);
}

/* The ops work for all endpoints: passing a shared context must not crash. */
Test(ext, a_shared_context_has_no_protocols)
{
	struct fi_tagrv_proto_stats now;
	struct fi_tagrv_ops_proto *ops;
	size_t len = sizeof(now);
	struct fid_ep *srx;
	void *found;

	api_open_ep(&api, NULL, 0);
	cr_assert_eq(fi_srx_context(api.domain, NULL, &srx, NULL), 0);
	cr_expect_eq(fi_open_ops(&srx->fid, TAGRV_EP_PROTO_OPS, 0, &found,
				 NULL), -FI_ENOSYS);
	cr_assert_eq(fi_open_ops(&api.ep->fid, TAGRV_EP_PROTO_OPS, 0, &found,
				 NULL), 0);
	ops = found;
	cr_expect_eq(ops->get_stats(srx, &now, &len), -FI_EOPBADSTATE);
	cr_expect_eq(len, sizeof(now));
	api_must_close(&srx->fid);
}

/* ---- dumps ---- */

static struct fi_tagrv_ops_dump *open_dump(struct fid_ep *ep)
{
	void *ops = NULL;

	cr_assert_eq(fi_open_ops(&ep->fid, TAGRV_EP_DUMP_OPS, 0, &ops, NULL),
		     0);
	return ops;
}

/* What a pipe gets of the dump. */
static const char *dump(struct fid_ep *ep)
{
	static char text[16384];
	ssize_t len;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(open_dump(ep)->dump(ep, fds[1]), 0);
	close(fds[1]);
	len = read(fds[0], text, sizeof(text) - 1);
	cr_assert_gt(len, 0);
	text[len] = '\0';
	close(fds[0]);
	return text;
}

Test(ext, dumps_to_a_descriptor)
{
	struct fid_ep *alias = NULL;

	api_open_ep(&api, NULL, 0);
	cr_expect_eq(open_dump(api.ep)->size, sizeof(struct fi_tagrv_ops_dump));
	expect_line(dump(api.ep), "  receives: 0\n");
	post(0x77, 0);
	expect_line(dump(api.ep), "  receives: 1 (1 POSTED)\n");
	expect_line(dump(api.ep), "tag 0x77, 0 bytes");
	cr_assert_eq(fi_ep_alias(api.ep, &alias, 0), 0);
	expect_line(dump(alias), "tag 0x77, 0 bytes");
	api_must_close(&alias->fid);
}

Test(ext, dump_checks_its_arguments)
{
	struct fi_tagrv_ops_dump *ops;
	int fd;

	api_open_ep(&api, NULL, 0);
	ops = open_dump(api.ep);
	cr_expect_eq(ops->dump(NULL, STDERR_FILENO), -FI_EINVAL);
	cr_expect_eq(ops->dump(api.ep, -1), -EBADF);
	fd = open("/dev/full", O_WRONLY);
	cr_expect_eq(ops->dump(api.ep, fd), -ENOSPC);
	close(fd);
	fd = open("/dev/null", O_RDONLY);
	cr_expect_eq(ops->dump(api.ep, fd), -EBADF);
	close(fd);
}

Test(ext, dump_needs_an_enabled_endpoint)
{
	api_open_domain(&api, NULL);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	cr_expect_eq(open_dump(api.ep)->dump(api.ep, STDERR_FILENO),
		     -FI_EOPBADSTATE);
}

Test(ext, a_shared_context_has_no_dump)
{
	struct fid_ep *srx;
	void *found = NULL;

	api_open_ep(&api, NULL, 0);
	cr_assert_eq(fi_srx_context(api.domain, NULL, &srx, NULL), 0);
	cr_expect_eq(fi_open_ops(&srx->fid, TAGRV_EP_DUMP_OPS, 0, &found, NULL),
		     -FI_ENOSYS);
	cr_expect_null(found);
	cr_expect_eq(open_dump(api.ep)->dump(srx, STDERR_FILENO),
		     -FI_EOPBADSTATE);
	api_must_close(&srx->fid);
}

/* ---- the log ---- */

Test(ext, statistics_are_logged_periodically_and_at_close)
{
	uint64_t end = tagrv_clock_ms() + PATIENCE_MS;
	const char *text = "";

	setenv("FI_TAGRV_MATCH_STATS", "1", 1);
	api_log_start("info");
	api_open_ep(&api, NULL, 0);
	post(1, 0);
	api_log_lines(NULL);
	while (!strstr(text, "searches")) {
		cr_assert_lt(tagrv_clock_ms(), end, "nothing in the log");
		progress();
		api_log_lines(&text);
	}
	expect_line(text, "1 receives posted, at most 1,");
	expect_line(text, "0 messages unexpected, at most 0,");
	send_unexpected(2, 1);
	api_log_lines(NULL);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_log_lines(&text);
	expect_line(text, "1 receives posted, at most 1,");
	expect_line(text, "1 messages unexpected, at most 1,");
}

Test(ext, statistics_are_not_logged_by_default)
{
	const char *text;

	api_log_start("info");
	api_open_ep(&api, NULL, 0);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_log_lines(&text);
	cr_expect_null(strstr(text, "receives posted"), "%s", text);
	cr_expect_null(strstr(text, "one-sided"), "%s", text);
}

/* A write to ourselves, and its completion or error. */
static void write_to_self(uint64_t key)
{
	static const char byte = 1;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { .err_data_size = 0 };
	ssize_t ret;

	cr_assert_eq(fi_write(api.ep, &byte, 1, NULL, api.self, 0, key, &ctx[0]), 0);
	cr_assert(api_wait(&api, &entry, &ret));
	if (ret == -FI_EAVAIL)
		cr_assert_eq(fi_cq_readerr(api.cq, &error, 0), 1);
}

Test(ext, onesided_operations_are_logged_at_close)
{
	struct fi_info *hints = api_hints();
	struct fid_mr *mr;
	const char *text;
	char window;

	hints->caps = FI_MSG | FI_RMA;
	api_log_start("info");
	api_open_ep(&api, hints, 0);
	fi_freeinfo(hints);
	cr_assert_eq(fi_mr_reg(api.domain, &window, 1, FI_REMOTE_WRITE, 0, 5, 0, &mr,
			       NULL), 0);
	write_to_self(5);
	write_to_self(6);
	api_must_close(&mr->fid);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_log_lines(&text);
	expect_line(text, "of one-sided operations, 2 were sent, 0 of them by views, without the "
		    "peer; of those that came, "
		    "1 were carried out and 1 refused; sent: 2 writes of 2 bytes, 0 reads of 0, 0 "
		    "atomics of 0; carried out: 1 writes of 1 bytes, 0 reads of 0, 0 atomics of 0");
}
