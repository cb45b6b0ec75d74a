/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Output: text, or JSON if it was asked for, from the same calls.
 */
#ifndef FAIRPATH_SLBNCTL_SHOW_H
#define FAIRPATH_SLBNCTL_SHOW_H

#include <linux/types.h>
#include <stdbool.h>

void show_begin(void);
void show_nested(const char *key);
void show_nested_end(void);
void show_end(void);
void show_string(const char *key, const char *format, const char *text);

void print_number(const char *key, const char *format, __u64 value,
		  const char *text);
void print_count(const char *key, const char *format, __u64 value);
void print_option(const char *word, __u64 value, const char *text);
void print_flag(const char *key, bool value, const char *text);
void print_nl(void);

#endif /* FAIRPATH_SLBNCTL_SHOW_H */
