// SPDX-License-Identifier: GPL-2.0
/*
 * drr_fq_bands_core.h: decisions as in a model, and its bounds, to the byte.
 *
 * The model is the pseudo-code of deficit round robin, with a Quantum for each
 * band and each turn simulated. The bounds are those of the core's summary:
 *
 *	|S_f Q_g - S_g Q_f| <= Q_f Q_g + (Max_f - 1) Q_g + (Max_g - 1) Q_f
 *
 * for two bands that stay backlogged: in m turns, band f sends m Q_f bytes plus or
 * minus less than Max_f, and the numbers of turns differ by at most one. As in
 * test_drr_fq_fair.c, the minimum and the maximum of the difference check all
 * intervals at once, and runs must come close to the bound. The sum over all pairs
 * of a band limits the difference to its share of what all bands sent.
 *
 * Bands have their packets in real queues of drr_fq_core.h: one FIFO for each, or
 * one queue for each host.
 */
#include "caller_drr_fq.h"

#include <sch_drr_fq/drr_fq_bands_core.h>

#define NEW DRR_FQ_BAND_NEW
#define ASSIGNED DRR_FQ_BAND_ASSIGNED
#define UNASSIGNED DRR_FQ_BAND_UNASSIGNED
#define BANDS DRR_FQ_BANDS

#define MILLISECOND 1000000ULL
#define WAIT_MAX (100 * MILLISECOND)
#define FULL 1500U

/**
 * struct link - bands and the control band, and what they sent
 * @params: the core's parameters
 * @bands: the core's state
 * @queues: by band: its queues; a packet's tag is the time of its arrival [ns]
 * @control: the control band
 * @now: time [ns]
 * @sent: by band: bytes
 * @sent_control: bytes
 * @late: packets dropped because they waited too long
 */
struct link {
	struct drr_fq_bands_params params;
	struct drr_fq_bands bands;
	struct caller queues[BANDS];
	struct drr_fq_band control;
	u64 now;
	u64 sent[BANDS];
	u64 sent_control;
	u64 late;
};

static void link_begin(struct link *l, u32 hosts)
{
	u32 band;

	*l = (struct link){ .params.wait_max = WAIT_MAX };
	drr_fq_bands_set_share(&l->params, DRR_FQ_BANDS_SHARE_DEFAULT);
	/* drr_fq_bands_init() must initialize all of it. */
	memset(&l->bands, 0xa5, sizeof(l->bands));
	drr_fq_bands_init(&l->bands);
	drr_fq_band_init(&l->control);
	for (band = 0; band < BANDS; band++)
		caller_begin(&l->queues[band], band == UNASSIGNED ? hosts : 1,
			     FULL, DRR_FQ_DRR);
}

static void link_end(struct link *l)
{
	u32 band;

	for (band = 0; band < BANDS; band++)
		caller_end(&l->queues[band]);
	while (l->control.queue.qlen--) {
		struct packet *packet = l->control.queue.head;

		l->control.queue.head = packet->next;
		free(packet);
	}
}

static u32 backlog(const struct link *l, u32 band)
{
	return l->queues[band].vars.backlog;
}

static void arrive_from(struct link *l, u32 band, u32 host, u32 length)
{
	struct caller *c = &l->queues[band];

	caller_arrive(c, host, host, length);
	((struct packet *)c->vars.flows[host].tail)->tag = l->now;
	drr_fq_bands_arrive(&l->params, &l->bands, band);
}

static void arrive(struct link *l, u32 band, u32 length)
{
	arrive_from(l, band, 0, length);
}

static void arrive_control(struct link *l, u32 length)
{
	struct drr_fq_flow *queue = &l->control.queue;
	struct packet *packet = packet_new(0, length);

	assert_true(drr_fq_band_has_room(&l->control, length));
	if (queue->qlen)
		((struct packet *)queue->tail)->next = packet;
	else
		queue->head = packet;
	queue->tail = packet;
	drr_fq_band_arrive(&l->control, length);
}

/* The packet that @band sends next. */
static struct packet *head(struct link *l, u32 band)
{
	struct caller *c = &l->queues[band];

	return c->vars.flows[caller_next(c)].head;
}

/* Lengths that the core has read for the current decision. */
static u32 reads;

static u32 length_of(void *context, u32 band)
{
	reads++;
	/* For each band: in a round, to skip rounds, and in the round after it. */
	CHECK(reads <= 3 * BANDS, "%u lengths read", reads);
	return head(context, band)->length;
}

static u32 next(struct link *l)
{
	reads = 0;
	return drr_fq_bands_next(&l->params, &l->bands, length_of, l);
}

static void left(struct link *l, u32 band)
{
	if (!l->queues[band].vars.qlen)
		drr_fq_bands_emptied(&l->bands, band);
}

/* Drop late packets. Returns the band that sends next, or DRR_FQ_NONE. */
static u32 next_in_time(struct link *l)
{
	for (;;) {
		u32 band = next(l);
		u64 waited;

		if (band == DRR_FQ_NONE)
			return band;
		waited = l->now - head(l, band)->tag;
		if (!drr_fq_bands_late(&l->params, band, waited))
			return band;
		CHECK(band == UNASSIGNED && waited > WAIT_MAX, "band %u: %llu",
		      band, waited);
		caller_aqm_drop(&l->queues[band],
				caller_next(&l->queues[band]));
		left(l, band);
		l->late++;
	}
}

/* Send a packet. Returns its band, or DRR_FQ_NONE, and sets its length. */
static u32 serve(struct link *l, u32 *length)
{
	u32 band = next_in_time(l);

	if (band == DRR_FQ_NONE)
		return band;
	CHECK(next(l) == band, "not band %u again", band);
	*length = head(l, band)->length;
	l->sent[band] += *length;
	caller_send(&l->queues[band], caller_next(&l->queues[band]));
	drr_fq_bands_sent(&l->bands, band, *length);
	left(l, band);
	unit_step++;
	return band;
}

/* As serve(), but control packets first. Returns BANDS for a control packet. */
static u32 serve_all(struct link *l, u32 *length)
{
	struct drr_fq_flow *queue = &l->control.queue;
	struct packet *packet = queue->head;
	u32 band;

	if (!drr_fq_band_is_next(&l->control, l->bands.backlogged,
				 head_length)) {
		band = serve(l, length);
		if (band != DRR_FQ_NONE)
			drr_fq_band_earn(&l->control, *length);
		return band;
	}
	*length = packet->length;
	queue->head = packet->next;
	drr_fq_band_sent(&l->control, l->bands.backlogged, *length);
	l->sent_control += *length;
	free(packet);
	return BANDS;
}

/* Keep a band backlogged with packets of @length bytes, also while it sends. */
static void fill(struct link *l, u32 band, u32 length)
{
	while (l->queues[band].vars.qlen < 2)
		arrive(l, band, length);
}

/* The bound for two backlogged bands [bytes times bytes]. */
static u64 bound(const struct link *l, u32 f, u32 g, u32 max_f, u32 max_g)
{
	u64 q_f = l->params.quantum[f], q_g = l->params.quantum[g];

	return q_f * q_g + (max_f - 1) * q_g + (max_g - 1) * q_f;
}

/* The bound of a band's difference to its share, times the sum of the Quanta. */
static u64 bound_of_share(const struct link *l, u32 f, const u32 max[BANDS])
{
	u64 sum = 0;
	u32 g;

	for (g = 0; g < BANDS; g++)
		sum += g == f ? 0 : bound(l, f, g, max[f], max[g]);
	return sum;
}

static void random_quanta(struct link *l, u32 from, u32 to)
{
	u32 band;

	if (one_in(2)) {
		drr_fq_bands_set_share(&l->params,
				       rnd_in(10, DRR_FQ_BANDS_SHARE_MAX));
		return;
	}
	for (band = 0; band < BANDS; band++)
		l->params.quantum[band] = rnd_size(from, to);
}

UNIT_TEST(quanta_of_shares)
{
	struct drr_fq_bands_params p;
	u32 share;

	drr_fq_bands_set_share(&p, DRR_FQ_BANDS_SHARE_DEFAULT);
	assert_int_equal(p.quantum[NEW], 1500);
	assert_int_equal(p.quantum[ASSIGNED], 1425);
	assert_int_equal(p.quantum[UNASSIGNED], 75);
	for (share = DRR_FQ_BANDS_SHARE_MIN; share <= DRR_FQ_BANDS_SHARE_MAX;
	     share++) {
		drr_fq_bands_set_share(&p, share);
		assert_int_equal(p.quantum[UNASSIGNED], 3 * share / 2);
		assert_int_equal(p.quantum[NEW], 1500);
		assert_int_equal(p.quantum[ASSIGNED] + p.quantum[UNASSIGNED],
				 1500);
		CHECK(p.quantum[ASSIGNED] >= 1125, "share %u", share);
	}
}

UNIT_TEST(other_marks_are_unassigned)
{
	static const u32 others[] = { 0, 3, 4, 5, 0xffff, 0x10000, ~0U };
	u32 i;

	assert_int_equal(drr_fq_bands_of(1), NEW);
	assert_int_equal(drr_fq_bands_of(2), ASSIGNED);
	for (i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(drr_fq_bands_of(others[i]), UNASSIGNED);
}

/**
 * struct turns - deficit round robin, turn by turn
 * @deficit: by band
 * @turn: the band whose turn it is
 * @started: it has its Quantum
 */
struct turns {
	u64 deficit[BANDS];
	u32 turn;
	bool started;
};

static void turns_end(struct turns *m)
{
	m->turn = (m->turn + 1) % BANDS;
	m->started = false;
}

static u32 turns_next(struct turns *m, struct link *l)
{
	if (!backlog(l, 0) && !backlog(l, 1) && !backlog(l, 2))
		return DRR_FQ_NONE;
	for (;; turns_end(m)) {
		if (!backlog(l, m->turn))
			continue;
		if (!m->started)
			m->deficit[m->turn] += l->params.quantum[m->turn];
		m->started = true;
		if (head(l, m->turn)->length <= m->deficit[m->turn])
			return m->turn;
	}
}

UNIT_TEST(decisions_equal_model)
{
	u32 round, i;

	for (round = 0; round < 40; round++) {
		u32 load = rnd_in(1, 4);
		struct turns m = { .turn = NEW };
		struct link l;

		link_begin(&l, 1);
		random_quanta(&l, 100, 100000);
		for (i = 0; i < 3000; i++) {
			u32 packets = rnd_in(0, load), band, length;

			while (packets--)
				arrive(&l, rnd_in(0, rnd_in(0, BANDS - 1)),
				       rnd_size(1, 65535));
			band = turns_next(&m, &l);
			CHECK(next(&l) == band, "band %u, model %u", next(&l),
			      band);
			if (band == DRR_FQ_NONE)
				continue;
			serve(&l, &length);
			m.deficit[band] -= length;
			CHECK(l.bands.deficit[band] ==
				      (backlog(&l, band) ?
					       (s64)m.deficit[band] :
					       0),
			      "band %u: %d, model %llu", band,
			      l.bands.deficit[band], m.deficit[band]);
			if (backlog(&l, band))
				continue;
			m.deficit[band] = 0;
			turns_end(&m);
		}
		link_end(&l);
	}
}

/* Difference of two bands' service since both became backlogged. */
struct gap {
	s64 now;
	s64 low;
	s64 high;
};

/* Returns how much of the bound was reached, in percent. */
static u64 gap_moves(struct gap *gap, s64 by, u64 allowed)
{
	u64 width;

	gap->now += by;
	gap->low = gap->now < gap->low ? gap->now : gap->low;
	gap->high = gap->now > gap->high ? gap->now : gap->high;
	width = gap->high - gap->low;
	CHECK(width <= allowed, "%llu, allowed %llu", width, allowed);
	return 100 * width / allowed;
}

/* Bands become idle and backlogged again; Quanta from 1 byte up. */
UNIT_TEST(pairs_share_by_quanta)
{
	u64 reached = 0;
	u32 round, i;

	for (round = 0; round < 200; round++) {
		static const u32 lengths[] = { 64, 1514, 9000, 65535, 1 };
		struct gap gaps[BANDS][BANDS] = { 0 };
		u32 max[BANDS], band, other, length;
		bool always = round % 2, constant = one_in(2);
		struct link l;

		link_begin(&l, 1);
		random_quanta(&l, 1, 100000);
		for (band = 0; band < BANDS; band++)
			max[band] = lengths[rnd_in(0, 4)];
		for (i = 0; i < 3000; i++) {
			for (band = 0; band < BANDS; band++) {
				u32 want = always ? 2 : 1;
				bool idle = !backlog(&l, band);

				if (!always && one_in(3))
					continue;
				while (l.queues[band].vars.qlen < want)
					arrive(&l, band,
					       constant ? max[band] :
							  rnd_in(1, max[band]));
				for (other = 0; idle && other < BANDS;
				     other++) {
					gaps[band][other] = (struct gap){ 0 };
					gaps[other][band] = (struct gap){ 0 };
				}
			}
			band = serve(&l, &length);
			for (other = 0; band != DRR_FQ_NONE && other < BANDS;
			     other++) {
				u32 f = fp_min(band, other);
				u32 g = fp_max(band, other);
				s64 by = (s64)length * l.params.quantum[other];
				u64 part;

				if (other == band || !backlog(&l, other))
					continue;
				part = gap_moves(
					&gaps[f][g], band == f ? by : -by,
					bound(&l, f, g, max[f], max[g]));
				reached = fp_max64(reached, part);
			}
		}
		link_end(&l);
	}
	print_message("# up to %llu %% of the bound\n", reached);
	CHECK(reached >= 95, "%llu %%", reached);
}

/* Full load: 50, 47.5 and 2.5 %, for any sizes of packets, at each moment. */
UNIT_TEST(shares_at_full_load)
{
	static const u32 lengths[][BANDS] = {
		{ 1500, 1500, 1500 }, { 64, 1500, 1500 },   { 1500, 1500, 64 },
		{ 64, 64, 65535 },    { 64, 65535, 64 },    { 65535, 64, 64 },
		{ 40, 1514, 9000 },   { 65535, 1514, 1514 }
	};
	u32 i, k, band, length;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		u64 sum = 0;
		struct link l;

		link_begin(&l, 1);
		for (k = 0; k < 30000; k++) {
			for (band = 0; band < BANDS; band++)
				fill(&l, band, lengths[i][band]);
			serve(&l, &length);
			sum += length;
			for (band = 0; band < BANDS; band++) {
				s64 more = (s64)(l.sent[band] *
						 DRR_FQ_BANDS_ROUND) -
					   (s64)(sum * l.params.quantum[band]);
				u64 limit =
					bound_of_share(&l, band, lengths[i]);

				CHECK((u64)(more < 0 ? -more : more) <= limit,
				      "load %u, band %u: %lld, bound %llu", i,
				      band, more, limit);
			}
		}
		if (!i) {
			assert_int_equal(l.sent[NEW], sum / 40 * 20);
			assert_int_equal(l.sent[ASSIGNED], sum / 40 * 19);
			assert_int_equal(l.sent[UNASSIGNED], sum / 40);
		}
		link_end(&l);
	}
}

/*
 * A band whose next packet arrives as soon as the last was sent is never
 * backlogged for long. It gets no more than its share.
 */
UNIT_TEST(short_queues_get_no_more)
{
	u32 band, other, k, length;

	for (band = 0; band < BANDS; band++) {
		u32 size = band == UNASSIGNED ? 64 : FULL;
		struct link l;

		link_begin(&l, 1);
		for (k = 0; k < 30000; k++) {
			for (other = 0; other < BANDS; other++) {
				if (other != band)
					fill(&l, other, FULL);
				else if (!backlog(&l, band))
					arrive(&l, band, size);
			}
			serve(&l, &length);
			for (other = 0; other < BANDS; other++) {
				u64 q = l.params.quantum[band];
				s64 more =
					l.sent[band] * l.params.quantum[other] -
					l.sent[other] * q;

				CHECK(other == band ||
					      more <= (s64)bound(&l, band,
								 other, size,
								 FULL),
				      "band %u before %u: %lld", band, other,
				      more);
			}
		}
		CHECK(l.sent[band], "band %u sent nothing", band);
		link_end(&l);
	}
}

/*
 * A packet that makes a band backlogged waits for at most ceil(L / Q) turns of
 * each other band. If all have 1,500 bytes, a new one waits for two packets at
 * most, besides the one that is being sent.
 */
UNIT_TEST(latency_of_first_packet)
{
	u32 band, other, k, length;

	for (band = 0; band < BANDS; band++) {
		u32 most = 0, turns, allowed = 0;
		struct link l;

		link_begin(&l, 1);
		turns = (FULL + l.params.quantum[band] - 1) /
			l.params.quantum[band];
		for (other = 0; other < BANDS; other++)
			if (other != band)
				allowed += turns * l.params.quantum[other] +
					   FULL - 1;
		for (k = 0; k < 5000; k++) {
			u32 waited = 0, before = rnd_in(0, 40), sender;

			while (before--) {
				fill(&l, (band + 1) % BANDS, FULL);
				fill(&l, (band + 2) % BANDS, FULL);
				serve(&l, &length);
			}
			arrive(&l, band, FULL);
			do {
				fill(&l, (band + 1) % BANDS, FULL);
				fill(&l, (band + 2) % BANDS, FULL);
				sender = serve(&l, &length);
				waited += sender == band ? 0 : length;
			} while (sender != band);
			CHECK(waited <= allowed, "band %u: %u bytes, bound %u",
			      band, waited, allowed);
			most = fp_max(most, waited);
		}
		print_message("# band %u: %u bytes, bound %u\n", band, most,
			      allowed);
		if (band == NEW)
			assert_int_equal(most, 2 * FULL);
		link_end(&l);
	}
}

/*
 * New and unassigned packets flood the link. Assigned ones at 40 % of it have a
 * short queue: they get 45 % less the bound while they are backlogged.
 */
UNIT_TEST(floods_leave_others_their_share)
{
	static const u32 max[BANDS] = { FULL, FULL, FULL };
	u32 most = 0, k, length;
	u64 sum = 0, due = 0, allowed;
	struct link l;

	link_begin(&l, 1);
	allowed = FULL + bound_of_share(&l, ASSIGNED, max) / DRR_FQ_BANDS_ROUND;
	for (k = 0; k < 100000; k++) {
		fill(&l, NEW, FULL);
		fill(&l, UNASSIGNED, FULL);
		for (; due * 10 <= sum * 4; due += FULL)
			arrive(&l, ASSIGNED, FULL);
		most = fp_max(most, backlog(&l, ASSIGNED));
		serve(&l, &length);
		sum += length;
	}
	print_message("# assigned: %u bytes, bound %llu\n", most, allowed);
	/* The packet that is being sent while others arrive. */
	CHECK(most <= allowed + FULL, "%u bytes, bound %llu", most, allowed);
	CHECK(l.sent[ASSIGNED] + most >= due, "%llu of %llu", l.sent[ASSIGNED],
	      due);
	link_end(&l);
}

/* The link sends whenever a packet is queued, at its full rate to any band. */
UNIT_TEST(work_conserving)
{
	u64 arrived = 0, sum = 0;
	u32 i, band, length;
	struct link l;

	for (band = 0; band < BANDS; band++) {
		link_begin(&l, 1);
		for (i = 0; i < 1000; i++) {
			fill(&l, band, rnd_size(1, 65535));
			assert_int_equal(serve(&l, &length), band);
		}
		link_end(&l);
	}
	link_begin(&l, 1);
	for (i = 0; i < 100000; i++) {
		bool queued;

		if (one_in(3)) {
			length = rnd_size(1, 65535);
			arrived += length;
			arrive(&l, rnd_in(0, BANDS - 1), length);
		}
		queued = arrived > sum;
		band = serve(&l, &length);
		CHECK((band != DRR_FQ_NONE) == queued, "band %u of %llu bytes",
		      band, arrived - sum);
		if (queued)
			sum += length;
	}
	link_end(&l);
}

/* Within its bound, a control packet is the next that is sent, whatever waits. */
UNIT_TEST(control_is_next)
{
	u32 k, band, length;
	struct link l;

	link_begin(&l, 1);
	for (k = 0; k < 50000; k++) {
		for (band = 0; band < BANDS; band++)
			fill(&l, band, FULL);
		if (k % 10 == 0) {
			arrive_control(&l, rnd_in(64, FULL));
			assert_int_equal(serve_all(&l, &length), BANDS);
		} else {
			CHECK(serve_all(&l, &length) < BANDS, "control");
		}
	}
	link_end(&l);
}

/* Control packets flood the link: they get a ninth and a burst, bands the rest. */
UNIT_TEST(control_is_bounded)
{
	static const u32 max[BANDS] = { FULL, FULL, FULL };
	u64 sum = 0;
	u32 k, band, length;
	struct link l;

	link_begin(&l, 1);
	for (k = 0; k < 50000; k++) {
		for (band = 0; band < BANDS; band++)
			fill(&l, band, FULL);
		while (l.control.queue.qlen < 2)
			arrive_control(&l, rnd_in(64, FULL));
		if (serve_all(&l, &length) < BANDS)
			sum += length;
		CHECK(l.sent_control * DRR_FQ_BAND_SHARE <=
			      sum + DRR_FQ_BAND_BURST * DRR_FQ_BAND_SHARE,
		      "%llu beside %llu bytes", l.sent_control, sum);
		for (band = 0; band < BANDS; band++) {
			u64 least = sum * l.params.quantum[band];

			CHECK(l.sent[band] * DRR_FQ_BANDS_ROUND +
					      bound_of_share(&l, band, max) >=
				      least,
			      "band %u: %llu of %llu", band, l.sent[band], sum);
		}
	}
	CHECK(l.sent_control * DRR_FQ_BAND_SHARE +
			      2 * DRR_FQ_BAND_SHARE * FULL >
		      sum,
	      "%llu beside %llu bytes", l.sent_control, sum);
	link_end(&l);
}

/* The time of a packet at 10 Mbit/s [ns]. */
static u64 time_of(u32 length)
{
	return length * 800ULL;
}

/*
 * At 10 Mbit/s with the other bands full, unassigned packets have 0.25 Mbit/s; eight
 * times as many arrive. Those sent waited for at most 100 ms, and those dropped
 * for longer (next_in_time() checks it); the share is used.
 */
UNIT_TEST(unassigned_wait_is_limited)
{
	static const u32 max[BANDS] = { FULL, FULL, FULL };
	u64 due = 0, sum = 0, longest = 0;
	u32 k, length, arrived = 0;
	struct link l;

	link_begin(&l, 1);
	for (k = 0; k < 100000; k++) {
		u64 waited;
		u32 band;

		fill(&l, NEW, FULL);
		fill(&l, ASSIGNED, FULL);
		for (; due <= l.now; due += 5 * time_of(FULL), arrived++)
			arrive(&l, UNASSIGNED, FULL);
		band = next_in_time(&l);
		waited = l.now - head(&l, band)->tag;
		if (band == UNASSIGNED) {
			CHECK(waited <= WAIT_MAX, "%llu ns", waited);
			longest = fp_max64(longest, waited);
		}
		serve(&l, &length);
		sum += length;
		l.now += time_of(length);
	}
	CHECK(longest > WAIT_MAX * 9 / 10, "%llu ns", longest);
	/* It was idle at times only if all its packets were late: never here. */
	CHECK(l.sent[UNASSIGNED] * DRR_FQ_BANDS_ROUND +
			      bound_of_share(&l, UNASSIGNED, max) >=
		      sum * l.params.quantum[UNASSIGNED],
	      "%llu of %llu", l.sent[UNASSIGNED], sum);
	assert_int_equal(l.sent[UNASSIGNED] / FULL + l.late +
				 l.queues[UNASSIGNED].vars.qlen,
			 arrived);
	link_end(&l);
}

/* All packets of the band are late: they are dropped, and others are sent. */
UNIT_TEST(late_packets_delay_nobody)
{
	u32 length = 0, k;
	struct link l;

	link_begin(&l, 1);
	for (k = 0; k < 100; k++)
		arrive(&l, UNASSIGNED, FULL);
	l.now = WAIT_MAX;
	/* In time, to the nanosecond. */
	assert_int_equal(serve(&l, &length), UNASSIGNED);
	assert_int_equal(l.late, 0);
	l.now++;
	arrive(&l, ASSIGNED, 64);
	arrive(&l, UNASSIGNED, 100);
	assert_int_equal(serve(&l, &length), ASSIGNED);
	assert_int_equal(serve(&l, &length), UNASSIGNED);
	assert_int_equal(length, 100);
	assert_int_equal(l.late, 99);
	assert_int_equal(serve(&l, &length), DRR_FQ_NONE);

	/* Nothing is left, although packets were queued. */
	arrive(&l, UNASSIGNED, 100);
	l.now += WAIT_MAX + 1;
	assert_int_equal(serve(&l, &length), DRR_FQ_NONE);
	assert_int_equal(l.late, 100);

	/* Assigned packets may wait as long as they must. */
	arrive(&l, ASSIGNED, 64);
	arrive(&l, NEW, 64);
	l.now += 1000 * WAIT_MAX;
	CHECK(serve(&l, &length) < UNASSIGNED, "dropped");
	CHECK(serve(&l, &length) < UNASSIGNED, "dropped");
	link_end(&l);
}

/*
 * One host floods the band from 1,000 ports. A host with one port, within half of
 * the band, loses nothing and sends what it has.
 */
UNIT_TEST(thousand_ports_gain_nothing)
{
	u64 flood = 0, quiet = 0, due_flood = 0, due_quiet = 0;
	u64 sent[2] = { 0 };
	u32 k, length;
	struct link l;

	link_begin(&l, 2);
	for (k = 0; k < 200000; k++) {
		struct drr_fq_flow *flows = l.queues[UNASSIGNED].vars.flows;
		u32 number = DRR_FQ_NONE, band;

		fill(&l, NEW, FULL);
		fill(&l, ASSIGNED, FULL);
		/* 5 Mbit/s, and 0.1 of the 0.125 Mbit/s. */
		for (; due_flood <= l.now; due_flood += 2 * time_of(FULL))
			arrive_from(&l, UNASSIGNED, 0, FULL), flood++;
		for (; due_quiet <= l.now; due_quiet += 100 * time_of(FULL))
			arrive_from(&l, UNASSIGNED, 1, FULL), quiet++;
		band = next_in_time(&l);
		if (band == UNASSIGNED)
			number = caller_next(&l.queues[UNASSIGNED]);
		serve(&l, &length);
		if (number != DRR_FQ_NONE)
			sent[number] += length;
		l.now += time_of(length);
		CHECK(!flows[1].drops, "quiet host: %u lost", flows[1].drops);
		CHECK(flows[1].qlen <= 2, "quiet host: %u wait", flows[1].qlen);
	}
	CHECK(sent[1] >= (quiet - 2) * FULL, "%llu of %llu packets",
	      sent[1] / FULL, quiet);
	CHECK(l.late > flood / 2, "%llu of %llu lost", l.late, flood);
	link_end(&l);
}

/*
 * At a limit, the band that loses a packet has more than its share of the limit;
 * so one that has no more loses nothing.
 */
UNIT_TEST(drops_from_bands_above_their_share)
{
	struct drr_fq_bands_params p;
	u32 i;

	drr_fq_bands_set_share(&p, DRR_FQ_BANDS_SHARE_DEFAULT);
	assert_int_equal(drr_fq_bands_largest(&p, (u32[]){ 0, 0, 0 }),
			 DRR_FQ_NONE);
	assert_int_equal(drr_fq_bands_largest(&p, (u32[]){ 20, 19, 1 }),
			 UNASSIGNED);
	assert_int_equal(drr_fq_bands_largest(&p, (u32[]){ 21, 19, 1 }), NEW);
	assert_int_equal(drr_fq_bands_largest(&p, (u32[]){ 20, 20, 1 }),
			 ASSIGNED);
	assert_int_equal(drr_fq_bands_largest(&p, (u32[]){ 999, 950, 50 }),
			 UNASSIGNED);
	for (i = 0; i < 200000; i++, unit_step++) {
		u64 limit = rnd_size(1, ~0U), sum = 0;
		u32 amount[BANDS], band, largest;

		drr_fq_bands_set_share(&p, rnd_in(1, DRR_FQ_BANDS_SHARE_MAX));
		for (band = 0; band < BANDS; band++) {
			amount[band] = one_in(4) ? 0 : rnd_size(0, ~0U);
			sum += amount[band];
		}
		if (sum <= limit)
			continue;
		largest = drr_fq_bands_largest(&p, amount);
		CHECK((u64)amount[largest] * DRR_FQ_BANDS_ROUND >
			      limit * p.quantum[largest],
		      "band %u: %u of %llu", largest, amount[largest], limit);
	}
}

/* The largest packets and the smallest Quanta: no overflow, no long loop. */
UNIT_TEST(ends_of_ranges)
{
	u32 i, k, band, length;

	for (i = 0; i < 8; i++) {
		u64 sum = 0;
		struct link l;

		link_begin(&l, 1);
		for (band = 0; band < BANDS; band++)
			l.params.quantum[band] =
				i & (1U << band) ? DRR_FQ_QUANTUM_MAX : 1;
		for (k = 0; k < 10000; k++) {
			for (band = 0; band < BANDS; band++)
				fill(&l, band, one_in(2) ? 1U << 30 : 1);
			serve(&l, &length);
			sum += length;
			for (band = 0; band < BANDS; band++)
				CHECK(l.bands.deficit[band] >= 0 &&
					      l.bands.deficit[band] <
						      (1 << 30) +
							      DRR_FQ_QUANTUM_MAX,
				      "band %u: %d", band,
				      l.bands.deficit[band]);
		}
		CHECK(sum > 1ULL << 40, "%llu", sum);
		link_end(&l);
	}
}

/* Steps have no gaps, and each is at most an eighth of its waits. */
UNIT_TEST(waits_in_steps)
{
	u32 n, wait, last;

	for (n = 0; n < DRR_FQ_WAITS; n++) {
		wait = drr_fq_wait_of(n);
		assert_int_equal(drr_fq_waits_step(wait), n);
		if (n)
			assert_int_equal(drr_fq_waits_step(wait - 1), n - 1);
		last = drr_fq_wait_of(n + 1) - 1;
		CHECK(last == wait || (last + 1 - wait) * 8 <= wait,
		      "step %u: %u to %u", n, wait, last);
	}
	/* The last step begins at a second, and has no end. */
	wait = drr_fq_wait_of(DRR_FQ_WAITS - 1);
	assert_true(wait * 1024ULL / MILLISECOND == 1006);
	assert_int_equal(drr_fq_waits_step(UINT32_MAX), DRR_FQ_WAITS - 1);
}

UNIT_TEST(waits_are_counted)
{
	struct drr_fq_waits waits = {};
	u64 sum = 0, count = 0;
	u32 n, longest = 0;

	for (; unit_step < 10000; unit_step++) {
		u32 wait = rnd() >> rnd_in(0, 31), packets = rnd_in(1, 44);

		drr_fq_waits_add(&waits, wait, packets);
		longest = wait > longest ? wait : longest;
		count += packets;
		assert_int_equal(waits.longest, longest);
	}
	for (n = 0; n < DRR_FQ_WAITS; n++)
		sum += waits.packets[n];
	assert_int_equal(sum, count);
}

UNIT_MAIN()
