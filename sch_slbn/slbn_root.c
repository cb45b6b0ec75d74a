// SPDX-License-Identifier: GPL-2.0
/*
 * The root qdisc's children: one for each TX queue of the device, as in mq.
 *
 * Packets pass the child of their queue only, and no lock is shared. The queues
 * refer to the children; until the root is attached, an array does.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/gen_stats.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "slbn.h"

/* Create the default child of TX queue @n. */
static struct Qdisc *slbn_root_default(struct Qdisc *sch, unsigned int n,
				       struct netlink_ext_ack *extack)
{
	struct net_device *dev = qdisc_dev(sch);
	struct Qdisc *child;

	child = qdisc_create_dflt(netdev_get_tx_queue(dev, n),
				  get_default_qdisc_ops(dev, n),
				  TC_H_MAKE(sch->handle, n + 1), extack);
	if (child)
		child->flags |= TCQ_F_ONETXQUEUE | TCQ_F_NOPARENT;
	return child;
}

/**
 * slbn_root_create() - create the default children
 * @sch: root qdisc
 * @children: set, also on errors, for slbn_root_destroy()
 * @extack: set to the reason of an error
 *
 * Also for TX queues that are not used yet (ethtool --set-channels).
 *
 * Return: 0, or -ENOMEM.
 */
int slbn_root_create(struct Qdisc *sch, struct Qdisc ***children,
		     struct netlink_ext_ack *extack)
{
	struct net_device *dev = qdisc_dev(sch);
	unsigned int n;

	*children = kcalloc(dev->num_tx_queues, sizeof(**children), GFP_KERNEL);
	if (!*children)
		return -ENOMEM;
	for (n = 0; n < dev->num_tx_queues; n++) {
		(*children)[n] = slbn_root_default(sch, n, extack);
		if (!(*children)[n])
			return -ENOMEM;
	}
	sch->flags |= TCQ_F_MQROOT;
	return 0;
}

/**
 * slbn_root_destroy() - destroy children that were not attached
 * @sch: root qdisc
 * @children: as set by slbn_root_create(), or NULL
 */
void slbn_root_destroy(struct Qdisc *sch, struct Qdisc **children)
{
	struct net_device *dev = qdisc_dev(sch);
	unsigned int n;

	if (!children)
		return;
	for (n = 0; n < dev->num_tx_queues && children[n]; n++)
		qdisc_put(children[n]);
	kfree(children);
}

/**
 * slbn_root_attach() - attach the children to their TX queues
 * @sch: root qdisc
 * @children: as set by slbn_root_create(); freed
 *
 * Context: RTNL is held, the device is deactivated.
 */
void slbn_root_attach(struct Qdisc *sch, struct Qdisc **children)
{
	struct net_device *dev = qdisc_dev(sch);
	unsigned int n;

	for (n = 0; n < dev->num_tx_queues; n++) {
		struct Qdisc *child = children[n];
		struct Qdisc *old = dev_graft_qdisc(child->dev_queue, child);

		if (old)
			qdisc_put(old);
		if (n < dev->real_num_tx_queues)
			qdisc_hash_add(child, false);
	}
	kfree(children);
}

/**
 * slbn_root_read_stats() - set a root qdisc's statistics to its children's sums
 * @sch: root qdisc
 *
 * Context: RTNL is held.
 */
void slbn_root_read_stats(struct Qdisc *sch)
{
	struct net_device *dev = qdisc_dev(sch);
	unsigned int n;

	sch->q.qlen = 0;
	gnet_stats_basic_sync_init(&sch->bstats);
	memset(&sch->qstats, 0, sizeof(sch->qstats));
	for (n = 0; n < dev->num_tx_queues; n++) {
		struct Qdisc *child = slbn_root_leaf(sch, n + 1);

		spin_lock_bh(qdisc_lock(child));
		gnet_stats_add_basic(&sch->bstats, child->cpu_bstats,
				     &child->bstats, false);
		gnet_stats_add_queue(&sch->qstats, child->cpu_qstats,
				     &child->qstats);
		sch->q.qlen += qdisc_qlen(child);
		spin_unlock_bh(qdisc_lock(child));
	}
}

/**
 * slbn_root_queue() - TX queue of a class
 * @sch: root qdisc
 * @cl: minor number of the class
 *
 * Return: the queue, or NULL.
 */
struct netdev_queue *slbn_root_queue(struct Qdisc *sch, unsigned long cl)
{
	struct net_device *dev = qdisc_dev(sch);

	if (!cl || cl > dev->num_tx_queues)
		return NULL;
	return netdev_get_tx_queue(dev, cl - 1);
}

/**
 * slbn_root_leaf() - child of a class
 * @sch: root qdisc
 * @cl: minor number of the class, of a TX queue
 *
 * Context: RTNL is held.
 * Return: the qdisc.
 */
struct Qdisc *slbn_root_leaf(struct Qdisc *sch, unsigned long cl)
{
	return rtnl_dereference(slbn_root_queue(sch, cl)->qdisc_sleeping);
}

/**
 * slbn_root_graft() - replace the child of a class
 * @sch: root qdisc
 * @cl: minor number of the class, of a TX queue
 * @new: its new child; NULL: the default one
 * @old: set to its old child
 * @extack: set to the reason of an error
 *
 * Context: RTNL is held.
 * Return: 0, or -ENOMEM.
 */
int slbn_root_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
		    struct Qdisc **old, struct netlink_ext_ack *extack)
{
	struct net_device *dev = qdisc_dev(sch);

	if (!new) {
		new = slbn_root_default(sch, cl - 1, extack);
		if (!new)
			return -ENOMEM;
		if (cl <= dev->real_num_tx_queues)
			qdisc_hash_add(new, false);
	}
	if (dev->flags & IFF_UP)
		dev_deactivate(dev, true);
	*old = dev_graft_qdisc(slbn_root_queue(sch, cl), new);
	new->flags |= TCQ_F_ONETXQUEUE | TCQ_F_NOPARENT;
	if (dev->flags & IFF_UP)
		dev_activate(dev);
	return 0;
}
