/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a plugin of tc stands on, without iproute2's headers, which
 * distributions do not package.
 *
 * To learn about a qdisc KIND that it does not know, tc loads q_KIND.so from
 * $TC_LIB_DIR or the one directory that it was compiled with, and takes from it
 * the object KIND_qdisc_util, a struct qdisc_util. The plugin in turn calls
 * functions that tc exports. The first half of this file declares those that
 * are the same from iproute2 6.1 to 7.3, and no other: a plugin must work
 * with the tc that is already there. Sizes are not among them, nor is anything
 * that checks what it reads, hence the second half: numbers in and out.
 *
 * The text that users read and the JSON that their programs read come from the
 * same calls, print_color_*(): with PRINT_ANY tc prints FMT or "KEY": VALUE,
 * with PRINT_FP only the text, with PRINT_JSON only the JSON.
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
 * struct qdisc_util - how tc handles one kind of qdisc
 * @next: tc's list
 * @id: the kind, at most 15 characters
 * @parse_qopt: turn words into attributes; called without words, too
 * @print_qopt: print TCA_OPTIONS; never NULL
 * @print_xstats: print TCA_STATS_APP of a qdisc or of a class
 * @parse_copt: as @parse_qopt, for a class; NULL: users do not make classes
 * @print_copt: as @print_qopt, for a class; NULL: its classes have no options
 * @has_block: whether it has a block of filters of its own
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

/* The one symbol that a plugin exports; all else is hidden. */
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
int print_color_bool(enum output_type t, enum color_attr color, const char *key,
		     const char *fmt, bool value);

/* Bytes of a message that options may fill: tc's buffer has many more. */
#define TC_PLUGIN_ROOM 4096

/**
 * tc_plugin_u32() - the number in an attribute that the kernel sent
 * @attr: an attribute, or NULL
 * @value: set if there is one
 *
 * Return: whether there is one. A longer attribute is one of a later version.
 */
static inline bool tc_plugin_u32(const struct rtattr *attr, __u32 *value)
{
	if (!attr || RTA_PAYLOAD(attr) < sizeof(*value))
		return false;
	memcpy(value, RTA_DATA(attr), sizeof(*value));
	return true;
}

static inline bool tc_plugin_u64(const struct rtattr *attr, __u64 *value)
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
 * tc_plugin_xstats() - statistics that the kernel sent
 * @xstats: the attribute
 * @stats: where to put them
 * @size: bytes that this plugin knows of
 *
 * An older kernel sends less, and the rest is zeros; a later one sends more,
 * which is left out.
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
 * @key: its name in JSON, where it stands as it is
 * @format: with one %s, for a person
 * @value: the number
 * @text: the number for a person
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

/* An option as users give it: its word, then its value. */
static inline void print_option(const char *word, __u64 value, const char *text)
{
	print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ", word);
	print_number(word, "%s ", value, text);
}

/* A flag in JSON; @text for a person, unless it is NULL. */
static inline void print_flag(const char *key, bool value, const char *text)
{
	print_color_bool(PRINT_JSON, COLOR_NONE, key, NULL, value);
	if (text)
		print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s", text);
}

#endif /* FAIRPATH_TC_PLUGIN_H */
