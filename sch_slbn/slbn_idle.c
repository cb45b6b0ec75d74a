// SPDX-License-Identifier: GPL-2.0
/*
 * For how long devices have sent nothing.
 *
 * A link that starts is quiet: sessions that it does not know may use it. No
 * session does if its device has had carrier and has sent nothing for as long
 * as the longest lease, since a source with a lease sends control packets. This
 * can only be known if the device was watched, so the module watches all
 * devices that are up, from its start on: their transmit counters and their
 * changes of carrier, which the kernel counts.
 *
 * Samples are taken when devices come up or change, then after 1, 2, 4 ... s,
 * and finally about once in a minute. So a device never counts as idle for
 * longer than it was, and counts for at least half of that time, at most a
 * minute less. A device that is created again, moves to another namespace or
 * goes down starts again, and so does one that ceases to be an edge: an edge
 * answers control packets itself, so that sessions with a lease may have sent
 * nothing over its device. One whose counter has never moved is not idle: its
 * driver may not count.
 *
 * A device costs a few words, charged to who sets it up; without memory for them
 * it is not idle.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "slbn.h"

/* Times between samples, jiffies. */
#define SLBN_SAMPLE_FIRST HZ
#define SLBN_SAMPLE_LAST (64 * HZ)

/**
 * struct slbn_sample - what a device had sent when this last changed
 * @since: time of the sample, ns
 * @packets: its transmit counter
 * @carriers: how often it has got or lost its carrier
 * @delay: between the last sample and the next one, jiffies
 * @due: time of the next sample, jiffies
 */
struct slbn_sample {
	u64 since;
	u64 packets;
	u32 carriers;
	unsigned long delay;
	unsigned long due;
};

/**
 * struct slbn_idle_net - watched devices of a namespace; under RTNL
 * @net: the namespace
 * @samples: struct slbn_sample by index of the device
 * @work: takes samples
 * @next: time of the next ones, jiffies
 */
struct slbn_idle_net {
	struct net *net;
	struct xarray samples;
	struct delayed_work work;
	unsigned long next;
};

static unsigned int slbn_idle_net_id __read_mostly;

static struct slbn_idle_net *slbn_idle_net(struct net *net)
{
	return net_generic(net, slbn_idle_net_id);
}

/* Take a sample, unless the device has sent nothing since the one before. */
static void slbn_sample_update(struct net_device *dev,
			       struct slbn_sample *sample, bool is_first)
{
	u32 carriers = atomic_read(&dev->carrier_up_count) +
		       atomic_read(&dev->carrier_down_count);
	struct rtnl_link_stats64 stats;

	dev_get_stats(dev, &stats);
	if (!is_first && sample->packets == stats.tx_packets &&
	    sample->carriers == carriers)
		return;
	sample->since = ktime_get_ns();
	sample->packets = stats.tx_packets;
	sample->carriers = carriers;
}

/**
 * slbn_idle_time() - for how long has a device sent nothing?
 * @dev: device
 *
 * Context: RTNL is held; may sleep.
 * Return: ns, during which it had carrier and may have been idle for longer; 0 if
 * that is not known.
 */
u64 slbn_idle_time(struct net_device *dev)
{
	struct slbn_idle_net *idle = slbn_idle_net(dev_net(dev));
	struct slbn_sample *sample;

	ASSERT_RTNL();
	sample = xa_load(&idle->samples, dev->ifindex);
	if (!sample || !netif_running(dev) || !netif_carrier_ok(dev))
		return 0;
	slbn_sample_update(dev, sample, false);
	return sample->packets ? ktime_get_ns() - sample->since : 0;
}

/**
 * slbn_idle_restart() - sessions that have sent nothing may use a device
 * @net: its namespace
 * @ifindex: its index
 *
 * Context: RTNL is held.
 */
void slbn_idle_restart(struct net *net, int ifindex)
{
	struct slbn_sample *sample =
		xa_load(&slbn_idle_net(net)->samples, ifindex);

	ASSERT_RTNL();
	if (sample)
		sample->since = ktime_get_ns();
}

static void slbn_idle_schedule(struct slbn_idle_net *idle, unsigned long delay)
{
	idle->next = jiffies + delay;
	cancel_delayed_work(&idle->work);
	schedule_delayed_work(&idle->work, delay);
}

/* Take the next sample of a device after @delay. */
static void slbn_idle_wait(struct slbn_idle_net *idle,
			   struct slbn_sample *sample, unsigned long delay)
{
	sample->delay = delay;
	sample->due = jiffies + delay;
	if (!delayed_work_pending(&idle->work) ||
	    time_before(sample->due, idle->next))
		slbn_idle_schedule(idle, delay);
}

static void slbn_idle_work(struct work_struct *work)
{
	struct slbn_idle_net *idle =
		container_of(to_delayed_work(work), struct slbn_idle_net, work);
	unsigned long now = jiffies, next = now + SLBN_SAMPLE_LAST, index;
	struct slbn_sample *sample;

	rtnl_lock();
	xa_for_each(&idle->samples, index, sample) {
		if (time_after_eq(now, sample->due)) {
			slbn_sample_update(__dev_get_by_index(idle->net, index),
					   sample, false);
			sample->delay = min_t(unsigned long, 2 * sample->delay,
					      SLBN_SAMPLE_LAST);
			sample->due = now + sample->delay;
		}
		if (time_before(sample->due, next))
			next = sample->due;
		cond_resched();
	}
	if (!xa_empty(&idle->samples))
		slbn_idle_schedule(idle, next - now);
	rtnl_unlock();
}

/* Watch a device, or take its next sample soon. */
static void slbn_idle_watch(struct slbn_idle_net *idle, struct net_device *dev)
{
	struct slbn_sample *sample = xa_load(&idle->samples, dev->ifindex);

	if (sample) {
		slbn_sample_update(dev, sample, false);
	} else {
		sample = kzalloc(sizeof(*sample), GFP_KERNEL_ACCOUNT);
		if (!sample)
			return;
		slbn_sample_update(dev, sample, true);
		if (xa_err(xa_store(&idle->samples, dev->ifindex, sample,
				    GFP_KERNEL_ACCOUNT))) {
			kfree(sample);
			return;
		}
	}
	slbn_idle_wait(idle, sample, SLBN_SAMPLE_FIRST);
}

static int slbn_idle_event(struct notifier_block *nb, unsigned long event,
			   void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct slbn_idle_net *idle = slbn_idle_net(dev_net(dev));

	switch (event) {
	case NETDEV_UP:
	case NETDEV_CHANGE:
		if (netif_running(dev))
			slbn_idle_watch(idle, dev);
		break;
	case NETDEV_GOING_DOWN:
	case NETDEV_DOWN:
	case NETDEV_UNREGISTER:
		kfree(xa_erase(&idle->samples, dev->ifindex));
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block slbn_idle_notifier = {
	.notifier_call = slbn_idle_event,
};

static int __net_init slbn_idle_net_init(struct net *net)
{
	struct slbn_idle_net *idle = slbn_idle_net(net);

	idle->net = net;
	xa_init(&idle->samples);
	INIT_DEFERRABLE_WORK(&idle->work, slbn_idle_work);
	return 0;
}

static void __net_exit slbn_idle_net_exit(struct net *net)
{
	/* Its devices are gone, and with them the samples. */
	cancel_delayed_work_sync(&slbn_idle_net(net)->work);
}

static struct pernet_operations slbn_idle_net_ops = {
	.init = slbn_idle_net_init,
	.exit = slbn_idle_net_exit,
	.id = &slbn_idle_net_id,
	.size = sizeof(struct slbn_idle_net),
};

/**
 * slbn_idle_init() - watch the devices of all namespaces
 *
 * Return: 0, or a negative error code.
 */
int slbn_idle_init(void)
{
	int err = register_pernet_subsys(&slbn_idle_net_ops);

	if (err)
		return err;
	err = register_netdevice_notifier(&slbn_idle_notifier);
	if (err)
		unregister_pernet_subsys(&slbn_idle_net_ops);
	return err;
}

/**
 * slbn_idle_exit() - end watching
 */
void slbn_idle_exit(void)
{
	/* This reports that each device goes away. */
	unregister_netdevice_notifier(&slbn_idle_notifier);
	unregister_pernet_subsys(&slbn_idle_net_ops);
}
