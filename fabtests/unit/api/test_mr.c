/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory regions: all ways to register, keys, wrong arguments; with a device that
 * records how it is called.
 */
#include <stdlib.h>

#include "unit/api/api_calls.h"

TestSuite(mr, .init = api_set_up, .fini = api_tear_down, .timeout = 20);

Test(mr, any_access_and_length_registers)
{
	static char buf[100];
	struct fid_mr *mr;

	for (size_t len = 0; len <= sizeof(buf); len += 20) {
		for (uint64_t access = 0; access < 64; access++) {
			cr_assert_eq(fi_mr_reg(api.domain, buf, len,
					       access << 8, 0, access, 0, &mr,
					       &api), 0);
			cr_expect_eq(fi_mr_key(mr), access);
			cr_expect_eq(mr->fid.context, &api);
			cr_expect_eq(mr->fid.fclass, FI_CLASS_MR);
			cr_expect_null(fi_mr_desc(mr), "nothing to register");
			api_must_close(&mr->fid);
		}
	}
}

Test(mr, vectors_have_one_segment)
{
	static char buf[2][10];
	struct iovec iov[2] = { { buf[0], 10 }, { buf[1], 10 } };
	struct fi_mr_attr attr = {
		.mr_iov = iov, .iov_count = 1, .requested_key = 5,
	};
	struct fid_mr *mr;

	cr_assert_eq(fi_mr_regv(api.domain, iov, 1, FI_SEND, 0, 3, 0, &mr,
				NULL), 0);
	cr_expect_eq(fi_mr_key(mr), 3);
	api_must_close(&mr->fid);
	cr_assert_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), 0);
	cr_expect_eq(fi_mr_key(mr), 5);
	api_must_close(&mr->fid);
	attr.iov_count = 2;
	cr_expect_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), -FI_EINVAL);
	attr.iov_count = 0;
	cr_expect_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), -FI_EINVAL);
	attr.iov_count = 1;
	attr.iface = (enum fi_hmem_iface) 77;	/* left uninitialized */
	cr_assert_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), 0);
	api_must_close(&mr->fid);
	cr_expect_eq(fi_mr_regattr(api.domain, &attr, FI_RMA_EVENT, &mr),
		     -FI_EBADFLAGS);
}

/* Bits that are no access are a mistake of the caller's, and say so. */
Test(mr, bits_that_are_no_access_are_refused)
{
	struct fi_mr_attr attr = { .iov_count = 1 };
	struct iovec iov = { &attr, 8 };
	struct fid_mr *mr = NULL;

	attr.mr_iov = &iov;
	for (int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;
		bool good = flag & (FI_SEND | FI_RECV | FI_READ | FI_WRITE |
				    FI_REMOTE_READ | FI_REMOTE_WRITE |
				    FI_COLLECTIVE);

		attr.access = FI_SEND | flag;
		if (good) {
			cr_assert_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), 0);
			api_must_close(&mr->fid);
			mr = NULL;
			continue;
		}
		cr_expect_eq(fi_mr_reg(api.domain, &attr, 8, flag, 0, 0, 0, &mr,
				       NULL), -FI_EINVAL, "bit %d", bit);
		cr_expect_eq(fi_mr_regv(api.domain, &iov, 1, attr.access, 0, 0, 0,
					&mr, NULL), -FI_EINVAL, "bit %d", bit);
		cr_expect_eq(fi_mr_regattr(api.domain, &attr, 0, &mr),
			     -FI_EINVAL, "bit %d", bit);
		cr_expect_null(mr);
	}
}

Test(mr, keeps_the_domain_open_and_can_be_enabled)
{
	struct fid_mr *mr;
	char byte = 0;

	cr_assert_eq(fi_mr_reg(api.domain, &byte, 1, 0, 0, 0, 0, &mr, NULL), 0);
	cr_expect_eq(fi_close(&api.domain->fid), -FI_EBUSY);
	cr_expect_eq(fi_mr_enable(mr), 0);
	cr_expect_eq(fi_mr_bind(mr, &api.domain->fid, 0), -FI_ENOSYS);
	cr_expect_eq(fi_mr_refresh(mr, NULL, 0, 0), -FI_ENOSYS);
	api_must_close(&mr->fid);
}

/* ---- with a device ---- */

static struct tagrv_mem mem;
static int registered, answer;
static unsigned given;		/* access of the last registration */

static int fake_reg(struct tagrv_device *dev, void *addr, size_t len,
		    unsigned access, struct tagrv_mem **out)
{
	if (answer)
		return answer;
	given = access;
	mem = (struct tagrv_mem) { .dev = dev, .addr = addr, .len = len };
	*out = &mem;
	registered++;
	return 0;
}

static void fake_dereg(struct tagrv_mem *out)
{
	cr_expect_eq(out, &mem);
	registered--;
}

static const struct tagrv_xport_ops fake_ops = {
	.mem_reg = fake_reg, .mem_dereg = fake_dereg,
};
static struct tagrv_device fake_dev = { .ops = &fake_ops, .name = "fake" };

static struct tagrv_dom *dom_of(struct fid_domain *domain)
{
	return tagrv_container_of(domain, struct tagrv_domain, domain)->dom;
}

Test(mr, the_descriptor_is_the_registration_of_the_device)
{
	struct fid_mr *mr;
	char buf[10];

	dom_of(api.domain)->dev = &fake_dev;
	cr_assert_eq(fi_mr_reg(api.domain, buf, 10, FI_SEND, 0, 0, 0, &mr,
			       NULL), 0);
	cr_expect_eq(registered, 1);
	cr_expect_eq(fi_mr_desc(mr), &mem);
	cr_expect_eq(mem.addr, buf);
	cr_expect_eq(mem.len, 10);
	api_must_close(&mr->fid);
	cr_expect_eq(registered, 0);
	answer = -FI_ENOMEM;
	cr_expect_eq(fi_mr_reg(api.domain, buf, 10, FI_SEND, 0, 0, 0, &mr,
			       NULL), -FI_ENOMEM);
	dom_of(api.domain)->dev = NULL;
}

/* The rights that the device is asked for by each way to register. */
static unsigned rights_of(uint64_t access)
{
	struct iovec iov;
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access,
	};
	struct fid_mr *mr;
	static char buf[10];
	unsigned rights;

	iov = (struct iovec) { buf, sizeof(buf) };
	cr_assert_eq(fi_mr_reg(api.domain, buf, 10, access, 0, 0, 0, &mr, NULL), 0);
	rights = given;
	api_must_close(&mr->fid);
	given = ~rights;
	cr_assert_eq(fi_mr_regv(api.domain, &iov, 1, access, 0, 0, 0, &mr, NULL), 0);
	cr_expect_eq(given, rights);
	api_must_close(&mr->fid);
	given = ~rights;
	cr_assert_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), 0);
	cr_expect_eq(given, rights);
	api_must_close(&mr->fid);
	return rights;
}

static void expect_rights(unsigned sent)
{
	dom_of(api.domain)->dev = &fake_dev;
	cr_expect_eq(rights_of(0), 0);
	cr_expect_eq(rights_of(FI_SEND), sent);
	cr_expect_eq(rights_of(FI_RECV), TAGRV_MEM_STORE,
		     "no peer reads what is received into");
	cr_expect_eq(rights_of(FI_READ), TAGRV_MEM_STORE);
	cr_expect_eq(rights_of(FI_WRITE), 0);
	cr_expect_eq(rights_of(FI_SEND | FI_RECV), sent | TAGRV_MEM_STORE);
	cr_expect_eq(rights_of(FI_REMOTE_READ | FI_REMOTE_WRITE), 0,
		     "without FI_RMA no peer has a use for it");
	cr_expect_eq(rights_of(FI_SEND | FI_RECV | FI_READ | FI_WRITE |
			       FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE),
		     sent | TAGRV_MEM_STORE);
	dom_of(api.domain)->dev = NULL;
}

Test(mr, access_says_what_the_device_allows)
{
	expect_rights(TAGRV_MEM_READ);
}

Test(mr, with_keys_for_one_message_nothing_is_readable)
{
	dom_of(api.domain)->lasting = TAGRV_MEM_STORE;
	expect_rights(0);
}
