/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What slbnd (enforce.c) and its BPF program (rates.bpf.c) share: the maps' keys
 * and values.
 *
 * A flow is found by its key in the map "flows", which slbnd alone writes: there
 * stand its rate, and its place in the array "states", which the program alone
 * writes while a flow has that place. So a new rate comes at once, and no packet
 * that is counted meanwhile is lost.
 */
#ifndef SLBND_RATES_H
#define SLBND_RATES_H

#include <linux/bpf.h>

#include <fairpath/core.h>

/**
 * struct rates_key - a flow, or what a session says of it; the rest is 0
 * @source: IPv6 address, or an IPv4 address as a number as it stands in memory
 * @destination: the same
 * @rest: rates_rest()
 *
 * It is made of whole words: without CAP_PERFMON, Linux 6.1 lets a program write
 * nothing smaller where such a word has been before.
 */
struct rates_key {
	u64 source[2];
	u64 destination[2];
	u64 rest;
};

/* Ports in network byte order; @version is 4 or 6. */
static inline u64 rates_rest(u8 version, u8 protocol, __be16 source_port,
			     __be16 destination_port)
{
	return version | (u64)protocol << 8 | (u64)source_port << 16 |
	       (u64)destination_port << 32;
}

/*
 * What a session can say, besides its destination. The set of these is its kind.
 */
#define RATES_PROTOCOL 1
#define RATES_SOURCE_PORT 2
#define RATES_DESTINATION_PORT 4
#define RATES_SOURCE 8
#define RATES_KINDS 16

/*
 * Kinds in the order in which they are looked for, a digit each. Those that say
 * more things come first; among those that say as many, an address says more than
 * a port, and the destination's more than the source's.
 */
#define RATES_ORDER 0xfedb7ca965384210ULL

/* Which kind is the n-th to be looked for, from 0. */
static inline int rates_kind(int n)
{
	return RATES_ORDER >> (4 * (RATES_KINDS - 1 - n)) & 15;
}

/* What of rates_rest() a session of some kind says, as a mask. */
static inline u64 rates_said(int kind)
{
	return rates_rest(0xff, kind & RATES_PROTOCOL ? 0xff : 0,
			  kind & RATES_SOURCE_PORT ? 0xffff : 0,
			  kind & RATES_DESTINATION_PORT ? 0xffff : 0);
}

/**
 * struct rates_flow - a flow that is held
 * @rate: bit/s; 0: it is only counted
 * @place: of its state
 * @reserved: 0
 */
struct rates_flow {
	u64 rate;
	u32 place;
	u32 reserved;
};

/**
 * struct rates_state - what a flow has done
 * @lock: of all the rest
 * @length: of its last packet, octets on the wire
 * @mean: of its packets' lengths, sixteenths of an octet
 * @reserved: 0
 * @departure: when its last packet may leave, ns, CLOCK_MONOTONIC
 * @rest: what a division by the rate has left over, 10^-9 bit
 * @bytes: sent
 * @packets: sent
 * @drops: packets that would have had to wait for too long
 * @last: when it last sent something, dropped or not, ns
 */
struct rates_state {
	struct bpf_spin_lock lock;
	u32 length;
	u32 mean;
	u32 reserved;
	u64 departure;
	u64 rest;
	u64 bytes;
	u64 packets;
	u64 drops;
	u64 last;
};

#endif /* SLBND_RATES_H */
