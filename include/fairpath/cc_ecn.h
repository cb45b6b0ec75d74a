/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Distinguish a window reduction for an ECN mark from one for a loss: the stack
 * calls ssthresh() for both.
 */
#ifndef FAIRPATH_CC_ECN_H
#define FAIRPATH_CC_ECN_H

#include <net/tcp.h>

/**
 * cc_is_ecn_reduction() - check the cause of a call of ssthresh()
 * @sk: the socket
 * @ece: the last ACK had ECE (CA_ACK_ECE of in_ack_event())
 *
 * Only tcp_enter_cwr() clears both prior_ssthresh and undo_marker first; it
 * handles ECE and also congestion in the local qdisc, which drops packets.
 *
 * Return: true for an ECN mark without a loss in congestion avoidance, to which
 * RFC 8511 applies.
 */
static inline bool cc_is_ecn_reduction(const struct sock *sk, bool ece)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return ece && !tp->prior_ssthresh && !tp->undo_marker &&
	       !tcp_in_slow_start(tp);
}

#endif /* FAIRPATH_CC_ECN_H */
