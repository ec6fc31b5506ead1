/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion records, their queue, and counters.
 *
 *   push -> [ ring of the size the application asked for ] -> read
 *              \_ full: overflow list, drained into the ring by reads
 *
 * A read that finds the queue empty and makes progress opens a window on the
 * caller's buffer: successes are written there at once, until the buffer is full or
 * an error must be queued.
 *
 * Nothing is reordered: a record goes to the ring only while the overflow list
 * is empty, and into the window only while the ring is empty. Nothing is lost while
 * there is memory; after that reads say -FI_EOVERRUN. Success and error records share
 * the queue, so that an error is reported in its place. All calls run under the domain
 * lock, except counter reads.
 */
#ifndef TAGRV_OBJECT_COMP_H
#define TAGRV_OBJECT_COMP_H

#include <assert.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/compiler.h"
#include "core/limits.h"

struct tagrv_comp {
	void	*context;
	uint64_t flags;		/* FI_SEND|FI_TAGGED and the like */
	size_t	len;
	void	*buf;
	uint64_t data;
	uint64_t tag;
	union {
		fi_addr_t src;	/* receives: FI_ADDR_NOTAVAIL when unknown */
		/* With TAGRV_ERR_UNKNOWN_SOURCE: owned, NULL when memory is out. */
		struct tagrv_addr *unknown_source;
	};
	uint64_t olen : 44;	/* errors: bytes that did not fit */
	uint64_t err : 20;	/* 0, FI_E*, or TAGRV_ERR_UNKNOWN_SOURCE */
};

static_assert(sizeof(struct tagrv_comp) == TAGRV_CACHE_LINE,
	      "a record is written and read with one line of memory");
static_assert(TAGRV_MAX_MSG < (uint64_t) 1 << 44, "olen holds any length");

/*
 * Stands for FI_EADDRNOTAVAIL in a record with the address of the sender, which the
 * address table does not have. No FI_E* code has this value.
 */
#define TAGRV_ERR_UNKNOWN_SOURCE	((1 << 20) - 1)

/* A copy of the address for a record with TAGRV_ERR_UNKNOWN_SOURCE. */
void tagrv_comp_set_unknown_source(struct tagrv_comp *comp,
				   const struct tagrv_addr *addr) TAGRV_COLD;

/*
 * Wakes sleepers. A thread that is about to sleep sets 'armed' under the domain
 * lock; signal() then writes the eventfd once. fd is -1 for objects on which no
 * thread can wait.
 *
 * Several threads may sleep on one object, each with a condition of its own. A
 * thread whose condition is not met must not empty the eventfd before the others
 * have seen it.
 */
struct tagrv_waker {
	int	fd;
	bool	armed;
	unsigned int sleepers;	/* threads that sleep */
	unsigned int owed;	/* of those: signaled, and not awake yet */
};

int tagrv_waker_init(struct tagrv_waker *waker, bool can_wait) TAGRV_WARN_UNUSED;
void tagrv_waker_fini(struct tagrv_waker *waker);
void tagrv_waker_signal(struct tagrv_waker *waker);
/* Empties the eventfd and disarms. */
void tagrv_waker_clear(struct tagrv_waker *waker);

struct tagrv_compq_chunk;

/* Where successes go while a read is under way. */
struct tagrv_compq_window {
	char	*at;		/* the next entry */
	size_t	left;		/* entries; 0: closed */
	size_t	unused;		/* what was left when a record was queued */
	size_t	entry_size;	/* bytes; constant */
	fi_addr_t *src;		/* the next source, or NULL: not asked for */
};

struct tagrv_compq {
	struct tagrv_compq_window window;
	struct tagrv_comp *ring;
	size_t	mask;		/* slots - 1 */
	size_t	head, tail;	/* free-running: tail - head records in ring */
	struct tagrv_compq_chunk *over_first, *over_last;
	size_t	over_cnt, over_peak;
	bool	overrun;	/* memory ran out: reads say -FI_EOVERRUN */
	struct tagrv_comp lost;	/* written to when there is no memory */
	struct tagrv_waker waker;
};

/* size: records, at least 1; rounded up to a power of two. */
int tagrv_compq_init(struct tagrv_compq *q, size_t size, bool can_wait)
	TAGRV_WARN_UNUSED;
void tagrv_compq_fini(struct tagrv_compq *q);

/* As tagrv_compq_add(), when the ring is full. */
struct tagrv_comp *tagrv_compq_add_over(struct tagrv_compq *q) TAGRV_COLD;

/*
 * Appends a record, every member of which the caller sets before any other call. So
 * a record is written where it will be read, and not copied.
 */
static inline struct tagrv_comp *tagrv_compq_add(struct tagrv_compq *q)
{
	if (TAGRV_UNLIKELY(q->window.left)) {
		q->window.unused = q->window.left;
		q->window.left = 0;
	}
	if (TAGRV_UNLIKELY(q->waker.armed))
		tagrv_waker_signal(&q->waker);
	if (TAGRV_UNLIKELY(q->over_cnt || q->tail - q->head > q->mask))
		return tagrv_compq_add_over(q);
	return &q->ring[q->tail++ & q->mask];
}

/* Opens a window on 'count' entries at buf, of an empty queue. */
static inline void tagrv_compq_open_window(struct tagrv_compq *q, void *buf,
					   size_t count, fi_addr_t *src)
{
	q->window.at = buf;
	q->window.left = count;
	q->window.unused = 0;
	q->window.src = src;
}

/* Closes it; returns the number of entries that were written, of 'count'. */
static inline size_t tagrv_compq_close_window(struct tagrv_compq *q, size_t count)
{
	size_t unused = q->window.left + q->window.unused;

	q->window.left = 0;
	return count - unused;
}

/* Writes a success, whose members are those of *comp, into the window. */
static inline void tagrv_compq_write(struct tagrv_compq_window *window,
				     const struct tagrv_comp *comp)
{
	struct fi_cq_tagged_entry *entry = (void *) window->at;
	size_t size = window->entry_size;

	entry->op_context = comp->context;
	if (TAGRV_LIKELY(size != sizeof(struct fi_cq_entry))) {
		entry->flags = comp->flags;
		entry->len = comp->len;
		if (TAGRV_LIKELY(size != sizeof(struct fi_cq_msg_entry))) {
			entry->buf = comp->buf;
			entry->data = comp->data;
			if (TAGRV_LIKELY(size != sizeof(struct fi_cq_data_entry)))
				entry->tag = comp->tag;
		}
	}
	if (TAGRV_UNLIKELY(window->src != NULL))
		*window->src++ = comp->src;
	window->at += size;
	window->left--;
}

/*
 * Reports a success: into the window, or to the queue. Inlined, so that *comp is
 * never in memory.
 */
static inline __attribute__((always_inline)) void
tagrv_compq_report(struct tagrv_compq *q, const struct tagrv_comp *comp)
{
	if (TAGRV_LIKELY(q->window.left))
		tagrv_compq_write(&q->window, comp);
	else
		*tagrv_compq_add(q) = *comp;
}

static inline void tagrv_compq_push(struct tagrv_compq *q,
				    const struct tagrv_comp *comp)
{
	*tagrv_compq_add(q) = *comp;
}

/*
 * Oldest record or NULL; valid until the next push or pop. pop removes the oldest
 * ones; its caller owns the unknown_source of each from then on.
 */
const struct tagrv_comp *tagrv_compq_peek(struct tagrv_compq *q);
void tagrv_compq_pop(struct tagrv_compq *q, size_t cnt);

static inline bool tagrv_compq_empty(const struct tagrv_compq *q)
{
	return q->head == q->tail;
}

/*
 * Whether a thread that waits for 'cnt' records should read: so many are queued, or
 * as many as the ring has slots, or an error is among them, or the queue overran.
 */
bool tagrv_compq_has(const struct tagrv_compq *q, size_t cnt);

/* Values may be read from any thread without the lock. */
struct tagrv_counter {
	_Atomic uint64_t value;
	_Atomic uint64_t err;
	struct tagrv_waker waker;
};

int tagrv_counter_init(struct tagrv_counter *cntr, bool can_wait)
	TAGRV_WARN_UNUSED;
void tagrv_counter_fini(struct tagrv_counter *cntr);
void tagrv_counter_add(struct tagrv_counter *cntr, uint64_t value);
void tagrv_counter_add_err(struct tagrv_counter *cntr, uint64_t value);

#endif
