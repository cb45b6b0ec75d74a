// SPDX-License-Identifier: GPL-2.0
/*
 * tc plugin for the qdisc slbn: parse options into attributes, print
 * attributes, state and counters as text and JSON.
 *
 * include/uapi/fairpath/slbn_netlink.h is the interface to the kernel,
 * tc_plugin.h the one to tc. link_options.h has the options and the output, as
 * for slbnctl; this file connects it to tc. The kernel checks what depends on
 * the device (whether it reports its speed).
 */
#include "../common/link_options.h"
#include "tc_plugin.h"

static const struct link_output output = {
	.number = print_number,
	.flag = print_flag,
	.numbers = print_numbers,
	.newline = print_nl,
};

static void explain(void)
{
	fputs("Usage: ... slbn [ rate RATE | rate auto* ] [ epoch TIME ]\n"
	      "                [ memory ENTRIES | memory TIME ] [ control PERCENT ]\n"
	      "                [ headroom PERCENT | headroom auto ] [ unassigned PERCENT ]\n"
	      "                [ commit on* | commit off ]\n"
	      "                [ quiet TIME ] [ edge | no-edge* ]\n"
	      "                [ key file FILE | key none* ]\n"
	      "\n"
	      "  rate     rate of the link; 1kbit to 1tbit (* auto: the device's speed,\n"
	      "           updated when it changes)\n"
	      "  epoch    minimum time until a silent session is removed; 10ms to 3600s;\n"
	      "           0: never, as in the paper (* 1s)\n"
	      "  memory   size of the table of recent packets, 0 to 4194304 entries; or\n"
	      "           enough for the control packets of this time, at most 60s (* 1s)\n"
	      "  control  limit of control packets, in percent of the rate; 0.1% to 100%\n"
	      "           (* 5%)\n"
	      "  headroom part of the rate that fair shares leave free for control packets\n"
	      "           and new sessions; 0% to 50% (* 5%); auto: what control packets\n"
	      "           take, unassigned, and 0.5%\n"
	      "  unassigned the most that packets without a session take, for headroom\n"
	      "           auto; 0% to 50% (* 5%)\n"
	      "  commit   on: no session's rate rises before others have released what it\n"
	      "           gets, so the rates in use never exceed the link's rate; off: as\n"
	      "           in the paper (* on)\n"
	      "  quiet    time after a start in which no rate rises: the longest lease of a\n"
	      "           source; 10ms to 3600s, or 0 (* 0: 1s, or the epoch if it is longer)\n"
	      "  edge     link towards hosts: drop control packets from them, and answer\n"
	      "           for them (* no-edge)\n"
	      "  key      authenticates control packets: FILE has 32 hexadecimal digits, maybe\n"
	      "           behind the number of the key, and only its owner may access it\n"
	      "           (* none)\n"
	      "\n"
	      "A * marks the default. Classes: as the root MAJOR:N is TX queue N; below\n"
	      "another qdisc, MAJOR:1 has control packets, MAJOR:2 all others.\n",
	      stderr);
}

static int slbn_parse_opt(struct qdisc_util *util, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev)
{
	struct link_request request = {
		.program = "slbn",
	};
	struct rtattr *options;
	const void *payload;
	size_t length;
	__u64 number;
	int attribute;

	(void)util;
	(void)dev;
	while (argc > 0) {
		int used = link_request_parse(&request, argc, argv);

		if (!used) {
			if (strcmp(*argv, "help"))
				fprintf(stderr, "What is \"%s\"?\n", *argv);
			explain();
		}
		if (used < 1)
			return -1;
		argc -= used;
		argv += used;
	}
	options = addattr_nest(n, TC_PLUGIN_ROOM, TCA_OPTIONS | NLA_F_NESTED);
	for (attribute = 1; attribute <= TCA_SLBN_MAX; attribute++) {
		if (!request.option[attribute])
			continue;
		payload = link_request_payload(&request, attribute, &number,
					       &length);
		if (addattr_l(n, TC_PLUGIN_ROOM, attribute, payload, length))
			return -1;
	}
	addattr_nest_end(n, options);
	explicit_bzero(&request, sizeof(request));
	return 0;
}

static int slbn_print_opt(struct qdisc_util *util, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_SLBN_MAX + 1];
	struct link_attributes attributes = {};
	int attribute;

	(void)util;
	(void)f;
	if (!opt)
		return 0;
	parse_rtattr_flags(tb, TCA_SLBN_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt),
			   NLA_F_NESTED);
	for (attribute = 1; attribute <= TCA_SLBN_MAX; attribute++)
		if (tb[attribute])
			link_attributes_read(&attributes, attribute,
					     RTA_DATA(tb[attribute]),
					     RTA_PAYLOAD(tb[attribute]));
	link_print_options(&output, &attributes);
	return 0;
}

static int slbn_print_xstats(struct qdisc_util *util, FILE *f,
			     struct rtattr *xstats)
{
	struct slbn_link_state state;

	(void)util;
	(void)f;
	if (!xstats)
		return 0;
	link_state_read(&state, RTA_DATA(xstats), RTA_PAYLOAD(xstats));
	link_print_summary(&output, &state);
	print_nl();
	link_print_details(&output, &state);
	return 0;
}

TC_PLUGIN_EXPORT struct qdisc_util slbn_qdisc_util = {
	.id = "slbn",
	.parse_qopt = slbn_parse_opt,
	.print_qopt = slbn_print_opt,
	.print_xstats = slbn_print_xstats,
};
