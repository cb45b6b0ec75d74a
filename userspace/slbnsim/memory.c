// SPDX-License-Identifier: GPL-2.0
/*
 * Arrays. See memory.h.
 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (2UL << 20)

/**
 * out_of_memory() - report it and end the program with status 1
 */
void out_of_memory(void)
{
	fputs("slbnsim: out of memory\n", stderr);
	exit(1);
}

/**
 * alloc_array() - allocate an array of zeros
 * @count: elements
 * @size: bytes of each
 *
 * Large arrays use huge pages if the system has them: events access them at
 * random, and TLB misses take much of the time otherwise.
 *
 * Return: the array, to be freed; aligned to cache lines.
 */
void *alloc_array(size_t count, size_t size)
{
	size_t bytes = count * size + 1;
	void *memory;

	if (posix_memalign(&memory, bytes < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE,
			   bytes))
		out_of_memory();
	if (bytes >= HUGE_PAGE)
		madvise(memory, bytes - bytes % HUGE_PAGE, MADV_HUGEPAGE);
	return memset(memory, 0, bytes);
}

/**
 * alloc_u32() - allocate an array of numbers, all 0
 * @count: numbers; there is room for one more
 *
 * Unlike alloc_array() it does not touch the memory.
 *
 * Return: the array, to be freed.
 */
u32 *alloc_u32(size_t count)
{
	u32 *memory = calloc(count + 1, sizeof(u32));

	if (!memory)
		out_of_memory();
	return memory;
}

/**
 * grow_array() - make room for one more element
 * @memory: an array that realloc() accepts, or NULL
 * @count: elements in use
 * @room: elements allocated; updated
 * @size: bytes of each
 *
 * Return: the array, which may have moved.
 */
void *grow_array(void *memory, u32 count, u32 *room, size_t size)
{
	u64 wanted = *room ? 2ULL * *room : 64;

	if (count < *room)
		return memory;
	if (wanted > ~0U - 1ULL)
		wanted = ~0U - 1;
	memory = wanted > *room ? realloc(memory, wanted * size) : NULL;
	if (!memory)
		out_of_memory();
	*room = wanted;
	return memory;
}
