// SPDX-License-Identifier: GPL-2.0
/*
 * tc plugin for drr_fq with random input: invalid arguments, and attributes and
 * statistics that no kernel sends (too short, too long, missing, duplicate).
 * All input is allocated with its exact size, so that the sanitizers detect
 * reads beyond its end.
 *
 * The results are checked, too: accepted options are in the message, within
 * their ranges; parsing them again as printed gives the same message; each
 * statistic is printed with its value.
 */
#include "tc_double.h"

#include <fairpath/drr_fq.h>

#define ARGS_MAX 12
#define UTIL get_qdisc_kind("drr_fq")

static const char *const schedulers[] = { "drr", "rr", "scfq" };

static bool is_byte_attribute(int attribute)
{
	return attribute == TCA_DRR_FQ_SCHEDULER ||
	       attribute == TCA_DRR_FQ_SPLIT_GSO ||
	       attribute == TCA_DRR_FQ_CODEL ||
	       attribute == TCA_DRR_FQ_CODEL_ECN ||
	       attribute == TCA_DRR_FQ_BANDS;
}

/* Read an attribute of the plugin's message. Returns whether it is present. */
static bool value_of(struct request *request, int attribute, __u32 *value)
{
	struct rtattr *attr = attribute_in(request, attribute);
	bool is_byte = is_byte_attribute(attribute);

	if (!attr)
		return false;
	*value = 0;
	assert_int_equal(RTA_PAYLOAD(attr), is_byte ? 1 : 4);
	if (is_byte)
		*value = *(__u8 *)RTA_DATA(attr);
	else
		memcpy(value, RTA_DATA(attr), sizeof(*value));
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
		{ "", TCA_DRR_FQ_LIMIT, NOTHING },
		{ "flows 5", TCA_DRR_FQ_LIMIT, NOTHING },
		{ "limit 1", TCA_DRR_FQ_LIMIT, 1 },
		{ "limit 100p", TCA_DRR_FQ_LIMIT, 100 },
		{ "limit 010", TCA_DRR_FQ_LIMIT, 10 },
		{ "limit 4294967295", TCA_DRR_FQ_LIMIT, 4294967295 },
		{ "limit_bytes 1514", TCA_DRR_FQ_LIMIT_BYTES, 1514 },
		{ "limit_bytes 1514b", TCA_DRR_FQ_LIMIT_BYTES, 1514 },
		{ "limit_bytes 64kb", TCA_DRR_FQ_LIMIT_BYTES, 65536 },
		{ "limit_bytes 64K", TCA_DRR_FQ_LIMIT_BYTES, 65536 },
		{ "limit_bytes 1.5Mb", TCA_DRR_FQ_LIMIT_BYTES, 1572864 },
		{ "limit_bytes 1gb", TCA_DRR_FQ_LIMIT_BYTES, 1 << 30 },
		{ "limit_bytes 8gbit", TCA_DRR_FQ_LIMIT_BYTES, 1 << 30 },
		{ "limit_bytes 8mbit", TCA_DRR_FQ_LIMIT_BYTES, 1 << 20 },
		{ "limit_bytes 8kbit", TCA_DRR_FQ_LIMIT_BYTES, 1 << 10 },
		{ "flows 1", TCA_DRR_FQ_FLOWS, 1 },
		{ "flows 1048576", TCA_DRR_FQ_FLOWS, 1048576 },
		{ "quantum 256", TCA_DRR_FQ_QUANTUM, 256 },
		{ "quantum 256.9", TCA_DRR_FQ_QUANTUM, 256 },
		{ "memory_limit 64kb", TCA_DRR_FQ_MEMORY_LIMIT, 65536 },
		{ "memory_limit 2gb", TCA_DRR_FQ_MEMORY_LIMIT, 1U << 31 },
		{ "quantum 16mb", TCA_DRR_FQ_QUANTUM, 16777216 },
		{ "scheduler drr", TCA_DRR_FQ_SCHEDULER, DRR_FQ_DRR },
		{ "scheduler rr", TCA_DRR_FQ_SCHEDULER, DRR_FQ_RR },
		{ "scheduler scfq", TCA_DRR_FQ_SCHEDULER, DRR_FQ_SCFQ },
		{ "split-gso", TCA_DRR_FQ_SPLIT_GSO, 1 },
		{ "no-split-gso limit 1", TCA_DRR_FQ_SPLIT_GSO, 0 },
		{ "codel", TCA_DRR_FQ_CODEL, 1 },
		{ "codel", TCA_DRR_FQ_CODEL_TARGET, NOTHING },
		{ "no-codel", TCA_DRR_FQ_CODEL, 0 },
		{ "target 1", TCA_DRR_FQ_CODEL_TARGET, 1 },
		{ "codel target 5ms", TCA_DRR_FQ_CODEL_TARGET, 5000 },
		{ "target 100s", TCA_DRR_FQ_CODEL_TARGET, 100000000 },
		{ "target 1999ns", TCA_DRR_FQ_CODEL_TARGET, 1 },
		{ "interval 1ms", TCA_DRR_FQ_CODEL_INTERVAL, 1000 },
		{ "interval 0.1s", TCA_DRR_FQ_CODEL_INTERVAL, 100000 },
		{ "codel ecn", TCA_DRR_FQ_CODEL_ECN, 1 },
		{ "no-ecn codel", TCA_DRR_FQ_CODEL_ECN, 0 },
		{ "ce_threshold 1ms", TCA_DRR_FQ_CODEL_CE_THRESHOLD, 1000 },
		{ "ce_threshold off", TCA_DRR_FQ_CODEL_CE_THRESHOLD, 0 },
		{ "bands", TCA_DRR_FQ_BANDS, 1 },
		{ "bands", TCA_DRR_FQ_BANDS_UNASSIGNED, NOTHING },
		{ "no-bands", TCA_DRR_FQ_BANDS, 0 },
		{ "unassigned 5%", TCA_DRR_FQ_BANDS_UNASSIGNED, 50 },
		{ "unassigned 0.1", TCA_DRR_FQ_BANDS_UNASSIGNED, 1 },
		{ "bands unassigned 25%", TCA_DRR_FQ_BANDS_UNASSIGNED, 250 },
		{ "wait 100ms", TCA_DRR_FQ_BANDS_WAIT, 100000 },
		{ "wait 10s", TCA_DRR_FQ_BANDS_WAIT, 10000000 },
		{ "flows_new 1", TCA_DRR_FQ_BANDS_NEW_FLOWS, 1 },
		{ "hosts 65536", TCA_DRR_FQ_BANDS_HOSTS, 65536 },
		{ "mark_new 63", TCA_DRR_FQ_BANDS_MARK_NEW, 63 },
		{ "mark_assigned 11", TCA_DRR_FQ_BANDS_MARK_ASSIGNED, 11 },
		{ "domain 5", TCA_DRR_FQ_BANDS_DOMAIN, 5 },
		{ "domain all", TCA_DRR_FQ_BANDS_DOMAIN,
		  DRR_FQ_BANDS_DOMAIN_ALL },
		{ "domain off", TCA_DRR_FQ_BANDS_DOMAIN, 0 },
	};
	struct request request;

	for (; unit_step < ARRAY_SIZE(cases); unit_step++) {
		u64 expected = cases[unit_step].value;
		char text[64];
		__u32 value;

		strcpy(text, cases[unit_step].options);
		CHECK(!parse_text(UTIL, &request, text), "%s",
		      cases[unit_step].options);
		CHECK(value_of(&request, cases[unit_step].attribute, &value) ==
			      (expected != NOTHING),
		      "%s", cases[unit_step].options);
		if (expected != NOTHING)
			assert_int_equal(value, expected);
	}
}

/* A number, valid or malformed. */
static void random_value(char *text, size_t size)
{
	static const char *const strange[] = {
		"",
		"-1",
		"+1",
		"0x10",
		"1e3",
		"1e3b",
		"nan",
		"inf",
		".5",
		"1.2.3",
		"1.2k5",
		"p",
		"b",
		"1pp",
		"kb",
		"1 k",
		"1kbb",
		"1,5k",
		"0",
		"0kb",
		"00000001",
		"1.",
		"0.999",
		"1.e5",
		"1p",
		"3b",
		"2P",
		"-0",
		"drr",
		"rr",
		"scfq",
		"DRR",
		"drr ",
		"s",
		"limit",
		"off",
		"5ms",
		"1.5us",
		"999ns",
		"100.0000001s",
		"1073741825",
		"1048577",
		"16777217",
		"4294967296",
		"1024.00000001mb",
		"16.0000001mb",
		"18446744073709551616",
		"-18446744073709551615",
		"99999999999999999999999999999999gb",
	};
	static const char *const units[] = { "",  "p", "b",  "k",    "kb",
					     "m", "g", "gb", "mbit", "x" };

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

UNIT_TEST(random_arguments)
{
	static const char *const names[] = {
		"limit",	 "limit_bytes", "flows",	"quantum",
		"target",	 "interval",	"ce_threshold", "codel",
		"scheduler",	 "split-gso",	"no-split-gso", "drr",
		"memory_limit",	 "Limit",	"no-codel",	"ecn",
		"no-ecn",	 "bands",	"no-bands",	"unassigned",
		"wait",		 "flows_new",	"hosts",	"mark_new",
		"mark_assigned", "domain",
	};
	static const __u32 max[] = {
		[TCA_DRR_FQ_LIMIT] = UINT32_MAX,
		[TCA_DRR_FQ_LIMIT_BYTES] = DRR_FQ_LIMIT_BYTES_MAX,
		[TCA_DRR_FQ_FLOWS] = DRR_FQ_FLOWS_MAX,
		[TCA_DRR_FQ_QUANTUM] = DRR_FQ_QUANTUM_MAX,
		[TCA_DRR_FQ_SCHEDULER] = DRR_FQ_SCHEDULER_MAX,
		[TCA_DRR_FQ_SPLIT_GSO] = 1,
		[TCA_DRR_FQ_MEMORY_LIMIT] = DRR_FQ_MEMORY_LIMIT_MAX,
		[TCA_DRR_FQ_CODEL] = 1,
		[TCA_DRR_FQ_CODEL_TARGET] = DRR_FQ_CODEL_MAX,
		[TCA_DRR_FQ_CODEL_INTERVAL] = DRR_FQ_CODEL_MAX,
		[TCA_DRR_FQ_CODEL_ECN] = 1,
		[TCA_DRR_FQ_CODEL_CE_THRESHOLD] = DRR_FQ_CODEL_MAX,
		[TCA_DRR_FQ_BANDS] = 1,
		[TCA_DRR_FQ_BANDS_UNASSIGNED] = DRR_FQ_BANDS_SHARE_MAX,
		[TCA_DRR_FQ_BANDS_WAIT] = DRR_FQ_BANDS_WAIT_MAX,
		[TCA_DRR_FQ_BANDS_NEW_FLOWS] = DRR_FQ_FLOWS_SMALL,
		[TCA_DRR_FQ_BANDS_HOSTS] = DRR_FQ_FLOWS_SMALL,
		[TCA_DRR_FQ_BANDS_MARK_NEW] = DRR_FQ_BANDS_MARK_MAX,
		[TCA_DRR_FQ_BANDS_MARK_ASSIGNED] = DRR_FQ_BANDS_MARK_MAX,
		[TCA_DRR_FQ_BANDS_DOMAIN] = UINT32_MAX,
	};
	struct request request, again;
	u32 accepted = 0;

	for (; unit_step < 200000; unit_step++) {
		int argc = rnd_in(0, ARGS_MAX);
		char *argv[ARGS_MAX + 1] = { 0 };
		int attribute, i;

		for (i = 0; i < argc; i++) {
			char text[40] = "";

			/* Mostly options and values in turn. */
			if (one_in(8) || (i % 2 == 0) == !one_in(8))
				strcpy(text,
				       names[rnd_in(0, one_in(4) ? 25 : 7)]);
			else if (i && !strcmp(argv[i - 1], "scheduler"))
				strcpy(text, schedulers[rnd_in(0, 2)]);
			else
				random_value(text, sizeof(text));
			argv[i] = strdup(text);
		}
		if (parse(UTIL, &request, argc, argv)) {
			CHECK(error_length > 0, "no error message");
		} else {
			CHECK(!error_length, "accepted with an error");
			accepted++;
			for (attribute = 1; attribute <= TCA_DRR_FQ_MAX;
			     attribute++) {
				__u32 value;

				if (!value_of(&request, attribute, &value))
					continue;
				assert_true(value <= max[attribute]);
				assert_true(
					value || is_byte_attribute(attribute) ||
					attribute ==
						TCA_DRR_FQ_CODEL_CE_THRESHOLD ||
					attribute == TCA_DRR_FQ_BANDS_DOMAIN);
			}
			double_begin(false);
			UTIL->print_qopt(UTIL, NULL, options_of(&request));
			CHECK(!parse_text(UTIL, &again, double_output.text),
			      "rejected its own output");
			assert_memory_equal(&again, &request, sizeof(request));
		}
		for (i = 0; i < argc; i++)
			free(argv[i]);
	}
	/* Both cases must occur often. */
	assert_in_range(accepted, 10000, 190000);
}

UNIT_TEST(random_options)
{
	print_random_options(UTIL, TCA_DRR_FQ_MAX, 4);
}

static void check_qdisc_fields(const struct tc_drr_fq_qdisc_stats *st)
{
	assert_int_equal(double_output.count, 18);
	field_is("drops_longest", st->drops_longest);
	field_is("drops_oversize", st->drops_oversize);
	field_is("collisions", st->collisions);
	field_is("new_flows", st->new_flows);
	field_is("gso_split", st->gso_split);
	field_is("memory", st->memory);
	field_is("active_flows", st->active_flows);
	field_is("active_flows_max", st->active_flows_max);
	field_is("longest_backlog", st->longest_backlog);
	field_is("longest_flow", st->longest_flow);
	field_is("max_packet", st->max_packet);
	field_is("memory_used", st->memory_used);
	field_is("drops_memory", st->drops_memory);
	field_is("control_packets", st->control_packets);
	field_is("control_hashed", st->control_hashed);
	field_is("drops_codel", st->drops_codel);
	field_is("ecn_marks", st->ecn_marks);
	field_is("ce_marks", st->ce_marks);
}

static void check_class_fields(const struct tc_drr_fq_class_stats *st)
{
	assert_int_equal(double_output.count, 5);
	field_is("deficit", st->deficit);
	field_is("head_length", st->head_length);
	field_is("tag", st->tag);
	field_is("delay", st->delay);
	field_is("dropping", !!st->dropping);
}

static void check_band_fields(const struct tc_drr_fq_band_stats *st)
{
	assert_int_equal(double_output.count, 9);
	field_is("wait_longest", (st->wait_longest * 1024ULL + 999) / 1000);
	field_is("drops_late", st->drops_late);
	field_is("marks_cleared", st->marks_cleared);
	field_is("memory_used", st->memory_used);
	field_is("active_flows", st->active_flows);
	field_is("deficit", st->deficit);
}

UNIT_TEST(random_statistics)
{
	for (; unit_step < 200000; unit_step++) {
		struct tc_drr_fq_xstats st = { 0 };
		size_t size =
			one_in(2) ? sizeof(st) : rnd_in(0, 2 * sizeof(st));
		struct rtattr *xstats = random_attribute(TCA_XSTATS, size);
		__u32 type = rnd_in(0, 3);
		size_t length;

		if (size >= sizeof(type))
			memcpy(RTA_DATA(xstats), &type, sizeof(type));
		memcpy(&st, RTA_DATA(xstats), fp_min(size, sizeof(st)));

		double_begin(false);
		UTIL->print_xstats(UTIL, NULL, xstats);
		assert_true((st.type <= DRR_FQ_XSTATS_BAND) ==
			    !!double_output.length);
		/* tc ends the last line. */
		length = double_output.length;
		if (length)
			assert_true(double_output.text[length - 1] != '\n');

		double_begin(true);
		UTIL->print_xstats(UTIL, NULL, xstats);
		if (st.type == DRR_FQ_XSTATS_QDISC)
			check_qdisc_fields(&st.qdisc);
		else if (st.type == DRR_FQ_XSTATS_CLASS)
			check_class_fields(&st.queue);
		else if (st.type == DRR_FQ_XSTATS_BAND)
			check_band_fields(&st.band);
		else
			assert_int_equal(double_output.count, 0);
		free(xstats);
	}
	assert_int_equal(UTIL->print_xstats(UTIL, NULL, NULL), 0);
}

static const char *text_of(const struct tc_drr_fq_xstats *st)
{
	return statistics_text(UTIL, st, sizeof(*st));
}

UNIT_TEST(statistics_as_text)
{
	static const char qdisc_text[] =
		"  active_flows 5 (max 9) new_flows 123 collisions 7\n"
		"  longest_backlog 9084b in :3f2 drops_longest 3 drops_oversize 1\n"
		"  max_packet 1514b gso_split 2 memory 84.1Kb\n"
		"  memory_used 12.5Kb drops_memory 4 control_packets 60 control_hashed 8\n"
		"  drops_codel 21 ecn_marks 22 ce_marks 23";
	static const char class_text[] =
		"  head_length 1514b deficit 600b tag -14b delay 7250us dropping";
	struct tc_drr_fq_xstats qdisc = {
		.type = DRR_FQ_XSTATS_QDISC,
		.qdisc = {
			.drops_longest = 3,
			.drops_oversize = 1,
			.collisions = 7,
			.new_flows = 123,
			.gso_split = 2,
			.memory = 86144,
			.active_flows = 5,
			.active_flows_max = 9,
			.longest_backlog = 9084,
			.longest_flow = 0x3f2,
			.max_packet = 1514,
			.memory_used = 12800,
			.drops_memory = 4,
			.control_packets = 60,
			.control_hashed = 8,
			.drops_codel = 21,
			.ecn_marks = 22,
			.ce_marks = 23,
		},
	};
	static const char band_text[] =
		"  active_flows 1 deficit 1500b memory_used 2304b drops_late 4 marks_cleared 5\n"
		"  wait_p50 11us wait_p99 115us wait_p999 5129us wait_longest 5129us";
	/* 800 waits of 9, 195 of 110, and 5 of 5000 times 1024 ns. */
	static const struct tc_drr_fq_xstats band = {
		.type = DRR_FQ_XSTATS_BAND,
		.band = { .drops_late = 4,
			  .marks_cleared = 5,
			  .memory_used = 2304,
			  .active_flows = 1,
			  .deficit = 1500,
			  .wait_longest = 5008,
			  .waits = { [9] = 800, [37] = 195, [81] = 5 } },
	};
	static const struct tc_drr_fq_xstats queue = {
		.type = DRR_FQ_XSTATS_CLASS,
		.queue = { .deficit = 600,
			   .head_length = 1514,
			   .tag = -14,
			   .delay = 7250,
			   .dropping = 1 },
	};

	assert_string_equal(text_of(&qdisc), qdisc_text);
	assert_string_equal(text_of(&queue), class_text);
	assert_string_equal(text_of(&band), band_text);

	qdisc.qdisc.longest_flow = 0xffff;
	assert_non_null(strstr(text_of(&qdisc), "9084b in :ffff drops"));
	qdisc.qdisc.longest_flow = 0x10000;
	assert_non_null(strstr(text_of(&qdisc), "9084b in flow 65536 drops"));
	qdisc.qdisc.longest_flow = 0;
	assert_non_null(strstr(text_of(&qdisc), "9084b drops"));
}

/* The scheduler of a newer kernel is printed as a number. */
UNIT_TEST(unknown_scheduler)
{
	struct {
		struct rtattr options;
		struct rtattr attr;
		__u8 scheduler;
		__u8 padding[3];
	} message = {
		.options = { .rta_len = sizeof(message) },
		.attr = { RTA_LENGTH(1), TCA_DRR_FQ_SCHEDULER },
		.scheduler = 200,
	};

	double_begin(false);
	UTIL->print_qopt(UTIL, NULL, &message.options);
	assert_string_equal(double_output.text, "scheduler 200 ");
	double_begin(true);
	UTIL->print_qopt(UTIL, NULL, &message.options);
	field_is("scheduler", 200);
}

UNIT_TEST(formatted_sizes)
{
	static const struct {
		u64 bytes;
		const char *exact;
		const char *rounded;
	} cases[] = {
		{ 0, "0b", "0b" },
		{ 1514, "1514b", "1514b" },
		{ 1536, "1536b", "1536b" },
		{ 2048, "2Kb", "2048b" },
		{ 10239, "10239b", "10239b" },
		{ 10240, "10Kb", "10.0Kb" },
		{ 1048575, "1048575b", "1024.0Kb" },
		{ 33554432, "32Mb", "32.00Mb" },
		{ 33554433, "33554433b", "32.00Mb" },
		{ 1073741824, "1024Mb", "1024.00Mb" },
		{ UINT64_MAX, "18446744073709551615b", "17592186044416.00Mb" },
	};
	char text[UNITS_TEXT];

	for (; unit_step < ARRAY_SIZE(cases); unit_step++) {
		u64 bytes = cases[unit_step].bytes;

		assert_string_equal(units_size_exact(text, bytes),
				    cases[unit_step].exact);
		assert_string_equal(units_size_rounded(text, bytes),
				    cases[unit_step].rounded);
	}
}

UNIT_MAIN()
