/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers with units, in and out, as tc(8) has them: what one program of this
 * project prints, each of them reads, tc's plugins and slbnctl alike.
 *
 * Reading checks everything: a sign, an exponent, "inf" and the like, which the
 * C library's functions take for numbers, are none here. Writing is of two
 * kinds: exact, which is read back as the same number, and rounded, for people.
 */
#ifndef FAIRPATH_UNITS_H
#define FAIRPATH_UNITS_H

#include <ctype.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/**
 * units_count() - read a number of things
 * @text: decimal digits, then perhaps @unit
 * @unit: what may follow, "p" for packets or ""
 * @value: set if @text is a number
 *
 * Return: whether it is one. One that is too large for 64 bits is the largest.
 */
static inline bool units_count(const char *text, const char *unit, __u64 *value)
{
	char *end;

	/* strtoull() takes a sign, and makes large numbers of negative ones. */
	if (!isdigit((unsigned char)*text))
		return false;
	*value = strtoull(text, &end, 10);
	return !*end || !strcmp(end, unit);
}

/**
 * struct unit - a unit that may follow a number
 * @name: what it is called, in any case
 * @times: how many of the smallest it is
 */
struct unit {
	const char *name;
	double times;
};

/**
 * units_quantity() - read a number with a unit
 * @text: a decimal number, then perhaps a unit
 * @units: those that there are, up to one without a name
 * @value: set if @text is such a number; parts of the smallest are left out
 *
 * Return: whether it is one. One that is too large for 64 bits is the largest.
 */
static inline bool units_quantity(const char *text, const struct unit *units,
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
 * units_size() - read a number of bytes, in the units of tc(8)
 * @text: a decimal number, then perhaps a unit
 * @value: set if @text is a size
 *
 * Return: whether it is one.
 */
static inline bool units_size(const char *text, __u64 *value)
{
	static const struct unit units[] = {
		{ "", 1 },	     { "b", 1 },	  { "k", 1 << 10 },
		{ "kb", 1 << 10 },   { "m", 1 << 20 },	  { "mb", 1 << 20 },
		{ "g", 1 << 30 },    { "gb", 1 << 30 },	  { "kbit", 1 << 7 },
		{ "mbit", 1 << 17 }, { "gbit", 1 << 27 }, {},
	};

	return units_quantity(text, units, value);
}

/**
 * units_rate() - read a rate, in the units of tc(8)
 * @text: a decimal number, then perhaps a unit
 * @value: set if @text is a rate; bit/s
 *
 * Return: whether it is one.
 */
static inline bool units_rate(const char *text, __u64 *value)
{
	static const struct unit units[] = {
		{ "", 1 },	 { "bit", 1 },	   { "kbit", 1e3 },
		{ "mbit", 1e6 }, { "gbit", 1e9 },  { "tbit", 1e12 },
		{ "bps", 8 },	 { "kbps", 8e3 },  { "mbps", 8e6 },
		{ "gbps", 8e9 }, { "tbps", 8e12 }, {},
	};

	return units_quantity(text, units, value);
}

/**
 * units_time() - read a time, in the units of tc(8)
 * @text: a decimal number, then perhaps a unit; without one, microseconds
 * @value: set if @text is a time; ns
 *
 * Return: whether it is one.
 */
static inline bool units_time(const char *text, __u64 *value)
{
	static const struct unit units[] = {
		{ "", 1e3 },	  { "s", 1e9 },
		{ "sec", 1e9 },	  { "secs", 1e9 },
		{ "ms", 1e6 },	  { "msec", 1e6 },
		{ "msecs", 1e6 }, { "us", 1e3 },
		{ "usec", 1e3 },  { "usecs", 1e3 },
		{ "ns", 1 },	  { "nsec", 1 },
		{ "nsecs", 1 },	  {},
	};

	return units_quantity(text, units, value);
}

/* Room for any number as text, with its unit. */
#define UNITS_TEXT 32

/**
 * units_size_exact() - write a size as units_size() reads it
 * @text: UNITS_TEXT bytes
 * @bytes: the size
 *
 * Return: @text
 */
static inline const char *units_size_exact(char *text, __u64 bytes)
{
	const char *unit = "b";

	if (bytes && bytes % (1 << 20) == 0) {
		bytes >>= 20;
		unit = "Mb";
	} else if (bytes && bytes % (1 << 10) == 0) {
		bytes >>= 10;
		unit = "Kb";
	}
	snprintf(text, UNITS_TEXT, "%llu%s", (unsigned long long)bytes, unit);
	return text;
}

/**
 * units_size_rounded() - write a measured size for a person
 * @text: UNITS_TEXT bytes
 * @bytes: the size; exact below 10 Kb, which a few packets have
 *
 * Return: @text
 */
static inline const char *units_size_rounded(char *text, __u64 bytes)
{
	if (bytes >= 1 << 20)
		snprintf(text, UNITS_TEXT, "%.2fMb", (double)bytes / (1 << 20));
	else if (bytes >= 10 << 10)
		snprintf(text, UNITS_TEXT, "%.1fKb", (double)bytes / (1 << 10));
	else
		snprintf(text, UNITS_TEXT, "%llub", (unsigned long long)bytes);
	return text;
}

/* @value as a number of the largest of @units that divides it. */
static inline const char *
units_quantity_exact(char *text, const struct unit *units, __u64 value)
{
	while (units[1].name && value % (__u64)units->times)
		units++;
	snprintf(text, UNITS_TEXT, "%llu%s",
		 (unsigned long long)(value / (__u64)units->times),
		 units->name);
	return text;
}

/**
 * units_rate_exact() - write a rate as units_rate() reads it
 * @text: UNITS_TEXT bytes
 * @rate: the rate, bit/s, not 0
 *
 * Return: @text
 */
static inline const char *units_rate_exact(char *text, __u64 rate)
{
	static const struct unit units[] = {
		{ "Gbit", 1e9 },
		{ "Mbit", 1e6 },
		{ "Kbit", 1e3 },
		{ "bit", 1 },
		{},
	};

	return units_quantity_exact(text, units, rate);
}

/**
 * units_time_exact() - write a time as units_time() reads it
 * @text: UNITS_TEXT bytes
 * @time: the time, ns, not 0
 *
 * Return: @text
 */
static inline const char *units_time_exact(char *text, __u64 time)
{
	static const struct unit units[] = {
		{ "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, {},
	};

	return units_quantity_exact(text, units, time);
}

/**
 * units_rate_rounded() - write a measured rate for a person
 * @text: UNITS_TEXT bytes
 * @rate: the rate, bit/s
 *
 * Return: @text
 */
static inline const char *units_rate_rounded(char *text, __u64 rate)
{
	static const char *const units[] = { "bit", "Kbit", "Mbit", "Gbit",
					     "Tbit" };
	double number = rate;
	size_t unit = 0;

	while (number >= 1000 && unit + 1 < sizeof(units) / sizeof(*units)) {
		number /= 1000;
		unit++;
	}
	snprintf(text, UNITS_TEXT, unit ? "%.6g%s" : "%.0f%s", number,
		 units[unit]);
	return text;
}

#endif /* FAIRPATH_UNITS_H */
