// SPDX-License-Identifier: GPL-2.0
/*
 * Options, state and counters of an SLBN link. See link_options.h.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link_options.h"
#include "units.h"

/* Octets of the numeric attributes. */
static const __u8 width[TCA_SLBN_MAX + 1] = {
	[TCA_SLBN_RATE] = sizeof(__u64),
	[TCA_SLBN_EPOCH] = sizeof(__u64),
	[TCA_SLBN_MEMORY] = sizeof(__u32),
	[TCA_SLBN_MEMORY_TIME] = sizeof(__u64),
	[TCA_SLBN_CONTROL] = sizeof(__u32),
	[TCA_SLBN_EDGE] = sizeof(__u8),
	[TCA_SLBN_THRESHOLD] = sizeof(__u32),
	[TCA_SLBN_HEADROOM] = sizeof(__u32),
	[TCA_SLBN_COMMIT] = sizeof(__u8),
	[TCA_SLBN_QUIET] = sizeof(__u64),
	[TCA_SLBN_HEADROOM_AUTO] = sizeof(__u8),
	[TCA_SLBN_UNASSIGNED] = sizeof(__u32),
	[TCA_SLBN_KEY_ID] = sizeof(__u8),
};

/* --- options ------------------------------------------------------------ */

#define KEY_SYNTAX "file FILE, or none"

static const struct option {
	const char *name;
	int attribute;
	const char *syntax; /* of its value */
	bool genetlink;
} options[] = {
	{ "rate", TCA_SLBN_RATE, "1kbit to 1tbit, or auto: the device's speed",
	  false },
	{ "epoch", TCA_SLBN_EPOCH, "10ms to 3600s, or 0: never", false },
	{ "memory", TCA_SLBN_MEMORY,
	  "0 to 4194304 entries, or a time up to 60s", false },
	{ "control", TCA_SLBN_CONTROL, "0.1% to 100% of the rate", false },
	{ "headroom", TCA_SLBN_HEADROOM, "0% to 50% of the rate, or auto",
	  false },
	{ "unassigned", TCA_SLBN_UNASSIGNED, "0% to 50% of the rate", false },
	{ "commit", TCA_SLBN_COMMIT, "on or off", false },
	{ "quiet", TCA_SLBN_QUIET, "10ms to 3600s, or 0: the default", false },
	{ "edge", TCA_SLBN_EDGE, NULL, false },
	{ "no-edge", TCA_SLBN_EDGE, NULL, false },
	{ "key", TCA_SLBN_KEY, KEY_SYNTAX, false },
	{ "threshold", TCA_SLBN_THRESHOLD, "0.1% to 100% of the share", true },
	{},
};

static bool parse_rate(const char *text, __u64 *value)
{
	if (!strcmp(text, "auto")) {
		*value = 0;
		return true;
	}
	return units_rate(text, value) && *value >= SLBN_LINK_RATE_MIN &&
	       *value <= SLBN_LINK_RATE_MAX;
}

static bool parse_epoch(const char *text, __u64 *value)
{
	if (!strcmp(text, "0")) {
		*value = 0;
		return true;
	}
	return units_time(text, value) && *value >= SLBN_EPOCH_MIN &&
	       *value <= SLBN_EPOCH_MAX;
}

/* Plain numbers count entries, numbers with a unit are times. */
static bool parse_memory(const char *text, struct link_request *request)
{
	__u64 *entries = &request->value[TCA_SLBN_MEMORY];
	__u64 *time = &request->value[TCA_SLBN_MEMORY_TIME];

	if (units_count(text, "", entries) && *entries <= SLBN_MEMORY_MAX)
		return true;
	request->option[TCA_SLBN_MEMORY] = NULL;
	request->option[TCA_SLBN_MEMORY_TIME] = "memory";
	return isalpha((unsigned char)text[strlen(text) - !!*text]) &&
	       units_time(text, time) && *time <= SLBN_MEMORY_TIME_MAX;
}

static bool parse_headroom(const char *text, struct link_request *request)
{
	if (strcmp(text, "auto"))
		return units_permille(text, 0, SLBN_HEADROOM_MAX / 10,
				      &request->value[TCA_SLBN_HEADROOM]);
	request->option[TCA_SLBN_HEADROOM] = NULL;
	request->option[TCA_SLBN_HEADROOM_AUTO] = "headroom";
	request->value[TCA_SLBN_HEADROOM_AUTO] = 1;
	return true;
}

static bool parse_digits(const char *text, __u8 key[SLBN_KEY_LENGTH])
{
	size_t i;

	if (strlen(text) != 2 * SLBN_KEY_LENGTH ||
	    strspn(text, "0123456789abcdefABCDEF") != 2 * SLBN_KEY_LENGTH)
		return false;
	for (i = 0; i < SLBN_KEY_LENGTH; i++) {
		char octet[] = { text[2 * i], text[2 * i + 1], 0 };

		key[i] = strtoul(octet, NULL, 16);
	}
	return true;
}

/**
 * link_key_parse() - parse a key
 * @line: "[NUMBER] KEY", with white space around it; is changed
 * @id: set to the number, 0 to 255, if there is one
 * @key: set to the key, which has 32 hexadecimal digits
 *
 * Return: false if @line is not a key.
 */
bool link_key_parse(char *line, __u8 *id, __u8 key[SLBN_KEY_LENGTH])
{
	static const char blank[] = " \t\r\n\v\f";
	char *rest = line;
	char *first = strtok_r(line, blank, &rest);
	char *second = first ? strtok_r(NULL, blank, &rest) : NULL;
	__u64 number;

	if (!first || strtok_r(NULL, blank, &rest))
		return false;
	if (!second)
		return parse_digits(first, key);
	if (!units_count(first, "", &number) || number > 255 ||
	    !parse_digits(second, key))
		return false;
	*id = number;
	return true;
}

/* Longest key file, white space included. */
#define KEY_FILE_MAX 256

/* Read a file into @text. Returns its length, or -1 with errno set. */
static ssize_t read_text(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t count;

	do {
		count = read(fd, text + length, size - length);
		if (count < 0)
			return -1;
		length += count;
	} while (count && length < size);
	return length;
}

/* Parse the text of a key file. */
static bool parse_key_text(char *text, size_t length, __u8 *id,
			   __u8 key[SLBN_KEY_LENGTH])
{
	if (length >= KEY_FILE_MAX || memchr(text, 0, length))
		return false;
	text[length] = 0;
	return link_key_parse(text, id, key);
}

/**
 * link_key_read() - read a key from a file
 * @program: prefix of error messages
 * @name: the file, which other users must not be able to access; -: standard
 *	input
 * @id: set to the number of the key, if the file has one
 * @key: set to the key
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool link_key_read(const char *program, const char *name, __u8 *id,
		   __u8 key[SLBN_KEY_LENGTH])
{
	bool is_stdin = !strcmp(name, "-");
	int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	const char *error = NULL;
	char text[KEY_FILE_MAX];
	struct stat status;
	ssize_t length;

	if (is_stdin)
		name = "standard input";
	length = fd < 0 || fstat(fd, &status) ?
			 -1 :
			 read_text(fd, text, sizeof(text));
	if (length < 0)
		error = strerror(errno);
	else if (!is_stdin && S_ISREG(status.st_mode) && status.st_mode & 0077)
		error = "other users may access it: chmod 600";
	else if (!parse_key_text(text, length, id, key))
		error = "must be \"[0 to 255] 32 hexadecimal digits\"";
	explicit_bzero(text, sizeof(text));
	if (fd >= 0 && !is_stdin)
		close(fd);
	if (error)
		fprintf(stderr, "%s: key file %s: %s\n", program, name, error);
	return !error;
}

/* As link_request_parse(), for "key" and at least one argument. */
static int parse_key(struct link_request *request, int argc, char **argv)
{
	__u8 id = 0;

	if (!strcmp(argv[1], "none"))
		return 2;
	if (strcmp(argv[1], "file")) {
		/* It may be a key, a secret: do not print it. */
		fprintf(stderr, "%s: key \"...\": must be " KEY_SYNTAX "\n",
			request->program);
		return -1;
	}
	if (argc < 3) {
		fprintf(stderr, "%s: \"key file\" needs the name of a file\n",
			request->program);
		return -1;
	}
	if (!link_key_read(request->program, argv[2], &id, request->key))
		return -1;
	request->key_length = SLBN_KEY_LENGTH;
	request->option[TCA_SLBN_KEY_ID] = "key";
	request->value[TCA_SLBN_KEY_ID] = id;
	return 3;
}

static bool parse_switch(const char *text, __u64 *value)
{
	*value = !strcmp(text, "on");
	return *value || !strcmp(text, "off");
}

static bool parse_value(struct link_request *request, int attribute,
			const char *text)
{
	__u64 *value = &request->value[attribute];

	switch (attribute) {
	case TCA_SLBN_RATE:
		return parse_rate(text, value);
	case TCA_SLBN_EPOCH:
	case TCA_SLBN_QUIET:
		return parse_epoch(text, value);
	case TCA_SLBN_MEMORY:
		return parse_memory(text, request);
	case TCA_SLBN_HEADROOM:
		return parse_headroom(text, request);
	case TCA_SLBN_UNASSIGNED:
		return units_permille(text, 0, SLBN_UNASSIGNED_MAX / 10, value);
	case TCA_SLBN_COMMIT:
		return parse_switch(text, value);
	default:
		return units_permille(text, 0.1, 100, value);
	}
}

/* The option that already set what @option sets; NULL: none. */
static const char *earlier_option(const struct link_request *request,
				  const struct option *option)
{
	const char *earlier = request->option[option->attribute];

	if (option->attribute == TCA_SLBN_MEMORY && !earlier)
		earlier = request->option[TCA_SLBN_MEMORY_TIME];
	if (option->attribute == TCA_SLBN_HEADROOM && !earlier)
		earlier = request->option[TCA_SLBN_HEADROOM_AUTO];
	return earlier;
}

/**
 * link_request_parse() - parse one option and its value
 * @request: where to store it
 * @argc: number of arguments, at least one
 * @argv: the arguments
 *
 * Return: the number of arguments consumed; 0: unknown option; -1: invalid, and
 * an error has been printed.
 */
int link_request_parse(struct link_request *request, int argc, char **argv)
{
	const char *name = *argv, *earlier;
	const struct option *option;

	for (option = options; option->name; option++)
		if (!strcmp(name, option->name))
			break;
	if (!option->name || option->genetlink > request->genetlink)
		return 0;
	earlier = earlier_option(request, option);
	if (earlier) {
		if (strcmp(name, earlier))
			fprintf(stderr, "%s: \"%s\" contradicts \"%s\"\n",
				request->program, name, earlier);
		else
			fprintf(stderr, "%s: \"%s\" is given twice\n",
				request->program, name);
		return -1;
	}
	request->option[option->attribute] = option->name;
	if (option->attribute == TCA_SLBN_EDGE) {
		request->value[TCA_SLBN_EDGE] = !strcmp(name, "edge");
		return 1;
	}
	if (argc < 2) {
		fprintf(stderr, "%s: \"%s\" needs a value: %s\n",
			request->program, name, option->syntax);
		return -1;
	}
	if (option->attribute == TCA_SLBN_KEY)
		return parse_key(request, argc, argv);
	if (!parse_value(request, option->attribute, argv[1])) {
		fprintf(stderr, "%s: %s \"%s\": must be %s\n", request->program,
			name, argv[1], option->syntax);
		return -1;
	}
	return 2;
}

/**
 * link_request_payload() - the payload of a requested attribute
 * @request: the request
 * @attribute: one whose option was given
 * @number: buffer for a numeric payload
 * @length: set to the payload's octets
 *
 * Return: the payload.
 */
const void *link_request_payload(const struct link_request *request,
				 int attribute, __u64 *number, size_t *length)
{
	__u64 value = request->value[attribute];
	__u32 value32 = value;
	__u8 value8 = value;

	*length = width[attribute];
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

/* --- attributes and state from the kernel ------------------------------- */

static void read_key_ids(struct link_attributes *attributes,
			 const void *payload, size_t length)
{
	if (length > LINK_KEYS_MAX)
		length = LINK_KEYS_MAX;
	memcpy(attributes->key_id, payload, length);
	attributes->value[TCA_SLBN_KEY_IDS] = length;
	attributes->present[TCA_SLBN_KEY_IDS] = true;
}

/**
 * link_attributes_read() - store an attribute that struct link_attributes has
 * @attributes: where to store it
 * @attribute: its type; unknown types are ignored
 * @payload: its payload
 * @length: octets; shorter payloads are ignored, longer ones truncated
 */
void link_attributes_read(struct link_attributes *attributes,
			  unsigned int attribute, const void *payload,
			  size_t length)
{
	__u32 value32;
	__u64 value64;

	if (attribute == TCA_SLBN_KEY_IDS)
		read_key_ids(attributes, payload, length);
	if (attribute > TCA_SLBN_MAX || !width[attribute] ||
	    length < width[attribute])
		return;
	attributes->present[attribute] = true;
	switch (width[attribute]) {
	case sizeof(__u8):
		attributes->value[attribute] = *(const __u8 *)payload;
		break;
	case sizeof(__u32):
		memcpy(&value32, payload, sizeof(value32));
		attributes->value[attribute] = value32;
		break;
	default:
		memcpy(&value64, payload, sizeof(value64));
		attributes->value[attribute] = value64;
	}
}

/**
 * link_state_read() - store a link's state
 * @state: where to store it
 * @payload: the state from the kernel
 * @length: octets; of a shorter state (older kernel) the rest is 0, a longer
 *	one (newer kernel) is truncated
 */
void link_state_read(struct slbn_link_state *state, const void *payload,
		     size_t length)
{
	memset(state, 0, sizeof(*state));
	memcpy(state, payload,
	       length < sizeof(*state) ? length : sizeof(*state));
}

/**
 * link_state_read_attribute() - store a field of a link's state
 * @state: where to store it
 * @attribute: of enum slbn_state_attribute; unknown ones are ignored
 * @payload: its payload
 * @length: octets
 */
void link_state_read_attribute(struct slbn_link_state *state,
			       unsigned int attribute, const void *payload,
			       size_t length)
{
	__u64 *fields = (__u64 *)state;

	static_assert(sizeof(*state) ==
			      (SLBN_A_STATE_MAX + 1 - SLBN_A_STATE_FIRST) *
				      sizeof(__u64),
		      "a field has no attribute");
	if (attribute >= SLBN_A_STATE_FIRST && attribute <= SLBN_A_STATE_MAX &&
	    length == sizeof(__u64))
		memcpy(&fields[attribute - SLBN_A_STATE_FIRST], payload,
		       sizeof(__u64));
}

/* --- output ------------------------------------------------------------- */

static void print_count(const struct link_output *out, const char *key,
			const char *format, __u64 count)
{
	char text[UNITS_TEXT];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)count);
	out->number(key, format, count, text);
}

static void print_rate(const struct link_output *out, const char *key,
		       const char *format, __u64 rate)
{
	char text[UNITS_TEXT];

	out->number(key, format, rate, units_rate_rounded(text, rate));
}

/* Text only if it is not 0, rounded up to ms. */
static void print_quiet(const struct link_output *out, __u64 quiet)
{
	char text[UNITS_TEXT] = "";

	if (quiet)
		units_time_exact(text, (quiet + 999999) / 1000000 * 1000000);
	out->number("quiet", quiet ? " quiet %s" : "%s", quiet, text);
}

/* An option as users give it. */
static void print_option(const struct link_output *out, const char *option,
			 __u64 value, const char *text)
{
	char format[2 * UNITS_TEXT];

	snprintf(format, sizeof(format), "%s %%s ", option);
	out->number(option, format, value, text);
}

/**
 * link_print_permille() - print an option that is a percentage
 * @out: how
 * @option: its name
 * @permille: its value
 */
void link_print_permille(const struct link_output *out, const char *option,
			 __u64 permille)
{
	char text[UNITS_TEXT];

	print_option(out, option, permille,
		     units_permille_exact(text, permille));
}

static const char *rate_text(char *text, __u64 rate)
{
	return rate ? units_rate_exact(text, rate) : "auto";
}

static const char *epoch_text(char *text, __u64 epoch)
{
	return epoch ? units_time_exact(text, epoch) : "0";
}

/* Text only if there are keys. */
static void print_key_ids(const struct link_output *out, const __u8 *id,
			  size_t count)
{
	char text[LINK_KEYS_MAX * sizeof("255,") + sizeof("keys  ")] = "";
	size_t n, at = 0;

	for (n = 0; n < count; n++)
		at += snprintf(text + at, sizeof(text) - at, "%s%u",
			       n ? "," : "keys ", id[n]);
	out->numbers("keys", id, count, count ? strcat(text, " ") : text);
}

/**
 * link_print_options() - print the options of the qdisc, in one line
 * @out: how
 * @attributes: their attributes
 */
void link_print_options(const struct link_output *out,
			const struct link_attributes *attributes)
{
	const bool *present = attributes->present;
	const __u64 *value = attributes->value;
	char text[UNITS_TEXT];

	if (present[TCA_SLBN_RATE])
		print_option(out, "rate", value[TCA_SLBN_RATE],
			     rate_text(text, value[TCA_SLBN_RATE]));
	if (present[TCA_SLBN_EPOCH])
		print_option(out, "epoch", value[TCA_SLBN_EPOCH],
			     epoch_text(text, value[TCA_SLBN_EPOCH]));
	if (present[TCA_SLBN_MEMORY])
		print_count(out, "memory", "memory %s ",
			    value[TCA_SLBN_MEMORY]);
	if (present[TCA_SLBN_MEMORY_TIME]) {
		units_time_exact(text, value[TCA_SLBN_MEMORY_TIME]);
		out->number("memory_time", "memory %s ",
			    value[TCA_SLBN_MEMORY_TIME], text);
	}
	if (present[TCA_SLBN_CONTROL])
		link_print_permille(out, "control", value[TCA_SLBN_CONTROL]);
	if (value[TCA_SLBN_HEADROOM_AUTO])
		out->flag("headroom_auto", true, "headroom auto ");
	else if (present[TCA_SLBN_HEADROOM])
		link_print_permille(out, "headroom", value[TCA_SLBN_HEADROOM]);
	/* If it has an effect, or will have. */
	if (present[TCA_SLBN_UNASSIGNED] &&
	    (value[TCA_SLBN_HEADROOM_AUTO] ||
	     value[TCA_SLBN_UNASSIGNED] != SLBN_UNASSIGNED_DEFAULT))
		link_print_permille(out, "unassigned",
				    value[TCA_SLBN_UNASSIGNED]);
	if (present[TCA_SLBN_COMMIT])
		out->flag("commit", value[TCA_SLBN_COMMIT],
			  value[TCA_SLBN_COMMIT] ? "commit on " :
						   "commit off ");
	/* If it is not the default. */
	if (present[TCA_SLBN_QUIET] && value[TCA_SLBN_QUIET])
		print_option(out, "quiet", value[TCA_SLBN_QUIET],
			     units_time_exact(text, value[TCA_SLBN_QUIET]));
	if (present[TCA_SLBN_EDGE])
		out->flag("edge", value[TCA_SLBN_EDGE],
			  value[TCA_SLBN_EDGE] ? "edge " : "no-edge ");
	if (present[TCA_SLBN_KEY_IDS])
		print_key_ids(out, attributes->key_id, value[TCA_SLBN_KEY_IDS]);
}

/**
 * link_print_summary() - print capacity, fair share, sessions and what they hold,
 *	in one line
 * @out: how
 * @state: the state
 */
void link_print_summary(const struct link_output *out,
			const struct slbn_link_state *state)
{
	print_rate(out, "capacity", "  capacity %s", state->capacity);
	print_rate(out, "plan", " plan %s", state->plan);
	print_rate(out, "share", " share %s", state->share);
	print_count(out, "sessions", " sessions %s",
		    state->cur.N + state->prev.N);
	print_count(out, "restricted", " restricted %s",
		    state->cur.NR + state->prev.NR);
	print_rate(out, "held", " held %s", state->cur.A + state->prev.A);
	print_quiet(out, state->quiet);
}

#define COUNTER(member, format, of)                                \
	{                                                          \
		.name = #member, .text = format,                   \
		.field = offsetof(struct slbn_link_state, member), \
		.group = of,                                       \
	}

/* A text that starts with two spaces starts a line. */
const struct link_counter link_counters[] = {
	COUNTER(joins, "  joins %s", LINK_PACKETS),
	COUNTER(probes, " probes %s", LINK_PACKETS),
	COUNTER(acks, " acks %s", LINK_PACKETS),
	COUNTER(leaves, " leaves %s", LINK_PACKETS),
	COUNTER(leave_acks, " leave_acks %s", LINK_PACKETS),
	COUNTER(answered, " answered %s", LINK_OTHER),
	COUNTER(new_sessions, "  new %s", LINK_LEDGER_EVENTS),
	COUNTER(limited, " limited %s", LINK_LEDGER_EVENTS),
	COUNTER(migrated, " migrated %s", LINK_LEDGER_EVENTS),
	COUNTER(corrected, " corrected %s", LINK_LEDGER_EVENTS),
	COUNTER(clamped, " clamped %s", LINK_LEDGER_EVENTS),
	COUNTER(memory_entries, " memory %s entries", LINK_OTHER),
	COUNTER(memory_bytes, " %s bytes", LINK_OTHER),
	COUNTER(events, " events %s", LINK_OTHER),
	COUNTER(stale, "  dropped: stale %s", LINK_DROPPED),
	COUNTER(wrong_path, " wrong_path %s", LINK_DROPPED),
	COUNTER(too_many_hops, " too_many_hops %s", LINK_DROPPED),
	COUNTER(overuse, " overuse %s", LINK_DROPPED),
	COUNTER(malformed, " malformed %s", LINK_DROPPED),
	COUNTER(other_version, " other_version %s", LINK_DROPPED),
	COUNTER(bad_checksum, " bad_checksum %s", LINK_DROPPED),
	COUNTER(fragments, "   fragments %s", LINK_DROPPED),
	COUNTER(bad_key, " bad_key %s", LINK_DROPPED),
	COUNTER(unknown_key, " unknown_key %s", LINK_DROPPED),
	COUNTER(bad_time, " bad_time %s", LINK_DROPPED),
	COUNTER(rate_limited, " rate_limited %s", LINK_DROPPED),
	COUNTER(bad_return, "   bad_return %s", LINK_DROPPED),
	COUNTER(unknown_link, " unknown_link %s", LINK_DROPPED),
	COUNTER(no_address, " no_address %s", LINK_DROPPED),
	COUNTER(from_hosts, " from_hosts %s", LINK_DROPPED),
	COUNTER(from_users, " from_users %s", LINK_DROPPED),
	COUNTER(icmp_dropped, " icmp_dropped %s", LINK_DROPPED),
	COUNTER(bypassed, "  bypassed %s", LINK_OTHER),
	{}
};

/**
 * link_counter_value() - read a counter
 * @counter: of link_counters
 * @state: the state
 *
 * Return: its value.
 */
__u64 link_counter_value(const struct link_counter *counter,
			 const struct slbn_link_state *state)
{
	__u64 value;

	memcpy(&value, (const char *)state + counter->field, sizeof(value));
	return value;
}

/**
 * link_print_details() - print ledgers, memory and counters
 * @out: how
 * @state: the state
 */
void link_print_details(const struct link_output *out,
			const struct slbn_link_state *state)
{
	const struct link_counter *counter;

	print_count(out, "N", "  current N %s", state->cur.N);
	print_count(out, "NR", " NR %s", state->cur.NR);
	print_rate(out, "BF", " BF %s", state->cur.BF);
	print_rate(out, "A", " A %s", state->cur.A);
	print_count(out, "tag", " tag %s", state->tag);
	print_count(out, "previous_N", "  previous N %s", state->prev.N);
	print_count(out, "previous_NR", " NR %s", state->prev.NR);
	print_rate(out, "previous_BF", " BF %s", state->prev.BF);
	print_rate(out, "previous_A", " A %s", state->prev.A);
	print_count(out, "previous_tag", " tag %s", state->prev_tag);
	for (counter = link_counters; counter->name; counter++) {
		if (!strncmp(counter->text, "  ", 2))
			out->newline();
		print_count(out, counter->name, counter->text,
			    link_counter_value(counter, state));
	}
}
