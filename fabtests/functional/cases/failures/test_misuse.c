/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wrong arguments: the right error at once, no completion, and the endpoint goes on.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/transfer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MANY_SEGMENTS = 4096 };

static const struct fx_attr plain;

static void message_to_self(struct fx *fx)
{
	struct fi_context2 ctx[2];

	RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx[0]);
	SEND(fx, .tagged = true, .addr = fx->addr[0], .tag = 1, .ctx = &ctx[1]);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .tag = 1);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
}

/* Opens an endpoint connected to itself, so that no call answers -FI_EAGAIN. */
static void open_sound(struct test *t, struct fx *fx, const struct fx_attr *attr)
{
	fx_open(t, fx, attr);
	message_to_self(fx);
}

/* After a refused call the CQs are empty and a message gets through. */
static void close_sound(struct fx *fx)
{
	run_step("nothing on the CQs, a message gets through");
	COMP_NONE(fx, 20);
	message_to_self(fx);
	fx_close(fx);
}

static void too_long(struct test *t)
{
	static char byte;
	struct fi_context2 ctx;
	size_t len;
	struct fx fx;

	open_sound(t, &fx, &plain);
	if (fx.info->ep_attr->max_msg_size == SIZE_MAX)
		run_skip("messages have no limit");
	len = fx.info->ep_attr->max_msg_size + 1;
	for (int tagged = 0; tagged < 2; tagged++)
		for (enum msg_call call = CALL_BUF; call <= CALL_DATA; call++) {
			run_step("%s, tagged %d", msg_call_name(call), tagged);
			CHECK_ERR(TRY_SEND(&fx, .call = call, .tagged = tagged, .buf = &byte,
					   .len = len, .addr = fx.addr[0], .ctx = &ctx),
				  -FI_EMSGSIZE);
		}
	close_sound(&fx);
}

static void inject_too_long(struct test *t)
{
	struct fi_context2 ctx;
	size_t len;
	char *buf;
	struct fx fx;

	open_sound(t, &fx, &plain);
	len = fx.info->tx_attr->inject_size + 1;
	buf = calloc(1, len);
	CHECK(buf, "no memory");
	for (int tagged = 0; tagged < 2; tagged++) {
		run_step("tagged %d", tagged);
		CHECK_ERR(TRY_SEND(&fx, .call = CALL_INJECT, .tagged = tagged, .buf = buf,
				   .len = len, .addr = fx.addr[0]),
			  -FI_EMSGSIZE);
		CHECK_ERR(TRY_SEND(&fx, .call = CALL_INJECTDATA, .tagged = tagged, .buf = buf,
				   .len = len, .addr = fx.addr[0]),
			  -FI_EMSGSIZE);
		CHECK_ERR(TRY_SEND(&fx, .call = CALL_MSG, .tagged = tagged, .buf = buf, .len = len,
				   .addr = fx.addr[0], .flags = FI_INJECT, .ctx = &ctx),
			  -FI_EMSGSIZE);
	}
	free(buf);
	close_sound(&fx);
}

static void too_many_segments(struct test *t)
{
	static struct iovec iov[MANY_SEGMENTS];
	struct fi_context2 ctx;
	size_t tx, rx;
	struct fx fx;

	open_sound(t, &fx, &plain);
	tx = fx.info->tx_attr->iov_limit + 1;
	rx = fx.info->rx_attr->iov_limit + 1;
	if (tx > MANY_SEGMENTS || rx > MANY_SEGMENTS)
		run_skip("no limit of segments");
	for (int i = 0; i < 4; i++) {
		enum msg_call call = i & 1 ? CALL_IOV : CALL_MSG;

		CHECK_ERR(TRY_SEND(&fx, .call = call, .tagged = i & 2, .iov = iov, .iov_count = tx,
				   .addr = fx.addr[0], .ctx = &ctx),
			  -FI_EINVAL);
		CHECK_ERR(TRY_RECV(&fx, .call = call, .tagged = i & 2, .iov = iov, .iov_count = rx,
				   .addr = FI_ADDR_UNSPEC, .ctx = &ctx),
			  -FI_EINVAL);
	}
	close_sound(&fx);
}

static void unknown_destination(struct test *t)
{
	static const fi_addr_t bad[] = { 1, 1000, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL - 1 };
	struct fi_context2 ctx;
	struct fx fx;

	open_sound(t, &fx, &(struct fx_attr){ .av_type = FI_AV_TABLE });
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (enum msg_call call = CALL_BUF; call <= CALL_INJECTDATA; call++) {
			run_step("address %llx, %s", (unsigned long long)bad[i],
				 msg_call_name(call));
			CHECK_ERR(TRY_SEND(&fx, .call = call, .tagged = call & 1, .addr = bad[i],
					   .ctx = &ctx),
				  -FI_EINVAL);
		}
	close_sound(&fx);
}

static void removed_address(struct test *t)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV,
		.av_type = FI_AV_TABLE,
	};
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	struct sockaddr_in in;
	struct fi_context2 ctx;
	struct fx fx;

	open_sound(t, &fx, &attr);
	if (!fx_is_inet(&fx))
		run_skip("addresses are not IPv4 socket addresses");
	memcpy(&in, fx.name[0], sizeof(in));
	in.sin_port ^= htons(1);
	CHECK(fi_av_insert(fx.av, &in, 1, &addr, 0, NULL) == 1, "insert failed");
	CHECK_OK(fi_av_remove(fx.av, &addr, 1, 0));
	for (int tagged = 0; tagged < 2; tagged++) {
		CHECK_ERR(TRY_RECV(&fx, .tagged = tagged, .addr = addr, .ctx = &ctx), -FI_EINVAL);
		CHECK_ERR(TRY_RECV(&fx, .tagged = tagged, .addr = 999, .ctx = &ctx), -FI_EINVAL);
		CHECK_ERR(TRY_SEND(&fx, .tagged = tagged, .addr = addr, .ctx = &ctx), -FI_EINVAL);
	}
	close_sound(&fx);
}

static void expect_bad_flags(ssize_t ret, const char *what)
{
	CHECK(ret == -FI_EINVAL || ret == -FI_EBADFLAGS, "%s: %zd", what, ret);
}

static void unknown_flags(struct test *t)
{
	static const uint64_t bad[] = { 1ULL << 39, FI_COMMIT_COMPLETE, FI_MULTICAST };
	struct fi_context2 ctx;
	struct fx fx;

	open_sound(t, &fx, &plain);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		run_step("flags 0x%llx", (unsigned long long)bad[i]);
		for (int tagged = 0; tagged < 2; tagged++) {
			expect_bad_flags(TRY_SEND(&fx, .call = CALL_MSG, .tagged = tagged,
						  .addr = fx.addr[0], .flags = bad[i], .ctx = &ctx),
					 "send with unknown flags");
			expect_bad_flags(TRY_RECV(&fx, .call = CALL_MSG, .tagged = tagged,
						  .addr = FI_ADDR_UNSPEC, .flags = bad[i],
						  .ctx = &ctx),
					 "receive with unknown flags");
		}
	}
	close_sound(&fx);
}

/* Flags for sends are wrong in receives, and the reverse. */
static void foreign_flags(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	open_sound(t, &fx, &plain);
	expect_bad_flags(TRY_SEND(&fx, .call = CALL_MSG, .tagged = true, .addr = fx.addr[0],
				  .flags = FI_PEEK, .ctx = &ctx),
			 "send with FI_PEEK");
	expect_bad_flags(TRY_RECV(&fx, .call = CALL_MSG, .tagged = true, .addr = FI_ADDR_UNSPEC,
				  .flags = FI_DISCARD, .ctx = &ctx),
			 "FI_DISCARD alone");
	close_sound(&fx);
}

/* FI_CLAIM without a claimed message: refused at once, or an error entry. */
static void claim_of_nothing(struct test *t)
{
	struct fi_context2 ctx;
	struct comp c;
	struct fx fx;
	ssize_t ret;

	open_sound(t, &fx, &plain);
	memset(&ctx, 0, sizeof(ctx));
	ret = TRY_RECV(&fx, .call = CALL_MSG, .tagged = true, .addr = 0, .flags = FI_CLAIM,
		       .ctx = &ctx);
	if (!ret) {
		COMP_WAIT(&fx, FX_RX, &c);
		CHECK(c.err && c.ctx == &ctx, "a claim of nothing: err %d", c.err);
	}
	close_sound(&fx);
}

/* Opens an endpoint at this port and returns the result. */
static int open_at(struct test *t, uint16_t port)
{
	struct fx_attr attr = { 0 };
	char service[8];
	struct fx fx;
	int ret;

	snprintf(service, sizeof(service), "%u", port);
	attr.service = service;
	fx_open_domain(t, &fx, &attr);
	ret = fi_endpoint(fx.domain, fx.info, &fx.ep, NULL);
	if (ret) {
		fx.ep = NULL;
		fx_close_now(&fx);
		return ret;
	}
	CHECK_OK(fi_close(&fx.ep->fid));
	fx_open_endpoint(&fx);
	fx_bind_all(&fx);
	ret = fi_enable(fx.ep);
	fx_close_now(&fx);
	return ret;
}

static void port_in_use(struct test *t)
{
	struct sockaddr_in in;
	struct fx fx;

	open_sound(t, &fx, &plain);
	if (!fx_is_inet(&fx))
		run_skip("addresses are not IPv4 socket addresses");
	memcpy(&in, fx.name[0], sizeof(in));
	CHECK_ERR(open_at(t, ntohs(in.sin_port)), -FI_EADDRINUSE);
	close_sound(&fx);
}

static void port_of_stranger(struct test *t)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(in);
	struct fx fx;

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&in, sizeof(in)) && !listen(fd, 1) &&
		      !getsockname(fd, (struct sockaddr *)&in, &len),
	      "no listening socket");
	open_sound(t, &fx, &plain);
	if (!fx_is_inet(&fx))
		run_skip("addresses are not IPv4 socket addresses");
	CHECK_ERR(open_at(t, ntohs(in.sin_port)), -FI_EADDRINUSE);
	close(fd);
	close_sound(&fx);
}

const struct test_case misuse_cases[] = {
	{ "misuse_too_long", "a message over max_msg_size gives -FI_EMSGSIZE", too_long, .ranks = 1 },
	{ "misuse_inject_too_long", "an inject over inject_size gives -FI_EMSGSIZE", inject_too_long, .ranks = 1 },
	{ "misuse_too_many_segments", "more segments than iov_limit give -FI_EINVAL", too_many_segments, .ranks = 1 },
	{ "misuse_unknown_destination", "an address not in the AV gives -FI_EINVAL", unknown_destination, .ranks = 1 },
	{ "misuse_removed_address", "so does a removed address, for directed receives too", removed_address, .ranks = 1 },
	{ "misuse_unknown_flags", "unknown flags give -FI_EINVAL or -FI_EBADFLAGS", unknown_flags, .ranks = 1 },
	{ "misuse_foreign_flags", "so do flags that the call does not have", foreign_flags, .ranks = 1 },
	{ "misuse_claim_of_nothing", "a claim without claimed message fails", claim_of_nothing, .ranks = 1 },
	{ "misuse_port_in_use", "the port of another endpoint gives -FI_EADDRINUSE", port_in_use, .ranks = 1 },
	{ "misuse_port_of_stranger", "so does the port of a foreign socket", port_of_stranger, .ranks = 1 },
	{ 0 },
};
