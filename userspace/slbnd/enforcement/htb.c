// SPDX-License-Identifier: GPL-2.0
/*
 * Rate limits by HTB: devices and flows. htb_config.c has the rtnetlink requests.
 *
 * Each flow has a class directly below the device's htb, so that it neither
 * borrows from other classes nor is restricted by them. Its queue is a bfifo:
 * HTB serves a class at a known rate, so a limit in octets bounds the waiting
 * time. (fq_codel and codel do not bound the backlog of an unresponsive flow;
 * pfifo counts packets, whatever their length.)
 *
 * flower filters classify packets. Each kind of session (rates.h) has its own
 * preference, in the order of lookup, so that the most specific session matches.
 * Filters behind them classify all other packets of local hosts to the default
 * class, and one before them those with the ports of SLBN's control packets to a
 * class with the same rate: filters cannot distinguish slbnd's from those of hosts.
 * The queues of these two classes are fair to source addresses, but not to the flows
 * of one. Filters of others with a lower preference decide first.
 *
 * Filters are marked as ours by their handle, classes by their quantum, both
 * SLBN_PORT, so that a later slbnd can delete those that an earlier one left
 * when it crashed. A flow has the same number on all devices, in the handles of
 * its class, queue and filters. Removing a flow deletes its filters at once,
 * but its class after LINGER, when its queue has been sent.
 *
 * Differences from the BPF program: rates have no lease in the kernel, so they
 * remain when slbnd dies; flower matches no ports of fragments, UDP-Lite and DCCP; a
 * change of rate does not apply to packets already sent to the device; source
 * addresses alone determine the packets of local hosts, this router's included, and
 * packets that are not IP pass; counters do not include the default class.
 */
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_cls.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../system/clock.h"
#include "htb_internal.h"

/* Minimum interval between reads of the counters, ns. */
#define READ_INTERVAL 100000000ULL
/* How long the class of a removed flow remains, ns. */
#define LINGER 1000000000ULL

/* --- devices ------------------------------------------------------------ */

/**
 * struct config - filters or classes of ours on a device
 * @handles: their handles
 * @preferences: of filters; of classes: 1: only they use their number
 * @count: number of them
 * @room: allocated entries
 * @foreign: another program's filter has one of our preferences
 */
struct config {
	u32 *handles;
	u16 *preferences;
	size_t count;
	size_t room;
	bool foreign;
};

static int append(struct config *config, u32 handle, u16 preference)
{
	size_t room = 2 * config->room + 64;
	u16 *preferences;
	u32 *handles;

	if (config->count == config->room) {
		handles = realloc(config->handles, room * sizeof(*handles));
		config->handles = handles ?: config->handles;
		preferences = realloc(config->preferences,
				      room * sizeof(*preferences));
		config->preferences = preferences ?: config->preferences;
		if (!handles || !preferences)
			return MNL_CB_ERROR;
		config->room = room;
	}
	config->handles[config->count] = handle;
	config->preferences[config->count++] = preference;
	return MNL_CB_OK;
}

static void free_config(struct config *config)
{
	free(config->handles);
	free(config->preferences);
	*config = (struct config){};
}

static int find_filter(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	u16 preference = tc->tcm_info >> 16;
	struct config *config = data;
	const struct nlattr *attr;

	/* The head of a list of filters has no handle. */
	if (preference < TC_PREFERENCE || preference > HTB_LAST_PREFERENCE ||
	    !tc->tcm_handle)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_KIND &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0 &&
		    !strcmp(mnl_attr_get_str(attr), "flower") &&
		    htb_is_our_filter(tc->tcm_handle))
			return append(config, tc->tcm_handle, preference);
	config->foreign = true;
	return MNL_CB_OK;
}

static int find_class(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	const struct nlattr *attr;

	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_OPTIONS &&
		    htb_is_our_class(attr))
			return append(data, tc->tcm_handle, 0);
	return MNL_CB_OK;
}

/* Returns 0; -EEXIST: another program uses our preferences; or an error. */
static int check_preferences(const struct htb_device *device)
{
	struct tcmsg about = htb_below(device);
	struct config config = {};
	int error;

	error = tc_dump(RTM_GETTFILTER, &about, find_filter, &config);
	if (!error && config.foreign)
		error = -EEXIST;
	free_config(&config);
	return error;
}

/* Delete filters of ours, but those with the preference @kept. */
static void remove_filters(struct htb *htb, const struct htb_device *device,
			   const struct config *filters, u16 kept)
{
	size_t n;

	for (n = 0; n < filters->count; n++)
		if (filters->preferences[n] != kept)
			htb_remove_filter(htb, device, filters->preferences[n],
					  filters->handles[n]);
}

/* Classes cannot be deleted before the filters that refer to them. */
static void remove_classes(struct htb *htb, const struct htb_device *device,
			   const struct config *classes)
{
	size_t n;

	for (n = 0; n < classes->count; n++) {
		u32 number = TC_H_MIN(classes->handles[n]);

		htb_remove_class(htb, device, number);
		if (classes->preferences[n])
			htb->flows[number].in_use = false;
	}
}

static int find_config(const struct htb_device *device, struct config *filters,
		       struct config *classes)
{
	struct tcmsg about = htb_below(device);

	return tc_dump(RTM_GETTFILTER, &about, find_filter, filters) ?:
		       tc_dump(RTM_GETTCLASS, &about, find_class, classes);
}

/* Delete all filters and classes of ours. */
static void clean(struct htb *htb, const struct htb_device *device)
{
	struct config filters = {}, classes = {};

	find_config(device, &filters, &classes);
	remove_filters(htb, device, &filters, 0);
	remove_classes(htb, device, &classes);
	free_config(&filters);
	free_config(&classes);
}

/* Mark numbers that handles of qdiscs, or of classes of this htb, contain. */
static int mark_used(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	struct htb *htb = data;
	u32 number = tc->tcm_handle & 0xffff;

	if (message->nlmsg_type == RTM_NEWQDISC)
		number = tc->tcm_handle >> 16;
	if (tc->tcm_ifindex == (int)htb->devices[htb->device_count - 1].index &&
	    number < HTB_NUMBERS)
		htb->flows[number].in_use = true;
	return MNL_CB_OK;
}

static u32 number_of(const struct htb *htb, const struct htb_flow *flow)
{
	return flow - htb->flows;
}

/* Numbers are reused as late as possible. Returns NULL if all are in use. */
static struct htb_flow *find_free(struct htb *htb)
{
	u32 n;

	for (n = 0; n < HTB_NUMBERS; n++) {
		struct htb_flow *flow = &htb->flows[htb->next];

		htb->next = (htb->next + 1) % HTB_NUMBERS;
		if (!flow->in_use && number_of(htb, flow))
			return flow;
	}
	return NULL;
}

/* A number for a class without a flow; 0: all are in use. */
static u32 reserve_number(struct htb *htb)
{
	struct htb_flow *flow = find_free(htb);

	if (!flow)
		return 0;
	flow->in_use = true;
	return number_of(htb, flow);
}

static int set_shared_rate(struct htb *htb, struct htb_device *device, u64 rate)
{
	struct htb_batch batch = {};
	int error;

	if (rate == device->rate)
		return 0;
	htb_set_class(&batch, device, device->unassigned, rate);
	htb_set_fair_queue(&batch, device, device->unassigned, rate,
			   htb->backlog);
	htb_set_class(&batch, device, device->control, rate);
	htb_set_fair_queue(&batch, device, device->control, rate, htb->backlog);
	error = htb_request(htb, &batch);
	/* Some of the requests may have succeeded. */
	device->rate = error ? 0 : rate;
	return error;
}

/* Set the filters of the default class: the new ones before the old ones go. */
static int set_host_filters(struct htb *htb, struct htb_device *device)
{
	static const struct flows_prefix all[] = { { .family = AF_INET },
						   { .family = AF_INET6 } };
	const struct flows_prefix *prefixes =
		htb->host_count ? htb->hosts : all;
	u32 n, count = htb->host_count ?: 2;
	u16 old = device->host_preference;
	int error = 0;

	device->host_preference = old == HTB_HOST_PREFERENCE ?
					  HTB_LAST_PREFERENCE :
					  HTB_HOST_PREFERENCE;
	for (n = 0; n < count && !error; n++) {
		struct htb_batch batch = {};

		htb_add_host_filter(&batch, device, n, &prefixes[n]);
		error = htb_request(htb, &batch);
	}
	if (!error && old)
		htb_remove_filter(htb, device, old, 0);
	if (!error)
		return 0;
	/* The old ones remain. */
	htb_remove_filter(htb, device, device->host_preference, 0);
	device->host_preference = old;
	return error;
}

/* Set a flow on a device; for its filters too if it @moves to another class. */
static int set_on_device(struct htb *htb, const struct htb_device *device,
			 const struct htb_flow *flow, bool moves)
{
	u32 number = number_of(htb, flow);
	struct htb_batch batch = {};

	if (flow->rate) {
		htb_set_class(&batch, device, number, flow->rate);
		htb_set_queue(&batch, device, number, flow->rate, htb->backlog);
	}
	if (moves)
		htb_add_filters(&batch, device, flow, number);
	return batch.count ? htb_request(htb, &batch) : 0;
}

/* Set all flows on a device that was added later. */
static int set_all_on_device(struct htb *htb, const struct htb_device *device)
{
	int error = 0;
	u32 n;

	for (n = 0; n < HTB_NUMBERS && !error; n++)
		if (htb->flows[n].known)
			error = set_on_device(htb, device, &htb->flows[n],
					      true);
	return error;
}

/* Mark the numbers that are in use; only old classes use those in @classes. */
static int mark_numbers(struct htb *htb, const struct htb_device *device,
			struct config *classes)
{
	const struct tcmsg all = { .tcm_family = AF_UNSPEC };
	struct tcmsg below = htb_below(device);
	size_t n;

	for (n = 0; n < classes->count; n++) {
		u32 number = TC_H_MIN(classes->handles[n]);

		classes->preferences[n] =
			number < HTB_NUMBERS && !htb->flows[number].in_use;
	}
	return tc_dump(RTM_GETQDISC, &all, mark_used, htb) ?:
		       tc_dump(RTM_GETTCLASS, &below, mark_used, htb);
}

/* Create the default class and its filters. */
static int add_default_class(struct htb *htb, struct htb_device *device,
			     u64 rate)
{
	u8 version;
	int error;

	device->unassigned = reserve_number(htb);
	device->control = reserve_number(htb);
	if (!device->unassigned || !device->control)
		return -ENOSPC;
	error = set_shared_rate(htb, device, rate);
	for (version = 4; version <= 6 && !error; version += 2) {
		struct htb_batch batch = {};

		htb_add_control_filter(&batch, device, version);
		error = htb_request(htb, &batch);
	}
	return error ?: set_host_filters(htb, device);
}

/*
 * Replace what an earlier slbnd has left. Its packets are never without a class: the
 * new filters of the default class are behind the old ones or replace them.
 */
static int prepare(struct htb *htb, struct htb_device *device, u64 rate)
{
	struct config filters = {}, classes = {};
	size_t n;
	int error;

	error = find_config(device, &filters, &classes) ?:
			mark_numbers(htb, device, &classes);
	/* The new ones have the other preference. */
	for (n = 0; n < filters.count; n++)
		if (filters.preferences[n] >= HTB_HOST_PREFERENCE)
			device->host_preference = filters.preferences[n];
	error = error ?: add_default_class(htb, device, rate);
	remove_filters(htb, device, &filters, TC_PREFERENCE);
	remove_classes(htb, device, &classes);
	free_config(&filters);
	free_config(&classes);
	return error ?: set_all_on_device(htb, device);
}

static struct htb_device *find_device(struct htb *htb, u32 index)
{
	size_t n;

	for (n = 0; n < htb->device_count; n++)
		if (htb->devices[n].index == index)
			return &htb->devices[n];
	return NULL;
}

/* Does the default class exist? It ends with its htb. */
static bool is_prepared(const struct htb_device *device)
{
	struct tcmsg about = htb_below(device);
	struct config config = {};
	bool found = false;
	size_t n;

	tc_dump(RTM_GETTCLASS, &about, find_class, &config);
	for (n = 0; n < config.count; n++)
		found |= config.handles[n] ==
			 (device->handle | device->unassigned);
	free_config(&config);
	return found;
}

static void release(struct htb *htb, struct htb_device *device)
{
	htb->flows[device->unassigned].in_use = false;
	htb->flows[device->control].in_use = false;
	free(device->counters);
	*device = htb->devices[--htb->device_count];
}

/**
 * htb_attach() - add a device, or check it and set its default class's rate
 * @htb: from htb_open()
 * @name: the device
 * @index: the device
 * @handle: of its htb
 * @rate: of its default class, bit/s, at least 1
 * @error: set on failure
 *
 * Return: whether it is attached; with @error set, its default class has an earlier rate,
 * and the next call tries again.
 */
bool htb_attach(struct htb *htb, const char *name, u32 index, u32 handle,
		u64 rate, const struct tc_error *error)
{
	static const char foreign[] =
		"%s: a preference from %u to %u below %x: belongs to another program's filter";
	static const char failed[] = "%s: its htb: %s";
	struct htb_device *device = find_device(htb, index);
	int err;

	if (device && device->handle == handle && is_prepared(device)) {
		err = set_shared_rate(htb, device, rate);
		if (err)
			tc_fail(error, failed, name, strerror(-err));
		return true;
	}
	if (device)
		release(htb, device);
	device = &htb->devices[htb->device_count];
	*device = (struct htb_device){ .index = index, .handle = handle };
	err = check_preferences(device);
	if (err == -EEXIST)
		return tc_fail(error, foreign, name, TC_PREFERENCE,
			       HTB_LAST_PREFERENCE, handle >> 16);
	if (!err) {
		device->counters =
			calloc(HTB_NUMBERS, sizeof(*device->counters));
		err = device->counters ? 0 : -ENOMEM;
	}
	if (!err) {
		/* From here on, htb_close() must clean up. */
		htb->device_count++;
		err = prepare(htb, device, rate);
	}
	if (err)
		return tc_fail(error, failed, name, strerror(-err));
	return true;
}

/**
 * htb_set_backlog() - set the longest time that a packet may wait
 * @htb: from htb_open(); call it before htb_attach()
 * @backlog: ns. Default classes have it from the next htb_attach() on, flows with
 *	their next rate
 */
void htb_set_backlog(struct htb *htb, u64 backlog)
{
	size_t n;

	for (n = 0; n < htb->device_count && htb->backlog != backlog; n++)
		htb->devices[n].rate = 0;
	htb->backlog = backlog;
}

/**
 * htb_detach() - remove a device
 * @htb: from htb_open()
 * @index: of the device; ignored if unknown
 */
void htb_detach(struct htb *htb, u32 index)
{
	struct htb_device *device = find_device(htb, index);

	if (!device)
		return;
	/* Fails if the device is gone. */
	clean(htb, device);
	release(htb, device);
}

/**
 * htb_open() - allocate the state of rate limits by HTB
 * @error: set on failure
 *
 * Return: the state; NULL: failed.
 */
struct htb *htb_open(const struct tc_error *error)
{
	struct htb *htb = calloc(1, sizeof(*htb));

	if (htb)
		htb->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!htb || !htb->socket ||
	    mnl_socket_bind(htb->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		tc_fail(error, "htb: %s", strerror(errno));
		htb_close(htb, ENFORCE_REMOVE);
		return NULL;
	}
	STAILQ_INIT(&htb->lingering);
	htb->next = TC_FIRST_NUMBER;
	return htb;
}

/* The tree does not own its flows. */
static void free_nothing(void *flow)
{
	(void)flow;
}

/**
 * htb_close() - delete all filters and classes of ours
 * @htb: from htb_open(), or NULL
 * @end: ENFORCE_REMOVE; otherwise the next slbnd replaces them
 */
void htb_close(struct htb *htb, enum enforce_end end)
{
	if (!htb)
		return;
	while (htb->device_count && end == ENFORCE_REMOVE)
		htb_detach(htb, htb->devices[0].index);
	while (htb->device_count)
		release(htb, &htb->devices[0]);
	if (htb->socket)
		mnl_socket_close(htb->socket);
	tdestroy(htb->by_key, free_nothing);
	free(htb);
}

/**
 * htb_set_hosts() - set the source addresses of local hosts
 * @htb: from htb_open()
 * @hosts: their prefixes
 * @count: number of them, at most FLOWS_PREFIXES; 0: all hosts are local
 *
 * Return: 0, or a negative errno.
 */
int htb_set_hosts(struct htb *htb, const struct flows_prefix *hosts, u32 count)
{
	int error = 0, device_error;
	size_t n;

	if (!htb->hosts_failed && count == htb->host_count &&
	    !memcmp(htb->hosts, hosts, count * sizeof(*hosts)))
		return 0;
	memcpy(htb->hosts, hosts, count * sizeof(*hosts));
	htb->host_count = count;
	for (n = 0; n < htb->device_count; n++) {
		device_error = set_host_filters(htb, &htb->devices[n]);
		error = error ?: device_error;
	}
	htb->hosts_failed = error;
	return error;
}

/* --- flows -------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rates_key));
}

static struct htb_flow *find_flow(const struct htb *htb,
				  const struct rates_key *key)
{
	void *const *node = tfind(key, &htb->by_key, compare_keys);

	return node ? *node : NULL;
}

/* Delete the classes of removed flows that expired by @now. */
static void expire(struct htb *htb, u64 now)
{
	struct htb_flow *flow;
	size_t n;

	while ((flow = STAILQ_FIRST(&htb->lingering)) && flow->expires <= now) {
		STAILQ_REMOVE_HEAD(&htb->lingering, lingering);
		for (n = 0; n < htb->device_count && flow->has_class; n++)
			htb_remove_class(htb, &htb->devices[n],
					 number_of(htb, flow));
		flow->in_use = false;
	}
}

/* Returns 0, or the first error, except that of a device that is gone. */
static int set_rate(struct htb *htb, struct htb_flow *flow, u64 rate,
		    bool is_new)
{
	bool moves = is_new || flow->failed || !flow->rate != !rate;
	int error = 0, device_error;
	size_t n;

	flow->rate = rate;
	flow->has_class |= rate > 0;
	for (n = 0; n < htb->device_count; n++) {
		device_error =
			set_on_device(htb, &htb->devices[n], flow, moves);
		if (!error && device_error != -ENODEV)
			error = device_error;
	}
	flow->failed = error;
	return error;
}

static void remove_flow(struct htb *htb, struct htb_flow *flow)
{
	size_t n;

	tdelete(flow, &htb->by_key, compare_keys);
	flow->known = false;
	for (n = 0; n < htb->device_count; n++)
		htb_remove_filters(htb, &htb->devices[n], flow,
				   number_of(htb, flow));
	flow->expires = clock_now() + LINGER;
	STAILQ_INSERT_TAIL(&htb->lingering, flow, lingering);
}

/* Do all devices have this rate, except for rounding? */
static bool has_rate(const struct htb_flow *flow, u64 rate)
{
	u64 before = flow->rate;
	u64 change = rate > before ? rate - before : before - rate;

	if (flow->failed)
		return false;
	return rate == before || (before && rate && change <= rate >> 16);
}

/**
 * htb_set() - set the rate of a flow
 * @htb: from htb_open()
 * @key: the flow
 * @kind: its kind
 * @rate: bit/s; 0: none, use the default class
 *
 * Changes by rounding are ignored: each one takes requests to the kernel.
 *
 * Return: 0; -ENOSPC: too many flows; -EPROTONOSUPPORT: its ports cannot be
 * matched; or another negative errno.
 */
int htb_set(struct htb *htb, const struct rates_key *key, int kind, u64 rate)
{
	struct htb_flow *flow = find_flow(htb, key);
	size_t n;
	int error;

	if (flow)
		return has_rate(flow, rate) ? 0 :
					      set_rate(htb, flow, rate, false);
	if (!htb_supports(key, kind))
		return -EPROTONOSUPPORT;
	expire(htb, clock_now());
	flow = find_free(htb);
	if (!flow) {
		expire(htb, ~0ULL);
		flow = find_free(htb);
	}
	if (!flow)
		return -ENOSPC;
	*flow = (struct htb_flow){ .key = *key, .kind = kind };
	if (!tsearch(flow, &htb->by_key, compare_keys))
		return -ENOMEM;
	flow->in_use = true;
	flow->known = true;
	for (n = 0; n < htb->device_count; n++)
		htb->devices[n].counters[number_of(htb, flow)] =
			(struct htb_counters){};
	error = set_rate(htb, flow, rate, true);
	if (error)
		remove_flow(htb, flow);
	return error;
}

/**
 * htb_remove() - remove a flow
 * @htb: from htb_open()
 * @key: the flow; ignored if unknown
 */
void htb_remove(struct htb *htb, const struct rates_key *key)
{
	struct htb_flow *flow = find_flow(htb, key);

	expire(htb, clock_now());
	if (flow)
		remove_flow(htb, flow);
}

/* --- counters ----------------------------------------------------------- */

/**
 * struct reading - a dump of a device's classes
 * @htb: all flows
 * @device: the device
 */
struct reading {
	struct htb *htb;
	struct htb_device *device;
};

static void parse_counters(const struct nlattr *stats,
			   struct htb_counters *counters)
{
	const struct gnet_stats_basic *basic;
	const struct gnet_stats_queue *queue;
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, stats) {
		const void *value = mnl_attr_get_payload(attr);
		size_t length = mnl_attr_get_payload_len(attr);

		basic = value;
		queue = value;
		switch (mnl_attr_get_type(attr)) {
		case TCA_STATS_BASIC:
			if (length < sizeof(basic->bytes) + sizeof(u32))
				break;
			counters->bytes = basic->bytes;
			counters->packets = basic->packets;
			break;
		case TCA_STATS_PKT64:
			if (length == sizeof(u64))
				counters->packets = mnl_attr_get_u64(attr);
			break;
		case TCA_STATS_QUEUE:
			if (length >= sizeof(*queue))
				counters->drops = queue->drops;
		}
	}
}

/*
 * Add the increase of a counter to @total. A counter that decreased was reset.
 * Returns whether it changed.
 */
static bool accumulate(u64 *total, u64 *previous, u64 current)
{
	u64 base = current < *previous ? 0 : *previous;

	*previous = current;
	*total += current - base;
	return current != base;
}

static int read_class(const struct nlmsghdr *message, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(message);
	const struct reading *reading = data;
	u32 number = tc->tcm_handle & 0xffff;
	struct htb_flow *flow = &reading->htb->flows[number];
	struct htb_counters current = {}, *previous;
	const struct nlattr *attr;
	bool changed;

	if (number >= HTB_NUMBERS ||
	    TC_H_MAJ(tc->tcm_handle) != reading->device->handle)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, message, sizeof(*tc))
		if (mnl_attr_get_type(attr) == TCA_STATS2)
			parse_counters(attr, &current);
	previous = &reading->device->counters[number];
	changed = accumulate(&flow->use.bytes, &previous->bytes, current.bytes);
	changed |= accumulate(&flow->use.packets, &previous->packets,
			      current.packets);
	changed |=
		accumulate(&flow->use.drops, &previous->drops, current.drops);
	if (changed)
		flow->use.last = reading->htb->read_at;
	return MNL_CB_OK;
}

/**
 * htb_read() - read the counters of a flow
 * @htb: from htb_open()
 * @key: the flow
 * @use: they are added to it
 *
 * Return: whether the flow is known.
 */
bool htb_read(struct htb *htb, const struct rates_key *key,
	      struct enforce_use *use)
{
	const struct htb_flow *flow = find_flow(htb, key);
	u64 now = clock_now();
	size_t n;

	expire(htb, now);
	/* A dump has the counters of all flows. */
	if (now - htb->read_at >= READ_INTERVAL) {
		htb->read_at = now;
		for (n = 0; n < htb->device_count; n++) {
			struct htb_device *device = &htb->devices[n];
			struct tcmsg about = htb_below(device);
			struct reading reading = { htb, device };

			tc_dump(RTM_GETTCLASS, &about, read_class, &reading);
		}
	}
	if (!flow)
		return false;
	use->bytes += flow->use.bytes;
	use->packets += flow->use.packets;
	use->drops += flow->use.drops;
	use->last = fp_max64(use->last, flow->use.last);
	return true;
}
