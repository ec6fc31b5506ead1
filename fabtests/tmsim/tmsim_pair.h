/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two devices of this host for the cases of tmsim_check: side a sends over two
 * queue pairs, side b has a list that both queue pairs of its own lead to. All of
 * it by verbs alone, as a program would do it on a device with a list.
 */
#ifndef TMSIM_TMSIM_PAIR_H
#define TMSIM_TMSIM_PAIR_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define LINKS		2
#define TAGS		32
#define OPS		16
#define RX_BUFS		48
#define RX_LEAST	33	/* a device with less may receive nothing */
#define RX_SIZE		8448u
#define HEADERS		32u
#define AREA		(1u << 20)	/* memory on each side, for the payload of a case */
#define SEND_BUFS	32
#define FIN_BUFS	64
#define TM_FLAGS	((unsigned) (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID | IBV_WC_TM_SYNC_REQ))

/* Ends a case that is not as it should be. */
#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			return false; \
		} \
	} while (0)

/* A completion of side b. */
struct got {
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;		/* those of matching */
	uint64_t wr_id, tag;
	uint32_t priv, len, qp_num;
};

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_qp *qp[LINKS];
	uint8_t *area, *bufs;
	struct ibv_mr *area_mr, *bufs_mr;
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
};

struct pair {
	struct side a, b;
	struct ibv_cq *cq;		/* of a */
	struct ibv_comp_channel *channel;	/* of b */
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq;
	unsigned sent, sending;		/* messages posted, and those not completed */
	unsigned fins;			/* that came to a */
	uint8_t last_fin[HEADERS];
	bool failed;			/* a completion of a has an error */
};

extern const char *pair_devices[2];

bool pair_open(struct pair *pair);
void pair_close(struct pair *pair);

/* When a wait begins; and whether it has taken so long that what it waits for will never come. */
struct timespec pair_clock(void);
bool pair_hangs(const struct timespec *begin);

/* ---- side a ---- */

/* Payload from bytes; len at most RX_SIZE - HEADERS. The message may still be under way on return. */
bool pair_send(struct pair *pair, unsigned link, uint8_t opcode, uint64_t tag, uint32_t app_ctx,
	       const void *bytes, uint32_t len);
/* Announces len bytes of a's area from offset on. */
bool pair_send_rndv(struct pair *pair, unsigned link, uint64_t tag, uint32_t offset, uint32_t len);
/* Waits until b's device has all messages. */
bool pair_sent(struct pair *pair);
/* Waits until so many FINs have come since the beginning. */
bool pair_fins(struct pair *pair, unsigned fins);
/* Takes completions of a that are there. */
void pair_poll_a(struct pair *pair);

/* ---- side b ---- */

/* Signaled commands; the wr_id of the command is that of the receive plus COMMAND. */
#define COMMAND		(1ull << 32)
/* Of pair_add, in 'count': the command does not tell it; it has no completion. */
#define UNTOLD		(1u << 31)
#define SILENT		(1u << 30)
/* buf is an offset in b's area. Returns an errno. */
int pair_add(struct pair *pair, uint64_t wr_id, uint64_t tag, uint64_t mask, uint32_t buf, uint32_t len,
	     uint32_t count, uint32_t *handle);
int pair_del(struct pair *pair, uint64_t wr_id, uint32_t handle);
int pair_sync(struct pair *pair, uint64_t wr_id, uint32_t count);

/* Posts a receive buffer again. */
bool pair_repost(struct pair *pair, uint64_t wr_id);
const uint8_t *pair_buf(const struct pair *pair, uint64_t wr_id);

/* Takes one completion of b if there is one. */
bool pair_poll(struct pair *pair, struct got *got);
/* Waits for one. */
bool pair_next(struct pair *pair, struct got *got);
/* Waits for one, which must be this one. */
bool pair_expect(struct pair *pair, enum ibv_wc_opcode opcode, enum ibv_wc_status status, unsigned flags,
		 uint64_t wr_id);
/* No completion is left: the next one is of a message sent now. */
bool pair_quiet(struct pair *pair);

/* Delays of the list, and the command that is held (tmsim_control.h). */
bool pair_delays(struct pair *pair, uint32_t apply, uint32_t report, uint32_t data);
bool pair_apply(struct pair *pair);

/* ---- the cases ---- */

struct tmsim_case {
	const char *name;
	bool (*run)(struct pair *pair);
};

extern const struct tmsim_case list_cases[], race_cases[], random_cases[];
extern unsigned long random_seed;

#endif
