/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sharing by hosts or prefixes: the sessions of a group of detected flows divide one
 * weight, so that opening more flows gains nothing.
 *
 * A session has one path, so a host with several destinations has several
 * sessions. Each has the host's weight, divided by the number of the host's
 * sessions, rounded up to a power of two. Together they have at most the host's
 * weight, and more than half of it; less than half only after sessions have
 * ended, for SHARE_PAUSE and a dump. A session's weight cannot change, so when
 * that power changes, all sessions of the group leave and join again with the
 * new one. The power falls no sooner than SHARE_PAUSE after it rose, so that a
 * host of the group cannot cause this repeatedly.
 */
#ifndef SLBND_SHARE_H
#define SLBND_SHARE_H

#include "flows.h"

/* Weight of a group; divided among up to as many sessions. */
#define SHARE_WEIGHT 1024

/* Time for which the divisor of the weight does not fall, ns. */
#define SHARE_PAUSE 60000000000ULL

/**
 * struct share - the detected flows of a host or prefix that have a session
 * @address: of the prefix, as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @sessions: their number
 * @divisor: of the weight
 * @grown_at: when that rose, ns
 * @members: list of them
 */
struct share {
	u8 address[16];
	u16 family;
	u32 sessions;
	u32 divisor;
	u64 grown_at;

	LIST_HEAD(, detected_flow) members;
};

bool share_join(struct flows *flows, struct detected_flow *detected,
		const struct session *restored);
bool share_replace(struct flows *flows, struct detected_flow *detected);
void share_settle(struct flows *flows, struct detected_flow *detected);
void share_leave(struct flows *flows, struct detected_flow *detected);
u32 share_weight(const struct flows *flows,
		 const struct detected_flow *detected);

#endif /* SLBND_SHARE_H */
