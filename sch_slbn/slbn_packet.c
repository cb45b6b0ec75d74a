// SPDX-License-Identifier: GPL-2.0
/*
 * What a link does with the packets that its device sends.
 *
 * A link processes downstream control packets as its device sends them, and
 * writes into them where the reply must return: its number, and an address of
 * this router. Only fields that the link changes are written, and the UDP
 * checksum is updated incrementally, so that it still detects errors in all
 * other fields. Upstream packets that are sent are only checked and counted
 * against the control limit; slbn_answer.c processes them, whatever device they
 * arrive by.
 *
 * At an edge hosts do not see control packets: the link answers those sent to
 * them, and drops ICMP errors about control packets, which have their addresses.
 * slbn_edge.c drops the control packets that hosts send. slbn_user.c decides
 * which programs on this router may send some.
 */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/lockdep.h>
#include <linux/pkt_sched.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/sch_generic.h>

#include "slbn.h"
#include "slbn_control_trace.h"

/*
 * Update the UDP checksum for the changes of a sum over the packet.
 *
 * CHECKSUM_PARTIAL: the checksum is computed after the changes.
 * CHECKSUM_COMPLETE: updating the UDP checksum keeps the sum of the whole packet
 * as the device computed it.
 */
static void slbn_update_checksum(struct sk_buff *skb, struct udphdr *udp,
				 __wsum change)
{
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		return;
	if (udp->check) {
		udp->check =
			csum_fold(csum_add(csum_unfold(~udp->check), change));
		if (!udp->check)
			udp->check = CSUM_MANGLED_0;
	} else if (skb->ip_summed == CHECKSUM_COMPLETE) {
		skb->csum = csum_add(skb->csum, change);
	}
}

/* Take the tokens of a packet; the link's lock is held. */
static bool slbn_limit(struct slbn_link *link, const struct sk_buff *skb,
		       u64 now)
{
	bool below;

	lockdep_assert_held(&link->lock);
	below = slbn_bucket_take(&link->bucket, qdisc_pkt_len(skb) * 8, now);
	link->counters.rate_limited += !below;
	return below;
}

static enum slbn_action slbn_pass_up(struct slbn_link *link,
				     const struct sk_buff *skb)
{
	bool pass;
	u64 now;

	spin_lock(&link->lock);
	now = ktime_get_ns();
	pass = slbn_limit(link, skb, now);
	if (pass)
		slbn_link_count_control(link, qdisc_pkt_len(skb) * 8, now);
	spin_unlock(&link->lock);
	trace_slbn_control(skb, link->ifindex, link->number,
			   pass ? "passed" : "rate_limited");
	return pass ? SLBN_PASS_CONTROL : SLBN_DROP;
}

/*
 * Process a downstream packet. At an edge, turn it into its reply, as the
 * destination would, which is sent to this router.
 */
static enum slbn_action slbn_process_down(struct slbn_link *link,
					  struct sk_buff *skb,
					  struct slbn_control *control)
{
	struct udphdr *udp = (void *)(skb->data + control->place.udp);
	const struct slbn_layout *layout = &control->layout;
	struct slbn_packet *pkt = &control->pkt;
	bool edge = READ_ONCE(link->edge);
	u8 own[sizeof(struct in6_addr)];
	u8 *data = control->data;
	const char *refusal = NULL;
	__wsum before, after;
	u64 now;

	before = csum_partial(data, layout->length, 0);

	spin_lock(&link->lock);
	now = ktime_get_ns();
	if (!slbn_own_address(link, control, own)) {
		link->counters.no_address++;
		refusal = "no_address";
	} else if (!slbn_limit(link, skb, now)) {
		refusal = "rate_limited";
	} else if (!slbn_process(link, control, now)) {
		/* Replayed packets, which are stale, are not to use up the limit. */
		slbn_bucket_return(&link->bucket, qdisc_pkt_len(skb) * 8);
		refusal = "refused";
	} else if (!edge) {
		slbn_link_count_control(link, qdisc_pkt_len(skb) * 8, now);
	}
	spin_unlock(&link->lock);
	if (refusal) {
		trace_slbn_control(skb, link->ifindex, link->number, refusal);
		return SLBN_DROP;
	}

	slbn_set_return(data, layout, pkt->hop, link->number, own);
	slbn_trace(link, skb, control, pkt->hop - 1);
	if (edge) {
		slbn_destination_reply(pkt);
		slbn_wire_clear_slots(data, layout, pkt);
		slbn_finish_own(link, control);
		return slbn_answer_own(link, skb, control);
	}
	slbn_finish(link, control, slbn_addresses(skb, &control->place));
	after = csum_partial(data, layout->length, 0);
	slbn_update_checksum(skb, udp, csum_sub(after, before));
	trace_slbn_control(skb, link->ifindex, link->number, "processed");
	return SLBN_PASS_CONTROL;
}

/* Parse and check a packet that is sent, and process it if it is downstream. */
static enum slbn_action slbn_handle(struct slbn_link *link, struct sk_buff *skb,
				    struct slbn_control *control)
{
	struct slbn_counters *counters = &link->counters;
	u64 *error;

	if (control->place.partial || control->place.merged)
		return slbn_count_drop(link, skb, &counters->fragments);
	switch (slbn_control_parse(skb, control)) {
	case SLBN_PARSE_OK:
		break;
	case SLBN_PARSE_NOT_SLBN:
		return SLBN_PASS_DATA;
	case SLBN_PARSE_BAD_VERSION:
		return slbn_count_drop(link, skb, &counters->other_version);
	default:
		return slbn_count_drop(link, skb, &counters->malformed);
	}
	error = slbn_check(link, skb, control);
	if (error)
		return slbn_count_drop(link, skb, error);
	if (slbn_is_upstream(&control->pkt))
		return slbn_pass_up(link, skb);
	return slbn_process_down(link, skb, control);
}

/* An edge drops ICMP errors about control packets: their sources are hosts. */
static enum slbn_action slbn_handle_data(struct slbn_link *link,
					 const struct sk_buff *skb)
{
	if (likely(!READ_ONCE(link->edge)) || !slbn_find_error(skb))
		return SLBN_PASS_DATA;
	return slbn_count_drop(link, skb, &link->counters.icmp_dropped);
}

/* Whether a program without privilege sent a control packet; it is counted. */
static bool slbn_drop_from_user(const struct slbn_link *link,
				const struct sk_buff *skb)
{
	if (slbn_may_send(skb))
		return false;
	slbn_links_count_user(link->net, skb, link->ifindex);
	return true;
}

static enum slbn_action slbn_egress_control(struct slbn_link *link,
					    struct sk_buff *skb,
					    struct slbn_control *control)
{
	enum slbn_action action;

	rcu_read_lock();
	action = slbn_handle(link, skb, control);
	rcu_read_unlock();
	if (action == SLBN_PASS_CONTROL)
		skb->priority = TC_PRIO_CONTROL;
	return action;
}

/*
 * What the fast test of data packets does not decide. These functions are not
 * inlined, so that data packets do not bear the cost of their stack frames,
 * which CONFIG_INIT_STACK_ALL_ZERO clears.
 */
static noinline_for_stack enum slbn_action
slbn_egress_slow(struct slbn_link *link, struct sk_buff *skb)
{
	struct slbn_control control;

	if (!slbn_find(skb, &control.place))
		return slbn_handle_data(link, skb);
	/* The qdisc has outlived its link. */
	if (unlikely(!link->net))
		return SLBN_DROP;
	if (slbn_drop_forwarded(link, skb) || slbn_drop_from_user(link, skb))
		return SLBN_DROP;
	return slbn_egress_control(link, skb, &control);
}

/**
 * slbn_egress() - process a packet that the device is about to send
 * @link: link
 * @skb: packet, data at the link-layer header; control packets are updated, and
 *	get the priority TC_PRIO_CONTROL, by which qdiscs send them first
 *
 * Context: bottom halves are disabled.
 * Return: what to do with the packet.
 */
enum slbn_action slbn_egress(struct slbn_link *link, struct sk_buff *skb)
{
	if (likely(slbn_is_data(skb, true)))
		return SLBN_PASS_DATA;
	return slbn_egress_slow(link, skb);
}

/* Send merged packets one by one, through the hook. */
static unsigned int slbn_egress_merged(struct sk_buff *skb)
{
	struct sk_buff *list = slbn_split(skb);
	struct sk_buff *next;

	if (!list)
		return NF_DROP;
	skb_list_walk_safe(list, skb, next) {
		skb_mark_not_on_list(skb);
		dev_queue_xmit(skb);
	}
	return NF_STOLEN;
}

static noinline_for_stack unsigned int
slbn_egress_hook_slow(struct slbn_link *link, struct sk_buff *skb)
{
	struct slbn_control control;
	enum slbn_action action;

	if (!slbn_find(skb, &control.place)) {
		action = slbn_handle_data(link, skb);
	} else {
		/* Not every packet of merged ones keeps the socket. */
		if (slbn_drop_forwarded(link, skb) ||
		    slbn_drop_from_user(link, skb))
			return NF_DROP;
		if (control.place.merged)
			return slbn_egress_merged(skb);
		action = slbn_egress_control(link, skb, &control);
	}
	switch (action) {
	case SLBN_DROP:
		return NF_DROP;
	case SLBN_ANSWERED:
		return NF_STOLEN;
	default:
		return NF_ACCEPT;
	}
}

/**
 * slbn_egress_hook() - slbn_egress() for a root qdisc
 * @priv: link
 * @skb: packet, as in slbn_egress()
 * @state: not used
 *
 * A netfilter egress hook: before the device's qdisc, and without its lock.
 *
 * Context: bottom halves are disabled.
 * Return: NF_ACCEPT, NF_DROP or NF_STOLEN.
 */
unsigned int slbn_egress_hook(void *priv, struct sk_buff *skb,
			      const struct nf_hook_state *state)
{
	if (likely(slbn_is_data(skb, true)))
		return NF_ACCEPT;
	return slbn_egress_hook_slow(priv, skb);
}
