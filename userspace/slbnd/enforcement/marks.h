/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks of packets that leave: options, shares and counters of what marks.bpf.h does.
 * mark.h has which packets are marked.
 */
#ifndef SLBND_MARKS_H
#define SLBND_MARKS_H

#include <fairpath/core.h>
#include <fairpath/dscp.h>

#include "hash.h"

/* Devices whose marks are trusted, at most. */
#define MARKS_DEVICES 16
/* Their names' size: IFNAMSIZ. */
#define MARKS_NAME 16

/* Shares that are known at the same time, a power of two. */
#define MARKS_SHARES 16384

/**
 * struct marks_config - options
 * @on: mark packets
 * @new: DSCP of those at the start of connections that had CS0 (dscp.h)
 * @assigned: DSCP of those within rates, another one
 * @domain: names of devices whose marks are trusted
 * @count: number of @domain
 * @sockets: cookies of slbnd's sockets, whose marks are trusted; 0: none
 */
struct marks_config {
	bool on;
	u32 new;
	u32 assigned;
	char domain[MARKS_DEVICES][MARKS_NAME];
	u32 count;
	u64 sockets[2];
};

/**
 * struct marks_sums - counters of packets since the program was loaded, GSO ones as one
 * @starts: marked as new
 * @assigned: marked as assigned
 * @cleared: that had a mark which was not theirs
 * @refused: that would have been new, but there were too few tokens
 * @restored: whose DSCP was restored, as they arrived for local hosts
 */
struct marks_sums {
	u64 starts;
	u64 assigned;
	u64 cleared;
	u64 refused;
	u64 restored;
};

/**
 * struct marks_share - the share of a path
 * @source: the host, as connections_host()
 * @destination: address, as in struct rates_key
 * @share: bit/s, at least 1
 * @until: when it is not known anymore, ns, CLOCK_BOOTTIME; 0: no entry
 */
struct marks_share {
	u64 source;
	u64 destination[2];
	u64 share;
	u64 until;
};

/* The place of a share; @secret has at least 7 words. */
static inline u32 marks_place(const u64 *secret, u64 source,
			      const u64 *destination)
{
	u64 hash = hash_add(secret[0], secret + 1, source);

	hash = hash_add(hash, secret + 3, destination[0]);
	hash = hash_add(hash, secret + 5, destination[1]);
	return hash_end(hash) & (MARKS_SHARES - 1);
}

struct edt;
struct rates_key;

#ifdef __bpf__
/* See marks.bpf.h. */
int marks_enter(u32 ifindex, u64 now, u64 length, u32 rated);
int marks_exceed(void);
u64 marks_share(void);
#endif

void marks_configure(struct edt *edt, const struct marks_config *config);
int marks_set_domain(struct edt *edt, const struct marks_config *config);
int marks_set_restore(struct edt *edt, const struct marks_config *config);
void marks_set_share(struct edt *edt, const struct rates_key *key, u64 share,
		     u64 until);
void marks_read_sums(const struct edt *edt, struct marks_sums *sums);

#endif /* SLBND_MARKS_H */
