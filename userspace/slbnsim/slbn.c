// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN, as sch_slbn and slbnd run it: glue between the simulator and
 * include/fairpath/slbn/slbn_core.h, which is compiled here as it is in the
 * kernel.
 *
 * slbn is protocol 2: it never overshoots. Sources enforce leases, and send a
 * packet nearly at once while a rate is below the plan, has just fallen, or is
 * new. A source knows the length of its path from the start, unlike slbnd's,
 * whose Join has slots for 32 hops. slbn-1 is protocol 1, without the commit,
 * and with its shorter packets.
 *
 * Both recover from losses and failures: ledgers, and epochs of a second or
 * --epoch, in each of which a session sends a packet, as with slbnd. The memory of recent
 * packets only matters if packets are lost, and is omitted otherwise. The
 * kernel's has 32,768 entries from 1 to 10 Gbit/s, 262,144 at 100 Gbit/s; this
 * one has sixteen times the sessions that cross the link, unless --memory limits
 * it.
 *
 * slbn-paper is the algorithm as printed (with the corrections that the core
 * lists): three integers for each link, and no recovery.
 *
 * With --headroom auto links reserve what their control packets take, as the
 * kernel's do. There are no unassigned packets here.
 *
 * A packet that a link drops, since it has no record of its session, is
 * retransmitted by the source.
 *
 * Sources have little state: the packet has the rest of slbnd's, since links
 * only rewrite what an answer rewrites, and demands do not change. So many
 * sessions need less memory.
 */
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "sim.h"

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_headroom.h>
#include <fairpath/slbn/slbn_wire.h>

/* IPv4, UDP, and Ethernet as queues count it, bytes. */
#define HEADERS (20 + 8 + 14)
/* Protocol 1: the header, and the tag of each hop, bytes. */
#define HEADER_1 72
#define TAG_1 2

struct slbnsim_packet {
	struct slbn_packet pkt;
	struct slbn_slot slots[];
};

/**
 * struct slbnsim_link - a link's private memory
 * @vars: state
 * @P: what the plan hands out, bit/s
 * @rows: rows of memory
 * @headroom: what determines @P with --headroom auto
 */
struct slbnsim_link {
	struct slbn_link_vars vars;
	struct slbn_headroom headroom;
	u64 P;
	u32 rows;
};

/**
 * struct slbnsim_source - a source's private memory, of protocol 2
 * @lease: when the rate ends, ns, or SLBN_NO_LEASE
 * @sent: when its packet was sent first, ns
 * @has_timer: the timer is set, for @lease or earlier
 */
struct slbnsim_source {
	u64 lease;
	u64 sent;
	bool has_timer;
};

/* Of all links together. */
static struct slbn_link_stats stats;

static u32 slots_for(u32 hops)
{
	return fp_min(hops + SLBN_SPARE_SLOTS, (u32)SLBN_HOPS_MAX);
}

static size_t packet_memory(u32 hops)
{
	return sizeof(struct slbnsim_packet) +
	       slots_for(hops) * sizeof(struct slbn_slot);
}

/* With the share option, which only a Leave lacks. */
static u32 slots_bytes(u32 slots)
{
	return HEADERS + slbn_length(slots, SLBN_SLOT_LENGTH_V4) +
	       SLBN_OPTION_HEAD + SLBN_SHARE_LENGTH;
}

static u32 packet_bytes(u32 hops)
{
	return slots_bytes(slots_for(hops));
}

static u32 packet_bytes_1(u32 hops)
{
	return HEADERS + HEADER_1 + TAG_1 * hops;
}

/* ------------------------------------------------------------------------ */
/* Links                                                                    */

#define EPOCH 1000000000ULL
/* Memory entries for each session that crosses a link. */
#define ENTRIES_PER_SESSION 16ULL

/* The largest reserve for control packets, 1/1000: the kernel's default limit. */
#define CONTROL_MAX 50

/*
 * A link sends a control packet: update what its plan hands out. Links without
 * sessions have no memory of their own.
 */
static void count_control(struct sim *sim, const struct packet *packet,
			  u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);
	u64 rate = sim_link(sim, link)->rate;
	const struct slbn_headroom_params params = {
		.C = rate,
		.control = rate * CONTROL_MAX / 1000,
		.epoch = sim->options.epoch ? sim->options.epoch : EPOCH,
	};

	if (!sim_is_crossed(sim, link))
		return;
	if (slbn_headroom_update(&params, &own->headroom, sim->now))
		own->P = slbn_headroom_plan(&params, &own->headroom);
	slbn_headroom_count_control(&own->headroom, packet->bytes * 8);
}

static void process_as(struct sim *sim, struct packet *packet, u32 link,
		       bool commit)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);
	struct slbnsim_packet *memory = SIM_PRIV(packet);
	struct slbn_link_params params = {
		.C = sim_link(sim, link)->rate,
		.commit = commit,
		.epoch = sim->options.epoch,
		.rows = own->rows,
		.hash_key = { link },
	};
	struct slbn_slot *slot = &memory->slots[slbn_current_hop(&memory->pkt)];

	if (sim->options.headroom_auto)
		count_control(sim, packet,
			      packet->up ? sim_link(sim, link)->reverse : link);
	params.P = own->P;
	packet->lost =
		slbn_link_process(&params, &own->vars, &stats, &memory->pkt,
				  slot, sim->now) != SLBN_FORWARD;
}

static void process_with_commit(struct sim *sim, struct packet *packet,
				u32 link)
{
	process_as(sim, packet, link, true);
}

static void process(struct sim *sim, struct packet *packet, u32 link)
{
	process_as(sim, packet, link, false);
}

static void link_init(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);

	slbn_link_init(&own->vars, 0, 0, draw(&sim->random));
	own->P = link_plan(sim_link(sim, link), sim->options.headroom);
	if (sim->options.headroom_auto)
		own->P -= own->P * SLBN_HEADROOM_REST / 1000;
}

static u64 plan(struct sim *sim, u32 link)
{
	const struct slbnsim_link *own = sim_link_priv(sim, link);

	return sim_is_crossed(sim, link) ? own->P : sim_link(sim, link)->rate;
}

static void link_init_with_recovery(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);
	u64 entries;

	link_init(sim, link);
	if (!sim_is_lossy(sim))
		return;
	entries = fp_min64(ENTRIES_PER_SESSION * sim->crossing[link],
			   sim->options.memory);
	if (!entries)
		return;
	for (own->rows = 1; own->rows * SLBN_MEMORY_WAYS < entries;)
		own->rows *= 2;
	own->vars.memory = calloc((size_t)own->rows * SLBN_MEMORY_WAYS,
				  sizeof(struct slbn_memory_entry));
	if (!own->vars.memory)
		out_of_memory();
}

static void link_end(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);

	free(own->vars.memory);
}

/* ------------------------------------------------------------------------ */
/* Sources and destinations                                                 */

static void join_with_slots(struct sim *sim, struct packet *packet, u8 slots)
{
	const struct session *session = &sim->net->sessions[packet->session];
	const u64 id[2] = { 0, packet->session };
	struct slbnsim_packet *own = SIM_PRIV(packet);
	struct slbn_source source;

	slbn_source_join(&source, id, session->demand, session->weight, slots);
	own->pkt = source.pkt;
	memcpy(own->slots, source.slot, slots * sizeof(struct slbn_slot));
}

static void join(struct sim *sim, struct packet *packet)
{
	struct slbnsim_source *own = SIM_PRIV(sim_source(sim, packet->session));

	join_with_slots(sim, packet,
			slots_for(sim->net->sessions[packet->session].hops));
	own->lease = SLBN_NO_LEASE;
}

static void join_1(struct sim *sim, struct packet *packet)
{
	join_with_slots(sim, packet, sim->net->sessions[packet->session].hops);
}

/* The source's lease ends, or was extended since the timer was set. */
static void expire(struct sim *sim, u32 session)
{
	struct slbnsim_source *own = SIM_PRIV(sim_source(sim, session));

	own->has_timer = sim->now < own->lease;
	if (own->has_timer)
		sim_set_timer(sim, session, own->lease);
	else
		sim_set_rate(sim, session, 0);
}

static void set_lease(struct sim *sim, u32 session, u64 lease)
{
	struct slbnsim_source *own = SIM_PRIV(sim_source(sim, session));

	own->lease = lease;
	if (own->has_timer || lease <= sim->now || lease == SLBN_NO_LEASE)
		return;
	own->has_timer = true;
	sim_set_timer(sim, session, lease);
}

/* The packet takes another path, and the source does not know. */
static void move(struct sim *sim, struct packet *packet,
		 const struct packet *was)
{
	const struct slbnsim_source *before =
		SIM_PRIV(sim_source(sim, was->session));
	struct slbnsim_source *own = SIM_PRIV(sim_source(sim, packet->session));

	memcpy(SIM_PRIV(packet), SIM_PRIV(was),
	       sim->packet_size - sizeof(*packet));
	own->sent = before->sent;
	set_lease(sim, packet->session, before->lease);
}

static void move_1(struct sim *sim, struct packet *packet,
		   const struct packet *was)
{
	const struct session *session = &sim->net->sessions[packet->session];
	struct slbnsim_packet *own = SIM_PRIV(packet);

	memcpy(own, SIM_PRIV(was), sim->packet_size - sizeof(*packet));
	/* Hop slots for the longer path; slots of additional hops are 0. */
	own->pkt.slots = fp_max(own->pkt.slots, session->hops);
}

static void transmit(struct sim *sim, struct packet *packet)
{
	const struct source *state = sim_source(sim, packet->session);
	struct slbnsim_source *own = SIM_PRIV(sim_source(sim, packet->session));
	struct slbnsim_packet *memory = SIM_PRIV(packet);
	u8 slots = memory->pkt.slots;
	struct slbn_source source;

	source.rate = state->rate;
	source.lease = own->lease;
	source.slots = slots_for(sim->longest_path);
	source.tries = state->tries;
	source.sent = own->sent;
	source.pkt = memory->pkt;
	slbn_source_transmit(&source, sim->now);
	own->sent = source.sent;
	memory->pkt = source.pkt;
	for (; slots < source.pkt.slots; slots++)
		memory->slots[slots] = source.slot[slots];
	packet->bytes = slots_bytes(slots);
}

static void turn(struct sim *sim, struct packet *packet)
{
	struct slbnsim_packet *own = SIM_PRIV(packet);

	(void)sim;
	slbn_destination_reply(&own->pkt);
	slbn_clear_slots(own->slots, &own->pkt);
}

/*
 * Process an answer, as SOURCE, of which the caller sets what its protocol
 * needs; the rest is the session's state, but for what the answer sets.
 */
static bool answer_as(struct sim *sim, struct packet *packet,
		      struct slbn_source *source)
{
	const struct source *state = sim_source(sim, packet->session);
	struct slbnsim_packet *ack = SIM_PRIV(packet);
	bool left = ack->pkt.type == SLBN_LEAVE_ACK;

	source->D = sim_demand(sim, packet->session);
	source->rate = state->rate;
	source->leaving = state->leaving;
	source->pkt = ack->pkt;
	source->pkt.type = left ? SLBN_LEAVE : SLBN_PROBE;
	if (slbn_source_ack(source, &ack->pkt, ack->slots, sim->now) !=
	    SLBN_CYCLE_DONE)
		return false;
	if (!source->leaving)
		sim_set_rate(sim, packet->session, source->rate);
	/* The packet keeps the slots of the answer. */
	ack->pkt = source->pkt;
	return true;
}

static bool answer(struct sim *sim, struct packet *packet)
{
	struct source *state = sim_source(sim, packet->session);
	const struct slbnsim_source *own = SIM_PRIV(state);
	struct slbn_source source;

	source.lease = own->lease;
	source.sent = own->sent;
	source.margin = SLBN_LEASE_MARGIN;
	if (!answer_as(sim, packet, &source))
		return false;
	if (source.leaving)
		return true;
	state->urgent = source.urgent;
	state->plan = source.pkt.bw1;
	set_lease(sim, packet->session, source.lease);
	return true;
}

static bool answer_1(struct sim *sim, struct packet *packet)
{
	struct slbn_source source;

	source.lease = SLBN_NO_LEASE;
	source.sent = 0;
	source.margin = 0;
	return answer_as(sim, packet, &source);
}

const struct algorithm slbn_algorithm = {
	.name = "slbn",
	.about = "SLBN, protocol 2, as the kernel runs it: never overshoots",
	.link_memory = sizeof(struct slbnsim_link),
	.source_memory = sizeof(struct slbnsim_source),
	.packet_memory = packet_memory,
	.packet_bytes = packet_bytes,
	.link_init = link_init_with_recovery,
	.link_end = link_end,
	.join = join,
	.move = move,
	.transmit = transmit,
	.down = process_with_commit,
	.at_destination = turn,
	.up = process_with_commit,
	.at_source = answer,
	.expire = expire,
	.epoch = EPOCH,
	.plan = plan,
	.drops = true,
};

const struct algorithm slbn_1_algorithm = {
	.name = "slbn-1",
	.about = "SLBN, protocol 1: with recovery, without the commit",
	.link_memory = sizeof(struct slbnsim_link),
	.packet_memory = packet_memory,
	.packet_bytes = packet_bytes_1,
	.link_init = link_init_with_recovery,
	.link_end = link_end,
	.join = join_1,
	.move = move_1,
	.down = process,
	.at_destination = turn,
	.up = process,
	.at_source = answer_1,
	.epoch = EPOCH,
	.plan = plan,
	.drops = true,
};

const struct algorithm slbn_paper_algorithm = {
	.name = "slbn-paper",
	.about = "SLBN as in the paper, with three integers for each link",
	.link_memory = sizeof(struct slbnsim_link),
	.packet_memory = packet_memory,
	.packet_bytes = packet_bytes_1,
	.link_init = link_init,
	.join = join_1,
	.move = move_1,
	.down = process,
	.at_destination = turn,
	.up = process,
	.at_source = answer_1,
	.plan = plan,
};
