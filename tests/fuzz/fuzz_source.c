// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the source's task of SLBN: a session receives arbitrary acknowledgments
 * while its demand changes and it leaves.
 *
 * Acknowledgments are valid packets, as the parser drops others, with any
 * contents. The session must never use more than its demand nor send an invalid
 * packet, and packets that do not acknowledge the one in flight must change
 * nothing.
 */
#include "fuzz.h"

enum operation {
	ANSWER,
	ANSWER_ANY,
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
}

static void check(const struct slbn_source *before,
		  const struct slbn_source *src, const struct slbn_packet *ack,
		  enum slbn_source_event event)
{
	const struct slbn_packet *pkt = &src->pkt;

	if (event != SLBN_CYCLE_DONE) {
		HOLDS(!memcmp(before, src, sizeof(*src)));
		HOLDS((event == SLBN_SESSION_OVER) ==
		      (before->pkt.type == SLBN_LEAVE &&
		       ack->type == SLBN_LEAVE_ACK &&
		       ack->seq == before->pkt.seq &&
		       ack->id[0] == pkt->id[0] && ack->id[1] == pkt->id[1] &&
		       ack->slots == pkt->slots));
		return;
	}
	HOLDS(before->pkt.type != SLBN_LEAVE && ack->type == SLBN_PROBE_ACK);
	HOLDS(ack->seq == before->pkt.seq && pkt->seq == ack->seq + 1);
	HOLDS(pkt->id[0] == ack->id[0] && pkt->id[1] == ack->id[1]);
	HOLDS(pkt->hop == 0 && pkt->slots == ack->slots);
	HOLDS(pkt->demand == src->D && src->D == before->D);
	HOLDS(pkt->B == ack->B && src->leaving == before->leaving);
	if (src->leaving) {
		HOLDS(pkt->type == SLBN_LEAVE && src->rate == before->rate);
		return;
	}
	HOLDS(pkt->type == SLBN_PROBE);
	HOLDS(src->rate <= src->D && src->rate <= ack->bw);
	HOLDS(src->rate == src->D || src->rate == ack->bw);
	/* bw' of the last packet is bw'' of the next. */
	HOLDS(pkt->bw1 == src->rate && pkt->bw2 == before->pkt.bw1);
	HOLDS(pkt->bw <= src->D && pkt->bw >= src->rate);
	HOLDS(pkt->bottleneck == SLBN_NO_HOP ?
		      pkt->bw == src->D :
		      pkt->bottleneck == ack->bottleneck);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct octets in = { data, size };
	u64 id[2] = { draw8(&in), draw8(&in) };
	struct slbn_source src;

	memset(&src, 0, sizeof(src));
	slbn_source_join(&src, id, fp_max64(draw_rate(&in), 1),
			 2 * draw(&in, 1, SLBN_HOPS_MAX / 2));
	while (in.left) {
		struct slbn_source before;
		u16 tags[SLBN_HOPS_MAX];
		struct slbn_packet ack;
		u8 operation = draw8(&in);
		enum slbn_source_event event;
		u8 hop;

		HOLDS(is_valid(&src.pkt, src.tags));
		switch (operation % OPERATIONS) {
		case CHANGE:
			slbn_source_change(&src, fp_max64(draw_rate(&in), 1));
			continue;
		case LEAVE:
			slbn_source_leave(&src);
			continue;
		default:
			break;
		}
		draw_answer(&in, &src, &ack);
		if (operation % OPERATIONS == ANSWER_ANY)
			draw_any(&in, &ack);
		for (hop = 0; hop < ack.slots; hop++)
			tags[hop] = operation * (hop + 1);
		HOLDS(is_valid(&ack, tags));
		memcpy(&before, &src, sizeof(src));
		event = slbn_source_ack(&src, &ack, tags);
		check(&before, &src, &ack, event);
		if (event == SLBN_CYCLE_DONE)
			HOLDS(!memcmp(src.tags, tags,
				      ack.slots * sizeof(*tags)));
	}
	return 0;
}
