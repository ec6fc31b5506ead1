/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues and counters: see comp.h.
 *
 * The overflow is a chain of chunks, filled at over_last, emptied at over_first.
 * It is touched only when the application falls behind by more than the size it
 * asked for, so it trades copies for a ring that stays as small as asked.
 */
#include "object/comp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/log.h"

#define CHUNK_RECORDS	128
#define RING_MAX	((size_t) 1 << 24)

struct tagrv_compq_chunk {
	struct tagrv_compq_chunk *next;
	size_t	head, tail;		/* records[head .. tail) are queued */
	struct tagrv_comp records[CHUNK_RECORDS];
};

int tagrv_waker_init(struct tagrv_waker *waker, bool can_wait)
{
	*waker = (struct tagrv_waker) { .fd = -1 };
	if (!can_wait)
		return 0;
	waker->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return waker->fd < 0 ? -errno : 0;
}

void tagrv_waker_fini(struct tagrv_waker *waker)
{
	if (waker->fd >= 0)
		close(waker->fd);
	waker->fd = -1;
}

void tagrv_waker_signal(struct tagrv_waker *waker)
{
	const uint64_t one = 1;

	if (!waker->armed)
		return;
	waker->armed = false;
	waker->owed = waker->sleepers;
	/* Fails only when the descriptor is readable already. */
	if (waker->fd >= 0 && write(waker->fd, &one, sizeof(one)) < 0)
		return;
}

void tagrv_waker_clear(struct tagrv_waker *waker)
{
	uint64_t value;

	waker->armed = false;
	/* Fails only when there is nothing to clear. */
	if (waker->fd >= 0 && read(waker->fd, &value, sizeof(value)) < 0)
		return;
}

int tagrv_compq_init(struct tagrv_compq *q, size_t size, bool can_wait)
{
	size_t slots = 1;
	int ret;

	if (!size || size > RING_MAX)
		return -FI_EINVAL;
	while (slots < size)
		slots *= 2;
	*q = (struct tagrv_compq) { .mask = slots - 1, .waker.fd = -1 };
	q->ring = aligned_alloc(TAGRV_CACHE_LINE, slots * sizeof(*q->ring));
	if (!q->ring)
		return -FI_ENOMEM;
	ret = tagrv_waker_init(&q->waker, can_wait);
	if (ret) {
		free(q->ring);
		q->ring = NULL;
	}
	return ret;
}

void tagrv_comp_set_unknown_source(struct tagrv_comp *comp,
				   const struct tagrv_addr *addr)
{
	comp->unknown_source = malloc(sizeof(*addr));
	if (comp->unknown_source)
		*comp->unknown_source = *addr;
}

/* What was never read. */
static void free_unknown_sources(struct tagrv_compq *q)
{
	const struct tagrv_comp *comp;

	while ((comp = tagrv_compq_peek(q))) {
		if (comp->err == TAGRV_ERR_UNKNOWN_SOURCE)
			free(comp->unknown_source);
		tagrv_compq_pop(q, 1);
	}
}

void tagrv_compq_fini(struct tagrv_compq *q)
{
	struct tagrv_compq_chunk *chunk;

	free_unknown_sources(q);
	while ((chunk = q->over_first)) {
		q->over_first = chunk->next;
		free(chunk);
	}
	q->over_last = NULL;
	q->over_cnt = 0;
	free(q->ring);
	q->ring = NULL;
	tagrv_waker_fini(&q->waker);
}

/* The chunk the next overflow record goes to, or NULL when memory is out. */
static struct tagrv_compq_chunk *over_tail(struct tagrv_compq *q)
{
	struct tagrv_compq_chunk *chunk = q->over_last;

	if (chunk && chunk->tail < CHUNK_RECORDS)
		return chunk;
	chunk = malloc(sizeof(*chunk));
	if (!chunk)
		return NULL;
	chunk->next = NULL;
	chunk->head = chunk->tail = 0;
	if (q->over_last)
		q->over_last->next = chunk;
	else
		q->over_first = chunk;
	q->over_last = chunk;
	return chunk;
}

struct tagrv_comp *tagrv_compq_add_over(struct tagrv_compq *q)
{
	struct tagrv_compq_chunk *chunk = over_tail(q);

	if (!chunk) {
		if (!q->overrun)
			tagrv_warn("out of memory: a completion was lost, its "
				   "queue is overrun\n");
		q->overrun = true;
		return &q->lost;
	}
	q->over_cnt++;
	q->over_peak = TAGRV_MAX(q->over_peak, q->over_cnt);
	return &chunk->records[chunk->tail++];
}

static void over_pop_chunk(struct tagrv_compq *q)
{
	struct tagrv_compq_chunk *chunk = q->over_first;

	q->over_first = chunk->next;
	if (!q->over_first)
		q->over_last = NULL;
	free(chunk);
}

/* Fills the empty ring with the oldest records of the overflow. */
static TAGRV_COLD void refill(struct tagrv_compq *q)
{
	while (q->over_cnt && q->tail - q->head <= q->mask) {
		struct tagrv_compq_chunk *chunk = q->over_first;

		q->ring[q->tail++ & q->mask] = chunk->records[chunk->head++];
		q->over_cnt--;
		if (chunk->head == chunk->tail)
			over_pop_chunk(q);
	}
}

const struct tagrv_comp *tagrv_compq_peek(struct tagrv_compq *q)
{
	return q->head == q->tail ? NULL : &q->ring[q->head & q->mask];
}

void tagrv_compq_pop(struct tagrv_compq *q, size_t cnt)
{
	assert(q->tail - q->head >= cnt);
	q->head += cnt;
	/* The ring is empty only if the overflow is. */
	if (TAGRV_UNLIKELY(q->over_cnt && q->head == q->tail))
		refill(q);
}

bool tagrv_compq_has(const struct tagrv_compq *q, size_t cnt)
{
	if (q->over_cnt || q->overrun || q->tail - q->head >= cnt)
		return true;
	for (size_t i = q->head; i != q->tail; i++)
		if (q->ring[i & q->mask].err)
			return true;
	return false;
}

int tagrv_counter_init(struct tagrv_counter *cntr, bool can_wait)
{
	atomic_init(&cntr->value, 0);
	atomic_init(&cntr->err, 0);
	return tagrv_waker_init(&cntr->waker, can_wait);
}

void tagrv_counter_fini(struct tagrv_counter *cntr)
{
	tagrv_waker_fini(&cntr->waker);
}

void tagrv_counter_add(struct tagrv_counter *cntr, uint64_t value)
{
	atomic_fetch_add_explicit(&cntr->value, value, memory_order_release);
	if (TAGRV_UNLIKELY(cntr->waker.armed))
		tagrv_waker_signal(&cntr->waker);
}

void tagrv_counter_add_err(struct tagrv_counter *cntr, uint64_t value)
{
	atomic_fetch_add_explicit(&cntr->err, value, memory_order_release);
	if (TAGRV_UNLIKELY(cntr->waker.armed))
		tagrv_waker_signal(&cntr->waker);
}
