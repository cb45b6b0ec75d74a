/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Output as text, or as JSON with --json, from the same calls.
 */
#ifndef FAIRPATH_SLBNCTL_SHOW_H
#define FAIRPATH_SLBNCTL_SHOW_H

#include <linux/types.h>
#include <stdbool.h>

#include "../common/link_options.h"

/*
 * Version of the JSON format, docs/schema/slbnctl.json: it changes when a member
 * is removed, renamed or changes its meaning, but not when one is added.
 */
#define SHOW_VERSION 1

/* The most octets that show_character() writes. */
#define SHOW_CHARACTER 4

/* The functions below, for link_options.h. */
extern const struct link_output show_output;

void show_begin(void);
void show_nested(const char *key);
void show_nested_end(void);
void show_array(const char *key);
void show_element(void);
void show_end(void);
size_t show_character(char *to, const char **text);
void show_string(const char *key, const char *format, const char *text);
void show_number(const char *key, const char *format, __u64 value,
		 const char *text);
void show_count(const char *key, const char *format, __u64 value);
void show_signed(const char *key, __s64 value);
void show_flag(const char *key, bool value, const char *text);
void show_numbers(const char *key, const __u8 *value, size_t count,
		  const char *text);
void show_keys(const __u8 *id, size_t count);
void show_newline(void);

#endif /* FAIRPATH_SLBNCTL_SHOW_H */
