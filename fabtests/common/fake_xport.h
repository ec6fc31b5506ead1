/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scripted transport for tests of the protocols: nothing is delivered or
 * completed unless the test calls for it.
 *
 *   engine --> send, get, put  are recorded in order, or refused as scripted
 *   test   --> complete       ends recorded operations with a status
 *          --> deliver        hands a packet to the engine
 *          --> queue          makes the next progress hand it over
 *          --> break_link     reports a link error
 *          --> listed         a tagged message comes to the list of posted receives
 *
 * With fake_list_max, fake.base has such a list (fake_list.h) if its owner wants one. The
 * next link gets fake.number and fake.given.
 */
#ifndef TAGRV_FAKE_XPORT_H
#define TAGRV_FAKE_XPORT_H

#include "common/fake_list.h"
#include "xport/xport.h"

#define FAKE_PACKET_MAX	(8192 + 192)
#define FAKE_LOG_MAX	4096
#define FAKE_QUEUE_MAX	8
#define FAKE_CLOSING_MAX	64

enum fake_kind { FAKE_SEND, FAKE_PREPARED, FAKE_GET, FAKE_PUT, FAKE_ATOMIC };

struct fake_record {
	enum fake_kind kind;
	struct tagrv_link *link;
	struct tagrv_done *done;
	bool	ended;
	unsigned flags;
	size_t	len;
	uint8_t	*data;		/* copy of the packet, or of what a put without mem writes;
				   malloc'ed */
	void	*addr;		/* get, put: local address; atomic: of the former value */
	struct tagrv_xport_change change;	/* atomic */
	uint64_t raddr;
	char	watched;	/* *fake.watch when it was recorded */
};

struct fake_packet {
	struct tagrv_link *link;
	size_t	len;
	uint8_t	data[256];
};

struct fake_xport {
	struct tagrv_xport base, local;	/* engines prefer local */
	struct tagrv_device dev, local_dev;
	unsigned polls, local_polls;	/* calls of progress, by transport */
	unsigned local_arms;
	unsigned drains, publishes;	/* calls of ops->drain, ops->publish */
	unsigned checks, awaited;	/* calls of ops->check; those for a peer that
					   something is awaited of */
	struct fake_record log[FAKE_LOG_MAX];
	size_t	log_cnt;
	int	refuse;		/* so many next sends and gets give -FI_EAGAIN */
	bool	refuse_all;
	size_t	log_max;	/* with so many records, all give -FI_EAGAIN; 0: no limit */
	bool	dies;		/* the next send finds that its link has failed */
	bool	ends_gets;	/* each progress ends all gets well */
	bool	still;		/* no remote address is used: gets bring other bytes, and
				   puts nothing */
	int	ctrl_error;	/* returned for control packets unless 0 */
	int	get_error;	/* returned by get unless 0 */
	int	reg_error;	/* returned by mem_reg unless 0 */
	int	reg_error_once;	/* as reg_error, for one call */
	size_t	reg_longest;	/* longer ranges give -FI_ENOMEM; 0: no limit */
	size_t	regs;		/* registrations alive */
	size_t	regs_made;	/* registrations since fake_device() */
	size_t	regs_max;	/* more alive give -FI_ENOMEM; 0: no limit */
	size_t	regs_at_close;	/* registrations alive at the last link_close */
	size_t	links;		/* links alive */
	size_t	outstanding;	/* sends that are never confirmed */
	bool	hold_closed;	/* closed links wait for fake_close_held() */
	struct tagrv_link *closing[FAKE_CLOSING_MAX];	/* by fake_end_closed() */
	size_t	closing_cnt;
	int	resume_error;	/* returned by link_resume unless 0 */
	unsigned resumes, unrenewed;	/* calls that succeeded, of link_unrenewed */
	struct tagrv_link *side;	/* the side link that was created last */
	int	side_error;	/* returned by side_create unless 0 */
	const char *watch;	/* byte to copy into each record, or NULL */
	struct fake_list *list;	/* of fake.base; NULL: none */
	uint16_t number, given;	/* of links of fake.base that are made from now on */
	int	events;		/* returned by each progress */
	struct fake_packet queue[FAKE_QUEUE_MAX];	/* by fake_queue() */
	size_t	queue_cnt;
};

/*
 * The only instance; engines open it through its two devices. Further engines
 * get transports of their own, which share the log and the script.
 */
extern struct fake_xport fake;

/* attr.reg_overhead of the transports, from the next fake_device() on. */
extern double fake_reg_overhead;

/* Entries of the list of fake.base, from the next open on; 0: it has none. */
extern uint32_t fake_list_max;

/* Resets the instance and returns the device to put into a domain. */
struct tagrv_device *fake_device(void);
/* Returns the device of fake.local; call it after fake_device(). */
struct tagrv_device *fake_local_device(void);
struct tagrv_link *fake_link(void);
struct tagrv_link *fake_local_link(void);
/* Returns a new link of another engine's transport. */
struct tagrv_link *fake_link_on(struct tagrv_xport *xport);

void fake_deliver(struct tagrv_link *link, const void *data, size_t len);
/* Queues a packet; each call of progress delivers one. */
void fake_queue(struct tagrv_link *link, const void *data, size_t len);
/* A tagged message with the link's 'given' comes to fake.list: app and tag are what its words
 * say, of which the number is added here. Progress tells what becomes of it. */
void fake_listed(struct tagrv_link *link, uint64_t tag, uint32_t app, const void *bytes,
		 size_t len);
/* Ends record i; a get or put first copies from or to raddr. */
void fake_complete(size_t i, int status);
void fake_complete_all(int status);
void fake_break_link(struct tagrv_link *link, int status);
/* Ends closed links, as progress and most calls below do behind everything else. */
void fake_end_closed(void);
/* The link could use new paths. */
void fake_ask_renewal(struct tagrv_link *link, bool down);
/* Ends the closing of links that hold_closed has delayed. */
void fake_close_held(void);
/* Frees recorded packets. */
void fake_forget(void);

#endif
