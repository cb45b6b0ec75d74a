// SPDX-License-Identifier: GPL-2.0
/*
 * slbnctl session show and trace: the path of a session, hop by hop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/units.h"
#include "session.h"
#include "show.h"

#define TRACE_SYNTAX \
	"trace takes SESSION|DESTINATION [timeout TIME]; see --help"
#define SEVERAL_SESSIONS \
	"several sessions have this destination: give an ID, see session list"
#define NO_PATH \
	"the session has no path yet: no control packet was answered, or no link is on it"

#define HOPS_MAX 64
#define TIMEOUT_MS 10000
#define TIMEOUT_MAX_MS 600000
#define MS 1000000ULL

/**
 * struct found - the session that the command line selects
 * @by_destination: by its destination, not by its ID
 * @id: ID
 * @family: of @destination
 * @destination: address
 * @count: sessions found
 * @session: the last one
 */
struct found {
	bool by_destination;
	__u64 id;
	__u16 family;
	__u8 destination[16];
	unsigned int count;
	struct slbn_session session;
};

static bool read_session(const char *text, struct found *found)
{
	found->by_destination = strpbrk(text, ".:");
	if (found->by_destination)
		return read_address("session", text, &found->family,
				    found->destination);
	return read_session_id(text, &found->id);
}

static void match_session(const struct slbn_session *session, void *context)
{
	struct found *found = context;
	const struct slbn_flow *flow = &session->flow;

	if (!found->by_destination) {
		if (session->id != found->id)
			return;
	} else if (flow->family != found->family ||
		   memcmp(flow->destination, found->destination,
			  sizeof(flow->destination))) {
		return;
	}
	found->count++;
	found->session = *session;
}

/* Returns 1; 0: there is no such session, which has been printed; or an error. */
static int find_session(struct slbn *slbn, struct found *found)
{
	int ret;

	found->count = 0;
	ret = slbn_list(slbn, match_session, found);
	if (ret)
		return ret;
	if (found->count == 1)
		return 1;
	complain("%s", found->count ? SEVERAL_SESSIONS : "no such session");
	return 0;
}

static void show_hop(const struct slbn_session *session, unsigned int hop,
		     const __u8 *router, __u16 link)
{
	char text[UNITS_TEXT];

	show_count("hop", "  hop %s", hop);
	show_address("router", " %s", session->flow.family, router);
	show_count("link", " link %s", link);
	if (!hop && session->flags & SLBN_OWN_LINK)
		show_string("device", " device %s",
			    device_text(text, session->device));
}

static int show_path(struct slbn *slbn, const struct slbn_session *session)
{
	struct slbn_hop hop;
	unsigned int n;
	int ret;

	show_array("path");
	for (n = 0; n < session->hops; n++) {
		ret = slbn_get_hop(slbn, session->id, n, &hop);
		/* The path has become shorter. */
		if (ret == -ENOENT)
			break;
		if (ret < 0)
			return ret;
		show_element();
		show_hop(session, n, hop.router, hop.link);
		if (!json && n == session->bottleneck)
			fputs(" bottleneck", stdout);
		show_nested_end();
		show_newline();
	}
	return 0;
}

/* An slbnd without shares does not know the request. */
static int show_share(struct slbn *slbn, const struct slbn_session *session)
{
	char text[UNITS_TEXT];
	uint64_t share;
	int ret = slbn_get_share(slbn, session->id, &share);

	if (ret < 0 && ret != -EPROTO && ret != -EINVAL)
		return ret;
	if (ret < 0 || !share)
		return 0;
	show_number("share", " share %s", share,
		    units_rate_rounded(text, share));
	show_flag("share_complete", ret, ret ? NULL : " (of some links)");
	return 0;
}

/**
 * run_session_show() - run "slbnctl session show"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_session_show(int argc, char **argv)
{
	struct found found = {};
	struct slbn *slbn;
	int ret;

	if (argc != 1) {
		complain("show takes one session; see --help");
		return STATUS_USAGE;
	}
	if (!read_session(*argv, &found))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	ret = find_session(slbn, &found);
	if (!ret) {
		slbn_close(slbn);
		return STATUS_FAILED;
	}
	if (ret > 0) {
		show_begin();
		show_fields(&found.session);
		ret = show_share(slbn, &found.session);
		show_newline();
		if (!ret)
			ret = show_path(slbn, &found.session);
		show_end();
		if (json)
			putchar('\n');
	}
	return disconnect(slbn, ret);
}

/* A traced path. */
struct path {
	unsigned int hops;
	struct slbn_traced hop[HOPS_MAX];
};

static void collect_hop(const struct slbn_traced *traced, void *context)
{
	struct path *path = context;

	if (path->hops < HOPS_MAX)
		path->hop[path->hops++] = *traced;
}

/* The time that a link needs for its backlog, ns. */
static __u64 queueing_time(const struct slbn_traced *hop)
{
	return hop->capacity ? (__u64)((double)hop->backlog * 8e9 /
				       (double)hop->capacity) :
			       0;
}

static void show_link_state(const struct slbn_traced *hop)
{
	char text[UNITS_TEXT];

	show_number("capacity", " capacity %s", hop->capacity,
		    units_rate_rounded(text, hop->capacity));
	show_number("share", " share %s", hop->share,
		    units_rate_rounded(text, hop->share));
	show_count("sessions", " sessions %s", hop->weights);
	show_number("held", " held %s", hop->held,
		    units_rate_rounded(text, hop->held));
	show_number("backlog", " backlog %s", hop->backlog,
		    units_size_rounded(text, hop->backlog));
	snprintf(text, sizeof(text), "%.3gms",
		 (double)queueing_time(hop) / 1e6);
	show_number("queue", " queue %s", queueing_time(hop), text);
	show_count("ttl", " ttl %s", hop->ttl);
}

static void show_traced(const struct slbn_session *session,
			const struct slbn_traced *hop)
{
	bool bottleneck = hop->hop == session->bottleneck;
	bool gap = hop->gap != SLBN_GAP_UNKNOWN;

	show_element();
	if (!json && gap && hop->gap)
		printf("  gap: %u router%s without SLBN\n", hop->gap,
		       hop->gap > 1 ? "s" : "");
	show_hop(session, hop->hop, hop->router, hop->link);
	show_flag("answered", hop->answered,
		  hop->answered ? NULL : " no answer");
	if (hop->answered)
		show_link_state(hop);
	if (json && gap)
		show_count("gap", "", hop->gap);
	show_flag("bottleneck", bottleneck, bottleneck ? " bottleneck" : NULL);
	show_nested_end();
	show_newline();
}

/* Returns whether all hops have answered. */
static bool show_trace(const struct slbn_session *session,
		       const struct path *path)
{
	bool complete = path->hops;
	unsigned int n;

	show_begin();
	show_fields(session);
	show_newline();
	show_array("path");
	for (n = 0; n < path->hops; n++) {
		show_traced(session, &path->hop[n]);
		complete &= path->hop[n].answered;
	}
	show_end();
	if (json)
		putchar('\n');
	return complete;
}

static bool read_timeout(const char *text, int *timeout)
{
	__u64 time;

	if (units_time(text, &time) && time >= MS &&
	    time <= TIMEOUT_MAX_MS * MS) {
		*timeout = (int)(time / MS);
		return true;
	}
	complain("timeout \"%s\": must be 1ms to 600s", text);
	return false;
}

/* The session may have another bottleneck, or have ended meanwhile. */
static int trace_session(struct slbn *slbn, struct found *found, int timeout,
			 struct path *path)
{
	int ret =
		slbn_trace(slbn, found->session.id, timeout, collect_hop, path);

	if (ret)
		return ret;
	found->by_destination = false;
	found->id = found->session.id;
	return find_session(slbn, found);
}

/**
 * run_session_trace() - run "slbnctl session trace"
 * @argc: number of arguments
 * @argv: the arguments
 *
 * Return: the exit status.
 */
enum status run_session_trace(int argc, char **argv)
{
	int timeout = TIMEOUT_MS;
	struct found found = {};
	struct path path = {};
	bool complete = false;
	struct slbn *slbn;
	int ret;

	if ((argc != 1 && argc != 3) ||
	    (argc == 3 && strcmp(argv[1], "timeout"))) {
		complain("%s", TRACE_SYNTAX);
		return STATUS_USAGE;
	}
	if (!read_session(*argv, &found) ||
	    (argc == 3 && !read_timeout(argv[2], &timeout)))
		return STATUS_USAGE;
	slbn = connect_to_slbnd();
	if (!slbn)
		return STATUS_FAILED;
	ret = find_session(slbn, &found);
	if (ret > 0)
		ret = trace_session(slbn, &found, timeout, &path);
	if (ret > 0)
		complete = show_trace(&found.session, &path);
	if (ret > 0 && !path.hops)
		complain("%s", NO_PATH);
	if (disconnect(slbn, ret) != STATUS_OK)
		return STATUS_FAILED;
	return complete ? STATUS_OK : STATUS_FAILED;
}
