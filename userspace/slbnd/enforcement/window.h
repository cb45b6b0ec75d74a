/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receive windows of TCP: an access router lowers the window in the
 * acknowledgments that return to a sender, so that the sender keeps no more data in
 * flight than its assigned rate needs (AC/DC TCP, SIGCOMM 2016). An unchanged sender
 * then has no queue in the pacer, and loses nothing.
 *
 * A window is rate * round-trip time, and a packet or a burst of segments. The
 * round-trip time is the least one of 10 to 20 s, from the departure from the
 * pacer to the acknowledgment: the pacer's own delay is not part of it. Only
 * new data are timed, so a retransmission makes no sample too short. The
 * estimate is never exact (delayed acknowledgments, jitter, a new route), so a
 * control loop corrects it in each round trip: if the pacer ran empty while the
 * window limited the sender, the window grows by half of what was missed; if a
 * packet or more always waited, it shrinks by half of that. The whole
 * difference would be too much: the pacer may have run empty several times in a
 * round trip because acknowledgments came in bursts. While data wait at a link
 * the window does not grow: then the pacer runs empty because acknowledgments
 * are late, and if all connections had more in flight, the queue would remain
 * until links have capacity that they do not assign. The router neither sees
 * nor measures data and acknowledgments between host and router: if these may
 * limit a sender, the window grows slowly.
 *
 * The connections of a session share its rate. If each that sends counted for an equal
 * share, a few small ones would take most of it from one that has more. So each counts
 * for the part of its share that it fills, and the others divide the rest. It counts in
 * full until that is known, and never for more: whatever a host pretends, the others
 * have their equal shares. A window that others leave room for is granted as it is
 * filled, and what all of them would have if none left any, at once.
 *
 * What the sender was granted is kept (RFC 9293, 3.8.6): the right edge, the highest
 * sequence number that it may send, never moves back by more than the unit of the
 * window field, which cannot express less (RFC 7323, 2.4). A window is never above the
 * receiver's own, and never below a few segments (WINDOW_SEGMENTS, WINDOW_LEAST) unless
 * the receiver's is: so a sender whose acknowledgments are lost need not probe.
 *
 * An edge moves by whole segments, and is rounded down to the unit. If more
 * than whole segments were granted, a sender with TCP_NODELAY would send a
 * short segment for each acknowledgment, and others one in a round trip
 * (Minshall's form of Nagle's algorithm). Segments that are shorter by less
 * than a unit cost almost nothing.
 *
 * While a session may send above its rate (ceiling.h), a window grows from that of its
 * rate to that of its ceiling as fast as the sender fills it: it doubles in a round trip
 * at most. What is granted remains granted when the ceiling ends, so a window that is
 * not filled must not be larger than what the pacer can delay at the rate.
 *
 * The window of a connection without a rate is bounded, too: sending what a
 * receiver offers at once may take minutes at the later rate, and no edge moves
 * back. The bound must not slow a connection that never gets a rate. A sender
 * may have in flight what it began with and, at most, what was acknowledged
 * since (RFC 5681, 3.1), so what it needs next is at most twice what it had in
 * flight. The bound is the largest of three values: four times what it had in
 * flight, as a part of it may not have arrived at the router yet; twice what
 * was acknowledged lately, for a host that is farther from the router than its
 * peer; and WINDOW_OPEN. What was granted remains, so a sender that pauses
 * finds its window again.
 *
 * If links have stated the share of its path (marks.h), the bound is lower:
 * what the share sends in a round trip and WINDOW_HOLD, or WINDOW_BEGIN
 * segments. When the connection gets its rate, about the share, the pacer can
 * hold what was granted. Otherwise, when many slow flows begin, they lose most
 * of their first windows in the pacer.
 *
 * The edge is counted from the highest octet known to have arrived: with SACK the
 * highest block, else a segment for each duplicate acknowledgment. Otherwise a sender
 * would pause for a round trip after a loss.
 *
 * Windows are in units of 2^scale octets. The scale is known from the two SYNs, and
 * applies only if both carry it (RFC 7323, 1.3). A connection is left alone if its SYNs
 * were not seen, if segments are signed (TCP-MD5, RFC 2385; TCP-AO, RFC 5925), and
 * if its windows count data of several connections (MPTCP, RFC 8684).
 *
 * Neither SYNs nor acknowledgments are trusted. A handshake counts when data with its
 * sequence numbers follow: SYNs that others forge change no connection. An
 * acknowledgment of data that were not sent is left alone, as the sender ignores it.
 * One that seems old grants nothing new, so that a forged number of data in flight,
 * or a late acknowledgment, costs at most a window.
 *
 * The BPF program (windows.bpf.h) and the unit test compile this file. No clock, no
 * locks. Packets of one direction are assumed to be processed one after the other;
 * both directions at the same time: each field has one writer, but for @pending, which
 * is written at once. If CPUs share a direction nevertheless, an edge may move
 * back by the window's last step, which senders must handle (RFC 9293, 3.8.6).
 */
#ifndef SLBND_WINDOW_H
#define SLBND_WINDOW_H

#include <fairpath/core.h>

/*
 * What each packet needs is inlined: with the mitigations of some processors, a
 * return takes some ns. What only few packets need is in functions of the BPF
 * program that are verified one by one, with any argument, so that the verifier
 * of Linux 6.1 can finish the rest without CAP_PERFMON. So these functions
 * check their pointers, and return a number.
 */
#ifndef WINDOW_PART
#define WINDOW_PART static inline
#endif

/*
 * Code after this reads memory again: otherwise the compiler keeps values on
 * the stack, and without CAP_PERFMON, the kernel stops speculation (lfence)
 * where BPF programs write to the stack.
 */
#define window_reload() asm volatile("" ::: "memory")

/*
 * A window is at least so many segments: one that is lost is followed by three
 * duplicate acknowledgments (RFC 5681). If they take longer than
 * WINDOW_PATIENCE ns at the rate, they wait in the pacer, and CoDel drops some.
 * Then the window is WINDOW_LEAST segments: two that a delayed acknowledgment
 * waits for, and one that Nagle's algorithm delays.
 */
#define WINDOW_SEGMENTS 4
#define WINDOW_LEAST 3
#define WINDOW_PATIENCE 5000000ULL

/* Segments above rate * round-trip time: what a delayed acknowledgment holds back. */
#define WINDOW_RESERVE 1

/*
 * The same if segments arrive merged (GSO, GRO), ns: Linux sends what its pacing rate
 * permits in a millisecond at once.
 */
#define WINDOW_BURST 1000000ULL

/* The period of the least round-trip time, ns. */
#define WINDOW_PERIOD 10000000000ULL

/*
 * The least window without a rate, octets: more than twice what senders begin
 * with, and enough for some round trips of slow start with small segments.
 */
#define WINDOW_OPEN 0x40000U

/*
 * Without a rate, at the share of a path: less than what the pacer holds (ENFORCE_QUEUE), as
 * shares fall while connections begin, ns; and segments, what senders begin with (RFC 6928).
 */
#define WINDOW_HOLD 25000000ULL
#define WINDOW_BEGIN 10

/* Without a rate, what was acknowledged in so long counts, and as much before, ns. */
#define WINDOW_LATELY 250000000ULL

/* A share of a session has so many parts. */
#define WINDOW_PARTS 128U

/*
 * Full segments are shorter, as after a change of the path's MTU, if the window was the limit in
 * so many rounds in a row, and none of them had a longer one. Segments may be short in single
 * ones, as edges are rounded to the unit, and the last ones of a write.
 */
#define WINDOW_SHORT 4

/* Segments in a round of the loop, at least. */
#define WINDOW_LOOP 8

/*
 * Acknowledgments are assumed to return by another router if none has arrived for
 * so long, at least, while data were outstanding all the time, ns.
 */
#define WINDOW_SILENCE 1000000000ULL

/*
 * Data wait at a link if the last two round trips exceed the least one by a
 * sixteenth and WINDOW_QUEUE, but do not exceed twice the least one (beyond
 * that, the receiver is slow). After WINDOW_DRAIN, the path is assumed to be
 * longer. Both in ns.
 */
#define WINDOW_QUEUE 1000000ULL
#define WINDOW_DRAIN 250000000ULL

/* The longest window of TCP, and the largest scale (RFC 7323, 2.3). */
#define WINDOW_MAX 0x40000000U
#define WINDOW_SCALE_MAX 14

/*
 * Window fields of units up to this scale, which are shorter than most segments, are
 * rounded down, others to the nearest.
 */
#define WINDOW_SCALE_DOWN 10

/*
 * Times of 32 bits are in 1024 ns, and wrap after 73 minutes. Longer round-trip times
 * than 8 s are not valid.
 */
#define WINDOW_TIME_SHIFT 10
#define WINDOW_TIME_MAX 0x800000U

/*
 * A rate times a time, in bit/s and that unit, is so many times the octets. No sum of them
 * is larger than WINDOW_WORK_MAX.
 */
#define WINDOW_WORK (8000000000ULL >> WINDOW_TIME_SHIFT)
#define WINDOW_WORK_MAX 0x8000000000000000ULL

/* Options of a SYN: a set of these, and the scale and the segment size behind them. */
#define WINDOW_SCALED 1
#define WINDOW_SACK 2
#define WINDOW_MULTIPATH 4
#define WINDOW_SIGNED 8
#define WINDOW_MALFORMED 16
#define WINDOW_SCALE_SHIFT 8
#define WINDOW_MSS_SHIFT 16

/* The segment size without the option (RFC 9293, 3.7.1), and the least usual one. */
#define WINDOW_MSS 536

/* A segment has at most so many octets of options, which reduce its data. */
#define WINDOW_OPTIONS 40

/* The first data follow the SYN, which may itself have up to so many octets. */
#define WINDOW_FIRST 9000

/* The ends of a connection: the host, whose data are paced, and its peer. */
enum window_end {
	WINDOW_HOST,
	WINDOW_PEER,
};

/* Both SYNs were seen. */
#define WINDOW_BOTH 3U

/**
 * struct window_start - the SYNs of a connection that opens; initially 0
 * @rate: the connection's part of the rate of its session when the host's SYN left, bit/s;
 *	0: none
 * @shared: @rate is the share of the path: the session had no rate
 * @seen: bit 1 << end: its SYN was seen
 * @options: of each end's SYN
 * @sequence: of each end's SYN
 * @departed: when the host's SYN left, if it is timed; 0: it is not
 * @rtt: the round-trip time that it found; 0: unknown
 * @right: the right edge that the peer has granted since
 * @granted: @right is valid
 */
struct window_start {
	u64 rate;
	u32 seen;
	u32 options[2];
	u32 sequence[2];
	u32 departed;
	u32 rtt;
	u32 right;
	u32 granted;
	u32 shared;
};

/**
 * struct window - the window of a connection; initially 0
 * @pending: the data that are timed: sequence number of their end << 32 | departure;
 *	0: none
 * @rate: of its session when it last sent data, or its ceiling, bit/s; 0: none
 * @assigned: its rate without a ceiling
 * @heard: @ticks of the last acknowledgment
 * @period: when the period of @rtt[0] began, ns
 * @rtt: least round-trip time of this period and of the one before; 0: none
 * @rtt_most: the longest of the last samples: less a sixteenth for each later one
 * @last: the last two samples of the round-trip time
 * @queued: since when its data wait at links; 0: they do not
 * @right: the highest right edge that was granted
 * @ack: the last acknowledgment
 * @field: its window field
 * @duplicate: octets that duplicates of it have reported
 * @sent: the highest sequence number that was sent
 * @extra: what the loop adds to the window, octets
 * @size: octets that it may have in flight
 * @own: the same without the ceiling, and if all of its session's connections that send
 *	fill their windows
 * @round: of struct window_sharing, when it last sent data
 * @since: without a rate: when it began to count what is acknowledged
 * @from: the acknowledgment then
 * @passed: octets that were acknowledged as long before
 * @shares: that these connections fill, and its own; in 1 / WINDOW_PARTS
 * @part: of its share that it filled when it joined @round, as it counts in @shares of others
 * @others: other connections of its session that send
 * @mss: octets of its full segments; until it sent one, what its SYNs announced
 * @headers: octets of headers of a segment on the wire
 * @longest: segment of these rounds: @shorter
 * @scale: of the window field
 * @known: the window may be lowered
 * @sack: both ends use SACK
 * @sending: @sent is valid
 * @acked: @ack and @right are valid
 * @opened: @right is valid until then: what was granted before the first data
 * @lowered: the window was lowered in the last acknowledgment
 * @limited: before the last acknowledgment, the lowered window held data back
 * @near: bit 0: in this round, bit 1: in the one before, a quarter of the lowered
 *	window or more was in flight from here
 * @merged: segments that it merged when it last did; 0: it never did
 * @silent: acknowledgments return by another router
 * @full: it sent a full segment
 * @dry: the pacer ran empty in the last round, in which it had as much in
 *	flight
 * @shorter: rounds in which the window was the limit since it sent a full segment
 * @least: segments of the least window
 * @changes: counts changes of what @size depends on, but for the round-trip time
 * @chosen: @changes for which @size was computed
 */
struct window {
	u64 pending;
	u64 rate;
	u64 assigned;
	u64 heard;
	u64 period;
	u32 rtt[2];
	u32 rtt_most;
	u32 last[2];
	u32 queued;
	u32 right;
	u32 ack;
	u32 field;
	u32 duplicate;
	u32 sent;
	s32 extra;
	u32 size;
	u32 own;
	u32 round;
	u32 since;
	u32 from;
	u32 passed;
	u32 shares;
	u16 others;
	u16 mss;
	u16 headers;
	u16 longest;
	u8 scale;
	u8 known;
	u8 sack;
	u8 sending;
	u8 acked;
	u8 lowered;
	u8 limited;
	u8 merged;
	u8 silent;
	u8 full;
	u8 near;
	u8 least;
	u8 changes;
	u8 chosen;
	u8 opened;
	u8 dry;
	u8 part;
	u8 shorter;
};

/**
 * struct window_sharing - what the connections of a session share; initially 0
 * @since: when the round began, ns
 * @round: its number
 * @segments: sent in it
 * @connections: that sent in it, and in the one before
 * @shares: that they fill, in it and in the one before; in 1 / WINDOW_PARTS
 * @least: least that waited in the pacer, in it and in the one before; in
 *	1 / WINDOW_WORK octets, at the rate of that time, which may be another one by now
 * @missed: what the pacer did not send as windows held data back; the same
 * @reached: octets on the wire that connections sent whose acknowledgments arrive here
 * @limited: those of them that left while their connection was at the right edge of a
 *	lowered window, or after a round in which the pacer always had a packet
 * @elsewhere: octets on the wire that connections sent whose acknowledgments do not
 *	arrive here
 * @escaped: octets on the wire that windows do not apply to: @elsewhere, those
 *	of other connections, those beyond the window, and what is not TCP, or
 *	is not data and not counted in @acks
 * @acks: octets on the wire of acknowledgments without data
 * @dropped: packets that the pacer dropped or marked
 *
 * The demand is derived from @reached, @limited and @elsewhere (demand.h), the ceiling
 * from all others of the last six (ceiling.h). All of these only grow. CPUs that send
 * packets of one session at once may lose a few octets of them, and a few packets and
 * connections of a round. If two of them end a round, it counts once: window_turn().
 */
struct window_sharing {
	u64 since;
	u32 round;
	u32 segments;
	u32 connections[2];
	u32 shares[2];
	u64 least[2];
	u64 missed[2];
	u64 reached;
	u64 limited;
	u64 elsewhere;
	u64 escaped;
	u64 acks;
	u64 dropped;
};

/* Does the sequence number @a precede @b? */
static inline bool window_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline u32 window_time(u64 ns)
{
	return ns >> WINDOW_TIME_SHIFT;
}

/* What a rate sends in a time of at most WINDOW_TIME_MAX, in 1 / WINDOW_WORK octets. */
static __always_inline u64 window_work(u64 rate, u64 time)
{
	return fp_min64(rate, 1ULL << 40) * fp_min64(time, WINDOW_TIME_MAX);
}

/* The same in octets. */
static __always_inline u64 window_octets(u64 rate, u64 time)
{
	return window_work(rate, time) / WINDOW_WORK;
}

/* --- the start of a connection ------------------------------------------- */

/**
 * window_option() - add an option of a SYN
 * @options: set of the options before it; 0: none
 * @kind: of the option, not 0 or 1
 * @length: its length, octets
 * @value: its value, if it has one or two octets
 *
 * Return: the set with it.
 */
static inline u64 window_option(u64 options, u8 kind, u8 length, u16 value)
{
	u64 scale = value > WINDOW_SCALE_MAX ? WINDOW_SCALE_MAX : value;
	u64 old;

	switch (kind) {
	case 2:
		old = 0xffffULL << WINDOW_MSS_SHIFT;
		return length != 4 ? options | WINDOW_MALFORMED :
				     (options & ~old) |
					     (u64)value << WINDOW_MSS_SHIFT;
	case 3:
		old = 0xffULL << WINDOW_SCALE_SHIFT;
		return length != 3 ? options | WINDOW_MALFORMED :
				     (options & ~old) | WINDOW_SCALED |
					     scale << WINDOW_SCALE_SHIFT;
	case 4:
		return options | WINDOW_SACK;
	case 19:
	case 29:
		return options | WINDOW_SIGNED;
	case 30:
		return options | WINDOW_MULTIPATH;
	default:
		return options;
	}
}

/**
 * window_syn() - note a SYN that opens a connection
 * @start: of the connection
 * @end: which end sent it
 * @sequence: its sequence number
 * @options: its options
 */
static __always_inline void window_syn(struct window_start *start,
				       enum window_end end, u32 sequence,
				       u64 options)
{
	start->seen = 1U << end;
	start->sequence[end] = sequence;
	start->options[end] = options;
	start->rate = 0;
	start->departed = 0;
	start->rtt = 0;
	start->granted = 0;
}

/**
 * window_syn_ack() - note a SYN that accepts a connection
 * @start: of the connection
 * @end: which end sent it
 * @sequence: its sequence number
 * @ack: the sequence number that it acknowledges
 * @options: its options
 *
 * It is ignored if it does not answer the other end's SYN, or is not the first.
 *
 * Return: whether it answers the other end's SYN.
 */
static __always_inline bool window_syn_ack(struct window_start *start,
					   enum window_end end, u32 sequence,
					   u32 ack, u64 options)
{
	enum window_end other = end == WINDOW_HOST ? WINDOW_PEER : WINDOW_HOST;

	if (start->seen != 1U << other || ack != start->sequence[other] + 1)
		return false;
	start->seen |= 1U << end;
	start->sequence[end] = sequence;
	start->options[end] = options;
	return true;
}

/* Does a peer's SYN repeat the one that accepted the connection? */
static inline bool window_answers(const struct window_start *start,
				  u32 sequence, u32 ack)
{
	return start->seen == WINDOW_BOTH &&
	       start->sequence[WINDOW_PEER] == sequence &&
	       start->sequence[WINDOW_HOST] + 1 == ack;
}

/**
 * window_follows() - do data of the host follow its SYN?
 * @start: of a connection
 * @sequence: of the data, or their acknowledgment
 *
 * If they do not, another sender may have forged the SYN.
 *
 * Return: whether they do; false if there was none.
 */
static inline bool window_follows(const struct window_start *start,
				  u32 sequence)
{
	return start->seen & 1U << WINDOW_HOST &&
	       sequence - start->sequence[WINDOW_HOST] - 1 <= WINDOW_FIRST;
}

/* The segment size that a SYN announces. */
static inline u32 window_mss(u64 options)
{
	u32 mss = options >> WINDOW_MSS_SHIFT & 0xffff;

	return mss > WINDOW_MSS ? mss : WINDOW_MSS;
}

/* May the windows of a connection be lowered? */
static inline bool window_allowed(const struct window_start *start)
{
	u32 host = start->options[WINDOW_HOST];
	u32 peer = start->options[WINDOW_PEER];

	return start->seen == WINDOW_BOTH &&
	       !((host | peer) & (WINDOW_SIGNED | WINDOW_MALFORMED)) &&
	       !(host & peer & WINDOW_MULTIPATH);
}

/* The scale of the peer's window fields, but those of SYNs. */
static inline u32 window_scale(const struct window_start *start)
{
	u32 host = start->options[WINDOW_HOST];
	u32 peer = start->options[WINDOW_PEER];

	return host & peer & WINDOW_SCALED ? peer >> WINDOW_SCALE_SHIFT & 0xff :
					     0;
}

/* Does the SYN of a host repeat the one that is known? */
static inline bool window_repeats(const struct window_start *start,
				  u32 sequence)
{
	return start->seen & 1U << WINDOW_HOST &&
	       start->sequence[WINDOW_HOST] == sequence;
}

/**
 * window_opens_at() - the SYN of a host leaves
 * @start: of the connection, which has it
 * @again: it is not the first one: its answer is not timed (RFC 6298, 3)
 * @departure: from the pacer, ns
 * @rate: the connection's part of the rate of its session, bit/s; 0: none
 * @share: the share of the path, bit/s; 0: unknown
 */
static inline void window_opens_at(struct window_start *start, bool again,
				   u64 departure, u64 rate, u64 share)
{
	start->departed = again ? 0 : window_time(departure) | 1;
	start->rate = rate ?: share;
	start->shared = !rate;
}

/* Octets that a host may send before its first data were acknowledged. */
WINDOW_PART u32 window_opening(const struct window_start *start)
{
	u32 patience = WINDOW_PATIENCE >> WINDOW_TIME_SHIFT, mss, least;
	u64 size, time;

	if (!start || !start->rate || !start->rtt)
		return WINDOW_OPEN;
	mss = fp_min(window_mss(start->options[WINDOW_HOST]),
		     window_mss(start->options[WINDOW_PEER]));
	time = start->rtt;
	least = WINDOW_SEGMENTS * mss;
	if (start->shared) {
		time += WINDOW_HOLD >> WINDOW_TIME_SHIFT;
		least = WINDOW_BEGIN * mss;
	} else if (window_octets(start->rate, patience) < least) {
		least = WINDOW_LEAST * mss;
	}
	size = window_octets(start->rate, time) + WINDOW_RESERVE * mss;
	return fp_min64(fp_max64(size, least), WINDOW_OPEN);
}

/**
 * window_bound_field() - choose the window of an acknowledgment before the first data
 * @start: of the connection
 * @ack: the acknowledged sequence number
 * @field: window field
 * @scale: of it: that of a SYN is not scaled
 * @now: ns
 *
 * A session may have a rate when its connection opens, or its path a share. Then even the
 * first window, of 64 kB, may be too long: what is granted remains granted.
 *
 * Return: the window field, at most @field.
 */
static inline u32 window_bound_field(struct window_start *start, u32 ack,
				     u32 field, u32 scale, u64 now)
{
	u32 unit = 1U << (scale & 15), room, granted, sample;

	if (!window_allowed(start))
		return field;
	if (start->departed) {
		sample = window_time(now) - start->departed;
		start->departed = 0;
		start->rtt = sample <= WINDOW_TIME_MAX ? sample : 0;
	}
	room = window_opening(start);
	granted = start->right - ack;
	if (start->granted && (s32)granted > (s32)room)
		room = granted;
	/* A unit may be longer than all of it. */
	field = fp_min(field, (room + unit - 1) >> (scale & 15));
	granted = ack + (field << (scale & 15));
	if (!start->granted || window_before(start->right, granted))
		start->right = granted;
	start->granted = 1;
	return field;
}

/**
 * window_begin() - begin with a connection
 * @window: 0; set
 * @start: its SYNs
 * @ticks: as in struct window_data
 *
 * Return: whether its windows may be lowered.
 */
static inline bool window_begin(struct window *window,
				const struct window_start *start, u64 ticks)
{
	u32 host = start->options[WINDOW_HOST];
	u32 peer = start->options[WINDOW_PEER];

	window->heard = ticks;
	window->mss = fp_min(window_mss(host), window_mss(peer));
	if (!window_allowed(start))
		return false;
	window->scale = window_scale(start);
	window->sack = !!(host & peer & WINDOW_SACK);
	window->rtt[0] = start->rtt;
	window->right = start->right;
	window->opened = start->granted;
	window->known = 1;
	return true;
}

/* --- data ----------------------------------------------------------------- */

/* The least round-trip time; 0: unknown. */
static __always_inline u32 window_rtt(const struct window *window)
{
	u32 now = window->rtt[0], before = window->rtt[1];

	return before && before < now ? before : now;
}

/* The shares that there would be if all connections of the session filled theirs. */
static inline u32 window_all(const struct window *window)
{
	return (window->others + 1U) * WINDOW_PARTS;
}

/* The shares that are filled; all, until the connection has joined a round. */
static inline u32 window_filled(const struct window *window)
{
	return window->shares ?: window_all(window);
}

/* Octets of the connection's share of a rate in flight without its reserve. */
WINDOW_PART u64 window_in_flight(const struct window *window, u64 rate,
				 u64 time, u32 shares)
{
	u64 wire;

	if (!window || !shares)
		return 0;
	wire = window_octets(rate, time) * WINDOW_PARTS / shares;
	return fp_min64(wire * window->mss / (window->mss + window->headers),
			WINDOW_MAX);
}

/*
 * Do data wait at links, and not for long yet? @now: in units of struct window, not 0.
 */
static __always_inline bool window_queues(struct window *window, u32 now)
{
	u32 rtt = window_rtt(window);
	u32 most = rtt + rtt / 16 + (WINDOW_QUEUE >> WINDOW_TIME_SHIFT);

	if (window->last[0] <= most || window->last[1] <= most ||
	    window->last[0] > 2 * rtt) {
		window->queued = 0;
		return false;
	}
	if (!window->queued)
		window->queued = now;
	return now - window->queued < WINDOW_DRAIN >> WINDOW_TIME_SHIFT;
}

/* What the loop may add to a window at a rate, at most: see @rtt_most. */
WINDOW_PART s64 window_most(const struct window *window, u64 rate, u32 shares)
{
	u64 bdp, longest;
	u32 rtt;

	if (!window)
		return 0;
	rtt = window_rtt(window);
	bdp = window_in_flight(window, rate, rtt, shares);
	longest = window_in_flight(window, rate, fp_max(rtt, window->rtt_most),
				   shares);
	return 2 * longest - bdp;
}

/* The loop: correct the window by what was observed in the last round. */
WINDOW_PART int window_correct(struct window *window,
			       const struct window_sharing *sharing)
{
	u64 bdp, missed, least;
	s64 extra, most, lowest;
	u32 shares;
	bool dry;

	if (!window || !sharing)
		return 0;
	shares = window_filled(window);
	bdp = window_in_flight(window, window->rate, window_rtt(window),
			       shares);
	missed = sharing->missed[1] / WINDOW_WORK;
	least = sharing->least[1] / WINDOW_WORK;
	most = window_most(window, window->rate, shares);
	lowest = -(s64)(bdp / 2);
	extra = window->extra;
	/* A sender may make a single pause by itself, as BBR does. */
	dry = window->dry;
	window->dry = missed && window->near & 1;

	if (window_queues(window, window_time(sharing->since) | 1))
		missed = 0;
	if (missed && window->limited)
		extra += fp_min64(missed, WINDOW_MAX) / 2 * WINDOW_PARTS /
			 shares;
	else if (dry && window->dry)
		extra += fp_min64(fp_min64(missed, WINDOW_MAX) * WINDOW_PARTS /
					  shares,
				  bdp / 8);
	else if (!missed && least > window->mss + window->headers)
		extra -=
			fp_min64(least, WINDOW_MAX) / 2 * WINDOW_PARTS / shares;
	if (extra > most)
		extra = most;
	if (extra < lowest)
		extra = lowest;
	if (extra != window->extra)
		window->changes++;
	window->extra = extra;
	return 0;
}

/**
 * struct window_data - data that leave the host
 * @now: ns
 * @ticks: by a clock that is some ms too low and may begin at any time, ns
 * @departure: from the pacer, ns, at least @now
 * @missed: how long the pacer was idle before them, beyond what it makes up for, ns
 * @shared: 1: they are counted in what the connections of their session share
 * @rate: of the session, or its ceiling, bit/s; 0: none
 * @assigned: the same without the ceiling
 * @sequence: of the first octet
 * @length: octets, with a FIN
 * @mss: octets of each segment but the last, 1 to 65535
 * @headers: octets of headers of each segment on the wire
 * @octets: of all of it on the wire
 * @held: 1: the window may have held them back; window_sent() sets it
 *
 * All fields are 64 bits: see struct rates_key.
 */
struct window_data {
	u64 now;
	u64 ticks;
	u64 departure;
	u64 missed;
	u64 shared;
	u64 rate;
	u64 assigned;
	u64 sequence;
	u64 length;
	u64 mss;
	u64 headers;
	u64 octets;
	u64 held;
};

/*
 * Do data end beyond what was granted? A window field may round up by a unit, and a FIN
 * or a probe may be ahead of it.
 */
static __always_inline bool window_exceeds(const struct window *window,
					   const struct window_data *data)
{
	u32 end = data->sequence + data->length;
	u32 granted =
		window->right + (1U << (window->scale & 15)) + window->mss;

	return window_before(granted, end);
}

/* Count data for the demand and the ceiling of their session. */
static __always_inline void window_count(const struct window *window,
					 struct window_sharing *sharing,
					 const struct window_data *data)
{
	bool waits = window->limited || sharing->least[1];
	u64 octets = data->octets, reached = octets;

	/*
	 * Acknowledgments have not begun, return by another router, or the
	 * sender ignores their window.
	 */
	if (!window->acked || window->silent || window_exceeds(window, data))
		reached = 0;
	/* Without branches: see count(). */
	sharing->elsewhere += window->silent ? octets : 0;
	sharing->escaped += octets - reached;
	sharing->reached += reached;
	sharing->limited += waits ? reached : 0;
}

/*
 * A round of a session ends. Two CPUs may find that at once. If the second one turned again,
 * it would take the new round, of nothing, for the last one: all windows would shrink. So it
 * returns if the new round has no packet yet. If not even that is visible to it, it has read
 * what the first one has, and writes the same. BPF has no atomic exchange without -mcpu=v3.
 */
WINDOW_PART int window_turn(struct window_sharing *sharing, u64 now)
{
	u32 connections, shares, round;
	u64 missed, least;

	if (!sharing)
		return 0;
	round = sharing->round;
	connections = sharing->connections[0];
	shares = sharing->shares[0];
	missed = sharing->missed[0];
	window_reload();
	/* Read last, and written first. */
	least = sharing->least[0];
	if (least == WINDOW_WORK_MAX)
		return 0;
	sharing->least[0] = WINDOW_WORK_MAX;
	window_reload();
	sharing->segments = 0;
	sharing->since = now;
	sharing->connections[0] = 0;
	sharing->shares[0] = 0;
	sharing->missed[0] = 0;
	sharing->connections[1] = connections;
	sharing->shares[1] = shares;
	sharing->least[1] = least;
	sharing->missed[1] = missed;
	window_reload();
	sharing->round = round + 1;
	return 0;
}

/*
 * Which part of its share does a connection fill, by what it has in flight? All of it until that
 * is known. One that is at the edge of its window will use what it was granted. Others may have
 * half more in flight in a moment.
 */
static __always_inline u32 window_fill(const struct window *window)
{
	u32 size = window->size, used = window->sent - window->ack;

	used += used / 2;
	if (window->limited || window->near)
		used = window->right - window->ack;
	if (!window->acked || used >= size)
		return WINDOW_PARTS;
	return (u64)used * WINDOW_PARTS / size;
}

/*
 * Are full segments shorter than they were? The least window has some of them, and would take too
 * long. Not below what any path has: a window must have room for a longer one, to see it again.
 */
static __always_inline void window_shorten(struct window *window)
{
	if (window->longest >= window->mss) {
		window->longest = 0;
		window->shorter = 0;
	} else if (window->limited && ++window->shorter >= WINDOW_SHORT) {
		window->mss = fp_min(window->mss,
				     fp_max(window->longest, WINDOW_MSS));
		window->full = 1;
		window->longest = 0;
		window->shorter = 0;
		window->changes++;
	}
}

/* A connection sends the first data in a round. */
WINDOW_PART int window_join(struct window *window,
			    struct window_sharing *sharing)
{
	u32 count, part, before, shares;

	if (!window || !sharing)
		return 0;
	window_shorten(window);
	part = window_fill(window);
	/* What it had in the round before is not of others. */
	before = window->round + 1 == sharing->round ? window->part : 0;
	before = fp_min(before, sharing->shares[1]);
	shares = fp_max(sharing->shares[0], sharing->shares[1] - before);
	shares += WINDOW_PARTS;
	window->round = sharing->round;
	window->part = part;
	sharing->shares[0] += part;
	sharing->connections[0]++;
	count = fp_max(sharing->connections[0], sharing->connections[1]);
	count = fp_min(count - 1, 65535);
	if (count != window->others || shares != window->shares)
		window->changes++;
	window->others = count;
	window->shares = shares;
	window_correct(window, sharing);
	window->near = window->near << 1 & 3;
	return 0;
}

/* Segments that a sender merged, if it merges these data, as @merged of struct window. */
static __always_inline u32 window_merged(const struct window *window,
					 const struct window_data *data)
{
	if (data->length <= data->mss)
		return window->merged;
	return fp_min64(data->length / data->mss + 1, 255);
}

/* Are data a full segment, as far as is known? */
static __always_inline bool window_fills(const struct window *window,
					 const struct window_data *data)
{
	return data->mss > window->mss ||
	       (!window->full && data->mss + WINDOW_OPTIONS >= window->mss);
}

/* Does a round of the session end? It is a round trip, at least. */
static __always_inline bool window_ends(const struct window *window,
					const struct window_sharing *sharing,
					const struct window_data *data)
{
	u64 rtt = (u64)window_rtt(window) << WINDOW_TIME_SHIFT;

	/* Another CPU may have begun it a little later. */
	return data->now > sharing->since + fp_max64(rtt, WINDOW_BURST) &&
	       sharing->segments >= WINDOW_LOOP;
}

/* Note what the size of the window depends on. */
static __always_inline void window_note(struct window *window,
					const struct window_data *data)
{
	window->merged = window_merged(window, data);
	if (window_fills(window, data)) {
		window->mss = data->mss;
		window->full = 1;
	}
	window->rate = data->rate;
	window->assigned = data->assigned;
	window->headers = data->headers;
	window->changes++;
}

/* Is window_prepare() not needed? */
static __always_inline bool window_steady(const struct window *window,
					  const struct window_sharing *sharing,
					  const struct window_data *data)
{
	if (window->rate != data->rate || window->assigned != data->assigned ||
	    window->headers != data->headers ||
	    window->merged != window_merged(window, data) ||
	    window_fills(window, data))
		return false;
	return !data->shared || (window->round == sharing->round &&
				 !window_ends(window, sharing, data));
}

/* Note changes, and begin a round: few data need it. */
WINDOW_PART int window_prepare(struct window *window,
			       struct window_sharing *sharing,
			       const struct window_data *data)
{
	bool ends;

	if (!window || !sharing || !data)
		return 0;
	ends = window_ends(window, sharing, data);
	window_note(window, data);
	if (!data->shared)
		return 0;
	if (ends)
		window_turn(sharing, data->now);
	if (window->round != sharing->round)
		window_join(window, sharing);
	return 0;
}

/*
 * Does the window still grow to that of a ceiling, as the sender fills it? Then
 * it is smaller than the pacer needs, and the loop has nothing to correct.
 */
static __always_inline bool window_opens(const struct window *window)
{
	u32 granted = window->right - window->ack;

	return window->own < window->size &&
	       granted < window->size - window->size / 4;
}

/* Count data in the round of their session. */
static __always_inline void window_share(struct window *window,
					 struct window_sharing *sharing,
					 const struct window_data *data)
{
	u64 wait = (data->departure - data->now) >> WINDOW_TIME_SHIFT;
	u64 missed = data->missed >> WINDOW_TIME_SHIFT;
	u64 rate = data->rate ?: 1;

	window->longest = fp_max(window->longest, data->mss);
	sharing->segments++;
	sharing->least[0] =
		fp_min64(sharing->least[0], window_work(rate, wait));
	if (missed && data->held && !window_opens(window))
		sharing->missed[0] =
			fp_min64(sharing->missed[0] + window_work(rate, missed),
				 WINDOW_WORK_MAX);
}

/*
 * Should an acknowledgment have arrived? The time since the last one is not enough: after a
 * pause of the sender, nothing was outstanding for most of it. So the oldest data that are
 * timed count, too, from when they leave the pacer.
 */
static __always_inline bool window_misses(const struct window *window,
					  const struct window_data *data)
{
	u64 silence = (u64)window_rtt(window) << WINDOW_TIME_SHIFT;
	u64 pending = window->pending;
	s32 waited = window_time(data->now) - (u32)pending;

	silence = fp_max64(2 * silence, WINDOW_SILENCE);
	return data->ticks > window->heard + silence && pending &&
	       waited > (s32)window_time(silence);
}

/**
 * window_sent() - data leave the host
 * @window: of the connection
 * @sharing: of its session; any, if @data->shared is 0, as is @data->rate then
 * @data: the data
 *
 * Return: whether its acknowledgments were just found to return by another
 * router.
 */
static __always_inline bool window_sent(struct window *window,
					struct window_sharing *sharing,
					struct window_data *data)
{
	u32 end;

	data->held = window->limited || window->near;
	if (!window_steady(window, sharing, data))
		window_prepare(window, sharing, data);
	window_reload();
	if (data->shared) {
		window_share(window, sharing, data);
		window_reload();
		window_count(window, sharing, data);
	}
	window_reload();
	end = data->sequence + data->length;
	if (!window->sending || window_before(window->sent, end)) {
		window->sent = end;
		window->sending = 1;
		if (!window->pending)
			window->pending = (u64)end << 32 |
					  (window_time(data->departure) | 1);
	}
	if (window->silent || !window_misses(window, data))
		return false;
	window->silent = 1;
	return true;
}

/* --- acknowledgments ----------------------------------------------------- */

/**
 * window_times() - does an acknowledgment need its time?
 * @window: of the connection
 * @ack: the acknowledged sequence number
 *
 * Return: whether it acknowledges the data that are timed; then call window_sample().
 */
static __always_inline bool window_times(const struct window *window, u32 ack)
{
	return window->pending && !window_before(ack, window->pending >> 32) &&
	       !window_before(window->sent, ack);
}

/**
 * window_sample() - the data that are timed have been acknowledged
 * @window: of the connection
 * @now: ns
 */
static __always_inline void window_sample(struct window *window, u64 now)
{
	u32 before = window_rtt(window);
	u32 sample = window_time(now) - (u32)window->pending;

	window->pending = 0;
	if (!sample || sample > WINDOW_TIME_MAX)
		return;
	window->rtt_most -= window->rtt_most / 16;
	window->rtt_most = fp_max(window->rtt_most, sample);
	window->last[1] = window->last[0];
	window->last[0] = sample;
	if (now - window->period > WINDOW_PERIOD) {
		/* That of SYNs only counts until data were timed. */
		window->rtt[1] = window->period ? window->rtt[0] : 0;
		window->period = now;
		window->rtt[0] = sample;
	} else if (!window->rtt[0] || sample < window->rtt[0]) {
		window->rtt[0] = sample;
	}
	/* Compute the size anew. */
	if (window_rtt(window) != before)
		window->chosen = window->changes - 1;
}

/**
 * struct window_ack - an acknowledgment
 * @ticks: as in struct window_data
 * @ack: the acknowledged sequence number
 * @sacked: right edge of the highest block of SACK; @ack: none
 * @field: window field
 * @octets: of data in it
 * @flight: what was in flight before it, octets; window_ack() sets it
 * @arrived: the highest octet that is known to have arrived; the same
 * @offered: the right edge of the receiver; the same
 * @edge: the right edge that is granted; the same
 * @share: the share of the path, bit/s; 0: unknown, or the connection has a rate
 *
 * All fields are 64 bits: see struct rates_key.
 */
struct window_ack {
	u64 ticks;
	u64 ack;
	u64 sacked;
	u64 field;
	u64 octets;
	u64 flight;
	u64 arrived;
	u64 offered;
	u64 edge;
	u64 share;
};

/* The highest octet that is known to have arrived. */
static __always_inline u32 window_arrived(struct window *window,
					  const struct window_ack *ack)
{
	u32 outstanding = window->sent - (u32)ack->ack;
	u32 sacked = ack->sacked - ack->ack;

	/* A block of data that were not sent is forged; one below is a duplicate. */
	if (window->sack)
		return ack->ack + (sacked <= outstanding ? sacked : 0);
	if (!window->acked || (u32)ack->ack != window->ack)
		window->duplicate = 0;
	else if (!ack->octets && ack->field == window->field)
		window->duplicate += window->mss;
	window->duplicate = fp_min(window->duplicate, outstanding);
	return ack->ack + window->duplicate;
}

/* The least that a window is, segments. */
WINDOW_PART u32 window_least(const struct window *window)
{
	u64 patience;

	if (!window)
		return 0;
	patience = window_in_flight(window, window->assigned,
				    WINDOW_PATIENCE >> WINDOW_TIME_SHIFT,
				    window_all(window));
	return patience < WINDOW_SEGMENTS * window->mss ? WINDOW_LEAST :
							  WINDOW_SEGMENTS;
}

/* Octets that a connection needs in flight at one of so many shares of a rate. */
WINDOW_PART u32 window_need(const struct window *window, u64 rate, u32 shares)
{
	u64 reserve, burst, merged;
	s64 size, most;

	if (!window)
		return 0;
	reserve = WINDOW_RESERVE * window->mss;
	burst = WINDOW_BURST >> WINDOW_TIME_SHIFT;
	if (window->merged) {
		merged = window_in_flight(window, rate, burst, shares);
		reserve = fp_max64(reserve, merged);
	}
	size = window_in_flight(window, rate, window_rtt(window), shares);
	size += reserve;
	/* It may be that of a larger share. */
	most = window_most(window, rate, shares);
	size += window->extra > most ? most : window->extra;
	if (size < (s64)window->least * window->mss)
		size = window->least * window->mss;
	return fp_min64(size, WINDOW_MAX);
}

/* Compute the size anew. */
WINDOW_PART int window_choose(struct window *window)
{
	if (!window)
		return 0;
	/* First: it may change meanwhile. */
	window->chosen = window->changes;
	window->least = window_least(window);
	window->size = window_need(window, window->rate, window_filled(window));
	window->own = window->size;
	if (window->assigned < window->rate ||
	    window_filled(window) < window_all(window))
		window->own = window_need(window, window->assigned,
					  window_all(window));
	return 0;
}

/*
 * Octets that a connection may have in flight. A ceiling grants twice as much as it had in
 * flight. What other connections leave is granted as it is filled, too, but twice as much in a
 * round trip, as in slow start, even if the sender fills it at each acknowledgment: all may grow
 * at once. What is filled by a quarter is kept, as hosts may be far from the router.
 */
static inline u32 window_size(const struct window *window,
			      const struct window_ack *ack)
{
	u32 size = window->size, own = window->own, flight = ack->flight;
	u32 granted, passed, more;

	if (own >= size || flight >= size)
		return size;
	more = fp_min64(2ULL * flight, size);
	if (window->assigned < window->rate)
		return fp_max(own, more);
	/* Before this acknowledgment, and what it acknowledges. */
	granted = window->right - window->sent + flight;
	passed = (u32)ack->ack - window->sent + flight;
	more = fp_min64(more, (u64)granted + passed);
	if (window->near)
		more = fp_max(more, granted);
	return fp_max(own, fp_min(size, more));
}

/*
 * The right edge for data that have arrived: whole segments beyond what was sent. If a
 * segment or more of what was granted has not been seen, it is on its way from the host,
 * which will have sent all of that.
 */
static __always_inline u32 window_edge(const struct window *window,
				       const struct window_ack *ack)
{
	u32 from = window->sent, arrived = ack->arrived, ahead, edge;

	edge = arrived + window_size(window, ack);
	if (window->lowered && (s32)(window->right - from) >= window->mss)
		from = window->right;
	ahead = edge - from;
	if ((s32)ahead <= 0)
		return edge;
	edge -= ahead % window->mss;
	if (edge - arrived >= WINDOW_SEGMENTS * window->mss)
		return edge;
	/* A segment more takes long at a slow rate. */
	if (window->least < WINDOW_SEGMENTS)
		return arrived +
		       fp_max(edge - arrived, WINDOW_LEAST * window->mss);
	return edge + window->mss;
}

/* The window field for @room octets, of which some may not be expressed. */
static __always_inline u32 window_round(const struct window *window, u32 room)
{
	u32 unit = 1U << (window->scale & 15), least;

	if (window->scale <= WINDOW_SCALE_DOWN)
		return room >> (window->scale & 15);
	least = fp_min(room, WINDOW_SEGMENTS * window->mss) + unit - 1;
	return fp_max(room + unit / 2, least) >> (window->scale & 15);
}

/*
 * Octets that are granted for good of @room, whole segments, or one more if most of a
 * segment would be lost to the unit.
 */
static __always_inline u32 window_express(const struct window *window, u32 room)
{
	u32 part = (1U << (window->scale & 15)) - 1, lost = room & part, more;

	/* What a field that is rounded up expresses beyond is not granted for good. */
	if (window->scale > WINDOW_SCALE_DOWN)
		return room;
	if (lost <= window->mss / 8)
		return room - lost;
	/* The least window of a slow rate is long enough without a part of a segment. */
	more = (room + window->mss) & part;
	if (more < lost &&
	    (room > WINDOW_LEAST * window->mss || window->least > WINDOW_LEAST))
		return room + window->mss - more;
	return room - lost;
}

/* Octets that a connection without a rate may have in flight at the share of its path. */
WINDOW_PART u32 window_share_size(const struct window *window, u64 share)
{
	u32 rtt;
	u64 size;

	if (!window)
		return 0;
	rtt = window_rtt(window);
	if (!share || !rtt)
		return WINDOW_MAX;
	size = window_in_flight(window, share,
				rtt + (WINDOW_HOLD >> WINDOW_TIME_SHIFT),
				window_all(window));
	size += WINDOW_RESERVE * window->mss;
	return fp_min64(fp_max64(size, WINDOW_BEGIN * window->mss), WINDOW_MAX);
}

/*
 * Octets that a connection without a rate may have in flight; @flight was. @share: of its
 * path, bit/s; 0: unknown.
 */
static __always_inline u32 window_bound_size(struct window *window, u32 number,
					     u32 flight, u64 share)
{
	u32 lately = WINDOW_LATELY >> WINDOW_TIME_SHIFT;
	u32 now = window_time(window->heard);
	s32 took = now - window->since;
	u64 room;

	/* A little less than 0: another CPU. Much less: after more than half an hour. */
	if (took >= (s32)lately || took < -(s32)lately) {
		window->passed = took >= 0 && took < 2 * (s32)lately ?
					 number - window->from :
					 0;
		window->from = number;
		window->since = now;
	}
	room = 2 * ((u64)window->passed + (number - window->from));
	room = fp_max64(room, 4ULL * flight);
	room = fp_max64(room, WINDOW_OPEN);
	return fp_min64(room, window_share_size(window, share));
}

/* Note what was in flight before an acknowledgment, and whether the window was its limit. */
static __always_inline void window_note_flight(struct window *window,
					       struct window_ack *ack)
{
	/* A sender that merges segments waits until there is room for all of them. */
	u32 room = window->mss * (window->merged ?: 1);
	u32 unused = window->right - window->sent;

	ack->flight = window->sent - (window->acked ? window->ack : ack->ack);
	window->limited = window->lowered && (s32)unused < (s32)room;
	if (window->lowered && unused <= 3 * (u64)(u32)ack->flight + 2)
		window->near |= 1;
}

/* Begin with the first acknowledgment. */
static __always_inline void window_begin_edge(struct window *window,
					      const struct window_ack *ack)
{
	u32 room = ack->offered - ack->ack;

	/* Others that were not seen may have granted all of it. */
	if (window->silent)
		window->right = ack->offered;
	else if (!window->opened)
		window->right = ack->ack + fp_min(room, WINDOW_OPEN);
	window->from = ack->ack;
	window->since = window_time(ack->ticks);
	window->acked = 1;
}

/* Find the right edge that an acknowledgment may grant, at most what the receiver offers. */
static __always_inline void window_grant(struct window *window,
					 struct window_ack *ack)
{
	u32 room, unit = 1U << (window->scale & 15);

	if (window->rate && window_rtt(window)) {
		if (window->chosen != window->changes || !window->least)
			window_choose(window);
		window_reload();
		ack->edge = window_edge(window, ack);
		window_reload();
		room = ack->edge - ack->ack;
		ack->edge = ack->ack + window_express(window, room);
	} else {
		room = window_bound_size(window, ack->ack, ack->flight,
					 ack->share);
		room += (u32)(ack->arrived - ack->ack);
		/* A longer unit may exceed all of it: window_round() rounds up. */
		if (window->scale <= WINDOW_SCALE_DOWN)
			room &= -unit;
		ack->edge = ack->ack + room;
	}
	window_reload();
	if (window_before(ack->edge, window->right))
		ack->edge = window->right;
	window->lowered = window_before(ack->edge, ack->offered);
	if (!window->lowered)
		ack->edge = ack->offered;
	/* As the receiver has it, unless it moves back itself. */
	if (window_before(window->right, ack->edge))
		window->right = ack->edge;
}

/**
 * window_ack() - choose the window of an acknowledgment, after window_times()
 * @window: of the connection, which is known; only changed if the sender will accept
 *	the acknowledgment
 * @ack: the acknowledgment; not a SYN, not a RST
 *
 * Return: the window field, at most @ack->field; if it is the same, leave it alone.
 */
static __always_inline u32 window_ack(struct window *window,
				      struct window_ack *ack)
{
	u32 number = ack->ack, edge;

	/* The sender ignores both those of data that it did not send and old ones. */
	if (!window->sending || window_before(window->sent, number))
		return ack->field;
	if (window->acked && window_before(number, window->ack)) {
		edge = window_round(window, window->right - number);
		return fp_min(edge, ack->field);
	}
	window->heard = ack->ticks;
	window_note_flight(window, ack);
	window_reload();
	ack->arrived = window_arrived(window, ack);
	ack->offered = ack->ack + ((u32)ack->field << (window->scale & 15));
	window_reload();
	if (!window->acked)
		window_begin_edge(window, ack);
	window->silent = 0;
	window->ack = ack->ack;
	window->field = ack->field;
	window_reload();
	window_grant(window, ack);
	window_reload();
	if (!window->lowered)
		return ack->field;
	return fp_min(window_round(window, ack->edge - ack->ack), ack->field);
}

/* --- checksums ------------------------------------------------------------ */

/* The sum of 16-bit words in ones' complement, in any byte order (RFC 1071). */
static __always_inline u32 window_fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* A checksum after 16 bits have changed (RFC 1624), all as in the packet. */
static __always_inline u16 window_checksum(u16 check, u16 before, u16 after)
{
	return ~window_fold((u64)(u16)~check + (u16)~before + after);
}

/**
 * window_completed() - is a checksum that of the whole segment?
 * @check: as in the packet
 * @pseudo: the sum of the words of the pseudo header
 *
 * A checksum that a device completes later (CHECKSUM_PARTIAL) is the sum of the pseudo
 * header, which the window is no part of.
 *
 * Return: false if it may be the latter; one of 65535 complete ones is equal to it.
 */
static __always_inline bool window_completed(u16 check, u64 pseudo)
{
	u32 difference = window_fold((u64)window_fold(pseudo) + (u16)~check);

	return difference && difference != 0xffff;
}

#endif /* SLBND_WINDOW_H */
