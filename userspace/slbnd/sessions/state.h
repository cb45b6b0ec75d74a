/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state file: the sessions, so that the next slbnd continues them with their
 * IDs, sequence numbers and leases, and links do not count them twice.
 *
 * The file has a record for each entry of the agent's table (agent.h), which is
 * written before its packet is sent, and before an assigned rate is used: so it
 * is complete after kill -9, too. It is not mapped into memory: if another
 * program truncated the file, a signal would end slbnd. The file need not
 * survive a crash of the system, since rates and ledgers do not either: leases
 * are times since boot, so records of an earlier boot are not used. It contains
 * no keys.
 *
 * Each record has a checksum, so a record that was written in part is not
 * valid. All fields are checked when they are read. A file of another version
 * or boot, or with an invalid header, and invalid records are discarded: their
 * sessions begin anew, and links count them for up to two epochs more.
 */
#ifndef SLBND_STATE_H
#define SLBND_STATE_H

#include "agent.h"

/* Of records; changes with struct state_record and all that it contains. */
#define STATE_VERSION 2
/* Maximum number of records: as many as connections (flows.h). */
#define STATE_RECORDS 262144U

/**
 * struct state_record - a session
 * @check: checksum of the rest; 0: no session
 * @epoch: as in struct session, like all fields up to @source
 * @rtt: ns
 * @longest_rtt: ns
 * @cycles: completed cycles
 * @credit: of a metered session
 * @flow: its packets
 * @mark: of its control packets
 * @uid: of the client that joined it
 * @flags: SLBN_STAYS, SLBN_DETECTED
 * @waiting: its packet is in flight
 * @metered: @credit limits it
 * @reserved: 0
 * @source: the source's task
 */
struct state_record {
	u64 check;
	u64 epoch;
	u64 rtt;
	u64 longest_rtt;
	u64 cycles;
	struct agent_credit credit;
	struct slbn_flow flow;
	u32 mark;
	u32 uid;
	u32 flags;
	u8 waiting;
	u8 metered;
	u16 reserved;
	struct slbn_source source;
};

/**
 * struct state - an open state file
 * @fd: the file, locked
 * @records: number of its records
 * @failed: it could not grow or be written; logged
 */
struct state {
	int fd;
	u32 records;
	bool failed;
};

/*
 * Have links dropped the session's last packet with their ledgers? Those without an
 * epoch, which grant no leases, never do.
 */
static inline bool state_is_forgotten(const struct state_record *record,
				      u64 now)
{
	return (!record->cycles || record->source.lease != SLBN_NO_LEASE) &&
	       now - record->source.sent > 2 * record->epoch;
}

int state_open(struct state *state, const char *path);
int state_load(struct state *state, int fd);
void state_close(struct state *state);
int state_read(const struct state *state, u32 index, u64 now,
	       struct state_record *record);
void state_save(struct state *state, const struct session *session);
void state_clear(struct state *state, u32 index);

#endif /* SLBND_STATE_H */
