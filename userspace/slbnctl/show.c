// SPDX-License-Identifier: GPL-2.0
/*
 * Output: text, or JSON if it was asked for, from the same calls.
 *
 * Text goes out at once. JSON is collected in an object of json-c, which knows
 * how to escape what a device may be called.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/units.h"
#include "show.h"
#include "slbnctl.h"

#define STYLE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/* What is being filled, and what it is in. */
static struct json_object *object, *outer;

/* A program that shows part of what it was asked for would deceive. */
static struct json_object *made(struct json_object *value)
{
	if (!value) {
		complain("out of memory");
		exit(STATUS_REFUSED);
	}
	return value;
}

static void add(const char *key, struct json_object *value)
{
	if (json_object_object_add(object, key, made(value)))
		made(NULL);
}

/**
 * show_begin() - begin to show a thing: an object
 */
void show_begin(void)
{
	if (json)
		object = made(json_object_new_object());
}

/**
 * show_nested() - begin an object in the object
 * @key: its name
 */
void show_nested(const char *key)
{
	struct json_object *inner;

	if (!json)
		return;
	inner = made(json_object_new_object());
	add(key, inner);
	outer = object;
	object = inner;
}

/**
 * show_nested_end() - end it
 */
void show_nested_end(void)
{
	if (json)
		object = outer;
}

/**
 * show_end() - end what is shown
 */
void show_end(void)
{
	const char *text;

	if (!json)
		return;
	text = json_object_to_json_string_ext(object, STYLE);
	if (!text)
		made(NULL);
	fputs(text, stdout);
	json_object_put(object);
}

/**
 * show_string() - show a text
 * @key: its name in JSON
 * @format: with one %s, for a person
 * @text: the text
 */
void show_string(const char *key, const char *format, const char *text)
{
	if (json)
		add(key, json_object_new_string(text));
	else
		printf(format, text);
}

/**
 * print_number() - show a number
 * @key: its name in JSON
 * @format: with one %s, for a person
 * @value: the number
 * @text: the number for a person
 */
void print_number(const char *key, const char *format, __u64 value,
		  const char *text)
{
	if (json)
		add(key, json_object_new_uint64(value));
	else
		printf(format, text);
}

/**
 * print_count() - show a number of things
 * @key: its name in JSON
 * @format: with one %s, for a person
 * @value: the number
 */
void print_count(const char *key, const char *format, __u64 value)
{
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	print_number(key, format, value, text);
}

/**
 * print_option() - show an option as users give it
 * @word: its word
 * @value: its value
 * @text: the same for a person
 */
void print_option(const char *word, __u64 value, const char *text)
{
	if (!json)
		printf("%s ", word);
	print_number(word, "%s ", value, text);
}

/**
 * print_flag() - show what is so or not
 * @key: its name in JSON
 * @value: whether it is
 * @text: for a person; or NULL
 */
void print_flag(const char *key, bool value, const char *text)
{
	if (json)
		add(key, json_object_new_boolean(value));
	else if (text)
		fputs(text, stdout);
}

/**
 * print_nl() - a new line, for a person
 */
void print_nl(void)
{
	if (!json)
		putchar('\n');
}
