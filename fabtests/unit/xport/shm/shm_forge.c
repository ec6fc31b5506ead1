/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections to a device's socket made by hand: see shm_forge.h.
 */
#include "unit/xport/shm/shm_forge.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int shm_dial(const struct shm_device *to)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(sun.sun_path, "\0tagrv-", 7);
	memcpy(sun.sun_path + 7, to->name, SHM_SOCK_NAME);
	if (connect(sock, (struct sockaddr *) &sun,
		    (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 7 +
				 SHM_SOCK_NAME)))
		return -1;
	return sock;
}

void shm_say(int sock, const void *data, size_t len, const int *fds,
		size_t cnt)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * 8)];
	} control = { .space = "" };
	struct iovec iov = { (void *) (uintptr_t) data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (cnt) {
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * cnt);
		CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int) * cnt);
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, sizeof(int) * cnt);
	}
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		_exit(3);
}

void forged_open(struct forged *f, struct tagrv_xport *xport)
{
	const uint32_t slots = shm_slots_of(32768), arena = shm_arena_of(32768);
	struct shm_constants constants = {
		.magic = SHM_MAGIC, .version = SHM_VERSION, .slots = slots,
		.arena = arena,
	};
	char blob[TAGRV_BLOB_MAX];
	void *ring, *bell;
	size_t len;

	cr_assert_eq(xport->ops->link_create(xport, blob, &len, &f->link), 0);
	f->dev = shm_device_of(xport->dev);
	cr_assert_eq(tagrv_shm_region_create("ring", 32768, &f->fds[0], &ring),
		     0);
	cr_assert_eq(tagrv_shm_region_create("bell", SHM_BELL_SIZE, &f->fds[1],
					     &bell), 0);
	memcpy(ring, &constants, sizeof(constants));
	munmap(ring, 32768);
	munmap(bell, SHM_BELL_SIZE);
	f->fds[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	f->hand = (struct shm_hand) {
		.magic = SHM_MAGIC, .version = SHM_VERSION,
		.id = shm_link_of(f->link)->id,
		.nonce = shm_link_of(f->link)->nonce,
		.slots = slots, .arena = arena,
		.max_packet = (uint32_t) shm_body_max(arena),
	};
}

bool forged_is_taken(const struct forged *f)
{
	return atomic_load(&shm_link_of(f->link)->tx_ready) != 0;
}

void forged_close(struct forged *f)
{
	for (int i = 0; i < SHM_HAND_FDS; i++)
		close(f->fds[i]);
	f->link->xport->ops->link_discard(f->link);
}

void forged_deliver(struct forged *f)
{
	int sock = shm_dial(f->dev);

	shm_say(sock, &f->hand, sizeof(f->hand), f->fds, SHM_HAND_FDS);
	close(sock);
	tagrv_shm_pull(f->dev);
}
