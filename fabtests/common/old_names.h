/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Values that applications may still pass, whose names libfabric's headers call
 * deprecated from 2.0 on: with these headers the compiler warns of FI_MR_BASIC, but
 * not of OLD_MR_BASIC.
 */
#ifndef COMMON_OLD_NAMES_H
#define COMMON_OLD_NAMES_H

#define OLD_MR_BASIC		(1 << 0)
#define OLD_MR_SCALABLE		(1 << 1)
#define OLD_LOCAL_MR		(1ULL << 55)
#define OLD_REG_MR		(1ULL << 59)
#define OLD_ORDER_STRICT	0x1FFULL
#define OLD_ORDER_DATA		(1ULL << 16)

#endif
