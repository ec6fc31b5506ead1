/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Views of windows in fuzz_packet: those that the peer sends, and those that it gets.
 */
#include <rdma/fi_domain.h>
#include <string.h>

#include "fuzz/packet.h"
#include "wire/rma_packet.h"

void require_readable(const uint8_t *segments, unsigned cnt)
{
	struct tagrv_rts_seg seg;

	for (unsigned i = 0; i < cnt; i++) {
		memcpy(&seg, segments + i * sizeof(seg), sizeof(seg));
		require(windows_admit((void *) (uintptr_t) le64toh(seg.addr),
				le64toh(seg.len), FI_REMOTE_READ));
	}
}

/* Only what peers may read is shown. */
void hear_view(const uint8_t *body)
{
	struct tagrv_rma_source source;

	memcpy(&source, body, sizeof(source));
	require_readable(body + sizeof(source), source.seg_cnt);
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
			 .tag = htobe64(how & 4 ? WINDOW_KEY + 1 : WINDOW_KEY) },
		.source = { .addr = htole64(how & 8 ? 0 : 100), .len = htole64(len),
			    .seg_cnt = how & 16 ? how >> 6 : 2, .key_len = 4 },
		.seg = { { .len = htole64(200) }, { .len = htole64(len - 200) } },
	};

	give(&pkt, how & 32 ? sizeof(pkt) - how % 64 : sizeof(pkt));
}

void send_recall(uint32_t id)
{
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_RECALL, .op = htole32(id),
	};

	give(&hdr, sizeof(hdr));
}
