/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads of completion queues, which make progress:
 *
 *   fi_cq_read    queue empty, no word of the domain has changed  -> -FI_EAGAIN
 *                 nothing but messages of one link have come      -> into the caller's
 *                                                                    entries: read_found()
 *                 anything else     -> words, or a pass, with a window on the caller's
 *                                      entries; then what is queued
 *   fi_cq_sread   the same in turn with sleep
 *
 * A read makes progress for the whole domain when the queue is empty, and every
 * READS_MAX reads when it is not: an application that polls one queue that never
 * runs empty needs progress, too.
 */
#include <sched.h>
#include <stddef.h>

#include "api/objects_priv.h"
#include "core/iov.h"

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
static inline void put_tagged(struct fi_cq_tagged_entry *out,
			      const struct tagrv_comp *comp)
{
	tagrv_word_copy(&out->op_context, &comp->context);
	tagrv_word_copy(&out->flags, &comp->flags);
	tagrv_word_copy(&out->len, &comp->len);
	tagrv_word_copy(&out->buf, &comp->buf);
	tagrv_word_copy(&out->data, &comp->data);
	tagrv_word_copy(&out->tag, &comp->tag);
}

/* The same for any format; returns the end of the entry. */
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
 * Makes progress, after a look at the domain's words has found something, or the queue
 * has overrun; the queue is empty. Returns the number of entries that are in buf then.
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
		put_tagged(&out[cnt], comp);
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
		if (TAGRV_LIKELY(tagrv_compq_empty(&cq->queue)))
			return n ? (ssize_t) n : no_entries(cq, NULL);
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

/* The queue is empty, and a look has found the word 'at', or a pass is due. */
static __attribute__((noinline)) ssize_t
read_found(struct tagrv_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
	   int at)
{
	struct tagrv_dom *dom = cq->dom;
	size_t n = 0;

	if (TAGRV_LIKELY(cq->direct) && TAGRV_LIKELY(!src_addr))
		n = tagrv_dom_take(dom, at, &cq->queue, buf, count);
	if (TAGRV_UNLIKELY(!n))
		return read_and_unlock(cq, buf, count, src_addr);
	tagrv_dom_unlock(dom);
	return (ssize_t) n;
}

static inline __attribute__((always_inline)) ssize_t
lock_and_read(struct tagrv_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	int at;

	tagrv_lock_acquire(&cq->dom->lock);
	if (TAGRV_UNLIKELY(!tagrv_compq_empty(&cq->queue)))
		return read_and_unlock(cq, buf, count, src_addr);
	at = tagrv_watch_look(&cq->dom->watch);
	if (TAGRV_UNLIKELY(at != TAGRV_WATCH_IDLE) ||
	    TAGRV_UNLIKELY(cq->queue.overrun))
		return read_found(cq, buf, count, src_addr, at);
	tagrv_lock_release(&cq->dom->lock);
	return -FI_EAGAIN;
}

/* A read with a lock: apart, so that one without has no register to save. */
static __attribute__((noinline)) ssize_t
locked_read(struct tagrv_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	return lock_and_read(cq, buf, count, src_addr);
}

/* Inlined twice: most reads are without a source, and find nothing. */
static inline __attribute__((always_inline)) ssize_t
read_now(struct tagrv_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	return TAGRV_UNLIKELY(cq->dom->lock.on) ?
	       locked_read(cq, buf, count, src_addr) :
	       lock_and_read(cq, buf, count, src_addr);
}

ssize_t tagrv_cq_readfrom(struct fid_cq *cq, void *buf, size_t count,
			  fi_addr_t *src_addr)
{
	return read_now(cq_of(cq), buf, count, src_addr);
}

ssize_t tagrv_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return read_now(cq_of(cq), buf, count, NULL);
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

ssize_t tagrv_cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count,
			    fi_addr_t *src_addr, const void *cond, int timeout)
{
	int64_t deadline = tagrv_deadline(timeout);
	struct tagrv_cq *cq = cq_of(fid);
	size_t least = threshold_of(cq, count, cond);
	bool sleep;
	ssize_t ret;
	int left;

	if (!tagrv_wait_possible(&cq->wait))
		return tagrv_refuse(-FI_EINVAL, TAGRV_CQ_NO_WAIT, "fi_cq_sread");
	for (;;) {
		sleep = false;
		ret = read_or_arm(cq, buf, count, src_addr, least, &sleep);
		if (ret != -FI_EAGAIN)
			return ret;
		left = tagrv_cq_take_signal(cq) ? 0 : tagrv_time_left(deadline);
		if (sleep)
			ret = tagrv_wait_sleep(cq->dom, &cq->queue.waker, left);
		else if (!tagrv_wait_has_fd(&cq->wait))
			sched_yield();
		/*
		 * Time is up, or the wait was interrupted: return the entries
		 * there are, as fi_cq(3) says.
		 */
		if (!left || ret == -FI_EINTR)
			return tagrv_cq_readfrom(fid, buf, count, src_addr);
		if (ret < 0 && ret != -FI_EAGAIN)
			return ret;
	}
}

ssize_t tagrv_cq_sread(struct fid_cq *fid, void *buf, size_t count,
			const void *cond, int timeout)
{
	return tagrv_cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}
