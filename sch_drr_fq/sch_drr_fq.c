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
 *	its hash	by the kernel's flow dissector, keyed with a secret that
 *			senders cannot know, mixed with a random number of this
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
 * ends an idle period, as a parent would not learn that there is a backlog.
 *
 * All functions run under the qdisc's lock. Configuration also holds RTNL, so
 * it can allocate memory before it takes that lock; it changes nothing until
 * the whole request is known to succeed. Dumps of classes may read a replaced
 * table, which is freed by RCU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/jhash.h>
#include <linux/module.h>
#include <linux/prefetch.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/codel.h>
#include <net/codel_impl.h>
#include <net/gso.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "drr_fq_core.h"

/* Class numbers have 16 bits; higher queues have no class. */
#define DRR_FQ_CLASSES_MAX 0xffffU

/* The control band, as a class of struct drr_fq_skb_cb and as a queue. */
#define DRR_FQ_CLASS_BAND (~0U)
#define DRR_FQ_QUEUE_BAND (DRR_FQ_NONE - 1)

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
 * struct drr_fq_sched - one drr_fq qdisc
 * @params: configuration
 * @vars: the algorithm's state; its queues are in @table
 * @stats: the algorithm's statistics
 * @band: the control band
 * @table: memory of the queues
 * @codel: configuration of CoDel
 * @codel_params: the same for codel_impl.h
 * @codel_stats: its statistics; drops since the parents were last notified
 * @codel_vars: its state for each queue, NULL without CoDel
 * @memory_limit: limit of @memory_used [bytes]
 * @memory_used: memory of the queued packets [bytes]
 * @perturbation: random number mixed into the hash
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
 */
struct drr_fq_sched {
	struct drr_fq_params params;
	struct drr_fq_vars vars;
	struct drr_fq_stats stats;
	struct drr_fq_band band;
	struct drr_fq_table __rcu *table;
	struct drr_fq_codel codel;
	struct codel_params codel_params;
	struct codel_stats codel_stats;
	struct codel_vars *codel_vars;
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
};

/**
 * struct drr_fq_skb_cb - data stored with a packet
 * @class: minor number of its class, 0 to use its hash, or DRR_FQ_CLASS_BAND
 * @memory: its truesize when it was queued
 * @segments: number of its segments, to count them when it is dequeued
 * @queued: when it was queued; only with CoDel
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

/*
 * Store the packet's class, if it has one. Returns false if a filter consumed
 * or dropped the packet; @ret is then the return value of enqueue.
 */
static bool drr_fq_classify(struct Qdisc *sch, struct sk_buff *skb,
			    struct sk_buff **to_free, int *ret)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	const struct tcf_proto *filter = rcu_dereference_bh(q->filter_list);
	struct tcf_result res = {};
	u32 class = 0;

	/* A default qdisc has no handle, so no classes that could be named. */
	if (sch->handle && TC_H_MAJ(skb->priority) == sch->handle) {
		class = TC_H_MIN(skb->priority);
	} else if (filter) {
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
	drr_fq_skb_cb(skb)->class = class;
	return true;
}

/*
 * Map a classified packet to a queue; its class may have been stored when there
 * were more queues. Sets @flow to identify its flow within the queue.
 */
static u32 drr_fq_queue_of(const struct drr_fq_sched *q,
			   const struct drr_fq_params *p, struct sk_buff *skb,
			   u32 *flow)
{
	u32 class = drr_fq_skb_cb(skb)->class;

	if (class && class <= p->flows) {
		*flow = class;
		return class - 1;
	}
	*flow = skb_get_hash(skb);
	return drr_fq_flow_of(p, jhash_1word(*flow, q->perturbation));
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

static bool drr_fq_append_control(struct drr_fq_sched *q, struct sk_buff *skb)
{
	u32 length = qdisc_pkt_len(skb);

	if (!drr_fq_band_has_room(&q->band, length)) {
		q->control_hashed++;
		return false;
	}
	drr_fq_push(&q->band.queue, skb);
	drr_fq_band_arrive(&q->band, length);
	return true;
}

/* Append a packet to its queue. Returns the queue. */
static u32 drr_fq_append(struct Qdisc *sch, struct sk_buff *skb)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_skb_cb *cb = drr_fq_skb_cb(skb);
	u32 length = qdisc_pkt_len(skb);
	u32 queue, flow;

	if (unlikely(cb->class == DRR_FQ_CLASS_BAND) &&
	    drr_fq_append_control(q, skb)) {
		queue = DRR_FQ_QUEUE_BAND;
	} else {
		queue = drr_fq_queue_of(q, &q->params, skb, &flow);
		drr_fq_push(&q->vars.flows[queue], skb);
		drr_fq_arrive(&q->params, &q->vars, &q->stats, queue, flow,
			      length);
	}
	cb->memory = skb->truesize;
	cb->segments = qdisc_pkt_segs(skb);
	if (q->codel_vars)
		cb->queued = codel_get_time();
	q->memory_used += cb->memory;
	q->max_packet = max(q->max_packet, length);
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
	return queue;
}

static bool drr_fq_over_memory(const struct drr_fq_sched *q)
{
	return q->memory_used > q->memory_limit;
}

/* Remove a packet to drop, from the longest queue. Returns NULL if none. */
static struct sk_buff *drr_fq_pop_longest(struct drr_fq_sched *q, u32 *queue)
{
	struct sk_buff *skb;

	*queue = drr_fq_longest(&q->vars);
	if (*queue != DRR_FQ_NONE) {
		skb = drr_fq_pop(&q->vars.flows[*queue]);
		drr_fq_dropped(&q->params, &q->vars, *queue, qdisc_pkt_len(skb),
			       drr_fq_head_length);
		/* CoDel was too slow. */
		if (q->codel_vars)
			q->codel_vars[*queue].count++;
		return skb;
	}
	if (!q->band.queue.qlen)
		return NULL;
	*queue = DRR_FQ_QUEUE_BAND;
	skb = drr_fq_pop(&q->band.queue);
	drr_fq_band_leave(&q->band, qdisc_pkt_len(skb));
	return skb;
}

/*
 * Drop from the front of the longest queue until the limits hold, and from the
 * control band only if nothing else is queued. A packet that a parent has peeked
 * at counts but cannot be dropped. Returns whether a packet
 * of @queue was dropped.
 */
static bool drr_fq_shrink(struct Qdisc *sch, u32 queue,
			  struct sk_buff **to_free)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	bool lost = false;

	for (;;) {
		bool over = drr_fq_over_limit(&q->params, sch->q.qlen,
					      sch->qstats.backlog);
		struct sk_buff *skb;
		u32 longest;

		if (!over && !drr_fq_over_memory(q))
			break;
		skb = drr_fq_pop_longest(q, &longest);
		if (!skb)
			break;
		q->drops_memory += !over;
		q->memory_used -= drr_fq_skb_cb(skb)->memory;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_qlen_dec(sch);
		qdisc_qstats_drop(sch);
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
static int drr_fq_make_room(struct Qdisc *sch, u32 queue, u32 length, bool idle,
			    struct sk_buff **to_free)
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
	return qdisc_drop(skb, sch, to_free);
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
	u32 queue = DRR_FQ_NONE;
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
		queue = drr_fq_append(sch, segs);
		count++;
	}
	q->gso_split++;
	if (!count) {
		__qdisc_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	consume_skb(skb);

	/* The parents will count one packet of @length bytes. */
	qdisc_tree_reduce_backlog(sch, 1 - count, length - sum);
	return drr_fq_make_room(sch, queue, length, idle, to_free);
}

static int drr_fq_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			  struct sk_buff **to_free)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 length = qdisc_pkt_len(skb);
	u32 queue;
	int ret;

	if (unlikely(!drr_fq_classify(sch, skb, to_free, &ret)))
		return ret;
	if (q->split_gso && skb_is_gso(skb))
		return drr_fq_enqueue_segments(sch, skb, to_free);
	if (unlikely(drr_fq_oversize(q, skb)))
		return drr_fq_drop_oversize(sch, skb, to_free);

	queue = drr_fq_append(sch, skb);
	return drr_fq_make_room(sch, queue, length, false, to_free);
}

static struct sk_buff *drr_fq_dequeue_control(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct sk_buff *skb = drr_fq_pop(&q->band.queue);

	qdisc_qstats_backlog_dec(sch, skb);
	drr_fq_band_sent(&q->band, q->vars.active, qdisc_pkt_len(skb));
	return skb;
}

/*
 * In a long queue, the next packets have left the caches. Prefetch the oldest
 * packet of the first flow of the ActiveList, which is next if its turn goes on,
 * and that of the second flow behind it; and the flow behind that, for the next
 * call. The packet of the flow in between was prefetched before.
 */
static void drr_fq_prefetch(const struct drr_fq_sched *q)
{
	const struct drr_fq_vars *v = &q->vars;
	const struct drr_fq_flow *first, *next;

	if (v->first == DRR_FQ_NONE || q->params.scheduler == DRR_FQ_SCFQ)
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
 * @queue: the queue that is dequeued from
 */
struct drr_fq_codel_context {
	struct Qdisc *sch;
	u32 queue;
};

static codel_time_t drr_fq_codel_time(const struct sk_buff *skb)
{
	return drr_fq_skb_cb(skb)->queued;
}

/* Remove the oldest packet; CoDel reads the backlog behind it. */
static struct sk_buff *drr_fq_codel_pop(struct codel_vars *vars, void *ctx)
{
	const struct drr_fq_codel_context *context = ctx;
	struct drr_fq_sched *q = qdisc_priv(context->sch);
	struct drr_fq_flow *flow = &q->vars.flows[context->queue];
	struct sk_buff *skb;

	if (!flow->head)
		return NULL;
	skb = drr_fq_pop(flow);
	qdisc_qstats_backlog_dec(context->sch, skb);
	return skb;
}

/* Drop a packet that drr_fq_codel_pop() removed. */
static void drr_fq_codel_drop(struct sk_buff *skb, void *ctx)
{
	const struct drr_fq_codel_context *context = ctx;
	struct Qdisc *sch = context->sch;
	struct drr_fq_sched *q = qdisc_priv(sch);

	drr_fq_aqm_dropped(&q->params, &q->vars, context->queue,
			   qdisc_pkt_len(skb), drr_fq_head_length);
	q->memory_used -= drr_fq_skb_cb(skb)->memory;
	q->drops_codel++;
	qdisc_qlen_dec(sch);
	qdisc_qstats_drop(sch);
	kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
}

/* Returns NULL if CoDel dropped all packets of the queue. */
static struct sk_buff *drr_fq_dequeue_codel(struct Qdisc *sch, u32 queue)
{
	struct drr_fq_codel_context context = { .sch = sch, .queue = queue };
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct codel_stats *stats = &q->codel_stats;
	struct sk_buff *skb;

	skb = codel_dequeue(&context, &sch->qstats.backlog, &q->codel_params,
			    &q->codel_vars[queue], stats, qdisc_pkt_len,
			    drr_fq_codel_time, drr_fq_codel_drop,
			    drr_fq_codel_pop);
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

static struct sk_buff *drr_fq_dequeue_flow(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;
	u32 queue, length;

	do {
		queue = drr_fq_next(&q->params, &q->vars, drr_fq_head_length);
		if (queue == DRR_FQ_NONE)
			return NULL;
		if (q->codel_vars) {
			skb = drr_fq_dequeue_codel(sch, queue);
		} else {
			skb = drr_fq_pop(&q->vars.flows[queue]);
			qdisc_qstats_backlog_dec(sch, skb);
		}
	} while (!skb);
	length = qdisc_pkt_len(skb);
	drr_fq_sent(&q->params, &q->vars, queue, length, drr_fq_head_length);
	drr_fq_band_earn(&q->band, length);
	drr_fq_prefetch(q);
	return skb;
}

static struct sk_buff *drr_fq_dequeue(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	const struct drr_fq_skb_cb *cb;
	struct sk_buff *skb;

	if (unlikely(drr_fq_band_is_next(&q->band, q->vars.active,
					 drr_fq_head_length)))
		skb = drr_fq_dequeue_control(sch);
	else
		skb = drr_fq_dequeue_flow(sch);
	if (!skb)
		return NULL;

	cb = drr_fq_skb_cb(skb);
	q->memory_used -= cb->memory;
	qdisc_qlen_dec(sch);
	_bstats_update(&sch->bstats, qdisc_pkt_len(skb), cb->segments);
	return skb;
}

static void drr_fq_reset(struct Qdisc *sch)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	u32 queue;

	if (!rcu_access_pointer(q->table))
		return;
	for (queue = 0; q->codel_vars && queue < q->params.flows; queue++)
		codel_vars_init(&q->codel_vars[queue]);
	while (q->vars.first != DRR_FQ_NONE) {
		u32 first = q->vars.first;
		struct drr_fq_flow *flow = &q->vars.flows[first];

		rtnl_kfree_skbs(flow->head, flow->tail);
		flow->head = NULL;
		drr_fq_emptied(&q->params, &q->vars, first);
	}
	if (q->band.queue.qlen)
		rtnl_kfree_skbs(q->band.queue.head, q->band.queue.tail);
	drr_fq_band_init(&q->band);
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
};

/**
 * struct drr_fq_config - configuration requested by a message
 * @params: parameters of the algorithm
 * @codel: parameters of CoDel
 * @memory_limit: limit of the queued packets' memory [bytes], 0: the default
 * @split_gso: segment GSO packets before they are queued
 */
struct drr_fq_config {
	struct drr_fq_params params;
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

/* Check the attributes of a message and store them in @config. */
static int drr_fq_parse(struct Qdisc *sch, struct nlattr *opt,
			struct drr_fq_config *config,
			struct netlink_ext_ack *extack)
{
	struct drr_fq_params *p = &config->params;
	struct nlattr *tb[TCA_DRR_FQ_MAX + 1];
	const struct nlattr *attr;
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
	if (attr && p->flows > DRR_FQ_FLOWS_SMALL && !capable(CAP_NET_ADMIN)) {
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

/*
 * Set CoDel's parameters. @vars is new state, or NULL to keep what there is.
 * Returns the old state if it is no longer used.
 */
static struct codel_vars *drr_fq_set_codel(struct Qdisc *sch,
					   const struct drr_fq_codel *codel,
					   struct codel_vars *vars)
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

	if (vars || !codel->on)
		swap(q->codel_vars, vars);
	return vars;
}

/* CoDel was off until now: the packets that are queued arrive now. */
static void drr_fq_codel_start(struct drr_fq_sched *q)
{
	const struct drr_fq_vars *v = &q->vars;
	codel_time_t now = codel_get_time();
	u32 queue = v->first, n;

	for (n = 0; n < v->active; n++) {
		struct sk_buff *skb = v->flows[queue].head;

		for (; skb; skb = skb->next)
			drr_fq_skb_cb(skb)->queued = now;
		queue = v->flows[queue].next;
	}
}

/*
 * Move all packets to the empty queues of @to, which has the parameters @p.
 * Each flow's packets stay in order; flows are moved in the order of the
 * ActiveList.
 */
static void drr_fq_move(struct drr_fq_sched *q, const struct drr_fq_params *p,
			struct drr_fq_vars *to)
{
	struct drr_fq_vars *from = &q->vars;
	struct drr_fq_stats ignored = {};

	while (from->first != DRR_FQ_NONE) {
		u32 first = from->first;
		struct drr_fq_flow *flow = &from->flows[first];

		while (flow->head) {
			struct sk_buff *skb = drr_fq_pop(flow);
			u32 queue, id;

			queue = drr_fq_queue_of(q, p, skb, &id);
			drr_fq_push(&to->flows[queue], skb);
			drr_fq_arrive(p, to, &ignored, queue, id,
				      qdisc_pkt_len(skb));
		}
		drr_fq_emptied(&q->params, from, first);
	}
}

/* Apply @config. Returns -ENOMEM without any change if allocation fails. */
static int drr_fq_apply(struct Qdisc *sch, const struct drr_fq_config *config,
			struct netlink_ext_ack *extack)
{
	const struct drr_fq_params *p = &config->params;
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_table *table = NULL, *old;
	struct codel_vars *codel_vars = NULL;
	struct sk_buff *to_free = NULL;
	struct drr_fq_vars vars;
	u32 qlen, backlog;
	bool start;

	old = rcu_dereference_protected(q->table, lockdep_rtnl_is_held());
	if (!old || p->flows != q->params.flows ||
	    p->scheduler != q->params.scheduler) {
		table = kvzalloc(sizeof(*table) + drr_fq_table_size(p),
				 GFP_KERNEL_ACCOUNT);
		if (!table) {
			NL_SET_ERR_MSG_MOD(extack,
					   "not enough memory: reduce flows");
			return -ENOMEM;
		}
		table->count = p->flows;
		drr_fq_table_init(p, &vars, table->flows);
	}
	start = config->codel.on && !q->codel_vars;
	if (config->codel.on && (table || start)) {
		codel_vars = kvcalloc(p->flows, sizeof(*codel_vars),
				      GFP_KERNEL_ACCOUNT);
		if (!codel_vars) {
			kvfree(table);
			NL_SET_ERR_MSG_MOD(extack,
					   "not enough memory: reduce flows");
			return -ENOMEM;
		}
	}

	sch_tree_lock(sch);
	if (table) {
		if (old)
			drr_fq_move(q, p, &vars);
		q->vars = vars;
		rcu_assign_pointer(q->table, table);
	}
	q->params = *p;
	codel_vars = drr_fq_set_codel(sch, &config->codel, codel_vars);
	if (start)
		drr_fq_codel_start(q);
	q->memory_limit = config->memory_limit;
	q->split_gso = config->split_gso;
	sch->limit = p->limit;
	/* Bypassing an idle qdisc would bypass its filters and segmentation. */
	if (q->split_gso || rcu_access_pointer(q->filter_list))
		sch->flags &= ~TCQ_F_CAN_BYPASS;
	else
		sch->flags |= TCQ_F_CAN_BYPASS;

	qlen = sch->q.qlen;
	backlog = sch->qstats.backlog;
	drr_fq_shrink(sch, DRR_FQ_NONE, &to_free);
	/* During init, its parent cannot be found yet: call only for drops. */
	if (to_free)
		qdisc_tree_reduce_backlog(sch, qlen - sch->q.qlen,
					  backlog - sch->qstats.backlog);
	sch_tree_unlock(sch);

	kfree_skb_list(to_free);
	kvfree(codel_vars);
	if (table)
		kvfree_rcu(old, rcu);
	return 0;
}

static int drr_fq_change(struct Qdisc *sch, struct nlattr *opt,
			 struct netlink_ext_ack *extack)
{
	const struct drr_fq_sched *q = qdisc_priv(sch);
	struct drr_fq_config config = {
		.params = q->params,
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
		.codel = drr_fq_codel_off,
	};
	int err;

	q->perturbation = get_random_u32();
	drr_fq_band_init(&q->band);
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
	kvfree(q->codel_vars);
	kvfree_rcu(rcu_dereference_protected(q->table, 1), rcu);
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
	    drr_fq_dump_codel(&q->codel, skb)) {
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
	u32 queue;

	rcu_read_lock();
	table = rcu_dereference(q->table);
	for (queue = 0; queue < table->count; queue++) {
		u32 backlog = READ_ONCE(table->flows[queue].backlog);

		if (backlog && backlog >= stats->longest_backlog) {
			stats->longest_backlog = backlog;
			stats->longest_flow = queue + 1;
		}
	}
	rcu_read_unlock();
}

static int drr_fq_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct tc_drr_fq_xstats st = { .type = DRR_FQ_XSTATS_QDISC };

	drr_fq_dump_longest(q, &st.qdisc);
	sch_tree_lock(sch);
	st.qdisc.drops_longest = q->drops_longest;
	st.qdisc.drops_oversize = q->drops_oversize;
	st.qdisc.collisions = q->stats.collisions;
	st.qdisc.new_flows = q->stats.new_flows;
	st.qdisc.gso_split = q->gso_split;
	st.qdisc.memory = drr_fq_table_size(&q->params);
	if (q->codel_vars)
		st.qdisc.memory += q->params.flows * sizeof(*q->codel_vars);
	st.qdisc.active_flows = q->vars.active;
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

	return gnet_stats_copy_app(d, &st, sizeof(st));
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

static int drr_fq_dump_class_stats(struct Qdisc *sch, unsigned long cl,
				   struct gnet_dump *d)
{
	struct drr_fq_sched *q = qdisc_priv(sch);
	struct tc_drr_fq_xstats st = { .type = DRR_FQ_XSTATS_CLASS };
	struct gnet_stats_basic_sync bstats;
	struct gnet_stats_queue qs = {};
	const struct drr_fq_flow *flow;

	gnet_stats_basic_sync_init(&bstats);
	sch_tree_lock(sch);
	if (cl > q->params.flows) {
		sch_tree_unlock(sch);
		return -1;
	}
	flow = &q->vars.flows[cl - 1];
	_bstats_update(&bstats, flow->bytes, flow->packets);
	qs.qlen = flow->qlen;
	qs.backlog = flow->backlog;
	qs.drops = flow->drops;
	if (flow->qlen) {
		st.queue.head_length = drr_fq_head_length(flow);
		if (q->params.scheduler == DRR_FQ_DRR)
			st.queue.deficit = max(flow->deficit, 0);
		if (q->params.scheduler == DRR_FQ_SCFQ)
			st.queue.tag =
				flow->tag + st.queue.head_length - q->vars.v;
	}
	if (q->codel_vars) {
		const struct codel_vars *vars = &q->codel_vars[cl - 1];

		st.queue.delay = codel_time_to_us(vars->ldelay);
		st.queue.dropping = vars->dropping;
	}
	sch_tree_unlock(sch);

	if (gnet_stats_copy_basic(d, NULL, &bstats, false) < 0 ||
	    gnet_stats_copy_queue(d, NULL, &qs, qs.qlen) < 0)
		return -1;
	return gnet_stats_copy_app(d, &st, sizeof(st));
}

static bool drr_fq_is_backlogged(const struct drr_fq_sched *q, u32 queue)
{
	const struct drr_fq_table *table;
	bool backlogged;

	rcu_read_lock();
	table = rcu_dereference(q->table);
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
	u32 queue;

	if (arg->stop)
		return;
	for (queue = 0; queue < classes; queue++) {
		if (!drr_fq_is_backlogged(q, queue)) {
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
