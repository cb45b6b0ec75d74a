// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: agent.h says what this is.
 *
 * All times of a session are one time in the heap: when its packet is to be sent,
 * for the first time or again. A session's number at slbnd (struct slbn_session's
 * id) is the second half of its SLBN id, which holds its place in the table and
 * random bits, so that a number is not used again soon; the first half is random.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent.h"

#define MS 1000000ULL

/* Before the first answer nothing is known of the path. */
#define FIRST_TIMEOUT (200 * MS)
#define SHORTEST_TIMEOUT (20 * MS)
/* What was sent so often without an answer will not be answered soon. */
#define PATIENCE_TRIES 20
#define PATIENT_TIMEOUT (1000 * MS)
#define LEAVE_TRIES 10
#define STALLED (2000 * MS)
/* What divisions leave over moves rates by some bit/s all the time. */
#define REMAINDER 64
#define FIRST_ROOM 64U

static u64 some_random(void)
{
	static u64 pool[32];
	static u32 left;

	if (!left) {
		/* Fails only where there is no such system call. */
		if (getrandom(pool, sizeof(pool), 0) != sizeof(pool))
			abort();
		left = sizeof(pool) / sizeof(*pool);
	}
	return pool[--left];
}

/* Twice the room for sessions. Returns whether there was memory for it. */
static bool grow(struct agent *agent)
{
	u32 room = agent->room ? 2 * agent->room : FIRST_ROOM;
	struct session **sessions;
	struct fp_heap due;
	void *memory;
	u32 n;

	sessions = reallocarray(agent->sessions, room, sizeof(*sessions));
	if (!sessions)
		return false;
	agent->sessions = sessions;
	memory = aligned_alloc(64, fp_heap_size(room));
	if (!memory)
		return false;
	fp_heap_init(&due, memory, room);
	for (n = 0; n < agent->due.count; n++)
		fp_heap_set(&due, agent->due.nodes[n].item,
			    agent->due.nodes[n].key);
	free(agent->due_memory);
	agent->due_memory = memory;
	agent->due = due;
	agent->room = room;
	return true;
}

/* A place for a session; its number is set, the rest is as it was. */
static struct session *take_place(struct agent *agent)
{
	struct session *session;

	if (agent->unused >= 0) {
		session = agent->sessions[agent->unused];
		agent->unused = session->unused;
		return session;
	}
	if (agent->places == agent->room && !grow(agent))
		return NULL;
	session = calloc(1, sizeof(*session));
	if (!session)
		return NULL;
	session->number = agent->places;
	agent->sessions[agent->places++] = session;
	return session;
}

static void give_back(struct agent *agent, struct session *session)
{
	fp_heap_remove(&agent->due, session->number);
	session->used = false;
	session->unused = agent->unused;
	agent->unused = session->number;
	agent->count--;
}

/**
 * agent_init() - an agent without sessions
 * @agent: all of it is set
 * @config: what the user chooses
 * @events: who is told
 * @transport: where packets go
 */
void agent_init(struct agent *agent, const struct agent_config *config,
		const struct agent_events *events, struct transport *transport)
{
	*agent = (struct agent){
		.config = *config,
		.events = events,
		.transport = transport,
		.unused = -1,
	};
}

/**
 * agent_free() - forget all sessions; nobody is told
 * @agent: the agent
 */
void agent_free(struct agent *agent)
{
	u32 n;

	for (n = 0; n < agent->places; n++)
		free(agent->sessions[n]);
	free(agent->sessions);
	free(agent->due_memory);
}

/**
 * agent_find() - the session of a number
 * @agent: the agent
 * @id: as in struct slbn_session
 *
 * Return: the session, or NULL.
 */
struct session *agent_find(const struct agent *agent, u64 id)
{
	u32 number = (u32)id;
	struct session *session;

	if (number >= agent->places)
		return NULL;
	session = agent->sessions[number];
	return session->used && session->source.pkt.id[1] == id ? session :
								  NULL;
}

/**
 * agent_describe() - a session as others are told of it
 * @session: the session
 * @to: all of it is set
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
		.rtt = session->rtt,
		.flow = session->flow,
		.flags = session->flags,
		.hops = session->hops,
		.bottleneck = source->pkt.bottleneck,
		.used = session->use.used,
		.device = session->device,
	};
	if (source->leaving)
		to->flags |= SLBN_LEAVING;
	if (session->use.look)
		to->flags |= SLBN_MEASURED;
}

static void set_due(struct agent *agent, const struct session *session, u64 due)
{
	fp_heap_set(&agent->due, session->number, ~due);
}

/*
 * When to send a packet again. Links expect to hear of a session in each epoch,
 * and each may lose the packet: so rather early, but not before an answer can be
 * there.
 */
static u64 timeout_of(const struct agent *agent, const struct session *session)
{
	u64 timeout = session->rtt ? 3 * session->rtt : FIRST_TIMEOUT;

	if (session->tries > PATIENCE_TRIES)
		return PATIENT_TIMEOUT;
	timeout = fp_min64(timeout, agent->config.epoch / 5);
	timeout = fp_max64(timeout, session->rtt + session->rtt / 2);
	return fp_max64(timeout, SHORTEST_TIMEOUT);
}

/* The pause before the next cycle: random, half to one and a half of what is due. */
static u64 pause_of(const struct agent *agent, const struct session *session)
{
	u64 bits = 8ULL * transport_length(agent->transport, &session->flow,
					   &session->source.pkt);
	u64 rate = fp_max64(session->source.rate, 1);
	u64 pause = bits * 1000000000000ULL / agent->config.control / rate;

	/* The way there and back is a part of the interval. */
	pause -= fp_min64(pause, session->rtt);
	pause = fp_min64(pause, agent->config.epoch / 4);
	pause = fp_max64(pause, agent->config.pause);
	return pause / 2 + some_random() % pause;
}

static void send_packet(struct agent *agent, struct session *session, u64 now)
{
	session->tries++;
	transport_send(agent->transport, &session->flow, &session->source.pkt,
		       session->source.tags);
	set_due(agent, session, now + timeout_of(agent, session));
}

static void send_first(struct agent *agent, struct session *session, u64 now)
{
	session->waiting = true;
	session->tries = 0;
	session->sent = now;
	send_packet(agent, session, now);
}

/**
 * agent_join() - begin a session
 * @agent: the agent
 * @flow: which packets it is about; its destination is where its packets go
 * @demand: bit/s, 1 to SLBN_RATE_MAX
 * @now: ns
 *
 * Return: the session, of nobody; NULL if there is no memory.
 */
struct session *agent_join(struct agent *agent, const struct slbn_flow *flow,
			   u64 demand, u64 now)
{
	struct session *session = take_place(agent);
	u64 id[2];

	if (!session)
		return NULL;
	id[0] = some_random();
	id[1] = some_random() << 32 | session->number;
	*session = (struct session){
		.number = session->number,
		.used = true,
		.flow = *flow,
		.heard = now,
	};
	slbn_source_join(&session->source, id, demand, agent->config.hops);
	agent->count++;
	send_first(agent, session, now);
	return session;
}

/**
 * agent_change() - ask for another rate
 * @agent: the agent
 * @session: the session
 * @demand: bit/s, 1 to SLBN_RATE_MAX
 * @now: ns
 *
 * In the cycle after the next; that one begins at once if none is running.
 */
void agent_change(struct agent *agent, struct session *session, u64 demand,
		  u64 now)
{
	slbn_source_change(&session->source, demand);
	if (!session->waiting)
		set_due(agent, session, now);
}

/**
 * agent_leave() - end a session
 * @agent: the agent
 * @session: the session; gone() tells when it is over
 * @now: ns
 *
 * The network is told after the running cycle.
 */
void agent_leave(struct agent *agent, struct session *session, u64 now)
{
	if (session->source.leaving)
		return;
	slbn_source_leave(&session->source);
	if (!session->waiting)
		set_due(agent, session, now);
}

/**
 * agent_due() - when agent_run() has something to do
 * @agent: the agent
 *
 * Return: ns; ~0: never.
 */
u64 agent_due(const struct agent *agent)
{
	return agent->due.count ? ~agent->due.nodes[0].key : ~0ULL;
}

static void over(struct agent *agent, struct session *session)
{
	agent->events->gone(agent, session);
	give_back(agent, session);
}

/* Its time has come: the next packet, or the same once more. */
static void go_on(struct agent *agent, struct session *session, u64 now)
{
	if (!session->waiting) {
		send_first(agent, session, now);
		return;
	}
	if (session->source.leaving && session->tries >= LEAVE_TRIES) {
		/* Its ledgers will tell the links. */
		over(agent, session);
		return;
	}
	session->retries++;
	if (!(session->flags & SLBN_STALLED) &&
	    now - session->heard > STALLED) {
		session->flags |= SLBN_STALLED;
		agent->events->moved(agent, session);
	}
	send_packet(agent, session, now);
}

/**
 * agent_run() - do what is due
 * @agent: the agent
 * @now: ns
 *
 * Some of the packets may still be in the wire's hands: transport_flush().
 */
void agent_run(struct agent *agent, u64 now)
{
	while (agent_due(agent) <= now)
		go_on(agent, agent->sessions[fp_heap_top(&agent->due)], now);
}

static void measure(struct session *session, u64 now)
{
	u64 rtt = now - session->sent;

	session->heard = now;
	/* Of one that was sent again nobody knows which copy was answered. */
	if (session->tries == 1)
		session->rtt = session->rtt ? (7 * session->rtt + rtt) / 8 :
					      fp_max64(rtt, 1);
}

static bool worth_telling(const struct session *session)
{
	u64 rate = session->source.rate;
	u64 moved = rate > session->told ? rate - session->told :
					   session->told - rate;

	return !session->told || session->flags & SLBN_STALLED ||
	       moved > fp_max64(REMAINDER, rate >> 16);
}

static void answered(struct agent *agent, const struct slbn_packet *ack,
		     const u16 *tags, u32 device, u64 now)
{
	struct session *session = agent_find(agent, ack->id[1]);
	enum slbn_source_event event;

	if (!session || !session->waiting) {
		agent->strays++;
		return;
	}
	event = slbn_source_ack(&session->source, ack, tags);
	if (event == SLBN_ACK_IGNORED) {
		agent->strays++;
		return;
	}
	agent->answers++;
	measure(session, now);
	if (event == SLBN_SESSION_OVER) {
		over(agent, session);
		return;
	}
	session->cycles++;
	session->device = device;
	for (session->hops = 0; session->hops < ack->slots; session->hops++)
		if (tags[session->hops] == SLBN_NO_TAG)
			break;
	if (session->source.leaving) {
		send_first(agent, session, now);
		return;
	}
	session->waiting = false;
	set_due(agent, session, now + pause_of(agent, session));
	if (worth_telling(session)) {
		session->told = session->source.rate;
		session->flags &= ~SLBN_STALLED;
		agent->events->moved(agent, session);
	}
}

/**
 * agent_receive() - a packet has come
 * @agent: the agent
 * @data: the packet
 * @length: octets of it
 * @from: where it came from
 * @now: ns
 *
 * An answer goes to its session. One that goes down has come to its destination,
 * which turns it round.
 */
void agent_receive(struct agent *agent, u8 *data, size_t length,
		   const struct transport_peer *from, u64 now)
{
	struct slbn_layout layout;
	struct slbn_packet pkt;
	u16 tags[SLBN_HOPS_MAX];
	u8 hop;

	if (slbn_parse_packet(data, length, &pkt, &layout) != SLBN_PARSE_OK ||
	    !transport_authentic(agent->transport, data, &layout)) {
		agent->strays++;
		return;
	}
	if (slbn_destination_reply(&pkt)) {
		agent->turned++;
		slbn_update_packet(data, &pkt);
		transport_return(agent->transport, data, &layout, from);
		return;
	}
	for (hop = 0; hop < pkt.slots; hop++)
		tags[hop] = slbn_get_tag(data, hop);
	answered(agent, &pkt, tags, from->device, now);
}
