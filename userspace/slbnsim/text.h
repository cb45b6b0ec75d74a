/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files as text, in memory, with lines for error messages. Errors end the
 * program with status 2 and a message with file and line.
 */
#ifndef SLBNSIM_TEXT_H
#define SLBNSIM_TEXT_H

#include <stddef.h>

#include <fairpath/core.h>

/* The bytes of a name, with its terminating 0. */
#define NAME_ROOM 256

/**
 * struct text - a file
 * @file: its name
 * @data: its contents, with a terminating 0
 * @length: bytes, without that 0
 * @counted: the position up to which @lines were counted
 * @lines: line ends up to there
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
size_t utf8_error(const char *text, size_t length);
const char *name_error(const char *name, size_t length);

#endif /* SLBNSIM_TEXT_H */
