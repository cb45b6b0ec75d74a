// SPDX-License-Identifier: GPL-2.0
/*
 * Find control packets, and ICMP errors about them, in skbs.
 *
 * Most data packets do not come here: slbn_is_data() passes them.
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "slbn.h"

/* More tags are not searched. */
#define SLBN_TAGS_MAX 8

/*
 * Find the IP header behind VLAN tags; returns the protocol: that of a tag if there
 * are too many.
 */
static __be16 slbn_find_ip(const struct sk_buff *skb, u32 *at)
{
	__be16 protocol = skb->protocol;
	int start = skb_network_offset(skb);
	int tags;

	/* The network header may be at the first VLAN tag or behind the last. */
	if (eth_type_vlan(protocol))
		start = skb_mac_header(skb) + ETH_HLEN - skb->data;
	if (start < 0)
		return 0;
	*at = start;
	for (tags = 0; eth_type_vlan(protocol); tags++) {
		struct vlan_hdr buffer;
		const struct vlan_hdr *tag;

		tag = skb_header_pointer(skb, *at, sizeof(buffer), &buffer);
		if (!tag)
			return 0;
		if (tags == SLBN_TAGS_MAX)
			break;
		protocol = tag->h_vlan_encapsulated_proto;
		*at += VLAN_HLEN;
	}
	return protocol;
}

/* Find the header of a transport protocol behind the IPv4 header at @at. */
static bool slbn_find_v4(const struct sk_buff *skb, u32 at, u8 protocol,
			 struct slbn_skb_pos *place)
{
	struct iphdr buffer;
	const struct iphdr *ip;

	ip = skb_header_pointer(skb, at, sizeof(buffer), &buffer);
	if (!ip || ip->protocol != protocol || ip->version != 4 || ip->ihl < 5)
		return false;
	/* Later fragments have no ports. */
	if (ip->frag_off & htons(IP_OFFSET))
		return false;
	place->partial = ip->frag_off & htons(IP_MF);
	place->ip = at;
	place->udp = at + ip->ihl * 4;
	place->end = at + ntohs(ip->tot_len);
	place->v6 = false;
	place->routed = false;
	return true;
}

/*
 * Does a first fragment end within its headers, before those of the transport
 * protocol at @transport? Linux receives such packets (RFC 7112 forbids them), and
 * what follows the fragment in the frame may look like the missing headers.
 */
static bool slbn_is_cut(__be16 frag_off, int transport, u32 end)
{
	return (frag_off & htons(IP6_OFFSET | IP6_MF)) == htons(IP6_MF) &&
	       (transport < 0 || (u32)transport > end);
}

static bool slbn_find_v6(const struct sk_buff *skb, u32 at, u8 protocol,
			 struct slbn_skb_pos *place)
{
	unsigned int routing = at;
	struct ipv6hdr buffer;
	const struct ipv6hdr *ip;
	int flags = IP6_FH_F_SKIP_RH;
	__be16 frag_off = 0;
	u8 next;
	int udp;

	ip = skb_header_pointer(skb, at, sizeof(buffer), &buffer);
	if (!ip || ip->version != 6)
		return false;
	next = ip->nexthdr;
	udp = at + sizeof(*ip);
	place->end = udp + ntohs(ip->payload_len);
	/* Linux treats this as a jumbogram, also without the option for it. */
	if (!ip->payload_len && next == NEXTHDR_HOP)
		place->end = skb->len;
	place->routed = false;
	if (next != protocol) {
		if (!ipv6_ext_hdr(next))
			return false;
		udp = ipv6_skip_exthdr(skb, udp, &next, &frag_off);
		if (slbn_is_cut(frag_off, udp, place->end)) {
			udp = place->end;
		} else if (udp < 0 || next != protocol ||
			   frag_off & htons(IP6_OFFSET)) {
			return false;
		}
		/* Routing headers without segments left are skipped. */
		place->routed = ipv6_find_hdr(skb, &routing, NEXTHDR_ROUTING,
					      NULL, &flags) >= 0;
	}
	place->partial = frag_off & htons(IP6_MF);
	place->ip = at;
	place->udp = udp;
	place->v6 = true;
	return true;
}

/* Whether a packet has too many VLAN tags to be searched. */
static bool slbn_has_many_tags(const struct sk_buff *skb)
{
	u32 ip;

	return eth_type_vlan(skb->protocol) &&
	       eth_type_vlan(slbn_find_ip(skb, &ip));
}

/*
 * Find the header of the transport protocol @v4, or with IPv6 @v6; of a first
 * fragment that is cut, the end.
 */
static bool slbn_find_transport(const struct sk_buff *skb, u8 v4, u8 v6,
				struct slbn_skb_pos *place)
{
	__be16 protocol;
	u32 ip;

	protocol = slbn_find_ip(skb, &ip);
	if (protocol == htons(ETH_P_IP))
		return slbn_find_v4(skb, ip, v4, place);
	if (protocol == htons(ETH_P_IPV6))
		return slbn_find_v6(skb, ip, v6, place);
	return false;
}

/* Does the UDP header have the ports of control packets? */
static bool slbn_has_ports(const struct sk_buff *skb,
			   struct slbn_skb_pos *place)
{
	struct udphdr buffer;
	const struct udphdr *udp;

	udp = skb_header_pointer(skb, place->udp, sizeof(buffer), &buffer);
	if (!udp || udp->dest != htons(SLBN_PORT) ||
	    udp->source != htons(SLBN_PORT))
		return false;
	place->length = ntohs(udp->len) - sizeof(*udp);
	return true;
}

/*
 * Does the payload of UDP begin with the magic of control packets? Or that of
 * another of several packets that are merged: the sender of merged packets
 * chooses the first one, and the lengths in its headers. Packets shorter than
 * the header of a control packet are none.
 */
static bool slbn_has_magic(const struct sk_buff *skb,
			   const struct slbn_skb_pos *place)
{
	u32 step = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : 0;
	u32 at = place->udp + sizeof(struct udphdr);
	/* Padding may follow the IP packet. */
	u32 end = step ? skb->len : place->end;
	bool found = false;
	__be32 magic;

	for (; at + sizeof(magic) <= end; at += step) {
		found = !skb_copy_bits(skb, at, &magic, sizeof(magic));
		if (found && magic == htonl(SLBN_MAGIC))
			return true;
		if (step < SLBN_HEADER_LENGTH)
			break;
	}
	/* Treat a fragment too short for the magic as control, to drop it. */
	return !found && place->partial;
}

/**
 * slbn_find() - find a control packet by its ports and magic
 * @skb: packet, unchanged on return
 * @place: set to the position of the control packet; of the first one of several
 *	that are merged, of which only another one may be a control packet
 *
 * Return: whether there is one.
 */
bool slbn_find(const struct sk_buff *skb, struct slbn_skb_pos *place)
{
	if (!slbn_find_transport(skb, IPPROTO_UDP, IPPROTO_UDP, place) ||
	    !slbn_has_ports(skb, place))
		return false;
	place->merged = skb_is_gso(skb);
	return slbn_has_magic(skb, place);
}

/**
 * slbn_find_magic() - find a UDP datagram that NAT may make a control packet
 * @skb: packet, unchanged on return
 *
 * Return: whether it is one, that is, has the magic, or may have it behind more tags
 * than are searched: routers remove any number of tags without a VLAN (802.1p).
 */
bool slbn_find_magic(const struct sk_buff *skb)
{
	struct slbn_skb_pos place;

	if (slbn_find_transport(skb, IPPROTO_UDP, IPPROTO_UDP, &place))
		return slbn_has_magic(skb, &place);
	return slbn_has_many_tags(skb);
}

/* Whether a type of ICMP, or of ICMPv6, is an error, which quotes a packet. */
static bool slbn_is_error(u8 type, bool v6)
{
	if (v6)
		return !(type & ICMPV6_INFOMSG_MASK);
	switch (type) {
	case ICMP_DEST_UNREACH:
	case ICMP_SOURCE_QUENCH:
	case ICMP_REDIRECT:
	case ICMP_TIME_EXCEEDED:
	case ICMP_PARAMETERPROB:
		return true;
	default:
		return false;
	}
}

/**
 * slbn_find_error() - find an ICMP error about a control packet
 * @skb: packet, unchanged on return
 *
 * The error need not quote more than the ports of the packet.
 *
 * Return: whether the packet is one.
 */
bool slbn_find_error(const struct sk_buff *skb)
{
	struct slbn_skb_pos place;
	const u8 *type;
	u8 buffer;
	u32 ip;

	if (!slbn_find_transport(skb, IPPROTO_ICMP, IPPROTO_ICMPV6, &place))
		return false;
	type = skb_header_pointer(skb, place.udp, sizeof(buffer), &buffer);
	if (!type || !slbn_is_error(*type, place.v6))
		return false;
	ip = place.udp + sizeof(struct icmphdr);
	if (place.v6 ? !slbn_find_v6(skb, ip, IPPROTO_UDP, &place) :
		       !slbn_find_v4(skb, ip, IPPROTO_UDP, &place))
		return false;
	return slbn_has_ports(skb, &place);
}

/**
 * slbn_split() - split merged control packets
 * @skb: packet with slbn_skb_pos.merged, data at the link-layer header;
 *	consumed unless it cannot be split
 *
 * Routers merge packets if rx-udp-gro-forwarding or rx-gro-list is on.
 *
 * Return: a list of the packets, data at the link-layer header, or NULL.
 */
struct sk_buff *slbn_split(struct sk_buff *skb)
{
	struct sk_buff *list = skb_gso_segment(skb, 0);

	if (IS_ERR_OR_NULL(list))
		return NULL;
	consume_skb(skb);
	return list;
}
