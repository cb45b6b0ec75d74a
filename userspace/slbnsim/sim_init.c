// SPDX-License-Identifier: GPL-2.0
/*
 * Setting up a run, and freeing it.
 */
#include <stdlib.h>

#include "event.h"
#include "random.h"
#include "sim.h"

static const struct net *sorting;

static int by_join(const void *a, const void *b)
{
	u32 one = *(const u32 *)a, other = *(const u32 *)b;
	u64 t = sorting->sessions[one].join, u = sorting->sessions[other].join;

	return t != u ? (t < u ? -1 : 1) : (one < other ? -1 : one > other);
}

static int by_leave(const void *a, const void *b)
{
	u32 one = *(const u32 *)a, other = *(const u32 *)b;
	u64 t = sorting->sessions[one].leave;
	u64 u = sorting->sessions[other].leave;

	return t != u ? (t < u ? -1 : 1) : (one < other ? -1 : one > other);
}

static size_t aligned(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static void init_links(struct sim *sim)
{
	const struct algorithm *algorithm = sim->options.algorithm;
	u64 interval = sim_timer_interval(&sim->options);
	const struct net *net = sim->net;
	u32 n, count = 1;

	sim->link_states =
		alloc_array(net->link_count, sizeof(*sim->link_states));
	sim->crossing = alloc_array(net->link_count, sizeof(u32));
	for (n = 0; n < net->hop_count; n++)
		sim->crossing[net->hops[n]]++;
	for (n = 0; n < net->link_count; n++)
		if (sim->crossing[n])
			sim->link_states[n].load = count++;
	sim->loads = alloc_array(count, sim->load_size);
	for (n = 0; n < net->link_count; n++) {
		if (algorithm->link_init)
			algorithm->link_init(sim, n);
		if (algorithm->timer_interval)
			wheel_add(&sim->wheel,
				  1 + draw(&sim->random) % interval,
				  event(EVENT_TIMER, n, 0));
	}
	free(sim->crossing);
	sim->crossing = NULL;
}

/**
 * sim_init() - set up a run, at time 0
 * @sim: set up
 * @net: the network, with the paths of its sessions; it must not change
 * @options: of the run
 */
void sim_init(struct sim *sim, const struct net *net,
	      const struct sim_options *options)
{
	const struct algorithm *algorithm = options->algorithm;
	u32 n, most = 1;

	for (n = 0; n < net->session_count; n++)
		most = fp_max(most, net->sessions[n].hops);
	*sim = (struct sim){
		.net = net,
		.options = *options,
		.random = options->seed,
		.longest_path = most,
		.load_size = aligned(sizeof(struct link_load) +
				     algorithm->link_memory),
		.source_size = aligned(sizeof(struct source) +
				       algorithm->source_memory),
		.packet_size = aligned(sizeof(struct packet) +
				       algorithm->packet_memory(most)),
	};
	sim->front_free = NET_NONE;
	wheel_init(&sim->wheel);
	sim->sources = alloc_array(net->session_count, sim->source_size);
	sim->packets = alloc_array(net->session_count, sim->packet_size);
	if (options->fluid || options->data_bytes) {
		sim->traffic =
			alloc_array(net->link_count, sizeof(*sim->traffic));
		sim->data_sources = alloc_array(net->session_count,
						sizeof(*sim->data_sources));
	}
	sim->joins = alloc_array(net->session_count, sizeof(u32));
	sim->leaves = alloc_array(net->session_count, sizeof(u32));
	if (sim_is_lossy(sim) || algorithm->drops)
		sim->sent_packets =
			alloc_array(net->session_count, sim->packet_size);
	init_links(sim);
	for (n = 0; n < net->session_count; n++) {
		sim_packet(sim, n)->session = n;
		if (sim->data_sources && net->sessions[n].bytes)
			sim->data_sources[n].to_send = net->sessions[n].bytes;
		else if (sim->data_sources)
			sim->data_sources[n].to_send = ~0ULL;
		sim->joins[n] = n;
		sim->leaves[n] = n;
	}
	sorting = net;
	qsort(sim->joins, net->session_count, sizeof(u32), by_join);
	qsort(sim->leaves, net->session_count, sizeof(u32), by_leave);
}

void sim_free(struct sim *sim)
{
	u32 n;

	if (sim->options.algorithm->link_end)
		for (n = 0; n < sim->net->link_count; n++)
			sim->options.algorithm->link_end(sim, n);
	wheel_destroy(&sim->wheel);
	free(sim->sent_packets);
	free(sim->fronts);
	free(sim->link_states);
	free(sim->sources);
	free(sim->packets);
	free(sim->loads);
	free(sim->traffic);
	free(sim->data_sources);
	free(sim->joins);
	free(sim->leaves);
}
