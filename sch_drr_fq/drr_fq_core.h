/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Per-flow fair queueing with drop from the longest queue: the algorithm,
 * independent of packets.
 *
 * The caller maps packets to flow numbers, by hash or filter, and keeps the
 * packets; this file keeps the backlog of each flow. The caller reports
 * arrivals, asks which flow to send from or to drop from, and reports what
 * happened to its oldest packet. Only backlogged flows take part: they are in a
 * ring, the ActiveList.
 *
 * The schedulers are:
 *
 * DRR, Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round
 *	Robin", SIGCOMM 1995, section 3. Each round adds Quantum to a flow's
 *	DeficitCounter; the flow sends while its oldest packet is not larger
 *	than that, and keeps the rest while it stays backlogged. Over any
 *	interval in which two flows stay backlogged, the bytes that they send
 *	differ by at most Quantum + 2 Max. The work per packet is O(1) if no
 *	packet is larger than Quantum. Otherwise no flow may be able to send in
 *	a round; the rounds until one can are then added at once: one packet may
 *	cost three turns of each active flow. On average a packet costs Max /
 *	Quantum turns at most, so the qdisc has a minimum Quantum.
 *
 * RR: each backlogged flow in turn sends one packet.
 *
 * SCFQ, Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband
 *	Applications", INFOCOM 1994. A packet of length L has the tag
 *	F = max(F of the flow's previous packet, v) + L, where the virtual time
 *	v is the tag of the packet in service; the smallest tag is next, found
 *	in O(log n). All weights are 1, so tags are in bytes; 64 bits last for
 *	years at 1 Tbit/s. Tags are not reset when the system goes idle, as only
 *	differences matter. One tag per flow is stored, since the tags of later
 *	packets follow from that of the oldest. A dropped packet returns its
 *	share: the packet behind it gets the tag that it would have had in its
 *	place, or a flow that loses half of its packets would be charged twice.
 *
 * When a limit is exceeded, the oldest packet of the flow with the longest
 * backlog in bytes is dropped until the limit holds; among equal ones, that of
 * the flow with the highest number. A heap of the backlogged flows finds it in
 * O(log n). Updates of the heap would be a large part of the cost of a packet,
 * so it is built from the ActiveList when a packet must be dropped, and
 * discarded when as many packets have been sent without another drop as there
 * were flows in the ActiveList after the last one. When the heap is built, each
 * flow that is inserted has become backlogged since the heap was built last, or
 * a packet was sent for it in between: the work per packet is O(log n) on
 * average. Which packets are dropped does not depend on when the heap is built.
 *
 * In DRR, new flows may be first (params.new_first), as in fq_codel (RFC 8290):
 * a flow that becomes backlogged has its turn next, behind other new ones. In
 * turn it sends a Quantum; the ActiveList keeps its order, and so does the
 * bound of fairness. A flow is new again when the others could have had a round
 * since its queue became empty, so it cannot get more than its share by leaving
 * its queue empty; and all new flows together may send as much as the others
 * send, and a burst.
 *
 * An AQM of the caller may drop the packet that is next, and those behind it. The
 * flow then sends the first that is left, also if that is larger than what the
 * scheduler had compared. The DeficitCounter may become negative by less than Max,
 * which is paid back in the next rounds: with an AQM, the bytes that two flows
 * send differ by at most Quantum + 4 Max, and with SCFQ by at most 4 Max instead
 * of 2 Max.
 *
 * Control packets may have a band of their own (struct drr_fq_band): a FIFO that
 * is sent before the flows, but gets at most an eighth of what the flows send
 * and a burst, so it cannot starve them.
 */
#ifndef DRR_FQ_CORE_H
#define DRR_FQ_CORE_H

#include <fairpath/core.h>
#include <fairpath/heap.h>
#include <uapi/fairpath/drr_fq.h>

#define DRR_FQ_NONE FP_HEAP_ABSENT

/**
 * struct drr_fq_params - configuration
 * @limit: total packets in all queues, at least 1
 * @limit_bytes: total bytes in all queues, at least 1
 * @flows: number of queues, 1 to DRR_FQ_FLOWS_MAX
 * @quantum: the paper's Quantum [bytes], at least 1
 * @scheduler: enum drr_fq_scheduler
 * @new_first: DRR only: new flows have their turn first
 */
struct drr_fq_params {
	u32 limit;
	u32 limit_bytes;
	u32 flows;
	u32 quantum;
	u8 scheduler;
	bool new_first;
};

/* The burst of new flows, in Quanta. */
#define DRR_FQ_NEW_BURST 64U
/* The tag of a flow that has its turn as a new one. */
#define DRR_FQ_IS_NEW (~0ULL)

/**
 * struct drr_fq_flow - one queue; a cache line on 64-bit machines
 * @head: oldest packet; owned by the caller, not accessed here, initially NULL
 * @tail: newest packet, like @head
 * @tag: SCFQ: starting tag of the oldest packet: the finishing tag of the
 *	packet sent last, or v when the flow became backlogged; with new_first,
 *	the v from which on the idle flow is new, or DRR_FQ_IS_NEW
 * @next: next flow in the ActiveList, a ring
 * @prev: previous flow in the ActiveList
 * @backlog: bytes queued
 * @qlen: packets queued
 * @deficit: the paper's DeficitCounter [bytes], including the Quantum of the
 *	next turn; negative only with an AQM
 * @hash: hash of the flow that made the queue backlogged
 * @bytes: bytes sent from this queue since the table was allocated
 * @packets: packets sent, modulo 2^32
 * @drops: packets dropped from its front, modulo 2^32
 */
struct drr_fq_flow {
	void *head;
	void *tail;
	u64 tag;
	u32 next;
	u32 prev;
	u32 backlog;
	u32 qlen;
	s32 deficit;
	u32 hash;
	u64 bytes;
	u32 packets;
	u32 drops;
};

/**
 * struct drr_fq_vars - state
 * @flows: the queues, params.flows of them
 * @longest: if @ranked, the backlogged flows by backlog, largest first; else empty
 * @order: SCFQ only: backlogged flows by the tags of their oldest packets,
 *	smallest first
 * @first: flow in the ActiveList whose turn it is, or DRR_FQ_NONE
 * @active: length of the ActiveList
 * @ranked: packets to send without a drop until @longest is discarded, 0: it is
 * @qlen: packets in all queues
 * @backlog: bytes in all queues
 * @v: SCFQ: virtual time [bytes]; with new_first, bytes sent
 * @last_new: the flow that became new last
 * @new_credit: what further new flows may send [bytes]
 */
struct drr_fq_vars {
	struct drr_fq_flow *flows;
	struct fp_heap longest;
	struct fp_heap order;
	u32 first;
	u32 active;
	u32 ranked;
	u32 qlen;
	u32 backlog;
	u64 v;
	u32 last_new;
	u32 new_credit;
};

/**
 * struct drr_fq_stats - statistics
 * @new_flows: number of times that a flow became backlogged
 * @collisions: packets queued in a queue made backlogged by another hash
 * @active_max: maximum length of the ActiveList
 */
struct drr_fq_stats {
	u64 new_flows;
	u64 collisions;
	u32 active_max;
};

/* Callback: length of a flow's oldest packet [bytes], 1 to 2^30. */
typedef u32 (*drr_fq_length)(const struct drr_fq_flow *flow);

static inline bool drr_fq_has_order(const struct drr_fq_params *p)
{
	return p->scheduler == DRR_FQ_SCFQ;
}

static inline u32 drr_fq_new_burst(const struct drr_fq_params *p)
{
	return DRR_FQ_NEW_BURST * p->quantum;
}

/**
 * drr_fq_table_size() - compute the memory that the queues need
 * @p: parameters, of which it uses flows and scheduler
 *
 * Return: size [bytes]: 84 per flow, 104 with SCFQ, plus less than 256.
 */
static inline u64 drr_fq_table_size(const struct drr_fq_params *p)
{
	u64 size = (u64)p->flows * sizeof(struct drr_fq_flow);

	size += fp_heap_size(p->flows);
	if (drr_fq_has_order(p))
		size += fp_heap_size(p->flows);
	return size;
}

/**
 * drr_fq_table_init() - initialize empty queues
 * @p: parameters
 * @v: state to initialize
 * @memory: drr_fq_table_size() zeroed bytes, 64-byte aligned for speed
 */
static inline void drr_fq_table_init(const struct drr_fq_params *p,
				     struct drr_fq_vars *v, void *memory)
{
	char *heaps =
		(char *)memory + (u64)p->flows * sizeof(struct drr_fq_flow);

	v->flows = memory;
	fp_heap_init(&v->longest, heaps, p->flows);
	if (drr_fq_has_order(p))
		fp_heap_init(&v->order, heaps + fp_heap_size(p->flows),
			     p->flows);
	v->first = DRR_FQ_NONE;
	v->active = 0;
	v->ranked = 0;
	v->qlen = 0;
	v->backlog = 0;
	v->v = 0;
	v->last_new = DRR_FQ_NONE;
	v->new_credit = drr_fq_new_burst(p);
}

/**
 * drr_fq_flow_of() - map a hash to a queue
 * @p: parameters
 * @hash: uniformly distributed over 32 bits
 *
 * Return: queue, 0 to flows - 1. The numbers of hashes per queue differ by at
 * most one.
 */
static inline u32 drr_fq_flow_of(const struct drr_fq_params *p, u32 hash)
{
	return (u64)hash * p->flows >> 32;
}

/* Append to the ActiveList: in the ring, before the first. */
static inline void drr_fq_activate(struct drr_fq_vars *v, u32 number)
{
	struct drr_fq_flow *flow = &v->flows[number];

	if (v->first == DRR_FQ_NONE) {
		v->first = number;
		flow->next = number;
		flow->prev = number;
	} else {
		struct drr_fq_flow *first = &v->flows[v->first];

		flow->next = v->first;
		flow->prev = first->prev;
		v->flows[first->prev].next = number;
		first->prev = number;
	}
	v->active++;
}

/* Append behind a flow of the ActiveList. */
static inline void drr_fq_activate_behind(struct drr_fq_vars *v, u32 number,
					  u32 before)
{
	u32 first = v->first;

	v->first = v->flows[before].next;
	drr_fq_activate(v, number);
	v->first = first;
}

/* A new flow has its turn next, or behind other new ones. */
static inline void drr_fq_activate_new(const struct drr_fq_params *p,
				       struct drr_fq_vars *v, u32 number)
{
	u32 first = v->first, last = v->last_new;

	/* If new_first was off in between, the last one may have become idle. */
	if (last != DRR_FQ_NONE && v->flows[last].qlen &&
	    v->flows[last].tag == DRR_FQ_IS_NEW) {
		drr_fq_activate_behind(v, number, last);
	} else if (first != DRR_FQ_NONE &&
		   v->flows[first].deficit < (s32)p->quantum) {
		/* The first flow has sent in its turn. */
		drr_fq_activate_behind(v, number, first);
	} else {
		drr_fq_activate(v, number);
		v->first = number;
	}
	v->flows[number].tag = DRR_FQ_IS_NEW;
	v->last_new = number;
	v->new_credit -= p->quantum;
}

/* With new_first, @flow sent a packet of @length bytes. */
static inline void drr_fq_new_sent(const struct drr_fq_params *p,
				   struct drr_fq_vars *v,
				   const struct drr_fq_flow *flow, u32 length)
{
	v->v += length;
	if (flow->tag != DRR_FQ_IS_NEW)
		v->new_credit =
			fp_min(v->new_credit + length, drr_fq_new_burst(p));
}

/* With new_first, the queue of @flow became empty; it is not active any more. */
static inline void drr_fq_new_emptied(const struct drr_fq_params *p,
				      struct drr_fq_vars *v,
				      struct drr_fq_flow *flow, s32 deficit)
{
	if (flow->tag == DRR_FQ_IS_NEW && deficit > 0)
		v->new_credit += deficit;
	flow->tag = v->v + (u64)v->active * p->quantum;
}

static inline void drr_fq_deactivate(struct drr_fq_vars *v, u32 number)
{
	struct drr_fq_flow *flow = &v->flows[number];

	if (flow->next == number) {
		v->first = DRR_FQ_NONE;
	} else {
		v->flows[flow->prev].next = flow->next;
		v->flows[flow->next].prev = flow->prev;
		if (v->first == number)
			v->first = flow->next;
	}
	v->active--;
}

/* Store a flow's backlog in the heap; no two flows have the same key. */
static inline void drr_fq_set_longest(struct drr_fq_vars *v, u32 number)
{
	fp_heap_set(&v->longest, number,
		    (u64)v->flows[number].backlog << 32 | number);
}

static inline void drr_fq_set_order(struct drr_fq_vars *v, u32 number,
				    u32 length)
{
	fp_heap_set(&v->order, number, ~(v->flows[number].tag + length));
}

/**
 * drr_fq_arrive() - account for a packet appended to a queue
 * @p: parameters
 * @v: state
 * @s: statistics
 * @number: flow number, 0 to flows - 1
 * @hash: identifies the flow among those with the same queue
 * @length: packet length [bytes], 1 to 2^30
 */
static inline void drr_fq_arrive(const struct drr_fq_params *p,
				 struct drr_fq_vars *v, struct drr_fq_stats *s,
				 u32 number, u32 hash, u32 length)
{
	struct drr_fq_flow *flow = &v->flows[number];

	flow->backlog += length;
	v->backlog += length;
	v->qlen++;
	if (v->ranked)
		drr_fq_set_longest(v, number);
	if (flow->qlen++) {
		s->collisions += flow->hash != hash;
		return;
	}

	flow->hash = hash;
	flow->deficit = p->quantum;
	if (p->new_first && v->new_credit >= p->quantum && flow->tag <= v->v)
		drr_fq_activate_new(p, v, number);
	else
		drr_fq_activate(v, number);
	if (drr_fq_has_order(p)) {
		flow->tag = fp_max64(flow->tag, v->v);
		drr_fq_set_order(v, number, length);
	}
	s->new_flows++;
	s->active_max = fp_max(s->active_max, v->active);
}

/* The rounds until a packet of @length bytes can be sent. */
static inline u32 drr_fq_rounds(u32 quantum, s32 deficit, u32 length)
{
	u32 lack;

	if ((s32)length <= deficit)
		return 0;
	lack = length - (u32)deficit;
	return lack / quantum + (lack % quantum != 0);
}

/*
 * In a whole round, no flow could send: each one's oldest packet is larger than
 * its DeficitCounter. Add the Quanta of all further rounds without a sender.
 */
static inline void drr_fq_skip_rounds(const struct drr_fq_params *p,
				      struct drr_fq_vars *v,
				      drr_fq_length length)
{
	u32 number = v->first;
	u32 rounds = ~0U;

	do {
		const struct drr_fq_flow *flow = &v->flows[number];

		rounds = fp_min(rounds, drr_fq_rounds(p->quantum, flow->deficit,
						      length(flow)));
		number = flow->next;
	} while (number != v->first);

	do {
		v->flows[number].deficit += rounds * p->quantum;
		number = v->flows[number].next;
	} while (number != v->first);
}

static inline u32 drr_fq_next_drr(const struct drr_fq_params *p,
				  struct drr_fq_vars *v, drr_fq_length length)
{
	u32 turns = 0;

	for (;;) {
		struct drr_fq_flow *flow = &v->flows[v->first];

		/* Without a deficit, avoid touching the packet's cache line. */
		if (flow->deficit > 0 && (s32)length(flow) <= flow->deficit)
			return v->first;
		/* At most once: a flow can send in the round after it. */
		if (turns++ == v->active) {
			drr_fq_skip_rounds(p, v, length);
			continue;
		}
		flow->deficit += p->quantum;
		if (p->new_first)
			flow->tag = 0;
		v->first = flow->next;
	}
}

/**
 * drr_fq_next() - choose the flow to send from
 * @p: parameters
 * @v: state; turns that are over are ended
 * @length: callback for the length of a flow's oldest packet
 *
 * Call drr_fq_sent() when its oldest packet is sent. Repeated calls before that
 * return the same flow.
 *
 * Return: flow number, or DRR_FQ_NONE if no packet is queued.
 */
static inline u32 drr_fq_next(const struct drr_fq_params *p,
			      struct drr_fq_vars *v, drr_fq_length length)
{
	if (v->first == DRR_FQ_NONE)
		return DRR_FQ_NONE;
	switch (p->scheduler) {
	case DRR_FQ_DRR:
		return drr_fq_next_drr(p, v, length);
	case DRR_FQ_SCFQ:
		return fp_heap_top(&v->order);
	default:
		return v->first;
	}
}

/**
 * drr_fq_emptied() - account for the removal of all packets of a flow
 * @p: parameters
 * @v: state
 * @number: number of a backlogged flow
 */
static inline void drr_fq_emptied(const struct drr_fq_params *p,
				  struct drr_fq_vars *v, u32 number)
{
	struct drr_fq_flow *flow = &v->flows[number];
	s32 deficit = flow->deficit;

	v->backlog -= flow->backlog;
	v->qlen -= flow->qlen;
	flow->backlog = 0;
	flow->qlen = 0;
	flow->deficit = 0;
	if (v->ranked)
		fp_heap_remove(&v->longest, number);
	if (drr_fq_has_order(p))
		fp_heap_remove(&v->order, number);
	drr_fq_deactivate(v, number);
	if (p->new_first)
		drr_fq_new_emptied(p, v, flow, deficit);
}

/* The oldest packet left the queue; flow->head is the one behind it. */
static inline void drr_fq_leave(const struct drr_fq_params *p,
				struct drr_fq_vars *v, u32 number, u32 length,
				drr_fq_length next_length)
{
	struct drr_fq_flow *flow = &v->flows[number];

	flow->backlog -= length;
	v->backlog -= length;
	flow->qlen--;
	v->qlen--;
	if (!flow->qlen) {
		drr_fq_emptied(p, v, number);
		return;
	}
	if (v->ranked)
		drr_fq_set_longest(v, number);
	if (drr_fq_has_order(p))
		drr_fq_set_order(v, number, next_length(flow));
}

/**
 * drr_fq_sent() - account for a packet sent from the flow of drr_fq_next()
 * @p: parameters
 * @v: state
 * @number: flow number; its head is already the packet behind the one sent
 * @length: length of the packet sent [bytes]
 * @next_length: callback for the length of a flow's oldest packet
 */
static inline void drr_fq_sent(const struct drr_fq_params *p,
			       struct drr_fq_vars *v, u32 number, u32 length,
			       drr_fq_length next_length)
{
	struct drr_fq_flow *flow = &v->flows[number];

	flow->bytes += length;
	flow->packets++;
	switch (p->scheduler) {
	case DRR_FQ_DRR:
		flow->deficit -= length;
		if (p->new_first)
			drr_fq_new_sent(p, v, flow, length);
		break;
	case DRR_FQ_SCFQ:
		flow->tag += length;
		/* After a drop, the next packet's tag may be below v. */
		v->v = fp_max64(v->v, flow->tag);
		break;
	default:
		v->first = flow->next;
	}
	drr_fq_leave(p, v, number, length, next_length);
	if (v->ranked && !--v->ranked)
		fp_heap_clear(&v->longest);
}

/**
 * drr_fq_over_limit() - check the limits
 * @p: parameters
 * @qlen: packets in all queues
 * @backlog: bytes in all queues
 *
 * The caller passes the amounts, since it may hold packets that it dequeued but
 * has not sent.
 *
 * Return: true if a limit is exceeded: drop from drr_fq_longest().
 */
static inline bool drr_fq_over_limit(const struct drr_fq_params *p, u32 qlen,
				     u32 backlog)
{
	return qlen > p->limit || backlog > p->limit_bytes;
}

/* Build the heap of backlogged flows. */
static inline void drr_fq_rank(struct drr_fq_vars *v)
{
	u32 number = v->first;

	for (v->ranked = 0; v->ranked < v->active; v->ranked++) {
		drr_fq_set_longest(v, number);
		number = v->flows[number].next;
	}
}

/**
 * drr_fq_longest() - find the flow with the longest backlog in bytes
 * @v: state; if there is no heap, it is built
 *
 * Return: the highest number of such a flow, or DRR_FQ_NONE if no packet is
 * queued.
 */
static inline u32 drr_fq_longest(struct drr_fq_vars *v)
{
	if (!v->ranked)
		drr_fq_rank(v);
	return fp_heap_top(&v->longest);
}

/**
 * drr_fq_aqm_dropped() - account for a drop by the AQM
 * @p: parameters
 * @v: state
 * @number: flow of drr_fq_next(); its head is already the packet behind the one
 *	dropped
 * @length: length of the packet dropped [bytes]
 * @next_length: callback for the length of a flow's oldest packet
 *
 * If the flow is still backlogged, drr_fq_sent() or another drop follows.
 */
static inline void drr_fq_aqm_dropped(const struct drr_fq_params *p,
				      struct drr_fq_vars *v, u32 number,
				      u32 length, drr_fq_length next_length)
{
	v->flows[number].drops++;
	drr_fq_leave(p, v, number, length, next_length);
}

/**
 * drr_fq_dropped() - account for a drop because of a limit
 * @p: parameters
 * @v: state
 * @number: number of a backlogged flow; its head is already the packet behind
 *	the one dropped
 * @length: length of the packet dropped [bytes]
 * @next_length: callback for the length of a flow's oldest packet
 */
static inline void drr_fq_dropped(const struct drr_fq_params *p,
				  struct drr_fq_vars *v, u32 number, u32 length,
				  drr_fq_length next_length)
{
	drr_fq_aqm_dropped(p, v, number, length, next_length);
	if (v->ranked)
		v->ranked = v->active;
}

/* The band's share of the flows' bytes is 1 / DRR_FQ_BAND_SHARE. */
#define DRR_FQ_BAND_SHARE 8U
/* Largest burst and largest backlog of the band [bytes]. */
#define DRR_FQ_BAND_BURST 16384U
#define DRR_FQ_BAND_MAX 65536U

/**
 * struct drr_fq_band - FIFO of control packets, sent before the flows
 * @queue: its packets; of this, @head, @tail, @qlen, @backlog and @packets are
 *	used
 * @credit: what it may send before backlogged flows, times DRR_FQ_BAND_SHARE
 *	[bytes]
 */
struct drr_fq_band {
	struct drr_fq_flow queue;
	u32 credit;
};

static inline void drr_fq_band_init(struct drr_fq_band *b)
{
	*b = (struct drr_fq_band){
		.credit = DRR_FQ_BAND_BURST * DRR_FQ_BAND_SHARE,
	};
}

/**
 * drr_fq_band_has_room() - check whether a packet may join the band
 * @b: the band
 * @length: packet length [bytes]
 *
 * Return: false if the packet has to be queued with the flows.
 */
static inline bool drr_fq_band_has_room(const struct drr_fq_band *b, u32 length)
{
	return length <= DRR_FQ_BAND_BURST &&
	       b->queue.backlog + length <= DRR_FQ_BAND_MAX;
}

static inline void drr_fq_band_arrive(struct drr_fq_band *b, u32 length)
{
	b->queue.qlen++;
	b->queue.backlog += length;
}

/**
 * drr_fq_band_is_next() - check whether the band sends next
 * @b: the band
 * @active: number of backlogged flows
 * @length: callback for the length of the band's oldest packet
 *
 * Return: true if the band has a packet, and credit for it or no competitor.
 */
static inline bool drr_fq_band_is_next(const struct drr_fq_band *b, u32 active,
				       drr_fq_length length)
{
	if (!b->queue.qlen)
		return false;
	return !active ||
	       (u64)length(&b->queue) * DRR_FQ_BAND_SHARE <= b->credit;
}

static inline void drr_fq_band_leave(struct drr_fq_band *b, u32 length)
{
	b->queue.qlen--;
	b->queue.backlog -= length;
}

/**
 * drr_fq_band_sent() - account for a packet sent from the band
 * @b: the band
 * @active: number of backlogged flows: without any, it costs no credit
 * @length: packet length [bytes]
 */
static inline void drr_fq_band_sent(struct drr_fq_band *b, u32 active,
				    u32 length)
{
	b->queue.packets++;
	if (active)
		b->credit -= length * DRR_FQ_BAND_SHARE;
	drr_fq_band_leave(b, length);
}

/* Earn credit: a flow sent a packet of @length bytes. */
static inline void drr_fq_band_earn(struct drr_fq_band *b, u32 length)
{
	b->credit = fp_min(b->credit + length,
			   DRR_FQ_BAND_BURST * DRR_FQ_BAND_SHARE);
}

#endif /* DRR_FQ_CORE_H */
