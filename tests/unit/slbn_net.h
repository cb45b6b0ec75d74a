/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Event-driven simulation of SLBN for tests: sessions with fixed paths over
 * links with delays and losses.
 *
 *	source --- hop 0 --- hop 1 ... hop n-1 --- destination
 *
 * A link processes a packet when it is sent onto the link, and again when it
 * returns over the same hop. A source retransmits its packet after NET_RETRY,
 * which is longer than any round trip, unless net.retry is changed, and pauses
 * for a random time between cycles. Data is a rate: a change travels down the
 * path with the delay of its links, as control packets do.
 *
 * net_check_link() checks at each step what the commit promises, if net.checks
 * says so.
 *
 * net_solve() computes the weighted max-min reference by water filling: it
 * finds the most restrictive link or demand, fixes its sessions at that rate,
 * and repeats with the rest. It computes in long double, with errors far below
 * 1 bit/s.
 */
#ifndef SLBN_NET_H
#define SLBN_NET_H

#include <math.h>
#include <string.h>

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_headroom.h>
#include <fairpath/slbn/slbn_wire.h>

#define NET_LINKS 64
#define NET_SESSIONS 5000
#define NET_HOPS 16

#define MEGA 1000000ULL
#define UNLIMITED SLBN_RATE_MAX

/* Accepted deviation of rates: the sum of the remainders of divisions. */
#define CLOSE_BITS 64

#define NET_MS 1000000ULL
#define NET_RETRY (150 * NET_MS)

enum net_event_kind {
	NET_JOIN,
	NET_CHANGE,
	NET_LEAVE,
	NET_DIE,
	NET_ARRIVE,
	NET_SEND,
	NET_TIMEOUT,
	NET_LEASE,
	NET_FRONT,
};

/* What net_check_link() checks. */
enum net_checks {
	/* Rates in use, and as they arrive, are at most the limit. */
	NET_CHECK_RATES = 1,
	/* A link holds at least what a session uses and what arrives. */
	NET_CHECK_HELD = 2,
	/* A is at most the limit. */
	NET_CHECK_A = 4,
	/* A is the sum of what the link recorded last for its sessions. */
	NET_CHECK_SUM = 8,
	NET_CHECK_ALL = 15,
};

struct net_event {
	u64 time;
	u64 order;
	enum net_event_kind kind;
	u32 session;
	u64 value;
	u32 hop;
	u32 version;
	struct slbn_packet pkt;
	struct slbn_slot slots[NET_HOPS];
};

/**
 * struct net_link - a link
 * @params: parameters
 * @vars: state
 * @stats: counters
 * @headroom: parameters of headroom auto, if its C is not 0
 * @measured: state of headroom auto
 * @unassigned: bytes of unassigned packets that the link has sent
 * @moves: how often it has moved what the plan hands out
 * @delay: ns
 * @limit: largest sum of rates and of holds that is expected, bit/s: its
 *	capacity, and more after a reroute or a lower capacity
 * @stale: use of packets whose ledger was dropped before they arrived, which is
 *	in A but not in use, bit/s
 * @used: sum of the rates in use at the sources of its sessions, bit/s
 * @arriving: sum of the rates that arrive, bit/s
 * @held: expected A of the current and the previous ledger
 */
struct net_link {
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	struct slbn_link_stats stats;
	struct slbn_headroom_params headroom;
	struct slbn_headroom measured;
	u64 unassigned;
	u32 moves;
	u64 delay;
	u64 limit;
	u64 stale;
	u64 used;
	u64 arriving;
	u64 held[2];
};

/**
 * struct net_session - a session
 * @src: source
 * @weight: weight, from the join on
 * @hops: length of @path
 * @path: links
 * @version: of @path
 * @used: rate in use that its links know of, bit/s
 * @arriving: rate that arrives at each hop, bit/s
 * @held: what each hop recorded last, bit/s
 * @tag: tag of the ledger where it did, not masked
 * @attempt: number of the current timeout; events of older ones are ignored
 * @joined: it has joined
 * @gone: it has left
 * @dead: it has ended without a Leave
 * @fair: max-min reference, bit/s
 * @depth: levels of bottlenecks that @fair depends on; 0: only its demand
 */
struct net_session {
	struct slbn_source src;
	u32 weight;
	u32 hops;
	u32 path[NET_HOPS];
	u32 version;
	u64 used;
	u64 arriving[NET_HOPS];
	u64 held[NET_HOPS];
	u16 tag[NET_HOPS];
	u64 attempt;
	bool joined;
	bool gone;
	bool dead;
	long double fair;
	u32 depth;
};

static struct {
	struct net_link links[NET_LINKS];
	u32 link_count;
	u32 session_count;
	u64 now;
	/* Time of the last change of a rate, ns. */
	u64 settled;
	u64 packets;
	/* Probability that a hop loses a packet, 1e-6. */
	u32 loss;
	/* Mean pause between cycles, ns. */
	u64 pause;
	/* Time to a retransmission, ns. */
	u64 retry;
	/* Of all links: limit rises to what is free; ratio of P to C, 1e-3. */
	bool commit;
	u32 planned;
	/* Largest weight; weights are drawn if it is above 1. */
	u32 weights;
	/* What is checked at each step, of enum net_checks. */
	u32 checks;
	/* Rates that ended with their lease. */
	u64 lapsed;
	/* The link's task: net_core_process(), or a test's comparison with it. */
	enum slbn_verdict (*process)(struct net_link *link, u32 session,
				     struct slbn_packet *pkt,
				     struct slbn_slot *slot, u64 now);
	u32 heap_count;
	u64 order;
	/* Large; net_clear() clears only what is used. */
	struct net_session sessions[NET_SESSIONS];
	struct net_event *heap[1 << 17];
} net;

static inline bool net_before(const struct net_event *a,
			      const struct net_event *b)
{
	return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static inline struct net_event *net_schedule(u64 time, enum net_event_kind kind,
					     u32 session)
{
	struct net_event *event = calloc(1, sizeof(*event));
	u32 at = net.heap_count++;

	assert_non_null(event);
	assert_true(net.heap_count < ARRAY_SIZE(net.heap));
	event->time = time;
	event->order = net.order++;
	event->kind = kind;
	event->session = session;
	while (at && net_before(event, net.heap[(at - 1) / 2])) {
		net.heap[at] = net.heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	net.heap[at] = event;
	return event;
}

static inline struct net_event *net_next(void)
{
	struct net_event *first = net.heap[0];
	struct net_event *last = net.heap[--net.heap_count];
	u32 at = 0;

	for (;;) {
		u32 child = 2 * at + 1;

		if (child >= net.heap_count)
			break;
		if (child + 1 < net.heap_count &&
		    net_before(net.heap[child + 1], net.heap[child]))
			child++;
		if (!net_before(net.heap[child], last))
			break;
		net.heap[at] = net.heap[child];
		at = child;
	}
	net.heap[at] = last;
	return first;
}

static inline enum slbn_verdict
net_core_process(struct net_link *link, u32 session, struct slbn_packet *pkt,
		 struct slbn_slot *slot, u64 now)
{
	(void)session;
	return slbn_link_process(&link->params, &link->vars, &link->stats, pkt,
				 slot, now);
}

/* Whether a link counts a session that it recorded in this ledger. */
static inline bool net_is_known(const struct net_link *link, u16 tag)
{
	return tag != SLBN_NO_TAG &&
	       (tag == link->vars.tag || tag == link->vars.prev_tag);
}

static inline void net_check_link(const struct net_link *link,
				  const struct net_session *session, u32 hop)
{
	u32 n = link - net.links;
	u64 A = link->vars.cur.A + link->vars.prev.A;

	if (net.checks & NET_CHECK_RATES) {
		CHECK(link->used <= link->limit,
		      "link %u: %llu in use, limit %llu", n, link->used,
		      link->limit);
		CHECK(link->arriving <= link->limit,
		      "link %u: %llu arriving, limit %llu", n, link->arriving,
		      link->limit);
	}
	if (net.checks & NET_CHECK_HELD &&
	    net_is_known(link, session->tag[hop])) {
		CHECK(session->held[hop] >= session->used,
		      "link %u: session %td uses %llu, %llu held", n,
		      session - net.sessions, session->used,
		      session->held[hop]);
		CHECK(session->held[hop] >= session->arriving[hop],
		      "link %u: %llu of session %td arrive, %llu held", n,
		      session->arriving[hop], session - net.sessions,
		      session->held[hop]);
	}
	if (net.checks & NET_CHECK_A)
		CHECK(A <= link->limit + link->stale,
		      "link %u: A %llu, limit %llu + %llu", n, A, link->limit,
		      link->stale);
	if (net.checks & NET_CHECK_SUM)
		CHECK(link->vars.cur.A == link->held[0] &&
			      link->vars.prev.A == link->held[1],
		      "link %u: A %llu + %llu, held %llu + %llu", n,
		      link->vars.cur.A, link->vars.prev.A, link->held[0],
		      link->held[1]);
}

/* Rotate a link's ledgers, and what is expected in them. */
static inline void net_rotate(struct net_link *link)
{
	u16 tag = link->vars.tag;

	slbn_link_rotate(&link->params, &link->vars, net.now);
	if (link->vars.tag == tag)
		return;
	link->held[1] = link->vars.prev_tag == tag ? link->held[0] : 0;
	link->held[0] = 0;
}

/* Record what a link holds for a session after it processed a packet. */
static inline void net_record(struct net_link *link,
			      struct net_session *session, u32 hop,
			      const struct slbn_packet *pkt,
			      const struct slbn_slot *slot)
{
	u64 hash = slbn_session_hash(&link->params, pkt);
	u16 before = session->tag[hop];

	if (before != SLBN_NO_TAG && before == link->vars.tag)
		link->held[0] -= session->held[hop];
	else if (before != SLBN_NO_TAG && before == link->vars.prev_tag)
		link->held[1] -= session->held[hop];
	session->tag[hop] = slbn_unmask_tag(slot->tag, hash);
	session->held[hop] = 0;
	if (slot->tag != SLBN_NO_TAG)
		session->held[hop] = pkt->use + slbn_decode(slot->code);
	link->held[0] += session->held[hop];
}

/* Send the rate in use down the path. */
static inline void net_set_rate(struct net_session *session)
{
	u64 rate = session->src.rate;
	u64 time = net.now;
	u32 hop;

	if (rate == session->used)
		return;
	for (hop = 0; hop < session->hops; hop++) {
		struct net_link *link = &net.links[session->path[hop]];
		struct net_event *front;

		link->used += rate - session->used;
		if (!net.checks)
			continue;
		front = net_schedule(time, NET_FRONT, session - net.sessions);
		front->value = rate;
		front->hop = hop;
		front->version = session->version;
		time += link->delay;
	}
	session->used = rate;
	net.settled = net.now;
	for (hop = 0; hop < session->hops; hop++)
		net_check_link(&net.links[session->path[hop]], session, hop);
}

static inline void net_data_arrives(const struct net_event *event)
{
	struct net_session *session = &net.sessions[event->session];
	struct net_link *link = &net.links[session->path[event->hop]];

	if (event->version != session->version)
		return;
	link->arriving += event->value - session->arriving[event->hop];
	session->arriving[event->hop] = event->value;
	net_check_link(link, session, event->hop);
}

/* Send a packet over a hop, which may lose it. */
static inline void net_carry(const struct net_event *event, u64 delay)
{
	struct net_event *next;

	if (net.loss && rnd_in(1, 1000000) <= net.loss)
		return;
	next = net_schedule(event->time + delay, NET_ARRIVE, event->session);
	next->pkt = event->pkt;
	memcpy(next->slots, event->slots, sizeof(next->slots));
}

static inline void net_send(u32 number)
{
	struct net_session *session = &net.sessions[number];
	struct net_event *event = net_schedule(net.now, NET_ARRIVE, number);

	slbn_source_transmit(&session->src, net.now);
	event->pkt = session->src.pkt;
	event->version = session->version;
	memcpy(event->slots, session->src.slot, sizeof(event->slots));
	event = net_schedule(net.now + net.retry, NET_TIMEOUT, number);
	event->value = ++session->attempt;
}

/* The pause after a cycle, ns. */
static inline u64 net_pause(const struct net_session *session)
{
	if (!net.pause)
		return 0;
	if (net.commit && session->src.urgent)
		return rnd() % (net.pause / 20 + 1);
	return net.pause / 2 + rnd() % net.pause;
}

static inline void net_receive_ack(struct net_event *event)
{
	struct net_session *session = &net.sessions[event->session];

	if (session->dead)
		return;
	switch (slbn_source_ack(&session->src, &event->pkt, event->slots,
				net.now)) {
	case SLBN_CYCLE_DONE:
		session->attempt++;
		net_set_rate(session);
		if (session->src.lease != SLBN_NO_LEASE)
			net_schedule(session->src.lease, NET_LEASE,
				     event->session);
		net_schedule(net.now + net_pause(session), NET_SEND,
			     event->session);
		break;
	case SLBN_SESSION_OVER:
		session->attempt++;
		session->gone = true;
		break;
	default:
		break;
	}
}

/*
 * With headroom auto: a control packet passes the link, in either direction, or, if
 * it is NULL, time passes.
 */
static inline void net_measure(struct net_link *link,
			       const struct slbn_packet *pkt)
{
	u32 octets = 14 + 20 + 8;
	bool over;
	u64 plan;

	if (!link->headroom.C)
		return;
	over = slbn_headroom_update(&link->headroom, &link->measured, net.now);
	over |= slbn_headroom_measure(&link->headroom, &link->measured,
				      link->unassigned, net.now);
	if (over) {
		plan = slbn_headroom_plan(&link->headroom, &link->measured);
		link->moves += plan != link->params.P;
		link->params.P = plan;
	}
	if (!pkt)
		return;
	octets += slbn_length(pkt->slots, SLBN_SLOT_LENGTH_V4);
	slbn_headroom_count_control(&link->measured, octets * 8);
}

/* A packet arrives at its next hop, the destination or the source. */
static inline void net_arrive(struct net_event *event)
{
	struct net_session *session = &net.sessions[event->session];
	bool up = slbn_is_upstream(&event->pkt);
	struct net_link *link;
	u8 hop;

	net.packets++;
	if (up && !event->pkt.hop) {
		net_receive_ack(event);
		return;
	}
	if (!up && event->pkt.hop == session->hops) {
		assert_true(slbn_destination_reply(&event->pkt));
		slbn_clear_slots(event->slots, &event->pkt);
		up = true;
	}
	hop = slbn_current_hop(&event->pkt);
	/* Its path became shorter. */
	if (hop >= session->hops)
		return;
	link = &net.links[session->path[hop]];
	net_rotate(link);
	net_measure(link, &event->pkt);
	if (link->vars.cur.A + link->vars.prev.A <= link->limit)
		link->stale = 0;
	if (!up && !net_is_known(link, session->tag[hop]))
		link->stale += event->pkt.use;
	if (net.process(link, event->session, &event->pkt, &event->slots[hop],
			net.now) != SLBN_FORWARD)
		return;
	if (net.checks) {
		if (event->pkt.type != SLBN_LEAVE_ACK)
			net_record(link, session, hop, &event->pkt,
				   &event->slots[hop]);
		net_check_link(link, session, hop);
	}
	net_carry(event, link->delay);
}

static inline void net_handle(struct net_event *event)
{
	struct net_session *session = &net.sessions[event->session];
	u64 id[2];

	switch (event->kind) {
	case NET_JOIN:
		id[0] = rnd();
		id[1] = rnd();
		slbn_source_join(&session->src, id, event->value,
				 session->weight, NET_HOPS);
		session->joined = true;
		net_send(event->session);
		break;
	case NET_CHANGE:
		slbn_source_change(&session->src, event->value);
		net_set_rate(session);
		break;
	case NET_LEAVE:
		slbn_source_leave(&session->src);
		net_set_rate(session);
		break;
	case NET_DIE:
		session->dead = true;
		session->src.rate = 0;
		net_set_rate(session);
		break;
	case NET_ARRIVE:
		net_arrive(event);
		break;
	case NET_SEND:
		if (!session->dead)
			net_send(event->session);
		break;
	case NET_TIMEOUT:
		if (!session->dead && event->value == session->attempt)
			net_send(event->session);
		break;
	case NET_LEASE:
		net.lapsed += slbn_source_expire(&session->src, net.now);
		net_set_rate(session);
		break;
	case NET_FRONT:
		net_data_arrives(event);
		break;
	}
}

static inline void net_run(u64 until)
{
	while (net.heap_count && net.heap[0]->time <= until) {
		struct net_event *event = net_next();

		net.now = event->time;
		net_handle(event);
		free(event);
		unit_step++;
	}
	net.now = until;
}

static inline void net_clear(void)
{
	u32 n;

	while (net.heap_count)
		free(net_next());
	for (n = 0; n < net.link_count; n++)
		free(net.links[n].vars.memory);
	memset(net.sessions, 0, net.session_count * sizeof(*net.sessions));
	memset(&net, 0, offsetof(typeof(net), sessions));
	net.process = net_core_process;
	net.pause = 5 * NET_MS;
	net.retry = NET_RETRY;
	net.planned = 1000;
	net.weights = 1;
}

static inline void net_add_link(u64 capacity, u64 delay, u64 epoch, u32 rows)
{
	struct net_link *link = &net.links[net.link_count++];

	link->params.C = capacity;
	link->params.P = capacity / 1000 * net.planned + capacity % 1000;
	link->params.commit = net.commit;
	link->limit = capacity;
	link->params.epoch = epoch;
	link->params.rows = rows;
	link->params.hash_key[0] = rnd();
	link->params.hash_key[1] = rnd();
	if (rows) {
		link->vars.memory = calloc(rows * SLBN_MEMORY_WAYS,
					   sizeof(struct slbn_memory_entry));
		assert_non_null(link->vars.memory);
	}
	slbn_link_init(&link->vars, net.now, 0, (u32)rnd());
	link->delay = delay;
}

/* Add a session over random links, each at most once. */
static inline void net_add_session(u32 hops)
{
	struct net_session *session = &net.sessions[net.session_count++];
	bool used[NET_LINKS] = { false };

	session->weight = net.weights > 1 ? rnd_size(1, net.weights) : 1;
	while (session->hops < hops) {
		u32 link = rnd_in(0, net.link_count - 1);

		if (used[link])
			continue;
		used[link] = true;
		session->path[session->hops++] = link;
	}
}

static inline bool net_counts(const struct net_session *session)
{
	return session->joined && !session->gone && !session->dead &&
	       !session->src.leaving;
}

/* Demand of a session per weight. */
static inline long double net_demand(u32 number)
{
	const struct net_session *session = &net.sessions[number];

	return (long double)session->src.D / session->weight;
}

static inline void net_solve(void)
{
	static bool fixed[NET_SESSIONS];
	static u32 round[NET_SESSIONS];
	long double left[NET_LINKS];
	u64 open[NET_LINKS] = { 0 };
	u32 depth[NET_LINKS] = { 0 };
	u32 n, hop, first, todo = 0;

	for (n = 0; n < net.link_count; n++)
		left[n] = net.links[n].params.P;
	for (n = 0; n < net.session_count; n++) {
		const struct net_session *session = &net.sessions[n];

		fixed[n] = !net_counts(session);
		todo += !fixed[n];
		for (hop = 0; !fixed[n] && hop < session->hops; hop++)
			open[session->path[hop]] += session->weight;
	}
	for (first = todo; todo; first = todo) {
		/* Rate of weight 1. */
		long double level = INFINITY;

		for (n = 0; n < net.link_count; n++)
			if (open[n])
				level = fminl(level, left[n] / open[n]);
		for (n = 0; n < net.session_count; n++)
			if (!fixed[n])
				level = fminl(level, net_demand(n));
		for (n = 0; n < net.session_count; n++) {
			struct net_session *session = &net.sessions[n];
			bool here = net_demand(n) <= level;

			if (fixed[n])
				continue;
			session->depth = 0;
			for (hop = 0; hop < session->hops; hop++) {
				u32 link = session->path[hop];

				if (left[link] / open[link] >
				    level * (1 + 1e-15L))
					continue;
				here = true;
				session->depth = fp_max64(session->depth,
							  depth[link] + 1);
			}
			if (!here)
				continue;
			fixed[n] = true;
			round[first - todo--] = n;
			session->fair = level * session->weight;
			for (hop = 0; hop < session->hops; hop++) {
				left[session->path[hop]] -= session->fair;
				open[session->path[hop]] -= session->weight;
			}
		}
		/* Sessions fixed in one round do not depend on each other. */
		for (n = 0; n < first - todo; n++) {
			struct net_session *session = &net.sessions[round[n]];

			for (hop = 0; hop < session->hops; hop++) {
				u32 link = session->path[hop];

				depth[link] =
					fp_max64(depth[link], session->depth);
			}
		}
	}
}

/**
 * struct net_error - deviation of rates from the max-min reference
 * @bits: largest difference, bit/s
 * @part: largest difference relative to the reference
 */
struct net_error {
	double bits;
	double part;
};

static inline struct net_error net_error(void)
{
	struct net_error worst = { 0 };
	u32 n;

	net_solve();
	for (n = 0; n < net.session_count; n++) {
		const struct net_session *session = &net.sessions[n];
		double difference;

		if (!net_counts(session))
			continue;
		difference = (double)fabsl(session->src.rate - session->fair);
		worst.bits = fmax(worst.bits, difference);
		worst.part =
			fmax(worst.part, difference / (double)session->fair);
	}
	return worst;
}

static inline u64 random_demand(void)
{
	return one_in(3) ? rnd_in(1, 90) * MEGA + rnd_in(0, 999999) : UNLIMITED;
}

/* Add a random network; every session joins within @spread ns. */
static inline void make_network(u32 links, u32 sessions, u32 hops, u64 epoch,
				u32 rows, u64 spread)
{
	u32 n;

	for (n = 0; n < links; n++)
		net_add_link(rnd_in(100, 1000) * MEGA + rnd_in(0, 999999),
			     rnd_in(1000000, 10000000), epoch, rows);
	for (n = 0; n < sessions; n++) {
		net_add_session(rnd_in(1, hops < links ? hops : links));
		net_schedule(rnd() % spread, NET_JOIN, n)->value =
			random_demand();
	}
}

/* Half of the sessions leave or change their demand within @spread ns. */
static inline void churn(u64 spread)
{
	u32 n;

	for (n = 0; n < net.session_count; n++) {
		u64 when = net.now + rnd() % spread;

		if (one_in(4))
			net_schedule(when, NET_LEAVE, n);
		else if (one_in(3))
			net_schedule(when, NET_CHANGE, n)->value =
				random_demand();
	}
}

static inline void expect_exact(const char *when, double part)
{
	struct net_error error = net_error();

	CHECK(error.bits <= CLOSE_BITS || error.part <= part,
	      "%s: %g bit/s, %g of the rate", when, error.bits, error.part);
}

static inline void expect_empty_links(void)
{
	u32 n;

	for (n = 0; n < net.link_count; n++) {
		struct slbn_link_vars *vars = &net.links[n].vars;

		slbn_link_rotate(&net.links[n].params, vars, net.now);
		CHECK(!(vars->cur.BF | vars->cur.NR | vars->cur.N |
			vars->cur.A | vars->prev.BF | vars->prev.NR |
			vars->prev.N | vars->prev.A),
		      "link %u is not empty", n);
		CHECK(!net.links[n].stats.clamped, "link %u was clamped", n);
	}
}

static inline struct slbn_packet random_packet(struct slbn_slot *slots)
{
	struct slbn_packet pkt = {
		.id = { rnd(), rnd() },
		.seq = (u32)rnd(),
		.type = rnd_in(1, SLBN_TYPE_MAX),
		.slots = rnd_in(1, SLBN_HOPS_MAX),
		.again = one_in(2),
		.weight = rnd_size(1, SLBN_WEIGHT_MAX),
		.epoch = (u32)rnd(),
		.bw2 = rnd() % (SLBN_RATE_MAX + 1),
		.bw1 = rnd() % (SLBN_RATE_MAX + 1),
		.bw = rnd() % (SLBN_RATE_MAX + 1),
		.use1 = rnd() % (SLBN_RATE_MAX + 1),
		.use = rnd() % (SLBN_RATE_MAX + 1),
		.g = rnd() % (SLBN_RATE_MAX + 1),
	};
	u32 n;

	pkt.hop = rnd_in(0, pkt.slots);
	pkt.bottleneck = one_in(3) ? SLBN_NO_HOP : rnd_in(0, pkt.slots - 1U);
	pkt.B = rnd() >> (64 - pkt.slots);
	for (n = 0; n < pkt.slots; n++) {
		slots[n].tag = (u16)rnd();
		slots[n].code = (u16)rnd();
	}
	return pkt;
}

#endif /* SLBN_NET_H */
