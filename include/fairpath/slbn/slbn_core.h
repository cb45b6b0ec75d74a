/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SLBN: explicit max-min fair rates with constant state per link.
 *
 * Mozo, Lopez-Presa, Fernandez Anta, "SLBN: A Scalable Max-min Fair Algorithm
 * for Rate-Based Explicit Congestion Control", NCA 2012, figures 1 and 2: the
 * tasks of the source, the link and the destination, and the names: a session's
 * packet travels down its path and back; a link counts the sessions that cross
 * it (N), those that it restricts itself (NR, the set R), and sums the rates of
 * the others, which are restricted elsewhere (BF, the set F). In which of the
 * two sets a session stands is not kept by the link but by the packet (the set
 * B of hops); so is the rate that is in BF: bw'' when the packet goes down, bw'
 * when it comes back. The link that lowered bw last is b.
 *
 * Where the paper is silent or wrong:
 * - A joining session is counted in NR before its share is computed, so NR is
 *   never 0 there.
 * - The source's demand D is a link of its own, above hop 0. As printed, a
 *   session that is restricted by its demand alone can be put in R by a link
 *   that it does not fill, and never notices that its demand was raised.
 * - bw > share is strict and without tolerance: with any other rule rates were
 *   seen to oscillate.
 *
 * The paper assumes that no packet is lost and that sources say goodbye. To
 * live without that, a link keeps its three integers twice, in a current and a
 * previous ledger, and turns the page each epoch; the packet carries for each
 * hop a tag that says in which ledger the session stands there. A live session
 * is carried over at its next visit; a dead one is gone with its ledger, as is
 * every error, after two epochs. A session whose tag the link does not know is
 * counted as new. And since a packet that is sent again tells of a time before
 * the link saw it first, a link remembers its most recent visits, and believes
 * its memory rather than the packet. With epoch 0 and no memory this is the
 * paper's algorithm.
 *
 * Rates are integers, bit/s, and divisions round down: what is added is what
 * will be subtracted. BF is at most N times the largest rate, 10^18 for 10^6
 * sessions of 1 Tbit/s, which 64 bits hold. What would fall below zero, after
 * errors, is clamped and counted, and so is what would not fit.
 */
#ifndef SLBN_CORE_H
#define SLBN_CORE_H

#include <fairpath/core.h>
#include <uapi/fairpath/slbn.h>

/* Tag of a hop at which the session is not counted; no ledger has it. */
#define SLBN_NO_TAG 0

/**
 * struct slbn_packet - what a link has to know of a control packet
 * @id: the session
 * @seq: sequence; a packet that is sent again keeps it
 * @type: enum slbn_type
 * @hop: links passed on the way down, not yet passed again on the way up
 * @slots: hops for which there are tags, at most SLBN_HOPS_MAX
 * @bottleneck: the paper's b: the hop that set @bw last, or SLBN_NO_HOP: only the demand restricts it
 * @B: the hops at which the session is in R, bit by bit
 * @bw2: bw'', bit/s
 * @bw1: bw', bit/s
 * @bw: candidate for the session's rate, bit/s
 * @demand: what the session asks for, bit/s
 */
struct slbn_packet {
	u64 id[2];
	u32 seq;
	u8 type;
	u8 hop;
	u8 slots;
	u8 bottleneck;
	u64 B;
	u64 bw2;
	u64 bw1;
	u64 bw;
	u64 demand;
};

/**
 * struct slbn_ledger - the paper's three integers
 * @BF: sum of the rates of the sessions in F, bit/s
 * @NR: sessions in R
 * @N: sessions
 */
struct slbn_ledger {
	u64 BF;
	u64 NR;
	u64 N;
};

/**
 * struct slbn_memory_entry - what a link wrote for a session at its last visit
 * @id: the session
 * @rate: what was added to BF, if it is in F
 * @seq: the packet
 * @tag: the ledger, or SLBN_NO_TAG after a Leave
 * @in_R: the session was put in R
 * @used: 0: nothing is remembered here
 */
struct slbn_memory_entry {
	u64 id[2];
	u64 rate;
	u32 seq;
	u16 tag;
	u8 in_R;
	u8 used;
};

/* A session is remembered in one of the places of its row; the oldest makes way. */
#define SLBN_MEMORY_WAYS 4U

/**
 * struct slbn_link_params - what the user chooses
 * @C: the link's capacity, bit/s, at most 10^12
 * @epoch: ns between pages; 0: never
 * @rows: rows of memory, a power of 2 or 0: no memory
 * @salt: random: makes rows unpredictable
 */
struct slbn_link_params {
	u64 C;
	u64 epoch;
	u32 rows;
	u64 salt;
};

/**
 * struct slbn_link_vars - a link's state
 * @cur: the current ledger
 * @prev: the previous one
 * @epoch_start: when @cur became the current ledger, ns
 * @tag: of @cur
 * @prev_tag: of @prev
 * @memory: rows * SLBN_MEMORY_WAYS visits, the most recent of a row first
 */
struct slbn_link_vars {
	struct slbn_ledger cur;
	struct slbn_ledger prev;
	u64 epoch_start;
	u16 tag;
	u16 prev_tag;
	struct slbn_memory_entry *memory;
};

/**
 * struct slbn_link_stats - what happened
 * @joins: packets by type:
 * @probes: each kind counts what was processed
 * @acks: ProbeAck
 * @leaves: Leave
 * @new_sessions: sessions counted as new, joins included
 * @migrated: sessions carried over from the previous ledger
 * @corrected: visits at which memory was believed and the packet said otherwise
 * @stale: packets older than what memory has of their session
 * @wrong_path: packets that came up and know none of this link's ledgers
 * @too_many_hops: packets without room for another hop
 * @clamped: subtractions from a ledger that did not have as much, and sums that
 *	did not fit
 */
struct slbn_link_stats {
	u64 joins;
	u64 probes;
	u64 acks;
	u64 leaves;
	u64 new_sessions;
	u64 migrated;
	u64 corrected;
	u64 stale;
	u64 wrong_path;
	u64 too_many_hops;
	u64 clamped;
};

/**
 * enum slbn_verdict - what is to become of a packet
 * @SLBN_FORWARD: send it on, as it now is
 * @SLBN_DROP_STALE: drop it: its session has gone on
 * @SLBN_DROP_WRONG_PATH: drop it: it did not come down here
 * @SLBN_DROP_TOO_MANY_HOPS: drop it: the path is longer than it has room for
 */
enum slbn_verdict {
	SLBN_FORWARD,
	SLBN_DROP_STALE,
	SLBN_DROP_WRONG_PATH,
	SLBN_DROP_TOO_MANY_HOPS,
};

static inline u64 slbn_add(struct slbn_link_stats *s, u64 to, u64 amount)
{
	if (amount <= ~0ULL - to)
		return to + amount;
	s->clamped++;
	return ~0ULL;
}

static inline u64 slbn_sub(struct slbn_link_stats *s, u64 from, u64 amount)
{
	if (from >= amount)
		return from - amount;
	s->clamped++;
	return 0;
}

static inline u16 slbn_next_tag(u16 tag)
{
	return tag == 0xffff ? 1 : tag + 1;
}

/**
 * slbn_link_init() - a link that no session crosses
 * @v: state; memory is set, and cleared, by the caller
 * @now: ns
 * @random: makes its tags differ from other links'
 */
static inline void slbn_link_init(struct slbn_link_vars *v, u64 now, u32 random)
{
	const struct slbn_ledger empty = { 0 };

	v->cur = empty;
	v->prev = empty;
	v->epoch_start = now;
	v->tag = slbn_next_tag(random % 0xffff);
	v->prev_tag = SLBN_NO_TAG;
}

/**
 * slbn_link_rotate() - turn the page if an epoch is over
 * @p: parameters
 * @v: state
 * @now: ns, not before the last call's
 *
 * Called by slbn_link_process(); others who read the state call it before.
 */
static inline void slbn_link_rotate(const struct slbn_link_params *p,
				    struct slbn_link_vars *v, u64 now)
{
	const struct slbn_ledger empty = { 0 };
	u64 pages;

	if (!p->epoch || now - v->epoch_start < p->epoch)
		return;
	pages = fp_div(now - v->epoch_start, p->epoch);
	v->epoch_start += pages * p->epoch;
	v->prev = pages == 1 ? v->cur : empty;
	v->prev_tag = pages == 1 ? v->tag : SLBN_NO_TAG;
	v->cur = empty;
	/* Skipped ones are not given again soon, though nobody has them. */
	v->tag = slbn_next_tag(v->tag);
}

/**
 * slbn_link_share() - what a session in R may have
 * @p: parameters
 * @v: state
 *
 * The paper's share, max((C - BF) / NR, C / N), of both ledgers together.
 *
 * Return: bit/s; C if no session is there.
 */
static inline u64 slbn_link_share(const struct slbn_link_params *p,
				  const struct slbn_link_vars *v)
{
	/* Each is far below 2^63 but after errors. */
	u64 BF = fp_max64(v->cur.BF + v->prev.BF, v->cur.BF);
	u64 NR = fp_max64(v->cur.NR + v->prev.NR, 1);
	u64 N = fp_max64(v->cur.N + v->prev.N, 1);

	return fp_max64(p->C > BF ? fp_div(p->C - BF, NR) : 0, fp_div(p->C, N));
}

static inline bool slbn_memory_matches(const struct slbn_memory_entry *visit,
				       const struct slbn_packet *pkt)
{
	return visit->used && visit->id[0] == pkt->id[0] &&
	       visit->id[1] == pkt->id[1];
}

static inline struct slbn_memory_entry *
slbn_memory_row(const struct slbn_link_params *p,
		const struct slbn_link_vars *v, const struct slbn_packet *pkt)
{
	u64 mix = (pkt->id[0] ^ p->salt) * 0x9e3779b97f4a7c15ULL;

	mix = (mix ^ mix >> 29 ^ pkt->id[1]) * 0xbf58476d1ce4e5b9ULL;
	return &v->memory[(u32)(mix >> 32 & (p->rows - 1)) * SLBN_MEMORY_WAYS];
}

/* What is remembered of the session, or NULL. */
static inline const struct slbn_memory_entry *
slbn_memory_find(const struct slbn_link_params *p,
		 const struct slbn_link_vars *v, const struct slbn_packet *pkt)
{
	const struct slbn_memory_entry *row;
	u32 way;

	if (!p->rows)
		return NULL;
	row = slbn_memory_row(p, v, pkt);
	for (way = 0; way < SLBN_MEMORY_WAYS; way++)
		if (slbn_memory_matches(&row[way], pkt))
			return &row[way];
	return NULL;
}

static inline void slbn_memory_store(const struct slbn_link_params *p,
				     struct slbn_link_vars *v,
				     const struct slbn_packet *pkt, u16 tag,
				     bool in_R, u64 rate)
{
	struct slbn_memory_entry *row;
	u32 way;

	if (!p->rows)
		return;
	row = slbn_memory_row(p, v, pkt);
	/* It goes first, in its own place or in that of the oldest. */
	for (way = 0; way < SLBN_MEMORY_WAYS - 1; way++)
		if (slbn_memory_matches(&row[way], pkt))
			break;
	for (; way; way--)
		row[way] = row[way - 1];
	row[0].id[0] = pkt->id[0];
	row[0].id[1] = pkt->id[1];
	row[0].rate = rate;
	row[0].seq = pkt->seq;
	row[0].tag = tag;
	row[0].in_R = in_R;
	row[0].used = 1;
}

/* The ledger that a tag names, or NULL. */
static inline struct slbn_ledger *slbn_ledger_of(struct slbn_link_vars *v,
						 u16 tag)
{
	if (tag == SLBN_NO_TAG)
		return NULL;
	if (tag == v->tag)
		return &v->cur;
	return tag == v->prev_tag ? &v->prev : NULL;
}

/**
 * slbn_is_upstream() - which way does a packet go?
 * @pkt: the packet
 *
 * Return: true if it goes back to the source.
 */
static inline bool slbn_is_upstream(const struct slbn_packet *pkt)
{
	return pkt->type == SLBN_PROBE_ACK || pkt->type == SLBN_LEAVE_ACK;
}

/**
 * slbn_current_hop() - the hop that a packet is about to pass
 * @pkt: the packet
 *
 * Return: its number; not below pkt->slots if there is none.
 */
static inline u8 slbn_current_hop(const struct slbn_packet *pkt)
{
	return slbn_is_upstream(pkt) ? (u8)(pkt->hop - 1) : pkt->hop;
}

/**
 * slbn_link_process() - the link's task: figure 2, for every type of packet
 * @p: parameters
 * @v: state
 * @s: statistics
 * @pkt: the packet, which is rewritten; down unless it is an acknowledgment
 * @tag: the packet's tag of slbn_current_hop(), which is rewritten
 * @now: ns
 *
 * The packet is sound (slbn_parse_packet()). If it is dropped, nothing has changed.
 *
 * Return: what is to become of the packet.
 */
static inline enum slbn_verdict
slbn_link_process(const struct slbn_link_params *p, struct slbn_link_vars *v,
		  struct slbn_link_stats *s, struct slbn_packet *pkt, u16 *tag,
		  u64 now)
{
	bool joins = pkt->type == SLBN_JOIN;
	bool up = slbn_is_upstream(pkt);
	u8 hop = slbn_current_hop(pkt);
	struct slbn_ledger *ledger;
	const struct slbn_memory_entry *visit;
	bool in_R;
	u64 rate;
	u64 sh;
	u64 e;

	if (hop >= pkt->slots) {
		if (up) {
			s->wrong_path++;
			return SLBN_DROP_WRONG_PATH;
		}
		s->too_many_hops++;
		return SLBN_DROP_TOO_MANY_HOPS;
	}
	e = 1ULL << hop;
	slbn_link_rotate(p, v, now);

	/* Where does the session stand here: by the packet, or by memory? */
	ledger = joins ? NULL : slbn_ledger_of(v, *tag);
	in_R = pkt->B & e;
	rate = pkt->type == SLBN_PROBE ? pkt->bw2 : pkt->bw1;
	visit = slbn_memory_find(p, v, pkt);
	if (visit) {
		struct slbn_ledger *known = slbn_ledger_of(v, visit->tag);

		if ((s32)(pkt->seq - visit->seq) < 0) {
			s->stale++;
			return SLBN_DROP_STALE;
		}
		s->corrected += known != ledger ||
				(known && (in_R != visit->in_R ||
					   (!in_R && rate != visit->rate)));
		ledger = known;
		in_R = visit->in_R;
		rate = visit->rate;
	}

	if (up && !ledger) {
		/* After a Leave there is nothing to find, and nothing to do. */
		if (pkt->type != SLBN_LEAVE_ACK) {
			s->wrong_path++;
			return SLBN_DROP_WRONG_PATH;
		}
	}
	pkt->hop = up ? hop : hop + 1;
	if (pkt->type == SLBN_LEAVE_ACK)
		return SLBN_FORWARD;

	/* Take the session out of its ledger. */
	if (ledger) {
		ledger->N = slbn_sub(s, ledger->N, 1);
		if (in_R)
			ledger->NR = slbn_sub(s, ledger->NR, 1);
		else
			ledger->BF = slbn_sub(s, ledger->BF, rate);
		s->migrated += ledger == &v->prev;
	} else if (pkt->type != SLBN_LEAVE) {
		s->new_sessions++;
	}
	pkt->B &= ~e;
	if (pkt->type == SLBN_LEAVE) {
		s->leaves++;
		*tag = SLBN_NO_TAG;
		slbn_memory_store(p, v, pkt, SLBN_NO_TAG, false, 0);
		return SLBN_FORWARD;
	}

	/* Count it as in R in the current one, and see whether it belongs there. */
	v->cur.N++;
	v->cur.NR++;
	sh = slbn_link_share(p, v);
	in_R = pkt->bottleneck == hop || pkt->bw > sh;
	if (in_R) {
		pkt->B |= e;
		pkt->bottleneck = hop;
		if (!joins)
			pkt->bw = sh;
	} else {
		v->cur.NR--;
		v->cur.BF = slbn_add(s, v->cur.BF, pkt->bw1);
	}
	*tag = v->tag;
	slbn_memory_store(p, v, pkt, v->tag, in_R, in_R ? 0 : pkt->bw1);
	s->joins += joins;
	s->probes += pkt->type == SLBN_PROBE;
	s->acks += up;
	return SLBN_FORWARD;
}

/**
 * struct slbn_source - the source's task for one session
 * @D: demand, bit/s, at least 1
 * @rate: the session's rate, bit/s; 0 before the first cycle is over
 * @leaving: the application is gone: Leave follows when the cycle is over
 * @pkt: the packet that is on its way, or to be sent next
 * @tags: its tags
 */
struct slbn_source {
	u64 D;
	u64 rate;
	bool leaving;
	struct slbn_packet pkt;
	u16 tags[SLBN_HOPS_MAX];
};

/**
 * enum slbn_source_event - what an answer meant to the source
 * @SLBN_ACK_IGNORED: nothing: it answers no packet that is on its way
 * @SLBN_CYCLE_DONE: a cycle is over; @rate is set, and the next packet stands ready
 * @SLBN_SESSION_OVER: the session is over
 */
enum slbn_source_event {
	SLBN_ACK_IGNORED,
	SLBN_CYCLE_DONE,
	SLBN_SESSION_OVER,
};

/**
 * slbn_source_join() - begin a session: its first packet stands ready
 * @src: all of it is set
 * @id: random
 * @D: demand, bit/s, at least 1
 * @slots: hops for which the packets have tags, 2 to SLBN_HOPS_MAX
 */
static inline void slbn_source_join(struct slbn_source *src, const u64 id[2],
				    u64 D, u8 slots)
{
	const struct slbn_source fresh = {
		.D = D,
		.pkt = {
			.id = { id[0], id[1] },
			.type = SLBN_JOIN,
			.slots = slots,
			.bottleneck = SLBN_NO_HOP,
			.bw = D,
			.demand = D,
		},
	};

	*src = fresh;
}

/**
 * slbn_source_change() - another demand, from the next cycle on
 * @src: the session
 * @D: demand, bit/s, at least 1
 */
static inline void slbn_source_change(struct slbn_source *src, u64 D)
{
	src->D = D;
}

/**
 * slbn_source_leave() - end the session when the running cycle is over
 * @src: the session; stop sending data at once
 */
static inline void slbn_source_leave(struct slbn_source *src)
{
	src->leaving = true;
}

/**
 * slbn_source_ack() - an acknowledgment came back
 * @src: the session
 * @ack: the packet
 * @tags: its tags, src->pkt.slots of them
 *
 * The next packet, @src->pkt, may be sent at once or, better, after a random
 * pause. Until an answer to it comes, the same is sent again.
 *
 * Return: what it meant.
 */
static inline enum slbn_source_event
slbn_source_ack(struct slbn_source *src, const struct slbn_packet *ack,
		const u16 *tags)
{
	struct slbn_packet *pkt = &src->pkt;
	bool left = pkt->type == SLBN_LEAVE;
	u8 hop;

	if (ack->type != (left ? SLBN_LEAVE_ACK : SLBN_PROBE_ACK) ||
	    ack->seq != pkt->seq || ack->id[0] != pkt->id[0] ||
	    ack->id[1] != pkt->id[1] || ack->slots != pkt->slots)
		return SLBN_ACK_IGNORED;
	if (left)
		return SLBN_SESSION_OVER;

	pkt->seq++;
	pkt->hop = 0;
	pkt->B = ack->B;
	pkt->bottleneck = ack->bottleneck;
	pkt->demand = src->D;
	for (hop = 0; hop < pkt->slots; hop++)
		src->tags[hop] = tags[hop];
	if (src->leaving) {
		pkt->type = SLBN_LEAVE;
		return SLBN_CYCLE_DONE;
	}
	src->rate = fp_min64(ack->bw, src->D);
	pkt->type = SLBN_PROBE;
	pkt->bw2 = pkt->bw1;
	pkt->bw1 = src->rate;
	if (ack->bottleneck == SLBN_NO_HOP || ack->bw >= src->D) {
		/* The demand is what restricts: it is the link above hop 0. */
		pkt->bottleneck = SLBN_NO_HOP;
		pkt->bw = src->D;
	} else {
		pkt->bw = ack->bw;
	}
	return SLBN_CYCLE_DONE;
}

/**
 * slbn_destination_reply() - the destination's task: turn a packet round
 * @pkt: the packet
 *
 * Return: whether it was one that goes down; others are not touched.
 */
static inline bool slbn_destination_reply(struct slbn_packet *pkt)
{
	switch (pkt->type) {
	case SLBN_JOIN:
	case SLBN_PROBE:
		pkt->type = SLBN_PROBE_ACK;
		return true;
	case SLBN_LEAVE:
		pkt->type = SLBN_LEAVE_ACK;
		return true;
	default:
		return false;
	}
}

#endif /* SLBN_CORE_H */
