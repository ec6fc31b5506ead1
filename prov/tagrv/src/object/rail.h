/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The transports of one endpoint: each is a rail that its messages can take.
 *
 *   rails[]   shm, verbs, loop      opened with the engine, best first
 *   active[]  rails with lanes      polled in every pass
 *
 * A transport without connections is polled only in every TAGRV_RAIL_REST-th pass
 * and before going to sleep: to learn that its device is lost, and to free links
 * that never came up.
 *
 * owner: the engine. lock: the domain's, except where a function says not.
 */
#ifndef TAGRV_OBJECT_RAIL_H
#define TAGRV_OBJECT_RAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"
#include "object/dom.h"
#include "select/select.h"
#include "xport/xport.h"

#define TAGRV_RAILS_MAX	(TAGRV_DOM_DEVS_MAX + 1)
#define TAGRV_RAIL_REST	64	/* a power of two */

struct tagrv_engine;

/* The table for peers whose device is of one model, which the profile has a section for. */
struct tagrv_rail_pair {
	uint32_t peer_key;	/* as of the link */
	struct tagrv_select select;
	struct tagrv_rail_pair *next;
};

struct tagrv_rail {
	struct tagrv_sink sink;		/* ours, given to the transport */
	struct tagrv_engine *engine;
	struct tagrv_xport *xport;
	int	fatal;			/* -FI_E* once the device is lost */
	uint32_t lanes;			/* attached and not closed yet */
	uint64_t ups;			/* connections it has had */
	struct tagrv_select select;	/* of protocols; built with the first lane */
	struct tagrv_rail_pair *pairs;	/* built with the first lane to such a peer */
	uint64_t dump;			/* reads whose bytes nobody wants go here; */
	struct tagrv_mem *dump_mem;	/* its registration, when it is wanted first */
};

struct tagrv_rails {
	struct tagrv_rail all[TAGRV_RAILS_MAX];	/* the last one: loop */
	size_t	cnt;
	struct tagrv_dom *dom;
	struct tagrv_rail *active[TAGRV_RAILS_MAX];
	size_t	active_cnt;
	uint32_t passes;
	/* offered to peers: all but loop */
	struct tagrv_xport *xports[TAGRV_DOM_DEVS_MAX];
	size_t	xport_cnt;
};

/* dom lock not held. Half-opened rails are closed by tagrv_rails_close. */
int tagrv_rails_open(struct tagrv_engine *engine,
		     const struct tagrv_sink *sink) TAGRV_WARN_UNUSED;
/* dom lock not held; the engine is in no list any more. */
void tagrv_rails_close(struct tagrv_engine *engine);

/* The registration of rail->dump, to read into. NULL: the device cannot. */
struct tagrv_mem *tagrv_rail_dump(struct tagrv_rail *rail);

/* A link of the rail gets a lane, or loses it. */
void tagrv_rail_add_lane(struct tagrv_rail *rail);
void tagrv_rail_drop_lane(struct tagrv_rail *rail);

static inline struct tagrv_rail *tagrv_rail_of_sink(struct tagrv_sink *sink)
{
	return tagrv_container_of(sink, struct tagrv_rail, sink);
}

static inline struct tagrv_rail *tagrv_rail_of(const struct tagrv_link *link)
{
	return tagrv_rail_of_sink(link->xport->sink);
}

/*
 * The table of protocols for this transport, built and logged when the first
 * link comes up. It is made for our own limit of eager messages; a peer may have
 * a smaller one.
 */
const struct tagrv_select *tagrv_rail_select(struct tagrv_rail *rail);
/*
 * The table for this link of the rail: by the section of the profile for its peer's device,
 * if there is one (and memory for the table), else the table above. Both live as long as
 * the rail.
 */
const struct tagrv_select *tagrv_rail_select_for(struct tagrv_rail *rail,
						 const struct tagrv_link *link);

/* The rail that messages to ourselves take. */
static inline struct tagrv_rail *tagrv_rail_loop(struct tagrv_rails *rails)
{
	return &rails->all[rails->cnt - 1];
}

/* Moves all rails; returns events handled. */
int tagrv_rails_poll_all(struct tagrv_rails *rails);

/* Moves the rails in use; returns events handled. deep: of their sinks. */
static inline int tagrv_rails_poll(struct tagrv_rails *rails, bool deep)
{
	bool crowded = tagrv_patience_is_crowded(&rails->dom->patience);
	int events = 0;

	if (TAGRV_UNLIKELY(!(++rails->passes & (TAGRV_RAIL_REST - 1)))) {
		tagrv_dom_tick(rails->dom);
		return tagrv_rails_poll_all(rails);
	}
	/* The last lane of a rail may end meanwhile. */
	for (size_t i = 0; i < rails->active_cnt; i++) {
		struct tagrv_rail *rail = rails->active[i];

		rail->sink.deep = deep;
		rail->sink.crowded = crowded;
		events += rail->xport->ops->progress(rail->xport);
	}
	return events;
}

/* Reaps finished sends of all rails in use. */
void tagrv_rails_reap(struct tagrv_rails *rails);
/* 0: all are armed; -FI_EAGAIN: progress first. */
int tagrv_rails_arm(struct tagrv_rails *rails) TAGRV_WARN_UNUSED;
/* Asks for outstanding confirmations; true when there are none. */
bool tagrv_rails_flush(struct tagrv_rails *rails);
/* Bytes of the longest packet that any rail may bring. Needs no lock. */
size_t tagrv_rails_max_packet(const struct tagrv_rails *rails);
/* Why no peer can be reached (-FI_E*), or 0. */
int tagrv_rails_lost(const struct tagrv_rails *rails);
/* Replaces -FI_EHOSTUNREACH by the error of a lost device, which may have caused it. */
int tagrv_rails_blame(const struct tagrv_rails *rails, int status);
/* Whether a rail in use has a device in software, which needs our processor. */
bool tagrv_rails_need_cpu(const struct tagrv_rails *rails);
/* Connections that each rail has had, as text: "2 shm, 0 verbs, 1 loop". */
void tagrv_rails_describe(const struct tagrv_rails *rails, char *text, size_t len);

#endif
