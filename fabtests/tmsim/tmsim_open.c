/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stands in front of ibv_open_device: the context that a program gets says that
 * the device has lists, and its tables lead to this layer.
 *
 * Most verbs are inline functions that call through the tables of the context;
 * those are changed here. The few others that the layer must see are functions of
 * libibverbs, and hidden by functions of the same name (tmsim_qp.c, tmsim_cq.c,
 * tmsim_srq.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tmsim/tmsim.h"

#define RNDV_HEADERS	64	/* as in devices that have a list */

static uint32_t number(const char *name, uint32_t otherwise, uint32_t least, uint32_t most)
{
	const char *text = getenv(name);
	unsigned long value;
	char *end;

	if (!text)
		return otherwise;
	value = strtoul(text, &end, 10);
	if (end == text || *end || value < least || value > most) {
		fprintf(stderr, "tmsim: %s must be a number from %u to %u\n", name, least, most);
		exit(2);
	}
	return (uint32_t) value;
}

const struct tmsim_limits *tmsim_limits(void)
{
	static struct tmsim_limits limits;

	tmsim_lock();
	if (!limits.max_tags) {
		limits.delays.apply = number("TMSIM_APPLY", 0, 0, 1000000);
		limits.delays.report = number("TMSIM_REPORT", 0, 0, 1000000);
		limits.delays.data = number("TMSIM_DATA", 0, 0, 1000000);
		limits.mtu = number("TMSIM_MTU", 4096, 0, 65536);
		limits.least = number("TMSIM_LEAST", 33, 1, 65536);
		limits.max_ops = number("TMSIM_OPS", 64, 1, 65536);
		limits.max_tags = number("TMSIM_TAGS", 256, 1, 65535);
	}
	tmsim_unlock();
	return &limits;
}

struct tmsim_ctx *tmsim_ctx_of(struct ibv_context *ctx)
{
	struct tmsim_ctx *found;

	tmsim_lock();
	found = tmsim_find(TMSIM_CTX, ctx);
	tmsim_unlock();
	return found;
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	int ret = tmsim_ctx_of(ctx)->query_device_ex(ctx, input, attr, size);

	if (!ret && size >= offsetof(struct ibv_device_attr_ex, tm_caps) + sizeof(attr->tm_caps))
		attr->tm_caps = (struct ibv_tm_caps) {
			.max_rndv_hdr_size = RNDV_HEADERS,
			.max_num_tags = tmsim_limits()->max_tags,
			.max_ops = tmsim_limits()->max_ops,
			.max_sge = 1,
			.flags = IBV_TM_CAP_RC,
		};
	return ret;
}

static void change_tables(struct tmsim_ctx *mine, struct verbs_context *ex)
{
	struct ibv_context_ops *ops = &ex->context.ops;

	mine->ops = *ops;
	mine->query_device_ex = ex->query_device_ex;
	mine->create_cq_ex = ex->create_cq_ex;
	mine->create_srq_ex = ex->create_srq_ex;
	mine->create_qp_ex = ex->create_qp_ex;

	ops->poll_cq = tmsim_poll_cq;
	ops->req_notify_cq = tmsim_req_notify_cq;
	ops->post_srq_recv = tmsim_post_srq_recv;
	ops->post_send = tmsim_post_send;
	ex->query_device_ex = query_device_ex;
	ex->create_cq_ex = tmsim_create_cq_ex;
	ex->create_srq_ex = tmsim_create_srq_ex;
	ex->create_qp_ex = tmsim_create_qp_ex;
	ex->post_srq_ops = tmsim_post_srq_ops;
}

/* The layer needs each of these verbs; a device that has its own list keeps it. */
static bool suits(struct verbs_context *ex)
{
	struct ibv_device_attr_ex attr;

	return ex && ex->sz >= sizeof(*ex) - offsetof(struct verbs_context, query_port) &&
	       ex->query_device_ex && ex->create_cq_ex && ex->create_srq_ex && ex->create_qp_ex &&
	       !ex->query_device_ex(&ex->context, NULL, &attr, sizeof(attr)) && !attr.tm_caps.max_num_tags;
}

TMSIM_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *ctx = TMSIM_REAL(ibv_open_device)(device);
	struct verbs_context *ex = ctx ? verbs_get_ctx(ctx) : NULL;
	struct tmsim_ctx *mine;

	if (!suits(ex))
		return ctx;
	mine = calloc(1, sizeof(*mine));
	if (!mine) {
		TMSIM_REAL(ibv_close_device)(ctx);
		errno = ENOMEM;
		return NULL;
	}
	change_tables(mine, ex);
	tmsim_lock();
	tmsim_put(&mine->node, TMSIM_CTX, ctx);
	tmsim_unlock();
	return ctx;
}

TMSIM_EXPORT int ibv_close_device(struct ibv_context *ctx)
{
	struct tmsim_ctx *mine;
	int ret;

	/* The address may be another context's as soon as this one is closed. */
	tmsim_lock();
	mine = tmsim_find(TMSIM_CTX, ctx);
	ret = TMSIM_REAL(ibv_close_device)(ctx);
	if (mine && !ret) {
		tmsim_drop(&mine->node);
		free(mine);
	}
	tmsim_unlock();
	return ret;
}
