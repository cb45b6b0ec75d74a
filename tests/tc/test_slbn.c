// SPDX-License-Identifier: GPL-2.0
/*
 * tc plugin for slbn with random input, like test_drr_fq.c: invalid arguments,
 * and options and statistics that no kernel sends, allocated with their exact
 * size, under the sanitizers.
 *
 * The results are checked, too: accepted options are in the message, within
 * their ranges; parsing them again as printed gives the same message; each
 * statistic is printed with its value; errors do not repeat a key, which is
 * secret.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "../../userspace/common/link_options.h"
#include "tc_double.h"

#include <fairpath/slbn_netlink.h>

#define ARGS_MAX 14
#define UTIL get_qdisc_kind("slbn")
#define KEY "00112233445566778899aabbccddeeff"

static const struct {
	size_t size;
	u64 min;
	u64 max;
	bool zero;
} ranges[] = {
	[TCA_SLBN_RATE] = { 8, SLBN_LINK_RATE_MIN, SLBN_LINK_RATE_MAX, true },
	[TCA_SLBN_EPOCH] = { 8, SLBN_EPOCH_MIN, SLBN_EPOCH_MAX, true },
	[TCA_SLBN_MEMORY] = { 4, 0, SLBN_MEMORY_MAX, true },
	[TCA_SLBN_MEMORY_TIME] = { 8, 0, SLBN_MEMORY_TIME_MAX, true },
	[TCA_SLBN_CONTROL] = { 4, 1, SLBN_CONTROL_MAX, false },
	[TCA_SLBN_HEADROOM] = { 4, 0, SLBN_HEADROOM_MAX, true },
	[TCA_SLBN_COMMIT] = { 1, 0, 1, true },
	[TCA_SLBN_EDGE] = { 1, 0, 1, true },
	[TCA_SLBN_QUIET] = { 8, SLBN_EPOCH_MIN, SLBN_EPOCH_MAX, true },
	[TCA_SLBN_HEADROOM_AUTO] = { 1, 1, 1, false },
	[TCA_SLBN_UNASSIGNED] = { 4, 0, SLBN_UNASSIGNED_MAX, true },
	[TCA_SLBN_KEY_ID] = { 1, 0, 255, true },
};

/* Read a number of the plugin's message. Returns whether it is present. */
static bool value_of(struct request *request, int attribute, u64 *value)
{
	struct rtattr *attr = attribute_in(request, attribute);

	if (!attr)
		return false;
	*value = 0;
	assert_int_equal(RTA_PAYLOAD(attr), ranges[attribute].size);
	memcpy(value, RTA_DATA(attr), ranges[attribute].size);
	assert_true((!*value && ranges[attribute].zero) ||
		    (*value >= ranges[attribute].min &&
		     *value <= ranges[attribute].max));
	return true;
}

#define NOTHING UINT64_MAX

UNIT_TEST(valid_options)
{
	static const struct {
		const char *options;
		int attribute;
		u64 value;
	} cases[] = {
		{ "", TCA_SLBN_RATE, NOTHING },
		{ "edge", TCA_SLBN_RATE, NOTHING },
		{ "rate auto", TCA_SLBN_RATE, 0 },
		{ "rate 1kbit", TCA_SLBN_RATE, 1000 },
		{ "rate 1000", TCA_SLBN_RATE, 1000 },
		{ "rate 1000bit", TCA_SLBN_RATE, 1000 },
		{ "rate 1.0009Kbit", TCA_SLBN_RATE, 1000 },
		{ "rate 2.5Gbit", TCA_SLBN_RATE, 2500000000 },
		{ "rate 125mbps", TCA_SLBN_RATE, 1000000000 },
		{ "rate 1tbit", TCA_SLBN_RATE, SLBN_LINK_RATE_MAX },
		{ "rate 125gbps", TCA_SLBN_RATE, SLBN_LINK_RATE_MAX },
		{ "epoch 0", TCA_SLBN_EPOCH, 0 },
		{ "epoch 10ms", TCA_SLBN_EPOCH, SLBN_EPOCH_MIN },
		{ "epoch 10000", TCA_SLBN_EPOCH, SLBN_EPOCH_MIN },
		{ "epoch 10000us", TCA_SLBN_EPOCH, SLBN_EPOCH_MIN },
		{ "epoch 1.5s", TCA_SLBN_EPOCH, 1500000000 },
		{ "epoch 3600secs", TCA_SLBN_EPOCH, SLBN_EPOCH_MAX },
		{ "epoch 1000000001ns", TCA_SLBN_EPOCH, 1000000001 },
		{ "memory 0", TCA_SLBN_MEMORY, 0 },
		{ "memory 0", TCA_SLBN_MEMORY_TIME, NOTHING },
		{ "memory 010", TCA_SLBN_MEMORY, 10 },
		{ "memory 4194304", TCA_SLBN_MEMORY, SLBN_MEMORY_MAX },
		{ "memory 0ns", TCA_SLBN_MEMORY_TIME, 0 },
		{ "memory 0ns", TCA_SLBN_MEMORY, NOTHING },
		{ "memory 5us", TCA_SLBN_MEMORY_TIME, 5000 },
		{ "memory 250ms", TCA_SLBN_MEMORY_TIME, 250000000 },
		{ "memory 60s", TCA_SLBN_MEMORY_TIME, SLBN_MEMORY_TIME_MAX },
		{ "control 0.1%", TCA_SLBN_CONTROL, 1 },
		{ "control 0.1", TCA_SLBN_CONTROL, 1 },
		{ "control 2.54%", TCA_SLBN_CONTROL, 25 },
		{ "control 5%", TCA_SLBN_CONTROL, 50 },
		{ "control 100%", TCA_SLBN_CONTROL, 1000 },
		{ "headroom 0", TCA_SLBN_HEADROOM, 0 },
		{ "headroom 0.0%", TCA_SLBN_HEADROOM, 0 },
		{ "headroom 12.34%", TCA_SLBN_HEADROOM, 123 },
		{ "headroom 50", TCA_SLBN_HEADROOM, SLBN_HEADROOM_MAX },
		{ "headroom auto", TCA_SLBN_HEADROOM_AUTO, 1 },
		{ "headroom auto", TCA_SLBN_HEADROOM, NOTHING },
		{ "headroom 5", TCA_SLBN_HEADROOM_AUTO, NOTHING },
		{ "unassigned 2.5%", TCA_SLBN_UNASSIGNED, 25 },
		{ "commit off", TCA_SLBN_COMMIT, 0 },
		{ "commit on", TCA_SLBN_COMMIT, 1 },
		{ "commit on", TCA_SLBN_HEADROOM, NOTHING },
		{ "quiet 0", TCA_SLBN_QUIET, 0 },
		{ "quiet 3600s", TCA_SLBN_QUIET, SLBN_EPOCH_MAX },
		{ "edge", TCA_SLBN_EDGE, 1 },
		{ "no-edge rate auto", TCA_SLBN_EDGE, 0 },
		{ "key none", TCA_SLBN_EDGE, NOTHING },
	};
	struct request request;

	for (; unit_step < ARRAY_SIZE(cases); unit_step++) {
		u64 expected = cases[unit_step].value;
		char text[64];
		u64 value;

		strcpy(text, cases[unit_step].options);
		CHECK(!parse_text(UTIL, &request, text), "%s",
		      cases[unit_step].options);
		CHECK(value_of(&request, cases[unit_step].attribute, &value) ==
			      (expected != NOTHING),
		      "%s", cases[unit_step].options);
		if (expected != NOTHING)
			CHECK(value == expected, "%s: %llu",
			      cases[unit_step].options, value);
	}
}

/* Sent as octets, empty for none; never printed, not even in errors. */
UNIT_TEST(keys)
{
	static const char *const wrong[] = { "", "0", KEY, "None", "FILE" };
	char path[] = "/tmp/test_slbn_XXXXXX";
	__u8 key[SLBN_KEY_LENGTH];
	struct request request;
	char text[64];
	u64 value;
	int fd;
	size_t i;

	for (i = 0; i < sizeof(key); i++)
		key[i] = 0x11 * i;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, KEY "\n", sizeof(KEY)), sizeof(KEY));
	snprintf(text, sizeof(text), "key file %s rate 1kbit", path);
	assert_int_equal(parse_text(UTIL, &request, text), 0);
	assert_int_equal(RTA_PAYLOAD(attribute_in(&request, TCA_SLBN_KEY)),
			 sizeof(key));
	assert_memory_equal(RTA_DATA(attribute_in(&request, TCA_SLBN_KEY)), key,
			    sizeof(key));
	value = 1;
	assert_true(value_of(&request, TCA_SLBN_KEY_ID, &value));
	assert_int_equal(value, 0);
	assert_int_equal(pwrite(fd, "255 " KEY "\n", sizeof(KEY) + 4, 0),
			 sizeof(KEY) + 4);
	snprintf(text, sizeof(text), "key file %s", path);
	assert_int_equal(parse_text(UTIL, &request, text), 0);
	assert_memory_equal(RTA_DATA(attribute_in(&request, TCA_SLBN_KEY)), key,
			    sizeof(key));
	assert_true(value_of(&request, TCA_SLBN_KEY_ID, &value));
	assert_int_equal(value, 255);
	fchmod(fd, 0640);
	snprintf(text, sizeof(text), "key file %s", path);
	assert_int_equal(parse_text(UTIL, &request, text), -1);
	assert_non_null(strstr(error_text, "other users may access it"));
	close(fd);
	unlink(path);
	strcpy(text, "key none");
	assert_int_equal(parse_text(UTIL, &request, text), 0);
	assert_int_equal(RTA_PAYLOAD(attribute_in(&request, TCA_SLBN_KEY)), 0);
	assert_null(attribute_in(&request, TCA_SLBN_KEY_ID));

	for (; unit_step < ARRAY_SIZE(wrong); unit_step++) {
		char *argv[] = { "key", (char *)wrong[unit_step] };

		assert_int_equal(parse(UTIL, &request, 2, argv), -1);
		assert_string_equal(error_text, "slbn: key \"...\": must be "
						"file FILE, or none\n");
	}
}

/* A value, valid or malformed. */
static void random_value(char *text, size_t size)
{
	static const char *const strange[] = {
		"",
		"-1",
		"+1",
		"0x10",
		"1e3",
		"1e3s",
		"nan",
		"nan%",
		"inf",
		".5%",
		"5.",
		"1.2.3",
		"s",
		"%",
		"5%%",
		"kbit",
		"1 s",
		"1ss",
		"1,5s",
		"0",
		"0s",
		"0bit",
		"0%",
		"000001s",
		"0.1",
		"0.09999999",
		"100.000001%",
		"999bit",
		"1.000000000001tbit",
		"1001gbit",
		"9999999ns",
		"3600.0000001s",
		"3601s",
		"60.1s",
		"4194305",
		"4294967296",
		"18446744073709551616",
		"-18446744073709551615",
		"99999999999999999999999999999999tbit",
		"auto",
		"none",
		"edge",
		"1s ",
		"1S",
		"1GBIT",
		KEY,
		KEY "0",
	};
	static const char *const units[] = {
		"",  "bit", "kbit", "mbit", "gbit", "tbit", "bps", "gbps",
		"s", "ms",  "us",   "ns",   "secs", "%",    "x",
	};

	if (one_in(3))
		snprintf(text, size, "%s",
			 strange[rnd() % ARRAY_SIZE(strange)]);
	else
		snprintf(text, size, "%u%s", rnd_size(0, UINT32_MAX),
			 units[rnd() % ARRAY_SIZE(units)]);
	if (one_in(20))
		text[rnd() % size] = rnd();
	text[size - 1] = '\0';
}

/* A plausible value for the option @option. */
static void likely_value(const char *option, char *text, size_t size)
{
	static const char *const times[] = { "s", "ms", "us", "ns" };
	static const char *const rates[] = { "bit", "kbit", "mbit", "gbit" };

	if (!strcmp(option, "rate"))
		snprintf(text, size, "%u%s", rnd_size(1, 100000),
			 rates[rnd_in(0, 3)]);
	else if (!strcmp(option, "epoch") || !strcmp(option, "quiet"))
		snprintf(text, size, "%u%s", rnd_size(10, 100000),
			 times[rnd_in(0, 2)]);
	else if (!strcmp(option, "memory"))
		snprintf(text, size, "%u%s", rnd_size(0, 70000),
			 one_in(2) ? "" : times[rnd_in(1, 3)]);
	else if (!strcmp(option, "control"))
		snprintf(text, size, "%u.%u%%", rnd_in(0, 100), rnd_in(0, 9));
	else if (!strcmp(option, "headroom") && one_in(3))
		snprintf(text, size, "auto");
	else if (!strcmp(option, "headroom") || !strcmp(option, "unassigned"))
		snprintf(text, size, "%u.%u%%", rnd_in(0, 50), rnd_in(0, 9));
	else if (!strcmp(option, "commit"))
		snprintf(text, size, "%s", one_in(2) ? "on" : "off");
	else if (!strcmp(option, "key"))
		snprintf(text, size, "%s", one_in(2) ? "none" : KEY);
	else
		random_value(text, size);
}

/* All options but the key, which is not printed, survive a round trip. */
static void check_round_trip(struct request *request)
{
	struct request again;
	int attribute;

	double_begin(false);
	UTIL->print_qopt(UTIL, NULL, options_of(request));
	CHECK(!parse_text(UTIL, &again, double_output.text),
	      "rejected its own output");
	for (attribute = 1; attribute < (int)ARRAY_SIZE(ranges); attribute++) {
		u64 value = 0, value_again = 0;

		if (!ranges[attribute].size)
			continue;
		/* The default is not printed. */
		if (attribute == TCA_SLBN_QUIET &&
		    value_of(request, attribute, &value) && !value)
			continue;
		if (attribute == TCA_SLBN_UNASSIGNED &&
		    value_of(request, attribute, &value) &&
		    value == SLBN_UNASSIGNED_DEFAULT &&
		    !attribute_in(request, TCA_SLBN_HEADROOM_AUTO))
			continue;
		assert_int_equal(value_of(request, attribute, &value),
				 value_of(&again, attribute, &value_again));
		CHECK(value == value_again, "attribute %d: %llu, then %llu",
		      attribute, value, value_again);
	}
}

UNIT_TEST(random_arguments)
{
	static const char *const names[] = {
		"rate",	  "epoch", "memory",	 "control", "headroom",
		"commit", "key",   "no-edge",	 "edge",    "quiet",
		"help",	  "Rate",  "unassigned",
	};
	u32 accepted = 0;

	for (; unit_step < 200000; unit_step++) {
		struct request request;
		int argc = rnd_in(0, ARGS_MAX);
		char *argv[ARGS_MAX + 1] = { 0 };
		int i;

		for (i = 0; i < argc; i++) {
			char text[64] = "";

			/* Mostly options and values in turn. */
			if (one_in(20) || (i % 2 == 0) == !one_in(20))
				strcpy(text,
				       names[rnd_in(0, one_in(8) ? 11 : 6)]);
			else if (i && !one_in(8))
				likely_value(argv[i - 1], text, sizeof(text));
			else
				random_value(text, sizeof(text));
			argv[i] = strdup(text);
		}
		if (parse(UTIL, &request, argc, argv)) {
			CHECK(error_length > 0, "no error message");
		} else {
			CHECK(!error_length, "accepted with an error");
			accepted++;
			check_round_trip(&request);
		}
		for (i = 0; i < argc; i++)
			free(argv[i]);
	}
	/* Both cases must occur often. */
	assert_in_range(accepted, 10000, 190000);
}

UNIT_TEST(random_options)
{
	print_random_options(UTIL, TCA_SLBN_MAX, 8);
}

static void check_fields(const struct slbn_link_state *st)
{
	const struct link_counter *counter;
	size_t count = 0;

	for (counter = link_counters; counter->name; counter++, count++)
		field_is(counter->name, link_counter_value(counter, st));
	field_is("capacity", st->capacity);
	field_is("plan", st->plan);
	field_is("share", st->share);
	field_is("quiet", st->quiet);
	field_is("N", st->cur.N);
	field_is("NR", st->cur.NR);
	field_is("BF", st->cur.BF);
	field_is("A", st->cur.A);
	field_is("tag", st->tag);
	field_is("previous_N", st->prev.N);
	field_is("previous_NR", st->prev.NR);
	field_is("previous_BF", st->prev.BF);
	field_is("previous_A", st->prev.A);
	field_is("previous_tag", st->prev_tag);
	field_is("held", st->cur.A + st->prev.A);
	field_is("sessions", st->cur.N + st->prev.N);
	field_is("restricted", st->cur.NR + st->prev.NR);
	assert_int_equal(double_output.count, count + 17);
}

UNIT_TEST(random_statistics)
{
	for (; unit_step < 100000; unit_step++) {
		struct slbn_link_state st = { 0 };
		size_t size =
			one_in(2) ? sizeof(st) : rnd_in(0, 2 * sizeof(st));
		struct rtattr *xstats = random_attribute(TCA_XSTATS, size);

		memcpy(&st, RTA_DATA(xstats), fp_min(size, sizeof(st)));
		double_begin(false);
		UTIL->print_xstats(UTIL, NULL, xstats);
		assert_true(double_output.length > 0);
		/* tc ends the last line. */
		assert_true(double_output.text[double_output.length - 1] !=
			    '\n');
		double_begin(true);
		UTIL->print_xstats(UTIL, NULL, xstats);
		check_fields(&st);
		free(xstats);
	}
	double_begin(false);
	assert_int_equal(UTIL->print_xstats(UTIL, NULL, NULL), 0);
	assert_int_equal(double_output.length, 0);
}

UNIT_TEST(statistics_as_text)
{
	static const char text[] =
		"  capacity 50Mbit plan 47.5Mbit share 5Mbit sessions 11"
		" restricted 9 held 46Mbit quiet 751ms\n"
		"  current N 10 NR 8 BF 10Mbit A 45Mbit tag 21173"
		"  previous N 1 NR 1 BF 999bit A 1Mbit tag 21172\n"
		"  joins 12 probes 3388 acks 3400 leaves 2 leave_acks 39"
		" answered 7\n"
		"  new 13 limited 45 migrated 44 corrected 6 clamped 5"
		" memory 1024 entries 32768 bytes events 3\n"
		"  dropped: stale 21 wrong_path 22 too_many_hops 23 overuse 31"
		" malformed 24 other_version 30 bad_checksum 25\n"
		"   fragments 26 bad_key 27 unknown_key 32 bad_time 33"
		" rate_limited 29\n"
		"   bad_return 34 unknown_link 35 no_address 36 from_hosts 28"
		" from_users 40 icmp_dropped 37\n"
		"  bypassed 38";
	static const struct slbn_link_state st = {
		.capacity = 50000000,
		.plan = 47500000,
		.share = 5000000,
		.quiet = 750000001,
		.cur = { .BF = 10000000, .NR = 8, .N = 10, .A = 45000000 },
		.prev = { .BF = 999, .NR = 1, .N = 1, .A = 1000000 },
		.tag = 21173,
		.prev_tag = 21172,
		.memory_entries = 1024,
		.memory_bytes = 32768,
		.joins = 12,
		.probes = 3388,
		.acks = 3400,
		.leaves = 2,
		.new_sessions = 13,
		.limited = 45,
		.migrated = 44,
		.corrected = 6,
		.clamped = 5,
		.stale = 21,
		.wrong_path = 22,
		.too_many_hops = 23,
		.overuse = 31,
		.malformed = 24,
		.bad_checksum = 25,
		.fragments = 26,
		.bad_key = 27,
		.unknown_key = 32,
		.bad_time = 33,
		.bad_return = 34,
		.unknown_link = 35,
		.no_address = 36,
		.icmp_dropped = 37,
		.from_hosts = 28,
		.answered = 7,
		.rate_limited = 29,
		.other_version = 30,
		.events = 3,
		.bypassed = 38,
		.from_users = 40,
		.leave_acks = 39,
	};

	assert_string_equal(statistics_text(UTIL, &st, sizeof(st)), text);
}

/* All options that the kernel sends, as text and as JSON. */
UNIT_TEST(options_as_text)
{
	struct request message = { .n.nlmsg_len = NLMSG_LENGTH(0) };
	struct nlmsghdr *n = &message.n;
	struct rtattr *opt;

#define PUT(attribute, type, value) \
	addattr_l(n, sizeof(message), attribute, &(type){ value }, sizeof(type))
	opt = addattr_nest(n, sizeof(message), TCA_OPTIONS | NLA_F_NESTED);
	PUT(TCA_SLBN_RATE, __u64, 2500000000);
	PUT(TCA_SLBN_EPOCH, __u64, 1500000000);
	PUT(TCA_SLBN_MEMORY, __u32, 1000);
	PUT(TCA_SLBN_CONTROL, __u32, 57);
	PUT(TCA_SLBN_HEADROOM, __u32, 0);
	PUT(TCA_SLBN_HEADROOM_AUTO, __u8, 0);
	PUT(TCA_SLBN_UNASSIGNED, __u32, 30);
	PUT(TCA_SLBN_COMMIT, __u8, 0);
	PUT(TCA_SLBN_QUIET, __u64, 4000000000);
	PUT(TCA_SLBN_EDGE, __u8, 1);
	addattr_l(n, sizeof(message), TCA_SLBN_KEY_IDS, "\xff\3", 2);
	addattr_nest_end(n, opt);
	double_begin(false);
	UTIL->print_qopt(UTIL, NULL, opt);
	assert_string_equal(
		double_output.text,
		"rate 2500Mbit epoch 1500ms memory 1000 "
		"control 5.7% headroom 0.0% unassigned 3.0% commit off "
		"quiet 4s edge "
		"keys 255,3 ");
	double_begin(true);
	UTIL->print_qopt(UTIL, NULL, opt);
	assert_int_equal(double_output.count, 12);
	field_is("rate", 2500000000);
	field_is("epoch", 1500000000);
	field_is("memory", 1000);
	field_is("control", 57);
	field_is("headroom", 0);
	field_is("unassigned", 30);
	field_is("commit", 0);
	field_is("quiet", 4000000000);
	field_is("edge", 1);
	field_is("keys[0]", 255);
	field_is("keys[1]", 3);
	field_is("keys", 2);

	n->nlmsg_len = NLMSG_LENGTH(0);
	opt = addattr_nest(n, sizeof(message), TCA_OPTIONS | NLA_F_NESTED);
	PUT(TCA_SLBN_RATE, __u64, 0);
	PUT(TCA_SLBN_EPOCH, __u64, 0);
	PUT(TCA_SLBN_MEMORY_TIME, __u64, 60000000000);
	PUT(TCA_SLBN_CONTROL, __u32, 1000);
	PUT(TCA_SLBN_HEADROOM_AUTO, __u8, 1);
	PUT(TCA_SLBN_UNASSIGNED, __u32, SLBN_UNASSIGNED_DEFAULT);
	PUT(TCA_SLBN_COMMIT, __u8, 1);
	/* The default is not printed. */
	PUT(TCA_SLBN_QUIET, __u64, 0);
	PUT(TCA_SLBN_EDGE, __u8, 0);
	addattr_l(n, sizeof(message), TCA_SLBN_KEY_IDS, NULL, 0);
	addattr_nest_end(n, opt);
#undef PUT
	double_begin(false);
	UTIL->print_qopt(UTIL, NULL, opt);
	assert_string_equal(double_output.text,
			    "rate auto epoch 0 memory 60s "
			    "control 100.0% headroom auto unassigned 5.0% "
			    "commit on no-edge ");
	double_begin(true);
	UTIL->print_qopt(UTIL, NULL, opt);
	assert_int_equal(double_output.count, 9);
	field_is("memory_time", 60000000000);
	field_is("headroom_auto", 1);
	field_is("unassigned", SLBN_UNASSIGNED_DEFAULT);
	field_is("keys", 0);
}

UNIT_TEST(decimal_rates)
{
	char text[UNITS_TEXT];
	__u64 value;

	for (; unit_step < 100000; unit_step++) {
		snprintf(text, sizeof(text), "%llu.%02llugbit", unit_step / 100,
			 unit_step % 100);
		assert_true(units_rate(text, &value));
		assert_int_equal(value, unit_step * 10000000);
	}
	/* Fractions of a bit are cut off. */
	assert_true(units_rate("1.9", &value));
	assert_int_equal(value, 1);
	assert_true(units_rate("0.9999999999", &value));
	assert_int_equal(value, 0);
	assert_true(units_rate("9007199254740993", &value));
	assert_in_range(value, 9007199254740992, 9007199254740994);
}

UNIT_TEST(formatted_rates_and_times)
{
	static const struct {
		u64 value;
		const char *rate;
		const char *rounded;
		const char *time;
	} cases[] = {
		{ 1, "1bit", "1bit", "1ns" },
		{ 999, "999bit", "999bit", "999ns" },
		{ 1000, "1Kbit", "1Kbit", "1us" },
		{ 1001, "1001bit", "1.001Kbit", "1001ns" },
		{ 15000000, "15Mbit", "15Mbit", "15ms" },
		{ 16666666, "16666666bit", "16.6667Mbit", "16666666ns" },
		{ 2500000000, "2500Mbit", "2.5Gbit", "2500ms" },
		{ 999999999, "999999999bit", "1000Mbit", "999999999ns" },
		{ 60000000000, "60Gbit", "60Gbit", "60s" },
		{ 1000000000000, "1000Gbit", "1Tbit", "1000s" },
		{ UINT64_MAX, "18446744073709551615bit", "1.84467e+07Tbit",
		  "18446744073709551615ns" },
	};
	char text[UNITS_TEXT];

	for (; unit_step < ARRAY_SIZE(cases); unit_step++) {
		u64 value = cases[unit_step].value;

		assert_string_equal(units_rate_exact(text, value),
				    cases[unit_step].rate);
		assert_string_equal(units_rate_rounded(text, value),
				    cases[unit_step].rounded);
		assert_string_equal(units_time_exact(text, value),
				    cases[unit_step].time);
	}
}

UNIT_MAIN()
