/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * How links of SLBN are configured and read: over rtnetlink as the qdisc
 * "slbn", over generic netlink as the family "slbn".
 *
 * All numbers are in the host's byte order. An attribute that is left out keeps
 * its default when a link is made, its value when it is changed. A refused
 * message changes nothing.
 */
#ifndef _UAPI_FAIRPATH_SLBN_NETLINK_H
#define _UAPI_FAIRPATH_SLBN_NETLINK_H

#include <linux/types.h>

/* bit/s: 1 kbit/s to 1 Tbit/s. */
#define SLBN_LINK_RATE_MIN 1000ULL
#define SLBN_LINK_RATE_MAX 1000000000000ULL

/* ns; 0 besides: never. */
#define SLBN_EPOCH_MIN 10000000ULL
#define SLBN_EPOCH_MAX 3600000000000ULL
#define SLBN_EPOCH_DEFAULT 1000000000ULL

/* Visits remembered. */
#define SLBN_MEMORY_MAX 4194304
#define SLBN_MEMORY_TIME_MAX 60000000000ULL
#define SLBN_MEMORY_TIME_DEFAULT 1000000000ULL

/* Per mille of the link's rate that control packets may take. */
#define SLBN_CONTROL_MAX 1000
#define SLBN_CONTROL_DEFAULT 50

#define SLBN_KEY_LENGTH 16

/**
 * enum slbn_link_attribute - attributes of a link, in TCA_OPTIONS of the qdisc
 *	and in messages of the family
 * @SLBN_A_UNSPEC: none
 * @SLBN_A_PAD: pads
 * @SLBN_A_RATE: u64, capacity in bit/s, SLBN_LINK_RATE_MIN to _MAX; 0: the
 *	device's speed, followed when it changes; default 0
 * @SLBN_A_EPOCH: u64, ns between turns of the ledgers, SLBN_EPOCH_MIN to _MAX;
 *	0: never, the paper's form; default SLBN_EPOCH_DEFAULT
 * @SLBN_A_MEMORY: u32, visits remembered, 0 to SLBN_MEMORY_MAX
 * @SLBN_A_MEMORY_TIME: u64, ns: as many as control packets may come in this
 *	time, 0 to SLBN_MEMORY_TIME_MAX; default SLBN_MEMORY_TIME_DEFAULT. Only
 *	one of the two can be given
 * @SLBN_A_CONTROL: u32, per mille of the rate that control packets may take, 1
 *	to SLBN_CONTROL_MAX; default SLBN_CONTROL_DEFAULT
 * @SLBN_A_EDGE: u8, 1: hosts are behind it: their control packets are dropped,
 *	and it answers for them; default 0
 * @SLBN_A_KEY: SLBN_KEY_LENGTH octets, authenticates control packets; none: no
 *	authentication; never shown
 * @SLBN_A_KEYED: u8, shown: 1 if there is a key
 * @SLBN_A_IFINDEX: u32, family: the device
 * @SLBN_A_IFNAME: string, family: its name
 * @SLBN_A_HANDLE: u32, family, shown: handle of the qdisc
 * @SLBN_A_STATE: struct slbn_link_state, family, shown
 * @SLBN_A_THRESHOLD: u32, per mille by which the fair share has to move before
 *	an event says so, 1 to 1000; default SLBN_THRESHOLD_DEFAULT
 */
enum slbn_link_attribute {
	SLBN_A_UNSPEC,
	SLBN_A_PAD,
	SLBN_A_RATE,
	SLBN_A_EPOCH,
	SLBN_A_MEMORY,
	SLBN_A_MEMORY_TIME,
	SLBN_A_CONTROL,
	SLBN_A_EDGE,
	SLBN_A_KEY,
	SLBN_A_KEYED,
	SLBN_A_IFINDEX,
	SLBN_A_IFNAME,
	SLBN_A_HANDLE,
	SLBN_A_STATE,
	SLBN_A_THRESHOLD,
	__SLBN_A_MAX,
};

#define SLBN_A_MAX (__SLBN_A_MAX - 1)

#define SLBN_THRESHOLD_DEFAULT 10

/**
 * struct slbn_ledger_state - one ledger
 * @BF: sum of the rates of sessions that other links restrict, bit/s
 * @NR: sessions that this link restricts
 * @N: sessions
 */
struct slbn_ledger_state {
	__u64 BF;
	__u64 NR;
	__u64 N;
};

/**
 * struct slbn_link_state - a link's state and counters; also the statistics of
 *	the qdisc (TCA_STATS_APP)
 * @capacity: bit/s in force
 * @share: fair share of a session that the link restricts, bit/s
 * @cur: the current ledger
 * @prev: the previous one
 * @tag: of the current ledger
 * @prev_tag: of the previous one, or 0
 * @memory_entries: visits that can be remembered
 * @memory_bytes: what that takes
 * @joins: Join packets that were processed,
 * @probes: Probe packets,
 * @acks: ProbeAck packets,
 * @leaves: Leave packets
 * @new_sessions: sessions counted as new, joins included
 * @migrated: sessions carried over into the current ledger
 * @corrected: visits at which memory corrected the packet
 * @clamped: subtractions that would have gone below zero, and sums beyond 2^64
 * @stale: dropped: older than what is remembered of the session
 * @wrong_path: dropped: came up through a link that it did not come down
 * @too_many_hops: dropped: the path has more hops than the packet has room for
 * @malformed: dropped: not a packet by the grammar
 * @bad_checksum: dropped: the UDP checksum is wrong
 * @fragments: dropped: first fragments of control packets, or several that were
 *	merged into one
 * @bad_key: dropped: not authentic, or authenticated where no key is known
 * @from_hosts: dropped: came from hosts at an edge
 * @answered: packets turned round at an edge
 * @rate_limited: dropped: beyond the share of control packets
 * @events: changes of the fair share that were told
 */
struct slbn_link_state {
	__u64 capacity;
	__u64 share;
	struct slbn_ledger_state cur;
	struct slbn_ledger_state prev;
	__u16 tag;
	__u16 prev_tag;
	__u32 memory_entries;
	__u64 memory_bytes;
	__u64 joins;
	__u64 probes;
	__u64 acks;
	__u64 leaves;
	__u64 new_sessions;
	__u64 migrated;
	__u64 corrected;
	__u64 clamped;
	__u64 stale;
	__u64 wrong_path;
	__u64 too_many_hops;
	__u64 malformed;
	__u64 bad_checksum;
	__u64 fragments;
	__u64 bad_key;
	__u64 from_hosts;
	__u64 answered;
	__u64 rate_limited;
	__u64 events;
};

#define SLBN_GENL_NAME "slbn"
#define SLBN_GENL_VERSION 1
#define SLBN_GENL_GROUP_SHARE "share"

/**
 * enum slbn_command - commands of the family
 * @SLBN_C_UNSPEC: none
 * @SLBN_C_LINK_GET: get a link, or dump all of the namespace; the answer has
 *	the same number
 * @SLBN_C_LINK_SET: set parameters of a link
 * @SLBN_C_LINK_RESET: forget all sessions of a link, as after a restart
 * @SLBN_C_SHARE_EVENT: to the group "share": the fair share has moved
 */
enum slbn_command {
	SLBN_C_UNSPEC,
	SLBN_C_LINK_GET,
	SLBN_C_LINK_SET,
	SLBN_C_LINK_RESET,
	SLBN_C_SHARE_EVENT,
};

#endif /* _UAPI_FAIRPATH_SLBN_NETLINK_H */
