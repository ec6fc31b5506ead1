/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello: two processes send each other a tagged message, by libfabric's public calls.
 *
 * The client's message, of tag 1, brings the address of its endpoint, which the
 * server needs for its answer, of tag 2.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_ASK = 1, TAG_ANSWER = 2 };

struct greeting {
	char	text[32];
	char	addr[64];	/* the sender's: what fi_av_insert takes */
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;

static void check(ssize_t ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "hello: %s: %s\n", what, fi_strerror((int) -ret));
	exit(1);
}

/* Opens an endpoint: the server's at the port, the client's where it can reach the host. */
static void open_endpoint(const char *host, const char *port)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("tagrv");
	check(fi_getinfo(FI_VERSION(1, 17), host, port, host ? 0 : FI_SOURCE, hints, &info),
	      "the provider is missing or does not know this host (see: fi_info -p tagrv)");
	fi_freeinfo(hints);
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	check(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
	check(fi_enable(ep), "cannot listen (another port: -p PORT)");
}

/* Sends or receives one message, and waits for its end. */
static void move(int send, struct greeting *msg, fi_addr_t peer, uint64_t tag, const char *what)
{
	struct fi_cq_err_entry failed = { 0 };
	struct fi_cq_tagged_entry done;
	ssize_t ret;

	do {
		fi_cq_read(cq, NULL, 0);	/* lets the provider work, if it has no room now */
		ret = send ? fi_tsend(ep, msg, sizeof(*msg), NULL, peer, tag, NULL) :
			     fi_trecv(ep, msg, sizeof(*msg), NULL, peer, tag, 0, NULL);
	} while (ret == -FI_EAGAIN);
	check(ret, what);
	do
		ret = fi_cq_sread(cq, &done, 1, NULL, -1);
	while (ret == -FI_EAGAIN || ret == -FI_EINTR);
	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &failed, 0) == 1)
		ret = -failed.err;
	check(ret, what);
}

static fi_addr_t peer_of(const void *addr)
{
	fi_addr_t peer;

	check(fi_av_insert(av, addr, 1, &peer, 0, NULL) == 1 ? 0 : -FI_EINVAL, "fi_av_insert");
	return peer;
}

static void serve(void)
{
	struct greeting msg = { .text = "" };
	size_t len = sizeof(msg.addr);
	char host[INET6_ADDRSTRLEN];

	check(fi_getname(&ep->fid, msg.addr, &len), "fi_getname");
	if (getnameinfo((void *) msg.addr, (socklen_t) len, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
		check(-FI_EINVAL, "getnameinfo");
	printf("%s: waiting; now start ./hello %s\n", info->domain_attr->name, host);
	fflush(stdout);
	move(0, &msg, FI_ADDR_UNSPEC, TAG_ASK, "cannot receive");
	printf("%s: received '%.*s'\n", info->domain_attr->name, (int) sizeof(msg.text), msg.text);
	strcpy(msg.text, "hello, client");
	move(1, &msg, peer_of(msg.addr), TAG_ANSWER, "cannot answer");
}

static void ask(void)
{
	struct greeting msg = { .text = "hello, server" };
	size_t len = sizeof(msg.addr);
	fi_addr_t server = peer_of(info->dest_addr);

	check(fi_getname(&ep->fid, msg.addr, &len), "fi_getname");
	move(1, &msg, server, TAG_ASK, "cannot send (does the server wait there?)");
	move(0, &msg, server, TAG_ANSWER, "no answer");
	printf("%s: received '%.*s'\n", info->domain_attr->name, (int) sizeof(msg.text), msg.text);
}

int main(int argc, char *argv[])
{
	const char *port = "21930";

	if (argc > 2 && !strcmp(argv[1], "-p")) {
		port = argv[2];
		argv += 2, argc -= 2;
	}
	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fputs("usage: ./hello [-p PORT]         wait for a client\n"
		      "       ./hello [-p PORT] HOST    greet the server at this host\n", stderr);
		return 2;
	}
	open_endpoint(argv[1], port);
	if (argv[1])
		ask();
	else
		serve();
	fi_close(&ep->fid);
	fi_close(&cq->fid);
	fi_close(&av->fid);
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	return 0;
}
