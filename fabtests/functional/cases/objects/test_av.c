/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address vectors: insert and look up, indices, bad addresses, strings.
 */
#include "cases/cases.h"
#include "framework/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1000 };

static struct sockaddr_in address(uint32_t host, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a010200U + host),
	};
}

static void open_inet(struct test *t, struct fx *fx, enum fi_av_type type)
{
	struct fx_attr attr = { .av_type = type };

	fx_open_domain(t, fx, &attr);
	if (fx->info->addr_format != FI_SOCKADDR_IN && fx->info->addr_format != FI_SOCKADDR)
		run_skip("addresses are not IPv4 socket addresses");
}

static struct fid_av *open_av(struct fx *fx, enum fi_av_type type, size_t count)
{
	struct fi_av_attr attr = { .type = type, .count = count };
	struct fid_av *av;

	CHECK_OK(fi_av_open(fx->domain, &attr, &av, NULL));
	return av;
}

static void insert(struct fid_av *av, struct sockaddr_in *in, size_t n, fi_addr_t *addr)
{
	int ret = fi_av_insert(av, in, n, addr, 0, NULL);

	CHECK(ret == (int)n, "inserting %zu addresses gave %d", n, ret);
	for (size_t i = 0; addr && i < n; i++)
		CHECK(addr[i] != FI_ADDR_NOTAVAIL, "address %zu got no fi_addr", i);
}

static void check_lookup(struct fid_av *av, fi_addr_t addr, const struct sockaddr_in *want)
{
	struct sockaddr_storage got;
	size_t len = sizeof(got);

	memset(&got, 0xff, sizeof(got));
	CHECK_OK(fi_av_lookup(av, addr, &got, &len));
	CHECK(len == sizeof(*want), "lookup gave %zu bytes, want %zu", len, sizeof(*want));
	CHECK(!memcmp(&got, want, sizeof(*want)), "lookup gave other bytes than inserted");
}

static void lookup_type(struct test *t, enum fi_av_type type)
{
	struct sockaddr_in in[4];
	fi_addr_t addr[4];
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, type);
	av = open_av(&fx, type, 4);
	for (uint32_t i = 0; i < 4; i++)
		in[i] = address(i, 9);
	insert(av, in, 2, addr);
	insert(av, in + 2, 2, addr + 2);
	for (int i = 0; i < 4; i++) {
		CHECK(type != FI_AV_TABLE || addr[i] == (fi_addr_t)i, "address %d got index %llu", i,
		      (unsigned long long)addr[i]);
		check_lookup(av, addr[i], &in[i]);
	}
	CHECK_OK(fi_av_remove(av, addr, 1, 0));
	CHECK_OK(fi_av_remove(av, addr + 1, 3, 0));
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void lookup(struct test *t)
{
	static const enum fi_av_type types[] = { FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE };

	for (int i = 0; i < 3; i++) {
		run_step("AV type %d", types[i]);
		lookup_type(t, types[i]);
	}
}

static void lookup_short(struct test *t)
{
	struct sockaddr_in in = address(1, 9);
	uint8_t part[4] = { 0 };
	size_t len = sizeof(part);
	fi_addr_t addr;
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 1);
	insert(av, &in, 1, &addr);
	CHECK_OK(fi_av_lookup(av, addr, part, &len));
	CHECK(len == sizeof(in), "length needed: %zu, want %zu", len, sizeof(in));
	CHECK(!memcmp(part, &in, sizeof(part)), "the truncated address differs");
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void open_counts(struct test *t)
{
	struct fx fx;

	open_inet(t, &fx, FI_AV_UNSPEC);
	for (size_t count = 1; count <= 65536; count *= 4) {
		struct fid_av *av = open_av(&fx, FI_AV_UNSPEC, count);

		CHECK_OK(fi_close(&av->fid));
	}
	CHECK_OK(fi_close(&open_av(&fx, FI_AV_UNSPEC, 0)->fid));
	fx_close_now(&fx);
}

/* Indices of a table count up, so the array of results may be NULL. */
static void insert_blind(struct test *t)
{
	struct sockaddr_in in[3] = { address(1, 9), address(2, 9), address(3, 9) };
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 1);
	insert(av, in, 3, NULL);
	for (fi_addr_t i = 0; i < 3; i++)
		check_lookup(av, i, &in[i]);
	CHECK(fi_av_insert(av, in, 0, NULL, 0, NULL) == 0, "inserting nothing must give 0");
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

/* Without FI_SYNC_ERR the context is not an array of errors to write to. */
static void context_ignored(struct test *t)
{
	struct sockaddr_in in[2] = { address(1, 9), address(2, 9) };
	int context[2] = { 77, 77 };
	fi_addr_t addr[2];
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 2);
	CHECK(fi_av_insert(av, in, 2, addr, 0, context) == 2, "insert failed");
	CHECK(context[0] == 77 && context[1] == 77, "insert wrote to its context");
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void bad_address(struct test *t)
{
	struct sockaddr_in in[2] = { address(1, 9), { 0 } };
	fi_addr_t addr[2] = { 1, 1 };
	int err[2] = { -1, 0 };
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 4);
	CHECK(fi_av_insert(av, &in[1], 1, addr, 0, NULL) == 0, "an all-zero address was taken");
	CHECK(addr[0] == FI_ADDR_NOTAVAIL, "a refused address got fi_addr %llu",
	      (unsigned long long)addr[0]);
	CHECK(fi_av_insert(av, in, 2, addr, 0, NULL) == 1, "one of two addresses is good");
	CHECK(addr[0] != FI_ADDR_NOTAVAIL && addr[1] == FI_ADDR_NOTAVAIL, "wrong one refused");
	check_lookup(av, addr[0], &in[0]);
	CHECK_OK(fi_av_remove(av, addr, 1, 0));
	CHECK(fi_av_insert(av, in, 2, NULL, FI_SYNC_ERR, err) == 1, "one of two addresses is good");
	CHECK(err[0] == 0 && err[1] != 0, "FI_SYNC_ERR wrote %d, %d", err[0], err[1]);
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void must_be_unknown(struct fid_av *av, fi_addr_t addr, const char *what)
{
	struct sockaddr_in got;
	size_t len = sizeof(got);
	int ret = fi_av_lookup(av, addr, &got, &len);

	CHECK(ret == -FI_EINVAL, "lookup of %s: %d, want -FI_EINVAL", what, ret);
	ret = fi_av_remove(av, &addr, 1, 0);
	CHECK(ret == -FI_EINVAL, "remove of %s: %d, want -FI_EINVAL", what, ret);
}

static void unknown_index(struct test *t)
{
	struct sockaddr_in in[2] = { address(1, 9), address(2, 9) };
	fi_addr_t addr[2];
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 64);
	must_be_unknown(av, 0, "an index of an empty AV");
	insert(av, in, 2, addr);
	must_be_unknown(av, 5, "an index never used");
	must_be_unknown(av, 1000000, "an index out of range");
	must_be_unknown(av, FI_ADDR_NOTAVAIL, "FI_ADDR_NOTAVAIL");
	CHECK_OK(fi_av_remove(av, &addr[0], 1, 0));
	must_be_unknown(av, addr[0], "a removed index");
	check_lookup(av, addr[1], &in[1]);
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void lowest_index(struct test *t)
{
	struct sockaddr_in in[8];
	fi_addr_t addr[8], again[3];
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 8);
	for (uint32_t i = 0; i < 8; i++)
		in[i] = address(i, 9);
	insert(av, in, 8, addr);
	CHECK_OK(fi_av_remove(av, &addr[6], 1, 0));
	CHECK_OK(fi_av_remove(av, &addr[2], 1, 0));
	insert(av, &in[2], 1, &again[0]);
	insert(av, &in[6], 1, &again[1]);
	CHECK(again[0] == addr[2] && again[1] == addr[6], "indices %llu, %llu, want 2, 6",
	      (unsigned long long)again[0], (unsigned long long)again[1]);
	for (int i = 0; i < 8; i++)
		check_lookup(av, addr[i], &in[i]);
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void growth(struct test *t)
{
	struct sockaddr_in *in = calloc(MANY, sizeof(*in));
	fi_addr_t *addr = calloc(MANY, sizeof(*addr));
	struct fid_av *av;
	struct fx fx;

	CHECK(in && addr, "no memory");
	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 1);
	for (uint32_t i = 0; i < MANY; i++) {
		in[i] = address(i, 1000);
		insert(av, &in[i], 1, &addr[i]);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK(addr[i] == (fi_addr_t)i, "insertion %d got another index", i);
		check_lookup(av, addr[i], &in[i]);
	}
	CHECK_OK(fi_av_remove(av, addr, MANY, 0));
	must_be_unknown(av, addr[MANY - 1], "a removed index");
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
	free(in);
	free(addr);
}

static void strings(struct test *t)
{
	struct sockaddr_in in = address(1, 9);
	char full[128] = "", part[8] = "";
	size_t len = sizeof(full);
	struct fid_av *av;
	struct fx fx;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 1);
	CHECK(fi_av_straddr(av, &in, full, &len) == full, "straddr must return its buffer");
	CHECK(strstr(full, "10.1.2.1"), "no IP address in \"%s\"", full);
	CHECK(len == strlen(full) + 1, "length %zu for \"%s\"", len, full);
	len = sizeof(part);
	fi_av_straddr(av, &in, part, &len);
	CHECK(len == strlen(full) + 1, "length needed: %zu, want %zu", len, strlen(full) + 1);
	CHECK(!strncmp(part, full, sizeof(part) - 1) && part[sizeof(part) - 1] == '\0',
	      "the truncated string is not terminated or differs");
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void service(struct test *t)
{
	struct sockaddr_in want = { .sin_family = AF_INET, .sin_port = htons(5001) };
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	struct fid_av *av;
	struct fx fx;
	int ret;

	want.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 4);
	ret = fi_av_insertsvc(av, "127.0.0.1", "5001", &addr, 0, NULL);
	if (ret == -FI_ENOSYS)
		run_skip("fi_av_insertsvc is not supported");
	CHECK(ret == 1, "fi_av_insertsvc gave %d", ret);
	check_lookup(av, addr, &want);
	ret = fi_av_insertsvc(av, "g00n13s", "5001", &addr, 0, NULL);
	CHECK(ret != 1, "fi_av_insertsvc resolved an unknown host");
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

static void symmetric(struct test *t)
{
	struct sockaddr_in want = address(1, 5000);
	fi_addr_t addr[4];
	struct fid_av *av;
	struct fx fx;
	int ret;

	open_inet(t, &fx, FI_AV_TABLE);
	av = open_av(&fx, FI_AV_TABLE, 4);
	ret = fi_av_insertsym(av, "10.1.2.1", 2, "5000", 2, addr, 0, NULL);
	if (ret == -FI_ENOSYS)
		run_skip("fi_av_insertsym is not supported");
	CHECK(ret == 4, "fi_av_insertsym gave %d", ret);
	for (uint32_t i = 0; i < 4; i++) {
		want = address(1 + i / 2, (uint16_t)(5000 + i % 2));
		check_lookup(av, addr[i], &want);
	}
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

/* Asynchronous insertion is optional; without it FI_EVENT must be refused. */
static void asynchronous(struct test *t)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .count = 1, .flags = FI_EVENT };
	struct sockaddr_in in = address(1, 9);
	fi_addr_t addr;
	struct fid_av *av;
	struct fx fx;
	int ret;

	open_inet(t, &fx, FI_AV_TABLE);
	ret = fi_av_open(fx.domain, &attr, &av, NULL);
	if (ret) {
		CHECK(ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP, "fi_av_open: %d", ret);
		fx_close_now(&fx);
		return;
	}
	CHECK_ERR(fi_av_insert(av, &in, 1, &addr, 0, NULL), -FI_ENOEQ);
	CHECK_OK(fi_close(&av->fid));
	fx_close_now(&fx);
}

const struct test_case av_cases[] = {
	{ "av_lookup", "addresses come back byte for byte, in order, in each AV type", lookup, .ranks = 1 },
	{ "av_lookup_short", "a short buffer gets a part and the length needed", lookup_short, .ranks = 1 },
	{ "av_open_counts", "any expected count can be opened", open_counts, .ranks = 1 },
	{ "av_insert_blind", "a table may be filled without result array", insert_blind, .ranks = 1 },
	{ "av_context_ignored", "the context is no error array without FI_SYNC_ERR", context_ignored, .ranks = 1 },
	{ "av_bad_address", "a zero address is refused, its neighbour taken", bad_address, .ranks = 1 },
	{ "av_unknown_index", "unknown and removed indices give -FI_EINVAL", unknown_index, .ranks = 1 },
	{ "av_lowest_index", "a freed index is used again, the lowest first", lowest_index, .ranks = 1 },
	{ "av_growth", "a table grows beyond its expected count", growth, .ranks = 1 },
	{ "av_strings", "fi_av_straddr: content, length, truncation", strings, .ranks = 1 },
	{ "av_service", "fi_av_insertsvc resolves node and service", service, .ranks = 1 },
	{ "av_symmetric", "fi_av_insertsym counts nodes and services", symmetric, .ranks = 1 },
	{ "av_asynchronous", "FI_EVENT is refused or needs an EQ", asynchronous, .ranks = 1 },
	{ 0 },
};
