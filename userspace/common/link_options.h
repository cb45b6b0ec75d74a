/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A link of SLBN in words: what users say of it into values of attributes, and
 * attributes, state and counters into text and JSON. tc's plugin and slbnctl
 * both speak it from here, so that they understand the same words and show the
 * same numbers.
 *
 * What is wrong with a word, and can be told without the kernel, is refused in
 * one line that names the word and what it takes. An attribute has a value only
 * if its word was given, so that a change leaves the others as they are. The
 * options that are shown can be given back as they stand, but for the key, which
 * nobody can read.
 *
 * Who includes this defines first
 *
 *	SLBN_WHO		a string: who complains
 *	SLBN_KEY_TAKES		a string: what may follow the word "key"
 *
 * and how something is printed that is called KEY in JSON and stands for people
 * in FORMAT, which has one %s,
 *
 *	print_number(KEY, FORMAT, VALUE, TEXT)
 *	print_count(KEY, FORMAT, VALUE)
 *	print_option(WORD, VALUE, TEXT)	WORD, then TEXT
 *	print_flag(KEY, VALUE, TEXT)	TEXT, unless it is NULL
 *	print_nl()			a new line for people
 */
#ifndef FAIRPATH_SLBN_LINK_H
#define FAIRPATH_SLBN_LINK_H

#include <fairpath/slbn_netlink.h>

#include "units.h"

/* Octets of the attributes that are numbers. */
static const __u8 slbn_width[SLBN_A_MAX + 1] = {
	[SLBN_A_RATE] = sizeof(__u64),	  [SLBN_A_EPOCH] = sizeof(__u64),
	[SLBN_A_MEMORY] = sizeof(__u32),  [SLBN_A_MEMORY_TIME] = sizeof(__u64),
	[SLBN_A_CONTROL] = sizeof(__u32), [SLBN_A_EDGE] = sizeof(__u8),
	[SLBN_A_KEYED] = sizeof(__u8),	  [SLBN_A_IFINDEX] = sizeof(__u32),
	[SLBN_A_HANDLE] = sizeof(__u32),  [SLBN_A_THRESHOLD] = sizeof(__u32),
};

/* --- what users say ----------------------------------------------------- */

/**
 * struct slbn_request - what the words ask for
 * @family: it goes to the family: words that the qdisc does not have are known
 * @word: by attribute, the word that names it; NULL if none did
 * @value: by attribute, unless it is the key
 * @key: the key
 * @key_length: octets of it
 */
struct slbn_request {
	bool family;
	const char *word[SLBN_A_MAX + 1];
	__u64 value[SLBN_A_MAX + 1];
	__u8 key[SLBN_KEY_LENGTH];
	size_t key_length;
};

static const struct slbn_word {
	const char *word;
	int attribute;
	const char *takes;
	bool family;
} slbn_words[] = {
	{ "rate", SLBN_A_RATE, "1kbit to 1tbit, or auto: the device's speed",
	  false },
	{ "epoch", SLBN_A_EPOCH, "10ms to 3600s, or 0: never", false },
	{ "memory", SLBN_A_MEMORY, "0 to 4194304 visits, or a time up to 60s",
	  false },
	{ "control", SLBN_A_CONTROL, "0.1% to 100% of the rate", false },
	{ "edge", SLBN_A_EDGE, NULL, false },
	{ "no-edge", SLBN_A_EDGE, NULL, false },
	{ "key", SLBN_A_KEY, SLBN_KEY_TAKES, false },
	{ "threshold", SLBN_A_THRESHOLD, "0.1% to 100% of the share", true },
	{},
};

static bool slbn_parse_rate(const char *text, __u64 *value)
{
	if (!strcmp(text, "auto")) {
		*value = 0;
		return true;
	}
	return units_rate(text, value) && *value >= SLBN_LINK_RATE_MIN &&
	       *value <= SLBN_LINK_RATE_MAX;
}

static bool slbn_parse_epoch(const char *text, __u64 *value)
{
	if (!strcmp(text, "0")) {
		*value = 0;
		return true;
	}
	return units_time(text, value) && *value >= SLBN_EPOCH_MIN &&
	       *value <= SLBN_EPOCH_MAX;
}

/* Plain numbers are visits, those with a unit are times. */
static bool slbn_parse_memory(const char *text, struct slbn_request *request)
{
	__u64 *visits = &request->value[SLBN_A_MEMORY];
	__u64 *time = &request->value[SLBN_A_MEMORY_TIME];

	if (units_count(text, "", visits) && *visits <= SLBN_MEMORY_MAX)
		return true;
	request->word[SLBN_A_MEMORY] = NULL;
	request->word[SLBN_A_MEMORY_TIME] = "memory";
	return isalpha((unsigned char)text[strlen(text) - !!*text]) &&
	       units_time(text, time) && *time <= SLBN_MEMORY_TIME_MAX;
}

/* Percents; per mille in attributes. */
static bool slbn_parse_share(const char *text, __u64 *value)
{
	size_t length = strspn(text, "0123456789.");
	double percent;
	char *end;

	percent = strtod(text, &end);
	if (!isdigit((unsigned char)*text) || end != text + length ||
	    (*end && strcmp(end, "%")) || percent < 0.1 || percent > 100)
		return false;
	*value = percent * 10 + 0.5;
	return true;
}

static bool slbn_parse_key(const char *text, struct slbn_request *request)
{
	size_t i;

	if (!strcmp(text, "none"))
		return true;
	if (strlen(text) != 2 * SLBN_KEY_LENGTH ||
	    strspn(text, "0123456789abcdefABCDEF") != 2 * SLBN_KEY_LENGTH)
		return false;
	for (i = 0; i < SLBN_KEY_LENGTH; i++) {
		char octet[] = { text[2 * i], text[2 * i + 1], 0 };

		request->key[i] = strtoul(octet, NULL, 16);
	}
	request->key_length = SLBN_KEY_LENGTH;
	return true;
}

static bool slbn_parse_value(struct slbn_request *request, int attribute,
			     const char *text)
{
	__u64 *value = &request->value[attribute];

	switch (attribute) {
	case SLBN_A_RATE:
		return slbn_parse_rate(text, value);
	case SLBN_A_EPOCH:
		return slbn_parse_epoch(text, value);
	case SLBN_A_MEMORY:
		return slbn_parse_memory(text, request);
	case SLBN_A_KEY:
		return slbn_parse_key(text, request);
	default:
		return slbn_parse_share(text, value);
	}
}

/**
 * slbn_parse_word() - read one parameter
 * @request: where to put it
 * @argc: words that there are, at least one
 * @argv: the words
 *
 * Return: how many words it took; 0 if the first is unknown; -1 if something is
 * wrong with it, which has been told to stderr.
 */
static int slbn_parse_word(struct slbn_request *request, int argc, char **argv)
{
	const char *word = *argv;
	const struct slbn_word *known;
	const char *before;

	for (known = slbn_words; known->word; known++)
		if (!strcmp(word, known->word))
			break;
	if (!known->word || known->family > request->family)
		return 0;
	before = request->word[known->attribute];
	if (known->attribute == SLBN_A_MEMORY && !before)
		before = request->word[SLBN_A_MEMORY_TIME];
	if (before) {
		if (strcmp(word, before))
			fprintf(stderr,
				SLBN_WHO ": \"%s\" contradicts \"%s\"\n", word,
				before);
		else
			fprintf(stderr, SLBN_WHO ": \"%s\" is given twice\n",
				word);
		return -1;
	}
	request->word[known->attribute] = known->word;
	if (known->attribute == SLBN_A_EDGE) {
		request->value[SLBN_A_EDGE] = !strcmp(word, "edge");
		return 1;
	}
	if (argc < 2) {
		fprintf(stderr, SLBN_WHO ": \"%s\" needs a value: %s\n", word,
			known->takes);
		return -1;
	}
	if (!slbn_parse_value(request, known->attribute, argv[1])) {
		/* A key is not repeated: it may be a secret with a slip in it. */
		fprintf(stderr, SLBN_WHO ": %s \"%s\": must be %s\n", word,
			known->attribute == SLBN_A_KEY ? "..." : argv[1],
			known->takes);
		return -1;
	}
	return 2;
}

/**
 * slbn_request_payload() - what an attribute that was asked for consists of
 * @request: the request
 * @attribute: one that has a word
 * @number: room for a number
 * @length: set to its octets
 *
 * Return: the first of them.
 */
static const void *slbn_request_payload(const struct slbn_request *request,
					int attribute, __u64 *number,
					size_t *length)
{
	__u64 value = request->value[attribute];
	__u32 value32 = value;
	__u8 value8 = value;

	*length = slbn_width[attribute];
	switch (*length) {
	case 0:
		*length = request->key_length;
		return request->key;
	case sizeof(__u8):
		memcpy(number, &value8, sizeof(value8));
		break;
	case sizeof(__u32):
		memcpy(number, &value32, sizeof(value32));
		break;
	default:
		*number = value;
	}
	return number;
}

/* --- what is shown ------------------------------------------------------ */

/**
 * struct slbn_options - attributes that are numbers, as the kernel sent them
 * @there: by attribute, whether it did
 * @value: by attribute
 */
struct slbn_options {
	bool there[SLBN_A_MAX + 1];
	__u64 value[SLBN_A_MAX + 1];
};

/**
 * slbn_options_take() - take in an attribute, if it is a number
 * @options: where to put it
 * @attribute: which
 * @payload: what it consists of
 * @length: octets; fewer than its type has: left out. More: of a later version
 */
static void slbn_options_take(struct slbn_options *options,
			      unsigned int attribute, const void *payload,
			      size_t length)
{
	__u32 value32;
	__u64 value64;

	if (attribute > SLBN_A_MAX || !slbn_width[attribute] ||
	    length < slbn_width[attribute])
		return;
	options->there[attribute] = true;
	switch (slbn_width[attribute]) {
	case sizeof(__u8):
		options->value[attribute] = *(const __u8 *)payload;
		break;
	case sizeof(__u32):
		memcpy(&value32, payload, sizeof(value32));
		options->value[attribute] = value32;
		break;
	default:
		memcpy(&value64, payload, sizeof(value64));
		options->value[attribute] = value64;
	}
}

/**
 * slbn_state_take() - take in a link's state
 * @state: where to put it
 * @payload: what the kernel sent
 * @length: octets of it. An older kernel sends fewer, and the rest is zeros; a
 *	later one sends more, which are left out
 */
static void slbn_state_take(struct slbn_link_state *state, const void *payload,
			    size_t length)
{
	memset(state, 0, sizeof(*state));
	memcpy(state, payload,
	       length < sizeof(*state) ? length : sizeof(*state));
}

static const char *slbn_rate_text(char *text, __u64 rate)
{
	return rate ? units_rate_exact(text, rate) : "auto";
}

static const char *slbn_epoch_text(char *text, __u64 epoch)
{
	return epoch ? units_time_exact(text, epoch) : "0";
}

/**
 * slbn_show_permille() - print an option that is a share
 * @word: its word
 * @permille: the share
 */
static void slbn_show_permille(const char *word, __u64 permille)
{
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%llu.%llu%%",
		 (unsigned long long)permille / 10,
		 (unsigned long long)permille % 10);
	print_option(word, permille, text);
}

/**
 * slbn_show_options() - print a link's options that the qdisc has, in one line
 * @options: the attributes
 */
static void slbn_show_options(const struct slbn_options *options)
{
	const bool *there = options->there;
	const __u64 *value = options->value;
	char text[UNITS_TEXT];

	if (there[SLBN_A_RATE])
		print_option("rate", value[SLBN_A_RATE],
			     slbn_rate_text(text, value[SLBN_A_RATE]));
	if (there[SLBN_A_EPOCH])
		print_option("epoch", value[SLBN_A_EPOCH],
			     slbn_epoch_text(text, value[SLBN_A_EPOCH]));
	if (there[SLBN_A_MEMORY])
		print_count("memory", "memory %s ", value[SLBN_A_MEMORY]);
	if (there[SLBN_A_MEMORY_TIME])
		print_number("memory_time", "memory %s ",
			     value[SLBN_A_MEMORY_TIME],
			     units_time_exact(text, value[SLBN_A_MEMORY_TIME]));
	if (there[SLBN_A_CONTROL])
		slbn_show_permille("control", value[SLBN_A_CONTROL]);
	if (there[SLBN_A_EDGE])
		print_flag("edge", value[SLBN_A_EDGE],
			   value[SLBN_A_EDGE] ? "edge " : "no-edge ");
	if (there[SLBN_A_KEYED])
		print_flag("keyed", value[SLBN_A_KEYED],
			   value[SLBN_A_KEYED] ? "keyed " : NULL);
}

static void slbn_show_rate(const char *key, const char *format, __u64 rate)
{
	char text[UNITS_TEXT];

	print_number(key, format, rate, units_rate_rounded(text, rate));
}

/**
 * slbn_show_summary() - print what a link has for its sessions, in one line
 * @state: the state
 */
static void slbn_show_summary(const struct slbn_link_state *state)
{
	slbn_show_rate("capacity", "  capacity %s", state->capacity);
	slbn_show_rate("share", " share %s", state->share);
	print_count("sessions", " sessions %s", state->cur.N + state->prev.N);
	print_count("restricted", " restricted %s",
		    state->cur.NR + state->prev.NR);
}

/**
 * slbn_show_details() - print all else of a link's state, and its counters
 * @state: the state
 */
static void slbn_show_details(const struct slbn_link_state *state)
{
	print_count("N", "  current N %s", state->cur.N);
	print_count("NR", " NR %s", state->cur.NR);
	slbn_show_rate("BF", " BF %s", state->cur.BF);
	print_count("tag", " tag %s", state->tag);
	print_count("previous_N", "  previous N %s", state->prev.N);
	print_count("previous_NR", " NR %s", state->prev.NR);
	slbn_show_rate("previous_BF", " BF %s", state->prev.BF);
	print_count("prev_tag", " tag %s", state->prev_tag);
	print_nl();
	print_count("joins", "  joins %s", state->joins);
	print_count("probes", " probes %s", state->probes);
	print_count("acks", " acks %s", state->acks);
	print_count("leaves", " leaves %s", state->leaves);
	print_count("answered", " answered %s", state->answered);
	print_nl();
	print_count("new_sessions", "  new %s", state->new_sessions);
	print_count("migrated", " migrated %s", state->migrated);
	print_count("corrected", " corrected %s", state->corrected);
	print_count("clamped", " clamped %s", state->clamped);
	print_count("memory_entries", " memory %s visits",
		    state->memory_entries);
	print_count("memory_bytes", " %s bytes", state->memory_bytes);
	print_count("events", " events %s", state->events);
	print_nl();
	print_count("stale", "  dropped: stale %s", state->stale);
	print_count("wrong_path", " wrong_path %s", state->wrong_path);
	print_count("too_many_hops", " too_many_hops %s", state->too_many_hops);
	print_count("malformed", " malformed %s", state->malformed);
	print_count("bad_checksum", " bad_checksum %s", state->bad_checksum);
	print_nl();
	print_count("fragments", "   fragments %s", state->fragments);
	print_count("bad_key", " bad_key %s", state->bad_key);
	print_count("from_hosts", " from_hosts %s", state->from_hosts);
	print_count("rate_limited", " rate_limited %s", state->rate_limited);
}

#endif /* FAIRPATH_SLBN_LINK_H */
