/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows: see window.h.
 */
#include "window.h"

#include <sched.h>
#include <string.h>

enum { BY_ADDRESS = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY };

/* Keys that applications choose may use all 64 bits. */
static uint64_t next_key = 1;

static bool is_offered(struct test *t, const struct fx_attr *attr)
{
	struct fi_info *info;
	int ret = fx_try_info(t, attr, &info);

	fi_freeinfo(info);
	CHECK(!ret || ret == -FI_ENODATA, "fi_getinfo: %d (%s)", ret, fi_strerror(-ret));
	return !ret;
}

void window_open_ep(struct test *t, struct fx *fx, const struct fx_attr *attr,
		    enum window_keys keys)
{
	struct fx_attr wanted = *attr;

	/* Memory stays where it is, so devices may access it by themselves. */
	wanted.mr_mode |= FI_MR_ALLOCATED;
	if (keys == KEYS_ADDRESS || (keys == KEYS_ANY && !is_offered(t, &wanted)))
		wanted.mr_mode |= BY_ADDRESS;
	fx_open_or_skip(t, fx, &wanted, keys == KEYS_ANY ? "such endpoint" :
			"such endpoint with these keys");
	CHECK(!(fx->info->domain_attr->mr_mode & ~wanted.mr_mode), "mr_mode 0x%x, asked for 0x%x",
	      fx->info->domain_attr->mr_mode, wanted.mr_mode);
}

static bool has_mode(const struct fx *fx, int mode)
{
	return fx->info->domain_attr->mr_mode & mode;
}

/*
 * fi_mr(3): who offers a mode must cope with a provider that does not ask for it. Nothing
 * there forbids to bind and enable a region all the same; a provider may lack the calls.
 */
static void check_optional(const struct fx *fx, int mode, int ret, const char *call)
{
	CHECK(!ret || (ret == -FI_ENOSYS && !has_mode(fx, mode)), "%s: %d (%s)", call, ret,
	      fi_strerror(-ret));
}

static void bind_region(struct fx *fx, const struct region *r, struct fid_mr *mr)
{
	int asked = fx->attr.mr_mode & (r->cntr ? FI_MR_ENDPOINT | FI_MR_RMA_EVENT : FI_MR_ENDPOINT);

	if (asked & FI_MR_ENDPOINT)
		check_optional(fx, FI_MR_ENDPOINT, fi_mr_bind(mr, &fx->ep->fid, 0), "fi_mr_bind");
	if (r->cntr)
		CHECK_OK(fi_mr_bind(mr, &r->cntr->fid, r->events));
	if (asked)
		check_optional(fx, asked, fi_mr_enable(mr), "fi_mr_enable");
}

int region_try(struct fx *fx, const struct region *r, struct fid_mr **mr)
{
	struct fi_mr_attr attr = {
		.mr_iov = r->iov,
		.iov_count = r->iov_count ? r->iov_count : 1,
		.access = r->access ? r->access : FI_REMOTE_READ | FI_REMOTE_WRITE,
		.requested_key = r->key ? r->key : next_key++,
	};
	uint64_t flags = r->cntr && has_mode(fx, FI_MR_RMA_EVENT) ? FI_RMA_EVENT : 0;
	int ret = fi_mr_regattr(fx->domain, &attr, flags, mr);

	if (!ret)
		bind_region(fx, r, *mr);
	return ret;
}

struct fid_mr *region_open(struct fx *fx, const struct region *r)
{
	struct fid_mr *mr;

	CHECK_OK(region_try(fx, r, &mr));
	return mr;
}

uint64_t region_base(const struct fx *fx, const struct iovec *iov)
{
	return has_mode(fx, FI_MR_VIRT_ADDR) ? (uintptr_t)iov->iov_base : 0;
}

void window_publish(struct fx *fx, struct window *w, struct fid_mr *mr, uint64_t base)
{
	uint64_t mine[2] = { mr ? fi_mr_key(mr) : 0, base };
	struct run_gathered all;

	w->fx = fx;
	w->mr = mr;
	fx_exchange(fx, mine, sizeof(mine), &all);
	for (int i = 0; i < fx->t->ranks; i++) {
		if (all.len[i] != sizeof(mine))
			continue;
		memcpy(mine, all.data[i], sizeof(mine));
		w->key[i] = mine[0];
		w->base[i] = mine[1];
	}
}

void window_open(struct fx *fx, struct window *w, size_t len, uint64_t access)
{
	struct iovec iov;

	w->g = guard_alloc(len);
	iov = (struct iovec){ .iov_base = w->g.data, .iov_len = len };
	window_publish(fx, w, region_open(fx, &(struct region){ .iov = &iov, .access = access }),
		       region_base(fx, &iov));
}

void window_holds(const char *file, int line, const struct window *w, size_t at, size_t len,
		  uint64_t seed)
{
	size_t right = pattern_check(w->g.data + at, len, seed);
	size_t changed = guard_changed(&w->g, 0, at) + guard_damage(&w->g, at + len);

	if (right != len)
		run_fail(file, line, "wrong content at byte %zu of %zu", right, len);
	if (changed)
		run_fail(file, line, "%zu bytes outside the %zu at %zu have changed", changed, len, at);
}

void window_await(struct window *w, size_t at, size_t len, uint64_t seed)
{
	while (pattern_check(w->g.data + at, len, seed) != len) {
		fx_progress(w->fx);
		FX_CHECK_MOVES(w->fx, "%zu bytes do not come", len);
		sched_yield();
	}
}

void window_close(struct window *w)
{
	if (w->mr)
		CHECK_OK(fi_close(&w->mr->fid));
	CHECK(!guard_damage(&w->g, w->g.len), "bytes written outside the window");
	guard_free(&w->g);
	memset(w, 0, sizeof(*w));
}
