/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * How drr_fq is configured and read over rtnetlink: the contract between the
 * kernel module, the tc plugin and whoever else speaks to it.
 *
 * All numbers are in the host's byte order, as everywhere in rtnetlink. The
 * attributes stand in TCA_OPTIONS (with NLA_F_NESTED); one that is left out
 * keeps its default when the qdisc is made, its value when it is changed. A
 * refused message changes nothing. Later versions append attributes and fields;
 * a reader of statistics fills up with zeros what a kernel did not send.
 */
#ifndef _UAPI_FAIRPATH_DRR_FQ_H
#define _UAPI_FAIRPATH_DRR_FQ_H

#include <linux/types.h>

/**
 * enum drr_fq_scheduler - which backlogged flow sends next
 * @DRR_FQ_DRR: deficit round robin (Shreedhar, Varghese 1995)
 * @DRR_FQ_RR: round robin by packets
 * @DRR_FQ_SCFQ: self-clocked fair queueing (Golestani 1994)
 */
enum drr_fq_scheduler {
	DRR_FQ_DRR,
	DRR_FQ_RR,
	DRR_FQ_SCFQ,
	__DRR_FQ_SCHEDULERS,
};

#define DRR_FQ_SCHEDULER_MAX (__DRR_FQ_SCHEDULERS - 1)

#define DRR_FQ_LIMIT_BYTES_MAX 1073741824
#define DRR_FQ_FLOWS_MAX 1048576
#define DRR_FQ_QUANTUM_MAX 16777216

/* What stands where the user said nothing and the device does not tell. */
#define DRR_FQ_LIMIT_DEFAULT 1000
#define DRR_FQ_LIMIT_BYTES_DEFAULT 33554432
#define DRR_FQ_FLOWS_DEFAULT 1024

/**
 * enum drr_fq_attribute - attributes in TCA_OPTIONS
 * @TCA_DRR_FQ_UNSPEC: none
 * @TCA_DRR_FQ_LIMIT: u32, packets in all queues together, at least 1;
 *	default the device's tx_queue_len, or DRR_FQ_LIMIT_DEFAULT if that is 0
 * @TCA_DRR_FQ_LIMIT_BYTES: u32, bytes in all queues together, at least the
 *	device's MTU and link header, at most DRR_FQ_LIMIT_BYTES_MAX; default
 *	DRR_FQ_LIMIT_BYTES_DEFAULT
 * @TCA_DRR_FQ_FLOWS: u32, queues among which flows are spread, 1 to
 *	DRR_FQ_FLOWS_MAX; default DRR_FQ_FLOWS_DEFAULT
 * @TCA_DRR_FQ_QUANTUM: u32, bytes that a flow may send in each round of
 *	DRR_FQ_DRR, 1 to DRR_FQ_QUANTUM_MAX; default MTU and link header
 * @TCA_DRR_FQ_SCHEDULER: u8, enum drr_fq_scheduler; default DRR_FQ_DRR
 * @TCA_DRR_FQ_SPLIT_GSO: u8, 1: packets that the device would segment are
 *	segmented before they are queued; default 0
 */
enum drr_fq_attribute {
	TCA_DRR_FQ_UNSPEC,
	TCA_DRR_FQ_LIMIT,
	TCA_DRR_FQ_LIMIT_BYTES,
	TCA_DRR_FQ_FLOWS,
	TCA_DRR_FQ_QUANTUM,
	TCA_DRR_FQ_SCHEDULER,
	TCA_DRR_FQ_SPLIT_GSO,
	__TCA_DRR_FQ_MAX,
};

#define TCA_DRR_FQ_MAX (__TCA_DRR_FQ_MAX - 1)

/* What @type of struct tc_drr_fq_xstats says. */
enum drr_fq_xstats_type {
	DRR_FQ_XSTATS_QDISC,
	DRR_FQ_XSTATS_CLASS,
};

/**
 * struct tc_drr_fq_qdisc_stats - the qdisc's own statistics (TCA_STATS_APP)
 * @drops_longest: packets dropped from the front of the longest queue, because
 *	a limit was passed
 * @drops_oversize: packets refused because they alone are beyond limit_bytes
 * @collisions: packets queued behind another flow's, whose hash chose the same
 *	queue
 * @new_flows: how often a queue became backlogged
 * @gso_split: packets that were segmented before they were queued
 * @memory: bytes of the tables
 * @active_flows: queues that are backlogged now
 * @active_flows_max: the most that were so at any time
 * @longest_backlog: bytes in the longest queue now
 * @longest_flow: that queue's number, the minor number of its class; 0 if none
 *	is backlogged
 * @max_packet: bytes of the largest packet seen
 * @unused: 0
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
};

/**
 * struct tc_drr_fq_class_stats - statistics of one backlogged queue
 * @deficit: drr: bytes that it may still send in this round (before its turn:
 *	in its next)
 * @head_length: bytes of its oldest packet
 * @tag: scfq: bytes, its virtual finishing time: that of its oldest packet,
 *	counted from the packet that was sent last
 */
struct tc_drr_fq_class_stats {
	__u32 deficit;
	__u32 head_length;
	__s64 tag;
};

/**
 * struct tc_drr_fq_xstats - what a qdisc or a class has to say about itself
 * @type: enum drr_fq_xstats_type: which of the two follows
 * @unused: 0
 * @qdisc: of a qdisc
 * @queue: of a class
 */
struct tc_drr_fq_xstats {
	__u32 type;
	__u32 unused;
	union {
		struct tc_drr_fq_qdisc_stats qdisc;
		struct tc_drr_fq_class_stats queue;
	};
};

#endif /* _UAPI_FAIRPATH_DRR_FQ_H */
