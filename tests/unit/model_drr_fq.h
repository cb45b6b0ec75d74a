/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reference model of drr_fq_core.h: the papers' algorithms, implemented simply.
 *
 * Packets in lists, flows in an array, linear searches, 64-bit counters.
 *
 * DRR is the pseudo-code of Shreedhar and Varghese: the flow in service is
 * removed from the head of the ActiveList, its DeficitCounter grows by Quantum
 * as its turn starts, it sends while its oldest packet is not larger, and is
 * then appended to the list or, if empty, removed with a DeficitCounter of 0.
 * Each turn is simulated, even if the flow cannot send. Where the paper is
 * silent: a changed Quantum applies to flows that enter the ActiveList after
 * it, new flows and those whose turn has ended.
 *
 * RR: the flow at the head of the list sends one packet and is appended.
 *
 * SCFQ is Golestani's: each packet gets a tag on arrival, the virtual time is
 * the tag of the packet in service, and the smallest tag is next. Several flows
 * may have it; the model checks that a flow is one of them. The paper has no
 * drops. Here, a drop from the front subtracts the packet's length from the
 * tags behind it, a packet behind others is tagged from the one before it, and
 * virtual time does not advance for tags below it. Until the first drop, this
 * must equal the paper's algorithm, which is checked.
 *
 * Packets are dropped from the flow with the longest backlog in bytes; among
 * equal ones, from that with the highest number.
 */
#ifndef MODEL_DRR_FQ_H
#define MODEL_DRR_FQ_H

#include <string.h>

#include "unit.h"

#include <sch_drr_fq/drr_fq_core.h>

/* The core and the model have separate packets with the same number. */
struct packet {
	struct packet *next;
	u64 number;
	u64 tag;
	u32 length;
};

static inline struct packet *packet_new(u64 number, u32 length)
{
	struct packet *packet = malloc(sizeof(*packet));

	*packet = (struct packet){ .number = number, .length = length };
	return packet;
}

struct model_flow {
	struct packet *head;
	struct packet *tail;
	u64 qlen;
	u64 backlog;
	u64 deficit;
	u64 quantum;
	u64 tag;
	u64 sent_packets;
	u64 sent_bytes;
	u64 drops;
	u32 hash;
};

/**
 * struct model - state of the model
 * @params: the core's parameters
 * @flows: the flows, params->flows of them
 * @list: the ActiveList, without the flow in service
 * @listed: length of @list
 * @serving: the flow in service, or DRR_FQ_NONE
 * @qlen: packets queued
 * @backlog: bytes queued
 * @v: virtual time
 * @new_flows: as in the core
 * @collisions: as in the core
 * @active_max: as in the core
 * @turns: turns started
 * @dropped: a packet has been dropped
 */
struct model {
	const struct drr_fq_params *params;
	struct model_flow *flows;
	u32 *list;
	u32 listed;
	u32 serving;
	u64 qlen;
	u64 backlog;
	u64 v;
	u64 new_flows;
	u64 collisions;
	u64 active_max;
	u64 turns;
	bool dropped;
};

static inline void model_begin(struct model *m,
			       const struct drr_fq_params *params)
{
	*m = (struct model){ .params = params, .serving = DRR_FQ_NONE };
	m->flows = calloc(params->flows, sizeof(*m->flows));
	m->list = calloc(params->flows, sizeof(*m->list));
}

static inline void model_free_packets(struct model_flow *flow)
{
	while (flow->head) {
		struct packet *packet = flow->head;

		flow->head = packet->next;
		free(packet);
	}
}

static inline void model_end(struct model *m)
{
	u32 i;

	for (i = 0; i < m->params->flows; i++)
		model_free_packets(&m->flows[i]);
	free(m->flows);
	free(m->list);
}

static inline u32 model_active(const struct model *m)
{
	return m->listed + (m->serving != DRR_FQ_NONE);
}

/* The flow that gets the @i-th next turn if the ActiveList does not change. */
static inline u32 model_in_turn(const struct model *m, u32 i)
{
	if (m->serving == DRR_FQ_NONE)
		return m->list[i];
	return i ? m->list[i - 1] : m->serving;
}

static inline void model_enlist(struct model *m, u32 number)
{
	m->flows[number].quantum = m->params->quantum;
	m->list[m->listed++] = number;
}

static inline void model_delist(struct model *m, u32 number)
{
	u32 i;

	if (m->serving == number) {
		m->serving = DRR_FQ_NONE;
		return;
	}
	for (i = 0; m->list[i] != number; i++)
		continue;
	memmove(&m->list[i], &m->list[i + 1],
		(--m->listed - i) * sizeof(*m->list));
}

static inline void model_arrive(struct model *m, u32 number, u32 hash,
				struct packet *packet)
{
	struct model_flow *flow = &m->flows[number];

	m->qlen++;
	m->backlog += packet->length;
	flow->backlog += packet->length;
	if (flow->qlen++) {
		CHECK(m->dropped || flow->tag >= m->v, "flow %u: %llu < %llu",
		      number, flow->tag, m->v);
		m->collisions += hash != flow->hash;
		flow->tail->next = packet;
	} else {
		flow->tag = fp_max64(flow->tag, m->v);
		flow->hash = hash;
		m->new_flows++;
		model_enlist(m, number);
		m->active_max = fp_max64(m->active_max, model_active(m));
		flow->head = packet;
	}
	flow->tail = packet;
	flow->tag += packet->length;
	packet->tag = flow->tag;
}

static inline u32 model_next_drr(struct model *m)
{
	for (;;) {
		struct model_flow *flow;

		if (m->serving == DRR_FQ_NONE) {
			if (!m->listed)
				return DRR_FQ_NONE;
			m->serving = m->list[0];
			memmove(m->list, m->list + 1,
				--m->listed * sizeof(*m->list));
			flow = &m->flows[m->serving];
			flow->deficit += flow->quantum;
			m->turns++;
		}
		flow = &m->flows[m->serving];
		if (flow->head->length <= flow->deficit)
			return m->serving;
		model_enlist(m, m->serving);
		m->serving = DRR_FQ_NONE;
	}
}

/* Whether this flow (or none: DRR_FQ_NONE) may be next. */
static inline bool model_is_next(struct model *m, u32 number)
{
	u32 i;

	if (!m->qlen || number == DRR_FQ_NONE)
		return !m->qlen && number == DRR_FQ_NONE;
	switch (m->params->scheduler) {
	case DRR_FQ_DRR:
		return number == model_next_drr(m);
	case DRR_FQ_RR:
		return number == m->list[0];
	default:
		if (!m->flows[number].head)
			return false;
		for (i = 0; i < m->listed; i++)
			if (m->flows[m->list[i]].head->tag <
			    m->flows[number].head->tag)
				return false;
		return true;
	}
}

static inline u32 model_longest(const struct model *m)
{
	u32 longest = 0, i;

	if (!m->qlen)
		return DRR_FQ_NONE;
	for (i = 1; i < m->params->flows; i++)
		if (m->flows[i].backlog >= m->flows[longest].backlog)
			longest = i;
	return longest;
}

/* Remove the oldest packet, and the flow if empty. Returns packet->number. */
static inline u64 model_leave(struct model *m, u32 number)
{
	struct model_flow *flow = &m->flows[number];
	struct packet *packet = flow->head;
	u64 which = packet->number;

	flow->head = packet->next;
	flow->qlen--;
	flow->backlog -= packet->length;
	m->qlen--;
	m->backlog -= packet->length;
	if (!flow->head) {
		flow->deficit = 0;
		model_delist(m, number);
	}
	free(packet);
	return which;
}

static inline u64 model_send(struct model *m, u32 number)
{
	struct model_flow *flow = &m->flows[number];

	switch (m->params->scheduler) {
	case DRR_FQ_DRR:
		flow->deficit -= flow->head->length;
		break;
	case DRR_FQ_RR:
		model_delist(m, number);
		model_enlist(m, number);
		break;
	default:
		CHECK(m->dropped || flow->head->tag >= m->v,
		      "flow %u: %llu < %llu", number, flow->head->tag, m->v);
		m->v = fp_max64(m->v, flow->head->tag);
	}
	flow->sent_packets++;
	flow->sent_bytes += flow->head->length;
	return model_leave(m, number);
}

static inline u64 model_drop(struct model *m, u32 number)
{
	struct model_flow *flow = &m->flows[number];
	struct packet *packet;
	u32 length = flow->head->length;

	for (packet = flow->head->next; packet; packet = packet->next)
		packet->tag -= length;
	flow->tag -= length;
	flow->drops++;
	m->dropped = true;
	return model_leave(m, number);
}

/* The starting tag of the flow's oldest packet, or of its next one. */
static inline u64 model_start(const struct model_flow *flow)
{
	return flow->head ? flow->head->tag - flow->head->length : flow->tag;
}

static inline void model_empty(struct model *m, u32 number)
{
	struct model_flow *flow = &m->flows[number];

	flow->tag = model_start(flow);
	m->qlen -= flow->qlen;
	m->backlog -= flow->backlog;
	flow->qlen = 0;
	flow->backlog = 0;
	flow->deficit = 0;
	model_free_packets(flow);
	model_delist(m, number);
	m->dropped = true;
}

#endif /* MODEL_DRR_FQ_H */
