/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fair queueing per flow, with the drop taken from the longest queue: the
 * algorithm, without packets.
 *
 * Flows have numbers (the caller's hash or filters choose them). Of each flow
 * this keeps how much is queued; the packets are the caller's, who tells what
 * arrives, asks which flow sends next or which is the longest, and tells what
 * became of its oldest packet. Only backlogged flows cost anything: they stand
 * in a ring, the ActiveList, and in a heap by their backlog.
 *
 * Who sends next is decided by one of
 *
 * DRR, Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round
 *	Robin", SIGCOMM 1995, section 3. Each round adds Quantum to a flow's
 *	DeficitCounter; it sends while its oldest packet is not larger than
 *	that, and keeps what is left only while it stays backlogged. In any time
 *	in which two flows stay backlogged, what they sent differs by no more
 *	than Quantum + 2 Max. The work per packet is O(1) if no packet is larger
 *	than Quantum. If some are, a round may pass in vain; this is noticed, and
 *	all the rounds in vain that would follow are made up for at once, so that
 *	a small Quantum cannot make one decision take forever.
 *
 * RR: each backlogged flow in turn sends one packet.
 *
 * SCFQ, Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband
 *	Applications", INFOCOM 1994. A packet of length L has the tag
 *	F = max(F of the flow's packet before it, v) + L, where the virtual time
 *	v is the tag of the packet in service; the smallest tag is next, found
 *	in O(log n). All weights are 1, so tags are bytes; 64 bits last for
 *	years at 1 Tbit/s, and are not reset when the system goes idle, which
 *	makes no difference to any difference. A flow's tags beyond that of its
 *	oldest packet follow from it, so one is kept per flow. A packet that is
 *	dropped gives its share back: the one behind it is tagged as if it had
 *	come in its place, or a flow that loses half of its packets would be
 *	charged twice.
 *
 * When a limit is passed, the oldest packet of the flow with the longest
 * backlog in bytes goes, until the limit holds: the heap's top, O(log n).
 */
#ifndef DRR_FQ_CORE_H
#define DRR_FQ_CORE_H

#include <fairpath/core.h>
#include <fairpath/heap.h>
#include <uapi/fairpath/drr_fq.h>

#define DRR_FQ_NONE FP_HEAP_ABSENT

/**
 * struct drr_fq_params - what the user chooses
 * @limit: packets in all queues together, at least 1
 * @limit_bytes: bytes in all queues together, at least 1
 * @flows: 1 to DRR_FQ_FLOWS_MAX
 * @quantum: the paper's Quantum, bytes, 1 to DRR_FQ_QUANTUM_MAX
 * @scheduler: enum drr_fq_scheduler
 */
struct drr_fq_params {
	u32 limit;
	u32 limit_bytes;
	u32 flows;
	u32 quantum;
	u8 scheduler;
};

/**
 * struct drr_fq_flow - one queue; a cache line where pointers have 64 bits
 * @head: the oldest packet, and
 * @tail: the newest: the caller's, never looked at here; NULL at first
 * @tag: SCFQ: the finishing tag of the packet sent last, or v when the flow
 *	became backlogged: where its oldest packet starts
 * @next: the ActiveList,
 * @prev: a ring
 * @backlog: bytes queued
 * @qlen: packets queued
 * @deficit: the paper's DeficitCounter, bytes; the Quantum of its coming turn
 *	is already in it
 * @hash: of the flow that made the queue backlogged
 * @bytes: sent from this queue since the table was made,
 * @packets: and packets, modulo 2^32
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
	u32 deficit;
	u32 hash;
	u64 bytes;
	u32 packets;
	u32 drops;
};

/**
 * struct drr_fq_vars - the state
 * @flows: params.flows of them
 * @longest: the backlogged flows by backlog
 * @order: SCFQ: the backlogged flows by the tags of their oldest packets,
 *	smallest first; not there for others
 * @first: whose turn it is in the ActiveList, or DRR_FQ_NONE
 * @active: length of the ActiveList
 * @qlen: packets in all queues
 * @backlog: bytes in all queues
 * @v: SCFQ: virtual time, bytes
 */
struct drr_fq_vars {
	struct drr_fq_flow *flows;
	struct fp_heap longest;
	struct fp_heap order;
	u32 first;
	u32 active;
	u32 qlen;
	u32 backlog;
	u64 v;
};

/**
 * struct drr_fq_stats - what happened
 * @new_flows: how often a flow became backlogged
 * @collisions: packets queued in a queue that another hash had made backlogged
 * @active_max: the longest that the ActiveList has been
 */
struct drr_fq_stats {
	u64 new_flows;
	u64 collisions;
	u32 active_max;
};

/* The length of a flow's oldest packet in bytes, at least 1; asked of the caller. */
typedef u32 (*drr_fq_length)(const struct drr_fq_flow *flow);

static inline bool drr_fq_has_order(const struct drr_fq_params *p)
{
	return p->scheduler == DRR_FQ_SCFQ;
}

/**
 * drr_fq_table_size() - the memory that the queues need
 * @p: parameters; flows and scheduler matter
 *
 * Return: bytes: 84 for each flow, 104 with SCFQ, and less than 256 besides.
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
 * drr_fq_table_init() - begin with empty queues
 * @p: parameters
 * @v: state, all of which is set
 * @memory: drr_fq_table_size() bytes of zeros, aligned to 64 if speed matters
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
	v->qlen = 0;
	v->backlog = 0;
	v->v = 0;
}

/**
 * drr_fq_flow_of() - the queue that a hash chooses
 * @p: parameters
 * @hash: evenly spread over 32 bits
 *
 * Return: 0 to flows - 1, each for as many hashes as any other, or one more.
 */
static inline u32 drr_fq_flow_of(const struct drr_fq_params *p, u32 hash)
{
	return (u64)hash * p->flows >> 32;
}

/* To the end of the ActiveList: before the first, as it is a ring. */
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

static inline void drr_fq_set_order(struct drr_fq_vars *v, u32 number,
				    u32 length)
{
	fp_heap_set(&v->order, number, ~(v->flows[number].tag + length));
}

/**
 * drr_fq_arrive() - a packet was put at the end of a queue
 * @p: parameters
 * @v: state
 * @s: statistics
 * @number: the flow, 0 to flows - 1
 * @hash: tells the flow apart from others in the same queue
 * @length: bytes, at least 1
 */
static inline void drr_fq_arrive(const struct drr_fq_params *p,
				 struct drr_fq_vars *v, struct drr_fq_stats *s,
				 u32 number, u32 hash, u32 length)
{
	struct drr_fq_flow *flow = &v->flows[number];

	flow->backlog += length;
	v->backlog += length;
	v->qlen++;
	fp_heap_set(&v->longest, number, flow->backlog);
	if (flow->qlen++) {
		s->collisions += flow->hash != hash;
		return;
	}

	flow->hash = hash;
	flow->deficit = p->quantum;
	drr_fq_activate(v, number);
	if (drr_fq_has_order(p)) {
		flow->tag = fp_max64(flow->tag, v->v);
		drr_fq_set_order(v, number, length);
	}
	s->new_flows++;
	s->active_max = fp_max(s->active_max, v->active);
}

/*
 * A whole round passed in vain: every flow's oldest packet is larger than its
 * DeficitCounter. Add what all rounds in vain that follow would add.
 */
static inline void drr_fq_skip_rounds(const struct drr_fq_params *p,
				      struct drr_fq_vars *v,
				      drr_fq_length length)
{
	u32 number = v->first;
	u32 rounds = ~0U;

	do {
		const struct drr_fq_flow *flow = &v->flows[number];
		u32 head = length(flow);
		u32 lack = head > flow->deficit ? head - flow->deficit : 0;

		rounds = fp_min(rounds,
				lack / p->quantum + (lack % p->quantum != 0));
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
	u32 visits = 0;

	for (;;) {
		struct drr_fq_flow *flow = &v->flows[v->first];

		/* With nothing left there is no need to look at the packet. */
		if (flow->deficit && length(flow) <= flow->deficit)
			return v->first;
		flow->deficit += p->quantum;
		v->first = flow->next;
		/* No more than once: then the next round is not in vain. */
		if (++visits == v->active)
			drr_fq_skip_rounds(p, v, length);
	}
}

/**
 * drr_fq_next() - whose oldest packet is to be sent now?
 * @p: parameters
 * @v: state; a turn that is over is ended
 * @length: tells the length of a flow's oldest packet
 *
 * Once the packet is sent, call drr_fq_sent(). Asking again before gives the
 * same answer.
 *
 * Return: the flow, or DRR_FQ_NONE if nothing is queued.
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
 * drr_fq_emptied() - all packets of a flow are gone, unsent
 * @p: parameters
 * @v: state
 * @number: the flow, of those that are backlogged
 */
static inline void drr_fq_emptied(const struct drr_fq_params *p,
				  struct drr_fq_vars *v, u32 number)
{
	struct drr_fq_flow *flow = &v->flows[number];

	v->backlog -= flow->backlog;
	v->qlen -= flow->qlen;
	flow->backlog = 0;
	flow->qlen = 0;
	flow->deficit = 0;
	fp_heap_remove(&v->longest, number);
	if (drr_fq_has_order(p))
		fp_heap_remove(&v->order, number);
	drr_fq_deactivate(v, number);
}

/* The oldest packet left the queue, and flow->head is the one after it. */
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
	fp_heap_set(&v->longest, number, flow->backlog);
	if (drr_fq_has_order(p))
		drr_fq_set_order(v, number, next_length(flow));
}

/**
 * drr_fq_sent() - the oldest packet of the flow that drr_fq_next() named was sent
 * @p: parameters
 * @v: state
 * @number: that flow; its head is already the packet after the one sent
 * @length: of the packet sent, bytes
 * @next_length: tells the length of a flow's oldest packet
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
		break;
	case DRR_FQ_SCFQ:
		flow->tag += length;
		/* A drop can give the packet behind it a tag of the past. */
		v->v = fp_max64(v->v, flow->tag);
		break;
	default:
		v->first = flow->next;
	}
	drr_fq_leave(p, v, number, length, next_length);
}

/**
 * drr_fq_over() - is a limit passed?
 * @p: parameters
 * @qlen: packets in all queues
 * @backlog: bytes in all queues
 *
 * The caller names the amounts, since it may hold packets that it took out but
 * has not sent.
 *
 * Return: true if drr_fq_longest() has to lose a packet.
 */
static inline bool drr_fq_over(const struct drr_fq_params *p, u32 qlen,
			       u32 backlog)
{
	return qlen > p->limit || backlog > p->limit_bytes;
}

/**
 * drr_fq_longest() - the flow with the longest backlog in bytes
 * @v: state
 *
 * Return: one of the longest, or DRR_FQ_NONE if nothing is queued.
 */
static inline u32 drr_fq_longest(const struct drr_fq_vars *v)
{
	return fp_heap_top(&v->longest);
}

/**
 * drr_fq_discarded() - the oldest packet of a flow was dropped
 * @p: parameters
 * @v: state
 * @number: the flow, of those that are backlogged; its head is already the
 *	packet after the one dropped
 * @length: of the packet dropped, bytes
 * @next_length: tells the length of a flow's oldest packet
 */
static inline void drr_fq_discarded(const struct drr_fq_params *p,
				    struct drr_fq_vars *v, u32 number,
				    u32 length, drr_fq_length next_length)
{
	v->flows[number].drops++;
	drr_fq_leave(p, v, number, length, next_length);
}

#endif /* DRR_FQ_CORE_H */
