/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which address of this host its peers are told.
 */
#include <criterion/criterion.h>
#include <net/if.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "common/fake_ifaces.h"
#include "core/netif.h"

#define ON	(IFF_UP | IFF_RUNNING)
/* Flags: 3 is a route that is up by a gateway, 201 one that refuses. */
#define TO(iface, dest, flags, metric, mask) \
	iface "\t" dest "\t0101A8C0\t" flags "\t0\t0\t" metric "\t" mask "\t0\t0\t0\n"
#define DEFAULT(iface, metric)	TO(iface, "00000000", "0003", metric, "00000000")

#define ZERO		"00000000000000000000000000000000"
#define GATE		"fe800000000000000000000000000001"
#define TO6(dest, len, metric, flags, iface) \
	dest " " len " " ZERO " 00 " GATE " " metric " 00000001 00000000 " flags "    " \
	iface "\n"

TestSuite(netif, .init = fake_ifaces_start, .timeout = 10);

static const char *found(const char *name, int family)
{
	static char text[TAGRV_ADDR_STRLEN];
	struct tagrv_addr addr;
	int ret = tagrv_netif_addr(name, family, &addr);

	return ret == -FI_ENODATA ? "none" : ret ? "error" :
	       tagrv_addr_str(&addr, text, sizeof(text));
}

static void add_host(void)
{
	fake_ifaces_add("lo", "127.0.0.1", ON | IFF_LOOPBACK);
	fake_ifaces_add("virbr0", "192.168.122.1", ON);
	fake_ifaces_add("usb0", "169.254.3.1", ON);
	fake_ifaces_add("eth0", "10.0.0.1", ON);
	fake_ifaces_add("eth1", "10.0.1.1", ON);
	fake_ifaces_add("eth2", "10.0.2.1", IFF_UP);
	fake_ifaces_add("usb0", "fe80::3", ON);
	fake_ifaces_add("eth0", "2001:db8::1", ON);
	fake_ifaces_add("eth1", "2001:db8:1::1", ON);
	fake_ifaces_be_bridge("virbr0");
}

Test(netif, without_a_default_route_the_first_with_carrier)
{
	add_host();
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.0.1:0");
	cr_expect_str_eq(found(NULL, AF_INET6), "[2001:db8::1]:0");
}

Test(netif, of_any_family_ipv4_comes_first)
{
	add_host();
	fake_ifaces_add("eth3", "2001:db8:3::1", ON);
	cr_expect_str_eq(found("eth0", AF_UNSPEC), "10.0.0.1:0");
	cr_expect_str_eq(found("eth3", AF_UNSPEC), "[2001:db8:3::1]:0");
	cr_expect_str_eq(found("eth9", AF_UNSPEC), "none");
}

Test(netif, the_default_route_decides)
{
	add_host();
	fake_ifaces_routes(TO("eth0", "0000000A", "0001", "0", "00FFFFFF")
			   TO("eth0", "00000000", "0003", "0", "00000080")
			   DEFAULT("eth1", "100"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.1.1:0");
	cr_expect_str_eq(found(NULL, AF_INET6), "[2001:db8::1]:0", "of IPv6 there is none");
	fake_ifaces_routes("", TO6(ZERO, "00", "ffffffff", "00200200", "lo")
			   TO6("20010db8000000000000000000000000", "40", "00000100",
			       "00000001", "eth0")
			   TO6(ZERO, "00", "00000400", "00000003", "eth1"));
	cr_expect_str_eq(found(NULL, AF_INET6), "[2001:db8:1::1]:0");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.0.1:0");
}

Test(netif, of_several_default_routes_that_with_the_least_metric)
{
	add_host();
	fake_ifaces_routes(DEFAULT("eth0", "600") DEFAULT("eth1", "100"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.1.1:0");
	fake_ifaces_routes(DEFAULT("eth0", "100") DEFAULT("eth1", "100"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.0.1:0");
	fake_ifaces_routes(TO("eth0", "00000000", "0201", "0", "00000000")
			   DEFAULT("eth1", "100"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.1.1:0", "one that refuses is none");
}

Test(netif, a_default_route_over_a_cut_cable_is_none)
{
	add_host();
	fake_ifaces_routes(DEFAULT("eth2", "0"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.0.1:0");
	fake_ifaces_routes("garbage\n\n\t\t\n", "garbage\n");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.0.1:0");
}

Test(netif, bridges_and_local_addresses_only_by_name)
{
	fake_ifaces_add("lo", "127.0.0.1", ON | IFF_LOOPBACK);
	fake_ifaces_add("virbr0", "192.168.122.1", ON);
	fake_ifaces_add("usb0", "169.254.3.1", ON);
	fake_ifaces_add("usb0", "fe80::3", ON);
	fake_ifaces_be_bridge("virbr0");
	fake_ifaces_routes(DEFAULT("usb0", "0"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "none");
	cr_expect_str_eq(found(NULL, AF_INET6), "none");
	cr_expect_str_eq(found("virbr0", AF_INET), "192.168.122.1:0");
	cr_expect_str_eq(found("usb0", AF_INET), "169.254.3.1:0");
	cr_expect_str_eq(found("usb0", AF_INET6), "[fe80::3]:0");
	cr_expect_str_eq(found("lo", AF_INET), "127.0.0.1:0");
	fake_ifaces_add("usb0", "10.3.0.1", ON);
	cr_expect_str_eq(found("usb0", AF_INET), "10.3.0.1:0", "the better one of two");
}

/* Hosts of virtual machines often have their own address on a bridge. */
Test(netif, a_bridge_that_leads_out_of_the_host_is_no_other_interface)
{
	add_host();
	fake_ifaces_add("br0", "10.0.4.1", ON);
	fake_ifaces_be_bridge("br0");
	fake_ifaces_routes(DEFAULT("br0", "0"), "");
	cr_expect_str_eq(found(NULL, AF_INET), "10.0.4.1:0");
}

Test(netif, none_where_nothing_is_up)
{
	fake_ifaces_add("eth0", "10.0.0.1", 0);
	fake_ifaces_add("eth1", "10.0.0.2", IFF_RUNNING);
	cr_expect_str_eq(found(NULL, AF_INET), "none");
	cr_expect_str_eq(found("eth0", AF_INET), "none");
	cr_expect_str_eq(found("eth7", AF_INET), "none");
}
