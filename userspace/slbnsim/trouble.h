/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What goes wrong: sessions whose agent dies, so that they are gone without a
 * word, and a link that is cut, so that sessions have to take another path.
 *
 * Both are written into the network before a run, as sessions that leave and
 * join: so whatever looks at sessions, the oracle too, knows of them.
 */
#ifndef SLBNSIM_TROUBLE_H
#define SLBNSIM_TROUBLE_H

#include "net.h"

#define TROUBLE_DEATHS 8U
#define TROUBLE_BUSIEST "busiest"

/**
 * struct death - when how many sessions die
 * @part: of those that are there, 1/1000000
 * @time: ns
 */
struct death {
	u32 part;
	u64 time;
};

/**
 * struct trouble - all that goes wrong, as it was asked for
 * @deaths: of sessions
 * @death_count: how many times
 * @cut: the link, FROM>TO or TROUBLE_BUSIEST; NULL: none
 * @cut_at: when, ns
 * @silent: sessions move to another path without a word on the old one
 */
struct trouble {
	struct death deaths[TROUBLE_DEATHS];
	u32 death_count;
	const char *cut;
	u64 cut_at;
	bool silent;
};

const char *trouble_plan(struct net *net, const struct trouble *trouble,
			 u64 seed, u32 *link);

#endif /* SLBNSIM_TROUBLE_H */
