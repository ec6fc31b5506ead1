/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All transfer calls, to the endpoint itself: arguments that arrive, flags that
 * hold, calls that are refused.
 */
#include <string.h>

#include "common/slowness.h"
#include "unit/api/api_calls.h"

static char out[64] = "what is sent", in[64];
static struct fi_context2 tx_ctx, rx_ctx;

static void open_api(uint64_t bind_flags, uint64_t tx_flags, uint64_t rx_flags)
{
	struct fi_info *hints = api_hints();

	hints->tx_attr->op_flags = tx_flags;
	hints->rx_attr->op_flags = rx_flags;
	api_open_ep(&api, hints, bind_flags);
	fi_freeinfo(hints);
}

static void open_counted(uint64_t tx_flags)
{
	struct fi_info *hints = api_hints();

	hints->tx_attr->op_flags = tx_flags;
	api_open_counted_ep(&api, hints);
	fi_freeinfo(hints);
}

TestSuite(xfer, .init = api_init, .fini = api_tear_down, .timeout = 30);

/* Calls of each family, with the same arguments as far as they have them. */
enum call { PLAIN, VECTOR, MESSAGE, DATA, INJECT, INJECTDATA, CALLS };

static const struct iovec out_iov[2] = { { out, 4 }, { out + 4, 9 } };
static const struct iovec in_iov[2] = { { in, 1 }, { in + 1, 63 } };

#define SENT	13
#define READS	1000
#define DATA_VALUE 0x1122334455667788

static ssize_t send_tagged(enum call call, uint64_t flags)
{
	const struct fi_msg_tagged msg = {
		.msg_iov = out_iov, .iov_count = 2, .addr = api.self, .tag = 5,
		.context = &tx_ctx, .data = DATA_VALUE,
	};

	switch (call) {
	case PLAIN:
		return fi_tsend(api.ep, out, SENT, NULL, api.self, 5, &tx_ctx);
	case VECTOR:
		return fi_tsendv(api.ep, out_iov, NULL, 2, api.self, 5,
				 &tx_ctx);
	case MESSAGE:
		return fi_tsendmsg(api.ep, &msg, flags);
	case DATA:
		return fi_tsenddata(api.ep, out, SENT, NULL, DATA_VALUE,
				    api.self, 5, &tx_ctx);
	case INJECT:
		return fi_tinject(api.ep, out, SENT, api.self, 5);
	default:
		return fi_tinjectdata(api.ep, out, SENT, DATA_VALUE, api.self,
				      5);
	}
}

static ssize_t send_msg(enum call call, uint64_t flags)
{
	const struct fi_msg msg = {
		.msg_iov = out_iov, .iov_count = 2, .addr = api.self,
		.context = &tx_ctx, .data = DATA_VALUE,
	};

	switch (call) {
	case PLAIN:
		return fi_send(api.ep, out, SENT, NULL, api.self, &tx_ctx);
	case VECTOR:
		return fi_sendv(api.ep, out_iov, NULL, 2, api.self, &tx_ctx);
	case MESSAGE:
		return fi_sendmsg(api.ep, &msg, flags);
	case DATA:
		return fi_senddata(api.ep, out, SENT, NULL, DATA_VALUE,
				   api.self, &tx_ctx);
	case INJECT:
		return fi_inject(api.ep, out, SENT, api.self);
	default:
		return fi_injectdata(api.ep, out, SENT, DATA_VALUE, api.self);
	}
}

static ssize_t recv_tagged(enum call call, uint64_t flags)
{
	const struct fi_msg_tagged msg = {
		.msg_iov = in_iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC,
		.tag = 4, .ignore = 1, .context = &rx_ctx,
	};

	switch (call) {
	case PLAIN:
		return fi_trecv(api.ep, in, sizeof(in), NULL, api.self, 5, 0,
				&rx_ctx);
	case VECTOR:
		return fi_trecvv(api.ep, in_iov, NULL, 2, FI_ADDR_UNSPEC, 4, 1,
				 &rx_ctx);
	default:
		return fi_trecvmsg(api.ep, &msg, flags);
	}
}

static ssize_t recv_msg(enum call call, uint64_t flags)
{
	const struct fi_msg msg = {
		.msg_iov = in_iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC,
		.context = &rx_ctx,
	};

	switch (call) {
	case PLAIN:
		return fi_recv(api.ep, in, sizeof(in), NULL, api.self, &rx_ctx);
	case VECTOR:
		return fi_recvv(api.ep, in_iov, NULL, 2, FI_ADDR_UNSPEC,
				&rx_ctx);
	default:
		return fi_recvmsg(api.ep, &msg, flags);
	}
}

/*
 * Reads all completions: entry[0] is the send's, entry[1] the receive's. Where one
 * is missing on purpose, the loop ends after READS reads or 200 ms, whichever
 * comes later.
 */
static int completions(struct fi_cq_tagged_entry entry[2])
{
	struct fi_cq_tagged_entry one;
	int64_t end = tagrv_deadline(200);
	int n = 0, reads = 0;
	ssize_t ret;

	memset(entry, 0, 2 * sizeof(*entry));
	while (n < 2 && (reads++ < READS || tagrv_time_left(end))) {
		ret = fi_cq_read(api.cq, &one, 1);
		cr_assert(ret == 1 || ret == -FI_EAGAIN, "read: %zd", ret);
		if (ret == 1) {
			entry[one.flags & FI_RECV ? 1 : 0] = one;
			n++;
		}
	}
	return n;
}

static void check_recv(const struct fi_cq_tagged_entry *entry, enum call call,
		       uint64_t space)
{
	bool data = call == DATA || call == INJECTDATA;

	cr_expect_eq(entry->op_context, &rx_ctx);
	cr_expect_eq(entry->flags, FI_RECV | space |
		     (data ? FI_REMOTE_CQ_DATA : 0), "call %d", call);
	cr_expect_eq(entry->len, SENT);
	if (data)
		cr_expect_eq(entry->data, DATA_VALUE);
	if (space == FI_TAGGED)
		cr_expect_eq(entry->tag, 5);
	cr_expect_arr_eq(in, out, SENT);
}

Test(xfer, every_call_delivers_its_arguments)
{
	struct fi_cq_tagged_entry entry[2];

	open_api(0, 0, 0);
	for (int i = 0; i < CALLS * 3; i++) {
		enum call call = (enum call) (i % CALLS);
		int want = call < INJECT ? 2 : 1;

		memset(in, 0, sizeof(in));
		cr_assert_eq(recv_tagged((enum call) (i / CALLS), 0), 0);
		cr_assert_eq(send_tagged(call, 0), 0);
		cr_assert_eq(completions(entry), want, "call %d", i);
		check_recv(&entry[1], call, FI_TAGGED);
		if (want == 2) {
			cr_expect_eq(entry[0].op_context, &tx_ctx);
			cr_expect_eq(entry[0].flags, FI_SEND | FI_TAGGED);
		}
		memset(in, 0, sizeof(in));
		cr_assert_eq(recv_msg((enum call) (i / CALLS), 0), 0);
		cr_assert_eq(send_msg(call, 0), 0);
		cr_assert_eq(completions(entry), want, "call %d", i);
		check_recv(&entry[1], call, FI_MSG);
	}
}

Test(xfer, data_of_a_message_counts_only_with_its_flag)
{
	struct fi_cq_tagged_entry entry[2];

	open_api(0, 0, 0);
	cr_assert_eq(recv_tagged(PLAIN, 0), 0);
	cr_assert_eq(send_tagged(MESSAGE, FI_REMOTE_CQ_DATA | FI_MORE), 0);
	cr_assert_eq(completions(entry), 2);
	check_recv(&entry[1], DATA, FI_TAGGED);
}

/* ---- selective completion ---- */

/* Is there a completion of the send, and of the receive? */
static void expect_seen(bool send, bool recv, const char *what)
{
	struct fi_cq_tagged_entry entry[2];

	cr_expect_eq(completions(entry), send + recv, "%s", what);
	cr_expect_eq(entry[0].flags != 0, send, "%s: send", what);
	cr_expect_eq(entry[1].flags != 0, recv, "%s: receive", what);
}

Test(xfer, selective_binding_reports_flagged_calls_only)
{
	open_api(FI_SELECTIVE_COMPLETION, 0, 0);
	recv_tagged(PLAIN, 0);
	send_tagged(PLAIN, 0);
	expect_seen(false, false, "plain");
	recv_tagged(MESSAGE, 0);
	send_tagged(MESSAGE, 0);
	expect_seen(false, false, "msg");
	recv_tagged(MESSAGE, FI_COMPLETION);
	send_tagged(MESSAGE, FI_COMPLETION);
	expect_seen(true, true, "msg with flag");
	recv_msg(PLAIN, 0);
	send_msg(MESSAGE, FI_COMPLETION);
	expect_seen(true, false, "one of both");
}

Test(xfer, flags_of_a_call_replace_those_of_the_endpoint)
{
	open_api(FI_SELECTIVE_COMPLETION, FI_COMPLETION, FI_COMPLETION);
	recv_tagged(PLAIN, 0);
	send_tagged(PLAIN, 0);
	expect_seen(true, true, "plain");
	recv_tagged(MESSAGE, 0);
	send_tagged(MESSAGE, 0);
	expect_seen(false, false, "msg");
	recv_msg(MESSAGE, 0);
	send_msg(INJECT, 0);
	expect_seen(false, false, "inject");
}

Test(xfer, errors_are_reported_under_selective_completion)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	ssize_t ret;

	open_api(FI_SELECTIVE_COMPLETION, 0, 0);
	cr_assert_eq(fi_trecv(api.ep, in, 3, NULL, FI_ADDR_UNSPEC, 5, 0,
			      &rx_ctx), 0);
	send_tagged(PLAIN, 0);
	cr_assert(api_wait(&api, &entry, &ret));
	cr_expect_eq(ret, -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(api.cq, &err, 0), 1);
	cr_expect_eq(err.err, FI_ETRUNC);
	cr_expect_eq(err.op_context, &rx_ctx);
	cr_expect_eq(err.olen, SENT - 3);
}

/* ---- levels and injection ---- */

Test(xfer, all_completion_levels_are_accepted)
{
	static const uint64_t levels[] = {
		FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
		FI_MATCH_COMPLETE, FI_INJECT,
		FI_INJECT | FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE,
	};
	struct fi_cq_tagged_entry entry[2];

	open_api(0, 0, 0);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(levels); i++) {
		recv_tagged(PLAIN, 0);
		cr_assert_eq(send_tagged(MESSAGE, levels[i]), 0);
		cr_expect_eq(completions(entry), 2, "level %zu", i);
		recv_msg(PLAIN, 0);
		cr_assert_eq(send_msg(MESSAGE, levels[i]), 0);
		cr_expect_eq(completions(entry), 2, "level %zu", i);
	}
}

Test(xfer, the_strongest_of_several_levels_holds)
{
	uint64_t flags = FI_TRANSMIT | TAGRV_LEVEL_FLAGS | FI_COMPLETION;
	struct tagrv_ep *ep;

	open_api(0, 0, 0);
	cr_assert_eq(fi_control(&api.ep->fid, FI_SETOPSFLAG, &flags), 0);
	ep = tagrv_container_of(api.ep, struct tagrv_ep, ep);
	cr_expect_eq(ep->tx_flags, FI_MATCH_COMPLETE | FI_COMPLETION);
}

static size_t unexpected(void)
{
	const struct tagrv_ep *ep = tagrv_container_of(api.ep, struct tagrv_ep,
						       ep);
	struct tagrv_match_stats stats;

	tagrv_lock_acquire(&ep->dom->lock);
	tagrv_rx_match_stats(ep->rx, &stats);
	tagrv_lock_release(&ep->dom->lock);
	return stats.unexpected;
}

/* Makes both inject calls, and waits until the messages are unexpected. */
static void inject_unexpected(void)
{
	int64_t end = tagrv_deadline(slow_ms(20000));

	cr_assert_eq(send_tagged(INJECT, 0), 0);
	cr_assert_eq(send_msg(INJECTDATA, 0), 0);
	while (unexpected() < 2) {
		cr_assert_eq(fi_cq_read(api.cq, NULL, 0), -FI_EAGAIN);
		cr_assert(tagrv_time_left(end), "%zu came", unexpected());
	}
	/* After a few more reads, acknowledgements have arrived, if any. */
	for (int i = 0; i < 4; i++)
		(void) fi_cq_read(api.cq, NULL, 0);
}

/* Injects write no entry: only a counter shows when they complete. */
Test(xfer, injects_count_at_the_default_level)
{
	static const struct { uint64_t level, early; } cases[] = {
		{ 0, 2 }, { FI_TRANSMIT_COMPLETE, 2 },
		{ FI_DELIVERY_COMPLETE, 2 }, { FI_MATCH_COMPLETE, 0 },
	};
	struct fi_cq_tagged_entry entry[2];

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(cases); i++) {
		open_counted(cases[i].level);
		inject_unexpected();
		cr_expect_eq(fi_cntr_read(api.cntr), cases[i].early,
			     "level %zu", i);
		recv_tagged(PLAIN, 0);
		recv_msg(PLAIN, 0);
		cr_expect_eq(completions(entry), 2);
		cr_expect(entry[1].flags & FI_RECV);
		cr_expect_eq(fi_cntr_wait(api.cntr, 2, 20000), 0);
		cr_expect_eq(fi_cq_read(api.cq, entry, 1), -FI_EAGAIN);
		api_close(&api);
	}
}

/* Without a counter no acknowledgement is sent for an inject. */
Test(xfer, injects_without_counter_have_no_level)
{
	uint64_t flags = FI_TRANSMIT | FI_MATCH_COMPLETE;
	struct tagrv_ep *ep;

	open_api(0, FI_MATCH_COMPLETE, 0);
	ep = tagrv_container_of(api.ep, struct tagrv_ep, ep);
	cr_expect_eq(ep->inject_flags, FI_INJECT);
	api_close(&api);
	open_counted(0);
	ep = tagrv_container_of(api.ep, struct tagrv_ep, ep);
	cr_expect_eq(ep->inject_flags, FI_INJECT);
	cr_assert_eq(fi_control(&api.ep->fid, FI_SETOPSFLAG, &flags), 0);
	cr_expect_eq(ep->inject_flags, FI_INJECT | FI_MATCH_COMPLETE);
}

Test(xfer, injection_is_limited)
{
	static char big[TAGRV_INJECT_MAX + 1], sink[TAGRV_INJECT_MAX];
	const struct iovec iov = { big, sizeof(big) };
	const struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = api.self,
	};

	open_api(0, FI_INJECT, 0);
	cr_expect_eq(fi_inject(api.ep, big, sizeof(big), api.self),
		     -FI_EMSGSIZE);
	cr_expect_eq(fi_tinjectdata(api.ep, big, sizeof(big), 1, api.self, 1),
		     -FI_EMSGSIZE);
	cr_expect_eq(fi_sendmsg(api.ep, &msg, FI_INJECT), -FI_EMSGSIZE);
	cr_expect_eq(fi_send(api.ep, big, sizeof(big), NULL, api.self, NULL),
		     -FI_EMSGSIZE, "the endpoint's flags inject");
	cr_assert_eq(fi_recv(api.ep, sink, sizeof(sink), NULL, FI_ADDR_UNSPEC,
			     &rx_ctx), 0);
	cr_expect_eq(fi_inject(api.ep, big, sizeof(sink), api.self), 0);
}

/* ---- refusals ---- */

Test(xfer, arguments_that_cannot_work_are_refused)
{
	struct iovec iov[TAGRV_IOV_MAX + 1] = { { out, 1 } };
	struct fi_msg_tagged tmsg = {
		.msg_iov = iov, .iov_count = 1, .addr = api.self,
	};
	struct fi_msg msg = {
		.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC,
	};

	open_api(0, 0, 0);
	cr_expect_eq(fi_tsendv(api.ep, iov, NULL, TAGRV_IOV_MAX + 1, api.self,
			       1, NULL), -FI_EINVAL);
	cr_expect_eq(fi_recvv(api.ep, iov, NULL, TAGRV_IOV_MAX + 1,
			      FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	cr_expect_eq(fi_tsendmsg(api.ep, &tmsg, FI_PEEK), -FI_EBADFLAGS);
	cr_expect_eq(fi_trecvmsg(api.ep, &tmsg, FI_MULTI_RECV), -FI_EBADFLAGS);
	cr_expect_eq(fi_trecvmsg(api.ep, &tmsg, FI_DISCARD), -FI_EBADFLAGS);
	cr_expect_eq(fi_recvmsg(api.ep, &msg, FI_PEEK), -FI_EBADFLAGS);
	cr_expect_eq(fi_recvmsg(api.ep, &msg, FI_MULTI_RECV), -FI_EINVAL,
		     "one segment");
	cr_expect_eq(fi_sendmsg(api.ep, &msg, FI_COMMIT_COMPLETE),
		     -FI_EBADFLAGS);
	cr_expect_eq(fi_tsend(api.ep, out, 1, NULL, 77, 1, NULL), -FI_EINVAL,
		     "no such destination");
}

Test(xfer, empty_messages_need_no_memory)
{
	const struct fi_msg_tagged msg = { .addr = api.self, .tag = 5 };
	struct fi_msg_tagged self_msg = msg;
	struct fi_cq_tagged_entry entry[2];

	open_api(0, 0, 0);
	self_msg.addr = api.self;
	cr_assert_eq(fi_trecvmsg(api.ep, &self_msg, 0), 0);
	cr_assert_eq(fi_tsendmsg(api.ep, &self_msg, FI_COMPLETION), 0);
	cr_expect_eq(completions(entry), 2);
	cr_expect_eq(entry[1].len, 0);
	cr_assert_eq(fi_recv(api.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), 0);
	cr_assert_eq(fi_send(api.ep, NULL, 0, NULL, api.self, NULL), 0);
	cr_expect_eq(completions(entry), 2);
}

Test(xfer, tagged_receives_ignore_the_multi_receive_default)
{
	struct fi_cq_tagged_entry entry[2];

	open_api(0, 0, FI_MULTI_RECV);
	cr_assert_eq(recv_tagged(VECTOR, 0), 0);
	cr_assert_eq(send_tagged(PLAIN, 0), 0);
	cr_assert_eq(completions(entry), 2);
	cr_expect_eq(entry[1].flags, FI_RECV | FI_TAGGED);
	cr_expect_eq(recv_msg(VECTOR, 0), -FI_EINVAL);
	cr_expect_eq(recv_msg(PLAIN, 0), 0);
}

Test(xfer, receives_are_cancelled_by_context)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	ssize_t ret;

	open_api(0, 0, 0);
	cr_assert_eq(recv_tagged(PLAIN, 0), 0);
	cr_expect_eq(fi_cancel(&api.ep->fid, &rx_ctx), 0);
	cr_assert(api_wait(&api, &entry, &ret));
	cr_assert_eq(ret, -FI_EAVAIL);
	cr_assert_eq(fi_cq_readerr(api.cq, &err, 0), 1);
	cr_expect_eq(err.err, FI_ECANCELED);
	cr_expect_eq(err.op_context, &rx_ctx);
	cr_expect_eq(err.flags & FI_RECV, FI_RECV);
}

Test(xfer, counters_count_silent_transfers)
{
	struct fid_cntr *cntr;
	struct fi_info *hints = api_hints();
	char name[64];
	size_t len = sizeof(name);

	api_open_domain(&api, hints);
	fi_freeinfo(hints);
	api.av = api_open_av(&api);
	cr_assert_eq(fi_cntr_open(api.domain, NULL, &cntr, NULL), 0);
	cr_assert_eq(fi_endpoint(api.domain, api.info, &api.ep, NULL), 0);
	cr_assert_eq(fi_ep_bind(api.ep, &cntr->fid, FI_SEND | FI_RECV), 0);
	cr_assert_eq(fi_ep_bind(api.ep, &api.av->fid, 0), 0);
	cr_assert_eq(fi_enable(api.ep), 0);
	cr_assert_eq(fi_getname(&api.ep->fid, name, &len), 0);
	cr_assert_eq(fi_av_insert(api.av, name, 1, &api.self, 0, NULL), 1);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(recv_tagged(PLAIN, 0), 0);
		cr_assert_eq(send_tagged(i ? PLAIN : INJECT, 0), 0);
	}
	cr_expect_eq(fi_cntr_wait(cntr, 6, 5000), 0);
	cr_expect_eq(fi_cntr_read(cntr), 6);
	api_must_close(&api.ep->fid);
	api.ep = NULL;
	api_must_close(&cntr->fid);
}
