/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scripted transport for tests of the protocols: nothing moves unless the
 * test says so.
 *
 *   engine --> send, get, put  recorded in order, or refused as scripted
 *   test   --> complete      ends recorded operations with a status
 *          --> deliver       hands a packet to the engine
 *          --> queue         lets progress do so
 *          --> break_link    reports a link error
 */
#ifndef TAGRV_FAKE_XPORT_H
#define TAGRV_FAKE_XPORT_H

#include "xport/xport.h"

#define FAKE_PACKET_MAX	(8192 + 192)
#define FAKE_LOG_MAX	4096
#define FAKE_QUEUE_MAX	8

enum fake_kind { FAKE_SEND, FAKE_PREPARED, FAKE_GET, FAKE_PUT };

struct fake_record {
	enum fake_kind kind;
	struct tagrv_link *link;
	struct tagrv_done *done;
	bool	ended;
	unsigned flags;
	size_t	len;
	uint8_t	*data;		/* packet, malloc'ed */
	void	*addr;		/* get, put: local address */
	uint64_t raddr;
	char	watched;	/* *fake.watch when it was recorded */
};

struct fake_packet {
	struct tagrv_link *link;
	size_t	len;
	uint8_t	data[256];
};

struct fake_xport {
	struct tagrv_xport base, local;	/* the latter is preferred */
	struct tagrv_device dev, local_dev;
	unsigned polls, local_polls;	/* calls of progress */
	unsigned local_arms;
	struct fake_record log[FAKE_LOG_MAX];
	size_t	log_cnt;
	int	refuse;		/* next sends and gets answer -FI_EAGAIN */
	bool	refuse_all;
	bool	still;		/* gets and puts end well, but move nothing */
	int	ctrl_error;	/* what control packets get, 0: nothing */
	int	reg_error;	/* what mem_reg answers, 0: works */
	int	reg_error_once;	/* the same, for one call */
	size_t	reg_longest;	/* longer ones get -FI_ENOMEM; 0: none does */
	size_t	regs;		/* registrations alive */
	size_t	regs_made;	/* in all */
	size_t	regs_max;	/* alive at most, else -FI_ENOMEM; 0: any */
	size_t	links;		/* links alive */
	bool	hold_closed;	/* link_close does not end at once */
	struct tagrv_link *held;
	const char *watch;	/* a byte to look at with each record, or NULL */
	int	events;		/* what each progress says it handled */
	struct fake_packet queue[FAKE_QUEUE_MAX];	/* for progress */
	size_t	queue_cnt;
};

/*
 * The only instance: engines open it through its two devices. Engines after the
 * first have transports of their own, with one log and one script for all.
 */
extern struct fake_xport fake;

/* What the transports say of it, from the next fake_device() on. */
extern double fake_reg_overhead;

/* Starts afresh and returns the device to put into a domain. */
struct tagrv_device *fake_device(void);
/* The other one; after fake_device(). */
struct tagrv_device *fake_local_device(void);
struct tagrv_link *fake_link(void);
struct tagrv_link *fake_local_link(void);
/* One of another engine's transport. */
struct tagrv_link *fake_link_on(struct tagrv_xport *xport);

void fake_deliver(struct tagrv_link *link, const void *data, size_t len);
/* The same, by a later progress: one packet each. */
void fake_queue(struct tagrv_link *link, const void *data, size_t len);
/* Ends record i; a get or put first copies from or to raddr. */
void fake_complete(size_t i, int status);
void fake_complete_all(int status);
void fake_break_link(struct tagrv_link *link, int status);
/* What link_close left to be done with hold_closed. */
void fake_close_held(void);
/* Frees recorded packets. */
void fake_forget(void);

#endif
