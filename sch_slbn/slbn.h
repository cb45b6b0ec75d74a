/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared definitions of sch_slbn. Each file uses only those below it:
 *
 * slbn_qdisc.c		qdisc and module; connects the others (slbn_link_ops)
 * slbn_root.c		the root qdisc's children, one for each TX queue
 * slbn_genl.c		netlink family: links, their keys, and share events
 * slbn_packet.c	packets that a link's device sends
 * slbn_answer.c	upstream packets, which are sent to this router
 * slbn_edge.c		control packets from hosts, which are dropped
 * slbn_user.c		control packets of local programs without privilege, likewise
 * slbn_trace.c		the link's state in packets that ask for it
 * slbn_check.c		check, process and authenticate a control packet
 * slbn_find.c		find control packets in skbs
 * slbn_link.c		links: one per device, their state and device's speed
 * slbn_address.c	addresses of this router for answers
 * slbn_idle.c		for how long devices have sent nothing
 * slbn_bypass.c	packets that the link's device sends without the link
 * slbn_config.c	configuration: parse, check, dump
 * slbn_control_trace.h tracepoint
 * slbn_wire.h		parse, build and update packets
 * slbn_core.h		the algorithm
 *
 * A device with an slbn qdisc is a link, and that qdisc owns it: a device has at
 * most one. RTNL protects the links of a namespace and their configuration. The
 * link's lock protects its state, as packets are processed on several CPUs and in
 * both directions at once; they are parsed, checked and signed without it. It is
 * taken with bottom halves disabled. Links are found by number, and their keys
 * read, under RCU.
 */
#ifndef SLBN_H
#define SLBN_H

#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/udp.h>
#include <linux/workqueue.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

#include <uapi/fairpath/slbn_netlink.h>

#include <fairpath/slbn/slbn_bucket.h>
#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_headroom.h>
#include <fairpath/slbn/slbn_wire.h>

/**
 * struct slbn_config - configuration of a link
 * @rate: capacity, bit/s; 0: the device's speed
 * @epoch: ns; 0: never rotate the ledgers
 * @memory: entries, used if @memory_time is 0
 * @memory_time: ns
 * @limited: the memory was configured without CAP_NET_ADMIN in the initial user
 *	namespace, and has at most SLBN_MEMORY_SMALL entries
 * @control: limit of control packets, per mille of the rate
 * @headroom: part of the capacity that fair shares leave free, per mille, unless
 *	@headroom_auto
 * @headroom_auto: fair shares leave free what else the link carries
 * @unassigned: the most that packets without a session take of it, per mille
 * @threshold: change of the share that triggers an event, per mille
 * @commit: limit rises to capacity that no session holds
 * @quiet: time after a start in which no rate rises, ns; 0: the default
 * @edge: hosts are behind the device
 * @keys: keys that authenticate packets
 */
struct slbn_config {
	u64 rate;
	u64 epoch;
	u32 memory;
	u64 memory_time;
	bool limited;
	u32 control;
	u32 headroom;
	bool headroom_auto;
	u32 unassigned;
	u32 threshold;
	bool commit;
	u64 quiet;
	bool edge;
	struct slbn_keys keys;
};

/**
 * struct slbn_counters - packets that did not reach the algorithm, and others
 *	that it does not count; as in struct slbn_link_state
 */
struct slbn_counters {
	u64 malformed;
	u64 other_version;
	u64 bad_checksum;
	u64 fragments;
	u64 bad_key;
	u64 unknown_key;
	u64 bad_time;
	u64 bad_return;
	u64 no_address;
	u64 from_hosts;
	u64 icmp_dropped;
	u64 answered;
	u64 rate_limited;
	u64 events;
};

/*
 * Hooks for what this router receives and sends, and for forwarded packets: IPv4,
 * IPv6, and bridges.
 */
#define SLBN_LOCAL_HOOKS 4
#define SLBN_FORWARD_HOOKS (2 + IS_ENABLED(CONFIG_NETFILTER_FAMILY_BRIDGE))

struct slbn_link;

/**
 * struct slbn_link_ops - what a link calls in the files above
 * @egress: netfilter hook for packets that the device of a root qdisc sends
 * @ingress: netfilter hook for packets that the device of an edge receives
 * @local: SLBN_LOCAL_HOOKS hooks of a namespace that has links
 * @forward: SLBN_FORWARD_HOOKS hooks of a namespace that has edges and an ifb
 * @unassigned: sets the number of bytes that packets without a session have had so
 *	far; false if that is not known; under RTNL
 * @notify: work function of @notify_work in struct slbn_link
 * @event: sends a notification of the link, with this command; under RTNL
 *
 * The private data of @egress and @ingress is the link.
 */
struct slbn_link_ops {
	nf_hookfn *egress;
	nf_hookfn *ingress;
	const struct nf_hook_ops *local;
	const struct nf_hook_ops *forward;
	bool (*unassigned)(struct slbn_link *link, u64 *bytes);
	work_func_t notify;
	void (*event)(struct slbn_link *link, u8 command);
};

/**
 * struct slbn_key_set - keys of a link, read under RCU
 * @rcu: frees the set
 * @keys: keys that authenticate packets
 */
struct slbn_key_set {
	struct rcu_head rcu;
	struct slbn_keys keys;
};

/**
 * struct slbn_bypass - counters at the start, to find packets that bypass a link
 * @root: root qdisc of the device then, or NULL; only compared, as it may be gone
 * @packets: of the device less those of its qdiscs, with removed ones
 * @bytes: as @packets
 */
struct slbn_bypass {
	const struct Qdisc *root;
	s64 packets;
	s64 bytes;
};

/**
 * struct slbn_link - a link
 * @ops: functions of the files above
 * @number: of the link in its namespace, not 0; not used again for long
 * @net: namespace of @dev and of the link; NULL: @dev has left it, and is no longer
 *	a link, although the qdisc is not destroyed yet
 * @dev: device; the qdisc holds a reference
 * @ifindex: index of @dev in @net
 * @qdisc: qdisc that owns the link
 * @handle: its handle
 * @root: it is the root qdisc: packets are processed in @egress
 * @config: under RTNL; what packet processing needs is copied below
 * @egress: egress hook of the device, registered for a root qdisc
 * @ingress: ingress hook of the device, registered at an edge
 * @edge: hosts are behind the device; read without the lock
 * @key_set: copy of the keys in @config
 * @lock: protects all fields below
 * @own_v4: address of this router for answers, or 0
 * @own_v6: the same of IPv6, or in6addr_any
 * @params: parameters of the algorithm
 * @vars: state of the algorithm
 * @headroom_auto: @headroom determines what the plan assigns
 * @headroom_params: parameters of @headroom
 * @headroom: what the link carries besides sessions
 * @stats: counters of the algorithm
 * @counters: other counters
 * @threshold: change of the share that triggers an event, per mille
 * @bucket: limits outgoing control packets
 * @bypass: packets that bypass the link
 * @notified_share: share in the last event, bit/s
 * @share_low: a share below it triggers the next event, bit/s
 * @share_high: so does one above it
 * @notify_pending: @notify_work is scheduled to send an event
 * @notify_work: sends share events; rotates the ledgers when no packet does
 */
struct slbn_link {
	const struct slbn_link_ops *ops;
	u32 number;
	struct net *net;
	struct net_device *dev;
	int ifindex;
	struct Qdisc *qdisc;
	u32 handle;
	bool root;
	struct slbn_config config;
	struct nf_hook_ops egress;
	struct nf_hook_ops ingress;
	bool edge;
	struct slbn_key_set __rcu *key_set;

	/*
	 * Protects all state that packet processing reads and writes. Data
	 * packets read only what is above, in other cache lines.
	 */
	spinlock_t lock ____cacheline_aligned_in_smp;
	__be32 own_v4;
	struct in6_addr own_v6;
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	bool headroom_auto;
	struct slbn_headroom_params headroom_params;
	struct slbn_headroom headroom;
	struct slbn_link_stats stats;
	struct slbn_counters counters;
	u32 threshold;
	struct slbn_bucket bucket;
	struct slbn_bypass bypass;
	u64 notified_share;
	u64 share_low;
	u64 share_high;
	bool notify_pending;
	struct delayed_work notify_work;
};

/**
 * struct slbn_skb_pos - position of a control packet in an skb
 * @ip: offset from skb->data of the IP header, behind VLAN tags in the data
 * @udp: offset of the UDP header
 * @end: offset of the end of the IP packet; padding may follow
 * @length: UDP payload, octets
 * @v6: IPv6
 * @routed: has an IPv6 routing header with segments left
 * @partial: first fragment of a packet
 * @merged: several packets, merged by UDP GRO or sent so (GSO)
 */
struct slbn_skb_pos {
	u32 ip;
	u32 udp;
	u32 end;
	u32 length;
	bool v6;
	bool routed;
	bool partial;
	bool merged;
};

/**
 * struct slbn_control - a control packet
 * @place: position in its skb
 * @data: UDP payload
 * @pkt: its fields
 * @layout: positions in @data
 * @key: key of the link that authenticates it, or NULL; under RCU
 */
struct slbn_control {
	struct slbn_skb_pos place;
	u8 *data;
	struct slbn_packet pkt;
	struct slbn_layout layout;
	const struct slbn_key *key;
};

/**
 * enum slbn_action - what to do with a packet
 * @SLBN_PASS_DATA: forward it; not a control packet, and unchanged
 * @SLBN_PASS_CONTROL: forward it as a control packet
 * @SLBN_DROP: drop it
 * @SLBN_ANSWERED: nothing; the edge has consumed it and sent a reply
 */
enum slbn_action {
	SLBN_PASS_DATA,
	SLBN_PASS_CONTROL,
	SLBN_DROP,
	SLBN_ANSWERED,
};

/* slbn_genl.c */
int slbn_genl_init(void);
void slbn_genl_exit(void);
void slbn_genl_notify(struct work_struct *work);
void slbn_genl_event(struct slbn_link *link, u8 command);

/* slbn_root.c */
int slbn_root_create(struct Qdisc *sch, struct Qdisc ***children,
		     struct netlink_ext_ack *extack);
void slbn_root_destroy(struct Qdisc *sch, struct Qdisc **children);
void slbn_root_attach(struct Qdisc *sch, struct Qdisc **children);
void slbn_root_read_stats(struct Qdisc *sch);
struct netdev_queue *slbn_root_queue(struct Qdisc *sch, unsigned long cl);
struct Qdisc *slbn_root_leaf(struct Qdisc *sch, unsigned long cl);
int slbn_root_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
		    struct Qdisc **old, struct netlink_ext_ack *extack);

/* slbn_packet.c */
enum slbn_action slbn_egress(struct slbn_link *link, struct sk_buff *skb);
unsigned int slbn_egress_hook(void *priv, struct sk_buff *skb,
			      const struct nf_hook_state *state);

/* slbn_answer.c */
extern const struct nf_hook_ops slbn_local_hooks[SLBN_LOCAL_HOOKS];

void slbn_finish_own(const struct slbn_link *link,
		     struct slbn_control *control);
enum slbn_action slbn_answer_own(struct slbn_link *link, struct sk_buff *skb,
				 const struct slbn_control *control);

/* slbn_edge.c */
extern const struct nf_hook_ops slbn_forward_hooks[SLBN_FORWARD_HOOKS];

unsigned int slbn_ingress(void *priv, struct sk_buff *skb,
			  const struct nf_hook_state *state);
bool slbn_drop_from_host(struct sk_buff *skb,
			 const struct nf_hook_state *state);
bool slbn_drop_forwarded(const struct slbn_link *link,
			 const struct sk_buff *skb);

/* slbn_user.c */
bool slbn_may_send(const struct sk_buff *skb);
unsigned int slbn_local_out(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state);

/* slbn_trace.c */
void slbn_trace(struct slbn_link *link, const struct sk_buff *skb,
		struct slbn_control *control, u8 hop);

/* slbn_check.c */
enum slbn_parse_result slbn_control_parse(struct sk_buff *skb,
					  struct slbn_control *control);
u8 *slbn_addresses(const struct sk_buff *skb, const struct slbn_skb_pos *place);
u64 *slbn_check(struct slbn_link *link, const struct sk_buff *skb,
		struct slbn_control *control);
bool slbn_process(struct slbn_link *link, struct slbn_control *control,
		  u64 now);
void slbn_finish(const struct slbn_link *link, struct slbn_control *control,
		 const u8 *addresses);

/* slbn_find.c */

/**
 * slbn_is_data() - the fast test of data packets
 * @skb: packet
 * @ports: data have other ports than control packets; false: only the payload
 *	of UDP decides, since NAT may change ports
 *
 * Only UDP can be a control packet, also behind VLAN tags in the data and IPv6
 * extension headers, and only ICMP an error about one. For UDP, compares a port or
 * the magic, which must be in the linear data of a single packet, without IP
 * options.
 *
 * Return: true if the packet is neither a control packet nor an ICMP error;
 * false if slbn_find() or slbn_find_magic() must decide.
 */
static __always_inline bool slbn_is_data(const struct sk_buff *skb, bool ports)
{
	const void *ip = skb_network_header(skb);
	int linear = skb_tail_pointer(skb) - (const u8 *)ip;
	const struct udphdr *udp;
	u8 protocol;

	linear -= sizeof(*udp) + sizeof(__be32);
	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *v4 = ip;

		if (unlikely(linear < (int)sizeof(*v4)))
			return false;
		protocol = v4->protocol;
		if (protocol != IPPROTO_UDP)
			return protocol != IPPROTO_ICMP;
		/* Fragments may be too short for the magic. */
		if (unlikely(v4->ihl != 5 || (!ports && ip_is_fragment(v4))))
			return false;
		udp = (const void *)(v4 + 1);
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *v6 = ip;

		if (unlikely(linear < (int)sizeof(*v6)))
			return false;
		protocol = v6->nexthdr;
		if (protocol == IPPROTO_TCP)
			return true;
		if (protocol != IPPROTO_UDP)
			return protocol != IPPROTO_ICMPV6 &&
			       !ipv6_ext_hdr(protocol);
		udp = (const void *)(v6 + 1);
	} else {
		return !eth_type_vlan(skb->protocol);
	}
	/* Later fragments have other data in place of ports, and are data. */
	if (ports)
		return udp->dest != htons(SLBN_PORT) ||
		       udp->source != htons(SLBN_PORT);
	return *(const __be32 *)(udp + 1) != htonl(SLBN_MAGIC) &&
	       likely(!skb_is_gso(skb));
}

bool slbn_find(const struct sk_buff *skb, struct slbn_skb_pos *place);
bool slbn_find_magic(const struct sk_buff *skb);
bool slbn_find_error(const struct sk_buff *skb);
struct sk_buff *slbn_split(struct sk_buff *skb);

/* slbn_link.c */

/* Whether "ip link add type KIND" made a device. */
static inline bool slbn_is_kind(const struct net_device *dev, const char *kind)
{
	return dev->rtnl_link_ops && !strcmp(dev->rtnl_link_ops->kind, kind);
}

int slbn_link_configure(struct slbn_link *link,
			const struct slbn_config *config,
			struct netlink_ext_ack *extack);
int slbn_link_reconfigure(struct slbn_link *link,
			  const struct slbn_config *config,
			  struct netlink_ext_ack *extack);
struct slbn_link *slbn_link_find(const struct net_device *dev);
struct slbn_link *slbn_link_find_number(struct net *net, u16 number);
struct slbn_link *slbn_link_find_edge(const struct net_device *dev);
bool slbn_links_have_edges(struct net *net);
struct slbn_link *slbn_link_next(struct net *net, unsigned long *number);
unsigned int slbn_links_changes(struct net *net);
struct slbn_link *slbn_link_add(struct Qdisc *sch, bool root,
				const struct slbn_config *config,
				const struct slbn_link_ops *ops,
				struct netlink_ext_ack *extack);
void slbn_link_remove(struct slbn_link *link);
int slbn_link_reset(struct slbn_link *link, struct netlink_ext_ack *extack);
enum slbn_action slbn_count_drop(struct slbn_link *link,
				 const struct sk_buff *skb, u64 *counter);
void slbn_links_count_user(struct net *net, const struct sk_buff *skb,
			   int ifindex);
void slbn_link_read(struct slbn_link *link, struct slbn_link_state *state);
void slbn_link_update_plan(struct slbn_link *link, u64 now);
void slbn_link_count_control(struct slbn_link *link, u32 bits, u64 now);
void slbn_link_check_share(struct slbn_link *link);
bool slbn_link_take_share_event(struct slbn_link *link);
int slbn_links_init(void);
void slbn_links_exit(void);

/* slbn_bypass.c */
void slbn_bypass_start(struct slbn_link *link);
void slbn_bypass_remove(struct slbn_link *link, struct Qdisc *sch);
u64 slbn_bypass_read(struct slbn_link *link);

/* slbn_idle.c */
u64 slbn_idle_time(struct net_device *dev);
void slbn_idle_restart(struct net *net, int ifindex);
int slbn_idle_init(void);
void slbn_idle_exit(void);

/* slbn_address.c */

/* Whether an IPv6 address is unicast and reachable from other routers. */
static inline bool slbn_is_global_v6(const struct in6_addr *address)
{
	return (ipv6_addr_type(address) &
		(IPV6_ADDR_UNICAST | IPV6_ADDR_LOOPBACK | IPV6_ADDR_LINKLOCAL |
		 IPV6_ADDR_MAPPED)) == IPV6_ADDR_UNICAST;
}

void slbn_address_choose(struct slbn_link *link);
bool slbn_address_is_due(struct net *net);
bool slbn_own_address(const struct slbn_link *link,
		      const struct slbn_control *control, u8 *own);

/* slbn_config.c */
extern const struct nla_policy slbn_config_policy[TCA_SLBN_MAX + 1];

void slbn_config_init(struct slbn_config *config);
u64 slbn_config_quiet(const struct slbn_config *config);
int slbn_config_parse(struct slbn_config *config, struct nlattr **tb,
		      struct netlink_ext_ack *extack);
int slbn_config_add_key(struct slbn_config *config, struct nlattr **tb,
			struct netlink_ext_ack *extack);
int slbn_config_retire_key(struct slbn_config *config, struct nlattr **tb,
			   struct netlink_ext_ack *extack);
void slbn_config_wipe(struct slbn_config *config);
int slbn_config_put(const struct slbn_config *config, struct sk_buff *skb);
u32 slbn_config_memory_entries(const struct slbn_config *config, u64 capacity);

#endif /* SLBN_H */
