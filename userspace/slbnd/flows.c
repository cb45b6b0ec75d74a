// SPDX-License-Identifier: GPL-2.0
/*
 * Flow detection. See flows.h.
 *
 * Connections and flows are in balanced trees (tsearch(3)), whose lookups remote
 * hosts cannot slow down, unlike those of hash tables.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flows.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)

/* Maximum interval of dumps if they measure use, ns. */
#define DUMP_INTERVAL SECOND
/*
 * Minimum interval of measurements per session, ns: one of 10,000 sessions takes
 * about 20 ms.
 */
#define STEP_PER_SESSION 50000ULL
/* Length of packets if only conntrack counts them, octets. */
#define PACKET 1500
/* Idle times after which TCP is taken for dead. */
#define TCP_IDLE 30

/**
 * struct direction_key - a direction of a connection
 * @flow: its packets as they leave
 * @id: conntrack's ID of the connection
 */
struct direction_key {
	struct slbn_flow flow;
	u32 id;
};

/**
 * struct connection - a connection of a local host
 * @key: the direction from the local host; first member, for lookups
 * @list: list of all connections
 * @sender: the local host
 * @mark: conntrack's mark
 * @detected: its flow; NULL: it is idle
 * @bytes: sent, when last read
 * @active: when it last sent, as far as known, ns
 * @dump: dump that it was last in, or the one before its last event
 */
struct connection {
	struct direction_key key;

	LIST_ENTRY(connection) list;
	u8 sender[16];
	u32 mark;
	struct detected_flow *detected;
	u64 bytes;
	u64 active;
	u32 dump;
};

/* Keys have no padding. */
static int compare_directions(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct direction_key));
}

static int compare_flows(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct slbn_flow));
}

static bool prefix_matches(const struct flows_prefix *prefix, u16 family,
			   const u8 *address)
{
	u8 octets = prefix->length / 8, bits = prefix->length % 8;
	u8 mask = 0xff00 >> bits;

	return prefix->family == family &&
	       !memcmp(prefix->address, address, octets) &&
	       (!bits || !((prefix->address[octets] ^ address[octets]) & mask));
}

static bool is_local(const struct flows_config *config, u16 family,
		     const u8 *address)
{
	u32 n;

	for (n = 0; n < config->host_count; n++)
		if (prefix_matches(&config->hosts[n], family, address))
			return true;
	return false;
}

static bool ports_match(const struct flows_config *config,
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

static bool is_unicast(const struct slbn_flow *flow)
{
	return flow->destination[0] < (flow->family == AF_INET ? 224 : 255);
}

static bool is_control(const struct slbn_flow *flow)
{
	return flow->protocol == IPPROTO_UDP &&
	       (flow->source_port == SLBN_PORT ||
		flow->destination_port == SLBN_PORT);
}

/* Do the options select this flow of the host @sender? */
static bool is_selected(const struct flows_config *config,
			const struct slbn_flow *flow, const u8 *sender)
{
	return is_local(config, flow->family, sender) &&
	       !is_local(config, flow->family, flow->destination) &&
	       is_unicast(flow) && !is_control(flow) &&
	       (!config->only_protocols || config->protocols[flow->protocol]) &&
	       ports_match(config, flow);
}

static struct slbn_flow session_flow(const struct flows_config *config,
				     const struct slbn_flow *flow)
{
	struct slbn_flow aggregate = *flow;

	if (config->pairs) {
		aggregate.protocol = 0;
		aggregate.source_port = 0;
		aggregate.destination_port = 0;
	}
	return aggregate;
}

static struct detected_flow *find_flow(const struct flows *flows,
				       const struct slbn_flow *flow)
{
	void *const *node = tfind(flow, &flows->by_flow, compare_flows);

	return node ? *node : NULL;
}

static struct detected_flow *add_flow(struct flows *flows,
				      const struct slbn_flow *flow, u32 mark)
{
	struct detected_flow *detected = calloc(1, sizeof(*detected));

	if (!detected)
		return NULL;
	detected->flow = *flow;
	if (!tsearch(detected, &flows->by_flow, compare_flows)) {
		free(detected);
		return NULL;
	}
	detected->session = agent_join(flows->agent, flow, mark,
				       flows->config.initial, 1, flows->now);
	if (!detected->session) {
		tdelete(detected, &flows->by_flow, compare_flows);
		free(detected);
		return NULL;
	}
	detected->session->flags = SLBN_DETECTED;
	detected->session->detected = detected;
	LIST_INSERT_HEAD(&flows->detected, detected, list);
	return detected;
}

static void remove_flow(struct flows *flows, struct detected_flow *detected)
{
	if (detected->session) {
		detected->session->detected = NULL;
		agent_leave(flows->agent, detected->session, flows->now);
	}
	tdelete(detected, &flows->by_flow, compare_flows);
	LIST_REMOVE(detected, list);
	free(detected);
}

/* Without memory it stays idle until the next dump. */
static void attach(struct flows *flows, struct connection *connection)
{
	struct slbn_flow flow =
		session_flow(&flows->config, &connection->key.flow);
	struct detected_flow *detected =
		find_flow(flows, &flow) ?:
			add_flow(flows, &flow, connection->mark);

	connection->active = flows->now;
	connection->detected = detected;
	if (detected)
		detected->connections++;
}

static void detach(struct flows *flows, struct connection *connection)
{
	struct detected_flow *detected = connection->detected;

	connection->detected = NULL;
	if (detected && !--detected->connections)
		remove_flow(flows, detected);
}

static struct connection *find_connection(const struct flows *flows,
					  const struct direction_key *key)
{
	void *const *node =
		tfind(key, &flows->by_direction, compare_directions);

	return node ? *node : NULL;
}

static void add_connection(struct flows *flows, const struct direction_key *key,
			   const struct track_direction *direction,
			   const u8 *sender, u32 mark)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return;
	connection->key = *key;
	if (!tsearch(connection, &flows->by_direction, compare_directions)) {
		free(connection);
		return;
	}
	LIST_INSERT_HEAD(&flows->connections, connection, list);
	memcpy(connection->sender, sender, sizeof(connection->sender));
	connection->mark = mark;
	connection->dump = flows->dump;
	if (direction->bytes == TRACK_UNCOUNTED) {
		attach(flows, connection);
		return;
	}
	/* From a dump: it may have ended long ago, so check soon whether it sends. */
	connection->bytes = direction->bytes;
	connection->active = flows->now;
	flows->dump_at = fp_min64(flows->dump_at, flows->now + DEMAND_STEP);
}

static void remove_connection(struct flows *flows,
			      struct connection *connection)
{
	detach(flows, connection);
	tdelete(connection, &flows->by_direction, compare_directions);
	LIST_REMOVE(connection, list);
	free(connection);
}

/* Bytes sent since it was last read. */
static u64 bytes_since(struct connection *connection, u64 bytes)
{
	u64 previous = connection->bytes;

	connection->bytes = bytes;
	/* Other programs may reset conntrack's counters. */
	return bytes >= previous ? bytes - previous : bytes;
}

static void update(struct flows *flows, struct connection *connection,
		   const struct track_direction *direction)
{
	u64 sent = 0;

	connection->dump = flows->dump;
	if (direction->bytes != TRACK_UNCOUNTED) {
		sent = bytes_since(connection, direction->bytes);
		if (!sent)
			return;
	}
	/* Without a counter, assume that it is active. */
	connection->active = flows->now;
	if (!connection->detected)
		attach(flows, connection);
	if (connection->detected)
		connection->detected->counted += sent;
}

/* The connections of a session should have the same mark. */
static void update_mark(struct connection *connection, u32 mark)
{
	struct detected_flow *detected = connection->detected;

	if (connection->mark == mark)
		return;
	connection->mark = mark;
	if (detected && detected->session)
		detected->session->mark = mark;
}

static void update_connection(void *context,
			      const struct track_connection *connection)
{
	struct flows *flows = context;
	unsigned int n;

	for (n = 0; n < TRACK_DIRECTIONS; n++) {
		const struct track_direction *direction =
			&connection->directions[n];
		const u8 *sender = connection->directions[!n].flow.destination;
		struct direction_key key = { .flow = direction->flow,
					     .id = connection->id };
		struct connection *known = find_connection(flows, &key);
		bool ended = connection->destroyed || direction->ended;

		if (known && connection->marked)
			update_mark(known, connection->mark);
		if (known && ended)
			remove_connection(flows, known);
		else if (known)
			update(flows, known, direction);
		else if (direction->started && !ended &&
			 is_selected(&flows->config, &direction->flow, sender))
			add_connection(flows, &key, direction, sender,
				       connection->mark);
	}
}

/* Update the demand of a session by the counters @use. */
static void update_demand(struct flows *flows, struct session *session,
			  const struct enforce_use *use)
{
	u64 rate = session->source.rate, demand = session->source.D;
	struct demand_sample sample = {
		.now = flows->now,
		.bytes = use->bytes,
		.drops = use->drops,
		.packet = use->packets ? use->bytes / use->packets : PACKET,
		.rtt = session->rtt,
		.rate = rate,
		.demand = demand,
		.demand_limited =
			session->source.pkt.bottleneck == SLBN_NO_HOP &&
			rate >= demand,
	};
	u64 new_demand = demand_update(&session->use, &sample);

	new_demand = fp_min64(new_demand, SLBN_RATE_MAX);
	if (session->detected && new_demand != demand)
		agent_change(flows->agent, session, new_demand, flows->now);
}

/* By the counters of rate enforcement, for all sessions. */
static void measure_enforced(struct flows *flows)
{
	const struct agent *agent = flows->agent;
	struct enforce_use use;
	u32 n;

	for (n = 0; n < agent->entries; n++) {
		struct session *session = agent->sessions[n];

		if (session->in_use &&
		    enforce_read(flows->enforce, &session->flow, &use))
			update_demand(flows, session, &use);
	}
}

/* By the counters of conntrack, for detected flows. */
static void measure_tracked(struct flows *flows)
{
	struct detected_flow *detected;

	LIST_FOREACH(detected, &flows->detected, list)
	{
		struct enforce_use use = { .bytes = detected->counted };

		if (detected->session)
			update_demand(flows, detected->session, &use);
	}
}

/* Remove the connections that the dump did not contain. */
static void finish_dump(void *context)
{
	struct flows *flows = context;
	struct connection *connection, *next;

	for (connection = LIST_FIRST(&flows->connections); connection;
	     connection = next) {
		bool tcp = connection->key.flow.protocol == IPPROTO_TCP;
		u64 idle = flows->config.idle * (tcp ? TCP_IDLE : 1);

		next = LIST_NEXT(connection, list);
		if (connection->dump != flows->dump)
			remove_connection(flows, connection);
		else if (flows->now - connection->active >= idle)
			detach(flows, connection);
	}
	if (!flows->enforce)
		measure_tracked(flows);
}

static void request_dump(void *context)
{
	struct flows *flows = context;

	flows->dump_at = flows->now;
}

static const struct track_callbacks callbacks = {
	.update = update_connection,
	.dump_done = finish_dump,
	.events_lost = request_dump,
};

/**
 * flows_init() - initialize, without flow detection
 * @flows: flow detection
 * @agent: the sessions
 * @enforce: rate enforcement; NULL: none
 */
void flows_init(struct flows *flows, struct agent *agent,
		struct enforce *enforce)
{
	*flows = (struct flows){ .agent = agent, .enforce = enforce };
}

/**
 * flows_open() - start flow detection
 * @flows: flow detection, not active
 * @config: options, with local hosts
 * @now: ns
 *
 * Return: 0, or a negative errno: then flows_close() is not needed.
 */
int flows_open(struct flows *flows, const struct flows_config *config, u64 now)
{
	int error;

	flows->config = *config;
	flows->dump_at = now;
	error = track_open(&flows->track, &callbacks, flows);
	flows->open = !error;
	return error;
}

/**
 * flows_close() - stop flow detection; sessions of detected flows leave
 * @flows: flow detection
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

/* Move a connection to another session if the options require it. */
static void reassign(struct flows *flows, struct connection *connection)
{
	struct slbn_flow flow =
		session_flow(&flows->config, &connection->key.flow);

	if (!connection->detected ||
	    !compare_flows(&flow, &connection->detected->flow))
		return;
	detach(flows, connection);
	attach(flows, connection);
}

/**
 * flows_configure() - change the options
 * @flows: flow detection, active
 * @config: options, with local hosts
 * @now: ns
 *
 * Sessions that the new options select remain.
 */
void flows_configure(struct flows *flows, const struct flows_config *config,
		     u64 now)
{
	struct connection *connection, *next;

	flows->now = now;
	flows->config = *config;
	/* They may select other connections. */
	flows->dump_at = now;
	for (connection = LIST_FIRST(&flows->connections); connection;
	     connection = next) {
		next = LIST_NEXT(connection, list);
		if (is_selected(config, &connection->key.flow,
				connection->sender))
			reassign(flows, connection);
		else
			remove_connection(flows, connection);
	}
}

/**
 * flows_due() - when flows_run() must be called
 * @flows: flow detection
 *
 * Return: ns; ~0: never.
 */
u64 flows_due(const struct flows *flows)
{
	u64 due = ~0ULL;

	if (flows->open && !flows->track.dumping)
		due = flows->dump_at;
	if (flows->enforce && flows->agent->count)
		due = fp_min64(due, flows->step_at);
	return due;
}

/**
 * flows_run() - measure use and start dumps when they are due
 * @flows: flow detection
 * @now: ns
 */
void flows_run(struct flows *flows, u64 now)
{
	u64 interval = flows->config.idle / 2;

	flows->now = now;
	if (flows->enforce && now >= flows->step_at) {
		flows->step_at =
			now + fp_max64(DEMAND_STEP,
				       STEP_PER_SESSION * flows->agent->count);
		measure_enforced(flows);
	}
	if (!flows->open)
		return;
	if (now < flows->dump_at || flows->track.dumping)
		return;
	if (!flows->enforce)
		interval = fp_min64(interval, DUMP_INTERVAL);
	flows->dump_at = now + interval;
	flows->dump++;
	track_dump(&flows->track);
}

/**
 * flows_receive() - process messages of conntrack
 * @flows: flow detection
 * @now: ns
 */
void flows_receive(struct flows *flows, u64 now)
{
	if (!flows->open)
		return;
	flows->now = now;
	track_receive(&flows->track);
}

/**
 * flows_session_ended() - a session ended
 * @session: the session, of any kind
 *
 * If a client ended the session of a detected flow, the flow does not join again.
 */
void flows_session_ended(struct session *session)
{
	if (!session->detected)
		return;
	session->detected->session = NULL;
	session->detected = NULL;
}

/**
 * flows_has_session() - does a detected flow have a session?
 * @flows: flow detection
 * @flow: the flow of the session
 *
 * Return: whether it has one, which is not leaving.
 */
bool flows_has_session(const struct flows *flows, const struct slbn_flow *flow)
{
	const struct detected_flow *detected = find_flow(flows, flow);

	return detected && detected->session;
}
