/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many sockets an endpoint keeps of connections that can do without
 * (attr.max_sockets).
 *
 *   wep->kept   peers with a spare socket, the least recently used one first: a record,
 *               or another event of its connection, is a use
 *
 * The limit is the endpoint's, since its transports decide whether a socket is spare, and
 * since both ends of a connection have such a list: the shorter one counts. How many
 * descriptors the process can have is another limit, for all sockets (caps.socks).
 */
#include "wireup/wireup_priv.h"

void tagrv_wireup_kept_remove(struct tagrv_wireup_ep *wep, struct tagrv_list *node)
{
	if (!tagrv_list_linked(node))
		return;
	tagrv_list_remove(node);
	wep->kept_cnt--;
}

static void close_oldest(struct tagrv_wireup_ep *wep)
{
	struct tagrv_list *node = tagrv_list_first(&wep->kept);

	tagrv_wireup_kept_remove(wep, node);
	tagrv_conn_close_sockets(tagrv_wireup_peer_of_kept(node));
}

void tagrv_wireup_kept_note(struct tagrv_wireup_ep *wep, struct tagrv_list *node,
			    const struct tagrv_conn *conn)
{
	tagrv_wireup_kept_remove(wep, node);
	if (!wep->attr.max_sockets || !tagrv_conn_has_spare_socket(conn))
		return;
	tagrv_list_push_tail(&wep->kept, node);
	wep->kept_cnt++;
	while (wep->kept_cnt > wep->attr.max_sockets)
		close_oldest(wep);
}

void tagrv_wireup_get_stats(const struct tagrv_wireup_ep *wep,
			    struct tagrv_wireup_stats *stats)
{
	*stats = (struct tagrv_wireup_stats) {
		.closed_sockets = atomic_load_explicit(&wep->host.closed_sockets,
						       memory_order_relaxed),
		.reopened_sockets = atomic_load_explicit(&wep->host.reopened_sockets,
							 memory_order_relaxed),
	};
}
