// SPDX-License-Identifier: GPL-2.0
/*
 * Traces: the state of a link, for the sources of its sessions.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/sch_generic.h>

#include "slbn.h"

static u8 slbn_ttl(const struct sk_buff *skb, const struct slbn_skb_pos *place)
{
	const void *ip = skb->data + place->ip;

	return place->v6 ? ((const struct ipv6hdr *)ip)->hop_limit :
			   ((const struct iphdr *)ip)->ttl;
}

/* Octets in the queues of a device; several queues may have the same qdisc. */
static u32 slbn_backlog(const struct net_device *dev)
{
	const struct Qdisc *last = NULL;
	u64 sum = 0;
	u32 n;

	for (n = 0; n < READ_ONCE(dev->real_num_tx_queues); n++) {
		struct netdev_queue *queue = netdev_get_tx_queue(dev, n);
		struct Qdisc *qdisc = rcu_dereference_bh(queue->qdisc);
		u32 packets, octets;

		if (!qdisc || qdisc == last)
			continue;
		last = qdisc;
		qdisc_qstats_qlen_backlog(qdisc, &packets, &octets);
		sum += octets;
	}
	return min_t(u64, sum, U32_MAX);
}

/**
 * slbn_trace() - write the state of a link into a packet that asks for it
 * @link: link, which has processed the packet; its lock is taken
 * @skb: packet, before its TTL or hop limit changes any more
 * @control: the same packet, downstream
 * @hop: hop of the link
 *
 * Context: bottom halves are disabled.
 */
void slbn_trace(struct slbn_link *link, const struct sk_buff *skb,
		struct slbn_control *control, u8 hop)
{
	const struct slbn_link_vars *vars = &link->vars;
	struct slbn_report report;

	if (!slbn_is_traced(control->data, &control->layout, hop))
		return;
	report = (struct slbn_report){
		.ttl = slbn_ttl(skb, &control->place),
		.backlog = slbn_backlog(link->dev),
	};
	spin_lock(&link->lock);
	report.capacity = link->params.C;
	report.share = slbn_link_share(&link->params, vars, 1);
	report.weights = slbn_both(vars->cur.N, vars->prev.N);
	report.held = slbn_both(vars->cur.A, vars->prev.A);
	spin_unlock(&link->lock);
	slbn_fill_trace(control->data, &control->layout, &report);
}
