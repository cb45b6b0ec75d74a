// SPDX-License-Identifier: GPL-2.0
/*
 * Sharing by hosts or prefixes. See share.h.
 */
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../sessions/state.h"
#include "flows_internal.h"
#include "share.h"

static int compare_shares(const void *a, const void *b)
{
	/* Address and family, without padding. */
	return memcmp(a, b, offsetof(struct share, family) + sizeof(u16));
}

/**
 * share_weight() - the weight of a detected flow's session
 * @flows: flow detection
 * @detected: the flow
 *
 * Return: 1 to SLBN_WEIGHT_MAX.
 */
u32 share_weight(const struct flows *flows,
		 const struct detected_flow *detected)
{
	u64 weight = select_weight(&flows->config, &detected->flow,
				   detected->sender, detected->mark);

	if (detected->share)
		weight = weight * SHARE_WEIGHT / detected->share->divisor;
	return fp_min64(fp_max64(weight, 1), SLBN_WEIGHT_MAX);
}

/**
 * share_replace() - replace the session of a flow by one with the current weight
 * @flows: flow detection
 * @detected: the flow, with a session
 *
 * Return: false: there is no place for another session; the old one remains.
 */
bool share_replace(struct flows *flows, struct detected_flow *detected)
{
	struct session *old = detected->session;
	struct session *session;

	/* A client has ended it. */
	if (old->source.leaving)
		return true;
	session = agent_join(flows->agent, &detected->flow, old->mark,
			     old->source.D, share_weight(flows, detected),
			     old->budget.metered ? &old->budget.credit : NULL,
			     flows->now);
	if (!session)
		return false;
	session->flags = SLBN_DETECTED;
	session->use.detected = detected;
	state_save(flows->agent->state, session);
	session->use.demand = old->use.demand;
	detected->session = session;
	old->use.detected = NULL;
	/* It takes over the place among those that were never answered. */
	session->use.asking = old->use.asking;
	old->use.asking = NULL;
	agent_leave(flows->agent, old, flows->now);
	return true;
}

static void set_divisor(struct flows *flows, struct share *share, u32 divisor)
{
	struct detected_flow *member, *next;
	bool grows = divisor > share->divisor;

	if (grows)
		share->grown_at = flows->now;
	share->divisor = divisor;
	for (member = LIST_FIRST(&share->members); member; member = next) {
		next = LIST_NEXT(member, shared);
		/* The group must not weigh more than it may. */
		if (!share_replace(flows, member) && grows)
			flows_leave_first(flows, member);
	}
}

static struct share *get_share(struct flows *flows, const struct share *key)
{
	struct share *const *node = tfind(key, &flows->shares, compare_shares);
	struct share *share = node ? *node : malloc(sizeof(*share));

	if (node || !share)
		return share;
	*share = *key;
	LIST_INIT(&share->members);
	if (tsearch(share, &flows->shares, compare_shares))
		return share;
	free(share);
	return NULL;
}

/* The power of two by which the weight of a restored session was divided. */
static u32 restored_divisor(const struct flows *flows,
			    const struct detected_flow *detected,
			    const struct session *restored)
{
	u32 divisor = 1;

	/* With the divisor 1. */
	while (divisor < SHARE_WEIGHT &&
	       share_weight(flows, detected) / divisor >
		       restored->source.pkt.weight)
		divisor *= 2;
	return divisor;
}

/* Do fewer sessions than half of the next smaller divisor remain? */
static bool is_sparse(const struct share *share)
{
	return share->sessions <= share->divisor / 4;
}

/**
 * share_join() - a detected flow is going to have a session
 * @flows: flow detection
 * @detected: the flow, without a session; its group is set, if options require one
 * @restored: session that it will have; NULL: another one
 *
 * Return: false without memory.
 */
bool share_join(struct flows *flows, struct detected_flow *detected,
		const struct session *restored)
{
	u8 length =
		flows->config.share_length[detected->flow.family == AF_INET6];
	struct share key = { .family = detected->flow.family, .divisor = 1 };
	struct share *share;
	u8 bit;

	detected->share = NULL;
	if (flows->config.sessions != FLOWS_PER_SHARE)
		return true;
	for (bit = 0; bit < length; bit++)
		key.address[bit / 8] |=
			detected->sender[bit / 8] & 0x80 >> bit % 8;
	share = get_share(flows, &key);
	if (!share)
		return false;
	detected->share = share;
	share->sessions++;
	/* More of its sessions were restored. */
	if (restored && share->sessions == 1)
		share->divisor = restored_divisor(flows, detected, restored);
	if (share->sessions > share->divisor)
		set_divisor(flows, share, 2 * share->divisor);
	return true;
}

/**
 * share_leave() - a detected flow's session is no longer its own
 * @flows: flow detection
 * @detected: the flow; it is no longer in the list of members
 */
void share_leave(struct flows *flows, struct detected_flow *detected)
{
	struct share *share = detected->share;

	detected->share = NULL;
	if (!share)
		return;
	share->sessions--;
	if (!share->sessions) {
		tdelete(share, &flows->shares, compare_shares);
		free(share);
	}
}

/**
 * share_settle() - adapt a group to the sessions that ended, or were restored
 * @flows: flow detection
 * @detected: a flow of the group, or of none
 *
 * Not soon after it grew: hosts that open and close flows would make each other's
 * sessions begin anew all the time.
 */
void share_settle(struct flows *flows, struct detected_flow *detected)
{
	struct share *share = detected->share;

	if (!share || !is_sparse(share) ||
	    flows->now - share->grown_at < SHARE_PAUSE)
		return;
	while (is_sparse(share))
		share->divisor /= 2;
	set_divisor(flows, share, share->divisor);
}
