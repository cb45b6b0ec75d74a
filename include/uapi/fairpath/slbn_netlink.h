/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
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

/* Quiet time after a start, ns: as epochs. */
#define SLBN_QUIET_DEFAULT SLBN_EPOCH_DEFAULT

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

/* Largest part of unassigned packets, per mille of the link's rate. */
#define SLBN_UNASSIGNED_MAX 500
#define SLBN_UNASSIGNED_DEFAULT 50

/* Limit of control packets, per mille of the link's rate. */
#define SLBN_CONTROL_MAX 1000
#define SLBN_CONTROL_DEFAULT 50

/* Change of the share that triggers an event, per mille. */
#define SLBN_THRESHOLD_MAX 1000
#define SLBN_THRESHOLD_DEFAULT 10

#define SLBN_KEY_LENGTH 16

/**
 * enum slbn_option_attribute - options of a link: TCA_OPTIONS of the qdisc, and
 *	SLBN_A_OPTIONS of the family
 * @TCA_SLBN_UNSPEC: not used
 * @TCA_SLBN_PAD: padding
 * @TCA_SLBN_RATE: u64, capacity in bit/s, SLBN_LINK_RATE_MIN to _MAX; 0: the
 *	device's speed, also when it changes; default 0
 * @TCA_SLBN_EPOCH: u64, epoch in ns, after which the ledgers rotate,
 *	SLBN_EPOCH_MIN to _MAX; 0: never, as in the paper; default
 *	SLBN_EPOCH_DEFAULT
 * @TCA_SLBN_MEMORY: u32, entries of the memory, 0 to SLBN_MEMORY_MAX, rounded up
 * @TCA_SLBN_MEMORY_TIME: u64, ns, 0 to SLBN_MEMORY_TIME_MAX: as many entries as
 *	control packets can arrive in this time, within the bounds above; default
 *	SLBN_MEMORY_TIME_DEFAULT. Mutually exclusive with TCA_SLBN_MEMORY
 * @TCA_SLBN_CONTROL: u32, limit of sent control packets, per mille of the rate,
 *	1 to SLBN_CONTROL_MAX; default SLBN_CONTROL_DEFAULT
 * @TCA_SLBN_EDGE: u8, 1: hosts are behind the device: drop control packets that
 *	they send, answer those sent to them; default 0
 * @TCA_SLBN_KEY: binary, SLBN_KEY_LENGTH octets: authenticate control packets
 *	with this key, which replaces all keys; 0 octets: no authentication, the
 *	default; never reported
 * @TCA_SLBN_KEY_IDS: binary, reported only: numbers of the keys, an octet each,
 *	the newest last; 0 octets: no authentication
 * @TCA_SLBN_THRESHOLD: u32, change of the fair share since the last event that
 *	triggers an event, per mille, 1 to SLBN_THRESHOLD_MAX; default
 *	SLBN_THRESHOLD_DEFAULT
 * @TCA_SLBN_HEADROOM: u32, part of the capacity that fair shares leave free, per
 *	mille, 0 to SLBN_HEADROOM_MAX; default SLBN_HEADROOM_DEFAULT. Turns
 *	TCA_SLBN_HEADROOM_AUTO off; reported only if that is off
 * @TCA_SLBN_COMMIT: u8, 1: sessions get more only from capacity that no session
 *	holds; 0: as in protocol 1 and in the paper; default 1
 * @TCA_SLBN_QUIET: u64, time after a start of the link in which no rate rises, ns:
 *	SLBN_EPOCH_MIN to _MAX, at least the longest lease that a source in the domain
 *	may have, and if shorter than the epoch, that; 0: SLBN_QUIET_DEFAULT or the
 *	epoch, the longer, but none without an epoch; default 0. Skipped by a new
 *	link whose device had carrier and sent nothing for as long
 * @TCA_SLBN_HEADROOM_AUTO: u8, 1: fair shares leave free what control packets
 *	take, the share of unassigned packets, and 0.5 %; 0: TCA_SLBN_HEADROOM;
 *	default 0. 1 and TCA_SLBN_HEADROOM are mutually exclusive
 * @TCA_SLBN_UNASSIGNED: u32, the most that packets without a session take, per
 *	mille of the capacity, 0 to SLBN_UNASSIGNED_MAX; of no effect unless
 *	TCA_SLBN_HEADROOM_AUTO is 1; default SLBN_UNASSIGNED_DEFAULT
 * @TCA_SLBN_KEY_ID: u8, number of the key in TCA_SLBN_KEY, which is required;
 *	default 0; never reported
 */
enum slbn_option_attribute {
	TCA_SLBN_UNSPEC,
	TCA_SLBN_PAD,
	TCA_SLBN_RATE,
	TCA_SLBN_EPOCH,
	TCA_SLBN_MEMORY,
	TCA_SLBN_MEMORY_TIME,
	TCA_SLBN_CONTROL,
	TCA_SLBN_EDGE,
	TCA_SLBN_KEY,
	TCA_SLBN_KEY_IDS,
	TCA_SLBN_THRESHOLD,
	TCA_SLBN_HEADROOM,
	TCA_SLBN_COMMIT,
	TCA_SLBN_QUIET,
	TCA_SLBN_HEADROOM_AUTO,
	TCA_SLBN_UNASSIGNED,
	TCA_SLBN_KEY_ID,
	__TCA_SLBN_MAX,
};

#define TCA_SLBN_MAX (__TCA_SLBN_MAX - 1)

/**
 * enum slbn_link_attribute - attributes of a link in messages of the family
 * @SLBN_A_UNSPEC: not used
 * @SLBN_A_IFINDEX: u32, index of the device
 * @SLBN_A_IFNAME: string, name of the device
 * @SLBN_A_HANDLE: u32, reported only: handle of the qdisc
 * @SLBN_A_NUMBER: u16, reported only: number of the link in its network
 *	namespace, which control packets carry; a new link gets a new one
 * @SLBN_A_OPTIONS: nest, enum slbn_option_attribute
 * @SLBN_A_STATE: nest, reported only: enum slbn_state_attribute
 * @SLBN_A_KEY: binary, SLBN_KEY_LENGTH octets, SLBN_C_KEY_ADD only: the key
 * @SLBN_A_KEY_ID: u8, SLBN_C_KEY_ADD and SLBN_C_KEY_RETIRE only: number of the
 *	key
 */
enum slbn_link_attribute {
	SLBN_A_UNSPEC,
	SLBN_A_IFINDEX,
	SLBN_A_IFNAME,
	SLBN_A_HANDLE,
	SLBN_A_NUMBER,
	SLBN_A_OPTIONS,
	SLBN_A_STATE,
	SLBN_A_KEY,
	SLBN_A_KEY_ID,
	__SLBN_A_MAX,
};

#define SLBN_A_MAX (__SLBN_A_MAX - 1)

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
 * struct slbn_link_state - state and counters of a link, as the statistics of
 *	the qdisc (TCA_STATS_APP). Later versions append fields: readers must
 *	accept longer and shorter ones. All fields have 64 bits and are in the
 *	order of enum slbn_state_attribute
 * @capacity: capacity, bit/s: with commit, the most that sessions hold
 * @plan: what the fair shares add up to, bit/s: the capacity less headroom, at
 *	present
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
 *	was two epochs late, or the link has been reset; or a LeaveAck whose
 *	Leave is not in the memory
 * @too_many_hops: dropped, the path has more hops than the packet has slots
 * @overuse: dropped, from a source that states a higher use than it was granted
 * @malformed: dropped, not of the format in <uapi/fairpath/slbn.h>, or with an
 *	IPv6 routing header that has segments left
 * @other_version: dropped, control packets of another version of the protocol
 * @bad_checksum: dropped, wrong UDP checksum
 * @fragments: dropped, first fragments of control packets or merged ones (GSO)
 * @bad_key: dropped, not authentic, or authenticated but the link has no key
 * @unknown_key: dropped, authenticated with a key that the link does not have
 * @bad_time: dropped, authentic, but its time differs from the clock by more
 *	than SLBN_AUTH_WINDOW: replayed, or clocks are wrong
 * @bad_return: dropped, answers that were not sent to the address recorded for
 *	this link or not from that of the next router, that name this link
 *	twice, or that no route leads back from here: to no unicast address, or
 *	to an unreachable one
 * @unknown_link: dropped, answers to this router for links that it does not
 *	have; of the router, not of the link
 * @no_address: dropped, as the router has no address of the packet's family for
 *	answers
 * @from_hosts: dropped, from hosts at an edge
 * @icmp_dropped: dropped, ICMP errors about control packets, to hosts at an edge
 * @answered: packets answered at an edge; not those whose reply was lost for
 *	lack of memory or by a full backlog
 * @rate_limited: dropped, above the limit of control packets
 * @events: share events, whether or not anyone listened
 * @bypassed: packets that the device has sent, but not by its qdiscs, since the
 *	link was added: by XDP or hardware, so without the link. 0 if a qdisc of
 *	the device does not count
 * @leave_acks: LeaveAck packets forwarded
 * @from_users: dropped, from programs on this router whose socket was opened
 *	without CAP_NET_ADMIN; of the router, not of the link
 */
struct slbn_link_state {
	__u64 capacity;
	__u64 plan;
	__u64 share;
	__u64 quiet;
	struct slbn_ledger_state cur;
	struct slbn_ledger_state prev;
	__u64 tag;
	__u64 prev_tag;
	__u64 memory_entries;
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
	__u64 bypassed;
	__u64 leave_acks;
	__u64 from_users;
};

/**
 * enum slbn_state_attribute - state and counters of a link in messages of the
 *	family, u64 each: the fields of struct slbn_link_state, in its order
 * @SLBN_A_STATE_UNSPEC: not used
 * @SLBN_A_STATE_PAD: padding
 * @SLBN_A_STATE_CAPACITY: @capacity
 * @SLBN_A_STATE_PLAN: @plan
 * @SLBN_A_STATE_SHARE: @share
 * @SLBN_A_STATE_QUIET: @quiet
 * @SLBN_A_STATE_CUR_BF: @cur.BF
 * @SLBN_A_STATE_CUR_NR: @cur.NR
 * @SLBN_A_STATE_CUR_N: @cur.N
 * @SLBN_A_STATE_CUR_A: @cur.A
 * @SLBN_A_STATE_PREV_BF: @prev.BF
 * @SLBN_A_STATE_PREV_NR: @prev.NR
 * @SLBN_A_STATE_PREV_N: @prev.N
 * @SLBN_A_STATE_PREV_A: @prev.A
 * @SLBN_A_STATE_TAG: @tag
 * @SLBN_A_STATE_PREV_TAG: @prev_tag
 * @SLBN_A_STATE_MEMORY_ENTRIES: @memory_entries
 * @SLBN_A_STATE_MEMORY_BYTES: @memory_bytes
 * @SLBN_A_STATE_JOINS: @joins
 * @SLBN_A_STATE_PROBES: @probes
 * @SLBN_A_STATE_ACKS: @acks
 * @SLBN_A_STATE_LEAVES: @leaves
 * @SLBN_A_STATE_NEW_SESSIONS: @new_sessions
 * @SLBN_A_STATE_LIMITED: @limited
 * @SLBN_A_STATE_MIGRATED: @migrated
 * @SLBN_A_STATE_CORRECTED: @corrected
 * @SLBN_A_STATE_CLAMPED: @clamped
 * @SLBN_A_STATE_STALE: @stale
 * @SLBN_A_STATE_WRONG_PATH: @wrong_path
 * @SLBN_A_STATE_TOO_MANY_HOPS: @too_many_hops
 * @SLBN_A_STATE_OVERUSE: @overuse
 * @SLBN_A_STATE_MALFORMED: @malformed
 * @SLBN_A_STATE_OTHER_VERSION: @other_version
 * @SLBN_A_STATE_BAD_CHECKSUM: @bad_checksum
 * @SLBN_A_STATE_FRAGMENTS: @fragments
 * @SLBN_A_STATE_BAD_KEY: @bad_key
 * @SLBN_A_STATE_UNKNOWN_KEY: @unknown_key
 * @SLBN_A_STATE_BAD_TIME: @bad_time
 * @SLBN_A_STATE_BAD_RETURN: @bad_return
 * @SLBN_A_STATE_UNKNOWN_LINK: @unknown_link
 * @SLBN_A_STATE_NO_ADDRESS: @no_address
 * @SLBN_A_STATE_FROM_HOSTS: @from_hosts
 * @SLBN_A_STATE_ICMP_DROPPED: @icmp_dropped
 * @SLBN_A_STATE_ANSWERED: @answered
 * @SLBN_A_STATE_RATE_LIMITED: @rate_limited
 * @SLBN_A_STATE_EVENTS: @events
 * @SLBN_A_STATE_BYPASSED: @bypassed
 * @SLBN_A_STATE_LEAVE_ACKS: @leave_acks
 * @SLBN_A_STATE_FROM_USERS: @from_users
 */
enum slbn_state_attribute {
	SLBN_A_STATE_UNSPEC,
	SLBN_A_STATE_PAD,
	SLBN_A_STATE_CAPACITY,
	SLBN_A_STATE_PLAN,
	SLBN_A_STATE_SHARE,
	SLBN_A_STATE_QUIET,
	SLBN_A_STATE_CUR_BF,
	SLBN_A_STATE_CUR_NR,
	SLBN_A_STATE_CUR_N,
	SLBN_A_STATE_CUR_A,
	SLBN_A_STATE_PREV_BF,
	SLBN_A_STATE_PREV_NR,
	SLBN_A_STATE_PREV_N,
	SLBN_A_STATE_PREV_A,
	SLBN_A_STATE_TAG,
	SLBN_A_STATE_PREV_TAG,
	SLBN_A_STATE_MEMORY_ENTRIES,
	SLBN_A_STATE_MEMORY_BYTES,
	SLBN_A_STATE_JOINS,
	SLBN_A_STATE_PROBES,
	SLBN_A_STATE_ACKS,
	SLBN_A_STATE_LEAVES,
	SLBN_A_STATE_NEW_SESSIONS,
	SLBN_A_STATE_LIMITED,
	SLBN_A_STATE_MIGRATED,
	SLBN_A_STATE_CORRECTED,
	SLBN_A_STATE_CLAMPED,
	SLBN_A_STATE_STALE,
	SLBN_A_STATE_WRONG_PATH,
	SLBN_A_STATE_TOO_MANY_HOPS,
	SLBN_A_STATE_OVERUSE,
	SLBN_A_STATE_MALFORMED,
	SLBN_A_STATE_OTHER_VERSION,
	SLBN_A_STATE_BAD_CHECKSUM,
	SLBN_A_STATE_FRAGMENTS,
	SLBN_A_STATE_BAD_KEY,
	SLBN_A_STATE_UNKNOWN_KEY,
	SLBN_A_STATE_BAD_TIME,
	SLBN_A_STATE_BAD_RETURN,
	SLBN_A_STATE_UNKNOWN_LINK,
	SLBN_A_STATE_NO_ADDRESS,
	SLBN_A_STATE_FROM_HOSTS,
	SLBN_A_STATE_ICMP_DROPPED,
	SLBN_A_STATE_ANSWERED,
	SLBN_A_STATE_RATE_LIMITED,
	SLBN_A_STATE_EVENTS,
	SLBN_A_STATE_BYPASSED,
	SLBN_A_STATE_LEAVE_ACKS,
	SLBN_A_STATE_FROM_USERS,
	__SLBN_A_STATE_MAX,
};

#define SLBN_A_STATE_MAX (__SLBN_A_STATE_MAX - 1)

/* Attribute of the first field of struct slbn_link_state. */
#define SLBN_A_STATE_FIRST SLBN_A_STATE_CAPACITY

#define SLBN_GENL_NAME "slbn"
#define SLBN_GENL_VERSION 3
#define SLBN_GENL_GROUP_SHARE "share"
#define SLBN_GENL_GROUP_LINK "link"

/**
 * enum slbn_command - commands of the family
 * @SLBN_C_UNSPEC: not used
 * @SLBN_C_LINK_GET: get a link, or dump all links of the namespace, or those
 *	that SLBN_A_IFINDEX or SLBN_A_IFNAME select; replies have the same command
 * @SLBN_C_LINK_SET: change SLBN_A_OPTIONS of a link; needs CAP_NET_ADMIN. Sends
 *	no rtnetlink notification: SLBN_C_LINK_CHANGE_NTF reports changes over
 *	both interfaces
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
 * @SLBN_C_LINK_ADD_NTF: to multicast group "link": a device has become a link;
 *	attributes as in a reply to SLBN_C_LINK_GET, as in the two below
 * @SLBN_C_LINK_CHANGE_NTF: to multicast group "link": the options or the
 *	capacity of a link have changed, or it was reset. A request that sets
 *	what was set before sends no event
 * @SLBN_C_LINK_DEL_NTF: to multicast group "link": a link is removed
 *
 * Requests name the device by SLBN_A_IFINDEX or SLBN_A_IFNAME. Errors: EINVAL
 * (no device named, attribute missing, or no rate), ERANGE (attribute out of
 * range), ENODEV (no
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
	SLBN_C_LINK_ADD_NTF,
	SLBN_C_LINK_CHANGE_NTF,
	SLBN_C_LINK_DEL_NTF,
};

#endif /* _UAPI_FAIRPATH_SLBN_NETLINK_H */
