/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * rtnetlink interface of the qdisc drr_fq: attributes and statistics, shared by
 * the kernel module, the tc plugin and other clients.
 *
 * Numbers are in host byte order, as usual in rtnetlink. The attributes are
 * nested in TCA_OPTIONS (with NLA_F_NESTED). An omitted attribute takes its
 * default when the qdisc is created and keeps its value when it is changed. A
 * rejected message changes nothing. Later versions may append attributes and
 * fields; readers zero statistics fields that the kernel did not send.
 */
#ifndef _UAPI_FAIRPATH_DRR_FQ_H
#define _UAPI_FAIRPATH_DRR_FQ_H

#include <linux/types.h>

/**
 * enum drr_fq_scheduler - how to choose the next backlogged flow
 * @DRR_FQ_DRR: deficit round robin (Shreedhar, Varghese 1995)
 * @DRR_FQ_RR: round robin per packet
 * @DRR_FQ_SCFQ: self-clocked fair queueing (Golestani 1994)
 */
enum drr_fq_scheduler {
	DRR_FQ_DRR,
	DRR_FQ_RR,
	DRR_FQ_SCFQ,
	__DRR_FQ_SCHEDULERS,
};

#define DRR_FQ_SCHEDULER_MAX (__DRR_FQ_SCHEDULERS - 1)

/**
 * enum drr_fq_band_number - bands of data, in the order of their turns
 * @DRR_FQ_BAND_NEW: start of a connection
 * @DRR_FQ_BAND_ASSIGNED: packets within the rate of a session
 * @DRR_FQ_BAND_UNASSIGNED: all other packets
 */
enum drr_fq_band_number {
	DRR_FQ_BAND_NEW,
	DRR_FQ_BAND_ASSIGNED,
	DRR_FQ_BAND_UNASSIGNED,
	DRR_FQ_BANDS,
};

/* Minimum share of unassigned packets [1/1000]. */
#define DRR_FQ_BANDS_SHARE_MIN 1
#define DRR_FQ_BANDS_SHARE_MAX 250
#define DRR_FQ_BANDS_SHARE_DEFAULT 50

/* Longest wait of unassigned packets [us]. */
#define DRR_FQ_BANDS_WAIT_MIN 1000
#define DRR_FQ_BANDS_WAIT_MAX 10000000
#define DRR_FQ_BANDS_WAIT_DEFAULT 100000

/*
 * Marks of bands [DSCP], for packets with CS0: of those for local use, RFC 2474,
 * section 6. The others of them are the marks of packets with other DSCPs.
 */
#define DRR_FQ_BANDS_MARK_MAX 63
#define DRR_FQ_BANDS_MARK_NEW_DEFAULT 3
#define DRR_FQ_BANDS_MARK_ASSIGNED_DEFAULT 7

/* Whose marks are believed; other values are a group of interfaces. */
#define DRR_FQ_BANDS_DOMAIN_OFF 0
#define DRR_FQ_BANDS_DOMAIN_GROUP_MAX 0x7fffffff
#define DRR_FQ_BANDS_DOMAIN_ALL 0xffffffff

#define DRR_FQ_LIMIT_BYTES_MAX 1073741824
#define DRR_FQ_FLOWS_MAX 1048576
/* The most without CAP_NET_ADMIN in the initial user namespace: 9 MB. */
#define DRR_FQ_FLOWS_SMALL 65536
#define DRR_FQ_QUANTUM_MIN 256
#define DRR_FQ_QUANTUM_MAX 16777216
#define DRR_FQ_MEMORY_LIMIT_MIN 65536
#define DRR_FQ_MEMORY_LIMIT_MAX 2147483648U

/* Ranges of CoDel's times [us]. */
#define DRR_FQ_CODEL_INTERVAL_MIN 1000
#define DRR_FQ_CODEL_MAX 100000000

/* Defaults when neither user nor device gives a value. */
#define DRR_FQ_LIMIT_DEFAULT 1000
#define DRR_FQ_LIMIT_BYTES_DEFAULT 33554432
#define DRR_FQ_FLOWS_DEFAULT 1024
#define DRR_FQ_MEMORY_LIMIT_DEFAULT 67108864
#define DRR_FQ_CODEL_TARGET_DEFAULT 5000
#define DRR_FQ_CODEL_INTERVAL_DEFAULT 100000

/**
 * enum drr_fq_attribute - attributes in TCA_OPTIONS
 * @TCA_DRR_FQ_UNSPEC: unused
 * @TCA_DRR_FQ_LIMIT: u32, total packets in all queues, at least 1; default the
 *	device's tx_queue_len, or DRR_FQ_LIMIT_DEFAULT if that is 0
 * @TCA_DRR_FQ_LIMIT_BYTES: u32, total bytes in all queues, at least the
 *	device's MTU plus link header, at most DRR_FQ_LIMIT_BYTES_MAX; default
 *	DRR_FQ_LIMIT_BYTES_DEFAULT
 * @TCA_DRR_FQ_FLOWS: u32, number of queues that flows are hashed to, 1 to
 *	DRR_FQ_FLOWS_MAX; default DRR_FQ_FLOWS_DEFAULT. More than
 *	DRR_FQ_FLOWS_SMALL need CAP_NET_ADMIN in the initial user namespace
 * @TCA_DRR_FQ_QUANTUM: u32, bytes that a flow may send per round of DRR_FQ_DRR,
 *	DRR_FQ_QUANTUM_MIN to DRR_FQ_QUANTUM_MAX; default MTU plus link header
 * @TCA_DRR_FQ_SCHEDULER: u8, enum drr_fq_scheduler; default DRR_FQ_DRR
 * @TCA_DRR_FQ_SPLIT_GSO: u8, 1: segment GSO packets before they are queued;
 *	default 0
 * @TCA_DRR_FQ_MEMORY_LIMIT: u32, memory of all queued packets (truesize)
 *	[bytes], DRR_FQ_MEMORY_LIMIT_MIN to DRR_FQ_MEMORY_LIMIT_MAX; default
 *	DRR_FQ_MEMORY_LIMIT_DEFAULT, or twice the limit in bytes if that is more
 * @TCA_DRR_FQ_CODEL: u8, 1: CoDel (RFC 8289) drops packets of each queue; default
 *	0. The following attributes are rejected without it
 * @TCA_DRR_FQ_CODEL_TARGET: u32, acceptable delay of a queue [us], 1 to the
 *	interval; default DRR_FQ_CODEL_TARGET_DEFAULT
 * @TCA_DRR_FQ_CODEL_INTERVAL: u32, time in which the delay must once be below
 *	the target [us], DRR_FQ_CODEL_INTERVAL_MIN to DRR_FQ_CODEL_MAX; default
 *	DRR_FQ_CODEL_INTERVAL_DEFAULT
 * @TCA_DRR_FQ_CODEL_ECN: u8, 1: CoDel marks packets that have ECN instead of
 *	dropping them; default 0
 * @TCA_DRR_FQ_CODEL_CE_THRESHOLD: u32, mark packets that have ECN and waited
 *	longer than this [us], at most DRR_FQ_CODEL_MAX; default 0: off
 * @TCA_DRR_FQ_BANDS: u8, 1: new, assigned and unassigned packets are in bands,
 *	enum drr_fq_band_number, which are the classes 1 to DRR_FQ_BANDS; packets
 *	of no such class are unassigned; default 0. The following attributes are
 *	rejected without it
 * @TCA_DRR_FQ_BANDS_UNASSIGNED: u32, minimum share of unassigned packets [1/1000],
 *	DRR_FQ_BANDS_SHARE_MIN to DRR_FQ_BANDS_SHARE_MAX; default
 *	DRR_FQ_BANDS_SHARE_DEFAULT
 * @TCA_DRR_FQ_BANDS_WAIT: u32, longest wait of unassigned packets [us],
 *	DRR_FQ_BANDS_WAIT_MIN to DRR_FQ_BANDS_WAIT_MAX; default
 *	DRR_FQ_BANDS_WAIT_DEFAULT
 * @TCA_DRR_FQ_BANDS_NEW_FLOWS: u32, number of queues that new flows are hashed to,
 *	1 to DRR_FQ_FLOWS_SMALL; default that of TCA_DRR_FQ_FLOWS, which is that
 *	of the assigned band, or DRR_FQ_FLOWS_SMALL if that is less
 * @TCA_DRR_FQ_BANDS_HOSTS: u32, number of queues that senders of unassigned packets
 *	are hashed to; range and default as TCA_DRR_FQ_BANDS_NEW_FLOWS
 * @TCA_DRR_FQ_BANDS_MARK_NEW: u32, mark of new packets with CS0 [DSCP], one of 3, 7, 11, ...
 *	DRR_FQ_BANDS_MARK_MAX; default DRR_FQ_BANDS_MARK_NEW_DEFAULT
 * @TCA_DRR_FQ_BANDS_MARK_ASSIGNED: u32, mark of assigned packets, another one;
 *	default DRR_FQ_BANDS_MARK_ASSIGNED_DEFAULT
 * @TCA_DRR_FQ_BANDS_DOMAIN: u32, whose marks are believed:
 *	DRR_FQ_BANDS_DOMAIN_OFF, marks are not read; DRR_FQ_BANDS_DOMAIN_ALL, those
 *	of all packets; or the group of the interfaces of the domain, at most
 *	DRR_FQ_BANDS_DOMAIN_GROUP_MAX: marks of packets that arrived through
 *	others, and of this host's, are cleared, and on a device that is not in
 *	the group DSCPs of hosts take the place of the others; default
 *	DRR_FQ_BANDS_DOMAIN_OFF
 */
enum drr_fq_attribute {
	TCA_DRR_FQ_UNSPEC,
	TCA_DRR_FQ_LIMIT,
	TCA_DRR_FQ_LIMIT_BYTES,
	TCA_DRR_FQ_FLOWS,
	TCA_DRR_FQ_QUANTUM,
	TCA_DRR_FQ_SCHEDULER,
	TCA_DRR_FQ_SPLIT_GSO,
	TCA_DRR_FQ_MEMORY_LIMIT,
	TCA_DRR_FQ_CODEL,
	TCA_DRR_FQ_CODEL_TARGET,
	TCA_DRR_FQ_CODEL_INTERVAL,
	TCA_DRR_FQ_CODEL_ECN,
	TCA_DRR_FQ_CODEL_CE_THRESHOLD,
	TCA_DRR_FQ_BANDS,
	TCA_DRR_FQ_BANDS_UNASSIGNED,
	TCA_DRR_FQ_BANDS_WAIT,
	TCA_DRR_FQ_BANDS_NEW_FLOWS,
	TCA_DRR_FQ_BANDS_HOSTS,
	TCA_DRR_FQ_BANDS_MARK_NEW,
	TCA_DRR_FQ_BANDS_MARK_ASSIGNED,
	TCA_DRR_FQ_BANDS_DOMAIN,
	__TCA_DRR_FQ_MAX,
};

#define TCA_DRR_FQ_MAX (__TCA_DRR_FQ_MAX - 1)

/*
 * Waits are counted in steps of an eighth, from 8 us to a second; shorter ones in
 * steps of 1024 ns. The shortest wait of step n [1024 ns]:
 */
#define DRR_FQ_WAITS 144
static inline __u32 drr_fq_wait_of(__u32 n)
{
	return n < 8 ? n : (8 + n % 8) << (n / 8 - 1);
}

/* Values of @type in struct tc_drr_fq_xstats. */
enum drr_fq_xstats_type {
	DRR_FQ_XSTATS_QDISC,
	DRR_FQ_XSTATS_CLASS,
	DRR_FQ_XSTATS_BAND,
};

/**
 * struct tc_drr_fq_qdisc_stats - statistics of the qdisc (TCA_STATS_APP)
 * @drops_longest: packets dropped from the front of the longest queue because
 *	a limit was exceeded
 * @drops_oversize: packets dropped because they alone exceed a limit
 * @collisions: packets queued behind those of another flow with the same queue
 * @new_flows: number of times that an empty queue became backlogged
 * @gso_split: packets segmented before they were queued
 * @memory: size of the tables [bytes]
 * @active_flows: backlogged queues
 * @active_flows_max: maximum of @active_flows so far
 * @longest_backlog: backlog of the longest queue [bytes]
 * @longest_flow: number of the longest queue, the minor number of its class; 0
 *	if no queue is backlogged
 * @max_packet: size of the largest packet so far [bytes]
 * @unused: 0
 * @memory_used: memory of the queued packets (truesize) [bytes]
 * @drops_memory: those of @drops_longest because of the memory limit alone
 * @control_packets: packets sent from the control band
 * @control_hashed: control packets queued like others because the band was full
 * @drops_codel: packets dropped by CoDel
 * @ecn_marks: packets that CoDel marked instead, modulo 2^32
 * @ce_marks: packets marked because of the threshold, modulo 2^32
 */
struct tc_drr_fq_qdisc_stats {
	__u64 drops_longest;
	__u64 drops_oversize;
	__u64 collisions;
	__u64 new_flows;
	__u64 gso_split;
	__u64 memory;
	__u32 active_flows;
	__u32 active_flows_max;
	__u32 longest_backlog;
	__u32 longest_flow;
	__u32 max_packet;
	__u32 unused;
	__u64 memory_used;
	__u64 drops_memory;
	__u64 control_packets;
	__u64 control_hashed;
	__u64 drops_codel;
	__u32 ecn_marks;
	__u32 ce_marks;
};

/**
 * struct tc_drr_fq_class_stats - statistics of a backlogged queue
 * @deficit: drr: bytes that it may still send in this round (before its turn:
 *	in its next), 0 if CoDel had it send more
 * @head_length: size of its oldest packet [bytes]
 * @tag: scfq: virtual finishing time of its oldest packet, relative to the
 *	packet sent last [bytes]
 * @delay: with CoDel: how long the packet waited that left last [us]
 * @dropping: 1: CoDel drops or marks packets of the queue
 */
struct tc_drr_fq_class_stats {
	__u32 deficit;
	__u32 head_length;
	__s64 tag;
	__u32 delay;
	__u32 dropping;
};

/**
 * struct tc_drr_fq_band_stats - statistics of a band
 * @drops_late: packets dropped because they waited too long
 * @marks_cleared: packets whose mark of this band was not believed
 * @memory_used: memory of its queued packets (truesize) [bytes]
 * @active_flows: its backlogged queues
 * @deficit: bytes that it may still send in this round
 * @wait_longest: the longest wait of a packet that was sent [1024 ns]
 * @unused: 0
 * @waits: packets sent, by how long they waited, modulo 2^32: number n counts waits
 *	from drr_fq_wait_of(n) on, and shorter than that of the next; the last one
 *	all longer ones
 */
struct tc_drr_fq_band_stats {
	__u64 drops_late;
	__u64 marks_cleared;
	__u64 memory_used;
	__u32 active_flows;
	__u32 deficit;
	__u32 wait_longest;
	__u32 unused;
	__u32 waits[DRR_FQ_WAITS];
};

/**
 * struct tc_drr_fq_xstats - statistics of the qdisc or of a class
 * @type: enum drr_fq_xstats_type, selects the member of the union
 * @unused: 0
 * @qdisc: statistics of the qdisc
 * @queue: statistics of a class
 * @band: statistics of a class that is a band
 */
struct tc_drr_fq_xstats {
	__u32 type;
	__u32 unused;
	union {
		struct tc_drr_fq_qdisc_stats qdisc;
		struct tc_drr_fq_class_stats queue;
		struct tc_drr_fq_band_stats band;
	};
};

#endif /* _UAPI_FAIRPATH_DRR_FQ_H */
