/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Helpers that the objects of several files share.
 */
#include "api/objects_priv.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"

int tagrv_ref_check(tagrv_refs *refs, const char *object, const char *users)
{
	unsigned int n = atomic_load_explicit(refs, memory_order_acquire);

	if (!n)
		return 0;
	tagrv_warn("a %s cannot be closed: %u object%s still use%s it (close "
		   "its %s first)\n", object, n, n == 1 ? "" : "s",
		   n == 1 ? "s" : "", users);
	return -FI_EBUSY;
}

const char *tagrv_strerror(int prov_errno, char *buf, size_t len)
{
	const char *text = fi_strerror(abs(prov_errno));

	if (buf && len) {
		strncpy(buf, text, len - 1);
		buf[len - 1] = '\0';
	}
	return text;
}
