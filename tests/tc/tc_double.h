/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Test double of tc, to run its plugins with random input and with sanitizers,
 * which tc is not built with. test_plugin.py tests the plugins with tc itself.
 *
 * get_qdisc_kind() loads a plugin with dlopen(), as tc does. The functions that
 * tc exports write and parse netlink attributes, and record what the plugin
 * prints: the text or, if the test asks for it, each key of the JSON and its
 * value. Duplicate or missing JSON keys fail the test.
 *
 * Helpers to call a plugin and to generate its input follow.
 */
#ifndef TC_DOUBLE_H
#define TC_DOUBLE_H

#include <dlfcn.h>
#include <inttypes.h>

#include "unit.h"

#include "../../userspace/tc/tc_plugin.h"

#define DOUBLE_FIELDS 64
#define DOUBLE_ARGS 24

/**
 * struct double_field - a key of the JSON and its value
 * @key: the key
 * @number: the value, if it is a number or a boolean
 * @text: the value, if it is a string, else ""
 */
struct double_field {
	char key[32];
	s64 number;
	char text[32];
};

/* Output of the plugin since double_begin(). */
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

/* The array that is being filled, and its elements; nothing is nested. */
static const char *double_array;
static unsigned int double_elements;

void open_json_array(enum output_type t, const char *key)
{
	assert_null(double_array);
	if (!double_prints_json(t))
		return;
	double_array = key;
	double_elements = 0;
}

/* A field with the number of elements. */
void close_json_array(enum output_type t, const char *delimiter)
{
	const char *key = double_array;

	if (!double_prints_json(t))
		return;
	assert_null(delimiter);
	assert_non_null(key);
	double_array = NULL;
	double_field(key, double_elements, "");
}

/* An element of an array is a field KEY[N]. */
static const char *double_element(const char *key)
{
	static char element[64];

	if (!double_array)
		return key;
	assert_null(key);
	snprintf(element, sizeof(element), "%s[%u]", double_array,
		 double_elements++);
	return element;
}

/* Plugins must not use colors. */
#define DOUBLE_PRINT(name, type, number, string)                          \
	int print_color_##name(enum output_type t, enum color_attr color, \
			       const char *key, const char *format,       \
			       type value)                                \
	{                                                                 \
		assert_int_equal(color, COLOR_NONE);                      \
		if (!double_prints_json(t))                               \
			return double_text(t, format, value);             \
		double_field(double_element(key), number, string);        \
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
 * struct request - a message that tc passes to the plugin
 * @n: its header
 * @payload: space for the attributes
 */
struct request {
	struct nlmsghdr n;
	char payload[2 * TC_PLUGIN_ROOM];
};

/* The plugin's last error message on stderr, and its length. */
static char error_text[4096];
static size_t error_length;

/* Load a plugin from $TC_LIB_DIR, as tc does. */
static struct qdisc_util *get_qdisc_kind(const char *kind)
{
	static struct qdisc_util *util;
	const char *directory = getenv("TC_LIB_DIR");
	char name[256];
	void *library;

	if (util)
		return util;
	assert_non_null(directory);
	snprintf(name, sizeof(name), "%s/q_%s.so", directory, kind);
	library = dlopen(name, RTLD_LAZY);
	CHECK(library, "%s", dlerror());
	snprintf(name, sizeof(name), "%s_qdisc_util", kind);
	util = dlsym(library, name);
	CHECK(util, "%s", dlerror());
	assert_string_equal(util->id, kind);
	return util;
}

static int parse(struct qdisc_util *util, struct request *request, int argc,
		 char **argv)
{
	FILE *saved = stderr;
	char *output;
	int err;

	memset(request, 0, sizeof(*request));
	request->n.nlmsg_len = NLMSG_LENGTH(0);
	stderr = open_memstream(&output, &error_length);
	assert_non_null(stderr);
	err = util->parse_qopt(util, argc, argv, &request->n, "eth0");
	fclose(stderr);
	stderr = saved;
	snprintf(error_text, sizeof(error_text), "%s", output);
	free(output);
	return err;
}

/* Parse the arguments in @text, which is modified. */
static int parse_text(struct qdisc_util *util, struct request *request,
		      char *text)
{
	char *argv[DOUBLE_ARGS];
	int argc = 0;

	for (text = strtok(text, " "); text; text = strtok(NULL, " "))
		argv[argc++] = text;
	return parse(util, request, argc, argv);
}

static struct rtattr *options_of(struct request *request)
{
	return NLMSG_DATA(&request->n);
}

/* An attribute in the message that the plugin wrote, or NULL. */
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

/* An attribute of random bytes, half of them small, allocated exactly. */
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
 * Random TCA_OPTIONS, allocated exactly: mostly well-formed attributes, with
 * types up to @max + 2 and mostly @usual bytes; some lengths are invalid.
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

/* Random options are printed or ignored. */
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
	/* Both cases must occur often. */
	assert_in_range(printed, 100000, 500000);
	assert_int_equal(util->print_qopt(NULL, NULL, NULL), 0);
}

/* Check that @key was printed with @value. */
static void field_is(const char *key, s64 value)
{
	const struct double_field *field = double_find(key);

	CHECK(field, "no %s", key);
	CHECK(field->number == value, "%s is %lld", key, field->number);
}

/* The text printed for these statistics. */
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
