// SPDX-License-Identifier: GPL-2.0
/*
 * The state file. See state.h.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../system/log.h"
#include "state.h"

/* "slbnstat" */
#define MAGIC 0x736c626e73746174ULL
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
/* Records of a new file. */
#define FIRST_RECORDS 256U
/* Longest epoch and RTT, ns: as of the option epoch. */
#define MAX_TIME 3600000000000ULL

/**
 * struct state_head - header of the file
 * @magic: MAGIC
 * @version: STATE_VERSION
 * @size: octets of a record
 * @boot: ID of this boot
 */
struct state_head {
	u64 magic;
	u32 version;
	u32 size;
	char boot[48];
};

/* A change needs another STATE_VERSION. */
static_assert(sizeof(struct state_record) == 536, "STATE_VERSION");
static_assert(sizeof(struct state_record) % sizeof(u64) == 0,
	      "checksum() reads words");

/* Records follow the header. Returns the offset of one, or the size with so many. */
static size_t file_size(u32 records)
{
	return sizeof(struct state_head) +
	       records * sizeof(struct state_record);
}

/* Detects damage, not intent: only slbnd's user can write to the file. */
static u64 checksum(const struct state_record *record)
{
	const u8 *octets = (const u8 *)record;
	size_t at;
	u64 sum = 1, word;

	for (at = sizeof(record->check); at < sizeof(*record);
	     at += sizeof(word)) {
		memcpy(&word, octets + at, sizeof(word));
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
		sum ^= sum >> 32;
	}
	return sum ?: 1;
}

static void make_head(struct state_head *head)
{
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);

	*head = (struct state_head){
		.magic = MAGIC,
		.version = STATE_VERSION,
		.size = sizeof(struct state_record),
	};
	if (fd < 0)
		return;
	/* Without an ID, records are those of a boot without one. */
	if (read(fd, head->boot, sizeof(head->boot)) < 0)
		*head->boot = 0;
	close(fd);
}

/* Reserve memory or disk space. Returns 0 or a negative errno. */
static int grow(struct state *state, u32 records)
{
	int err = posix_fallocate(state->fd, 0, file_size(records));

	if (!err)
		state->records = records;
	return -err;
}

static void write_at(struct state *state, const void *data, size_t size,
		     size_t offset)
{
	if (pwrite(state->fd, data, size, offset) == (ssize_t)size ||
	    state->failed)
		return;
	log_error("state: sessions are not saved: %s", strerror(errno));
	state->failed = true;
}

/* The number of records of an existing file; 0: it cannot be used. */
static u32 count_records(int fd, const struct state_head *head)
{
	struct state_head found;
	struct stat status;
	u64 records;

	if (fstat(fd, &status) || status.st_size < (off_t)file_size(1) ||
	    pread(fd, &found, sizeof(found), 0) != sizeof(found) ||
	    memcmp(&found, head, sizeof(found)))
		return 0;
	records =
		(status.st_size - sizeof(found)) / sizeof(struct state_record);
	return records <= STATE_RECORDS ? records : 0;
}

/**
 * state_load() - use a file, and discard its contents if they are not valid
 * @state: set; unused on failure
 * @fd: the file; the caller closes it on failure
 *
 * Return: 0, or a negative errno.
 */
int state_load(struct state *state, int fd)
{
	static const char discarded[] =
		"state: the file is damaged, or of another version or boot: sessions begin anew";
	struct state_head head;
	u32 records;
	int err;

	make_head(&head);
	records = count_records(fd, &head);
	*state = (struct state){ .fd = fd };
	if (!records) {
		if (lseek(fd, 0, SEEK_END) > 0)
			log_warning("%s", discarded);
		if (ftruncate(fd, 0))
			return -errno;
	}
	err = grow(state, records ?: FIRST_RECORDS);
	if (!err && !records)
		write_at(state, &head, sizeof(head), 0);
	return err;
}

/* May another user write to the file, or read the flows in it? */
static bool is_safe(int fd)
{
	struct stat status;

	return !fstat(fd, &status) && S_ISREG(status.st_mode) &&
	       status.st_uid == geteuid() && !(status.st_mode & 077) &&
	       status.st_nlink == 1;
}

/**
 * state_open() - open and lock the state file
 * @state: set; unused on failure
 * @path: of the file, which is created if it does not exist
 *
 * Return: 0, or a negative errno: -EPERM: other users have access to it;
 * -EWOULDBLOCK: another slbnd uses it.
 */
int state_open(struct state *state, const char *path)
{
	int fd = open(path,
		      O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
			      O_NOCTTY,
		      0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (!is_safe(fd))
		err = -EPERM;
	else if (flock(fd, LOCK_EX | LOCK_NB))
		err = -errno;
	err = err ?: state_load(state, fd);
	if (err)
		close(fd);
	return err;
}

/**
 * state_close() - close the file; it remains
 * @state: from state_open()
 */
void state_close(struct state *state)
{
	close(state->fd);
}

/* Another value than 0 and 1 is no bool. */
static bool is_bool(const bool *value)
{
	return *(const u8 *)value <= 1;
}

/* Is it a packet that a source sends? */
static bool is_packet(const struct slbn_packet *pkt)
{
	return (pkt->type == SLBN_JOIN || pkt->type == SLBN_PROBE ||
		pkt->type == SLBN_LEAVE) &&
	       !pkt->hop && pkt->slots &&
	       (pkt->bottleneck == SLBN_NO_HOP ||
		pkt->bottleneck < pkt->slots) &&
	       is_bool(&pkt->again) && pkt->weight &&
	       pkt->weight <= SLBN_WEIGHT_MAX &&
	       (pkt->slots == 64 || !(pkt->B >> pkt->slots)) &&
	       pkt->bw2 <= SLBN_RATE_MAX && pkt->bw1 <= SLBN_RATE_MAX &&
	       pkt->bw <= SLBN_RATE_MAX && pkt->use1 <= SLBN_RATE_MAX &&
	       pkt->use <= SLBN_RATE_MAX && pkt->g <= SLBN_RATE_MAX;
}

static bool is_source(const struct slbn_source *source, u64 now)
{
	return source->D && source->D <= SLBN_RATE_MAX &&
	       source->rate <= source->D && source->sent <= now &&
	       (source->lease == SLBN_NO_LEASE ||
		source->lease <= now + MAX_TIME) &&
	       is_bool(&source->leaving) && is_bool(&source->urgent) &&
	       is_bool(&source->share_complete) &&
	       source->share <= SLBN_RATE_MAX &&
	       source->pkt.share <= SLBN_RATE_MAX &&
	       source->slots <= SLBN_HOPS_MAX &&
	       source->margin <= SLBN_LEASE_MARGIN_MAX &&
	       source->pkt.slots <= source->slots && is_packet(&source->pkt) &&
	       (source->leaving || source->pkt.type != SLBN_LEAVE) &&
	       !(source->leaving && source->rate);
}

static bool is_record(const struct state_record *record, u32 index, u64 now)
{
	const struct slbn_flow *flow = &record->flow;

	return record->epoch >= AGENT_MIN_EPOCH && record->epoch <= MAX_TIME &&
	       record->rtt <= MAX_TIME && record->longest_rtt <= MAX_TIME &&
	       (flow->family == AF_INET || flow->family == AF_INET6) &&
	       !flow->reserved &&
	       !(record->flags & ~(SLBN_STAYS | SLBN_DETECTED)) &&
	       record->waiting <= 1 && record->metered <= 1 &&
	       (u32)record->source.pkt.id[1] == index &&
	       is_source(&record->source, now);
}

/**
 * state_read() - read a record
 * @state: from state_open()
 * @index: of the session
 * @now: ns, CLOCK_BOOTTIME
 * @record: set
 *
 * Return: 0; -ENOENT: no session; -EBADMSG: invalid.
 */
int state_read(const struct state *state, u32 index, u64 now,
	       struct state_record *record)
{
	if (index >= state->records ||
	    pread(state->fd, record, sizeof(*record), file_size(index)) !=
		    sizeof(*record) ||
	    !record->check)
		return -ENOENT;
	return record->check == checksum(record) &&
			       is_record(record, index, now) ?
		       0 :
		       -EBADMSG;
}

/* Make space for a record. Without it the session is not saved. */
static bool has_space(struct state *state, u32 index)
{
	u32 records = state->records;
	int err = -ENOSPC;

	if (index < records)
		return true;
	while (records <= index)
		records *= 2;
	if (state->failed)
		return false;
	if (records <= STATE_RECORDS)
		err = grow(state, records);
	if (!err)
		return true;
	log_error("state: sessions that begin now are not saved: %s",
		  strerror(-err));
	state->failed = true;
	return false;
}

/*
 * The longest epoch that the session's links may have, ns. That of its timers is at
 * most slbnd's own.
 */
static u64 links_epoch(const struct session *session)
{
	u64 epoch =
		session->timing.lease * 1000 / (1000 - session->source.margin);

	return fp_max64(session->timing.epoch, fp_min64(epoch, MAX_TIME));
}

/**
 * state_save() - write a session's record
 * @state: from state_open(); NULL: do nothing
 * @session: the session
 */
void state_save(struct state *state, const struct session *session)
{
	struct state_record record = {
		.epoch = links_epoch(session),
		.rtt = session->timing.rtt,
		.longest_rtt = session->timing.longest_rtt,
		.cycles = session->cycles,
		.credit = session->budget.credit,
		.flow = session->flow,
		.mark = session->mark,
		.uid = session->owner.uid,
		.flags = session->flags & (SLBN_STAYS | SLBN_DETECTED),
		.waiting = session->waiting,
		.metered = session->budget.metered,
		.source = session->source,
	};

	if (!state || !has_space(state, session->index))
		return;
	record.check = checksum(&record);
	write_at(state, &record, sizeof(record), file_size(session->index));
}

/**
 * state_clear() - delete a session's record
 * @state: from state_open(); NULL: do nothing
 * @index: of the session
 */
void state_clear(struct state *state, u32 index)
{
	static const u64 none;

	if (state && index < state->records)
		write_at(state, &none, sizeof(none), file_size(index));
}
