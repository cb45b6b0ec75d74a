// SPDX-License-Identifier: GPL-2.0
/*
 * Parsing the command line. See options.h; units are those of units.h.
 */
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/units.h"
#include "net.h"

/* Above any character that getopt_long() returns. */
#define OPTION_BASE 256
#define OPTION_HELP (OPTION_BASE + OPTIONS_MAX)

/**
 * refuse() - print an error message and end the program with status 2
 * @format: the message, in one line
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

/**
 * read_time() - parse a time; without a unit it is in seconds
 * @text: the time
 * @time: set, ns
 *
 * Return: whether TEXT is a time.
 */
bool read_time(const char *text, u64 *time)
{
	/* Quarters of a ns, to be rounded: units_quantity() cuts off fractions. */
	static const struct unit units[] = {
		{ "", 4e9 },   { "s", 4e9 }, { "ms", 4e6 },
		{ "us", 4e3 }, { "ns", 4 },  {},
	};
	u64 value = 0;
	bool valid = units_quantity(text, units, &value);

	*time = value / 4 + (value % 4 >= 2);
	return valid;
}

/* A time, ns. MIN is 0 or 1. */
u64 parse_time(const char *name, const char *text, u64 min, u64 max)
{
	u64 value;

	if (!read_time(text, &value) || value < min || value > max)
		refuse("%s '%s': must be %s %llu s, such as 5ms", name, text,
		       min ? "above 0, at most" : "0 to",
		       (unsigned long long)(max / SEC));
	return value;
}

u64 parse_number(const char *name, const char *text, u64 min, u64 max)
{
	u64 value;

	if (!units_count(text, "", &value) || value < min || value > max)
		refuse("%s '%s': must be %llu to %llu", name, text,
		       (unsigned long long)min, (unsigned long long)max);
	return value;
}

/* A rate, bit/s. */
u64 parse_rate(const char *name, const char *text)
{
	u64 value;

	if (!units_rate(text, &value) || !value || value > NET_RATE_MAX)
		refuse("%s '%s': must be 1bit to 1tbit, such as 10gbit", name,
		       text);
	return value;
}

/*
 * A percentage, in steps of 1/SCALE percent, MIN to MAX. Values between two
 * steps are refused: rounded to 0, some would mean the opposite.
 */
static u32 parse_percent(const char *name, const char *text, u32 scale, u64 min,
			 u64 max)
{
	static const struct unit units[] = { { "", 1e9 }, { "%", 1e9 }, {} };
	u64 step = SEC / scale, value = 0, steps;
	bool valid = units_quantity(text, units, &value);

	/* The product may be off by a rounding error. */
	steps = value / step + (value % step > step / 2);
	if (!valid || steps < min || steps > max ||
	    (value > steps * step + 1 || value + 1 < steps * step))
		refuse("%s '%s': must be %g to %g percent, in steps of %g",
		       name, text, 1.0 * min / scale, 1.0 * max / scale,
		       1.0 / scale);
	return steps;
}

/* A percentage, in thousandths. */
u32 parse_per_mille(const char *name, const char *text, u32 max)
{
	return parse_percent(name, text, 10, 0, max);
}

/* A percentage, in millionths. MIN is 0 or 1. */
u32 parse_ppm(const char *name, const char *text, u32 min)
{
	return parse_percent(name, text, 10000, min, 1000000);
}

static void parse_option(const struct option_spec *spec, char *text,
			 void *settings)
{
	void *field = (char *)settings + spec->at;
	char name[32];

	snprintf(name, sizeof(name), "--%s", spec->name);
	switch (spec->type) {
	case OPTION_FLAG:
		*(bool *)field = true;
		break;
	case OPTION_TEXT:
		*(const char **)field = text;
		break;
	case OPTION_TIME:
		*(u64 *)field = parse_time(name, text, spec->min, spec->max);
		break;
	case OPTION_RATE:
		*(u64 *)field = parse_rate(name, text);
		break;
	case OPTION_U32:
		*(u32 *)field = parse_number(name, text, spec->min, spec->max);
		break;
	case OPTION_U64:
		*(u64 *)field = parse_number(name, text, spec->min, spec->max);
		break;
	case OPTION_PER_MILLE:
		*(u32 *)field = parse_per_mille(name, text,
						spec->max ? spec->max : 1000);
		break;
	case OPTION_PPM:
		*(u32 *)field = parse_ppm(name, text, spec->min);
		break;
	case OPTION_CALL:
		spec->parse(settings, name, text);
		break;
	}
}

/**
 * parse_options() - parse a command's options
 * @set: the options of all commands
 * @command: the command's bit
 * @command_name: its name, for error messages
 * @arguments: the word before the first option, the options, NULL
 * @settings: where their values go
 * @given: set to the options that were given, as bits of their index
 *
 * Return: false if there is --help.
 */
bool parse_options(const struct option_set *set, u32 command,
		   const char *command_name, char **arguments, void *settings,
		   u32 *given)
{
	struct option options[OPTIONS_MAX + 2] = {};
	const struct option_spec *spec;
	int which, count = 0;
	u32 n;

	for (n = 0; n < set->count; n++)
		options[n] = (struct option){
			.name = set->specs[n].name,
			.has_arg = set->specs[n].type != OPTION_FLAG,
			.val = OPTION_BASE + n,
		};
	options[n] = (struct option){ .name = "help", .val = OPTION_HELP };
	while (arguments[count])
		count++;
	*given = 0;
	opterr = 0;
	optind = 1;
	while ((which = getopt_long(count, arguments, "+:", options, NULL)) !=
	       -1) {
		if (which == OPTION_HELP)
			return false;
		if (which == ':')
			refuse("%s needs a value", arguments[optind - 1]);
		if (which < OPTION_BASE)
			refuse("unknown option %s; see %s --help",
			       arguments[optind - 1], set->help);
		spec = &set->specs[which - OPTION_BASE];
		if (!(spec->commands & command))
			refuse("--%s is not an option of %s", spec->name,
			       command_name);
		*given |= 1U << (which - OPTION_BASE);
		parse_option(spec, optarg, settings);
	}
	if (optind < count)
		refuse("unexpected argument '%s'; see %s --help",
		       arguments[optind], set->help);
	return true;
}

/**
 * option_given() - was an option given?
 * @set: the options
 * @given: as parse_options() set it
 * @name: of the option
 *
 * Return: whether it was.
 */
bool option_given(const struct option_set *set, u32 given, const char *name)
{
	u32 n;

	for (n = 0; n < set->count; n++)
		if (!strcmp(set->specs[n].name, name))
			return given & 1U << n;
	return false;
}
