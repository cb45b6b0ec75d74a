// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl's parser of messages from the kernel, of other versions or malformed:
 * structures that are longer or shorter, attributes that are missing, duplicate
 * or too short, and random octets. Each message is allocated with its exact size,
 * so that the sanitizers find every read beyond its end.
 */
#include "unit.h"

#include <errno.h>
#include <json-c/json.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../userspace/slbnctl/link.h"
#include "../../userspace/slbnctl/metrics.h"
#include "../../userspace/slbnctl/show.h"
#include "../../userspace/slbnctl/slbnctl.h"

void exit_on_signal(void)
{
}

bool json;

#define FAMILY 33

/* A copy of @from in a block of its size, padded to 4 octets as on a socket. */
static struct nlmsghdr *copy_of(const struct nlmsghdr *from)
{
	struct nlmsghdr *message = calloc(1, MNL_ALIGN(from->nlmsg_len));

	return memcpy(message, from, from->nlmsg_len);
}

/* A message about a link, with the first @count fields of its state. */
static struct nlmsghdr *link_message(const void *state, size_t count)
{
	struct genl_buffer buffer[2] = {};
	const struct genl genl = { .family = FAMILY };
	const __u64 *fields = state;
	struct nlmsghdr *message;
	struct nlattr *nest;
	size_t n;

	message = genl_message(&genl, buffer, SLBN_C_SHARE_EVENT, 0);
	mnl_attr_put_u32(message, SLBN_A_IFINDEX, 7);
	mnl_attr_put_strz(message, SLBN_A_IFNAME, "eth7");
	mnl_attr_put_u32(message, SLBN_A_HANDLE, 0x10000);
	nest = mnl_attr_nest_start(message, SLBN_A_OPTIONS);
	mnl_attr_put_u64(message, TCA_SLBN_RATE, 5000000);
	mnl_attr_put_u32(message, TCA_SLBN_MAX + 1, 1);
	mnl_attr_nest_end(message, nest);
	mnl_attr_put_u32(message, SLBN_A_MAX + 1, 1);
	nest = mnl_attr_nest_start(message, SLBN_A_STATE);
	for (n = 0; n < count; n++)
		mnl_attr_put_u64(message, SLBN_A_STATE_FIRST + n, fields[n]);
	mnl_attr_nest_end(message, nest);
	return copy_of(message);
}

#define STATE_FIELDS (sizeof(struct slbn_link_state) / sizeof(__u64))

/* Missing fields of the state are read as 0, unknown ones are ignored. */
UNIT_TEST(state_of_any_length)
{
	__u8 sent[sizeof(struct slbn_link_state) + 64];
	size_t count;

	memset(sent, 0x5a, sizeof(sent));
	for (count = 0; count <= STATE_FIELDS + 8; count++) {
		struct nlmsghdr *message = link_message(sent, count);
		struct slbn_link_state expected = {};
		struct link link;

		memcpy(&expected, sent,
		       (count < STATE_FIELDS ? count : STATE_FIELDS) *
			       sizeof(__u64));
		assert_true(link_read(message, &link));
		assert_memory_equal(&link.state, &expected, sizeof(expected));
		assert_string_equal(link.name, "eth7");
		assert_int_equal(link.attributes.value[TCA_SLBN_RATE], 5000000);
		free(message);
	}
}

/* Redirect standard output to memory; returns the previous one. */
static FILE *redirect_stdout(char **text, size_t *length)
{
	FILE *before = stdout;

	stdout = open_memstream(text, length);
	assert_non_null(stdout);
	return before;
}

UNIT_TEST(text_and_json_have_all_numbers)
{
	struct slbn_link_state sent = {};
	struct nlmsghdr *message;
	struct json_object *read;
	struct link link;
	char *text;
	size_t length;
	FILE *before;

	sent.capacity = ~0ULL;
	sent.plan = 2;
	sent.share = 1;
	sent.quiet = 1;
	sent.cur.A = 5;
	sent.prev.A = 6;
	sent.cur.N = 3;
	sent.prev.N = 4;
	sent.tag = 65535;
	sent.rate_limited = 1ULL << 63;
	message = link_message(&sent, STATE_FIELDS);
	assert_true(link_read(message, &link));
	/* Device names may have any characters. */
	strcpy(link.name, "\"\\e%s\n");

	json = true;
	before = redirect_stdout(&text, &length);
	link_show(&link);
	fclose(stdout);
	stdout = before;
	read = json_tokener_parse(text);
	assert_non_null(read);
#define NUMBER(key) json_object_get_uint64(json_object_object_get(read, key))
	assert_int_equal(NUMBER("ifindex"), 7);
	assert_true(NUMBER("capacity") == ~0ULL);
	assert_int_equal(NUMBER("sessions"), 7);
	assert_int_equal(NUMBER("tag"), 65535);
	assert_int_equal(NUMBER("quiet"), 1);
	assert_int_equal(NUMBER("held"), 11);
	assert_true(NUMBER("rate_limited") == 1ULL << 63);
	assert_string_equal(
		json_object_get_string(json_object_object_get(read, "dev")),
		link.name);
	json_object_put(read);
	free(text);

	json = false;
	before = redirect_stdout(&text, &length);
	link_show(&link);
	fclose(stdout);
	stdout = before;
	assert_int_equal(strncmp(text, "\"\\e%s\n: slbn 1: rate 5Mbit", 25), 0);
	assert_non_null(
		strstr(text, "capacity 1.84467e+07Tbit plan 2bit share 1bit"));
	assert_non_null(strstr(text, " sessions 7 "));
	assert_non_null(strstr(text, " held 11bit quiet 1ms\n"));
	assert_non_null(strstr(text, " rate_limited 9223372036854775808\n"));
	free(text);
	free(message);
}

/* Print a name in JSON, or as the label of a metric. */
static char *printed(const char *name, bool in_json)
{
	FILE *before;
	size_t length;
	char *text;

	before = redirect_stdout(&text, &length);
	json = in_json;
	if (json) {
		show_begin();
		show_string("dev", "%s", name);
		show_end();
	} else {
		metric_family("links", METRIC_GAUGE, "Links.");
		metric_label("device", name);
		metric_count(1);
	}
	fclose(stdout);
	stdout = before;
	return text;
}

/* Readers refuse a document with others: each octet that is not is U+FFFD. */
UNIT_TEST(names_are_utf8)
{
	static const struct {
		const char *name;
		const char *shown;
	} names[] = {
		{ "eth0", "eth0" },
		{ "\u00e9\u20ac\U0001f517", "\u00e9\u20ac\U0001f517" },
		/* Latin-1. */
		{ "\xe9t\xe9", "\ufffdt\ufffd" },
		{ "\x80\xbf\xff", "\ufffd\ufffd\ufffd" },
		/* The first and the last characters of each length. */
		{ "\u00a0\u07ff\u0800\uffff", "\u00a0\u07ff\u0800\uffff" },
		{ "\xc2\x80", "\xc2\x80" },
		{ "\U00010000\U0010ffff", "\U00010000\U0010ffff" },
		/* In too many octets, a surrogate, and beyond Unicode. */
		{ "\xc1\xbf", "\ufffd\ufffd" },
		{ "\xe0\x9f\xbf", "\ufffd\ufffd\ufffd" },
		{ "\xf0\x8f\xbf\xbf", "\ufffd\ufffd\ufffd\ufffd" },
		{ "\xed\xa0\x80", "\ufffd\ufffd\ufffd" },
		{ "\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd" },
		{ "\xf8\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd" },
		/* Incomplete. */
		{ "\xe2\x82", "\ufffd\ufffd" },
		{ "\xe2\x82-", "\ufffd\ufffd-" },
	};
	char expected[200], *text;
	size_t n;

	for (n = 0; n < ARRAY_SIZE(names); n++) {
		text = printed(names[n].name, true);
		snprintf(expected, sizeof(expected),
			 "{\"version\":1,\"dev\":\"%s\"}", names[n].shown);
		assert_string_equal(text, expected);
		free(text);
		text = printed(names[n].name, false);
		snprintf(expected, sizeof(expected), "{device=\"%s\"} 1\n",
			 names[n].shown);
		assert_non_null(strstr(text, expected));
		free(text);
	}
}

static void put_random_attributes(struct nlmsghdr *message, u32 attributes)
{
	u8 payload[400];
	size_t i;

	while (attributes--) {
		struct nlattr *attr = mnl_nlmsg_get_payload_tail(message);
		size_t length = one_in(3) ? rnd_in(0, 400) : rnd_in(0, 16);

		for (i = 0; i < length; i++)
			payload[i] = one_in(3) ? rnd() : rnd_in(0, 20);
		mnl_attr_put(message, rnd_in(0, SLBN_A_MAX + 2), length,
			     payload);
		if (one_in(12))
			attr->nla_len = one_in(2) ? rnd() : rnd_in(0, 40);
	}
}

/* Random messages of any type, read as replies and as events. */
UNIT_TEST(random_messages)
{
	struct link_monitor monitor = { .genl.family = FAMILY };
	FILE *shown = stdout, *errors = stderr;
	u64 valid = 0;

	for (unit_step = 0; unit_step < 300000; unit_step++) {
		struct genl_buffer buffer[4] = {};
		struct links links = {};
		struct genl_call call = { "subject", link_collect, &links };
		struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
		char *text, *error;
		size_t length, size;

		message->nlmsg_type = one_in(4) ? rnd_in(0, 5) : FAMILY;
		message->nlmsg_flags = one_in(3) ? rnd() & ~NLM_F_DUMP_INTR : 0;
		if (!one_in(16)) {
			struct genlmsghdr *head = mnl_nlmsg_put_extra_header(
				message, sizeof(*head));

			head->cmd = rnd_in(0, SLBN_C_LINK_DEL_NTF + 1);
		}
		if (!one_in(16))
			mnl_attr_put_u32(message, SLBN_A_IFINDEX, rnd());
		if (message->nlmsg_type == NLMSG_ERROR && !one_in(4)) {
			struct nlmsgerr *err = mnl_nlmsg_put_extra_header(
				message, sizeof(*err));

			err->error = -(int)rnd_in(0, 200);
			err->msg.nlmsg_len = one_in(4) ? rnd() : rnd_in(0, 64);
		}
		put_random_attributes(message, rnd_in(0, 8));
		/* libmnl trusts the header, which the kernel's netlink writes. */
		if (one_in(16))
			message->nlmsg_len =
				rnd_in(sizeof(*message), message->nlmsg_len);
		size = message->nlmsg_len;
		message = copy_of(message);

		json = one_in(2);
		stderr = open_memstream(&error, &length);
		stdout = open_memstream(&text, &length);
		genl_process(message, size, 0, 0, &call);
		links_show(&links);
		valid += links.count;
		mnl_cb_run(message, size, 0, 0, link_show_event, &monitor);
		mnl_cb_run(message, size, 0, 0, genl_read_family,
			   &monitor.genl);
		monitor.genl.family = FAMILY;
		fclose(stdout);
		fclose(stderr);
		stdout = shown;
		stderr = errors;
		free(text);
		free(error);
		free(links.link);
		free(message);
	}
	printf("# %llu links\n", valid);
	CHECK(valid > 10000, "%llu links", valid);
}

/* The kernel's explanation is printed, whether or not the ack has our request. */
UNIT_TEST(errors_are_explained)
{
	static const char *const flags[] = { "capped", "not capped" };
	u32 capped;

	for (capped = 0; capped < ARRAY_SIZE(flags); capped++) {
		struct genl_buffer buffer = {};
		struct nlmsghdr *message = mnl_nlmsg_put_header(&buffer);
		struct genl_call call = { "eth7", NULL, NULL };
		FILE *before = stderr;
		struct nlmsgerr *err;
		size_t length;
		char *error;

		message->nlmsg_type = NLMSG_ERROR;
		message->nlmsg_flags =
			NLM_F_ACK_TLVS | (capped ? NLM_F_CAPPED : 0);
		err = mnl_nlmsg_put_extra_header(message, sizeof(*err));
		err->error = -EINVAL;
		err->msg.nlmsg_len = sizeof(err->msg) + 24;
		if (!capped)
			mnl_nlmsg_put_extra_header(message, 24);
		mnl_attr_put_u32(message, NLMSGERR_ATTR_OFFS, 5);
		mnl_attr_put_strz(message, NLMSGERR_ATTR_MSG, "not like that");
		message = copy_of(message);
		stderr = open_memstream(&error, &length);
		assert_int_equal(
			genl_process(message, message->nlmsg_len, 0, 0, &call),
			MNL_CB_ERROR);
		fclose(stderr);
		stderr = before;
		assert_int_equal(errno, 0);
		assert_string_equal(error, "slbnctl: eth7: not like that\n");
		free(error);
		free(message);
	}
}

UNIT_MAIN()
