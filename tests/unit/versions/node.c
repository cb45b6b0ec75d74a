// SPDX-License-Identifier: GPL-2.0
/* See node.h. VERSION is the name of this version. */
#include <stdlib.h>
#include <string.h>

#include <fairpath/slbn/slbn_core.h>
#include <fairpath/slbn/slbn_wire.h>

#include "node.h"

#define ROWS 16U

struct node_link {
	struct slbn_link_params params;
	struct slbn_link_vars vars;
	struct slbn_link_stats stats;
	struct slbn_memory_entry memory[ROWS * SLBN_MEMORY_WAYS];
};

static void *add_link(uint64_t capacity, uint32_t number)
{
	struct node_link *link = calloc(1, sizeof(*link));

	if (!link)
		abort();
	link->params.C = capacity;
	link->params.P = capacity;
	link->params.commit = true;
	link->params.epoch = 1000000000;
	link->params.rows = ROWS;
	link->params.hash_key[0] = number;
	link->vars.memory = link->memory;
	slbn_link_init(&link->vars, 0, 0, number);
	return link;
}

static bool process(void *context, uint8_t *data, size_t length, uint64_t now)
{
	struct node_link *link = context;
	struct slbn_packet pkt;
	struct slbn_layout layout;
	struct slbn_slot slot;
	u8 hop;

	if (slbn_parse_packet(data, length, &pkt, &layout) != SLBN_PARSE_OK)
		return false;
	hop = slbn_current_hop(&pkt);
	if (hop >= pkt.slots)
		return false;
	slot = slbn_get_slot(data, &layout, hop);
	if (slbn_link_process(&link->params, &link->vars, &link->stats, &pkt,
			      &slot, now) != SLBN_FORWARD)
		return false;
	slbn_set_slot(data, &layout, hop, slot);
	slbn_update_packet(data, &pkt);
#ifdef SLBN_SHARE_LENGTH
	slbn_update_share(data, &layout, &pkt);
#endif
	return true;
}

static bool reply(uint8_t *data, size_t length)
{
	struct slbn_packet pkt;
	struct slbn_layout layout;

	if (slbn_parse_packet(data, length, &pkt, &layout) != SLBN_PARSE_OK ||
	    !slbn_destination_reply(&pkt))
		return false;
	slbn_wire_clear_slots(data, &layout, &pkt);
	slbn_update_packet(data, &pkt);
	return true;
}

static void *add_source(uint64_t number)
{
	const u64 id[2] = { number, ~number };
	struct slbn_source *source = calloc(1, sizeof(*source));

	if (!source)
		abort();
	slbn_source_join(source, id, SLBN_RATE_MAX, 1, 8);
	return source;
}

static size_t send(void *context, uint8_t *data, uint64_t now)
{
	static const u8 origin[4] = { 10, 0, 0, 1 };
	struct slbn_source *source = context;
	struct slbn_layout layout;

	slbn_source_transmit(source, now);
	slbn_build_packet(data, &source->pkt, source->slot, origin, false,
			  false, &layout);
#ifdef SLBN_SHARE_LENGTH
	slbn_add_share(data, &layout, &source->pkt);
#endif
	return layout.length;
}

static bool receive(void *source, const uint8_t *data, size_t length,
		    uint64_t now)
{
	struct slbn_slot slot[SLBN_HOPS_MAX];
	struct slbn_packet pkt;
	struct slbn_layout layout;
	u8 hop;

	if (slbn_parse_packet(data, length, &pkt, &layout) != SLBN_PARSE_OK)
		return false;
	for (hop = 0; hop < pkt.slots; hop++)
		slot[hop] = slbn_get_slot(data, &layout, hop);
	return slbn_source_ack(source, &pkt, slot, now) == SLBN_CYCLE_DONE;
}

static uint64_t rate(const void *source)
{
	return ((const struct slbn_source *)source)->rate;
}

static uint64_t share(const void *source)
{
#ifdef SLBN_SHARE_LENGTH
	uint64_t value = ((const struct slbn_source *)source)->share;

	return value == SLBN_RATE_MAX ? 0 : value;
#else
	(void)source;
	return 0;
#endif
}

static bool complete(const void *source)
{
#ifdef SLBN_SHARE_LENGTH
	return ((const struct slbn_source *)source)->share_complete;
#else
	(void)source;
	return false;
#endif
}

const struct version VERSION = {
	.add_link = add_link,
	.process = process,
	.reply = reply,
	.add_source = add_source,
	.send = send,
	.receive = receive,
	.rate = rate,
	.share = share,
	.complete = complete,
};
