/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_cntr: counters of completions. Reads and waits make progress.
 */
#include <sched.h>
#include <stdlib.h>

#include "api/objects_priv.h"
#include "core/log.h"

static struct tagrv_cntr *cntr_of(struct fid_cntr *cntr)
{
	return tagrv_container_of(cntr, struct tagrv_cntr, cntr);
}

static uint64_t value_of(struct tagrv_cntr *cntr)
{
	return atomic_load_explicit(&cntr->counter.value, memory_order_acquire);
}

static uint64_t errors_of(struct tagrv_cntr *cntr)
{
	return atomic_load_explicit(&cntr->counter.err, memory_order_acquire);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct tagrv_cntr *cntr = cntr_of(fid);
	uint64_t value;

	tagrv_lock_acquire(&cntr->dom->lock);
	tagrv_dom_look(cntr->dom);
	value = cntr->seen = value_of(cntr);
	tagrv_dom_unlock(cntr->dom);
	return value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct tagrv_cntr *cntr = cntr_of(fid);
	uint64_t err;

	tagrv_lock_acquire(&cntr->dom->lock);
	tagrv_dom_look(cntr->dom);
	err = cntr->seen_err = errors_of(cntr);
	tagrv_dom_unlock(cntr->dom);
	return err;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	struct tagrv_cntr *cntr = cntr_of(fid);

	tagrv_dom_lock(cntr->dom);
	tagrv_counter_add(&cntr->counter, value);
	tagrv_lock_release(&cntr->dom->lock);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	struct tagrv_cntr *cntr = cntr_of(fid);

	tagrv_dom_lock(cntr->dom);
	tagrv_counter_add_err(&cntr->counter, value);
	tagrv_lock_release(&cntr->dom->lock);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	struct tagrv_cntr *cntr = cntr_of(fid);

	tagrv_dom_lock(cntr->dom);
	atomic_store(&cntr->counter.value, value);
	tagrv_waker_signal(&cntr->counter.waker);
	tagrv_lock_release(&cntr->dom->lock);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct tagrv_cntr *cntr = cntr_of(fid);

	tagrv_dom_lock(cntr->dom);
	atomic_store(&cntr->counter.err, value);
	tagrv_waker_signal(&cntr->counter.waker);
	tagrv_lock_release(&cntr->dom->lock);
	return 0;
}

/* 1: fi_cntr_wait returns *ret; 0: it goes on, and sleeps if *sleep. */
static int wait_round(struct tagrv_cntr *cntr, uint64_t threshold, uint64_t err,
		      bool *sleep, int *ret)
{
	int over = 1;

	*sleep = false;
	tagrv_dom_lock(cntr->dom);
	tagrv_dom_progress(cntr->dom);
	if (value_of(cntr) >= threshold) {
		*ret = 0;
	} else if (errors_of(cntr) != err) {
		*ret = -FI_EAVAIL;
	} else {
		over = 0;
		if (tagrv_wait_has_fd(&cntr->wait))
			*sleep = !tagrv_wait_enter(cntr->dom,
						   &cntr->counter.waker);
	}
	tagrv_dom_unlock(cntr->dom);
	return over;
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	int64_t deadline = tagrv_deadline(timeout);
	struct tagrv_cntr *cntr = cntr_of(fid);
	uint64_t err = errors_of(cntr);
	int left, ret;
	bool sleep;

	while (!wait_round(cntr, threshold, err, &sleep, &ret)) {
		left = tagrv_time_left(deadline);
		ret = sleep ? tagrv_wait_sleep(cntr->dom, &cntr->counter.waker,
					       left) : sched_yield();
		if (!left)
			return -FI_ETIMEDOUT;
		if (ret < 0)
			return ret;
	}
	return ret;
}

/* True once for each change since the application read the counter. */
static bool consume_change(struct tagrv_cntr *cntr)
{
	uint64_t value = value_of(cntr), err = errors_of(cntr);

	if (value == cntr->seen && err == cntr->seen_err)
		return false;
	cntr->seen = value;
	cntr->seen_err = err;
	return true;
}

/*
 * tagrv_wait_prepare() clears the signal of completions that were counted before,
 * by this thread or another. If the application has not read their count yet,
 * it must not sleep: -FI_EAGAIN.
 */
int tagrv_cntr_trywait(struct tagrv_cntr *cntr)
{
	int ret;

	if (!tagrv_wait_has_fd(&cntr->wait))
		return tagrv_refuse(-FI_EINVAL, "fi_trywait: the counter was "
				    "opened with FI_WAIT_NONE or "
				    "FI_WAIT_YIELD");
	tagrv_dom_lock(cntr->dom);
	tagrv_dom_progress(cntr->dom);
	ret = tagrv_wait_prepare(cntr->dom, &cntr->counter.waker);
	if (consume_change(cntr))
		ret = -FI_EAGAIN;
	tagrv_dom_unlock(cntr->dom);
	return ret;
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

static int cntr_close(struct fid *fid)
{
	struct tagrv_cntr *cntr = tagrv_container_of(fid, struct tagrv_cntr,
						     cntr.fid);
	int ret;

	ret = tagrv_ref_check(&cntr->refs, "counter",
			      "endpoints and memory regions");
	if (ret)
		return ret;
	tagrv_wait_fini(&cntr->wait);
	tagrv_counter_fini(&cntr->counter);
	tagrv_ref_put(&cntr->domain->refs);
	free(cntr);
	return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	struct tagrv_cntr *cntr = tagrv_container_of(fid, struct tagrv_cntr,
						     cntr.fid);

	return tagrv_wait_control(&cntr->wait, cntr->dom, &cntr->counter.waker,
				  command, arg);
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = tagrv_nosys_bind,
	.control = cntr_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static int init_cntr(struct tagrv_cntr *cntr, const struct fi_cntr_attr *attr)
{
	int ret;

	if (attr->flags)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_cntr_open: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) attr->flags);
	if (attr->events != FI_CNTR_EVENTS_COMP)
		return tagrv_refuse(-FI_ENOSYS, "fi_cntr_open: only completions "
				    "can be counted (FI_CNTR_EVENTS_COMP)");
	ret = tagrv_wait_init(&cntr->wait, attr->wait_obj);
	if (!ret)
		ret = tagrv_counter_init(&cntr->counter,
					 tagrv_wait_has_fd(&cntr->wait));
	return ret;
}

int tagrv_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
		    struct fid_cntr **cntr, void *context)
{
	const struct fi_cntr_attr defaults = { 0 };
	struct tagrv_cntr *self;
	int ret;

	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	ret = init_cntr(self, attr ? attr : &defaults);
	if (ret) {
		free(self);
		return ret;
	}
	self->domain = tagrv_container_of(domain, struct tagrv_domain, domain);
	self->dom = self->domain->dom;
	self->cntr.fid.fclass = FI_CLASS_CNTR;
	self->cntr.fid.context = context;
	self->cntr.fid.ops = &fid_ops;
	self->cntr.ops = &cntr_ops;
	tagrv_ref_get(&self->domain->refs);
	*cntr = &self->cntr;
	return 0;
}
