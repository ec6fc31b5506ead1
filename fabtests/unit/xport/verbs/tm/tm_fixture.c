/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives and its peer: see tm_fixture.h.
 */
#include "unit/xport/verbs/tm/tm_fixture.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <string.h>

#include "unit/xport/pair.h"

struct tm_fixture tm;

static void note(struct tm_note what)
{
	cr_assert_lt(tm.cnt, TM_NOTES);
	tm.notes[tm.cnt++] = what;
}

static unsigned number_of(const struct tagrv_taglist_entry *entry)
{
	return (unsigned) (entry - tm.entries);
}

static void on_added(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     bool sync_req)
{
	(void) sink;
	note((struct tm_note) {
		.what = TM_ADDED, .n = number_of(entry), .sync_req = sync_req,
	});
}

static void on_deleted(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		       bool gone)
{
	(void) sink;
	note((struct tm_note) { .what = gone ? TM_GONE : TM_DELETED, .n = number_of(entry) });
}

static void on_consumed(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			struct tagrv_link *link, uint64_t tag, uint32_t app, int status)
{
	(void) sink;
	if (!status)
		cr_assert_eq(link, &tm.link);
	note((struct tm_note) {
		.what = TM_CONSUMED, .n = number_of(entry), .tag = tag, .app = app,
		.status = status,
	});
}

static void on_data(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		    size_t len, int status)
{
	(void) sink;
	note((struct tm_note) {
		.what = TM_DATA, .n = number_of(entry), .len = len, .status = status,
	});
	if (tm.readd) {
		tm.readd--;
		cr_assert_eq(tm_add(number_of(entry), entry->tag, 0), 0);
	}
}

static void on_synced(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	note((struct tm_note) { .what = TM_SYNCED });
}

static void on_room(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	note((struct tm_note) { .what = TM_ROOM });
}

static void on_fatal(struct tagrv_taglist_sink *sink, int status)
{
	(void) sink;
	note((struct tm_note) { .what = TM_FATAL, .status = status });
}

static void on_unexpected(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	tm.unexpected++;
}

static void on_handled(struct tagrv_taglist_sink *sink)
{
	(void) sink;
	tm.handled++;
}

static bool on_permit(void *owner, const struct verbs_list_packet *packet)
{
	cr_assert_eq(owner, &tm);
	cr_assert(packet->has_imm && !packet->tagged && !packet->status);
	cr_assert_eq(packet->qpn, tm.qp->qp_num);
	tm.imm = be32toh(packet->imm);
	tm.permits++;
	return tm.permit_only;
}

static bool on_packet(void *owner, const struct verbs_list_packet *packet)
{
	cr_assert_eq(owner, &tm);
	tm.lost += packet->lost;
	if (packet->lost)
		return true;
	cr_assert_eq(packet->qpn, tm.qp->qp_num);
	if (!packet->status && packet->len <= sizeof(tm.last))
		memcpy(tm.last, packet->data, packet->len);
	if (packet->has_imm)
		tm.imm = be32toh(packet->imm);
	note((struct tm_note) {
		.what = packet->status ? TM_BAD_PACKET : packet->tagged ? TM_TAGGED : TM_UNTAGGED,
		.len = packet->len, .status = packet->status, .has_imm = packet->has_imm,
		.unexpected = tm.unexpected, .handled = tm.handled,
	});
	return !tm.keep;
}

static int on_match(void *owner, uint32_t qpn, uint64_t tag, struct tagrv_link **link)
{
	cr_assert_eq(owner, &tm);
	(void) tag;
	tm.match_qpn = qpn;
	*link = tm.unknown ? NULL : &tm.link;
	return tm.match_status;
}

static void on_keep(void *owner, struct tagrv_link *link, uint64_t key)
{
	cr_assert(owner == &tm && link == &tm.link && tm.kept < TM_ENTRIES);
	tm.keys[tm.kept++] = key;
}

void tm_prepare(void)
{
	tm = (struct tm_fixture) {
		.config = list_devices(),
		.sink = {
			.added = on_added, .deleted = on_deleted, .consumed = on_consumed,
			.data = on_data, .synced = on_synced,
			.room = on_room, .fatal = on_fatal,
			.unexpected = on_unexpected, .handled = on_handled,
		},
		.attr = {
			.max_entries = TM_ENTRIES, .bufs = 1, .buf_size = 2048,
			.rxq = &tm.rxq, .receive = on_packet, .permit = on_permit,
			.match = on_match, .keep = on_keep, .owner = &tm,
		},
	};
	tm.config.tm_least = 33;
	tm.link.ctx = &tm;
}

int tm_open_list(void)
{
	struct tagrv_params params = pair_params();
	int ret;

	fake_verbs_start(&tm.config);
	cr_assert_eq(tagrv_verbs_dev_open("fake0", &params, &tm.dev), 0);
	cr_assert_eq(tagrv_verbs_mem_reg(tm.dev, tm.mem, sizeof(tm.mem), TAGRV_MEM_STORE,
					 &tm.reg), 0);
	if (tm.with_channel) {
		tm.channel = tagrv_verbs_calls_get()->create_comp_channel(verbs_dev_of(tm.dev)->ctx);
		cr_assert_not_null(tm.channel);
		tm.attr.channel = tm.channel;
	}
	ret = tagrv_verbs_tm_open(verbs_dev_of(tm.dev), &tm.attr, &tm.list);
	if (ret)
		return ret;
	tm.tm = verbs_tm_of(tm.list);
	tm.list->sink = &tm.sink;
	return 0;
}

void tm_open(void)
{
	cr_assert_eq(tm_open_list(), 0);
	cr_assert_eq(tagrv_verbs_tm_qp_create(tm.list, NULL, &tm.qp), 0);
	list_peer_open(&tm.peer);
	list_peer_connect(&tm.peer, tm.qp);
}

void tm_close(void)
{
	struct tagrv_mem *reg = tm.reg;

	if (tm.qp)
		cr_assert_eq(tm.peer.calls->destroy_qp(tm.qp), 0);
	if (tm.list)
		tm.list->ops->close(tm.list);
	if (tm.channel)
		cr_assert_eq(tagrv_verbs_calls_get()->destroy_comp_channel(tm.channel), 0);
	for (unsigned i = 0; i <= TM_ENTRIES; i++)
		cr_assert_eq(tm.entries[i].due, 0);
	if (tm.qp)
		list_peer_close(&tm.peer);
	tagrv_verbs_mem_dereg(reg);
	tagrv_verbs_dev_close(tm.dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
	cr_assert_eq(fake_verbs_count().cq_overflows, 0);
	cr_assert_eq(fake_verbs_count().lost_events, 0);
	fake_verbs_stop();
}

int tm_add(unsigned n, uint64_t tag, uint32_t count)
{
	struct tagrv_taglist_entry *entry = &tm.entries[n];

	entry->tag = tag;
	entry->mask = UINT64_MAX;
	entry->addr = tm.mem[n];
	entry->len = TM_LEN;
	entry->mem = tm.reg;
	return tm.list->ops->add(tm.list, entry, count);
}

struct tm_note tm_expect(enum tm_what what, unsigned n)
{
	struct tm_note *next = &tm.notes[tm.read];

	for (int i = 0; i < 100 && tm.read == tm.cnt; i++)
		tm.list->ops->progress(tm.list);
	cr_assert_lt(tm.read, tm.cnt, "nothing came instead of %d", what);
	cr_assert(next->what == what && next->n == n, "%d of %u came instead of %d of %u",
		  next->what, next->n, what, n);
	tm.read++;
	return *next;
}

void tm_expect_none(void)
{
	for (int i = 0; i < 10; i++)
		tm.list->ops->progress(tm.list);
	cr_assert_eq(tm.read, tm.cnt, "%d of %u came", tm.notes[tm.read].what,
		     tm.notes[tm.read].n);
}

void tm_delay(uint32_t apply, uint32_t report, uint32_t data)
{
	const struct tag_list_delays delays = {
		.apply = apply, .report = report, .data = data,
	};

	tag_list_set_delays(fake_verbs_list(fake_verbs_last_srq(0)), &delays);
}
