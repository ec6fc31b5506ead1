/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What comes by the list of an xport: the functions of struct verbs_list_attr, whose owner is
 * the xport.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_LIST_RX_H
#define TAGRV_XPORT_VERBS_VERBS_LIST_RX_H

#include "xport/verbs/verbs_priv.h"

#define VERBS_LIST_NUMBER_AT	48u	/* lowest bit of a link's number in a tag */

bool tagrv_verbs_list_packet(void *owner, const struct verbs_list_packet *packet);
bool tagrv_verbs_list_permit(void *owner, const struct verbs_list_packet *packet);
int tagrv_verbs_list_match(void *owner, uint32_t qpn, uint64_t tag, struct tagrv_link **link);
void tagrv_verbs_list_keep(void *owner, struct tagrv_link *link, uint64_t key);

#endif
