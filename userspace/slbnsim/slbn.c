// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN, as sch_slbn and slbnd run it: glue between the simulator and
 * include/fairpath/slbn/slbn_core.h, which is compiled here as it is in the
 * kernel.
 *
 * slbn-paper is the algorithm as printed (with the corrections that the core
 * lists): three integers for each link, and no recovery. slbn recovers from
 * losses and failures: ledgers, and epochs of a second, in each of which a
 * session sends a packet, as with slbnd. The memory of recent packets only
 * matters if packets are lost, and is omitted otherwise. The kernel's has room
 * for all packets that can arrive in a second, 35 for each Mbit/s; this one for
 * sixteen times the sessions that cross the link, unless --memory limits it.
 * With only twice as many some rows overflow, and rates are off repeatedly.
 *
 * A packet that a link drops, since it has no record of its session, is
 * retransmitted by the source.
 *
 * Sources have no state: the packet has all of slbnd's, since links only
 * rewrite what an answer rewrites, and demands do not change. So many sessions
 * need less memory.
 */
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "sim.h"

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_wire.h>

/* IPv4, UDP, and Ethernet as queues count it, bytes. */
#define HEADERS (20 + 8 + 14)

struct slbnsim_packet {
	struct slbn_packet pkt;
	struct slbn_slot slots[];
};

struct slbnsim_link {
	struct slbn_link_vars vars;
	u32 rows;
};

/* Of all links together. */
static struct slbn_link_stats stats;

static size_t packet_memory(u32 hops)
{
	return sizeof(struct slbnsim_packet) + hops * sizeof(struct slbn_slot);
}

static u32 packet_bytes(u32 hops)
{
	return HEADERS + slbn_length(hops);
}

static void process(struct sim *sim, struct packet *packet, u32 link, u64 epoch)
{
	const struct link *here = sim_link(sim, link);
	struct slbnsim_link *own = sim_link_priv(sim, link);
	struct slbnsim_packet *memory = SIM_PRIV(packet);
	const struct slbn_link_params params = {
		.C = here->rate,
		.P = here->rate,
		.epoch = epoch,
		.rows = own->rows,
		.salt = link,
	};
	struct slbn_slot *slot = &memory->slots[slbn_current_hop(&memory->pkt)];

	packet->lost =
		slbn_link_process(&params, &own->vars, &stats, &memory->pkt,
				  slot, sim->now) != SLBN_FORWARD;
}

#define EPOCH 1000000000ULL
/* Memory entries for each session that crosses a link. */
#define ENTRIES_PER_SESSION 16ULL

static void process_with_recovery(struct sim *sim, struct packet *packet,
				  u32 link)
{
	process(sim, packet, link, EPOCH);
}

static void process_as_printed(struct sim *sim, struct packet *packet, u32 link)
{
	process(sim, packet, link, 0);
}

static void link_init(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);

	slbn_link_init(&own->vars, 0, 0, draw(&sim->random));
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

/* Copy the source's next packet. */
static void copy_packet(struct packet *packet, const struct slbn_source *source)
{
	struct slbnsim_packet *own = SIM_PRIV(packet);

	own->pkt = source->pkt;
	memcpy(own->slots, source->slot,
	       source->pkt.slots * sizeof(struct slbn_slot));
}

static void join(struct sim *sim, struct packet *packet)
{
	const struct session *session = &sim->net->sessions[packet->session];
	const u64 id[2] = { 0, packet->session };
	struct slbn_source source;

	slbn_source_join(&source, id, session->demand, 1, session->hops);
	copy_packet(packet, &source);
}

/* The packet takes another path, and the source does not know. */
static void move(struct sim *sim, struct packet *packet,
		 const struct packet *was)
{
	const struct session *session = &sim->net->sessions[packet->session];
	struct slbnsim_packet *own = SIM_PRIV(packet);

	memcpy(own, SIM_PRIV(was), sim->packet_size - sizeof(*packet));
	/* Hop slots for the longer path; slots of additional hops are 0. */
	own->pkt.slots = fp_max(own->pkt.slots, session->hops);
}

static void turn(struct sim *sim, struct packet *packet)
{
	struct slbnsim_packet *own = SIM_PRIV(packet);

	(void)sim;
	slbn_destination_reply(&own->pkt);
	slbn_clear_slots(own->slots, &own->pkt);
}

static bool answer(struct sim *sim, struct packet *packet)
{
	struct slbnsim_packet *ack = SIM_PRIV(packet);
	bool left = ack->pkt.type == SLBN_LEAVE_ACK;
	struct slbn_source source;

	/* The source's state, but for what the answer sets. */
	source.D = sim_demand(sim, packet->session);
	source.leaving = sim_source(sim, packet->session)->leaving;
	source.pkt = ack->pkt;
	source.pkt.type = left ? SLBN_LEAVE : SLBN_PROBE;
	if (slbn_source_ack(&source, &ack->pkt, ack->slots, sim->now) !=
	    SLBN_CYCLE_DONE)
		return false;
	if (!source.leaving)
		sim_set_rate(sim, packet->session, source.rate);
	/* The packet keeps the slots of the answer. */
	ack->pkt = source.pkt;
	return true;
}

const struct algorithm slbn_algorithm = {
	.name = "slbn",
	.about = "SLBN with recovery, as the kernel runs it",
	.link_memory = sizeof(struct slbnsim_link),
	.packet_memory = packet_memory,
	.packet_bytes = packet_bytes,
	.link_init = link_init_with_recovery,
	.link_end = link_end,
	.join = join,
	.move = move,
	.down = process_with_recovery,
	.at_destination = turn,
	.up = process_with_recovery,
	.at_source = answer,
	.max_interval = EPOCH / 4,
};

const struct algorithm slbn_paper_algorithm = {
	.name = "slbn-paper",
	.about = "SLBN as in the paper, with three integers for each link",
	.link_memory = sizeof(struct slbnsim_link),
	.packet_memory = packet_memory,
	.packet_bytes = packet_bytes,
	.link_init = link_init,
	.join = join,
	.move = move,
	.down = process_as_printed,
	.at_destination = turn,
	.up = process_as_printed,
	.at_source = answer,
};
