// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz the reader of slbnd's state file: the file has any contents, or records of a
 * session of which some octets are changed, with the right checksum or not.
 *
 * A record that is accepted must be one with which a session can go on: its packets
 * are valid, before and after transmissions and an acknowledgment.
 */
#include <stdarg.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "userspace/slbnd/sessions/state.c"

#define NOW 100000000000ULL

void log_message(int level, const char *format, ...)
{
	(void)level;
	(void)format;
}

static int file = -1;

static void write_file(const void *data, size_t size)
{
	HOLDS(!ftruncate(file, 0));
	HOLDS(pwrite(file, data, size, 0) == (ssize_t)size);
}

/* A session whose packet is in flight. */
static void make_session(struct octets *in, struct session *session)
{
	u64 id[2] = { draw8(in), draw8(in) % 4 };

	memset(session, 0, sizeof(*session));
	session->index = id[1];
	session->timing.epoch = draw(in, 10, 3600000) * 1000000;
	session->flow.family = draw8(in) % 2 ? AF_INET : AF_INET6;
	session->flags = draw8(in);
	session->waiting = draw8(in) % 2;
	slbn_source_join(&session->source, id, fp_max64(draw_rate(in), 1),
			 draw(in, 1, SLBN_WEIGHT_MAX),
			 draw(in, 1, SLBN_HOPS_MAX));
	slbn_source_transmit(&session->source, NOW);
}

static void check_session(const struct state_record *record)
{
	struct slbn_source src;
	struct slbn_packet ack;
	u32 n;

	memcpy(&src, &record->source, sizeof(src));
	HOLDS(record->epoch >= AGENT_MIN_EPOCH && record->epoch <= MAX_TIME);
	HOLDS(record->waiting <= 1 && record->metered <= 1);
	HOLDS(src.rate <= src.D && src.sent <= NOW);
	for (n = 0; n < 4; n++) {
		HOLDS(is_valid(&src.pkt, src.slot));
		slbn_source_transmit(&src, NOW + n * 1000000);
	}
	HOLDS(is_valid(&src.pkt, src.slot));
	ack = src.pkt;
	slbn_destination_reply(&ack);
	if (slbn_source_ack(&src, &ack, src.slot, NOW) == SLBN_CYCLE_DONE)
		HOLDS(is_valid(&src.pkt, src.slot));
}

/* Read all records of the file. Returns how many are valid. */
static u32 read_all(void)
{
	struct state_record record;
	struct state state;
	u32 n, valid = 0;

	HOLDS(!state_load(&state, dup(file)));
	HOLDS(state.records && state.records <= STATE_RECORDS);
	for (n = 0; n <= state.records; n++) {
		if (state_read(&state, n, NOW, &record))
			continue;
		HOLDS(n < state.records);
		HOLDS((u32)record.source.pkt.id[1] == n);
		check_session(&record);
		valid++;
	}
	state_close(&state);
	return valid;
}

/* A file with one record, which the input changes. */
static void change_record(struct octets *in, bool repair)
{
	struct {
		struct state_head head;
		struct state_record records[4];
	} contents = {};
	struct state_record *record;
	struct session session;
	struct state state;
	u8 *octets;

	make_session(in, &session);
	make_head(&contents.head);
	write_file(&contents, sizeof(contents));
	HOLDS(!state_load(&state, dup(file)));
	state_save(&state, &session);
	record = &contents.records[session.index];
	HOLDS(!state_read(&state, session.index, NOW, record));
	HOLDS(!memcmp(&record->source, &session.source,
		      sizeof(session.source)));
	state_close(&state);
	HOLDS(read_all() == 1);

	for (octets = (u8 *)record; in->left;)
		octets[draw(in, 0, sizeof(*record) - 1)] = draw8(in);
	if (repair)
		record->check = checksum(record);
	write_file(&contents, sizeof(contents));
	read_all();
}

/* The rest of the input behind a valid header, or as the whole file. */
static void read_any(struct octets *in, bool valid)
{
	u8 contents[4096];
	size_t size = valid ? sizeof(struct state_head) : 0;

	make_head((struct state_head *)contents);
	while (in->left && size < sizeof(contents))
		contents[size++] = draw8(in);
	write_file(contents, size);
	read_all();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct octets in = { data, size };
	u8 mode = draw8(&in);

	if (file < 0)
		file = memfd_create("state", MFD_CLOEXEC);
	HOLDS(file >= 0);
	if (mode % 4 == 0)
		read_any(&in, mode & 4);
	else
		change_record(&in, mode & 4);
	return 0;
}
