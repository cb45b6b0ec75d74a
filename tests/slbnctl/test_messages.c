// SPDX-License-Identifier: GPL-2.0
/*
 * What slbnctl reads from the kernel, of other versions than its own and of no
 * version at all: structures that are longer or shorter, attributes that are
 * missing, twice, or too short; and plain nonsense. The sanitizers see that
 * nothing is read beyond its end: each message stands in a block of memory of
 * just its size.
 */
#include "unit.h"

#include "../../userspace/slbnctl/genl.c"
#include "../../userspace/slbnctl/show.c"
#include "../../userspace/slbnctl/link.c"

void end_when_interrupted(void)
{
}

bool json;

#define FAMILY 33

/* @from in a block of its own size, to the next multiple of 4 as on a socket. */
static struct nlmsghdr *copy_of(const struct nlmsghdr *from)
{
	struct nlmsghdr *message = calloc(1, MNL_ALIGN(from->nlmsg_len));

	return memcpy(message, from, from->nlmsg_len);
}

/* A link that the kernel describes, with @size octets of its state. */
static struct nlmsghdr *described(const void *state, size_t size)
{
	struct genl_room room = {};
	const struct genl genl = { .family = FAMILY };
	struct nlmsghdr *message;

	message = genl_message(&genl, &room, SLBN_C_SHARE_EVENT, 0);
	mnl_attr_put_u32(message, SLBN_A_IFINDEX, 7);
	mnl_attr_put_strz(message, SLBN_A_IFNAME, "eth7");
	mnl_attr_put_u32(message, SLBN_A_HANDLE, 0x10000);
	mnl_attr_put_u64(message, SLBN_A_RATE, 5000000);
	mnl_attr_put_u32(message, SLBN_A_MAX + 1, 1);
	mnl_attr_put(message, SLBN_A_STATE, size, state);
	return copy_of(message);
}

/* Octets of the state that are known: the others are zeros or left out. */
static void a_state_of_any_length(void **state)
{
	__u8 sent[sizeof(struct slbn_link_state) + 64];
	size_t size;

	(void)state;
	memset(sent, 0x5a, sizeof(sent));
	for (size = 0; size <= sizeof(sent); size++) {
		struct nlmsghdr *message = described(sent, size);
		struct slbn_link_state expected = {};
		struct link link;

		memcpy(&expected, sent,
		       size < sizeof(expected) ? size : sizeof(expected));
		assert_true(read_link(message, &link));
		assert_memory_equal(&link.state, &expected, sizeof(expected));
		assert_string_equal(link.name, "eth7");
		assert_int_equal(link.options.value[SLBN_A_RATE], 5000000);
		free(message);
	}
}

/* What is printed meanwhile goes here. */
static FILE *output_to(char **text, size_t *length)
{
	FILE *before = stdout;

	stdout = open_memstream(text, length);
	assert_non_null(stdout);
	return before;
}

static void text_and_json_have_each_number(void **state)
{
	struct slbn_link_state sent = {};
	struct nlmsghdr *message;
	struct json_object *read;
	struct link link;
	char *text;
	size_t length;
	FILE *before;

	(void)state;
	sent.capacity = ~0ULL;
	sent.share = 1;
	sent.cur.N = 3;
	sent.prev.N = 4;
	sent.tag = 65535;
	sent.rate_limited = 1ULL << 63;
	message = described(&sent, sizeof(sent));
	assert_true(read_link(message, &link));
	/* It may be called what it likes. */
	strcpy(link.name, "\"\\e%s\n");

	json = true;
	before = output_to(&text, &length);
	show_link(&link);
	fclose(stdout);
	stdout = before;
	read = json_tokener_parse(text);
	assert_non_null(read);
#define NUMBER(key) json_object_get_uint64(json_object_object_get(read, key))
	assert_int_equal(NUMBER("ifindex"), 7);
	assert_true(NUMBER("capacity") == ~0ULL);
	assert_int_equal(NUMBER("sessions"), 7);
	assert_int_equal(NUMBER("tag"), 65535);
	assert_true(NUMBER("rate_limited") == 1ULL << 63);
	assert_string_equal(
		json_object_get_string(json_object_object_get(read, "dev")),
		link.name);
	json_object_put(read);
	free(text);

	json = false;
	before = output_to(&text, &length);
	show_link(&link);
	fclose(stdout);
	stdout = before;
	assert_int_equal(strncmp(text, "\"\\e%s\n: slbn 1: rate 5Mbit", 25), 0);
	assert_non_null(strstr(text, "capacity 1.84467e+07Tbit share 1bit"));
	assert_non_null(strstr(text, " sessions 7 "));
	assert_non_null(strstr(text, " rate_limited 9223372036854775808\n"));
	free(text);
	free(message);
}

static void put_nonsense(struct nlmsghdr *message, u32 attributes)
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

/* Any type, any end: what one recv() may hold, read as an answer and an event. */
static void nonsense(void **state)
{
	struct monitor monitor = { .genl.family = FAMILY };
	FILE *shown = stdout, *complained = stderr;
	u64 sound = 0;

	(void)state;
	for (unit_step = 0; unit_step < 300000; unit_step++) {
		struct genl_room room[4] = {};
		struct links links = {};
		struct asked asked = { "about", collect, &links };
		struct nlmsghdr *message = mnl_nlmsg_put_header(room);
		char *text, *said;
		size_t length, size;

		message->nlmsg_type = one_in(4) ? rnd_in(0, 5) : FAMILY;
		message->nlmsg_flags = one_in(3) ? rnd() & ~NLM_F_DUMP_INTR : 0;
		if (!one_in(16)) {
			struct genlmsghdr *head = mnl_nlmsg_put_extra_header(
				message, sizeof(*head));

			head->cmd = SLBN_C_SHARE_EVENT;
		}
		if (!one_in(16))
			mnl_attr_put_u32(message, SLBN_A_IFINDEX, rnd());
		if (message->nlmsg_type == NLMSG_ERROR && !one_in(4)) {
			struct nlmsgerr *err = mnl_nlmsg_put_extra_header(
				message, sizeof(*err));

			err->error = -(int)rnd_in(0, 200);
			err->msg.nlmsg_len = one_in(4) ? rnd() : rnd_in(0, 64);
		}
		put_nonsense(message, rnd_in(0, 8));
		/* The head is the kernel's netlink's own, and libmnl trusts it. */
		if (one_in(16))
			message->nlmsg_len =
				rnd_in(sizeof(*message), message->nlmsg_len);
		size = message->nlmsg_len;
		message = copy_of(message);

		json = one_in(2);
		stderr = open_memstream(&said, &length);
		stdout = open_memstream(&text, &length);
		mnl_cb_run2(message, size, 0, 0, answer, &asked, ends,
			    NLMSG_MIN_TYPE);
		show_links(&links);
		sound += links.count;
		mnl_cb_run2(message, size, 0, 0, show_event, &monitor, ends, 0);
		mnl_cb_run2(message, size, 0, 0, describe, &monitor.genl, ends,
			    0);
		monitor.genl.family = FAMILY;
		fclose(stdout);
		fclose(stderr);
		stdout = shown;
		stderr = complained;
		free(text);
		free(said);
		free(links.link);
		free(message);
	}
	printf("# %llu were links\n", sound);
	CHECK(sound > 10000, "%llu links", sound);
}

/* The kernel's words, whether or not it repeats the request. */
static void refusals(void **state)
{
	static const char *const flags[] = { "capped", "not capped" };
	u32 capped;

	(void)state;
	for (capped = 0; capped < ARRAY_SIZE(flags); capped++) {
		struct genl_room room = {};
		struct nlmsghdr *message = mnl_nlmsg_put_header(&room);
		struct asked asked = { "eth7", NULL, NULL };
		FILE *before = stderr;
		struct nlmsgerr *err;
		size_t length;
		char *said;

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
		stderr = open_memstream(&said, &length);
		assert_int_equal(end(message, &asked), MNL_CB_ERROR);
		fclose(stderr);
		stderr = before;
		assert_int_equal(errno, 0);
		assert_string_equal(said, "slbnctl: eth7: not like that\n");
		free(said);
		free(message);
	}
}

static const struct CMUnitTest tests[] = {
	UNIT_TEST(a_state_of_any_length),
	UNIT_TEST(text_and_json_have_each_number),
	UNIT_TEST(nonsense),
	UNIT_TEST(refusals),
};

UNIT_MAIN(tests)
