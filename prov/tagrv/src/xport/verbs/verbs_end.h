/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Destroying the queue pairs of closing links: by the endpoint's thread, or by one that is
 * started for it.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_END_H
#define TAGRV_XPORT_VERBS_VERBS_END_H

#include <pthread.h>
#include <stdbool.h>

#include "core/compiler.h"
#include "core/list.h"

struct verbs_link;

/* Of the queue pairs of a closing link. */
enum verbs_end {
	VERBS_END_NONE,
	VERBS_END_DUE,		/* the thread destroys them */
	VERBS_END_DONE,		/* they are */
	VERBS_END_KEPT,		/* the same, but the device did not destroy each */
};

/* Part of an xport. */
struct verbs_ender {
	pthread_mutex_t mutex;		/* protects links and busy */
	struct tagrv_list links;	/* VERBS_END_DUE, in todo_node */
	bool	busy;			/* the thread looks for more of them */
	/* of the endpoint's thread */
	bool	started;		/* there is a thread, which is to be joined */
	bool	wanted;			/* the device is slow */
	pthread_t thread;
};

void tagrv_verbs_ender_open(struct verbs_ender *ender);
/* No link is VERBS_END_DUE any more. */
void tagrv_verbs_ender_close(struct verbs_ender *ender);

/* Destroys the queue pairs of a link that is in no map. False: the device kept one. */
bool tagrv_verbs_end_qps(struct verbs_link *link);
/* The same; link->end says how that ended. */
void tagrv_verbs_end_now(struct verbs_link *link);
/* Has the thread do the same, until link->end is not VERBS_END_DUE. False: there is none. */
bool tagrv_verbs_end_later(struct verbs_link *link) TAGRV_WARN_UNUSED;

#endif
