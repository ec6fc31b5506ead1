/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The dump of an endpoint, through fi_open_ops.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"

#include <rdma/fi_ext_tagrv.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16 };

static const struct fx_attr plain;

static struct fi_tagrv_ops_dump *open_ops(struct fx *fx)
{
	void *ops = NULL;
	int ret = fi_open_ops(&fx->ep->fid, TAGRV_EP_DUMP_OPS, 0, &ops, NULL);

	if (ret == -FI_ENOSYS || ret == -FI_EINVAL)
		run_skip("the provider has no dumps");
	CHECK_OK(ret);
	return ops;
}

/* The dump, by way of a temporary file; valid until the next call. */
static const char *dump(struct fx *fx)
{
	static char text[TEXT_MAX];
	FILE *file = tmpfile();
	size_t len;

	CHECK(file, "there is no temporary file");
	CHECK_OK(open_ops(fx)->dump(fx->ep, fileno(file)));
	rewind(file);
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = '\0';
	fclose(file);
	return text;
}

/* A receive that nothing matches is in the dump as long as it is posted. */
static void receive(struct test *t)
{
	struct fi_context2 ctx;
	const char *text;
	struct fx fx;

	fx_open(t, &fx, &plain);
	text = dump(&fx);
	CHECK(!strstr(text, "0xdecade"), "before the receive: %s", text);
	RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 0xdecade, .ctx = &ctx);
	text = dump(&fx);
	CHECK(strstr(text, "tag 0xdecade"), "no such tag: %s", text);
	CHECK(strstr(text, "waits for a message that matches"), "no reason: %s", text);
	CHECK_OK(fi_cancel(&fx.ep->fid, &ctx));
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = FI_RECV, .err = FI_ECANCELED);
	text = dump(&fx);
	CHECK(!strstr(text, "0xdecade"), "after its end: %s", text);
	fx_close(&fx);
}

const struct test_case dump_cases[] = {
	{ "dump_receive", "a dump names a receive that nothing matches, until it ends", receive, .ranks = 1 },
	{ 0 },
};
