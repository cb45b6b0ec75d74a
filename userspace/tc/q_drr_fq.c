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

enum drr_fq_unit {
	DRR_FQ_PACKETS,
	DRR_FQ_QUEUES,
	DRR_FQ_BYTES,
	DRR_FQ_TIME, /* us */
	DRR_FQ_TIME_OR_OFF, /* us, 0: off */
	DRR_FQ_SHARE, /* 1/1000 */
	DRR_FQ_DOMAIN, /* group of interfaces, all or off */
};

/**
 * struct drr_fq_number - an option with a number
 * @name: name of the option
 * @attribute: its attribute in TCA_OPTIONS, u32
 * @unit: unit of the number
 * @min: minimum
 * @max: maximum
 * @range: the range as text
 */
struct drr_fq_number {
	const char *name;
	int attribute;
	enum drr_fq_unit unit;
	__u32 min;
	__u32 max;
	const char *range;
};

static const struct drr_fq_number numbers[] = {
	{ "limit", TCA_DRR_FQ_LIMIT, DRR_FQ_PACKETS, 1, UINT32_MAX,
	  "1 to 4294967295 packets" },
	{ "limit_bytes", TCA_DRR_FQ_LIMIT_BYTES, DRR_FQ_BYTES, 1,
	  DRR_FQ_LIMIT_BYTES_MAX, "1 to 1073741824 bytes" },
	{ "memory_limit", TCA_DRR_FQ_MEMORY_LIMIT, DRR_FQ_BYTES,
	  DRR_FQ_MEMORY_LIMIT_MIN, DRR_FQ_MEMORY_LIMIT_MAX,
	  "65536 to 2147483648 bytes" },
	{ "flows", TCA_DRR_FQ_FLOWS, DRR_FQ_QUEUES, 1, DRR_FQ_FLOWS_MAX,
	  "1 to 1048576" },
	{ "quantum", TCA_DRR_FQ_QUANTUM, DRR_FQ_BYTES, DRR_FQ_QUANTUM_MIN,
	  DRR_FQ_QUANTUM_MAX, "256 to 16777216 bytes" },
};

static const struct drr_fq_number codel_numbers[] = {
	{ "target", TCA_DRR_FQ_CODEL_TARGET, DRR_FQ_TIME, 1, DRR_FQ_CODEL_MAX,
	  "1us to 100s, at most the interval" },
	{ "interval", TCA_DRR_FQ_CODEL_INTERVAL, DRR_FQ_TIME,
	  DRR_FQ_CODEL_INTERVAL_MIN, DRR_FQ_CODEL_MAX, "1ms to 100s" },
	{ "ce_threshold", TCA_DRR_FQ_CODEL_CE_THRESHOLD, DRR_FQ_TIME_OR_OFF, 1,
	  DRR_FQ_CODEL_MAX, "1us to 100s, or off" },
};

#define MARK_RANGE "3, 7, 11 and so on up to 63"

static const struct drr_fq_number bands_numbers[] = {
	{ "unassigned", TCA_DRR_FQ_BANDS_UNASSIGNED, DRR_FQ_SHARE,
	  DRR_FQ_BANDS_SHARE_MIN, DRR_FQ_BANDS_SHARE_MAX, "0.1% to 25%" },
	{ "wait", TCA_DRR_FQ_BANDS_WAIT, DRR_FQ_TIME, DRR_FQ_BANDS_WAIT_MIN,
	  DRR_FQ_BANDS_WAIT_MAX, "1ms to 10s" },
	{ "flows_new", TCA_DRR_FQ_BANDS_NEW_FLOWS, DRR_FQ_QUEUES, 1,
	  DRR_FQ_FLOWS_SMALL, "1 to 65536" },
	{ "hosts", TCA_DRR_FQ_BANDS_HOSTS, DRR_FQ_QUEUES, 1, DRR_FQ_FLOWS_SMALL,
	  "1 to 65536" },
	{ "mark_new", TCA_DRR_FQ_BANDS_MARK_NEW, DRR_FQ_QUEUES, 3,
	  DRR_FQ_BANDS_MARK_MAX, MARK_RANGE },
	{ "mark_assigned", TCA_DRR_FQ_BANDS_MARK_ASSIGNED, DRR_FQ_QUEUES, 3,
	  DRR_FQ_BANDS_MARK_MAX, MARK_RANGE },
	{ "domain", TCA_DRR_FQ_BANDS_DOMAIN, DRR_FQ_DOMAIN, 1,
	  DRR_FQ_BANDS_DOMAIN_GROUP_MAX,
	  "a group of interfaces, 1 to 2147483647, all or off" },
};

/**
 * struct drr_fq_flag - an option without a value
 * @name: turns it on
 * @negative: turns it off
 * @key: key in JSON
 * @attribute: its attribute in TCA_OPTIONS, u8
 */
struct drr_fq_flag {
	const char *name;
	const char *negative;
	const char *key;
	int attribute;
};

static const struct drr_fq_flag split_gso = { "split-gso", "no-split-gso",
					      "split_gso",
					      TCA_DRR_FQ_SPLIT_GSO };
static const struct drr_fq_flag codel = { "codel", "no-codel", "codel",
					  TCA_DRR_FQ_CODEL };
static const struct drr_fq_flag ecn = { "ecn", "no-ecn", "ecn",
					TCA_DRR_FQ_CODEL_ECN };
static const struct drr_fq_flag bands = { "bands", "no-bands", "bands",
					  TCA_DRR_FQ_BANDS };
static const struct drr_fq_flag *const flags[] = { &split_gso, &codel, &ecn,
						   &bands };

#define SCHEDULER_RANGE "drr, rr or scfq"

/* Largest minor number of a class; higher queues have none. */
#define CLASS_MAX 0xffff

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

static void explain(void)
{
	fputs("Usage: ... drr_fq [ limit PACKETS[p] ] [ limit_bytes SIZE ]\n"
	      "                  [ memory_limit SIZE ] [ flows NUMBER ]\n"
	      "                  [ scheduler drr*|rr|scfq ] [ quantum SIZE ]\n"
	      "                  [ split-gso | no-split-gso* ]\n"
	      "                  [ codel | no-codel* ] [ target TIME ] [ interval TIME ]\n"
	      "                  [ ecn | no-ecn* ] [ ce_threshold TIME ]\n"
	      "                  [ bands | no-bands* ] [ unassigned PERCENT ]\n"
	      "                  [ wait TIME ] [ flows_new NUMBER ] [ hosts NUMBER ]\n"
	      "                  [ mark_new DSCP ] [ mark_assigned DSCP ]\n"
	      "                  [ domain GROUP | all | off* ]\n"
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
	      "  codel        drop packets of queues that stay long; the following need it\n"
	      "  target       acceptable delay of a queue; 1us to the interval (* 5ms)\n"
	      "  interval     time in which it must once be lower; 1ms to 100s (* 100ms)\n"
	      "  ecn          mark packets that have ECN instead of dropping them (* no-ecn)\n"
	      "  ce_threshold mark packets that have ECN and waited longer; 1us to 100s,\n"
	      "               or off (* off)\n"
	      "  bands        classes 1, 2 and others are new, assigned, unassigned packets,\n"
	      "               with shares of the link; the following need it\n"
	      "  unassigned   minimum share of unassigned packets; 0.1% to 25% (* 5%)\n"
	      "  wait         their longest wait; 1ms to 10s (* 100ms)\n"
	      "  flows_new    number of queues of new flows, and\n"
	      "  hosts        of senders of unassigned packets; 1 to 65536 (* flows)\n"
	      "  mark_new     DSCP of new packets (* 3), and\n"
	      "  mark_assigned  of assigned ones (* 7); 3, 7, 11 and so on up to 63\n"
	      "  domain       group of the interfaces whose marks are believed; other packets\n"
	      "               lose their marks; all: every packet's (* off)\n"
	      "\n"
	      "A * marks the default. SIZE is in bytes, or with a unit: 1514b, 64kb, 32mb.\n"
	      "TIME is in microseconds, or with a unit: 500us, 5ms, 1s.\n",
	      stderr);
}

static int parse_number(const struct drr_fq_number *number, const char *text,
			__u32 *value)
{
	bool valid = false;
	__u64 parsed = 0;

	if ((number->unit == DRR_FQ_TIME_OR_OFF ||
	     number->unit == DRR_FQ_DOMAIN) &&
	    !strcmp(text, "off")) {
		*value = 0;
		return 0;
	}
	if (number->unit == DRR_FQ_DOMAIN && !strcmp(text, "all")) {
		*value = DRR_FQ_BANDS_DOMAIN_ALL;
		return 0;
	}
	switch (number->unit) {
	case DRR_FQ_SHARE:
		valid = units_permille(text, number->min / 10.0,
				       number->max / 10.0, &parsed);
		break;
	case DRR_FQ_PACKETS:
		valid = units_count(text, "p", &parsed);
		break;
	case DRR_FQ_QUEUES:
	case DRR_FQ_DOMAIN:
		valid = units_count(text, "", &parsed);
		break;
	case DRR_FQ_BYTES:
		valid = units_size(text, &parsed);
		break;
	case DRR_FQ_TIME:
	case DRR_FQ_TIME_OR_OFF:
		valid = units_time(text, &parsed);
		parsed /= 1000;
		break;
	}
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

static const struct drr_fq_number *number_of(const char *option)
{
	size_t i;

	for (i = 0; i < LENGTH(numbers); i++) {
		if (!strcmp(option, numbers[i].name))
			return &numbers[i];
	}
	for (i = 0; i < LENGTH(codel_numbers); i++) {
		if (!strcmp(option, codel_numbers[i].name))
			return &codel_numbers[i];
	}
	for (i = 0; i < LENGTH(bands_numbers); i++) {
		if (!strcmp(option, bands_numbers[i].name))
			return &bands_numbers[i];
	}
	return NULL;
}

static const struct drr_fq_flag *flag_of(const char *option)
{
	size_t i;

	for (i = 0; i < LENGTH(flags); i++) {
		if (!strcmp(option, flags[i]->name) ||
		    !strcmp(option, flags[i]->negative))
			return flags[i];
	}
	return NULL;
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
	const char *option = argv[0];
	const struct drr_fq_number *number = number_of(option);
	const struct drr_fq_flag *flag = flag_of(option);
	const char *before;
	int attribute = 0;
	__u32 *value;

	if (number)
		attribute = number->attribute;
	else if (flag)
		attribute = flag->attribute;
	else if (!strcmp(option, "scheduler"))
		attribute = TCA_DRR_FQ_SCHEDULER;
	before = request->option[attribute];
	value = &request->value[attribute];

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

	if (flag) {
		*value = !strcmp(option, flag->name);
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
		    flag_of(request.option[attribute]))
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

static void print_parameters(const struct drr_fq_number *number, size_t count,
			     struct rtattr *tb[])
{
	char text[UNITS_TEXT];
	__u32 value;

	for (; count--; number++) {
		if (!tc_plugin_u32(tb[number->attribute], &value))
			continue;
		switch (number->unit) {
		case DRR_FQ_PACKETS:
			snprintf(text, sizeof(text), "%up", value);
			break;
		case DRR_FQ_QUEUES:
			snprintf(text, sizeof(text), "%u", value);
			break;
		case DRR_FQ_DOMAIN:
			if (value == DRR_FQ_BANDS_DOMAIN_ALL)
				snprintf(text, sizeof(text), "all");
			else if (value)
				snprintf(text, sizeof(text), "%u", value);
			else
				snprintf(text, sizeof(text), "off");
			break;
		case DRR_FQ_BYTES:
			units_size_exact(text, value);
			break;
		case DRR_FQ_SHARE:
			units_permille_exact(text, value);
			break;
		case DRR_FQ_TIME:
		case DRR_FQ_TIME_OR_OFF:
			if (value)
				units_time_exact(text, value * 1000ULL);
			else
				snprintf(text, sizeof(text), "off");
			break;
		}
		print_option(number->name, value, text);
	}
}

static void print_flag_of(const struct drr_fq_flag *flag, struct rtattr *tb[])
{
	__u8 value;

	if (!tc_plugin_u8(tb[flag->attribute], &value))
		return;
	print_flag(flag->key, value, NULL);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ",
			   value ? flag->name : flag->negative);
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
	__u8 scheduler;

	(void)util;
	(void)f;
	if (!opt)
		return 0;
	parse_rtattr_flags(tb, TCA_DRR_FQ_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt),
			   NLA_F_NESTED);

	print_parameters(numbers, LENGTH(numbers), tb);
	if (tc_plugin_u8(tb[TCA_DRR_FQ_SCHEDULER], &scheduler))
		print_scheduler(scheduler);
	print_flag_of(&split_gso, tb);
	print_flag_of(&codel, tb);
	print_parameters(codel_numbers, LENGTH(codel_numbers), tb);
	print_flag_of(&ecn, tb);
	print_flag_of(&bands, tb);
	print_parameters(bands_numbers, LENGTH(bands_numbers), tb);
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
	print_nl();

	print_count("drops_codel", "  drops_codel %s", st->drops_codel);
	print_count("ecn_marks", " ecn_marks %s", st->ecn_marks);
	print_count("ce_marks", " ce_marks %s", st->ce_marks);
}

/* @us: microseconds */
static void print_delay(const char *key, const char *format, __u64 us)
{
	char text[UNITS_TEXT] = "0us";

	if (us)
		units_time_exact(text, us * 1000);
	print_number(key, format, us, text);
}

static void print_class_stats(const struct tc_drr_fq_class_stats *st)
{
	print_bytes("head_length", "  head_length %s", st->head_length);
	print_bytes("deficit", " deficit %s", st->deficit);
	print_signed_bytes("tag", " tag %s", st->tag);
	print_delay("delay", " delay %s", st->delay);
	print_flag("dropping", st->dropping, st->dropping ? " dropping" : NULL);
}

/* @wait: [1024 ns]. Returns microseconds, rounded up. */
static __u64 wait_us(__u64 wait)
{
	return (wait * 1024 + 999) / 1000;
}

/*
 * The wait that @permille of the packets do not exceed, as far as their steps
 * show; 0 if none was sent.
 */
static __u64 wait_of(const struct tc_drr_fq_band_stats *st, __u32 permille)
{
	__u64 sum = 0, seen = 0, end;
	unsigned int n;

	for (n = 0; n < DRR_FQ_WAITS; n++)
		sum += st->waits[n];
	if (!sum)
		return 0;
	for (n = 0; n < DRR_FQ_WAITS - 1; n++) {
		seen += st->waits[n];
		end = drr_fq_wait_of(n + 1);
		if (seen * 1000 >= sum * permille)
			return end < st->wait_longest ? end : st->wait_longest;
	}
	return st->wait_longest;
}

static void print_waits(const struct tc_drr_fq_band_stats *st)
{
	print_delay("wait_p50", "  wait_p50 %s", wait_us(wait_of(st, 500)));
	print_delay("wait_p99", " wait_p99 %s", wait_us(wait_of(st, 990)));
	print_delay("wait_p999", " wait_p999 %s", wait_us(wait_of(st, 999)));
	print_delay("wait_longest", " wait_longest %s",
		    wait_us(st->wait_longest));
}

static void print_band_stats(const struct tc_drr_fq_band_stats *st)
{
	print_count("active_flows", "  active_flows %s", st->active_flows);
	print_bytes("deficit", " deficit %s", st->deficit);
	print_bytes("memory_used", " memory_used %s", st->memory_used);
	print_count("drops_late", " drops_late %s", st->drops_late);
	print_count("marks_cleared", " marks_cleared %s", st->marks_cleared);
	print_nl();
	print_waits(st);
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
	else if (st.type == DRR_FQ_XSTATS_BAND)
		print_band_stats(&st.band);
	return 0;
}

TC_PLUGIN_EXPORT struct qdisc_util drr_fq_qdisc_util = {
	.id = "drr_fq",
	.parse_qopt = drr_fq_parse_opt,
	.print_qopt = drr_fq_print_opt,
	.print_xstats = drr_fq_print_xstats,
};
