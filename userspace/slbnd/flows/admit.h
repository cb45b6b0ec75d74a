/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Admission: whether a detected flow may have a session.
 *
 * Each local host, and each prefix of local hosts, has a maximum number of
 * sessions, and each host one of connections that slbnd keeps, so that no host
 * fills the table. A host is an IPv4 address or an IPv6 /64, in which a host
 * may choose its addresses. A destination that has not answered a Join is
 * silent: its flows get no session, but one at a time asks again, after a pause
 * that begins with SILENT_RETRY and doubles up to SILENT_MAX. Any answer from
 * it, to whichever session, ends that. So all flows that ask during one outage
 * fail once, and slbnd notices that a destination answers again after about the
 * time for which it was silent, at most SILENT_MAX.
 *
 * Destinations that were never asked are not known to be silent, and each costs
 * six Joins. Links limit control packets of all hosts together, so a host may
 * have few sessions at a time that were never answered: with ADMIT_ASKING and
 * paths of 32 links their Joins are 0.2 Mbit/s (IPv6: 0.4), where the control
 * limit of a link of 20 Mbit/s is 1 Mbit/s.
 *
 * The table of silent destinations has a fixed size and replaces entries; its
 * hash is keyed, so hosts cannot choose which. Losing an entry causes another
 * Join, but the flow must have sent more than a Join before.
 */
#ifndef SLBND_ADMIT_H
#define SLBND_ADMIT_H

#include <stdbool.h>

#include <fairpath/core.h>

#include "../../libslbn/libslbn.h"
#include "../system/prefix.h"

/* Prefixes of local hosts. */
#define ADMIT_PREFIXES FLOWS_PREFIXES
/* Silent destinations. */
#define ADMIT_SILENT 4096
/* Sessions of a host that were never answered: this, or a part of its maximum. */
#define ADMIT_ASKING 32
#define ADMIT_ASKING_PART 32

/**
 * struct admit_config - options
 * @host_sessions: maximum sessions of a local host
 * @prefix_sessions: maximum sessions of each prefix of local hosts
 * @host_connections: maximum connections of a local host that are kept
 */
struct admit_config {
	u32 host_sessions;
	u32 prefix_sessions;
	u32 host_connections;
};

/**
 * struct admit_host - a local host with sessions or connections
 * @address: of the host, or of its /64; as in struct slbn_flow
 * @family: AF_INET or AF_INET6
 * @sessions: its sessions
 * @asking: metered sessions that were never answered, also of flows that have ended
 * @connections: its connections
 */
struct admit_host {
	u8 address[16];
	u16 family;
	u32 sessions;
	u32 asking;
	u32 connections;
};

/**
 * struct admit_silent - a destination that has not answered
 * @address: as in struct slbn_flow
 * @family: AF_INET or AF_INET6; 0: unused
 * @failures: periods without an answer
 * @failed_at: when the last one was counted, ns: Joins before that belong to it
 * @until: time until which it gets no Join, ns
 */
struct admit_silent {
	u8 address[16];
	u16 family;
	u16 failures;
	u64 failed_at;
	u64 until;
};

/**
 * struct admit - state
 * @config: options
 * @hosts: tree of the hosts with sessions or connections
 * @prefixes: sessions of each prefix
 * @salt: key of the hash of @silent
 * @silent: silent destinations
 */
struct admit {
	struct admit_config config;
	void *hosts;
	u32 prefixes[ADMIT_PREFIXES];
	u8 salt[16];
	struct admit_silent silent[ADMIT_SILENT];
};

void admit_init(struct admit *admit);
struct admit_host *admit_flow(struct admit *admit, const struct slbn_flow *flow,
			      const u8 *sender, u32 prefix, u64 now);
struct admit_host *admit_connection(struct admit *admit, u16 family,
				    const u8 *sender);
void admit_disconnect(struct admit *admit, struct admit_host *host);
void admit_release(struct admit *admit, struct admit_host *host, u32 prefix);
bool admit_must_wait(const struct admit *admit, const struct admit_host *host);
void admit_begin_asking(struct admit_host *host);
void admit_asks(struct admit *admit, const struct slbn_flow *flow, u64 now);
void admit_end_asking(struct admit *admit, struct admit_host *host);
bool admit_answered(struct admit *admit, const struct slbn_flow *flow);
void admit_unanswered(struct admit *admit, const struct slbn_flow *flow,
		      u64 asked_at, u64 now);
bool admit_is_silent(const struct admit *admit, const struct slbn_flow *flow,
		     u64 now);
u32 admit_count_silent(const struct admit *admit, u64 now);

#endif /* SLBND_ADMIT_H */
