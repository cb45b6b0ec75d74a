/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers that a seed decides, the same on any machine: Steele, Lea,
 * Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 */
#ifndef SLBNSIM_RANDOM_H
#define SLBNSIM_RANDOM_H

#include <fairpath/core.h>

/**
 * draw() - a random number
 * @random: the state, at first the seed; it goes on
 *
 * Return: any.
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
 * Return: 0 to @end - 1, as evenly as 32 bits allow.
 */
static inline u64 draw_below(u64 *random, u64 end)
{
	return (draw(random) >> 32) * end >> 32;
}

/**
 * draw_part() - a random part of the whole
 * @random: the state
 *
 * Return: above 0, at most 1.
 */
static inline double draw_part(u64 *random)
{
	return ((draw(random) >> 11) + 1) / 9007199254740992.0;
}

#endif /* SLBNSIM_RANDOM_H */
