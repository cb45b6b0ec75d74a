// SPDX-License-Identifier: GPL-2.0
/*
 * SLBN control packets in skbs: find, check, process and rewrite them.
 *
 * UDP ports and magic identify a control packet; nothing else in it is trusted.
 * Its lengths are compared with the skb, slbn_parse_packet() checks the format,
 * the UDP checksum is verified unless the device has done so, and with keys the
 * packet's authentication is checked. A packet that fails is dropped and
 * counted before it can change the link's state. Only fields that the link
 * changes are written, and the UDP checksum is updated incrementally, so that
 * it still detects errors in all other fields.
 *
 * A link processes downstream packets as its device sends them, and upstream
 * packets as its device receives them. Upstream packets that are sent are only
 * checked and counted against the control limit; downstream packets that are
 * received are processed by the link that sends them.
 *
 * For data packets the cost is a look at their headers; they are not changed.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/math64.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/siphash.h>
#include <linux/timekeeping.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/sch_generic.h>

#include "slbn.h"

/* Packets with more VLAN tags are treated as data. */
#define SLBN_TAGS_MAX 8

/**
 * struct slbn_place - position of a control packet in an skb
 * @start: offset from skb->data of the end of the link-layer header
 * @ip: offset of the IP header, behind VLAN tags in the data
 * @udp: offset of the UDP header
 * @end: offset of the end of the IP packet; padding may follow
 * @length: UDP payload, octets
 * @v6: IPv6
 * @partial: first fragment of a packet, or several merged packets (GSO)
 */
struct slbn_place {
	u32 start;
	u32 ip;
	u32 udp;
	u32 end;
	u32 length;
	bool v6;
	bool partial;
};

/* Find the IP header; returns the protocol. */
static __be16 slbn_find_ip(const struct sk_buff *skb, struct slbn_place *place)
{
	__be16 protocol = skb->protocol;
	int start = skb_network_offset(skb);
	int tags;

	/* The network header may be at the first VLAN tag or behind the last. */
	if (eth_type_vlan(protocol))
		start = skb_mac_header(skb) + ETH_HLEN - skb->data;
	if (start < 0)
		return 0;
	place->start = start;
	place->ip = start;
	for (tags = 0; eth_type_vlan(protocol); tags++) {
		struct vlan_hdr buffer;
		const struct vlan_hdr *tag;

		tag = skb_header_pointer(skb, place->ip, sizeof(buffer),
					 &buffer);
		if (!tag || tags == SLBN_TAGS_MAX)
			return 0;
		protocol = tag->h_vlan_encapsulated_proto;
		place->ip += VLAN_HLEN;
	}
	return protocol;
}

static bool slbn_find_v4(const struct sk_buff *skb, struct slbn_place *place)
{
	struct iphdr buffer;
	const struct iphdr *ip;

	ip = skb_header_pointer(skb, place->ip, sizeof(buffer), &buffer);
	if (!ip || ip->protocol != IPPROTO_UDP || ip->version != 4 ||
	    ip->ihl < 5)
		return false;
	/* Later fragments have no ports. */
	if (ip->frag_off & htons(IP_OFFSET))
		return false;
	place->partial = ip->frag_off & htons(IP_MF);
	place->udp = place->ip + ip->ihl * 4;
	place->end = place->ip + ntohs(ip->tot_len);
	place->v6 = false;
	return true;
}

static bool slbn_find_v6(const struct sk_buff *skb, struct slbn_place *place)
{
	struct ipv6hdr buffer;
	const struct ipv6hdr *ip;
	__be16 frag_off = 0;
	u8 next;
	int udp;

	ip = skb_header_pointer(skb, place->ip, sizeof(buffer), &buffer);
	if (!ip || ip->version != 6)
		return false;
	next = ip->nexthdr;
	udp = place->ip + sizeof(*ip);
	if (next != IPPROTO_UDP) {
		if (!ipv6_ext_hdr(next))
			return false;
		udp = ipv6_skip_exthdr(skb, udp, &next, &frag_off);
		if (udp < 0 || next != IPPROTO_UDP ||
		    frag_off & htons(IP6_OFFSET))
			return false;
	}
	place->partial = frag_off & htons(IP6_MF);
	place->udp = udp;
	place->end = place->ip + sizeof(*ip) + ntohs(ip->payload_len);
	place->v6 = true;
	return true;
}

/* Find a control packet by its ports and magic; does not change the skb. */
static bool slbn_find(const struct sk_buff *skb, struct slbn_place *place)
{
	struct udphdr buffer;
	const struct udphdr *udp;
	__be32 magic_buffer;
	const __be32 *magic;

	switch (slbn_find_ip(skb, place)) {
	case htons(ETH_P_IP):
		if (!slbn_find_v4(skb, place))
			return false;
		break;
	case htons(ETH_P_IPV6):
		if (!slbn_find_v6(skb, place))
			return false;
		break;
	default:
		return false;
	}
	udp = skb_header_pointer(skb, place->udp, sizeof(buffer), &buffer);
	if (!udp || udp->dest != htons(SLBN_PORT) ||
	    udp->source != htons(SLBN_PORT))
		return false;
	place->length = ntohs(udp->len) - sizeof(*udp);
	magic = skb_header_pointer(skb, place->udp + sizeof(*udp),
				   sizeof(magic_buffer), &magic_buffer);
	/* Treat a fragment too short for the magic as control, to drop it. */
	if (!magic)
		return place->partial;
	place->partial |= skb_is_gso(skb);
	return *magic == htonl(SLBN_MAGIC);
}

static __sum16 slbn_pseudo_header(const struct sk_buff *skb,
				  const struct slbn_place *place, __wsum csum)
{
	u32 length = place->length + sizeof(struct udphdr);
	const struct ipv6hdr *v6 = (void *)(skb->data + place->ip);
	const struct iphdr *v4 = (void *)(skb->data + place->ip);

	if (place->v6)
		return csum_ipv6_magic(&v6->saddr, &v6->daddr, length,
				       IPPROTO_UDP, csum);
	return csum_tcpudp_magic(v4->saddr, v4->daddr, length, IPPROTO_UDP,
				 csum);
}

/* The skb must be linear up to the end of the packet. */
static bool slbn_checksum_is_valid(const struct sk_buff *skb,
				   const struct slbn_place *place)
{
	const struct udphdr *udp = (void *)(skb->data + place->udp);
	u32 length = place->length + sizeof(*udp);

	if (skb->ip_summed == CHECKSUM_PARTIAL || skb_csum_unnecessary(skb))
		return true;
	if (!udp->check)
		return !place->v6;
	return !slbn_pseudo_header(skb, place, csum_partial(udp, length, 0));
}

static u64 slbn_siphash(const void *data, u32 length, const void *key)
{
	return siphash(data, length, key);
}

/* What the authentication covers of the IP header, and the time now. */
static struct slbn_carrier slbn_get_carrier(const struct sk_buff *skb,
					    const struct slbn_place *place)
{
	const u8 *ip = skb->data + place->ip;
	struct slbn_carrier carrier = {
		.addresses = ip + offsetof(struct iphdr, saddr),
		.length = 2 * sizeof(__be32),
		.time = (u32)ktime_get_real_seconds(),
	};

	if (place->v6) {
		carrier.addresses = ip + offsetof(struct ipv6hdr, saddr);
		carrier.length = 2 * sizeof(struct in6_addr);
	}
	return carrier;
}

/* Authenticate the reply to a packet, whose addresses are swapped later. */
static void slbn_authenticate_reply(u8 *data, const struct slbn_layout *layout,
				    const struct slbn_key *key,
				    const struct slbn_carrier *carrier)
{
	u32 half = carrier->length / 2;
	u8 swapped[2 * sizeof(struct in6_addr)];
	struct slbn_carrier reply = *carrier;

	memcpy(swapped, carrier->addresses + half, half);
	memcpy(swapped + half, carrier->addresses, half);
	reply.addresses = swapped;
	slbn_authenticate(data, layout, slbn_siphash, key, &reply);
}

/* Process a packet with the slot of its current hop; false to drop it. */
static bool slbn_process_hop(struct slbn_link *link, u8 *data,
			     const struct slbn_layout *layout,
			     struct slbn_packet *pkt, u64 now)
{
	struct slbn_slot slot = { .tag = SLBN_NO_TAG };
	u8 hop = slbn_current_hop(pkt);

	if (hop < pkt->slots)
		slot = slbn_get_slot(data, layout, hop);
	if (slbn_link_process(&link->params, &link->vars, &link->stats, pkt,
			      &slot, now) != SLBN_FORWARD)
		return false;
	slbn_set_slot(data, layout, hop, slot);
	return true;
}

/* Take @bits from the token bucket of control packets; false if too few. */
static bool slbn_take_tokens(struct slbn_link *link, u32 bits, u64 now)
{
	u64 rate = div_u64(link->params.C, 1000) * link->control;
	/* 100 ms of the rate, but at least some packets. */
	u64 depth = max_t(u64, div_u64(rate, 10), 64 * 1024);
	u64 elapsed = div_u64(now - link->filled, NSEC_PER_USEC);

	link->filled += elapsed * NSEC_PER_USEC;
	elapsed = min_t(u64, elapsed, USEC_PER_SEC);
	link->tokens += div_u64(elapsed * rate, USEC_PER_SEC);
	link->tokens = min(link->tokens, depth);
	if (link->tokens < bits)
		return false;
	link->tokens -= bits;
	return true;
}

/*
 * Process a packet, write the changed fields back and authenticate it with
 * @key. With @answer, turn it into its reply, as the destination would, and
 * process that, too.
 */
static enum slbn_action
slbn_process_packet(struct slbn_link *link, struct sk_buff *skb,
		    const struct slbn_place *place, struct slbn_packet *pkt,
		    const struct slbn_layout *layout,
		    const struct slbn_key *key,
		    const struct slbn_carrier *carrier, bool answer, u64 now)
{
	struct udphdr *udp = (void *)(skb->data + place->udp);
	u8 *data = (u8 *)(udp + 1);
	__wsum before = csum_partial(data, layout->length, 0);
	enum slbn_action action = answer ? SLBN_ANSWERED : SLBN_PASS_CONTROL;
	__wsum sum;

	if (!slbn_process_hop(link, data, layout, pkt, now))
		return SLBN_DROP;
	if (answer) {
		if (!slbn_destination_reply(pkt))
			return SLBN_DROP;
		slbn_wire_clear_slots(data, layout, pkt);
		if (!slbn_process_hop(link, data, layout, pkt, now))
			return SLBN_DROP;
	}
	slbn_update_packet(data, pkt);
	if (answer)
		slbn_authenticate_reply(data, layout, key, carrier);
	else
		slbn_authenticate(data, layout, slbn_siphash, key, carrier);
	slbn_link_check_share(link);

	/*
	 * CHECKSUM_PARTIAL: the checksum is computed after the changes.
	 * CHECKSUM_COMPLETE: updating the UDP checksum keeps the sum of the
	 * whole packet as the device computed it.
	 */
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		return action;
	sum = csum_sub(csum_partial(data, layout->length, 0), before);
	if (udp->check) {
		udp->check = csum_fold(csum_add(csum_unfold(~udp->check), sum));
		if (!udp->check)
			udp->check = CSUM_MANGLED_0;
	} else if (skb->ip_summed == CHECKSUM_COMPLETE) {
		skb->csum = csum_add(skb->csum, sum);
	}
	return action;
}

static enum slbn_action slbn_count_drop(u64 *counter)
{
	(*counter)++;
	return SLBN_DROP;
}

/* The counter of packets that are dropped for their authentication. */
static u64 *slbn_auth_counter(struct slbn_counters *counters,
			      enum slbn_auth_result result)
{
	switch (result) {
	case SLBN_AUTH_UNKNOWN_KEY:
		return &counters->unknown_key;
	case SLBN_AUTH_BAD_TIME:
		return &counters->bad_time;
	default:
		return &counters->bad_key;
	}
}

/* Parse and check a packet, and process it if this link is responsible. */
static enum slbn_action slbn_handle(struct slbn_link *link, struct sk_buff *skb,
				    const struct slbn_place *place, bool egress)
{
	struct slbn_counters *counters = &link->counters;
	u32 end = place->udp + sizeof(struct udphdr) + place->length;
	enum slbn_parse_result result;
	const struct slbn_key *key;
	struct slbn_carrier carrier;
	enum slbn_auth_result auth;
	struct slbn_layout layout;
	struct slbn_packet pkt;
	u64 now = ktime_get_ns();
	bool upstream;
	u8 *data;

	if (place->partial)
		return slbn_count_drop(&counters->fragments);
	/*
	 * place->length has wrapped if UDP's length is below that of its header.
	 * A shared skb cannot be made linear nor written; only pktgen sends such.
	 */
	if (end > place->end || end > skb->len || place->length > skb->len ||
	    skb_shared(skb) || skb_ensure_writable(skb, end))
		return slbn_count_drop(&counters->malformed);
	data = skb->data + place->udp + sizeof(struct udphdr);
	result = slbn_parse_packet(data, place->length, &pkt, &layout);
	if (result == SLBN_PARSE_NOT_SLBN)
		return SLBN_PASS_DATA;
	if (result == SLBN_PARSE_BAD_VERSION)
		return slbn_count_drop(&counters->other_version);
	if (result != SLBN_PARSE_OK)
		return slbn_count_drop(&counters->malformed);
	upstream = slbn_is_upstream(&pkt);
	if (!egress && !upstream)
		return SLBN_PASS_CONTROL;
	if (!slbn_checksum_is_valid(skb, place))
		return slbn_count_drop(&counters->bad_checksum);
	carrier = slbn_get_carrier(skb, place);
	auth = slbn_check_authentication(data, &layout, slbn_siphash,
					 &link->keys, &carrier, &key);
	if (auth != SLBN_AUTH_OK)
		return slbn_count_drop(slbn_auth_counter(counters, auth));
	if (egress && !slbn_take_tokens(link, qdisc_pkt_len(skb) * 8, now))
		return slbn_count_drop(&counters->rate_limited);
	if (egress && upstream)
		return SLBN_PASS_CONTROL;
	return slbn_process_packet(link, skb, place, &pkt, &layout, key,
				   &carrier, egress && link->edge, now);
}

/*
 * Send a packet back as if the host behind this device had answered: swap its
 * addresses and receive it from this device, also in a bridge. It bypasses tc
 * filters and slbn_ingress(), which would drop it as a host's packet.
 */
static void slbn_send_back(struct sk_buff *skb, struct net_device *dev,
			   const struct slbn_place *place)
{
	struct udphdr *udp = (void *)(skb->data + place->udp);

	swap(udp->source, udp->dest);
	if (place->v6) {
		struct ipv6hdr *ip = (void *)(skb->data + place->ip);

		swap(ip->saddr, ip->daddr);
		ip->hop_limit = IPDEFTTL;
	} else {
		struct iphdr *ip = (void *)(skb->data + place->ip);

		swap(ip->saddr, ip->daddr);
		ip->ttl = IPDEFTTL;
		ip_send_check(ip);
	}
	if (dev->type == ARPHRD_ETHER) {
		struct ethhdr *ether = eth_hdr(skb);
		u8 address[ETH_ALEN];

		ether_addr_copy(address, ether->h_dest);
		ether_addr_copy(ether->h_dest, ether->h_source);
		ether_addr_copy(ether->h_source, address);
	}
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	__skb_pull(skb, place->start);
	skb->dev = dev;
	skb->tc_skip_classify = 1;
	netif_rx(skb);
}

/**
 * slbn_egress() - process a packet that the device is about to send
 * @link: link
 * @skb: packet, data at the link-layer header; control packets are updated
 *
 * Context: bottom halves are disabled.
 * Return: what to do with the packet.
 */
enum slbn_action slbn_egress(struct slbn_link *link, struct sk_buff *skb)
{
	enum slbn_action action;
	struct slbn_place place;

	if (likely(!slbn_find(skb, &place)))
		return SLBN_PASS_DATA;
	spin_lock(&link->lock);
	action = slbn_handle(link, skb, &place, true);
	link->counters.answered += action == SLBN_ANSWERED;
	spin_unlock(&link->lock);
	if (action == SLBN_ANSWERED)
		slbn_send_back(skb, link->dev, &place);
	return action;
}

/**
 * slbn_ingress() - process a packet that the device has received
 * @priv: link
 * @skb: packet, data at the network header; control packets are updated
 * @state: not used
 *
 * A netfilter ingress hook. At an edge it drops all control packets.
 *
 * Context: bottom halves are disabled.
 * Return: NF_ACCEPT or NF_DROP.
 */
unsigned int slbn_ingress(void *priv, struct sk_buff *skb,
			  const struct nf_hook_state *state)
{
	struct slbn_link *link = priv;
	enum slbn_action action;
	struct slbn_place place;

	/*
	 * Ignore packets to other hosts that a promiscuous device receives,
	 * unless a device on top of this one may be their destination: behind
	 * an rx_handler (of a bridge or macvlan) or a VLAN tag.
	 */
	if (skb->pkt_type == PACKET_OTHERHOST &&
	    !rcu_access_pointer(link->dev->rx_handler) &&
	    !skb_vlan_tag_present(skb))
		return NF_ACCEPT;
	if (likely(!slbn_find(skb, &place)))
		return NF_ACCEPT;
	spin_lock(&link->lock);
	if (link->edge)
		action = slbn_count_drop(&link->counters.from_hosts);
	else
		action = slbn_handle(link, skb, &place, false);
	spin_unlock(&link->lock);
	return action == SLBN_DROP ? NF_DROP : NF_ACCEPT;
}
