/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface between tc and its plugins, without iproute2's headers, which
 * distributions do not package.
 *
 * For a qdisc KIND that it does not know, tc loads q_KIND.so from $TC_LIB_DIR
 * or its built-in directory and looks up KIND_qdisc_util, a struct qdisc_util.
 * The plugin calls functions that tc exports. The first half of this file
 * declares only those that are the same from iproute2 6.1 to 7.3, since a
 * plugin must work with the installed tc. They include neither sizes nor
 * checked parsing of attributes, which the second half provides.
 *
 * print_color_*() prints both text and JSON: with PRINT_ANY, FMT or "KEY":
 * VALUE; with PRINT_FP, text only; with PRINT_JSON, JSON only.
 */
#ifndef FAIRPATH_TC_PLUGIN_H
#define FAIRPATH_TC_PLUGIN_H

#include <ctype.h>
#include <linux/rtnetlink.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../common/units.h"

/**
 * struct qdisc_util - a kind of qdisc, as defined by tc
 * @next: list of kinds
 * @id: the kind, at most 15 characters
 * @parse_qopt: parse arguments into attributes; also called without arguments
 * @print_qopt: print TCA_OPTIONS; must not be NULL
 * @print_xstats: print TCA_STATS_APP of a qdisc or of a class
 * @parse_copt: like @parse_qopt, for a class; NULL: classes cannot be added
 * @print_copt: like @print_qopt, for a class; NULL: classes have no options
 * @has_block: whether the qdisc has a filter block
 */
struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(struct qdisc_util *util, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev);
	int (*print_qopt)(struct qdisc_util *util, FILE *f, struct rtattr *opt);
	int (*print_xstats)(struct qdisc_util *util, FILE *f,
			    struct rtattr *xstats);
	int (*parse_copt)(struct qdisc_util *util, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev);
	int (*print_copt)(struct qdisc_util *util, FILE *f, struct rtattr *opt);
	int (*has_block)(struct qdisc_util *util, struct rtattr *opt,
			 __u32 block_index, bool *p_has);
};

/* For the only symbol that a plugin exports. */
#define TC_PLUGIN_EXPORT __attribute__((visibility("default")))

int addattr_l(struct nlmsghdr *n, int maxlen, int type, const void *data,
	      int alen);
struct rtattr *addattr_nest(struct nlmsghdr *n, int maxlen, int type);
int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest);
int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta,
		       int len, unsigned short flags);

enum output_type {
	PRINT_FP = 1,
	PRINT_JSON = 2,
	PRINT_ANY = 4,
};

enum color_attr {
	COLOR_NONE = 6,
};

void print_nl(void);
int print_color_uint(enum output_type t, enum color_attr color, const char *key,
		     const char *fmt, unsigned int value);
int print_color_u64(enum output_type t, enum color_attr color, const char *key,
		    const char *fmt, uint64_t value);
int print_color_s64(enum output_type t, enum color_attr color, const char *key,
		    const char *fmt, int64_t value);
int print_color_string(enum output_type t, enum color_attr color,
		       const char *key, const char *fmt, const char *value);
void open_json_array(enum output_type t, const char *key);
void close_json_array(enum output_type t, const char *delimiter);
int print_color_bool(enum output_type t, enum color_attr color, const char *key,
		     const char *fmt, bool value);

/* Maximum length of a message with options [bytes]; tc's buffer is larger. */
#define TC_PLUGIN_ROOM 4096

/**
 * tc_plugin_u32() - read a number from an attribute
 * @attr: the attribute, or NULL
 * @value: set to the number
 *
 * Return: false if @attr is NULL or too short. Longer attributes, of later
 * versions, are accepted.
 */
static inline bool tc_plugin_u32(const struct rtattr *attr, __u32 *value)
{
	if (!attr || RTA_PAYLOAD(attr) < sizeof(*value))
		return false;
	memcpy(value, RTA_DATA(attr), sizeof(*value));
	return true;
}

static inline bool tc_plugin_u8(const struct rtattr *attr, __u8 *value)
{
	if (!attr || RTA_PAYLOAD(attr) < sizeof(*value))
		return false;
	memcpy(value, RTA_DATA(attr), sizeof(*value));
	return true;
}

/**
 * tc_plugin_xstats() - copy statistics from an attribute
 * @xstats: the attribute
 * @stats: destination
 * @size: size of @stats [bytes]
 *
 * Fields that an older kernel did not send are set to 0; fields of a later one
 * are ignored.
 */
static inline void tc_plugin_xstats(const struct rtattr *xstats, void *stats,
				    size_t size)
{
	size_t sent = RTA_PAYLOAD(xstats);

	memset(stats, 0, size);
	memcpy(stats, RTA_DATA(xstats), sent < size ? sent : size);
}

/**
 * print_number() - print a number
 * @key: key in JSON, for @value
 * @format: format of the text, with one %s for @text
 * @value: the number
 * @text: the number, formatted
 */
static inline void print_number(const char *key, const char *format,
				__u64 value, const char *text)
{
	print_color_u64(PRINT_JSON, COLOR_NONE, key, NULL, value);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, format, text);
}

static inline void print_count(const char *key, const char *format, __u64 count)
{
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)count);
	print_number(key, format, count, text);
}

/* Print an option and its value as tc parses them. */
static inline void print_option(const char *name, __u64 value, const char *text)
{
	print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ", name);
	print_number(name, "%s ", value, text);
}

/* Print a flag: @value in JSON, @text as text, unless it is NULL. */
static inline void print_flag(const char *key, bool value, const char *text)
{
	print_color_bool(PRINT_JSON, COLOR_NONE, key, NULL, value);
	if (text)
		print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s", text);
}

/* Print small numbers: an array in JSON, @text as text. */
static inline void print_numbers(const char *key, const __u8 *value,
				 size_t count, const char *text)
{
	size_t n;

	open_json_array(PRINT_JSON, key);
	for (n = 0; n < count; n++)
		print_color_uint(PRINT_JSON, COLOR_NONE, NULL, NULL, value[n]);
	close_json_array(PRINT_JSON, NULL);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s", text);
}

#endif /* FAIRPATH_TC_PLUGIN_H */
