/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks: in which band of a domain's links a packet of a local host is (drr_fq's bands).
 *
 * A packet is assigned if its session has a rate and the packet is within it.
 * It is new if it belongs to the first MARK_OCTETS of a connection whose peer
 * has answered at the uplink, which a host cannot forge by itself, or if it is
 * the first packet of a connection. Everything else is unassigned. A connection
 * that was silent for longer than a packet may wait at a link, and has no
 * session, may be new again.
 *
 * Token buckets limit new packets without a rate; links have already assigned
 * capacity for packets within a rate. A host has one bucket for all of its
 * destinations. A packet takes tokens for the time that it takes at the share
 * that the links of its path have stated last, so a host adds at most the share
 * of one session to a link. Where no link has answered, its packets also take
 * tokens of one bucket for all such hosts, at the rate of the default class. In
 * that bucket a host may be in debt by as much as the bucket has left (dynamic
 * thresholds, as in the default class), so a host that floods leaves half of it
 * to the others. First packets have buckets of their own with 1 / MARK_OPENING
 * of the rates, since no answer shows yet that the peer wants them.
 *
 * TCP packets must not be reordered when their connection changes its band. So
 * the first packet in another band departs when the packets before it must have
 * left the links: after MARK_WAIT between new and assigned, and after
 * MARK_WAIT_UNASSIGNED to or from unassigned. Assumptions: a connection that
 * becomes assigned was paced before, so that its new packets wait for less than
 * MARK_WAIT, and the links' limit on the wait of unassigned packets is not
 * larger than drr_fq's default. UDP is not delayed: most of it is sent by
 * programs that prefer reordered packets to late ones.
 *
 * The BPF program (marks.bpf.h) and the unit test compile this file. No clock, no locks:
 * the caller serializes the packets that share a bucket. Fields have 64 bits: see
 * struct rates_key.
 */
#ifndef SLBND_MARK_H
#define SLBND_MARK_H

#include <fairpath/core.h>
#include <uapi/fairpath/drr_fq.h>

/* What a connection may send as new: slow start reaches its share by then. */
#define MARK_OCTETS 1000000ULL

/*
 * Depth of the buckets of a host and of all hosts, as time at their rate, ns.
 */
#define MARK_BURST 400000000ULL

/* First packets have this part of the rates. */
#define MARK_OPENING 128

/* How long packets wait at links, at most, ns. */
#define MARK_WAIT 5000000ULL
#define MARK_WAIT_UNASSIGNED (DRR_FQ_BANDS_WAIT_DEFAULT * 1000ULL)

/**
 * enum mark_entrance - may a packet be new?
 * @MARK_NOT_NEW: no
 * @MARK_OPENS: it is the first one
 * @MARK_IS_NEW: yes
 */
enum mark_entrance {
	MARK_NOT_NEW,
	MARK_OPENS,
	MARK_IS_NEW,
};

/**
 * struct mark - a connection; initially 0
 * @sent: octets that were new
 * @departed: when its last packet but the first one departs, ns; 0: there is none
 * @band: of that packet, enum drr_fq_band_number
 * @opened: 1: its first packet was seen
 * @answered: 1: a packet of its peer has arrived after that
 * @old: 1: it is not new anymore
 */
struct mark {
	u64 sent;
	u64 departed;
	u64 band;
	u64 opened;
	u64 answered;
	u64 old;
};

/**
 * mark_enter() - may the next packet of a connection be new?
 * @m: the connection; if mark_take() refuses a packet that is new, the caller sets @old
 * @now: ns, on the clock of departures
 * @length: octets
 * @syn: it opens a connection of TCP
 * @rated: its session has a rate
 *
 * Return: enum mark_entrance.
 */
static inline u32 mark_enter(struct mark *m, u64 now, u64 length, bool syn,
			     bool rated)
{
	if (syn)
		*m = (struct mark){};
	if (m->old && !rated && now >= m->departed + MARK_WAIT_UNASSIGNED) {
		m->old = 0;
		m->sent = 0;
	}
	if (!m->opened) {
		m->opened = 1;
		return MARK_OPENS;
	}
	/*
	 * A connection does not become new because its peer answers later than
	 * links do.
	 */
	if (!m->answered && rated)
		m->old = 1;
	if (m->sent + length > MARK_OCTETS)
		m->old = 1;
	if (m->old || !m->answered)
		return MARK_NOT_NEW;
	m->sent += length;
	return MARK_IS_NEW;
}

/**
 * mark_depart() - note the band of a packet, and delay it if necessary
 * @m: the connection; not for a packet for which mark_enter() returned MARK_OPENS
 * @band: enum drr_fq_band_number
 * @departure: when the pacer sends it, ns, at least now
 * @ordered: packets must arrive in their order
 *
 * Return: when it departs, ns.
 */
static inline u64 mark_depart(struct mark *m, u32 band, u64 departure,
			      bool ordered)
{
	u64 wait = 0;

	if (m->band != band)
		wait = m->band == DRR_FQ_BAND_UNASSIGNED ||
				       band == DRR_FQ_BAND_UNASSIGNED ?
			       MARK_WAIT_UNASSIGNED :
			       MARK_WAIT;
	if (ordered && m->departed)
		departure = fp_max64(departure, m->departed + wait);
	m->departed = fp_max64(departure, 1);
	m->band = band;
	return departure;
}

/**
 * mark_take() - take tokens for a packet
 * @host: when the bucket of its host has sent what it sent so far, ns; changed
 * @all: the same of the bucket of all hosts; changed
 * @asked: links have not answered: @all counts, too
 * @now: ns, on the same clock
 * @duration: of the packet at its rate, ns
 *
 * Return: whether there were enough.
 */
static inline bool mark_take(u64 *host, u64 *all, bool asked, u64 now,
			     u64 duration)
{
	u64 of_host = fp_max64(*host, now);
	u64 of_all = asked ? fp_max64(*all, now) : now;

	if (of_host - now + of_all - now + duration > MARK_BURST)
		return false;
	*host = of_host + duration;
	if (asked)
		*all = of_all + duration;
	return true;
}

#endif /* SLBND_MARK_H */
