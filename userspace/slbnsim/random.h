/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reproducible random numbers, the same on any machine: Steele, Lea, Flood,
 * "Fast splittable pseudorandom number generators", OOPSLA 2014.
 */
#ifndef SLBNSIM_RANDOM_H
#define SLBNSIM_RANDOM_H

#include <fairpath/core.h>

/**
 * draw() - a random number
 * @random: the state, the seed at first; updated
 *
 * Return: 64 random bits.
 */
static inline u64 draw(u64 *random)
{
	u64 z = *random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/**
 * draw_below() - a random number below another
 * @random: the state
 * @end: 1 to 2^32
 *
 * Return: 0 to @end - 1, uniform but for the rounding of 32 bits.
 */
static inline u64 draw_below(u64 *random, u64 end)
{
	return (draw(random) >> 32) * end >> 32;
}

/**
 * draw_part() - a random fraction
 * @random: the state
 *
 * Return: above 0, at most 1.
 */
static inline double draw_part(u64 *random)
{
	return ((draw(random) >> 11) + 1) / 9007199254740992.0;
}

#endif /* SLBNSIM_RANDOM_H */
