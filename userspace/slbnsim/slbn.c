// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN, as the kernel's sch_slbn and slbnd run it: this is only what hands
 * their packets to the tasks of include/fairpath/slbn/slbn_core.h, which are compiled here
 * as they are there.
 *
 * slbn-paper is the algorithm as printed (with the corrections that the core
 * tells of): three integers for each link, and nothing is forgotten. slbn heals
 * too: ledgers and epochs of a second, in each of which a link hears of a
 * session, as slbnd sees to. The memory of recent visits only matters when
 * packets are lost, and is left out where none is. The kernel's has room for all
 * packets that can come in a second, 35 for each Mbit/s; this one for sixteen
 * times the sessions that ever cross the link, if it may: with but twice as many,
 * rows run over here and there, and rates are off again and again.
 *
 * What a link drops, since it knows nothing of it, its source sends again.
 *
 * A source keeps nothing. All that slbnd's does its packet has, too: links only
 * rewrite what an answer rewrites, and the demand does not change. So with many
 * sessions there is less memory to go through.
 */
#include <stdio.h>

#include "random.h"
#include "sim.h"

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_wire.h>

/* IPv4 and UDP; Ethernet, as queues count it. */
#define BELOW (20 + 8 + 14)

struct slbn_memory {
	struct slbn_packet pkt;
	u16 tags[];
};

struct slbnsim_link {
	struct slbn_link_vars vars;
	u32 rows;
};

/* One for all links. */
static struct slbn_link_stats stats;

static size_t packet_memory(u32 hops)
{
	return sizeof(struct slbn_memory) + hops * sizeof(u16);
}

static u32 packet_bytes(u32 hops)
{
	return BELOW + slbn_tag_at(hops);
}

static void visit(struct sim *sim, struct packet *packet, u32 link, u64 epoch)
{
	const struct link *here = sim_link(sim, link);
	struct slbnsim_link *own = sim_link_priv(sim, link);
	struct slbn_memory *memory = SIM_PRIV(packet);
	const struct slbn_link_params params = {
		.C = here->rate,
		.epoch = epoch,
		.rows = own->rows,
		.salt = link,
	};
	u16 *tag = &memory->tags[slbn_current_hop(&memory->pkt)];

	packet->lost =
		slbn_link_process(&params, &own->vars, &stats, &memory->pkt,
				  tag, sim->now) != SLBN_FORWARD;
}

#define EPOCH 1000000000ULL
/* Visits that a link can remember, for each session that crosses it. */
#define ROOM 16ULL

static void visit_healing(struct sim *sim, struct packet *packet, u32 link)
{
	visit(sim, packet, link, EPOCH);
}

static void visit_plain(struct sim *sim, struct packet *packet, u32 link)
{
	visit(sim, packet, link, 0);
}

static void link_init(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);

	slbn_link_init(&own->vars, 0, draw(&sim->random));
}

static void link_init_healing(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);
	u64 visits;

	link_init(sim, link);
	if (!sim_is_lossy(sim))
		return;
	visits = fp_min64(ROOM * sim->crossing[link], sim->options.memory);
	if (!visits)
		return;
	for (own->rows = 1; own->rows * SLBN_MEMORY_WAYS < visits;)
		own->rows *= 2;
	own->vars.memory = calloc((size_t)own->rows * SLBN_MEMORY_WAYS,
				  sizeof(struct slbn_memory_entry));
	if (!own->vars.memory) {
		fputs("slbnsim: out of memory\n", stderr);
		exit(1);
	}
}

static void link_end(struct sim *sim, u32 link)
{
	struct slbnsim_link *own = sim_link_priv(sim, link);

	free(own->vars.memory);
}

/* The packet that stands ready at the source. */
static void set_out(struct packet *packet, const struct slbn_source *source)
{
	struct slbn_memory *own = SIM_PRIV(packet);

	own->pkt = source->pkt;
	memcpy(own->tags, source->tags, source->pkt.slots * sizeof(u16));
}

static void join(struct sim *sim, struct packet *packet)
{
	const struct session *session = &sim->net->sessions[packet->session];
	const u64 id[2] = { 0, packet->session };
	struct slbn_source source;

	slbn_source_join(&source, id, session->demand, session->hops);
	set_out(packet, &source);
}

/* The path is another, and nobody has told the source. */
static void move(struct sim *sim, struct packet *packet,
		 const struct packet *was)
{
	const struct session *session = &sim->net->sessions[packet->session];
	struct slbn_memory *own = SIM_PRIV(packet);

	memcpy(own, SIM_PRIV(was), sim->packet_size - sizeof(*packet));
	/* Of as many hops as both paths have; without tags so far. */
	own->pkt.slots = fp_max(own->pkt.slots, session->hops);
}

static void turn(struct sim *sim, struct packet *packet)
{
	struct slbn_memory *own = SIM_PRIV(packet);

	(void)sim;
	slbn_destination_reply(&own->pkt);
}

static bool answer(struct sim *sim, struct packet *packet)
{
	struct slbn_memory *ack = SIM_PRIV(packet);
	bool left = ack->pkt.type == SLBN_LEAVE_ACK;
	struct slbn_source source;

	/* What it sent, but for what becomes another now. */
	source.D = sim_demand(sim, packet->session);
	source.leaving = sim_source(sim, packet->session)->leaving;
	source.pkt = ack->pkt;
	source.pkt.type = left ? SLBN_LEAVE : SLBN_PROBE;
	if (slbn_source_ack(&source, &ack->pkt, ack->tags) != SLBN_CYCLE_DONE)
		return false;
	if (!source.leaving)
		sim_set_rate(sim, packet->session, source.rate);
	/* The tags are those that came back. */
	ack->pkt = source.pkt;
	return true;
}

const struct algorithm slbn_algorithm = {
	.name = "slbn",
	.about = "SLBN with healing, as the kernel runs it",
	.link_memory = sizeof(struct slbnsim_link),
	.packet_memory = packet_memory,
	.packet_bytes = packet_bytes,
	.link_init = link_init_healing,
	.link_end = link_end,
	.join = join,
	.move = move,
	.down = visit_healing,
	.at_destination = turn,
	.up = visit_healing,
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
	.down = visit_plain,
	.at_destination = turn,
	.up = visit_plain,
	.at_source = answer,
};
