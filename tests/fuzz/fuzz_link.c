// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the link's task of SLBN: one link, some sessions and their packets, with
 * commit on or off.
 *
 *	sources --- other links --- the link --- other links --- destinations
 *
 * The octets become operations: sessions join, send, change their demand and
 * leave; the link processes their packets; destinations reply, sources receive
 * acknowledgments; packets are copied, lost and reordered; other links update
 * them; time passes, leases end, ledgers rotate, parameters change, the link
 * restarts; and packets are forged.
 *
 * Invariants after each operation:
 *
 * - No number wraps, the share of weight 1 is between P / N and P, the memory
 *   is consistent, forwarded packets are valid, and dropped ones have changed
 *   nothing.
 * - Unless packets are forged, the ledgers are exact: N, NR, BF and A are the
 *   sums over what the link recorded last for each session, and nothing was
 *   clamped. Without memory this holds until a packet is copied, retransmitted
 *   or overtaken.
 * - With commit on, while no packet is forged, the sum of the rates in use
 *   is at most the capacity, or what was held when it fell; A is at most that,
 *   or only falls, but for sessions that return after their lease; the link
 *   grants no more than that leaves; it holds at least what a session uses, and
 *   A is at least what it holds. Without memory A may be larger, and packets must
 *   not be duplicated.
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
	SET_HEADROOM,
	SET_EPOCH,
	RESET,
	FORGE,
	OPERATIONS,
};

/**
 * struct flight - a packet in flight
 * @pkt: packet
 * @slots: its slots
 * @session: its session
 */
struct flight {
	struct slbn_packet pkt;
	struct slbn_slot slots[SLBN_HOPS_MAX];
	u8 session;
};

/**
 * struct session - a session, and what the link recorded for it last
 * @src: its source
 * @tag: tag of the ledger that counts it, not masked, or SLBN_NO_TAG
 * @in_R: it is in R
 * @rate: its rate in BF if it is in F
 * @held: its rate in A
 * @seen: the link has processed a packet of it
 * @seq: sequence number of that packet
 * @late: the link has processed a copy of that packet after the ledger that
 *	counted it was gone, so that it records the use of then anew (A3 of
 *	docs/protocol.md excludes such copies)
 */
struct session {
	struct slbn_source src;
	u16 tag;
	bool in_R;
	u64 rate;
	u64 held;
	bool seen;
	u32 seq;
	bool late;
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
 * @limit: capacity, or what may have been in use when it fell, bit/s
 * @top: largest A that the next operation may leave, bit/s
 * @forged: the link has processed forged packets, or may have
 * @inexact: the sums may differ from what the link recorded: it has no memory,
 *	and packets were copied, retransmitted or overtaken
 * @unsafe: what the commit assumes of packets, epochs or leases does not hold
 * @flooded: BF or A was set to a value that packets cannot reach so soon
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
	u64 limit;
	u64 top;
	bool forged;
	bool inexact;
	bool unsafe;
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

	HOLDS(ledger->N <= w->processed * SLBN_WEIGHT_MAX);
	HOLDS(ledger->NR <= w->processed * SLBN_WEIGHT_MAX);
	HOLDS(w->flooded || ledger->BF <= w->processed * SLBN_RATE_MAX);
	HOLDS(w->flooded || ledger->A <= w->processed * 2 * SLBN_RATE_MAX);
	HOLDS(w->flooded || w->p.commit || !ledger->A);
	if (w->forged || w->inexact)
		return;
	for (i = 0; i < SESSIONS; i++) {
		const struct session *session = &w->sessions[i];

		if (session->tag == SLBN_NO_TAG || session->tag != tag)
			continue;
		sum.N += session->src.pkt.weight;
		sum.NR += session->in_R ? session->src.pkt.weight : 0;
		sum.BF += session->rate;
		sum.A += session->held;
	}
	HOLDS(ledger->N == sum.N);
	HOLDS(ledger->NR == sum.NR);
	HOLDS(ledger->BF == sum.BF);
	HOLDS(ledger->A == sum.A);
}

/* Used entries come first in a row; a session has at most one, in its row. */
static void check_row(const struct world *w,
		      const struct slbn_memory_entry *row)
{
	u32 way, other;

	for (way = 0; way < SLBN_MEMORY_WAYS && row[way].used; way++) {
		u64 hash = row[way].session;

		HOLDS(row[way].origin <= SLBN_OF_REPLY);
		HOLDS(slbn_memory_row(&w->p, &w->v, hash) == row);
		HOLDS(row[way].rate <= SLBN_RATE_MAX);
		HOLDS(row[way].held <= 2 * SLBN_RATE_MAX);
		HOLDS(!row[way].held || row[way].tag != SLBN_NO_TAG);
		HOLDS(!row[way].rate ||
		      (!row[way].in_R && row[way].tag != SLBN_NO_TAG));
		for (other = 0; other < way; other++)
			HOLDS(!slbn_memory_matches(&row[other], hash));
	}
	for (; way < SLBN_MEMORY_WAYS; way++)
		HOLDS(!row[way].used);
}

/* The tag that the packet carries for a hop, not masked. */
static u16 tag_of(const struct world *w, const struct flight *flight, u8 hop)
{
	return slbn_unmask_tag(flight->slots[hop].tag,
			       slbn_session_hash(&w->p, &flight->pkt));
}

/* Whether a ledger counts the session since the link restarted. */
static bool is_counted(const struct world *w, const struct session *session)
{
	return session->tag != SLBN_NO_TAG &&
	       (session->tag == w->v.tag || session->tag == w->v.prev_tag);
}

/* The link never promises more than its capacity. */
static void check_commit(struct world *w)
{
	u64 A = w->v.cur.A + w->v.prev.A;
	u64 used = 0, held = 0;
	u32 i;

	if (!w->p.commit || w->forged || w->unsafe)
		return;
	HOLDS(w->v.cur.A <= A);
	/* Without memory, a retransmission can leave too much in A. */
	HOLDS(w->inexact || A <= w->top);
	for (i = 0; i < SESSIONS; i++) {
		const struct session *session = &w->sessions[i];

		used += session->src.rate;
		/* Before it is counted, its lease was given by others. */
		if (!is_counted(w, session))
			continue;
		HOLDS(session->held >= session->src.rate);
		held += session->held;
	}
	HOLDS(used <= w->limit);
	HOLDS(A >= held);
	/* Once it is below the capacity it stays there. */
	if (w->now >= w->v.quiet_until)
		w->limit = fp_max64(w->p.C, fp_min64(w->limit, A));
	w->top = fp_max64(w->limit, A);
}

static void check_link(struct world *w)
{
	u64 share = slbn_link_share(&w->p, &w->v, 1);
	u64 N = fp_max64(w->v.cur.N + w->v.prev.N, 1);
	u32 at;

	check_ledger(w, &w->v.cur, w->v.tag);
	check_ledger(w, &w->v.prev, w->v.prev_tag);
	check_commit(w);
	HOLDS(share <= w->p.P);
	HOLDS(share >= w->p.P / N);
	HOLDS(slbn_link_share(&w->p, &w->v, SLBN_WEIGHT_MAX) >= share);
	HOLDS(slbn_link_share(&w->p, &w->v, SLBN_WEIGHT_MAX) <= w->p.P);
	HOLDS(w->v.tag != SLBN_NO_TAG && w->v.tag != w->v.prev_tag);
	for (at = 0; at < entries(w); at += SLBN_MEMORY_WAYS)
		check_row(w, &w->memory[at]);
	HOLDS(w->forged || w->inexact || !w->s.clamped);
}

/* Whether the link has processed a newer packet of the session. */
static bool is_old(const struct world *w, const struct flight *flight)
{
	const struct session *session = &w->sessions[flight->session];

	return session->seen && (s32)(flight->pkt.seq - session->seq) < 0;
}

/* MUST 3 of docs/protocol.md. */
static void check_dropped(const struct world *w, const struct world *before,
			  const struct slbn_memory_entry *memory,
			  const struct flight *flight,
			  const struct flight *flight_before)
{
	struct slbn_link_vars expected = before->v;

	HOLDS(!memcmp(flight, flight_before, sizeof(*flight)));
	HOLDS(w->forged || w->inexact ||
	      (w->s.stale > before->s.stale) == is_old(w, flight));
	/* A due rotation happens all the same, unless no slot was left. */
	if (w->s.too_many_hops == before->s.too_many_hops &&
	    w->v.tag != before->v.tag)
		slbn_link_rotate(&w->p, &expected, w->now);
	HOLDS(!memcmp(&w->v, &expected, sizeof(expected)));
	HOLDS(!memcmp(w->memory, memory, entries(w) * sizeof(*memory)));
	HOLDS(w->s.joins == before->s.joins &&
	      w->s.probes == before->s.probes && w->s.acks == before->s.acks &&
	      w->s.leaves == before->s.leaves &&
	      w->s.leave_acks == before->s.leave_acks &&
	      w->s.new_sessions == before->s.new_sessions &&
	      w->s.migrated == before->s.migrated &&
	      w->s.limited == before->s.limited &&
	      w->s.clamped == before->s.clamped);
	HOLDS(w->s.stale + w->s.wrong_path + w->s.too_many_hops +
		      w->s.overuse ==
	      before->s.stale + before->s.wrong_path + before->s.too_many_hops +
		      before->s.overuse + 1);
	HOLDS(w->s.overuse == before->s.overuse || w->forged ||
	      w->sessions[flight->session].late);
}

/* What a forwarded packet grants, and its code of what the link holds. */
static void check_grant(const struct world *w, const struct session *session,
			const struct slbn_packet *was,
			const struct slbn_packet *pkt,
			const struct slbn_slot *slot)
{
	u64 A = fp_max64(w->v.cur.A + w->v.prev.A, w->v.cur.A);
	u64 held = pkt->use + slbn_decode(slot->code);
	/* It may keep what it held for a copy of the packet. */
	bool keeps = w->forged || (session->seen && session->seq == pkt->seq &&
				   session->held == held);

	if (!w->p.commit || !slbn_is_upstream(was)) {
		HOLDS(!slot->code || keeps);
		HOLDS(pkt->g == was->g && pkt->epoch == was->epoch);
		return;
	}
	HOLDS(pkt->g <= was->g && pkt->g <= pkt->bw);
	HOLDS(w->forged || pkt->g <= fp_max64(pkt->use, held));
	HOLDS(pkt->epoch <= was->epoch);
	HOLDS(!w->p.epoch || pkt->epoch <= w->p.epoch / 1000);
	if (keeps)
		return;
	/* A rise needs room; the hold exceeds the grant by a rounding only. */
	HOLDS(!slot->code || (A <= w->p.C && w->now >= w->v.quiet_until));
	HOLDS(!slot->code || held - pkt->g <= (pkt->g - pkt->use) >> 10);
}

static void check_forwarded(const struct world *w, const struct world *before,
			    const struct flight *flight,
			    const struct flight *flight_before, u8 hop)
{
	const struct session *session = &before->sessions[flight->session];
	const struct slbn_packet *was = &flight_before->pkt;
	const struct slbn_packet *pkt = &flight->pkt;
	u64 e = 1ULL << hop;
	u8 i;

	HOLDS(w->forged || w->inexact || !is_old(w, flight));
	HOLDS(is_valid(pkt, flight->slots));
	HOLDS(slbn_is_upstream(was) ? pkt->hop == hop : pkt->hop == hop + 1);
	HOLDS(!((pkt->B ^ was->B) & ~e));
	for (i = 0; i < pkt->slots; i++)
		HOLDS(i == hop ||
		      !memcmp(&flight->slots[i], &flight_before->slots[i],
			      sizeof(*flight->slots)));
	HOLDS(pkt->type == was->type && pkt->seq == was->seq &&
	      pkt->bw1 == was->bw1 && pkt->bw2 == was->bw2 &&
	      pkt->use1 == was->use1 && pkt->use == was->use &&
	      pkt->weight == was->weight && pkt->again == was->again &&
	      pkt->slots == was->slots);
	HOLDS(pkt->bottleneck == was->bottleneck || pkt->bottleneck == hop);
	HOLDS(w->s.joins + w->s.probes + w->s.acks + w->s.leaves ==
	      before->s.joins + before->s.probes + before->s.acks +
		      before->s.leaves + (was->type != SLBN_LEAVE_ACK));
	switch (was->type) {
	case SLBN_LEAVE_ACK:
		HOLDS(flight->slots[hop].tag == flight_before->slots[hop].tag);
		HOLDS(w->s.leave_acks == before->s.leave_acks + 1);
		/* Only the answer to a Leave that the link has processed. */
		HOLDS(!w->p.rows || w->forged ||
		      (session->seen && session->seq == pkt->seq &&
		       session->tag == SLBN_NO_TAG));
		return;
	case SLBN_LEAVE:
		HOLDS(flight->slots[hop].tag == SLBN_NO_TAG && !(pkt->B & e));
		HOLDS(!flight->slots[hop].code);
		return;
	}
	HOLDS(tag_of(w, flight, hop) == w->v.tag);
	check_grant(w, session, was, pkt, &flight->slots[hop]);
	if (pkt->B & e) {
		HOLDS(pkt->bottleneck == hop);
		HOLDS(was->type == SLBN_JOIN ? pkt->bw == was->bw :
					       pkt->bw <= w->p.P);
	} else {
		HOLDS(pkt->bw == was->bw && pkt->bottleneck == was->bottleneck);
	}
}

/* Whether a ledger that the next packet finds counts the session. */
static bool is_known(const struct world *w, const struct session *session)
{
	struct world next;

	memcpy(&next, w, sizeof(next));
	slbn_link_rotate(&next.p, &next.v, next.now);
	return is_counted(&next, session);
}

/* Whether the memory shows that a source was not granted what it uses. */
static bool is_overuse(const struct world *w, const struct flight *flight)
{
	const struct slbn_memory_entry *entry = slbn_memory_find(
		&w->p, &w->v, slbn_session_hash(&w->p, &flight->pkt));
	struct world next;

	memcpy(&next, w, sizeof(next));
	slbn_link_rotate(&next.p, &next.v, next.now);
	return w->p.commit && entry && slbn_ledger_of(&next.v, entry->tag) &&
	       entry->origin == SLBN_OF_FIRST && flight->pkt.use > entry->held;
}

/* --- operations --------------------------------------------------------- */

static void process(struct world *w, struct flight *flight)
{
	struct session *session = &w->sessions[flight->session];
	struct slbn_memory_entry memory[ROWS_MAX * SLBN_MEMORY_WAYS];
	u8 hop = slbn_current_hop(&flight->pkt);
	struct flight flight_before;
	struct world before;
	struct slbn_slot none = { .tag = SLBN_NO_TAG };
	enum slbn_verdict verdict;
	bool overuse = is_overuse(w, flight);
	bool known = is_known(w, session);

	/* A path that crosses the link twice or at another hop counts as forged. */
	if (hop != flight->session)
		w->forged = true;
	memcpy(&before, w, sizeof(before));
	memcpy(&flight_before, flight, sizeof(flight_before));
	memcpy(memory, w->memory, entries(w) * sizeof(*memory));
	w->processed++;
	/* The link adds what a session uses even if it does not know it. */
	if (!known)
		w->top += flight->pkt.use;
	verdict = slbn_link_process(
		&w->p, &w->v, &w->s, &flight->pkt,
		hop < flight->pkt.slots ? &flight->slots[hop] : &none, w->now);
	HOLDS(none.tag == SLBN_NO_TAG && !none.code);
	HOLDS(verdict != SLBN_FORWARD || !overuse);
	HOLDS(verdict != SLBN_DROP_OVERUSE || overuse);
	if (verdict != SLBN_FORWARD) {
		check_dropped(w, &before, memory, flight, &flight_before);
		return;
	}
	check_forwarded(w, &before, flight, &flight_before, hop);
	if (flight->pkt.type == SLBN_LEAVE_ACK)
		return;
	session->late = session->seen && session->seq == flight->pkt.seq &&
			(session->late || !known);
	session->seen = true;
	session->seq = flight->pkt.seq;
	session->tag = tag_of(w, flight, hop);
	session->in_R = flight->pkt.B >> hop & 1;
	session->rate = session->tag == SLBN_NO_TAG || session->in_R ?
				0 :
				flight->pkt.bw1;
	session->held =
		session->tag == SLBN_NO_TAG || !w->p.commit ?
			0 :
			flight->pkt.use + slbn_decode(flight->slots[hop].code);
}

/* Lose all copies of packets but the one of each session's current one. */
static void lose_copies(struct world *w)
{
	u32 i, other;

	for (i = 0; i < FLIGHTS; i++) {
		struct flight *flight = &w->flights[i];
		bool lost = flight->pkt.seq !=
			    w->sessions[flight->session].src.pkt.seq;

		for (other = 0; other < i; other++)
			lost |= w->flights[other].pkt.type &&
				w->flights[other].session == flight->session;
		if (lost)
			flight->pkt.type = 0;
	}
}

/*
 * The link restarts, and is quiet until the leases of before have ended. It
 * cannot recognize copies of packets from before. Each reset starts at another
 * tag, so that the tags before do not recur.
 */
static void reset(struct world *w)
{
	u64 A = w->v.cur.A + w->v.prev.A;
	u32 i;

	if (w->now < w->v.quiet_until)
		A = w->limit;
	w->limit = fp_max64(w->limit, A);
	slbn_link_init(&w->v, w->now, w->now + w->p.epoch, w->resets++ * 4096);
	if (w->resets > 15)
		w->forged = true;
	/* Without an epoch a rate has no lease. */
	w->unsafe |= w->resets > 1 && !w->p.epoch;
	w->v.memory = w->memory;
	memset(w->memory, 0, entries(w) * sizeof(*w->memory));
	lose_copies(w);
	for (i = 0; i < SESSIONS; i++) {
		w->sessions[i].seen = false;
		w->sessions[i].tag = SLBN_NO_TAG;
		w->sessions[i].held = 0;
	}
}

/* Another link updates the packet for its own hop. */
static void other_link(struct world *w, struct flight *flight)
{
	u8 hop = draw(&w->in, 0, SLOTS - 1);
	u64 rate = draw_rate(&w->in);

	if (hop == flight->session || hop >= flight->pkt.slots)
		return;
	flight->slots[hop].tag = draw(&w->in, 1, 0xffff);
	flight->slots[hop].code = 1009 * flight->slots[hop].tag;
	flight->pkt.B ^= 1ULL << hop;
	if (slbn_is_upstream(&flight->pkt)) {
		flight->pkt.g = fp_min64(flight->pkt.g, draw_rate(&w->in));
		flight->pkt.epoch =
			fp_min64(flight->pkt.epoch, draw(&w->in, 0, 4000000));
	}
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
	switch (draw(&w->in, 0, 17)) {
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
	case 10:
		w->flooded = true;
		w->v.cur.A = ~draw_rate(&w->in);
		break;
	case 11:
		pkt->use1 = draw_rate(&w->in);
		break;
	case 12:
		pkt->use = draw_rate(&w->in);
		break;
	case 13:
		pkt->g = draw_rate(&w->in);
		break;
	case 14:
		pkt->epoch = draw(&w->in, 0, 0xffffffff);
		break;
	case 15:
		pkt->weight = draw(&w->in, 1, SLBN_WEIGHT_MAX);
		break;
	case 16:
		pkt->again = !pkt->again;
		break;
	default:
		flight->slots[draw(&w->in, 0, pkt->slots - 1)].tag =
			slbn_mask_tag(w->v.tag - draw8(&w->in) % 4,
				      slbn_session_hash(&w->p, pkt));
		flight->slots[draw(&w->in, 0, pkt->slots - 1)].code =
			draw(&w->in, 0, SLBN_CODE_MAX);
	}
}

/*
 * Send a session's packet. Without memory, earlier copies must be lost: the
 * source waits until they cannot return.
 */
static void send_packet(struct world *w, struct flight *flight, u8 at)
{
	struct session *session = &w->sessions[at];
	u32 i;

	slbn_source_transmit(&session->src, w->now);
	memset(flight, 0, sizeof(*flight));
	w->inexact |= !w->p.rows && session->src.pkt.again;
	for (i = 0; i < FLIGHTS; i++) {
		const struct flight *other = &w->flights[i];

		if (w->p.rows || !other->pkt.type || other->session != at)
			continue;
		w->inexact = true;
		w->unsafe |= other->pkt.seq == session->src.pkt.seq;
	}
	flight->pkt = session->src.pkt;
	memcpy(flight->slots, session->src.slot, sizeof(flight->slots));
	flight->session = at;
	flight->pkt.hop = at;
}

static void reply(struct flight *flight)
{
	if (slbn_destination_reply(&flight->pkt))
		slbn_clear_slots(flight->slots, &flight->pkt);
}

static void round_trip(struct world *w, struct flight *flight, u8 at)
{
	send_packet(w, flight, at);
	process(w, flight);
	reply(flight);
	process(w, flight);
	slbn_source_ack(&w->sessions[at].src, &flight->pkt, flight->slots,
			w->now);
}

/* Time passes; leases end in time. */
static void wait(struct world *w)
{
	u32 i;

	w->now += draw(&w->in, 0, 3000) * MS;
	for (i = 0; i < SESSIONS; i++)
		slbn_source_expire(&w->sessions[i].src, w->now);
}

static void set_rate(struct world *w)
{
	u64 C = fp_min64(fp_max64(draw_rate(&w->in), 1000), 1000000000000);

	w->p.P = fp_max64(C - C / 1000 * draw(&w->in, 0, 500), 1);
	w->p.C = C;
	/* What is held stays until the plan takes it back. */
	w->limit = fp_max64(w->limit, C);
	w->top = fp_max64(w->top, w->limit);
}

static void set_epoch(struct world *w)
{
	u64 epoch = draw(&w->in, 0, 100) * 10 * MS;

	/* Leases of the longer epoch last longer than the ledgers. */
	w->unsafe |= epoch && (!w->p.epoch || epoch < w->p.epoch);
	w->p.epoch = epoch;
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
					 fp_max64(draw_rate(&w->in), 1),
					 draw8(&w->in) % 8 * which + 1, SLOTS);
		break;
	case SEND:
		if (joined)
			send_packet(w, flight, at);
		break;
	case ROUND_TRIP:
		if (joined)
			round_trip(w, flight, at);
		break;
	case PROCESS:
		if (flight->pkt.type)
			process(w, flight);
		break;
	case REPLY:
		/* The link is on the path. */
		if (flight->pkt.hop > flight->session)
			reply(flight);
		break;
	case ACK:
		if (slbn_is_upstream(&flight->pkt) &&
		    flight->pkt.hop == flight->session)
			slbn_source_ack(&w->sessions[flight->session].src,
					&flight->pkt, flight->slots, w->now);
		break;
	case COPY:
		w->inexact |= !w->p.rows;
		w->unsafe |= !w->p.rows;
		memmove(&w->flights[draw8(&w->in) % FLIGHTS], flight,
			sizeof(*flight));
		break;
	case OTHER_LINK:
		if (flight->pkt.type)
			other_link(w, flight);
		break;
	case WAIT:
		wait(w);
		break;
	case CHANGE:
		slbn_source_change(&session->src,
				   fp_max64(draw_rate(&w->in), 1));
		break;
	case LEAVE:
		slbn_source_leave(&session->src);
		break;
	case SET_RATE:
		set_rate(w);
		break;
	case SET_HEADROOM:
		w->p.P = w->p.C - w->p.C / 1000 * draw(&w->in, 0, 500);
		break;
	case SET_EPOCH:
		set_epoch(w);
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
	u8 choice;

	memset(&w, 0, sizeof(w));
	w.in.at = data;
	w.in.left = size;
	choice = draw8(&w.in);
	w.p.rows = "\0\1\2\4"[choice % 4];
	w.p.commit = choice & 4;
	w.p.C = 100000000;
	w.p.P = choice & 8 ? 95000000 : w.p.C;
	w.p.epoch = 1000 * MS;
	w.p.hash_key[0] = draw8(&w.in);
	w.now = 1000 * MS;
	w.limit = w.p.C;
	w.top = w.p.C;
	w.memory = calloc(entries(&w), sizeof(*w.memory));
	reset(&w);
	w.v.quiet_until = 0;
	check_link(&w);
	while (w.in.left) {
		operate(&w);
		check_link(&w);
	}
	free(w.memory);
	return 0;
}
