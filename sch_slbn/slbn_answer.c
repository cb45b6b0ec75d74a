// SPDX-License-Identifier: GPL-2.0
/*
 * Answers: upstream packets, which return to the routers of their packets.
 *
 * Each link has written its number and an address of its router into the
 * downstream packet. The answer is sent to the last of these addresses. There a
 * netfilter hook for packets to this router, whatever device they arrive by,
 * processes it at the link of that number, and sends it to the address before.
 * So answers need no route that is symmetric to that of their packets.
 *
 * The hook is behind the router's own rules for received packets. It passes to
 * the agent the packets for the agent: downstream packets, and answers that all
 * links have processed.
 *
 * An answer is sent only if the received one was intact, authentic, and sent
 * between the addresses that it states, to a unicast address; if it names the
 * link only once, and if the link has processed the packet that it answers. The
 * answer is not longer than the one received. Each router decrements hop. So a
 * forged answer neither loops nor returns between routers.
 */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/jhash.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/netfilter_netdev.h>
#include <linux/udp.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/udp.h>

#include "slbn.h"
#include <fairpath/dscp.h>

#include "slbn_control_trace.h"

/* Network control (RFC 4594). */
#define SLBN_DSCP_CS6 48

/**
 * struct slbn_reply_route - how an answer is sent
 * @addresses: source and destination, 4 octets each with IPv4, otherwise 16
 * @dsfield: DSCP, without ECN
 * @mark: of the skb
 */
struct slbn_reply_route {
	u8 addresses[2 * sizeof(struct in6_addr)];
	u8 dsfield;
	u32 mark;
};

static u32 slbn_address_length(const struct slbn_skb_pos *place)
{
	return place->v6 ? sizeof(struct in6_addr) : sizeof(__be32);
}

/*
 * That of an answer. CS6 says that a mark of the domain has arrived: links clear the
 * marks of what a router sends, as its users may have set them.
 */
static u8 slbn_dsfield(const struct sk_buff *skb,
		       const struct slbn_skb_pos *place)
{
	const void *ip = skb->data + place->ip;
	u8 dsfield = place->v6 ? ipv6_get_dsfield(ip) : ipv4_get_dsfield(ip);

	if (dscp_is_local(dsfield >> 2))
		return SLBN_DSCP_CS6 << 2;
	return dsfield & ~INET_ECN_MASK;
}

/*
 * Both find the route of an answer, in the VRF of the link's device. They return
 * an ERR_PTR if there is none, or if the destination is not a unicast address.
 */
static struct dst_entry *slbn_route_v4(const struct slbn_link *link,
				       const struct slbn_reply_route *way)
{
	struct net *net = link->net;
	struct flowi4 flow = {};
	__be32 addresses[2];
	struct rtable *route;
	__be32 to;

	memcpy(addresses, way->addresses, sizeof(addresses));
	to = addresses[1];
	if (ipv4_is_zeronet(to) || ipv4_is_loopback(to) ||
	    ipv4_is_multicast(to) || ipv4_is_lbcast(to))
		return ERR_PTR(-EINVAL);
	flowi4_init_output(&flow, l3mdev_master_ifindex_rcu(link->dev),
			   way->mark, way->dsfield, RT_SCOPE_UNIVERSE,
			   IPPROTO_UDP, 0, to, addresses[0], htons(SLBN_PORT),
			   htons(SLBN_PORT), sock_net_uid(net, NULL));
	route = ip_route_output_flow(net, &flow, NULL);
	if (IS_ERR(route))
		return ERR_CAST(route);
	if (route->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {
		ip_rt_put(route);
		return ERR_PTR(-EINVAL);
	}
	return &route->dst;
}

static struct dst_entry *slbn_route_v6(const struct slbn_link *link,
				       const struct slbn_reply_route *way)
{
	struct net *net = link->net;
	struct dst_entry *dst = NULL;
	struct flowi6 flow = {};
	int err;

	memcpy(&flow.saddr, way->addresses, sizeof(flow.saddr));
	memcpy(&flow.daddr, way->addresses + sizeof(flow.saddr),
	       sizeof(flow.daddr));
	if (!slbn_is_global_v6(&flow.daddr))
		return ERR_PTR(-EINVAL);
	flow.flowi6_oif = l3mdev_master_ifindex_rcu(link->dev);
	flow.flowi6_mark = way->mark;
	flow.flowi6_proto = IPPROTO_UDP;
	flow.flowlabel = ip6_make_flowinfo(way->dsfield, 0);
	flow.flowi6_uid = sock_net_uid(net, NULL);
	flow.fl6_sport = htons(SLBN_PORT);
	flow.fl6_dport = htons(SLBN_PORT);
	err = nf_ip6_route(net, &dst, flowi6_to_flowi(&flow), false);
	if (err)
		return ERR_PTR(err);
	return xfrm_lookup(net, dst, flowi6_to_flowi(&flow), NULL, 0);
}

static void slbn_push_v4(struct sk_buff *skb,
			 const struct slbn_reply_route *way)
{
	struct iphdr *ip;
	__be32 addresses[2];

	memcpy(addresses, way->addresses, sizeof(addresses));
	udp_set_csum(false, skb, addresses[0], addresses[1], skb->len);
	ip = skb_push(skb, sizeof(*ip));
	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = way->dsfield,
		.tot_len = htons(skb->len),
		/* Links drop fragments. */
		.frag_off = htons(IP_DF),
		.ttl = ip4_dst_hoplimit(skb_dst(skb)),
		.protocol = IPPROTO_UDP,
		.saddr = addresses[0],
		.daddr = addresses[1],
	};
	skb_reset_network_header(skb);
	skb->protocol = htons(ETH_P_IP);
}

static void slbn_push_v6(struct sk_buff *skb,
			 const struct slbn_reply_route *way)
{
	struct in6_addr addresses[2];
	struct ipv6hdr *ip;

	memcpy(addresses, way->addresses, sizeof(addresses));
	udp6_set_csum(false, skb, &addresses[0], &addresses[1], skb->len);
	ip = skb_push(skb, sizeof(*ip));
	ip6_flow_hdr(ip, way->dsfield, 0);
	ip->payload_len = htons(skb->len - sizeof(*ip));
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = ip6_dst_hoplimit(skb_dst(skb));
	ip->saddr = addresses[0];
	ip->daddr = addresses[1];
	skb_reset_network_header(skb);
	skb->protocol = htons(ETH_P_IPV6);
}

/*
 * Push the headers of an answer to its data. The header of IPv4 gets its checksum
 * when it is sent.
 */
static void slbn_push(struct sk_buff *skb, const struct slbn_control *control,
		      const struct slbn_reply_route *way)
{
	struct udphdr *udp = skb_push(skb, sizeof(*udp));

	skb_reset_transport_header(skb);
	udp->source = htons(SLBN_PORT);
	udp->dest = htons(SLBN_PORT);
	udp->len = htons(skb->len);
	udp->check = 0;
	if (control->place.v6)
		slbn_push_v6(skb, way);
	else
		slbn_push_v4(skb, way);
}

/* The room that an answer needs before its data. */
static u32 slbn_headroom(const struct dst_entry *dst)
{
	return LL_RESERVED_SPACE(dst->dev) + dst->header_len +
	       sizeof(struct ipv6hdr) + sizeof(struct udphdr);
}

/* Build the datagram of an answer; consumes @dst. */
static struct sk_buff *slbn_build(const struct slbn_control *control,
				  const struct slbn_reply_route *way,
				  struct dst_entry *dst)
{
	u32 length = control->layout.length;
	u32 room = slbn_headroom(dst);
	struct sk_buff *skb;

	skb = alloc_skb(room + length, GFP_ATOMIC);
	if (!skb) {
		dst_release(dst);
		return NULL;
	}
	skb_reserve(skb, room);
	skb_dst_set(skb, dst);
	skb->mark = way->mark;
	skb_put_data(skb, control->data, length);
	slbn_push(skb, control, way);
	return skb;
}

/*
 * Reset a received packet to the state of a newly allocated one, except its
 * data.
 */
static void slbn_scrub(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	__vlan_hwaccel_clear_tag(skb);
	skb_set_queue_mapping(skb, 0);
	skb_init_secmark(skb);
	skb_reset_redirect(skb);
	nf_skip_egress(skb, false);
	memset(skb->cb, 0, sizeof(skb->cb));
	skb->dev = NULL;
	skb->tstamp = 0;
	skb->priority = 0;
	skb->encapsulation = 0;
	skb->ip_summed = CHECKSUM_NONE;
	skb->csum_valid = 0;
}

/*
 * All answers from one router to another are one flow. Its hash is set here, so
 * that devices which choose a TX queue by it need not dissect the packet.
 */
static void slbn_set_hash(struct sk_buff *skb, const struct slbn_skb_pos *place,
			  const struct slbn_reply_route *way)
{
	u32 length = 2 * slbn_address_length(place);
	static u32 seed __read_mostly;

	net_get_random_once(&seed, sizeof(seed));
	__skb_set_sw_hash(skb, jhash(way->addresses, length, seed), true);
}

/*
 * Make the datagram of an answer from the packet received, whose data it has, so
 * that nothing is allocated or copied. Consumes @dst. Returns false without
 * memory; @skb can then only be freed.
 */
static bool slbn_turn(struct sk_buff *skb, const struct slbn_control *control,
		      const struct slbn_reply_route *way, struct dst_entry *dst)
{
	u32 start = control->place.udp + sizeof(struct udphdr);

	slbn_scrub(skb);
	skb_dst_set(skb, dst);
	skb->mark = way->mark;
	if (pskb_trim(skb, start + control->layout.length))
		return false;
	__skb_pull(skb, start);
	if (skb_cow_head(skb, slbn_headroom(dst)))
		return false;
	slbn_push(skb, control, way);
	slbn_set_hash(skb, &control->place, way);
	return true;
}

static struct dst_entry *slbn_route(const struct slbn_link *link,
				    const struct slbn_control *control,
				    const struct slbn_reply_route *way)
{
	return control->place.v6 ? slbn_route_v6(link, way) :
				   slbn_route_v4(link, way);
}

/* Set both addresses to that of this router that its link has written last. */
static void slbn_set_own(const struct slbn_control *control, u8 *addresses)
{
	u32 length = slbn_address_length(&control->place);
	const u8 *own;

	slbn_get_return(control->data, &control->layout, control->pkt.hop,
			&own);
	memcpy(addresses, own, length);
	memcpy(addresses + length, own, length);
}

/**
 * slbn_finish_own() - slbn_finish() for a reply of the edge
 * @link: the edge
 * @control: reply, which this router sends to itself
 *
 * Context: as slbn_finish().
 */
void slbn_finish_own(const struct slbn_link *link, struct slbn_control *control)
{
	u8 addresses[2 * sizeof(struct in6_addr)];

	slbn_set_own(control, addresses);
	slbn_finish(link, control, addresses);
}

/*
 * Receive a reply from the loopback device, or from that of a VRF. Unlike with
 * dev_loopback_xmit(), the caller learns whether the backlog is full, and packet
 * sockets see the reply. Returns false if it is dropped.
 */
static bool slbn_loop_back(struct sk_buff *answer)
{
	struct net_device *dev = skb_dst(answer)->dev;

	if (answer->protocol == htons(ETH_P_IP))
		ip_send_check(ip_hdr(answer));
	answer->dev = dev;
	dev_hard_header(answer, dev, ntohs(answer->protocol), NULL, NULL,
			answer->len);
	skb_reset_mac_header(answer);
	__skb_pull(answer, skb_network_offset(answer));
	if (netif_is_l3_master(dev)) {
		/* Others pass the hooks of the VRF twice. */
		answer->pkt_type = PACKET_LOOPBACK;
		/* IPv6 takes the device of its route, the edge, for the input. */
		if (answer->protocol == htons(ETH_P_IPV6))
			skb_dst_drop(answer);
	}
	return netif_rx(answer) == NET_RX_SUCCESS;
}

/**
 * slbn_answer_own() - send a reply of the edge to this router
 * @link: the edge
 * @skb: downstream packet; consumed if the reply is sent
 * @control: reply in the data of @skb, after slbn_finish_own()
 *
 * The device's queue may be locked: the reply is received from the loopback
 * device, without passing the rules for packets that are sent, in another
 * softirq.
 *
 * Context: bottom halves are disabled, in an RCU read-side critical section.
 * Return: SLBN_ANSWERED; or SLBN_DROP if the router has no address or memory, or
 * its backlog is full.
 */
enum slbn_action slbn_answer_own(struct slbn_link *link, struct sk_buff *skb,
				 const struct slbn_control *control)
{
	struct sk_buff *answer;
	struct dst_entry *dst;
	struct slbn_reply_route way;

	slbn_set_own(control, way.addresses);
	way.dsfield = slbn_dsfield(skb, &control->place);
	way.mark = 0;
	dst = slbn_route(link, control, &way);
	/* The address has just been removed. */
	if (IS_ERR(dst))
		return slbn_count_drop(link, skb, &link->counters.no_address);
	answer = slbn_build(control, &way, dst);
	if (!answer || !slbn_loop_back(answer)) {
		trace_slbn_control(skb, link->ifindex, link->number,
				   "no_memory");
		return SLBN_DROP;
	}
	trace_slbn_control(skb, link->ifindex, link->number, "answered");
	spin_lock(&link->lock);
	link->counters.answered++;
	spin_unlock(&link->lock);
	consume_skb(skb);
	return SLBN_ANSWERED;
}

/*
 * Whether an answer was sent to the router in its last return address, by the
 * one in the address before. The destination, where answers start, has written
 * none.
 */
static bool slbn_is_addressed(const struct sk_buff *skb,
			      const struct slbn_control *control)
{
	const u8 *addresses = slbn_addresses(skb, &control->place);
	u32 length = slbn_address_length(&control->place);
	const struct slbn_packet *pkt = &control->pkt;
	const u8 *address;

	if (pkt->hop < pkt->slots &&
	    slbn_get_return(control->data, &control->layout, pkt->hop + 1,
			    &address) &&
	    memcmp(addresses, address, length))
		return false;
	slbn_get_return(control->data, &control->layout, pkt->hop, &address);
	return !memcmp(addresses + length, address, length);
}

static bool slbn_returns_once(const struct slbn_control *control)
{
	return slbn_return_is_unique(control->data, &control->layout,
				     control->pkt.slots, control->pkt.hop);
}

/*
 * Whether a packet to this router was sent to one of its unicast addresses, from
 * which it answers: neither multicast nor broadcast, by IP or the link layer,
 * nor anycast.
 */
static bool slbn_is_to_own(const struct sk_buff *skb,
			   const struct slbn_skb_pos *place)
{
	if (skb->pkt_type != PACKET_HOST || !skb_dst(skb))
		return false;
	if (place->v6)
		return (skb_rt6_info(skb)->rt6i_flags &
			(RTF_LOCAL | RTF_ANYCAST)) == RTF_LOCAL;
	return skb_rtable(skb)->rt_type == RTN_LOCAL;
}

/*
 * Check an answer to this router: NULL, or the counter of why it is dropped.
 * Nothing is looked up for one that is not authentic.
 */
static u64 *slbn_check_up(struct slbn_link *link, const struct sk_buff *skb,
			  struct slbn_control *control)
{
	u64 *error = slbn_check(link, skb, control);

	if (!error &&
	    !(slbn_is_to_own(skb, &control->place) &&
	      slbn_is_addressed(skb, control) && slbn_returns_once(control)))
		error = &link->counters.bad_return;
	return error;
}

/* Find how to send an answer on; returns its route as slbn_route(). */
static struct dst_entry *slbn_way_up(const struct slbn_link *link,
				     const struct sk_buff *skb,
				     const struct slbn_control *control,
				     struct slbn_reply_route *way)
{
	u32 length = slbn_address_length(&control->place);
	struct net *net = link->net;
	const u8 *next;

	slbn_get_return(control->data, &control->layout, control->pkt.hop - 1,
			&next);
	memcpy(way->addresses, slbn_addresses(skb, &control->place) + length,
	       length);
	memcpy(way->addresses + length, next, length);
	way->dsfield = slbn_dsfield(skb, &control->place);
	way->mark = control->place.v6 ? IP6_REPLY_MARK(net, skb->mark) :
					IP4_REPLY_MARK(net, skb->mark);
	return slbn_route(link, control, way);
}

/* Process an answer to this router and send it on; returns the hook's verdict. */
static unsigned int slbn_answer(struct slbn_link *link, struct sk_buff *skb,
				struct slbn_control *control)
{
	u64 *error = slbn_check_up(link, skb, control);
	struct net *net = link->net;
	struct dst_entry *dst;
	struct slbn_reply_route way;
	bool processed;

	if (error) {
		slbn_count_drop(link, skb, error);
		return NF_DROP;
	}
	dst = slbn_way_up(link, skb, control, &way);
	if (IS_ERR(dst)) {
		slbn_count_drop(link, skb, &link->counters.bad_return);
		return NF_DROP;
	}
	spin_lock(&link->lock);
	processed = slbn_process(link, control, ktime_get_ns());
	spin_unlock(&link->lock);
	if (!processed) {
		trace_slbn_control(skb, link->ifindex, link->number, "refused");
		dst_release(dst);
		return NF_DROP;
	}
	slbn_finish(link, control, way.addresses);
	if (!slbn_turn(skb, control, &way, dst)) {
		trace_slbn_control(skb, link->ifindex, link->number,
				   "no_memory");
		return NF_DROP;
	}
	trace_slbn_control(skb, link->ifindex, link->number, "returned");
	if (control->place.v6)
		ip6_local_out(net, NULL, skb);
	else
		ip_local_out(net, NULL, skb);
	return NF_STOLEN;
}

static unsigned int slbn_local_in_slow(struct sk_buff *skb,
				       const struct nf_hook_state *state);

/* Receive merged packets one by one; those not for a link, past later hooks. */
static unsigned int slbn_local_in_merged(struct sk_buff *skb,
					 const struct nf_hook_state *state)
{
	int header = -skb_mac_offset(skb);
	struct sk_buff *list, *next;

	skb_push(skb, header);
	list = slbn_split(skb);
	if (!list)
		return NF_DROP;
	skb_list_walk_safe(list, skb, next) {
		unsigned int verdict;

		skb_mark_not_on_list(skb);
		skb_pull(skb, header);
		verdict = slbn_local_in_slow(skb, state);
		if (verdict == NF_ACCEPT)
			state->okfn(state->net, state->sk, skb);
		else if (verdict == NF_DROP)
			kfree_skb_reason(skb, SKB_DROP_REASON_NETFILTER_DROP);
	}
	return NF_STOLEN;
}

static noinline_for_stack unsigned int
slbn_local_in_slow(struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct slbn_control control;
	struct slbn_link *link;
	const u8 *address;
	u16 number;

	if (!slbn_find(skb, &control.place))
		return NF_ACCEPT;
	if (slbn_drop_from_host(skb, state))
		return NF_DROP;
	if (control.place.merged)
		return slbn_local_in_merged(skb, state);
	if (slbn_control_parse(skb, &control) != SLBN_PARSE_OK)
		return NF_ACCEPT;
	if (!slbn_is_upstream(&control.pkt) || !control.pkt.hop)
		return NF_ACCEPT;
	number = slbn_get_return(control.data, &control.layout, control.pkt.hop,
				 &address);
	link = slbn_link_find_number(state->net, number);
	if (!link) {
		trace_slbn_control(skb, state->in->ifindex, 0, "unknown_link");
		return NF_DROP;
	}
	return slbn_answer(link, skb, &control);
}

static unsigned int slbn_local_in(void *priv, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	unsigned int verdict;

	if (likely(slbn_is_data(skb, true)))
		return NF_ACCEPT;
	/* Behind a rule that queues, nf_reinject() calls with them enabled. */
	local_bh_disable();
	verdict = slbn_local_in_slow(skb, state);
	local_bh_enable();
	return verdict;
}

/* Behind the user's rules. */
const struct nf_hook_ops slbn_local_hooks[SLBN_LOCAL_HOOKS] = {
	{
		.hook = slbn_local_in,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP_PRI_CONNTRACK_HELPER,
	},
	{
		.hook = slbn_local_in,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP6_PRI_CONNTRACK_HELPER,
	},
	{
		.hook = slbn_local_out,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_LOCAL_OUT,
		.priority = NF_IP_PRI_LAST,
	},
	{
		.hook = slbn_local_out,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_LOCAL_OUT,
		.priority = NF_IP6_PRI_LAST,
	},
};
