// SPDX-License-Identifier: GPL-2.0
/*
 * XCP: Katabi, Handley, Rohrs, "Congestion control for high bandwidth-delay
 * product networks", SIGCOMM 2002.
 *
 * In each interval d, the mean round-trip time, a link computes by how many
 * bytes the sum of all windows should change,
 *
 *	phi = alpha d (C - y) - beta Q
 *
 * and distributes that: an increase equally, a decrease in proportion to
 * windows. Packets report round-trip time and window, and carry the feedback,
 * the smallest of all links'. A part of the traffic is always shuffled from
 * large to small windows.
 *
 * XCP's fields are part of data packets. Here one packet with them stands for
 * all packets of a window: it carries the feedback of a whole round-trip time.
 * The source sends its window evenly over a round-trip time. That is the
 * round-trip time of a data packet, including its transmission on each link;
 * otherwise one packet would exceed a link's capacity where there is hardly any
 * delay.
 *
 * alpha 0.4, beta 0.226 and gamma 0.1 are the authors', and d is the mean over
 * sessions, as in their router for ns-2. An interval does not end before a
 * packet has reported in it, since there would be no window to change.
 */
#include "rate_stamp.h"

#define ALPHA 0.4
#define BETA 0.226
#define GAMMA 0.1
#define TICK 5000000ULL
#define FIRST_RTT 0.1
#define PACKET 2000.0

struct xcp_packet {
	double feedback; /* bytes */
	double cwnd; /* windows, bytes */
	double rtt; /* s; 0: not known yet */
	double sending; /* transmission of a data packet, on all links, s */
};

struct xcp_source {
	double cwnd;
};

struct xcp_link {
	double begun; /* beginning of this interval, s */
	double d; /* length of this interval, s */
	double arrived; /* bits, at the beginning */
	double least; /* shortest queue in it, bits */
	double xi_p; /* of the previous interval */
	double xi_n;
	double pool_p; /* feedback left, bytes */
	double pool_n;
	double rtts; /* sums over packets: round-trip times, s */
	double squares; /* their squares, s^2 */
	double windows; /* bytes */
};

static size_t packet_memory(u32 hops)
{
	(void)hops;
	return sizeof(struct xcp_packet);
}

static void link_init(struct sim *sim, u32 link)
{
	struct xcp_link *own = sim_link_priv(sim, link);

	own->d = FIRST_RTT;
}

static void end_interval(struct xcp_link *own, double C, double y)
{
	/* A session reports the more often, the shorter its round-trip time. */
	double d = own->squares / own->rtts;
	double phi = (ALPHA * d * (C - y) - BETA * own->least) / 8;
	double h = GAMMA * y * d / 8 - (phi < 0 ? -phi : phi);

	if (h < 0)
		h = 0;
	own->pool_p = h + (phi > 0 ? phi : 0);
	own->pool_n = h + (phi < 0 ? -phi : 0);
	/* For one packet per window: s = cwnd. */
	own->xi_p = own->pool_p / (own->rtts * d);
	own->xi_n = own->pool_n / (own->windows * d);
	own->d = d;
	own->rtts = 0;
	own->squares = 0;
	own->windows = 0;
}

static void timer(struct sim *sim, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct xcp_link *own = sim_link_priv(sim, link);
	double now = sim->now / 1e9, waiting = sim_queued_bits(sim, link);
	double y;

	if (waiting < own->least)
		own->least = waiting;
	if (now - own->begun < own->d || own->rtts == 0)
		return;
	y = rate_stamp_measure(sim, link, &own->arrived, now - own->begun);
	end_interval(own, here->rate, y);
	own->begun = now;
	own->least = waiting;
}

static void join(struct sim *sim, struct packet *packet)
{
	struct xcp_source *source = SIM_PRIV(sim_source(sim, packet->session));
	struct xcp_packet *own = SIM_PRIV(packet);

	source->cwnd = PACKET;
	*own = (struct xcp_packet){ .feedback = 1e18, .cwnd = PACKET };
}

static void down(struct sim *sim, struct packet *packet, u32 link)
{
	const struct link *here = sim_link(sim, link);
	struct xcp_link *own = sim_link_priv(sim, link);
	struct xcp_packet *pkt = SIM_PRIV(packet);
	double rtt = pkt->rtt > 0 ? pkt->rtt : own->d;
	double more = own->xi_p * rtt * rtt;
	double less = own->xi_n * rtt * pkt->cwnd;

	own->rtts += rtt;
	own->squares += rtt * rtt;
	own->windows += pkt->cwnd;
	pkt->sending += 8 * PACKET / here->rate;
	if (more > own->pool_p)
		more = own->pool_p;
	if (less > own->pool_n)
		less = own->pool_n;
	own->pool_p -= more;
	own->pool_n -= less;
	if (more - less < pkt->feedback)
		pkt->feedback = more - less;
}

static bool answer(struct sim *sim, struct packet *packet)
{
	struct xcp_source *source = SIM_PRIV(sim_source(sim, packet->session));
	struct xcp_packet *own = SIM_PRIV(packet);
	double rtt = sim_since_sent(sim, packet->session) / 1e9 + own->sending;
	double most = sim_demand(sim, packet->session) * rtt / 8;

	if (sim_source(sim, packet->session)->leaving)
		return false;
	source->cwnd += own->feedback;
	if (source->cwnd < PACKET)
		source->cwnd = PACKET;
	if (source->cwnd > most)
		source->cwnd = most;
	sim_set_rate(sim, packet->session, (u64)(8 * source->cwnd / rtt));
	*own = (struct xcp_packet){
		.feedback = 1e18,
		.cwnd = source->cwnd,
		.rtt = rtt,
	};
	return true;
}

const struct algorithm xcp_algorithm = {
	.name = "xcp",
	.about = "XCP, a control packet for each window",
	.link_memory = sizeof(struct xcp_link),
	.source_memory = sizeof(struct xcp_source),
	.packet_memory = packet_memory,
	.packet_bytes = rate_stamp_bytes,
	.link_init = link_init,
	.join = join,
	.down = down,
	.at_destination = rate_stamp_at_destination,
	.up = rate_stamp_pass,
	.at_source = answer,
	.needs_data = true,
	.piggybacks = true,
	.timer = timer,
	.timer_interval = TICK,
};
