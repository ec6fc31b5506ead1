/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints with a local transport and a device, over real sockets: whom they ask for
 * a local link alone.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/wireup/wireup_fixture.h"

/* Sockets seem to have an address of documentation. Replaces the C library's function. */
static atomic_bool elsewhere;

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	int (*real)(int fd, struct sockaddr *addr, socklen_t *len);
	int ret;

	*(void **) &real = dlsym(RTLD_NEXT, "getsockname");
	ret = real(fd, addr, len);
	if (!ret && elsewhere && addr->sa_family == AF_INET)
		((struct sockaddr_in *) addr)->sin_addr.s_addr =
			htonl(0xc0000201);	/* 192.0.2.1 */
	return ret;
}

/* The transport 'fake' of the endpoint is the device. */
struct both {
	struct ep ep;
	struct fake_xport local;
	struct tagrv_xport *xports[2];
};

static void open_both(struct both *both, struct tagrv_wireup *wireup, int bind_status)
{
	struct ep *ep = &both->ep;
	struct tagrv_wireup_attr attr = {
		.addr = loopback(0),
		.xports = both->xports,
		.xport_cnt = 2,
		.connect_timeout = 10,
		.kick = kick,
		.kick_arg = ep,
	};

	memset(both, 0, sizeof(*both));
	fake_init(&ep->fake);
	fake_init(&both->local);
	both->local.ops.wire_id = FAKE_LOCAL_ID;
	both->local.base.attr.caps = TAGRV_XPORT_LOCAL;
	both->local.bind_status = bind_status;
	both->xports[0] = &both->local.base;
	both->xports[1] = &ep->fake.base;
	ep->one_peer = true;
	ep->wireup = wireup;
	ep->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cr_assert_eq(tagrv_wireup_listen(wireup, &attr, &ep->wep), 0);
	tagrv_wireup_name(ep->wep, &ep->name);
}

/* Of the endpoints that are connected next. */
static bool far;

/* Connects two endpoints, and returns how many device links were made. */
static int connect_both(int a_status, int b_status, bool cross, bool local)
{
	struct tagrv_wireup *wireup = create();
	struct both a, b;
	int made;

	open_both(&a, wireup, a_status);
	open_both(&b, wireup, b_status);
	elsewhere = far;
	connect_ep(&a.ep, &b.ep);
	if (cross)
		connect_ep(&b.ep, &a.ep);
	await(&a.ep, &a.ep.sendables, 1);
	await(&b.ep, &b.ep.sendables, 1);
	/* An UP that was taken back leaves a link, which belongs to the engine. */
	cr_assert_eq(a.ep.ups, 1 + a.ep.gones);
	cr_assert_eq(b.ep.ups, 1 + b.ep.gones);
	cr_assert_eq(a.ep.faileds + b.ep.faileds, 0);
	check_pair(&a.ep, &b.ep);
	cr_assert_eq(a.ep.up.link->xport == &a.local.base, local);
	made = a.ep.fake.created + b.ep.fake.created;
	free_pair(&a.ep, &b.ep);
	tagrv_wireup_destroy(wireup);
	return made;
}

Test(wireup_local, peers_of_this_host_get_no_device_link, .timeout = 60)
{
	for (int i = 0; i < 20; i++)
		cr_assert_eq(connect_both(0, 0, i % 2, true), 0);
}

Test(wireup_local, the_device_is_there_if_local_links_fail, .timeout = 60)
{
	for (int i = 0; i < 20; i++) {
		cr_assert_geq(connect_both(0, -FI_EHOSTUNREACH, i % 2, false), 2);
		cr_assert_geq(connect_both(-FI_ECONNREFUSED, 0, i % 2, false), 2);
		cr_assert_geq(connect_both(-FI_ENOMEM, -FI_ENOMEM, i % 2, false), 2);
	}
}

Test(wireup_local, peers_of_other_hosts_are_offered_all, .timeout = 60)
{
	far = true;
	cr_assert_eq(connect_both(0, 0, false, true), 1);
}

/* The REQ that a raw peer gets that says in its HELLO that it knows this. */
static struct tagrv_wireup_rec ask_raw(uint32_t knows)
{
	struct tagrv_wireup *wireup = create();
	uint8_t buf[TAGRV_WIREUP_REC_MAX], answer[TAGRV_HELLO_MAX];
	struct raw raw = { .home = -1 };
	struct tagrv_wireup_rec rec;
	struct tagrv_addr name;
	size_t len, answer_len;
	struct both a;

	raw.home = home_open(&name);
	open_both(&a, wireup, 0);
	cr_assert_eq(tagrv_wireup_connect(a.ep.wep, &name), 0);
	raw.fd = accept(raw.home, NULL, NULL);
	cr_assert_eq(tagrv_hello_init(&raw.hello, NULL, false), 0);
	tagrv_hello_tell(&raw.hello, knows);
	len = raw_read(&raw, buf);
	cr_assert_eq(tagrv_hello_answer(&raw.hello, buf, len, &name, answer,
					&answer_len), 0);
	cr_assert_eq(raw.hello.peer_knows, TAGRV_HELLO_LOCAL | TAGRV_HELLO_WAIT);
	cr_assert_eq(send(raw.fd, answer, answer_len, MSG_NOSIGNAL),
		     (ssize_t) answer_len);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REQ);
	close(raw.fd);
	close(raw.home);
	close_ep(&a.ep);
	cr_assert_eq(a.local.alive + a.ep.fake.alive, 0);
	tagrv_wireup_destroy(wireup);
	return rec;
}

Test(wireup_local, older_releases_are_offered_all, .timeout = 60)
{
	struct tagrv_wireup_rec rec = ask_raw(TAGRV_HELLO_LOCAL);

	cr_assert_eq(rec.reason, TAGRV_WIREUP_LOCAL);
	cr_assert_eq(rec.link_cnt, 1);
	cr_assert_eq(rec.links[0].wire_id, FAKE_LOCAL_ID);
	rec = ask_raw(~TAGRV_HELLO_LOCAL);
	cr_assert_eq(rec.reason, TAGRV_WIREUP_OK);
	cr_assert_eq(rec.link_cnt, 2);
}
