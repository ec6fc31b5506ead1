/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Models of devices: a number that is the same on all hosts for devices that are as fast
 * as each other, and its text, by which profiles and tools name it:
 *
 *   15b3:1017@100000     vendor and product, hexadecimal; Mbit/s of the port
 *
 *    63        40 39       24 23            0
 *   +------------+-----------+---------------+
 *   | vendor     | product   | Mbit/s        |
 *   +------------+-----------+---------------+
 *
 * 0 stands for a model that is not known. Larger Mbit/s count as the largest.
 */
#ifndef TAGRV_XPORT_MODEL_H
#define TAGRV_XPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAGRV_MODEL_STRLEN	24	/* bytes of a model's text, with its 0 */

/* speed: bits/s. 0: vendor and product are both 0. */
uint64_t tagrv_model_of(uint32_t vendor, uint32_t product, uint64_t speed);
/*
 * A number for a model of which a link keeps four bytes; 0 of the model 0 only. Two models
 * hardly ever have the same, and would only share a section of a profile.
 */
static inline uint32_t tagrv_model_key(uint64_t model)
{
	return model ? (uint32_t) (model * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1 : 0;
}

/* Writes the text of a model, or "?" for 0. Returns text. */
const char *tagrv_model_text(uint64_t model, char *text, size_t size);
/* False: this is not the text of a model that is known. */
bool tagrv_model_parse(const char *text, uint64_t *model);

#endif
