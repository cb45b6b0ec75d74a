// SPDX-License-Identifier: GPL-2.0
/*
 * tc's plugin for the qdisc slbn: words into attributes, attributes, state and
 * counters into text and JSON.
 *
 * include/uapi/fairpath/slbn_netlink.h is the contract with the kernel,
 * tc_plugin.h the one with tc. What depends on the device (whether it tells its
 * speed) is the kernel's to judge. All else is refused here, in one line that
 * names the word and what it takes. An attribute is sent only if its word was
 * given, so that a change leaves the others as they are.
 *
 * What is printed in the options can be given back to tc as it stands, but for
 * the key, which nobody can read.
 */
#include <fairpath/slbn_netlink.h>

#include "tc_plugin.h"

#define RATE_TAKES "1kbit to 1tbit, or auto: the device's speed"
#define EPOCH_TAKES "10ms to 3600s, or 0: never"
#define MEMORY_TAKES "0 to 4194304 visits, or a time up to 60s"
#define CONTROL_TAKES "0.1% to 100% of the rate"
#define KEY_TAKES "32 hexadecimal digits, or none"

static void explain(void)
{
	fputs("Usage: ... slbn [ rate RATE | rate auto* ] [ epoch TIME ]\n"
	      "                [ memory VISITS | memory TIME ] [ control PERCENT ]\n"
	      "                [ edge | no-edge* ] [ key HEX | key none* ]\n"
	      "\n"
	      "  rate     what the link carries; 1kbit to 1tbit (* auto: the device's\n"
	      "           speed, followed when it changes)\n"
	      "  epoch    how long a session that is not heard of is counted, at least;\n"
	      "           10ms to 3600s; 0: for ever, as the paper has it (* 1s)\n"
	      "  memory   visits that are remembered, 0 to 4194304; or as many as control\n"
	      "           packets may come in this time, at most 60s (* 1s)\n"
	      "  control  of the rate that control packets may take; 0.1% to 100% (* 5%)\n"
	      "  edge     hosts are behind it: their control packets are dropped, and the\n"
	      "           link answers for them (* no-edge)\n"
	      "  key      authenticates control packets: 32 hexadecimal digits (* none)\n"
	      "\n"
	      "A * marks the default. Classes: MAJOR:1 control packets, MAJOR:2 all others.\n",
	      stderr);
}

/**
 * struct slbn_request - what the words ask for
 * @word: by attribute, the word that names it; NULL if none did
 * @value: by attribute, unless it is the key
 * @key: the key
 * @key_length: octets of it
 */
struct slbn_request {
	const char *word[SLBN_A_MAX + 1];
	__u64 value[SLBN_A_MAX + 1];
	__u8 key[SLBN_KEY_LENGTH];
	size_t key_length;
};

static int complain(const char *word, const char *text, const char *takes)
{
	fprintf(stderr, "slbn: %s \"%s\": must be %s\n", word, text, takes);
	return -1;
}

static int parse_rate(const char *text, __u64 *value)
{
	if (!strcmp(text, "auto")) {
		*value = 0;
		return 0;
	}
	if (!tc_plugin_rate(text, value) || *value < SLBN_LINK_RATE_MIN ||
	    *value > SLBN_LINK_RATE_MAX)
		return complain("rate", text, RATE_TAKES);
	return 0;
}

static int parse_epoch(const char *text, __u64 *value)
{
	if (!strcmp(text, "0")) {
		*value = 0;
		return 0;
	}
	if (!tc_plugin_time(text, value) || *value < SLBN_EPOCH_MIN ||
	    *value > SLBN_EPOCH_MAX)
		return complain("epoch", text, EPOCH_TAKES);
	return 0;
}

/* Plain numbers are visits, those with a unit are times. */
static int parse_memory(const char *text, struct slbn_request *request)
{
	__u64 *visits = &request->value[SLBN_A_MEMORY];
	__u64 *time = &request->value[SLBN_A_MEMORY_TIME];

	if (tc_plugin_count(text, "", visits) && *visits <= SLBN_MEMORY_MAX) {
		request->word[SLBN_A_MEMORY] = "memory";
		return 0;
	}
	if (!isdigit((unsigned char)text[strlen(text) - !!*text]) &&
	    tc_plugin_time(text, time) && *time <= SLBN_MEMORY_TIME_MAX) {
		request->word[SLBN_A_MEMORY_TIME] = "memory";
		return 0;
	}
	return complain("memory", text, MEMORY_TAKES);
}

static int parse_control(const char *text, __u64 *value)
{
	size_t length = strspn(text, "0123456789.");
	double percent;
	char *end;

	percent = strtod(text, &end);
	if (!isdigit((unsigned char)*text) || end != text + length ||
	    (*end && strcmp(end, "%")) || percent < 0.1 || percent > 100)
		return complain("control", text, CONTROL_TAKES);
	*value = percent * 10 + 0.5;
	return 0;
}

static int parse_key(const char *text, struct slbn_request *request)
{
	size_t i;

	if (!strcmp(text, "none"))
		return 0;
	if (strlen(text) != 2 * SLBN_KEY_LENGTH ||
	    strspn(text, "0123456789abcdefABCDEF") != 2 * SLBN_KEY_LENGTH)
		/* Not repeated: it may be a secret with a slip in it. */
		return complain("key", "...", KEY_TAKES);
	for (i = 0; i < SLBN_KEY_LENGTH; i++) {
		char octet[] = { text[2 * i], text[2 * i + 1], 0 };

		request->key[i] = strtoul(octet, NULL, 16);
	}
	request->key_length = SLBN_KEY_LENGTH;
	return 0;
}

static const struct {
	const char *word;
	int attribute;
	const char *takes;
} words[] = {
	{ "rate", SLBN_A_RATE, RATE_TAKES },
	{ "epoch", SLBN_A_EPOCH, EPOCH_TAKES },
	{ "memory", SLBN_A_MEMORY, MEMORY_TAKES },
	{ "control", SLBN_A_CONTROL, CONTROL_TAKES },
	{ "edge", SLBN_A_EDGE, NULL },
	{ "no-edge", SLBN_A_EDGE, NULL },
	{ "key", SLBN_A_KEY, KEY_TAKES },
};

static int parse_value(struct slbn_request *request, int attribute,
		       const char *text)
{
	__u64 *value = &request->value[attribute];

	switch (attribute) {
	case SLBN_A_RATE:
		return parse_rate(text, value);
	case SLBN_A_EPOCH:
		return parse_epoch(text, value);
	case SLBN_A_MEMORY:
		request->word[SLBN_A_MEMORY] = NULL;
		return parse_memory(text, request);
	case SLBN_A_CONTROL:
		return parse_control(text, value);
	default:
		return parse_key(text, request);
	}
}

/* Read one parameter. Returns how many words it took, or -1. */
static int parse_word(struct slbn_request *request, int argc, char **argv)
{
	const char *word = argv[0];
	const char *before;
	int attribute;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(word, words[i].word))
			break;
	if (i == sizeof(words) / sizeof(*words)) {
		if (strcmp(word, "help"))
			fprintf(stderr, "What is \"%s\"?\n", word);
		explain();
		return -1;
	}
	attribute = words[i].attribute;
	before = request->word[attribute];
	if (attribute == SLBN_A_MEMORY && request->word[SLBN_A_MEMORY_TIME])
		before = word;
	if (before) {
		if (strcmp(word, before))
			fprintf(stderr, "slbn: \"%s\" contradicts \"%s\"\n",
				word, before);
		else
			fprintf(stderr, "slbn: \"%s\" is given twice\n", word);
		return -1;
	}
	request->word[attribute] = word;
	if (attribute == SLBN_A_EDGE) {
		request->value[attribute] = !strcmp(word, "edge");
		return 1;
	}
	if (argc < 2) {
		fprintf(stderr, "slbn: \"%s\" needs a value: %s\n", word,
			words[i].takes);
		return -1;
	}
	return parse_value(request, attribute, argv[1]) ? -1 : 2;
}

static int put(struct nlmsghdr *n, const struct slbn_request *request,
	       int attribute)
{
	__u64 value64 = request->value[attribute];
	__u32 value32 = value64;
	__u8 value8 = value64;

	switch (attribute) {
	case SLBN_A_KEY:
		return addattr_l(n, TC_PLUGIN_ROOM, attribute, request->key,
				 request->key_length);
	case SLBN_A_EDGE:
		return addattr_l(n, TC_PLUGIN_ROOM, attribute, &value8,
				 sizeof(value8));
	case SLBN_A_MEMORY:
	case SLBN_A_CONTROL:
		return addattr_l(n, TC_PLUGIN_ROOM, attribute, &value32,
				 sizeof(value32));
	default:
		return addattr_l(n, TC_PLUGIN_ROOM, attribute, &value64,
				 sizeof(value64));
	}
}

static int slbn_parse_opt(struct qdisc_util *util, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev)
{
	struct slbn_request request = {};
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
	for (attribute = 1; attribute <= SLBN_A_MAX; attribute++)
		if (request.word[attribute] && put(n, &request, attribute))
			return -1;
	addattr_nest_end(n, options);
	return 0;
}

/* A number in JSON, @text after @word in text. */
static void print_option(const char *word, __u64 value, const char *text)
{
	print_color_u64(PRINT_JSON, COLOR_NONE, word, NULL, value);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ", word);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ", text);
}

static int slbn_print_opt(struct qdisc_util *util, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[SLBN_A_MAX + 1];
	char text[TC_PLUGIN_NUMBER_TEXT];
	__u64 value64;
	__u32 value32;
	__u8 value8;

	(void)util;
	(void)f;
	if (!opt)
		return 0;
	parse_rtattr_flags(tb, SLBN_A_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt),
			   NLA_F_NESTED);
	if (tc_plugin_u64(tb[SLBN_A_RATE], &value64))
		print_option("rate", value64,
			     value64 ? tc_plugin_rate_exact(text, value64) :
				       "auto");
	if (tc_plugin_u64(tb[SLBN_A_EPOCH], &value64))
		print_option("epoch", value64,
			     value64 ? tc_plugin_time_exact(text, value64) :
				       "0");
	if (tc_plugin_u32(tb[SLBN_A_MEMORY], &value32)) {
		snprintf(text, sizeof(text), "%u", value32);
		print_option("memory", value32, text);
	}
	if (tc_plugin_u64(tb[SLBN_A_MEMORY_TIME], &value64)) {
		print_color_u64(PRINT_JSON, COLOR_NONE, "memory_time", NULL,
				value64);
		print_color_string(PRINT_FP, COLOR_NONE, NULL, "memory %s ",
				   tc_plugin_time_exact(text, value64));
	}
	if (tc_plugin_u32(tb[SLBN_A_CONTROL], &value32)) {
		snprintf(text, sizeof(text), "%u.%u%%", value32 / 10,
			 value32 % 10);
		print_option("control", value32, text);
	}
	if (tc_plugin_u8(tb[SLBN_A_EDGE], &value8)) {
		print_color_bool(PRINT_JSON, COLOR_NONE, "edge", NULL, value8);
		print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ",
				   value8 ? "edge" : "no-edge");
	}
	if (tc_plugin_u8(tb[SLBN_A_KEYED], &value8)) {
		print_color_bool(PRINT_JSON, COLOR_NONE, "keyed", NULL, value8);
		if (value8)
			print_color_string(PRINT_FP, COLOR_NONE, NULL, "%s ",
					   "keyed");
	}
	return 0;
}

static void print_count(const char *key, const char *format, __u64 count)
{
	char text[TC_PLUGIN_NUMBER_TEXT];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)count);
	print_color_u64(PRINT_JSON, COLOR_NONE, key, NULL, count);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, format, text);
}

static void print_rate(const char *key, const char *format, __u64 rate)
{
	char text[TC_PLUGIN_NUMBER_TEXT];

	tc_plugin_rate_rounded(text, rate);
	print_color_u64(PRINT_JSON, COLOR_NONE, key, NULL, rate);
	print_color_string(PRINT_FP, COLOR_NONE, NULL, format, text);
}

static int slbn_print_xstats(struct qdisc_util *util, FILE *f,
			     struct rtattr *xstats)
{
	struct slbn_link_state st;

	(void)util;
	(void)f;
	if (!xstats)
		return 0;
	tc_plugin_xstats(xstats, &st, sizeof(st));

	print_rate("capacity", "  capacity %s", st.capacity);
	print_rate("share", " share %s", st.share);
	print_count("sessions", " sessions %s", st.now.N + st.before.N);
	print_count("restricted", " restricted %s", st.now.NR + st.before.NR);
	print_nl();
	print_count("N", "  now N %s", st.now.N);
	print_count("NR", " NR %s", st.now.NR);
	print_rate("BF", " BF %s", st.now.BF);
	print_count("tag", " tag %s", st.tag);
	print_count("before_N", "  before N %s", st.before.N);
	print_count("before_NR", " NR %s", st.before.NR);
	print_rate("before_BF", " BF %s", st.before.BF);
	print_count("before_tag", " tag %s", st.before_tag);
	print_nl();
	print_count("joins", "  joins %s", st.joins);
	print_count("probes", " probes %s", st.probes);
	print_count("acks", " acks %s", st.acks);
	print_count("leaves", " leaves %s", st.leaves);
	print_count("answered", " answered %s", st.answered);
	print_nl();
	print_count("fresh", "  fresh %s", st.fresh);
	print_count("carried", " carried %s", st.carried);
	print_count("recalled", " recalled %s", st.recalled);
	print_count("clamped", " clamped %s", st.clamped);
	print_count("memory_entries", " memory %s visits", st.memory_entries);
	print_count("memory_bytes", " %s bytes", st.memory_bytes);
	print_count("events", " events %s", st.events);
	print_nl();
	print_count("stale", "  dropped: stale %s", st.stale);
	print_count("foreign", " foreign %s", st.foreign);
	print_count("too_far", " too_far %s", st.too_far);
	print_count("malformed", " malformed %s", st.malformed);
	print_count("bad_checksum", " bad_checksum %s", st.bad_checksum);
	print_nl();
	print_count("fragments", "   fragments %s", st.fragments);
	print_count("bad_key", " bad_key %s", st.bad_key);
	print_count("from_hosts", " from_hosts %s", st.from_hosts);
	print_count("over_rate", " over_rate %s", st.over_rate);
	return 0;
}

TC_PLUGIN_EXPORT struct qdisc_util slbn_qdisc_util = {
	.id = "slbn",
	.parse_qopt = slbn_parse_opt,
	.print_qopt = slbn_print_opt,
	.print_xstats = slbn_print_xstats,
};
