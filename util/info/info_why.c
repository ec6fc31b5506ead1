/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The way of one message: which protocol its length gets, why, and what happens then.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/limits.h"
#include "util/info/info_host.h"

#define UNIT	64u	/* bytes; docs/flow_control.md: an envelope costs four of them */

/* The steps of each protocol (docs/protocols of man page fi_tagrv(7), PROTOCOLS). */
static const char *const ways[TAGRV_PROTO_CNT] = {
	[TAGRV_PROTO_EAGER] = "one packet has tag and bytes; the send ends when it is copied",
	[TAGRV_PROTO_RNDV_READ] = "RTS with the tag; when a receive matches, the receiver reads "
		"the bytes from the sender's memory; FIN ends the send",
	[TAGRV_PROTO_RNDV_WRITE] = "RTS with the tag; when a receive matches, CTS names its memory; "
		"the sender writes the bytes there; DONE ends the receive",
	[TAGRV_PROTO_RNDV_COPY] = "RTS with the tag; when a receive matches, CTS; packets carry the "
		"bytes, as many at a time as the receiver grants; FIN ends the send",
	[TAGRV_PROTO_RNDV_PIPE] = "RTS with the tag; when a receive matches, CTS; pieces are "
		"registered and read one behind the other; FIN ends the send",
	[TAGRV_PROTO_EAGER_PREP] = "one packet, gathered by the device from registered memory; the "
		"send ends when the device has read it",
};

struct choice {
	struct info_table info;
	enum tagrv_proto proto;
	const char *reason;
	bool	prepared;	/* where the memory is registered */
	bool	replaced;	/* eager, but for want of credit */
};

static int choose(const char *device, const struct info_why *why, struct choice *choice)
{
	const struct tagrv_select_range *range;
	int ret = info_table_read(device, &choice->info);

	if (ret)
		return ret;
	range = tagrv_select_find(&choice->info.table, why->size);
	choice->proto = range->proto;
	choice->reason = tagrv_select_reason_text(range->reason);
	choice->replaced = why->no_credit && range->proto == TAGRV_PROTO_EAGER;
	choice->prepared = !choice->replaced && range->proto == TAGRV_PROTO_EAGER &&
			   why->size >= choice->info.table.prepared;
	if (choice->replaced) {
		choice->proto = tagrv_select_no_credit(&choice->info.table, why->size);
		choice->reason = "eager, if the receiver had room: without credit the rendezvous "
			"that is fastest for this size";
	}
	return 0;
}

/* What the receiver keeps of a message whose receive is posted later. */
static void describe_kept(const struct choice *choice, const struct info_host *host,
			  size_t size, char *text, size_t len)
{
	size_t cost = 4 * UNIT + (size + UNIT - 1) / UNIT * UNIT;

	if (choice->proto == TAGRV_PROTO_EAGER)
		snprintf(text, len, "the receiver copies it and counts %zu bytes, first against its "
			 "budget of unexpected messages, then against the %zu of this peer "
			 "(FI_TAGRV_EAGER_CREDIT); the receive copies it again", cost,
			 host->params.eager_credit);
	else
		snprintf(text, len, "the receiver keeps the envelope only; the bytes stay with the "
			 "sender until a receive matches");
}

static json_t *others(const struct choice *choice, size_t size)
{
	json_t *list = json_object();

	for (int i = 0; i < TAGRV_PROTO_RNDV_END; i++) {
		double seconds = tagrv_select_estimate((enum tagrv_proto) i, &choice->info.attr, size);

		if (i == TAGRV_PROTO_EAGER && size > choice->info.eager_limit)
			continue;
		json_object_set_new(list, tagrv_proto_name((enum tagrv_proto) i),
				    seconds < 0 ? json_null() : json_real(seconds));
	}
	return list;
}

static json_t *explain(const struct info_host *host, const char *device,
		       const struct info_why *why, int *failed)
{
	struct choice choice;
	char kept[256];
	json_t *json;
	int ret = choose(device, why, &choice);

	if (ret) {
		*failed = ret;
		return json_pack("{s:s, s:s}", "device", device, "error", fi_strerror(-ret));
	}
	json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o}", "device", device, "transport",
			 choice.info.transport, "protocol", tagrv_proto_name(choice.proto), "reason",
			 choice.reason, "way", ways[choice.proto], "prepared_if_registered",
			 choice.prepared, "estimates", others(&choice, why->size));
	if (why->unexpected) {
		describe_kept(&choice, host, why->size, kept, sizeof(kept));
		json_object_set_new(json, "unexpected", json_string(kept));
	}
	json_object_set_new(json, "source", json_string(info_table_source(&choice.info, kept,
									  sizeof(kept))));
	return json;
}

json_t *info_why_json(const struct info_host *host, const struct info_why *why, int *failed)
{
	json_t *list = json_array();
	bool any = false;

	*failed = 0;
	for (size_t i = 0; i < host->cnt; i++) {
		if (why->device && strcmp(why->device, host->descs[i].name) != 0)
			continue;
		any = true;
		json_array_append_new(list, explain(host, host->descs[i].name, why, failed));
	}
	if (!any)
		*failed = -FI_ENODEV;
	return json_pack("{s:I, s:b, s:b, s:o}", "size", (json_int_t) why->size, "unexpected",
			 why->unexpected, "no_credit", why->no_credit, "devices", list);
}

static const char *member(json_t *json, const char *name)
{
	const char *text = json_string_value(json_object_get(json, name));

	return text ? text : "";
}

static void print_one(FILE *out, json_t *device, size_t size)
{
	const char *name;
	json_t *seconds;

	fprintf(out, "%zu bytes over %s\n", size, member(device, "device"));
	if (*member(device, "error")) {
		fprintf(out, "  cannot be opened: %s\n", member(device, "error"));
		return;
	}
	fprintf(out, "  %-11s %s%s\n", "protocol", member(device, "protocol"),
		json_is_true(json_object_get(device, "prepared_if_registered")) ?
		" (prepared, if its memory is registered)" : "");
	fprintf(out, "  %-11s %s\n", "because", member(device, "reason"));
	fprintf(out, "  %-11s %s\n", "way", member(device, "way"));
	if (*member(device, "unexpected"))
		fprintf(out, "  %-11s %s\n", "unexpected", member(device, "unexpected"));
	fprintf(out, "  %-11s %s\n", "numbers", member(device, "source"));
	fprintf(out, "  %-11s", "estimates");
	json_object_foreach(json_object_get(device, "estimates"), name, seconds) {
		if (json_is_real(seconds))
			fprintf(out, " %s %.3g us,", name, json_real_value(seconds) * 1e6);
		else
			fprintf(out, " %s ?,", name);
	}
	fprintf(out, " where all may be used\n");
}

int info_why_text(FILE *out, const struct info_host *host, const struct info_why *why)
{
	json_t *json, *device;
	int failed;
	size_t i;

	json = info_why_json(host, why, &failed);
	json_array_foreach(json_object_get(json, "devices"), i, device)
		print_one(out, device, why->size);
	json_decref(json);
	return failed;
}
