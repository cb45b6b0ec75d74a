// SPDX-License-Identifier: GPL-2.0
/*
 * Max-min fair rates by water filling, in O(hops of all sessions), plus the
 * heap of links.
 */
#include "maxmin.h"

#include <stdlib.h>
#include <string.h>

static const double *sorting;

static int compare_limits(const void *a, const void *b)
{
	u32 one = *(const u32 *)a, other = *(const u32 *)b;

	if (sorting[one] != sorting[other])
		return sorting[one] < sorting[other] ? -1 : 1;
	return one < other ? -1 : one > other;
}

/* Number the shared links; NET_NONE: the link is not shared. */
static u32 *find_shared(struct maxmin *mm)
{
	const struct net *net = mm->net;
	u32 *number = alloc_array(net->link_count, sizeof(u32)), n, hop;

	for (n = 0; n < net->session_count; n++) {
		const struct session *session = &net->sessions[n];

		for (hop = 0; hop < session->hops; hop++)
			number[net->hops[session->path + hop]]++;
	}
	for (n = 0; n < net->link_count; n++)
		mm->shared_count += number[n] > 1;
	mm->shared = alloc_array(mm->shared_count, sizeof(*mm->shared));
	mm->first = alloc_array(mm->shared_count + 1UL, sizeof(u32));
	mm->shared_count = 0;
	for (n = 0; n < net->link_count; n++) {
		u32 crossing = number[n];

		number[n] = NET_NONE;
		if (crossing < 2)
			continue;
		number[n] = mm->shared_count++;
		mm->shared[number[n]].link = n;
		mm->first[mm->shared_count] =
			mm->first[mm->shared_count - 1] + crossing;
	}
	return number;
}

/* The shared links of a session, and its own limit: demand or unshared link. */
static void find_limits(struct maxmin *mm, u32 which, const u32 *number,
			u32 *count)
{
	const struct net *net = mm->net;
	const struct session *session = &net->sessions[which];
	double plan;
	u32 hop;

	mm->path[which] = *count;
	mm->own_link[which] = NET_NONE;
	mm->limit[which] = session->demand;
	for (hop = 0; hop < session->hops; hop++) {
		u32 link = net->hops[session->path + hop];

		plan = mm->plan[link];
		if (number[link] != NET_NONE) {
			mm->hops[(*count)++] = number[link];
		} else if (plan < mm->limit[which]) {
			mm->own_link[which] = link;
			mm->limit[which] = plan;
		}
	}
	mm->limit_share[which] = mm->limit[which] / session->weight;
	if (mm->own_link[which] != NET_NONE || session->demand < NET_RATE_MAX ||
	    mm->path[which] == *count)
		mm->by_limit[mm->limit_count++] = which;
}

/**
 * maxmin_init() - set up the computation for a network
 * @mm: set up
 * @net: the network with all its sessions; it must not change
 * @headroom: the part of links' rates that is not shared, 1/1000
 * @plan: by link: what is shared, bit/s; NULL: as @headroom says
 */
void maxmin_init(struct maxmin *mm, const struct net *net, u32 headroom,
		 const u64 *plan)
{
	u32 sessions = net->session_count, count = 0, *number, *at, n, hop;

	*mm = (struct maxmin){
		.net = net,
		.plan = alloc_array(net->link_count, sizeof(u64)),
		.rate = alloc_array(sessions, sizeof(double)),
		.is_bottleneck = alloc_array(net->link_count, sizeof(bool)),
		.path = alloc_array(sessions + 1UL, sizeof(u32)),
		.limit = alloc_array(sessions, sizeof(double)),
		.limit_share = alloc_array(sessions, sizeof(double)),
		.own_link = alloc_array(sessions, sizeof(u32)),
		.by_limit = alloc_array(sessions, sizeof(u32)),
		.present = alloc_array(sessions, sizeof(bool)),
		.assigned = alloc_array(sessions, sizeof(bool)),
		.is_first = true,
	};
	for (n = 0; n < net->link_count; n++)
		mm->plan[n] =
			plan ? plan[n] : link_plan(&net->links[n], headroom);
	number = find_shared(mm);
	mm->hops = alloc_array(mm->first[mm->shared_count], sizeof(u32));
	mm->crossing = alloc_array(mm->first[mm->shared_count], sizeof(u32));
	mm->heap = alloc_array(mm->shared_count, sizeof(u32));
	for (n = 0; n < sessions; n++)
		find_limits(mm, n, number, &count);
	mm->path[sessions] = count;
	free(number);
	at = alloc_array(mm->shared_count, sizeof(u32));
	memcpy(at, mm->first, mm->shared_count * sizeof(u32));
	for (n = 0; n < sessions; n++)
		for (hop = mm->path[n]; hop < mm->path[n + 1]; hop++)
			mm->crossing[at[mm->hops[hop]]++] = n;
	free(at);
	sorting = mm->limit_share;
	qsort(mm->by_limit, mm->limit_count, sizeof(u32), compare_limits);
}

static void sift_down(struct maxmin *mm, u32 at)
{
	const struct shared *shared = mm->shared;
	u32 link = mm->heap[at], child;

	while ((child = 2 * at + 1) < mm->heap_count) {
		if (child + 1 < mm->heap_count &&
		    shared[mm->heap[child + 1]].key <
			    shared[mm->heap[child]].key)
			child++;
		if (shared[mm->heap[child]].key >= shared[link].key)
			break;
		mm->heap[at] = mm->heap[child];
		at = child;
	}
	mm->heap[at] = link;
}

/*
 * Move the link with the smallest share to the top of the heap. Return: whether
 * any link has sessions without a rate.
 */
static bool find_least(struct maxmin *mm)
{
	while (mm->heap_count) {
		u32 first = mm->heap[0];
		struct shared *shared = &mm->shared[first];
		double share;

		if (!shared->count) {
			mm->heap[0] = mm->heap[--mm->heap_count];
			sift_down(mm, 0);
			continue;
		}
		share = shared->left / shared->count;
		if (share <= shared->key)
			return true;
		shared->key = share;
		sift_down(mm, 0);
		if (mm->heap[0] == first)
			return true;
	}
	return false;
}

/* Assign a rate to a session, and subtract it from its links. */
static void assign(struct maxmin *mm, u32 number, double rate)
{
	u32 hop;

	mm->assigned[number] = true;
	mm->rate[number] = rate;
	for (hop = mm->path[number]; hop < mm->path[number + 1]; hop++) {
		struct shared *shared = &mm->shared[mm->hops[hop]];

		shared->left -= rate;
		shared->count -= mm->net->sessions[number].weight;
	}
}

/*
 * Assign its own limit to the next session whose limit is at most SHARE, for
 * each unit of its weight.
 * Return: whether there was one; then the shares of links have grown.
 */
static bool assign_limited(struct maxmin *mm, u32 *next, double share)
{
	for (; *next < mm->limit_count; (*next)++) {
		u32 number = mm->by_limit[*next];

		if (mm->assigned[number])
			continue;
		if (mm->limit_share[number] > share)
			return false;
		assign(mm, number, mm->limit[number]);
		if (mm->own_link[number] != NET_NONE)
			mm->is_bottleneck[mm->own_link[number]] = true;
		(*next)++;
		return true;
	}
	return false;
}

/* Update the sessions present at each link. Return: whether any has changed. */
static bool update_present(struct maxmin *mm, const bool *present)
{
	bool changed = mm->is_first;
	u64 weight;
	u32 n, hop;

	mm->is_first = false;
	for (n = 0; n < mm->net->session_count; n++) {
		if (present[n] == mm->present[n])
			continue;
		changed = true;
		mm->present[n] = present[n];
		weight = mm->net->sessions[n].weight;
		for (hop = mm->path[n]; hop < mm->path[n + 1]; hop++)
			mm->shared[mm->hops[hop]].present +=
				present[n] ? weight : -weight;
	}
	return changed;
}

/**
 * maxmin_compute() - compute the max-min rates of the sessions that are present
 * @mm: the computation; sets @mm->rate and @mm->is_bottleneck
 * @present: by session; the rate of absent ones is 0
 */
void maxmin_compute(struct maxmin *mm, const bool *present)
{
	const struct net *net = mm->net;
	u32 n, link, at, next = 0;

	if (!update_present(mm, present))
		return;
	memset(mm->is_bottleneck, 0, net->link_count * sizeof(bool));
	for (n = 0; n < net->session_count; n++) {
		mm->rate[n] = 0;
		mm->assigned[n] = !present[n];
	}
	mm->heap_count = 0;
	for (link = 0; link < mm->shared_count; link++) {
		struct shared *shared = &mm->shared[link];

		shared->count = shared->present;
		if (!shared->count)
			continue;
		shared->left = mm->plan[shared->link];
		shared->key = shared->left / shared->count;
		mm->heap[mm->heap_count++] = link;
	}
	for (at = mm->heap_count / 2; at--;)
		sift_down(mm, at);

	while (find_least(mm)) {
		u32 least = mm->heap[0];
		double share = mm->shared[least].key;

		if (assign_limited(mm, &next, share))
			continue;
		mm->is_bottleneck[mm->shared[least].link] = true;
		for (at = mm->first[least]; at < mm->first[least + 1]; at++) {
			n = mm->crossing[at];
			if (!mm->assigned[n])
				assign(mm, n, share * net->sessions[n].weight);
		}
	}
	/* Sessions without a shared link. */
	while (assign_limited(mm, &next, NET_RATE_MAX))
		;
}

void maxmin_free(struct maxmin *mm)
{
	free(mm->plan);
	free(mm->rate);
	free(mm->is_bottleneck);
	free(mm->shared);
	free(mm->first);
	free(mm->crossing);
	free(mm->path);
	free(mm->hops);
	free(mm->limit);
	free(mm->limit_share);
	free(mm->own_link);
	free(mm->by_limit);
	free(mm->present);
	free(mm->assigned);
	free(mm->heap);
}
