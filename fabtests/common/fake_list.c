/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives for transports of tests: its commands, and what tests do to it.
 */
#include "common/fake_list_priv.h"

#include <endian.h>
#include <errno.h>

/* ---- commands ---- */

/* Whether the device may be asked. */
static int check_room(struct fake_list *list, bool has_slot)
{
	if (list->fatal)
		return list->fatal;
	if (list->error) {
		list->fatal = list->error;
		return list->fatal;
	}
	if (!list->refuse && has_slot)
		return 0;
	if (list->refuse) {
		list->refuse--;
		list->freed = true;
	}
	list->starved = true;
	return -FI_EAGAIN;
}

static int post(struct fake_list *list, struct tag_list_cmd *cmd)
{
	int ret;

	cmd->signaled = true;
	ret = tag_list_post(list->device, cmd);
	if (ret == -EINVAL)
		abort();
	if (!ret)
		return 0;
	list->starved = true;
	return -FI_EAGAIN;
}

static bool is_valid(const struct tagrv_taglist_entry *entry)
{
	const struct tagrv_mem *mem = entry->mem;

	if (entry->tag & ~entry->mask)
		return false;
	if (!mem)
		return !entry->len;
	return mem->access & TAGRV_MEM_STORE && (char *) entry->addr >= (char *) mem->addr &&
	       (char *) entry->addr + entry->len <= (char *) mem->addr + mem->len;
}

static int add(struct tagrv_taglist *base, struct tagrv_taglist_entry *entry, uint32_t cnt)
{
	struct fake_list *list = fake_list_of(base);
	uint32_t slot = list->first_free;
	struct tag_list_cmd cmd = {
		.code = TAG_LIST_ADD, .sync = true, .count = cnt & UINT16_MAX, .wr_id = slot,
		.recv_wr_id = slot, .tag = entry->tag, .mask = entry->mask, .len = entry->len,
	};
	int ret;

	if (!is_valid(entry))
		return -FI_EINVAL;
	ret = check_room(list, slot != FAKE_LIST_NO_SLOT);
	if (!ret)
		ret = post(list, &cmd);
	if (ret)
		return ret;
	list->first_free = list->slots[slot].next;
	list->slots[slot] = (struct fake_list_slot) { .entry = entry };
	entry->handle = cmd.handle;
	entry->slot = slot;
	entry->headers = false;
	entry->due = TAGRV_TAGLIST_ADDED | TAGRV_TAGLIST_CONSUMED | TAGRV_TAGLIST_DATA;
	list->adds++;
	list->told = cnt;
	return 0;
}

static bool was_read(const struct fake_list *list, uint32_t slot)
{
	for (unsigned i = 0; i < list->ahead_cnt; i++)
		if (list->ahead[i].code == TAG_LIST_RECV && list->ahead[i].flags & TAG_LIST_MATCH &&
		    list->ahead[i].wr_id == slot)
			return true;
	return false;
}

static int del(struct tagrv_taglist *base, struct tagrv_taglist_entry *entry)
{
	struct fake_list *list = fake_list_of(base);
	struct tag_list_cmd cmd = {
		.code = TAG_LIST_DEL, .wr_id = entry->slot, .handle = entry->handle,
	};
	int ret;

	if (!(entry->due & TAGRV_TAGLIST_CONSUMED) || entry->due & TAGRV_TAGLIST_DELETED ||
	    was_read(list, entry->slot))
		return -FI_EALREADY;
	ret = check_room(list, true);
	if (!ret)
		ret = post(list, &cmd);
	if (ret)
		return ret;
	entry->due |= TAGRV_TAGLIST_DELETED;
	list->dels++;
	return 0;
}

static int sync_count(struct tagrv_taglist *base, uint32_t cnt)
{
	struct fake_list *list = fake_list_of(base);
	struct tag_list_cmd cmd = {
		.code = TAG_LIST_SYNC, .sync = true, .count = cnt & UINT16_MAX,
	};
	int ret = check_room(list, true);

	if (!ret)
		ret = post(list, &cmd);
	if (ret)
		return ret;
	list->syncs++;
	list->told = cnt;
	return 0;
}

/* ---- for the test, and its transport ---- */

static struct fake_list_message *push_message(struct fake_list *list, struct tagrv_link *link,
					      const void *data, size_t len)
{
	struct fake_list_message *message = calloc(1, sizeof(*message) + len);

	if (!message)
		abort();
	message->link = link;
	message->len = len;
	if (len)
		memcpy(message->data, data, len);
	fake_list_push(&list->arrived, message);
	return message;
}

void fake_list_arrive(struct fake_list *list, struct tagrv_link *link, const void *data,
		      size_t len)
{
	struct tag_list_read read;

	if (len < TAG_LIST_TMH || *(const uint8_t *) data != TAG_LIST_OP_EAGER)
		abort();
	push_message(list, link, data, len);
	tag_list_arrive(list->device, data, len, 0, &read);
}

void fake_list_packet(struct fake_list *list, struct tagrv_link *link, const void *data,
		      size_t len)
{
	static const uint8_t no_tag[TAG_LIST_TMH] = { TAG_LIST_OP_NO_TAG };
	struct tag_list_read read;

	push_message(list, link, data, len)->plain = true;
	tag_list_arrive(list->device, no_tag, sizeof(no_tag), 0, &read);
}

void fake_list_message(struct fake_list *list, struct tagrv_link *link, uint64_t tag,
		       uint32_t app, const void *bytes, size_t len)
{
	uint8_t *data = calloc(1, TAG_LIST_TMH + len);

	if (!data)
		abort();
	data[0] = TAG_LIST_OP_EAGER;
	app = htobe32(app);
	tag = htobe64(tag);
	memcpy(data + 4, &app, sizeof(app));
	memcpy(data + 8, &tag, sizeof(tag));
	if (len)
		memcpy(data + TAG_LIST_TMH, bytes, len);
	fake_list_arrive(list, link, data, TAG_LIST_TMH + len);
	free(data);
}

bool fake_list_would_match(const struct fake_list *list, uint64_t tag)
{
	uint8_t data[TAG_LIST_TMH] = { TAG_LIST_OP_EAGER };

	tag = htobe64(tag);
	memcpy(data + 8, &tag, sizeof(tag));
	return tag_list_would_match(list->device, data, sizeof(data));
}

void fake_list_delay(struct fake_list *list, uint32_t apply, uint32_t report)
{
	const struct tag_list_delays delays = { .apply = apply, .report = report };

	tag_list_set_delays(list->device, &delays);
}

bool fake_list_apply(struct fake_list *list)
{
	return tag_list_apply(list->device);
}

bool fake_list_data(struct fake_list *list)
{
	struct fake_list_slot *first = NULL;

	for (uint32_t i = 0; i < list->base.max_entries; i++) {
		struct fake_list_slot *slot = &list->slots[i];

		if (slot->message && slot->due > list->now &&
		    (!first || slot->order < first->order))
			first = slot;
	}
	return first && fake_list_data_of(list, first->entry);
}

bool fake_list_data_of(struct fake_list *list, const struct tagrv_taglist_entry *entry)
{
	struct fake_list_slot *slot = &list->slots[entry->slot];

	if (slot->entry != entry || !slot->message)
		return false;
	slot->due = list->now;
	return true;
}

void fake_list_read_ahead(struct fake_list *list)
{
	while (list->ahead_cnt < FAKE_LIST_AHEAD &&
	       tag_list_poll(list->device, &list->ahead[list->ahead_cnt]))
		list->ahead_cnt++;
}

void fake_list_fail(struct fake_list *list, int status)
{
	if (!list->fatal)
		list->fatal = status;
}

/* ---- life ---- */

static void clear(struct fake_list_queue *queue)
{
	queue->first = NULL;
	queue->end = &queue->first;
}

static void drop_all(struct fake_list_queue *queue)
{
	while (queue->first)
		free(fake_list_pop(queue, &queue->first));
}

static void close_list(struct tagrv_taglist *base)
{
	fake_list_destroy(fake_list_of(base));
}

static const struct tagrv_taglist_ops ops = {
	.add = add,
	.del = del,
	.sync = sync_count,
	.progress = fake_list_progress,
	.close = close_list,
};

struct fake_list *fake_list_create(uint32_t max_entries, uint32_t max_ops,
				   const struct fake_list_owner *owner)
{
	const struct tag_list_config config = {
		.max_tags = max_entries, .max_ops = max_ops, .no_read = true,
	};
	struct fake_list *list = calloc(1, sizeof(*list));

	if (!list)
		abort();
	list->slots = calloc(max_entries, sizeof(*list->slots));
	list->device = tag_list_create(&config);
	if (!list->slots || !list->device)
		abort();
	list->base = (struct tagrv_taglist) { .ops = &ops, .max_entries = max_entries };
	list->owner = owner;
	for (uint32_t i = 0; i < max_entries; i++)
		list->slots[i].next = i + 1 < max_entries ? i + 1 : FAKE_LIST_NO_SLOT;
	clear(&list->arrived);
	clear(&list->strays);
	return list;
}

void fake_list_destroy(struct fake_list *list)
{
	for (uint32_t i = 0; i < list->base.max_entries; i++)
		free(list->slots[i].message);
	drop_all(&list->arrived);
	drop_all(&list->strays);
	tag_list_destroy(list->device);
	free(list->slots);
	free(list);
}
