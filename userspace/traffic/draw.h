/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random draws that a seed repeats: uniform, exponential, Pareto; and a
 * Poisson process of arrivals made of them.
 *
 * The generator is splitmix64 (Steele, Lea, Flood 2014): a 64-bit counter with
 * a step of 2^64 divided by the golden ratio, each value of it scrambled by
 * two rounds of multiply and xor-shift. A seed has many streams, each begun at
 * a scrambled point of its own, so that when something happens and how large
 * it is do not depend on each other: the same seed gives the same arrivals
 * whatever the sizes are.
 *
 * The rest is inversion of the distribution function, with u uniform in (0, 1]
 * in steps of 2^-53:
 *
 *	exponential of mean m	-m ln u
 *	Pareto of mean m, a > 1	x u^(-1/a), x = m (a - 1) / a
 *
 * P(size > s) of the latter is (x / s)^a. Its variance is infinite if a <= 2:
 * a mean over a finite time may then be far from m, and that is as it should be.
 *
 * log() and pow() are the C library's; two of these may differ in the last
 * bit, which is lost when a time is rounded to nanoseconds and a size to bytes.
 */
#ifndef DRAW_H
#define DRAW_H

#include <math.h>
#include <stdint.h>

/* No flow is larger: it would take longer than anybody waits. */
#define DRAW_MAX_SIZE (1ULL << 50)

/**
 * struct draw - a stream of random numbers
 * @state: the counter
 */
struct draw {
	uint64_t state;
};

static inline uint64_t draw_bits(struct draw *draw)
{
	uint64_t z = draw->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/**
 * draw_start() - begin a stream
 * @seed: any number
 * @stream: which of this seed's streams
 */
static inline struct draw draw_start(uint64_t seed, uint64_t stream)
{
	struct draw draw = { seed };

	draw.state = draw_bits(&draw) + stream;
	draw.state = draw_bits(&draw);
	return draw;
}

/* In (0, 1]: its logarithm is finite. */
static inline double draw_unit(struct draw *draw)
{
	return (double)((draw_bits(draw) >> 11) + 1) * 0x1p-53;
}

static inline double draw_exponential(struct draw *draw, double mean)
{
	return -mean * log(draw_unit(draw));
}

static inline double draw_pareto(struct draw *draw, double mean, double shape)
{
	double smallest = mean * (shape - 1) / shape;

	return smallest * pow(draw_unit(draw), -1 / shape);
}

/* One of 0 ... count - 1, for counts far below 2^32. */
static inline uint32_t draw_below(struct draw *draw, uint32_t count)
{
	return (uint32_t)(((draw_bits(draw) >> 32) * count) >> 32);
}

/**
 * struct arrivals - a Poisson process, each event with a size
 * @times: the stream of the times between events
 * @sizes: the stream of the sizes
 * @interval: mean time between events, in ns
 * @mean: mean size, in bytes
 * @shape: of Pareto's distribution; 0: exponential; negative: always the mean
 * @next: when the next event is, in ns from the start
 */
struct arrivals {
	struct draw times;
	struct draw sizes;
	double interval;
	double mean;
	double shape;
	double next;
};

/* When the next event is, in ns from the start. */
static inline uint64_t arrivals_due(const struct arrivals *arrivals)
{
	return (uint64_t)arrivals->next;
}

static inline void arrivals_advance(struct arrivals *arrivals)
{
	arrivals->next +=
		draw_exponential(&arrivals->times, arrivals->interval);
}

/**
 * arrivals_start() - set a process going
 * @arrivals: where it is kept
 * @seed: decides everything
 * @load: bytes that it offers in a second, on average
 * @mean: mean size of an event, in bytes
 * @shape: see struct arrivals
 */
static inline void arrivals_start(struct arrivals *arrivals, uint64_t seed,
				  double load, double mean, double shape)
{
	arrivals->times = draw_start(seed, 0);
	arrivals->sizes = draw_start(seed, 1);
	arrivals->interval = 1e9 * mean / load;
	arrivals->mean = mean;
	arrivals->shape = shape;
	arrivals->next = 0;
	arrivals_advance(arrivals);
}

/**
 * arrivals_take() - let the next event happen
 * @arrivals: the process
 *
 * Return: its size in whole bytes, at least 1.
 */
static inline uint64_t arrivals_take(struct arrivals *arrivals)
{
	double size;

	if (arrivals->shape > 0)
		size = draw_pareto(&arrivals->sizes, arrivals->mean,
				   arrivals->shape);
	else if (arrivals->shape < 0)
		size = arrivals->mean;
	else
		size = draw_exponential(&arrivals->sizes, arrivals->mean);
	arrivals_advance(arrivals);
	if (size < 1)
		return 1;
	return size < DRAW_MAX_SIZE ? (uint64_t)round(size) : DRAW_MAX_SIZE;
}

#endif /* DRAW_H */
