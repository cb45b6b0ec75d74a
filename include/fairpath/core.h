/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ground that every NAME_core.h stands on.
 *
 * A core is the algorithm alone: inline functions on plain structs. The kernel
 * module, the simulator and the unit tests compile the same file, so a core
 * may use only what this header offers: integer types, 64-bit division through
 * one wrapper, and a few helpers. No allocation, no lock, no clock, no floating
 * point: time and random numbers are passed in.
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

/* Windows and their growth are counted in thousandths of a packet. */
#define FP_PACKET 1000U

/**
 * fp_div() - 64-bit quotient, rounded down
 * @dividend: any value
 * @divisor: at least 1
 *
 * 32-bit kernels have no such operator, hence the wrapper.
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
