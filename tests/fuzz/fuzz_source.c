// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the source's task of SLBN: a session receives arbitrary acknowledgments
 * while time passes, its demand changes and it leaves.
 *
 * Acknowledgments are valid packets, as the parser drops others, with any
 * contents. The session must never use more than its demand, its share, what is
 * granted, and what its lease allows, nor send an invalid packet; only an
 * acknowledgment raises its rate; and packets that do not acknowledge the one
 * in flight must change nothing.
 */
#include "fuzz.h"

enum operation {
	ANSWER,
	ANSWER_ANY,
	TRANSMIT,
	WAIT,
	CHANGE,
	LEAVE,
	OPERATIONS,
};

/* An acknowledgment of the packet in flight with any contents. */
static void draw_answer(struct octets *in, const struct slbn_source *src,
			struct slbn_packet *ack)
{
	*ack = src->pkt;
	slbn_destination_reply(ack);
	ack->hop = draw(in, 0, ack->slots);
	ack->bottleneck = draw8(in);
	if (ack->bottleneck >= ack->slots)
		ack->bottleneck = SLBN_NO_HOP;
	ack->bw = draw_rate(in);
	ack->bw1 = draw_rate(in);
	ack->g = draw_rate(in);
	if (draw8(in) % 2)
		ack->epoch = draw(in, 0, 3000000);
	ack->B = draw(in, 0,
		      ack->slots == 64 ? ~0ULL : (1ULL << ack->slots) - 1);
}

/* Make fields differ from those of the expected acknowledgment. */
static void draw_any(struct octets *in, struct slbn_packet *ack)
{
	u8 which = draw8(in);

	if (which & 1)
		ack->type = draw(in, 1, SLBN_TYPE_MAX);
	if (which & 2)
		ack->seq += draw8(in) - 128;
	if (which & 4)
		ack->id[0] ^= 1ULL << draw(in, 0, 63);
	if (which & 8)
		ack->id[1] ^= 1ULL << draw(in, 0, 63);
	if (which & 16) {
		ack->slots = 64;
		ack->B |= 1ULL << draw(in, 0, 63);
		ack->bottleneck = draw(in, 0, 63);
	}
	if (which & 32)
		ack->use = draw_rate(in);
	if (which & 64)
		ack->use1 = draw_rate(in);
	if (which & 128)
		ack->weight = draw(in, 1, SLBN_WEIGHT_MAX);
}

/* Slots of an acknowledgment: any tags and codes up to a length. */
static u8 draw_slots(struct octets *in, struct slbn_slot *slots, u8 count)
{
	u8 length = draw(in, 0, count);
	u8 mix = draw8(in);
	u8 hop;

	memset(slots, 0, count * sizeof(*slots));
	for (hop = 0; hop < length; hop++) {
		slots[hop].tag = mix * hop;
		slots[hop].code = 251 * (mix ^ hop);
	}
	while (length && !slots[length - 1].tag)
		length--;
	return length;
}

/* The rate and lease that an acknowledgment assigns. */
static void check_rate(const struct slbn_source *before,
		       const struct slbn_source *src,
		       const struct slbn_packet *ack, u64 now)
{
	u64 plan = ack->bw < src->D ? ack->bw : src->D;
	u64 assigned = ack->g < plan ? ack->g : plan;

	HOLDS(src->rate <= src->D && src->rate <= ack->bw &&
	      src->rate <= ack->g);
	if (ack->epoch == SLBN_NO_EPOCH) {
		HOLDS(src->lease == SLBN_NO_LEASE);
	} else {
		HOLDS(src->lease <= before->sent + 1000ULL * ack->epoch);
		HOLDS(src->lease ==
		      before->sent + slbn_lease(ack->epoch, src->margin));
		if (now >= src->lease)
			assigned = 0;
	}
	/* Links may have given away what was in use after the last lease. */
	if (now >= before->lease && before->pkt.use)
		assigned = 0;
	HOLDS(src->rate == assigned);
	HOLDS(src->urgent == (src->rate != plan || src->rate < before->rate ||
			      ack->seq < SLBN_FIRST_CYCLES));
}

static void check_ack(const struct slbn_source *before,
		      const struct slbn_source *src,
		      const struct slbn_packet *ack, u8 length,
		      enum slbn_source_event event, u64 now)
{
	const struct slbn_packet *pkt = &src->pkt;

	if (event != SLBN_CYCLE_DONE) {
		HOLDS(!memcmp(before, src, sizeof(*src)));
		HOLDS((event == SLBN_SESSION_OVER) ==
		      (before->pkt.type == SLBN_LEAVE &&
		       ack->type == SLBN_LEAVE_ACK &&
		       ack->seq == before->pkt.seq &&
		       ack->id[0] == pkt->id[0] && ack->id[1] == pkt->id[1] &&
		       ack->slots <= pkt->slots));
		return;
	}
	HOLDS(before->pkt.type != SLBN_LEAVE && ack->type == SLBN_PROBE_ACK);
	HOLDS(ack->seq == before->pkt.seq && pkt->seq == ack->seq + 1);
	HOLDS(pkt->id[0] == ack->id[0] && pkt->id[1] == ack->id[1]);
	HOLDS(pkt->hop == 0 && !pkt->again && !src->tries);
	HOLDS(pkt->slots == ack->slots || pkt->slots == length + 2);
	HOLDS(pkt->slots <= ack->slots && pkt->slots <= length + 2);
	HOLDS(pkt->weight == before->pkt.weight && src->D == before->D);
	HOLDS(src->leaving == before->leaving);
	HOLDS(pkt->slots == 64 ?
		      pkt->B == ack->B :
		      pkt->B == (ack->B & ((1ULL << pkt->slots) - 1)));
	HOLDS(pkt->use1 == before->pkt.use);
	if (src->leaving) {
		HOLDS(pkt->type == SLBN_LEAVE && !src->rate && !pkt->use);
		return;
	}
	HOLDS(pkt->type == SLBN_PROBE);
	check_rate(before, src, ack, now);
	HOLDS(pkt->use == src->rate);
	/* bw' of the last packet is bw'' of the next. */
	HOLDS(pkt->bw1 == fp_min64(ack->bw, src->D));
	HOLDS(pkt->bw2 == before->pkt.bw1);
	HOLDS(pkt->bw <= src->D && pkt->bw >= src->rate);
	HOLDS(pkt->bottleneck == SLBN_NO_HOP ?
		      pkt->bw == src->D :
		      pkt->bottleneck == ack->bottleneck);
}

static void transmit(struct slbn_source *src, u64 now)
{
	struct slbn_source before;
	u8 hop;

	memcpy(&before, src, sizeof(before));
	slbn_source_transmit(src, now);
	HOLDS(src->tries == before.tries + 1);
	HOLDS(src->pkt.again == (before.tries > 0));
	HOLDS(src->sent == (before.tries ? before.sent : now));
	/* The rate may have fallen since the last cycle. */
	HOLDS(src->pkt.use == (before.tries ?
				       before.pkt.use :
				       fp_min64(before.pkt.use, src->rate)));
	HOLDS(src->pkt.use1 == before.pkt.use1);
	HOLDS(src->rate == (now < src->lease ? before.rate : 0));
	HOLDS(src->lease == before.lease);
	/* After some tries the path may have become longer. */
	HOLDS(src->pkt.slots ==
	      (before.tries < SLBN_PATH_TRIES ? before.pkt.slots : src->slots));
	for (hop = 0; hop < before.pkt.slots; hop++)
		HOLDS(!memcmp(&src->slot[hop], &before.slot[hop],
			      sizeof(src->slot[hop])));
	for (; hop < src->pkt.slots; hop++)
		HOLDS(src->slot[hop].tag == SLBN_NO_TAG &&
		      !src->slot[hop].code);
}

static void receive(struct octets *in, struct slbn_source *src, bool any,
		    u64 now)
{
	struct slbn_slot slots[SLBN_HOPS_MAX];
	struct slbn_source before;
	struct slbn_packet ack;
	enum slbn_source_event event;
	u8 length;

	draw_answer(in, src, &ack);
	if (any)
		draw_any(in, &ack);
	length = draw_slots(in, slots, ack.slots);
	HOLDS(slbn_path_length(slots, ack.slots) == length);
	HOLDS(is_valid(&ack, slots));
	memcpy(&before, src, sizeof(before));
	event = slbn_source_ack(src, &ack, slots, now);
	check_ack(&before, src, &ack, length, event, now);
	if (event == SLBN_CYCLE_DONE)
		HOLDS(!memcmp(src->slot, slots, ack.slots * sizeof(*slots)));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct octets in = { data, size };
	u64 id[2] = { draw8(&in), draw8(&in) };
	struct slbn_source src;
	u64 now = 0;

	memset(&src, 0, sizeof(src));
	slbn_source_join(&src, id, fp_max64(draw_rate(&in), 1),
			 draw(&in, 1, SLBN_WEIGHT_MAX),
			 draw(&in, 1, SLBN_HOPS_MAX));
	HOLDS(!src.rate && !src.pkt.use && !src.pkt.use1 && !src.pkt.again);
	while (in.left) {
		u8 operation = draw8(&in) % OPERATIONS;
		u64 rate = src.rate;

		HOLDS(is_valid(&src.pkt, src.slot));
		HOLDS(src.rate <= src.D && src.pkt.slots <= src.slots);
		switch (operation) {
		case CHANGE:
			slbn_source_change(&src, fp_max64(draw_rate(&in), 1));
			HOLDS(src.rate == fp_min64(rate, src.D));
			break;
		case LEAVE:
			slbn_source_leave(&src);
			HOLDS(!src.rate);
			break;
		case WAIT:
			now += draw(&in, 0, 2000) * 1000000;
			HOLDS(slbn_source_expire(&src, now) ==
			      (rate && now >= src.lease));
			HOLDS(src.rate == (now < src.lease ? rate : 0));
			break;
		case TRANSMIT:
			transmit(&src, now);
			break;
		default:
			if (!src.tries)
				transmit(&src, now);
			receive(&in, &src, operation == ANSWER_ANY, now);
		}
	}
	return 0;
}
