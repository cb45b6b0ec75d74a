/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parsing the command line. Invalid arguments end the program with an error
 * message and status 2.
 */
#ifndef SLBNSIM_OPTIONS_H
#define SLBNSIM_OPTIONS_H

#include <stddef.h>

#include <fairpath/core.h>

#define MSEC 1000000ULL
#define SEC 1000000000ULL

enum option_type {
	OPTION_FLAG, /* bool, no value */
	OPTION_TEXT, /* const char * */
	OPTION_TIME, /* u64, ns */
	OPTION_RATE, /* u64, bit/s */
	OPTION_U32,
	OPTION_U64,
	OPTION_PER_MILLE, /* u32, from percent; at most 1000 without @max */
	OPTION_PPM, /* u32, 1/1000000, from percent */
	OPTION_CALL,
};

/**
 * struct option_spec - an option
 * @name: without --
 * @type: how its value is parsed
 * @commands: the commands that have it, as bits
 * @at: offset of its field in the settings
 * @min: the least value of a number or a time
 * @max: the largest
 * @parse: for OPTION_CALL; NAME has the --
 */
struct option_spec {
	const char *name;
	enum option_type type;
	u32 commands;
	size_t at;
	u64 min;
	u64 max;
	void (*parse)(void *settings, const char *name, char *text);
};

/**
 * struct option_set - the options of a program
 * @specs: the options
 * @count: how many; at most OPTIONS_MAX
 * @help: the command that --help of an error message belongs to
 */
struct option_set {
	const struct option_spec *specs;
	u32 count;
	const char *help;
};

#define OPTIONS_MAX 32U

void __attribute__((noreturn, format(printf, 1, 2)))
refuse(const char *format, ...);
bool read_time(const char *text, u64 *time);
u64 parse_time(const char *name, const char *text, u64 min, u64 max);
u64 parse_number(const char *name, const char *text, u64 min, u64 max);
u64 parse_rate(const char *name, const char *text);
u32 parse_per_mille(const char *name, const char *text, u32 max);
u32 parse_ppm(const char *name, const char *text, u32 min);
bool parse_options(const struct option_set *set, u32 command,
		   const char *command_name, char **arguments, void *settings,
		   u32 *given);
bool option_given(const struct option_set *set, u32 given, const char *name);

#endif /* SLBNSIM_OPTIONS_H */
