/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An adapter's list of tags: see tag_list.h.
 *
 * An entry expects completions: one of a message, and one of each signaled command. Its
 * handle is free when none is left. Handles are given out in the order in which they became
 * free. The device's list is an array of handles, oldest first, whose first
 * 'active' ones can match.
 */
#include "common/tag_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More unexpected messages than software has told: it is asked for a sync. */
#define SYNC_DIFF	0x3fff

#define NO_HANDLE	UINT32_MAX

struct entry {
	uint64_t tag, mask, recv_wr_id;
	void	*buf;
	size_t	len;
	uint32_t told;		/* count when it was posted */
	uint32_t expect;	/* completions not yet polled */
	uint32_t next;		/* free ones */
	bool	reads;		/* tag_list_read_done() is due */
	uint32_t read_len;
};

struct command {
	struct tag_list_cmd cmd;
	uint64_t due;
};

/* A completion with what polling it changes. */
struct event {
	struct tag_list_record rec;
	uint64_t due;
	uint64_t retires;	/* so many commands of all have ended; 0: none */
	uint32_t handle;	/* expects this one no longer; NO_HANDLE: none */
	uint32_t unexpect;	/* so many completions of it */
};

/* A queue that grows. */
struct events {
	struct event *at;
	size_t	first, cnt, room;
};

struct tag_list {
	struct tag_list_config config;
	struct tag_list_delays delays;
	uint64_t now;
	struct entry *entries;
	uint32_t free_first, free_last, used;
	uint32_t *listed;		/* handles, oldest first */
	uint32_t listed_cnt, active;
	struct command *cmds;		/* ring of max_ops */
	uint64_t posted, applied, retired;
	uint32_t count;			/* unexpected messages */
	bool	in_step;		/* software's count was equal, and none came since */
	uint32_t polled, told;		/* the library's view: unexpected polled, told by ADD */
	struct events out, ops, data;	/* ready; commands, data that are due later */
};

/* ---- queues of completions ---- */

static void push(struct events *queue, const struct event *event)
{
	if (queue->first + queue->cnt == queue->room) {
		size_t room = queue->room ? 2 * queue->room : 64;

		if (queue->first > queue->room / 2) {
			room = queue->room;
		} else {
			queue->at = realloc(queue->at, room * sizeof(*queue->at));
			if (!queue->at)
				abort();
		}
		memmove(queue->at, queue->at + queue->first, queue->cnt * sizeof(*queue->at));
		queue->first = 0;
		queue->room = room;
	}
	queue->at[queue->first + queue->cnt++] = *event;
}

static struct event pop(struct events *queue)
{
	queue->cnt--;
	return queue->at[queue->first++];
}

/* Makes what is due ready. Data is due in the order of the matches. */
static void ripen(struct tag_list *list, struct events *queue)
{
	while (queue->cnt && queue->at[queue->first].due <= list->now) {
		struct event event = pop(queue);

		push(&list->out, &event);
	}
}

/* ---- handles ---- */

static void give_back(struct tag_list *list, uint32_t handle)
{
	list->entries[handle].next = NO_HANDLE;
	if (list->free_first == NO_HANDLE)
		list->free_first = handle;
	else
		list->entries[list->free_last].next = handle;
	list->free_last = handle;
}

static void unexpect(struct tag_list *list, uint32_t handle, uint32_t cnt)
{
	struct entry *entry = &list->entries[handle];

	if (entry->expect < cnt)
		abort();
	entry->expect -= cnt;
	if (!entry->expect) {
		list->used--;
		give_back(list, handle);
	}
}

/* ---- life ---- */

struct tag_list *tag_list_create(const struct tag_list_config *config)
{
	struct tag_list *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->config = *config;
	list->in_step = true;
	list->free_first = NO_HANDLE;
	list->entries = calloc(config->max_tags, sizeof(*list->entries));
	list->listed = calloc(config->max_tags, sizeof(*list->listed));
	list->cmds = calloc(config->max_ops, sizeof(*list->cmds));
	if (!list->entries || !list->listed || !list->cmds) {
		tag_list_destroy(list);
		return NULL;
	}
	for (uint32_t i = 0; i < config->max_tags; i++)
		give_back(list, i);
	return list;
}

void tag_list_destroy(struct tag_list *list)
{
	if (!list)
		return;
	free(list->out.at);
	free(list->ops.at);
	free(list->data.at);
	free(list->cmds);
	free(list->listed);
	free(list->entries);
	free(list);
}

void tag_list_set_delays(struct tag_list *list, const struct tag_list_delays *delays)
{
	list->delays = *delays;
}

/* ---- commands ---- */

/* Takes software's count, and makes entries active that may be. */
static void tell(struct tag_list *list, const struct tag_list_cmd *cmd)
{
	if (cmd->sync)
		list->in_step = (uint16_t) cmd->count == (uint16_t) list->count;
	if (list->in_step)
		list->active = list->listed_cnt;
}

static uint32_t find(const struct tag_list *list, uint32_t handle)
{
	for (uint32_t i = 0; i < list->listed_cnt; i++)
		if (list->listed[i] == handle)
			return i;
	return NO_HANDLE;
}

static void unlist(struct tag_list *list, uint32_t i)
{
	list->listed_cnt--;
	if (i < list->active)
		list->active--;
	memmove(&list->listed[i], &list->listed[i + 1],
		(list->listed_cnt - i) * sizeof(*list->listed));
}

/* The device carries out a command: what is done, and its completion. */
static void carry_out(struct tag_list *list, const struct tag_list_cmd *cmd, uint64_t retires)
{
	struct event event = {
		.rec = { .code = cmd->code, .wr_id = cmd->wr_id },
		.due = list->now + list->delays.report, .retires = retires,
		.handle = NO_HANDLE, .unexpect = 1,
	};
	uint32_t i;

	if (cmd->code != TAG_LIST_SYNC)
		event.handle = cmd->handle;
	if (cmd->code == TAG_LIST_ADD) {
		list->listed[list->listed_cnt++] = cmd->handle;
	} else if (cmd->code == TAG_LIST_DEL) {
		i = find(list, cmd->handle);
		if (i == NO_HANDLE) {
			event.rec.status = TAG_LIST_GONE;
		} else {
			unlist(list, i);
			event.unexpect = 2;	/* no message will take it */
		}
	}
	tell(list, cmd);
	event.rec.count = list->count;
	if (event.handle != NO_HANDLE &&
	    (uint16_t) list->count != list->entries[cmd->handle].told)
		event.rec.flags |= TAG_LIST_SYNC_REQ;
	if (cmd->signaled)
		push(&list->ops, &event);
}

bool tag_list_apply(struct tag_list *list)
{
	uint64_t number = list->applied;

	if (number == list->posted)
		return false;
	list->applied++;
	carry_out(list, &list->cmds[number % list->config.max_ops].cmd, number + 1);
	ripen(list, &list->ops);
	return true;
}

static void apply_due(struct tag_list *list)
{
	while (list->applied < list->posted &&
	       list->cmds[list->applied % list->config.max_ops].due <= list->now)
		tag_list_apply(list);
}

void tag_list_tick(struct tag_list *list)
{
	list->now++;
	apply_due(list);
	ripen(list, &list->ops);
	ripen(list, &list->data);
}

static int take_handle(struct tag_list *list, struct tag_list_cmd *cmd)
{
	uint32_t handle = list->free_first;
	struct entry *entry = &list->entries[handle];

	if (handle == NO_HANDLE)
		return -ENOMEM;
	list->free_first = entry->next;
	list->used++;
	if (cmd->sync)
		list->told = cmd->count;
	*entry = (struct entry) {
		.tag = cmd->tag, .mask = cmd->mask, .recv_wr_id = cmd->recv_wr_id,
		.buf = cmd->buf, .len = cmd->len, .told = list->told, .expect = 1,
	};
	cmd->handle = handle;
	return 0;
}

int tag_list_post(struct tag_list *list, struct tag_list_cmd *cmd)
{
	struct command *slot = &list->cmds[list->posted % list->config.max_ops];
	int ret;

	if (list->posted - list->retired == list->config.max_ops)
		return -ENOMEM;
	if (cmd->code == TAG_LIST_DEL &&
	    (!cmd->signaled || cmd->handle >= list->config.max_tags ||
	     !list->entries[cmd->handle].expect))
		return -EINVAL;
	if (cmd->code == TAG_LIST_ADD) {
		ret = take_handle(list, cmd);
		if (ret)
			return ret;
	}
	if (cmd->code != TAG_LIST_SYNC && cmd->signaled)
		list->entries[cmd->handle].expect++;
	slot->cmd = *cmd;
	slot->due = list->delays.apply == TAG_LIST_HOLD ? UINT64_MAX :
		    list->now + list->delays.apply;
	list->posted++;
	apply_due(list);
	return 0;
}

/* ---- messages ---- */

static uint64_t get_be(const void *bytes, unsigned cnt)
{
	const uint8_t *byte = bytes;
	uint64_t value = 0;

	while (cnt--)
		value = value << 8 | *byte++;
	return value;
}

static bool is_tagged(const uint8_t *bytes, size_t len)
{
	if (len < TAG_LIST_TMH)
		return false;
	return bytes[0] == TAG_LIST_OP_EAGER ||
	       (bytes[0] == TAG_LIST_OP_RNDV && len >= TAG_LIST_TMH + TAG_LIST_RVH);
}

static uint32_t search(const struct tag_list *list, uint64_t tag)
{
	for (uint32_t i = 0; i < list->active; i++) {
		const struct entry *entry = &list->entries[list->listed[i]];

		if ((tag & entry->mask) == entry->tag)
			return i;
	}
	return NO_HANDLE;
}

bool tag_list_would_match(const struct tag_list *list, const void *bytes, size_t len)
{
	return is_tagged(bytes, len) &&
	       search(list, get_be((const uint8_t *) bytes + 8, 8)) != NO_HANDLE;
}

static enum tag_list_status scatter(const struct entry *entry, const uint8_t *bytes, size_t len)
{
	if (len > entry->len)
		return TAG_LIST_TOO_LONG;
	if (entry->buf && len)
		memcpy(entry->buf, bytes, len);
	return TAG_LIST_OK;
}

/* The message ends the entry: all in one completion. */
static void complete(struct tag_list *list, struct event *event)
{
	event->rec.flags |= TAG_LIST_MATCH | TAG_LIST_DATA;
	event->unexpect = 1;
	push(&list->out, event);
}

/* The message takes the entry; its data comes later. */
static void push_match(struct tag_list *list, struct event event)
{
	event.rec.flags = TAG_LIST_MATCH;
	event.rec.length = 0;
	push(&list->out, &event);
}

static void match_eager(struct tag_list *list, struct event *event, const uint8_t *bytes,
			size_t len)
{
	event->rec.length = (uint32_t) len;
	event->rec.status = scatter(&list->entries[event->handle], bytes, len);
	if (event->rec.status || !list->config.mtu || len <= list->config.mtu) {
		complete(list, event);
		return;
	}
	push_match(list, *event);
	event->rec.flags = TAG_LIST_DATA;
	event->rec.tag = 0;
	event->rec.app_ctx = 0;
	event->unexpect = 1;
	event->due = list->now + list->delays.data;
	push(&list->data, event);
	ripen(list, &list->data);
}

static enum tag_list_fate match_rndv(struct tag_list *list, struct event *event,
				     const uint8_t *bytes, size_t len, struct tag_list_read *read)
{
	struct entry *entry = &list->entries[event->handle];
	uint32_t total = (uint32_t) get_be(bytes + TAG_LIST_TMH + 12, 4);

	event->rec.length = (uint32_t) len;
	if (list->config.no_read || total > entry->len) {
		event->rec.status = scatter(entry, bytes, len);
		if (!event->rec.status)
			event->rec.status = TAG_LIST_INCOMPLETE;
		complete(list, event);
		return TAG_LIST_MATCHED;
	}
	push_match(list, *event);
	entry->reads = true;
	entry->read_len = total;
	*read = (struct tag_list_read) {
		.handle = event->handle, .buf = entry->buf,
		.va = get_be(bytes + TAG_LIST_TMH, 8),
		.rkey = (uint32_t) get_be(bytes + TAG_LIST_TMH + 8, 4), .len = total,
	};
	return TAG_LIST_READ;
}

enum tag_list_fate tag_list_arrive(struct tag_list *list, const void *message, size_t len,
				   uint64_t recv_wr_id, struct tag_list_read *read)
{
	const uint8_t *bytes = message;
	struct event event = {
		.rec = { .code = TAG_LIST_NO_TAG, .wr_id = recv_wr_id, .length = (uint32_t) len },
		.handle = NO_HANDLE,
	};
	uint32_t i;

	event.rec.count = list->count;
	if (!is_tagged(bytes, len)) {
		push(&list->out, &event);
		return TAG_LIST_UNMATCHED;
	}
	event.rec.code = TAG_LIST_RECV;
	event.rec.app_ctx = (uint32_t) get_be(bytes + 4, 4);
	event.rec.tag = get_be(bytes + 8, 8);
	i = search(list, event.rec.tag);
	if (i == NO_HANDLE) {
		event.rec.count = ++list->count;
		list->in_step = false;
		push(&list->out, &event);
		return TAG_LIST_UNMATCHED;
	}
	event.handle = list->listed[i];
	event.rec.wr_id = list->entries[event.handle].recv_wr_id;
	unlist(list, i);
	if (bytes[0] == TAG_LIST_OP_RNDV)
		return match_rndv(list, &event, bytes, len, read);
	match_eager(list, &event, bytes + TAG_LIST_TMH, len - TAG_LIST_TMH);
	return TAG_LIST_MATCHED;
}

void tag_list_read_done(struct tag_list *list, uint32_t handle, bool ok)
{
	struct entry *entry = &list->entries[handle];
	struct event event = {
		.rec = {
			.code = TAG_LIST_RECV, .flags = TAG_LIST_DATA,
			.status = ok ? TAG_LIST_OK : TAG_LIST_LOST,
			.wr_id = entry->recv_wr_id, .length = entry->read_len,
			.count = list->count,
		},
		.handle = handle, .unexpect = 1,
	};

	if (!entry->reads)
		abort();
	entry->reads = false;
	push(&list->out, &event);
}

/* ---- completions ---- */

bool tag_list_poll(struct tag_list *list, struct tag_list_record *record)
{
	struct event event;

	if (!list->out.cnt)
		return false;
	event = pop(&list->out);
	if (event.handle != NO_HANDLE && event.unexpect)
		unexpect(list, event.handle, event.unexpect);
	if (event.retires > list->retired)
		list->retired = event.retires;
	if (event.rec.code == TAG_LIST_RECV && event.handle == NO_HANDLE &&
	    (int32_t) (++list->polled - list->told) > SYNC_DIFF)
		event.rec.flags |= TAG_LIST_SYNC_REQ;
	*record = event.rec;
	return true;
}

uint32_t tag_list_unexpected(const struct tag_list *list)
{
	return list->count;
}

uint32_t tag_list_active(const struct tag_list *list)
{
	return list->active;
}

uint32_t tag_list_inactive(const struct tag_list *list)
{
	return list->listed_cnt - list->active;
}

uint32_t tag_list_waiting(const struct tag_list *list)
{
	return (uint32_t) (list->posted - list->applied);
}

uint32_t tag_list_used(const struct tag_list *list)
{
	return list->used;
}

uint32_t tag_list_ready(const struct tag_list *list)
{
	return (uint32_t) list->out.cnt;
}
