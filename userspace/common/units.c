// SPDX-License-Identifier: GPL-2.0
/*
 * Parsing and formatting of numbers with units. See units.h.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "units.h"

/**
 * units_count() - parse a count
 * @text: decimal digits, optionally followed by @unit
 * @unit: for example "p" for packets, or ""
 * @value: set on success; values above 64 bits become the largest one
 *
 * Return: whether @text is valid.
 */
bool units_count(const char *text, const char *unit, __u64 *value)
{
	char *end;

	/* strtoull() accepts a sign, and negates. */
	if (!isdigit((unsigned char)*text))
		return false;
	*value = strtoull(text, &end, 10);
	return !*end || !strcmp(end, unit);
}

/* Parse the decimal number that @text begins with; NULL: it has none. */
static const char *parse_decimal(const char *text, double *number)
{
	size_t length = strspn(text, "0123456789.");
	char *end;

	/* strtod() accepts a sign, an exponent, hexadecimals, "inf" and "nan". */
	if (!isdigit((unsigned char)*text))
		return NULL;
	*number = strtod(text, &end);
	return end == text + length ? end : NULL;
}

/* Cut off what is not due to the error of one multiplication and of strtod(). */
static __u64 whole_of(double number)
{
	__u64 whole = number;

	/* 4.1 * 1e9 is 4099999999.9999995. */
	if (number < 0x1p52 && (double)(whole + 1) - number <= number / 0x1p51)
		whole++;
	return whole;
}

/**
 * units_quantity() - parse a number with a unit
 * @text: a decimal number, optionally with a unit
 * @units: the accepted units, up to an empty entry
 * @value: set on success, in the base unit; fractions of it are cut off, values
 *	above 64 bits become the largest one
 *
 * Return: whether @text is valid.
 */
bool units_quantity(const char *text, const struct unit *units, __u64 *value)
{
	double number;
	const char *end = parse_decimal(text, &number);

	if (!end)
		return false;
	for (; units->name; units++) {
		if (strcasecmp(end, units->name))
			continue;
		number *= units->factor;
		*value = number < 0x1p64 ? whole_of(number) : UINT64_MAX;
		return true;
	}
	return false;
}

/**
 * units_size() - parse a size
 * @text: a decimal number, optionally with a unit of tc(8)
 * @value: set on success; bytes
 *
 * Return: whether @text is valid.
 */
bool units_size(const char *text, __u64 *value)
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
 * units_rate() - parse a rate
 * @text: a decimal number, optionally with a unit of tc(8); without one, bit/s
 * @value: set on success; bit/s
 *
 * Return: whether @text is valid.
 */
bool units_rate(const char *text, __u64 *value)
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
 * units_time() - parse a time
 * @text: a decimal number, optionally with a unit of tc(8); without one,
 *	microseconds
 * @value: set on success; ns
 *
 * Return: whether @text is valid.
 */
bool units_time(const char *text, __u64 *value)
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

/**
 * units_permille() - parse a percentage
 * @text: a decimal number, optionally followed by "%"
 * @min: smallest valid number
 * @max: largest valid number
 * @value: set on success; per mille, rounded
 *
 * Return: whether @text is valid and in the range.
 */
bool units_permille(const char *text, double min, double max, __u64 *value)
{
	double percent;
	const char *end = parse_decimal(text, &percent);

	if (!end || (*end && strcmp(end, "%")) || percent < min ||
	    percent > max)
		return false;
	*value = percent * 10 + 0.5;
	return true;
}

/**
 * units_size_exact() - format a size for units_size()
 * @text: UNITS_TEXT bytes
 * @bytes: the size
 *
 * Return: @text
 */
const char *units_size_exact(char *text, __u64 bytes)
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
 * units_size_rounded() - format a measured size for people
 * @text: UNITS_TEXT bytes
 * @bytes: the size; exact below 10 Kb, the size of a few packets
 *
 * Return: @text
 */
const char *units_size_rounded(char *text, __u64 bytes)
{
	if (bytes >= 1 << 20)
		snprintf(text, UNITS_TEXT, "%.2fMb", (double)bytes / (1 << 20));
	else if (bytes >= 10 << 10)
		snprintf(text, UNITS_TEXT, "%.1fKb", (double)bytes / (1 << 10));
	else
		snprintf(text, UNITS_TEXT, "%llub", (unsigned long long)bytes);
	return text;
}

/* Format @value in the first, largest one of @units that divides it. */
static const char *format_quantity(char *text, const struct unit *units,
				   __u64 value)
{
	while (units[1].name && value % (__u64)units->factor)
		units++;
	snprintf(text, UNITS_TEXT, "%llu%s",
		 (unsigned long long)(value / (__u64)units->factor),
		 units->name);
	return text;
}

/**
 * units_rate_exact() - format a rate for units_rate()
 * @text: UNITS_TEXT bytes
 * @rate: bit/s, not 0
 *
 * Return: @text
 */
const char *units_rate_exact(char *text, __u64 rate)
{
	static const struct unit units[] = {
		{ "Gbit", 1e9 },
		{ "Mbit", 1e6 },
		{ "Kbit", 1e3 },
		{ "bit", 1 },
		{},
	};

	return format_quantity(text, units, rate);
}

/**
 * units_rate_rounded() - format a measured rate for people
 * @text: UNITS_TEXT bytes
 * @rate: bit/s
 *
 * Return: @text
 */
const char *units_rate_rounded(char *text, __u64 rate)
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

/**
 * units_time_exact() - format a time for units_time()
 * @text: UNITS_TEXT bytes
 * @time: ns, not 0
 *
 * Return: @text
 */
const char *units_time_exact(char *text, __u64 time)
{
	static const struct unit units[] = {
		{ "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, {},
	};

	return format_quantity(text, units, time);
}

/**
 * units_permille_exact() - format a percentage for units_permille()
 * @text: UNITS_TEXT bytes
 * @permille: the value
 *
 * Return: @text
 */
const char *units_permille_exact(char *text, __u64 permille)
{
	snprintf(text, UNITS_TEXT, "%llu.%llu%%",
		 (unsigned long long)permille / 10,
		 (unsigned long long)permille % 10);
	return text;
}
