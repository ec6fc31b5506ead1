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
	{ "one-sided", COUNTER(onesided_tx), COUNTER(onesided_rx) },
};

static uint64_t counter_at(const struct top_endpoint *endpoint, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *) &endpoint->record.counters + offset, sizeof(value));
	return value;
}

static void print_counter(struct top_text *text, const struct top_row *row, size_t offset)
{
	uint64_t now = counter_at(row->endpoint, offset);
	char total[TOP_SHORT], rate[TOP_SHORT];

	top_print(text, " %10s", top_short((double) now, total));
	if (row->seconds > 0)
		top_print(text, " %9s", top_short(top_rate(now, counter_at(row->before, offset),
							   row->seconds), rate));
	else
		top_print(text, " %9s", "-");
}

static void print_protocols(struct top_text *text, const struct top_row *row)
{
	top_print(text, "  %-12s %10s %9s %10s %9s\n", "protocol", "out", "per s", "in", "per s");
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(protocols); i++) {
		top_print(text, "  %-12s", protocols[i].name);
		print_counter(text, row, protocols[i].tx);
		print_counter(text, row, protocols[i].rx);
		top_print(text, "\n");
	}
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
	print_receives(text, row->endpoint);
	print_sends(text, row->endpoint);
	print_connections(text, row);
	print_list(text, record);
	if (record->counters.bad_packets || record->counters.lost_injects)
		top_print(text, "  errors       %" PRIu64 " packets refused, %" PRIu64
			  " injected messages lost\n", record->counters.bad_packets,
			  record->counters.lost_injects);
}
