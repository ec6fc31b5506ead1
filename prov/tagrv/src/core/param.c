/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of FI_TAGRV_* parameters, and how their values are read.
 */
#include "core/param.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/pool.h"

struct param {
	const char *name;
	enum fi_param_type type;
	size_t offset;		/* of the field in struct tagrv_params */
	size_t size;		/* bytes of the field; 0: a secret, in no struct */
	long long def, min, max;	/* numbers only */
	const char *help;
};

#define FIELD(f)	offsetof(struct tagrv_params, f), \
			sizeof(((struct tagrv_params *) 0)->f)

static const struct param table[] = {
	{ "DEVICES", FI_PARAM_STRING, FIELD(devices), 0, 0, 0,
	  "Comma-separated devices to offer: RDMA devices as listed by "
	  "ibv_devices, name:port for one port, and the words shm and loop "
	  "(default: shm and all with an active port)" },
	{ "IFACE", FI_PARAM_STRING, FIELD(iface), 0, 0, 0,
	  "Network interface or IP address that endpoints listen on for "
	  "connection set-up (default: that of the RDMA device, else of the "
	  "default route)" },
	{ "TRANSPORTS", FI_PARAM_STRING, FIELD(transports), 0, 0, 0,
	  "Comma-separated transports to use: shm between processes of one "
	  "host, verbs for RDMA devices (default: shm,verbs)" },
	{ "RAILS", FI_PARAM_STRING, FIELD(rails), 0, 0, 0,
	  "Adapters that an endpoint uses together: a number, counted from the "
	  "domain's own one on, or their names joined by + or commas; auto: one, "
	  "or more if the launcher says that each process of this host can have "
	  "two or more (default: auto)" },
	{ "LOCAL_RANK", FI_PARAM_INT, FIELD(local_rank), -1, -1, 1 << 20,
	  "Number of this process among those of its host, by which equally good RDMA "
	  "devices are shared out: fi_getinfo lists another one first for each; 0 for all "
	  "processes: they are not shared out; -1: as the launcher says (default: -1)" },
	{ "EAGER_MAX", FI_PARAM_SIZE_T, FIELD(eager_max), 8192, 64, 65536,
	  "Most bytes of payload that travel with their envelope; larger "
	  "messages use the rendezvous protocol (default: 8192)" },
	{ "EAGER_CREDIT", FI_PARAM_SIZE_T, FIELD(eager_credit), 393216, 16384,
	  1 << 30,
	  "Bytes of unexpected messages that an endpoint keeps for one peer, "
	  "each with its envelope of 256 bytes; the peer keeps further "
	  "messages itself until they are received (default: 393216)" },
	{ "EAGER_BUDGET", FI_PARAM_SIZE_T, FIELD(eager_budget), 0, 0,
	  1LL << 37,
	  "Bytes of memory for unexpected messages of all peers that an endpoint "
	  "keeps before they count against their sender's "
	  "FI_TAGRV_EAGER_CREDIT; 0: a sixteenth of the memory that the process "
	  "may use, divided by the processors, but at least 72 MiB (or an "
	  "eighth of the memory) and at most 512 MiB (default: 0)" },
	{ "RNDV_THRESH", FI_PARAM_STRING, FIELD(rndv_thresh), 0, 0, 0,
	  "Messages of at least so many bytes use the rendezvous protocol; auto "
	  "computes it from the device's times and rates (default: auto)" },
	{ "RNDV_THRESH_FALLBACK", FI_PARAM_STRING, FIELD(rndv_fallback), 0, 0, 0,
	  "FI_TAGRV_RNDV_THRESH for devices over which rendezvous is computed "
	  "to be slower at every size; inf: all messages up to "
	  "FI_TAGRV_EAGER_MAX are eager (default: inf)" },
	{ "RNDV_PERF_DIFF", FI_PARAM_INT, FIELD(rndv_perf_diff), 1, 0, 1000,
	  "Percent by which a rendezvous may be slower than an eager message "
	  "and still be chosen, because it needs no buffer of the receiver "
	  "(default: 1)" },
	{ "PROTO", FI_PARAM_STRING, FIELD(proto), 0, 0, 0,
	  "Protocols to use for ranges of sizes, the upper end excluded, as in "
	  "eager:0-4k,get:4k-; for sizes not named, or where the protocol is "
	  "not possible, the provider chooses (default: all are chosen)" },
	{ "PROFILE", FI_PARAM_STRING, FIELD(profile), 0, 0, 0,
	  "File with times and rates measured by tagrv_tune, or none "
	  "(default: tagrv/profile in XDG_CONFIG_HOME or ~/.config)" },
	{ "MAX_OPS", FI_PARAM_SIZE_T, FIELD(max_ops), 65536, 1024, 1048575,
	  "Sends outstanding per endpoint before -FI_EAGAIN (default: 65536)" },
	{ "MAX_RECVS", FI_PARAM_SIZE_T, FIELD(max_recvs), 0, 0, TAGRV_POOL_MAX,
	  "Receives posted per endpoint or shared receive context before "
	  "-FI_EAGAIN; 0: as far as memory goes, up to 1048575 (default: 0)" },
	{ "READ_SEGMENT", FI_PARAM_SIZE_T, FIELD(read_segment), 524288, 4096,
	  1LL << 30,
	  "Bytes moved by one RDMA read or write of a rendezvous, and of one "
	  "piece of a pipeline (default: 524288)" },
	{ "READ_DEPTH", FI_PARAM_SIZE_T, FIELD(read_depth), 4, 1, 64,
	  "RDMA reads or writes of FI_TAGRV_READ_SEGMENT bytes in flight per peer, "
	  "within the device's limit; of shorter ones up to 16, if that is more, "
	  "with no more bytes together; pieces of a pipeline registered at the "
	  "same time (default: 4)" },
	{ "RNDV", FI_PARAM_STRING, FIELD(rndv), 0, 0, 0,
	  "Who moves the bytes of a rendezvous: the receiver reads them (get), "
	  "the sender writes them (put) or sends them in copied fragments "
	  "(copy), or the receiver reads them in pieces that are registered one "
	  "by one (pipeline); auto: as the sender proposes, by the table of "
	  "protocols (default: auto)" },
	{ "COPY_DEPTH", FI_PARAM_SIZE_T, FIELD(copy_depth), 8, 1, 64,
	  "Fragments in flight per message that is copied through the packet "
	  "buffers (default: 8)" },
	{ "FAST", FI_PARAM_BOOL, FIELD(fast), 1, 0, 1,
	  "Short ways for the commonest messages and reads; no takes the "
	  "general way for all of them, to compare both or to look for a fault "
	  "(default: yes)" },
	{ "REGCACHE", FI_PARAM_STRING, FIELD(regcache), 0, 0, 0,
	  "Keep memory registered after the operation, for the next one (yes), "
	  "or register it each time (no); auto keeps it where the kernel reports "
	  "when it is unmapped, yes warns where it does not (default: auto)" },
	{ "REGCACHE_MONITOR", FI_PARAM_STRING, FIELD(regcache_monitor), 0, 0, 0,
	  "Who reports that memory is unmapped whose registration is kept: the kernel "
	  "by userfaultfd (userfaultfd), or libtagrv-hooks.so, if LD_PRELOAD has it "
	  "(hooks); auto: the first of them that works (default: auto)" },
	{ "REGCACHE_MAX", FI_PARAM_SIZE_T, FIELD(regcache_max), 0, 0, 1LL << 46,
	  "Most bytes that are kept registered per domain and device; 0: half of "
	  "the limit of locked memory, or without a limit a quarter of the "
	  "memory of the host (default: 0)" },
	{ "EXPOSE", FI_PARAM_STRING, FIELD(expose), 0, 0, 0,
	  "How long and how far a peer that reads a message may read the sender's "
	  "memory: the bytes of this and earlier messages while their registration "
	  "is kept (cache), or the bytes of this message until it ends, at the "
	  "price of a registration for each long message (message) "
	  "(default: cache)" },
	{ "ATOMICS", FI_PARAM_STRING, FIELD(atomics), 0, 0, 0,
	  "Who carries out atomics on a target's memory: its processor (cpu), which "
	  "has all operations, or its RDMA device (device), which adds to and swaps "
	  "64-bit integers while the processor computes; the same for all processes "
	  "of a job (default: cpu)" },
	{ "RX_BUFS", FI_PARAM_SIZE_T, FIELD(rx_bufs), 4096, 64, 1 << 20,
	  "Most receive buffers per endpoint; an endpoint starts with 512 and "
	  "adds more under load (default: 4096)" },
	{ "TX_BUFS", FI_PARAM_SIZE_T, FIELD(tx_bufs), 1024, 32, 1 << 20,
	  "Most copy buffers for sends per endpoint; an endpoint starts with "
	  "128 and adds more under load (default: 1024)" },
	{ "MAX_QPS", FI_PARAM_SIZE_T, FIELD(max_qps), 0, 0, 1 << 24,
	  "Most queue pairs of a domain on a device, at least 2: connections to further "
	  "peers wait until others are idle, which are then closed and made again when "
	  "they are needed; 0: as many as the device has, and if the launcher says how "
	  "many processes share it, idle connections beyond three quarters of this "
	  "process's share are closed for others (default: 0)" },
	{ "SQ_DEPTH", FI_PARAM_SIZE_T, FIELD(sq_depth), 63, 16, 8192,
	  "Work requests a queue pair can hold (default: 63)" },
	{ "INLINE", FI_PARAM_SIZE_T, FIELD(inline_max), 92, 0, 1024,
	  "Bytes of header and payload to put into the work request itself, "
	  "as far as the device can (default: 92)" },
	{ "SIGNAL_EVERY", FI_PARAM_SIZE_T, FIELD(signal_every), 16, 1, 1024,
	  "Work requests retired by one completion (default: 16)" },
	{ "BURST", FI_PARAM_SIZE_T, FIELD(burst), 0, 0, 8192,
	  "Packets in flight to one peer beyond which small messages wait and "
	  "share packets; 0: 8 over software devices, no bound over hardware "
	  "(default: 0)" },
	{ "SRQ", FI_PARAM_BOOL, FIELD(srq), 1, 0, 1,
	  "Share receive buffers between peers if the device can "
	  "(default: yes)" },
	{ "HW_TAGS", FI_PARAM_BOOL, FIELD(hw_tags), 0, 0, 1,
	  "Let adapters match tagged messages with receives where they can: "
	  "InfiniBand adapters with tag matching; tags have 48 bits then, and each "
	  "peer takes two queue pairs; the same for all processes of a job "
	  "(default: no)" },
	{ "RELAXED_ORDERING", FI_PARAM_BOOL, FIELD(relaxed_ordering), 1, 0, 1,
	  "Let the device write the bytes of a message to memory in any order, "
	  "which is faster on many hosts; no: if one is slower with it "
	  "(default: yes)" },
	{ "GID_INDEX", FI_PARAM_INT, FIELD(gid_index), -1, -1, 255,
	  "GID table index to use; -1 chooses the address that the endpoint "
	  "listens on, else RoCE v2 with an IPv4 address first (default: -1)" },
	{ "TRAFFIC_CLASS", FI_PARAM_INT, FIELD(traffic_class), -1, -1, 255,
	  "Traffic class (DSCP and ECN) of RoCE packets; -1: the one that the host's "
	  "administrator has set for the device, else 0 (default: -1)" },
	{ "SERVICE_LEVEL", FI_PARAM_INT, FIELD(service_level), 0, 0, 15,
	  "Service level of InfiniBand packets (default: 0)" },
	{ "PKEY", FI_PARAM_INT, FIELD(pkey), 0, 0, 65535,
	  "InfiniBand partition to use, as in 0x8001; 0: the first that the port is a "
	  "full member of (default: 0)" },
	{ "QP_TIMEOUT", FI_PARAM_INT, FIELD(qp_timeout), 17, 1, 31,
	  "Time a queue pair waits for an ack, as 4.096 us times two to this "
	  "power (default: 17, about 0.54 s)" },
	{ "QP_RETRY", FI_PARAM_INT, FIELD(qp_retry), 6, 0, 6,
	  "Retries after FI_TAGRV_QP_TIMEOUT before the peer is unreachable, at "
	  "most 6 (default: 6)" },
	{ "REQUEST_TIMEOUT", FI_PARAM_INT, FIELD(request_timeout), 0, -1, 86400,
	  "Seconds after which a connection fails when the device ends none of its "
	  "requests; 0: twice the time that FI_TAGRV_QP_TIMEOUT and all retries "
	  "take; -1: never. Checked every FI_TAGRV_PROBE seconds (default: 0)" },
	{ "PROBE", FI_PARAM_INT, FIELD(probe), 5, 0, 3600,
	  "Seconds between looks at connections: over a device, peers that operations "
	  "wait for are probed by an empty write, and requests that do not end are "
	  "noticed; over shared memory, peers that closed without a word are; 0: none "
	  "(default: 5)" },
	{ "MAX_SOCKETS", FI_PARAM_SIZE_T, FIELD(max_sockets), 64, 0, 1 << 20,
	  "Most TCP sockets that an endpoint keeps to connected peers: beyond, the least "
	  "recently used one is closed by agreement, and opened again when it is needed; "
	  "0, or with FI_TAGRV_PROBE=0: one per peer (default: 64)" },
	{ "SHM_RING", FI_PARAM_SIZE_T, FIELD(shm_ring), 65536, 16384, 4194304,
	  "Bytes of shared memory per connection of two local endpoints and "
	  "direction, rounded down to a power of two (default: 65536)" },
	{ "SHM_CMA", FI_PARAM_STRING, FIELD(shm_cma), 0, 0, 0,
	  "Read large messages of local peers with process_vm_readv (yes) or "
	  "through the shared memory (no); auto measures which is faster "
	  "(default: auto)" },
	{ "SHM_HELP", FI_PARAM_SIZE_T, FIELD(shm_help), 131072, 0, 1 << 30,
	  "Reads with process_vm_readv of at least so many bytes are shared with the "
	  "sender, which copies a part if it has nothing else to do; 0: none "
	  "(default: 131072)" },
	{ "CONNECT_TIMEOUT", FI_PARAM_INT, FIELD(connect_timeout), 30, 1, 3600,
	  "Seconds after which operations fail when a peer cannot be reached "
	  "(default: 30)" },
	{ "PEER_TIMEOUT", FI_PARAM_INT, FIELD(peer_timeout), 30, 1, 3600,
	  "Seconds that a connection over several adapters waits when none of them "
	  "reaches the peer any more, before its operations fail (default: 30)" },
	{ "CLOSE_TIMEOUT", FI_PARAM_INT, FIELD(close_timeout), 5, 0, 3600,
	  "Most seconds fi_close waits until peers have received what was sent "
	  "to them, or have ended transfers with a region (default: 5)" },
	{ "PEER_ERRORS", FI_PARAM_BOOL, FIELD(peer_errors), 0, 0, 1,
	  "End receives that name a source (FI_DIRECTED_RECV) with an error when "
	  "the source has died or closed its endpoint, or cannot be reached; no: "
	  "they wait for it to be restarted (default: no)" },
	{ "JOB_KEY", FI_PARAM_STRING, 0, 0, 0, 0, 0,
	  "Secret of at least 16 characters that the processes of a job share, "
	  "file:/path of a file that has it, or none; processes with another "
	  "secret or without one are refused (default: none, but different jobs "
	  "of one launcher are kept apart)" },
	{ "MATCH_STATS", FI_PARAM_INT, FIELD(match_stats), 0, 0, 86400,
	  "Seconds between log lines, at level info, with the length of each "
	  "endpoint's queues and the cost of searches, and a last line when the "
	  "endpoint is closed; 0: none (default: 0)" },
	{ "DUMP", FI_PARAM_STRING, FIELD(dump), 0, 0, 0,
	  "File, or stderr, that the state of all endpoints is appended to when an "
	  "operation is older than FI_TAGRV_DUMP_AFTER (default: none)" },
	{ "DUMP_AFTER", FI_PARAM_INT, FIELD(dump_after), 60, 0, 86400,
	  "Seconds after which FI_TAGRV_DUMP takes an operation for one that hangs; "
	  "0: never (default: 60)" },
	{ "TOP", FI_PARAM_BOOL, FIELD(top), 1, 0, 1,
	  "Show tagrv_top of the same user what this process's endpoints do, when it "
	  "asks; no: it cannot look (default: yes)" },
};

void tagrv_param_define(void)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(table); i++)
		fi_param_define(&tagrv_prov, table[i].name, table[i].type, "%s",
				table[i].help);
}

static atomic_bool warned[TAGRV_ARRAY_SIZE(table)];

/* True once per parameter: it is read by every getinfo call, warned of once. */
static bool first_warning(const struct param *p)
{
	return !atomic_exchange(&warned[p - table], true);
}

/*
 * The text of the environment variable, NULL: not set. It is parsed here because
 * libfabric accepts "4x" as 4 and "x" as 0 without a word.
 */
static const char *env_text(const struct param *p)
{
	char name[64];

	snprintf(name, sizeof(name), "FI_TAGRV_%s", p->name);
	return getenv(name);
}

static long long in_range(const struct param *p, long long value)
{
	if (value >= p->min && value <= p->max)
		return value;
	if (first_warning(p))
		tagrv_warn("FI_TAGRV_%s is %lld, but must be %lld to %lld: the "
			   "nearest is used\n", p->name, value, p->min, p->max);
	return value < p->min ? p->min : p->max;
}

/* The value that libfabric has from elsewhere (a file), or the default. */
static long long libfabric_value(const struct param *p)
{
	size_t size;
	int number;

	switch (p->type) {
	case FI_PARAM_SIZE_T:
		return fi_param_get_size_t(&tagrv_prov, p->name, &size) ?
		       p->def : (long long) size;
	case FI_PARAM_BOOL:
		return fi_param_get_bool(&tagrv_prov, p->name, &number) ?
		       p->def : number;
	default:
		return fi_param_get_int(&tagrv_prov, p->name, &number) ?
		       p->def : number;
	}
}

/*
 * Text that exceeds long long becomes LLONG_MIN or LLONG_MAX, which are outside
 * of every range of the table.
 */
static long long read_number(const struct param *p)
{
	const char *text = env_text(p);
	long long value;
	char *end;

	if (!text)
		return in_range(p, libfabric_value(p));
	value = strtoll(text, &end, 0);
	if (end != text && !*end)
		return in_range(p, value);
	if (first_warning(p))
		tagrv_warn("FI_TAGRV_%s is '%s', which is no number: %lld is "
			   "used\n", p->name, text, p->def);
	return p->def;
}

/* The words that libfabric accepts; true has an odd index. */
static const char *const bool_words[] = {
	"0", "1", "false", "true", "no", "yes", "off", "on",
};

/* Parsed here: libfabric would warn of any other word at every read. */
static bool read_bool(const struct param *p)
{
	const char *text = env_text(p);

	if (!text)
		return libfabric_value(p);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(bool_words); i++)
		if (!strcasecmp(text, bool_words[i]))
			return i & 1;
	if (first_warning(p))
		tagrv_warn("FI_TAGRV_%s is '%s', which is neither yes nor no: "
			   "%s is used\n", p->name, text,
			   p->def ? "yes" : "no");
	return p->def;
}

static void read_string(const struct param *p, char *field)
{
	char *value = NULL;

	field[0] = '\0';
	if (fi_param_get_str(&tagrv_prov, p->name, &value) || !value)
		return;
	if (snprintf(field, p->size, "%s", value) >= (int) p->size &&
	    first_warning(p))
		tagrv_warn("FI_TAGRV_%s is longer than %zu characters and was "
			   "cut\n", p->name, p->size - 1);
}

static void read_param(const struct param *p, void *field)
{
	if (!p->size)
		return;
	switch (p->type) {
	case FI_PARAM_STRING:
		read_string(p, field);
		break;
	case FI_PARAM_SIZE_T:
		*(size_t *) field = (size_t) read_number(p);
		break;
	case FI_PARAM_BOOL:
		*(bool *) field = read_bool(p);
		break;
	default:
		*(int *) field = (int) read_number(p);
	}
}

void tagrv_param_read(struct tagrv_params *params)
{
	memset(params, 0, sizeof(*params));
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(table); i++)
		read_param(&table[i], (char *) params + table[i].offset);
}

size_t tagrv_param_max_recvs(const struct tagrv_params *params)
{
	return params->max_recvs ? params->max_recvs : TAGRV_POOL_MAX;
}

bool tagrv_param_atomics_by_device(const struct tagrv_params *params)
{
	return !strcasecmp(params->atomics, "device");
}

const char *tagrv_param_job_key(void)
{
	const struct param *p = table;
	const char *text;
	char *value = NULL;

	while (strcmp(p->name, "JOB_KEY"))
		p++;
	/* libfabric 1.17 would log it. */
	text = env_text(p);
	if (text)
		return text;
	return fi_param_get_str(&tagrv_prov, p->name, &value) ? NULL : value;
}

const char *tagrv_param_name(size_t i)
{
	return i < TAGRV_ARRAY_SIZE(table) ? table[i].name : NULL;
}

const char *tagrv_param_help(size_t i)
{
	return i < TAGRV_ARRAY_SIZE(table) ? table[i].help : NULL;
}

const char *tagrv_param_value(size_t i, const struct tagrv_params *params,
			      char *text, size_t size)
{
	const void *field = (const char *) params + table[i].offset;

	if (!table[i].size) {
		snprintf(text, size, "%s", env_text(&table[i]) ? "not shown" : "");
		return text;
	}
	switch (table[i].type) {
	case FI_PARAM_STRING:
		snprintf(text, size, "%s", (const char *) field);
		break;
	case FI_PARAM_SIZE_T:
		snprintf(text, size, "%zu", *(const size_t *) field);
		break;
	case FI_PARAM_BOOL:
		snprintf(text, size, "%s", *(const bool *) field ? "yes" : "no");
		break;
	default:
		snprintf(text, size, "%d", *(const int *) field);
	}
	return text;
}

const char *tagrv_param_source(size_t i)
{
	uint64_t value;		/* large enough for every type */

	if (env_text(&table[i]))
		return "environment";
	return fi_param_get(&tagrv_prov, table[i].name, &value) ? "default" :
								  "libfabric";
}
