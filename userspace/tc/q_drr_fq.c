// SPDX-License-Identifier: GPL-2.0
/*
 * tc's plugin for the qdisc drr_fq: words into attributes, attributes and
 * statistics into text and JSON.
 *
 * include/uapi/fairpath/drr_fq.h is the contract with the kernel, tc_plugin.h
 * the one with tc. What depends on the device (that limit_bytes holds a packet,
 * the defaults) is the kernel's to judge, whose complaint tc prints. All else is
 * refused here, before anything is sent, in one line that names the word and
 * what it takes. Each attribute is sent only if its word was given, so that a
 * change leaves the others as they are.
 *
 * What is printed in the options can be given back to tc as it stands.
 */
#include <fairpath/drr_fq.h>

#include "tc_plugin.h"

static const char *const schedulers[] = {
	[DRR_FQ_DRR] = "drr",
	[DRR_FQ_RR] = "rr",
	[DRR_FQ_SCFQ] = "scfq",
};

/**
 * struct drr_fq_number - a parameter that is a number
 * @word: what it is called
 * @attribute: in TCA_OPTIONS, u32
 * @is_size: it may have a unit of bytes
 * @unit: what may follow it otherwise
 * @min: the smallest
 * @max: and the largest that is taken
 * @takes: the same in words
 */
struct drr_fq_number {
	const char *word;
	int attribute;
	bool is_size;
	const char *unit;
	__u32 min;
	__u32 max;
	const char *takes;
};

static const struct drr_fq_number numbers[] = {
	{ "limit", TCA_DRR_FQ_LIMIT, false, "p", 1, UINT32_MAX,
	  "1 to 4294967295 packets" },
	{ "limit_bytes", TCA_DRR_FQ_LIMIT_BYTES, true, NULL, 1,
	  DRR_FQ_LIMIT_BYTES_MAX, "1 to 1073741824 bytes" },
	{ "flows", TCA_DRR_FQ_FLOWS, false, "", 1, DRR_FQ_FLOWS_MAX,
	  "1 to 1048576" },
	{ "quantum", TCA_DRR_FQ_QUANTUM, true, NULL, 1, DRR_FQ_QUANTUM_MAX,
	  "1 to 16777216 bytes" },
};

#define SCHEDULER_TAKES "drr, rr or scfq"

/* Queues with higher numbers have no class. */
#define CLASS_MAX 0xffff

#define NUMBERS (sizeof(numbers) / sizeof(*numbers))

static void explain(void)
{
	fputs("Usage: ... drr_fq [ limit PACKETS[p] ] [ limit_bytes SIZE ]\n"
	      "                  [ flows NUMBER ] [ scheduler drr*|rr|scfq ]\n"
	      "                  [ quantum SIZE ] [ split-gso | no-split-gso* ]\n"
	      "\n"
	      "  limit        packets in all queues together; at least 1\n"
	      "               (* the device's txqueuelen, or 1000 if that is 0)\n"
	      "  limit_bytes  bytes in all queues together; at least the device's MTU and\n"
	      "               link header, at most 1Gb (* 32Mb)\n"
	      "  flows        queues among which flows are spread; 1 to 1048576 (* 1024)\n"
	      "  scheduler    which queue sends next: drr*, deficit round robin; rr, round\n"
	      "               robin by packets; scfq, self-clocked fair queueing\n"
	      "  quantum      bytes that a queue may send in each round of drr; 1 to 16Mb\n"
	      "               (* the device's MTU and link header)\n"
	      "  split-gso    segment large packets before they are queued (* no-split-gso)\n"
	      "\n"
	      "A * marks the default. SIZE is in bytes, or with a unit: 1514b, 64kb, 32mb.\n",
	      stderr);
}

static int parse_number(const struct drr_fq_number *number, const char *text,
			__u32 *value)
{
	bool understood;
	__u64 given = 0;

	if (number->is_size)
		understood = units_size(text, &given);
	else
		understood = units_count(text, number->unit, &given);
	if (!understood || given < number->min || given > number->max) {
		fprintf(stderr, "drr_fq: %s \"%s\": must be %s\n", number->word,
			text, number->takes);
		return -1;
	}
	*value = given;
	return 0;
}

static int parse_scheduler(const char *text, __u32 *scheduler)
{
	__u32 i;

	for (i = 0; i <= DRR_FQ_SCHEDULER_MAX; i++) {
		if (!strcmp(text, schedulers[i])) {
			*scheduler = i;
			return 0;
		}
	}
	fprintf(stderr, "drr_fq: scheduler \"%s\": must be %s\n", text,
		SCHEDULER_TAKES);
	return -1;
}

/* Which attribute a word is about; 0 if none. @number is set if it is a number. */
static int attribute_of(const char *word, const struct drr_fq_number **number)
{
	size_t i;

	*number = NULL;
	for (i = 0; i < NUMBERS; i++) {
		if (!strcmp(word, numbers[i].word)) {
			*number = &numbers[i];
			return numbers[i].attribute;
		}
	}
	if (!strcmp(word, "scheduler"))
		return TCA_DRR_FQ_SCHEDULER;
	if (!strcmp(word, "split-gso") || !strcmp(word, "no-split-gso"))
		return TCA_DRR_FQ_SPLIT_GSO;
	return 0;
}

/**
 * struct drr_fq_request - what the words ask for
 * @word: by attribute, the word that names it; NULL if none did
 * @value: by attribute
 */
struct drr_fq_request {
	const char *word[TCA_DRR_FQ_MAX + 1];
	__u32 value[TCA_DRR_FQ_MAX + 1];
};

/* Read one parameter. Returns how many words it took, or -1. */
static int parse_word(struct drr_fq_request *request, int argc, char **argv)
{
	const struct drr_fq_number *number;
	const char *word = argv[0];
	int attribute = attribute_of(word, &number);
	const char *before = request->word[attribute];
	__u32 *value = &request->value[attribute];

	if (!attribute) {
		if (strcmp(word, "help"))
			fprintf(stderr, "What is \"%s\"?\n", word);
		explain();
		return -1;
	}
	if (before) {
		if (strcmp(word, before))
			fprintf(stderr, "drr_fq: \"%s\" contradicts \"%s\"\n",
				word, before);
		else
			fprintf(stderr, "drr_fq: \"%s\" is given twice\n",
				word);
		return -1;
	}
	request->word[attribute] = word;

	if (attribute == TCA_DRR_FQ_SPLIT_GSO) {
		*value = !strcmp(word, "split-gso");
		return 1;
	}
	if (argc < 2) {
		fprintf(stderr, "drr_fq: \"%s\" needs a value: %s\n", word,
			number ? number->takes : SCHEDULER_TAKES);
		return -1;
	}
	if (number ? parse_number(number, argv[1], value) :
		     parse_scheduler(argv[1], value))
		return -1;
	return 2;
}

static int drr_fq_parse_opt(struct qdisc_util *util, int argc, char **argv,
			    struct nlmsghdr *n, const char *dev)
{
	struct drr_fq_request request = {};
	struct rtattr *options;
	int attribute;

	(void)util;
	(void)dev;
	while (argc > 0) {
		int taken = parse_word(&request, argc, argv);

		if (taken < 0)
			return -1;
		argc -= taken;
		argv += taken;
	}

	options = addattr_nest(n, TC_PLUGIN_ROOM, TCA_OPTIONS | NLA_F_NESTED);
	for (attribute = 1; attribute <= TCA_DRR_FQ_MAX; attribute++) {
		__u32 value32 = request.value[attribute];
		__u8 value8 = value32;
		int err;

		if (!request.word[attribute])
			continue;
		if (attribute == TCA_DRR_FQ_SCHEDULER ||
		    attribute == TCA_DRR_FQ_SPLIT_GSO)
			err = addattr_l(n, TC_PLUGIN_ROOM, attribute, &value8,
					sizeof(value8));
		else
			err = addattr_l(n, TC_PLUGIN_ROOM, attribute, &value32,
					sizeof(value32));
		if (err)
			return -1;
	}
	addattr_nest_end(n, options);
	return 0;
}

static void print_parameter(const struct drr_fq_number *number, __u32 value)
{
	char text[UNITS_TEXT];

	if (number->is_size)
		units_size_exact(text, value);
	else
		snprintf(text, sizeof(text), "%u%s", value, number->unit);
	print_option(number->word, value, text);
}

static void print_scheduler(__u8 scheduler)
{
	/* A kernel later than this plugin may have more. */
	if (scheduler > DRR_FQ_SCHEDULER_MAX)
		print_color_uint(PRINT_ANY, COLOR_NONE, "scheduler",
				 "scheduler %u ", scheduler);
	else
		print_color_string(PRINT_ANY, COLOR_NONE, "scheduler",
				   "scheduler %s ", schedulers[scheduler]);
}

static int drr_fq_print_opt(struct qdisc_util *util, FILE *f,
			    struct rtattr *opt)
{
	struct rtattr *tb[TCA_DRR_FQ_MAX + 1];
	__u32 value32;
	__u8 value8;
	size_t i;

	(void)util;
	(void)f;
	if (!opt)
		return 0;
	parse_rtattr_flags(tb, TCA_DRR_FQ_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt),
			   NLA_F_NESTED);

	for (i = 0; i < NUMBERS; i++) {
		if (tc_plugin_u32(tb[numbers[i].attribute], &value32))
			print_parameter(&numbers[i], value32);
	}
	if (tc_plugin_u8(tb[TCA_DRR_FQ_SCHEDULER], &value8))
		print_scheduler(value8);
	if (tc_plugin_u8(tb[TCA_DRR_FQ_SPLIT_GSO], &value8)) {
		print_color_bool(PRINT_JSON, COLOR_NONE, "split_gso", NULL,
				 value8);
		print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ",
				   value8 ? "split-gso" : "no-split-gso");
	}
	return 0;
}

static void print_bytes(const char *key, const char *format, __u64 bytes)
{
	char text[UNITS_TEXT];

	units_size_rounded(text, bytes);
	print_number(key, format, bytes, text);
}

static void print_signed_bytes(const char *key, const char *format, __s64 bytes)
{
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%lldb", (long long)bytes);
	print_color_s64(PRINT_JSON, COLOR_NONE, key, NULL, bytes);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, format, text);
}

/*
 * Which queue is the longest: as tc writes the minor number of its class, or as
 * a number if it has none.
 */
static void print_longest_flow(__u32 flow)
{
	print_color_uint(PRINT_JSON, COLOR_NONE, "longest_flow", NULL, flow);
	if (flow > CLASS_MAX)
		print_color_uint(PRINT_FP, COLOR_NONE, NULL, " in flow %u",
				 flow);
	else if (flow)
		print_color_uint(PRINT_FP, COLOR_NONE, NULL, " in :%x", flow);
}

static void print_qdisc_stats(const struct tc_drr_fq_qdisc_stats *st)
{
	print_count("active_flows", "  active_flows %s", st->active_flows);
	print_count("active_flows_max", " (max %s)", st->active_flows_max);
	print_count("new_flows", " new_flows %s", st->new_flows);
	print_count("collisions", " collisions %s", st->collisions);
	print_nl();

	print_bytes("longest_backlog", "  longest_backlog %s",
		    st->longest_backlog);
	print_longest_flow(st->longest_flow);
	print_count("drops_longest", " drops_longest %s", st->drops_longest);
	print_count("drops_oversize", " drops_oversize %s", st->drops_oversize);
	print_nl();

	print_bytes("max_packet", "  max_packet %s", st->max_packet);
	print_count("gso_split", " gso_split %s", st->gso_split);
	print_bytes("memory", " memory %s", st->memory);
}

static void print_class_stats(const struct tc_drr_fq_class_stats *st)
{
	print_bytes("head_length", "  head_length %s", st->head_length);
	print_bytes("deficit", " deficit %s", st->deficit);
	print_signed_bytes("tag", " tag %s", st->tag);
}

static int drr_fq_print_xstats(struct qdisc_util *util, FILE *f,
			       struct rtattr *xstats)
{
	struct tc_drr_fq_xstats st;

	(void)util;
	(void)f;
	if (!xstats)
		return 0;
	tc_plugin_xstats(xstats, &st, sizeof(st));
	if (st.type == DRR_FQ_XSTATS_QDISC)
		print_qdisc_stats(&st.qdisc);
	else if (st.type == DRR_FQ_XSTATS_CLASS)
		print_class_stats(&st.queue);
	return 0;
}

TC_PLUGIN_EXPORT struct qdisc_util drr_fq_qdisc_util = {
	.id = "drr_fq",
	.parse_qopt = drr_fq_parse_opt,
	.print_qopt = drr_fq_print_opt,
	.print_xstats = drr_fq_print_xstats,
};
