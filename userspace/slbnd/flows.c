// SPDX-License-Identifier: GPL-2.0
/*
 * Flows of own hosts: flows.h says what this is.
 *
 * Connections and what they have become are found by trees of the C library
 * (tsearch(3), balanced), so that nobody outside can make them slow.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flows.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)

/* How often use is looked at, at least, where conntrack's table is read for it. */
#define TABLE_STEP SECOND
/* Of 10,000 sessions a look takes some 20 ms: so that it never takes much, ns. */
#define STEP_EACH 50000ULL
/* What conntrack does not tell: how long packets are, octets. */
#define PACKET 1500
/* Idle times after which silent TCP is taken for dead. */
#define TCP_IDLE 30

/**
 * struct half_key - tells a half from all others
 * @flow: its packets as they leave
 * @id: conntrack's, of the connection
 */
struct half_key {
	struct slbn_flow flow;
	u32 id;
};

/**
 * struct connection - one whose packets from an own host are of interest
 * @key: of that half
 * @list: of all of them
 * @sender: the own host
 * @found: what it belongs to; NULL: it is silent
 * @bytes: sent so far
 * @active: when it was known to send, ns
 * @round: when it was told of
 */
struct connection {
	struct half_key key;

	LIST_ENTRY(connection) list;
	u8 sender[16];
	struct found *found;
	u64 bytes;
	u64 active;
	u32 round;
};

/* Keys have no holes, and are the first member of what has them. */
static int compare_halves(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct half_key));
}

static int compare_flows(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct slbn_flow));
}

static bool within(const struct flows_prefix *prefix, u16 family,
		   const u8 *address)
{
	u8 octets = prefix->length / 8, bits = prefix->length % 8;
	u8 mask = 0xff00 >> bits;

	return prefix->family == family &&
	       !memcmp(prefix->address, address, octets) &&
	       (!bits || !((prefix->address[octets] ^ address[octets]) & mask));
}

static bool is_own(const struct flows_config *config, u16 family,
		   const u8 *address)
{
	u32 n;

	for (n = 0; n < config->host_count; n++)
		if (within(&config->hosts[n], family, address))
			return true;
	return false;
}

static bool wanted_ports(const struct flows_config *config,
			 const struct slbn_flow *flow)
{
	u32 n;

	for (n = 0; n < config->port_count; n++) {
		const struct flows_ports *ports = &config->ports[n];

		if ((flow->source_port >= ports->first &&
		     flow->source_port <= ports->last) ||
		    (flow->destination_port >= ports->first &&
		     flow->destination_port <= ports->last))
			return true;
	}
	return !config->port_count;
}

static bool is_one_host(const struct slbn_flow *flow)
{
	return flow->destination[0] < (flow->family == AF_INET ? 224 : 255);
}

/* Control packets are nobody's flow. */
static bool is_control(const struct slbn_flow *flow)
{
	return flow->protocol == IPPROTO_UDP &&
	       (flow->source_port == SLBN_PORT ||
		flow->destination_port == SLBN_PORT);
}

/* Is this what an own host, @sender, sends to others? */
static bool is_wanted(const struct flows_config *config,
		      const struct slbn_flow *flow, const u8 *sender)
{
	return is_own(config, flow->family, sender) &&
	       !is_own(config, flow->family, flow->destination) &&
	       is_one_host(flow) && !is_control(flow) &&
	       (!config->chosen || config->protocols[flow->protocol]) &&
	       wanted_ports(config, flow);
}

static struct slbn_flow session_flow(const struct flows_config *config,
				     const struct slbn_flow *flow)
{
	struct slbn_flow wide = *flow;

	if (config->pairs) {
		wide.protocol = 0;
		wide.source_port = 0;
		wide.destination_port = 0;
	}
	return wide;
}

static struct found *find(const struct flows *flows,
			  const struct slbn_flow *flow)
{
	void *const *node = tfind(flow, &flows->by_flow, compare_flows);

	return node ? *node : NULL;
}

static struct found *add_found(struct flows *flows,
			       const struct slbn_flow *flow)
{
	struct found *found = calloc(1, sizeof(*found));

	if (!found)
		return NULL;
	found->flow = *flow;
	if (!tsearch(found, &flows->by_flow, compare_flows)) {
		free(found);
		return NULL;
	}
	found->session = agent_join(flows->agent, flow, flows->config.initial,
				    flows->now);
	if (!found->session) {
		tdelete(found, &flows->by_flow, compare_flows);
		free(found);
		return NULL;
	}
	found->session->flags = SLBN_DETECTED;
	found->session->found = found;
	LIST_INSERT_HEAD(&flows->found, found, list);
	return found;
}

static void remove_found(struct flows *flows, struct found *found)
{
	if (found->session) {
		found->session->found = NULL;
		agent_leave(flows->agent, found->session, flows->now);
	}
	tdelete(found, &flows->by_flow, compare_flows);
	LIST_REMOVE(found, list);
	free(found);
}

/* Without memory it stays silent, until the next table. */
static void begin(struct flows *flows, struct connection *connection)
{
	struct slbn_flow flow =
		session_flow(&flows->config, &connection->key.flow);
	struct found *found = find(flows, &flow) ?: add_found(flows, &flow);

	connection->active = flows->now;
	connection->found = found;
	if (found)
		found->connections++;
}

static void end(struct flows *flows, struct connection *connection)
{
	struct found *found = connection->found;

	connection->found = NULL;
	if (found && !--found->connections)
		remove_found(flows, found);
}

static struct connection *find_connection(const struct flows *flows,
					  const struct half_key *key)
{
	void *const *node = tfind(key, &flows->by_half, compare_halves);

	return node ? *node : NULL;
}

static void add_connection(struct flows *flows, const struct half_key *key,
			   const struct track_half *half, const u8 *sender)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return;
	connection->key = *key;
	if (!tsearch(connection, &flows->by_half, compare_halves)) {
		free(connection);
		return;
	}
	LIST_INSERT_HEAD(&flows->connections, connection, list);
	memcpy(connection->sender, sender, sizeof(connection->sender));
	connection->round = flows->round;
	if (half->bytes == TRACK_UNCOUNTED) {
		begin(flows, connection);
		return;
	}
	/* Of the table: it may be long dead, so see soon whether it sends more. */
	connection->bytes = half->bytes;
	connection->active = flows->now;
	flows->list_at = fp_min64(flows->list_at, flows->now + DEMAND_STEP);
}

static void remove_connection(struct flows *flows,
			      struct connection *connection)
{
	end(flows, connection);
	tdelete(connection, &flows->by_half, compare_halves);
	LIST_REMOVE(connection, list);
	free(connection);
}

/* What it has sent since it was told of before. */
static u64 sent_since(struct connection *connection, u64 bytes)
{
	u64 before = connection->bytes;

	connection->bytes = bytes;
	/* Others may set conntrack's counters to zero. */
	return bytes >= before ? bytes - before : bytes;
}

static void update(struct flows *flows, struct connection *connection,
		   const struct track_half *half)
{
	u64 more = 0;

	connection->round = flows->round;
	if (half->bytes != TRACK_UNCOUNTED) {
		more = sent_since(connection, half->bytes);
		if (!more)
			return;
	}
	/* Of what nobody counts it cannot be said that it is silent. */
	connection->active = flows->now;
	if (!connection->found)
		begin(flows, connection);
	if (connection->found)
		connection->found->counted += more;
}

static void seen(void *context, const struct track_connection *connection)
{
	struct flows *flows = context;
	unsigned int n;

	for (n = 0; n < TRACK_HALVES; n++) {
		const struct track_half *half = &connection->halves[n];
		const u8 *sender = connection->halves[!n].flow.destination;
		struct half_key key = { .flow = half->flow,
					.id = connection->id };
		struct connection *known = find_connection(flows, &key);
		bool over = connection->gone || half->ended;

		if (known && over)
			remove_connection(flows, known);
		else if (known)
			update(flows, known, half);
		else if (half->started && !over &&
			 is_wanted(&flows->config, &half->flow, sender))
			add_connection(flows, &key, half, sender);
	}
}

/* A session has done so much since it began, or since some time after. */
static void follow(struct flows *flows, struct session *session,
		   const struct enforce_use *use)
{
	u64 rate = session->source.rate, demand = session->source.D;
	struct demand_seen seen = {
		.now = flows->now,
		.bytes = use->bytes,
		.drops = use->drops,
		.packet = use->packets ? use->bytes / use->packets : PACKET,
		.rtt = session->rtt,
		.rate = rate,
		.demand = demand,
		/* More is to be had only if no link restricts it. */
		.restricted = session->source.pkt.bottleneck == SLBN_NO_HOP &&
			      rate >= demand,
	};
	u64 wanted = demand_follow(&session->use, &seen);

	wanted = fp_min64(wanted, SLBN_RATE_MAX);
	if (session->found && wanted != demand)
		agent_change(flows->agent, session, wanted, flows->now);
}

/* By packets as they left. */
static void follow_all(struct flows *flows)
{
	const struct agent *agent = flows->agent;
	struct enforce_use use;
	u32 n;

	for (n = 0; n < agent->places; n++) {
		struct session *session = agent->sessions[n];

		if (session->used &&
		    enforce_read(flows->enforce, &session->flow, &use))
			follow(flows, session, &use);
	}
}

/* By what conntrack has counted. */
static void follow_found(struct flows *flows)
{
	struct found *found;

	LIST_FOREACH(found, &flows->found, list)
	{
		struct enforce_use use = { .bytes = found->counted };

		if (found->session)
			follow(flows, found->session, &use);
	}
}

/* The table has been read: what it did not mention is not there any more. */
static void listed(void *context)
{
	struct flows *flows = context;
	struct connection *connection, *next;

	for (connection = LIST_FIRST(&flows->connections); connection;
	     connection = next) {
		bool tcp = connection->key.flow.protocol == IPPROTO_TCP;
		u64 idle = flows->config.idle * (tcp ? TCP_IDLE : 1);

		next = LIST_NEXT(connection, list);
		if (connection->round != flows->round)
			remove_connection(flows, connection);
		else if (flows->now - connection->active >= idle)
			end(flows, connection);
	}
	if (!flows->enforce)
		follow_found(flows);
}

static void lost(void *context)
{
	struct flows *flows = context;

	flows->list_at = flows->now;
}

static const struct track_events events = {
	.seen = seen,
	.listed = listed,
	.lost = lost,
};

/**
 * flows_init() - look for no flows yet
 * @flows: all of it is set
 * @agent: who looks after the sessions
 * @enforce: who holds them to their rates; NULL: nobody
 */
void flows_init(struct flows *flows, struct agent *agent,
		struct enforce *enforce)
{
	*flows = (struct flows){ .agent = agent, .enforce = enforce };
}

/**
 * flows_open() - begin to look for flows
 * @flows: the flows, not open
 * @config: what the user chooses; there are own hosts
 * @now: ns
 *
 * Return: 0, or a negative error of errno.h: then there is nothing to close.
 */
int flows_open(struct flows *flows, const struct flows_config *config, u64 now)
{
	int error;

	flows->config = *config;
	flows->list_at = now;
	error = track_open(&flows->track, &events, flows);
	flows->open = !error;
	return error;
}

/**
 * flows_close() - look for flows no more; the sessions of those that were found end
 * @flows: the flows
 * @now: ns
 */
void flows_close(struct flows *flows, u64 now)
{
	if (!flows->open)
		return;
	flows->open = false;
	flows->now = now;
	while (!LIST_EMPTY(&flows->connections))
		remove_connection(flows, LIST_FIRST(&flows->connections));
	track_close(&flows->track);
}

/* Where a connection belongs may be another session than before. */
static void sort_anew(struct flows *flows, struct connection *connection)
{
	struct slbn_flow flow =
		session_flow(&flows->config, &connection->key.flow);

	if (!connection->found ||
	    !compare_flows(&flow, &connection->found->flow))
		return;
	end(flows, connection);
	begin(flows, connection);
}

/**
 * flows_configure() - the user chooses something else
 * @flows: the flows, open
 * @config: this
 * @now: ns
 *
 * Sessions that are still wanted stay.
 */
void flows_configure(struct flows *flows, const struct flows_config *config,
		     u64 now)
{
	struct connection *connection, *next;

	flows->now = now;
	flows->config = *config;
	/* Others may be wanted now. */
	flows->list_at = now;
	for (connection = LIST_FIRST(&flows->connections); connection;
	     connection = next) {
		next = LIST_NEXT(connection, list);
		if (is_wanted(config, &connection->key.flow,
			      connection->sender))
			sort_anew(flows, connection);
		else
			remove_connection(flows, connection);
	}
}

/**
 * flows_due() - when flows_run() has something to do
 * @flows: the flows
 *
 * Return: ns; ~0: never.
 */
u64 flows_due(const struct flows *flows)
{
	u64 due = ~0ULL;

	if (flows->open && !flows->track.listing)
		due = flows->list_at;
	if (flows->enforce && flows->agent->count)
		due = fp_min64(due, flows->step_at);
	return due;
}

/**
 * flows_run() - do what is due
 * @flows: the flows
 * @now: ns
 */
void flows_run(struct flows *flows, u64 now)
{
	u64 pause = flows->config.idle / 2;

	flows->now = now;
	if (flows->enforce && now >= flows->step_at) {
		flows->step_at =
			now +
			fp_max64(DEMAND_STEP, STEP_EACH * flows->agent->count);
		follow_all(flows);
	}
	if (!flows->open)
		return;
	if (now < flows->list_at || flows->track.listing)
		return;
	if (!flows->enforce)
		pause = fp_min64(pause, TABLE_STEP);
	flows->list_at = now + pause;
	flows->round++;
	track_list(&flows->track);
}

/**
 * flows_serve() - conntrack has something to say
 * @flows: the flows
 * @now: ns
 */
void flows_serve(struct flows *flows, u64 now)
{
	if (!flows->open)
		return;
	flows->now = now;
	track_serve(&flows->track);
}

/**
 * flows_gone() - a session is over
 * @session: the session, perhaps not one of ours
 *
 * If it is over before its flow, somebody wanted that; it is not joined again.
 */
void flows_gone(struct session *session)
{
	if (!session->found)
		return;
	session->found->session = NULL;
	session->found = NULL;
}

/**
 * flows_know() - is there a session of just this flow?
 * @flows: the flows
 * @flow: the flow
 *
 * Return: whether there is one that was found, and is not leaving.
 */
bool flows_know(const struct flows *flows, const struct slbn_flow *flow)
{
	const struct found *found = find(flows, flow);

	return found && found->session;
}
