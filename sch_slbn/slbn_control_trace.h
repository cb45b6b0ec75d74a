/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoint slbn_control: what a link, or the hooks of its namespace, did with a
 * control packet.
 *
 * The verdict is the name of the counter of dropped packets that has grown, as tc
 * shows it, or else
 *
 *	processed	downstream, processed by the link and sent
 *	passed		upstream, sent
 *	answered	downstream, processed, and answered for the host
 *	returned	upstream, processed, and sent to the router before
 *	refused		dropped by the algorithm, which has counters of its own
 *	no_memory	dropped
 *
 * skbaddr is that of the tracepoint skb:kfree_skb, which follows a drop with the
 * kernel's reason: NETFILTER_DROP, or QDISC_DROP below another qdisc. The link is
 * 0 if there is none.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sch_slbn

#if !defined(SLBN_CONTROL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SLBN_CONTROL_TRACE_H

#include <linux/tracepoint.h>

/* clang-format off */
TRACE_EVENT(slbn_control,
	TP_PROTO(const void *skbaddr, int ifindex, u32 link,
		 const char *verdict),

	TP_ARGS(skbaddr, ifindex, link, verdict),

	TP_STRUCT__entry(
		__field(const void *, skbaddr)
		__field(int, ifindex)
		__field(__u32, link)
		__array(char, verdict, 16)
	),

	TP_fast_assign(
		__entry->skbaddr = skbaddr;
		__entry->ifindex = ifindex;
		__entry->link = link;
		strscpy(__entry->verdict, verdict, sizeof(__entry->verdict));
	),

	TP_printk("skbaddr=%p ifindex=%d link=%u verdict=%s",
		  __entry->skbaddr, __entry->ifindex, __entry->link,
		  __entry->verdict)
);
/* clang-format on */

#endif /* SLBN_CONTROL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE slbn_control_trace
#include <trace/define_trace.h>
