// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl link: lists, shows, sets, resets and monitors the SLBN links of the
 * current network namespace.
 *
 * Options and output are those of link_options.h, shared with tc's plugin. The
 * kernel may be of another version: attributes may be missing, and the state
 * may be longer or shorter than ours.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/units.h"
#include "link.h"
#include "show.h"
#include "slbnctl.h"

/* Attempts to list links while the list changes. */
#define LIST_TRIES 10
#define LIST_CHANGES "the list of links changes too often to be read"

#define EVENTS_LOST "events were lost: they arrived faster than they were read"

/* Read SLBN_A_OPTIONS or SLBN_A_STATE. */
static void read_nest(const struct nlattr *nest, struct link *link)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, nest) {
		int type = mnl_attr_get_type(attr);
		const void *payload = mnl_attr_get_payload(attr);
		size_t length = mnl_attr_get_payload_len(attr);

		if (mnl_attr_get_type(nest) == SLBN_A_OPTIONS)
			link_attributes_read(&link->attributes, type, payload,
					     length);
		else
			link_state_read_attribute(&link->state, type, payload,
						  length);
	}
}

/**
 * link_read() - parse a message about a link
 * @message: the message
 * @link: set from it
 *
 * Return: whether @message describes a link.
 */
bool link_read(const struct nlmsghdr *message, struct link *link)
{
	const struct nlattr *attr;

	*link = (struct link){};
	if (mnl_nlmsg_get_payload_len(message) < sizeof(struct genlmsghdr))
		return false;
	mnl_attr_for_each(attr, message, sizeof(struct genlmsghdr)) {
		int type = mnl_attr_get_type(attr);
		const void *payload = mnl_attr_get_payload(attr);
		size_t length = mnl_attr_get_payload_len(attr);

		if (type == SLBN_A_IFNAME)
			snprintf(link->name, sizeof(link->name), "%.*s",
				 (int)length, (const char *)payload);
		else if (type == SLBN_A_IFINDEX && length == sizeof(__u32))
			link->ifindex = mnl_attr_get_u32(attr);
		else if (type == SLBN_A_HANDLE && length == sizeof(__u32))
			link->handle = mnl_attr_get_u32(attr);
		else if (type == SLBN_A_NUMBER && length == sizeof(__u16))
			link->number = mnl_attr_get_u16(attr);
		else if (type == SLBN_A_OPTIONS || type == SLBN_A_STATE)
			read_nest(attr, link);
	}
	return link->ifindex;
}

/**
 * link_collect() - append a link to an array
 * @message: a message about the link
 * @data: the struct links
 *
 * Return: MNL_CB_OK, or MNL_CB_ERROR without memory.
 */
int link_collect(const struct nlmsghdr *message, void *data)
{
	struct links *links = data;
	struct link *larger;

	larger = reallocarray(links->link, links->count + 1, sizeof(*larger));
	if (!larger)
		return MNL_CB_ERROR;
	links->link = larger;
	links->count += link_read(message, &larger[links->count]);
	return MNL_CB_OK;
}

static void show_identity(const struct link *link)
{
	char handle[UNITS_TEXT];

	snprintf(handle, sizeof(handle), "%x:", link->handle >> 16);
	if (json)
		show_count("ifindex", NULL, link->ifindex);
	show_string("dev", "%s: slbn ", link->name);
	show_string("handle", "%s", handle);
}

/**
 * link_show() - print a link: options, state and counters
 * @link: the link
 */
void link_show(const struct link *link)
{
	const struct link_attributes *attributes = &link->attributes;

	show_begin();
	show_identity(link);
	if (link->number)
		show_count("number", " number %s", link->number);
	if (!json)
		putchar(' ');
	show_nested("options");
	link_print_options(&show_output, attributes);
	if (attributes->present[TCA_SLBN_THRESHOLD])
		link_print_permille(&show_output, "threshold",
				    attributes->value[TCA_SLBN_THRESHOLD]);
	show_nested_end();
	show_newline();
	link_print_summary(&show_output, &link->state);
	show_newline();
	link_print_details(&show_output, &link->state);
	show_newline();
	show_end();
}

/**
 * links_show() - print links
 * @links: the links
 */
void links_show(const struct links *links)
{
	size_t i;

	if (json)
		putchar('[');
	for (i = 0; i < links->count; i++) {
		if (json && i)
			putchar(',');
		link_show(&links->link[i]);
	}
	if (json)
		puts("]");
}

/**
 * links_read() - read all links of this network namespace
 * @links: set; free @links->link afterwards
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool links_read(struct links *links)
{
	struct genl_buffer buffer;
	struct nlmsghdr *message;
	struct genl genl;
	bool done = false;
	int tries;

	*links = (struct links){};
	for (tries = LIST_TRIES; tries && !done; tries--) {
		links->count = 0;
		if (!genl_open(&genl))
			return false;
		message = genl_message(&genl, &buffer, SLBN_C_LINK_GET,
				       NLM_F_DUMP);
		done = genl_request(&genl, message, "list", link_collect,
				    links);
		genl_close(&genl);
		if (!done && errno != EINTR)
			return false;
	}
	if (!done)
		complain(LIST_CHANGES);
	return done;
}

/* Send a request about the link of the device @name; errors are printed. */
static enum status request_link(const char *name, int command,
				const struct link_request *request,
				mnl_cb_t reply, void *data)
{
	struct genl_buffer buffer;
	struct nlmsghdr *message;
	struct nlattr *nest;
	enum status status;
	struct genl genl;
	int attribute;

	if (strlen(name) >= IFNAMSIZ) {
		complain("%s: no such device", name);
		return STATUS_FAILED;
	}
	if (!genl_open(&genl))
		return STATUS_FAILED;
	message = genl_message(&genl, &buffer, command, 0);
	mnl_attr_put_strz(message, SLBN_A_IFNAME, name);
	nest = request ? mnl_attr_nest_start(message, SLBN_A_OPTIONS) : NULL;
	for (attribute = 1; request && attribute <= TCA_SLBN_MAX; attribute++) {
		const void *payload;
		size_t length;
		__u64 number;

		if (!request->option[attribute])
			continue;
		payload = link_request_payload(request, attribute, &number,
					       &length);
		mnl_attr_put(message, attribute, length, payload);
	}
	if (nest)
		mnl_attr_nest_end(message, nest);
	status = genl_request(&genl, message, name, reply, data) ?
			 STATUS_OK :
			 STATUS_FAILED;
	explicit_bzero(&buffer, sizeof(buffer));
	genl_close(&genl);
	return status;
}

/* Skip "dev" before the name of a device. */
static void skip_dev(int *argc, char ***argv)
{
	if (*argc > 1 && !strcmp(**argv, "dev")) {
		--*argc;
		++*argv;
	}
}

/**
 * links_read_one() - read the link of a device
 * @links: set; free @links->link afterwards
 * @name: the device
 *
 * Return: whether it succeeded; if not, the error has been printed.
 */
bool links_read_one(struct links *links, const char *name)
{
	*links = (struct links){};
	return request_link(name, SLBN_C_LINK_GET, NULL, link_collect, links) ==
	       STATUS_OK;
}

static enum status run_show(int argc, char **argv)
{
	struct links links;
	bool done;

	skip_dev(&argc, &argv);
	if (argc > 1) {
		complain("show takes at most one device; see --help");
		return STATUS_USAGE;
	}
	done = argc ? links_read_one(&links, *argv) : links_read(&links);
	if (done)
		links_show(&links);
	free(links.link);
	return done ? STATUS_OK : STATUS_FAILED;
}

static enum status run_reset(int argc, char **argv)
{
	skip_dev(&argc, &argv);
	if (argc != 1) {
		complain("reset takes one device; see --help");
		return STATUS_USAGE;
	}
	return request_link(*argv, SLBN_C_LINK_RESET, NULL, NULL, NULL);
}

static enum status run_set(int argc, char **argv)
{
	struct link_request request = {
		.program = "slbnctl",
		.genetlink = true,
	};
	enum status status;
	const char *name;

	skip_dev(&argc, &argv);
	if (argc < 2) {
		complain("set takes a device and options; see --help");
		return STATUS_USAGE;
	}
	name = *argv;
	for (argc--, argv++; argc;) {
		int consumed;

		consumed = link_request_parse(&request, argc, argv);
		if (!consumed)
			complain("unknown option \"%s\"; see --help", *argv);
		if (consumed < 1)
			return STATUS_USAGE;
		argc -= consumed;
		argv += consumed;
	}
	status = request_link(name, SLBN_C_LINK_SET, &request, NULL, NULL);
	explicit_bzero(&request, sizeof(request));
	return status;
}

static const char *const event_names[] = {
	[SLBN_C_SHARE_EVENT] = "share",
	[SLBN_C_LINK_ADD_NTF] = "added",
	[SLBN_C_LINK_CHANGE_NTF] = "changed",
	[SLBN_C_LINK_DEL_NTF] = "removed",
};

/* The name of an event; NULL: not an event. */
static const char *event_name(unsigned int command)
{
	return command < sizeof(event_names) / sizeof(*event_names) ?
		       event_names[command] :
		       NULL;
}

/**
 * link_show_event() - print an event of a link
 * @message: the event; others are ignored
 * @data: the struct link_monitor
 *
 * Return: MNL_CB_OK, or MNL_CB_ERROR if standard output fails.
 */
int link_show_event(const struct nlmsghdr *message, void *data)
{
	const struct genlmsghdr *head = mnl_nlmsg_get_payload(message);
	const struct link_monitor *monitor = data;
	const char *name;
	struct link link;

	if (message->nlmsg_type != monitor->genl.family ||
	    !link_read(message, &link))
		return MNL_CB_OK;
	name = event_name(head->cmd);
	if (!name || (monitor->ifindex && link.ifindex != monitor->ifindex))
		return MNL_CB_OK;
	show_begin();
	show_identity(&link);
	show_string("event", " %s", name);
	link_print_summary(&show_output, &link.state);
	if (json)
		link_print_details(&show_output, &link.state);
	else
		show_count("events", " events %s", link.state.events);
	if (head->cmd != SLBN_C_SHARE_EVENT) {
		if (!json)
			putchar(' ');
		show_nested("options");
		link_print_options(&show_output, &link.attributes);
		show_nested_end();
	}
	show_end();
	putchar('\n');
	/* Standard output may be a pipe: do not buffer events. */
	return fflush(stdout) ? MNL_CB_ERROR : MNL_CB_OK;
}

/* Returns only on errors other than lost events. */
static enum status monitor_events(struct link_monitor *monitor)
{
	int err;

	exit_on_signal();
	do {
		err = genl_receive_events(&monitor->genl, link_show_event,
					  monitor);
		if (err == -ENOBUFS)
			complain(EVENTS_LOST);
	} while (!err || err == -ENOBUFS || err == -EINTR);
	complain("monitor: %s", strerror(-err));
	return STATUS_FAILED;
}

static enum status run_monitor(int argc, char **argv)
{
	struct link_monitor monitor = {};
	struct links links = {};
	enum status status;

	skip_dev(&argc, &argv);
	if (argc > 1) {
		complain("monitor takes at most one device; see --help");
		return STATUS_USAGE;
	}
	if (!genl_open(&monitor.genl))
		return STATUS_FAILED;
	/* Before the device is looked up, so that no event is missed. */
	status = genl_subscribe(&monitor.genl) ? STATUS_OK : STATUS_FAILED;
	if (!status && argc) {
		status = request_link(*argv, SLBN_C_LINK_GET, NULL,
				      link_collect, &links);
		if (links.count)
			monitor.ifindex = links.link->ifindex;
		free(links.link);
	}
	if (!status)
		status = monitor_events(&monitor);
	genl_close(&monitor.genl);
	return status;
}

const struct command link_commands[] = {
	{
		.name = "show",
		.usage =
			"Usage: slbnctl [OPTION]... link show [ [dev] DEV ]\n"
			"\n"
			"Show the link of the device DEV, or all links of this network namespace:\n"
			"options, state and counters, as tc -s qdisc does.\n",
		.run = run_show,
	},
	{
		.name = "list",
		.usage = "Usage: slbnctl [OPTION]... link list [ [dev] DEV ]\n"
			 "\n"
			 "The same as show.\n",
		.run = run_show,
	},
	{
		.name = "set",
		.usage =
			"Usage: slbnctl [OPTION]... link set [dev] DEV [ rate RATE | rate auto ]\n"
			"           [ epoch TIME ] [ memory ENTRIES | memory TIME ]\n"
			"           [ control PERCENT ] [ headroom PERCENT | headroom auto ]\n"
			"           [ unassigned PERCENT ]\n"
			"           [ commit on | commit off ] [ quiet TIME ] [ edge | no-edge ]\n"
			"           [ key file FILE | key none ]\n"
			"           [ threshold PERCENT ]\n"
			"\n"
			"Change options of a link; the others keep their values.\n"
			"\n"
			"  rate       capacity of the link; 1kbit to 1tbit; auto: the device's speed\n"
			"  epoch      how long a ledger is current: a session that sends no control\n"
			"             packet is counted for one to two epochs; 10ms to 3600s; 0: for\n"
			"             ever, as in the paper\n"
			"  memory     memory of recent control packets, 0 to 4194304 entries; or a time\n"
			"             up to 60s: enough for all control packets that can arrive in it\n"
			"  control    limit of control packets, of the rate; 0.1% to 100%\n"
			"  headroom   part of the rate that fair shares leave free for control\n"
			"             packets and new sessions; 0% to 50%; auto: what control packets\n"
			"             and those without a session take, and 0.5%\n"
			"  unassigned the most that packets without a session take, for headroom\n"
			"             auto; 0% to 50%\n"
			"  commit     on: no session's rate rises before others have released what it\n"
			"             gets, so the rates in use never exceed the link's rate; off: as\n"
			"             in the paper\n"
			"  quiet      time after a start in which no rate rises: the longest lease of\n"
			"             a source in the domain; 10ms to 3600s; 0: 1s, or the epoch if\n"
			"             that is longer\n"
			"  edge       hosts are behind this link: drop their control packets, and\n"
			"             answer for them\n"
			"  key        the only key that authenticates control packets: FILE (- for\n"
			"             standard input) has 32 hexadecimal digits, maybe behind the number\n"
			"             of the key, and only its owner may access it\n"
			"  threshold  notify when the fair share has changed by more than this;\n"
			"             0.1% to 100%\n",
		.run = run_set,
	},
	{
		.name = "reset",
		.usage =
			"Usage: slbnctl [OPTION]... link reset [dev] DEV\n"
			"\n"
			"Forget all sessions of a link. Active ones are counted again with their next\n"
			"control packets, and no rate rises for an epoch; options and counters keep\n"
			"their values.\n",
		.run = run_reset,
	},
	{
		.name = "monitor",
		.usage =
			"Usage: slbnctl [OPTION]... link monitor [ [dev] DEV ]\n"
			"\n"
			"Print a line each time a link is added, changed (its options or capacity) or\n"
			"removed, and when its fair share has changed by more than its threshold, until\n"
			"interrupted; with --json, an object per line.\n",
		.run = run_monitor,
	},
	{},
};
