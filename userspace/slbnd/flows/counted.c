// SPDX-License-Identifier: GPL-2.0
/*
 * Flow detection by the table of connections. See counted.h.
 */
#include <netinet/in.h>
#include <string.h>

#include "counted.h"
#include "flows_internal.h"
#include "share.h"

#define SECOND 1000000000ULL

/* Interval of sweeps, at most, and for each connection, ns. */
#define SWEEP_INTERVAL (2 * SECOND)
#define SWEEP_PER_CONNECTION 25000ULL
/* TCP connections that are silent for longer are looked up, ns. */
#define TCP_SILENT SECOND
/* A connection that sends, but has no round-trip time, sends in at least, ns. */
#define SENDING_TIME (SECOND / 10)

/**
 * struct counted_candidate - a connection that is looked up
 * @sent: what it has sent
 * @known: it has a session; NULL: it may get one
 * @restored: it may be that of a restored session
 * @found: conntrack knows it; the following fields are set
 * @ended: its sender has finished, or was reset
 * @sender: the local host
 * @mark: conntrack's mark
 */
struct counted_candidate {
	struct enforce_connection sent;
	struct connection *known;
	bool restored;
	bool found;
	bool ended;
	u8 sender[16];
	u32 mark;
};

/**
 * struct counted_search - a batch of look-ups
 * @candidates: the connections
 * @count: number of @candidates
 */
struct counted_search {
	struct counted_candidate candidates[TRACK_LOOKUPS];
	u32 count;
};

/**
 * counted_configure() - use the current options
 * @flows: flow detection
 */
void counted_configure(struct flows *flows)
{
	const struct flows_config *config = &flows->config;

	enforce_set_joins(flows->enforce, config->join_packets,
			  config->join_bytes, config->idle);
	enforce_report_again(flows->enforce, flows->now);
}

static bool is_metered(const struct flows *flows)
{
	return flows->config.join_packets || flows->config.join_bytes;
}

/* What a connection has sent since it was last read. */
static void count(struct flows *flows, struct connection *connection,
		  const struct enforce_connection *sent)
{
	u64 octets = counted_since(&connection->bytes, sent->bytes);
	u64 packets = counted_since(&connection->packets, sent->packets);
	u64 least = sent->rtt ? FLOWS_FAST_STEP : SENDING_TIME;
	u64 elapsed = flows->now - fp_min64(flows->now, sent->began);

	connection->place = sent->place;
	/* Meanwhile another CPU may have counted packets. */
	connection->active =
		fp_max64(connection->active, fp_min64(sent->last, flows->now));
	elapsed = fp_max64(elapsed, fp_max64(sent->rtt, least));
	connection->speed = (double)sent->bytes * 8e9 / (double)elapsed;
	if (connection->detected) {
		connection->sent.packets += packets;
		connection->sent.octets += octets;
		flows_rejoin(flows, connection);
	} else {
		connection->sent.packets = sent->packets;
		connection->sent.octets = sent->bytes;
	}
}

/* Join, or forget a connection that may not: it is reported again if it sends. */
static void join(struct flows *flows, struct connection *connection,
		 const struct enforce_connection *sent)
{
	/* The first packet, if that is enough, says nothing about what it will send. */
	if (!is_metered(flows)) {
		connection->sent = (struct agent_credit){};
		connection->speed = 0;
	}
	if (is_metered(flows) || !sent->ended)
		flows_attach(flows, connection);
	if (!connection->detected && !flows_wait(flows, connection))
		flows_remove_connection(flows, connection);
}

/* A connection has sent enough: see counted.h. */
static void join_soon(struct flows *flows, struct connection *connection,
		      const struct enforce_connection *sent)
{
	u64 at =
		fp_max64(flows->now + FLOWS_FAST_STEP, sent->began + sent->rtt);

	if (is_metered(flows))
		flows_add_check(flows, connection,
				flows_check_queue(at - flows->now));
	else
		join(flows, connection, sent);
}

/* A connection that is known was reported. */
static void update(struct flows *flows, struct connection *connection,
		   const struct enforce_connection *sent)
{
	count(flows, connection, sent);
	if (sent->ended && !connection->closing) {
		flows_yield_share(flows, connection);
		flows_check_end(flows, connection);
	}
	/* Another connection may have the same addresses and ports. */
	connection->closing = sent->ended;
	/* The options may have changed. */
	if (!connection->detected && !connection->check_at)
		join_soon(flows, connection, sent);
}

/* A new connection joins soon, if the options select it. */
static void add(struct flows *flows, const struct counted_candidate *candidate)
{
	const struct enforce_connection *sent = &candidate->sent;
	const u8 *sender =
		candidate->found ? candidate->sender : sent->flow.source;
	struct direction_key key = { .flow = sent->flow };
	struct connection *connection;

	if (!select_flow(&flows->config, &sent->flow, sender) ||
	    flows_find_connection(flows, &key))
		return;
	connection = flows_insert_connection(flows, &key, sender);
	if (!connection)
		return;
	connection->mark = candidate->mark;
	connection->tracked = candidate->found;
	connection->looked_up = flows->now;
	if (candidate->restored) {
		connection->place = sent->place;
		join(flows, connection, sent);
	} else {
		count(flows, connection, sent);
		join_soon(flows, connection, sent);
	}
}

/* The connection of a restored session has ended. */
static void leave_orphan(struct flows *flows, const struct slbn_flow *flow)
{
	struct session *session = agent_find_flow(flows->agent, flow);

	if (session && flows_is_orphan(session))
		agent_leave(flows->agent, session, flows->now);
}

static void finish_candidate(struct flows *flows,
			     const struct counted_candidate *candidate)
{
	struct connection *known = candidate->known;
	bool gone = !candidate->found || candidate->ended;

	if (known && gone && known->tracked)
		flows_remove_connection(flows, known);
	else if (!known && candidate->restored && gone)
		leave_orphan(flows, &candidate->sent.flow);
	else if (!known)
		add(flows, candidate);
}

/*
 * Look up the candidates, and process the answers. Without them nothing is known: what
 * there is remains, and new connections are reported again.
 */
static void run_search(struct flows *flows, struct counted_search *search)
{
	struct track_lookup lookups[TRACK_LOOKUPS];
	bool answered = true;
	u32 n, count = 0;

	for (n = 0; n < search->count; n++)
		if (track_can_look_up(search->candidates[n].sent.flow.protocol))
			lookups[count++] = (struct track_lookup){
				.flow = search->candidates[n].sent.flow,
			};
	flows->search = search;
	if (count)
		answered = track_look_up(&flows->track, lookups, count);
	flows->search = NULL;
	for (n = 0; answered && n < search->count; n++)
		finish_candidate(flows, &search->candidates[n]);
	search->count = 0;
}

static void add_candidate(struct flows *flows, struct counted_search *search,
			  const struct counted_candidate *candidate)
{
	search->candidates[search->count++] = *candidate;
	if (search->count == TRACK_LOOKUPS)
		run_search(flows, search);
}

/**
 * counted_found() - conntrack's answer to a look-up
 * @flows: flow detection
 * @tracked: the connection
 */
void counted_found(struct flows *flows, const struct track_connection *tracked)
{
	struct counted_search *search = flows->search;
	u32 n, direction;

	for (n = 0; search && n < search->count; n++) {
		struct counted_candidate *candidate = &search->candidates[n];

		for (direction = 0; direction < TRACK_DIRECTIONS; direction++) {
			const struct track_direction *own =
				&tracked->directions[direction];

			if (memcmp(&own->flow, &candidate->sent.flow,
				   sizeof(own->flow)))
				continue;
			candidate->found = true;
			candidate->ended = own->ended;
			candidate->mark = tracked->marked ? tracked->mark : 0;
			memcpy(candidate->sender,
			       tracked->directions[!direction].flow.destination,
			       sizeof(candidate->sender));
		}
	}
}

/**
 * struct receiver - where reports go
 * @flows: flow detection
 * @search: those of connections that are not known
 */
struct receiver {
	struct flows *flows;
	struct counted_search *search;
};

static void receive_report(void *context, const struct enforce_connection *sent)
{
	const struct receiver *receiver = context;
	struct flows *flows = receiver->flows;
	struct direction_key key = { .flow = sent->flow };
	struct connection *known = flows_find_connection(flows, &key);

	if (known)
		update(flows, known, sent);
	else if (!sent->ended || sent->bytes)
		add_candidate(flows, receiver->search,
			      &(struct counted_candidate){ .sent = *sent });
}

/**
 * counted_receive() - process reports
 * @flows: flow detection
 */
void counted_receive(struct flows *flows)
{
	struct counted_search search = {};
	struct receiver receiver = { flows, &search };

	enforce_receive(flows->enforce, receive_report, &receiver);
	run_search(flows, &search);
}

/*
 * Read a connection again. Returns whether it has sent; one that has lost its place is
 * counted anew if it sends.
 */
static bool read_again(struct flows *flows, struct connection *connection,
		       struct enforce_connection *sent)
{
	u64 before = connection->active;

	*sent = (struct enforce_connection){
		.flow = connection->key.flow,
		.place = connection->place,
	};
	if (!enforce_read_connection(flows->enforce, sent))
		return false;
	count(flows, connection, sent);
	return connection->active > before;
}

/* A connection is due that is about to join, or whose sender has finished. */
static void check(struct flows *flows, struct connection *connection)
{
	struct enforce_connection sent;
	bool active;

	if (flows_wait(flows, connection))
		return;
	active = read_again(flows, connection, &sent);
	if (!connection->detected)
		join(flows, connection, &sent);
	else if (active || connection->queue < FLOWS_EARLY_CHECKS)
		flows_queue_check(flows, connection);
	else if (connection->closing)
		flows_remove_connection(flows, connection);
}

/* Should conntrack be asked whether a silent connection still exists? */
static bool is_doubtful(const struct flows *flows,
			const struct connection *connection)
{
	u64 silent = flows->now - connection->active;

	return connection->key.flow.protocol == IPPROTO_TCP &&
	       connection->tracked && silent >= TCP_SILENT &&
	       flows->now - connection->looked_up >= silent / 2;
}

/* Read all connections, some at a time, and remove those that are idle. */
static void sweep(struct flows *flows)
{
	struct counted_search search = {};
	struct detected_flow *detected;
	u32 n;

	for (n = 0; n < FLOWS_SLICE && flows->sweep; n++) {
		struct connection *connection = flows->sweep;
		bool tcp = connection->key.flow.protocol == IPPROTO_TCP;
		u64 idle = flows->config.idle * (tcp ? TCP_IDLE : 1);
		struct enforce_connection sent;

		flows->sweep = LIST_NEXT(connection, list);
		read_again(flows, connection, &sent);
		if (flows->now - connection->active >= idle) {
			flows_remove_connection(flows, connection);
		} else if (is_doubtful(flows, connection) &&
			   search.count < TRACK_LOOKUPS - 1) {
			connection->looked_up = flows->now;
			add_candidate(flows, &search,
				      &(struct counted_candidate){
					      .sent = sent,
					      .known = connection,
				      });
		}
	}
	run_search(flows, &search);
	if (flows->sweep)
		return;
	LIST_FOREACH(detected, &flows->detected, list)
	share_settle(flows, detected);
}

/* Look for the connections of restored sessions, some at a time. */
static void look_for_orphans(struct flows *flows)
{
	const struct agent *agent = flows->agent;
	struct counted_search search = {};

	while (flows->orphan < agent->entries &&
	       search.count < TRACK_LOOKUPS - 1) {
		const struct session *session =
			agent->sessions[flows->orphan++];

		if (flows_is_orphan(session) &&
		    track_can_look_up(session->flow.protocol))
			add_candidate(flows, &search,
				      &(struct counted_candidate){
					      .sent.flow = session->flow,
					      .sent.place = ~0U,
					      .restored = true,
				      });
	}
	run_search(flows, &search);
	if (flows->now >= flows->orphans_until)
		flows_release_orphans(flows);
}

/**
 * counted_run() - look after connections when it is due
 * @flows: flow detection
 */
void counted_run(struct flows *flows)
{
	struct connection *connection;
	u32 n;

	for (n = 0; n < FLOWS_SLICE; n++) {
		connection = flows_next_check(flows);
		if (!connection)
			break;
		check(flows, connection);
	}
	if (flows->restored)
		look_for_orphans(flows);
	if (!flows->sweep && flows->now >= flows->dump_at) {
		flows->dump_at = flows->now +
				 fp_max64(fp_min64(flows->config.idle / 2,
						   SWEEP_INTERVAL),
					  SWEEP_PER_CONNECTION * flows->count);
		flows->sweep = LIST_FIRST(&flows->connections);
	}
	if (flows->sweep)
		sweep(flows);
}
