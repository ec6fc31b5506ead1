/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Contract between the protocols and what moves bytes.
 *
 *   device    one opened NIC or fabric path of a domain: registration
 *   xport     one endpoint's use of a device: queues, progress
 *   link      one ordered connection of an xport to one peer's xport
 *
 * Life of a link (h: any thread, e.g. the wireup thread; e: under the domain
 * lock, by the thread that drives the endpoint):
 *
 *   link_create (h) --> our address blob travels to the peer
 *   link_bind   (h) --> the peer's blob is known: can receive, and can send
 *                       once the peer has done the same
 *   link_attach (e) --> packets of this link reach the sink from here on
 *   send, get, put (e)
 *   link_close  (e) --> every outstanding operation ends by its done callback,
 *                       then link_closed is reported and the link is gone
 *   link_discard (h)    for a link that was never attached
 *
 * Ordering: packets of one link arrive in the order sent; gets are ordered
 * with nothing. A packet sent after a put is done arrives behind its bytes; with
 * TAGRV_XPORT_PUT_FENCED so does one sent after the call. -FI_EAGAIN means nothing happened; room is announced through
 * sink->room. All e calls, callbacks included, run under the domain lock.
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

struct fid_nic;
struct tagrv_device;
struct tagrv_xport;
struct tagrv_link;

/* Sizes that the wire and every back end agree on. */
#define TAGRV_IOV_MAX		4	/* segments of one application buffer */
#define TAGRV_KEY_MAX		16	/* bytes of a packed remote key */
#define TAGRV_BLOB_MAX		64	/* bytes of a link's address blob */
#define TAGRV_DEVNAME_MAX	64
#define TAGRV_HDR_ROOM		192	/* bytes of a packet beyond eager_max */
#define TAGRV_SHORT_WORDS	4	/* of the header of send_short */
#define TAGRV_SHORT_HDR		(TAGRV_SHORT_WORDS * sizeof(uint64_t))

enum tagrv_xport_caps {
	TAGRV_XPORT_GET	= 1 << 0,	/* remote reads */
	TAGRV_XPORT_PUT	= 1 << 1,	/* remote writes */
	TAGRV_XPORT_PUT_FENCED = 1 << 2, /* what is sent behind one stays there */
	TAGRV_XPORT_PREPARED = 1 << 3,	/* send_prepared */
};

/* What peers may do with registered memory. */
enum tagrv_mem_access {
	TAGRV_MEM_READ	= 1 << 0,	/* get */
	TAGRV_MEM_WRITE	= 1 << 1,	/* put */
};

/* What a transport can do; constant from xport_open on. */
struct tagrv_xport_attr {
	uint32_t caps;		/* enum tagrv_xport_caps */
	size_t	max_inline;	/* bytes of a send in few pieces that needs no
				   copy buffer: no promise, a size to prefer */
	size_t	max_short;	/* bytes of payload that send_short takes */
	size_t	max_packet;	/* bytes of one send, all iovecs together */
	size_t	get_max;	/* bytes of one get, over any link */
	size_t	get_depth;	/* gets in flight per link, at most */
	size_t	put_max;	/* bytes of one put, over any link */
	size_t	put_depth;	/* puts in flight per link, at most */
	size_t	burst;		/* packets in flight per link beyond which send
				   answers -FI_EAGAIN although there is room, so
				   that small messages gather and travel
				   together; control packets may pass. 0: none */
	double	latency;	/* s, one way */
	double	bandwidth;	/* bytes/s of fetched payload */
	double	copy_bandwidth;	/* bytes/s of one packet, with the copies into
				   and out of it; 0: as bandwidth */
	double	overhead;	/* s per message */
	double	get_overhead;	/* s per get, beyond that of a message */
	double	prep_overhead;	/* s per prepared send, beyond that of another */
	double	reg_overhead;	/* s per registration */
	double	reg_growth;	/* s per byte registered */
	size_t	reg_piece;	/* bytes registered at a time where others move
				   meanwhile; 0: always all at once */
	const char *source;	/* of these times and rates: "declared", ... */
};

/*
 * Caller-owned record of an operation in flight. fn runs exactly once, in
 * progress or reap, never inside link_close or the call that took the record;
 * what a close cuts off ends in the progress that follows it. status
 * is 0 or -FI_E*: for a send, 0 means that the peer's device has it (TRANSMIT
 * level); for a get, that the data is in the local buffer; for a put, that the
 * local buffer is free. A put that the peer's memory does not allow ends with an
 * error, or the link does, on either side. One record may be
 * given to several operations: fn then runs once for each.
 */
struct tagrv_done {
	void (*fn)(struct tagrv_done *done, int status);
};

enum tagrv_send_flags {
	/* May use the slots kept back for control packets (FIN and the like). */
	TAGRV_SEND_CTRL	= 1 << 0,
};

/* A registered piece of memory. Back ends embed it. */
struct tagrv_mem {
	struct tagrv_device *dev;
	void	*addr;
	size_t	len;
	unsigned access;	/* enum tagrv_mem_access */
	void	*owner;		/* the protocols' use; NULL from mem_reg */
};

/*
 * Where a transport reports. Set at xport_open, constant, outlives the xport.
 * Callbacks may call send, get and link_close of the same xport, not progress.
 */
struct tagrv_sink {
	/* One packet; data is valid during the call only. */
	void (*packet)(struct tagrv_sink *sink, void *link_ctx,
		       const void *data, size_t len);
	/*
	 * Or NULL. The packet that will be handed over after the next one has
	 * come, too: data, of which TAGRV_SHORT_HDR bytes can be read, is
	 * what its packet call will begin with, unless the peer changes it. A
	 * transport tells this where it costs nothing, or never.
	 */
	void (*ahead)(struct tagrv_sink *sink, void *link_ctx,
		      const void *data, size_t len);
	/* A send, get or put that got -FI_EAGAIN may succeed now. */
	void (*room)(struct tagrv_sink *sink);
	/*
	 * The link failed (status: -FI_E*): reported once, before the done
	 * callbacks of what is outstanding have all run. From here on send and
	 * get return -FI_ENOTCONN. The owner answers with link_close, at once
	 * or later.
	 */
	void (*link_error)(struct tagrv_sink *sink, void *link_ctx, int status);
	/* After link_close: nothing of the link is left. */
	void (*link_closed)(struct tagrv_sink *sink, void *link_ctx);
	/* The whole device is unusable: every link will fail. */
	void (*fatal)(struct tagrv_sink *sink, int status);
};

/* One thing fi_getinfo can offer, or the reason why it cannot. */
struct tagrv_device_desc {
	char	name[TAGRV_DEVNAME_MAX];	/* domain name */
	bool	usable;
	char	why_not[96];		/* when not usable: reason, what to do */
	struct tagrv_addr addr;		/* IP of the port, family 0: none */
	uint64_t max_msg;		/* bytes of one transport operation */
	/* for struct fid_nic; empty strings where unknown */
	char	vendor_id[16], device_id[16], driver[32], firmware[64];
	char	link_type[24];		/* "Ethernet", "InfiniBand" */
	int	pci_domain, pci_bus, pci_dev, pci_func;	/* -1: not PCI */
	uint64_t speed;			/* bits/s */
	size_t	mtu;
	bool	up;
	int	numa_node;		/* -1: unknown */
};

struct tagrv_device {
	const struct tagrv_xport_ops *ops;
	char	name[TAGRV_DEVNAME_MAX];
	uint64_t max_msg;
	bool	software;	/* bytes are moved on our processors: by the
				   kernel, or by peers */
};

/* Base of every transport instance; back ends embed it as first member. */
struct tagrv_xport {
	const struct tagrv_xport_ops *ops;
	struct tagrv_device *dev;
	struct tagrv_sink *sink;
	struct tagrv_xport_attr attr;
};

/* Base of every link; back ends embed it as first member. */
struct tagrv_link {
	struct tagrv_xport *xport;
	void	*ctx;		/* given back in sink callbacks, set by attach */
	/* bytes of one get or put over this link, set by bind */
	size_t	get_max, put_max;
};

/*
 * Every entry is set; xport/stubs.c serves what a transport lacks.
 */
struct tagrv_xport_ops {
	const char *name;	/* "verbs", "loop", "shm" */
	uint8_t	wire_id;	/* names the transport in wireup records */

	/*
	 * Lists devices. *descs is malloc'ed, the caller frees it; unusable
	 * ones are listed with their reason. -FI_ENODATA: none at all, and
	 * why[] says why in one line.
	 */
	int (*discover)(const struct tagrv_params *params,
			struct tagrv_device_desc **descs, size_t *cnt,
			char *why, size_t why_len);

	/* Opens by name. -FI_ENODEV, -FI_ENOMEM, -FI_EACCES, -FI_EIO. */
	int (*dev_open)(const char *name, const struct tagrv_params *params,
			struct tagrv_device **dev);
	void (*dev_close)(struct tagrv_device *dev);
	/*
	 * Asynchronous device events: a file descriptor for the wireup thread
	 * to wait on, or -1, and what it calls when that is readable.
	 */
	int (*dev_event_fd)(struct tagrv_device *dev);
	void (*dev_event)(struct tagrv_device *dev);

	/*
	 * Registers memory for local use and for what 'access' (enum
	 * tagrv_mem_access) lets peers do. Thread-safe. -FI_ENOMEM (memlock
	 * limit), -FI_EFAULT.
	 */
	int (*mem_reg)(struct tagrv_device *dev, void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem);
	void (*mem_dereg)(struct tagrv_mem *mem);
	/* Writes the remote key, at most TAGRV_KEY_MAX bytes; returns bytes. */
	size_t (*mem_key)(const struct tagrv_mem *mem, void *key);

	/* Opens an endpoint's instance; receive buffers are up on return. */
	int (*xport_open)(struct tagrv_device *dev,
			  const struct tagrv_params *params,
			  struct tagrv_sink *sink, struct tagrv_xport **xport);
	/* Every link was closed or discarded before. */
	void (*xport_close)(struct tagrv_xport *xport);

	/* blob: TAGRV_BLOB_MAX bytes, *len set. */
	int (*link_create)(struct tagrv_xport *xport, void *blob, size_t *len,
			   struct tagrv_link **link);
	/* -FI_EINVAL: the blob makes no sense; other errors: of the device. */
	int (*link_bind)(struct tagrv_link *link, const void *blob, size_t len);
	void (*link_discard)(struct tagrv_link *link);
	int (*link_attach)(struct tagrv_link *link, void *ctx);
	void (*link_close)(struct tagrv_link *link);

	/*
	 * Sends one packet gathered from iov (bytes <= max_packet). The
	 * buffers are free on return. done may be NULL. 0, -FI_EAGAIN,
	 * -FI_EMSGSIZE when the packet is longer than the attributes or the
	 * peer's buffers allow, -FI_ENOTCONN when the link has failed.
	 */
	int (*send)(struct tagrv_link *link, const struct iovec *iov,
		    size_t cnt, unsigned flags, struct tagrv_done *done);
	/*
	 * The same for a header of TAGRV_SHORT_HDR bytes and at most
	 * attr.max_short bytes of payload, where it can be done without any
	 * detour. The header is given as words, in the order of memory, for the
	 * compiler to move whole words. 0, or -FI_EAGAIN: use send, which does
	 * it or knows why not.
	 */
	int (*send_short)(struct tagrv_link *link,
			  const uint64_t hdr[TAGRV_SHORT_WORDS],
			  const void *payload, size_t len);
	/*
	 * Sends one packet, a header of at most TAGRV_HDR_ROOM bytes and the
	 * payload that the device itself gathers from registered memory: mem[i]
	 * has iov[i], if that is not empty. cnt <= TAGRV_IOV_MAX, done is not
	 * NULL; the payload is busy until it runs. As send, and -FI_EINVAL: a
	 * segment is not within its memory. Without TAGRV_XPORT_PREPARED
	 * -FI_EOPNOTSUPP.
	 */
	int (*send_prepared)(struct tagrv_link *link, const void *hdr,
			     size_t hdr_len, const struct iovec *iov,
			     struct tagrv_mem *const *mem, size_t cnt,
			     struct tagrv_done *done);
	/*
	 * Reads len bytes (at most link->get_max) at remote address raddr into
	 * addr. As send, and -FI_EINVAL: key or length make no sense, or addr
	 * is not within mem.
	 */
	int (*get)(struct tagrv_link *link, void *addr, struct tagrv_mem *mem,
		   uint64_t raddr, const void *key, size_t key_len, size_t len,
		   struct tagrv_done *done);

	/*
	 * Writes len bytes (at most link->put_max) of addr to remote address
	 * raddr. As get.
	 */
	int (*put)(struct tagrv_link *link, const void *addr,
		   struct tagrv_mem *mem, uint64_t raddr, const void *key,
		   size_t key_len, size_t len, struct tagrv_done *done);

	/* Moves everything; returns the number of events handled. */
	int (*progress)(struct tagrv_xport *xport);
	/*
	 * Reaps finished sends only: no packet reaches the sink. For send paths
	 * that must free resources without running receive protocols.
	 */
	int (*reap)(struct tagrv_xport *xport);
	/* Asks that everything sent so far be confirmed soon. */
	void (*flush)(struct tagrv_xport *xport);
	/* Sends and gets whose outcome is not known yet. */
	size_t (*outstanding)(struct tagrv_xport *xport);

	/* Descriptor that becomes readable on events once armed, or -1. */
	int (*wait_fd)(struct tagrv_xport *xport);
	/*
	 * 0: armed until progress returns more than 0, sleep is safe;
	 * -FI_EAGAIN: call progress first. Where several threads sleep on the
	 * descriptor, the one that ends this, here or by progress, leaves it
	 * readable, or armed, for the others.
	 */
	int (*arm)(struct tagrv_xport *xport);
};

/* The transports compiled in, NULL-terminated, best first. Loop excluded. */
extern const struct tagrv_xport_ops *const tagrv_xports[];

/* Whether FI_TAGRV_TRANSPORTS lets a transport be used. */
bool tagrv_xport_is_wanted(const struct tagrv_params *params,
			   const struct tagrv_xport_ops *ops);
/*
 * Whether it names something that is no transport, built in or not: *name is
 * where that begins, *len its length.
 */
bool tagrv_xport_find_unknown(const struct tagrv_params *params,
			      const char **name, size_t *len);

extern const struct tagrv_xport_ops tagrv_loop_ops;
extern const struct tagrv_xport_ops tagrv_shm_ops;
extern const struct tagrv_xport_ops tagrv_verbs_ops;

#endif
