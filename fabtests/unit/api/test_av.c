/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Address vectors: inserts and their refusals, names, strings.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "unit/api/api_calls.h"

static void set_up(void)
{
	api_set_up();
	api.av = api_open_av(&api);
}

TestSuite(av, .init = set_up, .fini = api_tear_down, .timeout = 20);

static struct sockaddr_in address(const char *ip, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_port = htons(port);
	inet_pton(AF_INET, ip, &in.sin_addr);
	return in;
}

static const char *name_of(fi_addr_t fi_addr)
{
	static char text[80];
	struct sockaddr_in6 addr;
	size_t len = sizeof(addr), room = sizeof(text);

	if (fi_av_lookup(api.av, fi_addr, &addr, &len))
		return "-";
	cr_assert_not_null(fi_av_straddr(api.av, &addr, text, &room));
	return text;
}

Test(av, addresses_come_back_byte_for_byte)
{
	struct sockaddr_in in[2] = { address("10.1.2.3", 9),
				     address("10.1.2.4", 9) }, out;
	fi_addr_t rows[2];
	size_t len = sizeof(out);

	cr_assert_eq(fi_av_insert(api.av, in, 2, rows, 0, NULL), 2);
	for (fi_addr_t i = 0; i < 2; i++) {
		cr_expect_eq(rows[i], i);
		cr_assert_eq(fi_av_lookup(api.av, rows[i], &out, &len), 0);
		cr_expect_eq(len, sizeof(out));
		cr_expect_arr_eq(&out, &in[i], sizeof(out));
	}
	cr_expect_eq(fi_av_insert(api.av, in, 0, NULL, 0, NULL), 0);
	cr_expect_eq(fi_av_insert(api.av, in, 2, NULL, FI_MORE, NULL), 2);
	cr_expect_str_eq(name_of(3), "fi_sockaddr_in://10.1.2.4:9");
}

Test(av, unreachable_addresses_are_refused)
{
	struct sockaddr_in in[5] = {
		address("10.1.2.3", 9),
		{ 0 },
		address("10.1.2.3", 0),
		address("0.0.0.0", 9),
		{ .sin_family = AF_INET6, .sin_port = 9 },
	};
	int err[5] = { -1, -1, -1, -1, -1 };
	fi_addr_t rows[5] = { 7, 7, 7, 7, 7 };

	cr_expect_eq(fi_av_insert(api.av, in, 5, rows, FI_SYNC_ERR, err), 1);
	cr_expect_eq(rows[0], 0);
	cr_expect_eq(err[0], 0);
	for (int i = 1; i < 5; i++) {
		cr_expect_eq(rows[i], FI_ADDR_NOTAVAIL, "address %d", i);
		cr_expect_eq(err[i], FI_EINVAL, "address %d", i);
	}
}

Test(av, flags_and_rows_are_checked)
{
	struct sockaddr_in in = address("10.1.2.3", 9);
	fi_addr_t rows[3] = { 0, 5, 0 };
	int context = 77;

	cr_expect_eq(fi_av_insert(api.av, &in, 1, rows, 0, &context), 1);
	cr_expect_eq(context, 77, "without FI_SYNC_ERR it is only a context");
	cr_expect_eq(fi_av_insert(api.av, &in, 1, NULL, FI_SYNC_ERR, NULL),
		     -FI_EINVAL);
	cr_expect_eq(fi_av_insert(api.av, &in, 1, NULL, FI_AV_USER_ID, NULL),
		     -FI_EBADFLAGS);
	cr_expect_eq(fi_av_insert(api.av, &in, 1, NULL, FI_PEEK, NULL),
		     -FI_EBADFLAGS);
	cr_expect_eq(fi_av_insert(api.av, NULL, 1, rows, 0, NULL), -FI_EINVAL);
	cr_expect_eq(fi_av_insert(api.av, NULL, 0, rows, 0, NULL), 0);
	cr_expect_eq(fi_av_remove(api.av, rows, 3, 0), -FI_EINVAL,
		     "the first is removed, the others are unknown");
	cr_expect_str_eq(name_of(0), "-");
	cr_expect_eq(fi_av_remove(api.av, rows, 1, FI_PEEK), -FI_EBADFLAGS);
}

Test(av, short_buffers_get_a_part)
{
	struct sockaddr_in in = address("10.1.2.3", 9);
	char part[4], text[8];
	size_t len = sizeof(part), room = sizeof(text);
	fi_addr_t row;

	cr_assert_eq(fi_av_insert(api.av, &in, 1, &row, 0, NULL), 1);
	cr_expect_eq(fi_av_lookup(api.av, row, part, &len), 0);
	cr_expect_eq(len, sizeof(in));
	cr_expect_arr_eq(part, &in, sizeof(part));
	cr_expect_eq(fi_av_straddr(api.av, &in, text, &room), text);
	cr_expect_eq(room, sizeof("fi_sockaddr_in://10.1.2.3:9"));
	cr_expect_str_eq(text, "fi_sock");
}

Test(av, names_are_resolved)
{
	fi_addr_t row = 7;
	int err = -1;

	cr_expect_eq(fi_av_insertsvc(api.av, "127.0.0.1", "5001", &row, 0,
				     NULL), 1);
	cr_expect_str_eq(name_of(row), "fi_sockaddr_in://127.0.0.1:5001");
	cr_expect_eq(fi_av_insertsvc(api.av, "300.0.0.1", "5001", &row,
				     FI_SYNC_ERR, &err), 0);
	cr_expect_eq(row, FI_ADDR_NOTAVAIL);
	cr_expect_eq(err, FI_EINVAL);
	cr_expect_eq(fi_av_insertsvc(api.av, NULL, "5001", &row, 0, NULL),
		     -FI_EINVAL);
}

Test(av, symmetric_names_count_up)
{
	static const char *const want[] = {
		"fi_sockaddr_in://10.0.0.9:5000",
		"fi_sockaddr_in://10.0.0.9:5001",
		"fi_sockaddr_in://10.0.0.10:5000",
		"fi_sockaddr_in://10.0.0.10:5001",
	};
	fi_addr_t rows[4];

	cr_expect_eq(fi_av_insertsym(api.av, "10.0.0.9", 2, "5000", 2, rows, 0,
				     NULL), 4);
	for (int i = 0; i < 4; i++)
		cr_expect_str_eq(name_of(rows[i]), want[i]);
	cr_expect_eq(fi_av_insertsym(api.av, "10.0.0.255", 2, "5000", 1, rows,
				     0, NULL), 1, "there is no 10.0.0.256");
	cr_expect_eq(rows[1], FI_ADDR_NOTAVAIL);
}

Test(av, kinds_that_can_be_opened)
{
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC };
	struct fid_av *av;

	cr_assert_eq(fi_av_open(api.domain, &attr, &av, &attr), 0);
	cr_expect_eq(attr.type, FI_AV_TABLE, "fi_av_open writes its choice");
	cr_expect_eq(av->fid.context, &attr);
	api_must_close(&av->fid);
	attr.type = FI_AV_MAP;
	cr_assert_eq(fi_av_open(api.domain, &attr, &av, NULL), 0);
	api_must_close(&av->fid);
	attr.flags = FI_EVENT;
	cr_expect_eq(fi_av_open(api.domain, &attr, &av, NULL), -FI_ENOSYS);
	attr.flags = FI_PEEK;
	cr_expect_eq(fi_av_open(api.domain, &attr, &av, NULL), -FI_EBADFLAGS);
	attr.flags = 0;
	attr.name = "shared";
	cr_expect_eq(fi_av_open(api.domain, &attr, &av, NULL), -FI_ENOSYS);
	attr.name = NULL;
	attr.rx_ctx_bits = 2;
	cr_expect_eq(fi_av_open(api.domain, &attr, &av, NULL), -FI_EINVAL);
}

Test(av, ipv6_addresses_have_their_own_stride)
{
	struct sockaddr_in6 in[2] = {
		{ .sin6_family = AF_INET6, .sin6_port = htons(9) },
		{ .sin6_family = AF_INET6, .sin6_port = htons(10) },
	};
	struct tagrv_domain *domain = tagrv_container_of(api.domain,
			struct tagrv_domain, domain);
	fi_addr_t rows[2];

	domain->addr_format = FI_SOCKADDR_IN6;
	in[0].sin6_addr = in[1].sin6_addr = in6addr_loopback;
	cr_assert_eq(fi_av_insert(api.av, in, 2, rows, 0, NULL), 2);
	cr_expect_str_eq(name_of(rows[1]), "fi_sockaddr_in6://[::1]:10");
	domain->addr_format = FI_SOCKADDR;
	cr_assert_eq(fi_av_insert(api.av, in, 2, rows, 0, NULL), 2);
	cr_expect_str_eq(name_of(rows[1]), "fi_sockaddr_in6://[::1]:10");
}
