/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads with one copy: process_vm_readv from the owner's memory.
 *
 * One call reads the data of several gets and then the owner's table entries.
 * They tell if the keys were good until then, as the owner would for a piece that
 * it copies itself; what was read for a bad one is worth nothing, and the get
 * fails.
 *
 * Not every kernel lets us (ptrace rules, seccomp, namespaces), so a probe per
 * peer reads its token first: that also proves that the process number means
 * the same process here. And not every machine is faster this way: shm_rate.c.
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

/* Two copies must be that many times as fast: that is what they cost more. */
#define FREE_HAND	2

/* ---- which way ---- */

bool tagrv_shm_cma_wanted(const struct tagrv_params *params)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	const struct shm_rates *rates = tagrv_shm_rates();
	const char *how = params->shm_cma;
	bool wanted = rates->cma * FREE_HAND > rates->ring;

	if (!strcasecmp(how, "yes"))
		wanted = rates->cma > 0;
	else if (!strcasecmp(how, "no"))
		wanted = false;
	else if (*how && strcasecmp(how, "auto") &&
		 !atomic_flag_test_and_set(&told))
		tagrv_warn("FI_TAGRV_SHM_CMA is '%s', but must be auto, yes or "
			   "no: auto is used\n", how);
	tagrv_info("shm: large messages are read %s\n",
		   wanted ? "with process_vm_readv" : "through the rings");
	return wanted;
}

double tagrv_shm_bandwidth(bool cma)
{
	return cma ? tagrv_shm_rates()->cma : tagrv_shm_rates()->ring;
}

/* ---- reading ---- */

static void fall_back(const char *when, int err)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&told))
		tagrv_info("shm: process_vm_readv %s: %s; large messages go "
			   "through the rings\n", when, strerror(err));
}

bool tagrv_shm_cma_probe(int pid, uint64_t table, uint64_t token)
{
	uint64_t got = ~token;
	struct iovec local = { &got, sizeof(got) };
	struct iovec remote = { (void *) (uintptr_t) table, sizeof(got) };

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(got) &&
	    got == token)
		return true;
	fall_back("does not reach a peer", errno);
	return false;
}

/*
 * What one call reads: pieces of several gets of one link, then the part of the
 * owner's table that holds all their entries. Entering the kernel, finding the
 * process and asking whether we may cost as much as copying 10 KiB.
 */
struct batch {
	struct shm_link *link;
	unsigned cnt;
	struct {
		struct shm_get *get;
		uint32_t gen;
		size_t	len;
	} part[BATCH_GETS];
	size_t	bytes;
	uint32_t low, high;	/* entries of the table */
};

static bool join(struct batch *b, struct shm_get *get)
{
	uint32_t low = b->cnt ? TAGRV_MIN(b->low, get->index) : get->index;
	uint32_t high = b->cnt ? TAGRV_MAX(b->high, get->index) : get->index;
	size_t len = TAGRV_MIN(get->len - get->copied,
			       (size_t) SHM_CMA_PIECE - b->bytes);

	if (b->cnt == BATCH_GETS || high - low >= BATCH_ENTRIES ||
	    (!len && get->copied < get->len) ||
	    !get->index || get->index >= SHM_TABLE ||
	    (b->cnt && get->link != b->link))
		return false;
	b->link = get->link;
	b->low = low;
	b->high = high;
	b->part[b->cnt].get = get;
	b->part[b->cnt].gen = get->gen;
	b->part[b->cnt++].len = len;
	b->bytes += len;
	return true;
}

/* 0, or what the kernel says; EFAULT, too, where it read only a part. */
static int read_batch(const struct batch *b, struct shm_entry *entries)
{
	struct iovec local[BATCH_GETS + 1], remote[BATCH_GETS + 1];
	size_t size = (b->high - b->low + 1) * sizeof(*entries);
	uint64_t at = b->link->peer_table + b->low * sizeof(*entries);
	ssize_t ret;

	for (unsigned i = 0; i < b->cnt; i++) {
		const struct shm_get *get = b->part[i].get;
		uint64_t raddr = get->raddr + get->copied;

		local[i] = (struct iovec) { get->addr + get->copied,
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

static void on_error(struct shm_get *get, int err)
{
	struct shm_link *link = get->link;

	if (err == EFAULT || err == EINVAL) {
		tagrv_shm_get_finish(get, -FI_EACCES);
		return;
	}
	if (err == ESRCH) {
		atomic_store(&link->peer_dead, 1);
		tagrv_shm_check_peer(link);
	} else {
		fall_back("failed", err);
	}
	link->cma = false;
}

/* The owner is asked for what is left of a get. */
static void convert(struct shm_get *get)
{
	get->addr += get->copied;
	get->raddr += get->copied;
	get->len -= get->copied;
	get->copied = 0;
	get->state = SHM_GET_ASK;
	tagrv_list_remove(&get->node);
	tagrv_list_push_tail(&shm_xport_of_link(get->link)->ask_gets,
			     &get->node);
}

static void copied(struct shm_get *get, size_t len,
		   const struct shm_entry *entry)
{
	if (!tagrv_shm_entry_covers(atomic_load(&entry->secret), entry->addr,
				    entry->len, get->secret,
				    get->raddr + get->copied, len)) {
		tagrv_shm_get_finish(get, -FI_EACCES);
		return;
	}
	get->copied += len;
	if (get->copied == get->len)
		tagrv_shm_get_finish(get, 0);
}

static unsigned copy_batch(const struct batch *b)
{
	struct shm_entry entries[BATCH_ENTRIES];
	int err = read_batch(b, entries);

	if (err && b->cnt == 1) {
		on_error(b->part[0].get, err);
		return 1;
	}
	if (err)
		return 0;	/* whose fault it is shows one by one */
	for (unsigned i = 0; i < b->cnt; i++) {
		struct shm_get *get = b->part[i].get;

		/* What ends one may end the link with all others. */
		if (get->state == SHM_GET_CMA && get->gen == b->part[i].gen)
			copied(get, b->part[i].len,
			       &entries[get->index - b->low]);
	}
	return b->cnt;
}

unsigned tagrv_shm_cma_pass(struct shm_xport *xp)
{
	struct tagrv_list *pos = tagrv_list_first(&xp->cma_gets);
	struct batch b = { .cnt = 0 };
	struct shm_get *first;
	unsigned events;

	if (!pos)
		return 0;
	first = tagrv_container_of(pos, struct shm_get, node);
	if (!first->link->cma) {
		convert(first);
		return 1;
	}
	tagrv_list_for_each(&xp->cma_gets, pos)
		if (!join(&b, tagrv_container_of(pos, struct shm_get, node)))
			break;
	if (!b.cnt) {
		tagrv_shm_get_finish(first, -FI_EACCES);
		return 1;
	}
	events = copy_batch(&b);
	if (events)
		return events;
	b = (struct batch) { .cnt = 0 };
	return join(&b, first) ? copy_batch(&b) : 0;
}
