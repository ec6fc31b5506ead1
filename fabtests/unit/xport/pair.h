/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connected ends of a transport, and a record of what their sinks heard.
 *
 *   pair_open -> pair_connect -> ... -> pair_close
 *
 * For the loop transport both ends are one: the same device, xport and link.
 */
#ifndef FABTESTS_UNIT_XPORT_PAIR_H
#define FABTESTS_UNIT_XPORT_PAIR_H

#include "common/fake_verbs.h"
#include "xport/xport.h"

/* What the pair runs on. */
enum pair_kind {
	PAIR_LOOP,
	PAIR_SHM,		/* reads through the rings */
	PAIR_SHM_CMA,		/* reads by process_vm_readv */
	PAIR_SHM_TINY,		/* smallest ring; fences instead of membarrier */
	PAIR_SRQ,		/* fake verbs devices */
	PAIR_RQ,		/* without shared receive queues */
	PAIR_TINY,		/* with the smallest limits */
	PAIR_TINY_RQ,		/* and both */
	PAIR_IB,		/* InfiniBand addresses */
	PAIR_DEVICE,		/* real ones, named by TAGRV_TEST_DEVICES */
	PAIR_DEVICE_RQ,
	PAIR_KINDS,
};

extern const char *const pair_kind_names[PAIR_KINDS];

struct packet_record {
	void	*ctx;
	size_t	len;
	unsigned char *data;
};

/* What was told of a packet before it came. */
struct ahead {
	void	*ctx;
	size_t	len;
	unsigned char head[TAGRV_SHORT_HDR];
	unsigned due;		/* comes with this packet of ctx; 0: nothing told */
};

struct end {
	struct tagrv_sink sink;
	struct tagrv_device *dev;
	struct tagrv_xport *xport;
	struct tagrv_link *link;	/* NULL once closed */
	struct tagrv_params params;
	/* heard so far */
	struct packet_record *packets;
	size_t	packet_cnt, packet_cap;
	bool	forget;			/* count packets only */
	struct ahead ahead;
	unsigned aheads;
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
	bool	granted;		/* pair_grant was called */
};

/* A done record that counts. */
struct op {
	struct tagrv_done done;
	unsigned calls;
	int	status;
	bool	in_call;	/* set around send: a callback then is wrong */
};

struct tagrv_params pair_params(void);

/* Kinds to run: real devices if the environment names them, else all others. */
size_t pair_kinds(enum pair_kind kinds[PAIR_KINDS]);

void pair_open(struct pair *pair, enum pair_kind kind);
void pair_open_with(struct pair *pair, enum pair_kind kind,
		    const struct tagrv_params *params,
		    const struct fake_verbs_config *config);
void pair_connect(struct pair *pair);
/*
 * Verbs: a may send as many packets as it likes, for tests of what else there is
 * to run out of. b gives nothing more.
 */
void pair_grant(struct pair *pair, struct tagrv_link *a, struct tagrv_link *b);
/* A further link between the ends; sets both. Not attached. */
void pair_link(struct pair *pair, struct tagrv_link **a, struct tagrv_link **b);
/* Closes links and xports, and checks that nothing is left. */
void pair_close(struct pair *pair);

void end_open(struct end *end, const struct tagrv_xport_ops *ops,
	      const char *name, const struct tagrv_params *params);
void end_close(struct end *end);
/* Closes the link and waits for link_closed. */
void end_close_link(struct end *end);

int pair_progress(struct pair *pair);
/* Moves both ends until the condition holds, at most 10 s. */
#define PAIR_UNTIL(pair, cond) \
	do { \
		double until_ = pair_now() + 10; \
		while (!(cond)) { \
			pair_progress(pair); \
			cr_assert(pair_now() < until_, "timeout: %s", #cond); \
		} \
	} while (0)
double pair_now(void);

void op_init(struct op *op);
/* Sends len bytes of a pattern that depends on 'seed'. */
int end_send(struct end *end, unsigned seed, size_t len, unsigned flags,
	     struct op *op);
/* The same, again and again until there is room. */
void pair_send(struct pair *pair, struct end *end, unsigned seed, size_t len,
	       struct op *op);
void fill_pattern(void *buf, unsigned seed, size_t len);
bool is_pattern(const void *buf, unsigned seed, size_t len);

#endif
