/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * addr.c: parts of an address that are compared, refused addresses, text form.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/addr.h"

static struct sockaddr_in in4(const char *ip, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_port = htons(port);
	cr_assert_eq(inet_pton(AF_INET, ip, &in.sin_addr), 1);
	return in;
}

static struct sockaddr_in6 in6(const char *ip, uint16_t port)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6 };

	in.sin6_port = htons(port);
	cr_assert_eq(inet_pton(AF_INET6, ip, &in.sin6_addr), 1);
	return in;
}

static struct tagrv_addr from(const void *sa)
{
	struct tagrv_addr addr;

	cr_assert_eq(tagrv_addr_from(&addr, sa, 0), 0);
	return addr;
}

static struct tagrv_addr v4(const char *ip, uint16_t port)
{
	struct sockaddr_in in = in4(ip, port);

	return from(&in);
}

static struct tagrv_addr v6(const char *ip, uint16_t port, uint32_t scope)
{
	struct sockaddr_in6 in = in6(ip, port);

	in.sin6_scope_id = scope;
	return from(&in);
}

static void expect_str(struct tagrv_addr addr, const char *text)
{
	char buf[TAGRV_ADDR_STRLEN];

	cr_expect_str_eq(tagrv_addr_str(&addr, buf, sizeof(buf)), text);
}

Test(addr, length_is_that_of_the_sockaddr, .timeout = 10)
{
	struct tagrv_addr a = v4("10.1.0.1", 5000), b = v6("::1", 5000, 0);
	struct tagrv_addr unset = { 0 };

	cr_expect_eq(tagrv_addr_len(&a), sizeof(struct sockaddr_in));
	cr_expect_eq(tagrv_addr_len(&b), sizeof(struct sockaddr_in6));
	cr_expect_eq(tagrv_addr_len(&unset), 0);
}

Test(addr, padding_and_flow_label_do_not_count, .timeout = 10)
{
	struct sockaddr_in a = in4("10.1.0.1", 5000);
	struct sockaddr_in6 b = in6("2001:db8::1", 5000);
	struct tagrv_addr x, y;

	x = from(&a);
	memset(a.sin_zero, 0xff, sizeof(a.sin_zero));
	y = from(&a);
	cr_expect(tagrv_addr_equal(&x, &y));
	cr_expect_arr_eq(&x, &y, sizeof(x));
	x = from(&b);
	b.sin6_flowinfo = 77;
	y = from(&b);
	cr_expect(tagrv_addr_equal(&x, &y));
}

Test(addr, scope_counts_for_link_local_only, .timeout = 10)
{
	struct tagrv_addr a = v6("2001:db8::1", 1, 3);
	struct tagrv_addr b = v6("2001:db8::1", 1, 4);
	struct tagrv_addr c = v6("fe80::1", 1, 3), d = v6("fe80::1", 1, 4);

	cr_expect(tagrv_addr_equal(&a, &b));
	cr_expect_not(tagrv_addr_equal(&c, &d));
}

Test(addr, family_port_and_address_count, .timeout = 10)
{
	struct tagrv_addr a = v4("10.1.0.1", 5000), b = v4("10.1.0.1", 5001);
	struct tagrv_addr c = v4("10.1.0.2", 5000), d = v6("::", 5000, 0);
	struct tagrv_addr e = v4("0.0.0.0", 5000);

	cr_expect_not(tagrv_addr_equal(&a, &b));
	cr_expect_not(tagrv_addr_equal(&a, &c));
	cr_expect_not(tagrv_addr_equal(&d, &e));
	tagrv_addr_set_port(&b, 5000);
	cr_expect(tagrv_addr_equal(&a, &b));
}

Test(addr, short_and_foreign_addresses_are_refused, .timeout = 10)
{
	struct sockaddr_in a = in4("10.1.0.1", 5000);
	struct sockaddr_in6 b = in6("::1", 5000);
	struct tagrv_addr addr = v4("1.2.3.4", 5), before = addr;

	cr_expect_eq(tagrv_addr_from(&addr, &a, 1), -FI_EINVAL);
	cr_expect_eq(tagrv_addr_from(&addr, &a, sizeof(a) - 1), -FI_EINVAL);
	cr_expect_eq(tagrv_addr_from(&addr, &b, sizeof(b) - 1), -FI_EINVAL);
	cr_expect_eq(tagrv_addr_from(&addr, &b, sizeof(a)), -FI_EINVAL);
	a.sin_family = AF_UNIX;
	cr_expect_eq(tagrv_addr_from(&addr, &a, sizeof(a)), -FI_EINVAL);
	cr_expect(tagrv_addr_equal(&addr, &before), "changed by a failure");
	a.sin_family = AF_INET;
	cr_expect_eq(tagrv_addr_from(&addr, &a, sizeof(a)), 0);
	cr_expect_eq(tagrv_addr_from(&addr, &b, sizeof(b)), 0);
	cr_expect_eq(tagrv_addr_from(&addr, &a,
				     sizeof(struct sockaddr_storage)), 0);
}

Test(addr, address_may_be_normalized_in_place, .timeout = 10)
{
	struct tagrv_addr addr = v6("fe80::1", 9, 2), copy = addr;

	cr_expect_eq(tagrv_addr_from(&addr, &addr, sizeof(addr)), 0);
	cr_expect(tagrv_addr_equal(&addr, &copy));
}

Test(addr, any_is_known_in_both_families, .timeout = 10)
{
	struct tagrv_addr any4 = v4("0.0.0.0", 1), any6 = v6("::", 1, 0);
	struct tagrv_addr one4 = v4("127.0.0.1", 0), one6 = v6("::1", 0, 0);
	struct tagrv_addr unset = { 0 };

	cr_expect(tagrv_addr_is_any(&any4));
	cr_expect(tagrv_addr_is_any(&any6));
	cr_expect_not(tagrv_addr_is_any(&one4));
	cr_expect_not(tagrv_addr_is_any(&one6));
	cr_expect_not(tagrv_addr_is_any(&unset));
}

Test(addr, port_is_in_host_order, .timeout = 10)
{
	struct tagrv_addr a = v4("10.1.0.1", 5000), b = v6("::1", 65535, 0);

	cr_expect_eq(tagrv_addr_port(&a), 5000);
	cr_expect_eq(tagrv_addr_port(&b), 65535);
	tagrv_addr_set_port(&a, 1);
	tagrv_addr_set_port(&b, 2);
	cr_expect_eq(a.in.sin_port, htons(1));
	cr_expect_eq(b.in6.sin6_port, htons(2));
}

Test(addr, text_is_what_a_user_would_type, .timeout = 10)
{
	expect_str(v4("10.1.0.1", 5000), "10.1.0.1:5000");
	expect_str(v6("fe80::1", 5000, 0), "[fe80::1]:5000");
	expect_str(v6("fe80::1", 5000, 7), "[fe80::1%7]:5000");
	expect_str((struct tagrv_addr) { 0 }, "(no address)");
}

Test(addr, longest_text_fits_and_a_short_buffer_is_kept, .timeout = 10)
{
	struct tagrv_addr addr =
		v6("fe80:1111:2222:3333:4444:5555:6666:7777", 65535, UINT32_MAX);
	char buf[16] = "";

	expect_str(addr, "[fe80:1111:2222:3333:4444:5555:6666:7777%4294967295]"
			 ":65535");
	tagrv_addr_str(&addr, buf, 8);
	cr_expect_str_eq(buf, "[fe80:1");
}
