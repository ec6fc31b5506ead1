/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every slot of every ops table is set; unsupported calls return -FI_ENOSYS and log.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <string.h>

#include "api/nosys/nosys.h"
#include "unit/api/api_fixture.h"

TestSuite(nosys, .init = api_init, .timeout = 20);

/*
 * A table is a size followed by function pointers. Newer headers added those from
 * byte 'end' on, and test them for NULL before a call.
 */
static void check_table(const void *table, size_t size, size_t end,
			const char *what)
{
	const char *raw = table;
	void *slot;

	cr_assert_eq(*(const size_t *) table, size, "%s", what);
	for (size_t at = sizeof(size_t); at < end; at += sizeof(slot)) {
		memcpy(&slot, raw + at, sizeof(slot));
		cr_expect_not_null(slot, "%s: slot %zu", what,
				   at / sizeof(slot) - 1);
	}
}

#define CHECK_TABLE(ops) \
	check_table(ops, sizeof(*(ops)), sizeof(*(ops)), #ops)
#define CHECK_TABLE_TO(ops, last) \
	check_table(ops, sizeof(*(ops)), offsetof(__typeof__(*(ops)), last) + \
		    sizeof((ops)->last), #ops)

Test(nosys, no_table_has_an_empty_slot)
{
	struct fi_cntr_attr cntr_attr = { 0 };
	struct fi_eq_attr eq_attr = { 0 };
	struct fid_cntr *cntr;
	struct fid_ep *srx;
	struct fid_eq *eq;
	struct fid_mr *mr;
	struct api api;
	char byte = 0;

	api_open_ep(&api, NULL, 0);
	cr_assert_eq(fi_cntr_open(api.domain, &cntr_attr, &cntr, NULL), 0);
	cr_assert_eq(fi_eq_open(api.fabric, &eq_attr, &eq, NULL), 0);
	cr_assert_eq(fi_mr_reg(api.domain, &byte, 1, 0, 0, 0, 0, &mr, NULL), 0);
	cr_assert_eq(fi_srx_context(api.domain, NULL, &srx, NULL), 0);
	CHECK_TABLE(api.fabric->fid.ops);
	CHECK_TABLE(api.fabric->ops);
	CHECK_TABLE(api.domain->fid.ops);
	CHECK_TABLE(api.domain->ops);
	CHECK_TABLE(api.domain->mr);
	CHECK_TABLE(api.av->fid.ops);
	CHECK_TABLE_TO(api.av->ops, av_set);
	CHECK_TABLE(api.cq->fid.ops);
	CHECK_TABLE(api.cq->ops);
	CHECK_TABLE(cntr->fid.ops);
	CHECK_TABLE(cntr->ops);
	CHECK_TABLE(eq->fid.ops);
	CHECK_TABLE(eq->ops);
	CHECK_TABLE(mr->fid.ops);
	CHECK_TABLE(api.ep->fid.ops);
	CHECK_TABLE(api.ep->ops);
	CHECK_TABLE(api.ep->cm);
	CHECK_TABLE(api.ep->msg);
	CHECK_TABLE(api.ep->tagged);
	CHECK_TABLE(api.ep->rma);
	CHECK_TABLE(api.ep->atomic);
	CHECK_TABLE(api.ep->collective);
	CHECK_TABLE(srx->fid.ops);
	CHECK_TABLE(srx->ops);
	CHECK_TABLE(srx->cm);
	CHECK_TABLE(srx->msg);
	CHECK_TABLE(srx->tagged);
	CHECK_TABLE(srx->rma);
	CHECK_TABLE(srx->atomic);
	CHECK_TABLE(srx->collective);
	CHECK_TABLE(&tagrv_nosys_msg);
	CHECK_TABLE(&tagrv_nosys_tagged);
	api_must_close(&srx->fid);
	api_must_close(&mr->fid);
	api_must_close(&eq->fid);
	api_must_close(&cntr->fid);
	api_close(&api);
}

Test(nosys, other_kinds_of_transfer_are_refused)
{
	struct fi_msg_rma rma = { 0 };
	size_t count;
	struct api api;
	char byte = 0;

	api_open_ep(&api, NULL, 0);
	cr_expect_eq(fi_read(api.ep, &byte, 1, NULL, 0, 0, 0, NULL),
		     -FI_ENOSYS);
	cr_expect_eq(fi_writemsg(api.ep, &rma, 0), -FI_ENOSYS);
	cr_expect_eq(fi_inject_write(api.ep, &byte, 1, 0, 0, 0), -FI_ENOSYS);
	cr_expect_eq(fi_atomicvalid(api.ep, FI_UINT64, FI_SUM, &count),
		     -FI_ENOSYS);
	cr_expect_eq(fi_barrier(api.ep, 0, NULL), -FI_ENOSYS);
	cr_expect_eq(fi_shutdown(api.ep, 0), -FI_ENOSYS);
	api_close(&api);
}

Test(nosys, an_endpoint_has_the_transfers_it_was_opened_for)
{
	struct fi_info *hints = api_hints();
	struct api api;
	char byte = 0;

	hints->caps = FI_TAGGED;
	api_open_ep(&api, hints, 0);
	cr_expect_eq(fi_inject(api.ep, &byte, 1, api.self), -FI_ENOSYS);
	cr_expect_eq(fi_tinject(api.ep, &byte, 1, api.self, 1), 0);
	api_close(&api);
	fi_freeinfo(hints);
}

Test(nosys, a_refused_call_has_a_line_in_the_log)
{
	struct fid_stx *stx = NULL;
	const char *text;
	struct api api;

	api_log_start("info");
	api_open_ep(&api, NULL, 0);
	api_log_lines(NULL);
	cr_expect_eq(fi_stx_context(api.domain, NULL, &stx, NULL), -FI_ENOSYS);
	cr_expect_eq(api_log_lines(&text), 1u);
	cr_expect_not_null(strstr(text, "fi_stx_context: not offered"));
	cr_expect_eq(fi_shutdown(api.ep, 0), -FI_ENOSYS);
	cr_expect_eq(api_log_lines(&text), 1u);
	cr_expect_not_null(strstr(text, "fi_shutdown: not offered"));
	api_close(&api);
}
