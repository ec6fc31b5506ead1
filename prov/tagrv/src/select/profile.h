/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Times and rates of this host's devices, measured beforehand and kept in a
 * file, which replace those that transports declare.
 *
 *   tagrv-profile 1
 *   # comment
 *   device shm shm            transport, device as fi_getinfo calls its domain
 *   latency 2.1e-07           one way, s
 *   bandwidth 9.2e+09         of fetched payload, bytes/s
 *   copy_bandwidth 4.1e+09    of one packet with its copies, bytes/s
 *   overhead 6e-08            per message, s
 *   get_overhead 8e-07        per get beyond that, s
 *   reg_overhead 5e-08        per registration, s
 *   reg_growth 0              per byte registered, s
 *
 * What a device's part leaves out stays as declared. A file with any mistake is
 * not used at all: half a profile would choose worse than none.
 */
#ifndef TAGRV_SELECT_PROFILE_H
#define TAGRV_SELECT_PROFILE_H

#include "core/compiler.h"
#include "core/param.h"
#include "xport/xport.h"

struct tagrv_profile;

/*
 * Reads the file of FI_TAGRV_PROFILE, or the user's own one if there is one.
 * NULL: there is none, or it is not used, as when everybody may write to it;
 * why is said in one line, once a process. Freed by tagrv_profile_free, which takes NULL.
 */
struct tagrv_profile *tagrv_profile_load(const struct tagrv_params *params);
void tagrv_profile_free(struct tagrv_profile *profile);

/*
 * The path that is read: PATH_MAX bytes at most. -FI_ENODATA: none is wanted,
 * or there is no place for it.
 */
int tagrv_profile_path(const struct tagrv_params *params, char *path,
		       size_t size) TAGRV_WARN_UNUSED;

/*
 * Reads lines from a text that ends with '\0' and is changed. NULL: out of
 * memory, or a mistake, which 'wrong' tells with the number of its line.
 */
struct tagrv_profile *tagrv_profile_parse(char *text, char *wrong,
					  size_t wrong_len);

/* Replaces what the profile (NULL: none) knows of this transport and device. */
void tagrv_profile_apply(const struct tagrv_profile *profile,
			 const struct tagrv_device *dev,
			 struct tagrv_xport_attr *attr);

#endif
