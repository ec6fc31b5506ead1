/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Elements that the processor changes by itself: 1, 2, 4 or 8 bytes, aligned to their
 * size. An operation that the processor has is one call of a builtin of the compiler. Any
 * other computes the new value, and stores it if the element still has the value from
 * which it was computed.
 *
 * All are sequentially consistent. An initiator to which atomics are promised in order
 * may write one element, then read another: weaker stores and loads could pass each
 * other, and so could those of the application, which takes part in the same algorithm.
 * Of these operations only FI_ATOMIC_WRITE costs more for that, on some processors.
 */
#include <assert.h>

#include "atomic/atomic_priv.h"

#define ORDER	__ATOMIC_SEQ_CST

static void load(void *target, size_t size, union tagrv_element *old)
{
	switch (size) {
	case 1:
		old->u8 = __atomic_load_n((uint8_t *) target, ORDER);
		break;
	case 2:
		old->u16 = __atomic_load_n((uint16_t *) target, ORDER);
		break;
	case 4:
		old->u32 = __atomic_load_n((uint32_t *) target, ORDER);
		break;
	default:
		old->u64 = __atomic_load_n((uint64_t *) target, ORDER);
	}
}

static void exchange(void *target, size_t size, const union tagrv_element *with,
		     union tagrv_element *old)
{
	switch (size) {
	case 1:
		old->u8 = __atomic_exchange_n((uint8_t *) target, with->u8, ORDER);
		break;
	case 2:
		old->u16 = __atomic_exchange_n((uint16_t *) target, with->u16, ORDER);
		break;
	case 4:
		old->u32 = __atomic_exchange_n((uint32_t *) target, with->u32, ORDER);
		break;
	default:
		old->u64 = __atomic_exchange_n((uint64_t *) target, with->u64, ORDER);
	}
}

static void fetch_add(void *target, size_t size, const union tagrv_element *with,
		      union tagrv_element *old)
{
	switch (size) {
	case 1:
		old->u8 = __atomic_fetch_add((uint8_t *) target, with->u8, ORDER);
		break;
	case 2:
		old->u16 = __atomic_fetch_add((uint16_t *) target, with->u16, ORDER);
		break;
	case 4:
		old->u32 = __atomic_fetch_add((uint32_t *) target, with->u32, ORDER);
		break;
	default:
		old->u64 = __atomic_fetch_add((uint64_t *) target, with->u64, ORDER);
	}
}

static void fetch_or(void *target, size_t size, const union tagrv_element *with,
		     union tagrv_element *old)
{
	switch (size) {
	case 1:
		old->u8 = __atomic_fetch_or((uint8_t *) target, with->u8, ORDER);
		break;
	case 2:
		old->u16 = __atomic_fetch_or((uint16_t *) target, with->u16, ORDER);
		break;
	case 4:
		old->u32 = __atomic_fetch_or((uint32_t *) target, with->u32, ORDER);
		break;
	default:
		old->u64 = __atomic_fetch_or((uint64_t *) target, with->u64, ORDER);
	}
}

static void fetch_and(void *target, size_t size, const union tagrv_element *with,
		      union tagrv_element *old)
{
	switch (size) {
	case 1:
		old->u8 = __atomic_fetch_and((uint8_t *) target, with->u8, ORDER);
		break;
	case 2:
		old->u16 = __atomic_fetch_and((uint16_t *) target, with->u16, ORDER);
		break;
	case 4:
		old->u32 = __atomic_fetch_and((uint32_t *) target, with->u32, ORDER);
		break;
	default:
		old->u64 = __atomic_fetch_and((uint64_t *) target, with->u64, ORDER);
	}
}

static void fetch_xor(void *target, size_t size, const union tagrv_element *with,
		      union tagrv_element *old)
{
	switch (size) {
	case 1:
		old->u8 = __atomic_fetch_xor((uint8_t *) target, with->u8, ORDER);
		break;
	case 2:
		old->u16 = __atomic_fetch_xor((uint16_t *) target, with->u16, ORDER);
		break;
	case 4:
		old->u32 = __atomic_fetch_xor((uint32_t *) target, with->u32, ORDER);
		break;
	default:
		old->u64 = __atomic_fetch_xor((uint64_t *) target, with->u64, ORDER);
	}
}

/*
 * Stores 'with' if the element has the bits of 'old'; else writes those that it has to
 * 'old', and returns false.
 */
static bool replace(void *target, size_t size, union tagrv_element *old,
		    const union tagrv_element *with)
{
	switch (size) {
	case 1:
		return __atomic_compare_exchange_n((uint8_t *) target, &old->u8, with->u8,
						   false, ORDER, ORDER);
	case 2:
		return __atomic_compare_exchange_n((uint16_t *) target, &old->u16, with->u16,
						   false, ORDER, ORDER);
	case 4:
		return __atomic_compare_exchange_n((uint32_t *) target, &old->u32, with->u32,
						   false, ORDER, ORDER);
	default:
		return __atomic_compare_exchange_n((uint64_t *) target, &old->u64, with->u64,
						   false, ORDER, ORDER);
	}
}

static void compute_and_replace(const struct tagrv_atomic_step *step, void *target,
				union tagrv_element *old)
{
	union tagrv_element next;

	load(target, step->size, old);
	do {
		next = *old;
		tagrv_atomic_compute(step, &next);
	} while (!replace(target, step->size, old, &next));
}

/* Of integers. A float is no sum of bits, and equal floats may differ in their bits. */
static void change_integer(const struct tagrv_atomic_step *step, void *target,
			   union tagrv_element *old)
{
	switch (step->op) {
	case FI_SUM:
		fetch_add(target, step->size, &step->operand, old);
		break;
	case FI_BOR:
		fetch_or(target, step->size, &step->operand, old);
		break;
	case FI_BAND:
		fetch_and(target, step->size, &step->operand, old);
		break;
	case FI_BXOR:
		fetch_xor(target, step->size, &step->operand, old);
		break;
	case FI_CSWAP:
		*old = step->compare;
		replace(target, step->size, old, &step->operand);
		break;
	default:
		compute_and_replace(step, target, old);
	}
}

void tagrv_atomic_change_word(const struct tagrv_atomic_step *step, void *target,
			      union tagrv_element *old)
{
	assert((uintptr_t) target % step->size == 0);
	if (step->op == FI_ATOMIC_READ)
		load(target, step->size, old);
	else if (step->op == FI_ATOMIC_WRITE)
		exchange(target, step->size, &step->operand, old);
	else if (tagrv_atomic_is_integer(step->datatype))
		change_integer(step, target, old);
	else
		compute_and_replace(step, target, old);
}
