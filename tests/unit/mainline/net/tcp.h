/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of the kernel that mainline's Reno and BIC need to compile: the
 * members of a socket that they access, and a clock that the test sets.
 */
#ifndef MAINLINE_NET_TCP_H
#define MAINLINE_NET_TCP_H

#include <stdlib.h>

#include <linux/tcp.h>

#include <fairpath/core.h>

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

#define __bpf_kfunc

u32 mainline_ticks_per_second = 250;
u32 mainline_now;

#define HZ ((int)mainline_ticks_per_second)
#define tcp_jiffies32 mainline_now

#define ICSK_CA_PRIV_SIZE (13 * sizeof(u64))

struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
};

struct inet_connection_sock {
	u8 icsk_ca_state;
	u64 icsk_ca_priv[ICSK_CA_PRIV_SIZE / sizeof(u64)];
};

struct sock {
	struct tcp_sock tcp;
	struct inet_connection_sock icsk;
};

#define tcp_sk(sk) (&(sk)->tcp)
#define inet_csk(sk) (&(sk)->icsk)

static inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)sk->icsk.icsk_ca_priv;
}

static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

/* The kernel warns if a window is below 1; tests must not cause that. */
static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 window)
{
	if ((int)window <= 0)
		abort();
	tp->snd_cwnd = window;
}

static inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Always true: the stack calls for growth only if the window is used. */
static inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	(void)sk;
	return true;
}

struct ack_sample {
	u32 pkts_acked;
};

struct module;

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	struct module *owner;
	const char *name;
};

static inline int tcp_register_congestion_control(struct tcp_congestion_ops *o)
{
	(void)o;
	return 0;
}

static inline void
tcp_unregister_congestion_control(struct tcp_congestion_ops *o)
{
	(void)o;
}

/* Functions of mainline's tcp_cong.c. */
u32 tcp_slow_start(struct tcp_sock *tp, u32 acked);
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked);
void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked);
u32 tcp_reno_ssthresh(struct sock *sk);
u32 tcp_reno_undo_cwnd(struct sock *sk);

#endif /* MAINLINE_NET_TCP_H */
