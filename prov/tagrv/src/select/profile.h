/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A profile is a file with measured times and rates of this host's devices
 * (written by tagrv_tune). They replace the values that transports declare.
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
 * Values that a device's part leaves out stay as declared. A file with any mistake
 * is ignored as a whole: choices by half a profile would be worse than without.
 */
#ifndef TAGRV_SELECT_PROFILE_H
#define TAGRV_SELECT_PROFILE_H

#include "core/compiler.h"
#include "core/param.h"
#include "xport/xport.h"

struct tagrv_profile;

/*
 * Reads the file that FI_TAGRV_PROFILE names, else the user's own profile. NULL:
 * there is none, or it cannot be used (say, everybody may write to it), which is
 * logged once per process. The caller frees the result by tagrv_profile_free().
 */
struct tagrv_profile *tagrv_profile_load(const struct tagrv_params *params);
/* NULL is fine. */
void tagrv_profile_free(struct tagrv_profile *profile);

/*
 * Writes the path of the profile to path (size bytes). 0; -FI_ENODATA: the user
 * wants none, no directory for it is known, or the path is too long.
 */
int tagrv_profile_path(const struct tagrv_params *params, char *path,
		       size_t size) TAGRV_WARN_UNUSED;

/*
 * Reads a profile from a string, which is changed. NULL: out of memory or a
 * mistake; 'error' (error_len bytes) gets a text with the number of the line. The
 * caller frees the result by tagrv_profile_free().
 */
struct tagrv_profile *tagrv_profile_parse(char *text, char *error,
					  size_t error_len);

/* Replaces the attributes that the profile (NULL: none) has for this device. */
void tagrv_profile_apply(const struct tagrv_profile *profile,
			 const struct tagrv_device *dev,
			 struct tagrv_xport_attr *attr);

#endif
