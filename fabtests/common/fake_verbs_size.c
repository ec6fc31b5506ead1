/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How much memory a queue pair takes with the adapters of each vendor: what their libraries in
 * rdma-core allocate, on x86-64. Sizes of the libraries' structs are those of rdma-core 65.
 * What the kernel and the adapter keep beside that is not counted.
 */
#include "common/fake_verbs_priv.h"

#define PAGE	4096u

#define READ_WRITE_OPS	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
			 IBV_QP_EX_WITH_RDMA_READ)
#define ATOMIC_OPS	(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define BIND_OPS	(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)

static size_t up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static size_t power(size_t n)
{
	size_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/*
 * providers/mlx5/verbs.c: _sq_overhead(), mlx5_calc_send_wqe(), mlx5_calc_sq_size(),
 * mlx5_calc_rq_size(), mlx5_alloc_qp_buf(); dbrec.c. An entry has room for the longest
 * operation, in units of 64 bytes; a queue of entries is rounded up to a power of two; 16
 * bytes of the library belong to each unit. The doorbell record has a cache line.
 */
struct fake_verbs_bytes fv_bytes_mlx5(const struct ibv_qp_cap *cap, uint64_t ops, bool srq)
{
	size_t head = 16, wqe, sq, rq;

	if (ops & READ_WRITE_OPS)
		head = 32;
	if (ops & ATOMIC_OPS)
		head = 48;
	if (ops & BIND_OPS)
		head = 192;
	wqe = head + cap->max_send_sge * 16;
	if (cap->max_inline_data)
		wqe = TAGRV_MAX(wqe, head + up(4 + cap->max_inline_data, 16));
	sq = power(cap->max_send_wr * up(wqe, 64));
	rq = srq ? 0 : power(cap->max_recv_wr) * 16 * power(TAGRV_MAX(cap->max_recv_sge, 1u));
	return (struct fake_verbs_bytes) {
		.pinned = up(sq + rq, PAGE) + 64, .library = 992 + sq / 64 * 16 + rq / 16 * 8,
	};
}

/*
 * providers/bnxt_re/verbs.c: bnxt_re_get_sqmem_size(), bnxt_re_get_rqmem_size(),
 * bnxt_re_get_qpmem_size(). Entries of 128 bytes whatever is asked for, 129 more of them than
 * asked for, and a power of two unless the kernel says otherwise; 16 bytes of each for the
 * numbers of packets.
 */
struct fake_verbs_bytes fv_bytes_bnxt_re(const struct ibv_qp_cap *cap, uint64_t ops, bool srq)
{
	size_t sq = power(cap->max_send_wr + 1 + 0x80), rq = srq ? 0 : power(cap->max_recv_wr + 1);

	(void) ops;
	return (struct fake_verbs_bytes) {
		.pinned = up(sq * (128 + 16), PAGE) + up(rq * 128, PAGE),
		.library = 624 + 128 + sq * 40 + (srq ? 0 : 128 + rq * 40),
	};
}

/*
 * providers/irdma/uk.c: irdma_get_wqe_shift(), irdma_get_sqdepth(), irdma_get_rqdepth();
 * uverbs.c, irdma_vmapped_qp(). A SEND with immediate data takes a further segment; 258 units
 * of 32 bytes are reserved.
 */
struct fake_verbs_bytes fv_bytes_irdma(const struct ibv_qp_cap *cap, uint64_t ops, bool srq)
{
	unsigned sge = cap->max_send_sge + 1, bytes = cap->max_inline_data;
	unsigned shift = sge < 4 && bytes <= 39 ? 1 : sge < 8 && bytes <= 101 ? 2 : 3;
	size_t sq = power(((size_t) cap->max_send_wr << shift) + 258);
	size_t rq = power(cap->max_recv_wr + 1);

	(void) ops;
	(void) srq;
	return (struct fake_verbs_bytes) {
		.pinned = up(up(sq * 32, PAGE) + up(rq * 32, PAGE) + 64, PAGE),
		.library = 496 + sq * 16 + rq * 8,
	};
}

/*
 * providers/qedr/qelr_verbs.c: qelr_create_qp_buffers_sq(), qelr_configure_qp_sq(). Four
 * elements of 16 bytes for each entry; a page for the doorbell, of each queue.
 */
struct fake_verbs_bytes fv_bytes_qedr(const struct ibv_qp_cap *cap, uint64_t ops, bool srq)
{
	size_t sq = up(cap->max_send_wr * 4 * 16, PAGE);
	size_t rq = srq ? 0 : up(cap->max_recv_wr * 4 * 16, PAGE) + PAGE;

	(void) ops;
	return (struct fake_verbs_bytes) {
		.pinned = sq + PAGE + rq,
		.library = 704 + (cap->max_send_wr + 1) * 24 + (srq ? 0 : cap->max_recv_wr * 24),
	};
}

/*
 * providers/hns/hns_roce_u_verbs.c: hns_roce_set_qp_params(), set_ext_sge_param(),
 * calc_qp_buff_size(). Entries of 64 bytes; segments beyond two of an entry have a page at
 * least.
 */
struct fake_verbs_bytes fv_bytes_hns(const struct ibv_qp_cap *cap, uint64_t ops, bool srq)
{
	size_t sq = power(TAGRV_MAX(cap->max_send_wr, 64u)), ext = 0;
	size_t rq = srq ? 0 : power(TAGRV_MAX(cap->max_recv_wr, 64u));

	(void) ops;
	if (cap->max_send_sge > 2)
		ext = TAGRV_MAX(power(sq * power(cap->max_send_sge - 2)) * 16, (size_t) PAGE);
	return (struct fake_verbs_bytes) {
		.pinned = up(sq * 64, PAGE) + up(ext, PAGE) +
			  up(rq * 16 * power(cap->max_recv_sge + 1), PAGE),
		.library = 656 + sq * 8 + rq * 8 + 16,
	};
}

/*
 * Linux' drivers/infiniband/sw/rxe: rxe_qp.c, rxe_qp_init_req(); rxe_queue.c,
 * rxe_queue_init(): queues in the kernel's memory, mapped by the process. An entry is a struct
 * of 208 bytes (receive: 40) with the segments or inline data behind it.
 */
struct fake_verbs_bytes fv_bytes_rxe(const struct ibv_qp_cap *cap, uint64_t ops, bool srq)
{
	size_t wqe = power(208 + TAGRV_MAX(cap->max_send_sge * 16, cap->max_inline_data));
	size_t rwqe = power(40 + cap->max_recv_sge * 16);
	size_t rq = srq ? 0 : up(128 + power(cap->max_recv_wr + 1) * rwqe, PAGE);

	(void) ops;
	return (struct fake_verbs_bytes) {
		.pinned = up(128 + power(cap->max_send_wr + 1) * wqe, PAGE) + rq,
		.library = 600,
	};
}
