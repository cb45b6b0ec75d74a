/* SPDX-License-Identifier: GPL-2.0 */
/*
 * With many sessions nearly all memory accesses of an event are cache misses,
 * and each depends on the one before: the packet, its position in the path, the
 * link. So they are prefetched stage by stage while earlier events are handled.
 * If a packet has moved in between, only time is lost.
 */
#ifndef SLBNSIM_PREFETCH_H
#define SLBNSIM_PREFETCH_H

#include "event.h"
#include "sim.h"

/* How many events ahead each kind of memory is prefetched, in this order. */
#define FETCH_PACKET 32U
#define FETCH_PATH 24U
#define FETCH_LINKS 16U
#define FETCH_LOAD 8U

/* Inline, since gcc drops calls of functions that only prefetch. */
static __always_inline void fetch(const void *memory, size_t size)
{
	const char *at = memory;
	size_t n;

	for (n = 0; n < size; n += 64)
		__builtin_prefetch(at + n);
	__builtin_prefetch(at + size - 1);
}

static __always_inline void fetch_packet(const struct sim *sim, u64 what)
{
	fetch(sim_packet(sim, number_of(what)), sim->packet_size);
	if (event_kind(what) == EVENT_CYCLE)
		fetch(sim_source(sim, number_of(what)), sizeof(struct source));
}

static __always_inline void fetch_path(const struct sim *sim, u64 what)
{
	const struct packet *packet = sim_packet(sim, number_of(what));

	__builtin_prefetch(&sim->net->hops[packet->path + packet->hop]);
	if (event_kind(what) == EVENT_CYCLE)
		__builtin_prefetch(&sim->net->sessions[packet->session]);
	else if (packet->up && packet->hop == 1)
		fetch(sim_source(sim, packet->session), sim->source_size);
}

/*
 * The index in its path of the link that a packet uses next, downstream, or
 * whose other end it is at, upstream. Without branches, since the direction of
 * a packet is hard to predict.
 */
static __always_inline u8 hop_next(const struct packet *packet)
{
	return packet->hop - (packet->up | (packet->hop == packet->hops));
}

/* A link; its reverse is mostly beside it. */
static __always_inline void fetch_link(const struct sim *sim, u32 link)
{
	__builtin_prefetch(sim_link(sim, link));
	__builtin_prefetch(sim_link_state(sim, link));
}

static __always_inline void fetch_links(const struct sim *sim, u64 what)
{
	const struct packet *packet = sim_packet(sim, number_of(what));
	u8 hop = hop_next(packet);

	fetch_link(sim, sim_link_at(sim, packet, hop));
	/*
	 * Upstream, also the link that it uses next; downstream, the same link
	 * again.
	 */
	hop -= packet->up & (hop > 0);
	fetch_link(sim, sim_link_at(sim, packet, hop));
}

static __always_inline void fetch_load(const struct sim *sim, u64 what)
{
	const struct packet *packet = sim_packet(sim, number_of(what));
	u32 link = sim_link_at(sim, packet, hop_next(packet));

	fetch(sim_link_load(sim, link), sim->load_size);
}

/* Prefetch what the next events need. */
static inline void fetch_ahead(struct sim *sim)
{
	u64 what;

	while ((what = wheel_ahead(&sim->wheel, 0, FETCH_PACKET)))
		if (is_control_event(what))
			fetch_packet(sim, what);
	while ((what = wheel_ahead(&sim->wheel, 1, FETCH_PATH)))
		if (is_control_event(what))
			fetch_path(sim, what);
	while ((what = wheel_ahead(&sim->wheel, 2, FETCH_LINKS)))
		if (is_control_event(what))
			fetch_links(sim, what);
	while ((what = wheel_ahead(&sim->wheel, 3, FETCH_LOAD)))
		if (is_control_event(what))
			fetch_load(sim, what);
}

#endif /* SLBNSIM_PREFETCH_H */
