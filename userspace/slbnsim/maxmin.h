/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rates that everything here is compared with: max-min fair ones, found
 * with the whole network in view.
 *
 * A session's rate is max-min fair if it cannot have more without another one,
 * that has not more, having less. They are found by filling (Bertsekas,
 * Gallager, Data Networks, 6.5.2): of all links, the one whose capacity, evenly
 * divided among the sessions there, gives the least stops these at that rate;
 * it and they are taken away, and so on. A demand is a link of the session's
 * own.
 *
 * Shares of links only grow while this goes on. So a link's place in the order
 * may be out of date when it comes first, and is looked up again then.
 *
 * A link that only one session ever crosses is like its demand, and taken for
 * such: most links are those of hosts, and what is left of the others fits into
 * a processor's caches.
 *
 * From one computation to the next, only the number of sessions at each link is
 * kept. More would not help: on the paper's networks, while sessions join, 98 of
 * 100 have another rate a millisecond later, for what one loses or gains at a
 * link goes on to others at its next. So all is worked out again, which takes
 * some tens of nanoseconds for each hop of a session; and nothing at all if the
 * same sessions are there.
 *
 * Rates are doubles: errors are some parts in 10^13.
 */
#ifndef SLBNSIM_MAXMIN_H
#define SLBNSIM_MAXMIN_H

#include "net.h"

/* A link that sessions share. */
struct shared {
	double left; /* bit/s */
	u32 count; /* sessions that are not done */
	u32 present; /* sessions */
	double key; /* its place in the order: bit/s for each */
	u32 link;
};

/**
 * struct maxmin - the oracle
 * @net: the network with all sessions that there ever are
 * @rate: by session, bit/s; of those that are there
 * @restricts: by link, whether some session is restricted there
 */
struct maxmin {
	const struct net *net;
	double *rate;
	bool *is_bottleneck;
	/* Of no interest to others. */
	struct shared *shared;
	u32 shared_count;
	u32 *first; /* by shared link, its first session in crossing; one more */
	u32 *crossing;
	u32 *path; /* by session, its first link in hops; one more */
	u32 *hops; /* shared links */
	double *limit; /* by session, bit/s: its demand, or a link of its own */
	u32 *own_link; /* by session, that link, or NET_NONE: its demand is less */
	u32 *by_limit; /* sessions that have such a limit, the smallest first */
	u32 limit_count;
	bool *present; /* by session, whether it was the last time */
	bool *assigned; /* by session */
	u32 *heap; /* shared links */
	u32 heap_count;
	bool fresh; /* nothing has been computed yet */
};

void maxmin_init(struct maxmin *mm, const struct net *net);
void maxmin_compute(struct maxmin *mm, const bool *present);
void maxmin_free(struct maxmin *mm);

#endif /* SLBNSIM_MAXMIN_H */
