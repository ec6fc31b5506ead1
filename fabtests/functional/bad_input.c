/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Mistakes that users make, and foreign connections to the port: one case per run, which prints the
 * provider's answer. fabtests/scripts/bad-input compares answer and log lines with the documents.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "unit/core/core_seccomp.h"

enum {
	GARBAGE = 65536,
	WAIT_S = 30,
	RECORD = 128,		/* bytes of a wireup record without links */
	RECORD_LENGTH = 8,	/* offsets in a record: docs/wire_protocol.md, 2.1 */
	RECORD_TYPE = 10,
	RECORD_REASON = 11,
	RECORD_VERSION_MIN = 12,
	RECORD_VERSION_MAX = 14,
	REQ = 1,
	REJ = 4,
	REASON_VERSION = 1,
};

struct end {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct sockaddr_in name;
	fi_addr_t peer;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct end a, b;

/* Ends the program when a call fails that the case needs. */
static void must(ssize_t ret, const char *what)
{
	if (ret >= 0)
		return;
	printf("%s: %s\n", what, fi_strerror((int)-ret));
	exit(EXIT_FAILURE);
}

static struct fi_info *make_hints(uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	must(hints ? 0 : -FI_ENOMEM, "fi_allocinfo");
	hints->caps = caps;
	hints->ep_attr->type = FI_EP_RDM;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	return hints;
}

static int get_info(const char *node, const char *service, uint64_t flags)
{
	struct fi_info *hints = make_hints(FI_MSG | FI_TAGGED | FI_DIRECTED_RECV);
	int ret;

	hints->fabric_attr->prov_name = strdup("tagrv");
	ret = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &info);
	fi_freeinfo(hints);
	return ret;
}

static void open_domain(void)
{
	must(get_info(NULL, NULL, 0), "fi_getinfo");
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
}

static int open_end(struct end *end)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	int ret;

	must(fi_av_open(domain, &av, &end->av, NULL), "fi_av_open");
	must(fi_cq_open(domain, &cq, &end->cq, NULL), "fi_cq_open");
	must(fi_endpoint(domain, info, &end->ep, NULL), "fi_endpoint");
	must(fi_ep_bind(end->ep, &end->av->fid, 0), "fi_ep_bind");
	must(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	ret = fi_enable(end->ep);
	if (!ret) {
		size_t len = sizeof(end->name);

		must(fi_getname(&end->ep->fid, &end->name, &len), "fi_getname");
	}
	return ret;
}

static void insert(struct end *end, const struct end *peer)
{
	if (fi_av_insert(end->av, &peer->name, 1, &end->peer, 0, NULL) != 1)
		must(-FI_EINVAL, "fi_av_insert");
}

static void close_end(struct end *end)
{
	if (!end->ep)
		return;
	must(fi_close(&end->ep->fid), "fi_close of the endpoint");
	must(fi_close(&end->cq->fid), "fi_close of the queue");
	must(fi_close(&end->av->fid), "fi_close of the address vector");
}

static void close_all(void)
{
	close_end(&a);
	close_end(&b);
	if (domain)
		must(fi_close(&domain->fid), "fi_close of the domain");
	if (fabric)
		must(fi_close(&fabric->fid), "fi_close of the fabric");
	fi_freeinfo(info);
}

/* Opens end a, whose address vector contains only its own address. */
static void open_a(void)
{
	open_domain();
	must(open_end(&a), "fi_enable");
	insert(&a, &a);
}

/* ---- wrong arguments ---- */

static int device(void)
{
	return get_info(NULL, NULL, 0);
}

/* Whether tagrv is among the providers that hints without a name get: 0 or -FI_ENODATA. */
static int offered_for(uint64_t caps)
{
	struct fi_info *hints = make_hints(caps);
	bool offered = false;

	(void)fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	for (struct fi_info *one = info; one; one = one->next)
		offered |= !strcmp(one->fabric_attr->prov_name, "tagrv");
	return offered ? 0 : -FI_ENODATA;
}

/* The capabilities that Open MPI asks for, wherever the ranks are. */
static int mpi(void)
{
	return offered_for(FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV);
}

static int unknown_caps(void)
{
	return offered_for(FI_TAGGED | FI_HMEM);
}

static int node(void)
{
	return get_info("no.such.host.invalid", "5000", 0);
}

static int port(void)
{
	char service[8];

	open_a();
	fi_freeinfo(info);
	snprintf(service, sizeof(service), "%u", ntohs(a.name.sin_port));
	must(get_info(inet_ntoa(a.name.sin_addr), service, FI_SOURCE), "fi_getinfo");
	return open_end(&b);
}

static int too_long(void)
{
	static char byte;

	open_a();
	return (int)fi_send(a.ep, &byte, info->ep_attr->max_msg_size + 1, NULL, a.peer, NULL);
}

static int bad_access(void)
{
	struct fid_mr *mr;
	char buf[8];

	open_domain();
	return fi_mr_reg(domain, buf, sizeof(buf), FI_SEND | FI_PEEK, 0, 0, 0, &mr, NULL);
}

static int segments(void)
{
	static struct iovec iov[64];

	open_a();
	return (int)fi_sendv(a.ep, iov, NULL, info->tx_attr->iov_limit + 1, a.peer, NULL);
}

static int removed(void)
{
	static char byte;

	open_a();
	must(fi_av_remove(a.av, &a.peer, 1, 0), "fi_av_remove");
	return (int)fi_trecv(a.ep, &byte, 1, NULL, a.peer, 0, 0, NULL);
}

static int memlock(void)
{
	open_domain();
	return open_end(&a);
}

/* ---- foreign connections ---- */

static void one_done(struct end *end)
{
	struct fi_cq_tagged_entry entry;
	time_t give_up = time(NULL) + WAIT_S;
	ssize_t ret;

	do {
		/* Reading one CQ makes progress for both ends, which share the domain. */
		ret = fi_cq_read(end->cq, &entry, 1);
	} while (ret == -FI_EAGAIN && time(NULL) < give_up);
	must(ret, "a message that should arrive");
}

static void exchange(void)
{
	struct end *to = b.ep ? &b : &a;
	char out = 'x', in = 0;

	must(fi_trecv(to->ep, &in, 1, NULL, FI_ADDR_UNSPEC, 7, 0, NULL), "fi_trecv");
	must(fi_tsend(a.ep, &out, 1, NULL, a.peer, 7, NULL), "fi_tsend");
	one_done(to);
	one_done(&a);
	must(in == out ? 0 : -FI_EIO, "the message's contents");
}

/* Opens both ends, or only a if the device reaches no other endpoint. */
static void open_ends(void)
{
	open_a();
	if (strcmp(info->domain_attr->name, "loop") != 0) {
		must(open_end(&b), "fi_enable");
		insert(&a, &b);
		insert(&b, &a);
	}
	exchange();
}

static int stranger(void)
{
	struct timeval limit = { .tv_sec = WAIT_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a.name, sizeof(a.name)))
		must(-errno, "the stranger's connection");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

/* The peer may close the connection before all bytes are sent. */
static int garbage(void)
{
	static unsigned char bytes[GARBAGE];
	int fd, ret;

	open_ends();
	srandom(1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)random();
	fd = stranger();
	for (size_t sent = 0; sent < sizeof(bytes);) {
		ssize_t n = send(fd, bytes + sent, sizeof(bytes) - sent, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	errno = 0;
	ret = recv(fd, bytes, 1, 0) <= 0 && errno != EAGAIN ? -FI_ECONNRESET : 0;
	close(fd);
	exchange();
	return ret;
}

/* A peer of another release, which speaks the versions 'from' to 'to' only. */
static int other_version(unsigned char from, unsigned char to)
{
	unsigned char rec[RECORD] = "tagrvwir";
	ssize_t got;
	int fd;

	open_ends();
	rec[RECORD_LENGTH + 1] = RECORD;
	rec[RECORD_TYPE] = REQ;
	rec[RECORD_VERSION_MIN + 1] = from;
	rec[RECORD_VERSION_MAX + 1] = to;
	fd = stranger();
	must(send(fd, rec, sizeof(rec), MSG_NOSIGNAL) == sizeof(rec) ? 0 : -FI_EIO, "send");
	memset(rec, 0, sizeof(rec));
	got = recv(fd, rec, sizeof(rec), MSG_WAITALL);
	close(fd);
	exchange();
	return got > RECORD_REASON && rec[RECORD_TYPE] == REJ &&
	       rec[RECORD_REASON] == REASON_VERSION ? -FI_ENOPROTOOPT : 0;
}

static int future_version(void)
{
	return other_version(200, 201);
}

static int past_version(void)
{
	return other_version(1, 1);
}

/* ---- peers that do not answer ---- */

/* The error of a message to an address; 0: it was sent. */
static int send_to(const struct sockaddr_in *addr)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	time_t give_up = time(NULL) + WAIT_S;
	static char byte;
	fi_addr_t peer;
	ssize_t ret;

	if (fi_av_insert(a.av, addr, 1, &peer, 0, NULL) != 1)
		must(-FI_EINVAL, "fi_av_insert");
	must(fi_tsend(a.ep, &byte, 1, NULL, peer, 7, NULL), "fi_tsend");
	do {
		ret = fi_cq_read(a.cq, &entry, 1);
	} while (ret == -FI_EAGAIN && time(NULL) < give_up);
	if (ret != -FI_EAVAIL)
		return (int)(ret < 0 ? ret : 0);
	must(fi_cq_readerr(a.cq, &err, 0), "fi_cq_readerr");
	return -err.err;
}

static int listener(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*addr = a.name;
	addr->sin_port = 0;
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, len) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		must(-errno, "a port");
	return fd;
}

/* The port was somebody's, and nobody listens there now. */
static int nobody(void)
{
	struct sockaddr_in addr;

	setenv("FI_TAGRV_CONNECT_TIMEOUT", "2", 1);
	open_a();
	close(listener(&addr));
	return send_to(&addr);
}

/* A listener whose queue is full drops what comes, as a firewall does. */
static int firewall(void)
{
	struct sockaddr_in addr;
	int fd, ret;

	setenv("FI_TAGRV_CONNECT_TIMEOUT", "2", 1);
	open_a();
	fd = listener(&addr);
	must(listen(fd, 0) ? -errno : 0, "listen");
	for (int i = 0; i < 4; i++) {
		int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		(void)connect(client, (struct sockaddr *)&addr, sizeof(addr));
	}
	ret = send_to(&addr);
	close(fd);
	return ret;
}

/* A second domain in this process, of another job. */
static int job_key(void)
{
	struct fid_domain *first;
	struct sockaddr_in name;
	int ret;

	setenv("FI_TAGRV_JOB_KEY", "key-of-one-job-0123456789", 1);
	open_a();
	first = domain;
	setenv("FI_TAGRV_JOB_KEY", "key-of-another-job-0123456789", 1);
	must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	must(open_end(&b), "fi_enable");
	name = b.name;
	ret = send_to(&name);
	close_end(&b);
	b.ep = NULL;
	must(fi_close(&domain->fid), "fi_close of the domain");
	domain = first;
	return ret;
}

/* Opens a domain, and that is all. */
static int nothing(void)
{
	open_domain();
	return 0;
}

/* ---- what the kernel forbids ---- */

static char large[2][1 << 20];

/* Some containers do not let their processes have a filter. */
static int filter(void)
{
	return seccomp_forbid(SYS_process_vm_readv, EPERM) ? -FI_ENOSYS : 0;
}

/* Large messages between processes that must not read each other's memory. */
static int no_cma(void)
{
	must(filter(), "a filter of system calls");
	open_a();
	must(open_end(&b), "fi_enable");
	insert(&a, &b);
	insert(&b, &a);
	must(fi_trecv(b.ep, large[1], sizeof(large[1]), NULL, FI_ADDR_UNSPEC, 7, 0, NULL), "fi_trecv");
	must(fi_tsend(a.ep, large[0], sizeof(large[0]), NULL, a.peer, 7, NULL), "fi_tsend");
	one_done(&b);
	one_done(&a);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "device", device },
	{ "mpi", mpi },
	{ "unknown-caps", unknown_caps },
	{ "node", node },
	{ "port", port },
	{ "too-long", too_long },
	{ "segments", segments },
	{ "access", bad_access },
	{ "removed", removed },
	{ "memlock", memlock },
	{ "garbage", garbage },
	{ "future-version", future_version },
	{ "past-version", past_version },
	{ "nobody", nobody },
	{ "firewall", firewall },
	{ "job-key", job_key },
	{ "filter", filter },
	{ "no-cma", no_cma },
	{ "nothing", nothing },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		printf("%s\n", fi_strerror(-cases[i].run()));
		close_all();
		return EXIT_SUCCESS;
	}
	fprintf(stderr, "usage: bad_input CASE; see fabtests/scripts/bad-input\n");
	return 2;
}
