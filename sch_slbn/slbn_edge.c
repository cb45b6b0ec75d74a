// SPDX-License-Identifier: GPL-2.0
/*
 * Drop control packets that hosts at an edge send.
 *
 * The ingress hook of the edge's device sees what it receives, except packets
 * that tc has redirected: another device sends them, or they return from an ifb
 * after this hook. Control packets that bypass the hook are dropped
 *
 *  - where a link sends it: skb_iif is the device that received the packet.
 *    Only control packets bear that cost. With NAT skb_iif stays, and the ports
 *    are those that the next router sees;
 *  - where this router receives it;
 *  - where this router forwards or bridges it, while the namespace has an ifb. The
 *    kernel skips netfilter's egress hooks for what an ifb returns
 *    (skb->nf_skip_egress), so that no root link sees it; and the device that
 *    sends it may be no link. These hooks cost each forwarded packet some
 *    nanoseconds, so that they are registered only then.
 *
 * Ports are not compared at ingress: NAT may change them into those of control
 * packets.
 */
#include <linux/if_macvlan.h>
#include <linux/if_vlan.h>
#include <linux/ipv6.h>
#include <linux/netfilter_bridge.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <net/ip.h>

#include "slbn.h"

static void slbn_count_from_host(struct slbn_link *edge,
				 const struct sk_buff *skb)
{
	slbn_count_drop(edge, skb, &edge->counters.from_hosts);
}

static noinline_for_stack unsigned int slbn_ingress_slow(struct slbn_link *link,
							 struct sk_buff *skb)
{
	if (!slbn_find_magic(skb))
		return NF_ACCEPT;
	/*
	 * A promiscuous device receives packets to other hosts, too. Do not count
	 * them, unless a device on top of this one may be their destination:
	 * behind an rx_handler (of a bridge or macvlan) or a VLAN tag. But rules
	 * and flowtables may forward them all the same.
	 */
	if (skb->pkt_type == PACKET_OTHERHOST &&
	    !rcu_access_pointer(link->dev->rx_handler) &&
	    !skb_vlan_tag_present(skb))
		return NF_DROP;
	slbn_count_from_host(link, skb);
	return NF_DROP;
}

/**
 * slbn_ingress() - drop control packets that hosts send
 * @priv: link, an edge
 * @skb: packet, data at the network header
 * @state: not used
 *
 * A netfilter ingress hook.
 *
 * Context: bottom halves are disabled.
 * Return: NF_ACCEPT or NF_DROP.
 */
unsigned int slbn_ingress(void *priv, struct sk_buff *skb,
			  const struct nf_hook_state *state)
{
	if (likely(slbn_is_data(skb, false)))
		return NF_ACCEPT;
	return slbn_ingress_slow(priv, skb);
}

/*
 * Whether a device receives what the devices below it receive, after their
 * hooks. Not each device that has lower ones does: tunnels and MACsec receive
 * other packets. The ports of a bridge or VRF differ: their packets are examined
 * before the bridge, or by the device in the VRF.
 */
static bool slbn_is_above(const struct net_device *dev)
{
	return is_vlan_dev(dev) || netif_is_macvlan(dev) ||
	       netif_is_lag_master(dev) || slbn_is_kind(dev, "ipvlan");
}

/* Find the edge by which a device receives: itself, or one below it. */
static struct slbn_link *slbn_find_edge(struct net_device *dev)
{
	struct slbn_link *edge = slbn_link_find_edge(dev);
	struct list_head *iter = &dev->adj_list.lower;
	struct net_device *lower;

	if (!slbn_is_above(dev))
		return edge;
	while (!edge && (lower = netdev_next_lower_dev_rcu(dev, &iter)))
		edge = slbn_find_edge(lower);
	return edge;
}

/* Count a control packet that device @ifindex has received from hosts. */
static bool slbn_drop_received(struct net *net, const struct sk_buff *skb,
			       int ifindex)
{
	struct slbn_link *edge;
	struct net_device *dev;

	if (!slbn_links_have_edges(net))
		return false;
	dev = dev_get_by_index_rcu(net, ifindex);
	edge = dev ? slbn_find_edge(dev) : NULL;
	if (edge)
		slbn_count_from_host(edge, skb);
	return edge;
}

/**
 * slbn_drop_from_host() - does an edge drop this packet?
 * @skb: control packet
 * @state: of a hook for packets that this router receives, forwards or bridges
 *
 * Context: bottom halves are disabled, in an RCU read-side critical section.
 * Return: true if hosts sent it; it is counted.
 */
bool slbn_drop_from_host(struct sk_buff *skb, const struct nf_hook_state *state)
{
	int ifindex = state->in->ifindex;

	/* Not the VRF, but the device in it. */
	if (netif_is_l3_master(state->in))
		ifindex = state->pf == NFPROTO_IPV4 ? IPCB(skb)->iif :
						      IP6CB(skb)->iif;
	return slbn_drop_received(state->net, skb, ifindex);
}

/**
 * slbn_drop_forwarded() - has an edge received this packet, which a link sends?
 * @link: the link
 * @skb: control packet that its device sends
 *
 * Packets of this router have no skb_iif. It may be an index of another namespace
 * if a macvlan in that namespace sends by this link: at worst a packet is dropped.
 *
 * Context: in an RCU read-side critical section, bottom halves are disabled.
 * Return: true if hosts sent it past the ingress hook of their edge; it is
 * counted.
 */
bool slbn_drop_forwarded(const struct slbn_link *link,
			 const struct sk_buff *skb)
{
#ifdef CONFIG_NET_REDIRECT
	/* Redirected at egress: skb_iif is the device that would send it. */
	if (skb_is_redirected(skb) && !skb->from_ingress)
		return false;
#endif
	return skb->skb_iif && slbn_drop_received(link->net, skb, skb->skb_iif);
}

static noinline_for_stack unsigned int
slbn_forward_slow(struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (!slbn_find_magic(skb) || !slbn_drop_from_host(skb, state))
		return NF_ACCEPT;
	return NF_DROP;
}

static unsigned int slbn_forward(void *priv, struct sk_buff *skb,
				 const struct nf_hook_state *state)
{
	unsigned int verdict;

	if (likely(slbn_is_data(skb, false)))
		return NF_ACCEPT;
	/* A rule of the same priority may queue, as in slbn_local_in(). */
	local_bh_disable();
	verdict = slbn_forward_slow(skb, state);
	local_bh_enable();
	return verdict;
}

const struct nf_hook_ops slbn_forward_hooks[SLBN_FORWARD_HOOKS] = {
	{
		.hook = slbn_forward,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_FORWARD,
		.priority = NF_IP_PRI_FIRST,
	},
	{
		.hook = slbn_forward,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_FORWARD,
		.priority = NF_IP6_PRI_FIRST,
	},
#ifdef CONFIG_NETFILTER_FAMILY_BRIDGE
	{
		.hook = slbn_forward,
		.pf = NFPROTO_BRIDGE,
		.hooknum = NF_BR_PRE_ROUTING,
		.priority = NF_BR_PRI_FIRST,
	},
#endif
};
