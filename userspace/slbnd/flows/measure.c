// SPDX-License-Identifier: GPL-2.0
/*
 * Measurement of use: updates demands and credit of sessions. See flows.h.
 */
#include "flows.h"

/*
 * Minimum interval of measurements per session, ns: one of 10,000 sessions takes
 * about 10 ms.
 */
#define STEP_PER_SESSION 25000ULL
/* Length of packets if only conntrack counts them, octets. */
#define PACKET 1500

/* Credit a metered session for what its flow has sent. */
static void credit_session(struct flows *flows, struct session *session,
			   const struct enforce_use *use)
{
	struct detected_flow *detected = session->use.detected;
	struct agent_credit earned;

	if (!detected || !session->budget.metered)
		return;
	earned.packets =
		counted_since(&detected->metered.packets, use->packets);
	earned.octets = counted_since(&detected->metered.octets, use->bytes);
	agent_credit(flows->agent, session, &earned, flows->now);
}

/*
 * Update the demand of a session by the counters @use; @estimate is demand_update()
 * or demand_start().
 */
static void update_demand(struct flows *flows, struct session *session,
			  const struct enforce_use *use,
			  u64 (*estimate)(struct demand *d,
					  const struct demand_sample *s))
{
	u64 rate = session->source.rate, demand = session->source.D;
	bool unrestricted = session->source.pkt.bottleneck == SLBN_NO_HOP;
	bool borrows = flows_can_borrow(flows, session);
	/*
	 * Nothing limits a flow whose rate is not enforced: it uses what it needs,
	 * also between the leases of a session that earns few control packets.
	 */
	bool is_free = !flows->enforce && session->cycles;
	struct demand_sample sample = {
		.now = flows->now,
		.bytes = use->bytes,
		.drops = use->drops + use->marks,
		.packet = use->packets ? use->bytes / use->packets : PACKET,
		.rtt = session->timing.rtt,
		.rate = !rate && is_free ? demand : rate,
		.demand = demand,
		.unrestricted = unrestricted,
		.demand_limited = unrestricted && rate >= demand,
		.borrows = borrows,
		.by_use = !flows->config.borrow,
		.growth = flows_growth(session->flow.protocol, use->packets,
				       use->bytes, borrows),
		.reached = use->reached,
		.limited = use->limited,
		.elsewhere = use->elsewhere,
	};
	u64 new_demand = estimate(&session->use.demand, &sample);

	new_demand = fp_min64(new_demand, SLBN_RATE_MAX);
	/* Slow start has reached the rate, or the flow does not need it. */
	if (session->use.demand.lowered ||
	    (session->cycles && rate &&
	     session->use.demand.used > rate / 8 * 7))
		session->use.bursts = false;
	if (session->use.detected && new_demand != demand)
		agent_change(flows->agent, session, new_demand, flows->now);
	credit_session(flows, session, use);
}

/* Those that have just begun are measured by measure_starting(). */
static bool is_measured(const struct session *session)
{
	return session->in_use &&
	       !(session->use.detected && session->use.detected->starting);
}

/* One by one, for some sessions at a time. */
static void measure_each(struct flows *flows)
{
	const struct agent *agent = flows->agent;
	struct enforce_use use;
	u32 n, end = fp_min(flows->step_index + FLOWS_SLICE, agent->entries);

	for (n = flows->step_index; n < end; n++) {
		struct session *session = agent->sessions[n];

		if (is_measured(session) &&
		    enforce_read(flows->enforce, &session->flow,
				 &session->use.place, &use))
			update_demand(flows, session, &use, demand_update);
	}
	flows->step_index = end < agent->entries ? end : 0;
}

static void measure_flow(void *context, const struct slbn_flow *flow,
			 const struct enforce_use *use)
{
	struct flows *flows = context;
	struct session *session;

	/* Clients may have joined several sessions. */
	for (session = agent_find_flow(flows->agent, flow); session;
	     session = session->older)
		if (is_measured(session))
			update_demand(flows, session, use, demand_update);
}

/* By the counters of rate enforcement, for some sessions at a time. */
static void measure_enforced(struct flows *flows)
{
	struct enforce *enforce = flows->enforce;
	u32 next = flows->step_index;

	if (!next)
		flows->step_batches = enforce_has_batches(enforce);
	if (flows->step_batches)
		flows->step_index =
			enforce_read_batch(enforce, next, measure_flow, flows);
	else
		measure_each(flows);
}

/*
 * In each round trip, until a link limits the flow or it sends less: of those that
 * were not measured for the longest time, some at a time.
 */
static void measure_starting(struct flows *flows)
{
	struct detected_flow *detected = NULL, *last, *next;
	struct enforce_use use;
	u64 count = 0;

	next = TAILQ_FIRST(&flows->starting);
	last = TAILQ_LAST(&flows->starting, flows_starting);
	while (detected != last && count < FLOWS_SLICE) {
		struct session *session = next->session;
		u64 step = fp_max64(session->timing.rtt, FLOWS_FAST_STEP);

		detected = next;
		next = TAILQ_NEXT(detected, fast);
		TAILQ_REMOVE(&flows->starting, detected, fast);
		TAILQ_INSERT_TAIL(&flows->starting, detected, fast);
		count++;
		if (!session->timing.rtt ||
		    flows->now - session->use.demand.step < step ||
		    !enforce_read(flows->enforce, &session->flow,
				  &session->use.place, &use))
			continue;
		update_demand(flows, session, &use, demand_start);
		if (session->cycles &&
		    (session->source.pkt.bottleneck != SLBN_NO_HOP ||
		     demand_has_started(&session->use.demand)))
			end_start(flows, detected);
	}
	flows->fast_at =
		TAILQ_EMPTY(&flows->starting) ?
			~0ULL :
			flows->now + fp_max64(FLOWS_FAST_STEP,
					      STEP_PER_SESSION * count);
}

/**
 * flows_measure_tracked() - measure use by the counters of conntrack
 * @flows: flow detection
 */
void flows_measure_tracked(struct flows *flows)
{
	struct detected_flow *detected;

	LIST_FOREACH(detected, &flows->detected, list)
	{
		struct enforce_use use = {
			.bytes = detected->counted,
			.packets = detected->counted_packets,
		};

		if (detected->session)
			update_demand(flows, detected->session, &use,
				      demand_update);
	}
}

/**
 * flows_measure() - measure use by the counters of rate enforcement, if it is due
 * @flows: flow detection, with rate enforcement
 */
void flows_measure(struct flows *flows)
{
	if (flows->now >= flows->fast_at)
		measure_starting(flows);
	if (flows->step_index || flows->now >= flows->step_at) {
		if (!flows->step_index)
			flows->step_at = flows->now +
					 fp_max64(DEMAND_STEP,
						  STEP_PER_SESSION *
							  flows->agent->count);
		measure_enforced(flows);
	}
}
