/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bands: which kind of traffic a link sends next, independent of packets.
 *
 * A domain of SLBN marks three kinds of data: new, the start of a connection;
 * assigned, packets within the rate of a session; and unassigned, the rest. Each
 * is a band. The caller keeps the packets of a band in the flows of a struct
 * drr_fq_vars, or in one FIFO, which is a struct drr_fq_vars with one flow. It
 * reports when a band becomes backlogged, asks which band to send from, and
 * reports what was sent. Control packets are sent before the bands, from
 * struct drr_fq_band, which limits them to an eighth of what the bands send and a
 * burst.
 *
 * The bands share the link by deficit round robin (Shreedhar and Varghese,
 * SIGCOMM 1995, section 3), with one Quantum for each band. A round has
 * DRR_FQ_BANDS_ROUND bytes: half for new; unassigned has its share of the other
 * half, and assigned the rest; with a share of 5 %, 20 : 19 : 1. So unassigned
 * has its share of the link while no new packet waits, which is nearly always:
 * links leave that much free when they assign rates (headroom auto), and no
 * more. While new and assigned both wait, it has half of that. Turns have a
 * fixed order: new, assigned, unassigned. Rounds are as short as two packets,
 * so a band may need several rounds for one packet; those in which no band can
 * send are added at once. With three bands, the work for a packet is constant.
 *
 * Let S be the bytes that a band sends, Q its Quantum and Max its largest packet.
 * While two bands f and g stay backlogged,
 *
 *	|S_f Q_g - S_g Q_f| <= Q_f Q_g + (Max_f - 1) Q_g + (Max_g - 1) Q_f,
 *
 * and if g is idle at times, S_g has the same upper bound. A band that becomes
 * backlogged with a packet of L bytes waits for at most k = ceil(L / Q) turns
 * of each other band g, or k Q_g + Max_g - 1 bytes. With several bands in the
 * ActiveList the bounds hold for each pair. An AQM, which makes a band send a
 * larger packet than the one that was compared, adds 2 (Max_f - 1) Q_g + 2
 * (Max_g - 1) Q_f.
 *
 * Unassigned packets wait for a limited time, and are dropped from the head of
 * their queue afterwards: their senders may be unresponsive, and a queue that is
 * served at 5 % of the link may be long.
 *
 * The bands share one limit of packets, bytes and memory. If it is exceeded, the
 * packet is dropped from the band that has most in relation to its Quantum. So a
 * band that has no more than its share of the limit loses nothing.
 *
 * Assumption: who may send in a band is decided elsewhere. A packet without a
 * mark is unassigned.
 */
#ifndef DRR_FQ_BANDS_CORE_H
#define DRR_FQ_BANDS_CORE_H

#include "drr_fq_core.h"

/* Bytes of a round: two packets of an Ethernet. */
#define DRR_FQ_BANDS_ROUND 3000U

/**
 * struct drr_fq_bands_params - configuration
 * @quantum: by band: the paper's Quantum [bytes], 1 to DRR_FQ_QUANTUM_MAX
 * @wait_max: the longest time that an unassigned packet waits [ns]
 */
struct drr_fq_bands_params {
	u32 quantum[DRR_FQ_BANDS];
	u64 wait_max;
};

/**
 * struct drr_fq_bands - state
 * @deficit: by band: the paper's DeficitCounter [bytes]; if it is backlogged,
 *	including the Quantum of the next turn; negative only with an AQM
 * @turn: the band whose turn it is
 * @backlogged: number of backlogged bands
 * @is_backlogged: by band
 */
struct drr_fq_bands {
	s32 deficit[DRR_FQ_BANDS];
	u32 turn;
	u32 backlogged;
	bool is_backlogged[DRR_FQ_BANDS];
};

/* Callback: length of the packet that a band sends next [bytes], 1 to 2^30. */
typedef u32 (*drr_fq_bands_length)(void *context, u32 band);

/**
 * drr_fq_bands_set_share() - set the Quanta of all bands
 * @p: parameters to set
 * @share: share of unassigned traffic beside assigned traffic [1/1000],
 *	DRR_FQ_BANDS_SHARE_MIN to DRR_FQ_BANDS_SHARE_MAX
 */
static inline void drr_fq_bands_set_share(struct drr_fq_bands_params *p,
					  u32 share)
{
	u32 unassigned = fp_max(DRR_FQ_BANDS_ROUND / 2 * share / 1000, 1);

	p->quantum[DRR_FQ_BAND_NEW] = DRR_FQ_BANDS_ROUND / 2;
	p->quantum[DRR_FQ_BAND_ASSIGNED] = DRR_FQ_BANDS_ROUND / 2 - unassigned;
	p->quantum[DRR_FQ_BAND_UNASSIGNED] = unassigned;
}

static inline void drr_fq_bands_init(struct drr_fq_bands *b)
{
	*b = (struct drr_fq_bands){ .turn = DRR_FQ_BAND_NEW };
}

/**
 * drr_fq_bands_of() - map a mark to a band
 * @mark: number of the band plus 1, or any other number
 *
 * Return: the band; unassigned for any number that is not that of a band.
 */
static inline u32 drr_fq_bands_of(u32 mark)
{
	return mark && mark <= DRR_FQ_BANDS ? mark - 1 : DRR_FQ_BAND_UNASSIGNED;
}

/**
 * drr_fq_bands_arrive() - account for a packet of a band
 * @p: parameters
 * @b: state
 * @band: the packet's band, which may be backlogged
 */
static inline void drr_fq_bands_arrive(const struct drr_fq_bands_params *p,
				       struct drr_fq_bands *b, u32 band)
{
	if (b->is_backlogged[band])
		return;
	b->is_backlogged[band] = true;
	b->backlogged++;
	b->deficit[band] += p->quantum[band];
}

/* The turn of a band is over. */
static inline void drr_fq_bands_end_turn(struct drr_fq_bands *b)
{
	b->turn = b->turn + 1 < DRR_FQ_BANDS ? b->turn + 1 : 0;
}

/* In a whole round, no band could send: see drr_fq_skip_rounds(). */
static inline void drr_fq_bands_skip_rounds(const struct drr_fq_bands_params *p,
					    struct drr_fq_bands *b,
					    drr_fq_bands_length length,
					    void *context)
{
	u32 rounds = ~0U;
	u32 band;

	for (band = 0; band < DRR_FQ_BANDS; band++) {
		if (b->is_backlogged[band])
			rounds = fp_min(rounds,
					drr_fq_rounds(p->quantum[band],
						      b->deficit[band],
						      length(context, band)));
	}
	for (band = 0; band < DRR_FQ_BANDS; band++) {
		if (b->is_backlogged[band])
			b->deficit[band] += rounds * p->quantum[band];
	}
}

/**
 * drr_fq_bands_next() - choose the band to send from
 * @p: parameters
 * @b: state; turns that are over are ended
 * @length: callback for the length of the packet that a band sends next
 * @context: passed to @length
 *
 * Repeated calls return the same band until its packet is sent or dropped.
 *
 * Return: a backlogged band, or DRR_FQ_NONE only if none is.
 */
static inline u32 drr_fq_bands_next(const struct drr_fq_bands_params *p,
				    struct drr_fq_bands *b,
				    drr_fq_bands_length length, void *context)
{
	u32 turns = 0;

	if (!b->backlogged)
		return DRR_FQ_NONE;
	for (;;) {
		u32 band = b->turn;

		if (b->is_backlogged[band]) {
			if (b->deficit[band] > 0 &&
			    (s32)length(context, band) <= b->deficit[band])
				return band;
			b->deficit[band] += p->quantum[band];
			turns++;
		}
		drr_fq_bands_end_turn(b);
		/* At most once: a band can send in the round after it. */
		if (b->is_backlogged[band] && turns == b->backlogged)
			drr_fq_bands_skip_rounds(p, b, length, context);
	}
}

/**
 * drr_fq_bands_sent() - account for a packet sent from drr_fq_bands_next()
 * @b: state
 * @band: the band
 * @length: length of the packet [bytes]
 *
 * Call drr_fq_bands_emptied() if it was the last of the band.
 */
static inline void drr_fq_bands_sent(struct drr_fq_bands *b, u32 band,
				     u32 length)
{
	b->deficit[band] -= length;
}

/**
 * drr_fq_bands_emptied() - account for the removal of a band's last packet
 * @b: state
 * @band: a backlogged band
 *
 * Its turn is over: otherwise a band whose next packet arrives at once would
 * get another Quantum before the others have theirs. A debt is kept.
 */
static inline void drr_fq_bands_emptied(struct drr_fq_bands *b, u32 band)
{
	b->is_backlogged[band] = false;
	b->backlogged--;
	if (b->deficit[band] > 0)
		b->deficit[band] = 0;
	if (b->turn == band)
		drr_fq_bands_end_turn(b);
}

/**
 * drr_fq_bands_late() - check whether a packet must be dropped instead of sent
 * @p: parameters
 * @band: its band
 * @waited: how long it has waited [ns]
 *
 * Return: true only for an unassigned packet that waited longer than allowed.
 */
static inline bool drr_fq_bands_late(const struct drr_fq_bands_params *p,
				     u32 band, u64 waited)
{
	return band == DRR_FQ_BAND_UNASSIGNED && waited > p->wait_max;
}

/**
 * drr_fq_bands_largest() - find the band to drop from at a limit
 * @p: parameters
 * @amount: by band: what it has of the limited quantity: packets, bytes or memory
 *
 * Return: the band with the largest amount in relation to its Quantum; among equal
 * ones the last; DRR_FQ_NONE if all amounts are 0.
 */
static inline u32 drr_fq_bands_largest(const struct drr_fq_bands_params *p,
				       const u32 amount[DRR_FQ_BANDS])
{
	u32 largest = DRR_FQ_NONE;
	u32 band;

	for (band = 0; band < DRR_FQ_BANDS; band++) {
		if (!amount[band])
			continue;
		if (largest == DRR_FQ_NONE ||
		    (u64)amount[band] * p->quantum[largest] >=
			    (u64)amount[largest] * p->quantum[band])
			largest = band;
	}
	return largest;
}

/**
 * struct drr_fq_waits - how long the packets waited that a band has sent
 * @longest: the longest wait [1024 ns]
 * @packets: packets by drr_fq_waits_step(), modulo 2^32
 */
struct drr_fq_waits {
	u32 longest;
	u32 packets[DRR_FQ_WAITS];
};

/**
 * drr_fq_waits_step() - find the step of a wait
 * @wait: [1024 ns]
 *
 * Return: the largest n below DRR_FQ_WAITS with drr_fq_wait_of(n) <= @wait.
 */
static inline u32 drr_fq_waits_step(u32 wait)
{
	u32 power, step;

	if (wait < 8)
		return wait;
	power = 31 - __builtin_clz(wait);
	step = (power - 2) * 8 + (wait >> (power - 3)) % 8;
	return step < DRR_FQ_WAITS ? step : DRR_FQ_WAITS - 1;
}

/**
 * drr_fq_waits_add() - count a packet that is sent
 * @w: of its band
 * @wait: [1024 ns]
 * @packets: number of its segments
 */
static inline void drr_fq_waits_add(struct drr_fq_waits *w, u32 wait,
				    u32 packets)
{
	w->packets[drr_fq_waits_step(wait)] += packets;
	if (wait > w->longest)
		w->longest = wait;
}

#endif /* DRR_FQ_BANDS_CORE_H */
