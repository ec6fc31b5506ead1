/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a process can do to memory and descriptors that it shares with another one.
 */
#include "framework/pattern.h"
#include "liar.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef _Atomic uint64_t word_t;
typedef _Atomic uint32_t half_t;

void lie_count(enum lie lie)
{
	atomic_fetch_add(&scene->lies[lie], 1);
	atomic_fetch_add(&scene->told, 1);
}

/* A value that a check may miss: beside the old one, at an end of the range, or any. */
static uint64_t other_value(uint64_t old, uint64_t *random)
{
	uint64_t r = pattern_next(random);

	switch (r % 8) {
	case 0: return 0;
	case 1: return ~UINT64_C(0);
	case 2: return old + 1 + (r >> 8) % 300;
	case 3: return old - 1 - (r >> 8) % 300;
	case 4: return old ^ UINT64_C(1) << (r >> 8) % 64;
	case 5: return r >> 8 & 0xffff;
	case 6: return UINT64_C(1) << (r >> 8) % 64;
	default: return pattern_next(random);
	}
}

static void change(word_t *word, uint64_t *random)
{
	atomic_store(word, other_value(atomic_load(word), random));
}

static void change_half(half_t *half, uint64_t *random)
{
	atomic_store(half, (uint32_t)other_value(atomic_load(half), random));
}

static char *slot_of(const struct catch *c, uint64_t nr)
{
	return (char *)(c->ring + 1) + nr % c->slots * SHM_STRIDE;
}

/* ---- rings ---- */

static void any_word(const struct catch *c, uint64_t *random)
{
	change((word_t *)c->ring + pattern_next(random) % (c->size / sizeof(word_t)), random);
}

static void any_head(const struct catch *c, uint64_t *random)
{
	uint64_t r = pattern_next(random), len = r >> 16 & (r & 1 << 8 ? 0x3f : 0x7fff);
	word_t *slot = (word_t *)(void *)slot_of(c, r >> 40);

	if (r & 1 << 9)
		len = other_value(len, random) & UINT32_MAX;
	for (unsigned i = 1; r & 1 << 10 && i < SHM_LINE / sizeof(word_t); i++)
		change(&slot[i], random);
	/* The other lap, so that it seems to be a new entry, or the same one. */
	atomic_store(slot, len << 32 | (r >> 48) << 16 | SHM_MARK << 8 | (r >> 12 & 15) << 1 |
			   ((atomic_load(slot) ^ (r >> 11)) & 1));
}

static void any_counter(const struct catch *c, uint64_t *random)
{
	struct shm_header *h = c->ring;
	uint64_t r = pattern_next(random);

	switch (r % 6) {
	case 0: change(&h->cons.head, random); break;
	case 1: change(&h->cons.arena, random); break;
	case 2: change_half(&h->cons.state, random); break;
	case 3: change_half(&h->prod.starved, random); break;
	case 4: change(&h->helps[r >> 8 & 1].claim, random); break;
	default: change(&h->helps[r >> 8 & 1].ack, random);
	}
}

static void any_constant(const struct catch *c, uint64_t *random)
{
	change((word_t *)(void *)&c->ring->constants + pattern_next(random) % 8, random);
}

static void replay(const struct catch *c, uint64_t *random)
{
	word_t *from = (word_t *)(void *)slot_of(c, pattern_next(random));
	word_t *to = (word_t *)(void *)slot_of(c, pattern_next(random));

	for (unsigned i = SHM_LINE / sizeof(*to); i-- > 1;)
		atomic_store(&to[i], atomic_load(&from[i]));
	atomic_store(to, atomic_load(from) ^ (pattern_next(random) & 1));
}

/* The words of an entry, and what is behind it, change while somebody may read them. */
static void flicker(const struct catch *c, uint64_t *random)
{
	word_t *slot = (word_t *)(void *)slot_of(c, pattern_next(random));
	unsigned at = pattern_next(random) % (SHM_LINE / sizeof(*slot));
	uint64_t old = atomic_load(&slot[at]), other = other_value(old, random);

	for (int i = 0; i < 300; i++)
		atomic_store(&slot[at], i & 1 ? old : other);
}

/* ---- bells ---- */

/*
 * Bits are set, not cleared, and 'armed' is another number: whoever clears them lets the
 * owner sleep although others have rung (docs/shm.md, "What a peer can do").
 */
static void any_bell(const struct catch *c, uint64_t *random)
{
	uint64_t r = pattern_next(random);

	switch (r % 3) {
	case 0: atomic_fetch_or(&c->bell->summary, other_value(0, random)); break;
	case 1: atomic_fetch_or(&c->bell->bits[(r >> 8) % SHM_BELL_WORDS], other_value(0, random)); break;
	default: atomic_store(&c->bell->armed, 1 + (uint32_t)(r >> 32) / 2);
	}
	if (r & 1 << 20)
		atomic_fetch_or(&c->bell->summary, ~UINT64_C(0));
}

/* ---- descriptors ---- */

static void truncate_files(const struct catch *c, uint64_t *random)
{
	uint64_t r = pattern_next(random);
	int fd = c->fds[r & 1];

	/* Only what is sealed may be handed over. */
	if (!ftruncate(fd, (off_t)((r >> 8) % 4096)) ||
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE))
		atomic_store(&scene->truncated, true);
}

/* Of its own and of the honest one's: both have them open. */
static void spoil_wake(const struct catch *c, uint64_t *random)
{
	uint64_t r = pattern_next(random), most = UINT64_MAX - 1;
	int fd = c->fds[2], flags = fcntl(fd, F_GETFL);
	char some[64] = "";

	(void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	if (r & 1) {
		/* An eventfd: empty, so that reading it blocks; full, so that writing does. */
		eventfd_t value;

		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
		(void)eventfd_read(fd, &value);
		if (r & 2 && write(fd, &most, sizeof(most)) < 0)
			r |= 4;
		(void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	}
	while (r & 8 && send(fd, some, sizeof(some), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	if ((r >> 8) % 64 == 0)
		(void)shutdown(fd, (int)(r >> 16) % 3);
}

void lie_tell(enum lie lie, const struct catch *c, uint64_t *random)
{
	switch (lie) {
	case LIE_WORD: any_word(c, random); break;
	case LIE_HEAD: any_head(c, random); break;
	case LIE_COUNTER: any_counter(c, random); break;
	case LIE_BELL: any_bell(c, random); break;
	case LIE_CONSTANT: any_constant(c, random); break;
	case LIE_REPLAY: replay(c, random); break;
	case LIE_BODY: flicker(c, random); break;
	case LIE_TRUNCATE: truncate_files(c, random); break;
	case LIE_WAKE: spoil_wake(c, random); break;
	case LIE_FORGE: forge_send(c, random); break;
	default: hook_lie(lie); return;		/* counted when the handover is made */
	}
	lie_count(lie);
	/* The owner of the bell looks at all its rings. */
	atomic_fetch_or(&c->bell->summary, 1);
	atomic_fetch_or(&c->bell->bits[0], ~UINT64_C(0));
}
