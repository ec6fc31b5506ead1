/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads with one copy: process_vm_readv from the owner's memory.
 *
 * One call reads the data and then the owner's table entry. The entry tells if
 * the key was good until then, as the owner would for a piece that it copies
 * itself; what was read for a bad one is worth nothing, and the get fails.
 *
 * Not every kernel lets us (ptrace rules, seccomp, namespaces), so a probe per
 * peer reads its token first: that also proves that the process number means
 * the same process here. And not every machine is faster this way, so it is
 * measured, once per process, against the two copies of the ring.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "xport/shm/shm_priv.h"

#define PROBE_BYTES	(256u << 10)
#define PROBE_WINDOW	(32u << 10)
#define PROBE_RUNS	4

static pthread_once_t once = PTHREAD_ONCE_INIT;
static double ring_rate = 4e9, cma_rate;	/* bytes/s; 0: not allowed */

/* ---- which way is faster ---- */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}

static bool copy_cma(char *to, char *from, char *window)
{
	struct iovec local = { to, PROBE_BYTES }, remote = { from, PROBE_BYTES };

	(void) window;
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
		PROBE_BYTES;
}

static bool copy_ring(char *to, char *from, char *window)
{
	for (size_t at = 0; at < PROBE_BYTES; at += PROBE_WINDOW) {
		memcpy(window, from + at, PROBE_WINDOW);
		/* Both copies are wanted. */
		__asm__ volatile("" : : "r"(window) : "memory");
		memcpy(to + at, window, PROBE_WINDOW);
	}
	return true;
}

/* Bytes per second of the best of some runs, 0 if it does not work. */
static double rate_of(bool (*copy)(char *to, char *from, char *window),
		      char *buf)
{
	double best = 0;

	for (int i = 0; i < PROBE_RUNS; i++) {
		double start = now();

		if (!copy(buf, buf + PROBE_BYTES, buf + 2 * PROBE_BYTES))
			return 0;
		best = TAGRV_MAX(best, PROBE_BYTES / (now() - start + 1e-9));
	}
	return best;
}

static void measure(void)
{
	char *buf = malloc(2 * PROBE_BYTES + PROBE_WINDOW);

	if (!buf)
		return;
	memset(buf, 1, 2 * PROBE_BYTES + PROBE_WINDOW);
	ring_rate = rate_of(copy_ring, buf);
	cma_rate = rate_of(copy_cma, buf);
	free(buf);
	tagrv_info("shm: two copies %.1f GB/s, process_vm_readv %.1f GB/s\n",
		   ring_rate * 1e-9, cma_rate * 1e-9);
}

bool tagrv_shm_cma_wanted(const struct tagrv_params *params)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	const char *how = params->shm_cma;
	bool wanted;

	pthread_once(&once, measure);
	wanted = cma_rate > ring_rate;
	if (!strcasecmp(how, "yes"))
		wanted = cma_rate > 0;
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
	pthread_once(&once, measure);
	return cma ? cma_rate : ring_rate;
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

static ssize_t read_piece(struct shm_get *get, struct shm_entry *entry,
			  size_t len)
{
	struct shm_link *link = get->link;
	uint64_t at = link->peer_table + get->index * sizeof(*entry);
	struct iovec local[] = {
		{ get->addr + get->copied, len }, { entry, sizeof(*entry) },
	};
	struct iovec remote[] = {
		{ (void *) (uintptr_t) (get->raddr + get->copied), len },
		{ (void *) (uintptr_t) at, sizeof(*entry) },
	};

	return process_vm_readv(link->peer_pid, local, 2, remote, 2, 0);
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

static void copy_piece(struct shm_get *get)
{
	size_t len = TAGRV_MIN(get->len - get->copied, (size_t) SHM_CMA_PIECE);
	struct shm_entry entry = { .secret = 0 };
	ssize_t ret = read_piece(get, &entry, len);

	if (ret < 0) {
		on_error(get, errno);
		return;
	}
	if (ret != (ssize_t) (sizeof(entry) + len) ||
	    !tagrv_shm_entry_covers(atomic_load(&entry.secret), entry.addr,
				    entry.len, get->secret,
				    get->raddr + get->copied, len)) {
		tagrv_shm_get_finish(get, -FI_EACCES);
		return;
	}
	get->copied += len;
	if (get->copied == get->len)
		tagrv_shm_get_finish(get, 0);
}

unsigned tagrv_shm_cma_pass(struct shm_xport *xp)
{
	struct tagrv_list *pos = tagrv_list_first(&xp->cma_gets);
	struct shm_get *get;

	if (!pos)
		return 0;
	get = tagrv_container_of(pos, struct shm_get, node);
	if (get->index && get->index < SHM_TABLE && get->link->cma)
		copy_piece(get);
	else if (get->link->cma)
		tagrv_shm_get_finish(get, -FI_EACCES);
	else
		convert(get);
	return 1;
}
