/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_nic: contents, duplicates, text, the list of several devices.
 */
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "unit/api/api_fixture.h"

TestSuite(nic, .init = api_init, .timeout = 20);

static struct tagrv_device_desc description(void)
{
	struct tagrv_device_desc desc = {
		.name = "rdma0", .usable = true, .up = true,
		.vendor_id = "0x15b3", .device_id = "4123", .driver = "ib_core",
		.firmware = "20.1", .link_type = "Ethernet",
		.pci_domain = 0, .pci_bus = 0x17, .pci_dev = 2, .pci_func = 1,
		.speed = 100000000000, .mtu = 4096, .numa_node = -1,
	};

	desc.addr.in.sin_family = AF_INET;
	desc.addr.in.sin_addr.s_addr = htonl(0x0a010203);
	return desc;
}

static void check(const struct fid_nic *nic)
{
	cr_assert_not_null(nic->device_attr);
	cr_assert_not_null(nic->bus_attr);
	cr_assert_not_null(nic->link_attr);
	cr_expect_eq(nic->fid.fclass, FI_CLASS_NIC);
	cr_expect_str_eq(nic->device_attr->name, "rdma0");
	cr_expect_str_eq(nic->device_attr->vendor_id, "0x15b3");
	cr_expect_null(nic->device_attr->device_version);
	cr_expect_eq(nic->bus_attr->bus_type, FI_BUS_PCI);
	cr_expect_eq(nic->bus_attr->attr.pci.bus_id, 0x17);
	cr_expect_eq(nic->bus_attr->attr.pci.function_id, 1);
	cr_expect_str_eq(nic->link_attr->address, "10.1.2.3");
	cr_expect_eq(nic->link_attr->speed, 100000000000);
	cr_expect_eq(nic->link_attr->state, FI_LINK_UP);
	cr_expect_str_eq(nic->link_attr->network_type, "Ethernet");
}

Test(nic, holds_the_description_of_the_transport)
{
	struct tagrv_device_desc desc = description();
	struct fid_nic *nic = tagrv_nic_create(&desc);

	check(nic);
	cr_expect_eq(fi_close(&nic->fid), 0);
}

Test(nic, a_device_without_bus_and_address_has_every_part)
{
	struct tagrv_device_desc desc = { .name = "soft0", .pci_domain = -1 };
	struct fid_nic *nic = tagrv_nic_create(&desc);

	cr_assert_not_null(nic->bus_attr);
	cr_assert_not_null(nic->link_attr);
	cr_expect_eq(nic->bus_attr->bus_type, FI_BUS_UNKNOWN);
	cr_expect_eq(nic->link_attr->state, FI_LINK_DOWN);
	cr_expect_null(nic->link_attr->address);
	cr_expect_eq(fi_close(&nic->fid), 0);
}

/* libfabric handles the nic of an info. */
Test(nic, survives_duplication_and_printing_of_its_info)
{
	struct tagrv_ask ask = { .caps = TAGRV_CAPS, .family = AF_INET };
	struct tagrv_device_desc desc = description();
	struct fi_info *info, *copy;

	info = tagrv_info_build(&ask, &desc, &desc.addr);
	cr_assert_not_null(info);
	copy = fi_dupinfo(info);
	cr_assert_not_null(copy);
	cr_assert_neq(copy->nic, info->nic);
	fi_freeinfo(info);
	check(copy->nic);
	cr_expect_not_null(strstr(fi_tostr(copy, FI_TYPE_INFO),
				  "pci 0000:17:02.1"));
	fi_freeinfo(copy);
}

Test(nic, text_is_appended_and_cut)
{
	struct tagrv_device_desc desc = description();
	struct fid_nic *nic = tagrv_nic_create(&desc);
	char buf[32] = "begin ";

	nic->fid.ops->tostr(&nic->fid, buf, sizeof(buf) - strlen(buf));
	cr_expect_eq(strncmp(buf, "begin ", 6), 0);
	cr_expect_eq(strlen(buf), sizeof(buf) - 1);
	cr_expect_eq(fi_control(&nic->fid, FI_GETWAIT, NULL), -FI_ENOSYS);
	cr_expect_eq(fi_close(&nic->fid), 0);
}

Test(nic, an_info_of_a_device_reaches_other_hosts)
{
	struct tagrv_ask ask = { .caps = TAGRV_CAPS, .family = AF_INET };
	struct tagrv_device_desc desc = description();
	struct fi_info *info = tagrv_info_build(&ask, &desc, &desc.addr);

	cr_expect_eq(info->caps, TAGRV_CAPS);
	cr_expect_eq(info->domain_attr->caps, FI_LOCAL_COMM | FI_REMOTE_COMM);
	cr_expect_str_eq(info->domain_attr->name, "rdma0");
	tagrv_info_free(info);
}
