/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two sockets with the same events: one uses mainline's congestion control, the
 * other one of our cores. They must be equal after each event.
 *
 * The events are those that net/ipv4/tcp_input.c and tcp_output.c cause: ACKs
 * (one packet, stretch ACKs, more than a window), recovery to ssthresh,
 * timeouts, undo, restart after idle, changes of the clamp; and arbitrary
 * windows and counts. Their order is random, unlike that of a connection: a
 * core must not depend on it.
 *
 * The tests connect a core to its socket as the modules do.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include "unit.h"

#include <net/tcp.h>

#include <reno.c>

enum event_kind {
	EVENT_RECOVERY,
	EVENT_TIMEOUT,
	EVENT_UNDO,
	EVENT_RESTART,
	EVENT_CLAMP,
	EVENT_WINDOW,
	EVENT_COUNT,
	EVENT_CALM,
	EVENT_ACKS,
};

/**
 * struct event - an event for both sockets
 * @kind: event before the ACK
 * @value: its window, count or clamp
 * @acked: packets that the ACK covers, 0 without an ACK
 */
struct event {
	enum event_kind kind;
	u32 value;
	u32 acked;
};

static struct event event_random(const struct sock *sk, u32 window_max)
{
	u32 kind = rnd_in(0, 99);
	struct event e = { .kind = fp_min(kind, EVENT_ACKS) };
	u32 cwnd = sk->tcp.snd_cwnd;

	switch (e.kind) {
	case EVENT_CLAMP:
		e.value = one_in(2) ? window_max : rnd_size(1, window_max);
		break;
	case EVENT_COUNT:
		e.value = one_in(2) ? 0 : rnd_size(0, 2 * cwnd);
		break;
	default:
		e.value = rnd_size(1, window_max);
		break;
	}

	switch (rnd_in(0, 9)) {
	case 0:
		e.acked = 0;
		break;
	case 1:
		e.acked = cwnd;
		break;
	case 2: /* packets in flight before a window reduction */
		e.acked = cwnd * rnd_in(1, 8) + rnd_in(0, 1);
		break;
	case 3:
		e.acked = rnd_size(1, cwnd);
		break;
	default:
		e.acked = rnd_in(1, 3);
		break;
	}
	return e;
}

static void event_apply(const struct event *e, struct sock *sk,
			const struct tcp_congestion_ops *ops)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ack_sample sample = { .pkts_acked = e->acked };

	switch (e->kind) {
	case EVENT_RECOVERY:
		tp->snd_cwnd_cnt = 0;
		tp->prior_cwnd = tp->snd_cwnd;
		tp->snd_ssthresh = ops->ssthresh(sk);
		icsk->icsk_ca_state = TCP_CA_Recovery;
		tcp_snd_cwnd_set(tp, tp->snd_ssthresh);
		break;
	case EVENT_TIMEOUT:
		tp->prior_cwnd = tp->snd_cwnd;
		tp->snd_ssthresh = ops->ssthresh(sk);
		tp->snd_cwnd_cnt = 0;
		tcp_snd_cwnd_set(tp, 1);
		if (ops->set_state)
			ops->set_state(sk, TCP_CA_Loss);
		icsk->icsk_ca_state = TCP_CA_Loss;
		break;
	case EVENT_UNDO:
		tcp_snd_cwnd_set(tp, ops->undo_cwnd(sk));
		tp->snd_ssthresh = max(tp->snd_ssthresh, tp->prior_cwnd);
		icsk->icsk_ca_state = TCP_CA_Open;
		break;
	case EVENT_RESTART:
		tp->snd_ssthresh =
			max(tp->snd_ssthresh,
			    (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
		tcp_snd_cwnd_set(tp, min(tp->snd_cwnd, 10U));
		break;
	case EVENT_CLAMP:
		tp->snd_cwnd_clamp = e->value;
		break;
	case EVENT_WINDOW:
		tcp_snd_cwnd_set(tp, e->value);
		break;
	case EVENT_COUNT:
		tp->snd_cwnd_cnt = e->value;
		break;
	case EVENT_CALM:
		icsk->icsk_ca_state = TCP_CA_Open;
		break;
	case EVENT_ACKS:
		break;
	}

	if (!e->acked)
		return;
	if (ops->pkts_acked)
		ops->pkts_acked(sk, &sample);
	ops->cong_avoid(sk, 0, e->acked);
}

static void sockets_begin(struct sock *theirs, struct sock *ours,
			  const struct tcp_congestion_ops *their_ops,
			  const struct tcp_congestion_ops *our_ops,
			  u32 window_max)
{
	*theirs = (struct sock){
		.tcp = {
			.snd_cwnd = fp_min(rnd_in(1, 10), window_max),
			.snd_cwnd_clamp = window_max,
			.snd_ssthresh = one_in(2) ? 0x7fffffff :
						    rnd_size(2, window_max + 2),
		},
	};
	*ours = *theirs;
	if (their_ops->init)
		their_ops->init(theirs);
	if (our_ops->init)
		our_ops->init(ours);
}

static void sockets_equal(const struct event *e, const struct sock *theirs,
			  const struct sock *ours)
{
	const struct tcp_sock *a = tcp_sk(theirs), *b = tcp_sk(ours);

	CHECK(a->snd_cwnd == b->snd_cwnd,
	      "event %u %u, ACK of %u: window %u, mainline %u", e->kind,
	      e->value, e->acked, b->snd_cwnd, a->snd_cwnd);
	CHECK(a->snd_cwnd_cnt == b->snd_cwnd_cnt,
	      "event %u %u, ACK of %u, window %u: count %u, mainline %u",
	      e->kind, e->value, e->acked, b->snd_cwnd, b->snd_cwnd_cnt,
	      a->snd_cwnd_cnt);
	CHECK(a->snd_ssthresh == b->snd_ssthresh,
	      "event %u %u, ACK of %u, window %u: ssthresh %u, mainline %u",
	      e->kind, e->value, e->acked, b->snd_cwnd, b->snd_ssthresh,
	      a->snd_ssthresh);
}

#endif /* LOCKSTEP_H */
