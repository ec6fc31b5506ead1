/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packs and checks the address blob that each side of a link sends to the other.
 * Version 2, big-endian, by byte offset:
 *
 *   0 version   1 net   2 mtu   3 reads served   4 reads issued   5 rights
 *   6 partition key or VLAN id
 *   8 queue pair number   12 first packet number   16 bytes of a packet
 *   20 lid   22 packets that the receiver of the blob may send   24 gid
 *   40 bits of the subnet in the gid's address
 *   41 bit 0: there are no buffers for the packets of 22 yet
 *      bit 1: two, a second queue pair is described below
 *      bit 2: list, packets to the second one begin with a header for the adapter
 *      bit 3: the model of the sender's device is behind all else
 *   42 number of the blob's receiver in its tagged messages, 0: none; if two:
 *   44 number of the second queue pair   48 its first packet number
 *   and then, 8 bytes: the model of the sender's device (xport/model.h)
 *
 * Bytes behind these are ignored: a later release may have something to say there.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "xport/verbs/verbs_priv.h"

#define VERSION		2
#define MAX_24BIT	0xffffffu
#define MAX_UNICAST_LID	0xbfffu

/* Bits of wire_blob.bits */
#define BIT_THIN	1
#define BIT_TWO		2
#define BIT_LIST	4
#define BIT_MODEL	8

struct wire_blob {
	uint8_t	 version;
	uint8_t	 net;
	uint8_t	 mtu;
	uint8_t	 rd_in;
	uint8_t	 rd_out;
	uint8_t	 admits;
	uint16_t part;
	uint32_t qpn;
	uint32_t psn;
	uint32_t max_packet;
	uint16_t lid;
	uint16_t permits;
	uint8_t	 gid[16];
	uint8_t	 prefix;
	uint8_t	 bits;
	uint16_t number;
};

/* Behind it, if it has BIT_TWO */
struct wire_in {
	uint32_t qpn;
	uint32_t psn;
};

static_assert(sizeof(struct wire_blob) == 44 && sizeof(struct wire_in) == 8, "wire layout");
static_assert(sizeof(struct wire_blob) + sizeof(struct wire_in) + sizeof(uint64_t) <=
	      TAGRV_BLOB_MAX, "blob must fit");

static size_t append(void *to, size_t len, const void *more, size_t more_len)
{
	memcpy((char *) to + len, more, more_len);
	return len + more_len;
}

size_t tagrv_verbs_blob_pack(const struct verbs_blob *blob, void *to)
{
	struct wire_blob wire = {
		.version = VERSION,
		.net = blob->net,
		.mtu = blob->mtu,
		.rd_in = blob->rd_in,
		.rd_out = blob->rd_out,
		.admits = blob->admits,
		.part = htobe16(blob->part),
		.prefix = blob->prefix,
		.qpn = htobe32(blob->qpn),
		.psn = htobe32(blob->psn),
		.max_packet = htobe32(blob->max_packet),
		.lid = htobe16(blob->lid),
		.permits = htobe16(blob->permits),
		.bits = (blob->thin ? BIT_THIN : 0) | (blob->two ? BIT_TWO : 0) |
			(blob->list ? BIT_LIST : 0) | (blob->model ? BIT_MODEL : 0),
		.number = htobe16(blob->number),
	};
	struct wire_in in = { htobe32(blob->in_qpn), htobe32(blob->in_psn) };
	uint64_t model = htobe64(blob->model);
	size_t len;

	memcpy(wire.gid, &blob->gid, sizeof(wire.gid));
	len = append(to, 0, &wire, sizeof(wire));
	if (blob->two)
		len = append(to, len, &in, sizeof(in));
	return blob->model ? append(to, len, &model, sizeof(model)) : len;
}

/* Whether the blob holds an address of the port. Some InfiniBand ports have no LID. */
static bool has_address(const struct verbs_blob *blob)
{
	static const union ibv_gid none;
	bool has_gid = memcmp(&blob->gid, &none, sizeof(none)) != 0;

	if (blob->net != VERBS_NET_IB)
		return has_gid;
	return blob->lid ? blob->lid <= MAX_UNICAST_LID : has_gid;
}

/*
 * Reads the second queue pair, if there is one. A list is behind it, and only tagged
 * messages for a list have a number.
 */
static int unpack_in(struct verbs_blob *blob, const void *from, size_t len)
{
	struct wire_in in;

	if (!blob->two)
		return blob->list || blob->number ? -FI_EINVAL : 0;
	if (len < sizeof(in))
		return -FI_EINVAL;
	memcpy(&in, from, sizeof(in));
	blob->in_qpn = be32toh(in.qpn);
	blob->in_psn = be32toh(in.psn);
	if (blob->in_qpn < 2 || blob->in_qpn > MAX_24BIT || blob->in_qpn == blob->qpn ||
	    blob->in_psn > MAX_24BIT || blob->number > (blob->list ? VERBS_NUMBER_MAX : 0) ||
	    (blob->list && !blob->number))
		return -FI_EINVAL;
	return 0;
}

/* Any number will do: it is looked up in a profile, and nothing else depends on it. */
static int unpack_model(struct verbs_blob *blob, const void *from, size_t len)
{
	size_t skip = blob->two ? sizeof(struct wire_in) : 0;
	uint64_t model;

	if (len < skip + sizeof(model))
		return -FI_EINVAL;
	memcpy(&model, (const char *) from + skip, sizeof(model));
	blob->model = be64toh(model);
	return 0;
}

int tagrv_verbs_blob_unpack(struct verbs_blob *blob, const void *from,
			    size_t len)
{
	struct wire_blob wire;

	if (len < sizeof(wire))
		return -FI_EINVAL;
	memcpy(&wire, from, sizeof(wire));
	*blob = (struct verbs_blob) {
		.qpn = be32toh(wire.qpn),
		.psn = be32toh(wire.psn),
		.max_packet = be32toh(wire.max_packet),
		.lid = be16toh(wire.lid),
		.permits = be16toh(wire.permits),
		.mtu = wire.mtu,
		.rd_in = wire.rd_in,
		.rd_out = wire.rd_out,
		.admits = wire.admits,
		.net = wire.net,
		.part = be16toh(wire.part),
		.prefix = wire.prefix,
		.thin = wire.bits & BIT_THIN,
		.two = wire.bits & BIT_TWO,
		.list = wire.bits & BIT_LIST,
		.number = be16toh(wire.number),
	};
	memcpy(&blob->gid, wire.gid, sizeof(wire.gid));
	if (wire.version != VERSION || blob->net > VERBS_NET_ROCE_V2 ||
	    blob->mtu < IBV_MTU_256 || blob->mtu > IBV_MTU_4096 ||
	    blob->qpn < 2 || blob->qpn > MAX_24BIT || blob->psn > MAX_24BIT ||
	    !blob->rd_in || !blob->rd_out || blob->prefix > 128 || blob->permits < VERBS_PERMIT_MIN ||
	    blob->max_packet < TAGRV_HDR_ROOM || !has_address(blob))
		return -FI_EINVAL;
	from = (const char *) from + sizeof(wire);
	len -= sizeof(wire);
	if (wire.bits & BIT_MODEL && unpack_model(blob, from, len))
		return -FI_EINVAL;
	return unpack_in(blob, from, len);
}
