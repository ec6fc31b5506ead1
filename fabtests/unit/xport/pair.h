/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connected ends of a transport; each records the calls of its sink.
 *
 *   pair_open -> pair_connect -> ... -> pair_close
 *
 * For the loop transport both ends are the same: device, xport and link.
 */
#ifndef FABTESTS_UNIT_XPORT_PAIR_H
#define FABTESTS_UNIT_XPORT_PAIR_H

#include "common/fake_verbs.h"
#include "xport/taglist.h"
#include "xport/xport.h"

/* Transport and devices of a pair. */
enum pair_kind {
	PAIR_LOOP,
	PAIR_SHM,		/* reads through the rings */
	PAIR_SHM_CMA,		/* reads by process_vm_readv */
	PAIR_SHM_TINY,		/* smallest ring; fences instead of membarrier */
	PAIR_FILE,		/* the toy of docs/new_transport.md */
	PAIR_SRQ,		/* fake verbs devices */
	PAIR_RQ,		/* without shared receive queues */
	PAIR_TINY,		/* with the smallest limits */
	PAIR_TINY_RQ,		/* PAIR_TINY and PAIR_RQ */
	PAIR_IB,		/* InfiniBand addresses */
	PAIR_MLX5,		/* as the adapters of a vendor: fake_verbs_profile.c */
	PAIR_BNXT_RE,
	PAIR_IRDMA,		/* without shared receive queues, old library */
	PAIR_TWO,		/* links of two queue pairs: hw_tags at both ends */
	PAIR_TWO_MLX5,
	PAIR_TWO_BNXT_RE,
	PAIR_TWO_ONE,		/* end a only would have such */
	PAIR_LIST,		/* and lists of posted receives in the devices of both */
	PAIR_LIST_ONE,		/* in that of end b only */
	PAIR_MULTI,		/* two devices at each end, joined */
	PAIR_MULTI_RQ,
	PAIR_DEVICE,		/* real devices, named by TAGRV_TEST_DEVICES */
	PAIR_DEVICE_RQ,
	PAIR_DEVICE_TWO,
	PAIR_DEVICE_TWO_ONE,
	PAIR_KINDS,
};

extern const char *const pair_kind_names[PAIR_KINDS];

#define PAIR_JOINED	2u	/* devices at each end */

/* Whether end number i has a list: packets to it have two words in front. */
static inline bool pair_has_list(enum pair_kind kind, int i)
{
	return kind == PAIR_LIST || (kind == PAIR_LIST_ONE && i == 1);
}

static inline bool pair_is_joined(enum pair_kind kind)
{
	return kind == PAIR_MULTI || kind == PAIR_MULTI_RQ;
}

struct packet_record {
	void	*ctx;
	size_t	len;
	unsigned char *data;
};

/* The arguments of next_packet(), until the packet that it announced has come. */
struct next_packet {
	void	*ctx;
	size_t	len;
	unsigned char head[TAGRV_SHORT_HDR];
	unsigned due;		/* packets of ctx until that one, which counts; 0: none announced */
};

/* The last call of sink->tagged; its context is the end. */
struct tagged_record {
	uint64_t meta, tag, data;
	size_t	packets_before;		/* packets that came earlier */
	unsigned char payload[16384];
};

struct end {
	struct tagrv_sink sink;
	struct tagrv_taglist_sink list_sink;	/* of xport->list, if there is one */
	struct tagrv_device *dev;
	struct tagrv_xport *xport;
	struct tagrv_link *link;	/* NULL once closed */
	struct tagrv_params params;
	/* recorded so far */
	struct packet_record *packets;
	size_t	packet_cnt, packet_cap;
	bool	forget;			/* count packets only */
	struct next_packet next_packet;
	unsigned next_packets;
	struct tagged_record tagged;
	unsigned tagged_cnt;
	uint64_t tag_ahead;		/* last tag that was announced */
	unsigned tags_ahead;		/* number of the message it was announced for */
	unsigned listed_cnt;		/* packets that sink->listed got, as 'packets' has them */
	unsigned unexpected, handled;	/* as the list told */
	unsigned rooms, errors, closed, fatals;
	int	error_status, fatal_status;
	void	*error_ctx;
	/* called for each packet after it was recorded */
	void	(*on_packet)(struct end *end, const void *data, size_t len);
	void	(*on_room)(struct end *end);
	void	(*on_error)(struct end *end);
	void	*arg;
};

struct pair {
	enum pair_kind kind;
	struct end ends[2];
	struct end *a, *b;		/* b is a for the loop transport */
	bool	permitted;		/* pair_permit was called */
};

/* An operation that counts calls of its done callback. */
struct op {
	struct tagrv_done done;
	unsigned calls;
	int	status;
	bool	in_call;	/* set during the posting call: callbacks are wrong then */
};

struct tagrv_params pair_params(void);

/* Lists the kinds to run: real devices if TAGRV_TEST_DEVICES is set, else all others. */
size_t pair_kinds(enum pair_kind kinds[PAIR_KINDS]);

void pair_open(struct pair *pair, enum pair_kind kind);
void pair_open_with(struct pair *pair, enum pair_kind kind,
		    const struct tagrv_params *params,
		    const struct fake_verbs_config *config);
void pair_connect(struct pair *pair);
/*
 * Verbs: permits a any number of packets, so that other resources run out first. b
 * permits no more.
 */
void pair_permit(struct pair *pair, struct tagrv_link *a, struct tagrv_link *b);
/* Makes a further link between the ends and returns both halves, not attached. */
void pair_link(struct pair *pair, struct tagrv_link **a, struct tagrv_link **b);
/* Closes links and xports, and checks that no object is left. */
void pair_close(struct pair *pair);

void end_open(struct end *end, const struct tagrv_xport_ops *ops,
	      const char *name, const struct tagrv_params *params);
void end_close(struct end *end);
/* Closes the link and waits for link_closed. */
void end_close_link(struct end *end);

int pair_progress(struct pair *pair);
/* Makes progress at both ends until the condition holds, for at most 10 s of pair_work(). */
#define PAIR_UNTIL(pair, cond) \
	do { \
		double until_ = pair_work() + 10; \
		while (!(cond)) { \
			pair_progress(pair); \
			cr_assert(pair_work() < until_, "timeout: %s", #cond); \
		} \
	} while (0)
/* Seconds by the clock. */
double pair_now(void);
/*
 * Seconds of processor time this process used, for the limits of loops that poll:
 * a busy machine gives the test less of it, but the test needs no more.
 */
double pair_work(void);

void op_init(struct op *op);
/* Sends len bytes of a pattern that depends on 'seed'. */
int end_send(struct end *end, unsigned seed, size_t len, unsigned flags,
	     struct op *op);
/* Repeats end_send() with progress until there is room. */
void pair_send(struct pair *pair, struct end *end, unsigned seed, size_t len,
	       struct op *op);
void fill_pattern(void *buf, unsigned seed, size_t len);
bool is_pattern(const void *buf, unsigned seed, size_t len);

/* Makes progress until the end is armed: the next event makes its descriptor readable. */
void end_settle(struct end *end);
/* Whether a descriptor is readable, or becomes so within ms milliseconds. */
bool is_readable(int fd, int ms);

#endif
