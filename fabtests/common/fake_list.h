/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A transport's list of posted receives (xport/taglist.h) for transports of tests. What the
 * device does is tag_list.h; this file makes commands and callbacks of it, as xport/verbs/tm
 * does of the calls of verbs.
 *
 *   fake_list_arrive()    a message of a peer: matched at once, reported by progress
 *     matched          -> consumed, and data now, later, or when the test says so
 *     not matched      -> unexpected, sink->listed of the transport, handled
 *   fake_list_packet()    a packet of a link that is no tagged message: reported in its turn,
 *                         to sink->packet of the transport
 *   add, del, sync        carried out at once, later, when the test says so; or refused
 *   fake_list_end_link()  what a link leaves behind when it ends
 *
 * The bytes of a message are in the entry's memory when data is told, and not before.
 */
#ifndef FABTESTS_COMMON_FAKE_LIST_H
#define FABTESTS_COMMON_FAKE_LIST_H

#include "common/tag_list.h"
#include "xport/taglist.h"
#include "xport/xport.h"

#define FAKE_LIST_AHEAD	16u

struct fake_list_message;
struct fake_list_slot;

/* What becomes of an unexpected message, and of the data of one that has matched. */
enum fake_list_way {
	FAKE_LIST_DELIVER,
	FAKE_LIST_KEEP,		/* the link is not attached yet: next time */
	FAKE_LIST_DROP,		/* the link is closed; matched messages get their data */
};

struct fake_list_owner {
	enum fake_list_way (*way)(const struct tagrv_link *link);
	/* A message matched by a number that is not 'given' of its link: the link is to fail. */
	void	(*forged)(struct tagrv_link *link);
};

/* A queue of messages. */
struct fake_list_queue {
	struct fake_list_message *first, **end;
};

struct fake_list {
	struct tagrv_taglist base;
	/* of the test, which may change them at any time */
	unsigned refuse;	/* so many next commands give -FI_EAGAIN */
	int	error;		/* the next command gives it, and the list is lost; 0: none */
	bool	hold_data;	/* data waits for fake_list_data() */
	unsigned data_delay;	/* else for so many more calls of progress */
	unsigned reports;	/* of the device that progress reads at most; 0: all */
	/* counted */
	unsigned adds, dels, syncs;	/* commands that were accepted */
	unsigned unexpected, handled;	/* as told to the sink */
	uint32_t told;			/* count of the last add or sync */
	/* own */
	const struct fake_list_owner *owner;
	struct tag_list *device;
	struct fake_list_slot *slots;
	uint32_t first_free;
	struct fake_list_queue arrived, strays;
	struct tag_list_record ahead[FAKE_LIST_AHEAD];	/* ahead_cnt that were read */
	unsigned ahead_cnt;
	uint64_t now;		/* calls of progress */
	uint64_t matches;
	int	fatal;		/* -FI_E*, 0: alive */
	bool	told_fatal, starved, freed, busy;
};

struct fake_list *fake_list_create(uint32_t max_entries, uint32_t max_ops,
				   const struct fake_list_owner *owner);
/* Also list->ops->close. */
void fake_list_destroy(struct fake_list *list);

/* A message that begins with the two words comes by the link. */
void fake_list_arrive(struct fake_list *list, struct tagrv_link *link, const void *data,
		      size_t len);
/* The same, of words and what is behind them. */
void fake_list_message(struct fake_list *list, struct tagrv_link *link, uint64_t tag,
		       uint32_t app, const void *bytes, size_t len);
/* Another packet comes by the link; it does not look like a tagged message to the device. */
void fake_list_packet(struct fake_list *list, struct tagrv_link *link, const void *data,
		      size_t len);
/* Whether an entry would take a message with this tag, had it come now. */
bool fake_list_would_match(const struct fake_list *list, uint64_t tag);

/* Commands wait so many calls of progress in the device, and their answers; TAG_LIST_HOLD:
 * until fake_list_apply(). */
void fake_list_delay(struct fake_list *list, uint32_t apply, uint32_t report);
/* The device carries out the oldest command; false: there is none. */
bool fake_list_apply(struct fake_list *list);
/* The data of the message that matched first, or of the entry, is told by the next progress;
 * false: none waits. */
bool fake_list_data(struct fake_list *list);
bool fake_list_data_of(struct fake_list *list, const struct tagrv_taglist_entry *entry);
/* Reads what the device has reported, which progress handles later: del is too late then for
 * entries that a message has taken. */
void fake_list_read_ahead(struct fake_list *list);
/* The list is lost: the next progress tells it. */
void fake_list_fail(struct fake_list *list, int status);

/*
 * The link ends, and is not in the device any more: all that has come by it is told now, of
 * matched messages without data that it never comes. Before sink->link_closed; not in a callback.
 */
void fake_list_end_link(struct fake_list *list, struct tagrv_link *link);
/* The link, which was never attached, is gone: progress tells the same. */
void fake_list_forget_link(struct fake_list *list, const struct tagrv_link *link);
/* Messages of the link of which something is still to be told. */
unsigned fake_list_pending(const struct fake_list *list, const struct tagrv_link *link);

#endif
