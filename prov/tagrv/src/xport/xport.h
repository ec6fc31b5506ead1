/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Contract between the protocols and the transports that move their bytes;
 * docs/new_transport.md is the guide to it.
 *
 *   device    one opened NIC or fabric path of a domain: registration
 *   xport     one endpoint's use of a device: queues, progress
 *   link      one ordered connection of an xport to one peer's xport
 *
 * Life of a link. Calls marked h may come from any thread, e.g. the wireup
 * thread; those marked e come from the thread that drives the endpoint, under
 * the domain lock:
 *
 *   link_create (h) --> our address blob travels to the peer
 *   link_bind   (h) --> the peer's blob is known: the link can receive, and can
 *                       send once the peer has bound its link, too
 *   link_attach (e) --> packets of this link reach the sink from here on
 *   send, get, put (e)
 *   link_close  (e) --> every outstanding operation ends by its done callback,
 *                       then link_closed is called and the link is gone
 *   link_discard (h)    ends a link that was never attached
 *
 * Ordering: packets of one link arrive in the order sent. Gets are ordered with
 * nothing. A packet sent after the done callback of a put arrives behind the
 * put's bytes; with TAGRV_XPORT_PUT_FENCED so does a packet sent after the call.
 *
 * A side link (side_create) stands beside another link of the same two xports and takes
 * gets and puts only. What breaks it breaks nothing else, so it is for keys that may not be
 * valid any more: a device ends the connection over such a key.
 *
 * A call that returns -FI_EAGAIN has changed nothing, and sink->room follows.
 * All e calls, callbacks included, run under the domain lock.
 */
#ifndef TAGRV_XPORT_XPORT_H
#define TAGRV_XPORT_XPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "core/list.h"
#include "core/param.h"
#include "xport/model.h"
#include "xport/quota.h"
#include "xport/watch.h"

struct fid_nic;
struct tagrv_device;
struct tagrv_taglist;
struct tagrv_xport;
struct tagrv_link;

/* Sizes that the wire format and every back end agree on. */
#define TAGRV_IOV_MAX		4	/* segments of one application buffer */
#define TAGRV_KEY_MAX		16	/* bytes of a packed remote key */
#define TAGRV_BLOB_MAX		192	/* bytes of a link's address blob */
#define TAGRV_DEVNAME_MAX	64	/* bytes of a device's name, with its 0 */
#define TAGRV_HDR_ROOM		192	/* bytes of a packet beyond eager_max */
#define TAGRV_SHORT_WORDS	4	/* words in the header of send_short */
#define TAGRV_SHORT_HDR		(TAGRV_SHORT_WORDS * sizeof(uint64_t))

/*
 * What send_tagged and sink->tagged take and give besides tag, data and payload:
 *
 *    63          32 31        16 15     1  0
 *   +--------------+------------+--------+------+
 *   | payload bytes| credit     | 0      | data |
 *   +--------------+------------+--------+------+
 */
#define TAGRV_META_DATA		UINT64_C(1)	/* the message has data */
#define TAGRV_META_SHARED	(~UINT64_C(0xffff))	/* bytes and credit */
#define TAGRV_META(len, credit)	((uint64_t) (len) << 32 | \
				 (uint64_t) (credit) << 16)
#define TAGRV_META_LEN(meta)	((uint32_t) ((meta) >> 32))
#define TAGRV_META_CREDIT(meta)	((uint16_t) ((meta) >> 16))

enum tagrv_xport_caps {
	TAGRV_XPORT_GET	= 1 << 0,	/* get works: remote reads */
	TAGRV_XPORT_PUT	= 1 << 1,	/* put works: remote writes */
	TAGRV_XPORT_PUT_FENCED = 1 << 2, /* no packet overtakes an earlier put */
	TAGRV_XPORT_PREPARED = 1 << 3,	/* send_prepared works */
	TAGRV_XPORT_WATCHED = 1 << 4,	/* all that progress has to do is announced in
					   sink->watch; it need not be polled */
	TAGRV_XPORT_CHECKED = 1 << 5,	/* check does something */
	TAGRV_XPORT_RENEWED = 1 << 6,	/* links ask for new ones: sink->link_renew */
	TAGRV_XPORT_SIDE = 1 << 7,	/* side_create works; gets and puts by keys that
					   may not be valid need such a link */
	TAGRV_XPORT_ATOMIC = 1 << 8,	/* atomic works, over side links */
	TAGRV_XPORT_LOCAL = 1 << 9,	/* links lead to processes of this host only */
};

/*
 * What may be done with registered memory. We ourselves may always send from it and
 * put from it; memory without TAGRV_MEM_STORE may be read-only.
 */
enum tagrv_mem_access {
	TAGRV_MEM_READ	= 1 << 0,	/* peers may get from it */
	TAGRV_MEM_WRITE	= 1 << 1,	/* peers may put into it */
	TAGRV_MEM_STORE	= 1 << 2,	/* we may get into it */
	TAGRV_MEM_ATOMIC = 1 << 3,	/* peers may change it by atomic; with
					   TAGRV_XPORT_ATOMIC only */
	TAGRV_MEM_ORDERED = 1 << 4,	/* what peers do to it in turn stays in order, though
					   nobody here awaits an end in between */
};
/* Rights of peers: the memory has a key that is of use to somebody. */
#define TAGRV_MEM_REMOTE	((unsigned) (TAGRV_MEM_READ | TAGRV_MEM_WRITE))

/*
 * Limits of a transport, and the times and rates by which select/ chooses the
 * protocols. Constant from xport_open on, except that before the first link exists
 * a measured profile may replace times and rates, and the owner may take rights away
 * from 'admits'.
 */
struct tagrv_xport_attr {
	uint32_t caps;		/* enum tagrv_xport_caps */
	unsigned admits;	/* TAGRV_MEM_READ, TAGRV_MEM_WRITE: what peers may do to
				   memory registered for it. A back end may refuse
				   all else on its links; protocols do not ask for it */
	size_t	max_inline;	/* bytes of a send in few pieces that needs no
				   copy buffer: a hint, no promise */
	size_t	max_short;	/* bytes of payload that send_short takes */
	size_t	tagged_end;	/* send_tagged takes payloads shorter than this;
				   a peer may send longer ones */
	size_t	tagged_short;	/* the same while the link's gate is open; 0: the
				   links have no gates */
	size_t	max_packet;	/* bytes of one send, all iovecs together */
	size_t	get_max;	/* bytes of one get, over any link */
	size_t	get_depth;	/* gets in flight per link, at most */
	size_t	get_least;	/* bytes from which on a get is faster than a packet there
				   and one back, whose peer answers at once. SIZE_MAX: none
				   is, or gets with a key that is not valid any more end the
				   link and there are no side links */
	size_t	put_max;	/* bytes of one put, over any link */
	size_t	put_depth;	/* puts in flight per link, at most */
	size_t	burst;		/* packets in flight per link beyond which send
				   returns -FI_EAGAIN although there is room, so
				   that small messages gather and travel
				   together; control packets are exempt. 0: no
				   such limit */
	double	latency;	/* s, one way */
	double	bandwidth;	/* bytes/s of payload moved by get or put */
	double	copy_bandwidth;	/* bytes/s of one packet, with the copies into
				   and out of it; 0: as bandwidth */
	double	overhead;	/* s per message */
	double	frag_overhead;	/* s per fragment of a copied rendezvous, more */
	double	get_overhead;	/* s per get, beyond that of a message */
	double	put_more;	/* s per put, beyond a get; less than 0: it is faster */
	double	prep_overhead;	/* s per prepared send, beyond that of a send */
	double	reg_overhead;	/* s per registration */
	double	reg_growth;	/* s per byte registered */
	size_t	reg_piece;	/* bytes to register at a time while other bytes
				   move; 0: register all at once */
	double	pipe_from;	/* bytes from which on a pipeline is faster than a get, if the
				   memory is not registered yet; 0: not measured */
	const char *source;	/* of these times and rates: "declared", ... */
	const char *section;	/* of the profile, if they come from one; else NULL. Valid as
				   long as the profile */
};

/*
 * Caller-owned record of an operation in flight. fn runs exactly once, in
 * progress or reap, never inside link_close or the call that took the record;
 * link_close cuts operations off, and their fn runs in the next progress.
 *
 * status is 0 or -FI_E*. For a send, 0 means that the peer's device has the
 * packet (TRANSMIT level); for a get, that the data is in the local buffer; for
 * a put, that the local buffer is free. A put that the peer's memory does not
 * allow ends with an error, or the link fails, on either side.
 *
 * One record may be given to several operations: fn then runs once for each.
 */
struct tagrv_done {
	void (*fn)(struct tagrv_done *done, int status);
};

/* What ops->atomic does to eight bytes of a peer, an integer in its byte order. */
struct tagrv_xport_change {
	bool	swaps;		/* stores the operand if they equal 'compare'; else adds it */
	uint64_t operand, compare;
};

enum tagrv_send_flags {
	/* May use the slots kept back for control packets (FIN, CTS, ...). */
	TAGRV_SEND_CTRL	= 1 << 0,
	/* A tagged message for a link with a 'number': the packet begins with the words of
	   xport/taglist.h. */
	TAGRV_SEND_TAGGED = 1 << 1,
};

/* A registered piece of memory. Back ends embed this struct in theirs. */
struct tagrv_mem {
	struct tagrv_device *dev;
	void	*addr;
	size_t	len;
	unsigned access;	/* enum tagrv_mem_access: what was asked for, and
				   TAGRV_MEM_STORE where it came for nothing */
	void	*owner;		/* for the caller of mem_reg, which sets NULL */
};

/*
 * Callbacks by which a transport reports. The caller of xport_open owns the
 * struct; it stays as it is until xport_close has returned. Callbacks may call
 * send, get, put and link_close of the same xport, but not progress.
 */
struct tagrv_sink {
	/*
	 * Where a transport with TAGRV_XPORT_WATCHED adds the words by which its
	 * peers announce something, and sets 'attention' when progress has
	 * something to do by itself. NULL: its owner calls progress often.
	 */
	struct tagrv_watch *watch;
	/* Optional: the address where the endpoint listens. A device that has several
	 * addresses uses this one, if it has it. */
	const struct tagrv_addr *local;
	/* Optional. What a watched word of a link with an intake calls, its owner
	 * being the link, instead of ops->drain. */
	int (*drain)(void *link);
	/* One packet has arrived; data is valid during the call only. */
	void (*packet)(struct tagrv_sink *sink, void *link_ctx,
		       const void *data, size_t len);
	/*
	 * One tagged message has arrived that the peer sent by send_tagged; meta
	 * and payload are the peer's. May be NULL only with transports whose
	 * attr.tagged_end is 0. payload is valid during the call only.
	 */
	void (*tagged)(void *link_ctx, uint64_t meta, uint64_t tag,
		       uint64_t data, const void *payload);
	/*
	 * One tagged message has arrived that the transport's list matched with no entry: it
	 * begins with the words of xport/taglist.h. data is valid during the call only.
	 * Wanted of transports that were opened with 'wants_list' only.
	 */
	void (*listed)(struct tagrv_sink *sink, void *link_ctx, const void *data,
		       size_t len);
	/* The owner uses a list of posted receives (xport/taglist.h), if xport_open can
	 * open one. */
	bool	wants_list;
	/* As next_packet, for such a message. Worth the call only while 'deep'. */
	void (*next_tagged)(void *link_ctx, uint64_t tag);
	/* So many receives are posted that matching reads lines of memory that are
	 * probably not in the processor's cache. */
	bool	deep;
	/* Messages so far that no receive was posted for. A transport that may leave
	 * entries where they are does so after a few of them in a pass: the
	 * application can then post receives before the rest has to be kept. */
	uint32_t kept;
	/* Other threads need the processor of whoever calls progress: work that a
	 * peer may do instead is left to the peer. */
	bool	crowded;
	/*
	 * Optional, may be NULL. Called before packet() of one packet to announce
	 * the packet behind it, so that the engine can prefetch: data, of which
	 * TAGRV_SHORT_HDR bytes can be read, is what that packet will begin with,
	 * unless the peer changes it; len is its length as the peer claims it. A
	 * transport calls next_packet where that costs nothing, or never.
	 */
	void (*next_packet)(struct tagrv_sink *sink, void *link_ctx,
			    const void *data, size_t len);
	/* A send, get or put that returned -FI_EAGAIN may succeed now. */
	void (*room)(struct tagrv_sink *sink);
	/*
	 * The link failed (status: -FI_E*). Called once, before the last done
	 * callback of the link's outstanding operations. From here on send, get
	 * and put return -FI_ENOTCONN. The owner calls link_close, at once or
	 * later.
	 */
	void (*link_error)(struct tagrv_sink *sink, void *link_ctx, int status);
	/* After link_close: the link is freed, no callback of it follows. */
	void (*link_closed)(struct tagrv_sink *sink, void *link_ctx);
	/*
	 * Optional. The link could use a new link to the same peer, which goes on in
	 * its place (ops->link_resume): because no path of it works any more (down),
	 * or because a path that has failed may work again. While it is down, send,
	 * get and put return -FI_EAGAIN, and nothing of it ends; an owner that
	 * gets no new link in time calls link_close. Called once until link_resume or
	 * link_unrenewed, and again if the link goes down meanwhile, or if there is
	 * reason to hope that an attempt succeeds now. Without this callback a link that
	 * is down fails.
	 */
	void (*link_renew)(struct tagrv_sink *sink, void *link_ctx, bool down);
	/*
	 * Optional. The device's port became active, or its addresses changed: peers that
	 * could not be reached by it may be reached now.
	 */
	void (*port_back)(struct tagrv_sink *sink);
	/* The whole device is lost (status: -FI_E*): every link will fail. */
	void (*fatal)(struct tagrv_sink *sink, int status);
};

/* A device that fi_getinfo can offer, or the reason why it cannot. */
struct tagrv_device_desc {
	char	name[TAGRV_DEVNAME_MAX];	/* domain name */
	bool	usable;
	char	why_not[96];		/* not usable: the reason, and a remedy */
	int	lack;			/* not usable for lack of memory or
					   descriptors: -FI_E*; else 0 */
	struct tagrv_addr addr;		/* IP of the port, family 0: none */
	char	iface[16];		/* its network interface here, "": none */
	uint64_t max_msg;		/* bytes of one transport operation */
	/* for struct fid_nic; empty strings where unknown */
	char	vendor_id[16], device_id[16], driver[32], firmware[64];
	char	link_type[24];		/* "Ethernet", "InfiniBand" */
	int	pci_domain, pci_bus, pci_dev, pci_func;	/* -1: not PCI */
	uint64_t speed;			/* bits/s */
	size_t	mtu;
	bool	up;
	int	numa_node;		/* -1: unknown */
	unsigned distance;		/* as tagrv_cpus_distance(); 0: not known */
	char	network[64];		/* ports with the same text reach each other; "":
					   not known */
	bool	atomics;		/* as of struct tagrv_device */
	uint64_t model;			/* likewise */
};

struct tagrv_device {
	const struct tagrv_xport_ops *ops;
	char	name[TAGRV_DEVNAME_MAX];
	uint64_t max_msg;
	bool	software;	/* processors of this host move the bytes, in
				   the kernel or in peers: idle polling yields */
	bool	atomics;	/* its xports have TAGRV_XPORT_ATOMIC */
	uint64_t model;		/* what it is, alike on all hosts: xport/model.h; 0: not
				   known, or of no use to peers */
};

#define TAGRV_XPORT_QUOTAS	4u

/* Base of every transport instance; back ends embed it as first member. */
struct tagrv_xport {
	const struct tagrv_xport_ops *ops;
	struct tagrv_device *dev;
	struct tagrv_sink *sink;
	/* Of its devices: how many links there can be. A link counts in each; NULL behind the
	   last one. None: as many as memory allows. */
	struct tagrv_quota *quotas[TAGRV_XPORT_QUOTAS];
	/* Where the device matches tagged messages with receives; NULL: it does not. Its owner
	   sets list->sink, and NULL here when the list is lost: links that are made from then
	   on have none. It is closed with the transport in any case, and until then may
	   call its sink. */
	struct tagrv_taglist *list;
	struct tagrv_xport_attr attr;
};

/* Walks over the quotas of a transport: 'pos' points to a pointer to each. */
#define tagrv_xport_for_each_quota(pos, xport)					\
	for (struct tagrv_quota *const *pos = (xport)->quotas;			\
	     pos < (xport)->quotas + TAGRV_XPORT_QUOTAS && *pos; pos++)

/*
 * Whether a link takes a short tagged message without fail: while cnt < end, one of
 * less than attr.tagged_short bytes. The transport changes it under the domain lock.
 */
struct tagrv_gate {
	uint64_t cnt;		/* messages, entries or the like sent so far */
	uint64_t end;
};

/*
 * Where tagged messages of a link come in memory, for an owner that takes them by
 * itself, without a call. Number nr is at slots + (nr & mask) * TAGRV_INTAKE_STRIDE:
 *
 *   head word  low half TAGRV_INTAKE_MARK | lap, and TAGRV_INTAKE_DATA if the message
 *              has data; the rest as meta; lap: bit 'shift' of nr, inverted. Any other
 *              value: not such a message, or none yet
 *   tag
 *   data       if the message has data
 *   payload    if all behind the tag is up to TAGRV_INTAKE_BYTES; a longer one is in the
 *              arena, in whole lines of
 *              TAGRV_INTAKE_LINE bytes: where the last one there ended, or at the arena's
 *              beginning if it would cross the end
 *
 * The head word is loaded once, with acquire; all of it is the peer's. The owner takes
 * the message by cnt++ and, for a longer payload, by tagrv_intake_pass(). When something
 * else is there, it calls ops->drain, and when 'cnt' has reached 'due' or 'passed' is
 * beyond 'pass_due', ops->publish.
 */
struct tagrv_intake {
	char	*slots, *end;	/* first slot, and behind the last one */
	uint64_t cnt;		/* taken so far */
	uint64_t due;
	uint32_t mask, shift;
	uint32_t longest;	/* bytes of a payload; more is an error of the peer */
	uint32_t arena_size;	/* bytes; no payload is longer than half of them */
	char	*arena;
	uint64_t passed;	/* bytes of the arena taken so far, and skipped at its end */
	uint64_t pass_due;
	uint32_t arena_pos;	/* where the next long payload begins, if it fits */
};

#define TAGRV_INTAKE_STRIDE	128u
#define TAGRV_INTAKE_LINE	64u
#define TAGRV_INTAKE_MARK	0xa504u
#define TAGRV_INTAKE_DATA	0x0002u
#define TAGRV_INTAKE_BYTES	48u

/* Bytes of the arena that a payload takes. */
static inline uint32_t tagrv_intake_lines(uint32_t len)
{
	return (len + TAGRV_INTAKE_LINE - 1) & ~(TAGRV_INTAKE_LINE - 1);
}

/* The payload in the arena that comes next; len: at most half of the arena. */
static inline char *tagrv_intake_at(const struct tagrv_intake *in, uint32_t len)
{
	return in->arena + (tagrv_intake_lines(len) >
			    in->arena_size - in->arena_pos ? 0 : in->arena_pos);
}

/* Steps past it. */
static inline void tagrv_intake_pass(struct tagrv_intake *in, uint32_t len)
{
	uint32_t need = tagrv_intake_lines(len);
	uint32_t rest = in->arena_size - in->arena_pos;

	if (need > rest) {
		in->passed += rest;
		in->arena_pos = 0;
	}
	in->passed += need;
	in->arena_pos += need;
	if (in->arena_pos == in->arena_size)
		in->arena_pos = 0;
}

/* Whether so much was taken that the peer is to be told. */
static inline bool tagrv_intake_is_due(const struct tagrv_intake *in)
{
	return TAGRV_UNLIKELY(in->cnt >= in->due) ||
	       TAGRV_UNLIKELY(in->passed > in->pass_due);
}

/* Base of every link; back ends embed it as first member. */
struct tagrv_link {
	struct tagrv_xport *xport;
	void	*ctx;		/* set by attach, handed to sink callbacks */
	/* of send_tagged; NULL as long as attr.tagged_short is 0 */
	const struct tagrv_gate *gate;
	struct tagrv_intake *intake;	/* NULL: none */
	int	watch_at;	/* index in sink->watch of what the intake's next
				   message changes, or TAGRV_WATCH_OFF */
	uint32_t peer_key;	/* tagrv_model_key() of the peer's device, set by bind; 0: it
				   did not tell. It says so itself, and nothing but the
				   choice of protocols may depend on it */
	/* bytes of one get or put over this link, set by bind */
	size_t	get_max, put_max;
	size_t	max_packet;	/* bytes of one send over this link, set by bind, the same
				   at both ends: protocols cut messages by it. 0: no bound
				   but attr.max_packet and the peer's */
	/*
	 * Set by bind, constant from then on. 'number' is what our tagged messages have in
	 * their tags, because the peer's device matches them: each is sent by 'send' or
	 * 'send_prepared' with TAGRV_SEND_TAGGED; 0: it does not. 'given' is what the peer's
	 * have, which all come through our list: by its callbacks, or by sink->listed; 0: they
	 * do not come through one. No two links have the same, and of each all but
	 * TAGRV_NUMBERS_LIFE (xport/numbers.h) is the peer's, whatever link it comes by.
	 */
	uint16_t number, given;
	/*
	 * Set by the owner before link_close: packets that the peer's device believes to
	 * have arrived still reach the sink, all before link_closed. Only links of
	 * RC transports (verbs, and fakes of it) look at it.
	 */
	bool	delivers_last;
};

typedef ssize_t (*tagrv_send_tagged_fn)(struct tagrv_link *link, uint64_t meta,
					uint64_t tag, uint64_t data,
					const void *payload);

/*
 * Every entry is set: xport/stubs.h has entries for what a transport lacks.
 * Unless a comment says otherwise, int functions return 0 or -FI_E*.
 */
struct tagrv_xport_ops {
	const char *name;	/* "verbs", "loop", "shm" */
	uint8_t	wire_id;	/* unique; names the transport in wireup records */

	/*
	 * Lists devices. *descs is malloc'ed, the caller frees it; unusable
	 * devices are listed with the reason in why_not. -FI_ENODATA: there is
	 * no device at all, and why[] gives the reason in one line.
	 */
	int (*discover)(const struct tagrv_params *params,
			struct tagrv_device_desc **descs, size_t *cnt,
			char *why, size_t why_len);

	/*
	 * Opens the device of this name. -FI_ENODEV: another transport may have
	 * it; -FI_ENOMEM, -FI_EACCES, -FI_EIO.
	 */
	int (*dev_open)(const char *name, const struct tagrv_params *params,
			struct tagrv_device **dev);
	void (*dev_close)(struct tagrv_device *dev);
	/*
	 * Asynchronous device events, e.g. a port that went down: the wireup
	 * thread waits for the descriptor (-1: no events) and calls dev_event
	 * when it is readable.
	 */
	int (*dev_event_fd)(struct tagrv_device *dev);
	void (*dev_event)(struct tagrv_device *dev);

	/*
	 * Registers memory for our own operations, and for those of peers that
	 * 'access' (enum tagrv_mem_access) allows: exactly these bytes, and no
	 * other operation of peers. Thread-safe, as mem_dereg. -FI_EINVAL: len is
	 * 0 or the range wraps; -FI_ENOMEM: also when the limit of locked memory
	 * is reached; -FI_EFAULT: there is no memory, or it is read-only and
	 * access has TAGRV_MEM_STORE.
	 */
	int (*mem_reg)(struct tagrv_device *dev, void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem);
	void (*mem_dereg)(struct tagrv_mem *mem);
	/* Writes the remote key, at most TAGRV_KEY_MAX bytes; returns bytes. */
	size_t (*mem_key)(const struct tagrv_mem *mem, void *key);

	/* Opens one endpoint's instance, ready to receive. */
	int (*xport_open)(struct tagrv_device *dev,
			  const struct tagrv_params *params,
			  struct tagrv_sink *sink, struct tagrv_xport **xport);
	/* The caller has closed or discarded every link. */
	void (*xport_close)(struct tagrv_xport *xport);

	/*
	 * Writes the address blob for the peer: blob has TAGRV_BLOB_MAX bytes,
	 * *len is set to those used. -FI_ENOSPC: the quota, or the device, has no room.
	 */
	int (*link_create)(struct tagrv_xport *xport, void *blob, size_t *len,
			   struct tagrv_link **link);
	/*
	 * Takes the peer's blob, which may come from anybody. -FI_EINVAL: no
	 * peer would send this; -FI_EHOSTUNREACH: the peer cannot be reached
	 * this way, so that wireup tries the next transport; or the device's
	 * error. A link that could not be bound is discarded by the caller.
	 */
	int (*link_bind)(struct tagrv_link *link, const void *blob, size_t len);
	/*
	 * As link_create, of a side link; the peer's blob is one of a side link, too.
	 * -FI_EOPNOTSUPP: caps is without TAGRV_XPORT_SIDE.
	 */
	int (*side_create)(struct tagrv_xport *xport, void *blob, size_t *len,
			   struct tagrv_link **link);
	void (*link_discard)(struct tagrv_link *link);
	/* -FI_ENOTCONN: the link is not bound. */
	int (*link_attach)(struct tagrv_link *link, void *ctx);
	/* May be called in sink callbacks, and again: the first call counts. */
	void (*link_close)(struct tagrv_link *link);
	/*
	 * A link, and 'fresh', which was bound to the same peer and is not attached,
	 * become one, because this side or the peer's has called link_renew: 'fresh' is
	 * no link any more, and what 'link' has under way goes on by its paths, at once
	 * or when that is better than to stay. The peer's owner does the same with its
	 * ends of both, but may skip those that are followed by others.
	 * -FI_EOPNOTSUPP: links of this transport cannot; -FI_ENOTCONN: the link has
	 * failed or is closed. On an error, 'fresh' stays as it was.
	 */
	int (*link_resume)(struct tagrv_link *link, struct tagrv_link *fresh);
	/* The owner gets no new link for now: one that is not down may ask again later. */
	void (*link_unrenewed)(struct tagrv_link *link);
	/*
	 * How well paths that have these blobs of this transport reach each other; 0: not
	 * at all, more is better. Symmetric. For xport/multi, which joins several devices.
	 */
	unsigned (*blobs_near)(const void *a, size_t a_len, const void *b,
			       size_t b_len);

	/*
	 * Sends one packet of at most attr.max_packet bytes, gathered from iov.
	 * The buffers are free on return; done may be NULL. -FI_EAGAIN: no room
	 * now; -FI_EMSGSIZE: longer than attr.max_packet or the peer's buffers;
	 * -FI_ENOTCONN: the link has failed or is closed. Delivers nothing.
	 */
	int (*send)(struct tagrv_link *link, const struct iovec *iov,
		    size_t cnt, unsigned flags, struct tagrv_done *done);
	/*
	 * The fast path of send, without done: a header of TAGRV_SHORT_HDR
	 * bytes and at most attr.max_short bytes of payload. The header comes
	 * as words, in memory order, so that the compiler moves whole words.
	 * Returns 0 or -FI_EAGAIN: then the caller uses send, which sends the
	 * packet or returns the reason why not.
	 */
	int (*send_short)(struct tagrv_link *link,
			  const uint64_t hdr[TAGRV_SHORT_WORDS],
			  const void *payload, size_t len);
	/*
	 * Sends a tagged message in the shortest form a transport has, for
	 * sink->tagged. It needs no number, because links keep the order; meta says
	 * what there is (TAGRV_META). For payloads shorter than attr.tagged_end.
	 * Returns as send_short, but always 0 while link->gate is open and the
	 * payload is shorter than attr.tagged_short.
	 */
	tagrv_send_tagged_fn send_tagged;

	/*
	 * Hands over what has come by a link with an intake, and watches the next
	 * message. Returns the number of events.
	 */
	int (*drain)(void *link);
	/* Lets the peer use what was taken out of the link's intake. */
	void (*publish)(struct tagrv_link *link);
	/*
	 * Sends one packet: a header of at most TAGRV_HDR_ROOM bytes, and a
	 * payload that the device itself gathers from registered memory. iov[i]
	 * lies within mem[i], unless it is empty; cnt <= TAGRV_IOV_MAX. done is
	 * not NULL, and the payload is in use until done->fn runs. Errors of
	 * send, and -FI_EINVAL: a segment is not within its memory;
	 * -FI_EOPNOTSUPP: caps is without TAGRV_XPORT_PREPARED.
	 */
	int (*send_prepared)(struct tagrv_link *link, const void *hdr,
			     size_t hdr_len, const struct iovec *iov,
			     struct tagrv_mem *const *mem, size_t cnt,
			     struct tagrv_done *done);
	/*
	 * Reads len bytes (at most link->get_max) at the peer's address raddr
	 * into addr. Errors of send, and -FI_EINVAL: key or length make no
	 * sense, or addr is not within mem; -FI_EOPNOTSUPP: caps is without
	 * TAGRV_XPORT_GET. What only the peer can refuse, such as a stale key,
	 * is an error in done or of the link.
	 */
	int (*get)(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		   uint64_t raddr, const void *key, size_t key_len, size_t len,
		   struct tagrv_done *done);

	/*
	 * Writes len bytes (at most link->put_max) at addr to the peer's
	 * address raddr. Errors as of get, with TAGRV_XPORT_PUT. On a side link, mem
	 * may be NULL for at most attr.max_inline bytes: addr is free on return.
	 */
	int (*put)(struct tagrv_link *link, const void *addr,
		   struct tagrv_mem *mem, uint64_t raddr, const void *key,
		   size_t key_len, size_t len, struct tagrv_done *done);

	/*
	 * The peer's device changes eight bytes at its address raddr, a multiple of 8: in
	 * one step with regard to all other calls that have it change them, but not to
	 * the peer's processor. Of one link, calls take effect in their order. *former,
	 * in use until done->fn runs, is what they were, if the status is 0. For side
	 * links. Errors as of get, with TAGRV_XPORT_ATOMIC.
	 */
	int (*atomic)(struct tagrv_link *link, const struct tagrv_xport_change *change,
		      uint64_t raddr, const void *key, size_t key_len,
		      uint64_t *former, struct tagrv_done *done);

	/*
	 * Moves packets, gets and puts, and calls every callback that is due.
	 * Returns the number of events handled, 0: nothing happened.
	 */
	int (*progress)(struct tagrv_xport *xport);
	/*
	 * Ends finished sends, but delivers no packet; may call done, room and
	 * link_error. For send paths that need room and must not run the
	 * protocols of receives. Returns the number of events handled.
	 */
	int (*reap)(struct tagrv_xport *xport);
	/* Makes the outcome of everything sent so far known soon. */
	void (*flush)(struct tagrv_xport *xport);
	/*
	 * With TAGRV_XPORT_CHECKED: called every few seconds for an attached link.
	 * Fails the link if what was given to the device does not end, and, when
	 * something of the peer is awaited, if the peer turns out to be dead. Calls no
	 * callback: progress does.
	 */
	void (*check)(struct tagrv_link *link, bool awaited);
	/* Returns the number of sends, gets and puts without an outcome yet. */
	size_t (*outstanding)(struct tagrv_xport *xport);

	/*
	 * Returns a descriptor, the same in every call, that becomes readable
	 * when an armed xport needs progress: a packet, room, or an outcome has
	 * come. -1: the xport cannot wake a thread.
	 */
	int (*wait_fd)(struct tagrv_xport *xport);
	/*
	 * Prepares for sleep. 0: the xport is armed until progress returns more
	 * than 0, and sleeping is safe; -FI_EAGAIN: call progress first. Several
	 * threads may sleep on the descriptor: an arm or progress that ends the
	 * armed state leaves the descriptor readable, or the xport armed, for
	 * the other threads.
	 */
	int (*arm)(struct tagrv_xport *xport);
};

/*
 * The transports to peers that this build has, NULL-terminated, best first.
 * tagrv_xport_self() is not among them.
 */
extern const struct tagrv_xport_ops *const tagrv_xports[];

/* The transport of an endpoint's messages to itself. */
const struct tagrv_xport_ops *tagrv_xport_self(void);
/* The transport to processes of this host; every domain opens it beside a NIC. */
const struct tagrv_xport_ops *tagrv_xport_local(void);

/*
 * Joins two to four devices of one transport to one: endpoints over it use all of them,
 * and go on while one works. On success *dev owns them. -FI_EINVAL: they are not of one
 * transport, or too many; -FI_ENOMEM, -errno.
 */
int tagrv_xport_join(struct tagrv_device *const *devs, size_t cnt,
		     struct tagrv_device **dev) TAGRV_WARN_UNUSED;

/* True if FI_TAGRV_TRANSPORTS allows the use of this transport. */
bool tagrv_xport_is_wanted(const struct tagrv_params *params,
			   const struct tagrv_xport_ops *ops);
/*
 * True if FI_TAGRV_TRANSPORTS has a name that belongs to no transport, in this
 * build or another one. *name is set to where the name begins in params, *len
 * to its length.
 */
bool tagrv_xport_find_unknown(const struct tagrv_params *params,
			      const char **name, size_t *len);

#endif
