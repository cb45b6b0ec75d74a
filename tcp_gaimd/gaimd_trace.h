/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoint gaimd_window: a GAIMD connection changed its window or reacted to
 * a loss, or by beta_ecn to an ECN mark. Windows are in packets, alpha and beta
 * in thousandths.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tcp_gaimd

#if !defined(GAIMD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define GAIMD_TRACE_H

#include <linux/tracepoint.h>
#include <net/inet_sock.h>
#include <net/tcp.h>

TRACE_DEFINE_ENUM(GAIMD_SLOW_START);
TRACE_DEFINE_ENUM(GAIMD_INCREASE);
TRACE_DEFINE_ENUM(GAIMD_LOSS);
TRACE_DEFINE_ENUM(GAIMD_ECN);

/* clang-format off */
TRACE_EVENT(gaimd_window,
	TP_PROTO(const struct sock *sk, const struct gaimd_params *params,
		 u32 ssthresh, enum gaimd_phase phase),

	TP_ARGS(sk, params, ssthresh, phase),

	TP_STRUCT__entry(
		__field(__u16, sport)
		__field(__u16, dport)
		__field(__u32, cwnd)
		__field(__u32, ssthresh)
		__field(__u32, alpha)
		__field(__u32, beta)
		__field(__u8, phase)
	),

	TP_fast_assign(
		__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		__entry->cwnd = tcp_snd_cwnd(tcp_sk(sk));
		__entry->ssthresh = ssthresh;
		__entry->alpha = params->alpha;
		__entry->beta = params->beta;
		__entry->phase = phase;
	),

	TP_printk("sport=%u dport=%u cwnd=%u ssthresh=%u alpha=%u beta=%u phase=%s",
		  __entry->sport, __entry->dport, __entry->cwnd,
		  __entry->ssthresh, __entry->alpha, __entry->beta,
		  __print_symbolic(__entry->phase,
				   { GAIMD_SLOW_START, "slow_start" },
				   { GAIMD_INCREASE, "increase" },
				   { GAIMD_LOSS, "loss" },
				   { GAIMD_ECN, "ecn" }))
);
/* clang-format on */

#endif /* GAIMD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE gaimd_trace
#include <trace/define_trace.h>
