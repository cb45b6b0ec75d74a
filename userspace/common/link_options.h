/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Options, state and counters of an SLBN link, for tc's plugin and slbnctl:
 * parses options into netlink attributes, and prints attributes, state and
 * counters as text or JSON. Both programs thus accept the same options and show
 * the same numbers.
 *
 * Options that are wrong by themselves are refused with one line on stderr;
 * what depends on the device is checked by the kernel. An attribute is sent
 * only if its option was given, so that a change leaves the others as they are.
 * Printed options can be given back to tc, except the key, which the kernel
 * does not reveal.
 */
#ifndef FAIRPATH_LINK_OPTIONS_H
#define FAIRPATH_LINK_OPTIONS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <fairpath/slbn_netlink.h>

/* Keys of a link that are shown; the kernel allows two. */
#define LINK_KEYS_MAX 8

/**
 * struct link_request - parsed options
 * @program: prefix of error messages
 * @genetlink: the request goes to the generic netlink family, which has options
 *	that the qdisc does not have
 * @option: by attribute, the option that was given; NULL: none
 * @value: by attribute, except the key
 * @key: the key; its number is a value
 * @key_length: octets of @key; 0: "key none"
 */
struct link_request {
	const char *program;
	bool genetlink;
	const char *option[TCA_SLBN_MAX + 1];
	__u64 value[TCA_SLBN_MAX + 1];
	__u8 key[SLBN_KEY_LENGTH];
	size_t key_length;
};

/**
 * struct link_attributes - attributes from the kernel that are numbers, and the
 *	numbers of the keys
 * @present: by attribute
 * @value: by attribute; of TCA_SLBN_KEY_IDS how many
 * @key_id: numbers of the keys, the newest last
 */
struct link_attributes {
	bool present[TCA_SLBN_MAX + 1];
	__u64 value[TCA_SLBN_MAX + 1];
	__u8 key_id[LINK_KEYS_MAX];
};

/**
 * struct link_output - how a program prints, as text or JSON
 * @number: print @value under @key in JSON; @text as text, by @format, which
 *	has one %s
 * @flag: print @value under @key in JSON; @text as text, unless it is NULL
 * @numbers: print @count of @value under @key as an array in JSON; @text as text
 * @newline: end a line of text
 */
struct link_output {
	void (*number)(const char *key, const char *format, __u64 value,
		       const char *text);
	void (*flag)(const char *key, bool value, const char *text);
	void (*numbers)(const char *key, const __u8 *value, size_t count,
			const char *text);
	void (*newline)(void);
};

/**
 * enum link_counter_group - counters that belong together
 * @LINK_OTHER: none of the others
 * @LINK_PACKETS: control packets that the link processed
 * @LINK_LEDGER_EVENTS: exceptional changes of the ledgers
 * @LINK_DROPPED: control packets that the link dropped
 */
enum link_counter_group {
	LINK_OTHER,
	LINK_PACKETS,
	LINK_LEDGER_EVENTS,
	LINK_DROPPED,
};

/**
 * struct link_counter - a counter of a link, for every program that shows it
 * @name: of its field in struct slbn_link_state, and in JSON
 * @text: format as text, with one %s
 * @field: offset of the field
 * @group: its group
 */
struct link_counter {
	const char *name;
	const char *text;
	size_t field;
	enum link_counter_group group;
};

/* All counters, in the order in which they are printed; @name is NULL at the end. */
extern const struct link_counter link_counters[];

__u64 link_counter_value(const struct link_counter *counter,
			 const struct slbn_link_state *state);

bool link_key_parse(char *line, __u8 *id, __u8 key[SLBN_KEY_LENGTH]);
bool link_key_read(const char *program, const char *name, __u8 *id,
		   __u8 key[SLBN_KEY_LENGTH]);
int link_request_parse(struct link_request *request, int argc, char **argv);
const void *link_request_payload(const struct link_request *request,
				 int attribute, __u64 *number, size_t *length);

void link_attributes_read(struct link_attributes *attributes,
			  unsigned int attribute, const void *payload,
			  size_t length);
void link_state_read(struct slbn_link_state *state, const void *payload,
		     size_t length);
void link_state_read_attribute(struct slbn_link_state *state,
			       unsigned int attribute, const void *payload,
			       size_t length);

void link_print_permille(const struct link_output *out, const char *option,
			 __u64 permille);
void link_print_options(const struct link_output *out,
			const struct link_attributes *attributes);
void link_print_summary(const struct link_output *out,
			const struct slbn_link_state *state);
void link_print_details(const struct link_output *out,
			const struct slbn_link_state *state);

#endif /* FAIRPATH_LINK_OPTIONS_H */
