// SPDX-License-Identifier: GPL-2.0
/*
 * What replayed packets do at a link that their sessions do not pass: the
 * figures of docs/protocol.md, section 13.
 *
 * Ten sessions share a link. Packets that were recorded elsewhere are replayed
 * there for as long as they are authentic, one each millisecond, and their
 * replies return. The link counts each of their sessions once, as the memory
 * knows it from its first copy on. It forgets the last one after two epochs.
 */
#include "unit.h"

#include <string.h>

#include <fairpath/slbn/slbn_core.h>

#define MEGA 1000000ULL
#define MS 1000000ULL
#define SECOND (1000 * MS)
#define SESSIONS 10U
#define CAPACITY (100 * MEGA)
#define PLAN (95 * MEGA)
#define CYCLE 50U
/* Not the start of an epoch. */
#define START 5010U
#define END (START + 1000U * SLBN_AUTH_WINDOW)

struct run {
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	struct slbn_link_stats stats;
	struct slbn_source source[SESSIONS];
	u64 now;
	/* Of the sessions, while packets are replayed. */
	u64 lowest_rate;
	u64 largest_sum;
	u64 largest_N;
	/* When rates were last below the share without replays, after END, ms. */
	u32 recovered;
};

static void process(struct run *run, struct slbn_packet *pkt,
		    struct slbn_slot *slot)
{
	if (slbn_link_process(&run->params, &run->vars, &run->stats, pkt, slot,
			      run->now) != SLBN_FORWARD)
		return;
	slbn_destination_reply(pkt);
	slbn_link_process(&run->params, &run->vars, &run->stats, pkt, slot,
			  run->now);
}

static void complete_cycle(struct run *run, struct slbn_source *source)
{
	struct slbn_slot slot[SLBN_HOPS_MAX];
	struct slbn_packet pkt;

	slbn_source_transmit(source, run->now);
	pkt = source->pkt;
	memcpy(slot, source->slot, sizeof(slot));
	process(run, &pkt, slot);
	assert_int_equal(slbn_source_ack(source, &pkt, slot, run->now),
			 SLBN_CYCLE_DONE);
}

/* A Probe of a session that uses a tenth of another link of this capacity. */
static void replay(struct run *run, u32 session)
{
	struct slbn_packet pkt = {
		.id = { session, ~0ULL },
		.seq = 100,
		.type = SLBN_PROBE,
		.slots = 3,
		.bottleneck = SLBN_NO_HOP,
		.weight = 1,
		.epoch = SLBN_NO_EPOCH,
		.bw2 = PLAN / SESSIONS,
		.bw1 = PLAN / SESSIONS,
		.bw = PLAN / SESSIONS,
		.use1 = PLAN / SESSIONS,
		.use = PLAN / SESSIONS,
		.g = SLBN_RATE_MAX,
	};
	struct slbn_slot slot[SLBN_HOPS_MAX] = { { .tag = 0 } };

	/* The tag of a ledger elsewhere. */
	slot[0].tag = slbn_mask_tag(slbn_next_tag(run->vars.tag),
				    slbn_session_hash(&run->params, &pkt));
	process(run, &pkt, slot);
}

static void observe(struct run *run, u32 ms)
{
	u64 sum = 0, lowest = ~0ULL;
	u32 n;

	for (n = 0; n < SESSIONS; n++) {
		sum += run->source[n].rate;
		lowest = fp_min64(lowest, run->source[n].rate);
	}
	run->largest_sum = fp_max64(run->largest_sum, sum);
	if (ms >= START) {
		run->lowest_rate = fp_min64(run->lowest_rate, lowest);
		run->largest_N = fp_max64(run->largest_N,
					  run->vars.cur.N + run->vars.prev.N);
	}
	if (ms >= END && lowest + 64 < PLAN / SESSIONS)
		run->recovered = ms - END;
}

static void replay_at_link(struct run *run, u32 recorded, u32 rows)
{
	u32 ms, n, turn = 0;

	*run = (struct run){
		.params = { .C = CAPACITY,
			    .P = PLAN,
			    .commit = true,
			    .epoch = SECOND,
			    .rows = rows,
			    .hash_key = { 1, 2 } },
		.lowest_rate = ~0ULL,
	};
	run->vars.memory =
		calloc(rows * SLBN_MEMORY_WAYS + 1, sizeof(*run->vars.memory));
	assert_non_null(run->vars.memory);
	slbn_link_init(&run->vars, 0, 0, 7);
	for (n = 0; n < SESSIONS; n++) {
		const u64 id[2] = { n, n };

		slbn_source_join(&run->source[n], id, SLBN_RATE_MAX, 1, 3);
	}
	for (ms = 0; ms < END + 5000; ms++, unit_step++) {
		run->now = ms * MS;
		for (n = 0; n < SESSIONS; n++)
			if ((ms + n) % CYCLE == 0)
				complete_cycle(run, &run->source[n]);
		if (ms >= START && ms < END && recorded)
			replay(run, turn++ % recorded);
		if (ms >= START - CYCLE)
			observe(run, ms);
	}
	printf("# %u packets recorded, %u entries: rates >= %llu of %llu bit/s, sum <= %llu, N <= %llu, recovered after %u ms, clamped %llu\n",
	       recorded, rows * SLBN_MEMORY_WAYS,
	       (unsigned long long)run->lowest_rate,
	       (unsigned long long)(PLAN / SESSIONS),
	       (unsigned long long)run->largest_sum,
	       (unsigned long long)run->largest_N, run->recovered,
	       (unsigned long long)run->stats.clamped);
	free(run->vars.memory);
}

UNIT_TEST(replayed_sessions_are_counted_once_for_two_epochs)
{
	static const u32 counts[] = { 0, 1, 10, 100, 1000 };
	struct run run;
	u32 n;

	for (n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
		replay_at_link(&run, counts[n], 1 << 14);
		assert_in_range(run.largest_N, SESSIONS, SESSIONS + counts[n]);
		assert_true(run.largest_sum <= CAPACITY);
		/* As if the sessions passed here, and not less. */
		assert_true(run.lowest_rate + 64 >=
			    PLAN / (SESSIONS + counts[n]));
		assert_true(run.recovered <= 2000 + 2 * CYCLE);
		assert_int_equal(run.stats.clamped, 0);
	}
}

/* Without memory each copy counts: up to one per control packet. */
UNIT_TEST(without_memory_each_replay_is_counted)
{
	struct run run;

	replay_at_link(&run, 1, 0);
	assert_true(run.largest_N > 1000);
	assert_true(run.largest_sum <= CAPACITY);
	assert_true(run.recovered <= 2000 + 2 * CYCLE);
}

UNIT_MAIN()
