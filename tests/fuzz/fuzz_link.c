// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the link's task of SLBN: one link, some sessions and their packets.
 *
 *	sources --- other links --- the link --- other links --- destinations
 *
 * The octets become operations: sessions join, send, change their demand and
 * leave; the link processes their packets; destinations reply, sources receive
 * acknowledgments; packets are copied, lost and reordered; other links update
 * them; time passes, ledgers rotate, parameters change; and packets are forged.
 *
 * Invariants after each operation: no number wraps, the share is between C / N
 * and C, the memory is consistent, forwarded packets are valid, and dropped
 * ones have changed nothing. Without forged packets, and while the memory has
 * all sessions, the ledgers are exact: N, NR and BF are the sums over what the
 * link recorded last for each session, and nothing was clamped.
 */
#include "fuzz.h"

#define MS 1000000ULL
#define ROWS_MAX 4U
/* As many as a row of the memory has entries, so that it never evicts one. */
#define SESSIONS SLBN_MEMORY_WAYS
#define FLIGHTS 6U
#define SLOTS 8U

enum operation {
	JOIN,
	SEND,
	PROCESS,
	REPLY,
	ACK,
	ROUND_TRIP,
	COPY,
	OTHER_LINK,
	WAIT,
	CHANGE,
	LEAVE,
	SET_RATE,
	SET_EPOCH,
	RESET,
	FORGE,
	OPERATIONS,
};

/**
 * struct flight - a packet in flight
 * @pkt: packet
 * @tags: its tags
 * @session: its session
 */
struct flight {
	struct slbn_packet pkt;
	u16 tags[SLBN_HOPS_MAX];
	u8 session;
};

/**
 * struct session - a session, and what the link recorded for it last
 * @src: its source
 * @tag: tag of the ledger that counts it, or SLBN_NO_TAG
 * @in_R: it is in R
 * @rate: its rate in BF if it is in F
 * @seen: the link has processed a packet of it
 * @seq: sequence number of that packet
 */
struct session {
	struct slbn_source src;
	u16 tag;
	bool in_R;
	u64 rate;
	bool seen;
	u32 seq;
};

/**
 * struct world - the link, sessions and packets
 * @in: rest of the input
 * @p: parameters of the link
 * @v: state of the link
 * @s: counters of the link
 * @memory: memory of the link, allocated with its exact size
 * @now: time, ns
 * @processed: packets that the link has processed
 * @resets: resets of the link
 * @forged: the link has processed forged packets, or may have
 * @flooded: BF was set to a value that packets cannot reach so soon
 * @sessions: sessions; the link is hop n of the path of session n
 * @flights: packets in flight
 */
struct world {
	struct octets in;
	struct slbn_link_params p;
	struct slbn_link_vars v;
	struct slbn_link_stats s;
	struct slbn_memory_entry *memory;
	u64 now;
	u64 processed;
	u32 resets;
	bool forged;
	bool flooded;
	struct session sessions[SESSIONS];
	struct flight flights[FLIGHTS];
};

/* Entries of the memory. */
static u32 entries(const struct world *w)
{
	return w->p.rows * SLBN_MEMORY_WAYS;
}

/* --- invariants --------------------------------------------------------- */

static void check_ledger(const struct world *w,
			 const struct slbn_ledger *ledger, u16 tag)
{
	struct slbn_ledger sum = { 0 };
	u32 i;

	HOLDS(ledger->N <= w->processed);
	HOLDS(ledger->NR <= w->processed);
	HOLDS(w->flooded || ledger->BF <= w->processed * SLBN_RATE_MAX);
	if (w->forged)
		return;
	for (i = 0; i < SESSIONS; i++) {
		const struct session *session = &w->sessions[i];

		if (session->tag == SLBN_NO_TAG || session->tag != tag)
			continue;
		sum.N++;
		sum.NR += session->in_R;
		sum.BF += session->rate;
	}
	HOLDS(ledger->N == sum.N);
	HOLDS(ledger->NR == sum.NR);
	HOLDS(ledger->BF == sum.BF);
}

/* Used entries come first in a row; a session has at most one, in its row. */
static void check_row(const struct world *w,
		      const struct slbn_memory_entry *row)
{
	u32 way, other;

	for (way = 0; way < SLBN_MEMORY_WAYS && row[way].used; way++) {
		struct slbn_packet pkt = {
			.id = { row[way].id[0], row[way].id[1] },
		};

		HOLDS(row[way].used == 1);
		HOLDS(slbn_memory_row(&w->p, &w->v, &pkt) == row);
		HOLDS(row[way].in_R <= 1);
		HOLDS(row[way].rate <= SLBN_RATE_MAX);
		HOLDS(!row[way].rate ||
		      (!row[way].in_R && row[way].tag != SLBN_NO_TAG));
		for (other = 0; other < way; other++)
			HOLDS(!slbn_memory_matches(&row[other], &pkt));
	}
	for (; way < SLBN_MEMORY_WAYS; way++)
		HOLDS(!row[way].used);
}

static void check_link(const struct world *w)
{
	u64 share = slbn_link_share(&w->p, &w->v);
	u64 N = fp_max64(w->v.cur.N + w->v.prev.N, 1);
	u32 at;

	check_ledger(w, &w->v.cur, w->v.tag);
	check_ledger(w, &w->v.prev, w->v.prev_tag);
	HOLDS(share <= w->p.C);
	HOLDS(share >= w->p.C / N);
	HOLDS(w->v.tag != SLBN_NO_TAG && w->v.tag != w->v.prev_tag);
	for (at = 0; at < entries(w); at += SLBN_MEMORY_WAYS)
		check_row(w, &w->memory[at]);
	HOLDS(w->forged || !w->s.clamped);
}

/* Whether the link has processed a newer packet of the session. */
static bool is_old(const struct world *w, const struct flight *flight)
{
	const struct session *session = &w->sessions[flight->session];

	return session->seen && (s32)(flight->pkt.seq - session->seq) < 0;
}

static void check_dropped(const struct world *w, const struct world *before,
			  const struct slbn_memory_entry *memory,
			  const struct flight *flight,
			  const struct flight *flight_before)
{
	struct slbn_link_vars expected = before->v;

	HOLDS(!memcmp(flight, flight_before, sizeof(*flight)));
	HOLDS(w->forged || (w->s.stale > before->s.stale) == is_old(w, flight));
	/* A due rotation happens all the same, unless no slot was left. */
	if (w->s.too_many_hops == before->s.too_many_hops &&
	    w->v.tag != before->v.tag)
		slbn_link_rotate(&w->p, &expected, w->now);
	HOLDS(!memcmp(&w->v, &expected, sizeof(expected)));
	HOLDS(!memcmp(w->memory, memory, entries(w) * sizeof(*memory)));
	HOLDS(w->s.joins == before->s.joins &&
	      w->s.probes == before->s.probes && w->s.acks == before->s.acks &&
	      w->s.leaves == before->s.leaves &&
	      w->s.new_sessions == before->s.new_sessions &&
	      w->s.migrated == before->s.migrated &&
	      w->s.clamped == before->s.clamped);
	HOLDS(w->s.stale + w->s.wrong_path + w->s.too_many_hops ==
	      before->s.stale + before->s.wrong_path + before->s.too_many_hops +
		      1);
}

static void check_forwarded(const struct world *w, const struct world *before,
			    const struct flight *flight,
			    const struct flight *flight_before, u8 hop)
{
	const struct slbn_packet *was = &flight_before->pkt;
	const struct slbn_packet *pkt = &flight->pkt;
	u64 e = 1ULL << hop;
	u8 i;

	HOLDS(w->forged || !is_old(w, flight));
	HOLDS(is_valid(pkt, flight->tags));
	HOLDS(slbn_is_upstream(was) ? pkt->hop == hop : pkt->hop == hop + 1);
	HOLDS(!((pkt->B ^ was->B) & ~e));
	for (i = 0; i < pkt->slots; i++)
		HOLDS(i == hop || flight->tags[i] == flight_before->tags[i]);
	HOLDS(pkt->type == was->type && pkt->seq == was->seq &&
	      pkt->bw1 == was->bw1 && pkt->bw2 == was->bw2 &&
	      pkt->demand == was->demand && pkt->slots == was->slots);
	HOLDS(pkt->bottleneck == was->bottleneck || pkt->bottleneck == hop);
	HOLDS(w->s.joins + w->s.probes + w->s.acks + w->s.leaves ==
	      before->s.joins + before->s.probes + before->s.acks +
		      before->s.leaves + (was->type != SLBN_LEAVE_ACK));
	switch (was->type) {
	case SLBN_LEAVE_ACK:
		HOLDS(flight->tags[hop] == flight_before->tags[hop]);
		return;
	case SLBN_LEAVE:
		HOLDS(flight->tags[hop] == SLBN_NO_TAG && !(pkt->B & e));
		return;
	}
	HOLDS(flight->tags[hop] == w->v.tag);
	if (pkt->B & e) {
		HOLDS(pkt->bottleneck == hop);
		HOLDS(was->type == SLBN_JOIN ? pkt->bw == was->bw :
					       pkt->bw <= w->p.C);
	} else {
		HOLDS(pkt->bw == was->bw && pkt->bottleneck == was->bottleneck);
	}
}

/* --- operations --------------------------------------------------------- */

static void process(struct world *w, struct flight *flight)
{
	struct session *session = &w->sessions[flight->session];
	struct slbn_memory_entry memory[ROWS_MAX * SLBN_MEMORY_WAYS];
	u8 hop = slbn_current_hop(&flight->pkt);
	struct flight flight_before;
	struct world before;
	u16 none = SLBN_NO_TAG;
	enum slbn_verdict verdict;

	/* A path that crosses the link twice or at another hop counts as forged. */
	if (hop != flight->session)
		w->forged = true;
	memcpy(&before, w, sizeof(before));
	memcpy(&flight_before, flight, sizeof(flight_before));
	memcpy(memory, w->memory, entries(w) * sizeof(*memory));
	w->processed++;
	verdict = slbn_link_process(
		&w->p, &w->v, &w->s, &flight->pkt,
		hop < flight->pkt.slots ? &flight->tags[hop] : &none, w->now);
	HOLDS(none == SLBN_NO_TAG);
	if (verdict != SLBN_FORWARD) {
		check_dropped(w, &before, memory, flight, &flight_before);
		return;
	}
	check_forwarded(w, &before, flight, &flight_before, hop);
	if (flight->pkt.type == SLBN_LEAVE_ACK)
		return;
	session->seen = true;
	session->seq = flight->pkt.seq;
	session->tag = flight->tags[hop];
	session->in_R = flight->pkt.B >> hop & 1;
	session->rate = session->tag == SLBN_NO_TAG || session->in_R ?
				0 :
				flight->pkt.bw1;
}

/* Each reset starts at another tag, so that the tags before do not recur. */
static void reset(struct world *w)
{
	u32 i;

	slbn_link_init(&w->v, w->now, w->resets++ * 4096);
	if (w->resets > 15)
		w->forged = true;
	w->v.memory = w->memory;
	memset(w->memory, 0, entries(w) * sizeof(*w->memory));
	for (i = 0; i < SESSIONS; i++) {
		w->sessions[i].seen = false;
		w->sessions[i].tag = SLBN_NO_TAG;
	}
}

/* Another link updates the packet for its own hop. */
static void other_link(struct world *w, struct flight *flight)
{
	u8 hop = draw(&w->in, 0, SLOTS - 1);
	u64 rate = draw_rate(&w->in);

	if (hop == flight->session || hop >= flight->pkt.slots)
		return;
	flight->tags[hop] = draw(&w->in, 0, 0xffff);
	flight->pkt.B ^= 1ULL << hop;
	if (rate < flight->pkt.bw || flight->pkt.bottleneck == hop) {
		flight->pkt.bw = rate;
		flight->pkt.bottleneck = hop;
	}
}

/* Change a field to any valid value. */
static void forge(struct world *w, struct flight *flight)
{
	struct slbn_packet *pkt = &flight->pkt;

	w->forged = true;
	switch (draw(&w->in, 0, 10)) {
	case 0:
		pkt->type = draw(&w->in, 1, SLBN_TYPE_MAX);
		break;
	case 1:
		pkt->hop = draw(&w->in, 0, pkt->slots);
		break;
	case 2:
		pkt->bottleneck = draw(&w->in, 0, pkt->slots);
		if (pkt->bottleneck == pkt->slots)
			pkt->bottleneck = SLBN_NO_HOP;
		break;
	case 3:
		pkt->B = draw64(&w->in) &
			 (pkt->slots == 64 ? ~0ULL : (1ULL << pkt->slots) - 1);
		break;
	case 4:
		pkt->bw2 = draw_rate(&w->in);
		break;
	case 5:
		pkt->bw1 = draw_rate(&w->in);
		break;
	case 6:
		pkt->bw = draw_rate(&w->in);
		break;
	case 7:
		pkt->seq += draw64(&w->in);
		break;
	case 8:
		pkt->id[draw8(&w->in) % 2] += draw8(&w->in);
		break;
	case 9:
		w->flooded = true;
		w->v.cur.BF = ~draw_rate(&w->in);
		break;
	default:
		flight->tags[draw(&w->in, 0, pkt->slots - 1)] =
			w->v.tag - draw8(&w->in) % 4;
	}
}

static void operate(struct world *w)
{
	u8 operation = draw8(&w->in);
	u8 which = draw8(&w->in);
	struct flight *flight = &w->flights[which % FLIGHTS];
	struct session *session = &w->sessions[which / FLIGHTS % SESSIONS];
	u8 at = session - w->sessions;
	/* A session joins once, with one of several ids. */
	bool joined = session->src.pkt.type != 0;
	u64 id[2] = { at, which };

	switch (operation % OPERATIONS) {
	case JOIN:
		if (!joined)
			slbn_source_join(&session->src, id,
					 fp_max64(draw_rate(&w->in), 1), SLOTS);
		break;
	case SEND:
	case ROUND_TRIP:
		if (!joined)
			break;
		memset(flight, 0, sizeof(*flight));
		flight->pkt = session->src.pkt;
		memcpy(flight->tags, session->src.tags, sizeof(flight->tags));
		flight->session = at;
		flight->pkt.hop = at;
		if (operation % OPERATIONS == SEND)
			break;
		process(w, flight);
		slbn_destination_reply(&flight->pkt);
		process(w, flight);
		slbn_source_ack(&session->src, &flight->pkt, flight->tags);
		break;
	case PROCESS:
		if (flight->pkt.type)
			process(w, flight);
		break;
	case REPLY:
		slbn_destination_reply(&flight->pkt);
		break;
	case ACK:
		slbn_source_ack(&w->sessions[flight->session].src, &flight->pkt,
				flight->tags);
		break;
	case COPY:
		memcpy(&w->flights[draw8(&w->in) % FLIGHTS], flight,
		       sizeof(*flight));
		break;
	case OTHER_LINK:
		if (flight->pkt.type)
			other_link(w, flight);
		break;
	case WAIT:
		w->now += draw(&w->in, 0, 3000) * MS;
		break;
	case CHANGE:
		slbn_source_change(&session->src,
				   fp_max64(draw_rate(&w->in), 1));
		break;
	case LEAVE:
		slbn_source_leave(&session->src);
		break;
	case SET_RATE:
		w->p.C = fp_min64(fp_max64(draw_rate(&w->in), 1000),
				  1000000000000);
		break;
	case SET_EPOCH:
		w->p.epoch = draw(&w->in, 0, 100) * 10 * MS;
		break;
	case RESET:
		reset(w);
		break;
	case FORGE:
		if (flight->pkt.type)
			forge(w, flight);
		break;
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct world w;

	memset(&w, 0, sizeof(w));
	w.in.at = data;
	w.in.left = size;
	w.p.rows = "\0\1\2\4"[draw8(&w.in) % 4];
	w.p.C = 100000000;
	w.p.epoch = 1000 * MS;
	w.p.salt = draw8(&w.in);
	w.now = 1000 * MS;
	/* Without memory, copies of packets are counted twice. */
	w.forged = !w.p.rows;
	w.memory = calloc(entries(&w), sizeof(*w.memory));
	reset(&w);
	check_link(&w);
	while (w.in.left) {
		operate(&w);
		check_link(&w);
	}
	free(w.memory);
	return 0;
}
