/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: how the adapters of each vendor, with their libraries in rdma-core,
 * differ from the devices of fake_verbs_defaults().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fake_verbs_priv.h"

/*
 * providers/mlx5: cq.c, __mlx5_cq_clean(): destroying a queue pair removes its completions
 * and frees their entries of the shared receive queue. qp.c, mlx5_calc_sq_size(): what fits
 * into the entries of the send queue is inlined, not only what was asked for. verbs.c,
 * mlx5_create_srq_ex(): a list of posted receives; the sizes are those of ConnectX-5, but that
 * the list is shorter, so that it is full now and then.
 */
static void be_mlx5(struct fake_verbs_config *config)
{
	config->vendor_id = 0x02c9;
	config->qp_bytes = fv_bytes_mlx5;
	config->cqe_bytes = 64;
	config->srqe_bytes = 64;
	config->purges_cq = true;
	config->inline_step = 64;
	config->flush_delay = 3;
	config->max_cqe = 4194303;
	config->max_qp_wr = 32768;
	config->max_sge = 30;
	config->max_srq_wr = 32767;
	config->max_inline = 956;
	config->tm = (struct ibv_tm_caps) {
		.max_rndv_hdr_size = 64, .max_num_tags = 63, .flags = IBV_TM_CAP_RC,
		.max_ops = 32, .max_sge = 1,
	};
	config->tm_least = 33;
	config->tm_mtu = 4096;
}

/*
 * providers/bnxt_re: verbs.c, bnxt_re_poll_err_scqe(): a failure is reported for the oldest
 * request that no completion has retired, then bnxt_re_poll_flush_wcs() for all behind it,
 * those included that had been carried out. bnxt_re_poll_err_rcqe(): a shared receive buffer
 * that a broken queue pair had taken is released without a completion. bnxt_re_post_send() up
 * to rdma-core 44 at least: a queue pair in error accepts no requests.
 */
static void be_bnxt_re(struct fake_verbs_config *config)
{
	config->vendor_id = 0x14e4;
	config->qp_bytes = fv_bytes_bnxt_re;
	config->cqe_bytes = 32;
	config->srqe_bytes = 128;
	config->names_oldest = true;
	config->loses_buffers = true;
	config->refuses_in_err = true;
	config->flush_delay = 3;
	config->max_cqe = 4194304;
	config->max_qp_wr = 65407;
	config->max_sge = 6;
	config->max_inline = 96;
	config->max_srq_wr = 65535;
}

/*
 * providers/irdma before rdma-core 44 (its commits c87c1dfb3 and c8b3aca85 mended both): uk.c,
 * of inline data in several segments the first was sent only; uverbs.c, a SEND with immediate
 * data was reported to the receiver as a write with it. No shared receive queues (up to E830).
 * irdma_udestroy_qp(): destroying a queue pair removes its completions.
 */
static void be_irdma_old(struct fake_verbs_config *config)
{
	config->vendor_id = 0x8086;
	config->qp_bytes = fv_bytes_irdma;
	config->cqe_bytes = 64;
	config->srqe_bytes = 0;
	config->ops_errno = EOPNOTSUPP;
	config->max_srq = config->max_srq_wr = 0;
	config->one_inline = true;
	config->imm_as_write = true;
	config->purges_cq = true;
	config->flush_delay = 3;
	config->no_resize = true;
	config->no_atomics = true;
	config->max_cqe = 1048575;
	config->max_qp_wr = 4063;
	config->max_sge = 13;
	config->max_inline = 96;
	config->rd_atom = 127;
	config->max_msg = 0x7fffffff;
}

/* The same since: its queues can be resized. */
static void be_irdma(struct fake_verbs_config *config)
{
	be_irdma_old(config);
	config->one_inline = config->imm_as_write = config->no_resize = false;
}

/* providers/qedr and providers/hns: few segments, few queue pairs, no resize_cq. */
static void be_qedr(struct fake_verbs_config *config)
{
	config->vendor_id = 0x1077;
	config->qp_bytes = fv_bytes_qedr;
	config->cqe_bytes = 32;
	config->srqe_bytes = 80;
	config->ops_errno = EOPNOTSUPP;
	config->no_resize = true;
	config->max_sge = 4;
	config->max_qp = 8568;
	config->max_qp_wr = 32767;
	config->max_inline = 212;
	config->max_srq_wr = 8192;
	config->rd_atom = 32;
}

static void be_hns(struct fake_verbs_config *config)
{
	be_qedr(config);
	config->vendor_id = 0x19e5;
	config->qp_bytes = fv_bytes_hns;
	config->cqe_bytes = 64;
	config->srqe_bytes = 32;
	config->ops_errno = 0;
	config->inline_step = 32;
	config->max_sge = 2;
	config->max_inline = 32;
	config->rd_atom = 128;
}

/*
 * Linux' rdma_rxe: a queue pair in error completes all requests; a shared receive buffer that
 * it had taken comes back with a flush.
 */
static void be_rxe(struct fake_verbs_config *config)
{
	config->qp_bytes = fv_bytes_rxe;
	config->cqe_bytes = config->srqe_bytes = 64;
	config->max_cqe = 32767;
	config->max_sge = 32;
	config->max_inline = 512;
	config->rd_atom = 128;
	config->flushes_buffers = true;
}

static const struct {
	const char *name;
	void	(*be)(struct fake_verbs_config *config);
} profiles[] = {
	{ "mlx5", be_mlx5 }, { "bnxt_re", be_bnxt_re }, { "irdma_old", be_irdma_old },
	{ "irdma", be_irdma }, { "qedr", be_qedr }, { "hns", be_hns }, { "rxe", be_rxe },
};

const char *fake_verbs_profile(unsigned i)
{
	return i < sizeof(profiles) / sizeof(profiles[0]) ? profiles[i].name : NULL;
}

void fake_verbs_be(struct fake_verbs_config *config, const char *profile)
{
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		if (!strcmp(profiles[i].name, profile)) {
			profiles[i].be(config);
			return;
		}
	fprintf(stderr, "FAKE_VERBS: there is no profile '%s'\n", profile);
	abort();
}
