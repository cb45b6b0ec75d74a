/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Configuration and state of SLBN links: over rtnetlink as the qdisc "slbn",
 * over generic netlink as the family "slbn".
 *
 * Numbers are in host byte order. An attribute that a request leaves out gets
 * its default when a link is created, and keeps its value when the link is
 * changed. A rejected request changes nothing.
 */
#ifndef _UAPI_FAIRPATH_SLBN_NETLINK_H
#define _UAPI_FAIRPATH_SLBN_NETLINK_H

#include <linux/types.h>

/* Capacity, bit/s: 1 kbit/s to 1 Tbit/s. */
#define SLBN_LINK_RATE_MIN 1000ULL
#define SLBN_LINK_RATE_MAX 1000000000000ULL

/* Epoch, ns: 10 ms to 1 h; 0 is also valid: never rotate. */
#define SLBN_EPOCH_MIN 10000000ULL
#define SLBN_EPOCH_MAX 3600000000000ULL
#define SLBN_EPOCH_DEFAULT 1000000000ULL

/*
 * Memory: entries of 32 bytes, or ns. A time gives at most SLBN_MEMORY_SMALL
 * entries (1 MiB) up to SLBN_MEMORY_SMALL_RATE bit/s, above in proportion, at
 * most SLBN_MEMORY_TIME_ENTRIES (8 MiB). More than SLBN_MEMORY_SMALL entries
 * need CAP_NET_ADMIN in the initial user namespace.
 */
#define SLBN_MEMORY_MAX 4194304
#define SLBN_MEMORY_SMALL 32768
#define SLBN_MEMORY_SMALL_RATE 10000000000ULL
#define SLBN_MEMORY_TIME_ENTRIES 262144
#define SLBN_MEMORY_TIME_MAX 60000000000ULL
#define SLBN_MEMORY_TIME_DEFAULT 1000000000ULL

/* Part of the capacity that is not planned, per mille. */
#define SLBN_HEADROOM_MAX 500
#define SLBN_HEADROOM_DEFAULT 50

/* Limit of control packets, per mille of the link's rate. */
#define SLBN_CONTROL_MAX 1000
#define SLBN_CONTROL_DEFAULT 50

#define SLBN_KEY_LENGTH 16

/**
 * enum slbn_link_attribute - attributes of a link, in TCA_OPTIONS of the qdisc
 *	and in messages of the family
 * @SLBN_A_UNSPEC: not used
 * @SLBN_A_PAD: padding
 * @SLBN_A_RATE: u64, capacity in bit/s, SLBN_LINK_RATE_MIN to _MAX; 0: the
 *	device's speed, also when it changes; default 0
 * @SLBN_A_EPOCH: u64, epoch in ns, after which the ledgers rotate,
 *	SLBN_EPOCH_MIN to _MAX; 0: never, as in the paper; default
 *	SLBN_EPOCH_DEFAULT
 * @SLBN_A_MEMORY: u32, entries of the memory, 0 to SLBN_MEMORY_MAX, rounded up
 * @SLBN_A_MEMORY_TIME: u64, ns, 0 to SLBN_MEMORY_TIME_MAX: as many entries as
 *	control packets can arrive in this time, within the bounds above; default
 *	SLBN_MEMORY_TIME_DEFAULT. Mutually exclusive with SLBN_A_MEMORY
 * @SLBN_A_CONTROL: u32, limit of sent control packets, per mille of the rate, 1
 *	to SLBN_CONTROL_MAX; default SLBN_CONTROL_DEFAULT
 * @SLBN_A_EDGE: u8, 1: hosts are behind the device: drop control packets that
 *	they send, answer those sent to them; default 0
 * @SLBN_A_KEY: binary, SLBN_KEY_LENGTH octets: authenticate control packets
 *	with this key, of number 0, which replaces all keys; 0 octets: no
 *	authentication, the default; never reported. In SLBN_C_KEY_ADD: the key
 * @SLBN_A_KEY_IDS: binary, reported only: numbers of the keys, an octet each,
 *	the newest last; 0 octets: no authentication
 * @SLBN_A_IFINDEX: u32, family only: index of the device
 * @SLBN_A_IFNAME: string, family only: name of the device
 * @SLBN_A_HANDLE: u32, family only, reported only: handle of the qdisc
 * @SLBN_A_STATE: struct slbn_link_state, family only, reported only
 * @SLBN_A_THRESHOLD: u32, change of the fair share since the last event that
 *	triggers an event, per mille, 1 to 1000; default SLBN_THRESHOLD_DEFAULT
 * @SLBN_A_HEADROOM: u32, part of the capacity that fair shares leave free, per
 *	mille, 0 to SLBN_HEADROOM_MAX; default SLBN_HEADROOM_DEFAULT
 * @SLBN_A_COMMIT: u8, 1: sessions get more only from capacity that no session
 *	holds; 0: as in protocol 1 and in the paper; default 1
 * @SLBN_A_KEY_ID: u8, SLBN_C_KEY_ADD and SLBN_C_KEY_RETIRE only: number of the
 *	key
 * @SLBN_A_NUMBER: u16, family only, reported only: number of the link in its
 *	network namespace, which control packets carry; a new link gets a new one
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
	SLBN_A_KEY_IDS,
	SLBN_A_IFINDEX,
	SLBN_A_IFNAME,
	SLBN_A_HANDLE,
	SLBN_A_STATE,
	SLBN_A_THRESHOLD,
	SLBN_A_HEADROOM,
	SLBN_A_COMMIT,
	SLBN_A_KEY_ID,
	SLBN_A_NUMBER,
	__SLBN_A_MAX,
};

#define SLBN_A_MAX (__SLBN_A_MAX - 1)

#define SLBN_THRESHOLD_DEFAULT 10

/**
 * struct slbn_ledger_state - a ledger
 * @BF: sum of the rates of sessions that this link does not restrict, bit/s
 * @NR: sum of the weights of the sessions that this link restricts
 * @N: sum of the weights of all sessions
 * @A: sum of what the sessions hold, bit/s; 0 with commit off
 */
struct slbn_ledger_state {
	__u64 BF;
	__u64 NR;
	__u64 N;
	__u64 A;
};

/**
 * struct slbn_link_state - state and counters of a link; also the statistics of
 *	the qdisc (TCA_STATS_APP). A later version may append fields
 * @capacity: capacity, bit/s: with commit, the most that sessions hold
 * @plan: what the fair shares add up to, bit/s: the capacity less headroom
 * @share: fair share of a session of weight 1 that this link restricts, bit/s
 * @quiet: time for which no session is granted more than it uses, ns: sessions
 *	that the link does not know may use it
 * @cur: current ledger
 * @prev: previous ledger
 * @tag: tag of the current ledger
 * @prev_tag: tag of the previous ledger, or 0
 * @memory_entries: entries of the memory
 * @memory_bytes: size of the memory, bytes
 * @joins: Join packets processed
 * @probes: Probe packets processed
 * @acks: ProbeAck packets processed
 * @leaves: Leave packets processed
 * @new_sessions: sessions counted as new, joins included
 * @limited: ProbeAcks that were granted less than the session's fair share,
 *	since other sessions hold it or the link is quiet
 * @migrated: sessions migrated from the previous to the current ledger
 * @corrected: packets whose state differed from memory, which overrode it
 * @clamped: subtractions clamped to 0 and sums clamped to 2^64 - 1: errors
 * @stale: dropped, older than the newest packet remembered of the session
 * @wrong_path: dropped, from downstream but not counted by this link: the answer
 *	was two epochs late, or the link has been reset
 * @too_many_hops: dropped, the path has more hops than the packet has slots
 * @overuse: dropped, from a source that states a higher use than it was granted
 * @malformed: dropped, not of the format in <uapi/fairpath/slbn.h>
 * @other_version: dropped, control packets of another version of the protocol
 * @bad_checksum: dropped, wrong UDP checksum
 * @fragments: dropped, first fragments of control packets or merged ones (GSO)
 * @bad_key: dropped, not authentic, or authenticated but the link has no key
 * @unknown_key: dropped, authenticated with a key that the link does not have
 * @bad_time: dropped, authentic, but its time differs from the clock by more
 *	than SLBN_AUTH_WINDOW: replayed, or clocks are wrong
 * @bad_return: dropped, answers that were not sent to the address recorded for
 *	this link, or that no route leads back from here: to no unicast address,
 *	or to an unreachable one
 * @unknown_link: dropped, answers to this router for links that it does not
 *	have; of the router, not of the link
 * @no_address: dropped, as the router has no address of the packet's family for
 *	answers
 * @from_hosts: dropped, from hosts at an edge
 * @icmp_dropped: dropped, ICMP errors about control packets, to hosts at an edge
 * @answered: packets answered at an edge
 * @rate_limited: dropped, above the limit of control packets
 * @events: share events, whether or not anyone listened
 */
struct slbn_link_state {
	__u64 capacity;
	__u64 plan;
	__u64 share;
	__u64 quiet;
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
	__u64 limited;
	__u64 migrated;
	__u64 corrected;
	__u64 clamped;
	__u64 stale;
	__u64 wrong_path;
	__u64 too_many_hops;
	__u64 overuse;
	__u64 malformed;
	__u64 other_version;
	__u64 bad_checksum;
	__u64 fragments;
	__u64 bad_key;
	__u64 unknown_key;
	__u64 bad_time;
	__u64 bad_return;
	__u64 unknown_link;
	__u64 no_address;
	__u64 from_hosts;
	__u64 icmp_dropped;
	__u64 answered;
	__u64 rate_limited;
	__u64 events;
};

#define SLBN_GENL_NAME "slbn"
#define SLBN_GENL_VERSION 2
#define SLBN_GENL_GROUP_SHARE "share"

/**
 * enum slbn_command - commands of the family
 * @SLBN_C_UNSPEC: not used
 * @SLBN_C_LINK_GET: get a link, or dump all links of the namespace; replies
 *	have the same command
 * @SLBN_C_LINK_SET: change the configuration of a link; needs CAP_NET_ADMIN
 * @SLBN_C_LINK_RESET: clear ledgers and memory of a link, as after a restart;
 *	needs CAP_NET_ADMIN
 * @SLBN_C_SHARE_EVENT: to multicast group "share": the fair share has moved by
 *	more than the threshold
 * @SLBN_C_KEY_ADD: add a key, SLBN_A_KEY with the number SLBN_A_KEY_ID, to a
 *	link; at most two keys, and not the number of another one. Packets with
 *	either key are accepted and keep their key. Needs CAP_NET_ADMIN
 * @SLBN_C_KEY_RETIRE: remove the key with the number SLBN_A_KEY_ID, but not the
 *	last key: without one packets would not be authenticated. Needs
 *	CAP_NET_ADMIN
 *
 * Requests name the device by SLBN_A_IFINDEX or SLBN_A_IFNAME. Errors: EINVAL
 * (no device named, attribute missing or out of range, or no rate), ENODEV (no
 * such device), ENOENT (the device has no slbn qdisc, or the link no key of
 * this number), EEXIST (the link has a key of this number), ENOSPC (it has two
 * keys), EBUSY (its last key is not retired), ENOMEM, EPERM.
 */
enum slbn_command {
	SLBN_C_UNSPEC,
	SLBN_C_LINK_GET,
	SLBN_C_LINK_SET,
	SLBN_C_LINK_RESET,
	SLBN_C_SHARE_EVENT,
	SLBN_C_KEY_ADD,
	SLBN_C_KEY_RETIRE,
};

#endif /* _UAPI_FAIRPATH_SLBN_NETLINK_H */
