/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of connections in the BPF program (rates.bpf.c): what each connection of a
 * local host sends by the devices where rates are enforced, one entry for each.
 *
 * Most connections are short, and slbnd is never notified of them. It gets a
 * report when a connection has sent enough for a session, and when one that was
 * reported ends (FIN, RST), and reads the entry then. Reports are in a ring of
 * fixed size; one that finds no room is repeated by a later packet.
 *
 * The table has a fixed size, and is set-associative: a connection is in one of the
 * CONNECTIONS_WAYS places of a set, which a keyed hash selects. Hosts share each set
 * fairly (connections_core.h), so that one that floods replaces only its own entries. A
 * connection without a place is not counted; it gets no session, and stays in the
 * default class. A host is an IPv4 address, or the first 64 bits of an
 * IPv6 address, as the packets leave: hosts behind a translated address share its
 * part.
 */
#ifndef SLBND_CONNECTIONS_H
#define SLBND_CONNECTIONS_H

#include "rates.h"

/* Places of a set. */
#define CONNECTIONS_WAYS 8

/* The size of the table, in connections; a power of two. */
#define CONNECTIONS_MIN 1024
#define CONNECTIONS_MAX 1048576
#define CONNECTIONS_DEFAULT 65536

/* Octets of the ring of reports, some thousand. */
#define CONNECTIONS_RING (256 * 1024)

/*
 * A silent connection may lose its place to a host with one place less, after
 * ns: soon if it was never reported and no session matches it, since it loses
 * only its counters. So a host that sends from many source addresses keeps a
 * place only with a packet in each second.
 */
#define CONNECTIONS_SILENT 60000000000ULL
#define CONNECTIONS_SILENT_UNREPORTED 1000000000ULL

/* A connection without a session is reported again while it sends, after ns. */
#define CONNECTIONS_RETRY 4000000000ULL

/**
 * struct rates_connection - a connection; no entry has @last 0
 * @lock: protects all other fields
 * @ended: 1: its sender has sent FIN or RST (TCP)
 * @assigned: 1: a session matched its last packet, whoever joined it
 * @key: its packets as they leave, with all fields
 * @bytes: sent, with link-layer headers; dropped ones count, too
 * @packets: the same in packets, as on the wire
 * @opened: time of the last SYN, ns, CLOCK_BOOTTIME, as the other times
 * @began: time of the first packet without SYN; 0: none yet. Behind @opened by a round
 *	trip
 * @last: time of the last packet
 * @reported: time of the last report; 0: none
 *
 * Counters begin anew with SYN, FIN and RST, and after an idle time.
 */
struct rates_connection {
	struct bpf_spin_lock lock;
	u16 ended;
	u16 assigned;
	struct rates_key key;
	u64 bytes;
	u64 packets;
	u64 opened;
	u64 began;
	u64 last;
	u64 reported;
};

/**
 * struct rates_report - a report of a connection
 * @key: the connection
 * @index: its place in the table
 */
struct rates_report {
	struct rates_key key;
	u64 index;
};

/**
 * struct rates_secret - the key of the table's hash, as long as the table exists
 * @words: random
 */
struct rates_secret {
	u64 words[RATES_SECRET];
};

/* The host that sends a connection. */
static inline u64 connections_host(const struct rates_key *key)
{
	return key->source[0];
}

/* Are two keys equal? */
static inline bool connections_same(const struct rates_key *a,
				    const struct rates_key *b)
{
	return !((a->rest ^ b->rest) | (a->source[0] ^ b->source[0]) |
		 (a->source[1] ^ b->source[1]) |
		 (a->destination[0] ^ b->destination[0]) |
		 (a->destination[1] ^ b->destination[1]));
}

#endif /* SLBND_CONNECTIONS_H */
