/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoint bic_window: a BIC connection changed its window or reacted to a
 * loss, or by beta_ecn to an ECN mark. Windows are in packets (wmax, target: 0
 * if unknown), inc is the growth per round-trip in thousandths of a packet.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tcp_bic

#if !defined(BIC_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define BIC_TRACE_H

#include <linux/tracepoint.h>
#include <net/inet_sock.h>
#include <net/tcp.h>

TRACE_DEFINE_ENUM(BIC_SLOW_START);
TRACE_DEFINE_ENUM(BIC_LOW_WINDOW);
TRACE_DEFINE_ENUM(BIC_ADDITIVE);
TRACE_DEFINE_ENUM(BIC_BINARY);
TRACE_DEFINE_ENUM(BIC_PROBING);
TRACE_DEFINE_ENUM(BIC_LOSS);
TRACE_DEFINE_ENUM(BIC_ECN);

/* clang-format off */
TRACE_EVENT(bic_window,
	TP_PROTO(const struct sock *sk, const struct bic_params *params,
		 const struct bic_vars *vars, u32 ssthresh, u32 phase),

	TP_ARGS(sk, params, vars, ssthresh, phase),

	TP_STRUCT__entry(
		__field(__u16, sport)
		__field(__u16, dport)
		__field(__u32, cwnd)
		__field(__u32, ssthresh)
		__field(__u32, wmax)
		__field(__u32, target)
		__field(__u32, inc)
		__field(__u8, phase)
	),

	TP_fast_assign(
		__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		__entry->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		__entry->ssthresh = ssthresh;
		__entry->wmax = bic_wmax(params, vars);
		__entry->target = bic_target(params, vars, __entry->cwnd);
		__entry->inc = bic_step(params, vars);
		__entry->phase = phase;
	),

	TP_printk("sport=%u dport=%u cwnd=%u ssthresh=%u wmax=%u target=%u inc=%u phase=%s",
		  __entry->sport, __entry->dport, __entry->cwnd,
		  __entry->ssthresh, __entry->wmax, __entry->target,
		  __entry->inc,
		  __print_symbolic(__entry->phase,
				   { BIC_SLOW_START, "slow_start" },
				   { BIC_LOW_WINDOW, "low_window" },
				   { BIC_ADDITIVE, "additive" },
				   { BIC_BINARY, "binary" },
				   { BIC_PROBING, "probing" },
				   { BIC_LOSS, "loss" },
				   { BIC_ECN, "ecn" }))
);
/* clang-format on */

#endif /* BIC_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE bic_trace
#include <trace/define_trace.h>
