/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Views of windows in fuzz_packet: those that the peer sends, and those that it gets.
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "fuzz/packet.h"
#include "object/side.h"
#include "wire/rma_packet.h"

static void require_admitted(const uint8_t *segments, unsigned cnt, uint64_t access)
{
	struct tagrv_rts_seg seg;

	for (unsigned i = 0; i < cnt; i++) {
		memcpy(&seg, segments + i * sizeof(seg), sizeof(seg));
		require(windows_admit((void *) (uintptr_t) le64toh(seg.addr),
				le64toh(seg.len), access));
	}
}

void require_readable(const uint8_t *segments, unsigned cnt)
{
	require_admitted(segments, cnt, FI_REMOTE_READ);
}

/* Only what peers may do anyway, they may do by a view. */
void hear_view(uint32_t rights, const uint8_t *body)
{
	struct tagrv_rma_source source;
	unsigned possible = TAGRV_MEM_REMOTE | (fz.dom->by_device ? TAGRV_MEM_ATOMIC : 0);

	if (!rights)
		return;		/* why an atomic has none */
	memcpy(&source, body, sizeof(source));
	require(!(rights & ~possible) &&
		(rights & TAGRV_MEM_WRITE || !(rights & TAGRV_MEM_ATOMIC)));
	if (rights & TAGRV_MEM_READ)
		require_admitted(body + sizeof(source), source.seg_cnt, FI_REMOTE_READ);
	if (rights & TAGRV_MEM_WRITE)
		require_admitted(body + sizeof(source), source.seg_cnt, FI_REMOTE_WRITE);
}

/* Of the window that give_op() reads, or a wrong one. */
void send_view(uint32_t id, uint8_t how)
{
	uint64_t len = how & 1 ? 300 : BUF_LEN;
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_source source;
		struct tagrv_rts_seg seg[2];
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_VIEW,
			 .op = htole32(how & 2 ? id + how : id),
			 .tag = htobe64(how & 4 ? WINDOW_KEY + 1 : WINDOW_KEY),
			 .seq = htole32(1u + (how >> 6)) },
		.source = { .addr = htole64(how & 8 ? 0 : 100), .len = htole64(len),
			    .seg_cnt = how & 16 ? how >> 6 : 2, .key_len = 4 },
		.seg = { { .len = htole64(200) }, { .len = htole64(len - 200) } },
	};

	if (fz.dom->by_device && how >> 6 == 1)
		pkt.hdr.seq = htole32(TAGRV_MEM_REMOTE | TAGRV_MEM_ATOMIC);
	if (fz.dom->by_device && how >> 6 == 2) {
		pkt.hdr.seq = 0;
		pkt.hdr.data = htole64(how & 1 ? FI_EACCES : how);
	}
	give(&pkt, how & 32 ? sizeof(pkt) - how % 64 :
		   pkt.hdr.seq ? sizeof(pkt) : sizeof(pkt.hdr));
}

void send_recall(uint32_t id)
{
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_RECALL, .op = htole32(id),
	};

	give(&hdr, sizeof(hdr));
}

static void send_show(uint8_t how)
{
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_SHOW, .op = htole32(how & 1 ? 0 : 7u + how),
		.tag = htobe64((uint64_t) WINDOW_KEY + how % (WINDOWS + 1)),
		.data = htole64(how & 2 ? 0 : 100),
		.flags = htole16(how & 4 ? TAGRV_RMA_MUST : 0),
	};

	give(&hdr, sizeof(hdr));
}

/* 'ahead': of the side link that is there, or comes next. */
static void send_side(uint16_t flags, size_t blob, uint32_t ahead)
{
	struct {
		struct tagrv_hdr hdr;
		uint8_t	blob[TAGRV_BLOB_MAX + 1];
	} pkt = {
		.hdr = {
			.opcode = TAGRV_PKT_SIDE, .flags = htole16(flags),
			.op = htole32(peer()->rma.side_nr + ahead),
		},
	};

	give(&pkt, sizeof(pkt.hdr) + blob);
}

/* The side link fails, if there is one. */
static void break_side(uint8_t how)
{
	static const int why[] = { -FI_EACCES, -FI_EHOSTUNREACH, -FI_ECONNRESET, -FI_EIO };
	const struct tagrv_side *side = peer()->side;

	if (side && side->lane)
		fake_break_link(side->link, why[how & 3]);
}

void change_side(unsigned what, uint8_t how)
{
	switch (what) {
	case 0:
		send_side(TAGRV_RMA_READY, 4, 0);
		break;
	case 1:
		send_side(0, 4, 0);
		break;
	case 2:
		send_side(TAGRV_RMA_READY, 0, 0);
		break;
	case 3:
		send_side(TAGRV_RMA_OFF, 0, how & 3 ? 0 : how >> 2);
		break;
	case 4:
		send_side(how & 15, how % (TAGRV_BLOB_MAX + 2), (how >> 4 & 3) - 1u);
		break;
	case 5:
		break_side(how);
		break;
	default:
		send_show(how);
	}
}
