/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What tagrv_info knows of this host, and the parts that print it.
 *
 *   tagrv_info.c   options
 *   info_host.c    devices in the order of fi_getinfo, those that are not offered, rails
 *   info_table.c   the table of protocols of a device
 *   info_text.c    prints both as text
 *   info_json.c    the same as JSON
 *   info_why.c     the way of one message
 *   info_mpi.c     which provider MPI libraries get
 *   info_report.c  one file for a bug report
 */
#ifndef UTIL_INFO_INFO_HOST_H
#define UTIL_INFO_INFO_HOST_H

#include <config.h>

#include <jansson.h>
#include <stdio.h>

#include "core/param.h"
#include "object/dom.h"
#include "object/dom_rails.h"
#include "select/select.h"
#include "xport/xport.h"

/* Names a device, or a transport that lists none, that is not offered. */
struct info_other {
	char	name[TAGRV_DEVNAME_MAX];
	char	why[192];
};

#define INFO_OTHERS	64u

struct info_host {
	struct tagrv_params params;
	struct tagrv_device_desc *found;	/* in the order of discovery, for rails */
	struct tagrv_device_desc *descs;	/* in the order of fi_getinfo */
	unsigned *alike;			/* of each: how many are as good, itself included */
	size_t	cnt;
	struct info_other others[INFO_OTHERS];
	size_t	other_cnt;
	unsigned procs;				/* on this host, by the launcher; 0: not known */
	const char *launcher;			/* its variable; NULL: none */
	bool	set_level, set_prov;		/* FI_LOG_LEVEL, FI_LOG_PROV are ours, not the user's */
};

/*
 * Reads parameters and looks for devices. Initialises libfabric, without which its log and
 * parameters do not work. 0 or -FI_ENOMEM.
 */
int info_host_read(struct info_host *host);
void info_host_free(struct info_host *host);
/* What a domain of descs[i], no local one, would join, and why. */
void info_host_rails(const struct info_host *host, size_t i, struct tagrv_dom_rails *rails);
/* Replaces bytes that are no printable ASCII, which JSON or a terminal would not take, by '?'. */
void info_clean(char *text);
/* A parameter's text, as it is printed: of an empty one, the default that its help names. */
const char *info_param_text(const struct info_host *host, size_t i, char *text, size_t size);

/* -- info_table.c --------------------------------------------------------------------- */

struct info_table {
	char	transport[16];
	uint64_t peer_model;		/* the table is for peers of it; 0: for all others */
	struct tagrv_xport_attr attr;	/* with what the profile says; its section is ours */
	char	section[128];
	size_t	eager_limit;		/* bytes */
	struct tagrv_select table;
};

#define INFO_TABLES	65u	/* of a device, at most: its own, and one for each section of a profile */

/* Opens the domain for a moment. 0 or -FI_E*. */
int info_table_read(const char *name, struct info_table *table);
/*
 * The same, with the tables for pairs that the profile has sections for behind the first
 * one. *tables is to be freed, and has *cnt tables.
 */
int info_tables_read(const char *name, struct info_table **tables, size_t *cnt);
/* Where the table's times and rates are from. Returns text. */
const char *info_table_source(const struct info_table *table, char *text, size_t size);

/* -- output: to 'out', if not said otherwise ------------------------------------------------ */

void info_text_host(FILE *out, const struct info_host *host);
/* 0, or -FI_E* of a device that cannot be opened. */
int info_text_protocols(FILE *out, const struct info_host *host);

/* New objects; NULL: out of memory. */
json_t *info_json_host(const struct info_host *host);
/* *failed: as info_text_protocols() returns. */
json_t *info_json_protocols(const struct info_host *host, int *failed);

/* About one message. */
struct info_why {
	size_t	size;		/* bytes */
	bool	unexpected;	/* its receive is posted later */
	bool	no_credit;	/* the receiver has no room for an eager one */
	const char *device;	/* NULL: all */
};

/* 0 or -FI_E*; -FI_ENODEV: there is no such device. */
int info_why_text(FILE *out, const struct info_host *host, const struct info_why *why);
json_t *info_why_json(const struct info_host *host, const struct info_why *why, int *failed);

/* 0; -FI_ENODATA: no MPI library gets the provider. */
int info_mpi_text(FILE *out);
json_t *info_mpi_json(int *failed);

/* All that a report of a problem needs, without secrets. 0 or -FI_E*. */
int info_report(FILE *out, const struct info_host *host);

#endif
