/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads with one copy ("CMA", cross memory attach): process_vm_readv from the
 * owner's memory.
 *
 * One call reads the data of several gets and then the owner's table entries. The
 * entries show whether the keys were valid until after the data were read. A get
 * whose key was not valid fails, and its data are undefined.
 *
 * Some systems do not allow the call (ptrace rules, seccomp, namespaces), so a probe
 * per peer reads the peer's token first. It also proves that the process id means
 * the same process here. Not every machine is faster this way: shm_rate.c.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>

#include "core/log.h"
#include "xport/shm/shm_priv.h"

#define BATCH_GETS	8u
#define BATCH_ENTRIES	64u	/* of the table, 2 KiB */

/* Two copies take twice the processor time: they must be twice as fast. */
#define TWO_COPIES	2

/* ---- what is not allowed ---- */

/* What the user can do about a kernel that refuses. */
static const char *advice(int err)
{
	switch (err) {
	case EPERM:
		return "kernel.yama.ptrace_scope=0, or the capability SYS_PTRACE and a common "
		       "PID namespace in containers, would allow it";
	case 0:
	case ENOSYS:
		return "a filter of system calls, such as a container's, forbids it; "
		       "docker and podman: --cap-add=SYS_PTRACE";
	case ESRCH:
		return "containers need a common PID namespace for it";
	default:
		return "FI_TAGRV_SHM_CMA=no avoids the attempt";
	}
}

/* Logs, once per process, why gets use the rings, which costs speed only. err: 0 if unknown. */
static void log_fallback(const char *when, int err)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&logged))
		tagrv_warn("shm: large messages are copied twice, since process_vm_readv %s (%s): "
			   "%s\n", when, err ? strerror(err) : "not allowed", advice(err));
}

/* ---- choice ---- */

bool tagrv_shm_cma_wanted(const struct tagrv_params *params)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	const struct shm_rates *rates = tagrv_shm_rates();
	const char *how = params->shm_cma;
	bool wanted = rates->cma * TWO_COPIES > rates->ring;

	if (!strcasecmp(how, "yes"))
		wanted = rates->cma > 0;
	else if (!strcasecmp(how, "no"))
		wanted = false;
	else if (*how && strcasecmp(how, "auto") &&
		 !atomic_flag_test_and_set(&warned))
		tagrv_warn("FI_TAGRV_SHM_CMA is '%s', but must be auto, yes or "
			   "no: auto is used\n", how);
	if (rates->cma <= 0 && strcasecmp(how, "no") != 0)
		log_fallback("fails even within this process", 0);
	tagrv_info("shm: large messages are read %s\n",
		   wanted ? "with process_vm_readv" : "through the rings");
	return wanted;
}

double tagrv_shm_bandwidth(bool cma)
{
	return cma ? tagrv_shm_rates()->cma : tagrv_shm_rates()->ring;
}

/* ---- reading ---- */

bool tagrv_shm_cma_probe(int pid, uint64_t table, uint64_t token)
{
	uint64_t got = ~token;
	struct iovec local = { &got, sizeof(got) };
	struct iovec remote = { (void *) (uintptr_t) table, sizeof(got) };

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(got) &&
	    got == token)
		return true;
	log_fallback("does not reach a peer", errno);
	return false;
}

/*
 * What one call reads: data of several gets of one link, then the part of the
 * owner's table that holds all their entries. The fixed cost of a call (entering the
 * kernel, finding the process, checking permission) equals that of copying 10 KiB.
 */
struct batch {
	struct shm_link *link;
	unsigned cnt;
	struct {
		struct shm_get *get;
		uint32_t gen;
		uint64_t at;	/* offset in the get */
		size_t	len;
	} part[BATCH_GETS];
	size_t	bytes;
	uint32_t low, high;	/* indexes in the table, inclusive */
};

/* Adds data of a get. False: the batch is full, or the get does not fit in. */
static bool batch_add(struct batch *b, struct shm_get *get, uint64_t at,
		      uint64_t most)
{
	uint32_t low = b->cnt ? TAGRV_MIN(b->low, get->index) : get->index;
	uint32_t high = b->cnt ? TAGRV_MAX(b->high, get->index) : get->index;
	size_t len = (size_t) TAGRV_MIN(most, (uint64_t) SHM_CMA_PIECE - b->bytes);

	if (b->cnt == BATCH_GETS || high - low >= BATCH_ENTRIES ||
	    (!len && most) ||
	    !get->index || get->index >= SHM_TABLE ||
	    (b->cnt && get->link != b->link))
		return false;
	b->link = get->link;
	b->low = low;
	b->high = high;
	b->part[b->cnt].get = get;
	b->part[b->cnt].gen = get->gen;
	b->part[b->cnt].at = at;
	b->part[b->cnt++].len = len;
	b->bytes += len;
	return true;
}

/* Returns 0 or an errno value; EFAULT also if only a part was read. */
static int read_batch(const struct batch *b, struct shm_entry *entries)
{
	struct iovec local[BATCH_GETS + 1], remote[BATCH_GETS + 1];
	size_t size = (b->high - b->low + 1) * sizeof(*entries);
	uint64_t at = b->link->peer_table + b->low * sizeof(*entries);
	ssize_t ret;

	for (unsigned i = 0; i < b->cnt; i++) {
		const struct shm_get *get = b->part[i].get;
		uint64_t raddr = get->raddr + b->part[i].at;

		local[i] = (struct iovec) { get->addr + b->part[i].at,
					    b->part[i].len };
		remote[i] = (struct iovec) { (void *) (uintptr_t) raddr,
					     b->part[i].len };
	}
	local[b->cnt] = (struct iovec) { entries, size };
	remote[b->cnt] = (struct iovec) { (void *) (uintptr_t) at, size };
	ret = process_vm_readv(b->link->peer_pid, local, b->cnt + 1, remote,
			       b->cnt + 1, 0);
	if (ret < 0)
		return errno;
	return ret == (ssize_t) (b->bytes + size) ? 0 : EFAULT;
}

void tagrv_shm_cma_error(struct shm_get *get, int err)
{
	struct shm_link *link = get->link;

	if (err == EFAULT || err == EINVAL || err == EACCES) {
		tagrv_shm_get_refuse(get);
		return;
	}
	if (err == ESRCH) {
		atomic_store(&link->peer_dead, 1);
		tagrv_shm_check_peer(link);
	} else {
		log_fallback("failed", err);
	}
	link->cma = false;
}

/* Requests the rest of a get from the owner, through the rings. */
static void convert_to_ring(struct shm_get *get)
{
	get->addr += get->copied;
	get->raddr += get->copied;
	get->len -= get->copied;
	get->copied = 0;
	tagrv_shm_get_set_state(get, SHM_GET_QUEUED);
	tagrv_list_remove(&get->node);
	tagrv_list_push_tail(&shm_xport_of_link(get->link)->queued_gets,
			     &get->node);
}

/* Whether the entry, which was read after the data, still allowed to read them. */
static bool is_allowed(const struct shm_get *get, uint64_t at, size_t len,
		       struct shm_entry *entry)
{
	return tagrv_shm_entry_covers(atomic_load(&entry->secret), entry->addr,
				      entry->len, get->secret, get->raddr + at,
				      len);
}

int tagrv_shm_cma_read(struct shm_get *get, uint64_t at, size_t len)
{
	struct shm_entry entries[BATCH_ENTRIES];
	struct batch b = { .cnt = 0 };
	int err;

	assert(len <= SHM_CMA_PIECE);
	if (!batch_add(&b, get, at, len))
		return EACCES;
	err = read_batch(&b, entries);
	return err || is_allowed(get, at, len, entries) ? err : EACCES;
}

/* Checks the key of a get whose next len bytes were read, and counts them. */
static void account(struct shm_get *get, size_t len, struct shm_entry *entry)
{
	if (!is_allowed(get, get->copied, len, entry)) {
		tagrv_shm_get_refuse(get);
		return;
	}
	get->copied += len;
	if (get->copied == get->len)
		tagrv_shm_get_finish(get, 0);
}

/* Reads a batch; returns the events. 0: it failed, and must be split. */
static unsigned copy_batch(const struct batch *b)
{
	struct shm_entry entries[BATCH_ENTRIES];
	int err = read_batch(b, entries);

	if (err && b->cnt == 1) {
		tagrv_shm_cma_error(b->part[0].get, err);
		return 1;
	}
	if (err)
		return 0;	/* the caller reads one get at a time */
	for (unsigned i = 0; i < b->cnt; i++) {
		struct shm_get *get = b->part[i].get;

		/* The callback of an earlier get may have ended this one. */
		if (get->state == SHM_GET_CMA && get->gen == b->part[i].gen)
			account(get, b->part[i].len,
				&entries[get->index - b->low]);
	}
	return b->cnt;
}

/* Adds what is left of a get. */
static bool add_rest(struct batch *b, struct shm_get *get)
{
	return !get->help &&
	       batch_add(b, get, get->copied, get->len - get->copied);
}

/* Copies a get and those behind it, as far as one call reads them. */
static unsigned copy_from(struct shm_xport *xp, struct shm_get *first)
{
	struct tagrv_list *pos = &first->node;
	struct batch b = { .cnt = 0 };
	unsigned events;

	if (!first->link->cma) {
		convert_to_ring(first);
		return 1;
	}
	for (; pos != &xp->cma_gets; pos = pos->next)
		if (!add_rest(&b, tagrv_container_of(pos, struct shm_get, node)))
			break;
	if (!b.cnt) {
		tagrv_shm_get_refuse(first);
		return 1;
	}
	events = copy_batch(&b);
	if (events)
		return events;
	b = (struct batch) { .cnt = 0 };
	return add_rest(&b, first) ? copy_batch(&b) : 0;
}

unsigned tagrv_shm_cma_pass(struct shm_xport *xp)
{
	struct tagrv_list *pos;

	if (tagrv_list_empty(&xp->cma_gets))
		return 0;
	tagrv_shm_help_ask(xp);
	tagrv_list_for_each(&xp->cma_gets, pos) {
		struct shm_get *get =
			tagrv_container_of(pos, struct shm_get, node);
		unsigned events = get->help ? tagrv_shm_help_pass(get) :
					      copy_from(xp, get);

		/* 0: this one waits for its owner. */
		if (events)
			return events;
	}
	return 0;
}
