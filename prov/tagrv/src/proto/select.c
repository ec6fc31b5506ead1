/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Choice of the protocol of one send: see select.h.
 */
#include "proto/select.h"

#include "core/compiler.h"

static const char *const names[TAGRV_PROTO_CNT] = {
	[TAGRV_PROTO_EAGER] = "eager",
	[TAGRV_PROTO_RNDV_READ] = "rendezvous-read",
};

const char *tagrv_proto_name(enum tagrv_proto proto)
{
	return (size_t) proto < TAGRV_ARRAY_SIZE(names) ? names[proto] : "?";
}

enum tagrv_proto tagrv_select(const struct tagrv_select_in *in,
			      const char **why)
{
	if (in->len <= in->eager_limit) {
		if (why)
			*why = "fits one packet";
		return TAGRV_PROTO_EAGER;
	}
	if (why)
		*why = "larger than FI_TAGRV_EAGER_MAX on one of the sides";
	return TAGRV_PROTO_RNDV_READ;
}
