/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of sch_slbn have in common: the link.
 *
 * slbn_core.h	the algorithm
 * slbn_wire.h	reading and rewriting packets
 * slbn_packet.c	finding control packets in an skb and taking them to the link
 * slbn_link.c	links: one for each device, their parameters, hooks and events
 * slbn_qdisc.c	the qdisc: what leaves through the device
 * slbn_genl.c	the netlink family: listing, setting, events
 *
 * A device is one link, however many qdiscs of ours stand on it (one for each
 * of its queues, or an old and a new one for a moment): they share its state.
 * The list of links and their parameters are changed under RTNL; the state is
 * under the link's own lock, as packets come from both sides at once.
 */
#ifndef SLBN_H
#define SLBN_H

#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/siphash.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include <uapi/fairpath/slbn_netlink.h>

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_wire.h>

/* Changes of the share are collected for so long before they are told. */
#define SLBN_NOTIFY_DELAY (HZ / 10)

/**
 * struct slbn_config - what the user chooses
 * @rate: bit/s, or 0: the device's speed
 * @epoch: ns, or 0
 * @memory: visits, used if @memory_time is 0
 * @memory_time: ns
 * @control: per mille of the rate
 * @threshold: per mille by which the share moves before an event
 * @edge: hosts are behind it
 * @keyed: @key authenticates
 * @key: the domain's key
 */
struct slbn_config {
	u64 rate;
	u64 epoch;
	u32 memory;
	u64 memory_time;
	u32 control;
	u32 threshold;
	bool edge;
	bool keyed;
	siphash_key_t key;
};

/**
 * struct slbn_counters - packets that did not come to the algorithm, and others
 *	that it does not count; as in struct slbn_link_state
 */
struct slbn_counters {
	u64 malformed;
	u64 bad_checksum;
	u64 fragments;
	u64 bad_key;
	u64 from_hosts;
	u64 answered;
	u64 rate_limited;
	u64 events;
};

/**
 * struct slbn_undo - what a link was before a qdisc joined it
 * @config: its configuration
 * @capacity: bit/s
 * @handle: of the qdisc that had come last
 * @version: of the configuration that the qdisc brought
 */
struct slbn_undo {
	struct slbn_config config;
	u64 capacity;
	u32 handle;
	u32 version;
};

/**
 * struct slbn_link - a link
 * @list: all links
 * @users: qdiscs
 * @dev: the device, which the qdiscs keep
 * @handle: of the qdisc that came last
 * @config: under RTNL; what packets need of it is copied below
 * @version: how often @config was set
 * @hook: sees what comes in through the device
 * @lock: guards what follows
 * @params: the algorithm's parameters
 * @vars: its state
 * @stats: its account
 * @counters: ours
 * @control: per mille of the rate that control packets may take
 * @edge: hosts are behind it
 * @keyed: @key authenticates
 * @key: the domain's key
 * @tokens: bits that control packets may take at once
 * @filled: when @tokens was right, ns
 * @threshold: per mille by which the share moves before an event
 * @told: the share that was told last, bit/s
 * @telling: @teller is about to tell
 * @teller: tells of the share when it has moved; turns pages where no packet does
 */
struct slbn_link {
	struct list_head list;
	u32 users;
	struct net_device *dev;
	u32 handle;
	struct slbn_config config;
	u32 version;
	struct nf_hook_ops hook;

	/* Guards all that packets read and write. */
	spinlock_t lock;
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	struct slbn_link_stats stats;
	struct slbn_counters counters;
	u32 control;
	u32 threshold;
	bool edge;
	bool keyed;
	siphash_key_t key;
	u64 tokens;
	u64 filled;
	u64 told;
	bool telling;
	struct delayed_work teller;
};

/**
 * enum slbn_action - what a packet is, or was
 * @SLBN_DATA: not ours; not touched
 * @SLBN_CONTROL: a control packet, which may go on
 * @SLBN_DROP: a control packet that may not
 * @SLBN_ANSWERED: it was turned round, and is gone
 */
enum slbn_action {
	SLBN_DATA,
	SLBN_CONTROL,
	SLBN_DROP,
	SLBN_ANSWERED,
};

/* slbn_packet.c */
enum slbn_action slbn_egress(struct slbn_link *link, struct sk_buff *skb);
enum slbn_action slbn_ingress(struct slbn_link *link, struct sk_buff *skb);

/* slbn_link.c */
extern struct list_head slbn_links;
extern unsigned int slbn_links_changes;

extern const struct nla_policy slbn_link_policy[SLBN_A_MAX + 1];

void slbn_config_init(struct slbn_config *config);
int slbn_config_parse(struct slbn_config *config, struct nlattr **tb,
		      struct netlink_ext_ack *extack);
int slbn_config_put(const struct slbn_link *link, struct sk_buff *skb);
int slbn_link_configure(struct slbn_link *link,
			const struct slbn_config *config,
			struct netlink_ext_ack *extack);
int slbn_link_reconfigure(struct slbn_link *link,
			  const struct slbn_config *config,
			  struct netlink_ext_ack *extack);
struct slbn_link *slbn_link_find(const struct net_device *dev);
struct slbn_link *slbn_link_get(struct net_device *dev, u32 handle,
				const struct slbn_config *config,
				struct slbn_undo *undo,
				struct netlink_ext_ack *extack);
void slbn_link_put(struct slbn_link *link, const struct slbn_undo *undo);
int slbn_link_reset(struct slbn_link *link, struct netlink_ext_ack *extack);
void slbn_link_read(struct slbn_link *link, struct slbn_link_state *state);
void slbn_link_watch_share(struct slbn_link *link);
int slbn_link_watch(void);
void slbn_link_unwatch(void);

/* slbn_genl.c */
int slbn_genl_init(void);
void slbn_genl_exit(void);
void slbn_genl_notify_share(struct slbn_link *link);

#endif /* SLBN_H */
