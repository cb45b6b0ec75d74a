/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Words of the command line. What makes no sense is told in a line, and is the
 * end of the program: exit status 2.
 */
#ifndef SLBNSIM_ARGUMENTS_H
#define SLBNSIM_ARGUMENTS_H

#include <fairpath/core.h>

#define MSEC 1000000ULL
#define SEC 1000000000ULL

void __attribute__((noreturn, format(printf, 1, 2)))
refuse(const char *format, ...);
u64 time_named(const char *name, const char *text, u64 most);
u64 number_named(const char *name, const char *text, u64 least, u64 most);
u64 rate_named(const char *name, const char *text);
u32 share_named(const char *name, const char *text);
u32 part_named(const char *name, const char *text, u32 least);

#endif /* SLBNSIM_ARGUMENTS_H */
