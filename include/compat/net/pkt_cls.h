/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Filters of a qdisc must not redirect packets: tcf_classify_qdisc() drops such
 * packets; this provides it on top of tcf_classify().
 */
#ifndef FAIRPATH_COMPAT_NET_PKT_CLS_H
#define FAIRPATH_COMPAT_NET_PKT_CLS_H

#include_next <net/pkt_cls.h>

#ifndef FP_HAVE_TCF_CLASSIFY_QDISC
static inline int tcf_classify_qdisc(struct sk_buff *skb,
				     const struct tcf_proto *tp,
				     struct tcf_result *res, bool compat_mode)
{
	int result = tcf_classify(skb, NULL, tp, res, compat_mode);

	return result == TC_ACT_REDIRECT ? TC_ACT_SHOT : result;
}
#endif

#endif /* FAIRPATH_COMPAT_NET_PKT_CLS_H */
