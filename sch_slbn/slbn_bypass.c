// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that bypass a link: its device has sent them, but its qdiscs have
 * not.
 *
 * XDP, AF_XDP, switches and flow tables in hardware send packets without the
 * stack, and so without this link. Their number is computed when it is read,
 * from the counters of the device and of the qdiscs: data packets pay nothing.
 *
 * Devices may count a GSO packet as one, qdiscs count its segments; qdiscs of
 * older kernels count one of a virtual machine as none. So packets bypass a link
 * only if both packets and bytes say so.
 */
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <net/gen_stats.h>
#include <net/sch_generic.h>

#include "slbn.h"

/* Add what a qdisc has sent; false if it does not count. */
static bool slbn_add_qdisc(struct Qdisc *sch, struct gnet_stats_basic_sync *sum)
{
	/* noqueue */
	if (!sch->enqueue)
		return false;
	/* On 32-bit, a writer of statistics must not be preempted. */
	local_bh_disable();
	gnet_stats_add_basic(sum, sch->cpu_bstats, &sch->bstats, true);
	local_bh_enable();
	return true;
}

/*
 * Add what all qdiscs of a device have sent; returns its root qdisc, or NULL if
 * one does not count.
 */
static const struct Qdisc *slbn_add_qdiscs(struct net_device *dev,
					   struct gnet_stats_basic_sync *sum)
{
	struct Qdisc *root = rcu_dereference(dev->qdisc);
	unsigned int n;

	if (!(root->flags & TCQ_F_MQROOT))
		return slbn_add_qdisc(root, sum) ? root : NULL;
	for (n = 0; n < dev->num_tx_queues; n++) {
		struct netdev_queue *queue = netdev_get_tx_queue(dev, n);

		if (!slbn_add_qdisc(rcu_dereference(queue->qdisc_sleeping),
				    sum))
			return NULL;
	}
	return root;
}

/* Packets and bytes of the device less those of its present qdiscs. */
static struct slbn_bypass slbn_bypass_now(struct net_device *dev)
{
	struct gnet_stats_basic_sync sum;
	struct rtnl_link_stats64 stats;
	struct slbn_bypass now;

	gnet_stats_basic_sync_init(&sum);
	rcu_read_lock();
	/* First: a packet in between is not counted as one that bypasses. */
	dev_get_stats(dev, &stats);
	now.root = slbn_add_qdiscs(dev, &sum);
	rcu_read_unlock();
	now.packets = stats.tx_packets - u64_stats_read(&sum.packets);
	now.bytes = stats.tx_bytes - u64_stats_read(&sum.bytes);
	return now;
}

/**
 * slbn_bypass_start() - start to count packets that bypass a link
 * @link: link, whose qdisc has been attached
 *
 * Context: RTNL is held.
 */
void slbn_bypass_start(struct slbn_link *link)
{
	struct slbn_bypass now = slbn_bypass_now(link->dev);

	now.root = rtnl_dereference(link->dev->qdisc);
	spin_lock_bh(&link->lock);
	link->bypass = now;
	spin_unlock_bh(&link->lock);
}

/**
 * slbn_bypass_remove() - a qdisc of the device has been removed
 * @link: link
 * @sch: the qdisc
 *
 * Context: RTNL is held.
 */
void slbn_bypass_remove(struct slbn_link *link, struct Qdisc *sch)
{
	struct gnet_stats_basic_sync sum;

	gnet_stats_basic_sync_init(&sum);
	slbn_add_qdisc(sch, &sum);
	spin_lock_bh(&link->lock);
	link->bypass.packets += u64_stats_read(&sum.packets);
	link->bypass.bytes += u64_stats_read(&sum.bytes);
	spin_unlock_bh(&link->lock);
}

/**
 * slbn_bypass_read() - count packets that have bypassed a link
 * @link: link
 *
 * Return: packets since slbn_bypass_start(); 0 if they cannot be counted.
 */
u64 slbn_bypass_read(struct slbn_link *link)
{
	struct slbn_bypass now = slbn_bypass_now(link->dev);
	s64 packets, bytes;
	bool valid;

	spin_lock_bh(&link->lock);
	/* Not while the qdisc is attached or removed. */
	valid = now.root && now.root == link->bypass.root;
	packets = now.packets - link->bypass.packets;
	bytes = now.bytes - link->bypass.bytes;
	spin_unlock_bh(&link->lock);
	return valid && packets > 0 && bytes > 0 ? packets : 0;
}
