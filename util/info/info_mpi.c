/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which provider an MPI library gets: libfabric is asked with the hints of that library, and so
 * finds the installed plug-in, or the one in FI_PROVIDER_PATH, as the library's processes do.
 */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/info/info_host.h"

#define PROVIDER	"tagrv"

/* A program that asks libfabric for a provider. */
struct user {
	const char *name, *short_name;
	uint32_t version;	/* of the API that it asks for */
	uint64_t caps;
	uint64_t op_flags, msg_order;
	int	mr_mode;
	const char *how;	/* to have it take the provider */
};

static const struct user users[] = {
	{
		.name = "Open MPI, messages (mtl ofi)", .short_name = "openmpi-messages",
		.version = FI_VERSION(1, 5), .op_flags = FI_COMPLETION,
		.caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV,
		.msg_order = FI_ORDER_SAS,
		.how = "mpirun --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tagrv",
	}, {
		.name = "Open MPI, windows (btl ofi)", .short_name = "openmpi-windows",
		.version = FI_VERSION(1, 5), .op_flags = FI_DELIVERY_COMPLETE,
		.caps = FI_RMA | FI_ATOMIC, .mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY |
						       FI_MR_VIRT_ADDR,
		.how = "mpirun --mca btl self,ofi --mca osc rdma --mca btl_ofi_provider_include "
		       "tagrv",
	}, {
		.name = "MPICH (ch4:ofi)", .short_name = "mpich",
		.version = FI_VERSION(1, 17), .op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE,
		.caps = FI_MSG | FI_MULTI_RECV | FI_TAGGED | FI_DIRECTED_RECV,
		.msg_order = FI_ORDER_SAS, .mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY |
						      FI_MR_VIRT_ADDR,
		.how = "export FI_PROVIDER=tagrv",
	},
};

/* ---- asking ---- */

static struct fi_info *make_hints(const struct user *user)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = user->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->op_flags = user->op_flags;
	hints->tx_attr->msg_order = user->msg_order;
	hints->rx_attr->msg_order = user->msg_order;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->mr_mode = user->mr_mode;
	return hints;
}

/* NULL: there is none, or no memory. */
static struct fi_info *ask(const struct user *user)
{
	struct fi_info *hints = make_hints(user), *list = NULL;

	if (hints && fi_getinfo(user->version, NULL, NULL, 0, hints, &list))
		list = NULL;
	fi_freeinfo(hints);
	return list;
}

/* Whether FI_PROVIDER, a list or ^ and a list, leaves it out. */
static bool is_left_out(void)
{
	const char *names = getenv("FI_PROVIDER");

	return names && *names && (*names == '^') == (strstr(names, PROVIDER) != NULL);
}

/* Whether libfabric has the plug-in. */
static bool is_found(void)
{
	struct fi_info *list = NULL;
	bool found = false;

	if (!fi_getinfo(FI_VERSION(1, 5), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list))
		for (struct fi_info *i = list; i && !found; i = i->next)
			found = !strcmp(i->fabric_attr->prov_name, PROVIDER);
	fi_freeinfo(list);
	return found;
}

static bool is_in(json_t *names, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach(names, i, one)
		if (!strcmp(json_string_value(one), name))
			return true;
	return false;
}

/* The providers in libfabric's order, each once. */
static json_t *names_of(const struct fi_info *list)
{
	json_t *names = json_array();

	for (; list; list = list->next)
		if (!is_in(names, list->fabric_attr->prov_name))
			json_array_append_new(names, json_string(list->fabric_attr->prov_name));
	return names;
}

/* ---- what to say ---- */

static const char *why_not(void)
{
	const char *path = getenv("FI_PROVIDER_PATH");

	if (is_left_out())
		return "FI_PROVIDER leaves it out: unset it, or set it to tagrv";
	if (is_found())
		return "it does not meet the hints: the log above says which (FI_LOG_LEVEL=info "
		       "says more)";
	return path ? "libfabric finds no libtagrv-fi.so in FI_PROVIDER_PATH that it can load "
		      "(FI_LOG_LEVEL=debug says why)" :
		      "libfabric finds no plug-in libtagrv-fi.so: install it, or name its folder "
		      "in FI_PROVIDER_PATH";
}

static json_t *one(const struct user *user)
{
	struct fi_info *list = ask(user);
	json_t *names = names_of(list);
	bool offered = is_in(names, PROVIDER);

	fi_freeinfo(list);
	return json_pack("{s:s, s:s, s:o, s:b, s:s}", "program", user->short_name, "title",
			 user->name, "providers", names, "offered", offered, "advice",
			 offered ? user->how : why_not());
}

json_t *info_mpi_json(int *failed)
{
	json_t *list = json_array();

	*failed = -FI_ENODATA;
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(users); i++) {
		json_t *object = one(&users[i]);

		if (json_is_true(json_object_get(object, "offered")))
			*failed = 0;
		json_array_append_new(list, object);
	}
	return json_pack("{s:s, s:o}", "version", PACKAGE_VERSION, "programs", list);
}

static void print_names(FILE *out, json_t *names)
{
	json_t *name;
	size_t i;

	fprintf(out, "  %-11s ", "providers");
	json_array_foreach(names, i, name)
		fprintf(out, "%s%s", i ? ", " : "", json_string_value(name));
	fputs(json_array_size(names) ? "\n" : "none\n", out);
}

int info_mpi_text(FILE *out)
{
	json_t *json, *user;
	int failed;
	size_t i;

	json = info_mpi_json(&failed);
	json_array_foreach(json_object_get(json, "programs"), i, user) {
		bool offered = json_is_true(json_object_get(user, "offered"));

		fprintf(out, "%s\n", json_string_value(json_object_get(user, "title")));
		print_names(out, json_object_get(user, "providers"));
		fprintf(out, "  %-11s %s\n", offered ? "to take it" : "not tagrv",
			json_string_value(json_object_get(user, "advice")));
	}
	json_decref(json);
	return failed;
}
