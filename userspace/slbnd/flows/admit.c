// SPDX-License-Identifier: GPL-2.0
/*
 * Admission of detected flows. See admit.h.
 */
#include <netinet/in.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../../common/siphash.h"
#include "admit.h"

#define SECOND 1000000000ULL
/* Pause after the first failure, and the longest one; the number of doublings. */
#define SILENT_RETRY (2 * SECOND)
#define SILENT_MAX (64 * SECOND)
#define SILENT_DOUBLINGS 5
/* A Join is answered or fails before that (agent.c, JOIN_TRIES). */
#define SILENT_ASKING (5 * SECOND)

/* Octets of the prefix that is a host. */
static size_t host_length(u16 family)
{
	return family == AF_INET ? 4 : 8;
}

static int compare_hosts(const void *a, const void *b)
{
	/* Address and family, without padding. */
	return memcmp(a, b, offsetof(struct admit_host, family) + sizeof(u16));
}

/**
 * admit_init() - initialize, without sessions
 * @admit: state
 */
void admit_init(struct admit *admit)
{
	*admit = (struct admit){};
	/* Fails only on kernels without this system call. */
	if (getrandom(admit->salt, sizeof(admit->salt), 0) !=
	    sizeof(admit->salt))
		abort();
}

/* The entry of a destination, which may be another one's. */
static struct admit_silent *silent_entry(const struct admit *admit,
					 const struct slbn_flow *flow)
{
	u64 hash = siphash24(flow->destination, sizeof(flow->destination),
			     admit->salt);

	return (struct admit_silent *)&admit->silent[hash % ADMIT_SILENT];
}

static bool is_entry_of(const struct admit_silent *entry,
			const struct slbn_flow *flow)
{
	return entry->family == flow->family &&
	       !memcmp(entry->address, flow->destination,
		       sizeof(entry->address));
}

/**
 * admit_is_silent() - has a destination not answered a Join lately?
 * @admit: state
 * @flow: a flow to it
 * @now: ns
 *
 * Return: whether its flows get no session now: not even one of them.
 */
bool admit_is_silent(const struct admit *admit, const struct slbn_flow *flow,
		     u64 now)
{
	const struct admit_silent *entry = silent_entry(admit, flow);

	return is_entry_of(entry, flow) && now < entry->until;
}

/* A destination that fell silent long ago starts anew. */
static bool is_old(const struct admit_silent *entry, u64 now)
{
	return now > entry->until + SILENT_MAX;
}

/**
 * admit_asks() - a session of a flow begins, which admit_flow() has admitted
 * @admit: state
 * @flow: the flow
 * @now: ns
 *
 * If its destination is silent, no other session asks it meanwhile. The session may
 * end before it is answered or fails.
 */
void admit_asks(struct admit *admit, const struct slbn_flow *flow, u64 now)
{
	struct admit_silent *entry = silent_entry(admit, flow);

	if (is_entry_of(entry, flow) && !is_old(entry, now))
		entry->until = now + SILENT_ASKING;
}

/**
 * admit_answered() - a destination, or an edge link before it, has answered
 * @admit: state
 * @flow: the flow of the session, of any kind
 *
 * Return: whether it was silent before.
 */
bool admit_answered(struct admit *admit, const struct slbn_flow *flow)
{
	struct admit_silent *entry = silent_entry(admit, flow);

	if (!is_entry_of(entry, flow))
		return false;
	*entry = (struct admit_silent){};
	return true;
}

/**
 * admit_unanswered() - a destination has not answered a Join
 * @admit: state
 * @flow: the flow of the session
 * @asked_at: when the session began, ns
 * @now: ns
 */
void admit_unanswered(struct admit *admit, const struct slbn_flow *flow,
		      u64 asked_at, u64 now)
{
	struct admit_silent *entry = silent_entry(admit, flow);

	if (!is_entry_of(entry, flow) || is_old(entry, now)) {
		*entry = (struct admit_silent){ .family = flow->family };
		memcpy(entry->address, flow->destination,
		       sizeof(entry->address));
	} else if (asked_at <= entry->failed_at) {
		return;
	}
	entry->failed_at = now;
	entry->until = now + (SILENT_RETRY << entry->failures);
	if (entry->failures < SILENT_DOUBLINGS)
		entry->failures++;
}

/**
 * admit_count_silent() - count silent destinations
 * @admit: state
 * @now: ns
 *
 * Return: the number of those that are remembered, at most ADMIT_SILENT.
 */
u32 admit_count_silent(const struct admit *admit, u64 now)
{
	u32 n, count = 0;

	for (n = 0; n < ADMIT_SILENT; n++)
		count += admit->silent[n].family &&
			 !is_old(&admit->silent[n], now);
	return count;
}

/* Find or add a host. Returns NULL without memory. */
static struct admit_host *get_host(struct admit *admit, u16 family,
				   const u8 *sender)
{
	struct admit_host key = { .family = family }, *host;
	struct admit_host **node;

	memcpy(key.address, sender, host_length(family));
	node = tfind(&key, &admit->hosts, compare_hosts);
	if (node)
		return *node;
	host = malloc(sizeof(*host));
	if (!host)
		return NULL;
	*host = key;
	if (tsearch(host, &admit->hosts, compare_hosts))
		return host;
	free(host);
	return NULL;
}

/* Free a host that is no longer used. */
static void put_host(struct admit *admit, struct admit_host *host)
{
	if (!host || host->sessions || host->asking || host->connections)
		return;
	tdelete(host, &admit->hosts, compare_hosts);
	free(host);
}

/**
 * admit_flow() - count a session of a flow, if it may have one
 * @admit: state
 * @flow: the flow
 * @sender: address of the local host
 * @prefix: number of the prefix of local hosts that it is in
 * @now: ns
 *
 * Return: its host, for admit_release(); NULL: no session is allowed now.
 */
struct admit_host *admit_flow(struct admit *admit, const struct slbn_flow *flow,
			      const u8 *sender, u32 prefix, u64 now)
{
	struct admit_host *host;

	if (admit_is_silent(admit, flow, now) ||
	    admit->prefixes[prefix] >= admit->config.prefix_sessions)
		return NULL;
	host = get_host(admit, flow->family, sender);
	if (!host || host->sessions >= admit->config.host_sessions) {
		put_host(admit, host);
		return NULL;
	}
	host->sessions++;
	admit->prefixes[prefix]++;
	return host;
}

/**
 * admit_must_wait() - do too many sessions of a host wait for their first answer?
 * @admit: state
 * @host: the host
 *
 * Return: whether no other one may begin now.
 */
bool admit_must_wait(const struct admit *admit, const struct admit_host *host)
{
	u32 part = admit->config.host_sessions / ADMIT_ASKING_PART;

	return host->asking >= fp_max(part, ADMIT_ASKING);
}

/**
 * admit_release() - a session ended
 * @admit: state
 * @host: from admit_flow(); may be freed
 * @prefix: as for admit_flow()
 */
void admit_release(struct admit *admit, struct admit_host *host, u32 prefix)
{
	admit->prefixes[prefix]--;
	host->sessions--;
	put_host(admit, host);
}

/**
 * admit_begin_asking() - a session was not answered yet
 * @host: from admit_flow()
 */
void admit_begin_asking(struct admit_host *host)
{
	host->asking++;
}

/**
 * admit_end_asking() - a session was answered, or ended
 * @admit: state
 * @host: from admit_begin_asking(); may be freed
 *
 * It may end later than admit_release(): when it leaves it still sends control
 * packets.
 */
void admit_end_asking(struct admit *admit, struct admit_host *host)
{
	host->asking--;
	put_host(admit, host);
}

/**
 * admit_connection() - count a connection, if its host may have one more
 * @admit: state
 * @family: of @sender
 * @sender: address of the local host
 *
 * Return: the host, for admit_disconnect(); NULL: it has too many.
 */
struct admit_host *admit_connection(struct admit *admit, u16 family,
				    const u8 *sender)
{
	struct admit_host *host = get_host(admit, family, sender);

	if (!host || host->connections >= admit->config.host_connections) {
		put_host(admit, host);
		return NULL;
	}
	host->connections++;
	return host;
}

/**
 * admit_disconnect() - a connection ended
 * @admit: state
 * @host: from admit_connection(); may be freed
 */
void admit_disconnect(struct admit *admit, struct admit_host *host)
{
	host->connections--;
	put_host(admit, host);
}
