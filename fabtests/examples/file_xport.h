/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The toy transport's structures: see file_xport.c. Only the unit test program
 * of the transports links it.
 */
#ifndef FABTESTS_EXAMPLES_FILE_XPORT_H
#define FABTESTS_EXAMPLES_FILE_XPORT_H

#include <stdio.h>

#include "core/list.h"
#include "xport/xport.h"

#define FILE_NAME	"file"
#define FILE_FOLDER	"/tmp/tagrv-file-"
#define FILE_ID_LEN	6u		/* letters and digits behind FILE_FOLDER */
#define FILE_WINDOW	64u		/* packets in an inbox */
#define FILE_CTRL	8u		/* of them for TAGRV_SEND_CTRL only */
#define FILE_PACKET_MAX	16384u		/* bytes */
#define FILE_UNSENT	UINT64_MAX	/* the number of a packet being written */

struct file_link {
	struct tagrv_link base;
	struct tagrv_list node;		/* in file_xport.links once attached */
	char	in[32];			/* folder: our inbox */
	char	out[32];		/* folder: the peer's; "" before link_bind */
	uint64_t taken;			/* packets delivered from our inbox */
	uint64_t sent;			/* packets put into the peer's */
	uint64_t ended;			/* of them: done has run */
	struct tagrv_done *done[FILE_WINDOW];	/* of packet i % FILE_WINDOW */
	int	status;			/* -FI_E* once the link has failed */
	bool	reported;		/* link_error was called */
	bool	closing;		/* link_close was called */
	bool	starved;		/* send returned -FI_EAGAIN: room is due */
};

struct file_xport {
	struct tagrv_xport base;
	struct tagrv_list links;
	size_t	outstanding;		/* sent and not ended, of all links */
	int	watch;			/* inotify of all inboxes; wait_fd */
	bool	busy;			/* a pass runs: callbacks start no other */
	char	packet[FILE_PACKET_MAX + 1];	/* being delivered, or events of inotify */
};

static inline struct file_xport *to_xport(struct tagrv_xport *xport)
{
	return tagrv_container_of(xport, struct file_xport, base);
}

static inline struct file_link *to_link(struct tagrv_link *link)
{
	return tagrv_container_of(link, struct file_link, base);
}

/* The path of packet 'nr' in an inbox, valid within the block that asks for it. */
#define PATH(inbox, nr)	path_of((char[64]) { "" }, inbox, nr)

static inline const char *path_of(char path[64], const char *inbox, uint64_t nr)
{
	snprintf(path, 64, "%s/%llu", inbox, (unsigned long long) nr);
	return path;
}

extern const struct tagrv_xport_ops tagrv_file_ops;

#endif
