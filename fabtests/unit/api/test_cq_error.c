/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues: error entries for old and new applications, texts of errors.
 */
#include <string.h>

#include "unit/api/api_calls.h"

TestSuite(cq_error, .init = api_set_up, .fini = api_tear_down, .timeout = 30);

/* Newer headers have src_addr behind err_data_size; ours may be either. */
union err_entry {
	struct fi_cq_err_entry old;
	struct {
		char old[offsetof(struct fi_cq_err_entry, err_data_size) +
			 sizeof(size_t)];
		fi_addr_t src_addr;
	} newer;
};

static const struct tagrv_addr unknown_sender = {
	.in = { .sin_family = AF_INET, .sin_port = 0x1234, .sin_addr = { 0x0100007f } },
};

static void read_error(uint32_t version, union err_entry *entry)
{
	struct tagrv_domain *domain = tagrv_container_of(api.domain,
			struct tagrv_domain, domain);

	domain->api_version = version;
	api_push(api.cq, 1, FI_EIO);
	/* Not fi_cq_readerr, which in newer headers writes to the entry itself. */
	cr_assert_eq(api.cq->ops->readerr(api.cq, &entry->old, 0), 1);
	cr_expect_eq(entry->old.err, FI_EIO);
}

Test(cq_error, error_entries_fit_the_version_of_the_application)
{
	union err_entry entry;
	char err_data[8];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	memset(&entry, 0xee, sizeof(entry));
	read_error(FI_VERSION(1, 4), &entry);
	cr_expect_null(entry.old.err_data);
	cr_expect_eq(entry.old.err_data_size, 0xeeeeeeeeeeeeeeee);
	cr_expect_eq(entry.newer.src_addr, 0xeeeeeeeeeeeeeeee);

	entry.old.err_data = err_data;
	entry.old.err_data_size = sizeof(err_data);
	read_error(FI_VERSION(1, 17), &entry);
	cr_expect_eq(entry.old.err_data, err_data, "the application's buffer");
	cr_expect_eq(entry.old.err_data_size, 0);
	cr_expect_eq(entry.newer.src_addr, 0xeeeeeeeeeeeeeeee);

	read_error(FI_VERSION(1, 20), &entry);
	cr_expect_null(entry.old.err_data);
	cr_expect_eq(entry.old.err_data_size, 0);
	cr_expect_eq(entry.newer.src_addr, 5);
}

/* Reads the error of a message whose sender is not in the address vector. */
static void read_stranger(uint32_t version, struct fi_cq_err_entry *entry)
{
	struct tagrv_domain *domain = tagrv_container_of(api.domain,
			struct tagrv_domain, domain);
	struct tagrv_comp comp = {
		.context = (void *) 1, .err = TAGRV_ERR_UNKNOWN_SOURCE,
	};
	struct tagrv_cq *cq = tagrv_container_of(api.cq, struct tagrv_cq, cq);

	tagrv_comp_set_unknown_source(&comp, &unknown_sender);
	tagrv_compq_push(&cq->queue, &comp);
	domain->api_version = version;
	cr_assert_eq(fi_cq_readerr(api.cq, entry, 0), 1);
	cr_expect_eq(entry->err, FI_EADDRNOTAVAIL);
	cr_expect_eq(entry->prov_errno, FI_EADDRNOTAVAIL);
}

Test(cq_error, the_address_of_an_unknown_sender_fits_the_version)
{
	struct fi_cq_err_entry entry;
	char room[32], little[8];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	memset(&entry, 0xee, sizeof(entry));
	read_stranger(FI_VERSION(1, 4), &entry);
	cr_expect_eq(memcmp(entry.err_data, &unknown_sender,
			    sizeof(unknown_sender.in)), 0);
	cr_expect_eq(entry.err_data_size, 0xeeeeeeeeeeeeeeee);

	entry.err_data_size = 0;
	read_stranger(FI_VERSION(1, 17), &entry);
	cr_expect_eq(memcmp(entry.err_data, &unknown_sender,
			    sizeof(unknown_sender.in)), 0);
	cr_expect_eq(entry.err_data_size, sizeof(unknown_sender.in));

	entry.err_data = room;
	entry.err_data_size = sizeof(room);
	read_stranger(FI_VERSION(1, 17), &entry);
	cr_expect_eq(entry.err_data, room);
	cr_expect_eq(memcmp(room, &unknown_sender, sizeof(unknown_sender.in)), 0);
	cr_expect_eq(entry.err_data_size, sizeof(unknown_sender.in));

	memset(little, 0xee, sizeof(little));
	entry.err_data = little;
	entry.err_data_size = 4;
	read_stranger(FI_VERSION(1, 17), &entry);
	cr_expect_eq(entry.err_data_size, 4);
	cr_expect_eq(memcmp(little, &unknown_sender, 4), 0);
	cr_expect_eq((unsigned char) little[4], 0xee);
}

Test(cq_error, texts_of_errors)
{
	char text[8];

	api.cq = api_open_cq(&api, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	cr_expect_str_eq(fi_cq_strerror(api.cq, FI_ETRUNC, NULL, NULL, 0),
			 fi_strerror(FI_ETRUNC));
	fi_cq_strerror(api.cq, FI_ETRUNC, NULL, text, sizeof(text));
	cr_expect_eq(strncmp(text, fi_strerror(FI_ETRUNC), 7), 0);
	cr_expect_eq(text[7], '\0');
}
