/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SLBN: explicit max-min fair rates with constant state per link, which never
 * overshoot while they change.
 *
 * Source: Mozo, Lopez-Presa, Fernandez Anta, "SLBN: A Scalable Max-min Fair
 * Algorithm for Rate-Based Explicit Congestion Control", NCA 2012, figures 1
 * and 2 (the tasks of source, link and destination). Names follow the paper.
 * Recovery and commit are fairpath's; docs/protocol.md specifies and proves
 * them.
 *
 * The plan (the paper). A session's control packet travels down its path and
 * back. A link counts the sessions that cross it (N) and those that it
 * restricts (NR, the set R), and sums the rates of those that are restricted
 * elsewhere (BF, the set F). It keeps no state per session: the packet carries
 * the set B of hops at which its session is in R, and the rate that the other
 * hops have in BF (bw'' before the packet passes downstream, bw' after it).
 * With weights, N and NR are sums of weights.
 *
 * Corrections to the paper:
 * - A joining session is added to NR before the share is computed, so NR is
 *   never 0 in the division.
 * - The source's demand D is treated as a link above hop 0. In the paper's form
 *   a link can put a session in R that does not fill it, if only the demand
 *   restricts the session, which then never notices that its demand was raised.
 * - "bw > share" is strict and has no tolerance: with any other comparison that
 *   was tried rates oscillated.
 *
 * The commit. The plan is exact when rates have settled, but while rates change
 * it assigns capacity that other sessions still use. So a link also sums what
 * its sessions hold (A). On its way down a packet says what its source uses,
 * and the link holds exactly that; on its way up the link holds what the source
 * may use from now on, at most what is free, and the packet carries the minimum
 * (g) back to the source. So the rates in use at a link are at most C at each
 * moment. A, too, is at most C, unless a packet claims a rate that its source
 * no longer uses.
 *
 * Recovery. The paper assumes that no packet is lost and that every session
 * leaves. A link keeps its sums twice, in a current and a previous ledger, and
 * rotates them each epoch. The packet carries a tag per hop that names the
 * ledger in which its session is counted. The next packet of a session migrates
 * it to the current ledger; sessions that ended silently, and all errors,
 * disappear with their ledger after two epochs. A session with an unknown tag
 * is counted as new. A retransmitted packet carries the state from before the
 * link processed it first; so a link keeps the state of recently processed
 * sessions in a memory, which overrides the packet.
 *
 * With commit off, P = C, epoch 0, no memory and weights of 1 this is the
 * paper's algorithm.
 *
 * Rates are integers in bit/s and divisions round down, so that the link
 * subtracts exactly what it added. BF and A are at most N times the largest
 * rate: 10^18 for 10^6 sessions of 1 Tbit/s, and a weight times a capacity is at
 * most 10^18, which fit in 64 bits. Results below zero, which only errors cause,
 * and overflows are clamped and counted.
 */
#ifndef SLBN_CORE_H
#define SLBN_CORE_H

#include <fairpath/core.h>
#include <fairpath/sip.h>
#include <uapi/fairpath/slbn.h>

/* Tag of a hop that does not count the session; never the tag of a ledger. */
#define SLBN_NO_TAG 0

/**
 * struct slbn_packet - fields of a control packet that the algorithm uses
 * @id: session
 * @seq: sequence number; retransmissions keep it
 * @type: enum slbn_type
 * @hop: number of the next link downstream: links passed on the way down, less
 *	those passed on the way back
 * @slots: hops that have a slot, at most SLBN_HOPS_MAX
 * @bottleneck: the paper's b: the hop that set @bw last, or SLBN_NO_HOP if only
 *	the demand restricts the session
 * @again: retransmitted
 * @weight: of the session, 1 to SLBN_WEIGHT_MAX, constant
 * @epoch: shortest epoch of the links passed on the way back, us, or
 *	SLBN_NO_EPOCH
 * @B: set of the hops at which the session is in R, bit n for hop n
 * @bw2: bw'', rate in BF of hops not in @B that the packet has yet to reach on
 *	its way down, bit/s
 * @bw1: bw', rate in BF of hops not in @B that it has passed, bit/s
 * @bw: candidate for the session's rate, bit/s
 * @use1: @use of the previous cycle, bit/s
 * @use: rate in use at the source when it sent the packet, or more, bit/s
 * @g: rate granted by the links passed on the way back, bit/s
 * @share: smallest fair share of the session at the links passed on the way back
 *	that state it, bit/s; SLBN_RATE_MAX at first
 * @share_links: number of these links, at most 255
 * @share_bands: of these, those that keep new, assigned and unassigned traffic apart
 */
struct slbn_packet {
	u64 id[2];
	u32 seq;
	u8 type;
	u8 hop;
	u8 slots;
	u8 bottleneck;
	bool again;
	u32 weight;
	u32 epoch;
	u64 B;
	u64 bw2;
	u64 bw1;
	u64 bw;
	u64 use1;
	u64 use;
	u64 g;
	u64 share;
	u8 share_links;
	u8 share_bands;
};

/**
 * struct slbn_slot - what a packet carries for each hop
 * @tag: ledger that counts the session, or SLBN_NO_TAG; masked, see
 *	slbn_mask_tag()
 * @code: what the hop holds for the session above the packet's use (above its
 *	use1 in the next packet), see slbn_decode()
 */
struct slbn_slot {
	u16 tag;
	u16 code;
};

/**
 * struct slbn_ledger - the sums of a link
 * @BF: sum of the rates of the sessions in F, bit/s
 * @NR: sum of the weights of the sessions in R
 * @N: sum of the weights of all sessions
 * @A: sum of what the sessions hold, bit/s
 */
struct slbn_ledger {
	u64 BF;
	u64 NR;
	u64 N;
	u64 A;
};

/**
 * enum slbn_origin - the packet that made a memory entry of a session without one
 * @SLBN_OF_FIRST: the first transmission of a packet
 * @SLBN_OF_COPY: a retransmission. The link may hold more than it says, and its
 *	source may have been granted more since
 * @SLBN_OF_REPLY: a reply. If it is late, the link may have held less than it says
 *
 * Updates of the entry keep it, but for the first transmission of a newer packet.
 */
enum slbn_origin {
	SLBN_OF_FIRST,
	SLBN_OF_COPY,
	SLBN_OF_REPLY,
};

/**
 * struct slbn_memory_entry - what a link recorded for a session last
 * @session: hash of the session's ID, see slbn_session_hash()
 * @rate: rate added to BF, bit/s; 0 if the session is in R
 * @held: rate added to A, bit/s
 * @seq: sequence number of the packet
 * @tag: tag of the ledger that counts the session, SLBN_NO_TAG after a Leave
 * @in_R: the session is in R
 * @used: 0 if the entry is free
 * @origin: enum slbn_origin
 */
struct slbn_memory_entry {
	u64 session;
	u64 rate;
	u64 held;
	u32 seq;
	u16 tag;
	u8 in_R : 1;
	u8 used : 1;
	u8 origin : 2;
};

/* Entries per row of the memory; a new session replaces its row's oldest. */
#define SLBN_MEMORY_WAYS 4U

/**
 * struct slbn_link_params - parameters of a link
 * @C: capacity, bit/s, at most 10^12: the most that sessions may hold
 * @P: what the plan assigns, bit/s, at most @C: the capacity less headroom
 * @commit: limit rises to what is free
 * @epoch: time between rotations, ns; 0: never rotate
 * @rows: rows of memory, a power of 2; 0: no memory
 * @hash_key: random, so that chosen ids do not fall into one row, and tags of
 *	links differ
 */
struct slbn_link_params {
	u64 C;
	u64 P;
	bool commit;
	u64 epoch;
	u32 rows;
	u64 hash_key[2];
};

/**
 * struct slbn_link_vars - state of a link
 * @cur: current ledger
 * @prev: previous ledger
 * @epoch_start: start of the epoch of @cur, ns
 * @quiet_until: no rises are granted before this time, ns
 * @tag: tag of @cur
 * @prev_tag: tag of @prev, or SLBN_NO_TAG
 * @memory: rows * SLBN_MEMORY_WAYS entries, the most recent of a row first
 */
struct slbn_link_vars {
	struct slbn_ledger cur;
	struct slbn_ledger prev;
	u64 epoch_start;
	u64 quiet_until;
	u16 tag;
	u16 prev_tag;
	struct slbn_memory_entry *memory;
};

/**
 * struct slbn_link_stats - counters of a link
 * @joins: Join packets processed
 * @probes: Probe packets processed
 * @acks: ProbeAck packets processed
 * @leaves: Leave packets processed
 * @leave_acks: LeaveAck packets forwarded
 * @new_sessions: sessions counted as new, joins included
 * @limited: ProbeAcks that were granted less than the session's share, since
 *	other sessions still hold it
 * @migrated: sessions migrated from the previous to the current ledger
 * @corrected: packets whose state differed from memory, which overrode it
 * @stale: dropped packets older than the newest one remembered of their session
 * @wrong_path: dropped packets from downstream of sessions that this link does
 *	not count, or of Leaves that it does not remember
 * @too_many_hops: dropped packets without a slot for another hop
 * @overuse: dropped packets that state a higher use than the link holds for the
 *	session according to the memory
 * @clamped: subtractions clamped to 0 and sums clamped to 2^64 - 1
 */
struct slbn_link_stats {
	u64 joins;
	u64 probes;
	u64 acks;
	u64 leaves;
	u64 leave_acks;
	u64 new_sessions;
	u64 limited;
	u64 migrated;
	u64 corrected;
	u64 stale;
	u64 wrong_path;
	u64 too_many_hops;
	u64 overuse;
	u64 clamped;
};

/**
 * enum slbn_verdict - result of processing a packet at a link
 * @SLBN_FORWARD: forward it with the changes
 * @SLBN_DROP_STALE: drop it: the link has processed a newer one of its session
 * @SLBN_DROP_WRONG_PATH: drop it: it did not pass this link on its way down
 * @SLBN_DROP_TOO_MANY_HOPS: drop it: its path has more hops than slots
 * @SLBN_DROP_OVERUSE: drop it: its source states a rate that it was not granted
 */
enum slbn_verdict {
	SLBN_FORWARD,
	SLBN_DROP_STALE,
	SLBN_DROP_WRONG_PATH,
	SLBN_DROP_TOO_MANY_HOPS,
	SLBN_DROP_OVERUSE,
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

/* A sum over both ledgers. It overflows only after errors, and ends at 2^64 - 1. */
static inline u64 slbn_both(u64 cur, u64 prev)
{
	return cur <= ~0ULL - prev ? cur + prev : ~0ULL;
}

static inline u16 slbn_next_tag(u16 tag)
{
	return tag == 0xffff ? 1 : tag + 1;
}

/**
 * slbn_link_init() - initialize the state of a link without sessions
 * @v: state; the caller sets and clears the memory
 * @now: time, ns
 * @quiet_until: grant no rises before this time, ns. Sessions that the link does
 *	not know may use it already, after a restart: their leases end within an
 *	epoch
 * @random: chooses the first tag, so that tags from before a restart are unknown
 */
static inline void slbn_link_init(struct slbn_link_vars *v, u64 now,
				  u64 quiet_until, u32 random)
{
	const struct slbn_ledger empty = { 0 };

	v->cur = empty;
	v->prev = empty;
	v->epoch_start = now;
	v->quiet_until = quiet_until;
	v->tag = slbn_next_tag(random % 0xffff);
	v->prev_tag = SLBN_NO_TAG;
}

/**
 * slbn_link_rotate() - rotate the ledgers if the epoch is over
 * @p: parameters
 * @v: state
 * @now: time, ns; never earlier than in the previous call
 *
 * slbn_link_process() calls it; call it before reading the state otherwise.
 */
static inline void slbn_link_rotate(const struct slbn_link_params *p,
				    struct slbn_link_vars *v, u64 now)
{
	const struct slbn_ledger empty = { 0 };
	u64 epochs;

	/* MUST 5 of docs/protocol.md: a clock that steps back drops nothing. */
	if (!p->epoch || now < v->epoch_start ||
	    now - v->epoch_start < p->epoch)
		return;
	epochs = fp_div(now - v->epoch_start, p->epoch);
	v->epoch_start += epochs * p->epoch;
	v->prev = epochs == 1 ? v->cur : empty;
	v->prev_tag = epochs == 1 ? v->tag : SLBN_NO_TAG;
	v->cur = empty;
	/* One tag per rotation, however many epochs it skips: none was used. */
	v->tag = slbn_next_tag(v->tag);
}

/**
 * slbn_link_share() - fair share of a session in R
 * @p: parameters
 * @v: state
 * @weight: of the session, 1 to SLBN_WEIGHT_MAX
 *
 * The paper's share, max((C - BF) / NR, C / N), of what the plan assigns, over
 * both ledgers, times the weight.
 *
 * Return: bit/s, at most P.
 */
static inline u64 slbn_link_share(const struct slbn_link_params *p,
				  const struct slbn_link_vars *v, u32 weight)
{
	u64 BF = slbn_both(v->cur.BF, v->prev.BF);
	u64 NR = fp_max64(slbn_both(v->cur.NR, v->prev.NR), 1);
	u64 N = fp_max64(slbn_both(v->cur.N, v->prev.N), 1);
	u64 left = p->P > BF ? fp_div(weight * (p->P - BF), NR) : 0;

	return fp_min64(fp_max64(left, fp_div(weight * p->P, N)), p->P);
}

/**
 * slbn_link_share_exceeds() - compare the fair share with a rate
 * @p: parameters
 * @v: state
 * @rate: bit/s
 *
 * Without the divisions of slbn_link_share(), for each packet.
 *
 * Return: whether slbn_link_share() of weight 1 is greater.
 */
static inline bool slbn_link_share_exceeds(const struct slbn_link_params *p,
					   const struct slbn_link_vars *v,
					   u64 rate)
{
	u64 BF = fp_max64(v->cur.BF + v->prev.BF, v->cur.BF);
	u64 NR = fp_max64(v->cur.NR + v->prev.NR, 1);
	u64 N = fp_max64(v->cur.N + v->prev.N, 1);
	u64 needed;

	if (p->P <= rate)
		return false;
	/* A product that overflows exceeds P. */
	if (!__builtin_mul_overflow(rate + 1, N, &needed) && p->P >= needed)
		return true;
	return p->P > BF && !__builtin_mul_overflow(rate + 1, NR, &needed) &&
	       p->P - BF >= needed;
}

/**
 * slbn_link_room() - capacity that no session holds
 * @p: parameters
 * @v: state
 *
 * Return: bit/s; 0 if sessions hold more than the capacity, which they do only
 * after it was lowered and while sessions move here from other paths.
 */
static inline u64 slbn_link_room(const struct slbn_link_params *p,
				 const struct slbn_link_vars *v)
{
	u64 A = slbn_both(v->cur.A, v->prev.A);

	return p->C > A ? p->C - A : 0;
}

/* A code has 5 bits of exponent and 11 bits of mantissa. */
#define SLBN_MANTISSA_BITS 11
#define SLBN_MANTISSA_MAX ((1U << SLBN_MANTISSA_BITS) - 1)
#define SLBN_CODE_MAX 0xffff

/**
 * slbn_decode() - rate of a code
 * @code: code
 *
 * Return: bit/s, at most (2^11 - 1) * 2^31, about 4.4 * 10^12.
 */
static inline u64 slbn_decode(u16 code)
{
	return (u64)(code & SLBN_MANTISSA_MAX) << (code >> SLBN_MANTISSA_BITS);
}

/**
 * slbn_encode_down() - code of the largest rate that is at most a given one
 * @rate: bit/s
 *
 * Return: the code; less than 2^-10 of @rate is lost up to the largest rate that
 * has a code.
 */
static inline u16 slbn_encode_down(u64 rate)
{
	u16 exponent = 0;

	if (rate >= slbn_decode(SLBN_CODE_MAX))
		return SLBN_CODE_MAX;
	for (; rate > SLBN_MANTISSA_MAX; rate >>= 1)
		exponent++;
	return exponent << SLBN_MANTISSA_BITS | (u16)rate;
}

/**
 * slbn_encode_up() - code of the smallest rate that is at least a given one
 * @rate: bit/s
 *
 * Return: the code, SLBN_CODE_MAX for rates above all codes.
 */
static inline u16 slbn_encode_up(u64 rate)
{
	u16 code = slbn_encode_down(rate);

	/* The largest mantissa is followed by half of it, one exponent up. */
	if (slbn_decode(code) >= rate || code == SLBN_CODE_MAX)
		return code;
	if ((code & SLBN_MANTISSA_MAX) == SLBN_MANTISSA_MAX)
		code += 1U << (SLBN_MANTISSA_BITS - 1);
	return code + 1;
}

/*
 * Hash of a session's ID, which stands for the ID in the memory and masks its
 * tags: of 64 bits and keyed, so that two sessions are unlikely to have the
 * same hash, and hosts cannot find such sessions by trying.
 */
static inline u64 slbn_session_hash(const struct slbn_link_params *p,
				    const struct slbn_packet *pkt)
{
	return fp_siphash13(pkt->id, p->hash_key);
}

static inline bool slbn_memory_matches(const struct slbn_memory_entry *entry,
				       u64 hash)
{
	return entry->used && entry->session == hash;
}

static inline struct slbn_memory_entry *
slbn_memory_row(const struct slbn_link_params *p,
		const struct slbn_link_vars *v, u64 hash)
{
	return &v->memory[(hash & (p->rows - 1)) * SLBN_MEMORY_WAYS];
}

/* The entry of the session with this hash, or NULL. */
static inline const struct slbn_memory_entry *
slbn_memory_find(const struct slbn_link_params *p,
		 const struct slbn_link_vars *v, u64 hash)
{
	const struct slbn_memory_entry *row;
	u32 way;

	if (!p->rows)
		return NULL;
	row = slbn_memory_row(p, v, hash);
	for (way = 0; way < SLBN_MEMORY_WAYS; way++)
		if (slbn_memory_matches(&row[way], hash))
			return &row[way];
	return NULL;
}

static inline void slbn_memory_store(const struct slbn_link_params *p,
				     struct slbn_link_vars *v,
				     const struct slbn_memory_entry *entry)
{
	struct slbn_memory_entry *row;
	u32 way;

	if (!p->rows)
		return;
	row = slbn_memory_row(p, v, entry->session);
	/* Replace the session's entry or the oldest; move it to the front. */
	for (way = 0; way < SLBN_MEMORY_WAYS - 1; way++)
		if (slbn_memory_matches(&row[way], entry->session))
			break;
	for (; way; way--)
		row[way] = row[way - 1];
	row[0] = *entry;
}

/* Masks are the residues modulo the number of tags, 65535. */
#define SLBN_TAGS 0xffffU

static inline u16 slbn_shift_tag(u16 tag, u32 by)
{
	return tag == SLBN_NO_TAG ? tag : 1 + (tag - 1 + by) % SLBN_TAGS;
}

/**
 * slbn_mask_tag() - the tag of a ledger as the packets of a session carry it
 * @tag: tag, or SLBN_NO_TAG
 * @hash: slbn_session_hash() of the session at this link
 *
 * If two links with equal epochs have equal tags once, their ledgers have equal
 * tags for ever. If a session moves from one link to the other, at the same
 * hop, the second link would assume that it counts the session already. With
 * masked tags, this happens to one session in 30,000 (two tags of each link may
 * be equal), and not to all of them.
 *
 * Return: a permutation of the tags; SLBN_NO_TAG of itself.
 */
static inline u16 slbn_mask_tag(u16 tag, u64 hash)
{
	/* Rows of the memory have the lower bits. */
	return slbn_shift_tag(tag, (u32)(hash >> 40) % SLBN_TAGS);
}

/* The inverse of slbn_mask_tag(). */
static inline u16 slbn_unmask_tag(u16 tag, u64 hash)
{
	return slbn_shift_tag(tag, SLBN_TAGS - (u32)(hash >> 40) % SLBN_TAGS);
}

/* The ledger with this tag, not masked, or NULL. */
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
 * slbn_is_upstream() - whether a packet travels back to its source
 * @pkt: packet
 *
 * Return: true for ProbeAck and LeaveAck.
 */
static inline bool slbn_is_upstream(const struct slbn_packet *pkt)
{
	return pkt->type == SLBN_PROBE_ACK || pkt->type == SLBN_LEAVE_ACK;
}

/**
 * slbn_current_hop() - number of the link that a packet passes next
 * @pkt: packet
 *
 * Return: the hop; pkt->slots or more if the packet has no slot for it.
 */
static inline u8 slbn_current_hop(const struct slbn_packet *pkt)
{
	return slbn_is_upstream(pkt) ? (u8)(pkt->hop - 1) : pkt->hop;
}

/**
 * struct slbn_membership - where a link counts a session
 * @hash: of the session
 * @ledger: ledger that counts it, or NULL
 * @in_R: in R, and not in F
 * @rate: rate in BF if it is in F, bit/s
 * @held: rate in A, bit/s
 * @same: the link has processed a copy of the packet before
 * @left: that was a Leave, or the link has no memory to tell
 * @origin: of the memory entry to be stored
 */
struct slbn_membership {
	u64 hash;
	struct slbn_ledger *ledger;
	bool in_R;
	u64 rate;
	u64 held;
	bool same;
	bool left;
	enum slbn_origin origin;
};

static inline enum slbn_origin slbn_origin_of(const struct slbn_packet *pkt)
{
	if (slbn_is_upstream(pkt))
		return SLBN_OF_REPLY;
	return pkt->again ? SLBN_OF_COPY : SLBN_OF_FIRST;
}

/*
 * What the link holds for a session, as far as the packet says. Downstream a
 * retransmitted packet does not say whether the link has processed it before:
 * it holds no less than what is in use.
 */
static inline u64 slbn_held(const struct slbn_packet *pkt,
			    const struct slbn_slot *slot)
{
	if (slbn_is_upstream(pkt) || pkt->again)
		return pkt->use;
	return pkt->use1 + slbn_decode(slot->code);
}

/*
 * Find where the link counts the session. The memory also shows packets that
 * are stale or lie about the rate in use, which is at most what was granted.
 *
 * Links may have answered a late copy before, and have forgotten it. So an
 * entry made by a reply applies to other replies of the same packet only. An
 * entry made by a retransmission does not prove a lie, and a newer packet that
 * states more overrides it. (If that packet is counted in another ledger, it is
 * the older one, as the copy has migrated its session.)
 */
static inline enum slbn_verdict
slbn_find_session(const struct slbn_link_params *p, struct slbn_link_vars *v,
		  struct slbn_link_stats *s, const struct slbn_packet *pkt,
		  u8 hop, const struct slbn_slot *slot,
		  struct slbn_membership *found)
{
	const struct slbn_memory_entry *entry;
	struct slbn_ledger *ledger;

	found->hash = slbn_session_hash(p, pkt);
	/* A Join cannot be counted yet, but by an earlier copy of it. */
	found->ledger = pkt->type == SLBN_JOIN ?
				NULL :
				slbn_ledger_of(v, slbn_unmask_tag(slot->tag,
								  found->hash));
	found->in_R = pkt->B & 1ULL << hop;
	found->rate = pkt->type == SLBN_PROBE ? pkt->bw2 : pkt->bw1;
	found->held = slbn_held(pkt, slot);
	found->same = false;
	found->origin = slbn_origin_of(pkt);
	found->left = !p->rows;
	entry = slbn_memory_find(p, v, found->hash);
	if (!entry)
		return SLBN_FORWARD;
	if ((s32)(pkt->seq - entry->seq) < 0) {
		s->stale++;
		return SLBN_DROP_STALE;
	}
	found->same = entry->seq == pkt->seq;
	if (entry->origin == SLBN_OF_REPLY && !found->same)
		return SLBN_FORWARD;
	ledger = slbn_ledger_of(v, entry->tag);
	if (p->commit && ledger && entry->origin == SLBN_OF_FIRST &&
	    pkt->use > entry->held) {
		s->overuse++;
		return SLBN_DROP_OVERUSE;
	}
	s->corrected +=
		ledger != found->ledger ||
		(ledger && (found->in_R != entry->in_R ||
			    (!found->in_R && found->rate != entry->rate)));
	if (entry->origin == SLBN_OF_FIRST || found->same ||
	    found->origin != SLBN_OF_FIRST || ledger != found->ledger)
		found->held = entry->held;
	else
		found->held = fp_max64(found->held, entry->held);
	found->ledger = ledger;
	found->in_R = entry->in_R;
	found->rate = entry->rate;
	if (found->same || found->origin != SLBN_OF_FIRST)
		found->origin = entry->origin;
	found->left = found->same && entry->tag == SLBN_NO_TAG;
	return SLBN_FORWARD;
}

/*
 * Whether the link has processed what an acknowledgment is for. A LeaveAck finds
 * its session removed by the Leave, which only the memory still has. The Leave
 * of one that the memory has lost is retransmitted.
 */
static inline bool slbn_has_passed(const struct slbn_packet *ack,
				   const struct slbn_membership *found)
{
	return ack->type == SLBN_LEAVE_ACK ? found->left : !!found->ledger;
}

/* Remove a session from the ledger that counts it. */
static inline void slbn_remove_session(const struct slbn_link_params *p,
				       const struct slbn_link_vars *v,
				       struct slbn_link_stats *s,
				       const struct slbn_packet *pkt,
				       const struct slbn_membership *found)
{
	struct slbn_ledger *ledger = found->ledger;

	ledger->N = slbn_sub(s, ledger->N, pkt->weight);
	if (found->in_R)
		ledger->NR = slbn_sub(s, ledger->NR, pkt->weight);
	else
		ledger->BF = slbn_sub(s, ledger->BF, found->rate);
	if (p->commit)
		ledger->A = slbn_sub(s, ledger->A, found->held);
	s->migrated += ledger == &v->prev;
}

/*
 * The plan: add a session to the current ledger, compute the share with it in
 * R, then move it to F if the link does not restrict it. Returns whether it is
 * in R.
 */
static inline bool slbn_add_session(const struct slbn_link_params *p,
				    struct slbn_link_vars *v,
				    struct slbn_link_stats *s,
				    struct slbn_packet *pkt, u8 hop)
{
	u64 share;

	v->cur.N += pkt->weight;
	v->cur.NR += pkt->weight;
	share = slbn_link_share(p, v, pkt->weight);
	if (slbn_is_upstream(pkt)) {
		pkt->share = fp_min64(pkt->share, share);
		pkt->share_links += pkt->share_links < 255;
	}
	if (pkt->bottleneck == hop || pkt->bw > share) {
		pkt->B |= 1ULL << hop;
		pkt->bottleneck = hop;
		if (pkt->type != SLBN_JOIN)
			pkt->bw = share;
		return true;
	}
	v->cur.NR -= pkt->weight;
	v->cur.BF = slbn_add(s, v->cur.BF, pkt->bw1);
	return false;
}

/*
 * The commit, upstream: grant at most what is free, and return what to hold:
 * what is in use or granted, the larger, as a number that a code can express.
 */
static inline u64 slbn_grant(const struct slbn_link_params *p,
			     const struct slbn_link_vars *v,
			     struct slbn_link_stats *s, struct slbn_packet *pkt,
			     struct slbn_slot *slot, u64 now)
{
	u64 room = slbn_link_room(p, v);
	u64 rise, held;

	if (room < pkt->use || now < v->quiet_until)
		room = pkt->use;
	s->limited += room < pkt->bw && room < pkt->g;
	pkt->g = fp_min64(pkt->g, fp_min64(pkt->bw, room));
	if (p->epoch)
		pkt->epoch = fp_min64(pkt->epoch, fp_div(p->epoch, 1000));
	if (pkt->g <= pkt->use) {
		slot->code = 0;
		return pkt->use;
	}
	rise = fp_min64(pkt->g - pkt->use, slbn_decode(SLBN_CODE_MAX));
	slot->code = slbn_encode_up(rise);
	held = pkt->use + slbn_decode(slot->code);
	if (held > room) {
		slot->code = slbn_encode_down(room - pkt->use);
		held = pkt->use + slbn_decode(slot->code);
	}
	pkt->g = fp_min64(pkt->g, held);
	return held;
}

/*
 * The commit: hold what the source uses, downstream, or is granted, upstream.
 * Returns what is held.
 */
static inline u64 slbn_hold(const struct slbn_link_params *p,
			    struct slbn_link_vars *v, struct slbn_link_stats *s,
			    struct slbn_packet *pkt, struct slbn_slot *slot,
			    const struct slbn_membership *found, u64 now)
{
	u64 held = pkt->use;

	slot->code = 0;
	if (!p->commit)
		return 0;
	if (slbn_is_upstream(pkt))
		held = slbn_grant(p, v, s, pkt, slot, now);
	/* The answer to an earlier copy may have granted what it was held. */
	if (found->same && found->ledger && found->held > held) {
		held = found->held;
		slot->code = slbn_encode_up(held - pkt->use);
	}
	v->cur.A = slbn_add(s, v->cur.A, held);
	return held;
}

/**
 * slbn_link_process() - the link's task (figure 2), for all types of packets
 * @p: parameters
 * @v: state
 * @s: counters
 * @pkt: packet that slbn_parse_packet() accepted; updated
 * @slot: the packet's slot for slbn_current_hop(); updated
 * @now: time, ns; never earlier than in the previous call
 *
 * A packet that is to be dropped, and the ledgers and memory, are left
 * unchanged, apart from a due rotation (MUST 3 of docs/protocol.md).
 *
 * Return: SLBN_FORWARD, or the reason to drop the packet.
 */
static inline enum slbn_verdict
slbn_link_process(const struct slbn_link_params *p, struct slbn_link_vars *v,
		  struct slbn_link_stats *s, struct slbn_packet *pkt,
		  struct slbn_slot *slot, u64 now)
{
	bool upstream = slbn_is_upstream(pkt);
	u8 hop = slbn_current_hop(pkt);
	struct slbn_memory_entry entry = { .used = 1 };
	struct slbn_membership found;
	enum slbn_verdict verdict;

	if (hop >= pkt->slots) {
		if (upstream) {
			s->wrong_path++;
			return SLBN_DROP_WRONG_PATH;
		}
		s->too_many_hops++;
		return SLBN_DROP_TOO_MANY_HOPS;
	}
	slbn_link_rotate(p, v, now);
	verdict = slbn_find_session(p, v, s, pkt, hop, slot, &found);
	if (verdict != SLBN_FORWARD)
		return verdict;
	if (upstream && !slbn_has_passed(pkt, &found)) {
		s->wrong_path++;
		return SLBN_DROP_WRONG_PATH;
	}
	pkt->hop = upstream ? hop : hop + 1;
	if (pkt->type == SLBN_LEAVE_ACK) {
		s->leave_acks++;
		return SLBN_FORWARD;
	}

	if (found.ledger)
		slbn_remove_session(p, v, s, pkt, &found);
	else if (pkt->type != SLBN_LEAVE)
		s->new_sessions++;
	pkt->B &= ~(1ULL << hop);
	entry.session = found.hash;
	entry.seq = pkt->seq;
	entry.origin = found.origin;
	if (pkt->type == SLBN_LEAVE) {
		s->leaves++;
		slot->tag = SLBN_NO_TAG;
		slot->code = 0;
		slbn_memory_store(p, v, &entry);
		return SLBN_FORWARD;
	}

	entry.in_R = slbn_add_session(p, v, s, pkt, hop);
	entry.rate = entry.in_R ? 0 : pkt->bw1;
	entry.held = slbn_hold(p, v, s, pkt, slot, &found, now);
	entry.tag = v->tag;
	slot->tag = slbn_mask_tag(v->tag, found.hash);
	slbn_memory_store(p, v, &entry);
	s->joins += pkt->type == SLBN_JOIN;
	s->probes += pkt->type == SLBN_PROBE;
	s->acks += upstream;
	return SLBN_FORWARD;
}

/* Slots that a source adds to the length of its path, which may grow. */
#define SLBN_SPARE_SLOTS 2
/*
 * Transmissions of a packet before the source assumes that the path has become
 * longer.
 */
#define SLBN_PATH_TRIES 2
/* First cycles of a session, between which it does not pause. */
#define SLBN_FIRST_CYCLES 2

/* No lease: the rate may be used for ever. */
#define SLBN_NO_LEASE (~0ULL)
/*
 * Default part of an epoch by which leases end earlier, per mille: MUST 11 of
 * docs/protocol.md. A link forgets
 * what it holds an epoch after it wrote it; data that was sent until then must
 * have arrived. So the margin covers what queues on the path may grow by in an
 * epoch, and what clocks may differ by: 125 ms of a second, of which clocks need
 * 0.1 ms at 100 ppm.
 */
#define SLBN_LEASE_MARGIN 125
/* Largest margin, per mille: half of the epoch remains. */
#define SLBN_LEASE_MARGIN_MAX 500

/**
 * struct slbn_source - state of a session at its source
 * @D: demand, bit/s, at least 1
 * @rate: assigned rate, bit/s; 0 before the first cycle is done
 * @lease: time at which @rate ends unless an acknowledgment extends it, ns, or
 *	SLBN_NO_LEASE. Whatever limits the rate must enforce the lease by itself
 * @leaving: send a Leave when the cycle is done
 * @urgent: do not pause before the next packet: the rate is below the share, has
 *	just fallen, or the session is new
 * @slots: most slots of its packets
 * @margin: part of an epoch by which leases end earlier, per mille
 * @share_complete: all links of the path have stated their share
 * @tries: transmissions of @pkt
 * @sent: time of the first one, ns
 * @share: smallest fair share that links have stated in the last acknowledgment
 *	of a first transmission, bit/s, valid only with @share_complete;
 *	SLBN_RATE_MAX: none has
 * @pkt: packet in flight, or the next to send
 * @slot: slots of @pkt
 */
struct slbn_source {
	u64 D;
	u64 rate;
	u64 lease;
	bool leaving;
	bool urgent;
	u8 slots;
	u16 margin;
	bool share_complete;
	u32 tries;
	u64 sent;
	u64 share;
	struct slbn_packet pkt;
	struct slbn_slot slot[SLBN_HOPS_MAX];
};

/**
 * enum slbn_source_event - result of an acknowledgment at the source
 * @SLBN_ACK_IGNORED: it does not acknowledge the packet in flight
 * @SLBN_CYCLE_DONE: a cycle is done: the rate (unless leaving) and the next
 *	packet are set
 * @SLBN_SESSION_OVER: the Leave is acknowledged; the session has ended
 */
enum slbn_source_event {
	SLBN_ACK_IGNORED,
	SLBN_CYCLE_DONE,
	SLBN_SESSION_OVER,
};

/**
 * slbn_source_join() - start a session and prepare its Join
 * @src: session, initialized
 * @id: 128 random bits
 * @D: demand, bit/s, 1 to SLBN_RATE_MAX
 * @weight: 1 to SLBN_WEIGHT_MAX
 * @slots: most slots of its packets, 1 to SLBN_HOPS_MAX
 *
 * The margin of its leases is the default.
 */
static inline void slbn_source_join(struct slbn_source *src, const u64 id[2],
				    u64 D, u32 weight, u8 slots)
{
	const struct slbn_source joining = {
		.D = D,
		.lease = SLBN_NO_LEASE,
		.slots = slots,
		.margin = SLBN_LEASE_MARGIN,
		.share = SLBN_RATE_MAX,
		.pkt = {
			.id = { id[0], id[1] },
			.type = SLBN_JOIN,
			.slots = slots,
			.bottleneck = SLBN_NO_HOP,
			.weight = weight,
			.epoch = SLBN_NO_EPOCH,
			.bw = D,
			.share = SLBN_RATE_MAX,
		},
	};

	*src = joining;
}

/**
 * slbn_source_change() - change the demand
 * @src: session
 * @D: demand, bit/s, 1 to SLBN_RATE_MAX
 *
 * A lower demand applies to the rate now, a higher one from the next cycle on.
 */
static inline void slbn_source_change(struct slbn_source *src, u64 D)
{
	src->D = D;
	src->rate = fp_min64(src->rate, D);
}

/**
 * slbn_source_leave() - leave when the current cycle is done
 * @src: session, which must stop sending data now
 */
static inline void slbn_source_leave(struct slbn_source *src)
{
	src->leaving = true;
	src->rate = 0;
}

/**
 * slbn_source_expire() - end the assigned rate if its lease is over
 * @src: session
 * @now: time, ns
 *
 * MUST 6 of docs/protocol.md.
 *
 * Return: whether the rate fell to 0. The next acknowledgment assigns it anew.
 */
static inline bool slbn_source_expire(struct slbn_source *src, u64 now)
{
	if (now < src->lease || !src->rate)
		return false;
	src->rate = 0;
	return true;
}

/**
 * slbn_source_transmit() - prepare the session's packet for transmission
 * @src: session
 * @now: time, ns
 *
 * Call it before each transmission of @src->pkt, the first one and
 * retransmissions, which must be later than any answer to earlier copies can
 * arrive.
 */
static inline void slbn_source_transmit(struct slbn_source *src, u64 now)
{
	struct slbn_packet *pkt = &src->pkt;

	slbn_source_expire(src, now);
	if (!src->tries) {
		src->sent = now;
		/* The rate may have fallen since the last cycle. */
		pkt->use = fp_min64(pkt->use, src->rate);
	}
	pkt->again = src->tries > 0;
	for (; src->tries >= SLBN_PATH_TRIES && pkt->slots < src->slots;
	     pkt->slots++) {
		src->slot[pkt->slots].tag = SLBN_NO_TAG;
		src->slot[pkt->slots].code = 0;
	}
	src->tries++;
}

/**
 * slbn_path_length() - hops of a path that an acknowledgment returned from
 * @slot: its slots
 * @slots: number of slots
 *
 * Return: the number of the last hop that counts the session, plus 1.
 */
static inline u8 slbn_path_length(const struct slbn_slot *slot, u8 slots)
{
	while (slots && slot[slots - 1].tag == SLBN_NO_TAG)
		slots--;
	return slots;
}

/**
 * slbn_lease() - length of a lease
 * @epoch: shortest epoch of the links on the path, us
 * @margin: part of it by which the lease ends earlier, per mille, at most
 *	SLBN_LEASE_MARGIN_MAX
 *
 * Return: ns.
 */
static inline u64 slbn_lease(u32 epoch, u16 margin)
{
	return epoch * (u64)(1000 - margin);
}

/* Set the rate that an acknowledgment assigns, and its lease. */
static inline void slbn_source_assign(struct slbn_source *src,
				      const struct slbn_packet *ack, u64 now)
{
	u64 plan = fp_min64(ack->bw, src->D);
	u64 before = src->rate;
	/* Links may have forgotten the rate in use before the packet came. */
	bool lapsed = src->pkt.use1 && now >= src->lease;

	src->rate = lapsed ? 0 : fp_min64(ack->g, plan);
	src->lease = SLBN_NO_LEASE;
	if (ack->epoch != SLBN_NO_EPOCH) {
		/* Links may have forgotten what they held before. */
		src->lease = src->sent + slbn_lease(ack->epoch, src->margin);
		slbn_source_expire(src, now);
	}
	src->urgent = src->rate != plan || src->rate < before ||
		      ack->seq < SLBN_FIRST_CYCLES;
}

/* Hops from @hops on do not restrict the session. */
static inline void slbn_forget_hops(struct slbn_packet *pkt, u8 hops)
{
	if (hops < 64)
		pkt->B &= (1ULL << hops) - 1;
	if (pkt->bottleneck >= hops)
		pkt->bottleneck = SLBN_NO_HOP;
}

/**
 * slbn_source_ack() - process a received acknowledgment
 * @src: session
 * @ack: packet that slbn_parse_packet() accepted
 * @slot: its slots, @ack->slots of them; may be @src->slot
 * @now: time, ns
 *
 * Send the next packet, @src->pkt, at once if @src->urgent is set and after a
 * random pause otherwise, and retransmit it until it is acknowledged.
 *
 * Return: the event; @src is unchanged unless it is SLBN_CYCLE_DONE.
 */
static inline enum slbn_source_event
slbn_source_ack(struct slbn_source *src, const struct slbn_packet *ack,
		const struct slbn_slot *slot, u64 now)
{
	struct slbn_packet *pkt = &src->pkt;
	bool left = pkt->type == SLBN_LEAVE;
	u8 hop, hops;

	if (ack->type != (left ? SLBN_LEAVE_ACK : SLBN_PROBE_ACK) ||
	    ack->seq != pkt->seq || ack->id[0] != pkt->id[0] ||
	    ack->id[1] != pkt->id[1] || ack->slots > pkt->slots)
		return SLBN_ACK_IGNORED;
	if (left)
		return SLBN_SESSION_OVER;

	src->tries = 0;
	pkt->seq++;
	pkt->hop = 0;
	pkt->again = false;
	pkt->B = ack->B;
	pkt->bottleneck = ack->bottleneck;
	pkt->use1 = pkt->use;
	pkt->use = 0;
	/* An earlier copy may have had fewer slots. */
	pkt->slots = ack->slots;
	for (hop = 0; hop < pkt->slots; hop++)
		src->slot[hop] = slot[hop];
	hops = slbn_path_length(slot, pkt->slots);
	/* Retransmissions need not ask for it. */
	if (!ack->again) {
		src->share = ack->share;
		src->share_complete = hops && ack->share_links == hops;
	}
	pkt->slots = fp_min(pkt->slots, hops + SLBN_SPARE_SLOTS);
	slbn_forget_hops(pkt, pkt->slots);
	if (src->leaving) {
		pkt->type = SLBN_LEAVE;
		return SLBN_CYCLE_DONE;
	}
	slbn_source_assign(src, ack, now);
	pkt->type = SLBN_PROBE;
	pkt->use = src->rate;
	pkt->bw2 = pkt->bw1;
	pkt->bw1 = fp_min64(ack->bw, src->D);
	if (pkt->bottleneck == SLBN_NO_HOP || ack->bw >= src->D) {
		/* The demand restricts the session, as the link above hop 0. */
		pkt->bottleneck = SLBN_NO_HOP;
		pkt->bw = src->D;
	} else {
		pkt->bw = ack->bw;
	}
	return SLBN_CYCLE_DONE;
}

/**
 * slbn_clear_slots() - clear the slots of hops that a path does not have
 * @slot: slots of a packet at its destination
 * @pkt: the packet
 *
 * They are left from a longer path. The destination does this to each reply.
 */
static inline void slbn_clear_slots(struct slbn_slot *slot,
				    const struct slbn_packet *pkt)
{
	u8 hop;

	for (hop = pkt->hop; hop < pkt->slots; hop++) {
		slot[hop].tag = SLBN_NO_TAG;
		slot[hop].code = 0;
	}
}

/**
 * slbn_destination_reply() - the destination's task: make a packet its reply
 * @pkt: packet
 *
 * Return: true for Join, Probe and Leave; others are left unchanged.
 */
static inline bool slbn_destination_reply(struct slbn_packet *pkt)
{
	switch (pkt->type) {
	case SLBN_JOIN:
	case SLBN_PROBE:
		pkt->type = SLBN_PROBE_ACK;
		pkt->g = SLBN_RATE_MAX;
		pkt->epoch = SLBN_NO_EPOCH;
		break;
	case SLBN_LEAVE:
		pkt->type = SLBN_LEAVE_ACK;
		break;
	default:
		return false;
	}
	slbn_forget_hops(pkt, pkt->hop);
	return true;
}

#endif /* SLBN_CORE_H */
