/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A qdisc's filters cannot redirect packets: tcf_classify_qdisc() says so where
 * it exists, and tcf_classify() does all the rest.
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
