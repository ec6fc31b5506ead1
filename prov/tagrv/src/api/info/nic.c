/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * struct fid_nic: describes a device to applications that choose among several.
 *
 * libfabric frees a fid_nic by ops->close, duplicates it by FI_DUP and prints it
 * by ops->tostr. No sub-struct is NULL, because MPI libraries do not check.
 */
#include <arpa/inet.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/info/info_priv.h"
#include "api/nosys/nosys.h"

static int nic_close(struct fid *fid)
{
	struct fid_nic *nic = tagrv_container_of(fid, struct fid_nic, fid);

	if (nic->device_attr) {
		free(nic->device_attr->name);
		free(nic->device_attr->device_id);
		free(nic->device_attr->device_version);
		free(nic->device_attr->vendor_id);
		free(nic->device_attr->driver);
		free(nic->device_attr->firmware);
	}
	if (nic->link_attr) {
		free(nic->link_attr->address);
		free(nic->link_attr->network_type);
	}
	free(nic->device_attr);
	free(nic->bus_attr);
	free(nic->link_attr);
	free(nic);
	return 0;
}

static int nic_control(struct fid *fid, int command, void *arg);
static int nic_tostr(const struct fid *fid, char *buf, size_t len);

static struct fi_ops fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = nic_close,
	.bind = tagrv_nosys_bind,
	.control = nic_control,
	.ops_open = tagrv_nosys_ops_open,
	.tostr = nic_tostr,
	.ops_set = tagrv_nosys_ops_set,
};

static struct fid_nic *alloc_nic(void)
{
	struct fid_nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return NULL;
	nic->fid.fclass = FI_CLASS_NIC;
	nic->fid.ops = &fid_ops;
	nic->device_attr = calloc(1, sizeof(*nic->device_attr));
	nic->bus_attr = calloc(1, sizeof(*nic->bus_attr));
	nic->link_attr = calloc(1, sizeof(*nic->link_attr));
	if (nic->device_attr && nic->bus_attr && nic->link_attr)
		return nic;
	nic_close(&nic->fid);
	return NULL;
}

/* Duplicates text; NULL or empty text leaves *out NULL. False: no memory. */
static bool put(char **out, const char *text)
{
	if (!text || !text[0])
		return true;
	*out = strdup(text);
	return *out != NULL;
}

static bool dup_device(struct fi_device_attr *to,
		       const struct fi_device_attr *from)
{
	return put(&to->name, from->name) &&
	       put(&to->device_id, from->device_id) &&
	       put(&to->device_version, from->device_version) &&
	       put(&to->vendor_id, from->vendor_id) &&
	       put(&to->driver, from->driver) &&
	       put(&to->firmware, from->firmware);
}

static bool dup_link(struct fi_link_attr *to, const struct fi_link_attr *from)
{
	to->mtu = from->mtu;
	to->speed = from->speed;
	to->state = from->state;
	return put(&to->address, from->address) &&
	       put(&to->network_type, from->network_type);
}

static int nic_control(struct fid *fid, int command, void *arg)
{
	struct fid_nic *nic = tagrv_container_of(fid, struct fid_nic, fid);
	struct fid_nic *copy;

	if (command != FI_DUP)
		return -FI_ENOSYS;
	copy = alloc_nic();
	if (!copy)
		return -FI_ENOMEM;
	*copy->bus_attr = *nic->bus_attr;
	if (!dup_device(copy->device_attr, nic->device_attr) ||
	    !dup_link(copy->link_attr, nic->link_attr)) {
		nic_close(&copy->fid);
		return -FI_ENOMEM;
	}
	*(struct fid_nic **) arg = copy;
	return 0;
}

static const char *shown(const char *text)
{
	return text ? text : "(unknown)";
}

static void bus_text(const struct fi_bus_attr *bus, char *text, size_t len)
{
	const struct fi_pci_attr *pci = &bus->attr.pci;

	if (bus->bus_type == FI_BUS_PCI)
		snprintf(text, len, "pci %04x:%02x:%02x.%x", pci->domain_id,
			 pci->bus_id, pci->device_id, pci->function_id);
	else
		snprintf(text, len, "(unknown)");
}

/* Appends to the string in buf, behind which 'len' bytes are free. */
static int nic_tostr(const struct fid *fid, char *buf, size_t len)
{
	const struct fid_nic *nic = (const struct fid_nic *) fid;
	const struct fi_device_attr *device = nic->device_attr;
	const struct fi_link_attr *link = nic->link_attr;
	char bus[32];

	bus_text(nic->bus_attr, bus, sizeof(bus));
	snprintf(buf + strlen(buf), len,
		 "    nic:\n"
		 "        device: %s\n"
		 "        vendor and device id: %s %s\n"
		 "        driver: %s\n"
		 "        firmware: %s\n"
		 "        bus: %s\n"
		 "        link: %s, %s, %s, mtu %zu, %zu bit/s\n",
		 shown(device->name), shown(device->vendor_id),
		 shown(device->device_id), shown(device->driver),
		 shown(device->firmware), bus, shown(link->network_type),
		 shown(link->address),
		 link->state == FI_LINK_UP ? "up" : "down", link->mtu,
		 link->speed);
	return 0;
}

static bool fill_device(struct fi_device_attr *device,
			const struct tagrv_device_desc *desc)
{
	return put(&device->name, desc->name) &&
	       put(&device->device_id, desc->device_id) &&
	       put(&device->vendor_id, desc->vendor_id) &&
	       put(&device->driver, desc->driver) &&
	       put(&device->firmware, desc->firmware);
}

static void fill_bus(struct fi_bus_attr *bus,
		     const struct tagrv_device_desc *desc)
{
	if (desc->pci_domain < 0)
		return;
	bus->bus_type = FI_BUS_PCI;
	bus->attr.pci.domain_id = (uint16_t) desc->pci_domain;
	bus->attr.pci.bus_id = (uint8_t) desc->pci_bus;
	bus->attr.pci.device_id = (uint8_t) desc->pci_dev;
	bus->attr.pci.function_id = (uint8_t) desc->pci_func;
}

static bool fill_link(struct fi_link_attr *link,
		      const struct tagrv_device_desc *desc)
{
	char ip[INET6_ADDRSTRLEN] = "";

	if (desc->addr.sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &desc->addr.in.sin_addr, ip, sizeof(ip));
	else if (desc->addr.sa.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &desc->addr.in6.sin6_addr, ip, sizeof(ip));
	link->mtu = desc->mtu;
	link->speed = desc->speed;
	link->state = desc->up ? FI_LINK_UP : FI_LINK_DOWN;
	return put(&link->address, ip) &&
	       put(&link->network_type, desc->link_type);
}

struct fid_nic *tagrv_nic_create(const struct tagrv_device_desc *desc)
{
	struct fid_nic *nic = alloc_nic();

	if (!nic)
		return NULL;
	fill_bus(nic->bus_attr, desc);
	if (fill_device(nic->device_attr, desc) &&
	    fill_link(nic->link_attr, desc))
		return nic;
	nic_close(&nic->fid);
	return NULL;
}
