// SPDX-License-Identifier: GPL-2.0
/*
 * tc plugin for the qdisc drr_fq: parse options into attributes, print
 * attributes and statistics as text and JSON.
 *
 * include/uapi/fairpath/drr_fq.h is the interface to the kernel, tc_plugin.h
 * the one to tc. The kernel checks what depends on the device (the minimum of
 * limit_bytes, the defaults), and tc prints its error. All other errors are
 * reported here, before a message is sent, in one line with the option and its
 * range. Only given options are sent, so that a change keeps the others.
 *
 * tc can parse the options as they are printed.
 */
#include <fairpath/drr_fq.h>

#include "tc_plugin.h"

static const char *const schedulers[] = {
	[DRR_FQ_DRR] = "drr",
	[DRR_FQ_RR] = "rr",
	[DRR_FQ_SCFQ] = "scfq",
};

/**
 * struct drr_fq_number - an option with a number
 * @name: name of the option
 * @attribute: its attribute in TCA_OPTIONS, u32
 * @is_size: the number is a size, with a unit of bytes
 * @unit: otherwise, optional suffix of the number
 * @min: minimum
 * @max: maximum
 * @range: the range as text
 */
struct drr_fq_number {
	const char *name;
	int attribute;
	bool is_size;
	const char *unit;
	__u32 min;
	__u32 max;
	const char *range;
};

static const struct drr_fq_number numbers[] = {
	{ "limit", TCA_DRR_FQ_LIMIT, false, "p", 1, UINT32_MAX,
	  "1 to 4294967295 packets" },
	{ "limit_bytes", TCA_DRR_FQ_LIMIT_BYTES, true, NULL, 1,
	  DRR_FQ_LIMIT_BYTES_MAX, "1 to 1073741824 bytes" },
	{ "memory_limit", TCA_DRR_FQ_MEMORY_LIMIT, true, NULL,
	  DRR_FQ_MEMORY_LIMIT_MIN, DRR_FQ_MEMORY_LIMIT_MAX,
	  "65536 to 2147483648 bytes" },
	{ "flows", TCA_DRR_FQ_FLOWS, false, "", 1, DRR_FQ_FLOWS_MAX,
	  "1 to 1048576" },
	{ "quantum", TCA_DRR_FQ_QUANTUM, true, NULL, DRR_FQ_QUANTUM_MIN,
	  DRR_FQ_QUANTUM_MAX, "256 to 16777216 bytes" },
};

#define SCHEDULER_RANGE "drr, rr or scfq"

/* Largest minor number of a class; higher queues have none. */
#define CLASS_MAX 0xffff

#define NUMBERS (sizeof(numbers) / sizeof(*numbers))

static void explain(void)
{
	fputs("Usage: ... drr_fq [ limit PACKETS[p] ] [ limit_bytes SIZE ]\n"
	      "                  [ memory_limit SIZE ] [ flows NUMBER ]\n"
	      "                  [ scheduler drr*|rr|scfq ] [ quantum SIZE ]\n"
	      "                  [ split-gso | no-split-gso* ]\n"
	      "\n"
	      "  limit        total packets in all queues; at least 1\n"
	      "               (* the device's txqueuelen, or 1000 if that is 0)\n"
	      "  limit_bytes  total bytes in all queues; at least the device's MTU plus link\n"
	      "               header, at most 1Gb (* 32Mb)\n"
	      "  memory_limit memory of all queued packets; 64Kb to 2Gb (* 64Mb, or twice\n"
	      "               limit_bytes if that is more)\n"
	      "  flows        number of queues that flows are hashed to; 1 to 1048576 (* 1024)\n"
	      "  scheduler    drr*, deficit round robin; rr, round robin per packet; scfq,\n"
	      "               self-clocked fair queueing\n"
	      "  quantum      bytes that a queue may send per round of drr; 256b to 16Mb\n"
	      "               (* the device's MTU plus link header)\n"
	      "  split-gso    segment GSO packets before they are queued (* no-split-gso)\n"
	      "\n"
	      "A * marks the default. SIZE is in bytes, or with a unit: 1514b, 64kb, 32mb.\n",
	      stderr);
}

static int parse_number(const struct drr_fq_number *number, const char *text,
			__u32 *value)
{
	bool valid;
	__u64 parsed = 0;

	if (number->is_size)
		valid = units_size(text, &parsed);
	else
		valid = units_count(text, number->unit, &parsed);
	if (!valid || parsed < number->min || parsed > number->max) {
		fprintf(stderr, "drr_fq: %s \"%s\": must be %s\n", number->name,
			text, number->range);
		return -1;
	}
	*value = parsed;
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
		SCHEDULER_RANGE);
	return -1;
}

/* The attribute of an option, 0 if unknown. Sets @number if it has a number. */
static int attribute_of(const char *option, const struct drr_fq_number **number)
{
	size_t i;

	*number = NULL;
	for (i = 0; i < NUMBERS; i++) {
		if (!strcmp(option, numbers[i].name)) {
			*number = &numbers[i];
			return numbers[i].attribute;
		}
	}
	if (!strcmp(option, "scheduler"))
		return TCA_DRR_FQ_SCHEDULER;
	if (!strcmp(option, "split-gso") || !strcmp(option, "no-split-gso"))
		return TCA_DRR_FQ_SPLIT_GSO;
	return 0;
}

/**
 * struct drr_fq_request - parsed options
 * @option: by attribute, the option that was given, or NULL
 * @value: by attribute, its value
 */
struct drr_fq_request {
	const char *option[TCA_DRR_FQ_MAX + 1];
	__u32 value[TCA_DRR_FQ_MAX + 1];
};

/* Parse one option. Returns the number of arguments used, or -1. */
static int parse_option(struct drr_fq_request *request, int argc, char **argv)
{
	const struct drr_fq_number *number;
	const char *option = argv[0];
	int attribute = attribute_of(option, &number);
	const char *before = request->option[attribute];
	__u32 *value = &request->value[attribute];

	if (!attribute) {
		if (strcmp(option, "help"))
			fprintf(stderr, "What is \"%s\"?\n", option);
		explain();
		return -1;
	}
	if (before) {
		if (strcmp(option, before))
			fprintf(stderr, "drr_fq: \"%s\" contradicts \"%s\"\n",
				option, before);
		else
			fprintf(stderr, "drr_fq: \"%s\" is given twice\n",
				option);
		return -1;
	}
	request->option[attribute] = option;

	if (attribute == TCA_DRR_FQ_SPLIT_GSO) {
		*value = !strcmp(option, "split-gso");
		return 1;
	}
	if (argc < 2) {
		fprintf(stderr, "drr_fq: \"%s\" needs a value: %s\n", option,
			number ? number->range : SCHEDULER_RANGE);
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
		int used = parse_option(&request, argc, argv);

		if (used < 0)
			return -1;
		argc -= used;
		argv += used;
	}

	options = addattr_nest(n, TC_PLUGIN_ROOM, TCA_OPTIONS | NLA_F_NESTED);
	for (attribute = 1; attribute <= TCA_DRR_FQ_MAX; attribute++) {
		__u32 value32 = request.value[attribute];
		__u8 value8 = value32;
		int err;

		if (!request.option[attribute])
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
	print_option(number->name, value, text);
}

static void print_scheduler(__u8 scheduler)
{
	/* A kernel newer than this plugin may have more. */
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
 * Print the longest queue: the minor number of its class in tc's format, or its
 * number if it has no class.
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
	print_nl();

	print_bytes("memory_used", "  memory_used %s", st->memory_used);
	print_count("drops_memory", " drops_memory %s", st->drops_memory);
	print_count("control_packets", " control_packets %s",
		    st->control_packets);
	print_count("control_hashed", " control_hashed %s", st->control_hashed);
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
