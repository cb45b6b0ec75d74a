/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Event-driven simulation of SLBN for tests: sessions with fixed paths over
 * links with delays and losses; control packets only.
 *
 *	source --- hop 0 --- hop 1 ... hop n-1 --- destination
 *
 * A link processes a packet when it is sent onto the link, and again when it
 * returns over the same hop. A source retransmits its packet after NET_RETRY
 * and pauses for a random time between cycles.
 *
 * tiny_run() simulates networks without losses and changes, in about 0.1 ms
 * each for the smallest, so that all of them can be tested.
 *
 * net_solve() computes the max-min reference by water filling: it finds the
 * most restrictive link or demand, fixes its sessions at that rate, and repeats
 * with the rest. It computes in long double, with errors far below 1 bit/s.
 */
#ifndef SLBN_NET_H
#define SLBN_NET_H

#include <math.h>
#include <string.h>

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_wire.h>

#define NET_LINKS 64
#define NET_SESSIONS 1024
#define NET_HOPS 16

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
};

struct net_event {
	u64 time;
	u64 order;
	enum net_event_kind kind;
	u32 session;
	u64 value;
	struct slbn_packet pkt;
	struct slbn_slot slots[NET_HOPS];
};

struct net_link {
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	struct slbn_link_stats stats;
	u64 delay;
};

struct net_session {
	struct slbn_source src;
	u32 hops;
	u32 path[NET_HOPS];
	/* Number of the current timeout; events of older ones are ignored. */
	u64 attempt;
	bool joined;
	bool gone;
	bool dead;
	long double fair;
	/* Levels of bottlenecks that its rate depends on; 0: none, its demand. */
	u32 depth;
};

static struct {
	struct net_link links[NET_LINKS];
	struct net_session sessions[NET_SESSIONS];
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
	/* The link's task: net_core_process(), or a test's comparison with it. */
	enum slbn_verdict (*process)(struct net_link *link, u32 session,
				     struct slbn_packet *pkt,
				     struct slbn_slot *slot, u64 now);
	struct net_event *heap[1 << 17];
	u32 heap_count;
	u64 order;
} net;

static bool net_before(const struct net_event *a, const struct net_event *b)
{
	return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static struct net_event *net_schedule(u64 time, enum net_event_kind kind,
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

static struct net_event *net_next(void)
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

static enum slbn_verdict net_core_process(struct net_link *link, u32 session,
					  struct slbn_packet *pkt,
					  struct slbn_slot *slot, u64 now)
{
	(void)session;
	return slbn_link_process(&link->params, &link->vars, &link->stats, pkt,
				 slot, now);
}

/* Send a packet over a hop, which may lose it. */
static void net_carry(const struct net_event *event, u64 delay)
{
	struct net_event *next;

	if (net.loss && rnd_in(1, 1000000) <= net.loss)
		return;
	next = net_schedule(event->time + delay, NET_ARRIVE, event->session);
	next->pkt = event->pkt;
	memcpy(next->slots, event->slots, sizeof(next->slots));
}

static void net_send(u32 number)
{
	struct net_session *session = &net.sessions[number];
	struct net_event *event = net_schedule(net.now, NET_ARRIVE, number);

	slbn_source_transmit(&session->src, net.now);
	event->pkt = session->src.pkt;
	memcpy(event->slots, session->src.slot, sizeof(event->slots));
	event = net_schedule(net.now + NET_RETRY, NET_TIMEOUT, number);
	event->value = ++session->attempt;
}

static void net_receive_ack(struct net_event *event)
{
	struct net_session *session = &net.sessions[event->session];
	u64 rate = session->src.rate;

	if (session->dead)
		return;
	switch (slbn_source_ack(&session->src, &event->pkt, event->slots,
				net.now)) {
	case SLBN_CYCLE_DONE:
		session->attempt++;
		if (session->src.rate != rate)
			net.settled = net.now;
		net_schedule(net.now + net.pause / 2 +
				     (net.pause ? rnd() % net.pause : 0),
			     NET_SEND, event->session);
		break;
	case SLBN_SESSION_OVER:
		session->attempt++;
		session->gone = true;
		break;
	default:
		break;
	}
}

/* A packet arrives at its next hop, the destination or the source. */
static void net_arrive(struct net_event *event)
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
		up = true;
	}
	hop = slbn_current_hop(&event->pkt);
	link = &net.links[session->path[hop]];
	if (net.process(link, event->session, &event->pkt, &event->slots[hop],
			net.now) == SLBN_FORWARD)
		net_carry(event, link->delay);
}

static void net_handle(struct net_event *event)
{
	struct net_session *session = &net.sessions[event->session];
	u64 id[2];

	switch (event->kind) {
	case NET_JOIN:
		id[0] = rnd();
		id[1] = rnd();
		slbn_source_join(&session->src, id, event->value, 1, NET_HOPS);
		session->joined = true;
		net_send(event->session);
		break;
	case NET_CHANGE:
		slbn_source_change(&session->src, event->value);
		break;
	case NET_LEAVE:
		slbn_source_leave(&session->src);
		break;
	case NET_DIE:
		session->dead = true;
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
	}
}

static void net_run(u64 until)
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

static void net_clear(void)
{
	u32 n;

	while (net.heap_count)
		free(net_next());
	for (n = 0; n < net.link_count; n++)
		free(net.links[n].vars.memory);
	memset(&net, 0, sizeof(net));
	net.process = net_core_process;
	net.pause = 5 * NET_MS;
}

static void net_add_link(u64 capacity, u64 delay, u64 epoch, u32 rows)
{
	struct net_link *link = &net.links[net.link_count++];

	link->params.C = capacity;
	link->params.P = capacity;
	link->params.epoch = epoch;
	link->params.rows = rows;
	link->params.salt = rnd();
	if (rows) {
		link->vars.memory = calloc(rows * SLBN_MEMORY_WAYS,
					   sizeof(struct slbn_memory_entry));
		assert_non_null(link->vars.memory);
	}
	slbn_link_init(&link->vars, net.now, 0, (u32)rnd());
	link->delay = delay;
}

/* Add a session over random links, each at most once. */
static void net_add_session(u32 hops)
{
	struct net_session *session = &net.sessions[net.session_count++];
	bool used[NET_LINKS] = { false };

	while (session->hops < hops) {
		u32 link = rnd_in(0, net.link_count - 1);

		if (used[link])
			continue;
		used[link] = true;
		session->path[session->hops++] = link;
	}
}

static bool net_counts(const struct net_session *session)
{
	return session->joined && !session->gone && !session->dead &&
	       !session->src.leaving;
}

static void net_solve(void)
{
	long double left[NET_LINKS];
	u32 open[NET_LINKS] = { 0 };
	u32 depth[NET_LINKS] = { 0 };
	bool fixed[NET_SESSIONS];
	u32 n, hop, first, todo = 0;

	for (n = 0; n < net.link_count; n++)
		left[n] = net.links[n].params.C;
	for (n = 0; n < net.session_count; n++) {
		const struct net_session *session = &net.sessions[n];

		fixed[n] = !net_counts(session);
		todo += !fixed[n];
		for (hop = 0; !fixed[n] && hop < session->hops; hop++)
			open[session->path[hop]]++;
	}
	for (first = todo; todo; first = todo) {
		long double level = INFINITY;
		u32 round[NET_SESSIONS];

		for (n = 0; n < net.link_count; n++)
			if (open[n])
				level = fminl(level, left[n] / open[n]);
		for (n = 0; n < net.session_count; n++)
			if (!fixed[n])
				level = fminl(level, net.sessions[n].src.D);
		for (n = 0; n < net.session_count; n++) {
			struct net_session *session = &net.sessions[n];
			bool here = session->src.D <= level;

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
			session->fair = level;
			for (hop = 0; hop < session->hops; hop++) {
				left[session->path[hop]] -= level;
				open[session->path[hop]]--;
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

static struct net_error net_error(void)
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

/* A tiny network has settled when no rate changed for this many cycles. */
#define TINY_QUIET 12
/* If all sessions complete this many cycles before, it never settles. */
#define TINY_CYCLES 400

/**
 * struct tiny_session - state of a session of a tiny network
 * @due: time of its next step, ns
 * @sent: its packet is in flight; otherwise it pauses
 * @pkt: packet
 * @slots: slots of @pkt
 * @cycles: completed cycles
 * @changed: cycle in which its rate changed last
 */
struct tiny_session {
	u64 due;
	bool sent;
	struct slbn_packet pkt;
	struct slbn_slot slots[NET_HOPS];
	u32 cycles;
	u32 changed;
};

/**
 * struct tiny_result - result of a tiny network
 * @settled: all rates are constant
 * @bits: largest difference from the max-min reference, bit/s: when settled, or
 *	in the second half of the run
 * @per_level: largest difference divided by the levels of bottlenecks that the
 *	rate depends on, bit/s
 */
struct tiny_result {
	bool settled;
	double bits;
	double per_level;
};

static void tiny_note(struct tiny_result *result,
		      const struct net_session *session)
{
	double bits = (double)fabsl(session->src.rate - session->fair);

	result->bits = fmax(result->bits, bits);
	/* A demand may be close to a share that differs by as much. */
	result->per_level =
		fmax(result->per_level, bits / fmax(session->depth, 1));
}

/* Advance a session to its next hop, end of its path, or cycle. */
static void tiny_step(u32 number, struct tiny_session *t)
{
	struct net_session *session = &net.sessions[number];
	struct net_link *link;
	u64 rate = session->src.rate;
	u8 hop;

	net.now = t->due;
	if (!t->sent) {
		slbn_source_transmit(&session->src, net.now);
		t->pkt = session->src.pkt;
		memcpy(t->slots, session->src.slot, sizeof(t->slots));
		t->sent = true;
	} else if (slbn_is_upstream(&t->pkt) && !t->pkt.hop) {
		assert_int_equal(slbn_source_ack(&session->src, &t->pkt,
						 t->slots, net.now),
				 SLBN_CYCLE_DONE);
		t->cycles++;
		if (session->src.rate != rate)
			t->changed = t->cycles;
		t->due += net.pause / 2 + (net.pause ? rnd() % net.pause : 0);
		t->sent = false;
		return;
	}
	if (!slbn_is_upstream(&t->pkt) && t->pkt.hop == session->hops)
		slbn_destination_reply(&t->pkt);
	hop = slbn_current_hop(&t->pkt);
	link = &net.links[session->path[hop]];
	assert_int_equal(
		net.process(link, number, &t->pkt, &t->slots[hop], net.now),
		SLBN_FORWARD);
	t->due += link->delay;
}

/* Initialize a link of a tiny network. */
static void tiny_link(u32 number, u64 capacity, u64 delay, bool ledgers)
{
	static struct slbn_memory_entry memory[NET_LINKS][SLBN_MEMORY_WAYS];
	struct net_link *link = &net.links[number];

	link->params.C = capacity;
	link->params.P = capacity;
	link->params.epoch = ledgers ? 100 * NET_MS : 0;
	link->params.rows = ledgers;
	memset(&link->stats, 0, sizeof(link->stats));
	memset(memory[number], 0, sizeof(memory[number]));
	slbn_link_init(&link->vars, 0, 0, (u32)rnd());
	link->vars.memory = memory[number];
	link->delay = delay;
}

/*
 * Run the sessions of net, which have only paths, until all rates have
 * settled or never will. They join in order, @apart ns after each other, with
 * these demands.
 */
static struct tiny_result tiny_run(const u64 *demands, u64 apart)
{
	struct tiny_session tiny[NET_LINKS] = { 0 };
	struct tiny_result result = { .settled = false };
	u32 least, quiet, n;

	assert_true(net.session_count <= ARRAY_SIZE(tiny));
	for (n = 0; n < net.session_count; n++) {
		const u64 id[2] = { n, 0 };

		slbn_source_join(&net.sessions[n].src, id, demands[n], 1,
				 NET_HOPS);
		net.sessions[n].joined = true;
		tiny[n].due = n * apart;
	}
	net_solve();
	do {
		u32 next = 0;

		for (n = 1; n < net.session_count; n++)
			if (tiny[n].due < tiny[next].due)
				next = n;
		tiny_step(next, &tiny[next]);
		unit_step++;
		if (tiny[next].sent)
			continue;
		if (tiny[next].cycles > TINY_CYCLES / 2)
			tiny_note(&result, &net.sessions[next]);
		least = ~0U;
		quiet = ~0U;
		for (n = 0; n < net.session_count; n++) {
			least = fp_min64(least, tiny[n].cycles);
			quiet = fp_min64(quiet,
					 tiny[n].cycles - tiny[n].changed);
		}
		result.settled = quiet >= TINY_QUIET;
		if (result.settled || least >= TINY_CYCLES)
			break;
	} while (true);
	if (result.settled) {
		result.bits = 0;
		result.per_level = 0;
		for (n = 0; n < net.session_count; n++)
			tiny_note(&result, &net.sessions[n]);
	}
	return result;
}

#endif /* SLBN_NET_H */
