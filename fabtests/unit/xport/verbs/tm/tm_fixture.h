/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives on device 0, a sink that notes what it is told, and a peer that
 * sends to it.
 *
 *   tm_prepare -> change tm.config or tm.attr -> tm_open -> ... -> tm_close
 */
#ifndef FABTESTS_UNIT_XPORT_VERBS_TM_FIXTURE_H
#define FABTESTS_UNIT_XPORT_VERBS_TM_FIXTURE_H

#include "common/tag_list.h"
#include "unit/xport/verbs/tm/list_peer.h"
#include "xport/verbs/tm/verbs_tm.h"

#define TM_ENTRIES	8u
#define TM_LEN		1024u	/* bytes of each entry */
#define TM_NOTES	4096u

enum tm_what {
	TM_ADDED, TM_DELETED, TM_GONE, TM_CONSUMED, TM_DATA, TM_SYNCED, TM_ROOM,
	TM_FATAL, TM_TAGGED, TM_UNTAGGED, TM_BAD_PACKET,
};

/* What the list said: n is the number of the entry, or a number of bytes. */
struct tm_note {
	enum tm_what what;
	unsigned n;
	int	status;
	size_t	len;
	uint64_t tag;
	uint32_t app;
	bool	sync_req;
	bool	has_imm;
	unsigned unexpected, handled;	/* told before */
};

struct tm_fixture {
	struct fake_verbs_config config;
	struct tagrv_device *dev;
	struct verbs_tm *tm;
	struct tagrv_taglist *list;
	struct tagrv_taglist_sink sink;
	struct verbs_list_attr attr;
	struct verbs_rxq rxq;
	struct ibv_comp_channel *channel;	/* if the test has opened one */
	struct tagrv_taglist_entry entries[TM_ENTRIES + 1];
	char	mem[TM_ENTRIES + 1][TM_LEN];
	struct tagrv_mem *reg;
	struct ibv_qp	*qp;
	struct list_peer peer;
	struct tm_note notes[TM_NOTES];
	unsigned cnt, read;
	char	last[TM_LEN];		/* bytes of the last packet */
	uint32_t imm;			/* of the last packet that had some */
	unsigned unexpected, handled;	/* messages, as the list told */
	bool	keep;			/* tagged packets are kept */
	unsigned permits;		/* packets whose permit was asked for */
	bool	permit_only;		/* and they are nothing else */
	bool	with_channel;
	struct tagrv_link link;		/* of all messages; ctx NULL: it is not attached */
	bool	unknown;		/* but these are of no link */
	int	match_status;
	uint32_t match_qpn;		/* as told of the last message */
	uint64_t keys[TM_ENTRIES];	/* 'kept' messages that wait for the link */
	unsigned kept;
	unsigned lost;			/* packets without a buffer */
	unsigned readd;			/* so many times 'data' adds its entry again */
};

extern struct tm_fixture tm;

void tm_prepare(void);
/* Starts the devices and opens a list of TM_ENTRIES; returns what the open did. With a channel
 * if tm.with_channel. */
int tm_open_list(void);
/* The same, which succeeds, and connects the peer. */
void tm_open(void);
/* Nothing may be left over. */
void tm_close(void);

/* Adds entry number n for a tag; returns what add did. */
int tm_add(unsigned n, uint64_t tag, uint32_t count);
/* The next thing noted is this, of this entry. Makes progress if nothing is noted. */
struct tm_note tm_expect(enum tm_what what, unsigned n);
/* Nothing more comes. */
void tm_expect_none(void);
/* Delays of the device, in progress calls. */
void tm_delay(uint32_t apply, uint32_t report, uint32_t data);

#endif
