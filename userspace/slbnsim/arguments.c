// SPDX-License-Identifier: GPL-2.0
/*
 * Words of the command line. See arguments.h; units are those of units.h.
 */
#include "arguments.h"

#include <stdarg.h>

#include "../common/units.h"
#include "net.h"

/**
 * refuse() - say what makes no sense, and end the program
 * @format: what, in a line
 */
void refuse(const char *format, ...)
{
	va_list arguments;

	fputs("slbnsim: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

/* A time of an option, ns; without a unit it is in seconds. */
u64 time_named(const char *name, const char *text, u64 most)
{
	static const struct unit units[] = {
		{ "", 1e9 },   { "s", 1e9 }, { "ms", 1e6 },
		{ "us", 1e3 }, { "ns", 1 },  {},
	};
	u64 value;

	if (!units_quantity(text, units, &value) || value > most)
		refuse("%s '%s': must be 0 to %llu s, such as 5ms", name, text,
		       (unsigned long long)(most / SEC));
	return value;
}

u64 number_named(const char *name, const char *text, u64 least, u64 most)
{
	u64 value;

	if (!units_count(text, "", &value) || value < least || value > most)
		refuse("%s '%s': must be %llu to %llu", name, text,
		       (unsigned long long)least, (unsigned long long)most);
	return value;
}

/* A rate of an option, bit/s. */
u64 rate_named(const char *name, const char *text)
{
	u64 value;

	if (!units_rate(text, &value) || !value || value > NET_RATE_MAX)
		refuse("%s '%s': must be 1bit to 1tbit, such as 10gbit", name,
		       text);
	return value;
}

/* Percent of an option, in thousandths. */
u32 share_named(const char *name, const char *text)
{
	static const struct unit units[] = { { "", 10 }, { "%", 10 }, {} };
	u64 value;

	if (!units_quantity(text, units, &value) || value > 1000)
		refuse("%s '%s': must be 0 (any) to 100 percent", name, text);
	return value;
}

/* Percent of an option, in millionths; LEAST is 0, or 1 if it may not be none. */
u32 part_named(const char *name, const char *text, u32 least)
{
	static const struct unit units[] = { { "", 1e4 }, { "%", 1e4 }, {} };
	u64 value;

	if (!units_quantity(text, units, &value) || value < least ||
	    value > 1000000)
		refuse("%s '%s': must be %s to 100 percent", name, text,
		       least ? "0.0001" : "0");
	return value;
}
