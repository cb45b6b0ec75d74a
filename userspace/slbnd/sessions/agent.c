// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions. See agent.h.
 *
 * A session has one timer, for the next transmission or retransmission of its
 * packet, or for the end of its lease. The ID that slbnd reports (struct
 * slbn_session) is the second half of the SLBN ID: 32 random bits, so that IDs
 * are not reused soon, and the index in the table. The first half is random.
 */
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../system/links.h"
#include "agent.h"
#include "state.h"

#define MS 1000000ULL

/*
 * Retransmission timeouts: the minimum, the maximum before the RTT is known,
 * and the maximum after back-off.
 */
#define MIN_TIMEOUT (20 * MS)
#define INITIAL_TIMEOUT (1000 * MS)
#define MAX_TIMEOUT (10000 * MS)
/* Cycles without a measured RTT after which it may have grown. */
#define UNMEASURED_CYCLES 4
/* Urgent cycles without a change of the rate until their pauses double. */
#define URGENT_CYCLES 4
/*
 * Transmissions of a Join, within about four seconds: the third one has all
 * slots, for long paths. Loss, or a link that drops control packets because
 * many sessions join at once, must not make a destination look silent.
 */
#define JOIN_TRIES (SLBN_PATH_TRIES + 4)
#define LEAVE_TRIES 10
/*
 * Maximum number of retransmissions that a session may send without back-off.
 */
#define MAX_EARLY_COPIES 16
/*
 * Maximum number of cycles in sequence that changes of a client may start before the
 * usual pause is over.
 */
#define MAX_EARLY_CHANGES 16
/*
 * Unit of session.sent_per_cycle, weight of the last cycle in it (1 / 8), and
 * maximum number of packets of a cycle that count: a single interruption must
 * not slow a session.
 */
#define SENT_ONE 1024
#define SENT_WEIGHT 8
#define SENT_MAX 4
/* Part of the remaining lease after which a packet is retransmitted. */
#define LEASE_PART 8
/* Cycles per second of an agent above which the longest pauses grow. */
#define CAPPED_CYCLES 10000
/* Credit of a resting session, in packets, with which it continues. */
#define WAKE_PACKETS 8
/*
 * Largest credit, in packets of CREDIT_OCTETS: an idle session rests after some
 * ten seconds.
 */
#define MAX_CREDIT 64
#define CREDIT_OCTETS 1500
/* A session that gets no answers for this time is reported as stalled. */
#define STALLED_AFTER (2000 * MS)
/*
 * One cycle in MARKS_CYCLES asks whether marks arrive; after MARKS_LOST answers
 * in sequence that say that they do not, this is reported.
 */
#define MARKS_CYCLES 16
#define MARKS_LOST 3
/* Rounding changes rates by some bit/s all the time. */
#define RATE_NOISE 64
#define INITIAL_SESSIONS 64U

static u64 random64(void)
{
	static u64 pool[32];
	static u32 left;

	if (!left) {
		/* Fails only on kernels without this system call. */
		if (getrandom(pool, sizeof(pool), 0) != sizeof(pool))
			abort();
		left = sizeof(pool) / sizeof(*pool);
	}
	return pool[--left];
}

/* Double the table and the timers. Returns false without memory. */
static bool grow_table(struct agent *agent)
{
	u32 size = agent->allocated ? 2 * agent->allocated : INITIAL_SESSIONS;
	struct session **sessions;
	struct fp_heap timers;
	void *memory;
	u32 n;

	sessions = reallocarray(agent->sessions, size, sizeof(*sessions));
	if (!sessions)
		return false;
	agent->sessions = sessions;
	memory = aligned_alloc(64, fp_heap_size(size));
	if (!memory)
		return false;
	fp_heap_init(&timers, memory, size);
	for (n = 0; n < agent->timers.count; n++)
		fp_heap_set(&timers, agent->timers.nodes[n].item,
			    agent->timers.nodes[n].key);
	free(agent->timers_memory);
	agent->timers_memory = memory;
	agent->timers = timers;
	agent->allocated = size;
	return true;
}

static int compare_flows(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct slbn_flow));
}

static struct session *session_of(struct slbn_flow *flow)
{
	return (void *)((char *)flow - offsetof(struct session, flow));
}

/**
 * agent_find_flow() - find the session of a flow
 * @agent: the agent
 * @flow: exactly as it was joined
 *
 * Return: the session that was joined last, or NULL.
 */
struct session *agent_find_flow(const struct agent *agent,
				const struct slbn_flow *flow)
{
	struct slbn_flow *const *node =
		tfind(flow, &agent->by_flow, compare_flows);

	return node ? session_of(*node) : NULL;
}

/* Returns false without memory. */
static bool add_by_flow(struct agent *agent, struct session *session)
{
	struct slbn_flow **node =
		tsearch(&session->flow, &agent->by_flow, compare_flows);

	if (!node)
		return false;
	session->newer = NULL;
	session->older = *node == &session->flow ? NULL : session_of(*node);
	if (session->older)
		session->older->newer = session;
	*node = &session->flow;
	return true;
}

static void remove_by_flow(struct agent *agent, struct session *session)
{
	struct slbn_flow **node;

	if (session->older)
		session->older->newer = session->newer;
	if (session->newer) {
		session->newer->older = session->older;
	} else if (session->older) {
		node = tfind(&session->flow, &agent->by_flow, compare_flows);
		*node = &session->older->flow;
	} else {
		tdelete(&session->flow, &agent->by_flow, compare_flows);
	}
}

/* Make an entry of the table free. */
static void put_back(struct agent *agent, struct session *session)
{
	session->in_use = false;
	session->next_free = agent->first_free;
	agent->first_free = session->index;
}

/* Add a free entry to the table. Returns false without memory. */
static bool add_entry(struct agent *agent)
{
	struct session *session;

	if (agent->entries == agent->allocated && !grow_table(agent))
		return false;
	session = calloc(1, sizeof(*session));
	if (!session)
		return false;
	session->index = agent->entries;
	agent->sessions[agent->entries++] = session;
	put_back(agent, session);
	return true;
}

/* A free entry of the table, of which only the index is set. */
static struct session *allocate_session(struct agent *agent)
{
	struct session *session;

	if (agent->first_free < 0 && !add_entry(agent))
		return NULL;
	session = agent->sessions[agent->first_free];
	agent->first_free = session->next_free;
	return session;
}

static void free_session(struct agent *agent, struct session *session)
{
	state_clear(agent->state, session->index);
	fp_heap_remove(&agent->timers, session->index);
	remove_by_flow(agent, session);
	trace_end(&agent->trace, session);
	free(session->path.hops);
	session->path.hops = NULL;
	put_back(agent, session);
	agent->count--;
}

/**
 * agent_init() - initialize an agent without sessions
 * @agent: the agent
 * @config: options
 * @callbacks: notifications
 * @transport: where packets go
 */
void agent_init(struct agent *agent, const struct agent_config *config,
		const struct agent_callbacks *callbacks,
		struct transport *transport)
{
	*agent = (struct agent){
		.config = *config,
		.callbacks = callbacks,
		.transport = transport,
		.first_free = -1,
	};
}

/* The tree does not own the flows. */
static void free_nothing(void *flow)
{
	(void)flow;
}

/**
 * agent_free() - free all sessions, without notifications
 * @agent: the agent
 */
void agent_free(struct agent *agent)
{
	u32 n;

	tdestroy(agent->by_flow, free_nothing);
	for (n = 0; n < agent->entries; n++) {
		free(agent->sessions[n]->path.hops);
		free(agent->sessions[n]);
	}
	free(agent->sessions);
	free(agent->timers_memory);
}

/**
 * agent_find() - find a session
 * @agent: the agent
 * @id: its ID in struct slbn_session
 *
 * Return: the session, or NULL.
 */
struct session *agent_find(const struct agent *agent, u64 id)
{
	u32 index = (u32)id;
	struct session *session;

	if (index >= agent->entries)
		return NULL;
	session = agent->sessions[index];
	return session->in_use && session->source.pkt.id[1] == id ? session :
								    NULL;
}

/*
 * A lease must last until the answer to the next packet: two round trips (MUST 12 of
 * docs/protocol.md). If not, the session has no rate in a part of each cycle.
 */
static bool lease_is_short(const struct session *session)
{
	return session->timing.lease &&
	       session->timing.lease < 2 * session->timing.rtt;
}

/**
 * agent_short_leases() - count sessions whose leases are too short for their paths
 * @agent: the agent
 *
 * Return: sessions with SLBN_SHORT_LEASE.
 */
u32 agent_short_leases(const struct agent *agent)
{
	u32 count = 0, n;

	for (n = 0; n < agent->entries; n++)
		count += agent->sessions[n]->in_use &&
			 lease_is_short(agent->sessions[n]);
	return count;
}

/**
 * agent_no_marks_seen() - count sessions whose marks do not arrive
 * @agent: the agent
 *
 * Return: sessions with SLBN_NO_MARKS_SEEN.
 */
u32 agent_no_marks_seen(const struct agent *agent)
{
	u32 count = 0, n;

	for (n = 0; n < agent->entries; n++)
		count += agent->sessions[n]->in_use &&
			 agent->sessions[n]->flags & SLBN_NO_MARKS_SEEN;
	return count;
}

/**
 * agent_describe() - describe a session for clients
 * @session: the session
 * @to: set
 */
void agent_describe(const struct session *session, struct slbn_session *to)
{
	const struct slbn_source *source = &session->source;

	*to = (struct slbn_session){
		.id = source->pkt.id[1],
		.demand = source->D,
		.rate = source->rate,
		.cycles = session->cycles,
		.retries = session->retries,
		.rtt = session->timing.rtt,
		.flow = session->flow,
		.flags = session->flags,
		.hops = session->path.length,
		.bottleneck = source->pkt.bottleneck,
		.weight = source->pkt.weight,
		.used = session->use.demand.used,
		.device = session->path.device,
	};
	if (to->bottleneck < session->path.known) {
		to->link = session->path.hops[to->bottleneck].link;
		memcpy(to->router, session->path.hops[to->bottleneck].router,
		       sizeof(to->router));
	}
	if (source->leaving)
		to->flags |= SLBN_LEAVING;
	if (session->use.demand.window)
		to->flags |= SLBN_MEASURED;
	if (lease_is_short(session))
		to->flags |= SLBN_SHORT_LEASE;
	if (session->use.demand.by_window)
		to->flags |= SLBN_WINDOWS;
	if (session->use.demand.acked_elsewhere)
		to->flags |= SLBN_ACKED_ELSEWHERE;
}

static void arm_timer(struct agent *agent, const struct session *session)
{
	const struct slbn_source *source = &session->source;
	u64 due = session->timing.due;

	if (source->rate)
		due = fp_min64(due, source->lease);
	fp_heap_set(&agent->timers, session->index, ~due);
}

/* Send the session's packet at @due. */
static void set_timer(struct agent *agent, struct session *session, u64 due)
{
	session->timing.due = due;
	arm_timer(agent, session);
}

/* Scale a time by the mean number of packets that cycles needed lately. */
static u64 scale_by_losses(const struct session *session, u64 time)
{
	return time * session->timing.sent_per_cycle / SENT_ONE;
}

/*
 * The longest mean pause. A quarter of an epoch leaves time to retransmit
 * before the lease ends. With many sessions this causes too many packets for
 * one CPU, and with losses for a link, so the pause grows up to two fifths.
 */
static u64 longest_pause(const struct agent *agent,
			 const struct session *session)
{
	u64 pause = agent->count * (1000 * MS / CAPPED_CYCLES);

	pause = fp_max64(pause,
			 scale_by_losses(session, session->timing.epoch / 4));
	return fp_min64(pause, 2 * session->timing.epoch / 5);
}

/* The mean pause between two cycles. */
static u64 usual_pause(const struct agent *agent, const struct session *session)
{
	u64 bits = 8ULL * transport_length(agent->transport, &session->flow,
					   &session->source.pkt);
	/* The share: the rate may be on its way to it. */
	u64 share = fp_max64(session->source.pkt.bw1, 1);
	u64 pause = bits * 1000000000000ULL / agent->config.control / share;

	/* The interval of packets includes the round trip. */
	pause -= fp_min64(pause, session->timing.rtt);
	pause = fp_max64(pause, agent->config.pause);
	return fp_min64(pause, longest_pause(agent, session));
}

/*
 * Shortest timeout: earlier copies must have been answered or dropped (MUST 9 of
 * docs/protocol.md).
 */
static u64 shortest_timeout(const struct session *session)
{
	u64 timeout = 3 * session->timing.longest_rtt / 2;

	if (!session->timing.rtt)
		timeout = fp_min64(session->timing.epoch / 3, INITIAL_TIMEOUT);
	return fp_max64(timeout, MIN_TIMEOUT);
}

/*
 * The retransmission timeout. The answer must arrive before the lease ends
 * (where each of ten links loses 5 %, a copy is lost with 40 %), so until then
 * the timeout is at most 1 / LEASE_PART of the time that is left, and at most
 * an epoch: a new session competes with others that retransmit as often. But
 * links also drop control packets that exceed their limit: a session without
 * early copies, see earn_copies(), retransmits no sooner than its next cycle
 * would have begun, and timeouts grow with the time since the first copy. The
 * jitter is a quarter.
 */
static u64 retransmission_timeout(const struct agent *agent,
				  const struct session *session, u64 now)
{
	const struct slbn_source *source = &session->source;
	u64 shortest = shortest_timeout(session);
	u64 timeout = now - source->sent;

	if (!session->timing.early_copies)
		shortest = fp_max64(shortest, usual_pause(agent, session));
	else
		timeout = fp_min64(timeout / 2, session->timing.epoch);
	if (session->timing.early_copies && source->rate && now < source->lease)
		timeout = fp_min64(timeout, (source->lease - now) / LEASE_PART);
	timeout = fp_min64(timeout, MAX_TIMEOUT);
	timeout = fp_max64(timeout, shortest);
	return timeout + random64() % (timeout / 4);
}

/* The shortest lease that pauses allow for: see update_path(). */
static u64 allowed_lease(const struct session *session)
{
	return slbn_lease(session->timing.epoch / 1000, session->source.margin);
}

/*
 * The mean pause is scaled by the recent transmissions per cycle, so that losses do
 * not increase the rate of packets; but half of the lease remains, less a round trip.
 */
static u64 mean_pause(const struct agent *agent, const struct session *session,
		      u64 now)
{
	const struct slbn_source *source = &session->source;
	u64 pause = scale_by_losses(session, usual_pause(agent, session));
	u64 end, left;

	pause = fp_min64(pause, longest_pause(agent, session));
	if (!source->rate || source->lease == SLBN_NO_LEASE)
		return pause;
	end = fp_max64(source->lease, source->sent + allowed_lease(session));
	left = end - fp_min64(end, now);
	left -= fp_min64(left, session->timing.longest_rtt);
	return fp_min64(pause, left / 2);
}

/*
 * A cycle earns as many early copies as its pause is longer than the usual one, at
 * least one. So in the long run a session sends no more packets than without
 * losses, or two for each answer (MUST 10 of docs/protocol.md).
 */
static void earn_copies(const struct agent *agent, struct session *session,
			u64 pause)
{
	u64 copies = session->timing.early_copies;

	copies += fp_max64(pause / usual_pause(agent, session), 1);
	session->timing.early_copies = fp_min64(copies, MAX_EARLY_COPIES);
}

/*
 * The pause before the next cycle: random, 0.5 to 1.5 times the mean. If the
 * session is urgent, 0 to 1/20 of the mean; longer if that has not changed the
 * rate, as a link may have no room for an epoch; and longer with losses, as a
 * link may drop what exceeds its limit because all its sessions are urgent. With
 * too short leases the rate changes all the time.
 */
static u64 random_pause(const struct session *session, u64 mean)
{
	u32 doublings = session->timing.urgent_cycles / URGENT_CYCLES;
	u64 lease = session->timing.lease;
	u64 urgent;

	if (!session->source.urgent || doublings >= 5 ||
	    (lease && lease < allowed_lease(session)))
		return mean / 2 + random64() % fp_max64(mean, 1);
	urgent = (mean / 20) << doublings;
	urgent += scale_by_losses(session, mean) - mean;
	return random64() % fp_max64(fp_min64(urgent, mean), 1);
}

/* Smooth the number of packets that a cycle needed. */
static void count_sent(struct session *session, u32 packets)
{
	packets = fp_min(packets, SENT_MAX);
	session->timing.sent_per_cycle +=
		packets * (SENT_ONE / SENT_WEIGHT) -
		session->timing.sent_per_cycle / SENT_WEIGHT;
}

/* Take the credit for a packet. Returns whether it suffices. */
static bool spend_credit(const struct agent *agent, struct session *session)
{
	struct agent_credit *credit = &session->budget.credit;
	u64 octets;

	if (!session->budget.metered)
		return true;
	octets = transport_length(agent->transport, &session->flow,
				  &session->source.pkt);
	if (!credit->packets || credit->octets < octets)
		return false;
	credit->packets--;
	credit->octets -= octets;
	return true;
}

/* The hop whose state a packet asks for, if there is credit for the option. */
static u8 get_traced_hop(struct agent *agent, struct session *session)
{
	u32 octets = SLBN_OPTION_HEAD + SLBN_TRACE_LENGTH;
	u8 hop;

	if (session->budget.metered && session->budget.credit.octets < octets)
		return SLBN_NO_HOP;
	hop = trace_ask(&agent->trace, session);
	if (session->budget.metered && hop != SLBN_NO_HOP)
		session->budget.credit.octets -= octets;
	return hop;
}

/*
 * Do marks of data arrive? A few control packets have the mark of assigned data, and a
 * router that receives it answers with CS6. Without a mark it answers with what has
 * arrived. A packet that is sent again may be lost because of the mark.
 */
static bool asks_for_marks(const struct agent *agent,
			   const struct session *session)
{
	if (!agent->transport->marked || session->source.tries > 1 ||
	    session->source.leaving)
		return false;
	return session->path.lost_marks % MARKS_LOST ||
	       session->cycles % MARKS_CYCLES == 0;
}

/* An answer has arrived with this DSCP. */
static void note_marks(struct agent *agent, struct session *session, u8 dscp)
{
	u32 flags = session->flags;

	if (!session->path.asked)
		return;
	if (dscp == TRANSPORT_DSCP || dscp_is_local(dscp))
		session->path.lost_marks = 0;
	else if (session->path.lost_marks < MARKS_LOST)
		session->path.lost_marks++;
	session->flags &= ~SLBN_NO_MARKS_SEEN;
	if (session->path.lost_marks == MARKS_LOST)
		session->flags |= SLBN_NO_MARKS_SEEN;
	if (session->flags != flags)
		agent->callbacks->changed(agent, session);
}

static void send_packet(struct agent *agent, struct session *session, u64 now)
{
	session->budget.resting = !spend_credit(agent, session);
	if (session->budget.resting) {
		/* A session that cannot leave ends: see has_failed(). */
		set_timer(agent, session,
			  session->source.leaving ? now : ~0ULL);
		return;
	}
	slbn_source_transmit(&session->source, now);
	state_save(agent->state, session);
	session->path.asked = asks_for_marks(agent, session);
	transport_send(agent->transport, &session->flow, session->mark,
		       session->path.asked ? agent->transport->marked :
					     TRANSPORT_DSCP,
		       &session->source.pkt, session->source.slot,
		       get_traced_hop(agent, session));
	if (session->source.tries > 1 && session->timing.early_copies)
		session->timing.early_copies--;
	set_timer(agent, session,
		  now + retransmission_timeout(agent, session, now));
}

static void start_cycle(struct agent *agent, struct session *session, u64 now)
{
	session->waiting = true;
	send_packet(agent, session, now);
}

static void make_id(u32 index, u64 id[2])
{
	id[0] = random64();
	id[1] = random64() << 32 | index;
}

/**
 * agent_join() - start a session
 * @agent: the agent
 * @flow: its packets; control packets have the same source and destination
 * @mark: of the control packets, for the routing table; 0: none
 * @demand: bit/s, 1 to SLBN_RATE_MAX
 * @weight: 1 to SLBN_WEIGHT_MAX
 * @credit: initial credit of a metered session; NULL: it is not metered
 * @now: ns
 *
 * Return: the session, without an owner; NULL: too many sessions, or no memory.
 */
struct session *agent_join(struct agent *agent, const struct slbn_flow *flow,
			   u32 mark, u64 demand, u32 weight,
			   const struct agent_credit *credit, u64 now)
{
	struct session *session = NULL;
	u64 id[2];

	if (!agent_is_full(agent))
		session = allocate_session(agent);
	if (!session)
		return NULL;
	make_id(session->index, id);
	*session = (struct session){
		.index = session->index,
		.flow = *flow,
		.mark = mark,
		.timing.answered_at = now,
		.timing.epoch = agent->config.epoch,
		.timing.early_copies = MAX_EARLY_COPIES,
		.timing.sent_per_cycle = SENT_ONE,
		.budget.metered = credit,
	};
	if (!add_by_flow(agent, session)) {
		put_back(agent, session);
		return NULL;
	}
	session->in_use = true;
	if (credit)
		session->budget.credit = *credit;
	slbn_source_join(&session->source, id, demand, weight,
			 agent->config.hops);
	session->source.margin = agent->config.margin;
	agent->count++;
	agent->callbacks->limit(agent, session);
	start_cycle(agent, session, now);
	return session;
}

/* The free entry @index of the table, which grows. Returns NULL without memory. */
static struct session *allocate_at(struct agent *agent, u32 index)
{
	while (agent->entries <= index)
		if (!add_entry(agent))
			return NULL;
	/* The last one that was put back is the first free one. */
	return agent->first_free == (s32)index ? allocate_session(agent) : NULL;
}

/* Join again, with the demand and weight that the session has. */
static void begin_anew(const struct agent *agent, struct session *session)
{
	struct slbn_source *source = &session->source;
	u64 id[2];

	make_id(session->index, id);
	slbn_source_join(source, id, source->D, source->pkt.weight,
			 agent->config.hops);
	source->margin = agent->config.margin;
	session->waiting = false;
	session->cycles = 0;
	session->reported = 0;
}

/**
 * agent_restore() - continue a session of an earlier slbnd
 * @agent: the agent; only with sessions that were restored
 * @index: of the session; larger than that of the ones before
 * @record: from state_read()
 * @now: ns
 *
 * Its rate is valid until its lease ends. A packet that was in flight is
 * retransmitted when an answer to an earlier copy cannot be on its way anymore. If
 * links have forgotten the session, it joins with another ID.
 *
 * Return: the session, without an owner; NULL: no memory.
 */
struct session *agent_restore(struct agent *agent, u32 index,
			      const struct state_record *record, u64 now)
{
	struct session *session = allocate_at(agent, index);
	u64 pause;

	if (!session)
		return NULL;
	*session = (struct session){
		.index = index,
		.waiting = record->waiting,
		.reported = record->source.rate,
		.timing.answered_at = now,
		.timing.rtt = record->rtt,
		.timing.longest_rtt = record->longest_rtt,
		.timing.epoch = fp_min64(record->epoch, agent->config.epoch),
		.timing.early_copies = MAX_EARLY_COPIES,
		.timing.sent_per_cycle = SENT_ONE,
		.cycles = record->cycles,
		.budget.metered = record->metered,
		.budget.credit.packets =
			fp_min64(record->credit.packets, MAX_CREDIT),
		.budget.credit.octets = fp_min64(record->credit.octets,
						 MAX_CREDIT * CREDIT_OCTETS),
		.left_at = now,
		.owner.uid = record->uid,
		.flow = record->flow,
		.mark = record->mark,
		.flags = record->flags,
		.source = record->source,
	};
	if (!add_by_flow(agent, session)) {
		put_back(agent, session);
		return NULL;
	}
	session->in_use = true;
	session->source.margin = agent->config.margin;
	agent->count++;
	if (state_is_forgotten(record, now))
		begin_anew(agent, session);
	agent->callbacks->limit(agent, session);
	pause = usual_pause(agent, session);
	set_timer(agent, session,
		  now + (session->waiting ? shortest_timeout(session) :
					    random64() % pause));
	return session;
}

static bool rate_changed(const struct session *session)
{
	u64 rate = session->source.rate;
	u64 change = rate > session->reported ? rate - session->reported :
						session->reported - rate;

	return !session->reported != !rate ||
	       change > fp_max64(RATE_NOISE, rate >> 16);
}

/* Report a changed rate, or that answers arrive again. */
static void report_rate(struct agent *agent, struct session *session)
{
	bool answered = session->flags & SLBN_STALLED && !session->waiting;

	if (!rate_changed(session) && !answered)
		return;
	session->reported = session->source.rate;
	if (answered)
		session->flags &= ~SLBN_STALLED;
	agent->callbacks->changed(agent, session);
}

/* The rate has fallen: limit the session now, and report it. */
static void lower_rate(struct agent *agent, struct session *session)
{
	agent->callbacks->limit(agent, session);
	report_rate(agent, session);
}

/*
 * When a change of the demand starts a cycle. Those of programs wait for the shortest
 * pause. In the long run they start no more cycles than usual pauses do, as a program
 * could change the demand all the time: further ones have the cycle that is planned.
 */
static u64 change_due(const struct agent *agent, struct session *session,
		      u64 now)
{
	struct session_timing *timing = &session->timing;
	u64 due = fp_max64(timing->answered_at + agent->config.pause, now);
	u64 usual = usual_pause(agent, session);
	u64 paid = fp_max64(timing->changes_paid, now) + usual;

	if (session->flags & SLBN_DETECTED)
		return now;
	if (due >= timing->due || paid > now + MAX_EARLY_CHANGES * usual)
		return timing->due;
	timing->changes_paid = paid;
	return due;
}

/**
 * agent_change() - change the demand of a session
 * @agent: the agent
 * @session: the session
 * @demand: bit/s, 1 to SLBN_RATE_MAX
 * @now: ns
 *
 * A rate above the demand falls now. The next cycle has the new demand; it starts
 * early, see change_due(), unless one is running.
 */
void agent_change(struct agent *agent, struct session *session, u64 demand,
		  u64 now)
{
	u64 before = session->source.rate;

	if (demand == session->source.D)
		return;
	slbn_source_change(&session->source, demand);
	state_save(agent->state, session);
	if (session->source.rate < before)
		lower_rate(agent, session);
	if (!session->waiting && !session->budget.resting)
		set_timer(agent, session, change_due(agent, session, now));
}

/**
 * agent_leave() - end a session
 * @agent: the agent
 * @session: the session; callbacks->ended() follows
 * @now: ns
 *
 * Its rate is 0 from now on. The Leave is sent after the current cycle. Without
 * credit for it the session ends at once, and links forget it.
 */
void agent_leave(struct agent *agent, struct session *session, u64 now)
{
	if (session->source.leaving)
		return;
	slbn_source_leave(&session->source);
	state_save(agent->state, session);
	session->left_at = now;
	agent->callbacks->limit(agent, session);
	if (!session->waiting || session->budget.resting)
		set_timer(agent, session, now);
}

/**
 * agent_credit() - add credit for packets that a metered session's flow has sent
 * @agent: the agent
 * @session: the session
 * @earned: packets and octets of the flow since the last call
 * @now: ns
 */
void agent_credit(struct agent *agent, struct session *session,
		  const struct agent_credit *earned, u64 now)
{
	struct agent_credit *credit = &session->budget.credit;
	u64 octets = WAKE_PACKETS * CREDIT_OCTETS;

	credit->packets =
		fp_min64(credit->packets + earned->packets, MAX_CREDIT);
	credit->octets = fp_min64(credit->octets + earned->octets,
				  MAX_CREDIT * CREDIT_OCTETS);
	if (!session->budget.resting || session->source.leaving ||
	    credit->packets < WAKE_PACKETS || credit->octets < octets)
		return;
	session->budget.resting = false;
	session->timing.answered_at = now;
	set_timer(agent, session, now);
}

/**
 * agent_due() - when agent_run() must be called
 * @agent: the agent
 *
 * Return: ns; ~0: never.
 */
u64 agent_due(const struct agent *agent)
{
	return agent->timers.count ? ~agent->timers.nodes[0].key : ~0ULL;
}

static void end_session(struct agent *agent, struct session *session)
{
	agent->callbacks->ended(agent, session);
	free_session(agent, session);
}

/* Is it useless to retransmit the packet in flight? */
static bool has_failed(const struct session *session, u64 now)
{
	bool leaving = session->source.leaving;
	u32 tries = session->source.tries;

	/* Links drop the session with their ledgers. */
	if (leaving && (tries >= LEAVE_TRIES || session->budget.resting ||
			now - session->left_at > 2 * session->timing.epoch))
		return true;
	return !session->cycles && tries >= JOIN_TRIES &&
	       (leaving || session->budget.metered);
}

/* Send the next packet, or retransmit the last one. */
static void send_due(struct agent *agent, struct session *session, u64 now)
{
	if (has_failed(session, now)) {
		end_session(agent, session);
		return;
	}
	if (!session->waiting) {
		start_cycle(agent, session, now);
		return;
	}
	session->retries++;
	agent->counters.retries++;
	if (!session->source.leaving && !(session->flags & SLBN_STALLED) &&
	    now - session->timing.answered_at > STALLED_AFTER) {
		session->flags |= SLBN_STALLED;
		agent->callbacks->changed(agent, session);
	}
	send_packet(agent, session, now);
}

static void handle_timer(struct agent *agent, struct session *session, u64 now)
{
	if (slbn_source_expire(&session->source, now))
		lower_rate(agent, session);
	if (session->timing.due <= now)
		send_due(agent, session, now);
	else
		arm_timer(agent, session);
}

/**
 * agent_run() - send the packets that are due, and end leases
 * @agent: the agent
 * @now: ns
 *
 * transport_flush() must follow.
 */
void agent_run(struct agent *agent, u64 now)
{
	while (agent_due(agent) <= now)
		handle_timer(agent,
			     agent->sessions[fp_heap_top(&agent->timers)], now);
}

/*
 * An answer to the first copy of a packet measures the RTT, an answer to
 * another one does not (Karn). After several of these the RTT may have grown
 * beyond the timeout, which then grows up to half an epoch. It never shrinks by
 * that: copies would be sent before answers can arrive, and no RTT be measured
 * again. Meanwhile the system may have been suspended, or slbnd stopped, so
 * what takes longer than two epochs is no round trip: links have forgotten the
 * session.
 */
static void update_rtt(struct session_timing *timing, u64 rtt, bool again)
{
	u64 longest = timing->longest_rtt;
	u64 most = timing->lease ? 2 * timing->epoch : MAX_TIMEOUT;

	if (again) {
		if (++timing->unmeasured >= UNMEASURED_CYCLES)
			timing->longest_rtt =
				fp_max64(longest, fp_min64(2 * longest,
							   timing->epoch / 3));
		return;
	}
	timing->unmeasured = 0;
	/* 0: not measured yet. In virtual time a round trip may take no time. */
	rtt = fp_min64(fp_max64(rtt, 1), most);
	timing->rtt = timing->rtt ? (7 * timing->rtt + rtt) / 8 : rtt;
	/* Forget a long one slowly. */
	longest -= (longest - fp_min64(longest, rtt)) / 16;
	timing->longest_rtt = fp_max64(longest, rtt);
}

/**
 * struct answer - an answer to a session of ours
 * @pkt: the packet
 * @slot: its slots
 * @data: the packet on the wire
 * @layout: its layout
 * @from: its endpoints
 */
struct answer {
	struct slbn_packet pkt;
	struct slbn_slot slot[SLBN_HOPS_MAX];
	const u8 *data;
	struct slbn_layout layout;
	const struct transport_peer *from;
};

/* Without memory for a longer path, only its first hops are known. */
static void grow_path(struct session *session)
{
	struct agent_hop *path;

	if (session->path.length <= session->path.known)
		return;
	path = reallocarray(session->path.hops, session->path.length,
			    sizeof(*path));
	if (!path)
		return;
	session->path.hops = path;
	session->path.known = session->path.length;
}

/* Returns whether the first hop is another one. */
static bool update_hops(struct session *session, const struct answer *answer)
{
	size_t length = session->flow.family == AF_INET ? 4 : 16;
	struct agent_hop first = {}, now = {};
	const u8 *address;
	u8 hop;

	if (session->path.known)
		first = session->path.hops[0];
	session->path.length =
		slbn_path_length(answer->slot, answer->pkt.slots);
	grow_path(session);
	session->path.known = fp_min(session->path.known, session->path.length);
	for (hop = 0; hop < session->path.known; hop++) {
		struct agent_hop *to = &session->path.hops[hop];

		*to = (struct agent_hop){
			.link = slbn_get_return(answer->data, &answer->layout,
						hop + 1, &address),
		};
		memcpy(to->router, address, length);
	}
	if (session->path.known)
		now = session->path.hops[0];
	return memcmp(&first, &now, sizeof(now));
}

/* Is the first hop a link of this router? */
static void update_device(const struct agent *agent, struct session *session,
			  const struct answer *answer)
{
	const struct agent_hop *first = session->path.hops;
	u32 device = 0;

	if (session->path.known &&
	    transport_is_own(agent->transport, session->flow.family,
			     first->router))
		device = links_device(first->link);
	session->flags &= ~SLBN_OWN_LINK;
	if (device)
		session->flags |= SLBN_OWN_LINK;
	session->path.device = device ?: answer->from->device;
}

/*
 * Leases are as short as any router of the path says, since its link may forget the
 * session then. Pauses are not: a wrong epoch of one link must not let the sessions
 * that pass it send so much that other links, or slbnd, have no time for the rest.
 */
static void update_path(const struct agent *agent, struct session *session,
			const struct answer *answer)
{
	u64 epoch = agent->config.epoch;
	u64 shortest = fp_max64(epoch / AGENT_EPOCH_PART, AGENT_MIN_EPOCH);

	session->timing.lease = 0;
	if (answer->pkt.epoch != SLBN_NO_EPOCH) {
		epoch = fp_min64(epoch, answer->pkt.epoch * 1000ULL);
		session->timing.lease =
			slbn_lease(answer->pkt.epoch, session->source.margin);
	}
	session->timing.epoch = fp_max64(epoch, shortest);
	if (update_hops(session, answer))
		update_device(agent, session, answer);
	else if (!(session->flags & SLBN_OWN_LINK))
		session->path.device = answer->from->device;
}

static void handle_answer(struct agent *agent, const struct answer *answer,
			  u64 now)
{
	const struct slbn_packet *ack = &answer->pkt;
	struct session *session = agent_find(agent, ack->id[1]);
	enum slbn_source_event event;
	u64 rate, sent, pause;
	u32 tries;

	if (!session || !session->waiting) {
		agent->counters.stale++;
		return;
	}
	rate = session->source.rate;
	sent = session->source.sent;
	tries = session->source.tries;
	event = slbn_source_ack(&session->source, ack, answer->slot, now);
	if (event == SLBN_ACK_IGNORED) {
		agent->counters.stale++;
		return;
	}
	if (event == SLBN_SESSION_OVER) {
		end_session(agent, session);
		return;
	}
	session->cycles++;
	session->budget.resting = false;
	agent->counters.cycles++;
	session->timing.answered_at = now;
	update_rtt(&session->timing, now - sent, ack->again);
	update_path(agent, session, answer);
	note_marks(agent, session, answer->from->dscp);
	trace_answer(&agent->trace, session, answer->data, &answer->layout);
	if (session->source.leaving) {
		agent->callbacks->answered(agent, session, now);
		start_cycle(agent, session, now);
		return;
	}
	session->waiting = false;
	/* Before the rate is used. */
	state_save(agent->state, session);
	session->timing.urgent_cycles++;
	if (session->source.rate != rate || !session->source.urgent)
		session->timing.urgent_cycles = 0;
	count_sent(session, tries);
	pause = mean_pause(agent, session, now);
	earn_copies(agent, session, pause);
	pause = random_pause(session, pause);
	session->timing.cycle = pause + session->timing.longest_rtt;
	session->use.share_is_new = !ack->again;
	agent->callbacks->answered(agent, session, now);
	agent->callbacks->limit(agent, session);
	set_timer(agent, session, now + pause);
	report_rate(agent, session);
}

/**
 * agent_receive() - process a received packet
 * @agent: the agent
 * @data: the packet
 * @length: octets of it
 * @from: its endpoints
 * @now: ns
 *
 * Upstream packets are answers to a session of ours. Downstream packets have
 * reached their destination, which answers them. Both have recorded the way
 * back.
 */
void agent_receive(struct agent *agent, u8 *data, size_t length,
		   const struct transport_peer *from, u64 now)
{
	struct transport *transport = agent->transport;
	struct answer answer = { .data = data, .from = from };
	struct slbn_packet *pkt = &answer.pkt;
	const struct slbn_layout *layout = &answer.layout;
	const struct slbn_key *key;
	u8 hop;

	if (slbn_parse_packet(data, length, pkt, &answer.layout) !=
		    SLBN_PARSE_OK ||
	    !transport_is_family(layout, from)) {
		agent->counters.malformed++;
		return;
	}
	agent->counters.received++;
	if (!transport_authentic(transport, data, layout, from, &key))
		return;
	if (slbn_destination_reply(pkt)) {
		slbn_wire_clear_slots(data, layout, pkt);
		slbn_update_packet(data, pkt);
		transport_reply(transport, data, layout, pkt->hop, key, from);
		return;
	}
	if (!transport_is_answer(transport, data, layout, pkt->hop, from))
		return;
	for (hop = 0; hop < pkt->slots; hop++)
		answer.slot[hop] = slbn_get_slot(data, layout, hop);
	handle_answer(agent, &answer, now);
}
