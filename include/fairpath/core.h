/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types and helpers for the algorithms, NAME_core.h.
 *
 * A core has the algorithm only: inline functions on plain structs. The kernel
 * module, the simulator and the unit tests compile the same file, so a core
 * uses nothing but this header: integer types, a wrapper of the 64-bit division
 * and a few helpers. It does not allocate, lock, read clocks or use floating
 * point; time and random numbers are arguments.
 */
#ifndef FAIRPATH_CORE_H
#define FAIRPATH_CORE_H

#include <linux/types.h>

#ifdef __KERNEL__
#include <linux/math64.h>
#else
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
#endif

/* One packet: windows and their growth are in 1/1000 packet. */
#define FP_PACKET 1000U

/**
 * fp_div() - 64-bit division, rounded down
 * @dividend: any value
 * @divisor: at least 1
 *
 * A wrapper, as 32-bit kernels have no such operator.
 *
 * Return: @dividend / @divisor.
 */
static inline u64 fp_div(u64 dividend, u64 divisor)
{
#ifdef __KERNEL__
	return div64_u64(dividend, divisor);
#else
	return dividend / divisor;
#endif
}

static inline u32 fp_min(u32 a, u32 b)
{
	return a < b ? a : b;
}

static inline u32 fp_max(u32 a, u32 b)
{
	return a > b ? a : b;
}

static inline u64 fp_min64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 fp_max64(u64 a, u64 b)
{
	return a > b ? a : b;
}

#endif /* FAIRPATH_CORE_H */
