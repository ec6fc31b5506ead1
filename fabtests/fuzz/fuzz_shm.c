/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fuzzes what a peer can do through shared memory. One end of a link is the
 * transport, the other end is this program (the peer), from the handover on.
 *
 *   input: steps of one byte each, some with bytes that follow
 *     0  peer writes bytes into the next slot of the transport's ring
 *     1  peer writes an entry with a valid head
 *     2  transport sends a packet            3  transport gets memory of the peer
 *     4  peer writes bytes anywhere in the transport's ring
 *     5  peer asks for memory of the transport
 *     6  transport arms                      7  peer changes the consumer's head
 *     8  peer changes its own header         9  peer sets bits of the transport's bell
 *     10 peer answers a get                  11 peer consumes, as a correct one
 *     12 transport puts to memory of the peer
 *     13 peer puts to memory of the transport
 *     14 peer sends a tagged message       15 transport sends one
 *     16 peer asks for help with a get     17 transport asks for help with one
 *     18 peer changes the records of gets that both copy
 *
 * The first byte says whether process_vm_readv is allowed: if not, all gets go through
 * the rings.
 *
 * Nothing may crash, hang or be read out of bounds. A link fails once at most,
 * and closing it ends every get.
 */
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "xport/backends.h"
#include "xport/shm/shm_layout.h"
#include "xport/shm/shm_ring.h"

enum { GET_LEN = 20000, HELP_LEN = 150000, HELP_MIN = 16384, NAME_LEN = 16, NAME_AT = 24, ID_AT = 40 };

struct input {
	const uint8_t *pos;
	size_t	left;
};

/* The transport's end of the link. */
struct side {
	struct tagrv_sink sink;
	struct tagrv_device *dev;
	struct tagrv_xport *xport;
	struct tagrv_link *link;
	struct tagrv_mem *mem;
	char	*buf;
	char	key[TAGRV_KEY_MAX];
	size_t	key_len;
	unsigned errors, gets;
	uint64_t sum;		/* of all bytes of packets, so that each is read */
};

/* The peer's end: this program. */
struct peer {
	int	listen_fd;
	uint8_t	name[NAME_LEN];
	struct shm_tx tx;		/* writes to the transport's ring */
	struct shm_header *own;		/* header of the peer's ring */
	struct shm_bell *bell;		/* the transport's bell */
	struct shm_entry table[2];	/* the peer's memory: entry 1 is 'memory' */
	char	memory[HELP_LEN];
};

static struct side side;
static struct peer peer;
static struct tagrv_done get_done;
static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

/* ---- the transport's end ---- */

static void on_packet(struct tagrv_sink *sink, void *ctx, const void *data,
		      size_t len)
{
	(void) sink;
	require(ctx == &side && len <= side.xport->attr.max_packet);
	for (size_t i = 0; i < len; i++)
		side.sum += ((const uint8_t *) data)[i];
}

static void on_tagged(void *ctx, uint64_t meta, uint64_t tag, uint64_t data,
		      const void *payload)
{
	require(ctx == &side &&
		TAGRV_META_LEN(meta) <=
		side.xport->attr.max_packet - TAGRV_SHORT_HDR);
	require(!data || meta & TAGRV_META_DATA);
	side.sum += tag + data;
	for (size_t i = 0; i < TAGRV_META_LEN(meta); i++)
		side.sum += ((const uint8_t *) payload)[i];
}

static void on_next_tagged(void *ctx, uint64_t tag)
{
	require(ctx == &side);
	side.sum += tag;
}

/* Reads all bytes that the transport allows to be read ahead. */
static void on_next_packet(struct tagrv_sink *sink, void *ctx, const void *data,
			   size_t len)
{
	volatile const unsigned char *byte = data;

	(void) sink;
	(void) ctx;
	(void) len;
	for (size_t i = 0; i < TAGRV_SHORT_HDR; i++)
		(void) byte[i];
}

static void on_room(struct tagrv_sink *sink)
{
	(void) sink;
}

static void on_error(struct tagrv_sink *sink, void *ctx, int status)
{
	(void) sink;
	require(ctx == &side && status < 0 && !side.errors++);
}

static void on_closed(struct tagrv_sink *sink, void *ctx)
{
	(void) sink;
	require(ctx == &side);
	side.link = NULL;
}

static void on_fatal(struct tagrv_sink *sink, int status)
{
	(void) sink;
	(void) status;
	abort();
}

static void on_got(struct tagrv_done *done, int status)
{
	(void) done;
	(void) status;
	require(side.gets--);
}

static void open_side(void)
{
	struct tagrv_params params = {
		.eager_max = 4096, .read_depth = 4, .shm_ring = SHM_RING_MIN,
		.shm_cma = "yes", .shm_help = HELP_MIN,
	};

	get_done.fn = on_got;
	side.sink = (struct tagrv_sink) {
		.packet = on_packet, .next_packet = on_next_packet,
		.tagged = on_tagged, .next_tagged = on_next_tagged,
		.room = on_room, .link_error = on_error,
		.link_closed = on_closed, .fatal = on_fatal,
	};
	require(!ops->dev_open("shm", &params, &side.dev));
	require(!ops->xport_open(side.dev, &params, &side.sink, &side.xport));
	side.buf = calloc(1, HELP_LEN);
	require(!ops->mem_reg(side.dev, side.buf, HELP_LEN,
			      TAGRV_MEM_READ | TAGRV_MEM_WRITE, &side.mem));
	side.key_len = ops->mem_key(side.mem, side.key);
}

/* ---- handover ---- */

static socklen_t sock_addr(struct sockaddr_un *sun, const void *name)
{
	*sun = (struct sockaddr_un) { .sun_family = AF_UNIX };
	memcpy(sun->sun_path, "\0tagrv-", 7);
	memcpy(sun->sun_path + 7, name, NAME_LEN);
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 7 +
			    NAME_LEN);
}

static void open_peer(void)
{
	struct sockaddr_un sun;
	socklen_t len;
	pid_t pid = getpid();

	memcpy(peer.name, &pid, sizeof(pid));
	len = sock_addr(&sun, peer.name);
	peer.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	peer.table[0].secret = 5;
	peer.table[1] = (struct shm_entry) {
		.secret = 9, .addr = (uintptr_t) peer.memory, .len = HELP_LEN,
	};
	require(!bind(peer.listen_fd, (struct sockaddr *) &sun, len) &&
		!listen(peer.listen_fd, 5));
}

union control {
	struct cmsghdr align;
	char	space[CMSG_SPACE(sizeof(int) * SHM_HAND_FDS)];
};

static struct msghdr message(struct iovec *iov, union control *control)
{
	return (struct msghdr) {
		.msg_iov = iov, .msg_iovlen = 1,
		.msg_control = control->space,
		.msg_controllen = sizeof(control->space),
	};
}

static void *map(int fd, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	require(at != MAP_FAILED);
	close(fd);
	return at;
}

/* Maps the transport's ring and bell for writing. */
static void take_ring(void)
{
	int sock = accept(peer.listen_fd, NULL, NULL), fds[SHM_HAND_FDS];
	struct shm_hand hand;
	struct iovec iov = { &hand, sizeof(hand) };
	union control control;
	struct msghdr msg = message(&iov, &control);

	require(recvmsg(sock, &msg, 0) == sizeof(hand));
	close(sock);
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fds));
	close(fds[2]);
	peer.bell = map(fds[1], SHM_BELL_SIZE);
	peer.tx = (struct shm_tx) {
		.hdr = map(fds[0], SHM_RING_MIN), .mask = hand.slots - 1,
		.shift = (uint32_t) __builtin_ctz(hand.slots),
		.limit = hand.slots, .arena_size = hand.arena,
		.arena_limit = hand.arena,
	};
	peer.tx.data = (char *) (peer.tx.hdr + 1);
	peer.tx.arena = peer.tx.data + (size_t) hand.slots * SHM_STRIDE;
}

static int sealed(size_t size)
{
	int fd = memfd_create("fuzz", MFD_ALLOW_SEALING);

	require(!ftruncate(fd, (off_t) size) &&
		!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

static void give_ring(const char *blob, bool cma)
{
	struct shm_hand hand = {
		.magic = SHM_MAGIC, .version = SHM_VERSION,
		.slots = shm_slots_of(SHM_RING_MIN),
		.arena = shm_arena_of(SHM_RING_MIN), .max_packet = 3200,
		.table = (uintptr_t) peer.table, .token = cma ? 5 : 6,
	};
	int fds[SHM_HAND_FDS] = {
		sealed(SHM_RING_MIN), sealed(SHM_BELL_SIZE),
		socket(AF_UNIX, SOCK_STREAM, 0),
	};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct iovec iov = { &hand, sizeof(hand) };
	union control control = { .space = "" };
	struct msghdr msg = message(&iov, &control);
	struct sockaddr_un sun;
	socklen_t len = sock_addr(&sun, blob + NAME_AT);

	memcpy(&hand.id, blob + ID_AT, 2 * sizeof(hand.id));
	*CMSG_FIRSTHDR(&msg) = (struct cmsghdr) {
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(sizeof(fds)),
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, sizeof(fds));
	peer.own = mmap(NULL, SHM_RING_MIN, PROT_READ | PROT_WRITE, MAP_SHARED,
			fds[0], 0);
	peer.own->constants = (struct shm_constants) {
		.magic = SHM_MAGIC, .version = SHM_VERSION, .slots = hand.slots,
		.arena = hand.arena,
	};
	require(!connect(sock, (struct sockaddr *) &sun, len) &&
		sendmsg(sock, &msg, 0) == sizeof(hand));
	close(sock);
	for (int i = 0; i < SHM_HAND_FDS; i++)
		close(fds[i]);
}

static void connect_both(bool cma)
{
	char blob[TAGRV_BLOB_MAX], ours[TAGRV_BLOB_MAX];
	struct iovec iov = { blob, 8 };
	size_t len;

	side.errors = 0;
	require(!ops->link_create(side.xport, blob, &len, &side.link));
	memcpy(ours, blob, len);
	memcpy(ours + NAME_AT, peer.name, NAME_LEN);
	require(!ops->link_bind(side.link, ours, len));
	require(!ops->link_attach(side.link, &side));
	take_ring();
	give_ring(blob, cma);
	require(!ops->send(side.link, &iov, 1, 0, NULL));
	ops->progress(side.xport);
	/* The peer reads its ring in every pass. */
	atomic_store(&peer.own->cons.state, SHM_POLLED);
}

/* The peer has copied what it claimed: the transport would wait for it. */
static void acknowledge(void)
{
	for (unsigned i = 0; i < SHM_HELPS; i++) {
		struct shm_help_line *line = &peer.tx.hdr->helps[i];
		uint64_t claim = line->claim;

		line->ack = claim & ~UINT64_C(0xffff0000);
	}
}

static void disconnect(void)
{
	acknowledge();
	ops->link_close(side.link);
	for (int i = 0; side.link; i++) {
		require(i < 1000);
		ops->progress(side.xport);
	}
	require(!side.gets && !ops->outstanding(side.xport));
	munmap(peer.tx.hdr, SHM_RING_MIN);
	munmap(peer.own, SHM_RING_MIN);
	munmap(peer.bell, SHM_BELL_SIZE);
}

/* ---- steps ---- */

static unsigned next(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->pos++;
}

static void take(struct input *in, void *to, size_t len)
{
	len = TAGRV_MIN(len, in->left);
	memcpy(to, in->pos, len);
	in->pos += len;
	in->left -= len;
}

/* Whether a correct peer would find room, so that many valid entries follow each other. */
static bool has_room(uint32_t bytes)
{
	return shm_tx_fits(&peer.tx, bytes, 0, 0) ||
	       (shm_tx_refresh(&peer.tx) &&
		shm_tx_fits(&peer.tx, bytes, 0, 0));
}

static void put(enum shm_kind kind, const void *body, uint32_t body_len,
		uint32_t len)
{
	if (len > peer.tx.arena_size / 2 ||
	    !has_room(len <= SHM_INLINE ? 0 : shm_tx_arena_cost(&peer.tx, len)))
		return;
	memcpy(shm_tx_body(&peer.tx, len), body, TAGRV_MIN(body_len, len));
	shm_tx_publish_body(&peer.tx, kind, len);
}

static void put_tagged(struct input *in)
{
	bool has_data = next(in) & 1;
	uint32_t len = next(in) * (next(in) & 1 ? 1 : 20);
	uint32_t room = has_data ? SHM_DATA_INLINE : SHM_TAGGED_INLINE;
	char *slot = shm_tx_slot(&peer.tx);

	if (!has_room(len <= room ? 0 : shm_tx_arena_cost(&peer.tx, len)))
		return;
	take(in, slot + SHM_HEAD_WORD, SHM_INLINE);
	if (len > room) {
		take(in, shm_tx_arena(&peer.tx, len), TAGRV_MIN(len, 20u));
		shm_tx_use_arena(&peer.tx, len);
	}
	shm_tx_publish(&peer.tx, shm_word(has_data ? SHM_TAGGED_DATA :
						     SHM_TAGGED, len,
					  (uint16_t) next(in)));
}

static void put_any(struct input *in)
{
	static const uint32_t lens[] = { 0, 8, 40, 56, 57, 100, 3200, 3966 };
	enum shm_kind kind = (enum shm_kind) (next(in) % 10);
	uint32_t len = lens[next(in) % 8] + next(in) % 3;
	char body[64] = "";

	take(in, body, sizeof(body));
	put(kind, body, sizeof(body), len);
}

/* A get request that is valid except for the bytes that the input changes. */
static void put_request(struct input *in)
{
	struct shm_get_req req = {
		.slot = next(in), .raddr = (uintptr_t) side.buf + next(in),
		.len = next(in) * 80,
	};

	memcpy(&req.index, side.key, sizeof(req.index));
	memcpy(&req.secret, side.key + 8, sizeof(req.secret));
	if (next(in) & 1)
		take(in, &req, sizeof(req));
	put(SHM_GET_REQ, &req, sizeof(req), sizeof(req));
}

/* The same for a put. */
static void put_piece(struct input *in)
{
	struct shm_put_piece piece = {
		.raddr = (uintptr_t) side.buf + next(in) * 80,
	};

	memcpy(&piece.index, side.key, sizeof(piece.index));
	memcpy(&piece.secret, side.key + 8, sizeof(piece.secret));
	if (next(in) & 1)
		take(in, &piece, sizeof(piece));
	put(SHM_PUT, &piece, sizeof(piece),
	    (uint32_t) sizeof(piece) + next(in) * 16);
}

static void put_answer(struct input *in)
{
	struct shm_get_data data = {
		.slot = next(in) % 4, .gen = next(in) % 4,
		.offset = next(in) * 64,
	};

	put(next(in) & 3 ? SHM_GET_DATA : SHM_GET_FAIL, &data, sizeof(data),
	    (uint32_t) sizeof(data) + next(in) * 16);
}

/* Always for memory of the peer: the transport may write wherever it is asked to. */
static void put_help(struct input *in)
{
	struct shm_help_req req = {
		.record = next(in) % (SHM_HELPS + 1), .seq = next(in) % 4,
		.raddr = (uintptr_t) side.buf + next(in) * 80,
		.addr = (uintptr_t) peer.memory, .len = next(in) * 588,
		.chunk = (next(in) % 33) << 10,
	};

	memcpy(&req.index, side.key, sizeof(req.index));
	memcpy(&req.secret, side.key + 8, sizeof(req.secret));
	if (next(in) % 4 == 0)
		req.secret++;
	if (next(in) & 1)
		atomic_store(&peer.own->helps[req.record % SHM_HELPS].claim,
			     (uint64_t) req.seq << 32);
	put(SHM_HELP, &req, sizeof(req), sizeof(req) - !(next(in) % 16));
}

/* Valid reads of the peer's memory, with and without help. */
static void transport_gets_help(struct input *in)
{
	char key[TAGRV_KEY_MAX] = "";
	uint32_t index = 1;
	size_t len = next(in) * 588;

	memcpy(key, &index, sizeof(index));
	memcpy(key + 8, &peer.table[1].secret, 8);
	if (!ops->get(side.link, side.buf, side.mem, (uintptr_t) peer.memory,
		      key, side.key_len, len, &get_done))
		side.gets++;
}

/* In the peer's ring, where the owner looks, or in the transport's, where the issuer does. */
static void change_record(struct input *in)
{
	struct shm_header *hdr = next(in) & 1 ? peer.own : peer.tx.hdr;
	struct shm_help_line *line = &hdr->helps[next(in) % SHM_HELPS];

	switch (next(in) % 5) {
	case 0:
		atomic_fetch_add(&line->claim, 1);
		ops->progress(side.xport);
		atomic_fetch_add(&line->ack, 1);
		break;
	case 1: atomic_fetch_add(&line->ack, 1); break;
	case 2: atomic_fetch_or(&line->ack, 1u << 16); break;
	case 3: take(in, &line->claim, 8); break;
	default: take(in, &line->ack, 8);
	}
}

static void send_packet(size_t len)
{
	static char data[4096];
	struct iovec iov = { data, len };
	int ret = ops->send(side.link, &iov, 1, 0, NULL);

	require(!ret || ret == -FI_EAGAIN || ret == -FI_ENOTCONN);
}

static void send_tagged(struct input *in)
{
	static char data[4096];
	uint64_t meta = TAGRV_META(next(in) * 13, next(in)) | (next(in) & 1);
	int ret = ops->send_tagged(side.link, meta, next(in), 1, data);

	require(!ret || ret == -FI_EAGAIN);
}

static void transport_gets(void)
{
	if (!ops->get(side.link, side.buf, side.mem, 4096, side.key,
		      side.key_len, GET_LEN / 4, &get_done))
		side.gets++;
}

static void transport_puts(void)
{
	if (!ops->put(side.link, side.buf, side.mem, 4096, side.key,
		      side.key_len, GET_LEN / 4, &get_done))
		side.gets++;
}

static void anywhere(struct input *in)
{
	size_t at = (next(in) << 8 | next(in)) % (SHM_RING_MIN - 64);

	take(in, (char *) peer.tx.hdr + at, next(in) % 64);
}

static void step(struct input *in)
{
	switch (next(in) % 19) {
	case 0:
		take(in, shm_tx_slot(&peer.tx), SHM_LINE);
		break;
	case 1: put_any(in); break;
	case 2: send_packet(next(in) * 12); break;
	case 3: transport_gets(); break;
	case 4: anywhere(in); break;
	case 5: put_request(in); break;
	case 6: ops->arm(side.xport); break;
	case 7: take(in, &peer.own->cons.head, next(in) % 17); break;
	case 8: take(in, &peer.own->cons.state, next(in) % 5); break;
	case 9: take(in, peer.bell, next(in) % 100); break;
	case 10: put_answer(in); break;
	case 12: transport_puts(); break;
	case 13: put_piece(in); break;
	case 14: put_tagged(in); break;
	case 15: send_tagged(in); break;
	case 16: put_help(in); break;
	case 17: transport_gets_help(in); break;
	case 18: change_record(in); break;
	default:	/* a correct consumer */
		peer.own->cons.head += next(in);
	}
	atomic_fetch_or(&peer.bell->bits[0], 1);
	atomic_fetch_or(&peer.bell->summary, 1);
	ops->progress(side.xport);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (!side.dev) {
		open_side();
		open_peer();
	}
	connect_both(next(&in) & 1);
	while (in.left && !side.errors)
		step(&in);
	disconnect();
	return 0;
}
