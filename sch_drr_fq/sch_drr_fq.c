// SPDX-License-Identifier: GPL-2.0
/*
 * Per-flow fair queueing as a qdisc: "drr_fq".
 *
 * drr_fq_core.h implements the algorithm; this file manages the packets. Each
 * queue is a list of packets linked by their next pointers. A packet's queue is
 * chosen by, in this order,
 *
 *	skb->priority	if it is a class of this qdisc, MAJOR:1 to MAJOR:flows;
 *	tc filters	attached to the qdisc, if they return such a class;
 *	skb->priority	if it is TC_PRIO_CONTROL and the control band has room;
 *	its hash	by the device that received it, or by the kernel's flow
 *			dissector, keyed with a secret that senders cannot
 *			know; mixed with a random number of this
 *			qdisc, so that flows that collide here do not collide
 *			again in the next such qdisc on the same machine.
 *
 * The hash is also used if filters return no class or a class that does not
 * exist. The class is stored with the packet, to find its queue again when the
 * number of queues changes.
 *
 * TC_PRIO_CONTROL marks packets of routing protocols, bonding and SLBN. Setting
 * it takes CAP_NET_RAW or CAP_NET_ADMIN; the TOS of a forwarded packet gives
 * lower priorities only (rt_tos2priority()), and veth clears them. Still the
 * band is bounded, since a container with macvlan may have these capabilities.
 *
 * With bands (drr_fq_bands_core.h), classes are bands instead of queues: MAJOR:1
 * is new, MAJOR:2 assigned, and all other packets are unassigned. Within a band,
 * a packet is hashed, by its source address if it is unassigned: that of IPv4, or
 * the first 64 bits of that of IPv6, so that neither ports nor addresses of its
 * own network give a host more.
 *
 * With "domain", a packet without a class has that of its mark (dscp.h), if it
 * arrived through an interface of the domain; other marks are cleared, so that
 * no router behind this one trusts them. A packet's own interface is known only
 * to the router that received it, and tunnels reset it: packets that leave a
 * tunnel arrive through the tunnel's interface. If the qdisc's own device is
 * not in the domain, packets leave it here: their marks choose the band, and
 * are replaced by the DSCPs that hosts had set.
 *
 * CoDel (RFC 8289), if configured, is that of the kernel, codel_impl.h, as for
 * fq_codel: each queue has its own state, and CoDel does not drop the last MTU of
 * bytes in the qdisc. It is off by default, and has no part in the control band.
 *
 * Lengths are qdisc_pkt_len(): the length on the wire, including the headers of
 * each segment of a GSO packet, or as the root's stab sets it.
 *
 * Parents are notified of every packet dropped at a limit, by these rules:
 * NET_XMIT_CN means that a packet of the same flow was dropped and the packet
 * just queued must not be counted. It must not be returned for the packet that
 * ends an idle period: parents would not be notified of the backlog.
 *
 * Functions that each packet passes are inlined twice, with and without @bands:
 * a qdisc without bands checks once for each call whether there are any.
 *
 * All functions run under the qdisc's lock. Configuration also holds RTNL, so
 * it can allocate memory before it takes that lock; it changes nothing until
 * the whole request is known to succeed. Dumps of classes may read a replaced
 * table, which is freed by RCU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/prefetch.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/siphash.h>
#include <net/codel.h>
#include <net/codel_impl.h>
#include <net/dsfield.h>
#include <net/gso.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include <fairpath/dscp.h>

#include "drr_fq_bands_core.h"

/* Class numbers have 16 bits; higher queues have no class. */
#define DRR_FQ_CLASSES_MAX 0xffffU

/* The control band, as a class of struct drr_fq_skb_cb. */
#define DRR_FQ_CLASS_BAND (~0U)

/* VLAN tags in the data that are searched; the kernel has taken one out of it. */
#define DRR_FQ_TAGS_MAX 6

/* The most late packets that one dequeue drops: it bounds the lock's time. */
#define DRR_FQ_LATE_BATCH 256U

/**
 * struct drr_fq_table - memory of the queues
 * @rcu: for its release
 * @count: number of queues
 * @flows: the queues and heaps, drr_fq_table_size() bytes
 */
struct drr_fq_table {
	struct rcu_head rcu;
	u32 count;
	struct drr_fq_flow flows[] __aligned(64);
};

/**
 * struct drr_fq_codel - configuration of CoDel
 * @on: CoDel is used
 * @ecn: mark packets instead of dropping them
 * @target: [us]
 * @interval: [us]
 * @ce_threshold: [us], 0: off
 */
struct drr_fq_codel {
	bool on;
	bool ecn;
	u32 target;
	u32 interval;
	u32 ce_threshold;
};

/**
 * struct drr_fq_bands_config - configuration of the bands
 * @on: there are bands
 * @share: minimum share of unassigned packets [1/1000]
 * @wait_max: their longest wait [us]
 * @flows: by band, number of queues
 * @marks: by band, the mark of its packets with CS0 [DSCP]; unassigned ones have none
 * @domain: whose marks are trusted: a group of interfaces,
 *	DRR_FQ_BANDS_DOMAIN_OFF or DRR_FQ_BANDS_DOMAIN_ALL
 */
struct drr_fq_bands_config {
	bool on;
	u32 share;
	u32 wait_max;
	u32 flows[DRR_FQ_BANDS];
	u32 marks[DRR_FQ_BAND_UNASSIGNED];
	u32 domain;
};

/**
 * struct drr_fq_queues - the queues of a band, or of the qdisc if it has no bands
 * @params: configuration
 * @vars: the algorithm's state; its queues are in @table
 * @table: memory of the queues, NULL if there is no such band
 * @codel_vars: CoDel's state for each queue, NULL without CoDel
 * @memory_used: with bands: memory of the queued packets [bytes]
 * @bytes: with bands: bytes sent
 * @packets: with bands: packets sent, modulo 2^32
 * @drops: with bands: packets dropped, modulo 2^32
 * @waits: with bands: waits of the packets sent
 */
struct drr_fq_queues {
	struct drr_fq_params params;
	struct drr_fq_vars vars;
	struct drr_fq_table __rcu *table;
	struct codel_vars *codel_vars;
	u32 memory_used;
	u64 bytes;
	u32 packets;
	u32 drops;
	struct drr_fq_waits waits;
};

/**
 * struct drr_fq_sched - one drr_fq qdisc
 * @params: configuration; its flows are those of a qdisc without bands
 * @queues: by band; without bands, the first has all packets
 * @bands_config: configuration of the bands
 * @bands_params: the same for drr_fq_bands_core.h
 * @bands: state of the bands
 * @host_key: key of the hash of source addresses
 * @drops_late: unassigned packets dropped because they waited too long
 * @marks_cleared: by band, marks that were not trusted
 * @stats: the algorithm's statistics
 * @band: the control band
 * @band_memory: memory of its packets [bytes]
 * @codel: configuration of CoDel
 * @codel_params: the same for codel_impl.h
 * @codel_stats: its statistics; drops since the parents were last notified
 * @memory_limit: limit of @memory_used [bytes]
 * @memory_used: memory of the queued packets [bytes]
 * @perturbation: random odd number that the hash is multiplied by
 * @split_gso: segment GSO packets before they are queued
 * @max_packet: length of the largest packet so far [bytes]
 * @drops_longest: packets dropped because a limit was exceeded
 * @drops_memory: those of @drops_longest because of @memory_limit alone
 * @drops_oversize: packets dropped because they alone exceed a limit
 * @drops_codel: packets dropped by CoDel
 * @control_hashed: control packets for which the band had no room
 * @gso_split: packets segmented
 * @filter_list: filters that choose queues
 * @block: block of @filter_list
 * @dscps: all marks
 */
struct drr_fq_sched {
	struct drr_fq_params params;
	struct drr_fq_queues queues[DRR_FQ_BANDS];
	struct drr_fq_bands_config bands_config;
	struct drr_fq_bands_params bands_params;
	struct drr_fq_bands bands;
	siphash_key_t host_key;
	u64 drops_late;
	u64 marks_cleared[DRR_FQ_BAND_UNASSIGNED];
	struct drr_fq_stats stats;
	struct drr_fq_band band;
	u32 band_memory;
	struct drr_fq_codel codel;
	struct codel_params codel_params;
	struct codel_stats codel_stats;
	u32 memory_limit;
	u32 memory_used;
	u32 perturbation;
	bool split_gso;
	u32 max_packet;
	u64 drops_longest;
	u64 drops_memory;
	u64 drops_oversize;
	u64 drops_codel;
	u64 control_hashed;
	u64 gso_split;
	struct tcf_proto __rcu *filter_list;
	struct tcf_block *block;
	struct dscp_table dscps;
};

/**
 * struct drr_fq_skb_cb - data stored with a packet
 * @class: minor number of its class, 0 to use its hash, or DRR_FQ_CLASS_BAND
 * @memory: its truesize when it was queued
 * @segments: number of its segments, to count them when it is dequeued
 * @queued: when it was queued; only with CoDel or bands
 *
 * In a long queue a packet leaves the caches. Dequeue reads only its first cache
 * line: this and its length.
 */
struct drr_fq_skb_cb {
	u32 class;
	u32 memory;
	u32 segments;
	codel_time_t queued;
};

static struct drr_fq_skb_cb *drr_fq_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct drr_fq_skb_cb));
	return (struct drr_fq_skb_cb *)qdisc_skb_cb(skb)->data;
}

/* Whether a packet arrived through an interface whose marks are trusted. */
static bool drr_fq_in_domain(struct Qdisc *sch, const struct sk_buff *skb)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	u32 domain = q->bands_config.domain;
	const struct net_device *dev;

	if (domain == DRR_FQ_BANDS_DOMAIN_ALL)
		return true;
#ifdef CONFIG_NET_REDIRECT
	/* Redirected at egress: skb_iif is the device that would send it. */
	if (skb_is_redirected(skb) && !skb->from_ingress)
		return false;
#endif
	/* 0 in packets of this host, which any of its users may have marked. */
	if (!skb->skb_iif)
		return false;
	dev = dev_get_by_index_rcu(dev_net(qdisc_dev(sch)), skb->skb_iif);
	return dev && (u32)READ_ONCE(dev->group) == domain;
}

/* Whether what the device sends stays in the domain. */
static bool drr_fq_stays_in_domain(struct Qdisc *sch)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	u32 domain = q->bands_config.domain;

	return domain == DRR_FQ_BANDS_DOMAIN_ALL ||
	       (u32)READ_ONCE(qdisc_dev(sch)->group) == domain;
}

/*
 * Find the IP header behind VLAN tags; returns the protocol, or 0 if it is behind
 * more tags than are searched. The network header of what a bridge forwards with
 * several tags is at one of these; skb->mac_len, which the kernel's helper uses, is
 * the length of the header with which a forwarded packet was received, as of GRE.
 */
static __be16 drr_fq_find_ip(const struct sk_buff *skb, int *at)
{
	__be16 protocol = skb->protocol;
	int tags;

	*at = skb_network_offset(skb);
	if (likely(!eth_type_vlan(protocol)))
		return protocol;
	*at = skb_mac_header(skb) + ETH_HLEN - skb->data;
	for (tags = 0; eth_type_vlan(protocol); tags++) {
		struct vlan_hdr buffer;
		const struct vlan_hdr *tag;

		tag = skb_header_pointer(skb, *at, sizeof(buffer), &buffer);
		if (!tag || tags == DRR_FQ_TAGS_MAX)
			return 0;
		protocol = tag->h_vlan_encapsulated_proto;
		*at += VLAN_HLEN;
	}
	return protocol;
}

/* Unlike IPv4's, the header of IPv6 has no checksum that makes up for a change. */
static void drr_fq_change_dsfield_v6(struct sk_buff *skb, int at, u8 ds)
{
	struct ipv6hdr *ip = (void *)(skb->data + at);
	__wsum before = *(__force __wsum *)ip;

	ipv6_change_dsfield(ip, INET_ECN_MASK, ds);
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		skb->csum = csum_add(csum_sub(skb->csum, before),
				     *(__force __wsum *)ip);
}

/*
 * Set @class to that of the packet's mark, if it has one that is trusted. If it
 * leaves the domain, restore the DSCP of its host. A mark that is not trusted
 * is cleared. Returns false if there is no memory for that, or if a mark may be
 * behind more tags than are searched: routers remove any number of tags without
 * a VLAN.
 */
static bool drr_fq_read_mark(struct Qdisc *sch, struct sk_buff *skb, u32 *class)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u8 buffer[2], band, ds = 0;
	const u8 *octets;
	u32 length, mark;
	__be16 protocol;
	int at;

	protocol = drr_fq_find_ip(skb, &at);
	if (protocol == htons(ETH_P_IP))
		length = sizeof(struct iphdr);
	else if (protocol == htons(ETH_P_IPV6))
		length = sizeof(struct ipv6hdr);
	else
		return protocol || !eth_type_vlan(skb->protocol) ||
		       drr_fq_in_domain(sch, skb);
	octets = skb_header_pointer(skb, at, sizeof(buffer), buffer);
	if (!octets || skb->len < at + length)
		return true;
	if (protocol == htons(ETH_P_IP))
		mark = octets[1] >> 2;
	else
		mark = (octets[0] & 0xf) << 2 | octets[1] >> 6;
	if (!dscp_is_local(mark))
		return true;
	band = q->dscps.band[mark];
	if (!drr_fq_in_domain(sch, skb)) {
		q->marks_cleared[band]++;
	} else {
		*class = band + 1;
		if (drr_fq_stays_in_domain(sch))
			return true;
		ds = q->dscps.restored[mark] << 2;
	}
	if (skb_ensure_writable(skb, at + length))
		return false;
	if (protocol == htons(ETH_P_IP))
		ipv4_change_dsfield((void *)(skb->data + at), INET_ECN_MASK,
				    ds);
	else
		drr_fq_change_dsfield_v6(skb, at, ds);
	return true;
}

/*
 * Store the packet's class, if it has one. Returns false if a filter consumed
 * or dropped the packet; @ret is then the return value of enqueue.
 */
static __always_inline bool drr_fq_classify(struct Qdisc *sch,
					    struct sk_buff *skb,
					    struct sk_buff **to_free, int *ret,
					    bool bands)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	const struct tcf_proto *filter = rcu_dereference_bh(q->filter_list);
	struct tcf_result res = {};
	u32 class = 0, marked = 0;

	/* A default qdisc has no handle, so its classes cannot be named. */
	if (sch->handle && TC_H_MAJ(skb->priority) == sch->handle)
		class = TC_H_MIN(skb->priority);
	if (class > (bands ? DRR_FQ_BANDS : q->params.flows))
		class = 0;
	if (filter && !class) {
		switch (tcf_classify_qdisc(skb, filter, &res, false)) {
		case TC_ACT_CONSUMED:
			*ret = NET_XMIT_SUCCESS | __NET_XMIT_STOLEN;
			return false;
		case TC_ACT_STOLEN:
		case TC_ACT_QUEUED:
		case TC_ACT_TRAP:
			*ret = NET_XMIT_SUCCESS | __NET_XMIT_STOLEN;
			__qdisc_drop(skb, to_free);
			return false;
		case TC_ACT_SHOT:
			*ret = NET_XMIT_SUCCESS | __NET_XMIT_BYPASS;
			qdisc_drop(skb, sch, to_free);
			return false;
		case TC_ACT_UNSPEC:
			break;
		default:
			class = TC_H_MIN(res.classid);
		}
	}
	if (!class && skb->priority == TC_PRIO_CONTROL)
		class = DRR_FQ_CLASS_BAND;
	/* Marks are cleared in any class. */
	if (bands && q->bands_config.domain &&
	    !drr_fq_read_mark(sch, skb, &marked)) {
		*ret = qdisc_drop(skb, sch, to_free);
		return false;
	}
	if (!class)
		class = marked;
	drr_fq_skb_cb(skb)->class = class;
	return true;
}

/* The band of a classified packet. */
static u32 drr_fq_band_of(struct sk_buff *skb, bool bands)
{
	return bands ? drr_fq_bands_of(drr_fq_skb_cb(skb)->class) : 0;
}

/* Hash a packet's source address; all packets without one are one host. */
static u32 drr_fq_host_of(const struct drr_fq_sched *q,
			  const struct sk_buff *skb)
{
	const struct in6_addr *v6;
	struct in6_addr buffer6;
	const __be32 *v4;
	__be32 buffer4;
	int at;

	switch (drr_fq_find_ip(skb, &at)) {
	case htons(ETH_P_IP):
		at += offsetof(struct iphdr, saddr);
		v4 = skb_header_pointer(skb, at, sizeof(buffer4), &buffer4);
		return v4 ? siphash_1u32((__force u32)*v4, &q->host_key) : 0;
	case htons(ETH_P_IPV6):
		at += offsetof(struct ipv6hdr, saddr);
		v6 = skb_header_pointer(skb, at, sizeof(buffer6), &buffer6);
		return v6 ? siphash_2u32((__force u32)v6->s6_addr32[0],
					 (__force u32)v6->s6_addr32[1],
					 &q->host_key) :
			    0;
	default:
		return 0;
	}
}

/*
 * Map a classified packet to a queue of @band, which has the parameters @p; its
 * class may have been stored when there were more queues. Sets @flow to identify
 * its flow within the queue.
 */
static __always_inline u32 drr_fq_queue_of(const struct drr_fq_sched *q,
					   u32 band,
					   const struct drr_fq_params *p,
					   struct sk_buff *skb, u32 *flow,
					   bool bands)
{
	u32 class = drr_fq_skb_cb(skb)->class;

	if (bands) {
		if (band == DRR_FQ_BAND_UNASSIGNED) {
			*flow = drr_fq_host_of(q, skb);
			return drr_fq_flow_of(p, *flow);
		}
	} else if (class && class <= p->flows) {
		*flow = class;
		return class - 1;
	}
	*flow = skb_get_hash(skb);
	return drr_fq_flow_of(p, *flow * q->perturbation);
}

static u32 drr_fq_head_length(const struct drr_fq_flow *flow)
{
	return qdisc_pkt_len(flow->head);
}

static void drr_fq_push(struct drr_fq_flow *flow, struct sk_buff *skb)
{
	skb->next = NULL;
	if (flow->head)
		((struct sk_buff *)flow->tail)->next = skb;
	else
		flow->head = skb;
	flow->tail = skb;
}

static struct sk_buff *drr_fq_pop(struct drr_fq_flow *flow)
{
	struct sk_buff *skb = flow->head;

	flow->head = skb->next;
	skb_mark_not_on_list(skb);
	return skb;
}

/*
 * Whether a packet may join the control band. It takes at most half of each
 * limit: as its packets are dropped last, it could otherwise take all of it,
 * and each packet of a flow would be dropped on its arrival.
 */
static bool drr_fq_band_admits(const struct drr_fq_sched *q,
			       const struct sk_buff *skb)
{
	const struct drr_fq_flow *queue = &q->band.queue;
	u32 length = qdisc_pkt_len(skb);

	return drr_fq_band_has_room(&q->band, length) &&
	       queue->qlen < q->params.limit / 2 &&
	       queue->backlog + length <= q->params.limit_bytes / 2 &&
	       q->band_memory + skb->truesize <= q->memory_limit / 2;
}

static bool drr_fq_append_control(struct drr_fq_sched *q, struct sk_buff *skb)
{
	if (!drr_fq_band_admits(q, skb)) {
		q->control_hashed++;
		return false;
	}
	drr_fq_push(&q->band.queue, skb);
	drr_fq_band_arrive(&q->band, qdisc_pkt_len(skb));
	q->band_memory += skb->truesize;
	return true;
}

/* The backlogged queues of all bands. */
static u32 drr_fq_active_flows(const struct drr_fq_sched *q)
{
	u32 band, active = 0;

	for (band = 0; band < DRR_FQ_BANDS; band++)
		active += q->queues[band].vars.active;
	return active;
}

/* Append a packet to a queue of its band. Returns the queue. */
static __always_inline struct drr_fq_flow *
drr_fq_append_flow(struct drr_fq_sched *q, struct sk_buff *skb, bool bands)
{
	u32 band = drr_fq_band_of(skb, bands);
	struct drr_fq_queues *u = &q->queues[band];
	u32 queue, flow;

	queue = drr_fq_queue_of(q, band, &u->params, skb, &flow, bands);
	drr_fq_push(&u->vars.flows[queue], skb);
	drr_fq_arrive(&u->params, &u->vars, &q->stats, queue, flow,
		      qdisc_pkt_len(skb));
	if (bands) {
		drr_fq_bands_arrive(&q->bands_params, &q->bands, band);
		u->memory_used += skb->truesize;
		q->stats.active_max =
			max(q->stats.active_max, drr_fq_active_flows(q));
	}
	return &u->vars.flows[queue];
}

/* Append a packet to its queue. Returns the queue. */
static __always_inline struct drr_fq_flow *
drr_fq_append(struct Qdisc *sch, struct sk_buff *skb, bool bands)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_skb_cb *cb = drr_fq_skb_cb(skb);
	struct drr_fq_flow *queue;

	/* First: reading the clock waits for what precedes it. */
	if (bands || q->codel.on)
		cb->queued = codel_get_time();
	if (unlikely(cb->class == DRR_FQ_CLASS_BAND) &&
	    drr_fq_append_control(q, skb))
		queue = &q->band.queue;
	else
		queue = drr_fq_append_flow(q, skb, bands);
	cb->memory = skb->truesize;
	cb->segments = qdisc_pkt_segs(skb);
	q->memory_used += cb->memory;
	q->max_packet = max(q->max_packet, qdisc_pkt_len(skb));
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
	return queue;
}

static bool drr_fq_over_memory(const struct drr_fq_sched *q)
{
	return q->memory_used > q->memory_limit;
}

/* With bands: a packet left the queues of a band. */
static void drr_fq_band_left(struct drr_fq_sched *q, struct drr_fq_queues *u,
			     struct sk_buff *skb)
{
	u->memory_used -= drr_fq_skb_cb(skb)->memory;
	if (!u->vars.qlen)
		drr_fq_bands_emptied(&q->bands, u - q->queues);
}

/*
 * The band to drop from: the one that uses most of the limit that is exceeded.
 */
static struct drr_fq_queues *drr_fq_largest(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 amount[DRR_FQ_BANDS];
	u32 band;

	if (likely(!q->bands_config.on))
		return q->queues;
	for (band = 0; band < DRR_FQ_BANDS; band++) {
		const struct drr_fq_queues *u = &q->queues[band];

		if (sch->q.qlen > q->params.limit)
			amount[band] = u->vars.qlen;
		else if (sch->qstats.backlog > q->params.limit_bytes)
			amount[band] = u->vars.backlog;
		else
			amount[band] = u->memory_used;
	}
	band = drr_fq_bands_largest(&q->bands_params, amount);
	return &q->queues[band == DRR_FQ_NONE ? 0 : band];
}

/* Remove a packet to drop, from the longest queue. Returns NULL if none. */
static struct sk_buff *drr_fq_pop_longest(struct Qdisc *sch,
					  struct drr_fq_flow **queue)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_queues *u = drr_fq_largest(sch);
	u32 number = drr_fq_longest(&u->vars);
	struct sk_buff *skb;

	if (number != DRR_FQ_NONE) {
		*queue = &u->vars.flows[number];
		skb = drr_fq_pop(*queue);
		drr_fq_dropped(&u->params, &u->vars, number, qdisc_pkt_len(skb),
			       drr_fq_head_length);
		/* CoDel was too slow. */
		if (u->codel_vars)
			u->codel_vars[number].count++;
		if (unlikely(q->bands_config.on)) {
			u->drops++;
			drr_fq_band_left(q, u, skb);
		}
		return skb;
	}
	if (!q->band.queue.qlen)
		return NULL;
	*queue = &q->band.queue;
	skb = drr_fq_pop(*queue);
	drr_fq_band_leave(&q->band, qdisc_pkt_len(skb));
	q->band_memory -= drr_fq_skb_cb(skb)->memory;
	return skb;
}

/*
 * Drop from the front of the longest queue until the limits hold, and from the
 * control band only if nothing else is queued. A packet that a parent has peeked
 * at counts but cannot be dropped. Returns whether a packet
 * of @queue was dropped.
 */
static bool drr_fq_shrink(struct Qdisc *sch, const struct drr_fq_flow *queue,
			  struct sk_buff **to_free)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	bool lost = false;

	for (;;) {
		bool over = drr_fq_over_limit(&q->params, sch->q.qlen,
					      sch->qstats.backlog);
		struct drr_fq_flow *longest;
		struct sk_buff *skb;

		if (!over && !drr_fq_over_memory(q))
			break;
		skb = drr_fq_pop_longest(sch, &longest);
		if (!skb)
			break;
		q->drops_memory += !over;
		q->memory_used -= drr_fq_skb_cb(skb)->memory;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_qlen_dec(sch);
		qdisc_qstats_drop(sch);
		tcf_set_qdisc_drop_reason(skb, QDISC_DROP_OVERLIMIT);
		__qdisc_drop(skb, to_free);
		q->drops_longest++;
		lost |= longest == queue;
	}
	return lost;
}

/*
 * A packet of @length bytes was queued in @queue; @idle: the qdisc was empty.
 * If a limit is exceeded, drop packets and notify the parents.
 */
static int drr_fq_make_room(struct Qdisc *sch, const struct drr_fq_flow *queue,
			    u32 length, bool idle, struct sk_buff **to_free)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	u32 qlen = sch->q.qlen;
	u32 backlog = sch->qstats.backlog;
	bool lost;

	if (likely(!drr_fq_over_limit(&q->params, qlen, backlog) &&
		   !drr_fq_over_memory(q)))
		return NET_XMIT_SUCCESS;
	lost = drr_fq_shrink(sch, queue, to_free);
	qlen -= sch->q.qlen;
	backlog -= sch->qstats.backlog;
	if (lost && !idle) {
		qdisc_tree_reduce_backlog(sch, qlen - 1, backlog - length);
		return NET_XMIT_CN;
	}
	qdisc_tree_reduce_backlog(sch, qlen, backlog);
	return NET_XMIT_SUCCESS;
}

static bool drr_fq_oversize(const struct drr_fq_sched *q,
			    const struct sk_buff *skb)
{
	return qdisc_pkt_len(skb) > q->params.limit_bytes ||
	       skb->truesize > q->memory_limit;
}

static int drr_fq_drop_oversize(struct Qdisc *sch, struct sk_buff *skb,
				struct sk_buff **to_free)
{
	struct drr_fq_sched *q = qdisc_priv(sch);

	q->drops_oversize++;
	return qdisc_drop_reason(skb, sch, to_free, QDISC_DROP_OVERLIMIT);
}

/*
 * The length on the wire of a packet of @length bytes, by tc-stab(8): as
 * __qdisc_calculate_pkt_len(), which modules cannot call.
 */
static u32 drr_fq_stab_length(const struct qdisc_size_table *stab, u32 length)
{
	const struct tc_sizespec *spec = &stab->szopts;
	s64 wire = (s64)length + spec->overhead;
	u32 slot;

	if (spec->tsize) {
		slot = max_t(s64, wire + spec->cell_align, 0) >> spec->cell_log;
		wire = (u64)stab->data[spec->tsize - 1] * (slot / spec->tsize) +
		       stab->data[slot % spec->tsize];
		wire <<= spec->size_log;
	}
	return clamp_t(s64, wire, 1, S32_MAX);
}

/* Set the length of a segment as the stack set that of the packet. */
static void drr_fq_set_segment(struct Qdisc *sch, struct sk_buff *skb)
{
	/* The stack uses the stab of the root only. */
	const struct Qdisc *root = qdisc_root_bh(sch);
	const struct qdisc_size_table *stab = rcu_dereference_bh(root->stab);

	fp_qdisc_set_segment(skb);
	if (stab)
		qdisc_skb_cb(skb)->pkt_len = drr_fq_stab_length(stab, skb->len);
}

static int drr_fq_enqueue_segments(struct Qdisc *sch, struct sk_buff *skb,
				   struct sk_buff **to_free)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 length = qdisc_pkt_len(skb);
	bool idle = !sch->q.qlen;
	struct sk_buff *segs, *next;
	const struct drr_fq_flow *queue = NULL;
	u32 count = 0;
	u32 sum = 0;

	segs = skb_gso_segment(skb,
			       netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segs))
		return qdisc_drop(skb, sch, to_free);

	skb_list_walk_safe(segs, segs, next) {
		skb_mark_not_on_list(segs);
		drr_fq_set_segment(sch, segs);
		if (drr_fq_oversize(q, segs)) {
			drr_fq_drop_oversize(sch, segs, to_free);
			continue;
		}
		sum += qdisc_pkt_len(segs);
		queue = drr_fq_append(sch, segs, q->bands_config.on);
		count++;
	}
	q->gso_split++;
	/* The first segment of an SKB_GSO_FRAGLIST packet is the packet itself. */
	consume_skb(skb);
	if (!count)
		return NET_XMIT_DROP;

	/* The parents will count one packet of @length bytes. */
	qdisc_tree_reduce_backlog(sch, 1 - count, length - sum);
	return drr_fq_make_room(sch, queue, length, idle, to_free);
}

static __always_inline int drr_fq_enqueue_to(struct Qdisc *sch,
					     struct sk_buff *skb,
					     struct sk_buff **to_free,
					     bool bands)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 length = qdisc_pkt_len(skb);
	const struct drr_fq_flow *queue;
	int ret;

	if (unlikely(!drr_fq_classify(sch, skb, to_free, &ret, bands)))
		return ret;
	if (q->split_gso && skb_is_gso(skb))
		return drr_fq_enqueue_segments(sch, skb, to_free);
	if (unlikely(drr_fq_oversize(q, skb)))
		return drr_fq_drop_oversize(sch, skb, to_free);

	queue = drr_fq_append(sch, skb, bands);
	return drr_fq_make_room(sch, queue, length, false, to_free);
}

static int drr_fq_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			  struct sk_buff **to_free)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);

	if (unlikely(q->bands_config.on))
		return drr_fq_enqueue_to(sch, skb, to_free, true);
	return drr_fq_enqueue_to(sch, skb, to_free, false);
}

/* Backlogged flows, or bands. */
static u32 drr_fq_active(const struct drr_fq_sched *q, bool bands)
{
	return bands ? q->bands.backlogged : q->queues[0].vars.active;
}

static struct sk_buff *drr_fq_dequeue_control(struct Qdisc *sch, bool bands)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = drr_fq_pop(&q->band.queue);

	qdisc_qstats_backlog_dec(sch, skb);
	drr_fq_band_sent(&q->band, drr_fq_active(q, bands), qdisc_pkt_len(skb));
	q->band_memory -= drr_fq_skb_cb(skb)->memory;
	return skb;
}

/*
 * In a long queue, the next packets have left the caches. Prefetch the oldest
 * packet of the first flow of the ActiveList, which is next if its turn goes on,
 * and that of the second flow behind it; and the flow behind that, for the next
 * call. The packet of the flow in between was prefetched before.
 */
static void drr_fq_prefetch(const struct drr_fq_queues *u)
{
	const struct drr_fq_vars *v = &u->vars;
	const struct drr_fq_flow *first, *next;

	if (v->first == DRR_FQ_NONE || u->params.scheduler == DRR_FQ_SCFQ)
		return;
	first = &v->flows[v->first];
	next = &v->flows[v->flows[first->next].next];
	prefetch(first->head);
	prefetch(next->head);
	prefetch(&v->flows[next->next]);
}

/**
 * struct drr_fq_codel_context - context of the callbacks of codel_dequeue()
 * @sch: the qdisc
 * @queues: the queues of the band that is dequeued from
 * @queue: the queue that is dequeued from
 * @network_offset: of the last packet with VLAN tags, as it was enqueued
 * @mac_len: the same
 */
struct drr_fq_codel_context {
	struct Qdisc *sch;
	struct drr_fq_queues *queues;
	u32 queue;
	int network_offset;
	u16 mac_len;
};

static codel_time_t drr_fq_codel_time(const struct sk_buff *skb)
{
	return drr_fq_skb_cb(skb)->queued;
}

/*
 * Of a packet behind VLAN tags, let INET_ECN_set_ce() find the IP header, which
 * it would mark where the network header is: see drr_fq_find_ip(). Behind more
 * tags than are searched, it is to mark nothing: with a mac_len of 0, it looks
 * for tags behind an Ethernet header.
 */
static void drr_fq_skip_tags(struct sk_buff *skb,
			     struct drr_fq_codel_context *context)
{
	int at;

	context->network_offset = skb_network_offset(skb);
	context->mac_len = skb->mac_len;
	if (drr_fq_find_ip(skb, &at)) {
		skb_set_network_header(skb, at);
		skb_reset_mac_len(skb);
	} else {
		skb_set_network_header(skb, skb_headlen(skb));
		skb->mac_len = 0;
	}
}

/* Devices such as ifb take mac_len octets for the link-layer header. */
static void drr_fq_restore_tags(struct sk_buff *skb,
				const struct drr_fq_codel_context *context)
{
	skb_set_network_header(skb, context->network_offset);
	skb->mac_len = context->mac_len;
}

/* Remove the oldest packet; CoDel reads the backlog behind it. */
static struct sk_buff *drr_fq_codel_pop(struct codel_vars *vars, void *ctx)
{
	struct drr_fq_codel_context *context = ctx;
	struct drr_fq_flow *flow = &context->queues->vars.flows[context->queue];
	struct sk_buff *skb;

	if (!flow->head)
		return NULL;
	skb = drr_fq_pop(flow);
	if (unlikely(eth_type_vlan(skb->protocol)))
		drr_fq_skip_tags(skb, context);
	qdisc_qstats_backlog_dec(context->sch, skb);
	return skb;
}

/* Drop a packet that was removed from the queue that is dequeued from. */
static void drr_fq_drop_dequeued(struct Qdisc *sch, struct drr_fq_queues *u,
				 u32 queue, struct sk_buff *skb)
{
	struct drr_fq_sched *q = qdisc_priv(sch);

	drr_fq_aqm_dropped(&u->params, &u->vars, queue, qdisc_pkt_len(skb),
			   drr_fq_head_length);
	q->memory_used -= drr_fq_skb_cb(skb)->memory;
	if (unlikely(q->bands_config.on)) {
		u->drops++;
		drr_fq_band_left(q, u, skb);
	}
	qdisc_qlen_dec(sch);
	qdisc_qstats_drop(sch);
	qdisc_dequeue_drop(sch, skb, QDISC_DROP_CONGESTED);
}

/* Drop a packet that drr_fq_codel_pop() removed. */
static void drr_fq_codel_drop(struct sk_buff *skb, void *ctx)
{
	const struct drr_fq_codel_context *context = ctx;
	struct drr_fq_sched *q = qdisc_priv(context->sch);

	q->drops_codel++;
	drr_fq_drop_dequeued(context->sch, context->queues, context->queue,
			     skb);
}

/* Returns NULL if CoDel dropped all packets of the queue. */
static struct sk_buff *drr_fq_dequeue_codel(struct Qdisc *sch,
					    struct drr_fq_queues *u, u32 queue)
{
	struct drr_fq_codel_context context = { .sch = sch,
						.queues = u,
						.queue = queue };
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct codel_stats *stats = &q->codel_stats;
	struct sk_buff *skb;

	skb = codel_dequeue(&context, &sch->qstats.backlog, &q->codel_params,
			    &u->codel_vars[queue], stats, qdisc_pkt_len,
			    drr_fq_codel_time, drr_fq_codel_drop,
			    drr_fq_codel_pop);
	/* It is the one that was removed last. */
	if (skb && unlikely(eth_type_vlan(skb->protocol)))
		drr_fq_restore_tags(skb, &context);
	/*
	 * While the packet that is sent counts, so that parents do not deactivate
	 * this qdisc in the middle of its dequeue.
	 */
	if (stats->drop_count) {
		qdisc_tree_reduce_backlog(sch, stats->drop_count,
					  stats->drop_len);
		stats->drop_count = 0;
		stats->drop_len = 0;
	}
	return skb;
}

static u32 drr_fq_band_length(void *context, u32 band)
{
	struct drr_fq_sched *q = context;
	struct drr_fq_queues *u = &q->queues[band];
	u32 queue = drr_fq_next(&u->params, &u->vars, drr_fq_head_length);

	return drr_fq_head_length(&u->vars.flows[queue]);
}

/* The queues to send from, or NULL if no band is backlogged. */
static struct drr_fq_queues *drr_fq_next_queues(struct drr_fq_sched *q,
						bool bands)
{
	u32 band;

	if (!bands)
		return q->queues;
	band = drr_fq_bands_next(&q->bands_params, &q->bands,
				 drr_fq_band_length, q);
	return band == DRR_FQ_NONE ? NULL : &q->queues[band];
}

/* How long a packet has waited [1024 ns]; with CoDel or bands. */
static u32 drr_fq_waited(const struct sk_buff *skb)
{
	BUILD_BUG_ON(CODEL_SHIFT != 10);
	return codel_get_time() - drr_fq_skb_cb(skb)->queued;
}

/*
 * With bands: whether the oldest packet of a queue waited too long. The last
 * packet of the qdisc is sent, or parents would deactivate this qdisc in the
 * middle of its dequeue.
 */
static bool drr_fq_is_late(struct Qdisc *sch, const struct drr_fq_queues *u,
			   u32 queue)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	const struct sk_buff *skb = u->vars.flows[queue].head;

	return sch->q.qlen > 1 &&
	       drr_fq_bands_late(&q->bands_params, u - q->queues,
				 (u64)drr_fq_waited(skb) << CODEL_SHIFT);
}

/* Drop the oldest packet of a queue. Returns its length. */
static u32 drr_fq_drop_late(struct Qdisc *sch, struct drr_fq_queues *u,
			    u32 queue)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = drr_fq_pop(&u->vars.flows[queue]);
	u32 length = qdisc_pkt_len(skb);

	qdisc_qstats_backlog_dec(sch, skb);
	q->drops_late++;
	drr_fq_drop_dequeued(sch, u, queue, skb);
	return length;
}

/* With bands: a packet was sent from the queues of a band. */
static void drr_fq_band_sent_from(struct drr_fq_sched *q,
				  struct drr_fq_queues *u, struct sk_buff *skb)
{
	u32 length = qdisc_pkt_len(skb), packets = drr_fq_skb_cb(skb)->segments;

	u->bytes += length;
	u->packets += packets;
	drr_fq_waits_add(&u->waits, drr_fq_waited(skb), packets);
	drr_fq_bands_sent(&q->bands, u - q->queues, length);
	drr_fq_band_left(q, u, skb);
}

static __always_inline struct sk_buff *drr_fq_dequeue_flow(struct Qdisc *sch,
							   bool bands)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 queue, length, late = 0, late_bytes = 0;
	struct sk_buff *skb = NULL;
	struct drr_fq_queues *u;

	do {
		u = drr_fq_next_queues(q, bands);
		if (!u)
			break;
		queue = drr_fq_next(&u->params, &u->vars, drr_fq_head_length);
		if (queue == DRR_FQ_NONE)
			break;
		if (bands && u == &q->queues[DRR_FQ_BAND_UNASSIGNED] &&
		    late < DRR_FQ_LATE_BATCH && drr_fq_is_late(sch, u, queue)) {
			late_bytes += drr_fq_drop_late(sch, u, queue);
			late++;
			continue;
		}
		if (u->codel_vars) {
			skb = drr_fq_dequeue_codel(sch, u, queue);
		} else {
			skb = drr_fq_pop(&u->vars.flows[queue]);
			qdisc_qstats_backlog_dec(sch, skb);
		}
	} while (!skb);
	/* As for CoDel's drops, the packet that is sent counts meanwhile. */
	if (unlikely(late))
		qdisc_tree_reduce_backlog(sch, late, late_bytes);
	if (!skb)
		return NULL;
	length = qdisc_pkt_len(skb);
	drr_fq_sent(&u->params, &u->vars, queue, length, drr_fq_head_length);
	/* A class counts segments, as the qdisc does. */
	u->vars.flows[queue].packets += drr_fq_skb_cb(skb)->segments - 1;
	if (bands)
		drr_fq_band_sent_from(q, u, skb);
	drr_fq_band_earn(&q->band, length);
	drr_fq_prefetch(u);
	return skb;
}

static __always_inline struct sk_buff *drr_fq_dequeue_from(struct Qdisc *sch,
							   bool bands)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	const struct drr_fq_skb_cb *cb;
	struct sk_buff *skb;

	if (unlikely(drr_fq_band_is_next(&q->band, drr_fq_active(q, bands),
					 drr_fq_head_length)))
		skb = drr_fq_dequeue_control(sch, bands);
	else
		skb = drr_fq_dequeue_flow(sch, bands);
	/* Packets of flows were dropped, and control packets waited for them. */
	if (unlikely(!skb) && q->band.queue.qlen)
		skb = drr_fq_dequeue_control(sch, bands);
	if (!skb)
		return NULL;

	cb = drr_fq_skb_cb(skb);
	q->memory_used -= cb->memory;
	qdisc_qlen_dec(sch);
	_bstats_update(&sch->bstats, qdisc_pkt_len(skb), cb->segments);
	return skb;
}

static struct sk_buff *drr_fq_dequeue(struct Qdisc *sch)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);

	if (unlikely(q->bands_config.on))
		return drr_fq_dequeue_from(sch, true);
	return drr_fq_dequeue_from(sch, false);
}

static void drr_fq_reset_queues(struct drr_fq_queues *u)
{
	u32 queue;

	if (!rcu_access_pointer(u->table))
		return;
	for (queue = 0; u->codel_vars && queue < u->params.flows; queue++)
		codel_vars_init(&u->codel_vars[queue]);
	while (u->vars.first != DRR_FQ_NONE) {
		u32 first = u->vars.first;
		struct drr_fq_flow *flow = &u->vars.flows[first];

		rtnl_kfree_skbs(flow->head, flow->tail);
		flow->head = NULL;
		drr_fq_emptied(&u->params, &u->vars, first);
	}
	u->memory_used = 0;
}

static void drr_fq_reset(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 band, packets;

	for (band = 0; band < DRR_FQ_BANDS; band++)
		drr_fq_reset_queues(&q->queues[band]);
	drr_fq_bands_init(&q->bands);
	if (q->band.queue.qlen)
		rtnl_kfree_skbs(q->band.queue.head, q->band.queue.tail);
	packets = q->band.queue.packets;
	drr_fq_band_init(&q->band);
	q->band.queue.packets = packets;
	q->band_memory = 0;
	q->memory_used = 0;
}

static struct netlink_range_validation drr_fq_limit_bytes_range = {
	.max = DRR_FQ_LIMIT_BYTES_MAX,
};

static struct netlink_range_validation drr_fq_flows_range = {
	.min = 1,
	.max = DRR_FQ_FLOWS_MAX,
};

static struct netlink_range_validation drr_fq_quantum_range = {
	.min = DRR_FQ_QUANTUM_MIN,
	.max = DRR_FQ_QUANTUM_MAX,
};

static struct netlink_range_validation drr_fq_memory_limit_range = {
	.min = DRR_FQ_MEMORY_LIMIT_MIN,
	.max = DRR_FQ_MEMORY_LIMIT_MAX,
};

static struct netlink_range_validation drr_fq_target_range = {
	.min = 1,
	.max = DRR_FQ_CODEL_MAX,
};

static struct netlink_range_validation drr_fq_interval_range = {
	.min = DRR_FQ_CODEL_INTERVAL_MIN,
	.max = DRR_FQ_CODEL_MAX,
};

static struct netlink_range_validation drr_fq_threshold_range = {
	.max = DRR_FQ_CODEL_MAX,
};

static struct netlink_range_validation drr_fq_share_range = {
	.min = DRR_FQ_BANDS_SHARE_MIN,
	.max = DRR_FQ_BANDS_SHARE_MAX,
};

static struct netlink_range_validation drr_fq_wait_range = {
	.min = DRR_FQ_BANDS_WAIT_MIN,
	.max = DRR_FQ_BANDS_WAIT_MAX,
};

static struct netlink_range_validation drr_fq_band_flows_range = {
	.min = 1,
	.max = DRR_FQ_FLOWS_SMALL,
};

static struct netlink_range_validation drr_fq_mark_range = {
	.max = DRR_FQ_BANDS_MARK_MAX,
};

#define DRR_FQ_STANDARD_MARK \
	"marks must be code points for local use: 3, 7, 11 and so on up to 63"
#define DRR_FQ_EQUAL_MARKS "mark_new and mark_assigned must differ"
#define DRR_FQ_NO_GROUP \
	"domain must be a group of interfaces, 1 to 2147483647, all or off"
#define DRR_FQ_NEEDS_BANDS "this parameter needs bands, which are off"
#define DRR_FQ_FLOWS_DENIED \
	"flows above 65536 need CAP_NET_ADMIN in the initial user namespace"

#define DRR_FQ_NEEDS_CODEL "this parameter needs codel, which is off"
#define DRR_FQ_LONG_TARGET "codel's target must not exceed its interval"

static const struct nla_policy drr_fq_policy[TCA_DRR_FQ_MAX + 1] = {
	[TCA_DRR_FQ_LIMIT] = NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_DRR_FQ_LIMIT_BYTES] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_limit_bytes_range),
	[TCA_DRR_FQ_FLOWS] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_flows_range),
	[TCA_DRR_FQ_QUANTUM] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_quantum_range),
	[TCA_DRR_FQ_SCHEDULER] = NLA_POLICY_MAX(NLA_U8, DRR_FQ_SCHEDULER_MAX),
	[TCA_DRR_FQ_SPLIT_GSO] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_DRR_FQ_MEMORY_LIMIT] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_memory_limit_range),
	[TCA_DRR_FQ_CODEL] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_DRR_FQ_CODEL_TARGET] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_target_range),
	[TCA_DRR_FQ_CODEL_INTERVAL] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_interval_range),
	[TCA_DRR_FQ_CODEL_ECN] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_DRR_FQ_CODEL_CE_THRESHOLD] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_threshold_range),
	[TCA_DRR_FQ_BANDS] = NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_DRR_FQ_BANDS_UNASSIGNED] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_share_range),
	[TCA_DRR_FQ_BANDS_WAIT] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_wait_range),
	[TCA_DRR_FQ_BANDS_NEW_FLOWS] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_band_flows_range),
	[TCA_DRR_FQ_BANDS_HOSTS] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_band_flows_range),
	[TCA_DRR_FQ_BANDS_MARK_NEW] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_mark_range),
	[TCA_DRR_FQ_BANDS_MARK_ASSIGNED] =
		NLA_POLICY_FULL_RANGE(NLA_U32, &drr_fq_mark_range),
	[TCA_DRR_FQ_BANDS_DOMAIN] = { .type = NLA_U32 },
};

/**
 * struct drr_fq_config - configuration requested by a message
 * @params: parameters of the algorithm
 * @bands: parameters of the bands
 * @codel: parameters of CoDel
 * @memory_limit: limit of the queued packets' memory [bytes], 0: the default
 * @split_gso: segment GSO packets before they are queued
 */
struct drr_fq_config {
	struct drr_fq_params params;
	struct drr_fq_bands_config bands;
	struct drr_fq_codel codel;
	u32 memory_limit;
	bool split_gso;
};

static const struct drr_fq_codel drr_fq_codel_off = {
	.target = DRR_FQ_CODEL_TARGET_DEFAULT,
	.interval = DRR_FQ_CODEL_INTERVAL_DEFAULT,
};

/* Without CoDel, its parameters are the defaults. */
static int drr_fq_parse_codel(struct nlattr **tb, struct drr_fq_codel *codel,
			      struct netlink_ext_ack *extack)
{
	int kind;

	if (tb[TCA_DRR_FQ_CODEL])
		codel->on = nla_get_u8(tb[TCA_DRR_FQ_CODEL]);
	if (!codel->on) {
		*codel = drr_fq_codel_off;
		for (kind = TCA_DRR_FQ_CODEL_TARGET;
		     kind <= TCA_DRR_FQ_CODEL_CE_THRESHOLD; kind++) {
			if (!tb[kind])
				continue;
			NL_SET_BAD_ATTR(extack, tb[kind]);
			NL_SET_ERR_MSG_MOD(extack, DRR_FQ_NEEDS_CODEL);
			return -EINVAL;
		}
		return 0;
	}

	if (tb[TCA_DRR_FQ_CODEL_TARGET])
		codel->target = nla_get_u32(tb[TCA_DRR_FQ_CODEL_TARGET]);
	if (tb[TCA_DRR_FQ_CODEL_INTERVAL])
		codel->interval = nla_get_u32(tb[TCA_DRR_FQ_CODEL_INTERVAL]);
	if (tb[TCA_DRR_FQ_CODEL_ECN])
		codel->ecn = nla_get_u8(tb[TCA_DRR_FQ_CODEL_ECN]);
	if (tb[TCA_DRR_FQ_CODEL_CE_THRESHOLD])
		codel->ce_threshold =
			nla_get_u32(tb[TCA_DRR_FQ_CODEL_CE_THRESHOLD]);
	if (codel->target > codel->interval) {
		NL_SET_ERR_MSG_MOD(extack, DRR_FQ_LONG_TARGET);
		return -EINVAL;
	}
	return 0;
}

static const struct drr_fq_bands_config drr_fq_bands_off = {
	.share = DRR_FQ_BANDS_SHARE_DEFAULT,
	.wait_max = DRR_FQ_BANDS_WAIT_DEFAULT,
	.marks = {
		[DRR_FQ_BAND_NEW] = DRR_FQ_BANDS_MARK_NEW_DEFAULT,
		[DRR_FQ_BAND_ASSIGNED] = DRR_FQ_BANDS_MARK_ASSIGNED_DEFAULT,
	},
	.domain = DRR_FQ_BANDS_DOMAIN_OFF,
};

/* Read marks and domain. */
static int drr_fq_parse_marks(struct nlattr **tb,
			      struct drr_fq_bands_config *bands,
			      struct netlink_ext_ack *extack)
{
	const struct nlattr *attr;
	u32 band;

	for (band = 0; band < DRR_FQ_BAND_UNASSIGNED; band++) {
		attr = tb[TCA_DRR_FQ_BANDS_MARK_NEW + band];
		if (!attr)
			continue;
		bands->marks[band] = nla_get_u32(attr);
		/* Pool 2: the others are standard, or are to become so. */
		if (!dscp_is_local(bands->marks[band])) {
			NL_SET_BAD_ATTR(extack, attr);
			NL_SET_ERR_MSG_MOD(extack, DRR_FQ_STANDARD_MARK);
			return -EINVAL;
		}
	}
	if (bands->marks[DRR_FQ_BAND_NEW] ==
	    bands->marks[DRR_FQ_BAND_ASSIGNED]) {
		NL_SET_ERR_MSG_MOD(extack, DRR_FQ_EQUAL_MARKS);
		return -EINVAL;
	}
	attr = tb[TCA_DRR_FQ_BANDS_DOMAIN];
	if (!attr)
		return 0;
	bands->domain = nla_get_u32(attr);
	if (bands->domain > DRR_FQ_BANDS_DOMAIN_GROUP_MAX &&
	    bands->domain != DRR_FQ_BANDS_DOMAIN_ALL) {
		NL_SET_BAD_ATTR(extack, attr);
		NL_SET_ERR_MSG_MOD(extack, DRR_FQ_NO_GROUP);
		return -EINVAL;
	}
	return 0;
}

/*
 * @flows: number of queues of the assigned band, and of the others if bands are
 * turned on without theirs. Without bands, their parameters are the defaults.
 */
static int drr_fq_parse_bands(struct nlattr **tb,
			      struct drr_fq_bands_config *bands, u32 flows,
			      struct netlink_ext_ack *extack)
{
	bool was_on = bands->on;
	int kind;

	if (tb[TCA_DRR_FQ_BANDS])
		bands->on = nla_get_u8(tb[TCA_DRR_FQ_BANDS]);
	if (!bands->on) {
		*bands = drr_fq_bands_off;
		for (kind = TCA_DRR_FQ_BANDS_UNASSIGNED;
		     kind <= TCA_DRR_FQ_BANDS_DOMAIN; kind++) {
			if (!tb[kind])
				continue;
			NL_SET_BAD_ATTR(extack, tb[kind]);
			NL_SET_ERR_MSG_MOD(extack, DRR_FQ_NEEDS_BANDS);
			return -EINVAL;
		}
		return 0;
	}

	if (!was_on) {
		u32 others = min_t(u32, flows, DRR_FQ_FLOWS_SMALL);

		bands->flows[DRR_FQ_BAND_NEW] = others;
		bands->flows[DRR_FQ_BAND_UNASSIGNED] = others;
	}
	bands->flows[DRR_FQ_BAND_ASSIGNED] = flows;
	if (tb[TCA_DRR_FQ_BANDS_UNASSIGNED])
		bands->share = nla_get_u32(tb[TCA_DRR_FQ_BANDS_UNASSIGNED]);
	if (tb[TCA_DRR_FQ_BANDS_WAIT])
		bands->wait_max = nla_get_u32(tb[TCA_DRR_FQ_BANDS_WAIT]);
	if (tb[TCA_DRR_FQ_BANDS_NEW_FLOWS])
		bands->flows[DRR_FQ_BAND_NEW] =
			nla_get_u32(tb[TCA_DRR_FQ_BANDS_NEW_FLOWS]);
	if (tb[TCA_DRR_FQ_BANDS_HOSTS])
		bands->flows[DRR_FQ_BAND_UNASSIGNED] =
			nla_get_u32(tb[TCA_DRR_FQ_BANDS_HOSTS]);
	return drr_fq_parse_marks(tb, bands, extack);
}

/* The number of queues, in all bands. */
static u32 drr_fq_flows_of(const struct drr_fq_config *config)
{
	u32 sum = 0, band;

	if (!config->bands.on)
		return config->params.flows;
	for (band = 0; band < DRR_FQ_BANDS; band++)
		sum += config->bands.flows[band];
	return sum;
}

/* Check the attributes of a message and store them in @config. */
static int drr_fq_parse(struct Qdisc *sch, struct nlattr *opt,
			struct drr_fq_config *config,
			struct netlink_ext_ack *extack)
{
	struct drr_fq_params *p = &config->params;
	struct nlattr *tb[TCA_DRR_FQ_MAX + 1];
	const struct nlattr *attr;
	u32 before, after;
	int err;

	err = nla_parse_nested(tb, TCA_DRR_FQ_MAX, opt, drr_fq_policy, extack);
	if (err < 0)
		return err;

	if (tb[TCA_DRR_FQ_LIMIT])
		p->limit = nla_get_u32(tb[TCA_DRR_FQ_LIMIT]);
	attr = tb[TCA_DRR_FQ_LIMIT_BYTES];
	if (attr)
		p->limit_bytes = nla_get_u32(attr);
	if (attr && p->limit_bytes < psched_mtu(qdisc_dev(sch))) {
		NL_SET_BAD_ATTR(extack, attr);
		NL_SET_ERR_MSG_MOD(extack,
				   "limit_bytes must be at least MTU + header");
		return -EINVAL;
	}
	attr = tb[TCA_DRR_FQ_FLOWS];
	if (attr)
		p->flows = nla_get_u32(attr);
	before = drr_fq_flows_of(config);
	err = drr_fq_parse_bands(tb, &config->bands, p->flows, extack);
	if (err)
		return err;
	after = drr_fq_flows_of(config);
	if ((attr || after > before) && after > DRR_FQ_FLOWS_SMALL &&
	    !capable(CAP_NET_ADMIN)) {
		NL_SET_BAD_ATTR(extack, attr);
		NL_SET_ERR_MSG_MOD(extack, DRR_FQ_FLOWS_DENIED);
		return -EPERM;
	}
	if (tb[TCA_DRR_FQ_QUANTUM])
		p->quantum = nla_get_u32(tb[TCA_DRR_FQ_QUANTUM]);
	if (tb[TCA_DRR_FQ_SCHEDULER])
		p->scheduler = nla_get_u8(tb[TCA_DRR_FQ_SCHEDULER]);
	if (tb[TCA_DRR_FQ_SPLIT_GSO])
		config->split_gso = nla_get_u8(tb[TCA_DRR_FQ_SPLIT_GSO]);
	if (tb[TCA_DRR_FQ_MEMORY_LIMIT])
		config->memory_limit = nla_get_u32(tb[TCA_DRR_FQ_MEMORY_LIMIT]);
	err = drr_fq_parse_codel(tb, &config->codel, extack);
	if (err)
		return err;
	/* Where queues are short, their turns are a large part of the delay. */
	p->new_first = config->codel.on && p->scheduler == DRR_FQ_DRR;
	return 0;
}

static codel_time_t drr_fq_codel_ticks(u32 us)
{
	return ((u64)us * NSEC_PER_USEC) >> CODEL_SHIFT;
}

static void drr_fq_set_codel(struct Qdisc *sch,
			     const struct drr_fq_codel *codel)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct codel_params *params = &q->codel_params;

	q->codel = *codel;
	codel_params_init(params);
	params->target = drr_fq_codel_ticks(codel->target);
	params->interval = drr_fq_codel_ticks(codel->interval);
	params->ecn = codel->ecn;
	params->mtu = psched_mtu(qdisc_dev(sch));
	if (codel->ce_threshold)
		params->ce_threshold = drr_fq_codel_ticks(codel->ce_threshold);
}

/* Times were not stored until now: the packets that are queued arrive now. */
static void drr_fq_start_clock(struct drr_fq_queues *u)
{
	const struct drr_fq_vars *v = &u->vars;
	codel_time_t now = codel_get_time();
	u32 queue = v->first, n;

	for (n = 0; n < v->active; n++) {
		struct sk_buff *skb = v->flows[queue].head;

		for (; skb; skb = skb->next)
			drr_fq_skb_cb(skb)->queued = now;
		queue = v->flows[queue].next;
	}
}

/* Bands need memory of their own, and a scheduler may need more. */
static bool drr_fq_needs_tables(const struct drr_fq_sched *q,
				const struct drr_fq_config *config)
{
	u32 band;

	if (!rcu_access_pointer(q->queues[0].table) ||
	    config->bands.on != q->bands_config.on ||
	    config->params.scheduler != q->params.scheduler)
		return true;
	if (!config->bands.on)
		return config->params.flows != q->params.flows;
	for (band = 0; band < DRR_FQ_BANDS; band++)
		if (config->bands.flows[band] != q->bands_config.flows[band])
			return true;
	return false;
}

/* The parameters of the queues of @band. */
static struct drr_fq_params drr_fq_params_of(const struct drr_fq_config *config,
					     u32 band)
{
	struct drr_fq_params params = config->params;

	if (config->bands.on)
		params.flows = config->bands.flows[band];
	return params;
}

static void drr_fq_free_queues(struct drr_fq_queues queues[DRR_FQ_BANDS])
{
	u32 band;

	for (band = 0; band < DRR_FQ_BANDS; band++) {
		kvfree(queues[band].codel_vars);
		kvfree_rcu(rcu_dereference_protected(queues[band].table, 1),
			   rcu);
	}
}

/*
 * Allocate what @config needs beyond what there is: @tables and, with CoDel, its
 * state. Returns -ENOMEM if that fails; the caller frees it in any case.
 */
static int drr_fq_alloc_queues(const struct drr_fq_sched *q,
			       const struct drr_fq_config *config, bool tables,
			       struct drr_fq_queues queues[DRR_FQ_BANDS])
{
	u32 bands = config->bands.on ? DRR_FQ_BANDS : 1;
	u32 band;

	for (band = 0; band < bands; band++) {
		struct drr_fq_queues *u = &queues[band];
		struct drr_fq_table *table;

		u->params = drr_fq_params_of(config, band);
		if (tables) {
			table = kvzalloc(sizeof(*table) +
						 drr_fq_table_size(&u->params),
					 GFP_KERNEL_ACCOUNT);
			if (!table)
				return -ENOMEM;
			table->count = u->params.flows;
			drr_fq_table_init(&u->params, &u->vars, table->flows);
			RCU_INIT_POINTER(u->table, table);
		}
		if (config->codel.on && (tables || !q->codel.on)) {
			u->codel_vars = kvcalloc(u->params.flows,
						 sizeof(*u->codel_vars),
						 GFP_KERNEL_ACCOUNT);
			if (!u->codel_vars)
				return -ENOMEM;
		}
	}
	return 0;
}

/*
 * Move all packets of @from to the empty queues @to, which have the configuration
 * @bands. Each flow's packets stay in order; flows are moved in the order of the
 * ActiveList.
 */
static void drr_fq_move(struct drr_fq_sched *q, struct drr_fq_queues *from,
			const struct drr_fq_bands_config *bands,
			struct drr_fq_queues *to)
{
	struct drr_fq_stats ignored = {};

	while (from->vars.first != DRR_FQ_NONE) {
		u32 first = from->vars.first;
		struct drr_fq_flow *flow = &from->vars.flows[first];

		while (flow->head) {
			struct sk_buff *skb = drr_fq_pop(flow);
			u32 band = drr_fq_band_of(skb, bands->on);
			struct drr_fq_queues *u = &to[band];
			u32 queue, id;

			queue = drr_fq_queue_of(q, band, &u->params, skb, &id,
						bands->on);
			drr_fq_push(&u->vars.flows[queue], skb);
			drr_fq_arrive(&u->params, &u->vars, &ignored, queue, id,
				      qdisc_pkt_len(skb));
			if (bands->on)
				u->memory_used += drr_fq_skb_cb(skb)->memory;
		}
		drr_fq_emptied(&from->params, &from->vars, first);
	}
}

/* Exchange the queues of all bands and @queues, with all packets. */
static void drr_fq_swap_queues(struct drr_fq_sched *q,
			       const struct drr_fq_bands_config *bands,
			       struct drr_fq_queues queues[DRR_FQ_BANDS])
{
	u32 band;

	for (band = 0; band < DRR_FQ_BANDS; band++) {
		if (rcu_access_pointer(q->queues[band].table))
			drr_fq_move(q, &q->queues[band], bands, queues);
	}
	for (band = 0; band < DRR_FQ_BANDS; band++) {
		struct drr_fq_queues *u = &q->queues[band];
		struct drr_fq_table *old, *new;

		old = rcu_dereference_protected(u->table, 1);
		new = rcu_dereference_protected(queues[band].table, 1);
		swap(u->vars, queues[band].vars);
		swap(u->codel_vars, queues[band].codel_vars);
		u->memory_used = queues[band].memory_used;
		if (bands->on != q->bands_config.on) {
			u->bytes = 0;
			u->packets = 0;
			u->drops = 0;
			u->waits = (struct drr_fq_waits){};
		}
		rcu_assign_pointer(u->table, new);
		RCU_INIT_POINTER(queues[band].table, old);
	}
	/* Flows that shared a queue may have queues of their own now. */
	q->stats.active_max = max(q->stats.active_max, drr_fq_active_flows(q));
}

/* Set the parameters of the bands; those with packets become backlogged. */
static void drr_fq_set_bands(struct drr_fq_sched *q,
			     const struct drr_fq_bands_config *bands,
			     bool restart)
{
	u32 band;

	q->bands_config = *bands;
	dscp_init(&q->dscps, bands->marks);
	drr_fq_bands_set_share(&q->bands_params, bands->share);
	q->bands_params.wait_max = (u64)bands->wait_max * NSEC_PER_USEC;
	if (!restart)
		return;
	drr_fq_bands_init(&q->bands);
	for (band = 0; bands->on && band < DRR_FQ_BANDS; band++)
		if (q->queues[band].vars.qlen)
			drr_fq_bands_arrive(&q->bands_params, &q->bands, band);
}

/* Apply @config. Returns -ENOMEM without any change if allocation fails. */
static int drr_fq_apply(struct Qdisc *sch, const struct drr_fq_config *config,
			struct netlink_ext_ack *extack)
{
	const struct drr_fq_params *p = &config->params;
	struct drr_fq_sched *q = qdisc_priv(sch);
	bool tables = drr_fq_needs_tables(q, config);
	bool clock = (config->codel.on || config->bands.on) && !q->codel.on &&
		     !q->bands_config.on;
	struct sk_buff *to_free = NULL;
	struct drr_fq_queues *queues;
	u32 qlen, backlog, band;

	queues = kcalloc(DRR_FQ_BANDS, sizeof(*queues), GFP_KERNEL);
	if (!queues || drr_fq_alloc_queues(q, config, tables, queues)) {
		if (queues)
			drr_fq_free_queues(queues);
		kfree(queues);
		NL_SET_ERR_MSG_MOD(extack, "not enough memory: reduce flows");
		return -ENOMEM;
	}

	sch_tree_lock(sch);
	if (tables)
		drr_fq_swap_queues(q, &config->bands, queues);
	for (band = 0; band < DRR_FQ_BANDS; band++) {
		struct drr_fq_queues *u = &q->queues[band];

		u->params = drr_fq_params_of(config, band);
		if (!tables && config->codel.on != q->codel.on)
			swap(u->codel_vars, queues[band].codel_vars);
		if (clock && rcu_access_pointer(u->table))
			drr_fq_start_clock(u);
	}
	q->params = *p;
	drr_fq_set_codel(sch, &config->codel);
	drr_fq_set_bands(q, &config->bands, tables);
	q->memory_limit = config->memory_limit;
	q->split_gso = config->split_gso;
	sch->limit = p->limit;
	/* Bypassing an idle qdisc would bypass filters, segmentation, bands. */
	if (q->split_gso || rcu_access_pointer(q->filter_list) ||
	    q->bands_config.on)
		sch->flags &= ~TCQ_F_CAN_BYPASS;
	else
		sch->flags |= TCQ_F_CAN_BYPASS;

	qlen = sch->q.qlen;
	backlog = sch->qstats.backlog;
	drr_fq_shrink(sch, NULL, &to_free);
	/* During init, its parent cannot be found yet: call only for drops. */
	if (to_free)
		qdisc_tree_reduce_backlog(sch, qlen - sch->q.qlen,
					  backlog - sch->qstats.backlog);
	sch_tree_unlock(sch);

	kfree_skb_list_reason(to_free,
			      (enum skb_drop_reason)QDISC_DROP_OVERLIMIT);
	drr_fq_free_queues(queues);
	kfree(queues);
	return 0;
}

static int drr_fq_change(struct Qdisc *sch, struct nlattr *opt,
			 struct netlink_ext_ack *extack)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_config config = {
		.params = q->params,
		.bands = q->bands_config,
		.codel = q->codel,
		.memory_limit = q->memory_limit,
		.split_gso = q->split_gso,
	};
	int err;

	err = drr_fq_parse(sch, opt, &config, extack);
	if (err)
		return err;
	return drr_fq_apply(sch, &config, extack);
}

static int drr_fq_init(struct Qdisc *sch, struct nlattr *opt,
		       struct netlink_ext_ack *extack)
{
	const struct net_device *dev = qdisc_dev(sch);
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_config config = {
		.params = {
			.limit = READ_ONCE(dev->tx_queue_len) ?: DRR_FQ_LIMIT_DEFAULT,
			.limit_bytes = DRR_FQ_LIMIT_BYTES_DEFAULT,
			.flows = DRR_FQ_FLOWS_DEFAULT,
			.quantum = clamp_t(u32, psched_mtu(dev), DRR_FQ_QUANTUM_MIN,
				   DRR_FQ_QUANTUM_MAX),
			.scheduler = DRR_FQ_DRR,
		},
		.bands = drr_fq_bands_off,
		.codel = drr_fq_codel_off,
	};
	int err;

	sch->flags |= TCQ_F_DEQUEUE_DROPS;
	q->perturbation = get_random_u32() | 1;
	get_random_bytes(&q->host_key, sizeof(q->host_key));
	drr_fq_band_init(&q->band);
	drr_fq_bands_init(&q->bands);
	codel_stats_init(&q->codel_stats);
	if (opt) {
		err = drr_fq_parse(sch, opt, &config, extack);
		if (err)
			return err;
	}
	if (!config.memory_limit)
		config.memory_limit = max_t(u32, DRR_FQ_MEMORY_LIMIT_DEFAULT,
					    2 * config.params.limit_bytes);
	err = tcf_block_get(&q->block, &q->filter_list, sch, extack);
	if (err)
		return err;
	return drr_fq_apply(sch, &config, extack);
}

/* Also called when init() has failed. */
static void drr_fq_destroy(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);

	tcf_block_put(q->block);
	drr_fq_free_queues(q->queues);
}

static int drr_fq_dump_codel(const struct drr_fq_codel *codel,
			     struct sk_buff *skb)
{
	if (nla_put_u8(skb, TCA_DRR_FQ_CODEL, codel->on))
		return -EMSGSIZE;
	if (!codel->on)
		return 0;
	if (nla_put_u32(skb, TCA_DRR_FQ_CODEL_TARGET, codel->target) ||
	    nla_put_u32(skb, TCA_DRR_FQ_CODEL_INTERVAL, codel->interval) ||
	    nla_put_u8(skb, TCA_DRR_FQ_CODEL_ECN, codel->ecn) ||
	    nla_put_u32(skb, TCA_DRR_FQ_CODEL_CE_THRESHOLD,
			codel->ce_threshold))
		return -EMSGSIZE;
	return 0;
}

static int drr_fq_dump_bands(const struct drr_fq_bands_config *bands,
			     struct sk_buff *skb)
{
	if (!bands->on)
		return 0;
	if (nla_put_u8(skb, TCA_DRR_FQ_BANDS, bands->on) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_UNASSIGNED, bands->share) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_WAIT, bands->wait_max) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_NEW_FLOWS,
			bands->flows[DRR_FQ_BAND_NEW]) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_HOSTS,
			bands->flows[DRR_FQ_BAND_UNASSIGNED]) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_MARK_NEW,
			bands->marks[DRR_FQ_BAND_NEW]) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_MARK_ASSIGNED,
			bands->marks[DRR_FQ_BAND_ASSIGNED]) ||
	    nla_put_u32(skb, TCA_DRR_FQ_BANDS_DOMAIN, bands->domain))
		return -EMSGSIZE;
	return 0;
}

static int drr_fq_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	const struct drr_fq_params *p = &q->params;
	struct nlattr *opts;

	opts = nla_nest_start(skb, TCA_OPTIONS);
	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_DRR_FQ_LIMIT, p->limit) ||
	    nla_put_u32(skb, TCA_DRR_FQ_LIMIT_BYTES, p->limit_bytes) ||
	    nla_put_u32(skb, TCA_DRR_FQ_FLOWS, p->flows) ||
	    nla_put_u32(skb, TCA_DRR_FQ_QUANTUM, p->quantum) ||
	    nla_put_u8(skb, TCA_DRR_FQ_SCHEDULER, p->scheduler) ||
	    nla_put_u8(skb, TCA_DRR_FQ_SPLIT_GSO, q->split_gso) ||
	    nla_put_u32(skb, TCA_DRR_FQ_MEMORY_LIMIT, q->memory_limit) ||
	    drr_fq_dump_codel(&q->codel, skb) ||
	    drr_fq_dump_bands(&q->bands_config, skb)) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

/*
 * Find the longest queue, without the lock: the time grows with the number of
 * queues, and every user may ask for statistics.
 */
static void drr_fq_dump_longest(const struct drr_fq_sched *q,
				struct tc_drr_fq_qdisc_stats *stats)
{
	const struct drr_fq_table *table;
	u32 queue, band;

	rcu_read_lock();
	for (band = 0; band < DRR_FQ_BANDS; band++) {
		table = rcu_dereference(q->queues[band].table);
		for (queue = 0; table && queue < table->count; queue++) {
			u32 backlog = READ_ONCE(table->flows[queue].backlog);

			if (backlog && backlog >= stats->longest_backlog) {
				stats->longest_backlog = backlog;
				stats->longest_flow = queue + 1;
			}
		}
	}
	rcu_read_unlock();
}

static int drr_fq_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct tc_drr_fq_xstats st = { .type = DRR_FQ_XSTATS_QDISC };
	u32 band;

	drr_fq_dump_longest(q, &st.qdisc);
	sch_tree_lock(sch);
	st.qdisc.drops_longest = q->drops_longest;
	st.qdisc.drops_oversize = q->drops_oversize;
	st.qdisc.collisions = q->stats.collisions;
	st.qdisc.new_flows = q->stats.new_flows;
	st.qdisc.gso_split = q->gso_split;
	for (band = 0; band < DRR_FQ_BANDS; band++) {
		const struct drr_fq_queues *u = &q->queues[band];

		if (!rcu_access_pointer(u->table))
			continue;
		st.qdisc.memory += drr_fq_table_size(&u->params);
		if (u->codel_vars)
			st.qdisc.memory +=
				u->params.flows * sizeof(*u->codel_vars);
	}
	st.qdisc.active_flows = drr_fq_active_flows(q);
	st.qdisc.active_flows_max = q->stats.active_max;
	st.qdisc.max_packet = q->max_packet;
	st.qdisc.memory_used = q->memory_used;
	st.qdisc.drops_memory = q->drops_memory;
	st.qdisc.control_packets = q->band.queue.packets;
	st.qdisc.control_hashed = q->control_hashed;
	st.qdisc.drops_codel = q->drops_codel;
	st.qdisc.ecn_marks = q->codel_stats.ecn_mark;
	st.qdisc.ce_marks = q->codel_stats.ce_mark;
	sch_tree_unlock(sch);

	return gnet_stats_copy_app(d, &st,
				   offsetofend(struct tc_drr_fq_xstats, qdisc));
}

/* Classes represent queues, numbered from 1; they have no child qdiscs. */
static struct Qdisc *drr_fq_leaf(struct Qdisc *sch, unsigned long cl)
{
	return NULL;
}

static unsigned long drr_fq_find(struct Qdisc *sch, u32 classid)
{
	return 0;
}

static unsigned long drr_fq_bind(struct Qdisc *sch, unsigned long parent,
				 u32 classid)
{
	return 0;
}

static void drr_fq_unbind(struct Qdisc *sch, unsigned long cl)
{
}

static struct tcf_block *drr_fq_tcf_block(struct Qdisc *sch, unsigned long cl,
					  struct netlink_ext_ack *extack)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);

	return cl ? NULL : q->block;
}

static int drr_fq_dump_class(struct Qdisc *sch, unsigned long cl,
			     struct sk_buff *skb, struct tcmsg *tcm)
{
	tcm->tcm_handle |= TC_H_MIN(cl);
	return 0;
}

/* With bands, under the lock. */
static void drr_fq_band_stats(struct drr_fq_sched *q, u32 band,
			      struct gnet_stats_basic_sync *bstats,
			      struct gnet_stats_queue *qs,
			      struct tc_drr_fq_band_stats *st)
{
	const struct drr_fq_queues *u = &q->queues[band];

	_bstats_update(bstats, u->bytes, u->packets);
	qs->qlen = u->vars.qlen;
	qs->backlog = u->vars.backlog;
	qs->drops = u->drops;
	st->active_flows = u->vars.active;
	st->deficit = max(q->bands.deficit[band], 0);
	st->memory_used = u->memory_used;
	st->wait_longest = u->waits.longest;
	memcpy(st->waits, u->waits.packets, sizeof(st->waits));
	if (band == DRR_FQ_BAND_UNASSIGNED)
		st->drops_late = q->drops_late;
	else
		st->marks_cleared = q->marks_cleared[band];
}

/* Returns false if there is no such queue. */
static bool drr_fq_queue_stats(struct drr_fq_sched *q, u32 number,
			       struct gnet_stats_basic_sync *bstats,
			       struct gnet_stats_queue *qs,
			       struct tc_drr_fq_class_stats *st)
{
	const struct drr_fq_queues *u = &q->queues[0];
	const struct drr_fq_flow *flow;

	if (number >= u->params.flows)
		return false;
	flow = &u->vars.flows[number];
	_bstats_update(bstats, flow->bytes, flow->packets);
	qs->qlen = flow->qlen;
	qs->backlog = flow->backlog;
	qs->drops = flow->drops;
	if (flow->qlen) {
		st->head_length = drr_fq_head_length(flow);
		if (u->params.scheduler == DRR_FQ_DRR)
			st->deficit = max(flow->deficit, 0);
		if (u->params.scheduler == DRR_FQ_SCFQ)
			st->tag = flow->tag + st->head_length - u->vars.v;
	}
	if (u->codel_vars) {
		const struct codel_vars *vars = &u->codel_vars[number];

		st->delay = codel_time_to_us(vars->ldelay);
		st->dropping = vars->dropping;
	}
	return true;
}

static int drr_fq_dump_class_stats(struct Qdisc *sch, unsigned long cl,
				   struct gnet_dump *d)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct tc_drr_fq_xstats st = { .type = DRR_FQ_XSTATS_CLASS };
	struct gnet_stats_basic_sync bstats;
	struct gnet_stats_queue qs = {};
	int length = offsetofend(struct tc_drr_fq_xstats, queue);
	bool found = true;

	gnet_stats_basic_sync_init(&bstats);
	sch_tree_lock(sch);
	if (!q->bands_config.on) {
		found = drr_fq_queue_stats(q, cl - 1, &bstats, &qs, &st.queue);
	} else if (cl <= DRR_FQ_BANDS) {
		st.type = DRR_FQ_XSTATS_BAND;
		length = offsetofend(struct tc_drr_fq_xstats, band);
		drr_fq_band_stats(q, cl - 1, &bstats, &qs, &st.band);
	} else {
		found = false;
	}
	sch_tree_unlock(sch);
	if (!found)
		return -1;

	if (gnet_stats_copy_basic(d, NULL, &bstats, false) < 0 ||
	    gnet_stats_copy_queue(d, NULL, &qs, qs.qlen) < 0)
		return -1;
	return gnet_stats_copy_app(d, &st, length);
}

static bool drr_fq_is_backlogged(const struct drr_fq_sched *q, u32 queue)
{
	const struct drr_fq_table *table;
	bool backlogged;

	rcu_read_lock();
	table = rcu_dereference(q->queues[0].table);
	backlogged =
		queue < table->count && READ_ONCE(table->flows[queue].qlen);
	rcu_read_unlock();
	return backlogged;
}

static void drr_fq_walk(struct Qdisc *sch, struct qdisc_walker *arg)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	u32 classes =
		min_t(u32, READ_ONCE(q->params.flows), DRR_FQ_CLASSES_MAX);
	/* The request holds RTNL, as a change does. */
	bool bands = q->bands_config.on;
	u32 queue;

	if (arg->stop)
		return;
	if (bands)
		classes = DRR_FQ_BANDS;
	for (queue = 0; queue < classes; queue++) {
		if (!bands && !drr_fq_is_backlogged(q, queue)) {
			arg->count++;
			continue;
		}
		if (!tc_qdisc_stats_dump(sch, queue + 1, arg))
			break;
	}
}

static const struct Qdisc_class_ops drr_fq_class_ops = {
	.leaf = drr_fq_leaf,
	.find = drr_fq_find,
	.tcf_block = drr_fq_tcf_block,
	.bind_tcf = drr_fq_bind,
	.unbind_tcf = drr_fq_unbind,
	.dump = drr_fq_dump_class,
	.dump_stats = drr_fq_dump_class_stats,
	.walk = drr_fq_walk,
};

static struct Qdisc_ops drr_fq_qdisc_ops __read_mostly = {
	.cl_ops = &drr_fq_class_ops,
	.id = "drr_fq",
	.priv_size = sizeof(struct drr_fq_sched),
	.enqueue = drr_fq_enqueue,
	.dequeue = drr_fq_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = drr_fq_init,
	.reset = drr_fq_reset,
	.destroy = drr_fq_destroy,
	.change = drr_fq_change,
	.dump = drr_fq_dump,
	.dump_stats = drr_fq_dump_stats,
	.owner = THIS_MODULE,
};
MODULE_ALIAS_NET_SCH("drr_fq");

static int __init drr_fq_module_init(void)
{
	return register_qdisc(&drr_fq_qdisc_ops);
}

static void __exit drr_fq_module_exit(void)
{
	unregister_qdisc(&drr_fq_qdisc_ops);
}

module_init(drr_fq_module_init);
module_exit(drr_fq_module_exit);
MODULE_DESCRIPTION("Fair queueing, dropping from the longest queue");
MODULE_LICENSE("GPL");
MODULE_AUTHOR(FAIRPATH_AUTHOR);
MODULE_VERSION(FAIRPATH_VERSION);
