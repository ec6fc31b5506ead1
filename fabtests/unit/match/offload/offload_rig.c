/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint with an adapter's list: see offload_rig.h.
 *
 * The payload of a message is its number, and so is app_ctx of its header. The wr_id of an
 * entry is its slot, that of an unexpected message its number.
 */
#include "unit/match/offload/offload_rig.h"

#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#define CANARY	0xc5
#define DEL	(1ull << 32)	/* in wr_id of commands, beside the slot */
#define SYNC	(1ull << 33)

void rig_fail(const struct rig *rig, const char *what)
{
	cr_assert_fail("%s: %s, step %llu; TAGRV_TEST_SEED=%llu", rig->name, what,
		       (unsigned long long) rig->step, (unsigned long long) rig->seed);
}

/* ---- commands ---- */

static bool refused(struct rig *rig)
{
	return rig->refuse && rig->refuse--;
}

static int list_post(struct rig *rig, struct tag_list_cmd *cmd)
{
	int ret = refused(rig) ? -ENOMEM : tag_list_post(rig->list, cmd);

	rig_check(rig, !ret || ret == -ENOMEM, "a bad command");
	return ret ? -FI_EAGAIN : 0;
}

static int list_add(void *arg, struct tagrv_offload_recv *recv,
		    const struct tagrv_offload_entry *entry)
{
	struct rig *rig = arg;
	struct tag_list_cmd cmd = {
		.code = TAG_LIST_ADD, .signaled = true, .sync = true, .wr_id = entry->slot,
		.recv_wr_id = entry->slot, .count = entry->count & UINT16_MAX, .tag = entry->tag,
		.mask = entry->mask, .buf = rig->buf[entry->slot],
		.len = sizeof(rig->buf[entry->slot]),
	};
	int ret;

	rig_check(rig, !rig->in_use[entry->slot], "a slot is used twice");
	rig_check(rig, recv->able, "an adapter cannot write there");
	memset(rig->buf[entry->slot], CANARY, sizeof(rig->buf[entry->slot]));
	ret = list_post(rig, &cmd);
	if (ret)
		return ret;
	rig->in_use[entry->slot] = true;
	rig->in_buf[entry->slot] = 0;
	rig->handle[entry->slot] = cmd.handle;
	return 0;
}

static bool was_read(const struct rig *rig, uint32_t slot)
{
	for (unsigned i = 0; i < rig->ahead_cnt; i++)
		if (rig->ahead[i].code == TAG_LIST_RECV && rig->ahead[i].wr_id == slot &&
		    rig->ahead[i].flags & (TAG_LIST_MATCH | TAG_LIST_DATA))
			return true;
	return false;
}

static int list_del(void *arg, uint32_t slot)
{
	struct rig *rig = arg;

	if (was_read(rig, slot))
		return -FI_EALREADY;
	return list_post(rig, &(struct tag_list_cmd) {
		.code = TAG_LIST_DEL, .signaled = true, .wr_id = slot | DEL,
		.handle = rig->handle[slot] });
}

static int list_sync(void *arg, uint32_t count)
{
	return list_post(arg, &(struct tag_list_cmd) {
		.code = TAG_LIST_SYNC, .signaled = true, .sync = true, .wr_id = SYNC,
		.count = count & UINT16_MAX });
}

/* Only the message that the entry matched may have been written there. */
static void list_gone(void *arg, uint32_t slot)
{
	struct rig *rig = arg;

	rig_check(rig, rig->in_use[slot], "an unused slot is gone");
	rig_check(rig, rig->in_buf[slot] || rig->buf[slot][0] == CANARY,
		  "the adapter wrote into an entry that it had lost");
	rig->in_use[slot] = false;
}

static const struct tagrv_offload_ops ops = { list_add, list_del, list_sync, list_gone };

/* ---- life ---- */

void rig_init(struct rig *rig, uint32_t max_tags, uint32_t max_ops, uint64_t recv_max,
	      uint64_t msg_max)
{
	memset(rig, 0, sizeof(*rig));
	rig->name = "rig";
	rig->recv_max = recv_max;
	rig->msg_max = msg_max;
	rig->recvs = calloc(recv_max, sizeof(*rig->recvs));
	rig->msgs = calloc(msg_max, sizeof(*rig->msgs));
	rig->waiting = calloc(msg_max, sizeof(*rig->waiting));
	rig->kept = calloc(msg_max, sizeof(*rig->kept));
	rig->list = tag_list_create(&(struct tag_list_config) {
		.max_tags = max_tags, .max_ops = max_ops, .mtu = RIG_MTU });
	rig_check(rig, rig->recvs && rig->msgs && rig->waiting && rig->kept && rig->list &&
		  max_tags <= RIG_TAGS && match_model_init(&rig->model, recv_max, msg_max) &&
		  !tagrv_match_create_seeded(0, 0, 1, &rig->match) &&
		  !tagrv_offload_create(max_tags, &ops, rig, &rig->off), "no memory");
}

void rig_fini(struct rig *rig)
{
	tagrv_offload_destroy(rig->off);
	tagrv_match_destroy(rig->match);
	match_model_fini(&rig->model);
	tag_list_destroy(rig->list);
	free(rig->kept);
	free(rig->waiting);
	free(rig->msgs);
	free(rig->recvs);
}

struct tagrv_offload_stats rig_stats(const struct rig *rig)
{
	struct tagrv_offload_stats stats;

	tagrv_offload_get_stats(rig->off, &stats);
	return stats;
}

/* ---- receives ---- */

static void got(struct rig *rig, struct rig_recv *recv, uint64_t msg)
{
	rig_check(rig, !rig->msgs[msg - 1].got_by, "a message is received twice");
	rig->msgs[msg - 1].got_by = recv->number;
	recv->msg = msg;
}

uint64_t rig_post(struct rig *rig, uint32_t peer, uint64_t tag, uint64_t ignore, bool able)
{
	struct rig_recv *recv = &rig->recvs[rig->recv_cnt];
	struct match_model_msg judge = { 0 };
	struct tagrv_match_recv *posted;
	struct tagrv_match_msg *msg;
	int ret;

	rig_check(rig, rig->recv_cnt < rig->recv_max, "too many receives");
	*recv = (struct rig_recv) {
		.off = { .source = peer ? &rig->source[peer] : NULL, .tag = tag,
			 .ignore = ignore, .able = able, .slot = TAGRV_OFFLOAD_NONE },
		.want = { .tag = tag, .ignore = ignore, .space = TAGRV_SPACE_TAGGED,
			  .peer = peer ? peer : TAGRV_MATCH_ANY },
		.number = ++rig->recv_cnt,
	};
	ret = tagrv_match_post(rig->match, &recv->want, &posted, &recv->id, &msg);
	rig_check(rig, ret >= 0 &&
		  ret == match_model_post(&rig->model, &recv->want, recv->number, &judge),
		  "post differs");
	if (ret) {
		rig_check(rig, (uintptr_t) msg->user == judge.number, "post takes another");
		got(rig, recv, judge.number);
		tagrv_match_release(rig->match, msg);
		recv->state = RIG_DONE;
		return recv->number;
	}
	posted->room[0] = recv->number;
	tagrv_offload_post(rig->off, &recv->off);
	return recv->number;
}

void rig_cancel(struct rig *rig, uint64_t number)
{
	struct rig_recv *recv = rig_recv(rig, number);
	struct tagrv_match_recv *posted;
	int ret;

	if (recv->state != RIG_POSTED)
		return;
	ret = tagrv_match_cancel(rig->match, recv->id, &posted);
	rig_check(rig, !ret && match_model_cancel(&rig->model, number), "not in the matcher");
	ret = tagrv_offload_cancel(rig->off, &recv->off);
	if (!ret) {
		recv->state = RIG_CANCELLED;
		return;
	}
	rig_check(rig, ret == -FI_EINPROGRESS && rig->limbo_cnt < RIG_TAGS, "cancel");
	recv->state = RIG_LIMBO;
	rig->limbo[rig->limbo_cnt++] = number;
}

/* ---- messages ---- */

static bool fits(const struct tagrv_match_want *want, const struct rig_msg *msg)
{
	return (want->peer == TAGRV_MATCH_ANY || want->peer == msg->peer) &&
	       !((want->tag ^ msg->tag) & ~want->ignore);
}

/* A message went to receive 'taken', or to none (0): it passed older ones in limbo. */
static void pass(struct rig *rig, uint64_t msg, uint64_t taken)
{
	for (unsigned i = 0; i < rig->limbo_cnt; i++) {
		struct rig_recv *recv = rig_recv(rig, rig->limbo[i]);

		if ((!taken || recv->number < taken) && fits(&recv->want, &rig->msgs[msg - 1]))
			recv->passed = true;
	}
}

/* The naive matcher gets the message. Returns the receive's number, or 0. */
static uint64_t judge(struct rig *rig, uint64_t msg)
{
	struct match_model_msg as = {
		.number = msg, .tag = rig->msgs[msg - 1].tag, .peer = rig->msgs[msg - 1].peer,
		.space = TAGRV_SPACE_TAGGED,
	};
	uint64_t number = 0;
	int ret = match_model_arrive(&rig->model, &as, &number);

	rig_check(rig, ret >= 0, "the model is full");
	rig_check(rig, !rig->msgs[msg - 1].handled, "a message came twice");
	rig->msgs[msg - 1].handled = true;
	return ret ? number : 0;
}

/* Software handles a message. */
static void arrive(struct rig *rig, uint64_t number, bool outside)
{
	struct rig_msg *as = &rig->msgs[number - 1];
	struct tagrv_match_recv *posted;
	struct tagrv_match_msg *msg;
	struct rig_recv *recv;
	uint64_t taken = judge(rig, number);
	int ret = tagrv_match_arrive(rig->match, as->peer, TAGRV_SPACE_TAGGED, as->tag, &posted,
				     &msg);

	rig_check(rig, ret == (taken != 0), "arrival differs");
	pass(rig, number, taken);
	if (!ret) {
		msg->user = (void *) (uintptr_t) number;
		return;
	}
	rig_check(rig, posted->room[0] == taken, "arrival finds another receive");
	recv = rig_recv(rig, taken);
	rig_check(rig, !outside || recv->off.slot == TAGRV_OFFLOAD_NONE,
		  "an outside message finds a receive that the adapter has");
	tagrv_offload_take(rig->off, &recv->off);
	recv->state = RIG_DONE;
	got(rig, recv, number);
}

static void put_be(uint8_t *at, uint64_t value, unsigned cnt)
{
	while (cnt--) {
		at[cnt] = (uint8_t) value;
		value >>= 8;
	}
}

static size_t build(struct rig *rig, uint8_t *bytes, uint64_t number, enum rig_kind kind)
{
	const struct rig_msg *msg = &rig->msgs[number - 1];
	uint64_t source = rig->number[msg->peer] | (number & TAGRV_OFFLOAD_LIFE);
	size_t len = kind == RIG_LONG ? RIG_MTU + 8 : 8;

	memset(bytes, 0, 64);
	bytes[0] = kind >= RIG_RNDV ? TAG_LIST_OP_RNDV : TAG_LIST_OP_EAGER;
	put_be(bytes + 4, number, 4);
	put_be(bytes + 8, msg->tag | source << TAGRV_OFFLOAD_TAG_BITS |
	       (number & 1 ? TAGRV_OFFLOAD_HAS_DATA : 0) |
	       (number & 2 ? TAGRV_OFFLOAD_HAS_HEADER : 0), 8);
	if (kind < RIG_RNDV) {
		memcpy(bytes + TAG_LIST_TMH, &number, sizeof(number));
		return TAG_LIST_TMH + len;
	}
	put_be(bytes + TAG_LIST_TMH + 12, kind == RIG_RNDV ? 48 : 100, 4);
	return TAG_LIST_TMH + TAG_LIST_RVH + 8;
}

uint64_t rig_send(struct rig *rig, uint32_t peer, uint64_t tag, enum rig_kind kind)
{
	uint64_t number = ++rig->msg_cnt;
	struct tag_list_read *read = &rig->reads[rig->read_cnt];
	uint8_t bytes[64];
	size_t len;

	rig_check(rig, number <= rig->msg_max, "too many messages");
	rig->msgs[number - 1] = (struct rig_msg) { .tag = tag, .peer = peer };
	if (rig->outside[peer]) {
		rig->waiting[rig->wait_first + rig->wait_cnt++] = number;
		return number;
	}
	rig_check(rig, rig->number[peer], "a peer without number sends");
	len = build(rig, bytes, number, kind);
	if (tag_list_arrive(rig->list, bytes, len, number, read) == TAG_LIST_READ) {
		memcpy(read->buf, &number, sizeof(number));
		rig->read_msg[rig->read_cnt++] = number;
	}
	return number;
}

void rig_read_done(struct rig *rig)
{
	if (!rig->read_cnt)
		return;
	tag_list_read_done(rig->list, rig->reads[0].handle, true);
	rig->read_cnt--;
	memmove(&rig->reads[0], &rig->reads[1], rig->read_cnt * sizeof(rig->reads[0]));
}

void rig_serve(struct rig *rig)
{
	while (rig->wait_cnt && tagrv_offload_settled(rig->off)) {
		rig->wait_cnt--;
		arrive(rig, rig->waiting[rig->wait_first++], true);
	}
}

/* ---- peers ---- */

void rig_enter(struct rig *rig, uint32_t peer)
{
	rig_check(rig, !(rig->outside[peer] && (rig->wait_cnt || rig->kept_cnt)) &&
		  tagrv_offload_settled(rig->off),
		  "messages on the old way, or entries with the old number");
	rig->number[peer] = (uint16_t) (peer * (TAGRV_OFFLOAD_LIFE + 1));
	if (rig->outside[peer]) {
		rig->outside[peer] = false;
		tagrv_offload_outside(rig->off, false);
	}
	if (!rig->source[peer].number)
		tagrv_offload_enter(rig->off, &rig->source[peer],
				    rig->number[peer] | (rig->msg_cnt & TAGRV_OFFLOAD_LIFE));
}

void rig_part(struct rig *rig, uint32_t peer)
{
	if (!rig->outside[peer] && rig->source[peer].number)
		tagrv_offload_leave(rig->off, &rig->source[peer]);
}

void rig_leave(struct rig *rig, uint32_t peer)
{
	if (rig->outside[peer])
		return;
	rig->outside[peer] = true;
	tagrv_offload_outside(rig->off, true);
	if (rig->source[peer].number)
		tagrv_offload_leave(rig->off, &rig->source[peer]);
}

/* ---- completions ---- */

static void leave_limbo(struct rig *rig, uint64_t number)
{
	for (unsigned i = 0; i < rig->limbo_cnt; i++) {
		if (rig->limbo[i] == number) {
			rig->limbo[i] = rig->limbo[--rig->limbo_cnt];
			return;
		}
	}
	rig_fail(rig, "not in limbo");
}

/* The receive's cancel came too late: no older one could have the message. */
static void judge_limbo(struct rig *rig, struct rig_recv *recv, uint64_t msg)
{
	rig_check(rig, !recv->passed, "a later message than one that passed the receive");
	rig_check(rig, !rig->msgs[msg - 1].handled, "a message came twice");
	rig->msgs[msg - 1].handled = true;
	for (size_t i = 0; i < rig->model.recv_cnt; i++)
		rig_check(rig, rig->model.recvs[i].number > recv->number ||
			  !fits(&rig->model.recvs[i].want, &rig->msgs[msg - 1]),
			  "an older receive matches");
	leave_limbo(rig, recv->number);
}

static void matched(struct rig *rig, const struct tag_list_record *rec)
{
	struct tagrv_offload_recv *off;
	struct tagrv_match_recv *posted;
	struct rig_recv *recv;
	uint64_t msg = rec->app_ctx;

	rig_check(rig, !tagrv_offload_consumed(rig->off, (uint32_t) rec->wr_id, &off),
		  "consumed is refused");
	recv = (struct rig_recv *) off;
	if (off->cancelled) {
		judge_limbo(rig, recv, msg);
	} else {
		rig_check(rig, judge(rig, msg) == recv->number, "the adapter's match differs");
		rig_check(rig, !tagrv_match_cancel(rig->match, recv->id, &posted),
			  "not in the matcher");
	}
	pass(rig, msg, recv->number);
	recv->state = RIG_MATCHED;
	got(rig, recv, msg);
	rig->in_buf[rec->wr_id] = msg;
}

static void complete(struct rig *rig, const struct tag_list_record *rec)
{
	uint32_t slot = (uint32_t) rec->wr_id;
	struct tagrv_offload_recv *off;
	struct rig_recv *recv;
	uint8_t first = rig->buf[slot][0];
	uint64_t in_buf;

	memcpy(&in_buf, rig->buf[slot], sizeof(in_buf));
	rig_check(rig, rec->status == TAG_LIST_INCOMPLETE ? first == TAG_LIST_OP_RNDV :
		  !rec->status && in_buf == rig->in_buf[slot], "wrong bytes");
	rig_check(rig, !tagrv_offload_data(rig->off, slot, &off), "data is refused");
	recv = (struct rig_recv *) off;
	rig_check(rig, recv->state == RIG_MATCHED && recv->msg == rig->in_buf[slot], "data");
	recv->state = RIG_DONE;
}

static void handle(struct rig *rig, uint64_t msg)
{
	arrive(rig, msg, false);
	tagrv_offload_unexpected(rig->off);
}

void rig_keep(struct rig *rig, uint32_t peer, bool keep)
{
	uint64_t left = 0;

	rig->keep[peer] = keep;
	for (uint64_t i = 0; i < rig->kept_cnt; i++) {
		uint64_t msg = rig->kept[i];

		if (!keep && rig->msgs[msg - 1].peer == peer)
			handle(rig, msg);
		else
			rig->kept[left++] = msg;
	}
	rig->kept_cnt = left;
}

static void received(struct rig *rig, const struct tag_list_record *rec)
{
	if (rec->flags & TAG_LIST_MATCH)
		matched(rig, rec);
	if (rec->flags & TAG_LIST_DATA)
		complete(rig, rec);
	if (rec->flags & (TAG_LIST_MATCH | TAG_LIST_DATA))
		return;
	tagrv_offload_seen(rig->off);
	if (rig->keep[rig->msgs[rec->wr_id - 1].peer])
		rig->kept[rig->kept_cnt++] = rec->wr_id;
	else
		handle(rig, rec->wr_id);
}

static void deleted(struct rig *rig, const struct tag_list_record *rec)
{
	struct tagrv_offload_recv *off;

	rig_check(rig, !tagrv_offload_deleted(rig->off, (uint32_t) rec->wr_id,
					      rec->status == TAG_LIST_OK, &off),
		  "deleted is refused");
	if (!off)
		return;
	leave_limbo(rig, ((struct rig_recv *) off)->number);
	((struct rig_recv *) off)->state = RIG_CANCELLED;
}

void rig_flush(struct rig *rig)
{
	rig_check(rig, !tagrv_offload_flush(rig->off), "flush");
}

void rig_read_ahead(struct rig *rig)
{
	while (rig->ahead_cnt < RIG_AHEAD &&
	       tag_list_poll(rig->list, &rig->ahead[rig->ahead_cnt]))
		rig->ahead_cnt++;
}

static bool next_completion(struct rig *rig, struct tag_list_record *rec)
{
	if (!rig->ahead_cnt)
		return tag_list_poll(rig->list, rec);
	*rec = rig->ahead[0];
	memmove(&rig->ahead[0], &rig->ahead[1], --rig->ahead_cnt * sizeof(*rec));
	return true;
}

static bool poll_one(struct rig *rig)
{
	struct tag_list_record rec;

	if (!next_completion(rig, &rec))
		return false;
	if (rec.code == TAG_LIST_ADD)
		rig_check(rig, !tagrv_offload_added(rig->off, (uint32_t) rec.wr_id,
						    rec.flags & TAG_LIST_SYNC_REQ),
			  "added is refused");
	else if (rec.code == TAG_LIST_DEL)
		deleted(rig, &rec);
	else if (rec.code == TAG_LIST_SYNC)
		rig_check(rig, !tagrv_offload_synced(rig->off), "synced is refused");
	else
		received(rig, &rec);
	return true;
}

bool rig_poll(struct rig *rig)
{
	bool some = poll_one(rig);

	rig_flush(rig);
	return some;
}

void rig_poll_all(struct rig *rig)
{
	while (poll_one(rig))
		;
	rig_flush(rig);
}

/* ---- checks ---- */

static bool is_soft(struct rig *rig, const struct rig_recv *recv)
{
	return recv->state == RIG_POSTED && !rig_is_listed(rig, recv->number);
}

static bool overlap(const struct rig_recv *a, const struct rig_recv *b)
{
	return (a->want.peer == b->want.peer || !a->off.source || !b->off.source) &&
	       !((a->want.tag ^ b->want.tag) & ~a->want.ignore & ~b->want.ignore);
}

static bool some_outside(const struct rig *rig)
{
	for (unsigned peer = 1; peer <= RIG_PEERS; peer++)
		if (rig->outside[peer])
			return true;
	return false;
}

void rig_check_rule(struct rig *rig)
{
	for (size_t i = 0; i < rig->model.recv_cnt; i++) {
		struct rig_recv *soft = rig_recv(rig, rig->model.recvs[i].number);

		if (!is_soft(rig, soft))
			continue;
		for (size_t k = i + 1; k < rig->model.recv_cnt; k++) {
			struct rig_recv *recv = rig_recv(rig, rig->model.recvs[k].number);

			rig_check(rig, is_soft(rig, recv) || !overlap(soft, recv),
				  "a receive is listed before an older one");
		}
	}
	for (size_t i = 0; i < rig->model.recv_cnt; i++) {
		struct rig_recv *recv = rig_recv(rig, rig->model.recvs[i].number);

		rig_check(rig, is_soft(rig, recv) ||
			  (recv->off.source ? recv->off.source->number : !some_outside(rig)),
			  "a receive is listed that others could match");
	}
}

/* With room in the list, no receive is in software that may be in the list. */
static void check_promoted(struct rig *rig)
{
	bool any = some_outside(rig), blocked[RIG_PEERS + 1] = { false };

	if (!rig->off->live || tagrv_list_empty(&rig->off->free))
		return;
	for (size_t i = 0; i < rig->model.recv_cnt; i++) {
		struct rig_recv *recv = rig_recv(rig, rig->model.recvs[i].number);
		uint32_t peer = recv->off.source ? recv->want.peer : 0;

		if (!is_soft(rig, recv))
			continue;
		if (recv->off.able && (peer ? recv->off.source->number && !blocked[peer] : !any))
			rig_fail(rig, "a receive stays in software without a reason");
		any = true;
		if (!peer)
			return;
		blocked[peer] = true;
	}
}

void rig_settle(struct rig *rig)
{
	unsigned pass = 0;

	rig->refuse = 0;
	for (uint32_t peer = 1; peer <= RIG_PEERS; peer++)
		rig_keep(rig, peer, false);
	tag_list_set_delays(rig->list, &(struct tag_list_delays) { 0 });
	/* Commands that were posted with a longer delay come to their end, too. */
	for (unsigned idle = 0; idle < 40; idle++) {
		rig_check(rig, pass++ < 10000, "no end of commands");
		while (tag_list_apply(rig->list))
			idle = 0;
		tag_list_tick(rig->list);
		rig_read_done(rig);
		if (tag_list_ready(rig->list))
			idle = 0;
		rig_poll_all(rig);
		rig_serve(rig);
	}
	rig_check(rig, !rig->read_cnt && !rig->limbo_cnt && !rig->wait_cnt &&
		  tagrv_offload_settled(rig->off), "something does not end");
	rig_check(rig, tag_list_active(rig->list) == tagrv_offload_listed(rig->off) &&
		  !tag_list_inactive(rig->list) &&
		  tag_list_used(rig->list) == tagrv_offload_listed(rig->off),
		  "entries of the adapter are not those that are known");
	rig_check(rig, tagrv_offload_listed(rig->off) + tagrv_offload_soft(rig->off) ==
		  rig->model.recv_cnt, "receives are not counted");
	rig_check_rule(rig);
	check_promoted(rig);
}
