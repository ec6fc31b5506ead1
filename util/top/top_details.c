/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All that one endpoint shows, as lines.
 */
#include <inttypes.h>
#include <string.h>

#include "util/top/top_print.h"

/* ---- protocols ---- */

struct protocol {
	const char *name;
	size_t	tx, rx;		/* in struct tagrv_board_counters */
};

#define COUNTER(name)	offsetof(struct tagrv_board_counters, name)

static const struct protocol protocols[] = {
	{ "eager", COUNTER(eager_tx), COUNTER(eager_rx) },
	{ "  batched", COUNTER(batched_tx), COUNTER(batched_rx) },
	{ "rendezvous", COUNTER(announced_tx), COUNTER(announced_rx) },
	{ "  read", COUNTER(read_tx), COUNTER(read_rx) },
	{ "  write", COUNTER(write_tx), COUNTER(write_rx) },
	{ "  copy", COUNTER(copy_tx), COUNTER(copy_rx) },
	{ "  pipeline", COUNTER(pipeline_tx), COUNTER(pipeline_rx) },
	{ "  bytes", COUNTER(long_bytes_tx), COUNTER(long_bytes_rx) },
};

struct onesided {
	const char *name;
	size_t	ops_tx, bytes_tx, ops_rx, bytes_rx;
};

static const struct onesided onesided[] = {
	{ "writes", COUNTER(onesided_writes_tx), COUNTER(onesided_write_bytes_tx),
	  COUNTER(onesided_writes_rx), COUNTER(onesided_write_bytes_rx) },
	{ "reads", COUNTER(onesided_reads_tx), COUNTER(onesided_read_bytes_tx),
	  COUNTER(onesided_reads_rx), COUNTER(onesided_read_bytes_rx) },
	{ "atomics", COUNTER(onesided_atomics_tx), COUNTER(onesided_atomic_bytes_tx),
	  COUNTER(onesided_atomics_rx), COUNTER(onesided_atomic_bytes_rx) },
};

static uint64_t counter_at(const struct top_endpoint *endpoint, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *) &endpoint->record.counters + offset, sizeof(value));
	return value;
}

/* widths: of the number so far, and of its rate. */
static void print_counter(struct top_text *text, const struct top_row *row, size_t offset,
			  const int widths[2])
{
	uint64_t now = counter_at(row->endpoint, offset);
	char total[TOP_SHORT], rate[TOP_SHORT] = "-";

	if (row->seconds > 0)
		top_short(top_rate(now, counter_at(row->before, offset), row->seconds), rate);
	top_print(text, " %*s %*s", widths[0], top_short((double) now, total), widths[1], rate);
}

/* What has not been used has no line: there may be few. */
static void print_protocols(struct top_text *text, const struct top_row *row)
{
	static const int widths[2] = { 10, 9 };
	const struct tagrv_board_counters *c = &row->endpoint->record.counters;

	if (!c->eager_tx && !c->eager_rx && !c->announced_tx && !c->announced_rx)
		return;
	top_print(text, "  %-12s %10s %9s %10s %9s\n", "protocol", "out", "per s", "in", "per s");
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(protocols); i++) {
		if (!counter_at(row->endpoint, protocols[i].tx) &&
		    !counter_at(row->endpoint, protocols[i].rx))
			continue;
		top_print(text, "  %-12s", protocols[i].name);
		print_counter(text, row, protocols[i].tx, widths);
		print_counter(text, row, protocols[i].rx, widths);
		top_print(text, "\n");
	}
}

/* Operations and bytes of this endpoint, and those that it has served. */
static void print_onesided(struct top_text *text, const struct top_row *row)
{
	static const int ops[2] = { 6, 6 }, bytes[2] = { 7, 7 };
	const struct tagrv_board_counters *c = &row->endpoint->record.counters;

	if (!c->onesided_tx && !c->onesided_rx && !c->onesided_refused)
		return;
	top_print(text, "  %-12s %6s %6s %7s %7s %6s %6s %7s %7s\n", "one-sided", "out", "per s",
		  "bytes", "B/s", "in", "per s", "bytes", "B/s");
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(onesided); i++) {
		if (!counter_at(row->endpoint, onesided[i].ops_tx) &&
		    !counter_at(row->endpoint, onesided[i].ops_rx))
			continue;
		top_print(text, "    %-10s", onesided[i].name);
		print_counter(text, row, onesided[i].ops_tx, ops);
		print_counter(text, row, onesided[i].bytes_tx, bytes);
		print_counter(text, row, onesided[i].ops_rx, ops);
		print_counter(text, row, onesided[i].bytes_rx, bytes);
		top_print(text, "\n");
	}
	if (c->onesided_views || c->onesided_refused)
		top_print(text, "    of these   %" PRIu64 " out, which the peer cannot count; besides, %"
			  PRIu64 " of peers refused\n", c->onesided_views, c->onesided_refused);
}

/* ---- queues ---- */

static void print_receives(struct top_text *text, const struct top_endpoint *endpoint)
{
	const struct tagrv_board_levels *l = &endpoint->record.levels;
	const struct tagrv_board_counters *c = &endpoint->record.counters;
	char mem[TOP_SHORT], budget[TOP_SHORT];

	top_print(text, "  receives     %" PRIu64 " posted (most %" PRIu64 "): %" PRIu64
		  " from one source, %" PRIu64 " from any, %" PRIu64 " untagged; %" PRIu64
		  " classes hashed\n", l->posted, l->posted_peak, l->posted_from_one,
		  l->posted_from_any, l->posted_untagged, l->posted_classes);
	top_print(text, "  under way    %" PRIu64 " with reads to post, %" PRIu64
		  " with a grant to send, %" PRIu64 " wait for the peer; %" PRIu64
		  " fragments granted\n", l->receives_reading, l->receives_to_grant,
		  l->receives_awaiting_peer, l->granted_fragments);
	top_print(text, "  unexpected   %" PRIu64 " kept (most %" PRIu64 ") in %s bytes; "
		  "budget for %s left; %.1f entries compared in each search\n",
		  l->unexpected, l->unexpected_peak,
		  top_short((double) l->unexpected_bytes, mem),
		  top_short((double) l->budget_bytes, budget),
		  c->searches ? (double) c->probes / (double) c->searches : 0.0);
}

static void print_sends(struct top_text *text, const struct top_endpoint *endpoint)
{
	const struct tagrv_board_levels *l = &endpoint->record.levels;
	const struct tagrv_board_counters *c = &endpoint->record.counters;
	char left[TOP_SHORT], promised[TOP_SHORT], owed[TOP_SHORT];

	top_print(text, "  sends        %" PRIu64 " queued, %" PRIu64 " under way, of these %"
		  PRIu64 " wait for the peer and %" PRIu64 " for room; %" PRIu64
		  " acks to send, %" PRIu64 " sent in %" PRIu64 " packets\n",
		  l->sends_queued, l->sends_under_way, l->sends_awaiting_peer,
		  l->sends_awaiting_room, l->acks_queued, c->acks, c->ack_packets);
	top_print(text, "  credit       %s bytes to send, %s promised, %s owed; %" PRIu64
		  " messages announced for want of it\n",
		  top_short((double) l->credit_bytes, left),
		  top_short((double) l->promised_bytes, promised),
		  top_short((double) l->owed_bytes, owed), c->no_credit_tx);
}

/* ---- connections ---- */

static void print_rail(struct top_text *text, const struct tagrv_board_rail *rail)
{
	top_print(text, "  rail         %s %s: %" PRIu64 " links, %" PRIu64 " connections so far",
		  rail->xport, rail->device, rail->links, rail->connections);
	if (rail->lost)
		top_print(text, "; the device is lost: error %u", rail->lost);
	top_print(text, "\n");
}

static void print_connections(struct top_text *text, const struct top_row *row)
{
	const struct tagrv_board_record *record = &row->endpoint->record;
	const struct tagrv_board_levels *l = &record->levels;
	const struct tagrv_board_counters *c = &record->counters;

	top_print(text, "  connections  %" PRIu64 " up, %" PRIu64 " waiting, %" PRIu64
		  " parting, of %" PRIu64 " peers; %" PRIu64 " parted, %" PRIu64
		  " made again; %" PRIu64 " wait for new paths\n", l->up, l->waiting,
		  l->parting, l->peers, c->parted, c->rejoined, l->waiting_for_paths);
	for (unsigned i = 0; i < record->rail_cnt; i++)
		print_rail(text, &record->rails[i]);
	if (row->endpoint->has_retransmits)
		top_print(text, "  retransmits  %" PRIu64 " of the ports, by all processes; "
			  "%.1f per s\n", row->endpoint->retransmits, row->retransmits);
}

static void print_list(struct top_text *text, const struct tagrv_board_record *record)
{
	const struct tagrv_board_levels *l = &record->levels;
	const struct tagrv_board_counters *c = &record->counters;
	double all = (double) c->listed_matched + (double) c->listed_unexpected;

	if (record->flags & TAGRV_BOARD_LISTED)
		top_print(text, "  list         %" PRIu64 " of %" PRIu64 " entries, %" PRIu64
			  " receives in software; the adapter matched %" PRIu64
			  " messages (%.0f %%)\n", l->listed, l->list_size, l->listed_soft,
			  c->listed_matched,
			  all > 0 ? 100 * (double) c->listed_matched / all : 0.0);
}

void top_text_details(struct top_text *text, const struct top_row *row)
{
	const struct tagrv_board_record *record;

	if (!row->endpoint)
		return;
	record = &row->endpoint->record;
	top_print(text, "endpoint %s of process %d (%s, tagrv %s), device %s%s%s\n", record->name,
		  (int) row->process->pid, row->process->command, row->process->release,
		  record->device,
		  record->flags & TAGRV_BOARD_ENABLED ? "" : ", not enabled",
		  record->flags & TAGRV_BOARD_SHARED_RX ?
			  ", shares receives with others" : "");
	if (!row->endpoint->answered)
		top_print(text, "  It did not answer: it makes no progress. This was %.1f s ago.\n",
			  row->age);
	if (record->flags & TAGRV_BOARD_CUT)
		top_print(text, "  Queues are long: only a part was counted.\n");
	print_protocols(text, row);
	print_onesided(text, row);
	print_receives(text, row->endpoint);
	print_sends(text, row->endpoint);
	print_connections(text, row);
	print_list(text, record);
	if (record->counters.bad_packets || record->counters.lost_injects)
		top_print(text, "  errors       %" PRIu64 " packets refused, %" PRIu64
			  " injected messages lost\n", record->counters.bad_packets,
			  record->counters.lost_injects);
}
