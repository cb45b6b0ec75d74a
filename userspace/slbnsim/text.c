// SPDX-License-Identifier: GPL-2.0
/*
 * Files as text, and their words. See text.h.
 *
 * Error messages and results quote files. So control characters are replaced in
 * error messages, and names are UTF-8 without control characters, since JSON
 * has no others.
 */
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX 1000000000UL

static bool is_control(char letter)
{
	return (unsigned char)letter < 0x20 || letter == 0x7f;
}

/**
 * refuse_line() - report an error in a file, and end the program with status 2
 * @file: its name
 * @line: its line
 * @format: the message, in one line
 */
void refuse_line(const char *file, u32 line, const char *format, ...)
{
	char reason[1024], *at;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	for (at = reason; *at; at++)
		if (is_control(*at))
			*at = '?';
	fprintf(stderr, "slbnsim: %s:%u: %s\n", file, line, reason);
	exit(2);
}

static void __attribute__((noreturn))
refuse_file(const char *file, const char *why)
{
	fprintf(stderr, "slbnsim: %s: %s\n", file, why);
	exit(2);
}

/**
 * read_text() - read a file
 * @file: its name; "-": standard input
 *
 * Return: the file without a byte order mark; its data must be freed.
 */
struct text read_text(const char *file)
{
	struct text text = { .file = file };
	size_t room = 1 << 12, got;
	FILE *from = strcmp(file, "-") ? fopen(file, "re") : stdin;

	if (!from)
		refuse_file(file, strerror(errno));
	do {
		char *bigger = realloc(text.data, room + 1);

		if (!bigger || room > 2 * FILE_MAX)
			refuse_file(file, "too large");
		text.data = bigger;
		got = fread(text.data + text.length, 1, room - text.length,
			    from);
		text.length += got;
		if (text.length == room)
			room *= 2;
	} while (got);
	if (ferror(from))
		refuse_file(file, strerror(errno));
	if (from != stdin)
		fclose(from);
	if (text.length >= 3 && !memcmp(text.data, "\xef\xbb\xbf", 3)) {
		text.length -= 3;
		memmove(text.data, text.data + 3, text.length);
	}
	text.data[text.length] = '\0';
	return text;
}

/**
 * line_at() - the line of a position
 * @text: the file
 * @offset: the position; not before that of the previous call
 *
 * Return: its line, from 1.
 */
u32 line_at(struct text *text, size_t offset)
{
	const char *at = text->data + text->counted, *end;

	if (offset > text->length)
		offset = text->length;
	end = text->data + offset;
	for (; at < end && (at = memchr(at, '\n', end - at)); at++)
		text->lines++;
	if (text->counted < offset)
		text->counted = offset;
	return text->lines + 1;
}

/*
 * Up to 15 digits and a point, or 16 digits. The digits are exact in a double,
 * and so is the power of ten; so the division is rounded once, and equals
 * strtod() (Clinger, "How to read floating point numbers accurately", 1990).
 * NAN: longer, or not a number.
 */
static double parse_short_decimal(const char *text)
{
	static const double tens[] = {
		1e0, 1e1, 1e2,	1e3,  1e4,  1e5,  1e6,	1e7,
		1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
	};
	const char *point = NULL, *at;
	u64 digits = 0;

	for (at = text; at < text + 16; at++) {
		if (*at >= '0' && *at <= '9')
			digits = 10 * digits + (*at - '0');
		else if (*at == '.' && !point)
			point = at;
		else
			break;
	}
	if (*at || at == text + !!point)
		return NAN;
	return point ? digits / tens[at - point - 1] : (double)digits;
}

/**
 * parse_decimal() - parse a decimal number
 * @text: the number and nothing else
 *
 * Return: the number; NAN if it is malformed.
 */
double parse_decimal(const char *text)
{
	double value = parse_short_decimal(text);
	char *end;

	if (!isnan(value))
		return value;
	if (!*text || strspn(text, "+-0123456789.eE") != strlen(text))
		return NAN;
	value = strtod(text, &end);
	return *end ? NAN : value;
}

/* The bytes of the first character; 0 if it is not UTF-8 (RFC 3629). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
	static const u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length, n;
	u32 code;

	if (*at < 0x80)
		return 1;
	if (*at < 0xc2 || *at > 0xf4)
		return 0;
	length = 2 + (*at >= 0xe0) + (*at >= 0xf0);
	if (length > left)
		return 0;
	code = *at & (0x7f >> length);
	for (n = 1; n < length; n++) {
		if ((at[n] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[n] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff ||
	    (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}

/**
 * utf8_error() - look for what is not UTF-8
 * @text: the text
 * @length: its bytes
 *
 * Return: the position of the first invalid character, or @length.
 */
size_t utf8_error(const char *text, size_t length)
{
	size_t n, step;

	for (n = 0; n < length; n += step) {
		step = utf8_length((const unsigned char *)text + n, length - n);
		if (!step)
			break;
	}
	return n;
}

/**
 * name_error() - check a name
 * @name: the name
 * @length: its bytes
 *
 * Return: why it is invalid, or NULL.
 */
const char *name_error(const char *name, size_t length)
{
	size_t valid, n;

	if (!length || length >= NAME_ROOM)
		return "a name must have 1 to 255 bytes";
	valid = utf8_error(name, length);
	for (n = 0; n < valid; n++)
		if (is_control(name[n]))
			return "a name must have no control characters";
	return valid < length ? "a name must be UTF-8" : NULL;
}
