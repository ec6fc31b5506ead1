/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_getinfo with node and service; fi_getname.
 */
#include "cases/cases.h"
#include "framework/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const struct fx_attr plain;

static struct fi_info *resolve(const struct test *t, const char *node, const char *service,
			       uint64_t flags, bool with_hints)
{
	struct fi_info *hints = with_hints ? fx_hints(t, &plain) : NULL;
	struct fi_info *info = NULL;
	int ret = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &info);

	CHECK(!ret, "node %s service %s flags 0x%llx: %d (%s)", node ? node : "-",
	      service ? service : "-", (unsigned long long)flags, ret, fi_strerror(-ret));
	fi_freeinfo(hints);
	return info;
}

static bool is_inet(const struct fi_info *info)
{
	return info->addr_format == FI_SOCKADDR_IN ||
	       (info->addr_format == FI_SOCKADDR &&
		(info->src_addrlen == sizeof(struct sockaddr_in) ||
		 info->dest_addrlen == sizeof(struct sockaddr_in)));
}

static void skip_unless_inet(struct test *t)
{
	struct fi_info *info = resolve(t, NULL, NULL, 0, true);
	bool inet = is_inet(info);

	fi_freeinfo(info);
	if (!inet)
		run_skip("addresses are not IPv4 socket addresses");
}

static const char *local_node(const struct test *t)
{
	return t->opt->address[0] ? t->opt->address[0] : "127.0.0.1";
}

static void check_port(const struct fi_info *info, const void *addr, uint16_t port, const char *what)
{
	struct sockaddr_in in;

	if (!is_inet(info))
		return;
	CHECK(addr, "no %s address", what);
	memcpy(&in, addr, sizeof(in));
	CHECK(in.sin_family == AF_INET, "%s address of family %d", what, in.sin_family);
	CHECK(ntohs(in.sin_port) == port, "%s port %u, want %u", what, ntohs(in.sin_port), port);
}

static void check_source(const struct test *t, const char *node, const char *service,
			 uint64_t flags, uint16_t port, bool hints)
{
	struct fi_info *info = resolve(t, node, service, flags, hints);

	for (const struct fi_info *i = info; i; i = i->next) {
		CHECK(i->src_addr && i->src_addrlen, "an info without source address");
		if (flags)
			check_port(i, i->src_addr, port, "source");
	}
	fi_freeinfo(info);
}

static void source(struct test *t)
{
	const char *node = local_node(t);

	skip_unless_inet(t);
	for (int hints = 0; hints < 2; hints++) {
		run_step("%s hints", hints ? "with" : "without");
		check_source(t, NULL, NULL, 0, 0, hints);
		check_source(t, node, NULL, FI_SOURCE, 0, hints);
		check_source(t, NULL, "9228", FI_SOURCE, 9228, hints);
		check_source(t, node, "9228", FI_SOURCE, 9228, hints);
	}
}

static void destination(struct test *t)
{
	skip_unless_inet(t);
	for (int hints = 0; hints < 2; hints++) {
		struct fi_info *info = resolve(t, local_node(t), "9228", 0, hints);

		run_step("%s hints", hints ? "with" : "without");
		for (const struct fi_info *i = info; i; i = i->next) {
			CHECK(i->src_addr && i->src_addrlen, "no source address");
			CHECK(i->dest_addr && i->dest_addrlen, "no destination address");
			check_port(i, i->dest_addr, 9228, "destination");
		}
		fi_freeinfo(info);
	}
}

/* A destination found once can be given back as hint, with a new source. */
static void destination_hint(struct test *t)
{
	struct fi_info *hints, *info = NULL;

	skip_unless_inet(t);
	hints = resolve(t, local_node(t), "9228", 0, true);
	CHECK_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	check_port(info, info->dest_addr, 9228, "destination");
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void bad_node(struct test *t)
{
	static const char *const nodes[] = { "g00n13s", "300.1.2.3", "not a name" };
	struct fi_info *hints = fx_hints(t, &plain);

	for (int i = 0; i < 6; i++) {
		uint64_t flags = i & 1 ? FI_SOURCE : 0;
		struct fi_info *info = NULL;
		int ret;

		run_step("node %s, flags 0x%llx", nodes[i / 2], (unsigned long long)flags);
		ret = fi_getinfo(FI_VERSION(1, 17), nodes[i / 2], "9228", flags, hints, &info);
		CHECK(ret == -FI_ENODATA, "node %s: %d, want -FI_ENODATA", nodes[i / 2], ret);
	}
	fi_freeinfo(hints);
}

static void foreign_source(struct test *t)
{
	struct fi_info *hints = fx_hints(t, &plain);
	struct fi_info *info = NULL;

	skip_unless_inet(t);
	CHECK_ERR(fi_getinfo(FI_VERSION(1, 17), "203.0.113.77", "9228", FI_SOURCE, hints, &info),
		  -FI_ENODATA);
	fi_freeinfo(hints);
}

static void address_formats(struct test *t)
{
	static const uint32_t formats[] = { FI_SOCKADDR, FI_SOCKADDR_IN };
	struct fi_info *hints = fx_hints(t, &plain);

	skip_unless_inet(t);
	for (int i = 0; i < 2; i++) {
		struct fi_info *info = NULL;

		run_step("address format %u", formats[i]);
		hints->addr_format = formats[i];
		CHECK_OK(fi_getinfo(FI_VERSION(1, 17), local_node(t), NULL, FI_SOURCE, hints, &info));
		CHECK(is_inet(info), "address format came back as %u", info->addr_format);
		fi_freeinfo(info);
	}
	fi_freeinfo(hints);
}

/* Several endpoints may come from one info, so it must not fix a port. */
static void port_stays_open(struct test *t)
{
	struct fi_info *info;

	skip_unless_inet(t);
	info = resolve(t, local_node(t), NULL, FI_SOURCE, true);
	check_port(info, info->src_addr, 0, "source");
	fi_freeinfo(info);
}

static void check_name(const struct fx *fx)
{
	struct sockaddr_in in;

	if (!fx_is_inet(fx))
		return;
	memcpy(&in, fx->name[fx->t->rank], sizeof(in));
	CHECK(in.sin_port, "the endpoint's name has port 0");
	CHECK(in.sin_addr.s_addr != htonl(INADDR_ANY), "the endpoint's name is a wildcard");
}

static void name(struct test *t)
{
	uint8_t small[4] = { 1, 2, 3, 4 };
	uint8_t again[FX_NAME_MAX];
	size_t len = 0;
	struct fx fx;

	fx_open(t, &fx, &plain);
	check_name(&fx);
	CHECK(fx.namelen <= 64, "the name has %zu bytes, MPI gives 64", fx.namelen);
	CHECK_ERR(fi_getname(&fx.ep->fid, NULL, &len), -FI_ETOOSMALL);
	CHECK(len == fx.namelen, "length needed: %zu, want %zu", len, fx.namelen);
	len = sizeof(small);
	CHECK_ERR(fi_getname(&fx.ep->fid, small, &len), -FI_ETOOSMALL);
	CHECK(len == fx.namelen, "length needed: %zu, want %zu", len, fx.namelen);
	len = sizeof(again);
	CHECK_OK(fi_getname(&fx.ep->fid, again, &len));
	CHECK(len == fx.namelen && !memcmp(again, fx.name[t->rank], len), "the name changes");
	fx_close(&fx);
}

/* Port given as service: it is the port of the name. */
static void name_with_service(struct test *t)
{
	struct fx first, second;
	struct sockaddr_in in;
	char service[8];

	fx_open(t, &first, &plain);
	if (!fx_is_inet(&first))
		run_skip("addresses are not IPv4 socket addresses");
	memcpy(&in, first.name[0], sizeof(in));
	snprintf(service, sizeof(service), "%u", ntohs(in.sin_port));
	fx_close(&first);
	fx_open(t, &second, &(struct fx_attr){ .service = service });
	CHECK(!memcmp((uint8_t *)&in + 2, second.name[0] + 2, 2), "asked for port %s, got %u", service,
	      ntohs(((struct sockaddr_in *)(void *)second.name[0])->sin_port));
	fx_close(&second);
}

const struct test_case address_cases[] = {
	{ "address_source", "node and service with FI_SOURCE set the source", source, .ranks = 1 },
	{ "address_destination", "node and service set source and destination", destination, .ranks = 1 },
	{ "address_destination_hint", "a destination in hints is kept", destination_hint, .ranks = 1 },
	{ "address_bad_node", "unresolvable nodes give -FI_ENODATA", bad_node, .ranks = 1 },
	{ "address_foreign_source", "a source that is not ours gives -FI_ENODATA", foreign_source, .ranks = 1 },
	{ "address_formats", "FI_SOCKADDR and FI_SOCKADDR_IN are accepted", address_formats, .ranks = 1 },
	{ "address_port_stays_open", "no service means port 0 in the info", port_stays_open, .ranks = 1 },
	{ "address_name", "fi_getname: length, short buffers, real address", name, .ranks = 1 },
	{ "address_name_with_service", "the service becomes the port, also right after a close",
	  name_with_service, .ranks = 1 },
	{ 0 },
};
