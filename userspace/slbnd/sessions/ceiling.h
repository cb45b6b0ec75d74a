/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ceilings: up to which rate a session may send above its assigned one, and until when.
 *
 * A rate is reserved at each link of the path, takes some round trips to grow,
 * and is wasted where the session does not use it. So slbnd asks for about what
 * a session uses, and lets it borrow: it may send up to the share that the
 * links have stated in the last answer (docs/protocol.md, section 5.6), which
 * is what the session would get if it asked for it. This is not guaranteed.
 * Plan and commit do not know of ceilings, so the sum of the rates at a link
 * remains within its capacity; the sum of what arrives exceeds it for a cycle
 * or two if several sessions grow at once, until their rates have followed what
 * they use.
 *
 * The queue that this can build is bounded by receive windows (window.h), which follow
 * the ceiling: a borrower has ceiling * round-trip time in flight and no more. Hence a
 * session has a ceiling only if, in the cycle that the answer ends,
 *
 *	all links of its path have stated their share;
 *	it filled its window, or already used more than its rate: it needs more, or it
 *	did so in one of the CEILING_PATIENCE cycles before: slow start pauses between
 *	its bursts, and a pacer at the assigned rate would end it there (HyStart);
 *	windows applied to what it sent, except 1 / CEILING_ESCAPED: not UDP,
 *	not connections whose acknowledgments are not seen, nothing beyond the
 *	window;
 *	the pacer dropped or marked nothing.
 *
 * Windows do not apply to acknowledgments either. But data grow as fast as
 * acknowledgments return: a pacer that delays them for tens of milliseconds
 * ends the slow start of the data's sender, and there is one for each packet or
 * each second packet. So a session that sends little else has a ceiling, too,
 * of 1 / CEILING_ACKS of the share. A packet of 1500 octets takes 66 octets of
 * acknowledgments, so that is enough for the share of a link that is twice as
 * fast in the other direction.
 *
 * A ceiling ends after CEILING_CYCLES cycles without an answer that states a
 * share, at the latest with the lease. A session that sent what windows do not
 * apply to has no ceiling for CEILING_BAR: otherwise it could obey windows in
 * each second cycle only.
 *
 * The sessions of a host that begin at the same first link divide one share:
 * with many connections a host gains no more than with one. When one more
 * begins to borrow, it gets its part at once, and the others have theirs from
 * their next answer on, so they may have CEILING_MOST shares for CEILING_CYCLES
 * cycles: if the new session waited instead, it would leave slow start.
 * Sessions that acknowledge divide theirs in the same way. Grouping by the
 * first link is sufficient: whatever later links the sessions have in common,
 * the sum at each of them is at most as large. Sessions of other hosts are not
 * counted.
 *
 * Not known here: whether there are routers without SLBN between two links.
 * Answers have no TTLs of all hops, only a trace (trace.h) of one session has.
 *
 * No clock, no session: times and counters are parameters.
 */
#ifndef SLBND_CEILING_H
#define SLBND_CEILING_H

#include <fairpath/core.h>

#include "../../libslbn/libslbn.h"

/* Part of its octets that a borrower may send outside of windows: 1 / this. */
#define CEILING_ESCAPED 8
/* Which part of its share a session may use for acknowledgments, above its rate. */
#define CEILING_ACKS 8
/* Octets of acknowledgments in a cycle that any session may send. */
#define CEILING_FEW_ACKS 1000
/* Cycles for which a session keeps a ceiling that it does not need. */
#define CEILING_PATIENCE 4
/* Shares that the sessions of a host have while one more of them begins to borrow. */
#define CEILING_MOST 2
/* Cycles without an answer after which a ceiling ends. */
#define CEILING_CYCLES 2
/*
 * How long a session that sent more than that outside of windows has no
 * ceiling, ns.
 */
#define CEILING_BAR 1000000000ULL

/**
 * struct ceiling_counters - what a session has sent so far (struct window_sharing)
 * @reached: octets on the wire that windows apply to
 * @limited: those of them that windows or the pacer held back
 * @escaped: octets on the wire that windows do not apply to, except @acks
 * @acks: octets on the wire of TCP without data
 * @dropped: packets that the pacer dropped or marked
 */
struct ceiling_counters {
	u64 reached;
	u64 limited;
	u64 escaped;
	u64 acks;
	u64 dropped;
};

/**
 * enum ceiling_need - what a session needs a ceiling for
 * @CEILING_NONE: it has none
 * @CEILING_FOR_DATA: TCP's data
 * @CEILING_FOR_ACKS: acknowledgments
 */
enum ceiling_need {
	CEILING_NONE,
	CEILING_FOR_DATA,
	CEILING_FOR_ACKS,
};

/**
 * struct ceiling_sample - an answer to a session
 * @now: ns
 * @rate: that it assigns, bit/s; 0: none
 * @lease: time at which @rate ends, ns
 * @share: the smallest one of the path's links, bit/s
 * @complete: all links of the path have stated theirs
 * @fresh: this answer states @share, and not an earlier one
 * @cycle: expected time until the next answer, ns
 * @counters: of the session
 */
struct ceiling_sample {
	u64 now;
	u64 rate;
	u64 lease;
	u64 share;
	bool complete;
	bool fresh;
	u64 cycle;
	struct ceiling_counters counters;
};

/**
 * struct ceiling - the ceiling of a session; initially 0
 * @ceiling: bit/s; 0: none
 * @until: when it ends, ns
 * @rate: of the last answer, bit/s
 * @at: time of it, ns; 0: there was none, so the rate was 0
 * @barred: no ceiling until then, ns
 * @guard: enum slbn_guard, what bounds @ceiling
 * @need: what it needs a ceiling for
 * @idle: answers since it last needed one
 * @before: counters of that time
 */
struct ceiling {
	u64 ceiling;
	u64 until;
	u64 rate;
	u64 at;
	u64 barred;
	u32 guard;
	enum ceiling_need need;
	u32 idle;
	struct ceiling_counters before;
};

static inline bool ceiling_is_known(const struct ceiling *c,
				    const struct ceiling_sample *s)
{
	const struct ceiling_counters *now = &s->counters;
	const struct ceiling_counters *before = &c->before;

	/* Otherwise the counters were reset. */
	return s->now > c->at && now->reached >= before->reached &&
	       now->limited >= before->limited &&
	       now->escaped >= before->escaped && now->acks >= before->acks &&
	       now->dropped >= before->dropped;
}

/* What it may send at its rate since the last answer, octets. */
static inline u64 ceiling_granted(const struct ceiling *c, u64 now)
{
	return (double)c->rate * (double)(now - c->at) / 8e9;
}

/**
 * ceiling_borrowed() - what was sent above the rate since the last answer
 * @c: of the session, before ceiling_wants()
 * @s: the answer
 *
 * Return: octets on the wire; 0 if there was no ceiling.
 */
static inline u64 ceiling_borrowed(const struct ceiling *c,
				   const struct ceiling_sample *s)
{
	u64 sent, granted;

	if (!c->ceiling || !ceiling_is_known(c, s))
		return 0;
	sent = s->counters.reached - c->before.reached + s->counters.escaped -
	       c->before.escaped + s->counters.acks - c->before.acks;
	granted = ceiling_granted(c, s->now);
	return sent > granted ? sent - granted : 0;
}

/* Note what a session needs by what it sent since the last answer, octets. */
static inline void ceiling_look(struct ceiling *c, u64 reached, u64 acks,
				bool full)
{
	if (acks > reached / CEILING_ESCAPED + CEILING_FEW_ACKS) {
		c->need = CEILING_FOR_ACKS;
		c->idle = 0;
	} else if (full) {
		c->need = CEILING_FOR_DATA;
		c->idle = 0;
	} else if (c->idle++ >= CEILING_PATIENCE) {
		c->need = CEILING_NONE;
	}
}

/**
 * ceiling_wants() - may a session borrow, and does it need to?
 * @c: of the session; @s is noted, and its ceiling remains until ceiling_set()
 * @s: the answer
 *
 * Return: what it shall have a ceiling for, if there is anything to borrow.
 */
static inline enum ceiling_need ceiling_wants(struct ceiling *c,
					      const struct ceiling_sample *s)
{
	const struct ceiling_counters before = c->before;
	bool known = ceiling_is_known(c, s), full, drops;
	u64 reached, escaped, granted;

	granted = known ? ceiling_granted(c, s->now) : 0;
	c->before = s->counters;
	c->at = s->now;
	c->rate = s->rate;
	c->guard = !s->rate	? SLBN_GUARD_ANSWER :
		   !s->complete ? SLBN_GUARD_LINKS :
				  SLBN_GUARD_WINDOW;
	if (!known) {
		c->need = CEILING_NONE;
		return CEILING_NONE;
	}
	reached = s->counters.reached - before.reached;
	escaped = s->counters.escaped - before.escaped;
	if (escaped > reached / CEILING_ESCAPED) {
		c->barred = s->now + CEILING_BAR;
		c->need = CEILING_NONE;
		c->guard = SLBN_GUARD_ESCAPED;
		return CEILING_NONE;
	}
	full = s->counters.limited > before.limited || reached > granted;
	ceiling_look(c, reached, s->counters.acks - before.acks, full);
	/* Acknowledgments are dropped because their rate is too low. */
	drops = s->counters.dropped != before.dropped &&
		c->need == CEILING_FOR_DATA;
	if (c->guard != SLBN_GUARD_WINDOW)
		return CEILING_NONE;
	if (s->now < c->barred)
		c->guard = SLBN_GUARD_ESCAPED;
	else if (drops)
		c->guard = SLBN_GUARD_PACER;
	else if (c->need != CEILING_NONE)
		c->guard = SLBN_GUARD_SHARE;
	return c->guard == SLBN_GUARD_SHARE ? c->need : CEILING_NONE;
}

/**
 * ceiling_part() - what a session may borrow
 * @share: its own, bit/s
 * @need: what for, not CEILING_NONE
 * @others: what the other sessions of its host at its first link borrow for that, bit/s
 * @borrowers: number of these, and this one
 *
 * Return: bit/s.
 */
static inline u64 ceiling_part(u64 share, enum ceiling_need need, u64 others,
			       u32 borrowers)
{
	u64 most;

	if (need == CEILING_FOR_ACKS)
		share /= CEILING_ACKS;
	most = CEILING_MOST * share;
	return fp_min64(share / borrowers, most - fp_min64(most, others));
}

/**
 * ceiling_set() - set the ceiling of a session
 * @c: of the session, after ceiling_wants()
 * @s: the same answer
 * @part: what it may borrow, bit/s; 0: nothing
 *
 * Return: what it borrows at most, bit/s.
 */
static inline u64 ceiling_set(struct ceiling *c, const struct ceiling_sample *s,
			      u64 part)
{
	u64 most = fp_min64(s->share, s->rate + part);

	if (c->guard == SLBN_GUARD_SHARE && most < s->share)
		c->guard = SLBN_GUARD_HOST;
	/* An old share remains valid for as long as it was. */
	if (!s->fresh)
		most = fp_min64(most, c->ceiling);
	else
		c->until = s->now + CEILING_CYCLES * s->cycle;
	c->until = fp_min64(c->until, s->lease);
	c->ceiling = part && most > s->rate && c->until > s->now ? most : 0;
	if (part && s->share > s->rate && !c->ceiling)
		c->guard = SLBN_GUARD_ANSWER;
	return c->ceiling ? c->ceiling - s->rate : 0;
}

#endif /* SLBND_CEILING_H */
