// SPDX-License-Identifier: GPL-2.0
/*
 * Flow detection. See flows.h.
 *
 * Connections and flows are in balanced trees (tsearch(3)): unlike in hash
 * tables, remote hosts cannot slow down lookups.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sessions/state.h"
#include "../system/log.h"
#include "counted.h"
#include "flows_internal.h"
#include "share.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)

/* Maximum interval of dumps if they measure use, ns. */
#define DUMP_INTERVAL SECOND
/* Minimum interval of dumps after lost events, ns. */
#define MIN_DUMP_INTERVAL SECOND
/* Difference of the intervals of early look-ups, ns. */
#define EARLY_STEP (5 * MS)
/* Part of its use that a connection keeps as demand when its sender has finished. */
#define CLOSING_PART 8

/* Keys have no padding. */
static int compare_directions(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct direction_key));
}

static int compare_flows(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct slbn_flow));
}

static struct detected_flow *find_flow(const struct flows *flows,
				       const struct slbn_flow *flow)
{
	void *const *node = tfind(flow, &flows->by_flow, compare_flows);

	return node ? *node : NULL;
}

static bool is_metered(const struct flows_config *config)
{
	return config->join_packets || config->join_bytes;
}

/* Is it a restored session of a detected flow, whose connection was not found yet? */
bool flows_is_orphan(const struct session *session)
{
	return session->in_use && session->flags & SLBN_DETECTED &&
	       !session->use.detected && !session->source.leaving;
}

/* The restored session of a flow; NULL: it has none. */
static struct session *find_restored(const struct flows *flows,
				     const struct slbn_flow *flow)
{
	struct session *session = NULL;

	if (flows->restored)
		session = agent_find_flow(flows->agent, flow);
	return session && flows_is_orphan(session) ? session : NULL;
}

/* Restored sessions without a connection leave. */
void flows_release_orphans(struct flows *flows)
{
	const struct agent *agent = flows->agent;
	struct detected_flow *detected;
	u32 n;

	if (!flows->restored)
		return;
	flows->restored = false;
	for (n = 0; n < agent->entries; n++)
		if (flows_is_orphan(agent->sessions[n]))
			agent_leave(flows->agent, agent->sessions[n],
				    flows->now);
	LIST_FOREACH(detected, &flows->detected, list)
	share_settle(flows, detected);
}

/* What a connection should ask for first, by what it has sent lately. */
static u64 first_demand(const struct flows *flows,
			const struct connection *connection)
{
	const struct agent_credit *sent = &connection->sent;
	u64 initial = flows->config.initial;
	u32 growth = flows_growth(connection->key.flow.protocol, sent->packets,
				  sent->octets, flows->config.borrow);
	u64 demand = fp_max64(growth * connection->speed, DEMAND_MIN);

	if (demand_has_data(sent->packets, sent->octets))
		demand = fp_max64(demand, initial);
	return fp_min64(demand, SLBN_RATE_MAX);
}

static u64 first_floor(const struct connection *connection)
{
	const struct agent_credit *sent = &connection->sent;

	return demand_first_floor(connection->speed,
				  connection->key.flow.protocol == IPPROTO_TCP,
				  sent->packets, sent->octets);
}

/* Join a session for a flow, if quotas allow it. */
static bool join_session(struct flows *flows, struct detected_flow *detected,
			 struct connection *connection)
{
	struct enforce_use use;
	bool metered = is_metered(&flows->config) &&
		       connection->bytes != TRACK_UNCOUNTED;
	const struct slbn_flow *flow = &detected->flow;
	struct session *session = find_restored(flows, flow);
	bool restored = session;
	struct session *other;
	u64 demand;

	detected->host =
		admit_flow(&flows->admit, &detected->flow, detected->sender,
			   detected->prefix, flows->now);
	if (!detected->host)
		return false;
	if ((!restored && agent_is_full(flows->agent)) ||
	    (metered && !restored &&
	     admit_must_wait(&flows->admit, detected->host)) ||
	    !share_join(flows, detected, session)) {
		admit_release(&flows->admit, detected->host, detected->prefix);
		return false;
	}
	/* The options may have changed. */
	if (restored &&
	    session->source.pkt.weight != share_weight(flows, detected)) {
		agent_leave(flows->agent, session, flows->now);
		session = NULL;
		restored = false;
	}
	demand = first_demand(flows, connection);
	/* A program may have joined a session for the flow. */
	other = agent_find_flow(flows->agent, flow);
	if (!restored && (!other || other->source.leaving))
		session = agent_join(flows->agent, flow, detected->mark, demand,
				     share_weight(flows, detected),
				     metered ? &connection->sent : NULL,
				     flows->now);
	if (!session) {
		share_leave(flows, detected);
		admit_release(&flows->admit, detected->host, detected->prefix);
		return false;
	}
	session->flags |= SLBN_DETECTED;
	session->use.bursts = !restored;
	session->use.detected = detected;
	session->use.floor = restored ? 0 : first_floor(connection);
	state_save(flows->agent->state, session);
	detected->session = session;
	detected->asked_at = flows->now;
	admit_asks(&flows->admit, flow, flows->now);
	/* A Join that is not metered does not fail, but asks for ever. */
	if (metered && !restored) {
		admit_begin_asking(detected->host);
		session->use.asking = detected->host;
	}
	if (detected->share)
		LIST_INSERT_HEAD(&detected->share->members, detected, shared);
	detected->rejoins = false;
	/* The flow must send as much again for another Join. */
	connection->sent = (struct agent_credit){};
	detected->metered = (struct agent_credit){
		.packets = detected->counted_packets,
		.octets = detected->counted,
	};
	if (flows->enforce) {
		/* An earlier session of the flow may still be leaving. */
		enforce_read(flows->enforce, &detected->flow,
			     &session->use.place, &use);
		detected->metered.packets = use.packets;
		detected->metered.octets = use.bytes;
	}
	if (flows->enforce && !restored) {
		demand_begin(&session->use.demand, flows->now, use.bytes);
		TAILQ_INSERT_TAIL(&flows->starting, detected, fast);
		detected->starting = true;
		flows->fast_at =
			fp_min64(flows->fast_at, flows->now + FLOWS_FAST_STEP);
	}
	return true;
}

static struct detected_flow *add_flow(struct flows *flows,
				      const struct slbn_flow *flow,
				      struct connection *connection)
{
	struct detected_flow *detected = calloc(1, sizeof(*detected));
	int prefix =
		select_prefix(&flows->config, flow->family, connection->sender);

	if (!detected)
		return NULL;
	detected->flow = *flow;
	detected->mark = connection->mark;
	detected->prefix = prefix;
	memcpy(detected->sender, connection->sender, sizeof(detected->sender));
	if (!tsearch(detected, &flows->by_flow, compare_flows)) {
		free(detected);
		return NULL;
	}
	if (!join_session(flows, detected, connection)) {
		tdelete(detected, &flows->by_flow, compare_flows);
		free(detected);
		return NULL;
	}
	LIST_INSERT_HEAD(&flows->detected, detected, list);
	return detected;
}

static void leave_share(struct flows *flows, struct detected_flow *detected)
{
	if (detected->share)
		LIST_REMOVE(detected, shared);
	share_leave(flows, detected);
}

/* The session of a detected flow is no longer its own. */
static void release_session(struct flows *flows, struct detected_flow *detected)
{
	admit_release(&flows->admit, detected->host, detected->prefix);
	end_start(flows, detected);
	detected->session->use.detected = NULL;
	detected->session = NULL;
	leave_share(flows, detected);
}

/*
 * With as many sessions as there may be, the session of a flow cannot be replaced: it
 * leaves, and the flow joins again when it has sent enough.
 */
void flows_leave_first(struct flows *flows, struct detected_flow *detected)
{
	struct session *session = detected->session;

	release_session(flows, detected);
	agent_leave(flows->agent, session, flows->now);
	detected->rejoins = true;
}

static void remove_flow(struct flows *flows, struct detected_flow *detected)
{
	struct session *session = detected->session;

	if (session) {
		release_session(flows, detected);
		agent_leave(flows->agent, session, flows->now);
	}
	tdelete(detected, &flows->by_flow, compare_flows);
	LIST_REMOVE(detected, list);
	free(detected);
}

static bool has_sent_enough(const struct flows_config *config,
			    const struct connection *connection)
{
	return connection->sent.packets >= config->join_packets &&
	       connection->sent.octets >= config->join_bytes;
}

/*
 * Attach a connection to its flow. Without one, a connection that has sent enough
 * joins a session, if it may; otherwise this is tried again when it sends.
 */
void flows_attach(struct flows *flows, struct connection *connection)
{
	struct slbn_flow flow =
		select_session(&flows->config, &connection->key.flow);
	struct detected_flow *detected = find_flow(flows, &flow);

	if (!detected && (connection->bytes == TRACK_UNCOUNTED ||
			  has_sent_enough(&flows->config, connection) ||
			  find_restored(flows, &flow)))
		detected = add_flow(flows, &flow, connection);
	connection->detected = detected;
	connection->joined |= !!detected;
	if (detected)
		detected->connections++;
}

void flows_end_checks(struct flows *flows, struct connection *connection)
{
	if (connection->check_at)
		TAILQ_REMOVE(&flows->checks[connection->queue], connection,
			     check);
	connection->check_at = 0;
}

/* Begin again with short intervals. */
void flows_restart_checks(struct flows *flows, struct connection *connection)
{
	flows_end_checks(flows, connection);
	connection->checked = 0;
}

void flows_detach(struct flows *flows, struct connection *connection)
{
	struct detected_flow *detected = connection->detected;

	connection->detected = NULL;
	connection->sent = (struct agent_credit){};
	flows_restart_checks(flows, connection);
	if (detected && !--detected->connections)
		remove_flow(flows, detected);
}

/*
 * Has a connection sent enough, but must wait for answers to others of its host? Then it
 * is looked up soon, unless it is idle. An answer takes a round trip.
 */
bool flows_wait(struct flows *flows, struct connection *connection)
{
	if (!is_metered(&flows->config) || connection->detected ||
	    connection->closing ||
	    flows->now >= connection->active + flows->config.idle ||
	    !has_sent_enough(&flows->config, connection) ||
	    !admit_must_wait(&flows->admit, connection->host))
		return false;
	flows_restart_checks(flows, connection);
	flows_add_check(flows, connection, FLOWS_WAITING);
	return true;
}

/* The interval of a queue of look-ups, ns. */
static u64 check_interval(u32 queue)
{
	if (queue < FLOWS_EARLY_CHECKS)
		return (queue + 1) * EARLY_STEP;
	return 100 * MS << (queue - FLOWS_EARLY_CHECKS);
}

/* The queue of a look-up after @wait, ns, or the longest. */
u32 flows_check_queue(u64 wait)
{
	u32 queue = 0;

	while (queue < FLOWS_CHECK_QUEUES - 1 && check_interval(queue) < wait)
		queue++;
	return queue;
}

void flows_add_check(struct flows *flows, struct connection *connection,
		     u32 queue)
{
	/* Conntrack is asked for connections with ports only, the BPF program for all. */
	if (!flows->counted &&
	    !track_can_look_up(connection->key.flow.protocol))
		return;
	connection->queue = queue;
	connection->check_at = flows->now + check_interval(queue);
	TAILQ_INSERT_TAIL(&flows->checks[queue], connection, check);
}

/* Look up a connection soon, each time twice as late as before. */
void flows_queue_check(struct flows *flows, struct connection *connection)
{
	if (!connection->check_at && connection->checked < FLOWS_CHECKS)
		flows_add_check(flows, connection,
				FLOWS_EARLY_CHECKS + connection->checked);
}

/*
 * The sender has finished, or claims to: read the counters soon, and again when
 * packets that were lost before have been retransmitted. Sequence numbers and
 * flags can be forged, so the connection ends only if it has sent nothing in
 * between.
 */
void flows_check_end(struct flows *flows, struct connection *connection)
{
	const struct detected_flow *detected = connection->detected;
	u64 rtt = detected && detected->session ?
			  detected->session->timing.rtt :
			  0;
	u32 first = FLOWS_EARLY_CHECKS;

	flows_restart_checks(flows, connection);
	while (connection->checked < FLOWS_CHECKS - 1 &&
	       check_interval(first + connection->checked) < 2 * rtt)
		connection->checked++;
	flows_add_check(flows, connection, 0);
}

/* Is it the first look-up of flows_check_end()? */
static bool is_first_after_end(const struct connection *connection)
{
	return connection->closing && connection->queue < FLOWS_EARLY_CHECKS;
}

/*
 * The first event after that of a new connection reports an answer, or TCP's ACK of
 * it, about a round trip after the first packet. TCP sends its first window now, and
 * is looked up after another round trip, when it may have sent more than that.
 */
static void finish_handshake(struct flows *flows, struct connection *connection)
{
	u64 handshake = flows->now - connection->began;
	u32 queue = 0;

	connection->began = 0;
	if (connection->detected || connection->closing)
		return;
	connection->read_at = flows->now;
	while (queue < FLOWS_CHECK_QUEUES - 1 &&
	       check_interval(queue) <= handshake)
		queue++;
	flows_end_checks(flows, connection);
	flows_add_check(flows, connection, queue);
}

struct connection *flows_find_connection(const struct flows *flows,
					 const struct direction_key *key)
{
	void *const *node =
		tfind(key, &flows->by_direction, compare_directions);

	return node ? *node : NULL;
}

/* Does its flow have a restored session? */
static bool is_restored(const struct flows *flows,
			const struct connection *connection)
{
	struct slbn_flow flow =
		select_session(&flows->config, &connection->key.flow);

	return find_restored(flows, &flow);
}

/* Returns NULL if there are too many, all in all or of this host, or no memory. */
static struct connection *allocate_connection(struct flows *flows,
					      const struct direction_key *key,
					      const u8 *sender)
{
	struct connection *connection;
	struct admit_host *host;

	if (flows->count >= FLOWS_CONNECTIONS)
		return NULL;
	host = admit_connection(&flows->admit, key->flow.family, sender);
	if (!host)
		return NULL;
	connection = calloc(1, sizeof(*connection));
	if (connection) {
		connection->key = *key;
		connection->host = host;
		if (tsearch(connection, &flows->by_direction,
			    compare_directions))
			return connection;
	}
	free(connection);
	admit_disconnect(&flows->admit, host);
	return NULL;
}

/*
 * Add a connection, with the address of the local host that sends it. Returns NULL if
 * there is no place for it.
 */
struct connection *flows_insert_connection(struct flows *flows,
					   const struct direction_key *key,
					   const u8 *sender)
{
	struct connection *connection = allocate_connection(flows, key, sender);

	if (!connection) {
		flows->refused++;
		return NULL;
	}
	LIST_INSERT_HEAD(&flows->connections, connection, list);
	flows->count++;
	memcpy(connection->sender, sender, sizeof(connection->sender));
	connection->read_at = flows->now;
	connection->active = flows->now;
	return connection;
}

static void add_connection(struct flows *flows, const struct direction_key *key,
			   const struct track_connection *tracked,
			   unsigned int direction)
{
	const struct track_direction *from = &tracked->directions[direction];
	const struct track_direction *back = &tracked->directions[!direction];
	struct connection *connection;

	connection =
		flows_insert_connection(flows, key, back->flow.destination);
	if (!connection)
		return;
	connection->mark = tracked->mark;
	connection->zone = tracked->zone;
	connection->direction = direction;
	connection->dump = flows->dump;
	if (tracked->event)
		connection->began = flows->now;
	/* From a dump: it may have ended long ago, so check whether it sends. */
	if (!tracked->event) {
		connection->bytes = from->bytes;
		connection->packets = from->packets;
	}
	if (tracked->event || connection->bytes == TRACK_UNCOUNTED ||
	    is_restored(flows, connection))
		flows_attach(flows, connection);
	if (!connection->detected)
		flows_queue_check(flows, connection);
	if (!tracked->event && !connection->check_at)
		flows->dump_at =
			fp_min64(flows->dump_at, flows->now + DEMAND_STEP);
}

void flows_remove_connection(struct flows *flows, struct connection *connection)
{
	if (flows->sweep == connection)
		flows->sweep = LIST_NEXT(connection, list);
	flows_end_checks(flows, connection);
	flows_detach(flows, connection);
	tdelete(connection, &flows->by_direction, compare_directions);
	LIST_REMOVE(connection, list);
	admit_disconnect(&flows->admit, connection->host);
	flows->count--;
	free(connection);
}

/*
 * Set conntrack's ID of a connection, 0 if the BPF program counts it. Returns
 * false if another connection has that ID, or without memory: then the
 * connection must be removed.
 */
static bool set_id(struct flows *flows, struct connection *connection, u32 id)
{
	struct direction_key key = { .flow = connection->key.flow, .id = id };
	struct connection *other = flows_find_connection(flows, &key);

	if (other)
		return other == connection;
	tdelete(connection, &flows->by_direction, compare_directions);
	connection->key = key;
	return tsearch(connection, &flows->by_direction, compare_directions);
}

/* Conntrack has a connection that the BPF program counted before. */
static struct connection *take_over(struct flows *flows,
				    struct connection *connection,
				    const struct track_connection *tracked,
				    unsigned int direction)
{
	const struct track_direction *from = &tracked->directions[direction];

	if (!set_id(flows, connection, tracked->id)) {
		flows_remove_connection(flows, connection);
		return NULL;
	}
	connection->zone = tracked->zone;
	connection->direction = direction;
	/* These counters began at another time than those of the program. */
	connection->bytes = from->bytes;
	connection->packets = from->packets;
	connection->read_at = flows->now;
	/* Even if its sender has finished, it may still send. */
	flows_restart_checks(flows, connection);
	flows_queue_check(flows, connection);
	return connection;
}

/*
 * The BPF program will count connections, which have no ID then. It reports
 * those without a session when they have sent enough.
 */
static void hand_over(struct flows *flows)
{
	struct connection *connection, *next;

	for (connection = LIST_FIRST(&flows->connections); connection;
	     connection = next) {
		next = LIST_NEXT(connection, list);
		if (!connection->detected || !set_id(flows, connection, 0)) {
			flows_remove_connection(flows, connection);
			continue;
		}
		connection->tracked = true;
		connection->looked_up = flows->now;
	}
}

/*
 * A flow whose Join was not answered, or whose session left as its weight had
 * changed, joins again when it has sent as much again.
 */
void flows_rejoin(struct flows *flows, struct connection *connection)
{
	struct detected_flow *detected = connection->detected;

	if (detected->session || !detected->rejoins ||
	    !has_sent_enough(&flows->config, connection))
		return;
	join_session(flows, detected, connection);
}

/* A connection has sent. */
static void count_sent(struct flows *flows, struct connection *connection,
		       const struct agent_credit *sent)
{
	u64 elapsed = fp_max64(flows->now - connection->read_at, 1);
	struct detected_flow *detected = connection->detected;

	if (flows->now - connection->active >= flows->config.idle) {
		connection->sent = (struct agent_credit){};
		flows_restart_checks(flows, connection);
	}
	connection->active = flows->now;
	connection->sent.packets += sent->packets;
	connection->sent.octets += sent->octets;
	if (elapsed >= FLOWS_FAST_STEP)
		connection->speed =
			(double)sent->octets * 8e9 / (double)elapsed;
	connection->read_at = flows->now;
	/* What it sent before it finished needs no session anymore. */
	if (!detected && is_first_after_end(connection)) {
		connection->sent = (struct agent_credit){};
		return;
	}
	if (!detected) {
		flows_attach(flows, connection);
		return;
	}
	detected->counted += sent->octets;
	detected->counted_packets += sent->packets;
	flows_rejoin(flows, connection);
}

/*
 * The sender has finished: only retransmissions may follow, which do not need the
 * whole share until look-ups show that they have ended. If it sends more all the same,
 * its demand grows again as that of a new flow.
 */
void flows_yield_share(struct flows *flows, const struct connection *connection)
{
	struct detected_flow *detected = connection->detected;
	struct session *session = detected ? detected->session : NULL;
	u64 demand = fp_max64(flows->config.initial, DEMAND_MIN);

	if (!session || session->source.leaving || detected->connections > 1)
		return;
	demand = fp_max64(demand, session->use.demand.used / CLOSING_PART);
	if (demand >= session->source.D)
		return;
	session->use.demand = (struct demand){};
	agent_change(flows->agent, session, demand, flows->now);
}

/*
 * A connection that has finished sends nothing more. If it had a session, it is kept as
 * long as conntrack has it: the end may be forged, or the sender be slow.
 */
static void end_connection(struct flows *flows, struct connection *connection)
{
	if (connection->detected)
		flows_detach(flows, connection);
	else if (!connection->joined)
		flows_remove_connection(flows, connection);
}

/* Counters of a connection, or an event, which has none. */
static void update(struct flows *flows, struct connection *connection,
		   const struct track_connection *tracked)
{
	const struct track_direction *direction =
		&tracked->directions[connection->direction];
	struct agent_credit sent = {};

	connection->dump = flows->dump;
	if (direction->ended && !connection->closing)
		flows_yield_share(flows, connection);
	connection->closing |= direction->ended;
	if (direction->bytes != TRACK_UNCOUNTED) {
		sent.octets =
			counted_since(&connection->bytes, direction->bytes);
		sent.packets =
			counted_since(&connection->packets, direction->packets);
	} else if (!tracked->event) {
		/* Without counters, assume that it is active. */
		connection->active = flows->now;
		if (!connection->detected)
			flows_attach(flows, connection);
	}
	if (sent.octets)
		count_sent(flows, connection, &sent);
	if (tracked->event && connection->began)
		finish_handshake(flows, connection);
	if (flows_wait(flows, connection))
		return;
	/* TCP is silent between its first windows. */
	if (connection->closing && tracked->event)
		flows_check_end(flows, connection);
	else if (sent.octets || tracked->event ||
		 connection->queue < FLOWS_EARLY_CHECKS)
		flows_queue_check(flows, connection);
	else if (connection->closing && !connection->check_at)
		end_connection(flows, connection);
}

/* The connections of a session should have the same mark. */
static void update_mark(struct connection *connection, u32 mark)
{
	struct detected_flow *detected = connection->detected;

	if (connection->mark == mark)
		return;
	connection->mark = mark;
	if (detected)
		detected->mark = mark;
	if (detected && detected->session)
		detected->session->mark = mark;
}

static void update_connection(void *context,
			      const struct track_connection *tracked)
{
	struct flows *flows = context;
	unsigned int n;

	if (flows->counted) {
		counted_found(flows, tracked);
		return;
	}
	for (n = 0; n < TRACK_DIRECTIONS; n++) {
		const struct track_direction *direction =
			&tracked->directions[n];
		const u8 *sender = tracked->directions[!n].flow.destination;
		struct direction_key key = { .flow = direction->flow,
					     .id = tracked->id };
		struct direction_key counted = { .flow = direction->flow };
		struct connection *known = flows_find_connection(flows, &key);

		if (!known && flows->was_counted)
			known = flows_find_connection(flows, &counted);
		if (known && known->key.id != tracked->id) {
			/* An event has no counters: the dump that is due has. */
			if (tracked->event)
				continue;
			known = take_over(flows, known, tracked, n);
		}
		if (known && tracked->marked)
			update_mark(known, tracked->mark);
		if (known && tracked->destroyed)
			flows_remove_connection(flows, known);
		else if (known)
			update(flows, known, tracked);
		else if (direction->started && !direction->ended &&
			 !tracked->destroyed &&
			 select_flow(&flows->config, &direction->flow, sender))
			add_connection(flows, &key, tracked, n);
	}
}

/* The next connection whose look-up is due; NULL: none. */
struct connection *flows_next_check(struct flows *flows)
{
	struct connection *connection;
	int n;

	for (n = 0; n < FLOWS_CHECK_QUEUES; n++) {
		connection = TAILQ_FIRST(&flows->checks[n]);
		if (!connection || connection->check_at > flows->now)
			continue;
		flows_end_checks(flows, connection);
		connection->checked += n >= FLOWS_EARLY_CHECKS;
		return connection;
	}
	return NULL;
}

static void request_dump(struct flows *flows)
{
	u64 due = flows->dumped_at + MIN_DUMP_INTERVAL;

	due = fp_max64(due, flows->now);
	flows->dump_at = fp_min64(flows->dump_at, due);
}

/* Look up the connections that are due. */
static void run_checks(struct flows *flows)
{
	struct track_lookup lookups[TRACK_LOOKUPS];
	struct connection *connection;
	u32 count = 0;

	while (count < TRACK_LOOKUPS &&
	       (connection = flows_next_check(flows))) {
		if (flows_wait(flows, connection))
			continue;
		lookups[count++] = (struct track_lookup){
			.flow = connection->key.flow,
			.direction = connection->direction,
			.zone = connection->zone,
		};
	}
	/* A dump is as good. */
	if (count && !track_look_up(&flows->track, lookups, count))
		request_dump(flows);
}

static u64 checks_due(const struct flows *flows)
{
	const struct connection *first;
	u64 due = ~0ULL;
	int n;

	for (n = 0; n < FLOWS_CHECK_QUEUES; n++) {
		first = TAILQ_FIRST(&flows->checks[n]);
		if (first)
			due = fp_min64(due, first->check_at);
	}
	return due;
}

/* Remove the connections that the dump did not contain, some at a time. */
static void sweep(struct flows *flows)
{
	u32 n;

	for (n = 0; n < FLOWS_SLICE && flows->sweep; n++) {
		struct connection *connection = flows->sweep;
		bool tcp = connection->key.flow.protocol == IPPROTO_TCP;
		u64 idle = flows->config.idle * (tcp ? TCP_IDLE : 1);

		flows->sweep = LIST_NEXT(connection, list);
		if (connection->dump != flows->dump)
			flows_remove_connection(flows, connection);
		else if (connection->detected &&
			 flows->now - connection->active >= idle)
			flows_detach(flows, connection);
	}
	if (flows->sweep)
		return;
	flows->was_counted = false;
	if (!flows->enforce)
		flows_measure_tracked(flows);
}

static void finish_dump(void *context)
{
	struct flows *flows = context;
	struct detected_flow *detected;

	flows->sweep = LIST_FIRST(&flows->connections);
	flows_release_orphans(flows);
	LIST_FOREACH(detected, &flows->detected, list)
	share_settle(flows, detected);
}

static void replace_lost_events(void *context)
{
	struct flows *flows = context;

	request_dump(flows);
	flows->events_lost++;
}

static const struct track_callbacks callbacks = {
	.update = update_connection,
	.dump_done = finish_dump,
	.events_lost = replace_lost_events,
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
	int n;

	*flows = (struct flows){ .agent = agent,
				 .enforce = enforce,
				 .fast_at = ~0ULL };
	TAILQ_INIT(&flows->starting);
	for (n = 0; n < FLOWS_CHECK_QUEUES; n++)
		TAILQ_INIT(&flows->checks[n]);
	admit_init(&flows->admit);
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
	flows->admit.config = config->admit;
	flows->now = now;
	flows->dump_at = now;
	flows->was_counted = false;
	flows->counted =
		flows->enforce && enforce_sees_connections(flows->enforce);
	error = track_open(&flows->track, &callbacks, flows, !flows->counted);
	flows->open = !error;
	if (flows->open && flows->counted)
		counted_configure(flows);
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
	if (flows->enforce)
		enforce_set_joins(flows->enforce, ~0ULL, ~0ULL, SECOND);
	while (!LIST_EMPTY(&flows->connections))
		flows_remove_connection(flows, LIST_FIRST(&flows->connections));
	flows_release_orphans(flows);
	track_close(&flows->track);
}

/* Move a connection to another session if the options require it. */
static void reassign(struct flows *flows, struct connection *connection)
{
	struct slbn_flow flow =
		select_session(&flows->config, &connection->key.flow);

	if (!connection->detected ||
	    !compare_flows(&flow, &connection->detected->flow))
		return;
	flows_detach(flows, connection);
	flows_attach(flows, connection);
}

/* Give the session of a flow the weight that it has in its group now. */
static void update_weight(struct flows *flows, struct detected_flow *detected)
{
	struct session *session = detected->session;

	if (session->source.leaving ||
	    session->source.pkt.weight == share_weight(flows, detected) ||
	    share_replace(flows, detected))
		return;
	flows_leave_first(flows, detected);
}

/*
 * Assign all flows to the groups of the current options. Sessions are counted
 * before weights change, so that each session is replaced at most once.
 */
static void regroup(struct flows *flows)
{
	struct detected_flow *detected;

	LIST_FOREACH(detected, &flows->detected, list)
	leave_share(flows, detected);
	LIST_FOREACH(detected, &flows->detected, list)
	{
		if (detected->session)
			share_join(flows, detected, NULL);
	}
	LIST_FOREACH(detected, &flows->detected, list)
	{
		if (detected->share)
			LIST_INSERT_HEAD(&detected->share->members, detected,
					 shared);
		if (detected->session)
			update_weight(flows, detected);
	}
}

/* Is the local host of a flow's first connection still one? */
static bool is_local(const struct flows *flows,
		     const struct detected_flow *detected)
{
	return select_prefix(&flows->config, detected->flow.family,
			     detected->sender) >= 0;
}

/*
 * Remove the connections that the options no longer select. With address
 * translation and sessions of pairs, a flow may have connections of several
 * hosts: if the first host is no longer local, the session leaves, and the
 * connections of the others join a new one.
 */
static void deselect(struct flows *flows)
{
	struct connection *connection, *next;

	for (connection = LIST_FIRST(&flows->connections); connection;
	     connection = next) {
		next = LIST_NEXT(connection, list);
		if (!select_flow(&flows->config, &connection->key.flow,
				 connection->sender))
			flows_remove_connection(flows, connection);
		else if (connection->detected &&
			 !is_local(flows, connection->detected))
			flows_detach(flows, connection);
	}
}

/* Count sessions by the new prefixes. After deselect() each flow has one. */
static void renumber_prefixes(struct flows *flows)
{
	struct detected_flow *detected;

	LIST_FOREACH(detected, &flows->detected, list)
	{
		if (detected->session)
			flows->admit.prefixes[detected->prefix]--;
		detected->prefix =
			select_prefix(&flows->config, detected->flow.family,
				      detected->sender);
		if (detected->session)
			flows->admit.prefixes[detected->prefix]++;
	}
}

/**
 * flows_configure() - change the options
 * @flows: flow detection, active
 * @config: options, with local hosts
 * @now: ns
 *
 * Sessions that the new options select remain, or are replaced if their groups
 * change.
 */
void flows_configure(struct flows *flows, const struct flows_config *config,
		     u64 now)
{
	bool groups_change =
		config->sessions != flows->config.sessions ||
		memcmp(config->share_length, flows->config.share_length,
		       sizeof(config->share_length));
	struct connection *connection;

	flows->now = now;
	flows->config = *config;
	flows->admit.config = config->admit;
	deselect(flows);
	renumber_prefixes(flows);
	/* They may select other connections. */
	flows->dump_at = now;
	LIST_FOREACH(connection, &flows->connections, list)
	reassign(flows, connection);
	if (groups_change)
		regroup(flows);
	if (flows->counted)
		counted_configure(flows);
}

/**
 * flows_enforce() - rates are enforced in another way
 * @flows: flow detection
 * @enforce: rate enforcement; NULL: none that counts packets
 * @now: ns
 *
 * Connections with sessions are taken over. Those that conntrack does not have,
 * or that do not send, are removed later.
 *
 * Return: whether track_fd() is another one.
 */
bool flows_enforce(struct flows *flows, struct enforce *enforce, u64 now)
{
	bool counted = enforce && enforce_sees_connections(enforce);
	bool events = !counted;
	int error;

	flows->enforce = enforce;
	if (!flows->open || counted == flows->counted)
		return false;
	flows->now = now;
	flows->counted = counted;
	flows->was_counted = !counted;
	flows->sweep = NULL;
	flows->dump_at = now;
	if (counted)
		hand_over(flows);
	track_close(&flows->track);
	error = track_open(&flows->track, &callbacks, flows, events);
	if (error) {
		log_error("no flow detection: connection tracking: %s",
			  strerror(-error));
		/* Nothing would notice their ends, nor other options. */
		flows_close(flows, now);
	} else if (counted) {
		counted_configure(flows);
	}
	return !error;
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

	if (flows->enforce && flows->agent->count)
		due = fp_min64(flows->step_at, flows->fast_at);
	if (flows->sweep || (flows->enforce && flows->step_index))
		return 0;
	if (flows->open && flows->counted && flows->restored)
		due = flows->orphan < flows->agent->entries ?
			      0 :
			      fp_min64(due, flows->orphans_until);
	if (!flows->open)
		return due;
	if (!flows->track.dumping)
		due = fp_min64(due, flows->dump_at);
	return fp_min64(due, checks_due(flows));
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
	if (flows->enforce)
		flows_measure(flows);
	if (!flows->open)
		return;
	if (flows->counted) {
		counted_run(flows);
		return;
	}
	run_checks(flows);
	if (flows->sweep)
		sweep(flows);
	if (now < flows->dump_at || flows->track.dumping || flows->sweep)
		return;
	if (!flows->enforce)
		interval = fp_min64(interval, DUMP_INTERVAL);
	flows->dump_at = now + interval;
	flows->dumped_at = now;
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

static void discard_report(void *context,
			   const struct enforce_connection *connection)
{
	(void)context;
	(void)connection;
}

/**
 * flows_receive_reports() - process reports of the BPF program
 * @flows: flow detection
 * @enforce: rate enforcement that they come from
 * @now: ns
 *
 * If connections are found in another way now, discard those on their way: their file
 * descriptor stays readable until they have been read.
 */
void flows_receive_reports(struct flows *flows, struct enforce *enforce,
			   u64 now)
{
	flows->now = now;
	if (flows->open && flows->counted) {
		counted_receive(flows);
		return;
	}
	enforce_set_joins(enforce, ~0ULL, ~0ULL, SECOND);
	enforce_receive(enforce, discard_report, NULL);
}

/**
 * flows_restored() - restored sessions wait for their connections
 * @flows: flow detection
 * @now: ns
 */
void flows_restored(struct flows *flows, u64 now)
{
	flows->restored = true;
	flows->orphan = 0;
	flows->orphans_until = now + flows->config.idle;
	flows->now = now;
	if (!flows->open)
		flows_release_orphans(flows);
}

/* A session was answered, or has ended. */
static void end_asking(struct flows *flows, struct session *session)
{
	if (session->use.asking)
		admit_end_asking(&flows->admit, session->use.asking);
	session->use.asking = NULL;
}

/**
 * flows_answered() - an answer to a session has arrived
 * @flows: flow detection
 * @session: the session, of any kind
 * @now: ns
 *
 * If its destination was silent, the flows that have sent enough meanwhile are looked
 * up, and join. Its host may ask for another flow.
 */
void flows_answered(struct flows *flows, struct session *session, u64 now)
{
	end_asking(flows, session);
	if (!admit_answered(&flows->admit, &session->flow) || !flows->open)
		return;
	flows->now = now;
	if (flows->counted)
		enforce_report_again(flows->enforce, now);
	else
		request_dump(flows);
}

/**
 * flows_session_ended() - a session ended
 * @flows: flow detection
 * @session: the session, of any kind
 *
 * If a client ended the session of a detected flow, the flow does not join again.
 * If its Join was not answered, it does so later.
 */
void flows_session_ended(struct flows *flows, struct session *session)
{
	struct detected_flow *detected = session->use.detected;

	end_asking(flows, session);
	if (!detected)
		return;
	release_session(flows, detected);
	detected->rejoins = !session->cycles && !session->source.leaving;
	if (detected->rejoins)
		admit_unanswered(&flows->admit, &session->flow,
				 detected->asked_at, flows->now);
}
