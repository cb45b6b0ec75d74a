/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tc gives to its plugins, for tests that run a plugin without tc: with
 * random input, and with the sanitizers, which tc is not built with. That the
 * plugin gets along with tc itself is for other tests.
 *
 * Messages are made and read as netlink has it. What the plugin prints is kept:
 * the text, or each key of the JSON with its value; which of the two, the test
 * chooses. A key given twice, or none where JSON needs one, fails the test.
 *
 * Below that stand the calls into the plugin and the input that every plugin's
 * test needs.
 */
#ifndef TC_DOUBLE_H
#define TC_DOUBLE_H

#include <inttypes.h>

#include "unit.h"

#include "../../userspace/tc/tc_plugin.h"

#define DOUBLE_FIELDS 40
#define DOUBLE_WORDS 24

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

/**
 * struct request - a message as tc has it when it calls the plugin
 * @n: its head
 * @room: and more than enough for the rest
 */
struct request {
	struct nlmsghdr n;
	char room[2 * TC_PLUGIN_ROOM];
};

/* What the plugin last said to stderr, and how much. */
static char complaint[4096];
static size_t complained;

static int parse(struct qdisc_util *util, struct request *request, int argc,
		 char **argv)
{
	FILE *shown = stderr;
	char *said;
	int err;

	memset(request, 0, sizeof(*request));
	request->n.nlmsg_len = NLMSG_LENGTH(0);
	stderr = open_memstream(&said, &complained);
	assert_non_null(stderr);
	err = util->parse_qopt(util, argc, argv, &request->n, "eth0");
	fclose(stderr);
	stderr = shown;
	snprintf(complaint, sizeof(complaint), "%s", said);
	free(said);
	return err;
}

/* The words of @text, which is cut into pieces. */
static int parse_text(struct qdisc_util *util, struct request *request,
		      char *text)
{
	char *argv[DOUBLE_WORDS];
	int argc = 0;

	for (text = strtok(text, " "); text; text = strtok(NULL, " "))
		argv[argc++] = text;
	return parse(util, request, argc, argv);
}

static struct rtattr *options_of(struct request *request)
{
	return NLMSG_DATA(&request->n);
}

/* An attribute among the options that the plugin made, or NULL. */
static struct rtattr *attribute_in(struct request *request, int attribute)
{
	struct rtattr *tb[32];
	struct rtattr *options = options_of(request);

	assert_int_equal(options->rta_type, TCA_OPTIONS | NLA_F_NESTED);
	assert_int_equal(NLMSG_LENGTH(options->rta_len), request->n.nlmsg_len);
	parse_rtattr_flags(tb, ARRAY_SIZE(tb) - 1, RTA_DATA(options),
			   RTA_PAYLOAD(options), 0);
	return tb[attribute];
}

/* Bytes in a block of their own, most of them zero or near. */
static struct rtattr *random_attribute(int type, size_t payload)
{
	struct rtattr *attr = malloc(RTA_LENGTH(payload));
	size_t i;

	attr->rta_type = type;
	attr->rta_len = RTA_LENGTH(payload);
	for (i = 0; i < payload; i++)
		((__u8 *)RTA_DATA(attr))[i] = one_in(2) ? rnd() : rnd_in(0, 3);
	return attr;
}

/*
 * Options in a block of their own: mostly a chain of attributes, up to @max and
 * some beyond, most of @usual bytes; the ends may be wrong.
 */
static struct rtattr *random_options_block(int max, size_t usual)
{
	struct rtattr *opt = random_attribute(TCA_OPTIONS, rnd_in(0, 96));
	struct rtattr *attr = RTA_DATA(opt);
	int left = RTA_PAYLOAD(opt);

	while (left >= (int)sizeof(*attr) && !one_in(10)) {
		size_t length =
			RTA_LENGTH(one_in(2) ? usual : rnd_in(0, usual * 2));

		attr->rta_len = length;
		attr->rta_type = rnd_in(0, max + 2);
		if (one_in(8))
			attr->rta_type |= NLA_F_NESTED;
		if (one_in(16))
			attr->rta_len = rnd();
		length = RTA_ALIGN(length);
		left -= length;
		attr = (void *)((char *)attr + length);
	}
	return opt;
}

/* Options of any content are printed, or left out. */
static void print_random_options(const struct qdisc_util *util, int max,
				 size_t usual)
{
	u32 printed = 0;

	for (; unit_step < 500000; unit_step++) {
		struct rtattr *opt = random_options_block(max, usual);

		double_begin(one_in(2));
		assert_int_equal(util->print_qopt(NULL, NULL, opt), 0);
		printed += double_output.length || double_output.count;
		free(opt);
	}
	/* Else nothing was tested. */
	assert_in_range(printed, 100000, 500000);
	assert_int_equal(util->print_qopt(NULL, NULL, NULL), 0);
}

/* @key was printed, with this value. */
static void field_is(const char *key, s64 value)
{
	const struct double_field *field = double_find(key);

	CHECK(field, "no %s", key);
	CHECK(field->number == value, "%s is %lld", key, field->number);
}

/* What is printed of these statistics, in a message of its own. */
static const char *statistics_text(struct qdisc_util *util, const void *st,
				   size_t size)
{
	struct rtattr *xstats = random_attribute(TCA_XSTATS, size);

	memcpy(RTA_DATA(xstats), st, size);
	double_begin(false);
	util->print_xstats(util, NULL, xstats);
	free(xstats);
	return double_output.text;
}

#endif /* TC_DOUBLE_H */
