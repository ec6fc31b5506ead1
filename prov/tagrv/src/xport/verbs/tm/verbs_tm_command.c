/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The commands of a list of posted receives: add, del, sync.
 *
 * Each asks for a completion. Only that gives back a command's place in the device, and with
 * mlx5 an entry's handle is free when each completion that concerns it was polled: so it is
 * here, too, and no DEL is posted once the completion of a message was read. ADD and SYNC tell
 * the count of handled unexpected messages, an ADD of it most of all: the library of mlx5 notes
 * the count of an ADD only, and goes by it when it asks for a sync. A DEL tells none: entries
 * behind the one to be deleted would become active first.
 */
#include "xport/verbs/tm/verbs_tm.h"

#include <errno.h>
#include <rdma/fi_errno.h>

#include "core/log.h"

static uint64_t wr_id_of(enum verbs_tm_kind kind, const struct verbs_tm *tm, uint32_t slot)
{
	uint64_t turn = tm->slots[slot].turn & VERBS_TM_TURN_MASK;

	return (uint64_t) kind << VERBS_TM_KIND_SHIFT | turn << 32 | slot;
}

/*
 * Posts a command. The device has room for it, as far as we know; if it says that it has
 * not, something must be under way whose end makes room.
 */
static int post(struct verbs_tm *tm, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int err;

	wr->flags |= IBV_OPS_SIGNALED;
	err = tm->calls->post_srq_ops(tm->rxq->srq, wr, &bad);
	if (!err) {
		tm->ops++;
		return 0;
	}
	if (err == ENOMEM && tm->ops) {
		tm->starved = true;
		return -FI_EAGAIN;
	}
	tagrv_info("verbs: %s: the list of receives refuses a command: error %d\n",
		   tm->dev->base.name, err);
	tagrv_verbs_tm_fail(tm, -err);
	return -err;
}

/*
 * The device takes 16 bits. mlx5's library compares all that it is told with the device's 16, and
 * asks for a sync by each ADD if there are more.
 */
static int post_count(struct verbs_tm *tm, struct ibv_ops_wr *wr, uint32_t count)
{
	wr->flags = IBV_OPS_TM_SYNC;
	wr->tm.unexpected_cnt = count & UINT16_MAX;
	return post(tm, wr);
}

static int check_room(struct verbs_tm *tm, bool has_slot)
{
	if (tm->fatal)
		return tm->fatal;
	if (tm->ops < tm->max_ops && has_slot)
		return 0;
	tm->starved = true;
	return -FI_EAGAIN;
}

static bool is_valid(const struct tagrv_taglist_entry *entry, uint64_t max_msg)
{
	const struct tagrv_mem *mem = entry->mem;
	size_t before;

	/* mlx5 takes a length with bit 31 for a flag. */
	if (entry->tag & ~entry->mask ||
	    entry->len > TAGRV_MIN(max_msg, (uint64_t) INT32_MAX))
		return false;
	if (!mem)
		return !entry->len;
	before = (uintptr_t) entry->addr - (uintptr_t) mem->addr;
	return mem->access & TAGRV_MEM_STORE && (uintptr_t) entry->addr >= (uintptr_t) mem->addr &&
	       before <= mem->len && entry->len <= mem->len - before;
}

int tagrv_verbs_tm_add(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry,
		       uint32_t count)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	uint32_t slot = tm->first_free;
	struct ibv_sge sge = { .length = (uint32_t) entry->len };
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD };
	int ret;

	if (!is_valid(entry, tm->dev->base.max_msg))
		return -FI_EINVAL;
	ret = check_room(tm, slot < list->max_entries);
	if (ret)
		return ret;
	if (entry->mem) {
		sge.addr = (uintptr_t) entry->addr;
		sge.lkey = tagrv_container_of(entry->mem, struct verbs_mem, base)->mr->lkey;
	}
	wr.wr_id = wr_id_of(VERBS_TM_ADD, tm, slot);
	wr.tm.add.recv_wr_id = wr_id_of(VERBS_TM_ENTRY, tm, slot);
	wr.tm.add.sg_list = &sge;
	wr.tm.add.num_sge = entry->mem ? 1 : 0;
	wr.tm.add.tag = entry->tag;
	wr.tm.add.mask = entry->mask;
	ret = post_count(tm, &wr, count);
	if (ret)
		return ret;
	tm->first_free = tm->slots[slot].next;
	tm->slots[slot].entry = entry;
	tm->slots[slot].taken = false;
	entry->handle = wr.tm.handle;
	entry->slot = slot;
	entry->headers = false;
	entry->due = TAGRV_TAGLIST_ADDED | TAGRV_TAGLIST_CONSUMED | TAGRV_TAGLIST_DATA;
	return 0;
}

int tagrv_verbs_tm_del(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_DEL };
	int ret;

	if (!(entry->due & TAGRV_TAGLIST_CONSUMED) || entry->due & TAGRV_TAGLIST_DELETED ||
	    tm->slots[entry->slot].taken)
		return -FI_EALREADY;
	ret = check_room(tm, true);
	if (ret)
		return ret;
	wr.wr_id = wr_id_of(VERBS_TM_DEL, tm, entry->slot);
	wr.tm.handle = entry->handle;
	ret = post(tm, &wr);
	if (!ret)
		entry->due |= TAGRV_TAGLIST_DELETED;
	return ret;
}

int tagrv_verbs_tm_sync(struct tagrv_taglist *list, uint32_t count)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_SYNC,
		.wr_id = (uint64_t) VERBS_TM_SYNC << VERBS_TM_KIND_SHIFT,
	};
	int ret = check_room(tm, true);

	return ret ? ret : post_count(tm, &wr, count);
}

void tagrv_verbs_tm_release(struct verbs_tm *tm, struct tagrv_taglist_entry *entry)
{
	struct verbs_tm_slot *slot = &tm->slots[entry->slot];

	if (entry->due)
		return;
	slot->entry = NULL;
	slot->turn++;
	slot->next = tm->first_free;
	tm->first_free = entry->slot;
	tm->freed = true;
}
