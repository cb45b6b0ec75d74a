// SPDX-License-Identifier: GPL-2.0
/*
 * Output as text, or as JSON with --json. See show.h.
 *
 * Text is printed at once. JSON is collected in a json-c object, which also
 * escapes device names, but does not check that they are UTF-8.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/units.h"
#include "show.h"
#include "slbnctl.h"

#define STYLE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/* The object that is being filled, the one that contains it, and its last array. */
static struct json_object *object, *outer, *array;

/* Exit rather than print an incomplete object. */
static struct json_object *check_allocation(struct json_object *value)
{
	if (!value) {
		complain("out of memory");
		exit(STATUS_FAILED);
	}
	return value;
}

static void add(const char *key, struct json_object *value)
{
	if (json_object_object_add(object, key, check_allocation(value)))
		check_allocation(NULL);
}

/**
 * show_begin() - begin an object; its first member is the version of the format
 */
void show_begin(void)
{
	if (!json)
		return;
	object = check_allocation(json_object_new_object());
	add("version", json_object_new_int(SHOW_VERSION));
}

/**
 * show_nested() - begin an object inside the object
 * @key: its name
 */
void show_nested(const char *key)
{
	struct json_object *inner;

	if (!json)
		return;
	inner = check_allocation(json_object_new_object());
	add(key, inner);
	outer = object;
	object = inner;
}

/**
 * show_nested_end() - end the inner object
 */
void show_nested_end(void)
{
	if (json)
		object = outer;
}

/**
 * show_array() - add an array of objects to the object
 * @key: its name
 */
void show_array(const char *key)
{
	if (!json)
		return;
	array = check_allocation(json_object_new_array());
	add(key, array);
}

/**
 * show_element() - begin an object in the array; show_nested_end() ends it
 */
void show_element(void)
{
	struct json_object *inner;

	if (!json)
		return;
	inner = check_allocation(json_object_new_object());
	if (json_object_array_add(array, inner))
		check_allocation(NULL);
	outer = object;
	object = inner;
}

/**
 * show_end() - end the object
 */
void show_end(void)
{
	const char *text;

	if (!json)
		return;
	text = json_object_to_json_string_ext(object, STYLE);
	if (!text)
		check_allocation(NULL);
	fputs(text, stdout);
	json_object_put(object);
}

/* The octets of the UTF-8 character that @text begins with; 0: it is none. */
static size_t character_length(const char *text)
{
	static const __u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const __u8 *octet = (const __u8 *)text;
	size_t length, n;
	__u32 code;

	if (*octet < 0x80)
		return 1;
	if (*octet < 0xc0 || *octet > 0xf4)
		return 0;
	length = *octet < 0xe0 ? 2 : *octet < 0xf0 ? 3 : 4;
	code = *octet & (0x7f >> length);
	for (n = 1; n < length; n++) {
		if ((octet[n] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (octet[n] & 0x3f);
	}
	/* Not too long, no surrogate, and of Unicode. */
	return code >= least[length] && code >> 11 != 0x1b && code <= 0x10ffff ?
		       length :
		       0;
}

/**
 * show_character() - copy a character of a name that may be no UTF-8
 * @to: room for SHOW_CHARACTER octets
 * @text: the character; moved behind it
 *
 * Names of devices may have almost any octets, but readers of JSON and of
 * metrics refuse a whole document with one that is not UTF-8.
 *
 * Return: the number of octets: of the character, or of U+FFFD instead of an
 * octet that belongs to none.
 */
size_t show_character(char *to, const char **text)
{
	size_t length = character_length(*text);

	memcpy(to, length ? *text : "\ufffd", length ?: 3);
	*text += length ?: 1;
	return length ?: 3;
}

static struct json_object *new_string(const char *text)
{
	char *valid = malloc(strlen(text) * SHOW_CHARACTER + 1);
	struct json_object *string;
	size_t at = 0;

	if (!valid)
		return NULL;
	while (*text)
		at += show_character(valid + at, &text);
	string = json_object_new_string_len(valid, at);
	free(valid);
	return string;
}

/**
 * show_string() - print a string
 * @key: its name in JSON
 * @format: with one %s, for text
 * @text: the string
 */
void show_string(const char *key, const char *format, const char *text)
{
	if (json)
		add(key, new_string(text));
	else
		printf(format, text);
}

/**
 * show_number() - print a number
 * @key: its name in JSON
 * @format: with one %s, for text
 * @value: the number
 * @text: the number with its unit, for text
 */
void show_number(const char *key, const char *format, __u64 value,
		 const char *text)
{
	if (json)
		add(key, json_object_new_uint64(value));
	else
		printf(format, text);
}

/**
 * show_count() - print a number without a unit
 * @key: its name in JSON
 * @format: with one %s, for text
 * @value: the number
 */
void show_count(const char *key, const char *format, __u64 value)
{
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	show_number(key, format, value, text);
}

/**
 * show_signed() - print a number that may be negative, in JSON only
 * @key: its name
 * @value: the number
 */
void show_signed(const char *key, __s64 value)
{
	if (json)
		add(key, json_object_new_int64(value));
}

/**
 * show_flag() - print a boolean
 * @key: its name in JSON
 * @value: the boolean
 * @text: for text; or NULL
 */
void show_flag(const char *key, bool value, const char *text)
{
	if (json)
		add(key, json_object_new_boolean(value));
	else if (text)
		fputs(text, stdout);
}

/**
 * show_numbers() - print small numbers
 * @key: their name in JSON, an array
 * @value: the numbers
 * @count: how many
 * @text: for text
 */
void show_numbers(const char *key, const __u8 *value, size_t count,
		  const char *text)
{
	struct json_object *array, *number;
	size_t n;

	if (!json) {
		fputs(text, stdout);
		return;
	}
	array = check_allocation(json_object_new_array());
	for (n = 0; n < count; n++) {
		number = check_allocation(json_object_new_int(value[n]));
		if (json_object_array_add(array, number))
			check_allocation(NULL);
	}
	add(key, array);
}

/**
 * show_keys() - print numbers of keys
 * @id: the numbers, the newest last
 * @count: how many
 */
void show_keys(const __u8 *id, size_t count)
{
	char text[LINK_KEYS_MAX * sizeof("255,") + sizeof("keys none")];
	size_t at, n;

	at = snprintf(text, sizeof(text), "keys%s", count ? "" : " none");
	for (n = 0; n < count; n++)
		at += snprintf(text + at, sizeof(text) - at, "%c%u",
			       n ? ',' : ' ', id[n]);
	show_numbers("keys", id, count, text);
}

/**
 * show_newline() - end a line of text
 */
void show_newline(void)
{
	if (!json)
		putchar('\n');
}

const struct link_output show_output = {
	.number = show_number,
	.flag = show_flag,
	.numbers = show_numbers,
	.newline = show_newline,
};
