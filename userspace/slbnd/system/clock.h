/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The time of slbnd, that of all its deadlines and leases: CLOCK_BOOTTIME, so that
 * leases end while the machine is suspended.
 */
#ifndef SLBND_CLOCK_H
#define SLBND_CLOCK_H

#include <time.h>

#include <fairpath/core.h>

/* Returns ns. */
static inline u64 clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

#endif /* SLBND_CLOCK_H */
