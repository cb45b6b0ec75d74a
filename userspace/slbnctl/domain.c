// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl domain check: what disagrees in the domain, as far as this router sees:
 * versions, epochs and keys of its links and its agent, and control packets from
 * other routers that its links and agent drop as those disagree.
 *
 * Counters of such packets are compared over a time, since what was repaired is
 * still counted. Keys cannot be read: only their numbers are compared, and that
 * secrets differ shows in dropped packets.
 */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fairpath/drr_fq.h>
#include <fairpath/slbn_netlink.h>

#include "../common/units.h"
#include "../libslbn/protocol.h"
#include "../slbnd/system/tc.h"
#include "link.h"
#include "metrics.h"
#include "session.h"
#include "show.h"
#include "slbnctl.h"

#define DEFAULT_WAIT 1000000000ULL
#define MAX_WAIT 600000000000ULL

#define AGENT "slbnd"

/**
 * struct view - links and agent at one time
 * @links: the links
 * @running: the agent runs
 * @agent: its state
 */
struct view {
	struct links links;
	bool running;
	struct slbn_status agent;
};

/**
 * struct finding - a line of the result
 * @problem: something disagrees, or does not work; otherwise only a note
 * @check: which check found it
 * @where: a device, AGENT, or empty
 * @text: what, and what to do
 */
struct finding {
	bool problem;
	const char *check;
	char where[IFNAMSIZ];
	char text[240];
};

static struct finding *findings;
static size_t finding_count;

__attribute__((format(printf, 4, 5))) static void find(bool problem,
						       const char *check,
						       const char *where,
						       const char *format, ...)
{
	struct finding *larger;
	va_list arguments;

	larger = reallocarray(findings, finding_count + 1, sizeof(*larger));
	if (!larger) {
		complain("out of memory");
		exit(STATUS_FAILED);
	}
	findings = larger;
	larger += finding_count++;
	*larger = (struct finding){ .problem = problem, .check = check };
	snprintf(larger->where, sizeof(larger->where), "%s", where);
	va_start(arguments, format);
	vsnprintf(larger->text, sizeof(larger->text), format, arguments);
	va_end(arguments);
}

/* --- reading ------------------------------------------------------------ */

static bool read_agent(struct view *view)
{
	struct slbn *slbn = slbn_open(slbnd_socket);
	int ret;

	view->running = slbn;
	if (!slbn && errno != ENOENT && errno != ECONNREFUSED) {
		complain("cannot connect to slbnd: %s", strerror(errno));
		return false;
	}
	if (!slbn)
		return true;
	ret = slbn_get_status(slbn, &view->agent);
	return disconnect(slbn, ret) == STATUS_OK;
}

static bool read_view(struct view *view)
{
	/* Without the module there are no links. */
	if (!access("/sys/module/sch_slbn", F_OK) && !links_read(&view->links))
		return false;
	return read_agent(view);
}

/* Note devices whose drr_fq has no bands, once each. */
static int check_bands(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *head = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr, *option;
	const struct links *links = data;
	bool ours = false, bands = false;
	size_t n;

	if (message->nlmsg_type != RTM_NEWQDISC)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*head)) {
		if (mnl_attr_get_type(attr) == TCA_KIND)
			ours = !strcmp(mnl_attr_get_str(attr), "drr_fq");
		if (mnl_attr_get_type(attr) != TCA_OPTIONS)
			continue;
		mnl_attr_for_each_nested(option, attr)
			if (mnl_attr_get_type(option) == TCA_DRR_FQ_BANDS)
				bands = mnl_attr_get_u8(option);
	}
	for (n = 0; ours && !bands && n < links->count; n++) {
		const struct finding *last = findings + finding_count - 1;
		const char *name = links->link[n].name;

		if (links->link[n].ifindex != (__u32)head->tcm_ifindex)
			continue;
		if (!finding_count || strcmp(last->check, "bands") ||
		    strcmp(last->where, name))
			find(false, "bands", name,
			     "drr_fq has no bands: packets without a session share the link with others");
	}
	return MNL_CB_OK;
}

/* --- checks ------------------------------------------------------------- */

/* The numbers of keys, such as "keys 0,1". */
static const char *keys_text(char *text, size_t size, const __u8 *id,
			     size_t count)
{
	size_t at = snprintf(text, size, count ? "keys" : "no key"), n;

	for (n = 0; n < count && at < size; n++)
		at += snprintf(text + at, size - at, "%c%u", n ? ',' : ' ',
			       id[n]);
	return text;
}

/* Whether two sets of keys are the same, in any order. */
static bool same_keys(const __u8 *one, size_t ones, const __u8 *other,
		      size_t others)
{
	size_t n;

	for (n = 0; ones == others && n < ones; n++)
		if (!memchr(other, one[n], others))
			return false;
	return ones == others;
}

static void check_versions(const struct view *view)
{
	char module[64];

	if (module_version("sch_slbn", module, sizeof(module)) &&
	    strcmp(module, VERSION))
		find(true, "version", "",
		     "the module sch_slbn is of version %s, slbnctl of %s: load the module of this release",
		     module, VERSION);
	if (view->running && strcmp(view->agent.version, VERSION))
		find(true, "version", AGENT,
		     "slbnd is of version %s, slbnctl of %s: restart slbnd",
		     *view->agent.version ? view->agent.version : "before 0.2",
		     VERSION);
}

/* Compare epoch and keys of a link, or the agent, with those of the first link. */
static void compare(const struct link *first, const char *where, __u64 epoch,
		    const __u8 *id, size_t keys)
{
	const struct link_attributes *is = &first->attributes;
	char text[2][UNITS_TEXT], numbers[2][64];
	size_t count = is->value[TCA_SLBN_KEY_IDS];

	if (epoch != is->value[TCA_SLBN_EPOCH])
		find(true, "epoch", where,
		     "the epoch is %s, that of %s is %s: set the same in the whole domain",
		     units_time_exact(text[0], epoch), first->name,
		     units_time_exact(text[1], is->value[TCA_SLBN_EPOCH]));
	if (!same_keys(id, keys, is->key_id, count))
		find(true, "keys", where,
		     "it has %s, %s has %s: add or retire keys (slbnctl key)",
		     keys_text(numbers[0], sizeof(numbers[0]), id, keys),
		     first->name,
		     keys_text(numbers[1], sizeof(numbers[1]), is->key_id,
			       count));
}

static void check_links(const struct view *view)
{
	const struct links *links = &view->links;
	const struct link *first = links->link;
	size_t n;

	if (!links->count) {
		find(true, "links", "", "this network namespace has no links");
		return;
	}
	for (n = 1; n < links->count; n++) {
		const struct link_attributes *is = &links->link[n].attributes;

		compare(first, links->link[n].name, is->value[TCA_SLBN_EPOCH],
			is->key_id, is->value[TCA_SLBN_KEY_IDS]);
	}
	/* Agents before 0.2 do not tell their epoch. */
	if (view->running)
		compare(first, AGENT,
			view->agent.epoch ?:
				first->attributes.value[TCA_SLBN_EPOCH],
			view->agent.key, view->agent.keys);
	if (!first->attributes.value[TCA_SLBN_KEY_IDS])
		find(false, "no_key", first->name,
		     "control packets are not authenticated: any sender that reaches the router can forge them");
}

static void check_agent(const struct slbn_status *agent)
{
	if (is_degraded(agent))
		find(true, "degraded", AGENT,
		     "it does not do all that is configured: see slbnctl status");
	if (agent->short_leases)
		find(true, "short_leases", AGENT,
		     "%llu sessions often have no rate: the domain needs a longer epoch",
		     (unsigned long long)agent->short_leases);
	if (agent->silent)
		find(false, "silent", AGENT,
		     "%u destinations do not answer: their flows have no session",
		     agent->silent);
}

/**
 * struct symptom - packets that are dropped since routers disagree
 * @counter: the counter
 * @text: what it means
 */
static const struct symptom {
	const char *counter;
	const char *text;
} symptoms[] = {
	{ "other_version", "another router or agent is of another release" },
	{ "unknown_key",
	  "another router uses a key that is missing here: slbnctl key add" },
	{ "bad_key",
	  "keys of one number differ (slbnctl key fingerprint), or some routers have none" },
	{ "bad_time",
	  "a clock is wrong by more than 10 s, or packets are replayed" },
};

static void check_counter(const char *where, const struct symptom *symptom,
			  __u64 before, __u64 now)
{
	if (now > before)
		find(true, symptom->counter, where,
		     "%llu control packets were dropped during the check: %s",
		     (unsigned long long)(now - before), symptom->text);
}

static __u64 count(const struct link *link, const char *name)
{
	const struct link_counter *counter = link_counters;

	while (strcmp(counter->name, name))
		counter++;
	return link_counter_value(counter, &link->state);
}

static void check_symptoms(const struct view *before, const struct view *now)
{
	size_t all = sizeof(symptoms) / sizeof(*symptoms), i, n, m;

	for (n = 0; n < now->links.count; n++) {
		const struct link *link = &now->links.link[n], *old;

		for (m = 0; m < before->links.count; m++) {
			old = &before->links.link[m];
			if (old->ifindex != link->ifindex)
				continue;
			for (i = 0; i < all; i++)
				check_counter(link->name, &symptoms[i],
					      count(old, symptoms[i].counter),
					      count(link, symptoms[i].counter));
		}
	}
	if (!before->running || !now->running)
		return;
	check_counter(AGENT, &symptoms[1], before->agent.unknown_key,
		      now->agent.unknown_key);
	check_counter(AGENT, &symptoms[2], before->agent.bad_key,
		      now->agent.bad_key);
	check_counter(AGENT, &symptoms[3], before->agent.bad_time,
		      now->agent.bad_time);
}

/* --- result ------------------------------------------------------------- */

static void show_epoch(__u64 epoch)
{
	char text[UNITS_TEXT];

	show_number("epoch", " epoch %s ", epoch,
		    units_time_exact(text, epoch));
}

static void show_view(const struct view *view)
{
	char module[64];
	size_t n;

	show_string("slbnctl", "slbnctl %s", VERSION);
	if (module_version("sch_slbn", module, sizeof(module)))
		show_string("module", " module %s", module);
	show_count("packet_protocol", " protocols: control packets %s",
		   SLBN_VERSION);
	show_count("netlink_protocol", ", generic netlink %s",
		   SLBN_GENL_VERSION);
	show_count("socket_protocol", ", socket of slbnd %s", SLBN_PROTOCOL);
	show_newline();
	show_array("links");
	for (n = 0; n < view->links.count; n++) {
		const struct link_attributes *is =
			&view->links.link[n].attributes;
		bool edge = is->value[TCA_SLBN_EDGE];

		show_element();
		show_string("dev", "%s:", view->links.link[n].name);
		show_epoch(is->value[TCA_SLBN_EPOCH]);
		show_keys(is->key_id, is->value[TCA_SLBN_KEY_IDS]);
		show_flag("edge", edge, edge ? " edge" : NULL);
		show_newline();
		show_nested_end();
	}
	if (!view->running)
		return;
	show_nested("agent");
	show_string("agent_version", AGENT ": version %s",
		    *view->agent.version ? view->agent.version : "unknown");
	show_epoch(view->agent.epoch);
	show_keys(view->agent.key, view->agent.keys);
	show_newline();
	show_nested_end();
}

/* Returns how many were printed. */
static size_t show_findings(bool problem)
{
	size_t n, shown = 0;

	show_array(problem ? "problems" : "notes");
	for (n = 0; n < finding_count; n++) {
		const struct finding *finding = &findings[n];

		if (finding->problem != problem)
			continue;
		show_element();
		show_string("check", problem ? "problem: %s: " : "note: %s: ",
			    finding->check);
		if (*finding->where)
			show_string("where", "%s: ", finding->where);
		show_string("text", "%s", finding->text);
		show_newline();
		show_nested_end();
		shown++;
	}
	return shown;
}

static bool read_wait(int argc, char **argv, __u64 *wait)
{
	*wait = DEFAULT_WAIT;
	if (!argc)
		return true;
	if (argc != 2 || strcmp(*argv, "wait")) {
		complain("unknown option \"%s\"; see --help", *argv);
		return false;
	}
	if (units_time(argv[1], wait) && *wait <= MAX_WAIT)
		return true;
	complain("wait \"%s\": must be 0 to 600s", argv[1]);
	return false;
}

static enum status run_check(int argc, char **argv)
{
	struct view before = {}, now = {};
	struct timespec pause;
	struct tcmsg all = {};
	size_t problems;
	__u64 wait;
	int err;

	if (!read_wait(argc, argv, &wait))
		return STATUS_USAGE;
	if (!read_view(&before))
		return STATUS_FAILED;
	pause.tv_sec = wait / 1000000000;
	pause.tv_nsec = wait % 1000000000;
	nanosleep(&pause, NULL);
	if (!read_view(&now))
		return STATUS_FAILED;
	check_versions(&now);
	check_links(&now);
	if (now.running)
		check_agent(&now.agent);
	check_symptoms(&before, &now);
	err = tc_dump(RTM_GETQDISC, &all, check_bands, &now.links);
	if (err) {
		complain("qdiscs: %s", strerror(-err));
		return STATUS_FAILED;
	}
	show_begin();
	show_view(&now);
	problems = show_findings(true);
	show_findings(false);
	if (!json)
		printf("%zu problems\n", problems);
	show_end();
	if (json)
		putchar('\n');
	free(before.links.link);
	free(now.links.link);
	free(findings);
	return problems ? STATUS_DEGRADED : STATUS_OK;
}

const struct command domain_commands[] = {
	{
		.name = "check",
		.usage =
			"Usage: slbnctl [OPTION]... domain check [wait TIME]\n"
			"\n"
			"Check what can be seen from this router: that links and slbnd have the same\n"
			"version, epoch and numbers of keys, that slbnd does all that is configured, and\n"
			"that no control packets of other routers are dropped because of their version,\n"
			"key or clock. What slbnctl prints on all routers of a domain must agree, too.\n"
			"\n"
			"  wait       for how long packets are counted; 0 to 600s (1s)\n"
			"\n"
			"Exit status 3 if there is a problem; notes do not matter.\n",
		.run = run_check,
	},
	{},
};
