// SPDX-License-Identifier: GPL-2.0
/*
 * Control packets of SLBN as they pass: found, checked, taken to the link's
 * task, written back.
 *
 * A control packet is known by its ports and its magic. Nothing else in it is
 * trusted: its lengths are compared with what is there, the parser of
 * slbn_wire.h decides whether it is one, its UDP checksum is verified unless the
 * device did, and the key, if there is one, decides whether it is authentic.
 * Whatever fails is dropped and counted before the link's state is touched. Only
 * what the link's task changed is written back, and the checksum is corrected by
 * the difference, so it stays as right or wrong as it was for all the rest.
 *
 * A link looks at what leaves through its device in either direction, since all
 * of that takes part in its control share, but takes to its task only what goes
 * down; and of what enters, only what comes up. What goes down as it enters is
 * looked at by the link that it will leave by.
 *
 * Any other packet costs a look at its headers, and is not written to.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/math64.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/sch_generic.h>

#include "slbn.h"

/* So many VLAN tags in a row are more than anybody means. */
#define SLBN_TAGS_MAX 8

/**
 * struct slbn_place - where a control packet is in an skb
 * @start: offset from skb->data of what follows the device's header
 * @ip: of the IP header, behind VLAN tags if the data has some
 * @udp: of the UDP header
 * @end: of what follows the IP packet: a frame may be padded
 * @length: octets of UDP's payload
 * @v6: it came by IPv6
 * @partial: it is the first fragment of one, or several that were merged
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

/* Find the IP header. Returns the protocol. */
static __be16 slbn_find_ip(const struct sk_buff *skb, struct slbn_place *place)
{
	__be16 protocol = skb->protocol;
	int start = skb_network_offset(skb);
	int tags;

	/* With tags, the network header may be at the first or behind the last. */
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
	/* Later fragments do not tell their ports. */
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

/* Is it one of SLBN's? Looks at headers only, and changes nothing. */
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
	/* A fragment that is too short to tell is not given the benefit. */
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

/* The packet is linear as far as it goes. */
static bool slbn_checksum_is_right(const struct sk_buff *skb,
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

/* What the authentication should be; its value in the packet is not looked at. */
static u64 slbn_authentication(const struct slbn_link *link, u8 *data,
			       const struct slbn_layout *layout)
{
	u64 given = slbn_get64(data + layout->auth);
	u64 right;

	slbn_put64(data + layout->auth, 0);
	right = siphash(data, layout->length, &link->key);
	slbn_put64(data + layout->auth, given);
	return right;
}

/* What is authentic to others could not be rewritten here, so it is not ours. */
static bool slbn_is_authentic(const struct slbn_link *link, u8 *data,
			      const struct slbn_layout *layout)
{
	if (!link->keyed)
		return !layout->auth;
	return layout->auth && slbn_get64(data + layout->auth) ==
				       slbn_authentication(link, data, layout);
}

/* The link's task, with the tag that belongs to it. */
static bool slbn_visit(struct slbn_link *link, u8 *data,
		       struct slbn_packet *pkt, u64 now)
{
	u8 hop = slbn_current_hop(pkt);
	u16 tag = hop < pkt->slots ? slbn_get_tag(data, hop) : SLBN_NO_TAG;

	if (slbn_link_process(&link->params, &link->vars, &link->stats, pkt,
			      &tag, now) != SLBN_FORWARD)
		return false;
	slbn_set_tag(data, hop, tag);
	return true;
}

/* May so many bits of control packets go out now? */
static bool slbn_take_tokens(struct slbn_link *link, u32 bits, u64 now)
{
	u64 rate = div_u64(link->params.C, 1000) * link->control;
	/* A tenth of a second's worth, but never less than some packets. */
	u64 depth = max_t(u64, div_u64(rate, 10), 64 * 1024);
	u64 past = div_u64(now - link->filled, NSEC_PER_USEC);

	link->filled += past * NSEC_PER_USEC;
	past = min_t(u64, past, USEC_PER_SEC);
	link->tokens += div_u64(past * rate, USEC_PER_SEC);
	link->tokens = min(link->tokens, depth);
	if (link->tokens < bits)
		return false;
	link->tokens -= bits;
	return true;
}

/*
 * Take a packet to the link's task and write back what it changed. With @turn,
 * it goes on as its own answer.
 */
static enum slbn_action slbn_task(struct slbn_link *link, struct sk_buff *skb,
				  const struct slbn_place *place,
				  struct slbn_packet *pkt,
				  const struct slbn_layout *layout, bool turn,
				  u64 now)
{
	struct udphdr *udp = (void *)(skb->data + place->udp);
	u8 *data = (u8 *)(udp + 1);
	__wsum before = csum_partial(data, layout->length, 0);
	enum slbn_action fate;
	__wsum sum;

	if (!slbn_visit(link, data, pkt, now))
		return SLBN_DROP;
	if (turn &&
	    (!slbn_destination_reply(pkt) || !slbn_visit(link, data, pkt, now)))
		return SLBN_DROP;
	slbn_update_packet(data, pkt);
	if (layout->auth)
		slbn_put64(data + layout->auth,
			   slbn_authentication(link, data, layout));
	slbn_link_watch_share(link);

	/*
	 * A checksum yet to be made covers what will stand here then. And one
	 * of the whole packet that the device made (CHECKSUM_COMPLETE) stays
	 * right if the UDP checksum takes up the difference.
	 */
	fate = turn ? SLBN_ANSWERED : SLBN_CONTROL;
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		return fate;
	sum = csum_sub(csum_partial(data, layout->length, 0), before);
	if (udp->check) {
		udp->check = csum_fold(csum_add(csum_unfold(~udp->check), sum));
		if (!udp->check)
			udp->check = CSUM_MANGLED_0;
	} else if (skb->ip_summed == CHECKSUM_COMPLETE) {
		skb->csum = csum_add(skb->csum, sum);
	}
	return fate;
}

static enum slbn_action slbn_count(u64 *counter)
{
	(*counter)++;
	return SLBN_DROP;
}

/* Read and check a packet, and take it to the link's task if it is its turn. */
static enum slbn_action slbn_process(struct slbn_link *link,
				     struct sk_buff *skb,
				     const struct slbn_place *place,
				     bool leaves)
{
	struct slbn_counters *counters = &link->counters;
	u32 end = place->udp + sizeof(struct udphdr) + place->length;
	struct slbn_layout layout;
	struct slbn_packet pkt;
	enum slbn_parse_result flaw;
	u64 now = ktime_get_ns();
	u8 *data;
	bool up;

	if (place->partial)
		return slbn_count(&counters->fragments);
	/*
	 * Also if UDP's length is less than that of its header. What is shared
	 * with others cannot be read in one piece, nor written to; nobody sends
	 * such on purpose but pktgen.
	 */
	if (end > place->end || end > skb->len || place->length > skb->len ||
	    skb_shared(skb) || skb_ensure_writable(skb, end))
		return slbn_count(&counters->malformed);
	data = skb->data + place->udp + sizeof(struct udphdr);
	flaw = slbn_parse_packet(data, place->length, &pkt, &layout);
	if (flaw == SLBN_PARSE_NOT_SLBN)
		return SLBN_DATA;
	if (flaw != SLBN_PARSE_OK)
		return slbn_count(&counters->malformed);
	up = slbn_is_upstream(&pkt);
	if (!leaves && !up)
		return SLBN_CONTROL;
	if (!slbn_checksum_is_right(skb, place))
		return slbn_count(&counters->bad_checksum);
	if (!slbn_is_authentic(link, data, &layout))
		return slbn_count(&counters->bad_key);
	if (leaves && !slbn_take_tokens(link, qdisc_pkt_len(skb) * 8, now))
		return slbn_count(&counters->rate_limited);
	if (leaves && up)
		return SLBN_CONTROL;
	return slbn_task(link, skb, place, &pkt, &layout, leaves && link->edge,
			 now);
}

/*
 * Send a packet back as if the host behind this device had answered: it comes in
 * where it was to go out, from whom it was sent to, also for a bridge. Filters
 * and our own hook do not look at it, which would take it for a host's.
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
 * slbn_egress() - a packet is about to leave through a link's device
 * @link: the link
 * @skb: the packet; data points to the link header; rewritten if it is ours
 *
 * Called with bottom halves disabled.
 *
 * Return: what it is, or was.
 */
enum slbn_action slbn_egress(struct slbn_link *link, struct sk_buff *skb)
{
	struct slbn_place place;
	enum slbn_action fate;
	bool turned;

	if (likely(!slbn_find(skb, &place)))
		return SLBN_DATA;
	spin_lock(&link->lock);
	fate = slbn_process(link, skb, &place, true);
	turned = fate == SLBN_ANSWERED;
	link->counters.answered += turned;
	spin_unlock(&link->lock);
	if (turned)
		slbn_send_back(skb, link->dev, &place);
	return fate;
}

/**
 * slbn_ingress() - a packet has come in through a link's device
 * @link: the link
 * @skb: the packet; data points to the network header; rewritten if it is ours
 *
 * Called with bottom halves disabled.
 *
 * Return: what it is, or was.
 */
enum slbn_action slbn_ingress(struct slbn_link *link, struct sk_buff *skb)
{
	struct slbn_place place;
	enum slbn_action fate;

	if (likely(!slbn_find(skb, &place)))
		return SLBN_DATA;
	spin_lock(&link->lock);
	if (link->edge)
		fate = slbn_count(&link->counters.from_hosts);
	else
		fate = slbn_process(link, skb, &place, false);
	spin_unlock(&link->lock);
	return fate;
}
