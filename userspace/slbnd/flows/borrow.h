/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Borrowing: ceilings of sessions, and what those of a host borrow together.
 *
 * The rule is in ceiling.h. At each answer slbnd reads the session's counters,
 * which the BPF program keeps in memory that both map, and sets its ceiling
 * there: no system call. Only detected flows borrow: their demand follows what
 * they use. Sessions that clients join keep the demand that the clients asked
 * for.
 *
 * A host is an IPv4 address, or an IPv6 prefix of 64 bits.
 */
#ifndef SLBND_BORROW_H
#define SLBND_BORROW_H

#include "../enforcement/enforce.h"
#include "../sessions/session.h"

struct agent;

/**
 * struct borrow - all borrowers
 * @groups: tree of groups
 * @octets: borrowed since the start
 */
struct borrow {
	void *groups;
	u64 octets;
};

void borrow_answered(struct borrow *borrow, struct enforce *enforce,
		     struct session *session, u64 now);
void borrow_limit(struct borrow *borrow, struct session *session,
		  struct enforce_limit *limit);
void borrow_end(struct borrow *borrow, struct session *session);
void borrow_describe(const struct borrower *borrower, u64 now,
		     struct slbn_session *to);
u32 borrow_count(const struct agent *agent, u64 now);
void borrow_free(struct borrow *borrow);

#endif /* SLBND_BORROW_H */
