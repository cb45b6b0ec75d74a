/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A network at work: sessions join and leave, control packets go down their
 * paths and come back, links do what an algorithm has them do, sources send at
 * the rates that come out.
 *
 * Time is in whole nanoseconds. A link sends one packet after the other, each
 * taking its bits over the link's rate, and a link's delay later it is at the
 * other end; so all that has to be known of a queue is when its last packet
 * will have been sent. Nothing is lost there, however long it grows.
 *
 * Control packets are lost if that is asked for: by chance on each link, or all
 * on a link that is cut. A source whose packet is lost sends it again, as it was,
 * after a time-out like slbnd's; never before, for a simulator knows what is lost.
 *
 * Data comes in two kinds. As packets, each of which is an event at each link; or
 * as a fluid: what flows into a link is the sum of the rates of its sessions, and
 * a change of a rate travels down the path behind what waits there. A fluid takes
 * an event for each change, not for each packet, and differs in that a link on
 * which data waits passes on what comes in, not what goes out.
 *
 * An algorithm is a struct algorithm of functions, each in a file of its own.
 * It has some memory at each link, at each source and in each packet, and is
 * called where the papers have tasks: when a packet passes a link on its way
 * down, and on its way back; at the destination; at the source.
 *
 * Down is from the source to the destination. On the way back a packet is
 * dealt with by the same links as on its way down, when it arrives there: that
 * is where the kernel's sch_slbn meets it, too.
 */
#ifndef SLBNSIM_SIM_H
#define SLBNSIM_SIM_H

#include "net.h"
#include "wheel.h"

struct sim;

/**
 * struct wire - a link at work
 * @free_at: when all that waits will have been sent, ns
 * @longest: the longest that a packet, or a drop of fluid, had to wait, ns
 * @control: bytes of control packets, in both roles
 * @load: which of the loads is its
 *
 * With struct link, this is all that a packet needs to get over a link. What else
 * there is of it is kept apart, for the more of them fit in a processor's caches,
 * the faster it is.
 */
struct wire {
	u64 free_at;
	u64 longest;
	u64 control;
	u32 load;
};

/**
 * struct load - what a link has for its sessions; the algorithm's memory follows
 * @assigned: sum of the rates of the sessions that cross it, bit/s
 * @most_assigned: the largest that this has been
 *
 * Half of a network's links lead to a host that is only a source, or away from
 * one that is only a destination: control packets come back there, and algorithms
 * have nothing to do with them. All links that no path crosses share one load,
 * and what is written there does not matter.
 */
struct load {
	u64 assigned;
	u64 most_assigned;
};

/**
 * struct stream - a link's data
 * @packets: bytes of data packets
 * @fluid: what flows in, bit/s
 * @pool: fluid that waits, bits, @fluid_at
 * @fluid_in: fluid that has come in, bits, until @fluid_at
 * @fluid_at: ns
 */
struct stream {
	u64 packets;
	double fluid;
	double pool;
	double fluid_in;
	u64 fluid_at;
};

enum stage {
	STAGE_BEFORE, /* it has not joined */
	STAGE_ASKING, /* a packet is on its way */
	STAGE_PAUSE, /* the next packet is not due yet */
	STAGE_LOST, /* the packet is lost, and not yet due again */
	STAGE_AFTER, /* it has left, and all is done; or it is dead */
};

/**
 * struct source - a session at work; the algorithm's memory follows
 * @rate: what it may send, bit/s; 0 before it is told
 * @due: when the next packet goes, in a pause, ns
 * @asked: when the latest went, ns
 * @stage: enum stage
 * @leaving: it has nothing to send any more
 * @told: it has been told a rate
 * @tries: how often its packet was sent again
 * @rtt: the latest round-trip, us; 0: it knows of none
 */
struct source {
	u64 rate;
	u64 due;
	u64 asked;
	u8 stage;
	bool leaving;
	bool told;
	u8 tries;
	u32 rtt;
};

/**
 * struct sending - a session's data
 * @to_send: bytes; ~0: no end
 * @due: when the next packet goes, or when all fluid has been sent, ns
 * @sent: when the latest went, or the fluid changed, ns
 * @arrived: at the destination, bytes
 * @complete: when all was there, ns; 0: it is not
 */
struct sending {
	u64 to_send;
	u64 due;
	u64 sent;
	u64 arrived;
	u64 complete;
};

/**
 * struct packet - a control packet; the algorithm's memory follows
 * @session: whose
 * @path: its first link, in net->hops
 * @bytes: how long it is on the wire
 * @hop: links passed on the way down, and not yet on the way back
 * @hops: links of its path
 * @up: on the way back
 * @lost: the link does not pass it on: set by the algorithm
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
 * struct algorithm - what is different about one
 * @name: as users call it
 * @about: a line about it
 * @wire_memory: bytes at each link
 * @source_memory: bytes at each source
 * @packet_memory: bytes in each packet, of a path of so many links
 * @packet_bytes: how long a packet of such a path is on the wire
 * @wire_init: a link begins, or again all that no path crosses; may be NULL
 * @wire_end: and ends; may be NULL
 * @join: a session begins, with this packet
 * @move: it goes on from the packet that it made last on another path; NULL: it
 *	begins anew
 * @down: a packet is about to be sent on a link, down
 * @turn: it is at the destination
 * @up: it has come back over that link
 * @answer: it is at the source; says the rate by sim_set_rate() and makes the
 *	next packet of it; source->leaving tells whether that shall be the last
 *	Return: whether there is a next packet
 * @cycle: least time between a source's packets, ns
 * @longest: most time, whatever part of the rate they take, ns; 0: any
 * @measures: links look at data, so there has to be some
 * @rides: data packets carry its fields, so the part of the rate that control
 *	packets may take does not bound them
 * @timer: called for each link at each interval, if there is one
 * @interval: ns
 * @rounds: it may be chosen
 */
struct algorithm {
	const char *name;
	const char *about;
	size_t wire_memory;
	size_t source_memory;
	size_t (*packet_memory)(u32 hops);
	u32 (*packet_bytes)(u32 hops);
	void (*wire_init)(struct sim *sim, u32 link);
	void (*wire_end)(struct sim *sim, u32 link);
	void (*join)(struct sim *sim, struct packet *packet);
	void (*move)(struct sim *sim, struct packet *packet,
		     const struct packet *was);
	void (*down)(struct sim *sim, struct packet *packet, u32 link);
	void (*turn)(struct sim *sim, struct packet *packet);
	void (*up)(struct sim *sim, struct packet *packet, u32 link);
	bool (*answer)(struct sim *sim, struct packet *packet);
	u64 cycle;
	u64 longest;
	bool measures;
	bool rides;
	void (*timer)(struct sim *sim, u32 link);
	u64 interval;
	bool rounds;
};

/**
 * struct sim_options - how a run is to be
 * @algorithm: what links and sources do
 * @seed: decides all that is random
 * @until: the end, ns
 * @pause: mean of the random pause between a source's cycles, ns
 * @share: most that control packets may take of a session's rate, 1/1000
 * @data_bytes: size of data packets; 0: there are none
 * @fluid: data is a fluid
 * @round: of algorithms that have rounds, ns; 0: their own
 * @loss: control packets that are lost on a link, 1/1000000
 * @cut: 1 + the link that passes nothing any more, nor does the one back
 * @cut_at: from then on, ns
 * @memory: most visits that a link remembers, if packets may be lost
 */
struct sim_options {
	const struct algorithm *algorithm;
	u64 seed;
	u64 until;
	u64 pause;
	u32 share;
	u32 data_bytes;
	bool fluid;
	u64 round;
	u32 loss;
	u32 cut;
	u64 cut_at;
	u32 memory;
};

/**
 * struct sim_counts - what happened
 * @events: all
 * @control: control packets that passed a link
 * @data: data packets that did, or changes of fluid
 * @sent: control packets that sources have sent
 * @again: of these, those that were sent again
 * @lost: control packets that were, or whose source is dead
 * @cycles: answers that came to sources
 * @changes: of rates
 * @last_change: when the latest was, ns
 */
struct sim_counts {
	u64 events;
	u64 control;
	u64 data;
	u64 sent;
	u64 again;
	u64 lost;
	u64 cycles;
	u64 changes;
	u64 last_change;
};

/* A change of a session's fluid, on its way. */
struct front {
	u32 session;
	u32 next; /* that is free, if this is */
	u8 hop; /* the link that it comes to */
	double change; /* bit/s */
};

struct sim {
	const struct net *net;
	struct sim_options options;
	struct sim_counts counts;
	struct wheel wheel;
	u64 now;
	u64 random;
	struct wire *wires;
	char *loads; /* the first is that of links that no path crosses */
	char *sources;
	char *packets;
	char *kept; /* packets as sources made them, if they may be lost */
	u32 *crossing; /* by link, sessions; only while links begin */
	struct stream *streams; /* by link; NULL without data */
	struct sending *sendings; /* by session; NULL without data */
	size_t load_size;
	size_t source_size;
	size_t packet_size;
	struct front *fronts;
	u32 front_count;
	u32 front_room;
	u32 front_free;
	u32 *joins; /* sessions in the order in which they join, */
	u32 *leaves; /* and leave */
	u32 next_join;
	u32 next_leave;
};

static inline const struct link *sim_link(const struct sim *sim, u32 link)
{
	return &sim->net->links[link];
}

static inline struct wire *sim_wire(const struct sim *sim, u32 link)
{
	return &sim->wires[link];
}

static inline struct load *sim_load(const struct sim *sim, u32 link)
{
	size_t at = sim->wires[link].load * sim->load_size;

	return (struct load *)(sim->loads + at);
}

static inline struct source *sim_source(const struct sim *sim, u32 session)
{
	return (struct source *)(sim->sources + session * sim->source_size);
}

static inline struct packet *sim_packet(const struct sim *sim, u32 number)
{
	return (struct packet *)(sim->packets + number * sim->packet_size);
}

/* The algorithm's own memory. */
#define SIM_OWN(thing) ((void *)((thing) + 1))

/* That at a link. */
static inline void *sim_own(const struct sim *sim, u32 link)
{
	return SIM_OWN(sim_load(sim, link));
}

void sim_init(struct sim *sim, const struct net *net,
	      const struct sim_options *options);
void sim_run(struct sim *sim, u64 until);
void sim_set_rate(struct sim *sim, u32 session, u64 rate);
double sim_arrived(struct sim *sim, u32 link);
double sim_data(struct sim *sim, u32 link);
double sim_waiting(struct sim *sim, u32 link);
u64 sim_sent(const struct sim *sim, u32 session);
void sim_free(struct sim *sim);

/* May control packets be lost? */
static inline bool sim_may_lose(const struct sim *sim)
{
	return sim->options.loss || sim->options.cut;
}

/* What a session asks for, bit/s. */
static inline u64 sim_demand(const struct sim *sim, u32 session)
{
	return sim->net->sessions[session].demand;
}

/* When its latest packet was sent, until now: when it is back, the round-trip. */
static inline u64 sim_since_asked(const struct sim *sim, u32 session)
{
	return sim->now - sim_source(sim, session)->asked;
}

extern const struct algorithm slbn_algorithm, slbn_paper_algorithm;
extern const struct algorithm bfyz_algorithm, sperc_algorithm;
extern const struct algorithm erica_algorithm, cobb_algorithm;
extern const struct algorithm rcp_algorithm, piqi_rcp_algorithm, xcp_algorithm;

#endif /* SLBNSIM_SIM_H */
