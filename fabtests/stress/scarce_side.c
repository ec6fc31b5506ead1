/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint with all objects that it can have, opened while calls fail.
 */
#include <stdlib.h>
#include <string.h>

#include "scarce_run.h"

static char memory[1 << 16];	/* to be registered */

/* A call that fails has changed nothing: the second try works, if memory is there again. */
#define OPEN(again, what, call)						\
	({								\
		int ret_;						\
									\
		run_step("%s", what);					\
		ret_ = (call);						\
		if (ret_) {						\
			run_count(what, -ret_);				\
			if (again)					\
				ret_ = (call);				\
			if (ret_ && (again))				\
				run_fails("%s fails again: %s", what,	\
					  fi_strerror(-ret_));		\
		}							\
		ret_;							\
	})

static struct fi_info *hints_for(const char *device, enum fi_progress progress)
{
	struct fi_info *hints;

	scarce_pause(true);
	hints = fi_allocinfo();
	if (!hints)
		run_fails("fi_allocinfo");
	hints->caps = FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->data_progress = progress;
	hints->domain_attr->name = strdup(device);
	scarce_pause(false);
	return hints;
}

static int get_info(struct side *side, const struct fi_provider *provider, const char *device,
		    enum fi_progress progress, bool again)
{
	struct fi_info *hints = hints_for(device, progress);
	int ret = OPEN(again, "fi_getinfo", provider->getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE,
							     hints, &side->info));

	scarce_pause(true);
	fi_freeinfo(hints);
	scarce_pause(false);
	return ret;
}

static int open_queues(struct side *side, bool again)
{
	struct fi_cq_attr cq = { .size = 64, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	struct fi_cntr_attr cntr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 2 };
	int ret = OPEN(again, "fi_av_open", fi_av_open(side->domain, &av, &side->av, NULL));

	for (int i = 0; i < 2 && !ret; i++) {
		ret = OPEN(again, "fi_cq_open", fi_cq_open(side->domain, &cq, &side->cq[i], NULL));
		if (!ret)
			ret = OPEN(again, "fi_cntr_open",
				   fi_cntr_open(side->domain, &cntr, &side->cntr[i], NULL));
	}
	return ret;
}

static int bind_all(struct side *side, bool again)
{
	static const uint64_t flags[2] = { FI_TRANSMIT, FI_RECV };
	int ret = OPEN(again, "fi_ep_bind", fi_ep_bind(side->ep, &side->av->fid, 0));

	for (int i = 0; i < 2 && !ret; i++) {
		ret = OPEN(again, "fi_ep_bind", fi_ep_bind(side->ep, &side->cq[i]->fid, flags[i]));
		if (!ret)
			ret = OPEN(again, "fi_ep_bind",
				   fi_ep_bind(side->ep, &side->cntr[i]->fid, i ? FI_RECV : FI_SEND));
	}
	return ret ? ret : OPEN(again, "fi_ep_bind", fi_ep_bind(side->ep, &side->eq->fid, 0));
}

static int open_endpoint(struct side *side, bool again)
{
	size_t len = sizeof(side->name);
	int ret = OPEN(again, "fi_endpoint", fi_endpoint(side->domain, side->info, &side->ep, NULL));

	if (!ret)
		ret = bind_all(side, again);
	if (!ret)
		ret = OPEN(again, "fi_enable", fi_enable(side->ep));
	if (!ret)
		ret = OPEN(again, "fi_getname", fi_getname(&side->ep->fid, side->name, &len));
	if (!ret)
		ret = OPEN(again, "fi_mr_reg",
			   fi_mr_reg(side->domain, memory, sizeof(memory), FI_SEND | FI_RECV, 0, 0, 0,
				     &side->mr, NULL));
	return ret;
}

int side_open(struct side *side, const struct fi_provider *provider, const char *device,
	      enum fi_progress progress, bool again)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_FD };
	int ret;

	memset(side, 0, sizeof(*side));
	ret = get_info(side, provider, device, progress, again);
	if (!ret)
		ret = OPEN(again, "fi_fabric", provider->fabric(side->info->fabric_attr, &side->fabric, NULL));
	if (!ret)
		ret = OPEN(again, "fi_eq_open", fi_eq_open(side->fabric, &eq, &side->eq, NULL));
	if (!ret)
		ret = OPEN(again, "fi_domain", fi_domain(side->fabric, side->info, &side->domain, NULL));
	if (!ret)
		ret = open_queues(side, again);
	if (!ret)
		ret = open_endpoint(side, again);
	if (ret)
		side_close(side);
	return ret;
}

static int insert(struct side *side, const struct side *other)
{
	int err = FI_EOTHER;
	int ret = fi_av_insert(side->av, other->name, 1, &side->peer, FI_SYNC_ERR, &err);

	/* The number of addresses, or an error; with 0 addresses, err says why. */
	return ret == 1 ? 0 : ret < 0 ? ret : -err;
}

int side_meet(struct side *side, const struct side *other, bool again)
{
	return OPEN(again, "fi_av_insert", insert(side, other));
}

static void shut(void *object, const char *what)
{
	struct fid *fid = object;
	int ret;

	if (!fid)
		return;
	run_step("fi_close of the %s", what);
	ret = fi_close(fid);
	if (ret)
		run_fails("fi_close of the %s: %s", what, fi_strerror(-ret));
}

void side_close(struct side *side)
{
	shut(side->mr, "memory region");
	shut(side->ep, "endpoint");
	for (int i = 0; i < 2; i++) {
		shut(side->cq[i], "completion queue");
		shut(side->cntr[i], "counter");
	}
	shut(side->av, "address vector");
	shut(side->domain, "domain");
	shut(side->eq, "event queue");
	shut(side->fabric, "fabric");
	fi_freeinfo(side->info);
	memset(side, 0, sizeof(*side));
}
