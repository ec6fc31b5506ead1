/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which source addresses are of the host that a REQ names, and how often listeners
 * are asked.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <string.h>

#include "wireup/wireup_priv.h"

/* Calls of getifaddrs(), and whether they fail. Replaces the C library's function. */
static unsigned reads;
static bool refuse_reads;

int getifaddrs(struct ifaddrs **list)
{
	int (*real)(struct ifaddrs **list);

	*(void **) &real = dlsym(RTLD_NEXT, "getifaddrs");
	reads++;
	return refuse_reads ? -1 : real(list);
}

static struct tagrv_addr addr_of(const char *text)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = 1 };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = 1 };
	struct tagrv_addr addr = { 0 };

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		cr_assert_eq(tagrv_addr_from(&addr, &in, sizeof(in)), 0);
	else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
		cr_assert_eq(tagrv_addr_from(&addr, &in6, sizeof(in6)), 0);
	else
		cr_assert_fail("%s is not an address", text);
	return addr;
}

static bool is_near(const char *listener, const char *source)
{
	struct tagrv_addr a = addr_of(listener), b = addr_of(source);

	struct tagrv_wireup wireup = { .now = 1000000 };
	bool near;

	tagrv_addr_set_port(&b, 4711);	/* of a socket: any */
	near = tagrv_wireup_is_near(&wireup, &a, &b);
	tagrv_wireup_free_own(&wireup);
	return near;
}

Test(wireup_near, source_must_be_the_listeners_host, .timeout = 10)
{
	static const struct {
		const char *listener, *source;
		bool near;
	} cases[] = {
		{ "192.0.2.1", "192.0.2.1", true },
		{ "192.0.2.1", "192.0.2.2", false },
		{ "192.0.2.1", "::ffff:192.0.2.1", true },
		{ "::ffff:192.0.2.1", "192.0.2.1", true },
		{ "2001:db8::1", "2001:db8::1", true },
		{ "2001:db8::1", "2001:db8::2", false },
		{ "192.0.2.1", "2001:db8::1", false },
		{ "192.0.2.1", "127.0.0.1", false },
		{ "127.0.0.1", "192.0.2.1", false },
		{ "127.0.0.1", "127.0.0.2", true },
		{ "127.0.0.1", "::1", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_eq(is_near(cases[i].listener, cases[i].source),
			     cases[i].near, "%s from %s", cases[i].listener,
			     cases[i].source);
}

/* A process of this host connects from another address than its listener has. */
Test(wireup_near, all_addresses_of_this_host_are_one, .timeout = 10)
{
	struct tagrv_addr loop = addr_of("127.0.0.1"), own;
	struct tagrv_wireup wireup = { .now = 1000000 };
	struct ifaddrs *list;

	cr_assert_eq(getifaddrs(&list), 0);
	for (struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
		if (!ifa->ifa_addr || tagrv_addr_from(&own, ifa->ifa_addr, 0))
			continue;
		cr_assert(tagrv_wireup_is_near(&wireup, &own, &loop), "%s",
			  ifa->ifa_name);
		cr_assert(tagrv_wireup_is_near(&wireup, &loop, &own), "%s",
			  ifa->ifa_name);
	}
	freeifaddrs(list);
	tagrv_wireup_free_own(&wireup);
}

/* A flood of connections from other hosts. */
Test(wireup_near, addresses_of_this_host_are_read_once_a_second, .timeout = 10)
{
	struct tagrv_addr a = addr_of("192.0.2.1"), b = addr_of("192.0.2.2");
	struct tagrv_wireup wireup = { .now = 1000000 };

	reads = 0;
	for (int i = 0; i < 1000; i++)
		cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
	wireup.now += 999;
	cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
	cr_expect_eq(reads, 1, "%u", reads);
	wireup.now += 1;
	cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
	cr_expect_eq(reads, 2, "%u", reads);
	tagrv_wireup_free_own(&wireup);
}

/* No descriptor is left: what was known stays known, and is read as soon as possible. */
Test(wireup_near, addresses_stay_known_when_they_cannot_be_read, .timeout = 10)
{
	struct tagrv_addr a = addr_of("192.0.2.1"), b = addr_of("192.0.2.2");
	struct tagrv_wireup wireup = { .now = 1000000 };
	struct ifaddrs *known;

	reads = 0;
	cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
	known = wireup.own;
	cr_assert(known);
	refuse_reads = true;
	wireup.now += 2000;
	for (int i = 0; i < 3; i++) {
		cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
		cr_expect_eq(wireup.own, known);
	}
	cr_expect_eq(reads, 4, "%u", reads);
	refuse_reads = false;
	cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
	cr_assert_not(tagrv_wireup_is_near(&wireup, &a, &b));
	cr_expect_eq(reads, 5, "%u", reads);
	tagrv_wireup_free_own(&wireup);
}

static unsigned ask_all(struct tagrv_wireup_ep *wep, bool near)
{
	unsigned cnt = 0;

	while (tagrv_wireup_may_ask(wep, near))
		cnt++;
	return cnt;
}

Test(wireup_near, questions_are_limited, .timeout = 10)
{
	struct tagrv_wireup wireup = { .now = 1000000 };
	struct tagrv_wireup_ep wep = { .wireup = &wireup };

	cr_assert_eq(ask_all(&wep, true), 125);
	cr_assert_eq(ask_all(&wep, false), 0);
	wireup.now += 7;
	cr_assert_eq(ask_all(&wep, true), 0);
	wireup.now += 1;
	cr_assert_eq(ask_all(&wep, true), 1);
	wireup.now += 1000;
	cr_assert_eq(ask_all(&wep, false), 15, "others cost more");
	wireup.now += UINT64_C(1) << 60;
	cr_assert_eq(ask_all(&wep, true), 125, "a long pause does not count");
	/* Many questions at short intervals get no more. */
	unsigned cnt = 0;

	for (int ms = 0; ms < 10000; ms++) {
		wireup.now++;
		cnt += ask_all(&wep, true);
	}
	cr_assert_eq(cnt, 1250);
}

/* A job whose peers all seem to come from elsewhere; a stranger among them. */
Test(wireup_near, questions_that_are_confirmed_do_not_count, .timeout = 10)
{
	struct tagrv_wireup wireup = { .now = 1000000 };
	struct tagrv_wireup_ep wep = { .wireup = &wireup };
	unsigned lies = 0;

	for (int i = 0; i < 1000; i++) {
		cr_assert(tagrv_wireup_may_ask(&wep, false), "peer %d", i);
		tagrv_wireup_asked_well(&wep, false);
	}
	/* Its own listener confirms, as late as it likes; no other is asked more. */
	for (int ms = 0; ms < 100000; ms += 500) {
		unsigned own = 0;

		while (own < 7 && tagrv_wireup_may_ask(&wep, false))
			own++;
		lies += ask_all(&wep, false);
		wireup.now += 500;
		while (own-- > 0)
			tagrv_wireup_asked_well(&wep, false);
	}
	cr_assert_leq(lies, 100000 / 64 + 15, "%u", lies);
	cr_assert_geq(lies, 100000 / 64 / 4, "%u", lies);
}
