/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory regions: all ways to register, keys, windows, wrong arguments; with a device
 * that records how it is called.
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

Test(mr, all_calls_register_the_same_way)
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
	attr.iface = (enum fi_hmem_iface) 77;	/* left uninitialized */
	cr_assert_eq(fi_mr_regattr(api.domain, &attr, FI_RMA_EVENT, &mr), 0);
	api_must_close(&mr->fid);
	attr.offset = 1;
	cr_expect_eq(fi_mr_regattr(api.domain, &attr, 0, &mr), -FI_EINVAL);
	attr.offset = 0;
	cr_expect_eq(fi_mr_regattr(api.domain, &attr, FI_RMA_PMEM, &mr),
		     -FI_EBADFLAGS);
}

Test(mr, a_region_has_one_to_four_segments)
{
	static char buf[5][10];
	struct iovec iov[5];
	struct fid_mr *mr = NULL;

	for (size_t cnt = 0; cnt <= 5; cnt++) {
		int want = cnt >= 1 && cnt <= 4 ? 0 : -FI_EINVAL;

		for (size_t i = 0; i < cnt; i++)
			iov[i] = (struct iovec) { buf[i], 10 };
		cr_assert_eq(fi_mr_regv(api.domain, iov, cnt, FI_REMOTE_READ, 0,
					1, 0, &mr, NULL), want, "%zu", cnt);
		if (!want)
			api_must_close(&mr->fid);
	}
	cr_expect_eq(fi_mr_regv(api.domain, NULL, 1, FI_SEND, 0, 1, 0, &mr, NULL),
		     -FI_EINVAL);
	/* No memory has so many bytes, even if each segment could exist. */
	iov[0] = (struct iovec) { buf[0], SIZE_MAX / 2 + 1 };
	iov[1] = iov[0];
	cr_expect_eq(fi_mr_regv(api.domain, iov, 2, FI_REMOTE_READ, 0, 1, 0, &mr,
				NULL), -FI_EINVAL);
}

/* Bits that are no access are a mistake of the caller's, and say so; not so capabilities. */
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
				    FI_COLLECTIVE | FI_MSG | FI_TAGGED | FI_RMA |
				    FI_ATOMIC);

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
	cr_expect_eq(fi_mr_refresh(mr, NULL, 0, 0), 0);
	cr_expect_eq(fi_control(&mr->fid, FI_BACKLOG, NULL), -FI_ENOSYS);
	api_must_close(&mr->fid);
}

/* ---- windows ---- */

static struct tagrv_dom *dom_of(struct fid_domain *domain)
{
	return tagrv_container_of(domain, struct tagrv_domain, domain)->dom;
}

static struct tagrv_window *window_at(uint64_t key, uint64_t addr, uint64_t access)
{
	struct tagrv_dom *dom = dom_of(api.domain);
	struct tagrv_window *window;
	size_t offset;

	tagrv_dom_lock(dom);
	window = tagrv_window_find(dom, NULL, key, addr, 1, access, &offset);
	tagrv_lock_release(&dom->lock);
	return window;
}

Test(mr, capabilities_give_no_access)
{
	struct fid_mr *mr;
	char byte = 0;

	cr_assert_eq(fi_mr_reg(api.domain, &byte, 1,
			       FI_RMA | FI_ATOMIC | FI_SEND | FI_REMOTE_READ, 0, 7,
			       0, &mr, NULL), 0);
	cr_expect_not_null(window_at(7, 0, FI_REMOTE_READ));
	cr_expect_null(window_at(7, 0, FI_REMOTE_WRITE));
	api_must_close(&mr->fid);
}

/* A second domain as the hints' mr_mode wants it. */
static void open_with(int mr_mode)
{
	struct fi_info *hints = api_hints();

	api_close(&api);
	hints->domain_attr->mr_mode = mr_mode;
	api.info = api_must_getinfo(hints);
	api.info->domain_attr->mr_mode = mr_mode;
	fi_freeinfo(hints);
	cr_assert_eq(tagrv_fabric_open(api.info->fabric_attr, &api.fabric, NULL),
		     0);
	cr_assert_eq(fi_domain(api.fabric, api.info, &api.domain, NULL), 0);
}

static int reg(void *buf, size_t len, uint64_t access, uint64_t key,
	       struct fid_mr **mr)
{
	return fi_mr_reg(api.domain, buf, len, access, 0, key, 0, mr, NULL);
}

Test(mr, only_rights_for_peers_make_a_window)
{
	static char buf[10];
	struct fid_mr *mr;

	for (uint64_t access = 0; access < 64; access++) {
		uint64_t flags = access << 8;
		bool reads = flags & FI_REMOTE_READ;
		bool writes = flags & FI_REMOTE_WRITE;

		cr_assert_eq(reg(buf, 10, flags, 7, &mr), 0);
		cr_expect_eq(window_at(7, 0, FI_REMOTE_READ) != NULL, reads);
		cr_expect_eq(window_at(7, 9, FI_REMOTE_WRITE) != NULL, writes);
		cr_expect_eq(window_at(7, 0, 0) != NULL, reads || writes);
		cr_expect_null(window_at(7, 10, 0));
		api_must_close(&mr->fid);
		cr_expect_null(window_at(7, 0, 0));
	}
}

Test(mr, a_window_of_segments_is_one_range)
{
	static char buf[2][10];
	struct iovec iov[2] = { { buf[1], 10 }, { buf[0], 10 } };
	struct tagrv_window *window;
	struct fid_mr *mr;

	cr_assert_eq(fi_mr_regv(api.domain, iov, 2, FI_REMOTE_WRITE, 0, 1, 0, &mr,
				NULL), 0);
	window = window_at(1, 19, FI_REMOTE_WRITE);
	cr_assert_not_null(window);
	cr_expect_null(window_at(1, 20, FI_REMOTE_WRITE));
	cr_expect_eq(window->len, 20);
	cr_expect_eq(window->iov_cnt, 2);
	cr_expect_eq(window->iov[1].iov_base, buf[0]);
	api_must_close(&mr->fid);
}

Test(mr, keys_that_are_asked_for_must_be_free)
{
	static const uint64_t keys[] = { 0, 1, UINT64_C(1) << 63, UINT64_MAX - 1 };
	struct fid_mr *mr[4], *other;
	char byte = 0;

	for (size_t i = 0; i < 4; i++) {
		cr_assert_eq(reg(&byte, 1, FI_REMOTE_READ, keys[i], &mr[i]), 0);
		cr_expect_eq(fi_mr_key(mr[i]), keys[i]);
		cr_expect_not_null(window_at(keys[i], 0, FI_REMOTE_READ));
	}
	for (size_t i = 0; i < 4; i++) {
		cr_expect_eq(reg(&byte, 1, FI_REMOTE_WRITE, keys[i], &other),
			     -FI_ENOKEY);
		/* Peers never use the key of memory that only we access. */
		cr_assert_eq(reg(&byte, 1, FI_SEND, keys[i], &other), 0);
		api_must_close(&other->fid);
		api_must_close(&mr[i]->fid);
		cr_expect_eq(reg(&byte, 1, FI_REMOTE_WRITE, keys[i], &other), 0);
		api_must_close(&other->fid);
	}
	cr_expect_eq(reg(&byte, 1, FI_REMOTE_READ, FI_KEY_NOTAVAIL, &other),
		     -FI_EKEYREJECTED);
}

#define REGIONS	100

Test(mr, keys_of_the_provider_are_drawn_and_unique)
{
	static char buf[8];
	struct fid_mr *mr[REGIONS];
	uint64_t all = 0, common = UINT64_MAX;

	open_with(FI_MR_PROV_KEY);
	for (int i = 0; i < REGIONS; i++) {
		cr_assert_eq(reg(buf, 8, FI_REMOTE_READ, 5, &mr[i]), 0);
		cr_expect_neq(fi_mr_key(mr[i]), 5);
		cr_expect_neq(fi_mr_key(mr[i]), FI_KEY_NOTAVAIL);
		all |= fi_mr_key(mr[i]);
		common &= fi_mr_key(mr[i]);
		for (int j = 0; j < i; j++)
			cr_expect_neq(fi_mr_key(mr[i]), fi_mr_key(mr[j]));
		cr_expect_not_null(window_at(fi_mr_key(mr[i]), 0, FI_REMOTE_READ),
				   "addresses count from 0");
	}
	cr_expect_eq(all, UINT64_MAX, "every bit is set in some key");
	cr_expect_eq(common, 0, "and clear in another");
	for (int i = 0; i < REGIONS; i++)
		api_must_close(&mr[i]->fid);
}

static void expect_virtual(int mr_mode)
{
	static char buf[8];
	struct fid_mr *mr;
	uint64_t key;

	open_with(mr_mode);
	cr_assert_eq(reg(buf, 8, FI_REMOTE_READ, 5, &mr), 0);
	key = fi_mr_key(mr);
	cr_expect_not_null(window_at(key, (uintptr_t) buf, FI_REMOTE_READ));
	cr_expect_not_null(window_at(key, (uintptr_t) buf + 7, FI_REMOTE_READ));
	cr_expect_null(window_at(key, (uintptr_t) buf + 8, FI_REMOTE_READ));
	cr_expect_null(window_at(key, 0, FI_REMOTE_READ));
	cr_expect_eq(key == 5, mr_mode == FI_MR_VIRT_ADDR);
	api_must_close(&mr->fid);
}

Test(mr, addresses_are_virtual_where_the_domain_says_so)
{
	expect_virtual(FI_MR_VIRT_ADDR);
	expect_virtual(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED);
	expect_virtual(1);	/* FI_MR_BASIC */
}

/* Devices may have regions registered for peers only where the program does not remap them. */
Test(mr, pages_stay_where_the_domain_says_so)
{
	static const struct { int mode; bool stay; } modes[] = {
		{ 0, false }, { TAGRV_MR_SCALABLE, false },
		{ FI_MR_VIRT_ADDR | FI_MR_PROV_KEY, false },
		{ FI_MR_ALLOCATED, true }, { TAGRV_MR_BASIC, true },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(modes); i++) {
		open_with(modes[i].mode);
		cr_expect_eq(dom_of(api.domain)->allocated, modes[i].stay, "mode %zu", i);
	}
}

Test(mr, scalable_regions_have_the_application_s_keys)
{
	struct fid_mr *mr;
	char byte = 0;

	open_with(2);		/* FI_MR_SCALABLE */
	cr_assert_eq(reg(&byte, 1, FI_REMOTE_READ, 5, &mr), 0);
	cr_expect_eq(fi_mr_key(mr), 5);
	cr_expect_not_null(window_at(5, 0, FI_REMOTE_READ));
	api_must_close(&mr->fid);
}

/* So MPI and OpenSHMEM give peers all their memory. */
Test(mr, a_window_may_be_all_memory)
{
	struct fid_mr *mr;
	char byte = 0;

	cr_assert_eq(reg(NULL, UINTPTR_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 1,
			 &mr), 0);
	cr_expect_not_null(window_at(1, (uintptr_t) &byte, FI_REMOTE_WRITE));
	api_must_close(&mr->fid);
	cr_expect_eq(reg(NULL, UINTPTR_MAX, FI_REMOTE_READ | FI_SEND, 1, &mr),
		     -FI_EINVAL);
	cr_expect_eq(reg(&byte, UINTPTR_MAX, FI_REMOTE_READ, 1, &mr), -FI_EINVAL,
		     "it goes beyond the last address");
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

/* Operations of peers register what they need, and leave no registration behind. */
Test(mr, the_device_is_not_asked_for_memory_of_peers)
{
	static char buf[2][10];
	struct iovec iov[2] = { { buf[0], 10 }, { buf[1], 10 } };
	struct fid_mr *mr;

	dom_of(api.domain)->dev = &fake_dev;
	answer = -FI_ENOMEM;
	cr_expect_eq(reg(buf, 10, FI_REMOTE_READ | FI_REMOTE_WRITE, 1, &mr), 0);
	cr_expect_null(fi_mr_desc(mr));
	api_must_close(&mr->fid);
	cr_expect_eq(fi_mr_regv(api.domain, iov, 2, FI_SEND | FI_REMOTE_READ, 0, 1,
				0, &mr, NULL), 0);
	cr_expect_null(fi_mr_desc(mr), "a descriptor is of one segment");
	api_must_close(&mr->fid);
	dom_of(api.domain)->dev = NULL;
}

Test(mr, nothing_is_left_when_the_key_is_taken)
{
	static char buf[10];
	struct fid_mr *mr, *other;

	dom_of(api.domain)->dev = &fake_dev;
	cr_assert_eq(reg(buf, 10, FI_REMOTE_READ, 1, &mr), 0);
	cr_expect_eq(reg(buf, 10, FI_SEND | FI_REMOTE_READ, 1, &other), -FI_ENOKEY);
	cr_expect_eq(registered, 0);
	api_must_close(&mr->fid);
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
	cr_expect_eq(rights_of(FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE), 0,
		     "operations of peers register for themselves");
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
