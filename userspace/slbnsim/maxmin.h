/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The max-min reference: max-min fair rates, computed centrally.
 *
 * Rates are max-min fair if no session's rate can rise without lowering that of
 * a session with an equal or smaller rate. They are found by water filling
 * (Bertsekas, Gallager, Data Networks, 6.5.2): the link with the smallest
 * capacity per session assigns that share to its sessions; link and sessions
 * are removed, and so on. A demand is like a link of the session's own.
 *
 * With weights, "rate" is the rate over the session's weight in all of this: a
 * link's share is its capacity over the sum of weights, and a session gets its
 * weight times the share.
 *
 * Shares of links only grow during this. So a link's key in the heap may be too
 * small when the link comes to the top; then it is updated.
 *
 * A link that only one session ever crosses is treated like its demand: most
 * links are those of hosts, and the others fit in the caches.
 *
 * Between computations only the number of sessions at each link is kept. More
 * would not help: on the paper's networks, while sessions join, 98 % of the
 * rates change within a millisecond, since what one session gains or loses at a
 * link propagates to others at its next. So everything is computed again, in
 * some tens of nanoseconds for each hop of a session, unless the same sessions
 * are present.
 *
 * Rates are doubles; their errors are some parts in 10^13.
 */
#ifndef SLBNSIM_MAXMIN_H
#define SLBNSIM_MAXMIN_H

#include "net.h"

/* A link that several sessions cross. */
struct shared {
	double left; /* capacity without assigned rates, bit/s */
	u64 count; /* weights of present sessions without a rate */
	u64 present; /* weights of present sessions */
	double key; /* in the heap: a lower bound of its share, bit/s for a weight of 1 */
	u32 link;
};

/**
 * struct maxmin - max-min rates of a network
 * @net: the network with all sessions that are ever present
 * @plan: by link: the part of its rate that is shared, bit/s
 * @rate: by session, bit/s; 0 if it is absent
 * @is_bottleneck: by link: it limits some session
 */
struct maxmin {
	const struct net *net;
	u64 *plan;
	double *rate;
	bool *is_bottleneck;
	/* private */
	struct shared *shared;
	u32 shared_count;
	u32 *first; /* by shared link, its first session in @crossing; one element more */
	u32 *crossing;
	u32 *path; /* by session, its first link in @hops; one element more */
	u32 *hops; /* shared links */
	double *limit; /* by session: its demand, or the rate of its own link, bit/s */
	double *limit_share; /* the same over its weight */
	u32 *own_link; /* by session: that link; NET_NONE: the demand is smaller */
	u32 *by_limit; /* sessions with such a limit, the smallest limit first */
	u32 limit_count;
	bool *present; /* by session, in the latest computation */
	bool *assigned; /* by session: it has a rate */
	u32 *heap; /* shared links */
	u32 heap_count;
	bool is_first; /* no computation yet */
};

void maxmin_init(struct maxmin *mm, const struct net *net, u32 headroom,
		 const u64 *plan);
void maxmin_compute(struct maxmin *mm, const bool *present);
void maxmin_free(struct maxmin *mm);

#endif /* SLBNSIM_MAXMIN_H */
