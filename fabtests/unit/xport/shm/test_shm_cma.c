/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Several gets by one call of process_vm_readv, and the measured rates of copies.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "unit/xport/pair.h"
#include "unit/xport/shm/shm_memory.h"
#include "xport/shm/shm_priv.h"

enum { CNT = 4, LEN = 4096 };

/* ---- batches ---- */

static const struct tagrv_xport_ops *const ops = &tagrv_shm_ops;
static struct pair pair;
static struct tagrv_mem *target_mem;
static unsigned char target[CNT][LEN];

/* A source with a registration of its own, and the get of it. */
static struct source {
	unsigned char *bytes;
	struct tagrv_mem *mem;
	char	key[TAGRV_KEY_MAX];
	size_t	key_len;
	struct op op;
} sources[CNT];

static void start(void)
{
	need_single_copies();
	pair_open(&pair, PAIR_SHM_CMA);
	pair_connect(&pair);
	cr_assert_eq(ops->mem_reg(pair.a->dev, target, sizeof(target), false,
				  &target_mem), 0);
	for (unsigned i = 0; i < CNT; i++) {
		struct source *s = &sources[i];

		s->bytes = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_assert_neq(s->bytes, MAP_FAILED);
		fill_pattern(s->bytes, i, LEN);
		cr_assert_eq(ops->mem_reg(pair.b->dev, s->bytes, LEN, true,
					  &s->mem), 0);
		s->key_len = ops->mem_key(s->mem, s->key);
		op_init(&s->op);
	}
	/* The first packet maps the peer's memory. */
	pair_send(&pair, pair.a, 1, 8, NULL);
	pair_send(&pair, pair.b, 1, 8, NULL);
	PAIR_UNTIL(&pair, pair.a->packet_cnt && pair.b->packet_cnt);
}

static void stop(void)
{
	for (unsigned i = 0; i < CNT; i++) {
		if (sources[i].mem)
			ops->mem_dereg(sources[i].mem);
		munmap(sources[i].bytes, LEN);
	}
	ops->mem_dereg(target_mem);
	pair_close(&pair);
}

static void get_all(void)
{
	for (unsigned i = 0; i < CNT; i++) {
		struct source *s = &sources[i];

		cr_assert_eq(ops->get(pair.a->link, target[i], target_mem,
				      (uintptr_t) s->bytes, s->key, s->key_len,
				      LEN, &s->op.done), 0);
	}
	cr_assert(shm_link_of(pair.a->link)->cma);
}

static unsigned finished(void)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < CNT; i++)
		cnt += sources[i].op.calls;
	return cnt;
}

static void check(unsigned i, int status)
{
	cr_assert_eq(sources[i].op.calls, 1, "%u", i);
	cr_assert_eq(sources[i].op.status, status, "%u: %d", i,
		     sources[i].op.status);
	cr_assert(status || is_pattern(target[i], i, LEN), "%u", i);
}

Test(shm_cma, reads_many_in_one_pass, .timeout = 30)
{
	start();
	get_all();
	ops->progress(pair.a->xport);
	cr_assert_eq(finished(), CNT);
	PAIR_UNTIL(&pair, finished() == CNT);
	for (unsigned i = 0; i < CNT; i++)
		check(i, 0);
	stop();
}

Test(shm_cma, a_stale_key_spoils_no_other_read, .timeout = 30)
{
	start();
	get_all();
	ops->mem_dereg(sources[2].mem);
	sources[2].mem = NULL;
	PAIR_UNTIL(&pair, finished() == CNT);
	for (unsigned i = 0; i < CNT; i++)
		check(i, i == 2 ? -FI_EACCES : 0);
	stop();
}

Test(shm_cma, unmapped_memory_spoils_no_other_read, .timeout = 30)
{
	start();
	get_all();
	munmap(sources[0].bytes, LEN);
	munmap(sources[3].bytes, LEN);
	PAIR_UNTIL(&pair, finished() == CNT);
	for (unsigned i = 0; i < CNT; i++)
		check(i, i == 0 || i == 3 ? -FI_EACCES : 0);
	cr_assert(shm_link_of(pair.a->link)->cma);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	stop();
}

/* A table entry far from the others is read by a call of its own. */
Test(shm_cma, entries_far_apart_are_read_one_by_one, .timeout = 30)
{
	static char memory[200];
	struct tagrv_mem *between[200], *last;

	start();
	for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(between); i++)
		cr_assert_eq(ops->mem_reg(pair.b->dev, &memory[i], 1, true,
					  &between[i]), 0);
	ops->mem_dereg(sources[1].mem);
	/* This registration gets the free entry, the next one an entry at the end. */
	cr_assert_eq(ops->mem_reg(pair.b->dev, memory, 1, true,
				  &sources[1].mem), 0);
	cr_assert_eq(ops->mem_reg(pair.b->dev, sources[1].bytes, LEN, true,
				  &last), 0);
	sources[1].key_len = ops->mem_key(last, sources[1].key);
	get_all();
	PAIR_UNTIL(&pair, finished() == CNT);
	for (unsigned i = 0; i < CNT; i++)
		check(i, 0);
	for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(between); i++)
		ops->mem_dereg(between[i]);
	ops->mem_dereg(last);
	stop();
}

static void (*count)(struct tagrv_done *done, int status);

static void close_link(struct tagrv_done *done, int status)
{
	count(done, status);
	if (pair.a->link)
		ops->link_close(pair.a->link);
	pair.a->link = NULL;
}

/* The first callback closes the link: the other gets end once, too. */
Test(shm_cma, a_callback_may_close_the_link, .timeout = 30)
{
	start();
	count = sources[0].op.done.fn;
	sources[0].op.done.fn = close_link;
	get_all();
	PAIR_UNTIL(&pair, finished() == CNT && pair.a->closed);
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	check(0, 0);
	for (unsigned i = 1; i < CNT; i++)
		check(i, sources[i].op.status);
	stop();
}

/* ---- stored rates of the host ---- */

static char folder[] = "/tmp/tagrv-test-XXXXXX";
static char file[64];

static void enter_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
	snprintf(file, sizeof(file), "%s/tagrv-shm-rates", folder);
}

static void leave_folder(void)
{
	unlink(file);
	rmdir(folder);
}

static void overwrite(const char *text)
{
	FILE *f = fopen(file, "w");

	cr_assert_not_null(f);
	cr_assert_geq(fputs(text, f), 0);
	fclose(f);
}

static bool is_known(void)
{
	struct shm_rates got = { .ring = 0 };
	bool known = tagrv_shm_rates_load(&got);

	cr_assert(!known || (got.ring == 7e9 && got.copy == 4e9 &&
			      got.cma == 1.1e10 && got.call == 6e-7));
	return known;
}

TestSuite(shm_rates, .init = enter_folder, .fini = leave_folder);

Test(shm_rates, are_kept_for_the_next_process)
{
	struct shm_rates rates = { .ring = 7e9, .copy = 4e9,
				   .cma = 1.1e10, .call = 6e-7 };
	struct stat st;

	cr_assert_not(is_known());
	tagrv_shm_rates_store(&rates);
	cr_assert(is_known());
	cr_assert_eq(stat(file, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	cr_assert_not(is_known());
	unsetenv("XDG_RUNTIME_DIR");
	cr_assert_not(is_known());
	tagrv_shm_rates_store(&rates);
}

static long now_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_nsec;
}

/* From 2 ms before a second begins to 2 ms after: time() is late there. */
Test(shm_rates, are_known_where_a_second_begins)
{
	struct shm_rates rates = { .ring = 7e9, .copy = 4e9,
				   .cma = 1.1e10, .call = 6e-7 };
	struct timespec rest = { 0 };
	long now = now_nsec();

	rest.tv_nsec = now < 998000000 ? 998000000 - now : 0;
	nanosleep(&rest, NULL);
	do {
		tagrv_shm_rates_store(&rates);
		cr_assert(is_known());
		now = now_nsec();
	} while (now >= 998000000 || now < 2000000);
}

Test(shm_rates, of_a_host_without_single_copies_are_not_kept)
{
	struct shm_rates rates = { .ring = 7e9 };

	tagrv_shm_rates_store(&rates);
	cr_assert_neq(access(file, F_OK), 0);
}

Test(shm_rates, are_forgotten_when_old_foreign_or_cut_off)
{
	struct timespec old[2] = { { .tv_nsec = UTIME_NOW },
				   { .tv_sec = time(NULL) - 4000 } };
	struct shm_rates rates = { .ring = 7e9, .copy = 4e9,
				   .cma = 1.1e10, .call = 6e-7 };
	char text[128] = "";
	FILE *f;

	tagrv_shm_rates_store(&rates);
	f = fopen(file, "r");
	cr_assert(f && fgets(text, sizeof(text), f));
	fclose(f);
	text[strlen(text) - 1] = '\0';
	overwrite(text);
	cr_assert_not(is_known(), "no end of line");
	overwrite("3 0123456789abcdef0123456789abcdef 7e9 4e9 1.1e10 6e-7\n");
	cr_assert_not(is_known(), "another host");
	text[36] = 'x';
	overwrite(text);
	cr_assert_not(is_known(), "no number");
	overwrite("");
	cr_assert_not(is_known(), "nothing");
	tagrv_shm_rates_store(&rates);
	cr_assert(is_known());
	cr_assert_eq(utimensat(AT_FDCWD, file, old, 0), 0);
	cr_assert_not(is_known(), "old");
}

Test(shm_rates, are_not_read_through_links)
{
	struct shm_rates rates = { .ring = 7e9, .copy = 4e9,
				   .cma = 1.1e10, .call = 6e-7 };
	char other[80];

	snprintf(other, sizeof(other), "%s.other", file);
	tagrv_shm_rates_store(&rates);
	cr_assert_eq(rename(file, other), 0);
	cr_assert_eq(symlink(other, file), 0);
	cr_assert_not(is_known());
	cr_assert_eq(unlink(other), 0);
	tagrv_shm_rates_store(&rates);
	cr_assert_neq(access(other, F_OK), 0);
}

Test(shm_rates, make_sense_when_measured)
{
	const struct shm_rates *rates = tagrv_shm_rates();

	cr_assert(rates->ring > 1e6 && rates->ring < 1e13);
	cr_assert(rates->copy > 1e6 && rates->copy < rates->ring);
	cr_assert(rates->cma >= 0 && rates->cma < 1e13);
	cr_assert_eq(tagrv_shm_rates(), rates);
}
