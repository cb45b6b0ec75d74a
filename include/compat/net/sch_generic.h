/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Newer kernels read a queue's length without its lock, and count the segments
 * of each packet once, when it is queued first.
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

/* Count @length more as queued. */
static inline void fp_qdisc_backlog_add(struct Qdisc *sch, u32 length)
{
#ifdef FP_HAVE_QDISC_QLEN_INC
	qstats_backlog_add(sch, length);
#else
	sch->qstats.backlog += length;
#endif
}

/* What @skb is to a qdisc that made it, by segmenting another. */
static inline void fp_qdisc_set_segment(struct sk_buff *skb)
{
	qdisc_skb_cb(skb)->pkt_len = skb->len;
#ifdef FP_HAVE_QDISC_PKT_SEGS
	qdisc_skb_cb(skb)->pkt_segs = 1;
#endif
}

#endif /* FAIRPATH_COMPAT_NET_SCH_GENERIC_H */
