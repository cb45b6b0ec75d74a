// SPDX-License-Identifier: GPL-2.0
/*
 * Check control packets, process them at a link, and authenticate them.
 *
 * Nothing in a packet is trusted. Its lengths are compared with the skb,
 * slbn_parse_packet() checks the format, the UDP checksum is verified unless the
 * device has done so, and with keys the packet's authentication is checked. A
 * packet that fails cannot change the link's state.
 *
 * Only slbn_process() runs under the link's lock. What allocates, copies, checks
 * or signs runs before or after it; lockdep checks that.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/lockdep.h>
#include <linux/siphash.h>
#include <linux/timekeeping.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/ip6_checksum.h>

#include "slbn.h"

/**
 * slbn_control_parse() - parse a control packet
 * @skb: packet; made linear and writable up to the end of the control packet
 * @control: its place; on success its other fields are set, but not @key
 *
 * Return: SLBN_PARSE_OK, or the first error found.
 */
enum slbn_parse_result slbn_control_parse(struct sk_buff *skb,
					  struct slbn_control *control)
{
	const struct slbn_skb_pos *place = &control->place;
	u32 end = place->udp + sizeof(struct udphdr) + place->length;
	enum slbn_parse_result result;

	/*
	 * place->length has wrapped if UDP's length is below that of its header.
	 * A shared skb cannot be made linear nor written. Only pktgen sends such,
	 * and tbf, as the first one of a list (rx-gro-list) that it has split.
	 */
	if (end > place->end || end > skb->len || place->length > skb->len ||
	    skb_shared(skb) || skb_ensure_writable(skb, end))
		return SLBN_PARSE_TRUNCATED;
	/*
	 * The UDP checksum and the authentication cover the final destination
	 * (RFC 8200, section 8.1), but the IPv6 header has another.
	 */
	if (place->routed)
		return SLBN_PARSE_BAD_HOPS;
	control->data = skb->data + place->udp + sizeof(struct udphdr);
	control->key = NULL;
	result = slbn_parse_packet(control->data, place->length, &control->pkt,
				   &control->layout);
	if (result == SLBN_PARSE_OK &&
	    control->layout.slot_length !=
		    (place->v6 ? SLBN_SLOT_LENGTH_V6 : SLBN_SLOT_LENGTH_V4))
		return SLBN_PARSE_BAD_HOPS;
	return result;
}

/**
 * slbn_addresses() - source and destination address of a control packet
 * @skb: packet
 * @place: its place
 *
 * Return: both addresses, 4 octets each with IPv4, otherwise 16.
 */
u8 *slbn_addresses(const struct sk_buff *skb, const struct slbn_skb_pos *place)
{
	return skb->data + place->ip +
	       (place->v6 ? offsetof(struct ipv6hdr, saddr) :
			    offsetof(struct iphdr, saddr));
}

static __sum16 slbn_pseudo_header(const struct sk_buff *skb,
				  const struct slbn_skb_pos *place, __wsum csum)
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

static bool slbn_checksum_is_valid(const struct sk_buff *skb,
				   const struct slbn_skb_pos *place)
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

static struct slbn_carrier slbn_carrier(const u8 *addresses, bool v6)
{
	const struct slbn_carrier carrier = {
		.addresses = addresses,
		.length = 2 * (v6 ? sizeof(struct in6_addr) : sizeof(__be32)),
		.time = (u32)ktime_get_real_seconds(),
	};

	return carrier;
}

/**
 * slbn_check() - check that a packet is intact and authentic
 * @link: link
 * @skb: packet
 * @control: as set by slbn_control_parse(); its key is set
 *
 * Context: in an RCU read-side critical section, in which the key is valid; the
 * link's lock is not held.
 * Return: NULL, or the counter of why the packet must be dropped.
 */
u64 *slbn_check(struct slbn_link *link, const struct sk_buff *skb,
		struct slbn_control *control)
{
	const struct slbn_skb_pos *place = &control->place;
	struct slbn_counters *counters = &link->counters;
	const struct slbn_key_set *key_set;
	struct slbn_carrier carrier;

	lockdep_assert_not_held(&link->lock);
	if (place->partial || place->merged)
		return &counters->fragments;
	if (!slbn_checksum_is_valid(skb, place))
		return &counters->bad_checksum;
	carrier = slbn_carrier(slbn_addresses(skb, place), place->v6);
	key_set = rcu_dereference(link->key_set);
	switch (slbn_check_authentication(control->data, &control->layout,
					  slbn_siphash, &key_set->keys,
					  &carrier, &control->key)) {
	case SLBN_AUTH_OK:
		return NULL;
	case SLBN_AUTH_UNKNOWN_KEY:
		return &counters->unknown_key;
	case SLBN_AUTH_BAD_TIME:
		return &counters->bad_time;
	default:
		return &counters->bad_key;
	}
}

/**
 * slbn_process() - process a packet at a link
 * @link: link
 * @control: packet that slbn_check() accepted; its fields and its slot are
 *	updated, the fields not yet in its data
 * @now: ktime_get_ns()
 *
 * Context: the link's lock is held, bottom halves are disabled.
 * Return: false to drop the packet.
 */
bool slbn_process(struct slbn_link *link, struct slbn_control *control, u64 now)
{
	struct slbn_slot slot = { .tag = SLBN_NO_TAG };
	struct slbn_packet *pkt = &control->pkt;
	u8 hop = slbn_current_hop(pkt);

	lockdep_assert_held(&link->lock);
	lockdep_assert_in_softirq();
	if (hop < pkt->slots)
		slot = slbn_get_slot(control->data, &control->layout, hop);
	slbn_link_update_plan(link, now);
	if (slbn_link_process(&link->params, &link->vars, &link->stats, pkt,
			      &slot, now) != SLBN_FORWARD)
		return false;
	slbn_set_slot(control->data, &control->layout, hop, slot);
	slbn_link_check_share(link);
	return true;
}

/**
 * slbn_finish() - write the fields of a processed packet, and authenticate it
 * @link: link
 * @control: packet; not its UDP checksum
 * @addresses: with which it is sent, as in slbn_addresses()
 *
 * Context: as slbn_check(), in the same critical section.
 */
void slbn_finish(const struct slbn_link *link, struct slbn_control *control,
		 const u8 *addresses)
{
	struct slbn_carrier carrier;

	lockdep_assert_not_held(&link->lock);
	slbn_update_packet(control->data, &control->pkt);
	slbn_update_share(control->data, &control->layout, &control->pkt);
	carrier = slbn_carrier(addresses, control->place.v6);
	slbn_update_hash(control->data, &control->layout, slbn_siphash,
			 control->key, &carrier);
}
