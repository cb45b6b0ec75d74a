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
 * tc_plugin_count() - read a number of things
 * @text: decimal digits, then perhaps @unit
 * @unit: what may follow, "p" for packets or ""
 * @value: set if @text is a number
 *
 * Return: whether it is one. One that is too large for 64 bits is the largest.
 */
static inline bool tc_plugin_count(const char *text, const char *unit,
				   __u64 *value)
{
	char *end;

	/* strtoull() takes a sign, and makes large numbers of negative ones. */
	if (!isdigit((unsigned char)*text))
		return false;
	*value = strtoull(text, &end, 10);
	return !*end || !strcmp(end, unit);
}

/**
 * struct tc_plugin_unit - a unit that may follow a number
 * @name: what it is called, in any case
 * @times: how many of the smallest it is
 */
struct tc_plugin_unit {
	const char *name;
	double times;
};

/**
 * tc_plugin_quantity() - read a number with a unit
 * @text: a decimal number, then perhaps a unit
 * @units: those that there are, up to one without a name
 * @value: set if @text is such a number; parts of the smallest are left out
 *
 * Return: whether it is one. One that is too large for 64 bits is the largest.
 */
static inline bool tc_plugin_quantity(const char *text,
				      const struct tc_plugin_unit *units,
				      __u64 *value)
{
	size_t length = strspn(text, "0123456789.");
	double number;
	char *end;

	/* strtod() takes a sign, an exponent, hexadecimals, "inf" and "nan". */
	if (!isdigit((unsigned char)*text))
		return false;
	number = strtod(text, &end);
	if (end != text + length)
		return false;
	for (; units->name; units++) {
		if (strcasecmp(end, units->name))
			continue;
		number *= units->times;
		*value = number < 0x1p64 ? (__u64)number : UINT64_MAX;
		return true;
	}
	return false;
}

/**
 * tc_plugin_size() - read a number of bytes, in the units of tc(8)
 * @text: a decimal number, then perhaps a unit
 * @value: set if @text is a size
 *
 * Return: whether it is one.
 */
static inline bool tc_plugin_size(const char *text, __u64 *value)
{
	static const struct tc_plugin_unit units[] = {
		{ "", 1 },	     { "b", 1 },	  { "k", 1 << 10 },
		{ "kb", 1 << 10 },   { "m", 1 << 20 },	  { "mb", 1 << 20 },
		{ "g", 1 << 30 },    { "gb", 1 << 30 },	  { "kbit", 1 << 7 },
		{ "mbit", 1 << 17 }, { "gbit", 1 << 27 }, {},
	};

	return tc_plugin_quantity(text, units, value);
}

/**
 * tc_plugin_rate() - read a rate, in the units of tc(8)
 * @text: a decimal number, then perhaps a unit
 * @value: set if @text is a rate; bit/s
 *
 * Return: whether it is one.
 */
static inline bool tc_plugin_rate(const char *text, __u64 *value)
{
	static const struct tc_plugin_unit units[] = {
		{ "", 1 },	 { "bit", 1 },	   { "kbit", 1e3 },
		{ "mbit", 1e6 }, { "gbit", 1e9 },  { "tbit", 1e12 },
		{ "bps", 8 },	 { "kbps", 8e3 },  { "mbps", 8e6 },
		{ "gbps", 8e9 }, { "tbps", 8e12 }, {},
	};

	return tc_plugin_quantity(text, units, value);
}

/**
 * tc_plugin_time() - read a time, in the units of tc(8)
 * @text: a decimal number, then perhaps a unit; without one, microseconds
 * @value: set if @text is a time; ns
 *
 * Return: whether it is one.
 */
static inline bool tc_plugin_time(const char *text, __u64 *value)
{
	static const struct tc_plugin_unit units[] = {
		{ "", 1e3 },	  { "s", 1e9 },
		{ "sec", 1e9 },	  { "secs", 1e9 },
		{ "ms", 1e6 },	  { "msec", 1e6 },
		{ "msecs", 1e6 }, { "us", 1e3 },
		{ "usec", 1e3 },  { "usecs", 1e3 },
		{ "ns", 1 },	  { "nsec", 1 },
		{ "nsecs", 1 },	  {},
	};

	return tc_plugin_quantity(text, units, value);
}

/* Room for any number as text, with its unit. */
#define TC_PLUGIN_NUMBER_TEXT 32

/**
 * tc_plugin_size_exact() - write a size as tc_plugin_size() reads it
 * @text: TC_PLUGIN_NUMBER_TEXT bytes
 * @bytes: the size
 *
 * Return: @text
 */
static inline const char *tc_plugin_size_exact(char *text, __u64 bytes)
{
	const char *unit = "b";

	if (bytes && bytes % (1 << 20) == 0) {
		bytes >>= 20;
		unit = "Mb";
	} else if (bytes && bytes % (1 << 10) == 0) {
		bytes >>= 10;
		unit = "Kb";
	}
	snprintf(text, TC_PLUGIN_NUMBER_TEXT, "%llu%s",
		 (unsigned long long)bytes, unit);
	return text;
}

/**
 * tc_plugin_size_rounded() - write a measured size for a person
 * @text: TC_PLUGIN_NUMBER_TEXT bytes
 * @bytes: the size; exact below 10 Kb, which a few packets have
 *
 * Return: @text
 */
static inline const char *tc_plugin_size_rounded(char *text, __u64 bytes)
{
	if (bytes >= 1 << 20)
		snprintf(text, TC_PLUGIN_NUMBER_TEXT, "%.2fMb",
			 (double)bytes / (1 << 20));
	else if (bytes >= 10 << 10)
		snprintf(text, TC_PLUGIN_NUMBER_TEXT, "%.1fKb",
			 (double)bytes / (1 << 10));
	else
		snprintf(text, TC_PLUGIN_NUMBER_TEXT, "%llub",
			 (unsigned long long)bytes);
	return text;
}

/* @value as a number of the largest of @units that divides it. */
static inline const char *
tc_plugin_quantity_exact(char *text, const struct tc_plugin_unit *units,
			 __u64 value)
{
	while (units[1].name && value % (__u64)units->times)
		units++;
	snprintf(text, TC_PLUGIN_NUMBER_TEXT, "%llu%s",
		 (unsigned long long)(value / (__u64)units->times),
		 units->name);
	return text;
}

/**
 * tc_plugin_rate_exact() - write a rate as tc_plugin_rate() reads it
 * @text: TC_PLUGIN_NUMBER_TEXT bytes
 * @rate: the rate, bit/s, not 0
 *
 * Return: @text
 */
static inline const char *tc_plugin_rate_exact(char *text, __u64 rate)
{
	static const struct tc_plugin_unit units[] = {
		{ "Gbit", 1e9 },
		{ "Mbit", 1e6 },
		{ "Kbit", 1e3 },
		{ "bit", 1 },
		{},
	};

	return tc_plugin_quantity_exact(text, units, rate);
}

/**
 * tc_plugin_time_exact() - write a time as tc_plugin_time() reads it
 * @text: TC_PLUGIN_NUMBER_TEXT bytes
 * @time: the time, ns, not 0
 *
 * Return: @text
 */
static inline const char *tc_plugin_time_exact(char *text, __u64 time)
{
	static const struct tc_plugin_unit units[] = {
		{ "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, {},
	};

	return tc_plugin_quantity_exact(text, units, time);
}

/**
 * tc_plugin_rate_rounded() - write a measured rate for a person
 * @text: TC_PLUGIN_NUMBER_TEXT bytes
 * @rate: the rate, bit/s
 *
 * Return: @text
 */
static inline const char *tc_plugin_rate_rounded(char *text, __u64 rate)
{
	static const char *const units[] = { "bit", "Kbit", "Mbit", "Gbit",
					     "Tbit" };
	double number = rate;
	size_t unit = 0;

	while (number >= 1000 && unit + 1 < sizeof(units) / sizeof(*units)) {
		number /= 1000;
		unit++;
	}
	snprintf(text, TC_PLUGIN_NUMBER_TEXT, unit ? "%.6g%s" : "%.0f%s",
		 number, units[unit]);
	return text;
}

#endif /* FAIRPATH_TC_PLUGIN_H */
