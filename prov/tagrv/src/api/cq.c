/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_cq: completion queues, on top of struct tagrv_compq.
 *
 * A read makes progress for the whole domain when the queue is empty, and every
 * READS_MAX reads when it is not: an application that polls one queue that never
 * runs empty needs progress, too.
 */
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/objects_priv.h"
#include "core/iov.h"
#include "core/log.h"

#define SIZE_DEFAULT	1024
#define NO_WAIT	"%s: the completion queue was opened with FI_WAIT_NONE"
#define READS_MAX	8	/* reads per progress, of a queue not empty */

/* A record starts like an entry of the longest format: a read only copies. */
#define SAME_PLACE(record, entry) \
	static_assert(offsetof(struct tagrv_comp, record) == \
		      offsetof(struct fi_cq_tagged_entry, entry), #entry)
SAME_PLACE(context, op_context);
SAME_PLACE(flags, flags);
SAME_PLACE(len, len);
SAME_PLACE(buf, buf);
SAME_PLACE(data, data);
SAME_PLACE(tag, tag);

static struct tagrv_cq *cq_of(struct fid_cq *cq)
{
	return tagrv_container_of(cq, struct tagrv_cq, cq);
}

/* Copies word by word, because the record was written a moment ago. */
static inline char *put_entry(char *out, const struct tagrv_comp *comp,
			      size_t size)
{
	const char *from = (const char *) comp;

	for (size_t at = 0; at < size; at += sizeof(uint64_t))
		tagrv_word_copy(out + at, from + at);
	return out + size;
}

/* The result of a read without entries; comp is the oldest record, or NULL. */
static ssize_t no_entries(struct tagrv_cq *cq, const struct tagrv_comp *comp)
{
	if (comp)
		return comp->err ? -FI_EAVAIL : 0;
	return cq->queue.overrun ? -FI_EOVERRUN : -FI_EAGAIN;
}

/*
 * Whether a read has nothing to return, and nothing to do. Counts a look if the queue
 * is empty. Lock held.
 */
static inline bool is_idle(struct tagrv_cq *cq)
{
	return tagrv_compq_empty(&cq->queue) &&
	       tagrv_watch_is_idle(&cq->dom->watch) && !cq->queue.overrun;
}

/*
 * Makes progress, after is_idle() has found the queue empty; returns the number of
 * entries that are in buf after that.
 */
static inline size_t look_with_window(struct tagrv_cq *cq, void *buf,
				      size_t count, fi_addr_t *src_addr)
{
	count &= cq->window_mask;
	cq->reads = 0;
	tagrv_compq_open_window(&cq->queue, buf, count, src_addr);
	tagrv_dom_handle(cq->dom);
	return tagrv_compq_close_window(&cq->queue, count);
}

/*
 * Copies successes of the ring in the longest format behind the n entries that are in
 * buf, as read_queue(); returns the number of entries then.
 */
static inline size_t read_ring(struct tagrv_cq *cq, void *buf, size_t n,
			       size_t count)
{
	const struct tagrv_comp *ring = cq->queue.ring;
	struct fi_cq_tagged_entry *out = (struct fi_cq_tagged_entry *) buf + n;
	size_t head = cq->queue.head, mask = cq->queue.mask, cnt = 0;
	size_t most = TAGRV_MIN(count - n, cq->queue.tail - head);

	for (; cnt < most; cnt++) {
		const struct tagrv_comp *comp = &ring[(head + cnt) & mask];

		if (TAGRV_UNLIKELY(comp->err))
			break;
		put_entry((char *) &out[cnt], comp, sizeof(*out));
	}
	tagrv_compq_pop(&cq->queue, cnt);
	return n + cnt;
}

/* Copies entries of the queue behind the n that are in buf. */
static __attribute__((noinline)) ssize_t
read_queue(struct tagrv_cq *cq, void *buf, size_t n, size_t count,
	   fi_addr_t *src_addr)
{
	const struct tagrv_comp *comp;
	char *out;

	if (TAGRV_LIKELY(!src_addr && cq->entry_size ==
			 sizeof(struct fi_cq_tagged_entry)))
		n = read_ring(cq, buf, n, count);
	out = (char *) buf + n * cq->entry_size;
	while ((comp = tagrv_compq_peek(&cq->queue)) && n < count &&
	       !comp->err) {
		if (src_addr)
			src_addr[n] = comp->src;
		out = put_entry(out, comp, cq->entry_size);
		tagrv_compq_pop(&cq->queue, 1);
		n++;
	}
	return n ? (ssize_t) n : no_entries(cq, comp);
}

/* Domain lock held. */
static inline ssize_t read_entries(struct tagrv_cq *cq, void *buf, size_t count,
				   fi_addr_t *src_addr)
{
	size_t n = 0;

	if (TAGRV_LIKELY(tagrv_compq_empty(&cq->queue))) {
		n = look_with_window(cq, buf, count, src_addr);
		if (TAGRV_LIKELY(n) && tagrv_compq_empty(&cq->queue))
			return (ssize_t) n;
	} else if (!count || ++cq->reads >= READS_MAX) {
		cq->reads = 0;
		tagrv_dom_look(cq->dom);
	}
	return read_queue(cq, buf, n, count, src_addr);
}

/* Lock held; releases it. */
static __attribute__((noinline)) ssize_t
read_and_unlock(struct tagrv_cq *cq, void *buf, size_t count,
		fi_addr_t *src_addr)
{
	struct tagrv_dom *dom = cq->dom;
	ssize_t ret = read_entries(cq, buf, count, src_addr);

	tagrv_dom_unlock(dom);
	return ret;
}

/* A read with a lock: apart, so that one without has no register to save. */
static __attribute__((noinline)) ssize_t
locked_read(struct tagrv_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	tagrv_lock_acquire(&cq->dom->lock);
	if (TAGRV_UNLIKELY(!is_idle(cq)))
		return read_and_unlock(cq, buf, count, src_addr);
	tagrv_lock_release(&cq->dom->lock);
	return -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count,
			   fi_addr_t *src_addr)
{
	struct tagrv_cq *cq = cq_of(fid);

	if (TAGRV_UNLIKELY(cq->dom->lock.on))
		return locked_read(cq, buf, count, src_addr);
	tagrv_lock_acquire(&cq->dom->lock);
	if (TAGRV_UNLIKELY(!is_idle(cq)))
		return read_and_unlock(cq, buf, count, src_addr);
	tagrv_lock_release(&cq->dom->lock);
	return -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/*
 * The only error data is the address of a sender that is not in the address
 * vector. From version 1.5 on an application may provide a buffer for it; others
 * get a pointer into the queue.
 */
static void put_err_data(struct tagrv_cq *cq, struct fi_cq_err_entry *out,
			 const struct tagrv_addr *addr)
{
	bool sized = FI_VERSION_GE(cq->domain->api_version, FI_VERSION(1, 5));
	size_t len = addr ? tagrv_addr_len(addr) : 0;

	if (sized && out->err_data_size) {
		out->err_data_size = TAGRV_MIN(len, out->err_data_size);
		if (len)
			memcpy(out->err_data, addr, out->err_data_size);
		return;
	}
	if (addr)
		cq->err_data = *addr;
	out->err_data = addr ? &cq->err_data : NULL;
	if (sized)
		out->err_data_size = len;
}

/*
 * struct fi_cq_err_entry has grown: err_data_size came with 1.5, src_addr (which
 * our headers may not have) with 1.20. Applications of older versions may have
 * no memory there.
 */
static void put_error(struct tagrv_cq *cq, struct fi_cq_err_entry *out,
		      const struct tagrv_comp *comp)
{
	bool unknown_source = comp->err == TAGRV_ERR_UNKNOWN_SOURCE;
	fi_addr_t src = unknown_source ? FI_ADDR_NOTAVAIL : comp->src;

	memcpy(out, comp, sizeof(struct fi_cq_tagged_entry));
	out->olen = comp->olen;
	out->err = unknown_source ? FI_EADDRNOTAVAIL : comp->err;
	/* There are no device codes; fi_cq_strerror takes prov_errno. */
	out->prov_errno = out->err;
	put_err_data(cq, out, unknown_source ? comp->unknown_source : NULL);
	if (FI_VERSION_GE(cq->domain->api_version, FI_VERSION(1, 20)))
		memcpy((char *) out + offsetof(struct fi_cq_err_entry,
					       err_data_size) + sizeof(size_t),
		       &src, sizeof(src));
	if (unknown_source)
		free(comp->unknown_source);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf,
			  uint64_t flags)
{
	struct tagrv_cq *cq = cq_of(fid);
	const struct tagrv_comp *comp;
	ssize_t ret = -FI_EAGAIN;

	(void) flags;
	tagrv_dom_lock(cq->dom);
	comp = tagrv_compq_peek(&cq->queue);
	if (comp && comp->err) {
		put_error(cq, buf, comp);
		tagrv_compq_pop(&cq->queue, 1);
		ret = 1;
	}
	tagrv_lock_release(&cq->dom->lock);
	return ret;
}

/*
 * Entries that a blocking read waits for: with FI_CQ_COND_THRESHOLD as many as
 * cond says, but at most those that fit its buffer or the queue.
 */
static size_t threshold_of(const struct tagrv_cq *cq, size_t count,
			   const void *cond)
{
	size_t least = cq->has_threshold ? (uintptr_t) cond : 1;

	return TAGRV_MIN(TAGRV_MIN(least, count), cq->queue.mask + 1);
}

/*
 * One round of a blocking read. -FI_EAGAIN: fewer than 'least' entries are there;
 * *sleep is set if the caller is to sleep.
 */
static ssize_t read_or_arm(struct tagrv_cq *cq, void *buf, size_t count,
			   fi_addr_t *src_addr, size_t least, bool *sleep)
{
	ssize_t ret = -FI_EAGAIN;

	tagrv_dom_lock(cq->dom);
	if (least > 1)
		tagrv_dom_progress(cq->dom);
	if (least <= 1 || tagrv_compq_has(&cq->queue, least))
		ret = read_entries(cq, buf, count, src_addr);
	if (ret == -FI_EAGAIN && tagrv_wait_has_fd(&cq->wait))
		*sleep = !tagrv_wait_enter(cq->dom, &cq->queue.waker);
	tagrv_dom_unlock(cq->dom);
	return ret;
}

static bool consume_signal(struct tagrv_cq *cq)
{
	return atomic_load_explicit(&cq->signaled, memory_order_relaxed) &&
	       atomic_exchange(&cq->signaled, false);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count,
			    fi_addr_t *src_addr, const void *cond, int timeout)
{
	int64_t deadline = tagrv_deadline(timeout);
	struct tagrv_cq *cq = cq_of(fid);
	size_t least = threshold_of(cq, count, cond);
	bool sleep;
	ssize_t ret;
	int left;

	if (!tagrv_wait_possible(&cq->wait))
		return tagrv_refuse(-FI_EINVAL, NO_WAIT, "fi_cq_sread");
	for (;;) {
		sleep = false;
		ret = read_or_arm(cq, buf, count, src_addr, least, &sleep);
		if (ret != -FI_EAGAIN)
			return ret;
		left = consume_signal(cq) ? 0 : tagrv_time_left(deadline);
		if (sleep)
			ret = tagrv_wait_sleep(cq->dom, &cq->queue.waker, left);
		else if (!tagrv_wait_has_fd(&cq->wait))
			sched_yield();
		/*
		 * Time is up, or the wait was interrupted: return the entries
		 * there are, as fi_cq(3) says.
		 */
		if (!left || ret == -FI_EINTR)
			return cq_readfrom(fid, buf, count, src_addr);
		if (ret < 0 && ret != -FI_EAGAIN)
			return ret;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count,
			const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct tagrv_cq *cq = cq_of(fid);

	if (!tagrv_wait_possible(&cq->wait))
		return tagrv_refuse(-FI_EINVAL, NO_WAIT, "fi_cq_signal");
	atomic_store(&cq->signaled, true);
	tagrv_dom_lock(cq->dom);
	cq->queue.waker.armed = true;
	tagrv_waker_signal(&cq->queue.waker);
	tagrv_lock_release(&cq->dom->lock);
	return 0;
}

static const char *cq_strerror(struct fid_cq *cq, int prov_errno,
			       const void *err_data, char *buf, size_t len)
{
	(void) cq;
	(void) err_data;
	return tagrv_strerror(prov_errno, buf, len);
}

int tagrv_cq_trywait(struct tagrv_cq *cq)
{
	int ret = -FI_EAGAIN;

	if (!tagrv_wait_has_fd(&cq->wait))
		return tagrv_refuse(-FI_EINVAL, NO_WAIT " or FI_WAIT_YIELD",
				    "fi_trywait");
	tagrv_dom_lock(cq->dom);
	tagrv_dom_progress(cq->dom);
	if (tagrv_compq_empty(&cq->queue) && !cq->queue.overrun)
		ret = tagrv_wait_prepare(cq->dom, &cq->queue.waker);
	tagrv_dom_unlock(cq->dom);
	return consume_signal(cq) ? -FI_EAGAIN : ret;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

static int cq_close(struct fid *fid)
{
	struct tagrv_cq *cq = tagrv_container_of(fid, struct tagrv_cq, cq.fid);
	int ret;

	ret = tagrv_ref_check(&cq->refs, "completion queue", "endpoints");
	if (ret)
		return ret;
	if (cq->queue.over_peak)
		tagrv_info("completion queue of %zu entries: up to %zu more "
			   "waited because the application did not read\n",
			   cq->queue.mask + 1, cq->queue.over_peak);
	tagrv_wait_fini(&cq->wait);
	tagrv_compq_fini(&cq->queue);
	tagrv_ref_put(&cq->domain->refs);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct tagrv_cq *cq = tagrv_container_of(fid, struct tagrv_cq, cq.fid);

	return tagrv_wait_control(&cq->wait, cq->dom, &cq->queue.waker,
				  command, arg);
}

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = tagrv_nosys_bind,
	.control = cq_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = tagrv_nosys_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static int entry_size(enum fi_cq_format format, size_t *size)
{
	switch (format) {
	case FI_CQ_FORMAT_UNSPEC:
	case FI_CQ_FORMAT_CONTEXT:
		*size = sizeof(struct fi_cq_entry);
		return 0;
	case FI_CQ_FORMAT_MSG:
		*size = sizeof(struct fi_cq_msg_entry);
		return 0;
	case FI_CQ_FORMAT_DATA:
		*size = sizeof(struct fi_cq_data_entry);
		return 0;
	case FI_CQ_FORMAT_TAGGED:
		*size = sizeof(struct fi_cq_tagged_entry);
		return 0;
	default:
		return tagrv_refuse(-FI_ENOSYS, "fi_cq_open: format %d is not "
				    "supported", (int) format);
	}
}

static int init_cq(struct tagrv_cq *cq, const struct fi_cq_attr *attr)
{
	int ret;

	/* FI_AFFINITY is a hint about interrupts: ignored. */
	if (attr->flags & ~FI_AFFINITY)
		return tagrv_refuse(-FI_EBADFLAGS, "fi_cq_open: flags 0x%llx "
				    "are not supported",
				    (unsigned long long) attr->flags);
	if (attr->wait_obj != FI_WAIT_NONE &&
	    attr->wait_cond != FI_CQ_COND_NONE &&
	    attr->wait_cond != FI_CQ_COND_THRESHOLD)
		return tagrv_refuse(-FI_EINVAL, "fi_cq_open: wait condition %d "
				    "does not exist", (int) attr->wait_cond);
	cq->has_threshold = attr->wait_cond == FI_CQ_COND_THRESHOLD;
	ret = entry_size(attr->format, &cq->entry_size);
	if (!ret)
		ret = tagrv_wait_init(&cq->wait, attr->wait_obj);
	if (ret)
		return ret;
	ret = tagrv_compq_init(&cq->queue,
			       attr->size ? attr->size : SIZE_DEFAULT,
			       tagrv_wait_has_fd(&cq->wait));
	if (ret == -FI_EINVAL)
		return tagrv_refuse(ret, "fi_cq_open: %zu entries are too many",
				    attr->size);
	return ret;
}

int tagrv_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
		  struct fid_cq **cq, void *context)
{
	const struct fi_cq_attr defaults = { 0 };
	struct tagrv_cq *self;
	int ret;

	self = calloc(1, sizeof(*self));
	if (!self)
		return -FI_ENOMEM;
	ret = init_cq(self, attr ? attr : &defaults);
	if (ret) {
		free(self);
		return ret;
	}
	self->domain = tagrv_container_of(domain, struct tagrv_domain, domain);
	self->dom = self->domain->dom;
	self->queue.window.entry_size = self->entry_size;
	self->window_mask = self->dom->params.fast ? SIZE_MAX : 0;
	self->cq.fid.fclass = FI_CLASS_CQ;
	self->cq.fid.context = context;
	self->cq.fid.ops = &fid_ops;
	self->cq.ops = &cq_ops;
	tagrv_ref_get(&self->domain->refs);
	*cq = &self->cq;
	return 0;
}
