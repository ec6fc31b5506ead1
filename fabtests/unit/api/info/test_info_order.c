/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo: the order of devices, and how processes of a host share them out.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#ifdef HAVE_VERBS
#include "common/fake_verbs.h"
#endif
#include "unit/api/api_fixture.h"

#define NET	"10.0.0.0/16"
#define ROCE	"Ethernet"
#define IB	"InfiniBand"

static struct tagrv_device_desc descs[8];
static unsigned alike[8];
static size_t cnt;
static struct tagrv_params params;

static void prepare(void)
{
	api_init();
	unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
	unsetenv("PMIX_RANK");
	unsetenv("SLURM_LOCALID");
	tagrv_param_read(&params);
}

TestSuite(info_order, .init = prepare, .timeout = 30);

static void add(const char *name, const char *kind, unsigned distance, uint64_t gbit,
		const char *network)
{
	struct tagrv_device_desc *desc = &descs[cnt++];

	*desc = (struct tagrv_device_desc) {
		.usable = true, .up = true, .numa_node = -1, .distance = distance,
		.speed = gbit * 1000000000,
	};
	snprintf(desc->name, sizeof(desc->name), "%s", name);
	snprintf(desc->link_type, sizeof(desc->link_type), "%s", kind);
	snprintf(desc->network, sizeof(desc->network), "%s", network);
}

static void add_shm(void)
{
	add(TAGRV_SHM_NAME, "", 0, 0, "");
}

/* The names in order, as a process of this local rank sees them. */
static const char *order(int rank)
{
	struct tagrv_device_desc copy[8];
	static char text[256];

	memcpy(copy, descs, sizeof(copy));
	params.local_rank = rank;
	text[0] = '\0';
	cr_assert_eq(tagrv_info_sort(&params, copy, cnt, alike), 0);
	for (size_t i = 0; i < cnt; i++) {
		strcat(text, i ? " " : "");
		strcat(text, copy[i].name);
	}
	return text;
}

Test(info_order, near_before_fast_and_this_host_last)
{
	add_shm();
	add("far", ROCE, 21, 100, NET);
	add("slow", ROCE, 10, 25, NET);
	add("unknown", ROCE, 0, 50, NET);
	add("near", ROCE, 10, 100, NET);
	add("middle", ROCE, 12, 100, NET);
	add("down", ROCE, 10, 400, NET);
	descs[6].up = false;
	cr_expect_str_eq(order(-1), "near unknown slow middle far down shm");
}

/* A process near to the slower kind would not reach one that is near to the other. */
Test(info_order, the_kind_of_the_fastest_comes_first_for_all)
{
	add("eth", ROCE, 10, 25, NET);
	add("ib", IB, 21, 200, "fe80 of sm 1");
	cr_expect_str_eq(order(0), "ib eth");
	descs[0].distance = 21;
	descs[1].distance = 10;
	cr_expect_str_eq(order(0), "ib eth");
}

Test(info_order, equals_are_shared_out_by_local_rank)
{
	static const char *const wanted[] = {
		"a b c far shm", "b c a far shm", "c a b far shm",
		"b c a far shm", "c a b far shm", "a b c far shm",
	};

	add_shm();
	add("a", IB, 10, 200, "s");
	add("far", IB, 32, 200, "s");
	add("b", IB, 0, 200, "s");
	add("c", IB, 10, 200, "s");
	for (int rank = 0; rank < 6; rank++)
		cr_expect_str_eq(order(rank), wanted[rank], "rank %d", rank);
	cr_expect_eq(alike[0], 3);
	cr_expect_eq(alike[3], 1);
	cr_expect_eq(alike[4], 1);
}

/* Launchers that bind in turn give a node every second rank, or every fourth. */
Test(info_order, each_device_has_as_many_whatever_the_binding)
{
	add("a", IB, 10, 200, "s");
	add("b", IB, 10, 200, "s");
	for (int step = 1; step <= 4; step *= 2)
		for (int first = 0; first < step; first++) {
			unsigned begins_with_a = 0;

			for (int i = 0; i < 8; i++)
				begins_with_a += order(first + i * step)[0] == 'a';
			cr_expect_eq(begins_with_a, 4, "%d of every %d", first, step);
		}
}

/* Each process then has rails of its own. */
Test(info_order, fewer_processes_have_a_share_each)
{
	setenv("MPI_LOCALRANKID", "1", 1);
	setenv("MPI_LOCALNRANKS", "2", 1);
	for (int i = 0; i < 4; i++)
		add((const char *[]) { "a", "b", "c", "d" }[i], IB, 10, 200, "s");
	cr_expect_str_eq(order(-1), "c d a b");
	cr_expect_str_eq(order(0), "a b c d", "the parameter comes first");
}

/* Its processes take (rank modulo 2) of the list: with the lists of other libraries, all a. */
Test(info_order, open_mpi_gets_the_same_list_everywhere)
{
	char text[256];

	add("a", IB, 10, 200, "s");
	add("b", IB, 10, 200, "s");
	for (int rank = 0; rank < 2; rank++) {
		setenv("OMPI_COMM_WORLD_LOCAL_RANK", rank ? "1" : "0", 1);
		cr_expect_str_eq(order(-1), "a b");
		cr_expect_str_eq(order(rank), rank ? "b a" : "a b", "if the user says so");
	}
	params.local_rank = -1;
	tagrv_info_why(&params, &descs[0], 2, text, sizeof(text));
	cr_expect_not_null(strstr(text, "Open MPI"), "%s", text);
}

Test(info_order, networks_that_may_not_meet_are_not_shared_out)
{
	add("a", ROCE, 10, 100, "10.1.0.0/16");
	add("b", ROCE, 10, 100, "10.2.0.0/16");
	add("c", ROCE, 10, 100, "10.1.0.0/16");
	add("d", ROCE, 10, 100, "");
	add("e", ROCE, 10, 100, "");
	cr_expect_str_eq(order(0), "a c b d e");
	cr_expect_str_eq(order(1), "c a b d e", "all ranks in the same network");
	cr_expect_eq(alike[0], 2);
	cr_expect_eq(alike[2], 1);
}

Test(info_order, the_reason_is_told)
{
	char text[256];

	add("a", IB, 10, 200, "s of sm 1");
	descs[0].numa_node = 3;
	setenv("SLURM_LOCALID", "7", 1);
	params.local_rank = -1;
	tagrv_info_why(&params, &descs[0], 2, text, sizeof(text));
	cr_expect_str_eq(text, "node 3, distance 10 from this process (near); network s "
			 "of sm 1; one of 2 alike, shared out by local rank 7 "
			 "(SLURM_LOCALID)");
	params.local_rank = 0;
	tagrv_info_why(&params, &descs[0], 2, text, sizeof(text));
	cr_expect_not_null(strstr(text, "0 (FI_TAGRV_LOCAL_RANK)"), "%s", text);
	add("b", ROCE, 0, 100, "");
	cr_expect_str_eq(tagrv_info_why(&params, &descs[1], 1, text, sizeof(text)),
			 "distance not known");
}

#ifdef HAVE_VERBS
static const char *offered(void)
{
	static char names[256];
	struct fi_info *info = api_must_getinfo(NULL);

	names[0] = '\0';
	for (const struct fi_info *one = info; one; one = one->next) {
		strcat(names, one->domain_attr->name);
		strcat(names, " ");
	}
	fi_freeinfo(info);
	return names;
}

Test(info_order, fi_getinfo_lists_another_device_first_for_each_process)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	config.devices = 3;
	config.prefix = 16;
	fake_verbs_start(&config);
	unsetenv("FI_TAGRV_DEVICES");
	setenv("MPI_LOCALRANKID", "1", 1);
	cr_expect_str_eq(offered(), "fake1 fake2 fake0 shm ");
	setenv("MPI_LOCALRANKID", "2", 1);
	cr_expect_str_eq(offered(), "fake2 fake0 fake1 shm ");
	setenv("FI_TAGRV_LOCAL_RANK", "0", 1);
	cr_expect_str_eq(offered(), "fake0 fake1 fake2 shm ");
	setenv("FI_TAGRV_LOCAL_RANK", "1", 1);
	setenv("FI_TAGRV_DEVICES", "fake2", 1);
	cr_expect_str_eq(offered(), "fake2 ");
	tagrv_info_cleanup();
	fake_verbs_stop();
}
#endif
