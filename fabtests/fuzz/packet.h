/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the files of fuzz_packet.
 *
 *   fuzz_packet.c        the engine, its peer, and messages
 *   packet_onesided.c    one-sided operations of both sides
 *   packet_windows.c     the windows of the engine
 *   packet_views.c       views of windows of both sides
 */
#ifndef FABTESTS_FUZZ_PACKET_H
#define FABTESTS_FUZZ_PACKET_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/fake_xport.h"
#include "fuzz/fuzz_input.h"
#include "object/dom.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/peer.h"
#include "wire/packet.h"

/* Lengths that make head, pieces and tail of a message shorter than a packet. */
enum { BUF_LEN = 600, EAGER = 64, PIECE = 50 };

struct fuzz {
	struct tagrv_dom *dom;
	struct tagrv_engine *engine;
	struct tagrv_compq tx, rx;
	fi_addr_t dest;
	struct tagrv_link *link;
	size_t	sends, recvs;	/* accepted, not reported; sends: one-sided ones, too */
	char	in[BUF_LEN];	/* where messages are received */
};

extern struct fuzz fz;

static inline void require_at(bool good, const char *file, int line)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: what is required does not hold\n", file, line);
	abort();
}

#define require(good)	require_at((good), __FILE__, __LINE__)

static inline struct tagrv_peer *peer(void)
{
	return fz.engine->table.peers[0];
}

/* Whether packets reach the engine. */
static inline bool is_up(void)
{
	return peer()->lane && peer()->lane->link == fz.link;
}

static inline void give(const void *packet, size_t len)
{
	if (is_up())
		fake_deliver(fz.link, packet, len);
}

/* Looks at what the engine gave to the transport since the last call. */
void hear(void);

/* ---- packet_onesided.c ---- */

/* Once, and before and behind each input. how: which orders operations keep. */
void onesided_set_up(struct tagrv_engine_sinks *sinks);
void onesided_begin(uint8_t how);
void onesided_end(void);

/* Steps: an operation of ours, requests and answers of the peer. */
void give_op(struct input *in);
void give_request(struct input *in);
void give_answer(struct input *in);

/* What the engine gave to the transport. */
void onesided_hear(const struct fake_record *record);
/* Behind each step: nothing but what peers may write to has changed. */
void onesided_check(void);

/* ---- packet_views.c ---- */

/* The engine gives away segments that are all in windows which peers may read. */
void require_readable(const uint8_t *segments, unsigned cnt);
/* The rights and the body of a VIEW that the engine sent. */
void hear_view(uint32_t rights, const uint8_t *body);
/* A VIEW of the window that give_op() reads, or by bits of 'how' a wrong one. */
void send_view(uint32_t id, uint8_t how);
void send_recall(uint32_t id);
/* A SHOW or SIDE, right or wrong by bits of 'how', or the side link fails. */
void change_side(unsigned what, uint8_t how);

/* ---- packet_windows.c ---- */

enum { WINDOWS = 5, WINDOW_KEY = 0x1234 };	/* keys count from this one on */

/* A step: a window closes, or opens again. */
void give_close(struct input *in);
/* The address by which peers know its first byte. */
uint64_t windows_base(unsigned window);
/* Whether a window that is open gives this right to [addr, addr + len). */
bool windows_admit(const void *addr, size_t len, uint64_t access);
void windows_check(void);
void windows_begin(void);
void windows_end(void);

#endif
