// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl key: adds, retires and shows the keys of this router, which are those
 * of its links (by netlink) and of its agent (by libslbn).
 *
 * A key must be accepted wherever packets pass before a source uses it, and must
 * not be used any more before it is retired. So links get a key before the
 * agent, and lose it after the agent. Links and agents that have, or have not,
 * the key already are skipped: after a failure, the same command completes it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/units.h"
#include "key_file.h"
#include "link.h"
#include "session.h"
#include "show.h"
#include "slbnctl.h"

#define ADD_SYNTAX "key add takes ID @FILE, or ID -"
#define SECRET_SYNTAX "must be @FILE, or - for standard input"

#define NO_TARGET \
	"there are no SLBN links in this network namespace, and slbnd is not running"
#define THIRD_KEY "there are two keys already, %u and %u: retire one first"
#define ONLY_KEY "there is no other key: add the next one first"

/* Printed instead of the name of a device. */
#define AGENT "slbnd"

/**
 * struct holder - a link, or the agent
 * @name: its device, or AGENT
 * @keys: its keys
 * @id: their numbers, the newest last
 * @done: it has, or has not, the key, as requested
 */
struct holder {
	const char *name;
	size_t keys;
	__u8 id[LINK_KEYS_MAX];
	bool done;
};

/**
 * struct request - a command and the links and agent that it is for
 * @device: only the link of this device; NULL: all links
 * @agent_only: only the agent
 * @accept: the agent does not sign with the key
 * @id: number of the key
 * @secret: the key; NULL: retire it
 * @key: memory of @secret
 * @links: the links
 * @holder: one for each link, then one for the agent
 * @slbn: connection to the agent; NULL: there is none
 */
struct request {
	const char *device;
	bool agent_only;
	bool accept;
	__u8 id;
	const __u8 *secret;
	__u8 key[SLBN_KEY_LENGTH];
	struct links links;
	struct holder *holder;
	struct slbn *slbn;
};

/* --- links and agent ---------------------------------------------------- */

static bool has_key(const struct holder *holder, __u8 id)
{
	return memchr(holder->id, id, holder->keys);
}

static struct holder *agent_holder(const struct request *request)
{
	return &request->holder[request->links.count];
}

static bool read_links(struct request *request)
{
	if (request->agent_only)
		return true;
	if (request->device)
		return links_read_one(&request->links, request->device);
	/* Without the module there are no links. */
	return access("/sys/module/sch_slbn", F_OK) ||
	       links_read(&request->links);
}

/* Connect to the agent, if there is one. */
static bool find_agent(struct request *request)
{
	if (request->device)
		return true;
	if (request->agent_only) {
		request->slbn = connect_to_slbnd();
		return request->slbn;
	}
	request->slbn = slbn_open(slbnd_socket);
	if (request->slbn || errno == ENOENT || errno == ECONNREFUSED)
		return true;
	complain("cannot connect to slbnd: %s", strerror(errno));
	return false;
}

static bool fail(const struct request *request)
{
	complain(AGENT ": %s", slbn_reason(request->slbn));
	return false;
}

/* Set the keys of all holders. */
static bool read_holders(struct request *request)
{
	size_t count = request->links.count, n;
	struct slbn_status status = {};
	struct holder *holder;

	request->holder = calloc(count + 1, sizeof(*holder));
	if (!request->holder) {
		complain("out of memory");
		return false;
	}
	for (n = 0; n < count; n++) {
		const struct link *link = &request->links.link[n];

		holder = &request->holder[n];
		holder->name = link->name;
		holder->keys = link->attributes.value[TCA_SLBN_KEY_IDS];
		memcpy(holder->id, link->attributes.key_id, sizeof(holder->id));
	}
	holder = agent_holder(request);
	holder->name = AGENT;
	if (request->slbn && slbn_get_status(request->slbn, &status) < 0)
		return fail(request);
	holder->keys = status.keys;
	memcpy(holder->id, status.key, sizeof(status.key));
	return true;
}

/* Find the links and the agent. Prints an error if there are none. */
static bool open_request(struct request *request)
{
	if (!read_links(request) || !find_agent(request))
		return false;
	if (!request->links.count && !request->slbn) {
		complain(NO_TARGET);
		return false;
	}
	return read_holders(request);
}

static void close_request(struct request *request)
{
	slbn_close(request->slbn);
	free(request->holder);
	free(request->links.link);
	explicit_bzero(request->key, sizeof(request->key));
}

/* --- changes ------------------------------------------------------------ */

/*
 * Check what would fail, so that nothing is changed then: a third key, and the
 * removal of the last one.
 */
static bool check_holder(const struct request *request,
			 const struct holder *holder)
{
	bool has = has_key(holder, request->id);

	if (request->secret && !has && holder->keys >= SLBN_AGENT_KEYS) {
		complain("%s: " THIRD_KEY, holder->name, holder->id[0],
			 holder->id[1]);
		return false;
	}
	if (!request->secret && has && holder->keys == 1) {
		complain("%s: " ONLY_KEY, holder->name);
		return false;
	}
	return true;
}

static bool check_holders(const struct request *request)
{
	size_t count = request->links.count + !!request->slbn, n;
	bool valid = true;

	for (n = 0; n < count; n++)
		valid &= check_holder(request, &request->holder[n]);
	return valid;
}

/*
 * Change a link, unless it has not the key that is to be retired. Whether it has a
 * key of this number that is another one, only the kernel knows.
 */
static bool change_link(const struct request *request, struct genl *genl,
			struct holder *holder)
{
	int command = request->secret ? SLBN_C_KEY_ADD : SLBN_C_KEY_RETIRE;
	struct genl_buffer buffer;
	struct nlmsghdr *message;

	holder->done = !request->secret && !has_key(holder, request->id);
	if (holder->done)
		return true;
	message = genl_message(genl, &buffer, command, 0);
	mnl_attr_put_strz(message, SLBN_A_IFNAME, holder->name);
	mnl_attr_put_u8(message, SLBN_A_KEY_ID, request->id);
	if (request->secret)
		mnl_attr_put(message, SLBN_A_KEY, SLBN_KEY_LENGTH,
			     request->secret);
	holder->done = genl_request(genl, message, holder->name, NULL, NULL);
	explicit_bzero(&buffer, sizeof(buffer));
	return holder->done;
}

static bool change_links(const struct request *request)
{
	struct genl genl;
	bool done = true;
	size_t n;

	if (!request->links.count)
		return true;
	if (!genl_open(&genl))
		return false;
	for (n = 0; n < request->links.count; n++)
		done &= change_link(request, &genl, &request->holder[n]);
	genl_close(&genl);
	return done;
}

static bool change_agent(const struct request *request)
{
	int ret = 0;

	if (!request->slbn)
		return true;
	/* A second "add" without "accept" makes it sign with the key. */
	if (request->secret)
		ret = slbn_add_key(request->slbn, request->id, request->secret,
				   request->accept ? SLBN_ACCEPT_ONLY : 0);
	else if (has_key(agent_holder(request), request->id))
		ret = slbn_retire_key(request->slbn, request->id);
	if (ret < 0)
		return fail(request);
	agent_holder(request)->done = true;
	return true;
}

static void list_holders(const struct request *request, bool done)
{
	size_t count = request->links.count + !!request->slbn, n;
	const char *separator = done ? " is done at" : " is not done at";

	for (n = 0; n < count; n++) {
		if (request->holder[n].done != done)
			continue;
		fprintf(stderr, "%s %s", separator, request->holder[n].name);
		separator = ",";
	}
}

static enum status change_keys(struct request *request)
{
	bool done;

	if (!open_request(request) || !check_holders(request)) {
		close_request(request);
		return STATUS_FAILED;
	}
	if (request->secret)
		done = change_links(request) && change_agent(request);
	else
		done = change_agent(request) && change_links(request);
	if (!done) {
		fprintf(stderr, "slbnctl: key %s %u",
			request->secret ? "add" : "retire", request->id);
		list_holders(request, true);
		list_holders(request, false);
		fputs("; run it again to complete it\n", stderr);
	}
	close_request(request);
	return done ? STATUS_OK : STATUS_FAILED;
}

/* --- command line ------------------------------------------------------- */

static bool read_secret(struct request *request, const char *text)
{
	/* Unless the file names another one. */
	__u8 id = request->id;

	if (*text != '@' && strcmp(text, "-")) {
		/* It may be the key: do not print it. */
		complain("key %u \"...\": " SECRET_SYNTAX, request->id);
		return false;
	}
	request->secret = request->key;
	if (!link_key_read("slbnctl", text + (*text == '@'), &id, request->key))
		return false;
	if (id != request->id)
		complain("key %u: the file has the key of number %u",
			 request->id, id);
	return id == request->id;
}

static bool read_scope(struct request *request, int argc, char **argv)
{
	for (; argc; argc--, argv++) {
		if (!strcmp(*argv, "dev") && argc > 1 && !request->device) {
			request->device = argv[1];
			argc--;
			argv++;
		} else if (!strcmp(*argv, "dev") && argc < 2) {
			complain("\"dev\" needs a device");
			return false;
		} else if (!strcmp(*argv, "agent")) {
			request->agent_only = true;
		} else if (!strcmp(*argv, "accept") && request->secret) {
			request->accept = true;
		} else {
			complain("unknown option \"%s\"; see --help", *argv);
			return false;
		}
	}
	if (!request->device || !request->agent_only)
		return true;
	complain("\"agent\" contradicts \"dev\"");
	return false;
}

static enum status run_add(int argc, char **argv)
{
	struct request request = {};

	if (argc < 2) {
		complain(ADD_SYNTAX "; see --help");
		return STATUS_USAGE;
	}
	if (!key_read_id(argv[0], &request.id) ||
	    !read_secret(&request, argv[1]) ||
	    !read_scope(&request, argc - 2, argv + 2))
		return STATUS_USAGE;
	return change_keys(&request);
}

static enum status run_retire(int argc, char **argv)
{
	struct request request = {};

	if (!argc) {
		complain("key retire takes ID; see --help");
		return STATUS_USAGE;
	}
	if (!key_read_id(*argv, &request.id) ||
	    !read_scope(&request, argc - 1, argv + 1))
		return STATUS_USAGE;
	return change_keys(&request);
}

/* --- show --------------------------------------------------------------- */

static void show_holders(const struct request *request)
{
	size_t count = request->links.count + !!request->slbn, n;
	const struct holder *holder = request->holder;

	if (json)
		putchar('[');
	for (n = 0; n < count; n++, holder++) {
		if (json && n)
			putchar(',');
		show_begin();
		if (holder == agent_holder(request))
			show_string("agent", "%s: ", holder->name);
		else
			show_string("dev", "%s: ", holder->name);
		show_keys(holder->id, holder->keys);
		show_newline();
		show_end();
	}
	if (json)
		puts("]");
}

static enum status run_show(int argc, char **argv)
{
	struct request request = {};
	bool done;

	if (!read_scope(&request, argc, argv))
		return STATUS_USAGE;
	done = open_request(&request);
	if (done)
		show_holders(&request);
	close_request(&request);
	return done ? STATUS_OK : STATUS_FAILED;
}

const struct command key_commands[] = {
	{
		.name = "generate",
		.usage =
			"Usage: slbnctl [OPTION]... key generate [FILE [ID]]\n"
			"\n"
			"Write a new random key, 32 hexadecimal digits, into FILE, which must not exist\n"
			"and only its owner may read then; or to standard output. With ID, 0 to 255, its\n"
			"number is before it; without, it is 0.\n",
		.run = run_key_generate,
	},
	{
		.name = "fingerprint",
		.usage =
			"Usage: slbnctl [OPTION]... key fingerprint FILE|-\n"
			"\n"
			"Print a hash of the key in FILE or standard input, to compare keys of routers\n"
			"without showing them.\n",
		.run = run_key_fingerprint,
	},
	{
		.name = "add",
		.usage =
			"Usage: slbnctl [OPTION]... key add ID @FILE [ dev DEV | agent ] [ accept ]\n"
			"       slbnctl [OPTION]... key add ID - [ dev DEV | agent ] [ accept ]\n"
			"\n"
			"Add the key of number ID, 0 to 255, to all links of this network namespace,\n"
			"then to slbnd, which signs with it from now on. FILE or standard input contains\n"
			"32 hexadecimal digits. Links and slbnd have at most two keys. If there is a\n"
			"failure, the same command completes it.\n"
			"\n"
			"  dev DEV  only this link\n"
			"  agent    only slbnd\n"
			"  accept   slbnd accepts packets with the key, but signs with its present one\n"
			"           until the key is added without accept\n",
		.run = run_add,
	},
	{
		.name = "retire",
		.usage =
			"Usage: slbnctl [OPTION]... key retire ID [ dev DEV | agent ]\n"
			"\n"
			"Remove a key from slbnd, then from all links of this network namespace. The\n"
			"last key is not removed. If there is a failure, the same command completes it.\n"
			"\n"
			"  dev DEV  only from this link\n"
			"  agent    only from slbnd\n",
		.run = run_retire,
	},
	{
		.name = "show",
		.usage =
			"Usage: slbnctl [OPTION]... key show [ dev DEV | agent ]\n"
			"\n"
			"Show the numbers of the keys of all links of this network namespace and of\n"
			"slbnd, the newest last: slbnd signs with that. Keys cannot be read.\n"
			"\n"
			"  dev DEV  only this link\n"
			"  agent    only slbnd\n",
		.run = run_show,
	},
	{},
};
