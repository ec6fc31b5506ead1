/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random messages and receives, with the least software that may use a list: it
 * posts each receive to the list, takes unexpected messages one after the other,
 * and tells their number with the next command. Whatever crosses whatever, no
 * message may overtake another.
 *
 *   receive posted --> kept message matches? --> done
 *                      else ADD (IN_LIST) --> a message takes it --> done
 *                                         --> DEL, because an unexpected one needs it --> done
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "tmsim/tmsim_pair.h"

#define COUNT		1500	/* messages, and receives */
#define SLOTS		TAGS	/* receives that are in the list at a time, each with a place in b's area */
#define SLOT_SIZE	4096u
#define TAG_MASK	3u
#define LONG		((uint32_t) SLOT_SIZE)
#define NONE		UINT32_MAX

_Static_assert(SLOTS == 32 && SLOTS * SLOT_SIZE <= AREA, "a bit and a place for each");

unsigned long random_seed = 1;

enum state { NOT_POSTED, IN_LIST, MATCHED, DELETING, DONE };

struct receive {
	uint64_t tag, mask;
	enum state state;
	uint32_t handle, slot, message;
};

struct run {
	struct pair *pair;
	struct receive recvs[COUNT];
	uint64_t tags[COUNT];		/* of the messages */
	uint32_t posted, sent, done;
	uint32_t kept[COUNT];		/* unexpected messages without a receive, oldest first */
	uint32_t kept_cnt;
	uint32_t held[RX_BUFS + 1];	/* unexpected ones that are not handled yet: receive buffers, in order */
	uint32_t held_cnt;
	uint32_t deleting;		/* the receive that the first of them waits for */
	uint32_t handled;		/* the number that is told */
	uint32_t ops;			/* commands without completion */
	uint32_t announced;		/* rendezvous */
	uint32_t slots;			/* bits of free places */
	uint64_t random;
	uint32_t burst;			/* messages that are to be sent before a pause */
	uint32_t early;			/* receives that are to be in the list after the pause */
	uint32_t matched;		/* by the list */
	struct timespec moved;
	bool	sync_due;
};

static uint32_t draw(struct run *run, uint32_t below)
{
	run->random = run->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t) (run->random >> 33) % below;
}

static bool wants(const struct receive *recv, uint64_t tag)
{
	return (tag & recv->mask) == recv->tag;
}

static uint8_t *place_of(struct run *run, uint32_t slot)
{
	return run->pair->b.area + slot * SLOT_SIZE;
}

static bool finish(struct run *run, struct receive *recv, uint32_t message)
{
	CHECK(message < run->sent && wants(recv, run->tags[message]));
	recv->state = DONE;
	recv->message = message;
	if (recv->slot != NONE)
		run->slots |= 1u << recv->slot;
	run->done++;
	return true;
}

/* ---- the sender ---- */

/* The number of the message is its payload; that of a rendezvous is where its memory begins. */
static bool send_one(struct run *run)
{
	uint32_t number = run->sent, link = 0;
	struct pair *pair = run->pair;

	CHECK(!pair->failed);
	run->tags[number] = draw(run, TAG_MASK + 1);
	run->sent++;
	if (draw(run, 4))
		return pair_send(pair, link, IBV_TMH_EAGER, run->tags[number], number, &number, sizeof(number));
	/* Its memory may be read until its FIN has come. */
	if (run->announced - pair->fins == AREA / LONG)
		CHECK(pair_fins(pair, run->announced));
	memcpy(pair->a.area + run->announced % (AREA / LONG) * LONG, &number, sizeof(number));
	CHECK(pair_send_rndv(pair, link, run->tags[number], run->announced % (AREA / LONG) * LONG, LONG));
	run->announced++;
	return true;
}

/* ---- receives ---- */

static bool take_kept(struct run *run, struct receive *recv, bool *took)
{
	uint32_t i, message;

	for (i = 0; i < run->kept_cnt && !wants(recv, run->tags[run->kept[i]]); i++)
		;
	*took = i < run->kept_cnt;
	if (!*took)
		return true;
	message = run->kept[i];
	memmove(&run->kept[i], &run->kept[i + 1], (--run->kept_cnt - i) * sizeof(run->kept[0]));
	return finish(run, recv, message);
}

/* Posts a receive unless one of its resources is missing, or messages that came before it are still to be handled. */
static bool post_one(struct run *run)
{
	struct receive *recv = &run->recvs[run->posted];
	bool took;

	if (!run->slots || run->ops == OPS || run->held_cnt)
		return true;
	recv->mask = draw(run, 3) ? TAG_MASK : 0;
	recv->tag = draw(run, TAG_MASK + 1) & recv->mask;
	recv->slot = recv->message = NONE;
	CHECK(take_kept(run, recv, &took));
	if (!took) {
		recv->slot = (uint32_t) __builtin_ctz(run->slots);
		/* The list may be full of entries whose completions are not read yet. */
		if (pair_add(run->pair, run->posted, recv->tag, recv->mask, recv->slot * SLOT_SIZE, LONG,
			     run->handled, &recv->handle))
			return true;
		run->slots &= run->slots - 1;
		recv->state = IN_LIST;
		run->sync_due = false;
		run->ops++;
	}
	run->posted++;
	return true;
}

/* ---- unexpected messages ---- */

static bool handle_first(struct run *run)
{
	uint32_t buf = run->held[0];

	memmove(run->held, run->held + 1, --run->held_cnt * sizeof(run->held[0]));
	run->handled++;
	run->sync_due = true;
	return pair_repost(run->pair, buf);
}

/* A rendezvous names no number, but its memory does. */
static uint32_t number_in(const struct run *run, const uint8_t *message)
{
	uint64_t va;
	uint32_t number;

	if (message[0] != IBV_TMH_RNDV) {
		memcpy(&number, message + sizeof(struct ibv_tmh), sizeof(number));
		return number;
	}
	memcpy(&va, message + sizeof(struct ibv_tmh), sizeof(va));
	va = be64toh(va);
	memcpy(&number, run->pair->a.area + (va - (uintptr_t) run->pair->a.area), sizeof(number));
	return number;
}

/* Software has the bytes of a message; of a rendezvous it would read them and send the FIN. */
static uint32_t take_message(struct run *run)
{
	const uint8_t *message = pair_buf(run->pair, run->held[0]);

	if (message[0] == IBV_TMH_RNDV)
		run->pair->fins++;
	return number_in(run, message);
}

/* The oldest receive that wants the first message is in the list, not active: it is deleted first. */
static bool handle_held(struct run *run)
{
	uint32_t i, number;

	while (run->held_cnt && run->deleting == NONE) {
		number = number_in(run, pair_buf(run->pair, run->held[0]));
		for (i = 0; i < run->posted; i++)
			if (run->recvs[i].state == IN_LIST && wants(&run->recvs[i], run->tags[number]))
				break;
		if (i == run->posted) {
			run->kept[run->kept_cnt++] = take_message(run);
			CHECK(handle_first(run));
			continue;
		}
		if (run->ops == OPS || pair_del(run->pair, i, run->recvs[i].handle))
			return true;
		run->recvs[i].state = DELETING;
		run->deleting = i;
		run->ops++;
	}
	return true;
}

/* ---- completions ---- */

static bool received(struct run *run, const struct got *got)
{
	struct receive *recv;
	uint32_t number;

	CHECK(!got->status);
	if (!(got->flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID))) {
		CHECK(run->held_cnt < RX_BUFS);
		run->held[run->held_cnt++] = (uint32_t) got->wr_id;
		return true;
	}
	CHECK(got->wr_id < run->posted);
	recv = &run->recvs[got->wr_id];
	if (got->flags & IBV_WC_TM_MATCH) {
		CHECK(recv->state == IN_LIST);
		recv->state = MATCHED;
	}
	if (!(got->flags & IBV_WC_TM_DATA_VALID))
		return true;
	CHECK(recv->state == MATCHED);
	run->matched++;
	memcpy(&number, place_of(run, recv->slot), sizeof(number));
	return finish(run, recv, number);
}

static bool deleted(struct run *run, const struct got *got)
{
	/* It was not active, and cannot become so before the message is handled. */
	CHECK(!got->status && got->wr_id - COMMAND == run->deleting);
	CHECK(finish(run, &run->recvs[run->deleting], take_message(run)));
	run->deleting = NONE;
	return handle_first(run);
}

static bool complete(struct run *run, const struct got *got)
{
	switch (got->opcode) {
	case IBV_WC_TM_RECV:
		return received(run, got);
	case IBV_WC_TM_DEL:
		run->ops--;
		return deleted(run, got);
	default:
		CHECK(got->opcode == IBV_WC_TM_ADD || got->opcode == IBV_WC_TM_SYNC);
		CHECK(!got->status);
		run->ops--;
		return true;
	}
}

/* ---- the run ---- */

static bool sync_if_due(struct run *run)
{
	if (!run->sync_due || run->held_cnt || run->ops == OPS)
		return true;
	CHECK(!pair_sync(run->pair, COUNT, run->handled));
	run->sync_due = false;
	run->ops++;
	return true;
}

static uint32_t in_list(const struct run *run)
{
	return SLOTS - (uint32_t) __builtin_popcount(run->slots);
}

/*
 * Messages come in bursts. Between them the list can be told all of their number: while they
 * come, it is hardly ever in step again, and takes no message any more.
 */
static bool is_calm(const struct run *run)
{
	return run->done + run->kept_cnt == run->sent && !run->ops && !run->sync_due &&
	       (run->posted == COUNT || in_list(run) >= run->early);
}

/* Where pair_send would wait for b, b could not go on. */
static bool may_send(const struct run *run)
{
	return run->sent < COUNT && (run->pair->sent % SEND_BUFS || !run->pair->sending);
}

/* Some receives come amid the messages. After the last message, all that are left come. */
static bool send_next(struct run *run)
{
	if (!may_send(run) || !draw(run, 4))
		return true;
	CHECK(send_one(run));
	if (run->sent == COUNT)
		run->burst = 1;
	if (!--run->burst)
		run->early = run->sent == COUNT ? SLOTS : draw(run, SLOTS);
	if (run->posted < COUNT && !draw(run, 4))
		CHECK(post_one(run));
	return true;
}

/* Receives that kept messages match do not count: there are as many more. */
static bool post_early(struct run *run)
{
	return run->posted == COUNT || in_list(run) >= run->early || post_one(run);
}

static bool go_on(struct run *run)
{
	struct got got;

	if (!run->burst && is_calm(run))
		run->burst = 16 + draw(run, 48);
	CHECK(run->burst ? send_next(run) : post_early(run));
	if (!draw(run, 4))
		CHECK(sync_if_due(run));
	if (!draw(run, 200))
		CHECK(pair_delays(run->pair, draw(run, 8), draw(run, 4), draw(run, 4)));
	pair_poll_a(run->pair);
	while (draw(run, 4) && pair_poll(run->pair, &got))
		CHECK(complete(run, &got));
	return handle_held(run);
}

/* Each message is with a receive or kept, and receives wait in vain, if any. */
static bool is_over(const struct run *run)
{
	return run->sent == COUNT && run->done + run->kept_cnt == COUNT && (run->posted == COUNT || !run->slots);
}

/* A receive that has none counts as one with a message that never came. */
static bool in_order(const struct run *run)
{
	uint32_t i, j;

	for (i = 0; i < run->posted; i++) {
		const struct receive *recv = &run->recvs[i];

		/* No earlier receive should have had its message, nor should it have had one that was kept. */
		for (j = 0; j < i && recv->state == DONE; j++)
			CHECK(run->recvs[j].message < recv->message ||
			      !wants(&run->recvs[j], run->tags[recv->message]));
		for (j = 0; j < run->kept_cnt; j++)
			CHECK(recv->message < run->kept[j] || !wants(recv, run->tags[run->kept[j]]));
	}
	return true;
}

/* Without many of each kind, the run shows little. */
static bool has_both(const struct run *run)
{
	CHECK(run->matched > COUNT / 10 && run->handled > COUNT / 10);
	return true;
}

static bool step(struct run *run)
{
	uint32_t before = run->done + run->handled + run->sent + run->posted;

	CHECK(go_on(run));
	if (before != run->done + run->handled + run->sent + run->posted)
		run->moved = pair_clock();
	CHECK(!pair_hangs(&run->moved));
	return true;
}

static bool random_traffic(struct pair *pair)
{
	struct run *run = calloc(1, sizeof(*run));
	bool ok = run;

	if (!run)
		return false;
	run->pair = pair;
	run->random = random_seed;
	run->slots = UINT32_MAX;
	run->deleting = NONE;
	run->moved = pair_clock();
	while (ok && !is_over(run))
		ok = step(run);
	printf("seed %lu: %u messages, %u unexpected, %u matched by the list\n", random_seed, run->sent, run->handled,
	       run->matched);
	ok = ok && in_order(run) && has_both(run);
	free(run);
	return ok;
}

const struct tmsim_case random_cases[] = {
	{ "random_traffic", random_traffic },
	{ NULL, NULL },
};
