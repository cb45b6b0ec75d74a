/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Newer kernels read a queue's length locklessly, count the segments of a packet
 * once, when it is first queued, can deactivate a device without emptying its
 * queues, show why a qdisc dropped a packet, and free packets that dequeue dropped
 * without the qdisc's lock.
 */
#ifndef FAIRPATH_COMPAT_NET_SCH_GENERIC_H
#define FAIRPATH_COMPAT_NET_SCH_GENERIC_H

#include_next <net/sch_generic.h>

#ifndef FP_HAVE_QDISC_QLEN_INC
static inline void qdisc_qlen_inc(struct Qdisc *sch)
{
	sch->q.qlen++;
}

static inline void qdisc_qlen_dec(struct Qdisc *sch)
{
	sch->q.qlen--;
}
#endif

#ifndef FP_HAVE_QDISC_PKT_SEGS
/* Number of packets that @skb becomes on the wire. */
static inline unsigned int qdisc_pkt_segs(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
}
#endif

/* The reason that older kernels give for each packet that enqueue drops. */
#ifndef FP_HAVE_QDISC_DROP_REASONS
#define QDISC_DROP_OVERLIMIT SKB_DROP_REASON_QDISC_DROP
#define QDISC_DROP_CONGESTED SKB_DROP_REASON_QDISC_DROP
#define tcf_set_qdisc_drop_reason(skb, reason) ((void)(skb))
#define qdisc_drop_reason(skb, sch, to_free, reason) \
	qdisc_drop(skb, sch, to_free)
#define qdisc_dequeue_drop(sch, skb, reason) kfree_skb_reason(skb, reason)
#undef TCQ_F_DEQUEUE_DROPS
#define TCQ_F_DEQUEUE_DROPS 0
#endif

#ifndef FP_HAVE_DEV_DEACTIVATE_RESET
#define dev_deactivate(dev, reset_needed) dev_deactivate(dev)
#endif

/* Add @length bytes to the backlog. */
static inline void fp_qdisc_backlog_add(struct Qdisc *sch, u32 length)
{
#ifdef FP_HAVE_QDISC_QLEN_INC
	qstats_backlog_add(sch, length);
#else
	sch->qstats.backlog += length;
#endif
}

/* Initialize the control block of @skb, a segment made by the qdisc. */
static inline void fp_qdisc_set_segment(struct sk_buff *skb)
{
	qdisc_skb_cb(skb)->pkt_len = skb->len;
#ifdef FP_HAVE_QDISC_PKT_SEGS
	qdisc_skb_cb(skb)->pkt_segs = 1;
#endif
}

#endif /* FAIRPATH_COMPAT_NET_SCH_GENERIC_H */
