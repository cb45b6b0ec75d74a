// SPDX-License-Identifier: GPL-2.0
/*
 * Links: one for each device that has an slbn qdisc, which owns it.
 *
 * Netfilter hooks lead packets to the link: one of the namespace for answers,
 * which finds the link by its number; one at the device's egress if the qdisc
 * is the root (otherwise the qdisc calls the link for each packet); and one at
 * the device's ingress, which drops control packets from hosts at an edge. In a
 * namespace with an ifb, another hook drops control packets that bypass the
 * ingress hook through the ifb. As a packet may still be in a hook when the
 * link is removed, the link is freed after a grace period.
 *
 * struct slbn_config keeps the user's configuration. The values derived from it
 * (the capacity from the device's speed, the size of the memory from the
 * capacity) are computed again when the configuration or the speed changes.
 */
#include <linux/ethtool.h>
#include <linux/inetdevice.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netfilter_netdev.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/netns/generic.h>

#include "slbn.h"

#define CREATE_TRACE_POINTS
#include "slbn_control_trace.h"

/* Delay of a share event, jiffies; it covers all changes up to then. */
#define SLBN_NOTIFY_DELAY (HZ / 10)

/* Delays of the choice of addresses, jiffies: after changes, and during DAD. */
#define SLBN_ADDRESS_DELAY (HZ / 100 ?: 1)
#define SLBN_ADDRESS_DAD (HZ / 10)

/**
 * struct slbn_net - links of a namespace
 * @net: the namespace
 * @links: by number; changed under RTNL. Those whose speed may have changed have
 *	the mark SLBN_SPEED_DUE
 * @devices: the same links by the index of their device
 * @edges: links that are edges, by the index of their device; as @links
 * @changes: counter of changes of @links; under RTNL
 * @forward: registered hooks for forwarded packets, or NULL; under RTNL
 * @next: number to try next
 * @unknown_link: answers to links that do not exist
 * @from_users: control packets of local programs without privilege
 * @address_work: chooses the links' addresses for answers
 * @speed_work: reads the speed of links
 */
struct slbn_net {
	struct net *net;
	struct xarray links;
	struct xarray devices;
	struct xarray edges;
	unsigned int changes;
	const struct nf_hook_ops *forward;
	u32 next;
	atomic64_t unknown_link;
	atomic64_t from_users;
	struct delayed_work address_work;
	struct work_struct speed_work;
};

/* XA_MARK_0 is that of free numbers. */
#define SLBN_SPEED_DUE XA_MARK_1

static unsigned int slbn_net_id __read_mostly;

static struct slbn_net *slbn_net(struct net *net)
{
	return net_generic(net, slbn_net_id);
}

static struct slbn_memory_entry *
slbn_memory_alloc(u32 rows, struct netlink_ext_ack *extack)
{
	struct slbn_memory_entry *memory;

	memory = kvcalloc(rows * SLBN_MEMORY_WAYS, sizeof(*memory),
			  GFP_KERNEL_ACCOUNT);
	if (!memory)
		NL_SET_ERR_MSG_MOD(extack, "out of memory: reduce memory");
	return memory;
}

/* The end of leases that last @longest and may have been granted before @now. */
static u64 slbn_leases_end(const struct slbn_link *link, u64 longest, u64 now)
{
	return max(link->vars.quiet_until, now + longest);
}

/*
 * How long to wait for sessions of a link in use that its ledgers may not count.
 * Rates from epoch 0 have no lease: their control packets count them again.
 */
static u64 slbn_link_quiet(const struct slbn_config *config)
{
	return max_t(u64, slbn_config_quiet(config), SLBN_QUIET_DEFAULT);
}

/*
 * Set the epoch and commit. The ledgers must always hold what sessions may use.
 * Those from before commit was on do not. A shorter epoch drops them before
 * leases of the old length have ended, or before sessions without a lease have
 * sent a control packet: grant no rises until then.
 */
static void slbn_link_set_epoch(struct slbn_link *link,
				const struct slbn_config *config)
{
	struct slbn_link_params *params = &link->params;
	struct slbn_link_vars *vars = &link->vars;
	u64 lease = params->epoch;
	u64 now = ktime_get_ns();

	if (config->commit && !params->commit) {
		bool is_new = !params->C;

		lease = max(lease, is_new ? slbn_config_quiet(config) :
					    slbn_link_quiet(config));
		slbn_link_init(vars, now, slbn_leases_end(link, lease, now),
			       get_random_u32());
		/* The memory is empty, too: mask tags in another way. */
		get_random_bytes(params->hash_key, sizeof(params->hash_key));
	} else if (config->epoch != params->epoch) {
		/* An epoch of another length starts now. */
		vars->epoch_start = now;
		if (!lease)
			lease = max_t(u64, config->quiet, SLBN_QUIET_DEFAULT);
		if (config->epoch < lease)
			vars->quiet_until = slbn_leases_end(link, lease, now);
	}
	if (!config->commit) {
		vars->cur.A = 0;
		vars->prev.A = 0;
	}
	params->epoch = config->epoch;
	params->commit = config->commit;
}

static int slbn_link_hook(struct slbn_link *link, struct nf_hook_ops *hook,
			  nf_hookfn *fn, unsigned int hooknum, int priority)
{
	hook->hook = fn;
	hook->priv = link;
	hook->dev = link->dev;
	hook->pf = NFPROTO_NETDEV;
	hook->hooknum = hooknum;
	hook->priority = priority;
	return nf_register_net_hook(link->net, hook);
}

static void slbn_link_unhook(struct slbn_link *link, struct nf_hook_ops *hook)
{
	nf_unregister_net_hook(link->net, hook);
}

/* Whether a device returns packets to another one behind its ingress hooks. */
static bool slbn_is_ifb(const struct net_device *dev)
{
	return slbn_is_kind(dev, "ifb");
}

static bool slbn_has_ifb(struct net *net)
{
	const struct net_device *dev;

	for_each_netdev(net, dev)
		if (slbn_is_ifb(dev))
			return true;
	return false;
}

/*
 * Register the hooks for forwarded packets while there are edges and an ifb.
 * Returns an error only if the hooks are necessary.
 */
static int slbn_update_forward(struct slbn_net *links)
{
	unsigned long index = 0;
	struct slbn_link *edge;
	int err = 0;

	ASSERT_RTNL();
	edge = xa_find(&links->edges, &index, ULONG_MAX, XA_PRESENT);
	if (edge && slbn_has_ifb(links->net)) {
		if (links->forward)
			return 0;
		err = nf_register_net_hooks(links->net, edge->ops->forward,
					    SLBN_FORWARD_HOOKS);
		if (!err)
			links->forward = edge->ops->forward;
	} else if (links->forward) {
		nf_unregister_net_hooks(links->net, links->forward,
					SLBN_FORWARD_HOOKS);
		links->forward = NULL;
	}
	return err;
}

static void slbn_link_unhook_ingress(struct slbn_link *link)
{
	struct slbn_net *links = slbn_net(link->net);

	slbn_link_unhook(link, &link->ingress);
	xa_erase(&links->edges, link->ifindex);
	slbn_update_forward(links);
	slbn_idle_restart(link->net, link->ifindex);
}

/*
 * Before all other hooks: a flowtable must not forward packets from hosts.
 * Packets that tc redirects to an ifb skip this hook, but not the hook for
 * forwarded packets.
 */
static int slbn_link_hook_ingress(struct slbn_link *link,
				  struct netlink_ext_ack *extack)
{
	struct slbn_net *links = slbn_net(link->net);
	int err;

	err = xa_err(xa_store(&links->edges, link->ifindex, link,
			      GFP_KERNEL_ACCOUNT));
	if (err)
		return err;
	err = slbn_update_forward(links);
	if (err)
		goto erase;
	err = slbn_link_hook(link, &link->ingress, link->ops->ingress,
			     NF_NETDEV_INGRESS, INT_MIN);
	if (!err)
		return 0;
	if (err == -EOPNOTSUPP)
		NL_SET_ERR_MSG_MOD(extack,
				   "kernel lacks CONFIG_NETFILTER_INGRESS");
erase:
	xa_erase(&links->edges, link->ifindex);
	slbn_update_forward(links);
	return err;
}

/* After all other hooks: what they drop or redirect does not use the link. */
static int slbn_link_hook_egress(struct slbn_link *link,
				 struct netlink_ext_ack *extack)
{
	int err = slbn_link_hook(link, &link->egress, link->ops->egress,
				 NF_NETDEV_EGRESS, INT_MAX);

	if (err == -EOPNOTSUPP)
		NL_SET_ERR_MSG_MOD(extack,
				   "kernel lacks CONFIG_NETFILTER_EGRESS");
	return err;
}

static void slbn_key_set_free_rcu(struct rcu_head *head)
{
	kfree_sensitive(container_of(head, struct slbn_key_set, rcu));
}

/* Set the share in the last event, and how far it may move before the next. */
static void slbn_set_notified(struct slbn_link *link, u64 share)
{
	u64 moved = div_u64(share, 1000) * link->threshold;

	link->notified_share = share;
	link->share_low = share - moved;
	link->share_high = share + moved;
}

/* Set what the plan assigns. */
static void slbn_link_set_plan(struct slbn_link *link,
			       const struct slbn_config *config)
{
	u64 C = link->params.C;

	link->headroom_params = (struct slbn_headroom_params){
		.C = C,
		.control = div_u64(C * config->control, 1000),
		.unassigned = div_u64(C * config->unassigned, 1000),
		.epoch = config->epoch ?: SLBN_EPOCH_DEFAULT,
	};
	if (config->headroom_auto && !link->headroom_auto)
		slbn_headroom_init(&link->headroom, ktime_get_ns());
	/* The epoch may be shorter now. */
	slbn_headroom_expect(&link->headroom_params, &link->headroom,
			     ktime_get_ns());
	link->headroom_auto = config->headroom_auto;
	if (link->headroom_auto)
		link->params.P = slbn_headroom_plan(&link->headroom_params,
						    &link->headroom);
	else
		link->params.P = C - div_u64(C * config->headroom, 1000);
}

/* Apply @config with @capacity; on an error nothing changes. */
static int slbn_link_apply(struct slbn_link *link,
			   const struct slbn_config *config, u64 capacity,
			   struct netlink_ext_ack *extack)
{
	u32 entries = slbn_config_memory_entries(config, capacity);
	bool was_edge = link->config.edge;
	struct slbn_memory_entry *memory = NULL;
	struct slbn_key_set *key_set;
	bool replace;
	u32 rows;
	int err;

	key_set = kmalloc(sizeof(*key_set), GFP_KERNEL_ACCOUNT);
	if (!key_set)
		return -ENOMEM;
	key_set->keys = config->keys;
	rows = DIV_ROUND_UP(entries, SLBN_MEMORY_WAYS);
	if (rows)
		rows = roundup_pow_of_two(rows);
	replace = rows != link->params.rows ||
		  (config->commit && !link->params.commit);
	if (replace && rows) {
		memory = slbn_memory_alloc(rows, extack);
		if (!memory) {
			err = -ENOMEM;
			goto free;
		}
	}
	if (config->edge && !was_edge) {
		err = slbn_link_hook_ingress(link, extack);
		if (err)
			goto free;
	}

	spin_lock_bh(&link->lock);
	if (replace) {
		swap(link->vars.memory, memory);
		link->params.rows = rows;
	}
	slbn_link_set_epoch(link, config);
	link->params.C = capacity;
	slbn_link_set_plan(link, config);
	slbn_bucket_set_rate(&link->bucket,
			     div_u64(capacity * config->control, 1000));
	link->threshold = config->threshold;
	slbn_set_notified(link, link->notified_share);
	spin_unlock_bh(&link->lock);
	WRITE_ONCE(link->edge, config->edge);
	key_set = rcu_replace_pointer(link->key_set, key_set,
				      lockdep_rtnl_is_held());
	if (key_set)
		call_rcu(&key_set->rcu, slbn_key_set_free_rcu);

	if (was_edge && !config->edge)
		slbn_link_unhook_ingress(link);
	link->config = *config;
	kvfree(memory);
	return 0;

free:
	kvfree(memory);
	kfree_sensitive(key_set);
	return err;
}

static u64 slbn_speed(int err, const struct ethtool_link_ksettings *settings)
{
	if (err || settings->base.speed == (u32)SPEED_UNKNOWN)
		return 0;
	return min(settings->base.speed * 1000000ULL, SLBN_LINK_RATE_MAX);
}

/* Both return bit/s, or 0 if the device reports no speed. */
static u64 slbn_speed_locked(struct net_device *dev)
{
	struct ethtool_link_ksettings settings;

	return slbn_speed(netif_get_link_ksettings(dev, &settings), &settings);
}

static u64 slbn_speed_unlocked(struct net_device *dev)
{
	struct ethtool_link_ksettings settings;

	return slbn_speed(__ethtool_get_link_ksettings(dev, &settings),
			  &settings);
}

/* Time to the next rotation, or without epochs to the next measurement, jiffies. */
static unsigned long slbn_until_rotation(const struct slbn_link *link)
{
	u64 end = link->vars.epoch_start + link->params.epoch;
	u64 now = ktime_get_ns();

	if (!link->params.epoch)
		end = now + link->headroom_params.epoch;
	return end > now ? nsecs_to_jiffies(end - now) + 1 : 1;
}

static bool slbn_share_has_moved(const struct slbn_link *link)
{
	const struct slbn_link_params *params = &link->params;
	const struct slbn_link_vars *vars = &link->vars;

	return slbn_link_share_exceeds(params, vars, link->share_high) ||
	       (link->share_low &&
		!slbn_link_share_exceeds(params, vars, link->share_low - 1));
}

/**
 * slbn_link_update_plan() - follow what else the link carries, with headroom auto
 * @link: link
 * @now: ktime_get_ns()
 *
 * Context: the link's lock is held.
 */
void slbn_link_update_plan(struct slbn_link *link, u64 now)
{
	lockdep_assert_held(&link->lock);
	if (link->headroom_auto &&
	    slbn_headroom_update(&link->headroom_params, &link->headroom, now))
		link->params.P = slbn_headroom_plan(&link->headroom_params,
						    &link->headroom);
}

/*
 * Measure what unassigned packets take, with headroom auto. RTNL protects the
 * qdiscs that count them. It is only tried, as slbn_link_undo() holds it while it
 * waits for this work; the next measurement then covers this time, too.
 */
static void slbn_link_measure(struct slbn_link *link)
{
	u64 now = ktime_get_ns(), bytes = 0;
	bool due, known;

	spin_lock_bh(&link->lock);
	due = link->headroom_auto && slbn_headroom_is_due(&link->headroom, now);
	spin_unlock_bh(&link->lock);
	if (!due || !rtnl_trylock())
		return;
	known = link->ops->unassigned(link, &bytes);
	spin_lock_bh(&link->lock);
	if (known)
		slbn_headroom_measure(&link->headroom_params, &link->headroom,
				      bytes, now);
	else
		slbn_headroom_end_measure(&link->headroom_params,
					  &link->headroom, now);
	if (link->headroom_auto)
		link->params.P = slbn_headroom_plan(&link->headroom_params,
						    &link->headroom);
	spin_unlock_bh(&link->lock);
	rtnl_unlock();
}

/**
 * slbn_link_count_control() - count a control packet that the device sends
 * @link: link
 * @bits: length of the packet
 * @now: ktime_get_ns()
 *
 * Context: the link's lock is held.
 */
void slbn_link_count_control(struct slbn_link *link, u32 bits, u64 now)
{
	slbn_link_update_plan(link, now);
	slbn_headroom_count_control(&link->headroom, bits);
}

/**
 * slbn_link_check_share() - schedule a share event if the share has moved
 * @link: link
 *
 * Also schedules the rotation of the ledgers while they count sessions: if no
 * more packets arrive, it removes sessions that ended silently. With headroom auto,
 * also measurements.
 *
 * Context: the link's lock is held.
 */
void slbn_link_check_share(struct slbn_link *link)
{
	const struct slbn_link_vars *vars = &link->vars;

	lockdep_assert_held(&link->lock);
	if (link->notify_pending)
		return;
	if (slbn_share_has_moved(link)) {
		link->notify_pending = true;
		cancel_delayed_work(&link->notify_work);
		schedule_delayed_work(&link->notify_work, SLBN_NOTIFY_DELAY);
	} else if ((link->params.epoch || link->headroom_auto) &&
		   (vars->cur.N || vars->prev.N) &&
		   !delayed_work_pending(&link->notify_work)) {
		schedule_delayed_work(&link->notify_work,
				      slbn_until_rotation(link));
	}
}

/**
 * slbn_link_take_share_event() - rotate the ledgers and check for a share event
 * @link: link
 *
 * Called by the link's notify_work, which this schedules again where necessary.
 *
 * Return: true if the share has moved by more than the threshold since the last
 * event; the event is counted, and the caller sends it.
 */
bool slbn_link_take_share_event(struct slbn_link *link)
{
	bool moved;
	u64 now;

	slbn_link_measure(link);
	spin_lock_bh(&link->lock);
	now = ktime_get_ns();
	slbn_link_rotate(&link->params, &link->vars, now);
	slbn_link_update_plan(link, now);
	moved = slbn_share_has_moved(link);
	if (moved) {
		u64 share = slbn_link_share(&link->params, &link->vars, 1);

		slbn_set_notified(link, share);
		link->counters.events++;
	}
	link->notify_pending = false;
	slbn_link_check_share(link);
	spin_unlock_bh(&link->lock);
	return moved;
}

/* Apply @config; returns an error as slbn_link_configure(). */
static int slbn_link_set(struct slbn_link *link,
			 const struct slbn_config *config, u64 speed,
			 struct netlink_ext_ack *extack)
{
	u64 capacity = config->rate ?: speed;

	/* A device that is down may have reported a speed before. */
	if (!capacity && !link->config.rate)
		capacity = link->params.C;
	if (!capacity) {
		NL_SET_ERR_MSG_MOD(extack,
				   "the device reports no speed: set a rate");
		return -EINVAL;
	}
	return slbn_link_apply(link, config, capacity, extack);
}

/* slbn_link_set() for a link in use, whose share may move. */
static int slbn_link_change(struct slbn_link *link,
			    const struct slbn_config *config, u64 speed,
			    struct netlink_ext_ack *extack)
{
	bool changed = memcmp(config, &link->config, sizeof(*config));
	u64 before = link->params.C;
	int err;

	if (!link->net) {
		NL_SET_ERR_MSG_MOD(extack,
				   "the device has moved: delete this qdisc");
		return -ENODEV;
	}
	err = slbn_link_set(link, config, speed, extack);
	if (err)
		return err;
	if (changed || link->params.C != before)
		link->ops->event(link, SLBN_C_LINK_CHANGE_NTF);
	spin_lock_bh(&link->lock);
	/* It waits for the end of an epoch that may be shorter now. */
	if (!link->notify_pending)
		cancel_delayed_work(&link->notify_work);
	slbn_link_check_share(link);
	spin_unlock_bh(&link->lock);
	return 0;
}

/**
 * slbn_link_configure() - change the configuration of a link
 * @link: link
 * @config: valid configuration
 * @extack: set to the reason of an error
 *
 * Context: RTNL is held, the device's own lock is not.
 * Return: 0; -EINVAL if neither configuration nor device give a rate; -ENOMEM;
 * -EOPNOTSUPP for an edge if the kernel lacks CONFIG_NETFILTER_INGRESS. On errors
 * the link is unchanged.
 */
int slbn_link_configure(struct slbn_link *link,
			const struct slbn_config *config,
			struct netlink_ext_ack *extack)
{
	return slbn_link_change(link, config, slbn_speed_unlocked(link->dev),
				extack);
}

/**
 * slbn_link_reconfigure() - slbn_link_configure() for qdisc operations
 * @link: link
 * @config: valid configuration
 * @extack: set to the reason of an error
 *
 * Context: RTNL is held, and the device's own lock if it has one.
 * Return: as slbn_link_configure().
 */
int slbn_link_reconfigure(struct slbn_link *link,
			  const struct slbn_config *config,
			  struct netlink_ext_ack *extack)
{
	return slbn_link_change(link, config, slbn_speed_locked(link->dev),
				extack);
}

/**
 * slbn_link_find() - find the link of a device
 * @dev: device
 *
 * Context: RTNL is held.
 * Return: the link, or NULL.
 */
struct slbn_link *slbn_link_find(const struct net_device *dev)
{
	ASSERT_RTNL();
	return xa_load(&slbn_net(dev_net(dev))->devices, dev->ifindex);
}

/**
 * slbn_link_next() - iterate over the links of a namespace
 * @net: network namespace
 * @number: of the first link to return, updated to that of the returned one
 *
 * Context: RTNL is held.
 * Return: the link, or NULL after the last one.
 */
struct slbn_link *slbn_link_next(struct net *net, unsigned long *number)
{
	return xa_find(&slbn_net(net)->links, number, ULONG_MAX, XA_PRESENT);
}

/**
 * slbn_links_changes() - count additions and removals of links
 * @net: network namespace
 *
 * Context: RTNL is held.
 * Return: the counter.
 */
unsigned int slbn_links_changes(struct net *net)
{
	return slbn_net(net)->changes;
}

/**
 * slbn_link_find_number() - find the link of a number
 * @net: network namespace
 * @number: number; one that no link has is counted
 *
 * Context: in an RCU read-side critical section.
 * Return: the link, valid until the end of the section, or NULL.
 */
struct slbn_link *slbn_link_find_number(struct net *net, u16 number)
{
	struct slbn_net *links = slbn_net(net);
	struct slbn_link *link = xa_load(&links->links, number);

	if (!link)
		atomic64_inc(&links->unknown_link);
	return link;
}

/**
 * slbn_link_find_edge() - find the edge of a device
 * @dev: device
 *
 * Context: in an RCU read-side critical section.
 * Return: the link, valid until the end of the section; or NULL, if the device
 * is no edge.
 */
struct slbn_link *slbn_link_find_edge(const struct net_device *dev)
{
	return xa_load(&slbn_net(dev_net(dev))->edges, dev->ifindex);
}

/**
 * slbn_links_have_edges() - does a namespace have edges?
 * @net: network namespace
 *
 * Return: whether one of its links is an edge; it may change at once.
 */
bool slbn_links_have_edges(struct net *net)
{
	return !xa_empty(&slbn_net(net)->edges);
}

/*
 * Addresses may have changed: choose them soon, once for all changes up to then.
 * Also called in atomic context.
 */
static void slbn_addresses_change(struct net *net)
{
	struct slbn_net *links = slbn_net(net);

	if (!xa_empty(&links->links))
		schedule_delayed_work(&links->address_work, SLBN_ADDRESS_DELAY);
}

static void slbn_choose_addresses(struct work_struct *work)
{
	struct slbn_net *links = container_of(to_delayed_work(work),
					      struct slbn_net, address_work);
	struct slbn_link *link;
	unsigned long number;

	rtnl_lock();
	xa_for_each(&links->links, number, link) {
		slbn_address_choose(link);
		cond_resched();
	}
	if (!xa_empty(&links->links) && slbn_address_is_due(links->net))
		schedule_delayed_work(&links->address_work, SLBN_ADDRESS_DAD);
	rtnl_unlock();
}

/* Make the link available by a number; the first one registers the hooks. */
static int slbn_link_publish(struct slbn_link *link,
			     struct netlink_ext_ack *extack)
{
	struct net *net = link->net;
	struct slbn_net *links = slbn_net(net);
	bool first = xa_empty(&links->links);
	int err;

	if (first) {
		err = nf_register_net_hooks(net, link->ops->local,
					    SLBN_LOCAL_HOOKS);
		if (err)
			return err;
	}
	err = xa_err(xa_store(&links->devices, link->ifindex, link,
			      GFP_KERNEL_ACCOUNT));
	if (err)
		goto unhook;
	err = xa_alloc_cyclic(&links->links, &link->number, link,
			      XA_LIMIT(1, U16_MAX), &links->next, GFP_KERNEL);
	if (err >= 0) {
		links->changes++;
		return 0;
	}
	if (err == -EBUSY)
		NL_SET_ERR_MSG_MOD(extack,
				   "the namespace already has 65535 links");
	xa_erase(&links->devices, link->ifindex);
unhook:
	if (first)
		nf_unregister_net_hooks(net, link->ops->local,
					SLBN_LOCAL_HOOKS);
	return err;
}

static void slbn_link_unpublish(struct slbn_link *link)
{
	struct net *net = link->net;
	struct slbn_net *links = slbn_net(net);

	xa_erase(&links->links, link->number);
	xa_erase(&links->devices, link->ifindex);
	links->changes++;
	if (xa_empty(&links->links))
		nf_unregister_net_hooks(net, link->ops->local,
					SLBN_LOCAL_HOOKS);
}

static void slbn_link_free(struct slbn_link *link)
{
	kvfree(link->vars.memory);
	/* Both have keys. */
	kfree_sensitive(rcu_dereference_protected(link->key_set, true));
	kfree_sensitive(link);
}

/* Undo slbn_link_set(), slbn_link_publish() and slbn_link_hook_egress(). */
static void slbn_link_undo(struct slbn_link *link, bool published, bool hooked)
{
	if (hooked)
		slbn_link_unhook(link, &link->egress);
	if (link->config.edge)
		slbn_link_unhook_ingress(link);
	if (published)
		slbn_link_unpublish(link);
	/* Wait for packets that are still in a hook. */
	synchronize_net();
	cancel_delayed_work_sync(&link->notify_work);
	link->net = NULL;
}

/*
 * A new link need not be quiet if no session can use it: sources with a lease send
 * control packets, and the device has sent nothing, nor was an edge, which answers
 * them, for as long as the longest lease. What it sends from now on passes the
 * hook, or, below another qdisc, will soon.
 */
static void slbn_link_end_quiet(struct slbn_link *link)
{
	if (slbn_idle_time(link->dev) < slbn_config_quiet(&link->config))
		return;
	spin_lock_bh(&link->lock);
	link->vars.quiet_until = 0;
	spin_unlock_bh(&link->lock);
}

/**
 * slbn_link_add() - make a device a link
 * @sch: qdisc that owns the link of its device
 * @root: it is the root qdisc: process what the device sends in an egress hook
 * @config: valid configuration
 * @ops: functions that the link calls
 * @extack: set to the reason of an error
 *
 * Context: RTNL is held, and the device's own lock if it has one.
 * Return: the link, to be removed by slbn_link_remove(), or an ERR_PTR():
 * -EEXIST if the device is a link already; -EOPNOTSUPP if the kernel lacks
 * CONFIG_NETFILTER_EGRESS or, for an edge, CONFIG_NETFILTER_INGRESS; -EINVAL if
 * neither configuration nor device give a rate; -EBUSY; -ENOMEM.
 */
struct slbn_link *slbn_link_add(struct Qdisc *sch, bool root,
				const struct slbn_config *config,
				const struct slbn_link_ops *ops,
				struct netlink_ext_ack *extack)
{
	struct net_device *dev = qdisc_dev(sch);
	struct slbn_link *link = slbn_link_find(dev);
	int err;

	if (link) {
		FP_SET_ERR_MSG_OWNER(extack, "slbn", link->handle,
				     "owns this device: change or delete it");
		return ERR_PTR(-EEXIST);
	}
	link = kzalloc(sizeof(*link), GFP_KERNEL_ACCOUNT);
	if (!link)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&link->lock);
	INIT_DELAYED_WORK(&link->notify_work, ops->notify);
	link->ops = ops;
	link->net = dev_net(dev);
	link->dev = dev;
	link->ifindex = dev->ifindex;
	link->qdisc = sch;
	link->handle = sch->handle;
	link->root = root;
	get_random_bytes(link->params.hash_key, sizeof(link->params.hash_key));
	slbn_link_init(&link->vars, ktime_get_ns(), 0, get_random_u32());
	err = slbn_link_set(link, config, slbn_speed_locked(dev), extack);
	if (err)
		goto free;
	slbn_set_notified(link, link->params.P);
	slbn_address_choose(link);

	err = slbn_link_publish(link, extack);
	if (err) {
		slbn_link_undo(link, false, false);
		goto free;
	}
	err = root ? slbn_link_hook_egress(link, extack) : 0;
	if (err) {
		slbn_link_undo(link, true, false);
		goto free;
	}
	slbn_link_end_quiet(link);
	slbn_addresses_change(dev_net(dev));
	ops->event(link, SLBN_C_LINK_ADD_NTF);
	return link;

free:
	slbn_link_free(link);
	return ERR_PTR(err);
}

/* The device is no longer a link, but the qdisc still has it. */
static void slbn_link_end(struct slbn_link *link)
{
	link->ops->event(link, SLBN_C_LINK_DEL_NTF);
	slbn_link_undo(link, true, link->root);
}

/**
 * slbn_link_remove() - the device is no longer a link
 * @link: link, freed
 *
 * Context: RTNL is held; may sleep.
 */
void slbn_link_remove(struct slbn_link *link)
{
	if (link->net)
		slbn_link_end(link);
	slbn_link_free(link);
}

/**
 * slbn_link_reset() - clear the ledgers and the memory
 * @link: link
 * @extack: set to the reason of an error
 *
 * The next packet of each session counts it as new, as after a restart. With
 * commit the link is quiet until the leases of all sessions have ended.
 *
 * Context: RTNL is held.
 * Return: 0, or -ENOMEM without a change.
 */
int slbn_link_reset(struct slbn_link *link, struct netlink_ext_ack *extack)
{
	struct slbn_memory_entry *memory = NULL;
	u64 now, quiet_until;

	if (link->params.rows) {
		memory = slbn_memory_alloc(link->params.rows, extack);
		if (!memory)
			return -ENOMEM;
	}
	spin_lock_bh(&link->lock);
	now = ktime_get_ns();
	quiet_until =
		slbn_leases_end(link, slbn_link_quiet(&link->config), now);
	swap(link->vars.memory, memory);
	slbn_link_init(&link->vars, now, quiet_until, get_random_u32());
	/* As after a restart: mask tags in another way. */
	get_random_bytes(link->params.hash_key, sizeof(link->params.hash_key));
	slbn_link_check_share(link);
	spin_unlock_bh(&link->lock);
	kvfree(memory);
	link->ops->event(link, SLBN_C_LINK_CHANGE_NTF);
	return 0;
}

#define SLBN_COUNTER(name) \
	[offsetof(struct slbn_counters, name) / sizeof(u64)] = #name

/* Names of the counters of dropped packets, for the tracepoint. */
static const char *const slbn_counter_names[] = {
	SLBN_COUNTER(malformed),    SLBN_COUNTER(other_version),
	SLBN_COUNTER(bad_checksum), SLBN_COUNTER(fragments),
	SLBN_COUNTER(bad_key),	    SLBN_COUNTER(unknown_key),
	SLBN_COUNTER(bad_time),	    SLBN_COUNTER(bad_return),
	SLBN_COUNTER(no_address),   SLBN_COUNTER(from_hosts),
	SLBN_COUNTER(icmp_dropped),
};

/**
 * slbn_count_drop() - count a dropped packet
 * @link: link
 * @skb: the packet
 * @counter: one of the link's counters of dropped packets
 *
 * Context: bottom halves are disabled.
 * Return: SLBN_DROP.
 */
enum slbn_action slbn_count_drop(struct slbn_link *link,
				 const struct sk_buff *skb, u64 *counter)
{
	size_t index = counter - (u64 *)&link->counters;

	lockdep_assert_in_softirq();
	trace_slbn_control(skb, link->ifindex, link->number,
			   slbn_counter_names[index]);
	spin_lock(&link->lock);
	(*counter)++;
	spin_unlock(&link->lock);
	return SLBN_DROP;
}

/**
 * slbn_links_count_user() - count a dropped packet of a local program
 * @net: its network namespace
 * @skb: the packet
 * @ifindex: device by which it would leave
 */
void slbn_links_count_user(struct net *net, const struct sk_buff *skb,
			   int ifindex)
{
	trace_slbn_control(skb, ifindex, 0, "from_users");
	atomic64_inc(&slbn_net(net)->from_users);
}

static void slbn_ledger_read(struct slbn_ledger_state *state,
			     const struct slbn_ledger *ledger)
{
	state->BF = ledger->BF;
	state->NR = ledger->NR;
	state->N = ledger->N;
	state->A = ledger->A;
}

/**
 * slbn_link_read() - read the current state and counters of a link
 * @link: link
 * @state: set, completely
 */
void slbn_link_read(struct slbn_link *link, struct slbn_link_state *state)
{
	const struct slbn_counters *counters = &link->counters;
	const struct slbn_link_stats *stats = &link->stats;
	const struct slbn_link_vars *vars = &link->vars;
	u32 entries;
	u64 now;

	memset(state, 0, sizeof(*state));
	state->bypassed = slbn_bypass_read(link);
	if (link->net) {
		struct slbn_net *links = slbn_net(link->net);

		state->unknown_link = atomic64_read(&links->unknown_link);
		state->from_users = atomic64_read(&links->from_users);
	}
	spin_lock_bh(&link->lock);
	now = ktime_get_ns();
	slbn_link_rotate(&link->params, &link->vars, now);
	slbn_link_update_plan(link, now);
	entries = link->params.rows * SLBN_MEMORY_WAYS;
	state->capacity = link->params.C;
	state->plan = link->params.P;
	state->share = slbn_link_share(&link->params, vars, 1);
	if (link->params.commit && vars->quiet_until > now)
		state->quiet = vars->quiet_until - now;
	slbn_ledger_read(&state->cur, &vars->cur);
	slbn_ledger_read(&state->prev, &vars->prev);
	state->tag = vars->tag;
	state->prev_tag = vars->prev_tag;
	state->memory_entries = entries;
	state->memory_bytes = (u64)entries * sizeof(struct slbn_memory_entry);
	state->joins = stats->joins;
	state->probes = stats->probes;
	state->acks = stats->acks;
	state->leaves = stats->leaves;
	state->leave_acks = stats->leave_acks;
	state->new_sessions = stats->new_sessions;
	state->limited = stats->limited;
	state->migrated = stats->migrated;
	state->corrected = stats->corrected;
	state->clamped = stats->clamped;
	state->stale = stats->stale;
	state->wrong_path = stats->wrong_path;
	state->too_many_hops = stats->too_many_hops;
	state->overuse = stats->overuse;
	state->malformed = counters->malformed;
	state->other_version = counters->other_version;
	state->bad_checksum = counters->bad_checksum;
	state->fragments = counters->fragments;
	state->bad_key = counters->bad_key;
	state->unknown_key = counters->unknown_key;
	state->bad_time = counters->bad_time;
	state->bad_return = counters->bad_return;
	state->no_address = counters->no_address;
	state->from_hosts = counters->from_hosts;
	state->icmp_dropped = counters->icmp_dropped;
	state->answered = counters->answered;
	state->rate_limited = counters->rate_limited;
	state->events = counters->events;
	spin_unlock_bh(&link->lock);
}

static void slbn_update_capacity(struct slbn_link *link)
{
	struct slbn_config config = link->config;

	/* On -ENOMEM the link keeps its capacity. */
	if (!config.rate)
		slbn_link_configure(link, &config, NULL);
	slbn_config_wipe(&config);
}

static void slbn_update_capacities(struct work_struct *work)
{
	struct slbn_net *links =
		container_of(work, struct slbn_net, speed_work);
	struct slbn_link *link;
	unsigned long number;

	rtnl_lock();
	xa_for_each_marked(&links->links, number, link, SLBN_SPEED_DUE) {
		xa_clear_mark(&links->links, number, SLBN_SPEED_DUE);
		slbn_update_capacity(link);
	}
	rtnl_unlock();
}

/* Read the speed of a link in a work, as it takes locks that are held here. */
static void slbn_speed_change(struct slbn_link *link)
{
	struct slbn_net *links = slbn_net(link->net);

	xa_set_mark(&links->links, link->number, SLBN_SPEED_DUE);
	schedule_work(&links->speed_work);
}

static int slbn_speed_may_change(struct net_device *dev,
				 struct netdev_nested_priv *unused)
{
	struct slbn_link *link = slbn_link_find(dev);

	if (link)
		slbn_speed_change(link);
	return 0;
}

/*
 * The speed of a bond or team is that of its ports, and that of a VLAN above it
 * follows. Neither notifies of a change while one port is left.
 */
static void slbn_speeds_may_change(struct net_device *dev)
{
	struct net_device *master;

	slbn_speed_may_change(dev, NULL);
	master = netdev_master_upper_dev_get(dev);
	if (!master || !netif_is_lag_master(master))
		return;
	slbn_speed_may_change(master, NULL);
	rcu_read_lock();
	netdev_walk_all_upper_dev_rcu(master, slbn_speed_may_change, NULL);
	rcu_read_unlock();
}

/* An ifb whose packets could not be checked is refused. */
static int slbn_ifb_event(struct net *net)
{
	return notifier_from_errno(slbn_update_forward(slbn_net(net)));
}

/*
 * A device leaves its namespace, also for another one. Its qdiscs have been
 * removed, and with them its link. But a request without RTNL may still hold
 * one of them, or the one above, for a moment: end the link before the device
 * moves.
 */
static void slbn_link_leave(const struct net_device *dev)
{
	struct slbn_link *link = slbn_link_find(dev);

	if (link)
		slbn_link_end(link);
}

static int slbn_device_event(struct notifier_block *nb, unsigned long event,
			     void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	const struct netdev_notifier_changeupper_info *change = info;

	if (event == NETDEV_UNREGISTER)
		slbn_link_leave(dev);
	if ((event == NETDEV_REGISTER || event == NETDEV_UNREGISTER) &&
	    slbn_is_ifb(dev))
		return slbn_ifb_event(dev_net(dev));
	if (event == NETDEV_UP || event == NETDEV_CHANGE ||
	    event == NETDEV_CHANGEUPPER)
		slbn_addresses_change(dev_net(dev));
	if (event == NETDEV_UP || event == NETDEV_CHANGE ||
	    event == NETDEV_CHANGELOWERSTATE)
		slbn_speeds_may_change(dev);
	/* A port has joined its master, or left it. */
	if (event == NETDEV_CHANGEUPPER)
		slbn_speed_may_change(change->upper_dev, NULL);
	return NOTIFY_DONE;
}

static struct notifier_block slbn_device_notifier = {
	.notifier_call = slbn_device_event,
};

static int slbn_address_event(struct notifier_block *nb, unsigned long event,
			      void *info)
{
	const struct in_ifaddr *address = info;

	slbn_addresses_change(dev_net(address->ifa_dev->dev));
	return NOTIFY_DONE;
}

static struct notifier_block slbn_address_notifier = {
	.notifier_call = slbn_address_event,
};

#if IS_ENABLED(CONFIG_IPV6)
static int slbn_address_event_v6(struct notifier_block *nb, unsigned long event,
				 void *info)
{
	const struct inet6_ifaddr *address = info;

	slbn_addresses_change(dev_net(address->idev->dev));
	return NOTIFY_DONE;
}

static struct notifier_block slbn_address_notifier_v6 = {
	.notifier_call = slbn_address_event_v6,
};

static int slbn_register_v6(void)
{
	return register_inet6addr_notifier(&slbn_address_notifier_v6);
}

static void slbn_unregister_v6(void)
{
	unregister_inet6addr_notifier(&slbn_address_notifier_v6);
}
#else
static int slbn_register_v6(void)
{
	return 0;
}

static void slbn_unregister_v6(void)
{
}
#endif

static int __net_init slbn_net_init(struct net *net)
{
	struct slbn_net *links = slbn_net(net);

	xa_init_flags(&links->links, XA_FLAGS_ALLOC1);
	xa_init(&links->devices);
	xa_init(&links->edges);
	links->net = net;
	INIT_DELAYED_WORK(&links->address_work, slbn_choose_addresses);
	INIT_WORK(&links->speed_work, slbn_update_capacities);
	return 0;
}

static void __net_exit slbn_net_exit(struct net *net)
{
	/* Its devices and their addresses are gone. */
	cancel_delayed_work_sync(&slbn_net(net)->address_work);
	cancel_work_sync(&slbn_net(net)->speed_work);
}

static struct pernet_operations slbn_net_ops = {
	.init = slbn_net_init,
	.exit = slbn_net_exit,
	.id = &slbn_net_id,
	.size = sizeof(struct slbn_net),
};

/**
 * slbn_links_init() - prepare namespaces, and watch the devices' speeds
 *
 * Return: 0, or a negative error code.
 */
int slbn_links_init(void)
{
	int err = register_pernet_subsys(&slbn_net_ops);

	if (err)
		return err;
	err = register_netdevice_notifier(&slbn_device_notifier);
	if (err)
		goto net;
	err = register_inetaddr_notifier(&slbn_address_notifier);
	if (err)
		goto device;
	err = slbn_register_v6();
	if (err)
		goto address;
	return 0;

address:
	unregister_inetaddr_notifier(&slbn_address_notifier);
device:
	unregister_netdevice_notifier(&slbn_device_notifier);
net:
	unregister_pernet_subsys(&slbn_net_ops);
	return err;
}

/**
 * slbn_links_exit() - undo slbn_links_init()
 *
 * Context: all links have been removed.
 */
void slbn_links_exit(void)
{
	slbn_unregister_v6();
	unregister_inetaddr_notifier(&slbn_address_notifier);
	unregister_netdevice_notifier(&slbn_device_notifier);
	unregister_pernet_subsys(&slbn_net_ops);
	/* Wait for slbn_key_set_free_rcu(). */
	rcu_barrier();
}
