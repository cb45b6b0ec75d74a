/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files as text: whole in memory, with the line of each place. What is wrong in
 * one is told in a line, with file and line, and is the end of the program: exit
 * status 2.
 */
#ifndef SLBNSIM_TEXT_H
#define SLBNSIM_TEXT_H

#include <stddef.h>

#include <fairpath/core.h>

/* Names of nodes and sessions, with their 0. */
#define NAME_ROOM 256

/**
 * struct text - a file
 * @file: its name
 * @data: what it says, with a 0 behind
 * @length: without that
 * @counted: so far lines have been counted,
 * @lines: and so many have ended
 */
struct text {
	const char *file;
	char *data;
	size_t length;
	size_t counted;
	u32 lines;
};

void __attribute__((noreturn, format(printf, 3, 4)))
refuse_line(const char *file, u32 line, const char *format, ...);
struct text read_text(const char *file);
u32 line_at(struct text *text, size_t offset);
double parse_decimal(const char *text);
const char *name_error(const char *name, size_t length);

#endif /* SLBNSIM_TEXT_H */
