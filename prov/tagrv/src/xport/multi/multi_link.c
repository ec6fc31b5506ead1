/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a link: a path for each rail is created with it; when the peer's blob is
 * known, paths are joined in pairs and the others discarded.
 *
 * Failures of single paths are no failures of the link, as long as one path is left.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/multi/multi_priv.h"

/* ---- create, discard: wireup thread ---- */

static struct multi_link *new_link(struct multi_xport *xp)
{
	struct multi_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->base.xport = &xp->base;
	link->base.watch_at = TAGRV_WATCH_OFF;
	link->env = link->env_lost = -1;
	tagrv_list_init(&link->node);
	tagrv_list_init(&link->busy_node);
	tagrv_list_init(&link->sent);
	tagrv_list_init(&link->again);
	for (unsigned i = 0; i < MULTI_RAILS; i++)
		link->pair_of[i] = -1;
	return link;
}

static void discard_path(struct multi_path **at)
{
	struct multi_path *path = *at;

	if (!path)
		return;
	*at = NULL;
	path->link->xport->ops->link_discard(path->link);
	free(path);
}

void tagrv_multi_link_discard(struct tagrv_link *base)
{
	struct multi_link *link = multi_link_of(base);

	for (unsigned i = 0; i < MULTI_RAILS; i++)
		discard_path(&link->paths[i]);
	free(link);
}

/* Several threads may make links, but rights are handed on only once. */
static pthread_mutex_t rights_mutex = PTHREAD_MUTEX_INITIALIZER;

static void hand_on_rights(const struct multi_xport *xp, struct tagrv_xport *rail)
{
	pthread_mutex_lock(&rights_mutex);
	if (rail->attr.admits != xp->base.attr.admits)
		rail->attr.admits = xp->base.attr.admits;
	pthread_mutex_unlock(&rights_mutex);
}

static int create_path(struct multi_link *link, unsigned i, struct multi_blob *blob)
{
	struct multi_xport *xp = multi_xport_of_link(link);
	struct tagrv_xport *rail = xp->rails[i].xport;
	struct multi_path *path = calloc(1, sizeof(*path));
	size_t len = 0;
	int ret;

	if (!path)
		return -FI_ENOMEM;
	hand_on_rights(xp, rail);
	ret = rail->ops->link_create(rail, blob->rails[i].data, &len, &path->link);
	if (ret) {
		free(path);
		return ret;
	}
	path->owner = link;
	path->rail = i;
	blob->rails[i].len = (uint8_t) len;
	link->paths[i] = path;
	return 0;
}

int tagrv_multi_link_create(struct tagrv_xport *xport, void *to, size_t *len,
			    struct tagrv_link **out)
{
	struct multi_xport *xp = multi_xport_of(xport);
	struct multi_link *link = new_link(xp);
	struct multi_blob blob = { .cnt = xp->cnt };
	int status = -FI_ENODEV;
	bool any = false;

	if (!link)
		return -FI_ENOMEM;
	for (unsigned i = 0; i < xp->cnt; i++) {
		int ret = create_path(link, i, &blob);

		if (ret)
			status = ret;
		any |= !ret;
	}
	if (!any) {
		free(link);
		return status;
	}
	*len = tagrv_multi_blob_pack(&blob, to);
	memcpy(link->own_blob, to, *len);
	link->own_blob_len = *len;
	*out = &link->base;
	return 0;
}

/* ---- bind ---- */

/* So that the packets of several peers begin by several rails. */
static unsigned spread(const struct multi_link *link, const void *blob, size_t len)
{
	const uint8_t *bytes = blob;
	unsigned sum = 0;

	for (size_t i = 0; i < link->own_blob_len; i++)
		sum += link->own_blob[i];
	for (size_t i = 0; i < len; i++)
		sum += bytes[i];
	return sum % multi_xport_of_link(link)->cnt;
}

static int bind_path(struct multi_link *link, unsigned i,
		     const struct multi_blob *peer)
{
	struct multi_path *path = link->paths[i];
	unsigned to = (unsigned) link->pair_of[i];
	int ret = path->link->xport->ops->link_bind(path->link,
						    peer->rails[to].data,
						    peer->rails[to].len);

	if (ret) {
		tagrv_info("multi: rail %s is not used to a peer: %s\n",
			   path->link->xport->dev->name, fi_strerror(-ret));
		return ret;
	}
	path->peer_rail = to;
	link->base.get_max = TAGRV_MIN(link->base.get_max, path->link->get_max);
	link->base.put_max = TAGRV_MIN(link->base.put_max, path->link->put_max);
	return 0;
}

static int bind_paths(struct multi_link *link, const struct multi_blob *peer)
{
	int status = -FI_EHOSTUNREACH;

	link->base.get_max = link->base.put_max = MULTI_CHUNK;
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		int ret;

		if (!link->paths[i])
			continue;
		ret = link->pair_of[i] < 0 ? -FI_EHOSTUNREACH :
					     bind_path(link, i, peer);
		if (!ret)
			link->pairs++;
		else
			discard_path(&link->paths[i]);
		if (ret && ret != -FI_EHOSTUNREACH)
			status = ret;
	}
	return link->pairs ? 0 : status;
}

int tagrv_multi_link_bind(struct tagrv_link *base, const void *from, size_t len)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_xport *xp = multi_xport_of_link(link);
	struct multi_blob own, peer;
	int ret;

	if (link->peer_rails)
		return -FI_EINVAL;
	ret = tagrv_multi_blob_unpack(&peer, from, len);
	if (!ret)
		ret = tagrv_multi_blob_unpack(&own, link->own_blob,
					      link->own_blob_len);
	if (ret)
		return ret;
	link->peer_rails = peer.cnt;
	link->order = spread(link, from, len);
	tagrv_multi_pair(&own, &peer, xp->rails[0].xport->ops->blobs_near,
			 link->pair_of);
	return bind_paths(link, &peer);
}

/* ---- attach, close: endpoint's thread ---- */

unsigned tagrv_multi_attach_paths(struct multi_link *link,
				  struct multi_path *paths[MULTI_RAILS])
{
	unsigned failed = 0;

	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		struct multi_path *path = paths[i];

		if (!path)
			continue;
		if (path->link->xport->ops->link_attach(path->link, path)) {
			discard_path(&paths[i]);
			failed |= 1u << i;
			continue;
		}
		link->open++;
	}
	return failed;
}

int tagrv_multi_link_attach(struct tagrv_link *base, void *ctx)
{
	struct multi_link *link = multi_link_of(base);
	struct multi_xport *xp = multi_xport_of_link(link);

	if (!link->pairs || link->attached)
		return -FI_ENOTCONN;
	base->ctx = ctx;
	link->to_say = tagrv_multi_attach_paths(link, link->paths);
	if (!multi_up_cnt(link))
		return -FI_ENOMEM;
	link->attached = true;
	tagrv_list_push_tail(&xp->links, &link->node);
	for (unsigned n = 0; n < xp->cnt && link->env < 0; n++)
		if (link->paths[(link->order + n) % xp->cnt])
			link->env = (int) ((link->order + n) % xp->cnt);
	if (link->to_say)
		multi_link_set_busy(link);
	return 0;
}

void tagrv_multi_link_close(struct tagrv_link *base)
{
	struct multi_link *link = multi_link_of(base);

	if (link->closing)
		return;
	link->closing = true;
	link->env = -1;
	link->resend = NULL;
	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		if (link->paths[i])
			tagrv_multi_path_fail(link->paths[i], -FI_ECANCELED);
		if (link->next[i])
			tagrv_multi_path_fail(link->next[i], -FI_ECANCELED);
	}
	multi_link_set_busy(link);
}

void tagrv_multi_link_end(struct multi_link *link)
{
	struct tagrv_sink *sink = link->base.xport->sink;
	int status = link->error ? link->error : -FI_ECANCELED;
	void *ctx = link->base.ctx;

	tagrv_list_remove(&link->busy_node);
	tagrv_list_remove(&link->node);
	tagrv_multi_packets_end(link, link->tx_cnt, status);
	tagrv_multi_moves_end(link, status);
	free(link);
	sink->link_closed(sink, ctx);
}
