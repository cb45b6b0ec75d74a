// SPDX-License-Identifier: GPL-2.0
/*
 * std::random_device by getrandom(), for programs of others in runs that repeat
 * to the bit (docs/exact.md). libstdc++ takes its numbers from the CPU's RDSEED
 * or RDRAND, which User-Mode Linux cannot replace; what getrandom() returns is a
 * function of the seed there. `fairlab test` preloads this library (LD_PRELOAD).
 *
 * It replaces the three members that are called from headers, by their names in
 * libstdc++.so.6 (GLIBCXX_3.4.18, and 3.4.21 for std::string), which are part of
 * its ABI. It does not reach programs linked statically, with libc++, or with an
 * RDRAND of their own.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define MEMBER(name)                         \
	__asm__("_ZNSt13random_device" name) \
		__attribute__((visibility("default")))
#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

void init(void *device, const void *token) MEMBER("7_M_initERK" STRING);
void fini(void *device) MEMBER("7_M_finiEv");
unsigned int get(void *device) MEMBER("9_M_getvalEv");

/* The token chooses among sources: here is one. */
void init(void *device, const void *token)
{
	(void)device;
	(void)token;
}

void fini(void *device)
{
	(void)device;
}

unsigned int get(void *device)
{
	unsigned int value;

	(void)device;
	while (getrandom(&value, sizeof(value), 0) != sizeof(value))
		if (errno != EINTR)
			abort();
	return value;
}
