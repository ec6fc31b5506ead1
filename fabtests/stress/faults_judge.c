/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the records of tagrv_faults say.
 *
 *   lost         its sender was told success, and nobody has received it. In a session in
 *                which everything had to survive: any message. In another: one whose
 *                completion promised delivery, to a side that lives
 *   out of order of two messages of a class in turn, the later got the earlier receive
 *   failed       its sender was told an error: unduly in a session that had to survive
 */
#include "faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const int fault_codes[CODES] = {
	FI_ECONNRESET, FI_ECONNREFUSED, FI_EHOSTUNREACH, FI_ETIMEDOUT, FI_EACCES, FI_ENETDOWN,
};

void session_begin(uint32_t number)
{
	struct session *s = session_at(number);

	atomic_store(&s->number, 0);
	memset(s, 0, sizeof(*s));
	s->dead = -1;
	s->bound = SURVIVED;
	atomic_store(&s->number, number);
}

bool session_complete(const struct session *s)
{
	for (int side = 0; side < SIDES; side++)
		for (int class = 0; class < CLASSES; class++) {
			const struct stream *m = &s->stream[side][class];

			if (atomic_load(&m->received) < atomic_load(&m->sent))
				return false;
		}
	return true;
}

static void say(const struct session *s, int side, int class, uint32_t number, const char *what)
{
	printf("session %u: message %u of class %d from side %d %s\n", s->number, number, class, side,
	       what);
}

/* The receiver's numbers grow with the messages, as far as both were received. */
static bool is_disordered(const struct stream *m, uint32_t i)
{
	uint32_t before = i ? atomic_load(&m->got[i - 1]) : 0, at = atomic_load(&m->got[i]);

	return before && at && at <= before;
}

static bool is_lost(const struct session *s, int side, const struct stream *m, uint32_t i)
{
	uint8_t state = atomic_load(&m->state[i]);

	if (atomic_load(&m->got[i]) || s->dead == !side)
		return false;
	return state == SENT_DELIVERED || (s->bound == SURVIVED && state == SENT_OK);
}

static void judge_stream(const struct session *s, int side, int class, struct verdict *v)
{
	const struct stream *m = &s->stream[side][class];
	uint32_t sent = atomic_load(&m->sent);

	for (uint32_t i = 0; i < sent; i++) {
		v->checked += atomic_load(&m->got[i]) != 0;
		if (is_lost(s, side, m, i)) {
			v->lost++;
			say(s, side, class, i, "is lost");
		}
		if (is_disordered(m, i)) {
			v->disordered++;
			say(s, side, class, i, "is out of order");
		}
		if (atomic_load(&m->state[i]) != SENT_FAILED)
			continue;
		v->failed++;
		if (s->bound == SURVIVED) {
			v->failed_unduly++;
			say(s, side, class, i, "has failed");
		}
	}
}

void session_judge(const struct session *s, struct verdict *v)
{
	if (!atomic_load(&s->number))
		return;
	v->sessions[s->bound]++;
	for (int side = 0; side < SIDES; side++)
		for (int class = 0; class < CLASSES; class++)
			judge_stream(s, side, class, v);
}

static void report_codes(const char *what, size_t offset)
{
	for (int i = 0; i <= CODES; i++) {
		uint64_t n = 0;

		for (int side = 0; side < SIDES; side++)
			n += atomic_load((const _Atomic uint64_t *)
					 ((const char *)&board->side[side] + offset) + i);
		if (n)
			printf("%10" PRIu64 " %s ended with %s\n", n, what,
			       i == CODES ? "a code that is not documented" :
					    fi_strerror(fault_codes[i]));
	}
}

bool verdict_report(struct verdict *v)
{
	uint64_t undocumented = 0;

	for (int i = 0; i < SIDES; i++) {
		const struct side *side = &board->side[i];

		v->doubled += atomic_load(&side->doubled) + atomic_load(&side->stale);
		v->wrong += atomic_load(&side->wrong);
		undocumented += atomic_load(&side->failed_out[CODES]) +
				atomic_load(&side->failed_in[CODES]);
	}
	printf("sessions: %" PRIu64 " survived, %" PRIu64 " broken, %" PRIu64 " with a new peer\n",
	       v->sessions[SURVIVED], v->sessions[BROKEN], v->sessions[RESTARTED]);
	report_codes("sends", offsetof(struct side, failed_out));
	report_codes("receives", offsetof(struct side, failed_in));
	printf("%" PRIu64 " messages checked: lost %" PRIu64 ", doubled %" PRIu64
	       ", out of order %" PRIu64 ", wrong %" PRIu64 "; failed %" PRIu64 ", of these unduly %"
	       PRIu64 "\n", v->checked, v->lost, v->doubled, v->disordered, v->wrong, v->failed,
	       v->failed_unduly);
	return !v->lost && !v->doubled && !v->disordered && !v->wrong && !v->failed_unduly &&
	       !undocumented;
}
