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
 *   prep_overhead 3e-07       per prepared send beyond a send, s
 *   frag_overhead 1e-07       per fragment of a copied rendezvous, more, s
 *   put_more -2e-07           per put, beyond a get; less than 0: it is faster, s
 *   pipe_from 1048576         bytes from which on a pipeline is faster than a get of
 *                             memory that is not registered yet
 *   pair verbs mlx5_0 15b3:1017@100000
 *   latency 1.1e-06           transport, device here, and the model of the peer's device
 *
 * A device's section holds for all peers, but a pair's section holds for those whose device
 * is of that model (xport/model.h). The own device is
 * known by its name, because two of one model may differ in where they are plugged in.
 * Values that a pair's section leaves out are those of the device, but put_more and
 * pipe_from, which are relative to the others, are 0 then. Values that the device's
 * section leaves out stay as declared. A file with any mistake
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
/*
 * The same by the section of this device and peers whose model has this key
 * (tagrv_model_key()), on top of what tagrv_profile_apply() did. False: there is no such
 * section, and nothing was changed.
 */
bool tagrv_profile_apply_pair(const struct tagrv_profile *profile,
			      const struct tagrv_device *dev, uint32_t peer_key,
			      struct tagrv_xport_attr *attr);
/* The model of the i-th section of pairs of this device, from 0; 0: there are no more. */
uint64_t tagrv_profile_pair(const struct tagrv_profile *profile,
			    const struct tagrv_device *dev, size_t i);

#endif
