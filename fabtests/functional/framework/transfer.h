/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends one message from rank 0 to rank 1 and checks content, bytes around it and
 * both completions. Collective: both ranks call with the same transfer.
 */
#ifndef FUNCTIONAL_TRANSFER_H
#define FUNCTIONAL_TRANSFER_H

#include "completion.h"
#include "message.h"

enum { TRANSFER_IOV_MAX = 16 };

struct transfer {
	uint64_t id;		/* seed of the content; also the tag */
	size_t len;
	enum msg_call send_call;
	enum msg_call recv_call;
	size_t send_segments;	/* for CALL_IOV and CALL_MSG; 0 means 1 */
	size_t recv_segments;
	uint64_t send_flags;	/* for CALL_MSG */
	uint64_t data;		/* for calls with remote CQ data */
	bool tagged;
	bool unexpected;	/* the message arrives before the receive is posted */
};

void transfer_run(struct fx *fx, const struct transfer *tr);
/* Eight tagged transfers of 0 bytes to 1 MiB, expected and not; content and tags from id on. */
void transfer_several(struct fx *fx, uint64_t id);

/* Segments that both directions support, at most TRANSFER_IOV_MAX. */
size_t transfer_iov_limit(const struct fx *fx);

/*
 * Cuts a buffer into n segments of different lengths, some empty, in reverse order
 * of their addresses; the message is their concatenation.
 */
void transfer_cut(struct iovec *iov, size_t n, uint8_t *buf, size_t len, uint64_t seed);

#endif
