/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What goes wrong: sessions whose agent dies, so that they are gone without a
 * word, and a link that is cut, so that sessions have to take another path.
 *
 * Both are written into the network before a run, as sessions that leave and
 * join: so whatever looks at sessions, the oracle too, knows of them.
 */
#ifndef SLBNSIM_FAULTS_H
#define SLBNSIM_FAULTS_H

#include "net.h"

#define FAULTS_CRASHES_MAX 8U
#define FAULTS_BUSIEST "busiest"

/**
 * struct crash - when how many sessions die
 * @part: of those that are there, 1/1000000
 * @time: ns
 */
struct crash {
	u32 part;
	u64 time;
};

/**
 * struct faults - all that goes wrong, as it was asked for
 * @crashes: of sessions
 * @crash_count: how many times
 * @cut: the link, FROM>TO or FAULTS_BUSIEST; NULL: none
 * @cut_at: when, ns
 * @silent: sessions move to another path without a word on the old one
 */
struct faults {
	struct crash crashes[FAULTS_CRASHES_MAX];
	u32 crash_count;
	const char *cut;
	u64 cut_at;
	bool silent;
};

const char *faults_apply(struct net *net, const struct faults *faults, u64 seed,
			 u32 *link);

#endif /* SLBNSIM_FAULTS_H */
