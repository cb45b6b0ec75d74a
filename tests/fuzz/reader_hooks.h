/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redirects the system calls of slbnsim's readers to the fuzzer: clang includes
 * this in front of their sources (-include). See fuzz_reader.h.
 */
#ifndef READER_HOOKS_H
#define READER_HOOKS_H

/* The headers whose functions are redirected come first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern FILE *hook_stderr;

FILE *hook_fopen(const char *name, const char *mode);
void __attribute__((noreturn)) hook_exit(int status);
void *hook_malloc(size_t size);
void *hook_calloc(size_t count, size_t size);
void *hook_realloc(void *memory, size_t size);
int hook_memalign(void **memory, size_t alignment, size_t size);
void hook_free(void *memory);

#undef stderr
#define stderr hook_stderr
#define exit(status) hook_exit(status)
#define fopen(name, mode) hook_fopen(name, mode)
#define malloc(size) hook_malloc(size)
#define calloc(count, size) hook_calloc(count, size)
#define realloc(memory, size) hook_realloc(memory, size)
#define posix_memalign(memory, alignment, size) \
	hook_memalign(memory, alignment, size)
#define free(memory) hook_free(memory)

#endif /* READER_HOOKS_H */
