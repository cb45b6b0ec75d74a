/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults: sessions that crash, without a Leave, as when an agent dies; and a
 * link that fails, so that sessions are rerouted.
 *
 * Both are applied to the network before a run, as sessions that leave and
 * join: so everything that looks at sessions, max-min rates too, takes them
 * into account.
 */
#ifndef SLBNSIM_FAULTS_H
#define SLBNSIM_FAULTS_H

#include "net.h"

#define FAULTS_CRASHES_MAX 8U
#define FAULTS_BUSIEST "busiest"

/**
 * struct crash - some sessions crash at a time
 * @part: probability of each session that is present, 1/1000000
 * @time: ns
 */
struct crash {
	u32 part;
	u64 time;
};

/**
 * struct faults - the faults of a run
 * @crashes: of sessions
 * @crash_count: number of @crashes
 * @cut: the link that fails, FROM>TO or FAULTS_BUSIEST; NULL: none
 * @cut_at: when, ns
 * @silent: rerouted sessions send no Leave on the old path
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
