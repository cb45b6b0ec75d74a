/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ceilings: up to which rate a session may send above its assigned one, and until when.
 *
 * A rate is reserved at each link of the path, takes some round trips to grow, and is
 * idle where the session does not use it. So slbnd asks for about what a session uses,
 * and lets it borrow: it may send up to the share that the links have stated in the
 * last answer (docs/protocol.md, section 5.6), which is what it would get if it asked
 * for it. Nothing is promised. Plan and commit do not know of ceilings, so the sum of
 * the rates at a link remains within its capacity; the sum of what arrives exceeds it
 * for a cycle or two if several sessions grow at once, until their rates have followed
 * what they use.
 *
 * The queue that this can build is bounded by receive windows (window.h), which follow
 * the ceiling: a borrower has ceiling * round-trip time in flight and no more. Hence a
 * session has a ceiling only if, in the cycle that the answer ends,
 *
 *	all links of its path have stated their share;
 *	it filled its window, or already used more than its rate: it needs more;
 *	windows reached what it sent, but for 1 / CEILING_ESCAPED: not UDP, not
 *	connections whose acknowledgments are not seen, nothing beyond the window;
 *	the pacer dropped or marked nothing.
 *
 * A ceiling ends after CEILING_CYCLES cycles without an answer that states a share, at
 * the latest with the lease. A session that sent what windows do not reach has none for
 * CEILING_BAR: otherwise it could obey in each second cycle.
 *
 * All sessions of a host that begin at the same first link borrow at most one share
 * together: with many connections a host gains no more than with one. The first link is
 * the coarsest path: whatever links its sessions have in common behind it, the sum at
 * each of them is at most as large. Sessions of other hosts are not counted.
 *
 * Not known here: routers between two links whose own links take no part. Answers have
 * no TTLs of all hops, only a trace (trace.h) of one session has.
 *
 * No clock, no session: times and counters are parameters.
 */
#ifndef SLBND_CEILING_H
#define SLBND_CEILING_H

#include <fairpath/core.h>

#include "../libslbn/libslbn.h"

/* Which part of its octets a borrower may send outside of windows. */
#define CEILING_ESCAPED 8
/* Cycles without an answer after which a ceiling ends. */
#define CEILING_CYCLES 2
/* How long who sent more than that outside has no ceiling, ns. */
#define CEILING_BAR 1000000000ULL

/**
 * struct ceiling_counters - what a session has sent so far (struct window_sharing)
 * @reached: octets on the wire that windows reach
 * @limited: those of them that windows or the pacer held back
 * @escaped: octets on the wire that windows do not reach
 * @dropped: packets that the pacer dropped or marked
 */
struct ceiling_counters {
	u64 reached;
	u64 limited;
	u64 escaped;
	u64 dropped;
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
 * @before: counters of that time
 */
struct ceiling {
	u64 ceiling;
	u64 until;
	u64 rate;
	u64 at;
	u64 barred;
	u32 guard;
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
	       now->escaped >= before->escaped &&
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
	       c->before.escaped;
	granted = ceiling_granted(c, s->now);
	return sent > granted ? sent - granted : 0;
}

/**
 * ceiling_wants() - may a session borrow, and does it need to?
 * @c: of the session; @s is noted, and its ceiling remains until ceiling_set()
 * @s: the answer
 *
 * Return: whether it shall have a ceiling, if there is anything to borrow.
 */
static inline bool ceiling_wants(struct ceiling *c,
				 const struct ceiling_sample *s)
{
	const struct ceiling_counters before = c->before;
	bool known = ceiling_is_known(c, s), full = false;
	u64 reached, escaped, granted;

	granted = known ? ceiling_granted(c, s->now) : 0;
	c->before = s->counters;
	c->at = s->now;
	c->rate = s->rate;
	c->guard = !s->rate	? SLBN_GUARD_ANSWER :
		   !s->complete ? SLBN_GUARD_LINKS :
				  SLBN_GUARD_WINDOW;
	if (!known)
		return false;
	reached = s->counters.reached - before.reached;
	escaped = s->counters.escaped - before.escaped;
	if (escaped > reached / CEILING_ESCAPED) {
		c->barred = s->now + CEILING_BAR;
		c->guard = SLBN_GUARD_ESCAPED;
		return false;
	}
	if (c->guard != SLBN_GUARD_WINDOW)
		return false;
	full = s->counters.limited > before.limited || reached > granted;
	if (s->now < c->barred)
		c->guard = SLBN_GUARD_ESCAPED;
	else if (s->counters.dropped != before.dropped)
		c->guard = SLBN_GUARD_PACER;
	else if (full)
		c->guard = SLBN_GUARD_SHARE;
	return c->guard == SLBN_GUARD_SHARE;
}

/**
 * ceiling_part() - what a session may borrow
 * @share: its own, bit/s
 * @others: what the other sessions of its host at its first link borrow, bit/s
 * @borrowers: number of these, and this one
 *
 * Return: bit/s; all of them together borrow at most the largest share.
 */
static inline u64 ceiling_part(u64 share, u64 others, u32 borrowers)
{
	return fp_min64(share / borrowers, share - fp_min64(share, others));
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
