/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the proof of safety (docs/proof.md) needs of one call of
 * slbn_link_process() with commit, for any state of the link and any packet that
 * slbn_parse_packet() accepts, reachable or not.
 *
 * The call is a function of numbers (enum lemma_input), so that the same code is
 * run with random numbers (test_lemma.c) and with mistakes planted in the core
 * (test_lemma_mistakes.py).
 *
 * The session's hash and the results of all divisions, so also the plan's share,
 * are numbers of their own: the lemma holds for each value. No rotation is due;
 * rotations have their own test.
 */
#ifndef LEMMA_H
#define LEMMA_H

#include <fairpath/core.h>
#include <fairpath/sip.h>

/* Ways of the memory's row, and numbers for each. */
#define LEMMA_WAYS 4
enum lemma_entry {
	ENTRY_SESSION,
	ENTRY_RATE,
	ENTRY_HELD,
	ENTRY_SEQ,
	ENTRY_TAG,
	ENTRY_IN_R,
	ENTRY_USED,
	ENTRY_ORIGIN,
	ENTRY_NUMBERS,
};

enum lemma_input {
	/* The link. */
	IN_C,
	IN_P,
	IN_ROWS,
	IN_NOW,
	IN_QUIET_UNTIL,
	IN_TAG,
	IN_PREV_TAG,
	IN_CUR_BF,
	IN_CUR_NR,
	IN_CUR_N,
	IN_CUR_A,
	IN_PREV_BF,
	IN_PREV_NR,
	IN_PREV_N,
	IN_PREV_A,
	/* The packet and its slot. */
	IN_SEQ,
	IN_TYPE,
	IN_HOP,
	IN_SLOTS,
	IN_BOTTLENECK,
	IN_AGAIN,
	IN_WEIGHT,
	IN_EPOCH,
	IN_B,
	IN_BW2,
	IN_BW1,
	IN_BW,
	IN_USE1,
	IN_USE,
	IN_G,
	IN_SHARE,
	IN_SLOT_TAG,
	IN_SLOT_CODE,
	/* Hash of its session, and results of divisions. */
	IN_HASH,
	IN_DIVISIONS,
	IN_ENTRIES = IN_DIVISIONS + 8,
	IN_NUMBERS = IN_ENTRIES + LEMMA_WAYS * ENTRY_NUMBERS,
};

static const u64 *lemma_in;

static inline u64 lemma_hash(const u64 data[2], const u64 key[2])
{
	(void)data;
	(void)key;
	return lemma_in[IN_HASH];
}

/* Each division in the text of the core has a number. */
static inline u64 lemma_division(u64 dividend, u64 divisor, int place)
{
	(void)dividend;
	(void)divisor;
	return lemma_in[IN_DIVISIONS + place];
}

#define fp_siphash13(data, key) lemma_hash(data, key)
#define fp_div(dividend, divisor) \
	lemma_division(dividend, divisor, __COUNTER__ - LEMMA_FIRST)
enum {
	LEMMA_FIRST = __COUNTER__ + 1
};
#include <fairpath/slbn/slbn_core.h>
enum {
	LEMMA_DIVISIONS = __COUNTER__ - LEMMA_FIRST
};
#undef fp_siphash13
#undef fp_div

_Static_assert(LEMMA_DIVISIONS <= IN_ENTRIES - IN_DIVISIONS, "more divisions");
_Static_assert(LEMMA_WAYS == SLBN_MEMORY_WAYS, "another number of ways");

/**
 * struct lemma_state - all that the call may read or change
 * @p: parameters
 * @v: link
 * @pkt: packet
 * @slot: its slot for this link
 * @row: the memory
 */
struct lemma_state {
	struct slbn_link_params p;
	struct slbn_link_vars v;
	struct slbn_packet pkt;
	struct slbn_slot slot;
	struct slbn_memory_entry row[LEMMA_WAYS];
};

/* What the lemma says. The first one that does not hold is the result. */
enum lemma_claim {
	LEMMA_HOLDS,
	LEMMA_DROP_CHANGES, /* a dropped packet changes the link */
	LEMMA_ACK_CHANGES, /* a LeaveAck changes the ledgers */
	LEMMA_LEAVE, /* a Leave does not remove x, or adds, or keeps its slot */
	LEMMA_PREV, /* prev changes by something else than x */
	LEMMA_CUR, /* cur does not lose x and gain what the slot says */
	LEMMA_TAG, /* the slot does not name the current ledger */
	LEMMA_USE, /* the link holds less than what is in use */
	LEMMA_DOWN, /* downstream it holds something else than it should */
	LEMMA_COPY, /* it lowers what the reply to a copy may have granted */
	LEMMA_GRANT, /* it grants more than it holds */
	LEMMA_G, /* g rises, or is above bw */
	LEMMA_ROOM, /* it holds more than is in use although A is above C */
	LEMMA_QUIET, /* it holds more than is in use in quiet time */
	LEMMA_USED_UP, /* use1, use, again, seq or type change */
	LEMMA_STORED, /* the memory says something else */
};

static inline struct lemma_state lemma_load(const u64 in[])
{
	struct lemma_state st = {
		.p = {
			.C = in[IN_C],
			.P = in[IN_P],
			.commit = true,
			.epoch = 1,
			.rows = in[IN_ROWS] & 1,
		},
		.v = {
			.cur = { in[IN_CUR_BF], in[IN_CUR_NR], in[IN_CUR_N],
				 in[IN_CUR_A] },
			.prev = { in[IN_PREV_BF], in[IN_PREV_NR],
				  in[IN_PREV_N], in[IN_PREV_A] },
			.epoch_start = in[IN_NOW],
			.quiet_until = in[IN_QUIET_UNTIL],
			.tag = (u16)in[IN_TAG],
			.prev_tag = (u16)in[IN_PREV_TAG],
		},
		.pkt = {
			.seq = (u32)in[IN_SEQ],
			.type = (u8)in[IN_TYPE],
			.hop = (u8)in[IN_HOP],
			.slots = (u8)in[IN_SLOTS],
			.bottleneck = (u8)in[IN_BOTTLENECK],
			.again = in[IN_AGAIN] & 1,
			.weight = (u32)in[IN_WEIGHT],
			.epoch = (u32)in[IN_EPOCH],
			.B = in[IN_B],
			.bw2 = in[IN_BW2],
			.bw1 = in[IN_BW1],
			.bw = in[IN_BW],
			.use1 = in[IN_USE1],
			.use = in[IN_USE],
			.g = in[IN_G],
			.share = in[IN_SHARE],
		},
		.slot = { (u16)in[IN_SLOT_TAG], (u16)in[IN_SLOT_CODE] },
	};
	int way;

	for (way = 0; way < LEMMA_WAYS; way++) {
		const u64 *number = &in[IN_ENTRIES + way * ENTRY_NUMBERS];

		st.row[way] = (struct slbn_memory_entry){
			.session = number[ENTRY_SESSION],
			.rate = number[ENTRY_RATE],
			.held = number[ENTRY_HELD],
			.seq = (u32)number[ENTRY_SEQ],
			.tag = (u16)number[ENTRY_TAG],
			.in_R = number[ENTRY_IN_R] & 1,
			.used = number[ENTRY_USED] & 1,
			.origin = number[ENTRY_ORIGIN] & 3,
		};
	}
	return st;
}

static inline enum slbn_verdict lemma_call(struct lemma_state *st)
{
	struct slbn_link_stats stats = { 0 };
	enum slbn_verdict verdict;

	st->v.memory = st->row;
	verdict = slbn_link_process(&st->p, &st->v, &stats, &st->pkt, &st->slot,
				    st->v.epoch_start);
	st->v.memory = NULL;
	return verdict;
}

/* The session's entry; one that is not used if there is none. */
static inline struct slbn_memory_entry
lemma_entry_of(const struct lemma_state *st, u64 hash)
{
	const struct slbn_memory_entry none = { 0 };
	int way;

	for (way = 0; st->p.rows && way < LEMMA_WAYS; way++)
		if (st->row[way].used && st->row[way].session == hash)
			return st->row[way];
	return none;
}

static inline bool lemma_up(const struct slbn_packet *pkt)
{
	return pkt->type == SLBN_PROBE_ACK || pkt->type == SLBN_LEAVE_ACK;
}

/*
 * The lemma is about packets that slbn_parse_packet() accepts, a link that
 * slbn_link_init() made, and entries that slbn_link_process() stored. If one is
 * of a copy of this packet, what it held is in use or in a code.
 */
static inline bool lemma_applies(const struct lemma_state *st, u64 hash)
{
	const struct slbn_packet *pkt = &st->pkt;
	const struct slbn_memory_entry entry = lemma_entry_of(st, hash);
	u64 above = entry.held - pkt->use;
	int way;

	for (way = 0; way < LEMMA_WAYS; way++)
		if (st->row[way].origin > SLBN_OF_REPLY ||
		    st->row[way].held >
			    SLBN_RATE_MAX + slbn_decode(SLBN_CODE_MAX))
			return false;
	if (entry.used && entry.seq == pkt->seq && entry.held > pkt->use &&
	    slbn_decode(slbn_encode_up(above)) != above)
		return false;
	return pkt->type >= SLBN_JOIN && pkt->type <= SLBN_LEAVE_ACK &&
	       pkt->slots <= SLBN_HOPS_MAX && pkt->hop <= SLBN_HOPS_MAX &&
	       pkt->bw2 <= SLBN_RATE_MAX && pkt->bw1 <= SLBN_RATE_MAX &&
	       pkt->bw <= SLBN_RATE_MAX && pkt->use1 <= SLBN_RATE_MAX &&
	       pkt->use <= SLBN_RATE_MAX && pkt->g <= SLBN_RATE_MAX &&
	       st->p.C <= SLBN_RATE_MAX && st->p.P <= st->p.C &&
	       st->v.tag != SLBN_NO_TAG && st->v.tag != st->v.prev_tag;
}

static inline bool lemma_same_ledgers(const struct lemma_state *a,
				      const struct lemma_state *b)
{
	return a->v.cur.BF == b->v.cur.BF && a->v.cur.NR == b->v.cur.NR &&
	       a->v.cur.N == b->v.cur.N && a->v.cur.A == b->v.cur.A &&
	       a->v.prev.BF == b->v.prev.BF && a->v.prev.NR == b->v.prev.NR &&
	       a->v.prev.N == b->v.prev.N && a->v.prev.A == b->v.prev.A;
}

static inline bool lemma_same_entry(const struct slbn_memory_entry *a,
				    const struct slbn_memory_entry *b)
{
	return a->session == b->session && a->rate == b->rate &&
	       a->held == b->held && a->seq == b->seq && a->tag == b->tag &&
	       a->in_R == b->in_R && a->used == b->used &&
	       a->origin == b->origin;
}

static inline bool lemma_same(const struct lemma_state *a,
			      const struct lemma_state *b)
{
	int way;

	for (way = 0; way < LEMMA_WAYS; way++)
		if (!lemma_same_entry(&a->row[way], &b->row[way]))
			return false;
	return lemma_same_ledgers(a, b) && a->v.tag == b->v.tag &&
	       a->v.prev_tag == b->v.prev_tag &&
	       a->v.epoch_start == b->v.epoch_start &&
	       a->v.quiet_until == b->v.quiet_until &&
	       a->slot.tag == b->slot.tag && a->slot.code == b->slot.code &&
	       a->pkt.hop == b->pkt.hop && a->pkt.B == b->pkt.B &&
	       a->pkt.bw == b->pkt.bw && a->pkt.g == b->pkt.g;
}

/**
 * struct lemma_record - the session according to packet and memory
 * @in_cur: counted in the current ledger
 * @in_prev: counted in the previous one
 * @copy: in the memory with this sequence number, and in a ledger
 * @x: what the link is to remove
 */
struct lemma_record {
	bool in_cur;
	bool in_prev;
	bool copy;
	u64 x;
};

/* Section 5.1 of docs/protocol.md. */
static inline void lemma_record_of(const struct lemma_state *st, u64 hash,
				   struct lemma_record *record)
{
	const struct slbn_packet *pkt = &st->pkt;
	struct slbn_memory_entry entry = lemma_entry_of(st, hash);
	bool first = !lemma_up(pkt) && !pkt->again;
	bool copy = entry.used && entry.seq == pkt->seq;
	u64 stated = first ? pkt->use1 + slbn_decode(st->slot.code) : pkt->use;
	u16 tag = pkt->type == SLBN_JOIN ? SLBN_NO_TAG :
					   slbn_unmask_tag(st->slot.tag, hash);

	record->x = stated;
	if (entry.used && entry.origin == SLBN_OF_REPLY && !copy)
		entry.used = 0;
	if (entry.used) {
		bool moved = (entry.tag == st->v.tag) != (tag == st->v.tag) ||
			     (entry.tag == st->v.prev_tag) !=
				     (tag == st->v.prev_tag);

		record->x = entry.held;
		if (entry.origin != SLBN_OF_FIRST && !copy && first && !moved &&
		    stated > entry.held)
			record->x = stated;
		tag = entry.tag;
	}
	record->in_cur = tag && tag == st->v.tag;
	record->in_prev = tag && tag == st->v.prev_tag;
	record->copy = copy && (record->in_cur || record->in_prev);
}

static inline u64 lemma_less(u64 from, u64 amount)
{
	return from > amount ? from - amount : 0;
}

static inline enum lemma_claim lemma_check(const struct lemma_state *before,
					   enum slbn_verdict verdict,
					   const struct lemma_state *after,
					   u64 hash)
{
	const struct slbn_packet *pkt = &before->pkt;
	const struct slbn_memory_entry entry = lemma_entry_of(before, hash);
	struct lemma_record was;
	const struct slbn_memory_entry *now = &after->row[0];
	u64 cur = before->v.cur.A, prev = before->v.prev.A;
	u64 held = pkt->use + slbn_decode(after->slot.code);
	u64 A = after->v.cur.A + after->v.prev.A;

	lemma_record_of(before, hash, &was);
	if (verdict != SLBN_FORWARD)
		return lemma_same(before, after) ? LEMMA_HOLDS :
						   LEMMA_DROP_CHANGES;
	if (after->pkt.use1 != pkt->use1 || after->pkt.use != pkt->use ||
	    after->pkt.again != pkt->again || after->pkt.seq != pkt->seq ||
	    after->pkt.type != pkt->type)
		return LEMMA_USED_UP;
	if (pkt->type == SLBN_LEAVE_ACK)
		return lemma_same_ledgers(before, after) ? LEMMA_HOLDS :
							   LEMMA_ACK_CHANGES;
	if (was.in_cur)
		cur = lemma_less(cur, was.x);
	if (was.in_prev)
		prev = lemma_less(prev, was.x);
	if (after->v.prev.A != prev)
		return LEMMA_PREV;
	if (pkt->type == SLBN_LEAVE)
		return after->v.cur.A == cur && !after->slot.tag &&
				       !after->slot.code ?
			       LEMMA_HOLDS :
			       LEMMA_LEAVE;
	/* Sums end at 2^64 - 1. */
	if (after->v.cur.A != (cur > ~0ULL - held ? ~0ULL : cur + held))
		return LEMMA_CUR;
	if (after->slot.tag != slbn_mask_tag(before->v.tag, hash))
		return LEMMA_TAG;
	if (held < pkt->use)
		return LEMMA_USE;
	if (!lemma_up(pkt) &&
	    held != (was.copy ? fp_max64(pkt->use, entry.held) : pkt->use))
		return LEMMA_DOWN;
	if (was.copy && held < entry.held)
		return LEMMA_COPY;
	if (lemma_up(pkt)) {
		bool rises =
			held > pkt->use && !(was.copy && held == entry.held);

		if (after->pkt.g > held)
			return LEMMA_GRANT;
		if (after->pkt.g > pkt->g || after->pkt.g > after->pkt.bw)
			return LEMMA_G;
		if (rises && (A < after->v.cur.A || A > before->p.C))
			return LEMMA_ROOM;
		if (before->v.epoch_start < before->v.quiet_until &&
		    (rises || after->pkt.g > pkt->use))
			return LEMMA_QUIET;
	}
	if (before->p.rows &&
	    (!now->used || now->session != hash || now->held != held ||
	     now->tag != before->v.tag || now->seq != pkt->seq))
		return LEMMA_STORED;
	return LEMMA_HOLDS;
}

/* Results of the call, to compare translations of it. */
enum lemma_output {
	OUT_APPLIES,
	OUT_CLAIM,
	OUT_VERDICT,
	OUT_CUR_A,
	OUT_PREV_A,
	OUT_CUR_N,
	OUT_PREV_BF,
	OUT_BW,
	OUT_G,
	OUT_SLOT_TAG,
	OUT_SLOT_CODE,
	OUT_HELD,
	OUT_NUMBERS,
};

static inline void lemma(const u64 in[IN_NUMBERS], u64 out[OUT_NUMBERS])
{
	struct lemma_state before, after;
	enum slbn_verdict verdict;

	lemma_in = in;
	before = lemma_load(in);
	after = before;
	verdict = lemma_call(&after);
	out[OUT_APPLIES] = lemma_applies(&before, in[IN_HASH]);
	out[OUT_CLAIM] = lemma_check(&before, verdict, &after, in[IN_HASH]);
	out[OUT_VERDICT] = verdict;
	out[OUT_CUR_A] = after.v.cur.A;
	out[OUT_PREV_A] = after.v.prev.A;
	out[OUT_CUR_N] = after.v.cur.N;
	out[OUT_PREV_BF] = after.v.prev.BF;
	out[OUT_BW] = after.pkt.bw;
	out[OUT_G] = after.pkt.g;
	out[OUT_SLOT_TAG] = after.slot.tag;
	out[OUT_SLOT_CODE] = after.slot.code;
	out[OUT_HELD] = after.row[0].held;
}

#endif /* LEMMA_H */
