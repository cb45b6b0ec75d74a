/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parsing and formatting of numbers with units, in the units of tc(8): each
 * program of this project reads what the others print.
 *
 * Parsers accept plain decimal numbers only: no sign, exponent, hexadecimal,
 * "inf" or "nan", all of which the C library accepts. Formatters are exact (the
 * text parses back to the same number) or rounded (for people).
 */
#ifndef FAIRPATH_UNITS_H
#define FAIRPATH_UNITS_H

#include <linux/types.h>
#include <stdbool.h>

/* Size of a buffer for any number and its unit. */
#define UNITS_TEXT 32

/**
 * struct unit - a unit that may follow a number
 * @name: matched without regard to case
 * @factor: its size, in the base unit
 */
struct unit {
	const char *name;
	double factor;
};

bool units_quantity(const char *text, const struct unit *units, __u64 *value);
bool units_count(const char *text, const char *unit, __u64 *value);
bool units_size(const char *text, __u64 *value);
bool units_rate(const char *text, __u64 *value);
bool units_time(const char *text, __u64 *value);
bool units_permille(const char *text, double min, double max, __u64 *value);

const char *units_size_exact(char *text, __u64 bytes);
const char *units_size_rounded(char *text, __u64 bytes);
const char *units_rate_exact(char *text, __u64 rate);
const char *units_rate_rounded(char *text, __u64 rate);
const char *units_time_exact(char *text, __u64 time);
const char *units_permille_exact(char *text, __u64 permille);

#endif /* FAIRPATH_UNITS_H */
