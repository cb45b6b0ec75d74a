// SPDX-License-Identifier: GPL-2.0
/*
 * demand.h: demand estimation of simulated flows, and the start of a session.
 *
 * A flow's packets are paced at its rate, counted, and dropped if they would wait
 * for longer than 100 ms, as by rates.bpf.c. It is measured in steps that are
 * sometimes late. Its rate is the minimum of its demand and its share of the link,
 * after a delay, so that the estimation affects its next measurement. The tests
 * check how often the demand changes, and whether it reaches what the flow can
 * use.
 */
#include <math.h>
#include <string.h>

#include "unit.h"

#include "userspace/slbnd/sessions/session.h"

#define SECONDS 1000000000.0
#define TICK (DEMAND_MS)
#define QUEUE 0.1
/* Of TCP with windows, in ticks. */
#define MAX_RTT 512
/* C of CUBIC, packets / s^3 (RFC 9438, section 5). */
#define CUBIC_C 0.4

struct flow {
	/* The source: bits offered in the tick that begins at @now. */
	double (*offer)(struct flow *flow);
	double rate_wanted;
	double packet;
	double on, off;
	double noise;
	/* TCP: packets, seconds, and the factor of cwnd after a loss. */
	double cwnd, rtt, beta, next_rtt, ssthresh;
	bool lost;

	/*
	 * TCP whose window is lowered: octets that it sent, and those that the window
	 * held back; bits that its application has written, that are in flight and in
	 * the pacer, and that will be acknowledged, by tick; growth of CUBIC, s.
	 */
	double reached, limited;
	double written, in_flight, paced, acks[MAX_RTT];
	double growing;
	/* It may send above its rate, but no link has anything to lend. */
	bool borrows;
	/* How long it was held back below its share, s. */
	double held;

	/* Share of the link, bit/s, and delay of new rates, ns. */
	double share;
	u64 delay;

	u64 now;
	double credit;
	double backlog;
	double bytes;
	u64 drops;
	double rate;
	u64 demand;
	u64 rate_changes_at;
	u64 next_step;
	struct demand d;
	u64 changes;
};

static void start(struct flow *flow, u64 initial)
{
	flow->now = 5 * SECONDS + rnd_in(0, 1000) * DEMAND_MS;
	flow->next_step = flow->now;
	flow->demand = initial;
	flow->rate = fmin(initial, flow->share);
	flow->delay = rnd_in(1, 80) * DEMAND_MS;
}

static double assigned_rate(const struct flow *flow)
{
	return fmin((double)flow->demand, flow->share);
}

static void step(struct flow *flow)
{
	struct demand_sample sample = {
		.now = flow->now,
		.bytes = flow->bytes,
		.drops = flow->drops,
		.packet = flow->packet / 8,
		.rtt = flow->rtt * SECONDS,
		.rate = flow->rate,
		.demand = flow->demand,
		.demand_limited = flow->rate >= (double)flow->demand,
		.borrows = flow->borrows,
		.reached = flow->reached,
		.limited = flow->limited,
	};
	u64 wanted = demand_update(&flow->d, &sample);

	unit_step++;
	CHECK(wanted >= 1, "no demand at all");
	if (wanted == flow->demand)
		return;
	flow->changes++;
	flow->demand = wanted;
	flow->rate_changes_at = flow->now + flow->delay;
}

static void assign(struct flow *flow)
{
	if (flow->rate_changes_at && flow->now >= flow->rate_changes_at) {
		flow->rate = assigned_rate(flow);
		flow->rate_changes_at = 0;
	}
}

static void pass_tick(struct flow *flow)
{
	flow->now += TICK;
	if (flow->now < flow->next_step)
		return;
	step(flow);
	flow->next_step += DEMAND_STEP;
	if (one_in(20))
		flow->next_step += rnd_in(0, 30) * DEMAND_MS;
}

static void tick(struct flow *flow)
{
	double seconds = TICK / SECONDS, packets, fit;

	assign(flow);
	flow->credit += flow->offer(flow);
	packets = floor(flow->credit / flow->packet);
	flow->credit -= packets * flow->packet;
	/* As many as begin to wait while the queue is not longer than QUEUE. */
	fit = floor((QUEUE * flow->rate - flow->backlog) / flow->packet) + 1;
	fit = fmin(fmax(fit, 0), packets);
	flow->lost = fit < packets;
	flow->drops += packets - fit;
	flow->backlog += fit * flow->packet;
	flow->bytes += fit * flow->packet / 8;
	flow->backlog = fmax(flow->backlog - flow->rate * seconds, 0);
	pass_tick(flow);
}

/* Returns the number of changes of the demand. */
static u64 run(struct flow *flow, double seconds)
{
	u64 end = flow->now + seconds * SECONDS;
	u64 before = flow->changes;

	while (flow->now < end)
		tick(flow);
	return flow->changes - before;
}

/* --- sources --------------------------------------------------------------- */

static double noisy(const struct flow *flow, double bits)
{
	u32 permille = flow->noise * 1000;

	return bits * (1 + ((double)rnd_in(0, 2 * permille) - permille) / 1000);
}

static double steady(struct flow *flow)
{
	return noisy(flow, flow->rate_wanted * TICK / SECONDS);
}

static double on_off(struct flow *flow)
{
	double at = fmod(flow->now / SECONDS, flow->on + flow->off);

	return at < flow->on ? steady(flow) : 0;
}

/*
 * TCP with unlimited data: slow start, then a packet per round trip; after a loss,
 * the window is multiplied by beta.
 */
static double tcp(struct flow *flow)
{
	double seconds = TICK / SECONDS;
	double rtt = flow->rtt + flow->backlog / fmax(flow->rate, 1);
	double growth = flow->cwnd < flow->ssthresh ? flow->cwnd : 1;

	if (flow->lost && flow->now / SECONDS >= flow->next_rtt) {
		flow->cwnd = fmax(flow->cwnd * flow->beta, 2);
		flow->ssthresh = flow->cwnd;
		flow->next_rtt = flow->now / SECONDS + rtt;
		growth = 0;
	}
	flow->cwnd += growth * seconds / rtt;
	return flow->cwnd * flow->packet * seconds / rtt;
}

static struct flow steady_flow(double rate, double packet)
{
	return (struct flow){
		.offer = steady,
		.rate_wanted = rate,
		.packet = packet,
		.share = 1e12,
	};
}

static struct flow tcp_flow(double share, double rtt, double beta)
{
	return (struct flow){
		.offer = tcp,
		.packet = 12112,
		.share = share,
		.rtt = rtt,
		.beta = beta,
		.cwnd = 10,
		.ssthresh = 1e9,
	};
}

/* A random rate, 100 kbit/s to 1 Gbit/s, uniform in its logarithm. */
static double any_rate(void)
{
	return 1e5 * pow(10, rnd_in(0, 4000) / 1000.0);
}

/* --- tests ----------------------------------------------------------------- */

UNIT_TEST(steady_flows_keep_their_demand)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		double rate = any_rate(), packet = 8 * rnd_in(60, 1514);
		struct flow flow = steady_flow(rate, packet);
		/* It sends at least some packets in each step. */
		double expected = fmax(rate, 40 * packet);
		/* Those of acknowledgments have larger margins. */
		bool acks = packet < 8 * DEMAND_DATA_PACKET;
		double margin = acks ? 1.5 : 1.125;
		double used = rnd_in(20, 80) / 100.0 * (acks ? 0.6 : 1);
		/* Its use is measured to within a packet. */
		double least = fmin(0.96 * expected,
				    expected - packet * SECONDS / DEMAND_STEP);

		flow.rate_wanted = expected;
		start(&flow, expected / used);
		run(&flow, 3);
		CHECK(flow.changes && flow.changes <= 2, "%.0f: %llu changes",
		      expected, flow.changes);
		CHECK((double)flow.demand > margin * least &&
			      (double)flow.demand < 1.13 * margin * expected,
		      "%.0f: demand %llu", expected, flow.demand);
		CHECK(run(&flow, 300) <= 1, "%.0f, packet %.0f: %llu changes",
		      expected, packet, flow.changes);
	}
}

/* From any initial demand, also after doubling too far. */
UNIT_TEST(demand_converges_to_use)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		struct flow flow = steady_flow(any_rate() + 5e5, 8000);
		double doublings;

		start(&flow, rnd_in(64, 2000) * 1000);
		flow.noise = 0.3;
		doublings = fmax(log2(flow.rate_wanted / flow.demand), 0);
		run(&flow, 8 + 0.6 * doublings);
		/* One that began at 95 % may just have been raised, and is returned. */
		if (run(&flow, 0.25) || flow.demand > 2 * flow.rate_wanted)
			run(&flow, 8);
		CHECK((double)flow.demand > flow.rate_wanted &&
			      (double)flow.demand < 1.35 * flow.rate_wanted,
		      "%.0f: demand %llu", flow.rate_wanted, flow.demand);
		CHECK(run(&flow, 300) <= 2, "%.0f: %llu changes",
		      flow.rate_wanted, flow.changes);
	}
}

UNIT_TEST(greedy_flows_demand_their_share)
{
	u32 n;

	for (n = 0; n < 30; n++) {
		struct flow flow = steady_flow(1e10, 12112);
		u64 share = any_rate();

		flow.share = share;
		start(&flow, 64000);
		run(&flow, 10);
		CHECK(flow.demand >= share, "%llu of %llu", flow.demand, share);
		CHECK(!run(&flow, 300), "%llu: %llu changes", share,
		      flow.changes);
		/* With a larger share, the demand rises when it limits the rate. */
		flow.share = 8 * share;
		flow.rate_changes_at = flow.now;
		run(&flow, 3);
		CHECK(flow.demand >= 8 * share, "%llu of %llu", flow.demand,
		      8 * share);
	}
}

/* Of gaimd: 0.875 and 0.5; bic: 0.8; cubic: 0.7. */
static const double betas[] = { 0.875, 0.8, 0.7, 0.5 };

UNIT_TEST(rate_limited_tcp_keeps_its_demand)
{
	static const double rtts[] = { 0.002, 0.01, 0.04, 0.08 };
	u32 b, r, n;

	for (b = 0; b < ARRAY_SIZE(betas); b++) {
		for (r = 0; r < ARRAY_SIZE(rtts); r++) {
			for (n = 0; n < 8; n++) {
				double share = 5e5 * pow(2, n);
				struct flow flow =
					tcp_flow(share, rtts[r], betas[b]);

				start(&flow, 2 * share);
				run(&flow, 20);
				CHECK((double)flow.demand >= share,
				      "%.0f, rtt %.3f, beta %.3f: demand %llu",
				      share, rtts[r], betas[b], flow.demand);
				CHECK(!run(&flow, 120),
				      "%.0f, rtt %.3f, beta %.3f: %llu changes",
				      share, rtts[r], betas[b], flow.changes);
			}
		}
	}
}

/* TCP that has less to send returns its demand. */
UNIT_TEST(tcp_returns_unused_demand)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		double rtt = rnd_in(5, 200) / 1000.0;
		struct flow flow = steady_flow(any_rate() + 1e6, 12112);
		double before = flow.rate_wanted;
		double most;

		flow.rtt = rtt;
		start(&flow, before * 1.1);
		run(&flow, 5);
		flow.rate_wanted *= rnd_in(20, 75) / 100.0;
		run(&flow, 2.6);
		/* A step may contain one packet more than another. */
		most = flow.rate_wanted + flow.packet * SECONDS / DEMAND_STEP;
		most = fmax(1.27 * flow.rate_wanted, 1.126 * most);
		CHECK((double)flow.demand < most,
		      "%.0f to %.0f, rtt %.3f: demand %llu", before,
		      flow.rate_wanted, rtt, flow.demand);
	}
}

/* A large initial demand is not lowered during slow start. */
UNIT_TEST(slow_start_keeps_demand)
{
	static const double rtts[] = { 0.02, 0.05, 0.1, 0.2, 0.4 };
	u32 r, n;

	for (r = 0; r < ARRAY_SIZE(rtts); r++) {
		for (n = 0; n < 20; n++) {
			struct flow flow = tcp_flow(50e6, rtts[r], 0.7);

			start(&flow, 100000000);
			/* Until the window is that of 50 Mbit/s. */
			while (flow.cwnd * flow.packet < 50e6 * flow.rtt)
				run(&flow, 0.01);
			CHECK(!flow.changes, "rtt %.1f: %llu changes", rtts[r],
			      flow.changes);
		}
	}
}

UNIT_TEST(acknowledgements_return_demand_soon)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		double rate = 0.022 * fmax(any_rate(), 1e7);
		struct flow flow = steady_flow(rate, 8 * 66);

		flow.noise = 0.5;
		start(&flow, 1000000000);
		run(&flow, 0.8);
		CHECK((double)flow.demand < 2 * rate, "%.0f: demand %llu", rate,
		      flow.demand);
		CHECK(run(&flow, 100) <= 5, "%.0f: %llu changes", rate,
		      flow.changes);
	}
}

/*
 * With periods shorter than the window the demand is kept, with longer ones it
 * follows. Changes are rare in both cases.
 */
UNIT_TEST(on_off_sources)
{
	u64 changes = 0, dropped;
	u32 n;

	for (n = 0; n < 60; n++) {
		struct flow flow = steady_flow(any_rate() + 1e6, 8000);
		double period = rnd_in(100, 1100) / 1000.0;
		double offered = flow.rate_wanted / 2;

		flow.offer = on_off;
		flow.on = period / 2;
		flow.off = period / 2;
		start(&flow, flow.rate_wanted);
		run(&flow, 30);
		dropped = flow.drops;
		changes += run(&flow, 300);
		CHECK((double)(flow.drops - dropped) * flow.packet <
			      0.01 * offered * 300,
		      "%.0f, %.3f: %llu drops", flow.rate_wanted, period,
		      flow.drops - dropped);
	}
	CHECK(changes < 60 * 300 / 15, "%llu changes", changes);
	for (n = 0; n < 60; n++) {
		struct flow flow = steady_flow(any_rate() + 1e6, 8000);
		double period = rnd_in(1, 30);

		flow.offer = on_off;
		flow.on = period / 2;
		flow.off = period / 2;
		start(&flow, flow.rate_wanted);
		CHECK(run(&flow, 300) <= 4 + 300 / fmax(period, 6) * 4,
		      "%.0f, %.1f: %llu changes", flow.rate_wanted, period,
		      flow.changes);
	}
}

UNIT_TEST(demand_recovers_after_pause)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		struct flow flow = steady_flow(any_rate() + 1e6, 12112);

		start(&flow, flow.rate_wanted * 2);
		run(&flow, 5);
		flow.offer = on_off;
		flow.off = 1e9;
		run(&flow, rnd_in(3, 60));
		CHECK(flow.demand == DEMAND_MIN, "%llu", flow.demand);
		flow.offer = steady;
		run(&flow, 0.6);
		CHECK((double)flow.demand >= flow.rate_wanted,
		      "%.0f: demand %llu", flow.rate_wanted, flow.demand);
		run(&flow, 5);
		CHECK((double)flow.demand < 1.27 * flow.rate_wanted,
		      "%.0f: demand %llu", flow.rate_wanted, flow.demand);
	}
}

UNIT_TEST(initial_silence_restores_initial_demand)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		struct flow flow = steady_flow(1e10, 12112);

		start(&flow, 20000000);
		flow.offer = on_off;
		flow.off = 1e9;
		run(&flow, rnd_in(2, 60));
		CHECK(flow.demand == DEMAND_MIN, "%llu", flow.demand);
		flow.offer = steady;
		run(&flow, 0.4);
		CHECK(flow.demand >= 20000000, "%llu", flow.demand);
	}
}

UNIT_TEST(sparse_packets_rarely_change_demand)
{
	u32 n;

	for (n = 0; n < 60; n++) {
		/* Two to ten packets in each second. */
		struct flow flow =
			steady_flow(12112 * rnd_in(20, 100) / 10.0, 12112);

		start(&flow, 1000000);
		CHECK(run(&flow, 300) <= 60, "%.0f: %llu changes",
		      flow.rate_wanted, flow.changes);
	}
}

/* A greedy flow whose rate rises in the middle of steps, from 0, as links get room. */
UNIT_TEST(rising_rate_keeps_demand)
{
	static const u64 rates[] = { 0,	      0,       0,	1000000,
				     1000000, 3000000, 3000000, 3500000,
				     9000000, 9000000, 20000000 };
	const size_t count = sizeof(rates) / sizeof(*rates);
	struct demand_sample sample = {
		.now = SECONDS,
		.packet = 1500,
		.demand = 20000000,
	};
	struct demand d = {};
	u64 before = 1000000; /* the default class */
	size_t n;

	demand_update(&d, &sample);
	for (n = 0; n < count + 8; n++) {
		u64 rate = rates[n < count ? n : count - 1];
		u64 use = rate ?: 1000000;

		sample.now += DEMAND_STEP;
		sample.bytes += (before + use) / 2 / 32 - 1500 * (n % 2);
		sample.rate = rate;
		sample.demand_limited = rate >= sample.demand;
		assert_int_equal(demand_update(&d, &sample),
				 n < count ? 20000000 : 40000000);
		before = use;
	}
}

/*
 * --- windows: slbnd asks for these demands with "--borrow on" only, of sessions that may
 * borrow and of those that may not ---------------------------------------------- */

/* The window: see window.h. */
static double window(const struct flow *flow)
{
	return fmax(flow->rate * flow->rtt + flow->packet, 4 * flow->packet);
}

/* In slow start, then as CUBIC, while neither window nor application limits it. */
static void grow(struct flow *flow, double acknowledged)
{
	double before = flow->growing;

	if (flow->cwnd < flow->ssthresh) {
		flow->cwnd += acknowledged / flow->packet;
		return;
	}
	flow->growing += TICK / SECONDS;
	flow->cwnd += CUBIC_C * (pow(flow->growing, 3) - pow(before, 3));
}

static void hold_back(struct flow *flow, double sent)
{
	flow->limited += sent / 8;
	if (flow->rate < flow->share)
		flow->held += TICK / SECONDS;
}

static void windowed_tick(struct flow *flow)
{
	u32 rtt = flow->rtt * SECONDS / TICK;
	u32 at = flow->now / TICK;
	double acknowledged = flow->acks[at % MAX_RTT], edge, sent;

	assign(flow);
	edge = window(flow);
	flow->acks[at % MAX_RTT] = 0;
	flow->in_flight -= acknowledged;
	flow->written = fmin(flow->written + flow->offer(flow), 1e12);
	sent = fmin(edge, flow->cwnd * flow->packet) - flow->in_flight;
	sent = fmax(fmin(sent, flow->written), 0);
	flow->written -= sent;
	flow->in_flight += sent;
	flow->bytes += sent / 8;
	flow->reached += sent / 8;
	if (flow->written > 0 && flow->in_flight + flow->packet > edge)
		hold_back(flow, sent);
	else if (flow->written > 0)
		grow(flow, acknowledged);
	flow->paced += sent;
	sent = fmin(flow->paced, flow->rate * TICK / SECONDS);
	flow->paced -= sent;
	flow->acks[(at + rtt) % MAX_RTT] = sent;
	pass_tick(flow);
}

static u64 run_windowed(struct flow *flow, double seconds)
{
	u64 end = flow->now + seconds * SECONDS;
	u64 before = flow->changes;

	while (flow->now < end)
		windowed_tick(flow);
	return flow->changes - before;
}

/* TCP whose congestion window does not limit it. */
static struct flow windowed_flow(double rate, double rtt)
{
	struct flow flow = tcp_flow(1e12, rtt, 0.7);

	flow.offer = steady;
	flow.rate_wanted = rate;
	flow.cwnd = 1e9;
	return flow;
}

static void start_windowed(struct flow *flow, u64 initial)
{
	start(flow, initial);
	flow->delay = 3 * flow->rtt * SECONDS;
}

/* A cycle: a step that is late, and the time until the demand is assigned. */
static double cycle(const struct flow *flow)
{
	return (DEMAND_STEP + 30 * DEMAND_MS + flow->delay) / SECONDS;
}

static const double windowed_rtts[] = { 0.005, 0.02, 0.04, 0.1, 0.2 };

/* Its demand holds it back for some cycles; from then on, only TCP itself. */
UNIT_TEST(growing_tcp_reaches_its_share)
{
	u32 r, n;

	for (r = 0; r < ARRAY_SIZE(windowed_rtts); r++) {
		for (n = 0; n < 8; n++) {
			double share = 2e6 * pow(10, rnd_in(0, 2700) / 1000.0);
			struct flow flow =
				windowed_flow(1e11, windowed_rtts[r]);
			flow.share = share;
			flow.cwnd = 10;
			/* Where HyStart ends slow start, or CUBIC had a loss. */
			flow.ssthresh = share * flow.rtt / flow.packet *
					rnd_in(20, 200) / 100;
			start_windowed(&flow, 1000000);
			run_windowed(&flow, 60);
			CHECK(flow.held < 5 * cycle(&flow),
			      "%.0f, rtt %.3f: held back for %.2f s", share,
			      flow.rtt, flow.held);
			CHECK((double)flow.demand >= share, "%.0f: %llu", share,
			      flow.demand);
			CHECK(!run_windowed(&flow, 60), "%.0f, rtt %.3f", share,
			      flow.rtt);
		}
	}
}

/*
 * Whatever its first demand, an application gets little more than it uses, and rests,
 * but for three attempts in DEMAND_LEARN: after one, the margin is smaller, after the
 * second as before, and after the third larger, if that was just enough. An attempt
 * lasts one window, and another one if use grew. Its rate varies by 5 or 30 % from tick
 * to tick.
 */
UNIT_TEST(application_is_not_raised)
{
	u32 r, n, w;

	for (r = 0; r < ARRAY_SIZE(windowed_rtts); r++) {
		for (n = 0; n < 8; n++) {
			struct flow flow = windowed_flow(any_rate() + 1e6,
							 windowed_rtts[r]);

			flow.borrows = n / 2 % 2;
			flow.noise = n % 2 ? 0.3 : 0.05;
			start_windowed(&flow, flow.rate_wanted *
						      rnd_in(110, 5000) / 100);
			run_windowed(&flow, 30);
			for (w = 0; w < 2 && !flow.d.lowered; w++)
				run_windowed(&flow,
					     (DEMAND_MAX_WINDOW + DEMAND_STEP) /
						     SECONDS);
			CHECK((double)flow.demand > flow.rate_wanted &&
				      (double)flow.demand <
					      (n % 2 ? 1.6 : 1.1) *
						      flow.rate_wanted,
			      "%.0f, rtt %.3f: %llu", flow.rate_wanted,
			      flow.rtt, flow.demand);
			CHECK(run_windowed(&flow, DEMAND_LEARN / SECONDS) <= 6,
			      "%.0f, rtt %.3f: %llu", flow.rate_wanted,
			      flow.rtt, flow.demand);
		}
	}
}

/* An application that sends up to 16 times as much has its rate two cycles later. */
UNIT_TEST(demand_follows_the_application)
{
	u32 r, n;

	for (r = 0; r < ARRAY_SIZE(windowed_rtts); r++) {
		for (n = 0; n < 8; n++) {
			struct flow flow = windowed_flow(any_rate() + 1e6,
							 windowed_rtts[r]);

			start_windowed(&flow, 2 * flow.rate_wanted);
			run_windowed(&flow, 20 + rnd_in(0, 250) / 1000.0);
			flow.rate_wanted *= rnd_in(110, 1500) / 100.0;
			run_windowed(&flow, 2 * cycle(&flow) + flow.rtt);
			CHECK(flow.rate >= flow.rate_wanted,
			      "%.0f, rtt %.3f: rate %.0f", flow.rate_wanted,
			      flow.rtt, flow.rate);
			run_windowed(&flow, 10);
			/* The largest margin is 1, and the peak is above the mean. */
			CHECK((double)flow.demand < 2.1 * flow.rate_wanted,
			      "%.0f, rtt %.3f: %llu", flow.rate_wanted,
			      flow.rtt, flow.demand);
		}
	}
}

/* Writes all that it sends in a period at once. */
static double bursts(struct flow *flow)
{
	double ticks = flow->on * SECONDS / TICK;

	return (u64)(flow->now / TICK) % (u64)ticks ?
		       0 :
		       flow->rate_wanted * flow->on;
}

/*
 * Bursts reach the edge at any rate that is near their mean. The demand rests all the
 * same, and all is sent.
 */
UNIT_TEST(bursts_do_not_oscillate)
{
	u64 changes = 0;
	u32 r, n;

	for (r = 0; r < ARRAY_SIZE(windowed_rtts); r++) {
		for (n = 0; n < 8; n++) {
			struct flow flow = windowed_flow(any_rate() + 1e6,
							 windowed_rtts[r]);

			flow.borrows = n % 2;
			flow.offer = bursts;
			flow.on = rnd_in(10, 120) / 1000.0;
			start_windowed(&flow, 2 * flow.rate_wanted);
			run_windowed(&flow, 30);
			changes += run_windowed(&flow, 120);
			CHECK((double)flow.demand < 3 * flow.rate_wanted,
			      "%.0f, rtt %.3f, period %.3f: %llu",
			      flow.rate_wanted, flow.rtt, flow.on, flow.demand);
		}
	}
	CHECK(changes < 40, "%llu changes", changes);
}

/* A flow that paused begins anew. */
UNIT_TEST(windowed_flow_recovers_after_pause)
{
	u32 r, n;

	for (r = 0; r < ARRAY_SIZE(windowed_rtts); r++) {
		for (n = 0; n < 8; n++) {
			struct flow flow = windowed_flow(any_rate() + 1e6,
							 windowed_rtts[r]);
			double wanted = flow.rate_wanted;

			start_windowed(&flow, 2 * wanted);
			run_windowed(&flow, 5);
			flow.rate_wanted = 0;
			run_windowed(&flow, rnd_in(5, 60));
			CHECK(flow.demand == DEMAND_MIN, "%llu", flow.demand);
			flow.rate_wanted = wanted;
			run_windowed(&flow, 5 * cycle(&flow) + 0.25);
			CHECK((double)flow.demand >= wanted,
			      "%.0f, rtt %.3f: %llu", wanted, flow.rtt,
			      flow.demand);
		}
	}
}

/* --- the start ------------------------------------------------------------- */

/* Round trips from a demand to its rate. */
#define ASSIGNED 3

/* A flow at its start, measured once in each round trip. */
struct starting {
	double share;
	double rtt;
	u32 growth;
	/* Use in the last round trip, bit/s. */
	double used;
	/* Demands of the last round trips, the latest first. */
	u64 demands[ASSIGNED + 1];
	struct demand_sample sample;
	struct demand d;
};

static struct starting begin_start(double share, double rtt, u32 growth,
				   u64 initial)
{
	struct starting flow = {
		.share = share,
		.rtt = rtt,
		.growth = growth,
		.sample = { .now = SECONDS,
			    .packet = 1514,
			    .rtt = rtt * SECONDS,
			    .demand = initial,
			    .growth = growth },
	};

	demand_begin(&flow.d, flow.sample.now, 0);
	return flow;
}

/* A round trip in which the flow sends at @wanted, or at its rate if it has one. */
static void pass_round_trip(struct starting *flow, double wanted)
{
	struct demand_sample *sample = &flow->sample;
	double rate;

	memmove(flow->demands + 1, flow->demands, ASSIGNED * sizeof(u64));
	flow->demands[0] = sample->demand;
	rate = fmin(flow->demands[ASSIGNED], flow->share);
	flow->used = rate ? fmin(wanted, rate) : wanted;
	sample->now += flow->rtt * SECONDS;
	sample->bytes += flow->used * flow->rtt / 8;
	sample->rate = rate;
	sample->unrestricted = (double)sample->demand < flow->share;
	sample->demand_limited =
		sample->unrestricted && rate && rate >= (double)sample->demand;
	sample->demand = demand_start(&flow->d, sample);
}

/* From its first window on, TCP is limited by its window or its share only. */
UNIT_TEST(slow_start_is_not_limited)
{
	static const double rtts[] = { 0.01, 0.04, 0.072, 0.2 };
	u32 r, n;

	for (r = 0; r < ARRAY_SIZE(rtts); r++) {
		for (n = 0; n < 40; n++) {
			double share = 1e6 * pow(10, rnd_in(0, 3000) / 1000.0);
			/* Ten segments in a round trip. */
			double use = 10 * 12112 / rtts[r];
			struct starting flow =
				begin_start(share, rtts[r], DEMAND_SLOW_START,
					    DEMAND_SLOW_START * use / 2);

			while (use < share) {
				pass_round_trip(&flow, use);
				CHECK(flow.used > 0.999 * use,
				      "%.0f: %.0f of %.0f", share, flow.used,
				      use);
				CHECK(!demand_has_started(&flow.d), "%.0f",
				      share);
				use *= 2;
			}
			CHECK((double)flow.sample.demand >= share,
			      "%.0f: demand %llu", share, flow.sample.demand);
		}
	}
}

/* A demand that a flow does not use is lowered after 4 round trips, or 100 ms. */
UNIT_TEST(unused_start_ends)
{
	static const double rtts[] = { 0.01, 0.04, 0.2 };
	u32 r, n, steps;

	for (r = 0; r < ARRAY_SIZE(rtts); r++) {
		for (n = 0; n < 40; n++) {
			double use = 4 * 12112 / rtts[r] + rnd_in(0, 5000000);
			struct starting flow = begin_start(
				1e12, rtts[r], DEMAND_SLOW_START, 1000000000);

			for (steps = 0; !demand_has_started(&flow.d); steps++)
				pass_round_trip(&flow, use);
			CHECK(steps <= fmax(0.1 / rtts[r], 4) + 2, "%u steps",
			      steps);
			CHECK((double)flow.sample.demand < 2.01 * use,
			      "%.0f: demand %llu", use, flow.sample.demand);
		}
	}
}

/* A flow does not hold a demand by growing a little in each round trip. */
UNIT_TEST(slow_growth_does_not_prolong_the_start)
{
	u32 percent;

	for (percent = 0; percent <= 10; percent++) {
		double use = 1e6;
		struct starting flow =
			begin_start(1e12, 0.04, DEMAND_SLOW_START, 1000000000);
		u32 steps;

		for (steps = 0; !demand_has_started(&flow.d); steps++) {
			pass_round_trip(&flow, use);
			use *= 1 + percent / 100.0;
		}
		CHECK(steps <= 10, "%u %%: %u steps", percent, steps);
	}
}

/* Of a connection whose window is lowered, at the RATE that it has asked for [bit/s]. */
static struct demand_sample windowed(u64 rate)
{
	return (struct demand_sample){
		.now = SECONDS,
		.packet = 1500,
		.rtt = 20 * DEMAND_MS,
		.rate = rate,
		.demand = rate,
	};
}

/* A flow that may send above its rate asks for twice its use, another one for more. */
UNIT_TEST(borrowers_ask_for_less)
{
	u32 borrows;

	for (borrows = 0; borrows < 2; borrows++) {
		struct demand d = {};
		struct demand_sample sample = windowed(8000000);

		sample.borrows = borrows;
		demand_update(&d, &sample);
		sample.now += DEMAND_STEP;
		sample.bytes = sample.reached = sample.limited = 250000;
		assert_int_equal(demand_update(&d, &sample),
				 8000000 * (borrows ? 2 : 16));
	}
}

/* Where windows reach a flow, but its use alone counts, its window changes nothing. */
UNIT_TEST(use_alone_ignores_windows)
{
	struct demand d = {};
	struct demand_sample sample = windowed(8000000);

	sample.by_use = true;
	demand_update(&d, &sample);
	sample.now += DEMAND_STEP;
	sample.bytes = sample.reached = sample.limited = 250000;
	assert_int_equal(demand_update(&d, &sample), 8000000);
	assert_true(d.by_window && !d.wants);
}

/* What is borrowed for longer than a step becomes a part of the demand. */
UNIT_TEST(borrowed_rate_is_asked_for)
{
	u32 borrows;

	for (borrows = 0; borrows < 2; borrows++) {
		struct demand d = {};
		struct demand_sample sample = windowed(7000000);

		sample.borrows = borrows;
		demand_update(&d, &sample);
		sample.now += DEMAND_STEP;
		sample.bytes = sample.reached = 250000;
		assert_int_equal(demand_update(&d, &sample),
				 borrows ? 16000000 : 7000000);
	}
}

UNIT_TEST(invalid_samples_are_ignored)
{
	struct demand d = {};
	struct demand_sample sample = {
		.now = SECONDS,
		.bytes = 1000000,
		.rate = 1000000,
		.demand = 1000000,
		.demand_limited = true,
	};
	u32 n;

	for (n = 0; n < 100; n++) {
		assert_int_equal(demand_update(&d, &sample), 1000000);
		switch (n % 4) {
		case 0: /* no time has passed */
			sample.bytes += 1000000;
			break;
		case 1: /* counters were reset */
			sample.now += DEMAND_STEP;
			sample.bytes = 0;
			break;
		case 2: /* no rate yet */
			sample.now += DEMAND_STEP;
			sample.bytes += 1000000;
			sample.rate = 0;
			break;
		default: /* a rate, and reset counters */
			sample.now += DEMAND_STEP;
			sample.rate = 1000000;
			sample.bytes = 0;
		}
	}
}

/* The first answer comes two round trips of slow start after the measured one began. */
UNIT_TEST(first_floor_is_what_slow_start_sends_then)
{
	const u64 speed = 3000000, packets = 100;

	assert_int_equal(
		demand_first_floor(speed, true, packets, 1500 * packets),
		4 * speed);
	/* It was not counted: it may have data. */
	assert_int_equal(demand_first_floor(speed, true, 0, 0), 4 * speed);
	assert_int_equal(demand_first_floor(speed, true, packets,
					    DEMAND_DATA_PACKET * packets),
			 4 * speed);
	/* Acknowledgments grow with the data that they are for; others do not grow. */
	assert_int_equal(demand_first_floor(speed, true, packets,
					    DEMAND_DATA_PACKET * packets - 1),
			 speed);
	assert_int_equal(
		demand_first_floor(speed, false, packets, 1500 * packets),
		speed);
}

UNIT_TEST(start_ends_with_the_share)
{
	const u64 floor = 12000000, share = 8000000;

	assert_true(demand_starts(floor, 0, share, false));
	assert_true(demand_starts(floor, 1000000, share, false));
	assert_true(demand_starts(floor, 1000000, 0, false));
	/* It has its rate, its share, or gets no more. */
	assert_false(demand_starts(floor, floor, 2 * floor, false));
	assert_false(demand_starts(floor, share, share, false));
	assert_false(demand_starts(floor, share - share / 8, share, false));
	assert_true(demand_starts(floor, share - share / 8 - 1, share, false));
	assert_false(demand_starts(floor, 1, share, true));
	assert_false(demand_starts(floor, 1, 0, true));
	/* Without a floor it has no start. */
	assert_false(demand_starts(0, 0, share, false));
	assert_false(demand_starts(0, 1, share, false));
}

/* Its start ends at 12 Mbit/s, or about the 8 that its links have stated. */
UNIT_TEST(session_waits_for_its_share)
{
	const struct session starting = {
		.use.floor = 12000000,
		.source = {
			.pkt.seq = SLBN_FIRST_CYCLES + 1,
			.share_complete = true,
			.share = 8000000,
			.rate = 7000000,
			.urgent = true,
		},
	};
	struct session session = starting;

	assert_int_equal(session_usable_rate(&session), 7000000);
	/* It does not return to the default class. */
	session.source.rate = 1000000;
	assert_int_equal(session_usable_rate(&session), 1000000);

	session = starting;
	session.source.rate--;
	assert_int_equal(session_usable_rate(&session), 0);
	/* It gets no more. */
	session.source.urgent = false;
	assert_int_equal(session_usable_rate(&session), 6999999);

	/* Not all links have stated the share, or not since it joined. */
	session = starting;
	session.source.share_complete = false;
	assert_int_equal(session_usable_rate(&session), 0);
	session = starting;
	session.source.pkt.seq--;
	assert_int_equal(session_usable_rate(&session), 0);
	session.source.rate = session.use.floor;
	assert_int_equal(session_usable_rate(&session), 12000000);

	/* Without a rate it stays at its start. */
	session = starting;
	session.source.rate = 0;
	assert_int_equal(session_usable_rate(&session), 0);
	session.source.rate = 1000000;
	assert_int_equal(session_usable_rate(&session), 0);
}

UNIT_MAIN()
