/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What fork() does to memory that devices use.
 *
 * Before Linux 5.12 parent and child share each page until one of them writes to it, and the
 * writer gets a copy: if that is the parent, the device goes on with the former page, which
 * the parent does not have any more. It concerns queues and copy buffers first, which are
 * written all the time. ibv_fork_init(3) keeps such pages from the child; it has to come
 * before all other calls, and does nothing where the kernel copies pinned pages for the child
 * (ibv_is_fork_initialized(3): IBV_FORK_UNNEEDED).
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

/* Variable of libfabric, fabric(7), for programs that do not want this. */
static bool is_declined(void)
{
	const char *text = getenv("FI_FORK_UNSAFE");

	return text && (!strcasecmp(text, "1") || !strcasecmp(text, "yes") ||
			!strcasecmp(text, "on") || !strcasecmp(text, "true"));
}

void tagrv_verbs_fork_prepare(const struct tagrv_verbs_calls *calls)
{
	int err;

	if (calls->is_fork_initialized() != IBV_FORK_DISABLED || is_declined())
		return;
	err = calls->fork_init();
	if (err)
		tagrv_info("verbs: a process that forks may lose messages, for this kernel is "
			   "older than 5.12 and ibv_fork_init failed: %s. If a library used "
			   "libibverbs before, set RDMAV_FORK_SAFE=1\n", strerror(err));
}
