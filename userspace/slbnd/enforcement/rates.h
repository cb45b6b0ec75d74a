/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keys and values of the maps that slbnd (edt.c) and its BPF program
 * (rates.bpf.c) share, and the order in which sessions are matched.
 *
 * The map "flows" has each flow's slot in the arrays "limits" and "states";
 * each device's default class has a state, too, behind those of the flows. Only
 * slbnd writes "flows" and "limits", and only the program writes a state whose
 * slot is in use. A new rate thus applies to the next packet, without races
 * with the counters. slbnd maps "limits" into its memory, so that it extends
 * leases at each answer without a system call.
 */
#ifndef SLBND_RATES_H
#define SLBND_RATES_H

#include <linux/bpf.h>

#include <fairpath/core.h>

#include "codel.h"
#include "enforce.h"
#include "hash.h"
#include "window.h"

/**
 * struct rates_key - a flow; fields that a session leaves open are 0
 * @source: IPv6 address, or rates_v4()
 * @destination: the same
 * @rest: rates_rest()
 *
 * All fields are 64 bits: without CAP_PERFMON, the verifier of Linux 6.1 allows
 * no smaller writes to a stack slot that held a 64-bit value.
 */
struct rates_key {
	u64 source[2];
	u64 destination[2];
	u64 rest;
};

/* An IPv4 address, in the first octets of an address on all machines, as prefixes need it. */
static inline u64 rates_v4(__be32 address)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return (u64)address << 32;
#else
	return address;
#endif
}

/* Ports in network byte order; @version is 4 or 6. */
static inline u64 rates_rest(u8 version, u8 protocol, __be16 source_port,
			     __be16 destination_port)
{
	return version | (u64)protocol << 8 | (u64)source_port << 16 |
	       (u64)destination_port << 32;
}

/* Words of a secret for rates_hash(). */
#define RATES_SECRET 11

/* The hash of a key. */
static inline u32 rates_hash(const struct rates_key *key, const u64 *secret)
{
	u64 hash = hash_add(secret[0], secret + 1, key->source[0]);

	hash = hash_add(hash, secret + 3, key->source[1]);
	hash = hash_add(hash, secret + 5, key->destination[0]);
	hash = hash_add(hash, secret + 7, key->destination[1]);
	hash = hash_add(hash, secret + 9, key->rest);
	return hash_end(hash);
}

/*
 * Fields that a session may specify, besides its destination. The set of those
 * that it does specify is its kind.
 */
#define RATES_PROTOCOL 1
#define RATES_SOURCE_PORT 2
#define RATES_DESTINATION_PORT 4
#define RATES_SOURCE 8
#define RATES_KINDS 16

/*
 * Kinds in the order of lookup, a hexadecimal digit each, so that the most
 * specific session matches: kinds with more fields come first; among kinds with
 * as many, an address is more specific than a port, and a destination port more
 * than a source port.
 */
#define RATES_ORDER 0xfedb7ca965384210ULL

/* The n-th kind to look up, from 0. */
static inline int rates_kind(int n)
{
	return RATES_ORDER >> (4 * (RATES_KINDS - 1 - n)) & 15;
}

/* Mask of the fields of rates_rest() that sessions of a kind specify. */
static inline u64 rates_mask(int kind)
{
	return rates_rest(0xff, kind & RATES_PROTOCOL ? 0xff : 0,
			  kind & RATES_SOURCE_PORT ? 0xffff : 0,
			  kind & RATES_DESTINATION_PORT ? 0xffff : 0);
}

/**
 * struct rates_limit - limit of a flow
 * @rate: assigned rate, bit/s; 0: none
 * @lease: time at which @rate ends, ns, CLOCK_BOOTTIME; ~0: never
 * @burst: depth of its token bucket, as time at @rate, ns
 * @target: CoDel's (codel.h), ns
 * @interval: the same
 * @ceiling: it may send at this rate until @until, bit/s (ceiling.h)
 * @until: ns, CLOCK_BOOTTIME, at most @lease
 *
 * slbnd writes @rate before @lease, and @ceiling before @until; the program reads them
 * in reverse: it never combines an extended lease with the rate before it.
 */
struct rates_limit {
	u64 rate;
	u64 lease;
	u64 burst;
	u64 target;
	u64 interval;
	u64 ceiling;
	u64 until;
};

/*
 * Buckets of a default class, powers of two: sources share it fairly, and the flows of
 * a source its part. Those of flows follow those of sources.
 */
#define RATES_SOURCES 1024
#define RATES_FLOWS 4096
#define RATES_DEVICE_BUCKETS (RATES_SOURCES + RATES_FLOWS)
#define RATES_ALL_BUCKETS (ENFORCE_DEVICES * RATES_DEVICE_BUCKETS)

/**
 * struct rates_device - a device
 * @number: of the device, 0 to ENFORCE_DEVICES - 1
 * @no_fq: 1: it has no fq, so packets are dropped rather than delayed
 * @rate: of its default class, bit/s, at least 1
 * @burst: depth of its token bucket, as time at @rate, ns
 */
struct rates_device {
	u64 number;
	u64 no_fq;
	u64 rate;
	u64 burst;
};

/**
 * struct rates_bucket - backlog of sources or flows with one hash in a default class
 * @backlog: time that it takes to be sent, ns, at @updated
 * @updated: time of the last packet that was not dropped, ns, CLOCK_MONOTONIC
 * @finish: when that packet has been sent, ns, CLOCK_MONOTONIC
 *
 * The lock of the class protects it.
 */
struct rates_bucket {
	u64 backlog;
	u64 updated;
	u64 finish;
};

/* Source addresses: those of this router may be translated ones of hosts. */
enum rates_owner {
	RATES_ROUTER,
	RATES_HOST,
};

/* Prefixes in "prefixes": of hosts, and addresses of this router. */
#define RATES_PREFIXES 4096

/**
 * struct rates_prefix - a prefix of source addresses
 * @head: rates_prefix_head()
 * @address: as in struct rates_key
 */
struct rates_prefix {
	u64 head;
	u64 address[2];
};

/* The map's prefix length, 32 bits, and the IP version before the address. */
static inline u64 rates_prefix_head(u8 version, u32 length)
{
	union {
		u32 words[2];
		u64 head;
	} made = { .words = { 32 + length, version } };

	return made.head;
}

/**
 * struct rates_state - pacing state and counters of a flow or a default class
 * @lock: protects all other fields
 * @length: of its last packet, octets on the wire
 * @mean: moving average of its packets' lengths, 1/16 octet
 * @reserved: 0
 * @rate: that its last packet was paced at, bit/s
 * @departure: departure time of its last packet, ns, CLOCK_MONOTONIC
 * @remainder: of the division by the rate, 10^-9 bit
 * @bytes: sent
 * @packets: sent
 * @drops: packets dropped because they would have waited for too long, or by CoDel
 * @marks: packets that CoDel marked
 * @last: time of its last packet, dropped or not, ns, CLOCK_BOOTTIME
 * @codel: of a flow
 */
struct rates_state {
	struct bpf_spin_lock lock;
	u32 length;
	u32 mean;
	u32 reserved;
	u64 rate;
	u64 departure;
	u64 remainder;
	u64 bytes;
	u64 packets;
	u64 drops;
	u64 marks;
	u64 last;
	struct codel codel;
};

#endif /* SLBND_RATES_H */
