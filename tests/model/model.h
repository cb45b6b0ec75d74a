/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of SLBN: networks of a few links and sessions, their state, and the
 * steps that change it. Links, sources and destinations run slbn_core.h.
 *
 * Time is abstract: any step may follow any other, except those that the timing
 * assumptions of the protocol exclude:
 *
 * - A session has at most one packet in the network: a source retransmits only
 *   after a loss. Where a configuration allows it, there may be a second one: a
 *   duplicate, or a packet that was retransmitted too early, of this cycle or an
 *   older one. It arrives at any time, or never.
 * - What a link wrote at time t stays in its ledgers until t + T, and a lease
 *   ends T after the first transmission of the packet. So a ledger that counts
 *   a live session is dropped only after the lease of the cycle in which it was
 *   written has ended, and a link is quiet until the leases that were granted
 *   before its restart have ended.
 * - Control packets and data of a session take the same time to a link, which is
 *   constant or grows by less than the margin of leases. So data arrives in the
 *   order in which it was sent relative to the packets; and what was sent before a
 *   lease ended arrives before a ledger is dropped for that reason, unless the
 *   configuration has .late_data.
 *
 * Returns are not modeled: no rule of the core reads them, they only decide where
 * a reply is delivered. A reply that arrives at the right link is a step of the
 * model, any other is dropped, which is a loss. That replies are processed by the
 * links of their packets only, in opposite order and once each, is tested with
 * sch_slbn itself: test_slbn_routes.py and test_slbnd_routes.py in tests/kernel
 * (other routes, ECMP, tunnels, forged returns), and fuzz_wire.c for the octets.
 *
 * Data is not modeled packet by packet: `data` is the largest rate at which a
 * session's data arrives at a link now or will arrive, as far as it has been
 * sent.
 */
#ifndef MODEL_H
#define MODEL_H

#include <fairpath/slbn/slbn_core.h>

#define LINKS 3
#define SESSIONS 3
#define HOPS 3

/* No limit, as a demand or as what is granted; SLBN_RATE_MAX in packets. */
#define UNLIMITED 0xffff

/**
 * enum memory - the memory of the links
 * @NO_MEMORY: none
 * @FULL_MEMORY: an entry for each session
 * @EVICTING_MEMORY: entries may be lost at any time
 */
enum memory {
	NO_MEMORY,
	FULL_MEMORY,
	EVICTING_MEMORY,
};

/**
 * struct link_config - a link
 * @C: capacity, bit/s
 * @headroom: capacity that the plan does not hand out, bit/s
 * @C2: another capacity, to which it may change, bit/s
 * @keeps: it has T 0: it never rotates
 */
struct link_config {
	u16 C;
	u16 headroom;
	u16 C2;
	bool keeps;
};

/**
 * struct session_config - a session
 * @path: its links, the last one followed by -1
 * @demands: its demand and another to which it may change, or 0, bit/s
 * @weight: weight
 * @stays: it does not leave
 */
struct session_config {
	int path[HOPS + 1];
	u16 demands[2];
	u16 weight;
	bool stays;
};

/**
 * struct config - a network, what may happen in it, and how often
 * @name: name
 * @all: only for the long run
 * @violates: an assumption is false: the invariant that is violated
 * @links: links, up to one with C 0
 * @sessions: sessions, up to one with weight 0
 * @memory: memory of the links
 * @rotations: rotations of links; if any, rates have leases
 * @losses: packets that are lost
 * @changes: changes of demands
 * @deaths: sessions that end without a Leave
 * @restarts: restarts of links
 * @expiries: leases that end
 * @capacities: changes of the capacity of links
 * @duplicates: packets that are duplicated
 * @early: retransmissions without a loss
 * @late_data: data of a lease that has ended may arrive when a ledger is dropped
 * @settle: check of every settle-th state that rates become exact; 0: of none
 */
struct config {
	const char *name;
	bool all;
	const char *violates;
	struct link_config links[LINKS + 1];
	struct session_config sessions[SESSIONS + 1];
	enum memory memory;
	u8 rotations;
	u8 losses;
	u8 changes;
	u8 deaths;
	u8 restarts;
	u8 expiries;
	u8 capacities;
	u8 duplicates;
	u8 early;
	bool late_data;
	u16 settle;
};

/* Tags, relative to the ledgers of the link. */
enum tag {
	NO_TAG,
	CURRENT,
	PREVIOUS,
	UNKNOWN,
};

enum phase {
	NEW,
	IDLE, /* between two cycles */
	SENT, /* in a cycle */
	OVER, /* has left */
	DEAD, /* ended without a Leave */
};

/**
 * struct hop - a session at one link of its path
 * @code: code in the source's packet
 * @flight_code: code in the packet in flight
 * @entry_rate: rate in the memory
 * @entry_held: held in the memory
 * @held: what the link holds for the session, by what it wrote last
 * @data: upper bound of the rate at which the session's data arrives
 * @tag: tag in the source's packet
 * @flight_tag: tag in the packet in flight
 * @entry: the memory has an entry; 2: of the current cycle
 * @entry_tag: tag in the memory
 * @entry_in_R: in R, in the memory
 * @entry_origin: enum slbn_origin, in the memory
 * @counted: ledger to which @held was added; UNKNOWN: lost by a restart
 * @excess: @held was written for a rate that had ended
 * @this_cycle: @held was written in the current cycle
 * @old_cycles: the link has restarted since the last (bit 0), current (bit 1)
 *	cycle began
 */
struct hop {
	u16 code;
	u16 flight_code;
	u16 entry_rate;
	u16 entry_held;
	u16 held;
	u16 data;
	u8 tag;
	u8 flight_tag;
	u8 entry;
	u8 entry_tag;
	u8 entry_in_R;
	u8 entry_origin;
	u8 counted;
	u8 excess;
	u8 this_cycle;
	u8 old_cycles;
};

/**
 * struct copy - another packet of a session in the network, as in struct session
 * @type: 0: none
 * @old: its cycle is over: 1 the last one, 2 one before
 */
struct copy {
	u16 bw2;
	u16 bw1;
	u16 use1;
	u16 use;
	u16 bw;
	u16 g;
	u16 behind;
	u16 code[HOPS];
	u8 tag[HOPS];
	u8 type;
	u8 again;
	u8 hop;
	u8 B;
	u8 bottleneck;
	u8 epoch;
	u8 early;
	u8 old;
};

/**
 * struct session - a session: source, packet in flight, and hops
 * @D: demand
 * @rate: rate in use
 * @bw2: bw2 of the packet
 * @bw1: bw1 of the packet
 * @bw: bw of the source's packet
 * @use1: use1 of the packet
 * @use: use of the packet
 * @flight_bw: bw of the packet in flight
 * @g: g of the packet in flight
 * @behind: largest rate of the data sent after the packet in flight
 * @phase: enum phase
 * @leaving: the source leaves
 * @tries: the packet was transmitted
 * @leased: the rate has a lease
 * @expired: 1: the lease of the last cycle has ended; 2: that of the current
 *	cycle, too
 * @type: type of the source's packet
 * @B: B of the source's packet
 * @bottleneck: bottleneck of the source's packet
 * @flight: type of the packet in flight; 0: none
 * @again: it is a retransmission
 * @flight_hop: its hop
 * @flight_B: its B
 * @flight_bottleneck: its bottleneck
 * @flight_epoch: it has passed a link with an epoch on its way back
 * @early: it was transmitted before the lease of the last cycle ended
 * @old: see struct copy; 0 but while a copy is processed
 * @hops: one for each link of the path
 * @copy: a second packet
 */
struct session {
	u16 D;
	u16 rate;
	u16 bw2;
	u16 bw1;
	u16 bw;
	u16 use1;
	u16 use;
	u16 flight_bw;
	u16 g;
	u16 behind;
	u8 phase;
	u8 leaving;
	u8 tries;
	u8 leased;
	u8 expired;
	u8 type;
	u8 B;
	u8 bottleneck;
	u8 flight;
	u8 again;
	u8 flight_hop;
	u8 flight_B;
	u8 flight_bottleneck;
	u8 flight_epoch;
	u8 early;
	u8 old;
	struct hop hops[HOPS];
	struct copy copy;
};

struct ledger {
	u16 BF;
	u16 NR;
	u16 N;
	u16 A;
};

/**
 * struct link - state of a link
 * @cur: current ledger
 * @prev: previous ledger
 * @limit: what may be in use: the capacity, or less than before it fell
 * @quiet: it grants no rises
 * @changed: the capacity is C2
 */
struct link {
	struct ledger cur;
	struct ledger prev;
	u16 limit;
	u8 quiet;
	u8 changed;
};

/**
 * struct state - state of the network; has no padding
 * @links: links
 * @losses: losses that may yet happen
 * @changes: changes of demands that may yet happen
 * @deaths: deaths that may yet happen
 * @restarts: restarts that may yet happen
 * @expiries: leases that may yet end
 * @rotations: rotations that may yet happen
 * @capacities: changes of capacities that may yet happen
 * @duplicates: duplicates that may yet be made
 * @early: retransmissions without a loss that may yet happen
 * @sessions: sessions
 */
struct state {
	struct link links[LINKS];
	u8 losses;
	u8 changes;
	u8 deaths;
	u8 restarts;
	u8 expiries;
	u8 rotations;
	u8 capacities;
	u8 duplicates;
	u8 early;
	struct session sessions[SESSIONS];
};

/* Steps, of a session or of a link. */
enum step {
	JOIN,
	SEND,
	DELIVER,
	DELIVER_EVICTED,
	LOSE,
	RETRANSMIT,
	RETRANSMIT_EARLY,
	DUPLICATE,
	DELIVER_COPY,
	CHANGE,
	LEAVE,
	DIE,
	EXPIRE,
	EXPIRE_CYCLE,
	ROTATE,
	RESTART,
	END_QUIET,
	CHANGE_CAPACITY,
	STEPS,
};

/**
 * struct model - the network that is explored
 * @config: its configuration
 * @links: number of links
 * @sessions: number of sessions
 * @hops: number of links on the path of each session
 * @hop_at: hop of each session at each link, or -1
 * @like: this session differs from the one before in nothing but its state
 * @clamped: subtractions that were clamped to 0 in the last step
 * @overuse: packets that were dropped as overuse in the last step
 */
struct model {
	const struct config *config;
	int links;
	int sessions;
	int hops[SESSIONS];
	int hop_at[SESSIONS][LINKS];
	bool like[SESSIONS];
	u64 clamped;
	u64 overuse;
};

/* Whether sessions may have a second packet in the network. */
static inline bool model_has_copies(const struct config *config)
{
	return config->duplicates || config->early;
}

static inline u16 model_capacity(const struct model *m, const struct state *st,
				 int link)
{
	const struct link_config *config = &m->config->links[link];

	return st->links[link].changed ? config->C2 : config->C;
}

void model_init(struct model *m, const struct config *config, struct state *st);

/* Take a step of the session or link @at; false if it cannot happen. */
bool model_step(struct model *m, struct state *st, enum step step, int at);

/**
 * model_violation() - check the invariants
 * @m: model, after model_step()
 * @st: state
 * @rates_only: check only the rates in use and of data, not what links hold
 * @text: set to a description of the violation
 * @size: octets in @text
 *
 * Return: whether an invariant is violated.
 */
bool model_violation(const struct model *m, const struct state *st,
		     bool rates_only, char *text, size_t size);

/* Check that rates become exact when nothing else happens; as above. */
bool model_does_not_settle(struct model *m, const struct state *from,
			   char *text, size_t size);

/* Describe a step, and the state after it. */
void model_print_step(const struct model *m, enum step step, const char *who);
void model_print_state(const struct model *m, const struct state *st,
		       const int *names);

#endif /* MODEL_H */
