/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tc gives to its plugins, for tests that run a plugin without tc: with
 * random input, and with the sanitizers, which tc is not built with. That the
 * plugin gets along with tc itself is for other tests.
 *
 * Messages are made and read as netlink has it. What the plugin prints is kept:
 * the text, or each key of the JSON with its value; which of the two, the test
 * chooses. A key given twice, or none where JSON needs one, fails the test.
 */
#ifndef TC_DOUBLE_H
#define TC_DOUBLE_H

#include <inttypes.h>

#include "unit.h"

#include "../../userspace/tc/tc_plugin.h"

#define DOUBLE_FIELDS 32

/**
 * struct double_field - a key in the JSON, and its value
 * @key: the key
 * @number: the value, if it is a number, or a truth
 * @text: the value if it is a text, or else ""
 */
struct double_field {
	char key[32];
	s64 number;
	char text[32];
};

/* What the plugin printed since double_begin(). */
static struct {
	bool json;
	char text[4096];
	size_t length;
	struct double_field fields[DOUBLE_FIELDS];
	size_t count;
} double_output;

static void double_begin(bool json)
{
	memset(&double_output, 0, sizeof(double_output));
	double_output.json = json;
}

static const struct double_field *double_find(const char *key)
{
	size_t i;

	for (i = 0; i < double_output.count; i++) {
		if (!strcmp(double_output.fields[i].key, key))
			return &double_output.fields[i];
	}
	return NULL;
}

static bool double_prints_json(enum output_type t)
{
	return double_output.json && (t & (PRINT_JSON | PRINT_ANY));
}

static void double_field(const char *key, s64 number, const char *text)
{
	struct double_field *field = &double_output.fields[double_output.count];

	assert_non_null(key);
	CHECK(!double_find(key), "key %s", key);
	assert_true(double_output.count++ < DOUBLE_FIELDS);
	assert_true(strlen(key) < sizeof(field->key));
	assert_true(strlen(text) < sizeof(field->text));
	strcpy(field->key, key);
	field->number = number;
	strcpy(field->text, text);
}

static int double_text(enum output_type t, const char *format, ...)
{
	size_t room = sizeof(double_output.text) - double_output.length;
	va_list arguments;
	int length;

	if (double_output.json || !(t & (PRINT_FP | PRINT_ANY)))
		return 0;
	va_start(arguments, format);
	length = vsnprintf(double_output.text + double_output.length, room,
			   format, arguments);
	va_end(arguments);
	assert_in_range(length, 0, room - 1);
	double_output.length += length;
	return length;
}

/* COLOR_NONE: users who want no colors get none. */
#define DOUBLE_PRINT(name, type, number, string)                          \
	int print_color_##name(enum output_type t, enum color_attr color, \
			       const char *key, const char *format,       \
			       type value)                                \
	{                                                                 \
		assert_int_equal(color, COLOR_NONE);                      \
		if (!double_prints_json(t))                               \
			return double_text(t, format, value);             \
		double_field(key, number, string);                        \
		return 0;                                                 \
	}

DOUBLE_PRINT(uint, unsigned int, value, "")
DOUBLE_PRINT(u64, uint64_t, value, "")
DOUBLE_PRINT(s64, int64_t, value, "")
DOUBLE_PRINT(bool, bool, value, "")
DOUBLE_PRINT(string, const char *, 0, value)

void print_nl(void)
{
	double_text(PRINT_FP, "\n");
}

int addattr_l(struct nlmsghdr *n, int maxlen, int type, const void *data,
	      int alen)
{
	struct rtattr *attr = (void *)((char *)n + NLMSG_ALIGN(n->nlmsg_len));
	int length = NLMSG_ALIGN(n->nlmsg_len) + RTA_SPACE(alen);

	if (length > maxlen)
		return -1;
	attr->rta_type = type;
	attr->rta_len = RTA_LENGTH(alen);
	if (alen)
		memcpy(RTA_DATA(attr), data, alen);
	n->nlmsg_len = length;
	return 0;
}

struct rtattr *addattr_nest(struct nlmsghdr *n, int maxlen, int type)
{
	struct rtattr *nest = (void *)((char *)n + NLMSG_ALIGN(n->nlmsg_len));

	addattr_l(n, maxlen, type, NULL, 0);
	return nest;
}

int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest)
{
	nest->rta_len = (char *)n + n->nlmsg_len - (char *)nest;
	return n->nlmsg_len;
}

int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta,
		       int len, unsigned short flags)
{
	memset(tb, 0, (max + 1) * sizeof(*tb));
	for (; RTA_OK(rta, len); rta = RTA_NEXT(rta, len)) {
		int type = rta->rta_type & ~flags;

		if (type <= max && !tb[type])
			tb[type] = rta;
	}
	return 0;
}

#endif /* TC_DOUBLE_H */
