/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The simulation of a network: sessions join and leave, control packets travel
 * along their paths and back, links run an algorithm, and sources send at the
 * rates that it assigns.
 *
 * Time is in whole nanoseconds. A link transmits one packet after another, each
 * in its bits over the link's rate, and the packet arrives a link's delay
 * later; so a queue's state is the time when its last packet will have been
 * sent. Queues are unlimited, and drop nothing.
 *
 * Control packets are lost if an option says so: at random on each link, or all
 * on a link that is cut. A source whose packet is lost retransmits it after a
 * timeout like slbnd's; unlike slbnd it is never too early, since a simulator
 * knows what is lost.
 *
 * Data is simulated as packets, each of which is an event at each link, or as a
 * fluid: a link's input is the sum of the rates of its sessions, and a change of
 * a rate travels down the path, behind what is queued. A fluid costs an event
 * for each change instead of each packet, and differs in that a link with a
 * queue passes on its input, not its output.
 *
 * An algorithm is a struct algorithm, in a file of its own. It has private
 * memory at each link, at each source and in each packet, and is called where
 * the papers have tasks: when a link processes a packet, downstream and
 * upstream; at the destination; at the source.
 *
 * Downstream is from the source to the destination. Upstream, a packet is
 * processed by the same links as downstream, when it arrives at their other end:
 * that is where the kernel's sch_slbn sees it, too.
 */
#ifndef SLBNSIM_SIM_H
#define SLBNSIM_SIM_H

#include <signal.h>

#include "net.h"
#include "wheel.h"

struct sim;

/**
 * struct link_state - the state of a link
 * @free_at: when its queue will be empty, ns
 * @max_wait: the longest that a packet or fluid had to wait, ns
 * @control: bytes of control packets, downstream and upstream
 * @load: the number of its struct link_load
 *
 * With struct link this is all that a packet needs to cross a link. The rest of
 * a link's state is elsewhere: the smaller this is, the more links fit in the
 * caches.
 */
struct link_state {
	u64 free_at;
	u64 max_wait;
	u64 control;
	u32 load;
};

/**
 * struct link_load - a link's sessions; the algorithm's private memory follows
 * @assigned: sum of the rates of the sessions that cross it, bit/s
 * @max_assigned: the largest that it has been, bit/s
 *
 * Half of a network's links lead from a host that is only a destination, or to
 * one that is only a source: only control packets that return use them, and
 * algorithms do not process these there. All links that no path crosses share
 * one load, whose contents do not matter.
 */
struct link_load {
	u64 assigned;
	u64 max_assigned;
};

/**
 * struct traffic - a link's data
 * @packets: bytes of data packets
 * @fluid: the input rate, bit/s
 * @max_fluid: the largest that it has been, bit/s
 * @pool: queued fluid at @fluid_at, bits
 * @fluid_in: fluid that has arrived until @fluid_at, bits
 * @fluid_at: ns
 */
struct traffic {
	u64 packets;
	double fluid;
	double max_fluid;
	double pool;
	double fluid_in;
	u64 fluid_at;
};

enum stage {
	STAGE_NOT_JOINED,
	STAGE_WAITING, /* for the answer to its packet */
	STAGE_PAUSE, /* until its next packet */
	STAGE_LOST, /* its packet is lost; until the timeout */
	STAGE_GONE, /* it has left, or crashed */
};

/**
 * struct source - a session's source; the algorithm's private memory follows
 * @rate: the assigned rate, bit/s; 0 without one
 * @plan: the rate that it is about to get, by which the next pause is computed
 *	if it is larger; set by the algorithm, bit/s
 * @due: when the next packet is sent, in a pause or after a loss, ns
 * @sent_at: when the latest packet was sent, ns
 * @stage: enum stage
 * @leaving: it has no more data
 * @has_rate: a rate was assigned
 * @urgent: set by the algorithm: send the next packet nearly at once
 * @tries: retransmissions of its packet
 * @rtt: the latest round-trip time, us; 0: unknown
 */
struct source {
	u64 rate;
	u64 plan;
	u64 due;
	u64 sent_at;
	u8 stage;
	bool leaving : 1;
	bool has_rate : 1;
	bool urgent : 1;
	u8 tries;
	u32 rtt;
};

/**
 * struct data_source - a session's data
 * @to_send: bytes; ~0: unlimited
 * @due: when the next packet is sent, or all fluid will have been sent, ns
 * @sent: when the latest packet was sent, or the fluid changed, ns
 * @arrived: at the destination, bytes
 * @complete: when all had arrived, ns; 0: not yet
 */
struct data_source {
	u64 to_send;
	u64 due;
	u64 sent;
	u64 arrived;
	u64 complete;
};

/**
 * struct packet - a control packet; the algorithm's private memory follows
 * @session: its session
 * @path: where its path begins in net->hops
 * @bytes: its length on the wire
 * @hop: links passed downstream, or still to be passed upstream
 * @hops: links of its path
 * @up: it is on its way upstream
 * @lost: set by the algorithm if the link drops it
 */
struct packet {
	u32 session;
	u32 path;
	u32 bytes;
	u8 hop;
	u8 hops;
	bool up;
	bool lost;
};

/**
 * struct algorithm - an algorithm that assigns rates
 * @name: as in --algorithm
 * @about: a line about it
 * @link_memory: private bytes at each link
 * @source_memory: private bytes at each source
 * @packet_memory: private bytes in each packet, for a path of so many links
 * @packet_bytes: the length of such a packet on the wire
 * @link_init: initialise a link, again for each link that no path crosses; may
 *	be NULL
 * @link_end: free a link's memory; may be NULL
 * @join: make a session's first packet
 * @move: make a session's packet on another path from the packet of the session
 *	that it continues; NULL: it joins anew
 * @transmit: a source is about to send its packet, again if source->tries is
 *	not 0; may be NULL
 * @down: a packet has come to a link downstream, or with @at_dequeue has left its
 *	queue
 * @at_destination: turn a packet around
 * @up: a packet has returned over that link
 * @at_source: process an answer: assign a rate by sim_set_rate() and make the
 *	next packet of it, the last one if source->leaving
 *	Return: whether there is a next packet
 * @expire: the source's timer, which sim_set_timer() has set, has expired; may
 *	be NULL
 * @min_interval: the least time between a source's packets, ns
 * @epoch: of its ledgers unless --epoch sets it, ns; 0: it has no epochs
 * @plan: what a link hands out at present, bit/s; NULL: it takes no weights of
 *	sessions and no --headroom into account
 * @drops: links drop packets of sessions that they do not count
 * @needs_data: links measure data, so --data is required
 * @piggybacks: data packets carry its fields, so that --control does not bound
 *	them
 * @at_dequeue: links process packets when they leave their queue
 * @initial_rate: of links, as a part of their rate, unless --initial-rate sets
 *	it, 1/1000; 0: they have none
 * @target_delay: of queues, unless --target-delay sets it, ns; 0: they have none
 * @decay: the part of averages that remains in an interval, unless --decay sets
 *	it, 1/1000; 0: they have none
 * @timer: called for each link at each @timer_interval; may be NULL
 * @timer_interval: ns
 * @has_rounds: --round sets @timer_interval
 */
struct algorithm {
	const char *name;
	const char *about;
	size_t link_memory;
	size_t source_memory;
	size_t (*packet_memory)(u32 hops);
	u32 (*packet_bytes)(u32 hops);
	void (*link_init)(struct sim *sim, u32 link);
	void (*link_end)(struct sim *sim, u32 link);
	void (*join)(struct sim *sim, struct packet *packet);
	void (*move)(struct sim *sim, struct packet *packet,
		     const struct packet *was);
	void (*transmit)(struct sim *sim, struct packet *packet);
	void (*down)(struct sim *sim, struct packet *packet, u32 link);
	void (*at_destination)(struct sim *sim, struct packet *packet);
	void (*up)(struct sim *sim, struct packet *packet, u32 link);
	bool (*at_source)(struct sim *sim, struct packet *packet);
	void (*expire)(struct sim *sim, u32 session);
	u64 min_interval;
	u64 epoch;
	u64 (*plan)(struct sim *sim, u32 link);
	bool drops;
	bool needs_data;
	bool piggybacks;
	bool at_dequeue;
	u32 initial_rate;
	u64 target_delay;
	u32 decay;
	void (*timer)(struct sim *sim, u32 link);
	u64 timer_interval;
	bool has_rounds;
};

/**
 * struct sim_options - the options of a run
 * @algorithm: what links and sources run
 * @seed: of all random numbers
 * @until: the end, ns
 * @pause: mean of the random pause between a source's cycles, ns
 * @control_share: the largest part of a session's rate that its control packets
 *	may take, 1/1000000; 0: unlimited
 * @headroom: the part of a link's rate that is not shared, 1/1000
 * @headroom_auto: instead, what its control packets take and a rest
 * @data_bytes: size of data packets; 0: none
 * @fluid: data is a fluid
 * @round: of algorithms that have rounds, ns; 0: their default
 * @initial_rate: of algorithms that have one, 1/1000 of a link's rate
 * @target_delay: of algorithms that have one, ns
 * @decay: of algorithms that have averages, 1/1000
 * @epoch: time between rotations of ledgers, ns; 0: never rotate
 * @loss: probability that a link loses a control packet, 1/1000000
 * @cut: 1 + the link that fails, with its reverse; 0: none
 * @cut_at: when, ns
 * @memory: entries in the memory of an slbn link, if packets may be lost
 */
struct sim_options {
	const struct algorithm *algorithm;
	u64 seed;
	u64 until;
	u64 pause;
	u32 control_share;
	u32 headroom;
	bool headroom_auto;
	u32 data_bytes;
	bool fluid;
	u64 round;
	u32 initial_rate;
	u64 target_delay;
	u32 decay;
	u64 epoch;
	u32 loss;
	u32 cut;
	u64 cut_at;
	u32 memory;
};

/**
 * struct sim_counts - what happened
 * @events: all
 * @control: control packets, at each link
 * @data: data packets at each link, or changes of fluid
 * @sent: control packets that sources sent
 * @retransmitted: of these, retransmissions
 * @lost: control packets that were lost, or whose source has crashed
 * @cycles: answers that arrived at sources
 * @changes: of assigned rates
 * @last_change: when the latest was, ns
 */
struct sim_counts {
	u64 events;
	u64 control;
	u64 data;
	u64 sent;
	u64 retransmitted;
	u64 lost;
	u64 cycles;
	u64 changes;
	u64 last_change;
};

/* A change of a session's fluid that travels down its path. */
struct front {
	u32 session;
	u32 next; /* in the list of free fronts */
	u8 hop; /* the next link */
	double change; /* bit/s */
};

/**
 * struct sim - a run
 * @net: the network
 * @options: of the run
 * @counts: what has happened
 * @wheel: pending events
 * @now: ns
 * @random: the state of the random numbers
 * @link_states: by link
 * @loads: struct link_load; the first is that of links that no path crosses
 * @sources: struct source, by session
 * @packets: struct packet, by session
 * @sent_packets: packets as sources sent them, by session; NULL without losses
 * @crossing: sessions, by link; during link_init() only
 * @traffic: by link; NULL without data
 * @data_sources: by session; NULL without data
 * @longest_path: links of the longest path
 * @load_size: bytes of each load, with the algorithm's memory
 * @source_size: bytes of each source
 * @packet_size: bytes of each packet
 * @fronts: of changes of fluid
 * @front_count: fronts in use or free
 * @front_room: fronts allocated
 * @front_free: the first free front, or NET_NONE
 * @joins: sessions in the order in which they join
 * @leaves: sessions in the order in which they leave
 * @targets: by session, a rate to wait for, bit/s; NULL: none
 * @reached: by session, when its rate first was that or more, ns; 0: not yet
 * @next_join: index in @joins
 * @next_leave: index in @leaves
 * @stop: not 0: return from sim_run() early; NULL: never
 */
struct sim {
	const struct net *net;
	struct sim_options options;
	struct sim_counts counts;
	struct wheel wheel;
	u64 now;
	u64 random;
	struct link_state *link_states;
	char *loads;
	char *sources;
	char *packets;
	char *sent_packets;
	u32 *crossing;
	struct traffic *traffic;
	struct data_source *data_sources;
	u32 longest_path;
	size_t load_size;
	size_t source_size;
	size_t packet_size;
	struct front *fronts;
	u32 front_count;
	u32 front_room;
	u32 front_free;
	u32 *joins;
	u32 *leaves;
	double *targets;
	u64 *reached;
	u32 next_join;
	u32 next_leave;
	const volatile sig_atomic_t *stop;
};

static inline const struct link *sim_link(const struct sim *sim, u32 link)
{
	return &sim->net->links[link];
}

static inline struct link_state *sim_link_state(const struct sim *sim, u32 link)
{
	return &sim->link_states[link];
}

static inline struct link_load *sim_link_load(const struct sim *sim, u32 link)
{
	size_t at = sim->link_states[link].load * sim->load_size;

	return (struct link_load *)(sim->loads + at);
}

static inline struct source *sim_source(const struct sim *sim, u32 session)
{
	return (struct source *)(sim->sources + session * sim->source_size);
}

static inline struct packet *sim_packet(const struct sim *sim, u32 number)
{
	return (struct packet *)(sim->packets + number * sim->packet_size);
}

/* The algorithm's private memory behind a load, a source or a packet. */
#define SIM_PRIV(thing) ((void *)((thing) + 1))

/* The algorithm's private memory at a link. */
/* Whether sessions cross a link; all others share one struct link_load. */
static inline bool sim_is_crossed(const struct sim *sim, u32 link)
{
	return sim->link_states[link].load;
}

static inline void *sim_link_priv(const struct sim *sim, u32 link)
{
	return SIM_PRIV(sim_link_load(sim, link));
}

void sim_init(struct sim *sim, const struct net *net,
	      const struct sim_options *options);
void sim_run(struct sim *sim, u64 until);
void sim_set_rate(struct sim *sim, u32 session, u64 rate);
void sim_set_timer(struct sim *sim, u32 session, u64 time);
double sim_arrived_bits(struct sim *sim, u32 link);
double sim_data_bits(struct sim *sim, u32 link);
double sim_queued_bits(struct sim *sim, u32 link);
u64 sim_sent_bytes(const struct sim *sim, u32 session);
void sim_free(struct sim *sim);

/* May control packets be lost? */
static inline bool sim_is_lossy(const struct sim *sim)
{
	return sim->options.loss || sim->options.cut;
}

/* A session's demand, bit/s. */
static inline u64 sim_demand(const struct sim *sim, u32 session)
{
	return sim->net->sessions[session].demand;
}

/*
 * The next link of a packet, downstream; upstream, the one that it passed last.
 */
static inline u32 sim_link_at(const struct sim *sim,
			      const struct packet *packet, u8 hop)
{
	return sim->net->hops[packet->path + hop];
}

/* Time since its latest packet was sent, ns: the RTT when the answer arrives. */
static inline u64 sim_since_sent(const struct sim *sim, u32 session)
{
	return sim->now - sim_source(sim, session)->sent_at;
}

/* Is the session present, and has it data left to send? */
static inline bool sim_is_present(const struct sim *sim, u32 session)
{
	const struct session *plan = &sim->net->sessions[session];

	return plan->join <= sim->now && plan->leave > sim->now &&
	       !sim_source(sim, session)->leaving;
}

extern const struct algorithm slbn_algorithm, slbn_1_algorithm;
extern const struct algorithm slbn_paper_algorithm;
extern const struct algorithm bfyz_algorithm, sperc_algorithm;
extern const struct algorithm erica_algorithm, cobb_algorithm;
extern const struct algorithm rcp_algorithm, piqi_rcp_algorithm, xcp_algorithm;

#endif /* SLBNSIM_SIM_H */
