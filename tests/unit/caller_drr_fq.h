/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A caller of drr_fq_core.h that manages packets, as the module in the kernel.
 *
 * The queues' memory has exactly the size that the core requests, and packets
 * are freed when they leave, so that AddressSanitizer detects invalid accesses.
 */
#ifndef CALLER_DRR_FQ_H
#define CALLER_DRR_FQ_H

#include "model_drr_fq.h"

struct caller {
	struct drr_fq_params params;
	struct drr_fq_vars vars;
	struct drr_fq_stats stats;
	void *table;
	u64 packets;
};

/* Number of times that the core read the length of a packet. */
static u64 length_reads;

static inline u32 head_length(const struct drr_fq_flow *flow)
{
	length_reads++;
	return ((const struct packet *)flow->head)->length;
}

static inline void caller_begin(struct caller *c, u32 flows, u32 quantum,
				enum drr_fq_scheduler scheduler)
{
	u64 size;

	*c = (struct caller){ .params = { .limit = ~0U,
					  .limit_bytes = DRR_FQ_LIMIT_BYTES_MAX,
					  .flows = flows,
					  .quantum = quantum,
					  .scheduler = scheduler } };
	size = drr_fq_table_size(&c->params);
	assert_int_equal(posix_memalign(&c->table, 64, size), 0);
	memset(c->table, 0, size);
	/* drr_fq_table_init() must initialize all of it. */
	memset(&c->vars, 0xa5, sizeof(c->vars));
	drr_fq_table_init(&c->params, &c->vars, c->table);
}

/* Returns the packet's number. */
static inline u64 caller_arrive(struct caller *c, u32 number, u32 hash,
				u32 length)
{
	struct drr_fq_flow *flow = &c->vars.flows[number];
	struct packet *packet = packet_new(c->packets++, length);

	if (flow->head)
		((struct packet *)flow->tail)->next = packet;
	else
		flow->head = packet;
	flow->tail = packet;
	drr_fq_arrive(&c->params, &c->vars, &c->stats, number, hash, length);
	return packet->number;
}

static inline struct packet *caller_pop(struct caller *c, u32 number)
{
	struct drr_fq_flow *flow = &c->vars.flows[number];
	struct packet *packet = flow->head;

	flow->head = packet->next;
	return packet;
}

static inline u32 caller_next(struct caller *c)
{
	return drr_fq_next(&c->params, &c->vars, head_length);
}

/* Send from the flow of drr_fq_next(). Returns the packet's number. */
static inline u64 caller_send(struct caller *c, u32 number)
{
	struct packet *packet = caller_pop(c, number);
	u64 which = packet->number;

	drr_fq_sent(&c->params, &c->vars, number, packet->length, head_length);
	free(packet);
	return which;
}

static inline u64 caller_drop(struct caller *c, u32 number)
{
	struct packet *packet = caller_pop(c, number);
	u64 which = packet->number;

	drr_fq_dropped(&c->params, &c->vars, number, packet->length,
		       head_length);
	free(packet);
	return which;
}

/* As an AQM, after drr_fq_next(). */
static inline void caller_aqm_drop(struct caller *c, u32 number)
{
	struct packet *packet = caller_pop(c, number);

	drr_fq_aqm_dropped(&c->params, &c->vars, number, packet->length,
			   head_length);
	free(packet);
}

static inline void caller_empty(struct caller *c, u32 number)
{
	while (c->vars.flows[number].head)
		free(caller_pop(c, number));
	drr_fq_emptied(&c->params, &c->vars, number);
}

static inline void caller_end(struct caller *c)
{
	while (c->vars.first != DRR_FQ_NONE)
		caller_empty(c, c->vars.first);
	free(c->table);
}

#endif /* CALLER_DRR_FQ_H */
