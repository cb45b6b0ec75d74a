/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arrays. Without memory the program ends with status 1.
 */
#ifndef SLBNSIM_MEMORY_H
#define SLBNSIM_MEMORY_H

#include <stddef.h>

#include <fairpath/core.h>

/* The size of a cache line, bytes. */
#define CACHE_LINE 64UL

void out_of_memory(void) __attribute__((noreturn));
void *alloc_array(size_t count, size_t size);
u32 *alloc_u32(size_t count);
void *grow_array(void *memory, u32 count, u32 *room, size_t size);

#endif /* SLBNSIM_MEMORY_H */
