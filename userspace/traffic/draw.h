/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reproducible random numbers: uniform, exponential, Pareto; and a Poisson
 * process of arrivals.
 *
 * The generator is splitmix64 (Steele, Lea, Flood 2014): a 64-bit counter with
 * a step of 2^64 divided by the golden ratio, whose values are scrambled by two
 * rounds of multiply and xor-shift. A seed has many streams, each starting at a
 * scrambled point of its own. Times and sizes use different streams: the same
 * seed gives the same arrival times with any sizes.
 *
 * Distributions are drawn by inversion, with u uniform in (0, 1] in steps of
 * 2^-53:
 *
 *	exponential of mean m	-m ln u
 *	Pareto of mean m, a > 1	x u^(-1/a), x = m (a - 1) / a
 *
 * P(size > s) of the latter is (x / s)^a. Its variance is infinite if a <= 2:
 * the mean of a finite sample may then be far from m.
 *
 * C libraries may differ in the last bit of log() and pow(); rounding times to
 * nanoseconds and sizes to bytes removes it.
 */
#ifndef DRAW_H
#define DRAW_H

#include <math.h>
#include <stdint.h>

/* Upper bound of a flow's size. */
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
 * draw_start() - start a stream
 * @seed: any number
 * @stream: number of the stream
 */
static inline struct draw draw_start(uint64_t seed, uint64_t stream)
{
	struct draw draw = { seed };

	draw.state = draw_bits(&draw) + stream;
	draw.state = draw_bits(&draw);
	return draw;
}

/* Uniform in (0, 1], whose logarithm is finite. */
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

/* Uniform in 0 ... count - 1, for counts far below 2^32. */
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
 * @shape: of the Pareto distribution; 0: exponential; negative: always the mean
 * @next: time of the next event, in ns since the start
 */
struct arrivals {
	struct draw times;
	struct draw sizes;
	double interval;
	double mean;
	double shape;
	double next;
};

/* Time of the next event, in ns since the start. */
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
 * arrivals_start() - start a process
 * @arrivals: the process
 * @seed: of its random numbers
 * @load: mean offered load, in bytes per second
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
 * arrivals_take() - process the next event
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
