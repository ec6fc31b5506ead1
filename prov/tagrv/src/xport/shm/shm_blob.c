/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packs and checks the address blob that a link sends to its peer through wireup.
 * Little-endian, by byte offset, sizes in bytes:
 *
 *   0 magic (2)   2 version (1)   3 zero (1)   4 uid (4)   8 host (16)
 *   24 socket name (16)   40 id (8)   48 nonce (8)   56 zero (4)
 *
 * A process that knows the nonce may hand over a ring for the link. The host id is
 * the kernel's boot id mixed with the inode of the network namespace, because
 * abstract socket names belong to a network namespace.
 */
#include <endian.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/random.h"
#include "xport/shm/shm_priv.h"

#define BLOB_MAGIC	0x4d53u		/* "SM" */

struct wire_blob {
	uint16_t magic;
	uint8_t	 version;
	uint8_t	 zero;
	uint32_t uid;
	uint8_t	 host[16];
	uint8_t	 name[SHM_SOCK_NAME];
	uint8_t	 id[8];
	uint8_t	 nonce[8];
	uint32_t zero2;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint8_t host[16];

static_assert(sizeof(struct wire_blob) == SHM_BLOB_LEN, "wire layout");
static_assert(SHM_BLOB_LEN <= TAGRV_BLOB_MAX, "blob must fit");

static void put64(uint8_t to[8], uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static uint64_t get64(const uint8_t from[8])
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

size_t tagrv_shm_blob_pack(const struct shm_blob *blob, void *to)
{
	struct wire_blob wire = {
		.magic = htole16(BLOB_MAGIC),
		.version = SHM_VERSION,
		.uid = htole32(blob->uid),
	};

	memcpy(wire.host, blob->host, sizeof(wire.host));
	memcpy(wire.name, blob->name, sizeof(wire.name));
	put64(wire.id, blob->id);
	put64(wire.nonce, blob->nonce);
	memcpy(to, &wire, sizeof(wire));
	return sizeof(wire);
}

int tagrv_shm_blob_unpack(struct shm_blob *blob, const void *from, size_t len)
{
	struct wire_blob wire;

	if (len < 4)
		return -FI_EINVAL;
	memcpy(&wire, from, TAGRV_MIN(len, sizeof(wire)));
	if (le16toh(wire.magic) != BLOB_MAGIC)
		return -FI_EINVAL;
	if (wire.version != SHM_VERSION)
		return -FI_EHOSTUNREACH;
	if (len != sizeof(wire) || wire.zero || wire.zero2)
		return -FI_EINVAL;
	blob->uid = le32toh(wire.uid);
	memcpy(blob->host, wire.host, sizeof(wire.host));
	memcpy(blob->name, wire.name, sizeof(wire.name));
	blob->id = get64(wire.id);
	blob->nonce = get64(wire.nonce);
	return blob->id ? 0 : -FI_EINVAL;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The file boot_id has 32 hexadecimal digits with dashes in between. */
static bool read_boot_id(uint8_t id[16])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[40] = "";
	size_t digits = 0;
	ssize_t len = -1;

	if (fd >= 0) {
		len = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	for (const char *c = text; len > 0 && *c && digits < 32; c++) {
		if (hex(*c) < 0)
			continue;
		id[digits / 2] |= (uint8_t) (hex(*c) << (digits & 1 ? 0 : 4));
		digits++;
	}
	return digits == 32;
}

/*
 * Without boot id or namespace the id is random: only this process has it. If there
 * are no random bytes either, no shm device can be opened: tagrv_shm_mem_open()
 * fails.
 */
static void init_host(void)
{
	struct stat st;
	uint64_t low;

	if (!read_boot_id(host) || stat("/proc/self/ns/net", &st)) {
		if (tagrv_random_fill(host, sizeof(host)))
			memset(host, 0, sizeof(host));
		return;
	}
	low = get64(host + 8) ^ (uint64_t) st.st_ino * 0x9e3779b97f4a7c15ull;
	put64(host + 8, low);
}

void tagrv_shm_host_id(uint8_t id[16])
{
	pthread_once(&once, init_host);
	memcpy(id, host, sizeof(host));
}
