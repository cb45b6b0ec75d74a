// SPDX-License-Identifier: GPL-2.0
/*
 * Links: one for each device that has an slbn qdisc.
 *
 * A link is made by the first qdisc on a device and goes with the last. It sees
 * what comes in through the device by a netfilter hook at its ingress, where a
 * packet is seen before it is routed, bridged or delivered. A packet may still
 * be in the hook when the link goes: it is freed after a grace period.
 *
 * What the user configures is kept as it was said (struct slbn_config). What
 * follows from it, the capacity from the device's speed and the size of the
 * memory from the capacity, is derived each time one or the other changes.
 */
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netfilter_netdev.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/netlink.h>

#include "slbn.h"

/* A control packet with 32 tags over IPv4 and Ethernet, to estimate rates by. */
#define SLBN_TYPICAL_BITS ((14 + 20 + 8 + 72 + 64) * 8)

/* All of them, in all namespaces, and how often one came or went; under RTNL. */
LIST_HEAD(slbn_links);
unsigned int slbn_links_changes;

const struct nla_policy slbn_link_policy[SLBN_A_MAX + 1] = {
	[SLBN_A_RATE] = { .type = NLA_U64 },
	[SLBN_A_EPOCH] = { .type = NLA_U64 },
	[SLBN_A_MEMORY] = { .type = NLA_U32 },
	[SLBN_A_MEMORY_TIME] = { .type = NLA_U64 },
	[SLBN_A_CONTROL] = { .type = NLA_U32 },
	[SLBN_A_EDGE] = { .type = NLA_U8 },
	[SLBN_A_KEY] = { .type = NLA_BINARY, .len = SLBN_KEY_LENGTH },
	[SLBN_A_IFINDEX] = { .type = NLA_U32 },
	[SLBN_A_IFNAME] = { .type = NLA_NUL_STRING, .len = IFNAMSIZ - 1 },
	[SLBN_A_THRESHOLD] = { .type = NLA_U32 },
};

/**
 * slbn_config_init() - the defaults
 * @config: all of it is set
 */
void slbn_config_init(struct slbn_config *config)
{
	*config = (struct slbn_config){
		.epoch = SLBN_EPOCH_DEFAULT,
		.memory_time = SLBN_MEMORY_TIME_DEFAULT,
		.control = SLBN_CONTROL_DEFAULT,
		.threshold = SLBN_THRESHOLD_DEFAULT,
	};
}

#define SLBN_EXTACK(extack, attr, text) \
	NL_SET_ERR_MSG_ATTR(extack, attr, KBUILD_MODNAME ": " text)

/**
 * slbn_config_parse() - overlay what a message says, and check it
 * @config: the configuration
 * @tb: attributes by slbn_link_policy
 * @extack: told what is wrong
 *
 * Return: 0, or -EINVAL.
 */
int slbn_config_parse(struct slbn_config *config, struct nlattr **tb,
		      struct netlink_ext_ack *extack)
{
	struct nlattr *attr;

	attr = tb[SLBN_A_RATE];
	if (attr) {
		config->rate = nla_get_u64(attr);
		if (config->rate && (config->rate < SLBN_LINK_RATE_MIN ||
				     config->rate > SLBN_LINK_RATE_MAX)) {
			SLBN_EXTACK(extack, attr,
				    "rate must be 1 kbit/s to 1 Tbit/s, or 0");
			return -EINVAL;
		}
	}
	attr = tb[SLBN_A_EPOCH];
	if (attr) {
		config->epoch = nla_get_u64(attr);
		if (config->epoch && (config->epoch < SLBN_EPOCH_MIN ||
				      config->epoch > SLBN_EPOCH_MAX)) {
			SLBN_EXTACK(extack, attr,
				    "epoch must be 10 ms to 1 h, or 0: never");
			return -EINVAL;
		}
	}
	if (tb[SLBN_A_MEMORY] && tb[SLBN_A_MEMORY_TIME]) {
		SLBN_EXTACK(extack, tb[SLBN_A_MEMORY],
			    "memory is either entries or a time");
		return -EINVAL;
	}
	attr = tb[SLBN_A_MEMORY];
	if (attr) {
		config->memory = nla_get_u32(attr);
		config->memory_time = 0;
		if (config->memory > SLBN_MEMORY_MAX) {
			SLBN_EXTACK(extack, attr,
				    "memory must be 0 to 4194304 entries");
			return -EINVAL;
		}
	}
	attr = tb[SLBN_A_MEMORY_TIME];
	if (attr) {
		config->memory = 0;
		config->memory_time = nla_get_u64(attr);
		if (config->memory_time > SLBN_MEMORY_TIME_MAX) {
			SLBN_EXTACK(extack, attr, "memory must be 0 to 60 s");
			return -EINVAL;
		}
	}
	attr = tb[SLBN_A_CONTROL];
	if (attr) {
		config->control = nla_get_u32(attr);
		if (!config->control || config->control > SLBN_CONTROL_MAX) {
			SLBN_EXTACK(extack, attr,
				    "control must be 0.1 to 100 %");
			return -EINVAL;
		}
	}
	attr = tb[SLBN_A_EDGE];
	if (attr) {
		if (nla_get_u8(attr) > 1) {
			SLBN_EXTACK(extack, attr, "edge must be 0 or 1");
			return -EINVAL;
		}
		config->edge = nla_get_u8(attr);
	}
	attr = tb[SLBN_A_KEY];
	if (attr) {
		if (nla_len(attr) && nla_len(attr) != SLBN_KEY_LENGTH) {
			SLBN_EXTACK(extack, attr,
				    "key must be 16 octets, or 0");
			return -EINVAL;
		}
		config->keyed = nla_len(attr);
		memset(&config->key, 0, sizeof(config->key));
		memcpy(&config->key, nla_data(attr), nla_len(attr));
		le64_to_cpus(&config->key.key[0]);
		le64_to_cpus(&config->key.key[1]);
	}
	attr = tb[SLBN_A_THRESHOLD];
	if (attr) {
		config->threshold = nla_get_u32(attr);
		if (!config->threshold || config->threshold > 1000) {
			SLBN_EXTACK(extack, attr,
				    "threshold must be 1 to 1000 per mille");
			return -EINVAL;
		}
	}
	return 0;
}

/**
 * slbn_config_put() - write a link's configuration to a message
 * @link: the link
 * @skb: the message
 *
 * Context: RTNL is held.
 * Return: 0, or -EMSGSIZE.
 */
int slbn_config_put(const struct slbn_link *link, struct sk_buff *skb)
{
	const struct slbn_config *config = &link->config;

	if (nla_put_u64_64bit(skb, SLBN_A_RATE, config->rate, SLBN_A_PAD) ||
	    nla_put_u64_64bit(skb, SLBN_A_EPOCH, config->epoch, SLBN_A_PAD) ||
	    nla_put_u32(skb, SLBN_A_CONTROL, config->control) ||
	    nla_put_u8(skb, SLBN_A_EDGE, config->edge) ||
	    nla_put_u8(skb, SLBN_A_KEYED, config->keyed) ||
	    nla_put_u32(skb, SLBN_A_THRESHOLD, config->threshold))
		return -EMSGSIZE;
	if (config->memory_time)
		return nla_put_u64_64bit(skb, SLBN_A_MEMORY_TIME,
					 config->memory_time, SLBN_A_PAD);
	return nla_put_u32(skb, SLBN_A_MEMORY, config->memory);
}

static u32 slbn_memory_entries(const struct slbn_config *config, u64 capacity)
{
	u64 packets;

	if (!config->memory_time)
		return config->memory;
	/* At most 10^12 / 1000 * 1000 / 1424 per second, for 60 s: it fits. */
	packets = div_u64(div_u64(capacity, 1000) * config->control,
			  SLBN_TYPICAL_BITS);
	packets = div_u64(packets * div_u64(config->memory_time, NSEC_PER_MSEC),
			  MSEC_PER_SEC);
	return clamp_t(u64, packets, 64, SLBN_MEMORY_MAX);
}

static struct slbn_memory_entry *
slbn_memory_make(u32 rows, struct netlink_ext_ack *extack)
{
	struct slbn_memory_entry *memory;

	memory = kvcalloc(rows * SLBN_MEMORY_WAYS, sizeof(*memory), GFP_KERNEL);
	if (!memory)
		NL_SET_ERR_MSG_MOD(extack, "no memory for so many visits");
	return memory;
}

/* Put @capacity and @config in force; fails only for want of memory. */
static int slbn_link_apply(struct slbn_link *link,
			   const struct slbn_config *config, u64 capacity,
			   struct netlink_ext_ack *extack)
{
	u32 entries = slbn_memory_entries(config, capacity);
	struct slbn_memory_entry *memory = NULL;
	bool resize;
	u32 rows;

	rows = DIV_ROUND_UP(entries, SLBN_MEMORY_WAYS);
	if (rows)
		rows = roundup_pow_of_two(rows);
	resize = rows != link->params.rows;
	if (resize && rows) {
		memory = slbn_memory_make(rows, extack);
		if (!memory)
			return -ENOMEM;
	}

	spin_lock_bh(&link->lock);
	if (resize) {
		swap(link->vars.memory, memory);
		link->params.rows = rows;
	}
	/* Ledgers of another length of time, or of none, begin afresh now. */
	if (link->params.epoch != config->epoch)
		link->vars.epoch_start = ktime_get_ns();
	link->params.C = capacity;
	link->params.epoch = config->epoch;
	link->control = config->control;
	link->threshold = config->threshold;
	link->edge = config->edge;
	link->keyed = config->keyed;
	link->key = config->key;
	spin_unlock_bh(&link->lock);

	link->config = *config;
	link->version++;
	kvfree(memory);
	return 0;
}

static u64 slbn_speed(int err, const struct ethtool_link_ksettings *settings)
{
	if (err || settings->base.speed == (u32)SPEED_UNKNOWN)
		return 0;
	return min(settings->base.speed * 1000000ULL, SLBN_LINK_RATE_MAX);
}

/* Both: bit/s, or 0 if the device does not tell. */
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

/* When the next page is to be turned, in jiffies from now. */
static unsigned long slbn_until_turn(const struct slbn_link *link)
{
	u64 turn = link->vars.epoch_start + link->params.epoch;
	u64 now = ktime_get_ns();

	return turn > now ? nsecs_to_jiffies(turn - now) + 1 : 1;
}

static bool slbn_share_has_moved(const struct slbn_link *link)
{
	u64 share = slbn_link_share(&link->params, &link->vars);
	u64 moved =
		share > link->told ? share - link->told : link->told - share;

	return moved > div_u64(link->told, 1000) * link->threshold;
}

/**
 * slbn_link_watch_share() - see to it that a move of the share will be told
 * @link: the link
 *
 * Not at once, since others will follow. And sessions that die silently leave
 * when the page is turned, if no packet comes any more by the teller.
 *
 * Context: the link's lock is held.
 */
void slbn_link_watch_share(struct slbn_link *link)
{
	const struct slbn_link_vars *vars = &link->vars;

	if (link->telling)
		return;
	if (slbn_share_has_moved(link)) {
		link->telling = true;
		cancel_delayed_work(&link->teller);
		schedule_delayed_work(&link->teller, SLBN_NOTIFY_DELAY);
	} else if (link->params.epoch && (vars->cur.N || vars->prev.N) &&
		   !delayed_work_pending(&link->teller)) {
		schedule_delayed_work(&link->teller, slbn_until_turn(link));
	}
}

static void slbn_tell(struct work_struct *work)
{
	struct slbn_link *link =
		container_of(to_delayed_work(work), struct slbn_link, teller);
	bool moved;

	spin_lock_bh(&link->lock);
	slbn_link_rotate(&link->params, &link->vars, ktime_get_ns());
	moved = slbn_share_has_moved(link);
	if (moved) {
		link->told = slbn_link_share(&link->params, &link->vars);
		link->counters.events++;
	}
	link->telling = false;
	slbn_link_watch_share(link);
	spin_unlock_bh(&link->lock);
	if (moved)
		slbn_genl_notify_share(link);
}

/* Put @config in force; 0, -EINVAL if there is no capacity, or -ENOMEM. */
static int slbn_link_set(struct slbn_link *link,
			 const struct slbn_config *config, u64 speed,
			 struct netlink_ext_ack *extack)
{
	u64 capacity = config->rate ?: speed;

	/* One that is down now may have told before. */
	if (!capacity && !link->config.rate)
		capacity = link->params.C;
	if (!capacity) {
		NL_SET_ERR_MSG_MOD(extack,
				   "the device tells no speed: give a rate");
		return -EINVAL;
	}
	return slbn_link_apply(link, config, capacity, extack);
}

/* As slbn_link_set(), for a link that others may be watching. */
static int slbn_link_change(struct slbn_link *link,
			    const struct slbn_config *config, u64 speed,
			    struct netlink_ext_ack *extack)
{
	int err = slbn_link_set(link, config, speed, extack);

	if (err)
		return err;
	spin_lock_bh(&link->lock);
	slbn_link_watch_share(link);
	spin_unlock_bh(&link->lock);
	return 0;
}

/**
 * slbn_link_configure() - put a configuration in force
 * @link: the link
 * @config: the configuration, checked
 * @extack: told what is wrong
 *
 * Context: RTNL is held, the device's own lock is not.
 * Return: 0; -EINVAL if there is no rate to be had, -ENOMEM: nothing changed.
 */
int slbn_link_configure(struct slbn_link *link,
			const struct slbn_config *config,
			struct netlink_ext_ack *extack)
{
	return slbn_link_change(link, config, slbn_speed_unlocked(link->dev),
				extack);
}

/**
 * slbn_link_reconfigure() - slbn_link_configure() for the qdisc
 * @link: the link
 * @config: the configuration, checked
 * @extack: told what is wrong
 *
 * Context: RTNL is held, and the device's own lock where it has one.
 * Return: as slbn_link_configure().
 */
int slbn_link_reconfigure(struct slbn_link *link,
			  const struct slbn_config *config,
			  struct netlink_ext_ack *extack)
{
	return slbn_link_change(link, config, slbn_speed_locked(link->dev),
				extack);
}

static unsigned int slbn_hook(void *priv, struct sk_buff *skb,
			      const struct nf_hook_state *state)
{
	struct slbn_link *link = priv;

	/*
	 * What a promiscuous device overhears is others' to handle. But with a
	 * handler (a bridge's, a macvlan's) or a tag it is for a device upon
	 * this one to say whose it is.
	 */
	if (skb->pkt_type == PACKET_OTHERHOST &&
	    !rcu_access_pointer(link->dev->rx_handler) &&
	    !skb_vlan_tag_present(skb))
		return NF_ACCEPT;
	return slbn_ingress(link, skb) == SLBN_DROP ? NF_DROP : NF_ACCEPT;
}

/**
 * slbn_link_find() - the link that a device is
 * @dev: the device
 *
 * Context: RTNL is held.
 * Return: the link, or NULL.
 */
struct slbn_link *slbn_link_find(const struct net_device *dev)
{
	struct slbn_link *link;

	ASSERT_RTNL();
	list_for_each_entry(link, &slbn_links, list)
		if (link->dev == dev)
			return link;
	return NULL;
}

static void slbn_link_free(struct slbn_link *link)
{
	kvfree(link->vars.memory);
	kfree(link);
}

static struct slbn_link *slbn_link_make(struct net_device *dev,
					const struct slbn_config *config,
					struct netlink_ext_ack *extack)
{
	struct slbn_link *link;
	int err;

	link = kzalloc(sizeof(*link), GFP_KERNEL);
	if (!link)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&link->lock);
	INIT_DELAYED_WORK(&link->teller, slbn_tell);
	link->dev = dev;
	link->params.salt = get_random_u64();
	slbn_link_init(&link->vars, ktime_get_ns(), get_random_u32());
	err = slbn_link_set(link, config, slbn_speed_locked(dev), extack);
	if (err)
		goto free;
	link->told = link->params.C;

	link->hook.hook = slbn_hook;
	link->hook.priv = link;
	link->hook.dev = dev;
	link->hook.pf = NFPROTO_NETDEV;
	link->hook.hooknum = NF_NETDEV_INGRESS;
	err = nf_register_net_hook(dev_net(dev), &link->hook);
	if (err) {
		NL_SET_ERR_MSG_MOD(extack,
				   "the kernel has no netfilter ingress hook");
		goto free;
	}
	list_add_tail(&link->list, &slbn_links);
	slbn_links_changes++;
	return link;

free:
	slbn_link_free(link);
	return ERR_PTR(err);
}

/**
 * slbn_link_get() - make a device a link, or join the one that it is
 * @dev: the device
 * @handle: of the qdisc that asks
 * @config: how it is to be, checked
 * @undo: set, for slbn_link_put()
 * @extack: told what is wrong
 *
 * Context: RTNL is held, and the device's own lock where it has one.
 * Return: the link, to be given back by slbn_link_put(), or an ERR_PTR().
 */
struct slbn_link *slbn_link_get(struct net_device *dev, u32 handle,
				const struct slbn_config *config,
				struct slbn_undo *undo,
				struct netlink_ext_ack *extack)
{
	struct slbn_link *link = slbn_link_find(dev);

	int err;

	if (link) {
		*undo = (struct slbn_undo){
			.config = link->config,
			.capacity = link->params.C,
			.handle = link->handle,
			.version = link->version + 1,
		};
		err = slbn_link_reconfigure(link, config, extack);
		if (err)
			return ERR_PTR(err);
	} else {
		link = slbn_link_make(dev, config, extack);
		if (IS_ERR(link))
			return link;
		undo->version = 0;
	}
	link->users++;
	link->handle = handle;
	return link;
}

/**
 * slbn_link_put() - a qdisc goes
 * @link: the link, which goes with its last qdisc
 * @undo: as slbn_link_get() set it
 *
 * If the link is still as this qdisc configured it, it becomes what it was: the
 * qdisc may go because the kernel refused it after it was made.
 *
 * Context: RTNL is held.
 */
void slbn_link_put(struct slbn_link *link, const struct slbn_undo *undo)
{
	if (--link->users) {
		if (undo->version == link->version &&
		    !slbn_link_apply(link, &undo->config, undo->capacity, NULL))
			link->handle = undo->handle;
		return;
	}
	list_del(&link->list);
	slbn_links_changes++;
	nf_unregister_net_hook(dev_net(link->dev), &link->hook);
	/* Until the last packet is out of the hook. */
	synchronize_net();
	cancel_delayed_work_sync(&link->teller);
	slbn_link_free(link);
}

/**
 * slbn_link_reset() - forget all sessions
 * @link: the link
 * @extack: told what is wrong
 *
 * They are counted as new at their next visits, as after a restart.
 *
 * Context: RTNL is held.
 * Return: 0, or -ENOMEM: nothing changed.
 */
int slbn_link_reset(struct slbn_link *link, struct netlink_ext_ack *extack)
{
	struct slbn_memory_entry *memory = NULL;

	if (link->params.rows) {
		memory = slbn_memory_make(link->params.rows, extack);
		if (!memory)
			return -ENOMEM;
	}
	spin_lock_bh(&link->lock);
	swap(link->vars.memory, memory);
	slbn_link_init(&link->vars, ktime_get_ns(), get_random_u32());
	slbn_link_watch_share(link);
	spin_unlock_bh(&link->lock);
	kvfree(memory);
	return 0;
}

static void slbn_ledger_read(struct slbn_ledger_state *state,
			     const struct slbn_ledger *ledger)
{
	state->BF = ledger->BF;
	state->NR = ledger->NR;
	state->N = ledger->N;
}

/**
 * slbn_link_read() - a link's state and counters as of now
 * @link: the link
 * @state: all of it is set
 */
void slbn_link_read(struct slbn_link *link, struct slbn_link_state *state)
{
	const struct slbn_counters *counters = &link->counters;
	const struct slbn_link_stats *stats = &link->stats;
	const struct slbn_link_vars *vars = &link->vars;
	u32 entries;

	memset(state, 0, sizeof(*state));
	spin_lock_bh(&link->lock);
	slbn_link_rotate(&link->params, &link->vars, ktime_get_ns());
	entries = link->params.rows * SLBN_MEMORY_WAYS;
	state->capacity = link->params.C;
	state->share = slbn_link_share(&link->params, vars);
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
	state->new_sessions = stats->new_sessions;
	state->migrated = stats->migrated;
	state->corrected = stats->corrected;
	state->clamped = stats->clamped;
	state->stale = stats->stale;
	state->wrong_path = stats->wrong_path;
	state->too_many_hops = stats->too_many_hops;
	state->malformed = counters->malformed;
	state->bad_checksum = counters->bad_checksum;
	state->fragments = counters->fragments;
	state->bad_key = counters->bad_key;
	state->from_hosts = counters->from_hosts;
	state->answered = counters->answered;
	state->rate_limited = counters->rate_limited;
	state->events = counters->events;
	spin_unlock_bh(&link->lock);
}

/* A device may have another speed now. */
static void slbn_follow_speeds(struct work_struct *work)
{
	struct slbn_link *link;

	rtnl_lock();
	list_for_each_entry(link, &slbn_links, list) {
		struct slbn_config same = link->config;

		/* What cannot be followed for want of memory stays as it was. */
		if (!same.rate)
			slbn_link_configure(link, &same, NULL);
	}
	rtnl_unlock();
}

static DECLARE_WORK(slbn_speed_work, slbn_follow_speeds);

static int slbn_device_event(struct notifier_block *nb, unsigned long event,
			     void *info)
{
	const struct net_device *dev = netdev_notifier_info_to_dev(info);

	/* Later, without the locks that are held now. */
	if ((event == NETDEV_UP || event == NETDEV_CHANGE) &&
	    slbn_link_find(dev))
		schedule_work(&slbn_speed_work);
	return NOTIFY_DONE;
}

static struct notifier_block slbn_device_notifier = {
	.notifier_call = slbn_device_event,
};

/**
 * slbn_link_watch() - begin to follow the devices' speeds
 *
 * Return: 0, or an error.
 */
int slbn_link_watch(void)
{
	return register_netdevice_notifier(&slbn_device_notifier);
}

/**
 * slbn_link_unwatch() - end it
 *
 * Called when there are no links any more.
 */
void slbn_link_unwatch(void)
{
	unregister_netdevice_notifier(&slbn_device_notifier);
	cancel_work_sync(&slbn_speed_work);
}
