// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl link: lists, shows, sets, resets and monitors the links of SLBN in
 * the network namespace in which it runs.
 *
 * Words and numbers are those of link_options.h, which tc's plugin has, too. What
 * only the kernel can judge is left to it. Whatever it sends may be of another
 * version: attributes may be missing, and the state may be longer or shorter
 * than the one known here.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "genl.h"
#include "show.h"
#include "slbnctl.h"

#define SLBN_WHO "slbnctl"
#define SLBN_KEY_TAKES \
	"32 hexadecimal digits, none, @FILE, or - for standard input"
#include "../common/link_options.h"

/* How often a list may change while it is read, one after the other. */
#define LIST_TRIES 10
#define LIST_MOVES "links come and go faster than they can be listed"

#define EVENTS_LOST \
	"events were lost: they came faster than they could be written"

/**
 * struct link - a link as the kernel described it
 * @name: of its device
 * @options: its attributes, the device's index and the handle among them
 * @state: its state and counters
 */
struct link {
	char name[IFNAMSIZ];
	struct slbn_options options;
	struct slbn_link_state state;
};

/**
 * struct links - some of them
 * @link: the first
 * @count: how many there are
 */
struct links {
	struct link *link;
	size_t count;
};

/* False if it is no message about a link. */
static bool read_link(const struct nlmsghdr *message, struct link *link)
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
		else if (type == SLBN_A_STATE)
			slbn_state_take(&link->state, payload, length);
		else
			slbn_options_take(&link->options, type, payload,
					  length);
	}
	return link->options.there[SLBN_A_IFINDEX];
}

static int collect(const struct nlmsghdr *message, void *data)
{
	struct links *links = data;
	struct link *more;

	more = reallocarray(links->link, links->count + 1, sizeof(*more));
	if (!more)
		return MNL_CB_ERROR;
	links->link = more;
	links->count += read_link(message, &more[links->count]);
	return MNL_CB_OK;
}

static void show_identity(const struct link *link)
{
	char handle[UNITS_TEXT];

	snprintf(handle, sizeof(handle),
		 "%llx:", link->options.value[SLBN_A_HANDLE] >> 16);
	if (json)
		print_count("ifindex", NULL,
			    link->options.value[SLBN_A_IFINDEX]);
	show_string("dev", "%s: slbn ", link->name);
	show_string("handle", "%s", handle);
}

static void show_link(const struct link *link)
{
	const struct slbn_options *options = &link->options;

	show_begin();
	show_identity(link);
	if (!json)
		putchar(' ');
	show_nested("options");
	slbn_show_options(options);
	if (options->there[SLBN_A_THRESHOLD])
		slbn_show_permille("threshold",
				   options->value[SLBN_A_THRESHOLD]);
	show_nested_end();
	print_nl();
	slbn_show_summary(&link->state);
	print_nl();
	slbn_show_details(&link->state);
	print_nl();
	show_end();
}

static void show_links(const struct links *links)
{
	size_t i;

	if (json)
		putchar('[');
	for (i = 0; i < links->count; i++) {
		if (json && i)
			putchar(',');
		show_link(&links->link[i]);
	}
	if (json)
		puts("]");
}

static enum status link_list(int argc, char **argv)
{
	struct genl_room room;
	enum status status = STATUS_REFUSED;
	struct nlmsghdr *message;
	struct links links;
	struct genl genl;
	int tries;
	bool done;

	if (argc) {
		complain("list takes no \"%s\"; see --help", *argv);
		return STATUS_USAGE;
	}
	for (tries = LIST_TRIES; tries; tries--) {
		links = (struct links){};
		if (!genl_open(&genl))
			return STATUS_REFUSED;
		message =
			genl_message(&genl, &room, SLBN_C_LINK_GET, NLM_F_DUMP);
		done = genl_ask(&genl, message, "list", collect, &links);
		if (done) {
			show_links(&links);
			status = STATUS_FINE;
		} else if (errno == EINTR && tries == 1) {
			complain(LIST_MOVES);
		}
		free(links.link);
		genl_close(&genl);
		if (done || errno != EINTR)
			break;
	}
	return status;
}

/* Ask for something about one device; errors are told. */
static enum status ask_about(const char *name, int command,
			     const struct slbn_request *request,
			     mnl_cb_t answer, void *data)
{
	struct genl_room room;
	struct nlmsghdr *message;
	enum status status;
	struct genl genl;
	int attribute;

	if (strlen(name) >= IFNAMSIZ) {
		complain("%s: no such device", name);
		return STATUS_REFUSED;
	}
	if (!genl_open(&genl))
		return STATUS_REFUSED;
	message = genl_message(&genl, &room, command, 0);
	mnl_attr_put_strz(message, SLBN_A_IFNAME, name);
	for (attribute = 1; request && attribute <= SLBN_A_MAX; attribute++) {
		const void *payload;
		size_t length;
		__u64 number;

		if (!request->word[attribute])
			continue;
		payload = slbn_request_payload(request, attribute, &number,
					       &length);
		mnl_attr_put(message, attribute, length, payload);
	}
	status = genl_ask(&genl, message, name, answer, data) ? STATUS_FINE :
								STATUS_REFUSED;
	genl_close(&genl);
	return status;
}

/**
 * link_known() - does a device lead onto a link of SLBN?
 * @device: its index
 *
 * Nothing is complained of, for this is asked by the way. What was asked last is
 * not asked again at once: most sessions of a router begin at the same few devices.
 *
 * Return: whether it is known to.
 */
bool link_known(unsigned int device)
{
	static struct {
		unsigned int device;
		bool known;
		time_t asked;
	} places[16];
	size_t n = device % (sizeof(places) / sizeof(*places));
	struct genl_room room;
	struct nlmsghdr *message;
	time_t now = time(NULL);
	struct genl genl;

	if (!device || access("/sys/module/sch_slbn", F_OK))
		return false;
	if (places[n].device == device && places[n].asked == now)
		return places[n].known;
	places[n].device = device;
	places[n].asked = now;
	places[n].known = false;
	if (!genl_open(&genl))
		return false;
	message = genl_message(&genl, &room, SLBN_C_LINK_GET, 0);
	mnl_attr_put_u32(message, SLBN_A_IFINDEX, device);
	places[n].known = genl_ask(&genl, message, NULL, NULL, NULL);
	genl_close(&genl);
	return places[n].known;
}

/* The only word, or NULL if there is none or another one. */
static const char *only_device(int argc, char **argv, const char *command)
{
	if (argc == 1)
		return *argv;
	complain("%s takes one device; see --help", command);
	return NULL;
}

static enum status link_show(int argc, char **argv)
{
	const char *name = only_device(argc, argv, "show");
	struct links links = {};
	enum status status;

	if (!name)
		return STATUS_USAGE;
	status = ask_about(name, SLBN_C_LINK_GET, NULL, collect, &links);
	if (status == STATUS_FINE)
		show_links(&links);
	free(links.link);
	return status;
}

static enum status link_reset(int argc, char **argv)
{
	const char *name = only_device(argc, argv, "reset");

	if (!name)
		return STATUS_USAGE;
	return ask_about(name, SLBN_C_LINK_RESET, NULL, NULL, NULL);
}

/* Room for a key in a file, for spaces around it, and to see that it is more. */
#define KEY_ROOM 256

/*
 * A key that is in a file: the process list is everybody's to read. @text is
 * replaced by its contents without spaces at the ends.
 */
static bool fetch_key(char **text)
{
	static char key[KEY_ROOM];
	const char *name = **text == '@' ? *text + 1 : "standard input";
	FILE *file = **text == '@' ? fopen(name, "re") : stdin;
	size_t length = file ? fread(key, 1, sizeof(key) - 1, file) : 0;

	if (!file || ferror(file)) {
		complain("key: %s: %s", name, strerror(errno));
		return false;
	}
	if (file != stdin)
		fclose(file);
	/* Not a part of what may be something else. */
	if (length == sizeof(key) - 1 || memchr(key, 0, length))
		length = 0;
	while (length && isspace((unsigned char)key[length - 1]))
		length--;
	key[length] = 0;
	*text = key + strspn(key, " \t\r\n");
	return true;
}

static enum status link_set(int argc, char **argv)
{
	struct slbn_request request = { .family = true };
	const char *name = *argv;

	if (argc < 2) {
		complain("set takes a device and what to change; see --help");
		return STATUS_USAGE;
	}
	for (argc--, argv++; argc;) {
		int taken;

		if (!strcmp(*argv, "key") && argc > 1 &&
		    (*argv[1] == '@' || !strcmp(argv[1], "-")) &&
		    !fetch_key(&argv[1]))
			return STATUS_USAGE;
		taken = slbn_parse_word(&request, argc, argv);
		if (!taken)
			complain("set has no word \"%s\"; see --help", *argv);
		if (taken < 1)
			return STATUS_USAGE;
		argc -= taken;
		argv += taken;
	}
	return ask_about(name, SLBN_C_LINK_SET, &request, NULL, NULL);
}

/**
 * struct monitor - what is listened for
 * @genl: the connection
 * @ifindex: of one device, or 0: all of them
 */
struct monitor {
	struct genl genl;
	__u64 ifindex;
};

static int show_event(const struct nlmsghdr *message, void *data)
{
	const struct genlmsghdr *head = mnl_nlmsg_get_payload(message);
	const struct monitor *monitor = data;
	struct link link;

	if (message->nlmsg_type != monitor->genl.family ||
	    !read_link(message, &link) || head->cmd != SLBN_C_SHARE_EVENT)
		return MNL_CB_OK;
	if (monitor->ifindex &&
	    link.options.value[SLBN_A_IFINDEX] != monitor->ifindex)
		return MNL_CB_OK;
	show_begin();
	show_identity(&link);
	slbn_show_summary(&link.state);
	if (json)
		slbn_show_details(&link.state);
	else
		print_count("events", " events %s", link.state.events);
	show_end();
	putchar('\n');
	/* Who reads it is not to wait until a buffer is full. */
	return fflush(stdout) ? MNL_CB_ERROR : MNL_CB_OK;
}

/* Until something else goes wrong than that events were lost. */
static enum status listen_until_interrupted(struct monitor *monitor)
{
	int err;

	end_when_interrupted();
	do {
		err = genl_hear(&monitor->genl, show_event, monitor);
		if (err == -ENOBUFS)
			complain(EVENTS_LOST);
	} while (!err || err == -ENOBUFS || err == -EINTR);
	complain("monitor: %s", strerror(-err));
	return STATUS_REFUSED;
}

static enum status link_monitor(int argc, char **argv)
{
	struct monitor monitor = {};
	struct links links = {};
	enum status status;

	if (argc > 1) {
		complain("monitor takes one device, or none; see --help");
		return STATUS_USAGE;
	}
	if (!genl_open(&monitor.genl))
		return STATUS_REFUSED;
	/* Before it is known which device it is, lest one is missed. */
	status = genl_listen(&monitor.genl) ? STATUS_FINE : STATUS_REFUSED;
	if (!status && argc) {
		status = ask_about(*argv, SLBN_C_LINK_GET, NULL, collect,
				   &links);
		if (links.count)
			monitor.ifindex =
				links.link->options.value[SLBN_A_IFINDEX];
		free(links.link);
	}
	if (!status)
		status = listen_until_interrupted(&monitor);
	genl_close(&monitor.genl);
	return status;
}

const struct command link_commands[] = {
	{
		.word = "list",
		.usage =
			"Usage: slbnctl [OPTION]... link list\n"
			"\n"
			"Show all links of this network namespace: their options, state and\n"
			"counters, with the numbers of tc -s qdisc.\n",
		.run = link_list,
	},
	{
		.word = "show",
		.usage =
			"Usage: slbnctl [OPTION]... link show DEV\n"
			"\n"
			"Show the link that the device DEV leads onto, as list does.\n",
		.run = link_show,
	},
	{
		.word = "set",
		.usage =
			"Usage: slbnctl [OPTION]... link set DEV [ rate RATE | rate auto ]\n"
			"           [ epoch TIME ] [ memory VISITS | memory TIME ]\n"
			"           [ control PERCENT ] [ edge | no-edge ]\n"
			"           [ key HEX | key @FILE | key - | key none ]\n"
			"           [ threshold PERCENT ]\n"
			"\n"
			"Change a link; what is not named stays as it is.\n"
			"\n"
			"  rate       what the link carries; 1kbit to 1tbit; auto: the device's speed\n"
			"  epoch      how long a session that is not heard of is counted, at least;\n"
			"             10ms to 3600s; 0: for ever, as the paper has it\n"
			"  memory     visits that are remembered, 0 to 4194304; or as many as control\n"
			"             packets may come in this time, at most 60s\n"
			"  control    of the rate that control packets may take; 0.1% to 100%\n"
			"  edge       hosts are behind it: their control packets are dropped, and the\n"
			"             link answers for them\n"
			"  key        authenticates control packets: 32 hexadecimal digits, which with\n"
			"             @FILE or - (standard input) do not show in the list of processes\n"
			"  threshold  of the fair share, by how much it has to move before monitor is\n"
			"             told; 0.1% to 100%\n",
		.run = link_set,
	},
	{
		.word = "reset",
		.usage =
			"Usage: slbnctl [OPTION]... link reset DEV\n"
			"\n"
			"Forget all sessions of a link, as if it were new. Those that live count\n"
			"themselves again; options and counters stay.\n",
		.run = link_reset,
	},
	{
		.word = "monitor",
		.usage =
			"Usage: slbnctl [OPTION]... link monitor [DEV]\n"
			"\n"
			"Print a line each time that the fair share of a link has moved by more than\n"
			"its threshold, until interrupted. With --json, an object a line.\n",
		.run = link_monitor,
	},
	{},
};
