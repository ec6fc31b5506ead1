/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A program that hangs, for scripts/gdb_dump: one endpoint sends messages that the
 * other one never receives, because it waits for another tag.
 *
 *	tagrv_hang FILE
 *
 * Writes the provider's dump of both endpoints to FILE and the process id to
 * standard output, then does nothing until standard input ends. A debugger can look
 * at it meanwhile.
 */
#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_tagrv.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 8, LARGE = 100000, PATIENCE_S = 300 };
enum { SMALL_TAG = 0x5001, LARGE_TAG, RECEIVE_TAG };

struct end {
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct end sender, receiver;
static char payload[LARGE], buffer[64];
static struct fi_context2 contexts[3];

static void must(ssize_t ret, const char *call)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-ret));
	exit(EXIT_FAILURE);
}

static void get_info(void)
{
	struct fi_info *hints = fi_allocinfo();

	must(hints ? 0 : -FI_ENOMEM, "fi_allocinfo");
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->name = strdup("shm");
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->fabric_attr->prov_name = strdup("tagrv");
	must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), "fi_getinfo");
	fi_freeinfo(hints);
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
}

static void open_end(struct end *end)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	must(fi_domain(fabric, info, &end->domain, NULL), "fi_domain");
	must(fi_av_open(end->domain, &av, &end->av, NULL), "fi_av_open");
	must(fi_cq_open(end->domain, &cq, &end->cq, NULL), "fi_cq_open");
	must(fi_endpoint(end->domain, info, &end->ep, NULL), "fi_endpoint");
	must(fi_ep_bind(end->ep, &end->av->fid, 0), "fi_ep_bind");
	must(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	must(fi_enable(end->ep), "fi_enable");
}

static void close_end(struct end *end)
{
	must(fi_close(&end->ep->fid), "fi_close");
	must(fi_close(&end->cq->fid), "fi_close");
	must(fi_close(&end->av->fid), "fi_close");
	must(fi_close(&end->domain->fid), "fi_close");
}

static void insert(struct end *end, const struct end *peer)
{
	char name[128];
	size_t len = sizeof(name);

	must(fi_getname(&peer->ep->fid, name, &len), "fi_getname");
	if (fi_av_insert(end->av, name, 1, &end->peer, 0, NULL) != 1)
		must(-FI_EINVAL, "fi_av_insert");
}

static void *ops_of(const struct end *end, const char *name)
{
	void *ops = NULL;

	must(fi_open_ops(&end->ep->fid, name, 0, &ops, NULL), "fi_open_ops");
	return ops;
}

/* Messages that the receiver has and that nothing matches. */
static uint64_t unexpected(void)
{
	struct fi_tagrv_ops_match *ops = ops_of(&receiver, TAGRV_EP_MATCH_OPS);
	struct fi_tagrv_match_stats stats;
	size_t len = sizeof(stats);

	must(ops->get_stats(receiver.ep, &stats, &len), "get_stats");
	return stats.unexpected;
}

static void send_messages(void)
{
	struct iovec iov = { payload, SMALL };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = sender.peer, .tag = SMALL_TAG,
		.context = &contexts[0],
	};

	must(fi_tsendmsg(sender.ep, &msg, FI_MATCH_COMPLETE), "fi_tsendmsg");
	iov.iov_len = LARGE;
	msg.tag = LARGE_TAG;
	msg.context = &contexts[1];
	must(fi_tsendmsg(sender.ep, &msg, 0), "fi_tsendmsg");
}

static void progress(void)
{
	struct fi_cq_tagged_entry entry;

	if (fi_cq_read(sender.cq, &entry, 1) != -FI_EAGAIN ||
	    fi_cq_read(receiver.cq, &entry, 1) != -FI_EAGAIN)
		must(-FI_EOTHER, "an operation has ended");
}

static void wait_until_stuck(void)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (unexpected() < 2) {
		progress();
		must(time(NULL) > end ? -FI_ETIMEDOUT : 0, "the messages do not arrive");
	}
	/* Credit and acknowledgements come and go a little longer. */
	for (int i = 0; i < 1000; i++)
		progress();
}

static void dump(const struct end *end, int fd)
{
	struct fi_tagrv_ops_dump *ops = ops_of(end, TAGRV_EP_DUMP_OPS);

	must(ops->dump(end->ep, fd), "dump");
}

static void hang(void)
{
	char byte;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

	must(fd < 0 ? -FI_EINVAL : 0, "usage: tagrv_hang FILE");
	/* At the end the messages are lost: nobody waits for them. */
	setenv("FI_TAGRV_CLOSE_TIMEOUT", "0", 1);
	get_info();
	open_end(&sender);
	open_end(&receiver);
	insert(&sender, &receiver);
	insert(&receiver, &sender);
	must(fi_trecv(receiver.ep, buffer, sizeof(buffer), NULL, receiver.peer, RECEIVE_TAG, 0,
		      &contexts[2]), "fi_trecv");
	send_messages();
	wait_until_stuck();
	dump(&sender, fd);
	dump(&receiver, fd);
	close(fd);
	hang();
	close_end(&sender);
	close_end(&receiver);
	must(fi_close(&fabric->fid), "fi_close");
	fi_freeinfo(info);
	return 0;
}
